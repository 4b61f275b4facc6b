"""What an example looks like."""

from __future__ import annotations

import math
from dataclasses import dataclass

from npyflow._core.dtypes import DType


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """Shape and dtype of one component of one example.

    Parameters
    ----------
    shape : tuple of int or None
        Without the batch axis; ``()`` for a scalar. None is an axis on which examples differ.
    dtype : numpy.dtype
        As delivered: after a cast, in native byte order. Text is ``U`` (in TensorFlow UTF-8) or ``S``.
    unit : str or None
        For integers that are dates or time spans, what they count, as NumPy calls it: ``array.view(spec.unit)``
        of ``"datetime64[s]"`` gives the dates back.
    """

    shape: tuple[int | None, ...]
    dtype: DType
    unit: str | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of one example where each axis that varies counts as one."""
        return math.prod(1 if size is None else size for size in self.shape) * self.dtype.itemsize

    @property
    def fixed_shape(self) -> tuple[int, ...]:
        """The sizes of the axes on which all examples agree."""
        return tuple(size for size in self.shape if size is not None)

    @property
    def varying(self) -> tuple[int, ...]:
        """The axes on which examples differ."""
        return tuple(axis for axis, size in enumerate(self.shape) if size is None)

    def __str__(self) -> str:
        shape = ", ".join(map(str, self.shape)) + ("," if len(self.shape) == 1 else "")
        name = {"U": "text", "S": "bytes"}.get(self.dtype.kind, self.dtype.name)
        return f"{name} ({shape})" + (f" of {self.unit}" if self.unit else "")
