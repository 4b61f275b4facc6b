"""Columns of text on standard output, and sizes in arguments."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Sequence


def print_columns(rows: Sequence[Sequence[str]], *, indent: str = "") -> None:
    """Print rows with all columns but the last padded to one width: for people, and for grep and awk."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        click.echo((indent + "  ".join(cells)).rstrip())


class _Bytes(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic in later versions
    """A size: ``512MB``, ``1.5 GiB``, or a number of bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number of bytes."""
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kKMGT]?)(i?)B?\s*", str(value))
        if found is None or not (size := int(float(found[1]) * (1024 if found[3] else 1000) ** _POWERS[found[2]])):
            self.fail(f"{value!r} is no size: expected a number of bytes, or one such as 512MB or 1GiB", param, ctx)
        return int(size)


_POWERS = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4}
BYTES = _Bytes()
