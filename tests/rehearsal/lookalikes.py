"""The 17 models of `no4k` as look-alikes: true ids and configurations, a few hundred wide.

What is kept of the published configuration: architecture, position encoding, context length,
sliding window, tied head, grouped heads, width of a head, file formats, dtype. What shrinks:
layers, width, vocabulary. Every weight is random.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from plain_llama import frozen_ntk_theta

LAYERS = 2


@dataclass(frozen=True)
class LookAlike:
    """One repository of the rehearsal.

    Attributes:
        full_id: the true id.
        config: the published configuration, as far as it isn't a size.
        rope: what the position encoding has to be: the one the model was trained with, in
            transformers' `rope_parameters`.
        heads: attention heads, of `head_width` numbers each.
        kv_heads: of them, heads of keys and values.
        head_width: as published.
        tokenizer: files of the tokenizer: sentencepiece with or without `tokenizer.json`, the
            latter with an added `[PAD]` token, or byte-level BPE.
        fine: short tokens, so that one document has its true length.
        adds_bos: whether documents are read behind a BOS.
        weights: format and number of the weight files.
        gated: opened by a token only.
        moves: its branch moves between fetch and run.
        breaks_once: its first download breaks off.
    """

    full_id: str
    config: Mapping[str, Any]
    rope: Mapping[str, Any]
    heads: int = 2
    kv_heads: int = 1
    head_width: int = 128
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


def _config(kind: str, name: str, context: int, theta: float, **more: Any) -> dict[str, Any]:
    return {
        "architectures": [f"{name}ForCausalLM"],
        "model_type": kind,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "max_position_embeddings": context,
        "rms_norm_eps": 1e-05,
        "rope_theta": theta,
        "tie_word_embeddings": False,
        **more,
    }


def _plain(theta: float) -> dict[str, Any]:
    return {"rope_type": "default", "rope_theta": theta}


def _llama_2(name: str, scaling: str, factor: float, rope: Any, **more: Any) -> LookAlike:
    """Llama 2 continued at another length; the configuration still states 4,096 tokens."""
    scaled = {"type": scaling, "factor": factor}
    config = _config("llama", "Llama", 4096, 10_000.0, rope_scaling=scaled)
    given = {"tokenizer": "sp+json", **more}
    return LookAlike(f"Leooyii/{name}", config, rope, kv_heads=2, adds_bos=True, **given)


def _mistral(full_id: str, **more: Any) -> LookAlike:
    config = _config("mistral", "Mistral", 32_768, 1_000_000.0, sliding_window=None)
    return LookAlike(full_id, config, _plain(1_000_000.0), adds_bos=True, **more)


def _qwen(name: str, window: int, layers: int, tied: bool = False, **more: Any) -> LookAlike:
    config = _config(
        "qwen2",
        "Qwen2",
        32_768,
        1_000_000.0,
        max_window_layers=layers,
        rms_norm_eps=1e-06,
        sliding_window=window,
        tie_word_embeddings=tied,
        use_sliding_window=False,
    )
    return LookAlike(f"Qwen/{name}-Instruct", config, _plain(1_000_000.0), **more)


_YI = _config("llama", "Llama", 200_000, 5_000_000.0, rope_scaling=None, pad_token_id=0)
_PI = {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 8.0}
_NTK_32K = _plain(frozen_ntk_theta(32_768, trained=4096, factor=4.0))
_NTK_64K = _plain(frozen_ntk_theta(65_536, trained=4096, factor=8.0))
_SMALL, _LARGE = 32_768, 131_072

LOOK_ALIKES = (
    LookAlike("01-ai/Yi-6B-200K", _YI, _plain(5_000_000.0), tokenizer="sp+json"),
    _mistral("In2Training/FILM-7B", tokenizer="sp", dtype="float32", head_width=64),
    _llama_2("Longlora_32k_Slimpajama_1B", "linear", 8.0, _PI, tokenizer="sp+pad", weights="bin"),
    _llama_2("NTK_32k_Slimpajama_1B", "dynamic", 4.0, _NTK_32K, fine=True),
    _llama_2("NTK_64k_Slimpajama_1B", "dynamic", 8.0, _NTK_64K),
    _llama_2("NTK_64k_Slimpajama_2B", "dynamic", 8.0, _NTK_64K),
    _llama_2("PI_32k_Slimpajama_1B", "linear", 8.0, _PI),
    _qwen("Qwen2-0.5B", _SMALL, 24, tied=True, head_width=64),
    _qwen("Qwen2-1.5B", _SMALL, 28, tied=True),
    _qwen("Qwen2-7B", _LARGE, 28, weights="sharded"),
    _qwen("Qwen2.5-0.5B", _SMALL, 21, tied=True, head_width=64, moves=True),
    _qwen("Qwen2.5-1.5B", _SMALL, 21, tied=True),
    _qwen("Qwen2.5-7B", _LARGE, 28, breaks_once=True),
    _qwen("Qwen2.5-14B", _LARGE, 70, heads=5),
    _qwen("Qwen2.5-Coder-1.5B", _LARGE, 28, tied=True),
    _qwen("Qwen2.5-Coder-7B", _LARGE, 28, heads=7),
    _mistral(
        "mistralai/Mistral-7B-Instruct-v0.2",
        tokenizer="sp+json",
        fine=True,
        weights="sharded",
        gated=True,
    ),
)
