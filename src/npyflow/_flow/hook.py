"""`Flow.map`: what a function makes of an example is learnt from the first ones, or given."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.dtypes import is_delivered, is_text, native, show_dtype
from npyflow._core.errors import OptionError, ShapeMismatchError
from npyflow._core.spec import ArraySpec
from npyflow._core.structure import Structure, structure_of
from npyflow._order.schedule import plain_draw
from npyflow._read.mapping import Mapping, call, draw_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from npyflow._flow.view import View

Array = np.ndarray[Any, Any]


def plan_mapping(view: View, fn: Callable[[Any, np.random.Generator], Any], spec: Any, seed: int) -> Mapping:
    """Return the mapping of `fn` over the examples of `view`.

    Raises
    ------
    OptionError
        If `fn` is no function, `spec` no specs, or there is no example to learn from.
    MapError
        If the function raises for the first example.
    ShapeMismatchError
        If the first ones differ in more than sizes.
    """
    if not callable(fn):
        raise OptionError(f"map({fn!r}): expected a function of an example and a random generator")
    place = len(view.content.mappings)
    makes, specs = _learnt(view, fn, seed, place) if spec is None else _given(spec)
    return Mapping(fn=fn, seed=seed, place=place, takes=view.structure, makes=makes, specs=specs)


def _given(spec: Any) -> tuple[Structure[Any], tuple[ArraySpec, ...]]:
    nest = structure_of(spec, "spec")
    for name, leaf in nest.named():
        if not isinstance(leaf, ArraySpec):
            raise OptionError(f"spec{f' of {name}' if name else ''}: expected an npyflow.ArraySpec, got {leaf!r}")
        if not isinstance(leaf.shape, tuple):
            raise OptionError(f"spec: {leaf.shape!r} is no shape; expected a tuple of sizes, None for one that varies")
        if not (is_delivered(native(np.dtype(leaf.dtype))) or is_text(np.dtype(leaf.dtype))):
            raise OptionError(f"spec{f' of {name}' if name else ''}: {show_dtype(leaf.dtype)} cannot be delivered")
    specs = tuple(ArraySpec(leaf.shape, native(np.dtype(leaf.dtype)), leaf.unit) for leaf in nest.leaves)
    return Structure(nest.pack(nest.names)), specs


def _learnt(
    view: View, fn: Callable[[Any, np.random.Generator], Any], seed: int, place: int
) -> tuple[Structure[Any], tuple[ArraySpec, ...]]:
    """Call the function for the first example, and for the smallest and the largest where they differ in size."""
    if not len(view):
        raise OptionError("map of an empty flow: pass spec=, since there is no example to learn it from")
    indices = _telling(view)
    examples = view.examples.each(view.rows(indices), plain_draw(indices), view.name)
    found = [
        call(fn, view.structure.pack(leaves), draw_key(seed, place, 0, index), partial(view.name, index))
        for index, leaves in zip(indices.tolist(), examples, strict=True)
    ]
    makes, first = found[0]
    specs = [ArraySpec(array.shape, array.dtype) for array in first]
    for index, (nest, arrays) in zip(indices.tolist(), found, strict=True):
        if set(nest.names) != set(makes.names):
            raise ShapeMismatchError(
                f"map: the function returned {', '.join(makes.names)} for {view.name(0)}, but "
                f"{', '.join(nest.names)} for {view.name(index)}; it must return one structure"
            )
        made = dict(zip(nest.names, arrays, strict=True))
        specs = [_joined(spec, made[name], view.name(index)) for name, spec in zip(makes.names, specs, strict=True)]
    return makes, tuple(specs)


def _telling(view: View) -> Array:
    """The first example, and for each component that varies the smallest and the largest."""
    picked = [0]
    rows = view.rows()
    for leaf, (_, spec) in enumerate(view.examples.sources.leaves):
        if spec.varying:
            sizes = view.examples.shapes(leaf, rows).prod(axis=1)
            picked += [int(sizes.argmin()), int(sizes.argmax())]
    return np.array(list(dict.fromkeys(picked)), np.int64)


def _joined(spec: ArraySpec, array: Array, where: str) -> ArraySpec:
    """The spec that holds for what it held for, and for `array`."""
    text = is_text(spec.dtype) and array.dtype.kind == spec.dtype.kind
    if len(spec.shape) != array.ndim or not (text or spec.dtype == array.dtype):
        raise ShapeMismatchError(
            f"map: the function returned {spec} for the first example, but {ArraySpec(array.shape, array.dtype)} for "
            f"{where}; it must return one dtype and number of axes"
        )
    shape = tuple(have if want == have else None for want, have in zip(spec.shape, array.shape, strict=True))
    return ArraySpec(shape, max(spec.dtype, array.dtype, key=lambda dtype: dtype.itemsize), spec.unit)
