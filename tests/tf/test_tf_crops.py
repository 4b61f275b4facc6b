"""Regions of files as datasets: exact spec and cardinality, new regions each epoch, resumable."""

import itertools

import numpy as np
import pytest
from tf_support import arrays_of, assert_same, tf

import npyflow as nf

pytestmark = pytest.mark.tf

SIZES = [(8, 9), (10, 7), (6, 12), (7, 7), (9, 20)]
KINDS = {
    "centre": {},
    "random": {"random": True},
    "some": {"random": True, "per_file": 5},
    "grid": {"grid": True},
    "overlapping grid": {"grid": True, "overlap": 2},
}


def save(folder):
    rng = np.random.default_rng(0)
    for name in ("image", "mask"):
        (folder / name).mkdir()
    for at, size in enumerate(SIZES):
        np.save(folder / "image" / f"{at}.npy", rng.random((*size, 3), np.float32))
        np.save(folder / "mask" / f"{at}.npy", rng.integers(0, 9, size, np.uint8))


def open_flow(folder, kind="some", access="auto", **options):
    if not (folder / "image").exists():
        save(folder)
    data = {"image": folder / "image", "mask": folder / "mask"}
    return nf.files(data, labels=lambda key: int(key), crop=nf.Crop((4, 5), **KINDS[kind], access=access), **options)


def spec(shape, dtype):
    return tf.TensorSpec(shape, dtype)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("how", "batch"),
    [
        ({"batch_size": 4}, (None,)),
        ({"batch_size": 2, "drop_remainder": True, "shuffle": True}, (2,)),
        ({"batch_size": None}, ()),
    ],
)
def test_element_spec_is_exact(tmp_path, kind, how, batch):
    flow = open_flow(tmp_path, kind)
    inner = (
        {"image": spec((*batch, 4, 5, 3), tf.float32), "mask": spec((*batch, 4, 5), tf.uint8)},
        spec(batch, tf.int64),
    )
    assert flow.to_tf(**how).element_spec == inner
    assert flow.to_tf(with_index=True, **how).element_spec == (spec(batch, tf.int64), inner)
    for one, value in zip(tf.nest.flatten(inner), tf.nest.flatten(next(iter(flow.to_tf(**how)))), strict=True):
        assert one.is_compatible_with(value)


def test_element_spec_with_axes_taken_whole(tmp_path):
    for at in range(3):
        np.save(tmp_path / f"{at}.npy", np.zeros((6 + at, 7, 2, 3), np.float16))
    crop = nf.Crop((4, None, 1), random=True)
    assert nf.files(tmp_path, crop=crop).to_tf(2).element_spec == spec((None, 4, 7, 1, 3), tf.float16)
    first = nf.files(tmp_path, crop=crop, transpose="channels_first", dtype="float32").to_tf(2)
    assert first.element_spec == spec((None, 3, 4, 7, 1), tf.float32)


@pytest.mark.parametrize("kind", ["centre", "some", "grid"])
@pytest.mark.parametrize(("batch_size", "drop"), [(1, False), (4, False), (4, True), (None, False)])
def test_cardinality_is_exact(tmp_path, kind, batch_size, drop):
    flow = open_flow(tmp_path, kind)
    for share in ((0, 1), (1, 2)):
        ds = flow.to_tf(batch_size, drop_remainder=drop, epochs=2, shuffle=True, shard=share)
        assert int(ds.cardinality()) == sum(1 for _ in ds)
    size, n = batch_size or 1, len(flow)
    assert int(flow.to_tf(batch_size, drop_remainder=drop).cardinality()) == (n // size if drop else -(-n // size))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("access", "shuffle"), [("mmap", True), ("read", False)])
def test_epochs_are_those_of_batches(tmp_path, kind, shuffle, access):
    flow = open_flow(tmp_path, kind, access)
    wanted = [one for epoch in range(3) for one in flow.batches(4, shuffle=shuffle, seed=4, epoch=epoch)]
    assert_same(flow.to_tf(4, shuffle=shuffle, seed=4, epochs=3), wanted)
    # Without epochs= every pass is the next.
    ds = flow.to_tf(4, shuffle=shuffle, seed=4)
    assert_same(itertools.chain(ds, ds, ds), wanted)


def check_epoch(flow, elements, epoch, folder):
    """Every example is the region that positions() names."""
    at = flow.positions(epoch)
    seen = []
    for i, (inputs, label) in elements:
        i = int(i)
        seen.append(i)
        y, x = at[i]
        assert int(label) == int(flow.keys[i])
        for name, value in inputs.items():
            array = np.load(folder / name / f"{flow.keys[i]}.npy")
            np.testing.assert_array_equal(value.numpy(), array[y : y + 4, x : x + 5])
    assert sorted(seen) == list(range(len(flow)))


@pytest.mark.parametrize("start_epoch", [0, 3])
def test_each_epoch_has_new_regions_where_positions_says(tmp_path, start_epoch):
    flow = open_flow(tmp_path)
    ds = flow.to_tf(shuffle=True, with_index=True, start_epoch=start_epoch)
    for epoch in range(start_epoch, start_epoch + 3):
        check_epoch(flow, ds, epoch, tmp_path)
    assert (flow.positions(0) != flow.positions(1)).any(axis=1).mean() > 0.5


def test_regions_of_a_grid_stay(tmp_path):
    ds = open_flow(tmp_path, "grid").to_tf(4)
    assert_same(ds, list(ds))


def test_a_cache_keeps_the_regions_of_its_epoch(tmp_path):
    flow = open_flow(tmp_path)
    ds = flow.to_tf(4, epochs=1).cache()
    assert_same(ds, flow.batches(4))
    assert_same(ds, flow.batches(4))


def test_workers_share_an_epoch(tmp_path):
    flow = open_flow(tmp_path)
    shares = [flow.to_tf(shuffle=True, with_index=True, shard=(at, 3), start_epoch=1, epochs=2) for at in range(3)]
    check_epoch(flow, itertools.chain(*shares), 1, tmp_path)


@pytest.mark.parametrize("access", ["mmap", "read"])
@pytest.mark.parametrize("start", [(0, 3), (2, 6)])
def test_a_position_is_enough_to_go_on(tmp_path, start, access):
    epoch, step = start
    flow = open_flow(tmp_path, access=access)
    options = {"epochs": 3, "shuffle": True, "seed": 5, "with_index": True}
    whole = list(flow.to_tf(4, **options))
    steps = int(flow.to_tf(4).cardinality())
    assert_same(flow.to_tf(4, start_epoch=epoch, start_step=step, **options), whole[epoch * steps + step :])


@pytest.mark.parametrize(("access", "batch_size"), [("mmap", 4), ("read", None)])
@pytest.mark.parametrize("steps", [1, 13, 20])
def test_a_checkpoint_goes_on_exactly(tmp_path, access, batch_size, steps):
    def opened():
        return open_flow(tmp_path, access=access).to_tf(batch_size, shuffle=True, epochs=4)

    iterator = iter(opened())
    for _ in range(steps):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "state"))
    rest = [tuple(arrays_of(one)) for one in iterator]
    again = iter(opened())
    tf.train.Checkpoint(iterator=again).read(path).assert_consumed()
    assert_same([tuple(arrays_of(one)) for one in again], rest)
    assert rest


def test_a_checkpoint_in_a_later_pass_goes_on_with_its_regions(tmp_path):
    flow = open_flow(tmp_path)
    ds = flow.to_tf(4, shuffle=True)
    for _ in range(2):
        list(ds)
    iterator = iter(ds)
    for _ in range(2):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "state"))
    again = iter(open_flow(tmp_path).to_tf(4, shuffle=True))
    tf.train.Checkpoint(iterator=again).read(path).assert_consumed()
    assert_same(again, list(flow.batches(4, shuffle=True, epoch=2))[2:])


def test_a_loaded_flow_delivers_the_same(tmp_path):
    flow = open_flow(tmp_path)
    flow.save(tmp_path / "m.json")
    again = nf.load(tmp_path / "m.json")
    assert_same(again.to_tf(4, shuffle=True, epochs=2), flow.to_tf(4, shuffle=True, epochs=2))


def test_a_model_trains_on_regions(tmp_path):
    flow = open_flow(tmp_path)
    ds = flow.to_tf(5, shuffle=True).map(lambda inputs, label: (inputs["image"], label))
    model = tf.keras.Sequential([tf.keras.Input((4, 5, 3)), tf.keras.layers.Flatten(), tf.keras.layers.Dense(5)])
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    assert np.isfinite(model.fit(ds, epochs=2, verbose=0).history["loss"]).all()
