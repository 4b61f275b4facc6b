"""Nesting, and how values look in messages."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npyflow as nf
from npyflow._core.structure import Structure, spread, structure_of
from npyflow._core.text import examples, human_bytes, natural_key, plural, show_path

TREES = st.recursive(
    st.integers(),
    lambda child: st.one_of(
        st.lists(child, max_size=3).map(tuple),
        st.dictionaries(st.text("abc", min_size=1, max_size=2), child, max_size=3),
    ),
    max_leaves=10,
)


def test_leaves_and_names_in_written_order():
    tree = ({"z": 1, "a": (2, 3)}, [4], "text")
    structure = Structure(tree)
    assert structure.leaves == [1, 2, 3, [4], "text"]
    assert structure.names == ["[0].z", "[0].a[0]", "[0].a[1]", "[1]", "[2]"]
    assert Structure("x").names == [""]
    assert Structure({"a": 1}).names == ["a"]


@settings(max_examples=100, deadline=None)
@given(TREES)
def test_pack_puts_leaves_back(tree):
    structure = Structure(tree)
    leaves = structure.leaves
    assert structure.pack(leaves) == tree
    assert repr(structure.pack(leaves)) == repr(tree)
    assert structure.map(lambda leaf: leaf + 1).leaves == [leaf + 1 for leaf in leaves]
    assert len(structure.names) == len(leaves)
    assert len(set(structure.names)) == len(leaves)
    assert spread(7, structure, "x") == [7] * len(leaves)


@pytest.mark.parametrize("data", [(), {}, ((), {})])
def test_nothing_is_no_structure(data):
    with pytest.raises(nf.OptionError, match="data is empty"):
        structure_of(data, "data")


@pytest.mark.parametrize("data", [{1: "x"}, ("x", {"a": {None: "x"}})])
def test_dict_keys_are_text(data):
    with pytest.raises(nf.OptionError, match="expected a string"):
        structure_of(data, "data")


def test_spread():
    structure = Structure(({"a": 0, "b": 0}, 0))
    assert spread(None, structure, "dtype") == [None] * 3
    assert spread(("x", "y"), structure, "dtype") == ["x", "x", "y"]
    assert spread(({"b": "x"}, None), structure, "dtype") == [None, "x", None]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("x",), "one value for each of 2 components"),
        ({"a": "x"}, "the data has a tuple of 2"),
        (({"c": "x"}, None), r"names c; the data has a, b"),
        (({"a": {"deep": 1}}, None), "deeper"),
        ((None, ("x",)), "deeper"),
    ],
)
def test_spread_refuses_another_nesting(option, message):
    with pytest.raises(nf.OptionError, match=message):
        spread(option, Structure(({"a": 0, "b": 0}, 0)), "dtype")


def test_natural_order():
    names = ["a/1", "a/2", "a/10", "a/10b", "a/x", "ab/0", "b", "b1", "b02", "b2", "b10", "c1/9", "c2/0", "c10/0"]
    shuffled = names.copy()
    for seed in range(20):
        random.Random(seed).shuffle(shuffled)
        assert sorted(shuffled, key=natural_key) == names


@pytest.mark.parametrize("twin", ["ab", "a1", "a 2", "a-1", "a.b"])
def test_a_folder_comes_before_its_longer_named_twin(twin):
    assert sorted([f"{twin}/1", "a/1"], key=natural_key) == ["a/1", f"{twin}/1"]


def test_natural_order_is_one_order_for_any_names():
    assert sorted(["2", "02", "002", "1"], key=natural_key) == ["1", "002", "02", "2"]
    assert sorted(["10", "9", "x", "é", "数据", "²", "٣"], key=natural_key)[:2] == ["9", "10"]
    assert sorted(["a/b", "a", "a b", "a-b"], key=natural_key)[:2] == ["a", "a/b"]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text("a1029/ .é", max_size=8), unique=True, max_size=8), st.randoms())
def test_natural_order_is_total(names, rng):
    once = sorted(names, key=natural_key)
    rng.shuffle(names)
    assert sorted(names, key=natural_key) == once
    assert len({natural_key(name) for name in names}) == len(names)


def test_numbers_in_words():
    assert plural(1, "file") == "1 file"
    assert plural(2000, "file") == "2,000 files"
    assert plural(0, "entry", "entries") == "0 entries"
    assert [human_bytes(n) for n in (0, 999, 1000, 3136, 627_200_000, 10**13)] == [
        "0 B", "999 B", "1.0 kB", "3.1 kB", "627.2 MB", "10.0 TB",
    ]  # fmt: skip
    assert examples(range(3)) == "0, 1, 2"
    assert examples(range(8), 3) == "0, 1, 2, … (5 more)"
    assert examples([]) == ""


def test_paths_are_printable():
    assert show_path("a/été 数据.npy") == "a/été 数据.npy"
    assert show_path(b"a/\xe9.npy") == "a/\\udce9.npy"
    assert show_path("a\nb\r") == "a\\nb\\r"
    show_path(b"\xff").encode("utf-8")
