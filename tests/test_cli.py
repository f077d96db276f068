"""The console command: quick help, lazy rooms, one-line failures and their exit codes."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import duckdb
import pytest
from click.testing import CliRunner

import tokenmart
from tokenmart import COMMANDS, cli
from warehouse.errors import TokenmartError
from warehouse.metrics import manifest

ROOT = Path(__file__).parents[1]
PROGRAM = f"{sys.executable} {ROOT / 'tokenmart.py'}"
Failing = Callable[[BaseException], tuple[int, str]]


def shell(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, shell=True, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_exists_and_explains_itself(name):
    command = cli.get_command(click.Context(cli), name)
    assert command is not None and command.name == name and command.help
    below = command.commands.values() if isinstance(command, click.Group) else [command]
    for option in (option for each in below for option in each.params):
        assert not isinstance(option, click.Option) or option.hidden or option.help


def test_an_unknown_command_is_a_usage_error():
    for word in ("extact", "xyz", "--nonsense"):
        assert CliRunner().invoke(cli, [word]).exit_code == 2


@pytest.mark.parametrize("command", ["extract", "recall", "status", "correlate", "submit"])
def test_without_a_problem_those_that_are_here_are_listed(workspace, command):
    (workspace.problems / "mine.yml").touch()
    given = ["--metric", "perplexity/all"] if command == "submit" else []
    result = CliRunner().invoke(cli, [command, *given])
    assert result.exit_code in (1, 2) and "mine" in result.output


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Failing:
    """Run `tokenmart boom`, a command that raises what it is given; returns code and stderr."""

    def run_failing(error: BaseException) -> tuple[int, str]:
        @click.command()
        def boom() -> None:
            raise error

        monkeypatch.setattr(tokenmart.LazyGroup, "get_command", lambda *_: boom)
        monkeypatch.setitem(COMMANDS, "boom", ("", ""))
        monkeypatch.setattr(sys, "argv", ["tokenmart", "boom"])
        with pytest.raises(SystemExit) as caught:
            tokenmart.main()
        return int(caught.value.code or 0), capsys.readouterr().err

    return run_failing


@pytest.mark.parametrize(
    ("error", "code", "lines"),
    [
        *((OSError(n, os.strerror(n), "/data/tokens"), 4, 1) for n in (errno.ENOSPC, errno.EACCES)),
        (OSError(errno.EROFS, "Read-only file system", "/data/tokens"), 4, 1),
        (FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)), 1, 1),  # of os.getcwd
        (KeyboardInterrupt(), 130, 2),
        (RuntimeError("Query interrupted"), 130, 1),  # of DuckDB after Ctrl-C
        (TokenmartError("x: wrong"), 1, 1),
        (click.UsageError("bad"), 2, 4),
        (click.exceptions.Exit(7), 7, 0),
        (MemoryError(), 1, 1),
        (duckdb.OutOfMemoryException("Out of Memory Error: could not allocate block"), 1, 1),
    ],
    ids=str,
)
def test_exit_codes(failing, error, code, lines):
    found, stderr = failing(error)
    assert (found, stderr.count("\n")) == (code, lines), stderr
    assert not isinstance(error, OSError) or (error.filename or "") in stderr


def test_a_bug_is_not_hidden(failing):
    for bug in (ZeroDivisionError(), FileNotFoundError(errno.ENOENT, "x", "y")):
        with pytest.raises(type(bug)):
            failing(bug)


def test_a_database_whose_build_stopped_early_is_one_line(workspace, monkeypatch, capsys):
    shutil.copy(ROOT / "data" / "problems" / "minilong.yml", workspace.problems)
    workspace.database.parent.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(str(workspace.database)) as connection:
        connection.execute("create table words (word varchar)")
    for command in (["correlate"], ["select"], ["compare", "org/a", "org/b"]):
        monkeypatch.setattr(sys, "argv", ["tokenmart", *command, "--problem", "minilong"])
        with pytest.raises(SystemExit) as caught:
            tokenmart.main()
        said = capsys.readouterr().err
        assert (caught.value.code, said.count("\n")) == (1, 1) and "metric_" in said, said


def test_a_closed_pipe_is_quiet(workspace):
    query = "select range(100) as r from range(200000)"
    done = shell(f"{PROGRAM} sql '{query}' --format csv | head -n 1")
    assert (done.stdout, done.stderr) == ("r\n", "")


def test_dbt_is_this_environments(workspace):
    command = manifest.command()
    assert command[0] == sys.executable
    (workspace.root / "agate.py").write_text("raise ImportError('not the library')")
    done = subprocess.run([*command, "rum"], capture_output=True, text=True, cwd=workspace.root)
    assert done.returncode == 2 and done.stderr.startswith("Usage: dbt ")
