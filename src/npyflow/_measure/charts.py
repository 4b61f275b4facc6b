"""Charts as inline SVG: matplotlib draws them, and the style sheet of the page colours and sets them.

matplotlib sees no text out of the data. It would take ``$`` for mathematics and warn of glyphs that its font lacks; so
it draws placeholders, and the texts take their places, escaped, when its SVG is made part of the page.
"""

from __future__ import annotations

import io
import math
import re
import unicodedata
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from npyflow._core.errors import MissingDependencyError
from npyflow._core.text import human_bytes
from npyflow._measure.markup import Markup, printable, tag

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# Widths in the units of the SVG. A chart of either width is shown about as large, so that its text can be read.
NARROW, WIDE = 288, 640

# What is drawn in a colour of its own; the style sheet has the colours. matplotlib gets numbers that look like some.
_ROLES = ("ink", "muted", "rule", "bar", "best", "today", "warm", "cold", "rest", "text-ink", "text-muted", "text-best")
_COLOUR = {role: f"#0000{number:02x}" for number, role in enumerate(_ROLES, start=1)}
_ROLE = {colour: role for role, colour in _COLOUR.items()}

# Below the bars: the scale and what it means. Beside them: half of the last number.
_SCALE, _RIGHT = 48.0, 22.0
# Of a histogram: its columns, the room for what it counts above and for the numbers on its left.
_HEIGHT, _ABOVE, _NUMBERS = 150.0, 28.0, 50.0

# Of matplotlib: all that could change how a chart looks.
_SETTINGS = ("axes", "figure", "font", "grid", "lines", "patch", "path", "savefig", "svg", "text", "xtick", "ytick")
_NUMBER = re.compile(r"-?\d+\.\d+")
_SVG = "{http://www.w3.org/2000/svg}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A row of a bar chart.

    Parameters
    ----------
    label : str
        What it is.
    note : str
        What is said behind the label, whole: it is the label that is shortened.
    value : float
        How long the bar is.
    shown : str
        The value in words.
    role : str
        How it is coloured: one of the roles of the style sheet.
    low, high : float or None
        Ends of the whisker.
    """

    label: str
    value: float
    shown: str
    note: str = ""
    role: str = "bar"
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """Where the parts of a row of bars are, from its top; and where the bars begin."""

    pitch: float
    label: float
    bar: float
    thick: float
    left: float = 0.0


# Labels above their bars; less of it, for counts; and labels beside their bars, where there is room.
_FEW = _Rows(pitch=48, label=17, bar=24, thick=12)
_DENSE = _Rows(pitch=36, label=16, bar=21, thick=7)
_BESIDE = _Rows(pitch=27, label=18, bar=7, thick=12, left=232)


def bar_chart(bars: Sequence[Bar], *, title: str, scale: str, width: int, dense: bool = False) -> Markup:
    """Draw horizontal bars that begin at zero.

    Parameters
    ----------
    bars : sequence of Bar
        From the top.
    title : str
        What the chart shows, for those who cannot see it.
    scale : str
        What the numbers are, with their unit.
    width : int
        In units of the SVG.
    dense : bool
        For many bars.

    Raises
    ------
    MissingDependencyError
        If matplotlib is not installed.
    """
    rows = _FEW if not dense else _BESIDE if width == WIDE else _DENSE
    height = rows.pitch * len(bars)
    right = max(text_width(bar.shown) for bar in bars) + 12 if rows.left else _RIGHT
    with _Canvas(width, height + _SCALE) as canvas:
        axes = canvas.axes(top=0.0, height=height, left=rows.left, right=right)
        axes.set_ylim(height, 0)
        farthest = max(max(bar.value, bar.high or 0.0) for bar in bars) or 1.0
        axes.set_xlim(0, farthest)
        canvas.scale(axes, scale, _steps(farthest, 6 if width == WIDE and not dense else 4), _number_text(farthest))
        middles = [rows.pitch * row + rows.bar + rows.thick / 2 for row in range(len(bars))]
        colours = [_COLOUR[bar.role] for bar in bars]
        axes.barh(middles, [bar.value for bar in bars], height=rows.thick, color=colours)
        for row, bar in enumerate(bars):
            top = rows.pitch * row
            if bar.low is not None and bar.high is not None:
                _whisker(axes, bar.low, bar.high, middles[row])
            role = "text-best" if bar.role == "best" else "text-ink"
            room = rows.left - 16 if rows.left else width - text_width(bar.shown) - 12
            # Bold letters are wider.
            canvas.write(0.0, top + rows.label, _label(bar, room * (0.92 if bar.role == "best" else 1.0)), role)
            canvas.write(width, top + rows.label, bar.shown, role, "right")
        return canvas.svg(title)


def _label(bar: Bar, room: float) -> str:
    note = f" · {bar.note}" if bar.note else ""
    return shorten(bar.label, room - text_width(note)) + note


def size_histogram(edges: Sequence[float], counts: Sequence[int], *, title: str, scale: str, width: int) -> Markup:
    """Draw how many files have which size.

    Parameters
    ----------
    edges : sequence of float
        Sizes in bytes, one more than `counts`; a factor apart or a difference apart.
    counts : sequence of int
        Files between two edges.
    title, scale, width
        As in `bar_chart`.

    Raises
    ------
    MissingDependencyError
        If matplotlib is not installed.
    """
    with _Canvas(width, _ABOVE + _HEIGHT + _SCALE) as canvas:
        axes = canvas.axes(top=_ABOVE, height=_HEIGHT, left=_NUMBERS, right=_RIGHT)
        logarithmic = edges[0] > 0 and edges[-1] > 10 * edges[0]
        if logarithmic:
            axes.set_xscale("log")
        axes.set_xlim(edges[0], edges[-1])
        axes.set_ylim(0, max(counts) or 1)
        ticks = _decades(edges[0], edges[-1]) if logarithmic else _steps(edges[-1], 3, edges[0])
        canvas.scale(axes, scale, ticks, _size_text)
        levels = _steps(max(counts), 3)
        axes.hlines(levels, edges[0], edges[-1], color=_COLOUR["rule"], linewidth=1, zorder=0)
        for level in levels:
            y = _ABOVE + _HEIGHT * (1 - level / (max(counts) or 1))
            canvas.write(_NUMBERS - 8, y + 4.5, _number_text(max(counts))(level), "text-muted", "right")
        widths = [right - left for left, right in pairwise(edges)]
        axes.bar(edges[:-1], counts, widths, align="edge", color=_COLOUR["bar"], edgecolor=_COLOUR["rule"])
        canvas.write(_NUMBERS - 8, 13.0, "files", "text-muted", "right")
        return canvas.svg(title)


def text_width(text: str) -> float:
    """Return how wide a text is at most, in units of the SVG and the fonts that browsers have."""
    return sum(map(_character_width, text))


def _character_width(character: str) -> float:
    if character in "MWmw@%—…" or unicodedata.east_asian_width(character) in "WF" or character > "\uffff":
        return 15.0
    if character in " .,:;|!'()[]/\\ijltfr-":
        return 6.5
    return 11.0 if character.isupper() else 9.0


def shorten(text: str, room: float) -> str:
    """Return a text that fits: its middle left out, for names often differ at their ends."""
    text = printable(text)
    if text_width(text) <= room:
        return text
    start, end = "", ""
    for first, last in zip(text, reversed(text), strict=True):
        if text_width(f"{start}{first}…{last}{end}") > room:
            break
        start, end = start + first, last + end
    return f"{start}…{end}"


def _whisker(axes: Any, low: float, high: float, middle: float) -> None:
    axes.hlines([middle], [low], [high], color=_COLOUR["ink"], linewidth=1.5)
    axes.vlines([low, high], [middle - 5] * 2, [middle + 5] * 2, color=_COLOUR["ink"], linewidth=1.5)


class _Canvas:
    """A figure whose unit is the pixel, and the texts that are put into it afterwards.

    Whatever the user has set in matplotlib is set aside while one is open.
    """

    def __init__(self, width: float, height: float) -> None:
        try:
            import matplotlib
            from matplotlib.figure import Figure
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] != "matplotlib":
                raise
            raise MissingDependencyError(
                "the report's charts need matplotlib, which is not installed: pip install 'npyflow[report]'"
            ) from None
        defaults = {key: value for key, value in matplotlib.rcParamsDefault.items() if key.split(".")[0] in _SETTINGS}
        self._context = matplotlib.rc_context({**defaults, "svg.fonttype": "none", "svg.hashsalt": "npyflow"})
        self._figure = Figure
        self._size = (width, height)
        self._texts: list[str] = []

    def __enter__(self) -> _Canvas:
        self._context.__enter__()
        width, height = self._size
        self.figure = self._figure(figsize=(width / 72, height / 72), dpi=72)
        return self

    def __exit__(self, *error: object) -> None:
        self._context.__exit__(None, None, None)

    def axes(self, *, top: float, height: float, left: float, right: float) -> Any:
        """Make axes without frame and scale, so far from the sides."""
        width, full = self._size
        axes = self.figure.add_axes(
            (left / width, 1 - (top + height) / full, 1 - (left + right) / width, height / full)
        )
        axes.set_frame_on(False)
        axes.set_yticks([])
        return axes

    def scale(self, axes: Any, label: str, ticks: Sequence[float], show: Callable[[float], str]) -> None:
        """Draw the horizontal scale and say what it is."""
        from matplotlib.ticker import NullFormatter, NullLocator

        axes.set_xticks(ticks)
        axes.xaxis.set_major_formatter(NullFormatter())
        axes.xaxis.set_minor_locator(NullLocator())
        axes.tick_params(axis="x", length=0)
        axes.grid(axis="x", color=_COLOUR["rule"], linewidth=1)
        axes.set_axisbelow(True)
        (width, height), left = self._size, axes.bbox.x0
        for tick in ticks:
            x, text = float(axes.transData.transform((tick, 0))[0]), show(tick)
            # The first stands under the begin of the bars, not across it.
            first, half = x < left + 1, text_width(text) / 2
            at = x if first else min(x, width - half)
            self.write(at, height - _SCALE + 19, text, "text-muted", "left" if first else "center")
        self.write(left, height - 5, label, "text-muted")

    def write(self, x: float, y: float, text: str, role: str, align: str = "left") -> None:
        """Put a text at a place, from the top left."""
        width, height = self._size
        self.figure.text(
            x / width, 1 - y / height, "-", ha=align, va="baseline", color=_COLOUR[role], gid=f"says {len(self._texts)}"
        )
        self._texts.append(text)

    def svg(self, title: str) -> Markup:
        """Return the figure as an element of the page: bare shapes and texts, each with a class in place of a style."""
        body = io.BytesIO()
        self.figure.savefig(body, format="svg", metadata={"Date": None, "Creator": None})
        # It comes from matplotlib, and holds no text of others.
        root = ElementTree.fromstring(body.getvalue())  # noqa: S314
        width, height = (f"{size:g}" for size in self._size)
        return tag(
            "svg",
            tag("title", title),
            *self._shapes(root, ""),
            viewBox=f"0 0 {width} {height}",
            width=width,
            height=height,
            role="img",
            aria_label=title,
            class_="wide" if self._size[0] == WIDE else "narrow",
        )

    def _shapes(self, element: ElementTree.Element, says: str) -> Iterator[Markup]:
        style = dict(re.findall(r"([\w-]+): ([^;]+)", element.get("style", "")))
        painted = {key: _ROLE[style[key]] for key in ("fill", "stroke") if style.get(key) in _ROLE}
        if element.tag == f"{_SVG}text" and "fill" in painted:
            text = self._texts[int(says.split()[1])] if says else element.text or ""
            place = {name: _rounded(element.get(name, "0")) for name in "xy"}
            anchor = style.get("text-anchor", "start")
            yield tag("text", printable(text), **place, text_anchor=anchor, class_=painted["fill"])
        elif element.tag == f"{_SVG}path" and painted:
            classes = " ".join(f"{key}-{role}" for key, role in painted.items())
            path = " ".join(_rounded(element.get("d", "")).split())
            yield tag("path", d=path, class_=classes, stroke_width=style.get("stroke-width", "1"))
        elif element.tag in (f"{_SVG}svg", f"{_SVG}g"):
            own = element.get("id", "")
            for child in element:
                yield from self._shapes(child, own if own.startswith("says ") else "")


def _rounded(numbers: str) -> str:
    """Two decimals are all that can be seen, and the same on every machine."""
    return _NUMBER.sub(lambda found: f"{float(found[0]):.2f}", numbers)


def _steps(stop: float, at_most: int, start: float = 0.0) -> list[float]:
    """Return round numbers from `start` to `stop`."""
    from matplotlib.ticker import MaxNLocator

    found = MaxNLocator(at_most, steps=[1, 2, 2.5, 5, 10]).tick_values(start, stop)
    return [float(value) for value in found if start <= value <= stop]


def _decades(start: float, stop: float) -> list[float]:
    """Return a few numbers that are powers of ten, or those between them if these are too few."""
    powers = range(math.floor(math.log10(start)), math.ceil(math.log10(stop)) + 1)
    for factors in ((1,), (1, 3)):
        found = [factor * 10.0**power for power in powers for factor in factors]
        found = [value for value in found if start <= value <= stop]
        if len(found) > 1:
            break
    return found[:: -(-len(found) // 3)]


def _number_text(farthest: float) -> Callable[[float], str]:
    """Return how the numbers of a scale are written: all of them in thousands, or none."""
    power = min(int(math.log10(farthest) / 3), 4) if farthest >= 10_000 else 0
    return lambda value: f"{value / 1000**power:,.6g}{('', 'k', 'M', 'G', 'T')[power] if value else ''}"


def _size_text(value: float) -> str:
    return human_bytes(round(value)).replace(".0 ", " ")
