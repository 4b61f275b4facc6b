"""Rows of one array: in RAM, mapped, or read by position. Raw values as stored; `RowSource` converts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from npyflow._core.errors import OptionError
from npyflow._core.text import human_bytes, show_path
from npyflow._sources.base import Place, fortran_view
from npyflow._sources.fileio import read_at
from npyflow._sources.scan import changed

if TYPE_CHECKING:
    from npyflow._core.spec import DType
    from npyflow._sources.handles import Handles

Array = np.ndarray[Any, Any]

# A void item may not be larger; such rows are copied one by one.
_MAX_VOID_BYTES = 1 << 30

# Strided reads closer than this are one read: a page is fetched anyway.
_GAP_BYTES = 4096


class Shard(Protocol):
    """A run of rows with one dtype and one layout."""

    @property
    def stored(self) -> DType:
        """Dtype of the raw values."""

    def __len__(self) -> int:
        """Number of rows."""

    def take(self, rows: Array, out: Array) -> None:
        """Copy raw rows into `out`, C-contiguous and of dtype `stored`."""

    def place(self, row: int) -> Place:
        """Where a row stands."""

    def close(self) -> None:
        """Let go of memory and descriptors."""


class MemoryShard:
    """Rows of an array in RAM, in any layout.

    Parameters
    ----------
    array : array (rows, ...)
        Not copied.
    path : str, optional
        Where it was read from.
    """

    def __init__(self, array: Array, path: str | None = None) -> None:
        self.array = np.asarray(array)
        self._path = path

    @property
    def stored(self) -> DType:
        return self.array.dtype

    def __len__(self) -> int:
        return len(self.array)

    def take(self, rows: Array, out: Array) -> None:
        if self.array.flags.c_contiguous:
            take_rows(self.array, rows, out)
        else:
            # np.take would first copy the whole array into C order.
            np.copyto(out, self.array[rows])

    def place(self, row: int) -> Place:
        return Place(self._path, row)

    def close(self) -> None:
        self.array = self.array[:0]


class FileShard:
    """Rows of one ``.npy`` file, mapped or read by position.

    Parameters
    ----------
    handles : Handles
        Shared by the shards of one array; ``handles.mapped`` decides how rows are read.
    at : int
        Which of its files.
    """

    def __init__(self, handles: Handles, at: int) -> None:
        self._handles = handles
        self._at = at
        self._header = handles.table.header(at)
        self.path = handles.table.paths[at]

    @property
    def stored(self) -> DType:
        return self._header.dtype

    def __len__(self) -> int:
        return self._header.shape[0]

    def take(self, rows: Array, out: Array) -> None:
        handle, header = self._handles.get(self._at), self._header
        if out.size == 0:
            return
        if handle.payload is not None:
            array = handle.payload.view(header.dtype)
            if header.strided:
                np.copyto(out, array.reshape(header.shape, order="F")[rows])
            else:
                take_rows(array.reshape(header.shape), rows, out)
        elif header.strided:
            self._read_strided(handle.fd, rows, out)
        else:
            self._read_runs(handle.fd, rows, out)

    def place(self, row: int) -> Place:
        return Place(self.path, row)

    def close(self) -> None:
        self._handles.close()

    def _read_runs(self, fd: int, rows: Array, out: Array) -> None:
        """One read for each run of neighbouring rows."""
        body, row_bytes, offset = byte_view(out), out[0].nbytes, self._header.offset
        ends = np.append(np.flatnonzero(np.diff(rows) != 1) + 1, len(rows)).tolist()
        at = 0
        for first, end in zip(rows[[0, *ends[:-1]]].tolist(), ends, strict=True):
            part = body[at * row_bytes : end * row_bytes]
            if read_at(fd, part, offset + first * row_bytes) != len(part):
                raise changed(self.path, "it is shorter now")
            at = end

    def _read_strided(self, fd: int, rows: Array, out: Array) -> None:
        """Read rows of a Fortran-order file: each of their values lies in another column of the file."""
        shape, dtype = self._header.shape, self._header.dtype
        wanted, inverse = np.unique(rows, return_inverse=True)
        starts = np.flatnonzero(np.diff(wanted, prepend=-(1 << 40)) * dtype.itemsize > _GAP_BYTES)
        ends = [*starts[1:].tolist(), len(wanted)]
        groups = [wanted[start:end] for start, end in zip(starts.tolist(), ends, strict=True)]
        columns = np.empty((int(np.prod(shape[1:])), len(wanted)), dtype)
        for at, column in enumerate(columns):
            values = [self._read_span(fd, at * shape[0] + int(g[0]), int(g[-1] - g[0]) + 1)[g - g[0]] for g in groups]
            column[:] = np.concatenate(values)
        landed = np.ascontiguousarray(columns.T)[inverse.reshape(-1)]
        np.copyto(out, fortran_view(landed.reshape(len(rows), *shape[:0:-1])))

    def _read_span(self, fd: int, first: int, count: int) -> Array:
        values = np.empty(count, self._header.dtype)
        offset = self._header.offset + first * values.itemsize
        if read_at(fd, byte_view(values), offset) != values.nbytes:
            raise changed(self.path, "it is shorter now")
        return values


def take_rows(array: Array, rows: Array, out: Array) -> None:
    """Copy whole rows of a C-contiguous array.

    As a void view: NumPy's take on an unaligned array of numbers copies all of it first, on one of void it does not.
    """
    row_bytes = out[0].nbytes if len(out) else 0
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


def byte_view(array: Array) -> memoryview:
    """Return the memory of a C-contiguous array as bytes."""
    return memoryview(array.reshape(-1).view(np.uint8).data)


def load_into_ram(handles: Handles, at: int) -> MemoryShard:
    """Read a whole file into memory.

    Raises
    ------
    OptionError
        If it is larger than the memory that is free.
    """
    header, path = handles.table.header(at), handles.table.paths[at]
    free = free_memory()
    if free is not None and header.payload_bytes > free:
        raise OptionError(
            f"{show_path(path)}: access='ram' needs {human_bytes(header.payload_bytes)}, {human_bytes(free)} are free; "
            f"use access='mmap' or 'read'",
            path=path,
        )
    values = np.empty(header.payload_bytes // max(1, header.dtype.itemsize), header.dtype)
    if read_at(handles.get(at).fd, byte_view(values), header.offset) != values.nbytes:
        raise changed(path, "it is shorter now")
    return MemoryShard(values.reshape(header.shape, order="F" if header.fortran_order else "C"), path)


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
