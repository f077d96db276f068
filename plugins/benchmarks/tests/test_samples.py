"""Samples of lm-evaluation-harness: right choices, delimiters, own metrics, conflicts."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from plugins.benchmarks.harness.imports.sample_files import read_samples, task_of
from plugins.benchmarks.harness.imports.samples import HarnessSamples, read_requests
from plugins.benchmarks.harness.imports.task_import import Logged
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.problem.importers import Destination
from warehouse.sql.connection import connect_to_parquet

DATE = "2026-01-02T03-04-05.678901"
NLI = [" True", " Neither", " False"]
DIGITS = [" 3", " 1", " 2"]
LISTS = [" [0, 1]", " [1, 0]"]


def sample(
    number: int, target: Any, scores: list[Any], choices: list[Any], **metrics: Any
) -> dict[str, Any]:
    """A line of 0.4.7 and later; choices are texts, or (prompt, text)."""
    asked = [c if isinstance(c, tuple) else ("Which?", c) for c in choices]
    return {
        "doc_id": number,
        "doc": {},
        "target": str(target),
        "arguments": {
            f"gen_args_{n}": {"arg_0": prompt, "arg_1": text}
            for n, (prompt, text) in enumerate(asked)
        },
        "filtered_resps": [[str(s), "False"] for s in scores],
        "filter": "none",
        "metrics": list(metrics),
        **metrics,
    }


def generation(number: int, answer: str, **more: Any) -> dict[str, Any]:
    asked = {"gen_args_0": {"arg_0": "3 + 4 =", "arg_1": {"until": ["\n"]}}}
    return {
        "doc_id": number, "doc": {}, "target": "7", "arguments": asked, "resps": [[answer]],
        "filtered_resps": [answer], "metrics": [], **more,
    }  # fmt: skip


def write(folder: Path, *samples: dict[str, Any], **results: Any) -> Path:
    """A file of samples, and next to it the file of results if there is one."""
    folder.mkdir(exist_ok=True)
    path = folder / f"samples_qa_{DATE}.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in samples), "utf-8")
    if results:
        content = {"results": {}, "n-shot": {"qa": 0}, "config": {}, **results}
        (folder / f"results_{DATE}.json").write_text(json.dumps(content))
    return path


def requests(path: Path) -> list[Logged]:
    return read_requests(path, task_of(path), list(read_samples(path)))


def right(path: Path) -> list[int]:
    """The right choice of each item, the last of several; -1 where there is none."""
    golds: dict[int, int] = {}
    for each in requests(path):
        golds.setdefault(each["item"], -1)
        if each["is_gold"]:
            golds[each["item"]] = each["choice"]
    return list(golds.values())


def bring(workspace: Workspace, *files: Path, model: str = "a", force: bool = False) -> None:
    HarnessSamples().import_files(files, Destination(workspace, "tiny", model, force))


def refused(workspace: Workspace, *files: Path, **more: Any) -> tuple[str, str]:
    """Code and place of the error of an import."""
    with pytest.raises(TokenmartError) as caught:
        bring(workspace, *files, **more)
    return caught.value.code, caught.value.where


GOLD: dict[str, tuple[list[dict[str, Any]], list[int]]] = {
    "texts that Python reads as truth values": (
        [
            sample(0, "True", [-3, -4, -2], NLI, acc=0.0),
            sample(1, "Neither", [-3, -2, -4], NLI, acc=1.0),
        ],
        [0, 1],
    ),
    "indices": (
        [sample(0, "1", [-2, -1, -3], NLI, acc=1.0), sample(1, 0, [-2, -1, -3], NLI, acc=0.0)],
        [1, 0],
    ),
    "digits that are texts, out of range as indices or the same choice": (
        [sample(0, "1", [-2, -1, -3], DIGITS, acc=1), sample(1, "3", [-1, -2, -2], DIGITS, acc=1)],
        [1, 0],
    ),
    "a list of right ones": (
        [sample(0, [0, 2], [-2, -3, -1], NLI, acc=1.0), sample(1, ["True"], [-1, -2, -3], NLI)],
        [2, 0],
    ),
    "texts that look like lists": ([sample(0, "[0, 1]", [-1, -2], LISTS, acc=1.0)], [0]),
    "none": ([sample(0, [], [-1, -2], NLI[:2], acc=0.0)], [-1]),
}


@pytest.mark.parametrize("name", GOLD)
def test_the_right_choice(tmp_path, name):
    samples, golds = GOLD[name]
    assert right(write(tmp_path, *samples)) == golds


SCHEMA = [("The ant lifted the leaf as the ant", " was strong."),
          ("The ant lifted the leaf as the leaf", " was strong.")]  # fmt: skip
WRONG = [
    ("prompts differ", sample(1, "was strong.", [-9, -8], SCHEMA, acc=1.0), "unknown-gold"),
    ("an index and another text", sample(1, "1", [-1, -2, -3], [" 2", " 3", " 1"]), "unknown-gold"),
    ("out of range", sample(1, 7, [-2, -1], NLI[:2], acc=0.0), "unknown-gold"),
    ("no choice", sample(1, "x", [-2, -1, -3], NLI, f1=[0, 1]), "unknown-gold"),
    ("another accuracy", sample(1, "1", [-1, -2, -3], NLI, acc=1.0), "other-accuracy"),
    ("an accuracy in quotes", sample(1, "0", [-1, -2, -3], NLI, acc="1.0"), "other-accuracy"),
    ("an accuracy of NaN", sample(1, "0", [-1, -2, -3], NLI, acc=math.nan), "other-accuracy"),
    ("an item twice", sample(0, "0", [-1, -2, -3], NLI, acc=1.0), "item-twice"),
    ("above 0", sample(1, "0", [5.0, -2, -3], NLI, acc=1.0), "log-likelihood"),
    ("not a number", sample(1, "0", ["nan", -9, -9], NLI, acc=1), "log-likelihood"),
    ("a negative item", sample(-1, "0", [-1, -2, -3], NLI), "no-sample"),
    ("one answer missing", sample(1, "0", [-1, -9], NLI, acc=1), "no-sample"),
    ("not greedy", sample(1, "x", [-1], [" x"], acc=1.0), "other-accuracy"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "line", "code"), WRONG)
def test_a_wrong_line_is_refused_by_its_place(workspace, tmp_path, name, line, code):
    path = write(tmp_path, sample(0, "0", [-1, -2, -3], NLI, acc=1.0), line)
    assert refused(workspace, path) == (code, f"{path}:2")
    assert not (workspace.store / "eval_items").exists()


def test_a_task_that_counts_shares_states_no_right_choice(tmp_path):
    """Of several true answers acc is their share of probability: the file's metrics are taken."""
    path = write(tmp_path, sample(0, "0", [-1, -2], NLI[:2], acc=0.73))
    found = [(each["is_gold"], each["options"]) for each in requests(path)]
    assert found == [(None, {"own_metrics": True})] * 2


@pytest.mark.parametrize("keeps_delimiter", [True, False])
@pytest.mark.parametrize("logged", [("acc",), ("acc_mutual_info",), ()])
def test_mutual_information_of_every_version(tmp_path, keeps_delimiter, logged):
    """Up to 0.4.8 the requests without a prompt have no delimiter: they are no further choices."""
    generator = np.random.default_rng(0)
    texts = ["red", " a dark green", "blue"]  # the second has a space of its own
    scores = -generator.exponential(5, (20, 6)).round(3)
    lines = []
    for item, row in enumerate(scores):
        gold = item % 3
        own = {
            "acc": float(np.argmax(row[:3]) == gold),
            "acc_mutual_info": float(np.argmax(row[:3] - row[3:]) == gold),
        }
        choices = [(f"{item}?", f" {text}") for text in texts]
        choices += [("", f" {text}" if keeps_delimiter else text) for text in texts]
        metrics = {name: own[name] for name in logged}
        lines.append(sample(item, gold, [float(s) for s in row], choices, **metrics))
    path = write(tmp_path, *lines)
    assert {tuple(each.metrics) for each in read_samples(path)} == {logged}
    rows = requests(path)
    # sorted by choice, each with and then without the prompt
    assert [(each["choice"], each["unconditional"]) for each in rows] == [
        (choice, alone) for choice in range(3) for alone in (False, True)
    ] * 20
    for item, found in enumerate(scores):
        of_item = [each for each in rows if each["item"] == item]
        assert [each["loglikelihood"] for each in of_item] == list(found[[0, 3, 1, 4, 2, 5]])
        assert [each["choice"] for each in of_item if each["is_gold"]] == [item % 3] * 2
        kept = [text.strip() for text in texts]
        assert [each["reference"] for each in of_item if not each["unconditional"]] == kept


def test_filters_of_an_answer(tmp_path):
    answers = [("none", "7 apples"), ("strict", None), ("loose", "7")]
    lines = [generation(0, text, filter=name) for name, text in answers]
    (found,) = requests(write(tmp_path, *lines))
    assert found["answers"] == dict(answers) and found["gold"] == '["7"]'


@pytest.mark.parametrize(
    "name", [f"results_{DATE}.json", f"samples_qa_{DATE}.jsonl.gz", "pretrained__a_qa.jsonl"]
)
def test_other_file_names_are_refused(tmp_path, name):
    (tmp_path / name).write_text("{}")
    with pytest.raises(TokenmartError) as caught:
        right(tmp_path / name)
    assert caught.value.where == str(tmp_path / name)


def test_words_and_bytes_are_the_task_s(tmp_path):
    """A page is scored detokenized and counted as it was before."""
    line = sample(
        0, "page", [-40.0], ["x"], word_perplexity=[-40.0, 12], byte_perplexity=[-40.0, 61]
    )
    line |= {"arguments": {"gen_args_0": {"arg_0": "two words"}}, "filtered_resps": ["-40.0"]}
    (found,) = requests(write(tmp_path, line))
    assert (found["words"], found["bytes"]) == (12, 61)


def test_an_impossible_choice_is_read(workspace, tmp_path):
    bring(workspace, write(tmp_path, sample(0, "1", ["-inf", -3.5], NLI[:2], acc=1.0)))
    assert answers_of(workspace) == [("a", 2, -3.5)]


def test_few_shot_examples_and_chat_separate_runs(workspace, tmp_path):
    """They are in the file of results next to the samples."""
    for shots, sha in ((0, None), (5, None), (5, "abc")):
        line = sample(0, "1", [-1, -2], [(f"{shots}{sha}", " a"), " b"], acc=0.0)
        facts = {"n-shot": {"qa": shots}, "chat_template_sha": sha}
        bring(workspace, write(tmp_path / f"{shots}{sha}", line, **facts))
    with connect_to_parquet(workspace) as connection:
        found = connection.execute(
            "select distinct condition, shots from eval_items order by all"
        ).fetchall()
    assert [shots for _, shots in found] == [0, 5, 5]
    assert {"qa-0shot-samples", "qa-5shot-samples"} < dict(found).keys()


def answers_of(workspace: Workspace) -> list[tuple[Any, ...]]:
    """Model, answers and first log-likelihood of the answers that belong to the stored requests."""
    with connect_to_parquet(workspace) as connection:
        return connection.execute(
            "select model_id, count(*), max(loglikelihood) from eval_answers join eval_items "
            "using (problem, condition, doc_id, segment) where fingerprint = unit_sha256 "
            "group by model_id order by all"
        ).fetchall()


def of_items(folder: Path, items: int, best: float = -1, version: float = 1.0) -> Path:
    """Items whose choice 0 is right."""
    lines = [
        sample(n, "0", [best, -2], [(f"{n}?", " a"), (f"{n}?", " b")], acc=1.0)
        for n in range(items)
    ]
    return write(folder, *lines, model_name="m", versions={"qa": version})


@pytest.mark.parametrize("force", [False, True])
def test_no_import_replaces_or_joins_what_differs_in_other_models(workspace, tmp_path, force):
    """The requests are the same for all models: other requests would orphan their answers."""
    condition = "qa-0shot-samples"
    bring(workspace, of_items(tmp_path / "a", 40))
    fewer = of_items(tmp_path / "b", 12)
    later = of_items(tmp_path / "c", 40, version=2.0)
    for file in (fewer, later):
        assert refused(workspace, file, model="b", force=force) == ("other-requests", condition)
    assert answers_of(workspace) == [("a", 80, -1.0)]
    bring(workspace, of_items(tmp_path / "d", 40), model="b")
    assert answers_of(workspace) == [("a", 80, -1.0), ("b", 80, -1.0)]


def test_a_model_s_own_result_is_replaced_with_force(workspace, tmp_path):
    for _ in range(2):  # the same files change nothing
        bring(workspace, of_items(tmp_path, 2))
    path = of_items(tmp_path, 2, best=-0.5)
    assert refused(workspace, path) == ("other-result", "qa-0shot-samples")
    assert answers_of(workspace) == [("a", 4, -1.0)]
    bring(workspace, path, force=True)
    assert answers_of(workspace) == [("a", 4, -0.5)]


def test_files_of_two_models_or_twice_one_task_are_refused(workspace, tmp_path):
    line = sample(0, "0", [-1, -2], NLI[:2], acc=1.0)
    one = write(tmp_path / "m", line, model_name="m", config={"model_sha": "1"})
    for name, sha in (("n", "1"), ("m", "2")):
        two = write(tmp_path / f"{name}{sha}", line, model_name=name, config={"model_sha": sha})
        two = two.rename(two.with_name(two.name.replace("_qa_", "_other_")))
        assert refused(workspace, one, two) == ("several-runs", str(two))
    one, two = (write(tmp_path / name, line, model_name="m") for name in "ab")
    assert refused(workspace, one, two) == ("task-twice", str(two))


def own_scores(
    workspace: Workspace, path: Path
) -> dict[tuple[str, str, int | None], tuple[Any, ...]]:
    """What an import stores of the task's own metrics."""
    bring(workspace, path)
    (file,) = (workspace.store / "eval_scores").rglob("scores.parquet")
    rows = pq.read_table(file, partitioning=None).to_pylist()
    with connect_to_parquet(workspace) as connection:
        ((asked,),) = connection.execute(
            "select sha256(string_agg(unit_sha256, ',' order by doc_id)) from (select distinct"
            " doc_id, unit_sha256 from eval_items)"
        ).fetchall()
    assert {row["requests_sha256"] for row in rows} == {asked}
    return {
        (row["metric"], row["filter"], row["item"]): (
            row["value"], row["weight"], row["aggregate"], row["better"], row["reason"],
        )
        for row in rows
    }  # fmt: skip


def test_generations_keep_the_metrics_that_they_were_logged_with(workspace, tmp_path):
    """How texts are compared only the task knows: `$7.` may be 7."""
    lines = [
        generation(number, answer, filter=name, metrics=["exact_match"], exact_match=value)
        for name, answers in (("strict", ("$7.", "8")), ("loose", ("7", "7")))
        for number, (answer, value) in enumerate(zip(answers, (1.0, 0.0), strict=True))
    ]
    assert own_scores(workspace, write(tmp_path, *lines)) == {
        ("exact_match", name, item): (value, 1.0, "mean", None, None)
        for name in ("strict", "loose")
        for item, value in ((0, 1.0), (1, 0.0))
    }


def test_a_task_s_value_is_that_of_its_results(workspace, tmp_path):
    lines = [
        sample(0, "0", [-1, -2], NLI[:2], acc=1.0, bleu=["a", "b"], loss=2.0, perplexity=-3.0),
        sample(1, "0", [-2, -1], NLI[:2], acc=0.0, bleu=["a", "c"], loss=4.0, perplexity=-5.0),
    ]
    given = {"acc,none": 0.5, "bleu,none": 12.5, "loss,none": 7.0, "perplexity,none": math.exp(4)}
    better = {"qa": {"bleu": True, "loss": False}}
    path = write(tmp_path, *lines, results={"qa": given}, higher_is_better=better)
    found = own_scores(workspace, path)
    assert found["bleu", "none", None] == (12.5, None, None, "higher", None)
    assert found["loss", "none", None] == (7.0, None, None, "lower", None)
    # the task makes 7 of 2 and 4: their mean would be another number under its name
    assert ("loss", "none", 0) not in found and ("bleu", "none", 0) not in found
    assert found["perplexity", "none", 1] == (5.0, 1.0, "exp", None, None)
    assert found["acc", "none", 0] == (1.0, 1.0, "mean", None, None)


def test_infinite_and_missing_values_have_a_reason(workspace, tmp_path):
    lines = sample(0, "0", ["-inf", "-inf"], NLI[:2], acc=1.0, perplexity=-math.inf, loss=2.0)
    given = {"acc,none": 1.0, "perplexity,none": math.inf}
    found = own_scores(workspace, write(tmp_path, lines, results={"qa": given}))
    for metric, value in (("perplexity", None), ("loss", None), ("acc", 1.0)):
        row = found[metric, "none", None]
        assert row[0] == value and (row[-1] is None) == (value is not None)


def test_results_of_another_run_are_refused(workspace, tmp_path):
    line = sample(0, "0", [-1, -2], NLI[:2], acc=1.0)
    path = write(tmp_path, line, results={"qa": {"acc,none": 0.25}})
    assert refused(workspace, path) == ("other-run", f"{path}:1")
    assert not (workspace.store / "eval_items").exists()
