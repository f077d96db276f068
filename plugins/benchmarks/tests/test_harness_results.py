"""Result files of lm-evaluation-harness become a plain table that a table problem reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from plugins.benchmarks.scores.harness_results import read_results
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


def test_a_folder_of_checkpoints_becomes_a_table(tmp_path: Path) -> None:
    values = {"acc,none": 0.5, "acc_stderr,none": 0.1, "exact_match,strict-match": 1}
    losses = {"perplexity,none": 8.5, "perplexity_stderr,none": "N/A"}
    results = tmp_path / "results"
    written(results / "a", "runs/a/checkpoint-500", values)
    for name, place in (("subfolder", "iter_0002000"), ("revision", "step1000")):
        config = {"model_args": f"pretrained=org/b,{name}={place}", "limit": None}
        written(results / "b", "org/b", losses, config=config)
    out = tmp_path / "scores.csv"
    done = CliRunner().invoke(cli, ["e2lm", "collect", str(results), "--out", str(out)])
    assert done.exit_code == 0 and "4 scores of 2 models" in done.output, done.output
    names = ("full_id", "step", "benchmark", "metric", "direction", "score", "stderr")
    found = [tuple(row[name] for name in names) for row in read_scores(out).to_pylist()]
    task = "arc_easy-0shot"
    assert found == [
        ("runs/a", 500, task, "acc", "higher", 0.5, 0.1),
        ("runs/a", 500, task, "exact_match,strict-match", "higher", 1.0, None),
        ("org/b", 1000, task, "perplexity", "lower", 8.5, None),
        ("org/b", 2000, task, "perplexity", "lower", 8.5, None),
    ]


def test_the_latest_counts_and_a_part_is_told(tmp_path: Path) -> None:
    config = {"model_args": {"pretrained": "m"}, "limit": 5.0}
    late = written(tmp_path, "m", {"acc,none": 0.7}, date=2.0)
    early = written(tmp_path, "m", {"acc,none": 0.3}, config=config)
    found = read_results([late, tmp_path])
    assert [(row["model"], row["step"], row["score"]) for row in found.rows] == [("m", None, 0.7)]
    assert found.notes == (
        f"{early}: run with --limit 5, on a part of the items",
        f"{early}: a later file has results of the same checkpoint",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ('{"acc": 1}', "no result file of lm-evaluation-harness"),
        ('{"results": {"t": {}}, "config": {}}', "neither model_name nor config.model_args names"),
        ('{"results": {"t": 3}, "config": {}, "model_name": "m"}', "not what it should be"),
        (
            '{"results": {"t": {"acc,none": 1}}, "config": {}, "model_name": "m", "date": "x"}',
            "not what it should be",
        ),
        ("[" * 100_000, "nested too deeply"),
        ('{"results": {"t": {"\\udc00": 1}}}', "half of a surrogate pair"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "results_x.json"
    path.write_text(text)
    with pytest.raises(TokenmartError, match=message) as caught:
        read_results([tmp_path])
    assert caught.value.format_message().startswith(f"{path}: ")
    with pytest.raises(TokenmartError, match=r"no results_\*\.json in it"):
        read_results([(tmp_path / "empty").mkdir() or tmp_path / "empty"])


def test_a_sample_file_is_refused_with_the_command_that_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "samples_qa_2026-01-01.jsonl"
    path.write_text("{}\n{}\n")
    with pytest.raises(TokenmartError, match=r"is a sample file .* --format samples` reads it"):
        read_results([path])


def test_what_is_no_finite_number_is_named(tmp_path: Path) -> None:
    """An infinite perplexity of one checkpoint doesn't stop the others."""
    values = {"acc,none": 0.5, "perplexity,none": float("inf"), "bleu,none": "N/A"}
    path = written(tmp_path / "a", "m", values)
    found = read_results([path])
    assert [row["metric"] for row in found.rows] == ["acc"]
    assert found.notes == (
        f"{path}: arc_easy: perplexity,none is inf; left out of the table",
        f"{path}: arc_easy: bleu,none is 'N/A', no number; left out",
    )
    alone = written(tmp_path / "b", "m", {"acc,none": float("nan")})
    with pytest.raises(TokenmartError, match=r"no score in it; .*: acc,none is nan"):
        read_results([alone])


def of_revisions(folder: Path, *revisions: str, name: str = "org/m", **more: str) -> list[Path]:
    """A file for each revision, with its place in the list as the score."""
    paths = []
    for number, revision in enumerate(revisions):
        arguments = {"pretrained": name, "revision": revision, **more}
        config = {"model_args": ",".join("=".join(pair) for pair in arguments.items())}
        values = {"acc,none": number / 10}
        paths.append(written(folder, name, values, config=config, date=float(number)))
    return paths


@pytest.mark.parametrize(
    ("revisions", "points"),
    [
        (["step5000-tokens20B", "step10000-tokens41B"], [(5000, 20e9), (10000, 41e9)]),
        (
            ["stage1-step5000-tokens21B", "stage1-step15000-tokens63B"],
            [(5000, 21e9), (15000, 63e9)],
        ),
        (["ckpt_005", "ckpt_010"], [(5, None), (10, None)]),
        (["global_step1000", "global_step2000"], [(1000, None), (2000, None)]),
        (["step1250-seed-default", "step2500-seed-default"], [(1250, None), (2500, None)]),
        (["step-480k-1T", "step-955k-2T"], [(480_000, 1e12), (955_000, 2e12)]),
        (["240b_tokens", "280b_tokens"], [(None, 240e9), (None, 280e9)]),
        (["iter_0002000", "iter_0004000-hf"], [(2000, None), (4000, None)]),
    ],
)
def test_revisions_in_use_are_read(
    tmp_path: Path, revisions: list[str], points: list[tuple[int | None, float | None]]
) -> None:
    found = read_results(of_revisions(tmp_path, *revisions))
    rest = {row["model"] for row in found.rows}
    assert sorted((row["step"], row["tokens"]) for row in found.rows) == points
    assert len(rest) == 1 or revisions[1].endswith("-hf"), rest


@pytest.mark.parametrize(
    "name", ["runs/x_step60900-hf", "a/x-intermediate-step-60900", "runs/x/checkpoint-60900/"]
)
def test_a_step_in_the_name_of_the_model(tmp_path: Path, name: str) -> None:
    (row,) = read_results([written(tmp_path, name, {"acc,none": 0.5})]).rows
    assert row["step"] == 60900 and "60900" not in str(row["model"])


def test_a_version_is_no_step(tmp_path: Path) -> None:
    (row,) = read_results([written(tmp_path, "org/Step-3.5-Flash", {"acc,none": 0.5})]).rows
    assert (row["model"], row["step"]) == ("org/Step-3.5-Flash", None)


def test_stages_are_runs_of_their_own(tmp_path: Path) -> None:
    files = of_revisions(tmp_path, "stage1-step1000", "stage2-step1000", "stage2-step2000")
    found = read_results(files)
    assert [(row["model"], row["step"]) for row in found.rows] == [
        ("org/m@stage1", 1000),
        ("org/m@stage2", 1000),
        ("org/m@stage2", 2000),
    ]
    assert found.notes == (
        "org/m: its files are of 2 runs, named org/m@stage1, org/m@stage2 in the table",
    )


def test_other_arguments_at_one_step_are_another_run(tmp_path: Path) -> None:
    files = of_revisions(tmp_path, "step1", dtype="float32")
    files += of_revisions(tmp_path, "step1", dtype="float16")
    rows = read_results(files).rows
    assert [row["model"] for row in rows] == ["org/m[dtype=float16]", "org/m[dtype=float32]"]
    same = of_revisions(tmp_path, "step1", "step01")
    with pytest.raises(TokenmartError, match="two checkpoints of org/m at one step"):
        read_results(same)


def test_equal_dates_do_not_tell_the_later(tmp_path: Path) -> None:
    one, other = (written(tmp_path, "m", {"acc,none": 0.5}) for _ in range(2))
    assert read_results([one, other]).notes == (f"{one}: has the same results as {other}",)
    third = written(tmp_path, "m", {"acc,none": 0.75})
    with pytest.raises(TokenmartError, match=r"\(0.5 and 0.75\), and no date shows which is later"):
        read_results([one, third])


def of_weights(folder: Path, sha: str | None, date: float, **values: float) -> Path:
    config = {"model_args": {"pretrained": "m"}, "limit": None, "model_sha": sha}
    found = {f"{name},none": value for name, value in values.items()}
    return written(folder, "m", found, config=config, date=date)


def test_a_replaced_score_is_shown_beside_the_later_one(tmp_path: Path) -> None:
    early = of_weights(tmp_path, "a" * 40, 1.0, acc=0.25, exact_match=0.5)
    late = of_weights(tmp_path, "a" * 40, 2.0, acc=0.75, exact_match=0.5)
    assert read_results([early, late]).notes == (
        f"{early}: a later file has results of the same checkpoint (acc of arc_easy-0shot is 0.25 "
        f"here and 0.75 in {late})",
    )


def test_two_commits_of_weights_are_never_one_checkpoint(tmp_path: Path) -> None:
    one, other = (
        of_weights(tmp_path, sha * 40, date, acc=date) for sha, date in (("a", 1), ("b", 2))
    )
    with pytest.raises(TokenmartError) as caught:
        read_results([one, other])
    assert caught.value.format_message() == (
        f"{one} and {other}: two checkpoints with one name, m (model_sha {'a' * 40} and model_sha "
        f"{'b' * 40}; acc of arc_easy-0shot is 1 and 2); leave one out, or name the revision in "
        "model_args of each file (pretrained=…,revision=…)"
    )
    another = of_weights(tmp_path, "b" * 40, 3.0, exact_match=0.5)
    with pytest.raises(TokenmartError, match="is 1 in the one, exact_match of arc_easy"):
        read_results([one, another])
    content = json.loads(another.read_text())
    content["config"]["model_args"]["dtype"] = "bfloat16"
    another.write_text(json.dumps(content))
    with pytest.raises(TokenmartError, match="two checkpoints with one name"):
        read_results([one, another])
    for unknown in ("", None):
        folder = tmp_path / str(unknown)
        files = [
            of_weights(folder, "a" * 40, 1.0, acc=0.25),
            of_weights(folder, unknown, 2.0, acc=0.5),
        ]
        assert [row["score"] for row in read_results(files).rows] == [0.5]


def test_a_checkpoint_without_a_step_is_named(tmp_path: Path) -> None:
    first, last = of_revisions(tmp_path, "step1000", "main")
    found = read_results([first, last])
    assert [row["step"] for row in found.rows] == [None, 1000]
    assert [note for note in found.notes if str(last) in note and "no training step" in note]


def test_results_of_before_0_4(tmp_path: Path) -> None:
    """No filters, no name of the model, worked examples of all tasks in one place."""
    old = {
        "results": {"arc_easy": {"acc": 0.25, "acc_stderr": 0.01}, "lambada": {"ppl": 1500.5}},
        "versions": {"arc_easy": 0},
        "config": {
            "model": "hf-causal",
            "model_args": "use_accelerate=True,pretrained=org/m,revision=step8",
            "num_fewshot": 3, "limit": None,
        },
    }  # fmt: skip
    path = tmp_path / "results_x.json"
    path.write_text("\ufeff" + json.dumps(old), "utf-8")
    assert [tuple(row.values()) for row in read_results([path]).rows] == [
        ("org/m", 8, None, "arc_easy-3shot", "acc", "higher", 0.25, 0.01, None),
        ("org/m", 8, None, "lambada-3shot", "ppl", "lower", 1500.5, None, None),
    ]


def test_directions_before_0_4_3_come_from_the_metric(tmp_path: Path) -> None:
    names = ("acc", "perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte", "ter")
    values = {f"{name},none": 1.5 for name in names}
    path = written(tmp_path, "m", values, higher_is_better={})
    found = {row["metric"]: row["direction"] for row in read_results([path]).rows}
    assert found == {name: "higher" if name == "acc" else "lower" for name in names}


def test_an_unknown_direction_is_asked_for(tmp_path: Path) -> None:
    path = written(tmp_path, "m", {"judge_points,none": 4.0})
    out = tmp_path / "x.csv"
    command = ["e2lm", "collect", str(path), "--out", str(out)]
    done = CliRunner().invoke(cli, command)
    assert done.exit_code == 1 and "give --direction judge_points=higher or" in done.output
    assert not out.exists()
    done = CliRunner().invoke(cli, [*command, "--direction", "judge_points=lower"])
    assert done.exit_code == 0 and read_scores(out)["direction"].to_pylist() == ["lower"]


def test_directions_are_the_harness_s_own() -> None:
    pytest.importorskip("lm_eval.api.metrics")
    from lm_eval.api.registry import is_higher_better

    for name in (
        "acc", "acc_norm", "acc_mutual_info", "acc_bytes", "exact_match", "perplexity",
        "likelihood", "word_perplexity", "byte_perplexity", "bits_per_byte", "mcc", "f1", "bleu",
        "chrf", "ter", "brier_score",
    ):  # fmt: skip
        assert (direction_of(name) == "higher") is bool(is_higher_better(name)), name


def scores(*files: Path) -> dict[tuple[Any, ...], Any]:
    return {(r["model"], r["step"], r["benchmark"]): r["score"] for r in read_results(files).rows}


def test_results_in_a_chat_are_of_another_benchmark(tmp_path: Path) -> None:
    plain = written(tmp_path, "m", {"acc,none": 0.5})
    chat = written(tmp_path, "m", {"acc,none": 0.25}, date=2.0, chat_template_sha="ab" * 32)
    found = scores(plain, chat)
    assert found["m", None, "arc_easy-0shot"] == 0.5 and len(found) == 2
    assert [key[2] for key in found if "-0shot-chat" in key[2]]


@pytest.mark.parametrize("whole_first", [True, False])
def test_a_part_of_the_items_never_replaces_all(tmp_path: Path, whole_first: bool) -> None:
    part = {"model": "hf", "model_args": {"pretrained": "m"}, "limit": 9.0}
    whole = written(tmp_path, "m", {"acc,none": 0.5}, date=1.0 if whole_first else 3.0)
    some = written(tmp_path, "m", {"acc,none": 0.75}, date=2.0, config=part)
    found = read_results([whole, some])
    assert [row["score"] for row in found.rows] == [0.5]
    assert f"{some}: run with --limit 9, on a part of the items" in found.notes
    fewer = written(tmp_path, "m", {"acc,none": 0.25}, config={**part, "limit": 2})
    with pytest.raises(TokenmartError, match="with --limit 9 and 2; leave one out"):
        read_results([some, fewer])


def test_versions_of_a_task_are_not_one(tmp_path: Path) -> None:
    one = written(tmp_path, "m", {"acc,none": 0.5}, versions={"arc_easy": 1})
    other = written(tmp_path, "m", {"acc,none": 0.25}, versions={"arc_easy": 2}, date=2.0)
    with pytest.raises(TokenmartError, match="of versions 1 and 2 of the task; leave one out"):
        read_results([one, other])
    later = written(tmp_path, "m/step9", {"acc,none": 0.25}, versions={"arc_easy": 2})
    first = written(tmp_path, "m/step8", {"acc,none": 0.25}, versions={"arc_easy": 1})
    (note,) = read_results([first, later]).notes
    assert note == "m: its results differ in version of arc_easy-0shot (1, 2)"


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        ({"model": "vllm"}, "m[backend=vllm]"),
        ({"gen_kwargs": "temperature=1"}, "m[gen_kwargs=temperature=1]"),
        ({"fewshot_seed": 7}, "m[fewshot_seed=7]"),
    ],
)
def test_backends_and_seeds_are_runs(tmp_path: Path, setting: dict[str, Any], name: str) -> None:
    config = {"model": "hf", "model_args": {"pretrained": "m"}, "fewshot_seed": 1234}
    one = written(tmp_path, "m", {"acc,none": 0.5}, config=config)
    other = written(tmp_path, "m", {"acc,none": 0.25}, config={**config, **setting}, date=2.0)
    assert {key[0]: value for key, value in scores(one, other).items()} == {"m": 0.5, name: 0.25}


def test_what_is_behind_a_step_and_does_not_grow_is_no_count_of_tokens(tmp_path: Path) -> None:
    files = [written(tmp_path, f"org/m-step{step}-1b", {"acc,none": 0.5}) for step in (100, 200)]
    found = read_results(files)
    assert [(row["step"], row["tokens"]) for row in found.rows] == [(100, None), (200, None)]
    assert "(1e+09 at step 100, 1e+09 at step 200) doesn't grow" in found.notes[0]


@pytest.mark.parametrize("name", ["org/Step-2-mini", "org/checkpoint1-7b-chat"])
def test_a_name_that_begins_like_a_step_is_a_name(tmp_path: Path, name: str) -> None:
    (row,) = read_results([written(tmp_path, name, {"acc,none": 0.5})]).rows
    assert (row["model"], row["step"], row["tokens"]) == (name, None, None)


def test_a_name_that_is_only_a_step_is_said(tmp_path: Path) -> None:
    found = read_results([written(tmp_path, "org/step3", {"acc,none": 0.5})])
    assert found.notes == (
        "org/step3: read as step 3 of org; if it is the name of a model, correct the table",
    )


def test_steps_of_adapters_and_names_with_an_at_are_read(tmp_path: Path) -> None:
    files = []
    for step in (100, 200):
        arguments = {"pretrained": "m", "peft": f"lora/checkpoint-{step}"}
        config = {"model_args": arguments, "limit": None}
        files.append(written(tmp_path, "m", {"acc,none": 0.5}, config=config))
    assert [row["step"] for row in read_results(files).rows] == [100, 200]
    (row,) = read_results([written(tmp_path, "m@step5", {"acc,none": 0.5})]).rows
    assert (row["model"], row["step"]) == ("m", 5)


def test_files_named_by_output_path_are_found(tmp_path: Path) -> None:
    path = written(tmp_path / "a", "m", {"acc,none": 0.5})
    path.rename(path.with_name("out_2026-01-02T03-04-05.678901.json"))
    (path.with_name("samples.json")).write_text("[]")
    assert [row["score"] for row in read_results([tmp_path]).rows] == [0.5]


def test_numbers_that_are_no_metric_are_named(tmp_path: Path) -> None:
    """Other programs write into this form without answer filters."""
    path = written(tmp_path, "m", {"acc,none": 0.5, "accuracy_avg": 0.25, "samples": 9})
    (note,) = read_results([path]).notes
    assert note.startswith(f"{path}: arc_easy: accuracy_avg: no metric of the harness")


def test_a_direction_that_the_name_contradicts_is_asked_for(tmp_path: Path) -> None:
    path = written(tmp_path, "m", {"ter,none": 80.0}, higher_is_better={"arc_easy": {"ter": True}})
    with pytest.raises(TokenmartError, match="give --direction ter=lower, or =higher if the file"):
        read_results([path])
    assert [row["direction"] for row in read_results([path], {"ter": "lower"}).rows] == ["lower"]


def test_a_list_of_few_shot_examples_names_none(tmp_path: Path) -> None:
    old = {
        "results": {"qa": {"acc": 0.25}},
        "config": {"model_args": "pretrained=m", "num_fewshot": [2, 3]},
    }
    path = tmp_path / "results_x.json"
    path.write_text(json.dumps(old))
    found = read_results([path])
    assert [row["benchmark"] for row in found.rows] == ["qa"]
    assert "num_fewshot is [2, 3], which doesn't show those of this task" in found.notes[0]


def test_one_metric_is_collected_with_the_number_of_parameters(tmp_path: Path) -> None:
    for step in (1, 2):
        config = {"model_args": {"pretrained": f"m/step{step}"}, "model_num_parameters": 7}
        written(tmp_path / "a", f"m/step{step}", {"acc,none": 0.5, "f1,none": 1.0}, config=config)
    config = {"model_args": {"pretrained": "n"}, "model_num_parameters": -1}
    written(tmp_path / "a", "n", {"acc,none": 0.5}, config=config)
    out = tmp_path / "x.csv"
    words = ["e2lm", "collect", str(tmp_path / "a"), "--out", str(out), "--metric"]
    done = CliRunner().invoke(cli, [*words, "acc"])
    assert done.exit_code == 0, done.output
    found = [(row["full_id"], row["parameters"]) for row in read_scores(out).to_pylist()]
    assert found == [("m", 7), ("m", 7), ("n", None)]
    done = CliRunner().invoke(cli, [*words, "accc", "--force"])
    assert done.exit_code == 1 and "--metric accc: no such metric; did you mean" in done.output


def test_a_direction_of_no_metric_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "m", {"acc,none": 0.5})
    out = tmp_path / "x.csv"
    words = ["e2lm", "collect", str(path), "--out", str(out), "--direction", "accc=lower"]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 1 and "--direction accc: no such metric; did you mean" in done.output
    assert not out.exists()
