"""The command line, as a user types it: each call is a process."""

import os
import subprocess
import sys

import pytest

import npyflow


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "npyflow", *arguments],
        capture_output=True,
        text=True,
        timeout=280,
        env=os.environ | environment,
        check=False,
    )


def test_version() -> None:
    done = run("--version")
    assert done.returncode == 0
    assert done.stdout.strip() == f"npyflow {npyflow.__version__}"


def test_help_names_the_commands() -> None:
    done = run("--help")
    assert done.returncode == 0
    assert "demo" in done.stdout


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["demo", "--help"]])
def test_help_imports_neither_tensorflow_nor_rich(arguments: list[str]) -> None:
    done = run(*arguments, PYTHONPROFILEIMPORTTIME="1")
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "npyflow" in imported
    assert not imported & {"tensorflow", "keras", "rich", "sklearn"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["dmeo"], "No such command 'dmeo'"),
        (["demo", "--kepe", "x"], "No such option"),
        (["demo", "--keep"], "requires an argument"),
        (["demo", "surplus"], "unexpected extra argument"),
    ],
)
def test_wrong_usage_is_status_2_and_no_traceback(arguments: list[str], said: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_package_is_named_with_the_way_to_get_it(tmp_path: object) -> None:
    blocker = f"{tmp_path}/sklearn.py"
    with open(blocker, "w") as file:
        file.write("raise ModuleNotFoundError(\"No module named 'sklearn'\", name='sklearn')")
    done = run("demo", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert "pip install 'npyflow[demo]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_that_cannot_be_written_is_named(tmp_path: object) -> None:
    with open(f"{tmp_path}/file", "w"):
        pass
    done = run("demo", "--keep", f"{tmp_path}/file/below")
    assert done.returncode == 1
    assert f"{tmp_path}/file" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.tf
@pytest.mark.slow
def test_demo_trains_its_layouts_packs_one_and_keeps_the_files(tmp_path: object) -> None:
    pytest.importorskip("tensorflow")
    pytest.importorskip("sklearn")
    done = run("demo", "--keep", f"{tmp_path}/kept", COLUMNS="100")
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("│") and "%" in line]
    accuracies = [float(line.split("│")[-2].strip().rstrip("%")) for line in rows]
    # A pair, class folders, those packed, and shards.
    assert len(accuracies) == 4
    assert min(accuracies) > 95
    assert "npyflow.measure of the class folders" in done.stdout
    assert "On your own data:" in done.stdout
    assert len(npyflow.load(f"{tmp_path}/kept/packed")) == 1797
    assert len(npyflow.files(f"{tmp_path}/kept/folders", labels="directory")) == 1797
    assert len(npyflow.rows((f"{tmp_path}/kept/pair/x.npy", f"{tmp_path}/kept/pair/y.npy"))) == 1797
