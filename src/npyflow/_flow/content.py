"""What a flow consists of, as plain data: this is what is pickled and saved."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.buffers import BufferPool
from npyflow._core.errors import OptionError, ShapeMismatchError
from npyflow._core.text import examples, plural
from npyflow._order.crops import CropPlan
from npyflow._read.examples import Examples
from npyflow._sources.component import Component, SourceSet
from npyflow._sources.crops import CropSource
from npyflow._sources.files import stored_shapes
from npyflow._sources.report import Report

if TYPE_CHECKING:
    from npyflow._core.structure import Structure
    from npyflow._read.mapping import Mapping


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
        A key a file, or a series.
    classes : tuple of str or None
        What class numbers mean.
    report : Report
        How it came about.
    splits : int
        How often it was split, so that a part is not split along the cut that made it.
    mappings : tuple of Mapping
        What is made of each example, one function after another.
    """

    structure: Structure[Any]
    components: tuple[Component, ...]
    keys: tuple[str, ...] | None = None
    classes: tuple[str, ...] | None = None
    report: Report = field(default_factory=Report)
    splits: int = 0
    mappings: tuple[Mapping, ...] = ()

    @property
    def delivered(self) -> Structure[Any]:
        """The nesting of an example after the last function."""
        return self.mappings[-1].makes if self.mappings else self.structure

    def check_on_disk(self, why: str) -> None:
        """Refuse arrays in RAM, which have no path.

        Raises
        ------
        OptionError
            With `why` they are refused.
        """
        for component in self.components:
            if component.kind == "arrays":
                raise OptionError(
                    f"{component.name or 'data'} is an array in RAM: {why}; save the array with np.save and open the "
                    f"flow from the file"
                )

    def open(self) -> Examples:
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
                f"components must have one row an example each: {found}; cut or fix the longer ones, or say with axis= "
                f"along which the examples lie"
            )
        return Examples(sources, _crops(self.components, sources), self.mappings)


def _crops(components: tuple[Component, ...], sources: SourceSet) -> CropPlan | None:
    """Where the regions lie: the same in all components that are cropped."""
    cropped = [
        (component.name or "data", source)
        for component, source in zip(components, sources.sources, strict=True)
        if isinstance(source, CropSource)
    ]
    if not cropped:
        return None
    (first_name, first), *others = cropped
    sizes = _cropped_sizes(first)
    for name, source in others:
        if source.crop.whereabouts != first.crop.whereabouts:
            raise OptionError(
                f"crop: {first_name} has {first.crop}, {name} has {source.crop}; components are cropped at the same "
                f"place: let them differ in pad=, access= and axes that are taken whole, and in nothing else"
            )
        odd = np.flatnonzero((_cropped_sizes(source) != sizes).any(axis=1))
        if odd.size:
            shown = examples(
                (
                    f"{first.table.show(at)} {first.table.header(at).shape} and "
                    f"{source.table.show(at)} {source.table.header(at).shape}"
                    for at in odd.tolist()
                ),
                3,
            )
            raise ShapeMismatchError(
                f"crop: {first_name} and {name} differ along the cropped axes in {len(odd):,} of "
                f"{plural(len(source), 'file')}: {shown}; a region must be the same in both"
            )
    return CropPlan(sizes, first.crop)


def _cropped_sizes(source: CropSource) -> np.ndarray[Any, Any]:
    return stored_shapes(source.table)[:, list(source.crop.axes)]
