"""One suite for every source and every way to read it: NumPy indexing is what they must equal."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npyflow as nf
from helpers import delivered, npy_bytes, same, sample, write, write_npz

N = 41
SHAPES = [
    ((), "i8"),
    ((3,), "u1"),
    ((2, 3, 4), "f4"),
    ((5, 1), "c8"),
    ((0, 3), "f8"),
    ((7,), "?"),
    ((1,), "f2"),
    ((2, 2), "c16"),
    ((), "M8[s]"),
    ((3,), "m8[25ns]"),
    ((2, 1), "U5"),
    ((), "S4"),
]
SWAPPED = {dtype: np.dtype(dtype).newbyteorder("S") for _, dtype in SHAPES}

Opened = tuple[nf.Flow, np.ndarray]


def rows_of(**how: Any) -> Callable[..., Opened]:
    def build(tmp_path, shape, dtype, access) -> Opened:
        array = sample(N, shape, dtype)
        stored = array.astype(SWAPPED[dtype]) if how.get("swapped") else array
        path = write(
            tmp_path / "x.npy",
            stored,
            fortran=how.get("fortran", False),
            align=how.get("align", 64),
            version=how.get("version", (1, 0)),
        )
        return nf.rows(path, access=access), array

    return build


def row_shards(tmp_path, shape, dtype, access) -> Opened:
    array = sample(N, shape, dtype)
    cuts = [0, 7, 7, 8, 30, N]
    paths = [
        write(tmp_path / f"{at}.npy", array[start:stop].astype(SWAPPED[dtype] if at % 2 else dtype), fortran=at == 3)
        for at, (start, stop) in enumerate(itertools.pairwise(cuts))
    ]
    return nf.rows(paths, access=access), array


def rows_along_1(tmp_path, shape, dtype, access) -> Opened:
    array = sample(N, (4, *shape), dtype)
    path = write(tmp_path / "x.npy", np.moveaxis(array, 0, 1), fortran=len(shape) == 1)
    return nf.rows(path, access=access, axis=1), array


def rows_along_last(tmp_path, shape, dtype, access) -> Opened:
    array = sample(N, shape, dtype)
    path = write(tmp_path / "x.npy", np.moveaxis(array, 0, -1), fortran=len(shape) == 3)
    return nf.rows(path, access=access, axis=-1), array


def rows_cast(tmp_path, shape, dtype, access) -> Opened:
    array = sample(N, shape, dtype)
    path = write(tmp_path / "x.npy", array.astype(SWAPPED[dtype]), fortran=len(shape) == 3)
    # Small whole numbers, so that everything fits.
    return nf.rows(path, access=access, dtype=TO[dtype]), array.astype(TO[dtype])


TO = {
    "i8": "i8",
    "u1": "f4",
    "f4": "f8",
    "c8": "c16",
    "f8": "f4",
    "?": "u1",
    "f2": "f4",
    "c16": "c8",
    "M8[s]": "i8",
    "m8[25ns]": "m8[25ns]",
    "U5": "U5",
    "S4": "S4",
}


def npz_rows_of(**how: Any) -> Callable[..., Opened]:
    def build(tmp_path, shape, dtype, access) -> Opened:
        array = sample(N, shape, dtype)
        stored = array.astype(SWAPPED[dtype]) if how.get("swapped") else array
        data = npy_bytes(stored, fortran=how.get("fortran", False))
        path = write_npz(tmp_path / "x.npz", how.get("compressed", False), how.get("pad", 0), a=np.arange(3), x=data)
        return nf.rows(nf.npz(path)["x"], access=access), array

    return build


def npz_shards(tmp_path, shape, dtype, access) -> Opened:
    array = sample(N, shape, dtype)
    paths = [
        write(tmp_path / "0.npy", array[:7]),
        write_npz(tmp_path / "1.npz", pad=1, x=array[7:7]),
        write_npz(tmp_path / "2.npy", pad=3, x=array[7:20].astype(SWAPPED[dtype])),
    ]
    rest = write_npz(tmp_path / "3.npz", y=np.zeros(3), x=array[20:])
    return nf.rows([*paths, nf.npz(rest)["x"]], access=access), array


def appended_rows(tmp_path, shape, dtype, access) -> Opened:
    array = sample(N, shape, dtype)
    paths = [tmp_path / "0.npy", tmp_path / "1.npy"]
    cuts = [0, 7, 7, 8, 30, N]
    with open(paths[0], "wb") as first, open(paths[1], "wb") as second:
        for at, (start, stop) in enumerate(itertools.pairwise(cuts)):
            stored = array[start:stop].astype(SWAPPED[dtype] if at % 2 else dtype)
            (first if at < 4 else second).write(npy_bytes(stored, align=1 if at == 2 else 64, fortran=at == 3))
    return nf.rows(paths, access=access, appended=True), array


PACKED_ROWS = {
    "npz compressed": npz_rows_of(compressed=True),
    "npz compressed fortran swapped": npz_rows_of(compressed=True, fortran=True, swapped=True, pad=7),
}

ROWS = {
    **PACKED_ROWS,
    "npz": npz_rows_of(),
    "npz fortran": npz_rows_of(fortran=True, pad=9),
    "npz swapped unaligned": npz_rows_of(swapped=True, pad=5),
    "npz shards": npz_shards,
    "appended": appended_rows,
    "plain": rows_of(),
    "fortran": rows_of(fortran=True),
    "swapped": rows_of(swapped=True),
    "unaligned": rows_of(align=1),
    "unaligned fortran swapped": rows_of(align=1, fortran=True, swapped=True),
    "version 2": rows_of(version=(2, 0), align=16),
    "version 3": rows_of(version=(3, 0)),
    "shards": row_shards,
    "axis 1": rows_along_1,
    "axis -1": rows_along_last,
    "cast": rows_cast,
}


def array_of(change: Callable[[np.ndarray], Any]) -> Callable[..., Opened]:
    def build(tmp_path, shape, dtype) -> Opened:
        array = sample(2 * N, shape, dtype)
        given = change(array)
        whole = np.concatenate(given) if isinstance(given, list) else np.asarray(given)
        return nf.rows(given), whole.astype(dtype)

    return build


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def unaligned(array: np.ndarray) -> np.ndarray:
    memory = np.empty(array.nbytes + 1, "u1")
    out = memory[1:].view(array.dtype).reshape(array.shape) if array.nbytes else array
    out[...] = array
    return out


ARRAYS = {
    "plain": array_of(lambda a: a),
    "every second": array_of(lambda a: a[::2]),
    "backwards": array_of(lambda a: a[::-1]),
    "fortran": array_of(np.asfortranarray),
    "swapped": array_of(lambda a: a.astype(a.dtype.newbyteorder("S"))),
    "read-only": array_of(read_only),
    "unaligned": array_of(unaligned),
    "broadcast": array_of(lambda a: np.broadcast_to(a[0], a.shape)),
    "shards": array_of(lambda a: [a[:5], a[5:5], a[5:40:2], np.asfortranarray(a[40:])]),
}


def files_of(**how: Any) -> Callable[..., Opened]:
    def build(tmp_path, shape, dtype) -> Opened:
        array = sample(N, shape, dtype)
        for at, one in enumerate(array):
            mixed = how.get("mixed", False)
            write(
                tmp_path / f"{at}.npy",
                np.asarray(one).astype(SWAPPED[dtype] if how.get("swapped") or (mixed and at % 2) else dtype),
                fortran=how.get("fortran", False) or (mixed and at % 3 == 1),
                align=1 if how.get("unaligned") or (mixed and at % 5 == 0) else 64,
                version=(2, 0) if mixed and at % 7 == 0 else (1, 0),
            )
        target = TO[dtype] if how.get("cast") else dtype
        return nf.files(tmp_path, dtype=target if how.get("cast") else None), array.astype(target)

    return build


def archives_of(**how: Any) -> Callable[..., Opened]:
    """An archive an example, some of them not archives at all."""

    def build(tmp_path, shape, dtype) -> Opened:
        array = sample(N, shape, dtype)
        for at, one in enumerate(array):
            if how.get("mixed") and at % 3 == 0:
                write(tmp_path / f"{at}.npz", one)
                continue
            stored = np.asarray(one).astype(SWAPPED[dtype] if at % 2 and how.get("swapped") else dtype)
            data = npy_bytes(stored, fortran=how.get("fortran", False))
            more = {} if how.get("members") is None else {"other": np.arange(at)}
            compressed = how.get("compressed", False) or (how.get("mixed", False) and at % 3 == 1)
            write_npz(tmp_path / f"{at}.npz", compressed, at % 5, **more, x=data)
        return nf.files(tmp_path, pattern="*.npz", members=how.get("members")), array

    return build


FILES = {
    "npz": archives_of(),
    "npz members": archives_of(members="x"),
    "npz swapped": archives_of(swapped=True),
    "npz compressed": archives_of(compressed=True, swapped=True, members=["no", "x"]),
    "npz fortran": archives_of(fortran=True),
    "npz mixed": archives_of(mixed=True, swapped=True),
    "plain": files_of(),
    "fortran": files_of(fortran=True),
    "swapped": files_of(swapped=True),
    "unaligned": files_of(unaligned=True),
    "mixed": files_of(mixed=True),
    "cast": files_of(cast=True),
    "mixed cast": files_of(mixed=True, cast=True),
}

CASES = (
    [("rows", name, access) for name in ROWS for access in ("ram", "mmap", "read") if name not in PACKED_ROWS]
    + [("rows", name, "ram") for name in PACKED_ROWS]
    + [("array", name, "ram") for name in ARRAYS]
    + [("files", name, "files") for name in FILES]
)


@pytest.fixture(params=CASES, ids="-".join)
def opened(request):
    """Call it with a row shape and a dtype to get a flow and the array that it must equal."""
    kind, name, access = request.param

    def build(tmp_path, shape, dtype):
        if kind == "rows":
            flow, want = ROWS[name](tmp_path, shape, dtype, access)
        else:
            flow, want = (ARRAYS if kind == "array" else FILES)[name](tmp_path, shape, dtype)
        return flow, delivered(want), access

    return build


def read(flow: nf.Flow, indices: np.ndarray) -> np.ndarray:
    source = flow._view.examples.sources.sources[0]
    (spec,) = source.specs
    out = np.full((len(indices), *spec.shape), 99).astype(spec.dtype)
    source.read_into(np.asarray(indices, np.int64), [out])
    return out


@pytest.mark.parametrize(("shape", "dtype"), SHAPES, ids=str)
def test_any_indices(tmp_path, opened, shape, dtype):
    flow, want, access = opened(tmp_path, shape, dtype)
    n = len(want)
    rng = np.random.default_rng(0)
    assert len(flow) == n
    unit = np.dtype(dtype).name if dtype[0] in "mM" else None
    assert flow.spec == nf.ArraySpec(want.shape[1:], want.dtype, unit)
    assert flow.access == access
    for indices in (
        np.arange(n),
        np.arange(n)[::-1],
        rng.permutation(n),
        rng.integers(0, n, 100),
        np.repeat(np.arange(n), 2),
        np.array([n - 1]),
        np.array([0, 0, 0]),
        np.array([5, 6, 7, 3, 4, 20, 21, 20]),
        np.empty(0, np.int64),
    ):
        same(read(flow, indices), want[indices])
    for at in (0, n // 2, n - 1):
        same(flow[at], want[at])
    same(flow[-1], want[-1])
    flow.close()


def test_places(tmp_path, opened):
    flow, want, _ = opened(tmp_path, (2, 3, 4), "f4")
    source = flow._view.examples.sources.sources[0]
    for at in (0, 9, len(want) - 1):
        place = source.place(at)
        if place.path is not None:
            assert place.path.startswith(str(tmp_path))
            assert place.path in str(place)
        assert (place.row is None) == (flow.access == "files")


def test_many_threads(tmp_path, opened):
    flow, want, _ = opened(tmp_path, (3,), "u1")
    wrong: list[Any] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(20):
            indices = rng.integers(0, len(want), int(rng.integers(1, 30)))
            try:
                same(read(flow, indices), want[indices])
            except BaseException as error:
                wrong.append(error)
                raise

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("access", ["ram", "mmap", "read"])
@pytest.mark.parametrize("axis", [0, 1])
def test_values_that_lie_far_apart(tmp_path, access, axis):
    array = sample(20_000, (3,), "f4") if axis == 0 else sample(3, (20_000,), "f4")
    path = write(tmp_path / "x.npy", array, fortran=axis == 0)
    flow = nf.rows(path, access=access, axis=axis)
    want = np.moveaxis(array, axis, 0)
    rng = np.random.default_rng(1)
    for indices in (
        rng.integers(0, 20_000, 300),
        np.sort(rng.integers(0, 20_000, 5)),
        np.arange(100, 160),
        np.array([19_999, 0]),
    ):
        same(read(flow, indices), want[indices])


def test_auto_never_loads_and_goes_by_row_size(tmp_path):
    small = write(tmp_path / "small.npy", np.zeros((4, 10), "f4"))
    large = write(tmp_path / "large.npy", np.zeros((4, 100_000), "f4"))
    flow = nf.rows((small, large, np.zeros(4)))
    assert flow.access == ("mmap", "read", "ram")


def test_ram_stops_before_memory_runs_out(tmp_path, monkeypatch):
    from npyflow._sources import shards

    path = write(tmp_path / "x.npy", np.zeros((1000, 100), "f8"))
    monkeypatch.setattr(shards, "free_memory", lambda: 500_000)
    with pytest.raises(nf.OptionError, match=r"needs 800\.0 kB, 500\.0 kB are free; use access='mmap' or 'read'"):
        nf.rows(path, access="ram")
    assert len(nf.rows(path)) == 1000


def test_a_row_may_not_be_missing(tmp_path):
    for array, axis in ((np.zeros(()), 0), (np.zeros(3), 1), (np.zeros((2, 2)), -3)):
        with pytest.raises(nf.NpyflowError, match="axis"):
            nf.rows(write(tmp_path / "x.npy", array), axis=axis)
    with pytest.raises(nf.ShapeMismatchError, match="axis"):
        nf.rows([np.zeros((2, 3)), np.zeros(3)])


@pytest.mark.parametrize("second", [np.zeros((2, 4), "f4"), np.zeros((2, 3), "f8"), np.zeros((2, 3, 1), "f4")])
def test_shards_must_agree(tmp_path, second):
    first = np.zeros((5, 3), "f4")
    paths = [write(tmp_path / "0.npy", first), write(tmp_path / "1.npy", second)]
    for data in (paths, [first, second]):
        with pytest.raises(nf.ShapeMismatchError) as caught:
            nf.rows(data)
    with pytest.raises(nf.ShapeMismatchError) as caught:
        nf.rows(paths)
    assert paths[1] in str(caught.value)


def test_a_masked_array_is_refused():
    with pytest.raises(nf.OptionError, match="mask"):
        nf.rows(np.ma.masked_equal(np.arange(5), 3))


@pytest.mark.parametrize("access", ["mmap", "read", "ram"])
@pytest.mark.parametrize(("axis", "order"), [(0, "C"), (0, "F"), (1, "C")])
def test_large_rows_of_several_shards_go_straight_to_their_places(tmp_path, access, axis, order):
    arrays = [np.arange(count * 9000, dtype="f4").reshape(count, 9000) + 1000 * count for count in (3, 1, 5)]
    for number, array in enumerate(arrays):
        write(tmp_path / f"{number}.npy", np.asarray(array if axis == 0 else array.T, order=order))
    whole = np.concatenate(arrays)
    flow = nf.rows(str(tmp_path / "*.npy"), axis=axis, access=access)
    for indices in ([8, 0, 3, 2, 2, 7], [4], [0, 1, 2, 3, 4, 5, 6, 7, 8]):
        np.testing.assert_array_equal(np.stack(flow.__getitems__(indices)), whole[indices])
    for batch, start in zip(flow.batches(4), range(0, 9, 4), strict=True):
        np.testing.assert_array_equal(batch, whole[start : start + 4])
