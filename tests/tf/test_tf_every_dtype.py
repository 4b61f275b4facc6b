"""Small floats, structured arrays, text, dates, longdouble and archives in ``tf.data``, compared with NumPy."""

import io
import zipfile

import ml_dtypes
import numpy as np
import pytest
from tf_support import tf

import npyflow as nf

pytestmark = pytest.mark.tf

N = 23
FORMS = ["mmap", "read", "shards", "files", "npz compressed", "npz files"]
FEW = ["read", "files", "npz compressed"]
UNRUNNABLE = "float8_e5m2"


def saved(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def opened(form, folder, array, **options):
    """A flow of the rows of `array`, kept and read in the way that `form` says."""
    if form in ("files", "npz files"):
        for at in range(len(array)):
            one = array[at : at + 1].reshape(array.shape[1:])
            if form == "files":
                np.save(folder / f"{at}.npy", one)
            else:
                (np.savez if at % 2 else np.savez_compressed)(folder / f"{at}.npz", x=one, other=np.arange(at))
        if form == "files":
            return nf.files(str(folder / "*.npy"), **options)
        return nf.files(str(folder / "*.npz"), members="x", **options)
    if form == "shards":
        np.save(folder / "s0.npy", array[:9])
        np.savez(folder / "s1.npz", x=np.asfortranarray(array[9:]))
        return nf.rows([folder / "s0.npy", nf.npz(folder / "s1.npz")["x"]], **options)
    if form in ("npz", "npz compressed"):
        (np.savez if form == "npz" else np.savez_compressed)(folder / "x.npz", x=array)
        return nf.rows(nf.npz(folder / "x.npz")["x"], **options)
    np.save(folder / "x.npy", array)
    return nf.rows(folder / "x.npy", access=form, **options)


def all_of(flow, batch=5, **options):
    """Everything that the dataset delivers, batched and one by one, nested as it is; both must be the same."""
    ds = flow.to_tf(batch, **options)
    parts = list(ds.as_numpy_iterator())
    got = tf.nest.map_structure(lambda *arrays: np.concatenate(arrays), *parts)
    single = list(flow.to_tf(**options).batch(batch).as_numpy_iterator())
    again = tf.nest.map_structure(lambda *arrays: np.concatenate(arrays), *single)
    tf.nest.map_structure(bitwise, again, got)
    return got


def bitwise(got, want):
    got, want = np.asarray(got), np.asarray(want)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    assert got.tolist() == want.tolist() if got.dtype == object else got.tobytes() == want.tobytes()


def as_strings(array):
    """What TensorFlow makes of text: UTF-8; of bytes: bytes."""
    items = [item.encode("utf-8") if isinstance(item, str) else bytes(item) for item in array.ravel().tolist()]
    out = np.empty(len(items), object)
    out[:] = items
    return out.reshape(array.shape)


def texts(kind, shape, width=6, seed=0):
    """Text with empty strings, spaces, inner zeros and characters of one to four bytes."""
    rng = np.random.default_rng(seed)
    if kind == "U":
        letters = np.array([0, 32, 65, 0xE9, 0x6570, 0x1F600, 0x10FFFF, 0xFFFD], "u4")
    else:
        letters = np.array([0, 32, 65, 0xE9, 0xFF, 0x80, 10], "u1")
    points = letters[rng.integers(0, len(letters), (*shape, width))]
    points[0] = 0
    return points.view(f"{kind}{width}").reshape(shape)


# Text


@pytest.mark.parametrize(
    ("kind", "order", "form"),
    [*(("U", "><"[at % 2], form) for at, form in enumerate(FORMS)), *(("S", "<", form) for form in FEW)],
)
def test_text_becomes_tf_string(form, kind, order, tmp_path):
    values = texts(kind, (N, 2))
    flow = opened(form, tmp_path, values.astype(np.dtype(f"{order}{kind}6")))
    assert flow.to_tf(5).element_spec == tf.TensorSpec((None, 2), tf.string)
    assert flow.to_tf().element_spec == tf.TensorSpec((2,), tf.string)
    bitwise(all_of(flow), as_strings(values))


@pytest.mark.parametrize("kind", "US")
def test_text_of_any_length_and_shape(kind, tmp_path):
    for at, (shape, width) in enumerate([((3,), 1), ((3, 0), 4), ((3, 1, 2), 2), ((3,), 1000), ((20, 50), 3)]):
        folder = tmp_path / str(at)
        folder.mkdir()
        values = texts(kind, shape, width)
        got = opened("mmap", folder, values).to_tf(5).as_numpy_iterator()
        bitwise(np.concatenate(list(got)), as_strings(values))
    np.save(tmp_path / "none.npy", np.zeros((4, 2), f"{kind}0"))
    bitwise(all_of(nf.rows(tmp_path / "none.npy")), as_strings(np.zeros((4, 2), f"{kind}1")))


def test_every_character_is_the_utf8_that_python_makes(tmp_path):
    points = np.array([p for p in range(1, 0x110000, 7) if not 0xD800 <= p < 0xE000], "u4")
    points = np.concatenate([points, np.array([0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000], "u4")])
    values = points.view("U1")
    np.save(tmp_path / "x.npy", values)
    (got,) = nf.rows(tmp_path / "x.npy").to_tf(len(values)).as_numpy_iterator()
    assert got.tolist() == [chr(point).encode("utf-8") for point in points]


def test_widths_unify(tmp_path):
    parts = [np.array(["a", "bé"]), np.array(["", "数数数数"]), np.array(["x"])]
    for at, part in enumerate(parts):
        np.save(tmp_path / f"{at}.npy", part)
    flow = nf.rows(str(tmp_path / "*.npy"))
    bitwise(all_of(flow, 2), as_strings(np.concatenate(parts)))


@pytest.mark.parametrize("form", FEW)
def test_text_that_is_none_stops_the_iteration(form, tmp_path):
    points = np.full((N, 3), ord("a"), "u4")
    points[17, 1] = 0xDC00
    flow = opened(form, tmp_path, points.view("U3").reshape(N))
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        list(flow.to_tf(4, shuffle=True))
    error = flow.last_error
    assert isinstance(error, nf.CastError)
    assert error.index == 17
    assert error.member == ("x" if "npz" in form or form == "shards" else None)
    assert str(error) in str(caught.value)


def test_batches_of_text_survive_the_flow(tmp_path):
    values = texts("U", (300, 3), 20)
    np.save(tmp_path / "x.npy", values)
    kept = list(nf.rows(tmp_path / "x.npy").to_tf(7))
    bitwise(np.concatenate([batch.numpy() for batch in kept]), as_strings(values))


# Small floats


def every(name):
    dtype = np.dtype(getattr(ml_dtypes, name))
    return np.arange(2 ** (8 * dtype.itemsize), dtype=f"u{dtype.itemsize}").view(dtype).reshape(-1, 4)


@pytest.mark.parametrize(
    ("name", "form"),
    [
        *(("bfloat16", form) for form in FORMS),
        *(("float8_e4m3fn", form) for form in FEW),
        *((name, "mmap") for name in ("float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2fnuz")),
    ],
)
def test_small_floats_bit_by_bit(form, name, tmp_path):
    values = every(name)
    values = values[:: len(values) // 64]
    flow = opened(form, tmp_path, values, dtype=name)
    try:
        known = tf.as_dtype(name)
    except TypeError:
        # An older TensorFlow.
        with pytest.raises(nf.UnsupportedDtypeError, match=f"has no type {name}"):
            flow.to_tf(5)
        return
    ds = flow.to_tf(5)
    assert ds.element_spec == tf.TensorSpec((None, 4), known)
    bitwise(all_of(flow) if name == "bfloat16" else np.concatenate(list(ds.as_numpy_iterator())), values)
    if name not in ("bfloat16", "float8_e4m3fn"):
        return
    # And TensorFlow takes them for the numbers that they are; of the others it knows the name alone.
    (floats,) = flow.to_tf(len(values)).map(lambda x: tf.cast(x, tf.float32)).as_numpy_iterator()
    np.testing.assert_array_equal(floats, values.astype("f4"))


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2fnuz"])
def test_single_examples_of_float8(name):
    """TensorFlow has no kernel that cuts them out of a batch."""
    with pytest.raises(nf.UnsupportedDtypeError, match="pass a batch_size"):
        nf.rows(every(name)).to_tf()


def test_tf_dtypes_name_them_too(tmp_path):
    values = every("bfloat16")[:10]
    np.save(tmp_path / "x.npy", values)
    for dtype in (tf.bfloat16, "bfloat16", ml_dtypes.bfloat16):
        bitwise(all_of(nf.rows(tmp_path / "x.npy", dtype=dtype)), values)


@pytest.mark.parametrize("given", ["named", "f1", "array", "field", "cast"])
def test_float8_e5m2_is_refused_when_the_dataset_is_made(given, tmp_path):
    values = every(UNRUNNABLE)
    if given == "array":
        flow = nf.rows(values)
    elif given == "field":
        record = np.zeros(4, [("a", "f4"), ("b", "V1")])
        flow = nf.rows(record, dtype={"b": UNRUNNABLE})
    elif given == "cast":
        flow = nf.rows(np.zeros(4), dtype=UNRUNNABLE)
    else:
        (tmp_path / "x.npy").write_bytes(saved(values) if given == "f1" else saved(values.view("V1")))
        flow = nf.rows(tmp_path / "x.npy", dtype=UNRUNNABLE)
    for batch in (None, 2):
        with pytest.raises(nf.UnsupportedDtypeError, match=UNRUNNABLE):
            flow.to_tf(batch)
    assert list(flow.batches(2))


def test_float32_rounds_to_bfloat16_and_says_what_does_not_fit(tmp_path):
    values = np.random.default_rng(0).standard_normal((N, 4)).astype("f4")
    values[0] = [np.nan, np.inf, -np.inf, 3.38e38]
    np.save(tmp_path / "x.npy", values)
    bitwise(all_of(nf.rows(tmp_path / "x.npy", dtype="bfloat16")), values.astype(ml_dtypes.bfloat16))
    values[9, 2] = 3.4e38
    np.save(tmp_path / "y.npy", values)
    flow = nf.rows(tmp_path / "y.npy", dtype=tf.bfloat16)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"y\.npy row 9 position \(2,\)"):
        list(flow.to_tf(4))


# Structured arrays

RECORD = np.dtype(
    [
        ("id", ">i8"),
        ("x", "<f4", (2, 3)),
        ("name", "<U5"),
        ("raw", "S3", (2,)),
        ("outer", [("inner", ">c8"), ("when", "<M8[s]"), ("deep", [("est", "?", (2,))], (3,))]),
    ],
    align=True,
)


def records(n=N):
    rng = np.random.default_rng(0)
    out = np.zeros(n, RECORD)
    out["id"], out["x"] = rng.integers(-99, 99, n), rng.standard_normal((n, 2, 3))
    out["name"], out["raw"] = texts("U", (n,), 5), texts("S", (n, 2), 3)
    out["outer"]["inner"] = rng.standard_normal(n) + 1j
    out["outer"]["when"] = rng.integers(-(2**40), 2**40, n).astype("i8").view("M8[s]")
    out["outer"]["deep"]["est"] = rng.integers(0, 2, (n, 3, 2))
    return out


def as_delivered(array):
    """NumPy's fields as nested dicts of what TensorFlow has."""
    if array.dtype.names:
        return {name: as_delivered(array[name]) for name in array.dtype.names}
    array = np.ascontiguousarray(array)
    array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype.kind in "US":
        return as_strings(array)
    return array.view("i8") if array.dtype.kind in "Mm" else array


@pytest.mark.parametrize("form", FORMS)
def test_structured_arrays_are_dicts_of_tensors(form, tmp_path):
    array = records()
    flow = opened(form, tmp_path, array)
    assert flow.to_tf(5).element_spec == {
        "id": tf.TensorSpec((None,), tf.int64),
        "x": tf.TensorSpec((None, 2, 3), tf.float32),
        "name": tf.TensorSpec((None,), tf.string),
        "raw": tf.TensorSpec((None, 2), tf.string),
        "outer": {
            "inner": tf.TensorSpec((None,), tf.complex64),
            "when": tf.TensorSpec((None,), tf.int64),
            "deep": {"est": tf.TensorSpec((None, 3, 2), tf.bool)},
        },
    }
    tf.nest.map_structure(bitwise, all_of(flow), as_delivered(array))


@pytest.mark.parametrize("form", [*FEW, "shards"])
def test_fields_that_are_chosen_and_cast(form, tmp_path):
    array = records()
    flow = opened(
        form, tmp_path, array, fields=({"x": "x", "t": "outer.when"}, "id"), dtype=({"x": "bfloat16"}, "int8")
    )
    features, target = all_of(flow)
    bitwise(features["x"], array["x"].astype(ml_dtypes.bfloat16))
    bitwise(features["t"], as_delivered(array["outer"]["when"]))
    bitwise(target, array["id"].astype("i1"))
    assert flow.spec[0]["t"].unit == "datetime64[s]"


def test_shuffled_records_stay_together(tmp_path):
    array = records(200)
    array["outer"]["when"] = array["id"].astype("i8").view("M8[s]")
    np.save(tmp_path / "x.npy", array)
    flow = nf.rows(tmp_path / "x.npy", fields=("id", "outer.when", "x"))
    seen = 0
    for index, (number, when, x) in flow.to_tf(7, shuffle=True, epochs=2, with_index=True):
        np.testing.assert_array_equal(number, when)
        np.testing.assert_array_equal(x, array["x"][index.numpy()])
        seen += len(index)
    assert seen == 400


def test_records_train_a_model(tmp_path):
    array = np.zeros(64, [("features", "<f8", (4,)), ("label", ">i2")])
    array["features"] = np.random.default_rng(0).standard_normal((64, 4))
    array["label"] = array["features"][:, 0] > 0
    np.savez_compressed(tmp_path / "x.npz", data=array)
    flow = nf.rows(nf.npz(tmp_path / "x.npz")["data"], fields=("features", "label"), dtype=("float32", "int32"))
    model = tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(2)])
    model.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    history = model.fit(flow.to_tf(16, shuffle=True), epochs=2, shuffle=False, verbose=0)
    assert len(history.history["loss"]) == 2


# Dates and longdouble


@pytest.mark.parametrize("form", ["mmap", *FEW])
@pytest.mark.parametrize("dtype", [">M8[s]", "<m8[25ns]"])
def test_dates_are_int64(form, dtype, tmp_path):
    counts = np.random.default_rng(0).integers(-(2**62), 2**62, (N, 2))
    counts[3, 1] = np.iinfo("i8").min
    array = counts.view(np.dtype(dtype).newbyteorder("=")).astype(dtype)
    flow = opened(form, tmp_path, array)
    assert flow.to_tf(5).element_spec.dtype == tf.int64
    assert flow.spec.unit == np.dtype(dtype).newbyteorder("=").name
    bitwise(all_of(flow), counts)


@pytest.mark.skipif(np.dtype("g").itemsize == 8, reason="longdouble is float64 here")
@pytest.mark.parametrize("form", ["mmap", *FEW])
def test_longdouble_by_explicit_cast(form, tmp_path):
    array = np.random.default_rng(0).standard_normal((N, 2)).astype("g") / 3
    bitwise(all_of(opened(form, tmp_path, array, dtype="float32")), array.astype("f4"))


# Archives


@pytest.mark.parametrize("compressed", [False, True])
def test_members_of_archives_through_epochs(compressed, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((N, 3, 2)).astype(">f4")
    save = np.savez_compressed if compressed else np.savez
    for at in range(N):
        save(tmp_path / f"{at}.npz", image=np.asfortranarray(x[at]), name=np.array(f"é{at}"), other=np.zeros(at))
    flow = nf.files(tmp_path, members={"image": ["img", "image"], "name": "name"}, labels=lambda key: int(key))
    assert flow.to_tf(4).element_spec == (
        {"image": tf.TensorSpec((None, 3, 2), tf.float32), "name": tf.TensorSpec((None,), tf.string)},
        tf.TensorSpec((None,), tf.int64),
    )
    for _ in range(2):
        seen = []
        for inputs, label in flow.to_tf(4, shuffle=True):
            numbers = label.numpy()
            np.testing.assert_array_equal(inputs["image"], x[numbers])
            assert inputs["name"].numpy().tolist() == [f"é{number}".encode() for number in numbers]
            seen += numbers.tolist()
        assert sorted(seen) == list(range(N))


def test_rows_of_compressed_members_are_inflated_once(tmp_path, monkeypatch):
    from npyflow._sources import payloads

    starts = []
    real = payloads.Inflater

    class Counted(real):
        def __init__(self, fd, start, packed):
            starts.append(start)
            super().__init__(fd, start, packed)

    monkeypatch.setattr(payloads, "Inflater", Counted)
    x = np.arange(1000, dtype="f4")
    np.savez_compressed(tmp_path / "x.npz", x=x, y=x)
    archive = nf.npz(tmp_path / "x.npz")
    ds = nf.rows((archive["x"], archive["y"])).to_tf(7, shuffle=True)
    for _ in range(3):
        assert sum(len(a) for a, b in ds if np.array_equal(a, b)) == 1000
    assert len(starts) == 2


@pytest.mark.parametrize("form", ["rows", "files"])
def test_a_damaged_member_stops_the_iteration(form, tmp_path):
    for at in range(6):
        with zipfile.ZipFile(tmp_path / f"{at}.npz", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("x.npy", saved(np.arange(200.0)))
    path = tmp_path / "3.npz"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    flow = nf.rows(str(tmp_path / "*.npz")) if form == "rows" else nf.files(tmp_path, members="x")
    with pytest.raises(tf.errors.OpError, match=r"3\.npz"):
        list(flow.to_tf(2))
    error = flow.last_error
    assert isinstance(error, nf.FileFormatError)
    assert (error.path, error.member, error.kind) == (str(path), "x", "npz-crc")


def test_a_saved_flow_of_everything_makes_the_same_dataset(tmp_path):
    array = records()
    for at in range(N):
        np.savez(tmp_path / f"{at}.npz", r=array[at : at + 1].reshape(()), v=every("bfloat16")[at])
    flow = nf.files(tmp_path, members=("r", "v"), fields=(("name", "outer"), None), dtype=(None, "bfloat16"))
    flow.save(tmp_path / "flow.json")
    again = nf.load(tmp_path / "flow.json")
    assert again.to_tf(4).element_spec == flow.to_tf(4).element_spec
    want = (
        (as_delivered(array["name"]), as_delivered(array["outer"])),
        every("bfloat16")[:N],
    )
    tf.nest.map_structure(bitwise, all_of(again, shuffle=False), want)
