"""What files hold, from their headers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from npyflow._core.dtypes import show_dtype
from npyflow._core.errors import NpyflowError
from npyflow._core.text import plural
from npyflow._jobs.named import find_files
from npyflow._sources.scanner import Scanner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npyflow._format.header import Header
    from npyflow._jobs.progress import Progress
    from npyflow._sources.scanner import Survey
    from npyflow._sources.table import Span

# Less than this part of all arrays is odd.
_RARE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What arrays have in common.

    Parameters
    ----------
    member : str or None
        Name in an archive.
    shape : tuple of int
        Of the array.
    dtype : str
        As stored.
    order : str
        ``"C"`` or ``"Fortran"``.
    version : str
        Of the format.
    packing : str
        ``""`` in a ``.npy`` file, else ``"stored"`` or ``"deflated"``.
    """

    member: str | None
    shape: tuple[int, ...]
    dtype: str
    order: str
    version: str
    packing: str


@dataclass(slots=True, kw_only=True)
class Group:
    """Arrays of one kind.

    Parameters
    ----------
    kind : Kind
        What they have in common.
    paths : list of str
        Where they are.
    size : int
        Bytes on disk, all together.
    """

    kind: Kind
    paths: list[str] = field(default_factory=list)
    size: int = 0


@dataclass(slots=True, kw_only=True)
class Census:
    """What one argument of the command holds.

    Parameters
    ----------
    argument : str
        As given.
    single : bool
        It is a file, not a folder or pattern.
    files : int
        How many there are.
    groups : list of Group
        Largest first.
    bad : list of NpyflowError
        What is no array, and what it is instead.
    others : Counter
        What else archives hold, and how many of them.
    """

    argument: str
    single: bool
    files: int
    groups: list[Group]
    bad: list[NpyflowError]
    others: Counter[str]

    @property
    def outliers(self) -> list[Group]:
        """Groups that are odd beside the others with the same member.

        Those of a rare dtype or number of axes; and those of another length on an axis that hardly ever varies.
        """
        families: dict[tuple[str | None, str, int], list[Group]] = {}
        totals = Counter[str | None]()
        for group in self.groups:
            totals[group.kind.member] += len(group.paths)
            families.setdefault((group.kind.member, group.kind.dtype, len(group.kind.shape)), []).append(group)
        odd: list[Group] = []
        for (member, _, axes), family in families.items():
            if _count_arrays(family) < _RARE * totals[member]:
                odd += family
            else:
                odd += [group for axis in range(axes) for group in _odd_on(axis, family) if group not in odd]
        return odd

    @property
    def static_shapes(self) -> dict[str | None, str]:
        """For each member the shape that all its arrays have, in words: None on axes that vary, and how far."""
        shapes: dict[str | None, set[tuple[int, ...]]] = {}
        for group in self.groups:
            shapes.setdefault(group.kind.member, set()).add(group.kind.shape)
        return {member: _common(found) for member, found in shapes.items()}


def _odd_on(axis: int, family: Sequence[Group]) -> list[Group]:
    """Groups that are not as long on `axis` as nearly all the others are."""
    sizes = Counter[int]()
    for group in family:
        sizes[group.kind.shape[axis]] += len(group.paths)
    usual, count = sizes.most_common(1)[0]
    if count < (1 - _RARE) * sizes.total():
        return []
    return [group for group in family if group.kind.shape[axis] != usual]


def _count_arrays(groups: Sequence[Group]) -> int:
    return sum(len(group.paths) for group in groups)


def _common(shapes: set[tuple[int, ...]]) -> str:
    if len({len(shape) for shape in shapes}) > 1:
        return "none: the numbers of axes differ"
    columns = list(zip(*shapes, strict=True))
    static = tuple(sizes[0] if len(set(sizes)) == 1 else None for sizes in columns)
    if None not in static:
        return str(static)
    return f"{static}, from {tuple(map(min, columns))} to {tuple(map(max, columns))}"


@dataclass(slots=True, kw_only=True)
class Inspection:
    """What all arguments hold.

    Parameters
    ----------
    censuses : list of Census
        One an argument.
    missing : list of NpyflowError
        Arguments that name nothing.
    left_out : Counter
        Files in folders that were passed over, by kind.
    """

    censuses: list[Census]
    missing: list[NpyflowError]
    left_out: Counter[str]


def inspect_files(arguments: Sequence[str], *, pattern: str, progress: Progress) -> Inspection:
    """Look at the headers of files.

    Parameters
    ----------
    arguments : sequence of str
        Files, folders and patterns.
    pattern : str
        Which files to take from a folder.
    progress : Progress
        Is told how far it is.
    """
    named = find_files(arguments, pattern)
    total = sum(len(listing.paths) for listing in named.listings.values())
    progress.start(f"looking at {plural(total, 'file')}", total)
    scanner = Scanner()
    return Inspection(
        censuses=[_census(argument, listing.paths, scanner, progress) for argument, listing in named.listings.items()],
        missing=named.missing,
        left_out=named.left_out,
    )


def _census(argument: str, paths: Sequence[str], scanner: Scanner, progress: Progress) -> Census:
    groups: dict[Kind, Group] = {}
    bad: list[NpyflowError] = []
    others: Counter[str] = Counter()
    for path in paths:
        try:
            found = scanner.survey(path)
        except NpyflowError as error:
            bad.append(error)
        else:
            bad += found.bad
            others.update(found.others)
            _count(path, found, groups)
        progress.step()
    return Census(
        argument=argument,
        single=list(paths) == [argument],
        files=len(paths),
        groups=sorted(groups.values(), key=lambda group: -len(group.paths)),
        bad=bad,
        others=others,
    )


def _count(path: str, found: Survey, groups: dict[Kind, Group]) -> None:
    for header, span in found.arrays:
        kind = _kind(header, span)
        group = groups.setdefault(kind, Group(kind=kind))
        group.paths.append(path)
        group.size += found.size if span is None else span.packed if span.packed >= 0 else header.payload_bytes


def _kind(header: Header, span: Span | None) -> Kind:
    dtype = header.dtype
    return Kind(
        member=None if span is None else span.member,
        shape=header.shape,
        dtype=show_dtype(dtype) if dtype.isnative or dtype.names else f"{show_dtype(dtype)}, swapped",
        order="Fortran" if header.strided else "C",
        version="{}.{}".format(*header.version),
        packing="" if span is None else "deflated" if span.packed >= 0 else "stored",
    )
