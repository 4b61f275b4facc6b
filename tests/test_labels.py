"""Labels: from folders, functions, mappings, tables and arrays."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import npyflow as nf
from helpers import saved, write


@pytest.fixture
def folder(tmp_path):
    """Files 0 to 4 by class folder, holding their number."""
    for n, name in enumerate(["cat", "dog", "dog", "emu", "cat"]):
        write(tmp_path / "data" / name / f"{n}.npy", np.array([n], "f4"))
    return tmp_path / "data"


@pytest.fixture
def flat(tmp_path):
    for n in range(12):
        write(tmp_path / "flat" / f"{n}.npy", np.array([n], "f4"))
    return tmp_path / "flat"


def pairs(flow) -> dict[int, object]:
    return {int(x[0]): y.tolist() for x, y in flow}


def table(tmp_path, text: str | bytes, **kwargs):
    path = tmp_path / "labels.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return nf.Table(path=path, **{"key": "id", "value": "target", **kwargs})


def test_directory(folder):
    flow = nf.files(folder, labels="directory")
    assert flow.classes == ("cat", "dog", "emu")
    assert pairs(flow) == {0: 0, 4: 0, 1: 1, 2: 1, 3: 2}
    assert flow.spec[1] == nf.ArraySpec((), np.dtype("i8"))
    assert flow.access == ("files", "ram")


def test_classes_keep_their_numbers_where_one_is_missing(folder, tmp_path):
    train = nf.files(folder, labels="directory")
    write(tmp_path / "val" / "emu" / "7.npy", np.array([7], "f4"))
    write(tmp_path / "val" / "cat" / "8.npy", np.array([8], "f4"))
    val = nf.files(tmp_path / "val", labels="directory", classes=train.classes)
    assert val.classes == train.classes
    assert pairs(val) == {7: 2, 8: 0}
    write(tmp_path / "val" / "fox" / "9.npy", np.array([9], "f4"))
    with pytest.raises(nf.PairingError, match=r"'fox' are not in classes=\('cat', 'dog', 'emu'\)"):
        nf.files(tmp_path / "val", labels="directory", classes=train.classes)
    with pytest.raises(nf.OptionError, match="twice"):
        nf.files(folder, labels="directory", classes=("cat", "dog", "emu", "cat"))


def test_files_outside_class_folders(folder):
    write(folder / "9.npy", np.array([9], "f4"))
    with pytest.raises(nf.PairingError, match=r"1 of 6 files have no label: 9 .*in no class folder"):
        nf.files(folder, labels="directory")
    flow = nf.files(folder, labels="directory", on_bad="skip")
    assert pairs(flow) == {0: 0, 4: 0, 1: 1, 2: 1, 3: 2}
    assert flow.report.skipped == {"9": "the file is in no class folder"}


def test_deep_folders_count_as_their_first(tmp_path):
    write(tmp_path / "a" / "deep" / "er" / "1.npy", np.array([1], "f4"))
    write(tmp_path / "b" / "2.npy", np.array([2], "f4"))
    assert pairs(nf.files(tmp_path, labels="directory")) == {1: 0, 2: 1}


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda key: int(key) * 2, [0, 2, 4]),
        (lambda key: float(key) / 2, [0.0, 0.5, 1.0]),
        (lambda key: [int(key), 7], [[0, 7], [1, 7], [2, 7]]),
        (lambda key: int(key) > 1, [False, False, True]),
        (lambda key: "even" if int(key) % 2 == 0 else "a", [1, 0, 1]),
        (lambda key: np.float32(key), [0.0, 1.0, 2.0]),
    ],
)
def test_a_function_of_the_key(flat, function, expected):
    flow = nf.files(flat, labels=function)
    assert list(pairs(flow).values())[:3] == expected


def test_dtypes_of_labels(flat):
    def spec(value):
        return nf.files(flat, labels=lambda key: value).spec[1]

    assert spec(1) == nf.ArraySpec((), np.dtype("i8"))
    assert spec(1.0) == nf.ArraySpec((), np.dtype("f8"))
    assert spec(np.ones((2, 3), "f4")) == nf.ArraySpec((2, 3), np.dtype("f4"))
    assert spec("x") == nf.ArraySpec((), np.dtype("i8"))


def test_labels_that_are_no_array(flat):
    with pytest.raises(nf.OptionError, match="numbers, strings or arrays of one shape"):
        nf.files(flat, labels=lambda key: [0] * (1 + int(key) % 2))
    with pytest.raises(nf.PairingError, match=r"no key has one.*the function returned None"):
        nf.files(flat, labels=lambda key: None)


def test_a_mapping(flat):
    labels = {str(n): n * n for n in range(12)} | {"99": 0}
    flow = nf.files(flat, labels=labels)
    assert pairs(flow) == {n: n * n for n in range(12)}
    assert flow.report.extra_labels == ("99",)
    del labels["3"], labels["4"]
    with pytest.raises(nf.PairingError, match=r"2 of 12 files have no label: 3, 4 .*labels without a file: 99"):
        nf.files(flat, labels=labels)
    flow = nf.files(flat, labels=labels, on_bad="skip")
    assert pairs(flow) == {n: n * n for n in range(12) if n not in (3, 4)}
    assert set(flow.report.skipped) == {"3", "4"}
    with pytest.raises(nf.PairingError, match="no key has one"):
        nf.files(flat, labels={"x": 1})


def test_a_table_with_bom_and_quotes(flat, tmp_path):
    rows = "\r\n".join(f'"{n}","a ""quoted"", value",{n / 2}' for n in range(12))
    labels = table(tmp_path, b"\xef\xbb\xbf" + f"id,text,target\r\n{rows}\r\n".encode())
    assert pairs(nf.files(flat, labels=labels)) == {n: n / 2 for n in range(12)}
    flow = nf.files(flat, labels=nf.Table(path=str(labels.path), key="id", value="text"))
    assert flow.classes == ('a "quoted", value',)


def test_a_table_as_the_design_writes_it(flat, tmp_path):
    labels = table(tmp_path, "id,target\n" + "".join(f"{n},{n}\n" for n in range(12)))
    assert pairs(nf.files(flat, labels=nf.Table(labels.path, key="id", value="target"))) == {n: n for n in range(12)}


def test_keys_of_a_table_stay_text(tmp_path):
    for key in ("007", "7", "1e3"):
        write(tmp_path / "d" / f"{key}.npy", np.array([len(key)], "f4"))
    labels = table(tmp_path, "id,target\n7,1\n007,3\n1e3,-3\n")
    flow = nf.files(tmp_path / "d", labels=labels)
    assert dict(zip(flow.keys, (int(y) for _, y in flow), strict=True)) == {"7": 1, "007": 3, "1e3": -3}


def test_several_columns_make_a_vector(flat, tmp_path):
    labels = table(tmp_path, "id,a,b\n" + "".join(f"{n},{n},0.5\n" for n in range(12)), value=["a", "b"])
    flow = nf.files(flat, labels=labels)
    assert flow.spec[1] == nf.ArraySpec((2,), np.dtype("f8"))
    assert pairs(flow)[3] == [3.0, 0.5]


def test_names_of_a_table_match_in_fanned_out_folders(tmp_path):
    for key in ("0/0/1/001a", "a/b/c/abc0", "0/x/dup", "1/x/dup"):
        write(tmp_path / "d" / f"{key}.npy", np.zeros(1, "f4"))
    flow = nf.files(tmp_path / "d", labels=table(tmp_path, "id,target\n001a,1\nabc0,2\n0/x/dup,3\n1/x/dup,4\n"))
    assert dict(zip(flow.keys, (int(y) for _, y in flow), strict=True)) == {
        "0/0/1/001a": 1, "a/b/c/abc0": 2, "0/x/dup": 3, "1/x/dup": 4,
    }  # fmt: skip
    with pytest.raises(nf.PairingError, match="2 of 4 files have no label: 0/x/dup, 1/x/dup"):
        nf.files(tmp_path / "d", labels=table(tmp_path, "id,target\n001a,1\nabc0,2\ndup,3\n"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,target\n1,0\n2,0\n1,1\n", "1 key more than once: 1"),
        ("name,target\n1,0\n", "no column id; it has name, target"),
        ("id,label\n1,0\n", "no column target; it has id, label"),
        ("id,target\n", "it has no rows|it has id, target"),
        ("", "no rows"),
    ],
)
def test_bad_tables(flat, tmp_path, text, message):
    with pytest.raises(nf.PairingError, match=message):
        nf.files(flat, labels=table(tmp_path, text))


def test_missing_tables(flat, tmp_path):
    with pytest.raises(nf.MissingFileError, match="no such file"):
        nf.files(flat, labels=nf.Table(path=tmp_path / "none.csv", key="id", value="target"))
    with pytest.raises(nf.OptionError, match="empty"):
        nf.Table(path="x", key="id", value=())


@pytest.mark.parametrize("data", [b"id,target\n1,\xe9\xff\n", b"id,target\n1\n2,3\n"])
def test_unreadable_tables_are_named(flat, tmp_path, data):
    with pytest.raises(nf.NpyflowError, match=r"labels\.csv"):
        nf.files(flat, labels=table(tmp_path, data))


def test_a_folder_as_table_is_named(flat, tmp_path):
    with pytest.raises(nf.NpyflowError, match=tmp_path.name):
        nf.files(flat, labels=nf.Table(path=tmp_path, key="id", value="target"))


def test_duplicates_in_a_table_list_the_keys(flat, tmp_path):
    with pytest.raises(nf.PairingError, match="2 keys more than once: 1, 2"):
        nf.files(flat, labels=table(tmp_path, "id,target\n1,0\n2,0\n2,0\n1,1\n3,1\n"))


def test_an_array_in_key_order_shows_its_ends(flat, tmp_path):
    labels = np.arange(12) * 10
    np.save(tmp_path / "labels.npy", labels)
    for given in (
        labels,
        labels.tolist(),
        tuple(labels.tolist()),
        tmp_path / "labels.npy",
        str(tmp_path / "labels.npy"),
    ):
        with pytest.warns(nf.NpyflowWarning, match="natural order"):
            flow = nf.files(flat, labels=given)
        assert pairs(flow) == {n: n * 10 for n in range(12)}
        expected = [("0", "0"), ("1", "10"), ("2", "20"), ("9", "90"), ("10", "100"), ("11", "110")]
        assert list(flow.report.matches) == expected
        assert "0 = 0, 1 = 10, 2 = 20, 9 = 90" in str(flow.report)


def test_no_warning_where_orders_agree(tmp_path):
    for n in range(3):
        write(tmp_path / f"{n}.npy", np.array([n], "f4"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        flow = nf.files(tmp_path, labels=np.array(["b", "a", "b"]))
    assert flow.classes == ("a", "b")
    assert pairs(flow) == {0: 1, 1: 0, 2: 1}
    assert list(flow.report.matches) == [("0", "b"), ("1", "a"), ("2", "b")]


@pytest.mark.parametrize("labels", [np.arange(11), np.arange(13), np.float32(1), np.zeros((11, 2))])
def test_another_number_of_labels(flat, labels):
    with pytest.raises((nf.ShapeMismatchError, nf.OptionError)) as caught:
        nf.files(flat, labels=labels)
    if getattr(labels, "ndim", 0):
        assert f"{len(labels)} labels for 12 files" in str(caught.value)


def test_labels_that_name_nothing(flat, tmp_path):
    with pytest.raises(nf.MissingFileError, match=r"none\.npy: no such file"):
        nf.files(flat, labels=tmp_path / "none.npy")
    with pytest.raises(nf.OptionError, match="expected 'directory'"):
        nf.files(flat, labels="folders")


@pytest.mark.parametrize("kind", ["archive", "object", "empty", "text", "folder", "truncated"])
def test_bad_label_files_are_named(flat, tmp_path, kind):
    path = tmp_path / "labels.npy"
    if kind == "archive":
        np.savez(tmp_path / "a.npz", x=np.arange(12))
        (tmp_path / "a.npz").rename(path)
    elif kind == "object":
        np.save(path, np.array([None] * 12, object), allow_pickle=True)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_bytes({"empty": b"", "text": b"hello", "truncated": saved(np.arange(12))[:-1]}[kind])
    with pytest.raises(nf.NpyflowError, match=r"labels\.npy"):
        nf.files(flat, labels=path)


def test_class_numbers_are_checked_against_classes(flat):
    with pytest.raises(nf.OptionError, match=r"from 0 to 2, but classes= has 2 names"):
        nf.files(flat, labels=lambda key: int(key) % 3, classes=("a", "b"))
    flow = nf.files(flat, labels=lambda key: int(key) % 3, classes=("a", "b", "c"))
    assert flow.classes == ("a", "b", "c")
    assert pairs(flow)[5] == 2


def test_labels_come_after_any_structure(flat):
    flow = nf.files({"a": flat, "b": (flat, flat)}, labels=lambda key: int(key))
    inputs, label = flow[4]
    assert label == 4
    assert inputs["b"][1][0] == 4
