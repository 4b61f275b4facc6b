"""What the TensorFlow tests share: data in every form that npyflow opens, comparisons, fresh processes."""

import gc
import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import npyflow as nf

tf = pytest.importorskip("tensorflow")

N = 103
FORMS = ["arrays", "mmap", "read", "ram", "shards", "files"]


def features(n=N, width=5):
    """Rows that differ everywhere, float32 (n, width)."""
    return (np.arange(n * width, dtype=np.float32).reshape(n, width) + 0.25) * 1.5


def labels(n=N):
    """The row number plus 1000, int64 (n,)."""
    return np.arange(n, dtype=np.int64) + 1000


def open_form(form, folder, x, y):
    """Return a flow of ``(x, y)``, kept and read in the way that `form` says."""
    if form == "arrays":
        return nf.rows((x, y))
    if form == "files":
        root = folder / "one"
        root.mkdir()
        for at, row in enumerate(x):
            np.save(root / f"{at}.npy", row)
        return nf.files(root, labels={str(at): value for at, value in enumerate(y)})
    if form == "shards":
        cuts = [0, len(x) // 3, len(x) // 3, len(x)]
        for at in range(3):
            np.save(folder / f"x-{at}.npy", x[cuts[at] : cuts[at + 1]])
        np.save(folder / "y.npy", y)
        return nf.rows((str(folder / "x-*.npy"), folder / "y.npy"))
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", y)
    return nf.rows((folder / "x.npy", folder / "y.npy"), access=form)


def arrays_of(element):
    """Return the tensors of an element as NumPy arrays, flat."""
    return [np.asarray(tensor) for tensor in tf.nest.flatten(element)]


def assert_same(got, expected):
    """Compare two streams of batches: count, structure, dtype, shape and every value."""
    got, expected = list(got), list(expected)
    assert len(got) == len(expected)
    for ours, theirs in zip(got, expected, strict=True):
        tf.nest.assert_same_structure(ours, theirs)
        for a, b in zip(arrays_of(ours), arrays_of(theirs), strict=True):
            assert a.dtype == b.dtype
            assert a.shape == b.shape
            np.testing.assert_array_equal(a, b)


def ids(batches):
    """Return the first number of every label of a stream of ``(x, y)``."""
    return [int(value) for _, y in batches for value in np.atleast_1d(np.asarray(y))]


def collect_garbage():
    """Let Python and TensorFlow drop what nobody holds."""
    gc.collect()
    tf.constant(1) + 1
    gc.collect()


RSS_ANON = """
def rss_anon():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("RssAnon"))
"""

needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="counts memory in /proc")


def run_child(code, *arguments, log_level="3", timeout=240):
    """Run `code` in a fresh interpreter; return the JSON of its last line of output, and its stderr."""
    done = subprocess.run(
        [sys.executable, "-c", RSS_ANON + textwrap.dedent(code), *map(str, arguments)],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": log_level, "CUDA_VISIBLE_DEVICES": "-1"},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1]), done.stderr
