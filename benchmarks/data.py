"""The files that the workloads read. Made once, kept in one folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

ROW = (784,)
SMALL = (32, 32)
IMAGE = (128, 128, 3)
MEMBER = (20_000, 256)
SPARSE_ROWS = 8 * 10**9 // (4 * ROW[0]) + 1
# Ways to store the same array otherwise than native and in C order.
LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "big-endian": lambda array: array.astype(array.dtype.newbyteorder(">")),
    "fortran": np.asfortranarray,
}
_CHUNK = 8192
_ALIGNED_TO = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    rows: int
    small: int
    images: int


FULL = Sizes(rows=200_000, small=20_000, images=3_000)
QUICK = Sizes(rows=40_000, small=4_000, images=600)


@dataclass(frozen=True)
class Data:
    """Paths below `root`. Whatever is missing is made when it is asked for, under another name until it is whole."""

    root: Path
    sizes: Sizes = FULL

    @property
    def x(self) -> Path:
        """Features, ``<f4 (rows, 784)``."""
        return _make(self.root / "x.npy", lambda path: _write_x(path, self.sizes.rows))

    @property
    def y(self) -> Path:
        """Labels, ``<i8 (rows,)``."""
        return _make(self.root / "y.npy", lambda path: _write_y(path, self.sizes.rows))

    @property
    def unaligned(self) -> Path:
        """`x` with a header of an odd length."""
        return _make(self.root / "x-unaligned.npy", lambda path: _write_unaligned(path, self.x))

    @property
    def sparse(self) -> Path:
        """Rows like those of `x`, 8 GB of zeros that take no disk."""
        return _make(self.root / "x-sparse.npy", _write_sparse)

    @property
    def sparse_labels(self) -> Path:
        return _make(self.root / "y-sparse.npy", lambda path: _write_y(path, SPARSE_ROWS))

    @property
    def small(self) -> Path:
        """A folder of files ``<f4 (32, 32)``."""
        return _make(self.root / "small", lambda path: _write_files(path, self.sizes.small, SMALL))

    @property
    def images(self) -> Path:
        """A folder of files ``<f4 (128, 128, 3)``."""
        return _make(self.root / "img", lambda path: _write_files(path, self.sizes.images, IMAGE))

    def small_as(self, layout: str) -> Path:
        """The arrays of `small`, stored in one of `LAYOUTS`."""
        return _make(self.root / f"small-{layout}", lambda path: _write_as(path, self.small_paths, LAYOUTS[layout]))

    def images_as(self, layout: str) -> Path:
        """The arrays of `images`, stored in one of `LAYOUTS`."""
        return _make(self.root / f"img-{layout}", lambda path: _write_as(path, self.image_paths, LAYOUTS[layout]))

    @property
    def member(self) -> Path:
        """An archive whose stored member ``x`` is ``<f4 (20000, 256)``."""
        return _make(self.root / "rows.npz", lambda path: np.savez(path, x=_member()))

    @property
    def member_alone(self) -> Path:
        """The array of `member` as a file of its own."""
        return _make(self.root / "rows.npy", lambda path: np.save(path, _member()))

    @cached_property
    def small_paths(self) -> list[str]:
        return sorted(str(path) for path in self.small.glob("*.npy"))

    @cached_property
    def image_paths(self) -> list[str]:
        return sorted(str(path) for path in self.images.glob("*.npy"))

    def records(self, folder: Path, paths: list[str]) -> Path:
        """The arrays of `paths` as a TFRecord file of raw bytes."""
        return _make(self.root / f"{folder.name}.tfrecord", lambda path: _write_records(path, paths))

    def prepare(self) -> None:
        """Make what needs no TensorFlow."""
        rows = (self.x, self.y, self.unaligned, self.sparse, self.sparse_labels, self.member, self.member_alone)
        files = (folder for layout in LAYOUTS for folder in (self.small_as(layout), self.images_as(layout)))
        for path in (*rows, self.small, self.images, *files):
            if not path.exists():
                raise FileNotFoundError(path)


def _make(path: Path, write: Callable[[Path], None]) -> Path:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.stem}.part{path.suffix}")
        if part.is_dir():
            shutil.rmtree(part)
        write(part)
        os.replace(part, path)
    return path


def _write_x(path: Path, rows: int) -> None:
    random = np.random.default_rng(0)
    out = np.lib.format.open_memmap(path, mode="w+", dtype="<f4", shape=(rows, *ROW))
    for start in range(0, rows, _CHUNK):
        block = out[start : start + _CHUNK]
        block[:] = random.integers(0, 255, block.shape, dtype=np.uint8)
    out.flush()


def _write_y(path: Path, rows: int) -> None:
    np.save(path, np.random.default_rng(1).integers(0, 10, rows))


def _header(shape: tuple[int, ...], length: int) -> bytes:
    """A version 1.0 header of exactly `length` bytes."""
    text = repr({"descr": "<f4", "fortran_order": False, "shape": shape})
    return b"\x93NUMPY\x01\x00" + (length - 10).to_bytes(2, "little") + text.ljust(length - 11).encode() + b"\n"


def _write_unaligned(path: Path, aligned: Path) -> None:
    x = np.load(aligned, mmap_mode="r")
    with path.open("wb") as file:
        file.write(_header(x.shape, 2 * _ALIGNED_TO + 1))
        for start in range(0, len(x), _CHUNK):
            file.write(x[start : start + _CHUNK].tobytes())


def _write_sparse(path: Path) -> None:
    header = _header((SPARSE_ROWS, *ROW), 2 * _ALIGNED_TO)
    with path.open("wb") as file:
        file.write(header)
        file.truncate(len(header) + SPARSE_ROWS * ROW[0] * 4)


def _member() -> Array:
    return np.random.default_rng(3).random(MEMBER, dtype=np.float32)


def _write_files(folder: Path, count: int, shape: tuple[int, ...]) -> None:
    folder.mkdir()
    array = np.random.default_rng(2).random(shape, dtype=np.float32)
    for number in range(count):
        array.flat[0] = number
        np.save(folder / f"{number}.npy", array)


def _write_as(folder: Path, paths: list[str], stored: Callable[[Array], Array]) -> None:
    folder.mkdir()
    for path in paths:
        np.save(folder / Path(path).name, stored(np.load(path)))


def _write_records(path: Path, paths: list[str]) -> None:
    import tensorflow as tf

    with tf.io.TFRecordWriter(str(path)) as writer:
        for source in paths:
            writer.write(np.load(source).tobytes())
