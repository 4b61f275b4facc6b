"""One epoch after another, read by read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.spec import ArraySpec
from npyflow._read.collate import Opened, Stacked

if TYPE_CHECKING:
    from collections.abc import Callable

    from npyflow._order.schedule import Schedule
    from npyflow._read.collate import Collator
    from npyflow._read.examples import Examples

Array = np.ndarray[Any, Any]

_INDEX = ArraySpec((), np.dtype(np.int64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Reads what `schedule` says from `examples`.

    Parameters
    ----------
    examples : Examples
        Where they come from.
    rows : callable
        Rows of the data set that examples of the flow are.
    schedule : Schedule
        Which examples of the flow, and how many at a time.
    collators : tuple of Collator
        How each component is put together.
    where : callable
        Names an example of the flow, for messages.
    with_index : bool
        Deliver each example's index in the flow, as a component before the others.
    """

    examples: Examples
    rows: Callable[[Array], Array]
    schedule: Schedule
    collators: tuple[Collator, ...]
    where: Callable[[int], str]
    with_index: bool = False

    @property
    def columns(self) -> tuple[Collator, ...]:
        """What `read` returns: the index, if it is wanted, and the components."""
        return (Stacked(_INDEX), *self.collators) if self.with_index else self.collators

    def read(self, epoch: int, first_step: int, read: int) -> list[Opened]:
        """Return one read of an epoch that begins at `first_step`: for each of `columns` its arrays, filled."""
        draw = self.schedule.draw(epoch, first_step, read)
        batch = self.examples.batch(self.rows(draw.indices), draw, self.collators, self.where)
        if not self.with_index:
            return batch
        # A copy on an aligned buffer: the order keeps its segment.
        index = self.examples.sources.pool.empty(draw.indices.shape, draw.indices.dtype)
        np.copyto(index, draw.indices)
        return [Opened([index], []), *batch]
