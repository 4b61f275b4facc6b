"""The order is a permutation, the same at random access as in sequence, and promised for good."""

from __future__ import annotations

import hashlib
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npyflow as nf
from npyflow import Shuffle
from npyflow._order.cipher import SMALL, Permutation, mix
from npyflow._order.order import Order

SIZES = [0, 1, 2, 3, 5, 64, 1000, 65_535, 65_536, 65_537, 131_073, 200_003]
GLOBAL = Shuffle()
MODES = [GLOBAL, Shuffle(block=64), Shuffle(block=1000, window=1), Shuffle(block=3000, window=7)]


def whole(n: int, shuffle: Shuffle | None = GLOBAL, seed: int = 0, epoch: int = 0, shard=(0, 1)) -> np.ndarray:
    order = Order(n, shuffle=shuffle, seed=seed, shard=shard)
    return order.indices(epoch, 0, len(order))


def is_permutation(indices: np.ndarray, n: int) -> bool:
    return indices.dtype == np.int64 and len(indices) == n and bool((np.sort(indices) == np.arange(n)).all())


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_every_epoch_is_a_permutation(n, mode):
    for seed, epoch in ((0, 0), (0, 1), (-5, 7), (2**40, 2**33)):
        assert is_permutation(whole(n, mode, seed, epoch), n)


@pytest.mark.parametrize("n", [1, 2, 3, 17, 1023, 1024, 1025, SMALL, SMALL + 1, 99_991])
def test_permutations(n):
    for key in (0, 1, 2**64 - 1):
        assert is_permutation(Permutation(n, key)(np.arange(n)), n)


def test_enormous_permutations():
    for n in ((1 << 40) + 1, (1 << 62) - 5, 10**15):
        positions = np.unique(np.random.default_rng(0).integers(0, n, 5000))
        got = Permutation(n, 3)(positions)
        assert len(np.unique(got)) == len(positions)
        assert got.min() >= 0
        assert got.max() < n
    with pytest.raises(nf.OptionError, match="at most"):
        Order((1 << 62) + 1, shuffle=Shuffle())


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 300), st.integers(1, 40), st.integers(1, 9), st.integers(), st.integers(0, 5))
def test_block_shuffle_of_any_sizes(n, block, window, seed, epoch):
    got = whole(n, Shuffle(block=block, window=window), seed, epoch)
    assert is_permutation(got, n)
    # What lies in one window comes from at most `window` blocks.
    size = block * window
    last = n - 1 if n % block else None
    for start in range(0, n - size + 1, size):
        part = got[start : start + size]
        if last is not None and last in got[: start + size]:
            break  # behind the short block, windows begin earlier
        assert len(set((part // block).tolist())) <= window


def test_block_shuffle_shuffles_blocks_and_inside():
    got = whole(10_000, Shuffle(block=100, window=4))
    windows = got.reshape(25, 400)
    assert all(len(np.unique(window // 100)) == 4 for window in windows)
    assert (np.diff(got) == 1).sum() < 100
    blocks = [tuple(np.unique(window // 100)) for window in windows]
    assert blocks != sorted(blocks)
    other = whole(10_000, Shuffle(block=100, window=4), epoch=1)
    assert {tuple(np.unique(window // 100)) for window in other.reshape(25, 400)} != set(blocks)


@pytest.mark.parametrize("n", [10, 1000, 65_537, 150_001])
@pytest.mark.parametrize("mode", [None, *MODES], ids=str)
def test_random_access_equals_sequence(n, mode):
    for shard in ((0, 1), (1, 3)):
        full = whole(n, mode, 4, 2, shard)
        order = Order(n, shuffle=mode, seed=4, shard=shard)
        rng = np.random.default_rng(n)
        for _ in range(8):
            start, stop = sorted(rng.integers(0, len(order) + 1, 2).tolist())
            stop = min(stop, start + 70_000)
            epoch = int(rng.integers(1, 4))
            got = order.indices(epoch, start, stop)
            assert got.dtype == np.int64
            if epoch == 2:
                np.testing.assert_array_equal(got, full[start:stop])
        np.testing.assert_array_equal(order.indices(2, 0, len(order)), full)
        assert len(order.indices(2, 5, 5)) == 0


@pytest.mark.parametrize("n", [0, 1, 2, 10, 11, 1000, 65_537, 140_000])
@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("mode", [None, GLOBAL, Shuffle(block=512)], ids=str)
def test_shards_interleave_one_global_order(n, count, mode):
    full = whole(n, mode, 9, 1)
    parts = [whole(n, mode, 9, 1, (index, count)) for index in range(count)]
    for index, part in enumerate(parts):
        np.testing.assert_array_equal(part, full[index::count])
    assert is_permutation(np.concatenate(parts), n)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("shard", [(0, 0), (1, 1), (-1, 2), (2, 2), (0, -1)])
def test_a_bad_shard(shard):
    with pytest.raises(nf.OptionError, match="0 <= index < count"):
        Order(10, shuffle=None, shard=shard)


def test_unshuffled_is_the_order_of_the_data():
    np.testing.assert_array_equal(whole(100_000, None, epoch=5), np.arange(100_000))


def test_seeds_and_epochs_differ():
    seen = {}
    for n in (5_000, 70_000):
        for mode in (Shuffle(), Shuffle(block=600)):
            for seed in (0, 1, 2, -1, 2**32, 2**63):
                for epoch in (0, 1, 2):
                    digest = whole(n, mode, seed, epoch)[:5000].tobytes()
                    assert digest not in seen, (seen.get(digest), (n, mode, seed, epoch))
                    seen[digest] = (n, mode, seed, epoch)


def test_seeds_that_share_64_bits_differ():
    assert whole(1000, seed=0).tolist() != whole(1000, seed=2**64).tolist()


def test_mix():
    values = [mix(), mix(0), mix(0, 0), mix(1), mix(0, 1), mix(1, 0), mix(-1), mix(2**63)]
    assert len(set(values)) == len(values)
    assert all(0 <= value < 2**64 for value in values)


# (n, seed, epoch, block, window, shard): the first indices, and the start of the SHA-256 of all of them as <i8.
GOLDEN = {
    (1, 0, 0, None, 16, (0, 1)): ([0], "af5570f5a1810b7a"),
    (2, 0, 0, None, 16, (0, 1)): ([0, 1], "9d34149fbd1fe777"),
    (10, 0, 0, None, 16, (0, 1)): ([7, 3, 8, 2, 9, 6, 5, 0], "8c9e74d22d126c56"),
    (10, 0, 1, None, 16, (0, 1)): ([5, 2, 0, 4, 3, 6, 1, 9], "ce9e895fa0d07c91"),
    (10, 1, 0, None, 16, (0, 1)): ([6, 7, 4, 3, 8, 1, 9, 5], "6531fc8dae710de8"),
    (1000, 0, 0, None, 16, (0, 1)): ([758, 473, 923, 854, 723, 230, 486, 130], "3c320b8680739233"),
    (1000, -7, 3, None, 16, (0, 1)): ([538, 345, 344, 573, 483, 559, 724, 184], "0daad471ffc71f6a"),
    (65536, 0, 0, None, 16, (0, 1)): ([59471, 16253, 3981, 24858, 3807, 50633, 52750, 59887], "6c42be6510917b3f"),
    (65537, 0, 0, None, 16, (0, 1)): ([414, 51386, 40275, 23114, 45970, 64499, 58343, 64545], "a78a116f2ef50f7c"),
    (65537, 123456789, 5, None, 16, (0, 1)): (
        [17121, 48767, 52157, 41991, 49420, 57784, 51760, 38108],
        "735356b28b8e19de",
    ),
    (100000, 1, 1, None, 16, (0, 1)): ([99734, 7276, 45193, 75491, 44301, 26472, 3494, 42253], "ac0bd43c972b3364"),
    (1000003, 1099511627776, 9, None, 16, (0, 1)): (
        [458918, 880816, 616504, 31, 663275, 672528, 224557, 614362],
        "c9ecd78230fcd0ef",
    ),
    (10, 0, 0, 3, 2, (0, 1)): ([3, 5, 9, 4, 7, 2, 1, 8], "f7d9eef2e89e058d"),
    (1000, 0, 0, 7, 16, (0, 1)): ([511, 625, 512, 352, 46, 155, 864, 861], "6e4c1c3c58fd4509"),
    (70001, 5, 2, 100, 4, (0, 1)): ([45933, 31130, 31129, 45942, 64511, 31189, 31150, 45964], "dcbdd276d3344787"),
    (200000, 3, 1, 512, 16, (0, 1)): ([30747, 71754, 107796, 35719, 30821, 71722, 190834, 39018], "c2006c9325d06ac7"),
    (1000, 0, 0, None, 16, (1, 3)): ([473, 723, 130, 605, 57, 164, 834, 456], "9289d4e5f3a50d4a"),
    (200003, 8, 4, None, 16, (2, 4)): ([37074, 159682, 53662, 124009, 76529, 6823, 17555, 23862], "985cc4d8f1fa7ba2"),
    (70001, 5, 2, 100, 4, (1, 2)): ([31130, 45942, 31189, 45964, 31123, 26188, 45923, 26111], "bc41693e038b2094"),
}


@pytest.mark.parametrize("case", GOLDEN, ids=str)
def test_the_order_is_promised(case):
    n, seed, epoch, block, window, shard = case
    got = whole(n, Shuffle(block=block, window=window), seed, epoch, shard)
    first, digest = GOLDEN[case]
    assert got[:8].tolist() == first
    assert hashlib.sha256(got.astype("<i8").tobytes()).hexdigest()[:16] == digest


def test_one_order_serves_many_threads():
    order = Order(300_000, shuffle=Shuffle(), seed=1)
    expected = {epoch: whole(300_000, seed=1, epoch=epoch) for epoch in range(3)}
    wrong = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(25):
            epoch, start = int(rng.integers(0, 3)), int(rng.integers(0, 299_000))
            if not np.array_equal(order.indices(epoch, start, start + 1000), expected[epoch][start : start + 1000]):
                wrong.append((epoch, start))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_memory_does_not_grow_with_n():
    order = Order(10**12, shuffle=Shuffle(), seed=1)
    assert len(np.unique(order.indices(0, 10**11, 10**11 + 1000))) == 1000


def test_shuffle_options():
    assert Shuffle() == Shuffle(block=None, window=16)
    for kwargs in ({"block": 0}, {"block": -1}, {"window": 0}, {"block": 1.5}, {"window": "2"}):
        with pytest.raises(nf.OptionError, match=r"expected at least 1|expected an integer"):
            Shuffle(**kwargs)
