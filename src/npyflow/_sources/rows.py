"""Every index along axis 0 of an array, or of several that follow each other, is an example."""

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
    table : FileTable, optional
        The files behind the shards.
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
        table: FileTable | None = None,
    ) -> None:
        self._shards = tuple(shards)
        self._conversions = [conversion(shard.stored, dtype, name) for shard in shards]
        self._ends = np.cumsum([len(shard) for shard in shards])
        self._pool = pool
        self.spec = ArraySpec(row_shape, self._conversions[0].target)
        self.access = access
        self.table = table

    def __len__(self) -> int:
        return int(self._ends[-1])

    @property
    def strided(self) -> bool:
        """Rows are strided on disk (Fortran order), so each row costs as many reads as it has values."""
        return self.table is not None and any(header.strided for header in self.table.headers)

    @property
    def arrays(self) -> list[Array] | None:
        """The arrays in RAM that the user gave, or None if the rows come from files."""
        if self.table is not None:
            return None
        return [shard.array for shard in self._shards if isinstance(shard, MemoryShard)]

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


def rows_of_arrays(arrays: Sequence[Any], dtype: DType | None, pool: BufferPool, name: str) -> RowSource:
    """Rows of arrays in RAM; they are not copied.

    Raises
    ------
    ShapeMismatchError
        If an array has no axis 0 or the shards disagree.
    OptionError
        If one is masked.
    """
    for array in arrays:
        if isinstance(array, np.ma.MaskedArray):
            raise OptionError(f"{name}: a masked array would lose its mask; pass array.filled(value)")
    plain = [np.asarray(array) for array in arrays]
    _check_agree([(array.shape, array.dtype, f"array {at}") for at, array in enumerate(plain)], dtype, name)
    shards = [MemoryShard(array) for array in plain]
    return RowSource(shards, plain[0].shape[1:], dtype=dtype, pool=pool, access="ram", name=name)


def rows_of_files(table: FileTable, access: str, dtype: DType | None, pool: BufferPool, name: str) -> RowSource:
    """Rows of ``.npy`` files.

    Raises
    ------
    ShapeMismatchError
        If a file holds a scalar or the files disagree.
    OptionError
        If ``access="ram"`` needs more memory than is free.
    """
    facts = [(table.header(at).shape, table.header(at).dtype, show_path(table.paths[at])) for at in range(len(table))]
    _check_agree(facts, dtype, name)
    row_shape = table.header(0).shape[1:]
    if access == "auto":
        access = auto_access(ArraySpec(row_shape, table.header(0).dtype).nbytes)
    handles = Handles(table, mapped=access == "mmap")
    shards: list[Shard] = [
        load_into_ram(handles, at) if access == "ram" else FileShard(handles, at) for at in range(len(table))
    ]
    if access == "ram":
        handles.close()
    return RowSource(shards, row_shape, dtype=dtype, pool=pool, access=access, name=name, table=table)


def auto_access(row_bytes: int) -> str:
    """Choose between a map and positional reads; never RAM, since the page cache is that already."""
    return "read" if row_bytes >= READ_FROM_BYTES else "mmap"


def _check_agree(facts: list[tuple[tuple[int, ...], DType, str]], dtype: DType | None, name: str) -> None:
    """Shards must agree in row shape and, unless a cast unifies them, in dtype."""
    for shape, _, where in facts:
        if not shape:
            raise ShapeMismatchError(
                f"{name}: {where} holds a scalar, shape (); npyflow.rows needs an axis of examples"
            )
    first_shape, first_dtype, first = facts[0]
    others = [
        f"{where} has rows {shape[1:]} of {stored.name}"
        for shape, stored, where in facts
        if shape[1:] != first_shape[1:] or (dtype is None and native(stored) != native(first_dtype))
    ]
    if others:
        raise ShapeMismatchError(
            f"{name}: shards of one array must agree: {first} has rows {first_shape[1:]} of {first_dtype.name}, "
            f"but {examples(others)}; pass dtype= to unify dtypes, or open them apart"
        )
