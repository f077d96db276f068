"""What `bench_gpu.py` measures: models, texts, requests, and the FLOPs of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gpu_table import Bench, Size

ROOT = Path(__file__).parents[1]
LONGEST_POSITION = 65_536


ATTENTION_SHARPENED, LOGITS_SHARPENED = 6.0, 5.0
"""Factors on the query projections and the last norm: scores and logits spread over about 3."""


@dataclass(frozen=True)
class Subject:
    """A model to measure: its name and size, how it is loaded, and a text in its tokens."""

    spec: Any
    size: Any
    load: Callable[..., Any]
    tokens: Callable[[int], Any]


def random_subject(
    name: str, shape: Any, parameters: int | None, device: str, **settings: Any
) -> Subject:
    """A model of this shape with random, sharpened weights; the same ones at each load.

    Args:
        settings: of its configuration, in addition to the shape's.
    """
    import torch
    from shapes import config_of
    from transformers import AutoModelForCausalLM

    from extract.planning.cost import ModelSize, count_parameters
    from warehouse.problem.models import ModelSpec

    def load(dtype: str, seed: int = 0) -> Any:
        rope = {"rope_type": "default", "rope_theta": 1e6}
        own = {"max_position_embeddings": LONGEST_POSITION, "rope_parameters": rope, **settings}
        config = config_of(shape, **own)
        torch.manual_seed(seed)
        # made in the half precision they are published in, so that float32 has the same weights
        half = torch.float16 if dtype == "float16" else torch.bfloat16
        with torch.device(device):
            model = AutoModelForCausalLM.from_config(config, dtype=half, attn_implementation="sdpa")
        with torch.no_grad():
            for path, parameter in model.named_parameters():
                if path.endswith("q_proj.weight"):
                    parameter.mul_(ATTENTION_SHARPENED)
            model.get_decoder().norm.weight.mul_(LOGITS_SHARPENED)
        return (model.float() if dtype == "float32" else model).eval()

    spec = ModelSpec.model_validate(
        {"full_id": f"random/{name}", "family": "random", "parameters": parameters,
         "shape": shape.model_dump(exclude_none=True), "source": {"kind": "hub"}}
    )  # fmt: skip
    size = ModelSize(parameters or count_parameters(shape), shape)

    def tokens(count: int) -> Any:
        return np.random.default_rng(0).integers(2, shape.vocabulary, count).astype(np.int32)

    return Subject(spec, size, load, tokens)


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
    from warehouse.problem.models import ModelShape

    sizes = (2, 64, 96, 4, 384) if tiny else (8, 512, 1376, 8, 32_000)
    layers, width, inner, heads, vocabulary = sizes
    found = []
    for kind, settings in FAMILIES.items():
        shape = ModelShape(
            kind=kind, layers=layers, width=width, inner=inner, heads=heads, kv_heads=heads // 2,
            head_width=width // heads, vocabulary=vocabulary, tied=kind == "gemma3_text",
        )  # fmt: skip
        window = {"sliding_window": 16} if tiny and "sliding_window" in settings else {}
        found.append(random_subject(kind, shape, None, device, **{**settings, **window}))
    return found


def flops_of(subject: Subject, tokens: int, rows: int, pairs: float) -> float:
    """FLOPs of tokens through the layers, rows through the head, and pairs in attention.

    2 per weight and token (Kaplan et al., arXiv 2001.08361), and 4 × query width × layers for
    each (token, visible token): one product with the keys, one with the values.
    """
    from extract.planning.cost import linear_parameters

    shape = subject.size.shape
    layers = 2.0 * linear_parameters(shape) * tokens
    return (
        layers
        + 2.0 * shape.vocabulary * shape.width * rows
        + (4.0 * shape.query_width * shape.layers * pairs)
    )


def forwards(subject: Subject, lengths: Sequence[int]) -> float:
    """FLOPs of whole forwards with all logits over texts of these lengths."""
    return sum(flops_of(subject, n, n, n * n / 2) for n in lengths)


def conditions_of(bench: Bench, *probes: str) -> list[Any]:
    """The conditions of these kinds of probes."""
    return [c for probe in bench.size.probes if probe.kind in probes for c in probe.conditions()]


def score(engine: Any, conditions: Sequence[Any], tokens: Any) -> list[Any]:
    """Log-probs as an extraction scores them: by group, each request's in their order."""
    from readings import reading_of

    from extract.extraction import scoring_groups

    results, reading = [], reading_of(tokens, None)
    for group in scoring_groups(conditions):
        requests = [request for each in group for request in each.build(reading)]
        results += [scored.scores.logprob for scored in engine.score(requests)]
    return results


def requests_of(conditions: Sequence[Any], tokens: Any) -> list[Any]:
    """The requests behind `score`'s results."""
    from readings import reading_of

    from extract.extraction import scoring_groups

    reading = reading_of(tokens, None)
    return [r for group in scoring_groups(conditions) for c in group for r in c.build(reading)]


def plain(model: Any, requests: Sequence[Any]) -> list[Any]:
    """Log-probs of each request from the model's own logits, softmax in float64, row by row."""
    import torch

    found = []
    for request in requests:
        ids = np.concatenate([request.prefix[: request.prefix_length], request.ids])
        count = len(request.targets)
        with torch.inference_mode():
            batch = torch.from_numpy(ids[None]).long().to(model.device)
            logits = model(input_ids=batch, use_cache=False, logits_to_keep=count + 1).logits[
                0, :-1
            ]
            rows = [
                logits[at : at + 256].double().log_softmax(-1)
                .gather(1, batch[0, -count:][at : at + 256, None])
                for at in range(0, count, 256)
            ]  # fmt: skip
            found.append(torch.cat([row[:, 0] for row in rows]).cpu().numpy())
    return found


def sizes(tiny: bool) -> tuple[Size, dict[str, Any]]:
    """What to measure, and the shapes by name with their number of weights."""
    from warehouse.paths import find_workspace
    from warehouse.problem.models import ModelShape
    from warehouse.problem.spec import load_problem

    problem = load_problem("no4k", find_workspace(ROOT))
    if not tiny:
        window = next(probe for probe in problem.probes if probe.kind == "window")
        shapes = {
            f"Qwen2.5-{size}": problem.model(f"Qwen/Qwen2.5-{size}-Instruct")
            for size in ("0.5B", "7B")
        }
        known = {name: (spec.shape, spec.parameters) for name, spec in shapes.items()}
        return Size((8192, 32_768), problem.probes, (window.context, window.stride), 2), known
    small = {"window": {"context": 24, "stride": 16}, "full": {}}
    small["retrieval"] = {
        "excerpts": 3,
        "excerpt_characters": 8,
        "answer_characters": 6,
        "min_gap_characters": 20,
    }
    probes = tuple(probe.model_copy(update=small[probe.kind]) for probe in problem.probes)
    shape = ModelShape(
        kind="qwen2", layers=2, width=64, inner=96, heads=4, kv_heads=2, vocabulary=384, tied=True
    )
    wider = shape.model_copy(update={"layers": 3, "tied": False})
    return Size((96, 192), probes, (24, 16), 0), {"tiny": (shape, None), "tiny-2": (wider, None)}
