"""`nf.measure` with TensorFlow: the hand-over, TFRecord, and the recipes that it compares with."""

from __future__ import annotations

import importlib.util
import json
import os
import tempfile
import time

import numpy as np
import pytest

import npyflow as nf

pytestmark = pytest.mark.tf

tf = pytest.importorskip("tensorflow")
jobs = pytest.importorskip("npyflow._jobs.measure")


@pytest.fixture(autouse=True)
def short(monkeypatch, tmp_path):
    """A moment of time, and a folder for temporary files of its own."""
    from npyflow._measure import run, timing

    monkeypatch.setattr(jobs, "LEAST_SECONDS", 0.01)
    monkeypatch.setattr(timing, "_LEAST_PASS_S", 0.001)
    monkeypatch.setattr(run, "_OPTIONAL", ())
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def write(path, array):
    np.save(path, array)
    return str(path)


def measure(flow, **options):
    return jobs.measure(flow, **{"seconds": 0.5, "batch_size": 8, **options})


def many(folder, make):
    return [write(folder / f"{at}.npy", make(at)) for at in range(40)]


def test_a_folder_of_files(tmp_path, short, alive):
    flow = nf.files(many(tmp_path, lambda at: np.full((4, 3), at, ">f4")), labels=lambda key: int(key) % 3)
    found = measure(flow)
    document = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert document["machine"]["tensorflow"] == tf.__version__
    # The oldest versions are tested without the extras of the formats.
    converts = {"tfrecord"} if importlib.util.find_spec("google_crc32c") else set()
    assert {way.name for way in found.ways} == {"files", "packed", "ram", "recipe"} | converts, found.notes
    assert all(".to_tf(8, shuffle=True)" in way.call for way in found.ways if not way.recipe)
    assert "hand-over" in {stage.name for stage in found.stages}
    # TensorFlow's own go when the process ends.
    assert [name for name in os.listdir(short) if "autograph" not in name] == []
    del flow
    assert alive() == 0


@pytest.mark.parametrize("kind", ["numbers", "text"])
def test_different_lengths(tmp_path, kind):
    make = (lambda at: np.ones((at + 1, 2), "f4")) if kind == "numbers" else (lambda at: np.full(at % 3 + 1, "a"))
    found = measure(nf.files(many(tmp_path, make)))
    assert found.ways[0].call.endswith("pad=0)" if kind == "numbers" else "ragged=True)")
    assert {"files", "packed"} <= {way.name for way in found.ways}, found.notes


def test_what_tensorflow_does_not_take_is_measured_in_numpy(tmp_path):
    pytest.importorskip("ml_dtypes")
    path = write(tmp_path / "x.npy", np.zeros((50, 3), "V1"))
    found = measure(nf.rows(path, dtype="float8_e5m2"))
    assert found.ways[0].call.endswith(".batches(8, shuffle=True)")
    assert any("to_tf does not take this flow" in note for note in found.notes)


def rows_of(dataset):
    return [tuple(np.asarray(leaf) for leaf in batch) for batch in dataset]


def test_the_recipes_deliver_the_data(tmp_path):
    from npyflow._adapters import recipes
    from npyflow._measure.peers import _loader

    values = [np.arange(6).reshape(2, 3) + 10 * at for at in range(7)]
    archives = [str(tmp_path / f"{at}.npz") for at in range(len(values))]
    for path, value in zip(archives, values, strict=True):
        np.savez(path, x=value.astype("f4"))
    flows = [
        nf.files([write(tmp_path / f"{at}.npy", value.astype(">f4")) for at, value in enumerate(values)]),
        nf.files(archives),
    ]
    for flow in flows:
        view = flow._view
        loader = _loader(view, view.content.components[0])
        dataset = recipes.function_an_example(lambda at, loader=loader: [loader(int(at))], view.examples.specs, 7, 4)
        assert dataset.element_spec[0].shape.as_list() == [None, 2, 3]
        got = np.concatenate([batch[0] for batch in rows_of(dataset)])
        np.testing.assert_array_equal(got[np.argsort(got[:, 0, 0])], np.stack(values))
    (x, y), *_ = rows_of(recipes.slices([np.arange(5), np.arange(5) * 2], 5))
    np.testing.assert_array_equal(y, 2 * x)


def test_the_recipe_pads(tmp_path):
    from npyflow._adapters import recipes
    from npyflow._core.spec import ArraySpec

    spec = ArraySpec((None,), np.dtype("i8"))
    dataset = recipes.function_an_example(lambda at: [np.full(int(at) + 1, int(at) + 1)], [spec], 4, 4)
    ((batch,),) = rows_of(dataset)
    np.testing.assert_array_equal(np.sort((batch > 0).sum(axis=1)), [1, 2, 3, 4])


def test_a_drain_goes_on_and_begins_again():
    from npyflow._adapters.passes import Drain

    seen = []

    def note(number):
        seen.append(int(number))
        return number

    dataset = tf.data.Dataset.range(3).map(lambda at: tf.numpy_function(note, [at], tf.int64))
    drain = Drain(dataset)
    seen.clear()
    drain.restart()
    drain(2)
    drain(2)
    # Later ones may be read ahead.
    assert seen[:4] == [0, 1, 2, 0]
    seen.clear()
    drain.restart()
    drain(1)
    assert 0 in seen
    drain.stop()
    time.sleep(0.05)
    seen.clear()
    time.sleep(0.1)
    assert seen == []
