"""`nf.measure` without TensorFlow: what it finds, and that it leaves nothing behind. No figure is judged here."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import tempfile
import time
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

import npyflow as nf
from helpers import write, write_npz
from npyflow._measure import run, timing
from npyflow._measure import ways as ways_module
from npyflow._measure.census import take_census
from npyflow._measure.interrupts import check_interrupts, kept_interrupts
from npyflow._measure.result import FORMAT
from npyflow._measure.subject import delivered, mean_bytes, stream_of
from npyflow._measure.timing import Contestant, interval, race
from npyflow._measure.words import render

jobs = pytest.importorskip("npyflow._jobs.measure")


@pytest.fixture(autouse=True)
def short(monkeypatch, tmp_path):
    """NumPy alone, a moment of time, and a folder for temporary files of its own."""
    monkeypatch.setattr(jobs, "_passes", lambda flow, size: (None, "no TensorFlow here"))
    monkeypatch.setattr(jobs, "LEAST_SECONDS", 0.01)
    monkeypatch.setattr(timing, "_LEAST_PASS_S", 0.001)
    monkeypatch.setattr(run, "_OPTIONAL", ())
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def measure(flow, **options):
    return jobs.measure(flow, **{"seconds": 0.2, "batch_size": 8, **options})


def many(folder, count=60, shape=(4, 3), **how):
    rng = np.random.default_rng(0)
    for number in range(count):
        write(folder / "ab"[number % 3 == 0] / f"{number}.npy", rng.random(shape).astype("f4"), **how)
    return folder


def names(found):
    return {way.name for way in found.ways}


def check(found, flow):
    """What holds for every measurement."""
    document = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert (document["format"], document["version"]) == (FORMAT, 1)
    assert set(document) == {
        *("format", "version", "path", "examples", "bytes_per_example", "total_bytes", "batch_size", "machine"),
        *("census", "stages", "cold", "ways", "batch_sizes", "pack", "step_ms", "bottleneck", "verdict"),
        *("seconds", "notes"),
    }
    assert set(document["machine"]) == {"cpus", "memory_bytes", "python", "numpy", "tensorflow", "npyflow"}
    assert set(document["census"]) == {"files", "file_bytes", "shapes", "dtypes", "classes", "components"}
    assert set(document["verdict"]) == {"rule", "best", "headline", "reasons", "commands"}
    for way in document["ways"]:
        assert set(way) == {
            *("name", "call", "examples_per_s", "low", "high", "mb_per_s", "batches_per_s", "memory_bytes"),
            *("epoch_s", "today", "recipe", "note"),
        }
        assert 0 < way["low"] <= way["examples_per_s"] <= way["high"]
    for stage in document["stages"]:
        assert set(stage) == {"name", "warm_us", "cold_us", "share"}
    assert math.isclose(sum(stage["share"] for stage in document["stages"]), 1.0, abs_tol=1e-9)
    assert [way["today"] for way in document["ways"]] == [True] + [False] * (len(document["ways"]) - 1)
    assert document["verdict"]["best"] in {way["name"] for way in document["ways"] if not way["recipe"]}
    assert document["examples"] == len(flow)
    assert len({way["name"] for way in document["ways"]}) == len(document["ways"])
    text = str(found)
    assert text.startswith("Verdict: ")
    assert all(line == line.rstrip() for line in text.splitlines())
    return document


def test_a_folder_of_files(tmp_path, short):
    flow = nf.files(many(tmp_path / "x"), labels="directory")
    found = measure(flow, step_ms=5)
    document = check(found, flow)
    assert names(found) >= {"files", "packed", "ram", "recipe"}
    assert document["path"] == str(tmp_path / "x")
    assert document["total_bytes"] == 60 * (4 * 3 * 4 + 8)
    assert {stage["name"] for stage in document["stages"]} >= {"list", "open", "header", "read", "batch"}
    assert document["bottleneck"]["step_ms"] == 5
    assert document["pack"]["bytes"] > document["total_bytes"]
    assert "no TensorFlow here" in found.notes
    assert document["machine"]["tensorflow"] is None
    assert os.listdir(short) == []
    assert sorted(os.listdir(tmp_path / "x")) == ["a", "b"]


def test_rows_in_each_access(tmp_path):
    flow = nf.rows((write(tmp_path / "x.npy", np.zeros((500, 6), "f4")), write(tmp_path / "y.npy", np.arange(500))))
    found = measure(flow)
    check(found, flow)
    assert names(found) == {"mmap", "read", "ram", "recipe"}
    assert found.ways[0].name == "mmap"
    assert any("access=" in way.call for way in found.ways if way.name == "read")
    # A part is measured as a part.
    assert measure(flow[:100]).examples == 100


@pytest.mark.parametrize(
    "make",
    [
        lambda path: nf.rows(write(path / "x.npy", np.zeros((100, 6, 5), "f4"), fortran=True)),
        lambda path: nf.rows(write(path / "x.npy", np.zeros((100, 6), ">f4"))),
        lambda path: nf.rows(write(path / "x.npy", np.zeros((100, 6), "i2")), dtype="float32"),
        lambda path: nf.rows(nf.npz(write_npz(path / "x.npz", True, x=np.zeros((100, 3))))["x"]),
        lambda path: nf.files([write(path / f"{at}.npy", np.zeros((6, 4), "f4"), fortran=True) for at in range(30)]),
        lambda path: nf.files([write(path / f"{at}.npy", np.zeros(4, ">i8")) for at in range(30)], transpose=(0,)),
        lambda path: nf.files([write(path / f"{at}.npy", np.full(2, f"t{at}")) for at in range(30)]),
        lambda path: nf.files(
            [write_npz(path / f"{at}.npz", bool(at % 2), a=np.zeros(5), b=np.arange(at + 1)) for at in range(20)],
            members={"a": "a", "b": "b"},
        ),
        lambda path: nf.files([write(path / f"{at}.npy", np.zeros(at + 1)) for at in range(30)]),
        lambda path: nf.files([write(path / f"{at}.npy", np.zeros(3, [("a", "f4"), ("b", "i2")])) for at in range(9)]),
        lambda path: nf.rows(nf.Ragged(write(path / "x.npy", np.zeros((30, 2))), counts=[1, 2, 3, 4, 5, 5, 5, 5])),
        lambda path: nf.rows((np.zeros((40, 3)), np.arange(40))),
    ],
)  # fmt: skip
def test_any_flow(tmp_path, make):
    flow = make(tmp_path)
    check(measure(flow, seconds=0.2), flow)


def test_what_is_made_anew_is_not_copied(tmp_path):
    series = write(tmp_path / "x.npy", np.zeros((200, 3), "f4"))
    pictures = [write(tmp_path / f"{at}.npy", np.zeros((9, 9), "f4")) for at in range(20)]
    for flow in (
        nf.windows(series, length=5),
        nf.files(pictures, crop=nf.Crop((4, 4))),
        nf.files(pictures).map(lambda x, rng: x + 1),
    ):
        found = measure(flow)
        check(found, flow)
        assert names(found) <= {"files", "mmap", "read"}
        assert any("made anew each epoch" in note for note in found.notes)


def test_a_way_that_fails_is_left_out_and_noted(tmp_path, monkeypatch, short):
    def broken(flow, folder):
        os.mkdir(folder)
        raise nf.JobError("no pen")

    monkeypatch.setattr(jobs, "_pack", broken)
    flow = nf.files(many(tmp_path / "x"))
    found = measure(flow)
    check(found, flow)
    assert "packed" not in names(found)
    assert "packed: left out: no pen" in found.notes
    assert found.pack is None
    assert os.listdir(short) == []


def test_nothing_is_left_after_ctrl_c(tmp_path, monkeypatch, short):
    def interrupted(_, folder):
        os.mkdir(folder)
        write(os.path.join(folder, "half.npy"), np.zeros(3))
        assert os.listdir(short)
        raise KeyboardInterrupt

    monkeypatch.setattr(jobs, "_pack", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measure(nf.files(many(tmp_path / "x")))
    assert os.listdir(short) == []


def test_no_room_for_copies(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: _Free())
    flow = nf.files(many(tmp_path / "x"))
    found = measure(flow)
    check(found, flow)
    assert "packed" not in names(found)
    assert any("has no room for" in note for note in found.notes)


class _Free:
    free = 10


def test_options_are_checked(tmp_path):
    flow = nf.rows(np.zeros((3, 2)))
    for options in ({"seconds": 0}, {"seconds": "x"}, {"batch_size": 0}, {"step_ms": -1}, {"step_ms": float("nan")}):
        with pytest.raises(nf.OptionError, match=next(iter(options))):
            measure(flow, **options)
    with pytest.raises(nf.OptionError, match="no example"):
        measure(flow[:0])
    # Fewer examples than a batch.
    check(measure(flow), flow)


def test_the_census(tmp_path):
    paths = [write(tmp_path / "a" / f"{at}.npy", np.zeros((2 + at % 2, 3), ">f4")) for at in range(5)]
    paths += [write(tmp_path / "b" / "6.npy", np.zeros((900, 3), "<f4"))]
    flow = nf.files(tmp_path, labels="directory")
    census = take_census(flow._view)
    assert census.files == 6
    assert sum(census.counts) == 6
    assert len(census.edges) == len(census.counts) + 1
    sizes = [os.path.getsize(path) for path in paths]
    for low, high, count in zip(census.edges[:-1], census.edges[1:], census.counts, strict=True):
        assert sum(low <= size < high for size in sizes) == count
    assert census.shapes == (("(2, 3)", 3), ("(3, 3)", 2), ("(900, 3)", 1))
    assert census.dtypes == (("float32, big-endian", 5), ("float32", 1))
    assert census.classes == (("a", 5), ("b", 1))
    assert [one["shape"] for one in census.components] == ["(?, 3)", "()"]
    # A part has its own files alone.
    assert take_census(flow[:2]._view).files == 2
    rows = take_census(nf.rows((np.zeros((10, 2)), np.arange(10) % 3))._view)
    assert (rows.files, rows.edges, rows.counts) == (0, (), ())
    assert rows.shapes == (("(2,)", 10), ("()", 10))
    assert rows.classes == (("0", 4), ("1", 3), ("2", 3))
    # Numbers that are no classes.
    assert take_census(nf.rows((np.zeros((1000, 2)), np.arange(1000)))._view).classes == ()


def test_bytes_of_an_example(tmp_path):
    flow = nf.files([write(tmp_path / f"{at}.npy", np.zeros((at, 2), "f4")) for at in range(1, 4)])
    assert mean_bytes(flow._view) == 16
    assert mean_bytes(flow[2:]._view) == 24
    assert mean_bytes(nf.rows((np.zeros((5, 2), "i2"), np.zeros(5)))._view) == 12


def test_the_interval():
    assert interval([3.0]) == (3.0, 3.0, 3.0)
    assert interval([5.0, 1.0, 2.0]) == (2.0, 1.0, 5.0)
    # Of nine, the second and the eighth hold the median with 96 %; of five, none may be left out.
    assert interval(list(range(9))) == (4, 1, 7)
    assert interval(list(range(5))) == (2, 0, 4)
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(500):
        _, low, high = interval(rng.exponential(size=11).tolist())
        inside += low <= math.log(2) <= high
    assert inside >= 465


def test_examples_are_counted_over_epochs():
    # 10 examples in batches of 4: 4, 4, 2.
    assert [delivered(count, 10, 4) for count in range(8)] == [0, 4, 8, 10, 14, 18, 20, 24]
    seen = []

    def epoch(number):
        for start in range(0, 10, 4):
            seen.append((number, start))
            yield start

    stream = stream_of(epoch, 10, 4)
    stream.restart()
    assert [stream(2), stream(2), stream(1)] == [8, 6, 4]
    assert seen == [(0, 0), (0, 4), (0, 8), (1, 0), (1, 4)]


def test_a_race_takes_turns():
    order = []

    class Runner:
        def __init__(self, name):
            self.name = name

        def restart(self):
            order.append(self.name)

        def stop(self):
            order.append("-")

        def __call__(self, batches):
            np.random.default_rng(0).random(2000 * batches)
            return 8 * batches

    sides = [Contestant(make=lambda name=name: Runner(name), steps=4, whole=name == "b") for name in "ab"]
    for side in sides:
        side.warm_up()
    order.clear()
    race(sides, 0.5)
    assert "".join(order[:12]) == "a-b-" * 3
    assert all(len(side.rates) >= 3 for side in sides)
    assert sides[1].batches % 4 == 0
    assert sides[1].head == 0


def test_the_command(tmp_path, monkeypatch):
    from npyflow._cli.measure import measure as command

    root = many(tmp_path / "my data")
    arguments = [str(root), "--labels", "directory", "--seconds", "0.3", "--batch-size", "8"]
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 0, done.output
    assert "Verdict: " in done.stdout
    assert "no TensorFlow here" in done.stdout
    done = CliRunner().invoke(command, [*arguments, "--json", "--step-ms", "3"])
    document = json.loads(done.stdout)
    assert document["path"] == str(root)
    assert document["step_ms"] == 3
    assert document["ways"][0]["call"] == f'nf.files({str(root)!r}, labels="directory").batches(8, shuffle=True)'
    written = []
    monkeypatch.setattr("npyflow._measure.report.write_report", lambda found, path: written.append((found, path)))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    done = CliRunner().invoke(command, [*arguments, "--report", str(tmp_path / "r.html")])
    assert isinstance(done.exception, nf.MissingDependencyError)
    monkeypatch.undo()


def test_how_the_command_names_what_it_opens(tmp_path):
    from npyflow._cli.measure import _opened

    path = write(tmp_path / "x.npy", np.zeros((4, 2)))
    assert _opened(path, nf.rows(path), None, None) == f"nf.rows({path!r})"
    flow = nf.files([path])
    assert _opened(str(tmp_path), flow, None, "**/*.npy") == f"nf.files({str(tmp_path)!r}, pattern='**/*.npy')"
    flow.save(tmp_path / "f.json")
    assert _opened(str(tmp_path / "f.json"), flow, None, None).startswith("nf.load(")
    assert ways_module.opened_with("nf.rows('x')", "access='read'") == "nf.rows('x', access='read')"
    assert ways_module.opened_with("flow", "access='read'") == "nf.rows(..., access='read')"


def test_text_from_names_is_printable(tmp_path):
    root = tmp_path / "a\n\x1b[31mb"
    many(root)
    flow = nf.files(root)
    text = str(measure(flow))
    assert "\x1b" not in text
    assert "a\\n" in text
    found = measure(nf.rows(np.zeros((9, 2))))
    assert "\x1b" not in render(replace(found, notes=("\x1b",)))


def test_an_interrupt_that_was_swallowed_is_raised_again() -> None:
    # A shell starts what runs in the background with Ctrl-C ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with kept_interrupts():
        check_interrupts()
        with contextlib.suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
        with pytest.raises(KeyboardInterrupt):
            check_interrupts()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    check_interrupts()
    signal.signal(signal.SIGINT, before)
