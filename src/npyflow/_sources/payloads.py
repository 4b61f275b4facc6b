"""Whole arrays, read into place: open, check that it is the array that was scanned, read, inflate."""

from __future__ import annotations

import math
import os
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.dtypes import carrier
from npyflow._core.errors import FileChangedError, FileError, FileFormatError
from npyflow._sources.archives import Inflater, damaged, unpacked
from npyflow._sources.fileio import MAX_CALL_BYTES, OPEN_FLAGS, preadv, read_both, read_rest, system_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from npyflow._format.header import Header
    from npyflow._sources.table import FileTable, Span

Array = np.ndarray[Any, Any]

_PIECE_BYTES = 4 << 20


class Payloads:
    """The arrays of a table.

    Parameters
    ----------
    table : FileTable
        As scanned.
    """

    def __init__(self, table: FileTable) -> None:
        self.table = table
        self._paths = [os.fsencode(path) for path in table.paths]
        self._heads = [header.raw for header in table.headers]
        self._sizes = [header.offset + header.payload_bytes for header in table.headers]
        # The checksum of what is stored as it is needs to be right once; a changed file is noticed without it.
        self._proven = np.zeros(len(table), bool)

    def read(self, header: Header, indices: Array, raw: Array) -> None:
        """Read arrays that all have the same header.

        Parameters
        ----------
        indices : int64 array (batch,)
            Which arrays of the table.
        raw : array (batch, ...)
            C-contiguous, of the stored dtype; each part of it takes the bytes of one array as they come.

        Raises
        ------
        FileChangedError
            If a file is not the one that was scanned.
        FileFormatError
            If a member of an archive is damaged.
        """
        body, step = byte_view(raw), header.payload_bytes
        self.read_each(indices, (body[at * step : (at + 1) * step] for at in range(len(indices))))

    def read_each(self, indices: Array, bodies: Iterable[memoryview | Array]) -> None:
        """Read arrays of any headers.

        Parameters
        ----------
        indices : int64 array (batch,)
            Which arrays of the table.
        bodies : iterable of memoryview or C-contiguous array
            Each takes the bytes of one array as they come; one that is too short takes the first of them.

        Raises
        ------
        FileError
            As `read`.
        """
        if self.table.spans is None:
            self._read_files(indices, bodies)
            return
        for index, body in zip(indices.tolist(), bodies, strict=True):
            try:
                self._read_member(index, self.table.header(index), as_bytes(body))
            except FileError as error:
                error.index = index
                raise

    def _read_files(self, indices: Array, bodies: Iterable[memoryview | Array]) -> None:
        """The loop that everything waits for: about four system calls and a comparison a file."""
        paths, heads, sizes = self._paths, self._heads, self._sizes
        times, kinds = self.table.mtimes[indices].tolist(), self.table.kinds[indices].tolist()
        head, flags = bytearray(), OPEN_FLAGS
        open_, stat_, close_, read_ = os.open, os.fstat, os.close, preadv
        for index, time, kind, body in zip(indices.tolist(), times, kinds, bodies, strict=True):
            expected = heads[kind]
            if len(head) != len(expected):
                head = bytearray(len(expected))
            wanted = len(head) + body.nbytes
            try:
                fd = open_(paths[index], flags)
                try:
                    stat = stat_(fd)
                    got = read_(fd, (head, body if wanted < MAX_CALL_BYTES else as_bytes(body)[:MAX_CALL_BYTES]), 0)
                    if got != wanted:
                        got = read_rest(fd, head, as_bytes(body), got)
                finally:
                    close_(fd)
            except OSError as error:
                raise self._failed(index, error) from None
            if got != wanted or head != expected or stat.st_mtime_ns != time or stat.st_size != sizes[kind]:
                raise self._changed(index, stat)

    def _read_member(self, index: int, header: Header, body: memoryview) -> None:
        """Read one array that is not all of its file; always whole, because of its checksum."""
        if len(body) < header.payload_bytes:
            whole = np.empty(header.payload_bytes, np.uint8).data
            self._read_member(index, header, whole)
            body[:] = whole[: len(body)]
            return
        head, span = bytearray(len(header.raw)), self.table.span(index)
        with self._opened(index) as fd:
            got = _fill(fd, span, head, body)
        self._check_length(index, got)
        if span.crc >= 0 and not self._proven[index]:
            self._check_crc(index, zlib.crc32(body, zlib.crc32(head)))
            self._proven[index] = span.packed < 0
        if head != header.raw:
            raise self.table.changed(index, "it has another header")

    def stream(self, index: int) -> Iterator[Array]:
        """Read one array in pieces: its items in the order of their bytes, a few megabytes at a time.

        Raises
        ------
        FileError
            As `read`; a wrong checksum is known after the last piece.
        """
        header, span = self.table.header(index), self.table.span(index)
        left, itemsize = header.payload_bytes, header.dtype.itemsize
        head = bytearray(len(header.raw))
        with self._opened(index) as fd:
            bytes_ = unpacked(fd, span)
            self._check_length(index, bytes_.fill(memoryview(head)) + left)
            if head != header.raw:
                raise self.table.changed(index, "it has another header")
            crc = zlib.crc32(head)
            while left:
                piece = np.empty(min(left // itemsize, max(1, _PIECE_BYTES // itemsize)), header.dtype)
                body = byte_view(piece)
                left -= len(body)
                self._check_length(index, bytes_.fill(body) - len(body) + len(head) + header.payload_bytes)
                crc = zlib.crc32(body, crc)
                yield piece
        if span.crc >= 0:
            self._check_crc(index, crc)

    @contextmanager
    def _opened(self, index: int) -> Iterator[int]:
        """Open a file that must be the one that was scanned; what goes wrong with it becomes an error of ours."""
        try:
            fd = os.open(self._paths[index], OPEN_FLAGS)
            try:
                self.table.check_unchanged(index, os.fstat(fd))
                yield fd
            finally:
                os.close(fd)
        except OSError as error:
            raise self._failed(index, error) from None
        except zlib.error as error:
            raise self._damaged(index, f"cannot be inflated ({error})") from None

    def _check_length(self, index: int, got: int) -> None:
        header = self.table.header(index)
        expected = header.offset + header.payload_bytes
        if got != expected and self.table.span(index).member is None:
            raise self.table.changed(index, "it is shorter now")
        if got != expected:
            raise self._damaged(index, f"ends after {got:,} of {expected:,} bytes")

    def _check_crc(self, index: int, crc: int) -> None:
        if crc != self.table.span(index).crc:
            raise self._damaged(index, "does not have the checksum (CRC-32) that the archive gives for it")

    def _changed(self, index: int, stat: os.stat_result) -> FileError:
        """What differs from the scan."""
        try:
            self.table.check_unchanged(index, stat)
            error = self.table.changed(index, "it has another header or was being written")
        except FileChangedError as found:
            error = found
        error.index = index
        return error

    def _damaged(self, index: int, what: str) -> FileFormatError:
        return damaged(
            self.table.paths[index],
            self.table.span(index).member,
            f"is damaged: it {what}; write or download the file again",
            kind="npz-crc",
        )

    def _failed(self, index: int, error: OSError) -> FileError:
        gone = isinstance(error, FileNotFoundError)
        ours = self.table.changed(index, "it is gone") if gone else system_error(self.table.paths[index], error)
        ours.index = index
        return ours


def load_array(payloads: Payloads, at: int) -> Array:
    """Read a whole array into memory, in the order in which it is stored."""
    header = payloads.table.header(at)
    # Zeros, because NumPy gives texts without room for a character room for one, and nothing is read there.
    make = np.empty if header.dtype.itemsize else np.zeros
    # As integers: NumPy makes dates without a unit native, whatever it is told.
    values = make(math.prod(header.shape), carrier(header.dtype))
    payloads.read(header, np.array([at]), values)
    if header.dtype.kind in "Mm":
        values = values.view(header.dtype)
    return values.reshape(header.shape, order="F" if header.fortran_order else "C")


def _fill(fd: int, span: Span, head: bytearray, body: memoryview) -> int:
    """Read header and payload; return bytes read."""
    if span.packed >= 0:
        inflater = Inflater(fd, span.start, span.packed)
        got = inflater.fill(memoryview(head))
        return got + inflater.fill(body) if got == len(head) else got
    return read_both(fd, head, body, span.start)


def as_bytes(body: memoryview | Array) -> memoryview:
    """Return what takes bytes as bytes."""
    return byte_view(body) if isinstance(body, np.ndarray) else body


def byte_view(array: Array) -> memoryview:
    """Return the memory of a C-contiguous array as bytes."""
    if array.dtype.itemsize == 0:
        return memoryview(bytearray())
    return memoryview(array.reshape(-1).view(np.uint8).data)
