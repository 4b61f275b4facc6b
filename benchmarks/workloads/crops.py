"""Random cubes cut out of volumes and their masks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import npyflow as nf
from benchmarks import peers
from benchmarks.measure import Array, Side, fingerprint, race
from benchmarks.outcome import Outcome, Settings

RECIPE = "np.load(mmap_mode='r') and slice in numpy_function, AUTOTUNE"
_SIZES = (64, 64, 64)
_A_FILE = 16
_BATCH = 4


def pairs(settings: Settings) -> Outcome:
    """An image and its mask, cut at the same place."""
    images, masks = settings.data.volumes, settings.data.masks
    crop = nf.Crop(_SIZES, random=True, per_file=_A_FILE)
    flow = nf.files({"image": images, "mask": masks}, crop=crop)
    # The peer is given the places of npyflow's first epoch, which is the one that is compared.
    corners = flow.positions(epoch=0)
    paths = [(_path(images, key), _path(masks, key)) for key in flow.keys]
    expected = _expected(paths, corners)
    sides = [
        Side(name="npyflow", make=lambda: flow.to_tf(_BATCH, shuffle=True), expected=expected),
        Side(name=RECIPE, make=lambda: peers.slice_maps(paths, corners, _SIZES, _BATCH), expected=expected),
    ]
    volumes = len(set(flow.keys))
    title = f"cubes of {_SIZES[0]} from {volumes} volumes and masks, random, batch {_BATCH}"
    outcome = Outcome(title=title, example_bytes=int(np.prod(_SIZES)) * (4 + 1))
    outcome.add_timings(race(sides, settings.passes), {RECIPE: 2.5})
    return outcome


def _path(folder: Path, key: Any) -> str:
    name = str(key)
    return str(folder / (name if name.endswith(".npy") else f"{name}.npy"))


def _expected(paths: list[tuple[str, str]], corners: Array) -> Array:
    """Fingerprint of what lies at `corners`."""
    batches = []
    for names, corner in zip(paths, corners, strict=True):
        where = tuple(slice(first, first + size) for first, size in zip(corner, _SIZES, strict=True))
        batches.append([np.load(name, mmap_mode="r")[where][np.newaxis].copy() for name in names])
    return fingerprint(batches)
