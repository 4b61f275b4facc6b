"""How an epoch is cut: into batches for the model, and into reads of several batches for the engine."""

from __future__ import annotations

import os
from dataclasses import dataclass

# Several small batches share one Python call; larger reads would fall out of the processor's cache.
READ_BYTES = 3 << 20
# From here on a batch is a read of its own.
WHOLE_BATCH_BYTES = 1 << 20
# All reads in flight together.
BUDGET_BYTES = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The reads of one epoch.

    Parameters
    ----------
    examples : int
        In the epoch.
    batch_size : int
        Examples a step.
    drop_remainder : bool
        Leave out a last batch that is not full.
    batches_per_read : int
        Steps that one read serves.
    """

    examples: int
    batch_size: int
    drop_remainder: bool
    batches_per_read: int

    @property
    def steps(self) -> int:
        """Batches in an epoch."""
        full, rest = divmod(self.examples, self.batch_size)
        return full + (rest > 0 and not self.drop_remainder)

    @property
    def examples_per_read(self) -> int:
        """Examples in a full read."""
        return self.batches_per_read * self.batch_size

    @property
    def end(self) -> int:
        """Examples that are delivered in an epoch."""
        return min(self.examples, self.steps * self.batch_size)

    def reads(self, first_step: int) -> int:
        """Number of reads from `first_step` to the end of the epoch."""
        return -(-(self.steps - first_step) // self.batches_per_read)

    def span(self, first_step: int, read: int) -> tuple[int, int]:
        """Positions ``[start, stop)`` of one read of an epoch that begins at `first_step`."""
        start = first_step * self.batch_size + read * self.examples_per_read
        return start, min(start + self.examples_per_read, self.end)


def plan_layout(
    *, examples: int, example_bytes: int, batch_size: int, drop_remainder: bool, whole: bool = False
) -> Layout:
    """Choose how many batches a read serves; `whole` says that it must be one."""
    batch_bytes = max(1, example_bytes * batch_size)
    fitting = 1 if whole or batch_bytes >= WHOLE_BATCH_BYTES else max(1, READ_BYTES // batch_bytes)
    # An example without bytes, or with a few, is no reason to read millions of them at once.
    fitting = min(fitting, max(1, 65536 // batch_size))
    return Layout(examples=examples, batch_size=batch_size, drop_remainder=drop_remainder, batches_per_read=fitting)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How far reads run ahead of the model.

    Parameters
    ----------
    parallel : int
        Reads at one time.
    ahead : int
        Finished reads that wait, beside those that `parallel` holds.
    """

    parallel: int
    ahead: int

    @property
    def in_flight(self) -> int:
        """Reads whose memory is held at one time, the one that is being consumed included."""
        return self.parallel + self.ahead + 1


def plan_pace(read_bytes: int, *, small_files: bool) -> Pace:
    """Choose from the size of a read, within `BUDGET_BYTES`.

    Parameters
    ----------
    read_bytes : int
        Bytes of a read, all components together; at least 1.
    small_files : bool
        Reads are many short system calls. Two threads at that would wait for each other's Python lock, so one reads
        and keeps on while a finished read waits.
    """
    affordable = max(1, BUDGET_BYTES // read_bytes - 2)
    if small_files or affordable < 2:
        return Pace(parallel=1, ahead=min(1, affordable - 1))
    return Pace(parallel=min(affordable, max(2, cpus())), ahead=0)


def cpus() -> int:
    """Processors this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
