"""Memory that is lent out and comes back.

A fresh page costs more than copying into a warm one, so batches are read into buffers that are used again. An
array from the pool has a `_Lease` at the end of its base chain; whoever holds a view of the array (NumPy,
TensorFlow, the user) holds the lease, and the buffer returns when the last of them lets go. A buffer is
therefore never written to while somebody can still see it.
"""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from npyflow._core.dtypes import DType

Array = np.ndarray[Any, Any]

# TensorFlow takes a NumPy array without a copy if it starts on this boundary.
ALIGNMENT = 64


class _Buffer:
    """A piece of memory with its first aligned address, which costs as much to find as a short read."""

    __slots__ = ("memory", "size", "start")

    def __init__(self, size: int) -> None:
        self.size = size
        self.memory = np.empty(size + ALIGNMENT, np.uint8)
        address = self.memory.ctypes.data
        self.start = address + (-address) % ALIGNMENT


class _Lease:
    """Owner of one buffer on loan; gives it back to the pool when it dies."""

    __slots__ = ("__array_interface__", "_buffer", "_pool")

    def __init__(self, buffer: _Buffer, nbytes: int, pool: BufferPool) -> None:
        self._buffer = buffer
        self._pool = pool
        self.__array_interface__ = {
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (buffer.start, False),
            "version": 3,
        }

    def __del__(self) -> None:
        self._pool._give_back(self._buffer)


class BufferPool:
    """Aligned arrays whose memory is used again.

    Parameters
    ----------
    keep_bytes : int
        Idle memory that is kept for the next loan; what comes back beyond it is freed.

    Notes
    -----
    Safe to use from several threads.
    """

    def __init__(self, keep_bytes: int) -> None:
        self._keep_bytes = keep_bytes
        # Oldest first. A handful of buffers: a search beats a table of sizes, and the front is what to trim.
        self._idle: list[_Buffer] = []
        self._idle_bytes = 0
        # Nobody waits for it. A lease may die, and give back, in any thread at any allocation, also in one that holds
        # the lock, or whose end somebody who holds it is waiting for; then memory is freed or made, no more.
        self._lock = threading.Lock()

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Array:
        """Return an uninitialised C-contiguous array that starts on a 64-byte boundary."""
        nbytes = math.prod(shape) * dtype.itemsize
        if nbytes == 0:
            # NumPy gives texts without room for a character room for one.
            return np.zeros(shape, dtype)
        size = _size_class(nbytes)
        buffer = self._take(size) or _Buffer(size)
        return np.asarray(_Lease(buffer, nbytes, self)).view(dtype).reshape(shape)

    def keep(self, keep_bytes: int) -> None:
        """Raise the idle memory that is kept to at least `keep_bytes`."""
        self._keep_bytes = max(self._keep_bytes, keep_bytes)

    def close(self) -> None:
        """Free what is idle, and from now on whatever comes back."""
        with self._lock:
            self._keep_bytes = 0
            self._idle.clear()
            self._idle_bytes = 0

    @property
    def idle_bytes(self) -> int:
        """Bytes that wait for the next loan."""
        return self._idle_bytes

    def _take(self, size: int) -> _Buffer | None:
        if not self._lock.acquire(blocking=False):
            return None
        try:
            for at in range(len(self._idle) - 1, -1, -1):
                if self._idle[at].size == size:
                    self._idle_bytes -= size
                    return self._idle.pop(at)
            return None
        finally:
            self._lock.release()

    def _give_back(self, buffer: _Buffer) -> None:
        if not self._lock.acquire(blocking=False):
            return
        try:
            self._idle.append(buffer)
            self._idle_bytes += buffer.size
            while self._idle_bytes > self._keep_bytes:
                self._idle_bytes -= self._idle.pop(0).size
        finally:
            self._lock.release()


def _size_class(nbytes: int) -> int:
    """Round up by an eighth at most, so that batches of like size share buffers; small ones to a power of two."""
    if nbytes <= 1 << 16:
        return 1 << (nbytes - 1).bit_length()
    bits = nbytes.bit_length() - 4
    return -(-nbytes >> bits) << bits
