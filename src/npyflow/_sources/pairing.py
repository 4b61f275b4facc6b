"""Join components by key; nothing is ever matched by its place in a listing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from npyflow._core.errors import PairingError
from npyflow._core.text import examples, plural, show_path
from npyflow._sources.listing import Listing, check_unique

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """Components whose lists run in step.

    Parameters
    ----------
    keys : list of str
        In the order of the first component.
    paths : list of list of str
        For each component, a path a key.
    orphans : dict of str to tuple of str
        Keys that are not everywhere, and the components that lack them.
    """

    keys: list[str]
    paths: list[list[str]]
    orphans: dict[str, tuple[str, ...]]


def join(listings: Sequence[Listing], names: Sequence[str]) -> Joined:
    """Join by key.

    Raises
    ------
    PairingError
        If a component has a key twice, or if no key is in all of them.
    """
    for listing, name in zip(listings, names, strict=True):
        check_unique(listing.keys, listing.paths, name or "files")
    tables = [dict(zip(listing.keys, listing.paths, strict=True)) for listing in listings]
    common = set(tables[0]).intersection(*tables[1:])
    if not common:
        shown = "; ".join(
            f"{name} has {examples(map(show_path, listing.keys), 3)}"
            for name, listing in zip(names, listings, strict=True)
        )
        raise PairingError(
            f"the components have no key in common: {shown}; use {{key}} in the patterns to say what a key is"
        )
    keys = [key for key in listings[0].keys if key in common]
    orphans = {
        key: tuple(name for name, table in zip(names, tables, strict=True) if key not in table)
        for listing in listings
        for key in listing.keys
        if key not in common
    }
    return Joined(keys=keys, paths=[[table[key] for key in keys] for table in tables], orphans=orphans)


def orphans_error(joined: Joined, names: Sequence[str], advice: str) -> PairingError:
    """The error for keys that are not in every component: for each how many it lacks, which, and what to do."""
    lines = []
    for name in names:
        lacking = [key for key, where in joined.orphans.items() if name in where]
        if lacking:
            lines.append(f"  {name} lacks {plural(len(lacking), 'key')}: {examples(map(show_path, lacking))}")
    return PairingError(
        f"{plural(len(joined.keys), 'example')} are complete, {len(joined.orphans):,} are not:\n"
        + "\n".join(lines)
        + f"\n{advice}"
    )
