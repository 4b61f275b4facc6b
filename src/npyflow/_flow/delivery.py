"""Batches out of a flow: for NumPy, and for TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from npyflow._core.errors import MissingDependencyError, OptionError
from npyflow._core.options import integer
from npyflow._flow.options import first_step
from npyflow._flow.padding import batch_structure
from npyflow._flow.reading import pace_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from npyflow._flow.padding import Slot
    from npyflow._flow.reading import Batching
    from npyflow._flow.view import View
    from npyflow._read.collate import Opened

F = TypeVar("F", bound="Callable[..., Any]")


def unconverted(method: F) -> F:
    """Keep AutoGraph from rewriting what `method` calls where a flow becomes a dataset inside a ``tf.function``."""
    # This is how AutoGraph itself marks what is to run as it stands, and TensorFlow need not be imported for it.
    setattr(method, "autograph_info__", {})  # noqa: B010 (functions have no such attribute for mypy)
    return method


def iterate(view: View, how: Batching, epoch: Any, start_step: Any) -> Iterator[Any]:
    """Return the batches of an epoch, nested.

    Raises
    ------
    OptionError
        If an option is out of range.
    """
    reader = how.reader(view)
    first, epoch = first_step(start_step, reader.schedule.steps), integer("epoch", epoch, 0)
    structure = batch_structure(view.structure, reader.collators, reader.with_index)
    size = reader.schedule.batch_size if reader.schedule.batches_per_read > 1 else None

    def batches() -> Iterator[Any]:
        for number in range(reader.schedule.reads(first)):
            columns = reader.read(epoch, first, number)
            # What is one after another is a batch by itself, and may have no element.
            count = len(columns[0].arrays[0]) if size else 1
            for start in range(0, count, size or 1):
                part = slice(start, start + size) if size else slice(None)
                yield structure.pack([_slot(columns, slot, part) for slot in structure.leaves])

    return batches()


def _slot(columns: Sequence[Opened], slot: Slot, part: slice) -> Any:
    """An array of a batch; a list of arrays where examples stand one after another."""
    column = columns[slot.column]
    return list(column.views) if slot.array is None else column.arrays[slot.array][part]


def build_dataset(
    view: View, how: Batching, epochs: Any, start_epoch: Any, start_step: Any, on_error: Callable[[Exception], None]
) -> Any:
    """Return the dataset; parameters as `Flow.to_tf`.

    Raises
    ------
    OptionError
        If an option is out of range.
    MissingDependencyError
        Without TensorFlow.
    """
    reader = how.reader(view)
    start_epoch = integer("start_epoch", start_epoch, 0)
    start_step = first_step(start_step, reader.schedule.steps)
    if epochs is None and start_step:
        raise OptionError(f"start_step={start_step} without epochs=: say with epochs= where the run ends")
    if epochs is not None and (start_epoch, start_step) > (integer("epochs", epochs, 1), 0):
        raise OptionError(f"start_epoch={start_epoch}, start_step={start_step} lies behind the end of epochs={epochs}")
    adapter = _import_adapter()
    return adapter.build(
        adapter.Feed(
            reader=reader,
            structure=batch_structure(view.structure, reader.collators, reader.with_index),
            pace=pace_of(view, reader),
            unbatch=how.batch_size is None,
            epochs=epochs,
            start_epoch=start_epoch,
            start_step=start_step,
            on_error=on_error,
        )
    )


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
