"""The small frozen objects that say precisely what a scalar option says in short."""

from __future__ import annotations

import operator
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence


# Of positions and indices: each half of the bits that an order enciphers must fit 32.
LARGEST = 1 << 62


def integer(where: str, value: Any, least: int | None = None) -> int:
    """Return `value` as an int.

    Raises
    ------
    OptionError
        If it is none, or not in ``[least, LARGEST]``; without `least` any integer will do.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise OptionError(f"{where}={value!r}: expected an integer") from None
    if isinstance(value, bool):
        raise OptionError(f"{where}={value!r}: expected an integer")
    if least is not None and number > LARGEST:
        raise OptionError(f"{where}={number}: expected at most {LARGEST:,}")
    if least is not None and number < least:
        raise OptionError(f"{where}={number}: expected at least {least}")
    return number


def flag(where: str, value: Any) -> bool:
    """Return `value` as a bool.

    Raises
    ------
    OptionError
        If it is neither True nor False.
    """
    if not isinstance(value, bool | np.bool_):
        raise OptionError(f"{where}={value!r}: expected True or False")
    return bool(value)


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
            if value is not None:
                integer(f"Shuffle: {name}", value, 1)


@dataclass(frozen=True, slots=True)
class Pad:
    """How to bring examples of different lengths to one shape. ``pad=0.0`` is ``Pad(0.0)``.

    Parameters
    ----------
    value : scalar
        What to fill with. It must fit the dtype: 0.5 and -1 are no ``uint8``.
    to : int, tuple of int, or "bucket", optional
        The length to pad to, for each axis that varies; ``"bucket"`` is the upper edge of the batch's bucket. Without
        it the longest of the batch.
    multiple : int, optional
        Round the length up to a multiple of this.
    truncate : bool
        Cut the end of what is longer than `to`; otherwise that is an error.
    mask : bool
        Deliver a mask as well, bool ``(batch, length)``, True where data is; an axis for each axis that varies.
    lengths : bool
        Deliver the lengths as well, int64 ``(batch,)``; ``(batch, axes)`` if several axes vary.

    Notes
    -----
    Mask and lengths of a component ``mel`` join the dict that holds it as ``mel_mask`` and ``mel_length``. A component
    that is in no dict becomes one: ``{"values": ..., "mask": ..., "length": ...}``.

    Raises
    ------
    OptionError
        If a value makes no sense.
    """

    value: Any = 0
    _: KW_ONLY
    to: int | tuple[int, ...] | str | None = None
    multiple: int | None = None
    truncate: bool = False
    mask: bool = False
    lengths: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.to, str):
            if self.to != "bucket":
                raise OptionError(f"Pad(to={self.to!r}): expected an integer, a tuple of integers or 'bucket'")
        elif self.to is not None:
            for length in self.to if isinstance(self.to, tuple) else (self.to,):
                integer("Pad: to", length, 1)
        if self.multiple is not None:
            integer("Pad: multiple", self.multiple, 1)
            if not isinstance(self.to, str | None) and np.any(np.array(self.to) % self.multiple):
                raise OptionError(
                    f"Pad(to={self.to}, multiple={self.multiple}): expected a multiple, or one of the two"
                )
        for name in ("truncate", "mask", "lengths"):
            flag(f"Pad: {name}", getattr(self, name))
        if self.truncate and self.to is None:
            raise OptionError("Pad(truncate=True) without to=: say at which length to cut")


@dataclass(frozen=True, slots=True)
class Bucket:
    """Batch examples of similar length together.

    The length of an example is the size of the axis that varies, the product of the sizes if several do. Every batch is
    from one bucket, every example comes once an epoch, and every epoch has the same number of batches.

    Parameters
    ----------
    boundaries : sequence of int, optional
        Upper edges, inclusive, ascending. What is longer than the last makes one more bucket.
    count : int, optional
        Instead: this many buckets, with the edges that need the least padding.
    by : str, optional
        The component whose length counts, as `Flow.describe` calls it. Without it the first that varies.
    max_elements : int, optional
        Elements that a padded batch of this component may have at most: buckets of longer examples have smaller
        batches, at least one example, at most the batch size.

    Raises
    ------
    OptionError
        Unless exactly one of `boundaries` and `count` is given and makes sense.
    """

    boundaries: Sequence[int] | None = None
    _: KW_ONLY
    count: int | None = None
    by: str | None = None
    max_elements: int | None = None

    def __post_init__(self) -> None:
        if (self.boundaries is None) == (self.count is None):
            raise OptionError("Bucket: give either boundaries= or count=")
        if self.count is not None:
            integer("Bucket: count", self.count, 1)
        if self.max_elements is not None:
            integer("Bucket: max_elements", self.max_elements, 1)
        if self.boundaries is not None:
            if isinstance(self.boundaries, str) or np.ndim(self.boundaries) != 1:
                raise OptionError(f"Bucket({self.boundaries!r}): expected a sequence of lengths, or count= of buckets")
            edges = [integer("Bucket: boundaries", edge, 0) for edge in self.boundaries]
            if not edges or any(left >= right for left, right in pairwise(edges)):
                raise OptionError(f"Bucket(boundaries={list(self.boundaries)}): expected ascending lengths")
            object.__setattr__(self, "boundaries", tuple(edges))


@dataclass(frozen=True, slots=True)
class Crop:
    """Read a region of each file instead of all of it; without `random` and `grid` the one in the centre.

    Parameters
    ----------
    shape : tuple of int or None
        Size of the region along each axis from the first on; None, and every axis beyond, is taken whole.
    random : bool
        A region drawn anew each epoch: a function of (`seed`, epoch, index of the example).
    grid : bool
        All regions of a grid, an example each. The last of an axis is moved inwards, so that it ends with the array.
    per_file : int
        Random regions of each file, an example each.
    overlap : int or tuple of int
        Of neighbours in the grid; a tuple has an entry for each axis that is cropped.
    pad : scalar, "edge" or "reflect", optional
        What stands around an array that is smaller than the region, which is then centred. Without it that is an
        error.
    seed : int
        Another seed is other regions.
    access : {"auto", "mmap", "read"}
        ``"mmap"``, which ``"auto"`` means, copies the region out of a map of the file; ``"read"`` never maps, and reads
        what is closer together than a page at once.

    Raises
    ------
    OptionError
        If a value makes no sense, or two exclude each other.
    """

    shape: tuple[int | None, ...]
    _: KW_ONLY
    random: bool = False
    grid: bool = False
    per_file: int = 1
    overlap: int | tuple[int, ...] = 0
    pad: Any = None
    seed: int = 0
    access: str = "auto"

    def __post_init__(self) -> None:
        if not isinstance(self.shape, tuple | list) or all(size is None for size in self.shape):
            raise OptionError(
                f"Crop({self.shape!r}): expected a tuple with at least one size; None takes an axis whole"
            )
        for size in self.shape:
            if size is not None:
                integer("Crop: shape", size, 1)
        # Plain values: a flow is saved with them.
        object.__setattr__(self, "shape", tuple(None if size is None else int(size) for size in self.shape))
        for name in ("random", "grid"):
            object.__setattr__(self, name, flag(f"Crop: {name}", getattr(self, name)))
        object.__setattr__(self, "per_file", integer("Crop: per_file", self.per_file, 1))
        object.__setattr__(self, "seed", integer("Crop: seed", self.seed))
        if self.random and self.grid:
            raise OptionError("Crop: random= and grid= exclude each other")
        if self.per_file > 1 and not self.random:
            raise OptionError(
                f"Crop(per_file={self.per_file}) without random=True: every file has one centre; see grid="
            )
        self._check_overlap()
        if isinstance(self.pad, np.generic):
            object.__setattr__(self, "pad", self.pad.item())
        if isinstance(self.pad, complex):
            raise OptionError(f"Crop(pad={self.pad!r}): expected a real number, 'edge' or 'reflect'")
        if isinstance(self.pad, str) and self.pad not in ("edge", "reflect"):
            raise OptionError(f"Crop(pad={self.pad!r}): expected a number, 'edge' or 'reflect'")
        if self.access not in ("auto", "mmap", "read"):
            raise OptionError(f"Crop(access={self.access!r}): expected 'auto', 'mmap' or 'read'")

    def _check_overlap(self) -> None:
        if isinstance(self.overlap, list | tuple):
            object.__setattr__(self, "overlap", tuple(integer("Crop: overlap", one, 0) for one in self.overlap))
        else:
            object.__setattr__(self, "overlap", integer("Crop: overlap", self.overlap, 0))
        sizes, overlaps = self.sizes, self.overlaps
        if len(overlaps) != len(sizes):
            raise OptionError(f"Crop(overlap={self.overlap!r}): expected {len(sizes)} values, one a cropped axis")
        for size, overlap in zip(sizes, overlaps, strict=True):
            if overlap >= size:
                raise OptionError(f"Crop: overlap={overlap} of regions that are {size} long; expected less")
        if any(overlaps) and not self.grid:
            raise OptionError("Crop: overlap= without grid=True")

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes that are cropped."""
        return tuple(axis for axis, size in enumerate(self.shape) if size is not None)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes along `axes`."""
        return tuple(size for size in self.shape if size is not None)

    @property
    def overlaps(self) -> tuple[int, ...]:
        """The overlaps along `axes`."""
        return self.overlap if isinstance(self.overlap, tuple) else (self.overlap,) * len(self.sizes)

    @property
    def whereabouts(self) -> tuple[Any, ...]:
        """What components that are cropped together must agree in."""
        return self.sizes, self.random, self.grid, self.per_file, self.overlaps, self.seed


@dataclass(frozen=True, slots=True)
class Ragged:
    """Examples of different lengths that stand one after another in one array, for `npyflow.rows`.

    Parameters
    ----------
    values : what a leaf of `npyflow.rows` may be
        The rows of all examples.
    counts : array, path or member of an `npz`, optional
        How many rows each example has, integers ``(examples,)``.
    offsets : array, path or member of an `npz`, optional
        Instead: the row that each example begins with and the end of the last, integers ``(examples + 1,)``.

    Raises
    ------
    OptionError
        Unless one of `counts` and `offsets` is given.
    """

    values: Any
    _: KW_ONLY
    counts: Any = None
    offsets: Any = None

    def __post_init__(self) -> None:
        if (self.counts is None) == (self.offsets is None):
            raise OptionError("Ragged: give either counts= or offsets=")
