"""Requests of every probe over random tokens, and the models to score them with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from transformers import AutoModelForCausalLM

from extract import probes
from warehouse.problem.spec import RetrievalProbe

RETRIEVAL = RetrievalProbe(
    kind="retrieval", excerpts=3, excerpt_tokens=8, answer_tokens=6, min_gap=20, seed=1
)


def load(folder: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(folder).eval()


def requests_of(bos: int | None) -> list[probes.Request]:
    tokens = np.random.default_rng(5).integers(2, 300, 90).astype(np.int32)
    return [
        *probes.full(tokens, bos),
        *probes.window(tokens, bos, context=24, stride=16),
        *probes.retrieval(tokens, bos, with_document=True, probe=RETRIEVAL),
        *probes.retrieval(tokens, bos, with_document=False, probe=RETRIEVAL),
    ]
