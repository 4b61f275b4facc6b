"""`batches(sample=...)` and `files(sample_weight=...)`: exact shares, exact epochs, only what is drawn is read."""

from __future__ import annotations

import os
from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npyflow as nf
from helpers import same, write, write_npz
from npyflow._sources import payloads

CLASSES = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [950, 45, 5]))
N = len(CLASSES)
FLOW = nf.rows((np.arange(N), CLASSES))
NAMES = ("cat", "dog", "emu")
COUNTS = {"cat": 24, "dog": 10, "emu": 2}


def drawn(flow: nf.Flow, batch_size: int = 64, **options: Any) -> np.ndarray[Any, Any]:
    """The numbers of the examples in the order in which they come."""
    return np.concatenate(
        [np.zeros(0, int), *(x.reshape(len(x), -1)[:, 0] for x, *_ in flow.batches(batch_size, **options))]
    )


def chi_square(found: Any, shares: Any) -> float:
    found, shares = np.asarray(found, float), np.asarray(shares, float)
    want = found.sum() * shares / shares.sum()
    return float(((found - want) ** 2 / want).sum())


@pytest.fixture
def folder(tmp_path):
    """36 files in folders of classes, holding their number."""
    n = 0
    for name, count in COUNTS.items():
        for _ in range(count):
            write(tmp_path / "data" / name / f"{n:02}.npy", np.array([n, n]))
            n += 1
    return tmp_path / "data"


@pytest.fixture
def opened(monkeypatch):
    """Names of the files that payloads are read from."""
    names: list[str] = []
    real = os.open

    def note(path: Any, *args: Any, **kwargs: Any) -> int:
        names.append(os.path.basename(os.fsdecode(path)))
        return real(path, *args, **kwargs)

    fake = SimpleNamespace(**{name: getattr(os, name) for name in dir(os) if not name.startswith("__")})
    fake.open = note
    monkeypatch.setattr(payloads, "os", fake)
    return names


# How often


def test_classes_come_equally_often():
    found = np.bincount(CLASSES[drawn(FLOW, sample=nf.Balanced())])
    assert found.sum() == N
    assert found.max() - found.min() <= 1


def test_classes_come_equally_often_by_chance():
    counts = np.bincount(CLASSES[drawn(FLOW, sample=nf.Balanced(size=6000, replace=True))])
    assert counts.sum() == 6000
    # Beyond 20 by chance: once in 20,000.
    assert chi_square(counts, [1, 1, 1]) < 20
    assert counts.max() - counts.min() > 1


@pytest.mark.parametrize("sample", [{0: 1, 1: 2, 2: 7}, nf.Balanced({0: 10, 1: 20, 2: 70})], ids=["dict", "Balanced"])
def test_classes_come_by_weight(sample):
    found = np.bincount(CLASSES[drawn(FLOW, sample=sample)])
    assert (np.abs(found - np.array([100, 200, 700])) <= 1).all()


@pytest.mark.parametrize("kind", [np.array, list, np.float32])
def test_examples_come_by_weight(kind):
    weights = np.where(CLASSES == 0, 1.0, np.where(CLASSES == 1, 10.0, 0.0))
    sample = kind(weights) if kind is not list else weights.tolist()
    rows = np.concatenate([drawn(FLOW, sample=sample, epoch=epoch) for epoch in range(8)])
    assert len(rows) == 8 * N
    found = np.bincount(CLASSES[rows], minlength=3)
    assert found[2] == 0
    assert chi_square(found[:2], [950, 450]) < 16
    within = np.bincount(rows, minlength=N)[CLASSES == 1]
    assert chi_square(within, np.ones(45)) < 44 + 5 * np.sqrt(88)


def test_all_of_a_class_before_any_again():
    rows = drawn(FLOW, sample=nf.Balanced())
    for number in range(3):
        own = Counter(rows[CLASSES[rows] == number].tolist())
        size = int((number == CLASSES).sum())
        total = sum(own.values())
        assert max(own.values()) - (min(own.values()) if len(own) == size else 0) <= 1
        assert len(own) == min(size, total)


@settings(max_examples=50, deadline=None)
@given(
    classes=st.lists(st.integers(0, 3), min_size=4, max_size=60),
    size=st.integers(1, 130),
    replace=st.booleans(),
    seed=st.integers(-(2**40), 2**70),
    batch_size=st.integers(1, 40),
    drop=st.booleans(),
)
def test_an_epoch_has_its_length(classes, size, replace, seed, batch_size, drop):
    labels = np.array(classes)
    flow = nf.rows((np.arange(len(labels)), labels))
    sample = nf.Balanced(size=size, replace=replace)
    batches = list(flow.batches(batch_size, sample=sample, seed=seed, drop_remainder=drop))
    full, rest = divmod(size, batch_size)
    assert [len(x) for x, _ in batches] == [batch_size] * full + [rest] * (rest > 0 and not drop)
    for x, y in batches:
        np.testing.assert_array_equal(y, labels[x])
    if not drop and not replace:
        found = Counter(labels[drawn(flow, sample=sample, seed=seed)].tolist())
        assert max(found.values()) - min(found.get(number, 0) for number in set(classes)) <= 1


def test_classes_are_mixed():
    rows = drawn(FLOW, sample=nf.Balanced())
    for part in np.array_split(CLASSES[rows], 5):
        assert chi_square(np.bincount(part, minlength=3), [1, 1, 1]) < 20


def test_no_example_with_a_weight_each_comes_twice():
    weights = np.random.default_rng(1).random(N) + 0.01
    rows = drawn(FLOW, sample=nf.Balanced(weights, size=600))
    assert len(set(rows.tolist())) == 600
    again = drawn(FLOW, sample=nf.Balanced(weights, size=600, replace=True))
    assert len(set(again.tolist())) < 600


def test_other_labels_than_the_flows():
    other = np.arange(N) % 2
    for labels in (other, other.tolist(), np.array(["x", "y"])[other]):
        rows = drawn(FLOW, sample=nf.Balanced(labels=labels))
        assert (rows % 2).sum() == N // 2
    rows = drawn(nf.rows((np.arange(N),)), sample=nf.Balanced({"x": 3, "y": 1}, labels=np.array(["x", "y"])[other]))
    assert (rows % 2).sum() == N // 4


def test_text_and_bool_labels():
    for labels in (np.array(NAMES)[CLASSES], CLASSES > 0):
        found = Counter(labels[drawn(nf.rows((np.arange(N), labels)), sample=nf.Balanced())].tolist())
        assert max(found.values()) - min(found.values()) <= 1
    text = nf.rows((np.arange(N), np.array(NAMES)[CLASSES]))
    assert set(CLASSES[drawn(text, sample={"cat": 0, "dog": 1, "emu": 1})].tolist()) == {1, 2}


def test_labels_that_are_whole_floats():
    flow = nf.rows((np.arange(N), (CLASSES > 0).astype("f4")))
    assert (CLASSES[drawn(flow, sample=nf.Balanced(labels=(CLASSES > 0).astype("f4")))] > 0).sum() == N // 2
    assert (CLASSES[drawn(flow, sample=nf.Balanced())] > 0).sum() == N // 2


# The order


def test_epochs_and_seeds_differ_and_come_again():
    for sample in (nf.Balanced(), nf.Balanced(replace=True), np.ones(N), {0: 1, 1: 1, 2: 1}):
        streams = [
            drawn(FLOW, sample=sample, epoch=epoch, seed=seed).tolist() for epoch in range(2) for seed in range(2)
        ]
        assert len({tuple(stream) for stream in streams}) == 4
        assert drawn(FLOW, 7, sample=sample, epoch=1, seed=1).tolist() == streams[3]
        assert streams[0] != sorted(streams[0])


def test_shuffle_is_implied():
    for sample in (nf.Balanced(), np.ones(N)):
        np.testing.assert_array_equal(drawn(FLOW, sample=sample), drawn(FLOW, sample=sample, shuffle=True))


@pytest.mark.parametrize(
    "sample", [nf.Balanced(), nf.Balanced(size=100, replace=True), CLASSES + 1.0], ids=["all", "size", "each"]
)
def test_shards_together_are_the_epoch(sample):
    whole = drawn(FLOW, sample=sample, epoch=2, seed=5)
    for count in (2, 3, 7):
        for index in range(count):
            part = drawn(FLOW, 11, sample=sample, epoch=2, seed=5, shard=(index, count))
            np.testing.assert_array_equal(part, whole[index::count])


def test_starting_in_the_middle():
    whole = drawn(FLOW, 32, sample=nf.Balanced(), epoch=1)
    np.testing.assert_array_equal(drawn(FLOW, 32, sample=nf.Balanced(), epoch=1, start_step=9), whole[9 * 32 :])
    assert drawn(FLOW, 32, sample=nf.Balanced(), start_step=32).tolist() == []
    with pytest.raises(nf.OptionError, match=r"start_step=5.*4 steps"):
        FLOW.batches(32, sample=nf.Balanced(size=100), start_step=5)


def test_the_index_is_that_of_the_flow():
    for index, (x, y) in FLOW.batches(50, sample=nf.Balanced(), with_index=True):
        assert index.dtype == np.int64
        same(index, x)
        same(y, CLASSES[index])
    part = FLOW[500:]
    for index, (x, _) in part.batches(50, sample=nf.Balanced(), with_index=True):
        np.testing.assert_array_equal(np.asarray(part.keys)[index], x)


def test_parts_are_balanced_within_themselves():
    train, val = FLOW.split(0.6, stratify=True)
    for part in (train, val):
        rows = drawn(part, sample=nf.Balanced())
        assert len(rows) == len(part)
        found = np.bincount(CLASSES[rows])
        assert found.max() - found.min() <= 1
        assert set(rows.tolist()) <= set(np.asarray(part.keys).tolist())


def test_an_array_belongs_to_the_flow():
    part = FLOW[:600]
    assert drawn(part, sample=np.arange(600) > 590).min() > 590
    with pytest.raises((nf.OptionError, nf.ShapeMismatchError), match=r"1,?000.*600"):
        part.batches(8, sample=np.ones(N))
    with pytest.raises((nf.OptionError, nf.ShapeMismatchError), match=r"1,?000.*600"):
        part.batches(8, sample=nf.Balanced(labels=CLASSES))


# Files


def test_classes_by_name(folder):
    flow = nf.files(folder, labels="directory")
    assert flow.classes == NAMES
    for sample in ({"cat": 1, "dog": 1, "emu": 2}, nf.Balanced({"cat": 1, "dog": 1, "emu": 2})):
        found = Counter(int(y) for _, ys in flow.batches(5, sample=sample) for y in ys)
        assert found == {0: 9, 1: 9, 2: 18}
    balanced = Counter(int(y) for _, ys in flow.batches(5, sample=nf.Balanced()) for y in ys)
    assert balanced == {0: 12, 1: 12, 2: 12}


@pytest.mark.parametrize("form", ["npy", "npz"])
def test_only_what_is_drawn_is_opened(folder, tmp_path, opened, form):
    if form == "npz":
        for path in folder.rglob("*.npy"):
            write_npz(tmp_path / "z" / path.parent.name / f"{path.stem}.npz", a=np.load(path))
        flow = nf.files(tmp_path / "z", labels="directory", members="a")
    else:
        flow = nf.files(folder, labels="directory")
    opened.clear()
    stream = flow.batches(4, sample={"cat": 0, "dog": 1, "emu": 1})
    assert opened == []
    rows = [int(n) for x, _ in stream for n in x[:, 0]]
    assert len(rows) == 36
    assert {int(name[:2]) for name in opened} == set(rows)
    assert min(rows) >= 24
    opened.clear()
    weights = np.zeros(36)
    weights[[3, 30]] = 1
    assert set(drawn(flow, 9, sample=nf.Balanced(weights, size=2)).tolist()) == {3, 30}
    assert {int(name[:2]) for name in opened} == {3, 30}


def test_files_that_are_not_drawn_may_be_gone(folder):
    flow = nf.files(folder, labels="directory")
    for path in (folder / "cat").iterdir():
        path.unlink()
    assert len(drawn(flow, 5, sample={"cat": 0, "dog": 1, "emu": 1})) == 36


def test_a_shard_opens_its_share(folder, opened):
    flow = nf.files(folder, labels="directory")
    opened.clear()
    rows = drawn(flow, 4, sample=nf.Balanced(size=6), shard=(1, 3))
    assert len(rows) == 2
    assert {int(name[:2]) for name in opened} == set(rows.tolist())


def test_crops_are_drawn_anew(tmp_path):
    for n in range(4):
        write(tmp_path / f"{n}.npy", np.arange(1000) + 1000 * n)
    flow = nf.files(tmp_path, labels={str(n): n % 2 for n in range(4)}, crop=nf.Crop((2,), random=True))
    x = np.concatenate([x for x, _ in flow.batches(8, sample=nf.Balanced(size=40))])
    assert len(x) == 40
    np.testing.assert_array_equal(x[:, 1], x[:, 0] + 1)
    assert Counter((x[:, 0] // 1000).tolist()) == dict.fromkeys(range(4), 10)
    epochs = [np.concatenate([x for x, _ in flow.batches(8, sample=nf.Balanced(size=40), epoch=e)]) for e in range(2)]
    assert set(epochs[0][:, 0].tolist()) != set(epochs[1][:, 0].tolist())


def test_windows_are_drawn():
    flow = nf.windows(np.arange(100), length=5)
    weights = np.zeros(96)
    weights[10:20] = 1
    starts = np.concatenate([x[:, 0] for x in flow.batches(16, sample=weights)])
    assert len(starts) == 96
    assert set(starts.tolist()) == set(range(10, 20))


def test_padding_of_what_is_drawn(tmp_path):
    for n, length in enumerate([2, 10, 3]):
        write(tmp_path / f"{n}.npy", np.full(length, n + 1))
    flow = nf.files(tmp_path)
    weights = np.array([1, 0, 1])
    batches = list(flow.batches(3, sample=weights, pad=0))
    assert all(batch.shape[1] <= 3 for batch in batches)
    ragged = [row for batch in flow.batches(3, sample=weights, ragged=True) for row in batch]
    assert [len(row) for row in ragged] == [{1: 2, 3: 3}[int(row[0])] for row in ragged]
    assert flow.padding(3, sample=nf.Balanced([0, 1, 0], size=1), pad=0) == 0


def test_augmentation_of_repeated_draws_differs():
    flow = FLOW.map(lambda example, rng: (example[0], example[1], rng.integers(2**62)))
    options = {"sample": nf.Balanced(), "seed": 3}
    got = [(int(a), int(c)) for x, _, r in flow.batches(32, **options) for a, c in zip(x, r, strict=True)]
    rare = [value for number, value in got if CLASSES[number] == 2]
    assert len(rare) > 300
    assert len(set(rare)) == len(rare)
    np.testing.assert_array_equal([number for number, _ in got], drawn(FLOW, **options))
    assert [(int(a), int(c)) for x, _, r in flow.batches(5, **options) for a, c in zip(x, r, strict=True)] == got
    second = [int(c) for _, _, r in flow.batches(32, epoch=1, **options) for c in r]
    assert not set(second) & {value for _, value in got}


def test_labels_outlive_a_map():
    flow = FLOW.map(lambda example, rng: (example[0] * 2, example[1]))
    found = np.bincount(CLASSES[drawn(flow, sample=nf.Balanced()) // 2])
    assert found.max() - found.min() <= 1


# Refused


@pytest.mark.parametrize("sample", [nf.Balanced(), np.ones(3), {0: 1, 1: 1}], ids=["Balanced", "array", "dict"])
def test_not_together_with_buckets(tmp_path, sample):
    for n, length in enumerate([2, 10, 3]):
        write(tmp_path / f"{n}.npy", np.zeros(length))
    flow = nf.files(tmp_path, labels={"0": 0, "1": 1, "2": 0})
    with pytest.raises(nf.OptionError, match=r"(?s)sample.*bucket|bucket.*sample"):
        flow.batches(2, sample=sample, bucket=nf.Bucket([4]), pad=0.0)


@pytest.mark.parametrize(
    ("sample", "words"),
    [
        (3, "sample="),
        ("balanced", "sample='balanced'"),
        (True, "sample=True"),
        (nf.Balanced, "sample"),
        (np.ones((N, 2)), r"\(1,?000, 2\)"),
        (-np.ones(N), "-1"),
        (np.full(N, np.nan), "nan"),
        (np.full(N, np.inf), "inf"),
        (np.zeros(N), "0"),
        ({}, "weight"),
        ({0: 1, 1: 1}, "2"),
        ({0: 1, 1: 1, 2: 1, 5: 1}, "5"),
        ({"cat": 1}, "'cat'"),
        ({0: 1, 1: -1, 2: 1}, "-1"),
    ],
    ids=range(14),
)
def test_refused_by_name(sample, words):
    with pytest.raises((nf.OptionError, nf.ShapeMismatchError), match=f"(?s){words}"):
        FLOW.batches(8, sample=sample)


def test_refused_without_labels(folder):
    with pytest.raises(nf.OptionError, match=r"labels="):
        nf.rows(np.arange(5)).batches(2, sample=nf.Balanced())
    with pytest.raises(nf.OptionError, match=r"labels="):
        nf.files(folder).batches(2, sample={"cat": 1})
    with pytest.raises(nf.OptionError, match=r"'dgo'.*'dog'"):
        nf.files(folder, labels="directory").batches(2, sample={"cat": 1, "dgo": 1, "emu": 1})


def test_shuffle_in_blocks_makes_no_sense():
    with pytest.raises(nf.OptionError, match=r"sample= and Shuffle\(block=\) exclude each other"):
        drawn(FLOW, sample=nf.Balanced(), shuffle=nf.Shuffle(block=8))


def test_an_empty_flow():
    with pytest.raises(nf.OptionError, match="size"):
        FLOW[:0].batches(4, sample=nf.Balanced(size=3))
    assert list(FLOW[:0].batches(4, sample=nf.Balanced())) == []


# Weights of examples


def weights_of(flow: nf.Flow) -> dict[int, float]:
    assert flow.spec[2].dtype == np.float32
    assert flow.spec[2].shape == ()
    found = {}
    for x, _, w in flow:
        assert w.dtype == np.float32
        found[int(x[0])] = float(w)
    return found


@pytest.mark.parametrize("kind", ["array", "list", "mapping", "callable", "npy", "npz", "table", "ints"])
def test_weights_in_every_form(folder, tmp_path, kind):
    values = np.arange(36) / 8
    keys = np.asarray(nf.files(folder).keys).tolist()
    by_key = {key: values[int(key[-2:])] for key in keys}
    ordered = np.array([by_key[key] for key in keys])
    if kind == "ints":
        said, by_key = (np.arange(36), {key: int(key[-2:]) for key in keys})
        said = np.array([by_key[key] for key in keys])
    elif kind == "table":
        lines = ["id,w", *(f"{key},{value}" for key, value in by_key.items())]
        (tmp_path / "w.csv").write_text("\n".join(lines))
        said = nf.Table(tmp_path / "w.csv", key="id", value="w")
    else:
        said = {
            "array": ordered,
            "list": ordered.tolist(),
            "mapping": by_key,
            "callable": by_key.__getitem__,
            "npy": write(tmp_path / "w.npy", ordered),
            "npz": nf.npz(write_npz(tmp_path / "w.npz", w=ordered))["w"],
        }[kind]
    flow = nf.files(folder, labels="directory", sample_weight=said)
    assert weights_of(flow) == {int(key[-2:]): np.float32(value) for key, value in by_key.items()}
    assert flow.classes == NAMES
    x, y, w = next(iter(flow.batches(7, shuffle=True)))
    assert (x.shape, y.shape, w.shape, w.dtype) == ((7, 2), (7,), (7,), np.float32)


def test_balanced_weights(folder):
    flow = nf.files(folder, labels="directory", sample_weight="balanced")
    by_class: dict[int, set[float]] = {}
    for _, y, w in flow:
        by_class.setdefault(int(y), set()).add(float(w))
    assert all(len(found) == 1 for found in by_class.values())
    weights = [found.pop() for _, found in sorted(by_class.items())]
    # As scikit-learn has it: examples / (classes * examples of the class), so that the mean is 1.
    np.testing.assert_allclose(weights, [36 / (3 * count) for count in COUNTS.values()], rtol=1e-6)


def test_weights_without_labels(folder):
    flow_or_error: Any
    try:
        flow_or_error = nf.files(folder, sample_weight=lambda key: 2.0)
    except nf.OptionError as error:
        assert "labels" in str(error)  # noqa: PT017
    else:
        pytest.fail(f"no label stands between inputs and weight: {flow_or_error.spec}")
    with pytest.raises(nf.OptionError, match="labels"):
        nf.files(folder, sample_weight="balanced")


@pytest.mark.parametrize("form", ["mapping", "callable", "table", "nan"])
def test_missing_weights(folder, tmp_path, form):
    keys = np.asarray(nf.files(folder).keys).tolist()
    by_key: dict[str, Any] = dict.fromkeys(keys, 1.5)
    del by_key["dog/30"]
    if form == "table":
        (tmp_path / "w.csv").write_text("id,w\n" + "\n".join(f"{key},1.5" for key in by_key))
        said: Any = nf.Table(tmp_path / "w.csv", key="id", value="w")
    elif form == "nan":
        said = by_key | {"dog/30": float("nan")}
    else:
        said = by_key if form == "mapping" else by_key.get
    with pytest.raises(nf.NpyflowError, match=r"(?s)dog/30") as caught:
        nf.files(folder, labels="directory", sample_weight=said)
    assert "weight" in str(caught.value)
    if form != "nan":
        assert isinstance(caught.value, nf.PairingError)
        flow = nf.files(folder, labels="directory", sample_weight=said, on_bad="skip")
        assert len(flow) == 35
        assert "dog/30" not in np.asarray(flow.keys).tolist()
        assert "dog/30" in str(flow.report)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (np.ones(35), r"35.*36|36.*35"),
        (np.ones((36, 2)), r"\(36, 2\)|\(2,\)"),
        (lambda key: "heavy", "heavy|text|number"),
        (lambda key: -1.0, "-1"),
        (lambda key: float("inf"), "inf"),
        ("heavy", "heavy"),
        ("directory", "sample_weight"),
        (3, "sample_weight"),
    ],
    ids=range(8),
)
def test_weights_that_are_none(folder, said, words):
    with pytest.raises(nf.NpyflowError, match=f"(?s){words}") as caught:
        nf.files(folder, labels="directory", sample_weight=said)
    assert "weight" in str(caught.value)


def test_weights_of_crops_parts_and_skipped(folder):
    flow = nf.files(
        folder, labels="directory", sample_weight=lambda key: int(key[-2:]), crop=nf.Crop((1,), random=True, per_file=2)
    )
    assert len(flow) == 72
    for x, _, w in flow.batches(10, shuffle=True):
        np.testing.assert_array_equal(x[:, 0], w)
    part = flow[[70, 3]]
    assert [float(w) for _, _, w in part] == [35, 1]
    train, val = flow.split(0.5, stratify=True)
    for _, _, w in [*train, *val]:
        assert w.dtype == np.float32


def test_balanced_weights_count_what_is_left(folder):
    (folder / "emu" / "35.npy").write_bytes(b"")
    flow = nf.files(folder, labels="directory", sample_weight="balanced", on_bad="skip")
    weights = {int(y): float(w) for _, y, w in flow}
    np.testing.assert_allclose([weights[n] for n in range(3)], [35 / (3 * c) for c in (24, 10, 1)], rtol=1e-6)


def test_weights_are_saved(folder, tmp_path):
    flow = nf.files(folder, labels="directory", sample_weight="balanced")
    flow.save(tmp_path / "m.json")
    again = nf.load(tmp_path / "m.json")
    assert again.spec == flow.spec
    assert weights_of(again) == weights_of(flow)


def test_sample_and_weight_together(folder):
    flow = nf.files(folder, labels="directory", sample_weight="balanced")
    found = Counter(int(y) for _, ys, _ in flow.batches(5, sample=nf.Balanced()) for y in ys)
    assert found == {0: 12, 1: 12, 2: 12}


def test_several_components_with_a_weight(folder):
    flow = nf.files({"a": folder, "b": folder}, labels="directory", sample_weight="balanced")
    inputs, label, weight = flow[30]
    assert list(inputs) == ["a", "b"]
    assert int(label) == 1
    assert float(weight) == pytest.approx(36 / 30)
