"""docs/errors.md is true: for each of its rows there is a file, and the message says what the row says."""

from __future__ import annotations

import os
import re
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import npyflow as nf
from helpers import header, magic, saved, touch_later, write, write_npz
from npyflow._jobs.check import check_files
from npyflow._jobs.checksums import check_checksums
from npyflow._jobs.progress import Silent
from npyflow._jobs.source import open_source

PAGE = (Path(__file__).parent.parent / "docs" / "errors.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `([a-z0-9-]+)` \|(.*)\|$", PAGE, re.MULTILINE))

ARRAY = np.arange(12, dtype="<f4").reshape(4, 3)
GOOD = saved(ARRAY)
Make = Callable[[Path], nf.NpyflowError]


class NoProgress:
    def start(self, what: str, total: int) -> None:
        pass

    def step(self) -> None:
        pass


def opened(*paths: Path | str, **options: object) -> nf.NpyflowError:
    """What opening the files says."""
    with pytest.raises(nf.NpyflowError) as caught:
        nf.files(list(paths), **options)
    return caught.value


def checked(*arguments: Path | str, finite: bool = False, pairs: bool = False) -> nf.NpyflowError:
    """The first problem that a check finds."""
    found = check_files(
        list(map(str, arguments)), pattern="**/*.np[yz]", finite=finite, pairs=pairs, progress=NoProgress()
    )
    return found.problems[0]


def content(data: bytes) -> Make:
    def make(folder: Path) -> nf.NpyflowError:
        (folder / "x.npy").write_bytes(data)
        error = opened(folder / "x.npy")
        again = checked(folder / "x.npy")
        assert (type(again), str(again), again.kind) == (type(error), str(error), error.kind)
        assert error.path == str(folder / "x.npy")
        return error

    return make


def archive(data: bytes, change: Callable[[bytearray], None] = lambda data: None) -> Make:
    """An archive whose member x holds `data`, then changed."""

    def make(folder: Path) -> nf.NpyflowError:
        path = Path(write_npz(folder / "x.npz", x=data))
        changed = bytearray(path.read_bytes())
        change(changed)
        path.write_bytes(changed)
        error = checked(path, finite=True)
        assert (error.path, error.member) == (str(path), "x")
        return error

    return make


def flip_last_value(data: bytearray) -> None:
    data[data.index(b"PK\x01\x02") - 1] ^= 1


def encrypt(data: bytearray) -> None:
    data[data.index(b"PK\x01\x02") + 8] |= 1


def missing(folder: Path) -> nf.NpyflowError:
    with pytest.raises(nf.MissingFileError) as caught:
        nf.rows(folder / "none.npy")
    return caught.value


def no_file(folder: Path) -> nf.NpyflowError:
    os.mkfifo(folder / "x.npy")
    return opened(folder / "x.npy")


def unreadable(folder: Path) -> nf.NpyflowError:
    path = write(folder / "x.npy", ARRAY)
    os.chmod(path, 0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read everything")
    return opened(path)


def changed(folder: Path) -> nf.NpyflowError:
    path = write(folder / "x.npy", ARRAY)
    flow = nf.files([path])
    touch_later(path)
    with pytest.raises(nf.FileChangedError) as caught:
        flow[0]
    return caught.value


def slip(folder: Path) -> nf.NpyflowError:
    path = folder / "x.npy"
    path.write_bytes(magic(b"{'descr': '<f4', 'fortran_order': False, 'shape': (np.int64(4), 3)}\n") + ARRAY.tobytes())
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        assert np.array_equal(nf.files([path])[0], ARRAY)
    assert [warning.category for warning in heard] == [nf.NpyflowWarning]
    return checked(path)


def twice(folder: Path) -> nf.NpyflowError:
    with zipfile.ZipFile(folder / "x.npz", "w") as file:
        file.writestr("a", GOOD)
        file.writestr("a.npy", GOOD)
    return opened(folder / "x.npz", members="a")


def no_array(folder: Path) -> nf.NpyflowError:
    with zipfile.ZipFile(folder / "x.npz", "w") as file:
        file.writestr("meta.json", "{}")
        file.writestr("more.txt", "")
    return opened(folder / "x.npz")


def cut_archive(folder: Path) -> nf.NpyflowError:
    path = Path(write_npz(folder / "x.npz", x=ARRAY))
    path.write_bytes(path.read_bytes()[:-30])
    return opened(path)


def not_finite(folder: Path) -> nf.NpyflowError:
    return checked(write(folder / "x.npy", np.array([[0, np.nan], [np.inf, 0]])), finite=True)


def damaged_record(folder: Path) -> nf.NpyflowError:
    pytest.importorskip("google_crc32c")
    write(folder / "x.npy", ARRAY)
    nf.convert(nf.rows(folder / "x.npy"), folder / "records", to="tfrecord")
    path = next((folder / "records").glob("*.tfrecord"))
    content = bytearray(path.read_bytes())
    content[20] ^= 1
    path.write_bytes(content)
    with pytest.raises(nf.NpyflowError) as caught:
        open_source(str(folder / "records"))[0]
    return caught.value


def unfinished(folder: Path) -> nf.NpyflowError:
    write(folder / "data-00000-of-00002.npy", ARRAY)
    (folder / ".npyflow-job").mkdir()
    with pytest.raises(nf.NpyflowError) as caught:
        nf.files(folder)
    return caught.value


def other_bytes(folder: Path) -> nf.NpyflowError:
    write(folder / "x.npy", ARRAY)
    nf.pack(nf.rows(folder / "x.npy"), folder / "packed")
    path = next((folder / "packed").glob("*.npy"))
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    (error,) = check_checksums([str(folder / "packed")], Silent()).problems
    return error


def unpaired(folder: Path) -> nf.NpyflowError:
    for path in ("a/0.npy", "a/1.npy", "b/1.npy"):
        write(folder / path, ARRAY)
    return checked(folder / "a", folder / "b", pairs=True)


def no_pairs(folder: Path) -> nf.NpyflowError:
    return checked(write(folder / "a/0.npy", ARRAY), write(folder / "b/1.npy", ARRAY), pairs=True)


OBJECT = header("|O", False, (3,)) + bytes(24)
CASES: dict[str, Make] = {
    "missing": missing,
    "no-file": no_file,
    "unreadable": unreadable,
    "changed": changed,
    "empty": content(b""),
    "lfs-pointer": content(b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 1234567\n"),
    "annex-pointer": content(b"/annex/objects/SHA256E-s5--ab.npy\n"),
    "html": content(b"<!DOCTYPE html>\n<html>404</html>"),
    "gzip": content(b"\x1f\x8b\x08\x00" + bytes(20)),
    "hdf5": content(b"\x89HDF\r\n\x1a\n" + bytes(20)),
    "pickle": content(b"\x80\x04\x95" + bytes(20)),
    "picture": content(b"\x89PNG\r\n\x1a\n" + bytes(20)),
    "appledouble": content(b"\x00\x05\x16\x07\x00\x02\x00\x00"),
    "zip": lambda folder: _nested(folder),
    "no-npy": content(np.arange(1, 1001, dtype="<f4").tobytes()),
    "truncated-header": content(GOOD[:60]),
    "truncated": content(GOOD[:-4]),
    "trailing": content(GOOD + b"junk"),
    "several-arrays": content(GOOD + GOOD),
    "header": content(magic(b"hello, world\n")),
    "header-size": content(b"\x93NUMPY\x02\x00\xf0\xff\xff\xff{"),
    "header-slip": slip,
    "version": content(b"\x93NUMPY\x04\x00" + GOOD[8:]),
    "object": content(OBJECT),
    "dtype": lambda folder: opened(write(folder / "x.npy", np.zeros(3, np.longdouble))),
    "npz-directory": cut_archive,
    "npz-twice": twice,
    "npz-empty": no_array,
    "npz-choice": lambda folder: opened(write_npz(folder / "x.npz", x=ARRAY, y=ARRAY)),
    "npz-no-member": lambda folder: opened(write_npz(folder / "x.npz", x=ARRAY), members=["a", "b"]),
    "npz-expected": lambda folder: opened(write(folder / "x.npz", ARRAY), members="x"),
    "npz-member": archive(GOOD, encrypt),
    "npz-crc": archive(GOOD, flip_last_value),
    "not-finite": not_finite,
    "damaged": damaged_record,
    "unfinished": unfinished,
    "checksum": other_bytes,
    "unpaired": unpaired,
    "pairing": no_pairs,
}


# What needs a package of an extra.
EXTRA = {"damaged": pytest.mark.extra}


def _nested(folder: Path) -> nf.NpyflowError:
    inner = Path(write_npz(folder / "inner.npz", x=ARRAY)).read_bytes()
    return opened(write_npz(folder / "x.npz", x=inner), members="x")


def test_every_row_has_a_file_and_every_file_a_row():
    assert set(ROWS) == set(CASES)


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.extra] * (kind == "damaged")) for kind in CASES]
)
def test_the_message_says_what_the_page_says(tmp_path, kind):
    error = CASES[kind](tmp_path)
    message = str(error)
    assert error.kind == kind
    assert isinstance(error, nf.NpyflowError)
    _, said, todo = ROWS[kind].split("|")
    quoted = re.findall(r"`([^`]+)`", said + todo)
    assert quoted
    for text in quoted:
        assert text in message, f"{kind}: {message}"
    assert "\n" not in message
    if kind not in ("unreadable", "missing", "pairing"):
        assert message.count(str(tmp_path)) >= 1


def test_no_kind_is_left_out_of_the_page():
    """What the source can raise for a file is on the page."""
    source = Path(nf.__file__).parent
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(source.rglob("*.py")))
    raised = set(re.findall(r"""\bkind\s*=\s*"([a-z0-9-]+)"(?!\s*else)""", text))
    raised |= set(re.findall(r"""^\s*\("([a-z0-9-]+)", "a""", text, re.MULTILINE))
    # Of components and of words in a header, not of files.
    raised -= {"arrays", "rows", "files", "labels", "other", "records", "parquet", "best", "stable"}
    assert raised <= set(ROWS)
