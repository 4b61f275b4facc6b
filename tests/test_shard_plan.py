"""How examples are cut into shards and chunks, and how columns are named: arithmetic, no files."""

import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from npyflow._write.plan import Part, plan_parts
from npyflow._write.supply import CHUNK_BYTES, chunk_counts, column_names

SIZES = st.lists(st.integers(0, 60) | st.sampled_from([0, 1, 500]), min_size=1, max_size=60)


def cut(sizes: list[int], most: int) -> tuple[Part, ...]:
    return plan_parts(np.array(sizes, np.int64), most)


@settings(max_examples=150, deadline=None)
@given(SIZES, st.integers(1, 200))
@example([0, 0, 0], 1)
@example([7], 1)
@example([0, 500, 0, 0], 10)
@example([500] + [1] * 50, 100)
def test_parts_hold_every_example_once_and_in_order(sizes: list[int], most: int) -> None:
    parts = cut(sizes, most)
    assert parts[0].start == 0
    assert parts[-1].stop == len(sizes)
    assert all(one.stop == two.start for one, two in pairwise(parts))
    for number, part in enumerate(parts):
        assert (part.number, part.of) == (number, len(parts))
        assert part.examples == part.stop - part.start >= 1
        assert part.nbytes == sum(sizes[part.start : part.stop])
        assert part.nbytes <= most or part.examples == 1 or sum(sizes[part.start : part.stop] != np.int64(0)) == 1


@settings(max_examples=150, deadline=None)
@given(SIZES, st.integers(1, 200))
def test_the_same_examples_are_cut_in_the_same_way(sizes: list[int], most: int) -> None:
    assert cut(sizes, most) == cut(sizes, most)


@settings(max_examples=150, deadline=None)
@given(SIZES, st.integers(1, 200))
@example([500] + [1] * 50, 100)
@example([1] * 50 + [500] + [1] * 50, 100)
def test_no_more_parts_than_two_for_each_that_is_needed(sizes: list[int], most: int) -> None:
    # Greedy cutting never leaves two neighbours that fit into one; equal sizes cost no more than as many again.
    greedy, filled = 1, 0
    for size in sizes:
        if filled and filled + size > most:
            greedy, filled = greedy + 1, 0
        filled += size
    assert len(cut(sizes, most)) <= 2 * greedy


@pytest.mark.parametrize(("count", "most", "lengths"), [(10, 40, [4, 4, 2]), (9, 40, [3, 3, 3]), (12, 1000, [12])])
def test_equal_examples_make_equal_parts(count: int, most: int, lengths: list[int]) -> None:
    found = [part.examples for part in cut([10] * count, most)]
    assert sum(found) == count
    assert len(found) == len(lengths)
    assert max(found) - min(found) <= 2


def test_an_example_larger_than_a_shard_has_one_for_itself() -> None:
    parts = cut([5, 500, 5], 100)
    assert [part.nbytes for part in parts if part.nbytes > 100] == [500]
    assert [part.examples for part in parts if part.nbytes > 100] == [1]


def test_huge_totals_are_exact() -> None:
    parts = plan_parts(np.full(1000, 1 << 40, np.int64), 1 << 41)
    assert sum(part.nbytes for part in parts) == 1000 << 40
    assert max(part.nbytes for part in parts) <= 1 << 41
    assert len(parts) == 500


def test_shards_are_called_as_tensorflow_calls_them() -> None:
    assert cut([1] * 3, 1)[1].stem == "data-00001-of-00003"
    stems = [part.stem for part in cut([1] * 200, 1)]
    assert stems == sorted(stems)
    assert len(set(stems)) == 200


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([0, 1, 4096, CHUNK_BYTES // 3, CHUNK_BYTES, 3 * CHUNK_BYTES]), max_size=40))
def test_chunks_hold_every_example_and_stay_small(sizes: list[int]) -> None:
    counts = chunk_counts(np.array(sizes, np.int64))
    assert sum(counts) == len(sizes)
    assert all(count >= 1 for count in counts)
    ends = np.cumsum([0, *counts])
    for start, stop in pairwise(ends.tolist()):
        assert sum(sizes[start:stop]) <= CHUNK_BYTES or np.count_nonzero(sizes[start:stop]) == 1


def test_chunks_of_empty_examples_are_bounded_too() -> None:
    counts = chunk_counts(np.zeros(100_000, np.int64))
    assert sum(counts) == 100_000
    assert max(counts) <= 8192


@settings(max_examples=150, deadline=None)
@given(st.lists(st.text(max_size=12), min_size=1, max_size=8))
@example(["a b", "a_b", "A_B"])
@example(["", "0", "1"])
@example(["é", "ü"])
@example(["../../etc/passwd", ".", "..", "a/b"])
@example(["x_2", "x", "x"])
def test_column_names_are_unique_and_safe(names: list[str]) -> None:
    found = column_names(names)
    assert len(found) == len(names)
    assert len({name.lower() for name in found}) == len(names)
    for name in found:
        assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]*", name)
        assert ".." not in name.split("/")
    assert column_names(names) == found


def test_plain_names_stay() -> None:
    assert column_names(["image", "label", "y.2", "a-b"]) == ["image", "label", "y.2", "a-b"]


def test_better_names_are_taken() -> None:
    assert column_names(["0", "1"], {"0": "x", "1": "label"}) == ["x", "label"]


def test_long_names_leave_room_for_the_rest_of_a_file_name() -> None:
    # 255 bytes is what file systems take; a number of the shard, a suffix and a temporary mark come on top.
    found = column_names(["a" * 300, "a" * 300 + "b"])
    assert max(map(len, found)) <= 200
    assert len(set(found)) == 2
