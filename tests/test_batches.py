"""Batches in NumPy: the order, cut up; memory that is never written to while it can be seen."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npyflow as nf
from helpers import same, sample, write
from npyflow import Shuffle
from npyflow._order.order import Order

N = 103
X, Y = sample(N, (4,), "f4"), np.arange(N)


@pytest.fixture(params=["ram", "mmap", "read", "files"])
def flow(request, tmp_path):
    if request.param == "files":
        for n in range(N):
            write(tmp_path / "x" / f"{n}.npy", X[n])
            write(tmp_path / "y" / f"{n}.npy", Y[n])
        return nf.files((tmp_path / "x", tmp_path / "y"))
    paths = (write(tmp_path / "x.npy", X), write(tmp_path / "y.npy", Y))
    return nf.rows(paths, access=request.param)


def ids(batches) -> list[int]:
    return [int(y) for _, ys in batches for y in ys]


@pytest.mark.parametrize("shuffle", [False, True, Shuffle(block=5, window=3)], ids=str)
@pytest.mark.parametrize("batch_size", [1, 10, 103, 500])
def test_batches_are_the_order(flow, shuffle, batch_size):
    how = Shuffle() if shuffle is True else shuffle or None
    for epoch in (0, 1):
        order = Order(N, shuffle=how, seed=7).indices(epoch, 0, N)
        got = list(flow.batches(batch_size, shuffle=shuffle, seed=7, epoch=epoch))
        assert [len(y) for _, y in got] == [min(batch_size, N - start) for start in range(0, N, batch_size)]
        for at, (x, y) in enumerate(got):
            want = order[at * batch_size : (at + 1) * batch_size]
            same(x, X[want])
            same(y, Y[want])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 90), st.integers(1, 40), st.booleans(), st.booleans(), st.integers(1, 4), st.data())
def test_any_options(n, batch_size, shuffle, drop_remainder, count, data):
    index = data.draw(st.integers(0, count - 1))
    order = Order(n, shuffle=Shuffle() if shuffle else None, seed=3, shard=(index, count))
    want = order.indices(2, 0, len(order))
    if drop_remainder:
        want = want[: len(want) // batch_size * batch_size]
    steps = -(-len(want) // batch_size)
    start = data.draw(st.integers(0, steps))
    batches = nf.rows(np.arange(n)).batches(
        batch_size,
        shuffle=shuffle,
        seed=3,
        drop_remainder=drop_remainder,
        epoch=2,
        start_step=start,
        shard=(index, count),
    )
    got = list(batches)
    assert len(got) == steps - start
    np.testing.assert_array_equal(np.concatenate([np.empty(0, int), *got]), want[start * batch_size :])
    if drop_remainder:
        assert all(len(batch) == batch_size for batch in got)


def test_held_batches_are_never_overwritten(flow):
    held = []
    for epoch in range(4):
        order = Order(N, shuffle=Shuffle(), seed=1).indices(epoch, 0, N)
        for at, (x, y) in enumerate(flow.batches(7, shuffle=True, seed=1, epoch=epoch)):
            held.append((x, y, order[at * 7 : (at + 1) * 7]))
    for x, y, want in held:
        same(x, X[want])
        same(y, Y[want])


def test_parts_of_held_batches_are_never_overwritten(flow):
    held = [x[2:3] for x, _ in flow.batches(10)]
    gc.collect()
    for _ in range(3):
        for _batch in flow.batches(10, shuffle=True):
            pass
    for at, part in enumerate(held):
        same(part, X[at * 10 + 2 : at * 10 + 3])


def test_held_examples_are_never_overwritten(flow):
    held = [flow[at] for at in range(20)]
    list(flow.batches(20, shuffle=True))
    for at, (x, y) in enumerate(held):
        same(x, X[at])
        assert y == at


def test_batches_may_be_written_to(tmp_path):
    path = write(tmp_path / "x.npy", X)
    array = X.copy()
    for flow in (nf.rows(path, access="mmap"), nf.rows(path, access="ram"), nf.rows(array)):
        for batch in flow.batches(10):
            batch[...] = 0
        same(np.concatenate(list(flow.batches(10))), X)
    same(array, X)


def test_two_iterators_do_not_disturb_each_other(flow):
    first, second = flow.batches(10, shuffle=True, seed=1), flow.batches(7, shuffle=True, seed=2)
    a, b = [], []
    for _ in range(11):
        a.append(next(first)[1].copy())
        b.append(next(second)[1].copy())
    assert np.concatenate(a).tolist() == Order(N, shuffle=Shuffle(), seed=1).indices(0, 0, N).tolist()
    assert np.concatenate(b).tolist() == Order(N, shuffle=Shuffle(), seed=2).indices(0, 0, 77).tolist()


def test_start_step_continues(flow):
    whole = ids(flow.batches(10, shuffle=True, seed=4, epoch=3))
    for step in range(12):
        assert ids(flow.batches(10, shuffle=True, seed=4, epoch=3, start_step=step)) == whole[step * 10 :]


def test_shards_together_are_the_epoch(flow):
    whole = ids(flow.batches(1, shuffle=True, seed=4))
    parts = [ids(flow.batches(5, shuffle=True, seed=4, shard=(at, 3))) for at in range(3)]
    assert [parts[at % 3][at // 3] for at in range(N)] == whole


def test_with_index_says_where_examples_came_from(flow):
    part = flow[20:60][::-1]
    for index, (x, y) in part.batches(9, shuffle=True, with_index=True):
        assert index.dtype == np.int64
        keys = np.asarray(part.keys)[index].astype(int)
        np.testing.assert_array_equal(keys, y)
        same(x, X[keys])


def test_an_index_that_is_held_is_never_overwritten():
    flow = nf.rows(np.arange(N))
    held = [(index, x) for index, x in flow.batches(8, shuffle=True, with_index=True)]
    held[0][0][...] = -1
    again = [index.tolist() for index, _ in flow.batches(8, shuffle=True, with_index=True)]
    assert again == [x.tolist() for _, x in held]


def test_parts_are_shuffled_within_themselves(flow):
    train, val = flow.split(0.8)
    assert sorted(ids(train.batches(10, shuffle=True))) == sorted(int(y) for _, y in train)
    assert not set(ids(train.batches(10, shuffle=True))) & set(ids(val.batches(10, shuffle=True)))


def test_all_access_modes_give_the_same_stream(tmp_path):
    path = write(tmp_path / "x.npy", X)
    for n in range(N):
        write(tmp_path / "d" / f"{n}.npy", X[n])
    flows = [nf.rows(X), nf.files(tmp_path / "d"), *(nf.rows(path, access=a) for a in ("ram", "mmap", "read"))]
    streams = [np.concatenate(list(flow.batches(8, shuffle=True, seed=9, epoch=1))) for flow in flows]
    for stream in streams:
        same(stream, streams[0])


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"batch_size": 0}, "at least 1"),
        ({"batch_size": 2.5}, "integer"),
        ({"batch_size": 4, "shuffle": 100}, "expected True, False or npyflow.Shuffle"),
        ({"batch_size": 4, "seed": "x"}, "expected an integer"),
        ({"batch_size": 4, "epoch": -1}, "at least 0"),
        ({"batch_size": 4, "start_step": -1}, "at least 0"),
        ({"batch_size": 4, "start_step": 27}, "an epoch has 26 steps"),
        ({"batch_size": 4, "shard": (2, 2)}, "0 <= index < count"),
        ({"batch_size": 4, "shard": 2}, "shard"),
        ({"batch_size": 4, "shard": (0, 2, 4)}, "shard"),
        ({"batch_size": 4, "shard": (0.5, 2)}, "shard"),
    ],
)
def test_options_are_checked_at_the_call(kwargs, message):
    with pytest.raises(nf.OptionError, match=message):
        nf.rows(X).batches(**kwargs)


def test_numpy_integers_are_integers():
    batches = nf.rows(Y).batches(
        np.int64(10), seed=np.uint8(3), epoch=np.int32(1), start_step=np.int64(2), shuffle=True
    )
    want = Order(N, shuffle=Shuffle(), seed=3).indices(1, 20, N)
    np.testing.assert_array_equal(np.concatenate(list(batches)), want)
    assert Shuffle(block=np.int64(4)).block == 4


def test_memory_does_not_pile_up(tmp_path):
    flow = nf.rows(write(tmp_path / "x.npy", sample(20_000, (100,), "f4")))
    for epoch in range(3):
        for _ in flow.batches(64, shuffle=True, epoch=epoch):
            pass
    assert flow._view.examples.sources.pool.idle_bytes <= 16 << 20
    flow.close()
    assert flow._view.examples.sources.pool.idle_bytes == 0
