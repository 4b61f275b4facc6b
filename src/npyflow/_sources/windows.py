"""Every window over a long series is an example; several series are never crossed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.errors import NpyflowError, OptionError
from npyflow._core.spec import ArraySpec
from npyflow._sources.base import Place, allocate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npyflow._core.buffers import BufferPool
    from npyflow._sources.rows import RowSource

Array = np.ndarray[Any, Any]


class Windows:
    """Where windows lie in series: arithmetic, so a billion of them cost nothing.

    Parameters
    ----------
    lengths : sequence of int
        Steps of each series.
    span : int
        Steps from the first of a window to the end of what belongs to it.
    stride : int
        Steps from a window to the next.
    """

    def __init__(self, lengths: Sequence[int], *, span: int, stride: int) -> None:
        self.lengths = np.array(lengths, np.int64)
        self.span = span
        self.stride = stride
        self.counts = np.maximum(0, (self.lengths - span) // stride + 1)
        self._ends = np.cumsum(self.counts)

    def __len__(self) -> int:
        return int(self._ends[-1])

    def locate(self, indices: Array) -> tuple[Array, Array]:
        """Return the series of each window, and its first step in that series."""
        series = np.searchsorted(self._ends, indices, side="right")
        return series, (indices - (self._ends - self.counts)[series]) * self.stride


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What of every window one component delivers.

    Parameters
    ----------
    offset, length : int
        Its steps, counted from the first of the window.
    span, stride : int
        As in `Windows`.
    columns : int, slice or tuple of int, optional
        Which entries of the first axis after time.
    """

    offset: int
    length: int
    span: int
    stride: int
    columns: int | slice | tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.offset < 0 or self.stride < 1 or not 0 < self.length <= self.span - self.offset:
            raise OptionError(f"{self}: the steps of a window lie in its span, and windows follow each other")

    def of(self, shape: tuple[Any, ...], name: str) -> tuple[Any, ...]:
        """The shape of this part of rows of `shape`.

        Raises
        ------
        OptionError
            If there is no such column.
        """
        if self.columns is None:
            return (self.length, *shape)
        if not shape:
            raise OptionError(f"{name}: columns {self.index} of a series whose steps are single values; leave them out")
        try:
            picked = np.arange(shape[0])[self.index]
        except IndexError:
            raise OptionError(f"{name}: columns {self.index}, but there are {shape[0]}; one is out of range") from None
        if picked.size == 0:
            raise OptionError(f"{name}: columns {self.index} of {shape[0]} are none; expected at least one")
        return (self.length, *picked.shape, *shape[1:])

    @property
    def index(self) -> Any:
        """The columns as NumPy takes them."""
        return list(self.columns) if isinstance(self.columns, tuple) else self.columns


class WindowSource:
    """One part of every window.

    Parameters
    ----------
    rows : RowSource
        The steps of all series, a shard each.
    window : Window
        What of them is delivered.
    pool : BufferPool
        Scratch memory.
    name : str
        How messages call the component.
    """

    def __init__(self, rows: RowSource, window: Window, *, pool: BufferPool, name: str) -> None:
        self._rows = rows
        self._window = window
        self._pool = pool
        self.windows = Windows(np.diff(rows.starts).tolist(), span=window.span, stride=window.stride)
        self._starts = rows.starts[:-1] + window.offset
        self.access = rows.access
        self.specs = tuple(ArraySpec(window.of(spec.shape, name), spec.dtype, spec.unit) for spec in rows.specs)
        self.example_bytes = sum(spec.nbytes for spec in self.specs)

    @property
    def pieces(self) -> int:
        """In how many pieces a step lies on disk."""
        return self._rows.pieces

    def __len__(self) -> int:
        return len(self.windows)

    def read_into(self, indices: Array, outs: Sequence[Array]) -> None:
        series, first = self.windows.locate(indices)
        first = first + self._starts[series]
        try:
            self._read(first, outs)
        except NpyflowError as error:
            if error.index is not None:
                inside = (first <= error.index) & (error.index < first + self._window.length)
                error.index = int(indices[np.argmax(inside)])
            raise

    def _read(self, first: Array, outs: Sequence[Array]) -> None:
        if self._window.columns is None:
            self._read_steps(first, outs)
            return
        whole = [
            self._pool.empty((len(first), self._window.length, *spec.fixed_shape), spec.dtype)
            for spec in self._rows.specs
        ]
        self._read_steps(first, whole)
        for out, steps in zip(outs, whole, strict=True):
            np.copyto(out, steps[:, :, self._window.index])

    def place(self, index: int) -> Place:
        series, first = self.windows.locate(np.array([index]))
        return self._rows.place(int(first[0] + self._starts[series[0]]))

    def close(self) -> None:
        self._rows.close()

    def _read_steps(self, first: Array, outs: Sequence[Array]) -> None:
        """Read runs of steps. Where they overlap and each read costs a call, steps are read once."""
        length = self._window.length
        steps = first[:, None] + np.arange(length)
        flat = [out.reshape(steps.size, *out.shape[2:]) for out in outs]
        union = _union(first, length) if self.access == "read" else None
        if union is None:
            self._rows.read_into(steps.reshape(-1), flat)
            return
        read = allocate(self._rows.specs, len(union), self._pool)
        self._rows.read_into(union, read)
        at = np.searchsorted(union, first)[:, None] + np.arange(length)
        for out, part in zip(flat, read, strict=True):
            np.take(part, at.reshape(-1), axis=0, out=out, mode="clip")


def _union(first: Array, length: int) -> Array | None:
    """The steps of all runs, ascending, each once; None if no two runs overlap."""
    starts = np.sort(first)
    fresh = np.minimum(np.diff(starts, append=starts[-1] + length), length)
    total = int(fresh.sum())
    if total == len(first) * length:
        return None
    before = np.cumsum(fresh) - fresh
    union: Array = np.arange(total) + np.repeat(starts - before, fresh)
    return union
