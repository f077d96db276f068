"""The job file of the guide: two jobs of its array share the work of one run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from published_tables import assert_same, published
from tiny_runs import ok, run

from warehouse.store.ledger import read_units

ROOT = Path(__file__).parents[2]


def job_file() -> str:
    page = (ROOT / "docs" / "how_to" / "several_machines.md").read_text("utf-8")
    (found,) = re.findall(r"```bash\n(#!/bin/bash\n#SBATCH.*?)```", page, re.DOTALL)
    return str(found)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_jobs_write_the_rows_of_one_process(workspace, tiny_problem, tmp_path):
    path = tiny_problem(texts=6)
    ok(run(path))
    expected = published(workspace)
    shutil.rmtree(workspace.tokens)
    program = tmp_path / "checkout" / ".venv" / "bin" / "tokenmart"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/bash\nexec {sys.executable} -m tokenmart "$@"\n')
    program.chmod(0o755)
    script = tmp_path / "extract.sbatch"
    script.write_text(job_file().replace("--problem no4k", f"--problem {path} --device cpu"))
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TOKENMART_HOME": str(workspace.root),
        "SLURM_SUBMIT_DIR": str(tmp_path / "checkout"),
    }
    jobs = [
        subprocess.Popen(
            ["bash", str(script)],
            env={**environment, "SLURM_ARRAY_TASK_ID": str(number)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number in (1, 2)
    ]
    outputs = [job.communicate()[0] for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0], outputs
    found = published(workspace)
    assert found.keys() == expected.keys()
    for name, table in found.items():
        assert_same(table, expected[name])
    units = [u for f in workspace.tokens.glob("**/*.parquet") for u in read_units(f)]
    assert len(units) == len({(u.model_id, u.condition, u.doc_id) for u in units}) == 48
