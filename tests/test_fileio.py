"""System calls that return less than asked, and files that appear whole or not at all."""

from __future__ import annotations

import os

import pytest

from npyflow._sources import fileio

DATA = bytes(range(256)) * 5

pytestmark = pytest.mark.skipif(not hasattr(os, "preadv"), reason="positional reads are POSIX")


@pytest.fixture(params=[None, 1, 7, 100, 1000])
def short_reads(request, monkeypatch):
    """One call gives at most so many bytes."""
    real = os.preadv

    def preadv(fd, buffers, offset):
        views, left = [], request.param
        for buffer in buffers:
            view = memoryview(buffer).cast("B")[:left]
            views.append(view)
            left -= len(view)
        return real(fd, views, offset)

    if request.param is not None:
        monkeypatch.setattr(fileio, "preadv", preadv)
        monkeypatch.setattr(fileio, "MAX_CALL_BYTES", max(1, request.param // 2))


@pytest.fixture
def fd(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(DATA)
    fd = fileio.open_for_read(os.fsencode(path))
    yield fd
    os.close(fd)


@pytest.mark.parametrize("head_bytes", [1, 128, 200])
@pytest.mark.parametrize("body_bytes", [0, 1, 500, 1080])
def test_a_pair(fd, short_reads, head_bytes, body_bytes):
    head, body = bytearray(head_bytes), bytearray(body_bytes)
    got = fileio.read_rest(fd, head, memoryview(body), fileio.preadv(fd, (head, memoryview(body)), 0))
    assert got == head_bytes + body_bytes
    assert bytes(head + body) == DATA[:got]


@pytest.mark.parametrize("head_bytes", [128, 1280, 1300])
def test_a_pair_at_the_end_of_the_file(fd, short_reads, head_bytes):
    head, body = bytearray(head_bytes), bytearray(2000)
    assert fileio.read_rest(fd, head, memoryview(body), fileio.preadv(fd, (head, memoryview(body)), 0)) == len(DATA)
    assert bytes(head + body)[: len(DATA)] == DATA


def test_at_a_position(fd, short_reads):
    body = bytearray(300)
    assert fileio.read_at(fd, memoryview(body), 77) == 300
    assert bytes(body) == DATA[77:377]
    assert fileio.read_at(fd, memoryview(body), 1200) == 80
    assert bytes(body[:80]) == DATA[1200:]
    assert fileio.read_at(fd, memoryview(body), 5000) == 0
    assert fileio.read_at(fd, memoryview(bytearray()), 0) == 0


def test_descriptors_are_not_inherited(fd):
    assert not os.get_inheritable(fd)


def test_a_file_is_written_whole(tmp_path):
    path = tmp_path / "x"
    fileio.write_atomically(path, [b"one", b"two"])
    assert path.read_bytes() == b"onetwo"
    fileio.write_atomically(path, [b"three"])
    assert path.read_bytes() == b"three"
    assert os.listdir(tmp_path) == ["x"]


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"old")

    def parts():
        yield b"half"
        raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        fileio.write_atomically(path, parts())
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x"]
