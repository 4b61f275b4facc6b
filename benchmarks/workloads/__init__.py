"""The workloads by name. Each runs in a process of its own, so that none disturbs another."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from benchmarks.outcome import Outcome, Settings

# Module, function, arguments. Named, not imported: most of them load TensorFlow.
WORKLOADS: dict[str, tuple[str, str, dict[str, Any]]] = {
    **{f"rows-{size}": ("rows", "shuffled", {"batch_size": size}) for size in (32, 64, 256, 1024)},
    "unaligned": ("rows", "unaligned", {}),
    "elements": ("rows", "elements", {}),
    "fit": ("fitting", "dense", {}),
    **{f"memory-{kind}": ("memory", "growth", {"kind": kind}) for kind in ("rows", "sparse", "map", "keras")},
    "npz": ("npz", "shuffled", {}),
    "files": ("files", "small", {}),
    "images": ("files", "images", {}),
    **{
        f"{layout}-{name}": ("layouts", "against_native", {"layout": layout, "images": name == "images"})
        for layout in ("big-endian", "fortran")
        for name in ("images", "files")
    },
    "padded": ("lengths", "padded", {}),
    "bucketed": ("lengths", "bucketed", {}),
    "windows": ("windows", "shuffled", {}),
    "memory-windows": ("windows", "growth", {}),
    "crops": ("crops", "pairs", {}),
    "statistics": ("statistics", "means", {}),
    "scan": ("opening", "scanning", {}),
    "opening": ("opening", "folder", {}),
    "first-batch": ("opening", "first_batch", {}),
    "pack": ("packing", "writing", {}),
    "packed": ("packing", "reading", {}),
    "convert-rows": ("converting", "rows", {}),
    **{f"convert-{to}": ("converting", "images", {"to": to}) for to in ("tfrecord", "parquet", "arrayrecord")},
    **{
        f"verdict-{kind}": ("verdict", "verdict", {"kind": kind})
        for kind in ("tiny", "large", "array", "lengths", "npz", "fortran")
    },
    "order": ("costs", "order", {}),
    "import": ("costs", "imports", {}),
}

# Left out of a quick run: they say more about peers, or repeat another workload at another size.
NOT_QUICK = frozenset(
    {
        *("rows-32", "rows-256", "rows-1024", "memory-map", "memory-keras", "elements", "unaligned", "first-batch"),
        *("big-endian-files", "fortran-files", "convert-arrayrecord"),
        *("verdict-large", "verdict-array", "verdict-lengths", "verdict-npz", "verdict-fortran"),
    }
)


def run(name: str, settings: Settings) -> Outcome:
    module, function, arguments = WORKLOADS[name]
    outcome: Outcome = getattr(import_module(f"{__name__}.{module}"), function)(settings, **arguments)
    return outcome
