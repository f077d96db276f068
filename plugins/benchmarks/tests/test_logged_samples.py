"""Logged samples of every version of the harness: gold is read, and checked with `acc`."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from plugins.benchmarks.importers.samples import HarnessSamples
from tokenmart import cli
from warehouse.errors import TokenmartError
from warehouse.importers.importer import importer
from warehouse.paths import Workspace
from warehouse.sql.connection import connect_to_parquet

DATE = "2026-01-02T03-04-05.678901"
PROBLEM = """\
name: tiny
title: t
models: [{full_id: org/a, family: f, source: {kind: hub}}]
probes: [{kind: full}]
documents: {kind: json, path: docs.json}
target: {kind: imported}
"""


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
        "resps": [[[str(s), "False"]] for s in scores],
        "filtered_resps": [[str(s), "False"] for s in scores],
        "filter": "none",
        "metrics": list(metrics),
        **metrics,
    }


def write(folder: Path, *samples: dict[str, Any], name: str = f"samples_qa_{DATE}.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(each) + "\n" for each in samples), "utf-8")
    return path


def right(path: Path) -> list[int]:
    """The right choice of each item, -1 where there is none."""
    golds: dict[int, int] = {}
    for row in HarnessSamples().read(path):
        golds.setdefault(row.fields["item"], -1)
        if row.fields["is_gold"]:
            golds[row.fields["item"]] = row.fields["choice"]
    return list(golds.values())


SCHEMA = [("The ant lifted the leaf as the ant", " was strong."),
          ("The ant lifted the leaf as the leaf", " was strong.")]  # fmt: skip
NLI = [" True", " Neither", " False"]
DIGITS = [" 3", " 1", " 2"]

READ: dict[str, tuple[list[dict[str, Any]], list[int]]] = {
    "choices differ in the prompt": (
        [
            sample(0, "was strong.", [-9, -8], SCHEMA, acc=1.0),
            sample(1, "was strong.", [-9, -8], SCHEMA, acc=0.0),
            sample(2, "was strong.", [-7, -8], SCHEMA, acc=1.0),
        ],
        [1, 0, 0],
    ),
    "texts that Python reads as truth values": (
        [
            sample(0, "True", [-3, -4, -2], NLI, acc=0.0),
            sample(1, "Neither", [-3, -2, -4], NLI, acc=1.0),
            sample(2, "False", [-3, -4, -2], NLI, acc=1.0),
        ],
        [0, 1, 2],
    ),
    "digits that are the choices' texts": (
        [sample(0, "1", [-2, -1, -3], DIGITS, acc=1), sample(1, "3", [-1, -2, -2], DIGITS, acc=1)],
        [1, 0],
    ),
    "digits that are numbers of choices": (
        [sample(0, "1", [-2, -1, -3], NLI, acc=1.0), sample(1, "0", [-2, -1, -3], NLI, acc=0.0)],
        [1, 0],
    ),
    "numbers of choices whose texts are digits": (
        [sample(0, "1", [-2, -1, -3], DIGITS, acc=1), sample(1, "2", [-2, -2, -1], DIGITS, acc=1)],
        [1, 2],
    ),
    "a list of right ones": (
        [sample(0, [0, 2], [-2, -3, -1], NLI, acc=1.0), sample(1, ["True"], [-1, -2, -3], NLI)],
        [2, 0],
    ),
    "a target out of range, which counts as wrong": (
        [sample(0, 7, [-2, -1], NLI[:2], acc=0.0), sample(1, 0, [-1, -2], NLI[:2], acc=1.0)],
        [-1, 0],
    ),
    "logged beside the prediction": (
        [
            sample(0, "x", [-2, -1, -3], NLI, f1=[0, 1]),
            sample(1, "y", [-1, -2, -3], NLI, f1=[0, 0]),
        ],
        [0, 0],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_the_right_choice_is_read(tmp_path: Path, name: str) -> None:
    samples, golds = READ[name]
    assert right(write(tmp_path, *samples)) == golds


CONTRADICTORY = [
    ("an item twice", sample(0, "1", [-1, -2, -3], NLI, acc=0.0), "item 0 under the filter 'none'"),
    ("above 1", sample(1, "0", [5.0, -2, -3], NLI, acc=1.0), "a log-likelihood is 5, above 0"),
    ("an accuracy in quotes", sample(1, "0", [-1, -2, -3], NLI, acc="1.0"), "acc is '1.0'"),
    ("an accuracy of NaN", sample(1, "0", [-1, -2, -3], NLI, acc=math.nan), "acc is nan"),
    ("half an item", sample(1, "0", [-1, -2], NLI[:2]) | {"doc_id": 1.5}, "doc_id is '1.5', exp"),
    ("a truth value", sample(1, "0", [-1, -2], NLI[:2]) | {"doc_id": True}, "doc_id is 'True'"),
    ("another target than acc says", sample(1, "1", [-1, -2, -3], NLI, acc=1.0), "acc is 1.0"),
    ("no such choice", sample(1, "7", [-1, -2, -3], NLI, acc=1.0), "no choice is right"),
    ("another length", sample(1, "0", [-1, -9, -9], NLI, acc=1, acc_norm=0), "acc_norm is 0"),
    ("not a number", sample(1, "0", ["nan", -9, -9], NLI, acc=1), "log-likelihood is NaN"),
    ("one answer missing", sample(1, "0", [-1, -9], NLI, acc=1), "3 requests, 2 responses"),
]


@pytest.mark.parametrize(("name", "line", "said"), CONTRADICTORY)
def test_a_line_that_contradicts_itself_is_named(
    tmp_path: Path, name: str, line: dict[str, Any], said: str
) -> None:
    path = write(tmp_path, sample(0, "0", [-1, -2, -3], NLI, acc=1.0, acc_norm=1.0), line)
    with pytest.raises(TokenmartError) as raised:
        right(path)
    message = raised.value.format_message()
    assert message.startswith(f"{path}:2: ") and said in message, message


def test_a_task_that_counts_shares_tells_no_right_choice(tmp_path: Path) -> None:
    """Of several true answers acc is their share of probability: the file's metrics are taken."""
    path = write(tmp_path, sample(0, "0", [-1, -2], NLI[:2], acc=0.73))
    rows = list(HarnessSamples().read(path))
    assert [row.fields["is_gold"] for row in rows] == [None, None]
    assert [row.fields["options"] for row in rows] == [{"own_metrics": True}] * 2


def test_what_the_file_does_not_say_is_not_guessed(tmp_path: Path) -> None:
    three = [*SCHEMA, ("The ant lifted the leaf as it", " was strong.")]
    unknown = write(tmp_path, sample(0, "was strong.", [-1, -2, -3], three, acc=0.0))
    with pytest.raises(TokenmartError, match="doesn't identify the right choice; take its metrics"):
        right(unknown)
    both = write(tmp_path, sample(0, "1", [-1, -2, -3], [" 2", " 3", " 1"], acc=0.0))
    with pytest.raises(TokenmartError, match="text of choice 2 and the number of choice 1"):
        right(both)


def test_a_choice_that_is_never_taken_is_read(problem: Workspace, tmp_path: Path) -> None:
    path = write(tmp_path, sample(0, "1", ["-inf", -3.5], NLI[:2], acc=1.0))
    scores = [row.fields["loglikelihood"] for row in HarnessSamples().read(path)]
    assert scores == [float("-inf"), -3.5]
    assert run(path)[0] == 0


def test_a_delimiter_is_read_off_the_normed_accuracy(tmp_path: Path) -> None:
    """The second choice has a space of its own: with it, its length wins."""
    lines = sample(0, "1", [-3.0, -4.0], [" ab", "  ab"], acc=0.0, acc_norm=1.0)
    rows = list(HarnessSamples().read(write(tmp_path, lines)))
    assert [row.fields["reference"] for row in rows] == ["ab", " ab"]


def test_old_files_are_one_list(tmp_path: Path) -> None:
    """0.4.0 to 0.4.2: a JSON list, arguments in lists, numbers as they are, no filter."""
    old = [
        {
            "doc_id": n, "doc": {}, "target": target,
            "arguments": [["Which?", " a"], ["Which?", " b"]],
            "resps": [[[-1.5, False]], [[-2.5, False]]],
            "filtered_resps": [[-1.5, False], [-2.5, True]],
            "acc": acc,
        }
        for n, (target, acc) in enumerate([(0, 1.0), (1, 0.0)])
    ]  # fmt: skip
    path = tmp_path / "samples_qa.jsonl"
    path.write_text(json.dumps(old, indent=2))
    assert right(path) == [0, 1]
    assert [r.fields["score"] for r in importer("lm-eval").read(path)] == [1.0, 0.0]
    results = tmp_path / "results_2026-01-01.json"
    with pytest.raises(TokenmartError, match=r"is a result file .* `tokenmart e2lm collect` reads"):
        right(results)
    other = path.rename(tmp_path / "pretrained__a_qa.jsonl")
    with pytest.raises(TokenmartError, match=r"rename it to samples_<task>\.jsonl"):
        right(other)


def generation(number: int, answer: str, target: str = "7", **more: Any) -> dict[str, Any]:
    asked = {"gen_args_0": {"arg_0": "3 + 4 =", "arg_1": {"until": ["\n"]}}}
    return {
        "doc_id": number, "doc": {}, "target": target, "arguments": asked, "resps": [[answer]],
        "filtered_resps": [answer], **more,
    }  # fmt: skip


def test_generations_without_a_filter_are_numbered(tmp_path: Path) -> None:
    """0.4.3 to 0.4.6 log one sample a filter and don't name it."""
    path = write(
        tmp_path,
        generation(0, "7", exact_match=1.0),
        generation(1, "8", exact_match=0.0),
        generation(0, "[invalid]", exact_match=0.0),
        generation(1, "7", exact_match=1.0),
    )
    rows = list(HarnessSamples().read(path))
    assert [row.fields["answers"] for row in rows] == [
        {"none": "7", "filter-2": "[invalid]"},
        {"none": "8", "filter-2": "7"},
    ]
    scores = [r.fields["score"] for r in importer("lm-eval", "exact_match,filter-2").read(path)]
    assert scores == [0.0, 1.0]


def test_a_byte_order_mark_is_left_out(tmp_path: Path) -> None:
    path = write(tmp_path, sample(0, "1", [-1, -2], NLI[:2], acc=0.0))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert right(path) == [1]
    assert [r.fields["score"] for r in importer("lm-eval").read(path)] == [0.0]


def test_words_and_bytes_are_the_task_s(tmp_path: Path) -> None:
    """A page is scored detokenized and counted as it was before."""
    line = sample(
        0, "page", [-40.0], ["x"], word_perplexity=[-40.0, 12], byte_perplexity=[-40.0, 61]
    )
    line |= {"arguments": {"gen_args_0": {"arg_0": "two words"}}, "filtered_resps": ["-40.0"]}
    (row,) = HarnessSamples().read(write(tmp_path, line))
    assert (row.fields["words"], row.fields["bytes"]) == (12, 61)


@pytest.fixture
def problem(workspace: Workspace) -> Workspace:
    (workspace.problems / "tiny.yml").write_text(PROBLEM)
    return workspace


def run(path: Path, *options: str) -> tuple[int, str]:
    command = ["data", "import", "--problem", "tiny", "--model", "org/a", "--format", "samples"]
    result = CliRunner().invoke(cli, [*command, str(path), *options])
    return result.exit_code, result.output


def test_worked_examples_and_chat_set_runs_apart(problem: Workspace, tmp_path: Path) -> None:
    """They are in the file of results next to the samples."""
    for shots, sha in ((0, None), (5, None), (5, "abc")):
        folder = tmp_path / f"{shots}{sha}"
        folder.mkdir()
        path = write(folder, sample(0, "1", [-1, -2], [(f"{shots}{sha}", " a"), " b"], acc=0.0))
        results = {"n-shot": {"qa": shots}, "chat_template_sha": sha, "results": {}, "config": {}}
        (folder / f"results_{DATE}.json").write_text(json.dumps(results))
        assert run(path)[0] == 0
    with connect_to_parquet(problem) as connection:
        found = connection.execute(
            "select distinct condition, shots from eval_items order by all"
        ).fetchall()
    assert [shots for _, shots in found] == [0, 5, 5]
    assert [name for name, _ in found][:1] == ["qa-0shot-samples"]
    assert "qa-5shot-samples" in dict(found) and any("-chat" in name for name, _ in found)


def test_unknown_worked_examples_are_asked_for(problem: Workspace, tmp_path: Path) -> None:
    assert run(write(tmp_path, sample(0, "1", [-1, -2], NLI[:2], acc=0.0)))[0] == 0
    other = sample(0, "1", [-1, -2], [("Example. Which?", text) for text in NLI[:2]], acc=0.0)
    code, output = run(write(tmp_path, other))
    assert code == 1 and "put the results_<date>.json of the same run" in output, output


def import_of(model: str, folder: Path, items: int, version: Any, *options: str) -> tuple[int, str]:
    """Import `items` items of a task in one version; choices 0 are right."""
    folder.mkdir(exist_ok=True)
    lines = [sample(n, "0", [-1, -2], [(f"{n}?", " a"), " b"], acc=1.0) for n in range(items)]
    path = write(folder, *lines)
    results = {"n-shot": {"qa": 0}, "versions": {"qa": version}, "results": {}, "config": {}}
    (folder / f"results_{DATE}.json").write_text(json.dumps(results))
    command = ["data", "import", "--problem", "tiny", "--format", "samples", "--model", model]
    done = CliRunner().invoke(cli, [*command, str(path), *options])
    return done.exit_code, done.output


def answers_of(workspace: Workspace) -> list[tuple[Any, ...]]:
    """Model, answers and first log-likelihood of the answers that belong to the stored requests."""
    with connect_to_parquet(workspace) as connection:
        return connection.execute(
            "select model_id, count(*), max(loglikelihood) from eval_answers join eval_items "
            "using (problem, condition, doc_id, segment) where fingerprint = unit_sha256 "
            "group by model_id order by all"
        ).fetchall()


def test_the_problem_file_of_the_guide_is_enough_to_import(
    problem: Workspace, tmp_path: Path
) -> None:
    page = (Path(__file__).parents[3] / "docs" / "how_to" / "benchmarks.md").read_text("utf-8")
    text = page.partition("```yaml\n# my_models.yml\n")[2].partition("```")[0]
    (problem.problems / "tiny.yml").write_text(text.replace("name: my_models", "name: tiny"))
    for model, items in (("alpha", 3), ("beta", 3)):
        code, output = import_of(f"me/{model}", tmp_path / model, items, 1)
        assert code == 0, output
        assert output == (
            f"me/{model}: 3 items of 1 task: qa (3); next: tokenmart dbt run --select "
            "tag:benchmarks\n"
        )
    assert answers_of(problem) == [("me--alpha", 6, -1.0), ("me--beta", 6, -1.0)]


@pytest.fixture
def two_models(problem: Workspace) -> Workspace:
    second = "models: [{full_id: org/b, family: f, source: {kind: hub}}, "
    (problem.problems / "tiny.yml").write_text(PROBLEM.replace("models: [", second))
    return problem


def test_a_result_is_replaced_only_with_force(problem: Workspace, tmp_path: Path) -> None:
    path = write(tmp_path, sample(0, "0", [-1, -2], NLI[:2], acc=1.0))
    assert run(path)[0] == run(path)[0] == 0  # the same files change nothing
    write(tmp_path, sample(0, "0", [-0.5, -2], NLI[:2], acc=1.0))
    code, output = run(path)
    assert code == 1 and output == (
        f"error: {path}: task 'qa': org--a has another result of this task already (condition "
        "qa-samples); --force replaces it (nothing was imported)\n"
    )
    assert answers_of(problem) == [("org--a", 2, -1.0)]
    assert run(path, "--force")[0] == 0
    assert answers_of(problem) == [("org--a", 2, -0.5)]


@pytest.mark.parametrize("options", [(), ("--force",)])
def test_no_import_replaces_results_of_other_models(
    two_models: Workspace, tmp_path: Path, options: tuple[str, ...]
) -> None:
    """The requests are the same for all models: other requests would orphan their answers."""
    assert import_of("org/a", tmp_path / "a", 40, 1)[0] == 0
    code, output = import_of("org/b", tmp_path / "b", 12, 1, *options)
    assert code == 1, output
    assert "samples_qa_2026" in output and "which have results of org--a; keep them in" in output
    assert "its requests are not those imported before (item 12)" in output
    assert "delete the folders condition=qa-0shot-samples of problem=tiny in" in output
    assert answers_of(two_models) == [("org--a", 80, -1.0)]


@pytest.mark.parametrize("options", [(), ("--force",)])
def test_two_versions_of_a_task_are_not_compared(
    two_models: Workspace, tmp_path: Path, options: tuple[str, ...]
) -> None:
    assert import_of("org/a", tmp_path / "a", 2, 1.0)[0] == 0
    code, output = import_of("org/b", tmp_path / "b", 2, 2.0, *options)
    assert code == 1, output
    assert "task 'qa' has version 2.0, the results of org--a have version 1.0" in output
    assert answers_of(two_models) == [("org--a", 4, -1.0)]
    # an unknown version may be the same
    assert import_of("org/b", tmp_path / "b", 2, None)[0] == 0
    assert answers_of(two_models) == [("org--a", 4, -1.0), ("org--b", 4, -1.0)]


def test_another_version_of_the_only_model_is_another_result(
    two_models: Workspace, tmp_path: Path
) -> None:
    assert import_of("org/a", tmp_path / "a", 2, 1)[0] == 0
    code, output = import_of("org/a", tmp_path / "a", 2, 2)
    assert code == 1 and "org--a has another result of this task already" in output
    assert import_of("org/a", tmp_path / "a", 2, 2, "--force")[0] == 0
    assert import_of("org/b", tmp_path / "b", 2, 2)[0] == 0


def test_prompts_that_were_probably_cut_are_counted(problem: Workspace, tmp_path: Path) -> None:
    """The harness records no cut, only how many tokens the model reads."""
    long = sample(0, "1", [-1, -2], [("What? " * 40, " a"), ("What? " * 40, " b")], acc=0.0)
    path = write(tmp_path, long, sample(1, "1", [-1, -2], NLI[:2], acc=0.0))
    results = {"n-shot": {"qa": 0}, "max_length": 64, "results": {}, "config": {}}
    (tmp_path / f"results_{DATE}.json").write_text(json.dumps(results))
    code, output = run(path)
    assert code == 0 and "2 of 4 requests have more than 3 bytes for each of the 64" in output
    (tmp_path / f"results_{DATE}.json").write_text(json.dumps({**results, "max_length": 128}))
    assert "note:" not in run(path, "--force")[1]


def own_scores(
    problem: Workspace, path: Path, task: str = "qa", **values: Any
) -> dict[tuple[str, str, int | None], tuple[Any, ...]]:
    """What an import stores of the task's own metrics, with a file of results if it has values."""
    if values:
        results = {"results": {task: {"alias": task, **values}}, "n-shot": {task: 0}, "config": {}}
        results["higher_is_better"] = {task: {"bleu": True, "loss": False}}
        (path.parent / f"results_{DATE}.json").write_text(json.dumps(results))
    code, output = run(path, "--force")
    assert code == 0, output
    (file,) = (problem.store / "eval_scores").rglob("scores.parquet")
    rows = pq.read_table(file, partitioning=None).to_pylist()
    with connect_to_parquet(problem) as connection:
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


def test_generations_keep_the_metrics_that_they_were_logged_with(
    problem: Workspace, tmp_path: Path
) -> None:
    """How texts are compared only the task knows: `$7.` may be 7."""
    lines = [
        generation(number, answer, filter=name, metrics=["exact_match"], exact_match=value)
        for name, answers in (("strict", ("$7.", "8")), ("loose", ("7", "7")))
        for number, (answer, value) in enumerate(zip(answers, (1.0, 0.0), strict=True))
    ]
    found = own_scores(problem, write(tmp_path, *lines))
    assert found == {
        ("exact_match", name, item): (value, 1.0, "mean", None, None)
        for name in ("strict", "loose")
        for item, value in ((0, 1.0), (1, 0.0))
    }


def test_filters_without_a_name_have_that_of_the_results(
    problem: Workspace, tmp_path: Path
) -> None:
    """0.4.3 to 0.4.6."""
    lines = [
        generation(0, "7", exact_match=1.0), generation(1, "8", exact_match=0.0),
        generation(0, "x", exact_match=0.0), generation(1, "y", exact_match=0.0),
    ]  # fmt: skip
    path = write(tmp_path, *lines)
    values = {"exact_match,strict": 0.5, "exact_match_stderr,strict": 0.1, "exact_match,loose": 0.0}
    found = own_scores(problem, path, **values)
    assert {key[1] for key in found} == {"strict", "loose"}
    assert found["exact_match", "strict", None] == (0.5, None, None, None, None)
    assert found["exact_match", "loose", 0] == (0.0, 1.0, "mean", None, None)
    values = dict(zip(values, (0.25, 0.1, 0.0), strict=True))
    again = own_scores(problem, path, **values)
    assert {key[1] for key in again} == {"none", "filter-2"}, "means fit no name: numbers stay"


def test_a_task_s_value_is_that_of_its_results(problem: Workspace, tmp_path: Path) -> None:
    lines = [
        sample(0, "0", [-1, -2], NLI[:2], acc=1.0, bleu=["a", "b"], loss=2.0, perplexity=-3.0),
        sample(1, "0", [-2, -1], NLI[:2], acc=0.0, bleu=["a", "c"], loss=4.0, perplexity=-5.0),
    ]
    given = {"acc,none": 0.5, "bleu,none": 12.5, "loss,none": 7.0, "perplexity,none": math.exp(4)}
    found = own_scores(problem, write(tmp_path, *lines), **given)
    assert found["bleu", "none", None] == (12.5, None, None, "higher", None)
    assert found["loss", "none", None] == (7.0, None, None, "lower", None)
    # the task makes 7 of 2 and 4: their mean would be another number under its name
    assert ("loss", "none", 0) not in found and ("bleu", "none", 0) not in found
    assert found["perplexity", "none", 1] == (5.0, 1.0, "exp", None, None)
    assert found["acc", "none", 0] == (1.0, 1.0, "mean", None, None)


def test_results_of_another_run_are_refused(problem: Workspace, tmp_path: Path) -> None:
    path = write(tmp_path, sample(0, "0", [-1, -2], NLI[:2], acc=1.0))
    results = {"results": {"qa": {"acc,none": 0.25}}, "n-shot": {"qa": 0}}
    (tmp_path / f"results_{DATE}.json").write_text(json.dumps(results))
    code, output = run(path)
    assert code == 1 and f"{path}:1: the mean acc of the samples is 1, in the file of" in output
    assert not (problem.store / "eval_items").exists()


def test_an_infinite_value_is_no_number_and_stops_nothing(
    problem: Workspace, tmp_path: Path
) -> None:
    lines = sample(0, "0", ["-inf", "-inf"], NLI[:2], acc=1.0, perplexity=-math.inf, loss=2.0)
    given = {"acc,none": 1.0, "perplexity,none": math.inf}
    found = own_scores(problem, write(tmp_path, lines), **given)
    assert found["perplexity", "none", None][-1] == "its value is inf, not one finite number"
    assert found["acc", "none", None][0] == 1.0
    assert "no results_<date>.json next to the samples has" in found["loss", "none", None][-1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"doc_id": 0, "target": "\\ud83d"}', "half of a surrogate pair"),
        ('{"doc_id": 0, "x":' * 100_000, "nested too deeply"),
        ('{"doc_id": ' + "[" * 80 + "]" * 80 + "}", "nested deeper than 64"),
        ('{"doc_id": ' + "9" * 5000 + "}", "a number too long"),
        ('{"doc_id": 0, "x": ' + "9" * 400 + "}", "a number too long"),
        ("\xff", "not UTF-8"),
    ],
)
def test_hostile_text_is_one_line(problem: Workspace, tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / f"samples_qa_{DATE}.jsonl"
    path.write_bytes(text.encode("latin-1"))
    for kind in ("samples", "token-logprobs", "vllm", "lm-eval"):
        command = ["data", "import", "--problem", "tiny", "--model", "org/a", "--format", kind]
        result = CliRunner().invoke(cli, [*command, str(path)])
        assert result.exit_code == 1 and said in result.output, (kind, result.output)


def test_texts_that_look_like_lists_are_texts(tmp_path: Path) -> None:
    texts = [" [0, 1]", " [1, 0]"]
    right_ones = [sample(n, text, [-1 - n, -2], texts, acc=1.0 - n) for n, text in
                  enumerate(["[0, 1]", "[0, 1]"])]  # fmt: skip
    right_ones[1] = sample(1, "[0, 1]", [-3, -2], texts, acc=0.0)
    assert right(write(tmp_path, *right_ones)) == [0, 0]
    alike = [sample(n, text.strip(), [-1 - 2 * n, -2], texts, acc=1.0) for n, text in
             enumerate(texts)]  # fmt: skip
    with pytest.raises(TokenmartError, match="is the text of choice 0 and the number of choice"):
        right(write(tmp_path, *alike))


def test_answers_of_before_0_4_are_named(tmp_path: Path) -> None:
    old = {"doc_id": 0, "prompt_0": "Q", "logit_0": -3.5, "truth": "0", "acc": "1.0"}
    path = tmp_path / "samples_qa.json"
    path.write_text(json.dumps([old]))
    with pytest.raises(TokenmartError, match=r"before 0\.4 \(--write_out\), which lacks the cont"):
        list(HarnessSamples().read(path))
    rows = [row.fields for row in importer("lm-eval", "acc").read(path)]
    assert [(row["task"], row["score"]) for row in rows] == [("qa", "1.0")]


def test_choices_of_one_log_likelihood_are_said(workspace: Workspace, tmp_path: Path) -> None:
    (workspace.problems / "tiny.yml").write_text(PROBLEM)
    path = write(tmp_path, *(sample(n, n % 2, [0.0, 0.0], [" a", " b"], acc=1.0 - n % 2)
                             for n in range(4)))  # fmt: skip
    words = ["--problem", "tiny", "--model", "org/a", "--format", "samples", str(path)]
    done = CliRunner().invoke(cli, ["data", "import", *words])
    assert done.exit_code == 0, done.output
    assert "4 of 4 items have one log-likelihood for all choices: the program" in done.stderr
