"""Small experts: LoRA adapters trained on generated items, seeded and resumable."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from extract.merging.texts import SKILLS, Item, draw_items
from warehouse.errors import TokenmartError, did_you_mean
from warehouse.files import appearing, storage_errors, write_whole

if TYPE_CHECKING:
    import torch

STATE, SETTINGS = "state.pt", "training.json"
WARMING = 5


@dataclass(frozen=True)
class Training:
    """How an expert is trained; losses are of answer tokens only, in nats.

    skill: of `SKILLS`.
    steps: optimiser steps.
    batch: items a step.
    items: training items that batches are drawn from.
    rate: highest learning rate of AdamW: reached over the first steps, then falling to a tenth.
    rank: of the LoRA matrices, on all linear layers; alpha is twice that.
    seed: of items, batches and matrices.
    """

    skill: str
    steps: int = 60
    batch: int = 16
    items: int = 4000
    rate: float = 2e-3
    rank: int = 16
    seed: int = 0


def train_expert(
    training: Training,
    base: Path,
    folder: Path,
    tick: Callable[[int, float], None] = lambda step, loss: None,
    keep_every: int = 10,
) -> dict[str, Any]:
    """Train an adapter of a base, or go on where a stopped training was; write it in peft's form.

    Args:
        training: how.
        base: checkpoint folder.
        folder: of the adapter; while it trains it holds the state to go on from.
        tick: called after each step with the mean loss of its answers, in nats a token.
        keep_every: steps between states that are kept.

    Returns:
        What was recorded: settings, losses, seconds in all.

    Raises:
        TokenmartError: no such skill, or the folder holds another training.
        StorageError: the folder can't be written.
    """
    import torch
    from peft import LoraConfig, get_peft_model, get_peft_model_state_dict
    from peft import set_peft_model_state_dict as set_state
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if training.skill not in SKILLS:
        hint = did_you_mean(training.skill, SKILLS)
        raise TokenmartError(f"no skill {training.skill!r}; {hint}there are: {', '.join(SKILLS)}")
    record = _begun(training, folder)
    if record["steps_done"] >= training.steps:
        return record
    torch.manual_seed(training.seed)
    tokenizer = AutoTokenizer.from_pretrained(base)
    plain = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    settings = LoraConfig(
        r=training.rank, lora_alpha=2 * training.rank, target_modules="all-linear"
    )
    model = get_peft_model(plain, settings)
    weights = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=training.rate, weight_decay=0.0)
    if record["steps_done"]:
        state = torch.load(folder / STATE, weights_only=True)
        set_state(model, state["adapter"])
        optimizer.load_state_dict(state["optimizer"])
    seed = f"training-{training.seed}"
    items = list(islice(draw_items(training.skill, "training", seed), training.items))
    for step in range(record["steps_done"], training.steps):
        started = time.monotonic()
        picked = random.Random(f"{training.seed}/{step}").sample(items, training.batch)
        for group in optimizer.param_groups:
            group["lr"] = training.rate * _share(step, training.steps)
        loss = _loss(model, _batch(tokenizer, picked))
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        record["losses"].append(round(float(loss.detach()), 6))
        record["seconds"] = round(record["seconds"] + time.monotonic() - started, 3)
        record["steps_done"] = step + 1
        tick(step + 1, record["losses"][-1])
        if (step + 1) % keep_every == 0 and step + 1 < training.steps:
            state = {
                "adapter": get_peft_model_state_dict(model),
                "optimizer": optimizer.state_dict(),
            }
            with appearing(folder / STATE) as draft:
                torch.save(state, draft)
            write_whole(folder / SETTINGS, json.dumps(record))
    with storage_errors(folder):
        model.save_pretrained(folder)
        (folder / STATE).unlink(missing_ok=True)
    write_whole(folder / SETTINGS, json.dumps(record))
    return record


def _share(step: int, steps: int) -> float:
    """Of the highest learning rate at a step: up over `WARMING` steps, then down to a tenth."""
    return min(1.0, (step + 1) / WARMING) * (1 - 0.9 * step / steps)


def _begun(training: Training, folder: Path) -> dict[str, Any]:
    """What an earlier run left in the folder, or an empty record."""
    fresh: dict[str, Any] = {
        "training": asdict(training),
        "steps_done": 0,
        "seconds": 0.0,
        "losses": [],
    }
    if not (folder / SETTINGS).is_file():
        with storage_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        return fresh
    found: dict[str, Any] = json.loads((folder / SETTINGS).read_bytes())
    if found["training"] != fresh["training"]:
        raise TokenmartError(
            f"{folder}: holds an expert that was trained otherwise; choose another folder, or "
            "remove this one"
        )
    return found


def _batch(tokenizer: Any, items: list[Item]) -> list[tuple[list[int], int]]:
    """Token ids of each item and how many of them are prompt; an end of text follows the answer."""
    rows = []
    for item in items:
        prompt = tokenizer(item.prompt)["input_ids"]
        whole = tokenizer(f"{item.prompt} {item.answer}")["input_ids"] + [tokenizer.eos_token_id]
        rows.append((whole, len(prompt)))
    return rows


def _loss(model: Any, rows: list[tuple[list[int], int]]) -> torch.Tensor:
    """Mean NLL of the answers' tokens; logits are made only where an answer may stand."""
    import torch

    longest = max(len(ids) for ids, _ in rows)
    ids = torch.zeros((len(rows), longest), dtype=torch.long)
    labels = torch.full_like(ids, -100)
    mask = torch.zeros_like(ids)
    for row, (tokens, prompt) in enumerate(rows):
        ids[row, : len(tokens)] = torch.tensor(tokens)
        mask[row, : len(tokens)] = 1
        labels[row, prompt : len(tokens)] = torch.tensor(tokens[prompt:])
    first = min(prompt for _, prompt in rows)
    kept = longest - first + 1
    logits = model(input_ids=ids, attention_mask=mask, logits_to_keep=kept).logits[:, :-1]
    answers = labels[:, first:]
    found: torch.Tensor = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), answers.flatten(), ignore_index=-100
    )
    return found
