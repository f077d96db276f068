"""`tokenmart dbt`: dbt's own exit status, a named environment, and one build at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from made_up_marts import Marts

from warehouse.metrics import dbt_process
from warehouse.paths import Workspace

ROOT = Path(__file__).parents[3]
CODE = """
import sys, warehouse.metrics.dbt_process as d, tokenmart
dbt = sys.argv.pop(1)
d.command = lambda: [dbt]
sys.argv[0] = 'tokenmart'
tokenmart.main()
"""


def write_program(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def start(workspace: Workspace, dbt: Path, name: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CODE, str(dbt), "dbt", "parse", name]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def test_a_second_build_waits_for_the_first(workspace: Workspace, tmp_path: Path) -> None:
    # it continues when its standard input ends
    fake = write_program(
        tmp_path / "dbt",
        f'echo "begin $2" | tee -a {tmp_path}/log\ncat > {tmp_path}/in\n'
        f'echo "end $2" >> {tmp_path}/log',
    )
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


def test_variables_of_another_dbt_project_do_not_reach_dbt(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = write_program(tmp_path / "dbt", f"env > {tmp_path}/env\npwd >> {tmp_path}/env\nexit 7")
    monkeypatch.setattr(dbt_process, "command", lambda: [str(fake)])
    for name in ("PROJECT_DIR", "PROFILES_DIR", "PROFILE", "TARGET", "ENGINE_TARGET", "VARS"):
        monkeypatch.setenv(f"DBT_{name}", "/another")
    monkeypatch.setenv("DBT_TARGET_PATH", str(tmp_path / "target"))
    monkeypatch.setenv("TOKENMART_MEMORY", "2GiB")
    assert dbt_process.run_dbt(("build",), workspace) == 7
    *lines, folder = (tmp_path / "env").read_text().splitlines()
    found = dict(line.partition("=")[::2] for line in lines)
    assert folder == str(workspace.dbt_project)
    assert {name for name in found if name.startswith("DBT_")} == {"DBT_TARGET_PATH"}
    assert found["TOKENMART_DATABASE"] == str(workspace.database)
    assert found["TOKENMART_MEMORY"] == "2GiB"


def test_the_problem_that_changed_last_is_named_first(workspace: Workspace) -> None:
    """Of a shipped problem the name leads on; of another, the folder of its file isn't known."""
    marts = Marts(workspace)
    problems = ("no4k", "minilong", "mine")
    for seconds, problem in enumerate(problems, start=1):
        with marts.write() as connection:
            connection.execute(
                "insert into metric_values values (?, 'm', 'a', 'b', 0.5, 1, 1, null)", [problem]
            )
        folder = workspace.tokens / f"problem={problem}"
        folder.mkdir(parents=True)
        os.utime(folder, (seconds, seconds))
    named = [line.split()[-1] for line in dbt_process.next_steps(workspace) if "report" in line]
    assert named == ["FOLDER/mine.yml", "minilong", "no4k"]


@pytest.mark.parametrize("where", ["--target-path X", "--target-path=X", "DBT_TARGET_PATH", ""])
def test_after_a_selection_without_models_nothing_comes_next(
    workspace: Workspace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    where: str,
) -> None:
    target = workspace.dbt_project / "target" if not where else tmp_path / "target"
    monkeypatch.delenv("DBT_TARGET_PATH", raising=False)
    if where.startswith("DBT"):
        monkeypatch.setenv(where, str(target))
    options = where.replace("X", str(target)).split() if where.startswith("--") else []
    monkeypatch.setattr(dbt_process, "next_steps", lambda workspace: ["next:"])
    for results, line in (
        ("[]", "nothing was computed: the selection matches no model; correct --select"),
        ('[{"status": "success"}]', "next:"),
    ):
        fake = write_program(
            tmp_path / "dbt",
            f"""mkdir -p {target}\necho '{{"results": {results}}}' > {target}/run_results.json""",
        )
        monkeypatch.setattr(dbt_process, "command", lambda fake=fake: [str(fake)])
        assert dbt_process.run_dbt(("run", "--select", "+bad_gain+", *options), workspace) == 0
        assert capsys.readouterr().out.splitlines() == [line]
