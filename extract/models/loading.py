"""From a checkpoint to a model in memory, with its interventions, ready to score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from extract.checkpoints import Checkpoint, trusts_remote_code
from extract.devices import free_unused
from extract.failures import is_out_of_memory, load_errors
from extract.models.placement import LOCKED_ARCHITECTURES
from extract.models.weights import LoadedWeights, load_weights
from warehouse.errors import TokenmartError
from warehouse.probes.request import Ids
from warehouse.problem.models import ModelSpec

if TYPE_CHECKING:
    from extract.planning.cost import Footprint
    from extract.scoring.engine import Engine


@dataclass(frozen=True)
class Loading:
    """Which model to load, and how.

    Attributes:
        spec: the model of the problem file, with its interventions.
        checkpoint: its files: safetensors, config.json, tokenizer.
        device: `cpu`, `cuda`, `cuda:1` …, or `auto-map` for one model over several GPUs.
        dtype: a torch dtype's name: float32, bfloat16 or float16.
        attention: attention implementation; None leaves the choice to transformers.
        memory: what the longest document needs, for a device map; None where it is not known.
        sample: the first document's tokens, to check the model on; None where there is none.
        top_k: number of top-k tokens wanted for each position, at most the vocabulary.
        fused: whether fused layers may replace the model's own.
    """

    spec: ModelSpec
    checkpoint: Checkpoint
    device: str
    dtype: str
    attention: str | None = None
    memory: Footprint | None = None
    sample: Ids | None = None
    top_k: int = 0
    fused: bool = True


def load_engine(loading: Loading) -> Engine:
    """Load a checkpoint, ready to score: compared with the model's own forward.

    Raises:
        TokenmartError: see `load_model` and `Engine.check`; or out of memory.
    """
    from extract.scoring.engine import Engine

    # what the model before held goes back to the device, not only to its allocator
    free_unused()
    try:
        return Engine(
            load_model(loading),
            sample=loading.sample,
            top_k=loading.top_k,
            fused=loading.fused,
        )
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        shortage = str(error)[:80]
    # outside the handler: the traceback refers to what was loaded, and the next model needs it
    raise TokenmartError(
        f"{loading.spec.full_id}: out of memory while loading ({shortage}); use --dtype "
        "bfloat16, --device auto-map or a larger device",
        code="out-of-memory",
        where=loading.spec.full_id,
    )


def load_config(checkpoint: Checkpoint, spec: ModelSpec) -> Any:
    """The model's configuration with interventions applied.

    Raises:
        TokenmartError: it can't be read, or an intervention doesn't fit it.
    """
    from transformers import AutoConfig

    from extract.models import interventions

    with load_errors(spec, checkpoint.folder):
        config = AutoConfig.from_pretrained(
            checkpoint.folder, trust_remote_code=trusts_remote_code(spec)
        )
    interventions.configure(config, spec)
    return config


def _load_weights(checkpoint: Checkpoint, spec: ModelSpec, **options: Any) -> LoadedWeights:
    with load_errors(spec, checkpoint.folder):
        return load_weights(
            checkpoint.folder,
            spec.full_id,
            config=load_config(checkpoint, spec),
            trust_remote_code=trusts_remote_code(spec),
            use_safetensors=True,
            **options,
        )


def load_model(loading: Loading) -> Any:
    """Load a model in eval mode, with its interventions, on a device.

    Its attribute `loading_record` records that all its tensors were in the files, for the ledger.

    Raises:
        TokenmartError: it can't be loaded, its files lack tensors, its interventions can't act on
            offloaded weights, or an architecture that has fused attention got eager attention
            unasked.
    """
    from extract.models import interventions
    from extract.scoring.attention import caps_attention

    spec, device = loading.spec, loading.device
    needs_masks = interventions.needs_masks(spec)
    attention = "sdpa" if needs_masks else loading.attention
    if (needs_masks or attention is None) and caps_attention(load_config(loading.checkpoint, spec)):
        attention = "eager"
    options: dict[str, Any] = {}
    if device == "auto-map":
        from accelerate.utils import get_max_memory

        memory = weights_memory(get_max_memory(), loading.memory)
        options = {"device_map": "auto", "max_memory": memory}
    elif device != "cpu":
        # straight to the device: no copy of the weights waits in the host's memory
        options = {"device_map": {"": device}}
    if attention is not None:
        options["attn_implementation"] = attention
    loaded = _load_weights(loading.checkpoint, spec, dtype=loading.dtype, **options)
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
            "eager, or upgrade torch",
            code="eager-attention",
            where=spec.full_id,
        )
    return model


def weights_memory(free: Mapping[int | str, int], needed: Footprint | None) -> dict[int | str, int]:
    """Bytes for weights per device: what is free, less what a forward needs there.

    Each GPU computes its own layers: it needs the activations of one layer and a block of logits,
    and of the KV cache the part of its layers.
    """
    if needed is None:
        return dict(free)
    working, cache_share = needed.activations + needed.logits, needed.cache / needed.weights
    return {
        device: int(max(0, most - working) / (1 + cache_share)) if isinstance(device, int) else most
        for device, most in free.items()
    }
