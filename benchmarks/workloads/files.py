"""Many files, each of which is an example."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import npyflow as nf
from benchmarks import loaders, peers
from benchmarks.data import IMAGE, SMALL
from benchmarks.measure import Array, Side, fingerprint, race
from benchmarks.outcome import Outcome, Settings

RECIPE = "list_files + numpy_function(np.load), AUTOTUNE"
RECORDS = "TFRecord of the same data"
BARE = "open, preadv, close in a loop"
MEMCPY = "memcpy from RAM"
_BATCH = 32
# Where np.save ends its header, for arrays of few dimensions.
_HEADER_BYTES = 128


def small(settings: Settings) -> Outcome:
    """Files of 4 kB."""
    data = settings.data
    arrays = np.stack([np.load(path) for path in data.small_paths])
    expected = fingerprint([arrays])
    paths, folder = data.small_paths, data.small
    outcome = Outcome(title=f"{len(paths):,} files of 4 kB, shuffled, batch {_BATCH}", example_bytes=arrays[0].nbytes)
    bare = lambda: loaders.bare_files(paths, SMALL, _BATCH, _HEADER_BYTES)  # noqa: E731
    sides = [
        *_common_sides(folder, paths, SMALL, expected),
        Side(name=BARE, make=bare, expected=expected),
        *_record_sides(settings, folder, paths, SMALL, expected),
    ]
    if not settings.quick:
        sides += _more_sides(paths, SMALL, arrays, outcome)
    outcome.add_timings(race(sides, settings.passes), {RECIPE: 14.0, BARE: 0.65})
    return outcome


def images(settings: Settings) -> Outcome:
    """Files of 196 kB."""
    data = settings.data
    arrays = np.stack([np.load(path) for path in data.image_paths])
    expected = fingerprint([arrays])
    paths, folder = data.image_paths, data.images
    outcome = Outcome(title=f"{len(paths):,} files of 196 kB, shuffled, batch {_BATCH}", example_bytes=arrays[0].nbytes)
    sides = [
        *_common_sides(folder, paths, IMAGE, expected),
        Side(
            name=BARE,
            make=lambda: loaders.bare_files(paths, IMAGE, _BATCH, _HEADER_BYTES),
            expected=expected,
        ),
        Side(name=MEMCPY, make=lambda: loaders.memcpy(arrays, _BATCH), expected=expected),
        *_record_sides(settings, folder, paths, IMAGE, expected),
        *_dali_sides(paths, expected, outcome),
    ]
    outcome.add_timings(race(sides, settings.passes), {RECIPE: 12.0, RECORDS: 5.0, MEMCPY: 0.5})
    return outcome


def _common_sides(folder: Path, paths: list[str], shape: tuple[int, ...], expected: Array) -> list[Side]:
    return [
        Side(name="npyflow", make=lambda: nf.files(folder).to_tf(_BATCH, shuffle=True), expected=expected),
        Side(
            name=RECIPE,
            make=lambda: peers.load_a_file(f"{Path(paths[0]).parent}/*.npy", shape, _BATCH),
            expected=expected,
        ),
    ]


def _record_sides(
    settings: Settings, folder: Path, paths: list[str], shape: tuple[int, ...], expected: Array
) -> list[Side]:
    file = str(settings.data.records(folder, paths))
    return [Side(name=RECORDS, make=lambda: peers.records(file, shape, _BATCH), expected=expected)]


def _more_sides(paths: list[str], shape: tuple[int, ...], arrays: Array, outcome: Outcome) -> list[Side]:
    """Peers without a target, the slow ones on fewer files."""
    expected = fingerprint([arrays])
    some = len(paths) // 5
    fewer = fingerprint([arrays[:some]])
    return [
        Side(
            name="one numpy_function a batch",
            make=lambda: peers.load_a_batch(paths[:some], shape, _BATCH),
            expected=fewer,
        ),
        Side(name="from_generator", make=lambda: peers.file_generator(paths[:some], shape, _BATCH), expected=fewer),
        *_dali_sides(paths, expected, outcome),
    ]


def _dali_sides(paths: list[str], expected: Array, outcome: Outcome) -> list[Side]:
    if not loaders.installed(loaders.DALI):
        outcome.notes.append("DALI: not installed")
        return []
    return [Side(name="DALI readers.numpy, CPU", make=lambda: loaders.dali_files(paths, _BATCH), expected=expected)]
