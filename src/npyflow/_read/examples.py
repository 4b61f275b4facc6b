"""Examples by number, out of the sources, the crops of their files and the user's functions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from npyflow._core.dtypes import is_text
from npyflow._core.errors import NpyflowError
from npyflow._read.collate import Opened
from npyflow._sources.base import allocate
from npyflow._sources.component import varies
from npyflow._sources.crops import CropSource

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from npyflow._core.spec import ArraySpec
    from npyflow._order.crops import CropPlan
    from npyflow._order.schedule import Draw
    from npyflow._read.collate import Collator
    from npyflow._read.mapping import Mapping
    from npyflow._sources.component import SourceSet

Array = np.ndarray[Any, Any]
T = TypeVar("T")


class Examples:
    """What a flow reads from.

    Parameters
    ----------
    sources : SourceSet
        Where examples are.
    crops : CropPlan, optional
        If an example is a region of a file: which file, and where.
    mappings : tuple of Mapping
        What is made of each example, one function after another.
    """

    def __init__(self, sources: SourceSet, crops: CropPlan | None, mappings: tuple[Mapping, ...] = ()) -> None:
        self.sources = sources
        self.crops = crops
        self.mappings = mappings

    def __len__(self) -> int:
        return len(self.sources.sources[0]) if self.crops is None else len(self.crops)

    @property
    def specs(self) -> list[ArraySpec]:
        """What one example consists of, an array each."""
        return list(self.mappings[-1].specs) if self.mappings else self.sources.specs

    def items(self, rows: Array) -> Array:
        """The file of each of `rows`, where they are regions of files; else the rows."""
        return rows if self.crops is None else self.crops.files(rows)

    def shapes(self, leaf: int, rows: Array) -> Array:
        """The shapes of a leaf of the sources, int64 ``(batch, axes)``; parameters as `batch`."""
        source, spec = self.sources.leaves[leaf]
        if not varies(source):
            return np.tile(np.array(spec.fixed_shape, np.int64), (len(rows), 1))
        return _leaf_shapes(source.shapes(self.items(rows)), spec)

    def batch(
        self, rows: Array, draw: Draw, collators: Sequence[Collator], where: Callable[[int], str]
    ) -> list[Opened]:
        """Return examples put together, filled: for each component what its collator opened.

        Parameters
        ----------
        rows : int64 array (batch,)
            Where they are in the sources; in range.
        draw : Draw
            What the flow calls them.
        collators : sequence of Collator
            One for each of `specs`.
        where : callable
            Names an example of the flow, for messages.

        Raises
        ------
        ClosedError
            After `close`.
        """
        if not self.mappings:
            return self._guarded(rows, draw, lambda items, corners: self._collated(items, corners, draw, collators))
        out = []
        for column, collator in zip(zip(*self.each(rows, draw, where), strict=True), collators, strict=True):
            shapes = np.array([array.shape for array in column], np.int64).reshape(len(column), -1)
            out.append(_wide_enough(collator, column).open(shapes, draw.bucket, self.sources.pool))
            _fill(out[-1], column)
        return out

    def each(self, rows: Array, draw: Draw, where: Callable[[int], str]) -> list[list[Array]]:
        """Return single examples of exact shape, each a list of arrays; parameters as `batch`."""
        columns = self._guarded(rows, draw, self._single)
        examples = [list(leaves) for leaves in zip(*columns, strict=True)]
        for mapping in self.mappings:
            numbers = zip(draw.indices.tolist(), draw.numbers.tolist(), strict=True)
            examples = [
                self._apply(mapping, leaves, draw.epoch, number, index, where)
                for leaves, (index, number) in zip(examples, numbers, strict=True)
            ]
        return examples

    def _apply(
        self, mapping: Mapping, leaves: list[Array], epoch: int, number: int, index: int, where: Callable[[int], str]
    ) -> list[Array]:
        try:
            return mapping.apply(leaves, epoch, number, lambda: where(index))
        except NpyflowError as error:
            error.index = index
            raise

    def _guarded(self, rows: Array, draw: Draw, read: Callable[[Array, Array | None], list[T]]) -> list[T]:
        """Read items of the sources; an error names the example of the flow."""
        self.sources.check_open()
        items, corners = self.items(rows), None
        if self.crops is not None:
            corners = self.crops.corners(rows, draw.numbers, draw.epoch)
        try:
            return read(items, corners)
        except NpyflowError as error:
            if error.index is not None:
                at = np.flatnonzero(items == error.index)
                error.index = int(draw.indices[at[0]]) if at.size else None
            raise

    def _collated(self, items: Array, corners: Array | None, draw: Draw, collators: Sequence[Collator]) -> list[Opened]:
        out: list[Opened] = []
        for source in self.sources.sources:
            if varies(source):
                mine = collators[len(out) : len(out) + len(source.specs)]
                opened = [
                    collator.open(_leaf_shapes(source.shapes(items), spec), draw.bucket, self.sources.pool)
                    for collator, spec in zip(mine, source.specs, strict=True)
                ]
                source.read_each(items, [one.views for one in opened])
                out += opened
            else:
                out += [Opened([array], []) for array in self._fixed(source, items, corners)]
        return out

    def _single(self, items: Array, corners: Array | None) -> list[Any]:
        columns: list[Any] = []
        for source in self.sources.sources:
            if varies(source):
                shapes = source.shapes(items)
                outs = [
                    [self.sources.pool.empty(tuple(shape), spec.dtype) for shape in _leaf_shapes(shapes, spec).tolist()]
                    for spec in source.specs
                ]
                source.read_each(items, outs)
                columns += outs
            else:
                columns += self._fixed(source, items, corners)
        return columns

    def _fixed(self, source: Any, items: Array, corners: Array | None) -> list[Array]:
        """Examples of one shape, stacked: an array for each spec of the source."""
        outs = allocate(source.specs, len(items), self.sources.pool)
        if not isinstance(source, CropSource):
            source.read_into(items, outs)
        elif corners is not None:
            source.read_crops(items, corners, outs)
        return outs


def _leaf_shapes(shapes: Array, spec: ArraySpec) -> Array:
    """Return the shapes of one delivered array of items of `shapes`: a field may have axes of its own."""
    own = spec.shape[shapes.shape[1] :]
    return np.column_stack([shapes, *(np.full(len(shapes), size) for size in own)]) if own else shapes


def _wide_enough(collator: Collator, column: Sequence[Array]) -> Collator:
    """Texts that a function makes are as wide as the widest of the batch."""
    spec = collator.spec
    if not is_text(spec.dtype):
        return collator
    widest = max((array.dtype for array in column), key=lambda dtype: dtype.itemsize)
    wider: Collator = replace(collator, spec=replace(spec, dtype=widest))  # type: ignore[type-var]
    return wider


def _fill(opened: Opened, column: Sequence[Array]) -> None:
    """Copy examples to their places; a scalar has no view, and is always stacked."""
    for at, (view, array) in enumerate(zip(opened.views, column, strict=True)):
        if array.ndim:
            view[...] = array[tuple(map(slice, view.shape))]
        else:
            opened.arrays[0][at] = array
