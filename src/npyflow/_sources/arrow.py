"""How a column of examples stands in Arrow's memory, and so in Parquet files.

Arrow's columns are one-dimensional, real and native: an array becomes a list of fixed length that knows its shape, a
complex number a pair, bfloat16 and float8 the integers of their bits. What differs in shape is a list, with its shape
in a column beside it.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.dtypes import carrier, dtype_text, is_small_float, is_text
from npyflow._core.errors import CastError, FileFormatError, MissingDependencyError
from npyflow._core.text import show_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npyflow._core.dtypes import DType
    from npyflow._format.schema import Column

Array = np.ndarray[Any, Any]

# In the metadata of a file: the columns as they were.
METADATA = b"npyflow"
# Arrow counts the elements of a list in 32 bits.
MOST_ELEMENTS = 2**31 - 1
# The dates that Parquet has a type for.
_STAMPS = {"datetime64[ms]": "ms", "datetime64[us]": "us", "datetime64[ns]": "ns"}
_NO_DATE = np.iinfo(np.int64).min


def pyarrow() -> Any:
    """Return the package.

    Raises
    ------
    MissingDependencyError
        If it is not installed.
    """
    try:
        import pyarrow as package
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise MissingDependencyError("Parquet needs the package pyarrow: pip install 'npyflow[parquet]'") from None
    return package


def shape_name(name: str) -> str:
    """The column beside `name` that has the shape of each example; no column of a user has a slash."""
    return f"{name}/shape"


def names_of(column: Column) -> list[str]:
    """The columns of the file that `column` becomes."""
    return [column.name, shape_name(column.name)] if column.spec.varying else [column.name]


def schema_of(columns: Sequence[Column], tensors: bool) -> Any:
    """Return the Arrow schema, with the dtypes and shapes as they were in its metadata.

    Parameters
    ----------
    columns : sequence of Column
        Of the data set.
    tensors : bool
        Mark arrays as Arrow's fixed-shape tensors; else they are lists of lists.
    """
    pa = pyarrow()
    fields = []
    for column in columns:
        fields.append(pa.field(column.name, type_of(column, tensors)))
        if column.spec.varying:
            fields.append(pa.field(shape_name(column.name), pa.list_(pa.int64(), len(column.spec.shape))))
    facts = [
        {"name": one.name, "dtype": dtype_text(one.spec.dtype), "shape": one.spec.shape, "unit": one.spec.unit}
        for one in columns
    ]
    return pa.schema(fields, metadata={METADATA: json.dumps(facts).encode("ascii")})


def type_of(column: Column, tensors: bool) -> Any:
    """Return the Arrow type of a column; parameters as `schema_of`."""
    pa = pyarrow()
    spec = column.spec
    value = _value_type(spec.dtype)
    if spec.varying:
        return pa.list_(pa.list_(value, 2) if spec.dtype.kind == "c" else value)
    axes = _axes(column)
    if not axes:
        return pa.timestamp(_STAMPS[spec.unit]) if spec.unit in _STAMPS else value
    if 0 in axes:
        # A list of fixed length has a length.
        return pa.list_(value)
    if tensors:
        return pa.fixed_shape_tensor(value, axes)
    for size in reversed(axes):
        value = pa.list_(value, size)
    return value


def leaf_path(name: str, arrow_type: Any) -> str:
    """The name that Parquet has for the values of a column."""
    pa = pyarrow()
    kind = arrow_type.storage_type if isinstance(arrow_type, pa.BaseExtensionType) else arrow_type
    while pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        name, kind = f"{name}.list.element", kind.value_type
    return name


def encode(column: Column, values: Array | Sequence[Array], tensors: bool) -> list[Any]:
    """Return Arrow arrays, one for each of `names_of`; numbers are not copied.

    Parameters
    ----------
    column : Column
        What `values` are.
    values : array (examples, *shape), or list of array where they vary
        In C order.
    tensors : bool
        As in `schema_of`.

    Raises
    ------
    CastError
        If a text is none: NumPy can hold what UTF-8 cannot.
    """
    if column.spec.varying:
        return _encode_varying(column, values)
    pa = pyarrow()
    array = np.ascontiguousarray(values)
    made = _encode_values(column, array.reshape(-1))
    target, axes = type_of(column, tensors), _axes(column)
    if not axes:
        # Through NumPy's dates, so that a date that is none is a null.
        return [pa.array(array.view(f"M8[{target.unit}]")) if pa.types.is_timestamp(target) else made]
    if 0 in axes:
        return [pa.ListArray.from_arrays(np.zeros(len(array) + 1, np.int32), made)]
    if tensors:
        flat = pa.FixedSizeListArray.from_arrays(made, math.prod(axes))
        return [pa.ExtensionArray.from_storage(target, flat)]
    for size in reversed(axes):
        made = pa.FixedSizeListArray.from_arrays(made, size)
    return [made]


def _encode_varying(column: Column, values: Sequence[Array] | Array) -> list[Any]:
    pa = pyarrow()
    dtype = column.spec.dtype
    flat = np.concatenate([np.empty(0, dtype), *(np.asarray(one).reshape(-1) for one in values)])
    made = _encode_values(column, flat)
    if dtype.kind == "c":
        made = pa.FixedSizeListArray.from_arrays(made, 2)
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum([one.size for one in values], out=offsets[1:])
    rank = len(column.spec.shape)
    shapes = np.array([one.shape for one in values], np.int64).reshape(-1)
    return [pa.ListArray.from_arrays(offsets, made), pa.FixedSizeListArray.from_arrays(pa.array(shapes), rank)]


def _encode_values(column: Column, flat: Array) -> Any:
    """Return the elements of a contiguous array as Arrow has them."""
    pa = pyarrow()
    dtype = column.spec.dtype
    value = _value_type(dtype)
    if is_text(dtype):
        try:
            # Not from the array itself: Arrow ends a text at its first NUL.
            texts = flat.tolist()
            made = pa.array(texts, value)
        except (ValueError, pa.ArrowException) as error:
            raise CastError(
                f"{column.name}: Parquet keeps text as UTF-8, and a text of this data is none ({error}); save it as "
                f"bytes, with dtype 'S'"
            ) from None
        _check_width(column, texts)
        return made
    if dtype.kind == "b":
        bits = np.packbits(flat, bitorder="little")
        return pa.Array.from_buffers(value, len(flat), [None, pa.py_buffer(bits)])
    parts = flat.view(_part(dtype))
    return pa.Array.from_buffers(value, len(parts), [None, pa.py_buffer(parts)])


def decode(column: Column, stored: Any, tensors: bool, path: str) -> Array:
    """Return examples of one shape, as an array ``(examples, *shape)`` that must not be written to.

    Parameters
    ----------
    column : Column
        What they are.
    stored : Array of Arrow
        As it came out of the file.
    tensors : bool
        As in `schema_of`.
    path : str
        Of the file, for messages.

    Raises
    ------
    FileFormatError
        If they are something else.
    """
    check_type(column.name, stored, type_of(column, tensors), path)
    shape = (len(stored), *column.spec.fixed_shape)
    if 0 in column.spec.fixed_shape:
        return np.empty(shape, column.spec.dtype)
    if pyarrow().types.is_timestamp(stored.type):
        return _numbers(stored.view(pyarrow().int64()).fill_null(_NO_DATE), np.dtype(np.int64))
    return _decode_values(column, _flattened(stored, column.name, path), path).reshape(shape)


def decode_varying(column: Column, stored: Any, shapes: Array, path: str) -> tuple[Array, Array]:
    """Return all elements one after another, and where each example begins, int64 ``(examples + 1,)``.

    Parameters as `decode`; `shapes` is int64 ``(examples, axes)``.

    Raises
    ------
    FileFormatError
        If they are something else, or do not fit the shapes.
    """
    check_type(column.name, stored, type_of(column, True), path)
    check_no_nulls(stored, column.name, path)
    offsets = np.asarray(stored.offsets, np.int64)
    if not np.array_equal(np.diff(offsets), shapes.prod(axis=1)):
        raise FileFormatError(
            f"{show_path(path)} column {column.name!r}: the values do not fit the shapes beside them; convert again",
            path=path,
        )
    values = _decode_values(column, _flattened(stored, column.name, path), path)
    return values, offsets - offsets[:1]


def decode_shapes(column: Column, stored: Any, path: str) -> Array:
    """Return the shapes of examples, int64 ``(examples, axes)``; parameters as `decode`.

    Raises
    ------
    FileFormatError
        If they are none, or not of the axes of the column.
    """
    pa = pyarrow()
    name, given = shape_name(column.name), column.spec.shape
    check_type(name, stored, pa.list_(pa.int64(), len(given)), path)
    shapes = _numbers(_flattened(stored, name, path), np.dtype(np.int64)).reshape(-1, len(given))
    odd = any(size is not None and (shapes[:, axis] != size).any() for axis, size in enumerate(given))
    if odd or (shapes < 0).any() or (shapes > MOST_ELEMENTS).any():
        raise FileFormatError(
            f"{show_path(path)} column {name!r}: a shape is not one of {column.spec}; convert again", path=path
        )
    return shapes


def check_type(name: str, stored: Any, expected: Any, path: str) -> None:
    """Refuse another type.

    Raises
    ------
    FileFormatError
    """
    if stored.type != expected:
        raise FileFormatError(
            f"{show_path(path)} column {name!r} is {stored.type}, expected {expected}; it is not the file that was "
            f"converted: convert again",
            path=path,
        )


def check_no_nulls(stored: Any, name: str, path: str) -> None:
    """Refuse what is not there: NumPy has no such thing.

    Raises
    ------
    FileFormatError
    """
    if stored.null_count:
        raise FileFormatError(
            f"{show_path(path)} column {name!r} has {stored.null_count:,} nulls; expected none: convert again",
            path=path,
        )


def _flattened(stored: Any, name: str, path: str) -> Any:
    """Return the values of lists of lists, whole ones."""
    pa = pyarrow()
    check_no_nulls(stored, name, path)
    if isinstance(stored, pa.ExtensionArray):
        stored = stored.storage
    while pa.types.is_list(stored.type) or pa.types.is_fixed_size_list(stored.type):
        check_no_nulls(stored, name, path)
        stored = stored.flatten()
    check_no_nulls(stored, name, path)
    return stored


def _decode_values(column: Column, stored: Any, path: str) -> Array:
    dtype = column.spec.dtype
    if is_text(dtype):
        return _texts(column, stored.to_pylist(), path)
    if dtype.kind == "b":
        if not len(stored):
            return np.empty(0, bool)
        bits = np.unpackbits(np.frombuffer(stored.buffers()[1], np.uint8), bitorder="little")
        return bits[stored.offset : stored.offset + len(stored)].view(bool)
    return _numbers(stored, _part(dtype)).view(dtype)


def _numbers(stored: Any, dtype: DType) -> Array:
    if not len(stored):
        return np.empty(0, dtype)
    return np.frombuffer(stored.buffers()[1], dtype, len(stored), stored.offset * dtype.itemsize)


def _texts(column: Column, values: list[Any], path: str) -> Array:
    dtype = column.spec.dtype
    if max(map(len, values), default=0) > _width(dtype):
        raise FileFormatError(
            f"{show_path(path)} column {column.name!r} has a text longer than {_width(dtype)}; it is not the file that "
            f"was converted: convert again",
            path=path,
        )
    # NumPy gives texts without room for a character room for one.
    out = np.zeros(len(values), dtype)
    out[:] = values
    return out


def _check_width(column: Column, values: list[Any]) -> None:
    longest = max(map(len, values), default=0)
    if longest > _width(column.spec.dtype):
        raise CastError(
            f"{column.name}: a text of length {longest}; expected at most {_width(column.spec.dtype)}, as the data says"
        )


def _width(dtype: DType) -> int:
    """The longest text that fits, in characters or bytes."""
    return dtype.itemsize // (4 if dtype.kind == "U" else 1)


def _axes(column: Column) -> tuple[int, ...]:
    """The axes of an example in Arrow: a complex number is one more."""
    return (*column.spec.fixed_shape, 2) if column.spec.dtype.kind == "c" else column.spec.fixed_shape


def _part(dtype: DType) -> DType:
    """The numbers that Arrow has a type for, of which an element consists."""
    if is_small_float(dtype):
        return np.dtype(f"u{dtype.itemsize}")
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else carrier(dtype)


def _value_type(dtype: DType) -> Any:
    pa = pyarrow()
    if is_text(dtype):
        return pa.string() if dtype.kind == "U" else pa.binary()
    return pa.from_numpy_dtype(_part(dtype))
