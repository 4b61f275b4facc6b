"""`map` and `sample=` through the dataset: what `Flow.batches` gives, at any number of threads, and after a break."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tf_support import assert_same, run_child, tf

import npyflow as nf

pytestmark = pytest.mark.tf

N = 200
LABELS = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [170, 24, 6]))
X = np.random.default_rng(1).random((N, 4, 3), np.float32)
SHUFFLES = {"shuffled": True, "blocks": nf.Shuffle(block=8, window=3)}
SAMPLES = {
    "balanced": nf.Balanced(),
    "replace": nf.Balanced(size=150, replace=True),
    "classes": {0: 1, 1: 2, 2: 7},
    "weights": LABELS + 1.0,
    "few": nf.Balanced(LABELS + 1.0, size=77),
}


def augment(example, rng):
    """Flip at random, and say the draw: image and label by one generator."""
    x, y = example
    if rng.random() < 0.5:
        x = x[::-1]
    return {"x": x + np.float32(rng.random()), "draw": rng.integers(2**62)}, y


def cut(example, rng):
    x, y = example
    return x[: rng.integers(1, 5)], y


CUT = (nf.ArraySpec((None, 3), np.dtype("f4")), nf.ArraySpec((), np.dtype("i8")))


def open_rows():
    return nf.rows((X, LABELS))


def mapped():
    return open_rows().map(augment, seed=5)


@pytest.fixture(params=["arrays", "read", "files"])
def flow(request, tmp_path):
    if request.param == "arrays":
        return open_rows()
    if request.param == "files":
        for n, x in enumerate(X):
            np.save(tmp_path / f"{n:03}.npy", x)
        return nf.files(tmp_path, labels={f"{n:03}": y for n, y in enumerate(LABELS)})
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", LABELS)
    return nf.rows((tmp_path / "x.npy", tmp_path / "y.npy"), access=request.param)


# What batches() gives


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_a_map_equals_batches(flow, shuffle):
    options = {"shuffle": SHUFFLES[shuffle], "seed": 2, "with_index": True}
    flow = flow.map(augment, seed=5)
    got = list(flow.to_tf(32, epochs=2, **options).as_numpy_iterator())
    expected = [list(flow.batches(32, epoch=epoch, **options)) for epoch in range(2)]
    assert_same(got, expected[0] + expected[1])
    reference = np.concatenate([x["draw"] for x, _ in mapped().batches(64)])
    for index, (x, y) in got[:7]:
        np.testing.assert_array_equal(x["draw"], reference[index])
        np.testing.assert_array_equal(y, LABELS[index])


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_equals_batches(flow, name):
    options = {"sample": SAMPLES[name], "seed": 2, "with_index": True}
    for drop in (False, True):
        ds = flow.to_tf(32, epochs=2, drop_remainder=drop, **options)
        got = list(ds.as_numpy_iterator())
        expected = [list(flow.batches(32, epoch=epoch, drop_remainder=drop, **options)) for epoch in range(2)]
        assert_same(got, expected[0] + expected[1])
        assert len(got) == ds.cardinality()
    for index, (x, y) in got:
        np.testing.assert_array_equal(x, X[index])
        np.testing.assert_array_equal(y, LABELS[index])


@pytest.mark.parametrize("name", SAMPLES)
def test_both_equal_batches(name):
    options = {"sample": SAMPLES[name], "seed": 2, "with_index": True}
    got = list(mapped().to_tf(16, **options).as_numpy_iterator())
    assert_same(got, mapped().batches(16, **options))
    draws = [int(v) for _, (x, _) in got for v in x["draw"]]
    assert len(set(draws)) == len(draws)


def test_every_pass_is_the_next_epoch():
    for flow, options in (
        (open_rows(), {"sample": nf.Balanced()}),
        (mapped(), {}),
        (mapped(), {"sample": LABELS + 1.0}),
    ):
        ds = flow.to_tf(32, **options)
        for epoch in range(3):
            assert_same(ds.as_numpy_iterator(), flow.batches(32, epoch=epoch, **options))


@pytest.mark.parametrize(
    "options", [{}, {"sample": nf.Balanced()}, {"shuffle": True}], ids=["order", "sample", "shuffle"]
)
def test_single_examples(options):
    flow = mapped()
    got = list(flow.to_tf(**options).as_numpy_iterator())
    expected = [
        ({"x": row, "draw": draw}, label)
        for x, y in flow.batches(64, **options)
        for row, draw, label in zip(x["x"], x["draw"], y, strict=True)
    ]
    assert_same(got, expected)


def test_shards_are_the_epoch():
    for options in ({"shuffle": True}, {"sample": nf.Balanced()}, {"sample": LABELS + 1.0}):
        whole = [int(v) for x, _ in mapped().batches(64, **options) for v in x["draw"]]
        for index in range(3):
            ds = mapped().to_tf(16, epochs=1, shard=(index, 3), **options)
            assert [int(v) for x, _ in ds.as_numpy_iterator() for v in x["draw"]] == whole[index::3]


def test_padded_and_ragged_after_map():
    flow = open_rows().map(cut, spec=CUT)
    ds = flow.to_tf(16, pad=(nf.Pad(0.0, mask=True, lengths=True), None), shuffle=True)
    assert ds.element_spec[0]["values"].shape == (None, None, 3)
    assert ds.element_spec[0]["mask"] == tf.TensorSpec((None, None), tf.bool)
    assert ds.element_spec[0]["length"] == tf.TensorSpec((None,), tf.int64)
    assert_same(
        ds.as_numpy_iterator(), flow.batches(16, pad=(nf.Pad(0.0, mask=True, lengths=True), None), shuffle=True)
    )
    fixed = flow.to_tf(16, pad=nf.Pad(0.0, to=4))
    assert fixed.element_spec[0] == tf.TensorSpec((None, 4, 3), tf.float32)
    for (got, labels), (rows, expected) in zip(flow.to_tf(16, ragged=True), flow.batches(16, ragged=True), strict=True):
        assert isinstance(got, tf.RaggedTensor)
        np.testing.assert_array_equal(labels, expected)
        for one, other in zip(got, rows, strict=True):
            np.testing.assert_array_equal(one, other)
    with pytest.raises(nf.ShapeMismatchError, match="pad="):
        flow.to_tf(16)


def test_windows_and_crops_after_map(tmp_path):
    windows = nf.windows(np.arange(60.0), length=6, horizon=2).map(lambda e, rng: (e[0] + rng.random(), e[1][0]))
    ds = windows.to_tf(8, shuffle=True)
    assert ds.element_spec == (tf.TensorSpec((None, 6), tf.float64), tf.TensorSpec((None,), tf.float64))
    assert_same(ds.as_numpy_iterator(), windows.batches(8, shuffle=True))
    for n in range(10):
        np.save(tmp_path / f"{n}.npy", np.arange(100) + 1000 * n)
    crops = nf.files(tmp_path, crop=nf.Crop((5,), random=True, per_file=3)).map(lambda x, rng: x + rng.integers(2))
    assert_same(crops.to_tf(8, epochs=1, sample=np.ones(30)).as_numpy_iterator(), crops.batches(8, sample=np.ones(30)))


def test_text_and_scalars_after_map():
    flow = nf.rows(np.arange(20)).map(lambda n, rng: {"t": f"é{int(n):02}", "b": bool(n % 2), "f": 0.5, "s": b"ab"})
    ds = flow.to_tf(8)
    assert ds.element_spec == {
        "t": tf.TensorSpec((None,), tf.string),
        "b": tf.TensorSpec((None,), tf.bool),
        "f": tf.TensorSpec((None,), tf.float64),
        "s": tf.TensorSpec((None,), tf.string),
    }
    batch = next(ds.as_numpy_iterator())
    assert [text.decode() for text in batch["t"]] == [f"é{n:02}" for n in range(8)]
    assert batch["b"].tolist() == [False, True] * 4
    assert batch["s"].tolist() == [b"ab"] * 8


# Sizes and specs


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("size", [None, 1, 31, 32, 33, 500])
def test_the_cardinality_is_exact(size, drop):
    sample = nf.Balanced(size=size)
    length = size or N
    for batch_size in (1, 32, 1000):
        steps = length // batch_size if drop else -(-length // batch_size)
        ds = open_rows().to_tf(batch_size, sample=sample, drop_remainder=drop)
        assert ds.cardinality() == steps
        if batch_size > 1:
            assert sum(1 for _ in ds) == steps
    steps = length // 32 if drop else -(-length // 32)
    assert open_rows().to_tf(32, sample=sample, drop_remainder=drop, epochs=3).cardinality() == 3 * steps


def test_the_element_spec_is_exact():
    for drop in (False, True):
        size = 32 if drop else None
        spec = (
            {
                "x": tf.TensorSpec((size, 4, 3), tf.float32),
                "draw": tf.TensorSpec((size,), tf.int64),
            },
            tf.TensorSpec((size,), tf.int64),
        )
        assert mapped().to_tf(32, drop_remainder=drop).element_spec == spec
        index = tf.TensorSpec((size,), tf.int64)
        sampled = mapped().to_tf(32, drop_remainder=drop, sample=nf.Balanced(), with_index=True)
        assert sampled.element_spec == (index, spec)
    assert mapped().to_tf().element_spec[0]["x"] == tf.TensorSpec((4, 3), tf.float32)


def test_classes_have_their_shares():
    ds = open_rows().to_tf(16, sample=nf.Balanced(), epochs=3)
    found = Counter(int(y) for _, ys in ds for y in ys)
    assert sorted(found.values()) in (
        [200, 200, 200],
        [199, 200, 201],
        [198, 201, 201],
        [199, 199, 202],
        [198, 200, 202],
    )


def test_refused_as_in_batches():
    flow = open_rows()
    for options, words in (
        ({"sample": np.ones(3)}, r"\b3\b.*200"),
        ({"sample": nf.Balanced(), "bucket": nf.Bucket(count=2)}, "bucket"),
        ({"sample": {0: 1}}, "class"),
        ({"sample": nf.Balanced(size=64), "epochs": 1, "start_step": 3}, "start_step=3.*2 steps"),
    ):
        with pytest.raises(nf.NpyflowError, match=words):
            flow.to_tf(32, **options)


# Threads


def stream_of(ds, threads):
    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    options.threading.max_intra_op_parallelism = threads
    return [
        b"".join(np.asarray(leaf).tobytes() for leaf in tf.nest.flatten(element))
        for element in ds.with_options(options).as_numpy_iterator()
    ]


@pytest.mark.parametrize("options", [{"shuffle": True}, {"sample": nf.Balanced()}], ids=["shuffle", "sample"])
@pytest.mark.parametrize("batch_size", [8, None])
def test_threads_do_not_matter(options, batch_size, tmp_path):
    """Batches large enough to be a read each, so that several are made at once."""
    for n in range(60):
        np.save(tmp_path / f"{n:02}.npy", np.full(60_000, n, np.float32))
    flow = nf.files(tmp_path, labels={f"{n:02}": n % 3 for n in range(60)})
    flow = flow.map(
        lambda example, rng: (example[0][:50_000] * np.float32(rng.random()), example[1], rng.integers(2**62))
    )
    streams = [stream_of(flow.to_tf(batch_size, epochs=2, **options), threads) for threads in (1, 4, 4)]
    assert len(streams[0]) == 2 * (8 if batch_size else 60)
    assert streams[0] == streams[1] == streams[2]


# Going on

STREAMS = {"shuffle": {"shuffle": True}, **{name: {"sample": SAMPLES[name]} for name in ("balanced", "replace", "few")}}


@pytest.mark.parametrize("start", [(0, 3), (1, 0), (2, 6)])
@pytest.mark.parametrize(
    "options", [{"shuffle": True}, *({"sample": sample} for sample in SAMPLES.values())], ids=["shuffle", *SAMPLES]
)
def test_a_position_is_enough_to_go_on(start, options):
    epoch, step = start
    flow = mapped()
    whole = list(flow.to_tf(20, epochs=3, **options).as_numpy_iterator())
    steps = len(whole) // 3
    step = min(step, steps - 1)
    resumed = flow.to_tf(20, epochs=3, start_epoch=epoch, start_step=step, **options)
    assert resumed.cardinality() == len(whole) - epoch * steps - step
    assert_same(resumed.as_numpy_iterator(), whole[epoch * steps + step :])


@pytest.mark.parametrize("options", [{"shuffle": True}, {"sample": nf.Balanced()}], ids=["shuffle", "sample"])
@pytest.mark.parametrize("taken", [1, 7, 15])
def test_a_checkpoint_goes_on(options, taken, tmp_path):
    ds = mapped().to_tf(20, epochs=2, **options)
    iterator = iter(ds)
    for _ in range(taken):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "state"))
    rest = [(x["draw"].numpy().tolist(), y.numpy().tolist()) for x, y in iterator]
    assert len(rest) == 20 - taken
    again = iter(mapped().to_tf(20, epochs=2, **options))
    tf.train.Checkpoint(iterator=again).read(path).assert_consumed()
    assert [(x["draw"].numpy().tolist(), y.numpy().tolist()) for x, y in again] == rest


CHILD = """
import json, sys
sys.path.insert(0, sys.argv[1])
import test_tf_map_sample as here
found = {}
for name in here.WAYS:
    iterator = iter(here.open_named(name))
    here.tf.train.Checkpoint(iterator=iterator).read(f"{sys.argv[2]}/{name}").assert_consumed()
    found[name] = [x["draw"].numpy().tolist() for x, _ in iterator]
print(json.dumps(found))
"""
WAYS = {"shuffle": {"shuffle": True}, "sample": {"sample": nf.Balanced()}}


def open_named(name):
    return mapped().to_tf(2, epochs=1, **WAYS[name])


def test_a_fresh_process_goes_on_after_37_of_100(tmp_path):
    rest = {}
    for name in WAYS:
        iterator = iter(open_named(name))
        for _ in range(37):
            next(iterator)
        tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / name))
        rest[name] = [x["draw"].numpy().tolist() for x, _ in iterator]
        assert len(rest[name]) == 63
    found, _ = run_child(CHILD, Path(__file__).parent, tmp_path)
    assert found == rest


# Keras


def test_keras_takes_the_sample_weight(tmp_path):
    keras = pytest.importorskip("keras")
    rng = np.random.default_rng(3)
    x = rng.normal(size=(60, 4)).astype("f4")
    kernel = np.array([1.0, -2.0, 0.5, 3.0], "f4")
    for n, row in enumerate(x):
        np.save(tmp_path / f"{n:02}.npy", row)
    weights = rng.random(60).astype("f4")
    flow = nf.files(tmp_path, labels=np.linspace(0, 1, 60, dtype="f4"), sample_weight=weights)
    assert flow.to_tf(8).element_spec[2] == tf.TensorSpec((None,), tf.float32)
    inputs = keras.Input((4,))
    model = keras.Model(inputs, keras.layers.Dense(1, use_bias=False)(inputs))
    model.compile(keras.optimizers.SGD(0.0), "mse")
    model.set_weights([kernel[:, None]])
    # One batch: the loss is the weighted one.
    history = model.fit(flow.to_tf(60, shuffle=True), epochs=2, verbose=0)
    labels = np.linspace(0, 1, 60, dtype="f4")[:, None]
    weighted = model.evaluate(x, labels, sample_weight=weights, batch_size=60, verbose=0)
    np.testing.assert_allclose(history.history["loss"], [weighted] * 2, rtol=1e-4)
    assert abs(model.evaluate(x, labels, batch_size=60, verbose=0) - weighted) > 1e-3


def test_keras_learns_a_rare_class_from_balanced_batches():
    keras = pytest.importorskip("keras")
    rng = np.random.default_rng(4)
    label = (rng.random(600) < 0.03).astype("i8")
    x = (rng.normal(size=(600, 2)) + 1.5 * label[:, None]).astype("f4")
    flow = nf.rows((x, label)).map(lambda e, rng: (e[0] + rng.normal(scale=0.05, size=2).astype("f4"), e[1]))
    keras.utils.set_random_seed(0)
    inputs = keras.Input((2,))
    model = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    model.compile(keras.optimizers.SGD(0.3), keras.losses.BinaryCrossentropy(from_logits=True))
    seen = []
    history = model.fit(
        flow.to_tf(32, sample=nf.Balanced()),
        epochs=4,
        verbose=0,
        callbacks=[keras.callbacks.LambdaCallback(on_epoch_begin=lambda *_: seen.append(1))],
    )
    assert len(history.history["loss"]) == len(seen) == 4
    found = model.predict(x, verbose=0)[:, 0] > 0
    assert found[label == 1].mean() > 0.7
    assert found[label == 0].mean() < 0.3


def test_training_with_and_without_steps(recwarn):
    """Case 94: leave steps out; every epoch has the same length."""
    keras = pytest.importorskip("keras")
    inputs = keras.Input((2,))
    model = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    model.compile("sgd", "mse")
    flow = nf.rows((np.zeros((100, 2), "f4"), np.zeros(100, "f4"))).map(lambda e, rng: e)
    sample = nf.Balanced(labels=np.arange(100) % 3)
    steps = []
    count = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda *_, **__: steps.append(0),
        on_train_batch_end=lambda *_, **__: steps.append(steps.pop() + 1),
    )
    model.fit(flow.to_tf(32, sample=sample), epochs=3, verbose=0, callbacks=[count])
    model.fit(flow.to_tf(32, sample=sample, epochs=3), steps_per_epoch=4, epochs=3, verbose=0, callbacks=[count])
    assert steps == [4] * 6
    assert not [w for w in recwarn if "ran out of data" in str(w.message)]


# Errors


class Odd(Exception):
    """The user's own."""


def fail_at(n):
    def fn(example, rng):
        if int(example[1]) == n:
            raise Odd("nothing to see")
        return example

    return fn


@pytest.mark.parametrize("batch_size", [8, None])
@pytest.mark.parametrize("sample", [None, np.arange(50) + 0.5], ids=["all", "sample"])
def test_an_error_of_the_function_is_told(batch_size, sample):
    flow = nf.rows((np.zeros((50, 3), "f4"), np.arange(50))).map(fail_at(37))
    ds = flow.to_tf(batch_size, sample=sample)
    with pytest.raises(tf.errors.OpError) as caught:
        list(ds.repeat(10))
    text = str(caught.value)
    assert "37" in text
    assert "nothing to see" in text
    assert "Odd" in text
    # Ours is the first line, before any traceback.
    assert "map, example 37: the function raised Odd: nothing to see" in text.splitlines()[0]
    assert isinstance(flow.last_error, nf.MapError)
    assert flow.last_error.index == 37


def test_the_cause_is_kept():
    flow = nf.rows((np.zeros((50, 3), "f4"), np.arange(50))).map(fail_at(37))
    with pytest.raises(tf.errors.OpError):
        list(flow.to_tf(8))
    assert isinstance(flow.last_error, nf.MapError)
    assert isinstance(flow.last_error.__cause__, Odd)


def test_an_error_names_the_file(tmp_path):
    for n in range(50):
        np.save(tmp_path / f"rec{n:02}.npy", np.full(3, n))
    flow = nf.files(tmp_path, labels={f"rec{n:02}": n for n in range(50)}).map(fail_at(37))
    with pytest.raises(tf.errors.OpError, match="rec37"):
        list(flow.to_tf(8, shuffle=True))
    assert "rec37" in str(flow.last_error)


def test_another_shape_is_told():
    flow = nf.rows((X, np.arange(N))).map(lambda e, rng: e[0][: 4 if e[1] != 37 else 2])
    with pytest.raises(tf.errors.OpError) as caught:
        list(flow.to_tf(8, shuffle=True))
    for word in ("37", "(2, 3)", "(4, 3)", "spec="):
        assert word in str(caught.value)
    assert isinstance(flow.last_error, nf.ShapeMismatchError)
    assert flow.last_error.index == 37


def test_keras_tells_the_error_too():
    keras = pytest.importorskip("keras")
    inputs = keras.Input((3,))
    model = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    model.compile("sgd", "mse")
    flow = nf.rows((np.zeros((50, 3), "f4"), np.arange(50))).map(fail_at(37))
    with pytest.raises(Exception, match="nothing to see"):
        model.fit(flow.to_tf(8), epochs=1, verbose=0)
    assert isinstance(flow.last_error, nf.MapError)


def test_the_function_may_change_what_it_gets():
    x = X.copy()

    def spoil(example, rng):
        array, label = example
        array *= 2
        return array, label

    flow = nf.rows((x, LABELS)).map(spoil)
    ds = flow.to_tf(16, shuffle=True, with_index=True)
    for _ in range(2):
        for index, (got, _) in ds.as_numpy_iterator():
            np.testing.assert_array_equal(got, X[index] * 2)
    np.testing.assert_array_equal(x, X)


def test_a_buffer_that_is_used_again_is_copied():
    buffer = np.zeros((4, 3), "f4")

    def fill(example, rng):
        buffer[...] = example[0]
        return buffer

    flow = open_rows().map(fill)
    got = np.concatenate(list(flow.to_tf(16).as_numpy_iterator()))
    np.testing.assert_array_equal(got, X)
