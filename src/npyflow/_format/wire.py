"""The wire format of protocol buffers: as little of it as ``tf.train.Example`` needs.

See https://protobuf.dev/programming-guides/encoding: a field is a varint ``number << 3 | wire type``, then its value; a
varint is seven bits a byte, the lowest first, with the top bit set in all but the last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

Array = np.ndarray[Any, Any]

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
# Of 64 bits.
_LONGEST = 10


class WireError(ValueError):
    """Bytes that are no message."""


def varint(value: int) -> bytes:
    """Return an integer that is not negative as a varint."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint_rows(values: Array) -> tuple[Array, Array]:
    """Return varints side by side.

    Parameters
    ----------
    values : array (count,) of integers
        A negative one is ten bytes, as in the original.

    Returns
    -------
    uint8 array (count, longest)
        Each from the left; what is right of it is undefined.
    bool array (count, longest)
        What is not undefined.
    """
    if values.dtype.kind == "i":
        signed = len(values) and values.min() < 0
        values = values.astype(np.int64).view(np.uint64) if signed else values.view(f"u{values.dtype.itemsize}")
    largest = int(values.max()) if len(values) else 0
    # Short integers are compared and shifted several times as fast.
    rest = values.astype(np.min_scalar_type(largest), copy=False)
    longest = max(1, -(-largest.bit_length() // 7))
    rows = np.empty((len(rest), longest), np.uint8)
    wanted = np.empty((len(rest), longest), bool)
    rows[:, 0] = rest.astype(np.uint8) & np.uint8(127)
    wanted[:, 0] = True
    for at in range(1, longest):
        rest = rest >> rest.dtype.type(7)
        more = rest != 0
        wanted[:, at] = more
        rows[:, at - 1] |= more.view(np.uint8) << np.uint8(7)
        rows[:, at] = rest.astype(np.uint8) & np.uint8(127)
    return rows, wanted


def pack_varints(values: Array) -> tuple[Array, Array]:
    """Return varints one after another, uint8, and where each begins and the last ends; parameters as `varint_rows`."""
    rows, wanted = varint_rows(values)
    if rows.shape[1] == 1:
        return rows.reshape(-1), np.arange(len(rows) + 1)
    ends = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(sum(wanted[:, at].view(np.uint8) for at in range(wanted.shape[1])), out=ends[1:])
    return rows[wanted], ends


def unpack_varints(data: Array) -> Array:
    """Return the integers of varints that stand one after another, int64.

    Raises
    ------
    WireError
        If the last is cut off, or one is longer than 64 bits.
    """
    if not len(data):
        return np.empty(0, np.int64)
    ends = np.flatnonzero(data < 128)
    if len(ends) == len(data):
        return data.astype(np.int64)
    if not len(ends) or ends[-1] != len(data) - 1:
        raise WireError("a number is cut off")
    longest = int(np.diff(ends, prepend=-1).max())
    if longest > _LONGEST:
        raise WireError("a number is longer than 64 bits")
    # From the end backwards, so that what comes first is shifted least; nothing stands before the first.
    padded = np.concatenate([np.zeros(longest, np.uint8), data])
    kind: Any = np.uint16 if longest <= 2 else np.uint32 if longest <= 4 else np.uint64
    values = data[ends].astype(kind)
    more = np.ones(len(ends), bool)
    for at in range(1, longest):
        byte = padded[ends + (longest - at)]
        more &= byte > 127
        values = np.where(more, values << kind(7) | (byte & np.uint8(127)), values)
    found: Array = values.astype(np.uint64).view(np.int64)
    return found


def read_varint(data: memoryview, at: int, stop: int) -> tuple[int, int]:
    """Return the varint at `at`, and where the next byte is.

    Raises
    ------
    WireError
        If it does not end before `stop`, or is longer than 64 bits.
    """
    if at < stop and data[at] < 128:
        return data[at], at + 1
    value = 0
    for shift in range(0, 7 * _LONGEST, 7):
        if at >= stop:
            raise WireError("a number is cut off")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise WireError("a number is longer than 64 bits")


def fields(data: memoryview, start: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the fields of a message: number, wire type, and where the value begins and ends.

    Raises
    ------
    WireError
        If the bytes are no message.
    """
    at = start
    while at < stop:
        tag, at = read_varint(data, at, stop)
        wire = tag & 7
        begin = at
        if wire == VARINT:
            _, at = read_varint(data, at, stop)
        elif wire == BYTES:
            size, begin = read_varint(data, at, stop)
            at = begin + size
        elif wire in (FIXED32, FIXED64):
            at += 4 if wire == FIXED32 else 8
        else:
            raise WireError(f"wire type {wire} at byte {at}")
        if at > stop:
            raise WireError(f"a field at byte {begin} reaches beyond its end")
        yield tag >> 3, wire, begin, at
