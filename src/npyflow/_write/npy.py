"""Shards of ``.npy`` files, which ``np.load`` opens: an array a column, of all examples of the shard."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from npyflow._core.dtypes import is_small_float

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from npyflow._format.schema import Column
    from npyflow._write.base import Columns

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class NpyFormat:
    """Examples of one shape are stacked; those that vary stand one after another, with offsets.

    Where only the first axis varies, example ``i`` is ``values[offsets[i]:offsets[i + 1]]``. Where others do too, that
    is flat, and a third file has the shapes, int64 ``(examples, axes)``.
    """

    name = "npy"

    @property
    def options(self) -> dict[str, Any]:
        return {}

    def check(self, columns: Sequence[Column]) -> None:
        """Everything that a flow delivers has a place in a ``.npy`` file."""

    def example_bytes(self, column: Column, elements: int) -> int:
        return elements * column.spec.dtype.itemsize + (8 * (1 + len(column.spec.shape)) if column.spec.varying else 0)

    def as_read(self, column: Column, values: Array) -> Array:
        del column
        return values

    def files(self, stem: str, columns: Sequence[Column]) -> list[str]:
        number = stem.removeprefix("data-")
        return [f"{name}-{number}.npy" for column in columns for name in files_of(column)]

    def create(self, paths: Sequence[str], columns: Sequence[Column], examples: int) -> NpyWriter:
        return NpyWriter(paths, columns, examples)

    def read(
        self, paths: Sequence[str], columns: Sequence[Column], facts: dict[str, Any], counts: Sequence[int]
    ) -> Iterator[Columns]:
        del facts
        rest = list(paths)
        arrays = []
        for column in columns:
            files = [rest.pop(0) for _ in files_of(column)]
            loaded = [np.load(path, mmap_mode="r", allow_pickle=False) for path in files]
            # Dates are delivered as integers, and NumPy loads a small float as bytes.
            same = loaded[0].dtype == column.spec.dtype
            arrays.append([loaded[0] if same else loaded[0].view(column.spec.dtype), *loaded[1:]])
        start = 0
        for count in counts:
            yield [_examples(column, each, start, start + count) for column, each in zip(columns, arrays, strict=True)]
            start += count


def only_first_varies(column: Column) -> bool:
    """Whether examples differ in nothing but their length: their rows can stand one after another."""
    return column.spec.varying == (0,)


def files_of(column: Column) -> list[str]:
    """What is kept of a column, a file each."""
    if not column.spec.varying:
        return [column.name]
    parts = [column.name, f"{column.name}.offsets"]
    return parts if only_first_varies(column) else [*parts, f"{column.name}.shapes"]


def _examples(column: Column, arrays: Sequence[Array], start: int, stop: int) -> Array | list[Array]:
    if not column.spec.varying:
        return arrays[0][start:stop]
    values, offsets, *shapes = arrays
    runs = [values[offsets[at] : offsets[at + 1]] for at in range(start, stop)]
    return [run.reshape(shape) for run, shape in zip(runs, shapes[0][start:stop], strict=True)] if shapes else runs


class NpyWriter:
    """Writes the files of one shard side by side.

    Parameters
    ----------
    paths, columns, examples
        As in `Format.create`.
    """

    def __init__(self, paths: Sequence[str], columns: Sequence[Column], examples: int) -> None:
        self._columns = columns
        self._examples = examples
        self._values: list[_Array] = []
        # For each column the shapes of its examples, where they vary.
        self._shapes: list[list[tuple[int, ...]]] = [[] for _ in columns]
        self._beside: list[list[str]] = []
        rest = list(paths)
        try:
            for column in columns:
                files = [rest.pop(0) for _ in files_of(column)]
                self._values.append(_Array(files[0], _rows_of(column), _stored_dtype(column)))
                self._beside.append(files[1:])
        except BaseException:
            self.abandon()
            raise

    def write(self, columns: Columns) -> None:
        for values, shapes, given in zip(self._values, self._shapes, columns, strict=True):
            if isinstance(given, list):
                shapes += [array.shape for array in given]
                for array in given:
                    values.append(array)
            else:
                values.append(given)

    def close(self) -> dict[str, Any]:
        for column, values, shapes, beside in zip(self._columns, self._values, self._shapes, self._beside, strict=True):
            values.close()
            if beside:
                table = np.array(shapes, np.int64).reshape(self._examples, len(column.spec.shape))
                runs = table[:, 0] if only_first_varies(column) else table.prod(axis=1)
                offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(runs)])
                for path, array in zip(beside, (offsets, table), strict=False):
                    _save(path, array)
        return {}

    def abandon(self) -> None:
        for values in self._values:
            values.file.close()


def _rows_of(column: Column) -> tuple[int, ...]:
    """The shape of one row of the values."""
    if not column.spec.varying:
        return column.spec.fixed_shape
    return column.spec.fixed_shape if only_first_varies(column) else ()


def _stored_dtype(column: Column) -> np.dtype[Any]:
    """Dates are kept as dates, and what NumPy has no name for as bytes."""
    if is_small_float(column.spec.dtype):
        return np.dtype((np.void, column.spec.dtype.itemsize))
    return column.spec.dtype if column.spec.unit is None else np.dtype(column.spec.unit)


class _Array:
    """One ``.npy`` file that grows along its first axis; the header gets its length in the end."""

    def __init__(self, path: str, row_shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._row_shape = row_shape
        self._dtype = dtype
        self._rows = 0
        self.file = open(path, "wb", buffering=0)  # noqa: SIM115 (closed by close or abandon)
        self._header()

    def append(self, array: Array) -> None:
        """Append rows, or an example as a run of rows."""
        row = math.prod(self._row_shape)
        self._rows += array.shape[0] if row == 0 else array.size // row
        # Text may be narrower in this chunk; everything else is of this type, or its bits are.
        _write_all(self.file, np.ascontiguousarray(array, self._dtype if array.dtype.kind in "US" else None))

    def close(self) -> None:
        self.file.seek(0)
        self._header()
        self.file.close()

    def _header(self) -> None:
        # NumPy leaves room for the first axis to grow, so that it can be written again in place.
        facts = {"descr": self._dtype.str, "fortran_order": False, "shape": (self._rows, *self._row_shape)}
        np.lib.format.write_array_header_1_0(self.file, facts)


def _write_all(file: BinaryIO | Any, array: Array) -> None:
    if array.size == 0:
        return
    rest = array.reshape(-1).view(np.uint8).data
    while rest:
        rest = rest[file.write(rest) :]


def _save(path: str, array: Array) -> None:
    with open(path, "wb") as file:
        np.save(file, array, allow_pickle=False)
