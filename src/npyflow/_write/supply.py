"""The examples of a flow as a job reads them: in order, some at a time, and nothing but the part that it needs."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.errors import CastError
from npyflow._core.spec import ArraySpec
from npyflow._flow.padding import Lengths, plan_collators
from npyflow._format.schema import Column
from npyflow._order.schedule import Draw, plain_draw
from npyflow._read.collate import Flat

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from npyflow._flow.content import Content
    from npyflow._flow.view import View
    from npyflow._sources.component import Component
    from npyflow._write.base import Columns

Array = np.ndarray[Any, Any]

# Read, written and compared together: less than the processor's cache holds.
CHUNK_BYTES = 4 << 20
_MOST_TOGETHER = 8192
# Shapes that only a function knows are guessed from so many examples.
_TRIED = 16
# Part of the names of files.
_LONGEST_NAME = 100


def columns_of(view: View) -> tuple[Column, ...]:
    """A column for each component, under names that every format and file system takes."""
    labelled = dict(zip(view.content.structure.names, view.content.structure.leaves, strict=True))
    specs = view.examples.specs
    return tuple(
        Column(name=name, spec=spec)
        for name, spec in zip(column_names(view.structure.names, labelled), specs, strict=True)
    )


def column_names(names: Sequence[str], known: dict[str, str] | None = None) -> list[str]:
    """Return unique names of letters, digits, ``_``, ``-`` and ``.`` for the components `names`.

    Parameters
    ----------
    names : sequence of str
        As `Structure.names` has them.
    known : dict, optional
        Better names for some: of a tuple's items, which otherwise have numbers.
    """
    found: list[str] = []
    for name in names:
        better = (known or {}).get(name, name)
        plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", better).strip("_.-")[:_LONGEST_NAME] or "data"
        # What stands beside the values of a column that varies is called so.
        plain = re.sub(r"\.(offsets|shapes)$", r"_\1", plain)
        plain = f"item{plain}" if plain[0].isdigit() else plain
        # A disk may take upper and lower case for the same.
        taken = {one.lower() for one in found}
        unique, number = plain, 2
        while unique.lower() in taken:
            unique, number = f"{plain}_{number}", number + 1
        found.append(unique)
    return found


def element_counts(view: View) -> list[Array]:
    """The number of elements of each example, int64 ``(examples,)``, a column at a time.

    From headers alone; after a function whose results vary in shape, from a few examples.
    """
    counts = []
    for leaf, spec in enumerate(view.examples.specs):
        if not spec.varying:
            counts.append(np.full(len(view), ArraySpec(spec.shape, np.dtype("u1")).nbytes, np.int64))
        elif view.examples.mappings:
            counts.append(np.full(len(view), _guessed_elements(view, leaf), np.int64))
        else:
            counts.append(view.examples.shapes(leaf, view.rows()).prod(axis=1))
    return counts


def _guessed_elements(view: View, leaf: int) -> int:
    tried = np.unique(np.linspace(0, len(view) - 1, _TRIED).astype(np.int64))
    read = view.examples.each(view.rows(tried), plain_draw(tried), view.name)
    return 1 + int(np.mean([leaves[leaf].size for leaves in read]))


def chunk_counts(example_bytes: Array) -> list[int]:
    """Cut neighbouring examples into chunks of about `CHUNK_BYTES`: how many are in each."""
    ends = np.cumsum(example_bytes)
    counts: list[int] = []
    start = 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        stop = int(np.searchsorted(ends, before + CHUNK_BYTES, side="right"))
        counts.append(min(max(1, stop - start), _MOST_TOGETHER))
        start += counts[-1]
    return counts


def read_columns(view: View, columns: Sequence[Column], counts: Sequence[int], first: int = 0) -> Iterator[Columns]:
    """Read a flow from its beginning, so many examples at a time, as they are in epoch 0.

    Parameters
    ----------
    view : View
        All examples, or some, which may agree in a shape in which all together vary.
    columns : sequence of Column
        What all have.
    counts : sequence of int
        How many at a time.
    first : int
        What number the first has in the flow that this is a part of; the random numbers of functions depend on it.

    Raises
    ------
    CastError
        If a function makes a longer text than any before.
    """
    collators = plan_collators(
        view.examples.specs,
        view.structure,
        pad=None,
        ragged=True,
        single=False,
        lengths=Lengths(shapes=lambda _: None, edges=lambda _: None, where=view.name),
    )
    start = 0
    for count in counts:
        indices = np.arange(start, start + count)
        draw = Draw(epoch=0, indices=indices, numbers=indices + first)
        opened = view.examples.batch(view.rows(indices), draw, collators, view.name)
        read: Columns = [
            list(one.views if isinstance(collator, Flat) else one.arrays[0]) if column.spec.varying else one.arrays[0]
            for one, collator, column in zip(opened, collators, columns, strict=True)
        ]
        for column, values in zip(columns, read, strict=True):
            _check_width(column, values, start, view)
        yield read
        start += count


def _check_width(column: Column, values: Array | list[Array], start: int, view: View) -> None:
    """Refuse text that is wider than its column: only a function makes that."""
    width = column.spec.dtype.itemsize
    arrays = values if isinstance(values, list) else [values]
    if column.spec.dtype.kind not in "US" or all(array.dtype.itemsize <= width for array in arrays):
        return
    for at, value in enumerate(values):
        longest = int(np.char.str_len(value).max(initial=0))
        if longest * np.dtype(f"{column.spec.dtype.kind}1").itemsize > width:
            room = width // np.dtype(f"{column.spec.dtype.kind}1").itemsize
            raise CastError(
                f"{column.name} of {view.name(start + at)}: text of {longest:,} characters, where map() was said, "
                f"or seen, to make at most {room:,}; pass it spec= with a text that is wide enough",
                index=start + at,
            )


def narrowed(view: View, start: int, stop: int) -> tuple[Content, Array | range | None]:
    """The examples ``[start, stop)``: where it is possible as a data set of their own, which is less to send."""
    content, part = view.content, view.part(range(start, stop))
    components = content.components
    of_files = all(one.kind in ("files", "labels") and one.crop is None for one in components)
    if not of_files or content.mappings or content.keys is None:
        return content, part.selection
    rows = part.rows()
    less = replace(
        content,
        components=tuple(_narrow(one, rows) for one in components),
        keys=tuple(content.keys[row] for row in rows.tolist()),
    )
    return less, None


def _narrow(component: Component, rows: Array) -> Component:
    return replace(
        component,
        table=None if component.table is None else component.table.select(rows),
        arrays=tuple(array[rows] for array in component.arrays),
        extents=None if component.extents is None else component.extents[rows],
    )
