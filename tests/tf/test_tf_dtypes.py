"""Every native dtype through every path, and casts that say when a value does not fit."""

import numpy as np
import pytest
from tf_support import FORMS, open_form, tf

import npyflow as nf

pytestmark = pytest.mark.tf

DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
]


def extreme_values(dtype, n=23):
    """Rows with the limits of `dtype`, NaN and infinities among random bits, (n, 3)."""
    rng = np.random.default_rng(5)
    if dtype == "bool":
        return rng.integers(0, 2, (n, 3)).astype(bool)
    dtype = np.dtype(dtype)
    values = np.frombuffer(rng.bytes(n * 3 * dtype.itemsize), dtype).reshape(n, 3).copy()
    if dtype.kind in "iu":
        values[0] = [np.iinfo(dtype).min, np.iinfo(dtype).max, 1]
    elif dtype.kind == "f":
        values[:2] = [[np.nan, np.inf, -np.inf], [np.finfo(dtype).max, np.finfo(dtype).tiny, -0.0]]
    else:
        values[0] = [complex(1, -2), complex(np.nan, np.inf), complex(-0.0, 0.0)]
    return values


def open_all(form, folder, arrays):
    """Return a flow of the dict `arrays`, kept and read in the way that `form` says."""
    if form == "arrays":
        return nf.rows(arrays)
    for name, values in arrays.items():
        if form == "files":
            (folder / name).mkdir()
            for at, row in enumerate(values):
                np.save(folder / name / f"{at}.npy", row)
        elif form == "shards":
            np.save(folder / f"{name}-0.npy", values[:9])
            np.save(folder / f"{name}-1.npy", values[9:])
        else:
            np.save(folder / f"{name}.npy", values)
    if form == "files":
        return nf.files({name: folder / name for name in arrays})
    if form == "shards":
        return nf.rows({name: str(folder / f"{name}-*.npy") for name in arrays})
    return nf.rows({name: folder / f"{name}.npy" for name in arrays}, access=form)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("order", ["<", ">"])
def test_every_dtype_comes_through_bit_by_bit(form, order, tmp_path):
    arrays = {dtype: extreme_values(dtype) for dtype in DTYPES}
    stored = {name: values.astype(values.dtype.newbyteorder(order)) for name, values in arrays.items()}
    flow = open_all(form, tmp_path, stored)
    for ds in (flow.to_tf(10), flow.to_tf().batch(10)):
        assert ds.element_spec == {name: tf.TensorSpec((None, 3), tf.as_dtype(name)) for name in DTYPES}
        batches = list(ds.as_numpy_iterator())
        for name, values in arrays.items():
            got = np.concatenate([batch[name] for batch in batches])
            assert got.dtype == np.dtype(name)
            assert got.tobytes() == values.tobytes(), name


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("order", ["<", ">"])
def test_large_batches_and_single_examples_in_either_byte_order(form, order, tmp_path):
    values = np.arange(12 * 50_000, dtype=np.float64).reshape(12, 50_000)
    flow = open_form(form, tmp_path, values.astype(f"{order}f8"), np.arange(12))
    for x, y in flow.to_tf(4, shuffle=True):
        np.testing.assert_array_equal(x, values[y.numpy()])
    for x, y in flow.to_tf(shuffle=True):
        np.testing.assert_array_equal(x, values[y.numpy()])


@pytest.mark.parametrize("dtype", ["<f4", ">f4", ">i2", "|u1", ">c8"])
@pytest.mark.parametrize("form", ["arrays", "mmap", "read", "ram", "files"])
def test_fortran_order(form, dtype, tmp_path):
    values = np.asfortranarray(np.arange(24 * 3 * 4).reshape(24, 3, 4).astype(dtype))
    if form == "files":
        for at, value in enumerate(values):
            np.save(tmp_path / f"{at}.npy", np.asfortranarray(value))
        flow = nf.files(tmp_path)
    elif form == "arrays":
        flow = nf.rows(values)
    else:
        np.save(tmp_path / "x.npy", values)
        flow = nf.rows(tmp_path / "x.npy", access=form)
    got = np.concatenate(list(flow.to_tf(7).as_numpy_iterator()))
    assert got.dtype == values.dtype.newbyteorder("=")
    np.testing.assert_array_equal(got, values)


def test_shards_of_both_byte_orders(tmp_path):
    values = np.arange(30, dtype=np.int32).reshape(10, 3)
    np.save(tmp_path / "x-0.npy", values[:4].astype("<i4"))
    np.save(tmp_path / "x-1.npy", values[4:].astype(">i4"))
    flow = nf.rows(str(tmp_path / "x-*.npy"))
    np.testing.assert_array_equal(np.concatenate(list(flow.to_tf(3).as_numpy_iterator())), values)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("order", ["<", ">"])
def test_float64_rounds_to_float32(form, order, tmp_path):
    values = np.random.default_rng(0).normal(size=(23, 3)) * 1e20
    values[0] = [np.nan, np.inf, 1e-300]
    open_form(form, tmp_path, values.astype(f"{order}f8"), np.arange(23))
    if form == "arrays":
        flow = nf.rows(values.astype(f"{order}f8"), dtype="float32")
    elif form == "files":
        flow = nf.files(tmp_path / "one", dtype="float32")
    elif form == "shards":
        flow = nf.rows(str(tmp_path / "x-*.npy"), dtype="float32")
    else:
        flow = nf.rows(tmp_path / "x.npy", dtype="float32", access=form)
    ds = flow.to_tf(10)
    assert ds.element_spec.dtype == tf.float32
    np.testing.assert_array_equal(np.concatenate(list(ds.as_numpy_iterator())), values.astype(np.float32))


@pytest.mark.parametrize(
    ("form", "stored", "bad", "target"),
    [
        ("mmap", "float64", 1e300, "float32"),
        ("read", "float64", -1e300, "float32"),
        ("files", "float32", 1e6, "float16"),
        ("mmap", "int64", 300, "uint8"),
        ("read", "int64", -1, "uint8"),
        ("files", "int64", 70_000, "int16"),
        ("mmap", "int64", 2**31, "int32"),
        ("read", ">i8", 2**31, "int32"),
        ("files", "uint64", 2**63, "int64"),
        ("mmap", "int64", 2**53 + 1, "float64"),
        ("read", "float64", 0.5, "int64"),
        ("files", "float64", np.nan, "int32"),
        ("mmap", "int64", 2, "bool"),
    ],
)
def test_a_value_that_does_not_fit_stops_the_iteration(form, stored, bad, target, tmp_path):
    values = np.ones((40, 3), stored)
    values[33, 1] = bad
    if form == "files":
        for at, row in enumerate(values):
            np.save(tmp_path / f"part-{at:02}.npy", row)
        flow, path = nf.files(tmp_path, dtype=target), tmp_path / "part-33.npy"
    else:
        np.save(tmp_path / "all.npy", values)
        flow, path = nf.rows(tmp_path / "all.npy", dtype=target, access=form), tmp_path / "all.npy"
    assert flow.last_error is None
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        list(flow.to_tf(4, shuffle=True))
    error = flow.last_error
    assert isinstance(error, nf.CastError)
    assert (error.path, error.index) == (str(path), 33)
    assert str(error) in str(caught.value)
    assert path.name in str(error)
    assert target in str(error)
    assert "(1,)" in str(error)


@pytest.mark.parametrize("target", ["int32", "uint8", "float16", "float64", "bool"])
def test_values_that_fit_are_cast(target, tmp_path):
    values = np.array([[0, 1], [1, 0], [1, 1]], np.int64)
    np.save(tmp_path / "x.npy", values)
    (got,) = nf.rows(tmp_path / "x.npy", dtype=target).to_tf(3).as_numpy_iterator()
    assert got.dtype == target
    np.testing.assert_array_equal(got, values.astype(target))


def test_casts_of_single_components(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(12.0).reshape(4, 3))
    flow = nf.rows({"x": tmp_path / "x.npy", "y": np.arange(4)}, dtype={"x": "float32"})
    (element,) = flow.to_tf(4)
    assert (element["x"].dtype, element["y"].dtype) == (tf.float32, tf.int64)


def test_an_error_in_one_part_is_remembered_there(tmp_path):
    flow = nf.rows(np.array([1.0, 2.0, 1e300]), dtype="float32")
    good, bad = flow[:2], flow[2:]
    assert next(good.to_tf(2).as_numpy_iterator()).tolist() == [1.0, 2.0]
    with pytest.raises(tf.errors.InvalidArgumentError):
        list(bad.to_tf(2))
    assert good.last_error is None
    assert isinstance(bad.last_error, nf.CastError)


@pytest.mark.parametrize(
    "values",
    [
        np.zeros(3, "V2"),
        np.zeros(3, [("a", "V2")]),
        np.zeros(3, object),
        np.zeros(3, np.longdouble),
    ],
    ids=lambda a: a.dtype.name,
)
def test_other_dtypes_are_refused_when_opening(values, tmp_path):
    with pytest.raises(nf.UnsupportedDtypeError):
        nf.rows(values)
    np.save(tmp_path / "x.npy", values)
    with pytest.raises(nf.UnsupportedDtypeError, match=r"x\.npy|data|expected bool"):
        nf.rows(tmp_path / "x.npy")


def test_complex_is_not_cut_to_real():
    with pytest.raises(nf.UnsupportedDtypeError, match="imaginary"):
        nf.rows(np.zeros(3, np.complex64), dtype="float32")
