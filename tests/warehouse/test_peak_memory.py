"""Peak memory is in bytes, whatever the system counts in."""

from __future__ import annotations

import resource
import sys
from types import SimpleNamespace

import pytest

from warehouse.peak_memory import peak_bytes


@pytest.mark.parametrize(("platform", "unit"), [("linux", 1024), ("darwin", 1)])
def test_the_systems_unit_becomes_bytes(
    platform: str, unit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = {resource.RUSAGE_SELF: 3000, resource.RUSAGE_CHILDREN: 5000}
    usage = {who: SimpleNamespace(ru_maxrss=peak) for who, peak in counted.items()}
    monkeypatch.setattr(resource, "getrusage", usage.__getitem__)
    monkeypatch.setattr(sys, "platform", platform)
    assert peak_bytes() == 3000 * unit
    assert peak_bytes(resource.RUSAGE_CHILDREN) == 5000 * unit
