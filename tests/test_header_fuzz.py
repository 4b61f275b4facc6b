"""The kept headers of ``corpus/headers`` and some at random, against NumPy; the documented differences are all."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

from fuzz_headers import CORPUS, DOCUMENTED, MAX_SECONDS, compare, corpus, fuzz, headers, main

PAGE = Path(__file__).parents[1] / "docs" / "format.md"
NAMES = [known.name for known in DOCUMENTED]


@pytest.mark.parametrize("name", corpus())
def test_the_corpus_fares_as_its_names_say(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome = compare((CORPUS / name).read_bytes())
    assert outcome.kind.replace(" ", "-") == name.split("--")[0], outcome.note


def test_every_documented_difference_is_in_the_corpus():
    kinds = {name.split("--")[0] for name in corpus()}
    assert kinds == {"both", "neither", *(name.replace(" ", "-") for name in NAMES)}


def test_the_page_lists_the_documented_differences():
    section = PAGE.read_text().split("## Differences from np.load")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+?) +\|", section, re.MULTILINE)
    assert rows[0] == "difference"
    assert rows[1:] == NAMES


def test_twelve_thousand_headers_at_random():
    kinds, found = fuzz(count=12_000, seed=12_000)
    assert not found, f"{found[0].note}: {found[0].data!r}"
    # The grammar still writes headers of every common kind.
    assert kinds["both"] > 3_000
    assert kinds["neither"] > 3_000
    assert min(kinds[name] for name in ("slips", "float8", "long header", "odd longs")) > 0


def test_a_seed_gives_the_same_headers_again():
    assert [data for data, _ in zip(headers(3), range(200), strict=False)] == [
        data for data, _ in zip(headers(3), range(200), strict=False)
    ]


def test_a_difference_is_found_and_shown(monkeypatch, capsys):
    monkeypatch.setattr("fuzz_headers.DOCUMENTED", ())
    assert main(["--count", "1000", "--seed", "1"]) == 1
    shown = capsys.readouterr().out
    assert "1,000 headers in" in shown
    assert "only npyflow reads it" in shown


def test_what_escapes_and_what_takes_long_are_differences(monkeypatch):
    data = (CORPUS / "both--plain-1.0.header").read_bytes()

    def escapes(raw):
        raise KeyError("descr")

    monkeypatch.setattr("fuzz_headers.parse_header", escapes)
    assert "KeyError escaped" in compare(data).note
    monkeypatch.undo()
    monkeypatch.setattr("fuzz_headers.MAX_SECONDS", MAX_SECONDS * 0)
    assert "took" in compare(data).note
