"""The ``npyflow`` command."""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from npyflow import NpyflowError, OptionError, __version__
from npyflow._cli.check import check
from npyflow._cli.convert import convert, pack
from npyflow._cli.inspect import inspect
from npyflow._cli.measure import measure
from npyflow._core.text import show_path
from npyflow._jobs.progress import shown_progress

if TYPE_CHECKING:
    from npyflow._jobs.demo import Shown


_PROBLEM = 1
_WRONG_USAGE = 2
# What shells report for Ctrl-C: 128 and the number of the signal.
_INTERRUPTED = 130


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="npyflow %(version)s")
def cli() -> None:
    """Feed NumPy .npy files to TensorFlow tf.data pipelines."""


cli.add_command(check)
cli.add_command(inspect)
cli.add_command(measure)
cli.add_command(pack)
cli.add_command(convert)


@cli.command()
@click.option(
    "--keep",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Write the data to DIR and leave it there.",
)
def demo(keep: str | None) -> None:
    """Train on real data in three layouts, time each beside the usual recipe; then measure, pack and compare.

    Needs TensorFlow and scikit-learn, whose package ships the data: 1,797 handwritten digits.
    """
    import tempfile
    from pathlib import Path

    from npyflow._jobs.demo import run

    # TensorFlow's start-up messages would tear the progress bar.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    start = time.perf_counter()
    with ExitStack() as stack:
        folder = Path(keep or stack.enter_context(tempfile.TemporaryDirectory(prefix="npyflow-demo-")))
        progress = stack.enter_context(shown_progress())
        shown = run(folder, progress)
    _print_results(shown, time.perf_counter() - start)
    if keep is not None:
        click.echo(f"\nThe files are in {show_path(keep)}.")
    click.echo(
        "\nOn your own data:\n"
        "  import npyflow as nf\n"
        '  ds = nf.rows(("x.npy", "y.npy")).to_tf(32, shuffle=True)              # arrays: a row an example\n'
        '  ds = nf.files("images/", labels="directory").to_tf(32, shuffle=True)  # folders: a file an example\n'
        "  model.fit(ds, epochs=5)\n\n"
        "  npyflow measure images/ --labels directory         # where the time goes, and what would be better\n"
        "  npyflow pack images/ packed/ --labels directory    # many small files into few"
    )


def _print_results(shown: Shown, seconds: float) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Examples per second, shuffled, batches of 32")
    table.add_column("on disk")
    for column in ("npyflow", "usual recipe", "times faster", "accuracy"):
        table.add_column(column, justify="right")
    for result in shown.results:
        table.add_row(
            result.layout,
            f"{result.rate:,.0f}",
            f"{result.recipe_rate:,.0f}",
            f"{result.ratio:.1f}",
            f"{result.accuracy:.1%}",
        )
    console = Console()
    console.print(table)
    for result in shown.results:
        console.print(f"{result.layout}: {result.call}, against {result.recipe}", highlight=False, markup=False)
    console.print(
        "The data is half a megabyte: a pass over the pair, or the packed files, is mostly set-up. "
        "Arrays of a usual size are compared in docs/performance.md.",
        highlight=False,
    )
    console.print(
        f"npyflow.measure of the class folders, set-up of a pass left out: {shown.verdict}",
        highlight=False,
        markup=False,
    )
    console.print(f"{seconds:.0f} seconds in all")


def main() -> None:
    """Run the command; errors of npyflow, of the file system and Ctrl-C end it with a line, not a traceback."""
    try:
        cli.main(standalone_mode=False)
    except click.exceptions.Exit as exit_:
        sys.exit(exit_.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        _end("interrupted", _INTERRUPTED)
    except BrokenPipeError:
        # Whoever read us has seen enough; Python would complain once more while it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(_PROBLEM)
    except OptionError as error:
        _end(str(error), _WRONG_USAGE)
    except NpyflowError as error:
        _end(str(error), _PROBLEM)
    except OSError as error:
        name = f"{show_path(error.filename)}: " if error.filename else ""
        _end(f"{name}{error.strerror or error}", _PROBLEM)


def _end(message: str, status: int) -> None:
    click.echo(f"npyflow: {message}", err=True)
    sys.exit(status)
