"""Whether packed and converted data is still what was written: every file against its checksum."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING

from npyflow._core.errors import FileFormatError, MissingFileError, NpyflowError
from npyflow._core.text import plural, show_path
from npyflow._format.schema import SCHEMA_FILE, parse_shard
from npyflow._jobs.check import Findings
from npyflow._sources.fileio import system_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npyflow._jobs.progress import Progress


def check_checksums(folders: Sequence[str], progress: Progress) -> Findings:
    """Read every file of data sets that npyflow wrote, and compare it with the checksum from when it was written.

    Parameters
    ----------
    folders : sequence of str
        Of the data sets.
    progress : Progress
        Is told how far it is.
    """
    findings = Findings()
    expected: list[tuple[str, str]] = []
    for folder in folders:
        try:
            expected += _expected(folder)
        except NpyflowError as error:
            findings.problems.append(error)
    progress.start(f"reading {plural(len(expected), 'file')}", len(expected))
    for path, sha256 in expected:
        findings.files += 1
        try:
            with open(path, "rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            findings.problems.append(system_error(path, error))
        else:
            if found != sha256:
                findings.problems.append(
                    FileFormatError(
                        f"{show_path(path)} is not what was written: expected SHA-256 {sha256}, found {found}; copy it "
                        f"again from where it is whole, or convert again",
                        path=path,
                        kind="checksum",
                    )
                )
        progress.step()
    return findings


def _expected(folder: str) -> list[tuple[str, str]]:
    """The files of a data set and their checksums."""
    path = os.path.join(folder, SCHEMA_FILE)
    try:
        with open(path, "rb") as file:
            shards = list(map(parse_shard, json.loads(file.read())["shards"]))
        return [
            (os.path.join(folder, name), sha256)
            for shard in shards
            for name, sha256 in zip(shard.files, shard.sha256, strict=True)
        ]
    except OSError:
        raise MissingFileError(
            f"{show_path(folder)}: no {SCHEMA_FILE} in it; --checksums is for folders of `npyflow pack` and `npyflow "
            f"convert`",
            path=folder,
            kind="missing",
        ) from None
    except (AttributeError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise FileFormatError(
            f"{show_path(path)} has no checksums ({type(error).__name__}: {error})", path=path, kind="checksum"
        ) from None
