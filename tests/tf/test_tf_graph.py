"""Inside ``tf.function``, under device scopes and under a distribution strategy."""

from collections import Counter

import numpy as np
import pytest
from tf_support import features, ids, labels, run_child, tf

import npyflow as nf

pytestmark = pytest.mark.tf


def flow_of(width=5):
    return nf.rows((features(width=width), labels()))


def test_a_captured_dataset_inside_a_function():
    flow = flow_of()
    ds = flow.to_tf(32, shuffle=True)

    @tf.function
    def order():
        found = tf.zeros((0,), tf.int64)
        for _, y in ds:
            tf.autograph.experimental.set_loop_options(shape_invariants=[(found, tf.TensorShape([None]))])
            found = tf.concat([found, y], 0)
        return found

    for epoch in range(3):
        assert order().numpy().tolist() == ids(flow.batches(32, shuffle=True, epoch=epoch))


def test_a_dataset_as_an_argument_of_a_function():
    traces = []

    @tf.function
    def total(ds):
        traces.append(1)
        found = tf.constant(0.0)
        for x, _ in ds:
            found += tf.reduce_sum(x)
        return found

    for _ in range(2):
        np.testing.assert_allclose(total(flow_of().to_tf(32, drop_remainder=True)), features()[:96].sum(), rtol=1e-5)
    assert len(traces) == 1


def test_a_dataset_made_inside_a_function():
    flow = flow_of(width=10_000)

    @tf.function
    def order():
        found = tf.zeros((0,), tf.int64)
        for _, y in flow.to_tf(32, shuffle=True):
            tf.autograph.experimental.set_loop_options(shape_invariants=[(found, tf.TensorShape([None]))])
            found = tf.concat([found, y], 0)
        return found

    assert [order().numpy().tolist() for _ in range(2)] == [
        ids(flow.batches(32, shuffle=True, epoch=epoch)) for epoch in range(2)
    ]


def test_reduce_and_cache():
    ds = flow_of().to_tf(32, shuffle=True)
    total = ds.reduce(tf.constant(0, tf.int64), lambda state, example: state + tf.reduce_sum(example[1]))
    assert total.numpy() == labels().sum()
    kept = ds.cache()
    assert ids(kept) == ids(kept)


@pytest.mark.parametrize("device", ["/device:GPU:0", "/device:CPU:0", "/GPU:1"])
@pytest.mark.parametrize("width", [5, 10_000], ids=["small", "large"])
def test_tensors_stay_on_the_host(device, width):
    flow = flow_of(width)
    with tf.device(device):
        ds = flow.to_tf(32, shuffle=True, with_index=True)
        found = list(ds)
    assert all(tensor.device.endswith("CPU:0") for element in found for tensor in tf.nest.flatten(element))
    assert [y.numpy().tolist() for _, (_, y) in found] == [y.tolist() for _, y in flow.batches(32, shuffle=True)]


STRATEGY = """
import json, sys
import numpy as np
import tensorflow as tf
import keras
import npyflow as nf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
found = {"replicas": strategy.num_replicas_in_sync}
x = np.random.default_rng(0).normal(size=(203, 3)).astype(np.float32)
y = np.arange(203)
flow = nf.rows((x, y))

def run(dataset):
    seen = [[], []]
    for _, batch in strategy.experimental_distribute_dataset(dataset):
        for replica, part in enumerate(strategy.experimental_local_results(batch)):
            seen[replica] += part.numpy().tolist()
    return seen

def by_batches(size, epoch):
    return [part.tolist() for _, part in flow.batches(size, shuffle=True, epoch=epoch)]

for name, options in {"short": {}, "drop": {"drop_remainder": True}, "epochs": {"epochs": 2}}.items():
    found[name] = run(flow.to_tf(8, shuffle=True, **options))
found["orders"] = [by_batches(203, epoch)[0] for epoch in range(2)]

dataset = flow.to_tf(8, shuffle=True)
distributed = strategy.experimental_distribute_dataset(dataset)
passes = []
for _ in range(2):
    seen = []
    for _, batch in distributed:
        seen += [n for part in strategy.experimental_local_results(batch) for n in part.numpy().tolist()]
    passes.append(seen)
found["passes"] = passes

seen = []
def note(index):
    seen.extend(index.tolist())
    return index
def keep(index, example):
    with tf.control_dependencies([tf.numpy_function(note, [index], tf.int64)]):
        return tf.identity(example[0]), tf.identity(example[1])
recorded = flow.to_tf(16, shuffle=True, with_index=True).map(keep)
with strategy.scope():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, use_bias=False)])
    model.compile(keras.optimizers.SGD(1e-6), "mse")
before = model.get_weights()[0].tolist()
history = model.fit(recorded, epochs=2, shuffle=False, verbose=0, validation_data=flow.to_tf(16))
found["fit"] = seen
found["loss"] = history.history["loss"] + history.history["val_loss"]
found["moved"] = model.get_weights()[0].tolist() != before

with tf.device("/device:CPU:1"):
    found["devices"] = sorted({t.device for example in flow.to_tf(64) for t in example})
found["policy"] = dataset.options().experimental_distribute.auto_shard_policy.name
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def strategy_run():
    # TensorFlow's warnings on: that there is none is what is tested.
    return run_child(STRATEGY, log_level="0")


def test_a_strategy_delivers_every_example_once(strategy_run):
    found, _ = strategy_run
    assert found["replicas"] == 2
    everything = list(range(203))
    assert sorted(found["short"][0] + found["short"][1]) == everything
    assert sorted(found["epochs"][0] + found["epochs"][1]) == sorted(everything * 2)
    dropped = found["drop"][0] + found["drop"][1]
    assert len(dropped) == len(set(dropped)) == 200
    assert min(map(len, found["short"])) > 90
    for seen, order in zip(found["passes"], found["orders"], strict=True):
        assert sorted(seen) == everything
        assert seen[:192] == order[:192]


def test_keras_under_a_strategy_sees_every_example_in_each_epoch(strategy_run):
    found, _ = strategy_run
    # Keras may look at some batches before the two epochs.
    assert min(Counter(dict.fromkeys(range(203), 0) | Counter(found["fit"])).values()) >= 2
    assert len(found["fit"]) < 3 * 203
    assert np.isfinite(found["loss"]).all()
    assert len(found["loss"]) == 4
    assert found["moved"]


def test_a_strategy_has_nothing_to_say_about_sharding(strategy_run):
    found, stderr = strategy_run
    assert found["policy"] == "DATA"
    assert "cpu_feature_guard" in stderr  # TensorFlow's log is on
    for words in ("auto_shard", "AutoShard", "autoshard", "AUTO sharding"):
        assert words not in stderr


def test_another_logical_cpu_gets_nothing(strategy_run):
    found, _ = strategy_run
    assert [name.rpartition("/")[2] for name in found["devices"]] == ["device:CPU:0"]
