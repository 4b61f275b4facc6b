"""Mean and deviation of each column of a big file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import npyflow as nf
from benchmarks.measure import Array, DataDiffersError, PeakMemory, Timing, in_turns
from benchmarks.outcome import Outcome, Settings, Value

RECIPE = "np.load, mean(axis=0), std(axis=0)"
_PASSES = 2
_CHUNK = 1 << 16
_UNDER_MB = 200.0
# NumPy adds columns up in single precision.
_RELATIVE = 1e-6
_RELATIVE_NUMPY = 1e-2


def means(settings: Settings) -> Outcome:
    """One walk over the file, beside NumPy on the whole of it in RAM."""
    path = settings.data.wide
    with PeakMemory() as peak:
        ours = _ours(path)
    expected = _blockwise(path)
    _check("npyflow", ours, expected, _RELATIVE)
    _check(RECIPE, _numpy(path), expected, _RELATIVE_NUMPY)
    passes = min(settings.passes, _PASSES)
    seconds = in_turns(passes, lambda: _ours(path), lambda: _numpy(path))
    rows = np.load(path, mmap_mode="r")
    timings = [
        Timing(name=name, examples=len(rows), passes=one)
        for name, one in zip(("npyflow, stats()", RECIPE), seconds, strict=True)
    ]
    outcome = Outcome(title=f"statistics of {len(rows):,} rows of {rows.shape[1]}", example_bytes=rows[0].nbytes)
    outcome.add_timings(timings, {RECIPE: 1.0})
    outcome.values.append(
        Value(what="stats(), anonymous memory, growth at the peak", value=peak.anonymous, unit="MB", under=_UNDER_MB)
    )
    return outcome


def _ours(path: Path) -> tuple[Array, Array]:
    found: Any = nf.rows(path).stats()[""]
    return found.channels.mean, found.channels.std


def _numpy(path: Path) -> tuple[Array, Array]:
    rows = np.load(path)
    return rows.mean(axis=0), rows.std(axis=0)


def _blockwise(path: Path) -> tuple[Array, Array]:
    """The same in double precision: the mean, and about it the deviation."""
    rows = np.load(path, mmap_mode="r")
    blocks = range(0, len(rows), _CHUNK)
    mean = sum(rows[start : start + _CHUNK].sum(axis=0, dtype=np.float64) for start in blocks) / len(rows)
    squares = sum(np.square(rows[start : start + _CHUNK] - mean).sum(axis=0) for start in blocks)
    return mean, np.sqrt(squares / len(rows))


def _check(name: str, found: tuple[Array, Array], expected: tuple[Array, Array], relative: float) -> None:
    for what, one, other in zip(("mean", "deviation"), found, expected, strict=True):
        if not np.allclose(one, other, rtol=relative, atol=0):
            raise DataDiffersError(f"{name}: the {what} is up to {np.abs(one / other - 1).max():.2g} off")
