"""How examples are cut into shards: pure arithmetic, the same wherever the work is done."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The examples of one shard.

    Parameters
    ----------
    number, of : int
        Which shard, and how many there are.
    start, stop : int
        Of the examples of the flow, half open.
    nbytes : int
        About how many bytes they take.
    """

    number: int
    of: int
    start: int
    stop: int
    nbytes: int

    @property
    def stem(self) -> str:
        """What its files are called, ``data-00003-of-00012``: as TensorFlow's tools do."""
        # As many digits in all of them: readers sort by name.
        digits = max(5, len(str(self.of)))
        return f"data-{self.number:0{digits}d}-of-{self.of:0{digits}d}"

    @property
    def examples(self) -> int:
        """How many."""
        return self.stop - self.start


def plan_parts(example_bytes: Array, shard_bytes: int) -> tuple[Part, ...]:
    """Cut into shards of about one size, none over `shard_bytes` unless a single example is.

    Parameters
    ----------
    example_bytes : int64 array (examples,)
        What each takes.
    shard_bytes : int
        The largest shard.
    """
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(example_bytes)])
    count = len(example_bytes)
    cuts = [0]
    while cuts[-1] < count:
        start = cuts[-1]
        # As few as fit, and what is left equally large: workers then end together.
        rest = int(ends[-1] - ends[start])
        goal = int(ends[start]) + math.ceil(rest / max(1, -(-rest // shard_bytes)))
        cuts.append(min(count, max(start + 1, int(np.searchsorted(ends, goal, side="right")) - 1)))
    return tuple(
        Part(number=number, of=len(cuts) - 1, start=start, stop=stop, nbytes=int(ends[stop] - ends[start]))
        for number, (start, stop) in enumerate(pairwise(cuts))
    )
