"""Nested examples: tuples and dicts of leaves, taken apart and put together again.

The nesting is that of ``tf.data.Dataset.from_tensor_slices``, except that a list is a leaf (in npyflow a list
means several files of one array) and dicts keep the order in which they were written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from npyflow._core.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Structure(Generic[T]):
    """A nesting with a leaf of type `T` at each end.

    Parameters
    ----------
    tree : tuple, dict or T
        The nesting; every node that is no tuple or dict is a leaf.
    """

    tree: Any

    @property
    def leaves(self) -> list[T]:
        """The leaves, depth first, in the order in which they were written."""
        return [leaf for _, leaf in self.named()]

    @property
    def names(self) -> list[str]:
        """A name for each leaf: ``image``, ``[0]``, ``inputs.mask``; empty for a lone leaf."""
        return [name for name, _ in self.named()]

    def named(self) -> list[tuple[str, T]]:
        """Each leaf with its name."""
        return list(_walk(self.tree, ""))

    def pack(self, leaves: Sequence[Any]) -> Any:
        """Return the nesting with `leaves` in place of its own."""
        it = iter(leaves)
        return _rebuild(self.tree, lambda _: next(it))

    def map(self, fn: Callable[[T], Any]) -> Structure[Any]:
        """Return the nesting with each leaf replaced by ``fn(leaf)``."""
        return Structure(_rebuild(self.tree, fn))


def _walk(node: Any, name: str) -> Any:
    if isinstance(node, dict):
        for key, child in node.items():
            yield from _walk(child, f"{name}.{key}" if name else str(key))
    elif isinstance(node, tuple):
        for at, child in enumerate(node):
            yield from _walk(child, f"{name}[{at}]")
    else:
        yield name, node


def _rebuild(node: Any, fn: Callable[[Any], Any]) -> Any:
    if isinstance(node, dict):
        return {key: _rebuild(child, fn) for key, child in node.items()}
    if isinstance(node, tuple):
        return tuple(_rebuild(child, fn) for child in node)
    return fn(node)


def structure_of(data: Any, argument: str) -> Structure[Any]:
    """Return `data` as a structure; any mapping counts as a dict.

    Raises
    ------
    OptionError
        If it has no leaf, or a dict key is no string.
    """
    structure: Structure[Any] = Structure(_plain(data))
    if not structure.leaves:
        raise OptionError(f"{argument} is empty: expected a path, an array, or a tuple or dict of them")
    _check_keys(structure.tree, argument)
    return structure


def _plain(node: Any) -> Any:
    if isinstance(node, Mapping):
        return {key: _plain(child) for key, child in node.items()}
    return tuple(map(_plain, node)) if isinstance(node, tuple) else node


def _check_keys(node: Any, argument: str) -> None:
    children = list(node.values()) if isinstance(node, dict) else list(node) if isinstance(node, tuple) else []
    if isinstance(node, dict):
        for key in node:
            if not isinstance(key, str):
                raise OptionError(f"{argument}: dict key {key!r} is a {type(key).__name__}; expected a string")
    for child in children:
        _check_keys(child, argument)


def tree_out(structure: Structure[Any]) -> Any:
    """Return the nesting as JSON has it: no tuples there, so every node says what it is; a leaf is its number."""
    numbered = structure.pack(range(len(structure.leaves)))

    def out(node: Any) -> Any:
        if isinstance(node, dict):
            return {"dict": {key: out(child) for key, child in node.items()}}
        return {"tuple": [out(child) for child in node]} if isinstance(node, tuple) else node

    return out(numbered)


def tree_in(node: Any, leaves: Sequence[Any]) -> Any:
    """Return the tree that `tree_out` wrote, with `leaves` in place of their numbers."""
    if not isinstance(node, dict):
        return leaves[node]
    if "dict" in node:
        return {key: tree_in(child, leaves) for key, child in node["dict"].items()}
    return tuple(tree_in(child, leaves) for child in node["tuple"])


def spread(option: Any, structure: Structure[Any], argument: str, *, nested: bool = False) -> list[Any]:
    """Return one value of `option` for each leaf of `structure`.

    A value that is no tuple or dict counts for every leaf; a dict may leave leaves out (``None``).

    Parameters
    ----------
    nested : bool
        A leaf's value may itself be a tuple or dict.

    Raises
    ------
    OptionError
        If the nesting of `option` does not fit.
    """
    found: list[Any] = []
    _spread(option, structure.tree, argument, nested, found)
    return found


def _spread(option: Any, node: Any, argument: str, nested: bool, found: list[Any]) -> None:
    if not isinstance(node, dict | tuple):
        if isinstance(option, dict | tuple) and not nested:
            raise OptionError(f"{argument}={option!r}: nests deeper than the data")
        found.append(option)
    elif isinstance(option, dict):
        if not isinstance(node, dict) or (unknown := [key for key in option if key not in node]):
            have = ", ".join(node) if isinstance(node, dict) else f"a tuple of {len(node)}"
            names = ", ".join(unknown) if isinstance(node, dict) else ", ".join(map(str, option))
            raise OptionError(f"{argument} names {names}; the data has {have}")
        for key, child in node.items():
            _spread(option.get(key), child, f"{argument}.{key}", nested, found)
    elif isinstance(option, tuple):
        if not isinstance(node, tuple) or len(option) != len(node):
            raise OptionError(f"{argument}={option!r}: expected one value for each of {len(node)} components")
        for at, (value, child) in enumerate(zip(option, node, strict=True)):
            _spread(value, child, f"{argument}[{at}]", nested, found)
    else:
        for child in node.values() if isinstance(node, dict) else node:
            _spread(option, child, argument, nested, found)
