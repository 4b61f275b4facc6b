"""Windows over a long series, each of which is what is known and what is asked for."""

from __future__ import annotations

import functools
import multiprocessing
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import npyflow as nf
from benchmarks import peers
from benchmarks.data import CHANNELS, LONG_TIMES
from benchmarks.measure import Array, PeakMemory, Side, check, fingerprint, race
from benchmarks.outcome import Outcome, Settings, Value

RECIPE = "timeseries_dataset_from_array, from RAM"
_PAST = 168
_FUTURE = 24
_BATCH = 64
# Batches a pass: an epoch of Keras's takes minutes.
_STEPS = 4_000
_SLOW_STEPS = 600
_QUICK_STEPS = 1_000
_QUICK_SLOW_STEPS = 100
# Every window is compared on the beginning of the series.
_WHOLE = 4_000
_MEMORY_STEPS = 2_000
_EPOCHS = 2
_GROWTH_UNDER_MB = 20.0


def shuffled(settings: Settings) -> Outcome:
    """Windows in shuffled order."""
    path = settings.data.series
    series = np.load(path)
    _check_all(series[:_WHOLE])
    counts = (_QUICK_STEPS, _QUICK_SLOW_STEPS) if settings.quick else (_STEPS, _SLOW_STEPS)
    ways: dict[str, Any] = {
        "npyflow, from disk": lambda: _open(path),
        RECIPE: lambda: peers.keras_windows(series, _PAST, _FUTURE, _BATCH),
    }
    sides = [
        Side(
            name=name,
            make=lambda make=make, steps=steps: make().take(steps),  # type: ignore[misc]
            expected=np.ones(steps * _BATCH, bool),
            delivered=functools.partial(_found, series),
        )
        for (name, make), steps in zip(ways.items(), counts, strict=True)
    ]
    title = f"windows of {_PAST} + {_FUTURE} over {len(series):,} steps, shuffled, batch {_BATCH}"
    outcome = Outcome(title=title, example_bytes=(_PAST + _FUTURE) * CHANNELS * series.itemsize)
    outcome.add_timings(race(sides, settings.passes, eager=False), {RECIPE: 25.0})
    outcome.notes.append(
        f"passes of {counts[0]:,} batches of npyflow's and {counts[1]:,} of Keras's, whose start counts"
    )
    return outcome


def growth(settings: Settings) -> Outcome:
    """Growth while windows are read from a series, and from a longer one, each in a process of its own."""
    data = settings.data
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        short, long = pool.map(_growth_mb, [data.series, data.long_series], chunksize=1)
    steps = data.sizes.steps
    outcome = Outcome(title=f"memory: npyflow, windows of {_PAST} + {_FUTURE}")
    outcome.values += [
        Value(what=f"anonymous memory, growth at the peak, {steps:,} steps", value=short, unit="MB"),
        Value(what=f"the same, {LONG_TIMES * steps:,} steps", value=long, unit="MB"),
        Value(what="the longer over the shorter", value=long - short, unit="MB", under=_GROWTH_UNDER_MB),
    ]
    return outcome


def _open(path: Path | str) -> Any:
    return nf.windows(path, length=_PAST, horizon=_FUTURE).to_tf(_BATCH, shuffle=True)


def _check_all(series: Array) -> None:
    """Compare an epoch of a short series, window by window."""
    windows = np.lib.stride_tricks.sliding_window_view(series, _PAST + _FUTURE, axis=0).swapaxes(1, 2)
    expected = fingerprint([(windows[:, :_PAST], windows[:, _PAST:])])
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "series.npy"
        np.save(path, series)
        ways: dict[str, Any] = {
            "npyflow": lambda: _open(path),
            RECIPE: lambda: peers.keras_windows(series, _PAST, _FUTURE, _BATCH),
        }
        for name, make in ways.items():
            check(Side(name=name, make=make, expected=expected), make())


def _found(series: Array, batches: Iterable[Any]) -> Array:
    """Whether each window is what the series holds from the step on that its first value names, and a new one."""
    same, firsts = [], []
    for batch in batches:
        windows = np.concatenate(batch, axis=1)
        first = windows[:, 0, 0].astype(int)
        steps = first[:, np.newaxis] + np.arange(_PAST + _FUTURE)
        same.append((windows == series.take(steps, axis=0, mode="clip")).all(axis=(1, 2)))
        firsts.append(first)
    is_new = np.zeros(sum(map(len, firsts)), bool)
    is_new[np.unique(np.concatenate(firsts), return_index=True)[1]] = True
    return np.concatenate(same) & is_new


def _growth_mb(path: Path) -> float:
    """Growth over the process with TensorFlow loaded and nothing open."""
    _count(tf.data.Dataset.range(1000).batch(10).prefetch(1))
    with PeakMemory() as peak:
        dataset = _open(path).take(_MEMORY_STEPS)
        for _ in range(_EPOCHS):
            _count(dataset)
    return peak.anonymous


@tf.function
def _count(dataset: Any) -> Any:
    count = tf.constant(0, tf.int64)
    for _ in dataset:
        count += 1
    return count
