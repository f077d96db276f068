"""Interventions: change a checkpoint's long-context ability in a known way, without training.

The position encoding as trained (`rope` of the problem file) is applied with them, and first.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from warehouse.errors import TokenmartError
from warehouse.problem.models import (
    DropLayersIntervention,
    ModelSpec,
    NoiseIntervention,
    QuantizeIntervention,
    RopeIntervention,
    TemperatureIntervention,
    WindowIntervention,
)

KEPT_ROPE_KEYS = ("rope_theta", "partial_rotary_factor", "original_max_position_embeddings")


def configure(config: Any, spec: ModelSpec) -> None:
    """Apply the trained position encoding, then the interventions that act on the configuration.

    The configuration is changed in place, before the weights are loaded.

    Raises:
        TokenmartError: rotary parameters for a model that has no rotary embeddings.
    """
    config = config.get_text_config()
    if (rope := spec.rope) is not None:
        parameters = _rope_parameters(config, spec, "rope")
        # what is no part of a scaling stays: the base, and the share of a head that is rotated
        for key in parameters.keys() - KEPT_ROPE_KEYS:
            del parameters[key]
        _change_rope(config, parameters, rope.theta, rope.type, rope.factor)
    for change in spec.interventions:
        if isinstance(change, RopeIntervention):
            parameters = _rope_parameters(config, spec, "interventions.rope")
            _change_rope(config, parameters, change.theta, change.scaling, change.factor)


def needs_masks(spec: ModelSpec) -> bool:
    """Whether an intervention needs an attention with arbitrary masks (SDPA)."""
    return any(isinstance(item, WindowIntervention) for item in spec.interventions)


def apply(model: Any, spec: ModelSpec) -> None:
    """Apply the interventions that act on a loaded model, in the order of the problem file.

    Windows come last, after layers were dropped: every layer left gets a hook.
    """
    for change in sorted(spec.interventions, key=lambda c: isinstance(c, WindowIntervention)):
        of_weights = isinstance(change, NoiseIntervention | QuantizeIntervention)
        if of_weights and is_offloaded(model):
            raise TokenmartError(
                f"{spec.full_id}: interventions.{change.kind} needs all weights in memory, and the "
                "device map keeps a part on disk; use --device cpu or a larger machine",
                code="impossible-intervention",
                where=f"interventions.{change.kind}",
            )
        if isinstance(change, NoiseIntervention):
            _add_noise(model, change)
        elif isinstance(change, QuantizeIntervention):
            _quantize(model, spec, change)
        elif isinstance(change, TemperatureIntervention):
            _heat_attention(model, spec, change)
        elif isinstance(change, DropLayersIntervention):
            _drop_layers(model, spec, change)
        elif isinstance(change, WindowIntervention):
            _limit_attention(model, change)


def _rope_parameters(config: Any, spec: ModelSpec, what: str) -> dict[str, Any]:
    """The rotary parameters that a change acts on; edited in place.

    Architectures with several kinds of layers keep one set for each: it is that of the layers
    with full attention.
    """
    rope: dict[str, Any] = getattr(config, "rope_parameters", None) or {}
    parameters: dict[str, Any] = rope if "rope_theta" in rope else rope.get("full_attention", {})
    if not parameters:
        raise TokenmartError(
            f"{spec.full_id}: {what} needs rotary embeddings in layers with full attention, and "
            f"{type(config).__name__} has none; remove it",
            code="impossible-intervention",
            where=what,
        )
    return parameters


def _change_rope(
    config: Any,
    parameters: dict[str, Any],
    theta: float | None,
    scaling: str | None,
    factor: float | None,
) -> None:
    if theta is not None:
        parameters["rope_theta"] = theta
    if scaling is None:
        return
    parameters["rope_type"] = scaling
    # the name of older configurations
    parameters.pop("type", None)
    if factor is not None:
        parameters["factor"] = factor
    if scaling == "yarn":
        parameters.setdefault("original_max_position_embeddings", config.max_position_embeddings)


def _layers(model: Any) -> nn.ModuleList:
    layers = model.get_decoder().layers
    assert isinstance(layers, nn.ModuleList)
    return layers


def _add_noise(model: Any, change: NoiseIntervention) -> None:
    generator = torch.Generator().manual_seed(change.seed)
    with torch.no_grad():
        for _, parameter in sorted(_layers(model).named_parameters()):
            if parameter.dim() >= 2:
                noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float32)
                spread = parameter.float().std().item() * change.scale
                parameter.add_(noise.to(parameter.device).mul_(spread).to(parameter.dtype))


def _quantize(model: Any, spec: ModelSpec, change: QuantizeIntervention) -> None:
    for name, parameter in sorted(_layers(model).named_parameters()):
        if parameter.dim() >= 2:
            if parameter.shape[-1] % change.group:
                raise TokenmartError(
                    f"{spec.full_id}: interventions.quantize: group {change.group} does not "
                    f"divide the {parameter.shape[-1]} inputs of {name}; give another",
                    code="impossible-intervention",
                    where="interventions.quantize",
                )
            with torch.no_grad():
                parameter.copy_(quantized(parameter, change.bits, change.group))


def quantized(weights: Tensor, bits: int, group: int) -> Tensor:
    """Weights rounded to nearest on a symmetric grid, and back.

    Args:
        weights: shape (…, n), n a multiple of `group`; computed in float32.
        bits: a group keeps 2^bits - 1 values: 0 and as many on either side.
        group: weights next to each other that share a scale, their largest magnitude.

    Returns:
        The same shape, in float32.
    """
    steps = 2 ** (bits - 1) - 1
    groups = weights.float().reshape(*weights.shape[:-1], -1, group)
    scale: Tensor = groups.abs().amax(dim=-1, keepdim=True) / steps
    # a group of zeros has no scale and stays
    codes: Tensor = torch.where(scale > 0, groups / scale, groups).round().clamp(-steps, steps)
    rounded: Tensor = (codes * scale).reshape(weights.shape)
    return rounded


def _heat_attention(model: Any, spec: ModelSpec, change: TemperatureIntervention) -> None:
    for layer in _layers(model):
        if not hasattr(layer.self_attn, "scaling"):
            raise TokenmartError(
                f"{spec.full_id}: interventions.attention_temperature: the attention of "
                f"{type(model).__name__} keeps no scaling of its logits; remove it",
                code="impossible-intervention",
                where="interventions.attention_temperature",
            )
        layer.self_attn.scaling = layer.self_attn.scaling / change.temperature  # type: ignore[operator]


def _drop_layers(model: Any, spec: ModelSpec, change: DropLayersIntervention) -> None:
    decoder = model.get_decoder()
    count = len(decoder.layers)
    outside = [index for index in change.layers if not -count <= index < count]
    if outside or len({index % count for index in change.layers}) >= count:
        raise TokenmartError(
            f"{spec.full_id}: interventions.drop_layers: {outside or list(change.layers)} of "
            f"{count} layers; give indices from {-count} to {count - 1} and leave one layer",
            code="impossible-intervention",
            where="interventions.drop_layers",
        )
    dropped = {index % count for index in change.layers}
    kept = [index for index in range(count) if index not in dropped]
    decoder.layers = nn.ModuleList(decoder.layers[index] for index in kept)
    for number, layer in enumerate(decoder.layers):
        # the cache is addressed by this number
        layer.self_attn.layer_idx = number
    for config in {id(c): c for c in (model.config, decoder.config)}.values():
        config.num_hidden_layers = len(kept)
        if getattr(config, "layer_types", None):
            config.layer_types = [config.layer_types[index] for index in kept]


class _WindowMask:
    """The window mask of the current forward, built once and shared by all layers."""

    def __init__(self, change: WindowIntervention) -> None:
        self.change = change
        self._key: tuple[Tensor | None, int, int] | None = None
        self._mask: Tensor | None = None

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        hidden: Tensor = args[0] if args else kwargs["hidden_states"]
        mask: Tensor | None = kwargs.get("attention_mask")
        cache = kwargs.get("past_key_values")
        layer = int(module.self_attn.layer_idx)  # type: ignore[union-attr, arg-type]
        past = 0 if cache is None else int(cache.get_seq_length(layer))
        length = hidden.shape[1]
        same = self._key is not None and self._key[0] is mask and self._key[1:] == (length, past)
        if not same:
            self._mask = self._build(mask, past, kwargs["position_ids"])
            self._key = (mask, length, past)
        return args, {**kwargs, "attention_mask": self._mask}

    def _build(self, mask: Tensor | None, past: int, positions: Tensor) -> Tensor:
        query = positions[0]
        key = torch.cat([torch.arange(past, device=query.device), query])
        distance = query[:, None] - key[None]
        allowed = (distance >= 0) & ((distance < self.change.window) | (key < self.change.sinks))
        allowed = allowed[None, None]
        if mask is None:
            return allowed
        if mask.dtype == torch.bool:
            return mask & allowed
        return mask.masked_fill(~allowed, torch.finfo(mask.dtype).min)


def _limit_attention(model: Any, change: WindowIntervention) -> None:
    shared: dict[Any, _WindowMask] = {}
    for layer in _layers(model):
        # layers of one kind get the same mask from the model, so they share ours
        kind = getattr(layer, "attention_type", None)
        hook = shared.setdefault(kind, _WindowMask(change))
        layer.register_forward_pre_hook(hook, with_kwargs=True)


def is_offloaded(model: nn.Module) -> bool:
    """Whether a part of the weights is loaded from the processor or the disk when it is used."""
    return any(parameter.device.type == "meta" for parameter in model.parameters())
