"""Whether `npyflow.measure`, from a sample and in a minute, names the way that is fastest on all of the data."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import npyflow as nf
from benchmarks.measure import median, time_datasets
from benchmarks.outcome import Outcome, Settings, Value, ratio

_BATCH = 32
_SECONDS = 60.0
_QUICK_SECONDS = 15.0
_SHUFFLED = 1000
# The verdict keeps what is there unless another way is 1.15 times as fast.
_WITHIN = 0.85
_DEFLATED = 4000

SETS = {
    "tiny": "tiny files",
    "large": "large files",
    "array": "one large array",
    "lengths": "variable lengths",
    "npz": "compressed npz",
    "fortran": "Fortran order",
}


def verdict(settings: Settings, kind: str) -> Outcome:
    """Measure as a user does; then time each way on all of the data, and see how good the advice was."""
    with tempfile.TemporaryDirectory(dir=settings.data.root) as scratch:
        open_flow = _opener(settings, kind, Path(scratch))
        found = nf.measure(open_flow(), seconds=_QUICK_SECONDS if settings.quick else _SECONDS, batch_size=_BATCH)
        ways = _ways(open_flow, found, Path(scratch))
        timings = time_datasets(ways, len(open_flow()), settings.passes)
    named = next(timing for timing in timings if timing.name == found.verdict.best)
    best = min(timings, key=lambda timing: median(timing.passes))
    outcome = Outcome(title=f"verdict: {SETS[kind]}", timings=timings)
    outcome.ratios.append(ratio(named, best, _WITHIN))
    outcome.values.append(Value(what="time of npyflow.measure", value=found.seconds, unit="s"))
    outcome.notes.append(found.verdict.headline)
    return outcome


def _opener(settings: Settings, kind: str, scratch: Path) -> Callable[[], nf.Flow]:
    data = settings.data
    if kind == "array":
        return lambda: nf.rows(data.x)
    if kind == "npz":
        archives = _deflated(data.small_paths, scratch / "npz")
        return lambda: nf.files(archives, members="x")
    folder = {
        "tiny": lambda: data.small,
        "large": lambda: data.images,
        "lengths": lambda: data.sequences,
        "fortran": lambda: data.images_as("fortran"),
    }[kind]()
    return lambda: nf.files(folder)


def _deflated(paths: list[str], folder: Path) -> Path:
    folder.mkdir()
    for number, path in enumerate(paths[:_DEFLATED]):
        np.savez_compressed(folder / f"{number}.npz", x=np.load(path).round(2))
    return folder


def _ways(open_flow: Callable[[], nf.Flow], found: Any, scratch: Path) -> dict[str, Any]:
    """Each way that was measured, on all of the data; the recipe is not one that is ever recommended."""
    flow = open_flow()
    how: dict[str, Any] = {"pad": 0} if None in flow.spec.shape else {}
    ways: dict[str, Any] = {}
    for way in found.ways:
        if way.today:
            ways[way.name] = flow.to_tf(_BATCH, shuffle=True, **how)
        elif way.name in ("mmap", "read"):
            path = flow._view.content.components[0].table.paths[0]  # type: ignore[union-attr]
            ways[way.name] = nf.rows(path, access=way.name).to_tf(_BATCH, shuffle=True)
        elif way.name == "ram":
            arrays = np.concatenate(list(flow.batches(1024)))
            ways[way.name] = nf.rows(arrays).to_tf(_BATCH, shuffle=True)
        elif way.name == "packed":
            ways[way.name] = nf.pack(flow, scratch / "packed").to_tf(_BATCH, shuffle=True, **how)
        elif way.name == "tfrecord":
            records = nf.convert(flow, scratch / "records", to="tfrecord")
            ways[way.name] = records.to_tf(_BATCH, shuffle=_SHUFFLED, **how)
    return ways
