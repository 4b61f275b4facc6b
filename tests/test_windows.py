"""Windows over long series: each equals a slice, none crosses a series' end, and no split shares a step."""

from __future__ import annotations

import pickle
import time
import tracemalloc
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npyflow as nf
import npyflow._sources.shards as shards
from helpers import same, sample, write, write_npz

T = 23
ACCESS = ["auto", "mmap", "read", "ram"]
Array = np.ndarray[Any, Any]


def starts(steps: int, span: int, stride: int) -> list[int]:
    return list(range(0, steps - span + 1, stride))


def oracle(
    series: Sequence[Array], *, length: int, horizon: int = 0, stride: int = 1, gap: int = 0
) -> list[tuple[int, int, Array, Array]]:
    """Number of the series, first step, past and future of every window."""
    later = length + gap
    return [
        (at, s, one[s : s + length], one[s + later : s + later + horizon])
        for at, one in enumerate(series)
        for s in starts(len(one), later + horizon, stride)
    ]


def check(flow: nf.Flow, want: list[tuple[int, int, Array, Array]], horizon: int) -> None:
    assert len(flow) == len(want)
    same(flow.positions(), np.array([s for _, s, _, _ in want], "i8"))
    keys = list(dict.fromkeys(flow.keys))
    # Series that are too short have none, so the numbers of the others may have gaps, but no two are the same.
    assert [keys.index(key) for key in flow.keys] == np.unique([at for at, *_ in want], return_inverse=True)[1].tolist()
    for got, (_, _, past, future) in zip((flow[i] for i in range(len(flow))), want, strict=True):
        if horizon:
            assert isinstance(got, tuple)
            same(got[0], past)
            same(got[1], future)
        else:
            same(got, past)
    spec = flow.spec if horizon else (flow.spec,)
    assert [one.shape for one in spec] == [part.shape for part in want[0][2 : 3 + (horizon > 0)]]
    for batch in (7, len(want) + 1):
        parts = list(zip(*flow.batches(batch), strict=True)) if horizon else [list(flow.batches(batch))]
        for at, part in enumerate(parts):
            same(np.concatenate(part), np.stack([row[2 + at] for row in want]))


# Against slicing


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=4),
    st.sampled_from([(), (3,), (2, 2)]),
    st.integers(1, 8),
    st.integers(0, 5),
    st.integers(1, 9),
    st.integers(0, 4),
)
def test_any_windows_over_arrays(steps, shape, length, horizon, stride, gap):
    gap = gap if horizon else 0
    series = [sample(n, shape, "i4", seed=at) for at, n in enumerate(steps)]
    options = {"length": length, "horizon": horizon, "stride": stride, "gap": gap}
    want = oracle(series, **options)
    if not want:
        with pytest.raises(nf.OptionError, match="long enough"):
            nf.windows(series, **options)
        return
    check(nf.windows(series, **options), want, horizon)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_windows_in_any_order(data):
    series = [sample(n, (2,), "i4", seed=n) for n in data.draw(st.lists(st.integers(6, 30), min_size=1, max_size=3))]
    options = {"length": data.draw(st.integers(1, 4)), "horizon": 1, "stride": data.draw(st.integers(1, 3))}
    want = oracle(series, **options)
    flow = nf.windows(series, **options)
    chosen = data.draw(st.lists(st.integers(0, len(want) - 1), min_size=1, max_size=20))
    part = flow[chosen]
    same(part.positions(), np.array([want[i][1] for i in chosen]))
    past, future = next(part.batches(len(chosen)))
    same(past, np.stack([want[i][2] for i in chosen]))
    same(future, np.stack([want[i][3] for i in chosen]))


FORMS = ["array", "arrays", "file", "list", "glob", "folder", "npz", "compressed", "npz list"]


def make(form: str, folder: Path, series: Sequence[Array], **how: Any) -> Any:
    """The series in one form, or the first alone."""
    if form in ("array", "arrays"):
        return series[0] if form == "array" else list(series)
    if "npz" in form or form == "compressed":
        members = [
            nf.npz(write_npz(folder / f"{at}.npz", form == "compressed", pad=at, x=one))["x"]
            for at, one in enumerate(series)
        ]
        return members if "list" in form else members[0]
    paths = [write(folder / "d" / f"{at}.npy", one, **how) for at, one in enumerate(series)]
    return {"file": paths[0], "list": paths, "glob": str(folder / "d" / "*.npy"), "folder": folder / "d"}[form]


@pytest.mark.parametrize("access", ACCESS)
@pytest.mark.parametrize("form", FORMS)
def test_any_form_and_access(tmp_path, form, access):
    series = [sample(n, (3,), "f4", seed=n) for n in (T, 5, 14, 8)]
    if access in ("mmap", "read") and form == "compressed":
        with pytest.raises(nf.OptionError, match=r"0\.npz.*compressed.*leave out access="):
            nf.windows(make(form, tmp_path, series), length=4, access=access)
        return
    options = {"length": 4, "horizon": 2, "stride": 2, "gap": 1}
    many = form not in ("array", "file", "npz", "compressed")
    flow = nf.windows(make(form, tmp_path, series), access=access, **options)
    check(flow, oracle(series if many else series[:1], **options), 2)
    expected = "ram" if form in ("array", "arrays", "compressed") else access
    assert flow.access == (expected, expected) or access == "auto"


def test_folders_have_natural_order_and_keys(tmp_path):
    for name, n in (("b/10", 5), ("b/2", 6), ("a/1", 4)):
        write(tmp_path / f"{name}.npy", np.arange(n) + n * 100)
    flow = nf.windows(tmp_path, length=4)
    assert list(flow.keys) == ["a/1", "b/2", "b/2", "b/2", "b/10", "b/10"]
    assert flow.positions().tolist() == [0, 0, 1, 2, 0, 1]
    assert [int(flow[i][0]) for i in range(6)] == [400, 600, 601, 602, 500, 501]


@pytest.mark.parametrize("access", ACCESS)
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("fortran", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("dtype", [None, "f8", "i4"])
def test_any_axis_and_byte_order(tmp_path, axis, fortran, swapped, access, dtype):
    if dtype and not (fortran or swapped):
        return  # that is what the others do
    plain = [np.moveaxis(np.arange(6 * n, dtype="f4").reshape(n, 2, 3) - 40, 0, axis) for n in (T, 15)]
    paths = [
        write(tmp_path / f"{at}.npy", one.astype(">f4" if swapped else "<f4"), fortran=fortran)
        for at, one in enumerate(plain)
    ]
    flow = nf.windows(paths, length=3, horizon=2, stride=3, axis=axis, access=access, dtype=dtype)
    check(
        flow,
        oracle([np.moveaxis(one, axis, 0).astype(dtype or "f4") for one in plain], length=3, horizon=2, stride=3),
        2,
    )


def test_series_may_differ_in_order_and_byte_order(tmp_path):
    series = [sample(9, (2,), "f4", seed=at) for at in range(4)]
    paths = [
        write(tmp_path / f"{at}.npy", one.astype("<f4" if at % 2 else ">f4"), fortran=at > 1)
        for at, one in enumerate(series)
    ]
    for access in ACCESS:
        check(nf.windows(paths, length=4, access=access), oracle(series, length=4), 0)


def test_casts_are_checked(tmp_path):
    path = write(tmp_path / "x.npy", np.array([1, 2, 300, 4, 5, 6]))
    flow = nf.windows(path, length=2, dtype="u1")
    same(flow[3], np.array([4, 5], "u1"))
    with pytest.raises(nf.CastError, match="300"):
        flow[1]
    series = nf.windows([path, write(tmp_path / "y.npy", np.arange(4, dtype="u1"))], length=2, dtype="i4")
    same(series[-1], np.array([2, 3], "i4"))


# Counts


@pytest.mark.parametrize(
    ("steps", "options", "count"),
    [
        (10, {"length": 3}, 8),
        (10, {"length": 10}, 1),
        (10, {"length": 1}, 10),
        (10, {"length": 3, "stride": 3}, 3),
        (10, {"length": 3, "stride": 7}, 2),
        (10, {"length": 3, "stride": 8}, 1),
        (10, {"length": 3, "stride": 100}, 1),
        (10, {"length": 3, "horizon": 1}, 7),
        (10, {"length": 3, "horizon": 7}, 1),
        (10, {"length": 3, "horizon": 2, "gap": 5}, 1),
        (10, {"length": 3, "horizon": 2, "gap": 1, "stride": 2}, 3),
        (1, {"length": 1}, 1),
    ],
)
def test_exact_counts(steps, options, count):
    flow = nf.windows(np.arange(steps), **options)
    assert len(flow) == count == len(flow.positions()) == len(flow.keys)
    assert sum(len(x[0] if "horizon" in options else x) for x in flow.batches(3)) == count
    with pytest.raises(nf.IndexRangeError):
        flow[count]


def test_the_formula_for_several_series():
    flow = nf.windows([np.arange(n) for n in (10, 3, 11, 20)], length=4, horizon=2, gap=1, stride=3)
    assert len(flow) == sum((n - 7) // 3 + 1 for n in (10, 11, 20))


# Ends of series


@pytest.mark.parametrize("access", ACCESS)
def test_no_window_crosses_an_end(tmp_path, access):
    paths = [write(tmp_path / f"{at}.npy", np.full(n, at)) for at, n in enumerate((9, 0, 7, 3, 8))]
    flow = nf.windows(paths, length=3, horizon=2, gap=1, access=access)
    number = {key: at for at, key in enumerate("01234")}
    for i, key in enumerate(flow.keys):
        past, future = flow[i]
        assert {*past.tolist(), *future.tolist()} == {number[key]}
    assert sorted(set(flow.keys)) == ["0", "2", "4"]
    for past, future in flow.batches(4, shuffle=True):
        assert (past == past[:, :1]).all()
        assert (future == past[:, :1]).all()


def test_too_short_series_are_reported(tmp_path):
    paths = [write(tmp_path / f"{name}.npy", np.arange(n)) for name, n in (("long", 9), ("short", 4), ("none", 0))]
    text = " ".join(nf.windows(paths, length=5).report.lines())
    assert all(word in text for word in ("2 of 3", "short", "none", "4", "5"))
    assert "long" not in text
    assert "short" not in " ".join(nf.windows(paths[:1], length=5).report.lines())
    many = [*paths, *(write(tmp_path / f"s{at}.npy", np.arange(2)) for at in range(200))]
    assert len(" ".join(nf.windows(many, length=5).report.lines())) < 2000


def test_no_series_long_enough(tmp_path):
    paths = [write(tmp_path / f"tiny{at}.npy", np.arange(4)) for at in range(2)]
    with pytest.raises(nf.OptionError, match=r"(?=.*tiny0)(?=.*\b4\b)(?=.*\b6\b)"):
        nf.windows(paths, length=3, horizon=2, gap=1)
    with pytest.raises(nf.PairingError, match="tiny0"):
        nf.windows([paths[0], paths[0]], length=3)
    with pytest.raises(nf.OptionError, match="long enough"):
        nf.windows(np.zeros((0, 3)), length=1)


# Columns

TABLE = sample(T, (5,), "f4")


@pytest.mark.parametrize("access", ACCESS)
@pytest.mark.parametrize(
    "columns",
    [0, -1, np.int64(2), slice(1, 3), slice(None, None, 2), slice(None, None, -1), slice(-2, None), [4, 0, 0]],
)
def test_columns(tmp_path, columns, access):
    path = write(tmp_path / "x.npy", TABLE)
    flow = nf.windows(path, length=4, horizon=2, past=columns, future=slice(2), access=access)
    check(flow, [(at, s, p[:, columns], f[:, :2]) for at, s, p, f in oracle([TABLE], length=4, horizon=2)], 2)
    flow = nf.windows(path, length=4, horizon=2, future=columns, access=access)
    check(flow, [(at, s, p, f[:, columns]) for at, s, p, f in oracle([TABLE], length=4, horizon=2)], 2)
    flow = nf.windows(path, length=4, past=columns, access=access)
    check(flow, [(at, s, p[:, columns], f) for at, s, p, f in oracle([TABLE], length=4)], 0)


@pytest.mark.parametrize("columns", [1, slice(1, None), [1, 0]])
@pytest.mark.parametrize("fortran", [False, True])
@pytest.mark.parametrize("access", ACCESS)
def test_columns_of_deeper_arrays_along_another_axis(tmp_path, columns, fortran, access):
    table = sample(2, (3, T, 4), "f4")
    path = write(tmp_path / "x.npy", table, fortran=fortran)
    flow = nf.windows(path, length=4, axis=2, past=columns, dtype="f8", access=access)
    moved = np.moveaxis(table, 2, 0).astype("f8")
    check(flow, [(at, s, p[:, columns], f) for at, s, p, f in oracle([moved], length=4)], 0)


@pytest.mark.parametrize("columns", [5, -6, [0, 5], "a", 1.5, [0.5], [[0]], True, slice("a"), []])
def test_wrong_columns(columns):
    for name in ("past", "future"):
        with pytest.raises(nf.OptionError):
            nf.windows(TABLE, length=4, horizon=1, **{name: columns})


def test_columns_of_nothing():
    with pytest.raises(nf.OptionError, match="columns 0 of a series whose steps are single values"):
        nf.windows(np.arange(9), length=4, past=0)


def test_a_future_needs_a_horizon():
    """As gap= does; otherwise the option would count for nothing."""
    with pytest.raises(nf.OptionError, match="horizon"):
        nf.windows(TABLE, length=4, future=0)


@pytest.mark.parametrize("mask", [[True, False, True, False, False], np.array([True, False, True, False, False])])
def test_a_mask_is_no_list_of_numbers(mask):
    """True is not column 1: a mask is refused, or it selects what it does in NumPy."""
    try:
        flow = nf.windows(TABLE, length=4, past=mask)
    except nf.OptionError:
        return
    same(flow[0], TABLE[:4, [0, 2]])


# Series in step

LOAD, WEATHER = [sample(n, (), "f4", seed=n) for n in (T, 9)], [sample(n, (3,), "i2", seed=n) for n in (T, 9)]


def in_step(folder: Path) -> dict[str, list[str]]:
    return {
        name: [write(folder / name / f"{key}.npy", one) for key, one in zip("ab", series, strict=True)]
        for name, series in (("load", LOAD), ("weather", WEATHER))
    }


@pytest.mark.parametrize("access", ACCESS)
@pytest.mark.parametrize("nest", ["dict", "tuple", "folders"])
def test_series_in_step(tmp_path, nest, access):
    paths = in_step(tmp_path)
    data = {"dict": paths, "tuple": tuple(paths.values()), "folders": {name: tmp_path / name for name in paths}}[nest]
    flow = nf.windows(data, length=4, horizon=2, stride=2, access=access)
    load = oracle(LOAD, length=4, horizon=2, stride=2)
    weather = oracle(WEATHER, length=4, horizon=2, stride=2)
    assert len(flow) == len(load)
    assert list(flow.keys) == ["ab"[at] for at, *_ in load]
    for i, (one, other) in enumerate(zip(load, weather, strict=True)):
        past, future = flow[i]
        for got, column in ((past, 2), (future, 3)):
            values = got.values() if isinstance(got, dict) else got
            for value, want in zip(values, (one[column], other[column]), strict=True):
                same(value, want)
    assert nest == "tuple" or list(flow[0][0]) == ["load", "weather"]


@pytest.mark.parametrize("access", ACCESS)
def test_each_side_has_its_own_series(tmp_path, access):
    flow = nf.windows(
        in_step(tmp_path),
        length=4,
        horizon=2,
        past={"weather": [2, 0], "load": slice(None)},
        future={"load": slice(None)},
        access=access,
    )
    load, weather = oracle(LOAD, length=4, horizon=2), oracle(WEATHER, length=4, horizon=2)
    assert set(flow.spec[0]) == {"weather", "load"}
    assert set(flow.spec[1]) == {"load"}
    for i in range(len(flow)):
        past, future = flow[i]
        same(past["weather"], weather[i][2][:, [2, 0]])
        same(past["load"], load[i][2])
        same(future["load"], load[i][3])
    only = nf.windows(in_step(tmp_path), length=4, past={"weather": 1})
    same(only[3]["weather"], WEATHER[0][3:7, 1])


def test_what_is_not_wanted_is_not_read(tmp_path):
    paths = in_step(tmp_path)
    flow = nf.windows(paths, length=4, past={"load": slice(None)}, access="read")
    for path in paths["weather"]:
        Path(path).unlink()
    same(flow[0]["load"], LOAD[0][:4])


def test_series_in_step_join_by_key(tmp_path):
    for name, keys in (("x", "ab"), ("y", "ba")):
        for key in keys:
            write(tmp_path / name / f"{key}.npy", np.full(5 + (key == "b"), ord(key)))
    flow = nf.windows({"x": tmp_path / "x", "y": tmp_path / "y"}, length=5)
    assert all((flow[i]["x"] == flow[i]["y"]).all() for i in range(len(flow)))
    (tmp_path / "y" / "a.npy").unlink()
    with pytest.raises(nf.PairingError, match="a"):
        nf.windows({"x": tmp_path / "x", "y": tmp_path / "y"}, length=5)


def test_series_in_step_are_equally_long(tmp_path):
    paths = in_step(tmp_path)
    write(tmp_path / "weather" / "b.npy", WEATHER[1][:-1])
    with pytest.raises(nf.ShapeMismatchError, match=r"(?=.*\bb\b)(?=.*\b9\b)(?=.*\b8\b)"):
        nf.windows(paths, length=3)


def test_options_of_each_component(tmp_path):
    x, y = sample(T, (2,), "f4"), sample(T, (), "i2")
    data = {"x": write(tmp_path / "x.npy", x.T), "y": write(tmp_path / "y.npy", y)}
    flow = nf.windows(
        data, length=3, axis={"x": 1, "y": 0}, dtype={"x": "f8"}, access={"x": "read", "y": "ram"}, stride=2
    )
    for i, (_, s, past, _) in enumerate(oracle([x], length=3, stride=2)):
        same(flow[i]["x"], past.astype("f8"))
        same(flow[i]["y"], y[s : s + 3])


# Wrong options


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"length": 0}, "length=0"),
        ({"length": -1}, "length=-1"),
        ({"length": 2.5}, "length=2.5"),
        ({"length": True}, "length=True"),
        ({"length": 2, "horizon": -1}, "horizon=-1"),
        ({"length": 2, "stride": 0}, "stride=0"),
        ({"length": 2, "horizon": 1, "gap": -1}, "gap=-1"),
        ({"length": 2, "gap": 1}, "gap=1.*horizon"),
        ({"length": 2, "axis": 2}, "axis"),
        ({"length": 2, "axis": "a"}, "axis"),
        ({"length": 2, "access": "fast"}, "access.*fast"),
    ],
)
def test_wrong_options(options, match):
    with pytest.raises(nf.OptionError, match=match):
        nf.windows(TABLE, **options)


def test_series_disagree(tmp_path):
    paths = [write(tmp_path / f"{at}.npy", sample(9, (2 + at,))) for at in range(2)]
    with pytest.raises(nf.ShapeMismatchError, match=r"(?=.*0\.npy)(?=.*1\.npy)"):
        nf.windows(paths, length=2)
    with pytest.raises(nf.MissingFileError, match="absent"):
        nf.windows(tmp_path / "absent.npy", length=2)
    with pytest.raises(nf.NpyflowError):
        nf.windows(np.float32(3), length=1)


def test_positions_are_for_windows_and_crops_only():
    with pytest.raises(nf.OptionError, match="windows"):
        nf.rows(np.arange(5)).positions()


# Cost


@pytest.fixture
def bytes_read(monkeypatch):
    """The sizes of all positional reads of rows."""
    sizes: list[int] = []
    real = shards.read_at

    def counting(fd, body, offset):
        sizes.append(len(body))
        return real(fd, body, offset)

    monkeypatch.setattr(shards, "read_at", counting)
    return sizes


@pytest.mark.parametrize("horizon", [0, 16])
@pytest.mark.parametrize("batch", [64, 1000])
def test_overlapping_windows_are_read_once(tmp_path, bytes_read, horizon, batch):
    series = sample(8000, (8,), "f4")
    flow = nf.windows(write(tmp_path / "x.npy", series), length=64, horizon=horizon, access="read")
    count = sum(len(one[0] if horizon else one) for one in flow.batches(batch))
    assert count == len(flow)
    # One by one it were 64 times; past and future are two components.
    assert sum(bytes_read) < (1 + bool(horizon)) * 2.2 * series.nbytes


def test_a_chunk_in_any_order_reads_no_step_twice(tmp_path, bytes_read):
    series = sample(3000, (8,), "f4")
    flow = nf.windows(write(tmp_path / "x.npy", series), length=64, access="read")
    chosen = np.random.default_rng(0).permutation(len(flow))
    got = next(flow[chosen].batches(len(flow)))
    same(got, np.stack([series[s : s + 64] for s in chosen]))
    assert sum(bytes_read) < 1.1 * series.nbytes


def test_one_window_reads_itself(tmp_path, bytes_read):
    flow = nf.windows(write(tmp_path / "x.npy", sample(5000, (8,), "f4")), length=64, horizon=3, gap=900, access="read")
    bytes_read.clear()
    flow[123]
    assert sum(bytes_read) <= 67 * 32 + 2 * 4096


def write_sparse(path: Path, descr: str, shape: tuple[int, ...]) -> Path:
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
        file.truncate(file.tell() + int(np.prod(shape)) * np.dtype(descr).itemsize)
    return path


@pytest.fixture
def eight_gigabytes(tmp_path):
    return write_sparse(tmp_path / "x.npy", "<f4", (250_000_000, 8))


@pytest.mark.parametrize("access", ["auto", "mmap", "read"])
def test_memory_does_not_grow_with_length(eight_gigabytes, access):
    tracemalloc.start()
    try:
        began = time.perf_counter()
        flow = nf.windows(eight_gigabytes, length=512, horizon=24, access=access)
        assert len(flow) == 250_000_000 - 536 + 1
        past, future = flow[-1]
        assert past.shape == (512, 8)
        assert future.shape == (24, 8)
        past, _ = next(flow.batches(32, shuffle=True))
        assert past.shape == (32, 512, 8)
        assert time.perf_counter() - began < 2
        assert tracemalloc.get_traced_memory()[1] < 30e6
    finally:
        tracemalloc.stop()


def test_a_split_costs_no_more_than_an_index_a_window(tmp_path):
    path = write_sparse(tmp_path / "x.npy", "<f4", (4_000_000, 8))
    tracemalloc.start()
    try:
        parts = nf.windows(path, length=512).split(0.8, 0.1)
        assert sum(map(len, parts)) == 4_000_000 - 3 * 511
        # 8 bytes an example, and some room to work.
        assert tracemalloc.get_traced_memory()[1] < 3 * 8 * 4_000_000
    finally:
        tracemalloc.stop()


# Splits


def steps_of(flow: nf.Flow) -> set[tuple[int, int]]:
    """(series, step) of all that a flow delivers, read from its examples."""
    found: set[tuple[int, int]] = set()
    for i in range(len(flow)):
        example = flow[i]
        for part in example if isinstance(example, tuple) else (example,):
            found |= {tuple(row) for row in part.tolist()}
    return found


def numbered(*lengths: int) -> list[Array]:
    return [np.stack([np.full(n, at), np.arange(n)], axis=1) for at, n in enumerate(lengths)]


def disjoint(parts: Sequence[nf.Flow]) -> None:
    steps = [steps_of(part) for part in parts]
    assert sum(map(len, steps)) == len(set.union(*steps))


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(60, 150), min_size=1, max_size=3),
    st.integers(1, 8),
    st.integers(0, 3),
    st.integers(0, 2),
    st.integers(1, 4),
    st.integers(0, 5),
    st.sampled_from([(0.8,), (0.5, 0.5), (0.7, 0.15), (0.6, 0.2, 0.2)]),
)
def test_no_step_is_on_both_sides(lengths, length, horizon, wait, stride, gap, fractions):
    wait = wait if horizon else 0
    flow = nf.windows(numbered(*lengths), length=length, horizon=horizon, gap=wait, stride=stride)
    try:
        parts = flow.split(*fractions, gap=gap)
    except nf.OptionError as error:
        assert "empty" in str(error) or "gap" in str(error)  # noqa: PT017
        return
    disjoint(parts)
    sides = [{*zip(part.keys, part.positions().tolist(), strict=True)} for part in parts]
    assert set.union(*sides) <= {*zip(flow.keys, flow.positions().tolist(), strict=True)}
    for key in set(flow.keys):
        steps = [sorted(step for at, step in steps_of(part) if str(at) == key) for part in parts]
        steps = [one for one in steps if one]
        for before, after in pairwise(steps):
            assert after[0] - before[-1] > gap


def test_each_series_is_cut_at_the_same_fraction():
    flow = nf.windows(numbered(100, 50), length=5, horizon=2, gap=1)
    train, val, test = flow.split(0.8, 0.1, 0.1)
    for series, n in ((0, 100), (1, 50)):
        ends = [[step for at, step in steps_of(part) if at == series] for part in (train, val, test)]
        assert (min(ends[0]), max(ends[0])) == (0, n * 8 // 10 - 1)
        # The short one leaves five steps for each of the other parts, too few for a window.
        assert (min(ends[1], default=None), min(ends[2], default=None)) == ((80, 90) if n == 100 else (None, None))


def test_windows_across_a_cut_are_counted():
    flow = nf.windows(np.arange(100), length=5)
    parts = flow.split(0.8, 0.1)
    assert [len(part) for part in parts] == [76, 6, 6]
    for part in parts:
        text = " ".join(part.report.lines())
        assert "8 windows" in text
        assert "time" in text
    assert "windows across" not in " ".join(flow.report.lines())
    gapped = flow.split(0.8, gap=7)
    assert [part.positions()[[0, -1]].tolist() for part in gapped] in ([[0, 75], [87, 95]], [[0, 69], [81, 95]])


@pytest.mark.parametrize("fractions", [(0.5,), (0.7, 0.2)])
def test_a_split_of_a_split(fractions):
    flow = nf.windows(numbered(200, 120), length=4, horizon=1)
    train, test = flow.split(0.8)
    parts = [*train.split(*fractions), test]
    disjoint(parts)
    steps = [steps_of(part) for part in parts]
    for series in (0, 1):
        edges = [[step for at, step in one if at == series] for one in steps]
        assert all(max(a) < min(b) for a, b in pairwise(edges))


def test_a_split_of_a_selection():
    flow = nf.windows(numbered(200), length=4)
    disjoint(flow[50:150].split(0.5))
    disjoint(flow[np.random.default_rng(0).permutation(len(flow))[:120]].split(0.5))
    disjoint(flow[::2].split(0.5, 0.3))


def test_time_is_the_default():
    flow = nf.windows(numbered(100), length=4)
    for a, b in zip(flow.split(0.7), flow.split(0.7, by="time"), strict=True):
        same(a.positions(), b.positions())
    for a, b in zip(flow.split(0.7), flow.split(0.7, seed=5), strict=True):
        same(a.positions(), b.positions())
    apart = nf.windows(numbered(100), length=4, stride=4)
    assert [len(part) for part in apart.split(0.8)] == [20, 5]
    disjoint(apart.split(0.8))


OVERLAP = {"stride": {"length": 4, "stride": 3}, "horizon": {"length": 2, "horizon": 1, "gap": 1, "stride": 3}}


@pytest.mark.parametrize("options", OVERLAP.values(), ids=OVERLAP)
def test_overlapping_windows_are_not_split_at_random(options):
    flow = nf.windows(numbered(100), **options)
    with pytest.raises(nf.OptionError, match=r"split.*overlap.*both sides.*time"):
        flow.split(0.8, by="random")
    with pytest.raises(nf.OptionError, match=r"folds.*overlap"):
        flow.folds(4)
    with pytest.raises(nf.OptionError, match=r"overlap"):
        flow.split(0.8, stratify=np.arange(len(flow)) % 2)
    with pytest.raises(nf.OptionError, match=r"overlap"):
        flow.folds(3, stratify=np.arange(len(flow)) % 2)


def test_windows_that_do_not_overlap_are_split_at_random():
    flow = nf.windows(numbered(100, 60), length=3, horizon=1, stride=4)
    parts = flow.split(0.8, by="random")
    assert [len(part) for part in parts] == [32, 8]
    disjoint(parts)
    for train, val in flow.folds(4):
        assert len(val) == 10
        disjoint([train, val])
    parts = flow.split(0.5, stratify=lambda key: key)
    assert [np.unique(part.keys.astype(str), return_counts=True)[1].tolist() for part in parts] in (
        [[13, 8], [12, 7]],
        [[12, 8], [13, 7]],
        [[13, 7], [12, 8]],
        [[12, 7], [13, 8]],
    )


def test_groups_keep_series_apart():
    flow = nf.windows(numbered(*[30] * 10), length=6, horizon=2)
    parts = flow.split(0.6, 0.2, groups=lambda key: key)
    disjoint(parts)
    assert sum(map(len, parts)) == len(flow)
    assert [len(set(part.keys)) for part in parts] == [6, 2, 2]
    for train, val in flow.folds(5, groups=lambda key: key):
        disjoint([train, val])
        assert len(train) + len(val) == len(flow)
    by_array = flow.split(0.6, 0.2, groups=np.array([int(key) // 2 for key in flow.keys]))
    disjoint(by_array)


def test_groups_that_cut_a_series_are_refused():
    """The same steps would be on both sides, which is what by="random" is refused for."""
    flow = nf.windows(numbered(100), length=6)
    try:
        parts = flow.split(0.5, groups=np.arange(len(flow)) // 10)
    except nf.OptionError:
        return
    disjoint(parts)


def test_splits_that_leave_nothing():
    flow = nf.windows(np.arange(100), length=5)
    with pytest.raises(nf.OptionError, match="gap"):
        flow.split(0.8, gap=200)
    with pytest.raises(nf.OptionError, match="gap=-1"):
        flow.split(0.8, gap=-1)
    with pytest.raises(nf.OptionError, match="empty"):
        flow.split(0.99)
    with pytest.raises(nf.OptionError, match="by="):
        flow.split(0.8, by="space")


# Copies


@pytest.mark.parametrize("access", ACCESS)
def test_saved_and_loaded(tmp_path, access):
    paths = in_step(tmp_path)
    flow = nf.windows(
        paths,
        length=4,
        horizon=2,
        gap=1,
        stride=2,
        past={"weather": [1, 0]},
        future={"load": slice(None)},
        access=access,
    )
    for at, part in enumerate((flow, flow[::-1], *flow.split(0.6))):
        part.save(tmp_path / f"{at}.json")
        for again in (nf.load(tmp_path / f"{at}.json"), pickle.loads(pickle.dumps(part))):
            assert again.spec == part.spec
            assert list(again.keys) == list(part.keys)
            same(again.positions(), part.positions())
            for (past, future), (want_past, want_future) in zip(again.batches(3), part.batches(3), strict=True):
                same(past["weather"], want_past["weather"])
                same(future["load"], want_future["load"])


def test_a_loaded_flow_splits_alike(tmp_path):
    flow = nf.windows([write(tmp_path / f"{at}.npy", one) for at, one in enumerate(numbered(90, 70))], length=5)
    train, _ = flow.split(0.8)
    train.save(tmp_path / "m.json")
    again = nf.load(tmp_path / "m.json")
    with pytest.raises(nf.OptionError, match="overlap"):
        again.folds(2)
    for a, b in zip(train.split(0.7), again.split(0.7), strict=True):
        same(a.positions(), b.positions())
    disjoint(again.split(0.7))


def test_arrays_have_no_path_to_save(tmp_path):
    flow = nf.windows(TABLE, length=4, horizon=1, past=[0, 1], future=2)
    with pytest.raises(nf.OptionError, match=r"RAM.*path"):
        pickle.dumps(flow)
    with pytest.raises(nf.OptionError, match=r"RAM.*path"):
        flow.save(tmp_path / "m.json")


# With the rest of a flow


def test_shuffled_batches_are_a_permutation():
    flow = nf.windows(numbered(50, 40), length=3, horizon=1)
    seen = [(int(past[0, 0]), int(past[0, 1])) for batch, _ in flow.batches(8, shuffle=True, seed=3) for past in batch]
    assert sorted(seen) == [(at, s) for at, n in enumerate((50, 40)) for s in range(n - 3)]
    assert seen != sorted(seen)


def test_windows_through_a_function_and_statistics():
    flow = nf.windows(np.arange(20.0), length=4)
    same(flow.map(lambda window, rng: window.sum())[3], np.float64(3 + 4 + 5 + 6))
    stats = flow.stats()
    windows = np.lib.stride_tricks.sliding_window_view(np.arange(20.0), 4)
    assert stats.examples == 17
    np.testing.assert_allclose([stats[""].mean, stats[""].std], [windows.mean(), windows.std()])


def test_a_changed_series_is_noticed(tmp_path):
    path = write(tmp_path / "x.npy", np.arange(20))
    nf.windows(path, length=4).save(tmp_path / "m.json")
    write(tmp_path / "x.npy", np.arange(30))
    with pytest.raises(nf.FileChangedError, match=r"x\.npy"):
        nf.load(tmp_path / "m.json")[0]
