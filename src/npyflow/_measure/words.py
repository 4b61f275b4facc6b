"""A measurement in words: what ``npyflow measure`` prints."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

from npyflow._core.text import human_bytes, plural, show_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npyflow._measure.result import Measurement, Stage, Way

_WIDTH = 100
_SHOWN = 6
_BAR = 24
_UNIT = re.compile(r"(\d) (s|ms|B|kB|MB|GB|TB|MB/s|examples/s|epochs?|minutes|hours|times)\b")

STAGE_WORDS = {
    "list": "list the folders (once)",
    "open": "open and close files",
    "header": "read and compare headers",
    "read": "read the bytes",
    "inflate": "inflate what is compressed",
    "copy": "copy into the batch",
    "cast": "cast to what is delivered",
    "batch": "order, memory, checks",
    "hand-over": "hand over to TensorFlow",
}


def render(found: Measurement) -> str:
    """Return the whole text: the verdict, and the tables that it rests on."""
    blocks = [
        _verdict(found),
        _data(found),
        _ways(found),
        _batch_sizes(found),
        _stages(found),
        _notes(found),
    ]
    return "\n\n".join(block for block in blocks if block)


def _verdict(found: Measurement) -> str:
    verdict = found.verdict
    lines = _wrapped("Verdict: " + verdict.headline, "")
    for reason in verdict.reasons:
        lines += _wrapped(reason, "  ")
    lines += ["", "  What to type:"]
    return "\n".join(lines + [f"    {show_path(command)}" for command in verdict.commands])


def _data(found: Measurement) -> str:
    census = found.census
    files = f" in {plural(census.files, 'file')}" if census.files else ", in RAM"
    each, all_ = human_bytes(round(found.bytes_per_example)), human_bytes(found.total_bytes)
    lines = [
        f"The data: {show_path(found.path)}",
        f"  {plural(found.examples, 'example')}{files}; {each} each in the mean, {all_} together",
    ]
    for one in census.components:
        name = f"{show_path(one['name'])}: " if one["name"] else ""
        lines.append(f"  {name}{one['dtype']} {one['shape']}")
    lines += _counted("stored shapes", census.shapes) + _counted("stored as", census.dtypes)
    lines += _counted("classes", census.classes)
    machine = found.machine
    tensorflow = f"TensorFlow {machine.tensorflow}" if machine.tensorflow else "no TensorFlow"
    lines.append(
        f"  measured in {found.seconds:.0f} s on {plural(machine.cpus, 'CPU')}, {human_bytes(machine.memory_bytes)} "
        f"memory, {tensorflow}, NumPy {machine.numpy}, Python {machine.python}"
    )
    return "\n".join(lines)


def _counted(what: str, pairs: Sequence[tuple[str, int]]) -> list[str]:
    """A line for what differs; nothing where all are of one kind."""
    if len(pairs) < 2:
        return []
    shown = ", ".join(f"{count:,} × {show_path(name)}" for name, count in pairs[:_SHOWN])
    more = f", … ({len(pairs) - _SHOWN:,} more)" if len(pairs) > _SHOWN else ""
    return _wrapped(f"{what}: {shown}{more}", "  ")


def _ways(found: Measurement) -> str:
    """The ways, the fastest first."""
    rows = [["", "EXAMPLES/S", "95 % BETWEEN", "MB/S", "BATCHES/S", "EPOCH", "MEMORY", "WAY"]]
    ordered = sorted(found.ways, key=lambda way: -way.examples_per_s)
    for way in ordered:
        rows.append(  # noqa: PERF401 (a row a line reads better)
            [
                _mark(found, way),
                f"{way.examples_per_s:,.0f}",
                f"{way.low:,.0f} and {way.high:,.0f}",
                f"{way.mb_per_s:,.0f}",
                f"{way.batches_per_s:,.0f}",
                duration(way.epoch_s),
                human_bytes(way.memory_bytes) if way.memory_bytes else "-",
                show_path(way.call) + (f"  ({show_path(way.note)})" if way.note else ""),
            ]
        )
    title = f"The ways, in batches of {found.batch_size:,}, shuffled, files in the page cache"
    return "\n".join([title, *columns(rows)])


def _mark(found: Measurement, way: Way) -> str:
    marks = [word for word, is_so in (("today", way.today), ("best", way.name == found.verdict.best)) if is_so]
    return ", ".join(marks) or way.name


def _batch_sizes(found: Measurement) -> str:
    if len(found.batch_sizes) < 2:
        return ""
    sizes = ", ".join(f"{one.batch_size:,}: {one.examples_per_s:,.0f}" for one in found.batch_sizes)
    return "\n".join(_wrapped(f"Examples/s by batch size, as it is read today: {sizes}", ""))


def _stages(found: Measurement) -> str:
    rows = [["PART", "WARM µs", "COLD µs", "SHARE", ""]]
    rows += [_stage(stage) for stage in found.stages]
    lines = [
        "Where the time of one example goes, each part done alone (warm: files in the page cache; cold: from the disk)",
        *columns(rows),
    ]
    if found.cold:
        lines.append(f"  cold: not measured here: {found.cold}")
    return "\n".join(lines)


def _stage(stage: Stage) -> list[str]:
    def micro(value: float | None) -> str:
        return "-" if value is None else f"{value:,.2f}" if value < 10 else f"{value:,.0f}"

    bar = "█" * round(stage.share * _BAR)
    return [
        STAGE_WORDS.get(stage.name, stage.name),
        micro(stage.warm_us),
        micro(stage.cold_us),
        f"{stage.share:.0%}",
        bar,
    ]


def _notes(found: Measurement) -> str:
    return "\n".join(line for note in found.notes for line in _wrapped(f"Note: {note}", ""))


def duration(seconds: float) -> str:
    """Return ``"0.42 s"``, ``"37 s"``, ``"12 min"``, ``"2.5 h"``."""
    if seconds < 10:
        return f"{seconds:.2g} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows with cells of one width: the first and the last column to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    last = len(widths) - 1
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if at in (0, last) else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return lines


def _wrapped(text: str, indent: str) -> list[str]:
    # A number stays with its unit.
    shown = _UNIT.sub("\\1\0\\2", show_path(text))
    lines = textwrap.wrap(
        shown,
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace("\0", " ") for line in lines]
