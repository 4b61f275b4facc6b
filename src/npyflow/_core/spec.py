"""What an example looks like, and the small frozen options."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from npyflow._core.dtypes import DType
from npyflow._core.errors import OptionError


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """Shape and dtype of one component of one example.

    Parameters
    ----------
    shape : tuple of int
        Without the batch axis; ``()`` for a scalar.
    dtype : numpy.dtype
        As delivered: after a cast, in native byte order. Text is ``U`` (in TensorFlow UTF-8) or ``S``.
    unit : str or None
        For integers that are dates or time spans, what they count, as NumPy calls it: ``array.view(spec.unit)``
        of ``"datetime64[s]"`` gives the dates back.
    """

    shape: tuple[int, ...]
    dtype: DType
    unit: str | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of one example."""
        return math.prod(self.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        shape = ", ".join(map(str, self.shape)) + ("," if len(self.shape) == 1 else "")
        name = {"U": "text", "S": "bytes"}.get(self.dtype.kind, self.dtype.name)
        return f"{name} ({shape})" + (f" of {self.unit}" if self.unit else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffle:
    """How to shuffle. ``shuffle=True`` is ``Shuffle()``: one permutation of all examples an epoch.

    Parameters
    ----------
    block : int, optional
        Permute runs of `block` neighbouring examples instead of single ones, then shuffle inside windows of
        `window` runs. For storage that hates random reads; less random than a global shuffle.
    window : int, default 16
        Runs that are mixed together. ``block * window`` indices are held in memory.

    Raises
    ------
    OptionError
        If `block` or `window` is below 1.
    """

    block: int | None = None
    window: int = 16

    def __post_init__(self) -> None:
        for name, value in (("block", self.block), ("window", self.window)):
            if value is not None and (not isinstance(value, int | np.integer) or value < 1):
                raise OptionError(f"Shuffle({name}={value!r}): expected an integer of at least 1")
