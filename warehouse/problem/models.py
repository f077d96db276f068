"""Models of a problem file: a checkpoint, its sizes, what is corrected and what is changed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from warehouse.errors import TokenmartError
from warehouse.file_model import FileModel, one_of
from warehouse.problem.problem_files import RankedModel
from warehouse.sources.configurations import trained_context
from warehouse.sources.folders import ProblemFolders, RequiredFile
from warehouse.sources.packages import PackageSource
from warehouse.sources.weights import GgufSource, HubSource, LocalSource, Located, WeightSource

if TYPE_CHECKING:
    Source = WeightSource
else:
    Source = one_of("weights", (HubSource, LocalSource, GgufSource, PackageSource))

Dtype = Literal["auto", "float32", "bfloat16", "float16"]

FULL_ID = r"^[A-Za-z0-9][A-Za-z0-9._+-]*(/[A-Za-z0-9._+-]+)?$"
LONGEST_ID = 200

PUBLISHED_BYTES = 2
"""Of a weight, as nearly all checkpoints are published."""


class ModelShape(FileModel):
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


class Rope(FileModel):
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


class RopeIntervention(FileModel):
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


class WindowIntervention(FileModel):
    """Each token attends to the last `window` tokens and the first `sinks` tokens only."""

    kind: Literal["attention_window"]
    window: int = Field(ge=1)
    sinks: int = Field(default=0, ge=0)


class NoiseIntervention(FileModel):
    """Gaussian noise on every weight matrix, `scale` × the matrix's own standard deviation."""

    kind: Literal["weight_noise"]
    scale: float = Field(gt=0)
    seed: int = Field(default=0, ge=0, lt=2**63)


class DropLayersIntervention(FileModel):
    """Remove decoder layers, by 0-based index; negative indices count from the end."""

    kind: Literal["drop_layers"]
    layers: tuple[int, ...] = Field(min_length=1)


class QuantizeIntervention(FileModel):
    """Round every weight matrix to 2^bits - 1 values, symmetric around 0, each row in groups.

    Round to nearest: of a group of `group` input weights the largest magnitude becomes
    2^(bits - 1) - 1 steps. Codes and scales are not packed: memory stays that of the dtype.
    """

    kind: Literal["quantize"]
    bits: int = Field(ge=2, le=8)
    group: int = Field(default=64, ge=8)


class TemperatureIntervention(FileModel):
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


def refuse_no_id(full_id: str) -> None:
    """Stop at the name of a model that can't be that of a folder of the store.

    Raises:
        TokenmartError: it is no id as published.
    """
    if not re.fullmatch(FULL_ID, full_id) or len(full_id) > LONGEST_ID:
        raise TokenmartError(
            f"--model {full_id[:LONGEST_ID]}: no id of a model, such as Qwen/Qwen2-7B",
            code="model-id",
            where="--model",
        )


def slug(full_id: str) -> str:
    """A model id as a path component: `Qwen/Qwen2-7B` → `Qwen--Qwen2-7B`."""
    return full_id.replace("/", "--")


class ModelSpec(FileModel):
    """One checkpoint, possibly with interventions; `base` is the full id of the one they act on.

    A model `on_request` runs only if it is named; it is never ranked or submitted. `series` names
    its doses or checkpoints (`series_of`).
    """

    full_id: str = Field(
        pattern=FULL_ID,
        max_length=LONGEST_ID,
        description="id as published, such as Qwen/Qwen2-7B",
    )
    source: Source = Field(description="origin of the weights")
    family: str = Field(description="models of one family are not independent")
    series: str | None = Field(default=None, description="series of doses or checkpoints")
    base: str | None = Field(default=None, description="full id of the model to intervene on")
    parameters: int | None = Field(
        default=None, gt=0, le=10**15, description="number of parameters, for plans"
    )
    shape: ModelShape | None = Field(default=None, description="sizes of the model, for plans")
    licence: str = Field(default="unknown", description="licence of the weights")
    dtype: Dtype = Field(default="auto", description="number format of the weights")
    context: int | None = Field(
        default=None, gt=0, description="longest input the model was trained for, in tokens"
    )
    rope: Rope | None = Field(default=None, description="position encoding as trained")
    on_request: bool = Field(default=False, description="run only if --model names it")
    bos: Literal["tokenizer", "always", "never"] = Field(
        default="tokenizer", description="whether BOS precedes the text"
    )
    interventions: tuple[Intervention, ...] = Field(default=(), description="changes to the base")
    note: str = Field(default="", description="free text")

    @property
    def model_id(self) -> str:
        """The partition key: the full id with `/` replaced."""
        return slug(self.full_id)

    @property
    def base_id(self) -> str | None:
        """The partition key of the checkpoint that the interventions act on."""
        return None if self.base is None else slug(self.base)

    def locate(self, folders: ProblemFolders) -> Located:
        """The model's weights, fetched when they are missing; a variant's are its base's.

        Raises:
            TokenmartError: missing and can't be fetched, or not what was promised.
        """
        return self.source.locate(self.base or self.full_id, folders)

    def present(self, folders: ProblemFolders) -> Path | None:
        """The folder or GGUF file with the model's weights, when it is here."""
        return self.source.present(self.base or self.full_id, folders)

    def context_limit(self, folders: ProblemFolders) -> int | None:
        """Longest input in tokens: the problem file's word, else that of files that are here."""
        if self.context is not None:
            return self.context
        path = self.present(folders)
        return None if path is None else trained_context(path)

    def required_file(self, folders: ProblemFolders) -> RequiredFile:
        """Files required for the model, their source and approximate size."""
        need = self.source.required_file(self.base or self.full_id, folders)
        if not self.source.on_demand:
            return need
        return replace(need, download_bytes=self.parameters and PUBLISHED_BYTES * self.parameters)


def series_of(model: RankedModel) -> str:
    """The series of which the model is one dose or one checkpoint; its own id if it is alone.

    That is `series` as the problem file gives it, else what its interventions do, whatever their
    strength. Models of a series follow each other and are no independent evidence. A table has
    each run once.
    """
    if not isinstance(model, ModelSpec):
        return model.full_id
    treatments = [
        f"rope {item.scaling or 'base'}" if item.kind == "rope" else item.kind
        for item in model.interventions
    ]
    return model.series or "+".join(treatments) or model.full_id
