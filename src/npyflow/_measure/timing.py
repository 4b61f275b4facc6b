"""Passes in turns, how sure one can be of them, and memory."""

from __future__ import annotations

import math
import statistics
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from npyflow._measure.interrupts import check_interrupts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Few passes give a wide interval; many give little more.
_LEAST_ROUNDS, _MOST_ROUNDS = 5, 21
# A shorter pass is mostly set-up, a longer one leaves no time for the others.
_LEAST_PASS_S, _MOST_PASS_S = 0.1, 1.5
# The beginning of a pass, where nothing is read ahead yet and memory is fresh, is not counted: so much of it, or a few
# batches, if they do not take too long.
_HEAD_SHARE, _HEAD_BATCHES, _HEAD_S = 0.15, 4, 0.4
_CONFIDENCE = 0.95


class Progress(Protocol):
    """Is told how far the job is; jobs give theirs."""

    def start(self, what: str, total: int) -> None:
        """Begin a stage of `total` steps."""

    def step(self) -> None:
        """One more step is done."""


class Runner(Protocol):
    """Something that delivers batches."""

    def restart(self) -> None:
        """Begin an epoch, with nothing read ahead."""

    def stop(self) -> None:
        """Read ahead no more: others have their turn."""

    def __call__(self, batches: int, /) -> int:
        """Deliver so many batches, over as many epochs as that takes; return how many examples they were."""


@dataclass(kw_only=True)
class Contestant:
    """One side of a race.

    Parameters
    ----------
    make : callable
        Returns the `Runner`; called once, when it is warmed up.
    steps : int
        Batches of an epoch.
    whole : bool
        A pass must be whole epochs: a buffer is filled at the beginning of each.
    rates : list of float
        Examples a second, a pass each.
    memory : int
        Bytes that the process grew by in its first passes.
    """

    make: Callable[[], Runner]
    steps: int
    whole: bool = False
    rates: list[float] = field(default_factory=list)
    memory: int = 0
    batch_s: float = 0.0
    batches: int = 0
    head: int = 0
    run: Runner | None = None

    def go(self, batches: int, head: int = 0) -> tuple[float, int]:
        """Seconds and examples of a pass, after a head that is not counted."""
        if self.run is None:
            self.run = self.make()
        try:
            self.run.restart()
            if head:
                self.run(head)
            start = time.perf_counter()
            examples = self.run(batches)
            return max(time.perf_counter() - start, 1e-9), examples
        finally:
            # After Ctrl-C too: threads of TensorFlow that still read would keep the interpreter from ending.
            self.run.stop()

    def warm_up(self) -> None:
        """Run until the time of a batch is known, and note the memory that it takes."""
        batches = self.steps if self.whole else 1
        with PeakMemory() as memory:
            self.go(1)
            head = 0 if self.whole else 1
            while True:
                seconds, _ = self.go(batches, head)
                if seconds > _LEAST_PASS_S:
                    break
                batches *= 4
        self.memory, self.batch_s = memory.grown, seconds / batches

    def plan(self, pass_s: float) -> float:
        """Choose the length of a pass; return the seconds that it will take."""
        self.batches = max(1, round(pass_s / self.batch_s), min(_HEAD_BATCHES, int(_HEAD_S / self.batch_s)))
        few = min(_HEAD_BATCHES, int(_HEAD_S / self.batch_s))
        self.head = max(1, few, round(_HEAD_SHARE * self.batches))
        if self.whole:
            # What fills the buffer is a part of an epoch.
            self.batches, self.head = max(1, round(self.batches / self.steps)) * self.steps, 0
        return (self.head + self.batches) * self.batch_s


class Deadline:
    """A stretch of time that is shared out."""

    def __init__(self, seconds: float) -> None:
        self.start = time.perf_counter()
        self.seconds = seconds

    @property
    def spent(self) -> float:
        """Seconds since it began."""
        return time.perf_counter() - self.start

    @property
    def left(self) -> float:
        """Seconds until it ends; negative afterwards."""
        return self.seconds - self.spent


def race(contestants: Sequence[Contestant], seconds: float, progress: Progress | None = None, what: str = "") -> None:
    """Time contestants that are warm in turns (A B A B ...), so that a disturbance meets all; fills their `rates`."""
    deadline = Deadline(seconds)
    fair = deadline.left / max(1, len(contestants)) / (_LEAST_ROUNDS + 1)
    pass_s = min(_MOST_PASS_S, max(_LEAST_PASS_S, 0.6 * fair))
    for contestant in contestants:
        # The first passes were slow: memory was fresh. One that is not counted tells how long a pass must be.
        contestant.plan(pass_s)
        took, _ = contestant.go(contestant.batches, contestant.head)
        contestant.batch_s = took / contestant.batches
    round_s = sum(contestant.plan(pass_s) for contestant in contestants)
    rounds = min(_MOST_ROUNDS, max(_LEAST_ROUNDS, int(deadline.left / round_s)))
    if progress is not None:
        progress.start(what, rounds * len(contestants))
    for number in range(rounds):
        for contestant in contestants:
            check_interrupts()
            # Over time, those that were planned too long stop at three.
            if number < 3 or deadline.left > contestant.batches * contestant.batch_s:
                took, examples = contestant.go(contestant.batches, contestant.head)
                contestant.rates.append(examples / took)
            if progress is not None:
                progress.step()


def in_turns(functions: Sequence[Callable[[], float]], seconds: float, least: int = 3) -> list[float]:
    """Call each of `functions`, which return seconds, in turns until the time is up; return the median of each."""
    deadline = Deadline(seconds)
    found: list[list[float]] = [[] for _ in functions]
    number = 0
    while number < least or (deadline.left > 0 and number < _MOST_ROUNDS):
        for function, times in zip(functions, found, strict=True):
            check_interrupts()
            times.append(function())
        number += 1
    return [statistics.median(times) for times in found]


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the median, and between which two values the true median lies with 95 % confidence.

    By the order of the values alone, which holds for any distribution; all of them where they are too few.
    """
    ordered = sorted(values)
    count, cut, tail = len(ordered), 0, 0.5 ** len(ordered)
    # So many values may be left out on each side.
    while cut < (count - 1) // 2:
        tail += math.comb(count, cut + 1) * 0.5**count
        if 2 * tail > 1 - _CONFIDENCE:
            break
        cut += 1
    return statistics.median(ordered), ordered[cut], ordered[count - 1 - cut]


def anonymous_bytes() -> int:
    """Memory of this process that is its own, not a file's; 0 where the system does not say."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith("RssAnon:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


class PeakMemory:
    """Samples memory in the background of a ``with`` block: `grown` is by how much it grew at the peak."""

    grown = 0

    def __enter__(self) -> PeakMemory:
        self._before = self._peak = anonymous_bytes()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self.grown = max(0, max(self._peak, anonymous_bytes()) - self._before)

    def _sample(self) -> None:
        while not self._done.wait(0.01):
            self._peak = max(self._peak, anonymous_bytes())
