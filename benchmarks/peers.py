"""The ways of feeding ``.npy`` files to TensorFlow that people use today, as they write them."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

AUTOTUNE = tf.data.AUTOTUNE
_RECORDS_SHUFFLED = 1000


def tensor_slices(x: Any, y: Any, batch_size: int) -> Any:
    """`x` and `y` loaded, or maps of files: either is copied into the dataset whole."""
    dataset = tf.data.Dataset.from_tensor_slices((x, y))
    return dataset.shuffle(len(x)).batch(batch_size).prefetch(AUTOTUNE)


def npz_slices(path: Path, name: str, batch_size: int) -> Any:
    """An array of an archive, loaded and then copied into the dataset whole."""
    with np.load(path) as archive:
        x = archive[name]
    return tf.data.Dataset.from_tensor_slices(x).shuffle(len(x)).batch(batch_size).prefetch(AUTOTUNE)


def keras_arrays(x: Any, y: Any, batch_size: int) -> Any:
    """The dataset that ``model.fit(x, y)`` builds inside."""
    from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter

    return ArrayDataAdapter(x, y, batch_size=batch_size, shuffle=True).get_tf_dataset()


def generator(x: Any, y: Any, batch_size: int) -> Any:
    """A Python generator of rows of a map, in an order of its own each epoch."""

    def rows() -> Any:
        for index in np.random.permutation(len(x)):
            yield x[index], y[index]

    signature = (tf.TensorSpec(x.shape[1:], x.dtype), tf.TensorSpec(y.shape[1:], y.dtype))
    return tf.data.Dataset.from_generator(rows, output_signature=signature).batch(batch_size).prefetch(AUTOTUNE)


def function_a_batch(x: Any, y: Any, batch_size: int) -> Any:
    """Shuffled indices, and one ``numpy_function`` a batch that gathers from a map."""

    def gather(indices: Any) -> Any:
        return x[indices], y[indices]

    def load(indices: Any) -> Any:
        features, labels = tf.numpy_function(gather, [indices], [x.dtype, y.dtype])
        features.set_shape((None, *x.shape[1:]))
        labels.set_shape((None,))
        return features, labels

    dataset = tf.data.Dataset.range(len(x)).shuffle(len(x)).batch(batch_size)
    return dataset.map(load, num_parallel_calls=AUTOTUNE).prefetch(AUTOTUNE)


def element_slices(x: Any, y: Any) -> Any:
    """Single examples, in order."""
    return tf.data.Dataset.from_tensor_slices((x, y)).prefetch(AUTOTUNE)


def load_a_file(pattern: str, shape: tuple[int, ...], batch_size: int) -> Any:
    """``list_files`` and one ``numpy_function(np.load)`` a file."""

    def load(path: Any) -> Any:
        array = tf.numpy_function(lambda name: np.load(name.decode()).astype(np.float32), [path], tf.float32)
        array.set_shape(shape)
        return array

    dataset = tf.data.Dataset.list_files(pattern, shuffle=True)
    return dataset.map(load, num_parallel_calls=AUTOTUNE).batch(batch_size).prefetch(AUTOTUNE)


def file_generator(paths: list[str], shape: tuple[int, ...], batch_size: int) -> Any:
    """A Python generator that loads one file after the other."""

    def arrays() -> Any:
        for index in np.random.permutation(len(paths)):
            yield np.load(paths[index])

    signature = tf.TensorSpec(shape, tf.float32)
    return tf.data.Dataset.from_generator(arrays, output_signature=signature).batch(batch_size).prefetch(AUTOTUNE)


def load_a_batch(paths: list[str], shape: tuple[int, ...], batch_size: int) -> Any:
    """Shuffled paths, and one ``numpy_function`` a batch that loads and stacks."""

    def stack(names: Any) -> Any:
        return np.stack([np.load(name.decode()) for name in names])

    def load(names: Any) -> Any:
        array = tf.numpy_function(stack, [names], tf.float32)
        array.set_shape((None, *shape))
        return array

    dataset = tf.data.Dataset.from_tensor_slices(paths).shuffle(len(paths)).batch(batch_size)
    return dataset.map(load, num_parallel_calls=AUTOTUNE).prefetch(AUTOTUNE)


def records(path: str, shape: tuple[int, ...], batch_size: int) -> Any:
    """A TFRecord file of raw bytes, decoded a batch at a time. Its shuffle sees a window only."""
    decode = functools.partial(tf.io.decode_raw, out_type=tf.float32)
    dataset = tf.data.TFRecordDataset(path, buffer_size=8 << 20).shuffle(_RECORDS_SHUFFLED).batch(batch_size)
    return dataset.map(lambda texts: tf.reshape(decode(texts), (-1, *shape)), num_parallel_calls=AUTOTUNE).prefetch(
        AUTOTUNE
    )


def pad_files(pattern: str, width: int, batch_size: int) -> Any:
    """``list_files``, one ``numpy_function(np.load)`` a file, and ``padded_batch``."""
    return _sequences(pattern, width).padded_batch(batch_size).prefetch(AUTOTUNE)


def bucket_files(pattern: str, width: int, boundaries: list[int], batch_size: int) -> Any:
    """The same, grouped by length: a batch is given out when a bucket has enough for it."""
    dataset = _sequences(pattern, width).bucket_by_sequence_length(
        lambda array: tf.shape(array)[0], boundaries, [batch_size] * (len(boundaries) + 1)
    )
    return dataset.prefetch(AUTOTUNE)


def _sequences(pattern: str, width: int) -> Any:
    def load(path: Any) -> Any:
        array = tf.numpy_function(np.load, [path], tf.float32)
        array.set_shape((None, width))
        return array

    return tf.data.Dataset.list_files(pattern, shuffle=True).map(load, num_parallel_calls=AUTOTUNE)


def keras_windows(series: Any, past: int, future: int, batch_size: int) -> Any:
    """Keras's windows of an array in RAM, shuffled, each cut into what is known and what is asked for."""
    from keras.utils import timeseries_dataset_from_array

    windows = timeseries_dataset_from_array(
        series, None, sequence_length=past + future, shuffle=True, batch_size=batch_size
    )
    cut = windows.map(lambda steps: (steps[:, :past], steps[:, past:]), num_parallel_calls=AUTOTUNE)
    return cut.prefetch(AUTOTUNE)


def slice_maps(pairs: list[tuple[str, str]], corners: Any, sizes: tuple[int, ...], batch_size: int) -> Any:
    """One ``numpy_function`` an example that maps an image and its mask and slices both. Its corners are given."""

    def cut(image: bytes, mask: bytes, corner: Any) -> Any:
        where = tuple(slice(first, first + size) for first, size in zip(corner, sizes, strict=True))
        return np.load(image.decode(), mmap_mode="r")[where], np.load(mask.decode(), mmap_mode="r")[where]

    def load(image: Any, mask: Any, corner: Any) -> Any:
        arrays = tf.numpy_function(cut, [image, mask, corner], [tf.float32, tf.uint8])
        for array in arrays:
            array.set_shape(sizes)
        return {"image": arrays[0], "mask": arrays[1]}

    images, masks = zip(*pairs, strict=True)
    dataset = tf.data.Dataset.from_tensor_slices((list(images), list(masks), corners)).shuffle(len(pairs))
    return dataset.map(load, num_parallel_calls=AUTOTUNE).batch(batch_size).prefetch(AUTOTUNE)


def write_records(rows: Any, folder: Path, values: Any) -> None:
    """The loop of the tutorials: a `FloatList` a row, filled value by value."""
    folder.mkdir()
    with tf.io.TFRecordWriter(str(folder / "data.tfrecord")) as writer:
        for row in rows:
            feature = tf.train.Feature(float_list=tf.train.FloatList(value=values(row)))
            example = tf.train.Example(features=tf.train.Features(feature={"x": feature}))
            writer.write(example.SerializeToString())
