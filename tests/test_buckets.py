"""Batches of examples of similar length: every example once, little padding, as many batches as promised."""

from __future__ import annotations

import collections
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npyflow as nf
from helpers import same, sample, write
from npyflow import Bucket, Pad

# Small data has buckets of fewer examples than a batch.
pytestmark = pytest.mark.filterwarnings("ignore:drop_remainder=True:npyflow.NpyflowWarning")

LENGTHS = np.array([3, 9, 1, 4, 4, 20, 7, 0, 12, 5, 2, 30, 4, 8, 9, 1, 6, 17, 3, 10, 11, 4, 2])
EDGES = [4, 9, 16]


def flow_of(lengths, fixed=(), **more):
    """Examples of these lengths; each is filled with its index plus one."""
    lengths = np.asarray(lengths)
    values = np.repeat(np.arange(1, len(lengths) + 1), lengths)
    values = np.broadcast_to(values.reshape(-1, *[1] * len(fixed)), (len(values), *fixed)).copy()
    x = nf.Ragged(values, counts=lengths)
    return nf.rows({"x": x, **more} if more else x)


def batches(flow, size, bucket, **options):
    """Indices of each batch."""
    return [index.tolist() for index, _ in flow.batches(size, bucket=bucket, with_index=True, **{"pad": 0, **options})]


def differing(lengths):
    return lengths.filter(lambda found: len(set(found)) > 1)


def bucket_of(length, edges=EDGES):
    return int(np.searchsorted(edges, length))


def steps_of(lengths, size, edges=EDGES, drop=False):
    counts = collections.Counter(bucket_of(n, edges) for n in lengths)
    return sum(n // size if drop else -(-n // size) for n in counts.values())


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("size", [1, 3, 50])
def test_every_example_once_and_batches_from_one_bucket(shuffle, size):
    flow = flow_of(LENGTHS)
    for epoch in range(3):
        got = batches(flow, size, Bucket(EDGES), shuffle=shuffle, epoch=epoch)
        assert sorted(itertools.chain(*got)) == list(range(len(LENGTHS)))
        assert all(len({bucket_of(LENGTHS[at]) for at in batch}) == 1 for batch in got)
        assert len(got) == steps_of(LENGTHS, size)
        assert all(len(batch) <= size for batch in got)


def test_values_belong_to_the_index():
    flow = flow_of(LENGTHS, (2,))
    for index, batch in flow.batches(4, bucket=Bucket(EDGES), pad=Pad(lengths=True), shuffle=True, with_index=True):
        longest = LENGTHS[index].max()
        want = np.where(np.arange(longest) < LENGTHS[index][:, None], index[:, None] + 1, 0)
        same(batch["values"], np.repeat(want[..., None], 2, -1))
        same(batch["length"], LENGTHS[index])


@settings(max_examples=80, deadline=None)
@given(
    differing(st.lists(st.integers(0, 40), min_size=2, max_size=60)),
    st.lists(st.integers(0, 45), min_size=1, max_size=5, unique=True).map(sorted),
    st.integers(1, 9),
    st.booleans(),
    st.booleans(),
    st.integers(0, 5),
)
def test_any_lengths(lengths, edges, size, shuffle, drop, epoch):
    flow = flow_of(lengths)
    got = batches(flow, size, Bucket(edges), shuffle=shuffle, drop_remainder=drop, epoch=epoch, seed=epoch)
    seen = sorted(itertools.chain(*got))
    assert len(got) == steps_of(lengths, size, edges, drop)
    assert all(len({bucket_of(lengths[at], edges) for at in batch}) == 1 for batch in got)
    assert len(set(seen)) == len(seen)
    if drop:
        assert all(len(batch) == size for batch in got)
    else:
        assert seen == list(range(len(lengths)))
    # One short batch a bucket at most.
    short = collections.Counter(bucket_of(lengths[batch[0]], edges) for batch in got if len(batch) < size)
    assert all(count == 1 for count in short.values())


@settings(max_examples=50, deadline=None)
@given(
    differing(st.lists(st.integers(1, 30), min_size=2, max_size=50)),
    st.integers(1, 8),
    st.integers(1, 7),
    st.booleans(),
)
def test_any_count_of_buckets(lengths, count, size, shuffle):
    flow = flow_of(lengths)
    got = batches(flow, size, Bucket(count=count), shuffle=shuffle)
    assert sorted(itertools.chain(*got)) == list(range(len(lengths)))
    edges = {
        batch.shape[1]
        for batch in flow.batches(size, bucket=Bucket(count=count), pad=Pad(to="bucket"), shuffle=shuffle)
    }
    assert len(edges) <= count
    # Buckets are stretches of lengths, and none has an edge that no example needs.
    assert edges <= set(lengths)
    assert max(lengths) in edges


def test_boundaries_are_inclusive():
    flow = flow_of([3, 4, 5, 9, 10])
    got = batches(flow, 10, Bucket([4, 9]))
    assert sorted(map(sorted, got)) == [[0, 1], [2, 3], [4]]


def test_a_bucket_beyond_the_last_boundary():
    flow = flow_of([3, 50, 60])
    got = batches(flow, 10, Bucket([4]))
    assert sorted(map(sorted, got)) == [[0], [1, 2]]
    shapes = sorted(batch.shape for batch in flow.batches(10, bucket=Bucket([4]), pad=Pad(to="bucket")))
    assert shapes == [(1, 4), (2, 60)]


def test_an_empty_bucket_makes_no_batch():
    assert len(batches(flow_of([3, 50]), 10, Bucket([4, 10, 20, 30, 60, 100]))) == 2


def test_padded_to_the_edge_of_the_bucket():
    flow = flow_of(LENGTHS)
    for index, batch in flow.batches(4, bucket=Bucket(EDGES), pad=Pad(to="bucket"), shuffle=True, with_index=True):
        edge = [*EDGES, 30][bucket_of(LENGTHS[index[0]])]
        assert batch.shape == (len(index), edge)
        want = np.where(np.arange(edge) < LENGTHS[index][:, None], index[:, None] + 1, 0)
        same(batch, want)


def test_each_epoch_is_another_order_of_as_many_batches():
    flow = flow_of(LENGTHS)
    epochs = [batches(flow, 4, Bucket(EDGES), shuffle=True, epoch=epoch) for epoch in range(6)]
    assert {len(epoch) for epoch in epochs} == {steps_of(LENGTHS, 4)}
    assert len({str(epoch) for epoch in epochs}) == 6
    # What is in a batch changes too, and so does the sequence of buckets.
    assert len({str(sorted(map(sorted, epoch))) for epoch in epochs}) > 1
    assert len({str([bucket_of(LENGTHS[batch[0]]) for batch in epoch]) for epoch in epochs}) > 1


def test_the_order_is_a_function_of_seed_and_epoch():
    once = batches(flow_of(LENGTHS), 4, Bucket(EDGES), shuffle=True, seed=5, epoch=3)
    assert once == batches(flow_of(LENGTHS), 4, Bucket(EDGES), shuffle=True, seed=5, epoch=3)
    assert once != batches(flow_of(LENGTHS), 4, Bucket(EDGES), shuffle=True, seed=6, epoch=3)


def test_without_shuffle_every_epoch_is_the_same_and_ascending():
    flow = flow_of(LENGTHS)
    first = batches(flow, 4, Bucket(EDGES))
    assert first == batches(flow, 4, Bucket(EDGES), epoch=7)
    for bucket in range(4):
        members = [at for batch in first for at in batch if bucket_of(LENGTHS[at]) == bucket]
        assert members == sorted(members)


def test_short_batches_are_not_always_last():
    flow = flow_of([1] * 9 + [9] * 9)
    places = set()
    for epoch in range(12):
        got = batches(flow, 4, Bucket([5]), shuffle=True, epoch=epoch)
        places |= {at for at, batch in enumerate(got) if len(batch) < 4}
    assert len(places) > 2


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_later_start_is_the_rest(shuffle):
    flow = flow_of(LENGTHS)
    options = {"shuffle": shuffle, "seed": 2, "epoch": 1}
    whole = batches(flow, 4, Bucket(EDGES), **options)
    for step in range(len(whole) + 1):
        assert batches(flow, 4, Bucket(EDGES), start_step=step, **options) == whole[step:]


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("drop", [False, True])
def test_a_shard_takes_every_nth_batch(count, drop):
    flow = flow_of(LENGTHS)
    options = {"shuffle": True, "epoch": 2, "drop_remainder": drop}
    whole = batches(flow, 4, Bucket(EDGES), **options)
    shards = [batches(flow, 4, Bucket(EDGES), shard=(at, count), **options) for at in range(count)]
    assert shards == [whole[at::count] for at in range(count)]


@pytest.mark.filterwarnings("default")
def test_what_never_comes_is_worth_a_warning():
    flow = flow_of([1] * 30 + [100] * 5)
    with pytest.warns(nf.NpyflowWarning, match=r"5 examples never come.*up to length 100") as caught:
        flow.batches(8, bucket=Bucket([10, 100]), pad=0, drop_remainder=True)
    assert caught[0].filename == __file__


def test_drop_remainder_drops_the_short_batch_of_each_bucket():
    flow = flow_of([1] * 9 + [9] * 7)
    for epoch in range(3):
        got = batches(flow, 4, Bucket([5]), shuffle=True, drop_remainder=True, epoch=epoch)
        assert sorted(flow_length for batch in got for flow_length in {at >= 9 for at in batch}) == [False, False, True]
        assert all(len(batch) == 4 for batch in got)


# Few elements


def test_max_elements_makes_batches_of_long_examples_smaller():
    lengths = [4] * 20 + [10] * 20 + [40] * 5 + [100] * 3
    flow = flow_of(lengths, (2,))
    bucket = Bucket([4, 10, 40], max_elements=80)
    got = batches(flow, 8, bucket, shuffle=True)
    sizes = {4: 8, 10: 4, 40: 1, 100: 1}
    for batch in got:
        assert len(batch) <= sizes[lengths[batch[0]]]
    assert len(got) == 3 + 5 + 5 + 3
    assert sorted(itertools.chain(*got)) == list(range(48))
    dropped = batches(flow, 8, bucket, shuffle=True, drop_remainder=True)
    assert len(dropped) == 2 + 5 + 5 + 3
    assert all(len(batch) == sizes[lengths[batch[0]]] for batch in dropped)


@settings(max_examples=40, deadline=None)
@given(differing(st.lists(st.integers(1, 30), min_size=2, max_size=40)), st.integers(1, 200), st.integers(1, 9))
def test_padded_batches_keep_to_max_elements(lengths, most, size):
    flow = flow_of(lengths, (3,))
    bucket = Bucket(count=3, max_elements=most)
    got = list(flow.batches(size, bucket=bucket, pad=Pad(to="bucket"), shuffle=True))
    assert sum(map(len, got)) == len(lengths)
    for batch in got:
        assert batch.size <= most or len(batch) == 1
        assert len(batch) <= max(1, min(size, most // (batch.shape[1] * 3)))


# Which length


@pytest.fixture
def speech(tmp_path):
    """Mel and text of lengths that have nothing to do with each other."""
    mel, text = LENGTHS + 1, (LENGTHS * 7) % 11 + 1
    for at, (m, t) in enumerate(zip(mel, text, strict=True)):
        write(tmp_path / "mel" / f"{at:02}.npy", sample(m, (4,)).T)
        write(tmp_path / "text" / f"{at:02}.npy", np.arange(t))
    return nf.files({"mel": tmp_path / "mel", "text": tmp_path / "text"}), mel, text


def test_the_first_that_varies_counts(speech):
    flow, mel, _ = speech
    got = batches(flow, 4, Bucket(EDGES))
    assert all(len({bucket_of(mel[at]) for at in batch}) == 1 for batch in got)
    assert got == batches(flow, 4, Bucket(EDGES, by="mel"))


def test_another_component_counts(speech):
    flow, _, text = speech
    got = batches(flow, 4, Bucket(EDGES, by="text"), shuffle=True)
    assert all(len({bucket_of(text[at]) for at in batch}) == 1 for batch in got)
    assert sorted(itertools.chain(*got)) == list(range(len(text)))


def test_only_the_component_that_counts_has_an_edge(speech):
    flow, mel, text = speech
    for index, batch in flow.batches(
        4, bucket=Bucket(EDGES, by="text"), pad={"mel": 0, "text": Pad(-1, to="bucket")}, with_index=True
    ):
        assert batch["text"].shape[1] == EDGES[bucket_of(text[index[0]])]
        assert batch["mel"].shape[2] == mel[index].max()


def test_names_of_components():
    pair = nf.rows((np.arange(3), nf.Ragged(np.arange(6), counts=[1, 2, 3])))
    assert batches(pair, 5, Bucket([1], by="[1]")) == batches(pair, 5, Bucket([1]))
    lone = flow_of([1, 2, 3])
    assert batches(lone, 5, Bucket([1], by="")) == batches(lone, 5, Bucket([1]))


def test_a_name_that_is_none_lists_those_there_are(speech):
    flow, _, _ = speech
    with pytest.raises(nf.OptionError) as caught:
        batches(flow, 4, Bucket(EDGES, by="energy"))
    for part in ("energy", "mel", "text"):
        assert part in str(caught.value)


def test_several_axes_count_by_their_product(tmp_path):
    shapes = [(2, 6), (3, 4), (6, 2), (5, 5), (1, 13), (13, 1)]
    for at, shape in enumerate(shapes):
        write(tmp_path / f"{at}.npy", np.zeros((*shape, 3), "u1"))
    got = batches(nf.files(tmp_path), 10, Bucket([12]))
    assert sorted(map(sorted, got)) == [[0, 1, 2], [3, 4, 5]]


def test_nothing_varies():
    flow = nf.rows(np.zeros((10, 3)))
    with pytest.raises(nf.OptionError, match="bucket"):
        list(flow.batches(4, bucket=Bucket([4])))


def test_a_component_that_does_not_vary_cannot_count():
    flow = nf.rows({"y": np.zeros((3, 2)), "x": nf.Ragged(np.arange(6), counts=[1, 2, 3])})
    try:
        got = batches(flow, 2, Bucket([4], by="y"))
    except nf.OptionError as error:
        assert "y" in str(error)  # noqa: PT017
    else:
        assert sorted(itertools.chain(*got)) == [0, 1, 2]


# Options that make no sense


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"boundaries": [1], "count": 2},
        {"boundaries": []},
        {"boundaries": [4, 4]},
        {"boundaries": [9, 4]},
        {"boundaries": [-1, 4]},
        {"boundaries": [1.5]},
        {"boundaries": 4},
        {"boundaries": "49"},
        {"count": 0},
        {"count": 2.0},
        {"count": True},
        {"count": 2, "max_elements": 0},
    ],
)
def test_buckets_that_make_no_sense(options):
    with pytest.raises(nf.OptionError, match="Bucket"):
        Bucket(**options)


def test_boundaries_may_be_an_array():
    assert batches(flow_of(LENGTHS), 4, Bucket(np.array(EDGES))) == batches(flow_of(LENGTHS), 4, Bucket(EDGES))


@pytest.mark.parametrize("wrong", [4, [4, 9], "bucket", True])
def test_what_is_no_bucket_is_refused(wrong):
    with pytest.raises(nf.OptionError, match="bucket"):
        list(flow_of(LENGTHS).batches(4, bucket=wrong, pad=0))


def test_buckets_alone_do_not_make_one_shape():
    with pytest.raises(nf.ShapeMismatchError, match="pad="):
        list(flow_of(LENGTHS).batches(4, bucket=Bucket(EDGES)))


def test_buckets_of_one_length_each_need_no_pad_when_padded_anyway():
    flow = flow_of([1, 2, 1, 2, 3])
    shapes = sorted(batch.shape for batch in flow.batches(2, bucket=Bucket([1, 2]), pad=0))
    assert shapes == [(1, 3), (2, 1), (2, 2)]
    assert flow.padding(2, pad=0, bucket=Bucket([1, 2])) == 0


def test_buckets_with_ragged_batches():
    flow = flow_of(LENGTHS)
    seen = []
    for index, batch in flow.batches(4, bucket=Bucket(EDGES), ragged=True, shuffle=True, with_index=True):
        assert len({bucket_of(LENGTHS[at]) for at in index}) == 1
        for at, one in zip(index, batch, strict=True):
            same(one, np.full(LENGTHS[at], at + 1))
        seen += index.tolist()
    assert sorted(seen) == list(range(len(LENGTHS)))


def test_buckets_and_sampling_exclude_each_other():
    with pytest.raises(nf.OptionError, match=r"bucket.*sample|sample.*bucket"):
        list(flow_of(LENGTHS).batches(4, bucket=Bucket(EDGES), pad=0, sample=np.ones(len(LENGTHS))))


def test_truncating_to_the_bucket_changes_nothing():
    flow = flow_of(LENGTHS)
    plain = list(flow.batches(4, bucket=Bucket(EDGES), pad=Pad(to="bucket")))
    for got, want in zip(
        flow.batches(4, bucket=Bucket(EDGES), pad=Pad(to="bucket", truncate=True)), plain, strict=True
    ):
        same(got, want)


# Padding


def counted(flow, size, pad, **options):
    """The share of padding in real batches of a lone component."""
    data = total = 0
    for index, batch in flow.batches(size, pad=pad, with_index=True, **options):
        total += batch.size
        data += np.count_nonzero(batch)
        assert len(index) == len(batch)
    return 1 - data / total


@pytest.mark.parametrize("pad", [0, Pad(to="bucket"), Pad(multiple=8), Pad(to=32), Pad(to=12, truncate=True)], ids=str)
@pytest.mark.parametrize(
    "bucket", [Bucket(EDGES), Bucket(count=3), Bucket(EDGES, max_elements=64), Bucket(count=1)], ids=str
)
@pytest.mark.parametrize("options", [{}, {"drop_remainder": True}, {"shard": (1, 2)}, {"shuffle": True}], ids=str)
def test_padding_is_the_share_in_real_batches(pad, bucket, options):
    flow = flow_of(LENGTHS, (2,))
    want = counted(flow, 4, pad, bucket=bucket, **options)
    assert flow.padding(4, pad=pad, bucket=bucket, **options) == pytest.approx(want)


def test_padding_of_flows_that_do_not_vary():
    assert nf.rows(np.zeros((10, 3))).padding(4) == 0
    assert nf.rows(np.zeros((0, 3))).padding(4, pad=0) == 0


def test_padding_without_pad_is_that_of_the_longest_of_the_batch():
    assert (
        flow_of(LENGTHS).padding(4)
        == flow_of(LENGTHS).padding(4, pad=0)
        == pytest.approx(counted(flow_of(LENGTHS), 4, 0))
    )


def test_what_does_not_vary_does_not_count():
    flow = flow_of(LENGTHS, image=np.zeros((len(LENGTHS), 100)))
    assert flow.padding(4, pad=0) == flow_of(LENGTHS).padding(4, pad=0)


def test_blocks_and_buckets_exclude_each_other():
    with pytest.raises(nf.OptionError, match="block="):
        batches(flow_of(LENGTHS), 4, Bucket(EDGES), shuffle=nf.Shuffle(block=4))


def test_ragged_batches_have_no_padding():
    assert flow_of(LENGTHS).padding(4, ragged=True) == 0


def log_normal():
    return np.clip(np.random.default_rng(0).lognormal(5, 0.4, 1000), 1, None).astype(int)


def test_few_shapes_and_little_padding():
    # CASES 101
    lengths = log_normal()
    flow = flow_of(lengths)
    how = {"bucket": Bucket(count=6), "pad": Pad(to="bucket"), "shuffle": True, "drop_remainder": True}
    shapes = {batch.shape for batch in flow.batches(16, **how)}
    assert len(shapes) <= 6
    assert flow.padding(16, **how) < 0.15
    assert flow.padding(16, pad=Pad(to=int(lengths.max()))) > 0.4
    assert flow.padding(16, pad=0, shuffle=True) > 0.3
    assert counted(flow, 16, how.pop("pad"), **how) < 0.15


def test_max_elements_counts_what_is_padded(tmp_path):
    for at in range(8):
        np.save(tmp_path / f"{at}.npy", np.ones([(1, 100), (100, 1)][at % 2]))
    flow = nf.files(tmp_path)
    assert max(batch.size for batch in flow.batches(8, pad=0, bucket=Bucket([100], max_elements=20_000))) <= 20_000
    how = {"pad": Pad(0, multiple=64), "bucket": Bucket([10], max_elements=130)}
    assert max(batch.size for batch in flow_of(range(2, 10)).batches(8, **how)) <= 130
    with pytest.raises(nf.OptionError, match=r"max_elements=\) after map"):
        flow.map(lambda x, rng: x).batches(8, pad=0, bucket=Bucket([100], max_elements=20))


@settings(max_examples=30, deadline=None)
@given(differing(st.lists(st.integers(1, 25), min_size=2, max_size=25)), st.integers(1, 4))
def test_no_other_edges_need_less_padding(lengths, count):
    flow = flow_of(lengths)
    # Batches of one show the edges alone.
    got = sum(batch.size for batch in flow.batches(1, bucket=Bucket(count=count), pad=Pad(to="bucket")))
    distinct = sorted(set(lengths))
    inner = min(count, len(distinct)) - 1
    best = min(
        sum(edges[bucket_of(n, edges)] for n in lengths)
        for chosen in itertools.combinations(distinct[:-1], inner)
        for edges in [[*chosen, distinct[-1]]]
    )
    assert got == best


def test_many_lengths_are_cut_quickly():
    lengths = np.random.default_rng(1).integers(1, 100_000, 20_000)
    flow = nf.rows(nf.Ragged(np.zeros(int(lengths.sum()), "?"), counts=lengths))
    assert flow.padding(16, bucket=Bucket(count=10), pad=Pad(to="bucket")) < 0.12


# Parts of such flows


def test_a_part_has_buckets_of_its_own():
    part = flow_of(LENGTHS)[np.arange(3, 15)]
    got = batches(part, 3, Bucket(EDGES), shuffle=True)
    assert sorted(itertools.chain(*got)) == list(range(12))
    assert all(len({bucket_of(LENGTHS[3:15][at]) for at in batch}) == 1 for batch in got)
    assert len(got) == steps_of(LENGTHS[3:15], 3)
    for index, batch in part.batches(3, bucket=Bucket(count=2), pad=0, with_index=True):
        same(batch.max(1), np.where(LENGTHS[3:15][index] > 0, index + 4, 0))


def test_saved_and_loaded_flows_have_the_same_batches(tmp_path, speech):
    flow, _, _ = speech
    flow.save(tmp_path / "manifest")
    again = nf.load(tmp_path / "manifest")
    options = {"shuffle": True, "seed": 3}
    assert batches(again, 4, Bucket(count=3), **options) == batches(flow, 4, Bucket(count=3), **options)


def test_nothing_is_read_to_plan(speech, tmp_path):
    flow, _, _ = speech
    for path in (tmp_path / "mel").iterdir():
        path.unlink()
    assert 0 < flow.padding(4, bucket=Bucket(count=3), pad=0) < 1
