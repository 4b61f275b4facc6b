"""`npyflow.pack`: the same examples, keys, labels and order, in files that NumPy opens."""

import hashlib
import json
import os
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npyflow as nf
from helpers import DTYPES, delivered, npy_bytes, same, sample, touch_later, write, write_npz
from npyflow._core.buffers import BufferPool


def folder_of(path: Path, arrays: Any, **kwargs: Any) -> str:
    for at, array in enumerate(arrays):
        write(path / f"{at}.npy", array, **kwargs)
    return str(path)


def leaves(example: Any) -> list[Any]:
    if isinstance(example, dict):
        return [leaf for value in example.values() for leaf in leaves(value)]
    if isinstance(example, tuple):
        return [leaf for value in example for leaf in leaves(value)]
    return [example]


def bits(value: Any) -> tuple[Any, ...]:
    value = np.asarray(value)
    return value.dtype, value.shape, value.tobytes()


def assert_same_flow(got: nf.Flow, want: nf.Flow) -> None:
    """Equal in structure, shapes, dtypes, keys, classes and every bit."""
    assert len(got) == len(want)
    assert got.spec == want.spec
    assert got.classes == want.classes
    if np.asarray(want.keys).dtype.kind == "i":
        np.testing.assert_array_equal(np.asarray(got.keys), np.arange(len(want)))
    else:
        assert list(got.keys) == list(want.keys)
    for ours, theirs in zip(got, want, strict=True):
        assert type(ours) is type(theirs)
        assert list(map(bits, leaves(ours))) == list(map(bits, leaves(theirs)))


def shards_of(folder: Path) -> list[dict[str, Any]]:
    shards: list[dict[str, Any]] = json.loads((folder / "_npyflow.json").read_bytes())["shards"]
    return shards


def drawn(flow: nf.Flow, **kwargs: Any) -> list[Any]:
    return [list(map(bits, leaves(batch))) for batch in flow.batches(4, **kwargs)]


# Values


@pytest.mark.parametrize("dtype", [*DTYPES, ">i2", ">f4", ">c16", ">u8"])
@pytest.mark.parametrize("fortran", [False, True])
def test_every_dtype_and_layout(tmp_path: Path, dtype: str, fortran: bool) -> None:
    arrays = [sample(3, (2, 4), dtype.lstrip(">"), seed).astype(dtype) for seed in range(7)]
    flow = nf.files(folder_of(tmp_path / "src", arrays, fortran=fortran))
    packed = nf.pack(flow, tmp_path / "dst", shard_bytes=3 * arrays[0].nbytes)
    assert_same_flow(packed, flow)
    for got, want in zip(packed, arrays, strict=True):
        same(got, want)
    for shard in shards_of(tmp_path / "dst"):
        stored = np.load(tmp_path / "dst" / shard["files"][0])
        assert stored.dtype.isnative
        assert stored.flags.c_contiguous


def test_special_values_keep_every_bit(tmp_path: Path) -> None:
    odd = np.array([0x7FC00001, 0xFFC12345, 0x7F800001, 0x80000000, 1, 0x7F800000], np.uint32).view(np.float32)
    flow = nf.files(folder_of(tmp_path / "src", [odd, odd[::-1].copy()]))
    assert_same_flow(nf.pack(flow, tmp_path / "dst"), flow)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e4m3b11fnuz", "float8_e5m2", "float8_e5m2fnuz"])
@pytest.mark.parametrize("varying", [False, True])
def test_small_floats(tmp_path: Path, name: str, varying: bool) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name))
    arrays = [np.arange(3 + (at if varying else 0)).astype(dtype) for at in range(5)]
    raw = [array.view(f"V{dtype.itemsize}") for array in arrays]
    flow = nf.files(folder_of(tmp_path / "src", raw), dtype=name)
    packed = nf.pack(flow, tmp_path / "dst", shard_bytes=2 * arrays[0].nbytes)
    assert_same_flow(packed, flow)
    assert [bits(one) for one in packed] == [bits(one) for one in arrays]


@pytest.mark.parametrize("dtype", ["M8[D]", "M8[ns]", ">M8[us]", "m8[s]", "M8[25s]"])
@pytest.mark.parametrize("varying", [False, True])
def test_dates_stay_dates_in_the_files(tmp_path: Path, dtype: str, varying: bool) -> None:
    arrays = [sample(3 + (seed if varying else 0), (2,), dtype, seed) for seed in range(4)]
    flow = nf.files(folder_of(tmp_path / "src", arrays))
    packed = nf.pack(flow, tmp_path / "dst")
    assert_same_flow(packed, flow)
    for got, want in zip(packed, arrays, strict=True):
        same(got, delivered(want))
    stored = np.load(tmp_path / "dst" / shards_of(tmp_path / "dst")[0]["files"][0])
    assert stored.dtype == np.dtype(dtype).newbyteorder("=")


@pytest.mark.parametrize("dtype", ["U5", ">U3", "S4", "U1"])
@pytest.mark.parametrize("varying", [False, True])
def test_text_and_bytes(tmp_path: Path, dtype: str, varying: bool) -> None:
    plain = [sample(2 + (seed if varying else 0), (3,), dtype.lstrip(">"), seed) for seed in range(5)]
    arrays = [one.astype(dtype) for one in plain]
    flow = nf.files(folder_of(tmp_path / "src", arrays))
    packed = nf.pack(flow, tmp_path / "dst", shard_bytes=200)
    assert_same_flow(packed, flow)
    for got, want in zip(packed, arrays, strict=True):
        np.testing.assert_array_equal(got, want)


def test_text_of_several_widths(tmp_path: Path) -> None:
    flow = nf.files(folder_of(tmp_path / "src", [np.array(["x" * (1 + at), "é"]) for at in range(6)]))
    assert_same_flow(nf.pack(flow, tmp_path / "dst", shard_bytes=100), flow)


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (3, 0), (1,), (1, 1, 1), (2, 3, 4, 1, 2)])
def test_every_shape(tmp_path: Path, shape: tuple[int, ...]) -> None:
    arrays = [sample(1, shape, "f4", seed)[0] for seed in range(5)]
    flow = nf.files(folder_of(tmp_path / "src", arrays))
    assert_same_flow(nf.pack(flow, tmp_path / "dst", shard_bytes=64), flow)


@settings(max_examples=25, deadline=None)
@given(data=st.data(), rank=st.integers(1, 4), count=st.integers(1, 9), shard=st.integers(1, 400))
def test_shapes_that_vary_in_any_axis(tmp_path_factory: Any, data: Any, rank: int, count: int, shard: int) -> None:
    path = tmp_path_factory.mktemp("varying")
    shapes = [tuple(data.draw(st.integers(0, 4)) for _ in range(rank)) for _ in range(count)]
    arrays = [sample(1, shape, "i2", seed)[0] for seed, shape in enumerate(shapes)]
    fortran = data.draw(st.booleans())
    flow = nf.files(folder_of(path / "src", arrays, fortran=fortran))
    packed = nf.pack(flow, path / "dst", shard_bytes=shard)
    assert_same_flow(packed, flow)
    for got, want in zip(packed, arrays, strict=True):
        same(got, want)
    shutil.rmtree(path)


@settings(max_examples=25, deadline=None)
@given(
    shape=st.lists(st.integers(0, 4), max_size=3).map(tuple),
    count=st.integers(1, 30),
    shard=st.integers(1, 300),
    dtype=st.sampled_from(["u1", "f8", "c8", "?"]),
    verify=st.sampled_from(["none", "sample", "full"]),
)
def test_one_shape(
    tmp_path_factory: Any, shape: tuple[int, ...], count: int, shard: int, dtype: str, verify: Any
) -> None:
    path = tmp_path_factory.mktemp("fixed")
    table = sample(count, shape, dtype)
    flow = nf.rows(write(path / "table.npy", table))
    packed = nf.pack(flow, path / "dst", shard_bytes=shard, verify=verify)
    assert_same_flow(packed, flow)
    found = [np.load(path / "dst" / one["files"][0]) for one in shards_of(path / "dst")]
    same(np.concatenate(found), table)
    assert all(one.nbytes <= shard or len(one) == 1 for one in found)
    shutil.rmtree(path)


# What np.load finds


def test_numpy_opens_the_shards_mapped_and_whole(tmp_path: Path) -> None:
    arrays = [sample(4, (3,), "f4", seed) for seed in range(10)]
    nf.pack(nf.files(folder_of(tmp_path / "src", arrays)), tmp_path / "dst", shard_bytes=150)
    found = [np.load(tmp_path / "dst" / one["files"][0], mmap_mode="r") for one in shards_of(tmp_path / "dst")]
    assert len(found) > 2
    same(np.concatenate(found), np.stack(arrays))


def test_values_and_offsets_of_what_varies(tmp_path: Path) -> None:
    arrays = [sample(at, (2,), "f4", at) for at in (3, 0, 5, 1)]
    nf.pack(nf.files(folder_of(tmp_path / "src", arrays)), tmp_path / "dst")
    (shard,) = shards_of(tmp_path / "dst")
    values, offsets = (np.load(tmp_path / "dst" / name) for name in shard["files"])
    same(values, np.concatenate(arrays))
    same(offsets, np.array([0, 3, 3, 8, 9]))


def test_shapes_of_what_varies_in_several_axes(tmp_path: Path) -> None:
    arrays = [sample(1, shape, "f4", at)[0] for at, shape in enumerate([(2, 3), (1, 5), (0, 4)])]
    nf.pack(nf.files(folder_of(tmp_path / "src", arrays)), tmp_path / "dst")
    (shard,) = shards_of(tmp_path / "dst")
    values, offsets, shapes = (np.load(tmp_path / "dst" / name) for name in shard["files"])
    same(shapes, np.array([[2, 3], [1, 5], [0, 4]]))
    for start, stop, shape, want in zip(offsets[:-1], offsets[1:], shapes, arrays, strict=True):
        same(values[start:stop].reshape(shape), want)


def test_the_manifest_has_a_checksum_and_a_size_of_every_file(tmp_path: Path) -> None:
    arrays = [sample(at + 1, (2,), "f4", at) for at in range(9)]
    source = nf.files(folder_of(tmp_path / "src", arrays), labels=lambda key: int(key) % 2)
    nf.pack(source, tmp_path / "dst", shard_bytes=150)
    shards = shards_of(tmp_path / "dst")
    assert sum(one["examples"] for one in shards) == 9
    named = {"_npyflow.json"}
    for one in shards:
        for name, size, checksum in zip(one["files"], one["sizes"], one["sha256"], strict=True):
            content = (tmp_path / "dst" / name).read_bytes()
            assert len(content) == size
            assert hashlib.sha256(content).hexdigest() == checksum
            named.add(name)
    assert {path.name for path in (tmp_path / "dst").iterdir()} == named


def test_file_names_sort_in_the_order_of_the_examples(tmp_path: Path) -> None:
    table = sample(40, (2,), "i4")
    nf.pack(nf.rows(write(tmp_path / "t.npy", table)), tmp_path / "dst", shard_bytes=8)
    found = sorted((tmp_path / "dst").glob("*.npy"))
    same(np.concatenate([np.load(path) for path in found]), table)


# Keys, labels, classes, order


def labelled(path: Path, count: int = 24) -> nf.Flow:
    for at in range(count):
        write(path / f"{'abc'[at % 3]}/x{at}.npy", sample(2, (3,), "f4", at))
    return nf.files(str(path), labels="directory")


def test_keys_labels_and_classes(tmp_path: Path) -> None:
    flow = labelled(tmp_path / "src")
    packed = nf.pack(flow, tmp_path / "dst", shard_bytes=100)
    assert packed.classes == ("a", "b", "c")
    assert_same_flow(packed, flow)
    assert_same_flow(nf.load(tmp_path / "dst"), flow)
    assert_same_flow(nf.load(tmp_path / "dst/_npyflow.json"), flow)


@pytest.mark.parametrize("shuffle", [False, True, nf.Shuffle(block=4)])
@pytest.mark.parametrize("seed", [0, 7])
def test_the_same_order_for_a_seed(tmp_path: Path, shuffle: Any, seed: int) -> None:
    flow = labelled(tmp_path / "src")
    packed = nf.pack(flow, tmp_path / "dst", shard_bytes=100)
    for epoch in (0, 1):
        how = {"shuffle": shuffle, "seed": seed, "epoch": epoch}
        assert drawn(packed, **how) == drawn(flow, **how)
    assert drawn(packed, shuffle=shuffle, shard=(1, 2)) == drawn(flow, shuffle=shuffle, shard=(1, 2))


def test_balanced_samples_are_the_same(tmp_path: Path) -> None:
    flow = labelled(tmp_path / "src", 23)
    packed = nf.pack(flow, tmp_path / "dst")
    assert drawn(packed, sample=nf.Balanced()) == drawn(flow, sample=nf.Balanced())
    weights = nf.Balanced({"a": 1, "b": 0, "c": 3})
    assert drawn(packed, sample=weights) == drawn(flow, sample=weights)


@pytest.mark.parametrize("how", [{}, {"seed": 3}, {"stratify": True}, {"by": "random"}, {"by": "time"}])
def test_the_same_splits(tmp_path: Path, how: dict[str, Any]) -> None:
    flow = labelled(tmp_path / "src", 40)
    packed = nf.pack(flow, tmp_path / "dst")
    for got, want in zip(packed.split(0.6, **how), flow.split(0.6, **how), strict=True):
        assert_same_flow(got, want)


def test_the_same_folds(tmp_path: Path) -> None:
    flow = labelled(tmp_path / "src")
    packed = nf.pack(flow, tmp_path / "dst")
    for got, want in zip(packed.folds(3), flow.folds(3), strict=True):
        assert_same_flow(got[0], want[0])
        assert_same_flow(got[1], want[1])


def test_groups_by_key(tmp_path: Path) -> None:
    flow = labelled(tmp_path / "src")
    packed = nf.pack(flow, tmp_path / "dst")
    for got, want in zip(
        packed.split(0.5, groups=lambda key: key[-1]), flow.split(0.5, groups=lambda key: key[-1]), strict=True
    ):
        assert list(got.keys) == list(want.keys)


def test_keys_that_are_no_ascii(tmp_path: Path) -> None:
    for at, key in enumerate(["é/数", "a b/c", "😀/x", "quote'\"/y", os.fsdecode(b"caf\xe9\n")]):
        write(tmp_path / "src" / f"{key}.npy", sample(2, (), "f4", at))
    flow = nf.files(str(tmp_path / "src"), labels=lambda key: len(key))
    assert_same_flow(nf.pack(flow, tmp_path / "dst"), flow)


def test_weights_and_several_components(tmp_path: Path) -> None:
    for at in range(8):
        write(tmp_path / "im" / f"{at}.npy", sample(2, (3,), "f4", at))
        write(tmp_path / "mask" / f"{at}.npy", sample(at + 1, (), "?", at))
    data = {"image": str(tmp_path / "im"), "deep": (str(tmp_path / "mask"), {"again": str(tmp_path / "im")})}
    flow = nf.files(data, labels=lambda key: int(key) // 3, sample_weight="balanced")
    packed = nf.pack(flow, tmp_path / "dst", shard_bytes=60)
    assert_same_flow(packed, flow)


def test_components_named_like_the_parts_of_another(tmp_path: Path) -> None:
    for at in range(5):
        write(tmp_path / "v" / f"{at}.npy", sample(at + 1, (), "f4", at))
        write(tmp_path / "w" / f"{at}.npy", sample(1, (at + 1, 2 * at), "f4", at)[0])
        write(tmp_path / "f" / f"{at}.npy", sample(1, (3,), "i8", at)[0])
    data = {"x": "v", "x.offsets": "f", "x.shapes": "w", "X": "f", "x_2": "v"}
    flow = nf.files({name: str(tmp_path / folder) for name, folder in data.items()})
    assert_same_flow(nf.pack(flow, tmp_path / "dst", shard_bytes=100), flow)


def test_names_that_no_file_can_have(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "src", [sample(2, (), "f4", at) for at in range(3)])
    names = ["a/b", "../up", "", "..", "é", "n" * 300, "CON", "_npyflow.json"]
    flow = nf.files(dict.fromkeys(names, source))
    packed = nf.pack(flow, tmp_path / "dst")
    assert_same_flow(packed, flow)
    assert all(path.parent == tmp_path / "dst" for path in tmp_path.rglob("*-of-*"))


# From every kind of flow


def test_rows_and_pairs_of_rows(tmp_path: Path) -> None:
    x, y = write(tmp_path / "x.npy", sample(17, (2, 3))), write(tmp_path / "y.npy", sample(17, (), "i8"))
    flow = nf.rows((x, y))
    packed = nf.pack(flow, tmp_path / "dst", shard_bytes=100)
    assert_same_flow(packed, flow)
    assert drawn(packed, shuffle=True) == drawn(flow, shuffle=True)


def test_rows_along_another_axis_and_fortran(tmp_path: Path) -> None:
    flow = nf.rows(write(tmp_path / "x.npy", sample(3, (7, 2)), fortran=True), axis=1)
    assert_same_flow(nf.pack(flow, tmp_path / "dst", shard_bytes=50), flow)


def test_arrays_in_memory(tmp_path: Path) -> None:
    flow = nf.rows({"x": sample(11, (2,)), "y": sample(11, (), "i4").astype(">i4")})
    assert_same_flow(nf.pack(flow, tmp_path / "dst", shard_bytes=30), flow)


def test_several_row_files(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{at}.npy", sample(at, (3,), "f4", at)) for at in (4, 0, 7, 1)]
    flow = nf.rows(paths)
    assert_same_flow(nf.pack(flow, tmp_path / "dst", shard_bytes=40), flow)


def test_fields_of_records(tmp_path: Path) -> None:
    table = np.zeros(9, [("a", "f4"), ("b", ">i2", (3,))])
    table["a"], table["b"] = sample(9), sample(9, (3,), "i2")
    flow = nf.rows(write(tmp_path / "t.npy", table))
    assert_same_flow(nf.pack(flow, tmp_path / "dst", shard_bytes=40), flow)


def test_members_of_npz_files(tmp_path: Path) -> None:
    for at in range(6):
        arrays = {"image": sample(2, (2,), "f4", at), "action": sample(at, (), "i4", at)}
        write_npz(tmp_path / f"src/{at}.npz", compressed=at % 2 == 0, **arrays)
    flow = nf.files(str(tmp_path / "src"), members=("image", "action"))
    packed = nf.pack(flow, tmp_path / "dst", shard_bytes=60)
    assert_same_flow(packed, flow)


@pytest.mark.parametrize("horizon", [0, 2])
def test_windows(tmp_path: Path, horizon: int) -> None:
    paths = [write(tmp_path / f"s{at}.npy", sample(n, (2,), "f4", at)) for at, n in enumerate((9, 12))]
    flow = nf.windows(paths, length=3, stride=2, horizon=horizon)
    packed = nf.pack(flow, tmp_path / "dst", shard_bytes=50)
    assert len(packed) == len(flow)
    assert list(packed.keys) == list(map(str, flow.keys))
    assert packed.spec == flow.spec
    for got, want in zip(packed, flow, strict=True):
        assert list(map(bits, leaves(got))) == list(map(bits, leaves(want)))
    assert drawn(packed, shuffle=True) == drawn(flow, shuffle=True)


def test_a_part_of_a_flow(tmp_path: Path) -> None:
    flow = labelled(tmp_path / "src", 40)
    for number, part in enumerate([flow[5:17], flow[np.array([3, 1, 30])], *flow.split(0.7)]):
        packed = nf.pack(part, tmp_path / f"dst{number}", shard_bytes=100)
        assert_same_flow(packed, part)
        assert drawn(packed, shuffle=True) == drawn(part, shuffle=True)


def test_a_part_with_repeats(tmp_path: Path) -> None:
    part = labelled(tmp_path / "src")[np.array([2, 2, 0, 2])]
    assert_same_flow(nf.pack(part, tmp_path / "dst"), part)


def test_a_part_of_rows_has_numbers_of_its_own(tmp_path: Path) -> None:
    part = nf.rows(write(tmp_path / "x.npy", sample(17, (2,))))[np.array([16, 3, 4])]
    packed = nf.pack(part, tmp_path / "dst")
    assert list(map(bits, packed)) == list(map(bits, part))


@pytest.mark.parametrize("varying", [False, True])
def test_what_map_makes(tmp_path: Path, varying: bool) -> None:
    def make(x: Any, rng: Any) -> Any:
        drawn = rng.standard_normal(2).astype("f4")
        return {"mean": np.float64(x.mean()), "cut": x[: 1 + int(abs(x[0, 0]) * 10) % 2] if varying else x, "r": drawn}

    shape = (None, 3) if varying else (2, 3)
    spec = {"mean": nf.ArraySpec((), np.dtype("f8")), "cut": nf.ArraySpec(shape, np.dtype("f4"))}
    source = nf.files(folder_of(tmp_path / "src", [sample(2, (3,), "f4", at) for at in range(9)]))
    flow = source.map(make, spec=spec | {"r": nf.ArraySpec((2,), np.dtype("f4"))})
    assert_same_flow(nf.pack(flow, tmp_path / "dst", shard_bytes=60), flow)


def test_casts_transposes_and_fixed_crops(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "src", [sample(5, (6, 3), "u1", at) for at in range(6)])
    crop = nf.Crop((4, 4))
    flow = nf.files(source, dtype="f2", transpose="channels_first", crop=crop)
    assert_same_flow(nf.pack(flow, tmp_path / "dst", shard_bytes=200), flow)


def test_random_crops_are_refused(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "src", [sample(5, (6,), "u1", at) for at in range(3)])
    with pytest.raises(nf.OptionError, match="random crops"):
        nf.pack(nf.files(source, crop=nf.Crop((2, 2), random=True)), tmp_path / "dst")
    assert not (tmp_path / "dst").exists()


def test_packed_data_can_be_packed_again(tmp_path: Path) -> None:
    flow = labelled(tmp_path / "src")
    once = nf.pack(flow, tmp_path / "one", shard_bytes=100)
    twice = nf.pack(once, tmp_path / "two", shard_bytes=70)
    assert_same_flow(twice, flow)
    assert drawn(twice, shuffle=True) == drawn(flow, shuffle=True)


# The folder moves


@pytest.mark.parametrize("varying", [False, True])
def test_a_copy_of_the_folder_opens_elsewhere(tmp_path: Path, varying: bool) -> None:
    arrays = [sample(2 + (at if varying else 0), (2,), "f4", at) for at in range(9)]
    flow = nf.files(folder_of(tmp_path / "src", arrays), labels=lambda key: int(key) % 2)
    nf.pack(flow, tmp_path / "dst", shard_bytes=60).close()
    shutil.copytree(tmp_path / "dst", tmp_path / "far/away", copy_function=shutil.copy)
    for path in (tmp_path / "far/away").iterdir():
        touch_later(path, 10**12)
    shutil.rmtree(tmp_path / "dst")
    assert_same_flow(nf.load(tmp_path / "far/away"), flow)
    shutil.move(tmp_path / "far", tmp_path / "near")
    assert_same_flow(nf.load(str(tmp_path / "near/away")), flow)


def test_a_shard_of_another_size_is_noticed(tmp_path: Path) -> None:
    nf.pack(nf.rows(sample(9, (3,))), tmp_path / "dst")
    (path,) = (tmp_path / "dst").glob("*.npy")
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(nf.NpyflowError, match="data"):
        list(nf.load(tmp_path / "dst"))


def test_a_packed_flow_can_be_pickled_and_saved(tmp_path: Path) -> None:
    import pickle

    flow = labelled(tmp_path / "src")
    packed = nf.pack(flow, tmp_path / "dst")
    assert_same_flow(pickle.loads(pickle.dumps(packed)), flow)
    packed[3:9].save(tmp_path / "part.json")
    assert_same_flow(nf.load(tmp_path / "part.json"), flow[3:9])


# The source


def test_nothing_of_the_source_is_touched(tmp_path: Path) -> None:
    labelled(tmp_path / "src")
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in (tmp_path / "src").rglob("*.npy")}
    nf.pack(nf.files(str(tmp_path / "src")), tmp_path / "dst")
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in (tmp_path / "src").rglob("*")
            if path.is_file()} == before  # fmt: skip


def test_shards_are_about_equally_large(tmp_path: Path) -> None:
    nf.pack(nf.rows(sample(100, (25,))), tmp_path / "dst", shard_bytes=3_000)
    found = [one["examples"] for one in shards_of(tmp_path / "dst")]
    assert len(found) == 4
    assert max(found) - min(found) <= 1


@pytest.mark.parametrize("bad", ["cut", "gone", "changed"])
def test_a_bad_file_of_the_source_is_named(tmp_path: Path, bad: str) -> None:
    source = folder_of(tmp_path / "src", [sample(2, (2,), "f4", at) for at in range(8)])
    flow = nf.files(source)
    path = tmp_path / "src/5.npy"
    if bad == "gone":
        path.unlink()
    elif bad == "cut":
        path.write_bytes(path.read_bytes()[:-1])
    else:
        path.write_bytes(npy_bytes(np.zeros((2, 2), "f8")))
    with pytest.raises(nf.NpyflowError, match=r"5\.npy"):
        nf.pack(flow, tmp_path / "dst", shard_bytes=16)
    assert not (tmp_path / "dst/_npyflow.json").exists()


def test_offsets_stay_int64_and_grow(tmp_path: Path) -> None:
    arrays = [sample(at % 3, (), "u1", at) for at in range(50)]
    nf.pack(nf.files(folder_of(tmp_path / "src", arrays)), tmp_path / "dst", shard_bytes=200)
    for path in (tmp_path / "dst").glob("*offsets*"):
        offsets = np.load(path)
        assert offsets.dtype == np.int64
        assert offsets[0] == 0
        assert all(one <= two for one, two in pairwise(offsets.tolist()))


def test_text_without_axes_in_memory_that_was_used_before(tmp_path: Path, monkeypatch: Any) -> None:
    empty = BufferPool.empty

    def used(*args: Any, **kwargs: Any) -> Any:
        out = empty(*args, **kwargs)
        if out.size and out.dtype.kind == "U":
            # Text of one character, and none has this number.
            numbers = out.view(np.uint32).reshape(out.size, -1)
            numbers[:] = 0
            numbers[:, 0] = 2**32 - 1
        return out

    flow = nf.rows(np.arange(30)).map(lambda x, _: np.array(f"{int(x):020d}"))
    monkeypatch.setattr(BufferPool, "empty", used)
    packed = nf.pack(flow, tmp_path / "dst")
    assert [str(one) for one in packed] == [f"{at:020d}" for at in range(30)]
