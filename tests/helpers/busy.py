"""Waiting for another process to be at work, by what it has computed and not by the clock."""

from __future__ import annotations

import time

import psutil

CPU_SECONDS = 2.0
"""More than any command takes to start, on every machine that passes the tests of that."""


def wait_for_work(pid: int) -> None:
    """Return once a process has spent some processor time from now on; fail when it ends."""
    process = psutil.Process(pid)
    begun = process.cpu_times().user
    until = time.monotonic() + 240
    while process.cpu_times().user - begun < CPU_SECONDS:
        assert process.status() != psutil.STATUS_ZOMBIE, "still computing"
        assert time.monotonic() < until, "does nothing"
        time.sleep(0.02)
