"""Arrays into TFRecord and Parquet."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import npyflow as nf
from benchmarks import peers
from benchmarks.measure import Array, DataDiffersError, fingerprint, into_new_folders
from benchmarks.outcome import Outcome, Settings, ratio

_BATCH = 64
# The loops take a second for so many rows.
_FEWER = 20
_LIST = "FloatList(value=array), a row at a time"
_TOLIST = "FloatList(value=array.tolist())"
_COPY = "cp -r of the same files"


def rows(settings: Settings) -> Outcome:
    """One array to TFRecord, beside the loops of the tutorials, on fewer rows."""
    path = settings.data.spectra
    array = np.load(path, mmap_mode="r")
    some = array[: len(array) // _FEWER]
    ours = "npyflow.convert(to='tfrecord'), read back and compared"
    with tempfile.TemporaryDirectory(dir=settings.data.root) as scratch:
        root = Path(scratch)
        ways = {
            ours: lambda target: nf.convert(nf.rows(path), target, to="tfrecord"),
            "the same, verify='none'": lambda target: nf.convert(nf.rows(path), target, to="tfrecord", verify="none"),
            "the same, encoding='list'": lambda target: nf.convert(
                nf.rows(path), target, to="tfrecord", encoding="list", verify="none"
            ),
        }
        timings = into_new_folders(root, settings.passes, len(array), ways)
        loops = {
            _LIST: lambda target: peers.write_records(some, target, lambda row: row),
            _TOLIST: lambda target: peers.write_records(some, target, lambda row: row.tolist()),
        }
        slow = into_new_folders(root, min(2, settings.passes), len(some), loops)
        nf.convert(nf.rows(path), root / "last", to="tfrecord")
        _check(nf.open_tfrecord(root / "last").to_tf(_BATCH), array)
    outcome = Outcome(title=f"{len(array):,} rows of 16 kB to TFRecord", example_bytes=array[0].nbytes)
    outcome.timings += [*timings, *slow]
    targets = {_LIST: 20.0, _TOLIST: 4.0}
    outcome.ratios += [ratio(timings[0], other, targets[other.name]) for other in slow]
    return outcome


def images(settings: Settings, to: str) -> Outcome:
    """Files of 196 kB, beside a copy of them."""
    data = settings.data
    flow = nf.files(data.images)
    arrays = np.stack([np.load(path) for path in data.image_paths])
    targets = {"tfrecord": (0.4, 0.2), "parquet": (0.15, None), "arrayrecord": (None, None)}[to]
    unverified, verified = f"npyflow.convert(to={to!r}), verify='none'", f"npyflow.convert(to={to!r}), read back"
    with tempfile.TemporaryDirectory(dir=data.root) as scratch:
        ways: dict[str, Callable[[Path], Any]] = {
            unverified: lambda target: nf.convert(flow, target, to=to, verify="none"),  # type: ignore[arg-type]
            verified: lambda target: nf.convert(flow, target, to=to),  # type: ignore[arg-type]
            _COPY: lambda target: subprocess.run(["cp", "-rL", data.images, target], check=True),
        }
        fast, full, copy = into_new_folders(Path(scratch), settings.passes, len(arrays), ways)
        converted = nf.convert(flow, Path(scratch) / "last", to=to)  # type: ignore[arg-type]
        _check(converted.to_tf(_BATCH), arrays)
    outcome = Outcome(title=f"{len(arrays):,} files of 196 kB to {to}", example_bytes=arrays[0].nbytes)
    outcome.timings += [fast, full, copy]
    outcome.ratios += [ratio(fast, copy, targets[0]), ratio(full, copy, targets[1])]
    return outcome


def _check(batches: Iterable[Any], arrays: Array) -> None:
    numpy = (batch.numpy() if isinstance(batch, tf.Tensor) else batch for batch in batches)
    if (fingerprint(numpy) != fingerprint([arrays])).any():
        raise DataDiffersError("convert: other examples than in the source")
