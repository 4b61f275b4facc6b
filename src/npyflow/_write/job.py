"""From a flow and options to a job, its forecast, and a data set."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.errors import OptionError
from npyflow._core.options import integer
from npyflow._core.text import show_path
from npyflow._format.schema import SCHEMA_FILE, Schema
from npyflow._order.layout import cpus
from npyflow._sources.fileio import write_atomically
from npyflow._write.engine import Job, run
from npyflow._write.folder import VERIFY, check_target
from npyflow._write.forecast import check_room, forecast
from npyflow._write.plan import plan_parts
from npyflow._write.supply import columns_of, element_counts

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from npyflow._flow.view import View
    from npyflow._format.schema import Shard
    from npyflow._sources.component import Component
    from npyflow._write.base import Format
    from npyflow._write.forecast import Forecast


def make_job(
    view: View, folder: str | os.PathLike[str], target: Format, *, shard_bytes: Any, verify: Any, apart: bool = True
) -> Job:
    """Plan the shards.

    Parameters
    ----------
    view : View
        The examples.
    folder : path
        Where the data set goes.
    target : Format
        How it is kept.
    shard_bytes : int
        The largest shard.
    verify : str
        How much is read back.
    apart : bool
        Refuse a folder among the files of the source; no matter for one that goes at once.

    Raises
    ------
    OptionError
        If an option is out of range, there is no example, or examples are other ones in every epoch.
    UnsupportedDtypeError, CastError, MissingDependencyError
        If the format cannot keep the data as it is.
    """
    if verify not in VERIFY:
        raise OptionError(f"verify={verify!r}: expected one of {', '.join(map(repr, VERIFY))}")
    most = integer("shard_bytes", shard_bytes, 1)
    if not len(view):
        raise OptionError("the flow has no example to write")
    root = os.path.abspath(os.fspath(folder))
    for component in view.content.components:
        _check_crop(component)
        if apart:
            _check_apart(component, root)
    columns = columns_of(view)
    target.check(columns)
    sizes = np.zeros(len(view), np.int64)
    for column, counts in zip(columns, element_counts(view), strict=True):
        kinds, where = np.unique(counts, return_inverse=True)
        sizes += np.array([target.example_bytes(column, int(kind)) for kind in kinds], np.int64)[where]
    return Job(
        view=view,
        columns=columns,
        parts=plan_parts(sizes, most),
        format=target,
        folder=root,
        verify=verify,
    )


def _check_crop(component: Component) -> None:
    """Refuse crops that are other ones in every epoch."""
    if component.crop is not None and component.crop.random:
        raise OptionError(
            f"{component.name or 'data'}: random crops are other ones in every epoch, and here one would stay for "
            f"good; open the flow without crop= and crop what comes out"
        )


def _check_apart(component: Component, target: str) -> None:
    """Refuse a target among the files that it is made from."""
    source = None if component.stored is None else component.stored.path
    if component.kind == "files" and component.table is not None:
        source = os.path.commonpath({os.path.dirname(os.path.abspath(path)) for path in component.table.paths})
    if source is not None and Path(os.path.realpath(target)).is_relative_to(os.path.realpath(source)):
        raise OptionError(
            f"{show_path(target)} lies in {show_path(source)}, among the files that it would be made from; whoever "
            f"opens that folder next would take it for more of them: name a folder beside it"
        )


def carry_out(
    job: Job,
    *,
    workers: Any,
    executor: Executor | None,
    progress: Any,
    on_forecast: Callable[[Forecast], bool] | None,
    finish: Callable[[Job, tuple[Shard, ...]], None],
) -> bool:
    """Forecast the job, refuse what the disk has no room for, and do it.

    Parameters
    ----------
    workers, executor, progress
        As `engine.run`.
    on_forecast : callable, optional
        Gets the forecast, and says whether to go on.
    finish : callable
        Writes what makes a data set of the shards.

    Returns
    -------
    bool
        Whether the data set is there.
    """
    check_target(job.folder)
    count = None if workers is None else integer("workers", workers, 1)
    found = forecast(job, count or cpus())
    if on_forecast is not None and not on_forecast(found):
        return False
    check_room(found, job.folder)
    run(job, workers=count, executor=executor, progress=progress, finish=lambda shards: finish(job, shards))
    return True


def write_schema(job: Job, shards: tuple[Shard, ...]) -> None:
    """Write the file that makes a data set of the shards."""
    view = job.view
    schema = Schema(
        to=job.format.name,
        options=job.format.options,
        structure=view.structure,
        columns=job.columns,
        keys=None if view.content.keys is None else tuple(map(str, view.keys)),
        classes=view.content.classes,
        shards=shards,
    )
    write_atomically(os.path.join(job.folder, SCHEMA_FILE), [schema.to_json()])
