"""A SIGTERM ends what a run has started."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from extract.workers import sigterm_interrupts


def test_a_signal_is_an_interrupt_for_as_long_as_it_lasts() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), sigterm_interrupts():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


def test_another_thread_leaves_signals_alone() -> None:
    found = []

    def look() -> None:
        with sigterm_interrupts():
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [signal.getsignal(signal.SIGTERM)]
