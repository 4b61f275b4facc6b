"""What is known of a component once all its examples were seen: mean, spread, range, classes."""

from __future__ import annotations

import math
import operator
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.dtypes import is_small_float, is_text
from npyflow._read.moments import BLOCK, Moments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from npyflow._core.dtypes import DType
    from npyflow._core.spec import ArraySpec

Array = np.ndarray[Any, Any]

_MOST_CLASSES = 1000
# A longer last axis is a signal, not channels.
_MOST_CHANNELS = 1 << 15
_FLOATS = ("mean", "std", "min", "max")

_TYPES: dict[str, Callable[[Any], Any]] = {
    "bool": bool,
    "int": operator.index,
    "str": str,
    "bytes": lambda text: text.encode("latin-1"),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChannelStats:
    """What each position of the last axis holds; NaN where it holds no finite value.

    Parameters
    ----------
    count : int64 array (channels,)
        Finite values.
    mean, std, min, max : float64 array (channels,)
        Of the finite values; the standard deviation is that of the whole population, as in ``np.std``.
    """

    count: Array
    mean: Array
    std: Array
    min: Array
    max: Array

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it, every float exactly."""
        floats = {name: [_float_out(value) for value in getattr(self, name).tolist()] for name in _FLOATS}
        return {"count": self.count.tolist(), **floats}

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> ChannelStats:
        """Return what `as_dict` made.

        Raises
        ------
        ValueError, TypeError, KeyError
            If it did not.
        """
        count = np.array([operator.index(value) for value in facts["count"]], np.int64)
        floats = {name: np.array([float(value) for value in facts[name]], np.float64) for name in _FLOATS}
        if {array.shape for array in floats.values()} != {count.shape}:
            raise ValueError("channels of unequal length")
        return cls(count=count, **floats)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ComponentStats:
    """What one component holds, over all its examples.

    Parameters
    ----------
    count : int
        Finite values; for text, texts.
    mean, std, min, max : float
        Of the finite values, NaN if there is none. The standard deviation is that of the whole population.
    nan, inf : int
        Values that are no number or infinite, and counted nowhere else.
    classes : dict or None
        How often each value occurs, in order, where an example is one integer, bool or text and there are at most
        1000 different ones.
    channels : ChannelStats or None
        The same for each position of the last axis; None where there is none or its length varies.
    """

    count: int
    mean: float
    std: float
    min: float
    max: float
    nan: int = 0
    inf: int = 0
    classes: dict[Any, int] | None = None
    channels: ChannelStats | None = None

    @property
    def constant(self) -> tuple[int, ...]:
        """The channels that hold one value only, or almost: their standard deviation is 0."""
        return () if self.channels is None else tuple(np.flatnonzero(self.channels.std == 0).tolist())

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it, every float exactly."""
        return {
            **{name: getattr(self, name) for name in ("count", "nan", "inf")},
            **{name: _float_out(getattr(self, name)) for name in _FLOATS},
            "classes": None if self.classes is None else _classes_out(self.classes),
            "channels": None if self.channels is None else self.channels.as_dict(),
        }

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> ComponentStats:
        """Return what `as_dict` made.

        Raises
        ------
        ValueError, TypeError, KeyError, AttributeError
            If it did not.
        """
        mean, std, low, high = (float(facts[name]) for name in _FLOATS)
        return cls(
            count=operator.index(facts["count"]),
            mean=mean,
            std=std,
            min=low,
            max=high,
            nan=operator.index(facts["nan"]),
            inf=operator.index(facts["inf"]),
            classes=None if facts["classes"] is None else _classes_in(**facts["classes"]),
            channels=None if facts["channels"] is None else ChannelStats.from_dict(facts["channels"]),
        )


class ClassCounts:
    """How often each value occurs, for as long as there are at most 1000 different ones."""

    def __init__(self) -> None:
        self._counts: Counter[Any] | None = Counter()

    def add(self, values: Array) -> None:
        """Take `values` in, an integer, bool or text array of any shape."""
        flat = values.reshape(-1)
        for start in range(0, flat.size, BLOCK):
            if self._counts is None:
                return
            self._take(_counted(flat[start : start + BLOCK]))

    def merge(self, other: ClassCounts) -> None:
        """Take in what `other` has taken in. It stays as it is."""
        self._take(other._counts)

    def counts(self) -> dict[Any, int] | None:
        """Return the values in order and how often each occurred, or None if there were too many."""
        return None if self._counts is None else dict(sorted(self._counts.items()))

    def _take(self, more: Counter[Any] | None) -> None:
        if self._counts is None or more is None:
            self._counts = None
        else:
            self._counts.update(more)
            if len(self._counts) > _MOST_CLASSES:
                self._counts = None


class Tally:
    """Everything that is found out about one component, or nothing where its dtype has no statistics.

    Parameters
    ----------
    spec : ArraySpec
        Of an example. Axes that vary are None.
    """

    def __init__(self, spec: ArraySpec) -> None:
        width = spec.shape[-1] if spec.shape else None
        self._width = None if width is None or width > _MOST_CHANNELS else width
        self._texts = 0
        self._moments = Moments(self._width) if _is_real(spec.dtype) and not spec.unit else None
        counts_classes = not spec.shape and ((spec.dtype.kind in "biu" and not spec.unit) or is_text(spec.dtype))
        self._classes = ClassCounts() if counts_classes else None

    def add(self, examples: Array | Sequence[Array]) -> None:
        """Take examples in: an array (batch, ...), or an array an example where shapes vary."""
        for values in [examples] if isinstance(examples, np.ndarray) else _joined(examples, self._width):
            if self._moments is not None:
                self._moments.add(values)
            elif self._classes is not None:
                self._texts += values.size
            if self._classes is not None:
                self._classes.add(values)

    def merge(self, other: Tally) -> None:
        """Take in what `other`, of the same spec, has taken in."""
        self._texts += other._texts
        if self._moments is not None and other._moments is not None:
            self._moments.merge(other._moments)
        if self._classes is not None and other._classes is not None:
            self._classes.merge(other._classes)

    def stats(self) -> ComponentStats | None:
        """Return what was found so far; None for complex numbers, and for texts that are no scalars."""
        classes = None if self._classes is None else self._classes.counts()
        if self._moments is None:
            nan = math.nan
            found = ComponentStats(count=self._texts, mean=nan, std=nan, min=nan, max=nan, classes=classes)
            return None if self._classes is None else found
        count, mean, std, low, high = self._moments.whole().tolist()
        return ComponentStats(
            count=int(count),
            mean=mean,
            std=std,
            min=low,
            max=high,
            nan=self._moments.nan,
            inf=self._moments.inf,
            classes=classes,
            channels=None if self._width is None else _channels(self._moments.channels()),
        )


def _channels(table: Array) -> ChannelStats:
    count, mean, std, low, high = table
    return ChannelStats(count=count.astype(np.int64), mean=mean, std=std, min=low, max=high)


def _is_real(dtype: DType) -> bool:
    return dtype.kind in "biuf" or is_small_float(dtype)


def _joined(arrays: Sequence[Array], width: int | None) -> Iterator[Array]:
    """Put small arrays together, so that each call has enough to do."""
    group: list[Array] = []
    size = 0
    for array in arrays:
        if group and size + array.size > BLOCK:
            yield np.concatenate(group)
            group, size = [], 0
        if array.size:
            group.append(array.reshape(-1) if width is None else array.reshape(-1, width))
            size += array.size
    if group:
        yield np.concatenate(group) if len(group) > 1 else group[0]


def _counted(values: Array) -> Counter[Any] | None:
    """Count each value, or return None where there are too many different ones."""
    if is_text(values.dtype):
        return Counter(values.tolist())
    # NumPy sorts short integers slower than longer ones.
    wide = values.astype(np.int32) if values.dtype.itemsize < 4 else values
    found, counts = np.unique(wide, return_counts=True)
    if len(found) > _MOST_CLASSES:
        return None
    return Counter(dict(zip(found.astype(values.dtype).tolist(), counts.tolist(), strict=True)))


def _float_out(value: float) -> float | str:
    """JSON knows no NaN and no infinity; ``float`` reads their names back."""
    return value if math.isfinite(value) else repr(value)


def _classes_out(classes: dict[Any, int]) -> dict[str, Any]:
    kind = type(next(iter(classes), 0)).__name__
    values = [value.decode("latin-1") if isinstance(value, bytes) else value for value in classes]
    return {"kind": kind, "values": values, "counts": list(classes.values())}


def _classes_in(kind: str, values: list[Any], counts: list[Any]) -> dict[Any, int]:
    made = [_TYPES[kind](value) for value in values]
    return dict(zip(made, map(operator.index, counts), strict=True))
