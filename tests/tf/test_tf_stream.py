"""The dataset delivers what `Flow.batches` delivers, and both deliver rows of the arrays."""

import numpy as np
import pytest
from tf_support import FORMS, N, arrays_of, assert_same, features, ids, labels, open_form, tf

import npyflow as nf

pytestmark = pytest.mark.tf

SHUFFLES = {"in-order": False, "shuffled": True, "blocks": nf.Shuffle(block=8, window=3)}
# 103 rows of 40 kB: 32 of them are over 1 MB, and so a read of their own.
WIDTHS = {"small": 5, "large": 10_000}
X = {name: features(N, width) for name, width in WIDTHS.items()}
Y = labels()


@pytest.fixture(params=SHUFFLES)
def shuffle(request):
    return SHUFFLES[request.param]


@pytest.fixture(params=WIDTHS)
def x(request):
    return X[request.param]


def assert_rows_of(batches, x, y):
    """Check batches of ``(index, (x, y))`` against the arrays; return the indices."""
    indices = []
    for index, (xb, yb) in batches:
        np.testing.assert_array_equal(xb, x[np.asarray(index)])
        np.testing.assert_array_equal(yb, y[np.asarray(index)])
        indices += np.asarray(index).tolist()
    return indices


@pytest.mark.parametrize("form", FORMS)
def test_every_form_delivers_its_rows_and_equals_batches(form, shuffle, tmp_path):
    x = X["small"]
    flow = open_form(form, tmp_path, x, Y)
    options = {"shuffle": shuffle, "seed": 7, "with_index": True}
    ds = flow.to_tf(32, epochs=2, **options)
    got = list(ds.as_numpy_iterator())
    assert_same(got[:4], flow.batches(32, epoch=0, **options))
    assert_same(got[4:], flow.batches(32, epoch=1, **options))
    first, second = assert_rows_of(got[:4], x, Y), assert_rows_of(got[4:], x, Y)
    assert sorted(first) == sorted(second) == list(range(N))
    if shuffle is False:
        assert first == second == list(range(N))
    else:
        assert first != second
        assert first != sorted(first)


@pytest.mark.parametrize("form", ["arrays", "mmap", "read", "shards", "files"])
def test_every_form_where_a_batch_is_a_read(form, tmp_path):
    x = X["large"]
    flow = open_form(form, tmp_path, x, Y)
    got = list(flow.to_tf(32, shuffle=True, with_index=True).as_numpy_iterator())
    assert_same(got, flow.batches(32, shuffle=True, with_index=True))
    assert [len(index) for index, _ in got] == [32, 32, 32, 7]
    assert sorted(assert_rows_of(got, x, Y)) == list(range(N))


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("batch_size", [10, 103, 1000])
def test_batch_sizes(batch_size, drop, x):
    flow = nf.rows((x, Y))
    got = list(flow.to_tf(batch_size, drop_remainder=drop, shuffle=True, with_index=True).as_numpy_iterator())
    full, rest = divmod(N, batch_size)
    assert [len(index) for index, _ in got] == [batch_size] * full + [rest] * (rest > 0 and not drop)
    indices = assert_rows_of(got, x, Y)
    assert len(set(indices)) == len(indices)
    assert_same(got, flow.batches(batch_size, drop_remainder=drop, shuffle=True, with_index=True))


def test_single_examples(shuffle, x):
    flow = nf.rows((x, Y))
    got = list(flow.to_tf(shuffle=shuffle, seed=3, with_index=True).as_numpy_iterator())
    expected = [int(i) for index, _ in flow.batches(32, shuffle=shuffle, seed=3, with_index=True) for i in index]
    assert [int(index) for index, _ in got] == expected
    assert sorted(assert_rows_of([(np.atleast_1d(i), (a[None], np.atleast_1d(b))) for i, (a, b) in got], x, Y)) == [
        *range(N)
    ]


@pytest.mark.parametrize("drop", [False, True])
def test_remainders_are_not_merged_across_epochs(drop, shuffle, x):
    flow = nf.rows((x, Y))
    got = list(flow.to_tf(32, epochs=3, shuffle=shuffle, drop_remainder=drop).as_numpy_iterator())
    sizes = [32, 32, 32] if drop else [32, 32, 32, 7]
    assert [len(y) for _, y in got] == sizes * 3
    for epoch in range(3):
        own = got[epoch * len(sizes) : (epoch + 1) * len(sizes)]
        assert len(set(ids(own))) == sum(sizes)
        assert_same(own, flow.batches(32, epoch=epoch, shuffle=shuffle, drop_remainder=drop))


@pytest.mark.parametrize("count", [2, 5])
def test_shards_share_one_global_order(count, shuffle):
    flow = nf.rows((X["small"], Y))
    whole = ids(flow.batches(N, shuffle=shuffle, seed=2, epoch=1))
    for index in range(count):
        options = {"shuffle": shuffle, "seed": 2, "shard": (index, count)}
        got = list(flow.to_tf(8, start_epoch=1, epochs=2, **options).as_numpy_iterator())
        assert ids(got) == whole[index::count]
        assert_same(got, flow.batches(8, epoch=1, **options))


def test_a_seed_is_an_order():
    flow = nf.rows((X["small"], Y))
    orders = {seed: ids(flow.to_tf(32, shuffle=True, seed=seed)) for seed in (0, 1, 2**40, -1)}
    assert len(set(map(tuple, orders.values()))) == 4
    assert ids(flow.to_tf(10, shuffle=True, seed=1)) == orders[1]


def test_every_pass_is_the_next_epoch(shuffle, x):
    flow = nf.rows((x, Y))
    ds = flow.to_tf(32, shuffle=shuffle)
    for epoch in range(4):
        assert_same(ds.as_numpy_iterator(), flow.batches(32, shuffle=shuffle, epoch=epoch))


def test_passes_are_numbered_from_start_epoch():
    flow = nf.rows((X["small"], Y))
    ds = flow.to_tf(32, shuffle=True, start_epoch=5)
    for epoch in (5, 6):
        assert_same(ds.as_numpy_iterator(), flow.batches(32, shuffle=True, epoch=epoch))


def test_a_peek_counts_as_a_pass():
    flow = nf.rows((X["small"], Y))
    ds = flow.to_tf(32, shuffle=True)
    assert_same(ds.take(1).as_numpy_iterator(), list(flow.batches(32, shuffle=True, epoch=0))[:1])
    assert_same(ds.as_numpy_iterator(), flow.batches(32, shuffle=True, epoch=1))


def test_native_repeat_goes_through_the_epochs():
    flow = nf.rows((X["small"], Y))
    got = list(flow.to_tf(32, shuffle=True).repeat(3).as_numpy_iterator())
    for epoch in range(3):
        assert_same(got[epoch * 4 : epoch * 4 + 4], flow.batches(32, shuffle=True, epoch=epoch))


def test_with_epochs_every_pass_is_the_same(x):
    flow = nf.rows((x, Y))
    ds = flow.to_tf(32, shuffle=True, epochs=2)
    first = list(ds.as_numpy_iterator())
    assert_same(ds.as_numpy_iterator(), first)


def test_two_datasets_of_one_flow_count_their_own_passes():
    flow = nf.rows((X["small"], Y))
    one, two = flow.to_tf(32, shuffle=True), flow.to_tf(32, shuffle=True)
    assert ids(one) == ids(two)
    assert ids(one) == ids(two)


def test_live_iterators_do_not_disturb_each_other(x):
    flow = nf.rows((x, Y))
    ds = flow.to_tf(8, shuffle=True)
    streams = [ds.as_numpy_iterator(), ds.as_numpy_iterator(), flow.to_tf(8, shuffle=True, seed=9).as_numpy_iterator()]
    # One after another: the first element of a pass numbers it.
    got = [[next(stream)] for stream in streams]
    for _ in range(12):
        for stream, kept in zip(streams, got, strict=True):
            kept.append(next(stream))
    assert all(next(stream, None) is None for stream in streams)
    assert_same(got[0], flow.batches(8, shuffle=True, epoch=0))
    assert_same(got[1], flow.batches(8, shuffle=True, epoch=1))
    assert_same(got[2], flow.batches(8, shuffle=True, seed=9))


def test_an_abandoned_iterator_leaves_the_next_alone(x):
    flow = nf.rows((x, Y))
    ds = flow.to_tf(8, shuffle=True)
    abandoned = iter(ds)
    next(abandoned)
    del abandoned
    assert_same(ds.as_numpy_iterator(), flow.batches(8, shuffle=True, epoch=1))


@pytest.mark.parametrize("form", ["arrays", "mmap", "read", "files"])
def test_batches_that_are_held_stay_intact(form, x, tmp_path):
    flow = open_form(form, tmp_path, x, Y)
    held = list(flow.to_tf(32, shuffle=True, epochs=3, with_index=True))
    held_numpy = list(flow.to_tf(32, shuffle=True, epochs=3, with_index=True).as_numpy_iterator())
    for _ in flow.to_tf(32, epochs=2):
        pass
    assert len(held) == 12
    for epoch in range(3):
        indices = assert_rows_of(held[epoch * 4 : epoch * 4 + 4], x, Y)
        assert sorted(indices) == list(range(N))
    assert_same(held_numpy, held)


def test_held_batches_outlive_flow_dataset_and_close(x):
    flow = nf.rows((x.copy(), Y.copy()))
    ds = flow.to_tf(32, shuffle=True, with_index=True)
    held = list(ds)
    flow.close()
    del flow, ds
    again = list(nf.rows((x + 1, Y + 1)).to_tf(32, shuffle=True))
    assert sorted(assert_rows_of(held, x, Y)) == list(range(N))
    assert len(again) == 4


@pytest.mark.parametrize("form", ["shards", "files"])
def test_x_and_y_stay_together(form, tmp_path):
    x, y = features(), labels()
    flow = open_form(form, tmp_path, x, y)
    ds = flow.to_tf(16, shuffle=True)
    orders = set()
    for _ in range(5):
        seen = []
        for xb, yb in ds.as_numpy_iterator():
            np.testing.assert_array_equal(xb, x[yb - 1000])
            seen += yb.tolist()
        assert sorted(seen) == y.tolist()
        orders.add(tuple(seen))
    assert len(orders) == 5


def test_parts_and_selections(x):
    flow = nf.rows((x, Y))
    train, val = flow.split(0.8, seed=1)
    picked = flow[np.array([99, 3, 3, 50])]
    assert sorted(ids(train.to_tf(16, shuffle=True)) + ids(val.to_tf(16))) == Y.tolist()
    assert ids(picked.to_tf(3)) == [1099, 1003, 1003, 1050]
    for part in (train, val, picked):
        rows = np.asarray(part.keys)
        index_stream = part.to_tf(16, shuffle=True, with_index=True).as_numpy_iterator()
        # The index is the part's own; keys lead back to the rows.
        assert_rows_of(index_stream, x[rows], Y[rows])


def test_index_names_the_file(tmp_path):
    flow = open_form("files", tmp_path, features(20), labels(20))
    part = flow[5:]
    for index, (_, y) in part.to_tf(4, shuffle=True, with_index=True).as_numpy_iterator():
        assert [part.keys[at] for at in index.tolist()] == [str(value - 1000) for value in y.tolist()]


def test_plain_tf_data_follows():
    flow = nf.rows((X["small"], Y))
    ds = flow.to_tf(32).map(lambda x, y: (x * 2, y)).unbatch().filter(lambda x, y: y % 2 == 0).batch(7)
    got = [arrays_of(element) for element in ds]
    np.testing.assert_array_equal(np.concatenate([x for x, _ in got]), X["small"][::2] * 2)
    zipped = tf.data.Dataset.zip(flow.to_tf(32, shuffle=True, epochs=1), flow.to_tf(32, shuffle=True, epochs=1))
    assert all((a[1].numpy() == b[1].numpy()).all() for a, b in zipped)


def test_rows_without_bytes():
    flow = nf.rows((np.zeros((70, 0), np.float32), np.arange(70)))
    got = list(flow.to_tf(32, shuffle=True).as_numpy_iterator())
    assert [x.shape for x, _ in got] == [(32, 0), (32, 0), (6, 0)]
    assert sorted(ids(got)) == list(range(70))


def test_more_rows_than_a_read_holds():
    # Batches of 8 bytes: the reads are capped in examples, and there are several.
    flow = nf.rows(np.arange(200_000))
    got = list(flow.to_tf(1000, shuffle=True, epochs=2).as_numpy_iterator())
    assert len(got) == 400
    for half in (got[:200], got[200:]):
        assert np.array_equal(np.sort(np.concatenate(half)), np.arange(200_000))
    assert_same(got[200:], flow.batches(1000, shuffle=True, epoch=1))


def test_dataset_of_a_manifest(tmp_path):
    flow = open_form("mmap", tmp_path, X["small"], Y)
    flow.save(tmp_path / "flow.json")
    assert_same(
        nf.load(tmp_path / "flow.json").to_tf(32, shuffle=True).as_numpy_iterator(), flow.batches(32, shuffle=True)
    )
