"""Check experts against the rules of a problem, on evidence from their files."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from plugins.merging.experts import ExpertFiles, Shapes, count_parameters, read_expert
from plugins.merging.problem import Expert, MergeProblem
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace


@dataclass(frozen=True)
class Finding:
    """Result of a rule for an expert.

    Attributes:
        expert: its name.
        rule: parameters, licence, published, base, architecture, tokenizer or files.
        allowed: whether the rule allows the expert.
        evidence: what was found, and what the rule requires.
    """

    expert: str
    rule: str
    allowed: bool
    evidence: str


def judge_experts(
    problem: MergeProblem, workspace: Workspace, names: Collection[str] | None = None
) -> tuple[list[Finding], dict[str, ExpertFiles]]:
    """Results of every rule for experts, in the file's order; files that can't be read are one.

    Args:
        problem: has the rules.
        workspace: the checkout with the files.
        names: of the experts, with the bases of adapters; None for all.

    Returns:
        The findings, and the files by expert, without those that can't be read.
    """
    experts = [each for each in problem.experts if names is None or each.name in names]
    files: dict[str, ExpertFiles] = {}
    broken: dict[str, str] = {}
    for expert in experts:
        try:
            files[expert.name] = read_expert(expert, problem, workspace)
        except TokenmartError as error:
            broken[expert.name] = error.message
    findings: list[Finding] = []
    for expert in experts:
        findings += _judge_statements(expert, problem)
        if reason := broken.get(expert.name) or broken.get(expert.base or ""):
            findings.append(Finding(expert.name, "files", False, reason))
        else:
            findings += _judge_files(expert, problem, files)
    return findings, files


def _judge_statements(expert: Expert, problem: MergeProblem) -> Iterator[Finding]:
    """Rules on what the problem file says of an expert."""
    rules, name = problem.rules, expert.name
    if rules.licences:
        evidence = f"{expert.licence}; allowed: {', '.join(rules.licences)}"
        yield Finding(name, "licence", expert.licence in rules.licences, evidence)
    if before := rules.published_before:
        early = expert.published is not None and expert.published < before
        yield Finding(name, "published", early, f"{expert.published}; must be before {before}")
    if rules.bases:
        root = expert.base or name
        evidence = f"descends from {root}; allowed: {', '.join(rules.bases)}"
        yield Finding(name, "base", root in rules.bases, evidence)


def _judge_files(
    expert: Expert, problem: MergeProblem, files: Mapping[str, ExpertFiles]
) -> Iterator[Finding]:
    """Rules on an expert's files."""
    rules, name, mine = problem.rules, expert.name, files[expert.name]
    base = files.get(expert.base or "")
    yield Finding(name, "files", True, f"{len(mine.shapes)} tensors in {mine.folder}")
    total = count_parameters(mine.shapes)
    if expert.adapter is not None and base is not None:
        total += count_parameters(base.shapes)
    limit = rules.most_parameters
    evidence = f"{total:,} counted" + (f", {limit:,} allowed" if limit else "")
    yield Finding(name, "parameters", limit is None or total <= limit, evidence)
    if base is not None:
        wrong = (
            shape_difference(mine.shapes, base.shapes)
            if expert.adapter is None
            else _adapter_difference(mine, base)
        )
        yield Finding(name, "architecture", wrong is None, wrong or f"fits {expert.base}")
    if rules.same_tokenizer and expert.adapter is None:
        first = next(e.name for e in problem.experts if e.adapter is None and e.name in files)
        same = mine.tokenizer is not None and mine.tokenizer == files[first].tokenizer
        evidence = f"tokenizer.json has sha256 {mine.tokenizer}, that of {first}"
        yield Finding(
            name, "tokenizer", same, evidence if same else f"{evidence} {files[first].tokenizer}"
        )


def shape_difference(mine: Shapes, other: Shapes) -> str | None:
    """A message on the first tensor whose name or shape differs between two checkpoints."""
    for name in sorted(mine.keys() | other.keys()):
        if mine.get(name) != other.get(name):
            return f"tensor {name} has shape {mine.get(name)}, in the other {other.get(name)}"
    return None


def _adapter_difference(adapter: ExpertFiles, base: ExpertFiles) -> str | None:
    """Reason why an adapter's matrices don't fit the base; None if they do."""
    if adapter.adapter_type != "LORA":
        return f"an adapter of kind {adapter.adapter_type!r}; only LORA is merged"
    for name, shape in sorted(adapter.shapes.items()):
        stem = name.removeprefix("base_model.model.")
        for part, side in ((".lora_A.", 1), (".lora_B.", 0)):
            if part in stem:
                target = f"{stem.split(part)[0]}.weight"
                theirs = base.shapes.get(target)
                if theirs is None or len(shape) != 2 or shape[side] != theirs[side]:
                    return f"{name} has shape {shape}, {target} of the base {theirs}"
    return None
