"""Windows, chunks, layer patterns and caps of config.json: as plain transformers, or refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from checkpoint_samples import loaded
from tiny_models import make_tokenizer
from transformers import AutoConfig, AutoModelForCausalLM

from extract.scoring.engine import Engine
from extract.scoring.self_check import whole
from warehouse.errors import TokenmartError

TOKENS, SMALLEST = 160, 1e-5
FULL, SLIDING, CHUNKED = "full_attention", "sliding_attention", "chunked_attention"
GEMMA = {"head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 24}
CHUNKS = {"head_dim": 8, "num_local_experts": 2, "intermediate_size_mlp": 48, "pad_token_id": None}
NEO = {
    "num_layers": 2,
    "num_heads": 4,
    "max_position_embeddings": 256,
    "attention_types": [[["global", "local"], 1]],
}
USED = {"use_sliding_window": True, "sliding_window": 24}

# architecture, what its config.json has, and the same as plain transformers takes it; None where
# it is refused
CASES: list[tuple[str, dict[str, Any], dict[str, Any] | None]] = [
    ("mistral", {"sliding_window": 0}, None),
    ("mistral", {"sliding_window": -1}, None),
    ("mistral", {"sliding_window": None}, {"sliding_window": 4096}),
    ("mistral", {"sliding_window": 4096}, {"sliding_window": None}),
    ("mistral", {"sliding_window": 1}, {"sliding_window": 1}),
    ("mistral", {"sliding_window": 24}, {"sliding_window": 24}),
    ("mixtral", {"sliding_window": 0}, None),
    ("starcoder2", {"sliding_window": 0}, None),
    ("phi3", {"sliding_window": -1}, None),
    # the architecture has no such key
    ("llama", {"sliding_window": 0}, {}),
    ("llama", {"attention_chunk_size": -1, "attn_logit_softcapping": 0}, {}),
    # a window that is not used
    ("qwen2", {"use_sliding_window": False, "sliding_window": 0}, {}),
    ("qwen2", {"use_sliding_window": False, "sliding_window": 24}, {}),
    ("qwen2", {"use_sliding_window": True, "sliding_window": 0}, None),
    ("qwen2", {"use_sliding_window": True, "sliding_window": None}, {}),
    ("qwen2", {**USED, "max_window_layers": 0}, {**USED, "layer_types": [SLIDING, SLIDING]}),
    ("qwen2", {**USED, "max_window_layers": 1}, {**USED, "layer_types": [FULL, SLIDING]}),
    ("qwen2", {**USED, "max_window_layers": 2}, {}),
    ("qwen2", {**USED, "max_window_layers": -1}, {**USED, "layer_types": [SLIDING, SLIDING]}),
    ("qwen2", {**USED, "layer_types": [FULL, FULL]}, {}),
    ("qwen3", {"use_sliding_window": True, "sliding_window": -1}, None),
    # a pattern that asks for a window where there is none
    ("qwen2", {"layer_types": [SLIDING, SLIDING], "sliding_window": None}, None),
    ("gemma2", {**GEMMA, "sliding_window": None}, None),
    ("gemma2", {**GEMMA, "sliding_window": 0}, None),
    ("gemma2", {**GEMMA, "layer_types": [FULL, FULL]}, {**GEMMA, "sliding_window": 4096}),
    # caps
    ("gemma2", GEMMA, GEMMA),
    ("gemma2", {**GEMMA, "attn_logit_softcapping": 0.0}, None),
    ("gemma2", {**GEMMA, "attn_logit_softcapping": -1.0}, None),
    ("gemma2", {**GEMMA, "final_logit_softcapping": 0.0}, None),
    ("gemma2", {**GEMMA, "final_logit_softcapping": -1.0}, None),
    (
        "gemma2",
        {**GEMMA, "attn_logit_softcapping": None, "final_logit_softcapping": None},
        {**GEMMA, "attn_logit_softcapping": 1e9, "final_logit_softcapping": None},
    ),
    # factors of logits: 0 is no 'none' to plain transformers
    ("granite", {"logits_scaling": 0.0}, None),
    ("cohere", {"logit_scale": 0.0}, None),
    ("llama", {"logits_scaling": 0.0}, {}),
    # chunks
    ("llama4_text", {**CHUNKS, "attention_chunk_size": 0}, None),
    ("llama4_text", {**CHUNKS, "attention_chunk_size": -1}, None),
    (
        "llama4_text",
        {**CHUNKS, "attention_chunk_size": 4096},
        {**CHUNKS, "layer_types": [FULL, FULL]},
    ),
    ("llama4_text", {**CHUNKS, "attention_chunk_size": 24}, {**CHUNKS, "attention_chunk_size": 24}),
    ("gpt_neo", {**NEO, "window_size": 0}, None),
    ("gpt_neo", {**NEO, "window_size": -1}, None),
    ("gpt_neo", {**NEO, "window_size": 24}, {**NEO, "window_size": 24}),
]


def tiny(architecture: str, vocabulary: int, settings: dict[str, Any]) -> Any:
    """A random model whose attention is far from even, in eager attention."""
    config = AutoConfig.for_model(
        architecture,
        vocab_size=vocabulary,
        hidden_size=32,
        **({} if architecture == "gpt_neo" else {
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 4096,
        }),
        **{"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1, **settings},
    )  # fmt: skip
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.copy_(torch.randn(parameter.shape, generator=draw) * 0.3)
    return model


@pytest.mark.parametrize(
    ("architecture", "stated", "meant"), CASES, ids=[f"{a} {s}"[:90] for a, s, _ in CASES]
)
def test_a_limit_is_that_of_plain_transformers_or_refused(architecture, stated, meant, tmp_path):
    vocabulary = make_tokenizer(tmp_path, bos=True)
    base = {k: v for k, v in stated.items() if k in GEMMA | CHUNKS | NEO and k != "sliding_window"}
    tiny(architecture, vocabulary, base if meant is None else meant).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    if "layer_types" not in stated:
        config.pop("layer_types", None)
    (tmp_path / "config.json").write_text(json.dumps(config | stated))
    if meant is None:
        with pytest.raises(TokenmartError) as caught:
            Engine(loaded(tmp_path))
        assert "\n" not in caught.value.format_message()
        return
    ids = np.random.default_rng(0).integers(0, vocabulary, TOKENS).astype(np.int32)
    (scored,) = Engine(loaded(tmp_path)).score([whole(ids)])
    with torch.no_grad():
        logits = tiny(architecture, vocabulary, meant)(torch.from_numpy(ids)[None].long()).logits[0]
    expected = logits[:-1].double().log_softmax(-1)
    expected = expected.gather(-1, torch.from_numpy(ids)[1:, None].long())[:, 0].numpy()
    assert np.abs(scored.scores.logprob - expected).max() < SMALLEST * np.abs(expected).max()
