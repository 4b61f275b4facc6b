"""Facts about many arrays on disk, a column each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from npyflow._core.errors import FileChangedError
from npyflow._core.text import show_array

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from npyflow._core.dtypes import DType
    from npyflow._format.header import Header

Array = np.ndarray[Any, Any]


class Span(NamedTuple):
    """Where one array lies in a file that holds more than it.

    Parameters
    ----------
    member : str or None
        Its name in an archive; None in a ``.npy`` file.
    start : int
        First byte of it, which is the first of its header if it is stored as it is.
    file_size : int
        Bytes of the whole file.
    packed : int
        Compressed bytes; -1 if it is stored as it is.
    crc : int
        CRC-32 of header and payload; -1 if there is none.
    """

    member: str | None
    start: int
    file_size: int
    packed: int = -1
    crc: int = -1


# Of a file whose content is known by a checksum, wherever it is copied to.
UNTIMED = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTable:
    """Facts about many arrays, each in a file of its own or inside one.

    Parameters
    ----------
    paths : list of str
        As given; undecodable bytes are kept as surrogates.
    mtimes : int64 array (files,)
        Modification times in nanoseconds; `UNTIMED` where it does not count, since a copy of the data has another one.
    kinds : int64 array (files,)
        Which of `headers` each array has.
    headers : tuple of Header
        The different headers; usually one.
    spans : list of Span, optional
        Where the arrays lie. None if every file is one ``.npy`` array: its size is its header's offset plus payload.
    """

    paths: list[str]
    mtimes: Array
    kinds: Array
    headers: tuple[Header, ...]
    spans: list[Span] | None = None

    def __len__(self) -> int:
        return len(self.paths)

    def header(self, at: int) -> Header:
        """The header of array `at`."""
        return self.headers[int(self.kinds[at])]

    def span(self, at: int) -> Span:
        """Where array `at` lies."""
        if self.spans is not None:
            return self.spans[at]
        header = self.header(at)
        return Span(None, 0, header.offset + header.payload_bytes)

    def show(self, at: int) -> str:
        """Array `at` as it is printed."""
        return show_array(self.paths[at], self.span(at).member)

    def dtypes(self, name: str) -> list[tuple[DType, str]]:
        """The dtype of each of `headers`, and where it is met first, for messages about the component `name`."""
        firsts = np.unique(self.kinds, return_index=True)[1].tolist()
        return [
            (header.dtype, f"{name}: {self.show(first)}") for header, first in zip(self.headers, firsts, strict=True)
        ]

    def kinds_by(self, what: Callable[[Header], str]) -> list[tuple[str, Array]]:
        """Group the arrays by what `what` calls their headers; the largest group first."""
        groups: dict[str, list[int]] = {}
        for number, header in enumerate(self.headers):
            groups.setdefault(what(header), []).append(number)
        found = [(name, np.flatnonzero(np.isin(self.kinds, numbers))) for name, numbers in groups.items()]
        return sorted(found, key=lambda group: -len(group[1]))

    @property
    def file_count(self) -> int:
        """Number of files; several arrays may lie in one."""
        return len(self.paths) if self.spans is None else len(set(self.paths))

    def packed(self) -> list[int]:
        """Which arrays are compressed."""
        return [] if self.spans is None else [at for at, span in enumerate(self.spans) if span.packed >= 0]

    def select(self, rows: Array) -> FileTable:
        """The table of the arrays `rows`, in that order, with the headers that they still have."""
        used, kinds = np.unique(self.kinds[rows], return_inverse=True)
        return FileTable(
            paths=[self.paths[at] for at in rows.tolist()],
            mtimes=self.mtimes[rows],
            kinds=kinds.reshape(-1),
            headers=tuple(self.headers[at] for at in used.tolist()),
            spans=None if self.spans is None else [self.spans[at] for at in rows.tolist()],
        )

    def check_unchanged(self, at: int, stat: os.stat_result) -> None:
        """Compare a file's size and time with the scan's.

        Raises
        ------
        FileChangedError
            If one differs.
        """
        size = self.span(at).file_size
        if stat.st_size != size:
            raise self.changed(at, f"expected {size:,} bytes, found {stat.st_size:,}")
        if self.mtimes[at] not in (UNTIMED, stat.st_mtime_ns):
            raise self.changed(at, "it has another modification time")

    def changed(self, at: int, what: str) -> FileChangedError:
        """The error for an array that is not the one that was scanned."""
        return FileChangedError(
            f"{self.show(at)} changed after it was scanned: {what}; open the flow again",
            path=self.paths[at],
            member=self.span(at).member,
            kind="changed",
        )


class TableBuilder:
    """Collects arrays one by one into a `FileTable`."""

    def __init__(self) -> None:
        self._paths: list[str] = []
        self._mtimes: list[int] = []
        self._kinds: list[int] = []
        self._spans: list[Span | None] = []
        self._numbers: dict[bytes, int] = {}
        self._headers: list[Header] = []

    def add(self, path: str, mtime: int, header: Header, span: Span | None) -> None:
        """Add an array; `span` is None if it is all there is in its file."""
        number = self._numbers.get(header.raw)
        if number is None:
            number = self._numbers[header.raw] = len(self._headers)
            self._headers.append(header)
        self._paths.append(path)
        self._mtimes.append(mtime)
        self._kinds.append(number)
        self._spans.append(span)

    def table(self) -> FileTable:
        """Return what was collected."""
        table = FileTable(
            paths=self._paths,
            mtimes=np.array(self._mtimes, np.int64),
            kinds=np.array(self._kinds, np.int64),
            headers=tuple(self._headers),
        )
        if all(span is None for span in self._spans):
            return table
        return FileTable(
            paths=table.paths,
            mtimes=table.mtimes,
            kinds=table.kinds,
            headers=table.headers,
            spans=[table.span(at) if span is None else span for at, span in enumerate(self._spans)],
        )


def concat(tables: Sequence[FileTable]) -> FileTable:
    """The arrays of several tables, one table after another."""
    if len(tables) == 1:
        return tables[0]
    builder = TableBuilder()
    for table in tables:
        for at, path in enumerate(table.paths):
            span = None if table.spans is None else table.spans[at]
            builder.add(path, int(table.mtimes[at]), table.header(at), span)
    return builder.table()
