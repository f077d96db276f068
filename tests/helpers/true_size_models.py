"""The 17 models of `no4k` at their true size, with weights that are only shapes."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from readings import reading_of

from warehouse.paths import find_workspace
from warehouse.probes.request import Request
from warehouse.problem.models import ModelSpec
from warehouse.problem.spec import Problem, load_problem

CHECKOUT = find_workspace(Path(__file__))
LONGEST = 32_768


@cache
def locked_problem() -> Problem:
    """`no4k`, as it ships."""
    return load_problem("no4k", CHECKOUT)


def _published(spec: ModelSpec) -> Any:
    """Facts about the repository: its configuration and sizes, and its BOS."""
    sys.path[:0] = [str(CHECKOUT.root)] if str(CHECKOUT.root) not in sys.path else []
    from tests.rehearsal.lookalikes import LOOK_ALIKES

    return next(each for each in LOOK_ALIKES if each.full_id == spec.full_id)


def build(spec: ModelSpec, folder: Path, dtype: torch.dtype = torch.bfloat16) -> Any:
    """The model on the fake device, by the product's own reading of its configuration.

    Args:
        spec: of the locked problem.
        folder: where its config.json is written.
        dtype: of its weights.
    """
    from transformers import AutoModelForCausalLM

    from extract.checkpoints import Checkpoint
    from extract.models.loading import load_config

    shape = spec.shape
    assert shape is not None
    sizes = {
        "hidden_size": shape.width,
        "intermediate_size": shape.inner,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "vocab_size": shape.vocabulary,
    }
    (folder / "config.json").write_text(json.dumps({**_published(spec).config, **sizes}))
    config = load_config(Checkpoint(folder, "none"), spec)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="sdpa")
    made: dict[int, Any] = {}
    for module in model.modules():
        for held in (module._parameters, module._buffers):
            for name, tensor in held.items():
                if tensor is None:
                    continue
                if id(tensor) not in made:
                    there = torch.empty(tensor.shape, dtype=tensor.dtype, device="cuda")
                    if isinstance(tensor, torch.nn.Parameter):
                        there = torch.nn.Parameter(there, requires_grad=False)
                    made[id(tensor)] = there
                held[name] = made[id(tensor)]
    return model.eval()


def calls(spec: ModelSpec, wanted: tuple[str, ...] = (), tokens: int = LONGEST) -> dict[
    str, list[Request]
]:  # fmt: skip
    """Requests of one document as an extraction scores them, call by call, named by conditions."""
    from extract.extraction import scoring_groups

    shape = spec.shape
    assert shape is not None
    conditions = [c for probe in locked_problem().probes for c in probe.conditions()]
    if wanted:
        conditions = [c for c in conditions if c.name in wanted]
    ids = np.random.default_rng(0).integers(2, shape.vocabulary, tokens).astype(np.int32)
    reading = reading_of(ids, 1 if _published(spec).adds_bos else None)
    return {
        " + ".join(c.name for c in group): [r for c in group for r in c.build(reading)]
        for group in scoring_groups(conditions)
    }
