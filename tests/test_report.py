"""The page of a measurement: what it says, that nothing can get out of its place, and how a real browser shows it."""

from __future__ import annotations

import base64
import functools
import hashlib
import io
import json
import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import measurements
import npyflow as nf
from browser import NAMES, Browser, find_browser
from measurements import ALL, HOSTILE
from npyflow._measure import charts, markup, report
from npyflow._measure.charts import NARROW, WIDE, Bar, bar_chart

matplotlib = pytest.importorskip("matplotlib", reason="charts need matplotlib: pip install 'npyflow[report]'")
pytestmark = pytest.mark.extra

ELEMENTS = {
    *("html", "head", "meta", "title", "style", "body", "main", "header", "section", "div", "h1", "h2", "h3", "p"),
    *("ul", "li", "dl", "dt", "dd", "span", "b", "bdi", "pre", "code", "details", "summary", "figure", "table"),
    *("caption", "thead", "tbody", "tr", "th", "td", "svg", "text", "path"),
}
ATTRIBUTES = {
    *("lang", "charset", "http-equiv", "content", "name", "class", "role", "scope", "data-head", "aria-label"),
    *("viewbox", "width", "height", "x", "y", "d", "text-anchor", "stroke-width"),
}
STYLE = report.resources.files("npyflow._measure").joinpath("report.css").read_text(encoding="utf-8")


class Parsed(HTMLParser):
    """Every element with its attributes, every text, and a complaint where an end does not fit."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.texts: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert len(dict(attrs)) == len(attrs)
        self.found.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.found)

    def all_text(self) -> str:
        return "".join(text for tag, text in self.texts if tag != "style")


@functools.cache
def page_of(name: str) -> str:
    return report.page(ALL[name]())


@pytest.fixture(scope="module", params=ALL)
def made(request):
    return Parsed(page_of(request.param))


def test_only_known_elements_and_attributes(made):
    assert {name for name, _ in made.found} <= ELEMENTS
    assert {key for _, attributes in made.found for key in attributes} <= ATTRIBUTES
    assert Counter(name for name, _ in made.found)["style"] == 1


def test_the_policy_allows_the_style_sheet_and_nothing_else(made):
    policies = [facts["content"] for _, facts in made.found if facts.get("http-equiv") == "Content-Security-Policy"]
    (style,) = [text for tag, text in made.texts if tag == "style"]
    allowed = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policies == [f"default-src 'none'; style-src 'sha256-{allowed}'; base-uri 'none'; form-action 'none'"]
    assert not re.search(r"url\(|@import|https?:|</", style)


def test_every_class_of_a_chart_has_a_colour(made):
    inside = {word for name, facts in made.found if name in ("path", "text") for word in facts["class"].split()}
    assert all(f".{word} " in STYLE for word in inside), inside


def test_charts_can_be_heard(made):
    for name, facts in made.found:
        if name == "svg":
            assert facts["role"] == "img"
            assert facts["aria-label"]
    assert made.count("h1") == 1
    assert dict(made.found)["html"] == {"lang": "en"}


def test_what_the_page_says():
    facts = measurements.measurement()
    made = Parsed(report.page(facts))
    said = made.all_text()
    for text in [
        facts["verdict"]["headline"],
        *facts["verdict"]["reasons"],
        *facts["verdict"]["commands"],
        *facts["notes"],
    ]:
        assert text in said
    # Today's way, the recommended one, and by how much.
    assert "21,300" in said
    assert "148,000" in said
    assert "6.9 times as fast" in said
    assert "packed · recommended" in said
    assert "lazy files · today" in said
    for scale in ("examples per second", "microseconds an example", "size of a file, in bytes", "how many there are"):
        assert ("text", scale) in made.texts
    assert "/s" in said


def test_the_best_way_is_todays():
    said = Parsed(page_of("large")).all_text()
    assert "positional reads · keep" in said
    assert "Recommended" not in said
    assert "times as fast" not in said


def test_many_classes_are_twenty_and_the_others():
    said = Parsed(page_of("tiny")).all_text()
    assert "species 19" in said
    assert "species 20" not in said
    assert "11 others" in said
    assert "6,875" in said


def test_others_that_are_many_do_not_flatten_the_chart():
    few, many = measurements.empty(), measurements.empty()
    few["census"]["classes"] = [[str(at), 10] for at in range(23)]
    many["census"]["classes"] = [[str(at), 10] for at in range(99)]
    assert ("text", "3 others") in Parsed(report.page(few)).texts
    made = Parsed(report.page(many))
    assert ("text", "79 others") not in made.texts
    assert "And 79 others, 790 together." in made.all_text()


def test_no_chart_without_data():
    made = Parsed(page_of("empty"))
    said = made.all_text()
    assert made.count("svg") == 0
    for text in (
        "No way of reading",
        "No stage",
        "There are no classes",
        "There are no shapes",
        "not in files",
        "Cold: not",
    ):
        assert text in said


def test_one_kind_is_said_and_not_drawn():
    facts = measurements.large_array()
    made = Parsed(report.page(facts))
    said = made.all_text()
    assert "the same for all 3,000,000" in said
    assert "1 fileof 589.8 GB" in said
    assert facts["cold"] in said
    assert facts["bottleneck"]["text"] in said
    assert "not installed" in said
    # Ways, stages when warm, and the bottleneck; each at two widths.
    assert made.count("svg") == 6


def test_cold_and_warm_are_charts_of_their_own():
    facts = measurements.measurement()
    for one in facts["stages"]:
        one["warm_us"] = None
    said = Parsed(report.page(facts)).all_text()
    assert "Cold: from the disk" in said
    assert "Warm: from memory" not in said


@pytest.mark.parametrize("text", [text for text in HOSTILE if text])
def test_hostile_texts_are_text(text):
    made = Parsed(page_of("hostile"))
    # One element may hold several of them.
    assert any(markup.printable(text) in found for _, found in made.texts)


@given(st.text(max_size=40))
@settings(max_examples=12, deadline=None)
def test_any_text_is_text(text):
    census = {"files": 2, "file_bytes": {"edges": [], "counts": []}, "shapes": [[text, 2], ["()", 1]], "dtypes": []}
    facts = measurements.empty() | {"path": text, "notes": [text]}
    facts["census"] = census | {"classes": [], "components": [{"name": text, "dtype": text, "shape": text}]}
    page = report.page(facts)
    made = Parsed(page)
    page.encode("utf-8")
    assert {name for name, _ in made.found} <= ELEMENTS
    if text:
        # A parser takes other ends of lines for a newline; no such character is left.
        assert any(found == markup.printable(text) for _, found in made.texts)


def test_the_same_measurement_gives_the_same_bytes(tmp_path):
    facts = measurements.measurement()
    nf_path, again = tmp_path / "a.html", tmp_path / "b.html"
    report.write_report(facts, nf_path)
    report.write_report(json.loads(json.dumps(facts)), again)
    assert nf_path.read_bytes() == again.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "b.html"]


def test_what_the_user_set_in_matplotlib_neither_matters_nor_changes(tmp_path):
    facts = measurements.measurement()
    expected = page_of("tiny")
    theirs = {
        "text.usetex": True,
        "savefig.bbox": "tight",
        "svg.fonttype": "path",
        "axes.grid": True,
        "lines.linewidth": 9,
    }
    with matplotlib.rc_context(theirs):
        before = {key: value for key, value in matplotlib.rcParams.items() if key != "backend"}
        assert report.page(facts) == expected
        assert {key: value for key, value in matplotlib.rcParams.items() if key != "backend"} == before


def test_pyplot_and_its_global_figures_are_left_alone():
    code = (
        "import sys; from npyflow._measure.charts import Bar, bar_chart\n"
        "bar_chart([Bar(label='a', value=1.0, shown='1')], title='t', scale='s', width=288)\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_old_page_stays_until_the_new_one_is_complete(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("old")
    with pytest.raises(KeyError):
        report.write_report({"format": "npyflow measurement", "version": 1, "path": "x"}, path)
    assert path.read_text() == "old"
    report.write_report(measurements.empty(), path)
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    "wrong", [{}, {"format": "npyflow manifest", "version": 1}, {"format": "npyflow measurement", "version": 2}]
)
def test_something_else_than_a_measurement(wrong, tmp_path):
    with pytest.raises(nf.OptionError, match=r"expected a measurement .*nf.measure"):
        report.write_report(wrong, tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_without_matplotlib(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(nf.MissingDependencyError, match=r"pip install 'npyflow\[report\]'"):
        report.write_report(measurements.measurement(), tmp_path / "page.html")


def test_bars_are_as_long_as_their_values():
    values = [1.0, 30.0, 250.0, 1000.0]
    bars = [Bar(label=str(value), value=value, shown=str(value)) for value in values]
    for width, dense in ((NARROW, False), (WIDE, False), (NARROW, True), (WIDE, True)):
        svg = bar_chart(bars, title="t", scale="s", width=width, dense=dense)
        lengths = []
        for path in re.findall(r'<path d="([^"]+)" class="fill-bar"', svg):
            across = [float(x) for x in re.findall(r"[ML] (-?[\d.]+) ", path)]
            lengths.append(max(across) - min(across))
        np.testing.assert_allclose(np.array(lengths) / lengths[-1], np.array(values) / 1000, atol=1e-3)


def test_a_histogram_has_a_column_for_each_count():
    edges, counts = [1000.0, 2000.0, 4000.0, 8000.0, 16_000.0], [3, 0, 40, 10]
    svg = charts.size_histogram(edges, counts, title="t", scale="s", width=NARROW)
    heights = []
    for path in re.findall(r'<path d="([^"]+)" class="fill-bar', svg):
        up = [float(y) for y in re.findall(r"[ML] -?[\d.]+ (-?[\d.]+)", path)]
        heights.append(max(up) - min(up))
    np.testing.assert_allclose(np.array(heights) / max(heights), np.array(counts) / 40, atol=1e-3)


@given(st.text(max_size=400), st.floats(30, 700))
def test_shortened_texts_fit(text, room):
    short = charts.shorten(text, room)
    assert charts.text_width(short) <= room
    assert short.isprintable() or set(short) & set("\u200c\u200d")
    if charts.text_width(markup.printable(text)) <= room:
        assert short == markup.printable(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (float("inf"), "–"),
        (0, "0"),
        (12_345.6, "12,300"),
        (1234, "1,230"),
        (99.96, "100"),
        (9.999, "10"),
        (2.50, "2.5"),
        (0.01234, "0.0123"),
        (1e-12, "0"),
        (-3.14159, "-3.14"),
        (1e12, "1,000,000,000,000"),
    ],
)
def test_numbers(value, text):
    assert markup.number(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (3.2e-6, "3.2 µs"), (0.045, "45 ms"), (12.34, "12.3 s"), (125, "2 min 5 s"), (12_000, "3 h 20 min")],
)
def test_durations(seconds, text):
    assert markup.duration(seconds) == text


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_colours_can_be_told_apart(scheme):
    blocks = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    colours = dict(re.findall(r"--([\w-]+): (#\w{6});", blocks[scheme]))
    for ground in ("paper", "card", "code"):
        for ink in ("ink", "muted", "text-best"):
            assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)
    for bar in ("bar", "today", "best", "warm", "cold"):
        assert contrast(colours[bar], colours["paper"]) >= 3, bar


# The browser -------------------------------------------------------------------------------------------------------

PROGRAM = find_browser()
needs_browser = pytest.mark.skipif(PROGRAM is None, reason=f"no browser on the path: {', '.join(NAMES)}")

OVERFLOW = """[...document.querySelectorAll('body *')].filter(one => {
    const box = one.getBoundingClientRect();
    return box.width > 0 && box.height > 1 && (box.right > innerWidth + 0.5 || box.left < -0.5);
}).map(one => one.tagName + '.' + one.getAttribute('class') + ' ' + one.textContent.slice(0, 30))"""

# Of each element with a text of its own, as large as it is on the screen.
SMALL = """[...document.querySelectorAll('body *')].filter(one =>
    one.checkVisibility() && one.tagName != 'CAPTION' && [...one.childNodes].some(c => c.nodeType == 3 && c.data.trim())
).filter(one => {
    const scale = one.ownerSVGElement ? one.getScreenCTM().a : 1;
    return parseFloat(getComputedStyle(one).fontSize) * scale < 12;
}).map(one => one.tagName + ' ' + one.textContent.slice(0, 30))"""

# Texts of one chart that lie on each other, by more than a hair.
CLASHES = """[...document.querySelectorAll('svg')].filter(one => one.checkVisibility()).flatMap(chart => {
    const boxes = [...chart.querySelectorAll('text')].map(one => [one.textContent, one.getBoundingClientRect()]);
    return boxes.flatMap(([text, a], at) => boxes.slice(at + 1).filter(([_, b]) =>
        Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
        && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4
    ).map(([other, _]) => text.slice(0, 30) + ' / ' + other.slice(0, 30)));
})"""

SHOWN = """[...new Set([...document.querySelectorAll('figure')].map(
    one => [...one.children].filter(chart => chart.checkVisibility()).length))]"""

COMPLAINTS = (
    "Runtime.exceptionThrown",
    "Runtime.consoleAPICalled",
    "Log.entryAdded",
    "Page.javascriptDialogOpening",
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(PROGRAM, tmp_path_factory.mktemp("browser") / "profile") as started:
        yield started


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    for name in ALL:
        (folder / f"{name}.html").write_text(page_of(name), encoding="utf-8")
    return folder


@needs_browser
@pytest.mark.parametrize(
    ("name", "width"),
    [(name, width) for name in ALL for width in (320, 360, 1200)] + [("tiny", 640), ("hostile", 800), ("tiny", 1000)],
)
def test_it_fits_and_can_be_read_and_is_alone(browser, pages, name, width):
    page = browser.open(pages / f"{name}.html", width=width)
    try:
        # With every table shut, and then open.
        for _ in range(2):
            assert page.run("document.documentElement.scrollWidth") <= width
            assert page.run(OVERFLOW) == []
            assert page.run(SMALL) == []
            assert page.run(CLASHES) == []
            page.run("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        # One of the two widths of a chart.
        assert page.run(SHOWN) in ([], [1])
        assert page.run("document.querySelectorAll('script, img, iframe, link, object').length") == 0
        assert page.heard(*COMPLAINTS) == []
        asked = [event["request"]["url"] for event in page.heard("Network.requestWillBeSent")]
        assert asked == [(pages / f"{name}.html").as_uri()]
    finally:
        page.close()


@needs_browser
def test_the_probe_would_hear_a_script(browser, pages):
    # Without its policy and its escapes the hostile page does what it must not.
    text = (pages / "hostile.html").read_text(encoding="utf-8")
    careless = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    careless = careless.replace("</main>", "<img src=x><script>console.log(1)</script></main>")
    path = pages / "careless.html"
    path.write_text(careless, encoding="utf-8")
    page = browser.open(path, width=360)
    try:
        assert page.heard("Runtime.consoleAPICalled")
        assert len(page.heard("Network.requestWillBeSent")) == 2
    finally:
        page.close()


@needs_browser
def test_the_policy_stops_what_would_get_in(browser, pages):
    text = (pages / "tiny.html").read_text(encoding="utf-8")
    path = pages / "injected.html"
    inside = "<script>console.log(1)</script><img src=x onerror=console.log(2)><p id=it style='color: red'>x</p></main>"
    path.write_text(text.replace("</main>", inside), encoding="utf-8")
    page = browser.open(path, width=360)
    try:
        assert page.heard("Runtime.consoleAPICalled") == []
        assert page.run("getComputedStyle(document.getElementById('it')).color") != "rgb(255, 0, 0)"
    finally:
        page.close()


@needs_browser
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_the_picture_is_not_blank(browser, pages, width, dark):
    image = pytest.importorskip("PIL.Image")
    page = browser.open(pages / "tiny.html", width=width, dark=dark)
    try:
        picture = image.open(io.BytesIO(page.picture())).convert("L")
    finally:
        page.close()
    pixels = np.asarray(picture)
    assert picture.width == width
    assert picture.height > 1500
    ground = np.bincount(pixels.ravel()).argmax()
    assert (ground < 60) == dark
    assert 0.03 < (np.abs(pixels.astype(int) - int(ground)) > 40).mean() < 0.5


@needs_browser
def test_it_prints_with_its_tables(browser, pages):
    page = browser.open(pages / "tiny.html", width=1200)
    try:
        body = page.print()
        page.media("print")
        assert page.run("document.querySelector('details table').checkVisibility({contentVisibilityAuto: true})")
    finally:
        page.close()
    assert body.startswith(b"%PDF")
