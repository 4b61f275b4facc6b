"""`Flow.map`: a function of each example, the same by (seed, epoch, index) however it is read."""

from __future__ import annotations

import functools
import pickle
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npyflow as nf
from helpers import same, sample, write, write_npz

N = 40
X, Y = sample(N, (4, 3), "f4"), np.arange(N)
SHUFFLES = [False, True, nf.Shuffle(block=4, window=2)]


def draw(example: Any, rng: np.random.Generator) -> Any:
    """The number of the example, and what the generator says."""
    return np.int64(example), rng.integers(2**62)


def jitter(example: Any, rng: np.random.Generator) -> Any:
    """What a user does: flip image and mask alike, add noise to the image."""
    image, mask = example["image"], example["mask"]
    if rng.random() < 0.5:
        image, mask = image[::-1], mask[::-1]
    return {"image": image + rng.normal(size=image.shape).astype("f4"), "mask": mask}


def double(example: Any, rng: Any) -> Any:
    return example * 2


def drawn(flow: nf.Flow, batch_size: int = 1, **options: Any) -> dict[int, int]:
    """What each example drew in one epoch."""
    found: dict[int, int] = {}
    for index, (number, value) in flow.batches(batch_size, with_index=True, **options):
        assert index.tolist() == number.tolist()
        found |= dict(zip(number.tolist(), value.tolist(), strict=True))
    return found


DRAWS = nf.rows(Y).map(draw)
TABLE = {epoch: drawn(DRAWS, epoch=epoch) for epoch in range(3)}


def ragged_files(folder: Any, lengths: Any = (3, 9, 1, 6)) -> list[np.ndarray[Any, Any]]:
    """Files 0, 1, ... of these lengths, filled with 10 * number + step."""
    arrays = [np.arange(length, dtype="f4") + 10 * n for n, length in enumerate(lengths)]
    for n, array in enumerate(arrays):
        write(folder / f"{n}.npy", array)
    return arrays


# The generator


@settings(max_examples=60, deadline=None)
@given(
    batch_size=st.integers(1, N + 3),
    shuffle=st.sampled_from(SHUFFLES),
    seed=st.integers(-(2**40), 2**40),
    epoch=st.integers(0, 2),
    count=st.integers(1, 5),
    start=st.integers(0, 3),
    drop=st.booleans(),
)
def test_the_order_of_reading_does_not_matter(batch_size, shuffle, seed, epoch, count, start, drop):
    found: dict[int, int] = {}
    for index in range(count):
        steps = (len(range(index, N, count)) + (0 if drop else batch_size - 1)) // batch_size
        found |= drawn(
            DRAWS,
            batch_size,
            shuffle=shuffle,
            seed=seed,
            epoch=epoch,
            shard=(index, count),
            start_step=min(start, steps),
            drop_remainder=drop,
        )
    assert found.items() <= TABLE[epoch].items()
    if start == 0 and not drop:
        assert found == TABLE[epoch]


def test_examples_by_number_are_those_of_epoch_0():
    want = list(TABLE[0].items())
    assert [(int(number), int(value)) for number, value in DRAWS] == want
    assert [(int(a), int(b)) for a, b in (DRAWS[at] for at in range(N))] == want
    assert [(int(a), int(b)) for a, b in DRAWS.__getitems__([5, -1, 5])] == [want[5], want[-1], want[5]]
    assert int(DRAWS[-1][1]) == TABLE[0][N - 1]


def test_threads_draw_the_same():
    start = threading.Barrier(8)

    def read(thread: int) -> dict[int, int]:
        start.wait()
        return drawn(DRAWS, 1 + thread, shuffle=True, seed=thread, epoch=1)

    with ThreadPoolExecutor(8) as pool:
        assert all(found == TABLE[1] for found in pool.map(read, range(8)))


def test_examples_epochs_and_seeds_differ():
    tables = [*TABLE.values(), *(drawn(nf.rows(Y).map(draw, seed=seed)) for seed in (1, 2, -1, 2**70))]
    tables.append(drawn(nf.rows(Y).map(draw, seed=1), epoch=1))
    values = [value for table in tables for value in table.values()]
    assert len(set(values)) == len(tables) * N


def test_the_seed_of_the_order_is_another():
    assert drawn(DRAWS, 8, shuffle=True, seed=99) == TABLE[0]


def test_draws_are_as_random_as_numpys():
    flow = nf.rows(np.arange(4000)).map(lambda x, rng: rng.random(2), spec=nf.ArraySpec((2,), np.dtype("f8")))
    values = np.concatenate(list(flow.batches(500)))
    for column in values.T:
        counts = np.histogram(column, 20, (0, 1))[0]
        assert ((counts - 200) ** 2 / 200).sum() < 50
        assert abs(np.corrcoef(column[:-1], column[1:])[0, 1]) < 0.08
    assert abs(np.corrcoef(values.T)[0, 1]) < 0.08
    following = np.concatenate(list(flow.batches(500, epoch=1)))
    assert abs(np.corrcoef(values[:, 0], following[:, 0])[0, 1]) < 0.08


def test_the_generator_is_numpys():
    seen = []
    flow = nf.rows(Y).map(lambda x, rng: seen.append(rng) or x)
    list(flow.batches(10))
    assert all(isinstance(rng, np.random.Generator) for rng in seen)
    # The first is that of learning.
    assert len({id(rng.bit_generator) for rng in seen[1:]}) == len(seen) - 1 or len(seen) >= N


@pytest.mark.parametrize("seed", [None, "x", 1.5])
def test_no_seed(seed):
    with pytest.raises(nf.OptionError, match="seed="):
        nf.rows(Y).map(draw, seed=seed)


@pytest.mark.parametrize("fn", [None, "double", 3])
def test_no_function(fn):
    with pytest.raises((nf.OptionError, TypeError), match=r"map"):
        nf.rows(Y).map(fn)


def test_features_and_label_share_the_draw():
    image = sample(N, (8, 5))
    flow = nf.rows({"image": image, "mask": image.astype("f8")}).map(jitter)
    flips = 0
    for index, batch in flow.batches(7, with_index=True, shuffle=True):
        for at, got, mask in zip(index, batch["image"], batch["mask"], strict=True):
            flipped = not np.array_equal(mask, image[at])
            flips += flipped
            same(mask, (image[at][::-1] if flipped else image[at]).astype("f8"))
            rng_part = got - mask
            # The noise has mean 0; had only one been flipped, the difference would correlate with the image.
            assert abs(np.corrcoef(rng_part.ravel(), mask.ravel())[0, 1]) < 0.75
    assert 8 < flips < 32


# What goes in and comes out


def test_values_are_those_of_the_function(tmp_path):
    for n in range(6):
        write(tmp_path / "x" / f"{n}.npy", X[n])
        write_npz(tmp_path / "z" / f"{n}.npz", a=X[n])
    path = write(tmp_path / "all.npy", X[:6])
    flows = [
        nf.rows(X[:6]),
        *(nf.rows(path, access=access) for access in ("ram", "mmap", "read")),
        nf.files(tmp_path / "x"),
        nf.files(tmp_path / "z", members="a"),
    ]
    for flow in flows:
        mapped = flow.map(lambda x, rng: x.sum(0) * 2)
        assert len(mapped) == 6
        assert (mapped.spec.shape, mapped.spec.dtype) == ((3,), np.dtype("f4"))
        want = [x.sum(0) * 2 for x in X[:6]]
        for got, row in zip(mapped, want, strict=True):
            same(got, row)
        same(np.concatenate(list(mapped.batches(4))), np.stack(want))
        assert np.asarray(mapped.keys).tolist() == np.asarray(flow.keys).tolist()


def test_the_function_gets_what_the_flow_gives(tmp_path):
    for n in range(4):
        write(tmp_path / "a" / "cat" / f"{n}.npy", X[n])
    flows = [
        nf.rows(X),
        nf.rows({"a": (X, Y), "b": {"c": Y.astype("u1")}}),
        nf.rows(np.array(["ab", "é"])),
        nf.files(tmp_path / "a", labels="directory", sample_weight=lambda key: 2),
        nf.windows(X[:, 0], length=3, horizon=1),
        nf.files(tmp_path / "a", crop=nf.Crop((2, 2))),
    ]
    for flow in flows:
        seen = []
        flow.map(lambda example, rng, seen=seen: (seen.append(example), example)[1])[1]
        want = flow[1]
        got = seen[-1]

        def check(got: Any, want: Any) -> None:
            assert type(got) is type(want)
            if isinstance(want, dict):
                assert list(got) == list(want)
                got, want = tuple(got.values()), tuple(want.values())
            if isinstance(want, tuple):
                assert len(got) == len(want)
                for one, other in zip(got, want, strict=True):
                    check(one, other)
            else:
                same(got, want)

        check(got, want)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x,
        lambda x: (x,),
        lambda x: (x, x[0]),
        lambda x: {"a": x},
        lambda x: {"b": x, "a": (x[0], {"c": x.astype("i4")})},
        lambda x: ((x, (x,)), {"k": x}),
    ],
)
def test_nested_results(make):
    flow = nf.rows(X).map(lambda x, rng: make(x))
    for at in (0, 7):
        got, want = flow[at], make(X[at])
        compare(got, want)
    whole = [make(x) for x in X[:5]]
    got = next(iter(flow.batches(5)))
    compare(got, stack(whole))


def compare(got: Any, want: Any) -> None:
    if isinstance(want, dict):
        assert list(got) == list(want)
        for name in want:
            compare(got[name], want[name])
    elif isinstance(want, tuple):
        assert type(got) is tuple
        assert len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            compare(one, other)
    else:
        same(got, want)


def stack(examples: list[Any]) -> Any:
    first = examples[0]
    if isinstance(first, dict):
        return {name: stack([one[name] for one in examples]) for name in first}
    if isinstance(first, tuple):
        return tuple(stack(list(column)) for column in zip(*examples, strict=True))
    return np.stack(examples)


@pytest.mark.parametrize(
    ("value", "shape", "dtype"),
    [
        (3, (), "i8"),
        (2.5, (), "f8"),
        (True, (), "?"),
        (np.float32(1), (), "f4"),
        (np.bool_(False), (), "?"),
        (1j, (), "c16"),
        (np.uint8(255), (), "u1"),
        (np.zeros((), ">f4"), (), "f4"),
        (np.zeros((2, 0), "i2"), (2, 0), "i2"),
        (np.arange(6, dtype=">i4").reshape(2, 3), (2, 3), "i4"),
        (np.asfortranarray(np.arange(6.0).reshape(2, 3)), (2, 3), "f8"),
        (np.broadcast_to(np.float32(2), (3, 2)), (3, 2), "f4"),
        (np.arange(12)[::-3], (4,), "i8"),
        (np.ones((1, 1, 1), bool), (1, 1, 1), "?"),
    ],
    ids=str,
)
def test_a_spec_is_learnt(value, shape, dtype):
    flow = nf.rows(Y).map(lambda x, rng: value)
    assert (flow.spec.shape, flow.spec.dtype) == (shape, np.dtype(dtype))
    same(flow[3], value)
    same(next(iter(flow.batches(4))), np.stack([np.asarray(value)] * 4))


@pytest.mark.parametrize("kind", ["U", "S"])
def test_text(kind):
    words = ["ab", "c", "", "längerer Text"] if kind == "U" else [b"ab", b"c", b"", b"\xff and more"]
    stored = np.array(words)
    flow = nf.rows(stored).map(lambda x, rng: (x, x))
    assert flow.spec[0].dtype.kind == kind
    for at, word in enumerate(words):
        assert flow[at][1].item() == word
    assert np.concatenate([batch[0] for batch in flow.batches(3)]).tolist() == words
    same_text = nf.rows(np.arange(3)).map(lambda n, rng: "ab" if kind == "U" else b"ab")
    assert same_text[2].item() == ("ab" if kind == "U" else b"ab")


def test_text_of_other_lengths_is_not_cut():
    words = ["ab", "c", "", "a long one"]
    flow = nf.rows(np.arange(4)).map(lambda n, rng: words[int(n)])
    try:
        got = [flow[at].item() for at in range(4)]
        batch = next(iter(flow.batches(4))).tolist()
    except nf.NpyflowError as error:
        assert "spec=" in str(error)  # noqa: PT017
        wide = nf.rows(np.arange(4)).map(lambda n, rng: words[int(n)], spec=nf.ArraySpec((), np.dtype("U10")))
        got = [wide[at].item() for at in range(4)]
        batch = next(iter(wide.batches(4))).tolist()
    assert got == batch == words


@pytest.mark.parametrize("value", [None, object(), np.array([None]), set(), [[1], [1, 2]], {}, (), {1: 2.0}])
def test_no_example(value):
    with pytest.raises(nf.NpyflowError, match="map"):
        nf.rows(Y).map(lambda x, rng: value)


def test_dates_are_refused_by_name():
    with pytest.raises(nf.NpyflowError, match=r"map, example 0: .*datetime64\[D\]"):
        nf.rows(Y).map(lambda x, rng: np.datetime64("2020-01-01", "D") + x)
    with pytest.raises(nf.NpyflowError, match=r"map, example 0: .* b .*object"):
        nf.rows(Y).map(lambda x, rng: {"a": x, "b": object()})


# The source is safe


@pytest.mark.parametrize("form", ["array", "ram", "mmap", "read", "files", "windows", "crop"])
def test_the_function_may_change_its_example(form, tmp_path):
    def spoil(example: Any, rng: Any) -> Any:
        assert example.flags.writeable
        example *= -1
        example[0] += 100
        return example

    x = X.copy()
    if form == "array":
        flow = nf.rows(x)
    elif form == "windows":
        flow = nf.windows(x, length=3)
    elif form in ("files", "crop"):
        for n in range(N):
            write(tmp_path / "d" / f"{n}.npy", x[n])
        flow = nf.files(tmp_path / "d", crop=nf.Crop((3,)) if form == "crop" else None)
    else:
        flow = nf.rows(write(tmp_path / "x.npy", x), access=form)
    before = [np.array(example) for example in flow]
    mapped = flow.map(spoil)
    want = [-example for example in before]
    for row in want:
        row[0] += 100
    for _ in range(2):
        for got, row in zip(mapped, want, strict=True):
            same(got, row)
        same(np.concatenate(list(mapped.batches(7))), np.stack(want))
    for got, row in zip(flow, before, strict=True):
        same(got, row)
    same(x, X)
    if form in ("ram", "mmap", "read"):
        same(np.load(tmp_path / "x.npy"), X)


KNOWN = sample(N, (6,))


def test_what_the_function_returns_stays_the_users():
    """Nobody writes to an array that the function looks up, nor to one that it keeps."""
    table = KNOWN.copy()
    flow = nf.rows(Y).map(lambda n, rng: table[int(n)])
    second = flow.map(double_in_place)
    for _ in range(2):
        same(np.concatenate(list(second.batches(7))), KNOWN * 2)
    same(second[3], KNOWN[3] * 2)
    same(table, KNOWN)
    for batch in flow.batches(1):
        batch[...] = 0
    flow[3][...] = 0
    same(table, KNOWN)


def double_in_place(x: Any, rng: Any) -> Any:
    x *= 2
    return x


def test_a_buffer_that_is_used_again_is_copied():
    buffer = np.zeros(3, "f4")

    def fill(x: Any, rng: Any) -> Any:
        buffer[...] = x[0]
        return buffer

    flow = nf.rows(X).map(fill)
    same(np.concatenate(list(flow.batches(8))), X[:, 0])
    same(np.stack(list(flow)), X[:, 0])
    same(np.stack(flow.__getitems__([3, 1])), X[[3, 1], 0])
    varying = nf.rows(X).map(fill, spec=nf.ArraySpec((None,), np.dtype("f4")))
    same(np.concatenate(list(varying.batches(8, pad=0.0))), X[:, 0])


@pytest.mark.parametrize("shape", [(3,), (None,)])
def test_a_function_may_keep_what_it_got_and_returned(shape):
    kept = []

    def keep(x: Any, rng: Any) -> Any:
        kept.append(x)
        return x

    flow = nf.rows(X[:, 0]).map(keep, spec=nf.ArraySpec(shape, np.dtype("f4")))
    for batch in flow.batches(8, pad=0.0 if shape == (None,) else None):
        batch[...] = 0
    same(np.stack(kept), X[:, 0])


def test_batches_are_yours_to_keep_and_change():
    flow = nf.rows(X).map(double)
    held = list(flow.batches(8, shuffle=True))
    copies = [batch.copy() for batch in held]
    again = list(flow.batches(8, shuffle=True))
    for batch, copy, second in zip(held, copies, again, strict=True):
        same(batch, copy)
        same(second, copy)
        batch[...] = 0


# Parts, and functions after functions


def test_map_twice():
    def add(x: Any, rng: np.random.Generator) -> Any:
        return x + rng.random()

    flow = nf.rows(Y.astype("f8")).map(add, seed=1).map(lambda x, rng: x * 2).map(add, seed=1)
    one = [float(v) for v in nf.rows(np.zeros(N)).map(add, seed=1)]
    found = np.array([float(v) for v in flow])
    # Functions with one seed do not draw the same numbers.
    two = found - [(y + a) * 2 for y, a in zip(Y, one, strict=True)]
    assert ((two >= 0) & (two < 1)).all()
    assert abs(np.corrcoef(one, two)[0, 1]) < 0.5


def test_a_part_of_a_map_is_a_map_of_a_part():
    flow = nf.rows(X)
    for index in (slice(5, 20), [3, 1, 1, 30], Y % 3 == 0):
        of_map, map_of = flow.map(double)[index], flow[index].map(double)
        assert np.asarray(of_map.keys).tolist() == np.asarray(map_of.keys).tolist()
        for got, other in zip(of_map, map_of, strict=True):
            same(got, other)
        for got, row in zip(of_map, X[index], strict=True):
            same(got, row * 2)
        assert of_map.spec == map_of.spec


@pytest.mark.parametrize("map_first", [True, False])
def test_the_draws_of_a_part_do_not_depend_on_the_way_it_is_read(map_first):
    index = [30, 2, 17, 5, 2]
    part = DRAWS[index] if map_first else nf.rows(Y)[index].map(draw)
    want = [tuple(map(int, example)) for example in part]
    assert [number for number, _ in want] == index
    found = {}
    for at, (number, value) in part.batches(2, shuffle=True, with_index=True):
        found |= {int(i): (int(a), int(b)) for i, a, b in zip(at, number, value, strict=True)}
    assert [found[at] for at in range(5)] == want


def test_a_part_counts_from_its_own_first_example():
    """As with_index does: what one calls index is the other's too."""
    index = [30, 2, 17]
    for part in (DRAWS[index], nf.rows(Y)[index].map(draw)):
        assert [int(number) for number, _ in part] == index
        assert [int(value) for _, value in part] == [TABLE[0][at] for at in range(3)]


def test_splits_and_folds_of_a_map():
    flow = nf.rows((X, Y)).map(lambda example, rng: (example[0] * 2, example[1]))
    plain = nf.rows((X, Y))
    for got, want in zip(flow.split(0.7, seed=3), plain.split(0.7, seed=3), strict=True):
        assert np.asarray(got.keys).tolist() == np.asarray(want.keys).tolist()
        same(got[0][0], want[0][0] * 2)
    for got, want in zip(flow.folds(4), plain.folds(4), strict=True):
        assert [np.asarray(part.keys).tolist() for part in got] == [np.asarray(part.keys).tolist() for part in want]


def test_map_of_windows():
    series = np.arange(30.0)
    flow = nf.windows(series, length=4, horizon=2, stride=3)
    mapped = flow.map(lambda example, rng: {"past": example[0] - example[0][-1], "next": example[1].sum()})
    assert mapped.positions().tolist() == flow.positions().tolist()
    assert mapped.spec["next"].shape == ()
    for got, s in zip(mapped, flow.positions(), strict=True):
        same(got["past"], series[s : s + 4] - series[s + 3])
        assert got["next"] == series[s + 4 : s + 6].sum()
    # Windows in the source, so they are cut by time as before.
    assert [len(part) for part in mapped.split(0.5)] == [len(part) for part in flow.split(0.5)]


def test_map_of_random_crops_follows_the_epoch(tmp_path):
    for n in range(5):
        write(tmp_path / f"{n}.npy", np.arange(100.0) + 1000 * n)
    flow = nf.files(tmp_path, crop=nf.Crop((4,), random=True, per_file=3))
    mapped = flow.map(lambda x, rng: x[:1])
    for epoch in range(3):
        same(mapped.positions(epoch), flow.positions(epoch))
        got = np.concatenate(list(mapped.batches(4, epoch=epoch)))[:, 0]
        want = flow.positions(epoch)[:, 0] + 1000.0 * np.repeat(np.arange(5), 3)
        same(got, want)


def test_map_of_labels_and_classes(tmp_path):
    for n in range(6):
        write(tmp_path / "ab"[n % 2] / f"{n}.npy", X[n])
    flow = nf.files(tmp_path, labels="directory")
    mapped = flow.map(lambda example, rng: (example[0].mean(), example[1]))
    assert mapped.classes == flow.classes == ("a", "b")
    assert [int(label) for _, label in mapped] == [0, 0, 0, 1, 1, 1]


# The spec


def test_nothing_is_called_where_the_spec_is_given():
    called = []
    flow = nf.rows(X).map(
        lambda x, rng: called.append(1) or {"m": x.mean(), "x": x},
        spec={"m": nf.ArraySpec((), np.dtype("f4")), "x": nf.ArraySpec((4, 3), np.dtype("f4"))},
    )
    assert called == []
    assert flow.spec["x"].shape == (4, 3)
    assert len(flow) == N
    flow.describe()
    assert called == []
    same(flow[2]["m"], X[2].mean())
    assert len(called) == 1


def test_a_spec_with_none(tmp_path):
    arrays = ragged_files(tmp_path)
    spec = nf.ArraySpec((None,), np.dtype("f4"))
    flow = nf.files(tmp_path).map(lambda x, rng: np.concatenate([x, x]), spec=spec)
    assert flow.spec.shape == (None,)
    for got, array in zip(flow, arrays, strict=True):
        same(got, np.concatenate([array, array]))
    got = next(iter(flow.batches(4, pad=nf.Pad(-1.0, mask=True, lengths=True))))
    want = np.full((4, 18), -1, "f4")
    for row, array in zip(want, arrays, strict=True):
        row[: 2 * len(array)] = np.concatenate([array, array])
    same(got["values"], want)
    same(got["mask"], want >= 0)
    same(got["length"], np.array([6, 18, 2, 12]))
    ragged = next(iter(flow.batches(4, ragged=True)))
    for got, array in zip(ragged, arrays, strict=True):
        same(got, np.concatenate([array, array]))


def test_lengths_that_the_function_draws():
    spec = nf.ArraySpec((None,), np.dtype("f4"))
    flow = nf.rows(sample(N, (12,))).map(lambda x, rng: x[: rng.integers(0, 13)], spec=spec)
    lengths = [len(x) for x in flow]
    assert 0 in lengths or len(set(lengths)) > 5
    got = [batch["length"] for batch in flow.batches(7, pad=nf.Pad(0, lengths=True))]
    assert np.concatenate(got).tolist() == lengths
    other = [batch["length"] for batch in flow.batches(7, pad=nf.Pad(0, lengths=True), epoch=1)]
    assert np.concatenate(other).tolist() != lengths
    fixed = next(iter(flow.batches(7, pad=nf.Pad(0, to=12))))
    assert fixed.shape == (7, 12)
    with pytest.raises(nf.ShapeMismatchError, match=r"(?s)pad=.*ragged="):
        flow.batches(7)


def test_longer_than_pad_allows_after_map():
    spec = nf.ArraySpec((None,), np.dtype("f4"))
    flow = nf.rows(X).map(lambda x, rng: np.zeros(5, "f4"), spec=spec)
    with pytest.raises(nf.ShapeMismatchError, match=r"(?s)5.*(to=4|truncate)"):
        list(flow.batches(4, pad=nf.Pad(0, to=4)))
    assert next(iter(flow.batches(4, pad=nf.Pad(0, to=4, truncate=True)))).shape == (4, 4)


def test_the_spec_of_varying_files_is_learnt(tmp_path):
    arrays = ragged_files(tmp_path)
    kept = nf.files(tmp_path).map(lambda x, rng: x + 1)
    assert kept.spec.shape == (None,)
    same(kept[1], arrays[1] + 1)
    reduced = nf.files(tmp_path).map(lambda x, rng: np.array([x.mean(), x.max()]))
    assert reduced.spec.shape == (2,)
    same(next(iter(reduced.batches(4))), np.array([[x.mean(), x.max()] for x in arrays], "f4"))
    frames = nf.files(tmp_path).map(lambda x, rng: np.stack([x, x], 1))
    assert frames.spec.shape == (None, 2)


def test_rank_that_follows_the_length_is_refused(tmp_path):
    ragged_files(tmp_path)
    with pytest.raises(nf.ShapeMismatchError, match="map"):
        nf.files(tmp_path).map(lambda x, rng: x if len(x) < 5 else x[None])


def test_buckets_after_map(tmp_path):
    arrays = ragged_files(tmp_path, [3, 9, 1, 6, 2, 8])
    flow = nf.files(tmp_path).map(lambda x, rng: x + 0)
    options = {"bucket": nf.Bucket([4]), "pad": 0.0}
    try:
        batches = list(flow.batches(2, **options))
    except nf.NpyflowError as error:
        # Lengths are known after the function only: say so.
        assert "map" in str(error)  # noqa: PT017
        assert "bucket" in str(error)  # noqa: PT017
        return
    got = sorted(tuple(row[row != 0]) for batch in batches for row in batch)
    assert got == sorted(tuple(array[array != 0]) for array in arrays)
    assert all(batch.shape[1] <= 3 or (batch.shape[1] > 4) for batch in batches)


def test_padding_after_map(tmp_path):
    ragged_files(tmp_path)
    flow = nf.files(tmp_path).map(lambda x, rng: x)
    try:
        share = flow.padding(4, pad=0.0)
    except nf.NpyflowError as error:
        assert "map" in str(error)  # noqa: PT017
        return
    assert share == pytest.approx(1 - 19 / 36)


CHANGES = {
    "shape": (lambda n: np.zeros(3 if n == 7 else 2), r"\(3,\)", r"\(2,\)"),
    "rank": (lambda n: np.zeros((2, 1) if n == 7 else 2), r"\(2, 1\)", r"\(2,\)"),
    "dtype": (lambda n: np.zeros(2, "f4" if n == 7 else "f8"), "float32", "float64"),
    "int": (lambda n: 1 if n == 7 else 1.0, "int64", "float64"),
    "unsigned": (lambda n: np.uint8(1) if n == 7 else np.int8(1), "uint8", "int8"),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("way", ["item", "batches", "iter"])
def test_a_later_example_that_differs_is_named(name, way):
    make, got, expected = CHANGES[name]
    flow = nf.rows(Y).map(lambda n, rng: {"a": n, "b": (n, make(int(n)))})
    with pytest.raises(nf.ShapeMismatchError) as caught:
        {"item": lambda: flow[7], "batches": lambda: list(flow.batches(4, shuffle=True)), "iter": lambda: list(flow)}[
            way
        ]()
    text = str(caught.value)
    for word in (r"\b7\b", r"\bb\[1\]", got, expected):
        assert re.search(word, text), text
    assert caught.value.index == 7
    # What fits comes as before.
    assert float(flow[6]["a"]) == 6


@pytest.mark.parametrize(
    "other",
    [
        lambda n: (n,),
        lambda n: {"a": n},
        lambda n: {"a": n, "b": n, "c": n},
        lambda n: {"a": n, "x": n},
        lambda n: n,
        lambda n: None,
        lambda n: {"a": n, "b": {"c": n}},
        lambda n: {"a": n, "b": None},
    ],
)
def test_another_structure_is_named(other):
    flow = nf.rows(Y).map(lambda n, rng: other(n) if n == 7 else {"a": n, "b": n})
    # What is no array at all may be an error of its own.
    for read in (lambda: flow[7], lambda: list(flow.batches(3))):
        with pytest.raises((nf.ShapeMismatchError, nf.OptionError), match=r"\b7\b"):
            read()


def test_the_order_of_a_dict_does_not_count():
    flow = nf.rows(Y).map(lambda n, rng: {"a": n, "b": -n} if n % 2 else {"b": -n, "a": n})
    for batch in flow.batches(4):
        same(batch["a"], -batch["b"])


def test_the_hint_for_lengths_that_vary():
    flow = nf.rows(Y).map(lambda n, rng: np.zeros(int(n)))
    with pytest.raises(nf.ShapeMismatchError, match="spec="):
        list(flow.batches(4))


@pytest.mark.parametrize(
    "spec",
    [
        nf.ArraySpec((3,), np.dtype("f8")),
        nf.ArraySpec((2,), np.dtype("f4")),
        nf.ArraySpec((None, None), np.dtype("f8")),
        {"a": nf.ArraySpec((2,), np.dtype("f8"))},
        (nf.ArraySpec((2,), np.dtype("f8")),),
    ],
)
def test_a_given_spec_holds(spec):
    flow = nf.rows(Y).map(lambda n, rng: np.zeros(2), spec=spec)
    with pytest.raises(nf.ShapeMismatchError, match="map"):
        flow[0]


@pytest.mark.parametrize(
    "spec", [3, "f4", np.dtype("f4"), {}, (), {"a": 3}, [nf.ArraySpec((), np.dtype("f4"))], (2,)], ids=str
)
def test_no_spec(spec):
    with pytest.raises(nf.OptionError, match="spec"):
        nf.rows(Y).map(double, spec=spec)


# Errors


class Odd(Exception):
    """The user's own."""


def fail_at(n: int, error: type[BaseException] = Odd) -> Any:
    def fn(example: Any, rng: Any) -> Any:
        if np.asarray(example).flat[0] == n:
            raise error("nothing to see")
        return example

    return fn


@pytest.mark.parametrize(
    "error", [Odd, ValueError, IndexError, StopIteration, nf.OptionError, FileNotFoundError, MemoryError]
)
@pytest.mark.parametrize("way", ["item", "batches", "iter", "items"])
def test_an_error_names_the_row(error, way):
    flow = nf.rows(Y).map(fail_at(7, error))
    with pytest.raises(nf.MapError) as caught:
        {
            "item": lambda: flow[7],
            "batches": lambda: list(flow.batches(4, shuffle=True)),
            "iter": lambda: list(flow),
            "items": lambda: flow.__getitems__([1, 7]),
        }[way]()
    assert isinstance(caught.value, RuntimeError)
    assert type(caught.value.__cause__) is error
    text = str(caught.value)
    assert "7" in text
    assert "nothing to see" in text
    assert error.__name__ in text
    assert caught.value.index == 7


def test_an_error_names_the_file(tmp_path):
    for n in range(5):
        write(tmp_path / "in" / f"rec{n}.npy", np.full(2, n))
    flow = nf.files(tmp_path / "in").map(fail_at(3))
    with pytest.raises(nf.MapError, match="rec3"):
        flow[3]
    with pytest.raises(nf.MapError, match="rec3"):
        flow[2:][1]
    with pytest.raises(nf.MapError, match="rec3"):
        list(flow.batches(2))


@pytest.mark.parametrize("way", ["item", "batches", "iter", "sample"])
def test_an_error_in_a_part_has_the_index_of_the_part(way):
    for part, at in (
        (nf.rows(Y).map(fail_at(7))[5:], 2),
        (nf.rows(Y)[5:].map(fail_at(7)), 2),
        (nf.rows(Y).map(fail_at(7))[::-1], N - 8),
    ):
        with pytest.raises(nf.MapError) as caught:
            {
                "item": lambda part=part, at=at: part[at],
                "batches": lambda part=part: list(part.batches(4, shuffle=True)),
                "iter": lambda part=part: list(part),
                "sample": lambda part=part: list(
                    part.batches(4, sample=nf.Balanced(np.ones(len(part)), size=900, replace=True))
                ),
            }[way]()
        assert caught.value.index == at
        assert "row 7" in str(caught.value) or "example 7" in str(caught.value) or f"example {at}" in str(caught.value)


def test_an_error_names_the_window():
    flow = nf.windows(np.arange(20.0), length=3, stride=2).map(fail_at(8.0))
    with pytest.raises(nf.MapError) as caught:
        list(flow.batches(4))
    assert "4" in str(caught.value) or "8" in str(caught.value)
    assert caught.value.index == 4


def test_an_error_in_the_first_example_comes_at_once():
    with pytest.raises(nf.MapError, match=r"\b0\b") as caught:
        nf.rows(Y).map(fail_at(0))
    assert isinstance(caught.value.__cause__, Odd)
    flow = nf.rows(Y).map(fail_at(0), spec=nf.ArraySpec((), np.dtype("i8")))
    assert int(flow[1]) == 1
    with pytest.raises(nf.MapError):
        flow[0]


def test_the_users_interrupt_is_not_an_error():
    flow = nf.rows(Y).map(fail_at(7, KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        flow[7]


def test_a_function_with_the_wrong_arguments():
    with pytest.raises((nf.MapError, nf.OptionError), match="argument"):
        nf.rows(Y).map(lambda x: x)


def test_an_error_in_the_second_function_names_the_example():
    with pytest.raises(nf.MapError, match=r"\b7\b"):
        nf.rows(Y).map(lambda n, rng: n).map(fail_at(7))[7]


def test_errors_of_reading_stay_themselves(tmp_path):
    for n in range(3):
        write(tmp_path / f"{n}.npy", X[n])
    flow = nf.files(tmp_path).map(double)
    (tmp_path / "1.npy").unlink()
    with pytest.raises(nf.FileChangedError):
        flow[1]


# The rest of the flow


def test_description():
    text = nf.rows((X, Y)).map(lambda e, rng: e[0].mean()).map(double).describe()
    assert "double" in text
    assert "Python" in text
    assert "float32" in text
    assert "partial" in nf.rows(X).map(functools.partial(double)).describe()


def test_a_map_is_not_saved(tmp_path):
    flow = nf.rows(write(tmp_path / "x.npy", X)).map(double)
    with pytest.raises(nf.OptionError, match=r"(?s)map.*(before|without|load)"):
        flow.save(tmp_path / "m.json")
    with pytest.raises(nf.OptionError, match="map"):
        flow[:5].save(tmp_path / "m.json")
    assert not (tmp_path / "m.json").exists()


def test_a_loaded_flow_is_mapped(tmp_path):
    nf.rows(write(tmp_path / "x.npy", X)).save(tmp_path / "m.json")
    same(nf.load(tmp_path / "m.json").map(double)[3], X[3] * 2)


def test_pickles_with_a_function_of_a_module(tmp_path):
    path = write(tmp_path / "y.npy", Y)
    flow = nf.rows(path).map(draw, seed=4)
    again = pickle.loads(pickle.dumps(flow))
    assert drawn(again, 7, shuffle=True, epoch=2) == drawn(flow, epoch=2)
    assert again.spec == flow.spec
    part = pickle.loads(pickle.dumps(flow[5:9]))
    assert [tuple(map(int, e)) for e in part] == [tuple(map(int, e)) for e in flow[5:9]]
    twice = pickle.loads(pickle.dumps(nf.rows(path).map(double).map(double)))
    assert int(twice[3]) == 12


def test_a_lambda_does_not_pickle(tmp_path):
    flow = nf.rows(write(tmp_path / "y.npy", Y)).map(lambda x, rng: x)
    with pytest.raises((pickle.PicklingError, AttributeError, nf.NpyflowError)):
        pickle.dumps(flow)


def test_closing(tmp_path):
    flow = nf.rows(write(tmp_path / "x.npy", X))
    mapped = flow.map(double)
    batch = next(iter(mapped.batches(3)))
    flow.close()
    with pytest.raises(nf.ClosedError):
        mapped[0]
    same(batch, X[:3] * 2)


def test_statistics_are_those_of_the_flow_they_are_asked_of():
    flow = nf.rows(X)
    before = float(flow.stats()[""].mean)
    mapped = flow.map(lambda x, rng: x + 5)
    assert float(mapped.stats()[""].mean) == pytest.approx(before + 5, rel=1e-6)
    assert float(flow.stats()[""].mean) == before


def test_an_empty_part():
    flow = nf.rows(X).map(double)[:0]
    assert len(flow) == 0
    assert list(flow.batches(4)) == []
    with pytest.raises(nf.OptionError, match="spec="):
        nf.rows(X)[:0].map(double)
    empty = nf.rows(X)[:0].map(double, spec=nf.ArraySpec((4, 3), np.dtype("f4")))
    assert list(empty) == []


def test_the_function_is_called_once_an_example():
    called: list[int] = []
    flow = nf.rows(Y).map(lambda n, rng: called.append(int(n)) or n)
    called.clear()
    list(flow.batches(7, shuffle=True, shard=(1, 3), start_step=1))
    assert len(called) == len(set(called)) == len(range(1, N, 3)) - 7
    called.clear()
    flow[4], flow.spec, len(flow), flow.keys
    assert called == [4]


def test_reading_is_lazy():
    called: list[int] = []
    flow = nf.rows(Y).map(lambda n, rng: called.append(int(n)) or n)
    called.clear()
    stream: Iterator[Any] = iter(flow.batches(2))
    next(stream)
    assert len(called) < N or called == sorted(called)


# Epochs that draw twice


def test_an_example_that_is_drawn_twice_draws_twice():
    flow = nf.rows((Y, Y % 2)).map(lambda example, rng: (example[0], rng.integers(2**62)))
    weights = np.zeros(N)
    weights[:4] = 1
    options = {"sample": nf.Balanced(weights, size=80, replace=True)}
    got = [(int(n), int(v)) for x, values in flow.batches(9, **options) for n, v in zip(x, values, strict=True)]
    assert len(got) == 80
    assert {n for n, _ in got} == {0, 1, 2, 3}
    assert len({v for _, v in got}) == 80
    # By position: other batches, other starts, shards, the same draws.
    assert [int(v) for _, values in flow.batches(1, **options) for v in values] == [v for _, v in got]
    tail = [int(v) for _, values in flow.batches(9, start_step=3, **options) for v in values]
    assert tail == [v for _, v in got][27:]
    shards = [[int(v) for _, vs in flow.batches(4, shard=(k, 3), **options) for v in vs] for k in range(3)]
    assert [shards[at % 3][at // 3] for at in range(80)] == [v for _, v in got]


# The way out of an example that is not drawn


def test_only_what_is_delivered_is_called():
    called: list[int] = []

    def note(example: Any, rng: Any) -> Any:
        called.append(int(example[0]))
        return example

    flow = nf.rows((Y, Y % 4)).map(note, spec=(nf.ArraySpec((), np.dtype("i8")),) * 2)
    list(flow.batches(8, sample={0: 1, 1: 0, 2: 0, 3: 1}))
    assert len(called) == N
    assert {n % 4 for n in called} == {0, 3}
