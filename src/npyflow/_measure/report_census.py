"""The section of the report about the data: sizes, shapes, dtypes, classes."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from npyflow._core.text import human_bytes, plural
from npyflow._measure.charts import NARROW, Bar, size_histogram
from npyflow._measure.markup import Markup, data, table, tag
from npyflow._measure.report_parts import behind, figure, frame, section, size

if TYPE_CHECKING:
    from collections.abc import Sequence

Facts = dict[str, Any]

# Of shapes, dtypes, classes and components; the others are one bar, one row.
_SHOWN = 20
# A chart with more bars has no other beside it.
_BESIDE_ANOTHER = 7
# Times the longest bar: a bar of the others that is longer would make all bars short.
_TOO_LONG = 3


def data_section(facts: Facts) -> Markup:
    census = facts["census"]
    many, files = plural(facts["examples"], "example"), plural(census["files"], "file")
    lede = [f"{many} in {files}, {human_bytes(facts['total_bytes'])} in all."]
    boxes = [_sizes(census)]
    for key, title, noun, nouns in (
        ("shapes", "Shapes", "shape", "shapes"),
        ("dtypes", "Dtypes", "dtype", "dtypes"),
        ("classes", "Classes", "class", "classes"),
    ):
        boxes.append(_kinds(census[key], title, noun, nouns))
    # Those that share a line come first.
    boxes.sort(key=lambda box: box.startswith('<div class="across"'))
    parts = [tag("div", *boxes, class_="pair")]
    every = census["components"]
    rows = [(data(one["name"] or "the example"), data(one["dtype"]), data(one["shape"])) for one in every[:_SHOWN]]
    if len(every) > _SHOWN:
        rows.append((Markup(f"and {len(every) - _SHOWN:,} more"), Markup(), Markup()))
    if rows:
        components = table("Components of an example", ("Component", "Dtype", "Shape"), rows, numbers=3)
        parts.append(behind(components, "The components"))
    return section("What the data is", lede, *parts)


def _sizes(census: Facts) -> Markup:
    edges, counts = census["file_bytes"]["edges"], census["file_bytes"]["counts"]
    filled = [at for at, count in enumerate(counts) if count]
    title = tag("h3", "Sizes of files")
    if not filled:
        return tag("div", title, tag("p", "The data is not in files whose sizes could differ.", class_="none"))
    first, last = filled[0], filled[-1] + 1
    edges, counts = edges[first : last + 1], counts[first:last]
    smallest, largest = size(edges[0]), size(edges[-1])
    span = smallest if smallest == largest else f"{smallest} to {largest}"
    if last - first == 1 or any(right <= left for left, right in pairwise(edges)):
        return tag("div", title, _only(plural(sum(counts), "file"), f"of {span}"))
    chart = size_histogram(
        edges, counts, title=f"Sizes of files, {span}", scale="size of a file, in bytes", width=NARROW
    )
    rows = [
        (f"{size(left)} to {size(right)}", f"{count:,}")
        for (left, right), count in zip(pairwise(edges), counts, strict=True)
    ]
    return tag("div", title, frame(chart), behind(table("Sizes of files", ("Size", "Files"), rows, numbers=1)))


def _kinds(counts: Sequence[Sequence[Any]], title: str, noun: str, nouns: str) -> Markup:
    """Return a chart of what there are several kinds of."""
    head = tag("h3", title)
    found = sorted(((str(name), int(count)) for name, count in counts), key=lambda pair: -pair[1])
    if not found:
        return tag("div", head, tag("p", f"There are no {nouns}.", class_="none"))
    if len(found) == 1:
        return tag("div", head, _only(found[0][0], f"the same for all {found[0][1]:,}" if found[0][1] > 1 else ""))
    total = sum(count for _, count in found) or 1
    shown, rest = found[:_SHOWN], found[_SHOWN:]
    bars = [Bar(label=name or "''", value=count, shown=f"{count:,}") for name, count in shown]
    more = Markup()
    if rest:
        others = sum(count for _, count in rest)
        name = plural(len(rest), "other")
        shown = [*shown, (name, others)]
        if others <= _TOO_LONG * bars[0].value:
            bars.append(Bar(label=name, value=others, shown=f"{others:,}", role="rest"))
        else:
            more = tag("p", f"And {name}, {others:,} together.", class_="none")
    # Long ones take the width of the page.
    long = len(bars) > _BESIDE_ANOTHER
    name = f"{title}: {plural(len(found), noun, nouns)}"
    chart = figure(bars, title=name, scale="how many there are", both=long, dense=True)
    rows = ((data(name or "''"), f"{count:,}", f"{count / total:.1%}") for name, count in shown)
    numbers = behind(table(title, (noun.capitalize(), "Count", "Share"), rows, numbers=1))
    return tag("div", head, chart, more, numbers, class_="across" if long else "beside")


def _only(what: str, more: str) -> Markup:
    return tag("p", tag("span", data(what), class_="only"), tag("span", more, class_="more"))
