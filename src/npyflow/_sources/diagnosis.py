"""What is wrong with a file, in words: what it is, what was expected, what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npyflow._core.dtypes import check_no_objects
from npyflow._core.errors import FileFormatError
from npyflow._core.text import examples, plural, show_array
from npyflow._format.header import (
    FIRST_READ_BYTES,
    MAGIC,
    MAX_HEADER_BYTES,
    Header,
    header_bytes,
    parse_header,
    whole_header,
)
from npyflow._format.sniff import SNIFF_BYTES, identify
from npyflow._sources.archives import damaged
from npyflow._sources.fileio import read_bytes

if TYPE_CHECKING:
    from npyflow._sources.table import Span

# A file may hold a million appended arrays; counting them all would take minutes.
_MOST_COUNTED = 1000


def first_of_its_kind(path: str, start: bytes, span: Span) -> Header:
    """Parse a header that was not met before, or say what stands there instead.

    Parameters
    ----------
    start : bytes
        From the beginning of the array.
    span : Span
        Where it lies; its `file_size` is that of the array where the array is a member of an archive.

    Raises
    ------
    FileFormatError, UnsupportedDtypeError
        If it is no ``.npy`` header, or one of a pickle.
    """
    where, size = show_array(path, span.member), header_bytes(start)
    if not start.startswith(MAGIC) or (size is None and len(start) < 12):
        kind, what, advice = identify(start[:SNIFF_BYTES], span.file_size)
        raise damaged(path, span.member, f"is {what}; expected a .npy file; {advice}", kind=kind)
    if size is not None and size > MAX_HEADER_BYTES:
        raise damaged(
            path,
            span.member,
            f"says that its header has {size:,} bytes; expected at most {MAX_HEADER_BYTES:,}; "
            f"write it again with np.save",
            kind="header-size",
        )
    if size is not None and size > span.file_size:
        raise damaged(
            path,
            span.member,
            f"is cut off inside its header: expected {size:,} bytes of header, found {span.file_size:,}; "
            f"write or download it again",
            kind="truncated-header",
        )
    try:
        header = parse_header(start[:size])
    except FileFormatError as error:
        kind = "version" if size is None else "header"
        raise FileFormatError(
            f"{where}: {error}; write it again with np.save", path=path, member=span.member, kind=kind
        ) from None
    # Before the size is looked at: pickles have any size.
    check_no_objects(header.dtype, where, path, span.member)
    return header


def wrong_size(path: str, header: Header, span: Span, fd: int | None = None) -> FileFormatError:
    """The error for an array whose bytes do not fit its header.

    Parameters
    ----------
    span : Span
        As in `first_of_its_kind`.
    fd : int, optional
        The open file, to count the arrays that follow.
    """
    expected, found = header.offset + header.payload_bytes, span.file_size
    counts = f"expected {expected:,} bytes for shape {header.shape} of {header.dtype}, found {found:,}"
    if header.slips:
        return damaged(
            path,
            span.member,
            f"has a header that NumPy does not write ({examples(sorted(header.slips))}), and its size does not "
            f"bear out what that may mean: {counts}; write it again with np.save",
            kind="header",
        )
    if found < expected:
        share = 100 * found / expected
        return damaged(
            path, span.member, f"is cut off: {counts} ({share:.0f} %); write or download it again", kind="truncated"
        )
    more = 0 if fd is None else _count_arrays(fd, expected, found)
    if more:
        count = f"over {more:,} more arrays" if more == _MOST_COUNTED else plural(more, "more array")
        return damaged(
            path,
            span.member,
            f"has {count} after its first: {counts}; np.save to the same open handle does that: save them stacked, "
            f"or one a file, or pass appended=True to npyflow.rows",
            kind="several-arrays",
        )
    return damaged(
        path,
        span.member,
        f"has {found - expected:,} bytes after its array: {counts}; if rows were appended to the file, its header "
        f"does not count them: find out what wrote them, and np.save the array again",
        kind="trailing",
    )


def read_whole_header(fd: int, at: int, limit: int) -> tuple[bytes, int | None]:
    """Return the beginning of the array at byte `at` with all of its header; see `whole_header`."""
    return whole_header(read_bytes(fd, FIRST_READ_BYTES, at), limit, lambda count: read_bytes(fd, count, at))


def _count_arrays(fd: int, at: int, end: int) -> int:
    """Count the arrays from byte `at` to the end; 0 if anything else is there."""
    count = 0
    while at < end and count < _MOST_COUNTED:
        start, size = read_whole_header(fd, at, MAX_HEADER_BYTES)
        if size is None or size > MAX_HEADER_BYTES:
            return 0
        try:
            header = parse_header(start[:size])
        except FileFormatError:
            return 0
        at += header.offset + header.payload_bytes
        count += 1
    return count if at <= end else 0
