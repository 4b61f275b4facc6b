"""How jobs say how far they are."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Is told how far the job is."""

    def start(self, what: str, total: int) -> None:
        """Begin a stage of `total` steps."""

    def step(self) -> None:
        """One more step is done."""
