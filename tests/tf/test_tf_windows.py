"""Windows as datasets: element for element those of Keras, with exact spec and cardinality, and resumable."""

import itertools

import numpy as np
import pytest
from tf_support import arrays_of, assert_same, tf

import npyflow as nf

pytestmark = pytest.mark.tf

T = 157
SERIES = np.random.default_rng(0).random((T, 3), np.float32)


def open_series(folder, form="array", series=SERIES):
    if form == "array":
        return series
    np.save(folder / "x.npy", series)
    return folder / "x.npy"


def keras_windows(data, targets, length, **options):
    return tf.keras.utils.timeseries_dataset_from_array(data, targets, length, **options)


FORMS = [("array", "auto"), ("file", "mmap"), ("file", "read"), ("file", "ram")]


@pytest.mark.parametrize(("form", "access"), FORMS)
@pytest.mark.parametrize(("batch_size", "stride"), [(16, 1), (500, 5)])
def test_windows_equal_those_of_keras(tmp_path, form, access, batch_size, stride):
    flow = nf.windows(open_series(tmp_path, form), length=7, stride=stride, access=access)
    theirs = keras_windows(SERIES, None, 7, sequence_stride=stride, batch_size=batch_size)
    ours = flow.to_tf(batch_size)
    assert_same(ours.take(100), theirs.take(100))
    assert len(list(ours)) == len(list(theirs)) == int(ours.cardinality())


@pytest.mark.parametrize(("form", "access"), FORMS)
@pytest.mark.parametrize(("stride", "gap"), [(1, 0), (4, 6)])
def test_targets_are_a_horizon_of_one(tmp_path, form, access, stride, gap):
    flow = nf.windows(open_series(tmp_path, form), length=7, horizon=1, gap=gap, stride=stride, future=1, access=access)
    # A target for each window: the step behind its end.
    theirs = keras_windows(SERIES[: -(1 + gap)], SERIES[7 + gap :, 1], 7, sequence_stride=stride, batch_size=16)
    ours = flow.to_tf(16).map(lambda past, future: (past, future[:, 0]))
    assert_same(ours, theirs)


def test_targets_of_another_series():
    target = np.arange(T, dtype=np.int64)
    flow = nf.windows(
        {"x": SERIES, "y": target}, length=9, horizon=1, past={"x": slice(0, 2)}, future={"y": slice(None)}
    )
    ours = flow.to_tf(32).map(lambda past, future: (past["x"], future["y"][:, 0]))
    assert_same(ours, keras_windows(SERIES[:-1, :2], target[9:], 9, batch_size=32))


def spec(shape, dtype=tf.float32):
    return tf.TensorSpec(shape, dtype)


@pytest.mark.parametrize(
    ("options", "inner"),
    [
        ({"length": 5}, lambda b: spec((*b, 5, 3))),
        ({"length": 5, "past": 0}, lambda b: spec((*b, 5))),
        ({"length": 5, "horizon": 2}, lambda b: (spec((*b, 5, 3)), spec((*b, 2, 3)))),
        ({"length": 5, "horizon": 2, "future": [1, 0]}, lambda b: (spec((*b, 5, 3)), spec((*b, 2, 2)))),
        (
            {"length": 5, "horizon": 2, "past": slice(1, 2), "future": 2, "dtype": "float64"},
            lambda b: (spec((*b, 5, 1), tf.float64), spec((*b, 2), tf.float64)),
        ),
    ],
)
@pytest.mark.parametrize(
    ("how", "batch"),
    [
        ({"batch_size": 8}, (None,)),
        ({"batch_size": 8, "drop_remainder": True, "shuffle": True}, (8,)),
        ({"batch_size": None}, ()),
    ],
)
def test_element_spec_is_exact(options, inner, how, batch):
    flow = nf.windows(SERIES, **options)
    assert flow.to_tf(**how).element_spec == inner(batch)
    assert flow.to_tf(with_index=True, **how).element_spec == (spec(batch, tf.int64), inner(batch))
    element = next(iter(flow.to_tf(**how)))
    assert [x.dtype for x in tf.nest.flatten(element)] == [x.dtype for x in tf.nest.flatten(inner(batch))]
    assert all(
        one.is_compatible_with(value)
        for one, value in zip(tf.nest.flatten(inner(batch)), tf.nest.flatten(element), strict=True)
    )


def test_element_spec_of_a_dict():
    flow = nf.windows(
        {"x": SERIES, "y": np.arange(T)},
        length=5,
        horizon=2,
        past={"y": slice(None), "x": 0},
        future={"y": slice(None)},
    )
    assert flow.to_tf(4).element_spec == (
        {"x": spec((None, 5)), "y": spec((None, 5), tf.int64)},
        {"y": spec((None, 2), tf.int64)},
    )


@pytest.mark.parametrize(
    ("steps", "options", "windows"),
    [
        (10, {"length": 3}, 8),
        (10, {"length": 10}, 1),
        (35, {"length": 3, "horizon": 1}, 32),
        (35, {"length": 3}, 33),
        (66, {"length": 3, "stride": 2}, 32),
    ],
)
@pytest.mark.parametrize(("batch_size", "drop"), [(8, False), (8, True), (32, False), (32, True), (None, False)])
def test_cardinality_is_exact(steps, options, windows, batch_size, drop):
    ds = nf.windows(np.arange(steps), **options).to_tf(batch_size, drop_remainder=drop)
    size = batch_size or 1
    expected = windows // size if drop else -(-windows // size)
    assert int(ds.cardinality()) == expected
    assert sum(1 for _ in ds) == expected


def test_cardinality_of_parts_and_workers():
    flow = nf.windows([SERIES, SERIES[:40], SERIES[:3]], length=6)
    for part in (flow[::3], *flow.split(0.7)):
        for share in (0, 2):
            ds = part.to_tf(4, shard=(share, 3), epochs=2, shuffle=True)
            assert int(ds.cardinality()) == sum(1 for _ in ds)


OPTIONS = {"length": 6, "horizon": 2, "stride": 2}


def open_flow(folder, access):
    for at in range(3):
        np.save(folder / f"{at}.npy", SERIES[at : 60 + 20 * at] * (at + 1))
    return nf.windows(folder, access=access, **OPTIONS)


@pytest.mark.parametrize("access", ["mmap", "read", "ram"])
@pytest.mark.parametrize("shuffle", [False, True, nf.Shuffle(block=8, window=2)])
def test_epochs_are_those_of_batches(tmp_path, access, shuffle):
    flow = open_flow(tmp_path, access)
    wanted = [one for epoch in range(3) for one in flow.batches(8, shuffle=shuffle, seed=4, epoch=epoch)]
    assert_same(flow.to_tf(8, shuffle=shuffle, seed=4, epochs=3), wanted)
    # Without epochs= every pass is the next.
    ds = flow.to_tf(8, shuffle=shuffle, seed=4)
    assert_same(itertools.chain(ds, ds, ds), wanted)


@pytest.mark.parametrize("start", [(0, 3), (1, 0), (1, 5), (2, 7)])
def test_a_position_is_enough_to_go_on(tmp_path, start):
    epoch, step = start
    flow = open_flow(tmp_path, "read")
    options = {"epochs": 3, "shuffle": True, "seed": 5, "with_index": True}
    whole = list(flow.to_tf(8, **options))
    steps = int(flow.to_tf(8).cardinality())
    assert_same(flow.to_tf(8, start_epoch=epoch, start_step=step, **options), whole[epoch * steps + step :])


@pytest.mark.parametrize(("access", "batch_size"), [("mmap", 8), ("read", None)])
@pytest.mark.parametrize("steps", [1, 13, 25])
def test_a_checkpoint_goes_on_exactly(tmp_path, access, batch_size, steps):
    ds = open_flow(tmp_path, access).to_tf(batch_size, shuffle=True, epochs=3)
    iterator = iter(ds)
    for _ in range(steps):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "state"))
    rest = [arrays_of(one) for one in iterator]
    again = iter(open_flow(tmp_path, access).to_tf(batch_size, shuffle=True, epochs=3))
    tf.train.Checkpoint(iterator=again).read(path).assert_consumed()
    assert_same([tuple(one) for one in map(arrays_of, again)], [tuple(one) for one in rest])
    assert rest


def test_a_loaded_flow_delivers_the_same(tmp_path):
    flow = open_flow(tmp_path, "auto").split(0.7)[0]
    flow.save(tmp_path / "m.json")
    assert_same(nf.load(tmp_path / "m.json").to_tf(8, shuffle=True), flow.to_tf(8, shuffle=True))


def test_a_model_learns_from_windows():
    wave = np.sin(np.arange(2000, dtype=np.float32) / 7)[:, None]
    train, val = nf.windows(wave, length=16, horizon=1).split(0.8)
    tf.keras.utils.set_random_seed(0)
    model = tf.keras.Sequential([tf.keras.Input((16, 1)), tf.keras.layers.Flatten(), tf.keras.layers.Dense(1)])
    model.compile(tf.keras.optimizers.Adam(0.02), "mse")
    model.fit(train.to_tf(64, shuffle=True), epochs=4, verbose=0)
    assert model.evaluate(val.to_tf(64), verbose=0) < 0.05
