"""The SQL shell on standard input, while another program writes, and with standard input closed."""

from __future__ import annotations

import subprocess
import sys

import duckdb
from click.testing import CliRunner
from sql_samples import build_mart

from tokenmart import cli
from warehouse.paths import Workspace
from warehouse.sql.connection import no_locks

TOKENMART = [sys.executable, "-c", "from tokenmart import main; main()"]


def typed(*lines: str) -> tuple[list[str], str]:
    """What `tokenmart sql` answers to these lines: words of its output, and errors."""
    result = CliRunner().invoke(cli, ["sql"], input="\n".join(lines))
    assert result.exit_code == 0, result.output
    return [word for word in result.stdout.split() if set(word) != {"─"}], result.stderr


def test_statements_end_with_a_semicolon_and_span_lines(filled: Workspace) -> None:
    words, errors = typed(
        "select model_id,",
        "  ppl(logprob)::decimal(9, 3) as ppl  -- a comment; not the end",
        "from tokens where condition = 'full'",
        "group by all order by all;",
        "select ';' as a;",
        "select 3 as c",
    )
    assert words == ["model_id", "ppl", "bad", "7.389", "good", "1.733", "a", ";", "c", "3"]
    assert errors == ""


def test_a_mistake_leaves_the_shell_open_and_names_stay(filled: Workspace) -> None:
    words, errors = typed(
        "selct 1;", "create temp table mine as select 7 as x;", "copy (select 1) to 'x';",
        "from mine;", ".quit", "select 9;",
    )  # fmt: skip
    assert words[-2:] == ["x", "7"]
    assert errors.count("error: ") == errors.count("\n") == 2


def test_the_cookbook_and_help(filled: Workspace) -> None:
    words, errors = typed(".cookbook coverage", ".help", ".cookbook nonsense")
    assert "window_512" in words and ".quit," in words
    assert errors.splitlines()[0] == "coverage: problem=minilong"
    assert errors.splitlines()[1].startswith("error: ")


def test_it_works_while_another_process_writes(filled: Workspace) -> None:
    """Tables of the store are answered, others name the writer, and its result is seen next."""
    build_mart(filled)
    code = (
        "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('open', flush=True);"
        " sys.stdin.readline(); c.execute('delete from metric_values'); c.close(); print('done',"
        " flush=True); sys.stdin.readline()"
    )
    command = [sys.executable, "-c", code, str(filled.database)]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer,
        subprocess.Popen(
            [*TOKENMART, "sql"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as shell,
    ):
        assert writer.stdin and writer.stdout and shell.stdin and shell.stdout and shell.stderr
        writer.stdout.readline()
        shell.stdin.write("select count(*) + 100 as n from tokens;\nfrom metric_values;\n")
        shell.stdin.flush()
        assert str(writer.pid) in shell.stderr.readline()
        writer.stdin.write(b"\n")
        writer.stdin.flush()
        writer.stdout.readline()
        out, errors = shell.communicate("select count(*) + 200 as n from metric_values;\n")
        assert "132" in out and "200" in out and errors == ""
        writer.stdin.write(b"\n")
        writer.stdin.close()


def test_closed_standard_input_is_no_traceback(filled: Workspace) -> None:
    command = f'"{sys.executable}" -c "from tokenmart import main; main()" sql <&-'
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert "Traceback" not in done.stderr and done.returncode in (0, 1)


def test_a_file_system_without_locks_is_named_as_that(filled: Workspace) -> None:
    text = f'IO Error: Could not set lock on file "{filled.database}": No locks available'
    assert "TOKENMART_DATABASE" in str(no_locks(filled.database, duckdb.IOException(text)))
    assert no_locks(filled.database, duckdb.IOException("IO Error: lock is held")) is None
