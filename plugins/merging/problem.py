"""Problem files of kind `merge`: experts, the rules for them, limits, and recipes.

A recipe is mergekit's own YAML, in which models are experts by their names.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from warehouse.errors import ProblemFileError, did_you_mean
from warehouse.file_model import FileModel
from warehouse.paths import Workspace
from warehouse.problem.models import Source
from warehouse.problem.problem_files import (
    Location,
    ProblemKind,
    YamlTree,
    check,
    paths_start,
    read_problem_file,
)
from warehouse.store.ledger import fingerprint

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]
GIGABYTE = 10**9
MODEL_KEYS = ("model", "base_model")
"""Keys of a recipe whose values are experts."""

OVERALL = "overall"
"""Name of the ranking over all rounds, which no round may have."""


class Expert(FileModel):
    """A model that may be merged: a checkpoint (`source`), or a LoRA adapter of its `base`."""

    name: Name
    source: Source | None = None
    adapter: Path | None = None
    base: Name | None = None
    licence: str = "unknown"
    published: date | None = None
    note: str = ""

    @model_validator(mode="after")
    def _has_weights(self) -> Expert:
        if (self.source is None) == (self.adapter is None):
            raise ValueError(f"{self.name}: give either source or adapter")
        if self.adapter is not None and self.base is None:
            raise ValueError(f"{self.name}: an adapter needs base, the expert it was made for")
        return self


class Rules(FileModel):
    """Rules for experts; a missing rule allows every expert.

    most_parameters: maximum parameters of an expert; an adapter includes its base.
    licences: allowed licences, as experts state them.
    published_before: an expert's date must be before this one.
    bases: allowed bases of experts.
    same_tokenizer: all experts have the same tokenizer file.
    """

    most_parameters: int | None = Field(default=None, gt=0)
    licences: tuple[str, ...] = ()
    published_before: date | None = None
    bases: tuple[Name, ...] = ()
    same_tokenizer: bool = True


class Limits(FileModel):
    """Limits of one merge or one evaluation; None is no limit. Gigabytes are 10⁹ bytes."""

    seconds: float | None = Field(default=None, gt=0)
    memory_gb: float | None = Field(default=None, gt=0)
    gpu_memory_gb: float | None = Field(default=None, gt=0)
    disk_gb: float | None = Field(default=None, gt=0)


class Merge(FileModel):
    """A merged model: its name and recipe."""

    name: Name
    recipe: dict[str, Any]
    seed: int = Field(default=0, ge=0)

    def models(self) -> list[str]:
        """Names of the experts in its recipe, in order, without duplicates."""
        return list(dict.fromkeys(name for _, name in self.references()))

    def references(self) -> Iterator[tuple[Location, Any]]:
        """Each model that the recipe names, with its place in it."""
        for at, value in settings(self.recipe):
            if at[-1] in MODEL_KEYS and value is not None:
                yield at, value

    @property
    def recipe_sha256(self) -> str:
        """Hash of its recipe and seed."""
        return fingerprint({"recipe": self.recipe, "seed": self.seed})

    @property
    def method(self) -> str:
        """mergekit's name of the method."""
        return str(self.recipe.get("merge_method", ""))

    @property
    def base(self) -> str | None:
        """The base expert, if the method has one."""
        base = self.recipe.get("base_model")
        return None if base is None else str(base)


def settings(recipe: Any, at: Location = ()) -> Iterator[tuple[Location, Any]]:
    """Every key of a recipe and of all that is in it: its place and value, in the file's order."""
    if isinstance(recipe, dict):
        for key, value in recipe.items():
            yield (*at, key), value
            yield from settings(value, (*at, key))
    elif isinstance(recipe, list | tuple):
        for number, value in enumerate(recipe):
            yield from settings(value, (*at, number))


class MergeProblem(FileModel):
    """Experts, the rules for them, and the models merged from them."""

    kind: Literal["merge"]
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=100)
    title: str
    description: str = ""
    experts: tuple[Expert, ...] = Field(min_length=1)
    rules: Rules = Rules()
    limits: Limits = Limits()
    merges: tuple[Merge, ...] = ()

    def expert(self, name: str) -> Expert:
        """The expert of this name, which is in the file."""
        return next(expert for expert in self.experts if expert.name == name)

    def merge(self, name: str) -> Merge:
        """The merge of this name.

        Raises:
            ProblemFileError: there is none; the message lists the merges.
        """
        merges = {merge.name: merge for merge in self.merges}
        if name not in merges:
            raise ProblemFileError(
                f"merge {name}: not in problem {self.name}; its merges are: "
                f"{', '.join(merges) or 'none'}",
                code="unknown-merge",
                where=name,
            )
        return merges[name]


class MergeKind(ProblemKind):
    """Problem files of kind `merge`, which no command of the core uses."""

    kind = "merge"
    keys = MergeProblem
    purpose = (
        "models to merge (kind: merge), nothing to extract; use it with `tokenmart merge` and "
        "`tokenmart rank`"
    )

    def models(self) -> list[str]:
        """Its merges.

        Raises:
            ProblemFileError: the file is wrong.
        """
        return [merge.name for merge in load_merge_problem(self.name, self.workspace).merges]


def load_merge_problem(name: str, workspace: Workspace) -> MergeProblem:
    """Read and check a problem of kind `merge` by name or path.

    Raises:
        ProblemFileError: the file has another kind, is unreadable or invalid; the message has file,
            line, key and value.
    """
    tree = read_problem_file(name, workspace)
    if tree.value.get("kind") != "merge":
        raise ProblemFileError(
            f"{tree.path}: not a problem of merged models; give one with `kind: merge`"
        )
    problem = check(MergeProblem, tree.value, tree, folder=paths_start(tree.path, workspace))
    _refuse_names(problem, tree)
    return problem


def _refuse_names(problem: MergeProblem, tree: YamlTree) -> None:
    """Refuse a name that is given twice, and one of an expert that is not in the file."""
    experts = {expert.name: expert for expert in problem.experts}
    named: list[tuple[Location, str]] = [
        *((("experts", number, "name"), each.name) for number, each in enumerate(problem.experts)),
        *((("merges", number, "name"), each.name) for number, each in enumerate(problem.merges)),
    ]
    seen: set[str] = set()
    for at, name in named:
        # on some disks names that differ only in case would share a folder
        if name.casefold() in seen:
            raise tree.error(at, f"{name!r} is a name already; rename one of them", "name-twice")
        seen.add(name.casefold())
    used: list[tuple[Location, Any]] = [
        (("rules", "bases", number), base) for number, base in enumerate(problem.rules.bases)
    ]
    for number, expert in enumerate(problem.experts):
        if expert.base is not None:
            used.append((("experts", number, "base"), expert.base))
    for number, merge in enumerate(problem.merges):
        used += [(("merges", number, "recipe", *at), model) for at, model in merge.references()]
    for at, name in used:
        if not isinstance(name, str) or name not in experts:
            hint = did_you_mean(str(name), experts)
            what = f"{name!r} is no expert; {hint}there are: {', '.join(experts)}"
            raise tree.error(at, what, "unknown-expert")
        if at[-1] == "base" and experts[name].adapter is not None:
            raise tree.error(at, f"{name} is an adapter itself", "base-is-adapter")
