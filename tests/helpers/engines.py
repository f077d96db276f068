"""Engines for tests that stop a run in the middle: in place of the real one, in any process."""

from __future__ import annotations

from pathlib import Path

import pytest

from extract.models import loading

HELD = """
import os, time
from pathlib import Path
import numpy as np
from extract.scoring.statistics import Scored, TokenScores

class Engine:
    parameters, attention, prefixes, weights = 0, "none", "shared", "none"

    def __init__(self, loading):
        pass

    def score(self, requests):
        place = Path(os.environ["TOKENMART_HOME"])
        (place / f"waiting-{os.getpid()}").touch()
        until = time.monotonic() + 300
        while not (place / "go").exists() and time.monotonic() < until:
            time.sleep(0.01)
        for request in requests:
            nats = np.ones(len(request.targets), dtype=np.float32)
            first = np.ones(len(nats), dtype=np.int32)
            yield Scored(TokenScores(-nats, nats, first, -nats, nats), tokens_processed=0)
"""
"""One that reports when it has a document, and continues when a file `go` appears."""

FIRST_WITHOUT_MEMORY = """
import os, time
from pathlib import Path
import psutil
import numpy as np
from extract.scoring.statistics import Scored, TokenScores

WHEN = "load"

def lack_memory(when):
    if when != WHEN and WHEN != "always":
        return
    place = Path(os.environ["TOKENMART_HOME"])
    (place / f"tried-{os.getpid()}").touch()
    try:
        os.symlink(str(os.getpid()), place / "first")
    except FileExistsError:
        pass
    first = int(os.readlink(place / "first"))
    if WHEN == "always" or first == os.getpid():
        raise MemoryError("out of memory")
    until = time.monotonic() + 60
    while psutil.pid_exists(first) and time.monotonic() < until:
        if psutil.Process(first).status() == psutil.STATUS_ZOMBIE:
            break
        time.sleep(0.01)

class Engine:
    parameters, attention, prefixes, weights = 0, "none", "shared", "none"

    def __init__(self, loading):
        lack_memory("load")

    def score(self, requests):
        lack_memory("score")
        for request in requests:
            nats = np.ones(len(request.targets), dtype=np.float32)
            first = np.ones(len(nats), dtype=np.int32)
            yield Scored(TokenScores(-nats, nats, first, -nats, nats), tokens_processed=0)
"""
"""The process that comes first has no memory `WHEN` it loads a model, or scores; the others wait
until it has ended. With WHEN = always no process has any."""

_PLUGIN = """
import sys
from importlib.machinery import PathFinder

class Changed:
    '''Puts the class into the module that loads engines, once that is imported.'''

    def find_spec(self, name, path=None, target=None):
        if name != "extract.models.loading":
            return None
        spec = PathFinder.find_spec(name, path)
        imported = spec.loader.exec_module

        def exec_module(module):
            imported(module)
            module.load_engine = Engine

        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Changed())
"""


def use_engine(code: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process and its children score with the class `Engine` of some code.

    The children import it as a plugin: before what it changes.
    """
    names: dict[str, type] = {}
    exec(code, names)
    monkeypatch.setattr(loading, "load_engine", names["Engine"])
    file = folder / "engine.py"
    file.write_text(code + _PLUGIN, encoding="utf-8")
    monkeypatch.setenv("TOKENMART_PLUGINS", str(file))
