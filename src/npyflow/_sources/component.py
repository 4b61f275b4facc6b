"""What one component of the examples consists of, as plain data; and the source that reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from npyflow._core.errors import ClosedError, NpyflowError, OptionError
from npyflow._sources.files import FileSource
from npyflow._sources.rows import ACCESS, rows_of_arrays, rows_of_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npyflow._core.buffers import BufferPool
    from npyflow._core.spec import DType
    from npyflow._sources.base import Source
    from npyflow._sources.scan import FileTable

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
    dtype : numpy.dtype, optional
        To cast to.
    access : str
        For rows.
    axis : int
        Along which rows lie.
    """

    name: str
    kind: Kind
    table: FileTable | None = None
    arrays: tuple[Array, ...] = ()
    dtype: DType | None = None
    access: str = "auto"
    axis: int = 0

    def __post_init__(self) -> None:
        if self.access not in ACCESS:
            raise OptionError(f"access={self.access!r}: expected one of {', '.join(map(repr, ACCESS))}")

    def open(self, pool: BufferPool) -> Source:
        """Return the source that reads it."""
        if self.table is None:
            return rows_of_arrays(self.arrays, axis=self.axis, dtype=self.dtype, pool=pool, name=self.name or "data")
        if self.kind == "files":
            return FileSource(self.table, dtype=self.dtype, pool=pool, name=self.name or "data")
        return rows_of_files(
            self.table, axis=self.axis, access=self.access, dtype=self.dtype, pool=pool, name=self.name or "data"
        )


class SourceSet:
    """The open sources of a flow, shared by its parts and by everything that reads it.

    Parameters
    ----------
    components : sequence of Component
        In the order of the structure's leaves.
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
        return sum(source.spec.nbytes for source in self.sources)

    def read(self, rows: Array, indices: Array) -> list[Array]:
        """Return examples, an array a component.

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
            return [self._read_one(source, rows) for source in self.sources]
        except NpyflowError as error:
            if error.index is not None:
                error.index = int(indices[np.flatnonzero(rows == error.index)[0]])
            raise

    def _read_one(self, source: Source, rows: Array) -> Array:
        batch = self.pool.empty((len(rows), *source.spec.shape), source.spec.dtype)
        source.read_into(rows, batch)
        return batch

    def close(self) -> None:
        """Let go of memory and descriptors. Batches that were handed out stay valid."""
        self.closed = True
        for source in self.sources:
            source.close()
        self.pool.close()
