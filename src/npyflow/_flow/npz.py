"""The arrays of an ``.npz`` archive, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.errors import FileFormatError, NpyflowError, OptionError
from npyflow._core.text import examples, human_bytes, plural, show_path
from npyflow._sources.archives import damaged, no_member
from npyflow._sources.listing import as_path_text
from npyflow._sources.payloads import Payloads, load_array
from npyflow._sources.scanner import Scanner
from npyflow._sources.shards import check_memory

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from npyflow._core.dtypes import DType
    from npyflow._sources.table import FileTable


Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One array of an archive, not read yet; `npyflow.rows` takes it wherever it takes a path.

    Parameters
    ----------
    name : str
        As the archive calls it.
    table : FileTable
        Where it lies.
    """

    name: str
    table: FileTable

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the whole array."""
        return self.table.header(0).shape

    @property
    def dtype(self) -> DType:
        """As stored, byte order included."""
        return self.table.header(0).dtype

    @property
    def compressed(self) -> bool:
        """It cannot be read in place; its rows wait in RAM once the first is wanted."""
        return bool(self.table.packed())

    def read(self) -> Array:
        """Return the array, read whole: for scalars and tables that stand beside the data."""
        check_memory(self.table, [0], "reading it whole", "npyflow.rows reads its rows")
        return load_array(Payloads(self.table), 0)

    def __repr__(self) -> str:
        how = "compressed" if self.compressed else "stored"
        size = human_bytes(self.table.header(0).payload_bytes)
        return f"<{self.table.show(0)}: {self.dtype.name} {self.shape}, {size}, {how}>"


class Npz(Mapping[str, Member]):
    """What `npz` returns: a read-only mapping of names to arrays that are not read yet."""

    def __init__(
        self, path: str, members: dict[str, Member], bad: dict[str, NpyflowError], others: tuple[str, ...]
    ) -> None:
        self._path = path
        self._members = members
        self._bad = bad
        self._others = others

    def __getitem__(self, name: str) -> Member:
        key = self._key(name)
        if key in self._members:
            return self._members[key]
        if key in self._bad:
            raise self._bad[key]
        if key in self._others:
            raise damaged(self._path, key, "is no array", kind="no-npy")
        raise no_member(self._path, [name], self)

    def __contains__(self, name: object) -> bool:
        key = self._key(name)
        return key in self._members or key in self._bad

    def __iter__(self) -> Iterator[str]:
        """The arrays, and after them those that raise when they are asked for."""
        return iter((*self._members, *self._bad))

    def __len__(self) -> int:
        return len(self._members) + len(self._bad)

    def _key(self, name: object) -> str:
        text = str(name)
        return text if text in self._members or text in self._bad else text.removesuffix(".npy")

    def __repr__(self) -> str:
        lines = [f"<{show_path(self._path)}: {plural(len(self), 'array')}"]
        lines += [
            f"  {show_path(name)}: {member.dtype.name} {member.shape}" + (", compressed" if member.compressed else "")
            for name, member in self._members.items()
        ]
        lines += [f"  {show_path(name)}: unusable" for name in self._bad]
        if self._others:
            lines.append(f"  no arrays, and ignored: {examples(map(show_path, self._others))}")
        return "\n".join(lines) + ">"


def npz(path: str | os.PathLike[str]) -> Npz:
    """Open an ``.npz`` archive: its directory and the headers of its arrays, no payload.

    Parameters
    ----------
    path : path
        What is in the file decides, not its name.

    Returns
    -------
    Npz
        A mapping of names to handles, which `npyflow.rows` takes wherever it takes a path. Arrays that ``np.savez``
        stored as they are are read in place, mapped or by position, like ``.npy`` files. Those of
        ``np.savez_compressed`` are inflated into RAM once, when the first row is wanted. A damaged array, or one of
        pickles, raises when it is asked for.

    Raises
    ------
    MissingFileError
        If there is no such file.
    FileFormatError
        If it is no archive, or its directory is damaged.

    Examples
    --------
    >>> import os, tempfile, numpy as np, npyflow as nf
    >>> path = os.path.join(tempfile.mkdtemp(), "digits.npz")
    >>> np.savez(path, x=np.zeros((100, 8, 8), "uint8"), y=np.arange(100))
    >>> archive = nf.npz(path)
    >>> list(archive), archive["x"].shape
    (['x', 'y'], (100, 8, 8))
    >>> flow = nf.rows((archive["x"], archive["y"]))
    >>> len(flow), str(flow.spec[0])
    (100, 'uint8 (8, 8)')
    """
    text = as_path_text(path)
    if text is None:
        raise OptionError(f"path={path!r}: expected a path")
    found = Scanner().survey(text)
    if not found.archive:
        raise FileFormatError(
            f"{show_path(text)} is a .npy file, not an archive; npyflow.rows and npyflow.files take it as it is",
            path=text,
            kind="npz-expected",
        )
    members: dict[str, Member] = {}
    for at in range(len(found.arrays)):
        table = found.table(text, at)
        name = table.span(0).member or ""
        members[name] = Member(name, table)
    return Npz(text, members, {error.member or "": error for error in found.bad}, tuple(found.others))
