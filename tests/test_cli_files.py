"""``npyflow check`` and ``npyflow inspect`` as a user types them: each call is a process."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from helpers import header, npy_bytes, write, write_npz
from test_cli import run

ODD_NAME = os.fsdecode(b"caf\xe9\n\x1b[31m.npy")


def test_clean_is_status_0(tmp_path):
    write(tmp_path / "x.npy", np.zeros((2, 3), "f4"))
    for arguments in (["check"], ["check", "--finite"], ["check", "--json"], ["inspect"]):
        done = run(*arguments, str(tmp_path))
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    done = run("check", str(tmp_path))
    assert done.stdout == "1 file, 1 array: no problem\n"


def test_problems_are_status_1_in_a_table_and_as_json(tmp_path):
    write(tmp_path / "good.npy", np.zeros(3))
    (tmp_path / ODD_NAME).write_bytes(b"")
    (tmp_path / "page.npy").write_bytes(b"<html>")
    write_npz(tmp_path / "a.npz", x=b"\x93NUMPY\x01\x00")
    done = run("check", str(tmp_path))
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert len(lines) == 5
    assert lines[0].split() == ["PROBLEM", "WHAT"]
    assert {line.split()[0] for line in lines[1:4]} == {"empty", "html", "truncated-header"}
    assert r"caf\udce9\n\x1b[31m.npy" in done.stdout
    assert "\x1b" not in done.stdout
    assert lines[4].startswith("4 files, 1 array: 3 problems (")
    done = run("check", "--json", str(tmp_path))
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert (document["files"], document["arrays"]) == (4, 1)
    found = {problem["kind"]: problem for problem in document["problems"]}
    assert found["empty"]["path"] == str(tmp_path / ODD_NAME)
    assert found["truncated-header"]["member"] == "x"
    assert found["html"]["message"].endswith("not to the file")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["check"], "Missing argument 'PATH...'"),
        (["inspect"], "Missing argument 'PATH...'"),
        (["check", "--finit", "x"], "--finite"),
        (["check", "--pairs", "x"], "--pairs needs two PATHs"),
        (["inspect", "--json", "x"], "No such option"),
        (["check", "--pattern", "{key}{key}", "."], "{key} more than once"),
    ],
)
def test_wrong_usage_is_status_2(arguments, said):
    done = run(*arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stdout == ""


def test_a_path_that_is_not_there_is_a_problem(tmp_path):
    write(tmp_path / "x.npy", np.zeros(3))
    for command in ("check", "inspect"):
        done = run(command, str(tmp_path / "none"), str(tmp_path))
        assert done.returncode == 1
        assert "no such file or folder" in done.stdout
        assert "Traceback" not in done.stderr


def test_inspect_shows_a_row_a_file_and_a_census_of_a_folder(tmp_path):
    path = write(tmp_path / "x.npy", np.zeros((2, 3), ">f4"), version=(2, 0))
    archive = write_npz(tmp_path / "y.npz", True, a=np.zeros(5, "i2"), b=np.zeros(()))
    done = run("inspect", path, archive)
    assert done.returncode == 0
    head, *rows = [line.split() for line in done.stdout.splitlines()]
    assert head[:4] == ["FILE", "SHAPE", "DTYPE", "ORDER"]
    assert rows[0] == [path, "(2,", "3)", "float32,", "swapped", "C", "2.0", "152", "B"]
    assert rows[1][:4] == [f"{archive}[a]", "(5,)", "int16", "C"]
    assert rows[2][:4] == [f"{archive}[b]", "()", "float64", "C"]
    assert rows[2][-1] == "deflated"
    done = run("inspect", str(tmp_path))
    assert "2 files, 3 arrays" in done.stdout
    assert "widest static shape: (2, 3)" in done.stdout
    (tmp_path / "z.npy").write_bytes(b"\x89HDF\r\n\x1a\n")
    done = run("inspect", str(tmp_path))
    assert done.returncode == 1
    assert "is an HDF5 file" in done.stdout


def test_neither_imports_tensorflow_or_rich(tmp_path):
    path = write(tmp_path / "x.npy", np.zeros(3))
    for arguments in (["check", "--finite", path], ["inspect", path]):
        done = run(*arguments, PYTHONPROFILEIMPORTTIME="1")
        imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
        assert "npyflow" in imported
        assert not imported & {"tensorflow", "keras", "rich", "sklearn", "ml_dtypes", "zipfile"}


def many_files(folder, count: int) -> None:
    folder.mkdir()
    data = npy_bytes(np.zeros(2, "f4"))
    for number in range(count):
        with open(folder / f"{number}.npy", "wb") as file:
            file.write(data)


def in_a_terminal(arguments: list[str], interrupt: bool = False) -> tuple[int, str]:
    """Run a command whose output is a terminal; return its status and all that it drew."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "npyflow", *arguments]
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=os.environ | {"COLUMNS": "100"})
    os.close(theirs)
    drawn = b""
    sent = False
    end = time.monotonic() + 120
    while time.monotonic() < end:
        try:
            more = os.read(ours, 4096)
        except OSError:
            break
        if not more:
            break
        drawn += more
        if interrupt and not sent and b"reading" in drawn:
            process.send_signal(signal.SIGINT)
            sent = True
    os.close(ours)
    return process.wait(60), drawn.decode(errors="replace")


def test_a_terminal_gets_a_progress_bar(tmp_path):
    many_files(tmp_path / "d", 300)
    status, drawn = in_a_terminal(["check", str(tmp_path / "d")])
    assert status == 0
    assert "checking 300 files" in drawn
    assert "300/300" in drawn
    assert "300 files, 300 arrays: no problem" in drawn


def test_ctrl_c_ends_with_a_line(tmp_path):
    # Sparse: takes long to read and no room.
    for number in range(3):
        head = header("<f4", False, (1 << 20, 1024))
        (tmp_path / f"{number}.npy").write_bytes(head)
        os.truncate(tmp_path / f"{number}.npy", len(head) + (4 << 30))
    status, drawn = in_a_terminal(["check", "--finite", str(tmp_path)], interrupt=True)
    assert status == 130
    assert "npyflow: interrupted" in drawn
    assert "Traceback" not in drawn


@pytest.mark.slow
def test_a_hundred_thousand_files(tmp_path):
    many_files(tmp_path / "d", 100_000)
    for command, said in (("check", "100,000 arrays: no problem"), ("inspect", "100,000 files, 100,000 arrays")):
        done = run(command, str(tmp_path / "d"))
        assert done.returncode == 0
        assert said in done.stdout


def test_a_reader_that_has_seen_enough(tmp_path):
    for number in range(2000):
        (tmp_path / f"{number}.npy").write_bytes(b"")
    command = f"{sys.executable} -m npyflow check {tmp_path} | head -n 2"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120, check=False)
    assert len(done.stdout.splitlines()) == 2
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr
