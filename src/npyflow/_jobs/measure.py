"""`npyflow.measure`: what a pipeline costs on the files and the machine at hand, and what would be better."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from npyflow import __version__
from npyflow._core.errors import OptionError
from npyflow._core.options import integer
from npyflow._flow.load import load
from npyflow._jobs.convert import convert_flow
from npyflow._jobs.pack import SHARD_BYTES, pack_flow
from npyflow._jobs.progress import Silent, shown_progress
from npyflow._jobs.stored import open_stored, view_of
from npyflow._measure.census import file_sizes, tables_of
from npyflow._measure.interrupts import kept_interrupts
from npyflow._measure.run import Run
from npyflow._measure.timing import Deadline
from npyflow._measure.ways import Makers

if TYPE_CHECKING:
    from npyflow._flow.flow import Flow
    from npyflow._jobs.progress import Progress
    from npyflow._measure.result import Measurement

# Less is too short for any way to be timed.
LEAST_SECONDS = 2.0
_LEAST_SHARE = 0.7
# How the copies of a sample are written: for a moment, in a folder that may lie beside the files.
_COPY: dict[str, Any] = {"verify": "none", "workers": 1, "executor": None, "progress": Silent(), "apart": False}


def measure(
    flow: Flow, *, seconds: float = 60.0, batch_size: int = 32, step_ms: float | None = None, progress: bool = False
) -> Measurement:
    """Find out what reading `flow` costs, where the time goes, and what would be better.

    Reads only; copies of a sample are written to the system's folder for temporary files and removed.

    Parameters
    ----------
    flow : Flow
        What is to be measured, as it would be trained on.
    seconds : float
        About how long it may take.
    batch_size : int
        Of the training.
    step_ms : float, optional
        Milliseconds that the model takes for a batch: says whether input or model is the bottleneck.
    progress : bool
        Show it on standard error.

    Returns
    -------
    Measurement
        ``.verdict``, ``.ways``, ``.stages``; ``str()`` of it is a report, ``.as_dict()`` is JSON.

    Raises
    ------
    OptionError
        If an option is out of range, or the flow is empty.
    NpyflowError
        If a file cannot be read.
    """
    view_of(flow)
    path = _common_path(flow)
    with shown_progress(progress) as shown:
        return measure_flow(
            flow, path=path, opened="flow", seconds=seconds, batch_size=batch_size, step_ms=step_ms, progress=shown
        )


def measure_flow(
    flow: Flow,
    *,
    path: str,
    opened: str,
    options: tuple[str, ...] | None = None,
    seconds: Any,
    batch_size: Any,
    step_ms: Any,
    progress: Progress,
) -> Measurement:
    """Do what `measure` does, for what the user calls `path`, and opens by the call `opened` or with `options`."""
    deadline = Deadline(_number("seconds", seconds, LEAST_SECONDS))
    size = integer("batch_size", batch_size, 1)
    step = None if step_ms is None else _number("step_ms", step_ms, 0.0)
    if any(component.stored is not None for component in flow._view.content.components):
        raise OptionError(
            "this is converted already, and measure compares ways to read .npy files: measure what it was made from"
        )
    if not len(flow):
        raise OptionError("the flow has no example, so there is nothing to measure")
    progress.start("starting TensorFlow, if it is installed", 1)
    passes, why = _passes(flow, size)
    progress.step()
    # A machine on which TensorFlow starts slowly still needs time for the rest.
    deadline.seconds = max(deadline.seconds, deadline.spent + _LEAST_SHARE * deadline.seconds)
    run = Run(
        flow,
        path=path,
        opened=opened,
        batch_size=size,
        makers=Makers(pack=_pack, convert=_convert),
        passes=passes,
        progress=progress,
        deadline=deadline,
        options=options,
    )
    run.notes += [why] if why else []
    with kept_interrupts():
        return run.measure(__version__, step)


def _passes(flow: Flow, batch_size: int) -> tuple[Any, str]:
    """What consumes datasets; without TensorFlow, or if it cannot take such data, None and why."""
    from npyflow._core.errors import NpyflowError
    from npyflow._measure.subject import padding_for

    try:
        from npyflow._adapters import passes
    except ModuleNotFoundError as error:
        if error.name != "tensorflow":
            raise
        return None, (
            "TensorFlow is not installed, so batches() was measured in its place: no hand-over, no TFRecord; "
            "pip install 'npyflow[tf]' (or 'npyflow[tf-cpu]')"
        )
    try:
        flow.to_tf(batch_size, **padding_for(flow._view, batch_size))
    except NpyflowError as error:
        return None, f"to_tf does not take this flow, so batches() was measured in its place: {error}"
    return passes, ""


def _pack(flow: Flow, folder: str) -> Flow:
    pack_flow(flow, folder, shard_bytes=SHARD_BYTES, **_COPY)
    return load(folder)


def _convert(flow: Flow, folder: str) -> Any:
    how: dict[str, Any] = {"encoding": "raw", "lossy": False, "compression": None, "shard_bytes": None}
    convert_flow(flow, folder, to="tfrecord", **how, **_COPY)
    return open_stored(folder)


def _number(name: str, value: Any, least: float) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise OptionError(f"{name}={value!r}: expected a number") from None
    if not least <= number < float("inf"):
        raise OptionError(f"{name}={value!r}: expected at least {least:g}")
    return number


def _common_path(flow: Flow) -> str:
    """The folder that holds all files, or the only file."""
    paths = sorted(file_sizes(tables_of(flow._view)))
    if len(paths) < 2:
        return paths[0] if paths else "data"
    try:
        # The first and the last in order differ the earliest.
        return os.path.commonpath([paths[0], paths[-1]]) or "."
    except ValueError:
        return "."
