"""Properties of architectures that configurations don't state: masks, states, windows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from extract.scoring.attention import SDPA, caps_attention
from extract.scoring.layers import has_length_dependent_rope
from warehouse.errors import TokenmartError

TAKES_MASKS = frozenset(Path(__file__).with_name("takes_masks.txt").read_text().split())
"""`model_type` of the architectures whose layers see exactly what our mask lets them see.

Found by `benchmarks/architecture_screen.py`, with windows longer than the text of the engine's own
check: a layer that counts its window over what is packed (GPT-Neo), or in chunks (Llama 4), passes
that check. Each suffix of any other architecture reads its own prefix.
"""

LIMITS = (
    "sliding_window",
    "sliding_window_size",
    "window_size",
    "attention_chunk_size",
    "attn_logit_softcapping",
    "attention_logit_cap",
    "final_logit_softcapping",
    "logits_soft_cap",
    "output_logit_soft_cap",
    "gate_soft_cap",
    "softcap",
    "logits_scaling",
    "logit_scale",
    "lm_head_multiplier",
)
"""Keys of configurations: tokens that a layer sees, caps of scores and logits, their factors."""


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


def _refuse_limits_below_one(config: Any) -> None:
    """Stop at a window, chunk, cap or factor of 0 or less, which other libraries read as 'none'.

    transformers reads the number: a window of 0 hides every token, a cap of −1 caps at 1. A key
    that the architecture doesn't define has no effect.

    Raises:
        TokenmartError: there is one (code `limit-below-one`).
    """
    for key in LIMITS:
        value = getattr(config, key, None)
        if hasattr(type(config), key) and isinstance(value, (int, float)) and value <= 0:
            raise TokenmartError(
                f"{config.model_type}: {key}: {value} in its config.json is read as a number, not "
                f"as 'none'; give a copy of the model whose config.json has `{key}: null`, or no "
                "such key",
                code="limit-below-one",
                where=key,
            )


def refuse_unsupported(model: Any) -> None:
    """Stop at what transformers computes otherwise than the architecture was trained.

    Raises:
        TokenmartError: Falcon with ALiBi and eager attention, where the bias is added twice;
            attention whose scores are capped, without the cap; a window, chunk, cap or factor
            of 0 or less.
    """
    config = model.config.get_text_config()
    _refuse_limits_below_one(config)
    if caps_attention(config) and config._attn_implementation in SDPA:
        raise TokenmartError(
            f"{config.model_type}: {config._attn_implementation} attention leaves out the cap of "
            "its scores; use --attention eager",
            code="wrong-attention",
            where=config.model_type,
        )
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
