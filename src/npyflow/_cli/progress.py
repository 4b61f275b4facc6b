"""A progress bar."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.progress import Progress, TaskID

    from npyflow._jobs.progress import Progress as AnyProgress

_SECONDS = 0.1


class BarProgress:
    """A bar a stage.

    Parameters
    ----------
    bars : rich.progress.Progress
        Where they are drawn.
    """

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._task: TaskID | None = None
        self._steps = 0
        self._shown = 0.0

    def start(self, what: str, total: int) -> None:
        self._show()
        self._task = self._bars.add_task(what, total=total)

    def step(self) -> None:
        self._steps += 1
        # Drawing costs more than looking at a small file.
        if time.monotonic() - self._shown > _SECONDS:
            self._show()

    def finish(self) -> None:
        """Draw the last steps."""
        self._show()

    def _show(self) -> None:
        if self._task is not None:
            self._bars.advance(self._task, self._steps)
        self._steps, self._shown = 0, time.monotonic()


class LineProgress:
    """A line a stage, where standard error is no terminal."""

    def start(self, what: str, total: int) -> None:
        del total
        print(what, file=sys.stderr)  # noqa: T201

    def step(self) -> None:
        """Nothing to show."""


@contextmanager
def shown_progress() -> Iterator[AnyProgress]:
    """Show progress on standard error."""
    if not sys.stderr.isatty():
        yield LineProgress()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bars:
        progress = BarProgress(bars)
        try:
            yield progress
        finally:
            progress.finish()
