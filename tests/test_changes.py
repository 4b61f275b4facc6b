"""Files that change after they were scanned are noticed and named; files are never written."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pytest

import npyflow as nf
from helpers import header, npy_bytes, same, sample, touch_later, write

ARRAY = sample(40, (5,), "f4")
WAYS = ["mmap", "read", "files"]


@pytest.fixture(params=WAYS)
def opened(request, tmp_path):
    """A flow and the path of what is its third row or file."""
    if request.param == "files":
        for n in range(40):
            write(tmp_path / "d" / f"{n}.npy", ARRAY[n])
        return nf.files(tmp_path / "d"), tmp_path / "d" / "2.npy"
    path = write(tmp_path / "d" / "x.npy", ARRAY)
    return nf.rows(path, access=request.param), tmp_path / "d" / "x.npy"


def truncate(path):
    os.truncate(path, os.path.getsize(path) - 4)


def truncate_with_the_old_time(path):
    before = os.stat(path)
    truncate(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def empty(path):
    os.truncate(path, 0)


def extend(path):
    with open(path, "ab") as file:
        file.write(b"more")


def rewrite(path):
    data = path.read_bytes()
    path.write_bytes(data[:-4] + b"\0\0\0\0")
    touch_later(path)


def replace(path):
    other = path.with_suffix(".tmp")
    other.write_bytes(path.read_bytes())
    os.replace(other, path)
    touch_later(path)


def remove(path):
    path.unlink()


def other_header(path):
    """Same size, same time, other dtype."""
    before = os.stat(path)
    data = path.read_bytes()
    other = path.with_suffix(".tmp")
    other.write_bytes(data.replace(b"<f4", b"<i4"))
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(other, path)


def touch(path):
    touch_later(path)


CHANGES = [truncate, truncate_with_the_old_time, empty, extend, rewrite, replace, remove, other_header, touch]


@pytest.mark.parametrize("change", CHANGES)
def test_noticed_before_the_first_read(opened, change):
    flow, path = opened
    change(path)
    for use in (
        lambda: flow[2],
        lambda: list(flow.batches(8)),
        lambda: list(flow),
        lambda: flow[1:4].__getitems__([1]),
    ):
        with pytest.raises(nf.FileChangedError) as caught:
            use()
        message = str(caught.value)
        assert str(path) in message
        assert "changed after it was scanned" in message
        assert "open the flow again" in message
        assert caught.value.path == str(path)
        assert isinstance(caught.value, RuntimeError)


@pytest.mark.parametrize("change", [change for change in CHANGES if change is not other_header])
def test_noticed_between_reads(opened, change):
    flow, path = opened
    same(flow[2], ARRAY[2])
    batches = flow.batches(1)
    next(batches)
    change(path)
    with pytest.raises(nf.FileChangedError):
        flow[2]
    with pytest.raises(nf.FileChangedError):
        flow.__getitems__(range(40))


def test_messages_say_what_changed(opened):
    flow, path = opened
    size = os.path.getsize(path)
    extend(path)
    with pytest.raises(nf.FileChangedError, match=rf"expected {size} bytes, found {size + 4}"):
        flow[2]
    remove(path)
    with pytest.raises(nf.FileChangedError, match="it is gone"):
        flow[2]


def test_other_files_are_still_read(tmp_path):
    for n in range(5):
        write(tmp_path / f"{n}.npy", ARRAY[n])
    flow = nf.files(tmp_path)
    (tmp_path / "2.npy").unlink()
    for n in (0, 1, 3, 4):
        same(flow[n], ARRAY[n])


def test_what_is_in_ram_does_not_change(tmp_path):
    path = write(tmp_path / "x.npy", ARRAY)
    flow = nf.rows(path, access="ram")
    os.unlink(path)
    same(np.stack(list(flow)), ARRAY)


def test_a_file_that_changes_while_it_is_opened_into_ram(tmp_path, monkeypatch):
    from npyflow._sources import component

    path = write(tmp_path / "x.npy", ARRAY)
    real = component.rows_of_files

    def late(*args, **kwargs):
        truncate(path)
        return real(*args, **kwargs)

    monkeypatch.setattr(component, "rows_of_files", late)
    with pytest.raises(nf.FileChangedError):
        nf.rows(path, access="ram")


@pytest.mark.parametrize("access", ["auto", "mmap", "read", "ram"])
def test_files_are_never_written(tmp_path, access):
    folder = tmp_path / "locked"
    path = write(folder / "x.npy", ARRAY)
    single = [write(folder / "d" / f"{n}.npy", ARRAY[n]) for n in range(4)]
    for name in (path, *single):
        os.chmod(name, stat.S_IRUSR)
    os.chmod(folder / "d", 0o555)
    os.chmod(folder, 0o555)
    facts = {name: (os.stat(name).st_mtime_ns, Path(name).read_bytes()) for name in (path, *single)}
    listing = sorted(os.listdir(folder) + os.listdir(folder / "d"))
    try:
        with nf.rows(path, access=access) as rows, nf.files(folder / "d") as files:
            for flow, want in ((rows, ARRAY), (files, ARRAY[:4])):
                same(np.concatenate(list(flow.batches(3))), want)
                for batch in flow.batches(4):
                    batch[...] = 7
                same(flow[1], want[1])
        assert sorted(os.listdir(folder) + os.listdir(folder / "d")) == listing
        for name, (mtime, content) in facts.items():
            assert os.stat(name).st_mtime_ns == mtime
            with open(name, "rb") as file:
                assert file.read() == content
    finally:
        os.chmod(folder, 0o755)
        os.chmod(folder / "d", 0o755)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def mapped(path) -> bool:
    with open("/proc/self/maps") as file:
        return str(path) in file.read()


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
@pytest.mark.parametrize("access", ["mmap", "read", "ram"])
def test_close_lets_go_of_files(tmp_path, access):
    path = write(tmp_path / "unique-name.npy", ARRAY)
    before = descriptors()
    with nf.rows(path, access=access) as flow:
        batch = next(flow.batches(10))
        part = flow[:5]
        assert (descriptors() > before) == (access != "ram")
        assert mapped(path) == (access == "mmap")
    assert descriptors() == before
    assert not mapped(path)
    same(batch, ARRAY[:10])
    for use in (lambda: flow[0], lambda: part[0], lambda: list(flow), lambda: next(flow.batches(2))):
        with pytest.raises(nf.NpyflowError, match="closed") as caught:
            use()
        assert isinstance(caught.value, nf.ClosedError)
    flow.close()
    assert len(flow) == 40
    repr(flow)
    flow.describe()


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_a_dropped_flow_lets_go_of_files(tmp_path):
    path = write(tmp_path / "unique-name.npy", ARRAY)
    before = descriptors()
    flow = nf.rows(path, access="mmap")
    flow[0]
    del flow
    assert descriptors() == before
    assert not mapped(path)


def test_no_file_stays_open_between_reads_of_files(tmp_path):
    for n in range(10):
        write(tmp_path / f"{n}.npy", ARRAY[n])
    before = descriptors()
    flow = nf.files(tmp_path)
    list(flow.batches(3))
    assert descriptors() == before


def test_errors_while_reading_close_what_they_opened(tmp_path):
    for n in range(10):
        write(tmp_path / f"{n}.npy", ARRAY[n])
    flow = nf.files(tmp_path)
    truncate(tmp_path / "5.npy")
    before = descriptors()
    for _ in range(20):
        with pytest.raises(nf.FileChangedError):
            flow[5]
    assert descriptors() == before
    for _ in range(20):
        with pytest.raises(nf.FileFormatError):
            nf.rows(tmp_path / "5.npy")
    assert descriptors() == before


def test_a_file_that_turns_into_a_folder(tmp_path):
    for n in range(3):
        write(tmp_path / f"{n}.npy", ARRAY[n])
    flow = nf.files(tmp_path)
    (tmp_path / "1.npy").unlink()
    (tmp_path / "1.npy").mkdir()
    with pytest.raises(nf.FileError) as caught:
        flow[1]
    assert caught.value.path == str(tmp_path / "1.npy")


def test_same_bytes_under_another_header_length(tmp_path):
    """A header that grew by what the payload shrank: size and time agree, bytes do not."""
    path = tmp_path / "0.npy"
    path.write_bytes(npy_bytes(np.zeros(64, "f4")))
    flow = nf.files([path])
    before = os.stat(path)
    path.write_bytes(header("<f4", False, (48,), align=192) + bytes(192))
    assert os.path.getsize(path) == before.st_size
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(nf.FileChangedError, match="another header"):
        flow[0]


def test_what_the_system_says_about_an_open_file_is_an_error_of_ours(tmp_path):
    folder = tmp_path / "d"
    path = write(folder / "x.npy", ARRAY)
    for access in ("mmap", "read"):
        flow = nf.rows(path, access=access)
        flow[0]
        folder.rename(tmp_path / "away")
        folder.write_bytes(b"")
        with pytest.raises(nf.FileError) as caught:
            flow[1]
        assert caught.value.kind == "unreadable"
        folder.unlink()
        (tmp_path / "away").rename(folder)


def test_an_example_whose_file_changed_is_known_by_its_index(tmp_path):
    paths = [write(tmp_path / f"{at}.npy", ARRAY) for at in range(5)]
    flow = nf.files(paths)[[4, 2, 0]]
    os.utime(paths[2], ns=(1, 1))
    with pytest.raises(nf.FileChangedError) as caught:
        next(flow.batches(3))
    assert caught.value.index == 1


def test_a_map_of_a_file_that_shrinks_at_that_moment(tmp_path, monkeypatch):
    from npyflow._sources import handles

    path = write(tmp_path / "x.npy", ARRAY)
    flow = nf.rows(path, access="mmap")
    real = handles.mmap.mmap

    def late(*args, **kwargs):
        os.truncate(path, 0)
        return real(*args, **kwargs)

    monkeypatch.setattr(handles.mmap, "mmap", late)
    with pytest.raises(nf.FileChangedError, match="shorter now"):
        flow[0]
