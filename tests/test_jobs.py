"""Jobs one can trust: what they refuse and check, how they go on, and that their bytes depend on the data alone."""

import errno
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import npyflow as nf
from helpers import sample, touch_later, write
from npyflow._cli.main import main
from npyflow._format.schema import JOB_FOLDER
from npyflow._jobs import convert as convert_module
from npyflow._jobs import pack as pack_module
from npyflow._jobs.convert import convert_flow, format_of
from npyflow._jobs.progress import Silent
from npyflow._jobs.stored import stored_flow
from npyflow._write import engine
from npyflow._write.folder import claimed
from npyflow._write.npy import NpyFormat
from test_cli import run

PACKAGES = {"npy": "numpy", "tfrecord": "google_crc32c", "parquet": "pyarrow", "arrayrecord": "array_record"}
FORMATS = [
    ("npy", {}),
    ("tfrecord", {}),
    ("tfrecord", {"compression": "gzip"}),
    ("tfrecord", {"encoding": "list"}),
    ("parquet", {}),
    ("parquet", {"encoding": "list"}),
    ("parquet", {"compression": "none"}),
    ("arrayrecord", {}),
]
formats = pytest.mark.parametrize(
    ("to", "options"),
    [
        pytest.param(to, options, id=" ".join([to, *options.values()]), marks=[pytest.mark.extra] * (to != "npy"))
        for to, options in FORMATS
    ],
)
# 25 examples of 56 bytes: five shards of five.
SHARD = {"npy": 280, "tfrecord": 800, "parquet": 280, "arrayrecord": 1800}


def source(path: Path, count: int = 25, varying: bool = False) -> str:
    for at in range(count):
        write(path / f"{'ab'[at % 2]}/{at}.npy", sample(4 + (at % 3 if varying else 0), (3,), "f4", at))
    return str(path)


def flow_of(tmp_path: Path, **kwargs: Any) -> nf.Flow:
    return nf.files(source(tmp_path / "src", **kwargs), labels="directory")


def convert(flow: nf.Flow, dst: Path, to: str, **options: Any) -> None:
    """`nf.convert`, but for what it opens in the end."""
    pytest.importorskip(PACKAGES[to])
    how = {"encoding": "raw", "lossy": False, "compression": None, "shard_bytes": SHARD[to], "verify": "full"}
    how |= {"workers": None, "executor": None, "progress": Silent()}
    assert convert_flow(flow, dst, **{**how, **options}, to=to)


def content(folder: Path) -> dict[str, bytes]:
    """Every file, hidden ones too."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@contextmanager
def broken_after(monkeypatch: Any, shards: int, error: Any = None) -> Any:
    """Let so many shards be written, and then nothing more."""
    done: list[str] = []
    original = engine.write_shard

    def limited(task: Any, stopped: Any = None) -> Any:
        if len(done) >= shards:
            raise error or nf.JobError("out of luck")
        done.append(task.stem)
        return original(task, stopped)

    with monkeypatch.context() as patch:
        patch.setattr(engine, "write_shard", limited)
        yield done


def interrupt(monkeypatch: Any, flow: nf.Flow, dst: Path, to: str = "npy", shards: int = 2, **options: Any) -> None:
    """Leave an unfinished job."""
    with broken_after(monkeypatch, shards), pytest.raises(nf.JobError, match="out of luck"):
        convert(flow, dst, to, workers=1, **options)
    assert not (dst / "_npyflow.json").exists()


# What a target may be


def test_a_folder_that_holds_something_is_refused_and_left_alone(tmp_path: Path) -> None:
    flow = flow_of(tmp_path)
    (tmp_path / "dst").mkdir()
    (tmp_path / "dst/mine.txt").write_text("mine")
    with pytest.raises(nf.JobError, match=r"not empty.*mine\.txt"):
        nf.pack(flow, tmp_path / "dst")
    assert content(tmp_path / "dst") == {"mine.txt": b"mine"}


def test_a_file_is_no_target(tmp_path: Path) -> None:
    flow = flow_of(tmp_path)
    (tmp_path / "dst").write_text("mine")
    with pytest.raises(nf.JobError, match="no folder"):
        nf.pack(flow, tmp_path / "dst")
    assert (tmp_path / "dst").read_text() == "mine"


@formats
def test_a_finished_data_set_is_never_written_over(tmp_path: Path, to: str, options: dict[str, Any]) -> None:
    flow = flow_of(tmp_path)
    convert(flow, tmp_path / "dst", to, **options)
    before = content(tmp_path / "dst")
    with pytest.raises(nf.JobError, match="already holds a data set"):
        convert(flow, tmp_path / "dst", to, **options)
    assert content(tmp_path / "dst") == before


def test_an_empty_folder_and_missing_parents_are_fine(tmp_path: Path) -> None:
    flow = flow_of(tmp_path)
    (tmp_path / "dst").mkdir()
    assert len(nf.pack(flow, tmp_path / "dst")) == 25
    assert len(nf.pack(flow, tmp_path / "a/b/c")) == 25


def test_a_relative_target_and_a_text(tmp_path: Path, monkeypatch: Any) -> None:
    flow = flow_of(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert len(nf.pack(flow, "dst", shard_bytes=100)) == 25
    assert len(nf.load("dst")) == 25


def test_two_jobs_on_one_target_refuse_each_other(tmp_path: Path) -> None:
    flow = flow_of(tmp_path)
    code = (
        "import sys\n"
        "from npyflow._write.folder import claimed\n"
        "with claimed(sys.argv[1], 'other'):\n"
        "    print('in', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "dst")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "in\n"
        before = content(tmp_path / "dst")
        with pytest.raises(nf.JobError, match="another job is writing"):
            nf.pack(flow, tmp_path / "dst")
        assert content(tmp_path / "dst") == before
        other.communicate("", timeout=60)
    # What is left is of another job, even after its end.
    with pytest.raises(nf.JobError, match="unfinished work of another job"):
        nf.pack(flow, tmp_path / "dst")


def test_two_jobs_of_one_process_refuse_each_other(tmp_path: Path) -> None:
    flow = flow_of(tmp_path)
    refused: list[str] = []

    def meddle(example: Any, rng: Any) -> Any:
        if (tmp_path / "dst" / JOB_FOLDER).exists() and not refused:
            with pytest.raises(nf.JobError, match="another job is writing") as caught:
                nf.pack(flow, tmp_path / "dst")
            refused.append(str(caught.value))
        return example

    packed = nf.pack(flow.map(meddle), tmp_path / "dst", shard_bytes=SHARD["npy"], workers=1)
    assert len(packed) == 25
    assert len(refused) == 1


def test_a_claimed_folder_is_free_again_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), claimed(str(tmp_path / "dst"), "a"):
        raise ZeroDivisionError
    with claimed(str(tmp_path / "dst"), "a"):
        pass


# Options


class Wrong(NamedTuple):
    options: dict[str, Any]
    said: str


@pytest.mark.parametrize(
    ("options", "said"),
    [
        Wrong({"workers": 0}, "workers"),
        Wrong({"workers": 1.5}, "workers"),
        Wrong({"workers": "2"}, "workers"),
        Wrong({"shard_bytes": -1}, "shard_bytes"),
        Wrong({"shard_bytes": 0}, "shard_bytes"),
        Wrong({"shard_bytes": 1e6}, "shard_bytes"),
        Wrong({"verify": "half"}, "verify='half'"),
        Wrong({"verify": True}, "verify"),
        Wrong({"to": "hdf5"}, "to='hdf5'"),
        Wrong({"to": "npy", "encoding": "list"}, "encoding"),
        Wrong({"to": "parquet", "lossy": True}, "lossy"),
        Wrong({"to": "npy", "compression": "gzip"}, "compression"),
        Wrong({"to": "arrayrecord", "compression": "gzip"}, "compression"),
        Wrong({"to": "tfrecord", "compression": "zstd"}, "compression"),
        Wrong({"to": "tfrecord", "encoding": "json"}, "encoding"),
        Wrong({"executor": "two"}, "executor"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_written(
    tmp_path: Path, options: dict[str, Any], said: str
) -> None:
    flow = flow_of(tmp_path)
    with pytest.raises(nf.OptionError, match=said):
        nf.convert(flow, tmp_path / "dst", **{"to": "npy", **options})
    assert not (tmp_path / "dst").exists()


@pytest.mark.parametrize("options", [{"workers": 0}, {"shard_bytes": 0}, {"verify": "half"}])
def test_wrong_options_of_pack(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(nf.OptionError):
        nf.pack(flow_of(tmp_path), tmp_path / "dst", **options)
    assert not (tmp_path / "dst").exists()


def test_a_flow_without_examples_is_refused(tmp_path: Path) -> None:
    with pytest.raises(nf.OptionError, match="no example"):
        nf.pack(flow_of(tmp_path)[:0], tmp_path / "dst")
    assert not (tmp_path / "dst").exists()


@pytest.mark.extra
def test_what_a_list_would_round_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    pytest.importorskip("google_crc32c")
    flow = nf.rows(write(tmp_path / "x.npy", sample(5, (2,), "f8")))
    with pytest.raises(nf.CastError, match="lossy"):
        nf.convert(flow, tmp_path / "dst", to="tfrecord", encoding="list")
    assert not (tmp_path / "dst").exists()


# Forecast


@formats
def test_the_forecast_is_near(tmp_path: Path, to: str, options: dict[str, Any]) -> None:
    pytest.importorskip(PACKAGES[to])
    flow = nf.rows(write(tmp_path / "x.npy", sample(500, (40, 5), "f4")))
    found: list[Any] = []
    # ArrayRecord fills its files up to blocks of 64 KiB.
    most = 10**6 if to == "arrayrecord" else 100_000
    convert(flow, tmp_path / "dst", to, **options, shard_bytes=most, on_forecast=lambda one: not found.append(one))
    written = sum(path.stat().st_size for path in (tmp_path / "dst").iterdir() if path.name != "_npyflow.json")
    (said,) = found
    assert 0.7 <= said.nbytes / written <= 1.3
    assert said.missing_bytes == said.nbytes
    assert said.examples == 500
    assert said.shards == len(json.loads((tmp_path / "dst/_npyflow.json").read_bytes())["shards"])
    assert said.seconds > 0
    assert "500 examples" in str(said)


def test_a_forecast_can_be_all(tmp_path: Path) -> None:
    flow = flow_of(tmp_path)
    how: dict[str, Any] = {"shard_bytes": 240, "verify": "full", "workers": None, "executor": None}
    assert not pack_module.pack_flow(flow, tmp_path / "dst", **how, progress=Silent(), on_forecast=lambda _: False)
    assert not (tmp_path / "dst").exists()


def test_no_room_is_said_before_the_first_byte(tmp_path: Path, monkeypatch: Any) -> None:
    flow = flow_of(tmp_path)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=500))
    with pytest.raises(nf.JobError, match=r"500 B.*free"):
        nf.pack(flow, tmp_path / "dst")
    assert not (tmp_path / "dst").exists()


def test_room_is_needed_only_for_what_is_missing(tmp_path: Path, monkeypatch: Any) -> None:
    flow = flow_of(tmp_path)
    interrupt(monkeypatch, flow, tmp_path / "dst", shards=4)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    convert(flow, tmp_path / "dst", "npy")
    assert len(nf.load(tmp_path / "dst")) == 25


def test_the_trial_leaves_nothing_behind(tmp_path: Path, monkeypatch: Any) -> None:
    import tempfile

    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    flow = flow_of(tmp_path)
    nf.pack(flow, tmp_path / "one")
    (tmp_path / "src/b/13.npy").unlink()
    with pytest.raises(nf.NpyflowError):
        nf.pack(flow, tmp_path / "two")
    assert not list((tmp_path / "temporary").iterdir())


# Verification


class _Altering:
    """A writer whose file is another one by the time it is read back."""

    def __init__(self, writer: Any, path: str, at: float) -> None:
        self._writer, self._path, self._at = writer, path, at
        self.write, self.abandon = writer.write, writer.abandon

    def close(self) -> Any:
        facts = self._writer.close()
        data = np.fromfile(self._path, np.uint8)
        # What is zero may be there to fill a block.
        some = np.flatnonzero(data)
        data[some[int((len(some) - 1) * self._at)]] ^= 0x10
        data.tofile(self._path)
        return facts


def altering(monkeypatch: Any, to: str, at: float, **options: Any) -> None:
    """Make the format `to` write files of which a byte changes, forecasts excepted."""
    kind = type(format_of(to, options.get("encoding", "raw"), False, options.get("compression")) or NpyFormat())
    create = kind.create

    def create_altered(self: Any, paths: Any, columns: Any, examples: int) -> Any:
        writer = create(self, paths, columns, examples)
        return writer if "npyflow-trial-" in paths[0] else _Altering(writer, paths[0], at)

    monkeypatch.setattr(kind, "create", create_altered)


@formats
@pytest.mark.parametrize("at", [0.1, 0.6, 1.0])
def test_a_byte_that_changed_on_the_way_is_noticed(
    tmp_path: Path, monkeypatch: Any, to: str, options: dict[str, Any], at: float
) -> None:
    pytest.importorskip(PACKAGES[to])
    if to == "arrayrecord" and at == 1.0:
        pytest.skip("there its last block has an index, and not all of that is used")
    flow = nf.rows(write(tmp_path / "x.npy", sample(20, (40, 5), "f4")))
    altering(monkeypatch, to, at, **options)
    with pytest.raises(nf.NpyflowError):
        convert(flow, tmp_path / "dst", to, **options, shard_bytes=4000)
    assert not [path for path in (tmp_path / "dst").iterdir() if path.name != JOB_FOLDER]
    assert not list((tmp_path / "dst" / JOB_FOLDER).glob("0*.json"))


def test_what_differs_is_named(tmp_path: Path, monkeypatch: Any) -> None:
    flow = flow_of(tmp_path)
    altering(monkeypatch, "npy", 1.0)
    with pytest.raises(
        nf.JobError, match=r"(?s)data-00000-of-00005 reads back with another .*run the same again"
    ) as error:
        nf.pack(flow, tmp_path / "dst", shard_bytes=300, workers=1)
    assert error.value.path == str(tmp_path / "dst")
    monkeypatch.undo()
    assert len(nf.pack(flow, tmp_path / "dst", shard_bytes=300)) == 25


def test_a_sample_sees_what_is_wrong_all_over_and_none_sees_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    flow = nf.rows(write(tmp_path / "x.npy", sample(20, (40, 5), "f4")))
    altering(monkeypatch, "npy", 1.0)
    with pytest.raises(nf.JobError, match="reads back"):
        nf.pack(flow, tmp_path / "one", verify="sample")
    assert len(nf.pack(flow, tmp_path / "two", verify="none")) == 20


def test_a_file_with_too_few_or_too_many_examples_is_noticed(tmp_path: Path, monkeypatch: Any) -> None:
    flow = nf.rows(write(tmp_path / "x.npy", sample(20, (40, 5), "f4")))
    read = NpyFormat.read
    for change in (-1, 1):

        def wrong(self: Any, paths: Any, columns: Any, facts: Any, counts: Any, change: int = change) -> Any:
            if "npyflow-trial-" in paths[0]:
                yield from read(self, paths, columns, facts, counts)
                return
            chunks = list(read(self, paths, columns, facts, counts))
            yield from chunks + chunks[-1:] if change > 0 else [[one[:-1] for one in chunk] for chunk in chunks]

        monkeypatch.setattr(NpyFormat, "read", wrong)
        with pytest.raises(nf.JobError, match="fewer examples" if change < 0 else "more examples"):
            nf.pack(flow, tmp_path / "dst")
        assert not (tmp_path / "dst/_npyflow.json").exists()


@formats
def test_text_that_is_longer_than_a_function_said_is_never_cut(
    tmp_path: Path, to: str, options: dict[str, Any]
) -> None:
    # Its width is learnt from the first example.
    flow = nf.rows(np.arange(30)).map(lambda x, _: np.array("x" * int(x)))
    try:
        convert(flow, tmp_path / "dst", to, **options)
    except nf.NpyflowError:
        assert not (tmp_path / "dst/_npyflow.json").exists()
        return
    assert [str(one) for one in stored_flow(tmp_path / "dst")] == ["x" * at for at in range(30)]


def test_shards_written_unverified_are_read_back_when_it_is_asked_for_later(tmp_path: Path, monkeypatch: Any) -> None:
    flow = flow_of(tmp_path)
    altering(monkeypatch, "npy", 1.0)
    interrupt(monkeypatch, flow, tmp_path / "dst", shards=3, verify="none")
    monkeypatch.undo()
    try:
        packed = nf.pack(flow, tmp_path / "dst", shard_bytes=SHARD["npy"], verify="full")
    except nf.JobError:
        return
    for got, want in zip(packed, flow, strict=True):
        np.testing.assert_array_equal(got[0], want[0])
        np.testing.assert_array_equal(got[1], want[1])


# Going on


@formats
def test_an_interrupted_job_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: Any, to: str, options: dict[str, Any]
) -> None:
    flow = flow_of(tmp_path)
    convert(flow, tmp_path / "whole", to, **options)
    count = len(json.loads((tmp_path / "whole/_npyflow.json").read_bytes())["shards"])
    assert count > 3
    interrupt(monkeypatch, flow, tmp_path / "dst", to, shards=2, **options)
    finished = {path: path.stat().st_mtime_ns for path in (tmp_path / "dst").iterdir() if path.is_file()}
    assert finished
    with broken_after(monkeypatch, 1000) as done:
        convert(flow, tmp_path / "dst", to, **options)
    assert len(done) == count - 2
    assert all(path.stat().st_mtime_ns == at for path, at in finished.items())
    assert content(tmp_path / "dst") == content(tmp_path / "whole")


def test_a_flow_opened_again_is_the_same_job(tmp_path: Path, monkeypatch: Any) -> None:
    interrupt(monkeypatch, flow_of(tmp_path), tmp_path / "dst")
    again = nf.files(str(tmp_path / "src"), labels="directory")
    with broken_after(monkeypatch, 1000) as done:
        convert(again, tmp_path / "dst", "npy")
    assert len(done) == 3


@pytest.mark.parametrize("damage", ["gone", "short", "journal", "half a journal"])
def test_a_finished_shard_that_is_not_whole_is_written_again(tmp_path: Path, monkeypatch: Any, damage: str) -> None:
    flow = flow_of(tmp_path)
    convert(flow, tmp_path / "whole", "npy")
    interrupt(monkeypatch, flow, tmp_path / "dst", shards=3)
    shard = min((tmp_path / "dst").glob("*.npy"))
    journal = tmp_path / "dst" / JOB_FOLDER / "00000.json"
    if damage == "gone":
        shard.unlink()
    elif damage == "short":
        shard.write_bytes(shard.read_bytes()[:-1])
    elif damage == "journal":
        journal.unlink()
    else:
        journal.write_bytes(journal.read_bytes()[:30])
    with broken_after(monkeypatch, 1000) as done:
        convert(flow, tmp_path / "dst", "npy")
    assert len(done) == 3
    assert content(tmp_path / "dst") == content(tmp_path / "whole")


@pytest.mark.parametrize("change", ["time", "size", "more", "fewer", "shards", "format", "part", "labels", "dtype"])
def test_another_job_does_not_go_on_with_it(tmp_path: Path, monkeypatch: Any, change: str) -> None:
    interrupt(monkeypatch, flow_of(tmp_path), tmp_path / "dst")
    before = content(tmp_path / "dst")
    path, options, how = tmp_path / "src/a/4.npy", {"shard_bytes": SHARD["npy"]}, {"labels": "directory"}
    if change == "time":
        touch_later(path)
    elif change == "size":
        write(path, sample(4, (3,), "f4", 99), align=128)
    elif change == "more":
        write(tmp_path / "src/a/99.npy", sample(4, (3,)))
    elif change == "fewer":
        path.unlink()
    elif change == "labels":
        how = {"labels": lambda key: int(key[0] == "a")}  # type: ignore[dict-item]
    elif change == "dtype":
        how |= {"dtype": "f8"}
    flow = nf.files(str(tmp_path / "src"), **how)
    flow = flow[:24] if change == "part" else flow
    options = {"shard_bytes": 96} if change == "shards" else options
    with pytest.raises(nf.JobError, match="another job"):
        convert(flow, tmp_path / "dst", "tfrecord" if change == "format" else "npy", **options)
    assert content(tmp_path / "dst") == before


@pytest.mark.parametrize("kind", ["arrays", "map"])
def test_what_cannot_be_told_from_others_begins_anew_and_leaves_no_old_shard(
    tmp_path: Path, monkeypatch: Any, kind: str
) -> None:
    flow = nf.rows(sample(25, (12,))) if kind == "arrays" else flow_of(tmp_path).map(lambda example, _: example)
    interrupt(monkeypatch, flow, tmp_path / "dst")
    with broken_after(monkeypatch, 1000) as done:
        convert(flow, tmp_path / "dst", "npy", shard_bytes=2 * SHARD["npy"])
    assert len(done) == len(json.loads((tmp_path / "dst/_npyflow.json").read_bytes())["shards"])
    named = [
        name for one in json.loads((tmp_path / "dst/_npyflow.json").read_bytes())["shards"] for name in one["files"]
    ]
    assert sorted(content(tmp_path / "dst")) == sorted([*named, "_npyflow.json"])


def test_arrays_do_not_take_over_the_work_of_another_job(tmp_path: Path, monkeypatch: Any) -> None:
    interrupt(monkeypatch, flow_of(tmp_path), tmp_path / "dst")
    before = content(tmp_path / "dst")
    with pytest.raises(nf.JobError, match="another job"):
        convert(nf.rows(sample(25, (12,))), tmp_path / "dst", "npy")
    assert content(tmp_path / "dst") == before


def test_a_change_of_a_file_while_the_job_runs_is_an_error(tmp_path: Path, monkeypatch: Any) -> None:
    flow = flow_of(tmp_path)
    original = engine.write_shard

    def meddling(task: Any, stopped: Any = None) -> Any:
        done = original(task, stopped)
        touch_later(tmp_path / "src/b/23.npy")
        return done

    monkeypatch.setattr(engine, "write_shard", meddling)
    with pytest.raises(nf.FileChangedError, match=r"23\.npy"):
        convert(flow, tmp_path / "dst", "npy", workers=1)
    assert not (tmp_path / "dst/_npyflow.json").exists()


def test_a_disk_that_runs_full_is_said_and_the_job_goes_on_later(tmp_path: Path, monkeypatch: Any) -> None:
    flow = flow_of(tmp_path)
    error = OSError(errno.ENOSPC, "No space left on device")
    with (
        broken_after(monkeypatch, 2, error),
        pytest.raises(nf.JobError, match=r"No space left.*2 of 5 shards.*run the same again") as caught,
    ):
        convert(flow, tmp_path / "dst", "npy", workers=1)
    assert caught.value.path == str(tmp_path / "dst")
    with broken_after(monkeypatch, 1000) as done:
        convert(flow, tmp_path / "dst", "npy")
    assert len(done) == 3


# Errors of the source


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_says_which_example_and_how_to_go_on(tmp_path: Path, workers: int) -> None:
    flow = flow_of(tmp_path)
    path = tmp_path / f"src/{flow.keys[17]}.npy"

    def damage(_: Any) -> bool:
        path.write_bytes(path.read_bytes()[:-1])
        return True

    with pytest.raises(nf.FileChangedError, match=r"(?s)of 5 shards .* finished and stay") as caught:
        convert(flow, tmp_path / "dst", "npy", workers=workers, on_forecast=damage)
    assert caught.value.path == str(path)
    assert caught.value.index in (None, 17)
    assert "Traceback" not in str(caught.value)


@pytest.mark.parametrize("kind", ["file", "arrays", "part", "files"])
@pytest.mark.parametrize("row", [37, 750, 999])
def test_a_value_that_does_not_fit_names_its_row(tmp_path: Path, kind: str, row: int) -> None:
    table = np.zeros((1000, 3), "f4")
    table[row, 1] = 0.5
    if kind == "files":
        flow = nf.files([write(tmp_path / f"src/{at}.npy", one) for at, one in enumerate(table)], dtype="u1")
    else:
        flow = nf.rows(table if kind == "arrays" else write(tmp_path / "x.npy", table), dtype="u1")
    flow = flow[10:] if kind == "part" else flow
    with pytest.raises(nf.CastError) as plain:
        list(flow)
    with pytest.raises(nf.CastError) as caught:
        nf.pack(flow, tmp_path / "dst", shard_bytes=300)
    assert caught.value.index == plain.value.index
    assert str(caught.value).startswith(str(plain.value))


def test_a_function_that_fails_is_named(tmp_path: Path) -> None:
    def fail(example: Any, rng: Any) -> Any:
        if example[0] == 13:
            raise ZeroDivisionError("thirteen")
        return example

    flow = nf.rows(np.arange(20, dtype="f4")[:, None]).map(fail, spec=nf.ArraySpec((1,), np.dtype("f4")))
    with pytest.raises(nf.MapError, match="thirteen") as caught:
        nf.pack(flow, tmp_path / "dst", shard_bytes=12)
    assert caught.value.index in (None, 13)
    assert "13" in str(caught.value)


# The same bytes, whoever writes them


@formats
@pytest.mark.parametrize("varying", [False, True])
def test_bytes_depend_on_the_data_alone(tmp_path: Path, to: str, options: dict[str, Any], varying: bool) -> None:
    flow = flow_of(tmp_path, varying=varying)
    convert(flow, tmp_path / "one", to, **options, workers=1)
    want = content(tmp_path / "one")
    assert len(want) > 3
    for verify in ("none", "sample"):
        convert(flow, tmp_path / verify, to, **options, workers=1, verify=verify)
        assert content(tmp_path / verify) == want
    with ThreadPoolExecutor(3) as pool:
        convert(flow, tmp_path / "threads", to, **options, executor=pool)
    assert content(tmp_path / "threads") == want


@pytest.fixture(scope="module")
def processes() -> Any:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


@formats
def test_bytes_from_other_processes(tmp_path: Path, processes: Any, to: str, options: dict[str, Any]) -> None:
    flow = flow_of(tmp_path, varying=True)
    convert(flow, tmp_path / "one", to, **options, workers=1)
    convert(flow, tmp_path / "many", to, **options, executor=processes)
    assert content(tmp_path / "many") == content(tmp_path / "one")


def test_bytes_with_workers_of_our_own(tmp_path: Path) -> None:
    flow = flow_of(tmp_path, varying=True)
    convert(flow, tmp_path / "one", "npy", workers=1)
    convert(flow, tmp_path / "many", "npy", workers=2)
    assert content(tmp_path / "many") == content(tmp_path / "one")


@pytest.mark.parametrize("kind", ["rows", "windows", "part", "packed", "parquet", "arrayrecord", "tfrecord"])
def test_every_flow_travels(tmp_path: Path, processes: Any, kind: str) -> None:
    def converted() -> nf.Flow:
        convert(flow_of(tmp_path, varying=True), tmp_path / kind, kind)
        return stored_flow(tmp_path / kind)

    path = write(tmp_path / "x.npy", sample(60, (3,)))
    flow = {
        "rows": lambda: nf.rows({"x": path, "y": path}),
        "windows": lambda: nf.windows(path, length=4, horizon=2),
        "part": lambda: flow_of(tmp_path)[np.array([3, 1, 20, 7])],
        "packed": lambda: nf.pack(flow_of(tmp_path, varying=True), tmp_path / "packed", shard_bytes=200),
    }.get(kind, converted)()
    convert(flow, tmp_path / "one", "npy", workers=1)
    convert(flow, tmp_path / "many", "npy", executor=processes)
    assert content(tmp_path / "many") == content(tmp_path / "one")


def test_arrays_in_memory_and_functions_do_not_travel(tmp_path: Path, processes: Any) -> None:
    arrays = nf.rows(sample(9, (3,)))
    mapped = flow_of(tmp_path).map(lambda example, _: example)
    for flow in (arrays, mapped):
        with pytest.raises(nf.OptionError, match="executor="):
            nf.pack(flow, tmp_path / "dst", executor=processes)
        assert not (tmp_path / "dst").exists()
        # Threads of our own see them.
        nf.pack(flow, tmp_path / "dst", workers=2, shard_bytes=100).close()
        shutil.rmtree(tmp_path / "dst")


def test_an_executor_that_is_shut_down_is_an_error_and_the_job_goes_on_later(tmp_path: Path) -> None:
    flow = flow_of(tmp_path)
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises((nf.JobError, RuntimeError)):
        nf.pack(flow, tmp_path / "dst", executor=pool, shard_bytes=SHARD["npy"])
    assert len(nf.pack(flow, tmp_path / "dst", shard_bytes=SHARD["npy"])) == 25


# Progress


def test_progress_counts_shards(tmp_path: Path, monkeypatch: Any) -> None:
    class Counter:
        total = steps = 0

        def start(self, what: str, total: int) -> None:
            assert "5 shards" in what
            self.total = total

        def step(self) -> None:
            self.steps += 1

    flow = flow_of(tmp_path)
    counter = Counter()
    convert(flow, tmp_path / "one", "npy", progress=counter)
    assert (counter.total, counter.steps) == (5, 5)
    interrupt(monkeypatch, flow, tmp_path / "two")
    counter = Counter()
    convert(flow, tmp_path / "two", "npy", progress=counter)
    assert (counter.total, counter.steps) == (5, 5)


def test_progress_is_on_standard_error(tmp_path: Path, capfd: Any) -> None:
    flow = flow_of(tmp_path)
    nf.pack(flow, tmp_path / "one")
    assert capfd.readouterr() == ("", "")
    nf.pack(flow, tmp_path / "two", progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "writing 1 shard" in err


def test_defaults(tmp_path: Path) -> None:
    assert pack_module.SHARD_BYTES == 512 << 20
    assert convert_module.PACK_SHARD_BYTES == 512 << 20
    flow = flow_of(tmp_path)
    nf.pack(flow, tmp_path / "one")
    nf.convert(flow, tmp_path / "two", to="npy")
    assert content(tmp_path / "one") == content(tmp_path / "two")


# The command


@pytest.fixture
def here(monkeypatch: Any, capsys: Any) -> Any:
    """The command in this process, which saves a second each."""

    def command(*arguments: str) -> "subprocess.CompletedProcess[str]":
        monkeypatch.setattr(sys, "argv", ["npyflow", *arguments])
        status: Any = 0
        try:
            main()
        except SystemExit as error:
            status = error.code or 0
        return subprocess.CompletedProcess(arguments, status, *capsys.readouterr())

    return command


def test_pack_says_what_it_did(tmp_path: Path) -> None:
    src = source(tmp_path / "src")
    done = run("pack", src, str(tmp_path / "dst"), "--labels", "directory", "--shard-size", "280")
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert "25 examples in 5 shards" in done.stdout
    assert "read back and compared" in done.stdout
    assert f"nf.load({str(tmp_path / 'dst')!r})" in done.stdout
    assert "25 examples" in done.stderr.splitlines()[0]
    assert nf.load(tmp_path / "dst").classes == ("a", "b")
    again = run("pack", src, str(tmp_path / "dst"), "--labels", "directory")
    assert again.returncode == 1
    assert again.stderr.strip().splitlines()[-1].startswith("npyflow: ")
    assert "already holds a data set" in again.stderr


@formats
def test_convert_says_what_it_did(tmp_path: Path, here: Any, to: str, options: dict[str, Any]) -> None:
    pytest.importorskip(PACKAGES[to])
    flags = [part for name, value in options.items() for part in (f"--{name}", value)]
    done = here("convert", source(tmp_path / "src"), str(tmp_path / "dst"), "--to", to, *flags)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert "25 examples in 1 shard" in done.stdout
    assert ("nf.load(" if to == "npy" else f"nf.open_{to}(") in done.stdout
    assert ("parse" in done.stdout) == (to == "tfrecord")
    back = here("convert", str(tmp_path / "dst"), str(tmp_path / "back"), "--to", "npy")
    assert (back.returncode, "Traceback" in back.stderr) == (0, False), back.stderr
    for got, want in zip(nf.load(tmp_path / "back"), nf.files(str(tmp_path / "src")), strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_dry_run_writes_nothing(tmp_path: Path, here: Any) -> None:
    src = source(tmp_path / "src")
    done = here("pack", src, str(tmp_path / "dst"), "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "25 examples in 1 shard" in done.stdout
    assert "free" in done.stdout
    assert not (tmp_path / "dst").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["pack"], "Missing argument 'SRC'"),
        (["pack", "src"], "Missing argument 'DST'"),
        (["pack", "src", "dst", "surplus"], "unexpected extra argument"),
        (["pack", "src", "dst", "--to", "npy"], "No such option"),
        (["pack", "src", "dst", "--workers", "0"], "--workers"),
        (["pack", "src", "dst", "--workers", "two"], "--workers"),
        (["pack", "src", "dst", "--shard-size", "large"], "--shard-size"),
        (["pack", "src", "dst", "--shard-size", "-5"], "--shard-size"),
        (["pack", "src", "dst", "--verify", "half"], "--verify"),
        (["pack", "src", "dst", "--labels", "key"], "--labels"),
        (["convert", "src", "dst"], "--to"),
        (["convert", "src", "dst", "--to", "hdf5"], "hdf5"),
        (["convert", "src", "dst", "--to", "arrayrecord", "--encoding", "list"], "encoding"),
        (["convert", "src", "dst", "--to", "npy", "--compression", "gzip"], "compression"),
        (["convert", "src", "dst", "--to", "tfrecord", "--compression", "zip"], "compression"),
        (["pack", "src", "src"], "lies in"),
        (["pack", "src", "src/below/dst"], "lies in"),
        (["pack", "src/a/../../src", "src/dst"], "lies in"),
        (["pack", "src/**/*.npy", "src/a/dst"], "lies in"),
        (["pack", "table.npy", "dst", "--labels", "directory"], "--labels"),
    ],
)
def test_wrong_usage_is_status_2(tmp_path: Path, here: Any, monkeypatch: Any, arguments: list[str], said: str) -> None:
    source(tmp_path / "src", 3)
    write(tmp_path / "table.npy", sample(5, (2,)))
    before = content(tmp_path)
    monkeypatch.chdir(tmp_path)
    done = here(*arguments)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    assert said in done.stderr
    assert content(tmp_path) == before


@pytest.mark.parametrize("arguments", [["nowhere", "dst"], ["src", "table.npy"], ["src", "table.npy/below"]])
def test_problems_are_status_1_and_a_line(tmp_path: Path, here: Any, monkeypatch: Any, arguments: list[str]) -> None:
    source(tmp_path / "src", 3)
    write(tmp_path / "table.npy", sample(5, (2,)))
    monkeypatch.chdir(tmp_path)
    done = here("pack", *arguments)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False), done.stderr
    assert done.stderr.strip().splitlines()[-1].startswith("npyflow: ")
    assert not (tmp_path / "dst").exists()


def test_a_symbolic_link_does_not_hide_that_the_target_is_inside(tmp_path: Path, here: Any) -> None:
    source(tmp_path / "src", 3)
    os.symlink(tmp_path / "src", tmp_path / "link")
    done = here("pack", str(tmp_path / "link"), str(tmp_path / "src/dst"))
    assert done.returncode == 2
    assert "lies in" in done.stderr


def test_a_table_and_a_manifest_are_sources(tmp_path: Path, here: Any) -> None:
    write(tmp_path / "table.npy", sample(5, (2,)))
    assert here("pack", str(tmp_path / "table.npy"), str(tmp_path / "one")).returncode == 0
    assert len(nf.load(tmp_path / "one")) == 5
    flow_of(tmp_path).split(0.5)[0].save(tmp_path / "part.json")
    assert here("pack", str(tmp_path / "part.json"), str(tmp_path / "two")).returncode == 0
    assert list(nf.load(tmp_path / "two").keys) == list(nf.load(tmp_path / "part.json").keys)


@pytest.mark.parametrize("command", ["pack", "convert"])
def test_help_imports_nothing_heavy(command: str) -> None:
    done = run(command, "--help", PYTHONPROFILEIMPORTTIME="1")
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert done.returncode == 0
    assert "npyflow" in imported
    assert not imported & {"tensorflow", "rich", "pyarrow", "distributed", "array_record"}
