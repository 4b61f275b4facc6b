"""What a measurement found, as plain frozen data, and the JSON that is made of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

FORMAT, VERSION = "npyflow measurement", 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where it was measured; versions are None where a package is not installed."""

    cpus: int
    memory_bytes: int
    python: str
    numpy: str
    tensorflow: str | None
    npyflow: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """What there is on disk.

    Parameters
    ----------
    files : int
        Distinct files.
    edges, counts : tuple of int
        A histogram of their sizes in bytes: ``counts[i]`` files of ``edges[i] <= size < edges[i + 1]``.
    shapes, dtypes, classes : tuple of (str, int)
        How many arrays there are of each, and examples of each class; the most frequent first.
    components : tuple of dict
        ``name``, ``dtype`` and ``shape`` of each array of an example, as text.
    """

    files: int
    edges: tuple[int, ...]
    counts: tuple[int, ...]
    shapes: tuple[tuple[str, int], ...]
    dtypes: tuple[tuple[str, int], ...]
    classes: tuple[tuple[str, int], ...]
    components: tuple[dict[str, str], ...]

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "files": self.files,
            "file_bytes": {"edges": list(self.edges), "counts": list(self.counts)},
            "shapes": [list(pair) for pair in self.shapes],
            "dtypes": [list(pair) for pair in self.dtypes],
            "classes": [list(pair) for pair in self.classes],
            "components": [dict(one) for one in self.components],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One part of the way of an example: microseconds an example, and its share of the whole when warm."""

    name: str
    warm_us: float | None
    cold_us: float | None
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to read the data, measured.

    Parameters
    ----------
    name : str
        ``"files"``, ``"npz"``, ``"mmap"``, ``"read"``, ``"ram"``, ``"packed"``, ``"tfrecord"`` or ``"recipe"``.
    call : str
        What the user writes.
    examples_per_s, low, high : float
        The median of the passes, and the interval in which it lies with 95 % confidence.
    mb_per_s, batches_per_s, epoch_s : float
        The same in other words; for all of the data.
    memory_bytes : int
        Beside what was there, for all of the data.
    today : bool
        The flow as it is.
    recipe : bool
        What people copy, for comparison.
    note : str
    """

    name: str
    call: str
    examples_per_s: float
    low: float
    high: float
    mb_per_s: float
    batches_per_s: float
    memory_bytes: int
    epoch_s: float
    today: bool = False
    recipe: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRate:
    """How fast the flow as it is delivers batches of another size."""

    batch_size: int
    examples_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PackCost:
    """What packing costs, reckoned from a sample packed by one process; it pays back after so many epochs."""

    seconds: float
    bytes: int
    break_even_epochs: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bottleneck:
    """Who waits for whom: ``"input"``, ``"model"`` or ``"even"``; milliseconds a batch."""

    who: str
    input_ms: float
    step_ms: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What to do.

    Parameters
    ----------
    rule : str
        The rule of the table in ``docs/choosing.md`` that applies.
    best : str
        The way that it recommends.
    headline : str
    reasons, commands : tuple of str
        Why, with numbers; and what to type.
    """

    rule: str
    best: str
    headline: str
    reasons: tuple[str, ...]
    commands: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What `npyflow.measure` found; ``str()`` of it is what the command prints.

    Parameters
    ----------
    path : str
        What was measured.
    examples, batch_size : int
    bytes_per_example : float
        As delivered; the mean where they differ.
    total_bytes : int
    machine, census, stages, ways, batch_sizes, pack, bottleneck, verdict
        See there.
    cold : str
        Why there are no figures for a cold page cache; empty if there are.
    step_ms : float or None
        What the user says the model takes for a batch.
    seconds : float
        How long it took.
    notes : tuple of str
        What was left out, and why.
    text : str
        All of it in words.
    """

    path: str
    examples: int
    bytes_per_example: float
    total_bytes: int
    batch_size: int
    machine: Machine
    census: Census
    stages: tuple[Stage, ...]
    ways: tuple[Way, ...]
    verdict: Verdict
    batch_sizes: tuple[BatchRate, ...] = ()
    pack: PackCost | None = None
    bottleneck: Bottleneck | None = None
    step_ms: float | None = None
    cold: str = ""
    seconds: float = 0.0
    notes: tuple[str, ...] = field(default=())
    text: str = field(default="", repr=False)

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it; ``format`` and ``version`` say what it is."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "path": self.path,
            "examples": self.examples,
            "bytes_per_example": self.bytes_per_example,
            "total_bytes": self.total_bytes,
            "batch_size": self.batch_size,
            "machine": asdict(self.machine),
            "census": self.census.as_dict(),
            "stages": [asdict(stage) for stage in self.stages],
            "cold": self.cold,
            "ways": [asdict(way) for way in self.ways],
            "batch_sizes": [asdict(rate) for rate in self.batch_sizes],
            "pack": None if self.pack is None else asdict(self.pack),
            "step_ms": self.step_ms,
            "bottleneck": None if self.bottleneck is None else asdict(self.bottleneck),
            "verdict": {
                **asdict(self.verdict),
                "reasons": list(self.verdict.reasons),
                "commands": list(self.verdict.commands),
            },
            "seconds": self.seconds,
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        return self.text
