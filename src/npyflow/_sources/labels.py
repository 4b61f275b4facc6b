"""Labels for keys: from folders, a function, a mapping, a table, or an array in key order."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.dtypes import carrier
from npyflow._core.errors import MissingFileError, NpyflowWarning, OptionError, PairingError, ShapeMismatchError
from npyflow._core.text import examples, natural_key, plural, show_path
from npyflow._sources.listing import as_path_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Table:
    """Labels from a CSV file with a header line.

    Parameters
    ----------
    path : path
        Comma separated, UTF-8 with or without a byte order mark.
    key : str
        Column with the keys. Keys stay text: ``007`` is not ``7``. A key without folders also matches a file of that
        name in any folder, if there is only one.
    value : str or sequence of str
        Column with the labels; several columns make a vector. Whole numbers become int64, other numbers float64, text
        becomes classes. A key with an empty cell has no label.

    Raises
    ------
    OptionError
        If `value` is an empty sequence.
    """

    path: str | os.PathLike[str]
    _: KW_ONLY
    key: str
    value: str | Sequence[str]

    def __post_init__(self) -> None:
        if not self.value:
            raise OptionError("Table(value=...) is empty; expected a column name or several")

    def read(self) -> dict[str, Any]:
        """Return key to label.

        Raises
        ------
        MissingFileError
            If there is no such file.
        PairingError
            If a column is missing or a key is there twice.
        """
        name = show_path(self.path)
        rows = self._rows(name)
        columns = [self.value] if isinstance(self.value, str) else list(self.value)
        have = list(rows[0]) if rows else []
        if lacking := [column for column in (self.key, *columns) if column not in have]:
            raise PairingError(f"{name} has no column {examples(lacking)}; it has {examples(have, 20) or 'no rows'}")
        doubled = [key for key, count in Counter(row[self.key] for row in rows).items() if count > 1]
        if doubled:
            raise PairingError(f"{name}: {plural(len(doubled), 'key')} more than once: {examples(doubled)}")
        # An empty cell is no label, neither the number 0 nor a class without a name.
        full = [row for row in rows if all(row[column].strip() for column in columns)]
        values = _numbers([[row[column] for column in columns] for row in full])
        found = {
            row[self.key]: value[0] if isinstance(self.value, str) else value
            for row, value in zip(full, values, strict=True)
        }
        return {row[self.key]: found.get(row[self.key]) for row in rows}

    def _rows(self, name: str) -> list[dict[str, str]]:
        """Read all lines; each must have as many cells as the header line."""
        import csv  # here, because few flows have a table

        try:
            with open(self.path, encoding="utf-8-sig", newline="") as file:
                rows = list(csv.DictReader(file))
        except FileNotFoundError:
            raise MissingFileError(f"{name}: no such file", path=os.fspath(self.path)) from None
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise PairingError(f"{name} cannot be read as CSV in UTF-8: {error}", path=os.fspath(self.path)) from None
        for number, row in enumerate(rows):
            if None in row or None in row.values():
                raise PairingError(
                    f"{name}, data line {number + 1}, has more or fewer cells than the header line",
                    path=os.fspath(self.path),
                )
        return rows


def _numbers(texts: list[list[str]]) -> list[list[Any]]:
    """Parse all values as int, else all as float, else leave all as text."""
    # Python reads 1_0 as a number; in a table it is a name.
    if not any("_" in text for row in texts for text in row):
        for parse in (int, float):
            try:
                return [[parse(text) for text in row] for row in texts]
            except ValueError:
                continue
    return [list(row) for row in texts]


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """Labels found for keys.

    Parameters
    ----------
    values : array (keys, ...)
        Rows of keys in `missing` are meaningless.
    classes : tuple of str or None
        What the class numbers mean.
    missing : dict of int to str
        Positions of keys without a label, and why.
    extra : tuple of str
        Labels that belong to no key.
    matches : tuple of (str, str)
        First and last keys with their labels, if matched by position.
    """

    values: Array
    classes: tuple[str, ...] | None
    missing: dict[int, str]
    extra: tuple[str, ...] = ()
    matches: tuple[tuple[str, str], ...] = ()


def find_labels(labels: Any, keys: Sequence[str], classes: Sequence[str] | None) -> Labels:
    """Find the label of every key.

    Parameters
    ----------
    labels : "directory", callable, mapping, Table, array or path of a ``.npy`` file
        See `npyflow.files`.
    keys : sequence of str
        In order.
    classes : sequence of str, optional
        Class names that fix their numbers.

    Raises
    ------
    PairingError, ShapeMismatchError, OptionError
        If labels cannot be matched to keys, or are of no use.
    """
    if isinstance(labels, Table):
        found = _look_up(_by_stem(labels.read(), keys), keys, show_path(labels.path))
    elif isinstance(labels, str) and labels == "directory":
        found = _from_folders(keys)
    elif callable(labels):
        values = [_called(labels, key) for key in keys]
        found = values, {at: "the function returned None" for at, value in enumerate(values) if value is None}, ()
    elif hasattr(labels, "keys") and hasattr(labels, "__getitem__"):
        found = _look_up(labels, keys, "labels")
    else:
        return _in_order(labels, keys, classes)
    values, missing, extra = found
    if len(missing) == len(keys):
        raise PairingError(f"labels: no key has one; keys look like {examples(map(show_path, keys), 3)}; {missing[0]}")
    filler = next(value for at, value in enumerate(values) if at not in missing)
    array, names = _number(
        _stack([filler if at in missing else value for at, value in enumerate(values)], keys), classes
    )
    return Labels(values=array, classes=names, missing=missing, extra=extra)


def _called(function: Callable[[str], Any], key: str) -> Any:
    try:
        return function(key)
    except Exception as error:
        raise PairingError(
            f"labels: the function raised {type(error).__name__} for {show_path(key)}: {error}"
        ) from error


_Found = tuple[list[Any], dict[int, str], tuple[str, ...]]


def _look_up(table: Mapping[str, Any], keys: Sequence[str], where: str) -> _Found:
    values = [table[key] if key in table else None for key in keys]  # noqa: SIM401 (no need of get)
    missing = {at: f"no label in {where}" for at, value in enumerate(values) if value is None}
    have = set(keys)
    return values, missing, tuple(str(key) for key in table if key not in have)


def _by_stem(table: dict[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """Let a table's plain names match keys in folders, where a name is in one folder only."""
    stems = Counter(key.rpartition("/")[2] for key in keys)
    full = {stem: key for key in keys if stems[stem := key.rpartition("/")[2]] == 1}
    known = set(keys)
    return {key if key in known else full.get(key, key): value for key, value in table.items()}


def _from_folders(keys: Sequence[str]) -> _Found:
    missing = {at: "the file is in no class folder" for at, key in enumerate(keys) if "/" not in key}
    return [key.partition("/")[0] for key in keys], missing, ()


def _in_order(labels: Any, keys: Sequence[str], classes: Sequence[str] | None) -> Labels:
    path = as_path_text(labels)
    name = "labels" if path is None else f"labels {show_path(path)}"
    if path is not None:
        labels = _load(path, name)
    values = _stack(labels, keys) if isinstance(labels, list | tuple) else np.asarray(labels)
    if values.ndim == 0 or len(values) != len(keys):
        count = "a scalar" if values.ndim == 0 else plural(len(values), "label")
        raise ShapeMismatchError(
            f"{name}: {count} for {plural(len(keys), 'file')}; expected one for each, in the order of the keys"
        )
    if list(keys) != sorted(keys) and list(keys) == sorted(keys, key=natural_key):
        warnings.warn(
            f"labels are matched by position to keys in natural order ({keys[0]} … {keys[-1]}), which differs from "
            f"plain alphabetical order: compare the matches in flow.report with what the labels were made for",
            NpyflowWarning,
            stacklevel=4,
        )
    array, names = _number(values, classes)
    ends = [*range(min(3, len(keys))), *range(max(3, len(keys) - 3), len(keys))]
    # NumPy cannot print dates without a unit.
    shown = values.view(carrier(values.dtype)) if values.dtype.name in ("datetime64", "timedelta64") else values
    matches = tuple((keys[at], str(shown[at])) for at in ends)
    return Labels(values=array, classes=names, missing={}, matches=matches)


def _load(path: str, name: str) -> Array:
    if not path.endswith(".npy"):
        raise OptionError(
            f"labels={path!r}: expected 'directory', a .npy file, an array, a mapping, a callable or npyflow.Table"
        )
    try:
        array: Array = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise MissingFileError(f"{name}: no such file", path=path) from None
    except (OSError, ValueError, EOFError) as error:
        raise PairingError(f"{name}: {error}", path=path) from None
    return array


def _stack(values: Sequence[Any], keys: Sequence[str]) -> Array:
    try:
        array = np.asarray(values)
    except ValueError:
        array = np.asarray(None)
    if array.dtype.kind not in "biufcU":
        kinds = sorted({type(value).__name__ for value in values})
        raise OptionError(
            f"labels: expected numbers, strings or arrays of one shape for every key, got {examples(kinds)} "
            f"(for {examples(map(show_path, keys), 2)})"
        )
    return array


def _number(values: Array, classes: Sequence[str] | None) -> tuple[Array, tuple[str, ...] | None]:
    """Turn class names into numbers; keep numbers, and check them if `classes` are given."""
    if values.dtype.kind == "S":
        values = np.strings.decode(values, "utf-8", "backslashreplace")
    if values.dtype.kind != "U":
        if classes is not None and values.size and not (values.min() >= 0 and values.max() < len(classes)):
            raise OptionError(
                f"labels reach from {values.min()} to {values.max()}, but classes= has {len(classes)} names"
            )
        return values, None if classes is None else tuple(classes)
    found = sorted(set(values.ravel().tolist()))
    names = tuple(found) if classes is None else tuple(map(str, classes))
    if len(set(names)) != len(names):
        raise OptionError(f"classes={names!r} names a class twice")
    if unknown := [name for name in found if name not in set(names)]:
        raise PairingError(f"labels {examples(map(repr, unknown))} are not in classes={names!r}")
    numbers = {name: number for number, name in enumerate(names)}
    flat = [numbers[name] for name in values.ravel().tolist()]
    return np.array(flat, np.int64).reshape(values.shape), names
