"""Rows of a pair of big files."""

from __future__ import annotations

from typing import Any

import numpy as np

import npyflow as nf
from benchmarks import loaders, peers
from benchmarks.measure import Array, Side, fingerprint, race
from benchmarks.outcome import Outcome, Settings

OURS = "npyflow, from disk"
RECIPE = "from_tensor_slices, from RAM"
KERAS = "dataset of Keras fit(x, y), from RAM"
TORCH = "PyTorch DataLoader, batched fetch, from RAM"
ALIGNED = "npyflow, aligned file"

TARGETS = {
    32: {RECIPE: 2.5, KERAS: 0.9},
    64: {RECIPE: 4.5, KERAS: 0.9, TORCH: 0.9},
    256: {RECIPE: 6.0, KERAS: 1.0},
    1024: {RECIPE: 6.0, KERAS: 1.0},
}
# Peers that call Python for each row are timed on this many.
_SLOW_ROWS = 5_000
_ELEMENTS = 50_000
_ALL_PEERS_AT = 64


def shuffled(settings: Settings, batch_size: int) -> Outcome:
    """A full shuffle of pairs."""
    data = settings.data
    x, y = np.load(data.x), np.load(data.y)
    expected = fingerprint([(x, y)])
    flow = nf.rows((data.x, data.y))
    outcome = Outcome(title=f"rows, shuffled, batch {batch_size}", example_bytes=_pair_bytes(x, y))
    sides = [
        Side(name=OURS, make=lambda: flow.to_tf(batch_size, shuffle=True), expected=expected),
        Side(name=KERAS, make=lambda: peers.keras_arrays(x, y, batch_size), expected=expected),
        Side(name=RECIPE, make=lambda: peers.tensor_slices(x, y, batch_size), expected=expected),
    ]
    if batch_size == _ALL_PEERS_AT:
        mapped = (np.load(data.x, mmap_mode="r"), np.load(data.y, mmap_mode="r"))
        sides += _torch_sides((x, y), expected, batch_size, outcome, per_row=not settings.quick)
        sides += [] if settings.quick else _more_sides(mapped, expected, batch_size, outcome)
    outcome.add_timings(race(sides, settings.passes), TARGETS[batch_size])
    return outcome


def unaligned(settings: Settings) -> Outcome:
    """The same rows from a file whose header has an odd length."""
    data = settings.data
    x, y = np.load(data.x, mmap_mode="r"), np.load(data.y)
    expected = fingerprint([(x, y)])
    sides = [
        Side(
            name=name,
            make=lambda path=path: nf.rows((path, data.y)).to_tf(64, shuffle=True),  # type: ignore[misc]
            expected=expected,
        )
        for name, path in (("npyflow, unaligned file", data.unaligned), (ALIGNED, data.x))
    ]
    outcome = Outcome(title="rows, unaligned payload, batch 64", example_bytes=_pair_bytes(x, y))
    outcome.add_timings(race(sides, settings.passes, eager=False), {ALIGNED: 0.8})
    return outcome


def elements(settings: Settings) -> Outcome:
    """Single rows, ``batch_size=None``."""
    data = settings.data
    x, y = np.load(data.x), np.load(data.y)
    x, y = x[:_ELEMENTS], y[:_ELEMENTS]
    expected = fingerprint([(x, y)])
    flow = nf.rows((data.x, data.y))
    recipe = "from_tensor_slices, element by element"
    sides = [
        Side(name=OURS, make=lambda: flow.to_tf().take(_ELEMENTS), expected=expected, batched=False),
        Side(name=recipe, make=lambda: peers.element_slices(x, y), expected=expected, batched=False),
    ]
    outcome = Outcome(title="rows one by one, batch_size=None", example_bytes=_pair_bytes(x, y))
    outcome.add_timings(race(sides, settings.passes, eager=False), {recipe: 0.5})
    return outcome


def _pair_bytes(x: Any, y: Any) -> int:
    return int(x[0].nbytes + y.itemsize)


def _torch_sides(arrays: Any, expected: Array, batch_size: int, outcome: Outcome, *, per_row: bool) -> list[Side]:
    if not loaders.installed(loaders.TORCH):
        outcome.notes.append("PyTorch: not installed")
        return []
    ways = [(TORCH, loaders.torch_batches)]
    if per_row:
        ways.append(("PyTorch DataLoader, a row at a time, from RAM", loaders.torch_rows))
    return [
        Side(name=name, make=lambda make=make: make(*arrays, batch_size), expected=expected)  # type: ignore[misc]
        for name, make in ways
    ]


def _more_sides(mapped: Any, expected: Array, batch_size: int, outcome: Outcome) -> list[Side]:
    """Peers without a target: some copy the map whole, the others call Python for each batch or row."""
    some = tuple(array[:_SLOW_ROWS] for array in mapped)
    fewer = fingerprint([some])
    sides = [
        Side(name=name, make=lambda make=make, on=on: make(*on, batch_size), expected=expects)  # type: ignore[misc]
        for name, make, on, expects in (
            ("from_tensor_slices, from a map", peers.tensor_slices, mapped, expected),
            ("one numpy_function a batch, from a map", peers.function_a_batch, mapped, expected),
            ("from_generator, from a map", peers.generator, some, fewer),
        )
    ]
    if loaders.installed(loaders.GRAIN):
        make_grain = lambda: loaders.grain_rows(*some, batch_size)  # noqa: E731
        sides.append(Side(name="Grain MapDataset, from a map", make=make_grain, expected=fewer))
    else:
        outcome.notes.append("Grain: not installed")
    return sides
