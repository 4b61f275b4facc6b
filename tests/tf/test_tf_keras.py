"""Keras 3 trains, evaluates and predicts on the datasets, in the orders that were promised."""

from itertools import chain

import numpy as np
import pytest
from tf_support import ids, tf

import npyflow as nf

keras = pytest.importorskip("keras")
pytestmark = pytest.mark.tf

N = 101
X = np.random.default_rng(0).normal(size=(N, 4)).astype(np.float32)
Y = np.arange(N, dtype=np.int64) % 2
WEIGHTS = np.array([[1.0], [-2.0], [0.5], [3.0]], np.float32)


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, inputs):
        return self.dense(inputs)


def functional():
    inputs = keras.Input((4,))
    return keras.Model(inputs, keras.layers.Dense(1)(inputs))


def linear():
    """A model without bias whose weights are known, and plain gradient descent."""
    inputs = keras.Input((4,))
    model = keras.Model(inputs, keras.layers.Dense(1, use_bias=False)(inputs))
    model.set_weights([WEIGHTS])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model


def recorded(ds, seen):
    """Return `ds` with every index noted in `seen` while it passes; the index is taken off."""

    def note(index):
        seen.append(index.tolist())
        return index

    def keep(index, example):
        index = tf.numpy_function(note, [index], tf.int64, stateful=True)
        with tf.control_dependencies([index]):
            return tf.nest.map_structure(tf.identity, example)

    return ds.map(keep)


@pytest.mark.parametrize("build", [functional, Subclassed], ids=["functional", "subclassed"])
@pytest.mark.parametrize("batch_size", [16, 1000])
def test_fit_evaluate_predict(build, batch_size):
    flow = nf.rows((X, Y.astype(np.float32)))
    train, val = flow.split(0.8)
    model = build()
    model.compile("sgd", "mse")
    history = model.fit(train.to_tf(batch_size, shuffle=True), epochs=2, validation_data=val.to_tf(16), verbose=0)
    assert len(history.history["loss"]) == len(history.history["val_loss"]) == 2
    assert np.isfinite(history.history["val_loss"]).all()
    kernel, bias = model.get_weights()
    np.testing.assert_allclose(model.predict(nf.rows(X).to_tf(16), verbose=0), X @ kernel + bias, rtol=1e-4, atol=1e-5)
    expected = np.mean((X @ kernel + bias - Y[:, None]) ** 2)
    np.testing.assert_allclose(model.evaluate(flow.to_tf(16, shuffle=True), verbose=0), expected, rtol=1e-4)


def test_three_epochs_see_three_orders():
    flow = nf.rows((X, Y))
    seen = []
    ds = recorded(flow.to_tf(16, shuffle=True, seed=3, with_index=True), seen)
    steps = []
    count = keras.callbacks.LambdaCallback(on_epoch_begin=lambda *_: steps.append(count.params["steps"]))
    linear().fit(ds, epochs=3, verbose=0, callbacks=[count])
    assert steps == [7, 7, 7]
    orders = [list(chain(*seen[start : start + 7])) for start in (0, 7, 14)]
    assert len(seen) == 21
    for epoch, order in enumerate(orders):
        expected = [
            int(i) for index, _ in flow.batches(16, shuffle=True, seed=3, epoch=epoch, with_index=True) for i in index
        ]
        assert order == expected
        assert sorted(order) == list(range(N))
    assert len(set(map(tuple, orders))) == 3


def test_an_unbuilt_model_sees_three_orders_too():
    seen = []
    ds = recorded(nf.rows((X, Y)).to_tf(16, shuffle=True, with_index=True), seen)
    model = Subclassed()
    model.compile("sgd", "mse")
    model.fit(ds, epochs=3, verbose=0)
    # The model may peek to build itself; the epochs are the last 21 batches.
    orders = [list(chain(*seen[start : start + 7])) for start in range(len(seen) - 21, len(seen), 7)]
    assert all(sorted(order) == list(range(N)) for order in orders)
    assert len(set(map(tuple, orders))) == 3


def test_class_weight_reaches_the_loss():
    model = linear()
    ds = nf.rows((X, Y)).to_tf(1000)
    model.fit(ds, epochs=1, verbose=0, class_weight={0: 3.0, 1: 0.25})
    weight = np.where(Y == 0, 3.0, 0.25)
    residual = (X @ WEIGHTS)[:, 0] - Y
    gradient = (2 * weight * residual) @ X / N
    np.testing.assert_allclose(model.get_weights()[0][:, 0], WEIGHTS[:, 0] - 0.1 * gradient, rtol=1e-4, atol=1e-5)


def test_a_third_component_is_a_sample_weight():
    weight = np.linspace(0, 2, N, dtype=np.float32)
    model = linear()
    model.fit(nf.rows((X, Y.astype(np.float32), weight)).to_tf(1000), epochs=1, verbose=0)
    residual = (X @ WEIGHTS)[:, 0] - Y
    gradient = (2 * weight * residual) @ X / N
    np.testing.assert_allclose(model.get_weights()[0][:, 0], WEIGHTS[:, 0] - 0.1 * gradient, rtol=1e-4, atol=1e-5)


def test_training_equals_training_on_arrays():
    flow = nf.rows((X, Y.astype(np.float32)))
    ours, theirs = linear(), linear()
    ours.fit(flow.to_tf(10, shuffle=True, epochs=2), epochs=1, verbose=0)
    for epoch in range(2):
        for x, y in flow.batches(10, shuffle=True, epoch=epoch):
            theirs.train_on_batch(x, y)
    np.testing.assert_allclose(ours.get_weights()[0], theirs.get_weights()[0], rtol=1e-4, atol=1e-6)


def test_named_inputs_and_outputs():
    inputs = {"a": keras.Input((4,), name="a"), "b": keras.Input((2,), name="b")}
    joined = keras.layers.Concatenate()([inputs["a"], inputs["b"]])
    outputs = {"c": keras.layers.Dense(1, name="c")(joined), "d": keras.layers.Dense(3, name="d")(joined)}
    model = keras.Model(inputs, outputs)
    model.compile("sgd", {"c": "mse", "d": "mse"})
    # Written in another order than the names sort.
    flow = nf.rows(({"b": X[:, :2].copy(), "a": X}, {"d": X[:, :3].copy(), "c": X[:, :1].copy()}))
    model.fit(flow.to_tf(16, shuffle=True), epochs=1, verbose=0)
    got = model.predict(nf.rows(({"b": X[:, :2].copy(), "a": X},)).to_tf(16), verbose=0)
    both = np.concatenate([X, X[:, :2]], axis=1)
    kernel, bias = model.get_layer("d").get_weights()
    np.testing.assert_allclose(got["d"], both @ kernel + bias, rtol=1e-4, atol=1e-5)


def test_files_with_classes_train(tmp_path):
    for name, value in {"cat": 0.0, "dog": 1.0}.items():
        (tmp_path / name).mkdir()
        for at in range(20):
            np.save(tmp_path / name / f"{at}.npy", np.full((4, 4, 1), value, np.float32))
    flow = nf.files(tmp_path, labels="directory")
    model = keras.Sequential([keras.Input((4, 4, 1)), keras.layers.Flatten(), keras.layers.Dense(2)])
    model.compile(
        keras.optimizers.Adam(0.05),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(flow.to_tf(8, shuffle=True), epochs=8, verbose=0)
    assert model.evaluate(flow.to_tf(8), verbose=0)[1] == 1.0


def test_adapt_is_a_pass_that_counts():
    flow = nf.rows((X, Y))
    ds = flow.to_tf(16, shuffle=True)
    layer = keras.layers.Normalization()
    layer.adapt(ds.map(lambda x, y: x))
    np.testing.assert_allclose(np.ravel(layer.mean), X.mean(axis=0), rtol=1e-3, atol=1e-4)
    later = ids(ds)
    assert later != ids(flow.batches(16, shuffle=True, epoch=0))
    assert sorted(later) == sorted(Y.tolist())


def test_repeat_with_steps_per_epoch():
    seen = []
    flow = nf.rows((X, Y))
    ds = recorded(flow.to_tf(16, shuffle=True, drop_remainder=True, with_index=True).repeat(), seen)
    linear().fit(ds, epochs=2, steps_per_epoch=6, verbose=0)
    for epoch in range(2):
        expected = [
            index.tolist()
            for index, _ in flow.batches(16, shuffle=True, drop_remainder=True, epoch=epoch, with_index=True)
        ]
        assert seen[epoch * 6 : epoch * 6 + 6] == expected


def test_an_error_comes_out_of_fit(tmp_path):
    np.save(tmp_path / "x.npy", X)
    flow = nf.rows((tmp_path / "x.npy", Y))
    ds = flow.to_tf(16)
    (tmp_path / "x.npy").unlink()
    with pytest.raises(tf.errors.OpError, match=r"x\.npy"):
        linear().fit(ds, epochs=1, verbose=0)
    assert isinstance(flow.last_error, nf.FileChangedError)
