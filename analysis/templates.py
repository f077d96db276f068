"""Pages are Jinja templates in a package's `templates/`; Python fills them. Formats of numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jinja2

from analysis.statistics import formats
from analysis.statistics.correlations import Interval
from analysis.statistics.formats import unsigned


def environment(*packages: str, escape_html: bool) -> jinja2.Environment:
    """Templates of packages; a name that a template misses is an error, not an empty place.

    Args:
        packages: such as `analysis.report`; the first that has a template counts.
        escape_html: for HTML; Markdown has its own rules.
    """
    found = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(name) for name in packages]),
        autoescape=escape_html,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters.update(FILTERS)
    found.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return found


def signed(value: float, digits: int = 2) -> str:
    """With its sign, a true minus; a dash where undefined."""
    return formats.signed(value, digits).replace("-", "−")


def plain(value: float, digits: int = 2) -> str:
    """Without a sign unless it is negative, then a true minus."""
    return f"{value:.{digits}f}".replace("-", "−")


def digits(value: float) -> str:
    """Four significant digits, a true minus."""
    return f"{value:.4g}".replace("-", "−")


def span(interval: Interval) -> str:
    """Both ends of an interval."""
    return formats.span(interval, "undefined").replace("-", "−")


def share(value: float) -> str:
    """A share of 1 as whole percent."""
    return f"{value:.0%}"


def duration(seconds: float) -> str:
    """Seconds, minutes or hours, whichever reads best."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def thousands(value: int) -> str:
    """A count with separators."""
    return f"{value:,}"


def joints(name: str) -> list[str]:
    """A variant's name in the parts between which a narrow column may break it."""
    return re.split(r"(?<=/)|(?=@)", name)


_FILTERS = (
    signed, unsigned, plain, digits, span, share, duration, thousands, joints,
)  # fmt: skip
FILTERS: dict[str, Callable[..., Any]] = {each.__name__: each for each in _FILTERS}
