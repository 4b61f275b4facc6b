"""Parquet: written, read back, read by index, and read by the tools that people have."""

from __future__ import annotations

import itertools
import os
import pickle
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import npyflow as nf
from helpers import DTYPES, sample
from npyflow._core.buffers import BufferPool
from npyflow._core.dtypes import SMALL_FLOATS, as_dtype
from npyflow._core.spec import ArraySpec
from npyflow._core.structure import Structure
from npyflow._flow.stored import open_parquet
from npyflow._format.schema import SCHEMA_FILE, Column, Schema, Shard
from npyflow._sources.parquet import GroupCache, open_column
from npyflow._sources.stored import Stored, load_stored
from npyflow._write.parquet import ParquetFormat

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.extra

Array = np.ndarray[Any, Any]
SHAPES = [(), (1,), (7,), (2, 3, 4), (0, 3), (3, 0)]
SMALL = [name for name in SMALL_FLOATS if name == "bfloat16" or name.startswith("float8")]


def bits(n: int, shape: tuple[int, ...], dtype: Any) -> Array:
    """Every pattern of bits may come, NaN with a payload too."""
    if dtype in SMALL_FLOATS:
        pytest.importorskip("ml_dtypes")
    real = as_dtype(dtype)
    if real.kind in "bUS":
        return sample(n, shape, real)
    rng = np.random.default_rng(1)
    count = n * int(np.prod(shape, dtype=int)) * real.itemsize
    return np.frombuffer(rng.bytes(count), real).reshape(n, *shape) if count else np.zeros((n, *shape), real)


def exact(got: Array, want: Array) -> None:
    """Equal down to the bits."""
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    assert np.ascontiguousarray(got).tobytes() == np.ascontiguousarray(want).tobytes()


def column(name: str, values: Any, unit: str | None = None) -> Column:
    if isinstance(values, np.ndarray):
        return Column(name=name, spec=ArraySpec(values.shape[1:], values.dtype, unit))
    shapes = np.array([one.shape for one in values])
    axes = [int(sizes[0]) if len(set(sizes.tolist())) == 1 else None for sizes in shapes.T]
    if None not in axes:
        axes[0] = None
    return Column(name=name, spec=ArraySpec(tuple(axes), values[0].dtype, unit))


def write(
    folder: Path, how: ParquetFormat, columns: list[Column], data: list[Any], cuts: list[int], chunk: int = 5
) -> Schema:
    """What a job does: shards between the cuts, some examples at a time, and the schema."""
    folder.mkdir(exist_ok=True)
    how.check(columns)
    shards = []
    for at, (start, stop) in enumerate(itertools.pairwise(cuts)):
        (name,) = how.files(f"data-{at:05}", columns)
        writer = how.create([str(folder / name)], columns, stop - start)
        for first in range(start, stop, chunk):
            writer.write([values[first : min(stop, first + chunk)] for values in data])
        facts = writer.close()
        size = (folder / name).stat().st_size
        shards.append(Shard(examples=stop - start, files=(name,), sizes=(size,), sha256=("",), facts=facts))
    names = [one.name for one in columns]
    schema = Schema(
        to=how.name,
        options=how.options,
        structure=Structure({name: name for name in names} if len(names) > 1 else names[0]),
        columns=tuple(columns),
        keys=None,
        classes=None,
        shards=tuple(shards),
    )
    (folder / SCHEMA_FILE).write_bytes(schema.to_json())
    return load_stored(folder, "parquet")


def sources(folder: Path, schema: Schema) -> list[Any]:
    shared: dict[Any, Any] = {}
    pool = BufferPool(keep_bytes=1 << 20)
    return [
        open_column(Stored(path=str(folder), schema=schema, leaf=leaf), pool, shared, one.name)
        for leaf, one in enumerate(schema.columns)
    ]


def read(source: Any, indices: Any) -> Array:
    (spec,) = source.specs
    out = np.zeros((len(indices), *spec.shape), spec.dtype)
    source.read_into(np.asarray(indices, np.int64), [out])
    return out


def read_each(source: Any, indices: Any) -> list[Array]:
    indices = np.asarray(indices, np.int64)
    out = [np.zeros(shape, source.specs[0].dtype) for shape in source.shapes(indices).tolist()]
    source.read_each(indices, [out])
    return out


def portions(n: int, size: int) -> list[int]:
    return [min(size, n - at) for at in range(0, n, size)]


def back(how: ParquetFormat, folder: Path, schema: Schema, size: int = 4) -> list[Any]:
    """All examples by `Format.read`, for each column joined."""
    out: list[list[Any]] = [[] for _ in schema.columns]
    for shard in schema.shards:
        paths = [str(folder / name) for name in shard.files]
        for part in how.read(paths, schema.columns, shard.facts, portions(shard.examples, size)):
            for held, values, one in zip(out, part, schema.columns, strict=True):
                held.extend(values) if one.spec.varying else held.append(values)
    return [held if one.spec.varying else np.concatenate(held) for held, one in zip(out, schema.columns, strict=True)]


CASES = [*DTYPES, *SMALL, "U5", "S4"]


@pytest.mark.parametrize("tensors", [True, False], ids=["tensors", "lists"])
@pytest.mark.parametrize("dtype", CASES)
def test_every_dtype_and_shape(tmp_path, dtype, tensors):
    how = ParquetFormat(row_group_bytes=300, tensors=tensors)
    data = [bits(23, shape, dtype) for shape in SHAPES]
    columns = [column(f"c.{at}", values) for at, values in enumerate(data)]
    schema = write(tmp_path, how, columns, data, [0, 9, 9, 23])
    rng = np.random.default_rng(0)
    for source, want in zip(sources(tmp_path, schema), data, strict=True):
        assert len(source) == 23
        assert source.specs == (ArraySpec(want.shape[1:], want.dtype),)
        for indices in (np.arange(23), rng.permutation(23), rng.integers(0, 23, 60), [22], [8, 9], np.empty(0, int)):
            exact(read(source, indices), want[np.asarray(indices, int)])
    for got, want in zip(back(how, tmp_path, schema), data, strict=True):
        exact(got, want)


VARYING = [(None,), (None, 3), (2, None), (None, None), (None, 2, None), (None, 0)]


@pytest.mark.parametrize("dtype", CASES)
def test_every_dtype_of_varying_shape(tmp_path, dtype):
    how = ParquetFormat(row_group_bytes=400)
    rng = np.random.default_rng(2)
    data: list[Any] = []
    for axes in VARYING:
        shapes = [tuple(int(rng.integers(0, 5)) if size is None else size for size in axes) for _ in range(17)]
        data.append([bits(1, shape, dtype)[0] for shape in shapes])
    kind = as_dtype(dtype)
    columns = [Column(name=f"v{at}", spec=ArraySpec(axes, kind)) for at, axes in enumerate(VARYING)]
    schema = write(tmp_path, how, columns, data, [0, 6, 17])
    for source, want in zip(sources(tmp_path, schema), data, strict=True):
        assert source.example_bytes == max(one.size for one in want) * kind.itemsize
        for indices in (np.arange(17), rng.permutation(17), [5, 5, 6, 0], []):
            for got, at in zip(read_each(source, indices), indices, strict=True):
                exact(got, want[at])
    for got, want in zip(back(how, tmp_path, schema), data, strict=True):
        for one, other in zip(got, want, strict=True):
            exact(one, other)


@pytest.mark.parametrize("dtype", ["U0", "S0"])
def test_texts_without_room_for_a_character(tmp_path, dtype):
    """NumPy makes them one wide where it can."""
    data = [np.zeros((5, 2), dtype)]
    schema = write(tmp_path, ParquetFormat(), [Column(name="x", spec=ArraySpec((2,), np.dtype(dtype)))], data, [0, 5])
    (source,) = sources(tmp_path, schema)
    exact(read(source, [4, 1]), data[0][[4, 1]])
    exact(back(ParquetFormat(), tmp_path, schema)[0], data[0])


def test_less_than_an_example(tmp_path):
    data = [[sample(1, (size, 3))[0] for size in (4, 0, 2)]]
    schema = write(tmp_path, ParquetFormat(), [column("x", data[0])], data, [0, 3])
    (source,) = sources(tmp_path, schema)
    out = [np.full((3, 2), 7, "f4")[::1], np.zeros((0, 3), "f4"), np.zeros((2, 6), "f4")[:, ::2]]
    source.read_each(np.array([0, 1, 2]), [out])
    np.testing.assert_array_equal(out[0], data[0][0][:3, :2])
    np.testing.assert_array_equal(out[2], data[0][2])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=30),
    group=st.integers(1, 600),
    chunks=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    compression=st.sampled_from(["zstd", "none"]),
)
def test_the_bytes_do_not_depend_on_the_portions(tmp_path, lengths, group, chunks, compression):
    rng = np.random.default_rng(3)
    n = len(lengths)
    data = [[rng.integers(0, 9, size, "i4") for size in lengths], sample(n, (3, 2), "f8"), sample(n, (), "U3")]
    columns = [
        Column(name="v", spec=ArraySpec((None,), np.dtype("i4"))),
        *(column(c, d) for c, d in zip("xy", data[1:], strict=True)),
    ]
    how = ParquetFormat(compression=compression, row_group_bytes=group)
    written = []
    for at, chunk in enumerate(chunks):
        schema = write(tmp_path / str(at), how, columns, data, [0, n], chunk)
        written.append((tmp_path / str(at) / "data-00000.parquet").read_bytes())
    assert written[0] == written[1]
    sizes = [1 + 4 * size + 48 + 12 for size in lengths]
    for first, count in zip(
        np.cumsum([0, *schema.shards[0].facts["rows"]]), schema.shards[0].facts["rows"], strict=False
    ):
        assert count == 1 or sum(sizes[first : first + count]) <= group
    values, x, y = back(how, tmp_path / "0", schema, 3)
    for got, want in zip(values, data[0], strict=True):
        exact(got, want)
    exact(x, data[1])
    exact(y, data[2])


def test_nothing_at_all(tmp_path):
    data: list[Any] = [np.zeros((0, 3), "f4"), []]
    columns = [column("x", data[0]), Column(name="v", spec=ArraySpec((None,), np.dtype("u1")))]
    how = ParquetFormat()
    schema = write(tmp_path, how, columns, data, [0, 0])
    assert schema.shards[0].facts["rows"] == []
    fixed, varying = sources(tmp_path, schema)
    assert len(fixed) == len(varying) == varying.example_bytes == 0
    assert list(how.read([str(tmp_path / "data-00000.parquet")], columns, schema.shards[0].facts, [])) == []
    assert pq.read_table(tmp_path / "data-00000.parquet").column_names == ["x", "v", "v/shape"]


@pytest.mark.parametrize(
    "unit", ["datetime64[s]", "datetime64[us]", "datetime64[ns]", "timedelta64[ms]", "datetime64[25us]"]
)
def test_dates(tmp_path, unit):
    dates = np.array([0, 1, -(2**63), 2**63 - 1, -5])
    data = [dates, np.stack([dates, dates], axis=1)]
    columns = [column("t", data[0], unit), column("p", data[1], unit)]
    how = ParquetFormat()
    schema = write(tmp_path, how, columns, data, [0, 5])
    for source, got, want in zip(sources(tmp_path, schema), back(how, tmp_path, schema), data, strict=True):
        exact(read(source, np.arange(5)), want)
        exact(got, want)
    table = pq.read_table(tmp_path / "data-00000.parquet")
    if unit in ("datetime64[us]", "datetime64[ns]"):
        assert table.schema.field("t").type == pa.timestamp(unit[-3:-1])
        assert table.column("t").null_count == 1
    else:
        assert table.schema.field("t").type == pa.int64()


def test_what_a_file_says_of_itself(tmp_path):
    data = [
        sample(4, (2, 3), "f4"),
        sample(4, (2,), "c8"),
        sample(4, (), "U3"),
        [sample(1, (n, 2), "i2")[0] for n in range(4)],
    ]
    columns = [column(name, values) for name, values in zip(["x", "z", "name", "v"], data, strict=True)]
    write(tmp_path, ParquetFormat(), columns, data, [0, 4])
    schema = pq.read_schema(tmp_path / "data-00000.parquet")
    assert schema.field("x").type == pa.fixed_shape_tensor(pa.float32(), (2, 3))
    assert schema.field("z").type == pa.fixed_shape_tensor(pa.float32(), (2, 2))
    assert schema.field("name").type == pa.string()
    assert schema.field("v").type == pa.list_(pa.int16())
    assert schema.field("v/shape").type == pa.list_(pa.int64(), 2)
    assert schema.metadata[b"npyflow"] == (
        b'[{"name": "x", "dtype": "<f4", "shape": [2, 3], "unit": null}, '
        b'{"name": "z", "dtype": "<c8", "shape": [2], "unit": null}, '
        b'{"name": "name", "dtype": "<U3", "shape": [], "unit": null}, '
        b'{"name": "v", "dtype": "<i2", "shape": [null, 2], "unit": null}]'
    )


def test_only_what_shrinks_is_compressed(tmp_path):
    data = [sample(64, (32, 32), "f4"), np.tile(np.arange(32, dtype="f4"), (64, 32, 1))]
    columns = [column("noise", data[0]), column("ramp", data[1])]
    for how in (ParquetFormat(), ParquetFormat(compression="none")):
        write(tmp_path / how.compression, how, columns, data, [0, 64], 64)
    group = pq.ParquetFile(tmp_path / "zstd" / "data-00000.parquet").metadata.row_group(0)
    assert [group.column(at).compression for at in range(2)] == ["UNCOMPRESSED", "ZSTD"]
    sizes = [(tmp_path / name / "data-00000.parquet").stat().st_size for name in ("zstd", "none")]
    assert sizes[0] < 0.6 * sizes[1]
    assert sizes[1] < 1.02 * sum(values.nbytes for values in data)


def test_numbers_are_not_copied(tmp_path):
    from npyflow._sources.arrow import encode

    values = sample(5, (3, 4), "f4")
    (array,) = encode(column("x", values), values, True)
    assert array.storage.flatten().buffers()[1].address == values.ctypes.data


@pytest.mark.parametrize("name", ["x", "x.y", "x/shape"])
def test_names_that_look_like_paths(tmp_path, name):
    data = [sample(6, (2,), "f4"), [sample(1, (n,), "i4")[0] for n in range(6)]]
    columns = [
        column("x", data[0]) if name != "x" else column("x.list.element", data[0]),
        column(name.split("/")[0] + "2", data[1]),
    ]
    schema = write(tmp_path, ParquetFormat(row_group_bytes=40), columns, data, [0, 6])
    fixed, varying = sources(tmp_path, schema)
    exact(read(fixed, [5, 0]), data[0][[5, 0]])
    exact(read_each(varying, [3])[0], data[1][3])


# What cannot be written


@pytest.mark.parametrize(
    ("how", "what"),
    [
        ({"compression": "lzma"}, r"compression='lzma': expected one of 'zstd', 'none' for Parquet"),
        ({"row_group_bytes": 0}, r"row_group_bytes=0"),
        ({"row_group_bytes": 2**40}, r"row_group_bytes=1099511627776: expected at most"),
    ],
)
def test_options(how, what):
    with pytest.raises(nf.OptionError, match=what):
        ParquetFormat(**how)


def test_text_that_is_none(tmp_path):
    data = [np.array(["a", "\ud800"])]
    with pytest.raises(nf.CastError, match=r"x: Parquet keeps text as UTF-8.*dtype 'S'"):
        write(tmp_path, ParquetFormat(), [column("x", data[0])], data, [0, 2])


def test_text_that_is_longer_than_the_data_says(tmp_path):
    one = Column(name="x", spec=ArraySpec((), np.dtype("U2")))
    with pytest.raises(nf.CastError, match="x: a text of length 3; expected at most 2"):
        write(tmp_path, ParquetFormat(), [one], [np.array(["a", "abc"])], [0, 2])


def test_examples_too_large():
    for spec in (ArraySpec((2**16, 2**15), np.dtype("u1")), ArraySpec((2**15, 2**15), np.dtype("c8"))):
        with pytest.raises(nf.ShapeMismatchError, match=r"x: an example of .* elements; Parquet has room"):
            ParquetFormat().check([Column(name="x", spec=spec)])


def test_without_pyarrow(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(nf.MissingDependencyError, match=r"pip install 'npyflow\[parquet\]'"):
        ParquetFormat().check([])


def test_abandoned(tmp_path):
    x = sample(100, (50,), "f4")
    for group in (100, 10**6):
        how = ParquetFormat(row_group_bytes=group)
        writer = how.create([str(tmp_path / "x")], [column("x", x)], 100)
        writer.write([x])
        writer.abandon()
        writer.abandon()
        (tmp_path / "x").unlink()


def test_forecast(tmp_path):
    how = ParquetFormat(compression="none")
    for dtype in ("?", "f8", "c8", "S4"):
        values = np.ones((4000, 9), dtype)
        one = column("x", values)
        write(tmp_path, how, [one], [values], [0, 4000], 500)
        size = (tmp_path / "data-00000.parquet").stat().st_size
        assert 0.5 < size / (4000 * how.example_bytes(one, 9)) < 1.3


# Damage


@pytest.fixture
def small(tmp_path):
    data = [sample(40, (8, 8), "f4"), [sample(1, (n % 5, 2), "i4")[0] for n in range(40)], sample(40, (), "U4")]
    columns = [column(name, values) for name, values in zip(["x", "v", "t"], data, strict=True)]
    how = ParquetFormat(row_group_bytes=1000)
    schema = write(tmp_path, how, columns, data, [0, 40])
    return how, tmp_path, schema, data


def swallow(how: ParquetFormat, folder: Path, schema: Schema) -> None:
    for source in sources(folder, schema):
        read_each(source, np.arange(40)) if source.specs[0].varying else read(source, np.arange(40))


def test_damaged_bytes(small):
    """A flipped bit anywhere is found, or changes nothing that is delivered."""
    how, folder, schema, data = small
    path = folder / "data-00000.parquet"
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    found: list[nf.FileError] = []
    for at in [*range(4, len(whole), len(whole) // 150), *range(len(whole) - 60, len(whole))]:
        damaged = bytearray(whole)
        damaged[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            got = back(how, folder, schema)
        except nf.FileError as error:
            found.append(error)
            continue
        exact(got[0], data[0])
        exact(got[2], data[2])
        for one, want in zip(got[1], data[1], strict=True):
            exact(one, want)
    assert len(found) > 100
    assert {error.path for error in found} == {str(path)}
    assert all(str(path) in str(error) for error in found)


def test_truncated(small):
    how, folder, schema, _ = small
    path = folder / "data-00000.parquet"
    whole = path.read_bytes()
    for size in (0, 3, 100, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(nf.FileFormatError, match=r"data-00000\.parquet is damaged: .*; copy it or convert again"):
            back(how, folder, schema)
        with pytest.raises(nf.FileChangedError, match="bytes, expected"):
            swallow(how, folder, schema)
        with pytest.raises(nf.FileChangedError, match="bytes, expected"):
            load_stored(folder)


def test_errors_name_the_example(small):
    _, folder, schema, _ = small
    fixed, varying, _ = sources(folder, schema)
    os.unlink(folder / "data-00000.parquet")
    for call in (lambda: read(fixed, [17, 3]), lambda: varying.read_each(np.array([3]), [[]])):
        with pytest.raises(nf.MissingFileError, match=r"data-00000\.parquet: no such file"):
            call()
    with pytest.raises(nf.MissingFileError) as caught:
        read(fixed, [17, 16])
    assert caught.value.index in (16, 17)


def table_of(n: int, **changes: Any) -> Any:
    columns = {
        "x": pa.ExtensionArray.from_storage(
            pa.fixed_shape_tensor(pa.float32(), (2,)),
            pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(2 * n, "f4")), 2),
        ),
        "v": pa.array([[1, 2]] * n, pa.list_(pa.int32())),
        "v/shape": pa.array([[2]] * n, pa.list_(pa.int64(), 1)),
        "t": pa.array(["ab"] * n),
    }
    columns.update(changes)
    return pa.table({name: values for name, values in columns.items() if values is not None})


HOSTILE = {
    "nothing": ({}, None),
    "missing": ({"x": None}, "'x'|x"),
    "type": ({"x": pa.array(np.zeros(6))}, "column 'x' is double, expected extension"),
    "null": ({"t": pa.array(["a", None, "b", "c", "d", "e"])}, "column 't' has 1 nulls; expected none"),
    "null list": ({"v": pa.array([None, *[[1, 2]] * 5], pa.list_(pa.int32()))}, "column 'v' has 1 nulls"),
    "null value": ({"v": pa.array([[None, 2], *[[1, 2]] * 5], pa.list_(pa.int32()))}, "column 'v' has 1 nulls"),
    "long text": ({"t": pa.array(["abc"] * 6)}, "column 't' has a text longer than 2"),
    "shape": ({"v/shape": pa.array([[3]] * 6, pa.list_(pa.int64(), 1))}, "the values do not fit the shapes"),
    "negative": ({"v/shape": pa.array([[-2]] * 6, pa.list_(pa.int64(), 1))}, "a shape is not one of int32"),
    "huge": ({"v/shape": pa.array([[2**62]] * 6, pa.list_(pa.int64(), 1))}, "a shape is not one of int32"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_another_file_under_the_name(tmp_path, name):
    changes, what = HOSTILE[name]
    columns = [
        Column(name="x", spec=ArraySpec((2,), np.dtype("f4"))),
        Column(name="v", spec=ArraySpec((None,), np.dtype("i4"))),
        Column(name="t", spec=ArraySpec((), np.dtype("U2"))),
    ]
    path = str(tmp_path / "a.parquet")
    pq.write_table(table_of(6, **changes), path)
    facts = {"rows": [6], "largest": {"v": 2}}
    how = ParquetFormat()
    if what is None:
        ((x, v, t),) = how.read([path], columns, facts, [6])
        assert (x.shape, len(v), t.tolist()) == ((6, 2), 6, ["ab"] * 6)
        return
    with pytest.raises(nf.FileFormatError, match=what):
        list(how.read([path], columns, facts, [6]))


@pytest.mark.parametrize(
    "facts", [{}, {"rows": [3]}, {"rows": "6"}, {"rows": [5, 1]}, {"rows": [7, -1]}, {"rows": [6.0]}]
)
def test_facts_that_do_not_fit(tmp_path, facts):
    path = str(tmp_path / "a.parquet")
    pq.write_table(table_of(6), path)
    one = [Column(name="t", spec=ArraySpec((), np.dtype("U2")))]
    with pytest.raises(nf.FileError, match=r"row groups"):
        list(ParquetFormat().read([path], one, facts, [6]))


def test_a_schema_that_does_not_fit(small):
    _, folder, schema, _ = small
    (shard,) = schema.shards
    for change in (
        {"files": (), "sizes": (), "sha256": ()},
        {"facts": {"rows": [40]}},
        {"facts": {"rows": [40], "largest": {"v": -1}}},
        {"facts": {}},
    ):
        with pytest.raises(nf.FileFormatError, match="convert again"):
            sources(folder, replace(schema, shards=(replace(shard, **change),)))


# Order, threads, memory


def test_the_cache_is_bounded_and_shared(tmp_path):
    data = [sample(600, (40,), "f4"), sample(600, (), "i8")]
    schema = write(
        tmp_path, ParquetFormat(row_group_bytes=2000), [column("x", data[0]), column("y", data[1])], data, [0, 300, 600]
    )
    first, second = sources(tmp_path, schema)
    store = first._store
    assert store is second._store
    store.cache = GroupCache(limit=5000)
    rng = np.random.default_rng(0)
    for _ in range(50):
        indices = rng.integers(0, 600, 32)
        exact(read(first, indices), data[0][indices])
        exact(read(second, indices), data[1][indices])
        assert store.cache.held_bytes <= 5000
        held = [slot.arrays for slot in store.cache._slots.values()]
        assert sum(array.nbytes for arrays in held for array in arrays) == store.cache.held_bytes
    first.close()
    second.close()
    assert store.cache.held_bytes == 0
    assert not store._idle


def test_what_is_larger_than_the_cache():
    cache = GroupCache(limit=10)
    made = []

    def load() -> tuple[Array, ...]:
        made.append(1)
        return (np.zeros(11, "u1"),)

    for _ in range(2):
        assert cache.get(0, load)[0].size == 11
        assert cache.held_bytes == 0
    assert len(made) == 2


def test_what_failed_is_tried_again():
    cache = GroupCache(limit=100)
    with pytest.raises(ZeroDivisionError):
        cache.get(0, lambda: 1 / 0)
    assert cache.get(0, lambda: (np.zeros(3, "u1"),))[0].size == 3
    assert cache.held_bytes == 3


def test_a_row_group_is_decoded_once_for_all_threads():
    cache = GroupCache()
    made = []
    gate = threading.Event()

    def load() -> tuple[Array, ...]:
        made.append(gate.wait(5))
        return (np.zeros(3, "u1"),)

    threads = [threading.Thread(target=cache.get, args=(0, load)) for _ in range(4)]
    for thread in threads:
        thread.start()
    gate.set()
    for thread in threads:
        thread.join()
    assert made == [True]


def test_many_threads(tmp_path):
    data = [sample(200, (5,), "i4"), [sample(1, (n % 7,), "f4")[0] for n in range(200)]]
    columns = [column("x", data[0]), column("v", data[1])]
    schema = write(tmp_path, ParquetFormat(row_group_bytes=300), columns, data, [0, 90, 200], 50)
    fixed, varying = sources(tmp_path, schema)
    fixed._store.cache = GroupCache(limit=1000)
    wrong: list[BaseException] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        try:
            for _ in range(20):
                indices = rng.integers(0, 200, 20)
                exact(read(fixed, indices), data[0][indices])
                for got, at in zip(read_each(varying, indices), indices.tolist(), strict=True):
                    exact(got, data[1][at])
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert fixed._store.cache.held_bytes <= 1000
    place = fixed.place(95)
    assert (place.path, place.row) == (str(tmp_path / "data-00001.parquet"), 5)


# As flows


@pytest.fixture
def opened(tmp_path):
    data = [sample(90, (4, 3), "f4"), [sample(1, (n % 5, 2), "i4")[0] for n in range(90)], sample(90, (), "U4")]
    columns = [column(name, values) for name, values in zip("xvt", data, strict=True)]
    write(tmp_path / "set", ParquetFormat(row_group_bytes=500), columns, data, [0, 40, 90])
    return open_parquet(tmp_path / "set"), data


def test_a_flow(opened):
    flow, (x, v, t) = opened
    assert len(flow) == 90
    assert {name: str(spec) for name, spec in flow.spec.items()} == {
        "x": "float32 (4, 3)",
        "v": "int32 (None, 2)",
        "t": "text ()",
    }
    one = flow[57]
    exact(one["x"], x[57])
    exact(one["v"], v[57])
    assert one["t"] == t[57]


@pytest.mark.parametrize("shuffle", [False, True, nf.Shuffle(block=7, window=3)], ids=str)
def test_the_order_is_that_of_arrays(opened, shuffle):
    flow, (x, _, _) = opened
    how: dict[str, Any] = {"shuffle": shuffle, "seed": 5, "with_index": True}
    wanted = list(nf.rows(x).batches(16, **how))
    found = list(flow.batches(16, pad={"v": 0}, **how))
    assert len(wanted) == len(found)
    for (index, values), (numbers, examples) in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(index, numbers)
        exact(np.asarray(examples["x"]), np.asarray(values))


def test_pickled_and_in_parts(opened):
    flow, (x, _, _) = opened
    exact(pickle.loads(pickle.dumps(flow))[80]["x"], x[80])
    first, second = flow.split(0.5, seed=1)
    assert len(first) + len(second) == 90


# Other tools


@pytest.fixture(params=[True, False], ids=["tensors", "lists"])
def shared_files(tmp_path, request):
    ones = [sample(12, (2, 3), "f4"), sample(12, (), "i2"), sample(12, (2,), "?"), sample(12, (2,), "c16")]
    more = [np.array([f"é{n}" for n in range(12)]), [sample(1, (n % 4,), "u2")[0] for n in range(12)]]
    data = [*ones, *more]
    names = ["image", "label", "flags", "signal", "name", "tokens"]
    columns = [column(name, values) for name, values in zip(names, data, strict=True)]
    write(tmp_path / "set", ParquetFormat(row_group_bytes=150, tensors=request.param), columns, data, [0, 7, 12])
    return sorted(map(str, (tmp_path / "set").glob("*.parquet"))), dict(zip(names, data, strict=True)), request.param


def check_rows(rows: list[dict[str, Any]], data: dict[str, Any]) -> None:
    assert len(rows) == 12
    for at, row in enumerate(rows):
        for name, values in data.items():
            want = values[at]
            if want.dtype.kind == "c":
                want = np.stack([want.real, want.imag], axis=-1)
            got = row[name]
            got = np.array(got.tolist() if isinstance(got, np.ndarray) else got).reshape(want.shape)
            np.testing.assert_array_equal(got.astype(want.dtype), want)


def plain(value: Any) -> Any:
    """Arrays of arrays as lists of lists."""
    if isinstance(value, np.ndarray):
        return [plain(one) for one in value]
    return value


def test_pyarrow_gives_tensors_back(shared_files):
    paths, data, tensors = shared_files
    if tensors:
        whole = pq.read_table(paths).column("image").combine_chunks()
        exact(whole.to_numpy_ndarray(), data["image"])


def test_pandas(shared_files):
    pandas = pytest.importorskip("pandas")
    paths, data, _ = shared_files
    frame = pandas.concat([pandas.read_parquet(path) for path in paths])
    check_rows([{name: plain(value) for name, value in row.items()} for row in frame.to_dict("records")], data)


def test_polars(shared_files):
    polars = pytest.importorskip("polars")
    paths, data, _ = shared_files
    frame = polars.concat([polars.read_parquet(path) for path in paths])
    check_rows([{name: frame[name].to_list()[at] for name in data} for at in range(12)], data)


def test_hugging_face(shared_files, tmp_path, monkeypatch):
    """It knows no tensors of Arrow: it reads lists, or is told what to read them as."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    paths, data, tensors = shared_files
    how: dict[str, Any] = {}
    if tensors:
        value, many = datasets.Value, datasets.List
        how["features"] = datasets.Features(
            {
                "image": many(value("float32"), length=6),
                "label": value("int16"),
                "flags": many(value("bool"), length=2),
                "signal": many(value("float64"), length=4),
                "name": value("string"),
                "tokens": many(value("uint16")),
                "tokens/shape": many(value("int64"), length=1),
            }
        )
    found = datasets.Dataset.from_parquet(paths, cache_dir=str(tmp_path / "cache"), **how)
    check_rows(list(found), data)
