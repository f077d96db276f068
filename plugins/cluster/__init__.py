"""Extraction on a Ray cluster."""

from __future__ import annotations

from warehouse.plugins import hookimpl


@hookimpl
def tokenmart_commands() -> dict[str, tuple[str, str]]:
    """`extract-on-ray`."""
    return {"extract-on-ray": (f"{__name__}.cli:extract_on_ray", "Extract on a Ray cluster.")}
