"""What `bench_gpu.py` measures: models, texts, requests, and the FLOPs of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from readings import reading_of
from shapes import config_of
from transformers import AutoModelForCausalLM

from extract.extraction import scoring_groups
from extract.planning.cost import ModelSize, Work, count_parameters, estimate
from warehouse.paths import find_workspace
from warehouse.problem.models import ModelShape, ModelSpec
from warehouse.problem.spec import Problem, load_problem

LONGEST_POSITION = 65_536
ATTENTION_SHARPENED, LOGITS_SHARPENED = 6.0, 5.0
"""Factors on the query projections and the last norm: scores and logits spread over about 3."""


@dataclass(frozen=True)
class Subject:
    """A model of this shape with random, sharpened weights, and a text in its tokens.

    `settings` of its configuration come in addition to the shape's.
    """

    name: str
    shape: ModelShape
    device: str
    parameters: int | None = None
    settings: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.spec.full_id

    @property
    def spec(self) -> ModelSpec:
        """As a problem file has it."""
        return ModelSpec.model_validate(
            {"full_id": f"random/{self.name}", "family": "random", "parameters": self.parameters,
             "shape": self.shape.model_dump(exclude_none=True), "source": {"kind": "hub"}}
        )  # fmt: skip

    @property
    def size(self) -> ModelSize:
        """Number of weights and shape."""
        return ModelSize(self.parameters or count_parameters(self.shape), self.shape)

    def load(self, dtype: str, seed: int = 0) -> Any:
        """The model: the same weights at each load with a seed."""
        rope = {"rope_type": "default", "rope_theta": 1e6}
        defaults = {"max_position_embeddings": LONGEST_POSITION, "rope_parameters": rope}
        config = config_of(self.shape, **{**defaults, **self.settings})
        torch.manual_seed(seed)
        # made in the half precision they are published in, so that float32 has the same weights
        half = torch.float16 if dtype == "float16" else torch.bfloat16
        with torch.device(self.device):
            model = AutoModelForCausalLM.from_config(config, dtype=half, attn_implementation="sdpa")
        with torch.no_grad():
            for path, parameter in model.named_parameters():
                if path.endswith("q_proj.weight"):
                    parameter.mul_(ATTENTION_SHARPENED)
            model.get_decoder().norm.weight.mul_(LOGITS_SHARPENED)
        return (model.float() if dtype == "float32" else model).eval()

    def tokens(self, count: int) -> Any:
        """A text of so many tokens."""
        drawn = np.random.default_rng(0).integers(2, self.shape.vocabulary, count)
        return drawn.astype(np.int32)

    def flops(self, work: Work) -> float:
        """FLOPs of this work as the plan of an extraction counts them."""
        return estimate(work, self.size, dtype="float32", device="cpu").flops

    def forwards(self, lengths: Sequence[int]) -> float:
        """FLOPs of whole forwards with all logits over texts of these lengths."""
        return sum(self.flops(Work(n, n, n * n / 2)) for n in lengths)


FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": {"sliding_window": 1024},
    "qwen2": {},
    "gemma3_text": {
        "sliding_window": 512,
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        },
    },
}
"""Architectures to compare in small, and settings of theirs: sliding windows, two rotary bases."""


def families(tiny: bool, device: str) -> list[Subject]:
    """A small model of each architecture."""
    sizes = (2, 64, 96, 4, 384) if tiny else (8, 512, 1376, 8, 32_000)
    layers, width, inner, heads, vocabulary = sizes
    subjects = []
    for kind, settings in FAMILIES.items():
        shape = ModelShape(
            kind=kind, layers=layers, width=width, inner=inner, heads=heads, kv_heads=heads // 2,
            head_width=width // heads, vocabulary=vocabulary, tied=kind == "gemma3_text",
        )  # fmt: skip
        window = {"sliding_window": 16} if tiny and "sliding_window" in settings else {}
        subjects.append(Subject(kind, shape, device, settings={**settings, **window}))
    return subjects


def no4k() -> Problem:
    """The problem whose probes and shapes are measured."""
    return load_problem("no4k", find_workspace(Path(__file__)))


def published(device: str) -> list[Subject]:
    """Models in two shapes of no4k, the smaller one first."""
    specs = {size: no4k().model(f"Qwen/Qwen2.5-{size}-Instruct") for size in ("0.5B", "7B")}
    return [
        Subject(f"Qwen2.5-{size}", spec.shape, device, spec.parameters)
        for size, spec in specs.items()
        if spec.shape
    ]


def tiny_subjects(device: str) -> list[Subject]:
    """The same for a look at the table."""
    shape = ModelShape(
        kind="qwen2", layers=2, width=64, inner=96, heads=4, kv_heads=2, vocabulary=384, tied=True
    )
    wider = shape.model_copy(update={"layers": 3, "tied": False})
    return [Subject("tiny", shape, device), Subject("tiny-2", wider, device)]


TINY_PROBES: dict[str, dict[str, int]] = {
    "full": {},
    "window": {"context": 24, "stride": 16},
    "retrieval": {
        "excerpts": 3, "excerpt_characters": 8, "answer_characters": 6, "min_gap_characters": 20,
    },
}  # fmt: skip
"""Kind of probe → settings with which it fits into tiny documents."""


def probes_of(tiny: bool) -> tuple[Any, ...]:
    """Those of no4k."""
    changes = TINY_PROBES if tiny else {}
    return tuple(p.model_copy(update=changes.get(p.kind, {})) for p in no4k().probes)


def score(engine: Any, conditions: Sequence[Any], tokens: Any) -> list[Any]:
    """Log-probs as an extraction scores them: by group, each request's in their order."""
    results, reading = [], reading_of(tokens, None)
    for group in scoring_groups(conditions):
        requests = [request for each in group for request in each.build(reading)]
        results += [scored.scores.logprob for scored in engine.score(requests)]
    return results


def requests_of(conditions: Sequence[Any], tokens: Any) -> list[Any]:
    """The requests behind `score`'s results."""
    reading = reading_of(tokens, None)
    return [r for group in scoring_groups(conditions) for c in group for r in c.build(reading)]
