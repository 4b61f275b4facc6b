"""TFRecord files: frames, messages, and damage of every kind, without TensorFlow."""

from __future__ import annotations

import contextlib
import gzip
import os
import pickle
import struct
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import sample
from npyflow import (
    BadFilesError,
    CastError,
    FileChangedError,
    FileFormatError,
    MissingDependencyError,
    MissingFileError,
    OptionError,
    UnsupportedDtypeError,
)
from npyflow._core.buffers import BufferPool
from npyflow._core.spec import ArraySpec
from npyflow._format import tfrecord
from npyflow._format.parsing import Decoder, RecordError
from npyflow._format.schema import SCHEMA_FILE, Column
from npyflow._format.wire import WireError, fields, pack_varints, read_varint, unpack_varints, varint
from npyflow._sources.records import open_records
from npyflow._sources.stored import Stored, load_stored
from npyflow._write.tfrecord import TFRecordFormat
from stored_support import (
    DTYPES,
    SHAPES,
    SMALL,
    N,
    columns_of,
    cut,
    dtype_of,
    identical,
    read_shard,
    values_of,
    write_shard,
    write_stored,
)

pytest.importorskip("google_crc32c")
pytestmark = pytest.mark.extra

WAYS = [("raw", None), ("raw", "gzip"), ("list", None), ("list", "gzip")]


def made(values, path, names=None, **options):
    """Write a shard; return the format, its columns and its facts."""
    form = TFRecordFormat(**options)
    columns = columns_of(values, names)
    form.check(columns)
    return form, columns, write_shard(form, path, columns, values)


# Numbers of variable length


def one_by_one(values):
    return b"".join(varint(value & (1 << 64) - 1) for value in values)


@settings(max_examples=60)
@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 300), max_size=40))
def test_varints(values):
    array = np.array(values, np.int64)
    data, ends = pack_varints(array)
    assert data.tobytes() == one_by_one(values)
    assert np.diff(ends).tolist() == [len(one_by_one([value])) for value in values]
    np.testing.assert_array_equal(unpack_varints(data), array)
    at = 0
    for value in values:
        found, at = read_varint(memoryview(data.tobytes()), at, len(data))
        assert found == value & (1 << 64) - 1


@pytest.mark.parametrize("largest", [1, 127, 128, 255, 2**16 - 1, 2**32 - 1, 2**63 - 1])
def test_varints_of_every_width(largest):
    values = np.array([0, largest // 2, largest], np.uint64)
    assert pack_varints(values)[0].tobytes() == one_by_one(values.tolist())


@pytest.mark.parametrize("data", [b"\x80", b"\x01\xff", b"\xff" * 11 + b"\x01"])
def test_broken_varints(data):
    with pytest.raises(WireError):
        unpack_varints(np.frombuffer(data, np.uint8))


@settings(max_examples=100)
@given(st.binary(max_size=60))
def test_any_bytes_are_fields_or_an_error(data):
    try:
        for _, _, start, stop in fields(memoryview(data), 0, len(data)):
            assert 0 < start <= stop <= len(data)
    except WireError:
        pass


# There and back


def is_listed(name):
    return dtype_of(name).kind != "c"


@pytest.mark.parametrize(("encoding", "compression"), WAYS)
@pytest.mark.parametrize("name", DTYPES + SMALL)
def test_every_dtype_and_shape_comes_back(tmp_path, name, encoding, compression):
    if encoding == "list" and not is_listed(name):
        pytest.skip("a list has no complex numbers")
    lossy = encoding == "list" and name in ("f8", "u8")
    for number, shape in enumerate(SHAPES):
        array = values_of(name, shape)
        if lossy:
            array = array.astype("f4").astype("f8") if name == "f8" else array >> np.uint64(1)
        values = [array, *([cut(array)] if shape else [])]
        path = tmp_path / str(number)
        form, columns, facts = made(values, path, encoding=encoding, compression=compression, lossy=lossy)
        for got, want in zip(read_shard(form, path, columns, N, facts), values, strict=True):
            identical(got, want)


def test_several_axes_vary_and_records_are_long_and_short(tmp_path):
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 255, (at * 37 % 150, at * 11 % 90, 3), np.uint8) for at in range(N)]
    columns = [
        Column(name="image", spec=ArraySpec((None, None, 3), np.dtype("u1"))),
        Column(name="label", spec=ArraySpec((), np.dtype("i8"))),
    ]
    values = [images, np.arange(N)]
    for encoding in ("raw", "list"):
        form = TFRecordFormat(encoding=encoding)
        facts = write_shard(form, tmp_path / encoding, columns, values)
        assert facts["lengths"]["image"][1] == [one.shape[1] for one in images]
        for got, want in zip(read_shard(form, tmp_path / encoding, columns, N), values, strict=True):
            identical(got, want)


def test_large_records_of_one_shape(tmp_path):
    """They are written from where they are; other sizes than those of the buffers."""
    array = sample(7, (50_001,))
    form, columns, facts = made([array, np.arange(7)], tmp_path / "x")
    got = read_shard(form, tmp_path / "x", columns, 7, facts)
    identical(got[0], array)
    assert facts["record_bytes"] + 16 == os.path.getsize(tmp_path / "x") // 7


def test_many_tiny_records(tmp_path):
    array = np.arange(3000, dtype="i2")
    form, columns, facts = made([array], tmp_path / "x")
    got = list(form.read([str(tmp_path / "x")], columns, facts, [1, 2998, 1]))
    identical(np.concatenate([part[0] for part in got]), array)


@pytest.mark.parametrize("text", [["", "a", "aé数😀", "x" * 200], ["a\0b", "\ud800", "", ""]])
def test_texts(tmp_path, text):
    array = np.array(text)
    for values in ([array], [array.reshape(2, 2)], [[array[:1], array[:0], array]]):
        form, columns, _ = made(values, tmp_path / "x")
        got = form.read([str(tmp_path / "x")], columns, {}, [len(values[0])])
        identical(next(got)[0], values[0])
        os.unlink(tmp_path / "x")


@pytest.mark.parametrize("name", DTYPES + SMALL)
def test_raw_is_hardly_larger_than_the_source(tmp_path, name):
    if name == "U3":
        pytest.skip("NumPy has four bytes a letter, UTF-8 has one to four")
    array = values_of(name, (100,), 1000)
    form, columns, _ = made([array], tmp_path / "x")
    size = os.path.getsize(tmp_path / "x")
    around = 300 if name == "S4" else 120
    assert size <= 1.02 * array.nbytes + 1000 * around
    forecast = 1000 * form.example_bytes(columns[0], 100)
    assert 0.9 * size < forecast < 1.7 * size


@pytest.mark.parametrize("name", ["?", "u1", "u2", "i4", "i8", "f2", "f4", "bfloat16", "S4", "U3"])
def test_the_forecast_of_lists(tmp_path, name):
    array = values_of(name, (100,), 1000)
    form, columns, _ = made([array], tmp_path / "x", encoding="list")
    size = os.path.getsize(tmp_path / "x")
    assert 0.55 * size < 1000 * form.example_bytes(columns[0], 100) < 2.1 * size


@pytest.mark.parametrize(("encoding", "compression"), WAYS)
def test_bytes_depend_on_the_examples_alone(tmp_path, encoding, compression):
    array = values_of("f4", (30,), 40)
    values = [array, cut(values_of("i2", (5,), 40)), np.arange(40)]
    form = TFRecordFormat(encoding=encoding, compression=compression)
    columns = columns_of(values)
    for chunk in (1, 7, 40):
        write_shard(form, tmp_path / str(chunk), columns, values, chunk)
    assert len({(tmp_path / str(chunk)).read_bytes() for chunk in (1, 7, 40)}) == 1


def test_short_writes(tmp_path, monkeypatch):
    """The system may take any part of what it is given."""
    values = [sample(9, (9000,)), cut(sample(9, (700,)))]
    made(values, tmp_path / "whole")
    real = os.writev
    monkeypatch.setattr(os, "writev", lambda fd, pieces: real(fd, [bytes(memoryview(pieces[0]).cast("B"))[:1777]]))
    made(values, tmp_path / "parts")
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()


# What a list cannot hold


@pytest.mark.parametrize(("name", "error"), [("f8", CastError), ("u8", CastError), ("c8", UnsupportedDtypeError)])
def test_lists_refuse_what_they_would_change(name, error):
    with pytest.raises(error, match=r"c0: .*encoding='raw'"):
        TFRecordFormat(encoding="list").check(columns_of([values_of(name, (2,))]))


def test_a_lossy_list_rounds_and_says_so(tmp_path):
    array = np.linspace(0, 1, 22).reshape(N, 2)
    form, columns, _ = made([array], tmp_path / "x", encoding="list", lossy=True)
    got = read_shard(form, tmp_path / "x", columns, N)[0]
    identical(got, array.astype("f4").astype("f8"))
    identical(form.as_read(columns[0], array), got)


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.array([[1.0], [2.0], [1e300], [3.0], [1e301], [0.0]]), "1e.300 is too large"),
        (np.array([[1], [2], [2**63], [3], [2**64 - 1], [0]], np.uint64), "9223372036854775808 is too large"),
    ],
)
@pytest.mark.parametrize("varying", [False, True])
def test_numbers_that_fit_no_list_are_refused(tmp_path, array, text, varying):
    values = [list(array) if varying else array]
    with pytest.raises(CastError, match=text) as caught:
        made(values, tmp_path / "x", encoding="list", lossy=True)
    assert caught.value.index == 2


@pytest.mark.parametrize("options", [{"encoding": "csv"}, {"compression": "zip"}])
def test_options(options):
    with pytest.raises(OptionError, match=r"expected|has"):
        TFRecordFormat(**options)


def test_the_format_travels():
    form = TFRecordFormat(encoding="list", compression="gzip")
    assert pickle.loads(pickle.dumps(form)) == form
    assert form.options == {"encoding": "list", "compression": "gzip"}
    assert form.files("data-0", []) == ["data-0.tfrecord.gz"]


def test_the_package_for_checksums_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "google_crc32c", None)
    tfrecord.crc32c.cache_clear()
    try:
        with pytest.raises(MissingDependencyError, match=r"pip install 'npyflow\[tfrecord\]'"):
            TFRecordFormat().check([])
    finally:
        monkeypatch.undo()
        tfrecord.crc32c.cache_clear()


# Frames


def test_the_checksum_is_crc32c():
    assert tfrecord.crc32c()(0, b"123456789") == 0xE3069283
    assert tfrecord.masked(0xE3069283) == ((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) % 2**32


def damaged(tmp_path, change, **options):
    """Write two columns, change the bytes, read."""
    values = [values_of("f4", (6,)), cut(values_of("i2", (4,)))]
    form, columns, facts = made(values, tmp_path / "x", **options)
    content = bytearray((tmp_path / "x").read_bytes())
    (tmp_path / "x").write_bytes(bytes(change(content)))
    with pytest.raises(FileFormatError) as caught:
        read_shard(form, tmp_path / "x", columns, N, facts)
    assert str(tmp_path / "x") in str(caught.value)
    assert caught.value.path == str(tmp_path / "x")
    return caught.value


def flip(at):
    def change(content):
        content[at] ^= 0x20
        return content

    return change


@pytest.mark.parametrize(
    ("at", "text"), [(0, "its length has"), (7, "its length"), (9, "its length"), (20, "its bytes")]
)
def test_flipped_bits(tmp_path, at, text):
    error = damaged(tmp_path, flip(at))
    assert error.index == 0
    assert f"record 0: {text}" in str(error)


def test_every_flipped_bit_is_found(tmp_path):
    values = [values_of("u1", (2,), 3)]
    form, columns, _ = made(values, tmp_path / "x")
    content = (tmp_path / "x").read_bytes()
    for bit in range(0, 8 * len(content), 5):
        other = bytearray(content)
        other[bit // 8] ^= 1 << bit % 8
        (tmp_path / "x").write_bytes(other)
        with pytest.raises(FileFormatError, match=r"record [0-2]: "):
            read_shard(form, tmp_path / "x", columns, 3)


@pytest.mark.parametrize("keep", [0, 5, 11, 12, 40, -1, -4, -5])
def test_truncated(tmp_path, keep):
    error = damaged(tmp_path, lambda content: content[:keep])
    assert "ends" in str(error)
    assert error.index == (N - 1 if keep < 0 else 0)


def test_too_much(tmp_path):
    assert "goes on after the 11 records" in str(damaged(tmp_path, lambda content: content + content[:100]))
    os.unlink(tmp_path / "x")
    assert "goes on" in str(damaged(tmp_path, lambda content: content + b"\0"))


@pytest.mark.parametrize("size", [2**63, 2**40, 2000])
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_a_length_beyond_the_file_takes_no_memory(tmp_path, size, compression):
    """With the right checksum: nobody can tell it from a true one before the end of the file."""

    def change(content):
        content = gzip.decompress(content) if compression else content
        content = tfrecord.head(size) + bytes(content)[12:400]
        return gzip.compress(content) if compression else content

    error = damaged(tmp_path, change, compression=compression)
    assert "record 0: the file ends in the middle of it" in str(error)


@pytest.mark.parametrize("change", [flip(0), flip(200), flip(-3), lambda content: content[:-20], lambda _: b""])
def test_damaged_gzip(tmp_path, change):
    damaged(tmp_path, change, compression="gzip")


# Messages of others


def tag(number, content, wire=2):
    head = varint(number << 3 | wire)
    return head + varint(len(content)) + content if wire == 2 else head + content


def message(*features):
    return tag(1, b"".join(tag(1, tag(1, name.encode()) + tag(2, feature)) for name, feature in features))


def floats(*values, packed=True):
    data = struct.pack(f"<{len(values)}f", *values)
    return tag(2, tag(1, data) if packed else b"".join(tag(1, data[at : at + 4], 5) for at in range(0, len(data), 4)))


def parsed(text, dtype="f4", shape=(2,), encoding="list"):
    decoder = Decoder([Column(name="x", spec=ArraySpec(shape, np.dtype(dtype)))], encoding)
    view = memoryview(text)
    return decoder.value(0, view, decoder.layout(view))


def test_order_and_unknown_fields_do_not_matter():
    feature = tag(9, b"later") + floats(1.5, 2.5) + tag(7, b"\x01", 0)
    entry = tag(3, b"?") + tag(2, feature) + tag(1, b"x")
    text = tag(5, b"abcd", 5) + tag(1, tag(4, b"12345678", 1) + tag(1, entry)) + message(("y", tag(1, tag(1, b"z"))))
    np.testing.assert_array_equal(parsed(text), [1.5, 2.5])


def test_the_last_feature_of_a_name_counts():
    np.testing.assert_array_equal(parsed(message(("x", floats(1, 2)), ("x", floats(3, 4)))), [3, 4])


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b"\x0a", "no tf.train.Example"),
        (b"\x0a\xff\xff\xff\xff\x7f", "no tf.train.Example"),
        (b"\x0f", "no tf.train.Example: wire type 7"),
        (message(("y", floats(1, 2))), "no feature 'x'; it has 'y'"),
        (message(), "it has none"),
        (message(("x", tag(3, tag(1, b"\x01\x02")))), "is an Int64List, expected a FloatList"),
        (message(("x", floats(1, 2, 3))), "12 bytes, expected 8 for float32"),
        (message(("x", b"")), "0 bytes, expected 8"),
        (message(("x", floats(1, 2, packed=False))), "no packed list"),
        (message(("x", floats(1, 2) + floats(1, 2))), "two lists"),
        (message(("x", floats(1, 2)), ("x/shape", tag(3, tag(1, b"\x03")))), r"has shape \(3,\), expected float32"),
        (message(("x", floats(1, 2)), ("x/dtype", tag(1, tag(1, b"<f8")))), "has dtype '<f8', expected '<f4'"),
    ],
)
def test_messages_that_are_not_these_examples(text, what):
    with pytest.raises(RecordError, match=what):
        parsed(text)


@pytest.mark.parametrize(
    ("values", "dtype", "what"),
    [
        (b"\x01", "i8", "has 1 numbers, expected 2"),
        (b"\x01\xff", "i8", "cut off"),
        (b"\x01\xac\x02", "u1", "a number that is no uint8"),
        (b"\x01\x02", "?", "a number that is no bool"),
    ],
)
def test_lists_of_integers_that_are_not_these_examples(values, dtype, what):
    with pytest.raises(RecordError, match=what):
        parsed(message(("x", tag(3, tag(1, values)))), dtype)


@pytest.mark.parametrize(
    ("texts", "dtype", "what"),
    [([b"a"], "U3", "has 1 texts"), ([b"a", b"abcd"], "U3", "longer than the 3"), ([b"a", b"\xff"], "U3", "no UTF-8")],
)
def test_texts_that_are_not_these_examples(texts, dtype, what):
    with pytest.raises(RecordError, match=what):
        parsed(message(("x", tag(1, b"".join(tag(1, one) for one in texts)))), dtype, encoding="raw")


@settings(max_examples=100)
@given(st.data())
def test_changed_messages_are_read_or_refused(data):
    """Without a checksum, which would find any change."""
    text = bytearray(message(("x", floats(1, 2)), ("x/shape", tag(3, tag(1, b"\x02")))))
    for _ in range(data.draw(st.integers(1, 3))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(RecordError):
        assert parsed(bytes(text)).shape == (2,)


# Data sets


def sources_of(folder):
    schema = load_stored(folder)
    shared, pool = {}, BufferPool(0)
    stored = [Stored(path=str(folder), schema=schema, leaf=leaf) for leaf in range(len(schema.columns))]
    return [open_records(pickle.loads(pickle.dumps(one)), pool, shared, "x") for one in stored]


@pytest.mark.parametrize(("encoding", "compression"), WAYS)
def test_examples_by_number(tmp_path, encoding, compression):
    x, y = values_of("f4", (3, 2)), cut(values_of("i2", (4, 2)))
    text = np.array([f"é{at}" for at in range(N)])
    form = TFRecordFormat(encoding=encoding, compression=compression)
    write_stored(tmp_path / "d", form, {"x": x, "more": (y, text)}, (0, 5, 5, N))
    first, second, third = sources_of(tmp_path / "d")
    for indices in (np.arange(N), np.array([10, 0, 5, 4, 4, 9]), np.array([3])):
        out = np.empty((len(indices), 3, 2), "f4")
        first.read_into(indices, [out])
        identical(out, x[indices])
        shapes = second.shapes(indices)
        assert shapes.tolist() == [list(y[at].shape) for at in indices]
        outs = [np.empty((2, shape[0]), "i2").T for shape in shapes]
        second.read_each(indices, [outs])
        identical([np.ascontiguousarray(one) for one in outs], [y[at] for at in indices])
        names = np.empty(len(indices), text.dtype)
        third.read_into(indices, [names])
        identical(names, text[indices])
    assert len(first) == N
    assert second.example_bytes == 4 * 2 * 2
    assert str(first.place(7)).endswith("data-00002-of-00003.tfrecord" + (".gz" if compression else "") + " row 2")
    first.close()


def test_examples_from_several_threads(tmp_path):
    x = values_of("f4", (3,), 60)
    write_stored(tmp_path / "d", TFRecordFormat(), (x, np.arange(60)), (0, 20, 40, 60))
    sources = sources_of(tmp_path / "d")
    wrong = []

    def work(seed):
        for indices in np.random.default_rng(seed).integers(0, 60, (50, 8)):
            out, label = np.empty((8, 3), "f4"), np.empty(8, "i8")
            sources[0].read_into(indices, [out])
            sources[1].read_into(indices, [label])
            wrong.extend(label[(out != x[indices]).any(axis=1) | (label != indices)].tolist())

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_a_damaged_record_is_named(tmp_path, compression):
    schema = write_stored(tmp_path / "d", TFRecordFormat(compression=compression), values_of("f4", (300,)))
    path = tmp_path / "d" / schema.shards[1].files[0]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    (source,) = sources_of(tmp_path / "d")
    out = np.empty((N, 300), "f4")
    source.read_into(np.arange(5), [out[:5]])
    with pytest.raises(FileFormatError, match="data-00001-of-00002") as caught:
        source.read_into(np.arange(N), [out])
    if not compression:
        assert "record 3" in str(caught.value)
        assert caught.value.index == 8


def test_records_that_are_not_as_the_schema_says(tmp_path):
    y = cut(values_of("i2", (4,)))
    write_stored(tmp_path / "d", TFRecordFormat(), (values_of("f4", (3,)), y))
    path = tmp_path / "d" / SCHEMA_FILE
    text = path.read_text()
    path.write_text(text.replace('"shape": [3]', '"shape": [4]'))
    first, _ = sources_of(tmp_path / "d")
    with pytest.raises(
        FileFormatError, match=r"record 2: feature '0' has shape \(3,\), expected float32 \(4,\)"
    ) as caught:
        first.read_into(np.array([7]), [np.empty((1, 4), "f4")])
    assert caught.value.index == 7
    path.write_text(text.replace('"lengths": {"1": [[0, 1, 2', '"lengths": {"1": [[0, 2, 2'))
    _, second = sources_of(tmp_path / "d")
    with pytest.raises(FileFormatError, match=r"record 1: shape \(1,\), but the schema says \(2,\)"):
        second.read_each(np.array([1]), [[np.empty(2, "i2")]])
    path.write_text(text.replace('"lengths"', '"widths"'))
    with pytest.raises(FileFormatError, match="no shapes of 1"):
        sources_of(tmp_path / "d")


# The folder


def test_what_is_missing_is_said_at_once(tmp_path):
    folder = tmp_path / "d"
    with pytest.raises(MissingFileError, match="no such folder"):
        load_stored(folder)
    folder.mkdir()
    with pytest.raises(MissingFileError, match="no finished data set of `npyflow convert`"):
        load_stored(folder)
    schema = write_stored(folder, TFRecordFormat(), values_of("f4", (3,)), (0, 3, 6, N))
    assert load_stored(folder) == schema
    with pytest.raises(FileFormatError, match=r"is tfrecord, expected parquet; open it with npyflow.open_tfrecord"):
        load_stored(folder, "parquet")
    with pytest.raises(MissingFileError, match="a file; expected the folder"):
        load_stored(folder / SCHEMA_FILE)
    names = [shard.files[0] for shard in schema.shards]
    with open(folder / names[0], "ab") as file:
        file.write(b"x")
    with pytest.raises(FileChangedError, match=r"00000-of-00003.tfrecord has 265 bytes, expected"):
        load_stored(folder)
    os.unlink(folder / names[2])
    with pytest.raises(BadFilesError, match="2 files of 3 cannot be used") as caught:
        load_stored(folder)
    assert [type(one) for one in caught.value.problems] == [FileChangedError, MissingFileError]
    (folder / SCHEMA_FILE).write_text("{}")
    with pytest.raises(FileFormatError, match="describes no npyflow data set"):
        load_stored(folder)
