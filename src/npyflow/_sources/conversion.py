"""How stored items become delivered arrays: byte order, casts, views of bits, fields, text."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.casts import cast_into, check_castable
from npyflow._core.dtypes import (
    DType,
    carrier,
    check_no_objects,
    is_bytes,
    is_delivered,
    is_text,
    native,
    show_dtype,
    unit_of,
    unsupported,
)
from npyflow._core.errors import CastError, OptionError, UnsupportedDtypeError
from npyflow._core.spec import ArraySpec
from npyflow._core.text import examples

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from npyflow._core.buffers import BufferPool
    from npyflow._sources.base import Place

Array = np.ndarray[Any, Any]

# Stands for a field that one of several dtypes lacks; equal to none that is there.
_NOTHING: DType = np.dtype("V0")


@dataclass(frozen=True, slots=True)
class Field:
    """A part of an item.

    Parameters
    ----------
    path : tuple of str
        Names of fields from the outermost inwards; empty for the whole item.
    """

    path: tuple[str, ...] = ()

    def of(self, items: Array) -> Array:
        """The part of each item of an array."""
        for name in self.path:
            items = items[name]
        return items

    def __str__(self) -> str:
        return ".".join(self.path)


WHOLE = Field()


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One delivered array: the whole of each item, or a field of it.

    Parameters
    ----------
    field : Field
        Which part of an item.
    stored : numpy.dtype
        Of that part, byte order included.
    shape : tuple of int
        Of that part, if it is an array.
    target : numpy.dtype
        Delivered; native.
    unit : str, optional
        What the integers of a date or time span count.
    """

    field: Field
    stored: DType
    shape: tuple[int, ...]
    target: DType
    unit: str | None = None

    @property
    def fits_in_place(self) -> bool:
        """The stored bytes can land in the output; at most their order changes."""
        plain = native(carrier(self.stored))
        return not self.field.path and (
            plain == self.target or (is_bytes(plain) and plain.itemsize == self.target.itemsize)
        )

    def settle(self, items: Array, out: Array) -> int | None:
        """Bring the values of landed items into `out`; return the flat position of the first that does not fit."""
        values = self.field.of(items)
        in_place = np.may_share_memory(values, out)
        swap = in_place and not self.stored.isnative
        if swap:
            out.byteswap(inplace=True)
        elif in_place:
            pass
        elif is_bytes(self.stored):
            np.copyto(out.view(self.stored), values)
        elif is_text(self.stored):
            np.copyto(out, values)
        else:
            return cast_into(values.view(carrier(self.stored)), out)
        bad = _first_bad_character(out) if out.dtype.kind == "U" else None
        if swap and bad is not None:
            # As they were stored, for whoever looks what is wrong.
            out.byteswap(inplace=True)
        return bad

    def spec(self, shape: tuple[int | None, ...]) -> ArraySpec:
        """What is delivered for an array of items of `shape`."""
        return ArraySpec((*shape, *self.shape), self.target, self.unit)


@dataclass(frozen=True, slots=True)
class Conversion:
    """From items as they are stored to delivered arrays.

    Parameters
    ----------
    stored : numpy.dtype
        Of an item in the file.
    leaves : tuple of Leaf
        What is delivered, an array each.
    """

    stored: DType
    leaves: tuple[Leaf, ...]

    def landing(self, shape: tuple[int, ...], outs: Sequence[Array], pool: BufferPool) -> Array:
        """Return where to read raw items to: the output itself, or scratch memory.

        Parameters
        ----------
        shape : tuple of int
            ``(batch, *shape of an example in items)``.
        outs : sequence of array (batch, *leaf shape)
            The output.
        """
        return outs[0].view(self.raw) if self.in_place else pool.empty(shape, self.raw)

    @property
    def raw(self) -> DType:
        """What items land as: NumPy's own copies swap the bytes of dates without a unit, those of integers never."""
        return carrier(self.stored)

    @property
    def in_place(self) -> bool:
        """Raw items can land in the output."""
        return len(self.leaves) == 1 and self.leaves[0].fits_in_place

    @property
    def is_identity(self) -> bool:
        """What has landed in the output needs nothing more."""
        return self.in_place and self.raw == self.leaves[0].target and self.leaves[0].target.kind not in "US"

    def settle(self, landed: Array, outs: Sequence[Array]) -> tuple[int, int] | None:
        """Bring landed items into the outputs.

        Parameters
        ----------
        landed : array
            From `landing`, or any view of it in the shape of the examples.

        Returns
        -------
        tuple of int or None
            Which leaf, and the position along the first axis of the first example with a value that does not fit.
        """
        for number, (leaf, out) in enumerate(zip(self.leaves, outs, strict=True)):
            bad = leaf.settle(landed, out)
            if bad is not None:
                return number, bad // max(1, math.prod(out.shape[1:]))
        return None


def _first_bad_character(texts: Array) -> int | None:
    """The first text that no UTF-8 can hold: it has a code point beyond Unicode, or half of a surrogate pair."""
    points = texts.reshape(-1).view(np.uint32)
    bad = (points > 0x10FFFF) | ((points >= 0xD800) & (points < 0xE000))
    return int(bad.argmax()) // (texts.dtype.itemsize // 4) if bad.any() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What a user wants of each item.

    Parameters
    ----------
    fields : tuple of Field
        `WHOLE` alone for items without fields.
    dtypes : tuple of numpy.dtype or None
        What to cast each of them to.
    """

    fields: tuple[Field, ...] = (WHOLE,)
    dtypes: tuple[DType | None, ...] = (None,)


ALL = Delivery()


def field_tree(dtype: DType, where: str) -> Any:
    """Return the fields of `dtype` as nested dicts with a `Field` at each end; `WHOLE` if it has none.

    Raises
    ------
    UnsupportedDtypeError
        If it holds objects, or nothing at all.
    """
    check_no_objects(dtype, where)
    if dtype.names == ():
        raise unsupported(dtype, where)
    return _tree(dtype, ())


def _tree(dtype: DType, above: tuple[str, ...]) -> Any:
    base = dtype.base
    if not base.names:
        return Field(above)
    return {name: _tree(base[name], (*above, name)) for name in base.names}


def find_field(dtype: DType, name: str, where: str) -> Any:
    """Return the tree of the field `name`; a dot leads into a field that has fields.

    Raises
    ------
    OptionError
        If there is none.
    """
    tree = field_tree(dtype, where)
    for part in (name,) if isinstance(tree, dict) and name in tree else name.split("."):
        if not isinstance(tree, dict) or part not in tree:
            have = f"it has {examples(tree, 20)}" if isinstance(tree, dict) else "there are none"
            raise OptionError(f"{where}: fields= names {name!r}, but {have}")
        tree = tree[part]
    return tree


def describe_items(dtype: DType, delivery: Delivery) -> str:
    """Name what arrays that are read together must agree in: equal texts agree, whatever they are stored as."""
    leaves = _stored_leaves(dtype, delivery.fields)
    parts = [
        "" if wanted is not None and stored.kind not in "Mm" else _family(stored)
        for (stored, _), wanted in zip(leaves, delivery.dtypes, strict=True)
    ]
    if delivery.fields == (WHOLE,):
        return parts[0]
    named = [
        f"{field} {part}{shape or ''}".strip()
        for field, part, (_, shape) in zip(delivery.fields, parts, leaves, strict=True)
    ]
    return f"fields ({', '.join(named)})"


def unify_advice(kinds: Iterable[str]) -> str:
    """What to do about arrays of several kinds, as `describe_items` names them."""
    if any("datetime64" in kind or "timedelta64" in kind for kind in kinds):
        return "dates must count one unit: convert them and save them again"
    return "pass dtype= if only dtypes differ"


def _family(stored: DType) -> str:
    """Texts of any width are one type in TensorFlow."""
    return {"U": "text", "S": "bytes"}.get(stored.kind, str(native(stored)))


def _stored_leaves(dtype: DType, fields: Sequence[Field]) -> list[tuple[DType, tuple[int, ...]]]:
    found = []
    for field in fields:
        here: DType = dtype
        shape: tuple[int, ...] = ()
        for name in field.path:
            here = here.base[name] if name in (here.base.names or ()) else _NOTHING
            shape += here.shape
        found.append((here.base if field.path else here, shape))
    return found


def plan_conversions(stored: Sequence[tuple[DType, str]], delivery: Delivery) -> list[Conversion]:
    """Plan how each of the dtypes `stored`, which `describe_items` calls the same, is delivered.

    Parameters
    ----------
    stored : sequence of (numpy.dtype, str)
        With where each was found, for messages.

    Raises
    ------
    UnsupportedDtypeError
        If one has no TensorFlow type, or a cast makes no sense.
    """
    found = [_stored_leaves(dtype, delivery.fields) for dtype, _ in stored]
    widths = [max(leaves[at][0].itemsize for leaves in found) for at in range(len(delivery.fields))]
    plans = []
    for (dtype, where), leaves in zip(stored, found, strict=True):
        check_no_objects(dtype, where)
        plans.append(
            Conversion(
                dtype,
                tuple(
                    Leaf(
                        field=field,
                        stored=have,
                        shape=shape,
                        target=_target(have, want, width, _show(where, field)),
                        unit=unit_of(want if want is not None and is_bytes(have) else have),
                    )
                    for field, (have, shape), want, width in zip(
                        delivery.fields, leaves, delivery.dtypes, widths, strict=True
                    )
                ),
            )
        )
    return plans


def _show(where: str, field: Field) -> str:
    return f"{where} field {str(field)!r}" if field.path else where


def _target(stored: DType, wanted: DType | None, width: int, where: str) -> DType:
    """The dtype that `stored` is delivered as, if `wanted` was asked for."""
    if is_text(stored):
        return _text_target(stored, wanted, width, where)
    target = native(carrier(stored) if wanted is None else carrier(wanted))
    if is_bytes(stored):
        numeric = is_delivered(target) and not is_text(target) and target.kind != "b"
        if wanted is None or not numeric or target.itemsize != stored.itemsize:
            raise unsupported(stored, where)
        return target
    if not is_delivered(target) or is_text(target):
        raise unsupported(target, where)
    if {stored.kind, (wanted or stored).kind} & {"M", "m"} and wanted is not None:
        _check_dates(stored, wanted, where)
    check_castable(carrier(stored), target, where)
    return target


def _text_target(stored: DType, wanted: DType | None, width: int, where: str) -> DType:
    """Texts as wide as the widest; at least one character, since NumPy has no arrays of texts without room."""
    target = np.dtype(f"{stored.kind}{max(1, width // (4 if stored.kind == 'U' else 1))}")
    if wanted is not None and (wanted.kind != stored.kind or wanted.itemsize not in (0, target.itemsize)):
        raise UnsupportedDtypeError(
            f"{where}: {show_dtype(stored)} cannot be cast to {show_dtype(wanted)}; leave out dtype= for it: "
            f"text has no width in TensorFlow, and none is cut"
        )
    return target


def _check_dates(stored: DType, wanted: DType, where: str) -> None:
    if native(wanted) not in (native(stored), np.dtype(np.int64)):
        raise UnsupportedDtypeError(
            f"{where}: {native(stored).name} cannot be cast to {native(wanted).name}; it is delivered as int64, "
            f"and spec.unit says what that counts"
        )


def cast_error(items: Array, leaf: Leaf, place: Place, index: int) -> CastError:
    """The error for an example that does not fit.

    Parameters
    ----------
    items : array (1, ...)
        The example as stored; not alone, since NumPy cannot make a ``str`` of a text that is none.
    """
    values = leaf.field.of(items)
    out = np.empty(values.shape, leaf.target)
    at = leaf.settle(np.array(items), out) or 0
    position = tuple(int(axis) for axis in np.unravel_index(at, values.shape))
    where = f"{_show(str(place), leaf.field)} position {position[1:]}"
    if is_text(leaf.stored):
        message = f"{where}: the text has a character that Unicode does not know; fix the file"
    else:
        value = values.view(carrier(leaf.stored))[position]
        message = (
            f"{where}: {value!r} does not fit {leaf.target.name} (stored as {leaf.stored.name}); "
            f"ask for a wider dtype=, or clip the values and save them again"
        )
    return CastError(message, path=place.path, member=place.member, index=index)
