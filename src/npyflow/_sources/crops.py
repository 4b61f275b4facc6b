"""A region of each file is an example: only the bytes of that region are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.casts import fitting
from npyflow._core.errors import NpyflowError, ShapeMismatchError
from npyflow._core.text import examples, plural
from npyflow._sources.base import Axes, Place, fortran_view
from npyflow._sources.boxes import Box
from npyflow._sources.conversion import Delivery, cast_error, plan_conversions
from npyflow._sources.files import place_of_file, stored_shapes
from npyflow._sources.handles import Handles
from npyflow._sources.payloads import Payloads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npyflow._core.buffers import BufferPool
    from npyflow._core.options import Crop
    from npyflow._sources.table import FileTable

Array = np.ndarray[Any, Any]


class CropSource:
    """Regions of arrays on disk.

    Parameters
    ----------
    table : FileTable
        Of one dtype and number of axes.
    crop : Crop
        The region.
    axes, delivery, pool, name
        As in `FileSource`.

    Raises
    ------
    ShapeMismatchError
        If the arrays differ along an axis that is taken whole, or one is too small.
    """

    def __init__(
        self, table: FileTable, crop: Crop, *, axes: Axes, delivery: Delivery, pool: BufferPool, name: str
    ) -> None:
        self.table = table
        self.crop = crop
        self._axes = axes
        self._region = _region(table, crop, name)
        self._conversions = plan_conversions(table.dtypes(name), delivery)
        self._payloads = Payloads(table)
        self._handles = Handles(table, mapped=crop.access != "read", scattered=False)
        self._pool = pool
        self.access = "read" if crop.access == "read" else "mmap"
        shape = axes.of(self._region)
        leaves = self._conversions[0].leaves
        self.specs = tuple(leaf.spec(shape) for leaf in leaves)
        self.example_bytes = sum(spec.nbytes for spec in self.specs)
        constant = crop.pad is not None and not isinstance(crop.pad, str)
        self._fills = [fitting(crop.pad, leaf.target, f"{name}: Crop(pad=)") if constant else None for leaf in leaves]

    def __len__(self) -> int:
        return len(self.table)

    def read_crops(self, files: Array, corners: Array, outs: Sequence[Array]) -> None:
        """Fill `outs` with regions.

        Parameters
        ----------
        files : int64 array (batch,)
            Of which arrays.
        corners : int64 array (batch, cropped axes)
            First index along each cropped axis; negative where the array is smaller than the region.
        outs : sequence of array (batch, *spec.shape)
            To fill.
        """
        for at, (file, corner) in enumerate(zip(files.tolist(), corners.tolist(), strict=True)):
            try:
                self._read_one(file, corner, [out[at] for out in outs])
            except NpyflowError as error:
                error.index = file
                raise

    def place(self, index: int) -> Place:
        return place_of_file(self.table, index)

    def close(self) -> None:
        self._handles.close()

    def _read_one(self, file: int, corner: Sequence[int], outs: Sequence[Array]) -> None:
        header, kind = self.table.header(file), int(self.table.kinds[file])
        plan = self._conversions[kind]
        starts = dict(zip(self.crop.axes, corner, strict=True))
        first = [max(0, starts.get(axis, 0)) for axis in range(len(self._region))]
        size = [min(want, have) for want, have in zip(self._region, header.shape, strict=True)]
        whole = size == list(self._region)
        direct = whole and plan.in_place and not header.strided and not self._axes.moved
        if direct:
            raw = outs[0].view(plan.raw)
        else:
            raw = self._pool.empty(tuple(size[::-1] if header.strided else size), plan.raw)
        if raw.nbytes:
            self._fetch(file, first, size, raw)
        if direct and plan.is_identity:
            return
        landed = self._axes.view(fortran_view(raw[None]) if header.strided else raw[None])
        inside = [out[None] for out in outs] if whole else self._inside(outs, starts, size)
        bad = plan.settle(landed, inside)
        if bad is not None:
            raise cast_error(landed, plan.leaves[bad[0]], self.place(file), file)
        if isinstance(self.crop.pad, str) and not whole:
            self._extend(outs, inside, starts)

    def _fetch(self, file: int, first: Sequence[int], size: Sequence[int], raw: Array) -> None:
        """Bring a box to `raw`, in the order of its bytes."""
        header, span = self.table.header(file), self.table.span(file)
        shape = header.shape
        if header.strided:
            shape, first, size = shape[::-1], first[::-1], size[::-1]
        box = Box(shape, header.dtype.itemsize, first, size)
        if span.packed >= 0:
            everything = np.empty(header.payload_bytes, np.uint8)
            self._payloads.read_each(np.array([file]), [everything])
            box.copy(everything, raw)
            return
        handle = self._handles.get(file)
        offset = span.start + header.offset
        if handle.whole is not None:
            box.copy(handle.whole[offset : offset + header.payload_bytes], raw)
        elif not box.read(handle.fd, offset, raw):
            raise self.table.changed(file, "it is shorter now")

    def _before(self, starts: dict[int, int]) -> list[int]:
        """How much padding stands before the array, for each delivered axis."""
        return [max(0, -starts.get(axis, 0)) for axis in self._axes.order]

    def _inside(self, outs: Sequence[Array], starts: dict[int, int], size: Sequence[int]) -> list[Array]:
        """Where the array stands in each output; what is around it is filled, or it is apart until it is extended."""
        before = self._before(starts)
        delivered = self._axes.of(size)
        box = tuple(slice(at, at + count) for at, count in zip(before, delivered, strict=True))
        if isinstance(self.crop.pad, str):
            return [np.empty((1, *delivered, *out.shape[len(box) :]), out.dtype) for out in outs]
        for out, fill in zip(outs, self._fills, strict=True):
            out[...] = fill
        return [out[box][None] for out in outs]

    def _extend(self, outs: Sequence[Array], inside: Sequence[Array], starts: dict[int, int]) -> None:
        """Repeat or reflect the border of each array outwards."""
        before = self._before(starts)
        for out, part in zip(outs, inside, strict=True):
            widths = [(0, 0)] * out.ndim
            for axis, ahead in enumerate(before):
                widths[axis] = (ahead, out.shape[axis] - part.shape[axis + 1] - ahead)
            out[...] = np.pad(part[0], widths, mode=self.crop.pad)


def _region(table: FileTable, crop: Crop, name: str) -> tuple[int, ...]:
    """Return the shape of a region, as stored."""
    shapes = stored_shapes(table)
    rank = check_rank(table, crop, name)
    for axis in range(rank):
        if axis not in crop.axes and (odd := np.flatnonzero(shapes[:, axis] != shapes[0, axis])).size:
            raise ShapeMismatchError(
                f"{name}: axis {axis} is taken whole, but is {shapes[0, axis]} in {table.show(0)} and "
                f"{shapes[odd[0], axis]} in {table.show(int(odd[0]))}; give it a size in Crop"
            )
    if isinstance(crop.pad, str) and (empty := np.flatnonzero((shapes == 0).any(axis=1))).size:
        raise ShapeMismatchError(
            f"{name}: {table.show(int(empty[0]))} has shape {table.header(int(empty[0])).shape}: it is empty, and has "
            f"no border for Crop(pad={crop.pad!r}); pass a number, or leave the file out"
        )
    if crop.pad is None:
        _check_large_enough(table, shapes, crop, name)
    sizes = dict(zip(crop.axes, crop.sizes, strict=True))
    return tuple(sizes.get(axis, int(shapes[0, axis])) for axis in range(rank))


def check_rank(table: FileTable, crop: Crop, name: str) -> int:
    """Return how many axes the arrays have.

    Raises
    ------
    ShapeMismatchError
        If the crop has more.
    """
    rank = len(table.headers[0].shape)
    if rank < len(crop.shape):
        raise ShapeMismatchError(
            f"{name}: Crop({crop.shape}) has {plural(len(crop.shape), 'axis', 'axes')}, the arrays have {rank}: "
            f"{table.show(0)} has shape {table.header(0).shape}; pass crop= a dict with a Crop for each component that "
            f"is to be cropped"
        )
    return rank


def _check_large_enough(table: FileTable, shapes: Array, crop: Crop, name: str) -> None:
    small = np.flatnonzero((shapes[:, list(crop.axes)] < np.array(crop.sizes)).any(axis=1))
    if small.size:
        shown = examples((f"{table.show(at)} {table.header(at).shape}" for at in small.tolist()), 5)
        raise ShapeMismatchError(
            f"{name}: {plural(len(small), 'file')} smaller than the crop {crop.shape}: {shown}; pass "
            f"Crop(..., pad=0), pad='edge' or 'reflect', a smaller crop, or None for an axis that is taken whole"
        )
