"""A command as a program: every foreseen failure is one line and an exit code."""

from __future__ import annotations

import os
import re
import signal
import sys
from io import StringIO
from typing import NoReturn

import click
from click.utils import PacifyFlushWrapper

from warehouse.errors import TokenmartError, first_line, visible

OF_EXTRACTION = {
    "accelerate", "gguf", "huggingface_hub", "sentencepiece", "tokenizers", "torch", "transformers",
}  # fmt: skip
"""Packages that a light installation lacks; the extra `extract` installs them."""

_NO_MEMORY = re.compile(
    "Out of Memory Error|can't start new thread|failed to map segment|Cannot allocate memory"
    "|Unable to allocate"
)
"""What DuckDB, Python's threads, the loader of libraries and numpy report without memory."""


def run(command: click.Command, name: str) -> NoReturn:
    """Run a command with the arguments of this process and exit."""
    # closed streams (`>&-`) are as good as /dev/null
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")  # noqa: PTH123, SIM115
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    try:
        code = command.main(prog_name=name, standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        message = StringIO()
        error.show(message)
        click.echo(visible(message.getvalue()), nl=False, err=True)
        code = error.exit_code
    except SystemExit as ended:
        # click exits with 1, and leaves its wrapper, when the reader has closed the pipe
        gone = isinstance(sys.stdout, PacifyFlushWrapper)
        code = 0 if gone else ended.code
    except (click.Abort, KeyboardInterrupt):
        # finished units are stored; a second Ctrl-C must not meet the interpreter at its end
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
        click.echo("interrupted", err=True)
        code = 130
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in OF_EXTRACTION:
            raise
        TokenmartError(
            f"package {error.name!r} is not installed: this command needs pip install "
            "'tokenmart[extract]' (in a checkout: make setup)"
        ).show()
        code = TokenmartError.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:
        known = _explained(error)
        if known is None:
            raise
        known.show()
        code = known.exit_code
    sys.exit(code if isinstance(code, int) else 0)


def _explained(error: Exception) -> TokenmartError | None:
    """A failure of the machine or the database as one line; None for a fault of ours."""
    if isinstance(error, MemoryError) or _NO_MEMORY.search(str(error)):
        return TokenmartError(
            f"out of memory ({first_line(error)}); raise the limit (`ulimit -v`), or end other "
            "programs; finished work is kept",
            code="out-of-memory",
        )
    if isinstance(error, OSError):
        from warehouse.files import explained, is_explained

        return explained(error) if is_explained(error) else None
    # DuckDB's CatalogException, by its text: most commands don't import duckdb
    missing = re.match(r"Catalog Error: Table with name (\w+) does not exist", str(error))
    if missing is None:
        return None
    return TokenmartError(
        f"the database has no table {missing[1]}: its build stopped early or built a part; run "
        "`tokenmart dbt build` (benchmarks and rankings: `tokenmart dbt run --select 'fqn:*'`)",
        code="table-not-built",
        where=missing[1],
    )
