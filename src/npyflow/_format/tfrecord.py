"""The frame of a record in a TFRecord file: its length, its bytes and a checksum of each.

``uint64 length, uint32 checksum of the length, bytes, uint32 checksum of the bytes``, little-endian; the checksums are
CRC-32C, rotated and offset ("masked").
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.errors import MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Array = np.ndarray[Any, Any]

HEAD_BYTES = 12
FOOT_BYTES = 4
FRAME_BYTES = HEAD_BYTES + FOOT_BYTES
_OFFSET = 0xA282EAD8
# Records that are compared with the first, to see whether they are as long; twice as many as long as they are.
_RUN = 16


class FrameError(ValueError):
    """Bytes that are no frame."""


@functools.cache
def crc32c() -> Callable[[int, Any], int]:
    """Return the function that goes on with a checksum: ``extend(crc, bytes or contiguous array)``.

    Raises
    ------
    MissingDependencyError
        Without google-crc32c.
    """
    try:
        import google_crc32c
    except ModuleNotFoundError:
        raise MissingDependencyError(
            "TFRecord files have checksums, for which the package google-crc32c is needed: pip install "
            "'npyflow[tfrecord]'"
        ) from None
    extend: Callable[[int, Any], int] = google_crc32c.extend
    return extend


def masked(crc: int) -> int:
    """Return a checksum as the file has it."""
    return ((crc >> 15 | crc << 17) + _OFFSET) & 0xFFFFFFFF


def masked_all(crcs: Array) -> Array:
    """Return checksums as the file has them, uint32."""
    return (crcs >> np.uint32(15) | crcs << np.uint32(17)) + np.uint32(_OFFSET)


@functools.lru_cache(maxsize=4096)
def head(size: int) -> bytes:
    """Return what stands before a record of `size` bytes."""
    length = size.to_bytes(8, "little")
    return length + masked(crc32c()(0, length)).to_bytes(4, "little")


def foot(crc: int) -> bytes:
    """Return what stands behind a record with the plain checksum `crc`."""
    return masked(crc).to_bytes(4, "little")


def find_frames(data: Array, start: int, stop: int, most: int) -> tuple[list[tuple[int, int]], int, int]:
    """Find the records that are whole in ``data[start:stop]``.

    Parameters
    ----------
    data : uint8 array
        Of the file.
    start, stop : int
        Where the first frame begins, and where the bytes end.
    most : int
        How many records to find at most.

    Returns
    -------
    list of (int, int)
        Where each record begins and ends.
    int
        Where the next frame begins.
    int
        If fewer than `most` were found, the bytes that the next frame takes, as far as can be seen.

    Raises
    ------
    FrameError
        If a length has the wrong checksum.
    """
    view = memoryview(data)  # type: ignore[arg-type]
    found: list[tuple[int, int]] = []
    at, run = start, _RUN
    while len(found) < most:
        if stop - at < HEAD_BYTES:
            return found, at, FRAME_BYTES
        size = int.from_bytes(view[at : at + 8], "little")
        if view[at : at + HEAD_BYTES] != head(size):
            raise FrameError("its length has the wrong checksum")
        end = at + HEAD_BYTES + size
        if end + FOOT_BYTES > stop:
            return found, at, size + FRAME_BYTES
        # Records are often equally long: those that follow with the same length are found together.
        frame = size + FRAME_BYTES
        if view[at + frame : at + frame + HEAD_BYTES] != view[at : at + HEAD_BYTES]:
            found.append((at + HEAD_BYTES, end))
            at, run = end + FOOT_BYTES, _RUN
            continue
        many = min(most - len(found), (stop - at) // frame, run)
        heads = data[at : at + many * frame].reshape(many, frame)[:, :HEAD_BYTES]
        others = (heads != heads[0]).any(axis=1)
        run, many = (_RUN, int(np.argmax(others))) if others.any() else (2 * run, many)
        found += [(first + HEAD_BYTES, first + HEAD_BYTES + size) for first in range(at, at + many * frame, frame)]
        at += many * frame
    return found, at, 0


def check_records(data: Array, found: Sequence[tuple[int, int]]) -> int | None:
    """Compare the checksums of records, which stand behind them; return the first that has another, if one has."""
    extend = crc32c()
    crcs = np.fromiter((extend(0, data[start:stop]) for start, stop in found), np.uint32, len(found))
    ends = np.array([stop for _, stop in found], np.int64)
    want = data[ends[:, None] + np.arange(FOOT_BYTES)].view("<u4")[:, 0]
    wrong = masked_all(crcs) != want
    return int(np.argmax(wrong)) if wrong.any() else None


def blocks(data: Array, found: Sequence[tuple[int, int]]) -> Iterator[Array]:
    """Yield records as uint8 arrays ``(count, bytes)``: neighbours of one size together."""
    first = 0
    for at in range(1, len(found) + 1):
        start, stop = found[first]
        if at < len(found) and found[at][1] - found[at][0] == stop - start:
            continue
        frame = stop - start + FRAME_BYTES
        rows = data[start - HEAD_BYTES : start - HEAD_BYTES + (at - first) * frame].reshape(at - first, frame)
        yield rows[:, HEAD_BYTES:-FOOT_BYTES]
        first = at
