"""What a format must be able to do to be a target of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from npyflow._format.schema import Column

Array = np.ndarray[Any, Any]

# Examples as they travel: for each column one array (examples, *shape) in C order and native byte order where all have
# one shape, else a list of arrays, one an example.
Columns = list["Array | list[Array]"]


class Writer(Protocol):
    """Writes one shard. Is closed, or abandoned with its half-written files."""

    def write(self, columns: Columns) -> None:
        """Append examples."""

    def close(self) -> dict[str, Any]:
        """Finish the files and return the facts for `Shard.facts`."""

    def abandon(self) -> None:
        """Let go of the files after an error; they are removed by the caller."""


class Format(Protocol):
    """One way to keep examples on disk. Frozen and picklable: it travels to the processes that write."""

    @property
    def name(self) -> str:
        """As in ``--to``."""

    @property
    def options(self) -> dict[str, Any]:
        """What a reader must know, for `Schema.options`; JSON."""

    def check(self, columns: Sequence[Column]) -> None:
        """Refuse columns that the format cannot keep exactly, before the first byte is written.

        Raises
        ------
        UnsupportedDtypeError, CastError, OptionError, MissingDependencyError
        """

    def example_bytes(self, column: Column, elements: int) -> int:
        """About how many bytes a value of `elements` elements takes, before compression."""

    def as_read(self, column: Column, values: Array) -> Array:
        """Return `values` as they come back: the same, unless a loss was asked for."""

    def files(self, stem: str, columns: Sequence[Column]) -> list[str]:
        """Names of the files of the shard `stem`, such as ``"data-00003-of-00012"``."""

    def create(self, paths: Sequence[str], columns: Sequence[Column], examples: int) -> Writer:
        """Open a shard for writing.

        Parameters
        ----------
        paths : sequence of str
            Where each of `files` goes, a temporary name. Nothing is there yet.
        examples : int
            How many will come.
        """

    def read(
        self, paths: Sequence[str], columns: Sequence[Column], facts: dict[str, Any], counts: Sequence[int]
    ) -> Iterator[Columns]:
        """Read a shard back from its files, in order: so many examples at a time.

        Raises
        ------
        FileFormatError
            If a file is damaged.
        """
