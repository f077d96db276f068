"""Problem files: which models, documents, probes and target belong together.

A problem file is parsed once into frozen typed objects; the rest of the code never meets a
raw dictionary. Every mistake is reported with file, line, key, value and remedy.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from warehouse.errors import ProblemFileError
from warehouse.file_model import increasing, one_of
from warehouse.paths import Workspace, recorded_file
from warehouse.probes.kinds import PROBES
from warehouse.probes.probe import Context, Probe, contexts
from warehouse.problem.models import ModelSpec
from warehouse.problem.problem_files import (
    AnyTarget,
    Ranked,
    YamlTree,
    check,
    parse_yaml,
    paths_start,
    problem_kind,
    read_problem_file,
)
from warehouse.sources.documents import DocumentSource, FolderDocuments, TableDocuments
from warehouse.sources.folders import ProblemFolders
from warehouse.sources.json_documents import JsonDocuments
from warehouse.sources.packages import PinnedArchive, SdistDocuments

if TYPE_CHECKING:
    Documents = DocumentSource
    AnyProbe = Probe
else:
    Documents = one_of(
        "documents", (FolderDocuments, TableDocuments, JsonDocuments, SdistDocuments)
    )
    AnyProbe = one_of("probes", PROBES)


RecallTask = Literal["single_key", "multi_key", "multi_value", "variable_tracking", "common_words"]
DEFAULT_TASKS: tuple[RecallTask, ...] = ("single_key",)
Overall = Literal["all", "without_shortest"]
_NOT_INHERITED = ("full_id", "series", "note")


def _each_once(tasks: tuple[RecallTask, ...]) -> tuple[RecallTask, ...]:
    if len(set(tasks)) < len(tasks):
        raise ValueError("a task is listed twice; remove one")
    return tasks


Lengths = Annotated[tuple[int, ...], Field(min_length=1), increasing(64)]
Tasks = Annotated[tuple[RecallTask, ...], Field(min_length=1), AfterValidator(_each_once)]


class FileTarget(AnyTarget):
    """Downstream scores in a locked JSON file."""

    kind: Literal["file"]
    path: Path
    url: str | None = None


class ImportedTarget(AnyTarget):
    """Downstream scores imported with `tokenmart data import`."""

    kind: Literal["imported"]


class RecallTarget(AnyTarget):
    """Recall over long contexts, measured with tasks modelled on RULER.

    Each of `contexts` contexts has `lengths[-1]` tokens of filler with planted sentences, one per
    `key_every` tokens, alternating between all `tasks`. At each length the questions ask for the
    sentences so far. The overall score averages `all` lengths, or those `without_shortest`, where
    models differ for other reasons than memory. Tasks have equal weights.

    `control_keys` times at each length, a planted value is asked for after a name that was never
    planted (task `no_key`, no part of the overall score): its score measures copying of digits, not
    recall.
    """

    kind: Literal["recall"]
    filler: PinnedArchive
    lengths: Lengths
    contexts: int = Field(ge=1)
    key_every: int = Field(ge=32)
    value_digits: int = Field(default=5, ge=1, le=12)
    score: Literal["token_accuracy", "first_token", "exact_match"] = "token_accuracy"
    seed: int = Field(default=0, ge=0, lt=2**63)
    tasks: Tasks = DEFAULT_TASKS
    overall: Overall = "all"
    control_keys: int = Field(default=4, ge=0)

    @field_validator("key_every")
    @classmethod
    def _lengths_are_whole_blocks(cls, every: int, info: ValidationInfo) -> int:
        if parts := [length for length in info.data.get("lengths", ()) if length % every]:
            raise ValueError(f"lengths must be multiples of key_every, {parts[0]} is none")
        return every

    @property
    def measured(self) -> dict[str, Any]:
        """Everything that the measured rows depend on, as plain values.

        What `overall` averages is no part of it, and neither are tasks as they were before there
        was a choice.
        """
        without = {"overall"} | ({"tasks"} if self.tasks == DEFAULT_TASKS else set())
        return self.model_dump(mode="json", exclude=without)

    @property
    def counted_lengths(self) -> tuple[int, ...]:
        """The lengths that the overall score averages; one alone always counts."""
        return self.lengths[self.overall == "without_shortest" :] or self.lengths


Target = Annotated[FileTarget | RecallTarget | ImportedTarget, Field(discriminator="kind")]


class Problem(Ranked):
    """Models, documents, probes and target that belong together.

    Each window is compared with the whole document by default; `compare` lists further pairs of
    conditions. A metric registered after `labels_known_since` is not a prediction.
    """

    documents: Documents = Field(description="source of the texts")
    models: tuple[ModelSpec, ...] = Field(description="models to score")
    probes: tuple[AnyProbe, ...] = Field(description="context conditions to score")
    compare: tuple[tuple[str, str], ...] = Field(
        default=(), description="further pairs of conditions, the longer context first"
    )
    target: Target | None = Field(default=None, description="score to rank the models by")
    labels_known_since: date | None = Field(
        default=None, description="date from which target scores are known"
    )

    def folders(self, workspace: Workspace, offline: bool = False) -> ProblemFolders:
        """Places of the problem's files."""
        return ProblemFolders(workspace, self.name, offline, self.argument)

    @property
    def ranked_models(self) -> tuple[ModelSpec, ...]:
        """Models used if no model is named: all but those `on_request`."""
        return tuple(model for model in self.models if not model.on_request)

    @cached_property
    def contexts(self) -> tuple[Context, ...]:
        """The contexts of variants of metrics."""
        return contexts([each for p in self.probes for each in p.conditions()], self.compare)

    def suffixes(self, needs: str) -> list[str]:
        """What follows `@` in the variants of a metric family that needs such a probe."""
        return [each.suffix for each in self.contexts if each.needs == needs]

    def model(self, name: str) -> ModelSpec:
        """The model with this full id or slug.

        Raises:
            ProblemFileError: no such model; the message lists what there is.
        """
        for model in self.models:
            if name in (model.full_id, model.model_id):
                return model
        raise self._unknown("model", name, [model.full_id for model in self.models])

    def probe(self, name: str) -> Probe:
        """The probe with this name.

        Raises:
            ProblemFileError: no such probe; the message lists what there is.
        """
        for probe in self.probes:
            if probe.name == name:
                return probe
        raise self._unknown("probe", name, [probe.name for probe in self.probes])

    def _unknown(self, what: str, name: str, known: Sequence[str]) -> ProblemFileError:
        return ProblemFileError(
            f"--{what} {name}: not in problem {self.name}; it has {', '.join(known)}",
            code=f"unknown-{what}",
            where=name,
        )

    @field_validator("models")
    @classmethod
    def _models_have_their_own_folders(cls, models: tuple[ModelSpec, ...]) -> tuple[ModelSpec, ...]:
        seen: dict[str, str] = {}
        for model in models:
            folder = model.model_id.casefold()  # some disks ignore case
            if folder in seen:
                raise ValueError(
                    f"{seen[folder]!r} and {model.full_id!r} would share a folder; rename one"
                )
            seen[folder] = model.full_id
        if all(model.on_request for model in models):
            raise ValueError("at least one model is needed that isn't on_request")
        return models

    @field_validator("probes")
    @classmethod
    def _conditions_are_known(
        cls, probes: tuple[Probe, ...], info: ValidationInfo
    ) -> tuple[Probe, ...]:
        if not probes:
            raise ValueError("at least one probe is needed")
        conditions = [each for probe in probes for each in probe.conditions()]
        for names in ([probe.name for probe in probes], [each.name for each in conditions]):
            if twice := {name for name in names if names.count(name) > 1}:
                raise ValueError(f"two probes make {min(twice)!r}; give one of them another name")
        for number, probe in enumerate(probes):
            for other in probes[:number]:
                if (probe.kind, probe.parameters()) == (other.kind, other.parameters()):
                    raise ValueError(
                        f"{other.name!r} and {probe.name!r} score the same tokens in the same "
                        "context, which metrics would count twice; leave one out"
                    )
        models = [model.full_id for model in info.data.get("models", ())]
        for condition in conditions:
            if models and condition.reference and condition.reference not in models:
                raise ValueError(
                    f"{condition.probe}: reference {condition.reference!r} is no model of this "
                    f"file; its models are: {', '.join(models)}"
                )
        return probes

    @field_validator("compare")
    @classmethod
    def _pairs_are_of_conditions(
        cls, pairs: tuple[tuple[str, str], ...], info: ValidationInfo
    ) -> tuple[tuple[str, str], ...]:
        probes = info.data.get("probes", ())
        kinds = {each.name: each.kind for probe in probes for each in probe.conditions()}
        for pair in pairs if kinds else ():
            for name in pair:
                if name not in kinds:
                    raise ValueError(f"names {name!r}; the conditions are: {', '.join(kinds)}")
                if kinds[name].repeats_positions:
                    raise ValueError(f"{name!r} scores a token several times; leave it out")
            long, short = (kinds[name].name for name in pair)
            known = (long, short) == ("full", "window")
            if pair[0] == pair[1] or pairs.count(pair) > 1 or known:
                raise ValueError(f"{list(pair)} adds no comparison; leave it out")
        return pairs


def load_problem(name: str, workspace: Workspace) -> Problem:
    """Read and check a problem by name or path.

    Raises:
        OtherKindError: it is of another kind, which a plugin reads.
        ProblemFileError: unreadable or wrong; the message has file, line, key, value and remedy of
            every mistake.
    """
    tree = read_problem_file(name, workspace)
    if other := problem_kind(name, tree, workspace):
        other.refuse()
    problem = checked_problem(tree, workspace)
    problem._argument = name
    _refuse_name_of_another(problem, tree.path, workspace)
    return problem


def _refuse_name_of_another(problem: Problem, path: Path, workspace: Workspace) -> None:
    """Stop where the rows stored under a problem's name are of another file's documents.

    Extraction would replace them. Two files may share a name while their documents are the same.
    """
    stored = recorded_file(problem.name, workspace)
    if stored is None or stored.samefile(path):
        return
    try:
        other = checked_problem(parse_yaml(stored), workspace)
    except ProblemFileError:
        return
    if other.name == problem.name and other.documents != problem.documents:
        raise ProblemFileError(
            f"{path}: name: {problem.name} is that of {stored}, whose tokens are stored here and "
            "which has other documents; give one of the files another name"
        )


def load_ranked(name: str, workspace: Workspace) -> Ranked:
    """A problem of any kind, for ranking its models.

    Raises:
        ProblemFileError: unreadable or wrong.
        TokenmartError: its data are not here, or it has nothing to rank.
    """
    other = problem_kind(name, read_problem_file(name, workspace), workspace)
    return load_problem(name, workspace) if other is None else other.ranked()


def checked_problem(tree: YamlTree, workspace: Workspace) -> Problem:
    """The problem described by a file's content.

    Raises:
        ProblemFileError: see `load_problem`.
    """
    raw = tree.value
    if "models" in raw:
        raw = {**raw, "models": _with_values_of_bases(raw["models"], tree)}
    return check(Problem, raw, tree, folder=paths_start(tree.path, workspace))


def _with_values_of_bases(models: Any, tree: YamlTree) -> Any:
    """The value of `models`, unchecked; one that has `base` has that model's other values, too.

    Raises:
        ProblemFileError: a base is no checkpoint of the file.
    """
    if not isinstance(models, list) or not all(isinstance(entry, dict) for entry in models):
        return models
    checkpoints = {str(entry.get("full_id")): entry for entry in models if "base" not in entry}
    filled = []
    for index, entry in enumerate(models):
        base = checkpoints.get(str(entry["base"])) if "base" in entry else {}
        if base is None:
            known = ", ".join(checkpoints)
            what = f"{entry['base']!r} is not a checkpoint of this file: {known}"
            raise tree.error(("models", index, "base"), what, "unknown-base")
        inherited = {key: base[key] for key in base if key not in _NOT_INHERITED}
        filled.append({**inherited, **entry})
    return filled
