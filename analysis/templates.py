"""The Jinja environment of the analysis: pages are in a package's `templates/`; Python fills
them.
"""

from __future__ import annotations

import jinja2


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
    found.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return found
