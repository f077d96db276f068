"""Child processes: the variables that they inherit, and Python without the user's folder.

`python -m` and `python -c` import from the folder where they are started: an `extract.py` or a
`random.py` there, or another checkout, would run in place of the module that is meant.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from pathlib import Path

CODE = Path(__file__).resolve().parents[1]
"""The folder of this code; `CODE` is no part of the path of every Python that can import it."""

NOT_FROM_HERE = "import sys\nsys.path[:] = [folder for folder in sys.path if folder]\n"
"""First lines of a program for `python -c`: from here on nothing is imported from the folder."""

_RUN = f"""{NOT_FROM_HERE}import runpy
code, module = sys.argv[1:3]
del sys.argv[1:3]
if code not in sys.path:
    sys.path.append(code)
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""


def python_module(module: str) -> list[str]:
    """The beginning of a command line that runs a module as a program, as `python -m` does."""
    return [sys.executable, "-c", _RUN, str(CODE), module]


def inherited(prefix: str = "", kept: Collection[str] = ()) -> dict[str, str]:
    """This process's variables, without those of another program's project.

    Args:
        prefix: how the names of that program's variables begin, such as `GIT_`; empty for none.
        kept: names that begin so and are inherited.
    """
    return {
        name: value
        for name, value in os.environ.items()
        # a child that has ended would wait for commands at its standard input
        if name != "PYTHONINSPECT" and (not prefix or name in kept or not name.startswith(prefix))
    }
