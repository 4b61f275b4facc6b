"""Anonymous memory does not follow the size of the data."""

import os

import numpy as np
import pytest
from tf_support import needs_proc, run_child

pytestmark = pytest.mark.tf

ROWS, LARGE_ROWS = 2_600_000, 2_600

OPEN = """
import json, sys
import numpy as np
import tensorflow as tf
import npyflow as nf

folder, rows, large_rows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
# TensorFlow's own start belongs to nobody.
for _ in tf.data.Dataset.range(8).map(lambda n: tf.zeros((64, 784)) + tf.cast(n, tf.float32)).prefetch(2):
    pass
found = {}
for name, count, batch_size, accesses in (
    ("small", rows, 64, ("auto",)), ("small", rows, 1024, ("auto", "read")), ("large", large_rows, 2, ("auto", "mmap"))
):
    for access in accesses:
        begun = rss_anon()
        flow = nf.rows((f"{folder}/{name}.npy", np.arange(count)), access=(access, None))
        opened = rss_anon()
        last, used = None, 0
        for step, (x, y) in enumerate(flow.to_tf(batch_size, shuffle=True)):
            if step % 10 == 0:
                used = max(used, rss_anon())
            if step == 40:
                break
        marker = flow[count - 1][0]
        found[f"{name} {batch_size} {access}"] = {
            "opened": opened - begun,
            "used": used - begun,
            "spec": list(x.shape),
            "zeros": bool((x.numpy() == 0).all()) or count - 1 in y.numpy(),
            "marker": [float(marker.ravel()[-1]), float(marker.ravel()[0])],
            "cardinality": int(flow.to_tf(batch_size).cardinality()),
        }
        flow.close()
        del flow, x, y, marker
print(json.dumps(found))
"""


def sparse(path, shape):
    """Write a header, a hole, and a last value."""
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        size = file.tell() + int(np.prod(shape, dtype=np.int64)) * 4
        try:
            file.truncate(size)
        except OSError:
            pytest.skip("the file system holds no files of this size")
        file.seek(size - 4)
        file.write(np.float32(7).tobytes())
    if os.stat(path).st_blocks * 512 > 1 << 20:
        pytest.skip("the file system has no sparse files")
    return size


@pytest.fixture(scope="module")
def memory(tmp_path_factory):
    folder = tmp_path_factory.mktemp("memory")
    size = sparse(folder / "small.npy", (ROWS, 784))
    sparse(folder / "large.npy", (LARGE_ROWS, 784_000))
    assert size > 8e9
    yield run_child(OPEN, folder, ROWS, LARGE_ROWS)[0]
    for path in folder.iterdir():
        path.unlink()


@needs_proc
def test_an_8_gb_file_costs_no_memory(memory):
    assert len(memory) == 5
    for name, found in memory.items():
        # The row numbers beside them are an array of 21 MB.
        assert found["opened"] < 40e6, (name, found)
        assert found["used"] < 150e6, (name, found)


@needs_proc
def test_rows_behind_4_gb_are_the_right_ones(memory):
    for name, found in memory.items():
        assert found["marker"] == [7.0, 0.0], name
        assert found["zeros"], name
        large = name.startswith("large")
        rows, batch_size = (LARGE_ROWS, 2) if large else (ROWS, int(name.split()[1]))
        assert found["cardinality"] == -(-rows // batch_size)
        assert found["spec"] == [batch_size, 784_000 if large else 784]
