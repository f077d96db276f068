"""Output is only text: a terminal obeys nothing that a document, a name or an error holds."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console
from sql_samples import unit

from analysis.report.shading import print_view
from analysis.report.viewer import ScoredText, Segment, View
from tokenmart import cli, main
from warehouse.errors import TokenmartError, visible
from warehouse.metrics import dbt_process
from warehouse.paths import Workspace
from warehouse.store.token_files import published_path, read_rows, write_units
from warehouse.terminal import PIPED_WIDTH, Column, print_columns, terminal_console

pytestmark = pytest.mark.hostile

# clear the screen, set the title, move up, ring, write from right to left, C1 control, go back
EVIL = "\x1b[2J\x1b]0;owned\x07\x1b[1A\u202eevil\x9b31m\rback\x08"
SHOWN = "\\x1b[2J\\x1b]0;owned\\x07\\x1b[1A\\u202eevil\\x9b31m\\rback\\x08"


def harmless(text: str) -> bool:
    return all(c.isprintable() or c in "\n\t" for c in text)


def test_controls_are_shown_and_other_text_stays() -> None:
    assert visible(EVIL) == SHOWN
    assert visible("é 漢字 👍\n\tx") == "é 漢字 👍\n\tx"
    assert visible("\ud800") == "\\ud800"


def test_cells_and_column_names_of_a_query(workspace: Workspace) -> None:
    query = f"select '{EVIL}' as \"{EVIL}\""
    shown = CliRunner().invoke(cli, ["sql", query]).stdout
    assert harmless(shown)
    assert shown.count(SHOWN) == 2


def test_a_plan_and_an_error_of_a_query(workspace: Workspace) -> None:
    plan = CliRunner().invoke(cli, ["sql", f"explain select 1 where random() = '{EVIL}'"])
    assert harmless(plan.output)
    error = CliRunner().invoke(cli, ["sql", f'select "{EVIL}"'])
    assert error.exit_code == 1
    assert harmless(error.output)
    assert "\\x1b[2J" in error.output


def test_errors_and_usage(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    TokenmartError(f"{EVIL}: no such model").show()
    for arguments in (
        [EVIL],
        ["sql", f"--{EVIL}"],
        ["metrics", "show", EVIL],
        ["sql", "--name", EVIL],
    ):
        with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit):
            patch.setattr(sys, "argv", ["tokenmart", *arguments])
            main()
    said = capsys.readouterr()
    assert harmless(said.out + said.err)
    assert "\\x1b" in said.err


def test_the_list_of_queries(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    evil = EVIL.replace("\r", "")
    (tmp_path / "cookbook").mkdir()
    (tmp_path / "cookbook" / "mine.sql").write_text(
        f"-- {evil}\n-- param x = {evil}  -- {evil}\nselect $x"
    )
    monkeypatch.setattr("warehouse.sql.queries.folders", lambda: (tmp_path,))
    shown = CliRunner().invoke(cli, ["sql", "--list"]).output
    assert harmless(shown)
    assert shown.count("\\x1b[2J") == 3


def test_reasons_in_the_ledger_and_words_of_the_command_line(
    filled: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    (filled.problems / "minilong.yml").write_text(
        "name: minilong\ntitle: t\ndocuments: {kind: folder, path: texts}\n"
        "models: [{full_id: bad, family: f, source: {kind: hub}}]\nprobes: [{kind: full}]\n"
    )
    shutil.rmtree(filled.store / "documents")  # units of any text are current
    path = published_path(filled, "minilong", "bad", "full")
    evil = {"attention": f"eager{EVIL}", "over_limit_tokens": 0, "probe_params": "{}"}
    done = unit("bad", "full", 8, **evil)
    failed = unit("bad", "full", 0, doc_id=1, status="failed", reason=EVIL, **evil)
    write_units(path, [done, failed], [read_rows(path)])
    shown = CliRunner().invoke(cli, ["status", "--problem", "minilong"])
    assert shown.exit_code == 0, shown.output
    assert harmless(shown.output)
    assert shown.output.count("\\x1b[2J") == 2
    for words in (["extract", "--model", EVIL], ["extract", "--probe", EVIL], ["status"]):
        problem = "minilong" if words[1:] else f"minilong{EVIL}"
        with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit):
            patch.setattr(sys, "argv", ["tokenmart", *words, "--problem", problem])
            main()
        told = capsys.readouterr()
        assert harmless(told.out + told.err)
        assert "\\x1b[2J" in told.err


def test_no_heading_of_a_table_is_cut() -> None:
    headings = [f"a heading {number}" for number in range(12)]
    console = Console(width=40, force_terminal=False)
    with console.capture() as capture:
        print_columns(console, [Column(heading, ["1,234,567,890"]) for heading in headings])
    first = capture.get().splitlines()[0]
    assert all(heading in first for heading in headings)
    assert capture.get().count("1,234,567,890") == 12


def test_only_names_are_folded() -> None:
    names = ["lab/a-checkpoint@step-120000", "abcdefghijklmnopqrstuvwxyz-1B"]
    benchmark = "mmlu_high_school_government_and_politics"
    columns = [
        Column("model", names, text=True),
        Column("benchmark", [benchmark, "arc"], text=True),
        Column("score", ["0.123456789"] * 2),
    ]
    console = Console(width=70, force_terminal=False)
    with console.capture() as capture:
        print_columns(console, columns)
    lines = capture.get().splitlines()
    assert max(map(len, lines)) <= 70 and capture.get().count("0.123456789") == 2
    assert lines[1].startswith(f"{names[0]} ")
    second = next(n for n, line in enumerate(lines) if line.startswith(names[1][:20]))
    start = lines[0].index("benchmark")
    folded = [line[start:].split()[0] for line in lines[1:second]]
    assert len(folded) > 1 and "".join(folded) == benchmark


def test_a_document_in_the_viewer() -> None:
    text = f"a{EVIL}[red]b[/red]:smile:"
    last = Segment(len(text) - 1, len(text), -8.0, 1.0, 1, None, 1, 0)
    scores = ScoredText(f"[link]{EVIL}", (last,), None)
    view = View("p", 0, f"[bold]{EVIL}", 0, text, (scores,))
    console = Console(width=400, force_terminal=False)
    with console.capture() as capture:
        print_view(console, view, "logprob")
    shown = capture.get()
    assert harmless(shown)
    assert f"a{SHOWN}[red]b[/red]:smile:" in shown
    assert f"[bold]{SHOWN}" in shown
    assert f"[link]{SHOWN}" in shown


@pytest.mark.skipif(dbt_process.command() is None, reason="dbt is not installed")
@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGKILL])
def test_dbt_ends_with_the_process_that_started_it(tmp_path: Path, kind: signal.Signals) -> None:
    code = (
        "import os, subprocess, sys\n"
        "from warehouse.metrics import dbt_process\n"
        # what dbt would do for an hour
        "own = dbt_process.command()\n"
        "body = own[2].split('from dbt')[0] + 'print(os.getpid(), flush=True); time.sleep(3600)'\n"
        "subprocess.run([own[0], own[1], body],"
        " env={**os.environ, 'TOKENMART_PARENT': str(os.getpid())})"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        parent.send_signal(kind)
        parent.wait(30)
        wait_for(lambda: not alive(child))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for(state: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not state():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_name_that_is_too_long_folds_before_its_condition() -> None:
    stream = io.StringIO()
    console = Console(width=24, file=stream)
    names = ["gain/long_variant@window_256", "gain/mean@window_8"]
    print_columns(console, [Column("metric", names, text=True), Column("n", ["8", "9"])])
    lines = [line.split() for line in stream.getvalue().splitlines()]
    assert lines[1:] == [["gain/long_variant", "8"], ["@window_256"], ["gain/mean@window_8", "9"]]


@pytest.mark.parametrize("columns", ["0", "1", "-5", "x", "²", "9" * 40])
def test_a_variable_that_is_no_width_is_as_none(
    columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert terminal_console().width == PIPED_WIDTH
    monkeypatch.setenv("COLUMNS", "40")
    assert terminal_console().width == 40
