"""What several test modules need: files with chosen headers, and comparison down to the dtype."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

# Every dtype that npyflow delivers.
DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]


def magic(text: bytes, version: tuple[int, int] = (1, 0)) -> bytes:
    """A header with `text` as it stands and the length that belongs to it."""
    width = 2 if version == (1, 0) else 4
    return b"\x93NUMPY" + bytes(version) + len(text).to_bytes(width, "little") + text


def header(
    descr: Any, fortran_order: bool, shape: tuple[int, ...], version: tuple[int, int] = (1, 0), align: int = 64
) -> bytes:
    text = repr({"descr": descr, "fortran_order": fortran_order, "shape": shape}).encode("utf-8")
    fixed = 10 if version == (1, 0) else 12
    return magic(text + b" " * (-(fixed + len(text) + 1) % align) + b"\n", version)


def npy_bytes(array: Any, *, version: tuple[int, int] = (1, 0), align: int = 64, fortran: bool = False) -> bytes:
    """The array as a ``.npy`` file, in Fortran order and with another padding if asked."""
    array = np.asarray(array)
    head = header(np.lib.format.dtype_to_descr(array.dtype), fortran, array.shape, version, align)
    return head + array.tobytes("F" if fortran else "C")


def write(path: Any, array: Any, **kwargs: Any) -> str:
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(npy_bytes(array, **kwargs))
    return str(path)


def write_npz(path: Any, compressed: bool = False, pad: int = 0, **arrays: Any) -> str:
    """A ``.npz`` file; an array may be the bytes of a member, whose name may have a suffix of its own.

    `pad` moves where its bytes begin.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED) as archive:
        archive.comment = b"c" * pad
        for name, array in arrays.items():
            info = zipfile.ZipInfo(name if "." in name else f"{name}.npy")
            info.compress_type = archive.compression
            # A field of an unknown kind, which readers step over.
            info.extra = b"\xfe\xca" + pad.to_bytes(2, "little") + bytes(pad) if pad else b""
            archive.writestr(info, array if isinstance(array, bytes) else npy_bytes(array))
    return str(path)


def saved(array: Any) -> bytes:
    """What ``np.save`` writes."""
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def sample(n: int, shape: tuple[int, ...] = (), dtype: Any = "f4", seed: int = 0) -> np.ndarray[Any, Any]:
    """Random rows, all different where the dtype has room for that."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    size = (n, *shape)
    if dtype.kind == "b":
        return rng.integers(0, 2, size).astype(bool)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, size, dtype=dtype, endpoint=True)
    if dtype.kind in "Mm":
        return rng.integers(-(2**40), 2**40, size).view(dtype)
    if dtype.kind in "US":
        letters = np.array(list("aé数😀 \0") if dtype.kind == "U" else [b"a", b"\xff", b" ", b"\0"])
        width = dtype.itemsize // letters.dtype.itemsize
        return letters[rng.integers(0, len(letters), (*size, width))].view(dtype).reshape(size)
    values = rng.standard_normal(size)
    return (values + 1j * rng.standard_normal(size)).astype(dtype) if dtype.kind == "c" else values.astype(dtype)


def same(got: Any, want: Any) -> None:
    """Equal in shape, native dtype and every value, NaN included."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape
    assert got.dtype == want.dtype.newbyteorder("=")
    assert got.dtype.isnative
    np.testing.assert_array_equal(got, want)


def delivered(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What npyflow makes of values: native, dates and time spans as integers."""
    if array.dtype.kind in "Mm":
        # First: NumPy swaps dates without a unit wrongly.
        array = array.view(f"{array.dtype.byteorder}i8")
    return array.astype(array.dtype.newbyteorder("="))


def touch_later(path: Any, by_ns: int = 1_000_000_000) -> None:
    """Move a file's modification time, as any rewrite does."""
    stat = os.stat(path)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + by_ns))
