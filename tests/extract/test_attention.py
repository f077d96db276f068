"""Which kernel computes attention, what is recorded of it, and what is never mixed."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from checkpoint_samples import loaded
from click.testing import CliRunner
from reference import assert_scored, references
from refusal import refuses
from tiny_requests import DEVICE, load, requests_of
from tiny_runs import ok, run
from transformers.integrations.sdpa_attention import repeat_kv

from extract.cli import status
from extract.scoring import attention
from extract.scoring.budgets import Budgets
from extract.scoring.engine import Engine
from extract.scoring.statistics import ENGINE_VERSION
from warehouse.store.ledger import read_units
from warehouse.store.token_files import published_path

GPU = torch.device("cuda")


@pytest.mark.parametrize("architecture", ["mistral", "qwen2", "llama"])
def test_repeated_heads_give_what_shared_heads_give(architecture, tiny_checkpoint, monkeypatch):
    repeated: list[int] = []

    def counted(states: torch.Tensor, groups: int) -> torch.Tensor:
        repeated.append(groups)
        return repeat_kv(states, groups)

    monkeypatch.setattr(attention, "repeat_kv", counted)
    folder = tiny_checkpoint(architecture)
    requests = requests_of(0)
    plain = references(load(folder), requests)
    model = load(folder)
    attention.repeat_heads_where_needed(model.config, GPU, torch.float32)
    assert model.config._attn_implementation == attention.REPEATED_HEADS
    engine = Engine(model)
    # CUDA's flash kernel takes half precision only
    assert engine.attention == ("sdpa/flash" if DEVICE == "cpu" else "sdpa/efficient")
    assert engine.share_prefixes
    assert_scored(engine, requests, plain)
    assert set(repeated) == {2}


def test_no_mask_is_as_long_as_a_text(tiny_checkpoint, monkeypatch):
    """Whole texts and windows are causal; only suffixes behind a prefix need a mask."""
    masked: list[int] = []
    real = torch.nn.functional.scaled_dot_product_attention

    def counted(query: torch.Tensor, *rest: Any, attn_mask: Any = None, **options: Any) -> Any:
        if attn_mask is not None:
            masked.append(query.shape[2])
        return real(query, *rest, attn_mask=attn_mask, **options)

    engine = Engine(load(tiny_checkpoint("llama")), budgets=Budgets(1024, 30, 64))
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", counted)
    engine.score([request for request in requests_of(0) if not request.prefix_length])
    assert masked == []
    engine.score(requests_of(0))
    assert 0 < max(masked) <= 30


def test_heads_are_repeated_where_no_fused_kernel_shares_them(tiny_checkpoint):
    config = load(tiny_checkpoint("llama")).config
    for device, dtype in ((GPU, torch.bfloat16), (torch.device("cpu"), torch.float32)):
        attention.repeat_heads_where_needed(config, device, dtype)
        assert config._attn_implementation == "sdpa"
    config.num_key_value_heads = config.num_attention_heads
    attention.repeat_heads_where_needed(config, GPU, torch.float32)
    assert config._attn_implementation == "sdpa"


def test_the_math_path_is_no_choice_on_a_gpu():
    query = torch.zeros(1, 2, 8, 8)
    with attention.fused_kernels(GPU):
        assert not torch.backends.cuda.math_sdp_enabled()
        torch.nn.functional.scaled_dot_product_attention(query, query, query, is_causal=True)
    assert torch.backends.cuda.math_sdp_enabled()
    with refuses("no-kernel"), attention.fused_kernels(GPU):
        raise RuntimeError("No available kernel. Aborting execution.")
    with pytest.raises(RuntimeError, match="something else"), attention.fused_kernels(GPU):
        raise RuntimeError("something else")


def test_eager_attention_unasked_is_refused_for_the_locked_architectures(
    tiny_checkpoint, monkeypatch
):
    from transformers.models.llama.modeling_llama import LlamaPreTrainedModel

    monkeypatch.setattr(LlamaPreTrainedModel, "_supports_sdpa", False)
    folder = tiny_checkpoint("llama")
    with refuses("eager-attention", "tiny/one"):
        loaded(folder)
    assert Engine(loaded(folder, attention="eager")).attention == "eager"


def test_classes_of_attention_are_never_mixed(workspace, tiny_problem):
    path = tiny_problem(texts=1)
    assert "warning" not in ok(run(path))
    (unit,) = read_units(published_path(workspace, "tiny", "tiny--one", "full"))
    assert (unit.attention, unit.prefixes, unit.engine) == (
        "sdpa/flash",
        "shared",
        ENGINE_VERSION,
    )
    assert "extracted 0 units" in ok(run(path, "--attention", "sdpa"))
    redone = ok(run(path, "--attention", "eager"))
    assert "extracted 8 units" in redone
    assert redone.count("warning: tiny/one, tiny/two: attention eager") == 1
    (unit,) = read_units(published_path(workspace, "tiny", "tiny--one", "full"))
    assert unit.attention == "eager"


def test_fallbacks_are_reported_by_the_run_and_by_status(workspace, tiny_problem, tiny_checkpoint):
    source = {"kind": "local", "path": str(tiny_checkpoint("llama_ntk"))}
    model = {"full_id": "tiny/ntk", "family": "tiny", "source": source, "context": 512}
    path = tiny_problem(texts=2, models=[model])
    line = "warning: tiny/ntk: prefixes separate: frequencies follow the length"
    assert ok(run(path)).count(line) == 1
    assert ok(CliRunner().invoke(status, ["--problem", str(path)])).count(line) == 1
    rows = json.loads(CliRunner().invoke(status, ["--problem", str(path), "--json"]).output)
    assert {*rows[0]["prefixes"]} == {"separate: frequencies follow the length"}
    assert rows[0]["attention"] == ["sdpa/flash"]
