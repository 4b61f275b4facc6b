"""`npyflow.rows`: arrays whose rows are the examples."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from npyflow._core.options import Ragged
from npyflow._core.structure import Structure, spread, structure_of
from npyflow._flow.audit import warn_of_inflating, warn_of_slips
from npyflow._flow.content import Content
from npyflow._flow.flow import Flow, open_flow
from npyflow._flow.leaves import components_of, find_leaf, read_whole
from npyflow._sources.ragged import offsets_of
from npyflow._sources.scan import raise_bad, scan, scan_appended


def rows(
    data: Any,
    *,
    fields: Any = None,
    dtype: Any = None,
    axis: Any = 0,
    access: Any = "auto",
    transpose: Any = None,
    appended: bool = False,
) -> Flow:
    """Open arrays whose rows are the examples: every index along an axis is one.

    Parameters
    ----------
    data : path, array, member of an `npz`, list or glob pattern of these, Ragged, or a nested tuple or dict of them
        A list or pattern means shards of one array, which follow each other in natural order (a list: as given).
        ``("x.npy", "y.npy")`` gives examples ``(x[i], y[i])``. `Ragged`: examples of different lengths that stand one
        after another.
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
    transpose : "channels_last", "channels_first", tuple of int, or a dict of them, optional
        Move the axes of each example: the first to the end, the last to the front, or in an order as `numpy.transpose`
        takes it.
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
    look = scan_appended if appended else scan
    values = [leaf.values if isinstance(leaf, Ragged) else leaf for leaf in structure.leaves]
    leaves = [find_leaf(name or "data", leaf, look) for name, leaf in zip(structure.names, values, strict=True)]
    raise_bad([error for leaf in leaves for error in leaf.bad], sum(leaf.total for leaf in leaves))
    components, whole = components_of(leaves, structure, fields=fields, dtype=dtype, axis=axis, access=access)
    transposes = spread(transpose, structure, "transpose", nested=True)
    components = [
        replace(component, transpose=transposes[at], offsets=_offsets(structure.leaves[at], component.name))
        for at, component in enumerate(components)
    ]
    tables = [leaf.table for leaf in leaves if leaf.table is not None]
    warn_of_slips(tables, stacklevel=2)
    warn_of_inflating(tables, stacklevel=2)
    return open_flow(Content(structure=Structure(whole.pack(whole.names)), components=tuple(components)))


def _offsets(leaf: Any, name: str) -> Any:
    """The rows that each example consists of, if they are of different lengths."""
    if not isinstance(leaf, Ragged):
        return None
    where = f"{name or 'data'}: Ragged"
    counts = None if leaf.counts is None else read_whole(f"{where}(counts=)", leaf.counts)
    offsets = None if leaf.offsets is None else read_whole(f"{where}(offsets=)", leaf.offsets)
    return offsets_of(counts, offsets, name or "data")
