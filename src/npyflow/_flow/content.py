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
from npyflow._sources.crops import check_rank
from npyflow._sources.files import check_agree, stored_shapes
from npyflow._sources.report import Report

if TYPE_CHECKING:
    from npyflow._core.options import Crop
    from npyflow._core.structure import Structure
    from npyflow._read.mapping import Mapping
    from npyflow._sources.table import FileTable


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
        crops = _crops(self.components)
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
        return Examples(sources, crops, self.mappings)


def _crops(components: tuple[Component, ...]) -> CropPlan | None:
    """Where the regions lie: the same in all components that are cropped."""
    for one in components:
        if one.crop and one.table:
            check_agree(one.table, one.delivery, one.name or "data")
    cropped = [(one.name or "data", one.crop, one.table) for one in components if one.crop and one.table]
    if not cropped:
        return None
    (first_name, first, first_table), *others = cropped
    sizes = _cropped_sizes(*cropped[0])
    for name, crop, table in others:
        if crop.whereabouts != first.whereabouts:
            raise OptionError(
                f"crop: {first_name} has {first}, {name} has {crop}; components are cropped at the same place: let "
                f"them differ in pad=, access= and axes that are taken whole, and in nothing else"
            )
        odd = np.flatnonzero((_cropped_sizes(name, crop, table) != sizes).any(axis=1))
        if odd.size:
            tables = (first_table, table)
            pairs = ([f"{one.show(at)} {one.header(at).shape}" for one in tables] for at in odd.tolist())
            shown = examples(map(" and ".join, pairs), 3)
            raise ShapeMismatchError(
                f"crop: {first_name} and {name} differ along the cropped axes in {len(odd):,} of "
                f"{plural(len(table), 'file')}: {shown}; a region must be the same in both: pass a Crop "
                f"for each, with None for an axis that is taken whole"
            )
    return CropPlan(sizes, first)


def _cropped_sizes(name: str, crop: Crop, table: FileTable) -> np.ndarray[Any, Any]:
    check_rank(table, crop, name)
    return stored_shapes(table)[:, list(crop.axes)]
