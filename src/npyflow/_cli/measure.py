"""The command ``npyflow measure``."""

from __future__ import annotations

import importlib.util
import json
import os
from typing import TYPE_CHECKING

import click

from npyflow._core.errors import MissingDependencyError, OptionError
from npyflow._core.text import show_path
from npyflow._jobs.progress import shown_progress

if TYPE_CHECKING:
    from npyflow._flow.flow import Flow


@click.command()
@click.argument("path", metavar="PATH")
@click.option("--labels", type=click.Choice(["directory"]), help="The first folder of each file is its class.")
@click.option("--pattern", help="Which files to take from a folder.")
@click.option("--batch-size", default=32, show_default=True, metavar="N", help="Of your training.")
@click.option("--seconds", default=60.0, show_default=True, metavar="S", help="About how long it may take.")
@click.option("--step-ms", type=float, metavar="MS", help="What a step of your model takes: is it the bottleneck?")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of the text.")
@click.option(
    "--report",
    type=click.Path(dir_okay=False),
    metavar="FILE.html",
    help="Also write a page with charts; needs npyflow[report].",
)
def measure(
    path: str,
    labels: str | None,
    pattern: str | None,
    batch_size: int,
    seconds: float,
    step_ms: float | None,
    as_json: bool,
    report: str | None,
) -> None:
    """Say what your files cost to read, where the time goes, and what would be better.

    PATH is a folder or a pattern whose files are the examples, a .npy file whose rows are, or what npyflow wrote. It is
    only read; copies of a sample go to the folder for temporary files and are removed.

    \b
    npyflow measure images/ --labels directory
    npyflow measure features.npy --batch-size 256 --step-ms 40 --report input.html
    """  # noqa: D301 (click's mark for a paragraph to leave as it is)
    # TensorFlow's start-up messages would tear the progress bar.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from npyflow._jobs.measure import measure_flow
    from npyflow._jobs.source import open_source

    if report is not None:
        _check_report(report)
    with shown_progress() as progress:
        progress.start("opening", 1)
        flow = open_source(path, labels=labels, pattern=pattern)
        progress.step()
        found = measure_flow(
            flow,
            path=path,
            opened=_opened(path, flow, labels, pattern),
            options=(*(("--labels", labels) if labels else ()), *(("--pattern", pattern) if pattern else ())),
            seconds=seconds,
            batch_size=batch_size,
            step_ms=step_ms,
            progress=progress,
        )
    if report is not None:
        from npyflow._measure.report import write_report

        write_report(found.as_dict(), report)
    click.echo(json.dumps(found.as_dict(), indent=2) if as_json else str(found))
    if report is not None:
        click.echo(f"The report is in {show_path(report)}.", err=as_json)


def _check_report(report: str) -> None:
    """Notice before the minute that the measurement takes what would keep the page from being written."""
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingDependencyError(
            "--report draws with matplotlib, which is not installed: pip install 'npyflow[report]'"
        )
    if not os.path.isdir(os.path.dirname(report) or "."):
        raise OptionError(f"--report {show_path(report)}: there is no such folder; make it first")


def _opened(path: str, flow: Flow, labels: str | None, pattern: str | None) -> str:
    """The call that opens `path`, as a user writes it."""
    if os.path.isfile(path):
        return f"nf.load({path!r})" if path.endswith(".json") else f"nf.rows({path!r})"
    if any(component.kind != "files" for component in flow._view.content.components if component.kind != "labels"):
        return f"nf.load({path!r})"
    options = "" if labels is None else f', labels="{labels}"'
    options += "" if pattern is None else f", pattern={pattern!r}"
    return f"nf.files({path!r}{options})"
