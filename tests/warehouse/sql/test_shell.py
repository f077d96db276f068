"""The SQL shell, driven through a pseudo-terminal and through standard input."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from busy import wait_for_work
from click.testing import CliRunner
from sql_samples import build_mart

from tokenmart import cli
from warehouse.paths import Workspace
from warehouse.sql.connection import connect_read_only, holder, no_locks
from warehouse.sql.shell import is_complete

TOKENMART = [sys.executable, "-c", "from tokenmart import main; main()"]


def typed(*lines: str) -> tuple[str, str]:
    """What `tokenmart sql` answers to these lines: standard output and error."""
    result = CliRunner().invoke(cli, ["sql"], input="\n".join(lines))
    assert result.exit_code == 0, result.output
    return result.stdout, result.stderr


# Standard input


def test_statements_end_with_a_semicolon_and_span_lines(filled: Workspace) -> None:
    out, err = typed(
        "select model_id,",
        "  ppl(logprob)::decimal(9, 3) as ppl  -- a comment; not the end",
        "from tokens where condition = 'full'",
        "group by all order by all;",
        "select ';' as a; select 2 as b;",
        "select 3 as c",
    )
    assert err == ""
    assert out.split() == (
        "model_id ppl ──────── ───── bad 7.389 good 1.733 a ─ ; b ─ 2 c ─ 3".split()  # noqa: SIM905
    )


def test_a_mistake_is_one_line_and_the_shell_continues(filled: Workspace) -> None:
    out, err = typed("selct 1;", "select logprb from tokens;", ".bogus", ".tables no", "select 7;")
    assert [line.split(":")[0] for line in err.splitlines()] == ["error"] * 4
    assert 'Candidate bindings: "logprob"' in err
    assert ".bogus: no such command; see .help" in err
    assert ".tables no: no such table" in err
    assert out.split()[-1] == "7"


def test_commands(filled: Workspace, tmp_path: Path) -> None:
    build_mart(filled)
    out, err = typed(
        ".help",
        ".tables",
        ".tables metric_values",
        ".cookbook",
        ".cookbook read_tokens model=good from_position=3 tokens=2",
        f".save {tmp_path}/rows.parquet",
        f".save {tmp_path}/rows.arrow",
        ".limit 1",
        "select position from tokens;",
        ".quit",
        "select 'never';",
    )
    assert err == "read_tokens: problem=minilong condition=full\n"
    for part in (
        ".cookbook [NAME",
        "context_snippet",
        "paired_tokens",
        "metric_values",
        "value",
        "VARCHAR",
    ):
        assert part in out
    assert "top_gain_tokens" in out
    assert "only 1 rows shown" in out
    assert "never" not in out
    for rows in (pq.read_table, pyarrow.feather.read_table):
        table = rows(tmp_path / f"rows.{'parquet' if rows is pq.read_table else 'arrow'}")
        assert table["token"].to_pylist() == ["d", "e"]


def test_what_a_command_refuses(filled: Workspace) -> None:
    err = typed(".save x.csv", ".limit many", ".cookbook cost modle=1", "select 1;", ".save x.y")[1]
    for message in (
        ".save: nothing to save yet",
        ".limit many: expected a whole number",
        ".cookbook cost modle=1: expected NAME=VALUE with one of: problem",
        "x.y: unknown ending '.y'; use one of .csv",
    ):
        assert message in err


def test_nothing_is_written(filled: Workspace, tmp_path: Path) -> None:
    build_mart(filled)
    before = filled.database.read_bytes()
    place = tmp_path / "written"
    tries = (
        "insert into metric_values select * from metric_values;",
        "create table tokenmart.main.x as select 1;",
        f"copy (select 1) to '{place}';",
        f"explain analyze copy (select 1) to '{place}';",
        f"/* x */ explain (analyze) copy (select 1) to '{place}';",
        f"attach '{place}' as other;",
        "drop table metric_values;",
        "use tokenmart;",
    )
    err = typed(*tries)[1]
    assert err.count("read-only") == len(tries) - 1, "`use` is allowed, and changes nothing"
    assert not place.exists()
    assert filled.database.read_bytes() == before
    assert typed("create table mine as select 42 as a;", "from mine;")[0].endswith("42\n")


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("select 1;", True),
        ("select 1", False),
        ("select ';", False),
        ("select 1 -- ;", False),
        ("select /* ; */ 1", False),
        ('select ";";  ', True),
        (".tables", True),
    ],
)
def test_when_a_statement_is_complete(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


# At the same time as dbt

WRITER = """
import duckdb, sys
with duckdb.connect(sys.argv[1]) as connection:
    connection.execute("begin; insert into metric_values values"
        " ('minilong', 'new', 'v', 'good', 9.5, 8, 1, null)")
    print("writing", flush=True)
    sys.stdin.readline()
    connection.execute("commit")
print("done", flush=True)
"""


@contextlib.contextmanager
def writing(
    database: Path,
    name: str = "x",
    words: Sequence[str] = ("-c", WRITER),
    folder: Path | None = None,
) -> Iterator[subprocess.Popen[str]]:
    """Another process inside a transaction on the database, as dbt is."""
    command = [sys.executable, *words, str(database), name]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=folder) as writer:
        assert writer.stdout
        assert writer.stdout.readline() == "writing\n"
        yield writer


def finish(writer: subprocess.Popen[str]) -> None:
    assert writer.stdin and writer.stdout
    writer.stdin.write("\n")
    writer.stdin.flush()
    assert writer.stdout.readline() == "done\n"
    writer.wait()


def shell(workspace: Workspace) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*TOKENMART, "sql"], stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True, bufsize=1
    )


def answer(process: subprocess.Popen[str], statement: str) -> list[str]:
    """Lines the shell prints for a statement; the shell stays open."""
    assert process.stdin and process.stdout
    process.stdin.write(statement + "\nselect 'end' as mark;\n")
    process.stdin.flush()
    lines: list[str] = []
    while not lines or lines[-1] != "end":
        line = process.stdout.readline()
        assert line, lines
        lines.append(line.rstrip("\n"))
    return lines[:-3]


def test_the_shell_works_while_another_process_writes(filled: Workspace) -> None:
    build_mart(filled)
    count = "select count(*) as n from metric_values;"
    with shell(filled) as process:
        assert answer(process, count)[-1].strip() == "2"
        with writing(filled.database) as writer:
            # The open shell doesn't keep the writer out; what needs no mart is answered.
            assert answer(process, "select count(*) from tokens;")[-1].strip() == "32"
            (refusal,) = answer(process, count)
            assert refusal.startswith(f"error: {filled.database}: open for writing in python")
            assert f"(PID {writer.pid}); try again when it is closed there" in refusal
            finish(writer)
        assert answer(process, count)[-1].strip() == "3", "the next question sees what was written"
        assert process.stdin
        process.stdin.close()
        assert process.wait(10) == 0
    with connect_read_only(filled) as connection:
        assert connection.execute("select max(value) from metric_values").fetchall() == [(9.5,)]


def test_one_question_while_dbt_writes(filled: Workspace) -> None:
    build_mart(filled)
    with writing(filled.database) as writer:
        asked = CliRunner().invoke(cli, ["sql", "select ppl(logprob) from tokens"])
        assert asked.exit_code == 0, asked.output
        refused = CliRunner().invoke(cli, ["sql", "from metric_values"])
        assert refused.exit_code == 4
        assert refused.output.count("\n") == 1
        assert f"(PID {writer.pid}); try again when it is closed there (until then: tokens, " in (
            refused.output
        )
        finish(writer)


def test_dbt_is_named_where_it_is_dbt(filled: Workspace, tmp_path: Path) -> None:
    build_mart(filled)
    script = tmp_path / "dbt"
    (tmp_path / "package" / "dbt").mkdir(parents=True)
    for path in (script, tmp_path / "other", tmp_path / "package" / "dbt" / "__main__.py"):
        path.write_text(WRITER)
    child = f"if 0: from dbt.cli.main import cli\n{WRITER.strip()}"
    for words, said in (
        ([str(script)], "dbt"),
        (["-W", "ignore", str(script)], "dbt"),
        (["-m", "dbt"], "dbt"),
        (["-c", child], "dbt"),  # `tokenmart dbt`
        ([str(tmp_path / "other")], "python"),
        (["-c", WRITER], "python"),
    ):
        # an argument that is called so is not dbt
        with writing(filled.database, "dbt", words, tmp_path / "package") as writer:
            refused = CliRunner().invoke(cli, ["sql", "from metric_values"])
            assert f"open for writing in {said}" in refused.output, words
            assert f"(PID {writer.pid})" in refused.output
            finish(writer)


def test_a_file_system_without_locks_is_named_as_that(tmp_path: Path) -> None:
    path = tmp_path / "t.duckdb"
    said = f'IO Error: Could not set lock on file "{path}": '
    unlockable = no_locks(path, duckdb.IOException(f"{said}Operation not supported. See also x"))
    assert unlockable == (
        f"{path}: its file system can't lock files (operation not supported); set "
        "TOKENMART_DATABASE to a file on a local disk"
    )
    held = f"{said}Conflicting lock is held in PID 0. See also x"
    assert no_locks(path, duckdb.IOException(held)) is None
    assert holder(duckdb.IOException(held)) == "another program"


# A terminal


class Terminal:
    """`tokenmart sql` on a pseudo-terminal."""

    def __init__(self) -> None:
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            os.execve(TOKENMART[0], [*TOKENMART, "sql"], {**os.environ, "TERM": "xterm"})
        self.seen = ""

    def wait_for(self, text: str, seconds: float = 60) -> None:
        """Read until the text was shown, colours and cursor movements left out."""
        deadline = time.monotonic() + seconds
        while text not in self.seen:
            left = deadline - time.monotonic()
            assert left > 0, f"{text!r} not shown in: {self.seen}"
            if select.select([self.file], [], [], left)[0]:
                chunk = os.read(self.file, 65536).decode(errors="replace")
                if "\x1b[6n" in chunk:  # the prompt asks where the cursor is
                    os.write(self.file, b"\x1b[1;1R")
                self.seen += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", chunk)
        self.seen = self.seen.partition(text)[2]

    def type(self, text: str) -> None:
        os.write(self.file, text.encode())

    def exit_code(self) -> int:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):  # the other side is gone
                if select.select([self.file], [], [], 0.1)[0]:
                    os.read(self.file, 65536)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
        raise AssertionError("the shell goes on after Ctrl-D")


@pytest.fixture
def terminal(filled: Workspace) -> Iterator[Terminal]:
    opened = Terminal()
    yield opened
    with contextlib.suppress(ProcessLookupError):
        os.kill(opened.pid, signal.SIGKILL)
    os.close(opened.file)


def test_a_session_on_a_terminal(terminal: Terminal, filled: Workspace) -> None:
    # The texts waited for are never typed as such: what is typed is echoed.
    terminal.wait_for("tokenmart>")
    terminal.type("select 'first' ||\r")
    terminal.type("'-answer' as a;\r")
    terminal.wait_for("first-answer")
    terminal.wait_for("tokenmart>")
    terminal.type("garbage")
    terminal.type("\x03")  # Ctrl-C gives the line up
    terminal.type("select 'second' || '-answer' as a;\r")
    terminal.wait_for("second-answer")
    terminal.wait_for("tokenmart>")
    terminal.type("select count(*) from range(1000000) a, range(1000000) b where a > b;\r")
    wait_for_work(terminal.pid)
    terminal.type("\x03")  # and stops a query that takes too long
    terminal.wait_for("interrupted")
    terminal.wait_for("tokenmart>")
    terminal.type("select 'third' || '-answer' as a;\r")
    terminal.wait_for("third-answer")
    terminal.wait_for("tokenmart>")
    terminal.type("\x04")
    assert terminal.exit_code() == 0
    history = (filled.cache / "sql_history").read_text()
    assert "+select 'first' ||\n+'-answer' as a;" in history
