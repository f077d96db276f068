"""A SIGTERM ends what a run has started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from extract.stopping import sigterm_interrupts


def test_a_terminated_run_ends_the_process_that_it_watches(tmp_path: Path) -> None:
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from plugins.merging.watchdog import run_within\n"
        "from plugins.merging.problem import Limits\n"
        "child = 'import os, time; print(os.getpid(), flush=True); time.sleep(3600)'\n"
        "def tick(seconds):\n"
        "    print((Path(sys.argv[1]) / 'log.txt').read_text(), flush=True)\n"
        "run_within([sys.executable, '-c', child], Path(sys.argv[1]), Limits(), 'it',"
        " dict(os.environ), tick)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout and run.stderr
        child = psutil.Process(int(next(line for line in run.stdout if line.strip())))
        run.send_signal(signal.SIGTERM)
        run.stdout.read()
        assert "KeyboardInterrupt" in run.stderr.read()
    assert not child.is_running()


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
