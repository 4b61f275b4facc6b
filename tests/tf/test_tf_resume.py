"""Stopping and going on: iterator checkpoints in a fresh process, and positions without a checkpoint."""

from pathlib import Path

import numpy as np
import pytest
from resume_cases import CASES, digest, open_dataset, open_flow
from tf_support import assert_same, features, labels, run_child, tf

import npyflow as nf

pytestmark = pytest.mark.tf


def save_data(folder):
    rng = np.random.default_rng(0)
    # "large": a batch of 2 is over 1 MB. "long": an epoch is several reads of small batches.
    for name, shape in {"small": (300, 6), "large": (40, 140_000), "long": (150_000, 1)}.items():
        np.save(folder / f"{name}-x.npy", rng.random(shape, np.float32))
        np.save(folder / f"{name}-y.npy", np.arange(shape[0]))
    (folder / "files").mkdir()
    for at in range(50):
        np.save(folder / "files" / f"{at:03}.npy", rng.random(300, np.float32))
    np.save(folder / "files-y.npy", np.arange(50))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """What each case delivers after its checkpoint: here without a break, and in a fresh process."""
    folder = tmp_path_factory.mktemp("resume")
    save_data(folder)
    expected = {}
    for name, (_, _, passes, steps) in CASES.items():
        ds = open_dataset(folder, name)
        for _ in range(passes):
            for _ in ds:
                pass
        iterator = iter(ds)
        for _ in range(steps):
            next(iterator)
        tf.train.Checkpoint(iterator=iterator).write(str(folder / "checkpoints" / name))
        rest = [digest((x.numpy(), y.numpy())) for x, y in iterator]
        expected[name] = [rest, [digest(element) for element in ds.as_numpy_iterator()]]
    found, _ = run_child(
        "import sys; sys.path.insert(0, sys.argv[1]); import resume_cases; resume_cases.main(sys.argv[2])",
        Path(__file__).parent,
        folder,
    )
    return folder, expected, found


def epoch_digests(folder, name, epoch):
    """One epoch by `Flow.batches`, which knows nothing of iterators."""
    data, options, _, _ = CASES[name]
    size = options["batch_size"]
    stream = open_flow(folder, data).batches(size or 1, shuffle=True, seed=11, epoch=epoch)
    return [digest((x, y) if size else (x[0], y[0])) for x, y in stream]


@pytest.mark.parametrize("name", CASES)
def test_a_fresh_process_goes_on_exactly(runs, name):
    _, expected, found = runs
    assert found[name][0] == expected[name][0]


# Near the end of a pass all is read ahead: nothing runs on restore that could tell a new process which pass it was.
READ_TO_THE_END = {"passes-small-last-batch", "passes-large-near-end"}


@pytest.mark.parametrize("name", [name for name in CASES if name not in READ_TO_THE_END])
def test_the_next_pass_in_a_fresh_process_is_the_right_one(runs, name):
    _, expected, found = runs
    assert found[name][1] == expected[name][1]


@pytest.mark.parametrize("name", CASES)
def test_the_unbroken_run_is_the_order_of_the_epochs(runs, name):
    folder, expected, _ = runs
    _, options, passes, steps = CASES[name]
    first = options.get("start_epoch", 0)
    epochs = range(first, options["epochs"]) if "epochs" in options else [first + passes]
    a_pass = [one for epoch in epochs for one in epoch_digests(folder, name, epoch)]
    a_pass = a_pass[options.get("start_step", 0) :]
    after = a_pass if "epochs" in options else epoch_digests(folder, name, first + passes + 1)
    assert expected[name][0] == a_pass[steps:]
    assert expected[name][1] == after


@pytest.mark.parametrize("width", [5, 10_000], ids=["small", "large"])
@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("start", [(0, 1), (1, 2), (2, 3)])
def test_a_position_is_enough_to_go_on(start, drop, width):
    epoch, step = start
    flow = nf.rows((features(width=width), labels()))
    options = {"epochs": 3, "shuffle": True, "seed": 5, "drop_remainder": drop, "with_index": True}
    whole = list(flow.to_tf(32, **options).as_numpy_iterator())
    resumed = flow.to_tf(32, start_epoch=epoch, start_step=step, **options)
    steps = 3 if drop else 4
    assert_same(resumed.as_numpy_iterator(), whole[epoch * steps + step :])
    # Every pass of it begins there.
    assert_same(resumed.as_numpy_iterator(), whole[epoch * steps + step :])


def test_a_position_inside_a_shard_and_in_blocks():
    flow = nf.rows((features(), labels()))
    options = {"epochs": 2, "shuffle": nf.Shuffle(block=8, window=2), "shard": (1, 3)}
    whole = list(flow.to_tf(8, **options).as_numpy_iterator())
    assert_same(flow.to_tf(8, start_epoch=1, start_step=2, **options).as_numpy_iterator(), whole[7:])


def test_a_position_among_single_examples():
    flow = nf.rows((features(), labels()))
    whole = list(flow.to_tf(epochs=2, shuffle=True).as_numpy_iterator())
    resumed = flow.to_tf(epochs=2, shuffle=True, start_epoch=1, start_step=60)
    assert_same(resumed.as_numpy_iterator(), whole[103 + 60 :])


def test_a_checkpoint_of_the_users_own_stages(tmp_path):
    flow = nf.rows((features(), labels()))
    ds = flow.to_tf(8, shuffle=True, epochs=2).map(lambda x, y: (x + 1, y)).prefetch(2)
    iterator = iter(ds)
    for _ in range(9):
        next(iterator)
    checkpoint = tf.train.Checkpoint(iterator=iterator)
    path = checkpoint.write(str(tmp_path / "state"))
    rest = [y.numpy().tolist() for _, y in iterator]
    again = iter(ds)
    tf.train.Checkpoint(iterator=again).read(path).assert_consumed()
    assert [y.numpy().tolist() for _, y in again] == rest
