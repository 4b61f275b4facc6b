"""Looking at one file: whether it is an array or an archive of them, and what their headers say."""

from __future__ import annotations

import os
import zlib
from collections import Counter
from dataclasses import dataclass, field
from stat import S_ISREG
from typing import TYPE_CHECKING, TypeVar

from npyflow._core.dtypes import show_dtype
from npyflow._core.errors import FileFormatError, NpyflowError
from npyflow._core.text import examples, show_path
from npyflow._format.header import FIRST_READ_BYTES, MAX_HEADER_BYTES, whole_header
from npyflow._format.header import MAGIC as NPY_MAGIC
from npyflow._sources.archives import (
    ARCHIVE_MAGICS,
    Entry,
    damaged,
    locate,
    no_member,
    read_directory,
    unpacked,
)
from npyflow._sources.diagnosis import first_of_its_kind, wrong_size
from npyflow._sources.fileio import open_for_read, read_start, system_error
from npyflow._sources.table import FileTable, Span, TableBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from npyflow._format.header import Header

T = TypeVar("T")

# Names of one member: the first that an archive has is taken. None for the only array of a file.
Names = list[str] | None

Found = tuple["Header", Span | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """Everything that one file holds.

    Parameters
    ----------
    mtime, size : int
        Of the file, in nanoseconds and bytes.
    archive : bool
        It is an ``.npz`` file.
    arrays : list of (Header, Span or None)
        The good arrays.
    bad : list of NpyflowError
        What is wrong with the others.
    others : list of str
        What else an archive holds; NumPy ignores it too.
    """

    mtime: int
    size: int
    archive: bool
    arrays: list[Found] = field(default_factory=list)
    bad: list[NpyflowError] = field(default_factory=list)
    others: list[str] = field(default_factory=list)

    def table(self, path: str, at: int) -> FileTable:
        """A table of the array `at` alone."""
        builder = TableBuilder()
        builder.add(path, self.mtime, *self.arrays[at])
        return builder.table()


class Scanner:
    """Looks at one file after another and remembers the headers it has parsed.

    Parameters
    ----------
    members : sequence of list of str or None
        As in `scan`.
    """

    def __init__(self, members: Sequence[Names] = (None,)) -> None:
        self.sets: Counter[tuple[str, ...]] = Counter()
        self._members = members
        self._named = any(names is not None for names in members)
        # Header bytes -> the header, and the size of header and payload.
        self._known: dict[bytes, tuple[Header, int]] = {}
        # The last file's: most files are like the one before.
        self._raw = b""
        self._size = -1
        self._same: list[Found] = []

    def look(self, path: str) -> tuple[int, list[Found]]:
        """Return a file's modification time, and what was found for each of the wanted members."""
        return look_into(path, self._look)

    def survey(self, path: str) -> Survey:
        """Return all that is in a file, good and bad.

        Raises
        ------
        FileError
            If it cannot be read, or not as an archive.
        """
        return look_into(path, self._survey)

    def _look(self, fd: int, path: str, stat: os.stat_result, start: bytes) -> tuple[int, list[Found]]:
        # A header says how long it is, so what begins with the last one has the last one.
        if stat.st_size == self._size and start.startswith(self._raw):
            return stat.st_mtime_ns, self._same
        if start.startswith(ARCHIVE_MAGICS):
            return stat.st_mtime_ns, self._archive(fd, path, stat.st_size)
        header = self._plain(fd, path, start, stat.st_size)
        if self._named:
            wanted = examples(names[0] for names in self._members if names is not None)
            raise FileFormatError(
                f"{show_path(path)} is a .npy file, not an archive, so it has no member {wanted}; "
                f"leave it out, or leave out members=",
                path=path,
                kind="npz-expected",
            )
        self._raw, self._size, self._same = header.raw, stat.st_size, [(header, None)]
        return stat.st_mtime_ns, self._same

    def _survey(self, fd: int, path: str, stat: os.stat_result, start: bytes) -> Survey:
        size, archive = stat.st_size, start.startswith(ARCHIVE_MAGICS)
        found = Survey(mtime=stat.st_mtime_ns, size=size, archive=archive)
        if not archive:
            found.arrays.append((self._plain(fd, path, start, size), None))
            return found
        for entry in read_directory(fd, path).values():
            try:
                if not _is_array(fd, path, entry, size):
                    found.others.append(entry.name)
                else:
                    found.arrays.append(self._member(fd, path, entry, size))
            except NpyflowError as error:
                found.bad.append(error)
        return found

    def _plain(self, fd: int, path: str, start: bytes, file_size: int) -> Header:
        """The header of a file that is one array."""
        start, size = whole_header(start, MAX_HEADER_BYTES, lambda count: read_start(fd, count))
        span = Span(None, 0, file_size)
        header, expected = self._known.get(start[:size]) or self._new(path, start, span)
        if file_size != expected:
            raise wrong_size(path, header, span, fd)
        return header

    def _new(self, path: str, start: bytes, span: Span) -> tuple[Header, int]:
        header = first_of_its_kind(path, start, span)
        return self._known.setdefault(header.raw, (header, header.offset + header.payload_bytes))

    def _archive(self, fd: int, path: str, file_size: int) -> list[Found]:
        """The wanted arrays of an archive."""
        entries = read_directory(fd, path)
        if self._named:
            self.sets[tuple(entries)] += 1
        chosen = [
            self._only(fd, path, entries, file_size) if names is None else _named(path, entries, names)
            for names in self._members
        ]
        return [self._member(fd, path, entry, file_size) for entry in chosen]

    def _only(self, fd: int, path: str, entries: dict[str, Entry], file_size: int) -> Entry:
        """The one array of an archive."""
        arrays = list(entries.values())
        if len(arrays) > 1:
            arrays = [entry for entry in arrays if _is_array(fd, path, entry, file_size)]
        if len(arrays) == 1:
            return arrays[0]
        if not arrays:
            what = "is an archive without arrays; expected a .npy file, or a .npz archive of one"
            raise damaged(path, None, what, kind="npz-empty")
        shown = examples((self._show(fd, path, entry, file_size) for entry in arrays), 8)
        raise damaged(
            path,
            None,
            f"holds {len(arrays):,} arrays ({shown}); expected one, or a choice: npyflow.npz(path)[name] for rows, "
            f"members=name for files",
            kind="npz-choice",
        )

    def _show(self, fd: int, path: str, entry: Entry, file_size: int) -> str:
        try:
            header, _ = self._member(fd, path, entry, file_size)
        except NpyflowError:
            return f"{show_path(entry.name)}: unusable"
        return f"{show_path(entry.name)}: {show_dtype(header.dtype)} {header.shape}"

    def _member(self, fd: int, path: str, entry: Entry, file_size: int) -> tuple[Header, Span]:
        """Where an array lies in its archive, and its header."""
        span = _span(fd, path, entry, file_size)
        # To whom reads it, a member is a file of its own.
        inner = Span(entry.name, 0, entry.size)
        text = _member_start(fd, path, span, min(entry.size, FIRST_READ_BYTES))
        text, size = whole_header(text, entry.size, lambda count: _member_start(fd, path, span, count))
        header, expected = self._known.get(text[:size]) or self._new(path, text, inner)
        if entry.size != expected:
            raise wrong_size(path, header, inner)
        return header, span


def look_into(path: str, look: Callable[[int, str, os.stat_result, bytes], T]) -> T:
    """Open a regular file and return what `look` makes of it; the system's errors become ours.

    Parameters
    ----------
    look : callable
        Called with the descriptor, the path, the status and the first bytes. Not a context manager, which would cost
        as much as the system calls.

    Raises
    ------
    FileError
        If the file cannot be opened or read, or is none.
    """
    try:
        fd = open_for_read(path)
        try:
            stat = os.fstat(fd)
            if not S_ISREG(stat.st_mode):
                raise FileFormatError(
                    f"{show_path(path)} is no regular file; expected a .npy file", path=path, kind="no-file"
                )
            return look(fd, path, stat, read_start(fd, FIRST_READ_BYTES))
        finally:
            os.close(fd)
    except NpyflowError:
        raise
    except OSError as error:
        raise system_error(path, error) from None


def _named(path: str, entries: dict[str, Entry], names: list[str]) -> Entry:
    """The array of the first of `names` that there is."""
    for name in names:
        entry = entries.get(name) or entries.get(name.removesuffix(".npy"))
        if entry is not None:
            return entry
    raise no_member(path, names, entries)


def _is_array(fd: int, path: str, entry: Entry, file_size: int) -> bool:
    """Say whether a member is an array, or should be one: by its name, else by its first bytes, as ``np.load`` does."""
    if entry.suffixed or entry.trouble is not None:
        return True
    return _member_start(fd, path, _span(fd, path, entry, file_size), min(entry.size, len(NPY_MAGIC))) == NPY_MAGIC


def _span(fd: int, path: str, entry: Entry, file_size: int) -> Span:
    """Where a member lies."""
    start = locate(fd, path, entry, file_size)
    return Span(entry.name, start, file_size, entry.packed if entry.deflated else -1, entry.crc)


def _member_start(fd: int, path: str, span: Span, count: int) -> bytes:
    """The first `count` bytes of a member, or as many as there are."""
    body = bytearray(count)
    try:
        got = unpacked(fd, span).fill(memoryview(body))
    except zlib.error as error:
        raise damaged(
            path, span.member, f"cannot be inflated ({error}); write or download it again", kind="npz-crc"
        ) from None
    return bytes(body[:got])
