"""Parts and folds: disjoint, complete, of the right sizes, and the same for the same seed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npyflow as nf
from npyflow._flow.split import (
    check_one_rule,
    fold_numbers,
    part_bounds,
    split_consecutive,
    split_groups,
    split_keys,
    split_rows,
    split_strata,
    values_of,
)

FRACTIONS = st.sampled_from([(0.9,), (0.5, 0.5), (0.7, 0.2), (0.8, 0.1, 0.1), (1.0,), (1 / 3, 1 / 3), (0.05, 0.9)])
SEEDS = st.integers(-(2**70), 2**70)
RARE = np.repeat([0, 1, 2], [950, 45, 5])
LETTERS = np.array(list("abcdefghij"))[np.arange(20) * 7 % 10]


def check_parts(parts: Sequence[np.ndarray], n: int) -> None:
    whole = np.concatenate(parts)
    assert whole.dtype == np.int64
    np.testing.assert_array_equal(np.sort(whole), np.arange(n))
    assert all((np.diff(part) > 0).all() for part in parts)


def same(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> bool:
    return all(np.array_equal(one, other) for one, other in zip(a, b, strict=True))


# Classes


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 40), max_size=30), FRACTIONS, SEEDS)
def test_every_part_has_its_share_of_every_class(counts, fractions, seed):
    strata = np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts)).astype(np.int64)
    bounds = part_bounds(fractions)
    parts = split_strata(strata, bounds, seed=seed, level=0)
    check_parts(parts, len(strata))
    exact = np.diff(bounds, prepend=0)
    for number, count in enumerate(counts):
        found = np.array([(strata[part] == number).sum() for part in parts])
        assert (np.abs(found - count * exact) < 1 + 1e-5).all()
    # Whatever the number of classes.
    sizes = np.array([len(part) for part in parts])
    assert (np.abs(sizes - len(strata) * exact) < len(bounds)).all()


def test_sizes_of_a_class():
    parts = split_strata(RARE, part_bounds([0.8, 0.1, 0.1]), seed=0, level=0)
    assert [np.bincount(RARE[part]).tolist() for part in parts] == [[760, 36, 4], [95, 5], [95, 4, 1]]
    for counts, sizes in (([10], [8, 1, 1]), ([30, 100], [104, 13, 13]), ([7], [5, 1, 1]), ([13], [11, 1, 1])):
        parts = split_strata(np.repeat(np.arange(len(counts)), counts), part_bounds([0.8, 0.1]), seed=3, level=0)
        assert [len(part) for part in parts] == sizes


def test_small_classes_reach_small_parts():
    strata = np.arange(100) // 2
    parts = split_strata(strata, part_bounds([0.8, 0.1]), seed=0, level=0)
    assert [len(part) for part in parts] == [80, 10, 10]
    alone = split_strata(np.arange(100), part_bounds([0.8, 0.1]), seed=0, level=0)
    assert [len(part) for part in alone] == [80, 10, 10]


def test_members_of_a_class_are_chosen_at_random():
    bounds = part_bounds([0.5])
    chosen = np.zeros(40)
    for seed in range(400):
        chosen[split_strata(np.arange(40) % 2, bounds, seed=seed, level=0)[0]] += 1
    assert np.abs(chosen - 200).max() < 5 * 10
    text = np.array(["even", "odd"])[np.arange(40) % 2]
    assert same(*(split_strata(strata, bounds, seed=1, level=0) for strata in (text, np.arange(40) % 2)))


# Groups


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 30), min_size=3, max_size=200), FRACTIONS, SEEDS)
def test_a_group_is_in_one_part(groups, fractions, seed):
    groups, bounds = np.array(groups), part_bounds(fractions)
    if len(set(groups.tolist())) < len(bounds):
        with pytest.raises(nf.OptionError, match=r"groups=: \d groups? for \d parts"):
            split_groups(groups, bounds, seed=seed, level=0)
        return
    parts = split_groups(groups, bounds, seed=seed, level=0)
    check_parts(parts, len(groups))
    assert all(len(part) for part in parts)
    found = [set(groups[part].tolist()) for part in parts]
    assert sum(map(len, found)) == len(set.union(*found))


@pytest.mark.parametrize("seed", range(5))
def test_groups_come_close_to_the_fractions(seed):
    groups = np.random.default_rng(seed).zipf(1.6, 3000) % 400
    largest = np.bincount(groups).max()
    parts = split_groups(groups, part_bounds([0.7, 0.2]), seed=seed, level=0)
    assert (np.abs(np.array([len(part) for part in parts]) - [2100, 600, 300]) <= largest).all()
    even = split_groups(np.arange(1000) // 10, part_bounds([0.8, 0.1]), seed=seed, level=0)
    assert [len(part) for part in even] == [800, 100, 100]


def test_as_many_groups_as_parts():
    parts = split_groups(np.array(["a", "a", "a", "b", "c"]), part_bounds([0.9, 0.05]), seed=0, level=0)
    assert sorted(map(len, parts)) == [1, 1, 3]
    tiny = split_groups(np.repeat(np.arange(10), 10), part_bounds([0.9, 0.05]), seed=0, level=0)
    assert [len(part) for part in tiny] == [80, 10, 10]
    with pytest.raises(nf.OptionError, match="groups=: 2 groups for 3 parts, and a group goes as a whole; use fewer"):
        split_groups(np.array(["a", "a", "b"]), part_bounds([0.8, 0.1]), seed=0, level=0)


def test_groups_of_any_kind():
    numbers = np.arange(60) % 12
    bounds = part_bounds([0.6])
    wanted = split_groups(numbers, bounds, seed=0, level=0)
    for groups in (numbers.astype("u1"), numbers.astype(str), numbers.astype(">i4")):
        assert same(split_groups(groups, bounds, seed=0, level=0), wanted)
    # Where a group goes depends on its name.
    assert not same(split_groups(numbers + 1000, bounds, seed=0, level=0), wanted)


# Time


def test_consecutive_blocks():
    bounds = part_bounds([0.8, 0.1])
    assert [(part[0], part[-1]) for part in split_consecutive(100, bounds)] == [(0, 79), (80, 89), (90, 99)]
    check_parts(split_consecutive(100, bounds), 100)
    gapped = split_consecutive(110, bounds, gap=5)
    assert [(part[0], part[-1]) for part in gapped] == [(0, 79), (85, 94), (100, 109)]
    assert [len(part) for part in split_consecutive(7, [1.0], gap=3)] == [7]
    assert [len(part) for part in split_consecutive(5, part_bounds([0.01]))] == [0, 5]


@given(st.integers(0, 500), FRACTIONS, st.integers(0, 30))
def test_gaps_are_in_no_part(n, fractions, gap):
    bounds = part_bounds(fractions)
    left = n - gap * (len(bounds) - 1)
    if gap and left < len(bounds):
        with pytest.raises(nf.OptionError, match="use a smaller gap="):
            split_consecutive(n, bounds, gap=gap)
        return
    parts = split_consecutive(n, bounds, gap=gap)
    assert sum(map(len, parts)) == left
    assert all((np.diff(part) == 1).all() for part in parts)
    full = [part for part in parts if len(part)]
    for before, after in pairwise(full):
        assert after[0] - before[-1] > gap


def test_gaps_that_leave_nothing():
    with pytest.raises(nf.OptionError, match="split: 10 examples less 2 gaps of 4 leaves 2 for 3 parts; use a smaller"):
        split_consecutive(10, part_bounds([0.8, 0.1]), gap=4)


# Folds


@settings(max_examples=80, deadline=None)
@given(st.integers(2, 120), st.integers(2, 12), SEEDS)
def test_folds_are_even(n, k, seed):
    if k > n:
        with pytest.raises(nf.OptionError, match=rf"folds\({k}\) of {n} examples"):
            fold_numbers(n, k, seed, 0)
        return
    folds = fold_numbers(n, k, seed, 0)
    assert folds.dtype == np.int64
    sizes = np.bincount(folds, minlength=k)
    assert len(sizes) == k
    assert sizes.max() - sizes.min() <= 1


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=4, max_size=150), st.integers(2, 4), SEEDS)
def test_classes_are_even_in_folds(strata, k, seed):
    strata = np.array(strata)
    folds = fold_numbers(len(strata), k, seed, 0, stratify=strata)
    for chosen in (strata >= 0, *(strata == number for number in range(6))):
        sizes = np.bincount(folds[chosen], minlength=k)
        assert len(sizes) == k
        assert sizes.max() - sizes.min() <= 1


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=5, max_size=150), st.integers(2, 5), SEEDS)
def test_a_group_is_in_one_fold(groups, k, seed):
    groups = np.array(groups)
    if len(set(groups.tolist())) < k:
        with pytest.raises(nf.OptionError, match=r"groups=: \d groups? for \d folds.*use fewer folds"):
            fold_numbers(len(groups), k, seed, 0, groups=groups)
        return
    folds = fold_numbers(len(groups), k, seed, 0, groups=groups)
    assert len({*zip(folds.tolist(), groups.tolist(), strict=True)}) == len(set(groups.tolist()))
    sizes = np.bincount(folds, minlength=k)
    assert sizes.min() > 0
    assert len(sizes) == k
    assert sizes.max() - sizes.min() <= 2 * np.bincount(groups).max()


@pytest.mark.parametrize("k", [1, 0, -3])
def test_too_few_folds(k):
    with pytest.raises(nf.OptionError, match=r"of 10 examples: expected at least 2 and at most"):
        fold_numbers(10, k, 0, 0)


def test_classes_and_groups_exclude_each_other():
    with pytest.raises(
        nf.OptionError, match="folds: stratify= and groups= exclude each other: a group goes as a whole"
    ):
        fold_numbers(20, 2, 0, 0, stratify=np.arange(20) % 2, groups=np.arange(20) // 2)
    with pytest.raises(nf.OptionError, match="split: stratify= and groups="):
        check_one_rule("split", True, [1])
    check_one_rule("split", None, [1])
    check_one_rule("split", [1], None)


# Seeds

KEYS = [f"key{number}" for number in range(60)]
BY_SEED = {
    "keys": lambda seed, level: split_keys(KEYS, [0.5, 1.0], seed=seed, level=level),
    "rows": lambda seed, level: split_rows(60, [0.5, 1.0], seed=seed, level=level),
    "strata": lambda seed, level: split_strata(np.arange(60) % 3, [0.5, 1.0], seed=seed, level=level),
    "groups": lambda seed, level: split_groups(np.arange(60) // 2, [0.5, 1.0], seed=seed, level=level),
    "folds": lambda seed, level: [fold_numbers(60, 4, seed, level)],
    "class folds": lambda seed, level: [fold_numbers(60, 4, seed, level, stratify=np.arange(60) % 3)],
    "group folds": lambda seed, level: [fold_numbers(60, 4, seed, level, groups=np.arange(60) // 2)],
}


@pytest.mark.parametrize("what", BY_SEED)
def test_seeds_and_levels_differ(what):
    made = [BY_SEED[what](seed, level) for seed in (0, 1, -1, 2**64) for level in (0, 1)]
    assert same(made[0], BY_SEED[what](0, 0))
    assert len({b"|".join(part.tobytes() for part in parts) for parts in made}) == len(made)


def test_parts_are_promised():
    strata = np.repeat([0, 1, 2], [14, 5, 1])
    bounds = part_bounds([0.7, 0.2])
    assert [part.tolist() for part in split_strata(strata, bounds, seed=0, level=0)] == [
        [0, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 18, 19],
        [1, 9, 11, 15],
        [13, 17],
    ]
    assert [part.tolist() for part in split_groups(LETTERS, bounds, seed=0, level=0)] == [
        [1, 3, 4, 6, 7, 8, 9, 11, 13, 14, 16, 17, 18, 19],
        [2, 5, 12, 15],
        [0, 10],
    ]
    assert [part.tolist() for part in split_rows(10, part_bounds([0.7]), seed=0, level=0)] == [
        [0, 2, 3, 4, 5, 6, 8],
        [1, 7, 9],
    ]
    assert [part.tolist() for part in split_keys(KEYS[:10], part_bounds([0.7]), seed=0, level=0)] == [
        [0, 2, 3, 5, 6, 7, 8, 9],
        [1, 4],
    ]
    plain = [2, 1, 2, 2, 1, 1, 2, 1, 2, 0, 0, 0, 1, 0, 2, 0, 0, 1, 0, 1]
    assert fold_numbers(20, 3, 0, 0).tolist() == plain
    by_class = [2, 1, 0, 1, 0, 2, 2, 1, 2, 0, 1, 0, 1, 0, 2, 0, 1, 2, 0, 1]
    assert fold_numbers(20, 3, 0, 0, stratify=strata).tolist() == by_class
    by_group = [0, 0, 1, 0, 1, 2, 2, 2, 1, 0, 0, 0, 1, 0, 1, 2, 2, 2, 1, 0]
    assert fold_numbers(20, 3, 0, 0, groups=LETTERS).tolist() == by_group


# Values of examples


def test_values_of_examples():
    keys = ("p1/a", "p1/b", "p2/a")
    expected = ["p1", "p1", "p2"]
    assert values_of("groups", lambda key: key.split("/")[0], keys, 3).tolist() == expected
    for given_values in (expected, tuple(expected), np.array(expected), np.array(expected)[:, None]):
        assert values_of("groups", given_values, keys, 3).tolist() == expected
    assert values_of("groups", lambda row: row // 2, None, 3).tolist() == [0, 0, 1]
    seen = []
    values_of("groups", lambda row: seen.append(type(row)) or 0, np.array([5, 6, 9]), 3)
    assert seen == [int] * 3
    assert values_of("groups", lambda row: row * 10, np.array([5, 6, 9]), 3).tolist() == [50, 60, 90]
    assert values_of("groups", [], (), 0).shape == (0,)
    assert values_of("groups", str, None, 0).shape == (0,)
    days = np.array(["2024-01-01", "2024-01-02"], "M8[D]")
    np.testing.assert_array_equal(values_of("groups", days, None, 2), days)


@pytest.mark.parametrize(
    ("given_values", "error", "message"),
    [
        (
            [1, 2],
            nf.ShapeMismatchError,
            r"^groups= an array of shape \(2,\) for 3 examples; expected \(3,\), one value",
        ),
        (np.eye(3), nf.ShapeMismatchError, r"shape \(3, 3\) for 3 examples"),
        (lambda key: (key, 1), nf.ShapeMismatchError, r"^groups= returned an array of shape \(3, 2\)"),
        (lambda key: None, nf.OptionError, r"^groups= returned \[None, None, None\]; expected a number or a text for"),
        (lambda key: [0] * len(key), nf.OptionError, "groups= returned .*from a function of the key"),
        ("folder", nf.OptionError, "groups= 'folder'; expected a number or a text for each of 3 examples"),
        (5, nf.OptionError, "groups= 5; expected"),
        ({"a": 1}, nf.OptionError, "groups= {'a': 1}; expected"),
        ([1, 2j, 3], nf.OptionError, "expected a number or a text"),
        ([1, float("nan"), float("nan")], nf.OptionError, r"groups= nan for example 1 \(2 examples like it\)"),
        (np.array(["2024", "NaT", "2024"], "M8[D]"), nf.OptionError, r"NaT for example 1 \(1 example like it\)"),
    ],
)
def test_values_that_are_of_no_use(given_values, error, message):
    with pytest.raises(error, match=message):
        values_of("groups", given_values, ("a", "bb", "ccc"), 3)


def test_what_a_function_raises_names_the_row():
    with pytest.raises(nf.OptionError, match="groups= raised ZeroDivisionError for 0") as caught:
        values_of("groups", lambda row: 1 // row, None, 3)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_class_of_a_few_reaches_every_part_that_is_due_one():
    labels = np.repeat([0, 1, 2], [96, 6, 33])
    for seed in range(4):
        parts = split_strata(labels, part_bounds([0.7, 0.15]), seed=seed, level=0)
        assert [int((labels[part] == 1).sum()) for part in parts] == [4, 1, 1]
    many = split_strata(np.arange(100) // 5, part_bounds([0.9]), seed=0, level=0)
    assert abs(len(many[1]) - 10) <= 1
