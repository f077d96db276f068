"""Experts are judged on their files; each refusal says why, and on what evidence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from merge_samples import (
    PARAMETERS,
    SHAPES,
    local,
    make_adapter,
    make_expert,
    write_problem,
    write_weights,
)
from safetensors.numpy import save_file

from plugins.merging.eligibility import Finding, judge_experts
from plugins.merging.experts import count_parameters, read_headers
from plugins.merging.problem import load_merge_problem
from tokenmart import cli
from warehouse.errors import ProblemFileError, TokenmartError
from warehouse.paths import find_workspace

WORKSPACE = find_workspace(Path(__file__))
RULES = {
    "most_parameters": 8_000_000_000,
    "licences": ["apache-2.0", "mit"],
    "published_before": "2025-06-01",
    "bases": ["base"],
}
Change = Callable[[Path, dict[str, Any]], None]


def lay_out(folder: Path) -> dict[str, Any]:
    """A base, a fine-tune and an adapter of it, all allowed."""
    make_expert(folder / "base")
    make_expert(folder / "tuned", seed=1)
    make_adapter(folder / "adapter")
    common = {"licence": "apache-2.0", "published": "2024-11-01"}
    experts = [
        {"name": "base", "source": local(folder / "base"), **common},
        {"name": "tuned", "source": local(folder / "tuned"), "base": "base", **common},
        {"name": "lora", "adapter": str(folder / "adapter"), "base": "base", **common},
    ]
    return {"experts": experts, "rules": dict(RULES)}


def judge(folder: Path, sections: dict[str, Any]) -> list[Finding]:
    path = write_problem(folder / "made.yml", **sections)
    return judge_experts(load_merge_problem(str(path), WORKSPACE), WORKSPACE)[0]


def test_what_is_allowed_shows_its_evidence(tmp_path):
    found = judge(tmp_path, lay_out(tmp_path))
    assert [each for each in found if not each.allowed] == []
    evidence = {(each.expert, each.rule): each.evidence for each in found}
    assert f"{PARAMETERS:,}" in evidence["base", "parameters"]
    # an adapter counts with its base: 32 of its own
    assert f"{PARAMETERS + 32:,}" in evidence["lora", "parameters"]
    assert {rule for expert, rule in evidence if expert == "tuned"} == {
        "licence", "published", "base", "files", "parameters", "architecture", "tokenizer",
    }  # fmt: skip


@pytest.mark.parametrize(("most", "refused"), [(PARAMETERS + 32, []), (PARAMETERS + 31, ["lora"])])
def test_an_expert_of_exactly_the_limit_is_allowed(most, refused, tmp_path):
    sections = lay_out(tmp_path)
    sections["rules"] = {**sections["rules"], "most_parameters": most}
    found = judge(tmp_path, sections)
    assert [each.expert for each in found if not each.allowed] == refused


def test_headers_count_what_a_library_loads(tmp_path):
    from safetensors.numpy import load_file

    folder = make_expert(tmp_path / "one")
    loaded = load_file(folder / "model.safetensors")
    assert count_parameters(read_headers(folder)) == sum(each.size for each in loaded.values())
    write_weights(folder / "model.safetensors", {"w": (8010, 10**6)}, dtype="F8_E4M3")
    assert count_parameters(read_headers(folder)) == 8_010_000_000


def of_expert(index: int, **fields: Any) -> Change:
    return lambda _, sections: sections["experts"][index].update(fields)


def _too_large(folder: Path, sections: dict[str, Any]) -> None:
    """A base of its own: against another its shapes would be refused, too."""
    write_weights(folder / "tuned" / "model.safetensors", {"w": (801, 10)}, dtype="F8_E4M3")
    del sections["experts"][1]["base"]
    sections["rules"] |= {"bases": ["base", "tuned"], "most_parameters": 8000}


def _cut(folder: Path, _: dict[str, Any]) -> None:
    file = folder / "tuned" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-40])


def _no_header(folder: Path, _: dict[str, Any]) -> None:
    (folder / "tuned" / "model.safetensors").write_bytes(b"\xff" * 64)


def _quantised(folder: Path, _: dict[str, Any]) -> None:
    write_weights(folder / "tuned" / "model.safetensors", SHAPES, dtype="U8")


def _other_words(folder: Path, _: dict[str, Any]) -> None:
    (folder / "tuned" / "tokenizer.json").write_text(json.dumps({"words": ["b"]}))


def _other_vocabulary(folder: Path, _: dict[str, Any]) -> None:
    shapes = SHAPES | {"model.embed_tokens.weight": (40, 8)}
    write_weights(folder / "tuned" / "model.safetensors", shapes)


def _more_layers(folder: Path, _: dict[str, Any]) -> None:
    shapes = SHAPES | {"model.layers.1.self_attn.q_proj.weight": (8, 8)}
    write_weights(folder / "tuned" / "model.safetensors", shapes)


def _adapter_of_another(folder: Path, _: dict[str, Any]) -> None:
    stem = "base_model.model.model.layers.7.self_attn.q_proj"
    sides = {f"{stem}.lora_A.weight": (2, 8), f"{stem}.lora_B.weight": (8, 2)}
    write_weights(folder / "adapter" / "adapter_model.safetensors", sides)


def _wider_adapter(folder: Path, _: dict[str, Any]) -> None:
    stem = "base_model.model.model.layers.0.self_attn.q_proj"
    sides = {f"{stem}.lora_A.weight": (2, 16), f"{stem}.lora_B.weight": (16, 2)}
    write_weights(folder / "adapter" / "adapter_model.safetensors", sides)


def _not_lora(folder: Path, _: dict[str, Any]) -> None:
    (folder / "adapter" / "adapter_config.json").write_text('{"peft_type": "IA3"}')


REFUSED: dict[str, tuple[Change, str]] = {
    "licence": (of_expert(1, licence="llama2"), "licence"),
    "no licence": (of_expert(1, licence="unknown"), "licence"),
    "too late": (of_expert(1, published="2025-06-01"), "published"),
    "no date": (of_expert(1, published=None), "published"),
    "base": (of_expert(1, base=None), "base"),
    "too large": (_too_large, "parameters"),
    "truncated": (_cut, "files"),
    "no header": (_no_header, "files"),
    "quantised": (_quantised, "files"),
    "tokenizer": (_other_words, "tokenizer"),
    "vocabulary": (_other_vocabulary, "architecture"),
    "layers": (_more_layers, "architecture"),
    "foreign adapter": (_adapter_of_another, "architecture"),
    "wider adapter": (_wider_adapter, "architecture"),
    "other adapter": (_not_lora, "architecture"),
    "missing": (of_expert(1, source=local(Path("/nowhere"))), "files"),
}


def check(path: Path, *more: str) -> Result:
    return CliRunner().invoke(cli, ["merge", "check", "--problem", str(path), *more])


@pytest.mark.parametrize("case", REFUSED)
def test_an_expert_is_refused_by_one_rule(tmp_path, case):
    change, rule = REFUSED[case]
    sections = lay_out(tmp_path)
    change(tmp_path, sections)
    found = judge(tmp_path, sections)
    name = "lora" if "adapter" in case else "tuned"
    assert [(f.expert, f.rule) for f in found if not f.allowed] == [(name, rule)]


@pytest.mark.parametrize(
    ("change", "code"),
    [(_cut, "damaged-weights"), (_no_header, "damaged-weights"), (_quantised, "quantised-weights")],
)
def test_damaged_headers(tmp_path, change, code):
    change(tmp_path, lay_out(tmp_path))
    with pytest.raises(TokenmartError) as refused:
        read_headers(tmp_path / "tuned")
    assert refused.value.code == code and str(tmp_path / "tuned") in refused.value.where


def test_a_mask_is_no_weight(tmp_path):
    """GPT-NeoX has a BOOL `attention.bias` and a `masked_bias` beside the weights of each layer."""
    sections = lay_out(tmp_path)
    tensors: dict[str, Any] = {name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()}
    tensors["gpt_neox.layers.0.attention.bias"] = np.ones((1, 1, 4, 4), bool)
    tensors["gpt_neox.layers.0.attention.masked_bias"] = np.zeros((), np.float32)
    save_file(tensors, tmp_path / "tuned" / "model.safetensors")
    counted = count_parameters(read_headers(tmp_path / "tuned"))
    assert counted - PARAMETERS == 1  # of the scalar, which is a float
    del tensors["gpt_neox.layers.0.attention.masked_bias"]
    save_file(tensors, tmp_path / "tuned" / "model.safetensors")
    assert all(finding.allowed for finding in judge(tmp_path, sections))


def merging(*models: Any, name: str = "m") -> dict[str, Any]:
    return {"merges": [{"name": name, "recipe": {"models": [{"model": each} for each in models]}}]}


WRONG_FILES: dict[str, tuple[dict[str, Any], str, str]] = {
    "unknown expert": (merging("tuned", "tunde"), "unknown-expert", "- model: tunde"),
    "a model that is no name": (merging({"path": "x"}), "unknown-expert", "- model:"),
    "unknown base": ({"rules": {"bases": ["bose"]}}, "unknown-expert", "- bose"),
    "an adapter as base": (
        {
            "experts": [
                {"name": "base", "source": local(Path("x"))},
                {"name": "lora", "adapter": "x", "base": "base"},
                {"name": "tuned", "source": local(Path("x")), "base": "lora"},
            ]
        },
        "base-is-adapter",
        "- base: lora",
    ),
    "twice": (merging(name="Base"), "name-twice", "- name: Base"),
    "path as name": (merging(name="../x"), "string-pattern-mismatch", "- name: ../x"),
    "negative limit": ({"limits": {"seconds": -1}}, "greater-than", "seconds: -1"),
    "unknown rule": ({"rules": {"most_params": 5}}, "extra-forbidden", "most_params: 5"),
}
"""Sections of a file, and code and line of the refusal."""


@pytest.mark.parametrize("case", WRONG_FILES)
def test_a_wrong_file_is_refused_at_its_line(tmp_path, case):
    sections, code, line = WRONG_FILES[case]
    path = write_problem(tmp_path / "made.yml", **{**lay_out(tmp_path), **sections})
    with pytest.raises(ProblemFileError) as refused:
        load_merge_problem(str(path), WORKSPACE)
    lines = [each.strip() for each in path.read_text().splitlines()]
    assert (refused.value.code, refused.value.where) == (code, f"{path}:{1 + lines.index(line)}")


def test_the_tutorial_s_problem_with_local_checkpoints_is_valid(tmp_path):
    """Relative paths start at the folder of the file."""
    tutorial = WORKSPACE.root / "docs" / "tutorials" / "ranking_merged_models.md"
    (example,) = (
        block.split("```")[0]
        for block in tutorial.read_text().split("```yaml\n")[1:]
        if block.startswith("kind: merge")
    )
    for seed, name in enumerate(("east", "west")):
        make_expert(tmp_path / "checkpoints" / name, seed=seed)
    (tmp_path / "mine.yml").write_text(example)
    done = check(tmp_path / "mine.yml")
    assert done.exit_code == 0, done.output
    assert str(tmp_path / "checkpoints" / "west") in done.stdout


def test_the_command_exits_with_1_if_an_expert_is_refused(tmp_path):
    sections = lay_out(tmp_path)
    path = write_problem(tmp_path / "made.yml", **sections)
    assert check(path).exit_code == 0
    of_expert(1, licence="llama2")(tmp_path, sections)
    write_problem(path, **sections)
    done = check(path, "--json")
    assert done.exit_code == 1
    refused = [each for each in json.loads(done.stdout) if not each["allowed"]]
    assert [(each["expert"], each["rule"]) for each in refused] == [("tuned", "licence")]
