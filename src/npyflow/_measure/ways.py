"""The ways to read the same examples, each made of one sample of them."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.structure import Structure
from npyflow._flow.content import Content
from npyflow._flow.flow import open_flow
from npyflow._measure.facts import packed_path, tfrecord_path
from npyflow._measure.peers import peer
from npyflow._measure.timing import Contestant
from npyflow._sources.component import Component

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from npyflow._flow.flow import Flow
    from npyflow._flow.view import View
    from npyflow._measure.subject import Subject

Array = np.ndarray[Any, Any]

# A component that is so much smaller than the largest keeps its access.
_SMALL_SHARE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Makers:
    """What jobs lend: they write data sets, which is above this layer.

    Parameters
    ----------
    pack, convert : callable
        ``(flow, folder)``: write it packed, or as TFRecord, and return it opened.
    """

    pack: Callable[[Flow, str], Flow]
    convert: Callable[[Flow, str], Any]


@dataclass(slots=True, kw_only=True)
class Candidate:
    """A way before it is timed.

    Parameters
    ----------
    name, call, today, recipe, note
        As in `Way`.
    contestant : Contestant
    holds : bool
        It holds the data in RAM: its memory grows with them.
    held_bytes : int
        What it holds of the sample already.
    """

    name: str
    call: str
    contestant: Contestant
    today: bool = False
    recipe: bool = False
    note: str = ""
    holds: bool = False
    held_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A sample that was written in another format."""

    seconds: float
    bytes: int


class Ways:
    """Makes the ways that fit a flow.

    Parameters
    ----------
    subject : Subject
        The whole flow.
    sample : Flow
        Some of its examples.
    folder : str
        Where copies go.
    makers : Makers
    """

    def __init__(self, subject: Subject, sample: Flow, folder: str, makers: Makers) -> None:
        self._subject = subject
        self._sample = sample
        self._folder = folder
        self._makers = makers
        self.packed: Written | None = None

    def today(self) -> Candidate:
        """The flow as it is."""
        subject = self._subject
        return self._of_flow(name_of(subject.view), subject.opened, self._sample, today=True)

    def makers_by_name(self, copies: bool) -> Iterator[tuple[str, Callable[[], Candidate | None]]]:
        """Each other way that may fit, with what makes it, the likeliest first; `copies`: there is room for some."""
        view, subject = self._subject.view, self._subject
        for access in ("mmap", "read"):
            content = with_access(view.content, view, access)
            if content is not None:
                yield access, lambda access=access, content=content: self._access(access, content)  # type: ignore[misc]
        if subject.plain:
            if copies and packing_helps(view):
                yield "packed", self._packed
            yield "recipe", self._recipe
            if not any(spec.varying for spec in view.examples.specs) and name_of(view) != "ram":
                yield "ram", self._ram
            if copies and subject.passes is not None:
                yield "tfrecord", self._tfrecord

    def _of_flow(self, name: str, opened: str, flow: Flow, **more: Any) -> Candidate:
        size = self._subject.batch_size
        contestant = Contestant(make=self._subject.runner(flow, size), steps=-(-len(flow) // size))
        return Candidate(name=name, call=self._subject.call(opened), contestant=contestant, **more)

    def _access(self, access: str, content: Content) -> Candidate:
        """The same files, their rows read in another way."""
        flow = open_flow(content, self._sample._view.selection)
        tree = content.structure.pack([one.access for one in content.components for _ in one.delivery.fields])
        return self._of_flow(access, opened_with(self._subject.opened, f"access={tree!r}"), flow)

    def _gathered(self) -> list[Array]:
        """The sample in RAM, an array a leaf."""
        return Structure(next(self._sample.batches(len(self._sample)))).leaves

    def _ram(self) -> Candidate:
        view, sample = self._subject.view, self._sample
        arrays = self._gathered()
        names = view.structure.leaves
        components = tuple(
            Component(name=name, kind="arrays", arrays=(array,)) for name, array in zip(names, arrays, strict=True)
        )
        flow = open_flow(Content(structure=view.structure, components=components))
        simple = not packing_helps(view) and self._subject.opened.startswith("nf.rows(")
        opened = (
            opened_with(self._subject.opened, 'access="ram"') if simple else "nf.rows(next(flow.batches(len(flow))))"
        )
        return self._of_flow(
            "ram",
            opened,
            flow,
            note="" if simple else f"where flow = {self._subject.opened}",
            holds=True,
            held_bytes=round(self._subject.bytes_per_example * len(sample)),
        )

    def _packed(self) -> Candidate:
        folder = os.path.join(self._folder, "packed")
        start = time.perf_counter()
        flow = self._makers.pack(self._sample, folder)
        self.packed = Written(seconds=time.perf_counter() - start, bytes=folder_bytes(folder))
        return self._of_flow("packed", f"nf.load({packed_path(self._subject.path)!r})", flow)

    def _tfrecord(self) -> Candidate:
        subject, folder = self._subject, os.path.join(self._folder, "tfrecord")
        records, size, count = self._makers.convert(self._sample, folder), subject.batch_size, len(self._sample)
        contestant = Contestant(
            make=subject.dataset_runner(lambda: records.to_tf(size, shuffle=True, **subject.padding), count, size),
            steps=-(-count // size),
            whole=True,
        )
        return Candidate(
            name="tfrecord",
            call=subject.call(f"nf.open_tfrecord({tfrecord_path(subject.path)!r})"),
            contestant=contestant,
            note="shuffles in a buffer, not globally",
        )

    def _recipe(self) -> Candidate | None:
        found = peer(self._subject, self._sample, self._gathered)
        if found is None:
            return None
        size, count = self._subject.batch_size, len(self._sample)
        contestant = Contestant(make=found.make, steps=-(-count // size), whole=found.holds)
        return Candidate(
            name="recipe",
            call=found.call,
            contestant=contestant,
            recipe=True,
            note="what most pipelines do today, for comparison",
            holds=found.holds,
            held_bytes=found.held_bytes,
        )


def name_of(view: View) -> str:
    """How a flow is read today, by its largest component."""
    components, sources = view.content.components, view.examples.sources.sources
    at = max(range(len(sources)), key=lambda number: sources[number].example_bytes)
    table = components[at].table
    if components[at].kind == "files" and table is not None:
        return "files" if table.span(0).member is None else "npz"
    return sources[at].access


def with_access(content: Content, view: View, access: str) -> Content | None:
    """The same content with its large components read by `access`; None if nothing would change."""
    sources = view.examples.sources.sources
    largest = max(source.example_bytes for source in sources)
    components = []
    for component, source in zip(content.components, sources, strict=True):
        rows = component.kind == "rows" and component.table is not None and not component.table.packed()
        if rows and source.example_bytes >= _SMALL_SHARE * largest and source.access != access:
            components.append(replace(component, access=access))
        else:
            components.append(component)
    if all(one is other for one, other in zip(components, content.components, strict=True)):
        return None
    return replace(content, components=tuple(components))


def packing_helps(view: View) -> bool:
    """Say whether packed files would differ from what is there: rows of plain arrays are packed already."""
    for component, source in zip(view.content.components, view.examples.sources.sources, strict=True):
        table = component.table
        if table is None:
            continue
        if component.kind != "rows" or table.packed() or getattr(source, "pieces", 1) > 1:
            return True
        if any(header.dtype.names or not header.dtype.isnative for header in table.headers):
            return True
        if component.transpose is not None or any(dtype is not None for dtype in component.delivery.dtypes):
            return True
    return False


def opened_with(opened: str, option: str) -> str:
    """The call `opened` with one more option."""
    known = opened.startswith(("nf.rows(", "nf.windows(")) and opened.endswith(")")
    return f"{opened[:-1]}, {option})" if known else f"nf.rows(..., {option})"


def folder_bytes(folder: str) -> int:
    """Bytes of all files below a folder."""
    return sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(folder) for name in names)
