"""Cut a flow into parts that never overlap, or into folds: pure functions of keys and arrays."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.errors import OptionError, ShapeMismatchError
from npyflow._core.text import brief, plural
from npyflow._order.cipher import Permutation, mix

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Array = np.ndarray[Any, Any]

# Sets a split apart from the shuffles with the same seed, and one kind from another.
_SPLIT, _STRATA, _GROUPS, _FOLDS, _GROUP_FOLDS = range(0x5350, 0x5355)


def part_bounds(fractions: Sequence[float]) -> list[float]:
    """Return the upper bounds of the parts in ``(0, 1]``; what the fractions leave is one more part.

    Raises
    ------
    OptionError
        If a fraction is not positive or the sum is over 1.
    """
    numbers = all(isinstance(fraction, int | float | np.number) for fraction in fractions)
    if not fractions or not numbers or any(not 0 < fraction <= 1 for fraction in fractions):
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
    points = _hash_points(keys, mix(seed, level))
    part = np.searchsorted(np.array(bounds), points / 2.0**64, side="right")
    part = np.minimum(part, len(bounds) - 1)
    return [np.flatnonzero(part == number) for number in range(len(bounds))]


def _hash_points(texts: Sequence[str], key: int) -> Array:
    """Hash each text to a float64 in ``[0, 2**64]``."""
    # Here, because it loads a cryptographic library, which most who import npyflow do not need.
    import hashlib

    salt = key.to_bytes(8, "little")
    points = [
        int.from_bytes(
            hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8, salt=salt).digest(), "little"
        )
        for text in texts
    ]
    return np.array(points, np.float64)


def split_rows(n: int, bounds: Sequence[float], *, seed: int, level: int) -> list[Array]:
    """Assign ``range(n)`` at random with exact sizes; each part is in ascending order."""
    shuffled = Permutation(n, mix(seed, _SPLIT, level))(np.arange(n))
    cuts = [0, *(round(n * bound) for bound in bounds)]
    return [np.sort(shuffled[start:stop]) for start, stop in pairwise(cuts)]


def split_strata(strata: Array, bounds: Sequence[float], *, seed: int, level: int) -> list[Array]:
    """Assign examples at random such that every part has its share of every class; each part is in ascending order.

    Of each class a part gets its exact share, rounded up or down. What is left of the class after rounding down goes
    to the parts that have none of it and are due half an example, then to those with the largest remainders, where
    parts that classes before left short of their size come first: so classes of a few examples reach small parts too,
    and the sizes of the parts are right within one.

    Parameters
    ----------
    strata : array (n,)
        The class of each example.
    bounds : sequence of float
        From `part_bounds`.
    level : int
        As in `split_keys`.
    """
    fractions, n = np.diff(bounds, prepend=0.0), len(strata)
    parts: list[list[Array]] = [[] for _ in bounds]
    owed = np.zeros(len(bounds))
    for members in _shuffled_classes(strata, mix(seed, _STRATA, level)):
        # 0.3 of 10 is 3, whatever the sum of the fractions before it lost.
        shares = np.round(len(members) * fractions, 6)
        sizes = np.floor(shares).astype(np.int64)
        # A part that has none of the class comes first if it is due half of one, and is not ahead of its size by one.
        due = (sizes == 0) & (shares >= 0.5) & (owed > -1) & (len(members) >= len(bounds))
        wanting = np.where(shares > sizes, shares - sizes + owed + 2 * n * due, -np.inf)
        sizes[np.argsort(-wanting, stable=True)[: len(members) - sizes.sum()]] += 1
        owed += shares - sizes
        for part, some in zip(parts, np.split(members, np.cumsum(sizes)[:-1]), strict=True):
            part.append(some)
    return [np.sort(np.concatenate([np.empty(0, np.int64), *part])) for part in parts]


def split_groups(groups: Array, bounds: Sequence[float], *, seed: int, level: int) -> list[Array]:
    """Assign whole groups at random; each part is in ascending order and has a group.

    Sizes are as close to the fractions as groups allow that come in random order: each goes to the part that lacks the
    most examples.

    Parameters
    ----------
    groups : array (n,)
        The group of each example.
    bounds, level
        As in `split_strata`.

    Raises
    ------
    OptionError
        If there are fewer groups than parts.
    """
    part = _assign_groups(groups, np.diff(bounds, prepend=0.0), mix(seed, _GROUPS, level), "parts")
    return [np.flatnonzero(part == number) for number in range(len(bounds))]


def split_consecutive(n: int, bounds: Sequence[float], *, gap: int = 0) -> list[Array]:
    """Cut ``range(n)`` into blocks, one after another.

    Parameters
    ----------
    bounds : sequence of float
        Of the examples that are left when the gaps are taken out.
    gap : int
        Examples between two parts that are in neither.

    Raises
    ------
    OptionError
        If the gaps take all examples.
    """
    left = n - gap * (len(bounds) - 1)
    if gap and left < len(bounds):
        raise OptionError(
            f"split: {plural(n, 'example')} less {plural(len(bounds) - 1, 'gap')} of {gap:,} leaves {max(0, left):,} "
            f"for {len(bounds)} parts; use a smaller gap="
        )
    cuts = [0, *(round(left * bound) for bound in bounds)]
    return [np.arange(start, stop) + number * gap for number, (start, stop) in enumerate(pairwise(cuts))]


def fold_numbers(
    n: int, k: int, seed: int, level: int, stratify: Array | None = None, groups: Array | None = None
) -> Array:
    """Return the fold of each example at random, int64 ``(n,)`` in ``[0, k)``.

    Parameters
    ----------
    k : int
        Folds. Their sizes differ by at most 1, unless there are groups.
    level : int
        As in `split_keys`.
    stratify : array (n,), optional
        The class of each example: the examples of a class in two folds differ by at most 1 too.
    groups : array (n,), optional
        The group of each example: a group is in one fold, and each goes to the smallest so far, in random order.

    Raises
    ------
    OptionError
        If there are fewer than 2 folds, fewer examples or groups than folds, or both `stratify` and `groups`.
    """
    check_one_rule("folds", stratify, groups)
    if not 2 <= k <= n:
        raise OptionError(f"folds({k}) of {plural(n, 'example')}: expected at least 2 and at most as many as examples")
    if groups is not None:
        return _assign_groups(groups, np.full(k, 1 / k), mix(seed, _GROUP_FOLDS, level), "folds")
    strata = np.zeros(n, np.int64) if stratify is None else stratify
    # As cards are dealt, class after class.
    dealt = np.concatenate(_shuffled_classes(strata, mix(seed, _FOLDS, level)))
    numbers = np.empty(n, np.int64)
    numbers[dealt] = np.arange(n) % k
    return numbers


def values_of(argument: str, given: Any, keys: Sequence[str] | Array | None, n: int) -> Array:
    """Return the value of each example, ``(n,)``: numbers, text or dates.

    Parameters
    ----------
    argument : str
        What it is for, for messages: ``"groups"``.
    given : array (n,) or callable
        A callable gets each key.
    keys : sequence (n,) or None
        None for rows, which are known by their number.

    Raises
    ------
    OptionError
        If values are of no use to tell examples apart.
    ShapeMismatchError
        If there are more or fewer than examples.
    """
    where = f"{argument}="
    if callable(given):
        named = range(n) if keys is None else keys.tolist() if isinstance(keys, np.ndarray) else keys
        given = [_called(given, key, argument) for key in named]
        where = f"{argument}= returned"
    try:
        array = np.asarray(given)
    except ValueError:
        array = np.asarray(None)
    if array.dtype.kind not in "biufUSMm" or array.ndim == 0:
        raise OptionError(
            f"{where} {brief(given)}; expected a number or a text for each of {plural(n, 'example')}, in an array or "
            f"from a function of the key"
        )
    if array.shape not in ((n,), (n, 1)):
        raise ShapeMismatchError(
            f"{where} an array of shape {array.shape} for {plural(n, 'example')}; expected ({n},), one value each"
        )
    array = array.reshape(n)
    # Only NaN and NaT are not themselves.
    if missing := np.flatnonzero(array != array).tolist():
        raise OptionError(
            f"{where} {array[missing[0]]} for example {missing[0]} ({plural(len(missing), 'example')} like it); "
            f"give it a value, or leave it out of the flow"
        )
    return array


def _called(function: Callable[[Any], Any], key: Any, argument: str) -> Any:
    try:
        return function(key)
    except Exception as error:
        raise OptionError(f"{argument}= raised {type(error).__name__} for {brief(key)}: {error}") from error


def check_one_rule(method: str, stratify: Any, groups: Any) -> None:
    """Refuse classes and groups together.

    Raises
    ------
    OptionError
        With the reason.
    """
    if stratify is not None and groups is not None:
        raise OptionError(
            f"{method}: stratify= and groups= exclude each other: a group goes as a whole, with the classes it has, so "
            f"classes cannot be spread exactly; choose one"
        )


def check_no_empty(
    parts: Sequence[Array | range],
    fractions: Sequence[float],
    n: int,
    advice: str = "larger fractions, another seed, or more examples",
) -> None:
    """Refuse a part without examples; `advice` says what to use instead.

    Raises
    ------
    OptionError
        With the sizes of all parts.
    """
    if any(len(part) == 0 for part in parts):
        sizes = ", ".join(f"{len(part):,}" for part in parts)
        raise OptionError(
            f"split({', '.join(map(str, fractions))}) of {n:,} examples leaves a part empty (sizes {sizes}); "
            f"use {advice}"
        )


def _shuffled_classes(values: Array, key: int) -> list[Array]:
    """Return the members of each class in random order."""
    _, counts = np.unique(values, return_counts=True)
    by_class = np.split(np.argsort(values, stable=True).astype(np.int64, copy=False), np.cumsum(counts)[:-1])
    return [
        members[Permutation(len(members), mix(key, number))(np.arange(len(members)))]
        for number, members in enumerate(by_class)
    ]


def _assign_groups(groups: Array, fractions: Array, key: int, what: str) -> Array:
    """Return the part of each example: groups in the order of their hashes, each to the part that lacks the most."""
    names, inverse, counts = np.unique(groups, return_inverse=True, return_counts=True)
    if len(names) < len(fractions):
        raise OptionError(
            f"groups=: {plural(len(names), 'group')} for {len(fractions)} {what}, and a group goes as a whole; use "
            f"fewer {what}, or groups that are smaller"
        )
    order = np.argsort(_hash_points([str(name) for name in names.tolist()], key), stable=True).tolist()
    sizes, parts = counts.tolist(), np.empty(len(names), np.int64)
    lacking = [len(groups) * float(fraction) for fraction in fractions]
    empty = set(range(len(fractions)))
    for left, group in zip(range(len(order), 0, -1), order, strict=True):
        # The last groups are for parts that would stay empty.
        open_to = sorted(empty) if left <= len(empty) else range(len(fractions))
        part = max(open_to, key=lacking.__getitem__)
        parts[group] = part
        lacking[part] -= sizes[group]
        empty.discard(part)
    return parts[inverse]
