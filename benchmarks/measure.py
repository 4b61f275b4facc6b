"""Timing in interleaved passes, comparison of what is delivered, and memory."""

from __future__ import annotations

import os
import shutil
import statistics
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

# A slow side stops early: after so many seconds, but never before so many passes.
_BUDGET_S = 5.0
_LEAST_PASSES = 3
# The second column is for orientation, and left out for the slowest.
_EAGER_PASSES = 2
_LEAST_EAGER_PASSES = 1
_EAGER_BUDGET_S = 1.0
_EAGER_UP_TO_S = 3.0


class DataDiffersError(Exception):
    """Two sides of a comparison deliver different data."""


# What is delivered


def fingerprint(batches: Iterable[Any]) -> Array:
    """Return a checksum of each example, all its arrays together, sorted: equal for equal multisets of examples."""
    sums: list[int] = []
    for batch in batches:
        arrays = [_values(array) for array in _arrays(batch)]
        found = [0] * len(arrays[0])
        for array in reversed(arrays):
            found = list(map(zlib.crc32, array, found))
        sums += found
    return np.sort(np.array(sums, np.uint32))


def fingerprint_unpadded(batches: Iterable[Any]) -> Array:
    """The same of examples without the zeros at their end, for which the last value must not be zero."""
    sums = [zlib.crc32(row.tobytes().rstrip(b"\0")) for batch in batches for row in np.asarray(batch)]
    return np.sort(np.array(sums, np.uint32))


def _arrays(batch: Any) -> list[Any]:
    if isinstance(batch, dict):
        return [batch[name] for name in sorted(batch)]
    return list(batch) if isinstance(batch, tuple | list) else [batch]


def _values(array: Any) -> Array:
    """An example a row. Labels may come in any integer type."""
    values: Array = np.ascontiguousarray(array)
    if values.ndim == 1 and values.dtype.kind in "iu":
        values = values.astype("<i8")
    return values.reshape(len(values), -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One way to deliver the data of a workload.

    Parameters
    ----------
    name : str
    make : callable
        Returns the batches: a ``tf.data.Dataset``, or another iterable that can be iterated again and again.
    expected : array
        What `delivered` must find; its length is the number of examples.
    delivered : callable
        What is compared of the batches: `fingerprint`, or another function that says one thing of each example.
    batched : bool
        False where it delivers single examples.
    each_epoch : bool
        `make` belongs to an epoch: each pass calls it again, and its time counts.
    """

    name: str
    make: Callable[[], Iterable[Any]]
    expected: Array
    delivered: Callable[[Iterable[Any]], Array] = fingerprint
    batched: bool = True
    each_epoch: bool = False


@dataclass(kw_only=True)
class Timing:
    """Seconds of each pass of a side.

    Parameters
    ----------
    name : str
    examples : int
        A pass.
    loop : {"tf.function", "Python", "call"}
        What `passes` are passes of. A dataset is consumed by a ``tf.function``, as `fit` does it.
    eager : list of float
        Passes of a dataset in a Python loop.
    """

    name: str
    examples: int
    loop: str = "call"
    passes: list[float] = field(default_factory=list)
    eager: list[float] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Again:
    """An iterable that calls `generate` each time."""

    generate: Callable[[], Iterator[Any]]

    def __iter__(self) -> Iterator[Any]:
        return self.generate()


def check(side: Side, batches: Any) -> None:
    """Raise if `side` does not deliver what it must."""
    found = side.delivered(batches if side.batched else batches.batch(512))
    if not np.array_equal(found, side.expected):
        common = len(np.intersect1d(found, side.expected))
        raise DataDiffersError(
            f"{side.name}: {len(found):,} examples, expected {len(side.expected):,}, {common:,} distinct ones in common"
        )


# Time


def race(sides: list[Side], passes: int, *, eager: bool = True) -> list[Timing]:
    """Check every side, then time them in turns (A B A B ...), so that a disturbance meets all of them."""
    made = [side.make() for side in sides]
    for side, batches in zip(sides, made, strict=True):
        check(side, batches)
    timings, runs, eager_runs = [], [], []
    for side, batches in zip(sides, made, strict=True):
        native = _is_dataset(batches)
        timing = Timing(name=side.name, examples=len(side.expected), loop="tf.function" if native else "Python")
        timings.append(timing)
        runs.append((timing.passes, *_pass(side, batches, _graph_loop() if native else _python_loop)))
        if native:
            _graph_loop()(batches.take(1))  # traces the loop
            eager_runs.append((timing.eager, *_pass(side, batches, _python_loop)))
    _rounds(runs, passes, least=_LEAST_PASSES, budget_s=_BUDGET_S)
    if eager:
        quick = {id(timing.eager) for timing in timings if median(timing.passes) < _EAGER_UP_TO_S}
        eager_runs = [run for run in eager_runs if id(run[0]) in quick]
        _rounds(eager_runs, min(_EAGER_PASSES, passes), least=_LEAST_EAGER_PASSES, budget_s=_EAGER_BUDGET_S)
    return timings


def time_datasets(datasets: dict[str, Any], examples: int, passes: int) -> list[Timing]:
    """Time passes of several datasets of the same examples, in turns, consumed by a ``tf.function``."""
    loop = _graph_loop()
    timings = [Timing(name=name, examples=examples, loop="tf.function") for name in datasets]
    for number in range(passes + 1):
        for timing, dataset in zip(timings, datasets.values(), strict=True):
            taken = clock(loop, dataset)
            # The first pass traces the loop, and fills what is kept.
            if number:
                timing.passes.append(taken)
    return timings


def _pass(side: Side, batches: Any, loop: Callable[[Any], Any]) -> tuple[Callable[[Any], Any], Any]:
    """What a pass of `side` calls, and with what."""
    return (lambda make: loop(make()), side.make) if side.each_epoch else (loop, batches)


def _rounds(
    runs: list[tuple[list[float], Callable[[Any], Any], Any]], passes: int, *, least: int, budget_s: float
) -> None:
    for number in range(passes):
        for seconds, loop, batches in runs:
            if number < least or sum(seconds) < budget_s:
                seconds.append(clock(loop, batches))


def clock(function: Callable[..., Any], *arguments: Any) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - start


def in_turns(passes: int, *functions: Callable[[], Any]) -> list[list[float]]:
    """Seconds of each function, called in turns."""
    seconds: list[list[float]] = [[] for _ in functions]
    for _ in range(passes):
        for one, function in zip(seconds, functions, strict=True):
            one.append(clock(function))
    return seconds


def into_new_folders(scratch: Path, passes: int, examples: int, ways: dict[str, Callable[[Path], Any]]) -> list[Timing]:
    """Time what writes a folder, in turns, each time into a new one, with nothing waiting to be written to disk."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    target = scratch / "target"
    # Once before, as everything is imported and read then.
    for number in range(passes + 1):
        for name, write in ways.items():
            os.sync()
            taken = clock(write, target)
            shutil.rmtree(target)
            if number:
                seconds[name].append(taken)
    return [Timing(name=name, examples=examples, passes=taken) for name, taken in seconds.items()]


def median(values: list[float]) -> float:
    return statistics.median(values)


def _python_loop(batches: Iterable[Any]) -> None:
    for _ in batches:
        pass


def _is_dataset(batches: Any) -> bool:
    import tensorflow as tf

    return isinstance(batches, tf.data.Dataset)


@cache
def _graph_loop() -> Any:
    import tensorflow as tf

    @tf.function
    def loop(dataset: Any) -> Any:
        count = tf.constant(0, tf.int64)
        for _ in dataset:
            count += 1
        return count

    return loop


# Memory


def memory_mb() -> tuple[float, float]:
    """Anonymous and file-backed resident memory of this process, in MB (10**6 bytes)."""
    status = Path("/proc/self/status")
    if status.exists():
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        anonymous, backed = (int(fields[name].split()[0]) * 1024 / 1e6 for name in ("RssAnon", "RssFile"))
        return anonymous, backed
    import psutil

    return psutil.Process().memory_info().rss / 1e6, 0.0


class PeakMemory:
    """Samples memory in the background of a ``with`` block: growth at the peak, `anonymous` and `backed`, in MB."""

    _every_s = 0.01

    def __enter__(self) -> PeakMemory:
        self._before = self._peak = memory_mb()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self.anonymous, self.backed = (peak - before for peak, before in zip(self._peak, self._before, strict=True))

    def _sample(self) -> None:
        while True:
            self._peak = tuple(map(max, self._peak, memory_mb()))  # type: ignore[assignment]
            if self._done.wait(self._every_s):
                return
