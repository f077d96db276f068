"""Fused layers: compared with the model's own, recorded, removed where they differ.

The library needs a GPU: a made-up one of the same interface stands for it. Its layers compute the
same in another order, or something else.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from reference import assert_scored, references
from tiny_requests import load, requests_of
from transformers.models.llama import modeling_llama

from extract.scoring import fused_layers
from extract.scoring.engine import Engine

ROTATE = modeling_llama.apply_rotary_pos_emb
NORM = modeling_llama.LlamaRMSNorm


class Library:
    """Counts the calls of its layers; `factor` is what their results are multiplied by."""

    def __init__(self) -> None:
        self.factor, self.calls = 1.0, {"norm": 0, "rotary": 0}
        self.error: Exception | None = None
        self.options: dict[str, Any] = {}

    def apply(
        self,
        rope: bool = True,
        cross_entropy: bool = False,
        fused_linear_cross_entropy: bool = True,
        model: Any = None,
    ) -> None:
        self.options = {"loss": cross_entropy, "head": fused_linear_cross_entropy}

        def rotary(*args: Any, **options: Any) -> Any:
            self.calls["rotary"] += 1
            return ROTATE(*args, **options)

        def norm(module: Any, states: torch.Tensor) -> torch.Tensor:
            self.calls["norm"] += 1
            if self.error is not None:
                raise self.error
            return NORM.forward(module, states) * self.factor

        class Norm(NORM):  # type: ignore[misc, valid-type]
            forward = norm

        modeling_llama.apply_rotary_pos_emb = rotary
        modeling_llama.LlamaRMSNorm = Norm
        for module in model.modules():
            if isinstance(module, NORM):
                module.__dict__["forward"] = norm.__get__(module)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    found = Library()
    patches = ModuleType("liger_kernel.transformers.monkey_patch")
    patches.MODEL_TYPE_TO_APPLY_LIGER_FN = {"llama": found.apply}  # type: ignore[attr-defined]
    for name in ("liger_kernel", "liger_kernel.transformers"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, patches.__name__, patches)
    monkeypatch.setattr(fused_layers, "find_spec", lambda name: name)
    monkeypatch.setattr(fused_layers, "version", lambda name: "9.9")
    yield found
    assert modeling_llama.apply_rotary_pos_emb is ROTATE and modeling_llama.LlamaRMSNorm is NORM


def engine_of(model: Any, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Engine:
    """An engine that takes the processor for a GPU, as far as its layers are concerned."""
    monkeypatch.setattr("extract.scoring.engine.FUSED_ON", ("cpu",))
    return Engine(model, **options)


def test_the_model_s_layers_are_replaced_while_it_scores(library, tiny_checkpoint, monkeypatch):
    folder, requests = tiny_checkpoint("llama"), requests_of(0)
    plain = references(load(folder), requests)
    engine = engine_of(load(folder), monkeypatch)
    assert engine.attention.endswith("; liger-kernel 9.9") and engine.prefixes == "shared"
    # the head is ours, whatever the library would do by default
    assert library.options == {"loss": False, "head": False}
    library.calls = dict.fromkeys(library.calls, 0)
    assert_scored(engine, requests, plain)
    assert library.calls["norm"] > 0 and library.calls["rotary"] > 0
    # a later model is plain
    library.calls = dict.fromkeys(library.calls, 0)
    other = engine_of(load(folder), monkeypatch, fused=False)
    other.score(requests)
    assert "liger" not in other.attention and set(library.calls.values()) == {0}


@pytest.mark.parametrize(
    ("factor", "error", "reason"),
    [
        (1.01, None, "LlamaForCausalLM"),
        (1.0, Exception("at 7:11: no such instruction"), "at 7:11: no such instruction"),
    ],
)
def test_layers_that_fail_or_compute_something_else_are_removed(
    factor, error, reason, library, tiny_checkpoint, monkeypatch
):
    library.factor, library.error = factor, error
    folder, requests = tiny_checkpoint("llama"), requests_of(0)
    plain = references(load(folder), requests)
    engine = engine_of(load(folder), monkeypatch)
    assert library.calls["norm"] > 0
    assert f"; liger-kernel 9.9 refused: {reason}" in engine.attention
    library.calls = dict.fromkeys(library.calls, 0)
    assert_scored(engine, requests, plain)
    assert set(library.calls.values()) == {0}


@pytest.mark.parametrize("why", ["processor", "architecture", "spread", "library"])
def test_where_there_are_none_the_model_s_own_layers_run(
    why, library, tiny_checkpoint, monkeypatch
):
    model = load(tiny_checkpoint("qwen2" if why == "architecture" else "llama"))
    if why == "spread":
        model.model.norm._hf_hook = object()
    if why == "library":
        monkeypatch.setattr(fused_layers, "find_spec", lambda name: None)
    engine = Engine(model) if why == "processor" else engine_of(model, monkeypatch)
    assert "liger" not in engine.attention and library.options == {}
