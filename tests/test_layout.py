"""Spans cover what an epoch delivers, once, whatever the sizes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npyflow._order.layout import BUDGET_BYTES, READ_BYTES, WHOLE_BATCH_BYTES, Layout, plan_layout, plan_pace

LAYOUTS = st.builds(
    Layout,
    examples=st.integers(0, 200),
    batch_size=st.integers(1, 50),
    drop_remainder=st.booleans(),
    batches_per_read=st.integers(1, 10),
)


@settings(max_examples=300, deadline=None)
@given(LAYOUTS, st.data())
def test_spans_cover_every_delivered_example_once(layout, data):
    first = data.draw(st.integers(0, layout.steps))
    covered = []
    for read in range(layout.reads(first)):
        start, stop = layout.span(first, read)
        assert start < stop
        assert start % layout.batch_size == 0
        assert stop - start <= layout.batches_per_read * layout.batch_size
        covered += range(start, stop)
    assert covered == list(range(first * layout.batch_size, layout.end))


@settings(max_examples=200, deadline=None)
@given(LAYOUTS)
def test_steps_and_end(layout):
    full, rest = divmod(layout.examples, layout.batch_size)
    assert layout.steps == full + bool(rest and not layout.drop_remainder)
    assert layout.end == (full * layout.batch_size if layout.drop_remainder else layout.examples)
    assert layout.reads(layout.steps) == 0


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(1, 10**6), st.booleans())
def test_reads_are_bounded(examples, example_bytes, batch_size, drop_remainder):
    layout = plan_layout(
        examples=examples, example_bytes=example_bytes, batch_size=batch_size, drop_remainder=drop_remainder
    )
    batch_bytes = example_bytes * batch_size
    assert layout.batches_per_read >= 1
    assert layout.batches_per_read == 1 or layout.batches_per_read * batch_bytes <= READ_BYTES
    assert layout.batches_per_read == 1 or layout.batches_per_read * batch_size <= 65536
    if batch_bytes >= WHOLE_BATCH_BYTES:
        assert layout.batches_per_read == 1
    read_bytes = max(1, batch_bytes * layout.batches_per_read)
    for small_files in (False, True):
        pace = plan_pace(read_bytes, small_files=small_files)
        assert pace.parallel >= 1
        assert pace.ahead >= 0
        assert pace.in_flight <= 3 or pace.in_flight * read_bytes <= BUDGET_BYTES


@pytest.mark.parametrize(
    ("n", "steps", "dropped"), [(0, 0, 0), (1, 1, 0), (31, 1, 0), (32, 1, 1), (33, 2, 1), (64, 2, 2)]
)
def test_batches_of_32(n, steps, dropped):
    for drop_remainder, expected in ((False, steps), (True, dropped)):
        layout = plan_layout(examples=n, example_bytes=4, batch_size=32, drop_remainder=drop_remainder)
        assert layout.steps == expected
