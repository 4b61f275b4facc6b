"""A `Flow`: examples by index, and the ways out of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.errors import OptionError
from npyflow._core.options import integer
from npyflow._core.text import plural
from npyflow._flow.delivery import build_dataset, iterate, unconverted
from npyflow._flow.describe import describe
from npyflow._flow.options import example_indices
from npyflow._flow.reading import Batching, padding_share
from npyflow._flow.view import View
from npyflow._order.schedule import plain_draw

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence

    from npyflow._core.options import Bucket, Shuffle
    from npyflow._flow.content import Content
    from npyflow._flow.stats import Stats
    from npyflow._sources.report import Report

Array = np.ndarray[Any, Any]


class Flow:
    """Examples that are read when they are needed.

    Made by `npyflow.rows`, `npyflow.files`, `npyflow.windows` and `npyflow.load`. A flow is a sequence: ``len(flow)``,
    ``flow[3]`` (an example), ``flow[:100]`` or ``flow[indices]`` (a smaller flow over the same files). It is pickled by
    path, never with its data.
    """

    def __init__(self, view: View, stats: Stats | None = None) -> None:
        self._view = view
        self._stats = stats
        self._last_error: Exception | None = None

    # What it holds

    def __len__(self) -> int:
        return len(self._view)

    @property
    def spec(self) -> Any:
        """Shape and dtype of each component of an example, nested as the examples are; None where sizes differ."""
        return self._view.structure.pack(self._view.examples.specs)

    @property
    def keys(self) -> Sequence[str] | Array:
        """The key of each example, for windows that of the series; for rows the row numbers, int64 ``(len(flow),)``."""
        return self._view.keys

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Class names by number, or None. Pass them as ``classes=`` to give another flow the same numbers."""
        return self._view.content.classes

    @property
    def report(self) -> Report:
        """What was left out, skipped and matched when the flow was opened."""
        return self._view.content.report

    @property
    def access(self) -> Any:
        """How each component is read: ``"ram"``, ``"mmap"``, ``"read"`` or ``"files"``, nested as the files are."""
        sources = self._view.examples.sources.sources
        return self._view.content.structure.pack([source.access for source in sources for _ in source.specs])

    @property
    def last_error(self) -> Exception | None:
        """The latest error raised while TensorFlow was reading; TensorFlow's own carries only its text."""
        return self._last_error

    def positions(self, epoch: int = 0) -> Array:
        """Return where each example begins in its file.

        Parameters
        ----------
        epoch : int
            For random crops: other ones in each epoch, by the index in this flow (with ``sample=`` by position).

        Returns
        -------
        int64 array
            For windows the first step, ``(examples,)``; for crops the first index along each cropped axis,
            ``(examples, axes)``, negative where an array is smaller than the crop.

        Raises
        ------
        OptionError
            If examples are neither windows nor crops.
        """
        found = self._view.positions(integer("epoch", epoch, 0))
        if found is None:
            raise OptionError("positions() are those of windows and crops; here every example is a whole row or file")
        return found

    def describe(self) -> str:
        """Return the flow in words: sizes, components, how they are read, classes, report."""
        return describe(self._view)

    def __repr__(self) -> str:
        components = self._view.structure.pack([str(spec) for spec in self._view.examples.specs])
        return f"<npyflow.Flow of {plural(len(self), 'example')}: {components}>"

    # Examples and parts

    def __getitem__(self, index: Any) -> Any:
        """Return an example (an integer), or a flow of some examples (a slice, an index array, a boolean mask)."""
        if isinstance(index, slice):
            found = range(len(self))[index]
            return Flow(self._view.part(found if found.step == 1 else np.array(found, np.int64)))
        if np.ndim(index) == 0 and not isinstance(index, bool | np.bool_):
            return self.__getitems__([index])[0]
        return Flow(self._view.part(example_indices(len(self), index)))

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Return the examples `indices` as a list, read together, as they are in epoch 0."""
        view = self._view
        checked = example_indices(len(self), indices)
        if not len(checked):
            return []
        read = view.examples.each(view.rows(checked), plain_draw(checked), view.name)
        return [view.structure.pack(leaves) for leaves in read]

    def __iter__(self) -> Iterator[Any]:
        # As many examples together as a read holds.
        some = Batching(batch_size=None).reader(self._view).schedule.batches_per_read
        for start in range(0, len(self), some):
            yield from self.__getitems__(range(start, min(start + some, len(self))))

    def split(
        self,
        *fractions: float,
        seed: int = 0,
        stratify: Any = None,
        groups: Any = None,
        by: str | None = None,
        gap: int = 0,
    ) -> tuple[Flow, ...]:
        """Cut into parts that never overlap: ``train, val = flow.split(0.9)``.

        Files are assigned by a hash of their key, so a file stays in its part when others are added; sizes are then
        approximate. Rows are assigned at random, sizes are exact. Windows are cut by time.

        Parameters
        ----------
        *fractions : float
            One a part; what they leave of 1 is one more part.
        seed : int
            Another seed is another split.
        stratify : True, array (examples,) or callable, optional
            Give each part its share of every class, exactly: True takes the label, a callable gets the key.
        groups : array (examples,) or callable, optional
            Keep examples together: those of one value, such as a patient, go to one part.
        by : {"time", "random"}, optional
            ``"time"``: the first part is the first stretch. Of windows each series is cut, and those across a cut are
            left out. ``"random"``: exact sizes instead of a hash of the key.
        gap : int
            Steps (of other examples: examples) that are left out between two parts in time.

        Raises
        ------
        OptionError
            If the options make no sense, windows that overlap would be split at random, or a part is empty.
        """
        # Here and below, because few need it, and every import of npyflow would wait for it.
        from npyflow._flow.parts import split_view

        how = {"seed": seed, "stratify": stratify, "groups": groups, "by": by, "gap": gap}
        return tuple(map(Flow, split_view(self._view, fractions, **how)))

    def folds(self, k: int, *, seed: int = 0, stratify: Any = None, groups: Any = None) -> list[tuple[Flow, Flow]]:
        """Cut into `k` parts of one size and return, for each, ``(all others, this one)``.

        Parameters
        ----------
        k : int
            At least 2.
        seed, stratify, groups
            As in `split`.

        Raises
        ------
        OptionError
            If there are fewer examples or groups than folds, or windows overlap.
        """
        from npyflow._flow.parts import fold_view

        folds = fold_view(self._view, k, seed=seed, stratify=stratify, groups=groups)
        return [(Flow(train), Flow(val)) for train, val in folds]

    def map(self, fn: Callable[[Any, np.random.Generator], Any], *, spec: Any = None, seed: int = 0) -> Flow:
        """Return a flow of what `fn` makes of each example, for what is done in NumPy or SciPy.

        It holds Python's lock, an example at a time: what TensorFlow can do is better done by ``map`` of the dataset.

        Parameters
        ----------
        fn : callable
            ``fn(example, rng)`` gets an example as ``flow[i]`` is, arrays that it may change, and a generator that
            depends on (`seed`, epoch, index in this flow) alone; where an epoch may draw an example twice
            (``sample=``), on the position in the epoch instead. Called from several threads at once.
        spec : ArraySpec, or a tuple or dict of them, optional
            What it returns; None in a shape for a size that varies. Without it, it is learnt from the first example,
            and from the smallest and the largest where examples differ in shape.
        seed : int
            Of the generators.

        Raises
        ------
        MapError
            If `fn` raises for the first example. For later ones it is raised when they are read; it names the example.
        ShapeMismatchError
            If it returns something else than for the first example.
        """
        from npyflow._flow.hook import plan_mapping

        content = self._view.content
        mapping = plan_mapping(self._view, fn, spec, integer("seed", seed))
        return Flow(self._view.with_content(replace(content, mappings=(*content.mappings, mapping))))

    def stats(self, *, progress: bool = False) -> Stats:
        """Return count, mean, standard deviation, smallest and largest value of each component, in one pass.

        Parameters
        ----------
        progress : bool
            Show a bar on standard error.

        Returns
        -------
        Stats
            ``stats["image"].mean``, ``stats["image"].channels.mean``. A second call reads nothing; `save` saves them.
        """
        from npyflow._flow.measure import measure

        if self._stats is None:
            self._stats = measure(self._view, progress)
        return self._stats

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
        pad: Any = None,
        bucket: Bucket | None = None,
        ragged: bool = False,
        sample: Any = None,
    ) -> Iterator[Any]:
        """Iterate over one epoch in NumPy, in the order that `to_tf` delivers.

        Parameters
        ----------
        batch_size, shuffle, seed, drop_remainder, start_step, shard, with_index, pad, bucket, ragged, sample
            As in `to_tf`.
        epoch : int
            Which epoch.

        Yields
        ------
        nested arrays (batch, ...)
            Yours to keep: memory is used again only when you have let go of it. With `ragged` a component whose shape
            varies is a list of arrays.
        """
        size = integer("batch_size", batch_size, 1)
        how = Batching(size, shuffle, seed, drop_remainder, shard, with_index, pad, bucket, ragged, sample)
        return iterate(self._view, how, epoch, start_step)

    @unconverted
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
        pad: Any = None,
        bucket: Bucket | None = None,
        ragged: bool = False,
        sample: Any = None,
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
        pad : scalar, Pad, or a tuple or dict of them, optional
            Fill examples of different lengths up to the longest of the batch, or as `Pad` says.
        bucket : Bucket, optional
            Batch examples of similar length together.
        ragged : bool
            Deliver what varies as ``tf.RaggedTensor``.
        sample : Balanced, array (examples,) or mapping, optional
            Draw by weight instead of each once, in random order: `Balanced`, a weight an example, or a weight a class.

        Returns
        -------
        tf.data.Dataset
            Plain tf.data from here on: ``map``, ``cache``, ``repeat`` and the rest are its own.

        Raises
        ------
        OptionError
            If an option is out of range.
        ShapeMismatchError
            If examples differ in shape and nothing says what to do about it.
        MissingDependencyError
            Without TensorFlow.
        """
        how = Batching(batch_size, shuffle, seed, drop_remainder, shard, with_index, pad, bucket, ragged, sample)
        return build_dataset(self._view, how, epochs, start_epoch, start_step, self._remember)

    def padding(self, batch_size: int, **options: Any) -> float:
        """Return the share of the elements that would be padding, of the components that vary, from the headers.

        Parameters
        ----------
        batch_size, **options
            `pad`, `bucket` and the others of `batches` that say how batches are made.
        """
        options = options if options.get("ragged") else {"pad": 0, **options}
        return padding_share(self._view, Batching(batch_size=batch_size, **options).reader(self._view))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a manifest: paths, sizes, times, header facts, keys, labels, classes, statistics; no payload.

        `npyflow.load` opens it without reading a header. A file that has changed since is noticed when it is read.

        Raises
        ------
        OptionError
            If a component is an array in RAM, which has no path, or there is a function from `map`.
        """
        from npyflow._flow.manifest import save_content

        save_content(self._view.content, self._view.selection, self._stats, path)

    def close(self) -> None:
        """Let go of files and memory, here and in all parts of this flow. Batches already handed out stay valid."""
        self._view.examples.sources.close()

    def __enter__(self) -> Flow:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        self._view.content.check_on_disk("a flow is pickled by path, never with its data")
        return open_flow, (self._view.content, self._view.selection, self._stats)

    # Inside

    def _remember(self, error: Exception) -> None:
        self._last_error = error


def open_flow(content: Content, selection: Array | range | None = None, stats: Stats | None = None) -> Flow:
    """Open the sources of a data set and return a flow of it."""
    return Flow(View(content=content, selection=selection, examples=content.open()), stats)
