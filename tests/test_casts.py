"""Casts against Python integers and NumPy: what fits comes through, the first value that does not is found."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import npyflow as nf
from helpers import DTYPES, same, write
from npyflow._core.casts import cast_into, check_castable

PAIRS = [(a, b) for a, b in itertools.product(map(np.dtype, DTYPES), repeat=2) if not (a.kind == "c" and b.kind != "c")]


def edges(dtype: np.dtype) -> list:
    """Values where casts go wrong: limits of every type, their neighbours, and what is no number."""
    whole = {0, 1, 2, 3}
    for bits in (7, 8, 11, 15, 16, 24, 31, 32, 53, 63, 64):
        whole |= {(1 << bits) + step for step in (-2, -1, 0, 1, 2)} | {
            -(1 << bits) + step for step in (-2, -1, 0, 1, 2)
        }
    whole |= {2**63 - 512, 2**63 - 1024, 2**64 - 1024, 2**64 - 2048, 65504, 65519, 65520, 70000}
    if dtype.kind == "b":
        return [False, True]
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return [value for value in sorted(whole) if info.min <= value <= info.max]
    part = np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype
    values = [float(v) for v in sorted(whole)]
    values += [
        0.5,
        -0.5,
        1.5,
        -0.0,
        1e-8,
        1e-45,
        1e300,
        -1e300,
        3.5e38,
        65519.0,
        65520.0,
        math.inf,
        -math.inf,
        math.nan,
    ]
    with np.errstate(over="ignore"):
        parts = [*np.unique(np.array(values).astype(part)).tolist(), -0.0]
    if dtype.kind == "f":
        return parts
    return [complex(value, 1.0) for value in parts] + [complex(-1.0, value) for value in parts]


def float_holds(value: int, target: np.dtype) -> bool:
    info = np.finfo(target)
    odd = abs(value) >> max(0, (abs(value) & -abs(value)).bit_length() - 1)
    return odd.bit_length() <= info.nmant + 1 and abs(value) <= int(info.max)


def fits(value: object, target: np.dtype) -> bool:
    """Whether one Python value fits, by integer arithmetic."""
    if target.kind in "fc":
        part = np.dtype(f"f{target.itemsize // 2}") if target.kind == "c" else target
        if isinstance(value, complex):
            return fits(value.real, part) and fits(value.imag, part)
        if isinstance(value, int):
            return float_holds(int(value), part)
        with np.errstate(over="ignore"):
            return not math.isfinite(value) or bool(np.isfinite(np.float64(value).astype(part)))
    if isinstance(value, float) and (not math.isfinite(value) or value != int(value)):
        return False
    low, high = (0, 1) if target.kind == "b" else (np.iinfo(target).min, np.iinfo(target).max)
    return low <= int(value) <= high


def check(source: np.ndarray, target: np.dtype) -> None:
    values = source.ravel().tolist()
    expected = next((at for at, value in enumerate(values) if not fits(value, target)), None)
    out = np.empty(source.shape, target)
    assert cast_into(source, out) == expected
    if expected is None:
        with np.errstate(all="ignore"):
            same(out, source.astype(target))


@pytest.mark.parametrize(("source", "target"), PAIRS, ids=lambda dtype: dtype.name)
def test_every_edge_by_itself_and_after_values_that_fit(source, target):
    values = edges(source)
    for value in values:
        check(np.array([value], source), target)
        check(np.array([1, 0, value, value], source).reshape(2, 2), target)
    good = [value for value in values if fits(np.array(value, source).item(), target)]
    check(np.array(good, source), target)


@st.composite
def casts(draw):
    source, target = draw(st.sampled_from(PAIRS))
    elements = st.one_of(st.sampled_from(edges(source)), hnp.from_dtype(source), st.sampled_from([0, 1]))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5))
    array = draw(hnp.arrays(source, shape, elements=elements))
    if draw(st.booleans()):
        array = array.astype(source.newbyteorder("S"))
    if draw(st.booleans()):
        array = np.asfortranarray(array)
    if array.ndim and draw(st.booleans()):
        array = np.repeat(array, 2, axis=0)[::2]
    return array, target


@settings(max_examples=400, deadline=None)
@given(casts())
def test_any_values_any_layout(cast):
    check(*cast)


@pytest.mark.parametrize(
    ("value", "source", "target"),
    [
        (2**63 - 1, "i8", "f8"),
        (2**64 - 1, "u8", "f8"),
        (2**53 + 1, "i8", "f8"),
        (2**24 + 1, "i4", "f4"),
        (2049, "i4", "f2"),
        (65520, "i4", "f2"),
        (70000, "i8", "f2"),
        (2.0**63, "f8", "i8"),
        (2.0**64, "f8", "u8"),
        (2.0**31, "f4", "i4"),
        (1e300, "f8", "f4"),
        (-1e300, "f8", "f4"),
        (65520.0, "f4", "f2"),
        (65520.0, "f8", "f2"),
        (300, "i8", "u1"),
        (-1, "i8", "u1"),
        (-1, "i1", "u8"),
        (70000, "i8", "i2"),
        (2**31, "i8", "i4"),
        (2, "i8", "?"),
        (0.5, "f4", "i4"),
        (np.nan, "f8", "i8"),
        (np.inf, "f4", "i4"),
        (-np.inf, "f2", "i8"),
        (-np.inf, "f2", "i4"),
        (np.nan, "f4", "?"),
        (2**53 + 1, "i8", "c16"),
        (2**24 + 1, "i4", "c8"),
        (complex(0, 1e300), "c16", "c8"),
        (complex(np.inf, 1e300), "c16", "c8"),
        (complex(np.nan, 1e300), "c16", "c8"),
    ],
)
def test_what_does_not_fit(value, source, target):
    array = np.array([0, 1, value, 0], source)
    assert cast_into(array, np.empty(4, target)) == 2


@pytest.mark.parametrize(
    ("value", "source", "target"),
    [
        (2**63 - 1024, "i8", "f8"),
        (2**53, "i8", "f8"),
        (2**24, "i4", "f4"),
        (65504, "i4", "f2"),
        (65519.0, "f8", "f2"),
        (-(2.0**63), "f8", "i8"),
        (2.0**63, "f8", "u8"),
        (1e300, "f8", "f8"),
        (np.nan, "f8", "f4"),
        (np.inf, "f8", "f2"),
        (-np.inf, "f8", "f2"),
        (1e-300, "f8", "f4"),
        (-0.0, "f4", "i4"),
        (0.1, "f8", "f4"),
        (255.0, "f4", "u1"),
        (1.0, "f4", "?"),
        (1, "i8", "?"),
        (5, "i8", "c8"),
        (2.5, "f8", "c8"),
        (True, "?", "f2"),
    ],
)
def test_what_fits(value, source, target):
    array = np.array([0, value], source)
    out = np.empty(2, target)
    assert cast_into(array, out) is None
    with np.errstate(all="ignore"):
        same(out, array.astype(target))


def test_nothing_fits_into_nothing():
    for source, target in PAIRS:
        assert cast_into(np.empty((0, 3), source), np.empty((0, 3), target)) is None


def test_complex_to_real_is_refused():
    for target in ("f8", "f4", "i8", "?"):
        with pytest.raises(nf.UnsupportedDtypeError, match="imaginary"):
            check_castable(np.dtype("c8"), np.dtype(target), "x")
    check_castable(np.dtype("c16"), np.dtype("c8"), "x")


@pytest.mark.parametrize("access", ["mmap", "read", "ram"])
@pytest.mark.parametrize("fortran", [False, True])
def test_rows_name_file_row_position_and_value(tmp_path, access, fortran):
    array = np.zeros((5, 2, 3), "<i8")
    array[3, 1, 2] = 300
    path = write(tmp_path / "x.npy", array, fortran=fortran)
    flow = nf.rows(path, dtype="uint8", access=access)
    same(flow[2], np.zeros((2, 3), "u1"))
    with pytest.raises(nf.CastError) as caught:
        flow.__getitems__([0, 1, 3, 2])
    assert f"{path} row 3 position (1, 2)" in str(caught.value)
    assert "300" in str(caught.value)
    assert "uint8" in str(caught.value)
    assert "int64" in str(caught.value)
    assert (caught.value.path, caught.value.index) == (path, 3)


def test_shards_name_the_file_and_its_own_row(tmp_path):
    first, second = np.zeros(4), np.array([0.0, 1e300])
    paths = [write(tmp_path / "0.npy", first), write(tmp_path / "1.npy", second)]
    with pytest.raises(nf.CastError) as caught:
        nf.rows(paths, dtype="f4").__getitems__([0, 5])
    assert f"{paths[1]} row 1" in str(caught.value)
    assert caught.value.index == 5


@pytest.mark.parametrize("fortran", [False, True])
def test_files_name_the_file(tmp_path, fortran):
    for n in range(4):
        write(tmp_path / f"{n}.npy", np.full((2, 3), 1e300 if n == 2 else n, "f8"), fortran=fortran)
    flow = nf.files(tmp_path, dtype="float32")
    same(flow[3], np.full((2, 3), 3, "f4"))
    with pytest.raises(nf.CastError) as caught:
        list(flow)
    assert str(tmp_path / "2.npy") in str(caught.value)
    assert (caught.value.path, caught.value.index) == (str(tmp_path / "2.npy"), 2)


def test_the_index_of_an_error_is_that_of_the_flow():
    flow = nf.rows(np.array([0, 1, 2, 300]), dtype="u1")
    part = flow[np.array([3, 0])]
    with pytest.raises(nf.CastError) as caught:
        part[0]
    assert caught.value.index == 0
