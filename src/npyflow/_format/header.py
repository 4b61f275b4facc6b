r"""The header of a ``.npy`` file.

``\x93NUMPY``, two version bytes, a little-endian length (2 bytes in version 1.0, 4 in 2.0 and 3.0), then a Python
dict literal with ``descr``, ``fortran_order`` and ``shape``, padded with spaces and a newline. See the format
document, https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html (NEP 1).
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from npyflow._core.errors import FileFormatError, MissingFileError
from npyflow._core.spec import DType
from npyflow._core.text import brief, examples, show_path
from npyflow._format.literal import LiteralError, parse_literal

MAGIC = b"\x93NUMPY"
MAX_HEADER_BYTES = 1 << 20
# Enough for the header of nearly every file: NumPy pads a plain one to 128 bytes.
FIRST_READ_BYTES = 256

_KEYS = {"descr", "fortran_order", "shape"}
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
    """

    raw: bytes
    version: tuple[int, int]
    dtype: DType
    fortran_order: bool
    shape: tuple[int, ...]

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
        fields = parse_literal(text)
    except (LiteralError, UnicodeDecodeError) as error:
        raise FileFormatError(f"the header is no dict of literals: {error}") from None
    dtype, fortran_order, shape = _fields(fields)
    return Header(raw=raw, version=version, dtype=dtype, fortran_order=fortran_order, shape=shape)


def _fields(fields: Any) -> tuple[DType, bool, tuple[int, ...]]:
    if not isinstance(fields, dict) or set(fields) != _KEYS:
        found = examples(map(brief, fields)) if isinstance(fields, dict) else type(fields).__name__
        raise FileFormatError(f"the header needs exactly descr, fortran_order and shape; found {found}")
    shape, fortran_order = fields["shape"], fields["fortran_order"]
    if not isinstance(shape, tuple) or not all(type(size) is int for size in shape):
        raise FileFormatError(f"shape {brief(shape)} is no tuple of integers")
    if any(size < 0 for size in shape) or len(shape) > 64:
        raise FileFormatError(f"shape {brief(shape)} has a negative length or over 64 axes")
    if not isinstance(fortran_order, bool):
        raise FileFormatError(f"fortran_order {brief(fortran_order)} is no bool")
    return _dtype(fields["descr"]), fortran_order, shape


def _dtype(descr: Any) -> DType:
    try:
        return np.lib.format.descr_to_dtype(descr)
    except Exception:  # NumPy raises TypeError, ValueError, KeyError or IndexError by what is odd about it
        raise FileFormatError(f"descr {brief(descr)} is no dtype that NumPy knows") from None


def read_header(path: str | os.PathLike[str]) -> Header:
    """Read and parse the header of one file; the payload is not touched.

    Raises
    ------
    MissingFileError
        If there is no such file.
    FileFormatError
        If it is no ``.npy`` file.
    """
    try:
        with open(path, "rb", buffering=0) as file:
            start = file.read(FIRST_READ_BYTES)
            size = header_bytes(start)
            if size is not None and len(start) < size <= MAX_HEADER_BYTES:
                start += file.read(size - len(start))
    except FileNotFoundError:
        raise MissingFileError(f"{show_path(path)}: no such file", path=os.fspath(path)) from None
    try:
        return parse_header(start[:size])
    except FileFormatError as error:
        raise FileFormatError(f"{show_path(path)}: {error}", path=os.fspath(path)) from None
