"""A folder of converted data: its schema, and that its files are all there."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from npyflow._core.errors import BadFilesError, FileChangedError, FileError, FileFormatError, MissingFileError
from npyflow._core.text import examples, plural, show_path
from npyflow._format.schema import SCHEMA_FILE, parse_schema
from npyflow._sources.fileio import system_error

if TYPE_CHECKING:
    from npyflow._core.spec import ArraySpec
    from npyflow._format.schema import Schema


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """One column of a converted data set, as plain data.

    Parameters
    ----------
    path : str
        The folder, absolute.
    schema : Schema
        As `load_stored` returns it; all columns of a data set hold the same one.
    leaf : int
        Which of the columns.
    """

    path: str
    schema: Schema
    leaf: int

    @property
    def spec(self) -> ArraySpec:
        """Shape and dtype of one example."""
        return self.schema.columns[self.leaf].spec

    def file(self, shard: int, at: int = 0) -> str:
        """The path of a file of a shard."""
        return os.path.join(self.path, self.schema.shards[shard].files[at])


def load_stored(folder: str | os.PathLike[str], to: str | None = None) -> Schema:
    """Read the schema of a converted data set and see that every file is there and as long as it was.

    Parameters
    ----------
    folder : path
        Of the data set.
    to : str, optional
        The format that it must have.

    Raises
    ------
    MissingFileError
        If there is no folder, no schema in it, or a file is gone.
    FileFormatError
        If the schema is damaged, or of another format.
    FileChangedError
        If a file has another size.
    BadFilesError
        If several files are gone or have another size.
    """
    root = os.path.abspath(os.fspath(folder))
    schema = _read_schema(root)
    if to is not None and schema.to != to:
        raise FileFormatError(
            f"{show_path(root)} is {schema.to}, expected {to}; open it with npyflow.open_{schema.to}",
            path=os.path.join(root, SCHEMA_FILE),
        )
    problems = _problems(root, schema)
    if len(problems) == 1:
        raise problems[0]
    if problems:
        files = sum(len(shard.files) for shard in schema.shards)
        raise BadFilesError(
            f"{show_path(root)}: {plural(len(problems), 'file')} of {files:,} cannot be used: {examples(problems, 3)}",
            problems=problems,
        )
    return schema


def _read_schema(root: str) -> Schema:
    path = os.path.join(root, SCHEMA_FILE)
    try:
        with open(path, "rb") as file:
            content = file.read()
    except (FileNotFoundError, NotADirectoryError):
        raise MissingFileError(_no_schema(root), path=path) from None
    except OSError as error:
        raise system_error(path, error) from None
    return parse_schema(content, path)


def _no_schema(root: str) -> str:
    if not os.path.isdir(root):
        what = "a file; expected the folder of a converted data set" if os.path.exists(root) else "no such folder"
        return f"{show_path(root)}: {what}"
    return (
        f"{show_path(root)}: no {SCHEMA_FILE} in it, so it is no finished data set of `npyflow convert`; if a "
        f"conversion was interrupted run it again, and read what other programs wrote with their own tools"
    )


def _problems(root: str, schema: Schema) -> list[FileError]:
    found: list[FileError] = []
    for shard in schema.shards:
        for name, size in zip(shard.files, shard.sizes, strict=True):
            path = os.path.join(root, name)
            try:
                facts = os.stat(path)
            except OSError as error:
                found.append(system_error(path, error))
                continue
            if not stat.S_ISREG(facts.st_mode):
                found.append(FileFormatError(f"{show_path(path)} is no regular file", path=path))
            elif facts.st_size != size:
                found.append(
                    FileChangedError(
                        f"{show_path(path)} has {facts.st_size:,} bytes, expected {size:,}; copy it or convert again",
                        path=path,
                    )
                )
    return found


def damaged(path: str, what: str, record: int | None = None, index: int | None = None) -> FileFormatError:
    """The error for a file of converted data, or for one record of it, that is not as it was written."""
    where = show_path(path) if record is None else f"{show_path(path)} record {record}"
    return FileFormatError(
        f"{where}: {what}; copy the file again, or convert again",
        path=path,
        index=record if index is None else index,
        kind="damaged",
    )
