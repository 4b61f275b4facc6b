"""Options out of range are refused at once, by name."""

import numpy as np
import pytest
from tf_support import assert_same, features, labels, tf

import npyflow as nf

pytestmark = pytest.mark.tf


@pytest.fixture
def flow():
    return nf.rows((features(), labels()))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batch_size": 0}, "batch_size=0"),
        ({"batch_size": -3}, "batch_size=-3"),
        ({"batch_size": 2.5}, r"batch_size=2\.5"),
        ({"batch_size": "32"}, "batch_size='32'"),
        ({"shuffle": "yes"}, "shuffle='yes'"),
        ({"shuffle": 1000}, "shuffle=1000"),
        ({"shuffle": None}, "shuffle=None"),
        ({"seed": None}, "seed=None"),
        ({"seed": 1.5}, r"seed=1\.5"),
        ({"epochs": 0}, "epochs=0"),
        ({"epochs": -1}, "epochs=-1"),
        ({"epochs": 1.5}, r"epochs=1\.5"),
        ({"start_epoch": -1}, "start_epoch=-1"),
        ({"start_epoch": "2"}, "start_epoch='2'"),
        ({"start_step": 1}, "start_step=1 without epochs"),
        ({"start_step": -1, "epochs": 2}, "start_step=-1"),
        ({"start_step": 5, "epochs": 2}, "start_step=5.*4 steps"),
        ({"start_step": 4, "epochs": 2, "drop_remainder": True}, "start_step=4.*3 steps"),
        ({"start_epoch": 3, "epochs": 2}, "start_epoch=3.*epochs=2"),
        ({"shard": (2, 2)}, "shard"),
        ({"shard": (-1, 2)}, "shard"),
        ({"shard": (0, 0)}, "shard"),
        ({"shard": (0,)}, "shard"),
        ({"shard": (0, 1, 2)}, "shard"),
        ({"shard": 3}, "shard=3"),
        ({"shard": None}, "shard=None"),
        ({"shard": (0.5, 2)}, "shard"),
        ({"shard": (0, 2.0)}, "shard"),
        ({"shard": ("0", "2")}, "shard"),
    ],
)
def test_refused_by_name(flow, options, words):
    with pytest.raises(nf.OptionError, match=words):
        flow.to_tf(**{"batch_size": 32, **options})
    with pytest.raises(ValueError, match=words):
        flow.to_tf(**{"batch_size": 32, **options})


@pytest.mark.parametrize("options", [{"block": 0}, {"block": -1}, {"block": 2.5}, {"block": 4, "window": 0}])
def test_shuffle_refuses_by_name(options):
    with pytest.raises(nf.OptionError, match="Shuffle"):
        nf.Shuffle(**options)


def test_options_are_keyword_only(flow):
    with pytest.raises(TypeError):
        flow.to_tf(32, True)
    with pytest.raises(TypeError, match="repeat"):
        flow.to_tf(32, repeat=True)


def test_numpy_integers_are_integers(flow):
    options = {"seed": np.int32(3), "epochs": np.int64(2), "start_epoch": np.uint8(1), "start_step": np.int16(1)}
    shard = (np.int64(0), np.int64(2))
    got = flow.to_tf(np.int64(8), shuffle=True, shard=shard, **options)
    expected = flow.batches(8, shuffle=True, seed=3, epoch=1, start_step=1, shard=(0, 2))
    assert_same(got.as_numpy_iterator(), expected)


def test_what_is_not_asked_for_does_not_count(flow):
    assert_same(
        flow.to_tf(32, shuffle=nf.Shuffle()).as_numpy_iterator(),
        flow.to_tf(32, shuffle=True).as_numpy_iterator(),
    )
    assert_same(flow.to_tf(32, seed=5).as_numpy_iterator(), flow.to_tf(32).as_numpy_iterator())


def test_the_dataset_is_plain(flow):
    ds = flow.to_tf(32)
    assert isinstance(ds, tf.data.Dataset)
    for name in ("filter", "cache", "repeat", "prefetch"):
        assert not hasattr(flow, name)
        assert hasattr(ds, name)
