"""From `pad`, `ragged` and `bucket` to collators, and to the nesting of a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.casts import fitting
from npyflow._core.errors import OptionError, ShapeMismatchError
from npyflow._core.options import Pad
from npyflow._core.structure import Structure, spread
from npyflow._core.text import examples, plural
from npyflow._read.collate import Flat, Padded, Stacked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from npyflow._core.spec import ArraySpec
    from npyflow._read.collate import Collator

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Slot:
    """Where an array of a batch comes from.

    Parameters
    ----------
    column : int
        Of what a reader returns.
    array : int or None
        Which array of that column; None for all of them, as one ragged array.
    """

    column: int
    array: int | None = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """The shapes of the examples of a flow, from the headers.

    Parameters
    ----------
    shapes : callable
        ``shapes(leaf)``: int64 ``(examples, axes)`` of a leaf that varies, or None if only its data tells.
    edges : callable
        ``edges(leaf)``: int64 ``(buckets, varying axes)``, the largest of each bucket; None without buckets.
    where : callable
        Names an example.
    """

    shapes: Callable[[int], Array | None]
    edges: Callable[[int], Array | None]
    where: Callable[[int], str]


def plan_collators(
    specs: Sequence[ArraySpec], structure: Structure[Any], *, pad: Any, ragged: bool, single: bool, lengths: Lengths
) -> tuple[Collator, ...]:
    """Say how each component of a batch is put together.

    Parameters
    ----------
    specs : sequence of ArraySpec
        Of the leaves of `structure`.
    structure : Structure of str
        The nesting of an example.
    pad, ragged
        As in `Flow.to_tf`.
    single : bool
        Examples are delivered one by one, as they are.
    lengths : Lengths
        What the headers tell.

    Raises
    ------
    ShapeMismatchError
        If shapes differ and nothing says what to do about it, or an example is longer than `Pad.to`.
    OptionError
        If `pad` does not fit the components.
    """
    if ragged and pad is not None:
        raise OptionError("pad= and ragged= exclude each other")
    pads = spread(pad, structure, "pad")
    blanket = not isinstance(pad, dict | tuple)
    if not blanket or (isinstance(pad, Pad) and (pad.mask or pad.lengths or pad.to)):
        _check_wanted(specs, structure.leaves, pads, pad, blanket)
    found: list[Collator] = []
    for leaf, (name, spec, one) in enumerate(zip(structure.leaves, specs, pads, strict=True)):
        if not spec.varying:
            found.append(Stacked(spec))
        elif one is not None:
            found.append(_padded(leaf, name, spec, one if isinstance(one, Pad) else Pad(one), lengths))
        elif single:
            found.append(Padded(name=name, spec=spec, value=np.zeros((), spec.dtype)))
        elif ragged:
            found.append(Flat(spec))
        else:
            raise _undecided(leaf, name, spec, lengths)
    return tuple(found)


def _check_wanted(
    specs: Sequence[ArraySpec], names: Sequence[str], pads: Sequence[Any], pad: Any, blanket: bool
) -> None:
    """Refuse to pad what does not vary: the mask that was asked for would be missing."""
    fixed = [
        name or "data"
        for name, spec, one in zip(names, specs, pads, strict=True)
        if one is not None and not spec.varying
    ]
    if fixed and (not blanket or len(fixed) == len(specs)):
        raise OptionError(f"pad={pad!r}: {examples(fixed)} has one shape in all examples; there is nothing to pad")


def _padded(leaf: int, name: str, spec: ArraySpec, pad: Pad, lengths: Lengths) -> Padded:
    axes = len(spec.varying)
    where = f"pad of {name or 'data'}"
    to: tuple[int, ...] | None = None
    edges = None
    if pad.to == "bucket":
        edges = lengths.edges(leaf)
        if edges is None:
            raise OptionError(f"{where}: Pad(to='bucket') needs bucket=, and lengths that no function of map() changes")
    elif pad.to is not None:
        to = pad.to if isinstance(pad.to, tuple) else (int(pad.to),) * axes
        if len(to) != axes:
            raise OptionError(f"{where}: to={pad.to!r} has {len(to)} sizes, {plural(axes, 'axis varies', 'axes vary')}")
    padded = Padded(
        name=name,
        spec=spec,
        value=fitting(pad.value, spec.dtype, where),
        to=to,
        edges=edges,
        multiple=pad.multiple or 1,
        truncate=pad.truncate,
        mask=pad.mask,
        lengths=pad.lengths,
    )
    shapes = lengths.shapes(leaf) if to is not None and not pad.truncate else None
    if shapes is not None:
        _check_fits(padded, shapes[:, list(spec.varying)], lengths.where)
    return padded


def _check_fits(padded: Padded, have: Array, where: Callable[[int], str]) -> None:
    sizes = padded.sizes(have, 0)
    long = np.flatnonzero((have > sizes).any(axis=1))
    if long.size:
        shown = examples((f"{where(at)} has {_show(have[at])}" for at in long.tolist()), 5)
        raise ShapeMismatchError(
            f"{padded.name or 'data'}: {plural(len(long), 'example')} longer than Pad(to={_show(sizes)}): {shown}; "
            f"pass a larger to=, or truncate=True to cut the end"
        )


def _undecided(leaf: int, name: str, spec: ArraySpec, lengths: Lengths) -> ShapeMismatchError:
    """Say which shapes there are, and what can be done about it."""
    shapes = lengths.shapes(leaf)
    kinds = ""
    if shapes is not None:
        found, firsts, counts = np.unique(shapes, axis=0, return_index=True, return_counts=True)
        ranks = sorted(range(len(counts)), key=lambda at: -int(counts[at]))[:5]
        where = (lengths.where(int(firsts[at])) for at in ranks)
        lines = (f"{counts[at]:,} of {tuple(found[at].tolist())}: {one}" for at, one in zip(ranks, where, strict=True))
        more = f"; … {len(found) - 5:,} more shapes" if len(found) > 5 else ""
        kinds = f" ({'; '.join(lines)}{more})"
    return ShapeMismatchError(
        f"{name or 'data'}: examples differ in shape, {spec}{kinds}, and cannot be batched as they are; pass pad=0.0 "
        f"or npyflow.Pad(...) to fill them up, with bucket=npyflow.Bucket(...) to batch like with like, ragged=True "
        f"for ragged tensors, or leave out the batch size for single examples"
    )


def _show(sizes: Array) -> str:
    return str(int(sizes[0])) if len(sizes) == 1 else str(tuple(sizes.tolist()))


def batch_structure(structure: Structure[Any], collators: Sequence[Collator], with_index: bool) -> Structure[Slot]:
    """Return the nesting of a batch: masks and lengths join the examples' own.

    Raises
    ------
    OptionError
        If a component has such a name already.
    """
    first = int(with_index)
    columns = iter(range(first, first + len(collators)))
    tree = _grow(structure.tree, columns, [None] * first + list(collators))
    return Structure((Slot(0), tree)) if with_index else Structure(tree)


def _grow(node: Any, columns: Any, collators: Sequence[Any]) -> Any:
    if isinstance(node, tuple):
        return tuple(_grow(child, columns, collators) for child in node)
    if not isinstance(node, dict):
        slots = _slots(next(columns), collators)
        return slots["values"] if len(slots) == 1 else slots
    out: dict[str, Any] = {}
    added: dict[str, Any] = {}
    for key, child in node.items():
        if isinstance(child, dict | tuple):
            out[key] = _grow(child, columns, collators)
            continue
        slots = _slots(next(columns), collators)
        out[key] = slots.pop("values")
        added |= {f"{key}_{what}": slot for what, slot in slots.items()}
    if taken := [name for name in added if name in out]:
        raise OptionError(f"pad: the data has a component {examples(taken)} already; rename it, or ask for no mask")
    return out | added


def _slots(column: int, collators: Sequence[Any]) -> dict[str, Slot]:
    """The arrays of one column by what they are."""
    collator = collators[column]
    if isinstance(collator, Flat):
        return {"values": Slot(column, None)}
    wanted = ["values"]
    if isinstance(collator, Padded):
        wanted += ["mask"] * collator.mask + ["length"] * collator.lengths
    return {what: Slot(column, array) for array, what in enumerate(wanted)}
