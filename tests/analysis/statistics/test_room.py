"""The room by itself: it needs nothing else of the project."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_it_is_importable_alone():
    code = (
        "import importlib, pkgutil, sys, analysis.statistics as room\n"
        "for module in pkgutil.iter_modules(room.__path__, 'analysis.statistics.'):\n"
        "    importlib.import_module(module.name)\n"
        "foreign = {'warehouse', 'extract', 'duckdb', 'click', 'torch'} & set(sys.modules)\n"
        "ours = {m for m in sys.modules if m.startswith('analysis.')}\n"
        "foreign |= {m for m in ours if not m.startswith('analysis.statistics')}\n"
        "sys.exit(f'loaded {foreign}' if foreign else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
