"""Sizes of decoders, from which memory is predicted before anything is downloaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from warehouse.frozen import Frozen


class ModelShape(Frozen):
    """Sizes of a decoder.

    `kind` is its `model_type` in transformers, `inner` the width of the feed-forward layers,
    `window` the sliding window of its local layers in tokens; with `tied` the head shares the
    weights of the embeddings.
    """

    kind: str
    layers: int = Field(gt=0)
    width: int = Field(gt=0)
    inner: int = Field(gt=0)
    heads: int = Field(gt=0)
    kv_heads: int = Field(gt=0)
    vocabulary: int = Field(gt=0)
    head_width: int | None = Field(default=None, gt=0)
    window: int | None = Field(default=None, gt=0)
    tied: bool = False

    @property
    def kv_width(self) -> int:
        """Keys (or values) of one token in one layer."""
        return self.kv_heads * (self.head_width or self.width // self.heads)

    @property
    def query_width(self) -> int:
        """Queries of one token in one layer."""
        return self.heads * (self.head_width or self.width // self.heads)

    @classmethod
    def of_config(cls, config: Mapping[str, Any]) -> ModelShape | None:
        """Read a transformers configuration (its JSON); None when it is not of a known form."""
        try:
            config = {**config, **config.get("text_config", {})}
            heads = int(config["num_attention_heads"])
            # configurations of Qwen2 name a window that they don't use
            window = config.get("sliding_window")
            return cls(
                kind=config["model_type"],
                layers=config["num_hidden_layers"],
                width=config["hidden_size"],
                inner=config["intermediate_size"],
                heads=heads,
                kv_heads=config.get("num_key_value_heads") or heads,
                vocabulary=config["vocab_size"],
                head_width=config.get("head_dim"),
                window=window if config.get("use_sliding_window", True) else None,
                tied=bool(config.get("tie_word_embeddings", False)),
            )
        except (KeyError, TypeError, ValueError):
            return None

    @classmethod
    def assumed(cls, parameters: int) -> ModelShape:
        """A typical decoder of this many parameters: 12 · layers · width², width = 128 · layers."""
        layers = max(1, round((parameters / (12 * 128**2)) ** (1 / 3)))
        heads = layers
        return cls(
            kind="assumed",
            layers=layers,
            width=128 * layers,
            inner=344 * layers,
            heads=heads,
            kv_heads=heads,
            vocabulary=128_000,
        )
