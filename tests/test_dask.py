"""Jobs on a real Dask cluster of two worker processes: the same bytes as from one process, whoever dies."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npyflow as nf
from helpers import sample, write
from npyflow._format.schema import JOB_FOLDER
from test_cli import run

distributed = pytest.importorskip("distributed")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.alone,
    # Of Dask and Tornado, about their own sockets, and about how long a busy machine takes.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:distributed.*"),
]

PAGE = Path(__file__).parent.parent / "docs" / "scale.md"
PACKAGES = {"npy": "numpy", "tfrecord": "google_crc32c", "parquet": "pyarrow", "arrayrecord": "array_record"}


@pytest.fixture(scope="module")
def cluster() -> Any:
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as running:
        yield running


@pytest.fixture
def client(cluster: Any) -> Any:
    with distributed.Client(cluster) as found:
        found.wait_for_workers(2, timeout=60)
        yield found


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def flow_of(path: Path, count: int = 40) -> nf.Flow:
    for at in range(count):
        write(path / f"{'ab'[at % 2]}/{at}.npy", sample(2 + at % 3, (5,), "f4", at))
    return nf.files(str(path), labels="directory")


@pytest.mark.parametrize("to", list(PACKAGES))
def test_the_bytes_are_those_of_one_process(tmp_path: Path, client: Any, to: Any) -> None:
    pytest.importorskip(PACKAGES[to])
    flow = flow_of(tmp_path / "src")
    how: dict[str, Any] = {"to": to, "shard_bytes": 600}
    convert(flow, tmp_path / "one", workers=1, **how)
    convert(flow, tmp_path / "dask", executor=client.get_executor(pure=False), **how)
    assert len(content(tmp_path / "one")) > 4
    assert content(tmp_path / "dask") == content(tmp_path / "one")


def convert(flow: nf.Flow, dst: Path, **how: Any) -> None:
    """`nf.convert`, but for what it opens in the end, which may need TensorFlow."""
    from npyflow._jobs.convert import convert_flow
    from npyflow._jobs.progress import Silent

    rest = {"encoding": "raw", "lossy": False, "compression": None, "verify": "full", "workers": None, "executor": None}
    assert convert_flow(flow, dst, **{**rest, **how}, progress=Silent())


def test_it_is_what_a_plain_executor_would_be_too(tmp_path: Path, client: Any) -> None:
    # As people write it, without pure=False.
    packed = nf.pack(flow_of(tmp_path / "src"), tmp_path / "dst", shard_bytes=400, executor=client.get_executor())
    assert len(packed) == 40


def test_the_workers_do_the_work(tmp_path: Path, client: Any, monkeypatch: Any) -> None:
    from npyflow._write import task

    def never(*_: Any) -> Any:
        raise AssertionError("the leader wrote a shard")

    monkeypatch.setattr(task, "note_finished", never)
    executor = client.get_executor(pure=False)
    assert len(nf.pack(flow_of(tmp_path / "src"), tmp_path / "dst", shard_bytes=400, executor=executor)) == 40


def test_an_error_of_a_worker_says_what_an_error_here_says(tmp_path: Path, client: Any) -> None:
    from npyflow._jobs.pack import pack_flow
    from npyflow._jobs.progress import Silent

    flow = flow_of(tmp_path / "src")
    path = tmp_path / "src/a/20.npy"

    def damage(_: Any) -> bool:
        path.write_bytes(path.read_bytes()[:-1])
        return True

    how: dict[str, Any] = {"shard_bytes": 400, "verify": "full", "workers": None, "progress": Silent()}
    executor = client.get_executor(pure=False)
    with pytest.raises(nf.FileChangedError, match=r"(?s)20\.npy.*finished and stay") as caught:
        pack_flow(flow, tmp_path / "dst", **how, executor=executor, on_forecast=damage)
    assert caught.value.path == str(path)
    assert not (tmp_path / "dst/_npyflow.json").exists()


@pytest.fixture(scope="module")
def large(tmp_path_factory: Any) -> Any:
    """96 MB, of which a shard of 1 MB takes some milliseconds."""
    path = tmp_path_factory.mktemp("large") / "large.npy"
    write(path, np.arange(96 << 18, dtype="f4").reshape(-1, 1 << 12))
    yield path
    path.unlink()


def test_a_worker_is_killed_in_mid_job_and_the_job_ends_right(
    tmp_path: Path, cluster: Any, client: Any, large: Path
) -> None:
    flow = nf.rows(str(large))
    nf.pack(flow, tmp_path / "one", shard_bytes=1 << 20, workers=1).close()
    workers = client.run(os.getpid)
    found: list[Any] = []

    def job() -> None:
        try:
            found.append(nf.pack(flow, dst, shard_bytes=1 << 20, executor=client.get_executor(pure=False)))
        except BaseException as error:
            found.append(error)

    dst = tmp_path / "dst"
    thread = threading.Thread(target=job)
    thread.start()
    end = time.monotonic() + 60
    while len(list((dst / JOB_FOLDER).glob("0*.json"))) < 3 and time.monotonic() < end:
        time.sleep(0.001)
    os.kill(next(iter(workers.values())), signal.SIGKILL)
    in_the_middle = not (dst / "_npyflow.json").exists()
    thread.join(200)
    assert not thread.is_alive()
    assert in_the_middle
    assert isinstance(found[0], nf.Flow), found[0]
    assert content(dst) == content(tmp_path / "one")
    assert len(json.loads((dst / "_npyflow.json").read_bytes())["shards"]) == 96
    np.testing.assert_array_equal(found[0][12_345 % len(flow)], flow[12_345 % len(flow)])


def test_the_command_with_an_address(tmp_path: Path, cluster: Any) -> None:
    flow_of(tmp_path / "src")
    how = [str(tmp_path / "src"), "--labels", "directory", "--shard-size", "400"]
    done = run("pack", how[0], str(tmp_path / "dask"), *how[1:], "--dask", cluster.scheduler_address)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert run("pack", how[0], str(tmp_path / "one"), *how[1:], "--workers", "1").returncode == 0
    assert content(tmp_path / "dask") == content(tmp_path / "one")


@pytest.mark.parametrize("how", ["Ctrl-C", "kill"])
def test_the_leader_is_stopped_and_another_goes_on(tmp_path: Path, cluster: Any, large: Path, how: str) -> None:
    dst = tmp_path / "dst"
    arguments = ["pack", str(large), str(dst), "--shard-size", "1MiB", "--dask", cluster.scheduler_address]
    process = subprocess.Popen(
        [sys.executable, "-m", "npyflow", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    end = time.monotonic() + 60
    while len(list((dst / JOB_FOLDER).glob("0*.json"))) < 3 and time.monotonic() < end and process.poll() is None:
        time.sleep(0.001)
    os.kill(process.pid, signal.SIGINT if how == "Ctrl-C" else signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert process.returncode == (130 if how == "Ctrl-C" else -signal.SIGKILL), err
    assert not (dst / "_npyflow.json").exists()
    if how == "Ctrl-C":
        assert "Traceback" not in err
        assert [line for line in err.splitlines() if line.startswith("npyflow: ")] == err.splitlines()[-1:]
    # At once: workers may still be at their last task.
    again = run(*arguments)
    assert again.returncode == 0, again.stderr
    nf.pack(nf.rows(str(large)), tmp_path / "one", shard_bytes=1 << 20, workers=1).close()
    assert content(dst) == content(tmp_path / "one")


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nonsense://x", "127.0.0.1:nine"])
def test_an_address_where_nobody_answers_is_a_line(tmp_path: Path, address: str) -> None:
    flow_of(tmp_path / "src", 3)
    done = run("pack", str(tmp_path / "src"), str(tmp_path / "dst"), "--dask", address)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False), done.stderr
    assert done.stderr.strip().splitlines()[-1].startswith(f"npyflow: --dask {address}")
    assert not (tmp_path / "dst").exists()


def killing_task(task: Any, stopped: Any = None) -> Any:
    """Stands for a shard that no worker has memory for."""
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_task_that_kills_every_worker_ends_with_an_error_of_ours(tmp_path: Path, monkeypatch: Any) -> None:
    import cloudpickle

    from npyflow._write import engine

    # Sent by value: the workers cannot import this module.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    monkeypatch.setattr(engine, "write_shard", killing_task)
    flow = flow_of(tmp_path / "src", 4)
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as own,
        distributed.Client(own) as client,
    ):
        with pytest.raises(nf.JobError, match="run the same again"):
            nf.pack(flow, tmp_path / "dst", executor=client.get_executor(pure=False, retries=0))
        assert not (tmp_path / "dst/_npyflow.json").exists()
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def blocks() -> list[tuple[str, str]]:
    return re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    (example,) = [code for kind, code in blocks() if kind == "python" and "LocalCluster(" in code]
    flow_of(tmp_path / "images")
    (tmp_path / "example.py").write_text(example, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "40 examples" in done.stdout
    assert len(nf.load(tmp_path / "packed")) == 40


def test_the_other_examples_of_the_page_are_python_and_use_arguments_that_exist() -> None:
    import inspect

    known = set(inspect.signature(nf.convert).parameters) | set(inspect.signature(nf.pack).parameters)
    for kind, code in blocks():
        if kind == "python":
            compile(code, str(PAGE), "exec")
            for call in re.findall(r"nf\.(?:convert|pack)\((.*)\)\n", code):
                assert set(re.findall(r"(\w+)=", call)) - {"pure"} <= known
