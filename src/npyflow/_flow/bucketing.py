"""The buckets of a data set: edges, members and batch sizes, from the headers alone."""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.errors import NpyflowWarning, OptionError
from npyflow._core.options import Bucket, Pad
from npyflow._core.structure import spread
from npyflow._core.text import examples, plural
from npyflow._order.buckets import Bucketed, assign, best_edges

if TYPE_CHECKING:
    from npyflow._flow.view import View

Array = np.ndarray[Any, Any]


class Buckets:
    """How the examples of a view fall into buckets.

    Edges come from the whole data set, so that its parts have the same ones.

    Parameters
    ----------
    view : View
        The examples.
    bucket : Bucket
        What the user wants.
    batch_size : int
        Examples of a batch at most.
    pad : scalar, Pad, or a tuple or dict of them, optional
        How batches are filled up: it counts where their elements are limited.

    Raises
    ------
    OptionError
        If no component varies, or another one than `bucket` names.
    """

    def __init__(self, view: View, bucket: Bucket, batch_size: int, pad: Any) -> None:
        if not isinstance(bucket, Bucket):
            raise OptionError(f"bucket={bucket!r}: expected npyflow.Bucket(...)")
        self._view = view
        self._bucket = bucket
        self._batch_size = batch_size
        self._pad = pad
        self._specs = view.examples.sources.specs
        self._by = _leaf_of(view, bucket)

    def schedule(self, *, shuffle: bool, seed: int, drop_remainder: bool, shard: tuple[int, int]) -> Bucketed:
        """Return the batches of an epoch; parameters as `Bucketed`."""
        numbers, sizes = self._numbers[self._view.rows()], self._batch_sizes()
        if drop_remainder:
            _warn_of_lost(numbers, sizes, self._all_edges)
        return Bucketed(numbers, sizes, shuffle=shuffle, seed=seed, drop_remainder=drop_remainder, shard=shard)

    def sizes(self, leaf: int) -> Array:
        """The largest of each bucket along the axes of a leaf that vary, int64 ``(buckets, axes)``."""
        if leaf == self._by and len(self._specs[leaf].varying) == 1:
            return np.array(self._all_edges, np.int64)[:, None]
        largest = np.zeros((len(self._all_edges), len(self._specs[leaf].varying)), np.int64)
        np.maximum.at(largest, self._numbers, self._varying_sizes(leaf))
        return largest

    @cached_property
    def _lengths(self) -> Array:
        """The length of every example of the data set."""
        lengths: Array = self._varying_sizes(self._by).prod(axis=1)
        return lengths

    @cached_property
    def _edges(self) -> list[int]:
        if self._bucket.boundaries is None:
            return best_edges(self._lengths, self._bucket.count or 1)
        return list(self._bucket.boundaries)

    @cached_property
    def _all_edges(self) -> list[int]:
        """The edges, and the longest example if it is beyond them."""
        longest = int(self._lengths.max(initial=0))
        return self._edges if longest <= self._edges[-1] else [*self._edges, longest]

    @cached_property
    def _numbers(self) -> Array:
        """The bucket of every example of the data set."""
        return assign(self._lengths, self._edges)

    def _batch_sizes(self) -> list[int]:
        """Examples of a batch of each bucket."""
        if self._bucket.max_elements is None:
            return [self._batch_size] * len(self._all_edges)
        if self._view.examples.mappings:
            raise OptionError("Bucket(max_elements=) after map(): only the function knows how large its examples are")
        spec = self._specs[self._by]
        pad = spread(self._pad, self._view.structure, "pad")[self._by]
        multiple = pad.multiple or 1 if isinstance(pad, Pad) else 1
        sizes = -(-self.sizes(self._by) // multiple) * multiple
        step = max(1, spec.nbytes // max(1, spec.dtype.itemsize))
        elements = np.maximum(1, sizes.prod(axis=1) * step).tolist()
        return [max(1, min(self._batch_size, self._bucket.max_elements // one)) for one in elements]

    def _varying_sizes(self, leaf: int) -> Array:
        """The sizes of the axes that vary, for every example of the data set."""
        everything = np.arange(len(self._view.examples), dtype=np.int64)
        return self._view.examples.shapes(leaf, everything)[:, list(self._specs[leaf].varying)]


def _leaf_of(view: View, bucket: Bucket) -> int:
    """The leaf of the sources whose length decides."""
    names = view.content.structure.leaves
    varying = {name: leaf for leaf, name in enumerate(names) if view.examples.sources.specs[leaf].varying}
    if not varying:
        raise OptionError("bucket=: all examples have one shape; there is nothing to put into buckets")
    if bucket.by is None:
        return next(iter(varying.values()))
    if bucket.by not in varying:
        raise OptionError(f"Bucket(by={bucket.by!r}): expected a component that varies: {examples(map(repr, varying))}")
    return varying[bucket.by]


def _warn_of_lost(numbers: Array, sizes: list[int], edges: list[int]) -> None:
    """Warn of what never comes where remainders are dropped: buckets with fewer examples than a batch."""
    counts = np.bincount(numbers, minlength=len(sizes)).tolist()
    lost = [(count, edge) for count, size, edge in zip(counts, sizes, edges, strict=True) if 0 < count < size]
    if lost:
        warnings.warn(
            f"drop_remainder=True: {plural(sum(count for count, _ in lost), 'example')} never come, because their "
            f"buckets (up to length {examples(f'{edge:,}' for _, edge in lost)}) have fewer than a batch; use fewer "
            f"buckets or smaller batches, or keep the remainder",
            NpyflowWarning,
            stacklevel=8,
        )
