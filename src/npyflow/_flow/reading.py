"""From a flow and the options of a batch to the reader that makes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.errors import OptionError
from npyflow._core.options import flag, integer
from npyflow._flow.bucketing import Buckets
from npyflow._flow.options import shard_of, shuffle_of
from npyflow._flow.padding import Lengths, plan_collators
from npyflow._order.layout import BUDGET_BYTES, plan_layout, plan_pace
from npyflow._order.order import Order
from npyflow._order.schedule import Even
from npyflow._read.collate import Padded
from npyflow._read.reader import Reader

if TYPE_CHECKING:
    from npyflow._core.options import Bucket, Shuffle
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
        self._buckets: Buckets | None = None
        if batching.bucket is not None:
            self._check_bucket()
            self._buckets = Buckets(view, batching.bucket, self._size, batching.pad)

    def reader(self) -> Reader:
        collators = plan_collators(
            self._examples.specs,
            self._view.structure,
            pad=self._how.pad,
            ragged=flag("ragged", self._how.ragged),
            single=self._how.batch_size is None,
            lengths=Lengths(shapes=self._shapes, edges=self._edges, where=self._view.name),
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
        n = len(self._view)
        if self._buckets is not None:
            return self._buckets.schedule(
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
        # Here, because few flows are sampled.
        from npyflow._flow.sampling import plan_sampling

        view = self._view
        return plan_sampling(self._how.sample, n, view.labels, view.content.classes, self._seed, self._shard)

    def _check_bucket(self) -> None:
        if self._how.batch_size is None:
            raise OptionError("bucket= without a batch size")
        if self._how.sample is not None:
            raise OptionError("bucket= and sample= exclude each other: a sampled epoch fills other buckets every time")
        if self._shuffle is not None and self._shuffle.block is not None:
            raise OptionError("bucket= and Shuffle(block=) exclude each other; pass shuffle=True")

    def _edges(self, leaf: int) -> Array | None:
        return None if self._buckets is None or self._examples.mappings else self._buckets.sizes(leaf)

    def _shapes(self, leaf: int) -> Array | None:
        return None if self._examples.mappings else self._examples.shapes(leaf, self._view.rows())


def example_bytes(view: View) -> int:
    """Bytes of an example, as it is read or as it is delivered, whichever is more; of the largest if they differ."""
    made = sum(spec.nbytes for spec in view.examples.specs)
    return max(made, view.examples.sources.example_bytes)


def _usual_bytes(view: View) -> int:
    """Bytes that an example has room for in most batches: one long file is no reason to plan for it all the time."""
    total = 0
    for leaf, (_, spec) in enumerate(view.examples.sources.leaves):
        items = spec.nbytes
        if spec.varying and len(view):
            sizes = view.examples.shapes(leaf, view.rows())[:, list(spec.varying)].prod(axis=1)
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
