"""Splits and folds of flows: by class, by group and by time, of rows, files, crops and windows."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npyflow as nf
from helpers import same, write

CLASSES = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [950, 45, 5]))
N = len(CLASSES)
ROWS = nf.rows((np.arange(N), CLASSES))
CROP = nf.Crop((3,), random=True, per_file=4)


def keys(part: nf.Flow) -> list[Any]:
    return np.asarray(part.keys).tolist()


def numbers(part: nf.Flow) -> list[int]:
    """The first number of each example: its row, or its file times 100."""
    found: list[int] = []
    for batch in part.batches(256):
        leaf = batch
        while isinstance(leaf, tuple | dict):
            leaf = leaf[0] if isinstance(leaf, tuple) else next(iter(leaf.values()))
        found += leaf.reshape(len(leaf), -1)[:, 0].astype(int).tolist()
    return found


def check(parts: list[nf.Flow] | tuple[nf.Flow, ...], flow: nf.Flow) -> None:
    """Disjoint, complete, none empty, and each in the order of the flow."""
    assert all(isinstance(part, nf.Flow) and len(part) for part in parts)
    assert sum(map(len, parts)) == len(flow)
    assert Counter(key for part in parts for key in keys(part)) == Counter(keys(flow))
    # Where a random crop lies depends on the part, from which file it is does not.
    found = [number // 100 for part in parts for number in numbers(part)]
    assert sorted(found) == sorted(number // 100 for number in numbers(flow))
    for part in parts:
        assert part.spec == flow.spec
        assert part.classes == flow.classes


def counts(part: nf.Flow) -> list[int]:
    return np.bincount([int(y) for _, y in part.batches(1)], minlength=3).tolist()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """60 files of 12 numbers from 100 * number on: patients p0 to p9, classes cat (36), dog (18), emu (6)."""
    root = tmp_path_factory.mktemp("split")
    for n in range(60):
        name = "cat" if n % 10 < 6 else "dog" if n % 10 < 9 else "emu"
        write(root / name / f"p{n // 6}-{n}.npy", np.arange(12) + 100 * n)
    return root


def patient(key: str) -> str:
    return key.split("/")[-1].split("-")[0]


def species(key: str) -> str:
    return key.split("/")[0]


def open_files(folder: Any, crop: nf.Crop | None = None) -> nf.Flow:
    return nf.files(folder, labels="directory", crop=crop)


# Classes


@pytest.mark.parametrize("seed", range(3))
def test_every_part_has_its_share_of_every_class(seed):
    parts = ROWS.split(0.8, 0.1, 0.1, stratify=True, seed=seed)
    check(parts, ROWS)
    assert [len(part) for part in parts] == [800, 100, 100]
    for part, share in zip(parts, (0.8, 0.1, 0.1), strict=True):
        found = np.bincount([int(y) for _, y in part], minlength=3)
        assert (np.abs(found - share * np.array([950, 45, 5])) < 1).all()


@pytest.mark.parametrize(
    "stratify",
    [CLASSES, CLASSES.tolist(), CLASSES.astype("u1"), np.array(["a", "b", "c"])[CLASSES], lambda row: CLASSES[row]],
    ids=["array", "list", "u1", "text", "callable"],
)
def test_the_classes_may_be_said(stratify):
    flow = nf.rows(np.arange(N))
    train, val = flow.split(0.8, stratify=stratify)
    check((train, val), flow)
    assert np.bincount(CLASSES[keys(train)]).tolist() == [760, 36, 4]
    assert keys(train) == keys(ROWS.split(0.8, stratify=True)[0])


def test_the_label_counts_and_not_another_component():
    flow = nf.rows({"x": np.arange(N), "y": CLASSES})
    with pytest.raises(nf.OptionError, match="stratify"):
        nf.rows(np.arange(N)).split(0.8, stratify=True)
    try:
        parts = flow.split(0.8, stratify=True)
    except nf.OptionError as error:
        assert "stratify" in str(error)  # noqa: PT017
    else:
        assert np.bincount(CLASSES[keys(parts[0])]).tolist() == [760, 36, 4]


@pytest.mark.parametrize("crop", [None, CROP, nf.Crop((4,), grid=True)], ids=["whole", "random", "grid"])
@pytest.mark.parametrize("stratify", [True, species], ids=["label", "callable"])
def test_files_by_class(folder, crop, stratify):
    flow = open_files(folder, crop)
    parts = flow.split(0.5, 0.25, stratify=stratify)
    check(parts, flow)
    per_file = len(flow) // 60
    for part, share in zip(parts, (0.5, 0.25, 0.25), strict=True):
        found = Counter(species(key) for key in keys(part))
        for name, count in {"cat": 36, "dog": 18, "emu": 6}.items():
            assert abs(found[name] - share * count * per_file) <= per_file
    not_both_sides(parts, lambda key: key)


def not_both_sides(parts: Any, group: Any) -> None:
    found = [set(map(group, keys(part))) for part in parts]
    for one, other in combinations(found, 2):
        assert not one & other


@settings(max_examples=40, deadline=None)
@given(
    classes=st.lists(st.integers(0, 4), min_size=10, max_size=80),
    fraction=st.sampled_from([0.2, 0.5, 0.75]),
    seed=st.integers(0, 2**64),
)
def test_any_classes(classes, fraction, seed):
    flow = nf.rows((np.arange(len(classes)), np.array(classes)))
    one, two = flow.split(fraction, seed=seed, stratify=True)
    check((one, two), flow)
    whole, found = Counter(classes), Counter(classes[row] for row in keys(one))
    assert all(abs(found[name] - fraction * count) < 1 for name, count in whole.items())
    again = flow.split(fraction, seed=seed, stratify=True)
    assert keys(again[0]) == keys(one)


def test_another_seed_is_another_split():
    for options in ({"stratify": True}, {"groups": np.arange(N) // 7}, {}):
        assert keys(ROWS.split(0.8, **options)[0]) != keys(ROWS.split(0.8, seed=1, **options)[0])


# Groups


@pytest.mark.parametrize("kind", ["array", "text", "list", "callable"])
def test_a_group_is_on_one_side(kind):
    groups = np.random.default_rng(1).integers(0, 90, N)
    said = {
        "array": groups,
        "text": groups.astype(str),
        "list": groups.tolist(),
        "callable": lambda row: groups[row],
    }[kind]
    parts = ROWS.split(0.7, 0.2, groups=said)
    check(parts, ROWS)
    not_both_sides(parts, lambda row: int(groups[row]))
    largest = np.bincount(groups).max()
    assert all(abs(len(p) - share * N) <= largest for p, share in zip(parts, (0.7, 0.2, 0.1), strict=True))


@pytest.mark.parametrize("crop", [None, CROP, nf.Crop((4,), grid=True)], ids=["whole", "random", "grid"])
def test_patients(folder, crop):
    flow = open_files(folder, crop)
    for said in (patient, [patient(key) for key in keys(flow)]):
        parts = flow.split(0.6, 0.2, groups=said)
        check(parts, flow)
        not_both_sides(parts, patient)
        assert [len(part) * 10 // len(flow) for part in parts] == [6, 2, 2]


@pytest.mark.parametrize("split", [{}, {"by": "random"}, {"stratify": True}, {"by": "time"}], ids=str)
def test_crops_of_a_file_stay_together(folder, split):
    """Neighbouring crops share values: on both sides they would leak."""
    flow = open_files(folder, CROP)
    parts = flow.split(0.7, **split)
    check(parts, flow)
    not_both_sides(parts, lambda key: key)


def test_folds_keep_crops_of_a_file_together(folder):
    flow = open_files(folder, CROP)
    for options in ({}, {"stratify": True}):
        for parts in flow.folds(3, **options):
            check(parts, flow)
            not_both_sides(parts, lambda key: key)


def test_a_new_file_does_not_move_the_old_ones(tmp_path):
    for n in range(100):
        write(tmp_path / f"{n}.npy", np.array([n]))
    before = nf.files(tmp_path).split(0.8)
    for n in range(100, 110):
        write(tmp_path / f"{n}.npy", np.array([n]))
    after = nf.files(tmp_path).split(0.8)
    for one, other in zip(before, after, strict=True):
        assert set(keys(one)) <= set(keys(other))
    check(after, nf.files(tmp_path))


def test_groups_do_not_move_when_examples_join_them():
    groups = np.arange(200) // 4
    one = nf.rows(np.arange(200)).split(0.5, groups=groups)
    assert sorted(map(len, one)) == [100, 100]
    assert len({frozenset(keys(part)) for part in one}) == 2


def test_windows_by_group(tmp_path):
    for n in range(6):
        write(tmp_path / f"s{n}.npy", np.arange(20) + 100 * n)
    flow = nf.windows(tmp_path, length=5)
    parts = flow.split(0.5, groups=lambda key: key)
    check(parts, flow)
    not_both_sides(parts, lambda key: key)
    assert [len(part) for part in parts] == [48, 48]
    for train, val in flow.folds(3, groups=lambda key: key):
        check((train, val), flow)
        not_both_sides((train, val), lambda key: key)


# Time


def test_rows_by_time():
    parts = ROWS.split(0.8, 0.1, 0.1, by="time")
    assert [(keys(part)[0], keys(part)[-1], len(part)) for part in parts] == [
        (0, 799, 800),
        (800, 899, 100),
        (900, 999, 100),
    ]
    check(parts, ROWS)
    gapped = ROWS.split(0.5, by="time", gap=10)
    assert keys(gapped[1])[0] - keys(gapped[0])[-1] == 11
    assert sum(map(len, gapped)) == N - 10
    assert keys(gapped[0])[0] == 0
    assert keys(gapped[1])[-1] == N - 1
    assert all(np.diff(keys(part)).tolist() == [1] * (len(part) - 1) for part in gapped)


def test_files_by_time_follow_their_order(tmp_path):
    for n in range(20):
        write(tmp_path / f"{n}.npy", np.array([n]))
    early, late = nf.files(tmp_path).split(0.75, by="time", gap=2)
    assert (numbers(early), numbers(late)) == ([*range(14)], [*range(16, 20)]) or (
        max(numbers(early)) + 3 == min(numbers(late))
    )


def test_a_gap_is_for_time():
    with pytest.raises(nf.OptionError, match="gap"):
        ROWS.split(0.8, gap=3)
    with pytest.raises(nf.OptionError, match="gap"):
        ROWS.split(0.8, by="time", gap=-1)
    with pytest.raises(nf.OptionError, match="gap"):
        ROWS.split(0.8, by="time", gap=1.5)
    with pytest.raises(nf.OptionError):
        ROWS.split(0.8, by="time", gap=2000)


def test_the_seed_is_nothing_to_time():
    assert keys(ROWS.split(0.3, by="time", seed=1)[0]) == keys(ROWS.split(0.3, by="time", seed=2)[0])


@pytest.mark.parametrize("gap", [0, 3])
def test_windows_by_time_share_no_step(gap):
    flow = nf.windows(np.arange(200), length=5, horizon=2)
    parts = flow.split(0.6, 0.2, by="time", gap=gap)
    steps = [set(np.concatenate([np.concatenate(example) for example in part]).tolist()) for part in parts]
    for one, other in pairwise(steps):
        assert max(one) + gap < min(other)
    assert [numbers(part) for part in parts] == [numbers(part) for part in flow.split(0.6, 0.2, gap=gap)]


def test_exact_sizes_at_random(tmp_path):
    for n in range(50):
        write(tmp_path / f"{n}.npy", np.array([n]))
    flow = nf.files(tmp_path)
    parts = flow.split(0.8, by="random")
    check(parts, flow)
    assert [len(part) for part in parts] == [40, 10]
    assert numbers(parts[1]) != [*range(40, 50)]


# Folds


@pytest.mark.parametrize("k", [2, 3, 7])
@pytest.mark.parametrize("kind", ["plain", "stratified", "grouped"])
def test_folds_of_rows(k, kind):
    groups = np.random.default_rng(2).integers(0, 100, N)
    options = {"plain": {}, "stratified": {"stratify": True}, "grouped": {"groups": groups}}[kind]
    folds = ROWS.folds(k, seed=4, **options)
    assert isinstance(folds, list)
    assert len(folds) == k
    for train, val in folds:
        check((train, val), ROWS)
        if kind == "grouped":
            not_both_sides((train, val), lambda row: int(groups[row]))
            assert abs(len(val) - N / k) <= np.bincount(groups).max()
        else:
            assert abs(len(val) - N / k) < 1
        if kind == "stratified":
            found = np.bincount(CLASSES[keys(val)], minlength=3)
            assert (np.abs(found - np.array([950, 45, 5]) / k) < 1).all()
    # The validation parts are the whole.
    check([val for _, val in folds], ROWS)
    assert [keys(val) for _, val in ROWS.folds(k, seed=4, **options)] == [keys(val) for _, val in folds]


@pytest.mark.parametrize("crop", [None, CROP], ids=["whole", "crops"])
@pytest.mark.parametrize("kind", ["plain", "stratified", "grouped", "patients"])
def test_folds_of_files(folder, crop, kind):
    flow = open_files(folder, crop)
    options: dict[str, Any] = {
        "plain": {},
        "stratified": {"stratify": True},
        "grouped": {"groups": patient},
        "patients": {"groups": np.array([patient(key) for key in keys(flow)])},
    }[kind]
    folds = flow.folds(5, **options)
    check([val for _, val in folds], flow)
    for train, val in folds:
        check((train, val), flow)
        if "groups" in options:
            not_both_sides((train, val), patient)
    if kind == "stratified":
        per_file = len(flow) // 60
        for _, val in folds:
            found = Counter(species(key) for key in keys(val))
            assert all(
                abs(found[name] - count * per_file / 5) <= per_file
                for name, count in {"cat": 36, "dog": 18, "emu": 6}.items()
            )


@pytest.mark.parametrize("k", [1, 0, -2, 2.5, "3", None])
def test_no_folds(k):
    with pytest.raises(nf.OptionError, match="k="):
        ROWS.folds(k)


def test_more_folds_than_examples_or_groups(folder):
    with pytest.raises(nf.OptionError, match=r"(?s)4.*3|3.*4"):
        nf.rows(np.arange(3)).folds(4)
    with pytest.raises(nf.OptionError, match=r"(?s)groups.*10.*11|11.*10"):
        open_files(folder).folds(11, groups=patient)
    # Four crops are no four files.
    with pytest.raises(nf.OptionError):
        open_files(folder, CROP).folds(61)
    with pytest.raises(nf.OptionError, match="overlap"):
        nf.windows(np.arange(50), length=5).folds(3)


# Splits of splits


def test_nested_splits(folder):
    flow = open_files(folder)
    for options in ({}, {"stratify": True}, {"groups": patient}, {"by": "random"}, {"by": "time"}):
        rest, test = flow.split(0.7, **options)
        train, val = rest.split(0.7, **options)
        check((train, val), rest)
        check((train, val, test), flow)
        if "groups" in options:
            not_both_sides((train, val, test), patient)


def test_nested_splits_of_the_same_seed_are_independent():
    """A second split by the same hash must not take all or none of the first."""
    rest, _ = ROWS.split(0.5)
    one, two = rest.split(0.5)
    assert (len(one), len(two)) == (250, 250)
    strata, _ = ROWS.split(0.5, stratify=True)
    assert [len(part) for part in strata.split(0.5, stratify=True)] == [250, 250]


def test_nested_hash_splits_have_their_sizes(tmp_path):
    for n in range(400):
        write(tmp_path / f"{n}.npy", np.array([n]))
    rest, test = nf.files(tmp_path).split(0.5)
    one, two = rest.split(0.5)
    check((one, two, test), nf.files(tmp_path))
    assert abs(len(one) - len(rest) / 2) < 5 * np.sqrt(len(rest) / 4)


def test_arrays_belong_to_the_flow_that_is_split():
    part = ROWS[100:300]
    groups = np.arange(200) // 10
    one, two = part.split(0.5, groups=groups)
    check((one, two), part)
    not_both_sides((one, two), lambda row: (row - 100) // 10)
    for option in ("groups", "stratify"):
        with pytest.raises(nf.ShapeMismatchError, match=rf"{option}.*1,?000.*200"):
            part.split(0.5, **{option: CLASSES})
        with pytest.raises(nf.ShapeMismatchError, match=rf"{option}.*1,?000.*200"):
            part.folds(3, **{option: CLASSES})


def test_doubled_examples_stay_together():
    part = ROWS[np.repeat(np.arange(50), 2)]
    one, two = part.split(0.5, groups=lambda row: row)
    not_both_sides((one, two), lambda row: row)


def test_parts_in_another_order():
    part = nf.rows((np.arange(N), CLASSES))[::-1]
    train, val = part.split(0.8, stratify=True)
    assert sorted(keys(train) + keys(val)) == [*range(N)]
    assert np.bincount(CLASSES[keys(train)]).tolist() == [760, 36, 4]
    early, late = part.split(0.5, by="time")
    assert keys(early) == [*range(N - 1, 499, -1)]
    assert keys(late) == [*range(499, -1, -1)]


def test_parts_are_shuffled_and_saved(folder, tmp_path):
    train, val = open_files(folder).split(0.7, stratify=True)
    train.save(tmp_path / "train.json")
    val.save(tmp_path / "val.json")
    again = [nf.load(tmp_path / name) for name in ("train.json", "val.json")]
    assert [keys(part) for part in again] == [keys(train), keys(val)]
    for epoch in range(2):
        seen = [int(n) for x, _ in again[0].batches(7, shuffle=True, epoch=epoch) for n in x[:, 0]]
        assert sorted(seen) == sorted(numbers(train))


# Refused


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"stratify": True, "groups": CLASSES}, r"stratify.*groups|groups.*stratify"),
        ({"stratify": True, "by": "time"}, r"stratify.*time|time.*stratify"),
        ({"groups": CLASSES, "by": "time"}, r"groups.*time|time.*groups"),
        ({"by": "hash"}, "by='hash'"),
        ({"by": 3}, "by=3"),
        ({"stratify": "label"}, "stratify"),
        ({"stratify": 3}, "stratify"),
        ({"stratify": CLASSES[:-1]}, r"stratify.*999"),
        ({"stratify": np.eye(3)[CLASSES]}, r"stratify.*\(1000, 3\)"),
        ({"groups": "patient"}, "groups"),
        ({"groups": True}, "groups"),
        ({"groups": CLASSES[:10]}, r"groups.*\b10\b"),
        ({"groups": np.zeros(N, int)}, r"groups"),
        ({"groups": lambda row: None}, "groups"),
        ({"groups": lambda row: [row, row]}, "groups"),
        ({"stratify": lambda row: None}, "stratify"),
        ({"seed": "x"}, "seed='x'"),
    ],
    ids=range(17),
)
def test_refused_by_name(options, words):
    with pytest.raises((nf.OptionError, nf.ShapeMismatchError), match=f"(?s){words}"):
        ROWS.split(0.8, **options)


@pytest.mark.parametrize("fractions", [(), (0.0,), (-0.1,), (1.2,), (0.6, 0.6), ("a",), (float("nan"),), (80, 20)])
def test_no_fractions(fractions):
    for options in ({}, {"stratify": True}, {"groups": CLASSES}, {"by": "time"}):
        with pytest.raises((nf.OptionError, TypeError), match=r"(?i)fraction"):
            ROWS.split(*fractions, **options)


def test_a_callable_that_fails_keeps_its_error():
    def broken(row: int) -> int:
        raise ZeroDivisionError("mine")

    for option in ("groups", "stratify"):
        with pytest.raises(Exception, match="mine") as caught:
            ROWS.split(0.8, **{option: broken})
        error = caught.value
        assert isinstance(error, ZeroDivisionError) or isinstance(error.__cause__, ZeroDivisionError)


def test_an_empty_part_is_refused():
    with pytest.raises(nf.OptionError, match=r"(?i)empty|no example"):
        nf.rows((np.arange(3), np.zeros(3, int))).split(0.9, stratify=True)
    with pytest.raises(nf.OptionError, match=r"(?i)empty|no example"):
        nf.rows(np.arange(3)).split(0.1, by="time")


def test_overlapping_windows_are_not_split_at_random():
    flow = nf.windows(np.arange(100), length=5)
    with pytest.raises(nf.OptionError, match=r"(?s)overlap.*(time|groups)"):
        flow.split(0.8, by="random")
    with pytest.raises(nf.OptionError, match=r"(?s)overlap|stratify"):
        flow.split(0.8, stratify=np.arange(96) % 2)
    apart = nf.windows(np.arange(100), length=5, stride=5)
    parts = apart.split(0.5, by="random")
    check(parts, apart)


def test_labels_that_are_no_classes(tmp_path):
    with pytest.raises(nf.OptionError, match="stratify"):
        nf.rows((np.arange(N), np.linspace(0, 1, N))).split(0.8, stratify=True)
    with pytest.raises(nf.OptionError, match="stratify"):
        nf.rows((np.arange(N), np.zeros((N, 3)))).split(0.8, stratify=True)


def test_text_and_bool_labels():
    for labels in (np.array(["a", "b", "c"])[CLASSES], CLASSES > 0):
        flow = nf.rows((np.arange(N), labels))
        train, val = flow.split(0.8, stratify=True)
        assert [np.bincount(CLASSES[keys(part)])[1:].sum() for part in (train, val)] == [40, 10]


def test_labels_that_are_whole_floats():
    """A binary loss in Keras wants 0.0 and 1.0; given as an array such classes are taken."""
    flow = nf.rows((np.arange(N), CLASSES.astype("f4")))
    assert keys(flow.split(0.8, stratify=CLASSES.astype("f4"))[0]) == keys(ROWS.split(0.8, stratify=True)[0])
    assert keys(flow.split(0.8, stratify=True)[0]) == keys(ROWS.split(0.8, stratify=True)[0])


def test_the_label_of_weighted_files(folder):
    flow = nf.files(folder, labels="directory", sample_weight="balanced")
    train, val = flow.split(0.5, stratify=True)
    check((train, val), flow)
    found = Counter(species(key) for key in keys(train))
    assert found == {"cat": 18, "dog": 9, "emu": 3}


def test_a_split_reads_no_payload(tmp_path):
    paths = [write(tmp_path / f"{n:02}.npy", np.arange(5)) for n in range(20)]
    flow = nf.files(tmp_path, labels=np.arange(20) % 2)
    import os

    for path in paths:
        os.unlink(path)
    for options in ({}, {"stratify": True}, {"groups": lambda key: key}, {"by": "time"}, {"by": "random"}):
        assert sum(map(len, flow.split(0.5, **options))) == 20
    assert len(flow.folds(4, stratify=True)) == 4


def test_rows_of_files(tmp_path):
    x = write(tmp_path / "x.npy", np.arange(N))
    y = write(tmp_path / "y.npy", CLASSES)
    for access in ("mmap", "read", "ram"):
        train, _ = nf.rows((x, y), access=access).split(0.8, stratify=True)
        assert keys(train) == keys(ROWS.split(0.8, stratify=True)[0])
        same(np.array(numbers(train)), np.array(keys(train)))
