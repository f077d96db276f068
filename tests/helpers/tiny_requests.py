"""Requests of every probe over random tokens, and the models to score them with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from readings import reading_of
from transformers import AutoConfig, AutoModelForCausalLM

from extract.scoring.attention import caps_attention
from warehouse.probes.context import full_requests, window_requests
from warehouse.probes.lookup import (
    WITH_DOCUMENT,
    WITHOUT_DOCUMENT,
    RetrievalProbe,
    retrieval_requests,
)
from warehouse.probes.request import Request

RETRIEVAL = RetrievalProbe(
    kind="retrieval", excerpts=3, excerpt_tokens=8, answer_tokens=6, min_gap=20, seed=1
)


DEVICE = os.environ.get("TOKENMART_TEST_DEVICE", "cpu")
"""Where the engine's tests compute: `TOKENMART_TEST_DEVICE=cuda` takes this machine's GPU."""


def load(folder: Path, dtype: str = "float32") -> Any:
    capped = caps_attention(AutoConfig.from_pretrained(folder))
    options = {"attn_implementation": "eager"} if capped else {}
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, **options).eval().to(DEVICE)


def requests_of(bos: int | None) -> list[Request]:
    tokens = np.random.default_rng(5).integers(2, 300, 90).astype(np.int32)
    reading = reading_of(tokens, bos)
    return [
        *full_requests(tokens, bos),
        *window_requests(tokens, bos, context=24, stride=16),
        *retrieval_requests(reading, kind=WITH_DOCUMENT, probe=RETRIEVAL),
        *retrieval_requests(reading, kind=WITHOUT_DOCUMENT, probe=RETRIEVAL),
    ]
