"""Every problem of every file."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from npyflow._core.dtypes import is_bytes, is_delivered, show_dtype, unsupported
from npyflow._core.errors import FileFormatError, NpyflowError, PairingError
from npyflow._core.structure import Structure
from npyflow._core.text import examples, plural, show_path
from npyflow._jobs.named import find_files
from npyflow._sources.conversion import field_tree
from npyflow._sources.pairing import join
from npyflow._sources.payloads import Payloads
from npyflow._sources.scanner import Scanner

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from npyflow._core.dtypes import DType
    from npyflow._format.header import Header
    from npyflow._jobs.progress import Progress
    from npyflow._sources.conversion import Field
    from npyflow._sources.listing import Listing
    from npyflow._sources.scanner import Survey
    from npyflow._sources.table import FileTable

Array = np.ndarray[Any, Any]


@dataclass(slots=True, kw_only=True)
class Findings:
    """What a check found.

    Parameters
    ----------
    files, arrays : int
        How many were looked at.
    unsearched : Counter
        Arrays of bytes without a meaning, by dtype: whether they hold NaN, nobody can say.
    problems : list of NpyflowError
        Each with ``.kind``, and ``.path`` and ``.member`` where it is about a file.
    left_out : Counter
        Files in folders that were passed over, by kind.
    """

    files: int = 0
    arrays: int = 0
    unsearched: Counter[str] = field(default_factory=Counter)
    problems: list[NpyflowError] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


def check_files(arguments: Sequence[str], *, pattern: str, finite: bool, pairs: bool, progress: Progress) -> Findings:
    """Check files against their headers, and more if asked.

    Parameters
    ----------
    arguments : sequence of str
        Files, folders and patterns; with `pairs` a component each, as `npyflow.files` takes them.
    pattern : str
        Which files to take from a folder.
    finite : bool
        Read every payload, and with it every checksum, and look for NaN and infinities.
    pairs : bool
        Join the components by key.
    progress : Progress
        Is told how far it is.
    """
    named = find_files(arguments, pattern)
    findings = Findings(problems=named.missing, left_out=named.left_out)
    if pairs:
        findings.problems += _unpaired(named.listings)
    paths = named.paths
    progress.start(f"{'reading' if finite else 'checking'} {plural(len(paths), 'file')}", len(paths))
    scanner = Scanner()
    for path in paths:
        findings.files += 1
        try:
            found = scanner.survey(path)
        except NpyflowError as error:
            findings.problems.append(error)
        else:
            findings.arrays += len(found.arrays)
            findings.problems += found.bad
            findings.problems += _array_problems(path, found, finite)
            if finite:
                findings.unsearched.update(
                    show_dtype(header.dtype) for header, _ in found.arrays if is_bytes(header.dtype)
                )
        progress.step()
    return findings


def _array_problems(path: str, found: Survey, finite: bool) -> Iterator[NpyflowError]:
    for at in range(len(found.arrays)):
        table = found.table(path, at)
        header, where = table.header(0), table.show(0)
        member = table.span(0).member
        if header.slips:
            yield FileFormatError(
                f"{where} has a header that NumPy does not write ({examples(sorted(header.slips))}); npyflow reads "
                f"it, NumPy may not: read it with npyflow and np.save it again",
                path=path,
                member=member,
                kind="header-slip",
            )
        if not _is_readable(header.dtype):
            error = unsupported(header.dtype, where)
            error.path, error.member = path, member
            yield error
        if finite:
            try:
                yield from _not_finite(table)
            except NpyflowError as error:
                yield error


def _is_readable(dtype: DType) -> bool:
    """Say whether `npyflow` can read it, if need be with ``dtype=``."""
    if dtype.fields is not None:
        return dtype.names != () and all(_is_readable(part[0].base) for part in dtype.fields.values())
    if is_bytes(dtype):
        return dtype.subdtype is None and dtype.itemsize in (1, 2, 4, 8, 16)
    return is_delivered(dtype) or dtype.kind in "Mmfc"


@dataclass(slots=True)
class _Tally:
    """Values of one array that are not finite."""

    nan: int = 0
    infinite: int = 0
    # Smallest in C order, whatever the order of the file.
    first: tuple[int, ...] | None = None

    def add(self, values: Array, done: int, header: Header) -> None:
        """Count those in a piece that begins at item `done`, in the order of the bytes."""
        bad = ~np.isfinite(values)
        if not bad.any():
            return
        nan = int(np.isnan(values).sum())
        self.nan += nan
        self.infinite += int(bad.sum()) - nan
        at, *inside = np.nonzero(bad)
        order: Literal["C", "F"] = "F" if header.fortran_order else "C"
        items = np.unravel_index(done + at, header.shape, order) if header.shape else ()
        index = np.stack([*items, *inside], axis=1) if (*items, *inside) else np.empty((1, 0), np.int64)
        here = tuple(index[np.lexsort(index.T[::-1])[0]].tolist()) if index.size else ()
        self.first = here if self.first is None else min(self.first, here)


def _not_finite(table: FileTable) -> Iterator[FileFormatError]:
    """Say where an array is not finite; an error for each field that is not."""
    header = table.header(0)
    fields: list[Field] = Structure(field_tree(header.dtype, table.show(0))).leaves
    tallies = {field: _Tally() for field in fields}
    done = 0
    for piece in Payloads(table).stream(0):
        for leaf, tally in tallies.items():
            values = leaf.of(piece)
            if values.dtype.kind in "fc":
                tally.add(values, done, header)
        done += len(piece)
    for leaf, tally in tallies.items():
        if tally.first is not None:
            name = f" field {str(leaf)!r}" if leaf.path else ""
            yield FileFormatError(
                f"{table.show(0)}{name} has {tally.nan:,} NaN and {tally.infinite:,} infinite values, the first at "
                f"index {list(tally.first)}; find out what computed it, or leave the file out",
                path=table.paths[0],
                member=table.span(0).member,
                kind="not-finite",
            )


def _unpaired(listings: Mapping[str, Listing]) -> Iterator[NpyflowError]:
    """Join components by key; an error for each file that lacks a partner."""
    try:
        joined = join(list(listings.values()), list(listings))
    except PairingError as error:
        error.kind = "pairing"
        yield error
        return
    for listing in listings.values():
        for key, path in zip(listing.keys, listing.paths, strict=True):
            lacking = joined.orphans.get(key)
            if lacking:
                yield PairingError(
                    f"{show_path(path)} has no partner in {examples(map(show_path, lacking))} (key "
                    f"{show_path(key)!r}); add or remove files, or pass on_bad='skip' to npyflow.files",
                    path=path,
                    kind="unpaired",
                )
