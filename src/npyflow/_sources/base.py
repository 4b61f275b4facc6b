"""What a source is, and how stored values become delivered ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from npyflow._core.casts import cast_into, check_castable
from npyflow._core.errors import CastError
from npyflow._core.spec import ArraySpec, DType, check_supported, native
from npyflow._core.text import show_path

if TYPE_CHECKING:
    from npyflow._core.buffers import BufferPool

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Place:
    """Where an example stands on disk or in memory.

    Parameters
    ----------
    path : str or None
        None for an array in RAM.
    row : int or None
        Along axis 0 of that file or array; None if the whole file is the example.
    """

    path: str | None
    row: int | None

    @property
    def file(self) -> str:
        """The file as it can be printed."""
        return "an array in RAM" if self.path is None else show_path(self.path)

    def __str__(self) -> str:
        return self.file if self.row is None else f"{self.file} row {self.row}"


class Source(Protocol):
    """One component of every example, reachable by index.

    Sources are read from several threads at once.
    """

    @property
    def spec(self) -> ArraySpec:
        """Shape and dtype of one example, as delivered."""

    @property
    def access(self) -> str:
        """How it is read: ``"ram"``, ``"mmap"``, ``"read"`` or ``"files"``."""

    def __len__(self) -> int:
        """Number of examples."""

    def read_into(self, indices: Array, out: Array) -> None:
        """Fill `out` with the examples `indices`.

        Parameters
        ----------
        indices : int64 array (batch,)
            In ``[0, len(self))``; checked by the caller.
        out : array (batch, *spec.shape)
            C-contiguous, of ``spec.dtype``. All of it is written.
        """

    def place(self, index: int) -> Place:
        """Where example `index` stands."""

    def close(self) -> None:
        """Let go of memory and descriptors."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """From the dtype in the file to the one delivered.

    Parameters
    ----------
    stored : numpy.dtype
        Byte order included.
    target : numpy.dtype
        Native.
    """

    stored: DType
    target: DType

    @property
    def in_place(self) -> bool:
        """The stored bytes can land in the output; at most their order changes."""
        return native(self.stored) == self.target

    def landing(self, out: Array, pool: BufferPool) -> Array:
        """Return where to read raw values of `stored` to: `out` itself, or scratch memory of its shape."""
        return out.view(self.stored) if self.in_place else pool.empty(out.shape, self.stored)

    def settle(self, landed: Array, out: Array) -> int | None:
        """Bring landed values into `out`.

        Parameters
        ----------
        landed : array
            From `landing`, or any view of it in the shape of `out`.

        Returns
        -------
        int or None
            Position along the first axis of the first example with a value that does not fit.
        """
        if np.may_share_memory(landed, out):
            if not self.stored.isnative:
                out.byteswap(inplace=True)
            return None
        bad = cast_into(landed, out)
        return None if bad is None else bad // max(1, out[0].size)


def fortran_view(landed: Array) -> Array:
    """Return ``(batch, z, y, x)`` as ``(batch, x, y, z)``: samples that were read in the order of their bytes."""
    return landed.transpose(0, *range(landed.ndim - 1, 0, -1))


def conversion(stored: DType, dtype: DType | None, where: str) -> Conversion:
    """Plan the conversion from `stored` to `dtype` (None: as stored, native).

    Raises
    ------
    UnsupportedDtypeError
        If either has no TensorFlow type, or the cast makes no sense.
    """
    check_supported(stored, where)
    target = native(stored if dtype is None else dtype)
    check_supported(target, where)
    check_castable(stored, target, where)
    return Conversion(stored, target)


def cast_error(values: Array, target: DType, place: Place, index: int) -> CastError:
    """The error for an example that does not fit.

    Parameters
    ----------
    values : array
        The example as stored.
    """
    out = np.empty(values.shape, target)
    at = cast_into(values, out) or 0
    position = tuple(int(axis) for axis in np.unravel_index(at, values.shape)) if values.shape else ()
    value = values[position]
    return CastError(
        f"{place} position {position}: {value!r} does not fit {target.name} (stored as {values.dtype.name}); "
        f"ask for a wider dtype=, or clip the values and save them again",
        path=place.path,
        index=index,
    )
