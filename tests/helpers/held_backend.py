"""A backend for tests that stop a run in the middle."""

from __future__ import annotations

HELD_BACKEND = """
import os, time
from pathlib import Path
import numpy as np
from extract.backends.backend import Backend
from extract.backends.backend import Scored, TokenScores

class Held(Backend):
    kind = "held"
    parameters, attention, prefixes, weights = 0, "none", "shared", "none"

    def load(self, loading):
        return self

    def check(self):
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
            yield Scored(TokenScores(-nats, nats, first, -nats), tokens_processed=0)
"""
"""A backend that reports when it has a document, and continues when a file `go` appears."""
