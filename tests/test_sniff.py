"""A file that is no ``.npy`` is named for what it is, with one thing to do about it."""

from __future__ import annotations

import gzip
import io
import pickle
import zipfile

import numpy as np
import pytest

import npyflow as nf
from helpers import saved
from npyflow._format.sniff import identify


def _zip(content: bytes = b"text") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("x", content)
    return buffer.getvalue()


def _empty_zip() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w"):
        pass
    return buffer.getvalue()


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d" * 32 + b"\nsize 1234567\n"
KINDS = {
    "lfs": (LFS, "Git LFS pointer to 1,234,567 bytes", "git lfs pull"),
    "annex": (b"/annex/objects/SHA256E-s5--ab.npy\n", "git-annex pointer", "git annex get"),
    "html": (b"<!DOCTYPE html>\n<html><body>404</body></html>", "HTML", "download it again"),
    "html, spaces": (b"\n\n  <HTML lang='en'>", "HTML", "download it again"),
    "xml": (b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>", "XML", "download it again"),
    "zip in a zip": (_zip(_zip()), "zip or .npz archive", "unpack"),
    "empty zip": (_empty_zip(), "archive without arrays", "archive of one"),
    "gzip": (gzip.compress(saved(np.arange(3))), "gzip", "gunzip"),
    "hdf5": (b"\x89HDF\r\n\x1a\n" + bytes(100), "HDF5", "h5py"),
    **{f"pickle {n}": (pickle.dumps([1, 2], n), "pickle, which npyflow never loads", "np.save") for n in (2, 3, 4, 5)},
    "appledouble": (b"\x00\x05\x16\x07\x00\x02\x00\x00", "AppleDouble", "delete"),
    "empty": (b"", "an empty file", "again"),
    "cut in the magic": (b"\x93NUM", "cut off after 4 bytes", "again"),
    "cut after the magic": (b"\x93NUMPY\x01\x00", "cut off after 8 bytes", "again"),
    "raw float32": (np.arange(1, 1001, dtype="f4").tobytes(), "begins with 00 00 80 3f", "divisible by 8 or 4 or 2"),
    "raw int16": (np.arange(1, 4, dtype="i2").tobytes(), "begins with 01 00 02 00 03 00", "divisible by 2"),
    "odd": (b"hello", "begins with 68 65 6c 6c 6f", "find out what wrote it"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_by_name(tmp_path, kind):
    data, what, advice = KINDS[kind]
    path = tmp_path / "data.npy"
    path.write_bytes(data)
    for open_it in (nf.rows, lambda path: nf.files([path])):
        with pytest.raises(nf.FileFormatError) as caught:
            open_it(path)
        message = str(caught.value)
        assert str(path) in message
        assert what in message
        assert advice in message
        assert "expected a .npy file" in message
        assert caught.value.path == str(path)


def test_all_kinds_at_once(tmp_path):
    for at, (data, _, _) in enumerate(KINDS.values()):
        (tmp_path / f"bad{at}.npy").write_bytes(data)
    for at in range(20):
        np.save(tmp_path / f"good{at}.npy", np.arange(3))
    with pytest.raises(nf.BadFilesError) as caught:
        nf.files(tmp_path)
    assert len(caught.value.problems) == len(KINDS)
    assert {error.path for error in caught.value.problems} == {
        str(tmp_path / f"bad{at}.npy") for at in range(len(KINDS))
    }
    assert f"{len(KINDS)} of {len(KINDS) + 20} files" in str(caught.value)


def test_lfs_pointer_without_a_size_is_still_refused():
    _, what, _ = identify(b"version https://git-lfs.github.com/spec/v1\n", 43)
    assert "npy" in what
