"""The layer made from statistics does what its formula says, in models, in datasets and after saving."""

import numpy as np
import pytest
from tf_support import tf

import npyflow as nf

keras = pytest.importorskip("keras")
pytestmark = pytest.mark.tf

RNG = np.random.default_rng(0)


def stats_of(x):
    return nf.rows({"x": x}).stats()


def features(*shape, dtype=np.float32):
    x = (RNG.normal(size=shape) * np.linspace(1, 30, shape[-1]) + np.linspace(-50, 90, shape[-1])).astype(dtype)
    x[..., 1] = 7
    return x


def expected(x, axis):
    wide = x.astype(np.float64)
    kept = None if axis is None else tuple(range(x.ndim - 1))
    std = wide.std(axis=kept)
    return (wide - wide.mean(axis=kept)) / np.where(std == 0, 1, std)


@pytest.mark.parametrize("axis", [-1, None])
@pytest.mark.parametrize("shape", [(300, 4), (50, 7, 4), (20, 5, 6, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_a_batch_is_normalized(shape, axis, dtype):
    x = features(*shape, dtype=dtype)
    layer = stats_of(x).normalization("x", axis)
    assert isinstance(layer, keras.layers.Normalization)
    got = np.asarray(layer(x))
    assert got.shape == x.shape
    np.testing.assert_allclose(got, expected(x, axis), rtol=1e-4, atol=1e-4)
    if axis == -1:
        assert not got[..., 1].any()


def test_it_is_what_adapt_would_have_found():
    x = features(500, 4)
    adapted = keras.layers.Normalization()
    adapted.adapt(x)
    np.testing.assert_allclose(stats_of(x).normalization("x")(x)[:, 2:], adapted(x)[:, 2:], rtol=1e-4, atol=1e-4)


def test_scalars():
    x = RNG.normal(3, 2, 100).astype(np.float32)
    layer = stats_of(x).normalization("x", axis=None)
    np.testing.assert_allclose(layer(x), expected(x, None), rtol=1e-4, atol=1e-4)
    got = [value.numpy() for value in tf.data.Dataset.from_tensor_slices(x).map(layer)]
    assert np.shape(got[0]) == ()
    np.testing.assert_allclose(got, expected(x, None), rtol=1e-4, atol=1e-4)


def test_a_constant_only_loses_its_mean():
    x = np.full((10, 3), 5.0, np.float32)
    for axis in (-1, None):
        layer = stats_of(x).normalization("x", axis)
        np.testing.assert_array_equal(layer(x + 2), np.full((10, 3), 2.0))


@pytest.mark.parametrize("axis", [-1, None])
@pytest.mark.parametrize("batched", [True, False])
def test_it_works_in_a_dataset_and_then_in_a_model(axis, batched):
    """A layer that Keras builds inside ``map`` keeps tensors of that graph and fails in the next."""
    x = features(64, 4)
    layer = stats_of(x).normalization("x", axis)
    ds = tf.data.Dataset.from_tensor_slices(x)
    for _ in range(2):
        mapped = (ds.batch(16) if batched else ds).map(layer)
        assert tuple(mapped.element_spec.shape) == ((None, 4) if batched else (4,))
        got = np.concatenate([np.reshape(element, (-1, 4)) for element in mapped])
        np.testing.assert_allclose(got, expected(x, axis), rtol=1e-4, atol=1e-4)
    model = keras.Sequential([keras.Input((4,)), layer])
    np.testing.assert_allclose(model.predict(x, verbose=0), expected(x, axis), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("axis", [-1, None])
@pytest.mark.parametrize("kind", ["functional", "sequential"])
@pytest.mark.parametrize("shape", [(40, 4), (10, 6, 4)])
def test_a_saved_model_keeps_it(tmp_path, axis, kind, shape):
    x = features(*shape)
    layer = stats_of(x).normalization("x", axis)
    if kind == "functional":
        inputs = keras.Input(shape[1:])
        model = keras.Model(inputs, layer(inputs))
    else:
        model = keras.Sequential([layer, keras.layers.Flatten()])
    before = model.predict(x, verbose=0)
    np.testing.assert_allclose(before.reshape(x.shape), expected(x, axis), rtol=1e-4, atol=1e-4)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again.predict(x, verbose=0), before)
    assert isinstance(next(one for one in again.layers if "norm" in one.name), keras.layers.Normalization)


def test_half_precision_policies_do_not_overflow():
    x = (RNG.normal(size=(100, 2)) * 1000 + 5000).astype(np.float32)
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    try:
        layer = stats_of(x).normalization("x")
    finally:
        keras.config.set_dtype_policy(before)
    np.testing.assert_allclose(layer(x), expected(x, -1), rtol=1e-4, atol=1e-4)


def test_it_trains_nothing():
    x = features(30, 4)
    layer = stats_of(x).normalization("x")
    assert layer.built
    assert layer.weights == []
