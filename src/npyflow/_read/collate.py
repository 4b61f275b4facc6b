"""From single examples to the arrays of a batch: stacked, padded, or one after another.

A collator makes the arrays of a batch for given shapes, and says where in them each example belongs; sources then read
into place, and nothing is copied twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from npyflow._core.errors import ShapeMismatchError
from npyflow._core.spec import ArraySpec

if TYPE_CHECKING:
    from npyflow._core.buffers import BufferPool

Array = np.ndarray[Any, Any]


class Opened(NamedTuple):
    """The arrays of one component of a batch, not filled yet.

    Parameters
    ----------
    arrays : list of array
        What is handed out: values first.
    views : list of array
        For each example the part of the values that belongs to it.
    """

    arrays: list[Array]
    views: list[Array]


class Collator(Protocol):
    """How one component is put together."""

    @property
    def spec(self) -> ArraySpec:
        """Of an example."""

    @property
    def specs(self) -> list[ArraySpec]:
        """Of the arrays that are handed out, without their first axis."""

    def open(self, shapes: Array, bucket: int, pool: BufferPool) -> Opened:
        """Return arrays for examples of `shapes`, int64 ``(batch, axes)``."""


@dataclass(frozen=True, slots=True)
class Stacked:
    """Examples of one shape.

    Parameters
    ----------
    spec : ArraySpec
        Of an example.
    """

    spec: ArraySpec

    @property
    def specs(self) -> list[ArraySpec]:
        return [self.spec]

    def open(self, shapes: Array, bucket: int, pool: BufferPool) -> Opened:
        del bucket
        out = pool.empty((len(shapes), *map(int, shapes[0])), self.spec.dtype)
        # Of numbers without axes no view is wanted, and of text NumPy would make strings out of memory not filled yet.
        return Opened([out], list(out) if out.ndim > 1 else [out] * len(out))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Padded:
    """Examples that are filled up to one shape.

    Parameters
    ----------
    name : str
        How messages call the component.
    spec : ArraySpec
        Of an example.
    value : array ()
        What to fill with, of the dtype of the examples.
    to : tuple of int, optional
        The size of each axis that varies.
    edges : int64 array (buckets, varying axes), optional
        Instead: that size in each bucket.
    multiple : int
        Sizes are rounded up to a multiple of this.
    truncate : bool
        Cut what is longer.
    mask, lengths : bool
        Hand them out as well.
    """

    name: str
    spec: ArraySpec
    value: Array
    to: tuple[int, ...] | None = None
    edges: Array | None = None
    multiple: int = 1
    truncate: bool = False
    mask: bool = False
    lengths: bool = False

    @property
    def specs(self) -> list[ArraySpec]:
        axes = self.spec.varying
        fixed = () if self.to is None else self._round(np.array(self.to)).tolist()
        sizes = dict(zip(axes, fixed, strict=False))
        shape = tuple(sizes.get(axis, size) for axis, size in enumerate(self.spec.shape))
        found = [ArraySpec(shape, self.spec.dtype, self.spec.unit)]
        if self.mask:
            found.append(ArraySpec(tuple(shape[axis] for axis in axes), np.dtype(bool)))
        if self.lengths:
            found.append(ArraySpec((len(axes),) if len(axes) > 1 else (), np.dtype(np.int64)))
        return found

    def open(self, shapes: Array, bucket: int, pool: BufferPool) -> Opened:
        axes = list(self.spec.varying)
        sizes = self.sizes(shapes, bucket)
        have = shapes.copy()
        have[:, axes] = np.minimum(shapes[:, axes], sizes)
        if not self.truncate and (have != shapes).any():
            raise self._too_long(shapes, sizes)
        whole = shapes[0].copy()
        whole[axes] = sizes
        out = pool.empty((len(shapes), *whole.tolist()), self.spec.dtype)
        arrays = [out]
        if self.mask:
            arrays.append(_mask(have[:, axes], sizes, pool))
        if self.lengths:
            lengths = pool.empty((len(have), len(axes)) if len(axes) > 1 else (len(have),), np.dtype(np.int64))
            np.copyto(lengths, have[:, axes].reshape(lengths.shape))
            arrays.append(lengths)
        return Opened(arrays, self._views(out, have, whole))

    def sizes(self, shapes: Array, bucket: int) -> Array:
        """The size of each axis that varies in a batch of examples of `shapes`."""
        if self.to is not None:
            return self._round(np.array(self.to, np.int64))
        if self.edges is not None:
            return self._round(self.edges[bucket])
        return self._round(shapes[:, list(self.spec.varying)].max(axis=0))

    def _round(self, sizes: Array) -> Array:
        return -(-sizes // self.multiple) * self.multiple

    def _views(self, out: Array, have: Array, whole: Array) -> list[Array]:
        """Fill what lies beyond each example, and return what does not."""
        if self.spec.varying == (0,):
            views = [example[:count] for example, count in zip(out, have[:, 0].tolist(), strict=True)]
            for example, view in zip(out, views, strict=True):
                example[len(view) :] = self.value
            return views
        views = []
        for example, shape in zip(out, have.tolist(), strict=True):
            for axis in self.spec.varying:
                if shape[axis] < whole[axis]:
                    example[(slice(None),) * axis + (slice(shape[axis], None),)] = self.value
            views.append(example[tuple(map(slice, shape))])
        return views

    def _too_long(self, shapes: Array, sizes: Array) -> ShapeMismatchError:
        longest = shapes[:, list(self.spec.varying)].max(axis=0)
        return ShapeMismatchError(
            f"{self.name or 'data'}: an example of length {_show(longest)} does not fit Pad(to={_show(sizes)}); "
            f"pass a larger to=, or truncate=True to cut the end"
        )


@dataclass(frozen=True, slots=True)
class Flat:
    """Examples one after another, with row splits for a ``tf.RaggedTensor``.

    Parameters
    ----------
    spec : ArraySpec
        Of an example; at least one axis varies.
    """

    spec: ArraySpec

    @property
    def depth(self) -> int:
        """Axes up to the last that varies."""
        return self.spec.varying[-1] + 1

    @property
    def split_axes(self) -> tuple[int, ...]:
        """The axes with row splits: those that vary, and empty ones, whose rows nothing else would count."""
        return tuple(axis for axis in range(self.depth) if self.spec.shape[axis] in (None, 0))

    @property
    def specs(self) -> list[ArraySpec]:
        splits = [ArraySpec((), np.dtype(np.int64)) for _ in self.split_axes]
        return [ArraySpec(self.spec.shape[self.depth :], self.spec.dtype, self.spec.unit), *splits]

    def open(self, shapes: Array, bucket: int, pool: BufferPool) -> Opened:
        del bucket
        counts = shapes[:, : self.depth].prod(axis=1)
        ends = np.cumsum(counts)
        values = pool.empty((int(ends[-1]), *shapes[0, self.depth :].tolist()), self.spec.dtype)
        views = [
            values[end - count : end].reshape(shape)
            for end, count, shape in zip(ends.tolist(), counts.tolist(), shapes.tolist(), strict=True)
        ]
        return Opened([values, *(_splits(shapes, axis, pool) for axis in self.split_axes)], views)


def _splits(shapes: Array, axis: int, pool: BufferPool) -> Array:
    """Where the rows along `axis` begin and end, for all examples together."""
    rows = np.repeat(shapes[:, axis], shapes[:, :axis].prod(axis=1))
    splits = pool.empty((len(rows) + 1,), np.dtype(np.int64))
    splits[0] = 0
    np.cumsum(rows, out=splits[1:])
    return splits


def _mask(have: Array, sizes: Array, pool: BufferPool) -> Array:
    """True where data is: bool ``(batch, *sizes)``."""
    mask = pool.empty((len(have), *sizes.tolist()), np.dtype(bool))
    mask[...] = True
    for axis, size in enumerate(sizes.tolist()):
        inside = np.arange(size) < have[:, axis, None]
        mask &= inside.reshape(len(have), *(size if at == axis else 1 for at in range(len(sizes))))
    return mask


def _show(sizes: Array) -> str:
    return str(int(sizes[0])) if len(sizes) == 1 else str(tuple(sizes.tolist()))
