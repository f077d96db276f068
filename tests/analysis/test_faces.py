"""Each room hands out its public names, and a name is never also a module of the room."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

ROOM = Path(__file__).parents[2] / "analysis"


@pytest.mark.parametrize("name", ["statistics", "ranking", "report", "submission"])
def test_a_room_hands_out_its_names(name):
    room = importlib.import_module(f"analysis.{name}")
    assert room.__doc__
    modules = {path.stem for path in (ROOM / name).glob("*.py")}
    assert room.__all__
    for public in room.__all__:
        assert public not in modules, f"{public} is shadowed by the module of its name"
        assert getattr(room, public) is not None
