"""What every section of the report is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npyflow._core.text import human_bytes
from npyflow._measure.charts import NARROW, WIDE, Bar, bar_chart
from npyflow._measure.markup import Markup, tag

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def section(title: str, lede: Iterable[str], *parts: Markup) -> Markup:
    """Return a section: what it is about, and beside it what there is to see."""
    rail = tag("div", tag("h2", title), *(tag("p", text) for text in lede), class_="rail")
    return tag("section", rail, tag("div", *parts, class_="content"))


def figure(bars: Sequence[Bar], *, title: str, scale: str, both: bool = True, dense: bool = False) -> Markup:
    """Return a chart; at two widths, of which the style sheet shows the one that fits."""
    widths = (NARROW, WIDE) if both else (NARROW,)
    return frame(*(bar_chart(bars, title=title, scale=scale, width=width, dense=dense) for width in widths))


def frame(*charts: Markup) -> Markup:
    """Return a chart, which may be there at two widths."""
    return tag("figure", *charts, class_="two" if len(charts) > 1 else "one")


def behind(numbers: Markup, title: str = "The numbers") -> Markup:
    """Return a table that opens when asked for."""
    return tag("details", tag("summary", title), numbers)


def size(count: float | None) -> str:
    """Return a number of bytes in words."""
    return "–" if count is None else human_bytes(round(count)).replace(".0 ", " ")
