"""What a job will take, before its first byte: from a trial with a few examples."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from npyflow._core.errors import JobError, NpyflowError
from npyflow._core.text import human_bytes, plural, show_path
from npyflow._write.folder import finished_shard
from npyflow._write.task import write_trial

if TYPE_CHECKING:
    from npyflow._write.engine import Job

_TRIED = 64
_TRIED_BYTES = 8 << 20
# An example is not tried above this, and one that is as large as all that would be is no measure.
_TOO_LARGE_BYTES = 64 << 20
_BYTES_PER_SECOND = 300e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What is expected of a job.

    Parameters
    ----------
    examples, shards : int
        In all.
    nbytes : int
        That will be on disk in the end.
    missing_bytes : int
        That are not there yet: less than all where an interrupted job is gone on with.
    seconds : float
        For what is missing.
    free_bytes : int
        On the disk of the target.
    """

    examples: int
    shards: int
    nbytes: int
    missing_bytes: int
    seconds: float
    free_bytes: int

    def __str__(self) -> str:
        there = self.nbytes - self.missing_bytes
        some = f" ({human_bytes(there)} of it are there)" if there else ""
        return (
            f"{plural(self.examples, 'example')} in {plural(self.shards, 'shard')}, about {human_bytes(self.nbytes)}"
            f"{some}, about {_span(self.seconds)}; {human_bytes(self.free_bytes)} free"
        )


def forecast(job: Job, workers: int) -> Forecast:
    """Try a few examples, and tell from them what all will take.

    Parameters
    ----------
    workers : int
        That will share the work.
    """
    estimate = sum(part.nbytes for part in job.parts)
    there = sum(
        sum(shard.sizes)
        for part in job.parts
        if (shard := finished_shard(job.folder, part.number, job.verify)) is not None
    )
    examples = sum(part.examples for part in job.parts)
    tried = max(1, min(_TRIED, examples, _TRIED_BYTES * examples // max(1, estimate)))
    # What one costs is mostly what beginning costs, and that is counted once.
    start, size = (0.0, 0) if estimate > examples * _TOO_LARGE_BYTES else _trial(job, 1)
    if tried > 1:
        seconds, size = _trial(job, tried)
        each = max(0.0, seconds - start) / (tried - 1)
    else:
        each = estimate / examples / _BYTES_PER_SECOND
    # What the format adds to each file counts for more in a small trial; only compression makes it less.
    share = min(1.0, size / tried * examples / max(1, estimate)) if size else 1.0
    whole = max(1, round(estimate * share))
    missing = max(0, whole - there)
    return Forecast(
        examples=examples,
        shards=len(job.parts),
        nbytes=whole,
        missing_bytes=missing,
        seconds=start + each * examples * missing / whole / max(1, min(workers, len(job.parts))),
        free_bytes=shutil.disk_usage(_existing(job.folder)).free,
    )


def _trial(job: Job, count: int) -> tuple[float, int]:
    """Write and read back examples from all over; return how long that took, and how many bytes they are."""
    some = np.linspace(0, len(job.view) - 1, count).astype(np.int64)
    task = replace(job.task(job.parts[0]), content=job.view.content, selection=job.view.part(some).selection)
    with tempfile.TemporaryDirectory(prefix="npyflow-trial-") as folder:
        start = time.perf_counter()
        try:
            size = write_trial(task, folder)
        except NpyflowError as error:
            error.index = None if error.index is None else int(some[error.index])
            raise
        return time.perf_counter() - start, size


def check_room(found: Forecast, folder: str) -> None:
    """Refuse a job that the disk has no room for.

    Raises
    ------
    JobError
    """
    if found.missing_bytes > found.free_bytes:
        raise JobError(
            f"{show_path(folder)}: about {human_bytes(found.missing_bytes)} are to be written, and its disk has "
            f"{human_bytes(found.free_bytes)} free; make room, or name a folder on another disk",
            path=folder,
        )


def _existing(folder: str) -> str:
    while not os.path.exists(folder):
        folder = os.path.dirname(folder)
    return folder


def _span(seconds: float) -> str:
    if seconds < 1.5:
        return "a second"
    for limit, size, unit in ((90, 1, "seconds"), (5400, 60, "minutes")):
        if seconds < limit:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 3600:.1f} hours"
