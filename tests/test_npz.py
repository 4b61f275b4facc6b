"""Archives: what NumPy reads from them must come, in place or inflated once; what is wrong in one is named."""

from __future__ import annotations

import io
import itertools
import os
import pickle
import struct
import tempfile
import threading
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import npyflow as nf
from helpers import DTYPES, delivered, header, npy_bytes, same, sample, saved, touch_later, write, write_npz
from npyflow._flow import audit
from npyflow._sources import payloads

QUICK = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
N = 13
SAVERS = {"stored": np.savez, "deflated": np.savez_compressed}
READS = ["auto", "mmap", "read", "ram"]


def whole(flow: nf.Flow, batch: int = 4) -> Any:
    """All examples of a flow of one component."""
    return np.concatenate(list(flow.batches(batch)))


def member_start(path: Any, name: str) -> int:
    """First byte of a member, by the book."""
    with zipfile.ZipFile(path) as archive:
        at = archive.getinfo(name).header_offset
    data = Path(path).read_bytes()
    name_bytes, extra_bytes = struct.unpack_from("<HH", data, at + 26)
    return at + 30 + name_bytes + extra_bytes


def zipped(path: Any, entries: list[tuple[Any, bytes]], method: int = zipfile.ZIP_STORED) -> str:
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", method) as archive:
        warnings.simplefilter("ignore")  # names that come twice
        for name, data in entries:
            archive.writestr(name, data)
    return str(path)


def outcome(fn: Callable[[], Any]) -> Any:
    """What `fn` returns, or the error of npyflow that it raises."""
    try:
        return fn()
    except nf.NpyflowError as error:
        return error


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="counts descriptors in /proc")


class Counter:
    """Stands in for the inflater and counts where it begins."""

    def __init__(self, monkeypatch: Any) -> None:
        self.starts: list[int] = []
        self._lock = threading.Lock()
        real, counter = payloads.Inflater, self

        class Counted(real):  # type: ignore[misc, valid-type]
            def __init__(self, fd: int, start: int, packed: int) -> None:
                with counter._lock:
                    counter.starts.append(start)
                super().__init__(fd, start, packed)

        monkeypatch.setattr(payloads, "Inflater", Counted)


# A mapping of handles


@pytest.mark.parametrize("how", SAVERS)
def test_a_mapping_as_numpy_has_it(tmp_path, how):
    arrays = {
        "x": sample(N, (2,), "f4"),
        "y": sample(N, (), "i8").astype(">i8"),
        "t": sample(N, (), "U3"),
        "none": np.zeros((0, 4)),
    }
    SAVERS[how](tmp_path / "a.npz", **arrays)
    archive = nf.npz(tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as want:
        assert list(archive) == list(want) == list(archive.keys())
        assert len(archive) == len(want)
        for name, handle in archive.items():
            assert handle.name == name
            assert handle.shape == want[name].shape
            assert handle.dtype == want[name].dtype
            assert handle.compressed == (how == "deflated")
            assert name in archive
            assert name in repr(archive)
            assert name in repr(handle)
            same(archive[f"{name}.npy"].shape, want[f"{name}.npy"].shape)
    assert "missing" not in archive
    assert archive.get("missing") is None
    with pytest.raises(KeyError, match=r"a\.npz.*missing.*x, y, t"):
        archive["missing"]


@pytest.mark.parametrize("how", SAVERS)
def test_rows_of_every_dtype(tmp_path, how):
    for at, (dtype, order) in enumerate(itertools.product([*DTYPES, "M8[ms]", "m8[s]", "U3", "S4"], "<>")):
        array = sample(N, (3, 2), dtype).astype(np.dtype(dtype).newbyteorder(order))
        fortran = np.asfortranarray(array)
        SAVERS[how](tmp_path / f"{at}.npz", first=np.arange(3), c=array, f=fortran)
        archive = nf.npz(tmp_path / f"{at}.npz")
        for access in READS if how == "stored" else ["auto", "ram"]:
            flow = nf.rows((archive["c"], archive["f"]), access=access)
            for parts in zip(*flow.batches(5), strict=True):
                same(np.concatenate(parts), delivered(array))


@pytest.mark.parametrize("access", READS)
def test_members_at_every_alignment(tmp_path, access):
    array = sample(N, (3,), "f8")
    seen = set()
    for pad in range(0, 64, 1 if access == "read" else 5):
        path = write_npz(tmp_path / f"{pad}.npz", pad=pad + 4, x=array, y=array[::-1])
        seen.add(member_start(path, "x.npy") % 64)
        archive = nf.npz(path)
        same(whole(nf.rows(archive["x"], access=access)), array)
        same(whole(nf.rows(archive["y"], access=access)[[5, 0, 5]]), array[::-1][[5, 0, 5]])
    assert len(seen) == (64 if access == "read" else 13)


@pytest.mark.parametrize("align", [1, 2, 8, 64])
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_headers_of_every_kind(tmp_path, align, version):
    array = sample(N, (3,), "c8")
    data = npy_bytes(array, align=align, version=version, fortran=True)
    for compressed in (False, True):
        path = write_npz(tmp_path / "x.npz", compressed, 3, x=data)
        same(whole(nf.rows(nf.npz(path)["x"])), array)


def test_stored_members_are_mapped_and_read_by_position_like_files(tmp_path):
    np.savez(tmp_path / "x.npz", small=np.zeros((4, 10), "f4"), large=np.zeros((4, 100_000), "f4"))
    archive = nf.npz(tmp_path / "x.npz")
    assert nf.rows((archive["small"], archive["large"])).access == ("mmap", "read")
    for access in ("mmap", "read", "ram"):
        assert nf.rows(archive["small"], access=access).access == access
    np.savez_compressed(tmp_path / "y.npz", small=np.zeros((4, 10), "f4"))
    assert nf.rows(nf.npz(tmp_path / "y.npz")["small"]).access == "ram"


@pytest.mark.parametrize("access", ["mmap", "read"])
def test_compressed_members_cannot_be_read_in_place(tmp_path, access):
    np.savez_compressed(tmp_path / "x.npz", a=np.zeros(3), b=np.zeros(3))
    with pytest.raises(nf.OptionError, match="compressed"):
        nf.rows(nf.npz(tmp_path / "x.npz")["b"], access=access)
    np.savez(tmp_path / "y.npz", b=np.zeros(3))
    with pytest.raises(nf.OptionError):
        nf.rows([nf.npz(tmp_path / f"{name}.npz")["b"] for name in "yx"], access=access)


def test_handles_outlive_their_mapping_and_mix_with_paths_and_arrays(tmp_path):
    array = sample(9, (2,), "f4")
    np.savez(tmp_path / "x.npz", x=array[:3])
    np.savez_compressed(tmp_path / "y.npz", x=array[3:5])
    flow = nf.rows(
        {
            "shards": [
                nf.npz(tmp_path / "x.npz")["x"],
                nf.npz(tmp_path / "y.npz")["x"],
                write(tmp_path / "z.npy", array[5:]),
            ],
            "ram": np.arange(9),
        }
    )
    same(np.concatenate([batch["shards"] for batch in flow.batches(2)]), array)
    with pytest.raises(nf.OptionError):
        nf.rows([nf.npz(tmp_path / "x.npz")["x"], array])


# Inflated once


def test_rows_are_inflated_once_for_all_epochs(tmp_path, monkeypatch):
    count = Counter(monkeypatch)
    array = sample(500, (3,), "f4")
    np.savez_compressed(tmp_path / "x.npz", x=array, y=np.arange(500), unused=array)
    archive = nf.npz(tmp_path / "x.npz")
    flow = nf.rows((archive["x"], archive["y"]))
    assert count.starts == []
    for epoch in range(3):
        for x, y in flow.batches(7, shuffle=True, epoch=epoch):
            same(x, array[y])
    same(flow[3][0], array[3])
    train, val = flow.split(0.5)
    assert sum(len(y) for part in (train, val) for _, y in part.batches(9)) == 500
    assert len(count.starts) == 2
    assert len(set(count.starts)) == 2


def test_shards_are_inflated_once_each(tmp_path, monkeypatch):
    count = Counter(monkeypatch)
    array = sample(60, (3,), "f4")
    for at in range(6):
        np.savez_compressed(tmp_path / f"{at}.npz", x=array[10 * at : 10 * at + 10])
    flow = nf.rows(str(tmp_path / "*.npz"))
    for epoch in range(2):
        got = np.concatenate(list(flow.batches(7, shuffle=True, epoch=epoch)))
        assert sorted(map(tuple, got)) == sorted(map(tuple, array))
    assert len(count.starts) == 6


def test_threads_that_want_the_first_row_at_once_inflate_once(tmp_path, monkeypatch):
    count = Counter(monkeypatch)
    array = sample(20_000, (5,), "f8")
    np.savez_compressed(tmp_path / "x.npz", x=array)
    flow = nf.rows(nf.npz(tmp_path / "x.npz")["x"])
    barrier, wrong = threading.Barrier(6), []

    def work(at: int) -> None:
        barrier.wait()
        try:
            same(flow[at], array[at])
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(at,)) for at in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(count.starts) == 1


def test_access_ram_inflates_when_opened_and_never_again(tmp_path, monkeypatch):
    count = Counter(monkeypatch)
    np.savez_compressed(tmp_path / "x.npz", x=np.arange(9))
    flow = nf.rows(nf.npz(tmp_path / "x.npz")["x"], access="ram")
    os.unlink(tmp_path / "x.npz")
    same(whole(flow), np.arange(9))
    assert len(count.starts) == 1


def test_stored_members_are_never_inflated(tmp_path, monkeypatch):
    count = Counter(monkeypatch)
    np.savez(tmp_path / "x.npz", x=np.arange(9))
    for access in READS:
        same(whole(nf.rows(nf.npz(tmp_path / "x.npz")["x"], access=access)), np.arange(9))
    assert count.starts == []


def test_many_bytes_to_inflate_are_warned_of(tmp_path, monkeypatch, recwarn):
    array = np.zeros((100, 10))
    np.savez_compressed(tmp_path / "x.npz", x=array, y=array)
    np.savez(tmp_path / "y.npz", x=array)
    archive = nf.npz(tmp_path / "x.npz")
    monkeypatch.setattr(audit, "_MUCH", 8001)
    nf.rows(archive["x"])
    monkeypatch.setattr(audit, "_MUCH", 8000)
    nf.rows(nf.npz(tmp_path / "y.npz")["x"])
    nf.files([str(tmp_path / "y.npz")])
    assert not recwarn.list
    for data, size in ((archive["x"], "8.0 kB"), ((archive["x"], archive["y"]), "16.0 kB")):
        with pytest.warns(nf.NpyflowWarning, match=size) as caught:
            nf.rows(data)
        assert len(caught) == 1
        assert "x.npz" in str(caught[0].message)
        assert "np.savez" in str(caught[0].message)
        assert caught[0].filename == __file__


def test_the_limit_of_the_warning_is_100_megabytes():
    assert audit._MUCH == 100_000_000


@pytest.mark.filterwarnings("ignore::npyflow.NpyflowWarning")
def test_describe_says_what_is_inflated(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", x=np.zeros((100, 10)))
    text = nf.rows(nf.npz(tmp_path / "x.npz")["x"]).describe()
    assert "8.0 kB" in text
    assert "inflated" in text
    assert "inflated" in nf.files([str(tmp_path / "x.npz")]).describe()
    np.savez(tmp_path / "x.npz", x=np.zeros((100, 10)))
    assert "inflated" not in nf.rows(nf.npz(tmp_path / "x.npz")["x"]).describe()


# Archives that are examples


@pytest.mark.parametrize("how", SAVERS)
def test_members_as_they_are_nested(tmp_path, how):
    x, y = sample(N, (2, 3), "f4"), sample(N, (), "i8").astype(">i8")
    for at in range(N):
        SAVERS[how](tmp_path / f"{at}.npz", x=np.asfortranarray(x[at]), y=y[at], z=np.zeros(at))
    for data in (str(tmp_path / "*.npz"), str(tmp_path), [str(tmp_path / f"{at}.npz") for at in range(N)]):
        flow = nf.files(data, members=("x", "y"))
        assert flow.keys == tuple(map(str, range(N)))
        a, b = zip(*flow.batches(4), strict=True)
        same(np.concatenate(a), x)
        same(np.concatenate(b), delivered(y))
    got = nf.files(tmp_path, members={"image": "x", "more": {"label": "y", "again": "x"}})[5]
    assert list(got) == ["image", "more"]
    same(got["image"], x[5])
    same(got["more"]["again"], x[5])
    assert int(got["more"]["label"]) == int(y[5])
    same(whole(nf.files(tmp_path, members="x.npy")), x)
    assert None in nf.files(tmp_path, members="z").spec.shape


def test_an_example_is_one_of_each_archive(tmp_path):
    x = sample(N, (2,), "f4")
    for at in range(N):
        write_npz(tmp_path / "a" / f"{at}.npz", x=x[at])
        write_npz(tmp_path / "b" / f"{at}.npz", True, u=x[at] * 2, v=np.array(at))
    flow = nf.files(
        {"a": tmp_path / "a", "b": tmp_path / "b"},
        members={"a": "x", "b": ("u", "v")},
        labels=lambda key: int(key),
        dtype={"a": "float64", "b": (None, "uint8")},
    )
    inputs, label = flow[4]
    same(inputs["a"], x[4].astype("f8"))
    same(inputs["b"][0], x[4] * 2)
    same(inputs["b"][1], np.uint8(4))
    assert int(label) == 4


def test_without_members_an_archive_must_hold_one_array(tmp_path):
    write_npz(tmp_path / "one.npz", x=np.arange(3))
    same(nf.files([str(tmp_path / "one.npz")])[0], np.arange(3))
    same(whole(nf.rows(tmp_path / "one.npz")), np.arange(3))
    path = write_npz(tmp_path / "two.npz", x=np.arange(3), y=np.arange(3))
    for open_ in (lambda: nf.files([path]), lambda: nf.rows(path)):
        with pytest.raises(nf.FileFormatError, match=r"two\.npz.*\bx\b.*\by\b") as caught:
            open_()
        assert caught.value.kind == "npz-choice"
        assert caught.value.path == path


@pytest.mark.parametrize("on_bad", ["raise", "skip"])
def test_a_member_that_is_missing(tmp_path, on_bad):
    for at in range(6):
        write_npz(tmp_path / f"{at}.npz", **({"y": np.arange(3)} if at in (2, 4) else {"x": np.arange(3)}))
    if on_bad == "skip":
        flow = nf.files(tmp_path, members="x", on_bad="skip")
        assert flow.keys == ("0", "1", "3", "5")
        assert set(flow.report.skipped) == {"2", "4"}
        assert "'x'" in flow.report.skipped["2"]
        return
    with pytest.raises(nf.BadFilesError) as caught:
        nf.files(tmp_path, members="x")
    assert [error.kind for error in caught.value.problems] == ["npz-no-member"] * 2
    assert [Path(error.path or "").name for error in caught.value.problems] == ["2.npz", "4.npz"]
    assert "y" in str(caught.value)


def test_sets_that_differ_are_reported_with_counts(tmp_path):
    for at in range(10):
        more = {"extra": np.arange(2)} if at < 3 else {}
        write_npz(tmp_path / f"{at}.npz", x=np.arange(3), y=np.arange(2), **more)
    flow = nf.files(tmp_path, members=("x", "y"))
    notes = "\n".join(flow.report.notes)
    assert "7 archives" in notes
    assert "3 archives" in notes
    assert "extra" in notes
    assert all(note in flow.describe() for note in flow.report.notes)
    same_sets = nf.files([str(tmp_path / f"{at}.npz") for at in range(3, 10)], members=("x", "y"))
    assert same_sets.report.notes == ()


def test_the_order_of_members_does_not_count(tmp_path):
    write_npz(tmp_path / "0.npz", x=np.arange(3), y=np.arange(2))
    write_npz(tmp_path / "1.npz", y=np.arange(2), x=np.arange(3))
    assert nf.files(tmp_path, members=("x", "y")).report.notes == ()


def test_aliases_take_the_first_that_is_there(tmp_path):
    write_npz(tmp_path / "0.npz", image=np.full(2, 0))
    write_npz(tmp_path / "1.npz", img=np.full(2, 1))
    write_npz(tmp_path / "2.npz", img=np.full(2, -1), image=np.full(2, 2))
    assert whole(nf.files(tmp_path, members=["image", "img"]))[:, 0].tolist() == [0, 1, 2]
    assert whole(nf.files(tmp_path, members=["img", "image"]))[:, 0].tolist() == [0, 1, -1]
    got = nf.files(tmp_path, members={"a": ["img", "image"], "b": ["image", "img"]})[2]
    assert (int(got["a"][0]), int(got["b"][0])) == (-1, 2)
    with pytest.raises(nf.NpyflowError, match="img"):
        nf.files(tmp_path, members="img")
    write_npz(tmp_path / "3.npz", other=np.full(2, 3))
    with pytest.raises(nf.FileError, match=r"3\.npz.*image.*img.*other") as caught:
        nf.files(tmp_path, members=["image", "img"])
    assert caught.value.kind == "npz-no-member"
    assert nf.files(tmp_path, members=["image", "img"], on_bad="skip").keys == ("0", "1", "2")


@pytest.mark.parametrize("members", [3, [], [3], ("x", 3), {"a": []}, (), {}, [("x", "y")], b"x"])
def test_names_that_are_none(tmp_path, members):
    write_npz(tmp_path / "0.npz", x=np.arange(3))
    with pytest.raises(nf.OptionError, match="members"):
        nf.files(tmp_path, members=members)


def test_names_of_any_kind(tmp_path):
    names = ["sub/a", "x.y", "é", "数", "a b", "arr_0", "a.npy.npy", "../up"]
    for compressed in (False, True):
        path = write_npz(tmp_path / "x.npz", compressed, **{name: np.arange(at + 1) for at, name in enumerate(names)})
        archive = nf.npz(path)
        with np.load(path) as want:
            assert list(archive) == list(want)
            for name in want:
                same(whole(nf.rows(archive[name])), want[name])
                same(nf.files([path], members=name)[0], want[name])


def test_what_is_no_array_is_ignored_with_a_note(tmp_path):
    data = npy_bytes(np.arange(3))
    for at in range(3):
        zipped(tmp_path / f"{at}.npz", [("x.npy", data), ("meta.json", b"{}"), ("empty.txt", b""), ("folder/", b"")])
    archive = nf.npz(tmp_path / "0.npz")
    assert list(archive) == ["x"]
    assert "meta.json" in repr(archive)
    same(whole(nf.files(tmp_path, pattern="*.npz")), np.stack([np.arange(3)] * 3))
    flow = nf.files(tmp_path, members="x")
    assert "meta.json" in "\n".join(flow.report.notes)
    with pytest.raises(nf.FileFormatError, match=r"0\.npz.*'meta\.json'"):
        nf.files([str(tmp_path / "0.npz")], members="meta.json")


def test_scalars_in_archives(tmp_path):
    for how, save in SAVERS.items():
        (tmp_path / how).mkdir()
        for at in range(4):
            save(tmp_path / how / f"{at}.npz", x=np.float32(at))
        flow = nf.files(tmp_path / how, members="x")
        assert flow.spec == nf.ArraySpec((), np.dtype("f4"))
        assert whole(flow).tolist() == [0, 1, 2, 3]
        with pytest.raises(nf.NpyflowError, match=r"0\.npz"):
            nf.rows(nf.npz(tmp_path / how / "0.npz")["x"])


@pytest.mark.parametrize("how", SAVERS)
def test_empty_arrays_in_archives(tmp_path, how):
    SAVERS[how](tmp_path / "x.npz", none=np.zeros((0, 3)), flat=np.zeros((5, 0), "U3"), x=np.arange(5))
    archive = nf.npz(tmp_path / "x.npz")
    assert len(nf.rows(archive["none"])) == 0
    flow = nf.rows((archive["flat"], archive["x"]))
    assert [len(x) for x, _ in flow.batches(2)] == [2, 2, 1]
    assert flow[0][0].shape == (0,)
    assert nf.files([str(tmp_path / "x.npz")], members="none")[0].shape == (0, 3)


def test_an_archive_without_arrays(tmp_path):
    np.savez(tmp_path / "x.npz")
    assert len(nf.npz(tmp_path / "x.npz")) == 0
    for open_ in (
        lambda: nf.rows(tmp_path / "x.npz"),
        lambda: nf.files([str(tmp_path / "x.npz")]),
        lambda: nf.files([str(tmp_path / "x.npz")], members="x"),
    ):
        with pytest.raises(nf.FileError, match=r"x\.npz"):
            open_()


RECORD = np.dtype([("a", ">f4", (2,)), ("b", [("t", "U3"), ("when", "M8[s]")])], align=True)


@pytest.mark.parametrize("how", SAVERS)
def test_structured_members(tmp_path, how):
    array = np.zeros(N, RECORD)
    array["a"], array["b"]["t"], array["b"]["when"] = sample(N, (2,), "f4"), sample(N, (), "U3"), sample(N, (), "M8[s]")
    SAVERS[how](tmp_path / "x.npz", r=array, y=np.arange(N))
    archive = nf.npz(tmp_path / "x.npz")
    flow = nf.rows((archive["r"], archive["y"]), fields=({"a": "a", "t": "b.t"}, None))
    same(np.concatenate([x["a"] for x, _ in flow.batches(4)]), array["a"].astype("f4"))
    same(np.concatenate([x["t"] for x, _ in flow.batches(4)]), np.ascontiguousarray(array["b"]["t"]))
    example = nf.files([str(tmp_path / "x.npz")], members={"r": "r", "n": "y"}, fields={"r": "b"})[0]
    same(example["r"]["when"], np.ascontiguousarray(array["b"]["when"]).view("i8"))
    same(example["n"], np.arange(N))


# .npz handed as .npy, and the reverse


def test_what_is_in_a_file_decides(tmp_path):
    array = sample(N, (2,), "f4")
    as_npy = write_npz(tmp_path / "archive.npy", x=array)
    as_npz = write(tmp_path / "array.npz", array)
    same(whole(nf.rows(as_npy)), array)
    same(whole(nf.rows(as_npz)), array)
    same(nf.files([as_npy])[0], array)
    same(nf.files([as_npz])[0], array)
    assert list(nf.npz(as_npy)) == ["x"]
    same(nf.files([as_npy], members="x")[0], array)
    for open_ in (lambda: nf.npz(as_npz), lambda: nf.files([as_npz], members="x")):
        with pytest.raises(nf.FileFormatError, match=r"array\.npz") as caught:
            open_()
        assert caught.value.kind == "npz-expected"
        assert caught.value.path == as_npz


@pytest.mark.parametrize(
    "data", [b"", b"P", b"PK", b"PK\x03\x04", b"<html>", b"\x80\x04.", b"version https://git-lfs.github.com/spec/v1\n"]
)
def test_what_is_neither(tmp_path, data):
    path = tmp_path / "x.npz"
    path.write_bytes(data)
    for open_ in (lambda: nf.npz(path), lambda: nf.files([str(path)], members="x"), lambda: nf.rows(path)):
        with pytest.raises(nf.FileFormatError, match=r"x\.npz") as caught:
            open_()
        assert caught.value.path == str(path)


def test_no_such_file(tmp_path):
    with pytest.raises(nf.MissingFileError, match=r"x\.npz"):
        nf.npz(tmp_path / "x.npz")
    with pytest.raises(nf.NpyflowError):
        nf.npz(tmp_path)
    for nothing in (3, None, ["x.npz"], np.zeros(3)):
        with pytest.raises(nf.OptionError):
            nf.npz(nothing)


# How archives can be written


class Unseekable(io.RawIOBase):
    """A pipe, to `zipfile`: sizes follow the data."""

    def __init__(self, path: Any) -> None:
        self._file = open(path, "wb")  # noqa: SIM115

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return self._file.write(data)

    def close(self) -> None:
        self._file.close()
        super().close()


def streamed(path: Any, arrays: dict[str, bytes], method: int) -> None:
    stream = Unseekable(path)
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, data in arrays.items():
            with archive.open(f"{name}.npy", "w") as member:
                member.write(data)
    stream.close()


def forced_zip64(path: Any, arrays: dict[str, bytes], method: int) -> None:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                member.write(data)


def streamed_zip64(path: Any, arrays: dict[str, bytes], method: int) -> None:
    stream = Unseekable(path)
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, data in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                member.write(data)
    stream.close()


def commented(path: Any, arrays: dict[str, bytes], method: int) -> None:
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.comment = b"a comment " * 500
        for name, data in arrays.items():
            info = zipfile.ZipInfo(f"{name}.npy")
            info.comment, info.compress_type = b"of a member", method
            archive.writestr(info, data)


def appended(path: Any, arrays: dict[str, bytes], method: int) -> None:
    for name, data in arrays.items():
        with zipfile.ZipFile(path, "a", method) as archive:
            archive.writestr(f"{name}.npy", data)


def shifted(path: Any, arrays: dict[str, bytes], method: int) -> None:
    """Offsets in the directory that count from what was once the beginning."""
    forced_zip64(path, arrays, method)
    whole_zip = Path(path).read_bytes()
    Path(path).write_bytes(b"PK\x03\x04 looks like the start of one" + whole_zip)


WRITERS: dict[str, Callable[[Any, dict[str, bytes], int], None]] = {
    "data descriptors": streamed,
    "zip64": forced_zip64,
    "zip64 data descriptors": streamed_zip64,
    "comments": commented,
    "appended": appended,
    "shifted": shifted,
}


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("writer", WRITERS)
def test_archives_written_in_other_ways(tmp_path, writer, method):
    x, y = sample(N, (3,), "f4"), sample(N, (), "i8").astype(">i8")
    path = tmp_path / "x.npz"
    WRITERS[writer](path, {"x": saved(x), "y": saved(y)}, method)
    archive = nf.npz(path)
    assert list(archive) == ["x", "y"]
    assert archive["x"].compressed == (method == zipfile.ZIP_DEFLATED)
    for access in READS if method == zipfile.ZIP_STORED else ["auto", "ram"]:
        same(whole(nf.rows(archive["x"], access=access)), x)
        same(whole(nf.rows(archive["y"], access=access)), delivered(y))
    same(nf.files([str(path)], members=("x", "y"))[0][0], x)


def test_bytes_before_an_archive_are_read_rightly_or_refused(tmp_path):
    array = sample(N, (3,), "f4")
    data = Path(write_npz(tmp_path / "x.npz", x=array)).read_bytes()
    path = tmp_path / "y.npz"
    for prefix in (b"#!/bin/sh\n", b"\0" * 100, b"\x93NUMPY"):
        path.write_bytes(prefix + data)
        got = outcome(lambda: whole(nf.rows(nf.npz(path)["x"])))
        if isinstance(got, nf.FileFormatError):
            assert got.path == str(path)
            assert "y.npz" in str(got)
        else:
            same(got, array)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_member_beyond_4_gigabytes(tmp_path):
    """A sparse file: a member of zeros whose checksum nobody asks for, and one behind it."""
    path = tmp_path / "x.npz"
    gap = 2**32 + 12345
    far = npy_bytes(np.arange(7, dtype=">f8"))
    first = header("|u1", False, (gap,))

    def local(name: bytes, crc: int, size: int) -> bytes:
        extra = struct.pack("<HHQQ", 1, 16, size, size)
        return struct.pack("<4sHHHHHIIIHH", b"PK\3\4", 45, 0, 0, 0, 33, crc, 2**32 - 1, 2**32 - 1, len(name), 20) + (
            name + extra
        )

    def central(name: bytes, crc: int, size: int, at: int) -> bytes:
        extra = struct.pack("<HHQQQ", 1, 24, size, size, at)
        big = 2**32 - 1
        fixed = struct.pack(
            "<4sHHHHHHIIIHHHHHII", b"PK\1\2", 45, 45, 0, 0, 0, 33, crc, big, big, len(name), 28, 0, 0, 0, 0, big
        )
        return fixed + name + extra

    with open(path, "wb") as file:
        file.write(local(b"big.npy", 0, len(first) + gap) + first)
        file.seek(gap, os.SEEK_CUR)
        at = file.tell()
        file.write(local(b"far.npy", zlib.crc32(far), len(far)) + far)
        start = file.tell()
        directory = central(b"big.npy", 0, len(first) + gap, 0) + central(b"far.npy", zlib.crc32(far), len(far), at)
        file.write(directory)
        end64 = file.tell()
        file.write(struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, 2, 2, len(directory), start))
        file.write(struct.pack("<4sIQI", b"PK\6\7", 0, end64, 1))
        file.write(struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 2, 2, 2**32 - 1, 2**32 - 1, 0))
    archive = nf.npz(path)
    assert archive["big"].shape == (gap,)
    for access in ("auto", "mmap", "read", "ram"):
        same(whole(nf.rows(archive["far"], access=access)), np.arange(7, dtype="f8"))
    for access in ("mmap", "read"):
        flow = nf.rows(archive["big"], access=access)
        assert len(flow) == gap
        assert int(flow[gap - 1]) == 0
    same(nf.files([str(path)], members="far")[0], np.arange(7, dtype="f8"))
    for access in ("mmap", "read"):
        path_flow = nf.rows(nf.npz(path)["far"], access=access)
        assert path_flow[6] == 6


# Damage


def flip(path: Any, at: int) -> None:
    stat = os.stat(path)
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 0x40]))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


@pytest.mark.parametrize(
    ("how", "form"),
    # Rows that are read in place are not summed.
    [("stored", "ram"), ("stored", "files"), ("deflated", "ram"), ("deflated", "auto"), ("deflated", "files")],
)
def test_a_byte_that_flipped_is_named(tmp_path, how, form):
    array = sample(100, (3,), "f4")
    path = str(tmp_path / "x.npz")
    SAVERS[how](path, good=np.arange(100), bad=array)
    with zipfile.ZipFile(path) as archive:
        size = archive.getinfo("bad.npy").compress_size
    flip(path, member_start(path, "bad.npy") + size - 50)

    def read() -> Any:
        return nf.files([path], members="bad")[0] if form == "files" else nf.rows(nf.npz(path)["bad"], access=form)[0]

    with pytest.raises(nf.FileFormatError) as caught:
        read()
    error = caught.value
    assert (error.path, error.member, error.kind) == (path, "bad", "npz-crc")
    assert "x.npz" in str(error)
    assert "'bad'" in str(error)
    same(whole(nf.rows(nf.npz(path)["good"])), np.arange(100))


@QUICK
@given(how=st.sampled_from(["stored", "deflated"]), data=st.data())
def test_any_flipped_byte_is_noticed_or_harmless(how, data):
    """Wherever it is in the archive: the values are right, or an error names the file."""
    x, y = sample(20, (3,), "f4"), sample(20, (), "i8")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.npz")
        SAVERS[how](path, x=x, y=y)
        flip(path, data.draw(st.integers(0, os.path.getsize(path) - 1)))
        got = outcome(lambda: nf.files([path], members=("x", "y"))[0])
        if isinstance(got, nf.NpyflowError):
            assert "x.npz" in str(got)
            assert got.path == path
        else:
            same(got[0], x)
            same(got[1], y)


@pytest.mark.parametrize("how", SAVERS)
def test_every_way_to_cut_an_archive(tmp_path, how):
    path = tmp_path / "x.npz"
    SAVERS[how](path, x=np.arange(30))
    data = path.read_bytes()
    for size in [*range(40), *range(40, len(data) - 60, 17), *range(len(data) - 60, len(data))]:
        path.write_bytes(data[:size])
        for open_ in (lambda: nf.npz(path)["x"], lambda: nf.files([str(path)], members="x"), lambda: nf.rows(path)):
            with pytest.raises(nf.FileFormatError, match=r"x\.npz") as caught:
                open_()
            assert caught.value.path == str(path)
            if size > 4:
                assert caught.value.kind == "npz-directory"


def test_a_directory_without_its_end(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, x=np.arange(30), y=np.arange(3))
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(nf.FileFormatError, match=r"x\.npz.*directory") as caught:
        nf.npz(path)
    assert (caught.value.path, caught.value.kind) == (str(path), "npz-directory")
    with pytest.raises(nf.FileFormatError):
        nf.files(str(tmp_path / "*.npz"), members="x")


def test_a_header_and_a_payload_that_disagree(tmp_path):
    data = npy_bytes(np.arange(6))
    for compressed in (False, True):
        for kind, body in (("truncated", data[:-8]), ("trailing", data + b"\0" * 8), ("empty", b"")):
            path = write_npz(tmp_path / f"{kind}.npz", compressed, good=np.arange(3), bad=body)
            archive = nf.npz(path)
            same(whole(nf.rows(archive["good"])), np.arange(3))
            if kind != "empty":
                with pytest.raises(nf.FileFormatError, match=rf"{kind}\.npz.*'bad'") as caught:
                    archive["bad"]
                assert (caught.value.path, caught.value.member, caught.value.kind) == (path, "bad", kind)
            with pytest.raises(nf.FileFormatError, match=rf"{kind}\.npz.*'bad'"):
                nf.files([path], members="bad")


@pytest.mark.parametrize("names", [("x.npy", "x.npy"), ("x", "x.npy")])
def test_a_name_that_comes_twice(tmp_path, names):
    one, two = npy_bytes(np.zeros(3)), npy_bytes(np.ones(3))
    path = zipped(tmp_path / "t.npz", [(names[0], one), (names[1], two)])
    for open_ in (lambda: nf.npz(path), lambda: nf.files([path], members="x"), lambda: nf.rows(path)):
        with pytest.raises(nf.FileFormatError, match=r"t\.npz.*'x'.*twice") as caught:
            open_()
        assert caught.value.path == path


@pytest.mark.parametrize(("method", "word"), [(zipfile.ZIP_BZIP2, "bzip2"), (zipfile.ZIP_LZMA, "(LZMA|lzma)")])
def test_other_compression_is_refused_by_name(tmp_path, method, word):
    path = str(tmp_path / "x.npz")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("good.npy", npy_bytes(np.arange(3)))
        archive.writestr("bad.npy", npy_bytes(np.arange(3)), method)
    same(whole(nf.rows(nf.npz(path)["good"])), np.arange(3))
    for open_ in (lambda: nf.npz(path)["bad"], lambda: nf.files([path], members="bad")):
        with pytest.raises(nf.FileFormatError, match=rf"x\.npz.*'bad'.*{word}") as caught:
            open_()
        assert (caught.value.path, caught.value.member) == (path, "bad")


def patch_directory(path: Any, name: bytes, offset: int, value: bytes) -> None:
    """Change a member's entry in the directory, at a byte counted from its beginning."""
    data = bytearray(Path(path).read_bytes())
    at = data.index(b"PK\1\2")
    while data[at + 46 : at + 46 + len(name)] != name:
        at = data.index(b"PK\1\2", at + 4)
    data[at + offset : at + offset + len(value)] = value
    Path(path).write_bytes(data)


def test_encrypted_members_are_refused(tmp_path):
    path = write_npz(tmp_path / "x.npz", good=np.arange(3), bad=np.arange(3))
    patch_directory(path, b"bad.npy", 8, b"\x01\x00")
    same(whole(nf.rows(nf.npz(path)["good"])), np.arange(3))
    for open_ in (lambda: nf.npz(path)["bad"], lambda: nf.files([path], members="bad")):
        with pytest.raises(nf.FileFormatError, match=r"x\.npz.*'bad'.*encrypted"):
            open_()


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("claim", [10**6, 10**9, 2**32 - 2])
def test_claims_that_no_compression_reaches(tmp_path, compressed, claim):
    path = write_npz(tmp_path / "x.npz", compressed, good=np.arange(3), bad=np.arange(30))
    patch_directory(path, b"bad.npy", 24, struct.pack("<I", claim))
    for open_ in (lambda: nf.npz(path)["bad"], lambda: nf.files([path], members="bad")):
        with pytest.raises(nf.FileFormatError, match=r"x\.npz.*'bad'"):
            open_()


@pytest.mark.parametrize("claim", [-8, 8, 800])
def test_a_compressed_size_that_is_a_lie(tmp_path, claim):
    """Header and directory agree, the stream does not."""
    inner = header("<i8", False, (30 + claim // 8,)) + np.arange(30).tobytes()
    path = write_npz(tmp_path / "x.npz", True, x=inner)
    patch_directory(path, b"x.npy", 24, struct.pack("<I", len(inner) + claim))
    with pytest.raises(nf.FileFormatError, match=r"x\.npz.*'x'") as caught:
        whole(nf.rows(nf.npz(path)["x"]))
    assert (caught.value.path, caught.value.member) == (path, "x")
    with pytest.raises(nf.FileFormatError):
        nf.files([path], members="x")[0]


@pytest.mark.parametrize("where", [1, 30, 10**6, 2**32 - 2])
def test_an_offset_that_leads_elsewhere(tmp_path, where):
    path = write_npz(tmp_path / "x.npz", good=np.arange(3), bad=np.arange(30))
    patch_directory(path, b"bad.npy", 42, struct.pack("<I", where))
    with pytest.raises(nf.FileFormatError, match=r"x\.npz"):
        nf.npz(path)["bad"]
    with pytest.raises(nf.FileFormatError, match=r"x\.npz"):
        nf.files([path], members="bad")


@pytest.mark.parametrize("how", SAVERS)
def test_objects_in_archives(tmp_path, how):
    path = str(tmp_path / "x.npz")
    SAVERS[how](path, good=np.arange(3), bad=np.array([{}, [1]], object))
    archive = nf.npz(path)
    assert list(archive) == ["good", "bad"]
    same(whole(nf.rows(archive["good"])), np.arange(3))
    same(nf.files([path], members="good")[0], np.arange(3))
    for open_ in (lambda: archive["bad"], lambda: nf.files([path], members="bad")):
        with pytest.raises(nf.UnsupportedDtypeError, match=r"x\.npz.*'bad'.*allow_pickle=True") as caught:
            open_()
        assert caught.value.kind == "object"
    assert "bad" in repr(archive)


def test_objects_in_archives_carry_file_and_member(tmp_path):
    path = str(tmp_path / "x.npz")
    np.savez(path, bad=np.array([{}, [1]], object))
    with pytest.raises(nf.UnsupportedDtypeError) as caught:
        nf.npz(path)["bad"]
    assert (caught.value.path, caught.value.member) == (path, "bad")


def test_asking_whether_an_unusable_array_is_there(tmp_path):
    np.savez(tmp_path / "x.npz", bad=np.array([{}], object))
    assert ("bad" in nf.npz(tmp_path / "x.npz")) in (True, False)


def test_an_unusable_array_by_its_full_name(tmp_path):
    np.savez(tmp_path / "x.npz", bad=np.array([{}], object))
    with pytest.raises(nf.UnsupportedDtypeError):
        nf.npz(tmp_path / "x.npz")["bad.npy"]


# Rewritten while open


def rewrite(path: Path, save: Any) -> None:
    save(path, x=np.arange(100, 109))
    touch_later(path)


def replaced(path: Path, save: Any) -> None:
    save(path.with_suffix(".new.npz"), x=np.arange(100, 109))
    os.replace(path.with_suffix(".new.npz"), path)
    touch_later(path)


def cut(path: Path, save: Any) -> None:
    os.truncate(path, 100)


def gone(path: Path, save: Any) -> None:
    path.unlink()


@pytest.mark.parametrize("change", [rewrite, replaced, cut, gone])
@pytest.mark.parametrize(
    ("how", "form"),
    [
        *(("stored", form) for form in ("auto", "mmap", "read", "files", "handle")),
        *(("deflated", form) for form in ("auto", "files", "handle")),
    ],
)
def test_rewritten_between_open_and_read(tmp_path, how, change, form):
    path = tmp_path / "x.npz"
    SAVERS[how](path, x=np.arange(9))
    handle = nf.npz(path)["x"]
    flow = nf.files([str(path)], members="x") if form == "files" else None
    if form in ("auto", "mmap", "read"):
        flow = nf.rows(handle, access=form)
        if form != "auto":
            flow[0]
    change(path, SAVERS[how])
    with pytest.raises(nf.FileChangedError, match=r"x\.npz.*'x'") as caught:
        nf.rows(handle, access="ram")[0] if flow is None else flow[0]
    assert (caught.value.path, caught.value.member) == (str(path), "x")


# Kept, sent, many at once


@pytest.mark.parametrize("how", SAVERS)
def test_save_load_and_pickle(tmp_path, how):
    x, r = sample(N, (2,), "f8"), np.zeros((N, 2), RECORD)
    r["a"], r["b"]["t"] = sample(N, (2, 2), "f4"), sample(N, (2,), "U3")
    for at in range(N):
        SAVERS[how](tmp_path / f"{at}.npz", x=x[at], r=r[at])
    SAVERS[how](tmp_path / "rows.npz", x=x, r=r)
    archive = nf.npz(tmp_path / "rows.npz")
    flows = [
        nf.files(
            str(tmp_path / "[0-9]*.npz"),
            members={"x": ["nope", "x"], "r": "r"},
            fields={"r": ("b.t", "a")},
            dtype={"x": "float32"},
        ),
        nf.rows({"x": archive["x"], "r": archive["r"]}, fields={"r": ("b.t", "a")}, dtype={"x": "float32"}),
    ]
    for flow in flows:
        flow.save(tmp_path / "flow.json")
        parts = [nf.load(tmp_path / "flow.json"), pickle.loads(pickle.dumps(flow))]
        for again in parts:
            assert again.spec == flow.spec
            assert again.report == flow.report
            assert again.describe() == flow.describe()
            for at in (0, 7, N - 1):
                got = again[at]
                same(got["x"], x[at].astype("f4"))
                same(got["r"][0], np.ascontiguousarray(r[at]["b"]["t"]))
                same(got["r"][1], np.ascontiguousarray(r[at]["a"]).astype("f4"))
    flows[0].save(tmp_path / "flow.json")
    touch_later(tmp_path / "3.npz")
    with pytest.raises(nf.FileChangedError, match=r"3\.npz"):
        nf.load(tmp_path / "flow.json")[3]


def test_a_folder_with_its_manifest_can_be_moved(tmp_path):
    for at in range(4):
        write_npz(tmp_path / "a" / "data" / f"{at}.npz", at % 2 == 1, x=np.array(at))
    nf.files(tmp_path / "a" / "data", members="x").save(tmp_path / "a" / "flow.json")
    os.rename(tmp_path / "a", tmp_path / "b")
    assert whole(nf.load(tmp_path / "b" / "flow.json")).tolist() == [0, 1, 2, 3]


@needs_proc
def test_many_archives_under_a_low_limit_of_descriptors(tmp_path):
    import resource

    array = sample(400, (2,), "f4")
    for at in range(200):
        write_npz(tmp_path / f"{at:03}.npz", at % 4 == 1, at % 7, x=array[2 * at : 2 * at + 2], y=np.arange(2))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors() + 40, hard))
    try:
        handles = [nf.npz(tmp_path / f"{at:03}.npz")["x"] for at in range(200)]
        flow = nf.rows(handles)
        for epoch in range(2):
            got = np.concatenate(list(flow.batches(16, shuffle=True, epoch=epoch)))
            assert sorted(map(tuple, got)) == sorted(map(tuple, array))
        same(
            np.concatenate([x for x, _ in nf.files(tmp_path, members=("x", "y")).batches(9)]), array.reshape(200, 2, 2)
        )
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@needs_proc
def test_descriptors_do_not_leak(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(9), bad=np.array([{}], object))
    np.savez_compressed(tmp_path / "b.npz", x=np.arange(9))
    (tmp_path / "c.npz").write_bytes((tmp_path / "a.npz").read_bytes()[:-30])
    flip(tmp_path / "b.npz", member_start(tmp_path / "b.npz", "x.npy") + 20)
    before = descriptors()
    for _ in range(5):
        archive = nf.npz(tmp_path / "a.npz")
        assert descriptors() == before
        for access in READS:
            flow = nf.rows(archive["x"], access=access)
            same(whole(flow), np.arange(9))
            flow.close()
            del flow
        with pytest.raises(nf.FileFormatError):
            nf.npz(tmp_path / "c.npz")
        with pytest.raises(nf.FileFormatError):
            whole(nf.rows(nf.npz(tmp_path / "b.npz")["x"]))
        with pytest.raises(nf.FileFormatError):
            nf.files([str(tmp_path / "b.npz")], members="x")[0]
        nf.files([str(tmp_path / "a.npz")], members="x")[0]
    del archive
    assert descriptors() == before


@pytest.mark.parametrize("how", SAVERS)
def test_many_threads(tmp_path, how):
    x = sample(N, (3, 4), "f4")
    for at in range(N):
        SAVERS[how](tmp_path / f"{at}.npz", x=x[at], y=np.array(at))
    (tmp_path / "rows").mkdir()
    SAVERS[how](tmp_path / "rows" / "r.npz", x=x, y=np.arange(N))
    archive = nf.npz(tmp_path / "rows" / "r.npz")
    flows = [nf.files(str(tmp_path / "*.npz"), members=("x", "y")), nf.rows((archive["x"], archive["y"]))]
    wrong: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for epoch in range(4):
                for flow in flows:
                    for a, b in flow.batches(5, shuffle=True, seed=seed, epoch=epoch):
                        same(a, x[b])
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@QUICK
@given(data=st.data())
def test_any_archives_equal_what_numpy_reads(data):
    """Archives of one set of arrays, each written in its own way."""
    names = data.draw(st.lists(st.sampled_from(["a", "b", "c/d", "é"]), min_size=1, max_size=3, unique=True))
    kinds = {
        name: (
            tuple(data.draw(st.lists(st.integers(0, 4), max_size=3))),
            data.draw(st.sampled_from([*DTYPES, "U2", "S3", "M8[s]"])),
        )
        for name in names
    }
    with tempfile.TemporaryDirectory() as folder:
        count = data.draw(st.integers(1, 4))
        for at in range(count):
            arrays = {
                name: sample(1, shape, dtype, at)
                .reshape(shape)
                .astype(np.dtype(dtype).newbyteorder(data.draw(st.sampled_from("<>"))))
                for name, (shape, dtype) in kinds.items()
            }
            bodies = {name: npy_bytes(array, fortran=data.draw(st.booleans())) for name, array in arrays.items()}
            how = data.draw(st.sampled_from([None, *WRITERS]))
            path, method = os.path.join(folder, f"{at}.npz"), data.draw(st.sampled_from([0, 8]))
            if how is None:
                write_npz(path, bool(method), data.draw(st.integers(0, 9)), **bodies)
            else:
                WRITERS[how](path, bodies, method)
        flow = nf.files(folder, members={name: name for name in names})
        # Not flow[at], which forgets how wide a single text may be.
        for at, got in enumerate(flow.batches(1)):
            with zipfile.ZipFile(os.path.join(folder, f"{at}.npz")) as archive:
                for name in names:
                    want = np.load(io.BytesIO(archive.read(f"{name}.npy")))
                    same(got[name], delivered(want)[np.newaxis])


def test_slips_in_members_warn_once(tmp_path):
    text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (np.int64(6),)}\n"
    body = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + np.arange(6, dtype="f4").tobytes()
    for compressed in (False, True):
        for at in range(3):
            write_npz(tmp_path / f"{at}.npz", compressed, x=body)
        with pytest.warns(nf.NpyflowWarning, match=r"0\.npz.*'x'") as caught:
            flow = nf.files(tmp_path, members="x")
        assert len(caught) == 1
        same(whole(flow), np.stack([np.arange(6, dtype="f4")] * 3))
        with pytest.warns(nf.NpyflowWarning) as caught:
            flow = nf.rows([nf.npz(tmp_path / f"{at}.npz")["x"] for at in range(3)])
        assert len(caught) == 1
        bad = write_npz(tmp_path.parent / "bad.npz", compressed, x=body + b"\0")
        with pytest.raises(nf.FileFormatError, match=r"bad\.npz.*'x'"):
            nf.npz(bad)["x"]


def test_a_member_can_be_read_whole_and_be_the_labels(tmp_path):
    np.savez_compressed(tmp_path / "y.npz", y=np.asfortranarray(np.arange(6).reshape(3, 2)), fps=25.0)
    archive = nf.npz(tmp_path / "y.npz")
    assert archive["fps"].read() == 25.0
    assert archive["y"].read().tolist() == [[0, 1], [2, 3], [4, 5]]
    for at in range(3):
        np.save(tmp_path / f"{at}.npy", np.zeros(2))
    flow = nf.files(tmp_path, labels=archive["y"])
    assert [label.tolist() for _, label in flow] == [[0, 1], [2, 3], [4, 5]]


def test_a_damaged_array_is_never_taken_for_something_else(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, x=np.arange(5), y=np.arange(5) * 100)
    data = bytearray(path.read_bytes())
    at = data.index(b"\x93NUMPY")
    data[at : at + 8] = bytes(8)
    path.write_bytes(data)
    for opening in (lambda: nf.rows(path), lambda: nf.files([path])):
        with pytest.raises(nf.FileFormatError, match=r"holds 2 arrays .x: unusable, y: int64"):
            opening()
    archive = nf.npz(path)
    with pytest.raises(nf.FileFormatError, match=r"member 'x' is no \.npy file"):
        archive["x"]
    same(archive["y"].read(), np.arange(5) * 100)
    with zipfile.ZipFile(path, "w") as empty:
        empty.writestr("x.npy", b"")
    with pytest.raises(nf.FileFormatError, match="member 'x' is an empty file"):
        nf.npz(path)["x.npy"]


def test_what_is_no_array_is_said_to_be_none(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as file:
        file.writestr("a.npy", npy_bytes(np.arange(3)))
        file.writestr("readme.txt", b"hello")
    archive = nf.npz(tmp_path / "x.npz")
    with pytest.raises(nf.FileFormatError, match=r"member 'readme\.txt' is no array"):
        archive["readme.txt"]
    assert "a.npy" in archive
    assert "a" in archive
    assert "readme.txt" not in archive


def test_one_of_several_members_may_be_left_to_the_only_array(tmp_path):
    for at in range(2):
        write_npz(tmp_path / f"{at}.npz", x=np.full(2, at))
    flow = nf.files(tmp_path, members=("x", None))
    assert [[part.tolist() for part in example] for example in flow] == [[[0, 0]] * 2, [[1, 1]] * 2]


def test_errors_of_compressed_rows_keep_their_shape(tmp_path, monkeypatch):
    paths = [write_npz(tmp_path / f"{at}.npz", True, x=np.arange(10)) for at in range(3)]
    flow = nf.rows(paths)
    os.unlink(paths[1])
    os.symlink(paths[1], paths[1])
    with pytest.raises(nf.FileError) as caught:
        flow.__getitems__([1, 15])
    assert caught.value.index is None
    assert paths[1] in str(caught.value)


def test_a_short_first_read_is_no_damage(tmp_path, monkeypatch):
    from npyflow._sources import fileio, payloads

    array = np.random.default_rng(0).random(1000)
    paths = [write_npz(tmp_path / "0.npz", x=array), write_npz(tmp_path / "1.npz", True, x=array)]
    paths.append(str(tmp_path / "2.npy"))
    np.save(paths[2], array)
    flow = nf.files(paths)
    real = fileio.preadv

    def short(fd, buffers, offset):
        return real(fd, [memoryview(buffers[0])[:50]], offset)

    monkeypatch.setattr(fileio, "preadv", short)
    monkeypatch.setattr(payloads, "preadv", short)
    for example in flow:
        same(example, array)


def test_names_that_would_draw_on_a_terminal_are_escaped(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as file:
        for name in ("a\x1b[31m\n.npy", "b.npy", "c\x1b.txt"):
            file.writestr(name, npy_bytes(np.arange(3)) if name.endswith("npy") else b"")
    archive = nf.npz(tmp_path / "x.npz")
    assert "\x1b" not in repr(archive) + repr(next(iter(archive.values())))
    for opening in (lambda: archive["none"], lambda: nf.rows(tmp_path / "x.npz")):
        with pytest.raises(nf.NpyflowError) as caught:
            opening()
        assert "\x1b" not in str(caught.value)


def test_members_named_with_their_suffix_are_used(tmp_path):
    write_npz(tmp_path / "0.npz", x=np.zeros(2), y=np.zeros(2))
    assert nf.files(tmp_path, members=("x.npy", "y.npy")).report.notes == ()
