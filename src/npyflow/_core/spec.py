"""What an example looks like, and the small frozen options."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from npyflow._core.errors import OptionError, UnsupportedDtypeError

DType = np.dtype[np.generic]

# What TensorFlow has a native type for. NumPy kind and item size.
_NATIVE = {
    ("b", 1),
    *(("i", size) for size in (1, 2, 4, 8)),
    *(("u", size) for size in (1, 2, 4, 8)),
    *(("f", size) for size in (2, 4, 8)),
    *(("c", size) for size in (8, 16)),
}

# What to do about the others, by NumPy kind.
_ADVICE = {
    "O": "object arrays are pickles, which npyflow never loads; save plain arrays with np.save",
    "U": "text is not supported; store class numbers, or pass the names as labels=",
    "S": "bytes are not supported; store class numbers, or pass the names as labels=",
    "M": "convert with array.astype('datetime64[s]').astype('int64') and save again",
    "m": "convert with array.astype('timedelta64[s]').astype('int64') and save again",
    "V": "save each field as an array of its own",
    "f": "convert with array.astype('float64') and save again",
    "c": "convert with array.astype('complex128') and save again",
}


def native(dtype: DType) -> DType:
    """Return `dtype` in this machine's byte order."""
    return dtype.newbyteorder("=")


def check_supported(dtype: DType, where: str) -> None:
    """Refuse a dtype that has no native TensorFlow type.

    Raises
    ------
    UnsupportedDtypeError
        Names `where`, the dtype and the way out.
    """
    if dtype.fields is None and (dtype.kind, dtype.itemsize) in _NATIVE:
        return
    kind = "V" if dtype.fields is not None else dtype.kind
    advice = _ADVICE.get(kind, "save the array with a plain numeric dtype")
    raise UnsupportedDtypeError(
        f"{where}: dtype {dtype.str if dtype.fields is None else dtype} has no TensorFlow type; "
        f"expected bool, int8 to int64, uint8 to uint64, float16 to float64, complex64 or complex128; "
        f"{advice}"
    )


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """Shape and dtype of one component of one example.

    Parameters
    ----------
    shape : tuple of int
        Without the batch axis; ``()`` for a scalar.
    dtype : numpy.dtype
        As delivered: after a cast, in native byte order.
    """

    shape: tuple[int, ...]
    dtype: DType

    @property
    def nbytes(self) -> int:
        """Bytes of one example."""
        return math.prod(self.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        shape = ", ".join(map(str, self.shape)) + ("," if len(self.shape) == 1 else "")
        return f"{self.dtype.name} ({shape})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffle:
    """How to shuffle. ``shuffle=True`` is ``Shuffle()``: one permutation of all examples an epoch.

    Parameters
    ----------
    block : int, optional
        Permute runs of `block` neighbouring examples instead of single ones, then shuffle inside windows of
        `window` runs. For storage that hates random reads; less random than a global shuffle.
    window : int, default 16
        Runs that are mixed together. ``block * window`` indices are held in memory.

    Raises
    ------
    OptionError
        If `block` or `window` is below 1.
    """

    block: int | None = None
    window: int = 16

    def __post_init__(self) -> None:
        for name, value in (("block", self.block), ("window", self.window)):
            if value is not None and (not isinstance(value, int | np.integer) or value < 1):
                raise OptionError(f"Shuffle({name}={value!r}): expected an integer of at least 1")
