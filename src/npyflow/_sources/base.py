"""What a source is."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from npyflow._core.errors import OptionError
from npyflow._core.text import show_array

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from npyflow._core.buffers import BufferPool
    from npyflow._core.spec import ArraySpec

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Place:
    """Where an example stands on disk or in memory.

    Parameters
    ----------
    path : str or None
        None for an array in RAM.
    row : int or None
        Along the axis of the examples; None if the whole array is the example.
    member : str or None
        In an archive.
    """

    path: str | None
    row: int | None
    member: str | None = None

    @property
    def file(self) -> str:
        """The file as it can be printed."""
        return "an array in RAM" if self.path is None else show_array(self.path, self.member)

    def __str__(self) -> str:
        return self.file if self.row is None else f"{self.file} row {self.row}"


class Source(Protocol):
    """One component of every example, reachable by index: one array, or one a field.

    Sources are read from several threads at once.
    """

    @property
    def specs(self) -> tuple[ArraySpec, ...]:
        """Shape and dtype of each array of one example, as delivered."""

    @property
    def example_bytes(self) -> int:
        """Bytes of an example as delivered, of the largest where they differ."""

    @property
    def access(self) -> str:
        """How it is read: ``"ram"``, ``"mmap"``, ``"read"`` or ``"files"``."""

    def __len__(self) -> int:
        """Number of examples."""

    def read_into(self, indices: Array, outs: Sequence[Array]) -> None:
        """Fill `outs` with the examples `indices`.

        Parameters
        ----------
        indices : int64 array (batch,)
            In ``[0, len(self))``; checked by the caller.
        outs : sequence of array (batch, *spec.shape)
            For each of `specs`, C-contiguous and of its dtype. All of it is written.
        """

    def place(self, index: int) -> Place:
        """Where example `index` stands."""

    def close(self) -> None:
        """Let go of memory and descriptors."""


class VaryingSource(Protocol):
    """A source whose examples differ in shape: it has these methods in place of `Source.read_into`."""

    @property
    def specs(self) -> tuple[ArraySpec, ...]: ...

    @property
    def example_bytes(self) -> int: ...

    @property
    def access(self) -> str: ...

    def __len__(self) -> int: ...

    def shapes(self, indices: Array) -> Array:
        """The shapes of the examples `indices`, int64 ``(batch, axes)``, without the axes of a field's own."""

    def read_each(self, indices: Array, outs: Sequence[Sequence[Array]]) -> None:
        """Fill `outs` with the examples `indices`.

        Parameters
        ----------
        indices : int64 array (batch,)
            In ``[0, len(self))``; checked by the caller.
        outs : sequence of sequence of array
            For each of `specs` an array an example, of its shape or less, counted from the beginning of each axis; of
            any strides.
        """

    def place(self, index: int) -> Place: ...

    def close(self) -> None: ...


def allocate(specs: Sequence[ArraySpec], count: int, pool: BufferPool) -> list[Array]:
    """Return an array for `count` examples of each of `specs`."""
    return [pool.empty((count, *spec.fixed_shape), spec.dtype) for spec in specs]


def read_groups(
    groups: Array,
    outs: Sequence[Array],
    specs: Sequence[ArraySpec],
    pool: BufferPool,
    read: Callable[[int, Array, Sequence[Array]], None],
) -> None:
    """Read a batch group by group.

    Parameters
    ----------
    groups : int array (batch,)
        The group that each example belongs to: what can be read by one call.
    outs : sequence of array
        To fill, as in `Source.read_into`.
    read : callable
        ``read(group, at, parts)`` fills `parts` with the examples at the positions `at` of the batch.
    """
    for group in np.unique(groups).tolist():
        at = np.flatnonzero(groups == group)
        if len(at) == len(groups):
            read(group, at, outs)
            return
        parts = allocate(specs, len(at), pool)
        read(group, at, parts)
        for out, part in zip(outs, parts, strict=True):
            out[at] = part


def fortran_view(landed: Array) -> Array:
    """Return ``(batch, z, y, x)`` as ``(batch, x, y, z)``: samples that were read in the order of their bytes."""
    return landed.transpose(0, *range(landed.ndim - 1, 0, -1))


@dataclass(frozen=True, slots=True)
class Axes:
    """In which order the axes of an example are delivered.

    Parameters
    ----------
    order : tuple of int
        For each delivered axis the stored one.
    """

    order: tuple[int, ...]

    @property
    def moved(self) -> bool:
        """Whether it is another order than the stored one."""
        return self.order != tuple(range(len(self.order)))

    def of(self, shape: Sequence[Any]) -> tuple[Any, ...]:
        """A stored shape as it is delivered."""
        return tuple(shape[axis] for axis in self.order)

    def view(self, landed: Array) -> Array:
        """Return ``(batch, *stored axes)`` as ``(batch, *delivered axes)``."""
        return landed.transpose(0, *(axis + 1 for axis in self.order)) if self.moved else landed


def plan_axes(transpose: Any, rank: int, name: str) -> Axes:
    """Return the order that `transpose` asks for.

    Parameters
    ----------
    transpose : None, "channels_last", "channels_first" or tuple of int
        A tuple has for each delivered axis the stored one, as in `numpy.transpose`.
    rank : int
        Axes of an example.

    Raises
    ------
    OptionError
        If it is no order of so many axes.
    """
    stored = tuple(range(rank))
    if transpose is None:
        return Axes(stored)
    if isinstance(transpose, str):
        orders = {"channels_last": (*stored[1:], *stored[:1]), "channels_first": (*stored[-1:], *stored[:-1])}
        if transpose not in orders:
            raise OptionError(
                f"{name}: transpose={transpose!r}: expected 'channels_last', 'channels_first' or a tuple of axes"
            )
        return Axes(orders[transpose])
    try:
        # As NumPy counts: -1 is the last. What is out of range is in none.
        order = tuple(stored[operator.index(axis)] for axis in transpose)
    except (TypeError, IndexError):
        order = ()
    if sorted(order) != list(stored) or not isinstance(transpose, tuple | list):
        raise OptionError(f"{name}: transpose={transpose!r}: expected an order of the axes {stored} of an example")
    return Axes(order)
