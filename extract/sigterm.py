"""What a scheduler's SIGTERM does to a run that has child processes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """SIGTERM interrupts as Ctrl-C does while this lasts, so that children are ended with us."""
    if threading.current_thread() is not threading.main_thread():  # only it may set handlers
        yield
        return

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
