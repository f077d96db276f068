"""A ranking as one HTML page that needs no network."""

from __future__ import annotations

from pathlib import Path

import jinja2

from plugins.merging.competition import standings_view
from plugins.merging.competition.standings import Standings
from plugins.merging.problem import OVERALL

OWN_PAGE = b'<meta name="generator" content="tokenmart">'
"""In every page, so that it may be replaced."""

_TEMPLATES = jinja2.FileSystemLoader(Path(__file__).with_name("templates"))


def standings_page(standings: Standings) -> str:
    """The page: the overall ranking first, then each round, and the costs."""
    pages = jinja2.Environment(
        loader=_TEMPLATES,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    pages.filters["gigabytes"] = lambda size: "–" if size is None else f"{size / 1e9:.2f} GB"
    rounds = sorted(standings.rounds, key=lambda name: name != OVERALL)
    return pages.get_template("standings.html.j2").render(
        standings=standings, rounds=rounds, view=standings_view
    )
