"""Pages are Jinja templates in a package's `templates/`; Python fills them. Formats of numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jinja2

from analysis.statistics.correlations import signed, span, unsigned


def environment(*packages: str, escape_html: bool) -> jinja2.Environment:
    """Templates of packages; a name that a template misses is an error, not an empty place.

    Args:
        packages: such as `analysis.report`; the first that has a template counts.
        escape_html: for HTML; Markdown has its own rules.
    """
    templates = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(name) for name in packages]),
        autoescape=escape_html,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters.update(FILTERS)
    templates.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return templates


def plain(value: float, digits: int = 2) -> str:
    """Without a sign unless it is negative."""
    return f"{value:.{digits}f}"


def digits(value: float) -> str:
    """Four significant digits."""
    return f"{value:.4g}"


def joints(name: str) -> list[str]:
    """A variant's name in the parts between which a narrow column may break it."""
    return re.split(r"(?<=/)|(?=@)", name)


def _true_minus(write: Callable[..., str]) -> Callable[..., str]:
    return lambda *arguments: write(*arguments).replace("-", "−")


FILTERS: dict[str, Callable[..., Any]] = {
    **{each.__name__: _true_minus(each) for each in (signed, span, unsigned, plain, digits)},
    "thousands": "{:,}".format,
    "joints": joints,
}
