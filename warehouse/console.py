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

from warehouse.errors import TokenmartError, visible

OF_EXTRACTION = {
    "accelerate", "gguf", "huggingface_hub", "sentencepiece", "tokenizers", "torch", "transformers",
}  # fmt: skip
"""Packages that a light installation lacks; the extra `extract` installs them."""


def run(command: click.Command, name: str) -> NoReturn:
    """Run a command with the arguments of this process and exit."""
    # closed streams (`>&-`) are as good as /dev/null
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    try:
        code = command.main(prog_name=name, standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        said = StringIO()
        error.show(said)
        click.echo(visible(said.getvalue()), nl=False, err=True)
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
        code = _failed(
            f"package {error.name!r} is not installed: this command needs pip install "
            "'tokenmart[extract]' (in a checkout: make setup)"
        )
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:
        from warehouse.files import explained, is_explained

        if not is_explained(error):
            raise
        known = explained(
            error, remedy="or set TOKENMART_DATA elsewhere, then run again: finished work is kept"
        )
        known.show()
        code = known.exit_code
    except Exception as error:
        # DuckDB's CatalogException, by its text: most commands don't import duckdb
        missing = re.match(r"Catalog Error: Table with name (\w+) does not exist", str(error))
        if missing is None:
            raise
        code = _failed(
            f"the database has no table {missing[1]}: its build stopped early or built a part; run "
            "`tokenmart dbt build` (benchmarks and rankings: `tokenmart dbt run --select 'fqn:*'`)"
        )
    sys.exit(code if isinstance(code, int) else 0)


def _failed(message: str) -> int:
    TokenmartError(message).show()
    return TokenmartError.exit_code
