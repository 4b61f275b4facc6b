"""The recipe that most pipelines use today, on the same examples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._measure.subject import stream_of
from npyflow._sources.conversion import WHOLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from npyflow._core.spec import ArraySpec
    from npyflow._flow.flow import Flow
    from npyflow._flow.view import View
    from npyflow._measure.subject import Subject
    from npyflow._measure.timing import Runner
    from npyflow._sources.component import Component

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A recipe: what makes its runner, what it is called, and what it holds in RAM of the sample."""

    make: Callable[[], Runner]
    call: str
    holds: bool = False
    held_bytes: int = 0


def peer(subject: Subject, sample: Flow, gathered: Callable[[], list[Array]]) -> Peer | None:
    """Return the recipe for such data, or None if there is no usual one.

    Parameters
    ----------
    subject : Subject
    sample : Flow
        The examples to read.
    gathered : callable
        Returns them in RAM, an array a component.
    """
    view = sample._view
    loaders = [_loader(view, component) for component in view.content.components]
    if any(component.kind == "files" for component in view.content.components):
        usable = [loader for loader in loaders if loader is not None]
        return _file_by_file(subject, view, usable) if len(usable) == len(loaders) else None
    if any(spec.varying for spec in view.examples.specs):
        return None
    return _arrays(subject, gathered())


def _loader(view: View, component: Component) -> Callable[[int], Array] | None:
    """A function that loads one component of an example as people write it; None for what they do not do."""
    rows = view.items(view.rows()).tolist()
    if component.kind == "labels":
        values = component.arrays[0]
        return lambda index: np.asarray(values[rows[index]])
    table = component.table
    special = component.crop is not None or component.extents is not None or component.transpose is not None
    if component.kind != "files" or table is None or special or component.delivery.fields != (WHOLE,):
        return None
    wanted = component.delivery.dtypes[0]

    def load(index: int) -> Array:
        path, member = table.paths[rows[index]], table.span(rows[index]).member
        if member is None:
            array = np.load(path, allow_pickle=False)
        else:
            with np.load(path, allow_pickle=False) as archive:
                array = archive[member]
        dtype = array.dtype.newbyteorder("=") if wanted is None else wanted
        # TensorFlow takes the bytes as they are: without this line big-endian files are silent garbage.
        return np.ascontiguousarray(array, dtype)

    return load


def _file_by_file(subject: Subject, view: View, loaders: list[Callable[[int], Array]]) -> Peer:
    specs: list[ArraySpec] = view.examples.specs
    count, size = len(view), subject.batch_size
    if subject.passes is None:
        call = "np.stack([np.load(path) for path in batch])"
        return Peer(make=lambda: stream_of(lambda _: _loaded(loaders, specs, count, size), count, size), call=call)

    def load(index: Any) -> list[Array]:
        return [loader(int(index)) for loader in loaders]

    def dataset() -> Any:
        from npyflow._adapters import recipes

        return recipes.function_an_example(load, specs, count, size)

    batch = "padded_batch" if any(spec.varying for spec in specs) else "batch"
    call = f"Dataset.map(numpy_function(np.load)).{batch}({size}), shuffled, AUTOTUNE"
    return Peer(make=subject.dataset_runner(dataset, count, size), call=call)


def _arrays(subject: Subject, arrays: list[Array]) -> Peer:
    count, size = len(arrays[0]), subject.batch_size
    held = sum(array.nbytes for array in arrays)
    if subject.passes is None:
        call = f"x = np.load(...); x[order[start : start + {size}]]"
        return Peer(
            make=lambda: stream_of(lambda _: _taken(arrays, size), count, size), call=call, holds=True, held_bytes=held
        )

    def dataset() -> Any:
        from npyflow._adapters import recipes

        return recipes.slices(arrays, size)

    call = f"Dataset.from_tensor_slices(np.load(...)).shuffle(n).batch({size})"
    return Peer(make=subject.dataset_runner(dataset, count, size), call=call, holds=True, held_bytes=held)


def _loaded(loaders: list[Callable[[int], Array]], specs: list[ArraySpec], count: int, size: int) -> Iterator[Any]:
    """An epoch of files that are loaded and stacked in Python."""
    order = np.random.default_rng(0).permutation(count)
    for start in range(0, count, size):
        batch = []
        for loader, spec in zip(loaders, specs, strict=True):
            arrays = [loader(at) for at in order[start : start + size].tolist()]
            batch.append(arrays if spec.varying else np.stack(arrays))
        yield batch


def _taken(arrays: list[Array], size: int) -> Iterator[Any]:
    """An epoch of shuffled rows of arrays in RAM."""
    order = np.random.default_rng(0).permutation(len(arrays[0]))
    for start in range(0, len(order), size):
        yield [array[order[start : start + size]] for array in arrays]
