"""What a flow consists of, as plain data: this is what is pickled and saved."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from npyflow._core.buffers import BufferPool
from npyflow._core.errors import ShapeMismatchError
from npyflow._sources.component import Component, SourceSet
from npyflow._sources.report import Report

if TYPE_CHECKING:
    from npyflow._core.structure import Structure


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Content:
    """A flow before its sources are opened.

    Parameters
    ----------
    structure : Structure of str
        The nesting of an example; leaves are the names of the components.
    components : tuple of Component
        In the order of the leaves.
    keys : tuple of str or None
        A key an example, for files.
    classes : tuple of str or None
        What class numbers mean.
    report : Report
        How it came about.
    splits : int
        How often it was split, so that a part is not split along the cut that made it.
    """

    structure: Structure[Any]
    components: tuple[Component, ...]
    keys: tuple[str, ...] | None = None
    classes: tuple[str, ...] | None = None
    report: Report = field(default_factory=Report)
    splits: int = 0

    def open(self) -> SourceSet:
        """Open the sources and check that they are equally long.

        Raises
        ------
        ShapeMismatchError
            With the length of each component.
        """
        sources = SourceSet(self.components, BufferPool(keep_bytes=16 << 20))
        lengths = [len(source) for source in sources.sources]
        if len(set(lengths)) > 1:
            found = ", ".join(
                f"{component.name or 'data'} has {length:,}"
                for component, length in zip(self.components, lengths, strict=True)
            )
            raise ShapeMismatchError(
                f"components must have one row an example each: {found}; cut or fix the longer ones"
            )
        return sources
