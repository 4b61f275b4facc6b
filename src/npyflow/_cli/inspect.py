"""The command ``npyflow inspect``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from npyflow._cli.text import print_columns
from npyflow._core.text import examples, human_bytes, plural, show_counts, show_path
from npyflow._jobs.named import PATTERN
from npyflow._jobs.progress import shown_progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npyflow._core.errors import NpyflowError
    from npyflow._jobs.inspect import Census, Group

_HEAD = ["FILE", "SHAPE", "DTYPE", "ORDER", "VERSION", "SIZE", "PACKING"]
_MOST = 20


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--pattern", default=PATTERN, show_default=True, help="Which files to take from a folder.")
def inspect(paths: tuple[str, ...], pattern: str) -> None:
    """Say what files hold, from their headers.

    PATH is a .npy or .npz file: a row for each array; or a folder, or a pattern in quotes: how many arrays there are of
    each kind, which are the odd ones, and what shape all have in common. Nothing is ever written. Exit status: 0, or 1
    if a file is no array, or 2 for wrong usage.
    """
    from npyflow._jobs.inspect import inspect_files

    with shown_progress() as progress:
        found = inspect_files(paths, pattern=pattern, progress=progress)
    singles = [census for census in found.censuses if census.single]
    if rows := [[_name(group), *_facts(group)] for census in singles for group in census.groups]:
        print_columns([_HEAD, *rows])
    for census in singles:
        if census.others:
            click.echo(
                f"{show_path(census.argument)} holds other things too: {', '.join(map(show_path, census.others))}"
            )
    for census in found.censuses:
        if not census.single:
            _print_census(census)
    bad = [error for census in found.censuses for error in census.bad]
    _print_bad([*found.missing, *bad])
    if found.left_out:
        click.echo(f"left out: {show_counts(found.left_out)}")
    sys.exit(1 if bad or found.missing else 0)


def _print_census(census: Census) -> None:
    arrays = sum(len(group.paths) for group in census.groups)
    click.echo(f"{show_path(census.argument)}: {plural(census.files, 'file')}, {plural(arrays, 'array')}")
    shown = census.groups[:_MOST]
    rows = [
        [f"{len(group.paths):,}", show_path(group.kind.member) if group.kind.member else "", *_facts(group)]
        for group in shown
    ]
    if rows:
        print_columns([["FILES", "MEMBER", *_HEAD[1:]], *rows], indent="  ")
    if len(census.groups) > _MOST:
        click.echo(f"  … and {len(census.groups) - _MOST:,} more kinds")
    for member, shape in census.static_shapes.items():
        name = f" of {member!r}" if member is not None else ""
        click.echo(f"  widest static shape{name}: {shape}")
    for group in census.outliers[:_MOST]:
        click.echo(f"  odd: {group.kind.dtype} {group.kind.shape}: {examples(map(show_path, group.paths))}")
    if census.others:
        held = ", ".join(
            f"{show_path(name)} (in {plural(count, 'file')})" for name, count in census.others.most_common(8)
        )
        click.echo(f"  archives hold other things too: {held}")


def _name(group: Group) -> str:
    return show_path(group.paths[0]) + ("" if group.kind.member is None else f"[{_member(group)}]")


def _member(group: Group) -> str:
    return "" if group.kind.member is None else show_path(group.kind.member)


def _facts(group: Group) -> list[str]:
    kind = group.kind
    return [str(kind.shape), kind.dtype, kind.order, kind.version, human_bytes(group.size), kind.packing]


def _print_bad(bad: Sequence[NpyflowError]) -> None:
    for error in bad:
        click.echo(" ".join(str(error).split()))
