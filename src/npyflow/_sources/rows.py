"""Every index along an axis of an array, or of several that follow each other, is an example."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.errors import OptionError, ShapeMismatchError
from npyflow._core.text import examples
from npyflow._sources.base import Axes, Place, plan_axes, read_groups
from npyflow._sources.conversion import Delivery, cast_error, describe_items, plan_conversions, unify_advice
from npyflow._sources.handles import Handles
from npyflow._sources.payloads import Payloads
from npyflow._sources.shards import FileShard, LoadedShard, MemoryShard, Shard, check_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from npyflow._core.buffers import BufferPool
    from npyflow._core.dtypes import DType
    from npyflow._sources.table import FileTable

Array = np.ndarray[Any, Any]

# Rows of several shards are gathered shard by shard and then put in order; from this size on each goes to its place at
# once, as a second copy would cost more than a loop.
_LARGE_BYTES = 32 << 10

ACCESS = ("auto", "ram", "mmap", "read")

# Rows of this size and more are read by position: the system call costs less than the page faults of a map.
READ_FROM_BYTES = 32 * 1024


class RowSource:
    """Rows of one array, or of shards that follow each other.

    Parameters
    ----------
    shards : sequence of Shard
        At least one; row shapes agree, dtypes agree up to byte order and width of text, or are cast.
    row_shape : tuple of int
        Shape of one row as stored.
    axes : Axes
        Order of a row's axes as delivered.
    delivery : Delivery
        What is wanted of them.
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
        axes: Axes,
        delivery: Delivery,
        pool: BufferPool,
        access: str,
        name: str,
    ) -> None:
        self._shards = tuple(shards)
        self._conversions = plan_conversions(
            [(shard.stored, f"{name}: {shard.place(0).file}") for shard in shards], delivery
        )
        self._ends = np.cumsum([len(shard) for shard in shards])
        self._shape = row_shape
        self._axes = axes
        self._pool = pool
        self.specs = tuple(leaf.spec(axes.of(row_shape)) for leaf in self._conversions[0].leaves)
        self.example_bytes = sum(spec.nbytes for spec in self.specs)
        self.access = access
        one_dtype = len({shard.stored for shard in shards}) == 1
        self._large = one_dtype and not axes.moved and self.example_bytes >= _LARGE_BYTES

    def __len__(self) -> int:
        return int(self._ends[-1])

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of one row as delivered, without a field's own axes."""
        return self._axes.of(self._shape)

    @property
    def starts(self) -> Array:
        """The first row of each shard, and the end of the last: int64 ``(shards + 1,)``."""
        return np.concatenate([[0], self._ends])

    @property
    def pieces(self) -> int:
        """In how many pieces a row lies on disk: each is a read, or a miss, of its own."""
        return max(shard.pieces for shard in self._shards)

    def read_into(self, indices: Array, outs: Sequence[Array]) -> None:
        if len(self._shards) == 1:
            self._read_shard(0, indices, outs)
        elif self._large:
            self._read_scattered(indices, outs)
        else:
            read_groups(
                np.searchsorted(self._ends, indices, side="right"),
                outs,
                self.specs,
                self._pool,
                lambda number, at, parts: self._read_shard(number, indices[at], parts),
            )

    def read_run(self, start: int, stop: int, outs: Sequence[Array]) -> None:
        """Fill `outs` with the rows ``[start, stop)``, at least one, as `read_into` does, without a list of them."""
        number = int(np.searchsorted(self._ends, start, side="right"))
        if stop > self._ends[number]:
            self.read_into(np.arange(start, stop), outs)
            return
        first = start - self._start(number)
        self._land(number, stop - start, outs, lambda shard, out: shard.take_run(first, out), lambda at: start + at)

    def place(self, index: int) -> Place:
        number = int(np.searchsorted(self._ends, index, side="right"))
        return self._shards[number].place(index - self._start(number))

    def close(self) -> None:
        for shard in self._shards:
            shard.close()

    def _start(self, number: int) -> int:
        """Index of the first row of a shard."""
        return int(self._ends[number]) - len(self._shards[number])

    def _read_shard(self, number: int, indices: Array, outs: Sequence[Array]) -> None:
        rows = indices - self._start(number) if number else indices
        self._land(
            number, len(rows), outs, lambda shard, out: shard.take(rows, out), lambda example: int(indices[example])
        )

    def _read_scattered(self, indices: Array, outs: Sequence[Array]) -> None:
        def take(_: Shard, out: Array) -> None:
            numbers = np.searchsorted(self._ends, indices, side="right")
            for number in np.unique(numbers).tolist():
                at = np.flatnonzero(numbers == number)
                self._shards[number].scatter(indices[at] - self._start(number), out, at)

        self._land(0, len(indices), outs, take, lambda example: int(indices[example]))

    def _land(
        self,
        number: int,
        count: int,
        outs: Sequence[Array],
        take: Callable[[Shard, Array], None],
        index_of: Callable[[int], int],
    ) -> None:
        """Let `take` bring raw rows of a shard, and make of them what is delivered."""
        plan = self._conversions[number]
        shape = (count, *self._shape)
        landed = self._pool.empty(shape, plan.raw) if self._axes.moved else plan.landing(shape, outs, self._pool)
        if plan.stored.itemsize:
            take(self._shards[number], landed)
        landed = self._axes.view(landed)
        bad = plan.settle(landed, outs)
        if bad is not None:
            leaf, example = bad
            index = index_of(example)
            raise cast_error(landed[example : example + 1], plan.leaves[leaf], self.place(index), index)


def rows_of_arrays(
    arrays: Sequence[Any], *, axis: int, transpose: Any, delivery: Delivery, pool: BufferPool, name: str
) -> RowSource:
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
    axis, row_shape = _check_agree(facts, axis, delivery, name)
    shards = [MemoryShard(array, axis) for array in plain]
    axes = plan_axes(transpose, len(row_shape), name)
    return RowSource(shards, row_shape, axes=axes, delivery=delivery, pool=pool, access="ram", name=name)


def rows_of_files(
    table: FileTable, *, axis: int, transpose: Any, access: str, delivery: Delivery, pool: BufferPool, name: str
) -> RowSource:
    """Rows of arrays on disk.

    Raises
    ------
    ShapeMismatchError
        If an array has no such axis or the shards disagree.
    OptionError
        If arrays that must be loaded, for ``access="ram"`` or because they are compressed, need more memory than is
        free, or compressed ones are asked for in another way.
    """
    facts = [(table.header(at).shape, table.header(at).dtype, table.show(at)) for at in range(len(table))]
    axis, row_shape = _check_agree(facts, axis, delivery, name)
    loaded = _check_loaded(table, access, name)
    how = _auto_access(table, row_shape, len(loaded)) if access == "auto" else access
    handles, payloads = Handles(table, mapped=how == "mmap"), Payloads(table)
    shards: list[Shard] = [
        LoadedShard(payloads, at, axis) if at in loaded else FileShard(handles, at, axis) for at in range(len(table))
    ]
    axes = plan_axes(transpose, len(row_shape), name)
    source = RowSource(shards, row_shape, axes=axes, delivery=delivery, pool=pool, access=how, name=name)
    if access == "ram":
        for shard in shards:
            if isinstance(shard, LoadedShard):
                shard.load()
    return source


def _check_loaded(table: FileTable, access: str, name: str) -> set[int]:
    """Which arrays are loaded whole: all if the user wants it, and what is compressed."""
    packed = set(table.packed())
    if packed and access in ("mmap", "read"):
        raise OptionError(
            f"{name}: {table.show(min(packed))} is compressed, so its rows cannot be read in place; "
            f"leave out access={access!r}, or write it with np.savez"
        )
    loaded = set(range(len(table))) if access == "ram" else packed
    if packed:
        check_memory(table, sorted(loaded), "inflating", "np.savez writes arrays that are read in place")
    elif loaded:
        check_memory(table, sorted(loaded), "access='ram'", "use access='mmap' or 'read'")
    return loaded


def _auto_access(table: FileTable, row_shape: tuple[int, ...], loaded: int) -> str:
    """Choose between a map and positional reads; RAM only if all must be inflated: the page cache is that already."""
    if loaded == len(table):
        return "ram"
    row_bytes = int(np.prod(row_shape, dtype=object)) * table.header(0).dtype.itemsize
    return "read" if row_bytes >= READ_FROM_BYTES else "mmap"


def _check_agree(
    facts: list[tuple[tuple[int, ...], DType, str]], axis: int, delivery: Delivery, name: str
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
    kinds = [describe_items(dtype, delivery) for _, dtype, _ in facts]
    others = [
        f"{where} has rows {row_shape} of {kind or dtype.name}"
        for (_, dtype, where), row_shape, kind in zip(facts, row_shapes, kinds, strict=True)
        if row_shape != row_shapes[0] or kind != kinds[0]
    ]
    if others:
        raise ShapeMismatchError(
            f"{name}: shards of one array must agree: {first} has rows {row_shapes[0]} of "
            f"{kinds[0] or first_dtype.name}, but {examples(others)}; {unify_advice(kinds)}, or open them apart"
        )
    return axis, row_shapes[0]
