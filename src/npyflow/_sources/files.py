"""Every file is an example: all of one shape, or of shapes that differ along some axes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.errors import ShapeMismatchError
from npyflow._core.text import examples, plural
from npyflow._sources.base import Axes, Place, fortran_view, read_groups
from npyflow._sources.conversion import Delivery, cast_error, describe_items, plan_conversions, unify_advice
from npyflow._sources.payloads import Payloads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from npyflow._core.buffers import BufferPool
    from npyflow._format.header import Header
    from npyflow._sources.conversion import Conversion
    from npyflow._sources.table import FileTable

Array = np.ndarray[Any, Any]

_LISTED = 12


class FileSource:
    """One array on disk an example, all of one shape.

    Parameters
    ----------
    table : FileTable
        Shapes agree; dtypes agree up to byte order and width of text, or are cast.
    axes : Axes
        Order of an example's axes as delivered.
    delivery : Delivery
        What is wanted of them.
    pool : BufferPool
        Scratch memory.
    name : str
        How messages call the component.
    """

    access = "files"

    def __init__(self, table: FileTable, *, axes: Axes, delivery: Delivery, pool: BufferPool, name: str) -> None:
        self.table = table
        self._axes = axes
        self._conversions = plan_conversions(table.dtypes(name), delivery)
        self._payloads = Payloads(table)
        self._pool = pool
        shape = axes.of(table.headers[0].shape)
        self.specs = tuple(leaf.spec(shape) for leaf in self._conversions[0].leaves)
        self.example_bytes = sum(spec.nbytes for spec in self.specs)

    def __len__(self) -> int:
        return len(self.table)

    def read_into(self, indices: Array, outs: Sequence[Array]) -> None:
        if len(self.table.headers) == 1:
            self._read_kind(0, indices, outs)
        else:
            read_groups(
                self.table.kinds[indices],
                outs,
                self.specs,
                self._pool,
                lambda kind, at, parts: self._read_kind(kind, indices[at], parts),
            )

    def place(self, index: int) -> Place:
        return place_of_file(self.table, index)

    def close(self) -> None:
        """Nothing to do: no file is open between reads."""

    def _read_kind(self, kind: int, indices: Array, outs: Sequence[Array]) -> None:
        """Read files that all have the same header."""
        header, plan = self.table.headers[kind], self._conversions[kind]
        if header.strided:
            raw = self._pool.empty((len(indices), *header.shape[::-1]), header.dtype)
            landed = fortran_view(raw)
        elif self._axes.moved:
            raw = landed = self._pool.empty((len(indices), *header.shape), header.dtype)
        else:
            raw = landed = plan.landing((len(indices), *header.shape), outs, self._pool)
        self._payloads.read(header, indices, raw)
        landed = self._axes.view(landed)
        bad = plan.settle(landed, outs)
        if bad is not None:
            number, example = bad
            index = int(indices[example])
            raise cast_error(landed[example : example + 1], plan.leaves[number], self.place(index), index)


class VaryingFileSource:
    """One array on disk an example, of shapes that differ.

    Parameters
    ----------
    table : FileTable
        All have the same number of axes.
    shapes : int64 array (files, axes)
        What to deliver of each array: its shape, or less, counted from the beginning of each axis.
    axes, delivery, pool, name
        As in `FileSource`.
    """

    access = "files"

    def __init__(
        self, table: FileTable, shapes: Array, *, axes: Axes, delivery: Delivery, pool: BufferPool, name: str
    ) -> None:
        self.table = table
        self._axes = axes
        self._conversions = _conversion_of_each_header(table, delivery, name)
        # For each header: whether bytes may land in the output, and whether nothing is left to do then.
        self._direct = [
            plan.in_place and not header.strided and not axes.moved
            for plan, header in zip(self._conversions, table.headers, strict=True)
        ]
        self._done = [direct and plan.is_identity for direct, plan in zip(self._direct, self._conversions, strict=True)]
        self._payloads = Payloads(table)
        self._pool = pool
        self._shapes = shapes[:, list(axes.order)] if axes.moved else shapes
        agree = (self._shapes == self._shapes[0]).all(axis=0).tolist()
        sizes: list[int] = self._shapes[0].tolist()
        shape = tuple(size if same else None for size, same in zip(sizes, agree, strict=True))
        leaves = self._conversions[0].leaves
        self.specs = tuple(leaf.spec(shape) for leaf in leaves)
        largest = int(self._shapes.prod(axis=1).max())
        self.example_bytes = sum(largest * math.prod(leaf.shape) * leaf.target.itemsize for leaf in leaves)

    def __len__(self) -> int:
        return len(self.table)

    def shapes(self, indices: Array) -> Array:
        return self._shapes[indices]

    def read_each(self, indices: Array, outs: Sequence[Sequence[Array]]) -> None:
        kinds = self.table.kinds[indices].tolist()
        targets = list(zip(*outs, strict=True))
        raws = [self._landing(kind, parts) for kind, parts in zip(kinds, targets, strict=True)]
        self._payloads.read_each(indices, raws)
        for index, kind, raw, parts in zip(indices.tolist(), kinds, raws, targets, strict=True):
            if raw is not parts[0]:
                self._settle(index, kind, raw, parts)

    def place(self, index: int) -> Place:
        return place_of_file(self.table, index)

    def close(self) -> None:
        """Nothing to do: no file is open between reads."""

    def _landing(self, kind: int, parts: Sequence[Array]) -> Array:
        """Where the bytes of an array go: into the output if they are wanted as they come, all or the first of them."""
        header, plan, out = self.table.headers[kind], self._conversions[kind], parts[0]
        if self._direct[kind] and out.shape[1:] == header.shape[1:] and out.flags.c_contiguous:
            return out if self._done[kind] else out.view(plan.raw)
        return self._pool.empty(header.shape[::-1] if header.strided else header.shape, plan.raw)

    def _settle(self, index: int, kind: int, raw: Array, parts: Sequence[Array]) -> None:
        """Bring an array that has landed into the output."""
        plan = self._conversions[kind]
        landed = fortran_view(raw[None]) if self.table.headers[kind].strided else raw[None]
        landed = self._axes.view(landed)
        shape = parts[0].shape[: landed.ndim - 1]
        landed = landed[(slice(None), *(slice(size) for size in shape))]
        bad = plan.settle(landed, [part[None] for part in parts])
        if bad is not None:
            raise cast_error(landed, plan.leaves[bad[0]], self.place(index), index)


def open_files(
    table: FileTable, extents: Array | None, *, axes: Axes, delivery: Delivery, pool: BufferPool, name: str
) -> FileSource | VaryingFileSource:
    """Return the source for files that are read whole, or up to `extents`.

    Raises
    ------
    ShapeMismatchError
        If they differ in dtype or in the number of axes.
    """
    check_agree(table, delivery, name)
    if extents is None and len({header.shape for header in table.headers}) == 1:
        return FileSource(table, axes=axes, delivery=delivery, pool=pool, name=name)
    shapes = stored_shapes(table) if extents is None else extents
    return VaryingFileSource(table, shapes, axes=axes, delivery=delivery, pool=pool, name=name)


def place_of_file(table: FileTable, index: int) -> Place:
    """Where a whole array stands."""
    return Place(table.paths[index], None, table.span(index).member)


def stored_shapes(table: FileTable) -> Array:
    """The shape of each array, int64 ``(files, axes)``; all have the same number of axes."""
    return np.array([header.shape for header in table.headers], np.int64)[table.kinds]


def check_agree(table: FileTable, delivery: Delivery, name: str) -> None:
    """Refuse files that differ in the number of axes or, unless a cast unifies them, in dtype.

    Raises
    ------
    ShapeMismatchError
        With the kinds that there are.
    """
    kinds = {
        (len(header.shape), header.dtype): f"{plural(len(header.shape), 'axis', 'axes')} "
        f"{describe_items(header.dtype, delivery)}".strip()
        for header in table.headers
    }
    if len(set(kinds.values())) > 1:
        raise ShapeMismatchError(
            f"{name}: all files must have one dtype and one number of axes, but there are "
            + show_kinds(table, lambda header: f"shape {header.shape} {describe_items(header.dtype, delivery)}".strip())
            + f"\nremove or fix the odd ones, or {unify_advice(set(kinds.values()))}"
        )


def _conversion_of_each_header(table: FileTable, delivery: Delivery, name: str) -> list[Conversion]:
    """Plan once for each dtype: shapes may differ from file to file."""
    numbers: dict[Any, int] = {}
    firsts: list[tuple[Any, str]] = []
    for dtype, where in table.dtypes(name):
        if dtype not in numbers:
            numbers[dtype] = len(firsts)
            firsts.append((dtype, where))
    plans = plan_conversions(firsts, delivery)
    return [plans[numbers[header.dtype]] for header in table.headers]


def show_kinds(table: FileTable, what: Callable[[Header], str]) -> str:
    """Count the arrays of each kind, with examples, the most frequent kinds a line each."""
    kinds = table.kinds_by(what)
    lines = [
        f"  {plural(len(at), 'file')} with {kind}: {examples(map(table.show, at[:4].tolist()), 3)}"
        for kind, at in kinds
    ]
    more = [f"  … and {len(kinds) - _LISTED:,} more kinds"] if len(kinds) > _LISTED else []
    return "\n".join([f"{len(kinds):,} kinds:", *lines[:_LISTED], *more])
