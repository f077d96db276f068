"""Check experts against the rules of a problem, on evidence from their files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plugins.merging.headers import Tensor, count_parameters, read_headers
from plugins.merging.problem import Expert, MergeProblem
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.sources.folders import ProblemFolders
from warehouse.strict_json import StrictJsonError, read_json

_LARGEST_JSON = 64 << 20
_LARGEST_TOKENIZER = 256 << 20


@dataclass(frozen=True)
class Finding:
    """Result of a rule for an expert.

    Attributes:
        expert: its name.
        rule: parameters, licence, published, base, architecture, tokenizer or files.
        allowed: whether the rule allows the expert.
        evidence: what was found; if the rule refuses, also its requirement.
    """

    expert: str
    rule: str
    allowed: bool
    evidence: str


@dataclass(frozen=True)
class ExpertFiles:
    """An expert's files on this machine, and their headers.

    Attributes:
        folder: checkpoint or adapter.
        tensors: tensors of this folder, without the base.
        config: config.json, or adapter_config.json.
        tokenizer: sha256 of tokenizer.json; None for an adapter, or without that file.
        architecture: architecture in config.json; for an adapter, that of its base.
    """

    folder: Path
    tensors: dict[str, Tensor]
    config: dict[str, Any]
    tokenizer: str | None
    architecture: str | None


def find_folder(expert: Expert, problem: MergeProblem, workspace: Workspace) -> Path:
    """The folder of an expert on this machine.

    Raises:
        TokenmartError: the folder is missing; the message has the remedy.
    """
    folders = ProblemFolders(workspace, problem.name)
    if expert.adapter is not None:
        folder = folders.resolve(expert.adapter)
        if not (folder / "adapter_config.json").is_file():
            raise TokenmartError(
                f"{expert.name}: adapter {folder} contains no adapter_config.json; give a folder "
                "that peft's save_pretrained wrote"
            )
        return folder
    assert expert.source is not None
    found = expert.source.present(expert.name, folders)
    if found is None:
        need = expert.source.required_file(expert.name, folders)
        fetched = (
            f"`tokenmart merge run --problem {problem.argument}` without --dry-run fetches them"
        )
        # `data fetch` supports only problems with documents
        remedy = fetched if folders.fetch_command in need.remedy else need.remedy
        raise TokenmartError(f"{expert.name}: its weights are not here ({need.path}); {remedy}")
    if found.is_file():
        converted = (
            workspace.cache / "checkpoints" / expert.source.locate(expert.name, folders).revision
        )
        if not (converted / "config.json").is_file():
            raise TokenmartError(
                f"{expert.name}: {found} is a GGUF file; `tokenmart merge run --problem "
                f"{problem.argument}` without --dry-run converts it once"
            )
        return converted
    return found


def read_expert(expert: Expert, problem: MergeProblem, workspace: Workspace) -> ExpertFiles:
    """Configuration and headers of an expert.

    Raises:
        TokenmartError: files are missing or damaged.
    """
    folder = find_folder(expert, problem, workspace)
    tensors = read_headers(folder)
    name = "config.json" if expert.adapter is None else "adapter_config.json"
    try:
        config = read_json(folder / name, _LARGEST_JSON).content
    except StrictJsonError as error:
        raise TokenmartError(f"{expert.name}: {folder / name}: {error}") from error
    if not isinstance(config, dict):
        raise TokenmartError(f"{expert.name}: {folder / name}: not a table of settings")
    listed = config.get("architectures")
    architecture = str(listed[0]) if isinstance(listed, list) and listed else None
    return ExpertFiles(folder, tensors, config, _tokenizer_sha256(folder), architecture)


def _tokenizer_sha256(folder: Path) -> str | None:
    path = folder / "tokenizer.json"
    if not path.is_file() or path.stat().st_size > _LARGEST_TOKENIZER:
        return None
    return hashlib.sha256(path.read_bytes()).hexdigest()


def judge_experts(problem: MergeProblem, workspace: Workspace) -> list[Finding]:
    """Results of every rule for every expert, in the file's order; including damaged files."""
    files: dict[str, ExpertFiles] = {}
    broken: dict[str, str] = {}
    for expert in problem.experts:
        try:
            files[expert.name] = read_expert(expert, problem, workspace)
        except TokenmartError as error:
            broken[expert.name] = error.message.removeprefix(f"{expert.name}: ")
    return [
        finding for expert in problem.experts for finding in _judge(expert, problem, files, broken)
    ]


def _judge(
    expert: Expert,
    problem: MergeProblem,
    files: dict[str, ExpertFiles],
    broken: dict[str, str],
) -> Iterator[Finding]:
    rules, name = problem.rules, expert.name
    if rules.licences:
        listed = expert.licence in rules.licences
        more = "" if listed else f"; allowed: {', '.join(rules.licences)}"
        yield Finding(name, "licence", listed, expert.licence + more)
    if rules.published_before is not None:
        early = expert.published is not None and expert.published < rules.published_before
        found = "no date given" if expert.published is None else expert.published.isoformat()
        more = "" if early else f"; must be before {rules.published_before.isoformat()}"
        yield Finding(name, "published", early, found + more)
    if rules.bases:
        root = expert.base or name
        allowed = root in rules.bases
        more = "" if allowed else f"; allowed: {', '.join(rules.bases)}"
        yield Finding(name, "base", allowed, f"descends from {root}{more}")
    if name in broken:
        yield Finding(name, "files", False, broken[name])
        return
    mine = files[name]
    base = None if expert.base is None else files.get(expert.base)
    if expert.base is not None and base is None:
        yield Finding(name, "files", False, f"its base {expert.base} can't be read (see there)")
        return
    own = count_parameters(mine.tensors)
    kind = "checkpoint" if expert.adapter is None else "adapter"
    yield Finding(name, "files", True, f"{kind}, {len(mine.tensors)} tensors in {mine.folder}")
    total = own if expert.adapter is None or base is None else own + count_parameters(base.tensors)
    limit = rules.most_parameters
    fits = limit is None or total <= limit
    found = f"{total:,} counted" + (f" ({own:,} of them in the adapter)" if total != own else "")
    yield Finding(
        name, "parameters", fits, found if fits else f"{found}, more than {limit:,} allowed"
    )
    if base is not None:
        wrong = (
            shape_difference(mine.tensors, base.tensors)
            if expert.adapter is None
            else _adapter_fits(mine, base)
        )
        found = wrong or f"fits {expert.base} ({base.architecture})"
        yield Finding(name, "architecture", wrong is None, found)
    if expert.adapter is None and rules.same_tokenizer:
        first = next((e.name for e in problem.experts if e.adapter is None), name)
        yield _tokenizer(name, first, files)


def _tokenizer(name: str, first: str, files: dict[str, ExpertFiles]) -> Finding:
    mine, other = files[name].tokenizer, files[first].tokenizer if first in files else None
    if mine is None:
        return Finding(name, "tokenizer", False, "no tokenizer.json to compare")
    if other is not None and mine != other:
        found = (
            f"tokenizer.json has sha256 {mine[:12]}, that of {first} {other[:12]}; must be equal"
        )
        return Finding(name, "tokenizer", False, found)
    return Finding(name, "tokenizer", True, f"tokenizer.json has sha256 {mine[:12]}")


def shape_difference(mine: dict[str, Tensor], other: dict[str, Tensor]) -> str | None:
    """A message on the first tensor whose name or shape differs between two checkpoints."""
    for name in sorted(mine.keys() | other.keys()):
        if name not in mine or name not in other:
            where = "its base" if name not in mine else "it"
            return f"tensor {name} is only in {where}"
        if mine[name].shape != other[name].shape:
            shapes = f"{list(mine[name].shape)}, its base {list(other[name].shape)}"
            return f"tensor {name} has shape {shapes}"
    return None


def _adapter_fits(adapter: ExpertFiles, base: ExpertFiles) -> str | None:
    """Reason why an adapter's matrices don't fit the base; None if they do."""
    if adapter.config.get("peft_type") != "LORA":
        return f"an adapter of kind {adapter.config.get('peft_type')!r}; only LORA is merged"
    for name, tensor in sorted(adapter.tensors.items()):
        stem = name.removeprefix("base_model.model.")
        for part, side in ((".lora_A.", 1), (".lora_B.", 0)):
            if part in stem:
                target = f"{stem.split(part)[0]}.weight"
                if target not in base.tensors:
                    return f"{name} adapts {target}, which the base has not: made for another base"
                theirs = base.tensors[target].shape
                if len(tensor.shape) != 2 or tensor.shape[side] != theirs[side]:
                    return (
                        f"{name} has shape {list(tensor.shape)}, {target} {list(theirs)}: made for "
                        "another base"
                    )
    return None
