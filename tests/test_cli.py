"""The console command: quick help, lazy rooms, one-line failures and their exit codes."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import duckdb
import pytest
from click.testing import CliRunner
from documented import commands

import tokenmart
from tokenmart import COMMANDS, cli
from warehouse.console import run as run_console
from warehouse.errors import TokenmartError
from warehouse.metrics import dbt_process
from warehouse.paths import Workspace

ROOT = Path(__file__).parents[1]


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, list(arguments))
    return result.exit_code, result.output


def program(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run the real program in its own process."""
    command = [sys.executable, str(ROOT / "tokenmart.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, **options)


def test_help_lists_every_command() -> None:
    code, output = run("--help")
    assert code == 0
    for name, (_, short) in COMMANDS.items():
        assert name in output
        assert short.split(":")[0][:20] in output


def test_help_loads_no_package_but_click() -> None:
    """A time would depend on the machine; what is loaded doesn't."""
    code = (
        "import sys; from tokenmart import cli; cli(['--help'], standalone_mode=False)\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "click" in loaded
    assert not {"duckdb", "pyarrow", "numpy", "yaml", "jinja2", "torch", "extract"} & loaded


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_exists_and_explains_itself(name: str) -> None:
    code, output = run(name, "--help")
    assert code == 0, output
    assert output.startswith("Usage:")


@pytest.mark.parametrize("name", COMMANDS)
def test_short_help_is_the_commands_own(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.name == name
    assert len(COMMANDS[name][1]) <= 72


@pytest.mark.parametrize("name", COMMANDS)
def test_a_groups_page_has_whole_sentences(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    if isinstance(command, click.Group):
        output = CliRunner().invoke(cli, [name, "--help"], terminal_width=80).output
        lines = output.split("Commands:\n")[1].splitlines()
        assert len(lines) == len(command.commands)
        assert [line for line in lines if not line.endswith(".") or line.endswith("...")] == []


def test_an_unknown_command_names_the_closest() -> None:
    code, said = run("extact")
    assert code == 2 and "'extract'" in said
    assert "see tokenmart --help" in run("xyz")[1]
    assert run("--nonsense")[0] == 2


@pytest.mark.parametrize("command", ["extract", "recall", "status", "correlate", "submit"])
def test_without_a_problem_those_that_are_here_are_listed(
    workspace: Workspace, command: str
) -> None:
    given = ["--metric", "perplexity/all"] if command == "submit" else []
    remedy = "--problem is missing; problems here: {} (or give the path of your own .yml)"
    code, said = run(command, *given)
    assert code == 2 and remedy.format("none") in said
    workspace.problems.mkdir(parents=True, exist_ok=True)
    (workspace.problems / "mine.yml").touch()
    assert remedy.format("mine") in run(command, *given)[1]


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("warehouse.nothing:x", r"no module warehouse\.nothing"),
        ("warehouse.sql.cli:nothing", "has no attribute 'nothing'"),
        ("no_such_package:x", "package 'no_such_package' is not installed; run `make setup`"),
    ],
)
def test_a_room_that_is_missing(monkeypatch: pytest.MonkeyPatch, place: str, message: str) -> None:
    monkeypatch.setitem(COMMANDS, "sql", (place, "x"))
    with pytest.raises(TokenmartError, match=message):
        cli.get_command(click.Context(cli), "sql")


def test_outside_a_checkout(tmp_path: Path) -> None:
    done = program("sql", "select 1", env={**os.environ, "TOKENMART_HOME": str(tmp_path)})
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {tmp_path}: ")
    assert done.stderr.count("\n") == 1


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
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
    ("number", "remedy"),
    [
        (errno.ENOSPC, "No space left on device"),
        (errno.EACCES, "Permission denied"),
        (errno.EROFS, "Read-only file system"),
    ],
)
def test_disk_trouble_is_one_line(failing, number: int, remedy: str) -> None:
    code, stderr = failing(OSError(number, os.strerror(number), "/data/tokens"))
    assert (code, stderr.count("\n")) == (4, 1)
    assert stderr.startswith(f"error: /data/tokens: {remedy}")


def test_exit_codes(failing) -> None:
    assert failing(KeyboardInterrupt()) == (130, "\ninterrupted\n")
    assert failing(TokenmartError("x: wrong")) == (1, "error: x: wrong\n")
    assert failing(click.UsageError("bad"))[0] == 2
    assert failing(click.exceptions.Exit(7))[0] == 7


def test_a_database_whose_build_stopped_early_is_one_line(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(ROOT / "data" / "problems" / "minilong.yml", workspace.problems)
    workspace.database.parent.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(str(workspace.database)) as connection:
        connection.execute("create table words (word varchar)")
    for command in ("correlate", "select"):
        monkeypatch.setattr(sys, "argv", ["tokenmart", command, "--problem", "minilong"])
        with pytest.raises(SystemExit) as caught:
            tokenmart.main()
        said = capsys.readouterr().err
        assert (caught.value.code, said.count("\n")) == (1, 1), said
        assert said.startswith("error: ") and "metric_values" in said and "dbt build" in said


def test_a_bug_is_not_hidden(monkeypatch: pytest.MonkeyPatch, failing) -> None:
    with pytest.raises(ZeroDivisionError):
        failing(ZeroDivisionError())
    with pytest.raises(FileNotFoundError):
        failing(FileNotFoundError(errno.ENOENT, "x", "y"))


def test_a_closed_pipe_is_quiet(workspace: Workspace) -> None:
    query = "select range(100) as r from range(200000)"
    command = f"{sys.executable} {ROOT / 'tokenmart.py'} sql '{query}' --format csv | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
    assert done.stdout == "r\n"
    assert done.stderr == ""


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", ">&- 2>&-"])
def test_a_closed_stream_is_quiet(workspace: Workspace, closed: str) -> None:
    command = f"{sys.executable} {ROOT / 'tokenmart.py'} sql 'select 1 as one' {closed}"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("can't start new thread"),
        ImportError("x.so: failed to map segment from shared object"),
        duckdb.OutOfMemoryException("Out of Memory Error: could not allocate block of size 1 MiB"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
    ],
)
def test_no_memory_is_one_line(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    @click.command()
    def hungry() -> None:
        raise error

    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr(sys, "argv", ["hungry"])
        run_console(hungry, "hungry")
    said = capsys.readouterr().err
    assert ended.value.code == 1
    assert said.startswith("error: ") and "out of memory" in said and said.count("\n") == 1


def test_dbt_runs_in_its_project_with_this_workspace(workspace: Workspace, tmp_path: Path) -> None:
    fake = tmp_path / "dbt"
    fake.write_text('#!/bin/sh\necho "$PWD|$TOKENMART_DATABASE|$@"\nexit 3\n')
    fake.chmod(0o755)
    done = program_in(workspace, fake, "build", "--select", "perplexity", "--help")
    assert done.returncode == 3
    assert done.stdout == (
        f"{workspace.dbt_project}|{workspace.database}|build --select perplexity --help\n"
    )


def test_dbt_is_this_environments(workspace: Workspace) -> None:
    command = dbt_process.command()
    assert command is not None
    assert command[0] == sys.executable
    (workspace.root / "agate.py").write_text("raise ImportError('not the library')")
    done = subprocess.run([*command, "rum"], capture_output=True, text=True, cwd=workspace.root)
    assert done.returncode == 2
    assert done.stderr.startswith("Usage: dbt ")
    assert "'run'" in done.stderr


def test_without_a_dbt_of_its_own_the_one_on_the_path_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warehouse.metrics.dbt_process.find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert dbt_process.command() is None
    other = tmp_path / "dbt"
    other.touch(mode=0o755)
    assert dbt_process.command() == [str(other)]


def program_in(
    workspace: Workspace, dbt: Path, *arguments: str
) -> subprocess.CompletedProcess[str]:
    code = (
        "import sys, warehouse.metrics.dbt_process as d, tokenmart\n"
        f"d.command = lambda: [{str(dbt)!r}]\n"
        "sys.argv = ['tokenmart', 'dbt', *sys.argv[1:]]\ntokenmart.main()"
    )
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, cwd=ROOT
    )


OF_EACH_COMMAND = {
    "--base", "--condition", "--count", "--device", "--direction", "--dry-run", "--explain",
    "--force", "--format",
    "--include-path", "--kit", "--limit", "--max-tokens", "--merge", "--metric", "--model",
    "--name", "--num-fewshot", "--on", "--out", "--problem", "--round", "--scores", "--seed",
    "--subject", "--tasks", "--texts", "--unofficial", "--values", "--wide", "--yes",
}  # fmt: skip
"""Options whose meaning depends on the command: each help text names it."""


def test_an_option_has_the_same_help_in_all_commands() -> None:
    helps: dict[str, set[str]] = {}
    for _, command in commands():
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                helps.setdefault(option.opts[-1], set()).add(str(option.help))
    different = {name for name, texts in helps.items() if len(texts) > 1}
    assert different - OF_EACH_COMMAND == set()


@pytest.mark.parametrize("value", ["nan", "inf"])
@pytest.mark.parametrize(
    "words",
    [
        ("sql", "select 1", "--timeout"),
        ("preregister", "--problem", "x", "--level"),
        ("merge", "reproduce", "x", "--tolerance"),
        ("merge", "eval", "--problem", "x", "--weight"),
    ],
)
def test_a_number_is_finite(words: tuple[str, ...], value: str) -> None:
    done = CliRunner().invoke(cli, [*words, value])
    assert done.exit_code == 2
    assert f"'{words[-1]}': {value} " in done.output
