"""`tokenmart sql` without a query: an interactive, read-only shell on the warehouse.

Between statements the database is closed, so `tokenmart dbt build` can run at the same time and the
next statement sees its results.
"""

from __future__ import annotations

import shlex
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
import duckdb

from warehouse.errors import TokenmartError, visible
from warehouse.files import refuse_protected
from warehouse.sql.export import format_of, write_rows
from warehouse.sql.queries import find_query, list_queries, parameters_of, parse_value
from warehouse.sql.session import Session

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

    from warehouse.paths import Workspace
    from warehouse.sql.session import Limits
    from warehouse.sql.statements import Value

PROMPT = "tokenmart> "
_NAMES = """
    select distinct name from (
        select table_name as name from information_schema.tables
        union all select column_name from information_schema.columns
        union all select function_name from duckdb_functions() where not internal
        union all select keyword_name from duckdb_keywords() where keyword_category = 'reserved'
    ) order by name
"""
_FIRST_OF_A_NAME = """
    select
        *,
        dense_rank() over (
            partition by table_name
            order by table_catalog != 'memory', table_schema != 'main', table_schema
        ) as place
    from information_schema.columns
"""
_TABLES = f"""
    select
        table_name as name,
        string_agg(column_name, ', ' order by ordinal_position) as columns
    from ({_FIRST_OF_A_NAME})
    where place = 1 and table_schema = 'main'
    group by table_name
    order by table_name
"""
_MACROS = """
    select function_name as macro, array_to_string(parameters, ', ') as parameters
    from duckdb_functions()
    where not internal and function_type like '%macro' and database_name = 'memory'
    order by function_name
"""
_COLUMNS = f"""
    select column_name, data_type
    from ({_FIRST_OF_A_NAME})
    where place = 1 and table_name = $name
    order by ordinal_position
"""
_HELP = """\
Statements end with ; and may span lines. Everything is read-only.
  .tables [NAME]             tables, views and macros; the columns of one
  .cookbook [NAME [K=V …]]   ready-made queries; run one
  .limit N                   rows a table shows (0 = all)
  .wide                      every column and whole texts, or tables that fit the terminal
  .save FILE [--force]       rows of the last query to FILE.csv, .json, .parquet or .arrow
  .help, .quit (or Ctrl-D)"""


@dataclass
class _Shell:
    workspace: Workspace
    session: Session
    limit: int
    wide: bool
    last: tuple[str, dict[str, Value]] | None = None

    def answer(self, text: str) -> None:
        """Run one command or the statements of a text; a mistake is one line."""
        try:
            if text.lstrip().startswith("."):
                self._command(text)
                return
            try:
                statements = [each.query for each in duckdb.extract_statements(text)] or [text]
            except (duckdb.Error, ValueError):
                statements = [text]  # a mistake: the message names its place in the text
            for statement in statements:
                self._run(statement, {})
        except TokenmartError as error:
            error.show()
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)

    def _command(self, text: str) -> None:
        commands: dict[str, Callable[[list[str]], None]] = {
            ".help": lambda _: click.echo(_HELP),
            ".tables": self._tables,
            ".cookbook": self._cookbook,
            ".limit": self._limit,
            ".wide": self._wide,
            ".save": self._save,
        }
        try:
            name, *arguments = shlex.split(text.strip().removesuffix(";"))
        except ValueError as error:
            raise TokenmartError(f"{text.strip()}: {error}; see .help") from error
        if name not in commands:
            raise TokenmartError(f"{name}: no such command; see .help")
        commands[name](arguments)

    def _run(self, sql: str, parameters: dict[str, Value]) -> None:
        written = write_rows(self.session, sql, parameters, "table", None, self.limit, self.wide)
        self.last = sql, parameters
        if written is not None and written.narrowed:
            click.echo(f"{visible(written.narrowed)}; .wide shows all, and again fits the terminal")
        if written is not None and written.left_out:
            click.echo(f"only {self.limit} rows shown; .limit 0 shows all, .save FILE saves all")

    def _show(self, sql: str, **parameters: Value) -> None:
        write_rows(self.session, sql, parameters, "table", None, 0, self.wide)

    def _tables(self, arguments: list[str]) -> None:
        if not arguments:
            self._show(_TABLES)
            click.echo()
            self._show(_MACROS)
            return
        with self.session.ask(_COLUMNS, {"name": arguments[0]}) as result:
            found = result.fetchone()
        if found is None:
            raise TokenmartError(f".tables {arguments[0]}: no such table; .tables lists them")
        self._show(_COLUMNS, name=arguments[0])

    def _cookbook(self, arguments: list[str]) -> None:
        if not arguments:
            for recipe in list_queries():
                click.echo(visible(f"{recipe.name:<24} {recipe.title}"))
            return
        recipe = find_query(arguments[0])
        known = ", ".join(recipe.defaults) or "none"
        given: dict[str, Value] = {}
        for argument in arguments[1:]:
            name, equals, value = argument.partition("=")
            if not equals or name not in recipe.defaults:
                raise TokenmartError(
                    f".cookbook {recipe.name} {argument}: expected NAME=VALUE with one of: {known}"
                )
            given[name] = parse_value(value)
        values, note = parameters_of(recipe, given, self.session)
        if note:
            click.echo(visible(note), err=True)
        self._run(recipe.sql, values)

    def _limit(self, arguments: list[str]) -> None:
        if len(arguments) != 1 or not arguments[0].isdigit():
            raise TokenmartError(f".limit {' '.join(arguments)}: expected a whole number, 0 = all")
        self.limit = int(arguments[0])

    def _wide(self, _: list[str]) -> None:
        self.wide = not self.wide
        click.echo("every column, whole texts" if self.wide else "tables fit the terminal")

    def _save(self, arguments: list[str]) -> None:
        if self.last is None:
            raise TokenmartError(".save: nothing to save yet; run a query first")
        force = "--force" in arguments
        files = [argument for argument in arguments if argument != "--force"]
        if len(files) != 1:
            raise TokenmartError(".save: expected one file, such as .save rows.parquet")
        out = Path(files[0]).expanduser()
        refuse_protected(out, self.workspace, ".save", force=force)
        written = write_rows(self.session, *self.last, format_of(out), out, 0)
        if written is None:
            raise TokenmartError(f".save {out}: the last statement has no rows; run a query first")
        click.echo(f"wrote {out}: {written.rows:,} rows")


def run_shell(workspace: Workspace, limit: int, limits: Limits, wide: bool) -> None:
    """Read statements from the terminal, or from standard input, until it ends or `.quit`."""
    # Don't wait for a writer: queries that need no marts are answered immediately.
    with Session(workspace, 0.0, limits, ends_process=True) as session:
        shell = _Shell(workspace, session, limit, wide)
        if sys.stdin.isatty():
            click.echo("Tokenmart, read-only. End statements with ; — .help, .cookbook, .quit")
            texts = _from_terminal(_prompt(workspace, session))
        else:
            texts = _from_lines(sys.stdin)
        for text in filter(str.strip, texts):
            if text.strip().removesuffix(";") in (".quit", ".exit"):
                return
            shell.answer(text)


def is_complete(text: str) -> bool:
    """Whether a text is a command or ends with a `;` outside quotes and comments."""
    return text.lstrip().startswith(".") or sqlite3.complete_statement(text)


def _from_lines(lines: Iterator[str]) -> Iterator[str]:
    text = ""
    for line in lines:
        text += line
        if is_complete(text):
            yield text
            text = ""
    yield text


def _from_terminal(prompt: PromptSession[str]) -> Iterator[str]:
    while True:
        try:
            yield prompt.prompt(PROMPT)
        except KeyboardInterrupt:
            continue  # as in other shells: the line is given up
        except EOFError:
            return


def _prompt(workspace: Workspace, session: Session) -> PromptSession[str]:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.history import FileHistory, History, InMemoryHistory
    from prompt_toolkit.lexers import PygmentsLexer
    from pygments.lexers.sql import SqlLexer

    history: History = InMemoryHistory()
    path = workspace.cache / "sql_history"
    with suppress(OSError):  # a data folder that can't be written: this session's history only
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("a").close()
        history = FileHistory(str(path))
    with session.ask(_NAMES) as result:
        names = [row[0] for row in result.fetchall()]
    prompt: PromptSession[str] = PromptSession(
        history=history,
        lexer=PygmentsLexer(SqlLexer),
        completer=WordCompleter(names, ignore_case=True),
        complete_while_typing=False,
        prompt_continuation=" " * (len(PROMPT) - 2) + "> ",
    )
    # Enter ends a complete statement, and starts a new line otherwise.
    prompt.multiline = Condition(
        lambda: (
            bool(prompt.default_buffer.text.strip()) and not is_complete(prompt.default_buffer.text)
        )
    )
    return prompt
