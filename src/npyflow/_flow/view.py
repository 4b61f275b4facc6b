"""The examples of a flow by number: what it holds, which of them, and the open sources."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.text import show_path
from npyflow._read.examples import Examples
from npyflow._sources.component import varies
from npyflow._sources.crops import CropSource
from npyflow._sources.windows import WindowSource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npyflow._core.structure import Structure
    from npyflow._flow.content import Content
    from npyflow._sources.windows import Windows

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class View:
    """Some examples of a data set.

    Parameters
    ----------
    content : Content
        The data set.
    selection : int64 array, range or None
        The rows of the data set that are the examples; None for all of them. A range takes no memory.
    examples : Examples
        The open sources.
    """

    content: Content
    selection: Array | range | None
    examples: Examples

    def __len__(self) -> int:
        return len(self.examples) if self.selection is None else len(self.selection)

    @property
    def structure(self) -> Structure[Any]:
        """The nesting of an example; leaves are names."""
        return self.content.delivered

    def with_content(self, content: Content) -> View:
        """The same examples, with other notes or functions."""
        examples = Examples(self.examples.sources, self.examples.crops, content.mappings)
        return View(content=content, selection=self.selection, examples=examples)

    def part(self, indices: Array | range) -> View:
        """The examples `indices`: int64, or a range of neighbours."""
        if isinstance(indices, np.ndarray):
            selection: Array | range = self.rows(indices)
        elif isinstance(self.selection, np.ndarray):
            selection = self.selection[indices.start : indices.stop]
        else:
            start = 0 if self.selection is None else self.selection.start
            selection = range(start + indices.start, start + indices.stop)
        return View(content=self.content, selection=selection, examples=self.examples)

    def noted_part(self, indices: Array | range, note: str) -> View:
        """The same after a split, with a word in the report on how it came about."""
        content = self.content
        report = replace(content.report, notes=(*content.report.notes, note))
        return self.part(indices).with_content(replace(content, report=report, splits=content.splits + 1))

    def rows(self, indices: Array | None = None) -> Array:
        """The rows of the data set that the examples `indices` are; of all of them by default."""
        if indices is None:
            indices = np.arange(len(self), dtype=np.int64)
        if isinstance(self.selection, range):
            return indices + self.selection.start
        return indices if self.selection is None else self.selection[indices]

    @property
    def windows(self) -> Windows | None:
        """Where windows lie, if the examples are that."""
        first = self.examples.sources.sources[0]
        return first.windows if isinstance(first, WindowSource) else None

    def items(self, rows: Array) -> Array:
        """The file, series or row that each of `rows` is from."""
        if self.windows is not None:
            return self.windows.locate(rows)[0]
        return self.examples.items(rows)

    @property
    def keys(self) -> Sequence[str] | Array:
        """The key of each example; without keys the row numbers, int64."""
        keys = self.content.keys
        if keys is None:
            return self.rows()
        items = self.items(self.rows())
        if self.windows is None and self.examples.crops is None:
            return keys if self.selection is None else tuple(keys[at] for at in items.tolist())
        return np.array(keys, object)[items]

    def name(self, index: int) -> str:
        """An example for messages."""
        keys, row = self.content.keys, self.rows(np.array([index]))
        if keys is None:
            return f"example {index}" + ("" if self.selection is None else f" (row {int(row[0])})")
        step = "" if self.windows is None else f" from step {int(self.windows.locate(row)[1][0]):,}"
        return f"example {index} ({show_path(keys[int(self.items(row)[0])])}{step})"

    def positions(self, epoch: int) -> Array | None:
        """Where each window begins ``(examples,)``, or each crop ``(examples, axes)``; None if neither."""
        rows = self.rows()
        if self.windows is not None:
            return self.windows.locate(rows)[1]
        crops = self.examples.crops
        return None if crops is None else crops.corners(rows, np.arange(len(rows)), epoch)

    def labels(self) -> Array | None:
        """The label of each example: the second item of a tuple, if it is a single whole number, bool or text."""
        tree = self.content.structure.tree
        if not isinstance(tree, tuple) or len(tree) not in (2, 3) or isinstance(tree[1], tuple | dict):
            return None
        leaf = self.content.structure.leaves.index(tree[1])
        source: Any
        source, spec = self.examples.sources.leaves[leaf]
        if varies(source) or isinstance(source, CropSource) or len(source.specs) != 1:
            return None
        if spec.shape or spec.dtype.kind not in "biufUS":
            return None
        self.examples.sources.check_open()
        out = np.zeros(len(self), spec.dtype)
        source.read_into(self.items(self.rows()) if self.windows is None else self.rows(), [out])
        # Fractions are no classes.
        return None if out.dtype.kind == "f" and (out != np.floor(out)).any() else out
