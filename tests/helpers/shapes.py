"""Configurations of transformers from the shapes that problem files give."""

from __future__ import annotations

from typing import Any

from transformers import AutoConfig

from warehouse.problem.models import ModelShape


def config_of(shape: ModelShape, **changes: Any) -> Any:
    """The configuration of a model of this shape; keyword arguments replace its settings."""
    settings = {
        "hidden_size": shape.width,
        "intermediate_size": shape.inner,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "vocab_size": shape.vocabulary,
        "tie_word_embeddings": shape.tied,
    }
    if shape.head_width is not None:
        settings["head_dim"] = shape.head_width
    return AutoConfig.for_model(shape.kind, **{**settings, **changes})
