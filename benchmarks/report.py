"""From results to tables: on the terminal, and in the documentation."""

from __future__ import annotations

import os
import platform
import statistics
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

BEGIN = "<!-- benchmarks: begin -->"
END = "<!-- benchmarks: end -->"

_PACKAGES = ("npyflow", "tensorflow", "tensorflow-cpu", "keras", "numpy", "torch", "grain", "nvidia-dali-cuda120")
_REACHED = {True: "yes", False: "no", None: ""}

# A title, column names (numbers are the ones after `text_columns`), rows.
Grid = tuple[str, int, list[str], list[list[str]]]


def environment() -> dict[str, Any]:
    """What figures depend on, without naming the machine."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {
        "cpus": cpus,
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": versions,
    }


def grids(results: dict[str, Any]) -> list[Grid]:
    """The tables of `results`."""
    workloads = results["workloads"]
    return [
        (
            "Ratios: how many times as fast npyflow is, examples a second",
            2,
            ["workload", "against", "npyflow", "peer", "by median", "by best", "at least", "reached"],
            [row for one in workloads for row in _ratio_rows(one)],
        ),
        (
            "Figures that stand for themselves",
            2,
            ["workload", "what", "figure", "under", "reached"],
            [row for one in workloads for row in _value_rows(one)],
        ),
        (
            "All sides, examples a second",
            3,
            ["workload", "side", "loop", "passes", "median", "best", "GB/s", "Python loop"],
            [row for one in workloads for row in _timing_rows(one)],
        ),
    ]


def show(results: dict[str, Any], console: Console) -> None:
    for title, text_columns, columns, rows in grids(results):
        if not rows:
            continue
        table = Table(title=title, title_justify="left")
        for number, column in enumerate(columns):
            is_text = number < text_columns
            table.add_column(column, justify="left" if is_text else "right", no_wrap=not is_text)
        for row in rows:
            table.add_row(*row, style="red" if row[-1] == "no" else None)
        console.print(table)
    for line in _notes(results):
        console.print(line)


def render(results: dict[str, Any]) -> str:
    """`results` in Markdown."""
    parts = [_conditions(results)]
    for title, text_columns, columns, rows in grids(results):
        marks = ["---" if number < text_columns else "---:" for number in range(len(columns))]
        lines = [columns, marks, *rows]
        parts.append(f"### {title}\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines))
    notes = _notes(results)
    return "\n\n".join(parts + (["\n".join(f"- {line}" for line in notes)] if notes else []))


def quote(results: dict[str, Any], page: Path) -> None:
    """Put `results` between the markers of `page`."""
    text = page.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"{page}: expected {BEGIN} and after it {END}, once each")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    page.write_text(f"{before}{BEGIN}\n\n{render(results)}\n\n{END}{after}", encoding="utf-8")


def _conditions(results: dict[str, Any]) -> str:
    at = results["environment"]
    versions = ", ".join(f"{name} {version}" for name, version in at["versions"].items())
    quick = " A quick run on less data: not for quoting." if results["quick"] else ""
    return (
        f"{at['cpus']} CPUs, {at['system']}, Python {at['python']}, {versions}. "
        f"Warm page cache, up to {results['passes']} passes in turns; load average before the run {at['load']}.{quick}"
    )


def _notes(results: dict[str, Any]) -> list[str]:
    notes = [f"{one['title']}: {note}" for one in results["workloads"] for note in one["notes"]]
    return notes + [f"{name}: failed, {why}" for name, why in results["failed"].items()]


def _ratio_rows(one: dict[str, Any]) -> list[list[str]]:
    timings = {timing["name"]: timing for timing in one["timings"]}
    return [
        [
            one["title"],
            ratio["against"] if ratio["ours"] == one["timings"][0]["name"] else f"{ratio['ours']} / {ratio['against']}",
            _rate(timings[ratio["ours"]]),
            _rate(timings[ratio["against"]]),
            _times(ratio["by_median"]),
            _times(ratio["by_best"]),
            "" if ratio["at_least"] is None else f"{ratio['at_least']:g}",
            _REACHED[ratio["reached"]],
        ]
        for ratio in one["ratios"]
    ]


def _value_rows(one: dict[str, Any]) -> list[list[str]]:
    return [
        [
            one["title"],
            value["what"],
            f"{_figure(value['value'])} {value['unit']}",
            "" if value["under"] is None else f"{value['under']:g} {value['unit']}",
            _REACHED[value["reached"]],
        ]
        for value in one["values"]
    ]


def _timing_rows(one: dict[str, Any]) -> list[list[str]]:
    rows = []
    for timing in one["timings"]:
        gigabytes = one["example_bytes"] * timing["examples"] / statistics.median(timing["passes"]) / 1e9
        eager = timing["examples"] / statistics.median(timing["eager"]) if timing["eager"] else None
        rows.append(
            [
                one["title"],
                timing["name"],
                timing["loop"],
                str(len(timing["passes"])),
                _rate(timing),
                f"{timing['examples'] / min(timing['passes']):,.0f}",
                f"{gigabytes:.2f}" if gigabytes else "",
                "" if eager is None else f"{eager:,.0f}",
            ]
        )
    return rows


def _rate(timing: dict[str, Any]) -> str:
    return f"{timing['examples'] / statistics.median(timing['passes']):,.0f}"


def _times(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.1f}"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
