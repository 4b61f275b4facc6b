r"""The header of a ``.npy`` file.

``\x93NUMPY``, two version bytes, a little-endian length (2 bytes in version 1.0, 4 in 2.0 and 3.0), then a Python
dict literal with ``descr``, ``fortran_order`` and ``shape``, padded with spaces and a newline. See the format
document, https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html (NEP 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.dtypes import DType
from npyflow._core.errors import FileFormatError
from npyflow._core.text import brief, examples
from npyflow._format.literal import LONG, LiteralError, parse_literal

if TYPE_CHECKING:
    from collections.abc import Callable

MAGIC = b"\x93NUMPY"
MAX_HEADER_BYTES = 1 << 20
# Enough for the header of nearly every file: NumPy pads a plain one to 128 bytes.
FIRST_READ_BYTES = 256

NO_COMMA = "a shape without its comma, such as (6)"

_KEYS = {"descr", "fortran_order", "shape"}
# What np.save makes of ml_dtypes.float8_e5m2: a name that NumPy itself does not know.
_FLOAT8 = ("<f1", ">f1", "|f1")
# NumPy counts elements and bytes in 64 bits.
_MAX_COUNT = (1 << 63) - 1
_MAX_AXES = 64
_LENGTH_BYTES = {(1, 0): 2, (2, 0): 4, (3, 0): 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a ``.npy`` file says about itself.

    Parameters
    ----------
    raw : bytes
        The header as it stands in the file, magic included; ``len(raw)`` is the payload's offset.
    version : tuple of int
        Format version.
    dtype : numpy.dtype
        As stored, byte order included.
    fortran_order : bool
        The first axis varies fastest.
    shape : tuple of int
        Of the whole array.
    slips : frozenset of str
        How it is written amiss, where that could be read all the same; such a header needs a file of the right size.
    """

    raw: bytes
    version: tuple[int, int]
    dtype: DType
    fortran_order: bool
    shape: tuple[int, ...]
    slips: frozenset[str] = frozenset()

    @property
    def offset(self) -> int:
        """First byte of the payload."""
        return len(self.raw)

    @property
    def payload_bytes(self) -> int:
        """Bytes of the array; a Python integer, so it cannot overflow."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def strided(self) -> bool:
        """The bytes are not in C order (a vector or an array of one column reads the same either way)."""
        return self.fortran_order and sum(size != 1 for size in self.shape) > 1


def header_bytes(start: bytes) -> int | None:
    """Return how many bytes the header has, or None if `start` is no ``.npy`` or too short to tell.

    Parameters
    ----------
    start : bytes
        The first 12 bytes of the file or more.
    """
    size = _LENGTH_BYTES.get((start[6], start[7])) if len(start) >= 12 and start.startswith(MAGIC) else None
    return None if size is None else 8 + size + int.from_bytes(start[8 : 8 + size], "little")


def whole_header(start: bytes, limit: int, read: Callable[[int], bytes]) -> tuple[bytes, int | None]:
    """Return the beginning of an array with all of its header, and how long that is (None: `header_bytes` cannot tell).

    Parameters
    ----------
    start : bytes
        The first `FIRST_READ_BYTES`, or as many as there are.
    limit : int
        Bytes of the array; a header that claims more is not read, nor one of more than `MAX_HEADER_BYTES`.
    read : callable
        ``read(count)`` returns the first `count` bytes.
    """
    size = header_bytes(start)
    longer = size is not None and len(start) < size <= min(limit, MAX_HEADER_BYTES)
    return (read(size) if longer and size is not None else start), size


def parse_header(raw: bytes) -> Header:
    """Parse a whole header.

    Parameters
    ----------
    raw : bytes
        From the magic to the byte before the payload, no more.

    Raises
    ------
    FileFormatError
        Says what is wrong, without the path: the caller knows that.
    """
    if not raw.startswith(MAGIC) or len(raw) < 10:
        raise FileFormatError("no .npy magic")
    version = (raw[6], raw[7])
    size = _LENGTH_BYTES.get(version)
    if size is None:
        raise FileFormatError(f"format version {version[0]}.{version[1]}; expected 1.0, 2.0 or 3.0")
    if len(raw) > MAX_HEADER_BYTES:
        raise FileFormatError(f"a header of {len(raw):,} bytes; expected at most {MAX_HEADER_BYTES:,}")
    try:
        text = raw[8 + size :].decode("utf-8" if version == (3, 0) else "latin-1")
        fields, slips = parse_literal(text)
    except (LiteralError, UnicodeDecodeError) as error:
        raise FileFormatError(f"the header is no dict of literals: {error}") from None
    if version == (3, 0) and LONG in slips:
        raise FileFormatError(f"the header holds {LONG}, which Python 2 cannot have written in version 3.0")
    dtype, fortran_order, shape = _fields(fields)
    if isinstance(shape, int):
        shape, slips = (shape,), slips | {NO_COMMA}
    dtype = _element(dtype, shape)
    _check_size(shape, dtype)
    return Header(raw=raw, version=version, dtype=dtype, fortran_order=fortran_order, shape=shape, slips=slips)


def _fields(fields: Any) -> tuple[DType, bool, tuple[int, ...] | int]:
    if not isinstance(fields, dict) or set(fields) != _KEYS:
        found = examples(map(_shown, fields)) if isinstance(fields, dict) else type(fields).__name__
        raise FileFormatError(f"the header needs exactly descr, fortran_order and shape; found {found}")
    shape, fortran_order = fields["shape"], fields["fortran_order"]
    sizes = shape if isinstance(shape, tuple) else (shape,)
    if not all(type(size) is int for size in sizes):
        raise FileFormatError(f"shape {_shown(shape)} is no tuple of integers")
    if not isinstance(fortran_order, bool):
        raise FileFormatError(f"fortran_order {_shown(fortran_order)} is no bool")
    return _dtype(fields["descr"]), fortran_order, shape


def _dtype(descr: Any) -> DType:
    if descr in _FLOAT8:
        return np.dtype("V1")
    try:
        names = [field[0] for field in descr if field[0]] if isinstance(descr, list) else []
        # NumPy finds out as well, after it has made a dtype of every one.
        if len(set(names)) < len(names):
            raise FileFormatError("descr has two fields of one name")
        return np.lib.format.descr_to_dtype(descr)
    except FileFormatError:
        raise
    except Exception:  # NumPy raises TypeError, ValueError, KeyError or IndexError by what is odd about it
        raise FileFormatError(f"descr {_shown(descr)} is no dtype that NumPy knows") from None


def _element(dtype: DType, shape: tuple[int, ...]) -> DType:
    """Undo a sub-array: NumPy reads one as its element where each holds one, or where the array holds none."""
    inner: tuple[int, ...] = ()
    while dtype.subdtype is not None:
        dtype, axes = dtype.subdtype
        inner += axes
    usable = math.prod(inner) == 1 or 0 in shape
    if not usable or len(inner) >= _MAX_AXES or _span(inner, dtype.itemsize) > _MAX_COUNT:
        raise FileFormatError(f"descr makes {inner} values of every element, which NumPy does not read back")
    return dtype


def _check_size(shape: tuple[int, ...], dtype: DType) -> None:
    if any(size < 0 for size in shape) or len(shape) > _MAX_AXES:
        raise FileFormatError(f"shape {_shown(shape)} has a negative length or over {_MAX_AXES} axes")
    # NumPy bounds the number of elements by itself as well.
    if _span(shape, max(dtype.itemsize, 1)) > _MAX_COUNT:
        raise FileFormatError(f"shape {_shown(shape)} is more than any array of {dtype.itemsize} byte elements has")


def _span(sizes: tuple[int, ...], itemsize: int) -> int:
    """Return the bytes that NumPy bounds: an empty array counts by its other axes."""
    return math.prod(size or 1 for size in sizes) * itemsize


def _shown(value: object) -> str:
    try:
        return brief(value)
    except ValueError:
        return "a number of thousands of digits"  # which Python does not print
