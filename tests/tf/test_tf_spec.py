"""Element specs and cardinalities: exact, and known before the first element."""

import numpy as np
import pytest
from tf_support import features, labels, tf

import npyflow as nf

pytestmark = pytest.mark.tf


def spec(shape, dtype):
    return tf.TensorSpec(shape, dtype)


IMAGE = np.zeros((10, 4, 6, 3), np.uint8)
VECTOR = np.zeros((10, 7), np.float64)
SCALAR = np.zeros(10, np.int32)

STRUCTURES = {
    "lone": (SCALAR, lambda b: spec(b, tf.int32)),
    "pair": ((VECTOR, SCALAR), lambda b: (spec((*b, 7), tf.float64), spec(b, tf.int32))),
    "one-tuple": ((VECTOR,), lambda b: (spec((*b, 7), tf.float64),)),
    "triple": (
        (IMAGE, SCALAR, VECTOR),
        lambda b: (spec((*b, 4, 6, 3), tf.uint8), spec(b, tf.int32), spec((*b, 7), tf.float64)),
    ),
    # Written in another order than sorted, which is tf.nest's.
    "dict": (
        {"z": IMAGE, "a": SCALAR},
        lambda b: {"z": spec((*b, 4, 6, 3), tf.uint8), "a": spec(b, tf.int32)},
    ),
    "nested": (
        ({"z": IMAGE, "a": {"deep": VECTOR, "b": SCALAR}}, (SCALAR,)),
        lambda b: (
            {"z": spec((*b, 4, 6, 3), tf.uint8), "a": {"deep": spec((*b, 7), tf.float64), "b": spec(b, tf.int32)}},
            (spec(b, tf.int32),),
        ),
    ),
}


@pytest.mark.parametrize("name", STRUCTURES)
@pytest.mark.parametrize(
    ("options", "batch"),
    [
        ({"batch_size": 4}, (None,)),
        ({"batch_size": 4, "drop_remainder": True}, (4,)),
        ({"batch_size": None}, ()),
        ({"batch_size": 20, "drop_remainder": True, "epochs": 3, "shuffle": True}, (20,)),
    ],
)
def test_element_spec_is_exact(name, options, batch):
    data, expected = STRUCTURES[name]
    ds = nf.rows(data).to_tf(**options)
    assert ds.element_spec == expected(batch)


@pytest.mark.parametrize("name", STRUCTURES)
@pytest.mark.parametrize(("batch_size", "batch"), [(4, (None,)), (None, ())])
def test_element_spec_with_index(name, batch_size, batch):
    data, expected = STRUCTURES[name]
    ds = nf.rows(data).to_tf(batch_size, with_index=True)
    assert ds.element_spec == (spec(batch, tf.int64), expected(batch))


@pytest.mark.parametrize("name", STRUCTURES)
def test_elements_have_the_structure_and_values_of_the_spec(name):
    data, _ = STRUCTURES[name]
    data = tf.nest.map_structure(
        lambda a: np.random.default_rng(a.ndim).integers(0, 200, a.shape).astype(a.dtype), data
    )
    element = next(iter(nf.rows(data).to_tf(10)))
    tf.nest.assert_same_structure(element, data)
    tf.nest.map_structure(lambda got, want: np.testing.assert_array_equal(got.numpy(), want), element, data)


@pytest.mark.parametrize(
    ("options", "batch"),
    [
        ({"batch_size": 2}, (None,)),
        ({"batch_size": 2, "drop_remainder": True}, (2,)),
        ({"batch_size": 2, "drop_remainder": True, "epochs": 2}, (2,)),
        ({}, ()),
    ],
)
def test_element_spec_where_every_batch_is_a_read(options, batch):
    flow = nf.rows((np.zeros((5, 600, 500), np.float32), np.zeros((5, 1), bool)))
    ds = flow.to_tf(**options)
    assert ds.element_spec == (spec((*batch, 600, 500), tf.float32), spec((*batch, 1), tf.bool))
    for element in ds:
        assert all(
            tensor.shape[1 if batch else 0 :] == s.shape[len(batch) :]
            for tensor, s in zip(element, ds.element_spec, strict=True)
        )


def test_element_spec_of_files_with_labels(tmp_path):
    for name in ("cat/1", "cat/2", "dog/1"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        np.save(tmp_path / f"{name}.npy", np.zeros((8, 2), np.float16))
    flow = nf.files(tmp_path, labels="directory")
    assert flow.to_tf(2).element_spec == (spec((None, 8, 2), tf.float16), spec((None,), tf.int64))
    assert flow.to_tf().element_spec == (spec((8, 2), tf.float16), spec((), tf.int64))


def test_element_spec_of_scalar_files_and_empty_axes(tmp_path):
    for at in range(3):
        np.save(tmp_path / f"{at}.npy", np.float64(at))
    assert nf.files(tmp_path).to_tf(2).element_spec == spec((None,), tf.float64)
    ds = nf.rows(np.zeros((5, 0, 3), np.float32)).to_tf(2)
    assert ds.element_spec == spec((None, 0, 3), tf.float32)
    assert [tuple(batch.shape) for batch in ds] == [(2, 0, 3), (2, 0, 3), (1, 0, 3)]


def test_element_spec_follows_dtype(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((4, 2), ">f8"))
    assert nf.rows(tmp_path / "x.npy").to_tf(2).element_spec == spec((None, 2), tf.float64)
    assert nf.rows(tmp_path / "x.npy", dtype="float32").to_tf(2).element_spec == spec((None, 2), tf.float32)
    assert nf.rows(tmp_path / "x.npy", dtype=tf.float32).to_tf(2).element_spec == spec((None, 2), tf.float32)


def count(ds):
    return sum(1 for _ in ds)


@pytest.mark.parametrize("n", [0, 1, 31, 32, 33, 64])
@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("epochs", [None, 3])
@pytest.mark.parametrize("width", [3, 12_000], ids=["small", "large"])
def test_cardinality_is_known_and_true(n, drop, epochs, width):
    flow = nf.rows(np.zeros((n, width), np.float32))
    ds = flow.to_tf(32, drop_remainder=drop, epochs=epochs, shuffle=True)
    an_epoch = n // 32 if drop else -(-n // 32)
    assert ds.cardinality().numpy() == an_epoch * (epochs or 1)
    assert count(ds) == an_epoch * (epochs or 1)


@pytest.mark.parametrize("n", [0, 1, 33])
@pytest.mark.parametrize("epochs", [None, 2])
def test_cardinality_of_single_examples(n, epochs):
    ds = nf.rows((features(n), labels(n))).to_tf(epochs=epochs)
    assert ds.cardinality().numpy() == n * (epochs or 1)
    assert count(ds) == n * (epochs or 1)


@pytest.mark.parametrize("width", [3, 12_000], ids=["small", "large"])
@pytest.mark.parametrize(
    ("start", "left"),
    [((0, 0), 12), ((0, 1), 11), ((0, 4), 8), ((1, 0), 8), ((1, 3), 5), ((2, 3), 1), ((2, 4), 0), ((3, 0), 0)],
)
def test_cardinality_is_what_remains(start, left, width):
    epoch, step = start
    ds = nf.rows(np.zeros((100, width), np.float32)).to_tf(32, epochs=3, start_epoch=epoch, start_step=step)
    assert ds.cardinality().numpy() == left
    assert count(ds) == left


@pytest.mark.parametrize("step", [1, 2, 4])
def test_a_start_behind_the_end_is_refused_or_empty(step):
    flow = nf.rows(np.zeros((100, 3), np.float32))
    try:
        ds = flow.to_tf(32, epochs=3, start_epoch=3, start_step=step)
    except nf.OptionError:
        return
    assert ds.cardinality().numpy() == 0
    assert count(ds) == 0


@pytest.mark.parametrize("count_of", [2, 3, 7])
def test_cardinality_of_shards(count_of):
    flow = nf.rows(np.zeros((100, 3), np.float32))
    for index in range(count_of):
        examples = len(range(index, 100, count_of))
        ds = flow.to_tf(8, shard=(index, count_of), epochs=2)
        assert ds.cardinality().numpy() == 2 * -(-examples // 8) == count(ds)


def test_cardinality_of_more_shards_than_examples():
    flow = nf.rows(np.zeros((2, 3), np.float32))
    assert [count(flow.to_tf(4, shard=(index, 3))) for index in range(3)] == [1, 1, 0]


def test_cardinality_of_parts():
    flow = nf.rows(np.zeros((100, 3), np.float32))
    train, val = flow.split(0.9)
    assert train.to_tf(32).cardinality().numpy() == 3
    assert val.to_tf(32).cardinality().numpy() == 1
    assert flow[10:75].to_tf(32).cardinality().numpy() == 3
