"""Every file is an example."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.errors import ShapeMismatchError
from npyflow._core.text import examples, plural
from npyflow._sources.base import Place, fortran_view, read_groups
from npyflow._sources.conversion import Delivery, cast_error, describe_items, plan_conversions, unify_advice
from npyflow._sources.payloads import Payloads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npyflow._core.buffers import BufferPool
    from npyflow._sources.table import FileTable

Array = np.ndarray[Any, Any]


class FileSource:
    """One array on disk an example.

    Parameters
    ----------
    table : FileTable
        Shapes agree; dtypes agree up to byte order and width of text, or are cast.
    delivery : Delivery
        What is wanted of them.
    pool : BufferPool
        Scratch memory.
    name : str
        How messages call the component.

    Raises
    ------
    ShapeMismatchError
        If the files disagree.
    """

    access = "files"

    def __init__(self, table: FileTable, *, delivery: Delivery, pool: BufferPool, name: str) -> None:
        _check_agree(table, delivery, name)
        self.table = table
        self._conversions = plan_conversions(table.dtypes(name), delivery)
        self._payloads = Payloads(table)
        self._pool = pool
        self.specs = tuple(leaf.spec(table.headers[0].shape) for leaf in self._conversions[0].leaves)

    def __len__(self) -> int:
        return len(self.table)

    def read_into(self, indices: Array, outs: Sequence[Array]) -> None:
        if len(self.table.headers) == 1:
            self._read_kind(0, indices, outs)
        else:
            read_groups(
                self.table.kinds[indices],
                outs,
                self.specs,
                self._pool,
                lambda kind, at, parts: self._read_kind(kind, indices[at], parts),
            )

    def place(self, index: int) -> Place:
        return Place(self.table.paths[index], None, self.table.span(index).member)

    def close(self) -> None:
        """Nothing to do: no file is open between reads."""

    def _read_kind(self, kind: int, indices: Array, outs: Sequence[Array]) -> None:
        """Read files that all have the same header."""
        header, plan = self.table.headers[kind], self._conversions[kind]
        if header.strided:
            raw = self._pool.empty((len(indices), *header.shape[::-1]), header.dtype)
            landed = fortran_view(raw)
        else:
            raw = landed = plan.landing((len(indices), *header.shape), outs, self._pool)
        self._payloads.read(header, indices, raw)
        bad = plan.settle(landed, outs)
        if bad is not None:
            number, example = bad
            index = int(indices[example])
            raise cast_error(landed[example : example + 1], plan.leaves[number], self.place(index), index)


def _check_agree(table: FileTable, delivery: Delivery, name: str) -> None:
    """Files must agree in shape and, unless a cast unifies them, in dtype."""
    groups: dict[str, list[int]] = {}
    for kind, header in enumerate(table.headers):
        what = f"shape {header.shape} {describe_items(header.dtype, delivery)}"
        groups.setdefault(what.strip(), []).append(kind)
    if len(groups) == 1:
        return
    lines = []
    for what, kinds in groups.items():
        at = np.flatnonzero(np.isin(table.kinds, kinds))
        names = examples(map(table.show, at.tolist()), 3)
        lines.append((len(at), f"  {plural(len(at), 'file')} with {what}: {names}"))
    lines.sort(key=lambda line: -line[0])
    raise ShapeMismatchError(
        f"{name}: all files must have one shape and dtype, but there are {len(lines)} kinds:\n"
        + "\n".join(text for _, text in lines[:12])
        + f"\nremove or fix the odd ones, or {unify_advice(groups)}"
    )
