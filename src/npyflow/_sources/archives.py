"""Inside an ``.npz`` file, which is a zip archive of ``.npy`` files: where each begins, and what it was before packing.

The directory is read by `zipfile`. The arrays are read in place, or inflated straight into the memory that waits for
them. See the format's description, https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT.
"""

from __future__ import annotations

import os
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from npyflow._core.errors import FileFormatError, MissingMemberError
from npyflow._core.text import examples, human_bytes, show_array, show_path
from npyflow._sources.fileio import read_at, read_bytes

if TYPE_CHECKING:
    import zipfile
    from collections.abc import Iterable, Sequence

    from npyflow._sources.table import Span

MAGIC = b"PK\x03\x04"
# Of an archive with something in it, and of an empty one.
ARCHIVE_MAGICS = (MAGIC, b"PK\x05\x06")

_STORED, _DEFLATED = 0, 8
_METHODS = {12: "bzip2", 14: "LZMA", 93: "Zstandard"}
_ENCRYPTED = 0x1
_LOCAL_HEADER = struct.Struct("<4s22xHH")
# Deflate cannot do better: an entry that claims more is a bomb, or damaged.
_MOST_RATIO = 1032
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One file in an archive.

    Parameters
    ----------
    name : str
        Without the suffix ``.npy``, as ``np.load`` calls it.
    suffixed : bool
        It had that suffix: if it is no array, it is damaged.
    at : int
        First byte of its local header.
    size, packed : int
        Bytes before and after compression.
    deflated : bool
        Compressed.
    crc : int
        CRC-32 of the bytes before compression.
    trouble : str or None
        Why it cannot be read.
    """

    name: str
    suffixed: bool
    at: int
    size: int
    packed: int
    deflated: bool
    crc: int
    trouble: str | None


def read_directory(fd: int, path: str) -> dict[str, Entry]:
    """Return what an archive holds, by name.

    Raises
    ------
    FileFormatError
        If the directory, at the end of the file, is missing or damaged, or names something twice.
    """
    # Here, because importing it takes longer than all of npyflow, and most people have no archives.
    import zipfile

    try:
        # A descriptor of its own: closing the archive must not close ours.
        with os.fdopen(os.dup(fd), "rb") as file, zipfile.ZipFile(file) as archive:
            infos = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, struct.error, OverflowError, MemoryError):
        raise FileFormatError(
            f"{show_path(path)} is a damaged .npz archive: its central directory, at the end of the file, is missing "
            f"or broken; an interrupted download or copy does that: write or download it again",
            path=path,
            kind="npz-directory",
        ) from None
    entries: dict[str, Entry] = {}
    for info in infos:
        if info.is_dir():
            continue
        name = info.filename.removesuffix(".npy")
        if name in entries:
            raise FileFormatError(
                f"{show_path(path)} holds {name!r} twice; nobody can say which is meant: write the archive again",
                path=path,
                member=name,
                kind="npz-twice",
            )
        entries[name] = Entry(
            name=name,
            suffixed=name != info.filename,
            at=info.header_offset,
            size=info.file_size,
            packed=info.compress_size,
            deflated=info.compress_type != _STORED,
            crc=info.CRC,
            trouble=_trouble(info),
        )
    return entries


def _trouble(info: zipfile.ZipInfo) -> str | None:
    if info.flag_bits & _ENCRYPTED:
        return "is encrypted; unpack it and write the archive again with np.savez"
    if info.compress_type not in (_STORED, _DEFLATED):
        method = _METHODS.get(info.compress_type, "an unknown method")
        return (
            f"is compressed by {method} (zip method {info.compress_type}); expected stored or deflated, which is what "
            f"np.savez and np.savez_compressed write; write it again with one of them"
        )
    if info.file_size > info.compress_size * _MOST_RATIO + _MOST_RATIO:
        return (
            f"claims {human_bytes(info.file_size)} in {human_bytes(info.compress_size)}, which no compression "
            f"reaches: the archive is damaged or hostile; download it again from a source you trust"
        )
    if info.compress_type == _STORED and info.file_size != info.compress_size:
        return f"is stored in {info.compress_size:,} bytes but claims {info.file_size:,}; write the archive again"
    return None


def locate(fd: int, path: str, entry: Entry, file_size: int) -> int:
    """Return where the bytes of an entry begin.

    Raises
    ------
    FileFormatError
        If no entry is where the directory says, or it reaches beyond the end of the file.
    """
    if entry.trouble is not None:
        raise damaged(path, entry.name, entry.trouble, kind="npz-member")
    head = read_bytes(fd, _LOCAL_HEADER.size, entry.at)
    if len(head) == _LOCAL_HEADER.size:
        signature, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(head)
        start: int = entry.at + len(head) + name_bytes + extra_bytes
        if signature == MAGIC and start + entry.packed <= file_size:
            return start
    raise damaged(
        path, entry.name, "is not where the archive's directory says; write or download it again", kind="npz-member"
    )


def damaged(path: str, member: str | None, what: str, *, kind: str) -> FileFormatError:
    """The error for a file, or for one array in an archive, that cannot be used."""
    return FileFormatError(f"{show_array(path, member)} {what}", path=path, member=member, kind=kind)


def no_member(path: str, names: Sequence[str], have: Iterable[str]) -> MissingMemberError:
    """The error for an array that an archive does not have under any of its names."""
    held = examples(map(show_path, have), 8) or "nothing"
    return MissingMemberError(
        f"{show_path(path)} has no member {' or '.join(map(repr, names))}; it holds {held}",
        path=path,
        member=names[0],
        kind="npz-no-member",
    )


class Stored:
    """Bytes of a file, read piece by piece.

    Parameters
    ----------
    fd : int
        Open file.
    start : int
        Where they begin.
    """

    def __init__(self, fd: int, start: int) -> None:
        self._fd = fd
        self._next = start

    def fill(self, body: memoryview) -> int:
        """Fill `body`; return bytes written, fewer than asked only at the end of the file."""
        got = read_at(self._fd, body, self._next)
        self._next += got
        return got


class Inflater:
    """Compressed bytes of a file, inflated piece by piece.

    Parameters
    ----------
    fd : int
        Open file.
    start, packed : int
        Where the compressed bytes begin and how many there are.
    """

    def __init__(self, fd: int, start: int, packed: int) -> None:
        self._fd = fd
        self._next = start
        self._end = start + packed
        self._engine = zlib.decompressobj(-zlib.MAX_WBITS)
        self._waiting = b""

    def fill(self, body: memoryview) -> int:
        """Fill `body`; return bytes written, fewer than asked only if there is no more.

        Raises
        ------
        zlib.error
            If the bytes are no deflate stream.
        """
        got = 0
        while got < len(body) and not self._engine.eof:
            packed = self._waiting or self._more()
            piece = self._engine.decompress(packed, min(len(body) - got, _CHUNK_BYTES))
            self._waiting = self._engine.unconsumed_tail
            body[got : got + len(piece)] = piece
            got += len(piece)
            if not packed and not piece:
                break
        return got

    def _more(self) -> bytes:
        chunk = read_bytes(self._fd, min(_CHUNK_BYTES, self._end - self._next), self._next)
        self._next += len(chunk)
        return chunk


def unpacked(fd: int, span: Span) -> Stored | Inflater:
    """The bytes of an array as they were before they were packed, if they were."""
    return Inflater(fd, span.start, span.packed) if span.packed >= 0 else Stored(fd, span.start)
