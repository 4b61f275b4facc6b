"""ArrayRecord files of ``tf.train.Example``: by their own package, for Grain and for random access."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.errors import FileError, NpyflowError, ShapeMismatchError
from npyflow._core.text import show_path
from npyflow._format.example import Encoder
from npyflow._format.parsing import Decoder, RecordError
from npyflow._sources.arrayrecords import ArrayRecords, array_record_module
from npyflow._sources.stored import damaged
from npyflow._write.lengths import Lengths
from npyflow._write.tfrecord import feature_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from npyflow._format.schema import Column
    from npyflow._write.base import Columns

Array = np.ndarray[Any, Any]

# A record a group: what random access wants. Uncompressed, as the arrays were.
_OPTIONS = "group_size:1,uncompressed"
# Beside each record: its chunk has a header, and there is an index.
_AROUND_BYTES = 64


@dataclass(frozen=True, slots=True)
class ArrayRecordFormat:
    """One ``tf.train.Example`` a record, its arrays as bytes beside their dtype and shape."""

    @property
    def name(self) -> str:
        """As in ``--to``."""
        return "arrayrecord"

    @property
    def options(self) -> dict[str, Any]:
        """What a reader must know."""
        return {"encoding": "raw"}

    def check(self, columns: Sequence[Column]) -> None:  # noqa: ARG002 (it keeps everything)
        """See that the package is there."""
        array_record_module()

    def example_bytes(self, column: Column, elements: int) -> int:
        """About how many bytes a value of `elements` elements takes."""
        return _AROUND_BYTES + feature_bytes(column, elements, "raw")

    def as_read(self, column: Column, values: Array) -> Array:  # noqa: ARG002
        """All that comes is kept."""
        return values

    def files(self, stem: str, columns: Sequence[Column]) -> list[str]:  # noqa: ARG002 (as all formats)
        """One file a shard."""
        return [f"{stem}.arrayrecord"]

    def create(self, paths: Sequence[str], columns: Sequence[Column], examples: int) -> ArrayRecordWriter:  # noqa: ARG002
        """Open a shard for writing."""
        return ArrayRecordWriter(paths[0], columns)

    def read(
        self,
        paths: Sequence[str],
        columns: Sequence[Column],
        facts: dict[str, Any],  # noqa: ARG002
        counts: Sequence[int],
    ) -> Iterator[Columns]:
        """Read a shard back; the package checks its checksums."""
        (path,) = paths
        with ArrayRecords(path, sum(counts)) as reader:
            decoder = Decoder(columns, "raw")
            first = 0
            for count in counts:
                out: Columns = [
                    [] if one.spec.varying else np.empty((count, *one.spec.fixed_shape), one.spec.dtype)
                    for one in columns
                ]
                for at, record in enumerate(reader.run(first, count)):
                    try:
                        decoder.into(out, at, np.frombuffer(record, np.uint8)[None])
                    except RecordError as error:
                        raise damaged(path, str(error.args[0]), first + at) from None
                yield out
                first += count


class ArrayRecordWriter:
    """Writes one file.

    Parameters
    ----------
    path : str
        A new file.
    columns : sequence of Column
        What an example has.
    """

    def __init__(self, path: str, columns: Sequence[Column]) -> None:
        self._path = path
        self._encoder = Encoder(columns, "raw")
        self._lengths = Lengths(columns)
        self._count = 0
        self._writer = array_record_module().ArrayRecordWriter(path, _OPTIONS)
        if not self._writer.ok():
            # It says why when it is closed.
            self._guarded(self._writer.close)

    def write(self, columns: Columns) -> None:
        """Append examples."""
        self._lengths.add(columns)
        try:
            for pieces in self._encoder.pieces(columns):
                record = b"".join(pieces)
                self._guarded(functools.partial(self._writer.write, record))
        except ShapeMismatchError as error:
            error.index = self._count + (error.index or 0)
            raise
        self._count += len(columns[0])

    def close(self) -> dict[str, Any]:
        """Finish the file."""
        self._guarded(self._writer.close)
        return self._lengths.facts()

    def abandon(self) -> None:
        """Close the file as it is."""
        try:
            self._guarded(self._writer.close)
        except NpyflowError:
            # It is to be removed anyway.
            return

    def _guarded(self, call: Any) -> Any:
        """Return what a call of the package returns; it says RuntimeError whatever the system said."""
        try:
            return call()
        except (RuntimeError, ValueError) as error:
            raise FileError(
                f"{show_path(self._path)}: the package array-record cannot write it: {error}", path=self._path
            ) from None
