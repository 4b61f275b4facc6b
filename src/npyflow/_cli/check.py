"""The command ``npyflow check``."""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from npyflow._cli.text import print_columns
from npyflow._core.text import plural, show_counts
from npyflow._jobs.named import PAIRS_PATTERN, PATTERN
from npyflow._jobs.progress import shown_progress

if TYPE_CHECKING:
    from npyflow._core.errors import NpyflowError
    from npyflow._jobs.check import Findings


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of a table.")
@click.option("--finite", is_flag=True, help="Read every payload: find NaN and infinities, and wrong checksums.")
@click.option("--checksums", is_flag=True, help="Each PATH is a folder of pack or convert: compare with its checksums.")
@click.option("--pairs", is_flag=True, help="Each PATH is a component: report keys without a partner in the others.")
@click.option(
    "--pattern", help=f"Which files to take from a folder.  [default: {PATTERN}; with --pairs {PAIRS_PATTERN}]"
)
def check(
    paths: tuple[str, ...], as_json: bool, finite: bool, checksums: bool, pairs: bool, pattern: str | None
) -> None:
    """Report every problem of every file.

    PATH is a .npy or .npz file, a folder, or a pattern in quotes, with {key} where --pairs needs it. Nothing is ever
    written. Exit status: 0 if there is no problem, 1 if there are some, 2 for wrong usage.

    \b
    npyflow check images/
    npyflow check --finite --json 'episodes/*.npz'
    npyflow check --pairs 'mel/{key}-mel.npy' 'ids/{key}-ids.npy'
    """  # noqa: D301 (click's mark for a paragraph to leave as it is)
    from npyflow._jobs.check import check_files
    from npyflow._jobs.checksums import check_checksums

    if checksums and (finite or pairs or pattern):
        raise click.UsageError("--checksums is about whole files: leave --finite, --pairs and --pattern out")
    if pairs and len(paths) < 2:
        raise click.UsageError("--pairs needs two PATHs or more")
    with shown_progress() as progress:
        pattern = pattern or (PAIRS_PATTERN if pairs else PATTERN)
        if checksums:
            findings = check_checksums(paths, progress)
        else:
            findings = check_files(paths, pattern=pattern, finite=finite, pairs=pairs, progress=progress)
    if as_json:
        click.echo(json.dumps(_document(findings), indent=1))
    else:
        _print(findings)
    sys.exit(1 if findings.problems else 0)


def _print(findings: Findings) -> None:
    if findings.problems:
        print_columns([["PROBLEM", "WHAT"], *([error.kind or "", _line(error)] for error in findings.problems)])
    kinds = Counter(error.kind or "" for error in findings.problems)
    many = show_counts(kinds)
    looked = plural(findings.files, "file") + (f", {plural(findings.arrays, 'array')}" if findings.arrays else "")
    left = "; left out: " + show_counts(findings.left_out) if findings.left_out else ""
    if findings.unsearched:
        left += "; not searched for NaN, as nobody can say what they hold: " + show_counts(findings.unsearched)
    found = f"{plural(len(findings.problems), 'problem')} ({many})" if findings.problems else "no problem"
    click.echo(f"{looked}: {found}{left}")


def _line(error: NpyflowError) -> str:
    return " ".join(str(error).split())


def _document(findings: Findings) -> dict[str, Any]:
    return {
        "files": findings.files,
        "arrays": findings.arrays,
        "left_out": dict(findings.left_out),
        "unsearched": dict(findings.unsearched),
        "problems": [
            {"kind": error.kind, "path": error.path, "member": error.member, "message": _line(error)}
            for error in findings.problems
        ],
    }
