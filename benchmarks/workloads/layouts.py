"""Files that are stored big-endian or in Fortran order, each of which is an example."""

from __future__ import annotations

import numpy as np

import npyflow as nf
from benchmarks.measure import Side, fingerprint, race
from benchmarks.outcome import Outcome, Settings

NATIVE = "npyflow, native files in C order"
# For the larger files: with small ones the system calls hide the conversion.
TARGETS = {"big-endian": 0.5, "fortran": 0.25}
_SHOWN = {"big-endian": "big-endian", "fortran": "Fortran order"}
_BATCH = 32


def against_native(settings: Settings, layout: str, images: bool) -> Outcome:
    """The same arrays in a layout that must be converted, and as they are delivered."""
    data = settings.data
    if images:
        paths, native, other, size = data.image_paths, data.images, data.images_as(layout), "196 kB"
    else:
        paths, native, other, size = data.small_paths, data.small, data.small_as(layout), "4 kB"
    arrays = np.stack([np.load(path) for path in paths])
    expected = fingerprint([arrays])
    sides = [
        Side(
            name=name,
            make=lambda folder=folder: nf.files(folder).to_tf(_BATCH, shuffle=True),  # type: ignore[misc]
            expected=expected,
        )
        for name, folder in ((f"npyflow, {_SHOWN[layout]}", other), (NATIVE, native))
    ]
    title = f"{len(paths):,} files of {size}, {_SHOWN[layout]}, batch {_BATCH}"
    outcome = Outcome(title=title, example_bytes=arrays[0].nbytes)
    outcome.add_timings(race(sides, settings.passes, eager=False), {NATIVE: TARGETS[layout]} if images else {})
    return outcome
