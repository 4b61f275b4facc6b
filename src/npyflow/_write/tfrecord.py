"""TFRecord files of ``tf.train.Example``: written from arrays, and read back with every checksum looked at."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import math
import os
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.dtypes import is_text
from npyflow._core.errors import CastError, OptionError, ShapeMismatchError, UnsupportedDtypeError
from npyflow._core.text import plural
from npyflow._format.example import Encoder, kind_of
from npyflow._format.parsing import Decoder, RecordError
from npyflow._format.tfrecord import (
    FOOT_BYTES,
    FRAME_BYTES,
    HEAD_BYTES,
    FrameError,
    blocks,
    check_records,
    crc32c,
    find_frames,
    foot,
    head,
    masked_all,
)
from npyflow._sources.stored import damaged
from npyflow._write.lengths import Lengths

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import BinaryIO

    from npyflow._core.errors import FileFormatError
    from npyflow._core.spec import ArraySpec
    from npyflow._format.example import Piece
    from npyflow._format.schema import Column
    from npyflow._write.base import Columns

Array = np.ndarray[Any, Any]

ENCODINGS = ("raw", "list")
# Records below are put together in memory: a few copied bytes cost less than the calls that avoid it.
_SMALL_BYTES = 32 << 10
# Written and read at once: as much as stays in the cache of a processor.
_CHUNK_BYTES = 1 << 20
# Of one call; the least that POSIX allows is 16, every system here has 1,024.
_MOST_PIECES = 1000
_GZIP_LEVEL = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class TFRecordFormat:
    """One ``tf.train.Example`` a record.

    Parameters
    ----------
    encoding : {"raw", "list"}
        ``"raw"`` keeps the bytes of each array, exactly; ``"list"`` is for readers that expect FloatList and Int64List.
    compression : None or "gzip"
        Of whole files.
    lossy : bool
        Let a list round: float64 to float32.

    Raises
    ------
    OptionError
        If an option is none of these.
    """

    encoding: str = "raw"
    compression: str | None = None
    lossy: bool = False

    def __post_init__(self) -> None:
        if self.encoding not in ENCODINGS:
            raise OptionError(f"encoding={self.encoding!r}: expected 'raw' or 'list'")
        if self.compression not in (None, "gzip"):
            raise OptionError(f"compression={self.compression!r}: TFRecord has 'gzip' or None")

    @property
    def name(self) -> str:
        """As in ``--to``."""
        return "tfrecord"

    @property
    def options(self) -> dict[str, Any]:
        """What a reader must know."""
        return {"encoding": self.encoding, "compression": self.compression}

    def check(self, columns: Sequence[Column]) -> None:
        """Refuse what a list would round."""
        crc32c()
        if self.encoding == "list":
            for column in columns:
                _check_list(column, self.lossy)

    def example_bytes(self, column: Column, elements: int) -> int:
        """About how many bytes a value of `elements` elements takes, before compression."""
        return FRAME_BYTES + feature_bytes(column, elements, self.encoding)

    def files(self, stem: str, columns: Sequence[Column]) -> list[str]:  # noqa: ARG002 (as all formats)
        """One file a shard."""
        return [f"{stem}.tfrecord" + (".gz" if self.compression else "")]

    def create(self, paths: Sequence[str], columns: Sequence[Column], examples: int) -> TFRecordWriter:  # noqa: ARG002
        """Open a shard for writing."""
        return TFRecordWriter(paths[0], columns, self.encoding, compressed=self.compression == "gzip")

    def read(
        self,
        paths: Sequence[str],
        columns: Sequence[Column],
        facts: dict[str, Any],  # noqa: ARG002
        counts: Sequence[int],
    ) -> Iterator[Columns]:
        """Read a shard back, and check every length and every byte against its checksum."""
        decoder = Decoder(columns, self.encoding)
        with _Records(paths[0], compressed=self.compression == "gzip") as records:
            for count in counts:
                yield records.take(count, decoder, [column.spec for column in columns])
            records.check_end()

    def as_read(self, column: Column, values: Array) -> Array:
        """Return `values` as they come back: a list rounds float64, and has one NaN for each of the short floats."""
        dtype = column.spec.dtype
        if kind_of(dtype, self.encoding) != "float" or dtype == np.float32:
            return values
        return values.astype(np.float32).astype(dtype)


def feature_bytes(column: Column, elements: int, encoding: str) -> int:
    """About how many bytes a value of `elements` elements takes in a ``tf.train.Example``."""
    dtype, name = column.spec.dtype, len(column.name.encode("utf-8"))
    kind = kind_of(dtype, encoding)
    around = name + 22
    if encoding == "raw":
        around += 2 * name + 50 + len(column.spec.shape)
    if kind == "text":
        return around + elements * (3 + dtype.itemsize // (4 if dtype.kind == "U" else 1))
    if kind == "int":
        return around + elements * max(1, math.ceil(8 * dtype.itemsize / 7))
    return around + elements * (4 if kind == "float" else dtype.itemsize)


def _check_list(column: Column, lossy: bool) -> None:
    dtype, name = column.spec.dtype, column.name
    if dtype.kind == "c":
        raise UnsupportedDtypeError(
            f"{name}: TensorFlow's lists have no complex numbers ({dtype.name}); write encoding='raw', or real and "
            f"imaginary part as two components"
        )
    if lossy or is_text(dtype):
        return
    if dtype == np.float64:
        raise CastError(
            f"{name}: a FloatList would round float64 to float32; write encoding='raw', cast with dtype='float32', or "
            f"allow it with lossy=True (--lossy)"
        )
    if dtype == np.uint64:
        raise CastError(
            f"{name}: an Int64List ends at 9223372036854775807, half of uint64; write encoding='raw', or allow "
            f"smaller numbers with lossy=True (--lossy): a larger one is an error then"
        )


class TFRecordWriter:
    """Writes one file.

    Parameters
    ----------
    path : str
        A new file.
    columns : sequence of Column
        What an example has.
    encoding : str
        ``"raw"`` or ``"list"``.
    compressed : bool
        By gzip, without name or time: the bytes depend on the examples alone.
    """

    def __init__(self, path: str, columns: Sequence[Column], encoding: str, *, compressed: bool) -> None:
        self._extend = crc32c()
        self._encoder = Encoder(columns, encoding)
        self._lengths = Lengths(columns)
        self._count = 0
        # Unbuffered: pieces come by the megabyte.
        self._file: BinaryIO = open(path, "xb", buffering=0)  # noqa: SIM115 (closed by close or abandon)
        self._gzip = _gzip_writer(self._file) if compressed else None
        size = self._encoder.size
        self._rows: Array | None = None
        if size is not None and size < _SMALL_BYTES:
            frame = size + FRAME_BYTES
            self._rows = np.empty((max(1, _CHUNK_BYTES // frame), frame), np.uint8)
            self._rows[:, :HEAD_BYTES] = np.frombuffer(head(size), np.uint8)
            self._encoder.prepare(self._rows[:, HEAD_BYTES:-FOOT_BYTES])

    def write(self, columns: Columns) -> None:
        """Append examples."""
        count, start = len(columns[0]), 0
        self._lengths.add(columns)
        try:
            if self._rows is None:
                self._write_pieces(columns)
            else:
                for start in range(0, count, len(self._rows)):
                    self._write_rows([column[start : start + len(self._rows)] for column in columns], self._rows)
        except (CastError, ShapeMismatchError) as error:
            error.index = self._count + start + (error.index or 0)
            raise
        self._count += count

    def _write_rows(self, columns: Sequence[Any], rows: Array) -> None:
        """Short records of one length, put together side by side."""
        rows = rows[: len(columns[0])]
        records = rows[:, HEAD_BYTES:-FOOT_BYTES]
        self._encoder.fill(columns, records)
        crcs = np.fromiter(map(self._extend, itertools.repeat(0), records), np.uint32, len(rows))
        rows[:, -FOOT_BYTES:] = masked_all(crcs).astype("<u4")[:, None].view(np.uint8)
        self._put([rows.reshape(-1)])

    def _write_pieces(self, columns: Columns) -> None:
        """Records of any length, whose values are written from where they are."""
        waiting: list[Piece] = []
        size = 0
        for record in self._encoder.pieces(columns):
            length = sum(map(len, record))
            # Copies of short ones cost less than calls.
            pieces: list[Piece] = [b"".join(record)] if length < _SMALL_BYTES else record
            crc = 0
            for piece in pieces:
                crc = self._extend(crc, piece)
            waiting += (head(length), *pieces, foot(crc))
            size += length
            if size >= _CHUNK_BYTES or len(waiting) >= _MOST_PIECES:
                self._put(waiting)
                waiting, size = [], 0
        self._put(waiting)

    def _put(self, pieces: list[Piece]) -> None:
        if self._gzip is not None:
            for piece in pieces:
                self._gzip.write(piece)
        elif len(pieces) > 1 and sum(map(len, pieces)) < _SMALL_BYTES * len(pieces) // 8:
            _write_all(self._file.fileno(), [b"".join(pieces)])
        else:
            _write_all(self._file.fileno(), pieces)

    def close(self) -> dict[str, Any]:
        """Finish the file."""
        if self._gzip is not None:
            self._gzip.close()
        self._file.close()
        size = self._encoder.size
        return self._lengths.facts() | ({} if size is None else {"record_bytes": size})

    def abandon(self) -> None:
        """Close the file as it is."""
        if self._gzip is not None:
            # It would try to write its end later.
            with contextlib.suppress(OSError, ValueError):
                self._gzip.close()
        self._file.close()


def _gzip_writer(file: BinaryIO) -> gzip.GzipFile:
    return gzip.GzipFile(filename="", mode="wb", compresslevel=_GZIP_LEVEL, fileobj=file, mtime=0)


def _write_all(fd: int, pieces: list[Piece]) -> None:
    """Write pieces one after another: the system may take fewer bytes than it is given."""
    at = 0
    while at < len(pieces):
        some = pieces[at : at + _MOST_PIECES]
        done = os.writev(fd, some) if hasattr(os, "writev") else os.write(fd, some[0])
        while at < len(pieces) and done >= len(pieces[at]):
            done -= len(pieces[at])
            at += 1
        if done:
            pieces[at] = pieces[at][done:]


class _Records:
    """The records of a file, in order, through a buffer that is used again."""

    def __init__(self, path: str, *, compressed: bool) -> None:
        self._path = path
        self._file: Any = gzip.open(path, "rb") if compressed else open(path, "rb", buffering=0)  # noqa: SIM115
        # Unknown of what is compressed.
        self._left = None if compressed else os.fstat(self._file.fileno()).st_size
        self._data = np.empty(_CHUNK_BYTES, np.uint8)
        self._at = self._stop = self._number = 0

    def __enter__(self) -> _Records:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def take(self, count: int, decoder: Decoder, specs: Sequence[ArraySpec]) -> Columns:
        """Return the next `count` examples."""
        out: Columns = [[] if spec.varying else np.empty((count, *spec.fixed_shape), spec.dtype) for spec in specs]
        done = 0
        while done < count:
            found = self._some(count - done)
            for records in blocks(self._data, found):
                try:
                    decoder.into(out, done, records)
                except RecordError as error:
                    raise self._bad(str(error.args[0]), self._number + int(error.args[1])) from None
                done += len(records)
                self._number += len(records)
        return out

    def _some(self, most: int) -> list[tuple[int, int]]:
        """Where the next records lie in the buffer, at least one."""
        while True:
            try:
                found, self._at, need = find_frames(self._data, self._at, self._stop, most)
            except FrameError as error:
                raise self._bad(str(error), self._number) from None
            if found:
                wrong = check_records(self._data, found)
                if wrong is not None:
                    raise self._bad("its bytes have the wrong checksum", self._number + wrong)
                return found
            if not self._more(need):
                raise self._bad(self._cut_off(need), self._number)

    def _cut_off(self, need: int) -> str:
        have = self._stop - self._at
        if not have:
            return f"expected, but the file ends after {plural(self._number, 'record')}"
        return f"the file ends in the middle of it: {have:,} of {need:,} bytes are left"

    def _more(self, need: int) -> bool:
        """Read on; the next frame takes `need` bytes. Say whether there was more."""
        have = self._stop - self._at
        if self._left is not None and need > have + self._left:
            return False
        # Of what is compressed, a length may promise anything: memory grows with what is really there.
        size = max(_CHUNK_BYTES, need if self._left is not None else min(need, 2 * len(self._data)))
        data = self._data if size <= len(self._data) else np.empty(size, np.uint8)
        data[:have] = self._data[self._at : self._stop].copy()
        self._data, self._at = data, 0
        try:
            got = self._file.readinto(memoryview(data)[have:]) or 0  # type: ignore[arg-type]
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise self._bad(f"the compressed data is damaged: {error}", self._number) from None
        self._stop = have + got
        if self._left is not None:
            self._left -= got
        return got > 0

    def check_end(self) -> None:
        """Refuse a file that goes on."""
        if self._stop > self._at or self._more(FRAME_BYTES) or self._left:
            raise self._bad(f"the file goes on after the {self._number:,} records that were expected", self._number)

    def _bad(self, what: str, number: int) -> FileFormatError:
        return damaged(self._path, what, number)
