"""Jobs that are killed: the command, at any moment, by SIGKILL and by Ctrl-C; and one of its processes."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npyflow as nf
from helpers import sample, write
from npyflow._format.schema import JOB_FOLDER
from test_cli import run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.alone,
    pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks for processes in /proc"),
]

FILES = 240
PATIENCE = 60.0


@pytest.fixture(scope="module")
def source(tmp_path_factory: Any) -> Path:
    path: Path = tmp_path_factory.mktemp("killed")
    for at in range(FILES):
        write(path / f"src/{'ab'[at % 2]}/{at}.npy", sample(32 + at % 5, (32,), "f4", at))
    return path


def arguments(source: Path, dst: Path, *more: str) -> list[str]:
    return ["pack", str(source / "src"), str(dst), "--labels", "directory", "--shard-size", "24kB", *more]


@pytest.fixture(scope="module")
def undisturbed(source: Path) -> dict[str, bytes]:
    done = run(*arguments(source, source / "whole"))
    assert done.returncode == 0, done.stderr
    found = {path.name: path.read_bytes() for path in (source / "whole").iterdir()}
    assert len(found) > 100
    return found


def start(arguments: list[str]) -> "subprocess.Popen[str]":
    # A session of its own, as a terminal gives: Ctrl-C goes to all of it, and a shell's background job would ignore it.
    return subprocess.Popen(
        [sys.executable, "-m", "npyflow", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def members(session: int) -> dict[int, str]:
    """The processes of a session that still run, with their command lines."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                state, _, _, of = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
                if int(of) == session and state != "Z":
                    found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
    return found


def wait_for(what: Callable[[], Any], process: Any = None) -> Any:
    end = time.monotonic() + PATIENCE
    while not (found := what()):
        if process is not None and process.poll() is not None:
            return what()
        assert time.monotonic() < end
        time.sleep(0.002)
    return found


def end_session(process: Any) -> None:
    for pid in members(process.pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait(PATIENCE)
    process.stderr.close()


def seen(dst: Path) -> Iterator[Path]:
    """What a person sees: no hidden names."""
    return (path for path in dst.glob("[!.]*") if path.is_file())


def journalled(dst: Path) -> dict[Path, int]:
    """Files of finished shards, with their times."""
    notes = [json.loads(path.read_bytes()) for path in (dst / JOB_FOLDER).glob("[0-9]*.json")]
    return {dst / name: (dst / name).stat().st_mtime_ns for one in notes for name in one["files"]}


def assert_sound(dst: Path, undisturbed: dict[str, bytes]) -> None:
    """Every file under a final name is whole, and there is no manifest before the end."""
    for path in seen(dst):
        assert path.read_bytes() == undisturbed[path.name], path.name
    if (dst / "_npyflow.json").exists():
        assert {path.name for path in seen(dst)} == set(undisturbed)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_killed_again_and_again_it_ends_with_the_same_bytes(
    source: Path, undisturbed: dict[str, bytes], workers: str, tmp_path: Path
) -> None:
    dst = tmp_path / "dst"
    # At first soon, then later and later: until it has had time enough.
    rng = random.Random(7)
    kills = finished = 0
    for attempt in range(200):
        before = journalled(dst)
        process = start(arguments(source, dst, "--workers", workers))
        try:
            wait_for(lambda: (dst / JOB_FOLDER / "tmp").exists(), process)
            there = len(before) + 1
            wait_for(lambda some=there: len(list((dst / JOB_FOLDER).glob("0*.json"))) >= some, process)
            time.sleep(rng.uniform(0, 0.004 * (1 + attempt // 4)))
            ended = process.poll() is not None
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            ended = True
        finally:
            end_session(process)
        assert all(path.stat().st_mtime_ns == at for path, at in before.items()), "a finished shard was written again"
        assert_sound(dst, undisturbed)
        if ended:
            assert process.returncode == 0
            finished += 1
            break
        kills += 1
        if kills == 25:
            assert run(*arguments(source, dst, "--workers", workers)).returncode == 0
            break
    assert kills >= 3
    assert {path.name: path.read_bytes() for path in seen(dst)} == undisturbed
    flow = nf.files(str(source / "src"), labels="directory")
    for got, want in zip(nf.load(dst), flow, strict=True):
        np.testing.assert_array_equal(got[0], want[0])
        assert got[1] == want[1]


def test_killed_before_the_first_shard(source: Path, undisturbed: dict[str, bytes], tmp_path: Path) -> None:
    for at, delay in enumerate([0.0, 0.1, 0.3, 0.5, 0.7]):
        dst = tmp_path / f"dst{at}"
        process = start(arguments(source, dst))
        time.sleep(delay)
        end_session(process)
        if dst.exists():
            assert_sound(dst, undisturbed)
    done = run(*arguments(source, dst))
    if done.returncode:
        # It was already there.
        assert "already holds a data set" in done.stderr
    assert {path.name: path.read_bytes() for path in seen(dst)} == undisturbed


def test_the_processes_of_a_killed_leader_end_and_another_goes_on(
    source: Path, undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    dst = tmp_path / "dst"
    process = start(arguments(source, dst, "--workers", "2"))
    try:
        wait_for(lambda: list((dst / JOB_FOLDER).glob("0*.json")), process)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(PATIENCE)
        # At once, while those that it left may still be at work.
        done = run(*arguments(source, dst, "--workers", "2"))
        assert done.returncode == 0, done.stderr
        assert {path.name: path.read_bytes() for path in seen(dst)} == undisturbed
        end = time.monotonic() + 20
        while members(process.pid) and time.monotonic() < end:
            time.sleep(0.1)
        assert not members(process.pid), "workers outlive the process that started them"
        assert {path.name: path.read_bytes() for path in seen(dst)} == undisturbed
        assert not (dst / JOB_FOLDER).exists()
    finally:
        end_session(process)


def test_a_worker_that_is_killed_is_said_and_the_job_goes_on_later(
    source: Path, undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    dst = tmp_path / "dst"
    process = start(arguments(source, dst, "--workers", "2"))
    try:
        wait_for(lambda: list((dst / JOB_FOLDER).glob("0*.json")), process)
        workers = [pid for pid, command in members(process.pid).items() if "spawn_main" in command]
        assert len(workers) == 2
        os.kill(workers[0], signal.SIGKILL)
        _, err = process.communicate(timeout=PATIENCE)
    finally:
        end_session(process)
    assert process.returncode == 1, err
    assert "a worker process died" in err
    assert "run the same again to go on" in " ".join(err.split())
    assert "Traceback" not in err
    assert not members(process.pid)
    assert_sound(dst, undisturbed)
    before = journalled(dst)
    assert before
    done = run(*arguments(source, dst))
    assert done.returncode == 0, done.stderr
    assert all(path.stat().st_mtime_ns == at for path, at in before.items())
    assert {path.name: path.read_bytes() for path in seen(dst)} == undisturbed


@pytest.fixture(scope="module")
def large(tmp_path_factory: Any) -> Any:
    """Two gigabytes with holes: nothing on disk, and a job of seconds."""
    path = tmp_path_factory.mktemp("large") / "large.npy"
    rows = 1 << 15
    write(path, np.zeros((0, 1 << 14), "f4"))
    head = path.read_bytes().replace(f"(0, {1 << 14})".encode(), f"({rows}, {1 << 14})".encode())
    path.write_bytes(head.replace(b" " * (len(str(rows)) - 1) + b"\n", b"\n"))
    os.truncate(path, path.stat().st_size + (rows << 16))
    yield path
    path.unlink()


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("whole_group", [True, False])
@pytest.mark.parametrize("shard", ["32MB", "1GB"])
def test_ctrl_c_ends_it_at_once(large: Path, tmp_path: Path, workers: str, whole_group: bool, shard: str) -> None:
    dst = tmp_path / "dst"
    process = start(["pack", str(large), str(dst), "--shard-size", shard, "--workers", workers])
    try:
        wait_for(lambda: list((dst / JOB_FOLDER / "tmp").glob("*/*")), process)
        time.sleep(0.3)
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        begin = time.monotonic()
        (os.killpg if whole_group else os.kill)(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
        took = time.monotonic() - begin
        # Of the two seconds that are promised; other tests may run beside this one.
        assert took < 4, took
        assert process.returncode == 130, err
        lines = err.strip().splitlines()
        assert [line for line in lines if line.startswith("npyflow: ")] == lines[-1:]
        assert "interrupted" in lines[-1]
        assert "Traceback" not in err
        # What Python itself starts beside workers ends a moment after its leader.
        end = time.monotonic() + 2
        while members(process.pid) and time.monotonic() < end:
            time.sleep(0.01)
        assert not members(process.pid)
        assert not (dst / "_npyflow.json").exists()
        assert not list((dst / JOB_FOLDER / "tmp").glob("*/*")) or workers != "1"
    finally:
        end_session(process)
        shutil.rmtree(dst, ignore_errors=True)


def test_ctrl_c_while_it_forecasts(large: Path, tmp_path: Path, monkeypatch: Any) -> None:
    dst, temporary = tmp_path / "dst", tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    process = start(["pack", str(large), str(dst)])
    try:
        wait_for(lambda: list(temporary.glob("npyflow-trial-*")), process)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130, err
        assert len(err.strip().splitlines()) <= 3
        assert "interrupted" in err.strip().splitlines()[-1]
        assert "Traceback" not in err
        assert not list(temporary.iterdir())
        assert not (dst / "_npyflow.json").exists()
    finally:
        end_session(process)
        shutil.rmtree(dst, ignore_errors=True)
