"""`npyflow.pack`: many small files become few."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from npyflow._flow.load import load
from npyflow._jobs.progress import shown_progress
from npyflow._jobs.stored import view_of
from npyflow._write.job import carry_out, make_job
from npyflow._write.npy import NpyFormat
from npyflow._write.packed import write_packed

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from concurrent.futures import Executor

    from npyflow._flow.flow import Flow
    from npyflow._jobs.progress import Progress
    from npyflow._write.forecast import Forecast

SHARD_BYTES = 512 << 20


def pack(
    flow: Flow,
    dst: str | os.PathLike[str],
    *,
    shard_bytes: int = SHARD_BYTES,
    verify: Literal["none", "sample", "full"] = "full",
    workers: int | None = None,
    executor: Executor | None = None,
    progress: bool = False,
) -> Flow:
    """Write all examples to few ``.npy`` files, which ``np.load`` opens, and a manifest.

    Values are those that the flow delivers, in C order and native byte order. Examples that vary in shape stand one
    after another, with offsets. Nothing of the source is touched.

    Parameters
    ----------
    flow : Flow
        What to pack; after `Flow.map`, what its functions make in epoch 0. Windows are packed one by one, and forget
        that they overlap: split before. Rows have no keys but their numbers, and are numbered anew.
    dst : path
        A new folder, or what an interrupted call with the same arguments left: it goes on there.
    shard_bytes : int
        The largest shard.
    verify : {"full", "sample", "none"}
        Read back what was written, and compare all of it with the source, or a sixteenth.
    workers : int, optional
        How many write at one time; without it as many as there are processors, where that pays.
    executor : concurrent.futures.Executor, optional
        What runs the tasks, a shard each, such as ``dask.distributed.Client(...).get_executor()``. Its workers see the
        same files under the same names.
    progress : bool
        Show it on standard error.

    Returns
    -------
    Flow
        What `npyflow.load` opens from `dst`: the same examples under the same keys, in the same order for a seed.

    Raises
    ------
    JobError
        If `dst` is in use, holds something else or has no room, or a shard reads back differently.
    OptionError
        If an option is out of range, or crops are random.
    NpyflowError
        If a file of the source cannot be read.
    """
    how: dict[str, Any] = {"shard_bytes": shard_bytes, "verify": verify, "workers": workers, "executor": executor}
    with shown_progress(progress) as shown:
        pack_flow(flow, dst, progress=shown, **how)
    return load(dst)


def pack_flow(
    flow: Flow,
    dst: str | os.PathLike[str],
    *,
    shard_bytes: Any,
    verify: Any,
    workers: Any,
    executor: Executor | None,
    progress: Progress,
    on_forecast: Callable[[Forecast], bool] | None = None,
    apart: bool = True,
) -> bool:
    """Do what `pack` does, and say whether it was done: `on_forecast` may have said no."""
    job = make_job(view_of(flow), dst, NpyFormat(), shard_bytes=shard_bytes, verify=verify, apart=apart)
    return carry_out(
        job, workers=workers, executor=executor, progress=progress, on_forecast=on_forecast, finish=write_packed
    )
