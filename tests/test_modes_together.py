"""Modes that meet: crops beside lengths, windows and casts, flows that hold an example twice, manifests by hand."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

import npyflow as nf
from helpers import same


def folder(path, arrays):
    path.mkdir()
    for at, array in enumerate(arrays):
        np.save(path / f"{at:03}.npy", array)
    return path


@pytest.fixture
def crops_and_lengths(tmp_path):
    image = folder(tmp_path / "image", [np.full((8, 8), at) for at in range(4)])
    sound = folder(tmp_path / "sound", [np.full(at + 1, at) for at in range(4)])
    return nf.files({"image": image, "sound": sound}, crop={"image": nf.Crop((4, 4), grid=True)})


@pytest.mark.parametrize("options", [{}, {"bucket": nf.Bucket(count=2)}, {"shuffle": True}])
def test_lengths_beside_several_regions_of_a_file(crops_and_lengths, options):
    flow = crops_and_lengths
    assert len(flow) == 16
    seen = []
    for index, batch in flow.batches(5, pad={"sound": nf.Pad(-1, lengths=True)}, with_index=True, **options):
        for at, number in enumerate(index.tolist()):
            file = number // 4
            same(batch["image"][at], np.full((4, 4), file))
            same(batch["sound"][at][: batch["sound_length"][at]], np.full(file + 1, file))
            seen.append(number)
    assert sorted(seen) == list(range(16))
    assert 0 < flow.padding(5, **options) < 1
    assert [len(example["sound"]) for example in flow.map(lambda example, rng: example)] == np.repeat(
        [1, 2, 3, 4], 4
    ).tolist()
    assert len(list(flow[:4].batches(2, pad={"sound": nf.Pad(0, to=1)}))) == 2


def test_an_error_names_the_window_and_the_run():
    series = np.arange(60.0)
    series[31] = 300
    flow = nf.windows(series, length=3, stride=3, dtype="uint8")
    for open_ in (lambda: list(flow.batches(20)), lambda: flow[[12, 10]].batches(2).__next__()):
        with pytest.raises(nf.CastError) as caught:
            open_()
        assert caught.value.index in (10, 1)
    ragged = nf.rows(nf.Ragged(np.where(np.arange(20.0) == 7, 300, 1), counts=np.full(10, 2)), dtype="uint8")
    with pytest.raises(nf.CastError) as caught:
        list(ragged.batches(10, pad=0))
    assert caught.value.index == 3


def test_what_a_flow_holds_twice_stays_on_one_side(tmp_path):
    flow = nf.files(folder(tmp_path / "x", [np.full(3, at) for at in range(8)]))
    twice = flow[np.repeat(np.arange(8), 3)]
    parts = [
        twice.split(0.5, by="random"),
        twice.split(0.5),
        *twice.folds(3),
        twice.split(0.5, stratify=np.repeat(np.arange(8) % 2, 3)),
    ]
    for one, other in parts:
        assert not set(one.keys) & set(other.keys)
        assert len(one) + len(other) == 24
    one, other = nf.rows(np.arange(10.0))[[0] * 5 + [1] * 5].split(0.5)
    assert {float(x) for x in one} | {float(x) for x in other} == {0.0, 1.0}
    assert not {float(x) for x in one} & {float(x) for x in other}


def test_regions_of_a_file_have_one_group(crops_and_lengths):
    with pytest.raises(nf.OptionError, match="groups= differs between examples of one file, such as example"):
        crops_and_lengths.split(0.5, groups=np.arange(16))
    one, other = crops_and_lengths.split(0.5, groups=np.repeat([0, 1, 1, 2], 4))
    assert not set(one.keys) & set(other.keys)


def test_windows_that_do_not_overlap_any_more_may_be_split_at_random():
    flow = nf.windows(np.arange(600), length=60)
    with pytest.raises(nf.OptionError, match="overlap"):
        flow.split(0.8, by="random")
    assert sum(map(len, flow[::60].split(0.8, by="random"))) == 10


@pytest.mark.parametrize(
    ("name", "value"),
    [("selection", [1, 999]), ("selection", [-3, 1]), ("selection", {"start": -4, "stop": 2}), ("keys", [])],
)
def test_a_manifest_that_names_what_is_not_there(tmp_path, name, value):
    flow = nf.files(folder(tmp_path / "x", [np.zeros(3)] * 10))[1:3]
    flow.save(tmp_path / "flow.json")
    facts = json.loads((tmp_path / "flow.json").read_text())
    facts[name] = value
    (tmp_path / "flow.json").write_text(json.dumps(facts))
    with pytest.raises(nf.FileFormatError, match="damaged manifest"):
        nf.load(tmp_path / "flow.json")


@pytest.mark.parametrize(("field", "value"), [("offset", 1000), ("stride", 0), ("length", 0)])
def test_a_manifest_with_windows_that_make_no_sense(tmp_path, field, value):
    np.save(tmp_path / "x.npy", np.arange(30))
    nf.windows(tmp_path / "x.npy", length=3, horizon=2).save(tmp_path / "flow.json")
    facts = json.loads((tmp_path / "flow.json").read_text())
    facts["components"][1]["window"][field] = value
    (tmp_path / "flow.json").write_text(json.dumps(facts))
    with pytest.raises(nf.FileFormatError, match="damaged manifest"):
        nf.load(tmp_path / "flow.json")


def test_numbers_of_numpy_are_saved(tmp_path):
    data = folder(tmp_path / "x", [np.arange(64.0).reshape(8, 8)] * 2)
    flow = nf.files(
        data,
        crop=nf.Crop(tuple(np.array((8, 8)) // 2), random=np.bool_(True), per_file=np.int8(2)),
        transpose=tuple(np.array([1, 0])),
    )
    flow.save(tmp_path / "flow.json")
    loaded = nf.load(tmp_path / "flow.json")
    for one, other in zip(flow, loaded, strict=True):
        same(one, other)


def test_an_empty_cell_is_no_label(tmp_path):
    data = folder(tmp_path / "x", [np.zeros(2)] * 3)
    (tmp_path / "t.csv").write_text("id,age\n000,61.5\n001,\n002,70\n")
    table = nf.Table(tmp_path / "t.csv", key="id", value="age")
    with pytest.raises(nf.PairingError, match="001"):
        nf.files(data, labels=table)
    flow = nf.files(data, labels=table, on_bad="skip")
    assert [float(label) for _, label in flow] == [61.5, 70.0]
    assert flow.classes is None


def test_a_function_for_labels_names_the_key(tmp_path):
    data = folder(tmp_path / "x", [np.zeros(2)] * 3)
    with pytest.raises(nf.PairingError, match="ValueError for 000: invalid literal") as caught:
        nf.files(data, labels=lambda key: int("x" + key))
    assert isinstance(caught.value.__cause__, ValueError)


def test_weights_beside_a_pair_of_files(tmp_path):
    x = folder(tmp_path / "x", [np.zeros((4, 4))] * 3)
    y = folder(tmp_path / "y", [np.ones((4, 4))] * 3)
    flow = nf.files((x, y), sample_weight=[1, 2, 3])
    image, mask, weight = flow[1]
    assert (image.shape, mask.shape, float(weight), weight.dtype) == ((4, 4), (4, 4), 2.0, np.float32)
    with pytest.raises(nf.OptionError, match=r"sample_weight= without labels="):
        nf.files(x, sample_weight=[1, 2, 3])
    with pytest.raises(nf.OptionError, match=r"component 'label'.*rename"):
        nf.files({"label": x}, labels=[1, 2, 3])
    with pytest.raises(nf.OptionError, match=r"sample_weight='balancd'.*'balanced'"):
        nf.files(x, labels=[1, 2, 3], sample_weight="balancd")


def test_past_and_future_load_a_series_once(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(100))
    flow = nf.windows(tmp_path / "x.npy", length=3, horizon=2, access="ram")
    past, future = flow._view.examples.sources.sources
    assert past._rows is future._rows
    same(flow[5][1], np.array([8, 9]))


def test_a_tall_region_is_read_a_little_at_a_time(tmp_path, monkeypatch):
    from npyflow._sources import boxes

    np.save(tmp_path / "x.npy", np.arange(400_000, dtype="i4").reshape(2000, 200))
    monkeypatch.setattr(boxes, "_MAX_READ_BYTES", 1 << 14)
    asked = []
    real = boxes.read_at
    monkeypatch.setattr(boxes, "read_at", lambda fd, body, at: asked.append(len(body)) or real(fd, body, at))
    flow = nf.files([os.fspath(tmp_path / "x.npy")], crop=nf.Crop((2000, 8), access="read"))
    same(flow[0], np.load(tmp_path / "x.npy")[:, 96:104])
    assert max(asked) <= 1 << 14


def test_ragged_examples_without_elements(tmp_path):
    flow = nf.files(folder(tmp_path / "x", [np.zeros((0, at)) for at in (1, 2, 3)]))
    assert [[one.shape for one in batch] for batch in flow.batches(2, ragged=True)] == [[(0, 1), (0, 2)], [(0, 3)]]


def test_a_cast_unifies_files_that_are_cropped_or_equally_long(tmp_path):
    x = folder(tmp_path / "x", [np.ones((8, 4 + at), "f4" if at else "f8") for at in range(3)])
    y = folder(tmp_path / "y", [np.ones((8, 4 + at), "f4") for at in range(3)])
    assert nf.files(x, dtype="f4", crop=nf.Crop((4, 4)))[0].dtype == np.float32
    pair = nf.files({"x": x, "y": y}, dtype="f4", same_length=("x", "y"))
    assert pair[2]["x"].shape == (8, 6)
