"""Files of different lengths, each of which is an example."""

from __future__ import annotations

from typing import Any

import numpy as np

import npyflow as nf
from benchmarks import peers
from benchmarks.data import LENGTHS, MELS
from benchmarks.measure import Array, Side, fingerprint_unpadded, race
from benchmarks.outcome import Outcome, Settings, Value

OURS = "npyflow"
RECIPE = "list_files + numpy_function(np.load) + padded_batch, AUTOTUNE"
BUCKETS = "list_files + numpy_function(np.load) + bucket_by_sequence_length, AUTOTUNE"
PADDED = "npyflow, not bucketed"
_BATCH = 32
_BUCKETS = 8
_PADDING_UNDER = 1 / 3


def padded(settings: Settings) -> Outcome:
    """Each batch filled up with zeros to its longest example."""
    folder = settings.data.sequences
    expected, elements = _contents(settings.data.sequence_paths)
    sides = [
        Side(
            name=OURS,
            make=lambda: nf.files(folder).to_tf(_BATCH, shuffle=True, pad=0.0),
            expected=expected,
            delivered=fingerprint_unpadded,
        ),
        Side(
            name=RECIPE,
            make=lambda: peers.pad_files(f"{folder}/*.npy", MELS, _BATCH),
            expected=expected,
            delivered=fingerprint_unpadded,
        ),
    ]
    outcome = Outcome(title=_title(expected, "padded"), example_bytes=elements * 4 // len(expected))
    outcome.add_timings(race(sides, settings.passes, eager=False), {RECIPE: 9.0})
    return outcome


def bucketed(settings: Settings) -> Outcome:
    """Batches of examples of like length, and what of them is padding."""
    folder = settings.data.sequences
    expected, elements = _contents(settings.data.sequence_paths)
    flow = nf.files(folder)
    ways: dict[str, Any] = {
        OURS: lambda: flow.to_tf(_BATCH, shuffle=True, pad=0.0, bucket=nf.Bucket(count=_BUCKETS)),
        PADDED: lambda: flow.to_tf(_BATCH, shuffle=True, pad=0.0),
        BUCKETS: lambda: peers.bucket_files(f"{folder}/*.npy", MELS, _boundaries(), _BATCH),
    }
    sides = [
        Side(name=name, make=make, expected=expected, delivered=fingerprint_unpadded) for name, make in ways.items()
    ]
    outcome = Outcome(title=_title(expected, f"{_BUCKETS} buckets"), example_bytes=elements * 4 // len(expected))
    ours, unbucketed = (_padding(ways[name](), elements) for name in (OURS, PADDED))
    outcome.values += [
        Value(what="padding, bucketed", value=100 * ours, unit="%"),
        Value(what="padding, not bucketed", value=100 * unbucketed, unit="%"),
        Value(what="padding, bucketed over not bucketed", value=ours / unbucketed, unit="times", under=_PADDING_UNDER),
    ]
    outcome.add_timings(race(sides, settings.passes, eager=False), {})
    return outcome


def _contents(paths: list[str]) -> tuple[Array, int]:
    """Fingerprint of the files, and how many values they hold."""
    elements = sum(np.load(path, mmap_mode="r").size for path in paths)
    return fingerprint_unpadded(np.load(path)[np.newaxis] for path in paths), elements


def _title(files: Array, how: str) -> str:
    shortest, longest = LENGTHS
    return f"{len(files):,} files of {shortest} to {longest} steps, {how}, shuffled, batch {_BATCH}"


def _boundaries() -> list[int]:
    shortest, longest = LENGTHS
    return [round(edge) for edge in np.linspace(shortest, longest + 1, _BUCKETS + 1)[1:-1]]


def _padding(batches: Any, elements: int) -> float:
    """The share of the values of an epoch's batches that are not of the files, of which there are `elements`."""
    return 1 - elements / sum(int(np.prod(batch.shape)) for batch in batches)
