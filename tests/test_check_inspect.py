"""What the jobs behind ``npyflow check`` and ``npyflow inspect`` find."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import npyflow as nf
from helpers import npy_bytes, saved, write, write_npz
from npyflow._jobs.check import Findings, check_files
from npyflow._jobs.inspect import Census, inspect_files
from npyflow._jobs.named import PATTERN
from npyflow._sources import payloads


class Steps:
    def __init__(self) -> None:
        self.total = self.done = 0

    def start(self, what: str, total: int) -> None:
        self.total += total

    def step(self) -> None:
        self.done += 1


def check(*arguments: object, finite: bool = False, pairs: bool = False) -> Findings:
    steps = Steps()
    found = check_files(list(map(str, arguments)), pattern=PATTERN, finite=finite, pairs=pairs, progress=steps)
    assert steps.done == steps.total == found.files
    return found


def inspect(*arguments: object) -> list[Census]:
    steps = Steps()
    found = inspect_files(list(map(str, arguments)), pattern=PATTERN, progress=steps)
    assert steps.done == steps.total
    assert not found.missing
    return found.censuses


def kinds(found: Findings) -> list[tuple[str, str | None]]:
    return [(os.path.basename(error.path or ""), error.kind) for error in found.problems]


def test_a_clean_folder(tmp_path):
    for n in range(5):
        write(tmp_path / "a" / f"{n}.npy", np.zeros((2, n)))
    write_npz(tmp_path / "b.npz", x=np.zeros(3), y=np.ones(3, "M8[s]"))
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / ".hidden.npy").write_bytes(b"")
    found = check(tmp_path, finite=True)
    assert (found.files, found.arrays, found.problems) == (6, 7, [])
    assert found.left_out == {"hidden": 1, "not matching": 1}


def test_every_problem_is_found_at_once(tmp_path):
    good = saved(np.zeros((8, 3), "f4"))
    content = {
        "0.npy": good,
        "1.npy": good[:-9],
        "2.npy": b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 5\n",
        "3.npy": b"",
        "4.npy": b"<html>",
        "5.npy": np.arange(1, 9, dtype="f4").tobytes(),
        "6.npy": b"\x93NUMPY\x01\x00\x30\x75" + b" " * 30_000,
    }
    for name, data in content.items():
        (tmp_path / name).write_bytes(data)
    write_npz(tmp_path / "7.npz", good=good, short=good[:-1], twice=good + good, page=b"<html>", **{"read.me": b"x"})
    found = check(tmp_path, tmp_path / "none.npy", tmp_path / "0.npy")
    assert kinds(found) == [
        ("none.npy", "missing"),
        ("1.npy", "truncated"),
        ("2.npy", "lfs-pointer"),
        ("3.npy", "empty"),
        ("4.npy", "html"),
        ("5.npy", "no-npy"),
        ("6.npy", "header"),
        ("7.npz", "truncated"),
        ("7.npz", "trailing"),
        ("7.npz", "html"),
    ]
    assert [error.member for error in found.problems[-3:]] == ["short", "twice", "page"]
    # A file that is named twice is looked at once.
    assert (found.files, found.arrays) == (8, 2)


def test_dtypes_that_no_option_can_read_are_problems(tmp_path):
    for n, dtype in enumerate(["V2", "V1", "f16", "V3", [("a", "V5"), ("b", "f4")], [("a", "f16", (2,))], "c32"]):
        write(tmp_path / f"{n}.npy", np.zeros(3, dtype))
    assert kinds(check(tmp_path)) == [("3.npy", "dtype"), ("4.npy", "dtype")]


@pytest.mark.parametrize("piece_bytes", [1, 100, 4096])
@pytest.mark.parametrize("dtype", ["<f2", ">f4", "<f8", ">c8", "<f16"])
@pytest.mark.parametrize("fortran", [False, True])
@pytest.mark.parametrize("where", ["plain", "stored", "deflated"])
def test_the_first_value_that_is_not_finite(tmp_path, monkeypatch, piece_bytes, dtype, fortran, where):
    monkeypatch.setattr(payloads, "_PIECE_BYTES", piece_bytes)
    rng = np.random.default_rng(0)
    array = rng.random((7, 5, 3)).astype(dtype)
    index = tuple(int(rng.integers(size)) for size in array.shape)
    array[index] = np.nan
    array[6, 4, 2] = -np.inf
    data = npy_bytes(array, fortran=fortran)
    path = tmp_path / "x.np"
    if where == "plain":
        path.write_bytes(data)
    else:
        write_npz(path, where == "deflated", 3, x=data)
    (error,) = check(path, finite=True).problems
    assert error.kind == "not-finite"
    assert f"1 NaN and 1 infinite values, the first at index {list(index)}" in str(error)


def test_what_is_finite(tmp_path):
    with np.errstate(all="ignore"):
        for n, array in enumerate(
            [
                np.array(["nan"]),
                np.array([np.datetime64("NaT")]),
                np.zeros((0, 3)),
                np.array(1.5),
                np.full(3, np.finfo("f4").max, "f4"),
                np.full(100, 0x7FC0, "u2").view("V2"),
            ]
        ):
            write(tmp_path / f"{n}.npy", array)
    assert not check(tmp_path, finite=True).problems
    write(tmp_path / "scalar.npy", np.array(np.nan))
    (error,) = check(tmp_path, finite=True).problems
    assert "the first at index []" in str(error)


def test_fields_that_are_not_finite(tmp_path):
    array = np.zeros((2, 2), [("a", "f4", (3,)), ("b", [("c", ">f8"), ("d", "i4")])])
    array["a"][1, 0, 2] = np.inf
    array["b"]["c"][0, 1] = np.nan
    first, second = check(write(tmp_path / "x.npy", array), finite=True).problems
    assert "field 'a' has 0 NaN and 1 infinite values, the first at index [1, 0, 2]" in str(first)
    assert "field 'b.c' has 1 NaN and 0 infinite values, the first at index [0, 1]" in str(second)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_wrong_checksum_is_found_only_by_reading(tmp_path, compressed):
    path = Path(write_npz(tmp_path / "x.npz", compressed, x=np.random.default_rng(0).random(50)))
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x01\x02") - 9] ^= 4
    path.write_bytes(data)
    assert not check(path).problems
    (error,) = check(path, finite=True).problems
    assert (error.kind, error.member) == ("npz-crc", "x")


def test_pairs(tmp_path):
    for name in ("mel/1-mel", "mel/2-mel", "mel/10-mel", "ids/1-ids", "ids/10-ids", "ids/11-ids"):
        write(tmp_path / f"{name}.npy", np.zeros(3))
    found = check(tmp_path / "mel" / "{key}-mel.npy", tmp_path / "ids" / "{key}-ids.npy", pairs=True)
    assert kinds(found) == [("2-mel.npy", "unpaired"), ("11-ids.npy", "unpaired")]
    assert "no partner in" in str(found.problems[0])
    assert found.files == 6
    found = check(tmp_path / "mel", tmp_path / "ids", pairs=True)
    assert [error.kind for error in found.problems] == ["pairing"]
    found = check(tmp_path / "mel", tmp_path / "nothing", tmp_path / "mel", pairs=True)
    assert [error.kind for error in found.problems] == ["missing"]


def test_a_check_never_writes(tmp_path):
    path = write(tmp_path / "d" / "x.npy", np.zeros(3))
    os.chmod(path, 0o444)
    os.chmod(tmp_path / "d", 0o555)
    before = os.stat(path)
    check(tmp_path, finite=True)
    inspect(tmp_path)
    after = os.stat(path)
    assert (before.st_mtime_ns, before.st_size, os.listdir(tmp_path / "d")) == (
        after.st_mtime_ns,
        after.st_size,
        ["x.npy"],
    )
    os.chmod(tmp_path / "d", 0o755)


def test_a_census_of_one_kind(tmp_path):
    for n in range(40):
        write(tmp_path / f"{n}.npy", np.zeros((3, 2), ">f4"), fortran=True)
    (census,) = inspect(tmp_path)
    (group,) = census.groups
    assert (census.files, census.single, len(group.paths), group.size) == (40, False, 40, 40 * (128 + 24))
    kind = group.kind
    assert (kind.shape, kind.dtype, kind.order, kind.version) == ((3, 2), "float32, swapped", "Fortran", "1.0")
    assert census.static_shapes == {None: "(3, 2)"}
    assert census.outliers == []


def test_odd_files_are_named_and_free_axes_are_not_odd(tmp_path):
    for n in range(100):
        write(tmp_path / f"{n}.npy", np.zeros((n + 1, 40), "f4"))
    odd = {"wide": np.zeros((5, 41), "f4"), "flat": np.zeros(5, "f4"), "double": np.zeros((7, 40), "f8")}
    for name, array in odd.items():
        write(tmp_path / f"{name}.npy", array)
    (census,) = inspect(tmp_path)
    assert {os.path.basename(path) for group in census.outliers for path in group.paths} == {
        f"{name}.npy" for name in odd
    }
    assert "differ" in census.static_shapes[None]
    os.unlink(tmp_path / "flat.npy")
    (census,) = inspect(tmp_path)
    assert census.static_shapes == {None: "(None, None), from (1, 40) to (100, 41)"}


def test_a_census_of_archives(tmp_path):
    for n in range(30):
        extra = {"label": np.array(n)} if n else {}
        write_npz(tmp_path / f"{n}.npz", n % 2 == 0, image=np.zeros((4, 4), "u1"), **extra, **{"notes.txt": b"text"})
    (census,) = inspect(str(tmp_path / "*.npz"))
    found = {(group.kind.member, group.kind.packing): len(group.paths) for group in census.groups}
    assert found == {
        ("image", "stored"): 15,
        ("image", "deflated"): 15,
        ("label", "stored"): 15,
        ("label", "deflated"): 14,
    }
    assert census.others == {"notes.txt": 30}
    assert census.static_shapes == {"image": "(4, 4)", "label": "()"}


def test_files_that_are_no_arrays_are_kept_apart(tmp_path):
    good = write(tmp_path / "good.npy", np.array(["aé"]))
    (tmp_path / "page.npy").write_bytes(b"<html>")
    censuses = inspect(good, tmp_path / "page.npy", tmp_path)
    assert [census.single for census in censuses] == [True, True, False]
    assert censuses[0].groups[0].kind.dtype == "U2"
    assert isinstance(censuses[1].bad[0], nf.FileFormatError)
    assert len(censuses[2].groups) == len(censuses[2].bad) == 1


def test_what_cannot_be_searched_is_said(tmp_path):
    write(tmp_path / "0.npy", np.zeros(3, "V2"))
    write(tmp_path / "1.npy", np.zeros(3, "V3"))
    found = check(tmp_path, finite=True)
    assert found.unsearched == {"V2": 1, "V3": 1}
    assert kinds(found) == [("1.npy", "dtype")]
    assert not check(tmp_path).unsearched


def test_the_first_value_in_c_order_whatever_the_order_of_the_file(tmp_path):
    array = np.zeros((3, 4))
    array[0, 2], array[2, 1] = np.inf, np.nan
    for fortran in (False, True):
        (error,) = check(write(tmp_path / "x.npy", array, fortran=fortran), finite=True).problems
        assert "the first at index [0, 2]" in str(error)


def test_pairs_take_what_files_take(tmp_path):
    for folder in ("a", "b"):
        write(tmp_path / folder / "1.npy", np.zeros(3))
        write_npz(tmp_path / folder / "1.npz", x=np.zeros(3))
    from npyflow._jobs.named import PAIRS_PATTERN

    paths = [str(tmp_path / folder) for folder in ("a", "b")]
    found = check_files(paths, pattern=PAIRS_PATTERN, finite=False, pairs=True, progress=Steps())
    assert found.problems == []
