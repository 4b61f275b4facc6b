"""TFRecord: what we write, read by TensorFlow's own ops; what TensorFlow writes, read by us; `open_tfrecord`."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tf_support import tf

import npyflow as nf

sys.path.insert(0, str(Path(__file__).parents[1]))
pytest.importorskip("google_crc32c")

from npyflow._core.spec import ArraySpec
from npyflow._write.arrayrecord import ArrayRecordFormat
from npyflow._write.tfrecord import TFRecordFormat
from stored_support import DTYPES, N, columns_of, cut, dtype_of, identical, read_shard, values_of, write_stored

pytestmark = pytest.mark.tf

WAYS = [("raw", None), ("raw", "gzip"), ("list", None)]
SHAPES = [(), (2, 3), (0, 3)]
# TensorFlow has no dataset of float8_e5m2.
RUNNING = [*DTYPES, "bfloat16", "float8_e4m3fn"]


def stored(folder, values, encoding="raw", compression=None, **how):
    write_stored(folder, TFRecordFormat(encoding=encoding, compression=compression), values, **how)
    return nf.open_tfrecord(folder)


def as_numpy(tensor, like):
    """A tensor as NumPy has it: text is text."""
    array = tensor.numpy() if hasattr(tensor, "numpy") else tensor
    if like.dtype.kind == "U":
        array = np.array([one.decode("utf-8") for one in np.ravel(array)], like.dtype).reshape(np.shape(array))
    return np.asarray(array, like.dtype)


# TensorFlow's reader and parser, and ours


def test_plain_tensorflow_reads_it(tmp_path):
    x, y, text = values_of("f4", (3, 2)), np.arange(N), np.array([f"é{at}" for at in range(N)])
    records = stored(tmp_path / "d", {"x": x, "y": y, "t": text})
    features = {
        "x": tf.io.FixedLenFeature([], tf.string),
        "x/dtype": tf.io.FixedLenFeature([], tf.string),
        "x/shape": tf.io.FixedLenFeature([2], tf.int64),
        "t": tf.io.FixedLenFeature([], tf.string),
    }
    found = [tf.io.parse_single_example(one, features) for one in tf.data.TFRecordDataset(records.files)]
    assert len(found) == N
    for at, one in enumerate(found):
        assert one["x/dtype"].numpy() == b"<f4"
        assert one["x/shape"].numpy().tolist() == [3, 2]
        identical(tf.reshape(tf.io.decode_raw(one["x"], tf.float32), (3, 2)).numpy(), x[at])
        assert one["t"].numpy().decode() == text[at]


def test_a_record_says_what_it_is(tmp_path):
    """With nothing but protobuf and NumPy."""
    x = values_of("bfloat16", (3, 2))
    records = stored(tmp_path / "d", x)
    record = next(tf.data.TFRecordDataset(records.files).as_numpy_iterator())
    feature = tf.train.Example.FromString(record).features.feature
    dtype = dtype_of(feature["data/dtype"].bytes_list.value[0].decode())
    shape = list(feature["data/shape"].int64_list.value)
    identical(np.frombuffer(feature["data"].bytes_list.value[0], dtype).reshape(shape), x[0])


@pytest.mark.parametrize("name", ["?", "u1", "i2", "i8", "f2", "f4", "bfloat16"])
def test_lists_are_what_the_tutorials_write(tmp_path, name):
    x = values_of(name, (5,))
    records = stored(tmp_path / "d", {"x": x}, "list")
    for at, record in enumerate(tf.data.TFRecordDataset(records.files).as_numpy_iterator()):
        if x.dtype.kind in "biu":
            value = tf.train.Feature(int64_list=tf.train.Int64List(value=x[at].astype(int)))
        else:
            value = tf.train.Feature(float_list=tf.train.FloatList(value=x[at].astype("f4")))
        want = tf.train.Example(features=tf.train.Features(feature={"x": value}))
        assert record == want.SerializeToString()


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_what_tensorflow_writes_is_read(tmp_path, compression):
    x, y = values_of("f4", (4,), 20), values_of("i8", (2,), 20)
    with tf.io.TFRecordWriter(str(tmp_path / "x"), "GZIP" if compression else None) as writer:
        for one, other in zip(x, y, strict=True):
            feature = {
                "c1": tf.train.Feature(int64_list=tf.train.Int64List(value=other)),
                "other": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"x"])),
                "c0": tf.train.Feature(float_list=tf.train.FloatList(value=one)),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    got = read_shard(TFRecordFormat(encoding="list", compression=compression), tmp_path / "x", columns_of([x, y]), 20)
    identical(got[0], x)
    identical(got[1], y)


# open_tfrecord


def listed(name):
    """Say whether a list keeps it; float64 and uint64 it may change."""
    return name not in ("c8", "c16", "f8", "u8")


@pytest.mark.parametrize(("encoding", "compression"), WAYS)
def test_every_dtype_and_shape(tmp_path, encoding, compression):
    names = [name for name in RUNNING if encoding == "raw" or listed(name)]
    values = tuple(values_of(name, shape) for name in names for shape in SHAPES)
    records = stored(tmp_path / "d", values, encoding, compression)
    batched = records.to_tf(4)
    assert batched.cardinality() == 3
    for spec, value in zip(batched.element_spec, values, strict=True):
        assert spec.shape.as_list() == [None, *value.shape[1:]]
        assert spec.dtype == (tf.string if value.dtype.kind in "US" else tf.as_dtype(value.dtype))
    batches, singles = list(batched), list(records.to_tf())
    for leaf, want in enumerate(values):
        got = np.concatenate([as_numpy(batch[leaf], want) for batch in batches])
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.stack([as_numpy(one[leaf], want) for one in singles]), want)


@pytest.mark.parametrize("encoding", ["raw", "list"])
def test_examples_of_different_lengths(tmp_path, encoding):
    want = {name: cut(values_of(name, (4, 2))) for name in ("f4", "i2", "?", "U3", "bfloat16", "u4")}
    records = stored(tmp_path / "d", {"x": want, "n": np.arange(N)}, encoding)
    assert str(records.spec["x"]["f4"]) == "float32 (None, 2)"
    single, ragged = records.to_tf(), records.to_tf(4, ragged=True)
    padded = records.to_tf(4, pad={"x": dict.fromkeys(want, 1) | {"U3": "z", "?": True}}, drop_remainder=True)
    assert single.element_spec["x"]["i2"].shape.as_list() == [None, 2]
    assert isinstance(ragged.element_spec["x"]["i2"], tf.RaggedTensorSpec)
    assert padded.element_spec["x"]["i2"].shape.as_list() == [4, None, 2]
    singles, raggeds, batches = list(single), list(ragged), list(padded)
    for name, each in want.items():
        rows = [row for batch in raggeds for row in batch["x"][name]]
        for row, alone, one in zip(rows, singles, each, strict=True):
            np.testing.assert_array_equal(as_numpy(row, one), one)
            np.testing.assert_array_equal(as_numpy(alone["x"][name], one), one)
        for batch in batches:
            for row, at in zip(batch["x"][name], batch["n"].numpy(), strict=True):
                row, one = as_numpy(row, each[at]), each[at]
                np.testing.assert_array_equal(row[: len(one)], one)
                assert (row[len(one) :] == np.array("z" if name == "U3" else 1, one.dtype)).all()


def test_structure_keys_and_classes(tmp_path):
    keys = tuple(f"k{at}" for at in range(N))
    tree = {"x": values_of("f4", (3,)), "more": (np.arange(N), {"deep": values_of("u1", ())})}
    records = stored(tmp_path / "d", tree, keys=keys, classes=("a", "b"))
    assert (len(records), records.keys, records.classes) == (N, keys, ("a", "b"))
    assert records.spec["more"][1]["deep"] == ArraySpec((), np.dtype("u1"))
    assert "11 examples in 2 files" in repr(records)
    (batch,) = records.to_tf(N, drop_remainder=True)
    assert list(batch) == ["x", "more"] or sorted(batch) == ["more", "x"]
    np.testing.assert_array_equal(batch["more"][1]["deep"], tree["more"][1]["deep"])
    assert records.to_tf(4, drop_remainder=True).element_spec["x"].shape.as_list() == [4, 3]
    assert stored(tmp_path / "e", np.arange(N)).keys.tolist() == list(range(N))


def passes(dataset, count):
    return [np.concatenate([np.atleast_1d(one) for one in dataset.as_numpy_iterator()]).tolist() for _ in range(count)]


def test_shuffled(tmp_path):
    n = 400
    records = stored(tmp_path / "d", np.arange(n), cuts=(0, 100, 130, 300, n))
    plain = list(range(n))
    assert passes(records.to_tf(32), 1) == [plain]
    for shuffle in (True, 50):
        first, second = passes(records.to_tf(32, shuffle=shuffle, seed=1), 2)
        assert sorted(first) == sorted(second) == plain
        assert first != plain
        assert first != second
        assert passes(records.to_tf(32, shuffle=shuffle, seed=1), 1) == [first]
        assert passes(records.to_tf(32, shuffle=shuffle, seed=2), 1) != [first]


def test_epochs(tmp_path):
    records = stored(tmp_path / "d", np.arange(N))
    dataset = records.to_tf(4, shuffle=True, epochs=3)
    assert dataset.cardinality() == 9
    sizes = [len(batch) for batch in dataset]
    assert sizes == [4, 4, 3] * 3
    assert records.to_tf(4, epochs=2, drop_remainder=True).cardinality() == 4


def test_no_examples(tmp_path):
    records = stored(tmp_path / "d", np.arange(0), cuts=(0, 0))
    assert list(records.to_tf(4)) == []
    assert list(records.to_tf(shuffle=True)) == []


def test_in_keras_and_in_a_function(tmp_path):
    x, y = values_of("f4", (3,)), np.arange(N) % 2
    records = stored(tmp_path / "d", (x, y))
    model = tf.keras.Sequential([tf.keras.layers.Dense(2)])
    model.compile(loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    assert len(model.fit(records.to_tf(4, shuffle=True), epochs=2, verbose=0).history["loss"]) == 2

    @tf.function
    def total():
        result = tf.constant(0, tf.int64)
        for _, label in records.to_tf(4):
            result += tf.reduce_sum(label)
        return result

    assert total() == y.sum()


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"batch_size": 4}, nf.ShapeMismatchError, "pass pad=0.0 to fill them up, ragged=True"),
        ({"batch_size": 4, "pad": nf.Pad(0, mask=True)}, nf.OptionError, "mask="),
        ({"batch_size": 4, "pad": nf.Pad(0, to=9)}, nf.OptionError, "to= and multiple="),
        ({"batch_size": 4, "pad": nf.Pad(0, multiple=8)}, nf.OptionError, "multiple="),
        ({"batch_size": 4, "pad": 0, "ragged": True}, nf.OptionError, "exclude each other"),
        ({"batch_size": 4, "pad": 0.5}, nf.OptionError, "no value of int16"),
        ({"pad": 0}, nf.OptionError, "without batch_size"),
        ({"batch_size": 0}, nf.OptionError, "batch_size=0"),
        ({"shuffle": 0}, nf.OptionError, "shuffle=0"),
        ({"shuffle": "yes"}, nf.OptionError, "shuffle='yes'"),
        ({"epochs": 0}, nf.OptionError, "epochs=0"),
        ({"seed": 1.5}, nf.OptionError, "seed=1.5"),
    ],
)
def test_options(tmp_path, options, error, text):
    records = stored(tmp_path / "d", cut(values_of("i2", (4,))))
    with pytest.raises(error, match=text):
        records.to_tf(**options)


def test_what_tensorflow_cannot_deliver(tmp_path):
    records = stored(tmp_path / "d", values_of("float8_e5m2", (3,)))
    with pytest.raises(nf.UnsupportedDtypeError, match="no dataset of it runs"):
        records.to_tf(4)


def test_damage_is_an_error_of_tensorflow(tmp_path):
    records = stored(tmp_path / "d", values_of("f4", (30,)))
    path = Path(records.files[1])
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)
    with pytest.raises(tf.errors.DataLossError, match="corrupted record"):
        list(records.to_tf(4))


def test_arrayrecord_has_all_options(tmp_path):
    pytest.importorskip("array_record")
    x, y = values_of("f4", (3, 2), 50), cut(values_of("i2", (4,), 50))
    write_stored(tmp_path / "d", ArrayRecordFormat(), {"x": x, "y": y}, (0, 20, 50))
    flow = nf.open_arrayrecord(tmp_path / "d")
    for how in ({"pad": 0}, {"ragged": True}, {"pad": 0, "bucket": nf.Bucket(count=2)}):
        seen = []
        for index, batch in flow.to_tf(8, shuffle=True, with_index=True, **how):
            np.testing.assert_array_equal(batch["x"], x[index.numpy()])
            for row, at in zip(batch["y"], index.numpy().tolist(), strict=True):
                np.testing.assert_array_equal(row.numpy()[: len(y[at])], y[at])
                seen.append(at)
        assert sorted(seen) == list(range(50))


# The program without npyflow

PROGRAM = """
{snippet}
import numpy as np

flat = [tf.nest.flatten(one) for one in dataset]
for leaf, arrays in enumerate(zip(*flat)):
    for number, array in enumerate(arrays):
        array = array.numpy()
        if array.dtype == object:
            array = np.array([one.hex() for one in np.ravel(array)]).reshape(array.shape)
        if array.dtype.kind == "V":
            array = array.astype("f4")
        np.save(f"{folder}/{{leaf}}-{{number}}.npy", array)
"""


def run_snippets(folder, *data):
    """The leaves of each element, in the order in which TensorFlow sorts them; for each data set."""
    code = "import sys\n\nsys.modules['npyflow'] = None\n"
    for number, records in enumerate(data):
        (folder / str(number)).mkdir(parents=True)
        code += PROGRAM.format(snippet=records.snippet(), folder=folder / str(number))
    subprocess.run([sys.executable, "-W", "error::SyntaxWarning", "-c", code], check=True, capture_output=True)
    return [_saved(folder / str(number)) for number in range(len(data))]


def _saved(folder):
    found = {}
    for path in folder.glob("*.npy"):
        leaf, number = map(int, path.stem.split("-"))
        found.setdefault(leaf, {})[number] = np.load(path)
    return [[found[leaf][number] for number in sorted(found[leaf])] for leaf in sorted(found)]


def plain(array):
    if array.dtype.kind in "US":
        texts = [one.encode("utf-8") if isinstance(one, str) else bytes(one) for one in array.ravel().tolist()]
        return np.array([one.hex() for one in texts]).reshape(array.shape)
    if array.dtype.name.startswith("float8"):
        return array.view(np.uint8)
    return array.astype("f4") if array.dtype.kind == "V" else array


def test_the_snippets_read_it_without_npyflow(tmp_path):
    data, wanted = [], []
    for way in WAYS:
        names = [name for name in RUNNING if way[0] == "raw" or (listed(name) and name != "float8_e4m3fn")]
        arrays = [*(values_of(name, (2, 3)) for name in names), values_of("f4", (0, 3)), values_of("i8", ())]
        tree = tuple({"it's": array} if at % 2 else array for at, array in enumerate(arrays[:-1]))
        data.append(stored(tmp_path / f"it's {{here}} {len(data)}", (*tree, arrays[-1]), *way))
        wanted.append(arrays)
    lengths = [cut(values_of(name, (4, 2))) for name in ("f4", "i2", "U3")]
    data += [stored(tmp_path / encoding, (*lengths, np.arange(N)), encoding) for encoding in ("raw", "list")]
    *fixed, first, second = run_snippets(tmp_path / "out", *data)
    for leaves, arrays in zip(fixed, wanted, strict=True):
        for parts, array in zip(leaves, arrays, strict=True):
            np.testing.assert_array_equal(np.concatenate(parts), plain(array))
    for leaves in (first, second):
        for parts, each in zip(leaves, [*lengths, list(np.arange(N))], strict=True):
            for part, one in zip(parts, each, strict=True):
                np.testing.assert_array_equal(part, plain(one))
