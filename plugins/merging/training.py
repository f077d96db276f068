"""Train small experts: LoRA adapters on generated items, seeded and resumable."""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plugins.merging.texts import SKILLS, Item, take_items
from warehouse.errors import TokenmartError, did_you_mean
from warehouse.files import appearing, sha256_file, storage_errors, write_whole
from warehouse.strict_json import StrictJsonError, read_json

if TYPE_CHECKING:
    import torch

STATE, RECORD = "state.pt", "training.json"
WARMING = 0.1
"""Share of the steps over which the learning rate rises."""
_LARGEST = 16 << 20


@dataclass(frozen=True)
class Training:
    """Settings of an expert's training; losses are computed on answer tokens only, in nats.

    skill: one of `SKILLS`.
    steps: number of optimiser steps.
    batch: items per step.
    items: number of training items that batches are drawn from.
    rate: highest learning rate of AdamW, reached after the warm-up and then reduced to a tenth. It
        is twice the rate of LoRA's authors for models of this size (Hu et al. 2021: 4e-4 to 5e-4),
        because there are few steps; with 2e-3 the loss was unstable.
    rank: rank of the LoRA matrices, on all linear layers; alpha is twice the rank.
    seed: random seed of items, batches and matrices.
    """

    skill: str
    steps: int = 200
    batch: int = 8
    items: int = 4000
    rate: float = 1e-3
    rank: int = 16
    seed: int = 0


def train_expert(
    training: Training,
    base: Path,
    folder: Path,
    tick: Callable[[int, float], None] = lambda step, loss: None,
    keep_every: int = 10,
) -> dict[str, Any]:
    """Train an adapter of a base, or resume an interrupted training; write it in peft's format.

    Args:
        training: the settings.
        base: checkpoint folder.
        folder: folder of the adapter; during training it also contains the saved state.
        tick: called after each step with the mean loss of its answers, in nats per token.
        keep_every: number of steps between saved states.

    Returns:
        The record: settings, losses, total seconds.

    Raises:
        TokenmartError: the skill is unknown, or the folder has a training with other settings,
            texts or base.
        StorageError: the folder can't be written.
    """
    import torch
    from peft import LoraConfig, get_peft_model, get_peft_model_state_dict
    from peft import set_peft_model_state_dict as set_state
    from transformers import AutoTokenizer

    from extract.models.weights import load_weights

    if training.skill not in SKILLS:
        hint = did_you_mean(training.skill, SKILLS)
        raise TokenmartError(f"no skill {training.skill!r}; {hint}there are: {', '.join(SKILLS)}")
    items = take_items(training.skill, "training", f"training-{training.seed}", training.items)
    fresh = _fresh(training, items, base)
    if (finished := _finished(folder, fresh)) is not None:
        return finished
    state = _state(folder, fresh)
    record = fresh if state is None else json.loads(state["record"])
    torch.manual_seed(training.seed)
    tokenizer = AutoTokenizer.from_pretrained(base)
    plain = load_weights(base, str(base), dtype=torch.float32).model
    settings = LoraConfig(
        r=training.rank, lora_alpha=2 * training.rank, target_modules="all-linear"
    )
    model = get_peft_model(plain, settings)
    weights = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=training.rate, weight_decay=0.0)
    if state is not None:
        set_state(model, state["adapter"])
        optimizer.load_state_dict(state["optimizer"])
    for step in range(record["steps_done"], training.steps):
        started = time.monotonic()
        picked = random.Random(f"{training.seed}/{step}").sample(items, training.batch)
        for group in optimizer.param_groups:
            group["lr"] = training.rate * _share(step, training.steps)
        loss = answers_loss(model, tokenized(tokenizer, picked))
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        record["losses"].append(round(float(loss.detach()), 6))
        record["seconds"] = round(record["seconds"] + time.monotonic() - started, 3)
        record["steps_done"] = step + 1
        tick(step + 1, record["losses"][-1])
        if (step + 1) % keep_every == 0 and step + 1 < training.steps:
            kept = {
                "adapter": get_peft_model_state_dict(model),
                "optimizer": optimizer.state_dict(),
                "record": json.dumps(record),
            }
            with appearing(folder / STATE) as draft:
                torch.save(kept, draft)
    with storage_errors(folder):
        model.save_pretrained(folder)
    write_whole(folder / RECORD, json.dumps(record))
    (folder / STATE).unlink(missing_ok=True)
    return record


def _share(step: int, steps: int) -> float:
    """Factor of the learning rate at a step: rises over `WARMING` steps, then falls to 0.1."""
    return min(1.0, (step + 1) / max(1, WARMING * steps)) * (1 - 0.9 * step / steps)


def _fresh(training: Training, items: list[Item], base: Path) -> dict[str, Any]:
    """The record of a new training, with hashes of its texts and base."""
    texts = json.dumps([[item.prompt, item.answer] for item in items])
    weights = hashlib.sha256()
    for path in sorted(base.glob("*.safetensors")):
        weights.update(sha256_file(path).encode())
    return {
        "training": asdict(training),
        "texts_sha256": hashlib.sha256(texts.encode()).hexdigest(),
        "base_sha256": weights.hexdigest(),
        "steps_done": 0,
        "seconds": 0.0,
        "losses": [],
    }


def _finished(folder: Path, fresh: dict[str, Any]) -> dict[str, Any] | None:
    """The record of a finished training in this folder; None if there is none.

    Raises:
        TokenmartError: the folder has another training.
    """
    if not (folder / RECORD).is_file():
        with storage_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        return None
    try:
        found = read_json(folder / RECORD, _LARGEST).content
    except StrictJsonError as error:
        raise TokenmartError(f"{folder / RECORD}: {error}; remove {folder}") from error
    _refuse_another(found, fresh, folder)
    return dict(found)


def _state(folder: Path, fresh: dict[str, Any]) -> dict[str, Any] | None:
    """Saved state of an interrupted training in this folder; None if there is none.

    Raises:
        TokenmartError: the folder has another training, or the state is damaged.
    """
    import torch

    if not (folder / STATE).is_file():
        return None
    try:
        found: dict[str, Any] = torch.load(folder / STATE, weights_only=True)
        record = json.loads(found["record"])
    except Exception as error:  # errors of zip, pickle and torch
        raise TokenmartError(
            f"{folder / STATE}: can't be read; remove it, and the training starts again"
        ) from error
    _refuse_another(record, fresh, folder)
    return found


def _refuse_another(found: Any, fresh: dict[str, Any], folder: Path) -> None:
    """Refuse a folder whose training has other settings, texts or base."""
    before = found if isinstance(found, dict) else {}
    for key, what in (
        ("training", "with other settings"),
        ("texts_sha256", "on other texts"),
        ("base_sha256", "from another base"),
    ):
        if before.get(key) != fresh[key]:
            raise TokenmartError(
                f"{folder}: contains an expert that was trained {what}; choose another folder, or "
                "remove this one"
            )


def tokenized(tokenizer: Any, items: list[Item]) -> list[tuple[list[int], int]]:
    """Token ids of each item, and its prompt length; an end-of-text token follows the answer."""
    rows = []
    for item in items:
        prompt = tokenizer(item.prompt)["input_ids"]
        whole = tokenizer(f"{item.prompt} {item.answer}")["input_ids"] + [tokenizer.eos_token_id]
        rows.append((whole, len(prompt)))
    return rows


def answers_loss(model: Any, rows: list[tuple[list[int], int]]) -> torch.Tensor:
    """Mean NLL of the answers' tokens; logits are computed only for tokens of answers."""
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
