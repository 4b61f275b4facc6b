"""A small Keras classifier, and a clock for datasets."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

if TYPE_CHECKING:
    from collections.abc import Callable


def train_classifier(
    train: Any, validation: Any, *, classes: int, scale: float, epochs: int, on_epoch: Callable[[], None]
) -> float:
    """Train a dense network and return its best accuracy on `validation`.

    Parameters
    ----------
    train, validation : tf.data.Dataset
        Batches of (features, class number).
    classes : int
        How many there are.
    scale : float
        Features are multiplied by this.
    epochs : int
        Passes over `train`.
    on_epoch : callable
        Called after each.
    """
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.layers.Rescaling(scale),
            keras.layers.Flatten(),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(classes, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    tick = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: on_epoch())
    # Keras warns of its own default, shuffle=True, wherever the data is a dataset, which shuffles itself.
    history = model.fit(train, validation_data=validation, epochs=epochs, shuffle=False, verbose=0, callbacks=[tick])
    return float(max(history.history["val_accuracy"]))


def time_passes(datasets: dict[str, Any], *, passes: int, on_pass: Callable[[], None]) -> dict[str, list[float]]:
    """Run over each dataset in turn, again and again, and return the seconds of each pass.

    In turn, so that a machine that slows down slows all of them down. Consumed inside a ``tf.function``, as in ``fit``.
    The first pass of each is not counted.
    """

    @tf.function  # type: ignore[untyped-decorator]
    def consume(dataset: Any) -> Any:
        count = tf.constant(0)
        for _ in dataset:
            count += 1
        return count

    seconds: dict[str, list[float]] = {name: [] for name in datasets}
    for number in range(passes + 1):
        for name, dataset in datasets.items():
            start = time.perf_counter()
            consume(dataset)
            if number:
                seconds[name].append(time.perf_counter() - start)
            on_pass()
    return seconds
