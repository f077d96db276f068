"""Colours by role. Figures use the placeholder; the theme decides what it becomes.

The category colours differ in lightness as well as hue, so that colour-blind readers can
distinguish them; families also differ in point shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Role:
    """A colour with a purpose: CSS variable, placeholder in figures, and both themes."""

    variable: str
    placeholder: str
    light: str
    dark: str


ROLES = (
    Role("--ink", "#010101", "#1c2430", "#e8ecf2"),
    Role("--faint", "#010102", "#66707f", "#98a3b3"),
    Role("--grid", "#010103", "#e1e5eb", "#2c3644"),
    Role("--surface", "#010104", "#ffffff", "#12171f"),
    Role("--positive", "#010105", "#0b62a8", "#58b0f5"),
    Role("--negative", "#010106", "#b93a12", "#ff9166"),
    Role("--c0", "#020200", "#0b62a8", "#58b0f5"),
    Role("--c1", "#020201", "#c24a0a", "#ff9a52"),
    Role("--c2", "#020202", "#0f7d5c", "#3fd0a0"),
    Role("--c3", "#020203", "#9c3d8f", "#eb9fde"),
    Role("--c4", "#020204", "#7a6300", "#e6cc4d"),
    Role("--c5", "#020205", "#4b4fb8", "#a7adff"),
    Role("--c6", "#020206", "#8a4b3c", "#d9a394"),
    Role("--c7", "#020207", "#4d5b6b", "#b4c0ce"),
)

INK, FAINT, GRID, SURFACE, POSITIVE, NEGATIVE = (role.placeholder for role in ROLES[:6])
CATEGORIES = tuple(role.placeholder for role in ROLES[6:])


def family_colours(families: Iterable[str]) -> dict[str, str]:
    """Family → placeholder, in order of first appearance; beyond eight they repeat."""
    names = list(dict.fromkeys(families))
    return {name: CATEGORIES[index % len(CATEGORIES)] for index, name in enumerate(names)}


def variable_of(placeholder: str) -> str:
    """`var(--…)` for a placeholder, for use in the page's own markup."""
    return next(f"var({role.variable})" for role in ROLES if role.placeholder == placeholder)


def as_variables() -> Mapping[str, str]:
    """Placeholder → CSS variable."""
    return {role.placeholder: f"var({role.variable})" for role in ROLES}


def as_light() -> Mapping[str, str]:
    """Placeholder → fixed colour of the light theme."""
    return {role.placeholder: role.light for role in ROLES}
