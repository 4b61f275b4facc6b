"""What there is on disk: files, sizes, shapes, dtypes, classes."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.dtypes import show_dtype
from npyflow._core.errors import OptionError
from npyflow._measure.result import Census

if TYPE_CHECKING:
    from collections.abc import Iterable

    from npyflow._flow.view import View
    from npyflow._sources.component import Component
    from npyflow._sources.table import FileTable

Array = np.ndarray[Any, Any]

# More kinds than that are one line, "others".
_MOST_KINDS = 200
# Labels of more examples are not read for their own sake.
_MOST_LABELS = 5_000_000


def take_census(view: View) -> Census:
    """Count what a flow consists of, from what is known of its files; labels alone are read."""
    sizes = file_sizes(tables_of(view))
    edges, counts = _histogram(np.array(list(sizes.values()), np.int64))
    shapes, dtypes = _kinds(view)
    leaves = [str(leaf) for leaf in view.structure.leaves]
    specs = zip(leaves, view.examples.specs, strict=True)
    return Census(
        files=len(sizes),
        edges=edges,
        counts=counts,
        shapes=_most(shapes),
        dtypes=_most(dtypes),
        classes=_classes(view),
        components=tuple(
            {"name": name, "dtype": show_dtype(spec.dtype), "shape": show_shape(spec.shape)} for name, spec in specs
        ),
    )


def tables_of(view: View) -> list[FileTable]:
    """The files of each component that has some; of a part of a flow, where a file is an example, those alone."""
    return [own_table(view, component) for component in view.content.components if component.table is not None]


def own_table(view: View, component: Component) -> FileTable:
    """The files of one component that belong to the examples of `view`."""
    table = component.table
    if table is None:
        raise OptionError(f"{component.name or 'data'} has no files")
    if component.kind != "files" or view.selection is None:
        return table
    return table.select(np.unique(view.items(view.rows())))


def file_sizes(tables: Iterable[FileTable]) -> dict[str, int]:
    """The size of each distinct file."""
    sizes: dict[str, int] = {}
    for table in tables:
        if table.spans is None:
            whole = [header.offset + header.payload_bytes for header in table.headers]
            sizes.update(zip(table.paths, (whole[kind] for kind in table.kinds.tolist()), strict=True))
        else:
            sizes.update((path, span.file_size) for path, span in zip(table.paths, table.spans, strict=True))
    return sizes


def show_shape(shape: tuple[int | None, ...]) -> str:
    """A shape as people write it; ``?`` where examples differ."""
    inside = ", ".join("?" if size is None else str(size) for size in shape)
    return f"({inside},)" if len(shape) == 1 else f"({inside})"


def _histogram(sizes: Array) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sizes by powers of two; all of one size are one bar."""
    if not len(sizes):
        return (), ()
    low, high = int(sizes.min()), int(sizes.max())
    edges = [1 << at for at in range(max(0, low.bit_length() - 1), high.bit_length() + 1)]
    if low == high:
        edges = [low, low + 1]
    counts = np.histogram(sizes, np.array(edges, np.float64))[0]
    return tuple(edges), tuple(counts.tolist())


def _kinds(view: View) -> tuple[Counter[str], Counter[str]]:
    """The arrays of each shape and each dtype, as stored: of files one each, of rows one an example."""
    shapes: Counter[str] = Counter()
    dtypes: Counter[str] = Counter()
    for component, source in zip(view.content.components, view.examples.sources.sources, strict=True):
        table = component.table
        if table is not None and component.kind == "files":
            _count_files(own_table(view, component), shapes, dtypes)
        if component.kind in ("files", "labels"):
            continue
        for spec in source.specs:
            shapes[show_shape(spec.shape)] += len(view)
        stored = [array.dtype for array in component.arrays] if table is None else [h.dtype for h in table.headers]
        dtypes[_show_stored(stored[0]) if stored else show_dtype(source.specs[0].dtype)] += len(view)
    return shapes, dtypes


def _count_files(table: FileTable, shapes: Counter[str], dtypes: Counter[str]) -> None:
    counts = np.bincount(table.kinds, minlength=len(table.headers)).tolist()
    for header, count in zip(table.headers, counts, strict=True):
        order = ", Fortran order" if header.strided else ""
        shapes[show_shape(header.shape)] += count
        dtypes[_show_stored(header.dtype) + order] += count


def _show_stored(dtype: np.dtype[Any]) -> str:
    order = ", big-endian" if not dtype.isnative and dtype.names is None else ""
    return show_dtype(dtype) + order


def _most(counts: Counter[str]) -> tuple[tuple[str, int], ...]:
    """The most frequent first; the rare ones together."""
    ordered = counts.most_common()
    rest = sum(count for _, count in ordered[_MOST_KINDS:])
    return (*ordered[:_MOST_KINDS], *([("others", rest)] if rest else []))


def _classes(view: View) -> tuple[tuple[str, int], ...]:
    """How many examples each class has, if there are labels that are classes."""
    names = view.content.classes
    if len(view) > _MOST_LABELS or not len(view):
        return ()
    labels = view.labels()
    if labels is None or labels.dtype.kind == "f":
        return ()
    values, counts = np.unique(labels, return_counts=True)
    if len(values) > max(50, math.isqrt(len(labels))) and names is None:
        # So many different ones are no classes.
        return ()
    shown = [names[int(value)] if names and labels.dtype.kind in "iu" else _label(value) for value in values]
    order = np.argsort(-counts, kind="stable").tolist()
    return tuple((shown[at], int(counts[at])) for at in order)


def _label(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
