"""The datasets of the resume tests, opened in the same way by the test and by the fresh process that goes on."""

import json
import os

# name: (data, options of to_tf, whole passes before, batches into the interrupted pass)
CASES = {
    "passes-small-first": ("small", {"batch_size": 10}, 0, 13),
    "passes-small-third": ("small", {"batch_size": 10}, 2, 13),
    "passes-small-begun": ("small", {"batch_size": 10}, 1, 1),
    "passes-small-last-batch": ("small", {"batch_size": 10}, 1, 30),
    "passes-start-epoch": ("small", {"batch_size": 10, "start_epoch": 4}, 1, 7),
    "passes-many-reads": ("long", {"batch_size": 1000}, 1, 30),
    "passes-large": ("large", {"batch_size": 2}, 1, 5),
    "passes-large-near-end": ("large", {"batch_size": 2}, 1, 19),
    "passes-single": ("small", {"batch_size": None}, 1, 123),
    "passes-files": ("files", {"batch_size": 2}, 1, 5),
    "epochs-small-last-batch": ("small", {"batch_size": 10, "epochs": 3}, 0, 90),
    "epochs-second-pass": ("small", {"batch_size": 10, "epochs": 2}, 1, 13),
    "epochs-started": ("small", {"batch_size": 10, "epochs": 3, "start_epoch": 1, "start_step": 7}, 0, 30),
    "epochs-large": ("large", {"batch_size": 2, "epochs": 2}, 0, 25),
    "epochs-remainder": ("small", {"batch_size": 32, "epochs": 3}, 0, 13),
    "epochs-single": ("small", {"batch_size": None, "epochs": 2}, 0, 350),
}


def open_flow(folder, data):
    """Return the flow `data`; examples are ``(row, row number)``."""
    import npyflow as nf

    if data == "files":
        return nf.files(os.path.join(folder, "files"), labels=os.path.join(folder, "files-y.npy"))
    return nf.rows((os.path.join(folder, f"{data}-x.npy"), os.path.join(folder, f"{data}-y.npy")))


def open_dataset(folder, name):
    """Return the dataset of one case."""
    data, options, _, _ = CASES[name]
    return open_flow(folder, data).to_tf(shuffle=True, seed=11, **options)


def digest(element):
    """Return what identifies an element: its row numbers, and a sum over its rows."""
    x, y = element
    return [y.tolist(), float(x.astype("float64").sum())]


def main(folder):
    """Restore every case; print the rest of its pass and the pass after it."""
    import tensorflow as tf

    found = {}
    for name in CASES:
        ds = open_dataset(folder, name)
        iterator = iter(ds)
        tf.train.Checkpoint(iterator=iterator).read(os.path.join(folder, "checkpoints", name)).assert_consumed()
        rest = [digest((x.numpy(), y.numpy())) for x, y in iterator]
        after = [digest(element) for element in ds.as_numpy_iterator()]
        found[name] = [rest, after]
    print(json.dumps(found))  # noqa: T201
