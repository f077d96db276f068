"""A SIGTERM ends what a run has started."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from extract.workers import sigterm_interrupts
from warehouse.child_process import inherited, python_module
from warehouse.paths import Workspace


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


@pytest.mark.slow
@pytest.mark.parametrize("gap", [0.0, 0.05, 0.5])
def test_two_quick_interrupts_leave_no_traceback(
    gap: float, workspace: Workspace, tiny_problem: Callable[..., Path]
) -> None:
    command = [*python_module("tokenmart"), "extract", "--device", "cpu", "--problem"]
    child = subprocess.Popen(
        [*command, str(tiny_problem(texts=60))],
        env={**inherited(), **workspace.environment()},
        stderr=subprocess.PIPE,
        text=True,
    )
    pending = workspace.pending / "problem=tiny"
    until = time.monotonic() + 120
    while child.poll() is None and not pending.is_dir():
        assert time.monotonic() < until
        time.sleep(0.05)
    for _ in range(2):
        child.send_signal(signal.SIGINT)
        time.sleep(gap)
    _, errors = child.communicate(timeout=60)
    assert child.returncode in (130, -signal.SIGINT), errors
    assert "Traceback" not in errors
