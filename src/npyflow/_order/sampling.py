"""Orders that draw examples: each class as often as its weight says, or each example.

What stands at a position is a function of the weights, the seed, the epoch and the position, promised for good: it is
made of integers that wrap, and of floating-point operations that IEEE 754 rounds the same everywhere.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from npyflow._core.errors import OptionError
from npyflow._order.cache import Cache
from npyflow._order.cipher import SMALL, Permutation, hashed, mix
from npyflow._order.order import Order

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Array = np.ndarray[Any, Any]

# Shares of an epoch are computed in floating point, which counts exactly up to 2**53.
_LARGEST = 1 << 52
# Every block of an epoch has its share of each class.
_BLOCK = SMALL
# A pair of places stays as far apart as it was with a probability of 2**-24.
_SWAPS = 24

# What a key is for, apart from those of other orders with the same seed.
_CLASS, _MEMBER, _PLACE, _ROUND, _QUOTA, _EXAMPLE, _WAIT = range(0x5341, 0x5348)


class Draws(Protocol):
    """What is drawn at each position of an epoch of all shards."""

    size: int
    repeats: bool

    def at(self, epoch: int, positions: Array) -> Array:
        """The examples at `positions`, which ascend in ``[0, size)`` and are at least one, as int64."""


class Sampled:
    """An order, like `Order`, in which weights say how often an example or a class comes.

    Parameters
    ----------
    draws : Draws
        What is drawn.
    shard : tuple of int
        ``(index, count)``. Shard `index` takes every `count`-th position of the one global order.

    Attributes
    ----------
    repeats : bool
        Whether an example may come twice in an epoch.

    Notes
    -----
    Safe to use from several threads.
    """

    def __init__(self, draws: Draws, *, shard: tuple[int, int] = (0, 1)) -> None:
        if draws.size > _LARGEST:
            raise OptionError(f"size={draws.size:,}: expected at most {_LARGEST:,} examples an epoch")
        self._draws = draws
        self._places = Order(draws.size, shuffle=None, shard=shard)
        self.repeats = draws.repeats

    @classmethod
    def by_class(
        cls,
        groups: Array,
        weights: ArrayLike,
        *,
        size: int,
        replace: bool = False,
        seed: int = 0,
        shard: tuple[int, int] = (0, 1),
    ) -> Sampled:
        """Draw each class as often as its weight says, and its members equally often.

        Parameters
        ----------
        groups : int array (n,)
            The class of each example, in ``[0, classes)``.
        weights : float array (classes,)
            Their ratios count.
        size : int
            Examples an epoch, over all shards.
        replace : bool
            Draw every example for itself. Otherwise an epoch has the share of each class exactly, rounded up or down,
            and no member of a class comes again before all of them came.
        seed : int
            Every seed is another order; so is every epoch.
        shard : tuple of int
            As in `Sampled`.

        Raises
        ------
        OptionError
            If a weight is negative, not finite or missing, none is above 0, or one is that of a class without members.
        """
        checked = _checked_weights(weights, size)
        counts = np.bincount(groups, minlength=len(checked))
        if len(counts) > len(checked):
            raise OptionError(f"weights of {len(checked):,} classes; expected one for each of the {len(counts):,}")
        lost = np.flatnonzero((checked > 0) & (counts == 0))
        if lost.size:
            raise OptionError(f"class {lost[0]} has a weight above 0, but no example is of it; give it 0")
        kind = _ClassesIndependently if replace else _ClassesInRounds
        return cls(kind(groups, counts, checked, size, seed), shard=shard)

    @classmethod
    def by_example(
        cls,
        weights: ArrayLike,
        *,
        size: int,
        replace: bool = False,
        seed: int = 0,
        shard: tuple[int, int] = (0, 1),
    ) -> Sampled:
        """Draw each example as often as its weight says.

        Parameters
        ----------
        weights : float array (n,)
            Their ratios count.
        size, seed, shard
            As in `by_class`.
        replace : bool
            Draw every example for itself. Otherwise one after another from those that were not drawn yet in the epoch
            (Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006).

        Raises
        ------
        OptionError
            If a weight is negative or not finite, none is above 0, or, without `replace`, there are not enough
            examples.
        """
        checked = _checked_weights(weights, size)
        if replace:
            return cls(_ExamplesIndependently(checked, size, seed), shard=shard)
        able = int(np.count_nonzero(checked))
        if size > able:
            raise OptionError(
                f"size={size:,} of {able:,} examples whose weight is above 0 (there are {len(checked):,}), each at "
                f"most once an epoch; pass replace=True or a smaller size="
            )
        if size == len(checked) > 0:
            raise OptionError(
                f"size={size:,} of {len(checked):,} examples, each at most once an epoch: each would come once, "
                f"whatever its weight; pass replace=True or a smaller size="
            )
        return cls(_ExamplesOnce(checked, size, seed), shard=shard)

    def __len__(self) -> int:
        """Examples of an epoch, in this shard."""
        return len(self._places)

    def indices(self, epoch: int, start: int, stop: int) -> Array:
        """Return the examples at positions ``[start, stop)`` of this shard in `epoch`, as int64."""
        positions = self.positions(start, stop)
        return self._draws.at(epoch, positions) if len(positions) else positions

    def positions(self, start: int, stop: int) -> Array:
        """Return where positions ``[start, stop)`` of this shard are in the order of all shards, as int64."""
        return self._places.indices(0, start, stop)


class _Members:
    """The examples of each class, fewer than 2**32."""

    def __init__(self, groups: Array, counts: Array) -> None:
        self.counts = counts.astype(np.uint32)
        self._members = np.argsort(groups, stable=True).astype(np.int64, copy=False)
        self._starts = np.cumsum(counts) - counts

    def pick(self, classes: Array, places: Array) -> Array:
        """Return member `places` of each of `classes`."""
        picked: Array = self._members[self._starts[classes] + places.astype(np.int64)]
        return picked


class _ClassesIndependently:
    """A class by weight, then a member of it, for each position anew."""

    def __init__(self, groups: Array, counts: Array, weights: Array, size: int, seed: int) -> None:
        self.size = size
        self.repeats = True
        self._members = _Members(groups, counts)
        self._edges = np.cumsum(weights)
        self._seed = seed

    def at(self, epoch: int, positions: Array) -> Array:
        classes = _weighted(self._edges, positions, mix(self._seed, epoch, _CLASS))
        points = hashed(positions, mix(self._seed, epoch, _MEMBER))
        return self._members.pick(classes, _scaled(points, self._members.counts[classes]))


class _ClassesInRounds:
    """Classes with their exact share of an epoch, and members in rounds.

    Positions are cut into blocks. A block has its share of each class, in random places. There the class goes on with
    its members where the block before stopped; when all of them came, they are permuted anew: that is a round.
    """

    def __init__(self, groups: Array, counts: Array, weights: Array, size: int, seed: int) -> None:
        self.size = size
        self._members = _Members(groups, counts)
        self._edges = np.cumsum(weights)
        # The first product is exact for weights that are integers, equal ones above all, so whole shares are whole.
        self.repeats = size > 0 and bool((np.ceil(size * weights / self._edges[-1]) > counts).any())
        self._seed = seed
        self._cache = Cache()

    def at(self, epoch: int, positions: Array) -> Array:
        out = np.empty(len(positions), np.int64)
        numbers = positions // _BLOCK
        # Positions ascend, so those of a block are a slice.
        found, starts = np.unique(numbers, return_index=True)
        for number, first, end in zip(found.tolist(), starts, [*starts[1:], len(positions)], strict=True):
            block = self._cache.get((epoch, number), lambda: self._block(epoch, number))  # noqa: B023 (called at once)
            out[first:end] = block[positions[first:end] - number * _BLOCK]
        return out

    def _block(self, epoch: int, number: int) -> Array:
        first, end = number * _BLOCK, min((number + 1) * _BLOCK, self.size)
        shares = self._cache.get(("shares", epoch), lambda: self._shares(epoch))
        before = _drawn_by_class(shares, first)[: len(self._edges)]
        counts = _drawn_by_class(shares, end)[: len(self._edges)] - before
        classes = np.repeat(np.arange(len(counts)), counts)
        places = Permutation(end - first, mix(self._seed, epoch, _PLACE, number))(np.arange(end - first))
        # For each class in turn, the positions at which it stands; small integers are sorted by radix.
        positions = np.argsort(classes.astype(np.min_scalar_type(len(counts)))[places], stable=True)
        draws = (before - np.cumsum(counts) + counts)[classes] + np.arange(end - first)
        block = np.empty(end - first, np.int64)
        block[positions] = self._members.pick(classes, self._in_rounds(epoch, classes, draws))
        return block

    def _in_rounds(self, epoch: int, classes: Array, draws: Array) -> Array:
        lengths = self._members.counts[classes]
        rounds, places = np.divmod(draws.astype(np.uint64), lengths.astype(np.uint64))
        keys = hashed(classes, mix(self._seed, epoch, _ROUND)) + rounds
        return _permuted(places, lengths, hashed(keys, 0))

    def _shares(self, epoch: int) -> list[Array]:
        """Split the epoch among the classes, two by two: each row has the sums of the pairs of the next."""
        # Rounding from an offset of each epoch, a share of 2.3 is 3 in three epochs of ten. It would otherwise be 2
        # in all of them, and a class with a share of 0.3 would never come.
        offset = _unit(np.array([mix(self._seed, epoch, _QUOTA)], np.uint64))
        ends = np.minimum(np.floor(self.size * self._edges / self._edges[-1] + offset), self.size)
        shares = np.zeros(1 << (len(ends) - 1).bit_length(), np.int64)
        shares[: len(ends)] = np.diff(ends, prepend=0)
        # Products of two shares must fit.
        rows = [shares if self.size < 1 << 31 else shares.astype(object)]
        while len(rows[0]) > 1:
            rows.insert(0, rows[0].reshape(-1, 2).sum(axis=1))
        return rows


def _drawn_by_class(rows: list[Array], drawn: int) -> Array:
    """Return how many of the first `drawn` positions each class has: its share of them, within rounding.

    Rounded pair by pair, since then no count goes down as `drawn` goes up.
    """
    counts = np.array([drawn], rows[0].dtype)
    for above, below in pairwise(rows):
        left = counts * below[::2] // np.maximum(above, 1)
        counts = np.stack([left, counts - left], axis=1).reshape(-1)
    return counts.astype(np.int64)


class _ExamplesIndependently:
    """An example by weight, for each position anew."""

    def __init__(self, weights: Array, size: int, seed: int) -> None:
        self.size = size
        self.repeats = True
        self._edges = np.cumsum(weights)
        self._seed = seed

    def at(self, epoch: int, positions: Array) -> Array:
        return _weighted(self._edges, positions, mix(self._seed, epoch, _EXAMPLE))


class _ExamplesOnce:
    """Examples by weight from those that were not drawn yet: those whose exponential waiting times end first."""

    repeats = False

    def __init__(self, weights: Array, size: int, seed: int) -> None:
        self.size = size
        self._able = np.flatnonzero(weights)
        self._weights = weights[self._able]
        self._seed = seed
        # One epoch ends while the next begins.
        self._cache = Cache(2)

    def at(self, epoch: int, positions: Array) -> Array:
        drawn: Array = self._cache.get(epoch, lambda: self._draw(epoch))
        return drawn[positions]

    def _draw(self, epoch: int) -> Array:
        points = hashed(self._able, mix(self._seed, epoch, _WAIT)) >> np.uint64(12)
        waits = -_log((points.astype(np.float64) + 0.5) * 2.0**-52) / self._weights
        chosen = self._able[np.argsort(waits, stable=True)[: self.size]]
        # Waits ascend, so without this the heavy ones would come first.
        return chosen[Permutation(len(chosen), mix(self._seed, epoch, _WAIT, 1))(np.arange(len(chosen)))]


def _checked_weights(weights: ArrayLike, size: int) -> Array:
    """Return `weights` as float64, scaled by a power of two such that they can be summed."""
    array = np.asarray(weights)
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        raise OptionError(f"weights of dtype {array.dtype}, shape {array.shape}; expected numbers along one axis")
    array = array.astype(np.float64)
    wrong = np.flatnonzero(~((array >= 0) & (array < np.inf)))
    if wrong.size:
        raise OptionError(f"weight {wrong[0]} is {array[wrong[0]]}; expected finite numbers of at least 0")
    if size > 0 and not array.any():
        raise OptionError(f"none of {len(array):,} weights is above 0; there is nothing to draw size={size:,} from")
    # Exactly, so that weights which are integers stay a multiple of them; and none becomes 0 that was not.
    scaled: Array = np.ldexp(array, -np.frexp(array.max(initial=0.0))[1])
    scaled[array > 0] = np.maximum(scaled[array > 0], 2.0**-1000)
    return scaled


def _unit(points: Array) -> Array:
    """Turn 64 random bits into a number in ``[0, 1)``."""
    unit: Array = (points >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return unit


def _weighted(edges: Array, positions: Array, key: int) -> Array:
    """Draw for each position a number whose weight is the distance of its edge from the edge before."""
    return np.searchsorted(edges, _unit(hashed(positions, key)) * edges[-1:], side="right").astype(np.int64, copy=False)


def _scaled(points: Array, lengths: Array) -> Array:
    """Turn 64 random bits into an integer in ``[0, length)``, for lengths below 2**32."""
    half = np.uint64(32)
    scaled: Array = (points >> half) * lengths >> half
    return scaled


def _permuted(places: Array, lengths: Array, keys: Array) -> Array:
    """Return where a permutation of ``range(length)`` (uint32), another for each key (uint64), sends each place.

    "Swap or not" (Hoang, Morris and Rogaway, "An enciphering scheme based on a card shuffle", 2012): a random
    reflection pairs the places off, and a random bit of each pair says whether it is swapped; again and again.
    `Permutation` would have to be made for each key, and there are as many as draws if a class has one member.
    """
    half = np.uint64(32)
    long = lengths.astype(np.uint64)
    keys, out = keys.copy(), places.astype(np.uint32)
    for _ in range(_SWAPS):
        # A linear congruential generator, whose upper half is used (Knuth's MMIX).
        keys *= np.uint64(6364136223846793005)
        keys += np.uint64(1442695040888963407)
        upper = keys >> half
        partner = (upper * long >> half).astype(np.uint32)
        partner += lengths * (out > partner)
        partner -= out
        bits: Array = np.maximum(out, partner)
        bits ^= upper.astype(np.uint32)
        bits *= np.uint32(0x9E3779B1)
        bits ^= bits >> np.uint32(15)
        bits *= np.uint32(0x85EBCA77)
        bits >>= np.uint32(31)
        # If the bit is set, what is there becomes its partner.
        partner -= out
        partner *= bits
        out += partner
    return out


def _log(values: Array) -> Array:
    """Natural logarithm of numbers above 0 (the series of the area tangent).

    NumPy's differs in the last bit from one processor to another, and with it could the order of an epoch.
    """
    mantissa, exponent = np.frexp(values)
    low = mantissa < 0.7071067811865476
    mantissa = np.where(low, mantissa * 2, mantissa)
    ratio = (mantissa - 1) / (mantissa + 1)
    square = ratio * ratio
    series = np.zeros_like(ratio)
    for odd in range(23, 0, -2):
        series = series * square + 1 / odd
    total: Array = (exponent - low) * 0.6931471805599453 + 2 * ratio * series
    return total
