"""What one component of the examples consists of, as plain data; and the source that reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from npyflow._core.errors import ClosedError, NpyflowError, OptionError
from npyflow._sources.base import allocate
from npyflow._sources.conversion import ALL, Delivery
from npyflow._sources.files import FileSource
from npyflow._sources.rows import ACCESS, rows_of_arrays, rows_of_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npyflow._core.buffers import BufferPool
    from npyflow._core.spec import ArraySpec
    from npyflow._sources.base import Source
    from npyflow._sources.table import FileTable

Array = np.ndarray[Any, Any]

Kind = Literal["rows", "files", "arrays", "labels"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Component:
    """A component before it is opened. It can be pickled and saved, payloads cannot come along.

    Parameters
    ----------
    name : str
        How messages call it.
    kind : str
        ``"rows"`` of files, ``"files"``, ``"arrays"`` that the user holds in RAM, or ``"labels"`` of the flow.
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
    """

    name: str
    kind: Kind
    table: FileTable | None = None
    arrays: tuple[Array, ...] = ()
    delivery: Delivery = ALL
    access: str = "auto"
    axis: int = 0

    def __post_init__(self) -> None:
        if self.access not in ACCESS:
            raise OptionError(f"access={self.access!r}: expected one of {', '.join(map(repr, ACCESS))}")

    def open(self, pool: BufferPool) -> Source:
        """Return the source that reads it."""
        name = self.name or "data"
        if self.table is None:
            return rows_of_arrays(self.arrays, axis=self.axis, delivery=self.delivery, pool=pool, name=name)
        if self.kind == "files":
            return FileSource(self.table, delivery=self.delivery, pool=pool, name=name)
        return rows_of_files(
            self.table, axis=self.axis, access=self.access, delivery=self.delivery, pool=pool, name=name
        )


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
        self.sources = tuple(component.open(pool) for component in components)
        self.closed = False

    @property
    def example_bytes(self) -> int:
        """Bytes of one example, all components together."""
        return sum(spec.nbytes for spec in self.specs)

    @property
    def specs(self) -> list[ArraySpec]:
        """What one example consists of, an array each."""
        return [spec for source in self.sources for spec in source.specs]

    def read(self, rows: Array, indices: Array) -> list[Array]:
        """Return examples, an array for each of `specs`.

        Parameters
        ----------
        rows : int64 array (batch,)
            Where they are in the sources; in range.
        indices : int64 array (batch,)
            What the flow calls them, for errors.

        Raises
        ------
        ClosedError
            After `close`.
        """
        if self.closed:
            raise ClosedError("this flow was closed; open it again")
        try:
            return [array for source in self.sources for array in self._read_one(source, rows)]
        except NpyflowError as error:
            if error.index is not None:
                at = np.flatnonzero(rows == error.index)
                error.index = int(indices[at[0]]) if at.size else None
            raise

    def _read_one(self, source: Source, rows: Array) -> list[Array]:
        batch = allocate(source.specs, len(rows), self.pool)
        source.read_into(rows, batch)
        return batch

    def close(self) -> None:
        """Let go of memory and descriptors. Batches that were handed out stay valid."""
        self.closed = True
        for source in self.sources:
            source.close()
        self.pool.close()
