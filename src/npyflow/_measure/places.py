"""Where the bytes of some examples lie: what a stage opens and reads."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._sources.rows import RowSource
from npyflow._sources.windows import WindowSource

if TYPE_CHECKING:
    from npyflow._flow.view import View
    from npyflow._format.header import Header
    from npyflow._sources.component import AnySource, Component
    from npyflow._sources.table import FileTable

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Bytes of one example in one file.

    Parameters
    ----------
    path : bytes
    header : Header
        Of the array that they belong to.
    head_start : int
        First byte of that header; -1 where it is compressed with the rest.
    start, size : int
        The bytes.
    packed : bool
        They are to be inflated.
    """

    path: bytes
    header: Header
    head_start: int
    start: int
    size: int
    packed: bool = False


def pieces_of_files(table: FileTable, items: Array) -> list[Piece]:
    """The whole arrays `items` of a table."""
    found = []
    for at in items.tolist():
        header, span = table.header(at), table.span(at)
        packed = span.packed >= 0
        found.append(
            Piece(
                path=os.fsencode(table.paths[at]),
                header=header,
                head_start=-1 if packed else span.start,
                start=span.start if packed else span.start + header.offset,
                size=span.packed if packed else header.payload_bytes,
                packed=packed,
            )
        )
    return found


def pieces_of_rows(component: Component, source: AnySource, rows: Array) -> list[Piece]:
    """The bytes of some rows, the first piece of each; none where rows are not read one by one from files."""
    table = component.table
    if table is None or not isinstance(source, RowSource | WindowSource) or table.packed():
        return []
    inner = source if isinstance(source, RowSource) else None
    if inner is None or inner.pieces > 1:
        return []
    found = []
    numbers = np.searchsorted(inner.starts[1:], rows, side="right").tolist()
    for row, number in zip(rows.tolist(), numbers, strict=True):
        header, span = table.header(number), table.span(number)
        size = header.payload_bytes // max(1, header.shape[component.axis])
        found.append(
            Piece(
                path=os.fsencode(table.paths[number]),
                header=header,
                head_start=span.start,
                start=span.start + header.offset + (row - int(inner.starts[number])) * size,
                size=size,
            )
        )
    return found


def pieces_of(view: View, component: Component, source: AnySource, rows: Array) -> list[Piece]:
    """What the examples `rows` of the data set consist of, in this component, as far as it can be named."""
    table = component.table
    if table is None or component.crop is not None:
        return []
    if component.kind == "files":
        return pieces_of_files(table, view.items(rows))
    return pieces_of_rows(component, source, rows) if component.kind == "rows" else []
