"""Problem files: which models, documents, probes and target belong together.

A problem file is parsed once into frozen typed objects; the rest of the code never meets a
raw dictionary. Every mistake is reported with file, line, key, value and remedy.
"""

from __future__ import annotations

import shlex
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Union

from pydantic import AfterValidator, Field, PrivateAttr, field_validator

from warehouse.errors import ProblemFileError
from warehouse.frozen import Frozen
from warehouse.paths import Workspace
from warehouse.plugins import kinds
from warehouse.probes.probe import Probe, probe_kinds
from warehouse.problem.changes import Intervention, Rope
from warehouse.problem.cross_checks import (
    Pairs,
    refuse_pairs,
    refuse_same_models,
    refuse_same_probes,
)
from warehouse.problem.model_shape import ModelShape
from warehouse.sources import documents as document_kinds
from warehouse.sources import weights as weight_kinds
from warehouse.sources.archives import PinnedArchive
from warehouse.sources.documents.interface import DocumentSource
from warehouse.sources.place import Need, Place
from warehouse.sources.weights.interface import Located, WeightSource

if TYPE_CHECKING:
    from pydantic import ValidationInfo

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


def slug(full_id: str) -> str:
    """A model id as a path component: `Qwen/Qwen2-7B` → `Qwen--Qwen2-7B`."""
    return full_id.replace("/", "--")


class ModelSpec(Frozen):
    """One checkpoint, possibly with interventions; `base` is the full id of the one they act on.

    `context` is the longest input that the model is meant for, where its configuration is stale.
    A model `on_request` takes part only where it is named: never in a ranking or a submission.
    `kind` names what the model is one dose or one checkpoint of, where its interventions don't.
    """

    may_be_huge: ClassVar[frozenset[str]] = frozenset({"parameters"})

    full_id: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*(/[A-Za-z0-9._+-]+)?$", max_length=200
    )
    source: Source
    family: str
    kind: str | None = None
    base: str | None = None
    parameters: int | None = Field(default=None, gt=0, le=10**15)
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

    @property
    def series(self) -> str:
        """The dose series or training run that the model is one point of; alone, its own id.

        Models of a series follow each other and are no independent evidence.
        """
        doses = "+".join(
            f"rope {item.scaling or 'base'}" if item.kind == "rope" else item.kind
            for item in self.interventions
        )
        return self.kind or doses or self.full_id

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

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=100)
    title: str
    description: str = ""
    documents: Documents
    models: tuple[ModelSpec, ...] = Field(min_length=1)
    probes: tuple[AnyProbe, ...] = Field(min_length=1)
    compare: Pairs = ()
    target: Target | None = None
    demo: Demo | None = None

    _asked: str = PrivateAttr(default="")

    @property
    def asked(self) -> str:
        """What `--problem` must say to mean this problem: its name or the path of its file."""
        return shlex.quote(self._asked or self.name)

    def place(self, workspace: Workspace, offline: bool = False) -> Place:
        """Where the problem's files lie."""
        return Place(workspace, self.name, offline, self.asked)

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

    @field_validator("models")
    @classmethod
    def _models_are_told_apart(cls, models: tuple[ModelSpec, ...]) -> tuple[ModelSpec, ...]:
        refuse_same_models([model.full_id for model in models], [m.model_id for m in models])
        if all(model.on_request for model in models):
            raise ValueError("every model is on_request; leave one without it")
        return models

    @field_validator("probes")
    @classmethod
    def _probes_are_told_apart(cls, probes: tuple[Probe, ...]) -> tuple[Probe, ...]:
        refuse_same_probes(probes)
        return probes

    @field_validator("compare")
    @classmethod
    def _pairs_fit_the_probes(cls, compare: Pairs, info: ValidationInfo) -> Pairs:
        if info.data.get("probes"):
            refuse_pairs(compare, info.data["probes"])
        return compare

    @field_validator("demo")
    @classmethod
    def _demo_has_models_of_the_problem(
        cls, demo: Demo | None, info: ValidationInfo
    ) -> Demo | None:
        known = {model.full_id for model in info.data.get("models", ())}
        missing = [name for name in demo.models if name not in known] if demo and known else []
        if missing:
            names = ", ".join(map(repr, missing))
            raise ValueError(f"models names {names}, which is not in models")
        return demo


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
        ProblemFileError: unreadable or wrong; the message has file, line, key, value and remedy of
            every mistake.
    """
    path = problem_path(name, workspace)
    if not _is_file(path):
        raise ProblemFileError(_no_such_file(name, path, workspace))
    from warehouse.problem.yaml_file import parse_yaml

    problem = checked_problem(parse_yaml(path), workspace)
    problem._asked = name
    return problem


def checked_problem(tree: YamlTree, workspace: Workspace) -> Problem:
    """The problem that a file's content stands for.

    Raises:
        ProblemFileError: see `load_problem`.
    """
    from warehouse.problem.inherit import inherit
    from warehouse.problem.mistakes import check

    raw = tree.value
    if not isinstance(raw, dict):
        raise ProblemFileError(
            f"{tree.path}:1: expected keys such as name, models, probes; write one with "
            "`tokenmart problem new`"
        )
    inherited = inherit(raw.get("models"), frozenset(ModelSpec.model_fields), tree)
    if "models" in raw:
        raw = {**raw, "models": inherited.models}
    folder = tree.path.resolve().parent
    ships = folder == workspace.problems.resolve()
    return check(
        Problem,
        raw,
        tree,
        folder=None if ships else folder,
        found=inherited.mistakes,
        inherited=inherited.places,
    )


def _is_file(path: Path) -> bool:
    with suppress(OSError):  # a name too long, say
        return path.is_file()
    return False


def _no_such_file(name: str, path: Path, workspace: Workspace) -> str:
    problems = list_problems(workspace)
    close = get_close_matches(path.stem, problems, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    here = next((each for each in (f"{name}.yml", f"{name}.yaml") if _is_file(Path(each))), None)
    hint = f"did you mean --problem {here}, in this folder? " if here else hint
    shown = str(path) if len(str(path)) < 300 else f"{str(path)[:300]}…"
    return (
        f"{shown}: no such problem file; {hint}problems here: {', '.join(problems) or 'none'} "
        "(or give the path of your own .yml)"
    )
