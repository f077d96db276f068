"""Errors a user can act on: one line that names the thing, the value and the remedy."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import IO, Any

import click


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
