"""Converted and packed data whose folders, schemas or sources are not what they were: refused, and by name."""

from __future__ import annotations

import builtins
import hashlib
import json
import os
import shutil
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npyflow as nf
from helpers import sample, touch_later, write
from npyflow._cli.main import main
from npyflow._format.schema import JOB_FOLDER, SCHEMA_FILE, parse_schema, parse_shard
from npyflow._jobs.checksums import check_checksums
from npyflow._jobs.convert import format_of
from npyflow._jobs.progress import Silent
from npyflow._jobs.source import open_source
from npyflow._sources.parquet import GroupCache
from npyflow._write.folder import claimed
from npyflow._write.plan import Part
from npyflow._write.task import write_shard as write_task
from stored_support import N, columns_of, cut, identical, values_of, write_shard, write_stored
from test_jobs import content, interrupt

extra = pytest.mark.extra
# Protobuf, which array_record brings, warns about itself.
quiet = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
PACKAGES = {"tfrecord": "google_crc32c", "parquet": "pyarrow", "arrayrecord": "array_record"}
OPENERS: dict[str, Any] = {
    "tfrecord": nf.open_tfrecord,
    "parquet": nf.open_parquet,
    "arrayrecord": nf.open_arrayrecord,
}
# 25 examples of 48 bytes: five shards.
SHARD = 240


def rows_of(path: Path, seed: int = 0) -> nf.Flow:
    return nf.rows(write(path, sample(25, (4, 3), "f4", seed)))


def examples_in(folder: Path) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(one) for one in nf.load(folder)]


def form_of(to: str) -> Any:
    pytest.importorskip(PACKAGES[to])
    return format_of(to, "raw", False, None)


# Sources that changed


@pytest.mark.parametrize("anew", [False, True])
def test_a_source_that_was_packed_anew_is_another_job(tmp_path: Path, monkeypatch: Any, anew: bool) -> None:
    src, dst = tmp_path / "src", tmp_path / "dst"
    nf.pack(rows_of(tmp_path / "x.npy"), src, shard_bytes=2 * SHARD)
    interrupt(monkeypatch, nf.load(src), dst, shard_bytes=SHARD)
    before = content(dst)
    if not anew:
        assert len(nf.pack(nf.load(src), dst, shard_bytes=SHARD)) == 25
        return
    shutil.rmtree(src)
    nf.pack(rows_of(tmp_path / "x.npy", seed=1), src, shard_bytes=2 * SHARD)
    for path in src.glob("*.npy"):
        # Clocks of file systems are coarse.
        touch_later(path)
    with pytest.raises(nf.JobError, match="another job"):
        nf.pack(nf.load(src), dst, shard_bytes=SHARD)
    assert content(dst) == before


# Tasks that outlive their job


class Keeping(Executor):
    """Keeps tasks instead of running them; the last of them fails, and the job with it."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def submit(self, call: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.kept.append(args[0])
        if len(self.kept) == 5:
            future.set_exception(nf.JobError("out of luck"))
        return future


class Meeting(Executor):
    """Runs tasks at once; before and after each, what an earlier job left behind."""

    def __init__(self, left: list[Any]) -> None:
        self.left = left
        self.failed: list[BaseException] = []

    def submit(self, call: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.late()
        future.set_result(call(*args, **kwargs))
        self.late()
        return future

    def late(self) -> None:
        for task in self.left:
            try:
                write_task(task)
            except FileNotFoundError as error:
                self.failed.append(error)


def test_a_task_of_an_earlier_job_writes_nothing_into_a_later_one(tmp_path: Path) -> None:
    dst, executor = tmp_path / "dst", Keeping()
    with pytest.raises(nf.JobError, match="out of luck"):
        nf.pack(rows_of(tmp_path / "a.npy"), dst, shard_bytes=SHARD, executor=executor)
    shutil.rmtree(dst)
    later = Meeting(executor.kept)
    nf.pack(rows_of(tmp_path / "b.npy", seed=1), dst, shard_bytes=SHARD, executor=later)
    assert len(later.failed) == 2 * 5 * 5
    nf.pack(rows_of(tmp_path / "b.npy", seed=1), tmp_path / "whole", shard_bytes=SHARD)
    names = {path.name for path in dst.iterdir()}
    assert names == {path.name for path in (tmp_path / "whole").iterdir()}
    for name in names - {SCHEMA_FILE}:
        assert (dst / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    # After the end too.
    later.late()
    assert len(later.failed) == 2 * 5 * 5 + 5
    assert {path.name for path in dst.iterdir()} == names
    identical(examples_in(dst), list(sample(25, (4, 3), "f4", 1)))


def test_a_task_that_was_writing_when_its_folder_went_does_not_finish(tmp_path: Path, monkeypatch: Any) -> None:
    dst, executor = tmp_path / "dst", Keeping()
    with pytest.raises(nf.JobError, match="out of luck"):
        nf.pack(rows_of(tmp_path / "a.npy"), dst, shard_bytes=SHARD, executor=executor)
    before: list[dict[str, bytes]] = []

    def other_job() -> bool:
        if not before:
            shutil.rmtree(dst)
            interrupt(monkeypatch, rows_of(tmp_path / "b.npy", seed=1), dst, shard_bytes=SHARD)
            before.append(content(dst))
        return False

    with pytest.raises(FileNotFoundError):
        write_task(executor.kept[0], other_job)
    assert [content(dst)] == before


# Names of shards


def test_names_of_shards_sort_as_they_are_numbered() -> None:
    for of in (7, 99_999, 100_000, 123_456, 1_000_000):
        numbers = [0, 1, 9, 10, 99, of // 10, of // 2, 99_998, 99_999, 100_000, of - 1]
        numbers = sorted({number for number in numbers if number < of})
        stems = [Part(number=number, of=of, start=number, stop=number + 1, nbytes=1).stem for number in numbers]
        assert stems == sorted(stems)
        assert len({len(stem) for stem in stems}) == 1
    assert Part(number=3, of=12, start=0, stop=1, nbytes=1).stem == "data-00003-of-00012"
    assert Part(number=3, of=100_000, start=0, stop=1, nbytes=1).stem == "data-000003-of-100000"


def test_long_names_of_shards_are_known_as_shards(tmp_path: Path) -> None:
    # A job that cannot be told from others takes away what it left.
    with claimed(str(tmp_path / "dst"), None):
        (tmp_path / "dst/data-000003-of-100000.npy").write_bytes(b"old")
    with claimed(str(tmp_path / "dst"), None):
        assert os.listdir(tmp_path / "dst") == [JOB_FOLDER]


# Row groups of Parquet in memory


class Slow(GroupCache):
    """A thread that loads ``"slow"`` stops between loading and keeping it."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.loaded, self.go_on = threading.Event(), threading.Event()

    def _settle(self, key: Any, *rest: Any) -> None:
        if key == "slow":
            self.loaded.set()
            assert self.go_on.wait(10)
        super()._settle(key, *rest)


def held(cache: GroupCache) -> int:
    return sum(array.nbytes for slot in cache._slots.values() for array in slot.arrays or ())


@pytest.mark.parametrize("others", [1, 3])
def test_a_cache_counts_what_two_threads_load_at_one_time(others: int) -> None:
    cache = Slow(limit=100)
    got: list[Any] = []
    thread = threading.Thread(target=lambda: got.append(cache.get("slow", lambda: (np.zeros(60, "u1"),))))
    thread.start()
    assert cache.loaded.wait(10)
    for key in range(others):
        cache.get(key, lambda: (np.zeros(90, "u1"),))
        assert held(cache) == cache.held_bytes == 90
    cache.go_on.set()
    thread.join(10)
    assert got[0][0].nbytes == 60
    for key in range(5):
        assert 0 <= held(cache) == cache.held_bytes <= 100
        cache.get((key, "more"), lambda: (np.zeros(30, "u1"),))
    assert held(cache) == cache.held_bytes == 90


# Schemas that say what cannot be


def first(**facts: Any) -> Callable[[Any], None]:
    """Change the first shard."""
    return lambda schema: schema["shards"][0].update(facts)


def column(**facts: Any) -> Callable[[Any], None]:
    return lambda schema: schema["columns"][0].update(facts)


def named(name: str) -> Callable[[Any], None]:
    return first(files=[name])


def more(key: str, value: Any) -> Callable[[Any], None]:
    return lambda schema: schema["shards"][0][key].append(value)


def negative_examples(schema: Any) -> None:
    # In all as many as before.
    schema["shards"][1]["examples"] += schema["shards"][0]["examples"] + 1
    schema["shards"][0]["examples"] = -1


def no_columns(schema: Any) -> None:
    schema |= {"columns": [], "names": [], "structure": {"tuple": []}}


def same_columns(schema: Any) -> None:
    schema["columns"][1]["name"] = schema["columns"][0]["name"]


MUTATIONS: dict[str, Callable[[Any], None]] = {
    "a file more": more("files", "data-x"),
    "a size more": more("sizes", 1),
    "a checksum more": more("sha256", "0" * 64),
    "no sizes": first(sizes=[]),
    "no checksums": first(sha256=[]),
    "a shard without files": first(files=[], sizes=[], sha256=[]),
    "NUL": named("data\0-00000"),
    "empty name": named(""),
    "above": named("../data-00000"),
    "the folder": named("."),
    "absolute": named("/etc/passwd"),
    "below": named("sub/data-00000"),
    "backslash": named("..\\data-00000"),
    "negative examples": negative_examples,
    "too many examples": first(examples=7),
    "negative shape": column(shape=[-1]),
    "negative axis beside one that varies": column(shape=[None, -3]),
    "object": column(dtype="|O"),
    "void": column(dtype="|V4"),
    "fields": column(dtype="f4,i4"),
    "array": column(dtype="(2,)f4"),
    "other byte order": column(dtype=np.dtype("f4").newbyteorder().str),
    "date": column(dtype="<M8[s]"),
    "no such dtype": column(dtype="float33"),
    "no dtype": column(dtype=None),
    "no such unit": column(unit="datetime64[parsec]"),
    "unit that is no date": column(unit="float32"),
    "unit that is no text": column(unit=[1]),
    "no columns": no_columns,
    "two columns of one name": same_columns,
}


@pytest.fixture(scope="module")
def converted(tmp_path_factory: Any) -> Callable[[str], Path]:
    """A data set of each format, written once."""
    folders: dict[str, Path] = {}

    def folder(to: str) -> Path:
        form = form_of(to)
        if to not in folders:
            path = tmp_path_factory.mktemp("converted") / to
            write_stored(path, form, {"x": values_of("f4", (3,)), "y": cut(values_of("i8", (4,)))})
            folders[to] = path
        return folders[to]

    return folder


@extra
@quiet
@pytest.mark.parametrize("to", OPENERS)
def test_the_schemas_that_are_changed_below_are_whole_before(converted: Any, to: str) -> None:
    opened = OPENERS[to](converted(to))
    assert len(opened) == N
    assert list(opened.spec) == ["x", "y"]


@extra
@quiet
@pytest.mark.parametrize("change", MUTATIONS)
@pytest.mark.parametrize("to", OPENERS)
def test_a_schema_that_cannot_be_is_damaged(tmp_path: Path, converted: Any, to: str, change: str) -> None:
    folder = tmp_path / "data"
    shutil.copytree(converted(to), folder)
    path = folder / SCHEMA_FILE
    schema = json.loads(path.read_bytes())
    MUTATIONS[change](schema)
    path.write_text(json.dumps(schema))
    with pytest.raises(nf.FileFormatError, match="damaged") as caught:
        OPENERS[to](folder)
    assert caught.value.path == str(path)
    assert str(path) in str(caught.value)


@extra
@quiet
@pytest.mark.parametrize("to", OPENERS)
@pytest.mark.parametrize("at", [0, 15, 200])
def test_a_schema_that_is_no_text(tmp_path: Path, converted: Any, to: str, at: int) -> None:
    folder = tmp_path / "data"
    shutil.copytree(converted(to), folder)
    path = folder / SCHEMA_FILE
    whole = path.read_bytes()
    path.write_bytes(whole[:at] + b"\xff" + whole[at:])
    for opener in (OPENERS[to], lambda path: open_source(str(path))):
        with pytest.raises(nf.FileFormatError) as caught:
            opener(folder)
        assert caught.value.path == str(path)
        assert str(path) in str(caught.value)


# Checksums


@pytest.mark.parametrize("name", ["../secret", "{outside}", "sub/../../secret", "sub/file", "..", "", "a\0b", "..\\x"])
def test_checksums_are_of_files_in_the_folder_alone(tmp_path: Path, monkeypatch: Any, capsys: Any, name: str) -> None:
    packed, secret = tmp_path / "packed", tmp_path / "secret"
    nf.pack(rows_of(tmp_path / "x.npy"), packed, shard_bytes=SHARD)
    secret.write_bytes(b"secret")
    (packed / "sub").mkdir()
    (packed / "sub/file").write_bytes(b"secret")
    path = packed / SCHEMA_FILE
    facts = json.loads(path.read_bytes())
    facts["shards"][0] |= {
        "files": [name.replace("{outside}", str(secret))],
        "sha256": [hashlib.sha256(b"secret").hexdigest()],
    }
    path.write_text(json.dumps(facts))
    opened: list[str] = []
    original = builtins.open

    def watched(file: Any, *args: Any, **kwargs: Any) -> Any:
        opened.append(os.fspath(file) if isinstance(file, str | os.PathLike) else str(file))
        return original(file, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(builtins, "open", watched)
        findings = check_checksums([str(packed)], Silent())
        assert [one for one in opened if one.startswith(str(tmp_path))] == [str(path)]
        patch.setattr(sys, "argv", ["npyflow", "check", "--checksums", "--json", str(packed)])
        with pytest.raises(SystemExit) as ended:
            main()
    assert not [one for one in opened if "secret" in one or "sub" in one]
    (problem,) = findings.problems
    assert isinstance(problem, nf.FileFormatError)
    assert (problem.kind, problem.path, findings.files) == ("checksum", str(path), 0)
    (shown,) = json.loads(capsys.readouterr().out)["problems"]
    assert (shown["kind"], shown["path"], ended.value.code) == ("checksum", str(path), 1)


def test_checksums_of_several_folders_go_on_after_a_damaged_one(tmp_path: Path) -> None:
    for name in ("one", "two"):
        nf.pack(rows_of(tmp_path / "x.npy"), tmp_path / name, shard_bytes=SHARD)
    (tmp_path / "one" / SCHEMA_FILE).write_text('{"shards": [7]}')
    findings = check_checksums([str(tmp_path / "one"), str(tmp_path / "two")], Silent())
    assert [one.path for one in findings.problems] == [str(tmp_path / "one" / SCHEMA_FILE)]
    assert findings.files == len(list((tmp_path / "two").glob("*.npy")))


# Lists that round


@pytest.mark.parametrize("to", ["tfrecord", "parquet", "arrayrecord", "npy"])
def test_what_keeps_every_value_is_not_lossy(tmp_path: Path, to: Any) -> None:
    with pytest.raises(nf.OptionError, match="lossy=True"):
        nf.convert(rows_of(tmp_path / "x.npy"), tmp_path / "dst", to=to, encoding="raw", lossy=True)
    assert not (tmp_path / "dst").exists()


@extra
@pytest.mark.parametrize("varying", [False, True])
@pytest.mark.parametrize("at", [0, 6, 7, 15, 29, 30, 39])
def test_a_number_that_a_list_cannot_hold_is_named_in_a_late_chunk_too(
    tmp_path: Path, monkeypatch: Any, varying: bool, at: int
) -> None:
    pytest.importorskip("google_crc32c")
    from npyflow._write import tfrecord

    # A few records, where there are 1 MiB of them.
    monkeypatch.setattr(tfrecord, "_CHUNK_BYTES", 400)
    values = sample(40, (3,), "f8")
    values[at, 2] = 1e300
    data = [one[one.size - 1 - number % 3 :] for number, one in enumerate(values)] if varying else values
    form = format_of("tfrecord", "list", True, None)
    with pytest.raises(nf.CastError, match=r"1e\+300 is too large") as caught:
        write_shard(form, tmp_path / "shard", columns_of([data]), [data], chunk=15)
    assert caught.value.index == at


@extra
def test_a_number_that_a_list_cannot_hold_is_named_by_its_place_in_the_flow(tmp_path: Path) -> None:
    pytest.importorskip("google_crc32c")
    values = sample(25, (3,), "f8")
    values[[17, 23], 1] = -1e300
    flow = nf.rows(write(tmp_path / "x.npy", values))[5:]
    with pytest.raises(nf.CastError, match=r"-1e\+300 is too large") as caught:
        nf.convert(flow, tmp_path / "dst", to="tfrecord", encoding="list", lossy=True, shard_bytes=400, workers=1)
    assert caught.value.index == 12


# Manifests


def changed(path: Path, change: Callable[[Any], None]) -> None:
    facts = json.loads(path.read_bytes())
    change(facts)
    path.write_text(json.dumps(facts))


@pytest.mark.parametrize(
    "shapes",
    [
        pytest.param(lambda shapes: [[-one for one in shape] for shape in shapes], id="negative"),
        pytest.param(lambda shapes: [*shapes[:-1], [-1, -shapes[-1][0] * shapes[-1][1]]], id="of the right size"),
        pytest.param(lambda shapes: [shape[0] for shape in shapes], id="one axis"),
        pytest.param(lambda shapes: [shapes], id="three axes"),
        pytest.param(lambda _: 3, id="number"),
        pytest.param(lambda _: [], id="none"),
        pytest.param(lambda shapes: [*shapes[:-1], shapes[-1][:1]], id="of several lengths"),
        pytest.param(lambda shapes: [[2**70, 1], *shapes[1:]], id="huge"),
    ],
)
def test_a_manifest_with_shapes_that_are_none_is_damaged(tmp_path: Path, shapes: Any) -> None:
    for number in range(6):
        write(tmp_path / f"src/{number}.npy", sample(2 + number, (1 + number % 3,), "f4", number))
    nf.pack(nf.files(tmp_path / "src"), tmp_path / "dst")
    path = tmp_path / "dst" / SCHEMA_FILE
    given = json.loads(path.read_bytes())["components"][0]["shapes"]
    assert np.shape(given) == (6, 2)
    changed(path, lambda facts: facts["components"][0].update(shapes=shapes(given)))
    with pytest.raises(nf.FileFormatError, match="damaged manifest") as caught:
        nf.load(tmp_path / "dst")
    assert caught.value.path == str(path)


INDEXED = ["parquet", "arrayrecord"]


def stored(folder: Path, to: str, keys: bool = True) -> nf.Flow:
    """A data set of three shards, opened."""
    values = {"x": values_of("f4", (3,)), "more": (cut(values_of("i8", (4,))), values_of("u1", ()))}
    names = tuple(f"k/{number}" for number in range(N)) if keys else None
    write_stored(folder, form_of(to), values, (0, 3, 7, N), keys=names, classes=("a", "b"))
    flow: nf.Flow = OPENERS[to](folder)
    return flow


def flat(flow: nf.Flow) -> list[Any]:
    return [np.asarray(leaf) for one in flow for leaf in (one["x"], *one["more"])]


def assert_same(got: nf.Flow, want: nf.Flow) -> None:
    assert (len(got), got.spec, got.classes) == (len(want), want.spec, want.classes)
    assert list(got.keys) == list(want.keys)
    identical(flat(got), flat(want))
    drawn, expected = (list(one.batches(3, shuffle=True, seed=5, pad=0)) for one in (got, want))
    for ours, theirs in zip(drawn, expected, strict=True):
        identical([ours["x"], *ours["more"]], [theirs["x"], *theirs["more"]])


@extra
@quiet
@pytest.mark.parametrize("to", INDEXED)
def test_files_that_a_manifest_names_and_that_are_bad_are_named_all(tmp_path: Path, to: str) -> None:
    stored(tmp_path / "data", to).save(tmp_path / "flow.json")
    gone, short, _ = sorted(path for path in (tmp_path / "data").iterdir() if path.name != SCHEMA_FILE)
    gone.unlink()
    with pytest.raises(nf.MissingFileError) as missing:
        nf.load(tmp_path / "flow.json")
    assert missing.value.path == str(gone)
    os.truncate(short, short.stat().st_size - 1)
    with pytest.raises(nf.BadFilesError) as caught:
        nf.load(tmp_path / "flow.json")
    assert [(type(one), one.path) for one in caught.value.problems] == [
        (nf.MissingFileError, str(gone)),
        (nf.FileChangedError, str(short)),
    ]


@extra
@quiet
@pytest.mark.parametrize("to", INDEXED)
def test_a_schema_that_a_manifest_names_and_that_is_damaged_is_named(tmp_path: Path, to: str) -> None:
    stored(tmp_path / "data", to).save(tmp_path / "flow.json")
    schema = tmp_path / "data" / SCHEMA_FILE
    changed(schema, MUTATIONS["negative shape"])
    with pytest.raises(nf.FileFormatError) as caught:
        nf.load(tmp_path / "flow.json")
    assert caught.value.path == str(schema)
    schema.unlink()
    with pytest.raises(nf.MissingFileError) as missing:
        nf.load(tmp_path / "flow.json")
    assert missing.value.path == str(schema)


@extra
@quiet
@pytest.mark.parametrize("leaf", [-1, 3, 1.5, None])
def test_a_manifest_that_names_a_column_that_is_not_there_is_damaged(tmp_path: Path, leaf: Any) -> None:
    path = tmp_path / "flow.json"
    stored(tmp_path / "data", "parquet").save(path)
    changed(path, lambda facts: facts["components"][0]["stored"].update(leaf=leaf))
    with pytest.raises(nf.FileFormatError, match="damaged manifest") as caught:
        nf.load(path)
    assert caught.value.path == str(path)


@extra
@quiet
@pytest.mark.parametrize("keys", [True, False])
@pytest.mark.parametrize("part", [slice(None), slice(2, 9), [10, 0, 3]], ids=["all", "slice", "list"])
@pytest.mark.parametrize("to", INDEXED)
def test_a_flow_of_converted_data_is_saved_and_loaded_and_moves(
    tmp_path: Path, monkeypatch: Any, to: str, part: Any, keys: bool
) -> None:
    whole = stored(tmp_path / "old/data", to, keys)
    flow = whole if part == slice(None) else whole[part]
    want = flat(flow)
    for place in ("old/flow.json", "old/data/flow.json", "elsewhere.json"):
        flow.save(tmp_path / place)
        with nf.load(tmp_path / place) as again:
            assert_same(again, flow)
            again.save(tmp_path / place)
        with nf.load(tmp_path / place) as again:
            assert_same(again, flow)
    whole.close()
    (tmp_path / "old").rename(tmp_path / "new")
    for place in ("new/flow.json", "new/data/flow.json"):
        with nf.load(tmp_path / place) as again:
            identical(flat(again), want)
    monkeypatch.chdir(tmp_path / "new")
    with nf.load("flow.json") as again:
        identical(flat(again), want)
    # It was saved outside of what moved.
    (tmp_path / "new").rename(tmp_path / "other")
    with pytest.raises(nf.MissingFileError) as caught:
        nf.load(tmp_path / "elsewhere.json")
    assert caught.value.path == str(tmp_path / "old/data" / SCHEMA_FILE)


@extra
def test_the_columns_of_a_loaded_flow_share_their_files(tmp_path: Path) -> None:
    stored(tmp_path / "data", "parquet").save(tmp_path / "flow.json")
    with nf.load(tmp_path / "flow.json") as flow:
        first, *rest = (component.stored for component in flow._view.content.components)
        assert rest
        assert all(one.schema is first.schema for one in rest)


@pytest.mark.parametrize(
    "column",
    [
        {"shape": [2**70]},
        {"shape": [2**40, 2**40]},
        {"dtype": "<f4", "unit": "datetime64[s]"},
        {"dtype": "<i8", "unit": "datetime64"},
    ],
)
def test_a_column_that_cannot_be_is_refused(column: dict[str, Any]) -> None:
    shard = {"examples": 1, "files": ["a"], "sizes": [1], "sha256": ["00"], "facts": {}}
    facts = {
        "format": "npyflow dataset",
        "version": 1,
        "to": "parquet",
        "options": {},
        "structure": 0,
        "names": [""],
        "examples": 1,
        "classes": None,
        "shards": [shard],
        "keys": None,
        "columns": [{"name": "x", "dtype": "<f4", "shape": [], "unit": None}],
    }
    assert parse_schema(json.dumps(facts).encode(), "p").examples == 1
    facts["columns"][0] |= column
    with pytest.raises(nf.FileFormatError, match="is damaged"):
        parse_schema(json.dumps(facts).encode(), "p")


def test_a_name_that_no_disk_has_is_refused() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        parse_shard({"examples": 1, "files": ["\ud800"], "sizes": [1], "sha256": ["00"], "facts": {}})
