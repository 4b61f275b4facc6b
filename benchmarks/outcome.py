"""What a workload found, as plain data that goes to JSON."""

from __future__ import annotations

from dataclasses import dataclass, field

from benchmarks.data import Data
from benchmarks.measure import Timing, median


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a workload is run."""

    data: Data
    passes: int
    quick: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """How many times as fast npyflow is, an example. `at_least` is the target, None where there is none."""

    against: str
    ours: str
    by_median: float
    by_best: float
    at_least: float | None

    @property
    def reached(self) -> bool | None:
        return None if self.at_least is None else self.by_median >= self.at_least


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A figure that stands for itself. `under` is the target, None where there is none."""

    what: str
    value: float
    unit: str
    under: float | None = None

    @property
    def reached(self) -> bool | None:
        return None if self.under is None else self.value < self.under


@dataclass(kw_only=True)
class Outcome:
    """Timings, ratios, values and notes of one workload. `example_bytes` is 0 where bytes mean nothing."""

    title: str
    example_bytes: int = 0
    timings: list[Timing] = field(default_factory=list)
    ratios: list[Ratio] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add_timings(self, timings: list[Timing], targets: dict[str, float]) -> None:
        """Add timings, the first of which is npyflow's, and its ratio to each of the others."""
        self.timings += timings
        self.ratios += [ratio(timings[0], other, targets.get(other.name)) for other in timings[1:]]


def ratio(ours: Timing, theirs: Timing, at_least: float | None) -> Ratio:
    """Compare by the time of an example, since a slow peer may be timed on fewer."""
    scale = ours.examples / theirs.examples
    return Ratio(
        against=theirs.name,
        ours=ours.name,
        by_median=median(theirs.passes) / median(ours.passes) * scale,
        by_best=min(theirs.passes) / min(ours.passes) * scale,
        at_least=at_least,
    )
