"""The manifest of packed data: shards of ``.npy`` files that open as the flow they were made from."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.dtypes import is_small_float
from npyflow._core.structure import Structure
from npyflow._flow.content import Content
from npyflow._flow.manifest import write_manifest
from npyflow._format.schema import SCHEMA_FILE
from npyflow._sources.component import Component
from npyflow._sources.conversion import Delivery
from npyflow._sources.scan import raise_bad, scan
from npyflow._sources.table import UNTIMED
from npyflow._write.npy import files_of, only_first_varies

if TYPE_CHECKING:
    from npyflow._format.schema import Shard
    from npyflow._write.engine import Job

Array = np.ndarray[Any, Any]


def write_packed(job: Job, shards: tuple[Shard, ...]) -> None:
    """Write the manifest beside the shards; they are a data set from then on."""
    view = job.view
    structure = view.structure
    content = Content(
        structure=Structure(structure.pack(structure.leaves)),
        components=tuple(_component(job, shards, at, name) for at, name in enumerate(structure.leaves)),
        keys=None if view.content.keys is None else tuple(map(str, view.keys)),
        classes=view.content.classes,
        report=view.content.report,
        splits=view.content.splits,
    )
    path = os.path.join(job.folder, SCHEMA_FILE)
    write_manifest(content, path, shards=[asdict(shard) for shard in shards])


def _component(job: Job, shards: tuple[Shard, ...], at: int, name: str) -> Component:
    column = job.columns[at]
    before = sum(len(files_of(one)) for one in job.columns[:at])
    files = [
        [os.path.join(job.folder, shard.files[before + part]) for shard in shards]
        for part in range(len(files_of(column)))
    ]
    found = scan(files[0])
    raise_bad(list(found.bad.values()), len(files[0]))
    # A copy of the folder has other times; sizes and checksums stay.
    table = replace(found.tables[0], mtimes=np.full(len(files[0]), UNTIMED, np.int64))
    dtype = column.spec.dtype if is_small_float(column.spec.dtype) else None
    return Component(
        name=name,
        kind="rows",
        table=table,
        delivery=Delivery(dtypes=(dtype,)),
        offsets=_joined_offsets(files[1]) if only_first_varies(column) else None,
        shapes=_joined(files[2]) if len(files) > 2 else None,
    )


def _joined_offsets(paths: list[str]) -> Array:
    runs = [np.diff(np.load(path, allow_pickle=False)) for path in paths]
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(np.concatenate(runs))])


def _joined(paths: list[str]) -> Array:
    joined: Array = np.concatenate([np.load(path, allow_pickle=False) for path in paths])
    return joined
