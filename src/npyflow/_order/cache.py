"""What was made a moment ago, kept for the next call."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable


class Cache:
    """The values that were used last.

    Two threads may make the same one at the same time. That costs less than waiting: what is made while a lock is held
    may set off a garbage collection, which may wait for a reader, which would wait for the lock.

    Parameters
    ----------
    kept : int
        How many.
    """

    def __init__(self, kept: int = 12) -> None:
        self._most = kept
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = threading.RLock()

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return the value of `key`, which ``make()`` makes if it is not kept."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        value = make()
        with self._lock:
            self._kept[key] = value
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return value
