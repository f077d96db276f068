"""`tokenmart sql` without a query: a read-only shell on the warehouse.

Between statements the database is closed, so `tokenmart dbt build` can run at the same time and the
next statement sees its results.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress

import click

from warehouse.errors import TokenmartError
from warehouse.sql.output import print_rows
from warehouse.sql.queries import find_query, parameters_of
from warehouse.sql.session import Session

_HELP = """\
Statements end with ; and may span lines. Everything is read-only.
  show all tables;     tables, views; describe NAME; has the columns of one
  .cookbook NAME       run a query of the cookbook (`tokenmart sql --list`)
  .quit, or Ctrl-D"""


def run_shell(session: Session, limit: int, wide: bool) -> None:
    """Answer statements from the terminal, or from standard input, until it ends or `.quit`."""
    is_terminal = sys.stdin is not None and sys.stdin.isatty()
    if is_terminal:
        click.echo("Tokenmart, read-only. End statements with ; (.help, .cookbook NAME, .quit)")
    for text in _statements(_from_terminal if is_terminal else _from_standard_input):
        if text.strip().rstrip(";") in (".quit", ".exit"):
            return
        try:
            if text.lstrip().startswith("."):
                _command(session, text.split(), limit, wide)
            else:
                print_rows(session, text, {}, limit, wide)
        except TokenmartError as error:
            error.show()
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)


def _command(session: Session, words: list[str], limit: int, wide: bool) -> None:
    if words[0] != ".cookbook" or len(words) != 2:
        click.echo(_HELP)
        return
    recipe = find_query(words[1].rstrip(";"))
    values, note = parameters_of(recipe, {}, session)
    click.echo(note, err=True)
    print_rows(session, recipe.sql, values, limit, wide)


def _statements(read_line: Callable[[], str]) -> Iterator[str]:
    """Texts that are a command, or end with a `;` outside quotes and comments."""
    text = ""
    while True:
        try:
            text += read_line()
        except KeyboardInterrupt:
            text = ""  # as in other shells: the line is given up
        except EOFError:
            break
        if text.lstrip().startswith(".") or sqlite3.complete_statement(text):
            yield text
            text = ""
    if text.strip():
        yield text


def _from_standard_input() -> str:
    line = sys.stdin.readline() if sys.stdin else ""
    if not line:
        raise EOFError
    return line


def _from_terminal() -> str:
    with suppress(ImportError):
        import readline  # noqa: F401  (editing of lines, and the earlier ones with the arrow keys)

    return input("tokenmart> ") + "\n"
