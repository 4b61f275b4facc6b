"""One epoch after another, read by read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from npyflow._order.layout import Layout
    from npyflow._order.order import Order
    from npyflow._sources.component import SourceSet

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Reads what `order` and `layout` say from `sources`.

    Parameters
    ----------
    sources : SourceSet
        Where examples are.
    selection : int64 array or None
        Examples of the flow as indices of the sources; None for all of them.
    order : Order
        Over the examples of the flow.
    layout : Layout
        Of an epoch.
    with_index : bool
        Deliver each example's index in the flow, as a component before the others.
    """

    sources: SourceSet
    selection: Array | None
    order: Order
    layout: Layout
    with_index: bool = False

    def read(self, epoch: int, first_step: int, read: int) -> list[Array]:
        """Return one read of an epoch that begins at `first_step`: an array a component, examples along axis 0."""
        start, stop = self.layout.span(first_step, read)
        indices = self.order.indices(epoch, start, stop)
        rows = indices if self.selection is None else self.selection[indices]
        batch = self.sources.read(rows, indices)
        if not self.with_index:
            return batch
        # A copy on an aligned buffer: the order keeps its segment.
        index = self.sources.pool.empty(indices.shape, indices.dtype)
        np.copyto(index, indices)
        return [index, *batch]
