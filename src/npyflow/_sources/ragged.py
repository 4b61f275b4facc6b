"""Examples of different lengths that stand one after another in one array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.errors import NpyflowError, ShapeMismatchError
from npyflow._core.spec import ArraySpec
from npyflow._sources.base import allocate, plan_axes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npyflow._core.buffers import BufferPool
    from npyflow._sources.base import Axes, Place
    from npyflow._sources.rows import RowSource

Array = np.ndarray[Any, Any]


class RaggedSource:
    """Runs of rows: example ``i`` is rows ``[offsets[i], offsets[i + 1])``.

    Parameters
    ----------
    rows : RowSource
        The rows of all examples.
    offsets : int64 array (examples + 1,)
        Ascending, from 0 to ``len(rows)``.
    axes : Axes
        Order of an example's axes as delivered; the rows are axis 0 of it.
    pool : BufferPool
        Scratch memory.
    """

    def __init__(self, rows: RowSource, offsets: Array, axes: Axes, pool: BufferPool) -> None:
        self._rows = rows
        self._axes = axes
        self._offsets = offsets
        self._counts = np.diff(offsets)
        self._pool = pool
        self.access = rows.access
        counts = np.unique(self._counts)
        length = int(counts[0]) if len(counts) == 1 else None
        self._shape = (length, *rows.row_shape)
        own = len(rows.row_shape)
        self.specs = tuple(
            ArraySpec((*axes.of(self._shape), *spec.shape[own:]), spec.dtype, spec.unit) for spec in rows.specs
        )
        self.example_bytes = int(counts[-1]) * rows.example_bytes if len(counts) else 0

    def __len__(self) -> int:
        return len(self._counts)

    def shapes(self, indices: Array) -> Array:
        counts = self._counts[indices]
        stored = [counts, *(np.full_like(counts, size) for size in self._shape[1:])]
        return np.column_stack(self._axes.of(stored))

    def read_each(self, indices: Array, outs: Sequence[Sequence[Array]]) -> None:
        """All rows of the batch together, then each example to its place."""
        along = self._axes.order.index(0)
        counts = np.array([out.shape[along] for out in outs[0]], np.int64)
        ends = np.cumsum(counts)
        rows = np.arange(int(ends[-1])) + np.repeat(self._offsets[indices] - (ends - counts), counts)
        parts = allocate(self._rows.specs, len(rows), self._pool)
        try:
            self._rows.read_into(rows, parts)
        except NpyflowError as error:
            if error.index is not None:
                error.index = int(np.searchsorted(self._offsets, error.index, side="right")) - 1
            raise
        for part, each in zip(parts, outs, strict=True):
            for start, count, out in zip((ends - counts).tolist(), counts.tolist(), each, strict=True):
                example = self._axes.view(part[None, start : start + count])[0]
                out[...] = example[tuple(map(slice, out.shape))]

    def place(self, index: int) -> Place:
        return self._rows.place(min(int(self._offsets[index]), len(self._rows) - 1))

    def close(self) -> None:
        self._rows.close()


def offsets_of(counts: Any, offsets: Any, name: str) -> Array:
    """Return offsets from one of the two, checked by themselves.

    Raises
    ------
    ShapeMismatchError
        If they are no ascending integers along one axis.
    """
    argument, given = ("offsets", offsets) if counts is None else ("counts", counts)
    array = np.asarray(given)
    array = array.astype(np.int64) if not array.size and counts is not None else array
    where = f"{name}: Ragged({argument}=)"
    if array.ndim != 1 or array.dtype.kind not in "iu" or (counts is None and not array.size):
        raise ShapeMismatchError(
            f"{where} has dtype {array.dtype}, shape {array.shape}; expected integers along one axis"
        )
    found = array.astype(np.int64) if counts is None else np.concatenate([[0], np.cumsum(array, dtype=np.int64)])
    falls = np.flatnonzero(np.diff(found) < 0)
    if falls.size:
        raise ShapeMismatchError(f"{where}: example {int(falls[0])} would have {int(np.diff(found)[falls[0]])} rows")
    if found[0] != 0:
        raise ShapeMismatchError(f"{where} begins with {int(found[0])}; expected 0")
    return found


def ragged_rows(rows: RowSource, offsets: Array, transpose: Any, pool: BufferPool, name: str) -> RaggedSource:
    """Return the source, if the offsets end where the rows do.

    Raises
    ------
    ShapeMismatchError
        If they do not.
    """
    if int(offsets[-1]) != len(rows):
        raise ShapeMismatchError(
            f"{name}: by its counts or offsets Ragged has {len(offsets) - 1:,} examples of {int(offsets[-1]):,} rows "
            f"in all, but the values have {len(rows):,}; they must belong together"
        )
    return RaggedSource(rows, offsets, plan_axes(transpose, len(rows.row_shape) + 1, name), pool)
