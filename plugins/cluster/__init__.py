"""Extraction on a Ray cluster."""

from __future__ import annotations

from warehouse.plugins import hookimpl


@hookimpl
def tokenmart_classes(kind: str) -> list[type]:
    """The scheduler `ray`."""
    if kind == "schedulers":
        from plugins.cluster.schedulers.ray import RayScheduler

        return [RayScheduler]
    return []
