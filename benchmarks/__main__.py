"""Command line of the benchmarks: ``python -m benchmarks``."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import report
from benchmarks.data import FULL, QUICK, Data
from benchmarks.workloads import NOT_QUICK, WORKLOADS

_HERE = Path(__file__).resolve().parent
_PASSES = 5
_QUICK_PASSES = 2
_LAST_LINES = 3
_FILE_WIDTH = 180


def main() -> int:
    options = _parser().parse_args()
    console = Console(width=None if sys.stdout.isatty() else _FILE_WIDTH)
    if options.render is not None:
        results = json.loads(options.render.read_text())
    else:
        results = _measure(options, console)
        report.show(results, console)
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    if options.docs is not None:
        report.quote(results, options.docs)
    return 1 if results["failed"] else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure npyflow beside its peers.")
    names = f"which to run, a name or the beginning of names; all by default: {', '.join(WORKLOADS)}"
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=names)
    parser.add_argument("--quick", action="store_true", help="fewer workloads, peers and passes, less data")
    parser.add_argument("--passes", type=int, help=f"of each side, {_PASSES} by default, {_QUICK_PASSES} when quick")
    parser.add_argument("--data", type=Path, metavar="DIR", help="where the data is, or is made if it is missing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results here")
    parser.add_argument("--docs", type=Path, metavar="FILE", help="quote the results in this page, between its markers")
    parser.add_argument("--render", type=Path, metavar="JSON", help="take these results and measure nothing")
    return parser


def _measure(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    root = options.data or _HERE / "data" / ("quick" if options.quick else "full")
    passes = options.passes or (_QUICK_PASSES if options.quick else _PASSES)
    with console.status(f"data in {root}"):
        Data(root.resolve(), QUICK if options.quick else FULL).prepare()
    results: dict[str, Any] = {
        "environment": report.environment(),
        "quick": options.quick,
        "passes": passes,
        "workloads": [],
        "failed": {},
    }
    for name in _chosen(options.workloads, options.quick):
        start = time.perf_counter()
        with console.status(name):
            outcome, error = _run(name, root.resolve(), passes, options.quick)
        if outcome is None:
            results["failed"][name] = error
            console.print(f"{name}: failed\n{error}", style="red", markup=False)
        else:
            results["workloads"].append(outcome)
            console.print(f"{name}: done in {time.perf_counter() - start:.0f} s", markup=False)
    return results


def _chosen(asked: list[str], quick: bool) -> list[str]:
    for prefix in asked:
        if not any(name.startswith(prefix) for name in WORKLOADS):
            sys.exit(f"no workload begins with {prefix!r}; there are {', '.join(WORKLOADS)}")
    if asked:
        return [name for name in WORKLOADS if name.startswith(tuple(asked))]
    return [name for name in WORKLOADS if not (quick and name in NOT_QUICK)]


def _run(name: str, root: Path, passes: int, quick: bool) -> tuple[dict[str, Any] | None, str]:
    """Run a workload in a fresh process; return what it found, or the end of what it said when it failed."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "outcome.json"
        done = subprocess.run(
            [
                *(sys.executable, "-m", "benchmarks.worker"),
                *(name, str(root), str(passes), "quick" if quick else "full", str(out)),
            ],
            check=False,
            cwd=_HERE.parent,
            env={"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ},
            capture_output=True,
            text=True,
        )
        if done.returncode == 0 and out.exists():
            return json.loads(out.read_text()), ""
    lines = done.stderr.strip().splitlines()[-_LAST_LINES:]
    return None, "\n".join(lines) or f"exit status {done.returncode}"


if __name__ == "__main__":
    sys.exit(main())
