"""Columns of TFRecord and ArrayRecord files, by index.

The columns of an example stand in one record, so the sources of a data set share a `RecordStore`, which keeps the
records of the latest batch of each thread until all columns have been taken out of them.
"""

from __future__ import annotations

import gzip
import os
import threading
import zlib
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from npyflow._core.errors import FileFormatError, NpyflowError
from npyflow._format.parsing import Decoder, RecordError
from npyflow._format.schema import SCHEMA_FILE
from npyflow._format.tfrecord import (
    FRAME_BYTES,
    HEAD_BYTES,
    FrameError,
    check_records,
    find_frames,
    head,
)
from npyflow._sources.arrayrecords import ArrayRecords
from npyflow._sources.base import Place
from npyflow._sources.fileio import open_for_read, read_at, system_error
from npyflow._sources.handles import handle_limit
from npyflow._sources.stored import damaged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npyflow._core.buffers import BufferPool
    from npyflow._core.spec import ArraySpec
    from npyflow._format.schema import Schema
    from npyflow._sources.stored import Stored

Array = np.ndarray[Any, Any]


class _File(Protocol):
    """The records of one shard."""

    def records(self, positions: Sequence[int]) -> list[Array]:
        """Those at `positions`, each uint8 ``(1, bytes)``."""


class _ArrayRecordFile:
    def __init__(self, path: str, examples: int) -> None:
        self._file = ArrayRecords(path, examples)

    def records(self, positions: Sequence[int]) -> list[Array]:
        return [np.frombuffer(record, np.uint8)[None] for record in self._file.some(positions)]


class _TFRecordFile:
    """Frames are found by walking the lengths, once; or all are of one size."""

    def __init__(self, path: str, examples: int, record_bytes: int | None) -> None:
        self._path = path
        try:
            self._fd = open_for_read(path)
        except OSError as error:
            self._fd = -1
            raise system_error(path, error) from None
        self._size = os.fstat(self._fd).st_size
        self._starts = self._walk(examples) if record_bytes is None else None
        self._frame = 0 if record_bytes is None else record_bytes + FRAME_BYTES
        if record_bytes is not None and self._frame * examples != self._size:
            raise damaged(path, f"{self._size:,} bytes are not {examples:,} records of {record_bytes:,}")

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def _walk(self, examples: int) -> Array:
        starts = np.zeros(examples + 1, np.int64)
        text = bytearray(HEAD_BYTES)
        for number in range(examples):
            at = int(starts[number])
            got = read_at(self._fd, memoryview(text), at)
            size = int.from_bytes(text[:8], "little")
            if got < HEAD_BYTES or text != head(size) or at + size + FRAME_BYTES > self._size:
                raise damaged(self._path, "it is cut off, or its length has the wrong checksum", number)
            starts[number + 1] = at + size + FRAME_BYTES
        return starts

    def records(self, positions: Sequence[int]) -> list[Array]:
        return [self._record(position) for position in positions]

    def _record(self, position: int) -> Array:
        at = position * self._frame if self._starts is None else int(self._starts[position])
        size = self._frame if self._starts is None else int(self._starts[position + 1]) - at
        data = np.empty(size, np.uint8)
        try:
            got = read_at(self._fd, memoryview(data), at)  # type: ignore[arg-type]
        except OSError as error:
            raise system_error(self._path, error) from None
        if got < size:
            raise damaged(self._path, "it is cut off", position)
        return _checked(self._path, data, 0, size, [position])[0]


class _PackedFile:
    """A compressed TFRecord file, inflated into memory."""

    def __init__(self, path: str, examples: int) -> None:
        self._path = path
        try:
            with gzip.open(path, "rb") as file:
                self._data = np.frombuffer(file.read(), np.uint8)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise damaged(path, f"the compressed data is damaged: {error}") from None
        except OSError as error:
            raise system_error(path, error) from None
        self._records = _checked(path, self._data, 0, len(self._data), range(examples))

    def records(self, positions: Sequence[int]) -> list[Array]:
        return [self._records[position] for position in positions]


def _checked(path: str, data: Array, start: int, stop: int, numbers: Sequence[int]) -> list[Array]:
    """The records of whole frames, each checked, each uint8 ``(1, bytes)``."""
    try:
        found, at, _ = find_frames(data, start, stop, len(numbers))
    except FrameError as error:
        raise damaged(path, str(error), numbers[0]) from None
    if len(found) < len(numbers) or at != stop:
        raise damaged(path, f"it has {len(found):,} whole records, expected {len(numbers):,}")
    wrong = check_records(data, found)
    if wrong is not None:
        raise damaged(path, "its bytes have the wrong checksum", numbers[wrong])
    return [data[None, first:last] for first, last in found]


class RecordStore:
    """The records of a data set, for all its columns.

    Parameters
    ----------
    path : str
        The folder.
    schema : Schema
        What is in it.
    """

    def __init__(self, path: str, schema: Schema) -> None:
        self._path = path
        self._schema = schema
        self.starts = np.concatenate([[0], np.cumsum([shard.examples for shard in schema.shards], dtype=np.int64)])
        self.decoder = Decoder(schema.columns, str(schema.options.get("encoding", "raw")))
        self._packed = schema.options.get("compression") == "gzip"
        # Inflated shards are large.
        self._limit = 1 if self._packed else handle_limit()
        self._open: OrderedDict[int, _File] = OrderedDict()
        self._lock = threading.Lock()
        self._latest = threading.local()

    def records(self, indices: Array, leaf: int) -> list[Array]:
        """Return the records `indices`, each uint8 ``(1, bytes)``, for column `leaf`."""
        key = indices.tobytes()
        latest = getattr(self._latest, "batch", None)
        if latest is None or latest[0] != key or leaf in latest[2]:
            taken: set[int] = set()
            latest = self._latest.batch = (key, self._read(indices), taken)
        latest[2].add(leaf)
        if len(latest[2]) == len(self._schema.columns):
            self._latest.batch = None
        records: list[Array] = latest[1]
        return records

    def _read(self, indices: Array) -> list[Array]:
        shards = self.shard_of(indices)
        found: list[Any] = [None] * len(indices)
        for shard in np.unique(shards).tolist():
            at = np.flatnonzero(shards == shard).tolist()
            first = int(self.starts[shard])
            positions = (indices[at] - first).tolist()
            try:
                records = self._file(shard).records(positions)
            except NpyflowError as error:
                if error.index is not None:
                    error.index += first
                raise
            for place, record in zip(at, records, strict=True):
                found[place] = record
        return found

    def shard_of(self, indices: Any) -> Any:
        """The shards that hold examples."""
        return np.searchsorted(self.starts, indices, side="right") - 1

    def _file(self, shard: int) -> _File:
        with self._lock:
            file = self._open.get(shard)
            if file is not None:
                self._open.move_to_end(shard)
                return file
            if self._packed:
                # One at a time in memory, also while the next is inflated.
                self._open.clear()
                file = self._open[shard] = self._new(shard)
                return file
        file = self._new(shard)
        with self._lock:
            self._open[shard] = file
            if len(self._open) > self._limit:
                self._open.popitem(last=False)
        return file

    def _new(self, shard: int) -> _File:
        facts = self._schema.shards[shard]
        path = self.file(shard)
        if self._schema.to == "arrayrecord":
            return _ArrayRecordFile(path, facts.examples)
        if self._packed:
            return _PackedFile(path, facts.examples)
        size = facts.facts.get("record_bytes")
        return _TFRecordFile(path, facts.examples, size if isinstance(size, int) and size >= 0 else None)

    def file(self, shard: int) -> str:
        """The path of a shard."""
        return os.path.join(self._path, self._schema.shards[shard].files[0])

    def bad(self, index: int, what: str) -> FileFormatError:
        """The error for an example that is not as the schema says."""
        shard = int(self.shard_of(index))
        return damaged(self.file(shard), what, index - int(self.starts[shard]), index)

    def close(self) -> None:
        """Let go of the files; those that are being read close when the read ends."""
        with self._lock:
            self._open.clear()
        self._latest = threading.local()


class _Column:
    """What sources of fixed and of varying shape have in common."""

    access = "read"

    def __init__(self, store: RecordStore, stored: Stored) -> None:
        self._store = store
        self._leaf = stored.leaf
        self._columns = len(stored.schema.columns)
        self.spec = stored.spec
        self.specs: tuple[ArraySpec, ...] = (stored.spec,)

    def __len__(self) -> int:
        return int(self._store.starts[-1])

    def place(self, index: int) -> Place:
        shard = int(self._store.shard_of(index))
        return Place(self._store.file(shard), index - int(self._store.starts[shard]))

    def close(self) -> None:
        self._store.close()


class RecordSource(_Column):
    """A column whose examples have one shape.

    Parameters
    ----------
    store : RecordStore
        Shared by the columns.
    stored : Stored
        Which column.
    """

    @property
    def example_bytes(self) -> int:
        return self.spec.nbytes

    def read_into(self, indices: Array, outs: Sequence[Array]) -> None:
        into: list[Any] = [None] * self._columns
        into[self._leaf] = outs[0]
        for at, record in enumerate(self._store.records(indices, self._leaf)):
            try:
                self._store.decoder.into(into, at, record)
            except RecordError as error:
                raise self._store.bad(int(indices[at]), str(error.args[0])) from None


class VaryingRecordSource(_Column):
    """A column whose examples differ in shape; the shapes are in the schema.

    Parameters
    ----------
    store : RecordStore
        Shared by the columns.
    stored : Stored
        Which column.

    Raises
    ------
    FileFormatError
        If the schema has no shapes.
    """

    def __init__(self, store: RecordStore, stored: Stored) -> None:
        super().__init__(store, stored)
        self._shapes = _shapes_of(stored)
        largest = int(self._shapes.prod(axis=1).max()) if len(self._shapes) else 0
        self.example_bytes = largest * self.spec.dtype.itemsize

    def shapes(self, indices: Array) -> Array:
        found: Array = self._shapes[indices]
        return found

    def read_each(self, indices: Array, outs: Sequence[Sequence[Array]]) -> None:
        decoder = self._store.decoder
        for at, (record, out) in enumerate(zip(self._store.records(indices, self._leaf), outs[0], strict=True)):
            index = int(indices[at])
            view = memoryview(record[0])
            try:
                array = decoder.value(self._leaf, view, decoder.layout(view))
            except RecordError as error:
                raise self._store.bad(index, str(error.args[0])) from None
            if array.shape != tuple(self._shapes[index].tolist()):
                raise self._store.bad(
                    index, f"shape {array.shape}, but the schema says {tuple(self._shapes[index].tolist())}"
                )
            out[...] = array[tuple(map(slice, out.shape))]


def _shapes_of(stored: Stored) -> Array:
    """The shapes of all examples of a column, int64 ``(examples, axes)``, from the schema."""
    schema, spec = stored.schema, stored.spec
    name = schema.columns[stored.leaf].name
    shapes = np.empty((schema.examples, len(spec.shape)), np.int64)
    shapes[:] = [0 if size is None else size for size in spec.shape]
    first = 0
    for number, shard in enumerate(schema.shards):
        try:
            sizes = np.array(shard.facts["lengths"][name], np.int64).reshape(len(spec.varying), shard.examples)
            if sizes.size and sizes.min() < 0:
                raise ValueError("a negative length")
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise damaged(
                os.path.join(stored.path, SCHEMA_FILE),
                f"it has no shapes of {name} for {stored.file(number)} ({type(error).__name__}: {error})",
            ) from None
        shapes[first : first + shard.examples, list(spec.varying)] = sizes.T
        first += shard.examples
    return shapes


def open_records(
    stored: Stored,
    pool: BufferPool,  # noqa: ARG001 (as all sources are opened)
    shared: dict[Any, Any],
    name: str,  # noqa: ARG001
) -> RecordSource | VaryingRecordSource:
    """Return the source of one column; the columns of a data set share what they read, through `shared`.

    Parameters
    ----------
    stored : Stored
        Which column of which data set.
    pool : BufferPool
        Scratch memory.
    shared : dict
        Of the sources that are opened together.
    name : str
        What messages call it.
    """
    key = ("records", stored.path)
    store = shared.get(key)
    if store is None:
        store = shared[key] = RecordStore(stored.path, stored.schema)
    return VaryingRecordSource(store, stored) if stored.spec.varying else RecordSource(store, stored)
