"""Examples as ``tf.train.Example`` messages, written column by column.

Of a message everything but the values is the same in all examples of one shape, so it is made once. Of each column
there is a feature of its name. Raw encoding: the bytes of the array, little-endian in C order, beside ``<name>/dtype``
and ``<name>/shape``. List encoding: a FloatList or an Int64List, with ``<name>/shape`` where shapes differ. Text is a
list of UTF-8 in both.
"""

from __future__ import annotations

import functools
import math
import sys
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from npyflow._core.dtypes import dtype_text, is_small_float, is_text
from npyflow._core.errors import CastError, ShapeMismatchError
from npyflow._format.wire import pack_varints, varint, varint_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from npyflow._core.dtypes import DType
    from npyflow._core.spec import ArraySpec
    from npyflow._format.schema import Column

Array = np.ndarray[Any, Any]
# Bytes, or a uint8 array of one axis: for type checkers no buffer before Python 3.12.
Piece = Any

# Field numbers of tf.train.Feature.
BYTES_LIST, FLOAT_LIST, INT64_LIST = 1, 2, 3
Kind = Literal["raw", "text", "float", "int"]
_MOST_INT64 = (1 << 63) - 1
# Of a message, by protobuf itself: TensorFlow reads none that is longer.
_MOST_BYTES = (1 << 31) - 1


def kind_of(dtype: DType, encoding: str) -> Kind:
    """Say how values of `dtype` are written: as bytes, or in which list."""
    if is_text(dtype):
        return "text"
    if encoding == "raw":
        return "raw"
    return "int" if dtype.kind in "biu" else "float"


@functools.lru_cache(maxsize=4096)
def feature_head(name: bytes, kind: int, size: int) -> bytes:
    """Return what stands before the `size` bytes of a list in the map of features."""
    tail = bytes([kind << 3 | 2]) + varint(size)
    feature = b"\x0a" + varint(len(name)) + name + b"\x12" + varint(len(tail) + size) + tail
    return b"\x0a" + varint(len(feature) + size) + feature


@functools.lru_cache(maxsize=4096)
def _payload_head(name: bytes, kind: int, size: int) -> bytes:
    """What stands before a payload: the only value of a list of bytes, or all numbers of a packed list."""
    inner = b"\x0a" + varint(size)
    return feature_head(name, kind, len(inner) + size) + inner


@functools.lru_cache(maxsize=4096)
def _shape_feature(name: bytes, shape: tuple[int, ...]) -> bytes:
    sizes = b"".join(map(varint, shape))
    return _payload_head(name + b"/shape", INT64_LIST, len(sizes)) + sizes


@dataclass(frozen=True, slots=True)
class _Plan:
    """How one column is written."""

    name: bytes
    kind: Kind
    spec: ArraySpec
    # With their dtype and shape.
    described: bool

    def tail(self, shape: tuple[int, ...]) -> bytes:
        """What describes an array of `shape`."""
        out = b""
        if self.described:
            text = dtype_text(self.spec.dtype).encode("ascii")
            out += _payload_head(self.name + b"/dtype", BYTES_LIST, len(text)) + text
        return out + _shape_feature(self.name, shape) if self.described or self.spec.varying else out

    @property
    def list(self) -> int:
        return {"raw": BYTES_LIST, "text": BYTES_LIST, "float": FLOAT_LIST, "int": INT64_LIST}[self.kind]

    @property
    def stored(self) -> DType:
        """As the bytes of a payload are."""
        dtype = np.dtype("<f4") if self.kind == "float" else self.spec.dtype
        return dtype if is_small_float(dtype) else dtype.newbyteorder("<")


class Encoder:
    """Makes messages of examples.

    Parameters
    ----------
    columns : sequence of Column
        What an example has.
    encoding : str
        ``"raw"`` or ``"list"``.
    """

    def __init__(self, columns: Sequence[Column], encoding: str) -> None:
        self._plans = [
            _Plan(one.name.encode("utf-8"), kind_of(one.spec.dtype, encoding), one.spec, encoding == "raw")
            for one in columns
        ]
        self._between = self._template()
        self.size = None if self._between is None else sum(map(len, self._between)) + sum(self._widths())
        """Bytes of every message, if all are equally long."""

    def _widths(self) -> list[int]:
        return [math.prod(plan.spec.fixed_shape) * plan.stored.itemsize for plan in self._plans]

    def _template(self) -> list[bytes] | None:
        """What stands before, between and behind the payloads, if it is the same in all messages."""
        if any(plan.spec.varying or plan.kind in ("text", "int") for plan in self._plans):
            return None
        out = [b""]
        for plan, width in zip(self._plans, self._widths(), strict=True):
            out[-1] += _payload_head(plan.name, plan.list, width)
            out.append(plan.tail(plan.spec.fixed_shape))
        out[0] = b"\x0a" + varint(sum(map(len, out)) + sum(self._widths())) + out[0]
        return out

    def prepare(self, rows: Array) -> None:
        """Write what is the same in all messages into `rows`, uint8 ``(count, size)``."""
        at = 0
        for text, width in zip(self._between or (), [*self._widths(), 0], strict=True):
            rows[:, at : at + len(text)] = np.frombuffer(text, np.uint8)
            at += len(text) + width

    def fill(self, columns: Sequence[Any], rows: Array) -> None:
        """Write the values of examples of one shape into prepared `rows`, uint8 ``(count, size)``."""
        at = 0
        for plan, text, width, values in zip(
            self._plans, (self._between or ())[:-1], self._widths(), columns, strict=True
        ):
            at += len(text)
            rows[:, at : at + width] = _located(plan, values)
            at += width

    def pieces(self, columns: Sequence[Any]) -> Iterator[list[Piece]]:
        """Yield the messages of examples, each in pieces: bytes and uint8 arrays.

        Parameters
        ----------
        columns : Columns
            As a `Writer` gets them.

        Raises
        ------
        CastError
            If a number is none that a list can hold; with the position of the example.
        ShapeMismatchError
            If an example is larger than a message can be; with its position.
        """
        if self._between is not None:
            payloads = [_located(plan, values) for plan, values in zip(self._plans, columns, strict=True)]
            for at, rows in enumerate(zip(*payloads, strict=True)):
                _check_size(self.size or 0, at)
                yield _woven(self._between, rows)
            return
        for at, features in enumerate(zip(*map(_features, self._plans, columns), strict=True)):
            pieces: list[Piece] = [b"", *(piece for feature in features for piece in feature)]
            size = sum(map(len, pieces))
            pieces[0] = b"\x0a" + varint(size)
            _check_size(len(pieces[0]) + size, at)
            yield pieces


def _check_size(size: int, at: int) -> None:
    if size > _MOST_BYTES:
        raise ShapeMismatchError(
            f"an example of {size:,} bytes; a tf.train.Example has room for {_MOST_BYTES:,}: write windows or crops of "
            f"it, or choose another format",
            index=at,
        )


def _woven(between: Sequence[bytes], rows: Sequence[Array]) -> list[Piece]:
    pieces: list[Piece] = [between[0]]
    for row, text in zip(rows, between[1:], strict=True):
        pieces += (row, text)
    return pieces


def _bytes(plan: _Plan, values: Array) -> Array:
    """The payloads of examples of one shape, uint8 ``(count, bytes)``."""
    stored = _as_stored(plan, values)
    count = len(stored)
    return np.ascontiguousarray(stored).reshape(count, math.prod(stored.shape[1:])).view(np.uint8)


def _located(plan: _Plan, values: Array) -> Array:
    """As `_bytes`; an error says which example."""
    try:
        return _bytes(plan, values)
    except _TooLargeError as error:
        raise error.of(math.prod(values.shape[1:]) * np.arange(1, len(values) + 1)) from None


def _as_stored(plan: _Plan, values: Array) -> Array:
    if plan.kind == "float":
        return _as_float32(plan, values)
    return values if sys.byteorder == "little" or is_small_float(values.dtype) else values.astype(plan.stored)


def _as_float32(plan: _Plan, values: Array) -> Array:
    with np.errstate(over="ignore"):
        out = values.astype(plan.stored, copy=False)
    if values.dtype == np.float64 and (lost := np.isinf(out) & np.isfinite(values)).any():
        raise _TooLargeError(plan, values, lost, "the float32 of a FloatList")
    return out


class _TooLargeError(CastError):
    """A number that fits no list; its flat position is known, and the example is to be found."""

    def __init__(self, plan: _Plan, values: Array, lost: Array, what: str) -> None:
        super().__init__(f"{plan.name.decode()}: {values[lost][0]!s} is too large for {what}; write encoding='raw'")
        self._at = int(np.argmax(lost.reshape(-1)))

    def of(self, ends: Array) -> CastError:
        """The error of the example; `ends` are the flat positions at which the examples end."""
        return CastError(str(self), index=int(np.searchsorted(ends, self._at, side="right")))


def _features(plan: _Plan, values: Any) -> Iterator[list[Piece]]:
    """The features of one column, for each example in pieces: all of them encoded together, then cut."""
    if not len(values):
        return
    shapes = [one.shape for one in values] if isinstance(values, list) else [values.shape[1:]] * len(values)
    counts = np.cumsum([0, *map(math.prod, shapes)])
    flat = np.concatenate([one.reshape(-1) for one in values]) if isinstance(values, list) else values.reshape(-1)
    try:
        data, ends = _encoded(plan, flat, counts)
    except _TooLargeError as error:
        raise error.of(counts[1:]) from None
    head = feature_head if plan.kind == "text" else _payload_head
    tails = {shape: plan.tail(shape) for shape in set(shapes)}
    for shape, (start, stop) in zip(shapes, pairwise(ends.tolist()), strict=True):
        yield [head(plan.name, plan.list, stop - start), data[start:stop], tails[shape]]


def _encoded(plan: _Plan, flat: Array, counts: Array) -> tuple[Array, Array]:
    """Values one after another, uint8, and where each example begins and the last ends."""
    if plan.kind == "text":
        data, ends = _texts(plan, flat)
    elif plan.kind == "int":
        if flat.dtype == np.uint64 and (lost := flat > _MOST_INT64).any():
            raise _TooLargeError(plan, flat, lost, f"an Int64List, which ends at {_MOST_INT64}")
        data, ends = pack_varints(flat.view(np.uint8) if flat.dtype.kind == "b" else flat)
    else:
        return _bytes(plan, flat).reshape(-1), counts * plan.stored.itemsize
    return data, ends[counts]


def _texts(plan: _Plan, flat: Array) -> tuple[Array, Array]:
    """Texts as fields of a list of bytes, one after another, and where each begins and the last ends."""
    if flat.dtype.kind == "U":
        try:
            # As Python writes half a surrogate pair: NumPy can hold it, so it must come back.
            flat = np.strings.encode(flat, "utf-8", "surrogatepass")
        except (UnicodeError, ValueError) as error:
            raise CastError(f"{plan.name.decode()}: a text is no Unicode: {error}") from None
    count, width = len(flat), flat.dtype.itemsize
    letters = flat.view(np.uint8).reshape(count, width) if width and count else np.zeros((count, 0), np.uint8)
    lengths = np.strings.str_len(flat).astype(np.int64)
    rows, wanted = varint_rows(lengths)
    text = np.concatenate([np.full((count, 1), 0x0A, np.uint8), rows, letters], axis=1)
    there = np.concatenate([np.ones((count, 1), bool), wanted, np.arange(letters.shape[1]) < lengths[:, None]], axis=1)
    return text[there], np.concatenate([[0], np.cumsum(there.sum(axis=1))])
