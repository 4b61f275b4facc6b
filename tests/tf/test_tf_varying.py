"""Examples of different lengths in TensorFlow: exact specs, true cardinalities, the values of `Flow.batches`."""

import numpy as np
import pytest
from tf_support import run_child, tf

import npyflow as nf
from npyflow import Bucket, Pad

keras = pytest.importorskip("keras")
pytestmark = pytest.mark.tf

# None is empty: TensorFlow's own `unbatch` crashes on that, so a test of its own has such in a process of its own.
LENGTHS = [3, 9, 1, 4, 4, 8, 7, 1, 5, 5, 2, 6, 4, 8, 9, 1, 6, 7, 3, 2, 5, 4, 2]
N = len(LENGTHS)

# How to make batches; the batch size of all is 4.
MODES = {
    "padded": {"pad": 0},
    "to a length": {"pad": Pad(to=10)},
    "masked": {"pad": Pad(-1, mask=True, lengths=True, multiple=4)},
    "bucketed": {"bucket": Bucket([3, 6]), "pad": Pad(to="bucket", lengths=True)},
    "few elements": {"bucket": Bucket(count=3, max_elements=50), "pad": 0},
    "ragged": {"ragged": True},
    "ragged buckets": {"ragged": True, "bucket": Bucket([3, 6])},
    "single": {},
}


def spec(shape, dtype):
    return tf.TensorSpec(shape, dtype)


def ragged_spec(shape, dtype, ragged_rank):
    return tf.RaggedTensorSpec(shape, dtype, ragged_rank, tf.int64)


def examples(lengths=LENGTHS, fixed=(3,), dtype="float32", axis=0):
    rng = np.random.default_rng(0)
    arrays = [(rng.random((n, *fixed)) * 100 + 1).astype(dtype).swapaxes(0, axis) for n in lengths]
    return [np.ascontiguousarray(array) for array in arrays]


def store(folder, arrays):
    folder.mkdir(parents=True)
    for at, array in enumerate(arrays):
        np.save(folder / f"{at:02}.npy", array)
    return folder


def rows(width=3):
    """A flow in memory, each example filled with its number plus one."""
    values = np.repeat(np.arange(1, N + 1, dtype=np.float32), LENGTHS)
    values = np.broadcast_to(values[:, None], (len(values), width)).copy()
    return nf.rows((nf.Ragged(values, counts=LENGTHS), np.arange(N)))


def size_of(mode):
    return None if mode == "single" else 4


def as_numpy(value):
    """A ragged tensor as the list of arrays that `Flow.batches` delivers."""
    if isinstance(value, tf.RaggedTensor):
        return [row.to_tensor().numpy() if isinstance(row, tf.RaggedTensor) else row.numpy() for row in value]
    return value.numpy()


def plain(element):
    if isinstance(element, dict):
        return {name: plain(value) for name, value in element.items()}
    if isinstance(element, tuple):
        return tuple(map(plain, element))
    return as_numpy(element) if isinstance(element, tf.Tensor | tf.RaggedTensor) else element


def assert_equal(got, want):
    """Same structure, dtypes, shapes and values, lists of arrays included."""
    assert type(got) is type(want)
    if isinstance(want, dict):
        assert set(got) == set(want)
        for name in want:
            assert_equal(got[name], want[name])
    elif isinstance(want, tuple | list):
        assert len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            assert_equal(one, other)
    else:
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        np.testing.assert_array_equal(got, want)


def from_numpy(flow, mode, epochs, **options):
    """Elements of these epochs as `Flow.batches` has them."""
    for epoch in epochs:
        if mode == "single":
            for index, batch in flow.batches(1, epoch=epoch, with_index=True, ragged=True, **options):
                yield index[0], (batch[0][0], batch[1][0])
        else:
            yield from flow.batches(4, epoch=epoch, with_index=True, **MODES[mode], **options)


# A batch of the wide ones is a read of its own.
WIDTHS = [*((mode, 3) for mode in MODES), ("masked", 30_000), ("bucketed", 30_000), ("ragged", 30_000)]


# Specs


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({"pad": 0}, (None, None, 3)),
        ({"pad": 0, "drop_remainder": True}, (4, None, 3)),
        ({"pad": Pad(to=10)}, (None, 10, 3)),
        ({"pad": Pad(to=5, truncate=True), "drop_remainder": True}, (4, 5, 3)),
        ({"pad": Pad(multiple=4)}, (None, None, 3)),
        ({"pad": Pad(to="bucket"), "bucket": Bucket([3, 6])}, (None, None, 3)),
        ({"pad": 0, "bucket": Bucket([3, 6]), "drop_remainder": True}, (4, None, 3)),
        # Buckets of long examples have smaller batches.
        ({"pad": 0, "bucket": Bucket([3, 6], max_elements=60), "drop_remainder": True}, (None, None, 3)),
    ],
    ids=str,
)
def test_spec_of_padded_batches(tmp_path, options, shape):
    flow = nf.files(store(tmp_path / "x", examples()), labels=np.arange(N))
    want = spec(shape, tf.float32)
    ds = flow.to_tf(4, **options)
    assert ds.element_spec == (want, spec(shape[:1], tf.int64))
    assert flow.to_tf(4, with_index=True, **options).element_spec[0] == spec(shape[:1], tf.int64)
    for element in ds:
        tf.nest.map_structure(
            lambda s, value: s.is_compatible_with(value) or pytest.fail(str(s)), ds.element_spec, element
        )


def test_spec_of_masks_and_lengths(tmp_path):
    mel, f0 = store(tmp_path / "mel", examples(fixed=(80,), axis=1)), store(tmp_path / "f0", examples(fixed=()))
    flow = nf.files(({"mel": mel}, f0))
    both = Pad(mask=True, lengths=True)
    assert flow.to_tf(4, pad=both).element_spec == (
        {
            "mel": spec((None, 80, None), tf.float32),
            "mel_mask": spec((None, None), tf.bool),
            "mel_length": spec((None,), tf.int64),
        },
        {
            "values": spec((None, None), tf.float32),
            "mask": spec((None, None), tf.bool),
            "length": spec((None,), tf.int64),
        },
    )
    ds = flow.to_tf(4, pad=({"mel": Pad(to=12, mask=True)}, Pad(0.5, to=9, lengths=True)), drop_remainder=True)
    assert ds.element_spec == (
        {"mel": spec((4, 80, 12), tf.float32), "mel_mask": spec((4, 12), tf.bool)},
        {"values": spec((4, 9), tf.float32), "length": spec((4,), tf.int64)},
    )


SHAPES = [(4, 2, 6), (1, 2, 3), (3, 2, 5), (2, 2, 8), (2, 2, 1)]


def test_spec_of_several_axes(tmp_path):
    arrays = [np.full(shape, at, "u1") for at, shape in enumerate(SHAPES)]
    flow = nf.files(store(tmp_path / "x", arrays))
    ds = flow.to_tf(2, pad=Pad(to=(5, 8), mask=True, lengths=True))
    assert ds.element_spec == {
        "values": spec((None, 5, 2, 8), tf.uint8),
        "mask": spec((None, 5, 8), tf.bool),
        "length": spec((None, 2), tf.int64),
    }
    assert flow.to_tf(2, pad=0).element_spec == spec((None, None, 2, None), tf.uint8)
    assert flow.to_tf().element_spec == spec((None, 2, None), tf.uint8)
    ds = flow.to_tf(2, ragged=True)
    assert ds.element_spec == ragged_spec((None, None, 2, None), tf.uint8, 3)
    got = [array for batch in ds for array in as_numpy(batch)]
    assert_equal(got, arrays)


@pytest.mark.parametrize(
    ("fixed", "axis", "shape", "ragged_rank"),
    [
        ((), 0, (None, None), 1),
        ((3,), 0, (None, None, 3), 1),
        ((2, 3), 0, (None, None, 2, 3), 1),
        ((3,), 1, (None, 3, None), 2),
        ((3, 2), 1, (None, 3, None, 2), 2),
        ((3, 2), 2, (None, 3, 2, None), 3),
    ],
)
@pytest.mark.parametrize("drop", [False, True])
def test_spec_and_values_of_ragged_batches(tmp_path, fixed, axis, shape, ragged_rank, drop):
    rng = np.random.default_rng(0)
    arrays = [np.moveaxis(rng.random((n, *fixed)), 0, axis) for n in LENGTHS]
    flow = nf.files(store(tmp_path / "x", arrays), labels=np.arange(N))
    ds = flow.to_tf(4, ragged=True, drop_remainder=drop)
    shape = (4 if drop else None, *shape[1:])
    assert ds.element_spec == (ragged_spec(shape, tf.float64, ragged_rank), spec(shape[:1], tf.int64))
    seen = 0
    for x, y in ds:
        assert isinstance(x, tf.RaggedTensor)
        assert ds.element_spec[0].is_compatible_with(x)
        assert x.ragged_rank == ragged_rank
        assert_equal(as_numpy(x), [arrays[at] for at in y.numpy()])
        seen += len(y)
    assert seen == (N // 4 * 4 if drop else N)


def test_what_does_not_vary_is_no_ragged_tensor(tmp_path):
    flow = nf.files({"x": store(tmp_path / "x", examples()), "y": store(tmp_path / "y", [np.zeros((2, 2))] * N)})
    assert flow.to_tf(4, ragged=True).element_spec == {
        "x": ragged_spec((None, None, 3), tf.float32, 1),
        "y": spec((None, 2, 2), tf.float64),
    }


def test_batches_of_empty_examples_are_batches():
    flow = nf.rows((nf.Ragged(np.arange(3.0), counts=[0, 0, 2, 0, 0, 1]), np.arange(6)))
    for options in ({"ragged": True}, {"pad": 0}):
        ds = flow.to_tf(2, **options)
        assert [y.numpy().tolist() for _, y in ds] == [[0, 1], [2, 3], [4, 5]]
        first = next(as_numpy(x) for x, _ in ds)
        assert [len(row) for row in first] == [0, 0]


EMPTY = """
import json
import numpy as np
import npyflow as nf

varying = nf.rows((nf.Ragged(np.arange(3.0), counts=[0, 0, 2, 0, 0, 1]), np.arange(6)))
fixed = nf.rows((np.zeros((6, 0, 3)), np.arange(6)))
print(json.dumps([[x.numpy().tolist() for x, _ in flow.to_tf()] for flow in (varying, fixed)]))
"""


def test_single_examples_may_be_empty():
    found, _ = run_child(EMPTY)
    assert found == [[[], [], [0, 1], [], [], [2]], [[]] * 6]


def test_ragged_batches_of_examples_without_a_label_and_empty_ones():
    flow = nf.rows(nf.Ragged(np.arange(3.0), counts=[0, 2, 0, 1]))
    for size in (1, 2, 3):
        got = [row.tolist() for batch in flow.to_tf(size, ragged=True) for row in as_numpy(batch)]
        assert got == [[], [0, 1], [], [2]]


def test_spec_of_single_examples(tmp_path):
    arrays = examples(axis=1)
    flow = nf.files(store(tmp_path / "x", arrays), labels=np.arange(N))
    ds = flow.to_tf()
    assert ds.element_spec == (spec((3, None), tf.float32), spec((), tf.int64))
    for (x, y), want in zip(ds, arrays, strict=True):
        np.testing.assert_array_equal(x, want)
        assert LENGTHS[int(y)] == want.shape[1]
    padded = flow.to_tf().padded_batch(4)
    assert [tuple(x.shape) for x, _ in padded] == [
        (len(part), 3, max(part)) for part in (LENGTHS[at : at + 4] for at in range(0, N, 4))
    ]


@pytest.mark.parametrize("dtype", ["?", "i8", "u1", "u2", "u4", "f2", "f8", "c16"])
def test_every_dtype(dtype):
    rng = np.random.default_rng(0)
    values = (rng.random(10) * 100).astype(dtype)
    parts = [values[:3], values[3:4], values[4:]]
    flow = nf.rows(nf.Ragged(values.astype(values.dtype.newbyteorder(">")), counts=[3, 1, 6]))
    batch = next(iter(flow.to_tf(3, ragged=True)))
    assert_equal(as_numpy(batch), parts)
    batch = next(iter(flow.to_tf(3, pad=1)))
    assert batch.dtype == tf.as_dtype(np.dtype(dtype))
    want = np.ones((3, 6), dtype)
    want[0, :3], want[1, :1], want[2] = parts
    np.testing.assert_array_equal(batch, want)
    assert_equal([x.numpy() for x in flow.to_tf()], parts)


@pytest.mark.parametrize("dtype", ["U3", "S3"])
def test_text_of_different_lengths(dtype):
    words = np.array(["a", "bé" if dtype == "U3" else "be", "", "xyz"], dtype)
    flow = nf.rows(nf.Ragged(words, counts=[1, 3]))
    raw = [word.encode() if isinstance(word, str) else word for word in words.tolist()]
    batch = next(iter(flow.to_tf(2, ragged=True)))
    assert batch.to_list() == [raw[:1], raw[1:]]
    batch = next(iter(flow.to_tf(2, pad="pad" if dtype == "U3" else b"pad")))
    assert batch.numpy().tolist() == [[raw[0], b"pad", b"pad"], raw[1:]]


def test_without_options_to_tf_says_what_to_do():
    with pytest.raises(nf.ShapeMismatchError) as caught:
        rows().to_tf(4)
    for part in ("pad=", "bucket=", "ragged=", "batch size"):
        assert part in str(caught.value)


def test_buckets_need_a_batch_size():
    with pytest.raises(nf.OptionError, match="batch size"):
        rows().to_tf(pad=0, bucket=Bucket([3]))


def test_single_examples_may_be_padded():
    ds = rows().to_tf(pad=Pad(to=10, mask=True, lengths=True))
    assert ds.element_spec[0] == {
        "values": spec((10, 3), tf.float32),
        "mask": spec((10,), tf.bool),
        "length": spec((), tf.int64),
    }
    for at, (x, _) in enumerate(ds):
        inside = np.arange(10) < LENGTHS[at]
        np.testing.assert_array_equal(x["values"], np.repeat(inside[:, None] * np.float32(at + 1), 3, 1))
        np.testing.assert_array_equal(x["mask"], inside)
        assert x["length"] == LENGTHS[at]


# Cardinality and values


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("options", [{"drop_remainder": True}, {"shard": (1, 3), "epochs": 3}], ids=str)
def test_cardinality_is_true(mode, options):
    if mode == "single" and "drop_remainder" in options:
        options = {}
    ds = rows().to_tf(size_of(mode), shuffle=True, **MODES[mode], **options)
    assert ds.cardinality().numpy() == sum(1 for _ in ds) == sum(1 for _ in ds) > 0


@pytest.mark.parametrize(("mode", "width"), WIDTHS)
def test_values_are_those_of_batches(mode, width):
    flow = rows(width)
    options = {"shuffle": True, "seed": 3}
    ds = flow.to_tf(size_of(mode), epochs=2, with_index=True, **options, **MODES[mode])
    count = 0
    for element, want in zip(ds, from_numpy(flow, mode, range(2), **options), strict=True):
        assert_equal(plain(element), want)
        count += 1
    assert count == ds.cardinality().numpy()


@pytest.mark.parametrize("mode", MODES)
def test_every_pass_is_another_epoch(mode):
    ds = rows().to_tf(size_of(mode), shuffle=True, **MODES[mode])
    passes = [np.concatenate([np.atleast_1d(y) for _, y in ds]).tolist() for _ in range(3)]
    assert all(sorted(one) == list(range(N)) for one in passes)
    assert len(set(map(str, passes))) == 3


def test_files_and_casts(tmp_path):
    arrays = examples(dtype="int16")
    flow = nf.files(store(tmp_path / "x", arrays), dtype="float32", labels=np.arange(N))
    for x, y in flow.to_tf(4, pad=np.nan, shuffle=True):
        for row, at in zip(x.numpy(), y.numpy(), strict=True):
            np.testing.assert_array_equal(row[: LENGTHS[at]], arrays[at])
            assert np.isnan(row[LENGTHS[at] :]).all()


def test_few_traces():
    # CASES 101
    lengths = np.clip(np.random.default_rng(0).lognormal(4, 0.4, 1000), 1, None).astype(int)
    flow = nf.rows(nf.Ragged(np.ones(lengths.sum(), "f4"), counts=lengths))
    traces = []

    @tf.function
    def step(x):
        traces.append(x.shape)
        return tf.reduce_sum(x)

    total = 0.0
    for x in flow.to_tf(8, bucket=Bucket(count=6), pad=Pad(to="bucket"), shuffle=True, drop_remainder=True):
        total += float(step(x))
    assert 1 < len(traces) <= 6
    assert 0.9 * lengths.sum() < total <= lengths.sum()


# Keras


def test_fit_on_padded_input_with_a_mask(tmp_path):
    keras.utils.set_random_seed(0)
    flow = nf.files({"mel": store(tmp_path / "mel", examples([n + 1 for n in LENGTHS]))}, labels=np.arange(N) % 2)
    ds = flow.to_tf(4, pad=Pad(to="bucket", mask=True), bucket=Bucket([5]), shuffle=True)
    mel = keras.Input((None, 3), name="mel")
    mask = keras.Input((None,), dtype="bool", name="mel_mask")
    hidden = keras.layers.GRU(4)(mel, mask=mask)
    model = keras.Model({"mel": mel, "mel_mask": mask}, keras.layers.Dense(1)(hidden))
    model.compile("sgd", "mse")
    history = model.fit(ds, epochs=2, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    assert np.isfinite(model.evaluate(ds, verbose=0))
    # What is padded is not seen: the same predictions from another padding.
    short = model.predict(flow.to_tf(4, pad=Pad(mask=True)), verbose=0)
    long = model.predict(flow.to_tf(4, pad=Pad(99.0, to=16, mask=True)), verbose=0)
    np.testing.assert_allclose(short, long, rtol=1e-4, atol=1e-5)


def test_fit_on_labels_of_each_frame(tmp_path):
    x, y = examples([n + 1 for n in LENGTHS]), [np.arange(n + 1) % 3 for n in LENGTHS]
    flow = nf.files((store(tmp_path / "x", x), store(tmp_path / "y", y)), same_length=("[0]", "[1]"))
    ds = flow.to_tf(4, pad=(0.0, -1), shuffle=True)
    assert ds.element_spec == (spec((None, None, 3), tf.float32), spec((None, None), tf.int64))
    model = keras.Sequential([keras.Input((None, 3)), keras.layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1)
    model.compile("sgd", loss)
    assert np.isfinite(model.fit(ds, epochs=2, verbose=0).history["loss"]).all()


def test_fit_on_files_with_several_outputs(tmp_path):
    # CASES 15, 16 and 110
    rng = np.random.default_rng(0)
    image, table = rng.random((10, 8, 8, 3)), rng.random((10, 7))
    box, label = rng.random((10, 4)), rng.random(10)
    parts = {"image": image, "tab": table, "cls": label, "box": box}
    folders = {name: store(tmp_path / name, list(array.astype("f4"))) for name, array in parts.items()}
    flow = nf.files(({key: folders[key] for key in ("image", "tab")}, {key: folders[key] for key in ("cls", "box")}))
    ds = flow.to_tf(4, shuffle=True)
    assert ds.element_spec == (
        {"image": spec((None, 8, 8, 3), tf.float32), "tab": spec((None, 7), tf.float32)},
        {"cls": spec((None,), tf.float32), "box": spec((None, 4), tf.float32)},
    )
    inputs = {"image": keras.Input((8, 8, 3), name="image"), "tab": keras.Input((7,), name="tab")}
    joined = keras.layers.Concatenate()([keras.layers.Flatten()(inputs["image"]), inputs["tab"]])
    outputs = {"cls": keras.layers.Dense(1, name="cls")(joined), "box": keras.layers.Dense(4, name="box")(joined)}
    model = keras.Model(inputs, outputs)
    model.compile("sgd", {"cls": "mse", "box": "mse"})
    model.fit(ds, epochs=1, verbose=0)
    assert model.predict(ds, verbose=0)["box"].shape == (10, 4)


# Going on


@pytest.mark.parametrize("mode", MODES)
def test_a_position_is_enough_to_go_on(mode):
    options = {"epochs": 3, "shuffle": True, "seed": 5, "with_index": True, **MODES[mode]}
    whole = [plain(element) for element in rows().to_tf(size_of(mode), **options)]
    steps = len(whole) // 3
    for epoch, step in ((0, 1), (1, 3)):
        ds = rows().to_tf(size_of(mode), start_epoch=epoch, start_step=step, **options)
        rest = whole[epoch * steps + step :]
        assert ds.cardinality().numpy() == len(rest)
        for got, want in zip(ds, rest, strict=True):
            assert_equal(plain(got), want)


@pytest.mark.parametrize(("mode", "width"), WIDTHS)
def test_a_checkpoint_goes_on_exactly(tmp_path, mode, width):
    options = {"epochs": 2, "shuffle": True, "seed": 5, **MODES[mode]}
    ds = rows(width).to_tf(size_of(mode), **options)
    iterator = iter(ds)
    for _ in range(ds.cardinality().numpy() // 2 + 1):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "state"))
    rest = [plain(element) for element in iterator]
    assert rest
    again = iter(rows(width).to_tf(size_of(mode), **options))
    tf.train.Checkpoint(iterator=again).read(path).assert_consumed()
    for got, want in zip(again, rest, strict=True):
        assert_equal(plain(got), want)


# Lifetime


@pytest.mark.parametrize("options", [{"epochs": 2}], ids=str)
def test_dropped_datasets_are_freed(alive, options):
    made = [rows().to_tf(size_of(mode), shuffle=True, **MODES[mode], **options) for mode in MODES]
    # The flows are gone, the datasets not.
    assert alive() == len(MODES)
    for ds in made:
        assert sum(1 for _ in ds) > 0
    iterators = [iter(ds) for ds in made]
    for iterator in iterators:
        next(iterator)
    del ds, made, iterator
    assert alive() == len(MODES)
    for iterator in iterators:
        assert sum(1 for _ in iterator) > 0
    del iterators, iterator
    assert alive() == 0


@pytest.mark.parametrize("mode", ["padded", "ragged"])
def test_a_failed_iteration_leaves_nothing_behind(alive, mode):
    values = np.full(30, 1e300)
    ds = nf.rows(nf.Ragged(values, counts=[10, 5, 15]), dtype="float32").to_tf(2, **MODES[mode])
    with pytest.raises(tf.errors.OpError):
        list(ds)
    del ds
    assert alive() == 0
