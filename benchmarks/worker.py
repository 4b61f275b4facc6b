"""Runs one workload in this process: ``python -m benchmarks.worker NAME DATA PASSES QUICK OUT``."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

from benchmarks.data import FULL, QUICK, Data
from benchmarks.outcome import Outcome, Settings
from benchmarks.workloads import run


def main() -> None:
    name, root, passes, quick, out = sys.argv[1:]
    is_quick = quick == "quick"
    settings = Settings(data=Data(Path(root), QUICK if is_quick else FULL), passes=int(passes), quick=is_quick)
    Path(out).write_text(json.dumps(_plain(run(name, settings))))


def _plain(outcome: Outcome) -> dict[str, object]:
    found = dataclasses.asdict(outcome)
    for kind in ("ratios", "values"):
        for plain, one in zip(found[kind], getattr(outcome, kind), strict=True):
            plain["reached"] = one.reached
    return found


if __name__ == "__main__":
    main()
