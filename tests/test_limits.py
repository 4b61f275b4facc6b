"""What needs a process of its own: few descriptors, little memory, a bare import."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from helpers import saved

resource = pytest.importorskip("resource")


def run(code: str, *args: object) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *map(str, args)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


THREE_THOUSAND = """
import os, resource, sys
import numpy as np
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
import npyflow as nf
folder = sys.argv[1]
flow = nf.files(folder)
assert len(flow) == 3000
most = 0
for epoch in range(2):
    seen = []
    for batch in flow.batches(100, shuffle=True, epoch=epoch):
        seen += batch[:, 0].tolist()
        most = max(most, len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0)
    assert sorted(seen) == list(range(3000))
shards = [os.path.join(folder, f"{n}.npy") for n in range(3000)]
for access in ("mmap", "read", "ram"):
    with nf.rows(shards, access=access) as flow:
        assert len(flow) == 30000
        total = 0
        for batch in flow.batches(10_000, shuffle=True):
            total += int(batch.sum())
            most = max(most, len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0)
        assert total == 10 * sum(range(3000))
print(most)
"""


def test_3000_files_under_a_limit_of_128_open_files(tmp_path):
    data = saved(np.zeros(10, "f4"))
    head = data[:128]
    for n in range(3000):
        (tmp_path / f"{n}.npy").write_bytes(head + np.full(10, n, "f4").tobytes())
    assert int(run(THREE_THOUSAND, tmp_path)) < 100


IMPORT = """
import sys
import npyflow
heavy = {"tensorflow", "keras", "click", "rich", "sklearn", "pandas", "h5py", "psutil", "torch"} & set(sys.modules)
assert not heavy, heavy
own = sorted(name for name in sys.modules if name.startswith("npyflow._adapters.") or name.startswith("npyflow._cli"))
assert not own, own
print(npyflow.__version__)
"""


def test_the_import_loads_numpy_alone():
    assert run(IMPORT).strip()


WITHOUT = """
import sys
sys.modules["tensorflow"] = None
sys.modules["keras"] = None
import numpy as np
import npyflow as nf
flow = nf.rows((np.zeros((10, 3), "f4"), np.arange(10)))
assert len(list(flow.batches(4, shuffle=True))) == 3
try:
    flow.to_tf(4)
except nf.MissingDependencyError as error:
    assert isinstance(error, ImportError)
    assert "pip install" in str(error) and "batches()" in str(error)
else:
    raise SystemExit("to_tf worked without TensorFlow")
"""


def test_everything_but_to_tf_works_without_tensorflow():
    run(WITHOUT)


SPARSE = """
import os, resource, sys
import numpy as np
import npyflow as nf
path = sys.argv[1]
resource.setrlimit(resource.RLIMIT_DATA, (600 << 20, 600 << 20))
with nf.rows(path, access=sys.argv[2]) as flow:
    assert len(flow) == 2_000_000
    for step, batch in enumerate(flow.batches(64, shuffle=True)):
        assert batch.shape == (64, 1024)
        assert not batch.any()
        if step == 5:
            break
    assert flow[-1][0] == 7
"""


@pytest.mark.parametrize("access", ["auto", "read"])
def test_a_file_far_larger_than_memory(tmp_path, access):
    path = tmp_path / "x.npy"
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (2_000_000, 1024)})
        start = file.tell()
        file.truncate(start + 2_000_000 * 4096)
        file.seek(start + 1_999_999 * 4096)
        file.write(np.float32(7).tobytes())
    run(SPARSE, path, access)


PICKLE = """
import pickle, sys
import numpy as np
with open(sys.argv[1], "rb") as file:
    flow = pickle.load(file)
for batch in flow.batches(7, shuffle=True, seed=3, epoch=2):
    print(*batch.tolist())
"""


def test_another_process_reads_the_same_order(tmp_path):
    import pickle

    import npyflow as nf

    np.save(tmp_path / "x.npy", np.arange(100))
    flow = nf.rows(tmp_path / "x.npy")[10:90]
    (tmp_path / "flow.pkl").write_bytes(pickle.dumps(flow))
    lines = [" ".join(map(str, batch.tolist())) for batch in flow.batches(7, shuffle=True, seed=3, epoch=2)]
    assert run(PICKLE, tmp_path / "flow.pkl").splitlines() == lines
