"""From a checkpoint to a model of transformers in memory, with its interventions."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoConfig

from extract.checkpoints import Checkpoint, trusts_remote_code
from extract.failures import load_errors
from extract.models import interventions
from extract.models.placement import device_map_options
from extract.models.weights import load_weights
from extract.scoring.numerics import LOCKED_ARCHITECTURES
from warehouse.errors import TokenmartError
from warehouse.problem.models import ModelSpec


def load_config(checkpoint: Checkpoint, spec: ModelSpec) -> Any:
    """The model's configuration with interventions applied.

    Raises:
        TokenmartError: it can't be read, or an intervention doesn't fit it.
    """
    with load_errors(spec):
        config = AutoConfig.from_pretrained(
            checkpoint.folder, trust_remote_code=trusts_remote_code(spec)
        )
    interventions.configure(config, spec)
    return config


def check_weights(checkpoint: Checkpoint, spec: ModelSpec) -> None:
    """Compare a checkpoint's tensors with those of its model; no weights are read.

    Raises:
        TokenmartError: it can't be loaded, or its files have not all tensors.
    """
    with load_errors(spec):
        load_weights(
            checkpoint.folder,
            spec.full_id,
            config=load_config(checkpoint, spec),
            trust_remote_code=trusts_remote_code(spec),
            use_safetensors=True,
            device_map="meta",
        )


def load_model(
    checkpoint: Checkpoint,
    spec: ModelSpec,
    *,
    device: str,
    dtype: str,
    attention: str | None = None,
    working: int = 0,
    cache_share: float = 0.0,
) -> Any:
    """Load a model in eval mode, with its interventions, on a device.

    Its attribute `loading_record` records that all its tensors were in the files, for the ledger.

    Args:
        checkpoint: from `find_checkpoint`.
        spec: the model of the problem file.
        device: `cpu`, `cuda`, `cuda:1` …, or `auto-map` for accelerate's device map.
        dtype: a torch dtype's name.
        attention: attention implementation; None leaves the choice to transformers.
        working: bytes that a device map leaves free on each GPU for activations and logits.
        cache_share: bytes of KV cache for each byte of weights, which it leaves free, too.

    Raises:
        TokenmartError: it can't be loaded, its files lack tensors, its interventions can't act on
            offloaded weights, or an architecture that has fused attention got eager attention
            unasked.
    """
    if interventions.needs_masks(spec):
        attention = "sdpa"
    options: dict[str, Any] = {}
    if device == "auto-map":
        options = device_map_options(working, cache_share)
    elif device != "cpu":
        # straight to the device: no copy of the weights waits in the host's memory
        options = {"device_map": {"": device}}
    if attention is not None:
        options["attn_implementation"] = attention
    with load_errors(spec):
        loaded = load_weights(
            checkpoint.folder,
            spec.full_id,
            config=load_config(checkpoint, spec),
            dtype=getattr(torch, dtype),
            trust_remote_code=trusts_remote_code(spec),
            use_safetensors=True,
            **options,
        )
    model = loaded.model
    # the engine gives it to the ledger
    model.loading_record = loaded.record
    interventions.apply(model, spec)
    config = model.config.get_text_config()
    if (
        attention != "eager"
        and config._attn_implementation == "eager"
        and config.model_type in LOCKED_ARCHITECTURES
    ):
        raise TokenmartError(
            f"{spec.full_id}: transformers chose eager attention, which keeps all scores "
            "in memory and rounds them to the dtype; ask for it with --attention "
            "eager, or upgrade torch"
        )
    return model
