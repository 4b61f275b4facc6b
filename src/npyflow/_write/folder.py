"""The folder that a job writes to: one job at a time, a journal of what is finished, and no half file in sight.

While a job runs, everything unfinished is in a hidden folder inside. A shard gets its final name when it is whole and
read back, and then a line in the journal, a file of its own: workers on several machines need no lock for that.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import uuid
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from npyflow._core.errors import JobError, NpyflowWarning
from npyflow._core.text import examples, show_path
from npyflow._format.schema import JOB_FOLDER, SCHEMA_FILE, Shard
from npyflow._sources.fileio import write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterator

# From the least to the most.
VERIFY = ("none", "sample", "full")

_LOCK, _JOB, _TEMPORARY = "lock", "job.json", "tmp"
_SHARD = re.compile(r"-\d{5,}-of-\d{5,}\.")


def journal_path(folder: str, number: int) -> Path:
    """Where it is noted that a shard is finished."""
    return Path(folder, JOB_FOLDER, f"{number:05d}.json")


def temporary_folder(folder: str, run: str) -> Path:
    """Where files grow: of each run its own, so that a task that an earlier run left behind cannot finish."""
    return Path(folder, JOB_FOLDER, _TEMPORARY, run)


def note_finished(folder: str, number: int, shard: Shard, verify: str) -> None:
    """Write the journal's line for a shard, and how it was verified."""
    facts = {**asdict(shard), "verify": verify}
    write_atomically(journal_path(folder, number), [json.dumps(facts).encode("ascii")])


def finished_shard(folder: str, number: int, verify: str) -> Shard | None:
    """Return what the journal says of a shard, if its files are as they were written, and as well verified as asked."""
    try:
        facts = json.loads(journal_path(folder, number).read_bytes())
        shard = Shard(
            examples=int(facts["examples"]),
            files=tuple(facts["files"]),
            sizes=tuple(facts["sizes"]),
            sha256=tuple(facts["sha256"]),
            facts=facts["facts"],
        )
        whole = VERIFY.index(facts["verify"]) >= VERIFY.index(verify) and all(
            Path(folder, name).stat().st_size == size for name, size in zip(shard.files, shard.sizes, strict=True)
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return shard if whole else None


@contextlib.contextmanager
def claimed(folder: str, fingerprint: str | None) -> Iterator[str]:
    """Make the folder this job's own while the block runs.

    Parameters
    ----------
    folder : str
        Is made, or is empty, or is what the same job left when it was interrupted.
    fingerprint : str or None
        Of the job: what it reads and how it writes. None for one that cannot be told from others, and begins anew.

    Yields
    ------
    str
        The name of this run, for `temporary_folder`.

    Raises
    ------
    JobError
        If another job is at work there, or the folder holds something else.
    """
    check_target(folder)
    work = Path(folder, JOB_FOLDER)
    try:
        work.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise JobError(
            f"{show_path(folder)} cannot be made: {error.strerror}; name a folder where you may write", path=folder
        ) from None
    with _locked(work / _LOCK, folder):
        # Once more: another job may have finished between the look and the lock.
        check_target(folder)
        _refuse_another(folder, fingerprint)
        _discard_unknown(folder, fingerprint)
        shutil.rmtree(work / _TEMPORARY, ignore_errors=True)
        run = uuid.uuid4().hex
        temporary_folder(folder, run).mkdir(parents=True)
        write_atomically(work / _JOB, [json.dumps({"fingerprint": fingerprint}).encode("ascii")])
        yield run


def clear_away(folder: str) -> None:
    """Remove the hidden folder of a job that is done."""
    shutil.rmtree(Path(folder, JOB_FOLDER), ignore_errors=True)


def check_target(folder: str) -> None:
    """Refuse a target that holds something else than the work of a job.

    Raises
    ------
    JobError
    """
    name = show_path(folder)
    if not os.path.lexists(folder):
        return
    if not os.path.isdir(folder):
        raise JobError(f"{name} is no folder; name a new one, which will be made", path=folder)
    found = sorted(os.listdir(folder))
    if SCHEMA_FILE in found:
        raise JobError(
            f"{name} already holds a data set that npyflow wrote: open it (npyflow.load, open_tfrecord, open_parquet, "
            f"open_arrayrecord), name another folder, or delete this one",
            path=folder,
        )
    if found and JOB_FOLDER not in found:
        raise JobError(
            f"{name} is not empty: it holds {examples(map(show_path, found), 3)}; name a new folder",
            path=folder,
        )


def _refuse_another(folder: str, fingerprint: str | None) -> None:
    """Refuse what another job left."""
    try:
        before = json.loads(Path(folder, JOB_FOLDER, _JOB).read_bytes())["fingerprint"]
    except FileNotFoundError:
        return
    except (ValueError, KeyError, TypeError):
        before = None
    if before != fingerprint:
        raise JobError(
            f"{show_path(folder)} holds the unfinished work of another job, of other files or other options (or the "
            f"files have changed since): give the same arguments to finish that, or delete the folder",
            path=folder,
        )


def _discard_unknown(folder: str, fingerprint: str | None) -> None:
    """Remove what a job left that cannot tell whether it may go on with that."""
    if fingerprint is None:
        for path in Path(folder, JOB_FOLDER).glob("[0-9]*.json"):
            path.unlink()
        for name in os.listdir(folder):
            if _SHARD.search(name):
                os.unlink(os.path.join(folder, name))


@contextlib.contextmanager
def _locked(path: Path, folder: str) -> Iterator[None]:
    """Hold a lock that the system releases when the process ends, however it ends."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0))
    try:
        try:
            _lock(descriptor)
        except (BlockingIOError, PermissionError):
            raise JobError(
                f"{show_path(folder)}: another job is writing there; wait for it, or name another folder", path=folder
            ) from None
        except OSError as error:
            warnings.warn(
                f"{show_path(folder)}: its disk has no locks ({error.strerror}); see that no other job writes there",
                NpyflowWarning,
                stacklevel=2,
            )
        yield
    finally:
        os.close(descriptor)


try:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

except ImportError:  # Windows
    import msvcrt

    def _lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
