"""A function of the user's, called for every example."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.dtypes import is_delivered, is_text, native, show_dtype
from npyflow._core.errors import MapError, OptionError, ShapeMismatchError
from npyflow._core.spec import ArraySpec
from npyflow._core.structure import Structure, structure_of
from npyflow._core.text import brief
from npyflow._order.cipher import mix

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Array = np.ndarray[Any, Any]

# Sets the random numbers apart from the shuffles with the same seed.
_DRAWS = 0x4D41


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Mapping:
    """A function and what it makes.

    Parameters
    ----------
    fn : callable
        ``fn(example, rng)`` returns an example, nested in any way.
    seed, place : int
        Of its random numbers: the user's, and the number of functions before this one.
    takes : Structure
        The nesting of what it is given.
    makes : Structure of str
        The nesting of what it returns; leaves are names.
    specs : tuple of ArraySpec
        What it must return, an array each.
    """

    fn: Callable[[Any, np.random.Generator], Any]
    seed: int
    place: int
    takes: Structure[Any]
    makes: Structure[Any]
    specs: tuple[ArraySpec, ...]

    def apply(self, leaves: Sequence[Array], epoch: int, number: int, where: Callable[[], str]) -> list[Array]:
        """Return what the function makes of an example.

        Raises
        ------
        MapError
            If it raises.
        ShapeMismatchError
            If it returns anything but what it must.
        """
        key = draw_key(self.seed, self.place, epoch, number)
        returned, arrays = call(self.fn, self.takes.pack(leaves), key, where)
        made = dict(zip(returned.names, arrays, strict=True))
        if set(made) != set(self.makes.names):
            raise ShapeMismatchError(
                f"map, {where()}: the function returned {_show_names(returned)}; expected {_show_names(self.makes)}, "
                f"as for the first example"
            )
        for name, spec in zip(self.makes.names, self.specs, strict=True):
            if not _fits(made[name], spec):
                raise ShapeMismatchError(
                    f"map, {where()}: the function returned {name or 'an array'} of "
                    f"{ArraySpec(made[name].shape, made[name].dtype)}; expected {spec}; let it return one shape and "
                    f"dtype for all examples, or say with spec= what varies"
                )
        return [made[name] for name in self.makes.names]


def draw_key(seed: int, place: int, epoch: int, number: int) -> int:
    """What the random numbers of one function for one example depend on."""
    return mix(seed, epoch, number, _DRAWS, place)


def call(
    fn: Callable[[Any, np.random.Generator], Any], example: Any, key: int, where: Callable[[], str]
) -> tuple[Structure[Any], list[Array]]:
    """Call the function for one example; return the nesting of the result, and its arrays: native, and copies.

    Raises
    ------
    MapError
        If it raises.
    OptionError
        If it returns what is no example.
    """
    # A counter-based generator: its numbers depend on the key alone, and no two keys share a stream.
    rng = np.random.Generator(np.random.Philox(key=key))
    try:
        made = fn(example, rng)
    except Exception as error:
        raise MapError(f"map, {where()}: the function raised {type(error).__name__}: {error}") from error
    try:
        nest = structure_of(made, "what the function returned")
    except OptionError as error:
        raise OptionError(f"map, {where()}: {error}") from None
    return Structure(nest.pack(nest.names)), [_as_array(leaf, name, where) for name, leaf in nest.named()]


def _as_array(value: Any, name: str, where: Callable[[], str]) -> Array:
    try:
        # A copy: the function may use its memory again, and who gets the example may write to it.
        array = np.array(value)
    except ValueError:
        array = np.array(None)
    if is_delivered(native(array.dtype)) or is_text(array.dtype):
        return array.astype(native(array.dtype), copy=False)
    advice = {
        type(None): "is a return statement missing?",
        list: "return a tuple or a dict for several arrays",
        np.random.Generator: "the function is called as fn(example, rng)",
    }.get(type(value), f"of dtype {show_dtype(array.dtype)}; expected numbers, booleans or text")
    raise OptionError(f"map, {where()}: the function returned {name or 'an example'} as {brief(value)}: {advice}")


def _fits(array: Array, spec: ArraySpec) -> bool:
    same = len(array.shape) == len(spec.shape) and all(
        want in (None, have) for have, want in zip(array.shape, spec.shape, strict=True)
    )
    # Text has no width in TensorFlow.
    return same and (array.dtype.kind == spec.dtype.kind if is_text(spec.dtype) else array.dtype == spec.dtype)


def _show_names(nest: Structure[Any]) -> str:
    return ", ".join(nest.names) if nest.names != [""] else "one array"
