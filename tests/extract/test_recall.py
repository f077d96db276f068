"""The recall target: the same content for every tokenizer, asked at every length."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from extract.checkpoints import Checkpoint
from extract.recall import (
    USABLE_CONTEXTS,
    Context,
    Item,
    build_items,
    make_contexts,
    score_items,
    standard_error_note,
)
from extract.recall_run import recall_target
from extract.scoring.engine import Engine
from extract.scoring.loading import load_model
from extract.tokenization import load_tokenizer
from warehouse.errors import TokenmartError
from warehouse.paths import find_workspace
from warehouse.problem.spec import ModelSpec, RecallTarget, load_problem
from warehouse.store.schema import DOWNSTREAM

FILLER = [
    (f"play-{n}", f"Act {n}. A line of a play goes here, number {n}.\n" * 400) for n in (1, 2)
]
TARGET = RecallTarget.model_validate(
    {
        "kind": "recall",
        "filler": {"package": "x==1", "archive": "x", "sha256": "0" * 64, "include": "*"},
        "lengths": [128, 256],
        "contexts": 2,
        "key_every": 64,
        "value_digits": 4,
    }
)


def spec_of(folder: Path) -> ModelSpec:
    return ModelSpec.model_validate(
        {"full_id": "t", "family": "t", "source": {"kind": "local", "path": folder}}
    )


def items_of(folder: Path) -> tuple[list[Context], list[Item]]:
    contexts = make_contexts(TARGET, FILLER)
    tokenizer = load_tokenizer(Checkpoint(folder, "r"), spec_of(folder))
    return contexts, build_items(TARGET, contexts, tokenizer)


def test_equal_seeds_give_equal_contexts_and_names_are_unique() -> None:
    one, again = make_contexts(TARGET, FILLER), make_contexts(TARGET, FILLER)
    other = make_contexts(TARGET.model_copy(update={"seed": 1}), FILLER)
    assert one == again != other
    for context in one:
        assert len(set(context.names)) == len(context.names) == 4


def test_the_standard_error_of_enough_contexts_is_known_to_a_quarter() -> None:
    """The formula against plain simulation, and who is told so."""
    errors = np.random.default_rng(0).normal(size=(20_000, USABLE_CONTEXTS)).std(axis=1, ddof=1)
    assert errors.std() == pytest.approx(0.25, abs=0.01)
    assert "±71% only" in standard_error_note(2)
    assert "unknown" in standard_error_note(1)
    assert standard_error_note(USABLE_CONTEXTS) == ""
    whole = load_problem("minilong", find_workspace(Path(__file__))).target
    assert isinstance(whole, RecallTarget) and whole.contexts >= USABLE_CONTEXTS


def test_the_demo_asks_in_fewer_and_shorter_contexts() -> None:
    problem = load_problem("minilong", find_workspace(Path(__file__)))
    demo, whole = problem.demo, problem.target
    assert demo is not None and isinstance(whole, RecallTarget)
    assert recall_target(problem, None, demo=False) == whole
    small = recall_target(problem, None, demo=True)
    assert (small.contexts, small.lengths) == (demo.contexts, demo.lengths)
    assert recall_target(problem, 3, demo=True) == small.model_copy(update={"contexts": 3})


@pytest.mark.parametrize("bos", [True, False])
def test_every_number_asked_for_was_told_before(
    bos: bool, tiny_checkpoint: Callable[..., Path]
) -> None:
    from transformers import AutoTokenizer

    folder = tiny_checkpoint("llama", bos)
    contexts, items = items_of(folder)
    decode = AutoTokenizer.from_pretrained(folder).decode
    assert [item.length for item in items] == [128] * 2 + [256] * 4 + [128] * 2 + [256] * 4
    for item in items:
        request, context = item.request, contexts[item.context]
        assert len(request.trunk) == 256 and request.prefix_length == item.length
        seen = decode(request.trunk[: item.length])
        question = decode(request.ids[: request.first_target])
        answer = decode(request.targets).strip()
        name = next(n for n in context.names if n in question)
        assert answer == context.numbers[context.names.index(name)]
        assert f"{name} is {answer}" in seen
        assert (request.trunk[0] == 0) == bos


def test_scores_are_those_of_each_question_alone(tiny_checkpoint: Callable[..., Path]) -> None:
    folder = tiny_checkpoint()
    _, items = items_of(folder)
    model = load_model(Checkpoint(folder, "r"), spec_of(folder), device="cpu", dtype="float32")
    engine = Engine(model, branch_tokens=50)
    table = score_items(engine, items, TARGET)
    assert table.schema.equals(DOWNSTREAM) and table.num_rows == len(items)
    engine.prefixes = "separate: asked for here"
    alone = score_items(engine, items, TARGET)
    for column in ("answer_nll", "token_accuracy", "exact_match"):
        np.testing.assert_allclose(table[column], alone[column], atol=1e-4)
    assert set(table["task"].to_pylist()) == {"recall_128", "recall_256"}


@pytest.mark.parametrize(
    ("change", "words"),
    [({"key_every": 32}, "a sentence takes"), ({"lengths": (128, 2048)}, "characters; choose")],
)
def test_impossible_targets_are_refused(
    change: dict[str, object], words: str, tiny_checkpoint: Callable[..., Path]
) -> None:
    target = TARGET.model_copy(update=change)
    tokenizer = load_tokenizer(Checkpoint(tiny_checkpoint(), "r"), spec_of(tiny_checkpoint()))
    with pytest.raises(TokenmartError, match=words):
        build_items(target, make_contexts(target, FILLER), tokenizer)
