"""The parts and folds of a flow: by rule, so that no file, group or stretch of time is on two sides."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.errors import OptionError
from npyflow._core.options import integer
from npyflow._core.text import plural
from npyflow._flow.split import (
    check_no_empty,
    check_one_rule,
    fold_numbers,
    part_bounds,
    split_consecutive,
    split_groups,
    split_keys,
    split_rows,
    split_strata,
    values_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npyflow._flow.view import View
    from npyflow._sources.windows import Windows

Array = np.ndarray[Any, Any]


def split_view(
    view: View, fractions: Sequence[float], *, seed: Any, stratify: Any, groups: Any, by: Any, gap: Any
) -> list[View]:
    """Return the parts; parameters as `Flow.split`.

    Raises
    ------
    OptionError
        If the options make no sense together, or a part is empty.
    """
    parts, rule = _parts(view, fractions, seed, stratify, groups, by, gap)
    sizes = ", ".join(f"{len(part):,}" for part in parts)
    note = f"split {rule}: {sizes} of {plural(len(view), 'example')}"
    return [view.noted_part(part, note) for part in parts]


def _parts(
    view: View, fractions: Sequence[float], seed: Any, stratify: Any, groups: Any, by: Any, gap: Any
) -> tuple[list[Array | range], str]:
    """Return the examples of each part, and the rule."""
    bounds = part_bounds(fractions)
    how = {"seed": integer("seed", seed), "level": view.content.splits}
    gap = integer("gap", gap, 0)
    check_one_rule("split", stratify, groups)
    by = _rule(view, by, stratify, groups)
    if gap and by != "time":
        raise OptionError(f"split(gap={gap}): a gap is for by='time'")
    parts: list[Array | range]
    if by == "time" and view.windows is not None:
        parts = _by_time(view, view.windows, bounds, gap)
        rule = f"by time, {plural(len(view) - sum(map(len, parts)), 'window')} across a cut left out"
        check_no_empty(parts, fractions, len(view), "larger fractions, a smaller gap=, or longer series")
        return parts, rule
    units = Units(view)
    if by == "time":
        parts, rule = units.expand(split_consecutive(len(units), bounds, gap=gap)), "in order"
    elif groups is not None:
        parts = units.expand(split_groups(units.values("groups", groups), bounds, **how))
        rule = "by group, sizes are approximate"
    elif stratify is not None:
        parts, rule = units.expand(split_strata(units.strata(stratify), bounds, **how)), "stratified"
    elif view.content.keys is None or by == "random":
        parts, rule = units.expand(split_rows(len(units), bounds, **how)), "at random"
    else:
        parts = units.expand(split_keys(units.keys, bounds, **how))
        rule = "by key hash, sizes are approximate"
    check_no_empty(parts, fractions, len(view))
    return parts, rule


def fold_view(view: View, k: Any, *, seed: Any, stratify: Any, groups: Any) -> list[tuple[View, View]]:
    """Return for each fold what is outside and inside of it; parameters as `Flow.folds`.

    Raises
    ------
    OptionError
        If there are too few examples or groups, or windows overlap.
    """
    check_one_rule("folds", stratify, groups)
    if groups is None:
        _refuse_overlap(view, "folds", "pass groups=, such as lambda key: key, to keep each series on one side")
    units = Units(view)
    numbers = fold_numbers(
        len(units),
        integer("k", k, 2),
        integer("seed", seed),
        view.content.splits,
        None if stratify is None else units.strata(stratify),
        None if groups is None else units.values("groups", groups),
    )
    inside = [units.expand([np.flatnonzero(numbers == fold)])[0] for fold in range(int(k))]
    everything = np.arange(len(view))
    return [
        (
            view.noted_part(np.setdiff1d(everything, part, assume_unique=True), f"all but fold {number} of {k}"),
            view.noted_part(part, f"fold {number} of {k}"),
        )
        for number, part in enumerate(inside)
    ]


class Units:
    """What goes to a part as a whole: an example, however often the flow has it, or all regions of a file.

    Parameters
    ----------
    view : View
        The examples.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self._inverse: Array | None = None
        self._first = np.arange(len(view))
        rows = view.rows()
        items = rows if view.examples.crops is None else view.items(rows)
        repeated = isinstance(view.selection, np.ndarray) and len(np.unique(rows)) < len(rows)
        if view.examples.crops is not None or repeated:
            _, self._first, self._inverse = np.unique(items, return_index=True, return_inverse=True)

    def __len__(self) -> int:
        return len(self._first)

    @property
    def keys(self) -> list[str]:
        """The key of each."""
        keys = self._view.keys
        return [str(keys[at]) for at in self._first.tolist()]

    def values(self, argument: str, given: Any) -> Array:
        """The value of each, from one value an example or a function of the key."""
        keys = None if self._view.content.keys is None else self._view.keys
        if callable(given) and keys is None:
            # Rows are known by their number in the data set.
            keys = self._view.rows()
        values = values_of(argument, given, keys, len(self._view))
        if argument == "groups":
            _refuse_cut_series(self._view, values)
        if self._inverse is not None and (odd := np.flatnonzero(values != values[self._first][self._inverse])).size:
            raise OptionError(
                f"{argument}= differs between examples of one file, such as {self._view.name(int(odd[0]))}: it stays "
                f"on one side as a whole, so give all of them one value, or a function of the key"
            )
        return values[self._first]

    def strata(self, stratify: Any) -> Array:
        """The class of each; True for the label.

        Raises
        ------
        OptionError
            If there is no label.
        """
        if stratify is not True:
            return self.values("stratify", stratify)
        labels = self._view.labels()
        if labels is None:
            raise OptionError(
                "stratify=True: the examples have no label that is a single integer or text; pass an array with "
                "a class for each example, or a function of the key"
            )
        return labels[self._first]

    def expand(self, parts: Sequence[Array]) -> list[Any]:
        """From units to examples."""
        if self._inverse is None:
            return list(parts)
        return [np.flatnonzero(np.isin(self._inverse, part)) for part in parts]


def _rule(view: View, by: Any, stratify: Any, groups: Any) -> str | None:
    """Return how to split; windows are split by time unless something else is safe."""
    if by not in (None, "time", "random"):
        raise OptionError(f"split(by={by!r}): expected 'time' or 'random'")
    if by is not None and (stratify is not None or groups is not None):
        raise OptionError(f"split(by={by!r}) excludes stratify= and groups=")
    if view.windows is not None and by is None and groups is None and stratify is None:
        return "time"
    if by == "random" or stratify is not None:
        _refuse_overlap(view, "split", "split them by time, which is the default, or by groups= of series")
    return None if by is None else str(by)


def _refuse_overlap(view: View, method: str, advice: str) -> None:
    windows = view.windows
    if windows is not None and _overlap(view, windows):
        raise OptionError(
            f"{method}: windows of {windows.span} steps every {windows.stride} overlap, so at random the same steps "
            f"would be on both sides, and the model would be tested on what it was trained on; {advice}"
        )


def _overlap(view: View, windows: Windows) -> bool:
    """Say whether any two windows of the view share a step."""
    if windows.stride >= windows.span:
        return False
    if not isinstance(view.selection, np.ndarray):
        return True
    series, first = windows.locate(np.unique(view.selection))
    return bool(((np.diff(first) < windows.span) & (np.diff(series) == 0)).any())


def _by_time(view: View, windows: Windows, bounds: Sequence[float], gap: int) -> list[Array | range]:
    """Cut the time that the windows of each series span; a window that is not in one piece of it is in no part."""
    # Of each series the first of its windows that is in the view, and the last.
    begins, low, high = _extremes(view, windows)
    spans = np.where(high >= low, (high - low) * windows.stride + windows.span, 0)
    start = low * windows.stride
    cuts = [start] + [start + np.round(spans * bound).astype(np.int64) for bound in bounds]
    parts: list[Array | range] = []
    for number, (left, right) in enumerate(pairwise(cuts)):
        first = np.maximum(low, -(-(left + (gap if number else 0)) // windows.stride))
        last = np.minimum(high, (right - windows.span) // windows.stride)
        parts.append(_within(view, begins + first, begins + last + 1))
    return parts


def _extremes(view: View, windows: Windows) -> tuple[Array, Array, Array]:
    """The first row of each series; the first and last of its windows in the view, last below first if none is."""
    ends = np.cumsum(windows.counts)
    begins = ends - windows.counts
    if isinstance(view.selection, np.ndarray):
        series, first = windows.locate(view.selection)
        numbers = first // windows.stride
        low, high = windows.counts.copy(), np.full(len(begins), -1)
        np.minimum.at(low, series, numbers)
        np.maximum.at(high, series, numbers)
        return begins, low, high
    rows = range(int(ends[-1])) if view.selection is None else view.selection
    return begins, np.maximum(0, rows.start - begins), np.minimum(windows.counts, rows.stop - begins) - 1


def _within(view: View, starts: Array, stops: Array) -> Array | range:
    """The examples of the view whose rows are in one of the stretches ``[start, stop)``, which ascend."""
    kept = stops > starts
    starts, stops = starts[kept], stops[kept]
    if isinstance(view.selection, np.ndarray):
        at = np.searchsorted(starts, view.selection, side="right") - 1
        return np.flatnonzero((at >= 0) & (view.selection < stops[at]) if len(starts) else np.zeros(len(view), bool))
    first = 0 if view.selection is None else view.selection.start
    if len(starts) == 1:
        return range(int(starts[0]) - first, int(stops[0]) - first)
    stretches = [np.arange(start - first, stop - first) for start, stop in zip(starts, stops, strict=True)]
    return np.concatenate([np.arange(0), *stretches])


def _refuse_cut_series(view: View, groups: Array) -> None:
    """Windows that overlap share steps, so a series is of one group."""
    windows = view.windows
    if windows is None or not _overlap(view, windows):
        return
    series = view.items(view.rows())
    order = np.lexsort((groups, series))
    cut = np.flatnonzero((np.diff(series[order]) == 0) & (groups[order][1:] != groups[order][:-1]))
    if cut.size:
        raise OptionError(
            f"groups= puts overlapping windows of one series ({view.name(int(order[cut[0]]))}) into several groups, so "
            f"the same steps would be on both sides; give all windows of a series one group, such as lambda key: key"
        )
