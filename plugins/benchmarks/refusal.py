"""Errors in a user's file or option: the place, what is wrong with it, and a code."""

from __future__ import annotations

from warehouse.errors import TokenmartError


def refused(where: object, what: str, code: str) -> TokenmartError:
    """The error of a place (a file, a file and row, an option, a name)."""
    return TokenmartError(f"{where}: {what}", code=code, where=where)
