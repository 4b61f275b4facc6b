"""Rows of an array in an archive."""

from __future__ import annotations

import numpy as np

import npyflow as nf
from benchmarks import peers
from benchmarks.measure import Side, fingerprint, race
from benchmarks.outcome import Outcome, Settings

ALONE = "npyflow, the same rows in a .npy file"
RECIPE = "np.load of the archive each epoch + from_tensor_slices"
_BATCH = 64


def shuffled(settings: Settings) -> Outcome:
    """A full shuffle of a stored member."""
    archive, alone = settings.data.member, settings.data.member_alone
    x = np.load(alone)
    expected = fingerprint([x])
    sides = [
        Side(
            name="npyflow, stored member of a .npz file",
            make=lambda: nf.rows(nf.npz(archive)["x"]).to_tf(_BATCH, shuffle=True),
            expected=expected,
        ),
        Side(name=ALONE, make=lambda: nf.rows(alone).to_tf(_BATCH, shuffle=True), expected=expected),
        Side(
            name=RECIPE,
            make=lambda: peers.npz_slices(archive, "x", _BATCH),
            expected=expected,
            each_epoch=True,
        ),
    ]
    outcome = Outcome(title=f"{len(x):,} rows in a .npz file, shuffled, batch {_BATCH}", example_bytes=x[0].nbytes)
    outcome.add_timings(race(sides, settings.passes), {ALONE: 0.8, RECIPE: 2.0})
    return outcome
