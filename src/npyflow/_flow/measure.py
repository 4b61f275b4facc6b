"""One pass over a flow for its statistics."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from npyflow._flow.reading import Batching, example_bytes
from npyflow._flow.stats import Stats, conclude
from npyflow._order.layout import READ_BYTES
from npyflow._read.collate import Flat
from npyflow._read.statistics import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from npyflow._flow.view import View
    from npyflow._read.reader import Reader

# A fixed number: sums are rounded, so the result depends on who adds what.
_WORKERS = 2
_MOST_TOGETHER = 1024


def measure(view: View, progress: bool) -> Stats:
    """Read every example once, as it is in epoch 0, and return what was found.

    Parameters
    ----------
    view : View
        The examples.
    progress : bool
        Show a bar on standard error.
    """
    specs = view.examples.specs
    together = 1
    if any(spec.varying for spec in specs):
        together = max(1, min(_MOST_TOGETHER, READ_BYTES // max(1, example_bytes(view))))
    reader = Batching(together, ragged=True).reader(view)
    stop = threading.Event()
    with _shown(len(view), progress) as on_read, ThreadPoolExecutor(_WORKERS) as pool:
        try:
            works = [pool.submit(_tally, reader, worker, stop, on_read) for worker in range(_WORKERS)]
            tallies, *others = [work.result() for work in works]
        finally:
            # After an error, or Ctrl-C, the others need not go on.
            stop.set()
    for other in others:
        for tally, more in zip(tallies, other, strict=True):
            tally.merge(more)
    return conclude(len(view), tallies, view.structure.leaves)


def _tally(reader: Reader, worker: int, stop: threading.Event, on_read: Callable[[int], None]) -> list[Tally]:
    """Take in every so many reads."""
    tallies = [Tally(spec) for spec in reader.examples.specs]
    for number in range(worker, reader.schedule.reads(0), _WORKERS):
        if stop.is_set():
            break
        columns = reader.read(0, 0, number)
        for tally, collator, column in zip(tallies, reader.collators, columns, strict=True):
            tally.add(list(column.views) if isinstance(collator, Flat) else column.arrays[0])
        on_read(len(columns[0].views) if isinstance(reader.collators[0], Flat) else len(columns[0].arrays[0]))
        # Before the next read, so that it can have the same memory.
        del columns, column
    return tallies


@contextmanager
def _shown(total: int, progress: bool) -> Iterator[Callable[[int], None]]:
    """Show how far it is; standard error may be no terminal."""
    if not progress:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bars:
        task: Any = bars.add_task("statistics", total=total)
        yield lambda count: bars.advance(task, count)
