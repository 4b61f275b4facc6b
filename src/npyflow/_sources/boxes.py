"""A box out of an array on disk: copied from a map, or read by position in as few calls as make sense."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._sources.fileio import read_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Array = np.ndarray[Any, Any]

# Runs that are closer together are read at once: the system delivers whole pages anyway.
_GAP_BYTES = 4096
# As much is read at once at most, beside the box itself.
_MAX_READ_BYTES = 8 << 20
# A void item may not be larger.
_MAX_RUN_BYTES = 1 << 30


class Box:
    """A box in a C-order array, in runs of bytes that are neighbours.

    Parameters
    ----------
    shape : sequence of int
        Of the whole array.
    itemsize : int
        Bytes of an item.
    start, size : sequence of int
        The box along each axis; inside the array, not empty.
    """

    def __init__(self, shape: Sequence[int], itemsize: int, start: Sequence[int], size: Sequence[int]) -> None:
        strides = [math.prod(shape[axis + 1 :]) * itemsize for axis in range(len(shape))]
        self.first = sum(at * stride for at, stride in zip(start, strides, strict=True))
        # Trailing axes that are taken whole belong to the run, and the last that is not.
        inner = len(shape)
        run = itemsize
        while inner and run * size[inner - 1] <= _MAX_RUN_BYTES:
            inner -= 1
            run *= size[inner]
            if size[inner] != shape[inner]:
                break
        self.run_bytes = run
        self.counts = tuple(size[:inner])
        self.strides = tuple(strides[:inner])

    def copy(self, payload: Array, out: Array) -> None:
        """Copy the box from the bytes of the array to `out`, C-contiguous."""
        run = np.dtype((np.void, self.run_bytes))
        source = np.ndarray(self.counts, run, payload, self.first, self.strides)
        np.copyto(np.ndarray(self.counts, run, out), source)

    def read(self, fd: int, offset: int, out: Array) -> bool:
        """Read the box by position; `offset` is the first byte of the array in the file.

        Returns
        -------
        bool
            False if the file ends before the box does.
        """
        axis, extent = self._close_together()
        run = np.dtype((np.void, self.run_bytes))
        to = np.ndarray(self.counts, run, out)
        if axis == len(self.counts):
            pieces = (memoryview(piece.reshape(1).view(np.uint8).data) for piece in _pieces(to))
            return all(
                read_at(fd, piece, offset + at) == extent for piece, at in zip(pieces, self._offsets(axis), strict=True)
            )
        scratch = np.empty(extent, np.uint8)
        view = np.ndarray(self.counts[axis:], run, scratch, 0, self.strides[axis:])
        for where, at in zip(np.ndindex(*self.counts[:axis]), self._offsets(axis), strict=True):
            if read_at(fd, scratch.data, offset + at) != extent:
                return False
            np.copyto(to[where], view)
        return True

    def _close_together(self) -> tuple[int, int]:
        """The axis from which on runs are close enough to be one read, and the bytes of such a read."""
        axis, extent = len(self.counts), self.run_bytes
        while axis and self.strides[axis - 1] - extent <= _GAP_BYTES:
            wider = extent + (self.counts[axis - 1] - 1) * self.strides[axis - 1]
            if wider > max(extent, _MAX_READ_BYTES):
                break
            axis, extent = axis - 1, wider
        return axis, extent

    def _offsets(self, axis: int) -> Iterator[int]:
        """First byte of each read, as the axes before `axis` run."""
        for where in itertools.product(*map(range, self.counts[:axis])):
            yield self.first + sum(at * stride for at, stride in zip(where, self.strides, strict=False))


def _pieces(runs: Array) -> Iterator[Array]:
    flat = runs.reshape(-1)
    return (flat[at : at + 1] for at in range(len(flat)))
