"""A model that trains on the rows."""

from __future__ import annotations

import time
from typing import Any

import keras
import numpy as np

import npyflow as nf
from benchmarks import peers
from benchmarks.measure import Side, Timing, check, fingerprint
from benchmarks.outcome import Outcome, Settings

_BATCH = 64
_HIDDEN = 64
_STEPS = 600
_QUICK_STEPS = 200


class _EpochClock(keras.callbacks.Callback):
    """Seconds of an epoch: the steps, without what `fit` does before the first."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._start = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.seconds = time.perf_counter() - self._start


def dense(settings: Settings) -> Outcome:
    """Steps of a small dense model."""
    data = settings.data
    x, y = np.load(data.x), np.load(data.y)
    dataset = nf.rows((data.x, data.y)).to_tf(_BATCH, shuffle=True)
    expected = fingerprint([(x, y)])
    check(Side(name="npyflow", make=lambda: dataset, expected=expected), dataset)
    arrays = peers.keras_arrays(x, y, _BATCH)
    check(Side(name="fit(x, y)", make=lambda: arrays, expected=expected), arrays)

    ways: tuple[tuple[str, tuple[Any, ...], dict[str, int]], ...] = (
        ("fit(dataset of npyflow)", (dataset,), {}),
        ("fit(x, y), from RAM", (x, y), {"batch_size": _BATCH}),
    )
    steps = _QUICK_STEPS if settings.quick else _STEPS
    models = [_model() for _ in ways]
    timings = [Timing(name=name, examples=steps * _BATCH) for name, _, _ in ways]
    epochs = _EpochClock()
    # The first round compiles the step.
    for number in range(1 + settings.passes):
        for model, timing, (_, given, options) in zip(models, timings, ways, strict=True):
            model.fit(*given, steps_per_epoch=steps, verbose=0, callbacks=[epochs], **options)
            if number:
                timing.passes.append(epochs.seconds)
    outcome = Outcome(title=f"fit of a small dense model, batch {_BATCH}", example_bytes=x[0].nbytes + y.itemsize)
    outcome.add_timings(timings, {timings[1].name: 1.0})
    return outcome


def _model() -> Any:
    model = keras.Sequential([keras.Input((784,)), keras.layers.Dense(_HIDDEN, "relu"), keras.layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss)
    return model
