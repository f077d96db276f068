"""Real task files of lm-evaluation-harness: every number shown is the harness's, or has a reason.

`harness_forms.md` in this folder is the table of comparisons; a test prints the new lines if they
differ.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from dbt_harness import Warehouse
from harness_forms import (
    FORMS,
    GROUP,
    NOT_IMPORTED,
    imported_samples,
    results_of_harness,
    write_forms,
)

from plugins.benchmarks.cli.eval import eval_command
from tokenmart import cli

pytest.importorskip("lm_eval")
pytestmark = pytest.mark.slow

TABLE = Path(__file__).with_name("harness_forms.md")
OWN = {"truthfulqa_mc2", "winogrande", "wsc273", "wikitext", "drop", "crows_pairs", "mutual"}
"""Tasks of whose metrics none is ours under the harness's name."""

MODELS = {"tiny--bos": ("llama", True, 0), "tiny--plain": ("gemma3_text", False, 1)}

NAMES = [*(f"form_{name}" for name in FORMS), GROUP[0]]
PARTS = 6
"""Of the forms, each a test: each needs less than a minute."""


def lines_of_table() -> dict[str, str]:
    """Task → its line."""
    lines = TABLE.read_text(encoding="utf-8").splitlines()[2:]
    return {line.split(" | ")[0].removeprefix("| "): line for line in lines}


def test_the_table_has_every_form():
    assert list(lines_of_table()) == [*NAMES[:-1], *GROUP[1], GROUP[0]]


@pytest.mark.parametrize("part", range(PARTS))
def test_every_number_under_the_harness_s_names_is_the_harness_s(
    part, tiny_problem, tiny_checkpoint, workspace, tmp_path
):
    from lm_eval.models.huggingface import HFLM

    forms = write_forms(tmp_path / "forms")
    folders = {name: tiny_checkpoint(*how) for name, how in MODELS.items()}
    problem = tiny_problem(
        models=[
            {
                "full_id": name.replace("--", "/"),
                "family": name,
                "dtype": "float32",
                "source": {"kind": "local", "path": str(folder)},
            }
            for name, folder in folders.items()
        ]
    )
    names = NAMES[part::PARTS]
    words = ["--problem", str(problem), "--include-path", str(forms), "--device", "cpu"]
    done = CliRunner().invoke(
        eval_command, [*words, "--too-long", "harness", "--tasks", ",".join(names)]
    )
    assert done.exit_code == 0, done.output
    every = {
        model: results_of_harness(
            HFLM(pretrained=str(folder), device="cpu", dtype="float32", batch_size=4),
            forms,
            names,
            tmp_path / model,
        )
        for model, folder in folders.items()
    }
    for model in folders:
        files = imported_samples(tmp_path / model)
        words = ["--problem", str(problem), "--model", model.replace("--", "/")]
        done = CliRunner().invoke(cli, ["data", "import", *words, "--format", "samples", *files])
        assert done.exit_code == 0, done.output
    built = Warehouse(workspace.data, workspace.root / "t.duckdb")
    built.run("--select", "+eval_metrics")
    query = (
        "select model_id, task, metric || ',' || filter, value, reason, items from eval_metrics "
        "where part = 'all' and (condition like '%-samples') = "
    )
    ours, imported = (
        {row[:3]: row[3:] for row in built.rows(query + which)} for which in ("false", "true")
    )
    catalogued = built.rows("select metric from eval_metric_catalog where origin = 'harness'")
    harness_s = {name for (name,) in catalogued}
    sampled = {task for _, task, _ in imported}
    # samples have no values of groups
    assert {*names} - sampled == {*names} & {*NOT_IMPORTED, GROUP[0]}
    members = GROUP[1] if GROUP[0] in names else ()
    lines: dict[str, str] = {}
    for model, theirs in every.items():
        assert theirs.keys() == {*names, *members}
        for task, values in theirs.items():
            assert values
            for key, value in values.items():
                mine, reason, _ = ours[model, task, key]
                assert reason is None, (task, key, reason)
                assert mine == pytest.approx(value, rel=1e-4, abs=1e-6), (model, task, key)
                if task in NOT_IMPORTED or task not in sampled:
                    continue
                assert imported[model, task, key][:2] == (
                    pytest.approx(value, rel=1e-12),
                    None,
                ), (task, key)
            items = str(max(ours[model, task, key][2] for key in values))
            lines[task] = f"| {task} | {items} | {', '.join(sorted(values))} |"
        for found, task, key in [*ours, *imported]:
            if found == model and task.removeprefix("form_") in OWN and key not in theirs[task]:
                assert key.partition(",")[0] not in harness_s, (task, key)
    query = """
        select max(abs(metrics.value - expected)) from eval_item_metrics as metrics join (
            select model_id, item, -sum(cast(logprob as double)) / ln(2) as bits,
                bits / octet_length(encode(any_value(continuation))) as expected
            from eval_tokens join eval_items
                using (problem, condition, doc_id, segment)
            where task = 'form_winogrande' and is_gold group by model_id, item
        ) using (model_id, item)
        where task = 'form_winogrande' and metric = 'bpb' and condition not like '%-samples'
    """
    [(largest,)] = built.rows(query)
    assert (largest is None) == ("form_winogrande" not in names)
    assert largest is None or largest < 1e-9
    assert {task: lines_of_table()[task] for task in lines} == lines, "\n".join(lines.values())


def test_what_cannot_be_counted_has_a_reason_and_costs_nothing_else(
    tiny_problem, tiny_checkpoint, workspace, tmp_path
):
    """Two items that are too long, a failing process_results, generated code, an empty text."""
    forms = tmp_path / "forms"
    forms.mkdir()
    (forms / "own.py").write_text("def count(doc, results):\n    raise ValueError('no key')\n")
    own = ("process_results: !function own.count\n", "unsafe_code: true\n", "", "")
    kinds = ("multiple_choice", "multiple_choice", "multiple_choice", "loglikelihood_rolling")
    long = "naïve " * 60
    for name, kind, more in zip(("own", "code", "long", "text"), kinds, own, strict=True):
        texts = ["one", "two", "", "three"] if name == "text" else ["one", long, "two", long]
        rows = [json.dumps({"text": text if name in ("long", "text") else "x"}) for text in texts]
        data = forms / f"{name}.jsonl"
        data.write_text("\n".join(rows), encoding="utf-8")
        metric = "byte_perplexity" if name == "text" else "acc"
        choices = "" if name == "text" else "doc_to_choice: \"{{['no', text]}}\"\n"
        target = '"{{text}}"' if name == "text" else "1"
        (forms / f"{name}.yaml").write_text(
            f"task: {name}\ndataset_path: json\ndataset_kwargs:\n  data_files:\n"
            f"    test: {data}\ntest_split: test\noutput_type: {kind}\ndoc_to_text: ''\n"
            f"doc_to_target: {target}\n{choices}metric_list:\n  - metric: {metric}\n{more}"
        )
    (forms / "long.yaml").write_text(
        (forms / "long.yaml").read_text().replace("doc_to_text: ''", "doc_to_text: 'Say'")
    )
    source = {"kind": "local", "path": str(tiny_checkpoint("gemma3_text", False, 1))}
    model = {"full_id": "tiny/short", "family": "t", "dtype": "float32", "source": source}
    problem = tiny_problem(models=[{**model, "context": 48}])
    words = ["--problem", str(problem), "--include-path", str(forms), "--device", "cpu"]
    done = CliRunner().invoke(eval_command, [*words, "--tasks", "own,code,long,text"])
    assert done.exit_code == 5, done.output
    assert "items 1, 3: " in done.output
    built = Warehouse(workspace.data, workspace.root / "t.duckdb")
    built.run("--select", "+eval_metrics")
    query = (
        "select task, value, items, reason from eval_metrics "
        "where metric in ('acc', 'byte_perplexity') and part = 'all'"
    )
    found = {task: row for task, *row in built.rows(query)}
    why = "process_results of the task failed (ValueError: no key)"
    assert found["own"] == [None, 0, why]
    assert found["code"][0] is None and found["code"][2]
    assert found["long"] == [None, 0, "items 1, 3 could not be scored"]
    assert found["text"][1:] == [4, None] and found["text"][0] > 1
    query = "select item, value from eval_item_metrics where task = 'long' and metric = 'bpb'"
    assert sorted(item for item, _ in built.rows(query)) == [0, 2]
    again = CliRunner().invoke(eval_command, [*words, "--tasks", "long"])
    assert again.exit_code == 5 and "items 1, 3: " in again.output
