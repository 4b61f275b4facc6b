"""Cut a flow into parts that never overlap."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.errors import OptionError
from npyflow._order.cipher import Permutation, mix

if TYPE_CHECKING:
    from collections.abc import Sequence

Array = np.ndarray[Any, Any]

# Sets a split apart from the shuffles with the same seed.
_SPLIT = 0x5350


def part_bounds(fractions: Sequence[float]) -> list[float]:
    """Return the upper bounds of the parts in ``(0, 1]``; what the fractions leave is one more part.

    Raises
    ------
    OptionError
        If a fraction is not positive or the sum is over 1.
    """
    if not fractions or any(not 0 < fraction <= 1 for fraction in fractions):
        raise OptionError(
            f"split{tuple(fractions)}: expected fractions in (0, 1], such as split(0.9) or split(0.8, 0.1, 0.1)"
        )
    bounds = list(accumulate(fractions))
    if bounds[-1] > 1 + 1e-9:
        raise OptionError(f"split{tuple(fractions)}: the fractions add up to {bounds[-1]:g}; expected at most 1")
    return [*bounds[:-1], 1.0] if bounds[-1] > 1 - 1e-9 else [*bounds, 1.0]


def split_keys(keys: Sequence[str], bounds: Sequence[float], *, seed: int, level: int) -> list[Array]:
    """Assign each key by its own hash: adding or removing other keys moves nobody. Sizes are approximate.

    Parameters
    ----------
    level : int
        Splits that `keys` come from; a part that is split again needs other hashes.
    """
    # Here, because it loads a cryptographic library, which most who import npyflow do not need.
    import hashlib

    salt = mix(seed, level).to_bytes(8, "little")
    points = [
        int.from_bytes(
            hashlib.blake2b(key.encode("utf-8", "surrogateescape"), digest_size=8, salt=salt).digest(), "little"
        )
        for key in keys
    ]
    part = np.searchsorted(np.array(bounds), np.array(points, np.float64) / 2.0**64, side="right")
    part = np.minimum(part, len(bounds) - 1)
    return [np.flatnonzero(part == number) for number in range(len(bounds))]


def split_rows(n: int, bounds: Sequence[float], *, seed: int, level: int) -> list[Array]:
    """Assign ``range(n)`` at random with exact sizes; each part is in ascending order."""
    shuffled = Permutation(n, mix(seed, _SPLIT, level))(np.arange(n))
    cuts = [0, *(round(n * bound) for bound in bounds)]
    return [np.sort(shuffled[start:stop]) for start, stop in pairwise(cuts)]


def check_no_empty(parts: Sequence[Array], fractions: Sequence[float], n: int) -> None:
    """Refuse a part without examples.

    Raises
    ------
    OptionError
        With the sizes of all parts.
    """
    if any(len(part) == 0 for part in parts):
        sizes = ", ".join(f"{len(part):,}" for part in parts)
        raise OptionError(
            f"split{tuple(fractions)} of {n:,} examples leaves a part empty (sizes {sizes}); "
            f"use larger fractions, another seed, or more examples"
        )
