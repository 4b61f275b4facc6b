"""A flow as a JSON file: everything that opening it found out, and no payload.

Columns (a list of paths, a list of times) rather than a record a file: a tenth of the time to parse.
"""

from __future__ import annotations

import json
import operator
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.dtypes import DType, as_dtype, carrier, is_small_float, native
from npyflow._core.errors import FileFormatError, MissingFileError, OptionError
from npyflow._core.options import Crop
from npyflow._core.structure import Structure
from npyflow._core.text import show_path
from npyflow._flow.content import Content
from npyflow._flow.stats import Stats
from npyflow._format.header import parse_header
from npyflow._sources.component import Component
from npyflow._sources.conversion import Delivery, Field
from npyflow._sources.fileio import write_atomically
from npyflow._sources.ragged import offsets_of
from npyflow._sources.report import Report
from npyflow._sources.table import FileTable, Span
from npyflow._sources.windows import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npyflow._flow.view import View
    from npyflow._format.header import Header

Array = np.ndarray[Any, Any]

_FORMAT = "npyflow manifest"
_VERSION = 3


def save_content(
    content: Content, selection: Array | range | None, stats: Stats | None, path: str | os.PathLike[str]
) -> None:
    """Write a manifest under a temporary name and rename it.

    Raises
    ------
    OptionError
        If a component is an array in RAM, or there is a function.
    """
    if content.mappings:
        raise OptionError("a flow with a function from map() cannot be saved: save it before, and map it after loading")
    content.check_on_disk("it has no path to save")
    folder = Path(path).absolute().parent
    report = content.report
    facts = {
        "format": _FORMAT,
        "version": _VERSION,
        "structure": _tree_out(content.structure),
        "names": content.structure.leaves,
        "classes": content.classes,
        "splits": content.splits,
        "report": {
            "left_out": dict(report.left_out),
            "skipped": dict(report.skipped),
            "extra_labels": report.extra_labels,
            "matches": report.matches,
            "notes": report.notes,
        },
        "components": [_component_out(component, folder) for component in content.components],
        "keys": content.keys,
        "selection": _selection_out(selection),
        "stats": None if stats is None else stats.as_dict(),
    }
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in facts.items())
    write_atomically(path, [f"{{\n{lines}\n}}\n".encode("ascii")])


def load_content(path: str | os.PathLike[str]) -> tuple[Content, Array | range | None, Stats | None]:
    """Read a manifest; no data file is touched.

    Returns
    -------
    Content
        The data set.
    int64 array, range or None
        Which of its examples belong to the flow; None for all.
    Stats or None
        If they were measured.

    Raises
    ------
    MissingFileError
        If there is no such file.
    FileFormatError
        If it is no manifest, or one of a later version.
    """
    name = show_path(path)
    try:
        facts = json.loads(Path(path).read_bytes())
    except (FileNotFoundError, IsADirectoryError):
        raise MissingFileError(f"{name}: no such manifest; write one with flow.save", path=os.fspath(path)) from None
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{name} is no npyflow manifest: {error}", path=os.fspath(path)) from None
    if not isinstance(facts, dict) or facts.get("format") != _FORMAT:
        raise FileFormatError(f"{name} is no npyflow manifest; write one with flow.save", path=os.fspath(path))
    if facts.get("version") != _VERSION:
        raise FileFormatError(
            f"{name} has manifest version {facts.get('version')}; this npyflow reads {_VERSION}; save the flow again",
            path=os.fspath(path),
        )
    try:
        return _content_in(facts, Path(path).absolute().parent)
    except (AttributeError, KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise FileFormatError(
            f"{name} is a damaged manifest ({type(error).__name__}: {error}); save the flow again", path=os.fspath(path)
        ) from None


def _content_in(facts: dict[str, Any], folder: Path) -> tuple[Content, Array | range | None, Stats | None]:
    components = tuple(_component_in(component, folder) for component in facts["components"])
    report = facts["report"]
    names = _texts(facts["names"])
    structure: Structure[Any] = Structure(_tree_in(facts["structure"], names))
    if not len(structure.leaves) == len(names) == sum(len(component.delivery.fields) for component in components):
        raise ValueError("the structure does not fit the components")
    content = Content(
        structure=structure,
        components=components,
        keys=None if facts["keys"] is None else _texts(facts["keys"]),
        classes=None if facts["classes"] is None else _texts(facts["classes"]),
        splits=int(facts["splits"]),
        report=Report(
            left_out=Counter(report["left_out"]),
            skipped=report["skipped"],
            extra_labels=tuple(report["extra_labels"]),
            matches=tuple((key, value) for key, value in report["matches"]),
            notes=tuple(report["notes"]),
        ),
    )
    stats = None if facts["stats"] is None else Stats.from_dict(facts["stats"])
    return content, _selection_in(facts["selection"]), stats


def check_view(view: View, path: str | os.PathLike[str]) -> None:
    """Refuse a manifest whose examples are not there.

    Raises
    ------
    FileFormatError
        If it was changed by hand, or damaged.
    """
    selection, n, keys = view.selection, len(view.examples), view.content.keys
    ends = [] if selection is None or not len(selection) else [int(min(selection)), int(max(selection))]
    items = view.items(np.array([n - 1])) if n else np.array([-1])
    if any(not 0 <= end < n for end in ends) or (keys is not None and len(keys) <= int(items[0])):
        raise FileFormatError(
            f"{show_path(path)} is a damaged manifest: it names examples or keys that it does not have; save the flow "
            f"again",
            path=os.fspath(path),
        )


def _selection_out(selection: Array | range | None) -> Any:
    if isinstance(selection, range):
        return {"start": selection.start, "stop": selection.stop}
    return None if selection is None else selection.tolist()


def _selection_in(facts: Any) -> Array | range | None:
    if isinstance(facts, dict):
        return range(operator.index(facts["start"]), operator.index(facts["stop"]))
    return None if facts is None else np.array(facts, np.int64)


def _texts(values: Any) -> tuple[str, ...]:
    if not all(isinstance(value, str) for value in values):
        raise TypeError("expected a list of texts")
    return tuple(values)


def _tree_out(structure: Structure[Any]) -> Any:
    """JSON has no tuples, so every node says what it is; a leaf is the number of its name."""
    numbered = structure.pack(range(len(structure.leaves)))

    def out(node: Any) -> Any:
        if isinstance(node, dict):
            return {"dict": {key: out(child) for key, child in node.items()}}
        return {"tuple": [out(child) for child in node]} if isinstance(node, tuple) else node

    return out(numbered)


def _tree_in(node: Any, names: Sequence[str]) -> Any:
    if not isinstance(node, dict):
        return names[node]
    if "dict" in node:
        return {key: _tree_in(child, names) for key, child in node["dict"].items()}
    return tuple(_tree_in(child, names) for child in node["tuple"])


def _component_out(component: Component, folder: Path) -> dict[str, Any]:
    return {
        "name": component.name,
        "kind": component.kind,
        "fields": [field.path for field in component.delivery.fields],
        "dtypes": [_dtype_out(dtype) for dtype in component.delivery.dtypes],
        "access": component.access,
        "axis": component.axis,
        "transpose": component.transpose
        if isinstance(component.transpose, str | None)
        else list(map(int, component.transpose)),
        "extents": None if component.extents is None else component.extents.tolist(),
        "offsets": None if component.offsets is None else component.offsets.tolist(),
        "crop": _options_out(component.crop),
        "window": _options_out(component.window),
        "files": None if component.table is None else _table_out(component.table, folder),
        "labels": [_array_out(array) for array in component.arrays],
    }


def _component_in(facts: dict[str, Any], folder: Path) -> Component:
    return Component(
        name=facts["name"],
        kind=facts["kind"],
        delivery=Delivery(
            fields=tuple(Field(_texts(path)) for path in facts["fields"]),
            dtypes=tuple(map(as_dtype, facts["dtypes"])),
        ),
        access=facts["access"],
        axis=operator.index(facts["axis"]),
        transpose=_tuples(facts["transpose"]),
        extents=None if facts["extents"] is None else np.array(facts["extents"], np.int64),
        offsets=None if facts["offsets"] is None else offsets_of(None, facts["offsets"], str(facts["name"])),
        crop=None if facts["crop"] is None else Crop(**_options_in(facts["crop"])),
        window=None if facts["window"] is None else Window(**_options_in(facts["window"])),
        table=None if facts["files"] is None else _table_in(facts["files"], folder),
        arrays=tuple(_array_in(array) for array in facts["labels"]),
    )


def _options_out(options: Crop | Window | None) -> dict[str, Any] | None:
    """The fields of a small frozen object; a slice is no JSON, so it says what it is."""
    if options is None:
        return None
    return {
        name: {"slice": [value.start, value.stop, value.step]} if isinstance(value, slice) else value
        for name in type(options).__dataclass_fields__
        if (value := getattr(options, name)) is not None and name != "_"
    }


def _options_in(facts: dict[str, Any]) -> dict[str, Any]:
    return {
        name: slice(*value["slice"]) if isinstance(value, dict) else _tuples(value) for name, value in facts.items()
    }


def _tuples(value: Any) -> Any:
    """JSON has lists for tuples."""
    return tuple(value) if isinstance(value, list) else value


def _table_out(table: FileTable, folder: Path) -> dict[str, Any]:
    paths = [os.path.abspath(path) for path in table.paths]
    root = os.path.commonpath({os.path.dirname(path) for path in paths})
    prefix = len(os.path.join(root, ""))
    below = Path(root).is_relative_to(folder)
    return {
        # Relative where it can be, so that a folder with its manifest can be moved.
        "root": os.path.relpath(root, folder) if below else root,
        "headers": [_header_out(header) for header in table.headers],
        "header_of_file": table.kinds.tolist(),
        "mtime_ns": table.mtimes.tolist(),
        "paths": [path[prefix:] for path in paths],
        "spans": None if table.spans is None else [list(column) for column in zip(*table.spans, strict=True)],
    }


def _table_in(facts: dict[str, Any], folder: Path) -> FileTable:
    prefix = os.path.join(os.path.normpath(os.path.join(folder, facts["root"])), "")
    table = FileTable(
        paths=[prefix + path for path in facts["paths"]],
        mtimes=np.array(facts["mtime_ns"], np.int64),
        kinds=np.array(facts["header_of_file"], np.int64),
        headers=tuple(parse_header(header["raw"].encode("latin-1")) for header in facts["headers"]),
        spans=None if facts["spans"] is None else [_span_in(*span) for span in zip(*facts["spans"], strict=True)],
    )
    if table.spans is not None and len(table.spans) != len(table.paths):
        raise ValueError("columns of unequal length")
    if not len(table.paths) == len(table.mtimes) == len(table.kinds):
        raise ValueError("columns of unequal length")
    if len(table.kinds) and not 0 <= table.kinds.min() <= table.kinds.max() < len(table.headers):
        raise ValueError("a file without a header")
    return table


def _span_in(member: Any, *numbers: Any) -> Span:
    if member is not None and not isinstance(member, str):
        raise TypeError("a member without a name")
    return Span(member, *map(operator.index, numbers))


def _dtype_out(dtype: DType | None) -> str | None:
    return None if dtype is None else dtype.name if is_small_float(dtype) else dtype.str


def _header_out(header: Header) -> dict[str, Any]:
    """The bytes are what counts; the rest is for human readers."""
    return {
        "raw": header.raw.decode("latin-1"),
        "dtype": str(header.dtype),
        "shape": header.shape,
        "fortran_order": header.fortran_order,
        "file_bytes": header.offset + header.payload_bytes,
    }


def _array_out(array: Array) -> dict[str, Any]:
    """Numbers as JSON; a float's shortest text is exact. A complex number is two, a date is an integer."""
    parts = np.ascontiguousarray(array).reshape(-1).view(_part(array.dtype))
    return {"dtype": native(array.dtype).name, "shape": array.shape, "values": parts.tolist()}


def _array_in(facts: dict[str, Any]) -> Array:
    dtype = as_dtype(facts["dtype"]) or np.dtype(np.float64)
    values: Array = np.array(facts["values"], _part(dtype)).view(dtype)
    return values.reshape(facts["shape"])


def _part(dtype: DType) -> DType:
    """What JSON has numbers for."""
    return np.dtype(f"{dtype.byteorder}f{dtype.itemsize // 2}") if dtype.kind == "c" else carrier(dtype)
