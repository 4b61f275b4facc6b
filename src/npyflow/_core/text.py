"""How values look in messages: paths, counts, sizes, examples."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable

_DIGITS = re.compile(r"([0-9]+)")


def show_path(path: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> str:
    """Return `path` as it can be printed: what is not printable is escaped."""
    text = os.fsdecode(path) or "''"
    return text if text.isprintable() else repr(text)[1:-1]


def show_array(path: str, member: str | None) -> str:
    """Return a path, and the array inside it where the file is an archive: ``"a.npz member 'x'"``."""
    return show_path(path) if member is None else f"{show_path(path)} member {member!r}"


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """Return ``"1 file"``, ``"2,000 files"``."""
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def show_counts(counts: Counter[str]) -> str:
    """Return ``"12 truncated, 1 empty"``, the most first."""
    return ", ".join(f"{count:,} {what}" for what, count in counts.most_common())


def human_bytes(count: int) -> str:
    """Return a size in decimal units: ``"3.1 kB"``, ``"627.2 MB"``."""
    value, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            break
        value /= 1000
    return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"


def brief(value: object, limit: int = 80) -> str:
    """Return the ``repr`` of a value that came out of a file, cut to `limit` characters."""
    text = repr(value)
    return text if len(text) <= limit else text[:limit] + "…"


def examples(items: Iterable[object], limit: int = 5) -> str:
    """Return the first `limit` items, comma separated, and how many more there are."""
    shown = [str(item) for item in items]
    rest = len(shown) - limit
    head = ", ".join(shown[:limit])
    return f"{head}, … ({rest:,} more)" if rest > 0 else head


def natural_key(path: str) -> tuple[tuple[tuple[str | int, ...], ...], str]:
    """Sort key that puts ``2`` before ``10``, and the files of folder ``a`` before those of ``a-1``.

    Splitting on digit runs alternates text and number, so two keys never compare ``str`` with ``int``.
    The path itself breaks ties such as ``2`` and ``02``, so the order is a function of the names alone.
    """
    return tuple(_natural_part(part) for part in path.split("/")), path


def _natural_part(part: str) -> tuple[str | int, ...]:
    return tuple([int(run) if at % 2 else run for at, run in enumerate(_DIGITS.split(part))])
