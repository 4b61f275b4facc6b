"""``tf.train.Example`` messages taken apart, whoever wrote them.

Where the values lie is found by reading the message field by field. Messages of one writer mostly differ in the values
alone, so a `Layout` is kept with the bytes around the values: the next message of its size that has the same bytes
there has the same layout.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.dtypes import dtype_text, is_small_float
from npyflow._core.text import brief, examples
from npyflow._format.example import BYTES_LIST, FLOAT_LIST, INT64_LIST, kind_of
from npyflow._format.wire import BYTES, FIXED32, VARINT, WireError, fields, unpack_varints

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npyflow._core.dtypes import DType
    from npyflow._core.spec import ArraySpec
    from npyflow._format.schema import Column

Array = np.ndarray[Any, Any]

_LISTS = {BYTES_LIST: "a BytesList", FLOAT_LIST: "a FloatList", INT64_LIST: "an Int64List"}
_WANTED = {"raw": BYTES_LIST, "text": BYTES_LIST, "float": FLOAT_LIST, "int": INT64_LIST}
_MOST_LAYOUTS = 4096


class RecordError(ValueError):
    """A record that does not hold what the schema says."""


@dataclass(frozen=True, slots=True)
class Part:
    """The values of one column in a message.

    Parameters
    ----------
    start, stop : int
        Of the payload; of text the whole list.
    shape : tuple of int
        Of the array.
    """

    start: int
    stop: int
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the values lie in a message.

    Parameters
    ----------
    parts : tuple of Part
        One a column.
    around : tuple of (int, int, bytes)
        Everything else: where it begins and ends, and what it is.
    """

    parts: tuple[Part, ...]
    around: tuple[tuple[int, int, bytes], ...]

    def fits(self, record: memoryview) -> bool:
        """Say whether a message of the same size has the same layout."""
        return all(record[start:stop] == text for start, stop, text in self.around)

    def fits_all(self, records: Array) -> bool:
        """Say whether messages, uint8 ``(count, bytes)``, have the same layout."""
        return all(
            bool((records[:, start:stop] == np.frombuffer(text, np.uint8)).all()) for start, stop, text in self.around
        )


@dataclass(frozen=True, slots=True)
class _Feature:
    kind: int
    start: int
    stop: int


class Decoder:
    """Takes messages apart.

    Parameters
    ----------
    columns : sequence of Column
        What an example has.
    encoding : str
        ``"raw"`` or ``"list"``.
    """

    def __init__(self, columns: Sequence[Column], encoding: str) -> None:
        self._names = [one.name for one in columns]
        self._specs = [one.spec for one in columns]
        self._kinds = [kind_of(one.spec.dtype, encoding) for one in columns]
        # Of the bytes of a payload.
        self._stored = [
            np.dtype("<f4") if kind == "float" else dtype if is_small_float(dtype) else dtype.newbyteorder("<")
            for kind, dtype in zip(self._kinds, (spec.dtype for spec in self._specs), strict=True)
        ]
        # The payload is the bytes of the array as it is in memory.
        self._copied = [
            kind in ("raw", "float") and stored == spec.dtype
            for kind, stored, spec in zip(self._kinds, self._stored, self._specs, strict=True)
        ]
        self._known: dict[int, Layout] = {}

    def layout(self, record: memoryview) -> Layout:
        """Find the values of every column.

        Raises
        ------
        RecordError
            If it is no message, or not one of these columns.
        """
        known = self._known.get(len(record))
        if known is not None and known.fits(record):
            return known
        try:
            found = self._parse(record)
        except WireError as error:
            raise RecordError(f"it is no tf.train.Example: {error}") from None
        if len(self._known) >= _MOST_LAYOUTS:
            self._known.clear()
        self._known[len(record)] = found
        return found

    def _parse(self, record: memoryview) -> Layout:
        features = _features(record)
        parts = tuple(self._part(leaf, record, name, features) for leaf, name in enumerate(self._names))
        edges = sorted((part.start, part.stop) for part in parts)
        gaps = pairwise([0, *(edge for pair in edges for edge in pair), len(record)])
        around = tuple((start, stop, bytes(record[start:stop])) for start, stop in list(gaps)[::2])
        return Layout(parts, around)

    def _part(self, leaf: int, record: memoryview, name: str, features: dict[str, _Feature]) -> Part:
        spec, kind = self._specs[leaf], self._kinds[leaf]
        feature = features.get(name)
        if feature is None:
            raise RecordError(f"it has no feature {name!r}; it has {examples(map(brief, features), 8) or 'none'}")
        if feature.kind != _WANTED[kind] and feature.start < feature.stop:
            raise RecordError(f"feature {name!r} is {_LISTS[feature.kind]}, expected {_LISTS[_WANTED[kind]]}")
        _check_dtype(record, name, spec.dtype, features.get(f"{name}/dtype"))
        shape = _shape(record, name, spec, features.get(f"{name}/shape"))
        start, stop = (
            (feature.start, feature.stop) if kind == "text" else _payload(record, name, feature, raw=kind == "raw")
        )
        if kind in ("raw", "float"):
            want = math.prod(shape) * (spec.dtype.itemsize if kind == "raw" else 4)
            if stop - start != want:
                raise RecordError(
                    f"feature {name!r} has {stop - start:,} bytes, expected {want:,} for {spec.dtype.name} {shape}"
                )
        return Part(start, stop, shape)

    def value(self, leaf: int, record: memoryview, layout: Layout) -> Array:
        """Return the array of a column; of numbers it may be a view of the message.

        Raises
        ------
        RecordError
            If its values are not what the schema says.
        """
        part, spec, kind = layout.parts[leaf], self._specs[leaf], self._kinds[leaf]
        name = self._names[leaf]
        if kind == "text":
            return _texts(record, name, part, spec.dtype)
        data = record[part.start : part.stop]
        if kind == "raw":
            return np.frombuffer(data, self._stored[leaf]).reshape(part.shape)
        if kind == "float":
            return np.frombuffer(data, "<f4").reshape(part.shape).astype(spec.dtype, copy=False)
        try:
            numbers = unpack_varints(np.frombuffer(data, np.uint8))
        except WireError as error:
            raise RecordError(f"feature {name!r}: {error}") from None
        if len(numbers) != math.prod(part.shape):
            raise RecordError(
                f"feature {name!r} has {len(numbers):,} numbers, expected {math.prod(part.shape):,} for {part.shape}"
            )
        out: Array = numbers.astype(spec.dtype)
        if (out.astype(np.int64) != numbers).any():
            raise RecordError(f"feature {name!r} has a number that is no {spec.dtype.name}")
        return out.reshape(part.shape)

    def into(self, out: Sequence[Any], at: int, records: Array) -> None:
        """Put the arrays of messages where a `Writer` would get them from.

        Parameters
        ----------
        out : sequence of array, list or None
            For each column an array ``(examples, *shape)``, which is filled from `at` on, a list to append to, or None
            to leave it out.
        records : uint8 array (count, bytes)
            Messages of one size.

        Raises
        ------
        RecordError
            If one is not as it should be; ``args[1]`` says which.
        """
        number = 0
        try:
            layout = self.layout(_view(records[0]))
            if len(records) > 1 and not layout.fits_all(records):
                for number, record in enumerate(records):
                    self.into(out, at + number, record[None])
                return
            for leaf, rows in enumerate(out):
                if rows is None:
                    continue
                if isinstance(rows, list) or not self._together(leaf, rows, at, records, layout.parts[leaf]):
                    for number, record in enumerate(records):
                        self._one(leaf, rows, at + number, _view(record), layout)
        except RecordError as error:
            raise RecordError(error.args[0], number) from None

    def _together(self, leaf: int, rows: Array, at: int, records: Array, part: Part) -> bool:
        """Copy the values of a column out of all `records`, if they are laid out for that."""
        stop, payloads = at + len(records), records[:, part.start : part.stop]
        if self._copied[leaf]:
            rows[at:stop].reshape(len(records), math.prod(part.shape)).view(np.uint8)[...] = payloads
            return True
        if self._kinds[leaf] != "int" or len(records) == 1:
            return False
        count = math.prod(part.shape)
        if not count or not ((payloads < 128).sum(axis=1) == count).all() or (payloads[:, -1] > 127).any():
            return False
        numbers = unpack_varints(np.ascontiguousarray(payloads).reshape(-1)).reshape(len(records), *part.shape)
        rows[at:stop] = numbers
        return bool((rows[at:stop] == numbers).all())

    def _one(self, leaf: int, rows: Any, at: int, record: memoryview, layout: Layout) -> None:
        array = self.value(leaf, record, layout)
        if isinstance(rows, list):
            # A copy: the memory of the message is used again.
            rows.append(np.array(array, self._specs[leaf].dtype))
        else:
            rows[at] = array


def _view(record: Array) -> memoryview:
    return memoryview(record)  # type: ignore[arg-type]


def _features(record: memoryview) -> dict[str, _Feature]:
    """The features of a message by name."""
    found: dict[str, _Feature] = {}
    for number, wire, start, stop in fields(record, 0, len(record)):
        if (number, wire) != (1, BYTES):
            continue
        for inner, kind, begin, end in fields(record, start, stop):
            if (inner, kind) == (1, BYTES):
                name, feature = _entry(record, begin, end)
                found[name] = feature
    return found


def _entry(record: memoryview, start: int, stop: int) -> tuple[str, _Feature]:
    name, feature = "", _Feature(BYTES_LIST, stop, stop)
    for number, wire, begin, end in fields(record, start, stop):
        if (number, wire) == (1, BYTES):
            name = bytes(record[begin:end]).decode("utf-8", "replace")
        elif (number, wire) == (2, BYTES):
            lists = [one for one in fields(record, begin, end) if one[0] in _LISTS and one[1] == BYTES]
            if len(lists) > 1:
                raise WireError("a feature has two lists")
            feature = _Feature(lists[0][0], *lists[0][2:]) if lists else _Feature(BYTES_LIST, end, end)
    return name, feature


def _payload(record: memoryview, name: str, feature: _Feature, *, raw: bool) -> tuple[int, int]:
    """Where the bytes of the only value, or of all numbers of a packed list, begin and end."""
    values = [one for one in fields(record, feature.start, feature.stop) if one[0] == 1]
    if raw and len(values) != 1:
        raise RecordError(f"feature {name!r} has {len(values):,} values, expected the bytes of one array")
    if not values:
        return feature.stop, feature.stop
    if len(values) == 1 and values[0][1] == BYTES:
        return values[0][2:]
    if not raw and all(wire in (VARINT, FIXED32) for _, wire, _, _ in values):
        raise RecordError(f"feature {name!r} is no packed list; write the file again with a newer protobuf")
    raise WireError("a list in several parts")


def _check_dtype(record: memoryview, name: str, dtype: DType, feature: _Feature | None) -> None:
    if feature is None:
        return
    start, stop = _payload(record, f"{name}/dtype", feature, raw=True)
    text = bytes(record[start:stop]).decode("utf-8", "replace")
    if text != dtype_text(dtype):
        raise RecordError(f"feature {name!r} has dtype {brief(text)}, expected {dtype_text(dtype)!r}")


def _shape(record: memoryview, name: str, spec: ArraySpec, feature: _Feature | None) -> tuple[int, ...]:
    """The shape that a record says, or that all have."""
    if feature is None:
        if spec.varying:
            raise RecordError(f"it has no feature '{name}/shape', and {spec} cannot be told without")
        return spec.fixed_shape
    start, stop = _payload(record, f"{name}/shape", feature, raw=False)
    sizes = unpack_varints(np.frombuffer(record[start:stop], np.uint8)).tolist()
    if len(sizes) != len(spec.shape) or any(
        size < 0 or (want is not None and size != want) for size, want in zip(sizes, spec.shape, strict=True)
    ):
        raise RecordError(f"feature {name!r} has shape {brief(tuple(sizes))}, expected {spec}")
    return tuple(sizes)


def _texts(record: memoryview, name: str, part: Part, dtype: DType) -> Array:
    values = [
        bytes(record[start:stop])
        for number, wire, start, stop in fields(record, part.start, part.stop)
        if (number, wire) == (1, BYTES)
    ]
    if len(values) != math.prod(part.shape):
        raise RecordError(
            f"feature {name!r} has {len(values):,} texts, expected {math.prod(part.shape):,} for {part.shape}"
        )
    out = np.zeros(len(values), dtype)
    if dtype.kind == "U":
        try:
            texts: list[Any] = [value.decode("utf-8", "surrogatepass") for value in values]
        except UnicodeError as error:
            raise RecordError(f"feature {name!r} has a text that is no UTF-8: {error}") from None
    else:
        texts = list(values)
    most = out.dtype.itemsize // (4 if dtype.kind == "U" else 1)
    if long := [text for text in texts if len(text) > most]:
        raise RecordError(f"feature {name!r} has {brief(long[0])}, longer than the {most} of dtype {dtype_text(dtype)}")
    out[:] = texts
    return out.reshape(part.shape)
