"""Without TensorFlow everything but `to_tf` works, and `to_tf` says what to install."""

import numpy as np
import pytest
from tf_support import open_form, run_child

pytestmark = pytest.mark.tf

WITHOUT = """
import importlib.abc, json, os, pickle, sys

class Blocker(importlib.abc.MetaPathFinder):
    asked = []
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"tensorflow", "keras", "ml_dtypes", "sklearn"}:
            self.asked.append(name)
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
import numpy as np
import npyflow as nf

folder = sys.argv[1]
found = {"after_import": list(Blocker.asked)}
x, y = np.load(f"{folder}/x.npy"), np.load(f"{folder}/y.npy")

def check(flow):
    got = list(flow.batches(8, shuffle=True, with_index=True))
    rows = np.concatenate([index for index, _ in got])
    return (
        sorted(rows.tolist()) == list(range(len(x)))
        and np.array_equal(np.concatenate([a for _, (a, _) in got]), x[rows])
        and np.array_equal(np.concatenate([b for _, (_, b) in got]), y[rows])
    )

rows = nf.rows((f"{folder}/x.npy", f"{folder}/y.npy"))
files = nf.files(f"{folder}/one", labels=f"{folder}/y.npy")
found["rows"], found["files"], found["arrays"] = check(rows), check(files), check(nf.rows((x, y)))
found["pickled"] = check(pickle.loads(pickle.dumps(rows)))
rows.save(f"{folder}/flow.json")
found["loaded"] = check(nf.load(f"{folder}/flow.json"))
found["one"] = np.array_equal(rows[3][0], x[3])
found["split"] = [len(part) for part in rows.split(0.5)]
found["words"] = len(rows.describe())
found["asked"] = list(Blocker.asked)
errors = []
for kind in (nf.MissingDependencyError, ImportError):
    try:
        rows.to_tf(8)
    except kind as error:
        errors.append([type(error).__name__, str(error)])
found["errors"] = errors
try:
    rows.to_tf(0)
except nf.OptionError:
    found["options_first"] = True
found["modules"] = sorted(name for name in sys.modules if name.partition(".")[0] in {"tensorflow", "keras"})
print(json.dumps(found))
"""

BROKEN = """
import json, sys, os
folder = sys.argv[1]
os.makedirs(f"{folder}/broken/tensorflow")
with open(f"{folder}/broken/tensorflow/__init__.py", "w") as file:
    file.write("import a_part_that_is_missing")
sys.path.insert(0, f"{folder}/broken")
import numpy as np
import npyflow as nf
try:
    nf.rows(np.zeros(3)).to_tf(1)
except Exception as error:
    print(json.dumps([type(error).__name__, str(error)]))
"""


@pytest.fixture(scope="module")
def without(tmp_path_factory):
    folder = tmp_path_factory.mktemp("without")
    x = np.arange(80, dtype=">f4").reshape(20, 4)
    open_form("read", folder, x, np.arange(20))
    (folder / "one").mkdir()
    for at, row in enumerate(x):
        np.save(folder / "one" / f"{at:02}.npy", row)
    return run_child(WITHOUT, folder)[0]


def test_to_tf_says_what_to_install(without):
    assert [name for name, _ in without["errors"]] == ["MissingDependencyError", "MissingDependencyError"]
    text = without["errors"][0][1]
    assert "npyflow[tf]" in text
    assert "TensorFlow" in text
    assert "batches()" in text


def test_everything_else_works(without):
    assert all(without[name] for name in ("rows", "files", "arrays", "pickled", "loaded", "one", "words"))
    assert without["split"] == [10, 10]
    assert without["options_first"]


def test_nothing_asks_for_tensorflow_before_to_tf(without):
    assert without["after_import"] == without["asked"] == without["modules"] == []


def test_a_broken_installation_keeps_its_own_error(tmp_path):
    (kind, text), _ = run_child(BROKEN, tmp_path)
    assert kind == "ModuleNotFoundError"
    assert "a_part_that_is_missing" in text
