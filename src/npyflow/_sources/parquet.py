"""Examples in Parquet files: a row group is read at once, and kept for a while."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.errors import FileFormatError, NpyflowError
from npyflow._core.text import show_path
from npyflow._sources.arrow import decode, decode_shapes, decode_varying, pyarrow, shape_name
from npyflow._sources.base import Place, read_groups
from npyflow._sources.handles import handle_limit
from npyflow._sources.rowgroups import ParquetReader, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from npyflow._core.buffers import BufferPool
    from npyflow._format.schema import Column
    from npyflow._sources.stored import Stored

Array = np.ndarray[Any, Any]

# Decoded row groups of all columns that are kept: several windows of `Shuffle(block=)` with row groups of 512 KiB.
CACHE_BYTES = 64 << 20
# Open files, each with its footer in memory.
_MOST_FILES = 16


class _Slot:
    """A decoded row group, or one that somebody is decoding."""

    __slots__ = ("arrays", "lock")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.arrays: tuple[Array, ...] | None = None


class GroupCache:
    """Decoded row groups, the least recently used dropped first.

    Parameters
    ----------
    limit : int
        Bytes to keep. What is in use lives on.

    Notes
    -----
    Safe to use from several threads: what two want at once is decoded once.
    """

    def __init__(self, limit: int = CACHE_BYTES) -> None:
        self._limit = limit
        self._slots: OrderedDict[Any, _Slot] = OrderedDict()
        self._lock = threading.Lock()
        self.held_bytes = 0

    def get(self, key: Any, load: Callable[[], tuple[Array, ...]]) -> tuple[Array, ...]:
        """Return what `load` makes, or has made."""
        with self._lock:
            slot = self._slots.setdefault(key, _Slot())
            self._slots.move_to_end(key)
        with slot.lock:
            if slot.arrays is None:
                loaded = None
                try:
                    loaded = load()
                finally:
                    self._settle(key, slot, loaded)
                return loaded
            return slot.arrays

    def _settle(self, key: Any, slot: _Slot, loaded: tuple[Array, ...] | None) -> None:
        """Keep and count what was loaded, and make room for it; forget what failed."""
        with self._lock:
            # Both under the lock: what is there and not counted, another thread would count off.
            slot.arrays = loaded
            if self._slots.get(key) is not slot:
                return
            if loaded is None:
                del self._slots[key]
                return
            self.held_bytes += _nbytes(loaded)
            for other in list(self._slots):
                if self.held_bytes <= self._limit:
                    break
                # One that is being decoded is counted when it is there.
                if (arrays := self._slots[other].arrays) is not None:
                    self.held_bytes -= _nbytes(arrays)
                    del self._slots[other]

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._slots.clear()
            self.held_bytes = 0


class ParquetStore:
    """The files of a data set, read by all its columns.

    Parameters
    ----------
    stored : Stored
        Any of the columns.

    Raises
    ------
    FileFormatError
        If the schema lacks what was written for Parquet.
    """

    def __init__(self, stored: Stored) -> None:
        self.schema = stored.schema
        if odd := [shard.files for shard in self.schema.shards if len(shard.files) != 1]:
            raise FileFormatError(
                f"{show_path(stored.path)}: {len(odd[0])} files for a shard, expected 1; convert again",
                path=stored.path,
            )
        self.tensors = bool(stored.schema.options.get("tensors", True))
        self.cache = GroupCache()
        self._stored = stored
        self._idle: list[tuple[int, Any]] = []
        self._lock = threading.Lock()
        self._limit = min(_MOST_FILES, handle_limit())
        self._rows = [
            rows_of(shard.facts, shard.examples, self.path(at)) for at, shard in enumerate(self.schema.shards)
        ]
        counts = np.array([len(rows) for rows in self._rows], np.int64)
        # Of each row group the shard, its number there, and its first example.
        self.shard_of = np.repeat(np.arange(len(counts)), counts)
        self.number_of = np.arange(len(self.shard_of)) - np.repeat(np.cumsum(counts) - counts, counts)
        self.starts = np.concatenate([[0], np.cumsum([count for rows in self._rows for count in rows], dtype=np.int64)])
        self.firsts = np.concatenate([[0], np.cumsum([shard.examples for shard in self.schema.shards], dtype=np.int64)])

    def path(self, shard: int) -> str:
        """The file of a shard."""
        return self._stored.file(shard)

    def group(self, index: int, name: str) -> Any:
        """Return a column of a row group, numbered over all shards, as Arrow has it.

        Raises
        ------
        FileError
            If the file is gone, changed or damaged.
        """
        shard, number = int(self.shard_of[index]), int(self.number_of[index])
        with self._open(shard) as file:
            return file.group(number, [name], self._rows[shard][number])[name]

    def whole(self, shard: int, name: str) -> Any:
        """Return a column of a whole shard; errors as in `group`."""
        with self._open(shard) as file:
            return file.whole(name, self.schema.shards[shard].examples)

    def _open(self, shard: int) -> _Lent:
        with self._lock:
            for at in range(len(self._idle) - 1, -1, -1):
                if self._idle[at][0] == shard:
                    return _Lent(self, *self._idle.pop(at))
        return _Lent(
            self, shard, ParquetReader(self.path(shard), self._rows[shard], self.schema.shards[shard].sizes[0])
        )

    def take_back(self, shard: int, file: ParquetReader) -> None:
        """Keep an open file for the next that needs it."""
        oldest = None
        with self._lock:
            self._idle.append((shard, file))
            if len(self._idle) > self._limit:
                oldest = self._idle.pop(0)
        del oldest

    def close(self) -> None:
        """Let go of memory and descriptors."""
        self.cache.clear()
        with self._lock:
            self._idle.clear()


class _Lent:
    """An open file for as long as one thread reads it: Arrow's reader is for one at a time."""

    def __init__(self, store: ParquetStore, shard: int, file: ParquetReader) -> None:
        self._store, self._shard, self._file = store, shard, file

    def __enter__(self) -> ParquetReader:
        return self._file

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._store.take_back(self._shard, self._file)


class _ParquetColumn:
    """What the two sources share.

    Parameters
    ----------
    stored : Stored
        The column.
    store : ParquetStore
        The files.
    pool : BufferPool
        Scratch memory.
    """

    def __init__(self, stored: Stored, store: ParquetStore, pool: BufferPool) -> None:
        self._column: Column = stored.schema.columns[stored.leaf]
        self._store = store
        self._pool = pool
        self.access = "read"
        self.specs = (self._column.spec,)
        self.example_bytes = self._column.spec.nbytes

    def __len__(self) -> int:
        return int(self._store.starts[-1])

    def _decoded(self, group: int, index: int) -> tuple[Array, ...]:
        try:
            return self._store.cache.get((self._column.name, group), lambda: self._load(group))
        except NpyflowError as error:
            error.index = index
            raise

    def _load(self, group: int) -> tuple[Array, ...]:
        raise NotImplementedError

    def place(self, index: int) -> Place:
        shard = int(np.searchsorted(self._store.firsts, index, side="right")) - 1
        return Place(self._store.path(shard), index - int(self._store.firsts[shard]))

    def close(self) -> None:
        self._store.close()


class ParquetSource(_ParquetColumn):
    """A column whose examples have one shape; see `Source`."""

    def read_into(self, indices: Array, outs: Sequence[Array]) -> None:
        """Row group by row group."""
        groups = np.searchsorted(self._store.starts, indices, side="right") - 1

        def read(group: int, at: Array, parts: Sequence[Array]) -> None:
            (values,) = self._decoded(group, int(indices[at[0]]))
            # In range; "clip" spares a copy.
            np.take(values, indices[at] - self._store.starts[group], axis=0, out=parts[0], mode="clip")

        read_groups(groups, outs, self.specs, self._pool, read)

    def _load(self, group: int) -> tuple[Array, ...]:
        stored = self._store.group(group, self._column.name)
        path = self._store.path(int(self._store.shard_of[group]))
        return (decode(self._column, stored, self._store.tensors, path),)


class VaryingParquetSource(_ParquetColumn):
    """A column whose examples differ in shape; see `VaryingSource`."""

    def __init__(self, stored: Stored, store: ParquetStore, pool: BufferPool) -> None:
        super().__init__(stored, store, pool)
        dtype = self._column.spec.dtype
        largest = [
            _largest_of(shard.facts, self._column.name, store.path(at)) for at, shard in enumerate(store.schema.shards)
        ]
        self.example_bytes = max(largest, default=0) * dtype.itemsize
        self._shapes = np.zeros((len(self), len(self._column.spec.shape)), np.int64)
        self._known = np.zeros(len(store.schema.shards), bool)
        self._lock = threading.Lock()

    def shapes(self, indices: Array) -> Array:
        """Out of the files the first time: the column beside the values is short."""
        shards = np.unique(np.searchsorted(self._store.firsts, indices, side="right") - 1)
        for shard in shards[~self._known[shards]].tolist():
            self._learn(shard)
        return self._shapes[indices]

    def read_each(self, indices: Array, outs: Sequence[Sequence[Array]]) -> None:
        """Row group by row group."""
        groups = np.searchsorted(self._store.starts, indices, side="right") - 1
        shapes = self.shapes(indices).tolist()
        for group in np.unique(groups).tolist():
            at = np.flatnonzero(groups == group).tolist()
            values, offsets = self._decoded(group, int(indices[at[0]]))
            for one in at:
                row = int(indices[one] - self._store.starts[group])
                out = outs[0][one]
                example = values[offsets[row] : offsets[row + 1]].reshape(shapes[one])
                out[...] = example[tuple(map(slice, out.shape))]

    def _load(self, group: int) -> tuple[Array, ...]:
        stored = self._store.group(group, self._column.name)
        shard, start, stop = int(self._store.shard_of[group]), self._store.starts[group], self._store.starts[group + 1]
        return decode_varying(self._column, stored, self.shapes(np.arange(start, stop)), self._store.path(shard))

    def _learn(self, shard: int) -> None:
        with self._lock:
            if not self._known[shard]:
                stored = self._store.whole(shard, shape_name(self._column.name))
                first, last = self._store.firsts[shard], self._store.firsts[shard + 1]
                self._shapes[first:last] = decode_shapes(self._column, stored, self._store.path(shard))
                self._known[shard] = True


def open_column(
    stored: Stored, pool: BufferPool, shared: dict[Any, Any], name: str
) -> ParquetSource | VaryingParquetSource:
    """Return the source of a column; columns of one data set share their files and memory, through `shared`.

    Raises
    ------
    MissingDependencyError
        Without pyarrow.
    FileFormatError
        If the schema lacks what was written for Parquet.
    """
    del name
    pyarrow()
    key = ("parquet", stored.path)
    if key not in shared:
        shared[key] = ParquetStore(stored)
    if stored.spec.varying:
        return VaryingParquetSource(stored, shared[key], pool)
    return ParquetSource(stored, shared[key], pool)


def _nbytes(arrays: tuple[Array, ...]) -> int:
    return sum(array.nbytes for array in arrays)


def _largest_of(facts: dict[str, Any], name: str, path: str) -> int:
    largest = facts.get("largest")
    found = largest.get(name) if isinstance(largest, dict) else None
    if not isinstance(found, int) or found < 0:
        raise FileFormatError(
            f"{show_path(path)}: the schema beside it does not say how large its examples are; convert again", path=path
        )
    return found
