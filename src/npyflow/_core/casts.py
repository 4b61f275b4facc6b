"""Casts that say when a value does not fit.

What counts as fitting: an integer or bool must come through unchanged; a float may be rounded to a shorter
float, but a finite value may not become infinite; a float cast to an integer must be that integer. NumPy's own
``astype`` wraps and overflows without a word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.dtypes import is_small_float, show_dtype, significant_bits
from npyflow._core.errors import OptionError, UnsupportedDtypeError

if TYPE_CHECKING:
    from npyflow._core.dtypes import DType

Array = np.ndarray[Any, Any]


def check_castable(source: DType, target: DType, where: str) -> None:
    """Refuse a cast that would drop a part of every value.

    Raises
    ------
    UnsupportedDtypeError
        If `source` is complex and `target` is not.
    """
    if source.kind == "c" and target.kind != "c":
        raise UnsupportedDtypeError(
            f"{where}: {source.name} to {target.name} would drop the imaginary part; "
            f"keep dtype complex and take tf.math.real or tf.abs of it in a map"
        )


def cast_into(source: Array, out: Array) -> int | None:
    """Copy `source` into `out`, which has its shape, in the dtype of `out`.

    Parameters
    ----------
    source : array
        Any supported dtype, either byte order, any strides.
    out : array
        Native byte order.

    Returns
    -------
    int or None
        Flat C-order position of the first value that does not fit, or None if all do.
    """
    if _is_exact(source.dtype, out.dtype):
        np.copyto(out, source, casting="unsafe")
        return None
    if is_small_float(source.dtype):
        # Exact, and NumPy knows how to compare it.
        source = source.astype(np.float32)
    if source.dtype.kind in "fc" and is_small_float(out.dtype):
        return _shorten_into(source, out)
    if source.dtype.kind in "fc" and out.dtype.kind in "fc":
        return _round_into(source, out)
    if source.dtype.kind in "iu" and out.dtype.kind in "iu":
        return _narrow_into(source, out)
    with np.errstate(invalid="ignore", over="ignore"):
        np.copyto(out, source, casting="unsafe")
        real = out.real
        # Back in the type of the source, only what came through unchanged is equal ...
        fits = np.asarray(real.astype(source.dtype) == source)
        if out.dtype.kind in "fc" or is_small_float(out.dtype):
            fits &= np.isfinite(real) & _not_rounded_to_limit(source, out.dtype)
        elif out.dtype.kind in "iu":
            fits &= np.isfinite(source) & (source < float(np.iinfo(out.dtype).max + 1))
    return _first_false(fits)


def fitting(value: Any, dtype: DType, where: str) -> Array:
    """Return `value` as a 0-d array of `dtype`.

    Raises
    ------
    OptionError
        If it is no single value, or does not fit exactly.
    """
    given = np.asarray(value)
    out = np.zeros((), dtype)
    text = dtype.kind in "US"
    truth = given.dtype.kind == "b" and dtype.kind != "b"
    fits = not truth and given.ndim == 0 and (given.dtype.kind == dtype.kind if text else given.dtype.kind in "biufc")
    if fits and text:
        out = given.astype(dtype)
        fits = bool(out == given)
    elif fits:
        fits = not (given.dtype.kind == "c" and dtype.kind != "c")
        # A float may be rounded: 0.1 is no float32.
        fits = fits and (cast_into(given, out) is None) and (dtype.kind not in "biu" or bool(out == given))
    if not fits:
        raise OptionError(f"{where}: {value!r} is no value of {show_dtype(dtype)}; expected one that fits exactly")
    return out


def _is_exact(source: DType, target: DType) -> bool:
    """Say whether every value of `source` has its equal in `target`."""
    if is_small_float(source) and is_small_float(target):
        # Some casts between float8 types that ml_dtypes calls safe are not.
        return source == target
    if source.kind in "iu" and (target.kind in "fc" or is_small_float(target)):
        value_bits = 8 * source.itemsize - (source.kind == "i")
        return value_bits <= significant_bits(target) and bool(np.can_cast(source, target, "safe"))
    return bool(np.can_cast(source, target, "safe"))


def _not_rounded_to_limit(source: Array, target: DType) -> Array:
    """... but a machine may saturate: 2**63 - 1 becomes the float 2**63, which comes back as 2**63 - 1."""
    largest = np.iinfo(source.dtype).max
    return np.asarray((source != largest) | (largest < 2 ** significant_bits(target)))


def _round_into(source: Array, out: Array) -> int | None:
    try:
        with np.errstate(over="raise"):
            np.copyto(out, source, casting="unsafe")
    except FloatingPointError:
        with np.errstate(over="ignore", invalid="ignore"):
            np.copyto(out, source, casting="unsafe")
        fits = np.isfinite(out.real) | ~np.isfinite(source.real)
        if source.dtype.kind == "c":
            fits &= np.isfinite(out.imag) | ~np.isfinite(source.imag)
        return _first_false(fits)
    return None


def _shorten_into(source: Array, out: Array) -> int | None:
    """Round to a float of ml_dtypes, whose casts raise no flags; some of these types know no infinity."""
    with np.errstate(over="ignore", invalid="ignore"):
        np.copyto(out, source, casting="unsafe")
    fits = np.isfinite(out) | np.isnan(source) | (np.isinf(source) & np.isinf(out))
    return _first_false(fits)


def _narrow_into(source: Array, out: Array) -> int | None:
    have, want = np.iinfo(source.dtype), np.iinfo(out.dtype)
    low, high = max(have.min, want.min), min(have.max, want.max)
    if source.size and (source.min() < low or source.max() > high):
        return _first_false((source >= low) & (source <= high))
    np.copyto(out, source, casting="unsafe")
    return None


def _first_false(fits: Array) -> int | None:
    flat = np.asarray(fits).ravel()
    at = int(flat.argmin()) if flat.size else 0
    return at if flat.size and not flat[at] else None
