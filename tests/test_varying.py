"""Examples of different lengths in NumPy: opening, padding, ragged lists, equal lengths, layout."""

from __future__ import annotations

import itertools
import pickle
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npyflow as nf
from helpers import DTYPES, delivered, same, sample, write, write_npz
from npyflow import Pad

LENGTHS = [5, 2, 0, 7, 7, 1, 3]


def examples(lengths=LENGTHS, fixed=(3,), dtype="f4", axis=0):
    """Arrays that differ in length along one axis."""
    return [sample(n, fixed, dtype, seed=at).swapaxes(0, axis) for at, n in enumerate(lengths)]


def store(folder, arrays, form="npy", **how):
    """Keep the arrays as files ``0``, ``1``, … and open them."""
    for at, array in enumerate(arrays):
        if form == "npy":
            write(folder / f"{at}.npy", array, **how)
        else:
            write_npz(folder / f"{at}.npz", compressed=form == "compressed", x=array, other=np.zeros(3))
    return folder


def opened(folder, arrays, form="npy", **options):
    store(folder, arrays, form)
    return nf.files(folder, **({} if form == "npy" else {"members": "x"}), **options)


def up(length, multiple):
    return -(-length // multiple) * multiple


def padded(arrays, value=0, to=None, multiple=1, vary=None):
    """What a batch must be: by plain NumPy."""
    arrays = [np.asarray(array) for array in arrays]
    shape = list(np.max([array.shape for array in arrays], axis=0))
    vary = vary if vary is not None else range(len(shape))
    for at, axis in enumerate(vary):
        wanted = to[at] if isinstance(to, tuple) else to
        shape[axis] = wanted if wanted is not None else up(int(shape[axis]), multiple)
    out = np.full((len(arrays), *shape), value, delivered(arrays[0][...]).dtype)
    for row, array in zip(out, arrays, strict=True):
        cut = tuple(slice(0, min(have, size)) for have, size in zip(array.shape, shape, strict=True))
        row[cut] = delivered(array)[cut]
    return out


def cut_up(things, size):
    return [things[at : at + size] for at in range(0, len(things), size)]


def check_padded(flow, arrays, size=3, pad=0, value=0, **how):
    got = list(flow.batches(size, pad=pad))
    wanted = cut_up(arrays, size)
    assert len(got) == len(wanted)
    for batch, part in zip(got, wanted, strict=True):
        same(batch, padded(part, value, **how))


# Opening


@pytest.mark.parametrize("form", ["npy", "npz", "compressed"])
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("dtype", [*DTYPES, "M8[s]", "m8[ms]", "U3", "S3"])
def test_every_dtype_keeps_its_exact_shape(tmp_path, dtype, order, form):
    arrays = [array.astype(np.dtype(dtype).newbyteorder(order)) for array in examples(dtype=dtype)]
    flow = opened(tmp_path / "x", arrays, form)
    assert flow.spec.shape == (None, 3)
    for got, want in zip(flow, arrays, strict=True):
        same(got, delivered(want))
    value = {"U": "", "S": b""}.get(np.dtype(dtype).kind, 0)
    check_padded(flow, arrays, pad=value, value=value)


@pytest.mark.parametrize("axis", [0, 1])
def test_fortran_order_and_a_mixture_of_orders(tmp_path, axis):
    arrays = examples(axis=axis)
    for at, array in enumerate(arrays):
        write(tmp_path / f"{at}.npy", array.astype(">f4" if at % 3 else "<f4"), fortran=at % 2 == 0)
    flow = nf.files(tmp_path)
    assert flow.spec.shape == ((None, 3) if axis == 0 else (3, None))
    for got, want in zip(flow, arrays, strict=True):
        same(got, want)
    check_padded(flow, arrays, pad=-1.5, value=-1.5)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 3).flatmap(lambda rank: st.lists(st.tuples(*[st.integers(0, 4)] * rank), min_size=1, max_size=7)),
    st.integers(1, 5),
    st.booleans(),
)
def test_any_shapes(shapes, size, fortran):
    arrays = [sample(1, shape, "i2", seed=at)[0] for at, shape in enumerate(shapes)]
    with tempfile.TemporaryDirectory() as folder:
        flow = nf.files(store(Path(folder), arrays, fortran=fortran))
        assert flow.spec.shape == tuple(
            sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*shapes, strict=True)
        )
        for got, want in zip(flow, arrays, strict=True):
            same(got, want)
        check_padded(flow, arrays, size, pad=7, value=7)
        if None in flow.spec.shape:
            lists = [one for batch in flow.batches(size, ragged=True) for one in batch]
            for got, want in zip(lists, arrays, strict=True):
                same(got, want)


def test_one_length_needs_no_option(tmp_path):
    arrays = examples([4] * 5)
    flow = opened(tmp_path / "x", arrays)
    assert flow.spec.shape == (4, 3)
    same(np.concatenate(list(flow.batches(2))), np.stack(arrays))
    same(np.concatenate(list(flow.batches(2, pad=0))), np.stack(arrays))


@pytest.mark.parametrize("form", ["npy", "npz"])
def test_casts(tmp_path, form):
    arrays = [np.arange(n * 3).reshape(n, 3).astype(">i4") for n in LENGTHS]
    flow = opened(tmp_path / "x", arrays, form, dtype="float32")
    check_padded(flow, [array.astype("f4") for array in arrays], pad=0.5, value=0.5)


def test_a_cast_that_does_not_fit_names_the_file(tmp_path):
    arrays = [np.zeros((n, 2)) for n in LENGTHS]
    arrays[3][6, 1] = 1e300
    flow = opened(tmp_path / "x", arrays, dtype="float32")
    with pytest.raises(nf.CastError, match=r"3\.npy"):
        list(flow.batches(3, pad=0))


def test_fields_of_structured_arrays(tmp_path):
    kind = np.dtype([("t", ">f8"), ("xyz", "<f4", (3,)), ("on", "?")])
    arrays = []
    for at, n in enumerate(LENGTHS):
        array = np.zeros(n, kind)
        array["t"], array["xyz"], array["on"] = sample(n, (), "f8", at), sample(n, (3,), "f4", at), at % 2
        arrays.append(array)
    for at, array in enumerate(arrays):
        np.save(tmp_path / f"{at}.npy", array)
    flow = nf.files(tmp_path)
    assert {name: spec.shape for name, spec in flow.spec.items()} == {"t": (None,), "xyz": (None, 3), "on": (None,)}
    for batch, part in zip(flow.batches(3, pad=0), cut_up(arrays, 3), strict=True):
        for name in kind.names:
            same(batch[name], padded([array[name] for array in part]))
    flow = nf.files(tmp_path, fields=("xyz", "t"))
    xyz, t = next(flow.batches(7, pad=(1, -1)))
    same(xyz, padded([array["xyz"] for array in arrays], 1))
    same(t, padded([array["t"] for array in arrays], -1))


def test_labels_go_along(tmp_path):
    arrays = examples()
    flow = opened(tmp_path / "x", arrays, labels=np.arange(7) * 10)
    for epoch in range(2):
        for x, y in flow.batches(3, pad=0, shuffle=True, epoch=epoch):
            same(x, padded([arrays[at] for at in y // 10]))


def test_frame_wise_labels_have_a_value_of_their_own(tmp_path):
    x, y = examples(), examples(fixed=(), dtype="i4")
    flow = nf.files((store(tmp_path / "x", x), store(tmp_path / "y", y)))
    for (a, b), part, labels in zip(flow.batches(3, pad=(0.0, -1)), cut_up(x, 3), cut_up(y, 3), strict=True):
        same(a, padded(part))
        same(b, padded(labels, -1))


def test_ranks_that_differ_are_refused_with_counts_and_files(tmp_path):
    # CASES 18
    for at in range(98):
        np.save(tmp_path / f"{at}.npy", np.zeros((40, 13), "f4"))
    np.save(tmp_path / "98.npy", np.zeros(13, "f4"))
    np.save(tmp_path / "99.npy", np.zeros((1, 40, 13), "f4"))
    with pytest.raises(nf.ShapeMismatchError) as caught:
        nf.files(tmp_path)
    message = str(caught.value)
    for part in ("(40, 13)", "(13,)", "(1, 40, 13)", "98", "98.npy", "99.npy"):
        assert part in message, message


def test_dtypes_that_differ_are_refused(tmp_path):
    write(tmp_path / "a.npy", np.zeros((3, 2), "f4"))
    write(tmp_path / "b.npy", np.zeros((4, 2), "f8"))
    with pytest.raises(nf.ShapeMismatchError, match="float64"):
        nf.files(tmp_path)


def test_without_options_the_error_says_what_there_is_and_what_to_do(tmp_path):
    # CASES 17: one file of another shape
    for at in range(21):
        write(tmp_path / f"take-{at:02}.npy", np.zeros((5 if at == 13 else 4, 3), "f4"))
    flow = nf.files(tmp_path)
    assert flow.spec.shape == (None, 3)
    with pytest.raises(nf.ShapeMismatchError) as caught:
        list(flow.batches(32))
    message = str(caught.value)
    for part in ("(4, 3)", "(5, 3)", "20 of", "take-13", "pad=", "bucket=", "ragged=", "batch size"):
        assert part in message, message


def test_the_error_names_the_component(tmp_path):
    flow = nf.files({"mel": store(tmp_path / "mel", examples()), "id": store(tmp_path / "id", [np.zeros(2)] * 7)})
    with pytest.raises(nf.ShapeMismatchError, match="mel"):
        list(flow.batches(2))


def test_object_arrays_point_to_variable_lengths(tmp_path):
    # CASES 70
    array = np.empty(2, object)
    array[:] = [[1.0, 2.0], [3.0]]
    np.save(tmp_path / "x.npy", array, allow_pickle=True)
    with pytest.raises(nf.NpyflowError, match=r"(?i)object") as caught:
        nf.rows(tmp_path / "x.npy")
    assert "x.npy" in str(caught.value)
    assert "np.save each" in str(caught.value)


# Padding


@pytest.mark.parametrize(
    ("pad", "how"),
    [
        (0.0, {}),
        (Pad(2.5), {"value": 2.5}),
        (Pad(np.nan), {"value": np.nan}),
        (Pad(-np.inf), {"value": -np.inf}),
        (Pad(np.float32(1)), {"value": 1}),
        (Pad(to=9), {"to": 9}),
        (Pad(to=7), {"to": 7}),
        (Pad(1, to=(8,)), {"value": 1, "to": (8,)}),
        (Pad(multiple=4), {"multiple": 4}),
        (Pad(multiple=1), {}),
        (Pad(multiple=100), {"multiple": 100}),
        (Pad(to=3, truncate=True), {"to": 3}),
        (Pad(to=9, truncate=True), {"to": 9}),
    ],
    ids=str,
)
@pytest.mark.parametrize("axis", [0, 1])
def test_every_way_to_pad(tmp_path, pad, how, axis):
    arrays = examples(axis=axis)
    flow = opened(tmp_path / "x", arrays)
    check_padded(flow, arrays, pad=pad, vary=[axis], **how)


def test_one_example_and_all_of_them(tmp_path):
    arrays = examples()
    flow = opened(tmp_path / "x", arrays)
    for size in (1, 7, 100):
        check_padded(flow, arrays, size)


IMAGES = [(4, 2, 6), (1, 2, 3), (3, 2, 0), (2, 2, 8)]


@pytest.mark.parametrize(
    ("pad", "how"),
    [
        (5, {"value": 5}),
        (Pad(to=(5, 9)), {"to": (5, 9)}),
        (Pad(to=8), {"to": (8, 8)}),
        (Pad(multiple=4), {"multiple": 4}),
        (Pad(to=(2, 3), truncate=True), {"to": (2, 3)}),
        (Pad(to=2, truncate=True), {"to": 2}),
    ],
    ids=str,
)
def test_several_axes(tmp_path, pad, how):
    arrays = [sample(1, shape, "u1", at)[0] for at, shape in enumerate(IMAGES)]
    flow = opened(tmp_path / "x", arrays)
    assert flow.spec.shape == (None, 2, None)
    check_padded(flow, arrays, pad=pad, vary=[0, 2], **how)


def test_the_tuple_must_have_an_entry_for_each_axis(tmp_path):
    flow = opened(tmp_path / "x", [np.zeros(shape) for shape in IMAGES])
    for to in ((9,), (9, 9, 9)):
        with pytest.raises(nf.OptionError, match="to="):
            list(flow.batches(2, pad=Pad(to=to)))


def test_too_long_is_an_error_from_the_headers(tmp_path):
    for at, array in enumerate(examples()):
        write(tmp_path / f"take-{at}.npy", array)
    flow = nf.files(tmp_path)
    with pytest.raises(nf.ShapeMismatchError, match="take-0"):
        flow[:3].batches(2, pad=Pad(to=4))
    with pytest.raises(nf.ShapeMismatchError) as caught:
        # The first batch would fit: nothing is read before it is known.
        flow[1:].batches(2, pad=Pad(to=5))
    for part in ("take-3", "take-4", "7", "to=5", "truncate=True"):
        assert part in str(caught.value)
    list(flow[:3].batches(2, pad=Pad(to=5)))


def test_to_bucket_needs_a_bucket(tmp_path):
    flow = opened(tmp_path / "x", examples())
    with pytest.raises(nf.OptionError, match="bucket"):
        list(flow.batches(2, pad=Pad(to="bucket")))


@pytest.mark.parametrize(
    ("dtype", "good", "bad"),
    [
        ("u1", [0, 0.0, 255, np.int64(7)], [True, -1, 0.5, 256, np.nan, 1j, "0", None]),
        ("i8", [-1, -1.0, 2**62], [2**63, 0.5, np.inf]),
        ("?", [0, 1, True, False], [2, -1, 0.5]),
        ("f2", [0, -1, np.nan, np.inf, 0.5], [1e6, "x", 1j]),
        ("f4", [0, np.nan, -np.inf, 1e30], [1e300]),
        ("c8", [0, 1j, np.nan], ["x"]),
    ],
)
def test_the_value_must_fit_the_dtype(tmp_path, dtype, good, bad):
    arrays = examples([2, 1], dtype=dtype)
    flow = opened(tmp_path / "x", arrays)
    for value in good:
        check_padded(flow, arrays, pad=Pad(value), value=value)
        check_padded(flow, arrays, pad=value if not isinstance(value, np.generic) else Pad(value), value=value)
    for value in bad:
        with pytest.raises(nf.OptionError) as caught:
            list(flow.batches(2, pad=Pad(value)))
        assert np.dtype(dtype).name in str(caught.value), caught.value


def test_the_value_must_fit_what_the_cast_gives(tmp_path):
    flow = opened(tmp_path / "x", examples([2, 1], dtype="u1"), dtype="float32")
    assert next(flow.batches(2, pad=-0.5))[1, 1, 0] == -0.5


def test_pads_that_make_no_sense():
    for options in (
        {"to": 0},
        {"to": -1},
        {"to": "max"},
        {"multiple": 0},
        {"mask": 1},
        {"truncate": True},
        {"to": 2.5},
    ):
        with pytest.raises(nf.OptionError):
            Pad(**options)


@pytest.mark.parametrize(
    "wrong", [{"x": 0}, (0, 0, 0), [0], {"mel": {"a": 0}, "y": 0}, {"mel": 0, "z": 0}, "0", object()]
)
def test_pads_nested_in_another_way_are_refused(tmp_path, wrong):
    flow = nf.files({"mel": store(tmp_path / "mel", examples()), "y": store(tmp_path / "y", examples())})
    with pytest.raises(nf.OptionError, match="pad"):
        list(flow.batches(2, pad=wrong))


def test_a_blanket_value_counts_for_what_varies(tmp_path):
    # 0.5 fits no integer, but the integers do not vary.
    x, y = examples(), [np.full((2,), at, "i4") for at in range(7)]
    flow = nf.files({"x": store(tmp_path / "x", x), "y": store(tmp_path / "y", y)}, labels=np.arange(7))
    (batch, label) = next(flow.batches(7, pad=Pad(0.5, to=8, multiple=2, mask=True)))
    same(batch["x"], padded(x, 0.5, to=8, vary=[0]))
    same(batch["y"], np.stack(y))
    assert set(batch) == {"x", "x_mask", "y"}
    same(label, np.arange(7))


def test_a_blanket_value_must_fit_all_that_varies(tmp_path):
    flow = nf.files((store(tmp_path / "x", examples()), store(tmp_path / "y", examples(dtype="i4"))))
    with pytest.raises(nf.OptionError, match=r"\[1\]"):
        list(flow.batches(2, pad=0.5))


def test_a_pad_for_each_component(tmp_path):
    mel, f0, ids = (
        examples(axis=1, fixed=(4,)),
        examples(fixed=(), dtype="f8"),
        examples([1, 2, 3, 1, 2, 3, 1], (), "i8"),
    )
    y = examples(fixed=(), dtype="u1")
    flow = nf.files(
        (
            {
                "mel": store(tmp_path / "mel", mel),
                "more": {"f0": store(tmp_path / "f0", f0), "ids": store(tmp_path / "ids", ids)},
            },
            store(tmp_path / "y", y),
        )
    )
    pad = ({"mel": Pad(-4.0, multiple=4), "more": {"f0": np.nan, "ids": Pad(-1, to=2, truncate=True)}}, 255)
    for at, (inputs, target) in enumerate(flow.batches(3, pad=pad)):
        part = slice(at * 3, at * 3 + 3)
        same(inputs["mel"], padded(mel[part], -4, multiple=4, vary=[1]))
        same(inputs["more"]["f0"], padded(f0[part], np.nan))
        same(inputs["more"]["ids"], padded(ids[part], -1, to=2))
        same(target, padded(y[part], 255))


def test_what_a_nested_pad_leaves_out_must_not_vary(tmp_path):
    flow = nf.files((store(tmp_path / "x", examples()), store(tmp_path / "y", examples())), labels=np.arange(7))
    with pytest.raises(nf.ShapeMismatchError, match=r"\[1\]"):
        list(flow.batches(2, pad=((0, None), None)))


def test_a_nested_pad_with_labels_has_a_place_for_the_label(tmp_path):
    arrays = examples()
    flow = opened(tmp_path / "x", arrays, labels=np.arange(7))
    x, y = next(flow.batches(7, pad=(Pad(1.0, lengths=True), None)))
    same(x["values"], padded(arrays, 1))
    same(x["length"], np.array(LENGTHS))
    same(y, np.arange(7))


def test_shuffled_shards_and_steps_are_the_same_order_as_indices(tmp_path):
    arrays = examples([1, 4, 2, 9, 3, 3, 5, 8, 6, 2, 7])
    flow = opened(tmp_path / "x", arrays)
    options = {"shuffle": True, "seed": 3, "epoch": 2, "shard": (1, 2), "with_index": True, "pad": Pad(0, lengths=True)}
    whole = list(flow.batches(2, **options))
    assert [len(index) for index, _ in whole] == [2, 2, 1]
    for index, batch in whole:
        same(batch["values"], padded([arrays[at] for at in index]))
        same(batch["length"], np.array([len(arrays[at]) for at in index]))
    later = list(flow.batches(2, start_step=1, **options))
    assert [index.tolist() for index, _ in later] == [index.tolist() for index, _ in whole[1:]]
    assert len(list(flow.batches(2, drop_remainder=True, **options))) == 2
    plain = [index.tolist() for index in nf.rows(np.arange(11)).batches(2, shuffle=True, seed=3, epoch=2, shard=(1, 2))]
    assert [index.tolist() for index, _ in whole] == plain


def test_held_padded_batches_are_never_overwritten(tmp_path):
    arrays = examples([1, 4, 2, 9, 3, 3, 5, 8, 6, 2, 7])
    flow = opened(tmp_path / "x", arrays)
    options = {"shuffle": True, "with_index": True, "pad": Pad(3, mask=True, lengths=True)}
    held = [one for epoch in range(4) for one in flow.batches(2, epoch=epoch, **options)]
    for index, batch in held:
        same(batch["values"], padded([arrays[at] for at in index], 3))
        same(batch["length"], np.array([len(arrays[at]) for at in index]))
        same(batch["mask"].sum(1), np.array([len(arrays[at]) for at in index]))
    batch["values"][...] = 0  # theirs to change


# Masks and lengths


@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("lengths", [False, True])
def test_names_in_a_dict(tmp_path, mask, lengths):
    mel, f0 = examples(axis=1), examples(fixed=())
    flow = nf.files({"mel": store(tmp_path / "mel", mel), "f0": store(tmp_path / "f0", f0)})
    batch = next(flow.batches(7, pad={"mel": Pad(mask=mask, lengths=lengths), "f0": 0}))
    assert set(batch) == {"mel", "f0"} | ({"mel_mask"} if mask else set()) | ({"mel_length"} if lengths else set())
    same(batch["mel"], padded(mel))
    same(batch["f0"], padded(f0))
    if mask:
        same(batch["mel_mask"], np.arange(7) < np.array(LENGTHS)[:, None])
    if lengths:
        same(batch["mel_length"], np.array(LENGTHS))


def test_a_blanket_pad_gives_each_its_own(tmp_path):
    flow = nf.files(
        {"a": {"mel": store(tmp_path / "mel", examples())}, "f0": store(tmp_path / "f0", examples([1] * 6 + [2], ()))}
    )
    batch = next(flow.batches(7, pad=Pad(mask=True, lengths=True)))
    assert set(batch) == {"a", "f0", "f0_mask", "f0_length"}
    assert set(batch["a"]) == {"mel", "mel_mask", "mel_length"}
    assert batch["f0_length"].tolist() == [1, 1, 1, 1, 1, 1, 2]


@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("lengths", [False, True])
@pytest.mark.parametrize("place", ["alone", "pair"])
def test_names_outside_a_dict(tmp_path, mask, lengths, place):
    arrays = examples()
    flow = opened(tmp_path / "x", arrays, **({"labels": np.arange(7)} if place == "pair" else {}))
    batch = next(flow.batches(7, pad=Pad(mask=mask, lengths=lengths)))
    batch = batch if place == "alone" else batch[0]
    if not mask and not lengths:
        same(batch, padded(arrays))
        return
    assert set(batch) == {"values"} | ({"mask"} if mask else set()) | ({"length"} if lengths else set())
    same(batch["values"], padded(arrays))


@pytest.mark.parametrize("pad", [Pad(mask=True, lengths=True), Pad(mask=True, lengths=True, to=(9, 12))], ids=str)
def test_masks_of_several_axes(tmp_path, pad):
    arrays = [sample(1, shape, "u1", at)[0] for at, shape in enumerate(IMAGES)]
    batch = next(opened(tmp_path / "x", arrays).batches(4, pad=pad))
    full = padded(arrays, to=pad.to, vary=[0, 2])
    ones = padded([np.ones(shape, bool)[:, 0] for shape in IMAGES], to=pad.to)
    same(batch["values"], full)
    same(batch["mask"], ones)
    same(batch["length"], np.array([(a, c) for a, _, c in IMAGES]))


def test_truncated_examples_are_as_long_as_what_is_left(tmp_path):
    arrays = examples()
    flow = opened(tmp_path / "x", arrays)
    batch = next(flow.batches(7, pad=Pad(to=3, truncate=True, mask=True, lengths=True)))
    left = np.minimum(LENGTHS, 3)
    same(batch["length"], left)
    same(batch["mask"], np.arange(3) < left[:, None])
    same(batch["values"], padded(arrays, to=3, vary=[0]))


def test_padding_to_a_multiple_does_not_lengthen_the_mask(tmp_path):
    batch = next(opened(tmp_path / "x", examples()).batches(7, pad=Pad(multiple=16, mask=True, lengths=True)))
    assert batch["values"].shape == (7, 16, 3)
    same(batch["mask"], np.arange(16) < np.array(LENGTHS)[:, None])
    same(batch["length"], np.array(LENGTHS))


def test_a_name_that_is_taken_is_refused(tmp_path):
    flow = nf.files({"x": store(tmp_path / "x", examples()), "x_mask": store(tmp_path / "m", examples())})
    with pytest.raises(nf.OptionError, match="x_mask"):
        list(flow.batches(2, pad=Pad(mask=True)))
    list(flow.batches(2, pad=0))


# Ragged


def test_ragged_is_a_list_of_exact_arrays(tmp_path):
    x, y = examples(axis=1), [np.full(2, at) for at in range(7)]
    flow = nf.files({"x": store(tmp_path / "x", x), "y": store(tmp_path / "y", y)}, labels=np.arange(7))
    for at, (batch, labels) in enumerate(flow.batches(3, ragged=True)):
        part = slice(at * 3, at * 3 + 3)
        assert isinstance(batch["x"], list)
        for got, want in zip(batch["x"], x[part], strict=True):
            same(got, want)
        same(batch["y"], np.stack(y[part]))
        same(labels, np.arange(7)[part])


def test_ragged_lists_are_never_overwritten(tmp_path):
    arrays = examples()
    flow = opened(tmp_path / "x", arrays)
    held = [
        one for epoch in range(3) for one in flow.batches(2, ragged=True, shuffle=True, epoch=epoch, with_index=True)
    ]
    for index, batch in held:
        for at, got in zip(index, batch, strict=True):
            same(got, arrays[at])


def test_ragged_and_pad_exclude_each_other(tmp_path):
    flow = opened(tmp_path / "x", examples())
    with pytest.raises(nf.OptionError, match="ragged"):
        list(flow.batches(2, ragged=True, pad=0))


# same_length and trim


def speech(folder, mel, f0, mel_axis=0):
    """Two components with these lengths."""
    m = examples(mel, (4,), axis=mel_axis)
    f = examples(f0, (), "f8")
    return m, f, {"mel": store(folder / "mel", m), "f0": store(folder / "f0", f)}


def test_equal_lengths_pass(tmp_path):
    m, f, data = speech(tmp_path, [5, 2, 7], [5, 2, 7])
    for got, mel, f0 in zip(nf.files(data, same_length=("mel", "f0")), m, f, strict=True):
        same(got["mel"], mel)
        same(got["f0"], f0)


@pytest.mark.parametrize("axis", [0, 1])
def test_other_lengths_are_refused_with_keys_and_both(tmp_path, axis):
    _, _, data = speech(tmp_path, [5, 20, 31, 8], [5, 22, 30, 8], axis)
    with pytest.raises(nf.ShapeMismatchError) as caught:
        nf.files(data, same_length=("mel", "f0"))
    message = str(caught.value)
    for part in ("mel", "f0", "20", "22", "31", "30", "trim"):
        assert part in message, message
    with pytest.raises(nf.ShapeMismatchError) as caught:
        nf.files(data, same_length=("mel", "f0"), trim=1)
    assert "22" in str(caught.value)
    assert "31" not in str(caught.value)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("form", ["files", "loaded", "pickled"])
def test_trim_cuts_the_end_of_the_longer(tmp_path, axis, form):
    m, f, data = speech(tmp_path, [5, 20, 31, 8], [5, 22, 30, 8], axis)
    flow = nf.files(data, same_length=("mel", "f0"), trim=2)
    if form == "loaded":
        flow.save(tmp_path / "manifest")
        flow = nf.load(tmp_path / "manifest")
    elif form == "pickled":
        flow = pickle.loads(pickle.dumps(flow))
    lengths = [5, 20, 30, 8]
    m = [mel.swapaxes(0, axis)[:n].swapaxes(0, axis) for mel, n in zip(m, lengths, strict=True)]
    f = [f0[:n] for f0, n in zip(f, lengths, strict=True)]
    for got, mel, f0 in zip(flow, m, f, strict=True):
        same(got["mel"], mel)
        same(got["f0"], f0)
    batch = next(flow.batches(4, pad=Pad(lengths=True)))
    same(batch["mel"], padded(m))
    same(batch["f0"], padded(f))
    assert batch["mel_length"].tolist() == batch["f0_length"].tolist() == lengths


def test_trim_may_leave_one_length(tmp_path):
    m, f, data = speech(tmp_path, [4, 5, 4], [5, 4, 4])
    flow = nf.files(data, same_length=("mel", "f0"), trim=1)
    assert flow.spec["mel"].shape == (4, 4)
    assert flow.spec["f0"].shape == (4,)
    batch = next(flow.batches(3))
    same(batch["mel"], np.stack([mel[:4] for mel in m]))
    same(batch["f0"], np.stack([f0[:4] for f0 in f]))


def test_a_dict_names_the_axes(tmp_path):
    # Both axes of mel differ: which one is time has to be said.
    mel = [np.zeros((2, 9)), np.ones((3, 7)), np.ones((4, 8))]
    f0 = [np.zeros(9), np.zeros(7), np.zeros(7)]
    data = {"mel": store(tmp_path / "mel", mel), "f0": store(tmp_path / "f0", f0)}
    with pytest.raises(nf.ShapeMismatchError):
        nf.files(data, same_length={"mel": 1, "f0": 0})
    flow = nf.files(data, same_length={"mel": 1, "f0": 0}, trim=1)
    assert [one["mel"].shape for one in flow] == [(2, 9), (3, 7), (4, 7)]
    flow = nf.files(data, same_length={"mel": -1, "f0": -1}, trim=1)
    assert [one["mel"].shape for one in flow] == [(2, 9), (3, 7), (4, 7)]
    with pytest.raises(nf.OptionError, match="mel"):
        nf.files(data, same_length=("mel", "f0"), trim=1)


def test_names_that_are_none(tmp_path):
    _, _, data = speech(tmp_path, [5, 2], [5, 2])
    for wrong in (("mel", "energy"), {"mel": 0, "energy": 0}, {"mel": 5, "f0": 0}, "mel", ("mel",)):
        with pytest.raises(nf.OptionError):
            nf.files(data, same_length=wrong)
    with pytest.raises(nf.OptionError, match="trim"):
        nf.files(data, same_length=("mel", "f0"), trim=-1)
    with pytest.raises(nf.OptionError, match="trim"):
        nf.files(data, trim=1)


def test_same_length_in_a_tuple(tmp_path):
    m, f, data = speech(tmp_path, [5, 3, 4], [5, 2, 4])
    flow = nf.files((data["mel"], data["f0"]), same_length=("[0]", "[1]"), trim=1)
    for (mel, f0), want, other in zip(flow, m, f, strict=True):
        same(mel, want[: len(other)])
        same(f0, other)


def test_three_components_and_one_that_is_left_alone(tmp_path):
    _, _, data = speech(tmp_path, [5, 3, 4], [5, 2, 4])
    data["e"] = store(tmp_path / "e", examples([6, 3, 4], ()))
    data["text"] = store(tmp_path / "text", examples([9, 1, 2], (), "i8"))
    flow = nf.files(data, same_length=("mel", "f0", "e"), trim=1)
    assert [[len(one[name]) for name in ("mel", "f0", "e", "text")] for one in flow] == [
        [5, 5, 5, 9],
        [2, 2, 2, 1],
        [4, 4, 4, 2],
    ]


@pytest.mark.parametrize("form", ["npz", "compressed"])
def test_trim_in_members_casts_and_fortran_order(tmp_path, form):
    mel, f0 = examples([5, 3, 4], (4,), "i2", axis=1), examples([5, 2, 4], (), "i2")
    for at, (m, f) in enumerate(zip(mel, f0, strict=True)):
        write_npz(tmp_path / f"{at}.npz", form == "compressed", mel=np.asfortranarray(m.astype(">i2")), f0=f)
    members = {"mel": "mel", "f0": "f0"}
    flow = nf.files(tmp_path, members=members, same_length=("mel", "f0"), trim=1, dtype="float32")
    for got, m, f in zip(flow, mel, f0, strict=True):
        same(got["mel"], m[:, : len(f)].astype("f4"))
        same(got["f0"], f.astype("f4"))


# Ragged rows


COUNTS = np.array([3, 0, 5, 1, 1, 0, 4])
OFFSETS = np.concatenate([[0], np.cumsum(COUNTS)])
VALUES = sample(14, (2,), "f4")
PARTS = [VALUES[a:b] for a, b in itertools.pairwise(OFFSETS)]


def check_ragged(flow, parts=PARTS):
    assert len(flow) == len(parts)
    assert flow.spec.shape[0] is None
    for got, want in zip(flow, parts, strict=True):
        same(got, want)
    check_padded(flow, parts, pad=-1, value=-1)
    for batch in flow.batches(3, shuffle=True, ragged=True, with_index=True):
        for at, got in zip(*batch, strict=True):
            same(got, parts[at])


@pytest.mark.parametrize("how", ["counts", "offsets"])
@pytest.mark.parametrize("access", ["ram", "mmap", "read", "auto"])
@pytest.mark.parametrize("kind", ["<i8", ">i4", "u1", "u8"])
def test_counts_and_offsets_in_files(tmp_path, how, access, kind):
    numbers = write(tmp_path / "n.npy", (COUNTS if how == "counts" else OFFSETS).astype(kind))
    values = write(tmp_path / "v.npy", VALUES.astype(">f4"))
    check_ragged(nf.rows(nf.Ragged(values, **{how: numbers}), access=access))


def test_counts_and_offsets_in_arrays():
    check_ragged(nf.rows(nf.Ragged(VALUES, counts=COUNTS)))
    check_ragged(nf.rows(nf.Ragged(VALUES, offsets=OFFSETS)))
    check_ragged(nf.rows(nf.Ragged(VALUES, counts=COUNTS.tolist())))


@pytest.mark.parametrize("compressed", [False, True])
def test_members_of_an_npz(tmp_path, compressed):
    path = write_npz(tmp_path / "a.npz", compressed, R=VALUES, N=COUNTS, O=OFFSETS)
    check_ragged(nf.rows(nf.Ragged(nf.npz(path)["R"], counts=nf.npz(path)["N"])))
    check_ragged(nf.rows(nf.Ragged(nf.npz(path)["R"], offsets=nf.npz(path)["O"])))


@pytest.mark.parametrize("access", ["ram", "mmap", "read"])
def test_examples_across_shards(tmp_path, access):
    # Cuts inside examples, at their edges, and an empty shard.
    cuts = [0, 2, 2, 3, 7, 14]
    paths = [
        write(tmp_path / f"v{at}.npy", VALUES[a:b], fortran=at % 2 == 1)
        for at, (a, b) in enumerate(itertools.pairwise(cuts))
    ]
    check_ragged(nf.rows(nf.Ragged(paths, counts=COUNTS), access=access))
    check_ragged(nf.rows(nf.Ragged(str(tmp_path / "v*.npy"), offsets=OFFSETS), access=access))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=9), st.integers(1, 5), st.booleans())
def test_any_counts(counts, size, by_offsets):
    values = sample(sum(counts), (2,), "i4")
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(int)
    parts = [values[a:b] for a, b in itertools.pairwise(offsets)]
    flow = nf.rows(nf.Ragged(values, **({"offsets": offsets} if by_offsets else {"counts": np.array(counts)})))
    got = [one for batch in flow.batches(size, ragged=True) for one in batch]
    for one, want in zip(got, parts, strict=True):
        same(one, want)
    check_padded(flow, parts, size, pad=9, value=9)


def test_ragged_beside_plain_rows_of_the_same_examples():
    y = np.arange(7) * 10
    flow = nf.rows(
        ({"R": nf.Ragged(VALUES, counts=COUNTS), "Z": nf.Ragged(np.arange(14), counts=COUNTS), "N": COUNTS}, y)
    )
    assert len(flow) == 7
    inputs, labels = next(flow.batches(7, pad=Pad(-1, lengths=True)))
    same(inputs["R"], padded(PARTS, -1))
    same(inputs["Z"], padded([np.arange(14)[a:b] for a, b in itertools.pairwise(OFFSETS)], -1))
    same(inputs["N"], COUNTS)
    same(inputs["R_length"], COUNTS)
    same(labels, y)


def test_ragged_casts_fields_and_shapes(tmp_path):
    check_ragged(nf.rows(nf.Ragged(VALUES, counts=COUNTS), dtype="float64"), [part.astype("f8") for part in PARTS])
    kind = np.dtype([("a", "f4"), ("b", "i2", (2,))])
    table = np.zeros(14, kind)
    table["a"], table["b"] = np.arange(14), sample(14, (2,), "i2")
    np.save(tmp_path / "t.npy", table)
    flow = nf.rows(nf.Ragged(tmp_path / "t.npy", counts=COUNTS), fields="b")
    check_ragged(flow, [table["b"][a:b] for a, b in itertools.pairwise(OFFSETS)])


@pytest.mark.parametrize(
    ("how", "numbers"),
    [
        ("counts", [3, 0, 5]),
        ("counts", [3, 12]),
        ("counts", [15, -1]),
        ("counts", [7.0, 7.0]),
        ("counts", [[14]]),
        ("offsets", [0, 5, 15]),
        ("offsets", [0, 5, 3, 14]),
        ("offsets", [-1, 14]),
        ("offsets", [0.0, 14.0]),
        ("offsets", []),
    ],
)
def test_counts_and_offsets_that_do_not_fit_are_refused(how, numbers):
    with pytest.raises((nf.ShapeMismatchError, nf.OptionError), match=how):
        nf.rows(nf.Ragged(VALUES, **{how: np.array(numbers)}))


def test_a_ragged_of_another_count_than_the_labels_is_refused():
    with pytest.raises(nf.ShapeMismatchError) as caught:
        nf.rows((nf.Ragged(VALUES, counts=COUNTS), np.arange(8)))
    assert "7" in str(caught.value)
    assert "8" in str(caught.value)


def test_exactly_one_of_counts_and_offsets():
    for wrong in ({}, {"counts": COUNTS, "offsets": OFFSETS}):
        with pytest.raises(nf.OptionError, match="counts"):
            nf.Ragged(VALUES, **wrong)


# Layout


TRANSPOSES = [
    ("channels_last", (1, 2, 0)),
    ("channels_first", (2, 0, 1)),
    ((0, 2, 1), (0, 2, 1)),
    ((2, 1, 0), (2, 1, 0)),
    ((0, 1, 2), (0, 1, 2)),
    ([1, 0, 2], (1, 0, 2)),
    ((-1, 0, 1), (2, 0, 1)),
]


@pytest.mark.parametrize(("transpose", "axes"), TRANSPOSES, ids=str)
@pytest.mark.parametrize("access", ["ram", "mmap", "read", "array"])
@pytest.mark.parametrize("fortran", [False, True])
def test_transposed_rows(tmp_path, transpose, axes, access, fortran):
    array = sample(11, (2, 3, 4), "i2")
    path = write(tmp_path / "x.npy", array.astype(">i2"), fortran=fortran)
    given_array = np.asfortranarray(array) if fortran else array
    transpose = tuple(transpose) if isinstance(transpose, list) else transpose
    flow = (
        nf.rows(given_array, transpose=transpose)
        if access == "array"
        else nf.rows(path, access=access, transpose=transpose)
    )
    want = array.transpose(0, *(axis + 1 for axis in axes))
    assert flow.spec.shape == want.shape[1:]
    same(np.stack(list(flow)), want)
    for index, batch in flow.batches(4, shuffle=True, with_index=True):
        assert batch.flags.c_contiguous
        same(batch, want[index])


@pytest.mark.parametrize(("transpose", "axes"), TRANSPOSES[:3], ids=str)
@pytest.mark.parametrize("axis", [1, -1])
def test_transposed_rows_along_another_axis(tmp_path, transpose, axes, axis):
    array = sample(11, (2, 3, 4), "i2")
    path = write(tmp_path / "x.npy", np.moveaxis(array, 0, axis))
    flow = nf.rows(path, axis=axis, transpose=transpose, dtype="f4")
    same(np.concatenate(list(flow.batches(4))), array.transpose(0, *(one + 1 for one in axes)).astype("f4"))


@pytest.mark.parametrize(("transpose", "axes"), TRANSPOSES[:4], ids=str)
@pytest.mark.parametrize("form", ["npy", "npz", "compressed"])
@pytest.mark.parametrize("varying", [False, True])
def test_transposed_files(tmp_path, transpose, axes, form, varying):
    shapes = [(2, 5, 4), (2, 1, 4), (2, 7, 4)] if varying else [(2, 3, 4)] * 3
    arrays = [sample(1, shape, "f4", at)[0] for at, shape in enumerate(shapes)]
    kept = [np.asfortranarray(array.astype(">f4")) if at == 1 else array for at, array in enumerate(arrays)]
    for at, array in enumerate(kept):
        folder = tmp_path / "x"
        if form == "npy":
            write(folder / f"{at}.npy", array, fortran=at == 1)
        else:
            write_npz(folder / f"{at}.npz", form == "compressed", x=array)
    flow = nf.files(tmp_path / "x", transpose=transpose, **({} if form == "npy" else {"members": "x"}))
    wanted = [array.transpose(axes) for array in arrays]
    if varying:
        assert flow.spec.shape == tuple(None if at == 1 else shapes[0][at] for at in axes)
    for got, want in zip(flow, wanted, strict=True):
        same(got, want)
    check_padded(flow, wanted, pad=1, value=1)


def test_time_last_becomes_time_first(tmp_path):
    # CASES 100: mel (80, T)
    arrays = examples([10, 200, 37], (80,), axis=1)
    flow = opened(tmp_path / "x", arrays, transpose=(1, 0))
    assert flow.spec.shape == (None, 80)
    batch = next(flow.batches(3, pad=Pad(mask=True)))
    same(batch["values"], padded([array.T for array in arrays]))
    assert batch["mask"].sum(1).tolist() == [10, 200, 37]


def test_transpose_of_some_components(tmp_path):
    image, vector = sample(5, (3, 4, 2), "u1"), sample(5, (7,), "f4")
    data = {"image": write(tmp_path / "i.npy", image), "vector": write(tmp_path / "v.npy", vector)}
    flow = nf.rows((data, np.arange(5)), transpose=({"image": "channels_last", "vector": None}, None))
    inputs, _ = next(flow.batches(5))
    same(inputs["image"], np.moveaxis(image, 1, -1))
    same(inputs["vector"], vector)
    folders = {
        "image": store(tmp_path / "image", list(image)),
        "vector": store(tmp_path / "vector", list(vector)),
    }
    flow = nf.files(folders, transpose={"image": "channels_last"}, labels=np.arange(5))
    inputs, _ = next(flow.batches(5))
    same(inputs["image"], np.moveaxis(image, 1, -1))
    same(inputs["vector"], vector)


@pytest.mark.parametrize("wrong", ["channels", (0, 1), (0, 1, 1), (0, 1, 3), (0, 1, 2, 3), 1, (0.0, 1, 2)])
def test_transposes_that_are_none_are_refused(tmp_path, wrong):
    with pytest.raises(nf.OptionError, match="transpose"):
        nf.rows(np.zeros((5, 2, 3, 4)), transpose=wrong)
    with pytest.raises(nf.OptionError, match="transpose"):
        opened(tmp_path / "x", [np.zeros((2, 3, 4))] * 2, transpose=wrong)


def test_transpose_with_same_length_and_trim(tmp_path):
    m, f, data = speech(tmp_path, [5, 3, 4], [5, 2, 4], 1)
    flow = nf.files(data, same_length=("mel", "f0"), trim=1, transpose={"mel": (1, 0), "f0": None})
    for got, mel, f0 in zip(flow, m, f, strict=True):
        same(got["mel"], mel[:, : len(f0)].T)
        same(got["f0"], f0)


def test_transpose_of_ragged_rows():
    parts = [part.T for part in PARTS]
    flow = nf.rows(nf.Ragged(VALUES, counts=COUNTS), transpose=(1, 0))
    assert flow.spec.shape == (2, None)
    for got, want in zip(flow, parts, strict=True):
        same(got, want)
    check_padded(flow, parts)


def test_examples_along_axis_1():
    # CASES 106: time first
    movies, labels = sample(20, (100, 8, 8), "u1"), np.arange(100)
    with pytest.raises(nf.ShapeMismatchError, match="axis") as caught:
        nf.rows((movies, labels))
    assert "100" in str(caught.value)
    flow = nf.rows((movies, labels), axis=(1, 0))
    assert len(flow) == 100
    x, y = next(flow.batches(9, shuffle=True))
    same(x, movies[:, y].swapaxes(0, 1))


# What becomes of such flows


def forms(flow, folder):
    flow.save(folder / "manifest")
    return {
        "loaded": nf.load(folder / "manifest"),
        "pickled": pickle.loads(pickle.dumps(flow)),
        "sliced": flow[:],
        "reversed": flow[::-1][::-1],
    }


@pytest.mark.parametrize("form", ["loaded", "pickled", "sliced", "reversed"])
@pytest.mark.parametrize("kind", ["files", "npz", "structured", "ragged", "transposed"])
def test_flows_survive(tmp_path, kind, form):
    arrays = examples(axis=1)
    if kind == "ragged":
        values = write(tmp_path / "v.npy", np.concatenate(arrays, 1).T)
        counts = write(tmp_path / "c.npy", np.array(LENGTHS))
        flow, arrays = nf.rows(nf.Ragged(values, counts=counts)), [array.T for array in arrays]
    elif kind == "structured":
        (tmp_path / "x").mkdir()
        for at, array in enumerate(arrays):
            table = np.zeros(array.shape, [("a", "f4"), ("b", "i2")])
            table["a"] = array
            np.save(tmp_path / "x" / f"{at}.npy", table)
        flow = nf.files(tmp_path / "x", fields="a")
    elif kind == "transposed":
        flow, arrays = opened(tmp_path / "x", arrays, transpose="channels_last"), [array.T for array in arrays]
    else:
        flow = opened(tmp_path / "x", arrays, "npy" if kind == "files" else "npz")
    again = forms(flow, tmp_path)[form]
    assert again.spec == flow.spec
    for got, want in zip(again, arrays, strict=True):
        same(got, want)
    check_padded(again, arrays, pad=Pad(1, multiple=2), value=1, multiple=2, vary=[flow.spec.shape.index(None)])
    with pytest.raises(nf.ShapeMismatchError):
        list(again.batches(2))


def test_parts_of_a_split_are_padded_alone(tmp_path):
    arrays = [np.full((n, 2), n, "i4") for n in range(1, 41)]
    flow = opened(tmp_path / "x", arrays, labels=lambda key: int(key) + 1)
    parts = flow.split(0.6, 0.2)
    assert sum(map(len, parts)) == 40
    seen = []
    for part in parts:
        for x, y in part.batches(8, shuffle=True, pad=-1):
            same(x, padded([arrays[n - 1] for n in y], -1))
            seen += y.tolist()
    assert sorted(seen) == list(range(1, 41))


def test_a_part_of_one_length_has_batches(tmp_path):
    arrays = examples([3, 3, 3, 5])
    part = opened(tmp_path / "x", arrays)[:3]
    same(next(part.batches(3, pad=0)), np.stack(arrays[:3]))


def test_a_file_that_changes_its_length_is_noticed(tmp_path):
    flow = opened(tmp_path / "x", examples())
    write(tmp_path / "x" / "1.npy", sample(30, (3,)))
    with pytest.raises(nf.FileChangedError, match=r"1\.npy"):
        list(flow.batches(3, pad=0))


def test_describe_tells_the_lengths(tmp_path):
    text = opened(tmp_path / "x", examples()).describe()
    assert "None" in text or "?" in text or "0" in text


def test_the_share_of_padding_is_what_batches_have(tmp_path):
    arrays = examples()
    flow = opened(tmp_path / "x", arrays)
    for options in ({}, {"shuffle": True, "seed": 4}, {"drop_remainder": True}, {"shard": (1, 2)}):
        for pad in (0, Pad(to=9), Pad(multiple=4), Pad(to=3, truncate=True)):
            data = total = 0
            for batch in flow.batches(
                3,
                pad=Pad(**{k: getattr(pad, k) for k in ("to", "multiple", "truncate")}, lengths=True)
                if isinstance(pad, Pad)
                else Pad(lengths=True),
                **options,
            ):
                total += batch["values"].size
                data += int(batch["length"].sum()) * 3
            assert flow.padding(3, pad=pad, **options) == pytest.approx(1 - data / total), (pad, options)
