"""From what a user names to the leaves of an example: members of archives, fields of structured arrays, dtypes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npyflow._core.dtypes import as_dtype
from npyflow._core.errors import OptionError, ShapeMismatchError
from npyflow._core.structure import Structure, spread, structure_of
from npyflow._sources.conversion import Delivery, Field, field_tree, find_field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npyflow._core.dtypes import DType
    from npyflow._sources.scanner import Names

# The dtypes that one leaf has, each with where it was met; usually one.
Stored = list[tuple["DType", str]]


def member_trees(members: Any, structure: Structure[Any]) -> list[Structure[Names]]:
    """Return, for each leaf of `structure`, the nesting of the members that replace it; None in it is the only one.

    Raises
    ------
    OptionError
        If a name is neither a string nor a list of strings.
    """
    trees: list[Structure[Names]] = []
    for name, chosen in zip(structure.names, spread(members, structure, "members", nested=True), strict=True):
        where = f"members of {name}" if name else "members"
        nest: Structure[Any] = Structure(None) if chosen is None else structure_of(chosen, where)
        trees.append(Structure(nest.pack([_names(leaf, where) for leaf in nest.leaves])))
    return trees


def _names(leaf: Any, where: str) -> Names:
    if leaf is None:
        return None
    names = leaf if isinstance(leaf, list) else [leaf]
    if not names or not all(isinstance(name, str) for name in names):
        raise OptionError(f"{where}: {leaf!r} is no name; expected a string, or a list of alternative names")
    return names


def graft(structure: Structure[Any], trees: Sequence[Any]) -> Structure[Any]:
    """Return `structure` with a nesting in place of each leaf."""
    return Structure(structure.pack([tree.tree for tree in trees]))


def field_trees(fields: Any, structure: Structure[Any], stored: Sequence[Stored]) -> list[Structure[Field]]:
    """Return, for each leaf of `structure`, the nesting of the fields that replace it; `WHOLE` if it has none.

    Parameters
    ----------
    stored : sequence of list of (numpy.dtype, str)
        The dtypes of each leaf.

    Raises
    ------
    OptionError
        If a field is named that is not there.
    ShapeMismatchError
        If none is named, and the dtypes of one leaf have different ones.
    """
    chosen = spread(fields, structure, "fields", nested=True)
    trees: list[Structure[Field]] = []
    for choice, dtypes in zip(chosen, stored, strict=True):
        first, where = dtypes[0]
        if choice is None:
            tree = field_tree(first, where)
            for dtype, place in dtypes[1:]:
                if field_tree(dtype, place) != tree:
                    raise ShapeMismatchError(
                        f"{place} has {_named(field_tree(dtype, place))}, but {where} has {_named(tree)}; name the "
                        f"fields that all have with fields=, or open them apart"
                    )
            trees.append(Structure(tree))
            continue
        nest = structure_of(choice, "fields")
        if not all(isinstance(name, str) for name in nest.leaves):
            raise OptionError(f"fields={choice!r}: expected names of fields, or a tuple or dict of them")
        for dtype, place in dtypes[1:]:
            for name in nest.leaves:
                find_field(dtype, name, place)
        trees.append(Structure(nest.pack([find_field(first, name, where) for name in nest.leaves])))
    return trees


def _named(tree: Any) -> str:
    return f"fields {', '.join(map(str, Structure(tree).leaves))}" if isinstance(tree, dict) else "no fields"


def deliveries(trees: Sequence[Structure[Field]], structure: Structure[Any], dtype: Any) -> list[Delivery]:
    """Return what is wanted of each component.

    Parameters
    ----------
    trees : sequence of Structure
        The fields of each component.
    structure : Structure
        All of them grafted together, which is what `dtype` refers to.
    """
    dtypes = iter([as_dtype(value) for value in spread(dtype, structure, "dtype")])
    return [Delivery(fields=tuple(tree.leaves), dtypes=tuple(next(dtypes) for _ in tree.leaves)) for tree in trees]
