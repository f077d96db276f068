"""What is known of architectures beyond their configuration: whose masks and whose states."""

from __future__ import annotations

import sys
from typing import Any

from extract.scoring.layers import has_length_dependent_rope
from warehouse.errors import TokenmartError

TAKES_MASKS: frozenset[str] = frozenset(
    {
        "afmoe",
        "apertus",
        "arcee",
        "aria_text",
        "axk1",
        "beam",
        "biogpt",
        "bitnet",
        "codegen",
        "cohere",
        "cohere2",
        "cohere2_moe",
        "ctrl",
        "cwm",
        "deepseek_v2",
        "deepseek_v3",
        "diffllama",
        "doge",
        "dots1",
        "ernie4_5",
        "ernie4_5_moe",
        "exaone4",
        "exaone_moe",
        "falcon",
        "flex_olmo",
        "flint",
        "gemma",
        "gemma2",
        "gemma3_text",
        "gemma3n_text",
        "gemma4_text",
        "gemma4_unified_text",
        "glm",
        "glm4",
        "glm4_moe",
        "glm4_moe_lite",
        "gpt2",
        "gpt_bigcode",
        "gpt_neox",
        "gpt_neox_japanese",
        "gpt_oss",
        "gptj",
        "granite",
        "granite_swa",
        "granitemoe",
        "granitemoe_swa",
        "granitemoeshared",
        "helium",
        "hrm_text",
        "hunyuan_v1_dense",
        "hunyuan_v1_moe",
        "hy_v3",
        "hyperclovax",
        "internlm3",
        "iquestcoder",
        "jais2",
        "jetmoe",
        "kolibri1",
        "laguna",
        "llama",
        "mellum",
        "mimo_v2_flash",
        "minimax_m2",
        "minimax_m3_vl_text",
        "ministral",
        "ministral3",
        "mistral",
        "mixtral",
        "mllama_text_model",
        "moshi",
        "nanochat",
        "nemotron",
        "olmo",
        "olmo2",
        "olmo3",
        "olmoe",
        "opt",
        "persimmon",
        "phi",
        "phi3",
        "phimoe",
        "qwen2",
        "qwen2_moe",
        "qwen3",
        "qwen3_moe",
        "seed_oss",
        "smollm3",
        "solar_open",
        "stablelm",
        "starcoder2",
        "vaultgemma",
        "whisper",
        "xglm",
        "youtu",
    }
)
"""`model_type` of the architectures whose layers see exactly what our mask lets them see.

Found by `benchmarks/architecture_screen.py`, with windows longer than the text of the engine's own
check: a layer that counts its window over what is packed (GPT-Neo), or in chunks (Llama 4), passes
that check. Each suffix of any other architecture reads its own prefix.
"""


def backbone(model: Any) -> Any:
    """The part of a causal language model that gives hidden states; the head is not in it."""
    decoder = model.get_decoder()
    # Llama 4's class for text alone names itself
    return model.model if decoder is model else decoder


def is_stateful(model: Any) -> bool:
    """Whether layers keep a state that can't be cut back to a prefix (Mamba, RWKV, hybrids)."""
    return bool(getattr(model, "_is_stateful", False))


def applied_window(backbone: Any) -> int | None:
    """Tokens that a layer with a sliding window sees, itself included; None without such layers.

    A configuration may name a window that its architecture never applies (Moshi's, or one left in
    a Llama checkpoint): what counts is whether the model's module makes masks of that form.
    """
    module = sys.modules[type(backbone).__module__]
    if not hasattr(module, "create_sliding_window_causal_mask"):
        return None
    window = getattr(backbone.config.get_text_config(), "sliding_window", None)
    return None if window is None else int(window)


def depends_on_length(config: Any) -> bool:
    """Whether a text's first tokens have other log-probs where more tokens follow, or padding.

    Dynamic RoPE has other frequencies then; an indexer (DeepSeek V3.2) chooses the keys that a
    query sees among all keys.
    """
    return has_length_dependent_rope(config) or getattr(config, "index_topk", None) is not None


def reason_for_separate_prefixes(model: Any) -> str:
    """Why suffixes of one prefix can't share its KV cache; empty if they can."""
    config = model.config.get_text_config()
    if has_length_dependent_rope(config):
        return "frequencies follow the length"
    if depends_on_length(config):
        return "its indexer chooses keys by the length"
    if is_stateful(model):
        return "its recurrent states can't be shared by suffixes"
    if config.model_type not in TAKES_MASKS:
        return f"masks of {config.model_type} are not known"
    return ""


def refuse_unsupported(model: Any) -> None:
    """Stop at what transformers computes otherwise than the architecture was trained.

    Raises:
        TokenmartError: Falcon with ALiBi and eager attention, where the bias is added twice.
    """
    config = model.config.get_text_config()
    if (
        config.model_type == "falcon"
        and getattr(config, "alibi", False)
        and config._attn_implementation == "eager"
    ):
        raise TokenmartError(
            "Falcon with ALiBi: transformers' eager attention adds the position bias twice; "
            "use --attention sdpa",
            code="wrong-attention",
            where="falcon",
        )
