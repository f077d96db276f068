"""A Llama written down from its equations, in float64: the reference for position encodings.

Su et al. 2021 (RoPE), Touvron et al. 2023 (the layers). It shares nothing with transformers but
the names of the weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def frozen_ntk_theta(
    length: int, trained: int, factor: float, theta: float = 10_000.0, head_width: int = 128
) -> float:
    """RoPE base of NTK-aware scaling at one length, kept for all shorter ones.

    Args:
        length: tokens of the sequences of the continued training.
        trained: context limit before it.
        factor: of the configuration's dynamic scaling.
        theta: base before it.
        head_width: of one attention head.
    """
    stretch = factor * length / trained - (factor - 1)
    return float(theta * stretch ** (head_width / (head_width - 2)))


def token_logprobs(
    weights: dict[str, Any], config: Any, ids: NDArray[np.int32], theta: float
) -> Array:
    """Log-prob of ids[1:], each given all before it; shape (n - 1,), nats.

    Args:
        weights: a Llama's state dict.
        config: its configuration: numbers of layers and heads, epsilon.
        ids: shape (n,).
        theta: base of plain RoPE; whatever scaling the configuration has is not looked at.
    """
    w: dict[str, Array] = {name: t.double().numpy() for name, t in weights.items()}
    heads, groups, width = config.num_attention_heads, config.num_key_value_heads, config.head_dim
    angle = np.outer(np.arange(len(ids)), theta ** (-np.arange(0, width, 2) / width))
    cos, sin = np.cos(angle), np.sin(angle)

    def rotated(x: Array) -> Array:
        a, b = x[..., : width // 2], x[..., width // 2 :]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    def norm(x: Array, scale: Array) -> Array:
        root = np.sqrt((x**2).mean(-1, keepdims=True) + config.rms_norm_eps)
        return np.asarray(scale * x / root)

    def split(x: Array, count: int) -> Array:
        return x.reshape(len(ids), count, width).transpose(1, 0, 2)

    causal = np.tril(np.ones((len(ids), len(ids)), dtype=bool))
    x = w["model.embed_tokens.weight"][ids]
    for number in range(config.num_hidden_layers):
        at = f"model.layers.{number}."
        h = norm(x, w[at + "input_layernorm.weight"])
        q, k, v = (h @ w[f"{at}self_attn.{name}_proj.weight"].T for name in "qkv")
        query = rotated(split(q, heads))
        key, value = (
            np.repeat(each, heads // groups, 0)
            for each in (rotated(split(k, groups)), split(v, groups))
        )
        score = np.where(causal, query @ key.transpose(0, 2, 1) / np.sqrt(width), -np.inf)
        share = np.exp(score - score.max(-1, keepdims=True))
        share /= share.sum(-1, keepdims=True)
        mixed = (share @ value).transpose(1, 0, 2).reshape(len(ids), heads * width)
        x = x + mixed @ w[at + "self_attn.o_proj.weight"].T
        h = norm(x, w[at + "post_attention_layernorm.weight"])
        gate = h @ w[at + "mlp.gate_proj.weight"].T
        up = h @ w[at + "mlp.up_proj.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * up) @ w[at + "mlp.down_proj.weight"].T
    logits = norm(x, w["model.norm.weight"]) @ w["lm_head.weight"].T
    top = logits.max(-1, keepdims=True)
    logprobs = logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))
    return logprobs[np.arange(len(ids) - 1), ids[1:]]
