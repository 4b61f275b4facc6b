"""What it takes until a folder of files is open, and what of it is the reading of headers."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import npyflow as nf
from benchmarks.measure import DataDiffersError, Timing, clock, in_turns, median
from benchmarks.outcome import Outcome, Settings, Value, ratio
from npyflow._sources.scan import scan

_HEADERS = "np.load(mmap_mode='r') of each"
_SCAN = "npyflow.files(folder)"
_MANIFEST = "npyflow.load(manifest)"
_SCAN_ALONE = "npyflow's scan"
_PARSE = "open and np.lib.format for each"
_FIRST_BATCH_S = 1.0
_PASSES = 2


def folder(settings: Settings) -> Outcome:
    """List, scan, check every header; and open from a manifest instead."""
    path = settings.data.small
    with tempfile.TemporaryDirectory() as scratch:
        manifest = Path(scratch) / "manifest"
        nf.files(path).save(manifest)
        _check(path, manifest)
        ways = {
            _SCAN: lambda: nf.files(path),
            _HEADERS: lambda: _headers(path),
            _MANIFEST: lambda: nf.load(manifest),
        }
        files = len(settings.data.small_paths)
        seconds = in_turns(min(settings.passes, _PASSES), *ways.values())
    scan, headers, loaded = (
        Timing(name=name, examples=files, passes=passes) for name, passes in zip(ways, seconds, strict=True)
    )
    outcome = Outcome(title=f"opening {files:,} files", timings=[scan, headers, loaded])
    outcome.ratios += [ratio(scan, headers, 5.0), ratio(loaded, scan, 5.0)]
    return outcome


def scanning(settings: Settings) -> Outcome:
    """The headers of files whose paths are known."""
    paths = settings.data.small_paths
    table = scan(paths).tables[0]
    scanned = [(header.shape, header.fortran_order, header.dtype) for header in map(table.header, range(len(table)))]
    if scanned != _parse(paths):
        raise DataDiffersError(f"scan: {len(scanned):,} headers, not those that np.lib.format reads")
    seconds = in_turns(settings.passes, lambda: scan(paths), lambda: _parse(paths))
    outcome = Outcome(title=f"headers of {len(paths):,} files")
    timings = [
        Timing(name=name, examples=len(paths), passes=passes)
        for name, passes in zip((_SCAN_ALONE, _PARSE), seconds, strict=True)
    ]
    outcome.add_timings(timings, {_PARSE: 5.0})
    return outcome


def first_batch(settings: Settings) -> Outcome:
    """From the path of a folder to the first shuffled batch, TensorFlow imported."""
    import tensorflow as tf

    next(iter(tf.data.Dataset.range(2).batch(2)))
    path = settings.data.small
    seconds = [clock(lambda: next(iter(nf.files(path).to_tf(32, shuffle=True)))) for _ in range(settings.passes)]
    outcome = Outcome(title=f"opening {len(settings.data.small_paths):,} files, to the first batch")
    outcome.values.append(Value(what="time to the first batch", value=median(seconds), unit="s", under=_FIRST_BATCH_S))
    return outcome


def _headers(path: Path) -> list[tuple[Any, Any]]:
    # A map that is kept keeps its file open; so many are over the limit of most systems.
    found = []
    for name in sorted(os.listdir(path)):
        array = np.load(path / name, mmap_mode="r")
        found.append((array.shape, array.dtype))
    return found


def _parse(paths: list[str]) -> list[tuple[Any, Any, Any]]:
    found = []
    for path in paths:
        with open(path, "rb") as file:
            np.lib.format.read_magic(file)
            found.append(np.lib.format.read_array_header_1_0(file))
    return found


def _check(path: Path, manifest: Path) -> None:
    scanned, loaded, headers = nf.files(path), nf.load(manifest), _headers(path)
    if {(scanned.spec.shape, scanned.spec.dtype)} != set(headers) or len(scanned) != len(headers):
        raise DataDiffersError(
            f"opening: {len(scanned):,} of {scanned.spec}, {len(headers):,} headers of {set(headers)}"
        )
    if scanned.keys != loaded.keys or scanned.spec != loaded.spec:
        raise DataDiffersError("opening: the manifest gives other keys or another spec than the folder")
