"""Every dtype that NumPy stores, through every way to read it: what NumPy makes of the same array is what must come."""

from __future__ import annotations

import io
import pickle
import tempfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import npyflow as nf
from helpers import DTYPES, header, magic, npy_bytes, saved, write

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
N = 11
# Which names of fields in any script need.
VERSION = (3, 0)
UNITS = ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", "25s", "7D"]
DATES = [f"{kind}8[{unit}]" for kind in "Mm" for unit in UNITS] + ["M8", "m8"]
TEXTS = ["U1", "U7", "S1", "S7"]
SMALL = {
    "bfloat16": 2,
    "float8_e4m3b11fnuz": 1,
    "float8_e4m3fn": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2": 1,
    "float8_e5m2fnuz": 1,
}
FORMS = ["auto", "mmap", "read", "ram", "array", "shards", "files", "npz", "npz compressed"]


# What the tests share


def random_bits(dtype: Any, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Values of any bit pattern that the dtype has; texts of letters from all of Unicode."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.names:
        out = np.zeros(shape, dtype)
        for at, name in enumerate(dtype.names):
            out[name] = random_bits(dtype[name].base, (*shape, *dtype[name].shape), seed + at + 1)
        return out
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind == "U":
        letters = np.array([0, 32, 65, 0xE9, 0x6570, 0xFFFD, 0x1F600, 0x10FFFF], "u4")
        points = letters[rng.integers(0, len(letters), (*shape, dtype.itemsize // 4))]
        return points.view(f"U{dtype.itemsize // 4}").reshape(shape).astype(dtype)
    if dtype.kind == "g" or dtype.name.startswith(("longdouble", "float128", "clongdouble", "complex256")):
        return rng.standard_normal(shape).astype(dtype)
    count = int(np.prod(shape, dtype=np.int64))
    return np.frombuffer(rng.bytes(count * dtype.itemsize), dtype).reshape(shape).copy()


def opened(folder: Path, array: np.ndarray, form: str, fortran: bool = False, **options: Any) -> nf.Flow:
    """A flow of the rows of `array`, kept in the way that `form` says."""
    if form == "array":
        return nf.rows(np.asfortranarray(array) if fortran else array, **options)
    if form == "files":
        for at in range(len(array)):
            # Not array[at], which forgets how wide a text may be.
            one = array[at : at + 1].reshape(array.shape[1:])
            write(folder / "files" / f"{at}.npy", one, fortran=fortran, version=VERSION)
        return nf.files(folder / "files", **options)
    if form == "shards":
        cuts = [0, 4, 4, len(array)]
        paths = [
            write(folder / f"s{at}.npy", array[cuts[at] : cuts[at + 1]], fortran=fortran != (at == 2), version=VERSION)
            for at in range(3)
        ]
        return nf.rows(paths, **options)
    if form.startswith("npz"):
        save = np.savez_compressed if form.endswith("compressed") else np.savez
        save(folder / "x.npz", x=np.asfortranarray(array) if fortran else array, other=np.arange(3))
        return nf.rows(nf.npz(folder / "x.npz")["x"], **options)
    return nf.rows(write(folder / "x.npy", array, fortran=fortran, version=VERSION), access=form, **options)


def tree_map(fn: Any, *trees: Any) -> Any:
    first = trees[0]
    if isinstance(first, dict):
        assert all(list(tree) == list(first) for tree in trees)
        return {key: tree_map(fn, *(tree[key] for tree in trees)) for key in first}
    if isinstance(first, tuple):
        return tuple(tree_map(fn, *parts) for parts in zip(*trees, strict=True))
    return fn(*trees)


def whole(flow: nf.Flow, batch: int = 4) -> Any:
    """All examples, from batches; single ones must be the same."""
    got = tree_map(lambda *parts: np.concatenate(parts), *flow.batches(batch))
    for at in {0, len(flow) // 2, len(flow) - 1}:
        tree_map(lambda all_of, one, at=at: bitwise(np.asarray(one), all_of[at]), got, flow[at])
    return got


def delivered(array: np.ndarray) -> np.ndarray:
    """What NumPy users of npyflow get: native byte order, C order, dates as the integers that they are."""
    array = np.ascontiguousarray(array).reshape(array.shape)
    if array.dtype.kind in "Mm":
        # Not as dates: NumPy 2.4 does not swap those without a unit.
        array = array.view(f"{array.dtype.byteorder}i8")
    return array.astype(array.dtype.newbyteorder("="))


def bitwise(got: Any, want: Any) -> None:
    got, want = np.asarray(got), np.asarray(want)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    assert got.dtype.isnative
    assert got.tobytes() == want.tobytes()


def fields_of(array: np.ndarray) -> Any:
    """NumPy's fields as nested dicts."""
    if array.dtype.names is None:
        return delivered(array)
    return {name: fields_of(array[name]) for name in array.dtype.names}


def with_order(dtype: Any, order: str) -> np.dtype:
    return np.dtype(dtype).newbyteorder(order)


# Numbers, dates, texts


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("order", ["<", ">"])
def test_every_dtype_comes_bit_by_bit(tmp_path, form, order):
    for at, dtype in enumerate([*DTYPES, "M8[s]", "m8[25s]", "M8", "m8", *TEXTS]):
        array = random_bits(with_order(dtype, order), (N, 3), at)
        folder = tmp_path / str(at)
        folder.mkdir()
        generic = dtype in ("M8", "m8")
        flow = opened(folder, array, form, fortran=at % 2 == 1 and not generic)
        bitwise(whole(flow), delivered(array))
        unit = np.dtype(dtype).name if dtype[0] in "Mm" else None
        want = delivered(array)
        assert flow.spec == nf.ArraySpec((3,), want.dtype, unit)
        flow.close()


@pytest.mark.parametrize("dtype", [">M8", ">m8"])
@pytest.mark.parametrize("form", FORMS)
def test_big_endian_dates_without_a_unit_in_fortran_order(tmp_path, form, dtype):
    """NumPy's own copies of them swap the bytes."""
    array = random_bits(dtype, (N, 3))
    bitwise(whole(opened(tmp_path, array, form, fortran=True)), delivered(array))


@st.composite
def stored(draw: Any) -> tuple[np.ndarray, dict[str, Any]]:
    dtype = with_order(draw(st.sampled_from([*DTYPES, "M8[s]", "m8[3ns]", "U3", "S5"])), draw(st.sampled_from("<>")))
    shape = tuple(draw(st.lists(st.sampled_from([0, 1, 2, 3, 5]), min_size=1, max_size=4)))
    how = {
        "fortran": draw(st.booleans()),
        "version": draw(st.sampled_from([(1, 0), (2, 0), (3, 0)])),
        "align": draw(st.sampled_from([1, 2, 3, 16, 64])),
    }
    return random_bits(dtype, shape, draw(st.integers(0, 99))), how


@QUICK
@given(case=stored(), data=st.data())
def test_rows_of_any_shape_along_any_axis_in_any_order(case, data):
    array, how = case
    axis = data.draw(st.integers(-array.ndim, array.ndim - 1))
    access = data.draw(st.sampled_from(["auto", "mmap", "read", "ram"]))
    want = delivered(np.moveaxis(array, axis, 0))
    with tempfile.TemporaryDirectory() as folder:
        flow = nf.rows(write(Path(folder, "x.npy"), array, **how), axis=axis, access=access)
        assert len(flow) == len(want)
        assert flow.spec.shape == want.shape[1:]
        if len(want):
            bitwise(whole(flow), want)
            picked = np.random.default_rng(0).integers(0, len(want), 6)
            bitwise(whole(flow[picked]), want[picked])
        else:
            assert not list(flow.batches(3))


@QUICK
@given(case=stored(), data=st.data())
def test_files_of_any_shape_in_any_order(case, data):
    array, how = case
    assume(len(array))
    with tempfile.TemporaryDirectory() as folder:
        for at, one in enumerate(array):
            mine = data.draw(st.sampled_from([how, {}, {"fortran": True}, {"align": 1}]))
            order = data.draw(st.sampled_from("<>"))
            write(Path(folder, f"{at}.npy"), np.asarray(one).astype(with_order(array.dtype, order)), **mine)
        bitwise(whole(nf.files(folder)), delivered(array))


@pytest.mark.parametrize("dtype", [*DTYPES, "M8[s]", "U3", "S2"])
def test_a_scalar_file_is_an_example_and_no_rows(tmp_path, dtype):
    values = random_bits(dtype, (4,))
    for at in range(4):
        write(tmp_path / f"{at}.npy", values[at])
    flow = nf.files(tmp_path)
    assert flow.spec.shape == ()
    bitwise(whole(flow), delivered(values))
    with pytest.raises(nf.NpyflowError) as caught:
        nf.rows(tmp_path / "0.npy")
    assert "0.npy" in str(caught.value)


@pytest.mark.parametrize("dtype", ["f4", ">i2", "M8[s]", "U3", "S2", [("a", "<f4"), ("b", ">i2", (2,))]])
@pytest.mark.parametrize("form", ["auto", "mmap", "read", "ram", "array", "npz", "npz compressed"])
def test_no_rows_at_all(tmp_path, dtype, form):
    flow = opened(tmp_path, np.zeros((0, 3), dtype), form)
    assert len(flow) == 0
    assert list(flow.batches(4)) == []
    with pytest.raises(nf.IndexRangeError):
        flow[0]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", ["f4", ">c8", "U3", "S2", "M8[s]", [("a", ">f4"), ("b", "U2", (2,))]])
def test_rows_with_an_empty_axis(tmp_path, dtype, form):
    array = np.zeros((N, 0, 3), dtype)
    flow = opened(tmp_path, array, form)
    got = whole(flow)
    tree_map(bitwise, got, fields_of(array))


@pytest.mark.parametrize("form", [form for form in FORMS if form != "array"])
@pytest.mark.parametrize("kind", "US")
def test_texts_without_room(tmp_path, kind, form):
    flow = opened(tmp_path, np.zeros((N, 2), f"{kind}0"), form)
    got = whole(flow)
    assert got.dtype.kind == kind
    assert got.tolist() == np.zeros((N, 2), f"{kind}1").tolist()


# Fortran order


@pytest.mark.parametrize("access", ["auto", "mmap", "read"])
def test_strided_rows_state_their_cost_and_the_way_out(tmp_path, access):
    array = np.arange(24 * 5 * 2, dtype="f4").reshape(24, 5, 2)
    whole_rows = nf.rows(write(tmp_path / "c.npy", array), access=access).describe()
    assert "piece" not in whole_rows
    for flow in (
        nf.rows(write(tmp_path / "f.npy", array, fortran=True), access=access),
        nf.rows(write(tmp_path / "axis.npy", np.moveaxis(array, 0, -1)), axis=-1, access=access),
    ):
        text = flow.describe()
        assert "10 pieces" in text, text
        assert "C order" in text
        bitwise(whole(flow), array)


def test_a_vector_or_one_example_in_fortran_order_costs_nothing(tmp_path):
    for name, array in {"vector": np.arange(7.0), "last": np.arange(14.0).reshape(7, 2)}.items():
        axis = array.ndim - 1
        flow = nf.rows(write(tmp_path / f"{name}.npy", array, fortran=True), axis=axis, access="read")
        assert "piece" not in flow.describe()
        bitwise(whole(flow), np.moveaxis(array, axis, 0))


# Small floats


def every(name: str) -> np.ndarray:
    """Every value of a small float, two a row."""
    bits = np.arange(2 ** (8 * SMALL[name]), dtype=f"u{SMALL[name]}")
    return bits.view(np.dtype(getattr(ml_dtypes, name))).reshape(-1, 2)


@pytest.mark.parametrize("form", FORMS)
def test_small_floats_are_a_view_of_the_bits(tmp_path, form):
    for name in SMALL:
        values = every(name)
        values = values[:64] if form == "files" else values
        # What np.save makes of it: void, or f1.
        bare = np.load(io.BytesIO(saved(values))) if name == "bfloat16" else values.view("V1")
        (tmp_path / name).mkdir()
        for mine in (bare, values) if form == "array" else (bare,):
            flow = opened(tmp_path / name, mine, form, dtype=name)
            assert flow.spec == nf.ArraySpec((2,), values.dtype)
            bitwise(whole(flow, 5000), values)
            flow.close()


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("fortran", [False, True])
def test_small_floats_as_np_save_writes_them(tmp_path, name, fortran):
    values = every(name)[:100]
    path = tmp_path / "x.npy"
    path.write_bytes(saved(np.asfortranarray(values) if fortran else values))
    for named in (name, getattr(ml_dtypes, name), values.dtype):
        for access in ("mmap", "read", "ram"):
            bitwise(whole(nf.rows(path, dtype=named, access=access)), values)
    np.savez(tmp_path / "x.npz", x=values)
    np.savez_compressed(tmp_path / "y.npz", x=values)
    for archive in ("x.npz", "y.npz"):
        bitwise(whole(nf.rows(nf.npz(tmp_path / archive)["x"], dtype=name)), values)


@pytest.mark.parametrize("descr", ["<f1", ">f1", "|f1", "<V1", "|V1", "<V2", ">V2"])
def test_bytes_without_a_name_are_never_guessed(tmp_path, descr):
    size = int(descr[-1])
    path = tmp_path / "x.npy"
    path.write_bytes(header(descr, False, (6,)) + bytes(range(6 * size)))
    for open_ in (nf.rows, nf.files):
        with pytest.raises(nf.UnsupportedDtypeError) as caught:
            open_(str(path)) if open_ is nf.rows else open_([str(path)])
        text = str(caught.value)
        assert "x.npy" in text
        for name in ("bfloat16",) if size == 2 else ("float8_e4m3fn", "float8_e5m2"):
            assert name in text
    name = "bfloat16" if size == 2 else "float8_e5m2"
    want = np.arange(6 * size, dtype="u1").view(getattr(ml_dtypes, name))
    bitwise(whole(nf.rows(path, dtype=name)), want)
    wrong = "float8_e5m2" if size == 2 else "bfloat16"
    with pytest.raises(nf.UnsupportedDtypeError):
        nf.rows(path, dtype=wrong)
    with pytest.raises(nf.UnsupportedDtypeError):
        nf.rows(path, dtype="float64")


@pytest.mark.parametrize("size", [0, 3, 5, 7, 16, 100])
def test_other_bytes_are_refused_under_every_name(tmp_path, size):
    path = write(tmp_path / "x.npy", np.zeros(4, f"V{size}"))
    for dtype in (None, "bfloat16", "float8_e5m2", "float32", "uint8"):
        with pytest.raises(nf.UnsupportedDtypeError, match=r"x\.npy"):
            nf.rows(path, dtype=dtype)


@pytest.mark.parametrize("stored_as", ["u2", "i2", "f2", "f4", "f8"])
def test_numbers_that_have_a_meaning_are_cast_and_not_viewed(tmp_path, stored_as):
    values = np.array([0, 1, 2, 96, 128]).astype(stored_as)
    flow = nf.rows(write(tmp_path / "x.npy", values), dtype="bfloat16")
    assert whole(flow).astype("f8").tolist() == [0, 1, 2, 96, 128]


def fits(value: Any, target: np.dtype) -> Any:
    """What a cast must give, or None if it must fail: exact for integers, rounded for floats, never to infinity."""
    kind = "f" if target.name in SMALL else target.kind
    with np.errstate(all="ignore"):
        if isinstance(value, int):
            if kind == "b":
                return bool(value) if value in (0, 1) else None
            if kind in "iu":
                info = np.iinfo(target)
                return value if info.min <= value <= info.max else None
            if value.bit_length() > 1024:
                return None
            cast = np.asarray(float(value)).astype(target)
            real = complex(cast.astype("c16")).real
            return cast if float(value) == value and np.isfinite(real) and int(real) == value else None
        if kind == "b":
            return bool(value) if value in (0.0, 1.0) else None
        if kind in "iu":
            if not np.isfinite(value) or value != int(value):
                return None
            return fits(int(value), target)
        cast = np.asarray(value).astype(target)
        real = complex(cast.astype("c16")).real
        if np.isfinite(value):
            return cast if np.isfinite(real) else None
        if np.isnan(value):
            return cast if np.isnan(real) else None
        return cast if real == value else None


NUMBERS = [*DTYPES[:12], *SMALL]


def named(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name)) if name in SMALL else np.dtype(name)


# NumPy says np.can_cast(a, b, "safe") of these, although the second ends earlier.
WRONGLY_SAFE = [
    ("float8_e4m3fn", "float8_e4m3b11fnuz"),
    ("float8_e4m3fn", "float8_e4m3fnuz"),
    ("float8_e4m3fnuz", "float8_e4m3b11fnuz"),
    ("float8_e5m2fnuz", "float8_e4m3b11fnuz"),
    ("float8_e5m2fnuz", "float8_e4m3fn"),
    ("float8_e5m2fnuz", "float8_e4m3fnuz"),
]


@pytest.mark.parametrize("source", NUMBERS)
def test_casts_from_and_to_small_floats_are_checked(source):
    for target in NUMBERS if source in SMALL else SMALL:
        if (source, target) not in WRONGLY_SAFE:
            check_casts(source, target)


@pytest.mark.parametrize(("source", "target"), WRONGLY_SAFE)
def test_casts_that_numpy_takes_for_safe(source, target):
    check_casts(source, target)


def check_casts(source, target):
    """Compare the cast of many numbers, one by one, with what must come."""
    have, want = named(source), named(target)
    numbers = [0, 1, 2, 3, 7, 16, 17, 100, 127, 128, 240, 241, 248, 255, 256, 257, 448, 449, 480, 500, 32768, 57344]
    numbers += [
        60000,
        65504,
        65535,
        2**24,
        2**24 + 1,
        2**31,
        2**53,
        2**63 - 1,
        2**63,
        2**64 - 1,
        -1,
        -16,
        -128,
        -(2**63),
    ]
    floats = [0.5, 0.1, 1e-3, 1e-8, 464.0, 3.38e38, 3.4e38, 1e39, 1e300, -449.5, np.inf, -np.inf, np.nan, -0.0, 0.3]
    if have.kind in "iub":
        info = (0, 1) if have.kind == "b" else (np.iinfo(have).min, np.iinfo(have).max)
        values = np.array([number for number in numbers if info[0] <= number <= info[1]], have)
    else:
        with np.errstate(all="ignore"):
            values = np.array([*map(float, numbers), *floats]).astype(have)
    flow = nf.rows(values, dtype=target)
    for at in range(len(values)):
        one = values[at : at + 1]
        value: Any = int(one[0]) if have.kind in "iub" else float(one[0].astype("f8"))
        expected = fits(value, want)
        if expected is None:
            with pytest.raises(nf.CastError):
                flow[at]
            continue
        try:
            got = flow[at]
        except nf.CastError as error:
            raise AssertionError(f"{one} to {target}: expected {expected}") from error
        assert got.dtype == want
        np.testing.assert_array_equal(
            np.asarray(got).astype("f8"), np.asarray(expected).astype("f8"), err_msg=f"{value}"
        )


@pytest.mark.parametrize("form", [form for form in FORMS if form != "array"])
@pytest.mark.parametrize(("target", "bad"), [("bfloat16", 3.4e38), ("float8_e4m3fn", -500.0), ("float8_e5m2", 1e5)])
def test_what_does_not_fit_a_small_float_is_named(tmp_path, form, target, bad):
    array = np.ones((N, 3), ">f8")
    array[8, 2] = bad
    flow = opened(tmp_path, array, form, dtype=target)
    with pytest.raises(nf.CastError) as caught:
        list(flow.batches(4))
    error = caught.value
    assert error.index == 8
    assert error.path is not None
    assert Path(error.path).is_file()
    assert Path(error.path).name in str(error)
    assert "(2,)" in str(error)
    assert target in str(error)
    assert error.member == ("x" if form.startswith("npz") else None)
    bitwise(whole(flow[:8]), array[:8].astype(named(target)))


# Structured arrays


LEAVES = [*DTYPES, "M8[ms]", "m8[s]", "U3", "S4"]


@st.composite
def structured(draw: Any, depth: int = 2) -> np.dtype:
    parts: list[Any] = []
    names = draw(
        st.lists(st.sampled_from(["a", "b", "x y", "é", "long_name", "Z"]), min_size=1, max_size=4, unique=True)
    )
    for name in names:
        if depth and draw(st.integers(0, 3)) == 0:
            inner: Any = draw(structured(depth=depth - 1))
        else:
            inner = with_order(draw(st.sampled_from(LEAVES)), draw(st.sampled_from("<>")))
        shape = draw(st.sampled_from([(), (), (), (1,), (2,), (2, 3), (0,)]))
        parts.append((name, inner, shape) if shape else (name, inner))
    return np.dtype(parts, align=draw(st.booleans()))


@QUICK
@given(
    dtype=structured(), fortran=st.booleans(), form=st.sampled_from(FORMS), shape=st.sampled_from([(), (3,), (2, 1)])
)
def test_structured_arrays_come_as_dicts(dtype, fortran, form, shape):
    array = random_bits(dtype, (N, *shape))
    with tempfile.TemporaryDirectory() as folder:
        flow = opened(Path(folder), array, form, fortran)
        want = fields_of(array)
        tree_map(bitwise, whole(flow), want)
        assert tree_map(lambda spec: (spec.shape, spec.dtype), flow.spec) == tree_map(
            lambda field: (field.shape[1:], field.dtype), want
        )
        flow.close()


RECORD = np.dtype(
    [
        ("id", ">i8"),
        ("x", "<f4", (2, 3)),
        ("name", "<U5"),
        ("outer", [("inner", ">f8"), ("when", "<M8[s]"), ("deep", [("est", "u1", (2,))], (3,))]),
    ],
    align=True,
)


@pytest.mark.parametrize("form", FORMS)
def test_fields_that_are_chosen(tmp_path, form):
    array = random_bits(RECORD, (N,))
    want = fields_of(array)
    flow = opened(tmp_path, array, form, fields="x")
    assert flow.spec == nf.ArraySpec((2, 3), np.dtype("f4"))
    bitwise(whole(flow), want["x"])
    choices: list[tuple[Any, Any]] = [
        (("x", "id"), (want["x"], want["id"])),
        ({"a": "x", "b": ("id", "name")}, {"a": want["x"], "b": (want["id"], want["name"])}),
        ("outer.inner", want["outer"]["inner"]),
        ("outer.deep.est", want["outer"]["deep"]["est"]),
        ("outer.deep", want["outer"]["deep"]),
        ("outer", want["outer"]),
        (("outer.when", "outer"), (want["outer"]["when"], want["outer"])),
        (("x", "x"), (want["x"], want["x"])),
    ]
    for at, (fields, expected) in enumerate(choices):
        folder = tmp_path / str(at)
        folder.mkdir()
        tree_map(bitwise, whole(opened(folder, array, form, fields=fields)), expected)


def test_the_unit_of_a_field_is_on_its_spec(tmp_path):
    flow = nf.rows(write(tmp_path / "x.npy", random_bits(RECORD, (3,))))
    assert flow.spec["outer"]["when"].unit == "datetime64[s]"
    assert flow.spec["id"].unit is None
    assert flow.spec["outer"]["deep"]["est"].shape == (3, 2)


@pytest.mark.parametrize("form", FORMS)
def test_dtype_is_spread_over_the_fields(tmp_path, form):
    array = np.zeros(N, [("a", ">i4"), ("b", [("c", "<f8", (2,)), ("d", "V2")]), ("t", "U3")])
    rng = np.random.default_rng(0)
    array["a"], array["b"]["c"] = rng.integers(0, 99, N), rng.random((N, 2))
    half = rng.random(N).astype(ml_dtypes.bfloat16)
    array["b"]["d"] = half.view("V2")
    array["t"] = "né"
    flow = opened(tmp_path, array, form, dtype={"a": "float32", "b": {"c": "float16", "d": "bfloat16"}})
    got = whole(flow)
    bitwise(got["a"], array["a"].astype("f4"))
    bitwise(got["b"]["c"], array["b"]["c"].astype("f2"))
    bitwise(got["b"]["d"], half)
    bitwise(got["t"], array["t"])
    folder = tmp_path / "one"
    folder.mkdir()
    one = whole(opened(folder, array, form, fields=("a", "b.c"), dtype="float64"))
    bitwise(one[0], array["a"].astype("f8"))
    bitwise(one[1], np.ascontiguousarray(array["b"]["c"]))


@pytest.mark.parametrize("form", FORMS)
def test_a_cast_of_a_field_that_does_not_fit_is_named(tmp_path, form):
    array = np.zeros(N, [("a", ">i4"), ("b", "<f8", (2, 2))])
    array["b"][9, 1, 0] = 1e300
    flow = opened(tmp_path, array, form, dtype={"b": "float32"})
    with pytest.raises(nf.CastError) as caught:
        list(flow.batches(4))
    assert caught.value.index == 9
    assert "'b'" in str(caught.value)
    assert "(1, 0)" in str(caught.value)


@pytest.mark.parametrize(
    "fields",
    ["nope", ("x", "nope"), {"a": "outer.nope"}, "x.y", "", 3, ("x", None), [], "outer.", ".x", "outer.inner."],
)
def test_fields_that_are_not_there(tmp_path, fields):
    path = write(tmp_path / "x.npy", random_bits(RECORD, (3,)))
    with pytest.raises(nf.OptionError, match="fields"):
        nf.rows(path, fields=fields)
    with pytest.raises(nf.OptionError, match="fields"):
        nf.files([path], fields=fields)


def test_fields_of_an_array_that_has_none(tmp_path):
    with pytest.raises(nf.OptionError, match=r"x\.npy.*fields"):
        nf.rows(write(tmp_path / "x.npy", np.zeros(3)), fields="a")


def test_a_name_with_a_dot_in_it():
    array = random_bits(np.dtype([("a.b", "f4"), ("a", [("c", "i2")])]), (5,))
    bitwise(whole(nf.rows(array, fields="a.b")), array["a.b"])
    bitwise(whole(nf.rows(array, fields="a.c")), np.ascontiguousarray(array["a"]["c"]))


def test_titles_and_bare_padding(tmp_path):
    titled = np.dtype([(("Title", "a"), "<f4"), (("Other", "b"), ">i2", (2,))])
    gaps = np.dtype({"names": ["a", "b"], "formats": ["<i2", ">f8"], "offsets": [3, 9], "itemsize": 31})
    overlapping = np.dtype({"names": ["all", "low"], "formats": ["<u4", "<u2"], "offsets": [0, 0]})
    backwards = np.dtype({"names": ["z", "a"], "formats": ["<u4", "<u2"], "offsets": [8, 0]})
    for dtype in (titled, gaps):
        array = random_bits(dtype, (N, 2))
        for form in FORMS:
            folder = tmp_path / f"{dtype.itemsize}{form}"
            folder.mkdir()
            tree_map(bitwise, whole(opened(folder, array, form, fortran=True)), fields_of(array))
    for dtype in (overlapping, backwards):
        memory = np.frombuffer(np.random.default_rng(0).bytes(dtype.itemsize * N), dtype)
        tree_map(bitwise, whole(nf.rows(memory)), fields_of(memory))
    record = np.rec.array(random_bits(np.dtype([("a", "f4"), ("b", "i2")]), (5,)))
    tree_map(bitwise, whole(nf.rows(record)), fields_of(np.asarray(record)))


def test_structured_scalars_are_examples(tmp_path):
    array = random_bits(RECORD, (5,))
    for at in range(5):
        write(tmp_path / f"{at}.npy", array[at])
    tree_map(bitwise, whole(nf.files(tmp_path)), fields_of(array))


def test_shards_of_one_layout_in_different_bytes(tmp_path):
    plain = np.dtype([("a", "<i4"), ("t", "U2"), ("b", "<f8", (2,))])
    other = np.dtype([("a", ">i4"), ("t", ">U5"), ("b", ">f8", (2,))], align=True)
    first, second = random_bits(plain, (4,)), random_bits(other, (3,))
    paths = [write(tmp_path / "0.npy", first), write(tmp_path / "1.npy", second, fortran=True)]
    for data in (paths, [first, second]):
        got = whole(nf.rows(data))
        for name in ("a", "b", "t"):
            bitwise(got[name], np.concatenate([delivered(first[name]), delivered(second[name])]))


@pytest.mark.parametrize(
    "other",
    [
        [("a", "<i4")],
        [("a", "<i4"), ("c", "<f8")],
        [("a", "<i8"), ("b", "<f8")],
        [("a", "<i4"), ("b", "<f8", (2,))],
        [("a", "<i4"), ("b", [("c", "<f8")])],
        "f8",
    ],
    ids=str,
)
def test_shards_whose_fields_differ(tmp_path, other):
    one = np.zeros(3, [("a", "<i4"), ("b", "<f8")])
    for pair in ([one, np.zeros(3, other)], [np.zeros(3, other), one]):
        paths = [write(tmp_path / f"{at}.npy", array) for at, array in enumerate(pair)]
        with pytest.raises(nf.ShapeMismatchError, match=r"1\.npy"):
            nf.rows(paths)
        with pytest.raises(nf.ShapeMismatchError, match=r"1\.npy"):
            nf.files(paths)


def test_a_structure_of_structured_arrays(tmp_path):
    array = random_bits(RECORD, (6,))
    array["x"] = 0.5
    path = write(tmp_path / "x.npy", array)
    y = write(tmp_path / "y.npy", np.arange(6))
    flow = nf.rows({"in": path, "y": y}, fields={"in": ("x", "name")}, dtype={"in": ("float16", None), "y": "int8"})
    assert tree_map(lambda spec: spec.dtype.str, flow.spec) == {"in": ("<f2", "<U5"), "y": "|i1"}
    bitwise(flow[3]["in"][1], array["name"][3])
    flow = nf.rows((path, y), fields=({"k": "id"}, None))
    assert int(flow[2][0]["k"]) == array["id"][2]


@pytest.mark.parametrize("dtype", [{"nope": "f4"}, {"a": {"b": "f4"}}, ("f4", "f4", "f4"), {"a": "no such type"}])
def test_dtypes_that_do_not_fit_the_fields(tmp_path, dtype):
    path = write(tmp_path / "x.npy", np.zeros(3, [("a", "f4"), ("b", "f4")]))
    with pytest.raises(nf.OptionError, match="dtype"):
        nf.rows(path, dtype=dtype)


@pytest.mark.parametrize("bad", ["O", "g", "V3"])
def test_one_field_that_cannot_be_delivered(tmp_path, bad):
    if bad == "g" and np.dtype("g").itemsize == 8:
        pytest.skip("longdouble is float64 here")
    dtype = np.dtype([("good", "f4"), ("bad", bad, (2,))])
    array = np.zeros(4, dtype)
    path = tmp_path / "x.npy"
    path.write_bytes(header(dtype.descr, False, (4,)) + (b"" if bad == "O" else array.tobytes()))
    with pytest.raises(nf.UnsupportedDtypeError, match=r"x\.npy"):
        nf.rows(path)
    if bad == "O":
        with pytest.raises(nf.UnsupportedDtypeError):
            nf.rows(path, fields="good")
    else:
        bitwise(whole(nf.rows(path, fields="good")), array["good"])


# Text


@QUICK
@given(
    texts=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), min_size=1, max_size=9),
    order=st.sampled_from("<>"),
    form=st.sampled_from(FORMS),
)
def test_any_text(texts, order, form):
    array = np.array(texts, f"{order}U7")
    with tempfile.TemporaryDirectory() as folder:
        flow = opened(Path(folder), array, form)
        bitwise(whole(flow), array.astype("U7"))
        flow.close()


@QUICK
@given(texts=st.lists(st.binary(max_size=6), min_size=1, max_size=9), form=st.sampled_from(FORMS))
def test_any_bytes(texts, form):
    array = np.array(texts, "S7")
    with tempfile.TemporaryDirectory() as folder:
        flow = opened(Path(folder), array, form)
        bitwise(whole(flow), array)
        flow.close()


@pytest.mark.parametrize("point", [0xD800, 0xDBFF, 0xDC00, 0xDFFF, 0x110000, 0x7FFFFFFF, 0xFFFFFFFF])
def test_every_character_that_unicode_does_not_know(point):
    for place in np.ndindex(2, 3):
        points = np.full((1, 2, 3), ord("a"), "u4")
        points[0, *place] = point
        with pytest.raises(nf.CastError, match=rf"position \({place[0]},\)"):
            nf.rows(points.view("U3").reshape(1, 2))[0]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("point", [0x110000, 0xFFFFFFFF])
def test_a_text_of_one_character_beyond_unicode(tmp_path, form, point):
    points = np.zeros((N, 3), "u4")
    points[[0, 7], 0] = point
    flow = opened(tmp_path, points.view("U3").reshape(N), form)
    with pytest.raises(nf.CastError) as caught:
        flow[0]
    assert caught.value.index == 0
    with pytest.raises(nf.CastError) as caught:
        flow[7]
    assert caught.value.index == 7


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("form", FORMS)
def test_a_character_that_unicode_does_not_know(tmp_path, form, order):
    points = np.full((N, 2, 3), ord("a"), f"{order}u4")
    points[7, 1, 2] = 0xD800
    array = points.view(f"{order}U3").reshape(N, 2)
    flow = opened(tmp_path, array, form)
    with pytest.raises(nf.CastError) as caught:
        list(flow.batches(4))
    error = caught.value
    assert error.index == 7
    if order == "<":
        assert "(1,)" in str(error)
    if form != "array":
        assert error.path is not None
        assert Path(error.path).name in str(error)
    with pytest.raises(nf.CastError):
        flow[7]
    assert flow[6].tolist() == ["aaa", "aaa"]


@pytest.mark.parametrize("form", ["mmap", "read", "ram", "array", "files", "npz"])
def test_the_position_of_a_bad_character_in_big_endian_text(tmp_path, form):
    points = np.full((N, 4, 3), ord("a"), ">u4")
    points[7, 2, 1] = 0xD800
    flow = opened(tmp_path, points.view(">U3").reshape(N, 4), form)
    with pytest.raises(nf.CastError, match=r"position \(2,\)"):
        flow[7]


@pytest.mark.parametrize("point", [0xD7FF, 0xE000, 0xFFFF, 0x10FFFF])
def test_characters_at_the_edge_are_good(tmp_path, point):
    array = np.full((5, 2), point, "u4").view("U2").reshape(5)
    bitwise(whole(nf.rows(write(tmp_path / "x.npy", array))), array)


def test_a_bad_character_in_a_field(tmp_path):
    array = np.zeros(N, [("n", "i4"), ("t", ">U2", (2,))])
    bits = array["t"].copy().view(">u4")
    bits[5, 3] = 0xD800
    array["t"] = bits.view(">U2").reshape(N, 2)
    flow = nf.rows(write(tmp_path / "x.npy", array))
    with pytest.raises(nf.CastError, match=r"x\.npy.*'t'") as caught:
        list(flow.batches(3))
    assert caught.value.index == 5


@pytest.mark.parametrize("kind", "US")
@pytest.mark.parametrize("access", ["mmap", "read", "ram", "files", "array"])
def test_texts_unify_to_the_widest(tmp_path, kind, access):
    parts = [np.array(["a", "bc"], f"{kind}2"), np.array(["defgh"], f"{kind}5"), np.array(["i"], f">{kind}1")]
    want = np.concatenate([part.astype(f"{kind}5") for part in parts])
    if access == "array":
        flow = nf.rows(parts)
    elif access == "files":
        for at, text in enumerate(want):
            write(tmp_path / f"{at}.npy", np.array(text, f"{'<>'[at % 2]}{kind}{5 - at if at != 2 else 5}"))
        flow = nf.files(tmp_path)
    else:
        flow = nf.rows([write(tmp_path / f"{at}.npy", part) for at, part in enumerate(parts)], access=access)
    bitwise(whole(flow, 2), want)


def test_text_and_bytes_and_numbers_do_not_mix(tmp_path):
    for first, second in [
        ("U3", "S3"),
        ("U3", "i4"),
        ("S4", "f4"),
        ("M8[s]", "M8[ms]"),
        ("M8[s]", "m8[s]"),
        ("M8[s]", "i8"),
    ]:
        paths = [write(tmp_path / "0.npy", np.zeros(2, first)), write(tmp_path / "1.npy", np.zeros(2, second))]
        with pytest.raises(nf.ShapeMismatchError, match=r"1\.npy"):
            nf.rows(paths)


@pytest.mark.parametrize(
    ("stored_as", "target"),
    [("U3", "i4"), ("U3", "S3"), ("S3", "U3"), ("S3", "f4"), ("f4", "U3"), ("i4", "S3"), ("M8[s]", "U20")],
)
def test_text_is_not_cast(tmp_path, stored_as, target):
    with pytest.raises(nf.UnsupportedDtypeError, match=r"x\.npy"):
        nf.rows(write(tmp_path / "x.npy", np.zeros(2, stored_as)), dtype=target)


# Dates


@pytest.mark.parametrize("kind", "Mm")
def test_dates_are_integers_with_a_unit(tmp_path, kind):
    for dtype in DATES:
        if dtype.startswith(kind):
            check_dates(tmp_path, dtype)


def check_dates(tmp_path, dtype):
    array = np.array([0, 1, -1, 2**40, -(2**62), np.iinfo("i8").min], "i8").view(dtype)
    assert np.isnat(array[-1])
    for order in "<>":
        flow = nf.rows(write(tmp_path / "x.npy", array.astype(with_order(dtype, order))))
        assert flow.spec.unit == np.dtype(dtype).name
        got = whole(flow)
        assert got.dtype == np.int64
        back = got.view(flow.spec.unit)
        assert back.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(back, array)
        assert str(np.dtype(dtype).name) in str(flow.spec)
        for same_thing in ("int64", dtype, np.dtype(dtype).newbyteorder(">")):
            bitwise(whole(nf.rows(tmp_path / "x.npy", dtype=same_thing)), array.view("i8"))


@pytest.mark.parametrize(
    ("stored_as", "target"),
    [
        ("M8[s]", "M8[ms]"),
        ("M8[s]", "m8[s]"),
        ("m8[s]", "f8"),
        ("M8[D]", "i4"),
        ("M8[D]", "u8"),
        ("M8[D]", "bfloat16"),
        ("i8", "M8[s]"),
        ("f8", "m8[s]"),
    ],
)
def test_dates_are_not_cast(tmp_path, stored_as, target):
    with pytest.raises(nf.UnsupportedDtypeError, match=r"x\.npy"):
        nf.rows(write(tmp_path / "x.npy", np.zeros(2, stored_as)), dtype=target)


def test_bytes_that_are_named_as_dates_have_the_unit_of_that_name(tmp_path):
    flow = nf.rows(write(tmp_path / "x.npy", np.arange(3).view("V8")), dtype="M8[s]")
    assert whole(flow).tolist() == [0, 1, 2]
    assert flow.spec.unit == "datetime64[s]"


# longdouble


@pytest.mark.skipif(np.dtype("g").itemsize == 8, reason="longdouble is float64 here")
class TestLongdouble:
    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("order", "<>")
    def test_by_explicit_cast(self, tmp_path, form, order):
        values = np.random.default_rng(0).standard_normal((N, 3)).astype("g") + np.longdouble(2) ** -60
        for at, target in enumerate(["f8", "f4", "f2", "bfloat16"]):
            folder = tmp_path / str(at)
            folder.mkdir()
            want = named(target) if target in SMALL else np.dtype(target)
            flow = opened(folder, values.astype(with_order("g", order)), form, dtype=target)
            bitwise(whole(flow), values.astype(want))
            flow.close()

    def test_complex_too(self, tmp_path):
        values = (np.arange(5) + 1j / np.arange(1, 6)).astype("G")
        path = write(tmp_path / "x.npy", values)
        bitwise(whole(nf.rows(path, dtype="complex64")), values.astype("c8"))
        with pytest.raises(nf.UnsupportedDtypeError, match="complex128"):
            nf.rows(path)
        with pytest.raises(nf.UnsupportedDtypeError, match="imaginary"):
            nf.rows(path, dtype="float64")

    def test_never_by_itself(self, tmp_path):
        path = write(tmp_path / "x.npy", np.zeros(3, "g"))
        for open_ in (lambda: nf.rows(path), lambda: nf.files([path]), lambda: nf.rows(np.zeros(3, "g"))):
            with pytest.raises(nf.UnsupportedDtypeError, match="float64"):
                open_()
        with pytest.raises(nf.UnsupportedDtypeError):
            nf.rows(path, dtype="longdouble")
        with pytest.raises(nf.UnsupportedDtypeError):
            nf.rows(np.zeros(3), dtype="longdouble")

    @pytest.mark.parametrize(
        ("text", "target"),
        [("1e400", "f8"), ("-1e400", "f8"), ("1e39", "f4"), ("0.5", "i4"), ("1e30", "i8"), ("nan", "i8")],
    )
    def test_values_that_do_not_fit(self, tmp_path, text, target):
        array = np.ones((4, 2), "g")
        array[2, 1] = np.longdouble(text)
        flow = nf.rows(write(tmp_path / "x.npy", array), dtype=target)
        with pytest.raises(nf.CastError, match=r"x\.npy.*\(1,\)") as caught:
            whole(flow)
        assert caught.value.index == 2

    def test_whole_numbers_beyond_float64(self, tmp_path):
        array = np.array([2**63 - 1, -(2**63), 2**62 + 1], "g")
        assert int(array[0]) == 2**63 - 1
        flow = nf.rows(write(tmp_path / "x.npy", array), dtype="int64")
        assert whole(flow).tolist() == [2**63 - 1, -(2**63), 2**62 + 1]
        flow = nf.rows(write(tmp_path / "y.npy", np.array([2**64 - 1], "g")), dtype="uint64")
        assert int(flow[0]) == 2**64 - 1


# Objects


class Bomb:
    def __reduce__(self) -> Any:
        return (pytest.fail, ("a pickle was loaded",))


def object_file(shape: tuple[int, ...] = (1,), dtype: Any = object) -> bytes:
    return header(np.lib.format.dtype_to_descr(np.dtype(dtype)), False, shape) + pickle.dumps(Bomb())


@pytest.mark.parametrize("dtype", [object, [("a", "O"), ("b", "f4")], [("a", [("c", "O", (2,))])]], ids=str)
def test_objects_are_refused_from_the_header(tmp_path, dtype):
    path = tmp_path / "x.npy"
    path.write_bytes(object_file((3,), dtype))
    np.savez(tmp_path / "y.npz", good=np.arange(3))
    for open_ in (
        lambda: nf.rows(path),
        lambda: nf.rows(path, dtype="float32"),
        lambda: nf.files([str(path)]),
        lambda: nf.rows(str(tmp_path / "*.npy"), access="ram"),
    ):
        with pytest.raises(nf.UnsupportedDtypeError) as caught:
            open_()
        assert caught.value.kind == "object"
        text = str(caught.value)
        assert "x.npy" in text
        assert "np.load(path, allow_pickle=True)" in text
        assert "np.save" in text
    with pytest.raises(nf.UnsupportedDtypeError):
        nf.rows(np.array([1, "a"], object))


def test_objects_can_be_skipped(tmp_path):
    write(tmp_path / "0.npy", np.zeros(2))
    (tmp_path / "1.npy").write_bytes(object_file())
    flow = nf.files(tmp_path, on_bad="skip")
    assert flow.keys == ("0",)
    assert "object" in flow.report.skipped["1"]


def test_the_recipe_for_objects_works_apart(tmp_path):
    array = np.empty(3, object)
    for at in range(3):
        array[at] = np.full(4, at, "f4")
    np.save(tmp_path / "x.npy", array, allow_pickle=True)
    with pytest.raises(nf.UnsupportedDtypeError, match=r"np\.stack"):
        nf.rows(tmp_path / "x.npy")
    np.save(tmp_path / "y.npy", np.stack(np.load(tmp_path / "x.npy", allow_pickle=True)))
    assert whole(nf.rows(tmp_path / "y.npy")).shape == (3, 4)


# The size of a file


@pytest.mark.parametrize("more", [1, 2, 5, 40])
def test_several_arrays_in_one_file(tmp_path, more):
    path = tmp_path / "x.npy"
    path.write_bytes(npy_bytes(np.arange(4.0)) + b"".join(npy_bytes(np.zeros((at, 2), "U3")) for at in range(more)))
    for open_ in (lambda: nf.rows(path), lambda: nf.files([str(path)])):
        with pytest.raises(nf.FileFormatError) as caught:
            open_()
        assert caught.value.kind == "several-arrays"
        assert caught.value.path == str(path)
        assert f"{more} more array" in str(caught.value)


@pytest.mark.parametrize("extra", [b"\0", b"\n", b"junk", b"\x93NUMPY", npy_bytes(np.zeros(3))[:-1], b"\0" * 4096])
def test_trailing_bytes(tmp_path, extra):
    path = tmp_path / "x.npy"
    path.write_bytes(npy_bytes(np.arange(4.0)) + extra)
    with pytest.raises(nf.FileFormatError, match=r"x\.npy") as caught:
        nf.rows(path)
    assert caught.value.kind == "trailing"
    assert f"{len(extra):,} bytes" in str(caught.value)


@pytest.mark.parametrize("dtype", ["f4", "U3", "S2", "M8[s]", [("a", "f4"), ("b", "i2")], "V2"])
def test_every_way_to_cut_a_file(tmp_path, dtype):
    data = npy_bytes(np.zeros(3, dtype))
    path = tmp_path / "x.npy"
    for size in range(len(data)):
        path.write_bytes(data[:size])
        with pytest.raises(nf.FileFormatError) as caught:
            nf.rows(path)
        assert caught.value.path == str(path)
        if size >= len(data) - np.dtype(dtype).itemsize * 3:
            assert caught.value.kind == "truncated"


# Headers that are written amiss

SLIPS = [
    "{'descr': '<f4', 'fortran_order': False, 'shape': (np.int64(6),)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (6)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (6L,)}",
    "{'descr': '<f4', 'fortran_order': np.False_, 'shape': (np.int64(6),)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (np.int64(2), 3L)}",
]


@pytest.mark.parametrize("text", SLIPS)
@pytest.mark.parametrize("more", [1, 3])
def test_slips_warn_once(tmp_path, text, more):
    values = np.arange(6, dtype="f4")
    paths = []
    for at in range(more):
        path = tmp_path / f"{at}.npy"
        path.write_bytes(magic(text.encode() + b"\n") + values.tobytes())
        paths.append(str(path))
    want = values.reshape(2, 3) if "(np.int64(2)" in text else values
    for open_, count in ((nf.rows, more), (nf.files, 1)):
        with pytest.warns(nf.NpyflowWarning) as caught:
            flow = open_(paths)
        assert len(caught) == 1
        assert "0.npy" in str(caught[0].message)
        assert caught[0].filename == __file__
        got = whole(flow)
        bitwise(got, np.concatenate([want] * count) if open_ is nf.rows else np.stack([want] * more))


@pytest.mark.parametrize("text", SLIPS)
@pytest.mark.parametrize("change", [-4, -1, 1, 4])
def test_slips_whose_size_disagrees_are_refused(tmp_path, text, change, recwarn):
    path = tmp_path / "x.npy"
    path.write_bytes(magic(text.encode() + b"\n") + bytes(24 + change))
    for open_ in (lambda: nf.rows(path), lambda: nf.files([str(path)])):
        with pytest.raises(nf.FileFormatError, match=r"x\.npy"):
            open_()
    assert not recwarn.list


# Kept and sent


KEPT: list[Any] = [
    ("<f4", None),
    (">c16", "complex64"),
    ("M8[s]", None),
    ("m8[25ns]", "int64"),
    ("U3", None),
    (">U3", "U3"),
    ("S3", None),
    ("V2", "bfloat16"),
    ("V1", "float8_e5m2"),
    ("f8", "bfloat16"),
    (RECORD, None),
    (RECORD, {"id": "int64"}),
]


@pytest.mark.parametrize("form", ["mmap", "read", "ram", "shards", "files", "npz", "npz compressed"])
def test_save_load_and_pickle(tmp_path, form):
    for at, (stored_as, dtype) in enumerate(KEPT):
        (tmp_path / str(at)).mkdir()
        check_kept(tmp_path / str(at), stored_as, dtype, form)


def check_kept(tmp_path, stored_as, dtype, form):
    array = np.zeros((N, 2), stored_as) if dtype in ("bfloat16", "complex64") and stored_as != "V2" else None
    array = random_bits(stored_as, (N, 2)) if array is None else array
    flow = opened(tmp_path, array, form, fortran=True, dtype=dtype)
    want = whole(flow)
    flow.save(tmp_path / "flow.json")
    for again in (
        nf.load(tmp_path / "flow.json"),
        pickle.loads(pickle.dumps(flow)),
        pickle.loads(pickle.dumps(flow[::2])),
    ):
        assert again.spec == flow.spec
        assert again.access == flow.access
        step = 1 if len(again) == len(flow) else 2
        tree_map(lambda got, all_of, step=step: bitwise(got, all_of[::step]), whole(again), want)


@pytest.mark.parametrize("form", ["mmap", "files", "npz"])
@pytest.mark.parametrize("fields", ["x", ("x", "id"), {"a": "outer.inner", "b": "outer.deep"}], ids=str)
def test_save_load_and_pickle_with_fields(tmp_path, form, fields):
    flow = opened(tmp_path, random_bits(RECORD, (N,)), form, fields=fields)
    want = whole(flow)
    flow.save(tmp_path / "flow.json")
    for again in (nf.load(tmp_path / "flow.json"), pickle.loads(pickle.dumps(flow))):
        assert again.spec == flow.spec
        tree_map(bitwise, whole(again), want)


@pytest.mark.parametrize(
    "dtype",
    ["i8", ">f4", "?", "c8", ">M8[s]", "m8[s]", "M8"],
    ids=str,
)
def test_labels_of_every_dtype(tmp_path, dtype):
    """Labels in an array go by the same rules as data."""
    values = random_bits(dtype, (4,), 3)
    if np.dtype(dtype).kind in "Mm":
        # Within the years that Python's own dates have.
        values = np.arange(4, dtype=f"{np.dtype(dtype).byteorder}i8").view(dtype)
    for at in range(4):
        write(tmp_path / "x" / f"{at}.npy", np.zeros(2))
    flow = nf.files(tmp_path / "x", labels=values)
    _, got = whole(flow)
    bitwise(got, delivered(values))
    assert flow.spec[1].unit == (np.dtype(dtype).newbyteorder("=").name if np.dtype(dtype).kind in "Mm" else None)
    flow.save(tmp_path / "flow.json")
    again = nf.load(tmp_path / "flow.json")
    assert again.spec == flow.spec
    bitwise(whole(again)[1], delivered(values))


def test_labels_of_bytes_are_names_of_classes(tmp_path):
    for at in range(3):
        write(tmp_path / "x" / f"{at}.npy", np.zeros(2))
    flow = nf.files(tmp_path / "x", labels=np.array([b"dog", b"cat", b"c\xe9"]))
    assert flow.classes == (r"c\xe9", "cat", "dog")
    assert [int(label) for _, label in flow] == [2, 1, 0]


def test_dates_of_different_units_never_mix(tmp_path):
    stored = [np.arange(3).view("M8[s]"), np.arange(3).view("M8[ms]"), np.arange(3), np.arange(3).view("m8[s]")]
    paths = [write(tmp_path / f"{at}.npy", array) for at, array in enumerate(stored)]
    for at in range(1, 4):
        for pair in ([paths[0], paths[at]], [paths[at], paths[0]]):
            for opening in (nf.rows, nf.files):
                for dtype in (None, "int64"):
                    with pytest.raises(nf.ShapeMismatchError):
                        opening(pair, dtype=dtype)


def test_strings_of_any_length_are_refused_by_their_name():
    with pytest.raises(nf.UnsupportedDtypeError, match="strings of any length"):
        nf.rows(np.array(["a", "bcd"], np.dtypes.StringDType()))
