"""TFRecord files as a ``tf.data.Dataset`` of native ops: no Python runs while it is read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from npyflow._core.dtypes import is_small_float
from npyflow._core.errors import UnsupportedDtypeError
from npyflow._format.example import kind_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npyflow._core.dtypes import DType
    from npyflow._core.spec import ArraySpec
    from npyflow._core.structure import Structure
    from npyflow._format.schema import Column

Array = np.ndarray[Any, Any]

# Files that are read at once when the order is shuffled, and records in a row from each.
_CYCLE, _BLOCK = 8, 16
_READ_BYTES = 1 << 20
# What decode_raw has no type for: read as these, whose bits are the same.
_CARRIERS = {"uint32": tf.int32, "uint64": tf.int64}
# Datasets of it do not run: "Converting f8E5M2 to DataType".
_UNRUNNABLE = ("float8_e5m2",)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Records:
    """What to read and how to deliver it.

    Parameters
    ----------
    paths : list of str
        In order.
    columns : sequence of Column
        In the order of the leaves.
    structure : Structure
        The nesting of an example.
    encoding, compression : str
        Of the files; ``""`` or ``"GZIP"``.
    batch_size : int or None
        None for single examples.
    drop_remainder : bool
        Leave out a last batch that is not full.
    buffer : int
        Examples that are mixed; 0 for the order of the files.
    seed : int
        Of the order.
    pads : list of (array or None)
        What each component is filled up with.
    ragged : bool
        Deliver ragged tensors of what varies.
    epochs : int or None
        How many, one after another; None for one.
    steps : int
        Of an epoch.
    """

    paths: list[str]
    columns: Sequence[Column]
    structure: Structure[Any]
    encoding: str
    compression: str
    batch_size: int | None
    drop_remainder: bool
    buffer: int
    seed: int
    pads: list[Array | None]
    ragged: bool
    epochs: int | None
    steps: int

    @property
    def varying(self) -> bool:
        """Whether examples differ in shape."""
        return any(column.spec.varying for column in self.columns)


def build(records: Records) -> Any:
    """Return the dataset, built on the host and outside any graph.

    Raises
    ------
    UnsupportedDtypeError
        If TensorFlow has no type for a column, or none that a dataset can deliver.
    """
    for column in records.columns:
        _tf_dtype(column.spec.dtype, column.name)
    with tf.init_scope(), tf.device("CPU:0"):
        dataset = _batched(records, _serialized(records))
        if records.epochs is not None:
            dataset = dataset.repeat(records.epochs)
        dataset = dataset.prefetch(tf.data.AUTOTUNE)
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(records.steps * (records.epochs or 1)))
        options = tf.data.Options()
        # Every worker may read every file; what it must not read twice are examples.
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
        return dataset.with_options(options)


def _serialized(records: Records) -> Any:
    """The records, in the order of the files or mixed."""
    paths = tf.constant(records.paths, tf.string, (len(records.paths),))
    how = {"compression_type": records.compression, "buffer_size": _READ_BYTES}
    if not records.buffer:
        return tf.data.TFRecordDataset(paths, **how)
    seed = records.seed % (1 << 62)
    files = tf.data.Dataset.from_tensor_slices(paths)
    if len(records.paths) > 1:
        files = files.shuffle(len(records.paths), seed=seed, reshuffle_each_iteration=True)

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def read(path: Any) -> Any:
        return tf.data.TFRecordDataset(path, **how)

    mixed = files.interleave(
        read,
        cycle_length=max(1, min(_CYCLE, len(records.paths))),
        block_length=_BLOCK,
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )
    return mixed.shuffle(records.buffer, seed=seed, reshuffle_each_iteration=True)


def _batched(records: Records, dataset: Any) -> Any:
    """Parsed examples: a batch at a time where all have one shape, which is several times as fast."""
    size, drop = records.batch_size, records.drop_remainder

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def parse(serialized: Any) -> Any:
        return _parsed(records, serialized)

    if size is not None and not records.varying:
        dataset = dataset.batch(size, drop_remainder=drop)
    dataset = dataset.map(parse, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    if size is None or not records.varying:
        return dataset
    if records.ragged:
        return dataset.ragged_batch(size, drop_remainder=drop)
    values = [
        tf.constant(_fill(column.spec.dtype, pad), _tf_dtype(column.spec.dtype, column.name))
        for column, pad in zip(records.columns, records.pads, strict=True)
    ]
    shapes = [tf.TensorShape(column.spec.shape) for column in records.columns]
    pack = records.structure.pack
    return dataset.padded_batch(size, pack(shapes), pack(values), drop_remainder=drop)


def _fill(dtype: DType, pad: Array | None) -> Any:
    if dtype.kind in "US":
        text = "" if pad is None else pad.item()
        return text.encode("utf-8") if isinstance(text, str) else text
    return np.zeros((), dtype) if pad is None else pad


def _parsed(records: Records, serialized: Any) -> Any:
    """The components of one record, or of a batch of them."""
    single = serialized.shape.rank == 0
    wanted: dict[str, Any] = {}
    for column in records.columns:
        wanted |= _features(column, kind_of(column.spec.dtype, records.encoding))
    found: dict[str, Any] = {}
    if wanted:
        found = (tf.io.parse_single_example if single else tf.io.parse_example)(serialized, wanted)
    count = [] if single else [tf.shape(serialized)[0]]
    leaves = []
    for column in records.columns:
        array = _array(column, found, count, kind_of(column.spec.dtype, records.encoding))
        array.set_shape((*serialized.shape, *column.spec.shape))
        leaves.append(array)
    return records.structure.pack(leaves)


def _features(column: Column, kind: str) -> dict[str, Any]:
    """What to parse of a column: nothing where it has no element."""
    name, spec = column.name, column.spec
    dtype = {"raw": tf.string, "text": tf.string, "float": tf.float32, "int": tf.int64}[kind]
    if _empty(spec):
        return {}
    if not spec.varying:
        return {name: tf.io.FixedLenFeature([] if kind == "raw" else spec.shape, dtype)}
    values = (
        tf.io.FixedLenFeature([], dtype)
        if kind == "raw"
        else tf.io.FixedLenSequenceFeature([], dtype, allow_missing=True)
    )
    return {name: values, f"{name}/shape": tf.io.FixedLenFeature([len(spec.shape)], tf.int64)}


def _empty(spec: ArraySpec) -> bool:
    return not spec.varying and not math.prod(spec.fixed_shape)


def _array(column: Column, found: dict[str, Any], count: list[Any], kind: str) -> Any:
    name, spec = column.name, column.spec
    dtype = _tf_dtype(spec.dtype, name)
    if _empty(spec):
        shape = [*count, *spec.fixed_shape]
        # There are no zeros of a float8.
        return tf.cast(tf.zeros(shape), dtype) if is_small_float(spec.dtype) else tf.zeros(shape, dtype)
    values = found[name]
    if kind == "raw":
        values = _decoded(values, spec.dtype, dtype)
    elif kind != "text":
        values = tf.cast(values, dtype)
    return tf.reshape(values, found[f"{name}/shape"] if spec.varying else [*count, *spec.fixed_shape])


def _decoded(values: Any, dtype: DType, wanted: Any) -> Any:
    """Numbers from their bytes."""
    if dtype.name.startswith("float8"):
        # No op makes them from bits; but each has one of 256 values.
        table = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32)
        return tf.cast(tf.gather(tf.constant(table), tf.cast(tf.io.decode_raw(values, tf.uint8), tf.int32)), wanted)
    carrier = _CARRIERS.get(dtype.name)
    if carrier is None:
        return tf.io.decode_raw(values, wanted)
    return tf.bitcast(tf.io.decode_raw(values, carrier), wanted)


def _tf_dtype(dtype: DType, name: str) -> Any:
    if dtype.name in _UNRUNNABLE:
        raise UnsupportedDtypeError(
            f"{name}: TensorFlow has the type {dtype.name} but no dataset of it runs; cast to float16, which is exact, "
            f"before converting"
        )
    try:
        return tf.string if dtype.kind in "US" else tf.as_dtype(dtype)
    except TypeError:
        what = "a newer one" if is_small_float(dtype) else "another dtype"
        raise UnsupportedDtypeError(
            f"{name}: TensorFlow {tf.__version__} has no type {dtype.name}; use {what}"
        ) from None
