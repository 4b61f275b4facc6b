"""Folders that npyflow wrote, in whatever format."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from npyflow._core.errors import OptionError
from npyflow._flow.flow import Flow
from npyflow._flow.load import load
from npyflow._flow.stored import stored_flow as open_converted
from npyflow._format.schema import SCHEMA_FILE, SCHEMA_FORMAT, parse_schema

if TYPE_CHECKING:
    from npyflow._flow.view import View


def stored_format(folder: str | os.PathLike[str]) -> str | None:
    """Return the name of the format, as in ``--to``; None if npyflow did not write the folder."""
    try:
        with open(os.path.join(folder, SCHEMA_FILE), encoding="utf-8", errors="replace") as file:
            start = file.read(200)
    except OSError:
        return None
    if SCHEMA_FORMAT not in start:
        return "npy"
    return next((name for name in ("tfrecord", "parquet", "arrayrecord") if f'"to": "{name}"' in start), None)


def open_stored(folder: str | os.PathLike[str]) -> Any:
    """Open a folder that npyflow wrote: a `Flow`, or `TFRecords`, which TensorFlow reads one after another.

    Raises
    ------
    NpyflowError
        If it cannot be opened.
    """
    to = stored_format(folder)
    if to == "tfrecord":
        from npyflow._flow.tfrecords import open_tfrecord

        return open_tfrecord(folder)
    return stored_flow(folder)


def stored_flow(folder: str | os.PathLike[str]) -> Flow:
    """Open a folder that npyflow wrote with every example by its number, TFRecord too, which is for going back.

    Raises
    ------
    NpyflowError
        If it cannot be opened.
    """
    to = stored_format(folder)
    if to in ("parquet", "arrayrecord", "tfrecord"):
        return open_converted(folder, to)
    return load(folder)


def view_of(flow: Any) -> View:
    """The examples of a flow, or of TFRecord that was opened.

    Raises
    ------
    OptionError
        If it is something else.
    """
    if isinstance(flow, Flow):
        return flow._view
    from npyflow._flow.tfrecords import TFRecords

    if isinstance(flow, TFRecords):
        return stored_flow(flow.folder)._view
    raise OptionError(
        f"expected a Flow, as npyflow.files(folder) or npyflow.rows(file) return it, got {type(flow).__name__}"
    )


class Facts(NamedTuple):
    """What a job has written.

    Parameters
    ----------
    examples, shards, nbytes : int
        In all.
    varying : bool
        Whether examples differ in shape.
    snippet : str
        A program that reads it with TensorFlow alone, if it is TFRecord; else empty.
    """

    examples: int
    shards: int
    nbytes: int
    varying: bool
    snippet: str


def describe_stored(folder: str | os.PathLike[str]) -> Facts:
    """Count what is in a folder that npyflow wrote."""
    with open(os.path.join(folder, SCHEMA_FILE), "rb") as file:
        content = file.read()
    facts = json.loads(content)
    shards = facts["shards"]
    snippet = ""
    if stored_format(folder) == "tfrecord":
        from npyflow._format.snippet import tfrecord_snippet

        snippet = tfrecord_snippet(parse_schema(content, os.fspath(folder)), os.fspath(folder))
    return Facts(
        examples=sum(shard["examples"] for shard in shards),
        shards=len(shards),
        nbytes=sum(sum(shard["sizes"]) for shard in shards),
        # A schema has columns, the manifest of packed data has components.
        varying=any(None in column["shape"] for column in facts.get("columns", ()))
        or any(one["offsets"] or one["shapes"] for one in facts.get("components", ())),
        snippet=snippet,
    )
