"""Running over a dataset as ``fit`` does, to see how long it takes."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


class Drain:
    """Consumes batches of one dataset inside a ``tf.function``, epoch after epoch.

    Parameters
    ----------
    dataset : tf.data.Dataset
        A pass of it is an epoch.
    """

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset.repeat()
        self._iterator: Any = iter(self._dataset)
        # Traced by hand, once: TensorFlow warns of functions that it traces for one iterator after another.
        self._loop = tf.function(_consume).get_concrete_function(self._iterator, tf.TensorSpec((), tf.int64))
        self.stop()

    def restart(self) -> None:
        """Begin an epoch; nothing is read ahead then."""
        self.stop()
        self._iterator = iter(self._dataset)

    def stop(self) -> None:
        """Let go of the epoch, and with it of what reads ahead in the background."""
        self._iterator = None

    def __call__(self, batches: int) -> None:
        """Consume so many more batches."""
        self._loop(self._iterator, tf.constant(batches, tf.int64))


def _consume(iterator: Any, batches: Any) -> Any:
    for _ in tf.range(batches):
        next(iterator)
    return batches


def version() -> str:
    """Of TensorFlow."""
    return str(tf.__version__)
