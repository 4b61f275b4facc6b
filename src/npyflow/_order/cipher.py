"""Permutations of ``range(n)`` as arithmetic.

Small ones are sorted random keys. Large ones are a Feistel network over the two halves of a number's bits (Luby and
Rackoff 1988) whose domain, the next power of two, is less than twice as large as ``n``; a position that lands outside
is enciphered again until it lands inside ("cycle walking", Black and Rogaway, "Ciphers with arbitrary finite domains",
2002).

The result for a key is promised for good, so everything here is defined on unsigned integers that wrap. Nothing is
drawn from NumPy's generators, whose streams may change.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

# Up to here a permutation is made whole: 512 kB.
SMALL = 1 << 16

_MASK = (1 << 64) - 1
_ROUNDS = 6


def mix(*words: int) -> int:
    """Hash integers to 64 bits (splitmix64, Steele, Lea and Flood 2014, chained)."""
    state = 0x243F6A8885A308D3
    for limb in (limb for word in words for limb in _limbs(word)):
        state = (state ^ (limb & _MASK)) + 0x9E3779B97F4A7C15 & _MASK
        state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & _MASK
        state = (state ^ state >> 27) * 0x94D049BB133111EB & _MASK
        state ^= state >> 31
    return state


def _limbs(word: int) -> list[int]:
    """Cut an integer of any size into 64-bit pieces."""
    limbs = [word]
    while limbs[-1] > _MASK or limbs[-1] < -_MASK:
        limbs[-1:] = [limbs[-1] & _MASK, limbs[-1] >> 64]
    return limbs


class Permutation:
    """A permutation of ``range(n)`` that is evaluated where it is needed.

    Parameters
    ----------
    n : int
        Length, at most 2**62.
    key : int
        Different keys give unrelated permutations.

    Notes
    -----
    Safe to use from several threads.
    """

    __slots__ = ("_keys", "_right_bits", "_small", "_total_bits", "n")

    def __init__(self, n: int, key: int) -> None:
        self.n = n
        self._small = _sorted_keys(n, key) if n <= SMALL else None
        self._total_bits = max(2, (n - 1).bit_length())
        self._right_bits = self._total_bits // 2
        self._keys = [np.uint32(mix(key, number) & 0xFFFFFFFF) for number in range(_ROUNDS)]

    def __call__(self, positions: Array) -> Array:
        """Return where the permutation sends `positions` (int64, in ``[0, n)``)."""
        if self._small is not None:
            return self._small[positions]
        out = np.empty(len(positions), np.int64)
        self._encipher(positions, out)
        outside = np.flatnonzero(out >= self.n)
        while outside.size:
            again = out[outside]
            self._encipher(again, again)
            out[outside] = again
            outside = outside[again >= self.n]
        return out

    def _encipher(self, positions: Array, out: Array) -> None:
        bits = np.int64(self._right_bits)
        left_bits = self._total_bits - self._right_bits
        left, right, work, shifted = _work_space(len(positions))
        np.copyto(right, positions, casting="unsafe")
        np.right_shift(positions, bits, out=out)
        np.copyto(left, out, casting="unsafe")
        right &= np.uint32((1 << self._right_bits) - 1)
        for number in range(0, _ROUNDS, 2):
            _scramble(right, self._keys[number], left_bits, work, shifted)
            left ^= work
            _scramble(left, self._keys[number + 1], self._right_bits, work, shifted)
            right ^= work
        np.copyto(out, left)
        out <<= bits
        out |= right


_local = threading.local()


def _work_space(count: int) -> Array:
    """Four rows of `count` 32-bit words, kept for each thread: fresh pages would cost more than the arithmetic."""
    work: Array | None = getattr(_local, "work", None)
    if work is None or work.shape[1] < count:
        work = _local.work = np.empty((4, max(count, SMALL)), np.uint32)
    return work[:, :count]


def _scramble(values: Array, key: np.uint32, bits: int, out: Array, shifted: Array) -> None:
    """Hash each value to `bits` bits in `out`: multiply, fold, multiply, and keep the upper bits, the best mixed."""
    np.multiply(values, np.uint32(0x9E3779B1), out=out)
    np.add(out, key, out=out)
    np.right_shift(out, np.uint32(15), out=shifted)
    np.bitwise_xor(out, shifted, out=out)
    np.multiply(out, np.uint32(0x85EBCA77), out=out)
    np.right_shift(out, np.uint32(32 - bits), out=out)


def hashed(numbers: Array, key: int) -> Array:
    """Hash each number to 64 bits (splitmix64). For one key it is a bijection.

    Parameters
    ----------
    numbers : int64 or uint64 array
        Negative ones wrap.
    key : int
        In ``[0, 2**64)``, made by `mix`.

    Returns
    -------
    uint64 array
    """
    out: Array = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(key)
    out ^= out >> np.uint64(30)
    out *= np.uint64(0xBF58476D1CE4E5B9)
    out ^= out >> np.uint64(27)
    out *= np.uint64(0x94D049BB133111EB)
    out ^= out >> np.uint64(31)
    return out


def _sorted_keys(n: int, key: int) -> Array:
    """Order ``range(n)`` by a hash of each number. The hash is a bijection, so there are no ties to break."""
    return np.argsort(hashed(np.arange(n, dtype=np.uint64), key)).astype(np.int64, copy=False)
