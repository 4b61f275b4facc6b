"""The verdict: a pure function of what was measured, by the table that the docs show."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npyflow._measure.facts import GAIN, MOST_EPOCHS, Facts, break_even, clearly_faster
from npyflow._measure.result import BatchRate, PackCost, Way
from npyflow._measure.rules import RULES, effort_words, judge, rules_table

DOCS = Path(__file__).parents[1] / "docs" / "choosing.md"
EXAMPLES, BYTES = 10_000, 4_000


def way(name, rate, spread=0.02, **more):
    return Way(
        name=name,
        call=f"open_{name}().to_tf(32, shuffle=True)",
        examples_per_s=rate,
        low=rate * (1 - spread),
        high=rate * (1 + spread),
        mb_per_s=rate * BYTES / 1e6,
        batches_per_s=rate / 32,
        memory_bytes=0,
        epoch_s=EXAMPLES / rate,
        **more,
    )


def facts(*ways, today="files", **more):
    """Ways as ``(name, rate)``; the first is today's."""
    made = [way(*one[:2], *one[2:], today=at == 0, recipe=one[0] == "recipe") for at, one in enumerate(ways)]
    given = {"pack": PackCost(seconds=1.0, bytes=40_000_000, break_even_epochs=2.5), "free_memory": 1 << 40} | more
    return Facts(
        path="my images",
        opened="nf.files('my images')",
        examples=EXAMPLES,
        batch_size=32,
        total_bytes=EXAMPLES * BYTES,
        ways=tuple(made),
        **given,
    )


@pytest.mark.parametrize(
    ("found", "rule", "best"),
    [
        (facts(("files", 1000)), "keep", "files"),
        (facts(("files", 1000), ("packed", 1050), ("ram", 1080), ("recipe", 9000)), "keep", "files"),
        (facts(("files", 1000), ("packed", 3000), ("ram", 3100), ("recipe", 10)), "pack", "packed"),
        (facts(("files", 1000), ("packed", 1200), ("ram", 3100)), "ram", "ram"),
        # Packed is near the fastest, but not clearly better than today's.
        (facts(("files", 1000), ("packed", 1080), ("ram", 1160)), "ram", "ram"),
        (facts(("files", 1000), ("packed", 3000), ("tfrecord", 3200)), "pack", "packed"),
        (facts(("files", 1000), ("packed", 1500), ("tfrecord", 3200)), "convert", "tfrecord"),
        (facts(("mmap", 1000), ("read", 1500), ("ram", 1550)), "access", "read"),
        (facts(("read", 1000), ("mmap", 1500)), "access", "mmap"),
        (facts(("ram", 1000), ("packed", 800)), "keep", "ram"),
        # Noise: the intervals reach over each other's medians.
        (facts(("files", 1000, 0.6), ("packed", 1400, 0.3)), "keep", "files"),
        (facts(("files", 1000, 0.1), ("packed", 1400, 0.2)), "pack", "packed"),
        # No room in memory, on the disk, or no return.
        (facts(("files", 1000), ("packed", 1500), ("ram", 3100), free_memory=50_000_000), "pack", "packed"),
        (facts(("files", 1000), ("packed", 1500), ("ram", 3100), free_disk=1), "ram", "ram"),
        (facts(("files", 1000), ("packed", 3000), free_disk=1), "keep", "files"),
        (facts(("files", 1000), ("packed", 3000), pack=PackCost(seconds=9e9, bytes=1, break_even_epochs=101.0)),
         "keep", "files"),
        (facts(("files", 1000), ("packed", 3000), pack=PackCost(seconds=9e9, bytes=1, break_even_epochs=None)),
         "keep", "files"),
        # The model: a batch takes 32 ms today.
        (facts(("files", 1000), ("packed", 3000), step_ms=40.0), "model", "files"),
        (facts(("files", 1000), ("packed", 3000), step_ms=33.0), "pack", "packed"),
        (facts(("files", 1000), ("packed", 3000), step_ms=10.0), "pack", "packed"),
        (facts(("files", 1000), step_ms=0.0), "keep", "files"),
    ],
)  # fmt: skip
def test_each_rule(found, rule, best):
    verdict = judge(found)
    assert (verdict.rule, verdict.best) == (rule, best)
    assert verdict.headline.endswith(".")
    assert verdict.commands
    assert all(reason.endswith(".") for reason in verdict.reasons), verdict.reasons


def rates(*pairs):
    return tuple(BatchRate(batch_size=size, examples_per_s=rate) for size, rate in pairs)


def test_a_larger_batch_is_proposed_where_nothing_else_helps():
    slow = facts(("files", 1000), ("packed", 1050), batch_sizes=rates((32, 1000.0), (128, 1900.0), (512, 2000.0)))
    verdict = judge(slow)
    # The smallest that comes near the best.
    assert verdict.rule == "batch"
    assert "128" in verdict.headline
    assert verdict.commands == ("open_files().to_tf(128, shuffle=True)",)
    little = facts(("files", 1000), batch_sizes=rates((32, 1000.0), (128, 1200.0)))
    assert judge(little).rule == "keep"
    # No training waits for a tenth of a millisecond.
    quick = facts(("mmap", 320_000), batch_sizes=rates((32, 320_000.0), (128, 900_000.0)))
    assert judge(quick).rule == "keep"
    packed = facts(("files", 1000), ("packed", 3000), batch_sizes=rates((32, 1000.0), (128, 1900.0)))
    assert judge(packed).rule == "pack"
    assert any("Larger batches help too" in reason for reason in judge(packed).reasons)


def test_the_commands_can_be_typed():
    typed = facts(("files", 1000), ("packed", 3000), options=("--labels", "directory"))
    assert judge(typed).commands[0] == "npyflow pack 'my images' 'my images-packed' --labels directory"
    typed = facts(("files", 1000), ("packed", 1), ("tfrecord", 3000), options=())
    assert judge(typed).commands[0] == "npyflow convert 'my images' 'my images-tfrecord' --to tfrecord"
    called = facts(("files", 1000), ("packed", 1), ("tfrecord", 3000))
    assert judge(called).commands[0] == "nf.convert(flow, 'my images-tfrecord', to='tfrecord')"
    in_ram = judge(facts(("files", 1000), ("ram", 3000)))
    assert in_ram.commands == ("flow = nf.files('my images')", "open_ram().to_tf(32, shuffle=True)")


def test_the_bottleneck():
    assert facts(("files", 1000)).bottleneck is None
    for step_ms, who in ((10.0, "input"), (31.0, "even"), (33.0, "even"), (64.0, "model")):
        found = facts(("files", 1000), step_ms=step_ms).bottleneck
        assert (found.who, found.step_ms, round(found.input_ms)) == (who, step_ms, 32)
    assert "busy 50% of the time" in found.text
    assert "waits 69% of the time" in facts(("files", 1000), step_ms=10.0).bottleneck.text


def test_what_is_faster_and_refused_is_said():
    found = judge(facts(("files", 1000), ("ram", 3100), free_memory=1_000_000))
    assert any("3.1 times as fast, but the data would fill more than half" in reason for reason in found.reasons)


def test_break_even():
    assert break_even(10.0, 5.0, 3.0) == 5.0
    assert break_even(10.0, 3.0, 3.0) is None
    assert break_even(10.0, 3.0, 5.0) is None


_RATES = st.floats(10, 1e6)
_TODAY = st.tuples(st.sampled_from(["files", "npz", "mmap", "read", "ram"]), _RATES, st.floats(0, 0.9))
_OTHER = st.tuples(st.sampled_from(["mmap", "read", "packed", "ram", "tfrecord"]), _RATES, st.floats(0, 0.9))


@given(
    _TODAY,
    st.lists(_OTHER, max_size=5, unique_by=lambda one: one[0]),
    st.floats(0, 3 * MOST_EPOCHS),
    st.one_of(st.none(), st.floats(0, 1000)),
    st.sampled_from([None, 1, 1 << 30, 1 << 40]),
    st.lists(_RATES, max_size=3),
)
@settings(max_examples=100, deadline=None)
def test_whatever_is_measured(today, others, epochs, step_ms, memory, batches):
    ways = [today, *(one for one in others if one[0] != today[0])]
    found = facts(
        *ways,
        pack=PackCost(seconds=1.0, bytes=1, break_even_epochs=epochs),
        step_ms=step_ms,
        free_memory=memory,
        batch_sizes=rates(*zip((32, 128, 512), batches, strict=False)),
    )
    verdict = judge(found)
    best, today = found.way(verdict.best), found.today
    possible = [one for one in found.ways if one.name not in found.refused]
    if verdict.rule != "model":
        assert not any(clearly_faster(one, best) for one in possible)
    # A change is always worth it.
    assert best.today or (clearly_faster(best, today) and best.examples_per_s >= GAIN * today.examples_per_s)
    assert verdict.rule in [rule.name for rule in RULES]
    assert judge(found) == verdict
    without_noise = facts(*((name, rate, 0.0) for name, rate, _ in ways), free_memory=memory, step_ms=None,
                          pack=PackCost(seconds=1.0, bytes=1, break_even_epochs=epochs))  # fmt: skip
    best = without_noise.way(judge(without_noise).best)
    fastest = max(one.examples_per_s for one in without_noise.ways if one.name not in without_noise.refused)
    assert best.examples_per_s >= fastest / GAIN * 0.999


def test_the_order_of_ways_does_not_matter():
    ways = [("packed", 3000.0), ("ram", 3100.0), ("tfrecord", 3200.0)]
    for others in itertools.permutations(ways):
        assert judge(facts(("files", 1000), *others)).best == "packed"


def test_the_docs_show_the_rules_of_the_code():
    text = DOCS.read_text(encoding="utf-8")
    assert rules_table() in text, f"docs/choosing.md must hold this table:\n\n{rules_table()}"
    assert effort_words() in " ".join(text.split())
