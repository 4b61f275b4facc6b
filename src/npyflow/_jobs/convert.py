"""`npyflow.convert`: the same examples in another format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from npyflow._core.errors import OptionError
from npyflow._jobs.pack import SHARD_BYTES as PACK_SHARD_BYTES
from npyflow._jobs.pack import pack_flow
from npyflow._jobs.progress import shown_progress
from npyflow._jobs.stored import open_stored, view_of
from npyflow._write.job import carry_out, make_job, write_schema

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from concurrent.futures import Executor

    from npyflow._flow.flow import Flow
    from npyflow._jobs.progress import Progress
    from npyflow._write.base import Format
    from npyflow._write.forecast import Forecast

# What readers of these formats like: several in flight, none tiny.
SHARD_BYTES = 128 << 20
TARGETS = ("tfrecord", "parquet", "arrayrecord", "npy")


def convert(
    flow: Flow,
    dst: str | os.PathLike[str],
    *,
    to: Literal["tfrecord", "parquet", "arrayrecord", "npy"],
    encoding: Literal["raw", "list"] = "raw",
    lossy: bool = False,
    compression: str | None = None,
    shard_bytes: int | None = None,
    verify: Literal["none", "sample", "full"] = "full",
    workers: int | None = None,
    executor: Executor | None = None,
    progress: bool = False,
) -> Any:
    """Write all examples in another format, a record or row each, and a schema beside them.

    Values stay as they are, bit for bit. Nothing of the source is touched.

    Parameters
    ----------
    flow : Flow
        What to convert; after `Flow.map`, what its functions make in epoch 0.
    dst : path
        A new folder, or what an interrupted call with the same arguments left: it goes on there.
    to : {"tfrecord", "parquet", "arrayrecord", "npy"}
        ``"npy"`` is the way back, and the same as `pack`.
    encoding : {"raw", "list"}
        ``"list"`` is for readers that know nothing else. Of TFRecord: a ``FloatList`` or ``Int64List``, which have no
        float64, instead of the bytes of each array with dtype and shape. Of Parquet: nested lists instead of tensors,
        which Hugging Face datasets does not know.
    lossy : bool
        Let ``encoding="list"`` round float64 to float32.
    compression : str, optional
        Of TFRecord: ``"gzip"``. Of Parquet: ``"zstd"``, the default, or ``"none"``.
    shard_bytes : int, optional
        The largest shard: 128 MiB by default, for ``"npy"`` 512 MiB.
    verify, workers, executor, progress
        As in `pack`.

    Returns
    -------
    Flow, or TFRecords for ``to="tfrecord"``
        What `open_parquet`, `open_arrayrecord`, `load` or `open_tfrecord` opens from `dst`.

    Raises
    ------
    JobError
        If `dst` is in use, holds something else or has no room, or a shard reads back differently.
    OptionError
        If an option is out of range, or goes with another format.
    CastError, UnsupportedDtypeError
        If the format cannot keep the values as they are.
    MissingDependencyError
        Without the package of the format.
    NpyflowError
        If a file of the source cannot be read.
    """
    how: dict[str, Any] = {"encoding": encoding, "lossy": lossy, "compression": compression}
    work: dict[str, Any] = {"shard_bytes": shard_bytes, "verify": verify, "workers": workers, "executor": executor}
    with shown_progress(progress) as shown:
        convert_flow(flow, dst, to=to, **how, **work, progress=shown)
    return open_stored(dst)


def convert_flow(
    flow: Flow,
    dst: str | os.PathLike[str],
    *,
    to: Any,
    encoding: Any,
    lossy: Any,
    compression: Any,
    shard_bytes: Any,
    verify: Any,
    workers: Any,
    executor: Executor | None,
    progress: Progress,
    on_forecast: Callable[[Forecast], bool] | None = None,
    apart: bool = True,
) -> bool:
    """Do what `convert` does, and say whether it was done: `on_forecast` may have said no."""
    work: dict[str, Any] = {
        "workers": workers,
        "executor": executor,
        "progress": progress,
        "on_forecast": on_forecast,
    }
    target = format_of(to, encoding, lossy, compression)
    if target is None:
        return pack_flow(
            flow,
            dst,
            shard_bytes=PACK_SHARD_BYTES if shard_bytes is None else shard_bytes,
            verify=verify,
            apart=apart,
            **work,
        )
    most = SHARD_BYTES if shard_bytes is None else shard_bytes
    job = make_job(view_of(flow), dst, target, shard_bytes=most, verify=verify, apart=apart)
    return carry_out(job, **work, finish=write_schema)


def format_of(to: Any, encoding: Any, lossy: Any, compression: Any) -> Format | None:
    """Return the format that options name; None for ``"npy"``.

    Raises
    ------
    OptionError
        If there is no such format, or an option goes with another one.
    """
    if to not in TARGETS:
        raise OptionError(f"to={to!r}: expected one of {', '.join(map(repr, TARGETS))}")
    if encoding not in ("raw", "list"):
        raise OptionError(f"encoding={encoding!r}: expected 'raw' or 'list'")
    if to in ("arrayrecord", "npy") and encoding != "raw":
        raise OptionError(f"encoding={encoding!r}: {to} has no other encoding; leave it out")
    if lossy and (to != "tfrecord" or encoding != "list"):
        which = f"{to} with encoding='raw'" if to == "tfrecord" else to
        raise OptionError(f"lossy=True: {which} keeps every value as it is; leave it out")
    if to == "tfrecord":
        from npyflow._write.tfrecord import TFRecordFormat

        return TFRecordFormat(encoding=encoding, compression=compression, lossy=lossy)
    if to == "parquet":
        from npyflow._write.parquet import ParquetFormat

        return ParquetFormat(compression=compression or "zstd", tensors=encoding == "raw")
    if compression is not None:
        raise OptionError(f"compression={compression!r}: {to} has none here; leave it out")
    if to == "arrayrecord":
        from npyflow._write.arrayrecord import ArrayRecordFormat

        return ArrayRecordFormat()
    return None
