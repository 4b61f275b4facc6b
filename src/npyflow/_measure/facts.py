"""What a verdict is made of: plain numbers, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass, field

from npyflow._measure.result import BatchRate, Bottleneck, PackCost, Way

# A smaller gain never justifies a change: another run may show the opposite.
GAIN = 1.15
# A larger batch changes the training, so it must bring more.
BATCH_GAIN = 1.25
# Below that, no training waits for a batch, whatever its size.
SHORT_MS = 1.0
# Packing that pays back later than after so many epochs is not worth it.
MOST_EPOCHS = 100
# Of the memory that is free, data in RAM may take so much.
RAM_SHARE = 0.5
# Input and model are even where they differ by less.
EVEN = 0.10

# From least to most effort for the user: what comes first is preferred where it is as fast. Other ways than these
# are how the data is read today.
EFFORT = ("mmap", "read", "packed", "ram", "tfrecord")


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What was measured, for the rules.

    Parameters
    ----------
    path : str
    opened : str
        The call that opens it.
    examples, batch_size, total_bytes : int
    ways : tuple of Way
        One of them is today's.
    batch_sizes : tuple of BatchRate
    pack : PackCost or None
    step_ms : float or None
    free_memory, free_disk : int or None
        None where the system does not say.
    traits : tuple of str
        What about the files makes them slow to read, in sentences.
    options : tuple of str
        Of the command line, that say how to open `path`; None where it was a flow in a program.
    """

    path: str
    opened: str
    examples: int
    batch_size: int
    total_bytes: int
    ways: tuple[Way, ...]
    batch_sizes: tuple[BatchRate, ...] = ()
    pack: PackCost | None = None
    step_ms: float | None = None
    free_memory: int | None = None
    free_disk: int | None = None
    traits: tuple[str, ...] = field(default=())
    options: tuple[str, ...] | None = None

    @property
    def today(self) -> Way:
        """How the data is read today."""
        return next(way for way in self.ways if way.today)

    @property
    def input_ms(self) -> float:
        """Milliseconds that a batch takes today."""
        return 1000 * self.batch_size / self.today.examples_per_s

    def way(self, name: str) -> Way | None:
        """The way of that name, if it was measured."""
        return next((way for way in self.ways if way.name == name), None)

    @property
    def refused(self) -> dict[str, str]:
        """Ways that were measured and cannot be recommended, and why."""
        found = {}
        for way in self.ways:
            why = self._why_not(way)
            if why and not way.today and not way.recipe:
                found[way.name] = why
        return found

    @property
    def choice(self) -> Way:
        """Today's; or of those that are clearly faster, and nearly as fast as the fastest, the one of least effort."""
        refused, today = self.refused, self.today
        possible = [way for way in self.ways if way.name in EFFORT and not way.today and way.name not in refused]
        better = [way for way in possible if clearly_faster(way, today)]
        if not better:
            return today
        # By the medians alone: something is to be changed anyway, and they are the best guess of what is fastest.
        fastest = max(way.examples_per_s for way in better)
        good = [way for way in better if GAIN * way.examples_per_s > fastest]
        return min(good, key=lambda way: EFFORT.index(way.name))

    @property
    def larger_batch(self) -> BatchRate | None:
        """The smallest batch size that comes near the best, if that is much faster than today's."""
        now = next((one for one in self.batch_sizes if one.batch_size == self.batch_size), None)
        larger = [one for one in self.batch_sizes if one.batch_size > self.batch_size]
        if now is None or not larger or 1000 * self.batch_size / now.examples_per_s < self._short_ms:
            return None
        best = max(one.examples_per_s for one in larger)
        if best < BATCH_GAIN * now.examples_per_s:
            return None
        return next(one for one in larger if one.examples_per_s >= best / GAIN)

    @property
    def bottleneck(self) -> Bottleneck | None:
        """Who waits for whom, if the step of the model is known."""
        if self.step_ms is None:
            return None
        input_ms, step_ms = self.input_ms, self.step_ms
        if input_ms > (1 + EVEN) * step_ms:
            who = "input"
            text = (
                f"The input is the bottleneck: a batch takes {input_ms:.3g} ms to read and the step {step_ms:.3g} ms, "
                f"so the model waits {1 - step_ms / input_ms:.0%} of the time."
            )
        elif input_ms < (1 - EVEN) * step_ms:
            who = "model"
            text = (
                f"The model is the bottleneck: a batch takes {input_ms:.3g} ms to read while the step takes "
                f"{step_ms:.3g} ms; reading ahead hides the input, which is busy {input_ms / step_ms:.0%} of the time."
            )
        else:
            who = "even"
            text = (
                f"Input and model are even: a batch takes {input_ms:.3g} ms to read, the step {step_ms:.3g} ms; "
                f"either can hold up the other."
            )
        return Bottleneck(who=who, input_ms=input_ms, step_ms=step_ms, text=text)

    @property
    def _short_ms(self) -> float:
        return SHORT_MS if self.step_ms is None else min(SHORT_MS, self.step_ms)

    def _why_not(self, way: Way) -> str:
        if way.name == "ram" and self.free_memory is not None and self.total_bytes > RAM_SHARE * self.free_memory:
            return "the data would fill more than half of the memory that is free"
        copies = way.name in ("packed", "tfrecord")
        if copies and self.free_disk is not None and self.total_bytes > self.free_disk:
            return "the disk has no room for a second copy"
        if way.name == "packed" and self.pack is not None:
            epochs = self.pack.break_even_epochs
            if epochs is None or epochs > MOST_EPOCHS:
                return "packing would not pay back" + ("" if epochs is None else f" before {epochs:,.0f} epochs")
        return ""


def clearly_faster(one: Way, other: Way) -> bool:
    """Say whether `one` is faster than `other` by more than noise, and by enough to matter."""
    enough = one.examples_per_s >= GAIN * other.examples_per_s
    return enough and one.low > other.examples_per_s and one.examples_per_s > other.high


def break_even(seconds: float, epoch_s: float, packed_epoch_s: float) -> float | None:
    """After how many epochs packing is paid back; None if it never is."""
    saved = epoch_s - packed_epoch_s
    return seconds / saved if saved > 0 else None


def packed_path(path: str) -> str:
    """Where the verdict proposes to pack to."""
    return _stem(path) + "-packed"


def tfrecord_path(path: str) -> str:
    """Where the verdict proposes to convert to."""
    return _stem(path) + "-tfrecord"


def _stem(path: str) -> str:
    return (path.rstrip("/") or "data").removesuffix(".npy").removesuffix(".npz").removesuffix(".json")
