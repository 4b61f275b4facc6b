"""A flow as a sequence: examples, parts, splits, and what it says about itself."""

from __future__ import annotations

import contextlib
import pickle

import numpy as np
import pytest

import npyflow as nf
from helpers import same, sample, write

X, Y = sample(50, (3, 2), "f4"), np.arange(50)


@pytest.fixture(params=["arrays", "paths"])
def flow(request, tmp_path):
    if request.param == "arrays":
        return nf.rows({"x": X, "y": Y})
    return nf.rows({"x": write(tmp_path / "x.npy", X), "y": write(tmp_path / "y.npy", Y)})


@pytest.fixture
def keyed(tmp_path):
    for n in range(200):
        write(tmp_path / "data" / f"{n}.npy", np.array([n], "i4"))
    return tmp_path / "data"


def test_examples(flow):
    assert len(flow) == 50
    for at in (0, 7, 49, -1, -50, np.int64(3), np.uint8(4), np.array(5)):
        example = flow[at]
        assert list(example) == ["x", "y"]
        same(example["x"], X[int(at)])
        same(example["y"], Y[int(at)])


@pytest.mark.parametrize("index", [50, -51, 10**9, np.int64(50)])
def test_out_of_range(flow, index):
    with pytest.raises(IndexError, match=f"index {index} is out of range for 50 examples") as caught:
        flow[index]
    assert isinstance(caught.value, nf.IndexRangeError)
    assert caught.value.index == index


@pytest.mark.parametrize("index", [2**63, 2**64, -(2**64)])
def test_far_out_of_range(flow, index):
    with pytest.raises(IndexError):
        flow[index]


def test_unsigned_indices_do_not_wrap(flow):
    with pytest.raises(nf.IndexRangeError):
        flow[np.array([2**64 - 1], np.uint64)]


@pytest.mark.parametrize("index", [1.0, "1", None, [1.5], [[1]], np.zeros((2, 2), int), ["a"], 1j])
def test_no_index(flow, index):
    with pytest.raises(nf.OptionError, match="expected integers"):
        flow[index]


@pytest.mark.parametrize("index", [True, np.True_, [True], np.ones(49, bool), np.ones((50, 1), bool)])
def test_no_mask(flow, index):
    with pytest.raises(nf.IndexRangeError, match=r"mask.*expected \(50,\)"):
        flow[index]


@pytest.mark.parametrize(
    "index",
    [
        slice(None), slice(3, 9), slice(None, None, -1), slice(40, 100), slice(-3, None),
        slice(5, 5), slice(None, None, 7),
        [1, 1, 0], [-1, 0], np.array([4, 2], "u1"), range(3, 9, 2), [], np.arange(50) % 3 == 0, (0, 5),
    ],
    ids=str,
)  # fmt: skip
def test_parts(flow, index):
    # NumPy takes a tuple for one index an axis.
    rows = Y[np.array(index, int)] if isinstance(index, list | tuple | range) else Y[index]
    part = flow[index]
    assert isinstance(part, nf.Flow)
    assert len(part) == len(rows)
    assert part.spec == flow.spec
    assert np.asarray(part.keys).tolist() == rows.tolist()
    got = list(part)
    assert [int(example["y"]) for example in got] == rows.tolist()
    for example, row in zip(got, rows, strict=True):
        same(example["x"], X[row])


def test_parts_of_parts(flow):
    part = flow[10:40][::-1][[0, 5, 29]]
    assert np.asarray(part.keys).tolist() == [39, 34, 10]
    assert [int(example["y"]) for example in part] == [39, 34, 10]
    with pytest.raises(nf.IndexRangeError, match="3 examples"):
        part[3]
    assert list(flow[:0]) == []


def test_many_examples_at_once(flow):
    got = flow.__getitems__([3, -1, 3])
    assert [int(example["y"]) for example in got] == [3, 49, 3]
    assert flow.__getitems__([]) == []
    with pytest.raises(nf.IndexRangeError):
        flow.__getitems__([0, 50])


def test_iteration(flow):
    assert [int(example["y"]) for example in flow] == list(range(50))
    first, second = iter(flow), iter(flow)
    next(first)
    assert next(second)["y"] == 0
    assert next(first)["y"] == 1


def test_iteration_over_more_examples_than_one_read():
    flow = nf.rows(np.arange(5000))
    assert [int(x) for x in flow] == list(range(5000))
    assert next(reversed(flow)) == 4999
    assert 17 in list(flow[:20])


def test_iteration_reads_few_large_examples_at_once(tmp_path, monkeypatch):
    flow = nf.rows(np.broadcast_to(np.float32(0), (2000, 1 << 20)))
    asked = []
    source = flow._view.examples.sources.sources[0]
    monkeypatch.setattr(source, "read_into", lambda indices, outs: asked.append(len(indices)))
    with contextlib.suppress(IndexError):
        next(iter(flow))
    # An example has 4 MiB.
    assert max(asked) <= 64


def test_nesting_is_kept():
    flow = nf.rows(({"b": X, "a": (Y, X)}, Y))
    inputs, label = flow[4]
    assert list(inputs) == ["b", "a"]
    same(inputs["a"][1], X[4])
    assert label == 4
    assert flow.spec[0]["a"][0] == nf.ArraySpec((), np.dtype("i8"))
    assert flow.access == ({"b": "ram", "a": ("ram", "ram")}, "ram")
    assert next(iter(flow.batches(5)))[0]["a"][0].tolist() == [0, 1, 2, 3, 4]


def test_unequal_lengths():
    with pytest.raises(nf.ShapeMismatchError, match=r"x has 60,000, y has 10,000"):
        nf.rows({"x": np.zeros((60_000, 2)), "y": np.zeros(10_000)})


def test_spec_and_casts(tmp_path):
    path = write(tmp_path / "x.npy", X.astype(">f8"))
    assert nf.rows(path).spec == nf.ArraySpec((3, 2), np.dtype("f8"))
    flow = nf.rows({"a": path, "b": path}, dtype={"b": "float32"})
    assert flow.spec == {"a": nf.ArraySpec((3, 2), np.dtype("f8")), "b": nf.ArraySpec((3, 2), np.dtype("f4"))}
    same(flow[3]["b"], X[3])
    assert str(flow.spec["b"]) == "float32 (3, 2)"
    assert flow.spec["b"].nbytes == 24


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"dtype": "nonsense"}, "expected a dtype"),
        ({"access": "fast"}, "expected one of 'auto', 'ram', 'mmap', 'read'"),
        ({"dtype": {"z": "f4"}}, "names z; the data has x, y"),
        ({"axis": "x"}, "expected an integer"),
    ],
)
def test_bad_options(kwargs, message):
    with pytest.raises(nf.OptionError, match=message):
        nf.rows({"x": X, "y": Y}, **kwargs)


@pytest.mark.parametrize("data", [3, [1, 2], [], None, [None], (), {}, [X, "x.npy"]])
def test_no_data(data):
    with pytest.raises(nf.NpyflowError):
        nf.rows(data)


def test_describe_and_repr(tmp_path):
    path = write(tmp_path / "x.npy", X, fortran=True)
    flow = nf.rows({"x": path, "y": Y}, access={"x": "mmap"})
    text = flow.describe()
    assert "50 examples of 32 B, 1.6 kB together" in text
    assert "x: float32 (3, 2), access 'mmap', 1 file" in text
    assert "y: int64 (), access 'ram'" in text
    assert "a row lies in 6 pieces" in text
    assert repr(flow) == "<npyflow.Flow of 50 examples: {'x': 'float32 (3, 2)', 'y': 'int64 ()'}>"
    assert "1 example" in repr(flow[:1])


def test_describe_files(keyed):
    flow = nf.files(keyed, labels=lambda key: "ab"[int(key) % 2])
    assert "classes: a, b" in flow.describe()
    assert "200 files" in flow.describe()
    assert flow[3:5].keys == ("3", "4")
    assert flow[:1].classes == ("a", "b")


@pytest.mark.parametrize("fractions", [(0.9,), (0.5, 0.5), (0.7, 0.2), (0.8, 0.1, 0.1), (1.0,), (1 / 3, 1 / 3)])
def test_rows_are_split_exactly(flow, fractions):
    parts = flow.split(*fractions)
    whole = np.concatenate([part.keys for part in parts])
    np.testing.assert_array_equal(np.sort(whole), np.arange(50))
    total, expected = 0.0, []
    for fraction in fractions:
        expected.append(round(50 * (total + fraction)) - round(50 * total))
        total += fraction
    assert [len(part) for part in parts][: len(fractions)] == expected
    again = flow.split(*fractions)
    assert all(np.array_equal(a.keys, b.keys) for a, b in zip(parts, again, strict=True))
    if len(parts) > 1:
        other = flow.split(*fractions, seed=1)
        assert not all(np.array_equal(a.keys, b.keys) for a, b in zip(parts, other, strict=True))
        assert not np.array_equal(parts[0].keys, np.arange(len(parts[0])))


def test_files_stay_in_their_part_when_others_come_and_go(keyed):
    before = {key: at for at, part in enumerate(nf.files(keyed).split(0.7, 0.2)) for key in part.keys}
    assert len(before) == 200
    sizes = np.bincount(list(before.values()))
    assert (np.abs(sizes - [140, 40, 20]) < 5 * np.sqrt([42, 32, 18])).all()
    for n in range(200, 260):
        write(keyed / f"{n}.npy", np.array([n], "i4"))
    for n in range(0, 200, 9):
        (keyed / f"{n}.npy").unlink()
    after = {key: at for at, part in enumerate(nf.files(keyed).split(0.7, 0.2)) for key in part.keys}
    assert len(after) == 260 - 23
    assert all(before[key] == at for key, at in after.items() if key in before)
    assert "approximate" in str(nf.files(keyed).split(0.5)[0].report)
    other = {key: at for at, part in enumerate(nf.files(keyed).split(0.7, 0.2, seed=1)) for key in part.keys}
    assert other != after


def test_parts_hold_what_their_keys_say(keyed):
    for part in nf.files(keyed).split(0.6):
        assert [str(int(x[0])) for x in part] == list(part.keys)


@pytest.mark.parametrize("fractions", [(), (0,), (-0.1,), (1.1,), (0.6, 0.6), (float("nan"),), (float("inf"),)])
def test_bad_fractions(flow, fractions):
    with pytest.raises(nf.OptionError, match="split"):
        flow.split(*fractions)


def test_an_empty_part_is_an_error(keyed):
    with pytest.raises(nf.OptionError, match=r"leaves a part empty \(sizes 0, 5\)"):
        nf.rows(np.arange(5)).split(0.01)
    with pytest.raises(nf.OptionError, match="leaves a part empty"):
        nf.files(keyed)[:3].split(0.999)
    with pytest.raises(nf.OptionError, match="expected an integer"):
        nf.files(keyed).split(0.5, seed=0.5)


@pytest.mark.parametrize("seed", [-1, 2**64, 2**200, -(2**200)])
def test_any_integer_is_a_seed(keyed, seed):
    for flow in (nf.files(keyed), nf.rows(np.arange(50))):
        assert sum(map(len, flow.split(0.5, seed=seed))) == len(flow)
        assert sum(map(len, flow.batches(7, shuffle=True, seed=seed))) == len(flow)


def test_pickled_by_path(tmp_path, keyed):
    rows = nf.rows((write(tmp_path / "x.npy", X, fortran=True), write(tmp_path / "y.npy", np.arange(50))))
    files = nf.files(keyed, labels=lambda key: "ab"[int(key) % 2])
    for flow in (rows, files, rows[5:9], files.split(0.5)[1]):
        data = pickle.dumps(flow)
        again = pickle.loads(data)
        assert len(data) < 30_000
        assert (len(again), again.spec, again.classes, again.access) == (
            len(flow),
            flow.spec,
            flow.classes,
            flow.access,
        )
        assert np.asarray(again.keys).tolist() == np.asarray(flow.keys).tolist()
        for a, b in zip(again, flow, strict=True):
            same(a[0], b[0])
            same(a[1], b[1])
        flow_order = [batch[1].tolist() for batch in flow.batches(3, shuffle=True, seed=5)]
        assert [batch[1].tolist() for batch in again.batches(3, shuffle=True, seed=5)] == flow_order


def test_a_pickle_does_not_grow_with_the_payload(tmp_path):
    path = write(tmp_path / "x.npy", np.zeros(1_000_000))
    for access in ("ram", "mmap", "read"):
        assert len(pickle.dumps(nf.rows(path, access=access))) < 3000


def test_arrays_in_ram_are_not_pickled():
    with pytest.raises(nf.OptionError, match=r"x is an array in RAM.*np\.save"):
        pickle.dumps(nf.rows({"x": X, "y": Y}))


def test_a_pickled_flow_notices_changes(tmp_path):
    path = write(tmp_path / "x.npy", X)
    data = pickle.dumps(nf.rows(path))
    write(tmp_path / "x.npy", X[:20])
    with pytest.raises(nf.FileChangedError, match=r"x\.npy"):
        list(pickle.loads(data))


def test_an_empty_array_is_a_flow():
    flow = nf.rows((np.empty((0, 3), "f4"), np.empty(0)))
    assert len(flow) == 0
    assert list(flow) == []
    assert list(flow.batches(4, shuffle=True)) == []
    with pytest.raises(nf.IndexRangeError):
        flow[0]
