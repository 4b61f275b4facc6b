"""From a `Reader` to a ``tf.data.Dataset``.

The dataset is ``range`` over reads, a stateless Python function that makes each, and native ops that cut reads into
batches. It holds no array and no reference to the flow: see `_anchor`.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from npyflow._core.buffers import BufferPool
from npyflow._core.errors import UnsupportedDtypeError
from npyflow._read.collate import Flat

if TYPE_CHECKING:
    from collections.abc import Callable

    from npyflow._core.spec import ArraySpec
    from npyflow._core.structure import Structure
    from npyflow._order.layout import Pace
    from npyflow._read.reader import Reader

Array = np.ndarray[Any, Any]


@dataclass(kw_only=True, eq=False)
class Feed:
    """Everything that the Python side of one dataset needs.

    Parameters
    ----------
    reader : Reader
        Makes the reads.
    structure : Structure of Slot
        Where in a batch each array belongs.
    pace : Pace
        How far reads run ahead.
    unbatch : bool
        Deliver single examples.
    epochs : int or None
        Where to stop; None for one epoch a pass, numbered on.
    start_epoch, start_step : int
        Where to begin; `start_step` counts only in `start_epoch`.
    on_error : callable
        Is told of what a read raises.
    """

    reader: Reader
    structure: Structure[Any]
    pace: Pace
    unbatch: bool
    epochs: int | None
    start_epoch: int
    start_step: int
    on_error: Callable[[Exception], None]
    _next_epoch: int = field(init=False)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._next_epoch = self.start_epoch

    def first_step(self, epoch: int) -> int:
        """The step that `epoch` begins with."""
        return self.start_step if epoch == self.start_epoch else 0

    def draw_epoch(self) -> int:
        """Number the next pass."""
        with self._lock:
            self._next_epoch += 1
            return self._next_epoch - 1

    def begin_epoch(self, epoch: int) -> None:
        """Let passes be numbered on from `epoch`, which another process may have drawn."""
        with self._lock:
            self._next_epoch = max(self._next_epoch, epoch + 1)

    def read(self, epoch: int, read: int) -> list[Array]:
        """Make one read: the arrays of all columns, one after another."""
        try:
            columns = self.reader.read(epoch, self.first_step(epoch), read)
            return [array for column in columns for array in column.arrays]
        except Exception as error:
            self.on_error(_without_frames(error))
            raise


def _without_frames(error: Exception) -> Exception:
    """A copy, with its cause and without a traceback, whose frames would keep the anchor, and so a feed, alive."""
    # A package such as tblib, which TensorFlow loads if it is there, makes copies keep theirs.
    kept = copy.copy(error).with_traceback(None)
    kept.__context__ = None
    if isinstance(error.__cause__, Exception):
        # A class of the user's may not let itself be copied.
        with contextlib.suppress(Exception):
            kept.__cause__ = _without_frames(error.__cause__)
    return kept


# Its graph optimiser fails on them: "Converting f8E5M2 to DataType".
_UNRUNNABLE = ("float8_e5m2",)

# TensorFlow keeps the function of every numpy_function for the life of the process, so the functions are the three
# below and what they work on is looked up here.
_feeds: dict[int, Feed] = {}
_numbers = itertools.count(1)
_anchors = BufferPool(keep_bytes=0)


class _Entry:
    """Owner of an entry in `_feeds`; removes it when it dies."""

    __slots__ = ("__array_interface__", "_memory", "_number")

    def __init__(self, feed: Feed) -> None:
        self._number = next(_numbers)
        self._memory = _anchors.empty((8,), np.dtype(np.int64))
        self._memory[:] = self._number
        self.__array_interface__ = self._memory.__array_interface__
        _feeds[self._number] = feed

    def __del__(self) -> None:
        _feeds.pop(self._number, None)


def _anchor(feed: Feed) -> Any:
    """Return a tensor that names `feed`, and keeps it in `_feeds` for as long as the tensor is held anywhere.

    The tensor aliases memory of the entry, by DLPack, and the dataset captures the tensor. When the last dataset,
    iterator or traced function goes, TensorFlow releases the memory and with it the entry.
    """
    return tf.experimental.dlpack.from_dlpack(np.asarray(_Entry(feed)).__dlpack__())


def _serve_read(anchor: Array, epoch: Array, read: Array) -> list[Array]:
    return [_as_tensor_values(array) for array in _feeds[int(anchor[0])].read(int(epoch), int(read))]


def _as_tensor_values(array: Array) -> Array:
    """Text as the byte strings that TensorFlow knows; everything else as it is."""
    if array.dtype.kind == "U":
        array = np.strings.encode(array, "utf-8")
    return array.astype(object) if array.dtype.kind == "S" else array


def _tf_dtype(spec: ArraySpec, unbatch: bool) -> Any:
    if spec.dtype.name in _UNRUNNABLE:
        raise UnsupportedDtypeError(
            f"TensorFlow has the type {spec.dtype.name} but no dataset of it runs; batches() delivers it, and "
            f"dtype='uint8' delivers its bits, for tf.bitcast outside the dataset"
        )
    if unbatch and spec.dtype.name.startswith("float8"):
        raise UnsupportedDtypeError(
            f"TensorFlow cannot cut single examples out of a batch of {spec.dtype.name}; pass a batch_size"
        )
    try:
        return tf.string if spec.dtype.kind in "US" else tf.as_dtype(spec.dtype)
    except TypeError:
        raise UnsupportedDtypeError(
            f"TensorFlow {tf.__version__} has no type {spec.dtype.name}; use a newer one, or batches()"
        ) from None


def _serve_epoch(anchor: Array, _: Array) -> Array:
    return np.asarray(_feeds[int(anchor[0])].draw_epoch(), np.int64)


def _serve_begin(anchor: Array, epoch: Array) -> Array:
    _feeds[int(anchor[0])].begin_epoch(int(epoch))
    return epoch


def build(feed: Feed) -> Any:
    """Return the dataset.

    Notes
    -----
    Built on the host and outside any graph, also when called inside a ``tf.function`` or under a device scope.
    """
    types = [_tf_dtype(spec, feed.unbatch) for column in feed.reader.columns for spec in column.specs]
    with tf.init_scope(), tf.device("CPU:0"):
        anchor = _anchor(feed)
        dataset = _epochs(feed, anchor).flat_map(lambda epoch: _epoch(feed, types, anchor, epoch))
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(_cardinality(feed)))
        options = tf.data.Options()
        # Every worker may read every file; what it must not read twice are examples.
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
        return dataset.with_options(options)


def _epochs(feed: Feed, anchor: Any) -> Any:
    """The epochs of one pass: given ones, or one that is numbered when the pass begins.

    Numbered in a map of its own: a checkpoint keeps what the map gave out, while what is inside ``flat_map`` runs again
    when an iterator is restored.
    """
    if feed.epochs is not None:
        return tf.data.Dataset.range(feed.start_epoch, feed.epochs)
    return tf.data.Dataset.range(1).map(
        lambda number: tf.ensure_shape(tf.numpy_function(_serve_epoch, [anchor, number], tf.int64, stateful=False), ())
    )


def _epoch(feed: Feed, types: list[Any], anchor: Any, epoch: Any) -> Any:
    """The batches of one epoch, by itself, so that a short last batch is not filled up from the next."""
    schedule, pace = feed.reader.schedule, feed.pace
    if feed.epochs is None:
        # Runs when a pass begins, and again when an iterator is restored, maybe in another process.
        epoch = tf.ensure_shape(tf.numpy_function(_serve_begin, [anchor, epoch], tf.int64, stateful=False), ())
    first, full = (tf.constant(schedule.reads(step), tf.int64) for step in (feed.start_step, 0))
    # A batch that is a read of its own is full by plan where remainders are dropped.
    size = schedule.batch_size if schedule.batches_per_read == 1 and schedule.full and not feed.unbatch else None

    # A read of one example needs no cutting.
    alone = feed.unbatch and schedule.batches_per_read == 1

    # Nothing to convert; and what AutoGraph converts, it keeps.
    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def read(number: Any) -> Any:
        arrays = tf.numpy_function(_serve_read, [anchor, epoch, number], types, stateful=False)
        return _pack(feed, [array[0] for array in arrays] if alone else list(arrays), size, alone)

    reads = tf.data.Dataset.range(tf.where(tf.equal(epoch, feed.start_epoch), first, full))
    dataset = reads.map(read, num_parallel_calls=pace.parallel, deterministic=True)
    if pace.ahead:
        dataset = dataset.prefetch(pace.ahead)
    if feed.unbatch:
        return dataset if alone else _single(feed, dataset)
    if schedule.batches_per_read > 1:
        return dataset.rebatch(schedule.batch_size, drop_remainder=schedule.full)
    return dataset


def _single(feed: Feed, dataset: Any) -> Any:
    """Cut reads into examples."""
    if not any(0 in spec.shape for column in feed.reader.columns for spec in column.specs):
        return dataset.unbatch()
    # TensorFlow's own crashes where an example has no element.
    return dataset.flat_map(lambda *read: tf.data.Dataset.from_tensor_slices(read if len(read) > 1 else read[0]))


def _pack(feed: Feed, arrays: list[Any], size: int | None, alone: bool) -> Any:
    """Give the arrays of a read their shapes and their places: in a batch of `size`, None if that is not known."""
    columns: list[list[Any]] = []
    for column in feed.reader.columns:
        mine, arrays = arrays[: len(column.specs)], arrays[len(column.specs) :]
        for array, spec in zip(mine, column.specs, strict=True):
            batch = () if alone else (None if isinstance(column, Flat) else size,)
            array.set_shape((*batch, *spec.shape))
        columns.append(mine)
    leaves = []
    for slot in feed.structure.leaves:
        mine = columns[slot.column]
        leaves.append(_ragged(feed.reader.columns[slot.column], mine, size) if slot.array is None else mine[slot.array])
    return feed.structure.pack(leaves)


def _ragged(column: Any, arrays: list[Any], size: int | None) -> Any:
    """A ragged tensor of examples that stand one after another; axes on which all agree stay uniform."""
    values, *splits = arrays
    for axis in range(column.depth - 1, -1, -1):
        if axis not in column.split_axes:
            rows = None if axis else size
            values = tf.RaggedTensor.from_uniform_row_length(values, column.spec.shape[axis], nrows=rows)
        else:
            rows = splits.pop()
            rows.set_shape((None if size is None or axis else size + 1,))
            values = tf.RaggedTensor.from_row_splits(values, rows, validate=False)
    return values


def _cardinality(feed: Feed) -> int:
    steps = feed.reader.schedule.steps
    epochs = 1 if feed.epochs is None else feed.epochs - feed.start_epoch
    return epochs * steps - feed.start_step
