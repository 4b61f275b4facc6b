"""Every file is an example: open, check that it is the file that was scanned, read it into its place in the batch."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.errors import FileError, ShapeMismatchError
from npyflow._core.spec import ArraySpec, DType, native
from npyflow._core.text import examples, plural, show_path
from npyflow._sources.base import Place, cast_error, conversion, fortran_view
from npyflow._sources.fileio import OPEN_FLAGS, preadv, read_rest
from npyflow._sources.scan import changed
from npyflow._sources.shards import byte_view

if TYPE_CHECKING:
    from npyflow._core.buffers import BufferPool
    from npyflow._format.header import Header
    from npyflow._sources.scan import FileTable

Array = np.ndarray[Any, Any]


class FileSource:
    """One ``.npy`` file an example.

    Parameters
    ----------
    table : FileTable
        Shapes agree; dtypes agree up to byte order, or `dtype` is given.
    dtype : numpy.dtype, optional
        To cast to.
    pool : BufferPool
        Scratch memory.
    name : str
        How messages call the component.

    Raises
    ------
    ShapeMismatchError
        If the files disagree.
    """

    access = "files"

    def __init__(self, table: FileTable, *, dtype: DType | None, pool: BufferPool, name: str) -> None:
        _check_agree(table, dtype, name)
        self.table = table
        firsts = [table.paths[int(np.argmax(table.kinds == kind))] for kind in range(len(table.headers))]
        self._conversions = [
            conversion(header.dtype, dtype, f"{name}: {show_path(path)}")
            for header, path in zip(table.headers, firsts, strict=True)
        ]
        self._paths = [os.fsencode(path) for path in table.paths]
        self._pool = pool
        self.spec = ArraySpec(table.headers[0].shape, self._conversions[0].target)

    def __len__(self) -> int:
        return len(self._paths)

    def read_into(self, indices: Array, out: Array) -> None:
        if len(self.table.headers) == 1:
            self._read_kind(0, indices, out)
            return
        kinds = self.table.kinds[indices]
        for kind in np.unique(kinds).tolist():
            at = np.flatnonzero(kinds == kind)
            if len(at) == len(indices):
                self._read_kind(kind, indices, out)
            else:
                part = self._pool.empty((len(at), *self.spec.shape), self.spec.dtype)
                self._read_kind(kind, indices[at], part)
                out[at] = part

    def place(self, index: int) -> Place:
        return Place(self.table.paths[index], None)

    def close(self) -> None:
        """Nothing to do: no file is open between reads."""

    def _read_kind(self, kind: int, indices: Array, out: Array) -> None:
        """Read files that all have the same header."""
        header, plan = self.table.headers[kind], self._conversions[kind]
        if header.strided:
            raw = self._pool.empty((len(indices), *header.shape[::-1]), header.dtype)
            landed = fortran_view(raw)
        else:
            raw = landed = plan.landing(out, self._pool)
        self._read_raw(header, indices, raw)
        bad = plan.settle(landed, out)
        if bad is not None:
            index = int(indices[bad])
            raise cast_error(landed[bad], out.dtype, self.place(index), index)

    def _read_raw(self, header: Header, indices: Array, raw: Array) -> None:
        """The loop that everything waits for: about four system calls and a comparison a file."""
        paths, times = self._paths, self.table.mtimes[indices].tolist()
        body, step, expected = byte_view(raw), header.payload_bytes, header.raw
        head, size = bytearray(len(expected)), len(expected) + header.payload_bytes
        start, flags = 0, OPEN_FLAGS
        open_, stat_, close_, read_ = os.open, os.fstat, os.close, preadv
        for index, time in zip(indices.tolist(), times, strict=True):
            piece = body[start : start + step]
            try:
                fd = open_(paths[index], flags)
                try:
                    stat = stat_(fd)
                    got = read_(fd, (head, piece), 0)
                    if got != size:
                        got = read_rest(fd, head, piece, got)
                finally:
                    close_(fd)
            except OSError as error:
                raise self._failed(index, error) from None
            if got != size or head != expected or stat.st_mtime_ns != time or stat.st_size != size:
                self.table.check_unchanged(index, stat)
                raise changed(self.table.paths[index], "it has another header or was being written")
            start += step

    def _failed(self, index: int, error: OSError) -> FileError:
        path = self.table.paths[index]
        if isinstance(error, FileNotFoundError):
            return changed(path, "it is gone")
        return FileError(f"{show_path(path)}: {error.strerror}", path=path, index=index)


def _check_agree(table: FileTable, dtype: DType | None, name: str) -> None:
    """Files must agree in shape and, unless a cast unifies them, in dtype."""
    groups: dict[str, list[int]] = {}
    for kind, header in enumerate(table.headers):
        stored = "" if dtype is not None else f" {native(header.dtype)}"
        groups.setdefault(f"shape {header.shape}{stored}", []).append(kind)
    if len(groups) == 1:
        return
    lines = []
    for what, kinds in groups.items():
        at = np.flatnonzero(np.isin(table.kinds, kinds))
        names = examples((show_path(table.paths[n]) for n in at[:4].tolist()), 3)
        lines.append((len(at), f"  {plural(len(at), 'file')} with {what}: {names}"))
    lines.sort(key=lambda line: -line[0])
    raise ShapeMismatchError(
        f"{name}: all files must have one shape and dtype, but there are {len(lines)} kinds:\n"
        + "\n".join(text for _, text in lines[:12])
        + "\nremove or fix the odd ones, or pass dtype= if only dtypes differ"
    )
