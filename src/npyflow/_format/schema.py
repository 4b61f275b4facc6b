"""The file beside converted data that says what is in it: JSON in, `Schema` out.

TFRecord, ArrayRecord and Parquet keep values; the nesting, shapes, dtypes, keys, class names and checksums of a flow
are kept here, so that it comes back as it was.
"""

from __future__ import annotations

import json
import math
import operator
import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npyflow._core.dtypes import as_dtype, dtype_text, is_delivered, native
from npyflow._core.errors import FileFormatError
from npyflow._core.spec import ArraySpec
from npyflow._core.structure import Structure, tree_in, tree_out
from npyflow._core.text import show_path

# Beside the shards. Readers of folders, such as that of pandas, pass over what begins with an underscore.
SCHEMA_FILE = "_npyflow.json"
# In the folder while it is being written.
JOB_FOLDER = ".npyflow-job"

SCHEMA_FORMAT = "npyflow dataset"
_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One component of every example.

    Parameters
    ----------
    name : str
        Of the feature, the column or the file: unique, of letters, digits, ``_``, ``-`` and ``.``.
    spec : ArraySpec
        Shape and dtype of one example, as delivered.
    """

    name: str
    spec: ArraySpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """Neighbouring examples, written by one task.

    Parameters
    ----------
    examples : int
        How many.
    files : tuple of str
        Names in the folder of the data set.
    sizes : tuple of int
        Their bytes.
    sha256 : tuple of str
        Their checksums, as ``sha256sum`` prints them.
    facts : dict
        What else the format wants to know of them, as JSON.
    """

    examples: int
    files: tuple[str, ...]
    sizes: tuple[int, ...]
    sha256: tuple[str, ...]
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """What a converted data set is.

    Parameters
    ----------
    to : str
        ``"tfrecord"``, ``"parquet"`` or ``"arrayrecord"``.
    options : dict
        Of the format, such as its encoding and compression.
    structure : Structure of str
        The nesting of an example; leaves are the names of the components.
    columns : tuple of Column
        In the order of the leaves.
    keys : tuple of str or None
        A key an example.
    classes : tuple of str or None
        What class numbers mean.
    shards : tuple of Shard
        In order.
    """

    to: str
    options: dict[str, Any]
    structure: Structure[Any]
    columns: tuple[Column, ...]
    keys: tuple[str, ...] | None
    classes: tuple[str, ...] | None
    shards: tuple[Shard, ...]

    @property
    def examples(self) -> int:
        """In all shards."""
        return sum(shard.examples for shard in self.shards)

    @property
    def specs(self) -> Any:
        """Shape and dtype of each component, nested as the examples are."""
        return self.structure.pack([column.spec for column in self.columns])

    def to_json(self) -> bytes:
        """Return the file's content: a line a fact, so that people can read it and tools can compare it."""
        facts = {
            "format": SCHEMA_FORMAT,
            "version": _VERSION,
            "to": self.to,
            "options": self.options,
            "structure": tree_out(self.structure),
            "names": self.structure.leaves,
            "columns": [
                {
                    "name": one.name,
                    "dtype": dtype_text(one.spec.dtype),
                    "shape": one.spec.shape,
                    "unit": one.spec.unit,
                }
                for one in self.columns
            ],
            "examples": self.examples,
            "classes": self.classes,
            "shards": [
                {
                    "examples": shard.examples,
                    "files": shard.files,
                    "sizes": shard.sizes,
                    "sha256": shard.sha256,
                    "facts": shard.facts,
                }
                for shard in self.shards
            ],
            "keys": self.keys,
        }
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in facts.items())
        return f"{{\n{lines}\n}}\n".encode("ascii")


def parse_schema(content: bytes, path: str) -> Schema:
    """Return the schema that a file holds.

    Parameters
    ----------
    content : bytes
        Of the file.
    path : str
        Its name, for messages.

    Raises
    ------
    FileFormatError
        If it is none, or damaged.
    """
    name = show_path(path)
    try:
        facts = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{name} describes no npyflow data set: {error}", path=path) from None
    if not isinstance(facts, dict) or facts.get("format") != SCHEMA_FORMAT:
        raise FileFormatError(f"{name} describes no npyflow data set; `npyflow convert` writes one", path=path)
    if facts.get("version") != _VERSION:
        raise FileFormatError(
            f"{name} has version {facts.get('version')}; this npyflow reads {_VERSION}: convert again", path=path
        )
    try:
        return _schema_in(facts)
    except (RecursionError, AttributeError, KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise FileFormatError(
            f"{name} is damaged ({type(error).__name__}: {error}); convert again", path=path
        ) from None


def _schema_in(facts: dict[str, Any]) -> Schema:
    columns = tuple(_column_in(one) for one in facts["columns"])
    names = _texts(facts["names"])
    structure: Structure[Any] = Structure(tree_in(facts["structure"], names))
    shards = tuple(map(parse_shard, facts["shards"]))
    schema = Schema(
        to=str(facts["to"]),
        options=dict(facts["options"]),
        structure=structure,
        columns=columns,
        keys=None if facts["keys"] is None else _texts(facts["keys"]),
        classes=None if facts["classes"] is None else _texts(facts["classes"]),
        shards=shards,
    )
    if not 0 < len(structure.leaves) == len(names) == len(columns) == len({column.name for column in columns}):
        raise ValueError("the structure does not fit the columns")
    if schema.examples != facts["examples"] or (schema.keys is not None and len(schema.keys) != schema.examples):
        raise ValueError("the number of examples does not agree")
    return schema


def _column_in(facts: dict[str, Any]) -> Column:
    dtype = as_dtype(facts["dtype"])
    if dtype is None or not is_delivered(dtype) or dtype != native(dtype):
        raise ValueError(f"a column of dtype {facts['dtype']}")
    shape = tuple(None if size is None else operator.index(size) for size in facts["shape"])
    # The product of what is fixed, in Python integers: NumPy's would overflow.
    elements = math.prod(1 if size is None else size for size in shape)
    if any(size is not None and size < 0 for size in shape) or elements * dtype.itemsize > sys.maxsize:
        raise ValueError(f"a column of shape {shape}")
    unit = None if facts["unit"] is None else str(facts["unit"])
    if unit is not None and (np.dtype(unit).kind not in "Mm" or "[" not in unit or dtype != np.int64):
        raise ValueError(f"a column that counts {unit}")
    return Column(name=str(facts["name"]), spec=ArraySpec(shape, dtype, unit))


def parse_shard(facts: dict[str, Any]) -> Shard:
    """Return a shard as a schema, or the manifest of packed data, has it.

    Raises
    ------
    AttributeError, KeyError, TypeError, ValueError
        If it is none, or points out of its folder.
    """
    files = _texts(facts["files"])
    # Names in one folder: nothing in the file may point elsewhere.
    if any(name in ("", ".", "..") or any(sign in name for sign in "/\\\0") for name in files):
        raise ValueError("a shard outside the folder")
    for name in files:
        name.encode("utf-8")  # a lone surrogate is a ValueError
    shard = Shard(
        examples=operator.index(facts["examples"]),
        files=files,
        sizes=tuple(map(operator.index, facts["sizes"])),
        sha256=_texts(facts["sha256"]),
        facts=dict(facts["facts"]),
    )
    if shard.examples < 0 or not 0 < len(files) == len(shard.sizes) == len(shard.sha256):
        raise ValueError("a shard whose numbers do not agree")
    return shard


def _texts(values: Any) -> tuple[str, ...]:
    if not all(isinstance(value, str) for value in values):
        raise TypeError("expected a list of texts")
    return tuple(values)
