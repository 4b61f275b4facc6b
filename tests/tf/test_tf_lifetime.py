"""A dataset that nobody holds is gone, and what lives on does not grow."""

import numpy as np
import pytest
from tf_support import collect_garbage, features, ids, labels, needs_proc, run_child, tf

import npyflow as nf

pytestmark = pytest.mark.tf


def make(**options):
    return nf.rows((features(), labels())).to_tf(32, shuffle=True, **options)


@pytest.mark.parametrize("options", [{}, {"epochs": 2}])
def test_a_dropped_dataset_is_freed(alive, options):
    ds = make(**options)
    assert alive() == 1
    assert len(list(ds)) == 4 * options.get("epochs", 1)
    del ds
    assert alive() == 0


def test_a_dataset_that_was_never_iterated_is_freed(alive):
    make()
    assert alive() == 0


def test_an_iterator_and_later_stages_keep_it(alive):
    ds = make(epochs=1)
    later = ds.map(lambda x, y: (x + 1, y)).prefetch(1)
    del ds
    assert alive() == 1
    iterator = iter(later)
    next(iterator)
    del later
    assert alive() == 1
    assert sum(1 for _ in iterator) == 3
    del iterator
    assert alive() == 0


def test_a_traced_function_alone_keeps_it(alive):
    def trace():
        ds = make()

        @tf.function
        def total():
            found = tf.constant(0, tf.int64)
            for _, y in ds:
                found += tf.reduce_sum(y)
            return found

        return total.get_concrete_function()

    concrete = trace()
    assert alive() == 1
    assert concrete().numpy() == labels().sum()
    assert concrete().numpy() == labels().sum()
    del concrete
    assert alive() == 0


def test_a_dataset_made_inside_a_traced_function_lives_with_it(alive):
    flow = nf.rows((features(), labels()))

    @tf.function
    def total():
        found = tf.constant(0, tf.int64)
        for _, y in flow.to_tf(32, shuffle=True):
            found += tf.reduce_sum(y)
        return found

    assert total().numpy() == labels().sum()
    assert alive() == 1
    assert total().numpy() == labels().sum()
    del total
    assert alive() == 0


def test_a_failed_iteration_leaves_nothing_behind(alive):
    ds = nf.rows(np.array([1.0, 1e300] * 50), dtype="float32").to_tf(8)
    with pytest.raises(tf.errors.OpError):
        list(ds)
    del ds
    assert alive() == 0


def test_the_dataset_outlives_the_flow_object(alive):
    ds = make(epochs=1)  # the flow of make() is gone
    collect_garbage()
    assert sorted(ids(ds)) == labels().tolist()
    assert alive() == 1


def test_buffers_come_back_after_an_epoch():
    flow = nf.rows(features(width=10_000))
    ds = flow.to_tf(32, epochs=1)
    for _ in ds:
        pass
    collect_garbage()
    pool = flow._view.examples.sources.pool
    first = pool.idle_bytes
    for _ in range(5):
        for _ in ds:
            pass
    collect_garbage()
    # A batch here has 1.3 MB: five epochs that leaked one each would show.
    assert pool.idle_bytes <= max(first, pool._keep_bytes)
    flow.close()
    assert pool.idle_bytes == 0


GROWTH = """
import gc, json, sys
import numpy as np
import tensorflow as tf
import npyflow as nf
from npyflow._adapters import tfdata

folder = sys.argv[1]

def build(number):
    # The flow holds 4 MB of its own: 160 leaked ones would be 640 MB.
    ds = nf.rows((np.full((1000, 1000), number, np.float32), np.arange(1000))).to_tf(100, shuffle=True)
    for _ in ds.prefetch(1) if number % 4 == 0 else ():
        pass

def clear():
    gc.collect()
    tf.constant(1) + 1
    gc.collect()
    return rss_anon()

for number in range(40):
    build(number)
begun = clear()
for number in range(160):
    build(number)
datasets = clear() - begun
feeds = len(tfdata._feeds)

# 30 epochs of 16 MB, small batches from a map and large ones by position.
epochs = {}
for access, batch_size in (("mmap", 64), ("read", 1024)):
    flow = nf.rows((f"{folder}/x.npy", f"{folder}/y.npy"), access=access)
    ds = flow.to_tf(batch_size, shuffle=True)
    for epoch in range(30):
        for _ in ds:
            pass
        if epoch == 4:
            begun = clear()
    epochs[f"{access} {batch_size}"] = clear() - begun
    del ds
    flow.close()
print(json.dumps({"datasets": datasets, "feeds": feeds, "epochs": epochs}))
"""


@pytest.fixture(scope="module")
def growth(tmp_path_factory):
    folder = tmp_path_factory.mktemp("growth")
    np.save(folder / "x.npy", np.random.default_rng(0).random((4000, 1000), np.float32))
    np.save(folder / "y.npy", np.arange(4000))
    return run_child(GROWTH, folder)


@needs_proc
def test_datasets_built_and_dropped_do_not_add_up(growth):
    found, _ = growth
    assert found["feeds"] == 0
    # TensorFlow keeps some 100 kB of every traced function; one leaked flow would be 4 MB.
    assert found["datasets"] < 150e6


@needs_proc
def test_epochs_do_not_add_up(growth):
    found, _ = growth
    # 25 epochs of 16 MB; one leaked read of 3 MB in each would be 75 MB.
    assert max(found["epochs"].values()) < 20e6, found


def test_a_process_ends_quietly(growth):
    _, stderr = growth
    assert "Exception ignored" not in stderr
    assert "Traceback" not in stderr
