"""Sizes are checked against headers when a flow is opened, and every bad file is named at once."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

import npyflow as nf
from helpers import header, npy_bytes, saved, write
from npyflow._sources import scanner
from npyflow._sources.scan import scan

ARRAY = np.arange(24, dtype="<f4").reshape(4, 6)


@pytest.fixture(params=["rows", "rows mapped", "rows read", "rows ram", "files"])
def opened(request):
    """Open one file in each way."""
    kind = request.param
    if kind == "files":
        return lambda path: nf.files([path])
    return lambda path: nf.rows(path, access={"rows": "auto", "rows mapped": "mmap"}.get(kind, kind[5:]))


def bad(tmp_path, data: bytes, opened) -> nf.FileFormatError:
    path = tmp_path / "x.npy"
    path.write_bytes(data)
    with pytest.raises(nf.FileFormatError) as caught:
        opened(path)
    assert caught.value.path == str(path)
    assert str(path) in str(caught.value)
    return caught.value


def test_truncated(tmp_path, opened):
    message = str(bad(tmp_path, saved(ARRAY)[:-48], opened))
    assert "cut off" in message
    assert "expected 224 bytes" in message
    assert "found 176 (79 %)" in message
    assert "(4, 6)" in message
    assert "again" in message


def test_one_byte_short(tmp_path, opened):
    assert "expected 224 bytes" in str(bad(tmp_path, saved(ARRAY)[:-1], opened))


def test_header_only(tmp_path, opened):
    assert "found 128" in str(bad(tmp_path, saved(ARRAY)[:128], opened))


@pytest.mark.parametrize("keep", [12, 20, 60, 127])
def test_cut_inside_the_header(tmp_path, opened, keep):
    message = str(bad(tmp_path, saved(ARRAY)[:keep], opened))
    assert "inside its header" in message
    assert f"found {keep}" in message


@pytest.mark.parametrize("keep", range(12))
def test_cut_before_the_header_says_where(tmp_path, opened, keep):
    message = str(bad(tmp_path, saved(ARRAY)[:keep], opened))
    assert "empty" in message if keep == 0 else "cut off" in message


@pytest.mark.parametrize("extra", [1, 40])
def test_trailing_bytes(tmp_path, opened, extra):
    message = str(bad(tmp_path, saved(ARRAY) + b"\x07" * extra, opened))
    assert f"{extra} bytes after its array" in message


def test_second_array(tmp_path, opened):
    message = str(bad(tmp_path, saved(np.arange(3)) + saved(np.arange(4)), opened))
    assert "1 more array after its first" in message
    message = str(bad(tmp_path, b"".join(saved(np.arange(n)) for n in range(5)), opened))
    assert "4 more arrays" in message
    message = str(bad(tmp_path, saved(ARRAY) + saved(ARRAY)[:-1], opened))
    assert "223 bytes after its array" in message


def test_appended_arrays_are_read_when_asked_for(tmp_path):
    path = tmp_path / "x.npy"
    path.write_bytes(saved(ARRAY) + saved(ARRAY[:2]) + saved(ARRAY[:0]) + saved(ARRAY[3:]))
    flow = nf.rows(path, appended=True)
    np.testing.assert_array_equal(flow.keys, np.arange(7))
    np.testing.assert_array_equal(np.stack(list(flow)), np.concatenate([ARRAY, ARRAY[:2], ARRAY[3:]]))
    assert str(flow._view.examples.sources.sources[0].place(5)) == f"{path} member 'array 1' row 1"
    for rest, said in ((b"junk, much of it", "is no .npy file"), (saved(ARRAY)[:-1], "is cut off")):
        path.write_bytes(saved(ARRAY) + rest)
        with pytest.raises(nf.FileFormatError, match=r"x\.npy member 'array 1'") as caught:
            nf.rows(path, appended=True)
        assert said in str(caught.value)
    for data in (b"", b"<html>"):
        path.write_bytes(data)
        with pytest.raises(nf.FileFormatError):
            nf.rows(path, appended=True)
    path.write_bytes(saved(ARRAY) + saved(np.zeros(3)))
    with pytest.raises(nf.ShapeMismatchError, match="array 1"):
        nf.rows(path, appended=True)


def test_object_dtype_is_refused_from_the_header(tmp_path, opened):
    path = tmp_path / "x.npy"
    np.save(path, np.array([[1], [1, 2], None, "a"], object), allow_pickle=True)
    with pytest.raises(nf.NpyflowError, match="pickle") as caught:
        opened(path)
    assert isinstance(caught.value, nf.UnsupportedDtypeError)
    assert str(path) in str(caught.value)


def test_object_dtype_of_a_fitting_size_is_refused(tmp_path, opened):
    path = tmp_path / "x.npy"
    path.write_bytes(header("|O", False, (3,)) + bytes(24))
    with pytest.raises(nf.UnsupportedDtypeError, match="object arrays are pickles"):
        opened(path)


@pytest.mark.parametrize(
    "dtype", ["|V2", "|V6", "<f16", "<c32", [("x", "<f4"), ("y", "<f16")], [("x", [("y", "|V3")])]]
)
def test_dtypes_without_a_tensorflow_type_are_refused_by_name(tmp_path, opened, dtype):
    path = write(tmp_path / "x.npy", np.zeros(3, dtype))
    with pytest.raises(nf.UnsupportedDtypeError) as caught:
        opened(path)
    message = str(caught.value)
    if isinstance(dtype, str):
        assert np.dtype(dtype).str.lstrip("|") in message or np.dtype(dtype).name in message
    else:
        assert "field 'y'" in message or "field 'x.y'" in message
    assert path in message
    assert not message.startswith(":")


def test_every_bad_file_is_reported_in_order(tmp_path):
    good = saved(ARRAY)
    content = {
        "01": good,
        "02": good[:-1],
        "03": b"",
        "04": good + b"x",
        "05": b"hello, world, hello",
        "06": good,
        "07": header("<f4", False, (-1, 2)),
    }
    for name, data in content.items():
        (tmp_path / f"{name}.npy").write_bytes(data)
    with pytest.raises(nf.BadFilesError) as caught:
        nf.files(tmp_path)
    assert [os.path.basename(error.path) for error in caught.value.problems] == [f"0{n}.npy" for n in (2, 3, 4, 5, 7)]
    assert all(isinstance(error, nf.FileFormatError) for error in caught.value.problems)
    assert "5 of 7 files" in str(caught.value)
    with pytest.raises(nf.BadFilesError) as caught:
        nf.rows(str(tmp_path / "*.npy"))
    assert len(caught.value.problems) == 5


def test_bad_files_of_all_components_are_reported(tmp_path):
    for folder in ("a", "b"):
        for n in range(3):
            write(tmp_path / folder / f"{n}.npy", ARRAY)
    (tmp_path / "a" / "1.npy").write_bytes(b"")
    (tmp_path / "b" / "2.npy").write_bytes(b"")
    with pytest.raises(nf.BadFilesError) as caught:
        nf.files({"a": tmp_path / "a", "b": tmp_path / "b"})
    assert len(caught.value.problems) == 2
    with pytest.raises(nf.BadFilesError) as caught:
        nf.rows((tmp_path / "a" / "1.npy", tmp_path / "b" / "2.npy"))
    assert len(caught.value.problems) == 2


def test_all_missing_files_are_reported(tmp_path):
    paths = [tmp_path / "1.npy", tmp_path / "2.npy"]
    for opening in (nf.files, nf.rows):
        with pytest.raises(nf.NpyflowError) as caught:
            opening(paths)
        assert all(str(path) in str(caught.value) for path in paths)


def test_a_long_list_is_cut_in_the_message_not_in_problems(tmp_path):
    for n in range(30):
        (tmp_path / f"{n}.npy").write_bytes(b"")
    with pytest.raises(nf.BadFilesError) as caught:
        nf.files(tmp_path)
    assert len(caught.value.problems) == 30
    assert "and 10 more" in str(caught.value)


def test_a_folder_named_like_a_file(tmp_path):
    (tmp_path / "x.npy").mkdir()
    with pytest.raises(nf.FileError) as caught:
        nf.files([tmp_path / "x.npy"])
    assert caught.value.path == str(tmp_path / "x.npy")


def test_headers_are_kept_once_and_apart(tmp_path):
    arrays = [np.zeros((2, 2), "<f4"), np.zeros((2, 2), ">f4"), np.zeros((2, 2), "<f4")]
    paths = [write(tmp_path / f"{n}.npy", array) for n, array in enumerate(arrays)]
    (table,) = scan(paths).tables
    assert [header.dtype.str for header in table.headers] == ["<f4", ">f4"]
    assert table.kinds.tolist() == [0, 1, 0]
    part = table.select(np.array([1]))
    assert (part.paths, part.kinds.tolist(), part.headers[0].dtype.str) == ([paths[1]], [0], ">f4")


def test_headers_longer_than_the_first_read(tmp_path):
    array = np.arange(7, dtype="i8")
    path = tmp_path / "x.npy"
    path.write_bytes(npy_bytes(array, align=8192, version=(3, 0)))
    np.testing.assert_array_equal(np.stack(list(nf.rows(path))), array)
    assert [int(v) for v in nf.files([path])[0]] == array.tolist()


def test_a_scan_reads_headers_only(tmp_path, monkeypatch):
    paths = []
    for n in range(3):
        path = tmp_path / f"{n}.npy"
        head = header("<f4", False, (1 << 28, 3))
        path.write_bytes(head)
        os.truncate(path, len(head) + (3 << 30))
        paths.append(str(path))
    asked = []
    real = scanner.read_start
    monkeypatch.setattr(scanner, "read_start", lambda fd, count: asked.append(count) or real(fd, count))
    found = scan(paths)
    assert len(found.tables[0]) == 3
    assert not found.bad
    assert sum(asked) < 3 * 1024


def test_rows_beyond_4_gib(tmp_path):
    path = tmp_path / "x.npy"
    rows = (5 << 30) // 4096
    head = header("<f4", False, (rows, 1024))
    path.write_bytes(head)
    os.truncate(path, len(head) + rows * 4096)
    with open(path, "r+b") as file:
        file.seek(len(head) + (rows - 1) * 4096)
        file.write(np.arange(1024, dtype="<f4").tobytes())
    for access in ("mmap", "read"):
        with nf.rows(path, access=access) as flow:
            np.testing.assert_array_equal(flow[-1], np.arange(1024, dtype="f4"))
            assert not flow[rows // 2].any()


def test_small_floats_need_their_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    path = write(tmp_path / "x.npy", np.zeros(3, "V2"))
    with pytest.raises(nf.MissingDependencyError, match=r"pip install 'npyflow\[ml-dtypes\]'"):
        nf.rows(path, dtype="bfloat16")
    with pytest.raises(nf.UnsupportedDtypeError, match="pass dtype='bfloat16'"):
        nf.rows(path)
    assert int(nf.rows(path, dtype="uint16")[0]) == 0
