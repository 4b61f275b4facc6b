"""The order looks random: statistics whose distribution for a true shuffle is known, within five sigma."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from npyflow._core.options import Shuffle
from npyflow._order.order import Order

# Sorted keys up to 65,536, the Feistel network above; its domain is just large enough, or nearly twice too large.
SMALL, LARGE = [100, 1000, 20_000], [65_537, 100_003, 131_072]
EPOCHS = {100: 2000, 1000: 400, 20_000: 40, 65_537: 12, 100_003: 10, 131_072: 10}


def orders(n: int, seeds=(0,), epochs=None) -> list[np.ndarray]:
    found = []
    for seed in seeds:
        order = Order(n, shuffle=Shuffle(), seed=seed)
        found += [order.indices(epoch, 0, n) for epoch in range(EPOCHS[n] if epochs is None else epochs)]
    return found


@pytest.fixture(scope="module", params=[*SMALL, *LARGE])
def shuffled(request):
    return request.param, orders(request.param)


def chi_square_z(counts: np.ndarray, total: int) -> float:
    """Standard score of a contingency table with fixed margins (a permutation's)."""
    expected = counts.sum(1, keepdims=True) * counts.sum(0, keepdims=True) / counts.sum()
    degrees = (counts.shape[0] - 1) * (counts.shape[1] - 1)
    statistic = ((counts - expected) ** 2 / expected).sum() * (total - 1) / total
    return (statistic - degrees) / np.sqrt(2 * degrees)


def joint(a: np.ndarray, b: np.ndarray, bins: int) -> np.ndarray:
    return np.bincount(a * bins + b, minlength=bins * bins).reshape(bins, bins).astype(float)


@pytest.mark.parametrize("bins", [2, 10])
def test_every_part_of_the_data_lands_everywhere(shuffled, bins):
    n, all_orders = shuffled
    place = np.arange(n) * bins // n
    scores = [chi_square_z(joint(place, order * bins // n, bins), n) for order in all_orders]
    assert abs(np.mean(scores)) * np.sqrt(len(scores)) < 5
    assert max(scores) < 12


@pytest.mark.parametrize("modulus", [2, 7, 8])
def test_low_bits_are_mixed_too(shuffled, modulus):
    n, all_orders = shuffled
    scores = [chi_square_z(joint(np.arange(n) % modulus, order % modulus, modulus), n) for order in all_orders]
    assert abs(np.mean(scores)) * np.sqrt(len(scores)) < 5


@pytest.mark.parametrize("example", [0, 1, -1])
def test_one_example_lands_everywhere(example):
    n, bins = 1000, 10
    positions = [int(np.flatnonzero(order == example % n)[0]) for order in orders(n, seeds=range(5), epochs=400)]
    counts = np.bincount(np.array(positions) * bins // n, minlength=bins)
    expected = len(positions) / bins
    assert ((counts - expected) ** 2 / expected).sum() < 9 + 5 * np.sqrt(18)


@pytest.mark.parametrize("lag", [1, 2, 16])
def test_successive_indices_do_not_correlate(shuffled, lag):
    n, all_orders = shuffled
    # In a random permutation the expected correlation is -1 / (n - 1): what stands here cannot stand there.
    scores = [
        (np.corrcoef(order[:-lag], order[lag:])[0, 1] + 1 / (n - 1)) * np.sqrt(n - lag - 1) for order in all_orders
    ]
    assert abs(np.mean(scores)) * np.sqrt(len(scores)) < 5
    assert np.std(scores) < 1 + 5 / np.sqrt(2 * len(scores))


def test_neighbours_are_torn_apart(shuffled):
    n, all_orders = shuffled
    # In a random permutation two neighbours stay neighbours 2 (n - 1) / n times on average, nearly Poisson.
    kept = sum(int((np.abs(np.diff(order)) == 1).sum()) for order in all_orders)
    expected = 2 * len(all_orders) * (n - 1) / n
    assert abs(kept - expected) < 5 * np.sqrt(expected)


def test_distances_of_successive_indices_spread(shuffled):
    n, all_orders = shuffled
    gaps = np.concatenate([np.diff(order) % n for order in all_orders]) * 16 // n
    counts = np.bincount(gaps, minlength=16)
    expected = np.bincount(np.arange(1, n) * 16 // n, minlength=16) / (n - 1) * len(gaps)
    assert ((counts - expected) ** 2 / expected).sum() < 15 + 5 * np.sqrt(30)


def test_few_stay_where_they_are(shuffled):
    n, all_orders = shuffled
    fixed = sum(int((order == np.arange(n)).sum()) for order in all_orders)
    assert abs(fixed - len(all_orders)) < 5 * np.sqrt(len(all_orders))


def test_epochs_are_unrelated(shuffled):
    n, all_orders = shuffled
    pairs = list(itertools.pairwise(all_orders))
    equal = sum(int((a == b).sum()) for a, b in pairs)
    assert abs(equal - len(pairs)) < 5 * np.sqrt(len(pairs))
    scores = [np.corrcoef(a, b)[0, 1] * np.sqrt(n) for a, b in pairs]
    assert abs(np.mean(scores)) * np.sqrt(len(scores)) < 5


@pytest.mark.parametrize("n", [1000, 100_003])
def test_seeds_are_unrelated(n):
    several = orders(n, seeds=[0, 1, 2, 3, 2**31, 2**32, 2**63, -1], epochs=2)
    equal, count = 0, 0
    for at, a in enumerate(several):
        for b in several[:at]:
            equal += int((a == b).sum())
            count += 1
            assert abs(np.corrcoef(a, b)[0, 1]) * np.sqrt(n) < 5
    assert abs(equal - count) < 5 * np.sqrt(count)


@pytest.mark.parametrize("n", [4, 5])
def test_all_orders_of_a_few_examples_are_equally_likely(n):
    order = Order(n, shuffle=Shuffle(), seed=3)
    found = [tuple(order.indices(epoch, 0, n).tolist()) for epoch in range(3000)]
    kinds = int(np.prod(np.arange(1, n + 1)))
    counts = np.array([found.count(kind) for kind in set(found)])
    assert len(counts) == kinds
    expected = len(found) / kinds
    assert ((counts - expected) ** 2 / expected).sum() < kinds - 1 + 5 * np.sqrt(2 * (kinds - 1))


def test_a_class_sorted_data_set_is_mixed_in_the_first_batches():
    order = Order(3000, shuffle=Shuffle(), seed=0)
    for start in range(0, 3000 - 64, 64):
        classes = np.bincount(order.indices(0, start, start + 64) // 1000, minlength=3)
        assert classes.min() >= 5
