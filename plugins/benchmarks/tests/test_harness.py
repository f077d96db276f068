"""`tokenmart eval` against lm-evaluation-harness's own class for transformers models."""

from __future__ import annotations

import logging
import re
import shlex
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from dbt_harness import Warehouse
from eval_tasks import TASKS, write_tasks
from fresh_process import eval_until_killed
from json_records import records
from published_tables import assert_same

from plugins.benchmarks.cli.eval import eval_command
from plugins.benchmarks.harness.stored_items import eval_store
from plugins.benchmarks.harness.tasks import load_tasks
from tokenmart import cli
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.sql.connection import connect_to_parquet
from warehouse.store.ledger import read_units

pytest.importorskip("lm_eval")
pytestmark = pytest.mark.slow

CONTEXT = 48
"""Tokens that the second model reads: shorter than some prompts and texts."""


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tasks(tmp_path_factory.mktemp("made") / "tasks")


@pytest.fixture
def two_models(tiny_problem: Callable[..., Path], tiny_checkpoint: Callable[..., Path]) -> Path:
    models = [
        {"full_id": "tiny/one", "source": {"kind": "local", "path": str(tiny_checkpoint())}},
        {
            "full_id": "tiny/short",
            "source": {"kind": "local", "path": str(tiny_checkpoint("gemma3_text", False, 1))},
            "context": CONTEXT,
        },
    ]
    return tiny_problem(models=[{**m, "family": "tiny", "dtype": "float32"} for m in models])


def evaluate(problem: Path, tasks: Path, *options: str) -> Result:
    words = ["--problem", str(problem), "--include-path", str(tasks), "--device", "cpu"]
    return CliRunner().invoke(eval_command, [*words, *options])


def ok(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return result.output


def harness_class(folder: Path, longest: int | None) -> Any:
    """The harness's own class for models of transformers."""
    from lm_eval.models.huggingface import HFLM

    return HFLM(
        pretrained=str(folder), device="cpu", dtype="float32", batch_size=4, max_length=longest
    )


def harness_results(
    model: Any, tasks: Path, names: Sequence[str] = tuple(TASKS), **options: Any
) -> dict[str, Any]:
    """What the harness finds with its own arithmetic."""
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    manager = TaskManager(include_path=str(tasks), include_defaults=False)
    found = simple_evaluate(
        model, tasks=list(names), task_manager=manager, bootstrap_iters=2, **options
    )
    return dict(found)


def test_metrics_and_answers_are_the_harness_s_own(two_models, tasks, workspace, tiny_checkpoint):
    """Run here, and brought in from the harness's own samples."""
    theirs = {
        "tiny--one": harness_results(harness_class(tiny_checkpoint(), None), tasks),
        "tiny--short": harness_results(
            harness_class(tiny_checkpoint("gemma3_text", False, 1), CONTEXT), tasks
        ),
    }
    files = write_samples(workspace.root / "samples", theirs["tiny--one"])
    words = ["--problem", str(two_models), "--model", "tiny/one", "--format", "samples"]
    ok(CliRunner().invoke(cli, ["data", "import", *words, *map(str, files)]))
    said = ok(evaluate(two_models, tasks, "--tasks", "made_*", "--too-long", "harness"))
    assert "evaluated 16 units" in said
    again = evaluate(two_models, tasks, "--tasks", "made_*", "--too-long", "harness", "--json")
    found = records(again, "eval")
    assert {(each["units"], each["units_there"], *each["reasons"]) for each in found} == {(0, 8)}
    (following,) = [line for line in said.splitlines() if line.startswith("next: ")]
    *command, shown = shlex.split(following)
    built_by = ["tokenmart", "dbt", "run", "--select", "tag:benchmarks"]
    assert command == ["next:", *built_by, "&&", "tokenmart", "sql"]
    built = Warehouse(workspace.data, workspace.root / "t.duckdb")
    built.run("--select", built_by[-1])  # as printed, in a new database
    assert {name for (name,) in built.rows(f"select distinct task from ({shown})")} == set(TASKS)
    query = """
        select
            model_id, condition like '%-samples', task, metric, filter,
            value, stderr, items, clusters
        from eval_metrics where part = 'all'
    """
    ours = {row[:5]: row[5:] for row in built.rows(query)}
    query = """
        select model_id, task, item, filter, answers.answer
        from eval_answers as answers
        join eval_items using (problem, condition, doc_id, segment)
        where condition not like '%-samples'
    """
    answers = {row[:4]: row[4] for row in built.rows(query)}
    compared = 0
    for model, found in theirs.items():
        for task, key, expected in numbers(found):
            metric, _, filter_name = key.partition(",")
            exact = "perplexity" not in metric and "bits" not in metric
            close = pytest.approx(expected, rel=0 if exact else 1e-4, abs=1e-6)
            value, stderr, items, clusters = ours[model, False, task, metric, filter_name]
            assert items == len(TASKS[task][0]) and value == close, (task, key)
            spread = found["results"][task][f"{metric}_stderr,{filter_name}"]
            if metric.startswith("acc") and clusters == items:
                assert stderr == pytest.approx(spread, abs=1e-9), (task, key)
            if model == "tiny--one":
                assert ours[model, True, task, metric, filter_name][0] == close, (task, key)
            compared += 1
        samples = found["samples"]["made_last_word"]
        nats = np.array([-float(sample["filtered_resps"][0][0]) for sample in samples])
        error = np.std(nats, ddof=1) / np.sqrt(len(nats))
        for metric, scale in (("correct_loglik", 1.0), ("perplexity", np.exp(nats.mean()))):
            _, stderr, _, _ = ours[model, False, "made_last_word", metric, "none"]
            assert stderr == pytest.approx(scale * error, rel=1e-4)
        for sample in found["samples"]["made_counting"]:
            key = model, "made_counting", sample["doc_id"]
            assert answers[(*key, sample["filter"])] == sample["filtered_resps"][0]
            assert answers[(*key, "none")] == sample["resps"][0][0]
    assert compared == 2 * 19


def numbers(found: dict[str, Any]) -> list[tuple[str, str, float]]:
    """Task, `metric,filter` and value of all the harness's results."""
    return [
        (task, key, value)
        for task, results in found["results"].items()
        for key, value in results.items()
        if "," in key and "_stderr," not in key
    ]


def write_samples(folder: Path, found: dict[str, Any]) -> list[Path]:
    """What `--log_samples` writes."""
    from lm_eval.loggers import EvaluationTracker

    tracker = EvaluationTracker(output_path=str(folder))
    tracker.general_config_tracker.model_name_sanitized = "tiny"
    tracker.date_id = "2026-11-23T01-02-03.456789"
    run = {key: value for key, value in found.items() if key != "samples"}
    tracker.save_results_aggregated(run, found["samples"])
    for task, samples in found["samples"].items():
        tracker.save_results_samples(task_name=task, samples=samples)
    return sorted(folder.rglob("samples_*.jsonl"))


def test_a_killed_run_goes_on_inside_its_task(two_models, tasks, workspace):
    """Killed before its third unit is stored, in the middle of made_two's two."""
    options = ["--tasks", "made_counting,made_two", "--model", "tiny/one"]
    ok(evaluate(two_models, tasks, *options))
    whole = stored(workspace)
    units = {name: len(set(rows["doc_id"].to_pylist())) for name, rows in whole.items()}
    assert units == {"made_counting-0shot": 1, "made_two-0shot": 2}
    for folder in ("eval_tokens", "eval_answers", "eval_items"):
        shutil.rmtree(workspace.data / folder)
    words = ["--problem", str(two_models), "--include-path", str(tasks), "--device", "cpu"]
    assert eval_until_killed([*words, *options], units=2) < 0
    assert "evaluated 1 unit " in ok(evaluate(two_models, tasks, *options))
    again = stored(workspace)
    assert again.keys() == whole.keys()
    for name, rows in whole.items():
        assert_same(again[name], rows)
    assert "evaluated 0 units" in ok(evaluate(two_models, tasks, *options))


def stored(workspace: Workspace) -> dict[str, pa.Table]:
    """Rows of all tasks, by condition."""
    return {
        path.parent.name.removeprefix("condition="): pq.read_table(path, partitioning=None)
        for path in eval_store(workspace).tokens.glob("problem=*/**/tokens.parquet")
    }


def test_rows_say_what_was_asked(two_models, tasks, workspace):
    ok(evaluate(two_models, tasks, "--tasks", "made_variable,made_two", "--model", "tiny/one"))
    words = ["--tasks", "made_four", "--num-fewshot", "1", "--subject", "subject"]
    ok(evaluate(two_models, tasks, *words, "--model", "tiny/one"))
    with connect_to_parquet(workspace) as connection:
        assert read(
            connection,
            "select condition, shots, count(*), count(distinct item), max(choice),"
            " count(distinct cluster), count(distinct subject) from eval_items"
            " group by all order by all",
        ) == [
            ("made_four-1shot", 1, 136, 17, 3, 17, 2),
            ("made_two-0shot", 0, 68, 34, 1, 17, 0),
            ("made_variable-2shot", 2, 63, 16, 4, 16, 0),
        ]
        # the text that a token's span points to is the token's own
        [(context, continuation, text)] = read(
            connection,
            "select context, continuation, string_agg(substr(context || continuation, "
            "char_start + 1, char_end - char_start), '' order by position) "
            "from eval_items join eval_tokens using (problem, condition, doc_id, segment) "
            "where task = 'made_two' and item = 3 and choice = 1 group by all",
        )
        assert context.endswith("Answer:") and continuation == text == " yes"


def read(connection: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
    return connection.execute(query).fetchall()


def test_what_is_wrong_costs_nothing_else(two_models, tasks, workspace, tmp_path):
    with pytest.raises(TokenmartError) as caught:
        load_tasks(["made_two", "nowhere.yaml"], [tasks])
    assert (caught.value.code, caught.value.where) == ("unusable-task", "--tasks nowhere.yaml")
    longer = shutil.copytree(tasks, tmp_path / "longer") / "made_counting.yaml"
    longer.write_text(longer.read_text().replace("max_gen_toks: 12", "max_gen_toks: 60"))
    result = evaluate(two_models, longer.parent, "--tasks", "made_counting,made_last_word")
    assert result.exit_code == 5, result.output
    states = {}
    for path in eval_store(workspace).tokens.glob("problem=tiny/**/tokens.parquet"):
        for unit in read_units(path):
            states[unit.model_id, unit.condition] = unit.status
    # the text to write is longer than what the second model reads
    assert states == {
        ("tiny--one", "made_counting-0shot"): "done",
        ("tiny--one", "made_last_word-0shot"): "done",
        ("tiny--short", "made_counting-0shot"): "failed",
        ("tiny--short", "made_last_word-0shot"): "done",
    }


CHAT = """{{ bos_token }}{% for message in messages %}\
{% if message.role == 'system' and REFUSES %}{{ raise_exception('no system turn') }}{% endif %}\
[{{ message.role }}] {{ message.content }}
{% endfor %}{% if add_generation_prompt %}[assistant] {% endif %}"""


@pytest.mark.parametrize("refuses", [False, True])
def test_chats_are_the_harness_s_own(
    refuses, two_models, tasks, workspace, tiny_checkpoint, tmp_path
):
    """Worked examples as turns, a description as system turn, a BOS in the template."""
    folder = shutil.copytree(tiny_checkpoint(), tmp_path / "talks")
    (folder / "chat_template.jinja").write_text(CHAT.replace("REFUSES", str(refuses).lower()))
    two_models.write_text(two_models.read_text().replace(str(tiny_checkpoint()), str(folder)))
    names = ["made_variable", "made_counting", "made_last_word"]
    tasks = shutil.copytree(tasks, tmp_path / "described")
    for name in names:
        with (tasks / f"{name}.yaml").open("a") as file:
            file.write('\ndescription: "Be brief."\n')
    result = evaluate(two_models, tasks, "--tasks", ",".join(names), "--apply-chat-template")
    assert result.exit_code == 5
    assert "evaluated 3 units" in result.output
    theirs = harness_results(
        harness_class(folder, None),
        tasks,
        names,
        apply_chat_template=True,
        fewshot_as_multiturn=True,
    )
    query = """
        select task, item, choice, any_value(condition), any_value(context),
            sum(cast(logprob as double))
        from eval_tokens join eval_items using (problem, condition, doc_id, segment)
        where request_type != 'generate_until' group by all
    """
    with connect_to_parquet(workspace) as connection:
        ours = {row[:3]: row[3:] for row in read(connection, query)}
        answers = dict(
            read(
                connection,
                "select item, answer from eval_answers join eval_items "
                "using (problem, condition, doc_id, segment) where filter = 'none'",
            )
        )
    compared = 0
    for task in names[::2]:
        for sample in theirs["samples"][task]:
            for choice, (loglikelihood, _) in enumerate(sample["filtered_resps"]):
                condition, context, mine = ours[task, sample["doc_id"], choice]
                assert re.fullmatch(rf"{task}-\dshot-chat[0-9a-f]{{8}}", condition)
                assert ("[system] Be brief." in context) != refuses
                assert context.count("[user]") == (3 if task == "made_variable" else 1)
                assert mine == pytest.approx(float(loglikelihood), rel=1e-5, abs=1e-5)
                compared += 1
    assert compared == len(ours) == 63 + len(TASKS["made_last_word"][0])
    for sample in theirs["samples"]["made_counting"]:
        assert answers[sample["doc_id"]] == sample["resps"][0][0]


def test_an_edited_task_leaves_units_that_are_counted_and_replaced(
    two_models, tasks, workspace, tmp_path
):
    """The mart eval_coverage on two units of each of two models."""
    built = Warehouse(workspace.data, workspace.root / "t.duckdb")

    def state() -> dict[str, tuple[int, int, int, int]]:
        built.run("--select", "+eval_coverage")
        rows = built.rows(
            "select model_id, units_done, units_failed, units_outdated, units from eval_coverage"
        )
        return {row[0]: row[1:] for row in rows}

    edited = shutil.copytree(tasks, tmp_path / "edited")
    ok(evaluate(two_models, tasks, "--tasks", "made_two"))
    assert state() == {"tiny--one": (2, 0, 0, 2), "tiny--short": (2, 0, 0, 2)}
    config = edited / "made_two.yaml"
    config.write_text(config.read_text().replace("Question:", "Asked:"))
    ok(evaluate(two_models, edited, "--tasks", "made_two", "--model", "tiny/short"))
    assert state() == {"tiny--one": (0, 0, 2, 2), "tiny--short": (2, 0, 0, 2)}
    complete = built.rows("select model_id, is_complete from eval_coverage order by all")
    assert complete == [("tiny--one", False), ("tiny--short", True)]
    assert "evaluated 2 units" in ok(evaluate(two_models, edited, "--tasks", "made_two"))
    assert state() == {"tiny--one": (2, 0, 0, 2), "tiny--short": (2, 0, 0, 2)}


class KeepsBos:
    """Mixed into the harness's class: a prompt that is too long loses tokens behind its BOS."""

    def _loglikelihood_tokens(self, requests: list[Any], **options: Any) -> Any:
        shorter = []
        for texts, context, continuation in requests:
            beyond = len(context) + len(continuation) - self.max_length - 1  # type: ignore[attr-defined]
            cut = [*context[:1], *context[1 + beyond :]] if beyond > 0 else context
            shorter.append((texts, cut, continuation))
        return super()._loglikelihood_tokens(shorter, **options)  # type: ignore[misc]

    def tok_batch_encode(self, strings: list[str], **options: Any) -> Any:
        most = options.pop("left_truncate_len")
        whole, mask = super().tok_batch_encode(strings, **options)  # type: ignore[misc]
        assert len(strings) == 1, "padding would be cut for a prompt"
        beyond = max(0, whole.shape[1] - most)
        kept = [0, *range(1 + beyond, whole.shape[1])]
        return whole[:, kept], mask[:, kept]


def test_a_cut_prompt_keeps_its_bos_and_is_counted(tiny_problem, tiny_checkpoint, tasks, workspace):
    """Against the harness's class, mended to keep BOS."""
    from lm_eval.models.huggingface import HFLM

    folder = tiny_checkpoint()
    source = {"kind": "local", "path": str(folder)}
    model = {"full_id": "tiny/bos", "family": "tiny", "dtype": "float32", "source": source}
    problem = tiny_problem(models=[{**model, "context": CONTEXT}])
    names = ["made_exam", "made_counting", "made_last_word"]
    mended = type("Mended", (KeepsBos, HFLM), {})(
        pretrained=str(folder), device="cpu", dtype="float32", batch_size=1, max_length=CONTEXT
    )
    theirs = harness_results(mended, tasks, names)
    said = ok(evaluate(problem, tasks, "--tasks", ",".join(names)))
    assert " 17 items " in said
    query = (
        "select condition, sum(cast(logprob as double)), max(position - context_tokens) "
        "from eval_tokens where condition = 'made_exam-0shot' "
        "group by condition, doc_id, segment order by doc_id, segment"
    )
    with connect_to_parquet(workspace) as connection:
        ours = read(connection, query)
    expected = [
        nats for sample in theirs["samples"]["made_exam"] for nats, _ in sample["filtered_resps"]
    ]
    assert [row[1] for row in ours] == pytest.approx(list(map(float, expected)), rel=1e-5)
    assert min(row[2] for row in ours) > 0
    built = Warehouse(workspace.data, workspace.root / "t.duckdb")
    built.run("--select", "+eval_metrics")
    query = (
        "select task, metric || ',' || filter, value, items_cut from eval_metrics "
        "where part = 'all'"
    )
    found = {row[:2]: row[2:] for row in built.rows(query)}
    for task, key, value in numbers(theirs):
        assert found[task, key][0] == pytest.approx(value, rel=1e-5), (task, key)
    assert found["made_exam", "acc,none"][1] == 17
