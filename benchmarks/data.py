"""The files that the workloads read. Made once, kept in one folder."""

from __future__ import annotations

import math
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
# Sequences of a random length between these, of so many values a step.
LENGTHS = (50, 800)
MELS = 80
CHANNELS = 8
LONG_TIMES = 4
VOLUME = (256, 256, 256)
WIDE_ROW = (64,)
SPECTRUM = (4005,)
# Ways to store the same array otherwise than native and in C order.
LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "big-endian": lambda array: array.astype(array.dtype.newbyteorder(">")),
    "fortran": np.asfortranarray,
}
_CHUNK = 8192
_ALIGNED_TO = 64
_MASKED_OVER = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    rows: int
    small: int
    images: int
    sequences: int
    steps: int
    volumes: int
    wide_rows: int
    spectra: int


FULL = Sizes(
    rows=200_000,
    small=20_000,
    images=3_000,
    sequences=5_000,
    steps=2_000_000,
    volumes=20,
    wide_rows=7_812_500,
    spectra=20_000,
)
QUICK = Sizes(
    rows=40_000, small=4_000, images=600, sequences=600, steps=200_000, volumes=4, wide_rows=781_250, spectra=2_000
)


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
        return _make(self.root / "x-sparse.npy", lambda path: _write_zeros(path, (SPARSE_ROWS, *ROW)))

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

    @property
    def sequences(self) -> Path:
        """A folder of files ``<f4 (T, 80)``."""
        return _make(self.root / "sequences", lambda path: _write_sequences(path, self.sizes.sequences))

    @property
    def series(self) -> Path:
        """``<f4 (steps, 8)``, whose first column is the number of the step."""
        return _make(self.root / "series.npy", lambda path: _write_series(path, self.sizes.steps))

    @property
    def long_series(self) -> Path:
        """A series `LONG_TIMES` as long, zeros that take no disk."""
        shape = (LONG_TIMES * self.sizes.steps, CHANNELS)
        return _make(self.root / "series-long.npy", lambda path: _write_zeros(path, shape))

    @property
    def volumes(self) -> Path:
        """A folder of files ``<f4 (256, 256, 256)``."""
        return _make(self.root / "volumes", lambda path: _write_volumes(path, self.sizes.volumes))

    @property
    def masks(self) -> Path:
        """A folder of files ``|u1 (256, 256, 256)``, named like `volumes`."""
        return _make(self.root / "masks", lambda path: _write_masks(path, self.volume_paths))

    @property
    def wide(self) -> Path:
        """Rows ``<f4 (rows, 64)``, 2 GB of random numbers in a full run."""
        return _make(self.root / "wide.npy", lambda path: _write_random(path, (self.sizes.wide_rows, *WIDE_ROW)))

    @property
    def spectra(self) -> Path:
        """Rows ``<f4 (rows, 4005)``."""
        return _make(self.root / "spectra.npy", lambda path: _write_random(path, (self.sizes.spectra, *SPECTRUM)))

    @cached_property
    def sequence_paths(self) -> list[str]:
        return sorted(str(path) for path in self.sequences.glob("*.npy"))

    @cached_property
    def volume_paths(self) -> list[str]:
        return sorted(str(path) for path in self.volumes.glob("*.npy"))

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
        series = (self.series, self.long_series, self.wide, self.spectra)
        folders = (self.small, self.images, self.sequences, self.volumes, self.masks)
        for path in (*rows, *series, *folders, *files):
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


def _write_zeros(path: Path, shape: tuple[int, ...]) -> None:
    header = _header(shape, 2 * _ALIGNED_TO)
    with path.open("wb") as file:
        file.write(header)
        file.truncate(len(header) + math.prod(shape) * 4)


def _write_random(path: Path, shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(6)
    with path.open("wb") as file:
        file.write(_header(shape, 2 * _ALIGNED_TO))
        for start in range(0, shape[0], _CHUNK):
            count = min(_CHUNK, shape[0] - start)
            file.write(random.random((count, *shape[1:]), dtype=np.float32).tobytes())


def _write_series(path: Path, steps: int) -> None:
    series = np.random.default_rng(4).random((steps, CHANNELS), dtype=np.float32)
    series[:, 0] = np.arange(steps)  # exact up to 2**24
    np.save(path, series)


def _member() -> Array:
    return np.random.default_rng(3).random(MEMBER, dtype=np.float32)


def _write_files(folder: Path, count: int, shape: tuple[int, ...]) -> None:
    folder.mkdir()
    array = np.random.default_rng(2).random(shape, dtype=np.float32)
    for number in range(count):
        array.flat[0] = number
        np.save(folder / f"{number}.npy", array)


def _write_sequences(folder: Path, count: int) -> None:
    folder.mkdir()
    random = np.random.default_rng(5)
    shortest, longest = LENGTHS
    for number, steps in enumerate(random.integers(shortest, longest, count, endpoint=True)):
        np.save(folder / f"{number}.npy", random.random((steps, MELS), dtype=np.float32))


def _write_volumes(folder: Path, count: int) -> None:
    folder.mkdir()
    random = np.random.default_rng(7)
    for number in range(count):
        np.save(folder / f"{number}.npy", random.random(VOLUME, dtype=np.float32))


def _write_masks(folder: Path, volumes: list[str]) -> None:
    folder.mkdir()
    for path in volumes:
        np.save(folder / Path(path).name, (np.load(path) > _MASKED_OVER).astype(np.uint8))


def _write_as(folder: Path, paths: list[str], stored: Callable[[Array], Array]) -> None:
    folder.mkdir()
    for path in paths:
        np.save(folder / Path(path).name, stored(np.load(path)))


def _write_records(path: Path, paths: list[str]) -> None:
    import tensorflow as tf

    with tf.io.TFRecordWriter(str(path)) as writer:
        for source in paths:
            writer.write(np.load(source).tobytes())
