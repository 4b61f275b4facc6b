"""Ctrl-C that is not lost.

Python raises it wherever the main thread is. Where that is a finalizer, or a function that TensorFlow is tracing, it is
swallowed or turned into another error, and the measurement would go on.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_pressed = threading.Event()


@contextmanager
def kept_interrupts() -> Iterator[None]:
    """Note Ctrl-C while the block runs, for `check_interrupts`, beside raising it."""
    is_ours = threading.current_thread() is threading.main_thread()
    if not is_ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        # In a thread, or where a program has its own way with it.
        yield
        return

    def note(*_: Any) -> None:
        _pressed.set()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _pressed.clear()


def check_interrupts() -> None:
    """Raise an interrupt that was swallowed.

    Raises
    ------
    KeyboardInterrupt
    """
    if _pressed.is_set():
        raise KeyboardInterrupt
