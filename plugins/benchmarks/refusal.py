"""Errors in a user's file or option: the place, what is wrong with it, and a code."""

from __future__ import annotations

from collections.abc import Iterable

from warehouse.errors import TokenmartError, did_you_mean


def refused(where: object, what: str, code: str) -> TokenmartError:
    """The error of a place (a file, a file and row, an option, a name)."""
    return TokenmartError(f"{where}: {what}", code=code, where=where)


def unknown(option: str, name: str, known: Iterable[str]) -> TokenmartError:
    """The error of an option that names what isn't there: `unknown-metric` of `--metric`."""
    names = list(known)
    what = f"no such one; {did_you_mean(name, names)}there are: {', '.join(names) or 'none'}"
    code = f"unknown-{option.removeprefix('--')}"
    return TokenmartError(f"{option} {name}: {what}", code=code, where=option)
