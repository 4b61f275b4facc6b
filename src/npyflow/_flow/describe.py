"""A flow in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npyflow._core.text import human_bytes, plural
from npyflow._sources.component import varies
from npyflow._sources.rows import RowSource
from npyflow._sources.windows import WindowSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from npyflow._core.spec import ArraySpec
    from npyflow._flow.view import View
    from npyflow._sources.component import AnySource, Component


def describe(view: View) -> str:
    """Return sizes, components, how they are read and what that costs, classes, report."""
    content, sources = view.content, view.examples.sources
    lines = [_sizes(view)]
    names = iter(content.structure.leaves)
    for component, source in zip(content.components, sources.sources, strict=True):
        lines += _describe(component, source, [next(names) for _ in source.specs])
    lines += _windows_and_crops(view)
    for mapping in content.mappings:
        lines.append(
            f"  then {_name(mapping.fn)} makes {_specs(mapping.makes.names, mapping.specs)}: a Python call for each "
            f"example, one at a time; what tf.data can do itself is faster there"
        )
    if content.classes is not None:
        lines.append(f"  classes: {', '.join(content.classes)}")
    return "\n".join(lines + [f"  {line}" for line in content.report.lines()])


def _sizes(view: View) -> str:
    one = view.examples.sources.example_bytes
    if any(varies(source) for source in view.examples.sources.sources):
        return f"{plural(len(view), 'example')} of different lengths, the largest {human_bytes(one)}"
    return f"{plural(len(view), 'example')} of {human_bytes(one)}, {human_bytes(one * len(view))} together"


def _name(fn: object) -> str:
    return getattr(fn, "__qualname__", type(fn).__name__)


def _specs(names: Sequence[str], specs: Sequence[ArraySpec]) -> str:
    return ", ".join(f"{name}: {spec}" if name else str(spec) for name, spec in zip(names, specs, strict=True))


def _describe(component: Component, source: AnySource, names: Sequence[str]) -> Iterator[str]:
    """A component in words: its arrays, how they are read, and what that costs."""
    table = component.table
    files = "" if table is None else f", {plural(table.file_count, 'file')}"
    yield f"  {_specs(names, source.specs)}, access {source.access!r}{files}"
    if isinstance(source, RowSource | WindowSource) and source.pieces > 1:
        yield (
            f"    a row lies in {plural(source.pieces, 'piece')} (Fortran order, or axis={component.axis}), "
            f"each a read of its own; save the array in C order with examples along axis 0 to make rows whole"
        )
    if table is not None and (packed := table.packed()):
        size = human_bytes(sum(table.header(at).payload_bytes for at in packed))
        when = "each time its example is read" if component.kind == "files" else "into RAM when the first row is wanted"
        yield f"    {plural(len(packed), 'compressed array')}: {size} are inflated, {when}; np.savez avoids that"


def _windows_and_crops(view: View) -> Iterator[str]:
    windows, crops = view.windows, view.examples.crops
    if windows is not None:
        series = plural(len(windows.lengths), "series", "series")
        yield f"  windows over {series}: {windows.span} steps from first to last, one every {windows.stride}"
    if crops is not None:
        yield f"  regions of {plural(len(crops.counts), 'file')}, {len(crops):,} in all"
