"""Generate items of three skills for small experts: reading, arithmetic, code.

The md5 hash of its prompt assigns an item to one of three splits, so that training and test items
never overlap, whatever the seeds.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from warehouse.errors import TokenmartError

_MOST_IN_VAIN = 200_000
"""Number of draws without a new item after which a skill is exhausted; `code` has about 20,000."""

Part = Literal["training", "validation", "hidden"]
_PARTS: tuple[Part, ...] = ("training", "training", "training", "validation", "hidden")


@dataclass(frozen=True)
class Item:
    """A prompt and its right answer; `choices` if the answer is one of several."""

    prompt: str
    answer: str
    choices: tuple[str, ...] = ()

    @property
    def part(self) -> Part:
        """The split of the item: training, validation or hidden."""
        return _PARTS[int(hashlib.md5(self.prompt.encode()).hexdigest(), 16) % len(_PARTS)]


_NAMES = [
    "Ada",
    "Ben",
    "Cleo",
    "Dan",
    "Eva",
    "Finn",
    "Gina",
    "Hugo",
    "Ines",
    "Jack",
    "Kira",
    "Leo",
    "Mona",
    "Nils",
    "Olga",
    "Paul",
    "Rosa",
    "Sam",
    "Tina",
    "Uwe",
    "Vera",
    "Will",
    "Yara",
    "Zoe",
]
_TOWNS = [
    "Alden",
    "Brook",
    "Carver",
    "Dunmore",
    "Elton",
    "Fairview",
    "Grafton",
    "Hollis",
    "Ivory",
    "Kendal",
    "Linden",
    "Marlow",
]
_JOBS = [
    "baker",
    "doctor",
    "farmer",
    "painter",
    "teacher",
    "pilot",
    "nurse",
    "tailor",
    "sailor",
    "lawyer",
]
_COLOURS = ["red", "blue", "green", "yellow", "black", "white", "brown", "grey"]
_PETS = ["cat", "dog", "horse", "parrot", "rabbit", "goat"]
_THINGS = [
    "apples",
    "books",
    "coins",
    "marbles",
    "stamps",
    "pencils",
    "shells",
    "cards",
    "stickers",
    "buttons",
]


def _reading(draw: random.Random) -> Item:
    """A passage on two people and a yes/no question on one of them, in the form of BoolQ."""
    first, second = draw.sample(_NAMES, 2)
    pools = {
        "lives in": _TOWNS,
        "works as a": _JOBS,
        "drives a car that is": _COLOURS,
        "keeps a": _PETS,
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
    prompt = f"{' '.join(sentences)}\nQuestion: {asked}?\nAnswer:"
    return Item(prompt, answer, ("no", "yes"))


def _maths(draw: random.Random) -> Item:
    """A word problem of one step with an integer answer up to 81, in the form of MAWPS."""
    one, other = draw.sample(_NAMES, 2)
    thing = draw.choice(_THINGS)
    a, b = draw.randint(2, 9), draw.randint(2, 9)
    kind = draw.randrange(4)
    if kind == 0:
        text = f"{one} has {a} {thing}. {other} gives {one} {b} more. How many {thing} has {one}"
        result = a + b
    elif kind == 1:
        text = f"{one} had {a + b} {thing} and gave {b} to {other}. How many {thing} has {one} left"
        result = a
    elif kind == 2:
        text = f"{one} has {a} boxes with {b} {thing} each. How many {thing} are there in all"
        result = a * b
    else:
        text = f"{one} shares {a * b} {thing} equally among {a} friends. How many does each get"
        result = b
    return Item(f"Question: {text}?\nAnswer:", str(result))


def _code(draw: random.Random) -> Item:
    """A Python function without its last line."""
    noun = draw.choice(["price", "score", "speed", "width", "height", "count", "weight", "size"])
    first, second = draw.sample(["alpha", "beta", "left", "right", "old", "new", "low", "high"], 2)
    number = draw.randint(2, 40)
    a, b = f"{first}_{noun}", f"{second}_{noun}"
    kind = draw.randrange(6)
    doc, body = (
        (f"Return the sum of {a} and {b}.", f"{a} + {b}"),
        (f"Return {a} minus {b}.", f"{a} - {b}"),
        (f"Return the larger of {a} and {b}.", f"max({a}, {b})"),
        (f"Return {a} times {number}, plus {b}.", f"{a} * {number} + {b}"),
        (f"Return whether {a} is greater than {b}.", f"{a} > {b}"),
        (f"Return the mean of {a} and {b}.", f"({a} + {b}) / 2"),
    )[kind]
    verb = ("add", "subtract", "largest", "scale", "exceeds", "average")[kind]
    prompt = f'def {verb}_{noun}({a}, {b}):\n    """{doc}"""\n    return'
    return Item(prompt, body)


SKILLS: dict[str, Callable[[random.Random], Item]] = {
    "reading": _reading,
    "maths": _maths,
    "code": _code,
}


def draw_items(skill: str, part: Part, seed: str) -> Iterator[Item]:
    """Distinct items of a skill, until no new one is found; they depend only on the seed."""
    draw = random.Random(f"{seed}/{skill}/{part}")
    seen: set[str] = set()
    in_vain = 0
    while in_vain < _MOST_IN_VAIN:
        item = SKILLS[skill](draw)
        in_vain += 1
        if item.part == part and item.prompt not in seen:
            seen.add(item.prompt)
            in_vain = 0
            yield item


def take_items(skill: str, part: Part, seed: str, count: int) -> list[Item]:
    """The first items of a skill.

    Raises:
        TokenmartError: it has fewer.
    """
    items = list(islice(draw_items(skill, part, seed), count))
    if len(items) < count:
        raise TokenmartError(
            f"{skill}: {count} {part} items are asked for, but there are only about {len(items)}; "
            "ask for fewer"
        )
    return items
