"""Buffers are aligned, come back only when nobody can see them, and do not pile up."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

from helpers import DTYPES
from npyflow._core.buffers import ALIGNMENT, BufferPool

F4 = np.dtype("f4")


@pytest.mark.parametrize("dtype", [*DTYPES, ">f4", ">c16"])
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5, 2), (1000, 33), (70_000,)])
def test_shape_dtype_alignment(dtype, shape):
    pool = BufferPool(keep_bytes=1 << 20)
    for _ in range(3):
        array = pool.empty(shape, np.dtype(dtype))
        assert (array.shape, array.dtype) == (shape, np.dtype(dtype))
        assert array.ctypes.data % ALIGNMENT == 0
        assert array.flags.c_contiguous
        assert array.flags.writeable
        array[...] = 1
        assert (array == 1).all()


@pytest.mark.parametrize("shape", [(0,), (5, 0), (0, 3)])
def test_nothing(shape):
    pool = BufferPool(keep_bytes=1 << 20)
    assert pool.empty(shape, F4).shape == shape
    assert pool.idle_bytes == 0


def test_memory_is_used_again():
    pool = BufferPool(keep_bytes=1 << 20)
    array = pool.empty((1000,), F4)
    address = array.ctypes.data
    assert pool.idle_bytes == 0
    del array
    assert pool.idle_bytes >= 4000
    again = pool.empty((1000,), F4)
    assert again.ctypes.data == address
    assert pool.idle_bytes == 0
    del again
    # A short last batch shares the buffer of the full ones.
    assert pool.empty((600,), F4).ctypes.data == address


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[3:5],
        lambda a: a.reshape(10, 100).T[5],
        lambda a: a.view("u1"),
        lambda a: a[7:8].view("i4").reshape(()),
        lambda a: memoryview(a),
        lambda a: np.asarray(memoryview(a)[4:]),
        lambda a: np.lib.stride_tricks.as_strided(a, (2,), (4,)),
        lambda a: iter(a[:10]),
        lambda a: np.from_dlpack(a),
    ],
)
def test_memory_stays_lent_until_the_last_view_dies(view):
    pool = BufferPool(keep_bytes=1 << 20)
    array = pool.empty((1000,), F4)
    array[:] = 7
    address = array.ctypes.data
    held = view(array)
    del array
    gc.collect()
    assert pool.idle_bytes == 0
    others = [pool.empty((1000,), F4) for _ in range(5)]
    for other in others:
        assert other.ctypes.data != address
        other[:] = 0
    assert set(np.asarray(list(held) if hasattr(held, "__next__") else held).ravel().view("u1")[:4].tolist()) != {0}
    del held, other
    gc.collect()
    assert pool.empty((1000,), F4).ctypes.data == address


def test_many_held_buffers_never_overlap():
    pool = BufferPool(keep_bytes=1 << 16)
    held = []
    for n in range(200):
        array = pool.empty((50 + n,), F4)
        array[:] = n
        held.append(array)
        if n % 3 == 0:
            del held[len(held) // 2]
    for array in held:
        assert (array == array[0]).all()
    assert len({int(array[0]) for array in held}) == len(held)


def test_it_trims_itself_oldest_first():
    pool = BufferPool(keep_bytes=100_000)
    held = [pool.empty((size,), np.dtype("u1")) for size in (30_000, 40_000, 50_000, 60_000)]
    newest = held[-1].ctypes.data
    for _ in range(4):
        held.pop(0)
        assert pool.idle_bytes <= 100_000
    assert pool.idle_bytes > 0
    assert pool.empty((60_000,), np.dtype("u1")).ctypes.data == newest


def test_what_is_larger_than_the_limit_is_not_kept():
    pool = BufferPool(keep_bytes=1000)
    array = pool.empty((100_000,), F4)
    del array
    assert pool.idle_bytes == 0


def test_the_limit_only_rises():
    pool = BufferPool(keep_bytes=1000)
    pool.keep(1 << 20)
    pool.keep(10)
    array = pool.empty((100_000,), F4)
    del array
    assert pool.idle_bytes >= 400_000


def test_close_frees_what_is_idle_and_what_comes_back():
    pool = BufferPool(keep_bytes=1 << 20)
    held, idle = pool.empty((1000,), F4), pool.empty((1000,), F4)
    del idle
    assert pool.idle_bytes > 0
    pool.close()
    assert pool.idle_bytes == 0
    held[:] = 3
    assert (held == 3).all()
    del held
    assert pool.idle_bytes == 0


def test_the_pool_may_die_first():
    pool = BufferPool(keep_bytes=1 << 20)
    array = pool.empty((1000,), F4)
    array[:] = 5
    del pool
    gc.collect()
    assert (array == 5).all()


def test_threads():
    pool = BufferPool(keep_bytes=1 << 20)
    wrong = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        held = []
        for n in range(400):
            array = pool.empty((int(rng.integers(1, 3000)),), np.dtype("i8"))
            array[:] = seed * 1000 + n
            held.append((array, seed * 1000 + n))
            if len(held) > 5:
                array, value = held.pop(int(rng.integers(0, 5)))
                if not (array == value).all():
                    wrong.append(value)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert not wrong
    assert 0 < pool.idle_bytes <= 1 << 20
    pool.close()
    assert pool.idle_bytes == 0
