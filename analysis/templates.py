"""The Jinja environment of the analysis: pages lie in a room's `templates/`, Python fills them."""

from __future__ import annotations

import jinja2


def environment(package: str, escape_html: bool) -> jinja2.Environment:
    """Templates of one package; a name that a template misses is an error, not an empty place.

    Args:
        package: the room, as `analysis.report`.
        escape_html: for HTML; Markdown has its own rules.
    """
    found = jinja2.Environment(
        loader=jinja2.PackageLoader(package),
        autoescape=escape_html,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return found
