"""The ``tf.data`` recipes that people copy today, as they copy them: what npyflow is compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from npyflow._core.spec import ArraySpec

Array = np.ndarray[Any, Any]


def arrays_in_ram(features: str, labels: str, batch_size: int) -> Any:
    """``np.load`` and ``from_tensor_slices``."""
    x, y = np.load(features), np.load(labels)
    return tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x)).batch(batch_size).prefetch(tf.data.AUTOTUNE)


def file_by_file(pattern: str, shape: tuple[int, ...], batch_size: int) -> Any:
    """``list_files`` and ``numpy_function(np.load)``, the label from the folder's name."""

    def load(path: bytes) -> tuple[Array, np.int64]:
        return np.load(path.decode()), np.int64(path.decode().split("/")[-2])

    def read(path: Any) -> tuple[Any, Any]:
        x, y = tf.numpy_function(load, [path], (tf.float32, tf.int64))
        return tf.ensure_shape(x, shape), tf.ensure_shape(y, ())

    paths = tf.data.Dataset.list_files(pattern)
    return paths.map(read, num_parallel_calls=tf.data.AUTOTUNE).batch(batch_size).prefetch(tf.data.AUTOTUNE)


def generator_over_shards(
    features: Sequence[str], labels: Sequence[str], shape: tuple[int, ...], batch_size: int
) -> Any:
    """``from_generator`` over mapped shards, with the shuffle buffer of 1,000 that tutorials use."""

    def rows() -> Iterator[tuple[Array, Any]]:
        for x_path, y_path in zip(features, labels, strict=True):
            yield from zip(np.load(x_path, mmap_mode="r"), np.load(y_path), strict=True)

    signature = (tf.TensorSpec(shape, tf.float32), tf.TensorSpec((), tf.int64))
    dataset = tf.data.Dataset.from_generator(rows, output_signature=signature)
    return dataset.shuffle(1000).batch(batch_size).prefetch(tf.data.AUTOTUNE)


def function_an_example(
    load: Callable[[int], list[Array]], specs: Sequence[ArraySpec], count: int, batch_size: int
) -> Any:
    """One ``numpy_function`` an example, shuffled, that calls ``np.load``; what differs in shape is padded."""
    types = [tf.string if spec.dtype.kind in "US" else tf.as_dtype(spec.dtype) for spec in specs]

    def read(index: Any) -> Any:
        arrays = tf.numpy_function(load, [index], types)
        for array, spec in zip(arrays, specs, strict=True):
            array.set_shape(spec.shape)
        return tuple(arrays)

    dataset = tf.data.Dataset.range(count).shuffle(count).map(read, num_parallel_calls=tf.data.AUTOTUNE)
    if any(spec.varying for spec in specs):
        return dataset.padded_batch(batch_size).prefetch(tf.data.AUTOTUNE)
    return dataset.batch(batch_size).prefetch(tf.data.AUTOTUNE)


def slices(arrays: Sequence[Array], batch_size: int) -> Any:
    """``from_tensor_slices`` of arrays in RAM, which copies them, and a shuffle of all."""
    dataset = tf.data.Dataset.from_tensor_slices(tuple(arrays))
    return dataset.shuffle(len(arrays[0])).batch(batch_size).prefetch(tf.data.AUTOTUNE)
