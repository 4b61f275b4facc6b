"""The files that the arguments of a command name."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from npyflow._core.errors import FileError, NpyflowError
from npyflow._sources.listing import Listing, list_files

if TYPE_CHECKING:
    from collections.abc import Sequence

PATTERN = "**/*.np[yz]"
# As `npyflow.files` does.
PAIRS_PATTERN = "**/*.npy"


@dataclass(slots=True, kw_only=True)
class Named:
    """What the arguments name.

    Parameters
    ----------
    listings : dict of str to Listing
        Argument to files: one, or those of a folder or pattern.
    missing : list of NpyflowError
        Arguments that name nothing.
    left_out : Counter
        Files in folders that were passed over, by kind.
    """

    listings: dict[str, Listing] = field(default_factory=dict)
    missing: list[NpyflowError] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)

    @property
    def paths(self) -> list[str]:
        """All files, each once."""
        return list(dict.fromkeys(path for listing in self.listings.values() for path in listing.paths))


def find_files(arguments: Sequence[str], pattern: str) -> Named:
    """List what each argument names: a file, a folder (its files that match `pattern`), or a pattern."""
    named = Named()
    for argument in arguments:
        try:
            listing = list_files(argument, pattern, argument)
        except FileError as error:
            named.missing.append(error)
        else:
            named.listings[argument] = listing
            named.left_out += listing.left_out
    return named
