"""One shard: write it, read it back, give it its name. This is what runs on a worker."""

from __future__ import annotations

import contextlib
import hashlib
import os
import uuid
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from npyflow._core.errors import JobError
from npyflow._core.text import show_path
from npyflow._flow.view import View
from npyflow._format.schema import Shard
from npyflow._write.folder import note_finished, temporary_folder
from npyflow._write.supply import chunk_counts, element_counts, read_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from npyflow._flow.content import Content
    from npyflow._format.schema import Column
    from npyflow._write.base import Columns, Format

Array = np.ndarray[Any, Any]

Verify = Literal["none", "sample", "full"]
# Of the chunks of a shard, one in so many.
_SAMPLED = 16


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Task:
    """A shard to write. It can be pickled; all that it needs is in it and in files.

    Parameters
    ----------
    content : Content
        The data set, or what of it the shard needs.
    selection : int64 array, range or None
        Which examples.
    columns : tuple of Column
        What they have.
    format : Format
        How they are kept.
    folder : str
        The target, absolute.
    number : int
        Of the shard.
    first : int
        What number its first example has in the flow.
    stem : str
        What its files are called.
    verify : str
        ``"full"`` compares all that was written with the source, ``"sample"`` a part.
    run : str
        For which run of the job, as `claimed` calls it; empty for a trial.
    """

    content: Content
    selection: Array | range | None
    columns: tuple[Column, ...]
    format: Format
    folder: str
    number: int
    first: int
    stem: str
    verify: Verify
    run: str


def write_shard(task: Task, stopped: Callable[[], bool] | None = None) -> tuple[int, Shard]:
    """Write a shard, and return its number and what it is.

    The same task writes the same bytes, wherever and however often it runs.

    Parameters
    ----------
    task : Task
        What to write.
    stopped : callable, optional
        Says that nobody waits for it any more.

    Raises
    ------
    NpyflowError
        If the source cannot be read, or what was written reads back differently.
    """
    view = View(content=task.content, selection=task.selection, examples=task.content.open())
    names = task.format.files(task.stem, task.columns)
    # Not shared with another try at the same shard, whose worker may only seem to be dead.
    token = f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
    paths = [str(temporary_folder(task.folder, task.run) / f"{token}-{name}") for name in names]
    try:
        facts = _written(task, view, paths, stopped or _never)
        shard = Shard(
            examples=len(view),
            files=tuple(names),
            sizes=tuple(os.path.getsize(path) for path in paths),
            sha256=tuple(map(_sha256, paths)),
            facts=facts,
        )
        for path, name in zip(paths, names, strict=True):
            os.replace(path, os.path.join(task.folder, name))
    finally:
        view.examples.sources.close()
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
    note_finished(task.folder, task.number, shard, task.verify)
    return task.number, shard


def _never() -> bool:
    return False


def _check_wanted(stopped: Callable[[], bool]) -> None:
    if stopped():
        raise JobError("the job was stopped before this shard was finished")


def write_trial(task: Task, folder: str) -> int:
    """Write and read back the examples of a task to files in `folder`, and return how many bytes they have."""
    view = View(content=task.content, selection=task.selection, examples=task.content.open())
    try:
        paths = [os.path.join(folder, name) for name in task.format.files(task.stem, task.columns)]
        _written(task, view, paths, _never)
    finally:
        view.examples.sources.close()
    return sum(map(os.path.getsize, paths))


def _written(task: Task, view: View, paths: Sequence[str], stopped: Callable[[], bool]) -> dict[str, Any]:
    counts = chunk_counts(_example_bytes(task.columns, view))
    checked = {"none": 0, "sample": _SAMPLED, "full": 1}[task.verify]
    sums: list[list[int] | None] = []
    writer = task.format.create(paths, task.columns, len(view))
    try:
        for number, columns in enumerate(read_columns(view, task.columns, counts, task.first)):
            _check_wanted(stopped)
            writer.write(columns)
            sums.append(_sums(task, columns) if checked and number % checked == 0 else None)
            # Before the next read, so that it can have the same memory.
            del columns
        facts = writer.close()
    except BaseException:
        writer.abandon()
        raise
    if checked:
        _verify(task, view, counts, sums, task.format.read(paths, task.columns, facts, counts), stopped)
    return facts


def _example_bytes(columns: Sequence[Column], view: View) -> Array:
    each = element_counts(view)
    total = np.zeros(len(view), np.int64)
    for column, elements in zip(columns, each, strict=True):
        total += elements * column.spec.dtype.itemsize
    return total


def _verify(
    task: Task,
    view: View,
    counts: Sequence[int],
    sums: Sequence[list[int] | None],
    written: Iterator[Columns],
    stopped: Callable[[], bool],
) -> None:
    """Read a shard back, and compare it with what was read from the source, by checksums of each chunk."""
    start = 0
    for count, expected in zip(counts, sums, strict=True):
        _check_wanted(stopped)
        found = next(written, None)
        if found is None or any(len(values) != count for values in found):
            raise _differs(task, f"fewer examples than the {len(view):,}", start)
        if expected is not None:
            for column, ours, theirs in zip(task.columns, expected, _sums(task, found), strict=True):
                if ours != theirs:
                    last = view.name(start + count - 1)
                    raise _differs(task, f"another {column.name} somewhere from {view.name(start)} to {last}", start)
        start += count
    if next(written, None) is not None:
        raise _differs(task, f"more examples than the {len(view):,}", len(view) - 1)


def _differs(task: Task, what: str, index: int) -> JobError:
    return JobError(
        f"{show_path(task.folder)}: {task.stem} reads back with {what}, compared with what was written; nothing was "
        f"kept of this shard: look whether memory and disk are sound",
        path=task.folder,
        index=index,
    )


def _sums(task: Task, values: Columns) -> list[int]:
    """A checksum of each column: of the shapes and the bits of its values."""
    sums = []
    for column, each in zip(task.columns, values, strict=True):
        # As wide as the column is: text may be narrower where the widest is elsewhere.
        dtype = column.spec.dtype if column.spec.dtype.kind in "US" else None
        total = 0
        for array in each if isinstance(each, list) else [each]:
            plain = np.ascontiguousarray(task.format.as_read(column, array), dtype)
            total = zlib.crc32(repr(array.shape).encode("ascii"), total)
            total = zlib.crc32(plain.reshape(-1).view(np.uint8).data, total) if plain.nbytes else total
        sums.append(total)
    return sums


def _sha256(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
