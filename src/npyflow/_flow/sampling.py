"""From what ``sample=`` says to the order that draws."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.errors import OptionError
from npyflow._core.sampling import Balanced
from npyflow._core.text import examples, plural
from npyflow._flow.split import values_of
from npyflow._order.sampling import Sampled

if TYPE_CHECKING:
    from collections.abc import Callable

Array = np.ndarray[Any, Any]


def plan_sampling(
    sample: Any,
    n: int,
    labels_of: Callable[[], Array | None],
    classes: tuple[str, ...] | None,
    seed: int,
    shard: tuple[int, int],
) -> Sampled:
    """Return the order that draws what `sample` says.

    Parameters
    ----------
    sample : Balanced, mapping or array (n,)
        A mapping is ``Balanced(mapping)``. An array of a weight for each example is ``Balanced(array, replace=True)``:
        an epoch as long as the flow, in which an example may come several times.
    n : int
        Examples of the flow.
    labels_of : callable
        Returns the flow's label of each example ``(n,)``, or None; called only if it is needed.
    classes : tuple of str or None
        Names of the classes by number.
    seed, shard
        As in `Order`.

    Raises
    ------
    OptionError
        If weights and labels do not fit each other or the flow.
    ShapeMismatchError
        If there are more or fewer labels than examples.
    """
    if sample is Balanced:
        raise OptionError("sample=Balanced: expected Balanced(...), with brackets")
    if not isinstance(sample, Balanced):
        sample = Balanced(sample) if isinstance(sample, Mapping) else Balanced(_not_none(sample), replace=True)
    size = n if sample.size is None else int(sample.size)
    if n == 0 < size:
        raise OptionError(f"sample=: there are no examples to draw size={size:,} from")
    how: dict[str, Any] = {"size": size, "replace": bool(sample.replace), "seed": seed, "shard": shard}
    if sample.weights is not None and not isinstance(sample.weights, Mapping):
        return Sampled.by_example(_example_weights(sample, n), **how)
    values, groups = _classes(sample.labels, n, labels_of)
    if sample.weights is None:
        weights = np.ones(len(values))
    else:
        weights = _class_weights(sample.weights, values, classes if np.asarray(values).dtype.kind in "iu" else None)
    return Sampled.by_class(groups, weights, **how)


def _not_none(sample: Any) -> Any:
    if sample is None or isinstance(sample, bool | str | bytes):
        raise OptionError(
            f"sample={sample!r}: expected npyflow.Balanced(...), a weight for each example, or a mapping from class to "
            f"weight"
        )
    return sample


def _example_weights(sample: Balanced, n: int) -> Array:
    """Return the weights as an array ``(n,)``; `Sampled` checks their values."""
    if sample.labels is not None:
        raise OptionError("Balanced: labels= is of no use with a weight for each example; leave it out")
    try:
        weights = np.asarray(sample.weights)
    except ValueError:
        weights = np.asarray(None)
    if weights.shape != (n,):
        raise OptionError(
            f"sample=: weights of shape {weights.shape} for {plural(n, 'example')}; expected ({n},), one for each, or "
            f"a mapping from class to weight"
        )
    return weights


def _classes(labels: Any, n: int, labels_of: Callable[[], Array | None]) -> tuple[list[Any], Array]:
    """Return the classes that there are, in ascending order, and the number of the class of each example."""
    found = labels_of() if labels is None else labels
    if found is None:
        raise OptionError("sample=: the flow has no labels to balance; pass Balanced(labels=...), a class an example")
    if callable(found):
        raise OptionError("Balanced(labels=...) is a function; expected an array, one class an example")
    array = values_of("labels", found, None, n)
    if array.dtype.kind == "f" and (array != np.floor(array)).any():
        raise OptionError(
            f"sample=: labels of dtype {array.dtype} with fractions, such as "
            f"{array[array != np.floor(array)][0]:g}, are no classes; pass Balanced(labels=...) with integers or text"
        )
    if array.dtype.kind == "S":
        array = np.strings.decode(array, "utf-8", "backslashreplace")
    values, groups = np.unique(array, return_inverse=True)
    return values.tolist(), groups


def _class_weights(weights: Mapping[Any, Any], values: list[Any], classes: tuple[str, ...] | None) -> Array:
    """Return the weight of each of `values`.

    Parameters
    ----------
    weights : mapping
        By name or by value.
    values : list
        The classes that examples have.
    classes : tuple of str or None
        Names, if the values are numbers of them.
    """
    known = {name: number for number, name in enumerate(classes or ())}
    by_value = {known.get(key, key): (key, weight) for key, weight in weights.items()}
    names = [classes[value] if classes is not None and 0 <= value < len(classes) else value for value in values]
    has = f"there are {examples(map(repr, names), 10)}"
    if len(by_value) < len(weights):
        raise OptionError("sample=: a class has two weights, one by name and one by number; give one")
    if unknown := [key for value, (key, _) in by_value.items() if value not in {*values, *known.values()}]:
        raise OptionError(f"sample=: no class is called {examples(map(repr, unknown))}; {has}")
    if lacking := [name for name, value in zip(names, values, strict=True) if value not in by_value]:
        raise OptionError(f"sample=: no weight for class {examples(map(repr, lacking))}; 0 leaves a class out")
    for key, weight in by_value.values():
        if isinstance(weight, bool) or not isinstance(weight, Real) or not 0 <= float(weight) < float("inf"):
            raise OptionError(f"sample=: the weight of class {key!r} is {weight!r}; expected a number of at least 0")
    if empty := [key for value, (key, weight) in by_value.items() if weight > 0 and value not in values]:
        raise OptionError(f"sample=: no example is of class {examples(map(repr, empty))}; {has}; 0 leaves a class out")
    if values and not any(by_value[value][1] for value in values):
        raise OptionError("sample=: the weight of every class is 0; there is nothing to draw")
    return np.array([float(by_value[value][1]) for value in values])
