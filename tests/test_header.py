"""Headers against NumPy: what `np.load` reads is read to the same facts, what it refuses is refused."""

from __future__ import annotations

import io
import time
import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npyflow as nf
from helpers import header, magic, npy_bytes, saved
from npyflow._format.header import MAX_HEADER_BYTES, NO_COMMA, header_bytes, parse_header
from npyflow._format.literal import LONG, PRINTED

_SCALARS = [
    f"{order}{code}" for order in "<>" for code in ("i2", "i4", "i8", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
]
_OTHERS = ["|b1", "|i1", "|u1", "<U5", ">U3", "|S7", "<M8[s]", ">m8[ns]", "|V6", "<f16"]
_STRUCTURED = [
    [("x", "<f4", (3,)), ("id", ">i8"), ("ok", "|b1")],
    [("a", "<i2"), ("b", [("c", "<f8"), ("d", "|u1", (2, 2))])],
    [("été", "<f4")],
]
DTYPES = st.sampled_from([*_SCALARS, *_OTHERS, *_STRUCTURED]).map(np.dtype)
SHAPES = st.lists(st.integers(0, 4), max_size=5).map(tuple)


def head_of(data: bytes):
    size = header_bytes(data)
    assert size is not None
    return parse_header(data[:size])


def numpy_reads(data: bytes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.load(io.BytesIO(data), allow_pickle=False)


def agrees(data: bytes) -> None:
    want, got = numpy_reads(data), head_of(data)
    assert got.dtype == want.dtype
    assert got.dtype.str == want.dtype.str
    assert got.shape == want.shape
    assert got.offset + got.payload_bytes == len(data)
    assert got.payload_bytes == want.nbytes
    payload = np.frombuffer(data, got.dtype, offset=got.offset) if want.nbytes else np.empty(0, got.dtype)
    if want.nbytes:
        read = payload.reshape(got.shape, order="F" if got.fortran_order else "C")
        assert read.tobytes() == want.tobytes()


@settings(max_examples=250, deadline=None)
@given(DTYPES, SHAPES, st.booleans(), st.sampled_from([(1, 0), (2, 0), (3, 0)]))
def test_what_numpy_writes(dtype, shape, fortran, version):
    array = np.arange(int(np.prod(shape)) * dtype.itemsize, dtype=np.uint64).astype(np.uint8) % 2
    array = np.frombuffer(array.tobytes(), dtype).reshape(shape) if array.size else np.empty(shape, dtype)
    array = np.asfortranarray(array) if fortran and shape else array
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            np.lib.format.write_array(buffer, array, version=version)
        except UnicodeEncodeError:  # such a field name needs version 3.0
            assert version != (3, 0)
            return
    data = buffer.getvalue()
    got = head_of(data)
    assert (got.dtype, got.shape, got.version) == (dtype, shape, version)
    assert got.fortran_order == (array.flags.f_contiguous and not array.flags.c_contiguous)
    agrees(data)


@st.composite
def header_texts(draw):
    """The same facts, as other writers put them."""
    shape = draw(SHAPES)
    quote = draw(st.sampled_from("'\""))
    gap = draw(st.sampled_from(["", " ", "  ", "\t"]))
    long = draw(st.sampled_from(["", "L"]))
    sizes = f",{gap}".join(f"{size}{long}" for size in shape)
    comma = "," if len(shape) == 1 or (shape and draw(st.booleans())) else ""
    fields = {
        "descr": f"{quote}{draw(st.sampled_from(_SCALARS))}{quote}",
        "fortran_order": str(draw(st.booleans())),
        "shape": f"({sizes}{comma})",
    }
    order = draw(st.permutations(list(fields)))
    items = f",{gap}".join(f"{quote}{name}{quote}{gap}:{gap}{fields[name]}" for name in order)
    final = draw(st.sampled_from(["", ",", ", "]))
    text = f"{{{gap}{items}{final}}}"
    padding = draw(st.sampled_from([1, 16, 64]))
    newline = draw(st.sampled_from(["\n", ""]))
    text += " " * (-(len(text) + 10 + len(newline)) % padding) + newline
    version = (1, 0) if long else draw(st.sampled_from([(1, 0), (2, 0), (3, 0)]))
    return magic(text.encode(), version), shape


@settings(max_examples=200, deadline=None)
@given(header_texts())
def test_what_other_writers_write(written):
    head, shape = written
    parsed = parse_header(head)
    data = head + np.arange(parsed.payload_bytes, dtype=np.uint64).astype(np.uint8).tobytes()
    assert parsed.shape == shape
    agrees(data)


GOOD = "'descr': '<f4', 'fortran_order': False"
REFUSED_TEXTS = {
    "list as shape": f"{{{GOOD}, 'shape': [6]}}",
    "float in shape": f"{{{GOOD}, 'shape': (6.0,)}}",
    "text in shape": f"{{{GOOD}, 'shape': ('6',)}}",
    "bool in shape": f"{{{GOOD}, 'shape': (True, 6)}}",
    "bool as shape": f"{{{GOOD}, 'shape': True}}",
    "printed bool in shape": f"{{{GOOD}, 'shape': (np.True_,)}}",
    "leading zero": f"{{{GOOD}, 'shape': (06,)}}",
    "negative": f"{{{GOOD}, 'shape': (-1, 3)}}",
    "negative without comma": f"{{{GOOD}, 'shape': (-6)}}",
    "empty but too wide": f"{{{GOOD}, 'shape': (0, {1 << 62})}}",
    "sub-array": "{'descr': ('<f4', (2,)), 'fortran_order': False, 'shape': (3,)}",
    "indented line": f"\n {{{GOOD}, 'shape': (6,)}}",
    "NUL after": f"{{{GOOD}, 'shape': (6,)}}\0",
    "NUL inside": "{'descr': [('a\0', '<f4')], 'fortran_order': False, 'shape': (6,)}",
    "carriage return inside": "{'descr': [('a\r', '<f4')], 'fortran_order': False, 'shape': (6,)}",
    "missing key": f"{{{GOOD}}}",
    "extra key": f"{{{GOOD}, 'shape': (6,), 'more': 1}}",
    "no bool": "{'descr': '<f4', 'fortran_order': 0, 'shape': (6,)}",
    "unknown type": "{'descr': 'nonsense', 'fortran_order': False, 'shape': (6,)}",
    "no descr": "{'descr': 7, 'fortran_order': False, 'shape': (6,)}",
    "list": "['<f4', False, (6,)]",
    "code": "__import__('os').system('true')",
    "code inside": f"{{{GOOD}, 'shape': (__import__('os').getpid(),)}}",
    "empty": "",
    "cut off": f"{{{GOOD}, 'shape': (6,",
}


@pytest.mark.parametrize("name", REFUSED_TEXTS)
def test_what_numpy_refuses_is_refused(name):
    data = magic(REFUSED_TEXTS[name].encode() + b"\n") + bytes(24)
    with pytest.raises(Exception):  # noqa: B017, PT011 (NumPy leaks what its tokenizer raises)
        numpy_reads(data)
    with pytest.raises(nf.FileFormatError):
        head_of(data)


# What is written amiss, and whether NumPy reads it all the same.
SLIPS = {
    "long": (f"{{{GOOD}, 'shape': (2L, 3L)}}", {LONG}, True),
    "long in a field": ("{'descr': [('a', '<f4', (2L,))], 'fortran_order': False, 'shape': (2, 3)}", {LONG}, True),
    "printed": (f"{{{GOOD}, 'shape': (np.int64(2), numpy.uint8(3))}}", {PRINTED}, False),
    "printed bool": ("{'descr': '<f4', 'fortran_order': np.False_, 'shape': (2, 3)}", {PRINTED}, False),
    "no comma": (f"{{{GOOD}, 'shape': (6)}}", {NO_COMMA}, False),
    "bare number": (f"{{{GOOD}, 'shape': 6}}", {NO_COMMA}, False),
    "all": ("{'descr': '<f4', 'fortran_order': np.False_, 'shape': (6L)}", {LONG, PRINTED, NO_COMMA}, False),
}


@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
@pytest.mark.parametrize("name", SLIPS)
def test_slips_are_read_and_named(name, version):
    text, slips, numpy_too = SLIPS[name]
    data = magic(text.encode() + b"\n", version)
    got = head_of(data)
    assert got.slips == slips
    assert got.shape == ((6,) if NO_COMMA in slips else (2, 3))
    data += bytes(got.payload_bytes)
    if numpy_too:
        agrees(data)
    else:
        with pytest.raises(ValueError, match=r"."):
            numpy_reads(data)


def test_version_3_has_no_longs():
    # Python 2 was gone by then, and np.load refuses it too.
    for shape in ("(2L, 3L)", "(6L)"):
        with pytest.raises(nf.FileFormatError, match=r"cannot have written in version 3\.0"):
            head_of(magic(f"{{{GOOD}, 'shape': {shape}}}".encode(), (3, 0)))
    printed = head_of(magic(f"{{{GOOD}, 'shape': (np.int64(2),)}}".encode(), (3, 0)))
    assert (printed.shape, printed.slips) == ((2,), {PRINTED})


def test_no_slips_where_there_are_none():
    assert head_of(saved(np.zeros(6))).slips == frozenset()


@pytest.mark.parametrize("descr", ["<f1", ">f1", "|f1"])
def test_float8_is_one_byte_without_a_name(descr):
    got = head_of(header(descr, False, (6,)))
    assert (got.dtype, got.payload_bytes, got.slips) == (np.dtype("V1"), 6, frozenset())
    with pytest.raises(ValueError, match="f1"):
        numpy_reads(header(descr, False, (6,)) + bytes(6))


@pytest.mark.parametrize(
    "text",
    [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, # rows\n 3)}  # no more",
        "{'descr': '<' 'f4', 'fortran_order': False, 'shape': (0x2, 0b11)}",
        "{'descr': '\\x3cf\\064', 'fortran_order': False, 'shape': (2, 3)}",
        "\n{'descr': r'<f4', 'fortran_order': False, 'shape': ((2, 3))}\r\n",
        "{'descr': ('<f4', (1, 1)), 'fortran_order': False, 'shape': (2, 3)}",
    ],
)
def test_any_spelling_that_numpy_reads(text):
    agrees(magic(text.encode()) + bytes(24))
    assert head_of(magic(text.encode())).slips == frozenset()


def test_a_spelling_of_python_beyond_what_numpy_reads_is_refused():
    text = f"{{{GOOD}, 'shape': (0x6,)}}"
    assert head_of(magic(text.ljust(10_000).encode())).shape == (6,)
    with pytest.raises(nf.FileFormatError, match="no dict of literals"):
        head_of(magic(text.ljust(10_001).encode()))
    # In plain spelling, a long header is read.
    assert head_of(magic(text.replace("0x", "").ljust(10_001).encode())).shape == (6,)


@pytest.mark.parametrize("place", ["{'descr': X}", "{X: 1}", "{'descr': X, 'fortran_order': False, 'shape': ()}"])
def test_numbers_that_python_does_not_print_are_refused(place):
    text = place.replace("X", "0x" + "f" * 4000)
    with pytest.raises(nf.FileFormatError):
        head_of(magic(text.encode()))
    shape = f"{{{GOOD}, 'shape': (0x{'f' * 4000},)}}"
    with pytest.raises(nf.FileFormatError, match="shape a number of thousands of digits"):
        head_of(magic(shape.encode()))


@pytest.mark.parametrize("version", [(1, 1), (0, 0), (4, 0), (255, 255)])
def test_unknown_versions(version):
    data = magic(f"{{{GOOD}, 'shape': (6,)}}\n".encode(), version)
    assert header_bytes(data) is None
    with pytest.raises(nf.FileFormatError, match=rf"version {version[0]}\.{version[1]}.*expected 1\.0, 2\.0 or 3\.0"):
        parse_header(data)


def test_header_bytes_needs_magic_and_length():
    data = saved(np.zeros(3))
    assert header_bytes(data[:12]) == 128
    assert header_bytes(data[:11]) is None
    assert header_bytes(b"") is None
    assert header_bytes(b"PK" + data[2:]) is None


def test_offset_and_strided():
    array = np.zeros((3, 4), "f4")
    assert head_of(npy_bytes(array, align=1)).offset == len(npy_bytes(array, align=1)) - array.nbytes
    assert head_of(npy_bytes(array, fortran=True)).strided
    assert not head_of(npy_bytes(array)).strided
    for shape in ((5,), (5, 1), (1, 5, 1), ()):
        assert not head_of(npy_bytes(np.zeros(shape), fortran=True)).strided


HOSTILE = {
    "4 GiB header length": b"\x93NUMPY\x02\x00\xf0\xff\xff\xff" + b"{" * 100,
    "64 KiB header length": b"\x93NUMPY\x01\x00\xff\xff{",
    "product overflows": header("<f4", False, (1 << 62, 4)),
    "product overflows to zero": header("<f4", False, (1 << 32, 1 << 32)),
    "huge digits": magic(b"{'descr': '<f4', 'fortran_order': False, 'shape': (" + b"9" * 4000 + b",)}\n"),
    "negative": header("<f4", False, (-1, 3)),
    "negative twice": header("<f4", False, (-2, -3)),
    "nested descr": magic(b"{'descr': " + b"[" * 100 + b"]" * 100 + b", 'fortran_order': False, 'shape': ()}\n"),
    "deep shape": magic(b"{'descr': '<f4', 'fortran_order': False, 'shape': " + b"(" * 30_000, (1, 0)),
    "deep, long": magic(b"[" * (MAX_HEADER_BYTES - 100), (2, 0)),
    "code": magic(b"__import__('os').system('touch /tmp/never')\n"),
    "code in shape": magic(b"{'descr':'<f4','fortran_order':False,'shape':(__import__('os').getpid(),)}\n"),
    "many axes": header("<f4", False, (1,) * 65),
    "endless string": magic(b"'" * 1 + b"a" * (MAX_HEADER_BYTES - 100), (2, 0)),
    "endless backslashes": magic(b"{'descr': '" + b"\\" * 60_000, (1, 0)),
    "endless spaces": magic(b" " * (MAX_HEADER_BYTES - 100), (2, 0)),
    "long tuple": magic(b"(" + b"1," * (MAX_HEADER_BYTES // 2 - 100) + b")", (2, 0)),
    "long shape": magic(
        b"{'descr':'<f4','fortran_order':False,'shape':(" + b"1," * (MAX_HEADER_BYTES // 2 - 100) + b")}", (2, 0)
    ),
    "many empty tuples": magic(b"(" + b"()," * (MAX_HEADER_BYTES // 3 - 100) + b")", (2, 0)),
    "many fields": magic(b"{'descr':[" + b"('a','<f4')," * 80_000 + b"],'fortran_order':False,'shape':(1,)}", (2, 0)),
    "many odd fields": magic(
        b"{'descr':[" + b"(u'a','<f4')," * 80_000 + b"],'fortran_order':False,'shape':(1,)}", (2, 0)
    ),
    "many lists": magic(
        b"{'descr':[" + b"('a',[('b','<f4')])," * 50_000 + b"],'fortran_order':False,'shape':()}", (2, 0)
    ),
    "beyond unicode": magic(b"{'descr': '\\UFFFFFFFF', 'fortran_order': False, 'shape': (1,)}\n"),
    "huge subarray": magic(b"{'descr': ('<f4', (100000000000,)), 'fortran_order': False, 'shape': (1,)}\n"),
    "bad utf-8": magic(b"{'descr': '\xff', 'fortran_order': False, 'shape': (1,)}\n", (3, 0)),
    "nothing": magic(b""),
    "NULs": magic(b"\0" * 60_000),
    # Short enough to be shown to Python's own parser.
    "minus signs": magic(b"-" * 9_990 + b"1"),
    "sums": magic(b"1+" * 4_990 + b"1"),
    "brackets": magic(b"{'descr':" * 1_000),
    "nested f-strings": magic(b"f'{" * 3_300),
    "lambdas": magic(b"lambda:" * 1_400),
    "backslashed lines": magic(b"\\\n" * 4_990),
    "digits": magic(b"{'descr': '<f4', 'fortran_order': False, 'shape': (0x" + b"f" * 9_900 + b",)}\n"),
    "digits as key": magic(b"{0x" + b"f" * 9_900 + b": 1}"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_headers_are_refused_fast_and_small(tmp_path, name):
    path = tmp_path / "x.npy"
    path.write_bytes(HOSTILE[name])
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        with pytest.raises(nf.FileFormatError) as caught:
            nf.rows(path)
        seconds.append(time.perf_counter() - start)
    assert caught.value.path == str(path)
    assert len(str(caught.value)) < 1000 + len(str(path))
    # Eighty thousand plain fields could be somebody's table, so all of them are read before two have one name.
    assert min(seconds) < (0.3 if name == "many fields" else 0.05)


@pytest.mark.parametrize("name", ["4 GiB header length", "product overflows", "long tuple", "deep, long", "sums"])
def test_hostile_headers_take_little_memory(tmp_path, name):
    path = tmp_path / "x.npy"
    path.write_bytes(HOSTILE[name])
    tracemalloc.start()
    try:
        with pytest.raises(nf.FileFormatError):
            nf.rows(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 50 << 20


def test_a_wide_header_is_read(tmp_path):
    for count in (4_000, 40_000):
        fields = [(f"c{at}", "<f4", (2,)) if at % 7 == 0 else (f"c{at}", ">i2") for at in range(count)]
        dtype = np.dtype([("", "V3"), *fields, ("inner", [("é" if count < 10_000 else "e", "<f8")])])
        path = tmp_path / f"{count}.npy"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            np.save(path, np.zeros(2, dtype))
        got = head_of(path.read_bytes())
        assert got.dtype == dtype
        assert got.offset > 65_536
        assert len(nf.rows(path, fields=("c7", "inner"))) == 2


def test_a_header_over_the_limit_is_named(tmp_path):
    text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}" + b" " * MAX_HEADER_BYTES + b"\n"
    path = tmp_path / "x.npy"
    path.write_bytes(magic(text, (2, 0)) + bytes(4))
    with pytest.raises(nf.FileFormatError, match="expected at most 1,048,576"):
        nf.rows(path)
    with pytest.raises(nf.FileFormatError, match="expected at most 1,048,576"):
        parse_header(magic(text, (2, 0)))
