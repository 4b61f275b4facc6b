"""What was left out, skipped and matched while a flow was opened."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from npyflow._core.text import examples, plural, show_counts, show_path

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What happened on the way from names to examples.

    Parameters
    ----------
    left_out : mapping of str to int
        Files in the folders that are no samples, by kind: ``"hidden"``, ``"litter"``, ``"not matching"``.
    skipped : mapping of str to str
        Examples dropped by ``on_bad="skip"``: key to reason.
    extra_labels : tuple of str
        Keys of labels that no example has.
    matches : tuple of (str, str)
        The first and last examples with their labels, where labels are matched by position.
    notes : tuple of str
        Anything else worth a look.
    """

    left_out: Mapping[str, int] = field(default_factory=Counter)
    skipped: Mapping[str, str] = field(default_factory=dict)
    extra_labels: tuple[str, ...] = ()
    matches: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """The report as text, a fact a line; empty if there is nothing to say."""
        out = [f"left out: {show_counts(Counter(self.left_out))}"] if self.left_out else []
        if self.skipped:
            out.append(f"skipped: {plural(len(self.skipped), 'example')}")
            out += [f"  {show_path(key)}: {reason}" for key, reason in list(self.skipped.items())[:10]]
        if self.extra_labels:
            out.append(f"labels without an example: {examples(map(show_path, self.extra_labels))}")
        if self.matches:
            out.append("labels by position: " + ", ".join(f"{show_path(key)} = {value}" for key, value in self.matches))
        return out + list(self.notes)

    def __str__(self) -> str:
        return "\n".join(self.lines()) or "nothing was left out or skipped"
