"""Two builds at once: the second waits for the first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from warehouse.paths import Workspace

ROOT = Path(__file__).parents[3]
CODE = """
import sys, warehouse.metrics.dbt_process as d, tokenmart
dbt = sys.argv.pop(1)
d.command = lambda: [dbt]
sys.argv[0] = 'tokenmart'
tokenmart.main()
"""


def start(workspace: Workspace, dbt: Path, name: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CODE, str(dbt), "dbt", "parse", name]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def test_a_second_build_waits_for_the_first(workspace: Workspace, tmp_path: Path) -> None:
    fake = tmp_path / "dbt"
    # it goes on when its standard input ends
    fake.write_text(f'#!/bin/sh\necho "begin $2" | tee -a {tmp_path}/log\ncat > {tmp_path}/in\n'
                    f'echo "end $2" >> {tmp_path}/log\n')  # fmt: skip
    fake.chmod(0o755)
    with start(workspace, fake, "first") as first:
        assert first.stdout and first.stdin
        said = first.stdout.readline()
        assert said == "begin first\n", first.stderr.read() if first.stderr else ""
        with start(workspace, fake, "second") as second:
            assert second.stderr and second.stdin
            assert "another `tokenmart dbt` is running" in second.stderr.readline()
            first.stdin.close()
            assert first.wait(60) == 0
            second.stdin.close()
            assert second.wait(60) == 0
    told = (tmp_path / "log").read_text().split("\n")
    assert told == ["begin first", "end first", "begin second", "end second", ""]
