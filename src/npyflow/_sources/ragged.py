"""Examples of different lengths that stand one after another in one array."""

from __future__ import annotations

import math
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

# Examples of this size are worth a read of their own.
_RUN_BYTES = 256 << 10


class RaggedSource:
    """Runs of rows: example ``i`` is rows ``[offsets[i], offsets[i + 1])``, or these in a shape of its own.

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
    shapes : int64 array (examples, axes), optional
        If rows are scalars, and an example is its run of them in this shape.
    """

    def __init__(
        self, rows: RowSource, offsets: Array, axes: Axes, pool: BufferPool, shapes: Array | None = None
    ) -> None:
        self._rows = rows
        self._shapes = shapes
        self._axes = axes
        self._offsets = offsets
        self._counts = np.diff(offsets)
        self._pool = pool
        self.access = rows.access
        counts = np.unique(self._counts)
        length = int(counts[0]) if len(counts) == 1 else None
        self._shape = (length, *rows.row_shape) if shapes is None else _common_shape(shapes)
        own = len(rows.row_shape)
        self.specs = tuple(
            ArraySpec((*axes.of(self._shape), *spec.shape[own:]), spec.dtype, spec.unit) for spec in rows.specs
        )
        self.example_bytes = int(counts[-1]) * rows.example_bytes if len(counts) else 0

    def __len__(self) -> int:
        return len(self._counts)

    def shapes(self, indices: Array) -> Array:
        if self._shapes is not None:
            return self._shapes[indices][:, list(self._axes.order)]
        counts = self._counts[indices]
        stored = [counts, *(np.full_like(counts, size) for size in self._shape[1:])]
        return np.column_stack(self._axes.of(stored))

    def read_each(self, indices: Array, outs: Sequence[Sequence[Array]]) -> None:
        counts = self._counts[indices]
        if self._shapes is None:
            # No more than is wanted of each.
            along = self._axes.order.index(0)
            counts = np.array([out.shape[along] for out in outs[0]], np.int64)
        starts = self._offsets[indices]
        try:
            if int(counts.sum()) * self._rows.example_bytes < len(counts) * _RUN_BYTES:
                self._read_together(indices, starts, counts, outs)
            else:
                self._read_one_by_one(indices, starts, counts, outs)
        except NpyflowError as error:
            if error.index is not None:
                error.index = int(np.searchsorted(self._offsets, error.index, side="right")) - 1
            raise

    def _read_together(self, indices: Array, starts: Array, counts: Array, outs: Sequence[Sequence[Array]]) -> None:
        """All rows of a batch of short examples in one go, and then each example to its place."""
        ends = np.cumsum(counts)
        rows = np.arange(int(ends[-1])) + np.repeat(starts - (ends - counts), counts)
        parts = allocate(self._rows.specs, len(rows), self._pool)
        self._rows.read_into(rows, parts)
        for part, each in zip(parts, outs, strict=True):
            for at, (end, count) in enumerate(zip(ends.tolist(), counts.tolist(), strict=True)):
                self._settle(int(indices[at]), part[end - count : end], each[at])

    def _read_one_by_one(self, indices: Array, starts: Array, counts: Array, outs: Sequence[Sequence[Array]]) -> None:
        """Each long example by a read of its own, straight to its place if it has the layout of the file."""
        for at, (start, count) in enumerate(zip(starts.tolist(), counts.tolist(), strict=True)):
            if not count:
                continue
            mine = [each[at] for each in outs]
            direct = not self._axes.moved and all(
                out.flags.c_contiguous and out.size == math.prod((count, *spec.fixed_shape))
                for out, spec in zip(mine, self._rows.specs, strict=True)
            )
            if direct:
                whole = zip(mine, self._rows.specs, strict=True)
                parts = [out.reshape(count, *spec.fixed_shape) for out, spec in whole]
            else:
                parts = allocate(self._rows.specs, count, self._pool)
            self._rows.read_run(start, start + count, parts)
            if not direct:
                for part, out in zip(parts, mine, strict=True):
                    self._settle(int(indices[at]), part, out)

    def _settle(self, index: int, run: Array, out: Array) -> None:
        """Bring the rows of an example to its place."""
        example = run if self._shapes is None else run.reshape(self._shapes[index])
        out[...] = self._axes.view(example[None])[0][tuple(map(slice, out.shape))]

    def place(self, index: int) -> Place:
        return self._rows.place(min(int(self._offsets[index]), len(self._rows) - 1))

    def close(self) -> None:
        self._rows.close()


def _common_shape(shapes: Array) -> tuple[int | None, ...]:
    """The sizes that all examples have; None where they differ."""
    return tuple(int(sizes[0]) if len(set(sizes)) == 1 else None for sizes in shapes.T.tolist())


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


def shaped_rows(rows: RowSource, shapes: Array, pool: BufferPool, name: str) -> RaggedSource:
    """Return the source for examples whose elements stand one after another, each of its own shape.

    Raises
    ------
    ShapeMismatchError
        If they are more or fewer than the shapes say.
    """
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(shapes.prod(axis=1))])
    if int(offsets[-1]) != len(rows):
        raise ShapeMismatchError(
            f"{name}: by its shapes {len(shapes):,} examples have {int(offsets[-1]):,} elements in all, but there are "
            f"{len(rows):,}; they must belong together"
        )
    return RaggedSource(rows, offsets, plan_axes(None, shapes.shape[1], name), pool, shapes)


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
