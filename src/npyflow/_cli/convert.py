"""The commands ``npyflow pack`` and ``npyflow convert``."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from npyflow._cli.text import BYTES
from npyflow._core.text import human_bytes, plural, show_path
from npyflow._jobs.progress import shown_progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from npyflow._write.forecast import Forecast

_INTERRUPTED = 130

_SHARED = [
    click.argument("src"),
    click.argument("dst"),
    click.option(
        "--labels", type=click.Choice(["directory"]), help="The first folder in the name of a file is its class."
    ),
    click.option("--pattern", help="Which files to take from a folder.  [default: **/*.npy]"),
    click.option(
        "--shard-size", type=BYTES, help="The largest shard, such as 512MB.  [default: 512 MiB of .npy, else 128 MiB]"
    ),
    click.option(
        "--verify",
        type=click.Choice(["full", "sample", "none"]),
        default="full",
        show_default=True,
        help="How much to read back and compare.",
    ),
    click.option("--workers", type=click.IntRange(1), help="How many write at one time.  [default: as many as pay]"),
    click.option("--dask", metavar="ADDRESS", help="Run on the Dask cluster with this scheduler."),
    click.option("--dry-run", is_flag=True, help="Say what it would take, and write nothing."),
]


def _shared(command: Callable[..., None]) -> Callable[..., None]:
    for one in reversed(_SHARED):
        command = one(command)
    return command


@click.command()
@_shared
def pack(src: str, dst: str, **how: Any) -> None:
    """Put many small files into few .npy files, which np.load opens.

    SRC is a folder or a pattern in quotes (a file is an example), a .npy file (a row is), a folder that npyflow wrote,
    or a manifest that flow.save wrote. DST is a new folder; after an interruption the same command goes on there. No
    source is ever changed or deleted.

    \b
    npyflow pack images/ packed/ --labels directory
    python -c 'import npyflow as nf; print(nf.load("packed/").describe())'
    """  # noqa: D301 (click's mark for a paragraph to leave as it is)
    _run(src, dst, to="npy", encoding="raw", lossy=False, compression=None, **how)


@click.command()
@_shared
@click.option(
    "--to", type=click.Choice(["tfrecord", "parquet", "arrayrecord", "npy"]), required=True, help="The format."
)
@click.option(
    "--encoding",
    type=click.Choice(["raw", "list"]),
    default="raw",
    show_default=True,
    help="list: FloatList and Int64List (TFRecord) or nested lists (Parquet), for readers that know nothing else.",
)
@click.option("--lossy", is_flag=True, help="Let --encoding list round float64 to float32.")
@click.option("--compression", help="TFRecord: gzip. Parquet: zstd, the default, or none.")
def convert(src: str, dst: str, **how: Any) -> None:
    """Write all examples in another format, one a record, and a schema beside them.

    SRC and DST are as for `npyflow pack`; --to npy is the way back. What was written is read back and compared, values
    stay as they are, bit for bit, and no source is ever changed or deleted.

    \b
    npyflow convert images/ records/ --labels directory --to tfrecord
    npyflow convert table.npy parquet/ --to parquet
    """  # noqa: D301 (click's mark for a paragraph to leave as it is)
    _run(src, dst, **how)


def _run(
    src: str, dst: str, *, labels: str | None, pattern: str | None, dask: str | None, dry_run: bool, **how: Any
) -> None:
    from npyflow._jobs.convert import convert_flow
    from npyflow._jobs.source import open_source
    from npyflow._write.cluster import dask_executor

    def on_forecast(found: Forecast) -> bool:
        click.echo(f"{show_path(dst)}: {found}", err=not dry_run)
        return not dry_run

    how["shard_bytes"] = how.pop("shard_size")
    try:
        with ExitStack() as stack:
            flow = open_source(src, labels=labels, pattern=pattern)
            executor = None if dask is None else stack.enter_context(dask_executor(dask))
            progress = stack.enter_context(shown_progress())
            done = convert_flow(flow, dst, **how, executor=executor, progress=progress, on_forecast=on_forecast)
    except KeyboardInterrupt:
        click.echo(
            f"npyflow: interrupted; shards that are finished stay in {show_path(dst)}: run the same again to go on",
            err=True,
        )
        sys.exit(_INTERRUPTED)
    if done:
        _print(dst, how["to"], how["verify"])


def _print(dst: str, to: str, verify: str) -> None:
    from npyflow._jobs.stored import describe_stored

    found = describe_stored(dst)
    read_back = {
        "full": "read back and compared",
        "sample": "a sixteenth read back and compared",
        "none": "not read back",
    }
    click.echo(
        f"{show_path(dst)}: {plural(found.examples, 'example')} in {plural(found.shards, 'shard')}, "
        f"{human_bytes(found.nbytes)}, {read_back[verify]}"
    )
    call = "load" if to == "npy" else f"open_{to}"
    how = "shuffle=True, ragged=True" if found.varying else "shuffle=True"
    click.echo(f"\n  import npyflow as nf\n  data = nf.{call}({show_path(dst)!r})\n  data.to_tf(32, {how})")
    if found.snippet:
        click.echo(f"\nWithout npyflow:\n\n{found.snippet}")
