"""Texts of contexts and the questions about them, the same for every tokenizer.

A context is filler text in blocks of `key_every` tokens, a planted sentence in each. The sentences
of all tasks share a context, so that a model reads it once: with several tasks, each is planted
into every n-th block, and the places rotate from context to context.

Of RULER's tasks (arXiv 2404.06654, section 3) these differ in how they are scored: the true answer
is fed in and its tokens are judged (teacher forcing), so that a model need not generate a stop
token. Values of one key are asked for in the order of the text; variable tracking asks for the
number that a variable has, not for the names that have a number; of common words, the model must
find each one more probable than words that were listed once.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from warehouse.errors import TokenmartError
from warehouse.problem.spec import DEFAULT_TASKS, RecallTarget, RecallTask

ADJECTIVES = tuple(
    """amber brave calm dusty eager frozen gentle hollow ivory jolly keen lively mellow narrow
    olive patient quiet rusty silver tender upper violet warm yellow zealous bright copper
    distant early faded golden humble""".split()  # noqa: SIM905
)

NOUNS = tuple(
    """anchor basket candle desert engine forest garden harbor island jacket kettle ladder
    mirror needle orchard pencil quarry river saddle temple umbrella valley window yard
    bridge castle drum falcon glacier hammer lantern meadow""".split()  # noqa: SIM905
)

NAMES = tuple(f"{adjective} {noun}" for adjective in ADJECTIVES for noun in NOUNS)

LISTED = tuple(
    """apple arrow autumn bacon badge barrel beach bench bottle branch bread brick brush bucket
    button cabin cactus camel carpet cave chain cherry circle cloud coast comet corner cotton
    cradle crown curtain daisy dinner dollar donkey dragon eagle elbow fabric feather fence ferry
    finger flag flame flute folder fountain fox ghost giant glove goat grape guitar hat hawk
    honey horse hotel insect iron jewel jungle king kitchen knife lake lamp leaf lemon letter
    lion lock magnet map maple market mask melon metal milk monkey moon motor mountain museum
    napkin nest ocean onion owl paint palace panda paper parade parrot path pearl pepper piano
    pillow pilot planet plate pocket poem potato prince puzzle rabbit radio rain ribbon rice
    ring road robot rocket roof rope rose salad sand scarf school shadow shell ship shirt shoe
    silk smoke snow soap sock spider spoon stamp star statue stone storm street sugar summer
    sword table tiger tomato tower train tree tunnel turtle vase village violin wagon wall
    wheel whistle winter wolf wood wool zebra""".split()  # noqa: SIM905
)

LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
"""Of variables' names: consonants, so that no name is a word."""

RECALL_VERSION = 1


VALUES, HOPS = 4, 4
"""Numbers stated for one name; variables of one chain (RULER's `num_needle_v`, and its hops)."""


COMMON, RARE, RIVALS = 4, 6, 8
"""Words in every list of a context, words of one list alone, and of these, asked at a length."""

LETTERS_OF_A_VARIABLE = 3

CONTROL_SEED = 1


@dataclass(frozen=True)
class Question:
    """A question with its answer, asked at every length at which the context contains the answer.

    Attributes:
        task: which task it belongs to.
        block: the block that contains the answer; the first one, for a word listed in many.
        prompt: what the model reads behind the context.
        answer: what is scored, the end of `prompt + answer`.
        rival: a word that was listed once, with which answers of the same length are compared.
        everywhere: many blocks contain the answer: it has no depth.
        control: the prompt has a name that was never planted, the answer is a planted value.
    """

    task: RecallTask
    block: int
    prompt: str
    answer: str
    rival: bool = False
    everywhere: bool = False
    control: bool = False

    @property
    def text(self) -> str:
        """The text that the model reads, the answer included."""
        return self.prompt + self.answer


@dataclass(frozen=True)
class Context:
    """One context's content: filler, a planted sentence per block, and what can be asked.

    Attributes:
        filler: long enough for any tokenizer.
        facts: the sentence of each block.
        offsets: its position in the block, as a share of the possible positions.
        questions: of the whole context; at a length, those whose `block` is before it.
        controls: as many again, after names that were never planted.
    """

    filler: str
    facts: tuple[str, ...]
    offsets: tuple[float, ...]
    questions: tuple[Question, ...]
    controls: tuple[Question, ...] = ()


def impossible(where: str, what: str) -> TokenmartError:
    """The error for a target whose contexts can't be made; `where` is its field."""
    return TokenmartError(f"{where}: {what}", code="impossible-target", where=where)


def make_contexts(target: RecallTarget, filler: Sequence[tuple[str, str]]) -> list[Context]:
    """Draw filler passages, names and numbers; equal seeds give equal contexts.

    The first contexts are the same however many there are. `filler` has name and text of each file.

    Raises:
        TokenmartError: more keys than names, or no text is long enough.
    """
    rng = np.random.default_rng([target.seed, RECALL_VERSION])
    blocks = target.lengths[-1] // target.key_every
    if blocks > len(NAMES):
        raise impossible(
            "target.key_every",
            f"{target.key_every}: {blocks} keys, at most {len(NAMES)} have a name; raise it",
        )
    # generous for any tokenizer: a token is rarely longer than eight characters
    needed = target.lengths[-1] * 8
    texts = [text for _, text in filler if len(text) >= needed * 2]
    if not texts:
        raise impossible(
            "target.filler",
            f"no file of {target.filler.include!r} has {needed * 2} characters; "
            "choose longer texts or shorter lengths",
        )
    order = rng.permutation(len(texts))
    contexts = []
    for number in range(target.contexts):
        text = texts[order[number % len(texts)]]
        start = int(rng.integers(0, len(text) - needed))
        start = text.find("\n", start) + 1
        passage = text[start : start + needed]
        if target.tasks == DEFAULT_TASKS:
            context = _single_keys(target, passage, blocks, rng)
        else:
            generator = np.random.default_rng([target.seed, RECALL_VERSION, number])
            context = _Planting(target, blocks, number, generator).context(passage)
        # drawn apart, so that contexts are what they were before there were controls
        apart = np.random.default_rng([target.seed, RECALL_VERSION, number, CONTROL_SEED])
        contexts.append(replace(context, controls=_controls(context, apart)))
    return contexts


def words_sha256(tasks: Sequence[RecallTask]) -> str:
    """Hash of the words that the contexts of these tasks are made of."""
    words = ADJECTIVES + NOUNS
    if tuple(tasks) != DEFAULT_TASKS:
        words += (*LISTED, LETTERS)
    return hashlib.sha256(" ".join(words).encode()).hexdigest()


def _controls(context: Context, rng: np.random.Generator) -> tuple[Question, ...]:
    """The questions for single keys, each with a name that the context doesn't contain."""
    planted = " ".join(context.facts)
    absent = [name for name in NAMES if name not in planted]
    asked = [question for question in context.questions if question.task == "single_key"]
    drawn = rng.permutation(len(absent))
    return tuple(
        replace(question, prompt=single_key_prompt(absent[place]), control=True)
        for question, place in zip(asked, drawn, strict=False)
    )


def _single_keys(
    target: RecallTarget, filler: str, blocks: int, rng: np.random.Generator
) -> Context:
    """A key in each block."""
    chosen = rng.choice(len(NAMES), size=blocks, replace=False)
    digits = rng.integers(0, 10, size=(blocks, target.value_digits))
    keys = [
        _single_key(block, NAMES[name], "".join(map(str, row)))
        for block, (name, row) in enumerate(zip(chosen, digits, strict=True))
    ]
    return Context(
        filler=filler,
        facts=tuple(fact for fact, _ in keys),
        offsets=tuple(rng.uniform(0, 1, size=blocks)),
        questions=tuple(question for _, question in keys),
    )


def _single_key(block: int, name: str, number: str) -> tuple[str, Question]:
    fact = f"\nOne of the special numbers: the number of the {name} is {number}.\n"
    return fact, Question("single_key", block, single_key_prompt(name), number)


def single_key_prompt(name: str) -> str:
    """The text before the number of a name."""
    return f"\nThe number of the {name} is "


class _Planting:
    """Plants the sentences of several tasks into one context."""

    def __init__(
        self, target: RecallTarget, blocks: int, number: int, rng: np.random.Generator
    ) -> None:
        self.target = target
        self.rng = rng
        count = len(target.tasks)
        self.places: dict[RecallTask, list[int]] = {
            task: [block for block in range(blocks) if (block + number) % count == turn]
            for turn, task in enumerate(target.tasks)
        }
        # names of one task that share no word with those of another
        self.adjectives = list(rng.permutation(ADJECTIVES))
        self.nouns = list(rng.permutation(NOUNS))
        self.facts = [""] * blocks
        self.questions: list[Question] = []

    def context(self, filler: str) -> Context:
        planters = {
            "single_key": self._single_keys,
            "multi_key": self._multi_keys,
            "multi_value": self._multi_values,
            "variable_tracking": self._variables,
            "common_words": self._words,
        }
        for task in self.target.tasks:
            planters[task](self.places[task])
        offsets = tuple(self.rng.uniform(0, 1, size=len(self.facts)))
        return Context(filler, tuple(self.facts), offsets, tuple(self.questions))

    def _number(self) -> str:
        return "".join(map(str, self.rng.integers(0, 10, size=self.target.value_digits)))

    def _take(self, words: list[str], count: int) -> list[str]:
        if count > len(words):
            raise impossible(
                "target.key_every",
                f"{self.target.key_every}: {len(self.facts)} sentences of several "
                "tasks, more than have names; raise it, or leave out tasks",
            )
        taken = words[:count]
        del words[:count]
        return taken

    def _own_names(self, count: int) -> list[str]:
        """Names that share no word with any other."""
        adjectives, nouns = self._take(self.adjectives, count), self._take(self.nouns, count)
        return [" ".join(words) for words in zip(adjectives, nouns, strict=True)]

    def _alike_names(self, count: int) -> list[str]:
        """Names each of which shares a word with several others."""
        side = math.ceil(math.sqrt(count))
        adjectives = self._take(self.adjectives, side)
        nouns = self._take(self.nouns, side)
        grid = [f"{adjective} {noun}" for adjective in adjectives for noun in nouns]
        return [grid[place] for place in self.rng.permutation(len(grid))[:count]]

    def _single_keys(self, blocks: list[int]) -> None:
        names = self._own_names(len(blocks))
        for block, name in zip(blocks, names, strict=True):
            self.facts[block], question = _single_key(block, name, self._number())
            self.questions.append(question)

    def _multi_keys(self, blocks: list[int]) -> None:
        names = self._alike_names(len(blocks))
        for block, name in zip(blocks, names, strict=True):
            code = self._number()
            self.facts[block] = f"\nOne of the special codes: the code of the {name} is {code}.\n"
            prompt = f"\nThe code of the {name} is "
            self.questions.append(Question("multi_key", block, prompt, code))

    def _multi_values(self, blocks: list[int]) -> None:
        groups = [blocks[at : at + VALUES] for at in range(0, len(blocks), VALUES)]
        names = self._own_names(len(groups))
        for name, group in zip(names, groups, strict=True):
            prompt = f"\nThe values of the {name}, in the order told, are "
            for block in group:
                value = self._number()
                self.facts[block] = f"\nOne of the values of the {name} is {value}.\n"
                self.questions.append(Question("multi_value", block, prompt, value))
                prompt += f"{value}, "

    def _variables(self, blocks: list[int]) -> None:
        letters = list(LETTERS)
        names: list[str] = []
        while len(names) < len(blocks):
            name = "".join(self.rng.choice(letters, size=LETTERS_OF_A_VARIABLE))
            if name not in names:
                names.append(name)
        number = ""
        for place, (block, name) in enumerate(zip(blocks, names, strict=True)):
            if place % HOPS == 0:
                number = self._number()
                self.facts[block] = f"\nVariable {name} has the value {number}.\n"
            else:
                before = names[place - 1]
                self.facts[block] = f"\nVariable {name} has the same value as {before}.\n"
            prompt = f"\nVariable {name} has the value "
            self.questions.append(Question("variable_tracking", block, prompt, number))

    def _words(self, blocks: list[int]) -> None:
        if COMMON + RARE * len(blocks) > len(LISTED):
            raise impossible(
                "target.key_every",
                f"{self.target.key_every}: {len(blocks)} word lists, more than "
                "there are words; raise it, or leave out common_words",
            )
        words = list(self.rng.permutation(LISTED))
        common, rare = words[:COMMON], words[COMMON:]
        prompt = "\nThe word that stands in every one of the word lists is "
        if blocks:
            self.questions += [
                Question("common_words", blocks[0], prompt, word, everywhere=True)
                for word in common
            ]
        for place, block in enumerate(blocks):
            rare_words = rare[RARE * place : RARE * (place + 1)]
            listed = self.rng.permutation([*common, *rare_words])
            self.facts[block] = f"\nA word list: {', '.join(listed)}.\n"
            self.questions += [
                Question("common_words", block, prompt, word, rival=True) for word in rare_words
            ]
