"""Files that change after opening: an error of TensorFlow's that names the file, and ours behind it."""

import os

import numpy as np
import pytest
from tf_support import open_form, tf

import npyflow as nf

pytestmark = pytest.mark.tf


def truncate(path):
    os.truncate(path, path.stat().st_size - 8)


def cut_to_nothing(path):
    os.truncate(path, 0)


def grow(path):
    with open(path, "ab") as file:
        file.write(b"\0" * 8)


def remove(path):
    path.unlink()


def replace(path):
    """Put another array of the same size and dtype there, a second younger."""
    stat = path.stat()
    np.save(path.with_suffix(".new.npy"), np.load(path) + 1)
    os.replace(path.with_suffix(".new.npy"), path)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 10**9))


def rewrite_header(path):
    """Turn float32 into int32; size and time stay."""
    stat = path.stat()
    data = path.read_bytes()
    path.write_bytes(data.replace(b"'<f4'", b"'<i4'"))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


DAMAGES = [truncate, cut_to_nothing, grow, remove, replace, rewrite_header]


def rows(n=200, width=4):
    return np.arange(n * width, dtype=np.float32).reshape(n, width)


def assert_names_the_change(flow, caught, path):
    assert isinstance(flow.last_error, nf.FileChangedError)
    assert flow.last_error.path == str(path)
    # Two reads may fail at one time; TensorFlow tells of the earlier one, last_error of the later.
    assert str(flow.last_error).partition(": ")[0] in str(caught.value)
    assert f"{path.name} changed after it was scanned" in str(caught.value)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("form", ["mmap", "read", "files"])
def test_changed_before_the_first_batch(form, damage, tmp_path):
    flow = open_form(form, tmp_path, rows(), np.arange(200))
    path = tmp_path / ("one/77.npy" if form == "files" else "x.npy")
    ds = flow.to_tf(8, shuffle=True)
    damage(path)
    with pytest.raises(tf.errors.OpError) as caught:
        list(ds)
    assert_names_the_change(flow, caught, path)


@pytest.mark.parametrize("damage", [truncate, cut_to_nothing, grow, remove, replace], ids=lambda f: f.__name__)
@pytest.mark.parametrize("form", ["read", "files"])
def test_changed_in_the_middle(form, damage, tmp_path):
    # Batches of 1.2 MB, a read each: after the first one most are still to be read.
    x = rows(120, 30_000)
    flow = open_form(form, tmp_path, x, np.arange(120))
    path = tmp_path / ("one/119.npy" if form == "files" else "x.npy")
    iterator = iter(flow.to_tf(10))
    np.testing.assert_array_equal(next(iterator)[0], x[:10])
    damage(path)

    def go_on():
        for xb, yb in iterator:
            np.testing.assert_array_equal(xb, x[yb.numpy()])

    with pytest.raises(tf.errors.OpError) as caught:
        go_on()
    assert_names_the_change(flow, caught, path)


@pytest.mark.parametrize("damage", [remove, replace], ids=lambda f: f.__name__)
def test_a_mapped_file_changed_between_passes(damage, tmp_path):
    x = rows()
    flow = open_form("mmap", tmp_path, x, np.arange(200))
    ds = flow.to_tf(8)
    held = list(ds)
    damage(tmp_path / "x.npy")
    with pytest.raises(tf.errors.OpError) as caught:
        list(ds)
    assert_names_the_change(flow, caught, tmp_path / "x.npy")
    np.testing.assert_array_equal(np.concatenate([xb for xb, _ in held]), x)


def test_single_examples_fail_alike(tmp_path):
    flow = open_form("files", tmp_path, rows(), np.arange(200))
    remove(tmp_path / "one" / "77.npy")
    with pytest.raises(tf.errors.OpError) as caught:
        list(flow.to_tf())
    assert_names_the_change(flow, caught, tmp_path / "one" / "77.npy")


def test_the_second_component_is_named(tmp_path):
    flow = open_form("read", tmp_path, rows(), np.arange(200))
    truncate(tmp_path / "y.npy")
    with pytest.raises(tf.errors.OpError) as caught:
        list(flow.to_tf(8))
    assert_names_the_change(flow, caught, tmp_path / "y.npy")


def test_a_shard_is_named(tmp_path):
    flow = open_form("shards", tmp_path, rows(), np.arange(200))
    remove(tmp_path / "x-2.npy")
    with pytest.raises(tf.errors.OpError) as caught:
        list(flow.to_tf(8))
    assert_names_the_change(flow, caught, tmp_path / "x-2.npy")


def test_an_odd_name_is_readable_in_the_error(tmp_path):
    path = tmp_path / "été 数据 #1.npy"
    np.save(path, rows())
    flow = nf.rows(path)
    remove(path)
    with pytest.raises(tf.errors.OpError) as caught:
        list(flow.to_tf(8))
    assert_names_the_change(flow, caught, path)


def test_opened_from_a_manifest_a_change_is_caught_when_read(tmp_path):
    open_form("mmap", tmp_path, rows(), np.arange(200)).save(tmp_path / "flow.json")
    replace(tmp_path / "x.npy")
    flow = nf.load(tmp_path / "flow.json")
    with pytest.raises(tf.errors.OpError) as caught:
        list(flow.to_tf(8))
    assert_names_the_change(flow, caught, tmp_path / "x.npy")


def test_rows_in_ram_do_not_care(tmp_path):
    flow = open_form("ram", tmp_path, rows(), np.arange(200))
    remove(tmp_path / "x.npy")
    np.testing.assert_array_equal(np.concatenate([x for x, _ in flow.to_tf(8)]), rows())


@pytest.mark.parametrize("form", ["arrays", "mmap", "read", "files"])
def test_a_closed_flow_says_so(form, tmp_path):
    flow = open_form(form, tmp_path, rows(), np.arange(200))
    ds = flow.to_tf(8)
    flow.close()
    with pytest.raises(tf.errors.OpError, match="closed"):
        list(ds)
    assert isinstance(flow.last_error, nf.ClosedError)


def test_after_an_error_a_whole_file_reads_again(tmp_path):
    x = rows()
    flow = open_form("read", tmp_path, x, np.arange(200))
    ds = flow.to_tf(8)
    os.rename(tmp_path / "x.npy", tmp_path / "away")
    with pytest.raises(tf.errors.OpError):
        list(ds)
    os.rename(tmp_path / "away", tmp_path / "x.npy")
    np.testing.assert_array_equal(np.concatenate([xb for xb, _ in ds]), x)
