"""Generated items, tasks, and small experts: disjoint, hidden, seeded, resumed."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from safetensors.numpy import load_file
from tiny_models import make_checkpoint

from plugins.merging.tasks import hidden_sets, validation_sets, write_tasks
from plugins.merging.texts import SKILLS, Item, draw_items
from tokenmart import cli
from warehouse.errors import TokenmartError

SECRET = "a long enough secret"


def prompts(sets: dict[str, list[Item]]) -> set[str]:
    return {item.prompt for items in sets.values() for item in items}


def test_training_validation_and_hidden_items_are_disjoint_whatever_the_seeds() -> None:
    training = {
        item.prompt
        for skill in SKILLS
        for seed in ("0", "training-0", SECRET)
        for item in islice(draw_items(skill, "training", seed), 500)
    }
    open_items = prompts(validation_sets(200, "0"))
    leaderboard, final = (prompts(sets) for sets in hidden_sets(200, SECRET, 0.0))
    assert len(open_items) == len(leaderboard) == len(final) == 600
    assert not training & (open_items | leaderboard | final)
    assert not open_items & (leaderboard | final) and not leaderboard & final


@pytest.mark.parametrize(("overlap", "shared"), [(0.0, 0), (0.25, 10), (1.0, 40)])
def test_the_hidden_sets_share_what_was_asked_for(overlap: float, shared: int) -> None:
    leaderboard, final = hidden_sets(40, SECRET, overlap)
    for skill in SKILLS:
        both = {i.prompt for i in leaderboard[skill]} & {i.prompt for i in final[skill]}
        assert len(both) == shared
        assert len(leaderboard[skill]) == len(final[skill]) == 40


@pytest.mark.parametrize(
    ("secret", "overlap"),
    [
        ("short", 0.0),
        ("секретная-фраза-0001", 0.0),  # the search for leaks goes by ASCII letters
        ("秘密の合言葉は桜と雪である", 0.0),
        (SECRET, 1.5),
        (SECRET, -0.1),
    ],
)
def test_hidden_sets_refuse_what_makes_no_sense(secret: str, overlap: float) -> None:
    with pytest.raises(TokenmartError):
        hidden_sets(5, secret, overlap)


def test_a_count_beyond_what_a_skill_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def few(draw: random.Random) -> Item:
        return Item(f"{draw.randrange(60)} + 0 =", "?")

    monkeypatch.setitem(SKILLS, "code", few)
    with pytest.raises(TokenmartError) as refused:
        validation_sets(40, "0")
    with pytest.raises(TokenmartError):
        hidden_sets(20, SECRET, 0.0)
    said = r"code: 40 validation items are asked for, .* only about (\d+); ask for fewer"
    (there,) = re.findall(said, refused.value.message)
    assert len(validation_sets(int(there), "0")["code"]) == int(there) < 40


def test_answers_are_right() -> None:
    """Reading against the passage, arithmetic by its own numbers, code by running it."""
    for item in islice(draw_items("reading", "validation", "x"), 60):
        passage, question = item.prompt.split("\nQuestion: ")
        words = question.removesuffix("?\nAnswer:").split()
        if words[0] == "does":
            name, value = words[1], words[-1]
        else:
            name, value = words[4], words[-1]
        verb = {"live": "lives in", "work": "works as a", "keep": "keeps a"}.get(words[2], "drives")
        stated = next(s for s in passage.split(".") if f"{name} {verb}" in s)
        assert item.answer == ("yes" if stated.split()[-1] == value else "no"), item
    for item in islice(draw_items("maths", "validation", "x"), 60):
        a, *rest = (int(number) for number in re.findall(r"\d+", item.prompt))
        b = rest[0]
        possible = {a + b, a - b, a * b, a / b}
        assert int(item.answer) in possible and int(item.answer) >= 0, item
    for item in islice(draw_items("code", "validation", "x"), 60):
        place: dict[str, Any] = {}
        exec(f"{item.prompt} {item.answer}", place)
        name = re.match(r"def (\w+)", item.prompt)
        assert name is not None
        result = place[name[1]](7, 4)
        number = [int(n) for n in re.findall(r"times (\d+)", item.prompt)]
        expected = {"add": 11, "subtract": 3, "largest": 7, "exceeds": True, "average": 5.5}
        kind = name[1].split("_")[0]
        assert result == (7 * number[0] + 4 if kind == "scale" else expected[kind]), item


def test_the_harness_loads_the_tasks(tmp_path: Path) -> None:
    pytest.importorskip("lm_eval")
    from plugins.benchmarks.harness.tasks import load_tasks

    write_tasks(validation_sets(6, "0"), tmp_path, "mini")
    tasks = load_tasks(["mini_reading", "mini_maths", "mini_code"], [tmp_path])
    requests = {task.name: sum(len(unit.requests) for unit in task.units) for task in tasks}
    assert requests == {"mini_reading": 12, "mini_maths": 6, "mini_code": 6}
    (maths,) = [task for task in tasks if task.name == "mini_maths"]
    context, continuation = maths.units[0].requests[0].arguments
    assert context.endswith("\nAnswer:") and re.fullmatch(r" \d+", continuation)


def test_an_unknown_skill_is_refused(tmp_path: Path) -> None:
    words = ["merge", "train", "sums", "--base", str(tmp_path), "--out", str(tmp_path / "x")]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 1 and "no skill 'sums'" in done.stderr


@pytest.mark.slow
def test_a_training_with_other_settings_is_not_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither after it ended nor from the state of one that was stopped."""
    pytest.importorskip("peft")
    from plugins.merging import texts
    from plugins.merging.training import Training, train_expert

    base = make_checkpoint(tmp_path / "base")
    training = Training("maths", steps=2, batch=2, items=20, rank=2)
    train_expert(training, base, tmp_path / "done")

    def stop_later(step: int, _: float) -> None:
        if step == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_expert(training, base, tmp_path / "begun", stop_later, keep_every=1)
    assert (tmp_path / "begun" / "state.pt").exists()
    other = make_checkpoint(tmp_path / "other", seed=1)

    def more(draw: random.Random) -> Item:
        item = texts.SKILLS["code"](draw)
        return Item(item.prompt, f"{item.answer}  # so")

    for folder in (tmp_path / "done", tmp_path / "begun"):
        with pytest.raises(TokenmartError, match="trained with other settings; choose"):
            train_expert(replace(training, rate=1e-4), base, folder)
        with pytest.raises(TokenmartError, match="trained from another base; choose"):
            train_expert(training, other, folder)
        with monkeypatch.context() as patch:
            patch.setitem(texts.SKILLS, "maths", more)
            with pytest.raises(TokenmartError, match="trained on other texts; choose"):
                train_expert(training, base, folder)
    (tmp_path / "begun" / "state.pt").write_bytes(b"PK cut")
    with pytest.raises(TokenmartError, match=r"state\.pt: can't be read; remove it"):
        train_expert(training, base, tmp_path / "begun")


@pytest.mark.slow
@pytest.mark.parametrize("skill", SKILLS)
def test_logits_at_answers_alone_give_the_loss_of_all_logits(tmp_path: Path, skill: str) -> None:
    """Loss and gradients: float32 sums in another order, so a few roundings apart."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from plugins.merging.training import answers_loss, tokenized

    base = make_checkpoint(tmp_path / "base")
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    rows = tokenized(
        AutoTokenizer.from_pretrained(base), list(islice(draw_items(skill, "training", "x"), 5))
    )
    assert len({len(ids) for ids, _ in rows}) > 1 and len({start for _, start in rows}) > 1
    loss = answers_loss(model, rows)
    loss.backward()
    found = {name: each.grad.clone() for name, each in model.named_parameters()}
    model.zero_grad()
    nats, tokens = torch.zeros(()), 0
    for ids, start in rows:  # one by one: no padding, every logit
        logits = model(input_ids=torch.tensor([ids])).logits[0, :-1]
        nlls = torch.nn.functional.cross_entropy(logits, torch.tensor(ids[1:]), reduction="none")
        nats, tokens = nats + nlls[start - 1 :].sum(), tokens + len(ids) - start
    expected = nats / tokens
    expected.backward()
    eps = float(torch.finfo(torch.float32).eps)
    assert float(loss.detach()) == pytest.approx(float(expected.detach()), rel=32 * eps)
    for name, parameter in model.named_parameters():
        largest = float(parameter.grad.abs().max())
        assert float((found[name] - parameter.grad).abs().max()) <= 1000 * eps * largest, name


@pytest.mark.slow
def test_a_training_that_was_stopped_ends_as_one_that_was_not(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    from plugins.merging.training import Training, train_expert

    class StoppedError(Exception):
        pass

    def stop(step: int, _: float) -> None:
        if step == 5:
            raise StoppedError

    base = make_checkpoint(tmp_path / "base")
    training = Training("maths", steps=8, batch=4, items=50, rank=2, seed=3)
    whole = train_expert(training, base, tmp_path / "whole", keep_every=2)
    with pytest.raises(StoppedError):
        train_expert(training, base, tmp_path / "stopped", stop, keep_every=2)
    resumed = train_expert(training, base, tmp_path / "stopped", keep_every=2)
    assert whole["steps_done"] == resumed["steps_done"] == 8
    # the same float32 steps on the same machine: rounding of saved states is none
    assert resumed["losses"] == pytest.approx(whole["losses"], abs=1e-4)
    one, other = (
        load_file(tmp_path / name / "adapter_model.safetensors") for name in ("whole", "stopped")
    )
    assert one.keys() == other.keys()
    assert max(abs(one[name] - other[name]).max() for name in one) < 1e-4
    assert whole["losses"][-1] < whole["losses"][0]
    assert not (tmp_path / "stopped" / "state.pt").exists()
