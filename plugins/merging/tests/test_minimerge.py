"""The tutorial's script: items of three parts that never overlap, experts that are trained."""

from __future__ import annotations

import importlib.util
import json
import sys
from itertools import islice
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner
from tiny_models import make_checkpoint

from plugins import merging
from tokenmart import cli

SCRIPT = Path(__file__).parents[3] / "docs" / "tutorials" / "minimerge_experts.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("minimerge_experts", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("skill", ["reading", "maths", "code"])
def test_parts_never_overlap_whatever_the_seed(script, skill):
    drawn = {
        part: {
            item.prompt
            for seed in "01"
            for item in islice(script.draw_items(skill, part, seed), 400)
        }
        for part in ("training", "validation", "hidden")
    }
    assert not drawn["training"] & drawn["validation"]
    assert not (drawn["training"] | drawn["validation"]) & drawn["hidden"]
    assert len(drawn["hidden"]) > 400


def test_answers_are_right(script):
    for item in islice(script.draw_items("maths", "hidden", "0"), 300):
        a, b = (int(word) for word in item.prompt.split() if word.isdigit())
        assert int(item.answer) in (a + b, a - b, a * b, a // b)
    for item in islice(script.draw_items("code", "hidden", "0"), 100):
        compile(item.prompt + " " + item.answer, "item", "exec")
    for item in islice(script.draw_items("reading", "hidden", "0"), 100):
        assert item.answer in item.choices == ("no", "yes")


def test_the_rate_rises_and_falls(script):
    rates = [script.learning_rate(step) for step in range(script.STEPS)]
    assert rates.index(max(rates)) == 19 and rates[0] == pytest.approx(max(rates) / 18.3, rel=0.01)
    assert rates[-1] == pytest.approx(script.RATE * 0.1, rel=0.05)


@pytest.mark.slow
def test_two_steps_of_a_tiny_model(script, tmp_path):
    pytest.importorskip("peft")
    make_checkpoint(tmp_path / "base")
    for name in ("one", "again"):
        script.train_expert("maths", tmp_path / "base", tmp_path / name, steps=2)
    one, again = (tmp_path / name / "adapter_model.safetensors" for name in ("one", "again"))
    assert one.read_bytes() == again.read_bytes()
    config = json.loads((tmp_path / "one" / "adapter_config.json").read_text())
    assert (config["peft_type"], config["r"], config["lora_alpha"]) == ("LORA", 16, 32)


def test_tasks_are_those_of_the_harness(script, tmp_path):
    pytest.importorskip("lm_eval")
    from plugins.benchmarks.harness.tasks import load_tasks

    words = ["tasks", str(tmp_path / "final"), "--part", "hidden", "--count", "5", "--seed", "s"]
    done = CliRunner().invoke(script.main, words)
    assert done.exit_code == 0, done.output
    names = [f"final_{skill}" for skill in script.SKILLS]
    loaded = load_tasks(names, [tmp_path / "final"])
    kinds = [task.units[0].requests[0].kind for task in loaded]
    assert kinds == ["loglikelihood"] * 3
    first = next(script.draw_items("maths", "hidden", "s"))
    assert loaded[1].units[0].requests[0].arguments == (first.prompt, f" {first.answer}")


def test_there_are_no_commands_without_the_plugin_of_benchmarks(monkeypatch):
    assert merging.tokenmart_commands().keys() == {"merge", "rank"}
    monkeypatch.setattr(merging, "find_spec", lambda name: None)
    assert merging.tokenmart_commands() == {}
    done = CliRunner().invoke(cli, ["--help"])
    assert done.exit_code == 0 and "Plugin: merging" not in done.output
