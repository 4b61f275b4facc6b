"""Every index along an axis of an array, or of several that follow each other, is an example."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.errors import OptionError, ShapeMismatchError
from npyflow._core.spec import ArraySpec, DType, native
from npyflow._core.text import examples, show_path
from npyflow._sources.base import Conversion, Place, cast_error, conversion
from npyflow._sources.handles import Handles
from npyflow._sources.shards import FileShard, MemoryShard, Shard, load_into_ram

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npyflow._core.buffers import BufferPool
    from npyflow._sources.scan import FileTable

Array = np.ndarray[Any, Any]

ACCESS = ("auto", "ram", "mmap", "read")

# Rows of this size and more are read by position: the system call costs less than the page faults of a map.
READ_FROM_BYTES = 32 * 1024


class RowSource:
    """Rows of one array, or of shards that follow each other.

    Parameters
    ----------
    shards : sequence of Shard
        At least one; row shapes agree, dtypes agree up to byte order.
    row_shape : tuple of int
        Shape of one row.
    dtype : numpy.dtype, optional
        To cast to.
    pool : BufferPool
        Scratch memory.
    access : str
        As shown to the user.
    name : str
        How messages call the array.
    """

    def __init__(
        self,
        shards: Sequence[Shard],
        row_shape: tuple[int, ...],
        *,
        dtype: DType | None,
        pool: BufferPool,
        access: str,
        name: str,
    ) -> None:
        self._shards = tuple(shards)
        self._conversions = [conversion(shard.stored, dtype, f"{name}: {shard.place(0).file}") for shard in shards]
        self._ends = np.cumsum([len(shard) for shard in shards])
        self._pool = pool
        self.spec = ArraySpec(row_shape, self._conversions[0].target)
        self.access = access

    def __len__(self) -> int:
        return int(self._ends[-1])

    @property
    def pieces(self) -> int:
        """In how many pieces a row lies on disk: each is a read, or a miss, of its own."""
        return max(shard.pieces for shard in self._shards)

    def read_into(self, indices: Array, out: Array) -> None:
        if len(self._shards) == 1:
            self._read_shard(0, indices, out, indices)
            return
        which = np.searchsorted(self._ends, indices, side="right")
        for number in np.unique(which).tolist():
            at = np.flatnonzero(which == number)
            rows = indices[at] - (self._ends[number] - len(self._shards[number]))
            if len(at) == len(indices):
                self._read_shard(number, rows, out, indices)
            else:
                part = self._pool.empty((len(at), *self.spec.shape), self.spec.dtype)
                self._read_shard(number, rows, part, indices[at])
                out[at] = part

    def place(self, index: int) -> Place:
        number = int(np.searchsorted(self._ends, index, side="right"))
        start = int(self._ends[number]) - len(self._shards[number])
        return self._shards[number].place(index - start)

    def close(self) -> None:
        for shard in self._shards:
            shard.close()

    def _read_shard(self, number: int, rows: Array, out: Array, indices: Array) -> None:
        plan: Conversion = self._conversions[number]
        landed = plan.landing(out, self._pool)
        self._shards[number].take(rows, landed)
        bad = plan.settle(landed, out)
        if bad is not None:
            index = int(indices[bad])
            raise cast_error(landed[bad], out.dtype, self.place(index), index)


def rows_of_arrays(arrays: Sequence[Any], *, axis: int, dtype: DType | None, pool: BufferPool, name: str) -> RowSource:
    """Rows of arrays in RAM; they are not copied.

    Raises
    ------
    ShapeMismatchError
        If an array has no such axis or the shards disagree.
    OptionError
        If one is masked.
    """
    for array in arrays:
        if isinstance(array, np.ma.MaskedArray):
            raise OptionError(f"{name}: a masked array would lose its mask; pass array.filled(value)")
    plain = [np.asarray(array) for array in arrays]
    facts = [(array.shape, array.dtype, f"array {at}") for at, array in enumerate(plain)]
    axis, row_shape = _check_agree(facts, axis, dtype, name)
    shards = [MemoryShard(array, axis) for array in plain]
    return RowSource(shards, row_shape, dtype=dtype, pool=pool, access="ram", name=name)


def rows_of_files(
    table: FileTable, *, axis: int, access: str, dtype: DType | None, pool: BufferPool, name: str
) -> RowSource:
    """Rows of ``.npy`` files.

    Raises
    ------
    ShapeMismatchError
        If a file has no such axis or the files disagree.
    OptionError
        If ``access="ram"`` needs more memory than is free.
    """
    facts = [(table.header(at).shape, table.header(at).dtype, show_path(table.paths[at])) for at in range(len(table))]
    axis, row_shape = _check_agree(facts, axis, dtype, name)
    if access == "auto":
        access = auto_access(ArraySpec(row_shape, table.header(0).dtype).nbytes)
    handles = Handles(table, mapped=access == "mmap")
    shards: list[Shard] = [
        load_into_ram(handles, at, axis) if access == "ram" else FileShard(handles, at, axis)
        for at in range(len(table))
    ]
    if access == "ram":
        handles.close()
    return RowSource(shards, row_shape, dtype=dtype, pool=pool, access=access, name=name)


def auto_access(row_bytes: int) -> str:
    """Choose between a map and positional reads; never RAM, since the page cache is that already."""
    return "read" if row_bytes >= READ_FROM_BYTES else "mmap"


def _check_agree(
    facts: list[tuple[tuple[int, ...], DType, str]], axis: int, dtype: DType | None, name: str
) -> tuple[int, tuple[int, ...]]:
    """Shards must agree in row shape and, unless a cast unifies them, in dtype; return the axis and the row shape."""
    first_shape, first_dtype, first = facts[0]
    for shape, _, where in facts:
        if not -len(shape) <= axis < len(shape) or len(shape) != len(first_shape):
            raise ShapeMismatchError(
                f"{name}: {where} has shape {shape}; expected examples along axis {axis}"
                + ("" if len(shape) == len(first_shape) else f" and {len(first_shape)} axes as in {first}")
            )
    axis %= len(first_shape)
    row_shapes = [shape[:axis] + shape[axis + 1 :] for shape, _, _ in facts]
    others = [
        f"{where} has rows {row_shape} of {stored.name}"
        for (_, stored, where), row_shape in zip(facts, row_shapes, strict=True)
        if row_shape != row_shapes[0] or (dtype is None and native(stored) != native(first_dtype))
    ]
    if others:
        raise ShapeMismatchError(
            f"{name}: shards of one array must agree: {first} has rows {row_shapes[0]} of {first_dtype.name}, "
            f"but {examples(others)}; pass dtype= to unify dtypes, or open them apart"
        )
    return axis, row_shapes[0]
