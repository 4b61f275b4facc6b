"""Costs that stand for themselves: order and import."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np

from benchmarks.measure import DataDiffersError, Timing, clock, in_turns, median
from benchmarks.outcome import Outcome, Settings, Value, ratio
from npyflow import Shuffle
from npyflow._order.order import Order

_N = 10_000_000
_FEWER = 1_000_000
_READ = 1024
_UNDER_NS = 50.0
_UNDER_GROWTH = 1.5
_IMPORT_S = 0.25
_HELP_S = 0.5
_IMPORT = "import time; t = time.perf_counter(); import npyflow; print(time.perf_counter() - t)"


def order(settings: Settings) -> Outcome:
    """An epoch's indices, asked for in reads, against a permutation array."""
    order_of_all = np.concatenate(_reads(_FEWER, 0))
    if not np.array_equal(np.sort(order_of_all), np.arange(_FEWER)):
        raise DataDiffersError("order: not a permutation")
    ours, theirs = in_turns(settings.passes, lambda: _walk(_N), lambda: np.random.default_rng(0).permutation(_N))
    timings = [
        Timing(name="npyflow order, read by read", examples=_N, passes=ours),
        Timing(name="np.random permutation array", examples=_N, passes=theirs),
    ]
    peak, fewer_peak = _peak_mb(_N), _peak_mb(_FEWER)
    outcome = Outcome(title=f"order of {_N:,} examples", timings=timings)
    outcome.ratios.append(ratio(*timings, None))
    outcome.values += [
        Value(what="an index", value=median(ours) / _N * 1e9, unit="ns", under=_UNDER_NS),
        Value(what="memory at the peak", value=peak, unit="MB"),
        Value(what=f"the same, over that at {_FEWER:,}", value=peak / fewer_peak, unit="times", under=_UNDER_GROWTH),
    ]
    return outcome


def imports(settings: Settings) -> Outcome:
    """Of the library, and of the command line, in fresh processes."""
    outcome = Outcome(title="start")
    seconds = [float(_output([sys.executable, "-c", _IMPORT])) for _ in range(max(3, settings.passes))]
    outcome.values.append(Value(what="import npyflow", value=median(seconds), unit="s", under=_IMPORT_S))
    command = Path(sys.executable).with_name("npyflow")
    if not command.exists():
        outcome.notes.append(f"{command.name}: not installed beside this Python")
        return outcome
    _output([str(command), "--help"])
    seconds = [clock(_output, [str(command), "--help"]) for _ in range(max(3, settings.passes))]
    outcome.values.append(Value(what="npyflow --help, whole process", value=median(seconds), unit="s", under=_HELP_S))
    return outcome


def _reads(n: int, epoch: int) -> list[np.ndarray]:
    one = Order(n, shuffle=Shuffle(), seed=0)
    return [one.indices(epoch, start, min(start + _READ, n)).copy() for start in range(0, n, _READ)]


def _walk(n: int) -> None:
    one = Order(n, shuffle=Shuffle(), seed=0)
    for start in range(0, n, _READ):
        one.indices(0, start, min(start + _READ, n))


def _peak_mb(n: int) -> float:
    tracemalloc.start()
    _walk(n)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def _output(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
