"""From a flow and the options of a batch to the reader that makes them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.errors import NpyflowWarning, OptionError
from npyflow._core.options import Bucket, Pad, flag, integer
from npyflow._core.structure import spread
from npyflow._core.text import examples, plural
from npyflow._flow.options import shard_of, shuffle_of
from npyflow._flow.padding import Lengths, plan_collators
from npyflow._flow.sampling import plan_sampling
from npyflow._order.buckets import Bucketed, assign, best_edges
from npyflow._order.layout import BUDGET_BYTES, plan_layout, plan_pace
from npyflow._order.order import Order
from npyflow._order.schedule import Even
from npyflow._read.collate import Padded
from npyflow._read.reader import Reader

if TYPE_CHECKING:
    from npyflow._core.options import Shuffle
    from npyflow._flow.view import View
    from npyflow._order.layout import Pace
    from npyflow._order.schedule import AnyOrder, Schedule

Array = np.ndarray[Any, Any]

# Reading smaller files from two threads at once is slower than from one.
_SMALL_FILE_BYTES = 64 * 1024
# Nine of ten examples are smaller.
_USUAL = 0.9


@dataclass(frozen=True, eq=False)
class Batching:
    """How examples become batches: the options that `Flow.batches` and `Flow.to_tf` share.

    Parameters
    ----------
    batch_size : int or None
        None for single examples.
    shuffle, seed, drop_remainder, shard, with_index, pad, bucket, ragged, sample
        As in `Flow.to_tf`.
    """

    batch_size: int | None
    shuffle: bool | Shuffle = False
    seed: int = 0
    drop_remainder: bool = False
    shard: tuple[int, int] = (0, 1)
    with_index: bool = False
    pad: Any = None
    bucket: Bucket | None = None
    ragged: bool = False
    sample: Any = None

    def reader(self, view: View) -> Reader:
        """Return what reads `view` in this way.

        Raises
        ------
        OptionError
            If an option is out of range, or two exclude each other.
        ShapeMismatchError
            If examples differ in shape and nothing says what to do about it.
        """
        return _Plan(view, self).reader()


class _Plan:
    """One reader in the making."""

    def __init__(self, view: View, batching: Batching) -> None:
        self._view = view
        self._how = batching
        self._examples = view.examples
        self._size = integer("batch_size", 1 if batching.batch_size is None else batching.batch_size, 1)
        self._seed = integer("seed", batching.seed)
        self._shuffle = shuffle_of(batching.shuffle)
        self._shard = shard_of(batching.shard)
        self._drop_remainder = flag("drop_remainder", batching.drop_remainder)
        if batching.bucket is not None:
            self._check_bucket(batching.bucket)

    def reader(self) -> Reader:
        collators = plan_collators(
            self._examples.specs,
            self._view.structure,
            pad=self._how.pad,
            ragged=flag("ragged", self._how.ragged),
            single=self._how.batch_size is None,
            lengths=Lengths(shapes=self._delivered_shapes, edges=self._edges_of, where=self._view.name),
        )
        return Reader(
            examples=self._examples,
            rows=self._view.rows,
            schedule=self._schedule(),
            collators=collators,
            where=self._view.name,
            with_index=flag("with_index", self._how.with_index),
        )

    def _schedule(self) -> Schedule:
        bucket, n = self._how.bucket, len(self._view)
        if bucket is not None:
            buckets, sizes = self._buckets[self._view.rows()], self._batch_sizes(bucket)
            if self._drop_remainder:
                _warn_of_lost(buckets, sizes, self._all_edges())
            return Bucketed(
                buckets,
                sizes,
                shuffle=self._shuffle is not None,
                seed=self._seed,
                drop_remainder=self._drop_remainder,
                shard=self._shard,
            )
        order = self._order(n)
        layout = plan_layout(
            examples=len(order),
            example_bytes=example_bytes(self._view),
            batch_size=self._size,
            drop_remainder=self._drop_remainder,
            # What is padded has another shape in each batch.
            whole=any(spec.varying for spec in self._examples.specs),
        )
        return Even(n=n, order=order, layout=layout)

    def _order(self, n: int) -> AnyOrder:
        if self._how.sample is None:
            return Order(n, shuffle=self._shuffle, seed=self._seed, shard=self._shard)
        if self._shuffle is not None and self._shuffle.block is not None:
            raise OptionError("sample= and Shuffle(block=) exclude each other: a sample is in random order by itself")
        view = self._view
        return plan_sampling(self._how.sample, n, view.labels, view.content.classes, self._seed, self._shard)

    # Buckets

    def _check_bucket(self, bucket: Bucket) -> None:
        if not isinstance(bucket, Bucket):
            raise OptionError(f"bucket={bucket!r}: expected npyflow.Bucket(...)")
        if self._how.batch_size is None:
            raise OptionError("bucket= without a batch size")
        if self._how.sample is not None:
            raise OptionError("bucket= and sample= exclude each other: a sampled epoch fills other buckets every time")
        if self._shuffle is not None and self._shuffle.block is not None:
            raise OptionError("bucket= and Shuffle(block=) exclude each other; pass shuffle=True")

    @cached_property
    def _varying(self) -> dict[str, int]:
        """The components whose lengths the headers tell, and which leaf of the sources each is."""
        specs = self._examples.sources.specs
        return {
            name: leaf
            for leaf, (name, spec) in enumerate(zip(self._view.content.structure.leaves, specs, strict=True))
            if spec.varying
        }

    @cached_property
    def _by(self) -> int:
        """The leaf whose length decides."""
        by = None if self._how.bucket is None else self._how.bucket.by
        if not self._varying:
            raise OptionError("bucket=: all examples have one shape; there is nothing to put into buckets")
        if by is None:
            return next(iter(self._varying.values()))
        if by not in self._varying:
            raise OptionError(
                f"Bucket(by={by!r}): expected a component that varies: {examples(map(repr, self._varying))}"
            )
        return self._varying[by]

    @cached_property
    def _lengths(self) -> Array:
        """The length of every example of the data set, so that its parts have the same buckets."""
        lengths: Array = self._sizes(self._by).prod(axis=1)
        return lengths

    @cached_property
    def _edges(self) -> list[int]:
        bucket = self._how.bucket
        if bucket is None or bucket.boundaries is None:
            return best_edges(self._lengths, 1 if bucket is None else bucket.count or 1)
        return list(bucket.boundaries)

    @cached_property
    def _buckets(self) -> Array:
        """The bucket of every example of the data set."""
        return assign(self._lengths, self._edges)

    def _all_edges(self) -> list[int]:
        """The edges, and the longest example if it is beyond them."""
        longest = int(self._lengths.max())
        return self._edges if longest <= self._edges[-1] else [*self._edges, longest]

    def _batch_sizes(self, bucket: Bucket) -> list[int]:
        """Examples of a batch of each bucket."""
        if bucket.max_elements is None:
            return [self._size] * len(self._all_edges())
        if self._examples.mappings:
            raise OptionError("Bucket(max_elements=) after map(): only the function knows how large its examples are")
        spec = self._examples.sources.specs[self._by]
        pad = spread(self._how.pad, self._view.structure, "pad")[self._by]
        multiple = pad.multiple or 1 if isinstance(pad, Pad) else 1
        sizes = -(-self._bucket_sizes(self._by) // multiple) * multiple
        step = max(1, spec.nbytes // max(1, spec.dtype.itemsize))
        elements = np.maximum(1, sizes.prod(axis=1) * step)
        return [max(1, min(self._size, bucket.max_elements // int(one))) for one in elements]

    def _edges_of(self, leaf: int) -> Array | None:
        return None if self._how.bucket is None or self._examples.mappings else self._bucket_sizes(leaf)

    def _bucket_sizes(self, leaf: int) -> Array:
        """The largest of each bucket along the axes that vary, int64 ``(buckets, axes)``."""
        if leaf == self._by and len(self._examples.sources.specs[leaf].varying) == 1:
            return np.array(self._all_edges(), np.int64)[:, None]
        sizes = self._sizes(leaf)
        edges = np.zeros((len(self._all_edges()), sizes.shape[1]), np.int64)
        np.maximum.at(edges, self._buckets, sizes)
        return edges

    # Shapes

    def _sizes(self, leaf: int) -> Array:
        """The sizes of the axes that vary, for every example of the data set."""
        axes = list(self._examples.sources.specs[leaf].varying)
        return self._examples.shapes(leaf, np.arange(len(self._examples), dtype=np.int64))[:, axes]

    def _delivered_shapes(self, leaf: int) -> Array | None:
        return None if self._examples.mappings else self._examples.shapes(leaf, self._view.rows())


def _warn_of_lost(buckets: Array, sizes: list[int], edges: list[int]) -> None:
    """Warn of what never comes where remainders are dropped: buckets with fewer examples than a batch."""
    counts = np.bincount(buckets, minlength=len(sizes)).tolist()
    lost = [(count, edge) for count, size, edge in zip(counts, sizes, edges, strict=True) if 0 < count < size]
    if lost:
        warnings.warn(
            f"drop_remainder=True: {plural(sum(count for count, _ in lost), 'example')} never come, because their "
            f"buckets (up to length {examples(f'{edge:,}' for _, edge in lost)}) have fewer than a batch; use fewer "
            f"buckets or smaller batches, or keep the remainder",
            NpyflowWarning,
            stacklevel=7,
        )


def example_bytes(view: View) -> int:
    """Bytes of an example, as it is read or as it is delivered, whichever is more; of the largest if they differ."""
    made = sum(spec.nbytes for spec in view.examples.specs)
    return max(made, view.examples.sources.example_bytes)


def _usual_bytes(view: View) -> int:
    """Bytes that an example has room for in most batches: one long file is no reason to plan for it all the time."""
    rows = view.rows()
    total = 0
    for leaf, (_, spec) in enumerate(view.examples.sources.leaves):
        items = spec.nbytes
        if spec.varying and len(rows):
            sizes = view.examples.shapes(leaf, rows)[:, list(spec.varying)].prod(axis=1)
            items *= int(np.quantile(sizes, _USUAL))
        total += items
    return max(total, sum(spec.nbytes for spec in view.examples.specs))


def pace_of(view: View, reader: Reader) -> Pace:
    """How far to run ahead; the pool keeps memory for that."""
    sources = view.examples.sources
    small_files = any(
        source.access == "files" and source.example_bytes < _SMALL_FILE_BYTES for source in sources.sources
    )
    schedule = reader.schedule
    read_bytes = max(1, _usual_bytes(view) * schedule.batch_size * schedule.batches_per_read)
    pace = plan_pace(read_bytes, small_files=small_files)
    # Buffers are up to an eighth larger than what is in them.
    sources.pool.keep(min(BUDGET_BYTES, read_bytes * (pace.in_flight + 1) * 9 // 8))
    return pace


def padding_share(view: View, reader: Reader) -> float:
    """The share of elements that are padding in an epoch, counted without reading anything.

    Raises
    ------
    OptionError
        If a function may change the lengths.
    """
    if view.examples.mappings:
        raise OptionError("padding() after map(): only the function knows the lengths; ask the flow before map()")
    schedule = reader.schedule
    total = data = 0
    for read in range(schedule.reads(0)):
        draw = schedule.draw(0, 0, read)
        for elements, filled in _elements(view, reader, view.rows(draw.indices), draw.bucket):
            total += elements
            data += filled
    return 1 - data / total if total else 0.0


def _elements(view: View, reader: Reader, rows: Array, bucket: int) -> list[tuple[int, int]]:
    """For each component that is padded its elements in a batch, and how many of them are data."""
    found = []
    for leaf, collator in enumerate(reader.collators):
        if isinstance(collator, Padded):
            shapes = view.examples.shapes(leaf, rows)
            whole = shapes.copy()
            whole[:, list(collator.spec.varying)] = collator.sizes(shapes, bucket)
            found.append((int(whole.prod(axis=1).sum()), int(np.minimum(shapes, whole).prod(axis=1).sum())))
    return found
