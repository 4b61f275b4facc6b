"""ArrayRecord files, through the package array-record, with errors that say which file it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npyflow._core.errors import MissingDependencyError
from npyflow._core.text import plural
from npyflow._sources.stored import damaged

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# For reads by position: no thread that runs ahead.
_OPTIONS = "readahead_buffer_size:0"


def array_record_module() -> Any:
    """Return the module of the package that has its classes.

    Raises
    ------
    MissingDependencyError
        Without it.
    """
    try:
        from array_record.python import array_record_module as module
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "array_record":
            raise
        raise MissingDependencyError(
            "ArrayRecord needs the package array-record: pip install 'npyflow[arrayrecord]'"
        ) from None
    return module


class ArrayRecords:
    """One file, which may be read from several threads at once.

    Parameters
    ----------
    path : str
        Of the file.
    examples : int
        How many records it must have.

    Raises
    ------
    FileFormatError
        If it has another number of records, or is no ArrayRecord file.
    """

    def __init__(self, path: str, examples: int) -> None:
        self._path = path
        module = array_record_module()
        self._reader = self._guarded(lambda: module.ArrayRecordReader(path, _OPTIONS))
        found = self._guarded(self._reader.num_records) if self._reader.ok() else None
        if found != examples:
            why = self._why() or (f"it has {plural(found, 'record')}" if found else "it is no ArrayRecord file")
            raise damaged(path, f"{why}; expected {plural(examples, 'record')}")

    def __enter__(self) -> ArrayRecords:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._why()

    def _why(self) -> str:
        """Close the file; it says what was wrong with it."""
        try:
            self._reader.close()
        except RuntimeError as error:
            return str(error).split("\n")[0]
        return ""

    def run(self, first: int, count: int) -> list[bytes]:
        """Return `count` records from `first` on."""
        return self._read(lambda: self._reader.read(first, first + count), count, first) if count else []

    def some(self, positions: Sequence[int]) -> list[bytes]:
        """Return the records at `positions`."""
        return self._read(lambda: self._reader.read(list(positions)), len(positions), None)

    def _read(self, read: Callable[[], list[bytes]], count: int, first: int | None) -> list[bytes]:
        records: list[bytes] = self._guarded(read)
        if len(records) != count:
            raise damaged(self._path, f"{len(records):,} of {plural(count, 'record')} could be read", first)
        return records

    def _guarded(self, call: Callable[[], Any]) -> Any:
        """Return what a call of the package returns; it says RuntimeError, whatever is wrong."""
        try:
            return call()
        except (RuntimeError, ValueError, IndexError) as error:
            raise damaged(self._path, str(error).split("\n")[0]) from None
