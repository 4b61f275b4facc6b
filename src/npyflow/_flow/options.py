"""Arguments of a flow's methods, checked and brought into one form."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from npyflow._core.errors import IndexRangeError, OptionError
from npyflow._core.options import Shuffle, integer
from npyflow._core.text import plural

Array = np.ndarray[Any, Any]


def first_step(start_step: Any, steps: int) -> int:
    """Return `start_step` as an int in ``[0, steps]``."""
    step = integer("start_step", start_step, 0)
    if step > steps:
        raise OptionError(f"start_step={step}: an epoch has {plural(steps, 'step')}")
    return step


def shard_of(shard: Any) -> tuple[int, int]:
    """Return ``(index, count)``; `Order` checks the bounds."""
    try:
        index, count = map(operator.index, shard)
    except (TypeError, ValueError):
        raise OptionError(f"shard={shard!r}: expected two integers, (index, count)") from None
    return index, count


def shuffle_of(shuffle: Any) -> Shuffle | None:
    """Return how to shuffle; None for not at all."""
    if isinstance(shuffle, Shuffle):
        return shuffle
    if not isinstance(shuffle, bool):
        raise OptionError(f"shuffle={shuffle!r}: expected True, False or npyflow.Shuffle(...)")
    return Shuffle() if shuffle else None


def example_indices(n: int, indices: Any) -> Array:
    """Return int64 indices in ``[0, n)`` from integers that may be negative, or from a mask.

    Raises
    ------
    IndexRangeError
        If one is out of range, or the mask has another length.
    OptionError
        If they are no integers along one axis.
    """
    array = np.asarray(indices)
    if array.dtype == bool:
        if array.shape != (n,):
            raise IndexRangeError(f"a mask of shape {array.shape} for {plural(n, 'example')}; expected ({n},)")
        return np.flatnonzero(array)
    if array.dtype == object and array.size and all(isinstance(index, int) for index in array.ravel().tolist()):
        raise IndexRangeError(f"an index of more than 64 bits is out of range for {plural(n, 'example')}")
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise OptionError(f"indices of dtype {array.dtype}, shape {array.shape}; expected integers along one axis")
    wrong = np.flatnonzero((array < -n) | (array >= n))
    if wrong.size:
        index = int(array[wrong[0]])
        raise IndexRangeError(f"index {index} is out of range for {plural(n, 'example')}", index=index)
    rows = array.astype(np.int64)
    return np.where(rows < 0, rows + n, rows)
