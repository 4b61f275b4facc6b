"""The page that `npyflow measure --report` writes: one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from typing import TYPE_CHECKING, Any

from npyflow._core.errors import OptionError
from npyflow._core.text import human_bytes, plural, show_path
from npyflow._measure.charts import Bar
from npyflow._measure.markup import Markup, data, duration, join, number, table, tag
from npyflow._measure.report_census import data_section
from npyflow._measure.report_parts import behind, figure, section, size
from npyflow._measure.result import FORMAT, VERSION
from npyflow._sources.fileio import write_atomically

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

Facts = dict[str, Any]

# What `Way.name` and `Stage.name` are called on the page.
_WAYS = {
    "files": "lazy files",
    "npz": "npz members",
    "mmap": "mapped",
    "read": "positional reads",
    "ram": "in RAM",
    "tfrecord": "TFRecord",
    "recipe": "copied recipe",
}

_STAGES = {
    "list": "find the files in their folders",
    "open": "open a file and close it",
    "header": "read and compare its header",
    "read": "bring its bytes into memory",
    "copy": "put the example into its batch",
    "cast": "change dtype or byte order",
    "hand-over": "give the batch to TensorFlow",
}


def write_report(measurement: Facts, path: str | os.PathLike[str]) -> None:
    """Write a measurement as a page to look at.

    Parameters
    ----------
    measurement : dict
        What ``Measurement.as_dict`` returns, or the JSON that ``npyflow measure --json`` printed.
    path : str or os.PathLike
        Of the page. An old one is replaced once the new one is complete.

    Raises
    ------
    OptionError
        If `measurement` is something else, or of another version.
    MissingDependencyError
        If matplotlib is not installed.
    OSError
        If the page cannot be written.
    """
    write_atomically(path, [page(measurement).encode("utf-8")])


def page(measurement: Facts) -> str:
    """Return the page; the same one, to the byte, for the same measurement.

    Raises
    ------
    OptionError, MissingDependencyError
        As `write_report`.
    """
    found = (measurement.get("format"), measurement.get("version"))
    if found != (FORMAT, VERSION):
        raise OptionError(
            f"expected a measurement (format {FORMAT!r}, version {VERSION}), got format {found[0]!r}, version "
            f"{found[1]!r}; pass what nf.measure(...).as_dict() returns, of this version of npyflow"
        )
    style = resources.files("npyflow._measure").joinpath("report.css").read_text(encoding="utf-8")
    # The one style sheet is allowed by its sum; scripts, pictures, fonts, and anything from elsewhere are not.
    allowed = base64.b64encode(hashlib.sha256(style.encode("utf-8")).digest()).decode("ascii")
    policy = f"default-src 'none'; style-src 'sha256-{allowed}'; base-uri 'none'; form-action 'none'"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", f"npyflow measure: {show_path(measurement['path'])}"),
        tag("style", Markup(style)),
    )
    sections = [part(measurement) for part in (_verdict, _ways, _stages, data_section, _method)]
    body = tag("body", tag("main", *sections))
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _verdict(facts: Facts) -> Markup:
    verdict = facts["verdict"]
    commands = [
        tag("pre", tag("code", join((data(line) for line in command.splitlines()), "\n")))
        for command in verdict["commands"]
    ]
    return tag(
        "header",
        tag(
            "p",
            tag("span", "npyflow measure", class_="brand"),
            " ",
            tag("span", data(show_path(facts["path"])), class_="path"),
        ),
        tag("h1", data(verdict["headline"])),
        tag("ul", *(tag("li", data(reason)) for reason in verdict["reasons"]), class_="reasons")
        if verdict["reasons"]
        else Markup(),
        tag("div", tag("h2", "What to run"), *commands, class_="commands") if commands else Markup(),
        tag("dl", *_tiles(facts), class_="tiles"),
        class_="verdict",
    )


def _tiles(facts: Facts) -> Iterable[Markup]:
    best, today, pack = _best(facts), _today(facts), facts["pack"]
    if today is not None:
        more = ["examples", f"an epoch takes {duration(today['epoch_s'])}"]
        yield _tile("Today", number(today["examples_per_s"]), "/s", more)
    if best is not None and best is not today:
        more = ["examples", f"an epoch takes {duration(best['epoch_s'])}"]
        if today is not None and today["examples_per_s"]:
            more.append(f"{number(best['examples_per_s'] / today['examples_per_s'], 2)} times as fast")
        yield _tile(f"Recommended: {_name(best)}", number(best["examples_per_s"]), "/s", more, "best")
    if pack is not None and pack["break_even_epochs"] is not None and facts["verdict"]["best"] == "packed":
        more = [f"packing takes {duration(pack['seconds'])}", f"{size(pack['bytes'])} of disk"]
        yield _tile("Packing is paid back after", number(pack["break_even_epochs"], 2), "epochs", more)
    if facts["bottleneck"] is not None:
        who = facts["bottleneck"]["who"]
        more = [
            f"input {number(facts['bottleneck']['input_ms'])} ms",
            f"model {number(facts['bottleneck']['step_ms'])} ms",
        ]
        yield _tile("Bottleneck", "neither" if who == "even" else who, "", [*more, "a batch"])
    amount, unit = human_bytes(facts["total_bytes"]).split(" ")
    yield _tile(
        "Data", amount, unit, [plural(facts["examples"], "example"), f"{size(facts['bytes_per_example'])} each"]
    )


def _tile(name: str, value: str, unit: str, more: Iterable[str], kind: str = "") -> Markup:
    return tag(
        "div",
        tag("dt", name),
        tag("dd", tag("span", value, class_="value"), " ", tag("span", unit, class_="unit"), class_="big"),
        tag("dd", join(more, ", "), class_="more"),
        class_=f"tile {kind}".rstrip(),
    )


def _ways(facts: Facts) -> Markup:
    ways = sorted(facts["ways"], key=lambda way: -way["examples_per_s"])
    best = _best(facts)
    lede = [
        f"Examples a second in batches of {facts['batch_size']:,}, by each way that fits the data.",
        "The line across the end of a bar is the range in which repeated passes lie.",
    ]
    if not ways:
        return section("How fast each way is", lede, tag("p", "No way of reading was measured.", class_="none"))
    bars = [_way_bar(way, best) for way in ways]
    parts = [
        figure(bars, title="Throughput by way of reading", scale="examples per second"),
        behind(_way_table(ways)),
    ]
    if len(facts["batch_sizes"]) > 1:
        sizes = [
            Bar(
                label=f"batches of {one['batch_size']:,}",
                value=one["examples_per_s"],
                shown=number(one["examples_per_s"]),
            )
            for one in facts["batch_sizes"]
        ]
        chart = figure(sizes, title="Throughput by size of batch", scale="examples per second", dense=True)
        parts += [tag("h3", "By size of batch"), chart]
    if facts["bottleneck"] is not None:
        parts += _bottleneck(facts["bottleneck"])
    return section("How fast each way is", lede, *parts)


def _way_table(ways: Iterable[Facts]) -> Markup:
    rows = [
        (
            join([tag("b", data(_name(way))), tag("code", data(way["call"])), data(way["note"])]),
            number(way["examples_per_s"]),
            data(f"{number(way['low'])}–{number(way['high'])}"),
            number(way["mb_per_s"]),
            number(way["batches_per_s"]),
            size(way["memory_bytes"]),
            duration(way["epoch_s"]),
        )
        for way in ways
    ]
    heads = ("Way", "Examples/s", "Range", "MB/s", "Batches/s", "Extra memory", "Epoch")
    return table("Ways of reading, the fastest first", heads, rows, numbers=1)


def _name(way: Facts) -> str:
    name: str = way["name"]
    return _WAYS.get(name, name)


def _way_bar(way: Facts, best: Facts | None) -> Bar:
    kind = "best" if way is best else "today" if way["today"] else "rest" if way["recipe"] else "bar"
    return Bar(
        label=_name(way),
        note={"best": "keep" if way["today"] else "recommended", "today": "today"}.get(kind, ""),
        value=way["examples_per_s"],
        shown=number(way["examples_per_s"]),
        role=kind,
        low=way["low"],
        high=way["high"],
    )


def _bottleneck(facts: Facts) -> list[Markup]:
    bars = [
        Bar(
            label="input: a batch is ready",
            value=facts["input_ms"],
            shown=f"{number(facts['input_ms'])} ms",
            role="warm",
        ),
        Bar(label="model: its step", value=facts["step_ms"], shown=f"{number(facts['step_ms'])} ms", role="cold"),
    ]
    chart = figure(bars, title="Time of a batch and of a step", scale="milliseconds a batch", dense=True)
    return [tag("h3", "Beside the model"), tag("p", data(facts["text"])), chart]


def _stages(facts: Facts) -> Markup:
    stages = facts["stages"]
    kinds = (("warm_us", "Warm: from memory", "warm"), ("cold_us", "Cold: from the disk", "cold"))
    known = [(*kind, [stage for stage in stages if stage[kind[0]] is not None]) for kind in kinds]
    charts = [_stage_chart(*kind, alone=not all(found for *_, found in known)) for kind in known if kind[-1]]
    body = [tag("div", *charts, class_="pair" if len(charts) > 1 else "single")]
    if not charts:
        body = [tag("p", "No stage was measured.", class_="none")]
    if facts["cold"]:
        body.append(tag("p", data(facts["cold"]), class_="none"))
    rows = [
        (
            data(stage["name"]),
            _STAGES.get(stage["name"], ""),
            number(stage["warm_us"]),
            number(stage["cold_us"]),
            f"{stage['share']:.1%}",
        )
        for stage in stages
    ]
    if rows:
        heads = ("Stage", "What it does", "Warm µs", "Cold µs", "Share")
        body.append(behind(table("Parts of reading an example", heads, rows, numbers=2)))
    return section("Where the time goes", ["Microseconds an example, each part measured alone."], *body)


def _stage_chart(key: str, name: str, role: str, stages: Sequence[Facts], *, alone: bool) -> Markup:
    """Return one of the two charts; each has a scale of its own, for the disk can be a hundred times as slow."""
    bars = [
        Bar(
            label=stage["name"],
            value=stage[key],
            shown=f"{number(stage[key])} µs" + (f" · {stage['share']:.0%}" if role == "warm" else ""),
            role=role,
        )
        for stage in stages
    ]
    total = sum(bar.value for bar in bars)
    return tag(
        "div",
        tag("h3", name),
        tag("p", f"{number(total)} µs an example, all parts together"),
        figure(bars, title=f"Time by stage. {name}", scale="microseconds an example", both=alone),
    )


def _method(facts: Facts) -> Markup:
    machine = facts["machine"]
    rows = [
        ("Processors", f"{machine['cpus']:,}"),
        ("Memory", human_bytes(machine["memory_bytes"])),
        ("Python", machine["python"]),
        ("NumPy", machine["numpy"]),
        ("TensorFlow", machine["tensorflow"] or "not installed"),
        ("npyflow", machine["npyflow"]),
    ]
    terms = [tag("div", tag("dt", name), tag("dd", data(value))) for name, value in rows]
    notes = [tag("ul", *(tag("li", data(note)) for note in facts["notes"]))] if facts["notes"] else []
    lede = [f"In {duration(facts['seconds'])}, on this machine; another machine or disk has other numbers."]
    return section("How it was measured", lede, tag("dl", *terms, class_="machine"), *notes)


def _best(facts: Facts) -> Facts | None:
    return next((way for way in facts["ways"] if way["name"] == facts["verdict"]["best"]), None)


def _today(facts: Facts) -> Facts | None:
    return next((way for way in facts["ways"] if way["today"]), None)
