"""Components that must be equally long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.errors import OptionError, ShapeMismatchError
from npyflow._core.options import integer
from npyflow._core.text import examples, plural, show_path
from npyflow._sources.conversion import ALL
from npyflow._sources.files import check_agree, stored_shapes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from npyflow._sources.table import FileTable

Array = np.ndarray[Any, Any]

_LISTED = 10


def common_lengths(
    tables: Mapping[str, FileTable], same_length: Any, trim: Any, keys: Sequence[str]
) -> tuple[dict[str, Array], list[str]]:
    """Compare the lengths of components file by file, and trim what is a little longer.

    Parameters
    ----------
    tables : mapping of str to FileTable
        By component, rows in step.
    same_length : sequence of str, or mapping of str to int, or None
        Which components, and the axis of each; else the one that varies, or the first if none does.
    trim : int
        How much longer than the shortest one may be.
    keys : sequence of str
        Of the files, for messages.

    Returns
    -------
    dict of str to int64 array (files, axes)
        What to read of each file of a component that is trimmed.
    list of str
        Notes on what was trimmed.

    Raises
    ------
    ShapeMismatchError
        If lengths differ by more than `trim`; all keys are counted.
    OptionError
        If a component or axis is not there, or several axes vary.
    """
    trim = integer("trim", trim, 0)
    if same_length is None:
        if trim:
            raise OptionError(f"trim={trim} without same_length=: say which components are to be equally long")
        return {}, []
    names = list(same_length)
    if isinstance(same_length, str) or len(names) < 2 or not all(isinstance(name, str) for name in names):
        raise OptionError(f"same_length={same_length!r}: expected the names of two or more components")
    if unknown := [name for name in names if name not in tables]:
        raise OptionError(f"same_length names {examples(unknown)}; the data has {examples(map(repr, tables), 10)}")
    given = same_length if isinstance(same_length, dict) else {}
    shapes = {name: _shapes(tables[name], name) for name in names}
    axes = {name: _axis(shapes[name], given.get(name), name) for name in names}
    lengths = np.column_stack([shapes[name][:, axes[name]] for name in names])
    shortest = lengths.min(axis=1)
    beyond = lengths.max(axis=1) - shortest
    if (beyond > trim).any():
        raise _unequal(names, lengths, np.flatnonzero(beyond > trim), trim, keys)
    if not beyond.any():
        return {}, []
    for name in names:
        shapes[name][:, axes[name]] = shortest
    count = int(np.count_nonzero(beyond))
    return shapes, [
        f"{plural(count, 'example')} trimmed to the shortest of {', '.join(names)}, by up to {beyond.max()}"
    ]


def _shapes(table: FileTable, name: str) -> Array:
    if len({len(header.shape) for header in table.headers}) > 1:
        check_agree(table, ALL, name)
    return stored_shapes(table)


def _axis(shapes: Array, given: Any, name: str) -> int:
    rank = shapes.shape[1]
    if given is not None:
        if not isinstance(given, int | np.integer) or not -rank <= given < rank:
            raise OptionError(f"same_length: axis {given!r} of {name}, which has {plural(rank, 'axis', 'axes')}")
        return int(given % rank)
    varying = np.flatnonzero((shapes != shapes[0]).any(axis=0)).tolist()
    if len(varying) > 1 or not rank:
        what = f"varies along the axes {varying}" if rank else "has no axis"
        raise OptionError(f"same_length: {name} {what}; say which counts: same_length={{{name!r}: 0, ...}}")
    return int(varying[0]) if varying else 0


def _unequal(names: Sequence[str], lengths: Array, bad: Array, trim: int, keys: Sequence[str]) -> ShapeMismatchError:
    lines = [
        f"  {show_path(keys[at])}: "
        + ", ".join(f"{name} {size:,}" for name, size in zip(names, lengths[at].tolist(), strict=True))
        for at in bad[:_LISTED].tolist()
    ]
    more = [f"  … and {len(bad) - _LISTED:,} more"] if len(bad) > _LISTED else []
    allowed = f" by more than trim={trim}" if trim else ""
    return ShapeMismatchError(
        f"same_length: {', '.join(names)} differ{allowed} in {len(bad):,} of {plural(len(lengths), 'example')}:\n"
        + "\n".join([*lines, *more])
        + "\nfix these files, or pass trim= with the difference that may be cut from the end"
    )
