"""Rows of one array: in RAM, mapped, or read by position. Raw values as stored; `RowSource` converts."""

from __future__ import annotations

import math
import os
import threading
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from npyflow._core.dtypes import carrier
from npyflow._core.errors import NpyflowError, OptionError
from npyflow._core.text import human_bytes
from npyflow._sources.base import Place, fortran_view
from npyflow._sources.fileio import read_at
from npyflow._sources.payloads import Payloads, byte_view, load_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npyflow._core.dtypes import DType
    from npyflow._sources.handles import Handle, Handles
    from npyflow._sources.table import FileTable

Array = np.ndarray[Any, Any]

# A void item may not be larger; such rows are copied one by one.
_MAX_VOID_BYTES = 1 << 30

# Pieces closer than this are one read: a page is fetched anyway.
_GAP_BYTES = 4096


class Shard(Protocol):
    """A run of rows with one dtype and one layout."""

    @property
    def stored(self) -> DType:
        """Dtype of the raw values."""

    @property
    def pieces(self) -> int:
        """In how many pieces a row lies on disk."""

    def __len__(self) -> int:
        """Number of rows."""

    def take(self, rows: Array, out: Array) -> None:
        """Copy raw rows into `out`, C-contiguous and of dtype ``carrier(stored)``."""

    def take_run(self, first: int, out: Array) -> None:
        """The same for as many rows as `out` has, from row `first` on."""

    def scatter(self, rows: Array, out: Array, at: Array) -> None:
        """Copy each of `rows` to its place ``out[at]``."""

    def place(self, row: int) -> Place:
        """Where a row stands."""

    def close(self) -> None:
        """Let go of memory and descriptors."""


class MemoryShard:
    """Rows of an array in RAM, in any layout.

    Parameters
    ----------
    array : array
        Not copied.
    axis : int
        Along which the examples lie.
    """

    pieces = 1

    def __init__(self, array: Array, axis: int) -> None:
        moved = np.moveaxis(np.asarray(array), axis, 0)
        self.stored: DType = moved.dtype
        self.array = moved.view(carrier(moved.dtype))

    def __len__(self) -> int:
        return len(self.array)

    def take(self, rows: Array, out: Array) -> None:
        if self.array.flags.c_contiguous:
            take_rows(self.array, rows, out)
        else:
            # np.take would first copy the whole array into C order.
            np.copyto(out, self.array[rows])

    def take_run(self, first: int, out: Array) -> None:
        np.copyto(out, self.array[first : first + len(out)])

    def scatter(self, rows: Array, out: Array, at: Array) -> None:
        for row, place in zip(rows.tolist(), at.tolist(), strict=True):
            out[place] = self.array[row]

    def place(self, row: int) -> Place:
        return Place(None, row)

    def close(self) -> None:
        self.array = self.array[:0]


class LoadedShard:
    """Rows of an array on disk that is read whole, and inflated if need be, when its first row is wanted.

    Parameters
    ----------
    payloads : Payloads
        Shared by the shards of one array.
    at : int
        Which of its arrays.
    axis : int
        Along which the examples lie, in ``[0, ndim)``.
    """

    pieces = 1

    def __init__(self, payloads: Payloads, at: int, axis: int) -> None:
        self._payloads = payloads
        self._at = at
        self._axis = axis
        self._header = payloads.table.header(at)
        self._loaded: MemoryShard | None = None
        self._lock = threading.Lock()

    @property
    def stored(self) -> DType:
        return self._header.dtype

    def __len__(self) -> int:
        return self._header.shape[self._axis]

    def take(self, rows: Array, out: Array) -> None:
        self.load().take(rows, out)

    def take_run(self, first: int, out: Array) -> None:
        self.load().take_run(first, out)

    def scatter(self, rows: Array, out: Array, at: Array) -> None:
        self.load().scatter(rows, out, at)

    def load(self) -> MemoryShard:
        """Read it now, unless that was done."""
        loaded = self._loaded
        if loaded is None:
            with self._lock:
                loaded = self._loaded = self._loaded or self._load()
        return loaded

    def place(self, row: int) -> Place:
        return Place(self._payloads.table.paths[self._at], row, self._payloads.table.span(self._at).member)

    def close(self) -> None:
        self._loaded = None

    def _load(self) -> MemoryShard:
        try:
            return MemoryShard(load_array(self._payloads, self._at), self._axis)
        except NpyflowError as error:
            # It is about the array, not about the row that was wanted first.
            error.index = None
            raise


class FileShard:
    """Rows of one ``.npy`` file, mapped or read by position.

    Whatever the order and the axis, the bytes are a C-order block ``(*outer, rows, *inner)``: for a C-order file axis
    `axis` in the middle, for a Fortran-order file the same with all axes reversed. A row is whole if `outer` is empty
    or all ones, and lies in ``prod(outer)`` pieces otherwise.

    Parameters
    ----------
    handles : Handles
        Shared by the shards of one array; ``handles.mapped`` decides how rows are read.
    at : int
        Which of its files.
    axis : int
        Along which the examples lie, in ``[0, ndim)``.
    """

    def __init__(self, handles: Handles, at: int, axis: int) -> None:
        header = handles.table.header(at)
        shape = header.shape[::-1] if header.fortran_order else header.shape
        middle = len(shape) - 1 - axis if header.fortran_order else axis
        self._handles = handles
        self._at = at
        self._header = header
        self._outer, self._count, self._inner = shape[:middle], shape[middle], shape[middle + 1 :]
        # Reversed axes of one row matter only if it has several.
        self._reversed = header.fortran_order and len(shape) > 2
        self._first = handles.table.span(at).start + header.offset

    @property
    def stored(self) -> DType:
        return self._header.dtype

    @property
    def pieces(self) -> int:
        """In how many pieces a row lies."""
        return math.prod(self._outer)

    def __len__(self) -> int:
        return self._count

    def take(self, rows: Array, out: Array) -> None:
        handle = self._handles.get(self._at)
        if out.size == 0:
            return
        shape = (len(rows), *self._outer, *self._inner)
        if self._reversed:
            raw = np.empty(shape, out.dtype)
            self._fill(handle, rows, raw)
            np.copyto(out, fortran_view(raw))
        else:
            self._fill(handle, rows, out.reshape(shape))

    def take_run(self, first: int, out: Array) -> None:
        if self.pieces > 1 or self._reversed:
            self.take(np.arange(first, first + len(out)), out)
        elif out.size:
            self._read(self._handles.get(self._at).fd, byte_view(out), first * out[:1].nbytes)

    def scatter(self, rows: Array, out: Array, at: Array) -> None:
        if self.pieces > 1 or self._reversed:
            found = np.empty((len(rows), *out.shape[1:]), out.dtype)
            self.take(rows, found)
            out[at] = found
            return
        handle, row_bytes = self._handles.get(self._at), out[:1].nbytes
        for row, place in zip(rows.tolist(), at.tolist(), strict=True):
            self._read(handle.fd, byte_view(out[place : place + 1]), row * row_bytes)

    def place(self, row: int) -> Place:
        return Place(self._handles.table.paths[self._at], row, self._handles.table.span(self._at).member)

    def close(self) -> None:
        self._handles.close()

    def _fill(self, handle: Handle, rows: Array, raw: Array) -> None:
        """Copy rows in the order of their bytes; a run of neighbours is one read, also where the file is mapped."""
        if handle.whole is not None and not (self.pieces == 1 and is_run(rows)):
            payload = handle.whole[self._first : self._first + self._header.payload_bytes]
            block = payload.view(raw.dtype).reshape(*self._outer, self._count, *self._inner)
            if self.pieces == 1:
                take_rows(block.reshape(self._count, *self._inner), rows, raw)
            else:
                np.copyto(raw, np.moveaxis(block, len(self._outer), 0)[rows])
        elif self.pieces == 1:
            self._read_runs(handle.fd, rows, raw)
        else:
            self._read_pieces(handle.fd, rows, raw.reshape(len(rows), self.pieces, -1))

    def _read_runs(self, fd: int, rows: Array, raw: Array) -> None:
        """One read for each run of neighbouring rows."""
        body, row_bytes = byte_view(raw), raw[:1].nbytes
        ends = np.append(np.flatnonzero(np.diff(rows) != 1) + 1, len(rows)).tolist()
        at = 0
        for first, end in zip(rows[[0, *ends[:-1]]].tolist(), ends, strict=True):
            self._read(fd, body[at * row_bytes : end * row_bytes], first * row_bytes)
            at = end

    def _read_pieces(self, fd: int, rows: Array, raw: Array) -> None:
        """Read rows ``(rows, pieces, items)`` that lie apart: for each piece one read for rows that are close."""
        wanted, inverse = np.unique(rows, return_inverse=True)
        piece_bytes = raw[:1, :1].nbytes
        breaks = np.flatnonzero((np.diff(wanted) - 1) * piece_bytes > _GAP_BYTES) + 1
        groups = np.split(wanted, breaks)
        found = np.empty((len(wanted), *raw.shape[1:]), raw.dtype)
        for piece in range(self.pieces):
            at = 0
            for group in groups:
                first = int(group[0])
                span = np.empty((int(group[-1]) - first + 1, raw.shape[2]), raw.dtype)
                self._read(fd, byte_view(span), (piece * self._count + first) * piece_bytes)
                found[at : at + len(group), piece] = span[group - first]
                at += len(group)
        np.copyto(raw, found[inverse.reshape(-1)])

    def _read(self, fd: int, body: memoryview, start: int) -> None:
        """Fill `body` from the payload's byte `start`."""
        if read_at(fd, body, self._first + start) != len(body):
            raise self._handles.table.changed(self._at, "it is shorter now")


def take_rows(array: Array, rows: Array, out: Array) -> None:
    """Copy whole rows of a C-contiguous array.

    As a void view: NumPy's take on an unaligned array of numbers copies all of it first, on one of void it does not.
    """
    row_bytes = out[:1].nbytes
    if row_bytes == 0:
        return
    if row_bytes > _MAX_VOID_BYTES:
        for at, row in enumerate(rows.tolist()):
            out[at] = array[row]
        return
    void = np.dtype((np.void, row_bytes))
    source = np.ndarray(len(array), void, array)
    # mode="clip" writes into out at once; the default buffers. Callers have checked the bounds.
    np.take(source, rows, axis=0, out=np.ndarray(len(out), void, out), mode="clip")


def is_run(rows: Array) -> bool:
    """Say whether `rows` are neighbours in ascending order, and more than a few."""
    return len(rows) > 8 and int(rows[-1]) - int(rows[0]) == len(rows) - 1 and bool((np.diff(rows) == 1).all())


def check_memory(table: FileTable, which: Sequence[int], why: str, instead: str) -> None:
    """Refuse to load arrays that are together larger than the memory that is free.

    Raises
    ------
    OptionError
        With both sizes.
    """
    needed, free = sum(table.header(at).payload_bytes for at in which), free_memory()
    if free is not None and needed > free:
        files = table.show(which[0]) + (f" and {len(which) - 1:,} more" if len(which) > 1 else "")
        raise OptionError(
            f"{files}: {why} needs {human_bytes(needed)}, {human_bytes(free)} are free; {instead}",
            path=table.paths[which[0]],
        )


def free_memory() -> int | None:
    """Bytes that can be taken without swapping, or None where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None
