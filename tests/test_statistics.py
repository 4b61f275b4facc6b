"""Statistics against NumPy in double precision, however the data comes: whole, in pieces, strided, from two sides."""

from __future__ import annotations

import itertools
import json
import math
import sys
import tracemalloc
from collections import Counter
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import npyflow as nf
from npyflow._core.errors import MissingDependencyError, OptionError
from npyflow._core.spec import ArraySpec
from npyflow._flow.stats import Stats, conclude
from npyflow._read import moments
from npyflow._read.moments import Moments
from npyflow._read.statistics import ChannelStats, ClassCounts, ComponentStats, Tally

NUMBERS = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", ">f4", ">i2"]
FLOATS = ("mean", "std", "min", "max")


def spec(shape, dtype="f4"):
    return ArraySpec(shape, np.dtype(dtype))


def exact(values):
    """Count, mean, deviation, least and greatest of the finite ones, in fractions."""
    finite = [value for value in np.asarray(values).ravel().tolist() if math.isfinite(value)]
    if not finite:
        return [0, *[math.nan] * 4]
    numbers = [Fraction(value) for value in finite]
    mean = sum(numbers) / len(numbers)
    around = sum((number - mean) ** 2 for number in numbers) / len(numbers)
    return [len(finite), float(mean), math.sqrt(around), float(min(finite)), float(max(finite))]


def assert_moments(got, values):
    expected = exact(values)
    assert got[0] == expected[0]
    if expected[0]:
        largest = max(abs(expected[3]), abs(expected[4]))
        np.testing.assert_allclose(got[1], expected[1], rtol=1e-12, atol=1e-14 * largest)
        np.testing.assert_allclose(got[2], expected[2], rtol=1e-12, atol=1e-14 * largest)
    np.testing.assert_array_equal(got[3:], expected[3:])


def assert_like_numpy(found, x, rtol=1e-12):
    """Compare with two passes in float64, along the axis on which NumPy sums in pairs and loses nothing."""
    wide = np.ascontiguousarray(x.astype(np.float64).reshape(-1, x.shape[-1]).T)
    assert found.count == wide.size
    for name in FLOATS:
        np.testing.assert_allclose(getattr(found, name), getattr(wide, name)(), rtol=rtol, err_msg=name)
        np.testing.assert_allclose(getattr(found.channels, name), getattr(wide, name)(axis=1), rtol=rtol, err_msg=name)
    assert (found.channels.count == wide.shape[1]).all()


def tallied(x, dtype=None):
    tally = Tally(ArraySpec(x.shape[1:], np.dtype(dtype or x.dtype)))
    tally.add(x)
    return tally.stats()


@st.composite
def arrays(draw):
    dtype = np.dtype(draw(st.sampled_from(NUMBERS)))
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=7))
    if dtype.kind == "f":
        bound = 60000.0 if dtype.itemsize == 2 else 2.0**40
        elements = st.floats(-bound, bound, width=8 * dtype.itemsize) | st.sampled_from([math.nan, math.inf, -math.inf])
        if draw(st.booleans()):
            elements = st.floats(1000, 1001, width=8 * dtype.itemsize)
    else:
        elements = hnp.from_dtype(dtype.newbyteorder("="))
    x = draw(hnp.arrays(dtype.newbyteorder("="), shape, elements=elements)).astype(dtype)
    if draw(st.booleans()):
        x = np.asfortranarray(x)
    if draw(st.booleans()):
        x = x[::-1]
    return x


# So small that an example of a few items has several blocks, folds and tiles. No tile is narrower than a fold.
small = st.builds(
    lambda block, width, more: {"BLOCK": block, "_WIDTH": width, "_TILE": width + more},
    st.integers(1, 40),
    st.integers(1, 8),
    st.integers(0, 2),
)


@settings(max_examples=150, deadline=None)
@given(arrays(), small, st.booleans(), st.integers(1, 4), st.integers(0, 2**32))
def test_moments_are_those_of_the_whole(x, small, channels, sides, seed):
    rng = np.random.default_rng(seed)
    width = x.shape[-1] if channels else None
    parts = [Moments(width) for _ in range(sides)]
    cuts = sorted(rng.integers(0, len(x) + 1, 3).tolist())
    pieces = [x] if x.ndim == 1 and channels else [x[a:b] for a, b in itertools.pairwise([0, *cuts, len(x)])]
    with mock.patch.multiple(moments, **small):
        for piece in pieces:
            parts[rng.integers(sides)].add(piece)
        first, *rest = parts
        for other in rest:
            first.merge(other)
    assert_moments(first.whole(), x)
    flat = x.astype(np.float64)
    assert first.nan == np.isnan(flat).sum()
    assert first.inf == np.isinf(flat).sum()
    if channels:
        table = first.channels()
        assert table.shape == (5, x.shape[-1])
        for column, got in enumerate(table.T):
            assert_moments(got, x[..., column])


@pytest.mark.parametrize("shape", [(5000, 64), (70, 9, 3), (40000, 1), (3, 30000), (6, 100, 100, 3)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "u1", "i4", "?"])
def test_shapes_as_they_come(shape, dtype):
    x = (np.random.default_rng(1).normal(size=shape) * 40 + 100).clip(0, 255).astype(dtype)
    if dtype == "?":
        x = np.random.default_rng(1).random(shape) < 0.3
    assert_like_numpy(tallied(x), x)


def test_a_long_last_axis_is_a_signal_without_channels():
    x = np.random.default_rng(1).normal(size=(3, 40_000)).astype("f4")
    stats = tallied(x)
    assert stats.channels is None
    np.testing.assert_allclose([stats.mean, stats.std], [x.astype("f8").mean(), x.astype("f8").std()], rtol=1e-9)


def test_dates_have_no_mean():
    assert nf.rows(np.array(["2020-01-01", "NaT"], "M8[D]")).stats()[""] is None


def test_a_large_mean_costs_no_digits():
    x = np.random.default_rng(0).normal(1e6, 1.0, (50_000, 5)).astype(np.float32)
    assert_like_numpy(tallied(x), x)


def test_half_precision_neither_overflows_nor_rounds():
    x = np.random.default_rng(0).normal(100.0, 1.0, (100_000, 1)).astype(np.float16)
    assert_like_numpy(tallied(x), x)


@pytest.mark.parametrize("start", [0.0, 1.0, 1e8, -3e5])
def test_data_that_drifts_away(start):
    """The shortcut for means near zero is left when it no longer holds, in the middle of the data."""
    x = (start + np.linspace(0, 1, 1_200_000) ** 8 * 1e6 + np.random.default_rng(0).normal(size=1_200_000))[:, None]
    tally = Tally(spec((1,), "f8"))
    for part in np.array_split(x, 37):
        tally.add(part)
    assert_like_numpy(tally.stats(), x)


@pytest.mark.parametrize("outlier", [1e6, -1e12])
def test_one_value_far_from_all_others(outlier):
    x = np.random.default_rng(0).normal(size=(300_000, 2))
    x[12_345, 1] = outlier
    assert_like_numpy(tallied(x), x)


@pytest.mark.parametrize("value", [0.1, 1 / 3, -1e300, 5e-324, 16777217.0, 0.0])
@pytest.mark.parametrize("parts", [1, 7])
def test_what_never_changes_has_no_deviation_at_all(value, parts):
    x = np.random.default_rng(0).normal(size=(300_001, 3))
    x[:, 1] = value
    tally = Tally(spec((3,), "f8"))
    for part in np.array_split(x, parts):
        tally.add(part)
    found = tally.stats()
    assert found.constant == (1,)
    assert [getattr(found.channels, name)[1] for name in FLOATS] == [value, 0.0, value, value]
    alone = tallied(x[:, 1:2])
    assert (alone.mean, alone.std) == (value, 0.0)


@pytest.mark.parametrize("other", [0.0, 1e3])
def test_what_changes_once_and_hardly(other):
    """Each part holds one value, and the squares of either would drown the difference."""
    x = np.random.default_rng(0).normal(other, size=(600_000, 2))
    x[:300_000, 1], x[300_000:, 1] = 1e6 + 0.1, 1e6 + 0.101
    tally = Tally(spec((2,), "f8"))
    for part in np.split(x, 4):
        tally.add(part)
    assert_like_numpy(tally.stats(), x)


def test_a_constant_beside_nan_is_constant():
    x = np.full((1000, 2), 0.1)
    x[::3, 0] = np.nan
    x[:, 1] = np.arange(1000)
    found = tallied(x)
    assert found.constant == (0,)
    assert found.channels.mean[0] == 0.1
    assert found.nan == 334


def test_nan_and_infinity_are_counted_apart():
    x = np.random.default_rng(0).normal(5.0, 2.0, (4000, 6)).astype(np.float32)
    clean = x.astype(np.float64)
    x[::7, 1] = clean[::7, 1] = np.nan
    x[3, 2], x[4, 2] = np.inf, -np.inf
    clean[3:5, 2] = np.nan
    x[:, 4] = clean[:, 4] = np.nan
    found = tallied(x)
    assert found.nan == np.isnan(x).sum()
    assert found.inf == 2
    assert found.count == np.isfinite(clean).sum()
    for column in range(6):
        assert_moments([getattr(found.channels, name)[column] for name in ("count", *FLOATS)], clean[:, column])
    assert_moments([getattr(found, name) for name in ("count", *FLOATS)], clean)
    assert found.channels.count.tolist() == np.isfinite(clean).sum(axis=0).tolist()
    assert found.constant == ()


@pytest.mark.parametrize("x", [np.empty((0, 3), np.float32), np.full((5, 3), np.nan, np.float32), np.empty((4, 0))])
def test_nothing_finite(x):
    found = tallied(x)
    assert found.count == 0
    assert found.nan == x.size
    assert all(math.isnan(getattr(found, name)) for name in FLOATS)
    assert all(np.isnan(getattr(found.channels, name)).all() for name in FLOATS)
    assert found.channels.count.tolist() == [0] * x.shape[1]


def test_numbers_too_large_to_square():
    """As in NumPy: no deviation, and here no warning."""
    x = np.array([[1e200, 1.0], [-1e200, 3.0]])
    found = tallied(x)
    assert found.channels.std.tolist() == [math.inf, 1.0]
    assert (found.min, found.max, found.inf) == (-1e200, 1e200, 0)
    assert tallied(np.array([[1.7e308], [1.6e308], [-1.7e308]])).max == 1.7e308


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_small_floats(name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.random.default_rng(0).normal(size=(3000, 4)).astype(getattr(ml_dtypes, name))
    assert_like_numpy(tallied(x), x.astype(np.float32))
    x[5, 2] = np.nan
    assert tallied(x).nan == 1


@pytest.mark.parametrize("kind", ["contiguous", "fortran", "columns"])
def test_memory_does_not_grow_with_the_data(kind):
    x = np.ones((100_000, 96), np.float32)
    if kind == "fortran":
        x = np.asfortranarray(x)
    elif kind == "columns":
        x = x[:, 16:80]
    tally = Tally(spec(x.shape[1:]))
    tracemalloc.start()
    try:
        tally.add(x)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8e6
    assert tally.stats().std == 0


# Examples of different lengths


def test_examples_of_different_lengths_keep_their_channels():
    rng = np.random.default_rng(0)
    examples = [rng.normal(size=(int(steps), 5)).astype(np.float32) for steps in rng.integers(0, 200, 300)]
    tally = Tally(spec((None, 5)))
    for start in range(0, 300, 32):
        tally.add(examples[start : start + 32])
    assert_like_numpy(tally.stats(), np.concatenate(examples))


@pytest.mark.parametrize("shape", [(None,), (3, None)])
def test_no_channels_where_the_last_axis_varies(shape):
    rng = np.random.default_rng(0)
    sizes = [tuple(int(rng.integers(1, 400)) if size is None else size for size in shape) for _ in range(500)]
    examples = [rng.normal(size=size) for size in sizes]
    tally = Tally(spec(shape, "f8"))
    with mock.patch.object(moments, "BLOCK", 5000):
        tally.add(examples)
    found = tally.stats()
    assert found.channels is None
    together = np.concatenate([example.ravel() for example in examples])
    assert found.count == together.size
    np.testing.assert_allclose([found.mean, found.std], [together.mean(), together.std()], rtol=1e-12)


def test_an_empty_batch_is_no_news():
    tally = Tally(spec((None, 5)))
    tally.add([])
    tally.add([np.empty((0, 5), np.float32)])
    assert tally.stats().count == 0


# Classes


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([3, 1, 1, -2]), {-2: 1, 1: 2, 3: 1}),
        (np.array([2**64 - 1, 0], np.uint64), {0: 1, 2**64 - 1: 1}),
        (np.array([200, 200, 7], np.uint8), {7: 1, 200: 2}),
        (np.array([True, False, True]), {False: 1, True: 2}),
        (np.array(["b", "ä", "b", ""]), {"": 1, "b": 2, "ä": 1}),
        (np.array([b"x", b"\xff"]), {b"x": 1, b"\xff": 1}),
    ],
)
def test_scalars_are_counted_by_value(values, expected):
    found = tallied(values)
    assert found.classes == expected
    assert list(found.classes) == list(expected)
    assert [type(value) for value in found.classes] == [type(value) for value in expected]
    assert found.count == len(values)
    assert found.channels is None
    again = ComponentStats.from_dict(json.loads(json.dumps(found.as_dict(), allow_nan=False)))
    assert again.classes == expected
    assert [type(value) for value in again.classes] == [type(value) for value in expected]


@pytest.mark.parametrize("dtype", [np.int64, np.uint16, "U5", "S5"])
@pytest.mark.parametrize("count", [1000, 1001])
def test_too_many_classes_are_none(dtype, count):
    values = np.arange(count).astype(dtype)
    one, other, whole = ClassCounts(), ClassCounts(), ClassCounts()
    one.add(values[:600])
    other.add(values[500:])
    whole.add(values)
    whole.add(values[:3])
    one.merge(other)
    if count > 1000:
        assert one.counts() is None
        assert whole.counts() is None
        one.add(values[:1])
        other.merge(one)
        assert other.counts() is None
    else:
        assert one.counts() == Counter(values[:600].tolist()) + Counter(values[500:].tolist())
        assert whole.counts() == Counter(values.tolist()) + Counter(values[:3].tolist())


def test_where_there_are_no_classes():
    assert tallied(np.arange(5.0)).classes is None
    assert tallied(np.arange(5)[:, None]).classes is None
    assert tallied(np.arange(0)).classes == {}


def test_text_has_classes_only():
    found = tallied(np.array(["a", "b", "a"]))
    assert (found.count, found.nan, found.inf) == (3, 0, 0)
    assert math.isnan(found.mean)
    assert tallied(np.array([["a", "b"]])) is None


def test_complex_numbers_have_no_statistics():
    assert tallied(np.ones((3, 2), np.complex64)) is None
    assert tallied(np.ones(3, np.complex128)) is None


def test_two_threads_worth_of_tallies():
    values = np.random.default_rng(0).integers(0, 50, 5000)
    one, other = Tally(spec((), "i8")), Tally(spec((), "i8"))
    one.add(values[:1234])
    other.add(values[1234:])
    before = other.stats().as_dict()
    one.merge(other)
    assert other.stats().as_dict() == before
    assert one.stats().classes == dict(sorted(Counter(values.tolist()).items()))
    np.testing.assert_allclose([one.stats().mean, one.stats().std], [values.mean(), values.std()], rtol=1e-12)
    texts = [Tally(spec((), "U3")), Tally(spec((), "U3"))]
    for text in texts:
        text.add(np.array(["a", "b"]))
    texts[0].merge(texts[1])
    assert (texts[0].stats().count, texts[0].stats().classes) == (4, {"a": 2, "b": 2})


# JSON

anything = st.floats(allow_nan=True, allow_infinity=True)
facts = st.builds(
    ComponentStats,
    count=st.integers(0, 2**60),
    mean=anything,
    std=anything,
    min=anything,
    max=anything,
    nan=st.integers(0, 2**60),
    inf=st.integers(0, 2**60),
    classes=st.none()
    | st.dictionaries(st.integers(), st.integers(0))
    | st.dictionaries(st.booleans(), st.integers(0))
    | st.dictionaries(st.text(), st.integers(0))
    | st.dictionaries(st.binary(), st.integers(0)),
    channels=st.none()
    | st.integers(0, 4).flatmap(
        lambda width: st.builds(
            ChannelStats,
            count=hnp.arrays(np.int64, width),
            **{name: hnp.arrays(np.float64, width) for name in FLOATS},
        )
    ),
)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.text(), st.none() | facts), st.integers(0, 2**40))
def test_statistics_travel_through_json(components, examples):
    stats = Stats(examples=examples, components=components)
    text = json.dumps(stats.as_dict(), allow_nan=False)
    again = Stats.from_dict(json.loads(text))
    assert json.dumps(again.as_dict(), allow_nan=False) == text
    for name, one in components.items():
        if one is not None and one.channels is not None:
            np.testing.assert_array_equal(again[name].channels.mean, one.channels.mean)
            assert again[name].channels.count.dtype == np.int64


@pytest.mark.parametrize(
    "damage",
    [
        lambda facts: facts.pop("mean"),
        lambda facts: facts.update(count=1.5),
        lambda facts: facts.update(std="much"),
        lambda facts: facts.update(min=None),
        lambda facts: facts["channels"]["mean"].pop(),
        lambda facts: facts["channels"].update(count=None),
        lambda facts: facts.update(classes={"kind": "float", "values": [1.0], "counts": [1]}),
        lambda facts: facts.update(classes={"kind": "int", "values": [1, 2], "counts": [1]}),
        lambda facts: facts.update(classes={"kind": "int", "values": [1]}),
        lambda facts: facts.update(classes=[1]),
    ],
)
def test_damaged_json_is_noticed(damage):
    stats = tallied(np.arange(6.0).reshape(2, 3)).as_dict()
    damage(stats)
    with pytest.raises((ValueError, TypeError, KeyError, AttributeError)):
        ComponentStats.from_dict(stats)


# A flow's


def some_stats():
    rng = np.random.default_rng(0)
    x, y = rng.normal(7.0, 3.0, (100, 4)).astype(np.float32), rng.integers(0, 3, 100)
    x[:, 2] = 5.0
    x[1, 0] = np.nan
    sounds = [rng.normal(size=int(size)) for size in rng.integers(0, 30, 100)]
    specs = [spec((4,)), spec((), "i8"), spec((None,), "f8"), spec((2,), "c8"), spec((), "U3")]
    names = ["x", "y", "sound", "z", "who"]
    who, z = np.array(["ann", "bob"] * 50), np.zeros((100, 2), np.complex64)
    batches = [
        [x[at : at + 32], y[at : at + 32], sounds[at : at + 32], z[at : at + 32], who[at : at + 32]]
        for at in range(0, 100, 32)
    ]
    return batches, specs, names, np.concatenate(sounds)


def gather(batches, specs, names):
    tallies = [Tally(one) for one in specs]
    for batch in batches:
        for tally, part in zip(tallies, batch, strict=True):
            tally.add(part)
    return conclude(sum(len(batch[0]) for batch in batches), tallies, names)


def test_batches_of_several_components():
    batches, specs, names, sounds = some_stats()
    stats = gather(batches, specs, names)
    assert stats.examples == 100
    assert list(stats.components) == names
    assert stats["z"] is None
    assert stats["who"].classes == {"ann": 50, "bob": 50}
    assert stats["x"].nan == 1
    assert stats["x"].constant == (2,)
    assert stats["y"].count == 100
    np.testing.assert_allclose([stats["sound"].mean, stats["sound"].std], [sounds.mean(), sounds.std()], rtol=1e-12)
    again = Stats.from_dict(json.loads(json.dumps(stats.as_dict(), allow_nan=False)))
    assert again.as_dict() == stats.as_dict()


def test_a_name_that_is_not_there():
    batches, specs, names, _ = some_stats()
    stats = gather(batches, specs, names)
    with pytest.raises(OptionError, match=r"stats\['X'\].*'x', 'y', 'sound', 'z', 'who'"):
        stats["X"]


def test_stats_print_as_a_table():
    batches, specs, names, _ = some_stats()
    lines = repr(gather(batches, specs, names)).splitlines()
    assert lines[0] == "100 examples"
    assert lines[1].split() == ["count", "mean", "std", "min", "max", "NaN", "classes", "channels"]
    assert [line.split()[:2] for line in lines[2:]] == [
        ["x", "399"],
        ["y", "100"],
        ["sound", f"{sum(len(example) for batch in batches for example in batch[2]):,}"],
        ["z", "none"],
        ["who", "100"],
    ]
    assert lines[2].split()[-2:] == ["1", "4"]
    assert lines[-1].split() == ["who", "100", "2"]
    assert repr(conclude(0, [Tally(spec((3,)))], [""])).splitlines()[0] == "0 examples"


@pytest.mark.parametrize(
    ("name", "axis", "message"),
    [
        ("x", 1, r"normalization\('x', axis=1\): expected axis=-1.*or None"),
        ("x", True, r"axis=True\): expected axis=-1"),
        ("y", -1, r"normalization\('y', axis=-1\): there is no last axis of one length; pass axis=None"),
        ("sound", -1, "there is no last axis of one length"),
        ("z", None, r"normalization\('z', axis=None\): expected a component of real numbers.*complex"),
        ("who", None, "text or complex"),
        ("gone", -1, r"no mean in channels 0, 1, because no value is finite"),
        ("gone", None, r"axis=None\): no mean, because no value is finite"),
        ("w", -1, r"stats\['w'\]: there is no such component"),
    ],
)
def test_what_cannot_be_normalized(name, axis, message):
    batches, specs, names, _ = some_stats()
    stats = gather(batches, specs, names)
    stats.components["gone"] = tallied(np.full((3, 2), np.nan))
    with pytest.raises(OptionError, match=message):
        stats.normalization(name, axis)


@pytest.mark.parametrize("missing", ["keras", "tensorflow"])
def test_without_keras_a_message_says_what_to_install(missing, monkeypatch):
    import npyflow._adapters

    monkeypatch.delitem(sys.modules, "npyflow._adapters.normalization", raising=False)
    monkeypatch.delattr(npyflow._adapters, "normalization", raising=False)
    for module in [module for module in sys.modules if module.split(".")[0] == "keras"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, missing, None)
    if missing == "tensorflow":
        finder = mock.Mock(find_spec=mock.Mock(side_effect=ModuleNotFoundError("No module", name="tensorflow")))
        monkeypatch.setattr(sys, "meta_path", [finder])
    stats = conclude(0, [Tally(spec((3,)))], ["x"])
    stats.components["x"] = tallied(np.arange(6.0).reshape(2, 3))
    with pytest.raises(MissingDependencyError, match=r"normalization needs Keras.*npyflow\[tf\]"):
        stats.normalization("x")


# Through a flow


@pytest.mark.parametrize("count", [1, 7, 40_000])
def test_a_flow_is_measured_once(tmp_path, monkeypatch, count):
    x = np.random.default_rng(0).normal(3, 2, (count, 5)).astype(">f4")
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", np.arange(count) % 3)
    flow = nf.rows((tmp_path / "x.npy", tmp_path / "y.npy"))
    stats = flow.stats()
    np.testing.assert_allclose(stats["[0]"].channels.mean, x.astype("f8").mean(0), rtol=1e-12)
    np.testing.assert_allclose(stats["[0]"].channels.std, x.astype("f8").std(0), rtol=1e-9, atol=1e-12)
    assert stats["[1]"].classes == {label: len(range(label, count, 3)) for label in range(min(3, count))}
    assert stats.examples == count
    assert flow.stats() is stats
    assert flow.stats().as_dict() == nf.rows((tmp_path / "x.npy", tmp_path / "y.npy")).stats().as_dict()
    flow.save(tmp_path / "flow.json")
    # Nothing is read: the file is not even there.
    (tmp_path / "x.npy").unlink()
    assert nf.load(tmp_path / "flow.json").stats().as_dict() == stats.as_dict()


def test_files_of_different_lengths_and_labels(tmp_path):
    rng = np.random.default_rng(1)
    arrays = {f"{at}": rng.random((int(rng.integers(1, 40)), 3)) for at in range(30)}
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    flow = nf.files(tmp_path, labels=lambda key: "odd" if int(key) % 2 else "even")
    stats = flow[:20].stats()
    values = np.concatenate([arrays[str(at)] for at in range(20)])
    np.testing.assert_allclose(stats[""].channels.mean, values.mean(0), rtol=1e-12)
    assert stats[""].count == values.size
    assert stats["label"].classes == {0: 10, 1: 10}
    train, _ = flow.split(0.7)
    assert train.stats().examples == len(train)


def test_a_mapped_flow_is_measured_as_it_is_made():
    flow = nf.rows(np.arange(12.0).reshape(6, 2)).map(lambda row, rng: {"sum": row.sum(), "twice": row * 2})
    stats = flow.stats(progress=True)
    assert stats["sum"].mean == np.arange(12).reshape(6, 2).sum(1).mean()
    assert stats["twice"].channels.max.tolist() == [20.0, 22.0]


def test_an_error_of_a_pass_names_the_file(tmp_path):
    for at in range(5):
        np.save(tmp_path / f"{at}.npy", np.zeros(3))
    flow = nf.files(tmp_path)
    np.save(tmp_path / "3.npy", np.zeros(4))
    with pytest.raises(nf.FileChangedError, match=r"3\.npy"):
        flow.stats()
