"""Read every header, check every size, report every bad file."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.errors import BadFilesError, NpyflowError
from npyflow._core.text import plural
from npyflow._sources.archives import ARCHIVE_MAGICS, damaged
from npyflow._sources.diagnosis import first_of_its_kind, read_whole_header, wrong_size
from npyflow._sources.scanner import Names, Scanner, look_into
from npyflow._sources.table import FileTable, Span, TableBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from npyflow._format.header import Header

Array = np.ndarray[Any, Any]

_LISTED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What a scan found.

    Parameters
    ----------
    tables : tuple of FileTable
        For each of the wanted members, the good files in the order of the paths.
    good : int64 array
        Their positions among the paths.
    bad : dict of int to NpyflowError
        Position among the paths, and what is wrong there.
    members : Counter of tuple of str
        Which sets of names the archives hold, and how many of them; empty if no member was asked for.
    """

    tables: tuple[FileTable, ...]
    good: Array
    bad: dict[int, NpyflowError]
    members: Counter[tuple[str, ...]] = field(default_factory=Counter)


def scan(paths: Sequence[str], members: Sequence[Names] = (None,)) -> Scan:
    """Read the header of every file and check its size against it; payloads are not read.

    The files whose header bytes were seen before (all but one, as a rule) are not parsed again.

    Parameters
    ----------
    paths : sequence of str
        Whether one is ``.npy`` or ``.npz`` is decided by what is in it.
    members : sequence of list of str or None
        Which arrays of each archive; None is the only one, and the array of a ``.npy`` file.
    """
    scanner = Scanner(members)
    builders = [TableBuilder() for _ in members]
    good: list[int] = []
    bad: dict[int, NpyflowError] = {}
    for at, path in enumerate(paths):
        try:
            mtime, found = scanner.look(path)
        except NpyflowError as error:
            bad[at] = error
        else:
            good.append(at)
            for builder, (header, span) in zip(builders, found, strict=True):
                builder.add(path, mtime, header, span)
    return Scan(
        tables=tuple(builder.table() for builder in builders),
        good=np.array(good, np.int64),
        bad=bad,
        members=scanner.sets,
    )


def scan_appended(paths: Sequence[str]) -> Scan:
    """Read the headers of files that hold one array after another, as ``np.save`` to one open handle leaves them."""
    builder = TableBuilder()
    bad: dict[int, NpyflowError] = {}
    for at, path in enumerate(paths):
        try:
            stat, found = look_into(path, lambda fd, path, stat, _: (stat, list(_appended(fd, path, stat.st_size))))
        except NpyflowError as error:
            bad[at] = error
            continue
        for number, (header, start) in enumerate(found):
            builder.add(path, stat.st_mtime_ns, header, Span(f"array {number}", start, stat.st_size))
    good = [at for at in range(len(paths)) if at not in bad]
    return Scan(tables=(builder.table(),), good=np.array(good, np.int64), bad=bad)


def _appended(fd: int, path: str, file_size: int) -> Iterator[tuple[Header, int]]:
    """Each array of a file, and where it begins."""
    start = 0
    number = 0
    while start < file_size or start == 0:
        rest = Span(f"array {number}" if number else None, 0, file_size - start)
        text, _ = read_whole_header(fd, start, rest.file_size)
        if text.startswith(ARCHIVE_MAGICS):
            raise damaged(path, rest.member, "is an archive; open it without appended=", kind="zip")
        header = first_of_its_kind(path, text, rest)
        if header.offset + header.payload_bytes > rest.file_size:
            raise wrong_size(path, header, rest)
        yield header, start
        start += header.offset + header.payload_bytes
        number += 1


def raise_bad(bad: Sequence[NpyflowError], total: int, what: str = "file") -> None:
    """Raise one error for all bad files, or return if there is none.

    Raises
    ------
    NpyflowError
        The problem itself if there is one, else a `BadFilesError` that lists them.
    """
    if not bad:
        return
    if len(bad) == 1:
        raise bad[0]
    lines = [f"  {error}" for error in bad[:_LISTED]]
    if len(bad) > _LISTED:
        lines.append(f"  … and {len(bad) - _LISTED:,} more")
    raise BadFilesError(
        f"{len(bad):,} of {plural(total, what)} cannot be used (all are in .problems):\n" + "\n".join(lines),
        problems=bad,
    )
