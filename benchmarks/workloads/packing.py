"""Many small files into few, and how those are read."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import npyflow as nf
from benchmarks import peers
from benchmarks.data import SMALL
from benchmarks.measure import DataDiffersError, PeakMemory, Side, fingerprint, into_new_folders, race
from benchmarks.outcome import Outcome, Settings, Value
from benchmarks.workloads.files import RECORDS

_OURS = "npyflow.pack(npyflow.files(folder)), read back and compared"
_UNVERIFIED = "the same, verify='none'"
_STACK = "np.stack of np.load of each, and np.save"
_BATCH = 32
_UNDER_MB = 200.0


def writing(settings: Settings) -> Outcome:
    """From the path of a folder to a folder that opens."""
    data, folder = settings.data, settings.data.small
    arrays = np.stack([np.load(path) for path in data.small_paths])
    with tempfile.TemporaryDirectory(dir=data.root) as scratch:
        ways = {
            _OURS: lambda target: nf.pack(nf.files(folder), target),
            _STACK: lambda target: _stack(data.small_paths, target),
            _UNVERIFIED: lambda target: nf.pack(nf.files(folder), target, verify="none"),
        }
        timings = into_new_folders(Path(scratch), settings.passes, len(arrays), ways)
        with PeakMemory() as peak:
            packed = nf.pack(nf.files(folder), Path(scratch) / "memory")
        if (fingerprint(packed.batches(_BATCH)) != fingerprint([arrays])).any():
            raise DataDiffersError("pack: other examples than in the files")
    outcome = Outcome(title=f"packing {len(arrays):,} files of 4 kB", example_bytes=arrays[0].nbytes)
    outcome.add_timings(timings, {_STACK: 3.0})
    outcome.values.append(
        Value(what="anonymous memory, growth at the peak", value=peak.anonymous, unit="MB", under=_UNDER_MB)
    )
    return outcome


def reading(settings: Settings) -> Outcome:
    """Packed files, shuffled over all of them."""
    data = settings.data
    arrays = np.stack([np.load(path) for path in data.small_paths])
    expected = fingerprint([arrays])
    records = str(data.records(data.small, data.small_paths))
    outcome = Outcome(title=f"{len(arrays):,} packed examples of 4 kB, shuffled, batch {_BATCH}")
    outcome.example_bytes = arrays[0].nbytes
    with tempfile.TemporaryDirectory(dir=data.root) as scratch:
        packed = nf.pack(nf.files(data.small), Path(scratch) / "packed")
        sides = [
            Side(name="npyflow, packed", make=lambda: packed.to_tf(_BATCH, shuffle=True), expected=expected),
            Side(name=RECORDS, make=lambda: peers.records(records, SMALL, _BATCH), expected=expected),
            Side(
                name="npyflow, the files",
                make=lambda: nf.files(data.small).to_tf(_BATCH, shuffle=True),
                expected=expected,
            ),
        ]
        outcome.add_timings(race(sides, settings.passes), {RECORDS: 1.3})
    outcome.notes.append("npyflow shuffles all examples, TFRecord a buffer of 1,000")
    return outcome


def _stack(paths: list[str], target: Path) -> None:
    target.mkdir()
    np.save(target / "all.npy", np.stack([np.load(path) for path in paths]))
