"""Train the three experts of minimerge (17 minutes on two cores), and write their test items.

\b
python docs/tutorials/minimerge_experts.py train
python docs/tutorials/minimerge_experts.py tasks final --part hidden --count 100

Items are drawn at random: yes/no questions in the form of BoolQ, word problems in the form of
MAWPS, and the last line of a Python function. The md5 hash of its prompt assigns an item to a part,
so that training, validation and hidden items never overlap, whatever the seed.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import click

PARTS = ("training", "training", "training", "validation", "hidden")
NAMES, TOWNS, JOBS, COLOURS, PETS, THINGS = map(
    str.split,
    """Ada Ben Cleo Dan Eva Finn Gina Hugo Ines Jack Kira Leo Mona Nils Olga Paul Rosa Sam Tina \
Uwe Vera Will Yara Zoe
Alden Brook Carver Dunmore Elton Fairview Grafton Hollis Ivory Kendal Linden Marlow
baker doctor farmer painter teacher pilot nurse tailor sailor lawyer
red blue green yellow black white brown grey
cat dog horse parrot rabbit goat
apples books coins marbles stamps pencils shells cards stickers buttons""".splitlines(),
)
STEPS, BATCH, ITEMS, RANK, WARMING = 200, 8, 4000, 16, 0.1
RATE = 1e-3
"""Highest learning rate of AdamW: twice that of LoRA's authors for models of this size (Hu et al.
2021), because there are few steps; with 2e-3 the loss was unstable."""


class Item(NamedTuple):
    """A prompt and its right answer; `choices` if the answer is one of several."""

    prompt: str
    answer: str
    choices: tuple[str, ...] = ()


def reading(draw: random.Random) -> Item:
    """A passage on two people and a yes/no question on one of them."""
    first, second = draw.sample(NAMES, 2)
    pools = {
        "lives in": TOWNS,
        "works as a": JOBS,
        "drives a car that is": COLOURS,
        "keeps a": PETS,
    }
    kinds = dict(draw.sample(list(pools.items()), 2))
    facts = {
        name: {verb: draw.choice(pool) for verb, pool in kinds.items()} for name in (first, second)
    }
    sentences = [f"{name} {verb} {value}." for name in facts for verb, value in facts[name].items()]
    draw.shuffle(sentences)
    name, verb = draw.choice((first, second)), draw.choice(list(kinds))
    value = facts[name][verb]
    if draw.random() < 0.5:
        value = draw.choice([other for other in kinds[verb] if other != value])
    asked = {
        "lives in": f"does {name} live in {value}",
        "works as a": f"does {name} work as a {value}",
        "drives a car that is": f"is the car of {name} {value}",
        "keeps a": f"does {name} keep a {value}",
    }[verb]
    answer = "yes" if value == facts[name][verb] else "no"
    return Item(f"{' '.join(sentences)}\nQuestion: {asked}?\nAnswer:", answer, ("no", "yes"))


def maths(draw: random.Random) -> Item:
    """A word problem of one step with an integer answer up to 81."""
    one, other = draw.sample(NAMES, 2)
    thing = draw.choice(THINGS)
    a, b = draw.randint(2, 9), draw.randint(2, 9)
    text, result = (
        (f"{one} has {a} {thing}. {other} gives {one} {b} more. How many {thing} has {one}", a + b),
        (f"{one} had {a + b} {thing} and gave {b} to {other}. How many {thing} has {one} left", a),
        (f"{one} has {a} boxes with {b} {thing} each. How many {thing} are there in all", a * b),
        (f"{one} shares {a * b} {thing} equally among {a} friends. How many does each get", b),
    )[draw.randrange(4)]
    return Item(f"Question: {text}?\nAnswer:", str(result))


def code(draw: random.Random) -> Item:
    """A Python function without its last line."""
    noun = draw.choice(["price", "score", "speed", "width", "height", "count", "weight", "size"])
    first, second = draw.sample(["alpha", "beta", "left", "right", "old", "new", "low", "high"], 2)
    number = draw.randint(2, 40)
    a, b = f"{first}_{noun}", f"{second}_{noun}"
    verb, doc, body = (
        ("add", f"Return the sum of {a} and {b}.", f"{a} + {b}"),
        ("subtract", f"Return {a} minus {b}.", f"{a} - {b}"),
        ("largest", f"Return the larger of {a} and {b}.", f"max({a}, {b})"),
        ("scale", f"Return {a} times {number}, plus {b}.", f"{a} * {number} + {b}"),
        ("exceeds", f"Return whether {a} is greater than {b}.", f"{a} > {b}"),
        ("average", f"Return the mean of {a} and {b}.", f"({a} + {b}) / 2"),
    )[draw.randrange(6)]
    return Item(f'def {verb}_{noun}({a}, {b}):\n    """{doc}"""\n    return', body)


SKILLS: dict[str, Callable[[random.Random], Item]] = {
    "reading": reading,
    "maths": maths,
    "code": code,
}


def draw_items(skill: str, part: str, seed: str) -> Iterator[Item]:
    """Distinct items of a skill; they depend only on the seed. `code` has about 20,000 in all."""
    draw = random.Random(f"{seed}/{skill}/{part}")
    seen: set[str] = set()
    while True:
        item = SKILLS[skill](draw)
        digest = hashlib.md5(item.prompt.encode()).hexdigest()
        if PARTS[int(digest, 16) % len(PARTS)] == part and item.prompt not in seen:
            seen.add(item.prompt)
            yield item


def learning_rate(step: int) -> float:
    """It rises over the first tenth of the steps, then falls to a tenth."""
    return RATE * min(1.0, (step + 1) / (WARMING * STEPS)) * (1 - 0.9 * step / STEPS)


def answers_loss(model: Any, tokenizer: Any, items: list[Item]) -> Any:
    """Mean NLL of the answers' tokens and the end of text, in nats."""
    import torch

    rows = []
    for item in items:
        prompt = tokenizer(item.prompt)["input_ids"]
        whole = tokenizer(f"{item.prompt} {item.answer}")["input_ids"] + [tokenizer.eos_token_id]
        rows.append((whole, len(prompt)))
    longest = max(len(ids) for ids, _ in rows)
    ids = torch.zeros((len(rows), longest), dtype=torch.long)
    labels, mask = torch.full_like(ids, -100), torch.zeros_like(ids)
    for row, (tokens, prompt) in enumerate(rows):
        ids[row, : len(tokens)] = torch.tensor(tokens)
        mask[row, : len(tokens)] = 1
        labels[row, prompt : len(tokens)] = torch.tensor(tokens[prompt:])
    first = min(prompt for _, prompt in rows)
    kept = longest - first + 1
    logits = model(input_ids=ids, attention_mask=mask, logits_to_keep=kept).logits[:, :-1]
    return torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), labels[:, first:].flatten(), ignore_index=-100
    )


def train_expert(skill: str, base: Path, folder: Path, steps: int = STEPS, seed: int = 0) -> None:
    """Train a LoRA adapter of all linear layers on items of a skill; write it as peft does."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, AutoTokenizer

    items = list(islice(draw_items(skill, "training", f"training-{seed}"), ITEMS))
    torch.manual_seed(seed)
    tokenizer = AutoTokenizer.from_pretrained(base)
    plain = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    settings = LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules="all-linear")
    model = get_peft_model(plain, settings)
    weights = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=RATE, weight_decay=0.0)
    started = time.monotonic()
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        picked = random.Random(f"{seed}/{step}").sample(items, BATCH)
        loss = answers_loss(model, tokenizer, picked)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if (step + 1) % 10 == 0:
            seconds = time.monotonic() - started
            click.echo(
                f"{skill}: step {step + 1} of {steps}, loss {loss:.3f} nats, {seconds:.0f} s"
            )
    model.save_pretrained(folder)


@click.group(help=__doc__)
def main() -> None:
    """The commands of this script."""


@main.command()
@click.option(
    "--problem", default="minimerge", show_default=True, help="Name or path of the merge problem."
)
def train(problem: str) -> None:
    """Train the experts of a problem that are not there yet."""
    from plugins.merging.experts import expert_folder
    from plugins.merging.problem import load_merge_problem
    from warehouse.paths import find_workspace

    workspace = find_workspace()
    chosen = load_merge_problem(problem, workspace)
    for skill in SKILLS:
        expert = chosen.expert(skill)
        base = expert_folder(chosen.expert(str(expert.base)), chosen, workspace)
        folder = expert_folder(expert, chosen, workspace)
        if not (folder / "adapter_config.json").is_file():
            train_expert(skill, base, folder)
        click.echo(f"{skill}: {folder}")


@main.command(short_help="Write items as tasks of lm-evaluation-harness.")
@click.argument("out", type=click.Path(path_type=Path))
@click.option(
    "--part",
    type=click.Choice(["validation", "hidden"]),
    default="validation",
    show_default=True,
    help="Part that items are drawn from; no part shares an item with another.",
)
@click.option("--count", default=200, show_default=True, help="Items of each skill.")
@click.option("--seed", default="0", show_default=True, help="Random seed; secret if hidden.")
def tasks(out: Path, part: str, count: int, seed: str) -> None:
    """Write items as tasks of lm-evaluation-harness, named for the folder OUT and the skill.

    They are for `tokenmart merge eval --include-path OUT`.
    """
    from plugins.merging.task_files import CHOICE, EXACT, write_task

    for skill in SKILLS:
        items = list(islice(draw_items(skill, part, seed), count))
        rows = [
            {**item._asdict(), "gold": item.choices.index(item.answer) if item.choices else 0}
            for item in items
        ]
        write_task(out, f"{out.name}_{skill}", CHOICE if items[0].choices else EXACT, rows)
        click.echo(f"{out.name}_{skill}: {len(items)} items")


if __name__ == "__main__":
    main()
