"""Problem files: which models, documents, probes and target belong together.

A problem file is parsed once into frozen typed objects; the rest of the code never meets a
raw dictionary. Every mistake is reported with file, line, key, value and remedy.
"""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from pydantic import AfterValidator, Field, model_validator

from warehouse.errors import ProblemFileError
from warehouse.frozen import Frozen
from warehouse.paths import Workspace
from warehouse.plugins import kinds
from warehouse.probes.probe import Probe, probe_kinds
from warehouse.problem.model_shape import ModelShape
from warehouse.sources import documents as document_kinds
from warehouse.sources import weights as weight_kinds
from warehouse.sources.archives import PinnedArchive
from warehouse.sources.documents.interface import DocumentSource
from warehouse.sources.place import Need, Place
from warehouse.sources.weights.interface import Located, WeightSource

if TYPE_CHECKING:
    from warehouse.problem.yaml_file import YamlTree

    Source = WeightSource
    Documents = DocumentSource
else:
    Source = Annotated[
        Union[tuple(kinds(WeightSource, weight_kinds).values())],  # noqa: UP007
        Field(discriminator="kind"),
    ]
    Documents = Annotated[
        Union[tuple(kinds(DocumentSource, document_kinds).values())],  # noqa: UP007
        Field(discriminator="kind"),
    ]

Dtype = Literal["auto", "float32", "bfloat16", "float16"]


class Rope(Frozen):
    """Rotary position encoding as the model was trained, instead of what its configuration says.

    `theta` and `factor` are those of transformers' `rope_parameters`; a `theta` that is not given
    stays that of the configuration. Not an intervention: it corrects a configuration.
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


Intervention = Annotated[
    RopeIntervention | WindowIntervention | NoiseIntervention | DropLayersIntervention,
    Field(discriminator="kind"),
]


def slug(full_id: str) -> str:
    """A model id as a path component: `Qwen/Qwen2-7B` → `Qwen--Qwen2-7B`."""
    return full_id.replace("/", "--")


class ModelSpec(Frozen):
    """One checkpoint, possibly with interventions; `base` is the full id of the one they act on.

    `context` is the longest input that the model is meant for, where its configuration is stale.
    A model `on_request` takes part only where it is named: never in a ranking or a submission.
    `kind` names the series of doses or checkpoints that it is one of: see `series_of`.
    """

    full_id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*(/[A-Za-z0-9._+-]+)?$")
    source: Source
    family: str
    kind: str | None = None
    base: str | None = None
    parameters: int | None = Field(default=None, gt=0)
    shape: ModelShape | None = None
    licence: str = "unknown"
    dtype: Dtype = "auto"
    context: int | None = Field(default=None, gt=0)
    rope: Rope | None = None
    on_request: bool = False
    bos: Literal["tokenizer", "always", "never"] = "tokenizer"
    interventions: tuple[Intervention, ...] = ()
    note: str = ""

    @property
    def model_id(self) -> str:
        """The partition key: the full id with `/` replaced."""
        return slug(self.full_id)

    @property
    def base_id(self) -> str | None:
        """The partition key of the checkpoint that the interventions act on."""
        return None if self.base is None else slug(self.base)

    def locate(self, place: Place) -> Located:
        """The model's weights, fetched when they are missing; a variant's are its base's.

        Raises:
            TokenmartError: missing and can't be fetched, or not what was promised.
        """
        return self.source.locate(self.base or self.full_id, place)

    def present(self, place: Place) -> Path | None:
        """The folder or GGUF file with the model's weights, when it is here."""
        return self.source.present(self.base or self.full_id, place)

    def need(self, place: Place) -> Need:
        """What must be here for the model, and how it comes."""
        return self.source.need(self.base or self.full_id, place)


if TYPE_CHECKING:
    AnyProbe = Probe
else:
    AnyProbe = Annotated[Union[tuple(probe_kinds().values())], Field(discriminator="kind")]  # noqa: UP007


class FileTarget(Frozen):
    """Downstream scores in a JSON file that is locked, never computed here."""

    kind: Literal["file"]
    path: Path
    url: str | None = None


def _increasing(lengths: tuple[int, ...]) -> tuple[int, ...]:
    if list(lengths) != sorted(set(lengths)) or lengths[0] < 64:
        raise ValueError("lengths must increase and be at least 64 tokens")
    return lengths


Lengths = Annotated[tuple[int, ...], Field(min_length=1), AfterValidator(_increasing)]


class RecallTarget(Frozen):
    """Key-value recall over long contexts in the manner of RULER, measured by the project.

    Each of `contexts` contexts is `lengths[-1]` tokens of filler with key-value sentences
    hidden evenly, one per `key_every` tokens; at each length, every key seen so far is asked.
    """

    kind: Literal["recall"]
    filler: PinnedArchive
    lengths: Lengths
    contexts: int = Field(ge=1)
    key_every: int = Field(ge=32)
    value_digits: int = Field(default=5, ge=1, le=12)
    score: Literal["token_accuracy", "exact_match"] = "token_accuracy"
    seed: int = 0


class ImportedTarget(Frozen):
    """Downstream scores measured elsewhere, brought in with `tokenmart data import`."""

    kind: Literal["imported"]


Target = Annotated[FileTarget | RecallTarget | ImportedTarget, Field(discriminator="kind")]


class Demo(Frozen):
    """A part of the problem small enough for a first run on a laptop.

    `contexts` and `lengths` replace those of a recall target.
    """

    documents: int = Field(gt=0)
    max_tokens: int = Field(gt=1)
    models: tuple[str, ...] = Field(min_length=1)
    contexts: int | None = Field(default=None, gt=0)
    lengths: Lengths | None = None


class Problem(Frozen):
    """Models, documents, probes and target that belong together.

    `compare` lists pairs of conditions, the longer context first, whose tokens are compared beside
    the pairs of the whole document and each window.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")
    title: str
    description: str = ""
    documents: Documents
    models: tuple[ModelSpec, ...] = Field(min_length=1)
    probes: tuple[AnyProbe, ...] = Field(min_length=1)
    compare: tuple[tuple[str, str], ...] = ()
    target: Target | None = None
    demo: Demo | None = None

    @property
    def ranked_models(self) -> tuple[ModelSpec, ...]:
        """What a command takes when no model is named: all but those `on_request`."""
        return tuple(model for model in self.models if not model.on_request)

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
        names = [probe.name for probe in self.probes]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"probe {name!r} is listed twice; remove one")
        seen: dict[str, str] = {}
        for model in self.models:
            other = seen.setdefault(model.model_id, model.full_id)
            if other != model.full_id:
                raise ValueError(
                    f"models {other!r} and {model.full_id!r} would share the folder "
                    f"{model.model_id!r}; rename one of them"
                )
        if len(seen) < len(self.models):
            ids = [model.full_id for model in self.models]
            twice = next(name for name in ids if ids.count(name) > 1)
            raise ValueError(f"model {twice!r} is listed twice; remove one")
        if not self.ranked_models:
            raise ValueError("every model is on_request; leave one without it")
        if self.demo is not None:
            known = {model.full_id for model in self.models}
            for name in self.demo.models:
                if name not in known:
                    raise ValueError(f"demo.models names {name!r}, which is not in models")
        return self

    @model_validator(mode="after")
    def _conditions_fit(self) -> Problem:
        kinds = {}
        for condition in [each for probe in self.probes for each in probe.conditions()]:
            if condition.name in kinds:
                raise ValueError(
                    f"two probes make a condition {condition.name!r}; rename one of them"
                )
            kinds[condition.name] = condition.kind
        for pair in self.compare:
            for name in pair:
                if name not in kinds:
                    raise ValueError(
                        f"compare names {name!r}; the conditions are: {', '.join(kinds)}"
                    )
                if kinds[name].repeats_positions:
                    raise ValueError(
                        f"compare: {name!r} scores a token several times; leave it out"
                    )
            long, short = (kinds[name].name for name in pair)
            if (
                pair[0] == pair[1]
                or self.compare.count(pair) > 1
                or (long, short)
                == (
                    "full",
                    "window",
                )
            ):
                raise ValueError(f"compare: {list(pair)} says nothing new; leave it out")
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
        problems = list_problems(workspace)
        close = get_close_matches(path.stem, problems, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ProblemFileError(
            f"{path}: no such problem file; {hint}problems here: {', '.join(problems) or 'none'} "
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
        if base is None and "None" in checkpoints:
            filled.append(entry)  # a checkpoint without an id is the mistake to name
            continue
        if base is None:
            line, keys, value = tree.line(("models", index, "base"))
            raise ProblemFileError(
                f"{tree.path}:{line}: {keys}: {value!r} is not a checkpoint of this file; "
                f"use one of {', '.join(checkpoints) or 'none'}"
            )
        inherited = {k: v for k, v in base.items() if k not in ("full_id", "kind", "note")}
        filled.append({**inherited, **entry})
    return filled
