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

from npyflow._core.dtypes import DType, as_dtype, carrier, dtype_text, native
from npyflow._core.errors import BadFilesError, FileError, FileFormatError, MissingFileError, OptionError
from npyflow._core.options import Crop
from npyflow._core.structure import Structure, tree_in, tree_out
from npyflow._core.text import show_path
from npyflow._flow.content import Content
from npyflow._flow.stats import Stats
from npyflow._format.header import parse_header
from npyflow._format.schema import SCHEMA_FILE, SCHEMA_FORMAT
from npyflow._sources.component import Component
from npyflow._sources.conversion import Delivery, Field
from npyflow._sources.fileio import write_atomically
from npyflow._sources.ragged import offsets_of
from npyflow._sources.report import Report
from npyflow._sources.stored import Stored, load_stored
from npyflow._sources.table import FileTable, Span
from npyflow._sources.windows import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npyflow._flow.view import View
    from npyflow._format.header import Header
    from npyflow._format.schema import Schema

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
    write_manifest(content, path, selection=selection, stats=stats)


def write_manifest(
    content: Content,
    path: str | os.PathLike[str],
    *,
    selection: Array | range | None = None,
    stats: Stats | None = None,
    shards: Sequence[Any] = (),
) -> None:
    """Write a manifest; `shards` are checksums of packed files, for people and tools, which `load_content` ignores."""
    folder, report = Path(path).absolute().parent, content.report
    facts = {
        "format": _FORMAT,
        "version": _VERSION,
        "structure": tree_out(content.structure),
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
    if shards:
        facts["shards"] = shards
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
    path = os.path.join(path, SCHEMA_FILE) if os.path.isdir(path) else path
    name = show_path(path)
    try:
        facts = json.loads(Path(path).read_bytes())
    except FileNotFoundError:
        raise MissingFileError(
            f"{name}: no such manifest; write one with flow.save, or npyflow.pack", path=os.fspath(path)
        ) from None
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{name} is no npyflow manifest: {error}", path=os.fspath(path)) from None
    if isinstance(facts, dict) and facts.get("format") == SCHEMA_FORMAT:
        raise FileFormatError(
            f"{name} describes {facts.get('to')} data; open it with npyflow.open_{facts.get('to')}",
            path=os.fspath(path),
        )
    if not isinstance(facts, dict) or facts.get("format") != _FORMAT:
        raise FileFormatError(f"{name} is no npyflow manifest; write one with flow.save", path=os.fspath(path))
    if facts.get("version") != _VERSION:
        raise FileFormatError(
            f"{name} has manifest version {facts.get('version')}; this npyflow reads {_VERSION}; save the flow again",
            path=os.fspath(path),
        )
    try:
        return _content_in(facts, Path(path).absolute().parent)
    except (FileError, BadFilesError):
        # Of what the manifest points to.
        raise
    except (AttributeError, KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise FileFormatError(
            f"{name} is a damaged manifest ({type(error).__name__}: {error}); save the flow again", path=os.fspath(path)
        ) from None


def _content_in(facts: dict[str, Any], folder: Path) -> tuple[Content, Array | range | None, Stats | None]:
    schemas: dict[str, Schema] = {}
    components = tuple(_component_in(component, folder, schemas) for component in facts["components"])
    report = facts["report"]
    names = _texts(facts["names"])
    structure: Structure[Any] = Structure(tree_in(facts["structure"], names))
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


def _component_out(component: Component, folder: Path) -> dict[str, Any]:
    return {
        "name": component.name,
        "kind": component.kind,
        "fields": [field.path for field in component.delivery.fields],
        "dtypes": [None if dtype is None else dtype_text(dtype) for dtype in component.delivery.dtypes],
        "access": component.access,
        "axis": component.axis,
        "transpose": component.transpose
        if isinstance(component.transpose, str | None)
        else list(map(int, component.transpose)),
        "extents": None if component.extents is None else component.extents.tolist(),
        "offsets": None if component.offsets is None else component.offsets.tolist(),
        "shapes": None if component.shapes is None else component.shapes.tolist(),
        "stored": None if component.stored is None else _stored_out(component.stored, folder),
        "crop": _options_out(component.crop),
        "window": _options_out(component.window),
        "files": None if component.table is None else _table_out(component.table, folder),
        "labels": [_array_out(array) for array in component.arrays],
    }


def _component_in(facts: dict[str, Any], folder: Path, schemas: dict[str, Schema]) -> Component:
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
        shapes=None if facts["shapes"] is None else _shapes_in(facts["shapes"]),
        stored=None if facts["stored"] is None else _stored_in(facts["stored"], folder, schemas),
        crop=None if facts["crop"] is None else Crop(**_options_in(facts["crop"])),
        window=None if facts["window"] is None else Window(**_options_in(facts["window"])),
        table=None if facts["files"] is None else _table_in(facts["files"], folder),
        arrays=tuple(_array_in(array) for array in facts["labels"]),
    )


def _shapes_in(facts: Any) -> Array:
    shapes = np.array(facts, np.int64)
    if shapes.ndim != 2 or shapes.min(initial=0) < 0:
        raise ValueError("shapes that are none")
    return shapes


def _stored_out(stored: Stored, folder: Path) -> dict[str, Any]:
    """Converted data describes itself: where it is says all."""
    return {"folder": _relative(stored.path, folder), "leaf": stored.leaf}


def _stored_in(facts: dict[str, Any], folder: Path, schemas: dict[str, Schema]) -> Stored:
    path = os.path.normpath(os.path.join(folder, facts["folder"]))
    # All columns of a data set hold the same one.
    schema = schemas[path] = schemas.get(path) or load_stored(path)
    leaf = operator.index(facts["leaf"])
    if not 0 <= leaf < len(schema.columns):
        raise ValueError("a column that the data does not have")
    return Stored(path, schema, leaf)


def _relative(path: str, folder: Path) -> str:
    """Relative where it can be, so that a folder with its manifest can be moved."""
    return os.path.relpath(path, folder) if Path(path).is_relative_to(folder) else path


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
    return {
        "root": _relative(root, folder),
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
