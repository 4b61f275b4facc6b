"""Read every header, check every size, report every bad file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from stat import S_ISREG
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.errors import (
    BadFilesError,
    FileChangedError,
    FileError,
    FileFormatError,
    MissingFileError,
    NpyflowError,
)
from npyflow._core.spec import check_supported
from npyflow._core.text import plural, show_path
from npyflow._format.header import FIRST_READ_BYTES, MAGIC, MAX_HEADER_BYTES, Header, header_bytes, parse_header
from npyflow._format.sniff import SNIFF_BYTES, identify
from npyflow._sources.fileio import open_for_read, read_start

if TYPE_CHECKING:
    from collections.abc import Sequence

Array = np.ndarray[Any, Any]

_LISTED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTable:
    """Facts about many ``.npy`` files, a column each.

    Parameters
    ----------
    paths : list of str
        As given; undecodable bytes are kept as surrogates.
    mtimes : int64 array (files,)
        Modification times in nanoseconds.
    kinds : int64 array (files,)
        Which of `headers` each file has.
    headers : tuple of Header
        The different headers; usually one. A file's size is its header's offset plus payload, so that is no column.
    """

    paths: list[str]
    mtimes: Array
    kinds: Array
    headers: tuple[Header, ...]

    def __len__(self) -> int:
        return len(self.paths)

    def header(self, at: int) -> Header:
        """The header of file `at`."""
        return self.headers[int(self.kinds[at])]

    def select(self, rows: Array) -> FileTable:
        """The table of the files `rows`, in that order, with the headers that they still have."""
        used, kinds = np.unique(self.kinds[rows], return_inverse=True)
        return FileTable(
            paths=[self.paths[at] for at in rows.tolist()],
            mtimes=self.mtimes[rows],
            kinds=kinds.reshape(-1),
            headers=tuple(self.headers[at] for at in used.tolist()),
        )

    def check_unchanged(self, at: int, stat: os.stat_result) -> None:
        """Compare a file's size and time with the scan's.

        Raises
        ------
        FileChangedError
            If one differs.
        """
        header = self.header(at)
        size = header.offset + header.payload_bytes
        if stat.st_size != size:
            raise changed(self.paths[at], f"expected {size:,} bytes, found {stat.st_size:,}")
        if stat.st_mtime_ns != self.mtimes[at]:
            raise changed(self.paths[at], "it has another modification time")


def changed(path: str, what: str) -> FileChangedError:
    """The error for a file that is not the one that was scanned."""
    return FileChangedError(f"{show_path(path)} changed after it was scanned: {what}; open the flow again", path=path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What a scan found.

    Parameters
    ----------
    table : FileTable
        The good files, in the order of the paths.
    good : int64 array
        Their positions among the paths.
    bad : dict of int to NpyflowError
        Position among the paths, and what is wrong there.
    """

    table: FileTable
    good: Array
    bad: dict[int, NpyflowError]


def scan(paths: Sequence[str]) -> Scan:
    """Read the header of every file and check its size against it; payloads are not read.

    The files whose header bytes were seen before (all but one, as a rule) are not parsed again.
    """
    mtimes: list[int] = []
    kinds: list[int] = []
    good: list[int] = []
    bad: dict[int, NpyflowError] = {}
    # Header bytes -> number of the header, and the file size that it calls for.
    known: dict[bytes, tuple[int, int]] = {}
    headers: list[Header] = []
    for at, path in enumerate(paths):
        try:
            start, stat = _read_start(path)
            raw = start[: header_bytes(start)]
            if raw not in known:
                header = _first_of_its_kind(path, start, stat.st_size)
                raw = header.raw
                known.setdefault(raw, (len(headers), header.offset + header.payload_bytes))
                headers.append(header)
            kind, size = known[raw]
            if stat.st_size != size:
                raise _wrong_size(path, headers[kind], stat.st_size)
        except NpyflowError as error:
            bad[at] = error
            continue
        mtimes.append(stat.st_mtime_ns)
        kinds.append(kind)
        good.append(at)
    table = FileTable(
        paths=[paths[at] for at in good] if bad else list(paths),
        mtimes=np.array(mtimes, np.int64),
        kinds=np.array(kinds, np.int64),
        headers=tuple(headers),
    )
    return Scan(table=table, good=np.array(good, np.int64), bad=bad)


def _read_start(path: str) -> tuple[bytes, os.stat_result]:
    try:
        fd = open_for_read(path)
        try:
            stat = os.fstat(fd)
            if not S_ISREG(stat.st_mode):
                raise FileFormatError(f"{show_path(path)} is no regular file; expected a .npy file", path=path)
            start = read_start(fd, FIRST_READ_BYTES)
            size = header_bytes(start)
            if size is not None and len(start) < size <= MAX_HEADER_BYTES:
                start = read_start(fd, size)
        finally:
            os.close(fd)
    except FileNotFoundError:
        raise MissingFileError(f"{show_path(path)}: no such file", path=path) from None
    except OSError as error:
        raise FileError(f"{show_path(path)}: {error.strerror}", path=path) from None
    return start, stat


def _first_of_its_kind(path: str, start: bytes, file_size: int) -> Header:
    """Parse a header that was not met before, or say what the file is instead."""
    where = show_path(path)
    size = header_bytes(start)
    if not start.startswith(MAGIC) or (size is None and len(start) < 12):
        what, advice = identify(start[:SNIFF_BYTES], file_size)
        raise FileFormatError(f"{where} is {what}; expected a .npy file; {advice}", path=path)
    if size is not None and size > MAX_HEADER_BYTES:
        raise FileFormatError(
            f"{where} says that its header has {size:,} bytes; expected at most {MAX_HEADER_BYTES:,}; "
            f"write it again with np.save",
            path=path,
        )
    if size is not None and size > file_size:
        raise FileFormatError(
            f"{where} is cut off inside its header: expected {size:,} bytes of header, found {file_size:,}; "
            f"write or download it again",
            path=path,
        )
    try:
        header = parse_header(start[:size])
    except FileFormatError as error:
        raise FileFormatError(f"{where}: {error}; write it again with np.save", path=path) from None
    if header.dtype.hasobject:
        # Before the size is looked at: pickles have any size.
        check_supported(header.dtype, where)
    return header


def _wrong_size(path: str, header: Header, found: int) -> FileFormatError:
    expected = header.offset + header.payload_bytes
    counts = f"expected {expected:,} bytes for shape {header.shape} of {header.dtype}, found {found:,}"
    if found < expected:
        share = 100 * found / expected
        text = f"is cut off: {counts} ({share:.0f} %); write or download it again"
    else:
        text = (
            f"has {found - expected:,} bytes after its array: {counts}; "
            f"a second np.save to the same handle does that: save one array a file"
        )
    return FileFormatError(f"{show_path(path)} {text}", path=path)


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
