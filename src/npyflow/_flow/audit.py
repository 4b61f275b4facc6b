"""What is left out, skipped, repaired or worth a word when a flow is opened."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from npyflow._core.errors import BadFilesError, NpyflowWarning, PairingError
from npyflow._core.text import examples, human_bytes, plural, show_path
from npyflow._sources.pairing import orphans_error
from npyflow._sources.report import Report
from npyflow._sources.scan import raise_bad

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from npyflow._sources.labels import Labels
    from npyflow._sources.listing import Listing
    from npyflow._sources.pairing import Joined
    from npyflow._sources.scan import Scan
    from npyflow._sources.scanner import Names
    from npyflow._sources.table import FileTable

    Array = np.ndarray[Any, Any]

# Inflated arrays of this size are worth a warning.
_MUCH = 100_000_000


def lonely_keys(joined: Joined, names: Sequence[str], on_bad: str) -> dict[str, str]:
    """Return the keys that some component lacks, which are to be skipped, with the reasons.

    Raises
    ------
    PairingError
        Unless `on_bad` is ``"skip"``; so do the next two.
    """
    if joined.orphans and on_bad == "raise":
        advice = "add or remove files, or pass on_bad='skip' to drop incomplete examples"
        raise orphans_error(joined, names, advice)
    return {key: f"no file in {', '.join(where)}" for key, where in joined.orphans.items()}


def bad_keys(joined: Joined, scans: Sequence[Scan], on_bad: str) -> dict[str, str]:
    """Return the keys of bad files, or raise one error for all of them."""
    if on_bad == "raise":
        raise_bad([error for one in scans for error in one.bad.values()], sum(map(len, joined.paths)))
    return {joined.keys[at]: str(error) for one in scans for at, error in one.bad.items()}


def unlabelled_keys(found: Labels | None, keys: Sequence[str], on_bad: str, what: str = "label") -> dict[str, str]:
    """Return the keys without a label, or raise for all of them."""
    if found is None or not found.missing:
        return {}
    missing = {keys[at]: why for at, why in found.missing.items()}
    if on_bad == "raise":
        extra = f"; {what}s without a file: {examples(map(show_path, found.extra))}" if found.extra else ""
        raise PairingError(
            f"{len(missing):,} of {plural(len(keys), 'file')} have no {what}: {examples(map(show_path, missing))} "
            f"({next(iter(missing.values()))}){extra}; add {what}s, or pass on_bad='skip' to drop these files"
        )
    return missing


def kept_examples(keys: Sequence[str], skipped: dict[str, str]) -> Array:
    """Positions of the examples that are not skipped.

    Raises
    ------
    BadFilesError
        If that is none.
    """
    keep = np.array([at for at, key in enumerate(keys) if key not in skipped], np.int64)
    if not keep.size:
        raise BadFilesError(f"all {plural(len(keys), 'example')} were skipped: {next(iter(skipped.values()))}")
    return keep


def kept_tables(one: Scan, keep: Array) -> tuple[FileTable, ...]:
    """The tables of the examples `keep`, which are all good."""
    if len(keep) == len(one.good) and not one.bad:
        return one.tables
    rows = np.searchsorted(one.good, keep)
    return tuple(table.select(rows) for table in one.tables)


def report(
    listings: Sequence[Listing],
    scans: Sequence[Scan],
    members: Sequence[list[Names]],
    skipped: dict[str, str],
    found: Labels | None,
    more: Sequence[str] = (),
) -> Report:
    """Put together what a user may want to know, with `more` notes."""
    total: Counter[str] = sum((listing.left_out for listing in listings), Counter())
    notes = [note for one, names in zip(scans, members, strict=True) for note in _member_notes(one.members, names)]
    notes += more
    if found is None:
        return Report(left_out=total, skipped=skipped, notes=tuple(notes))
    return Report(left_out=total, skipped=skipped, extra_labels=found.extra, matches=found.matches, notes=tuple(notes))


def _member_notes(sets: Counter[tuple[str, ...]], wanted: Sequence[Names]) -> Iterable[str]:
    """Say where archives differ, and what is in them that nobody asked for."""
    if len({frozenset(names) for names in sets}) > 1:
        shown = [f"{plural(count, 'archive')} with {examples(names, 8)}" for names, count in sets.most_common(4)]
        more = f"; and {len(sets) - 4:,} more sets" if len(sets) > 4 else ""
        yield f"archives differ in what they hold: {'; '.join(shown)}{more}"
    named = {form for names in wanted for name in names or () for form in (name, name.removesuffix(".npy"))}
    unused = Counter({name: 0 for names in sets for name in names if name not in named})
    for names, count in sets.items():
        unused.update({name: count for name in names if name in unused})
    if unused:
        yield "members that are not used: " + examples(
            (f"{name} ({plural(count, 'archive')})" for name, count in unused.most_common()), 8
        )


def warn_of_slips(tables: Sequence[FileTable], stacklevel: int) -> None:
    """Warn once of all headers that are written amiss and were read all the same."""
    slips = sorted({slip for table in tables for header in table.headers for slip in header.slips})
    if not slips:
        return
    files = []
    for table in tables:
        kinds = [number for number, header in enumerate(table.headers) if header.slips]
        files += [table.show(at) for at in np.flatnonzero(np.isin(table.kinds, kinds)).tolist()]
    warnings.warn(
        f"{plural(len(files), 'file')} with a header that NumPy does not write ({examples(slips)}): "
        f"{examples(files, 3)}; read as it is meant, since the size of each file agrees; np.save them again to be "
        f"rid of this",
        NpyflowWarning,
        stacklevel=stacklevel + 1,
    )


def warn_of_inflating(tables: Iterable[FileTable], stacklevel: int) -> None:
    """Warn once of compressed arrays whose rows need all of them in memory."""
    packed = [(table, at) for table in tables for at in table.packed()]
    needed = sum(table.header(at).payload_bytes for table, at in packed)
    if needed >= _MUCH:
        warnings.warn(
            f"{examples((table.show(at) for table, at in packed), 3)}: compressed arrays cannot be read row by row; "
            f"{human_bytes(needed)} are inflated into RAM when the first row is wanted, and stay there; np.savez "
            f"instead of np.savez_compressed writes arrays that are read in place",
            NpyflowWarning,
            stacklevel=stacklevel + 1,
        )
