"""A command as a program: every foreseen failure is one line and an exit code."""

from __future__ import annotations

import os
import re
import signal
import sys
from typing import NoReturn

import click
from click.utils import PacifyFlushWrapper

from warehouse.errors import TokenmartError, first_line

OF_EXTRACTION = {
    "accelerate", "gguf", "huggingface_hub", "sentencepiece", "tokenizers", "torch", "transformers",
}  # fmt: skip
"""Packages that a light installation lacks; the extra `extract` installs them."""


def run(command: click.Command, name: str) -> NoReturn:
    """Run a command with the arguments of this process and exit; with 130 after Ctrl-C."""
    try:
        code = command.main(prog_name=name, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        # finished units are stored; a second Ctrl-C must not meet the interpreter at its end
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
        click.echo("interrupted", err=True)
        sys.exit(130)
    except SystemExit:
        if isinstance(sys.stdout, PacifyFlushWrapper):  # results that nobody reads are no failure
            sys.exit(0)
        raise
    except Exception as error:
        known = _explained(error)
        if known is None:
            raise
        known.show()
        sys.exit(known.exit_code)
    sys.exit(code if isinstance(code, int) else 0)


def _explained(error: Exception) -> TokenmartError | None:
    """A failure of the machine or the installation as one line; None for a fault of ours."""
    if isinstance(error, ModuleNotFoundError):
        if (error.name or "").split(".")[0] not in OF_EXTRACTION:
            return None
        return TokenmartError(
            f"package {error.name!r} is not installed: this command needs pip install "
            "'tokenmart[extract]' (in a checkout: make setup)"
        )
    # DuckDB's errors by their texts: most commands don't import duckdb
    if isinstance(error, MemoryError) or "Out of Memory Error" in str(error):
        what = f"out of memory ({first_line(error)}); finished work is kept"
        return TokenmartError(what, code="out-of-memory")
    if isinstance(error, OSError):
        from warehouse.files import explained, is_explained

        return explained(error) if is_explained(error) else None
    missing = re.match(r"Catalog Error: Table with name (\w+) does not exist", str(error))
    if missing is None:
        return None
    return TokenmartError(
        f"the database has no table {missing[1]}: its build stopped early or built a part; run "
        "`tokenmart dbt build` (benchmarks and rankings: `tokenmart dbt run --select 'fqn:*'`)",
        code="table-not-built",
        where=missing[1],
    )
