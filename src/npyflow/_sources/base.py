"""What a source is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

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


def allocate(specs: Sequence[ArraySpec], count: int, pool: BufferPool) -> list[Array]:
    """Return an array for `count` examples of each of `specs`."""
    return [pool.empty((count, *spec.shape), spec.dtype) for spec in specs]


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
