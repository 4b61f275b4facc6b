"""The measurement itself: parts in order, each with its share of the time."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.text import human_bytes
from npyflow._measure.census import take_census
from npyflow._measure.cold import cold_stages
from npyflow._measure.facts import Facts, break_even
from npyflow._measure.interrupts import check_interrupts
from npyflow._measure.result import BatchRate, Machine, Measurement, PackCost, Stage, Way
from npyflow._measure.rules import judge
from npyflow._measure.stages import STAGES, warm_stages
from npyflow._measure.subject import Subject, mean_bytes, numpy_stream, padding_for, traits
from npyflow._measure.timing import Contestant, Deadline, Progress, interval, race
from npyflow._measure.ways import Candidate, Makers, Ways, packing_helps
from npyflow._measure.words import render
from npyflow._order.layout import cpus
from npyflow._sources.shards import free_memory

if TYPE_CHECKING:
    from npyflow._flow.flow import Flow

Array = np.ndarray[Any, Any]

# What each part gets of the time that is left when it begins.
_COLD, _WARM, _STAGES, _SAMPLE, _RACE = 0.05, 0.2, 0.15, 0.35, 0.7
# Ways that are left out if the time is up.
_OPTIONAL = ("recipe", "ram", "tfrecord")
_MOST_SAMPLE_BYTES = 128 << 20
_MOST_SAMPLE = 20_000
# Of a batch that is tried because it is larger.
_MOST_BATCH_BYTES = 256 << 20
_SPARE_BYTES = 64 << 20


class Run:
    """One measurement in the making.

    Parameters
    ----------
    flow : Flow
    path, opened : str
        What the user calls it, and the call that opens it.
    seconds : float
        For all of it.
    batch_size : int
    makers : Makers
    passes : module, optional
        What consumes datasets; None without TensorFlow.
    progress : Progress
    deadline : Deadline
        What is left of the time.
    options : tuple of str, optional
        Those of the command line that say how to open `path`.
    """

    def __init__(
        self,
        flow: Flow,
        *,
        path: str,
        opened: str,
        batch_size: int,
        makers: Makers,
        passes: Any,
        progress: Progress,
        deadline: Deadline,
        options: tuple[str, ...] | None = None,
    ) -> None:
        view = flow._view
        self.subject = Subject(
            flow=flow,
            path=path,
            opened=opened,
            batch_size=batch_size,
            padding=padding_for(view, batch_size),
            bytes_per_example=mean_bytes(view),
            passes=passes,
        )
        self.notes: list[str] = []
        self._options = options
        self._makers = makers
        self._progress = progress
        self._deadline = deadline

    def measure(self, version: str, step_ms: float | None) -> Measurement:
        """Do everything; the copies of the sample are gone afterwards, whatever happens."""
        subject = self.subject
        self._progress.start("looking at the files", 1)
        census = take_census(subject.view)
        cold, why = cold_stages(subject, _COLD * self._deadline.left)
        self._progress.step()
        sample = self._sample()
        self._warm(sample)
        self._progress.start("timing each part alone", 1)
        warm = warm_stages(subject, sample, _STAGES * self._deadline.left)
        self._progress.step()
        with tempfile.TemporaryDirectory(prefix="npyflow-measure-", ignore_cleanup_errors=True) as folder:
            ways, packed = self._race(sample, folder)
        sizes = self._batch_sizes(sample, ways)
        facts = self._facts(ways, sizes, self._pack_cost(sample, packed, ways), step_ms)
        self._note_size(facts)
        machine = _machine(version, subject.passes)
        found = self._result(facts, census=census, stages=_stages(warm, cold), cold=why, machine=machine)
        return replace(found, text=render(found))

    def _facts(
        self, ways: tuple[Way, ...], sizes: tuple[BatchRate, ...], pack: PackCost | None, step_ms: float | None
    ) -> Facts:
        subject = self.subject
        return Facts(
            path=subject.path,
            opened=subject.opened,
            examples=len(subject.flow),
            batch_size=subject.batch_size,
            total_bytes=subject.total_bytes,
            ways=ways,
            batch_sizes=sizes,
            pack=pack,
            step_ms=step_ms,
            free_memory=free_memory(),
            free_disk=_free_disk(subject.path),
            traits=traits(subject.view),
            options=self._options,
        )

    def _result(self, facts: Facts, **more: Any) -> Measurement:
        return Measurement(
            path=facts.path,
            examples=facts.examples,
            bytes_per_example=self.subject.bytes_per_example,
            total_bytes=facts.total_bytes,
            batch_size=facts.batch_size,
            ways=facts.ways,
            batch_sizes=facts.batch_sizes,
            pack=facts.pack,
            step_ms=facts.step_ms,
            bottleneck=facts.bottleneck,
            verdict=judge(facts),
            seconds=self._deadline.spent,
            notes=tuple(self.notes),
            **more,
        )

    def _sample(self) -> Flow:
        """Examples from all over: as many as can be read several times, and copied, in the time that there is."""
        subject, flow = self.subject, self.subject.flow
        count, size = len(flow), subject.batch_size
        rng = np.random.default_rng(0)
        some = flow[np.sort(rng.choice(count, min(count, 4 * size), replace=False))]
        runner, steps = numpy_stream(some, size, subject.padding), -(-len(some) // size)
        for _ in range(2):
            # The first time from the disk, maybe.
            runner.restart()
            runner(steps)
        runner.restart()
        start = time.perf_counter()
        rate = runner(steps) / max(1e-9, time.perf_counter() - start)
        most = min(
            _MOST_SAMPLE,
            int(_MOST_SAMPLE_BYTES / max(1.0, subject.bytes_per_example)),
            int(rate * 0.04 * max(2.0, self._deadline.left)),
        )
        wanted = min(count, max(most, 2 * size))
        if wanted == count:
            return flow
        self.notes.append(f"The ways were timed on {wanted:,} examples out of {count:,}, chosen at random.")
        chosen: Flow = flow[np.sort(rng.choice(count, wanted, replace=False))]
        return chosen

    def _warm(self, sample: Flow) -> None:
        """Read the sample once, so that it is in the page cache."""
        subject = self.subject
        runner, steps = numpy_stream(sample, subject.batch_size, subject.padding), -(-len(sample) // subject.batch_size)
        deadline = Deadline(_WARM * self._deadline.left)
        runner.restart()
        for _ in range(steps):
            runner(1)
            if deadline.left < 0:
                self.notes.append(
                    "The disk is so slow that the sample could not be read into the page cache in time: the figures "
                    "are partly those of the disk. --seconds gives more."
                )
                break

    def _race(self, sample: Flow, folder: str) -> tuple[tuple[Way, ...], tuple[float, int] | None]:
        """Make the ways, warm them up, time them in turns."""
        ways = Ways(self.subject, sample, folder, self._makers)
        candidates = [ways.today()]
        candidates[0].contestant.warm_up()
        deadline = Deadline(_SAMPLE * self._deadline.left)
        others = list(ways.makers_by_name(self._room(sample)))
        self._progress.start("preparing other ways to read a sample", len(others))
        for name, make in others:
            if deadline.left < 0 and name in _OPTIONAL:
                self.notes.append(f"{name}: left out, the time was up; --seconds gives more.")
            elif (candidate := self._try(name, make)) is not None:
                candidates.append(candidate)
            self._progress.step()
        contestants = [candidate.contestant for candidate in candidates]
        race(contestants, _RACE * self._deadline.left, self._progress, f"timing {len(candidates)} ways in turns")
        found = tuple(self._way(candidate, len(sample)) for candidate in candidates)
        packed = ways.packed
        for candidate in candidates:
            candidate.contestant.run = None
        return found, None if packed is None else (packed.seconds, packed.bytes)

    def _try(self, name: str, make: Any) -> Candidate | None:
        """Make a way and warm it up. What does not work is left out and noted: no other way depends on it."""
        try:
            candidate: Candidate | None = make()
            if candidate is not None:
                candidate.contestant.warm_up()
        except Exception as error:
            check_interrupts()
            first = (str(error).splitlines() or [type(error).__name__])[0]
            self.notes.append(f"{name}: left out: {first[:300]}")
            return None
        return candidate

    def _room(self, sample: Flow) -> bool:
        """Whether copies of the sample fit into the folder for temporary files."""
        if not self.subject.plain:
            self.notes.append(
                "Windows, crops and functions of map() are made anew each epoch, so only reading them as they are was "
                "measured."
            )
            return False
        needed = round(3 * self.subject.bytes_per_example * len(sample)) + _SPARE_BYTES
        folder = tempfile.gettempdir()
        if shutil.disk_usage(folder).free >= needed:
            return True
        self.notes.append(
            f"packed, tfrecord: left out: {folder} has no room for {human_bytes(needed)}; TMPDIR names another folder."
        )
        return False

    def _way(self, candidate: Candidate, sampled: int) -> Way:
        subject, contestant = self.subject, candidate.contestant
        median, low, high = interval(contestant.rates)
        memory = contestant.memory
        if candidate.holds:
            memory = round((memory + candidate.held_bytes) * len(subject.flow) / sampled)
        if candidate.name == "ram":
            memory = subject.total_bytes
        return Way(
            name=candidate.name,
            call=candidate.call,
            examples_per_s=median,
            low=low,
            high=high,
            mb_per_s=median * subject.bytes_per_example / 1e6,
            batches_per_s=median / min(subject.batch_size, len(subject.flow)),
            memory_bytes=memory,
            epoch_s=len(subject.flow) / median,
            today=candidate.today,
            recipe=candidate.recipe,
            note=candidate.note,
        )

    def _batch_sizes(self, sample: Flow, ways: tuple[Way, ...]) -> tuple[BatchRate, ...]:
        """The flow as it is in larger batches, in turns with that of the size asked for."""
        subject = self.subject
        sizes = [subject.batch_size * factor for factor in (1, 4, 16)]
        sizes = [
            size
            for size in sizes
            if size == subject.batch_size
            or (size <= len(sample) // 2 and size * subject.bytes_per_example <= _MOST_BATCH_BYTES)
        ]
        if len(sizes) == 1 or self._deadline.left < 1:
            return (BatchRate(batch_size=subject.batch_size, examples_per_s=ways[0].examples_per_s),)
        contestants = [Contestant(make=subject.runner(sample, size), steps=-(-len(sample) // size)) for size in sizes]
        for contestant in contestants:
            contestant.warm_up()
        left = max(0.5, self._deadline.left)
        race(contestants, left, self._progress, f"timing {len(sizes)} batch sizes in turns")
        rates = [interval(contestant.rates)[0] for contestant in contestants]
        return tuple(BatchRate(batch_size=size, examples_per_s=rate) for size, rate in zip(sizes, rates, strict=True))

    def _pack_cost(self, sample: Flow, packed: tuple[float, int] | None, ways: tuple[Way, ...]) -> PackCost | None:
        """For all of the data, from what the sample took."""
        way = next((way for way in ways if way.name == "packed"), None)
        if packed is None or way is None:
            return None
        factor = len(self.subject.flow) / len(sample)
        seconds = packed[0] * factor
        epochs = break_even(seconds, ways[0].epoch_s, way.epoch_s)
        return PackCost(seconds=seconds, bytes=round(packed[1] * factor), break_even_epochs=epochs)

    def _note_size(self, facts: Facts) -> None:
        if facts.free_memory is not None and facts.total_bytes > facts.free_memory:
            self.notes.append(
                "The data is larger than the memory that is free, so not all of it stays in the page cache: the disk "
                "decides, and it is slower than these figures. Look at the cold ones; Shuffle(block=) reads neighbours "
                "together."
            )
        if facts.today.name in ("files", "npz") and not packing_helps(self.subject.view):
            self.notes.append("packed: nothing to gain, the rows are packed already.")


def _stages(warm: dict[str, float], cold: dict[str, float]) -> tuple[Stage, ...]:
    """In order, with shares of their sum."""
    whole = sum(warm.values()) or 1.0
    return tuple(
        Stage(name=name, warm_us=warm.get(name), cold_us=cold.get(name), share=warm.get(name, 0.0) / whole)
        for name in STAGES
        if name in warm or name in cold
    )


def _machine(version: str, passes: Any) -> Machine:
    memory = 0
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Machine(
        cpus=cpus(),
        memory_bytes=memory,
        python=platform.python_version(),
        numpy=np.__version__,
        tensorflow=None if passes is None else passes.version(),
        npyflow=version,
    )


def _free_disk(path: str) -> int | None:
    """Bytes that are free where a copy would go."""
    try:
        return shutil.disk_usage(os.path.dirname(os.path.abspath(path.rstrip("/"))) or ".").free
    except OSError:
        return None
