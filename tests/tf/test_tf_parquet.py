"""Parquet in TensorFlow: static shapes, true cardinalities, the values of arrays in the same order."""

import itertools

import numpy as np
import pytest
from tf_support import arrays_of, tf

import npyflow as nf
from npyflow._core.spec import ArraySpec
from npyflow._core.structure import Structure
from npyflow._flow.stored import open_parquet
from npyflow._format.schema import SCHEMA_FILE, Column, Schema, Shard

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.tf

N = 61


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((N, 4, 3)).astype("f4")
    y = np.arange(N)
    v = [rng.integers(0, 9, (n % 5, 2), "i4") for n in range(N)]
    return x, y, v


@pytest.fixture
def folder(tmp_path, data):
    from npyflow._write.parquet import ParquetFormat

    how = ParquetFormat(row_group_bytes=400)
    shapes = [ArraySpec((4, 3), np.dtype("f4")), ArraySpec((), np.dtype("i8")), ArraySpec((None, 2), np.dtype("i4"))]
    columns = tuple(Column(name=name, spec=spec) for name, spec in zip("xyv", shapes, strict=True))
    shards = []
    for start, stop in itertools.pairwise([0, 20, N]):
        path = tmp_path / f"{start}.parquet"
        writer = how.create([str(path)], columns, stop - start)
        writer.write([values[start:stop] for values in data])
        facts = writer.close()
        size = path.stat().st_size
        shards.append(Shard(examples=stop - start, files=(path.name,), sizes=(size,), sha256=("",), facts=facts))
    schema = Schema(
        to="parquet",
        options=how.options,
        structure=Structure(("x", {"y": "y", "v": "v"})),
        columns=columns,
        keys=tuple(f"k{at}" for at in range(N)),
        classes=None,
        shards=tuple(shards),
    )
    (tmp_path / SCHEMA_FILE).write_bytes(schema.to_json())
    return tmp_path


@pytest.mark.parametrize("shuffle", [False, True, nf.Shuffle(block=5, window=4)], ids=str)
def test_batches_are_those_of_arrays(folder, data, shuffle):
    x, y, v = data
    flow = open_parquet(folder)
    dataset = flow.to_tf(8, shuffle=shuffle, seed=3, pad=(None, {"y": None, "v": 0}), epochs=1)
    assert dataset.element_spec == (
        tf.TensorSpec((None, 4, 3), tf.float32),
        {"y": tf.TensorSpec((None,), tf.int64), "v": tf.TensorSpec((None, None, 2), tf.int32)},
    )
    assert int(dataset.cardinality()) == -(-N // 8)
    wanted = list(nf.rows(y).batches(8, shuffle=shuffle, seed=3))
    for element, rows in zip(dataset, wanted, strict=True):
        found = dict(zip(("x", "v", "y"), arrays_of(element), strict=True))
        np.testing.assert_array_equal(found["y"], y[rows])
        np.testing.assert_array_equal(found["x"], x[rows])
        for one, row in zip(found["v"], rows, strict=True):
            np.testing.assert_array_equal(one[: len(v[row])], v[row])
            assert not one[len(v[row]) :].any()


def test_single_examples_and_ragged(folder, data):
    _, _, v = data
    flow = open_parquet(folder)
    assert flow.keys is not None
    assert flow.keys[7] == "k7"
    for (_, example), want in zip(flow.to_tf(None, epochs=1), v, strict=True):
        np.testing.assert_array_equal(example["v"], want)
    for (_, batch), first in zip(flow.to_tf(7, ragged=True, epochs=1), range(0, N, 7), strict=True):
        for one, want in zip(batch["v"], v[first : first + 7], strict=True):
            np.testing.assert_array_equal(one.to_tensor() if hasattr(one, "to_tensor") else one, want)
