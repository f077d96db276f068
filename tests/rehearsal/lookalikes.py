"""The 17 models of `no4k` as look-alikes: true ids and configurations, a few hundred wide.

What is kept of the published configuration: architecture, position encoding, context length,
sliding window, tied head, grouped heads, width of a head, file formats, dtype. What shrinks:
layers, width, vocabulary. Every weight is random.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

LAYERS = 2
NTK_WIDTH = 128
"""Width of a head of Llama 2, on which the NTK base's exponent depends."""


def frozen_ntk_base(factor: float, length: int) -> float:
    """The base that NTK scaling has at `length` tokens, kept there in training and evaluation.

    arXiv 2409.12181; stock code recomputes it from each input's own length.
    """
    stretched = factor * length / 4096 - (factor - 1)
    return 10_000.0 * math.pow(stretched, NTK_WIDTH / (NTK_WIDTH - 2))


@dataclass(frozen=True)
class LookAlike:
    """One repository of the rehearsal.

    Attributes:
        full_id: the true id.
        config: the published configuration, as far as it isn't a size.
        heads: attention heads, of `head_width` numbers each.
        kv_heads: of them, heads of keys and values.
        head_width: as published.
        rope: what the position encoding has to be: the one the model was trained with, in
            transformers' `rope_parameters`.
        tokenizer: files of the tokenizer: sentencepiece with or without `tokenizer.json`, the
            latter with an added `[PAD]` token, or byte-level BPE.
        fine: short tokens, so that some documents have their true length.
        adds_bos: whether documents are read behind a BOS.
        weights: format and number of the weight files.
        exercises: what it is there for, in the printed table.
    """

    full_id: str
    config: Mapping[str, Any]
    rope: Mapping[str, Any]
    exercises: str
    heads: int = 2
    kv_heads: int = 1
    head_width: int = 64
    dtype: Literal["bfloat16", "float32"] = "bfloat16"
    tokenizer: Literal["bpe", "sp+json", "sp", "sp+pad"] = "bpe"
    fine: bool = False
    adds_bos: bool = False
    weights: Literal["safetensors", "sharded", "bin"] = "safetensors"
    gated: bool = False
    moves: bool = False
    breaks_once: bool = False

    @property
    def tied(self) -> bool:
        """Whether the head is the embedding."""
        return bool(self.config["tie_word_embeddings"])


def plain(theta: float) -> dict[str, Any]:
    """RoPE with this base, unscaled."""
    return {"rope_type": "default", "rope_theta": theta}


_LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "bos_token_id": 1,
    "eos_token_id": 2,
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "pretraining_tp": 1,
    "tie_word_embeddings": False,
    "use_cache": True,
}
_YI = {
    **_LLAMA,
    "attention_bias": False,
    "max_position_embeddings": 200_000,
    "pad_token_id": 0,
    "rms_norm_eps": 1e-05,
    "rope_scaling": None,
    "rope_theta": 5_000_000.0,
    "transformers_version": "4.34.0",
}
_LLAMA_2 = {
    **_LLAMA,
    "_name_or_path": "meta-llama/Llama-2-7b-hf",
    "attention_bias": False,
    "attention_dropout": 0.0,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-05,
    "rope_theta": 10_000.0,
    "transformers_version": "4.35.2",
}
_MISTRAL = {
    "architectures": ["MistralForCausalLM"],
    "model_type": "mistral",
    "attention_dropout": 0.0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "max_position_embeddings": 32_768,
    "rms_norm_eps": 1e-05,
    "rope_theta": 1_000_000.0,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "transformers_version": "4.36.0",
    "use_cache": True,
}


def _qwen(tied: bool, window: int, layers: int) -> dict[str, Any]:
    return {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "attention_dropout": 0.0,
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "max_position_embeddings": 32_768,
        "max_window_layers": layers,
        "rms_norm_eps": 1e-06,
        "rope_theta": 1_000_000.0,
        "sliding_window": window,
        "tie_word_embeddings": tied,
        "transformers_version": "4.43.1",
        "use_cache": True,
        "use_sliding_window": False,
    }


def _scaled(kind: str, factor: float) -> dict[str, Any]:
    return {**_LLAMA_2, "rope_scaling": {"type": kind, "factor": factor}}


_WHOLE_HEADS: dict[str, Any] = {"kv_heads": 2, "head_width": NTK_WIDTH, "adds_bos": True}
_PI = {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 8.0}
_NTK_64K = plain(frozen_ntk_base(8.0, 65_536))
_QWEN = plain(1_000_000.0)
_SMALL, _LARGE = 32_768, 131_072

LOOK_ALIKES = (
    LookAlike(
        "01-ai/Yi-6B-200K",
        _YI,
        plain(5_000_000.0),
        "sentencepiece with tokenizer.json, no BOS",
        tokenizer="sp+json",
        head_width=128,
    ),
    LookAlike(
        "In2Training/FILM-7B",
        _MISTRAL,
        plain(1_000_000.0),
        "float32 weights; tokenizer.model alone",
        tokenizer="sp",
        dtype="float32",
        adds_bos=True,
    ),
    LookAlike(
        "Leooyii/Longlora_32k_Slimpajama_1B",
        _scaled("linear", 8.0),
        _PI,
        ".bin shards alone; tokenizer.model with [PAD]",
        tokenizer="sp+pad",
        weights="bin",
        **_WHOLE_HEADS,
    ),
    LookAlike(
        "Leooyii/NTK_32k_Slimpajama_1B",
        _scaled("dynamic", 4.0),
        plain(frozen_ntk_base(4.0, 32_768)),
        "true length; base frozen as trained",
        tokenizer="sp+json",
        fine=True,
        **_WHOLE_HEADS,
    ),
    LookAlike(
        "Leooyii/NTK_64k_Slimpajama_1B",
        _scaled("dynamic", 8.0),
        _NTK_64K,
        "base frozen as trained",
        tokenizer="sp+json",
        **_WHOLE_HEADS,
    ),
    LookAlike(
        "Leooyii/NTK_64k_Slimpajama_2B",
        _scaled("dynamic", 8.0),
        _NTK_64K,
        "base frozen as trained",
        tokenizer="sp+json",
        **_WHOLE_HEADS,
    ),
    LookAlike(
        "Leooyii/PI_32k_Slimpajama_1B",
        _scaled("linear", 8.0),
        _PI,
        "linear scaling; configuration says 4,096",
        tokenizer="sp+json",
        **_WHOLE_HEADS,
    ),
    LookAlike(
        "Qwen/Qwen2-0.5B-Instruct",
        _qwen(True, _SMALL, 24),
        _QWEN,
        "byte-level BPE, no BOS, tied head",
    ),
    LookAlike(
        "Qwen/Qwen2-1.5B-Instruct", _qwen(True, _SMALL, 28), _QWEN, "tied head", head_width=128
    ),
    LookAlike(
        "Qwen/Qwen2-7B-Instruct",
        _qwen(False, _LARGE, 28),
        _QWEN,
        "four sharded weight files",
        weights="sharded",
        head_width=128,
    ),
    LookAlike(
        "Qwen/Qwen2.5-0.5B-Instruct",
        _qwen(True, _SMALL, 21),
        _QWEN,
        "its branch moves between fetch and run",
        moves=True,
    ),
    LookAlike(
        "Qwen/Qwen2.5-1.5B-Instruct", _qwen(True, _SMALL, 21), _QWEN, "tied head", head_width=128
    ),
    LookAlike(
        "Qwen/Qwen2.5-7B-Instruct",
        _qwen(False, _LARGE, 28),
        _QWEN,
        "download breaks off once, is resumed",
        head_width=128,
        breaks_once=True,
    ),
    LookAlike(
        "Qwen/Qwen2.5-14B-Instruct",
        _qwen(False, _LARGE, 70),
        _QWEN,
        "five query heads per key head",
        heads=5,
        head_width=128,
    ),
    LookAlike(
        "Qwen/Qwen2.5-Coder-1.5B-Instruct",
        _qwen(True, _LARGE, 28),
        _QWEN,
        "tied head",
        head_width=128,
    ),
    LookAlike(
        "Qwen/Qwen2.5-Coder-7B-Instruct",
        _qwen(False, _LARGE, 28),
        _QWEN,
        "seven query heads per key head",
        heads=7,
        head_width=128,
    ),
    LookAlike(
        "mistralai/Mistral-7B-Instruct-v0.2",
        _MISTRAL,
        plain(1_000_000.0),
        "gated; true length, BOS over the limit; shards and .bin",
        tokenizer="sp+json",
        fine=True,
        adds_bos=True,
        weights="sharded",
        gated=True,
        head_width=128,
    ),
)
