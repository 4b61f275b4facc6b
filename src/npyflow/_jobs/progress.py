"""How jobs say how far they are: to nobody, by lines, or by a bar."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.progress import Progress as Bars
    from rich.progress import TaskID

_SECONDS = 0.1


class Progress(Protocol):
    """Is told how far the job is."""

    def start(self, what: str, total: int) -> None:
        """Begin a stage of `total` steps."""

    def step(self) -> None:
        """One more step is done."""


class Silent:
    """Tells nobody."""

    def start(self, what: str, total: int) -> None:
        """Nothing to show."""

    def step(self) -> None:
        """Nothing to show."""


class _Bar:
    """A bar a stage.

    Parameters
    ----------
    bars : rich.progress.Progress
        Where they are drawn.
    """

    def __init__(self, bars: Bars) -> None:
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


class _Lines:
    """A line a stage, where standard error is no terminal."""

    def start(self, what: str, total: int) -> None:
        del total
        print(what, file=sys.stderr)  # noqa: T201

    def step(self) -> None:
        """Nothing to show."""


@contextmanager
def shown_progress(show: bool = True) -> Iterator[Progress]:
    """Show progress on standard error, or not at all."""
    if not show:
        yield Silent()
        return
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bars(*columns, console=Console(stderr=True)) as bars:
        progress = _Bar(bars)
        try:
            yield progress
        finally:
            progress.finish()
