"""Regions of files: each equals a slice at the position that the flow names, of every component the same."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npyflow as nf
import npyflow._sources.boxes as boxes
from helpers import DTYPES, delivered, same, sample, write, write_npz

Array = np.ndarray[Any, Any]
ACCESS = ["auto", "mmap", "read"]
SIZES = [(8, 9), (10, 7), (6, 12), (7, 7)]
KINDS: dict[str, dict[str, Any]] = {
    "centre": {},
    "random": {"random": True},
    "some": {"random": True, "per_file": 3},
    "grid": {"grid": True},
    "overlapping grid": {"grid": True, "overlap": 1},
}


def slice_at(array: Array, shape: Sequence[int | None], corner: Sequence[int], pad: Any = None) -> Array:
    """The region by NumPy alone; `corner` has an entry for each size that is not None."""
    at = iter(corner)
    for axis, size in enumerate(shape):
        if size is None:
            continue
        start, have = int(next(at)), array.shape[axis]
        if have >= size:
            assert 0 <= start <= have - size
            array = np.take(array, np.arange(start, start + size), axis)
            continue
        assert -start in ((size - have) // 2, (size - have + 1) // 2)
        widths = [(0, 0)] * array.ndim
        widths[axis] = (-start, size - have + start)
        how = {"mode": pad} if isinstance(pad, str) else {"constant_values": pad}
        array = np.pad(array, widths, **how)
    return array


def tiles(have: int, size: int, overlap: int) -> list[int]:
    starts = list(range(0, max(have - size, 0) + 1, size - overlap))
    if starts[-1] + size < have:
        starts.append(have - size)
    return starts if have >= size else [-((size - have) // 2)]


def corners(array: Array, crop: nf.Crop) -> list[tuple[int, ...]]:
    """Of all tiles, the last axis fastest."""
    pairs = [(array.shape[axis], size) for axis, size in enumerate(crop.shape) if size is not None]
    overlaps = crop.overlap if isinstance(crop.overlap, tuple) else [crop.overlap] * len(pairs)
    return list(itertools.product(*(tiles(*pair, one) for pair, one in zip(pairs, overlaps, strict=True))))


def check(flow: nf.Flow, arrays: dict[str, Array], crop: nf.Crop, pad: Any = None) -> None:
    """Every way out, in two epochs, for files in the order of `arrays`."""
    per_file = [len(corners(array, crop)) if crop.grid else crop.per_file for array in arrays.values()]
    keys = [key for key, count in zip(arrays, per_file, strict=True) for _ in range(count)]
    assert len(flow) == len(keys)
    assert list(flow.keys) == keys
    for epoch in (0, 3):
        at = flow.positions(epoch)
        assert at.shape == (len(keys), sum(size is not None for size in crop.shape))
        assert at.dtype == np.int64
        want = [slice_at(arrays[key], crop.shape, corner, pad) for key, corner in zip(keys, at, strict=True)]
        got = [one for batch in flow.batches(4, epoch=epoch) for one in batch]
        for one, other in zip(got, want, strict=True):
            same(one, other)
        for indices, batch in flow.batches(3, epoch=epoch, shuffle=True, with_index=True):
            for i, one in zip(indices, batch, strict=True):
                same(one, want[i])
        if epoch == 0:
            for i, one in enumerate(want):
                same(flow[i], one)
            assert flow.spec.shape == want[0].shape
    if crop.grid:
        assert flow.positions().tolist() == [list(one) for array in arrays.values() for one in corners(array, crop)]
    if not crop.random:
        same(flow.positions(0), flow.positions(7))


def save(folder: Path, arrays: dict[str, Array], **how: Any) -> Path:
    for key, array in arrays.items():
        write(folder / f"{key}.npy", array, **how)
    return folder


def planes(tail: tuple[int, ...] = (), dtype: Any = "f4", sizes: Any = SIZES) -> dict[str, Array]:
    return {str(at): sample(size[0], (*size[1:], *tail), dtype, seed=at) for at, size in enumerate(sizes)}


# Against slicing


@pytest.mark.parametrize("access", ["mmap", "read"])
@pytest.mark.parametrize("fortran", [False, True])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_regions_equal_slices(tmp_path, kind, swapped, fortran, access):
    arrays = planes((3,) if swapped else ())
    stored = {key: array.astype(">f4" if swapped else "<f4") for key, array in arrays.items()}
    crop = nf.Crop((4, 5), **KINDS[kind], access=access)
    flow = nf.files(save(tmp_path, stored, fortran=fortran), crop=crop)
    check(flow, arrays, crop)
    assert flow.access == access
    automatic = nf.files(tmp_path, crop=nf.Crop((4, 5), **KINDS[kind]))
    for got, want in zip(automatic.batches(50), flow.batches(50), strict=True):
        same(got, want)


@pytest.mark.parametrize(("access", "fortran"), [("mmap", True), ("read", False), ("read", True)])
@pytest.mark.parametrize(
    ("size", "shape"),
    [
        ((50,), (7,)),
        ((9, 11), (9, 3)),
        ((9, 11), (None, 3)),
        ((9, 11), (3, None)),
        ((9, 11), (3,)),
        ((6, 7, 8), (2, 3, 4)),
        ((6, 7, 8), (None, 3)),
        ((6, 7, 8), (2, None, 4)),
        ((5, 4, 6, 3), (2, 3, 4)),
        ((5, 4, 6, 3), (None, None, 2, 2)),
        ((5, 4, 6, 3), (5, 4, 6, 3)),
    ],
)
def test_any_axes(tmp_path, size, shape, fortran, access):
    arrays = {str(at): sample(size[0], size[1:], "i2", seed=at) for at in range(2)}
    save(tmp_path, arrays, fortran=fortran)
    for kind in KINDS:
        options = {**KINDS[kind]}
        if options.get("overlap") and 1 in shape:
            continue
        crop = nf.Crop(shape, **options, access=access)
        check(nf.files(tmp_path, crop=crop), arrays, crop)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_region_of_any_array(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("any")
    rank = data.draw(st.integers(1, 4))
    sizes = [data.draw(st.lists(st.integers(1, 9), min_size=rank, max_size=rank)) for _ in range(2)]
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=rank)))
    # Beyond the crop, files must be alike.
    sizes[1][len(shape) :] = sizes[0][len(shape) :]
    arrays = {str(at): sample(size[0], tuple(size[1:]), "u2", seed=at) for at, size in enumerate(sizes)}
    save(folder, arrays, fortran=data.draw(st.booleans()), align=data.draw(st.sampled_from([1, 16, 64])))
    kind = data.draw(st.sampled_from(["centre", "random", "some", "grid"]))
    crop = nf.Crop(shape, **KINDS[kind], pad=7, access=data.draw(st.sampled_from(["mmap", "read"])))
    check(nf.files(folder, crop=crop), arrays, crop, 7)


@pytest.mark.parametrize("access", ["mmap", "read"])
@pytest.mark.parametrize("dtype", [*DTYPES, "M8[s]", "U3", "S5"])
def test_any_dtype(tmp_path, dtype, access):
    array = sample(9, (7,), dtype)
    write(tmp_path / "x.npy", array.astype(array.dtype.newbyteorder("S")), fortran=True)
    flow = nf.files([tmp_path / "x.npy"], crop=nf.Crop((4, 3), random=True, per_file=4, access=access))
    for got, (y, x) in zip(next(flow.batches(4)), flow.positions(), strict=True):
        same(got, delivered(array[y : y + 4, x : x + 3]))


@pytest.mark.parametrize("access", ["mmap", "read"])
@pytest.mark.parametrize(("align", "version"), [(1, (1, 0)), (16, (2, 0)), (64, (3, 0)), (1, (3, 0))])
def test_odd_headers(tmp_path, align, version, access):
    arrays = planes((2,), "f8")
    crop = nf.Crop((3, 4), random=True, access=access)
    check(nf.files(save(tmp_path, arrays, align=align, version=version), crop=crop), arrays, crop)


@pytest.mark.parametrize("access", ACCESS)
def test_files_may_differ_in_order_and_byte_order(tmp_path, access):
    arrays = planes((2,))
    for at, (key, array) in enumerate(arrays.items()):
        write(tmp_path / f"{key}.npy", array.astype("<f4" if at % 2 else ">f4"), fortran=at > 1)
    crop = nf.Crop((3, 4), random=True, per_file=2, access=access)
    check(nf.files(tmp_path, crop=crop), arrays, crop)


@pytest.mark.parametrize("access", ACCESS)
@pytest.mark.parametrize("dtype", ["f8", "f2", "i4"])
def test_casts(tmp_path, dtype, access):
    arrays = {key: np.round(array * 3) for key, array in planes().items()}
    crop = nf.Crop((3, 4), random=True, access=access)
    flow = nf.files(save(tmp_path, arrays), crop=crop, dtype=dtype)
    check(flow, {key: array.astype(dtype) for key, array in arrays.items()}, crop)


def test_casts_are_checked_where_they_are_read(tmp_path):
    array = np.zeros((10, 10), "i4")
    array[0, 0], array[5, 5] = 300, -1
    write(tmp_path / "x.npy", array)
    flow = nf.files([tmp_path / "x.npy"], crop=nf.Crop((2, 2), grid=True), dtype="u1")
    same(flow[1], np.zeros((2, 2), "u1"))
    for at, value in ((0, "300"), (12, "-1")):
        with pytest.raises(nf.CastError, match=rf"(?s)x\.npy.*{value}|{value}.*x\.npy"):
            flow[at]


@pytest.mark.parametrize("access", ACCESS)
def test_fields(tmp_path, access):
    array = np.zeros((8, 9), [("a", "<f4"), ("b", ">i2", (2,))])
    array["a"], array["b"] = sample(8, (9,)), sample(8, (9, 2), "i2")
    write(tmp_path / "x.npy", array)
    crop = nf.Crop((3, 4), random=True, per_file=3, access=access)
    flow = nf.files([tmp_path / "x.npy"], crop=crop)
    for i, (y, x) in enumerate(flow.positions()):
        same(flow[i]["a"], array["a"][y : y + 3, x : x + 4])
        same(flow[i]["b"], array["b"][y : y + 3, x : x + 4])
    one = nf.files([tmp_path / "x.npy"], crop=crop, fields="b")
    same(one[1], flow[1]["b"])


@pytest.mark.parametrize("access", ACCESS)
@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_members_of_npz(tmp_path, kind, compressed, access):
    arrays = planes((2,))
    for at, (key, array) in enumerate(arrays.items()):
        write_npz(tmp_path / f"{key}.npz", compressed, pad=at, x=array, y=array[..., 0])
    crop = nf.Crop((4, 5), **KINDS[kind], access=access)
    try:
        flow = nf.files(str(tmp_path / "*.npz"), members=("x", "y"), crop=crop)
    except nf.OptionError as error:
        assert compressed and access != "auto" and "compressed" in str(error)  # noqa: PT017, PT018
        return
    for i, (key, corner) in enumerate(zip(flow.keys, flow.positions(), strict=True)):
        x, y = flow[i]
        same(x, slice_at(arrays[key], (4, 5), corner))
        same(y, x[..., 0])


def test_transposed_regions(tmp_path):
    arrays = planes((3,))
    crop = nf.Crop((4, 5), random=True)
    flow = nf.files(save(tmp_path, arrays), crop=crop, transpose="channels_first")
    for i, (key, corner) in enumerate(zip(flow.keys, flow.positions(), strict=True)):
        same(flow[i], np.moveaxis(slice_at(arrays[key], (4, 5), corner), -1, 0))


# Smaller arrays


@pytest.mark.parametrize(("access", "fortran"), [("mmap", False), ("read", True)])
@pytest.mark.parametrize("pad", [0, 2.5, np.nan, "edge", "reflect"])
@pytest.mark.parametrize("kind", KINDS)
def test_padding_equals_numpy(tmp_path, kind, pad, fortran, access):
    arrays = planes((2,), sizes=[(3, 4), (8, 3), (2, 9), (9, 9), (5, 5)])
    crop = nf.Crop((6, 5), **KINDS[kind], pad=pad, access=access)
    check(nf.files(save(tmp_path, arrays, fortran=fortran), crop=crop), arrays, crop, pad)


@pytest.mark.parametrize("pad", ["edge", "reflect"])
def test_padding_far_beyond_the_array(tmp_path, pad):
    arrays = planes(sizes=[(1, 3), (2, 1), (3, 2)])
    crop = nf.Crop((11, 10), pad=pad)
    check(nf.files(save(tmp_path, arrays), crop=crop), arrays, crop, pad)


def test_padding_of_an_empty_array(tmp_path):
    write(tmp_path / "a.npy", np.zeros((0, 4), "f4"))
    write(tmp_path / "b.npy", np.ones((5, 4), "f4"))
    flow = nf.files(tmp_path, crop=nf.Crop((3, 2), pad=7))
    same(flow[0], np.full((3, 2), 7, "f4"))
    with pytest.raises(nf.NpyflowError, match=r"a\.npy"):
        # There is no edge to repeat.
        nf.files(tmp_path, crop=nf.Crop((3, 2), pad="edge"))[0]


def test_padding_must_fit_the_dtype(tmp_path):
    write(tmp_path / "x.npy", np.zeros((3, 3), "u1"))
    for value in (0.5, -1, 256, np.nan):
        with pytest.raises(nf.OptionError, match=r"pad=.*uint8|uint8.*pad="):
            nf.files([tmp_path / "x.npy"], crop=nf.Crop((4, 4), pad=value))
    same(nf.files([tmp_path / "x.npy"], crop=nf.Crop((5, 3), pad=9.0))[0][0], np.full(3, 9, "u1"))
    flow = nf.files([tmp_path / "x.npy"], crop=nf.Crop((5, 3), pad=0.5), dtype="f4")
    same(flow[0][0], np.full(3, 0.5, "f4"))


def test_smaller_arrays_are_an_error(tmp_path):
    save(tmp_path, {"big": np.zeros((9, 9)), "low": np.zeros((3, 9)), "thin": np.zeros((9, 2))})
    for kind in KINDS.values():
        with pytest.raises(
            nf.ShapeMismatchError, match=r"(?=.*2 files)(?=.*low\.npy.*3)(?=.*thin\.npy)(?=.*pad)"
        ) as error:
            nf.files(tmp_path, crop=nf.Crop((4, 4), **kind))
        assert "big" not in str(error.value)
    save(tmp_path, {f"s{at}": np.zeros((1, 1)) for at in range(100)})
    with pytest.raises(nf.ShapeMismatchError) as error:
        nf.files(tmp_path, crop=nf.Crop((4, 4)))
    assert len(str(error.value)) < 2000


# Grids


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_a_grid_covers_every_element(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("grid")
    rank = data.draw(st.integers(1, 3))
    have = data.draw(st.lists(st.integers(1, 12), min_size=rank, max_size=rank))
    size = tuple(data.draw(st.integers(1, n)) for n in have)
    overlap = tuple(data.draw(st.integers(0, n - 1)) for n in size)
    array = np.arange(np.prod(have)).reshape(have)
    write(folder / "x.npy", array)
    crop = nf.Crop(size, grid=True, overlap=overlap)
    flow = nf.files([folder / "x.npy"], crop=crop)
    check(flow, {"x": array}, crop)
    assert {int(value) for i in range(len(flow)) for value in flow[i].ravel()} == set(array.ravel().tolist())
    assert len(np.unique(flow.positions(), axis=0)) == len(flow)


def test_sizes_of_grids(tmp_path):
    write(tmp_path / "x.npy", np.zeros((10, 7)))
    for size, overlap, count in (
        ((5, 7), 0, 2),
        ((4, 4), 0, 6),
        ((4, 4), 2, 12),
        ((4, 4), (0, 3), 12),
        ((10, 7), 3, 1),
    ):
        assert len(nf.files([tmp_path / "x.npy"], crop=nf.Crop(size, grid=True, overlap=overlap))) == count


# Several components


def pairs(folder: Path) -> tuple[dict[str, Array], dict[str, Array]]:
    images, masks = planes((3,)), planes((), "i8")
    save(folder / "image", images)
    save(folder / "mask", masks, fortran=True)
    return images, masks


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nest", ["dict", "tuple"])
@pytest.mark.parametrize("each", [False, True])
def test_image_and_mask_are_cropped_alike(tmp_path, kind, nest, each):
    images, masks = pairs(tmp_path)
    crop = nf.Crop((4, 5), **KINDS[kind])
    names = {name: tmp_path / name for name in ("image", "mask")}
    given_crop: Any = crop
    if each:
        other = nf.Crop((4, 5, None), **KINDS[kind], access="read")
        given_crop = {"image": other, "mask": crop} if nest == "dict" else (other, crop)
    flow = nf.files(names if nest == "dict" else tuple(names.values()), crop=given_crop)
    for epoch in (0, 2):
        keys, at = flow.keys, flow.positions(epoch)
        for indices, batch in flow.batches(3, epoch=epoch, shuffle=True, with_index=True):
            image, mask = batch.values() if nest == "dict" else batch
            for i, one, other in zip(indices, image, mask, strict=True):
                same(one, slice_at(images[keys[i]], (4, 5), at[i]))
                same(other, slice_at(masks[keys[i]], (4, 5), at[i]))


@pytest.mark.parametrize("kind", KINDS)
def test_uncropped_components_and_labels(tmp_path, kind):
    images, _ = pairs(tmp_path)
    vectors = {key: np.full(2, int(key), "f8") for key in images}
    save(tmp_path / "vector", vectors)
    labels = {key: int(key) * 10 for key in images}
    data = {"image": tmp_path / "image", "vector": tmp_path / "vector"}
    flow = nf.files(data, crop={"image": nf.Crop((4, 5), **KINDS[kind])}, labels=labels)
    tuples = nf.files(tuple(data.values()), crop=(nf.Crop((4, 5), **KINDS[kind]), None), labels=labels)
    named = nf.files(data, crop={"image": nf.Crop((4, 5), **KINDS[kind]), "vector": None})
    same(named.positions(1), flow.positions(1))
    for flat in (flow, tuples):
        for i, (key, corner) in enumerate(zip(flat.keys, flat.positions(), strict=True)):
            inputs, label = flat[i]
            image, vector = inputs.values() if isinstance(inputs, dict) else inputs
            same(image, slice_at(images[key], (4, 5), corner))
            same(vector, vectors[key])
            assert int(label) == labels[key]


def test_components_padded_apart(tmp_path):
    images, masks = pairs(tmp_path)
    crop = {"image": nf.Crop((9, 5), random=True, pad="edge"), "mask": nf.Crop((9, 5), random=True, pad=255)}
    flow = nf.files({name: tmp_path / name for name in crop}, crop=crop)
    for i, (key, corner) in enumerate(zip(flow.keys, flow.positions(), strict=True)):
        same(flow[i]["image"], slice_at(images[key], (9, 5), corner, "edge"))
        same(flow[i]["mask"], slice_at(masks[key], (9, 5), corner, 255))


def test_components_that_disagree(tmp_path):
    pairs(tmp_path)
    data = {"image": tmp_path / "image", "mask": tmp_path / "mask"}
    base = nf.Crop((4, 5), random=True)
    for other in (
        nf.Crop((4, 4), random=True),
        nf.Crop((4, 5)),
        nf.Crop((4, 5), random=True, seed=1),
        nf.Crop((4, 5), random=True, per_file=2),
        nf.Crop((4, 5), grid=True),
    ):
        with pytest.raises(nf.OptionError, match=r"crop.*image.*mask"):
            nf.files(data, crop={"image": base, "mask": other})
    write(tmp_path / "mask" / "1.npy", np.zeros((9, 7), "i8"))
    with pytest.raises(nf.ShapeMismatchError, match=r"(?s)(?=.*1)(?=.*\b10\b)(?=.*\b9\b)"):
        nf.files(data, crop=base)
    save(tmp_path / "equal", {"0": np.zeros((8, 8))})
    with pytest.raises(nf.OptionError, match=r"crop.*\[0\].*\[1\]"):
        nf.files((tmp_path / "equal", tmp_path / "equal"), crop=(base, nf.Crop((4,), random=True)))


def test_wrong_crops(tmp_path):
    pairs(tmp_path)
    data = {"image": tmp_path / "image", "mask": tmp_path / "mask"}
    for crop in (5, "centre", (4, 5), {"imag": nf.Crop((4, 5))}, {"image": 3}):
        with pytest.raises(nf.OptionError, match=r"crop|Crop"):
            nf.files(data, crop=crop)
    for pad in ([1, 2], "x", 1 + 2j):
        with pytest.raises(nf.OptionError, match="pad="):
            nf.files(data, crop=nf.Crop((9, 9), pad=pad))
    with pytest.raises(nf.ShapeMismatchError, match=r"3.*2"):
        nf.files(data, crop=nf.Crop((4, 5, 1)))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"random": True, "grid": True}, "random.*grid"),
        ({"per_file": 2}, "per_file"),
        ({"grid": True, "per_file": 2}, "per_file"),
        ({"random": True, "per_file": 0}, "per_file"),
        ({"overlap": 1}, "overlap.*grid"),
        ({"grid": True, "overlap": 4}, "overlap"),
        ({"grid": True, "overlap": -1}, "overlap"),
        ({"grid": True, "overlap": (1, 2, 3)}, "overlap"),
        ({"grid": True, "overlap": 1.5}, "overlap"),
        ({"pad": "wrap"}, "wrap.*edge"),
        ({"access": "ram"}, "access.*ram"),
        ({"random": 1}, "random"),
        ({"random": True, "seed": 0.5}, "seed"),
        ({"random": True, "seed": "a"}, "seed"),
    ],
)
def test_wrong_options(options, match):
    with pytest.raises(nf.OptionError, match=match):
        nf.Crop((4, 5), **options)


@pytest.mark.parametrize("shape", [(), (None,), (None, None), (0, 4), (-1,), (4.5,), ("a",), 4, None])
def test_wrong_shapes(shape):
    with pytest.raises(nf.OptionError, match="Crop"):
        nf.Crop(shape)


# Chance


def test_regions_differ_by_epoch_seed_and_turn(tmp_path):
    save(tmp_path, {str(at): np.zeros((100, 100), "u1") for at in range(20)})

    def at(seed: int = 0, epoch: int = 0) -> Array:
        return nf.files(tmp_path, crop=nf.Crop((4, 5), random=True, per_file=2, seed=seed)).positions(epoch)

    found = [at(seed, epoch) for seed in (0, 1, -1, 2**70) for epoch in (0, 1, 2)]
    assert len({one.tobytes() for one in found}) == len(found)
    assert all((one[::2] != one[1::2]).any(axis=1).sum() >= 19 for one in found)
    same(at(1, 2), found[5])
    # Axes are drawn apart.
    assert (found[0][:, 0] != found[0][:, 1]).sum() > 30


def test_regions_are_uniform(tmp_path):
    write(tmp_path / "x.npy", np.zeros((9, 6), "u1"))
    flow = nf.files([tmp_path / "x.npy"], crop=nf.Crop((4, 4), random=True, per_file=9000))
    counts = np.zeros((6, 3), int)
    np.add.at(counts, tuple(flow.positions(4).T), 1)
    assert abs(counts - 500).max() < 5 * 500**0.5


def by_index(flow: nf.Flow, **options: Any) -> dict[int, bytes]:
    return {
        int(i): one.tobytes()
        for indices, batch in flow.batches(3, with_index=True, **options)
        for i, one in zip(indices, batch, strict=True)
    }


def test_regions_are_the_same_in_any_order_and_on_any_worker(tmp_path):
    arrays = planes((2,))
    flow = nf.files(save(tmp_path, arrays), crop=nf.Crop((4, 5), random=True, per_file=3))
    for epoch in (0, 5):
        plain = by_index(flow, epoch=epoch)
        assert len(plain) == 12
        for seed in (0, 1):
            assert by_index(flow, epoch=epoch, shuffle=True, seed=seed) == plain
        assert by_index(flow, epoch=epoch, shuffle=nf.Shuffle(block=2, window=2)) == plain
        shares = [by_index(flow, epoch=epoch, shuffle=True, shard=(at, 3)) for at in range(3)]
        assert {key: value for share in shares for key, value in share.items()} == plain
        rest = by_index(flow, epoch=epoch, start_step=2)
        assert rest == {i: one for i, one in plain.items() if i >= 6}
        again = pickle.loads(pickle.dumps(flow))
        assert by_index(again, epoch=epoch) == plain


def test_positions_of_a_selection_are_those_of_its_examples(tmp_path):
    arrays = planes((2,))
    flow = nf.files(save(tmp_path, arrays), crop=nf.Crop((4, 5), random=True, per_file=3))
    for part in (flow[5:], flow[[7, 2, 2]], *flow.split(0.5)):
        for epoch in (0, 1):
            at = part.positions(epoch)
            got = [one for batch in part.batches(2, epoch=epoch) for one in batch]
            for one, key, corner in zip(got, part.keys, at, strict=True):
                same(one, slice_at(arrays[key], (4, 5), corner))


def test_an_example_drawn_twice_has_two_regions(tmp_path):
    arrays = {str(at): np.arange(400).reshape(20, 20) + 400 * at for at in range(4)}
    flow = nf.files(save(tmp_path, arrays), crop=nf.Crop((4, 5), random=True))
    options = {"sample": nf.Balanced(labels=np.array([0, 0, 0, 1]), size=60, replace=True), "with_index": True}
    (indices, regions), (again, others) = (next(flow.batches(60, epoch=2, **options)) for _ in range(2))
    same(indices, again)
    same(regions, others)
    for i, region in zip(indices, regions, strict=True):
        corner = np.unravel_index(region[0, 0] - 400 * i, (20, 20))
        same(region, slice_at(arrays[str(i)], (4, 5), corner))
    assert len(np.unique(regions[indices == 3][:, 0, 0])) > 20


# Cost


@pytest.fixture
def reads(monkeypatch):
    """(offset, bytes) of all positional reads of regions."""
    found: list[tuple[int, int]] = []
    real = boxes.read_at

    def counting(fd, body, offset):
        found.append((offset, len(body)))
        return real(fd, body, offset)

    monkeypatch.setattr(boxes, "read_at", counting)
    return found


def pages_of(shape: Sequence[int], itemsize: int, corner: Sequence[int], size: Sequence[int], header: int = 128) -> int:
    """Bytes of the pages that hold a region of an array in C order."""
    z, y = (np.arange(at, at + n) for at, n in zip(corner[:2], size[:2], strict=True))
    first = header + ((z[:, None] * shape[1] + y) * shape[2] + corner[2]) * itemsize
    last = first + size[2] * itemsize - 1
    pages = {page for a, b in zip(first.ravel(), last.ravel(), strict=True) for page in range(a // 4096, b // 4096 + 1)}
    return 4096 * len(pages)


def write_sparse(path: Path, descr: str, shape: tuple[int, ...], fortran: bool = False) -> Path:
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": fortran, "shape": shape})
        file.truncate(file.tell() + int(np.prod(shape)) * np.dtype(descr).itemsize)
    return path


@pytest.mark.parametrize("descr", ["|u1", "<f4", ">f8"])
@pytest.mark.parametrize("side", [512, 1024])
def test_a_small_cube_of_a_large_one_costs_its_pages(tmp_path, reads, descr, side):
    path = write_sparse(tmp_path / "x.npy", descr, (side, side, side))
    flow = nf.files([path], crop=nf.Crop((64, 64, 64), random=True, access="read"))
    reads.clear()
    assert flow[0].shape == (64, 64, 64)
    itemsize = np.dtype(descr).itemsize
    least = 64**3 * itemsize
    pages = pages_of((side,) * 3, itemsize, flow.positions()[0], (64,) * 3)
    got = sum(count for _, count in reads)
    assert least <= got <= 1.05 * max(pages, least)
    # A read for each plane, or for each line where lines are further apart than a page.
    assert len(reads) <= (64 if itemsize * side <= 2048 else 64 * 64) + 2


def test_a_small_cube_in_fortran_order_costs_its_pages(tmp_path, reads):
    path = write_sparse(tmp_path / "x.npy", "<f4", (512, 512, 512), fortran=True)
    flow = nf.files([path], crop=nf.Crop((64, 64, 64), random=True, access="read"))
    reads.clear()
    flow[0]
    pages = pages_of((512,) * 3, 4, flow.positions()[0][::-1], (64,) * 3)
    assert sum(count for _, count in reads) <= 1.05 * pages


def test_whole_trailing_axes_are_one_read(tmp_path, reads):
    write(tmp_path / "x.npy", sample(300, (40, 50), "f4"))
    flow = nf.files([tmp_path / "x.npy"], crop=nf.Crop((10,), random=True, access="read"))
    reads.clear()
    flow[0]
    assert [count for _, count in reads] == [10 * 40 * 50 * 4]


def test_mapped_regions_are_not_read(tmp_path, reads):
    save(tmp_path, planes())
    flow = nf.files(tmp_path, crop=nf.Crop((4, 5), random=True, access="mmap"))
    list(flow.batches(2))
    assert not reads


# Splits, copies


@pytest.mark.parametrize("kind", ["some", "grid"])
def test_a_split_keeps_all_regions_of_a_file_on_one_side(tmp_path, kind):
    arrays = {f"{at:03}": sample(9, (9,), "u1", seed=at) for at in range(60)}
    flow = nf.files(save(tmp_path, arrays), crop=nf.Crop((4, 4), **KINDS[kind]), labels=lambda key: int(key) % 2)
    count = len(flow) // 60
    cuts = {
        "plain": flow.split(0.7, 0.2),
        "groups": flow.split(0.7, 0.2, groups=lambda key: int(key) // 3),
    }
    for parts in cuts.values():
        keys = [list(part.keys) for part in parts]
        assert sum(len(set(one)) for one in keys) == 60
        assert sum(map(len, keys)) == len(flow)
        assert all(len(one) == count * len(set(one)) for one in keys)
    inner = [*cuts["plain"][0].split(0.5), *cuts["plain"][1:]]
    assert sum(len(set(part.keys)) for part in inner) == 60


@pytest.mark.parametrize("how", ["random", "stratify", "time", "folds", "stratified folds", "selection"])
def test_other_splits_do_not_part_the_regions_of_a_file(tmp_path, how):
    """They overlap, so a model would be tested on what it was trained on: kept together, or refused."""
    arrays = {f"{at:03}": sample(9, (9,), "u1", seed=at) for at in range(20)}
    flow = nf.files(
        save(tmp_path, arrays), crop=nf.Crop((6, 6), random=True, per_file=4), labels=lambda key: int(key) % 2
    )
    ways = {
        "random": lambda: flow.split(0.52, by="random"),
        "stratify": lambda: flow.split(0.52, stratify=True),
        "time": lambda: flow.split(0.52, by="time"),
        "folds": lambda: flow.folds(3)[0],
        "stratified folds": lambda: flow.folds(3, stratify=True)[0],
        "selection": lambda: flow[::-1].split(0.5),
    }
    try:
        parts = ways[how]()
    except nf.OptionError:
        return
    assert not set(parts[0].keys) & set(parts[1].keys)


@pytest.mark.parametrize("access", ACCESS)
@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_loaded(tmp_path, kind, access):
    pairs(tmp_path)
    crop = {
        "image": nf.Crop((7, 5), **KINDS[kind], pad="reflect", access=access),
        "mask": nf.Crop((7, 5), **KINDS[kind], pad=9, access=access),
    }
    data = {"image": tmp_path / "image", "mask": tmp_path / "mask"}
    flow = nf.files(data, crop=crop, labels=lambda key: int(key), dtype={"image": "f8"})
    for at, part in enumerate((flow, flow[::-1])):
        part.save(tmp_path / f"{at}.json")
        for again in (nf.load(tmp_path / f"{at}.json"), pickle.loads(pickle.dumps(part))):
            assert again.spec == part.spec
            assert list(again.keys) == list(part.keys)
            for epoch in (0, 2):
                same(again.positions(epoch), part.positions(epoch))
                for got, want in zip(again.batches(3, epoch=epoch), part.batches(3, epoch=epoch), strict=True):
                    same(got[0]["image"], want[0]["image"])
                    same(got[0]["mask"], want[0]["mask"])
                    same(got[1], want[1])


def test_a_pad_that_json_does_not_know(tmp_path):
    write(tmp_path / "x.npy", np.ones((2, 2)))
    for value in (np.nan, np.inf, np.float32(0.1), np.int8(3)):
        flow = nf.files([tmp_path / "x.npy"], crop=nf.Crop((3, 3), pad=value), dtype="f8")
        flow.save(tmp_path / "m.json")
        same(nf.load(tmp_path / "m.json")[0], flow[0])


@pytest.mark.parametrize("access", ACCESS)
def test_a_changed_file_is_noticed(tmp_path, access):
    save(tmp_path, planes())
    flow = nf.files(tmp_path, crop=nf.Crop((4, 5), access=access))
    flow.save(tmp_path / "m.json")
    write(tmp_path / "1.npy", np.zeros((20, 20), "f4"))
    again = nf.load(tmp_path / "m.json")
    again[0]
    with pytest.raises(nf.FileChangedError, match=r"1\.npy"):
        again[1]


def test_a_bad_file_is_skipped(tmp_path):
    arrays = planes()
    save(tmp_path, arrays)
    (tmp_path / "2.npy").write_bytes(b"nothing")
    with pytest.raises(nf.FileFormatError, match=r"2\.npy"):
        nf.files(tmp_path, crop=nf.Crop((4, 5)))
    flow = nf.files(tmp_path, crop=nf.Crop((4, 5), random=True, per_file=2), on_bad="skip")
    assert list(flow.keys) == ["0", "0", "1", "1", "3", "3"]
    for i, (key, corner) in enumerate(zip(flow.keys, flow.positions(), strict=True)):
        same(flow[i], slice_at(arrays[key], (4, 5), corner))


def test_regions_through_a_function_and_statistics(tmp_path):
    arrays = planes((3,))
    flow = nf.files(save(tmp_path, arrays), crop=nf.Crop((4, 5), grid=True))
    same(flow.map(lambda x, rng: x.max())[2], flow[2].max())
    regions = np.stack([flow[i] for i in range(len(flow))])
    stats = flow.stats()
    assert stats.examples == len(flow)
    np.testing.assert_allclose(stats[""].mean, regions.mean(dtype="f8"), rtol=1e-6)
    np.testing.assert_allclose(stats[""].channels.std, regions.std((0, 1, 2), dtype="f8"), rtol=1e-6)
