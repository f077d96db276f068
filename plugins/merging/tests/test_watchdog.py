"""A SIGTERM ends what a merge has started."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil


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
