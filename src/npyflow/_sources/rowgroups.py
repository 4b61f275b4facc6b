"""Row groups of one Parquet file, checked against what was written."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.errors import FileChangedError, FileFormatError
from npyflow._core.text import plural, show_path
from npyflow._sources.arrow import decode, decode_shapes, decode_varying, names_of, pyarrow
from npyflow._sources.fileio import system_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from npyflow._format.schema import Column

Array = np.ndarray[Any, Any]


class ParquetReader:
    """One open file.

    Parameters
    ----------
    path : str
        Of the file.
    rows : sequence of int
        Rows of each row group, as written.
    size : int, optional
        Its bytes, as written.

    Raises
    ------
    FileError
        If it is gone, another one, or damaged.
    """

    def __init__(self, path: str, rows: Sequence[int], size: int | None = None) -> None:
        self._path = path
        pq = pyarrow().parquet
        try:
            found = os.stat(path).st_size
        except OSError as error:
            raise system_error(path, error) from None
        if size is not None and found != size:
            raise FileChangedError(
                f"{show_path(path)} has {found:,} bytes, expected {size:,}; copy it or convert again",
                path=path,
                kind="changed",
            )
        self._file = self._guarded(lambda: pq.ParquetFile(path, page_checksum_verification=True))
        footer = self._file.metadata
        groups = self._guarded(lambda: [footer.row_group(at).num_rows for at in range(footer.num_row_groups)])
        if groups != list(rows):
            raise FileChangedError(
                f"{show_path(path)} has {plural(sum(groups), 'row')} in {len(groups):,} row groups, expected "
                f"{sum(rows):,} in {len(rows):,}; it is not the file that was converted: convert again",
                path=path,
                kind="changed",
            )

    def group(self, number: int, names: Sequence[str], rows: int) -> dict[str, Any]:
        """Return columns of a row group, each as one Arrow array."""
        return self._columns(
            lambda: self._file.read_row_group(number, columns=list(names), use_threads=False), names, rows
        )

    def whole(self, name: str, rows: int) -> Any:
        """Return a column of all row groups, as one Arrow array."""
        return self._columns(lambda: self._file.read(columns=[name], use_threads=False), [name], rows)[name]

    def _columns(self, read: Callable[[], Any], names: Sequence[str], rows: int) -> dict[str, Any]:
        table = self._guarded(read)
        found = {name: self._guarded(lambda name=name: _one(table.column(name))) for name in names}  # type: ignore[misc]
        for name, array in found.items():
            if len(array) != rows:
                raise FileFormatError(
                    f"{show_path(self._path)} column {name!r} has {plural(len(array), 'row')} where {rows:,} were "
                    f"written; the file is damaged: copy it or convert again",
                    path=self._path,
                )
        return found

    def _guarded(self, read: Callable[[], Any]) -> Any:
        """Call Arrow, whose errors are of many kinds."""
        try:
            return read()
        except FileNotFoundError as error:
            raise system_error(self._path, error) from None
        except (pyarrow().ArrowException, OSError, KeyError, ValueError, MemoryError) as error:
            # The first line; after it comes where in Arrow's own source it was raised.
            what = (str(error).splitlines() or [type(error).__name__])[0]
            raise FileFormatError(
                f"{show_path(self._path)} is damaged: {what}; copy it or convert again", path=self._path
            ) from None


def read_shard(
    path: str, columns: Sequence[Column], facts: dict[str, Any], counts: Sequence[int], tensors: bool
) -> Iterator[list[Array | list[Array]]]:
    """Read a file in order, so many examples at a time.

    Parameters
    ----------
    path : str
        Of the file.
    columns : sequence of Column
        Of the data set.
    facts : dict
        What was noted when it was written.
    counts : sequence of int
        All its examples, in portions.
    tensors : bool
        How arrays were written.

    Yields
    ------
    list of array, or list of array
        For each column an array, or an array an example where they vary. None of them may be written to.

    Raises
    ------
    FileError
        If it is damaged, or another file.
    """
    rows = rows_of(facts, sum(counts), path)
    groups = _decoded_groups(path, columns, rows, tensors)
    have: list[Array | list[Array]] = []
    at = end = 0
    for count in counts:
        parts: list[list[Any]] = [[] for _ in columns]
        missing = count
        while missing:
            if at == end:
                have, at, end = next(groups), 0, rows.pop(0)
            step = min(missing, end - at)
            for part, values in zip(parts, have, strict=True):
                part.append(values[at : at + step])
            at += step
            missing -= step
        yield [_joined(column, part) for column, part in zip(columns, parts, strict=True)]


def _joined(column: Column, parts: list[Any]) -> Array | list[Array]:
    if column.spec.varying:
        return [example for part in parts for example in part]
    if len(parts) == 1:
        only: Array = parts[0]
        return only
    return np.concatenate([np.empty((0, *column.spec.fixed_shape), column.spec.dtype), *parts])


def _decoded_groups(
    path: str, columns: Sequence[Column], rows: Sequence[int], tensors: bool
) -> Iterator[list[Array | list[Array]]]:
    reader = ParquetReader(path, rows)
    names = [name for column in columns for name in names_of(column)]
    for number, count in enumerate(list(rows)):
        stored = reader.group(number, names, count)
        out: list[Array | list[Array]] = []
        for column in columns:
            if not column.spec.varying:
                out.append(decode(column, stored[column.name], tensors, path))
                continue
            shapes = decode_shapes(column, stored[names_of(column)[1]], path)
            values, offsets = decode_varying(column, stored[column.name], shapes, path)
            runs = zip(offsets[:-1].tolist(), offsets[1:].tolist(), shapes.tolist(), strict=True)
            out.append([values[start:stop].reshape(shape) for start, stop, shape in runs])
        yield out


def rows_of(facts: dict[str, Any], examples: int, path: str) -> list[int]:
    """Return the rows of each row group, as they were noted for a file of so many examples.

    Raises
    ------
    FileFormatError
        If they were not.
    """
    rows = facts.get("rows")
    if not isinstance(rows, list) or not all(isinstance(count, int) and count > 0 for count in rows):
        rows = None
    if rows is None or sum(rows) != examples:
        raise FileFormatError(
            f"{show_path(path)}: the schema beside it does not say the rows of its row groups; convert again", path=path
        )
    return list(rows)


def _one(chunked: Any) -> Any:
    """Return the array of a column, whole."""
    return chunked.chunk(0) if chunked.num_chunks == 1 else chunked.combine_chunks()
