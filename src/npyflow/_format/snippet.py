"""A TensorFlow program that reads converted data without npyflow."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from npyflow._format.example import Kind, kind_of

if TYPE_CHECKING:
    from npyflow._core.dtypes import DType
    from npyflow._format.schema import Column, Schema

_PROGRAM = """\
import os

import tensorflow as tf

FOLDER = {folder}
FILES = sorted(os.path.join(FOLDER, name) for name in os.listdir(FOLDER) if name.endswith({suffix}))


def parse({argument}):
{parse}

dataset = tf.data.TFRecordDataset(FILES{compression})
{pipeline}
for example in dataset.take(1):
    print(tf.nest.map_structure(lambda tensor: (tensor.dtype.name, tensor.shape), example))
"""
_BATCHED = """\
# To shuffle: dataset = dataset.shuffle(10_000)
dataset = dataset.batch(32).map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)
"""
_SINGLE = """\
# To shuffle: dataset = dataset.shuffle(10_000)
# To batch: .padded_batch(32) or .ragged_batch(32) after map, since examples differ in shape.
dataset = dataset.map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)
"""
# What decode_raw has no type for: read as these, whose bits are the same.
_CARRIERS = {"uint32": "int32", "uint64": "int64"}


def tfrecord_snippet(schema: Schema, folder: str) -> str:
    """Return a program that reads TFRecord files with ``tf.io.parse_example``, and needs TensorFlow alone.

    Parameters
    ----------
    schema : Schema
        Of the data set.
    folder : str
        Where it is.
    """
    packed = schema.options.get("compression") == "gzip"
    single = any(column.spec.varying for column in schema.columns)
    kinds = [kind_of(column.spec.dtype, str(schema.options.get("encoding", "raw"))) for column in schema.columns]
    pairs = list(zip(schema.columns, kinds, strict=True))
    features = [line for column, kind in pairs for line in _features(column, kind)]
    values = [_value(column, kind, single) for column, kind in pairs]
    argument, call = ("record", "parse_single_example") if single else ("records", "parse_example")
    lines = [] if single else ["count = tf.shape(records)[0]"]
    if features:
        lines += ["features = {", *(f"    {line}," for line in features), "}"]
        lines.append(f"found = tf.io.{call}({argument}, features)")
    lines.append(f"return {_nested(schema.structure.pack(values))}")
    return _PROGRAM.format(
        folder=repr(folder),
        suffix=repr(".tfrecord.gz" if packed else ".tfrecord"),
        argument=argument,
        parse="".join(f"    {line}\n" for line in lines),
        compression=', compression_type="GZIP"' if packed else "",
        pipeline=_SINGLE if single else _BATCHED,
    )


def _features(column: Column, kind: Kind) -> list[str]:
    name, spec = column.name, column.spec
    dtype = {"raw": "string", "text": "string", "float": "float32", "int": "int64"}[kind]
    if not spec.varying:
        shape = [] if kind == "raw" else list(spec.fixed_shape)
        return [f"{name!r}: tf.io.FixedLenFeature({shape}, tf.{dtype})"] if math.prod(spec.fixed_shape) else []
    values = (
        f"tf.io.FixedLenFeature([], tf.{dtype})"
        if kind == "raw"
        else f"tf.io.FixedLenSequenceFeature([], tf.{dtype}, allow_missing=True)"
    )
    return [f"{name!r}: {values}", f"'{name}/shape': tf.io.FixedLenFeature([{len(spec.shape)}], tf.int64)"]


def _value(column: Column, kind: Kind, single: bool) -> str:
    """The expression of one component."""
    name, spec = column.name, column.spec
    shape = f"[{', '.join(map(str, ([] if single else ['count']) + list(spec.fixed_shape)))}]"
    if not spec.varying and not math.prod(spec.fixed_shape):
        return f"tf.zeros({shape}, tf.{_tf_name(spec.dtype)})"
    value = f"found[{name!r}]"
    if kind == "raw":
        value = _decoded(value, spec.dtype)
    elif kind != "text" and spec.dtype.name not in ("float32", "int64") and not spec.dtype.name.startswith("float8"):
        value = f"tf.cast({value}, tf.{_tf_name(spec.dtype)})"
    if spec.varying:
        shape = f"found['{name}/shape']"
    array = f"tf.reshape({value}, {shape})"
    return f"tf.ensure_shape({array}, {list(spec.shape)})" if spec.varying else array


def _decoded(value: str, dtype: DType) -> str:
    name = _tf_name(dtype)
    carrier = _CARRIERS.get(name)
    if carrier is not None:
        return f"tf.bitcast(tf.io.decode_raw({value}, tf.{carrier}), tf.{name})"
    return f"tf.io.decode_raw({value}, tf.{name})"


def _tf_name(dtype: DType) -> str:
    # Of float8 TensorFlow delivers the bits: no op of its own makes the numbers from them.
    return "string" if dtype.kind in "US" else "uint8" if dtype.name.startswith("float8") else dtype.name


def _nested(node: Any) -> str:
    if isinstance(node, dict):
        return f"{{{', '.join(f'{key!r}: {_nested(child)}' for key, child in node.items())}}}"
    if isinstance(node, tuple):
        return f"({', '.join(map(_nested, node))}{',' if len(node) == 1 else ''})"
    return str(node)
