"""Open files, few at a time, each known to be the file that was scanned."""

from __future__ import annotations

import mmap
import os
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._sources.fileio import open_for_read, read_at, system_error

if TYPE_CHECKING:
    from npyflow._sources.table import FileTable

Array = np.ndarray[Any, Any]

_MOST_HANDLES = 64


def handle_limit() -> int:
    """Handles to hold at most: far below the process's limit, since a mapped one costs two descriptors."""
    try:
        import resource  # POSIX only
    except ImportError:
        return _MOST_HANDLES
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_HANDLES if soft == resource.RLIM_INFINITY else max(4, min(_MOST_HANDLES, soft // 8))


class Handle:
    """One open file. Closed when the last reader lets go of it.

    Parameters
    ----------
    table : FileTable
        As scanned.
    at : int
        An array in the file.
    mapped : bool
        Map it as well.
    scattered : bool
        Only scattered rows are read through the map.
    """

    __slots__ = ("fd", "whole")

    def __init__(self, table: FileTable, at: int, mapped: bool, scattered: bool) -> None:
        self.fd = -1
        path, header, start = table.paths[at], table.header(at), table.span(at).start
        head = bytearray(header.offset)
        try:
            self.fd = open_for_read(path)
            table.check_unchanged(at, os.fstat(self.fd))
            read_at(self.fd, memoryview(head), start)
            # The map keeps a descriptor of its own, and dies with the last view of it.
            self.whole: Array | None = None
            if mapped:
                memory = mmap.mmap(self.fd, 0, access=mmap.ACCESS_READ)
                if scattered and hasattr(mmap, "MADV_RANDOM"):
                    # On a cold disk, reading around them is waste.
                    memory.madvise(mmap.MADV_RANDOM)
                self.whole = np.frombuffer(memory, np.uint8)
        except FileNotFoundError:
            raise table.changed(at, "it is gone") from None
        except OSError as error:
            raise system_error(path, error) from None
        except ValueError:
            # From mmap: it is shorter than a moment ago.
            raise table.changed(at, "it is shorter now") from None
        if head != header.raw:
            raise table.changed(at, "it has another header")

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)


class Handles:
    """The files of a table, opened on demand, the least recently used closed first.

    Parameters
    ----------
    table : FileTable
        The files as scanned.
    mapped : bool
        Map them as well.
    scattered : bool
        Only scattered rows are read through the maps.
    """

    def __init__(self, table: FileTable, mapped: bool, scattered: bool = True) -> None:
        self.table = table
        self.mapped = mapped
        self._scattered = scattered
        self._limit = handle_limit()
        self._open: OrderedDict[str, Handle] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, at: int) -> Handle:
        """Return the open file of array `at`, after a look at whether the path still names it.

        Raises
        ------
        FileChangedError
            If the file was replaced, truncated, rewritten or removed since the scan.
        """
        path = self.table.paths[at]
        with self._lock:
            handle = self._open.get(path)
            if handle is not None:
                self._open.move_to_end(path)
        if handle is None:
            return self._new(at)
        try:
            self.table.check_unchanged(at, os.stat(path))
        except FileNotFoundError:
            raise self.table.changed(at, "it is gone") from None
        except OSError as error:
            raise system_error(path, error) from None
        return handle

    def _new(self, at: int) -> Handle:
        """Open a file, outside the lock; if two threads do, one of the handles is closed after its read."""
        handle, oldest = Handle(self.table, at, self.mapped, self._scattered), None
        with self._lock:
            self._open[self.table.paths[at]] = handle
            if len(self._open) > self._limit:
                _, oldest = self._open.popitem(last=False)
        del oldest
        return handle

    def close(self) -> None:
        """Close every file that no read is using at this moment; those close when the read ends."""
        with self._lock:
            self._open.clear()
