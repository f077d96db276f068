"""Problem files of kind `merge`: experts, the rules for them, limits, and recipes.

A recipe is mergekit's own YAML, in which models are experts by their names.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, model_validator

from warehouse.errors import ProblemFileError, did_you_mean
from warehouse.file_model import FileModel
from warehouse.paths import Workspace
from warehouse.problem.models import Source
from warehouse.problem.problem_files import check, paths_start, read_problem_file

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]
GIGABYTE = 10**9
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
        return list(dict.fromkeys(_models(self.recipe)))

    @property
    def method(self) -> str:
        """mergekit's name of the method."""
        return str(self.recipe.get("merge_method", ""))

    @property
    def base(self) -> str | None:
        """The base expert, if the method has one."""
        found = self.recipe.get("base_model")
        return None if found is None else str(found)


def _models(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            if key in ("model", "base_model") and each is not None:
                if not isinstance(each, str):
                    raise ValueError(f"model {each!r}: expected the name of an expert")
                yield each
            else:
                yield from _models(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _models(each)


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

    _argument: str = PrivateAttr(default="")

    @property
    def argument(self) -> str:
        """Value of `--problem` that selects this problem: its name or the path of its file."""
        return shlex.quote(self._argument or self.name)

    @model_validator(mode="after")
    def _names_are_known(self) -> MergeProblem:
        names = [expert.name for expert in self.experts] + [each.name for each in self.merges]
        seen: dict[str, str] = {}
        for name in names:
            # on some disks names that differ only in case would share a folder
            if name.casefold() in seen:
                raise ValueError(f"{seen[name.casefold()]!r} and {name!r}: rename one of them")
            seen[name.casefold()] = name
        known = [expert.name for expert in self.experts]
        for where, name in self._names_used():
            if name not in known:
                hint = did_you_mean(name, known)
                raise ValueError(
                    f"{where} names {name!r}, which is no expert; {hint}there are: "
                    f"{', '.join(known)}"
                )
        for expert in self.experts:
            if expert.base is not None and self.expert(expert.base).adapter is not None:
                raise ValueError(f"{expert.name}: its base {expert.base} is an adapter itself")
        return self

    def _names_used(self) -> Iterator[tuple[str, str]]:
        """Where an expert is named, and its name."""
        for expert in self.experts:
            if expert.base is not None:
                yield f"expert {expert.name}", expert.base
        for base in self.rules.bases:
            yield "rules.bases", base
        for merge in self.merges:
            for model in merge.models():
                yield f"merge {merge.name}", model

    def expert(self, name: str) -> Expert:
        """The expert of this name.

        Raises:
            ProblemFileError: there is none.
        """
        for expert in self.experts:
            if expert.name == name:
                return expert
        raise ProblemFileError(f"problem {self.name}: no expert {name!r}; correct the name")

    def merge(self, name: str) -> Merge:
        """The merge of this name.

        Raises:
            ProblemFileError: there is none; the message lists the merges.
        """
        for merge in self.merges:
            if merge.name == name:
                return merge
        known = [merge.name for merge in self.merges]
        raise ProblemFileError(
            f"--merge {name}: not in problem {self.name}; {did_you_mean(name, known)}its merges "
            f"are: {', '.join(known) or 'none'}"
        )


def load_merge_problem(name: str, workspace: Workspace) -> MergeProblem:
    """Read and check a problem of kind `merge` by name or path.

    Raises:
        ProblemFileError: the file has another kind, is unreadable or invalid; the message has file,
            line, key, value and remedy.
    """
    tree = read_problem_file(name, workspace)
    if tree.value.get("kind") != "merge":
        raise ProblemFileError(
            f"{tree.path}: not a problem of merged models; give one with `kind: {'merge'}`"
        )
    folder = paths_start(tree.path, workspace)
    problem = check(MergeProblem, tree.value, tree, folder=folder)
    problem._argument = name
    return problem
