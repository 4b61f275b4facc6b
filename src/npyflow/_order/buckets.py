"""Batches of examples of similar length: every example once an epoch, in the same number of batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.errors import OptionError
from npyflow._order.cache import Cache
from npyflow._order.cipher import Permutation, mix
from npyflow._order.schedule import Draw

if TYPE_CHECKING:
    from collections.abc import Sequence

Array = np.ndarray[Any, Any]

# What a key is for: the permutations of one epoch must not resemble each other.
_MEMBERS, _BATCHES = 0x4D45, 0x4241
# Candidates for edges; more would cost time and save little.
_CANDIDATES = 512


class Bucketed:
    """Batches, each from one bucket.

    Parameters
    ----------
    buckets : int array (n,)
        The bucket of each example.
    sizes : sequence of int
        Examples of a full batch of each bucket.
    shuffle : bool
        Permute the members of each bucket and then the batches, anew in every epoch. Otherwise bucket follows bucket.
    seed : int
        As in `Order`.
    drop_remainder : bool
        Leave out the batch of each bucket that is not full.
    shard : tuple of int
        ``(index, count)``. Shard `index` takes every `count`-th batch.
    """

    batches_per_read = 1

    def __init__(
        self,
        buckets: Array,
        sizes: Sequence[int],
        *,
        shuffle: bool,
        seed: int,
        drop_remainder: bool,
        shard: tuple[int, int] = (0, 1),
    ) -> None:
        self._shard_index, self._shard_count = shard
        if not 0 <= self._shard_index < self._shard_count:
            raise OptionError(f"shard={shard}: expected (index, count) with 0 <= index < count")
        self._members = [np.flatnonzero(buckets == number) for number in range(len(sizes))]
        self._sizes = tuple(sizes)
        self._shuffle = shuffle
        self._seed = seed
        batches = [
            len(members) // size if drop_remainder else -(-len(members) // size)
            for members, size in zip(self._members, sizes, strict=True)
        ]
        self._ends = np.cumsum(batches)
        # Permutations of two epochs.
        self._cache = Cache(2 * (len(self._sizes) + 1))
        self.batch_size = max(sizes)
        self.full = drop_remainder and len(set(sizes)) == 1

    @property
    def steps(self) -> int:
        """Batches of this shard."""
        return max(0, -(-(int(self._ends[-1]) - self._shard_index) // self._shard_count))

    def reads(self, first_step: int) -> int:
        """A batch a read."""
        return self.steps - first_step

    def draw(self, epoch: int, first_step: int, read: int) -> Draw:
        """The batch at step ``first_step + read`` of this shard."""
        batch = (first_step + read) * self._shard_count + self._shard_index
        if self._shuffle:
            batch = int(self._permutation(epoch, _BATCHES, 0, int(self._ends[-1]))(np.array([batch]))[0])
        bucket = int(np.searchsorted(self._ends, batch, side="right"))
        first = int(self._ends[bucket - 1]) if bucket else 0
        members, size = self._members[bucket], self._sizes[bucket]
        places = np.arange((batch - first) * size, min((batch - first + 1) * size, len(members)))
        if self._shuffle:
            places = self._permutation(epoch, _MEMBERS, bucket, len(members))(places)
        indices = members[places]
        return Draw(epoch=epoch, indices=indices, numbers=indices, bucket=bucket)

    def _permutation(self, epoch: int, purpose: int, number: int, n: int) -> Permutation:
        made: Permutation = self._cache.get(
            (epoch, purpose, number), lambda: Permutation(n, mix(self._seed, epoch, purpose, number))
        )
        return made


def assign(lengths: Array, edges: Sequence[int]) -> Array:
    """Return the bucket of each length: the first whose edge it does not exceed, else one more."""
    return np.searchsorted(np.array(edges, np.int64), lengths, side="left")


def best_edges(lengths: Array, count: int) -> list[int]:
    """Return up to `count` upper edges such that padding every length to its edge adds the least.

    Lengths are put in at most 512 steps first; the last edge is the longest.
    """
    candidates = np.unique(lengths)
    if not len(candidates):
        return [0]
    if len(candidates) > _CANDIDATES:
        ranks = np.linspace(0, len(candidates) - 1, _CANDIDATES).round().astype(np.int64)
        candidates = candidates[np.unique(ranks)]
    members = np.diff(np.searchsorted(np.sort(lengths), candidates, side="right"), prepend=0)
    before = np.concatenate([[0], np.cumsum(members)])
    # cost[i, j]: what the lengths of candidates [i, j) take up when padded to the last of them.
    cost = (before[None, :] - before[:, None]) * np.concatenate([[0], candidates])[None, :].astype(np.float64)
    cost[np.tril_indices(len(before), -1)] = np.inf
    best = cost[0]
    cuts = []
    for _ in range(min(count, len(candidates)) - 1):
        total = best[:, None] + cost
        cuts.append(total.argmin(axis=0))
        best = total.min(axis=0)
    edges, at = [], len(candidates)
    for cut in [*reversed(cuts), None]:
        edges.append(int(candidates[at - 1]))
        at = 0 if cut is None else int(cut[at])
        if at == 0:
            break
    return edges[::-1]
