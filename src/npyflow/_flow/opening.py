"""The front doors: `rows`, `files` and `load`."""

from __future__ import annotations

import operator
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from npyflow._core.errors import BadFilesError, MissingFileError, NpyflowError, OptionError, PairingError
from npyflow._core.spec import DType
from npyflow._core.structure import Structure, spread, structure_of
from npyflow._core.text import examples, plural, show_path
from npyflow._flow.content import Content
from npyflow._flow.flow import Flow
from npyflow._flow.manifest import load_content
from npyflow._sources.component import Component
from npyflow._sources.labels import Labels, find_labels
from npyflow._sources.listing import Listing, as_path_text, expand, list_files
from npyflow._sources.pairing import Joined, join, orphans_error
from npyflow._sources.report import Report
from npyflow._sources.scan import FileTable, Scan, raise_bad, scan

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

Array = np.ndarray[Any, Any]

_LABEL = "label"


def rows(data: Any, *, dtype: Any = None, axis: Any = 0, access: Any = "auto") -> Flow:
    """Open arrays whose rows are the examples: every index along an axis is one.

    Parameters
    ----------
    data : path, array, list or glob pattern of either, or a nested tuple or dict of them
        A list or pattern means shards of one array, which follow each other in natural order (a list: as given).
        ``("x.npy", "y.npy")`` gives examples ``(x[i], y[i])``.
    dtype : dtype, or a tuple or dict of them, optional
        Cast while reading. A value that does not fit is an error.
    axis : int, or a tuple or dict of them
        Along which the examples lie; not 0 for arrays that were saved with time or features first.
    access : {"auto", "mmap", "read", "ram"}, or a tuple or dict of them
        ``"mmap"`` maps files, ``"read"`` reads rows by position and never maps, ``"ram"`` loads files now. ``"auto"``
        reads large rows by position and maps the rest; it never loads.

    Returns
    -------
    Flow

    Raises
    ------
    ShapeMismatchError
        If components differ in length, or shards in shape or dtype.
    FileFormatError, BadFilesError
        If a file is no intact ``.npy`` file; all bad files are named.
    UnsupportedDtypeError
        If TensorFlow has no such type.

    Examples
    --------
    >>> import numpy as np, npyflow as nf
    >>> flow = nf.rows((np.zeros((100, 28, 28), "float32"), np.arange(100)))
    >>> len(flow), str(flow.spec[0])
    (100, 'float32 (28, 28)')
    >>> x, y = flow[7]
    >>> x.shape, int(y)
    ((28, 28), 7)
    """
    structure = structure_of(data, "data")
    dtypes = [_dtype(value) for value in spread(dtype, structure, "dtype")]
    accesses = [value or "auto" for value in spread(access, structure, "access")]
    axes = [_axis(value) for value in spread(axis, structure, "axis")]
    components, problems, paths = [], [], 0
    for at, (name, leaf) in enumerate(structure.named()):
        kind, table, arrays, bad = _row_leaf(name or "data", leaf)
        problems += bad
        paths += len(bad) + (0 if table is None else len(table))
        components.append(
            Component(
                name=name, kind=kind, table=table, arrays=arrays, dtype=dtypes[at], axis=axes[at], access=accesses[at]
            )
        )
    raise_bad(problems, paths)
    return Flow(Content(structure=Structure(structure.pack(structure.names)), components=tuple(components)))


def files(
    data: Any,
    *,
    labels: Any = None,
    classes: Sequence[str] | None = None,
    pattern: str = "**/*.npy",
    dtype: Any = None,
    on_bad: Literal["raise", "skip"] = "raise",
) -> Flow:
    """Open files that are examples: one ``.npy`` file each.

    Parameters
    ----------
    data : folder, pattern, list of paths, or a nested tuple or dict of them
        Several components are joined by key: the path relative to the component's folder, without the suffix, or
        what ``{key}`` stands for in a pattern such as ``"mel/{key}-mel.npy"``. Order is natural (``2`` before ``10``),
        except that a list keeps its own.
    labels : optional
        ``"directory"`` (the first folder of the key), a function of the key, a mapping, an `npyflow.Table`, or an
        array, list or ``.npy`` file in the order of the keys. Examples become ``(inputs, label)``.
    classes : sequence of str, optional
        Class names by number, such as another flow's ``classes``. Without it the names found, sorted.
    pattern : str
        Which files to take from a folder; case counts. Hidden files and litter are never taken.
    dtype : dtype, or a tuple or dict of them, optional
        Cast while reading, labels excepted. A value that does not fit is an error.
    on_bad : {"raise", "skip"}
        ``"skip"`` drops examples with a bad or missing file or no label, and lists them in ``flow.report``.

    Returns
    -------
    Flow

    Raises
    ------
    PairingError
        If keys do not match, or a label is missing.
    ShapeMismatchError
        If the files differ in shape or dtype.
    FileFormatError, BadFilesError
        If a file is no intact ``.npy`` file; all bad files are named.
    MissingFileError
        If there is no file.
    """
    _check_options(on_bad, labels, classes)
    structure = structure_of(data, "data")
    dtypes = [_dtype(value) for value in spread(dtype, structure, "dtype")]
    names = structure.names
    listings = [list_files(leaf, pattern, name or "data") for name, leaf in structure.named()]
    joined = _join(listings, names, on_bad)
    scans = [scan(paths) for paths in joined.paths]
    skipped = _bad_examples(joined, scans, on_bad)
    found = None if labels is None else find_labels(labels, joined.keys, classes)
    skipped |= _unlabelled(found, joined.keys, on_bad)
    keep = _kept(joined.keys, skipped)
    tree = structure.pack(names)
    tables = [_select(one, keep) for one in scans]
    components = [
        Component(name=name, kind="files", table=table, dtype=to)
        for name, table, to in zip(names, tables, dtypes, strict=True)
    ]
    if found is not None:
        components.append(Component(name=_LABEL, kind="labels", arrays=(found.values[keep],)))
        tree = (tree, _LABEL)
    content = Content(
        structure=Structure(tree),
        components=tuple(components),
        keys=tuple(joined.keys[at] for at in keep.tolist()),
        classes=None if found is None else found.classes,
        report=_report(listings, skipped, found),
    )
    return Flow(content)


def load(path: str | os.PathLike[str]) -> Flow:
    """Open a flow that was saved with `Flow.save`, without reading a header or asking the file system.

    Parameters
    ----------
    path : path
        The manifest. Files below its folder are found where the folder is now.

    Returns
    -------
    Flow
        A file that has changed since the scan is noticed, and named, when it is read.

    Raises
    ------
    MissingFileError, FileFormatError
        If there is no manifest, or it is damaged or of another version.
    """
    return Flow(*load_content(path))


def _dtype(value: Any) -> DType | None:
    if value is None:
        return None
    try:
        dtype: DType = np.dtype(getattr(value, "as_numpy_dtype", value))
    except TypeError:
        raise OptionError(f"dtype={value!r}: expected a dtype, such as 'float32'") from None
    return dtype


def _axis(value: Any) -> int:
    try:
        return operator.index(0 if value is None else value)
    except TypeError:
        raise OptionError(f"axis={value!r}: expected an integer") from None


def _row_leaf(
    label: str, leaf: Any
) -> tuple[Literal["rows", "arrays"], FileTable | None, tuple[Any, ...], list[NpyflowError]]:
    """Tell paths from arrays; a list may hold several of either. Also what is wrong with the files."""
    items = leaf if isinstance(leaf, list) else [leaf]
    texts = [as_path_text(item) for item in items]
    if items and all(text is not None for text in texts):
        paths, bad = _expand_all([text for text in texts if text is not None])
        found = scan(paths)
        return "rows", found.table, (), [*bad, *found.bad.values()]
    if items and all(hasattr(item, "__array__") for item in items):
        return "arrays", None, tuple(items), []
    kinds = examples(sorted({type(item).__name__ for item in items}))
    got = f"a list of {kinds or 'nothing'}" if isinstance(leaf, list) else type(leaf).__name__
    raise OptionError(
        f"{label}: expected a path, an array, or a list of paths or of arrays, got {got}; "
        f"numbers in a list are no array: wrap them in np.asarray"
    )


def _expand_all(texts: list[str]) -> tuple[list[str], list[NpyflowError]]:
    paths: list[str] = []
    bad: list[NpyflowError] = []
    for text in texts:
        try:
            paths += expand(text)
        except MissingFileError as error:
            bad.append(error)
    return paths, bad


def _check_options(on_bad: str, labels: Any, classes: Sequence[str] | None) -> None:
    if on_bad not in ("raise", "skip"):
        raise OptionError(f"on_bad={on_bad!r}: expected 'raise' or 'skip'")
    if classes is not None and labels is None:
        raise OptionError("classes= without labels=: say where the labels are")


def _join(listings: list[Listing], names: list[str], on_bad: str) -> Joined:
    joined = join(listings, names)
    if joined.orphans and on_bad == "raise":
        raise orphans_error(joined, names)
    return joined


def _bad_examples(joined: Joined, scans: Sequence[Scan], on_bad: str) -> dict[str, str]:
    """Return the keys to skip, or raise for all bad files at once."""
    bad: list[NpyflowError] = [error for one in scans for error in one.bad.values()]
    if on_bad == "raise":
        raise_bad(bad, sum(map(len, joined.paths)))
        return {}
    skipped = {key: f"no file in {', '.join(where)}" for key, where in joined.orphans.items()}
    for one in scans:
        skipped |= {joined.keys[at]: str(error) for at, error in one.bad.items()}
    return skipped


def _unlabelled(found: Labels | None, keys: Sequence[str], on_bad: str) -> dict[str, str]:
    """Return the keys to skip for want of a label, or raise for all of them."""
    if found is None or not found.missing:
        return {}
    missing = {keys[at]: why for at, why in found.missing.items()}
    if on_bad == "raise":
        extra = f"; labels without a file: {examples(map(show_path, found.extra))}" if found.extra else ""
        raise PairingError(
            f"{len(missing):,} of {plural(len(keys), 'file')} have no label: {examples(map(show_path, missing))} "
            f"({next(iter(missing.values()))}){extra}; add labels, or pass on_bad='skip' to drop these files"
        )
    return missing


def _kept(keys: Sequence[str], skipped: dict[str, str]) -> Array:
    """Positions of the examples that are not skipped.

    Raises
    ------
    BadFilesError
        If that is none.
    """
    keep = np.array([at for at, key in enumerate(keys) if key not in skipped], np.int64)
    if not keep.size:
        raise BadFilesError(f"all {plural(len(keys), 'example')} were skipped: {next(iter(skipped.values()))}")
    return keep


def _select(one: Scan, keep: Array) -> FileTable:
    """The table of the examples `keep`, which are all good."""
    if len(keep) == len(one.table) and not one.bad:
        return one.table
    return one.table.select(np.searchsorted(one.good, keep))


def _report(listings: list[Listing], skipped: dict[str, str], found: Labels | None) -> Report:
    total: Counter[str] = sum((listing.left_out for listing in listings), Counter())
    if found is None:
        return Report(left_out=total, skipped=skipped)
    return Report(left_out=total, skipped=skipped, extra_labels=found.extra, matches=found.matches)
