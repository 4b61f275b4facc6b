"""What a flow holds, in numbers: gathered in one pass, kept in the manifest, made into layers."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.errors import MissingDependencyError, OptionError
from npyflow._core.text import plural
from npyflow._read.statistics import ComponentStats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npyflow._read.statistics import Tally

Array = np.ndarray[Any, Any]

_HEAD = ("", "count", "mean", "std", "min", "max", "NaN", "Inf", "classes", "channels")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Stats:
    """Statistics of each component of a flow. Printed, a table.

    Parameters
    ----------
    examples : int
        How many were read.
    components : dict
        By name: ``image``, ``[0]``, ``inputs.mask``; empty for a lone one. None for complex numbers, and for texts
        of which an example has several.
    """

    examples: int
    components: dict[str, ComponentStats | None]

    def __getitem__(self, name: str) -> ComponentStats | None:
        """Return what is known of the component `name`.

        Raises
        ------
        OptionError
            If there is none of that name.
        """
        if name not in self.components:
            have = ", ".join(map(repr, self.components))
            raise OptionError(f"stats[{name!r}]: there is no such component; expected one of {have}")
        return self.components[name]

    def normalization(self, name: str, axis: int | None = -1) -> Any:
        """Return a ``keras.layers.Normalization`` that takes the mean off and divides by the standard deviation.

        Parameters
        ----------
        name : str
            Of the component that will go through the layer.
        axis : int or None
            -1: each entry of the last axis by its own mean and deviation. None: all by one.

        Returns
        -------
        keras.layers.Normalization
            Ready: never call its ``adapt``. From entries that never change, ``stats[name].constant``, it takes the mean
            off only.

        Raises
        ------
        OptionError
            If the component has no mean, or none for each entry of the last axis.
        MissingDependencyError
            Without Keras.
        """
        mean, std = self._mean_and_std(name, axis)
        return _import_adapter().build(mean, std, axis)

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it, every float exactly."""
        components = {name: None if one is None else one.as_dict() for name, one in self.components.items()}
        return {"examples": self.examples, "components": components}

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> Stats:
        """Return what `as_dict` made.

        Raises
        ------
        ValueError, TypeError, KeyError, AttributeError
            If it did not.
        """
        components = {
            name: None if one is None else ComponentStats.from_dict(one) for name, one in facts["components"].items()
        }
        return cls(examples=operator.index(facts["examples"]), components=components)

    def __repr__(self) -> str:
        rows = [_HEAD, *(_row(name, one) for name, one in self.components.items())]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        # What no component has needs no column.
        shown = [at for at in range(len(_HEAD)) if at < 2 or any(row[at] for row in rows[1:])]
        lines = [
            "  ".join(row[at].rjust(widths[at]) if at else row[at].ljust(widths[at]) for at in shown).rstrip()
            for row in rows
        ]
        return "\n".join([plural(self.examples, "example"), *lines])

    def _mean_and_std(self, name: str, axis: int | None) -> tuple[Array, Array]:
        where, one = f"normalization({name!r}, axis={axis!r})", self[name]
        if axis is not None and (isinstance(axis, bool) or axis != -1):
            raise OptionError(f"{where}: expected axis=-1, each entry of the last axis by itself, or None, all by one")
        if one is None or (one.count and np.isnan(one.min)):
            raise OptionError(
                f"{where}: expected a component of real numbers, which have a mean; this one is text or complex"
            )
        if axis is None:
            mean, std = np.array(one.mean), np.array(one.std)
        elif one.channels is None:
            raise OptionError(f"{where}: there is no last axis of one length; pass axis=None for one mean of all")
        else:
            mean, std = one.channels.mean, one.channels.std
        if empty := np.flatnonzero(~np.isfinite(mean + std)).tolist():
            which = "" if axis is None else f" in channels {', '.join(map(str, empty[:5]))}"
            raise OptionError(
                f"{where}: no mean{which}, because no value is finite; clean the data, or take these out with a map"
            )
        return mean, std


def conclude(examples: int, tallies: Sequence[Tally], names: Sequence[str]) -> Stats:
    """Return the statistics of components that were tallied apart, each under its name."""
    found = [tally.stats() for tally in tallies]
    return Stats(examples=examples, components=dict(zip(names, found, strict=True)))


def _row(name: str, one: ComponentStats | None) -> tuple[str, ...]:
    if one is None:
        return name, "none", *[""] * (len(_HEAD) - 2)
    return (
        name,
        f"{one.count:,}",
        *("" if np.isnan(value) else f"{value:.6g}" for value in (one.mean, one.std, one.min, one.max)),
        *(f"{value:,}" if value else "" for value in (one.nan, one.inf)),
        "" if one.classes is None else f"{len(one.classes):,}",
        "" if one.channels is None else f"{len(one.channels.count):,}",
    )


def _import_adapter() -> Any:
    try:
        from npyflow._adapters import normalization
    except ModuleNotFoundError as error:
        if error.name not in ("keras", "tensorflow"):
            raise
        raise MissingDependencyError(
            "normalization needs Keras, which is not installed: pip install 'npyflow[tf]' (or 'npyflow[tf-cpu]'); "
            "the mean and std of a component are there without it"
        ) from None
    return normalization
