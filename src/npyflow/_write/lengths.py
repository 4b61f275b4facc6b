"""The shapes of examples that differ, kept beside the data: padding and buckets are planned from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npyflow._format.schema import Column
    from npyflow._write.base import Columns


class Lengths:
    """Collects, for each column that varies, the sizes of each axis that varies.

    Parameters
    ----------
    columns : sequence of Column
        What an example has.
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        self._found: dict[str, list[list[int]]] = {
            column.name: [[] for _ in column.spec.varying] for column in columns if column.spec.varying
        }

    def add(self, columns: Columns) -> None:
        """Note the shapes of some examples."""
        for column, values in zip(self._columns, columns, strict=True):
            for axis, sizes in zip(column.spec.varying, self._found.get(column.name, ()), strict=True):
                sizes += [one.shape[axis] for one in values]

    def facts(self) -> dict[str, Any]:
        """Return them, for `Shard.facts`: by column, a list for each axis that varies."""
        return {"lengths": self._found} if self._found else {}
