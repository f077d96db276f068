"""Changes of a checkpoint in a problem file: corrections of its configuration, interventions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from warehouse.frozen import Frozen


class Rope(Frozen):
    """Rotary position encoding as the model was trained, instead of that of its configuration.

    `theta` and `factor` are those of transformers' `rope_parameters`; without `theta`, that of the
    configuration is used. It corrects a configuration and is not an intervention.
    """

    type: Literal["default", "linear", "dynamic", "yarn"]
    theta: float | None = Field(default=None, gt=0)
    factor: float | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _fits_its_type(self) -> Rope:
        if self.type == "default" and (self.theta is None or self.factor is not None):
            raise ValueError("type default needs theta and takes no factor")
        if self.type != "default" and self.factor is None:
            raise ValueError(f"type {self.type} needs factor; add it")
        return self


class RopeIntervention(Frozen):
    """Change rotary position embeddings without tuning: scaling and/or another base."""

    kind: Literal["rope"]
    theta: float | None = Field(default=None, gt=0)
    scaling: Literal["linear", "dynamic", "yarn"] | None = None
    factor: float | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _something_changes(self) -> RopeIntervention:
        if self.theta is None and self.scaling is None:
            raise ValueError("changes nothing: give theta, or scaling with factor")
        if (self.scaling is None) != (self.factor is None):
            raise ValueError("scaling and factor go together")
        return self


class WindowIntervention(Frozen):
    """Each token attends to the last `window` tokens and the first `sinks` tokens only."""

    kind: Literal["attention_window"]
    window: int = Field(ge=1)
    sinks: int = Field(default=0, ge=0)


class NoiseIntervention(Frozen):
    """Gaussian noise on every weight matrix, `scale` × the matrix's own standard deviation."""

    kind: Literal["weight_noise"]
    scale: float = Field(gt=0)
    seed: int = 0


class DropLayersIntervention(Frozen):
    """Remove decoder layers, by 0-based index; negative indices count from the end."""

    kind: Literal["drop_layers"]
    layers: tuple[int, ...] = Field(min_length=1)


class QuantizeIntervention(Frozen):
    """Round every weight matrix to 2^bits - 1 values, symmetric around 0, each row in groups.

    Round to nearest: of a group of `group` input weights the largest magnitude becomes
    2^(bits - 1) - 1 steps. Codes and scales are not packed: memory stays that of the dtype.
    """

    kind: Literal["quantize"]
    bits: int = Field(ge=2, le=8)
    group: int = Field(default=64, ge=8)


class TemperatureIntervention(Frozen):
    """Divide the attention logits by a temperature: above 1 attention is spread more evenly."""

    kind: Literal["attention_temperature"]
    temperature: float = Field(gt=0)

    @model_validator(mode="after")
    def _something_changes(self) -> TemperatureIntervention:
        if self.temperature == 1:
            raise ValueError("temperature 1 changes nothing; give another")
        return self


Intervention = Annotated[
    RopeIntervention
    | WindowIntervention
    | NoiseIntervention
    | DropLayersIntervention
    | QuantizeIntervention
    | TemperatureIntervention,
    Field(discriminator="kind"),
]
