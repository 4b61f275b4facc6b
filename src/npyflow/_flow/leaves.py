"""What a leaf of the data turns out to be: arrays on disk, or in RAM."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from npyflow._core.buffers import BufferPool
from npyflow._core.errors import MissingFileError, NpyflowError, OptionError
from npyflow._core.structure import spread
from npyflow._core.text import examples
from npyflow._flow.expand import deliveries, field_trees, graft
from npyflow._flow.npz import Member
from npyflow._sources.component import Component
from npyflow._sources.listing import as_path_text, expand
from npyflow._sources.rows import RowSource
from npyflow._sources.scan import Scan, raise_bad, scan
from npyflow._sources.table import FileTable, concat

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from npyflow._core.structure import Structure
    from npyflow._flow.expand import Stored

Array = np.ndarray[Any, Any]


class Leaf(NamedTuple):
    """What one leaf of the data turned out to be: arrays on disk, or in RAM; and what is wrong with its files."""

    table: FileTable | None
    arrays: tuple[Any, ...]
    bad: list[NpyflowError]

    @property
    def total(self) -> int:
        """Number of files, good and bad."""
        return len(self.bad) + (0 if self.table is None else self.table.file_count)

    def stored(self, name: str) -> Stored:
        """The dtypes that it has."""
        if self.table is not None:
            return self.table.dtypes(name or "data")
        return [(np.asarray(array).dtype, name or "data") for array in self.arrays]

    @property
    def kind(self) -> Literal["arrays", "rows"]:
        """What kind of component it is."""
        return "arrays" if self.table is None else "rows"


def find_leaf(label: str, leaf: Any, look: Callable[[list[str]], Scan]) -> Leaf:
    """Tell arrays on disk from arrays in RAM; a list may hold several of either."""
    items = leaf if isinstance(leaf, list) else [leaf]
    texts = [as_path_text(item) for item in items]
    if items and all(isinstance(item, Member) or text is not None for item, text in zip(items, texts, strict=True)):
        bad: list[NpyflowError] = []
        tables = [
            item.table if isinstance(item, Member) else _expanded(text or "", look, bad)
            for item, text in zip(items, texts, strict=True)
        ]
        return Leaf(concat(tables), (), bad)
    if items and all(hasattr(item, "__array__") for item in items):
        return Leaf(None, tuple(items), [])
    kinds = examples(sorted({type(item).__name__ for item in items}))
    got = f"a list of {kinds or 'nothing'}" if isinstance(leaf, list) else type(leaf).__name__
    raise OptionError(
        f"{label}: expected a path, an array, a member of an npyflow.npz, or a list of paths or of arrays, got {got}; "
        f"numbers in a list are no array: wrap them in np.asarray"
    )


def _expanded(text: str, look: Callable[[list[str]], Scan], bad: list[NpyflowError]) -> FileTable:
    """The good files that a path or pattern names; what is wrong with others goes to `bad`."""
    try:
        paths = expand(text)
    except MissingFileError as error:
        bad.append(error)
        paths = []
    found = look(paths)
    bad += found.bad.values()
    return found.tables[0]


def read_whole(label: str, given: Any) -> Array:
    """Return the values of an array in RAM, of a file or of a member of an `npz`, along its first axis.

    Raises
    ------
    NpyflowError
        If it cannot be read.
    """
    leaf = find_leaf(label, np.asarray(given) if isinstance(given, list) else given, scan)
    raise_bad(leaf.bad, leaf.total)
    pool = BufferPool(keep_bytes=0)
    source = Component(name=label, kind=leaf.kind, table=leaf.table, arrays=leaf.arrays).open(pool)
    out = np.empty((len(source), *source.specs[0].fixed_shape), source.specs[0].dtype)
    if not isinstance(source, RowSource):
        raise OptionError(f"{label}: expected rows of one array")
    source.read_into(np.arange(len(source)), [out])
    source.close()
    return out


def components_of(
    leaves: Sequence[Leaf], structure: Structure[Any], *, fields: Any, dtype: Any, axis: Any, access: Any
) -> tuple[list[Component], Structure[Any]]:
    """Return a component for each leaf of `structure`, and the structure with the fields of each in its place.

    Raises
    ------
    OptionError, ShapeMismatchError
        If an option does not fit the data.
    """
    names = structure.names
    trees = field_trees(fields, structure, [leaf.stored(name) for leaf, name in zip(leaves, names, strict=True)])
    whole = graft(structure, trees)
    wanted = deliveries(trees, whole, dtype)
    axes, accesses = spread(axis, structure, "axis"), spread(access, structure, "access")
    components = [
        Component(
            name=names[at],
            kind=leaf.kind,
            table=leaf.table,
            arrays=leaf.arrays,
            delivery=wanted[at],
            access=accesses[at] or "auto",
            axis=_axis(axes[at]),
        )
        for at, leaf in enumerate(leaves)
    ]
    return components, whole


def _axis(value: Any) -> int:
    try:
        return operator.index(0 if value is None else value)
    except TypeError:
        raise OptionError(f"axis={value!r}: expected an integer") from None
