"""ArrayRecord files: written, read back, by number, by Grain, and damaged."""

from __future__ import annotations

import contextlib
import pickle
import sys

import numpy as np
import pytest

import npyflow as nf
from npyflow import FileFormatError, MissingDependencyError
from npyflow._core.errors import FileError
from npyflow._core.spec import ArraySpec
from npyflow._format.parsing import Decoder
from npyflow._format.schema import Column
from npyflow._write.arrayrecord import ArrayRecordFormat
from stored_support import (
    DTYPES,
    SHAPES,
    SMALL,
    N,
    columns_of,
    cut,
    identical,
    read_shard,
    values_of,
    write_shard,
    write_stored,
)

pytest.importorskip("array_record")
pytest.importorskip("google_crc32c")

# Grain and TensorFlow's protobuf warn about themselves.
pytestmark = [
    pytest.mark.extra,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]

FORM = ArrayRecordFormat()


@pytest.mark.parametrize("name", DTYPES + SMALL)
def test_every_dtype_and_shape_comes_back(tmp_path, name):
    for number, shape in enumerate(SHAPES):
        array = values_of(name, shape)
        values = [array, *([cut(array)] if shape else [])]
        columns = columns_of(values)
        FORM.check(columns)
        path = tmp_path / str(number)
        facts = write_shard(FORM, path, columns, values)
        for got, want in zip(read_shard(FORM, path, columns, N, facts), values, strict=True):
            identical(got, want)


def test_bytes_depend_on_the_examples_alone(tmp_path):
    values = [values_of("f4", (30,)), cut(values_of("i2", (5,)))]
    for chunk in (1, 4, N):
        write_shard(FORM, tmp_path / str(chunk), columns_of(values), values, chunk)
    assert len({(tmp_path / str(chunk)).read_bytes() for chunk in (1, 4, N)}) == 1


def test_hardly_larger_than_the_source(tmp_path):
    array = values_of("f4", (5000,), 200)
    columns = columns_of([array])
    write_shard(FORM, tmp_path / "x", columns, [array])
    size = (tmp_path / "x").stat().st_size
    # Its index begins on a block of 64 KiB.
    assert size <= 1.02 * array.nbytes + 200 * 200 + (1 << 17)
    assert 200 * FORM.example_bytes(columns[0], 5000) == pytest.approx(size, rel=0.1)


def test_the_flow_comes_back(tmp_path):
    x, y = values_of("f4", (3, 2)), np.arange(N)
    keys = tuple(f"k{at}" for at in range(N))
    write_stored(tmp_path / "d", FORM, {"x": x, "more": (y,)}, (0, 5, 5, N), keys=keys, classes=("a", "b"))
    flow = nf.open_arrayrecord(tmp_path / "d")
    assert (len(flow), flow.keys, flow.classes) == (N, keys, ("a", "b"))
    assert flow.spec == {"x": ArraySpec((3, 2), np.dtype("f4")), "more": (ArraySpec((), np.dtype("i8")),)}
    assert "access 'read'" in flow.describe()
    for at in (0, 5, N - 1, -1):
        identical(flow[at]["x"], x[at])
        assert flow[at]["more"] == (y[at],)
    again = pickle.loads(pickle.dumps(flow))
    order = nf.rows(np.arange(N))
    for shuffle in (False, True, nf.Shuffle(block=3, window=2)):
        how = {"shuffle": shuffle, "seed": 3, "epoch": 1}
        for batch, want in zip(again.batches(4, **how), order.batches(4, **how), strict=True):
            identical(batch["x"], x[want])
            identical(batch["more"][0], y[want])


def test_examples_of_different_shapes(tmp_path):
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 255, (at % 4, at % 3 + 1, 2), np.uint8) for at in range(N)]
    columns = [Column(name="data", spec=ArraySpec((None, None, 2), np.dtype("u1")))]
    schema = write_stored(tmp_path / "d", FORM, cut(values_of("u1", (4, 2))))
    assert schema.columns[0].spec.shape == (None, 2)
    write_shard(FORM, tmp_path / "x", columns, [images])
    identical(read_shard(FORM, tmp_path / "x", columns, N)[0], images)
    want = cut(values_of("u1", (4, 2)))
    flow = nf.open_arrayrecord(tmp_path / "d")
    identical([flow[at] for at in range(N)], want)
    (batch,) = flow.batches(N, pad=nf.Pad(7, lengths=True))
    assert batch["length"].tolist() == [len(one) for one in want]
    for row, one in zip(batch["values"], want, strict=True):
        np.testing.assert_array_equal(row[: len(one)], one)
        assert (row[len(one) :] == 7).all()
    assert sum(len(part) for part in flow.batches(3, pad=0, bucket=nf.Bucket(count=2))) == N


def test_grain_reads_it(tmp_path):
    grain = pytest.importorskip("grain.python")
    x = values_of("f4", (3, 2))
    schema = write_stored(tmp_path / "d", FORM, {"x": x, "y": np.arange(N)})
    source = grain.ArrayRecordDataSource([str(tmp_path / "d" / shard.files[0]) for shard in schema.shards])
    assert len(source) == N
    decoder = Decoder(schema.columns, "raw")
    loaded = grain.MapDataset.source(source).shuffle(seed=1).map(lambda record: _example(decoder, record))
    seen = sorted(((int(label), array) for array, label in loaded), key=lambda pair: pair[0])
    identical(np.stack([array for _, array in seen]), x)


def _example(decoder, record):
    view = memoryview(record)
    layout = decoder.layout(view)
    return decoder.value(0, view, layout), decoder.value(1, view, layout)


# Damage


@pytest.fixture
def stored(tmp_path):
    schema = write_stored(tmp_path / "d", FORM, (values_of("f4", (30,)), np.arange(N)))
    return tmp_path / "d", tmp_path / "d" / schema.shards[1].files[0], schema


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content[: len(content) // 2],
        lambda content: content[:-1],
        lambda content: b"",
        lambda content: bytes(len(content)),
        lambda content: content + b"more",
        lambda content: content[:70] + bytes([content[70] ^ 8]) + content[71:],
        lambda content: content[:300] + bytes([content[300] ^ 8]) + content[301:],
    ],
)
def test_damaged_files(stored, change):
    _, path, schema = stored
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(FileFormatError, match=r"data-00001-of-00002.*copy the file again") as caught:
        list(FORM.read([str(path)], schema.columns, {}, [6]))
    assert caught.value.path == str(path)


def test_every_flipped_bit_is_found_or_changes_nothing(tmp_path):
    array = values_of("u1", (3,), 2)
    columns = columns_of([array])
    write_shard(FORM, tmp_path / "x", columns, [array])
    content = (tmp_path / "x").read_bytes()
    for at in range(0, 400, 3):
        (tmp_path / "x").write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
        with contextlib.suppress(FileFormatError):
            identical(read_shard(FORM, tmp_path / "x", columns, 2)[0], array)


def test_damage_behind_a_flow_is_named(stored):
    folder, path, _ = stored
    content = bytearray(path.read_bytes())
    content[300] ^= 8
    path.write_bytes(content)
    flow = nf.open_arrayrecord(folder)
    assert flow[4][1] == 4
    with pytest.raises(FileFormatError, match="data-00001-of-00002"):
        list(flow.batches(N))


def test_another_number_of_records(stored):
    _, path, schema = stored
    with pytest.raises(FileFormatError, match=r"it has 6 records; expected 7"):
        list(FORM.read([str(path)], schema.columns, {}, [7]))


def test_a_folder_that_cannot_be_written(tmp_path):
    with pytest.raises(FileError, match="the package array-record cannot write it"):
        FORM.create([str(tmp_path / "no" / "x")], columns_of([np.arange(3)]), 3)


def test_the_package_is_named(stored, monkeypatch):
    monkeypatch.setitem(sys.modules, "array_record.python", None)
    monkeypatch.setitem(sys.modules, "array_record", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'npyflow\[arrayrecord\]'"):
        FORM.check([])
    with pytest.raises(MissingDependencyError, match=r"pip install 'npyflow\[arrayrecord\]'"):
        nf.open_arrayrecord(stored[0])
