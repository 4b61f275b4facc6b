"""A `Flow`: examples by index, and the ways out of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.errors import MissingDependencyError, OptionError
from npyflow._core.spec import ArraySpec
from npyflow._core.structure import Structure
from npyflow._core.text import human_bytes, plural
from npyflow._flow.content import Content
from npyflow._flow.options import example_indices, first_step, integer, shard_of, shuffle_of
from npyflow._flow.split import check_no_empty, part_bounds, split_keys, split_rows
from npyflow._order.layout import plan_layout, plan_pace
from npyflow._order.order import Order
from npyflow._read.reader import Reader
from npyflow._sources.rows import RowSource

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from npyflow._core.spec import Shuffle
    from npyflow._order.layout import Layout, Pace
    from npyflow._sources.base import Source
    from npyflow._sources.component import Component, SourceSet
    from npyflow._sources.report import Report

Array = np.ndarray[Any, Any]

_INDEX = ArraySpec((), np.dtype(np.int64))
# Reading smaller files from two threads at once is slower than from one.
_SMALL_FILE_BYTES = 64 * 1024


class Flow:
    """Examples that are read when they are needed.

    Made by `npyflow.rows`, `npyflow.files` and `npyflow.load`. A flow is a sequence: ``len(flow)``, ``flow[3]`` (an
    example), ``flow[:100]`` or ``flow[indices]`` (a smaller flow over the same files). It is pickled by path, so data
    loaders of other frameworks can send it to their workers.
    """

    def __init__(self, content: Content, selection: Array | None = None, *, parent: Flow | None = None) -> None:
        self._content = content
        self._selection = selection
        self._sources: SourceSet = content.open() if parent is None else parent._sources
        self._last_error: Exception | None = None

    # What it holds

    def __len__(self) -> int:
        return len(self._sources.sources[0]) if self._selection is None else len(self._selection)

    @property
    def spec(self) -> Any:
        """Shape and dtype of each component of an example, nested as the examples are."""
        return self._content.structure.pack(self._sources.specs)

    @property
    def keys(self) -> Sequence[str] | Array:
        """The key of each example; for rows the row numbers, int64 ``(len(flow),)``."""
        keys = self._content.keys
        return self._rows(np.arange(len(self), dtype=np.int64)) if keys is None else self._keys(keys)

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Class names by number, or None. Pass them as ``classes=`` to give another flow the same numbers."""
        return self._content.classes

    @property
    def report(self) -> Report:
        """What was left out, skipped and matched when the flow was opened."""
        return self._content.report

    @property
    def access(self) -> Any:
        """How each component is read: ``"ram"``, ``"mmap"``, ``"read"`` or ``"files"``, nested as the examples are."""
        return self._content.structure.pack([source.access for source in self._sources.sources for _ in source.specs])

    @property
    def last_error(self) -> Exception | None:
        """The latest error raised while TensorFlow was reading; TensorFlow's own carries only its text."""
        return self._last_error

    def describe(self) -> str:
        """Return the flow in words: sizes, components, how they are read, classes, report."""
        one = self._sources.example_bytes
        lines = [f"{plural(len(self), 'example')} of {human_bytes(one)}, {human_bytes(one * len(self))} together"]
        names = iter(self._content.structure.leaves)
        for component, source in zip(self._content.components, self._sources.sources, strict=True):
            lines += _describe(component, source, [next(names) for _ in source.specs])
        if self.classes is not None:
            lines.append(f"  classes: {', '.join(self.classes)}")
        return "\n".join(lines + [f"  {line}" for line in self.report.lines()])

    def __repr__(self) -> str:
        components = self._content.structure.pack([str(spec) for spec in self._specs()])
        return f"<npyflow.Flow of {plural(len(self), 'example')}: {components}>"

    # Examples and parts

    def __getitem__(self, index: Any) -> Any:
        """Return an example (an integer), or a flow of some examples (a slice, an index array, a boolean mask)."""
        if isinstance(index, slice):
            return self._part(np.arange(len(self), dtype=np.int64)[index])
        if np.ndim(index) == 0 and not isinstance(index, bool | np.bool_):
            return self.__getitems__([index])[0]
        return self._part(example_indices(len(self), index))

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Return the examples `indices` as a list, read together."""
        checked = example_indices(len(self), indices)
        arrays = self._sources.read(self._rows(checked), checked)
        return [self._content.structure.pack([array[at] for array in arrays]) for at in range(len(checked))]

    def __iter__(self) -> Iterator[Any]:
        # As many examples together as a read holds.
        some = self._reader(1, False, 0, False, (0, 1), False).layout.batches_per_read
        for start in range(0, len(self), some):
            yield from self.__getitems__(range(start, min(start + some, len(self))))

    def split(self, *fractions: float, seed: int = 0) -> tuple[Flow, ...]:
        """Cut into parts that never overlap: ``train, val = flow.split(0.9)``.

        Files are assigned by a hash of their key, so a file stays in its part when others are added; sizes are then
        approximate. Rows are assigned at random, sizes are exact.

        Parameters
        ----------
        *fractions : float
            One a part; what they leave of 1 is one more part.
        seed : int
            Another seed is another split.

        Raises
        ------
        OptionError
            If the fractions make no sense or a part is empty.
        """
        bounds = part_bounds(fractions)
        how = {"seed": integer("seed", seed), "level": self._content.splits}
        keys, n = self._content.keys, len(self)
        parts = split_rows(n, bounds, **how) if keys is None else split_keys(self._keys(keys), bounds, **how)
        check_no_empty(parts, fractions, n)
        sizes = ", ".join(f"{len(part):,}" for part in parts)
        rule = "at random" if keys is None else "by key hash, sizes are approximate"
        note = f"split {rule}: {sizes} of {plural(n, 'example')}"
        report = replace(self.report, notes=(*self.report.notes, note))
        content = replace(self._content, report=report, splits=self._content.splits + 1)
        return tuple(Flow(content, self._rows(part), parent=self) for part in parts)

    # Ways out

    def batches(
        self,
        batch_size: int,
        *,
        shuffle: bool | Shuffle = False,
        seed: int = 0,
        drop_remainder: bool = False,
        epoch: int = 0,
        start_step: int = 0,
        shard: tuple[int, int] = (0, 1),
        with_index: bool = False,
    ) -> Iterator[Any]:
        """Iterate over one epoch in NumPy, in the order that `to_tf` delivers.

        Parameters
        ----------
        batch_size, shuffle, seed, drop_remainder, start_step, shard, with_index
            As in `to_tf`.
        epoch : int
            Which epoch.

        Yields
        ------
        nested arrays (batch, ...)
            Yours to keep: memory is used again only when you have let go of it.
        """
        reader = self._reader(batch_size, shuffle, seed, drop_remainder, shard, with_index)
        layout = reader.layout
        first = first_step(start_step, layout)
        return self._cut(reader, integer("epoch", epoch, 0), first)

    def to_tf(
        self,
        batch_size: int | None = None,
        *,
        shuffle: bool | Shuffle = False,
        seed: int = 0,
        drop_remainder: bool = False,
        epochs: int | None = None,
        start_epoch: int = 0,
        start_step: int = 0,
        shard: tuple[int, int] = (0, 1),
        with_index: bool = False,
    ) -> Any:
        """Return a ``tf.data.Dataset`` with exact element spec and cardinality.

        Parameters
        ----------
        batch_size : int, optional
            None for single examples.
        shuffle : bool or Shuffle
            True for a permutation of all examples, another one each epoch.
        seed : int
            The order is a function of the seed, the epoch and the number of examples, on every machine and version.
        drop_remainder : bool
            Leave out a last batch that is not full; the batch axis is static then.
        epochs : int, optional
            Run from `start_epoch` to this epoch and end. None: every pass over the dataset is the next epoch, so
            ``model.fit(ds, epochs=5)`` sees five orders. Every pass counts, ``Normalization.adapt`` and a peek too.
        start_epoch, start_step : int
            Where to begin, to continue a run that ended there. `start_step` needs `epochs`.
        shard : tuple of int
            ``(index, count)``: this worker's share of the one global order.
        with_index : bool
            Deliver ``(index, example)``; ``flow.keys[index]`` says where it came from.

        Returns
        -------
        tf.data.Dataset
            Plain tf.data from here on: ``map``, ``cache``, ``repeat`` and the rest are its own.

        Raises
        ------
        OptionError
            If an option is out of range.
        MissingDependencyError
            Without TensorFlow.
        """
        reader = self._reader(1 if batch_size is None else batch_size, shuffle, seed, drop_remainder, shard, with_index)
        start_epoch = integer("start_epoch", start_epoch, 0)
        start_step = first_step(start_step, reader.layout)
        if epochs is None and start_step:
            raise OptionError(f"start_step={start_step} without epochs=: say with epochs= where the run ends")
        if epochs is not None and (start_epoch, start_step) > (integer("epochs", epochs, 1), 0):
            raise OptionError(
                f"start_epoch={start_epoch}, start_step={start_step} lies behind the end of epochs={epochs}"
            )
        specs = [_INDEX, *self._specs()] if with_index else self._specs()
        adapter = _import_adapter()
        return adapter.build(
            adapter.Feed(
                reader=reader,
                specs=specs,
                structure=self._structure(with_index),
                pace=self._pace(reader.layout),
                unbatch=batch_size is None,
                epochs=epochs,
                start_epoch=start_epoch,
                start_step=start_step,
                on_error=self._remember,
            )
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a manifest: paths, sizes, times, header facts, keys, labels, classes; no payload.

        `npyflow.load` opens it without reading a header. A file that has changed since is noticed when it is read.

        Raises
        ------
        OptionError
            If a component is an array in RAM, which has no path.
        """
        # Here and in `load`, because most flows are never saved.
        from npyflow._flow.manifest import save_content

        save_content(self._content, self._selection, path)

    def close(self) -> None:
        """Let go of files and memory, here and in all parts of this flow. Batches already handed out stay valid."""
        self._sources.close()

    def __enter__(self) -> Flow:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        for component in self._content.components:
            if component.kind == "arrays":
                raise OptionError(
                    f"{component.name or 'data'} is an array in RAM: a flow is pickled by path, never with its data; "
                    f"save the array with np.save and open the flow from the file"
                )
        return Flow, (self._content, self._selection)

    # Inside

    def _specs(self) -> list[ArraySpec]:
        return self._sources.specs

    def _structure(self, with_index: bool) -> Structure[Any]:
        tree = self._content.structure.tree
        return Structure(("index", tree)) if with_index else self._content.structure

    def _rows(self, indices: Array) -> Array:
        return indices if self._selection is None else self._selection[indices]

    def _remember(self, error: Exception) -> None:
        self._last_error = error

    def _keys(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        return keys if self._selection is None else tuple(keys[at] for at in self._selection.tolist())

    def _part(self, indices: Array) -> Flow:
        return Flow(self._content, self._rows(indices), parent=self)

    def _reader(
        self,
        batch_size: int,
        shuffle: bool | Shuffle,
        seed: int,
        drop_remainder: bool,
        shard: tuple[int, int],
        with_index: bool,
    ) -> Reader:
        if not isinstance(drop_remainder, bool | np.bool_):
            raise OptionError(f"drop_remainder={drop_remainder!r}: expected True or False")
        order = Order(len(self), shuffle=shuffle_of(shuffle), seed=integer("seed", seed), shard=shard_of(shard))
        layout = plan_layout(
            examples=len(order),
            example_bytes=self._sources.example_bytes,
            batch_size=integer("batch_size", batch_size, 1),
            drop_remainder=bool(drop_remainder),
        )
        return Reader(
            sources=self._sources, selection=self._selection, order=order, layout=layout, with_index=with_index
        )

    def _pace(self, layout: Layout) -> Pace:
        """How far to run ahead; the pool keeps memory for that."""
        sources = self._sources.sources
        small_files = any(
            source.access == "files" and sum(spec.nbytes for spec in source.specs) < _SMALL_FILE_BYTES
            for source in sources
        )
        example_bytes = self._sources.example_bytes
        pace = plan_pace(layout, example_bytes=example_bytes, small_files=small_files)
        self._sources.pool.keep(example_bytes * layout.examples_per_read * (pace.in_flight + 1))
        return pace

    def _cut(self, reader: Reader, epoch: int, first_step: int) -> Iterator[Any]:
        structure, size = self._structure(reader.with_index), reader.layout.batch_size
        for number in range(reader.layout.reads(first_step)):
            arrays = reader.read(epoch, first_step, number)
            for start in range(0, len(arrays[0]), size):
                yield structure.pack([array[start : start + size] for array in arrays])


def _describe(component: Component, source: Source, names: Sequence[str]) -> Iterator[str]:
    """A component in words: its arrays, how they are read, and what that costs."""
    specs = ", ".join(f"{name}: {spec}" if name else str(spec) for name, spec in zip(names, source.specs, strict=True))
    table = component.table
    files = "" if table is None else f", {plural(table.file_count, 'file')}"
    yield f"  {specs}, access {source.access!r}{files}"
    if isinstance(source, RowSource) and source.pieces > 1:
        yield (
            f"    a row lies in {plural(source.pieces, 'piece')} (Fortran order, or axis={component.axis}), "
            f"each a read of its own; save the array in C order with examples along axis 0 to make rows whole"
        )
    if table is not None and (packed := table.packed()):
        size = human_bytes(sum(table.header(at).payload_bytes for at in packed))
        when = "each time its example is read" if component.kind == "files" else "into RAM when the first row is wanted"
        yield f"    {plural(len(packed), 'compressed array')}: {size} are inflated, {when}; np.savez avoids that"


def _import_adapter() -> Any:
    try:
        from npyflow._adapters import tfdata
    except ModuleNotFoundError as error:
        if error.name != "tensorflow":
            raise
        raise MissingDependencyError(
            "to_tf needs TensorFlow, which is not installed: pip install 'npyflow[tf]' (or 'npyflow[tf-cpu]'); "
            "batches() works without it"
        ) from None
    return tfdata
