"""A saved flow opens without a look at the data, and notices what has changed when it is read."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

import npyflow as nf
from helpers import same, sample, touch_later, write

X = sample(30, (3, 2), "f4")


def make_rows(folder: Path) -> nf.Flow:
    x = write(folder / "x.npy", X.astype(">f4"), fortran=True)
    y = [write(folder / f"y{at}.npy", np.arange(at * 10, at * 10 + 10), align=1) for at in range(3)]
    return nf.rows({"in": (x, x), "y": y}, dtype={"y": "int32"}, access={"in": ("read", "mmap")})


def make_rows_along_1(folder: Path) -> nf.Flow:
    return nf.rows(write(folder / "x.npy", np.moveaxis(X, 0, 1)), axis=1, access="ram")


def make_files(folder: Path) -> nf.Flow:
    for n in range(12):
        write(folder / "d" / "ab"[n % 2] / f"{n}.npy", X[n].astype(">f4" if n % 3 else "<f4"), fortran=n % 2 == 1)
    (folder / "d" / "a" / ".hidden.npy").write_bytes(b"")
    (folder / "d" / "a" / "bad.npy").write_bytes(b"")
    return nf.files(folder / "d", labels="directory", on_bad="skip", dtype="float64")


def make_odd_names(folder: Path) -> nf.Flow:
    for at, name in enumerate([b"\xe9.npy", "été.npy".encode(), b'q"uote\\ #.npy', b"new\nline.npy"]):
        path = os.path.join(os.fsencode(folder), b"d", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            np.save(file, X[at])
    return nf.files(folder / "d", labels=lambda key: key)


def labelled(value):
    def make(folder: Path) -> nf.Flow:
        for n in range(4):
            write(folder / "d" / f"{n}.npy", X[n])
        return nf.files({"x": folder / "d"}, labels=lambda key: value(int(key)), classes=None)

    return make


def make_positional(folder: Path) -> nf.Flow:
    for n in range(4):
        write(folder / "d" / f"{n}.npy", X[n])
    return nf.files(folder / "d", labels=np.array([3, 1, 2, 0]), classes=("w", "x", "y", "é"))


MAKERS = {
    "rows": make_rows,
    "rows along 1": make_rows_along_1,
    "files": make_files,
    "odd names": make_odd_names,
    "float labels": labelled(lambda n: [0.1 * n, np.nan, np.inf, 1e-310]),
    "float32 labels": labelled(lambda n: np.float32(n) / 3),
    "complex labels": labelled(lambda n: complex(n, -0.1)),
    "bool labels": labelled(lambda n: n > 1),
    "uint64 labels": labelled(lambda n: np.uint64(2**64 - 1 - n)),
    "empty labels": labelled(lambda n: np.empty((0, 2))),
    "positional labels": make_positional,
    "subset": lambda folder: make_files(folder)[[5, 0, 7]],
    "split": lambda folder: make_rows(folder).split(0.7)[0],
    "none of it": lambda folder: make_rows(folder)[:0],
}


@pytest.fixture(params=MAKERS)
def flow(request, tmp_path):
    return MAKERS[request.param](tmp_path / "data")


def leaves(example):
    if isinstance(example, dict):
        return [leaf for child in example.values() for leaf in leaves(child)]
    return [leaf for child in example for leaf in leaves(child)] if isinstance(example, tuple) else [example]


def assert_equal(got: nf.Flow, want: nf.Flow) -> None:
    assert len(got) == len(want)
    assert got.spec == want.spec
    assert got.access == want.access
    assert got.classes == want.classes
    assert type(got.keys) is type(want.keys)
    assert list(got.keys) == list(want.keys)
    assert got.report == want.report
    assert got.describe() == want.describe()
    for a, b in zip(got, want, strict=True):
        assert type(a) is type(b)
        for left, right in zip(leaves(a), leaves(b), strict=True):
            same(left, right)
    for a, b in zip(got.batches(4, shuffle=True, seed=1), want.batches(4, shuffle=True, seed=1), strict=True):
        for left, right in zip(leaves(a), leaves(b), strict=True):
            same(left, right)


def test_round_trip(flow, tmp_path):
    for path in (tmp_path / "data" / "flow.json", str(tmp_path / "elsewhere.json")):
        flow.save(path)
        again = nf.load(path)
        assert_equal(again, flow)
        again.save(path)
        assert_equal(nf.load(path), flow)


def test_a_manifest_is_readable(tmp_path):
    make_files(tmp_path).save(tmp_path / "flow.json")
    facts = json.loads((tmp_path / "flow.json").read_text("ascii"))
    text = (tmp_path / "flow.json").read_text("ascii")
    for part in ("a/0", "b/1", "classes", ">f4", "mtime", "hidden", "bad"):
        assert part in text
    assert facts["keys"][0] == "a/0"


def test_no_header_is_read_and_no_file_looked_at(tmp_path, monkeypatch):
    flows = {
        "rows": make_rows(tmp_path / "r"),
        "files": make_files(tmp_path / "f"),
        "part": make_files(tmp_path / "p")[:3],
    }
    for name, flow in flows.items():
        flow.save(tmp_path / f"{name}.json")
    asked: list[str] = []

    def count(name):
        real = getattr(os, name)

        def call(path, *args, **kwargs):
            asked.append(os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else str(path))
            return real(path, *args, **kwargs)

        monkeypatch.setattr(os, name, call)

    for name in ("open", "stat", "lstat", "scandir", "listdir", "fstat", "pread", "preadv"):
        count(name)
    opened = {name: nf.load(tmp_path / f"{name}.json") for name in flows}
    assert [len(flow) for flow in opened.values()] == [len(flow) for flow in flows.values()]
    assert not [path for path in asked if path.endswith(".npy") or not path.startswith("/")]
    opened["files"][0]
    assert asked


@pytest.mark.parametrize("access", ["mmap", "read", "files"])
@pytest.mark.parametrize("change", ["truncated", "rewritten", "removed", "touched"])
def test_a_changed_file_is_noticed_when_it_is_read(tmp_path, access, change):
    path = write(tmp_path / "d" / "x.npy", X)
    flow = nf.files([path]) if access == "files" else nf.rows(path, access=access)
    flow.save(tmp_path / "flow.json")
    if change == "truncated":
        os.truncate(path, os.path.getsize(path) - 4)
    elif change == "rewritten":
        write(path, X.astype("f8"))
    elif change == "removed":
        os.unlink(path)
    else:
        touch_later(path)
    again = nf.load(tmp_path / "flow.json")
    assert len(again) == len(flow)
    with pytest.raises(nf.FileChangedError) as caught:
        again[0]
    assert caught.value.path == path


def test_arrays_in_ram_refuse(tmp_path):
    flow = nf.rows({"x": write(tmp_path / "x.npy", X), "y": np.arange(30)})
    with pytest.raises(nf.OptionError, match=r"y is an array in RAM.*np\.save"):
        flow.save(tmp_path / "flow.json")
    assert sorted(os.listdir(tmp_path)) == ["x.npy"]


@pytest.mark.parametrize("make", [make_rows, make_files, make_odd_names])
def test_a_folder_moves_with_its_manifest(tmp_path, make):
    flow = make(tmp_path / "old" / "data")
    want = list(flow)
    for name in ("old/flow.json", "old/data/flow.json"):
        flow.save(tmp_path / name)
    flow.close()
    (tmp_path / "old").rename(tmp_path / "new")
    for name in ("new/flow.json", "new/data/flow.json"):
        again = nf.load(tmp_path / name)
        for a, b in zip(again, want, strict=True):
            for left, right in zip(leaves(a), leaves(b), strict=True):
                same(left, right)


def test_a_manifest_elsewhere_finds_files_that_stay(tmp_path, monkeypatch):
    make_rows(tmp_path / "data")
    monkeypatch.chdir(tmp_path / "data")
    nf.rows("x.npy").save(tmp_path / "flow.json")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    same(nf.load("../flow.json")[3], X[3])
    nf.rows("../data/x.npy").save("here.json")
    monkeypatch.chdir(tmp_path)
    same(nf.load("other/here.json")[3], X[3])
    (tmp_path / "other").rename(tmp_path / "moved")
    same(nf.load("moved/here.json")[3], X[3])


def test_saving_again_replaces_it_whole(tmp_path, monkeypatch):
    flow = make_files(tmp_path)
    path = tmp_path / "flow.json"
    flow.save(path)
    old = path.read_bytes()

    def full(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        flow[:3].save(path)
    assert path.read_bytes() == old
    assert sorted(os.listdir(tmp_path)) == ["d", "flow.json"]


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"[]", b"{}", b"null", b"hello", b"\xff\xfe", b'{"format": "other"}', b"[" * 100_000,
        b'{"a": ' * 100_000,
        b'{"format": "npyflow manifest"}', b'{"format": "npyflow manifest", "version": 1}', b"\x93NUMPY\x01\x00",
    ],
    ids=lambda data: str(data[:20]),
)  # fmt: skip
def test_what_is_no_manifest(tmp_path, data):
    path = tmp_path / "flow.json"
    path.write_bytes(data)
    with pytest.raises(nf.FileFormatError) as caught:
        nf.load(path)
    assert str(path) in str(caught.value)
    assert caught.value.path == str(path)


def test_missing_manifests(tmp_path):
    # A folder may be packed data, whose manifest has a name of its own.
    for path, manifest in ((tmp_path / "none.json", tmp_path / "none.json"), (tmp_path, tmp_path / "_npyflow.json")):
        with pytest.raises(nf.MissingFileError, match=r"flow\.save") as caught:
            nf.load(path)
        assert caught.value.path == str(manifest)


@pytest.mark.parametrize("version", [1, 2, 99, "1", None])
def test_another_version(tmp_path, version):
    path = tmp_path / "flow.json"
    make_files(tmp_path).save(path)
    facts = json.loads(path.read_text())
    facts["version"] = version
    path.write_text(json.dumps(facts))
    with pytest.raises(nf.FileFormatError, match=rf"version {version}.*reads 3"):
        nf.load(path)


def test_half_a_manifest(tmp_path):
    path = tmp_path / "flow.json"
    make_files(tmp_path).save(path)
    data = path.read_bytes()
    for size in range(0, len(data) - 3, max(1, len(data) // 97)):
        path.write_bytes(data[:size])
        with pytest.raises(nf.FileFormatError, match=r"flow\.json"):
            nf.load(path)


JUNK = [None, 7, -1, 2**70, 1.5, "x", "", [], [1], {}, {"a": 1}, True, [None], [[]], "../../x"]


def spots(node, path=()):
    yield path
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in list(children)[:4]:
        yield from spots(child, (*path, key))


@pytest.mark.parametrize("make", [make_files, make_rows, lambda folder: make_files(folder)[[1, 2]]])
def test_a_damaged_manifest_gives_one_of_our_errors(tmp_path, make):
    path = tmp_path / "flow.json"
    make(tmp_path).save(path)
    whole = path.read_text()
    leaks = {}
    for at, (*above, last) in enumerate(spot for spot in spots(json.loads(whole)) if spot):
        for junk in [JUNK[(at + step) % len(JUNK)] for step in (0, 4, 9)] + ["nothing"]:
            facts = json.loads(whole)
            node = facts
            for key in above:
                node = node[key]
            if junk == "nothing":
                del node[last]
            else:
                node[last] = junk
            path.write_text(json.dumps(facts))
            try:
                with nf.load(path) as flow:
                    flow.describe()
                    list(flow.batches(3))
            except nf.NpyflowError:
                pass
            except Exception as error:
                leaks[(*above, last, repr(junk))] = repr(error)
    assert not leaks
