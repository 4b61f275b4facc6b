"""Drawing by weight: exact lengths and shares, the right distribution, and the same at random access as in sequence."""

from __future__ import annotations

import hashlib
import itertools
import math
import threading
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npyflow as nf
from npyflow._core.sampling import Balanced
from npyflow._flow.sampling import plan_sampling
from npyflow._order.sampling import Sampled, _log, _permuted

# 950, 45 and 5 examples of three classes.
RARE = np.repeat([0, 1, 2], [950, 45, 5])
MANY = np.arange(3000) % 700


def whole(order: Sampled, epoch: int = 0) -> np.ndarray:
    got = order.indices(epoch, 0, len(order))
    assert got.dtype == np.int64
    return got


def by_class(groups=RARE, weights=(1, 1, 1), *, epoch: int = 0, **options) -> np.ndarray:
    return whole(Sampled.by_class(np.asarray(groups), weights, **options), epoch)


def by_example(weights, *, epoch: int = 0, **options) -> np.ndarray:
    return whole(Sampled.by_example(weights, **options), epoch)


def chi_square_z(found: np.ndarray, expected: np.ndarray) -> float:
    """Standard score of counts whose sum is given."""
    assert (found[expected == 0] == 0).all()
    found, expected = found[expected > 0], expected[expected > 0]
    degrees = len(expected) - 1
    return (((found - expected) ** 2 / expected).sum() - degrees) / np.sqrt(2 * degrees)


def orders(shard=(0, 1)) -> list[Sampled]:
    """One of each kind, and some of several blocks."""
    weights = np.arange(4000) % 17
    return [
        Sampled.by_class(RARE, [1, 1, 1], size=1000, seed=1, shard=shard),
        Sampled.by_class(RARE, [1, 1, 1], size=1000, seed=1, replace=True, shard=shard),
        Sampled.by_class(RARE, [5, 0, 1], size=140_001, seed=2, shard=shard),
        Sampled.by_class(MANY, np.arange(700), size=70_000, seed=3, shard=shard),
        Sampled.by_example(weights, size=3000, seed=4, shard=shard),
        Sampled.by_example(weights, size=9000, seed=4, replace=True, shard=shard),
    ]


# Shares


@pytest.mark.parametrize("epoch", range(4))
def test_classes_have_their_share_exactly(epoch):
    counts = np.bincount(RARE[by_class(size=1000, epoch=epoch)])
    assert counts.sum() == 1000
    assert sorted(counts) == [333, 333, 334]
    np.testing.assert_array_equal(np.bincount(RARE[by_class(size=999, epoch=epoch)]), [333, 333, 333])
    weighted = by_class(weights=[0.5, 0.3, 0.2], size=1000, epoch=epoch)
    np.testing.assert_array_equal(np.bincount(RARE[weighted]), [500, 300, 200])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 6), st.floats(0, 50)), min_size=1, max_size=20),
    st.integers(0, 400),
    st.integers(),
    st.integers(0, 3),
)
def test_shares_of_any_classes(classes, size, seed, epoch):
    counts, weights = (np.array(column) for column in zip(*classes, strict=True))
    if not weights.any():
        weights[0] = 1
    groups = np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts))
    order = Sampled.by_class(groups, weights, size=size, seed=seed)
    got = whole(order, epoch)
    assert len(got) == size
    share = size * (weights / weights.sum())
    found = np.bincount(groups[got], minlength=len(counts))
    assert (np.abs(found - share) < 1 + 1e-6).all()
    for number in range(len(counts)):
        check_rounds(got[groups[got] == number], counts[number])
    assert order.repeats or len(set(got.tolist())) == size


def check_rounds(drawn: np.ndarray, members: int) -> None:
    """None comes again before all came."""
    for start in range(0, len(drawn), members):
        part = drawn[start : start + members].tolist()
        assert len(set(part)) == len(part)


@pytest.mark.parametrize("size", [1000, 65_536, 65_537, 200_000])
def test_no_example_comes_again_before_all_of_its_class_came(size):
    """In the order in which they are delivered, across blocks too."""
    weights = [0.7, 0.2, 0.1]
    got = by_class(weights=weights, size=size)
    for number, members in enumerate([950, 45, 5]):
        drawn = got[RARE[got] == number]
        assert abs(len(drawn) - size * weights[number]) <= 1
        check_rounds(drawn, members)


def test_every_stretch_of_a_long_epoch_has_its_shares():
    got = RARE[by_class(weights=[0.6, 0.3, 0.1], size=300_000)]
    for start in range(0, 300_000 - 65_536, 65_536):
        found = np.bincount(got[start : start + 65_536])
        assert (np.abs(found - 65_536 * np.array([0.6, 0.3, 0.1])) <= 4).all()
    places = np.concatenate([np.flatnonzero(got[start : start + 1000] == 2) for start in range(0, 65_000, 1000)])
    counts = np.bincount(places // 100, minlength=10)
    assert abs(chi_square_z(counts, np.full(10, counts.sum() / 10))) < 5


def test_a_small_share_comes_in_some_epochs():
    groups = np.arange(100)
    order = Sampled.by_class(groups, np.ones(100), size=8)
    epochs = [whole(order, epoch) for epoch in range(500)]
    assert all(len(set(got.tolist())) == 8 for got in epochs)
    counts = np.bincount(np.concatenate(epochs), minlength=100)
    assert counts.min() > 10
    assert abs(counts - 40).max() < 5 * np.sqrt(40)


def test_a_huge_epoch():
    order = Sampled.by_class(RARE, [1, 2, 3], size=1 << 50)
    assert len(order) == 1 << 50
    got = order.indices(3, 1 << 49, (1 << 49) + 60_000)
    found = np.bincount(RARE[got], minlength=3)
    assert abs(chi_square_z(found, len(got) * np.array([1, 2, 3]) / 6)) < 5
    got = RARE[order.indices(0, (1 << 50) - 65_536, 1 << 50)]
    assert (np.abs(np.bincount(got) - 65_536 * np.array([1, 2, 3]) / 6) <= 4).all()
    assert len(Sampled.by_example([1, 2], size=1 << 50, replace=True).indices(0, 1 << 49, (1 << 49) + 7)) == 7


# Distributions


@pytest.mark.parametrize("replace", [False, True])
def test_classes_are_balanced_and_members_equally_likely(replace):
    order = Sampled.by_class(RARE, [1, 1, 1], size=1000, replace=replace, seed=5)
    got = np.concatenate([whole(order, epoch) for epoch in range(30)])
    found = np.bincount(got, minlength=1000)
    expected = 10_000 / np.array([950, 45, 5])[RARE]
    # In rounds, counts vary less than those of independent draws.
    assert abs(chi_square_z(found, expected)) < 5 if replace else chi_square_z(found, expected) < 5
    classes = np.bincount(RARE[got])
    assert abs(chi_square_z(classes, np.full(3, 10_000))) < 5
    if not replace:
        assert (found[RARE == 2] >= 1998).all()
        assert (found[RARE == 2] <= 2002).all()
    # The first examples of an epoch are as good as any.
    heads = np.concatenate([order.indices(epoch, 0, 30) for epoch in range(100)])
    assert abs(chi_square_z(np.bincount(RARE[heads]), np.full(3, 1000))) < 5


def test_examples_with_replacement_come_by_weight():
    weights = np.arange(50) % 7
    got = by_example(weights, size=60_000, replace=True)
    assert abs(chi_square_z(np.bincount(got, minlength=50), weights / weights.sum() * 60_000)) < 5
    pairs = np.bincount(got[:-1] % 7 * 7 + got[1:] % 7, minlength=49).reshape(7, 7)[1:, 1:]
    independent = pairs.sum(1, keepdims=True) * pairs.sum(0, keepdims=True) / pairs.sum()
    assert ((pairs - independent) ** 2 / independent).sum() < 25 + 5 * np.sqrt(50)


def test_examples_without_replacement_come_by_weight():
    """The probability of every pair is that of drawing from an urn; both its orders are equally likely."""
    weights = np.array([1.0, 2.0, 0.0, 4.0])
    order = Sampled.by_example(weights, size=2)
    assert not order.repeats
    found = Counter(tuple(whole(order, epoch).tolist()) for epoch in range(6000))
    pairs = list(itertools.permutations([0, 1, 3], 2))
    urn = {(a, b): weights[a] / 7 * weights[b] / (7 - weights[a]) for a, b in pairs}
    expected = np.array([(urn[a, b] + urn[b, a]) / 2 for a, b in pairs]) * 6000
    assert set(found) == set(pairs)
    assert abs(chi_square_z(np.array([found[pair] for pair in pairs]), expected)) < 5


def test_examples_without_replacement_come_once():
    weights = np.arange(5000) % 3
    got = by_example(weights, size=3000)
    assert len(set(got.tolist())) == 3000
    assert (weights[got] > 0).all()
    assert sorted(by_example([0, 1, 0, 2], size=2)) == [1, 3]


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_all_orders_of_a_small_class_are_equally_likely(count):
    rounds = 8000
    got = by_class(np.zeros(count, int), [1], size=rounds * count).reshape(rounds, count)
    found = Counter(map(tuple, got.tolist()))
    kinds = math.factorial(count)
    assert len(found) == kinds
    assert abs(chi_square_z(np.array(list(found.values())), np.full(kinds, rounds / kinds))) < 5


@pytest.mark.parametrize("n", [1, 2, 3, 100, 65_537, 300_007])
def test_permutations_that_are_made_nowhere(n):
    for key in (0, 12345, 2**64 - 1):
        got = _permuted(np.arange(n), np.full(n, n, np.uint32), np.full(n, key, np.uint64))
        assert (np.sort(got) == np.arange(n)).all()
        if n > 50:
            place = np.arange(n) * 10 // n
            table = np.bincount(place * 10 + got.astype(int) * 10 // n, minlength=100).reshape(10, 10)
            expected = table.sum(1, keepdims=True) * table.sum(0, keepdims=True) / n
            assert ((table - expected) ** 2 / expected).sum() < 81 + 5 * np.sqrt(162)
            assert abs(np.corrcoef(got[:-1], got[1:])[0, 1] + 1 / (n - 1)) < 5 / np.sqrt(n - 2)


def test_the_logarithm():
    values = np.concatenate(
        [np.random.default_rng(0).random(10_000), 2.0 ** np.arange(-60, 1), 1 - 2.0**-53 * np.arange(9)]
    )
    np.testing.assert_allclose(_log(values), np.log(values), rtol=1e-15)


# Access


@pytest.mark.parametrize("kind", range(6))
def test_random_access_equals_sequence(kind):
    for shard in ((0, 1), (1, 3)):
        order = orders(shard)[kind]
        full = whole(order, 2)
        rng = np.random.default_rng(kind)
        fresh = orders(shard)[kind]
        for _ in range(8):
            start, stop = sorted(rng.integers(0, len(order) + 1, 2).tolist())
            epoch = int(rng.integers(1, 4))
            got = fresh.indices(epoch, start, stop)
            assert got.dtype == np.int64
            assert len(got) == stop - start
            if epoch == 2:
                np.testing.assert_array_equal(got, full[start:stop])
        np.testing.assert_array_equal(fresh.indices(2, 0, len(fresh)), full)
        np.testing.assert_array_equal([fresh.indices(2, at, at + 1)[0] for at in range(20)], full[:20])
        assert fresh.indices(2, 5, 5).shape == (0,)


@pytest.mark.parametrize("count", [1, 2, 7])
def test_shards_interleave_one_global_order(count):
    one = orders()
    shards = [orders((index, count)) for index in range(count)]
    for kind, order in enumerate(one):
        full = whole(order, 1)
        for index in range(count):
            part = shards[index][kind]
            np.testing.assert_array_equal(whole(part, 1), full[index::count])
            np.testing.assert_array_equal(part.positions(3, 9), np.arange(3, 9) * count + index)
            assert part.positions(3, 9).dtype == np.int64
        assert sum(len(part[kind]) for part in shards) == len(order)


@pytest.mark.parametrize("kind", range(6))
def test_epochs_and_seeds_differ(kind):
    order = orders()[kind]
    assert len({whole(order, epoch)[:1000].tobytes() for epoch in range(5)}) == 5
    seeds = [
        by_class(size=300, seed=seed, replace=kind % 2 == 1)
        if kind < 4
        else by_example(np.ones(900), size=300, seed=seed)
        for seed in (0, 1, -1, 2**40, 2**64)
    ]
    assert len({got.tobytes() for got in seeds}) == 5


@pytest.mark.parametrize("kind", range(6))
def test_one_order_serves_many_threads(kind):
    expected = {epoch: whole(orders()[kind], epoch) for epoch in range(4)}
    order = orders()[kind]
    wrong = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(15):
            epoch, start = int(rng.integers(0, 4)), int(rng.integers(0, len(order) - 100))
            if not np.array_equal(order.indices(epoch, start, start + 100), expected[epoch][start : start + 100]):
                wrong.append((epoch, start))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_repeats():
    assert Sampled.by_class(RARE, [1, 1, 1], size=1000).repeats
    assert not Sampled.by_class(RARE, [1, 1, 1], size=15).repeats
    assert Sampled.by_class(RARE, [1, 1, 1], size=16).repeats
    assert not Sampled.by_class(np.arange(99) % 3, [7, 7, 7], size=99).repeats
    assert Sampled.by_class(RARE, [1, 1, 1], size=15, replace=True).repeats
    assert Sampled.by_example([1, 2, 3], size=2, replace=True).repeats


# The edges


@pytest.mark.parametrize("replace", [False, True])
def test_the_smallest(replace):
    assert by_class([0], [3], size=5, replace=replace).tolist() == [0] * 5
    assert by_class([0], [3], size=0, replace=replace).tolist() == []
    assert by_class(np.empty(0, int), [], size=0, replace=replace).tolist() == []
    assert by_example(np.empty(0), size=0, replace=replace).tolist() == []
    assert by_example([1, 0], size=1, replace=replace).tolist() == [0]
    assert by_example([0, 0], size=0, replace=replace).tolist() == []
    assert by_example([1], size=3, replace=True).tolist() == [0, 0, 0]


def test_weights_of_any_scale():
    for scale in (5e-324, 1e-300, 1e300, 2.0**1000):
        assert set(by_class([0, 1, 2], np.array([1, 0, 1]) * scale, size=400, replace=True)) == {0, 2}
        assert set(by_example(np.array([1, 0, 1]) * scale, size=400, replace=True)) == {0, 2}
        assert set(by_example(np.array([1, 0, 1]) * scale, size=2)) == {0, 2}
    assert set(by_example([5e-324, 0, 1e300], size=2)) == {0, 2}
    assert set(by_example([1e308] * 100, size=3000, replace=True)) == set(range(100))
    assert set(by_example(np.array([True, False, True]), size=100, replace=True)) == {0, 2}


def test_zeros_at_either_end_are_never_drawn():
    weights = [0, 0, 1e-9, 0, 5, 0, 0]
    assert set(by_example(weights, size=50_000, replace=True)) <= {2, 4}
    assert set(by_class(np.arange(7), weights, size=50_000)) <= {2, 4}


BAD = [
    ([1, -1, 1], r"weight 1 is -1\.0; expected finite"),
    ([1, 1, float("nan")], "weight 2 is nan"),
    ([float("inf"), 1, 1], "weight 0 is inf"),
    ([0, 0, 0], r"none of 3 weights is above 0; .* size=3"),
    (["a", "b", "c"], "expected numbers along one axis"),
    ([[1, 1, 1]], r"shape \(1, 3\)"),
    (1.0, r"shape \(\)"),
    ([1, 1j, 1], "complex128"),
]


@pytest.mark.parametrize(("weights", "message"), BAD, ids=str)
def test_bad_weights(weights, message):
    for call in (
        lambda: Sampled.by_example(weights, size=3, replace=True),
        lambda: Sampled.by_class(np.arange(3), weights, size=3),
    ):
        with pytest.raises(nf.OptionError, match=message):
            call()


def test_bad_sizes_and_classes():
    with pytest.raises(nf.OptionError, match=r"size=3 of 2 examples .*are 4.*replace=True or a smaller size="):
        Sampled.by_example([1, 0, 0, 2], size=3)
    with pytest.raises(nf.OptionError, match=r"size=3 of 3 .*each would come once.*replace=True or a smaller size="):
        Sampled.by_example([1, 2, 3], size=3)
    with pytest.raises(nf.OptionError, match=r"at most 4,503,599,627,370,496"):
        Sampled.by_example([1, 2, 3], size=1 << 60, replace=True)
    with pytest.raises(nf.OptionError, match=r"class 1 has a weight above 0, but no example"):
        Sampled.by_class([0, 2], [1, 1, 1], size=3)
    with pytest.raises(nf.OptionError, match=r"weights of 2 classes; expected one for each of the 3"):
        Sampled.by_class([0, 2], [1, 1], size=3)
    with pytest.raises(nf.OptionError, match="0 <= index < count"):
        Sampled.by_class([0], [1], size=3, shard=(1, 1))


# The promise. (groups or n, weights, size, replace, seed, epoch, shard): the first indices, and the start of the
# SHA-256 of all of them as <i8.
GROUPS = {"rare": RARE, "many": MANY}
GOLDEN = {
    ("rare", (1, 1, 1), 1000, False, 0, 0, (0, 1)): ([351, 996, 994, 995, 564, 978, 999, 627], "9481b6da10bbfca7"),
    ("rare", (1, 1, 1), 1000, False, 0, 1, (0, 1)): ([894, 963, 357, 587, 981, 995, 999, 996], "e6e515871fe7714a"),
    ("rare", (0.5, 0, 2), 200000, False, -7, 3, (0, 1)): (
        [998, 999, 995, 996, 997, 995, 999, 998],
        "815361400ba53d3d",
    ),
    ("rare", (0.5, 0.25, 2), 70001, False, 2**40, 9, (1, 3)): (
        [998, 93, 997, 999, 997, 995, 999, 997],
        "72088e42ed51e8d0",
    ),
    ("many", None, 65537, False, 5, 2, (0, 1)): (
        [2050, 1204, 2783, 2219, 431, 1336, 2034, 1287],
        "cb09b05e7a7336c3",
    ),
    ("rare", (1, 1, 1), 1000, True, 0, 0, (0, 1)): ([998, 966, 314, 978, 755, 954, 956, 38], "70e965440e42d46a"),
    ("rare", (1, 1, 1), 1000, True, 0, 1, (0, 1)): ([552, 996, 802, 460, 997, 452, 150, 978], "757c16766a316264"),
    ("rare", (0.5, 0, 2), 200000, True, -7, 3, (0, 1)): ([834, 998, 997, 474, 996, 997, 720, 999], "7349cb5fa04aa74b"),
    ("rare", (0.5, 0.25, 2), 70001, True, 2**40, 9, (1, 3)): (
        [999, 999, 633, 13, 999, 998, 998, 950],
        "9fbdeb8ecc7c34c0",
    ),
    ("many", None, 65537, True, 5, 2, (0, 1)): ([2092, 542, 2575, 1038, 1096, 1155, 208, 1062], "bd9b8b613c9dff53"),
    (1000, None, 300, False, 0, 0, (0, 1)): ([967, 268, 215, 925, 745, 815, 584, 205], "e88a975464d977af"),
    (1000, None, 300, False, 0, 1, (0, 1)): ([520, 314, 985, 725, 537, 982, 279, 571], "7bb9870022944449"),
    (100000, None, 70000, False, 123456789, 4, (1, 2)): (
        [83644, 1986, 78386, 98986, 83889, 83486, 13585, 98469],
        "6d5b665a59de3620",
    ),
    (1000, None, 300, True, 0, 0, (0, 1)): ([939, 559, 368, 209, 388, 200, 42, 235], "3a1528ca4175ea1a"),
    (1000, None, 300, True, 0, 1, (0, 1)): ([254, 475, 525, 145, 169, 839, 688, 486], "ba6cd0c64d164fd2"),
    (100000, None, 70000, True, 123456789, 4, (1, 2)): (
        [74452, 27857, 44641, 79794, 1715, 35560, 47647, 68190],
        "edbe28f920812dc9",
    ),
}


@pytest.mark.parametrize("case", GOLDEN, ids=str)
def test_the_draws_are_promised(case):
    what, weights, size, replace, seed, epoch, shard = case
    how = {"size": size, "replace": replace, "seed": seed, "shard": shard}
    if what in GROUPS:
        got = by_class(GROUPS[what], np.arange(700) if weights is None else weights, epoch=epoch, **how)
    else:
        got = by_example((np.arange(what) % 17) / 16, epoch=epoch, **how)
    first, digest = GOLDEN[case]
    assert got[:8].tolist() == first
    assert hashlib.sha256(got.astype("<i8").tobytes()).hexdigest()[:16] == digest


# What users say


def plan(sample, labels=RARE, classes=None, n=1000, **options) -> Sampled:
    return plan_sampling(sample, n, lambda: labels, classes, options.get("seed", 0), options.get("shard", (0, 1)))


def test_balanced_by_the_labels_of_the_flow():
    order = plan(Balanced())
    np.testing.assert_array_equal(whole(order), by_class(size=1000))
    assert len(plan(Balanced(size=77))) == 77
    assert len(plan(Balanced(), shard=(2, 3))) == 333
    assert whole(plan(Balanced(), seed=3)).tolist() == by_class(size=1000, seed=3).tolist()
    assert whole(plan(Balanced(replace=True))).tolist() == by_class(size=1000, replace=True).tolist()
    assert len(plan(Balanced(), labels=np.empty(0, int), n=0)) == 0


@pytest.mark.parametrize(
    "labels",
    [RARE + 7, RARE.astype("f4"), RARE.astype("u1")[:, None], np.array(["a", "b", "c"])[RARE], RARE.tolist()],
    ids=lambda labels: str(np.asarray(labels).dtype) + str(np.shape(labels)),
)
def test_labels_of_any_kind(labels):
    for sample, own in ((Balanced(), labels), (Balanced(labels=labels), None)):
        assert whole(plan(sample, own)).tolist() == by_class(size=1000).tolist()


def test_weights_by_class():
    weights = [1, 0, 3]
    expected = by_class(weights=weights, size=1000).tolist()
    names = np.array(["cat", "dog", "owl"])
    by_name = dict(zip(names.tolist(), weights, strict=True))
    by_number = dict(enumerate(weights))
    for sample in (by_number, Balanced(by_number), Balanced({2: np.float32(3), 1: 0, 0: np.int8(1)})):
        assert whole(plan(sample)).tolist() == expected
    assert whole(plan(by_name, classes=("cat", "dog", "owl"))).tolist() == expected
    assert whole(plan(by_number, classes=("cat", "dog", "owl"))).tolist() == expected
    assert whole(plan(by_name, labels=names[RARE])).tolist() == expected
    # Labels of one's own that are no classes of the flow.
    assert whole(plan(Balanced(by_name, labels=names[RARE]), labels=None, classes=("x", "y"))).tolist() == expected
    assert whole(plan({b"a".decode(): 1, "b": 1}, labels=np.array([b"a", b"b"]), n=2)).tolist()
    assert sorted(whole(plan({True: 1, False: 1}, labels=np.array([True, False]), n=2))) == [0, 1]
    # A class that no example of this flow has.
    assert sorted(whole(plan({"a": 1, "b": 0, "c": 1}, np.array([0, 2]), ("a", "b", "c"), n=2))) == [0, 1]


def test_weights_by_example():
    weights = np.arange(1000) % 5
    expected = by_example(weights, size=1000, replace=True).tolist()
    for sample in (weights, weights.tolist(), tuple(weights), weights.astype("f4"), Balanced(weights, replace=True)):
        assert whole(plan(sample, labels=None)).tolist() == expected
    fewer = by_example(weights, size=100).tolist()
    assert whole(plan(Balanced(weights, size=100))).tolist() == fewer


def test_labels_are_asked_for_only_if_needed():
    def fail() -> None:
        raise AssertionError

    assert len(plan_sampling(np.ones(5), 5, fail, None, 0, (0, 1))) == 5
    assert len(plan_sampling(Balanced(labels=[1, 2]), 2, fail, None, 0, (0, 1))) == 2


REFUSED = [
    (Balanced(), {"labels": None}, r"no labels to balance; pass Balanced\(labels="),
    (None, {}, r"sample=None: expected npyflow\.Balanced"),
    (True, {}, "sample=True: expected"),
    ("balanced", {}, "sample='balanced': expected"),
    (0.5, {}, r"weights of shape \(\) for 1,000 examples"),
    ([1, 2, 3], {}, r"shape \(3,\) for 1,000 examples; expected \(1000,\), one for each, or a mapping"),
    ([[1], [1, 2]], {"n": 2}, r"weights of shape \(\) for 2 examples"),
    (np.full(1000, -1), {}, "weight 0 is -1"),
    (Balanced(np.ones(1000)), {}, "each would come once"),
    (Balanced(np.ones(1000), size=1001), {}, "replace=True or a smaller size="),
    (Balanced(np.ones(1000), labels=RARE), {}, "labels= is of no use with a weight for each example"),
    (Balanced(labels=str), {}, "is a function; expected an array"),
    (Balanced(labels=RARE[:-1]), {}, r"labels= an array of shape \(999,\) for 1,000 examples; expected \(1000,\)"),
    (Balanced(labels=np.eye(3)[RARE]), {}, r"shape \(1000, 3\)"),
    (Balanced(), {"labels": RARE + 0.5}, r"labels of dtype float64 with fractions, such as 0\.5"),
    (Balanced(), {"labels": np.full(1000, np.nan)}, "nan for example 0"),
    ({0: 1, 1: 1, 2: 1, 3: 1}, {}, r"no class is called 3; there are 0, 1, 2"),
    (
        {"cat": 1, "dgo": 1},
        {"classes": ("cat", "dog", "owl")},
        r"no class is called 'dgo'; there are 'cat', 'dog', 'owl'",
    ),
    ({"cat": 1, "dog": 1}, {"classes": ("cat", "dog", "owl")}, r"no weight for class 'owl'; 0 leaves a class out"),
    ({"a": 1, "b": 1, "c": 1, "d": 2}, {"classes": ("a", "b", "c", "d")}, r"no example is of class 'd'; .*0 leaves"),
    ({0: 1, "a": 1, 1: 1, 2: 1}, {"classes": ("a", "b", "c")}, "two weights, one by name and one by number"),
    ({0: 1, 1: 1, 2: -1}, {}, "weight of class 2 is -1; expected a number of at least 0"),
    ({0: 1, 1: 1, 2: float("nan")}, {}, "weight of class 2 is nan"),
    ({0: 1, 1: 1, 2: "x"}, {}, "weight of class 2 is 'x'"),
    ({0: 0, 1: 0, 2: 0}, {}, "the weight of every class is 0"),
    ({}, {}, "no weight for class 0, 1, 2"),
    (Balanced(size=4), {"n": 0, "labels": np.empty(0, int)}, "no examples to draw size=4 from"),
]


@pytest.mark.parametrize(("sample", "options", "message"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_makes_no_sense(sample, options, message):
    with pytest.raises((nf.OptionError, nf.ShapeMismatchError), match=message):
        plan(sample, **options)


def test_balanced_options():
    assert (Balanced().size, Balanced().replace) == (None, False)
    for size in (0, -1, 1.5, "2", True):
        with pytest.raises(nf.OptionError, match=r"Balanced: size=.*(at least 1|an integer)"):
            Balanced(size=size)
    with pytest.raises(nf.OptionError, match=r"Balanced: replace=1: expected True or False"):
        Balanced(replace=1)
    with pytest.raises(AttributeError):
        Balanced().size = 3
