"""Columns of text on standard output."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence


def print_columns(rows: Sequence[Sequence[str]], *, indent: str = "") -> None:
    """Print rows with all columns but the last padded to one width: for people, and for grep and awk."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        click.echo((indent + "  ".join(cells)).rstrip())
