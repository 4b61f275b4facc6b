"""HTML and SVG that cannot go wrong: what is no `Markup` is escaped."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# Elements of HTML that have no end.
_VOID = ("meta",)
# As many columns fit a phone.
_FIT = 3


class Markup(str):
    """Text that is HTML already; any other text is escaped where it becomes part of a page."""

    __slots__ = ()


def printable(text: str) -> str:
    """Return a text that can be shown and encoded: control characters, and lone surrogates, as escapes."""
    return text if text.isprintable() else "".join(map(_printable, text))


def _printable(character: str) -> str:
    # The two joiners belong to Persian, to Hindi and to pictures of people.
    return character if character.isprintable() or character in "\u200c\u200d" else repr(character)[1:-1]


def tag(name: str, /, *children: str, **attributes: str) -> Markup:
    """Return an element; the attribute ``class_`` is ``class``, and ``aria_label`` is ``aria-label``."""
    facts = "".join(f' {key.rstrip("_").replace("_", "-")}="{_escaped(value)}"' for key, value in attributes.items())
    if name in _VOID:
        return Markup(f"<{name}{facts}>")
    return Markup(f"<{name}{facts}>{join(children)}</{name}>")


def join(parts: Iterable[str], between: str = "") -> Markup:
    """Return parts one after the other, escaped where they are no markup."""
    return Markup(between.join(part if isinstance(part, Markup) else _escaped(part) for part in parts))


def data(text: str) -> Markup:
    """Return a text out of the data, set apart so that its direction of writing stays its own."""
    return tag("bdi", text)


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: int) -> Markup:
    """Return a table; one of many columns becomes a list of its rows on a narrow screen.

    Parameters
    ----------
    caption : str
        What it holds.
    heads : sequence of str
        Of the columns.
    rows : iterable of sequence of str
        Their cells; the first names the row.
    numbers : int
        From which column on the cells are numbers.
    """
    kinds = ["number" if at >= numbers else "text" for at in range(len(heads))]
    # The roles are named because a table that is laid out as a list loses them.
    head = [
        tag("th", text, scope="col", role="columnheader", class_=kind) for text, kind in zip(heads, kinds, strict=True)
    ]
    body = []
    for row in rows:
        first = tag("th", row[0], scope="row", role="rowheader")
        others = [
            tag("td", text, role="cell", class_=kind, data_head=name)
            for text, kind, name in list(zip(row, kinds, heads, strict=True))[1:]
        ]
        body.append(tag("tr", first, *others, role="row"))
    return tag(
        "table",
        tag("caption", caption),
        tag("thead", tag("tr", *head, role="row"), role="rowgroup"),
        tag("tbody", *body, role="rowgroup"),
        role="table",
        class_="wide" if len(heads) > _FIT else "narrow",
    )


def number(value: float | None, digits: int = 3) -> str:
    """Return a number in as many digits as are worth reading: ``"12,300"``, ``"2.5"``; a dash for none."""
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, decimals)
    return f"{rounded:,.0f}" if decimals <= 0 else f"{rounded:,.{min(decimals, 9)}f}".rstrip("0").rstrip(".")


def duration(seconds: float | None) -> str:
    """Return a time: ``"3.2 µs"``, ``"45 ms"``, ``"2 min 5 s"``, ``"3 h 20 min"``."""
    if seconds is None or not math.isfinite(seconds):
        return "–"
    for below, factor, unit in ((1e-3, 1e6, "µs"), (1.0, 1e3, "ms"), (100.0, 1.0, "s")):
        if seconds < below:
            return f"{number(seconds * factor)} {unit}"
    if seconds < 5970:
        return f"{round(seconds) // 60} min {round(seconds) % 60} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60:,} h {minutes % 60} min"


def _escaped(text: str) -> str:
    return html.escape(printable(text))
