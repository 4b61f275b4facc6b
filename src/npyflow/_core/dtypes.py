"""Which dtypes npyflow delivers, and what the others are."""

from __future__ import annotations

from typing import Any

import numpy as np

from npyflow._core.errors import MissingDependencyError, OptionError, UnsupportedDtypeError

DType = np.dtype[np.generic]

# What TensorFlow has a native type for. NumPy kind and item size.
_NUMBERS = {
    ("b", 1),
    *(("i", size) for size in (1, 2, 4, 8)),
    *(("u", size) for size in (1, 2, 4, 8)),
    *(("f", size) for size in (2, 4, 8)),
    *(("c", size) for size in (8, 16)),
}

# Types of the package ml_dtypes that TensorFlow knows, and the significant bits of each.
SMALL_FLOATS = {
    "bfloat16": 8,
    "float8_e4m3b11fnuz": 4,
    "float8_e4m3fn": 4,
    "float8_e4m3fnuz": 4,
    "float8_e5m2": 3,
    "float8_e5m2fnuz": 3,
}

# What to do about the others, by NumPy kind.
_ADVICE = {
    "O": "object arrays are pickles, which npyflow never loads; if the file is your own and you trust it, run apart: "
    "a = np.load(path, allow_pickle=True), then np.save each a[i], or np.stack(a) if all have one shape, "
    "or np.concatenate(a) with their lengths",
    "f": "pass dtype='float64' to cast",
    "c": "pass dtype='complex128' to cast",
}
_VOID_ADVICE = {
    1: "if these are float8 numbers, name which: dtype='float8_e4m3fn' or 'float8_e5m2'",
    2: "if these are bfloat16 numbers, pass dtype='bfloat16'",
}


def native(dtype: DType) -> DType:
    """Return `dtype` in this machine's byte order."""
    return dtype.newbyteorder("=")


def is_small_float(dtype: DType) -> bool:
    """Say whether `dtype` is a bfloat16 or float8 of ml_dtypes, which NumPy takes for void or for nothing it knows."""
    return dtype.name in SMALL_FLOATS


def is_bytes(dtype: DType) -> bool:
    """Say whether `dtype` is void without fields: bytes that only their owner can name."""
    return dtype.kind == "V" and dtype.fields is None and not is_small_float(dtype)


def is_text(dtype: DType) -> bool:
    """Say whether the items are strings or bytes."""
    return dtype.kind in "US"


def carrier(dtype: DType) -> DType:
    """Return the integers that datetimes and timedeltas are, in the same byte order; other dtypes as they are."""
    return np.dtype(f"{dtype.byteorder}i8") if dtype.kind in "Mm" else dtype


def unit_of(dtype: DType) -> str | None:
    """Return what the integers of a datetime or timedelta count, as the name of a NumPy dtype; None for others."""
    return native(dtype).name if dtype.kind in "Mm" else None


def significant_bits(dtype: DType) -> int:
    """Bits of an integer that the float `dtype` can hold exactly."""
    return SMALL_FLOATS.get(dtype.name) or int(np.finfo(dtype).nmant) + 1  # type: ignore[type-var]


def is_delivered(dtype: DType) -> bool:
    """Say whether `dtype` has a TensorFlow type, byte order aside."""
    if dtype.fields is not None or dtype.subdtype is not None:
        return False
    return (dtype.kind, dtype.itemsize) in _NUMBERS or is_text(dtype) or is_small_float(dtype)


def check_no_objects(dtype: DType, where: str, path: str | None = None, member: str | None = None) -> None:
    """Refuse pickles, which stand at `path`.

    Raises
    ------
    UnsupportedDtypeError
        With what the owner of the data can do.
    """
    if dtype.kind == "T":
        raise UnsupportedDtypeError(
            f"{where}: dtype {dtype} has strings of any length, for which there is no file; use array.astype('U')"
        )
    if dtype.hasobject:
        what = "dtype object" if dtype.fields is None else f"dtype {dtype}, with objects in it,"
        raise UnsupportedDtypeError(
            f"{where}: {what} has no TensorFlow type; {_ADVICE['O']}", path=path, member=member, kind="object"
        )


def dtype_text(dtype: DType) -> str:
    """Return a dtype as JSON keeps it: `as_dtype` understands it."""
    return dtype.name if is_small_float(dtype) else dtype.str


def show_dtype(dtype: DType) -> str:
    """Return a dtype as people write it: ``float32``, ``U8``, ``V2``."""
    if dtype.names is not None or dtype.kind not in "USV":
        return str(native(dtype))
    return dtype.name if is_small_float(dtype) else dtype.str[1:]


def unsupported(dtype: DType, where: str) -> UnsupportedDtypeError:
    """The error for a dtype that has no TensorFlow type."""
    if is_bytes(dtype):
        advice = _VOID_ADVICE.get(dtype.itemsize, "save the array with a dtype that says what the bytes mean")
        return UnsupportedDtypeError(
            f"{where}: dtype {show_dtype(dtype)} is bytes without a meaning; {advice}", kind="dtype"
        )
    return UnsupportedDtypeError(
        f"{where}: dtype {show_dtype(dtype)} has no TensorFlow type; expected bool, an "
        f"integer, a float or a complex number of up to 64 bits a part, text or datetime; "
        f"{_ADVICE.get(dtype.kind, 'save the array with such a dtype')}",
        kind="dtype",
    )


def as_dtype(value: Any) -> DType | None:
    """Return the dtype that a user names: anything NumPy or TensorFlow understands, or a type of ml_dtypes.

    Raises
    ------
    OptionError
        If it is none.
    MissingDependencyError
        For ``"bfloat16"`` and the float8 family where ml_dtypes is not installed.
    """
    if value is None:
        return None
    name = value if isinstance(value, str) else getattr(value, "name", "")
    if name in SMALL_FLOATS:
        try:
            import ml_dtypes
        except ModuleNotFoundError:
            raise MissingDependencyError(
                f"dtype={name!r} needs the package ml_dtypes, which TensorFlow brings: pip install 'npyflow[ml-dtypes]'"
            ) from None
        small: DType = np.dtype(getattr(ml_dtypes, name))
        return small
    try:
        dtype: DType = np.dtype(getattr(value, "as_numpy_dtype", value))
    except TypeError:
        raise OptionError(f"dtype={value!r}: expected a dtype, such as 'float32'") from None
    return dtype
