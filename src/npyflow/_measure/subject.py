"""What is measured: a flow, how it is opened and batched, and by what its batches are consumed."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.errors import NpyflowError
from npyflow._flow.reading import Batching
from npyflow._sources.component import varies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from npyflow._flow.flow import Flow
    from npyflow._flow.view import View
    from npyflow._measure.timing import Runner

# Below that, opening a file costs more than reading it.
SMALL_FILE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A flow to be measured.

    Parameters
    ----------
    flow : Flow
    path : str
        What the user calls it.
    opened : str
        The call that opens it, such as ``nf.files("images/")``.
    batch_size : int
    padding : dict
        The options that batches of different lengths need.
    bytes_per_example : float
        As delivered; the mean.
    passes : module, optional
        Consumes datasets; None where batches are consumed in NumPy.
    """

    flow: Flow
    path: str
    opened: str
    batch_size: int
    padding: dict[str, Any] = field(default_factory=dict)
    bytes_per_example: float
    passes: Any = None

    @property
    def view(self) -> View:
        """Its examples."""
        return self.flow._view

    @property
    def total_bytes(self) -> int:
        """Of all examples as they are delivered."""
        return round(self.bytes_per_example * len(self.flow))

    @property
    def plain(self) -> bool:
        """Every example is a whole row or file as it is stored: no windows, crops or functions."""
        view = self.view
        return view.windows is None and view.examples.crops is None and not view.content.mappings

    def call(self, opened: str, batch_size: int | None = None) -> str:
        """The line that a user writes to get batches out of what `opened` opens."""
        options = "".join(f", {name}={value!r}" for name, value in self.padding.items())
        verb = "batches" if self.passes is None else "to_tf"
        return f"{opened}.{verb}({batch_size or self.batch_size}, shuffle=True{options})"

    def runner(self, flow: Flow, batch_size: int) -> Callable[[], Runner]:
        """Return what makes the runner over shuffled batches of `flow`."""
        if self.passes is None:
            return lambda: numpy_stream(flow, batch_size, self.padding)
        return self.dataset_runner(lambda: flow.to_tf(batch_size, shuffle=True, **self.padding), len(flow), batch_size)

    def dataset_runner(self, make: Callable[[], Any], examples: int, batch_size: int) -> Callable[[], Runner]:
        """Return what makes the runner over a dataset."""

        def start() -> Runner:
            drain = self.passes.Drain(make())
            return Stream(drain, drain.restart, drain.stop, examples, batch_size)

        return start


class Stream:
    """A `Runner`.

    Parameters
    ----------
    consume : callable
        ``consume(batches)`` takes the next so many.
    begin, end : callable
        Begins an epoch; lets go of it.
    examples, batch_size : int
        Of an epoch.
    """

    def __init__(
        self,
        consume: Callable[[int], Any],
        begin: Callable[[], Any],
        end: Callable[[], Any],
        examples: int,
        batch_size: int,
    ) -> None:
        self._consume = consume
        self._begin = begin
        self._end = end
        self._examples = examples
        self._size = batch_size
        self._at = 0

    def restart(self) -> None:
        self._begin()
        self._at = 0

    def stop(self) -> None:
        self._end()

    def __call__(self, batches: int) -> int:
        self._consume(batches)
        before, self._at = self._at, self._at + batches
        return delivered(self._at, self._examples, self._size) - delivered(before, self._examples, self._size)


class _Endless:
    """Batches that are generated, epoch after epoch."""

    def __init__(self, epoch: Callable[[int], Iterator[Any]]) -> None:
        self._epoch = epoch
        self._number = itertools.count()
        self._batches: Iterator[Any] = iter(())

    def restart(self) -> None:
        self._batches = self._epoch(next(self._number))

    def stop(self) -> None:
        self._batches = iter(())

    def __call__(self, batches: int) -> None:
        for _ in range(batches):
            if next(self._batches, None) is None:
                self.restart()
                next(self._batches)


def stream_of(epoch: Callable[[int], Iterator[Any]], examples: int, batch_size: int) -> Stream:
    """Return a runner over the batches that ``epoch(number)`` generates, epoch after epoch."""
    endless = _Endless(epoch)
    return Stream(endless, endless.restart, endless.stop, examples, batch_size)


def numpy_stream(flow: Flow, batch_size: int, padding: dict[str, Any]) -> Stream:
    """Return a runner over shuffled ``flow.batches``."""
    return stream_of(
        lambda epoch: flow.batches(batch_size, shuffle=True, epoch=epoch, **padding), len(flow), batch_size
    )


def delivered(batches: int, examples: int, batch_size: int) -> int:
    """How many examples so many batches are, over epochs whose last batch may be short."""
    epochs, rest = divmod(batches, -(-examples // batch_size))
    return epochs * examples + min(rest * batch_size, examples)


def mean_bytes(view: View) -> float:
    """Bytes of an example as it is delivered, in the mean; from headers alone."""
    examples = view.examples
    if examples.mappings:
        return float(sum(spec.nbytes for spec in examples.specs))
    total = 0.0
    for leaf, (source, spec) in enumerate(examples.sources.leaves):
        items = 1.0
        if varies(source) and spec.varying:
            items = float(examples.shapes(leaf, view.rows())[:, list(spec.varying)].prod(axis=1).mean())
        total += spec.nbytes * items
    return total


def padding_for(view: View, batch_size: int) -> dict[str, Any]:
    """The options with which examples of different lengths become batches; none where all are of one shape."""
    if not any(spec.varying for spec in view.examples.specs):
        return {}
    try:
        Batching(batch_size, pad=0).reader(view)
    except NpyflowError:
        return {"ragged": True}
    return {"pad": 0}


def traits(view: View) -> tuple[str, ...]:
    """What about the files makes them slow to read, in sentences."""
    found = []
    for component, source in zip(view.content.components, view.examples.sources.sources, strict=True):
        table = component.table
        if table is None:
            continue
        strided = [header.strided for header in table.headers]
        if component.kind == "files" and np.mean(strided) > 0:
            found.append("Arrays are in Fortran order and must be turned after reading.")
        pieces = getattr(source, "pieces", 1)
        if component.kind != "files" and pieces > 1:
            found.append(f"Each row lies in {pieces:,} pieces (Fortran order, or examples not along the first axis).")
        if table.packed():
            found.append("Arrays are compressed and inflated each time.")
        if any(not header.dtype.isnative for header in table.headers):
            found.append("Numbers are in the other byte order.")
        if any(dtype is not None for dtype in component.delivery.dtypes):
            found.append("Each value is cast to another dtype.")
        if component.kind == "files" and not table.packed():
            payloads = np.array([header.payload_bytes for header in table.headers], np.float64)[table.kinds]
            if payloads.mean() < SMALL_FILE_BYTES:
                found.append("The files are so small that opening one costs more than reading it.")
    return tuple(dict.fromkeys(found))
