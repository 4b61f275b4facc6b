"""Where the time of an example goes: each part of its way done alone, on warm pages."""

from __future__ import annotations

import os
import time
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.buffers import BufferPool
from npyflow._measure.places import Piece, pieces_of, pieces_of_files
from npyflow._measure.subject import numpy_stream
from npyflow._measure.timing import Contestant, Deadline, in_turns, interval, race
from npyflow._sources.archives import Inflater
from npyflow._sources.base import allocate, fortran_view
from npyflow._sources.component import varies
from npyflow._sources.conversion import plan_conversions
from npyflow._sources.crops import CropSource
from npyflow._sources.fileio import OPEN_FLAGS, preadv
from npyflow._sources.rows import RowSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from npyflow._flow.flow import Flow
    from npyflow._flow.view import View
    from npyflow._measure.subject import Subject
    from npyflow._measure.timing import Runner
    from npyflow._sources.component import AnySource, Component

Array = np.ndarray[Any, Any]

STAGES = ("list", "open", "header", "read", "inflate", "copy", "cast", "batch", "hand-over")
_MOST_EXAMPLES = 256
_MOST_BYTES = 64 << 20
# Descriptors that are open at one time.
_CHUNK = 64
_MOST_FOLDERS = 20


def warm_stages(subject: Subject, sample: Flow, seconds: float) -> dict[str, float]:
    """Return microseconds an example of each of `STAGES` that there is.

    Parameters
    ----------
    subject : Subject
    sample : Flow
        Examples for the last two stages, which are differences: of `Flow.batches` and what it is made of, and of the
        dataset and `Flow.batches`.
    seconds : float
        About how long it may take.
    """
    parts = dict(_parts(subject))
    names = list(parts)
    times = in_turns([parts[name] for name in names], 0.5 * seconds)
    found: dict[str, float] = {}
    for name, value in zip(names, times, strict=True):
        stage = name.split(":")[0]
        found[stage] = found.get(stage, 0.0) + 1e6 * value
    made, handed = _whole(subject, sample, 0.5 * seconds)
    known = sum(value for name, value in found.items() if name != "list")
    if subject.view.examples.crops is not None:
        # A region is not read alone elsewhere.
        found["read"] = max(0.0, made - known)
        known += found["read"]
    found["batch"] = max(0.0, made - known)
    if handed is not None:
        found["hand-over"] = max(0.0, handed - made)
    return {name: found[name] for name in STAGES if name in found}


def few(view: View, bytes_per_example: float, most: int = _MOST_EXAMPLES, seed: int = 0) -> Array:
    """Indices of some examples from all over, in random order."""
    count = int(min(len(view), most, max(4, _MOST_BYTES // max(1.0, bytes_per_example))))
    return np.random.default_rng(seed).choice(len(view), count, replace=False)


def _whole(subject: Subject, sample: Flow, seconds: float) -> tuple[float, float | None]:
    """Microseconds an example of `Flow.batches`, and of the dataset if there is TensorFlow."""
    size = min(subject.batch_size, len(sample))
    makers: list[Callable[[], Runner]] = [lambda: numpy_stream(sample, size, subject.padding)]
    if subject.passes is not None:
        makers.append(subject.runner(sample, size))
    contestants = [Contestant(make=make, steps=-(-len(sample) // size)) for make in makers]
    deadline = Deadline(seconds)
    for contestant in contestants:
        contestant.warm_up()
    race(contestants, deadline.left)
    times = [1e6 / interval(contestant.rates)[0] for contestant in contestants]
    return times[0], times[1] if len(times) > 1 else None


def _parts(subject: Subject) -> Iterator[tuple[str, Callable[[], float]]]:
    """Each part with what does it once and returns seconds an example; ``stage:component``."""
    view = subject.view
    rows = view.rows(few(view, subject.bytes_per_example))
    if folders := _folders(view):
        yield "list", lambda: _list(folders, len(view))
    for number, (component, source) in enumerate(
        zip(view.content.components, view.examples.sources.sources, strict=True)
    ):
        if component.kind == "labels":
            continue
        table = component.table
        pieces = pieces_of(view, component, source, rows)
        if component.kind == "files" and pieces:
            yield from _file_parts(number, pieces)
        elif table is not None and component.kind == "rows":
            heads = pieces_of_files(table, np.arange(len(table))[:_CHUNK])
            heads = [piece for piece in heads if piece.head_start >= 0]
            share = len(table) / max(1, len(heads)) / len(view)
            if heads:
                yield f"open:{number}", lambda heads=heads, share=share: _open(heads) * share  # type: ignore[misc]
                yield f"header:{number}", lambda heads=heads, share=share: _header(heads) * share  # type: ignore[misc]
        if component.kind != "files" and not isinstance(source, CropSource):
            yield _source_part(number, source, rows)
        items = view.items(rows) if component.kind == "files" else rows
        yield from _conversion_parts(number, component, source, items, subject.batch_size)


def _file_parts(number: int, pieces: list[Piece]) -> Iterator[tuple[str, Callable[[], float]]]:
    """The parts of reading whole files, an example each."""
    count = len(pieces)
    yield f"open:{number}", lambda: _open(pieces) / count
    # Headers that are compressed are inflated with the rest.
    if plain := [piece for piece in pieces if piece.head_start >= 0]:
        yield f"header:{number}", lambda: _header(plain) / count
    buffer = memoryview(bytearray(max(1, *(piece.size for piece in pieces))))
    yield f"read:{number}", lambda: _read(pieces, buffer) / count
    if any(piece.packed for piece in pieces):
        large = memoryview(bytearray(max(piece.header.offset + piece.header.payload_bytes for piece in pieces)))
        yield f"inflate:{number}", lambda: _inflate(pieces, large) / count


def _folders(view: View) -> list[tuple[str, int]]:
    """Folders in which the files lie, and how many files of the flow each has."""
    counts: dict[str, int] = {}
    for component in view.content.components:
        for path in [] if component.table is None else component.table.paths:
            folder = os.path.dirname(path) or "."
            counts[folder] = counts.get(folder, 0) + 1
    return list(counts.items())


def _list(folders: Sequence[tuple[str, int]], examples: int) -> float:
    """Look through some of the folders; reckon for all."""
    start, seen = time.perf_counter(), 0
    some = folders[:: max(1, len(folders) // _MOST_FOLDERS)]
    for folder, _ in some:
        with os.scandir(folder) as entries:
            for _ in entries:
                seen += 1
    return (time.perf_counter() - start) * len(folders) / len(some) / examples


def _open(pieces: Sequence[Piece]) -> float:
    start = time.perf_counter()
    for piece in pieces:
        fd = os.open(piece.path, OPEN_FLAGS)
        os.fstat(fd)
        os.close(fd)
    return time.perf_counter() - start


def _header(pieces: Sequence[Piece]) -> float:
    """Read headers and compare them, of files that are open."""

    def one(fd: int, piece: Piece) -> None:
        head = bytearray(piece.header.offset)
        preadv(fd, (head,), piece.head_start)
        if head != piece.header.raw:
            raise OSError(f"{piece.path!r} changed")

    return _opened(pieces, one)


def _read(pieces: Sequence[Piece], buffer: memoryview) -> float:
    """Read payloads of files that are open."""
    return _opened(pieces, lambda fd, piece: preadv(fd, (buffer[: piece.size],), piece.start))


def _inflate(pieces: Sequence[Piece], buffer: memoryview) -> float:
    """Inflate what is in the page cache, as it is done for a batch, and look at its checksum."""

    def one(fd: int, piece: Piece) -> None:
        if piece.packed:
            body = buffer[: piece.header.offset + piece.header.payload_bytes]
            Inflater(fd, piece.start, piece.size).fill(body)
            zlib.crc32(body)

    return _opened(pieces, one)


def _opened(pieces: Sequence[Piece], do: Callable[[int, Piece], Any]) -> float:
    """Seconds of `do` for each piece, without those of opening and closing."""
    total = 0.0
    for first in range(0, len(pieces), _CHUNK):
        chunk = pieces[first : first + _CHUNK]
        fds: list[int] = []
        try:
            for piece in chunk:
                fds.append(os.open(piece.path, OPEN_FLAGS))  # noqa: PERF401 (all that are open are closed)
            start = time.perf_counter()
            for fd, piece in zip(fds, chunk, strict=True):
                do(fd, piece)
            total += time.perf_counter() - start
        finally:
            for fd in fds:
                os.close(fd)
    return total


def _source_part(number: int, source: AnySource, rows: Array) -> tuple[str, Callable[[], float]]:
    """Rows into the memory of a batch: read from files, or copied from RAM."""
    pool = BufferPool(keep_bytes=_MOST_BYTES)
    if varies(source):
        shapes = source.shapes(rows).tolist()
        outs: Any = [[pool.empty(tuple(shape), spec.dtype) for shape in shapes] for spec in source.specs]

        def go() -> float:
            start = time.perf_counter()
            source.read_each(rows, outs)
            return (time.perf_counter() - start) / len(rows)

    else:
        outs = allocate(source.specs, len(rows), pool)

        def go() -> float:
            start = time.perf_counter()
            source.read_into(rows, outs)  # type: ignore[union-attr]
            return (time.perf_counter() - start) / len(rows)

    return f"{'copy' if source.access == 'ram' else 'read'}:{number}", go


def _conversion_parts(
    number: int, component: Component, source: AnySource, items: Array, batch_size: int
) -> Iterator[tuple[str, Callable[[], float]]]:
    """Turning what is in Fortran order, and casting: on what one file holds, of the kind that is met first."""
    table = component.table
    if table is None or component.crop is not None:
        return
    at = int(items[0]) if component.kind == "files" else 0
    header = table.header(at)
    # As many at once as in a batch: what fits the processor's cache is faster.
    count = max(1, min(batch_size, _MOST_BYTES // 2 // max(1, header.payload_bytes)))
    if component.kind == "files" and header.strided and header.payload_bytes:
        raw = np.zeros((count, *header.shape[::-1]), header.dtype)
        out = np.zeros((count, *header.shape), header.dtype)
        yield f"copy:{number}", lambda: _timed(lambda: np.copyto(out, fortran_view(raw))) / count
    plan = plan_conversions([(header.dtype, table.show(at))], component.delivery)[0]
    if plan.is_identity or isinstance(source, RowSource):
        # Rows are cast as they are read: that is in the time of reading.
        return
    landed = np.zeros((count, *header.shape), plan.raw)
    outs = [np.zeros((count, *header.shape, *leaf.shape), leaf.target) for leaf in plan.leaves]
    yield f"cast:{number}", lambda: _timed(lambda: plan.settle(landed, outs)) / count


def _timed(do: Callable[[], Any]) -> float:
    start = time.perf_counter()
    do()
    return time.perf_counter() - start
