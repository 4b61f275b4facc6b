"""Which examples each read of an epoch brings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from npyflow._order.layout import Layout

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Draw:
    """The examples of one read.

    Parameters
    ----------
    epoch : int
        Of which epoch.
    indices : int64 array (examples,)
        Which examples.
    numbers : int64 array (examples,)
        What tells them apart within the epoch: the index, or something else if an example may come twice.
    bucket : int
        Where they come from; 0 if there are no buckets.
    """

    epoch: int
    indices: Array
    numbers: Array
    bucket: int = 0


def plain_draw(indices: Array, epoch: int = 0) -> Draw:
    """Examples that are asked for by index."""
    return Draw(epoch=epoch, indices=indices, numbers=indices)


class AnyOrder(Protocol):
    """What `Order` and `Sampled` have in common."""

    @property
    def repeats(self) -> bool:
        """Whether an example may come twice in an epoch."""

    def __len__(self) -> int:
        """Examples of an epoch, in this shard."""

    def indices(self, epoch: int, start: int, stop: int) -> Array:
        """The examples at positions ``[start, stop)`` of this shard in `epoch`."""

    def positions(self, start: int, stop: int) -> Array:
        """The positions in the order of all shards."""


class Schedule(Protocol):
    """The reads of an epoch, each of one or several batches."""

    @property
    def batch_size(self) -> int:
        """Examples of a full batch."""

    @property
    def full(self) -> bool:
        """Whether every batch is full."""

    @property
    def steps(self) -> int:
        """Batches in an epoch."""

    @property
    def batches_per_read(self) -> int:
        """Batches that one read brings."""

    def reads(self, first_step: int) -> int:
        """Number of reads from `first_step` to the end of the epoch."""

    def draw(self, epoch: int, first_step: int, read: int) -> Draw:
        """One read of an epoch that begins at `first_step`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Even:
    """Batches of one size, one after another in an order.

    Parameters
    ----------
    n : int
        Examples that the order draws from.
    order : Order or Sampled
        Which examples.
    layout : Layout
        How they are cut.
    """

    n: int
    order: AnyOrder
    layout: Layout

    @property
    def batch_size(self) -> int:
        return self.layout.batch_size

    @property
    def full(self) -> bool:
        return self.layout.drop_remainder

    @property
    def steps(self) -> int:
        return self.layout.steps

    @property
    def batches_per_read(self) -> int:
        return self.layout.batches_per_read

    def reads(self, first_step: int) -> int:
        return self.layout.reads(first_step)

    def draw(self, epoch: int, first_step: int, read: int) -> Draw:
        start, stop = self.layout.span(first_step, read)
        indices = self.order.indices(epoch, start, stop)
        numbers = self.n + self.order.positions(start, stop) if self.order.repeats else indices
        return Draw(epoch=epoch, indices=indices, numbers=numbers)
