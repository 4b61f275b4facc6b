"""Reading bytes into place: the few system calls that everything else is built on."""

from __future__ import annotations

import functools
import operator
import os
import threading
from typing import TYPE_CHECKING, Any

from npyflow._core.errors import FileError, MissingFileError
from npyflow._core.text import show_path

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Path = str | bytes

# O_CLOEXEC: no handle leaks into child processes. O_NONBLOCK: a pipe under a file's name must not hang the scan.
# O_BINARY: Windows would translate line ends.
_FLAGS = ("O_CLOEXEC", "O_NONBLOCK", "O_BINARY")
OPEN_FLAGS = os.O_RDONLY | functools.reduce(operator.or_, (getattr(os, name, 0) for name in _FLAGS))

# Linux stops one call at 2,147,479,552 bytes; asking for less keeps the arithmetic whole.
MAX_CALL_BYTES = 1 << 30


def system_error(path: str, error: OSError) -> FileError:
    """The error of ours for what the system says about a file."""
    if isinstance(error, FileNotFoundError):
        return MissingFileError(f"{show_path(path)}: no such file", path=path, kind="missing")
    return FileError(f"{show_path(path)}: {error.strerror}", path=path, kind="unreadable")


def open_for_read(path: Path) -> int:
    """Return a descriptor; the caller closes it."""
    return os.open(path, OPEN_FLAGS)


if hasattr(os, "preadv"):
    preadv: Callable[[int, Sequence[Any], int], int] = os.preadv

    def read_start(fd: int, count: int) -> bytes:
        """Return the first `count` bytes, or as many as there are."""
        return os.pread(fd, count, 0)

else:  # Windows: no positional reads, so one reader at a time moves a descriptor's position
    _POSITION = threading.Lock()

    def preadv(fd: int, buffers: Sequence[Any], offset: int) -> int:
        """Fill buffers one after another from `offset`; return bytes read."""
        got = 0
        with _POSITION, open(fd, "rb", buffering=0, closefd=False) as file:
            file.seek(offset)
            for buffer in buffers:
                more = file.readinto(buffer) or 0
                got += more
                if more < memoryview(buffer).nbytes:
                    break
        return got

    def read_start(fd: int, count: int) -> bytes:
        """Return the first `count` bytes, or as many as there are."""
        with _POSITION:
            os.lseek(fd, 0, os.SEEK_SET)
            return os.read(fd, count)


def read_both(fd: int, head: bytearray, body: memoryview, offset: int) -> int:
    """Fill `head` and then `body` from `offset`; return bytes read in all."""
    got = preadv(fd, (head, body[:MAX_CALL_BYTES]), offset)
    return got if got == len(head) + len(body) else read_rest(fd, head, body, got, offset)


def read_rest(fd: int, head: bytearray, body: memoryview, got: int, offset: int = 0) -> int:
    """Go on where ``preadv(fd, (head, body), offset)`` stopped after `got` bytes; return bytes read in all.

    One call stops at two gigabytes, at a signal, and at the end of the file.
    """
    if 0 < got < len(head):
        got += read_at(fd, memoryview(head)[got:], offset + got)
    if got >= len(head):
        got += read_at(fd, body[got - len(head) :], offset + got)
    return got


def read_at(fd: int, body: memoryview, offset: int) -> int:
    """Fill `body` from `offset`; return bytes read, fewer than asked only at the end of the file."""
    got = 0
    while got < len(body):
        more = preadv(fd, (body[got : got + MAX_CALL_BYTES],), offset + got)
        if not more:
            break
        got += more
    return got


def read_bytes(fd: int, count: int, offset: int) -> bytes:
    """Return `count` bytes from `offset`, or as many as there are."""
    body = bytearray(count)
    return bytes(body[: read_at(fd, memoryview(body), offset)])


def write_atomically(path: str | os.PathLike[str], parts: Sequence[bytes]) -> None:
    """Write a file under a temporary name and rename it: readers see the old one or the new one, never a half.

    Raises
    ------
    OSError
        Whatever the file system says; the temporary file is gone then.
    """
    target = os.fspath(path)
    # Another machine may have a process of the same number.
    temporary = f"{target}.{os.getpid()}-{os.urandom(4).hex()}.tmp"
    try:
        with open(temporary, "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise
