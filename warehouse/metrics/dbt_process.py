"""How dbt is started."""

from __future__ import annotations

import shutil
import sys
from importlib.util import find_spec

# dbt makes millions of Python objects, and nearly all live until it ends. Looking for garbage
# among them takes a sixth of dbt's own time. The folder dbt runs in is nowhere to import from.
_WITHOUT_GARBAGE_COLLECTION = """
import gc, sys
gc.disable()
sys.path[:] = [folder for folder in sys.path if folder]
from dbt.cli.main import cli
sys.exit(cli(prog_name="dbt"))
"""


def command() -> list[str] | None:
    """The beginning of a command line for dbt: this environment's, else the one on the path."""
    if find_spec("dbt") and find_spec("dbt.cli"):
        return [sys.executable, "-c", _WITHOUT_GARBAGE_COLLECTION]
    program = shutil.which("dbt")
    return [program] if program else None
