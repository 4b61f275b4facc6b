"""From what a user names to files and keys."""

from __future__ import annotations

import glob
import os
from pathlib import Path

import numpy as np
import pytest

import npyflow as nf
from helpers import write


def make(root: Path, *names: str | bytes) -> None:
    """Files that hold their place in the list."""
    for at, name in enumerate(names):
        path = os.path.join(os.fsencode(root), os.fsencode(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            np.save(file, np.array([at], "f4"))


def keys(*args, **kwargs) -> list[str]:
    return list(nf.files(*args, **kwargs).keys)


def test_a_folder_in_natural_order(tmp_path):
    make(tmp_path, "10.npy", "2.npy", "1.npy", "s10/1.npy", "s9/1.npy", "a.npy")
    assert keys(tmp_path) == ["1", "2", "10", "a", "s9/1", "s10/1"]
    assert [int(x[0]) for x in nf.files(tmp_path)] == [2, 1, 0, 5, 4, 3]


def test_the_order_does_not_depend_on_the_listing(tmp_path, monkeypatch):
    names = [f"{folder}/{n}.npy" for folder in ("b", "a") for n in (3, 20, 1)]
    make(tmp_path, *names)
    expected = keys(tmp_path)
    real = os.scandir

    class Backwards:
        def __init__(self, path):
            with real(path) as entries:
                self.entries = sorted(entries, key=lambda entry: entry.name, reverse=True)

        def __enter__(self):
            return iter(self.entries)

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(os, "scandir", Backwards)
    assert keys(tmp_path) == expected == ["a/1", "a/3", "a/20", "b/1", "b/3", "b/20"]


def test_hidden_files_and_litter_are_left_out_and_counted(tmp_path):
    make(tmp_path, "1.npy", "2.npy", "sub/3.npy", "sub/.hid.npy", ".hidden/4.npy", ".a.npy.swp")
    (tmp_path / "._1.npy").write_bytes(b"\x00\x05\x16\x07\x00\x02\x00\x00")
    (tmp_path / ".DS_Store").write_bytes(b"x")
    (tmp_path / "__MACOSX").mkdir()
    (tmp_path / "__MACOSX" / "._1.npy").write_bytes(b"\x00\x05\x16\x07")
    for name in ("Icon\r", "Thumbs.db", "desktop.ini"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "notes.txt").write_text("x")
    flow = nf.files(tmp_path)
    assert list(flow.keys) == ["1", "2", "sub/3"]
    assert dict(flow.report.left_out) == {"hidden": 5, "litter": 4, "not matching": 1}
    text = "\n".join(flow.report.lines())
    assert "5 hidden" in text
    assert "4 litter" in text
    assert "1 not matching" in text


def test_a_hidden_file_that_is_named_is_taken(tmp_path):
    make(tmp_path, ".x.npy", "y.npy")
    assert keys([tmp_path / ".x.npy"]) == [".x"]
    assert keys(tmp_path / ".x.npy") == [".x"]
    assert len(nf.rows(tmp_path / ".x.npy")) == 1


def test_a_path_that_exists_is_literal(tmp_path):
    make(tmp_path, "run[1]/x.npy", "run1/x.npy", "a*b/y.npy", "axb/y.npy", "q?.npy", "qq.npy", "{key}/z.npy")
    assert len(nf.rows(tmp_path / "run[1]" / "x.npy")) == 1
    assert nf.files(tmp_path / "run[1]" / "x.npy")[0] == 0
    assert keys(tmp_path / "run[1]") == ["x"]
    assert nf.files(tmp_path / "a*b")[0] == 2
    assert nf.files(tmp_path / "q?.npy")[0] == 4
    assert len(nf.files(str(tmp_path / "q*.npy"))) == 2
    assert nf.files(tmp_path / "{key}")[0] == 6


def test_patterns(tmp_path):
    make(tmp_path, "a/1.npy", "a/2.npy", "b/1.npy", "a/deep/er/3.npy", "x1.npy", "x2.npy", "xa.npy", "é.npy")
    root = str(tmp_path)
    assert keys(f"{root}/*.npy") == ["x1", "x2", "xa", "é"]
    assert keys(f"{root}/x?.npy") == ["x1", "x2", "xa"]
    assert keys(f"{root}/x[0-9].npy") == ["x1", "x2"]
    assert keys(f"{root}/x[!0-9].npy") == ["xa"]
    assert keys(f"{root}/*/1.npy") == ["a/1", "b/1"]
    assert keys(f"{root}/a/**/*.npy") == ["1", "2", "deep/er/3"]
    assert keys(f"{root}/**/3.npy") == ["a/deep/er/3"]
    assert keys(root, pattern="*.npy") == ["x1", "x2", "xa", "é"]
    assert keys(root, pattern="[ab]/*.npy") == ["a/1", "a/2", "b/1"]


@pytest.mark.parametrize("name", ["run[1]", "a*b", "q?", "x[", "x]", "[!a]", "[[]", "$^.+()|\\"])
def test_glob_escape_is_understood(tmp_path, name):
    make(tmp_path, f"{name}/1.npy", f"{name}/2.npy", "other/1.npy")
    assert keys(f"{tmp_path}/{glob.escape(name)}/*.npy") == ["1", "2"] or keys(
        f"{tmp_path}/{glob.escape(name)}/*.npy"
    ) == [f"{name}/1", f"{name}/2"]


@pytest.mark.parametrize(
    "pattern", ["[b-a].npy", "[!]a].npy", "[a&&b].npy", "[a--b].npy", "[a||b].npy", "[]a].npy", "[^a].npy"]
)
def test_character_classes_are_those_of_fnmatch(tmp_path, pattern):
    import fnmatch

    names = ["a", "b", "x", "&", "-", "|", "]", "^", "!"]
    make(tmp_path, *(f"{name}.npy" for name in names))
    expected = sorted(name for name in names if fnmatch.fnmatchcase(f"{name}.npy", pattern))
    if expected:
        assert sorted(keys(f"{tmp_path}/{pattern}")) == expected
    else:
        with pytest.raises(nf.MissingFileError):
            nf.files(f"{tmp_path}/{pattern}")


def test_case_counts(tmp_path):
    make(tmp_path, "a.npy", "B.NPY")
    flow = nf.files(tmp_path)
    assert list(flow.keys) == ["a"]
    assert flow.report.left_out["not matching"] == 1
    assert keys(tmp_path, pattern="*.NPY") == ["B"]


def test_a_key_placeholder(tmp_path):
    make(tmp_path, "ids/1-ids.npy", "ids/10-ids.npy", "ids/2-ids.npy", "ids/s/3-ids.npy", "ids/stats.npy")
    flow = nf.files(f"{tmp_path}/ids/{{key}}-ids.npy")
    assert list(flow.keys) == ["1", "2", "10", "s/3"]
    assert flow.report.left_out["not matching"] == 1
    assert keys(f"{tmp_path}/{{key}}/1-ids.npy") == ["ids"]
    with pytest.raises(nf.OptionError, match="more than once"):
        nf.files(f"{tmp_path}/{{key}}/{{key}}.npy")


def test_six_forms_are_the_same(tmp_path):
    class Tensor:
        """Stands for a ``tf.Tensor``, which must not be imported."""

        def __init__(self, value):
            self.value = value

        def numpy(self):
            return self.value

    make(tmp_path, "c.npy", "a.npy", "été.npy")
    texts = [str(tmp_path / name) for name in ("c.npy", "a.npy", "été.npy")]
    raw = [os.fsencode(text) for text in texts]
    lists = [
        texts,
        [Path(text) for text in texts],
        raw,
        np.array(texts),
        np.array(texts, object),
        np.array(raw),
        Tensor(np.array(raw, object)),
        [Tensor(one) for one in raw],
        [np.array(one) for one in texts],
    ]
    for form in lists:
        flow = nf.files(form)
        assert list(flow.keys) == ["c", "a", "été"]
        assert [int(x[0]) for x in flow] == [0, 1, 2]
    for form in (
        str(tmp_path),
        tmp_path,
        os.fsencode(tmp_path),
        np.array(str(tmp_path)),
        Tensor(os.fsencode(tmp_path)),
    ):
        assert keys(form) == ["a", "c", "été"]
    for form in (texts[0], Path(texts[0]), raw[0], np.array(texts[0]), np.str_(texts[0]), Tensor(raw[0])):
        assert len(nf.rows(form)) == 1
        assert len(nf.files(form)) == 1


def test_names_that_are_not_utf_8(tmp_path):
    make(tmp_path, b"\xe9.npy", "été.npy", "数据.npy", "a b#c.npy", b"d\xff/1.npy")
    flow = nf.files(tmp_path)
    assert sorted(int(x[0]) for x in flow) == [0, 1, 2, 3, 4]
    assert os.fsdecode(b"\xe9") in flow.keys
    repr(flow)
    flow.describe().encode("utf-8")
    path = os.path.join(os.fsencode(tmp_path), b"\xe9.npy")
    assert len(nf.rows(path)) == 1
    with open(path, "wb"):
        pass
    with pytest.raises(nf.FileFormatError) as caught:
        nf.files(tmp_path)
    str(caught.value).encode("utf-8")
    assert os.fsencode(caught.value.path) == path


@pytest.mark.parametrize("where", ["absolute", "relative", "through a link"])
def test_links_are_followed_but_not_in_circles(tmp_path, monkeypatch, where):
    root = tmp_path / "root"
    make(root, "a/x.npy")
    make(tmp_path, "elsewhere/y.npy")
    (root / "linked").symlink_to(tmp_path / "elsewhere")
    (root / "a" / "up").symlink_to(root)
    (root / "a" / "same").symlink_to(root / "a")
    (tmp_path / "shortcut").symlink_to(root)
    monkeypatch.chdir(tmp_path)
    opened = {"absolute": root, "relative": "root", "through a link": tmp_path / "shortcut"}[where]
    assert keys(opened) == ["a/x", "linked/y"]


def test_a_link_to_itself_is_named(tmp_path):
    make(tmp_path, "x.npy")
    (tmp_path / "me.npy").symlink_to("me.npy")
    with pytest.raises(nf.FileError) as caught:
        nf.files(tmp_path)
    assert str(tmp_path / "me.npy") in str(caught.value)


def test_a_dangling_link_is_named(tmp_path):
    make(tmp_path, "x.npy")
    (tmp_path / "y.npy").symlink_to("nowhere.npy")
    with pytest.raises(nf.MissingFileError) as caught:
        nf.files(tmp_path)
    assert caught.value.path == str(tmp_path / "y.npy")


def test_nothing_there(tmp_path):
    make(tmp_path, "data/x.npy", "data/y.npy")
    with pytest.raises(
        nf.MissingFileError, match=r"no such file or folder; the nearest folder, .*data, holds x.npy, y.npy"
    ):
        nf.files(tmp_path / "data" / "z.npy")
    with pytest.raises(nf.MissingFileError, match=r"\*\.bin: no file matches; it holds 2 other files"):
        nf.rows(f"{tmp_path}/data/*.bin")
    with pytest.raises(nf.MissingFileError, match=r"matches pattern='\*\.bin'"):
        nf.files(tmp_path / "data", pattern="*.bin")
    with pytest.raises(FileNotFoundError, match="nearest folder"):
        nf.files(f"{tmp_path}/nowhere/at/all/*.npy")
    with pytest.raises(nf.MissingFileError, match="empty list"):
        nf.files([])
    with pytest.raises(nf.OptionError, match=r"npyflow\.rows"):
        nf.files(np.zeros(3))
    with pytest.raises(nf.MissingFileError, match=r"is a folder.*npyflow\.files"):
        nf.rows(tmp_path / "data")


def test_a_list_keeps_its_order_and_keys_are_relative(tmp_path, monkeypatch):
    make(tmp_path, "b/1.npy", "a/1.npy", "a/2.npy")
    paths = [tmp_path / "b" / "1.npy", tmp_path / "a" / "2.npy", tmp_path / "a" / "1.npy"]
    assert keys(paths) == ["b/1", "a/2", "a/1"]
    assert keys(paths[:1]) == ["1"]
    monkeypatch.chdir(tmp_path)
    assert keys(["b/1.npy", "a/1.npy"]) == ["b/1", "a/1"]
    assert keys("a") == ["1", "2"]
    assert keys("a/*.npy") == ["1", "2"]
    assert keys("./a/../a") == ["1", "2"]
    assert keys("*/1.npy") == ["a/1", "b/1"]


def test_shards_in_natural_order(tmp_path):
    for n in (10, 2, 1):
        write(tmp_path / f"x-{n}.npy", np.full(2, n))
    assert [int(x) for x in nf.rows(f"{tmp_path}/x-*.npy")] == [1, 1, 2, 2, 10, 10]
    given = [tmp_path / "x-10.npy", tmp_path / "x-1.npy"]
    assert [int(x) for x in nf.rows(given)] == [10, 10, 1, 1]


def test_two_files_with_one_key(tmp_path):
    make(tmp_path, "x.npy", "x.NPY")
    with pytest.raises(nf.PairingError, match=r"1 key .*more than once: x") as caught:
        nf.files(tmp_path, pattern="x.*")
    assert "x.NPY" in str(caught.value)
