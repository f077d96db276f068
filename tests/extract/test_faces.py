"""What the rooms hand out: every name is there, none hides a module, torch stays out."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

FACES = ("extract", "extract.backends", "extract.planning", "extract.scoring", "warehouse.probes")


@pytest.mark.parametrize("face", FACES)
def test_every_name_of_a_face_is_there_and_hides_no_module(face: str) -> None:
    room = importlib.import_module(face)
    assert room.__all__ and all(getattr(room, name) is not None for name in room.__all__)
    modules = {module.name for module in pkgutil.iter_modules(room.__path__)}
    assert not modules & set(room.__all__)


def test_planning_needs_no_torch() -> None:
    code = (
        "import sys, extract, extract.planning, extract.backends, warehouse.probes\n"
        "for room in (extract, extract.planning, extract.backends, warehouse.probes):\n"
        "    [getattr(room, name) for name in room.__all__]\n"
        "heavy = {'torch', 'transformers'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
