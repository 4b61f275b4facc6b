"""The same on a cold page cache, where the system lets pages of single files be dropped, and shows that it did."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from npyflow._measure.places import Piece, pieces_of
from npyflow._measure.stages import few
from npyflow._measure.timing import Deadline
from npyflow._sources.fileio import OPEN_FLAGS, preadv

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npyflow._measure.subject import Subject

_MOST_EXAMPLES = 64
_LEAST_EXAMPLES = 4
_DROPPED_SHARE = 0.8
# A page is dropped whole or not at all.
_LARGEST_PAGE = 2 << 20
_FETCHED_SECONDS = 0.1


def cold_stages(subject: Subject, seconds: float) -> tuple[dict[str, float], str]:
    """Return microseconds an example of reading headers and payloads from the disk, or why they are not known."""
    if not hasattr(os, "posix_fadvise") or not hasattr(os, "RWF_NOWAIT"):
        return {}, "this system does not drop the pages of single files"
    view = subject.view
    rows = view.rows(few(view, subject.bytes_per_example, _MOST_EXAMPLES, seed=1))
    found: dict[str, float] = {}
    deadline = Deadline(seconds)
    for component, source in zip(view.content.components, view.examples.sources.sources, strict=True):
        pieces = pieces_of(view, component, source, rows)
        if not pieces:
            continue
        try:
            why = _drop(pieces)
            times = {} if why else _read(pieces, component.kind == "files", deadline)
        except OSError as error:
            why = f"{error.strerror or error}"
        if why:
            return {}, why
        for name, value in times.items():
            found[name] = found.get(name, 0.0) + value
    return found, "" if found else "examples of this kind lie in no single place of a file"


def _drop(pieces: Sequence[Piece]) -> str:
    """Drop the pages of `pieces`; return why that did not work."""
    _advise(pieces)
    # A look does not wait for the disk: it asks for a byte only if it is in memory.
    looks = [_in_memory(piece) for piece in pieces]
    if any(look is None for look in looks):
        return "this file system does not say what is in memory"
    if sum(look is False for look in looks) < _DROPPED_SHARE * len(looks):
        return "the system kept the files in memory when asked to drop them"
    # But the system takes a look for the beginning of a read, and fetches the page meanwhile: once more.
    time.sleep(_FETCHED_SECONDS)
    _advise(pieces)
    return ""


def _advise(pieces: Sequence[Piece]) -> None:
    for piece in pieces:
        fd = os.open(piece.path, OPEN_FLAGS)
        try:
            # What is not yet on the disk cannot be dropped.
            os.fsync(fd)
            os.posix_fadvise(fd, *_pages(piece), os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def _pages(piece: Piece) -> tuple[int, int]:
    """Start and length of the whole pages around the bytes, however large the system made them."""
    start = 0 if piece.head_start == 0 and piece.start == piece.header.offset else piece.start
    first = start // _LARGEST_PAGE * _LARGEST_PAGE
    return first, -(-(piece.start + piece.size - first) // _LARGEST_PAGE) * _LARGEST_PAGE


def _in_memory(piece: Piece) -> bool | None:
    """Whether the last byte is in the page cache; None where the system cannot say."""
    fd = os.open(piece.path, OPEN_FLAGS)
    try:
        os.preadv(fd, [bytearray(1)], piece.start + max(0, piece.size - 1), os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return None
    finally:
        os.close(fd)
    return True


def _read(pieces: Sequence[Piece], with_header: bool, deadline: Deadline) -> dict[str, float]:
    """Read each once, as long as there is time; each file is cold once only."""
    header = read = 0.0
    count = 0
    buffer = memoryview(bytearray(max(1, *(piece.size for piece in pieces))))
    clock: Any = time.perf_counter
    for piece in pieces:
        fd = os.open(piece.path, OPEN_FLAGS)
        try:
            if not with_header:
                # Single rows: what lies around them is not wanted.
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
            begun = clock()
            if with_header and piece.head_start >= 0:
                preadv(fd, (bytearray(piece.header.offset),), piece.head_start)
            between = clock()
            preadv(fd, (buffer[: piece.size],), piece.start)
            header, read, count = header + between - begun, read + clock() - between, count + 1
        finally:
            os.close(fd)
        if deadline.left < 0 and count >= _LEAST_EXAMPLES:
            break
    found = {"read": 1e6 * read / count}
    plain = with_header and any(piece.head_start >= 0 for piece in pieces)
    return {"header": 1e6 * header / count, **found} if plain else found
