"""`npyflow.windows`: every window over a long series is an example."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from npyflow._core.errors import OptionError, ShapeMismatchError
from npyflow._core.options import integer
from npyflow._core.structure import Structure, spread, structure_of
from npyflow._core.text import examples, plural, show_path
from npyflow._flow.audit import warn_of_inflating, warn_of_slips
from npyflow._flow.content import Content
from npyflow._flow.flow import Flow, open_flow
from npyflow._flow.leaves import Leaf, components_of, find_leaf
from npyflow._sources.component import Component
from npyflow._sources.listing import as_path_list, as_path_text, list_files
from npyflow._sources.pairing import join, orphans_error
from npyflow._sources.report import Report
from npyflow._sources.scan import raise_bad, scan
from npyflow._sources.windows import Window, Windows

Array = np.ndarray[Any, Any]


def windows(
    data: Any,
    *,
    length: int,
    horizon: int = 0,
    stride: int = 1,
    gap: int = 0,
    axis: Any = 0,
    past: Any = None,
    future: Any = None,
    dtype: Any = None,
    access: Any = "auto",
) -> Flow:
    """Open one long series, or several, of which every window is an example.

    Parameters
    ----------
    data : path, array, member of an `npz`, list, folder or pattern of these, or a nested tuple or dict of them
        A list, folder or pattern means several series; no window crosses from one to the next. A tuple or dict means
        series that run in step, joined by key as in `npyflow.files`.
    length : int
        Steps of a window.
    horizon : int
        Steps that are to be predicted. With it an example is ``(past, future)``, without it the window.
    stride : int
        Steps from a window to the next.
    gap : int
        Steps between past and future.
    axis : int, or a tuple or dict of them
        Along which time runs.
    past, future : int, slice or list of int, or a dict of them, optional
        Which columns, entries of the first axis beside time; an integer drops that axis. Of series that run in step
        a dict names those that are wanted: ``future={"load": slice(None)}``.
    dtype : dtype, or a tuple or dict of them, optional
        As in `npyflow.rows`.
    access : {"auto", "mmap", "read", "ram"}, or a tuple or dict of them
        As in `npyflow.rows`.

    Returns
    -------
    Flow
        A series of T steps has ``(T - length - gap - horizon) // stride + 1`` windows. ``flow.keys`` names the series
        of each, ``flow.positions()`` its first step.

    Raises
    ------
    ShapeMismatchError
        If series that run in step differ in length, or others in anything else.
    OptionError
        If an option is out of range, or no series is long enough.

    Examples
    --------
    >>> import numpy as np, npyflow as nf
    >>> flow = nf.windows(np.arange(10.0), length=3, horizon=2)
    >>> len(flow)
    6
    >>> past, future = flow[1]
    >>> past.tolist(), future.tolist()
    ([1.0, 2.0, 3.0], [4.0, 5.0])
    """
    parts = _parts(length, horizon, stride, gap)
    structure = structure_of(data, "data")
    leaves, keys = _find_series(structure)
    raise_bad([error for leaf in leaves for error in leaf.bad], sum(leaf.total for leaf in leaves))
    series, whole = components_of(leaves, structure, fields=None, dtype=dtype, axis=axis, access=access)
    if len(whole.leaves) > len(series):
        raise OptionError("windows over structured arrays: save each field as an array of its own")
    lengths = _lengths(series, keys)
    report = _report(Windows(lengths, span=parts[0].span, stride=parts[0].stride), keys)
    tables = [leaf.table for leaf in leaves if leaf.table is not None]
    warn_of_slips(tables, stacklevel=2)
    warn_of_inflating(tables, stacklevel=2)
    if future is not None and not horizon:
        raise OptionError(f"future={future!r} without horizon=: say how many steps the future has")
    if not horizon:
        components, tree = _part(series, structure, parts[0], past, "past", "")
    else:
        components, tree = _part(series, structure, parts[0], past, "past", "past")
        behind, behind_tree = _part(series, structure, parts[1], future, "future", "future")
        components, tree = components + behind, (tree, behind_tree)
    return open_flow(Content(structure=Structure(tree), components=tuple(components), keys=keys, report=report))


def _parts(length: Any, horizon: Any, stride: Any, gap: Any) -> list[Window]:
    """Past and future, if there is one."""
    length, stride = integer("length", length, 1), integer("stride", stride, 1)
    horizon, gap = integer("horizon", horizon, 0), integer("gap", gap, 0)
    if gap and not horizon:
        raise OptionError(f"gap={gap} without horizon=: there is no future to keep away from")
    span = integer("length + gap + horizon", length + gap + horizon, 1)
    past = Window(offset=0, length=length, span=span, stride=stride)
    return [past, Window(offset=length + gap, length=horizon, span=span, stride=stride)] if horizon else [past]


def _find_series(structure: Structure[Any]) -> tuple[list[Leaf], tuple[str, ...]]:
    """What each leaf is: one array a series; and the key of each series."""
    named = structure.named()
    on_paths = [as_path_text(leaf) is not None or bool(as_path_list(leaf)) for _, leaf in named]
    if not all(on_paths):
        leaves = [find_leaf(name or "data", leaf, scan) for name, leaf in named]
        counts = {len(leaf.arrays) if leaf.table is None else len(leaf.table) for leaf in leaves}
        if len(counts) > 1:
            raise ShapeMismatchError(
                f"series that run in step: there are {examples(sorted(counts))} of them; expected as many of each"
            )
        return leaves, tuple(map(str, range(counts.pop())))
    listings = [list_files(leaf, "**/*.npy", name or "data") for name, leaf in named]
    if all(len(listing.paths) == 1 for listing in listings):
        paths, keys = [listing.paths for listing in listings], listings[0].keys
    else:
        joined = join(listings, structure.names)
        if joined.orphans:
            raise orphans_error(
                joined, structure.names, "add or remove files: series that run in step have all components"
            )
        paths, keys = joined.paths, joined.keys
    scans = [scan(some) for some in paths]
    return [Leaf(one.tables[0], (), list(one.bad.values())) for one in scans], tuple(keys)


def _lengths(series: list[Component], keys: tuple[str, ...]) -> list[int]:
    """The steps of each series, the same in all components."""
    found = [_steps(component) for component in series]
    for component, steps in zip(series, found, strict=True):
        odd = [at for at, (have, want) in enumerate(zip(steps, found[0], strict=True)) if have != want]
        if odd:
            at = odd[0]
            raise ShapeMismatchError(
                f"series that run in step must be equally long: {show_path(keys[at])} has {found[0][at]:,} steps in "
                f"{series[0].name}, {steps[at]:,} in {component.name} ({plural(len(odd), 'series', 'series')} differ)"
            )
    return found[0]


def _steps(component: Component) -> list[int]:
    if component.table is not None:
        shapes = [component.table.header(at).shape for at in range(len(component.table))]
    else:
        shapes = [np.shape(array) for array in component.arrays]
    for shape in shapes:
        if not -len(shape) <= component.axis < len(shape):
            raise OptionError(
                f"{component.name or 'data'}: axis={component.axis}, but a series has shape {shape}; expected the axis "
                f"along which time runs, below {len(shape)}"
            )
    return [int(shape[component.axis]) for shape in shapes]


def _report(windows: Windows, keys: tuple[str, ...]) -> Report:
    """Name the series that are too short for a window."""
    short = np.flatnonzero(windows.counts == 0).tolist()
    if not short:
        return Report()
    shown = examples((f"{show_path(keys[at])} ({windows.lengths[at]:,})" for at in short), 5)
    what = (
        f"{len(short):,} of {plural(len(keys), 'series', 'series')} shorter than the {windows.span:,} steps of a "
        f"window: {shown}"
    )
    if len(short) == len(keys):
        raise OptionError(f"{what}; expected at least one that is long enough")
    return Report(notes=(what,))


def _part(
    series: list[Component], structure: Structure[Any], part: Window, columns: Any, argument: str, prefix: str
) -> tuple[list[Component], Any]:
    """The components of past or future, and their nesting; `prefix` comes before their names."""
    named = isinstance(columns, dict)
    chosen = spread(columns, structure, argument)
    kept = [not (named and one is None) for one in chosen]
    names = [".".join(filter(None, (prefix, name))) for name in structure.names]
    components = [
        replace(component, name=name, window=replace(part, columns=_columns(one, argument)))
        for component, name, one, keep in zip(series, names, chosen, kept, strict=True)
        if keep
    ]
    if not components:
        raise OptionError(f"{argument}={columns!r} names no series")
    return components, _pruned(structure.pack([name if keep else None for name, keep in zip(names, kept, strict=True)]))


def _pruned(node: Any) -> Any:
    """The nesting without what is not wanted."""
    if isinstance(node, tuple):
        children = tuple(map(_pruned, node))
        return None if all(child is None for child in children) else children
    if not isinstance(node, dict):
        return node
    pruned = {key: _pruned(child) for key, child in node.items()}
    return {key: child for key, child in pruned.items() if child is not None and child != {}}


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _columns(given: Any, argument: str) -> int | slice | tuple[int, ...] | None:
    if given is None or (isinstance(given, slice) and given == slice(None)):
        return None
    if isinstance(given, slice) and all(_is_whole(one) or one is None for one in (given.start, given.stop, given.step)):
        return slice(*(None if one is None else int(one) for one in (given.start, given.stop, given.step)))
    if _is_whole(given):
        return int(given)
    if isinstance(given, list | range | np.ndarray) and all(map(_is_whole, given)):
        return tuple(int(one) for one in given)
    raise OptionError(f"{argument}={given!r}: expected an integer, a slice or a list of integers")
