"""How to draw examples, as users say it."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from npyflow._core.options import flag, integer


@dataclass(frozen=True, slots=True, eq=False)
class Balanced:
    """Draw examples so that each class, or each example, comes as often as its weight says.

    ``sample=Balanced()`` draws all classes equally often. Only what is drawn is read, and an epoch has an exact length.

    Parameters
    ----------
    weights : mapping or array (n,), optional
        A weight for each class (its name, or its number if classes have no names), or one for each example. Ratios
        count, 0 leaves out. Without it all classes weigh the same.
    labels : array (n,), optional
        The class of each example: integers or text. Without it the label of the flow.
    size : int, optional
        Examples an epoch; as many as the flow has if not given. All shards together have as many.
    replace : bool
        Draw every example for itself. Otherwise each class has its share of the epoch exactly, within one example, and
        none of its examples comes again before all of them came; with a weight for each example, each of them comes
        at most once an epoch, so `size` must be smaller than the flow.

    Raises
    ------
    OptionError
        If `size` is no integer of at least 1, or `replace` neither True nor False.
    """

    weights: Any = None
    _: KW_ONLY
    labels: Any = None
    size: int | None = None
    replace: bool = False

    def __post_init__(self) -> None:
        if self.size is not None:
            integer("Balanced: size", self.size, 1)
        flag("Balanced: replace", self.replace)
