"""How much a process grows while it reads rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

import npyflow as nf
from benchmarks import peers
from benchmarks.measure import PeakMemory
from benchmarks.outcome import Outcome, Settings, Value

_BATCH = 64
_EPOCHS = 2
_SPARSE_STEPS = 2000
_UNDER_MB = 150.0

KINDS = {
    "rows": "npyflow, from disk",
    "sparse": "npyflow, sparse file of 8 GB",
    "map": "from_tensor_slices, from a map",
    "keras": "dataset of Keras fit(x, y), from RAM",
}


def growth(settings: Settings, kind: str) -> Outcome:
    """Growth over the process with TensorFlow loaded and nothing open."""
    _count(tf.data.Dataset.range(1000).batch(10).prefetch(1))
    with PeakMemory() as peak:
        dataset = _open(settings, kind)
        for _ in range(_EPOCHS):
            _count(dataset)
    under = _UNDER_MB if kind in ("rows", "sparse") else None
    outcome = Outcome(title=f"memory: {KINDS[kind]}")
    outcome.values += [
        Value(what="anonymous memory, growth at the peak", value=peak.anonymous, unit="MB", under=under),
        Value(what="file-backed memory, growth at the peak", value=peak.backed, unit="MB"),
    ]
    return outcome


def _open(settings: Settings, kind: str) -> Any:
    data = settings.data
    if kind == "rows":
        return nf.rows((data.x, data.y)).to_tf(_BATCH, shuffle=True)
    if kind == "sparse":
        return nf.rows((data.sparse, data.sparse_labels)).to_tf(_BATCH, shuffle=True).take(_SPARSE_STEPS)
    mode: Any = "r" if kind == "map" else None
    x, y = np.load(data.x, mmap_mode=mode), np.load(data.y, mmap_mode=mode)
    make = peers.tensor_slices if kind == "map" else peers.keras_arrays
    return make(x, y, _BATCH)


@tf.function
def _count(dataset: Any) -> Any:
    count = tf.constant(0, tf.int64)
    for _ in dataset:
        count += 1
    return count
