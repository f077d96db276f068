"""Problem files of kind `merge`: experts, the rules for them, limits, and recipes.

A recipe is mergekit's own YAML, in which models are experts by their names.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from datetime import date
from itertools import product
from math import prod
from pathlib import Path
from random import Random
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, PrivateAttr, model_validator

from warehouse.errors import ProblemFileError, did_you_mean
from warehouse.file_model import FileModel
from warehouse.paths import Workspace
from warehouse.problem.models import Source
from warehouse.problem.problem_files import paths_start, read_problem_file
from warehouse.problem.yaml_file import check

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]
GIGABYTE = 10**9
MOST_TRIALS = 1000
"""Maximum number of combinations of a search; trials of a larger grid are drawn at random."""
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

    may_be_huge: ClassVar[frozenset[str]] = frozenset({"most_parameters"})

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


class Search(FileModel):
    """A recipe with variables (`$weight`), and their values: each combination is a merge.

    trials: number of combinations, drawn at random; the complete grid if left out.
    seed: random seed of the draw and of the merges.
    """

    name: Name
    recipe: dict[str, Any]
    values: dict[str, tuple[float | int | str, ...]] = Field(min_length=1)
    trials: int | None = Field(default=None, ge=1)
    seed: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _variables_have_values(self) -> Search:
        used = set(_variables(self.recipe))
        for name in used - self.values.keys():
            raise ValueError(f"{self.name}: the recipe has ${name}, which has no values")
        for name in self.values.keys() - used:
            raise ValueError(f"{self.name}: the recipe has no ${name}; remove its values or use it")
        size = prod(len(each) for each in self.values.values())
        if size == 0 or (size > MOST_TRIALS and self.trials is None):
            raise ValueError(
                f"{self.name}: the grid has {size:,} combinations, expected 1 to {MOST_TRIALS}; "
                "give trials, or other values"
            )
        return self

    def merges(self) -> tuple[Merge, ...]:
        """Its trials in the order of the grid, named for their values."""
        grid = list(product(*self.values.values()))
        chosen = list(range(len(grid)))
        if self.trials is not None and self.trials < len(grid):
            chosen = sorted(Random(self.seed).sample(chosen, self.trials))
        found = []
        for place in chosen:
            values = dict(zip(self.values, grid[place], strict=True))
            name = "-".join([self.name, *(f"{key}{value}" for key, value in values.items())])
            recipe = _filled(self.recipe, values)
            found.append(Merge(name=name, recipe=recipe, seed=self.seed))
        return tuple(found)


def _variables(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for each in value.values():
            yield from _variables(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _variables(each)
    elif isinstance(value, str) and value.startswith("$"):
        yield value[1:]


def _filled(value: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(each, values) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_filled(each, values) for each in value]
    if isinstance(value, str) and value.startswith("$"):
        return values[value[1:]]
    return value


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
    searches: tuple[Search, ...] = ()

    _asked: str = PrivateAttr(default="")

    @property
    def asked(self) -> str:
        """Value of `--problem` that selects this problem: its name or the path of its file."""
        return shlex.quote(self._asked or self.name)

    @property
    def entries(self) -> tuple[Merge, ...]:
        """Its merges, and the trials of its searches."""
        return (*self.merges, *(each for search in self.searches for each in search.merges()))

    @model_validator(mode="after")
    def _names_are_known(self) -> MergeProblem:
        names = [expert.name for expert in self.experts] + [each.name for each in self.entries]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two experts or merges are called {name!r}; rename one")
        seen: dict[str, str] = {}
        for name in names:
            if (other := seen.setdefault(name.casefold(), name)) != name:
                raise ValueError(
                    f"{other!r} and {name!r} differ only in case, and would share a folder on some "
                    "disks; rename one"
                )
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
        for merge in self.entries:
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
        for merge in self.entries:
            if merge.name == name:
                return merge
        known = [merge.name for merge in self.entries]
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
    problem._asked = name
    return problem
