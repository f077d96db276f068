"""Result files of lm-evaluation-harness become a plain table, by a table of checkpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from plugins.benchmarks.scores.checkpoints import checkpoints, stated
from plugins.benchmarks.scores.harness_results import Row, read_results, table_rows
from plugins.benchmarks.scores.metric_directions import direction_of
from plugins.benchmarks.scores.score_table import read_scores
from tokenmart import cli
from warehouse.errors import TokenmartError


def written(folder: Path, name: str, values: dict[str, Any], **more: Any) -> Path:
    """As the harness writes it, without what nobody reads."""
    tree = {
        "results": {"arc_easy": {"alias": "arc_easy", "sample_len": 9, **values}},
        "n-shot": {"arc_easy": 0},
        "higher_is_better": {"arc_easy": {"acc": True, "perplexity": False}},
        "config": {"model": "hf", "model_args": {"pretrained": name}, "limit": None},
        "model_name": name,
        "date": 1.0,
    } | more
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"results_2026-11-23T0{len(list(folder.iterdir()))}.json"
    path.write_text(json.dumps(tree))
    return path


def rows(*files: Path) -> list[Row]:
    scores, _ = read_results(files)
    names = {score.name: score.parameters for score in scores}
    return table_rows(scores, checkpoints(files[0].parent / "x.names.csv", names))


def refused(*files: Path) -> tuple[str, str]:
    """Code and place of the error of files."""
    with pytest.raises(TokenmartError) as caught:
        rows(*files)
    return caught.value.code, caught.value.where


def collect(*words: object) -> Result:
    return CliRunner().invoke(cli, ["e2lm", "collect", *map(str, words)])


def test_a_folder_of_checkpoints_becomes_a_table(tmp_path):
    values = {"acc,none": 0.5, "acc_stderr,none": 0.1, "exact_match,strict-match": 1}
    losses = {"perplexity,none": 8.5, "perplexity_stderr,none": "N/A"}
    results = tmp_path / "results"
    written(results / "a", "runs/a/checkpoint-500", values)
    for name, place in (("subfolder", "iter_0002000"), ("revision", "step1000")):
        config = {"model_args": f"pretrained=org/b,{name}={place}", "limit": None}
        written(results / "b", "org/b", losses, config=config)
    out = tmp_path / "scores.csv"
    done = collect(results, "--out", out)
    assert done.exit_code == 0, done.output
    names = ("full_id", "step", "benchmark", "metric", "direction", "score", "stderr")
    found = [tuple(row[name] for name in names) for row in read_scores(out).to_pylist()]
    task = "arc_easy-0shot"
    assert found == [
        ("runs/a", 500, task, "acc", "higher", 0.5, 0.1),
        ("runs/a", 500, task, "exact_match,strict-match", "higher", 1.0, None),
        ("org/b", 1000, task, "perplexity", "lower", 8.5, None),
        ("org/b", 2000, task, "perplexity", "lower", 8.5, None),
    ]


@pytest.mark.parametrize(
    ("name", "model", "step", "tokens"),
    [
        ("org/m,revision=step5000", "org/m", 5000, None),
        ("org/m,revision=step5000-tokens20B", "org/m", 5000, 20e9),
        ("org/m,revision=stage1-step5000-tokens21B", "org/m,revision=stage1", 5000, 21e9),
        ("org/m,subfolder=ckpt_005", "org/m", 5, None),
        ("org/m,revision=global_step1000", "org/m", 1000, None),
        ("m,peft=lora/checkpoint-100", "m,peft=lora", 100, None),
        ("runs/x_step60900-hf", "runs/x-hf", 60900, None),
        ("m@step5", "m@", 5, None),
        # not literal steps: the user writes them
        ("org/m,revision=step-480k-1T", "org/m,revision=step-480k-1T", None, None),
        ("org/m,revision=240b_tokens", "org/m,revision=240b_tokens", None, None),
        ("org/Step-3.5-Flash", "org/Step-3.5-Flash", None, None),
        ("org/step-3.5", "org/step-3.5", None, None),
        ("org/m,revision=main", "org/m", None, None),
    ],
)
def test_a_literal_step_is_filled_in(name, model, step, tokens):
    found = stated(name)
    assert (found.model, found.step, found.tokens) == (model, step, tokens)


def test_what_the_user_writes_into_the_table_of_checkpoints_counts(tmp_path):
    for number, (revision, size) in enumerate((("240b_tokens", 7), ("main", -1))):
        config = {
            "model_args": f"pretrained=org/m,revision={revision},dtype=float16",
            "model_num_parameters": size,
        }
        written(tmp_path / "a", "org/m", {"acc,none": number / 4}, config=config)
    out = tmp_path / "x.csv"
    assert collect(tmp_path / "a", "--out", out).exit_code == 0
    assert [row["full_id"] for row in read_scores(out).to_pylist()] == [
        "org/m",
        "org/m,revision=240b_tokens",
    ]
    names = tmp_path / "x.names.csv"
    assert names.read_text().splitlines() == [
        "name,model,step,tokens,parameters,size,architecture,recipe",
        '"org/m,dtype=float16,revision=240b_tokens","org/m,revision=240b_tokens",,,7,,,',
        '"org/m,dtype=float16,revision=main",org/m,,,,,,',
    ]
    mine = (
        "name,model,step,tokens,parameters,size,architecture,recipe\n"
        '"org/m,dtype=float16,revision=240b_tokens",m,8,240000000000.0,7,1b,dense,web\n'
        '"org/m,dtype=float16,revision=main",m,9,280000000000.0,7,1b,dense,web\n'
    )
    names.write_text(mine)
    config = {"model_args": "pretrained=n,dtype=float16"}
    written(tmp_path / "a", "n", {"acc,none": 1.0}, config=config)
    assert collect(tmp_path / "a", "--out", out).exit_code == 0
    fields = ("full_id", "step", "tokens", "parameters", "recipe", "score")
    found = [tuple(row[name] for name in fields) for row in read_scores(out).to_pylist()]
    assert found == [
        ("m", 8, 240e9, 7, "web", 0.0),
        ("m", 9, 280e9, 7, "web", 0.25),
        ("n", None, None, None, None, 1),
    ]
    assert names.read_text() == mine + '"n,dtype=float16",n,,,,,,\n'
    names.write_text(mine.replace("m,9,280", "m,8,240"))
    assert collect(tmp_path / "a", "--out", out).exit_code == 0
    with pytest.raises(TokenmartError) as caught:
        read_scores(out)
    assert caught.value.code == "repeated"
    names.write_text(mine.replace("m,9,280", "m,nine,280"))
    with pytest.raises(TokenmartError) as caught:
        checkpoints(names, {"n": None})
    assert caught.value.where == f"{names}: row 2: step"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"acc": 1}', "no-results"),
        ('{"results": {"t": {}}, "config": {}}', "no-model"),
        ('{"results": {"t": 3}, "config": {}, "model_name": "m"}', "no-results"),
        ('{"results": {"t": {"acc,none": 1}}, "config": {}, "model_name": "m", "date": "x"}',
         "no-results"),
        ('{"results": {"t": {"acc,none": NaN}}, "config": {}, "model_name": "m"}', "no-score"),
    ],
)  # fmt: skip
def test_other_files_are_refused(tmp_path, text, code):
    path = tmp_path / "results_x.json"
    path.write_text(text)
    assert refused(path) == (code, str(path))
    (tmp_path / "empty").mkdir()
    assert refused(tmp_path / "empty") == ("no-results", str(tmp_path / "empty"))
    samples = tmp_path / "samples_qa_2026-01-01.jsonl"
    samples.write_text("{}\n")
    assert refused(samples) == ("no-results", str(samples))


def test_the_latest_counts_and_a_part_of_the_items_never_does(tmp_path):
    part = {"model_args": {"pretrained": "m"}, "limit": 9.0}
    whole = written(tmp_path, "m", {"acc,none": 0.5})
    some = written(tmp_path, "m", {"acc,none": 0.75}, date=2.0, config=part)
    assert [row["score"] for row in rows(whole, some)] == [0.5]
    assert len(read_results([whole, some])[1]) == 2  # the limit, and what is replaced
    later = written(tmp_path, "m", {"acc,none": 0.25}, date=3.0)
    assert [row["score"] for row in rows(tmp_path)] == [0.25]
    same = written(tmp_path, "m", {"acc,none": 0.25}, date=3.0)
    assert [row["score"] for row in rows(later, same)] == [0.25]
    other = written(tmp_path, "m", {"acc,none": 0.3}, date=3.0)
    assert refused(later, other) == ("two-results", str(later))
    fewer = written(tmp_path, "m", {"acc,none": 0.3}, date=4.0, config={**part, "limit": 2})
    assert refused(some, fewer) == ("two-results", str(some))
    assert [row["score"] for row in rows(some, fewer, same)] == [0.25]


def test_versions_and_commits_of_one_name_are_not_mixed(tmp_path):
    one = written(tmp_path, "m", {"acc,none": 0.5}, versions={"arc_easy": 1})
    later = written(tmp_path, "m/step9", {"acc,none": 0.25}, versions={"arc_easy": 2})
    (note,) = read_results([one, later])[1]
    assert "versions 1, 2" in note
    files = [
        written(tmp_path / "w", "m", {f"{metric},none": 0.5}, date=date,
                config={"model_args": {"pretrained": "m"}, "model_sha": sha})
        for date, (metric, sha) in enumerate((("acc", "a" * 40), ("f1", "b" * 40), ("em", None)))
    ]  # fmt: skip
    assert refused(*files[:2]) == ("other-weights", str(files[0]))
    assert len(rows(files[0], files[2])) == 2


@pytest.mark.parametrize(
    "setting", [{"model": "vllm"}, {"gen_kwargs": "temperature=1"}, {"fewshot_seed": 7}]
)
def test_backends_and_seeds_are_runs(tmp_path, setting):
    config = {"model": "hf", "model_args": {"pretrained": "m"}, "fewshot_seed": 1234}
    one = written(tmp_path, "m", {"acc,none": 0.5}, config=config)
    other = written(tmp_path, "m", {"acc,none": 0.25}, config={**config, **setting}, date=2.0)
    assert {row["score"]: row["model"] == "m" for row in rows(one, other)} == {
        0.5: True,
        0.25: False,
    }


def test_results_in_a_chat_are_of_another_benchmark(tmp_path):
    plain = written(tmp_path, "m", {"acc,none": 0.5})
    chat = written(tmp_path, "m", {"acc,none": 0.25}, date=2.0, chat_template_sha="ab" * 32)
    found = {row["benchmark"]: row["score"] for row in rows(plain, chat)}
    assert found.pop("arc_easy-0shot") == 0.5
    assert len(found) == 1 and str(next(iter(found))).startswith("arc_easy-0shot-chat")


def test_directions_are_those_of_the_files(tmp_path):
    old = written(tmp_path, "m", {"acc,none": 1.5, "ter,none": 1.5}, higher_is_better={})
    new = written(tmp_path, "n", {"acc,none": 1.5}, higher_is_better={"arc_easy": {"acc": False}})
    found = {(row["model"], row["metric"]): row["direction"] for row in rows(old, new)}
    assert found == {("m", "acc"): "lower", ("n", "acc"): "lower", ("m", "ter"): None}
    done = collect(new, "--out", tmp_path / "y.csv", "--metric", "accc")
    assert done.exit_code == 1 and not (tmp_path / "y.csv").exists()
    both = written(tmp_path, "o", {"acc,none": 1.5})
    assert collect(new, both, "--out", tmp_path / "z.csv").exit_code == 0
    with pytest.raises(TokenmartError) as caught:
        read_scores(tmp_path / "z.csv")
    assert caught.value.code == "contradiction"


def test_directions_are_the_harness_s_own():
    pytest.importorskip("lm_eval.api.metrics")
    from lm_eval.api.registry import is_higher_better

    for name in (
        "acc", "acc_norm", "acc_mutual_info", "acc_bytes", "exact_match", "perplexity",
        "likelihood", "word_perplexity", "byte_perplexity", "bits_per_byte", "mcc", "f1", "bleu",
        "chrf", "ter", "brier_score",
    ):  # fmt: skip
        assert (direction_of(name) == "higher") is bool(is_higher_better(name)), name


def test_what_is_no_finite_number_or_no_metric_is_left_out_and_named(tmp_path):
    """Other programs write into this form without answer filters."""
    values = {"acc,none": 0.5, "perplexity,none": float("inf"), "bleu,none": "N/A", "mean": 0.25}
    path = written(tmp_path, "m", values)
    path = path.rename(path.with_name("out_2026-01-02T03-04-05.678901.json"))
    (tmp_path / "samples.json").write_text("[]")
    scores, (note,) = read_results([tmp_path])
    assert [score.metric for score in scores] == ["acc"]
    assert all(f"{name} of arc_easy" in note for name in ("perplexity,none", "bleu,none", "mean"))
