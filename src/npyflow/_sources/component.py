"""What one component of the examples consists of, as plain data; and the source that reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeGuard

import numpy as np

from npyflow._core.errors import ClosedError, OptionError
from npyflow._sources.base import Source, VaryingSource, plan_axes
from npyflow._sources.conversion import ALL, Delivery
from npyflow._sources.crops import CropSource
from npyflow._sources.files import open_files
from npyflow._sources.ragged import ragged_rows, shaped_rows
from npyflow._sources.rows import ACCESS, RowSource, rows_of_arrays, rows_of_files
from npyflow._sources.windows import WindowSource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npyflow._core.buffers import BufferPool
    from npyflow._core.options import Crop
    from npyflow._core.spec import ArraySpec
    from npyflow._sources.stored import Stored
    from npyflow._sources.table import FileTable
    from npyflow._sources.windows import Window

Array = np.ndarray[Any, Any]

Kind = Literal["rows", "files", "arrays", "labels", "records", "parquet"]
AnySource = Source | VaryingSource | CropSource


def varies(source: AnySource) -> TypeGuard[VaryingSource]:
    """Whether the examples of a source may differ in shape."""
    return hasattr(source, "read_each")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Component:
    """A component before it is opened. It can be pickled and saved, payloads cannot come along.

    Parameters
    ----------
    name : str
        How messages call it.
    kind : str
        ``"rows"`` of files, ``"files"``, ``"arrays"`` that the user holds in RAM, ``"labels"`` of the flow, or a column
        of converted data: ``"records"`` or ``"parquet"``.
    table : FileTable, optional
        For rows and files.
    arrays : tuple of array
        For arrays and labels.
    delivery : Delivery
        Which fields of an item are delivered, each as an array of its own, and as what.
    access : str
        For rows.
    axis : int
        Along which rows lie.
    transpose : "channels_last", "channels_first" or tuple of int, optional
        How the axes of an example are moved.
    extents : int64 array (files, axes), optional
        For files: what of each is read.
    crop : Crop, optional
        For files: the region of each that is read.
    offsets : int64 array (examples + 1,), optional
        For rows and arrays: the rows that each example consists of.
    shapes : int64 array (examples, axes), optional
        For rows that are scalars: the shape of each example, whose elements stand one after another.
    stored : Stored, optional
        For a column of converted data.
    window : Window, optional
        For rows and arrays: they are series, and this is what of every window is delivered.
    """

    name: str
    kind: Kind
    table: FileTable | None = None
    arrays: tuple[Array, ...] = ()
    delivery: Delivery = ALL
    access: str = "auto"
    axis: int = 0
    transpose: Any = None
    extents: Array | None = None
    crop: Crop | None = None
    offsets: Array | None = None
    shapes: Array | None = None
    stored: Stored | None = None
    window: Window | None = None

    def __post_init__(self) -> None:
        if self.access not in ACCESS:
            raise OptionError(f"access={self.access!r}: expected one of {', '.join(map(repr, ACCESS))}")

    def open(self, pool: BufferPool, shared: dict[Any, Any] | None = None) -> AnySource:
        """Return the source that reads it; through `shared`, windows of one series and columns of one record share."""
        if self.stored is not None:
            return _open_stored(self.stored, self.kind, pool, {} if shared is None else shared, self.name or "data")
        if self.kind == "files" and self.table is not None:
            return self._open_files(self.table, pool)
        rows = self._open_rows(pool, {} if shared is None else shared)
        name = self.name or "data"
        if self.offsets is not None:
            return ragged_rows(rows, self.offsets, self.transpose, pool, name)
        if self.shapes is not None:
            return shaped_rows(rows, self.shapes, pool, name)
        return rows if self.window is None else WindowSource(rows, self.window, pool=pool, name=name)

    def _open_rows(self, pool: BufferPool, shared: dict[Any, Any]) -> RowSource:
        held = tuple(map(id, self.arrays)) if self.table is None else id(self.table)
        key = (held, self.axis, self.access, self.delivery)
        if self.window is not None and key in shared:
            same: RowSource = shared[key]
            return same
        how: dict[str, Any] = {
            "axis": self.axis,
            "transpose": None if self.offsets is not None else self.transpose,
            "delivery": self.delivery,
            "pool": pool,
            "name": self.name or "data",
        }
        if self.table is None:
            rows = rows_of_arrays(self.arrays, **how)
        else:
            rows = rows_of_files(self.table, access=self.access, **how)
        shared[key] = rows
        return rows

    def _open_files(self, table: FileTable, pool: BufferPool) -> AnySource:
        name = self.name or "data"
        axes = plan_axes(self.transpose, len(table.headers[0].shape), name)
        if self.crop is None:
            return open_files(table, self.extents, axes=axes, delivery=self.delivery, pool=pool, name=name)
        return CropSource(table, self.crop, axes=axes, delivery=self.delivery, pool=pool, name=name)


def _open_stored(stored: Stored, kind: Kind, pool: BufferPool, shared: dict[Any, Any], name: str) -> AnySource:
    # Here, because few flows are of converted data.
    if kind == "parquet":
        from npyflow._sources.parquet import open_column

        return open_column(stored, pool, shared, name)
    from npyflow._sources.records import open_records

    return open_records(stored, pool, shared, name)


class SourceSet:
    """The open sources of a flow, shared by its parts and by everything that reads it.

    Parameters
    ----------
    components : sequence of Component
        In the order of the structure's leaves; a component with several fields is several leaves.
    pool : BufferPool
        Where batches come from.
    """

    def __init__(self, components: Sequence[Component], pool: BufferPool) -> None:
        self.components = tuple(components)
        self.pool = pool
        shared: dict[Any, Any] = {}
        self.sources = tuple(component.open(pool, shared) for component in components)
        self.closed = False

    @property
    def example_bytes(self) -> int:
        """Bytes of one example, all components together; of the largest where they differ."""
        return sum(source.example_bytes for source in self.sources)

    @property
    def leaves(self) -> list[tuple[AnySource, ArraySpec]]:
        """What one example consists of, an array each, with the source that delivers it."""
        return [(source, spec) for source in self.sources for spec in source.specs]

    @property
    def specs(self) -> list[ArraySpec]:
        """What one example consists of, an array each."""
        return [spec for _, spec in self.leaves]

    def check_open(self) -> None:
        """Refuse to read after `close`.

        Raises
        ------
        ClosedError
        """
        if self.closed:
            raise ClosedError("this flow was closed; open it again")

    def close(self) -> None:
        """Let go of memory and descriptors. Batches that were handed out stay valid."""
        self.closed = True
        for source in self.sources:
            source.close()
        self.pool.close()
