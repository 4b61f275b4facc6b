"""Converted data sets, written shard by shard without a job."""

from __future__ import annotations

import hashlib
import itertools
import os
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from helpers import sample
from npyflow._core.spec import ArraySpec
from npyflow._core.structure import Structure
from npyflow._format.schema import SCHEMA_FILE, Column, Schema, Shard

N = 11
DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", "U3", "S4"]
SMALL = ["bfloat16", "float8_e4m3fn", "float8_e5m2"]
SHAPES = [(), (4,), (2, 3, 4), (0, 3)]


def dtype_of(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, name))


def values_of(name: str, shape: tuple[int, ...], n: int = N) -> np.ndarray[Any, Any]:
    dtype = dtype_of(name)
    return sample(n, shape, "f4").astype(dtype) if dtype.kind == "V" else sample(n, shape, dtype)


def cut(array: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """Examples of different lengths, some empty."""
    return [one[: at % (len(one) + 1)] for at, one in enumerate(array)]


def columns_of(values: list[Any], names: list[str] | None = None) -> list[Column]:
    """A column for each: an array of examples, or a list of them, of which axis 0 varies."""
    found = []
    for at, one in enumerate(values):
        shape = (None, *one[0].shape[1:]) if isinstance(one, list) else one.shape[1:]
        dtype = one[0].dtype if isinstance(one, list) else one.dtype
        found.append(Column(name=names[at] if names else f"c{at}", spec=ArraySpec(shape, dtype)))
    return found


def write_shard(form: Any, path: Any, columns: list[Column], values: list[Any], chunk: int = 4) -> dict[str, Any]:
    count = len(values[0])
    writer = form.create([str(path)], columns, count)
    try:
        for start in range(0, count, chunk):
            writer.write([one[start : start + chunk] for one in values])
        return writer.close()
    except BaseException:
        writer.abandon()
        raise


def read_shard(form: Any, path: Any, columns: list[Column], count: int, facts: Any = None) -> list[Any]:
    """All examples, read a few at a time."""
    counts = [5] * (count // 5) + [count % 5] * (count % 5 > 0)
    parts = list(form.read([str(path)], columns, facts or {}, counts))
    assert [len(part[0]) for part in parts] == counts
    return [
        [one for part in parts for one in part[leaf]]
        if column.spec.varying
        else np.concatenate([part[leaf] for part in parts])
        for leaf, column in enumerate(columns)
    ]


def identical(got: Any, want: Any) -> None:
    """The same dtype, shape and bits."""
    assert isinstance(got, list) == isinstance(want, list)
    for one, other in zip(got, want, strict=True) if isinstance(want, list) else [(got, want)]:
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert one.tobytes() == np.ascontiguousarray(other).tobytes()


def write_stored(
    folder: Path, form: Any, tree: Any, cuts: tuple[int, ...] = (0, 5, N), *, keys: Any = None, classes: Any = None
) -> Schema:
    """A whole data set; the leaves of `tree` are what `columns_of` takes."""
    structure: Structure[Any] = Structure(tree)
    names = [name.replace("[", "").replace("]", "") or "data" for name in structure.names]
    values = structure.leaves
    columns = columns_of(values, names)
    form.check(columns)
    folder.mkdir(parents=True, exist_ok=True)
    shards = []
    for number, (start, stop) in enumerate(itertools.pairwise(cuts)):
        (name,) = form.files(f"data-{number:05d}-of-{len(cuts) - 1:05d}", columns)
        facts = write_shard(form, folder / name, columns, [one[start:stop] for one in values])
        content = (folder / name).read_bytes()
        shards.append(
            Shard(
                examples=stop - start,
                files=(name,),
                sizes=(os.path.getsize(folder / name),),
                sha256=(hashlib.sha256(content).hexdigest(),),
                facts=facts,
            )
        )
    schema = Schema(
        to=form.name,
        options=form.options,
        structure=Structure(structure.pack(names)),
        columns=tuple(columns),
        keys=keys,
        classes=classes,
        shards=tuple(shards),
    )
    (folder / SCHEMA_FILE).write_bytes(schema.to_json())
    return schema
