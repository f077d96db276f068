"""Errors a user can act on: one line that names the thing, the value and the remedy.

A command that runs as a program ends with such a line and an exit code: see `run`.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Any, NoReturn

import click
from click.utils import PacifyFlushWrapper

_OF_EXTRAS = {
    "extract": {
        "accelerate", "gguf", "huggingface_hub", "sentencepiece", "tokenizers", "torch",
        "transformers",
    },
    "report": {"altair", "scipy", "sklearn", "vl_convert"},
}  # fmt: skip
"""Extra → packages that it installs, and that a light installation lacks."""

_OF_THE_MACHINE = {
    errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENAMETOOLONG,
    errno.EISDIR, errno.EEXIST, errno.ENOTDIR, errno.EPIPE,
}  # fmt: skip
"""Causes that a user can correct: the disk, permissions, names."""


class TokenmartError(click.ClickException):
    """A mistake that the user can correct. Printed as one line, no traceback; exit code 1.

    Args:
        message: what is wrong and what to do, one line.
        code: what kind of mistake it is, in a few words joined by hyphens (`unknown-model`); the
            class's own where none is given. Programs and tests compare it; words may change.
        where: the file, line, field or name that has the mistake (`mine.yml:12`, `models[0].id`).
    """

    exit_code = 1
    code = "error"

    def __init__(self, message: str, *, code: str = "", where: object = "") -> None:
        super().__init__(message)
        self.code = code or type(self).code
        self.where = str(where)

    def show(self, file: IO[Any] | None = None) -> None:
        """Print `error: <message>` to standard error."""
        click.echo(f"error: {visible(self.format_message())}", err=True, file=file)


class ProblemFileError(TokenmartError):
    """A problem file is missing, malformed, or asks for something that does not exist."""

    code = "problem-file"


class OtherKindError(ProblemFileError):
    """A command was given a problem file of a kind that it has no use for."""

    code = "other-problem-kind"


class BadSubmissionError(TokenmartError):
    """A submission breaks the contract (models, numbers, format); exit code 2."""

    exit_code = 2
    code = "bad-submission"


class LockedFileError(TokenmartError):
    """A locked file is missing, unreadable or not the one recorded; exit code 3."""

    exit_code = 3
    code = "locked-file"


class StorageError(TokenmartError):
    """A file of the warehouse can't be read or written; exit code 4."""

    exit_code = 4
    code = "storage"


class UnitFailedError(TokenmartError):
    """One or more units of work failed; the others are kept; exit code 5."""

    exit_code = 5
    code = "unit-failed"


def explained(error: OSError, path: Path | None = None) -> StorageError:
    """The error of the operating system as one line: file and reason.

    Args:
        path: the file meant; by default the one that the error names.
    """
    name = str(path or error.filename or "standard output, or a file being written")[:300]
    reason = os.strerror(error.errno) if error.errno else error
    return StorageError(f"{name}: {reason}", where=name)


def missing_package(error: ModuleNotFoundError) -> TokenmartError | None:
    """The error for a package of an extra, which a light installation lacks; None for others."""
    package = (error.name or "").partition(".")[0]
    for extra, packages in _OF_EXTRAS.items():
        if package in packages:
            return TokenmartError(
                f"package {package!r} is not installed: this needs pip install "
                f"'tokenmart[{extra}]' (in a checkout: make setup)",
                code="missing-package",
                where=package,
            )
    return None


def is_explained(error: OSError) -> bool:
    """Whether the error has a cause that a user can correct: disk, permission, name."""
    return error.errno in _OF_THE_MACHINE


def first_line(error: BaseException, most: int = 120) -> str:
    """The first line of another program's message, shortened; the error's class without one."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:most]


def visible(text: str) -> str:
    """A text with its control, escape and direction characters shown, as a terminal may have it.

    Line ends, tabs and accents stay; what a terminal would obey or can't write becomes `\\x1b`.
    """
    return "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text
    )


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`did you mean 'x'? ` with the closest of the known names; empty when none is close."""
    close = get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}? " if close else ""


def run(command: click.Command, name: str) -> NoReturn:
    """Run a command with the arguments of this process and exit; with 130 after Ctrl-C."""
    try:
        code = command.main(prog_name=name, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        _exit_interrupted()
    except SystemExit:
        if isinstance(sys.stdout, PacifyFlushWrapper):  # results that nobody reads are no failure
            sys.exit(0)
        raise
    except Exception as error:
        if is_interrupt(error):
            _exit_interrupted()
        known = _explained(error)
        if known is None:
            raise
        known.show()
        sys.exit(known.exit_code)
    sys.exit(code if isinstance(code, int) else 0)


def _exit_interrupted() -> NoReturn:
    # finished units are stored; a second Ctrl-C must not meet the interpreter at its end
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    click.echo("interrupted", err=True)
    sys.exit(130)


def is_interrupt(error: BaseException) -> bool:
    """Whether it is what DuckDB raises in place of `KeyboardInterrupt`."""
    return isinstance(error, RuntimeError) and str(error) == "Query interrupted"


def _explained(error: Exception) -> TokenmartError | None:
    """A failure of the machine or the installation as one line; None for a fault of ours."""
    if isinstance(error, ModuleNotFoundError):
        return missing_package(error)
    # DuckDB's errors by their texts: most commands don't import duckdb
    if isinstance(error, MemoryError) or "Out of Memory Error" in str(error):
        what = f"out of memory ({first_line(error)}); finished work is kept"
        return TokenmartError(what, code="out-of-memory")
    if isinstance(error, FileNotFoundError) and error.filename is None:
        return TokenmartError("the current folder was deleted; change to another", code="no-folder")
    if isinstance(error, OSError):
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
