"""The order of examples: a pure function of (n, seed, epoch, position, shard)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.errors import OptionError
from npyflow._core.options import LARGEST
from npyflow._order.cache import Cache
from npyflow._order.cipher import SMALL, Permutation, mix

if TYPE_CHECKING:
    from npyflow._core.options import Shuffle

Array = np.ndarray[Any, Any]

# Indices are made in segments of this many, since NumPy's cost a call is thousands of times that of an index.
_SEGMENT = SMALL

# What a key is for: the permutations of one epoch must not resemble each other.
_GLOBAL, _BLOCKS, _WINDOW = range(3)


class Order:
    """Indices of an epoch, one segment in memory at a time.

    Parameters
    ----------
    n : int
        Number of examples, over all shards.
    shuffle : Shuffle or None
        None for the order of the data.
    seed : int
        Every seed is another order; so is every epoch.
    shard : tuple of int
        ``(index, count)``. Shard `index` takes every `count`-th position of the one global order, so the first k
        steps of all shards together are a prefix of it, whatever the count.

    Notes
    -----
    Safe to use from several threads.
    """

    # Every example comes once an epoch.
    repeats = False

    def __init__(self, n: int, *, shuffle: Shuffle | None, seed: int = 0, shard: tuple[int, int] = (0, 1)) -> None:
        index, count = shard
        if not 0 <= index < count:
            raise OptionError(f"shard={shard}: expected (index, count) with 0 <= index < count")
        if n > LARGEST:
            raise OptionError(f"{n:,} examples; expected at most {LARGEST:,}")
        self._n = n
        self._seed = seed
        self._shard = shard
        self._shuffle = shuffle
        self._cache = Cache()

    def __len__(self) -> int:
        """Examples of this shard."""
        index, count = self._shard
        return max(0, -(-(self._n - index) // count))

    def indices(self, epoch: int, start: int, stop: int) -> Array:
        """Return the examples at positions ``[start, stop)`` of this shard in `epoch`, as int64."""
        if self._shuffle is None:
            return self.positions(start, stop)
        parts = []
        for number in range(start // _SEGMENT, -(-stop // _SEGMENT)):
            first = number * _SEGMENT
            segment = self._cache.get((epoch, number), lambda: self._segment(epoch, first))  # noqa: B023 (called at once)
            parts.append(segment[max(0, start - first) : stop - first])
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.int64), *parts])

    def positions(self, start: int, stop: int) -> Array:
        """Return the positions ``[start, stop)`` of this shard as positions in the order of all shards, as int64."""
        index, count = self._shard
        return np.arange(start * count + index, stop * count + index, count, dtype=np.int64)[: max(0, stop - start)]

    def _segment(self, epoch: int, first: int) -> Array:
        positions = self.positions(first, min(first + _SEGMENT, len(self)))
        if self._shuffle is not None and self._shuffle.block is not None:
            return self._blocked(epoch, positions, self._shuffle.block, self._shuffle.window)
        return self._permutation(epoch, _GLOBAL, 0, self._n)(positions)

    def _permutation(self, epoch: int, purpose: int, number: int, n: int) -> Permutation:
        made: Permutation = self._cache.get(
            ("permutation", epoch, purpose, number, n),
            lambda: Permutation(n, mix(self._seed, epoch, purpose, number)),
        )
        return made

    def _blocked(self, epoch: int, positions: Array, block: int, window: int) -> Array:
        """Look positions up window by window.

        Blocks are permuted; all are full but the last of the data, which may stand anywhere and is found by `short`.
        """
        blocks = -(-self._n // block)
        missing = blocks * block - self._n
        short = self._cache.get(("short", epoch), lambda: self._find_last_block(epoch, blocks))
        # As if the last block were full too: positions behind it move up by what it lacks.
        virtual = positions + missing * (positions >= (short + 1) * block - missing)
        numbers = virtual // (block * window)
        out = np.empty(len(positions), np.int64)
        # Positions ascend, so the positions of a window are a slice.
        found, starts = np.unique(numbers, return_index=True)
        for number, first, end in zip(found.tolist(), starts, [*starts[1:], len(positions)], strict=True):
            inside = slice(first, end)
            members = self._cache.get(
                ("window", epoch, number),
                lambda: self._window(epoch, number, blocks, block, window),  # noqa: B023
            )
            start = number * block * window - (missing if short < number * window else 0)
            out[inside] = members[positions[inside] - start]
        return out

    def _find_last_block(self, epoch: int, blocks: int) -> int:
        permutation = self._permutation(epoch, _BLOCKS, 0, blocks)
        for first in range(0, blocks, _SEGMENT):
            found = np.flatnonzero(permutation(np.arange(first, min(first + _SEGMENT, blocks))) == blocks - 1)
            if found.size:
                return first + int(found[0])
        raise AssertionError("a permutation contains every number")

    def _window(self, epoch: int, number: int, blocks: int, block: int, window: int) -> Array:
        first = number * window
        chosen = self._permutation(epoch, _BLOCKS, 0, blocks)(np.arange(first, min(first + window, blocks)))
        members = (chosen[:, None] * block + np.arange(block)).reshape(-1)
        members = members[members < self._n]
        # Not through the cache: it would push out what is used again.
        return members[Permutation(len(members), mix(self._seed, epoch, _WINDOW, number))(np.arange(len(members)))]
