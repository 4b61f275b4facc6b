"""Count, mean, spread and range of numbers that come one array after another.

Sums are float64. Parts are described apart, each around its own mean, and pooled as in Chan, Golub and LeVeque,
"Algorithms for Computing the Sample Variance" (The American Statistician 37, 1983), so that neither a large mean nor
a long run of data costs digits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

Array = np.ndarray[Any, Any]

# Items that are worked on together: few enough that they stay in the cache, as many as make calls cheap.
BLOCK = 262_144
# Short rows are laid side by side up to here, because NumPy's loops over short rows are slow ...
_WIDTH = 1024
# ... and longer rows than this are cut.
_TILE = 8192
# Where plain squares sum up to more than this multiple of the squares around the mean, they lose two digits.
_SHARE = 64.0

# What is known of a part: its rows of numbers.
_COUNT, _MEAN, _AROUND, _LOW, _HIGH = range(5)


class Moments:
    """Count, mean, spread and range of numbers, for each channel and together.

    Parameters
    ----------
    width : int, optional
        Length of the last axis, whose positions are channels. None to describe only the whole.

    Attributes
    ----------
    nan, inf : int
        Values that are no number or infinite, and counted nowhere else.
    """

    def __init__(self, width: int | None = None) -> None:
        self.nan = 0
        self.inf = 0
        self._width = 1 if width is None else width
        # Of each part count, mean, sum of squares around it, least and greatest: (5, parts, width).
        self._parts = [np.zeros((5, 0, self._width))]
        self._work = np.empty(0)
        self._near_zero = True

    def add(self, values: Array) -> None:
        """Take `values` in.

        Parameters
        ----------
        values : array (..., width)
            Bool, integers or floats; any size, any strides. Without channels any shape.
        """
        if not values.size:
            return
        with np.errstate(all="ignore"):
            for piece in _pieces(values, self._width):
                for block in _blocks(piece, self._width):
                    self._parts.append(self._tiles(block)[:, np.newaxis])
                    # Pooled together rather than one by one, for as long as that takes little memory.
                    if len(self._parts) > max(4, BLOCK // 8 // self._width):
                        self._parts = [_pool(self._parts)[:, np.newaxis]]

    def merge(self, other: Moments) -> None:
        """Take in what `other`, of the same width, has taken in. It stays as it is."""
        self._parts += other._parts
        self.nan += other.nan
        self.inf += other.inf

    def channels(self) -> Array:
        """Return count, mean, standard deviation, least and greatest: float64 (5, width), NaN where nothing is."""
        with np.errstate(all="ignore"):
            return _finished(_pool(self._parts))

    def whole(self) -> Array:
        """Return the same over all channels: float64 (5,)."""
        with np.errstate(all="ignore"):
            each = _pool(self._parts)
            whole: Array = _finished(_pool([each[:, :, np.newaxis]]))[:, 0]
        return whole

    def _tiles(self, block: Array) -> Array:
        """Describe rows that may be too long for the cache: (rows, k * width) to (5, width)."""
        if self._width <= _TILE:
            return self._describe(_plain(block), self._width)
        # Few rows leave room for longer ones.
        size = max(_TILE, BLOCK // len(block))
        tiles = [_plain(block[:, start : start + size]) for start in range(0, self._width, size)]
        return np.concatenate([self._describe(tile, tile.shape[1]) for tile in tiles], axis=1)

    def _describe(self, block: Array, width: int) -> Array:
        part = np.empty((5, width))
        part[_LOW] = _fold(np.minimum, block, width)
        part[_HIGH] = _fold(np.maximum, block, width)
        work = self._room(block.shape)
        # The first NaN of a channel becomes its least number, an infinity its least or greatest.
        if not np.isfinite(part[_LOW:]).all():
            np.copyto(work, block)
            return self._describe_finite(work, part)
        numbers = block
        if block.dtype != np.float64:
            np.copyto(work, block)
            numbers = work
        part[_COUNT] = count = block.size // width
        part[_MEAN] = _fold(np.add, numbers, width)
        part[_MEAN] /= count
        one = part[_LOW] == part[_HIGH]
        # Dividing the sum would round.
        part[_MEAN, one] = part[_LOW, one]
        if self._near_zero:
            np.multiply(numbers, numbers, out=work)
            squares = _fold(np.add, work, width)
            around = squares - part[_MEAN] ** 2 * count
            around[one] = 0.0
            if ((squares <= around * _SHARE) | one).all():
                part[_AROUND] = around
                return part
            # What is far from zero once is so again: from here on a pass more.
            self._near_zero, numbers = False, block
        part[_AROUND] = _squares_around(part[_MEAN], numbers, work)
        return part

    def _describe_finite(self, work: Array, part: Array) -> Array:
        """Describe the finite ones of numbers that are not all finite. They are lost."""
        width = part.shape[1]
        bad = ~np.isfinite(work)
        nan = int(np.count_nonzero(np.isnan(work)))
        self.nan += nan
        self.inf += int(np.count_nonzero(bad)) - nan
        np.copyto(work, np.inf, where=bad)
        part[_LOW] = _fold(np.minimum, work, width)
        np.copyto(work, -np.inf, where=bad)
        part[_HIGH] = _fold(np.maximum, work, width)
        np.copyto(work, 0.0, where=bad)
        part[_COUNT] = work.size // width - _fold(np.add, bad, width)
        part[_MEAN] = _fold(np.add, work, width) / np.maximum(part[_COUNT], 1.0)
        # At the mean they add nothing to the squares around it.
        np.copyto(work, np.tile(part[_MEAN], work.shape[1] // width), where=bad)
        part[_AROUND] = _squares_around(part[_MEAN], work, work)
        return part

    def _room(self, shape: tuple[int, ...]) -> Array:
        # Kept from call to call: fresh pages cost more than the sums.
        size = math.prod(shape)
        if len(self._work) < size:
            self._work = np.empty(size)
        return self._work[:size].reshape(shape)


def _pieces(values: Array, width: int) -> Iterator[Array]:
    """Cut into contiguous (rows, width): the array itself where it is contiguous, else copies of a block each."""
    if values.flags.c_contiguous or values.size <= max(BLOCK, width):
        yield values.reshape(-1, width)
    elif values.size // len(values) > BLOCK:
        for part in values:
            yield from _pieces(part, width)
    else:
        step = max(1, BLOCK * len(values) // values.size)
        for start in range(0, len(values), step):
            yield values[start : start + step].reshape(-1, width)


def _blocks(piece: Array, width: int) -> Iterator[Array]:
    """Cut contiguous (rows, width) into blocks (fewer rows, k * width), what is left over last."""
    fold = max(1, min(len(piece), _WIDTH // width))
    step = fold * max(1, BLOCK // (fold * min(width, _TILE)))
    even = len(piece) // fold * fold
    for start in range(0, even, step):
        yield piece[start : min(start + step, even)].reshape(-1, fold * width)
    if even < len(piece):
        yield piece[even:].reshape(1, -1)


def _plain(block: Array) -> Array:
    """Return numbers that NumPy reduces fast: of this machine's byte order, and of no float below 32 bits."""
    dtype = block.dtype
    if dtype.kind in "iuf" and dtype.isnative and dtype != np.float16:
        return block
    if dtype.kind == "b":
        return block.view(np.uint8)
    if dtype.isnative:
        return block.astype(np.float32)
    return _plain(block.astype(dtype.newbyteorder("=")))


def _fold(reduction: np.ufunc, block: Array, width: int) -> Array:
    """Reduce (rows, k * width) to (width,)."""
    wide: Array = reduction.reduce(block, axis=0)
    return wide if len(wide) == width else reduction.reduce(wide.reshape(-1, width), axis=0)


def _squares_around(mean: Array, numbers: Array, work: Array) -> Array:
    """Sum up squared distances of (rows, k * width) from `mean` (width,). They are left in `work`."""
    np.subtract(numbers, np.tile(mean, numbers.shape[1] // len(mean)), out=work)
    np.multiply(work, work, out=work)
    return _fold(np.add, work, len(mean))


def _pool(parts: list[Array]) -> Array:
    """Put parts of (5, parts, width) together, which lie along axis 1: (5, width)."""
    counts, means, arounds, lows, highs = np.concatenate(parts, axis=1)
    count = counts.sum(axis=0)
    mean = (counts / np.maximum(count, 1.0) * means).sum(axis=0)
    around = (arounds + counts * (means - mean) ** 2).sum(axis=0)
    low = np.minimum.reduce(lows, axis=0, initial=np.inf)
    high = np.maximum.reduce(highs, axis=0, initial=-np.inf)
    return np.stack([count, mean, around, low, high])


def _finished(table: Array) -> Array:
    """Count, mean, standard deviation, least and greatest, from what `_pool` returns."""
    count, mean, around, low, high = table
    one = low == high
    std = np.where(one, 0.0, np.sqrt(around / np.maximum(count, 1.0)))
    # The mean of equal numbers is that number, to the last digit.
    floats = [np.where(one, low, mean), std, low, high]
    return np.stack([count, *(np.where(count > 0, values, np.nan) for values in floats)])
