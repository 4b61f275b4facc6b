"""The front doors: `rows`, `files` and `load`."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from npyflow._core.errors import MissingFileError, NpyflowError, OptionError
from npyflow._core.structure import Structure, spread, structure_of
from npyflow._core.text import examples
from npyflow._flow.audit import (
    bad_keys,
    kept_examples,
    kept_tables,
    lonely_keys,
    report,
    unlabelled_keys,
    warn_of_inflating,
    warn_of_slips,
)
from npyflow._flow.content import Content
from npyflow._flow.expand import Stored, deliveries, field_trees, graft, member_trees
from npyflow._flow.flow import Flow
from npyflow._flow.npz import Member
from npyflow._sources.component import Component
from npyflow._sources.labels import find_labels
from npyflow._sources.listing import as_path_text, expand, list_files
from npyflow._sources.pairing import join
from npyflow._sources.scan import Scan, raise_bad, scan, scan_appended
from npyflow._sources.table import FileTable, concat

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

Array = np.ndarray[Any, Any]

_LABEL = "label"


def rows(
    data: Any,
    *,
    fields: Any = None,
    dtype: Any = None,
    axis: Any = 0,
    access: Any = "auto",
    appended: bool = False,
) -> Flow:
    """Open arrays whose rows are the examples: every index along an axis is one.

    Parameters
    ----------
    data : path, array, member of an `npz`, list or glob pattern of these, or a nested tuple or dict of them
        A list or pattern means shards of one array, which follow each other in natural order (a list: as given).
        ``("x.npy", "y.npy")`` gives examples ``(x[i], y[i])``.
    fields : str, or a tuple or dict of them, optional
        Which fields of a structured array; without it a dict of all. A dot leads into a field that has fields.
    dtype : dtype, or a tuple or dict of them, optional
        Cast while reading. A value that does not fit is an error. For bytes without a meaning, which is how NumPy
        stores bfloat16 and float8, it says what they are: a view of the bits.
    axis : int, or a tuple or dict of them
        Along which the examples lie; not 0 for arrays that were saved with time or features first.
    access : {"auto", "mmap", "read", "ram"}, or a tuple or dict of them
        ``"mmap"`` maps files, ``"read"`` reads rows by position and never maps, ``"ram"`` loads files now. ``"auto"``
        reads large rows by position and maps the rest; it never loads, except what is compressed, when its first row
        is wanted.
    appended : bool
        Files may hold several arrays, appended by ``np.save`` to one open handle; all of them are shards. Otherwise
        that is an error.

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
    accesses = [value or "auto" for value in spread(access, structure, "access")]
    axes = [_axis(value) for value in spread(axis, structure, "axis")]
    look = scan_appended if appended else scan
    found = [_row_leaf(name or "data", leaf, look) for name, leaf in structure.named()]
    raise_bad([error for leaf in found for error in leaf.bad], sum(leaf.total for leaf in found))
    stored = [leaf.stored(name) for leaf, name in zip(found, structure.names, strict=True)]
    trees = field_trees(fields, structure, stored)
    whole = graft(structure, trees)
    components = [
        Component(
            name=name,
            kind="arrays" if leaf.table is None else "rows",
            table=leaf.table,
            arrays=leaf.arrays,
            delivery=delivery,
            access=how,
            axis=along,
        )
        for name, leaf, delivery, how, along in zip(
            structure.names, found, deliveries(trees, whole, dtype), accesses, axes, strict=True
        )
    ]
    tables = [leaf.table for leaf in found if leaf.table is not None]
    warn_of_slips(tables, stacklevel=2)
    warn_of_inflating(tables, stacklevel=2)
    return Flow(Content(structure=Structure(whole.pack(whole.names)), components=tuple(components)))


def files(
    data: Any,
    *,
    labels: Any = None,
    classes: Sequence[str] | None = None,
    pattern: str | None = None,
    members: Any = None,
    fields: Any = None,
    dtype: Any = None,
    on_bad: Literal["raise", "skip"] = "raise",
) -> Flow:
    """Open files that are examples: one ``.npy`` file each, or one ``.npz`` file with several arrays.

    Parameters
    ----------
    data : folder, pattern, list of paths, or a nested tuple or dict of them
        Several components are joined by key: the path relative to the component's folder, without the suffix, or
        what ``{key}`` stands for in a pattern such as ``"mel/{key}-mel.npy"``. Order is natural (``2`` before ``10``),
        except that a list keeps its own.
    labels : optional
        ``"directory"`` (the first folder of the key), a function of the key, a mapping, an `npyflow.Table`, or an
        array, list, ``.npy`` file or member of an `npz` in the order of the keys. Examples become ``(inputs, label)``.
    classes : sequence of str, optional
        Class names by number, such as another flow's ``classes``. Without it the names found, sorted.
    pattern : str, optional
        Which files to take from a folder: ``"**/*.npy"``, or with `members` ``"**/*.npz"``; case counts. Hidden files
        and litter are never taken.
    members : str, list of str, or a tuple or dict of them, optional
        Which arrays of ``.npz`` files, nested as the examples shall be: ``("image", "action")``. A list is one array
        under alternative names; the first that a file has is taken. Without it a file must hold one array.
    fields : str, or a tuple or dict of them, optional
        As in `rows`.
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
    arrays = member_trees(members, structure)
    pattern = pattern or ("**/*.npy" if members is None else "**/*.npz")
    listings = [list_files(leaf, pattern, name or "data") for name, leaf in structure.named()]
    joined = join(listings, structure.names)
    skipped = lonely_keys(joined, structure.names, on_bad)
    scans = [scan(paths, tree.leaves) for paths, tree in zip(joined.paths, arrays, strict=True)]
    skipped |= bad_keys(joined, scans, on_bad)
    given = labels.read() if isinstance(labels, Member) else labels
    found = None if given is None else find_labels(given, joined.keys, classes)
    skipped |= unlabelled_keys(found, joined.keys, on_bad)
    keep = kept_examples(joined.keys, skipped)
    tables = [table for one in scans for table in kept_tables(one, keep)]
    components, tree = _file_components(graft(structure, arrays), tables, fields, dtype)
    if found is not None:
        components.append(Component(name=_LABEL, kind="labels", arrays=(found.values[keep],)))
        tree = (tree, _LABEL)
    warn_of_slips(tables, stacklevel=2)
    content = Content(
        structure=Structure(tree),
        components=tuple(components),
        keys=tuple(joined.keys[at] for at in keep.tolist()),
        classes=None if found is None else found.classes,
        report=report(listings, scans, [tree.leaves for tree in arrays], skipped, found),
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
    from npyflow._flow.manifest import load_content

    return Flow(*load_content(path))


def _axis(value: Any) -> int:
    try:
        return operator.index(0 if value is None else value)
    except TypeError:
        raise OptionError(f"axis={value!r}: expected an integer") from None


def _file_components(
    structure: Structure[Any], tables: Sequence[FileTable], fields: Any, dtype: Any
) -> tuple[list[Component], Any]:
    """The components that `tables` are, one a leaf of `structure`, and the nesting of all their arrays."""
    stored = [table.dtypes(name or "data") for table, name in zip(tables, structure.names, strict=True)]
    trees = field_trees(fields, structure, stored)
    whole = graft(structure, trees)
    components = [
        Component(name=name, kind="files", table=table, delivery=delivery)
        for name, table, delivery in zip(structure.names, tables, deliveries(trees, whole, dtype), strict=True)
    ]
    return components, whole.pack(whole.names)


class _RowLeaf(NamedTuple):
    """What one leaf of the data turned out to be: arrays on disk, or in RAM; and what is wrong with its files."""

    table: FileTable | None
    arrays: tuple[Any, ...]
    bad: list[NpyflowError]

    @property
    def total(self) -> int:
        """Number of files, good and bad."""
        return len(self.bad) + (0 if self.table is None else self.table.file_count)

    def stored(self, name: str) -> Stored:
        """The dtypes that it has."""
        if self.table is not None:
            return self.table.dtypes(name or "data")
        return [(np.asarray(array).dtype, name or "data") for array in self.arrays]


def _row_leaf(label: str, leaf: Any, look: Callable[[list[str]], Scan]) -> _RowLeaf:
    """Tell arrays on disk from arrays in RAM; a list may hold several of either."""
    items = leaf if isinstance(leaf, list) else [leaf]
    texts = [as_path_text(item) for item in items]
    if items and all(isinstance(item, Member) or text is not None for item, text in zip(items, texts, strict=True)):
        bad: list[NpyflowError] = []
        tables = [
            item.table if isinstance(item, Member) else _expanded(text or "", look, bad)
            for item, text in zip(items, texts, strict=True)
        ]
        return _RowLeaf(concat(tables), (), bad)
    if items and all(hasattr(item, "__array__") for item in items):
        return _RowLeaf(None, tuple(items), [])
    kinds = examples(sorted({type(item).__name__ for item in items}))
    got = f"a list of {kinds or 'nothing'}" if isinstance(leaf, list) else type(leaf).__name__
    raise OptionError(
        f"{label}: expected a path, an array, a member of an npyflow.npz, or a list of paths or of arrays, got {got}; "
        f"numbers in a list are no array: wrap them in np.asarray"
    )


def _expanded(text: str, look: Callable[[list[str]], Scan], bad: list[NpyflowError]) -> FileTable:
    """The good files that a path or pattern names; what is wrong with others goes to `bad`."""
    try:
        paths = expand(text)
    except MissingFileError as error:
        bad.append(error)
        paths = []
    found = look(paths)
    bad += found.bad.values()
    return found.tables[0]


def _check_options(on_bad: str, labels: Any, classes: Sequence[str] | None) -> None:
    if on_bad not in ("raise", "skip"):
        raise OptionError(f"on_bad={on_bad!r}: expected 'raise' or 'skip'")
    if classes is not None and labels is None:
        raise OptionError("classes= without labels=: say where the labels are")
