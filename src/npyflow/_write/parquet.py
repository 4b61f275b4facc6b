"""Parquet as a target: a column a component, row groups by bytes."""

from __future__ import annotations

import contextlib
import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.dtypes import is_text
from npyflow._core.errors import OptionError, ShapeMismatchError
from npyflow._core.options import integer
from npyflow._sources.arrow import MOST_ELEMENTS, encode, leaf_path, pyarrow, schema_of
from npyflow._sources.rowgroups import read_shard

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from npyflow._format.schema import Column
    from npyflow._write.base import Columns

Array = np.ndarray[Any, Any]

COMPRESSIONS = ("zstd", "none")
# Any example costs its whole group to read. Below this, reading in order slows down; compression gains nothing above.
ROW_GROUP_BYTES = 1 << 19
_MOST_GROUP_BYTES = 1 << 30
# What is tried before a column is compressed, and what must remain at most for it to be worth the time.
_TRIAL_BYTES = 1 << 20
_WORTH_IT = 0.9
_LEVELS = 64
# A row costs its levels, its offsets or its place in a list, even if it holds nothing.
_ROW_BYTES = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetFormat:
    """Parquet files, a shard each.

    Parameters
    ----------
    compression : {"zstd", "none"}
        ``"zstd"`` leaves columns as they are that it makes hardly smaller, such as noise.
    row_group_bytes : int
        Of examples, before compression: what is read at once for any example in it.
    tensors : bool
        Mark arrays as Arrow's fixed-shape tensors, which pyarrow gives back in shape. Else they are lists of lists,
        for readers that refuse what they do not know.

    Raises
    ------
    OptionError
        If an option is out of its range.
    """

    compression: str = "zstd"
    row_group_bytes: int = ROW_GROUP_BYTES
    tensors: bool = True

    def __post_init__(self) -> None:
        if self.compression not in COMPRESSIONS:
            raise OptionError(
                f"compression={self.compression!r}: expected one of {', '.join(map(repr, COMPRESSIONS))} for Parquet"
            )
        if integer("row_group_bytes", self.row_group_bytes, 1) > _MOST_GROUP_BYTES:
            raise OptionError(f"row_group_bytes={self.row_group_bytes}: expected at most {_MOST_GROUP_BYTES}")

    @property
    def name(self) -> str:
        """As in ``--to``."""
        return "parquet"

    @property
    def options(self) -> dict[str, Any]:
        """What a reader must know."""
        return {
            "compression": self.compression,
            "row_group_bytes": self.row_group_bytes,
            "tensors": self.tensors,
        }

    def check(self, columns: Sequence[Column]) -> None:
        """Refuse examples that are too large for Arrow's lists.

        Raises
        ------
        ShapeMismatchError
        MissingDependencyError
        """
        pyarrow()
        for column in columns:
            _check_elements(column, math.prod(column.spec.fixed_shape))

    def example_bytes(self, column: Column, elements: int) -> int:
        """About how many bytes a value of `elements` elements takes, before compression."""
        if column.spec.dtype.kind == "b":
            values = -(-elements // 8)
        else:
            # A length before each text.
            itemsize = column.spec.dtype.itemsize
            # Parquet has no integers of two bytes.
            itemsize = 4 if column.spec.dtype.kind in "iu" and itemsize == 2 else itemsize
            values = elements * (itemsize + 4 * is_text(column.spec.dtype))
        # Parquet says of each value whether a list goes on, in runs where lists are long.
        levels = 1 + min(elements, _LEVELS) // 8 if column.spec.shape else 0
        return values + levels + (8 * len(column.spec.shape) if column.spec.varying else 0)

    def as_read(self, column: Column, values: Array) -> Array:  # noqa: ARG002 (as all formats)
        """Values come back as they are."""
        return values

    def files(self, stem: str, columns: Sequence[Column]) -> list[str]:
        """Names of the files of a shard: one."""
        del columns
        return [f"{stem}.parquet"]

    def create(self, paths: Sequence[str], columns: Sequence[Column], examples: int) -> ParquetShard:
        """Open a shard for writing."""
        del examples
        return ParquetShard(os.fspath(paths[0]), columns, self)

    def read(
        self, paths: Sequence[str], columns: Sequence[Column], facts: dict[str, Any], counts: Sequence[int]
    ) -> Iterator[Columns]:
        """Read a shard back, in order, so many examples at a time.

        Raises
        ------
        FileFormatError
            If the file is damaged.
        """
        return read_shard(paths[0], columns, facts, counts, self.tensors)


class ParquetShard:
    """One file in the making.

    Parameters
    ----------
    path : str
        Where it goes.
    columns : sequence of Column
        Of the data set.
    how : ParquetFormat
        The options.

    Notes
    -----
    What is given to `write` is held until its row group is full, and must not change until then. Where row groups
    end depends on the examples alone, not on how many came at a time: so do the bytes of the file.
    """

    def __init__(self, path: str, columns: Sequence[Column], how: ParquetFormat) -> None:
        pa = pyarrow()
        self._columns = columns
        self._how = how
        self._schema = schema_of(columns, how.tensors)
        self._pending: list[list[Array]] = [[] for _ in columns]
        self._rows = 0
        self._bytes = 0
        self._groups: list[int] = []
        self._largest = {column.name: 0 for column in columns if column.spec.varying}
        self._fixed_bytes = _ROW_BYTES + sum(
            0 if column.spec.varying else math.prod(column.spec.fixed_shape) * column.spec.dtype.itemsize
            for column in columns
        )
        self._writer: Any = None
        self._file = pa.OSFile(path, "wb")

    def write(self, columns: Columns) -> None:
        """Append examples.

        Raises
        ------
        CastError
            If a text is none.
        ShapeMismatchError
            If an example is too large for Arrow's lists.
        """
        ends = np.cumsum(self._sizes(columns))
        start = done = 0
        while start < len(ends):
            stop = int(np.searchsorted(ends, done + self._how.row_group_bytes - self._bytes, side="right"))
            if stop == start and not self._rows:
                # Larger than a group: one of its own.
                stop += 1
            if stop > start:
                self._hold(columns, start, stop)
                self._bytes += int(ends[stop - 1]) - done
                start, done = stop, int(ends[stop - 1])
            if stop < len(ends):
                self._flush()

    def close(self) -> dict[str, Any]:
        """Finish the file and say how many rows each group has, and the elements of the largest example."""
        if self._rows or self._writer is None:
            self._flush()
        self._writer.close()
        self._file.close()
        return {"rows": self._groups, "largest": self._largest}

    def abandon(self) -> None:
        """Let go of the file after an error."""
        if self._writer is not None:
            with contextlib.suppress(Exception):
                self._writer.close()
            # Else it tries again when it dies.
            self._writer.is_open = False
        with contextlib.suppress(OSError):
            self._file.close()

    def _sizes(self, columns: Columns) -> Array:
        """The bytes of each example."""
        sizes = np.full(len(columns[0]), self._fixed_bytes, np.int64)
        for column, values in zip(self._columns, columns, strict=True):
            if column.spec.varying:
                elements = np.array([one.size for one in values], np.int64)
                largest = int(elements.max(initial=self._largest[column.name]))
                _check_elements(column, largest)
                self._largest[column.name] = largest
                sizes += elements * column.spec.dtype.itemsize
        return sizes

    def _hold(self, columns: Columns, start: int, stop: int) -> None:
        for held, column, values in zip(self._pending, self._columns, columns, strict=True):
            if column.spec.varying:
                held.extend(values[start:stop])
            else:
                held.append(np.asarray(values[start:stop]))
        self._rows += stop - start

    def _flush(self) -> None:
        """Write what is held as a row group."""
        pa = pyarrow()
        arrays: list[Any] = []
        for column, held in zip(self._columns, self._pending, strict=True):
            arrays += encode(column, held if column.spec.varying else _joined(column, held), self._how.tensors)
            held.clear()
        table = pa.Table.from_arrays(arrays, schema=self._schema)
        if self._writer is None:
            self._writer = self._open(table)
        if self._rows:
            self._writer.write_table(table, row_group_size=self._rows)
            self._groups.append(self._rows)
        self._rows = self._bytes = 0

    def _open(self, first: Any) -> Any:
        """Begin the file; the first row group decides which columns are compressed."""
        pq = pyarrow().parquet
        paths = [leaf_path(field.name, field.type) for field in self._schema]
        pa = pyarrow()
        bytes_ = (pa.int8(), pa.uint8())
        scalars = [column for column in self._columns if column.spec.shape == ()]
        return pq.ParquetWriter(
            self._file,
            self._schema,
            compression={
                path: "ZSTD" if self._how.compression == "zstd" and _shrinks(column) else "NONE"
                for path, column in zip(paths, first.columns, strict=True)
            },
            # Dictionaries and ranges pay for labels and names, and cost time for the values of arrays; but Parquet has
            # no integers of one byte, and would take four for each.
            use_dictionary=[
                *(column.name for column in scalars if is_text(column.spec.dtype)),
                *(path for path, field in zip(paths, self._schema, strict=True) if _value_type(field.type) in bytes_),
            ],
            write_statistics=[column.name for column in scalars if column.spec.dtype.kind != "c"],
            # So that a damaged page is found when it is read.
            write_page_checksum=True,
        )


def _value_type(kind: Any) -> Any:
    """The type of the values of an Arrow type, however nested."""
    types = pyarrow().types
    kind = getattr(kind, "storage_type", kind)
    while types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        kind = kind.value_type
    return kind


def _joined(column: Column, held: Sequence[Array]) -> Array:
    if len(held) == 1:
        return held[0]
    return np.concatenate([np.empty((0, *column.spec.fixed_shape), column.spec.dtype), *held])


def _check_elements(column: Column, elements: int) -> None:
    parts = elements * (2 if column.spec.dtype.kind == "c" else 1)
    if parts > MOST_ELEMENTS:
        raise ShapeMismatchError(
            f"{column.name}: an example of {elements:,} elements; Parquet has room for {MOST_ELEMENTS:,} numbers in "
            f"one: write windows or crops of it, or choose another format"
        )


def _shrinks(column: Any) -> bool:
    """Say whether compression is worth its time, by a piece of the values."""
    pa = pyarrow()
    if _value_type(column.type) in (pa.int16(), pa.uint16()):
        # Kept as four bytes, two of which are always the same.
        return True
    # What is last is what the values are in; the others are offsets and the bits of nulls.
    buffers = [chunk.buffers()[-1] for chunk in column.chunks]
    size = sum(buffer.size for buffer in buffers if buffer is not None)
    if not size:
        return True
    trial = next(buffer for buffer in buffers if buffer is not None)[:_TRIAL_BYTES]
    return bool(len(pa.compress(trial, "zstd", asbytes=True)) <= _WORTH_IT * trial.size)
