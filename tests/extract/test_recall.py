"""The recall target: the same content for every tokenizer, asked at every length."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from checkpoint_samples import loaded, tokenizer_of
from click.testing import CliRunner
from json_records import records
from refusal import refuses

import extract.recall.measurement as run_module
from extract.cli import recall
from extract.models import loading
from extract.planning.selection import select
from extract.recall.contexts import HOPS, RIVALS, VALUES, Context, make_contexts
from extract.recall.items import (
    EncodedItem,
    Item,
    describe_items,
    encoded_items,
    items_of,
    score_items,
)
from extract.recall.measurement import (
    items_path,
    measure_recall,
    recall_items_path,
    recall_target,
)
from extract.scoring.budgets import Budgets
from extract.scoring.engine import Engine
from extract.scoring.statistics import Scored, TokenScores
from warehouse.paths import find_workspace
from warehouse.probes.request import Request
from warehouse.problem.spec import RecallTarget, RecallTask, load_problem
from warehouse.progress import no_progress
from warehouse.sources.packages import PinnedArchive
from warehouse.sql.views import connect_to_targets
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
        "control_keys": 0,
    }
)


ALL_TASKS = TARGET.model_copy(
    update={
        "tasks": get_args(RecallTask),
        "lengths": (640, 1280, 2560),
        "key_every": 128,
        "overall": "without_shortest",
    }
)
KEY_EVERY = "target.key_every"
LONG = [(name, text * 4) for name, text in FILLER]


def encoded_in(
    folder: Path, target: RecallTarget = TARGET
) -> tuple[list[Context], list[EncodedItem]]:
    contexts = make_contexts(target, FILLER if target.tasks == TARGET.tasks else LONG)
    parts = encoded_items(target, contexts, tokenizer_of(folder))
    return contexts, [item for _, part in parts for item in part]


def test_contexts_follow_from_the_seed():
    one = make_contexts(TARGET, FILLER)
    assert one == make_contexts(TARGET, FILLER)
    assert one != make_contexts(TARGET.model_copy(update={"seed": 1}), FILLER)
    for context in one:
        assert len({question.prompt for question in context.questions}) == len(context.facts) == 4
    # a hash of what the code of revision 43a8826 made of the same seed and texts
    made = [(c.filler, c.facts, c.offsets, [q.text for q in c.questions]) for c in one]
    digest = hashlib.sha256(repr(made).encode()).hexdigest()
    assert digest == "9ad9edab973681c26df667af06b2b050833e6e8f9e07e1b450a7bc3000341d26"
    assert not {"tasks", "overall"} & TARGET.measured.keys()
    for target in (TARGET, ALL_TASKS):
        more = make_contexts(target.model_copy(update={"contexts": 5}), LONG)
        assert make_contexts(target, LONG) == more[:2]


def test_fewer_contexts_leave_the_rest_of_the_target():
    problem = load_problem("minilong", find_workspace(Path(__file__)))
    whole = problem.target
    assert isinstance(whole, RecallTarget)
    assert recall_target(problem, None) == whole
    assert recall_target(problem, 3) == whole.model_copy(update={"contexts": 3})
    assert set(whole.tasks) == set(get_args(RecallTask))
    assert whole.counted_lengths == whole.lengths[1:]


@pytest.mark.parametrize("bos", [True, False])
def test_every_number_asked_for_was_stated_before(bos, tiny_checkpoint):
    from transformers import AutoTokenizer

    folder = tiny_checkpoint("llama", bos)
    contexts, items = encoded_in(folder)
    decode = AutoTokenizer.from_pretrained(folder).decode
    lengths = [item.item.length for item in items]
    assert lengths == [128] * 2 + [256] * 4 + [128] * 2 + [256] * 4
    for item in items:
        request, asked = item.request, item.item
        assert len(request.prefix) == 256 and request.prefix_length == asked.length
        seen = decode(request.prefix[: asked.length])
        question = decode(request.ids[: request.first_target])
        answer = decode(request.targets).strip()
        assert (
            answer == asked.question.answer and asked.question in contexts[asked.context].questions
        )
        name = asked.question.prompt.removeprefix("\nThe number of the ").removesuffix(" is ")
        assert name in question
        assert f"{name} is {answer}" in seen
        assert (request.prefix[0] == 0) == bos


def told(context: Context, length: int) -> str:
    return "".join(context.facts[: length // ALL_TASKS.key_every])


def solve(asked: Item, facts: str) -> str:
    """Answer a question from the planted sentences alone, by reading them."""
    prompt = asked.question.prompt
    if asked.question.task in ("single_key", "multi_key"):
        (found,) = re.findall(rf"t{prompt[2:]}(\d+)\.", facts)
        return str(found)
    if asked.question.task == "multi_value":
        name = re.findall(r"values of the (.*), in", prompt)[0]
        values = re.findall(rf"One of the values of the {name} is (\d+)\.", facts)
        return str(values[prompt.count(", ") - 2])
    if asked.question.task == "variable_tracking":
        name = prompt.split()[1]
        for _ in range(HOPS):
            if found := re.findall(rf"Variable {name} has the value (\d+)", facts):
                return str(found[0])
            (name,) = re.findall(rf"Variable {name} has the same value as (\w+)", facts)
        raise AssertionError(f"more than {HOPS} hops to the value of {prompt}")
    lists = [set(line.split(", ")) for line in re.findall(r"A word list: (.*)\.", facts)]
    everywhere = set.intersection(*lists)
    return asked.question.answer if asked.question.answer in everywhere else "not everywhere"


def test_every_task_can_be_solved_from_the_context_so_far():
    contexts = make_contexts(ALL_TASKS.model_copy(update={"contexts": 6}), LONG)
    asked = items_of(ALL_TASKS, contexts)
    assert {each.question.task for each in asked} == set(get_args(RecallTask))
    for each in asked:
        facts = told(contexts[each.context], each.length)
        if each.question.rival:
            # one list is no rival of every list
            assert facts.count(each.question.answer) >= 1
            continue
        assert solve(each, facts) == each.question.answer
    hops = [sum("same value as" in fact for fact in context.facts) for context in contexts]
    assert all(count >= 1 for count in hops)


def test_names_values_variables_and_places():
    target = ALL_TASKS.model_copy(update={"lengths": (640, 5120), "contexts": 5})
    contexts = make_contexts(target, [(name, text * 2) for name, text in LONG])
    questions = contexts[0].questions
    names: dict[str, set[str]] = defaultdict(set)
    for question in questions:
        names[question.task] |= set(re.findall(r"of the (\w+ \w+)", question.prompt))
    alike, others = names["multi_key"], [*names["single_key"], *names["multi_value"]]
    for name in alike:
        assert any(len(set(name.split()) & set(other.split())) == 1 for other in alike)
    words = [word for name in others for word in name.split()]
    assert len(set(words)) == len(words)
    assert not set(words) & {word for name in alike for word in name.split()}
    prompts = [q.prompt for q in questions if q.task == "multi_value"]
    assert [prompt.count(", ") - 2 for prompt in prompts] == [*range(VALUES)] * 2
    first = [each for each in contexts[0].facts if re.search(r"Variable \w+ has the value", each)]
    assert len(first) == 8 / HOPS
    for block in range(20):  # each task has every place in turn
        assert len({context.facts[block][:24] for context in contexts}) == 5


def test_the_question_of_every_item_of_every_model_is_stored(tiny_checkpoint):
    contexts, items = encoded_in(tiny_checkpoint(), ALL_TASKS)
    table = describe_items(ALL_TASKS, contexts)
    asked = [item.item for item in items if not item.item.question.rival]
    assert table["item"].to_pylist() == [each.number for each in asked]
    assert table["task"].to_pylist() == [each.task for each in asked]
    for row, each in zip(table.to_pylist(), asked, strict=True):
        assert row["counts"] == (row["length"] > 640)
        if row["kind"] == "common_words":
            assert row["depth"] is None
            continue
        # the share of the text before the sentence, by characters: blocks are cut by tokens
        assert 0 <= row["depth"] <= 1
        block = each.question.block
        assert block * 128 / each.length <= row["depth"] <= (block + 1) * 128 / each.length
    rivals = [item for item in items if item.item.question.rival]
    sizes = Counter((item.item.context, item.item.length) for item in rivals)
    assert max(sizes.values()) == RIVALS


@pytest.mark.parametrize("target", [TARGET, ALL_TASKS], ids=["single_key", "all tasks"])
def test_controls_ask_for_planted_values_after_names_that_were_never_planted(
    tiny_checkpoint, target
):
    with_controls = target.model_copy(update={"control_keys": 3})
    contexts, items = encoded_in(tiny_checkpoint(), with_controls)
    bare = [item.item for item in encoded_in(tiny_checkpoint(), target)[1]]
    asked = [item.item for item in items]
    key = [(each.context, each.length, each.question) for each in bare]
    kept = [each for each in asked if not each.question.control]
    assert [(each.context, each.length, each.question) for each in kept] == key
    controls = [each for each in asked if each.question.control]
    sizes = Counter((each.context, each.length) for each in controls)
    assert set(sizes) == {(c, n) for c in range(len(contexts)) for n in target.lengths}
    assert max(sizes.values()) == 3
    for each in controls:
        name = each.question.prompt.removeprefix("\nThe number of the ").removesuffix(" is ")
        assert name not in " ".join(contexts[each.context].facts)
        before = contexts[each.context].facts[: each.length // target.key_every]
        assert each.question.answer in " ".join(before)
        assert each.task == f"no_key_{each.length}"
    table = describe_items(with_controls, contexts).to_pylist()
    assert {row["counts"] for row in table if row["kind"] == "no_key"} == {False}


class Given:
    """A scorer of which a function gives the log-probability and the ranks of each request."""

    def __init__(self, of: Callable[[Request], tuple[float, Sequence[int]]]) -> None:
        self.of = of

    def score(self, requests: Sequence[Request]) -> Iterator[Scored]:
        for request in requests:
            nats, ranks = self.of(request)
            each = np.full(len(ranks), nats / len(ranks), dtype=np.float32)
            rank = np.array(ranks, dtype=np.int32)
            yield Scored(TokenScores(each, -each, rank, each, -each), tokens_processed=0)


def test_the_first_token_is_scored_apart(tiny_checkpoint):
    target = ALL_TASKS.model_copy(update={"score": "first_token", "contexts": 1})
    _, items = encoded_in(tiny_checkpoint(), target)

    scorer = Given(lambda request: (-1.0, [1, *[7] * (len(request.targets) - 1)]))
    table = score_items(scorer, items, target).to_pylist()  # type: ignore[arg-type]
    for row in table:
        words = row["task"].startswith("common_words")
        assert row["first_token"] == (None if words else 1.0)
        assert row["score"] == (row["token_accuracy"] if words else 1.0)
        assert words or (0 < row["token_accuracy"] < 1 and row["exact_match"] == 0)


@pytest.mark.parametrize(
    "target",
    [TARGET, ALL_TASKS.model_copy(update={"contexts": 1})],
    ids=["single_key", "all tasks"],
)
def test_scores_are_those_of_each_question_alone(tiny_checkpoint, target):
    folder = tiny_checkpoint()
    _, items = encoded_in(folder, target)
    engine = Engine(loaded(folder), budgets=Budgets(1024, 50, 64))
    table = score_items(engine, items, target)
    assert table.schema.equals(DOWNSTREAM)
    engine.prefixes = "separate: asked for here"
    alone = score_items(engine, items, target)
    for column in ("answer_nll", "token_accuracy", "exact_match"):
        np.testing.assert_allclose(table[column], alone[column], atol=1e-4)
    assert len(set(table["task"].to_pylist())) == len(target.tasks) * len(target.lengths)


@pytest.mark.parametrize(
    ("common", "rare", "share", "all_of_them"), [(-1, -9, 1, 1), (-9, -1, 0, 0), (-2, -2, 0.5, 0)]
)
def test_common_words_are_compared_with_words_listed_once(
    common, rare, share, all_of_them, tiny_checkpoint
):
    target = ALL_TASKS.model_copy(update={"tasks": ("common_words", "single_key")})
    _, items = encoded_in(tiny_checkpoint(), target)
    rivals = {id(item.request) for item in items if item.item.question.rival}
    scorer = Given(
        lambda request: (
            rare if id(request) in rivals else common,
            [2] * len(request.targets),
        )
    )
    rows = score_items(scorer, items, target).to_pylist()  # type: ignore[arg-type]
    words = [row for row in rows if row["task"].startswith("common_words")]
    assert words and all(row["token_accuracy"] == row["score"] == share for row in words)
    assert all(row["exact_match"] == all_of_them for row in words)
    assert all(row["score"] == 0 for row in rows if row not in words)


def test_a_stopped_run_resumes_after_its_last_context(tiny_problem, workspace, monkeypatch):
    problem = load_problem(str(tiny_problem()), workspace)
    monkeypatch.setattr(PinnedArchive, "texts", lambda *_: LONG)
    two = ("single_key", "multi_key")
    target = TARGET.model_copy(update={"tasks": two, "contexts": 3})
    spec = problem.models[0]
    chosen = select(problem, workspace, models=[spec.full_id], device="cpu", dtype="float32")
    path = items_path(problem, spec.model_id, workspace)
    read: list[int] = []
    real = run_module.score_items

    def measure(contexts: int, stop_after: int | None = None) -> int:
        read.clear()

        def counted(scorer: Any, items: Any, asked: Any) -> Any:
            if len(read) == stop_after:
                raise KeyboardInterrupt
            read.append(items[0].item.context)
            return real(scorer, items, asked)

        monkeypatch.setattr(run_module, "score_items", counted)
        wanted = target.model_copy(update={"contexts": contexts})
        outcome = measure_recall(wanted, chosen, no_progress)
        assert outcome.failures == []
        return outcome.units

    with pytest.raises(KeyboardInterrupt):
        measure(3, stop_after=1)
    assert set(pq.read_table(path, partitioning=None)["cluster"].to_pylist()) == {0}
    assert measure(3) == 1 and read == [1, 2]
    pieces = pq.read_table(path, partitioning=None)
    assert measure(3) == 0 and read == []
    assert measure(2) == 0, "more contexts than are asked for stay"
    assert pq.read_table(path, partitioning=None).equals(pieces)
    path.unlink()
    assert measure(3) == 1 and read == [0, 1, 2]
    assert pq.read_table(path, partitioning=None).equals(pieces)
    described = pq.read_table(
        recall_items_path(problem, spec.model_id, workspace), partitioning=None
    )
    assert described["item"].to_pylist() == pieces["item"].to_pylist()
    assert described["task"].to_pylist() == pieces["task"].to_pylist()
    # answers to more questions are not replaced, unless --force says so
    fewer = target.model_copy(update={"lengths": target.lengths[:1]})
    (failure,) = measure_recall(fewer, chosen, no_progress).failures
    assert failure.model == spec.full_id
    assert pq.read_table(path, partitioning=None).equals(pieces)
    assert measure_recall(fewer, replace(chosen, force=True), no_progress).units == 1
    assert pq.read_table(path, partitioning=None).num_rows < pieces.num_rows


def test_records_of_models_of_which_one_fails(tiny_problem, tiny_checkpoint, monkeypatch):
    monkeypatch.setattr(PinnedArchive, "texts", lambda *_: LONG)
    source = {"kind": "local", "path": str(tiny_checkpoint())}
    models = [
        {"full_id": f"tiny/{context}", "family": "f", "source": source, "context": context}
        for context in (512, 64)
    ]
    target = TARGET.model_dump(mode="json", exclude_defaults=True) | {"kind": "recall"}
    path = tiny_problem(models=models, target=target)
    done = CliRunner().invoke(
        recall, ["--problem", str(path), "--contexts", "1", "--device", "cpu", "--json"]
    )
    whole, short = records(done, "recall", code=5)
    assert (whole["is_measured"], whole["reason"]) == (True, "")
    assert not short["is_measured"] and "64 tokens" in short["reason"]


def test_controls_do_not_count_where_a_run_was_stopped(tiny_problem, workspace, monkeypatch):
    problem = load_problem(str(tiny_problem()), workspace)
    monkeypatch.setattr(PinnedArchive, "texts", lambda *_: LONG)
    spec, target = problem.models[0], TARGET.model_copy(update={"control_keys": 2})
    chosen = select(problem, workspace, models=[spec.full_id], device="cpu", dtype="float32")

    def scored(scorer, items, asked):
        if items[0].item.context == 1:
            raise KeyboardInterrupt
        rows = [
            {"task": i.task, "item": i.number, "cluster": 0, "score": float(i.question.control)}
            for i in (each.item for each in items)
        ]
        return pa.Table.from_pylist(rows, schema=DOWNSTREAM)

    monkeypatch.setattr(run_module, "score_items", scored)
    with pytest.raises(KeyboardInterrupt):
        measure_recall(target, chosen, no_progress)
    with connect_to_targets(workspace) as connection:
        rows = connection.execute("select task, score from downstream_scores").fetchall()
    recall = {"recall_128": 0.0, "recall_256": 0.0}
    assert dict(rows) == recall | {"no_key_128": 1.0, "no_key_256": 1.0, "overall": 0.0}


def test_a_model_too_large_for_the_target_s_lengths_is_refused_before_it_is_loaded(
    tiny_problem, workspace, monkeypatch
):
    problem = load_problem(str(tiny_problem()), workspace)
    monkeypatch.setattr(PinnedArchive, "texts", lambda *_: LONG)
    monkeypatch.setattr(run_module, "available_memory", lambda device: 2**20)
    monkeypatch.setattr(loading, "load_engine", lambda chosen: pytest.fail("loaded"))
    chosen = select(problem, workspace, models=["tiny/one"], device="cpu", dtype="float32")
    (failure,) = measure_recall(TARGET, chosen, no_progress).failures
    assert failure.model == "tiny/one" and "GiB" in failure.reason
    assert not items_path(problem, chosen.models[0].model_id, workspace).exists()


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"key_every": 32}, KEY_EVERY),
        ({"lengths": (128, 2048)}, "target.filler"),
        ({"lengths": (128, 1280), "key_every": 4, "tasks": ("single_key", "multi_key")}, KEY_EVERY),
        ({"lengths": (128, 1280), "key_every": 8, "tasks": ("common_words",)}, KEY_EVERY),
    ],
)
def test_impossible_targets_are_refused(change, where, tiny_checkpoint):
    target = TARGET.model_copy(update=change)
    with refuses("impossible-target", where):
        encoded_in(tiny_checkpoint(), target)


def test_measured_items_depend_on_each_fact_of_the_model(tiny_problem, workspace):
    spec = load_problem(str(tiny_problem()), workspace).models[0]
    names = ("revision", "interventions", "tokenizer", "dtype", "backend", "engine")
    facts = dict.fromkeys((*names, "attention", "max_tokens"), "a")

    def of(**changes: str) -> str:
        plan: Any = SimpleNamespace(facts=facts | changes, spec=spec)
        return run_module.target_fingerprint(TARGET, plan)

    assert {name for name in facts if of(**{name: "b"}) != of()} == {*names}
