"""Components are joined by key and by nothing else."""

from __future__ import annotations

import random

import numpy as np
import pytest

import npyflow as nf
from helpers import write


def tree(tmp_path, **components):
    """Folders of files that hold a number; a component is a list of keys."""
    for name, keys in components.items():
        for key in keys:
            number = int("".join(filter(str.isdigit, str(key))) or 0)
            write(tmp_path / name / f"{key}.npy", np.array(number, "i8"))
    return {name: tmp_path / name for name in components}


def test_same_names_in_any_order_of_writing(tmp_path):
    numbers = list(range(100))
    random.Random(1).shuffle(numbers)
    for folder in ("x", "y"):
        random.Random(folder).shuffle(numbers)
        tree(tmp_path, **{folder: numbers})
    flow = nf.files((tmp_path / "x", tmp_path / "y"))
    assert list(flow.keys) == [str(n) for n in range(100)]
    assert [(int(x), int(y)) for x, y in flow] == [(n, n) for n in range(100)]


def test_pairs_stay_together_in_shuffled_epochs(tmp_path):
    parts = tree(tmp_path, x=range(10), y=range(10))
    flow = nf.files(parts)
    for epoch in range(5):
        for batch in flow.batches(3, shuffle=True, epoch=epoch):
            np.testing.assert_array_equal(batch["x"], batch["y"])


def test_lists_are_joined_by_key_not_by_position(tmp_path):
    parts = tree(tmp_path, x=[1, 2, 3], y=[1, 2, 3])
    x = [parts["x"] / f"{n}.npy" for n in (3, 1, 2)]
    y = [parts["y"] / f"{n}.npy" for n in (1, 2, 3)]
    flow = nf.files((x, y))
    assert list(flow.keys) == ["3", "1", "2"]
    assert [(int(a), int(b)) for a, b in flow] == [(3, 3), (1, 1), (2, 2)]


def test_suffixes_in_sibling_folders(tmp_path):
    utterances = [f"{n:08d}" for n in range(20)]
    for part, suffix in (("ids", "-ids"), ("mel", "-norm-feats"), ("f0", "-raw-f0")):
        for key in utterances:
            write(tmp_path / part / f"{key}{suffix}.npy", np.array(int(key), "i8"))
    for name in ("stats", "train_utt_ids"):
        write(tmp_path / f"{name}.npy", np.zeros(3))
    data = {
        "ids": f"{tmp_path}/ids/{{key}}-ids.npy",
        "mel": f"{tmp_path}/mel/{{key}}-norm-feats.npy",
        "f0": f"{tmp_path}/f0/{{key}}-raw-f0.npy",
    }
    flow = nf.files(data)
    assert list(flow.keys) == utterances
    assert all(example["ids"] == example["mel"] == example["f0"] == n for n, example in enumerate(flow))
    (tmp_path / "f0" / "00000007-raw-f0.npy").unlink()
    for n in range(3):
        write(tmp_path / "mel" / f"stray{n}-norm-feats.npy", np.zeros((), "i8"))
    with pytest.raises(nf.PairingError) as caught:
        nf.files(data)
    message = str(caught.value)
    assert "19 examples are complete, 4 are not" in message
    assert "f0 lacks 4 keys: 00000007, stray0, stray1, stray2" in message
    assert "ids lacks 3 keys: stray0, stray1, stray2" in message
    assert "on_bad='skip'" in message
    assert "mel lacks" not in message
    flow = nf.files(data, on_bad="skip")
    assert len(flow) == 19
    assert set(flow.report.skipped) == {"00000007", "stray0", "stray1", "stray2"}
    assert "no file in f0" in flow.report.skipped["00000007"]
    assert "skipped: 4 examples" in str(flow.report)
    assert all(
        example["ids"] == example["mel"] == example["f0"] == int(key)
        for key, example in zip(flow.keys, flow, strict=True)
    )


def test_orphans_of_either_side(tmp_path):
    parts = tree(tmp_path, x=range(100), y=range(4, 102))
    with pytest.raises(nf.PairingError) as caught:
        nf.files((parts["x"], parts["y"]))
    message = str(caught.value)
    assert "96 examples are complete, 6 are not" in message
    assert "[1] lacks 4 keys: 0, 1, 2, 3" in message
    assert "[0] lacks 2 keys: 100, 101" in message
    flow = nf.files((parts["x"], parts["y"]), on_bad="skip")
    assert list(flow.keys) == [str(n) for n in range(4, 100)]
    assert [int(x) for x, _ in flow] == list(range(4, 100))


def test_no_key_in_common(tmp_path):
    parts = tree(tmp_path, x=["a1", "a2"], y=["b1", "b2"])
    for on_bad in ("raise", "skip"):
        with pytest.raises(nf.PairingError, match="no key in common: x has a1, a2; y has b1, b2") as caught:
            nf.files(parts, on_bad=on_bad)
    assert "{key}" in str(caught.value)


def test_skipping_bad_files_drops_whole_examples(tmp_path):
    parts = tree(tmp_path, x=range(6), y=range(6))
    (tmp_path / "x" / "1.npy").write_bytes(b"")
    (tmp_path / "y" / "4.npy").write_bytes(b"hello")
    flow = nf.files(parts, on_bad="skip", labels=lambda key: int(key))
    assert list(flow.keys) == ["0", "2", "3", "5"]
    for key, (inputs, label) in zip(flow.keys, flow, strict=True):
        assert int(inputs["x"]) == int(inputs["y"]) == int(label) == int(key)
    assert set(flow.report.skipped) == {"1", "4"}
    assert "empty file" in flow.report.skipped["1"]
    assert str(tmp_path / "x" / "1.npy") in flow.report.skipped["1"]


def test_all_skipped_is_an_error(tmp_path):
    parts = tree(tmp_path, x=range(3))
    for n in range(3):
        (tmp_path / "x" / f"{n}.npy").write_bytes(b"")
    with pytest.raises(nf.BadFilesError, match=r"all 3 examples were skipped: .*empty file"):
        nf.files(parts["x"], on_bad="skip")


def test_on_bad_is_checked(tmp_path):
    with pytest.raises(nf.OptionError, match="expected 'raise' or 'skip'"):
        nf.files(tmp_path, on_bad="ignore")


def test_files_that_disagree_are_grouped(tmp_path):
    for n in range(98):
        write(tmp_path / f"{n}.npy", np.zeros((4, 3), "f4"))
    write(tmp_path / "98.npy", np.zeros(3, "f4"))
    write(tmp_path / "99.npy", np.zeros((1, 4, 3), "f4"))
    with pytest.raises(nf.ShapeMismatchError) as caught:
        nf.files(tmp_path)
    message = str(caught.value)
    assert "98 files with shape (4, 3) float32" in message
    assert "1 file with shape (3,) float32" in message
    assert str(tmp_path / "98.npy") in message
    assert str(tmp_path / "99.npy") in message
    assert message.index("98 files") < message.index("1 file ")
    assert not message.startswith(":")


def test_files_of_two_dtypes_need_a_cast(tmp_path):
    for n in range(5):
        write(tmp_path / f"{n}.npy", np.full(2, n, "f8" if n == 3 else "f4"))
    with pytest.raises(nf.ShapeMismatchError, match=r"4 files with .*float32(.|\n)*1 file with .*float64"):
        nf.files(tmp_path)
    flow = nf.files(tmp_path, dtype="float32")
    np.testing.assert_array_equal(np.stack(list(flow)), np.repeat(np.arange(5, dtype="f4")[:, None], 2, 1))
