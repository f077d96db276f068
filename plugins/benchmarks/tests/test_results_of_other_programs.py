"""Items of OLMES, lighteval and Every Eval Ever: equal to the aggregates in the same folder."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from warehouse.errors import TokenmartError
from warehouse.importers.importer import Destination, importer
from warehouse.paths import Workspace

RIGHT = [1, 0, 1, 1, 0]
TIME = "2025-03-04T10-11-12.123456"


def read(kind: str, path: Path, metric: str | None = None) -> list[dict[str, Any]]:
    return [row.fields for row in importer(kind, metric).read(path)]


def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def olmes(folder: Path, own: float = 0.6) -> Path:
    """Predictions and metrics of one task, as oe-eval names them."""
    metrics = {
        "task_name": "arc_easy:rc",
        "num_instances": 5,
        "task_config": {"primary_metric": "acc_per_char"},
        "metrics": {"acc_raw": 0.2, "acc_per_char": own, "primary_score": own},
    }
    (folder / "task-003-arc_easy-metrics.json").write_text(json.dumps(metrics))
    rows = [
        {
            "doc_id": number,
            "native_id": f"Mercury_{number}",
            "metrics": {
                "predicted_index_raw": 1, "acc_raw": int(number == 2), "acc_per_char": right,
                "bits_per_byte_corr": 0.5 + number,
            },
            "model_output": [{"sum_logits": -3.5, "num_tokens": 2, "is_greedy": False}],
            "label": 1,
        }
        for number, right in enumerate(RIGHT)
    ]  # fmt: skip
    return lines(folder / "task-003-arc_easy-predictions.jsonl", rows)


def olmo_eval(folder: Path, own: float = 0.6, items: int = 5) -> Path:
    """Predictions of one task and the metrics of all tasks, as olmo-eval lays them out."""
    tasks = [
        {
            "task": task,
            "metrics": {"accuracy": {"logprob": own}, "bits_per_byte": {"bits_per_byte": 2.5}},
            "num_instances": items,
            "primary_metric": "accuracy:logprob",
            "task_hash": "0123456789abcdef",
        }
        for task in ("arc_easy:mc", "arc_easy:bpb")
    ]
    (folder / "metrics.json").write_text(json.dumps({"config": {}, "tasks": tasks}))
    rows = [
        {
            "doc_id": number,
            "native_id": f"doc_{number}",
            "model_output": [{"text": " a", "sum_logits": -3.5, "num_tokens": 2}],
            "instance_metrics": {
                "logprob": {"logprob": -3.5},
                "accuracy": {"logprob": float(right)},
                "bits_per_byte": {"bits_per_byte": 0.5 + number},
            },
            "label": 1,
        }
        for number, right in enumerate(RIGHT)
    ]
    return lines(folder / "predictions" / "my_model" / "arc_easy_mc_abcdef-predictions.jsonl", rows)


def lighteval(folder: Path, own: float = 0.6, text: bool = False) -> Path:
    """Details and results as lighteval lays them out; older versions wrote objects as text."""
    model = folder / "out" / "results" / "org" / "model"
    model.mkdir(parents=True, exist_ok=True)
    results = {"results": {"leaderboard|arc|25": {"acc": own, "acc_stderr": 0.2}}}
    (model / f"results_{TIME}.json").write_text(json.dumps(results))
    details = folder / "out" / "details" / "org" / "model" / TIME
    details.mkdir(parents=True, exist_ok=True)
    values = [{"acc": right, "acc_norm": 1 - right} for right in RIGHT]
    rows = [
        {
            "doc": {"query": f"Question {number}", "choices": ["a", "b"], "gold_index": 0},
            "metrics" if text else "metric": json.dumps(value) if text else value,
            "model_response": {"logprobs": [-1.0, -2.0]},
        }
        for number, value in enumerate(values)
    ]
    path = details / f"details_leaderboard|arc|25_{TIME}.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def every_eval_ever(folder: Path, own: float = 0.6, lower: bool = False) -> Path:
    """Instance-level lines and their aggregate; `f1` scores the same items another way."""
    results = [
        {
            "evaluation_result_id": name,
            "evaluation_name": "qa",
            "metric_config": {"lower_is_better": lower},
            "score_details": {"score": score},
        }
        for name, score in (("qa/acc", own), ("qa/f1", 0.5))
    ]
    (folder / "one.json").write_text(json.dumps({"evaluation_results": results}))
    rows = [
        {
            "schema_version": "0.3.0",
            "evaluation_id": "e",
            "model_id": "org/model",
            "evaluation_name": "qa",
            "evaluation_result_id": name,
            "sample_id": f"qa_{number:04d}",
            "interaction_type": "single_turn",
            "input": {"raw": "Which?", "reference": ["this"]},
            "output": {"raw": ["that"]},
            "answer_attribution": [],
            "evaluation": {"score": score, "is_correct": score == 1},
        }
        for number, right in reversed(list(enumerate(RIGHT)))
        for name, score in (("qa/acc", float(right)), ("qa/f1", 0.5))
    ]
    return lines(folder / "one_samples.jsonl", rows)


def found(rows: list[dict[str, Any]]) -> tuple[set[str], list[tuple[int, float]]]:
    return {row["task"] for row in rows}, [(row["item"], row["score"]) for row in rows]


def test_the_primary_metric_of_olmes_is_taken(tmp_path: Path) -> None:
    path = olmes(tmp_path)
    assert found(read("olmes", path)) == ({"arc_easy:rc"}, list(enumerate(map(float, RIGHT))))
    assert [row["score"] for row in read("olmes", path, "acc_raw")] == [0, 0, 1, 0, 0]
    assert sum(row["score"] for row in read("olmes", path, "bits_per_byte_corr")) == 12.5
    (tmp_path / "task-003-arc_easy-metrics.json").unlink()
    with pytest.raises(TokenmartError, match="4 metrics; use --metric with one of: acc_per_"):
        read("olmes", path)
    assert found(read("olmes", path, "acc_per_char"))[0] == {"arc_easy"}


def test_other_numbers_of_olmes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Extra metrics are compared; values without an aggregate are offered only where none has one.

    Where lower values are better by the metric's name, it is imported as no target.
    """
    path = olmes(tmp_path)
    beside = tmp_path / "task-003-arc_easy-metrics.json"
    content = json.loads(beside.read_text())
    content["metrics"]["extra_metrics"] = {"acc_raw": content["metrics"].pop("acc_raw")}
    content["task_config"] = {"primary_metric": None}
    beside.write_text(json.dumps(content))
    with pytest.raises(TokenmartError, match=r"with one of: acc_per_char, acc_raw$"):
        read("olmes", path)
    assert len(read("olmes", path, "acc_raw")) == 5 and capsys.readouterr().err == ""
    assert len(read("olmes", path, "bits_per_byte_corr")) == 5
    (compared,) = capsys.readouterr().err.splitlines()
    assert compared.endswith("has no value of bits_per_byte_corr")
    (measure,) = importer("olmes", "bits_per_byte_corr").measures(path).values()
    assert measure.lower_is_better
    content["metrics"]["extra_metrics"]["acc_raw"] = 0.4
    beside.write_text(json.dumps(content))
    with pytest.raises(TokenmartError, match=r"acc_raw over 5 items is 0\.2, and .*json has 0\.4"):
        read("olmes", path, "acc_raw")
    beside.write_text(json.dumps({**content, "num_instances": 6}))
    with pytest.raises(TokenmartError, match=r"contains 5 items, and .*json has 6"):
        read("olmes", path, "acc_per_char")


def test_predictions_of_olmo_eval(tmp_path: Path) -> None:
    path = olmo_eval(tmp_path)
    right = {"arc_easy:mc"}, list(enumerate(map(float, RIGHT)))
    assert found(read("olmes", path)) == right == found(read("olmes", path, "accuracy:logprob"))
    assert sum(row["score"] for row in read("olmes", path, "bits_per_byte:bits_per_byte")) == 12.5
    with pytest.raises(TokenmartError, match=r"contains 5 items, and .*json has 7"):
        read("olmes", olmo_eval(tmp_path, items=7))
    content = json.loads((tmp_path / "metrics.json").read_text())
    (task, _) = content["tasks"]
    both = [{**task, "model": name, "num_instances": 5} for name in ("my/model", "other")]
    (tmp_path / "metrics.json").write_text(json.dumps({"tasks": both}))
    assert found(read("olmes", path)) == right
    (tmp_path / "metrics.json").write_text(json.dumps({"tasks": both[1:]}))
    with pytest.raises(TokenmartError, match="has 0 entries of arc_easy_mc_abcdef"):
        read("olmes", path)
    (tmp_path / "metrics.json").unlink()
    with pytest.raises(TokenmartError, match="contains 3 metrics; use --metric with one of: acc"):
        read("olmes", path)


@pytest.mark.parametrize("text", [False, True])
def test_details_of_lighteval(tmp_path: Path, text: bool) -> None:
    path = lighteval(tmp_path, text=text)
    assert found(read("lighteval", path, "acc")) == (
        {"leaderboard|arc|25"},
        list(enumerate(map(float, RIGHT))),
    )
    with pytest.raises(TokenmartError, match="contains 2 metrics; use --metric with one of: acc"):
        read("lighteval", path)


def lighteval_types(folder: Path, own: float = 0.6) -> Path:
    """A task of two request types as 0.8.1 writes it, and a metric of all documents together."""
    model = folder / "results" / "model"
    model.mkdir(parents=True, exist_ok=True)
    config = [
        {"metric_name": "acc", "higher_is_better": True, "corpus_level_fn": "mean"},
        {"metric_name": "length", "higher_is_better": False, "corpus_level_fn": "mean"},
        {
            "metric_name": ["distance", "likeness"],
            "higher_is_better": {"distance": False, "likeness": True},
        },
    ]
    results = {
        "results": {"community|qa|0": {"acc": own, "length": 7.0, "likeness": 0.5, "ppl": 3.2}},
        "config_tasks": {"community|qa": {"metric": config}},
    }
    (model / f"results_{TIME}.json").write_text(json.dumps(results))
    ppl = [{"logprobs": -4.5, "weights": 3} for _ in RIGHT]
    rows = [{"example": "q", "metrics": {"acc": None, "ppl": each}} for each in ppl]
    rows += [
        {
            "example": "q",
            "metrics": {"acc": right, "length": 7.0, "distance": 2, "likeness": 0.5, "ppl": None},
        }
        for right in RIGHT
    ]
    details = folder / "details" / "model" / TIME
    details.mkdir(parents=True, exist_ok=True)
    path = details / f"details_community|qa|0_{TIME}.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def test_a_task_of_lighteval_with_two_request_types(tmp_path: Path) -> None:
    """Each type has rows of its own; the items are numbered within the metric's type."""
    path = lighteval_types(tmp_path)
    assert found(read("lighteval", path, "acc")) == (
        {"community|qa|0"},
        list(enumerate(map(float, RIGHT))),
    )
    assert len(read("lighteval", path, "likeness")) == 5
    with pytest.raises(TokenmartError, match=r"over 5 items is 0\.6, and .*json has 0\.8"):
        read("lighteval", lighteval_types(tmp_path, 0.8), "acc")


def test_metrics_of_lighteval_that_are_no_target_are_refused(tmp_path: Path) -> None:
    path = lighteval_types(tmp_path)
    with pytest.raises(TokenmartError, match="ppl: lighteval computes no value for each document"):
        read("lighteval", path, "ppl")
    for metric in ("length", "distance"):
        with pytest.raises(TokenmartError, match=f"lower is better in {metric}"):
            read("lighteval", path, metric)
    alone = tmp_path / f"details_x|0_{TIME}.parquet"
    pq.write_table(pa.Table.from_pylist([{"metric": {"ppl": {"logprobs": -1.0}}}]), alone)
    with pytest.raises(TokenmartError, match="only one for all of them together; leave it out"):
        read("lighteval", alone)


def test_results_above_the_folder_of_details_are_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As on the hub, and as 0.8.1 writes for a model that is an absolute path."""
    made = lighteval(tmp_path)
    folder = tmp_path / "model" / TIME
    folder.mkdir(parents=True)
    path = made.rename(folder / made.name)
    assert len(read("lighteval", path, "acc")) == 5
    said = capsys.readouterr().err
    assert f"note: {path}: acc was not compared with its aggregate:" in said
    assert f"results_{TIME}.json is not there" in said
    results = {"results": {"leaderboard|arc|25": {"acc": 0.8}}}
    (folder.parent / f"results_{TIME}.json").write_text(json.dumps(results))
    with pytest.raises(TokenmartError, match=r"json has 0\.8"):
        read("lighteval", path, "acc")
    assert len(read("lighteval", path, "acc_norm")) == 5
    assert f"results_{TIME}.json has no value of acc_norm" in capsys.readouterr().err


def test_instances_of_every_eval_ever(tmp_path: Path) -> None:
    path = every_eval_ever(tmp_path)
    task, scores = found(read("every-eval-ever", path, "qa/acc"))
    assert task == {"qa"} and sorted(scores) == list(enumerate(map(float, RIGHT)))
    with pytest.raises(TokenmartError, match="2 metrics; use --metric with one of: qa/acc"):
        read("every-eval-ever", path)
    with pytest.raises(TokenmartError, match="lower is better in qa"):
        read("every-eval-ever", every_eval_ever(tmp_path, lower=True), "qa/acc")


def test_lines_other_than_those_of_the_record_are_refused(tmp_path: Path) -> None:
    path = every_eval_ever(tmp_path)
    beside = tmp_path / "one.json"
    record = json.loads(beside.read_text())
    details = {"format": "jsonl", "hash_algorithm": "sha256", "total_rows": 10}
    details["checksum"] = hashlib.sha256(path.read_bytes()).hexdigest()
    beside.write_text(json.dumps({**record, "detailed_evaluation_results": details}))
    assert len(read("every-eval-ever", path, "qa/acc")) == 5
    path.write_text(path.read_text().replace("Which?", "What?", 1))
    with pytest.raises(TokenmartError, match="its sha256 differs from the checksum in"):
        read("every-eval-ever", path, "qa/acc")
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(TokenmartError, match=r"contains 9 items, and .*one\.json has 10"):
        read("every-eval-ever", path, "qa/acc")


@pytest.mark.parametrize(
    ("names", "items"),
    [
        (["q_007", "q_012", "q_003"], [7, 12, 3]),
        (["12", "0", "7"], [12, 0, 7]),
        (["b1", "a2", "c3"], [1, 0, 2]),
        (["q1", "q01", "q2"], [1, 0, 2]),
        (["beta", "alpha", "gamma"], [1, 0, 2]),
    ],
)
def test_items_of_every_eval_ever_have_their_own_number(
    tmp_path: Path, names: list[str], items: list[int]
) -> None:
    rows = [
        {"evaluation_name": "qa", "sample_id": name, "evaluation": {"score": 1.0}} for name in names
    ]
    path = lines(tmp_path / "two_samples.jsonl", rows)
    assert [row["item"] for row in read("every-eval-ever", path)] == items


@pytest.mark.parametrize(
    ("made", "kind", "metric"),
    [
        (olmes, "olmes", None),
        (olmo_eval, "olmes", None),
        (lighteval, "lighteval", "acc"),
        (every_eval_ever, "every-eval-ever", "qa/acc"),
    ],
)
def test_another_aggregate_is_refused(
    tmp_path: Path, made: Callable[..., Path], kind: str, metric: str | None
) -> None:
    assert len(read(kind, made(tmp_path), metric)) == 5
    with pytest.raises(TokenmartError, match=r"over 5 items is 0\.6, and .*json has 0\.8"):
        read(kind, made(tmp_path, 0.8), metric)


def test_wrong_files_are_named(tmp_path: Path) -> None:
    path = lines(tmp_path / "mine.jsonl", [{"doc_id": 0, "metrics": {"acc": 1}}])
    with pytest.raises(TokenmartError, match="expected a name such as task-000-arc_easy"):
        read("olmes", path)
    path = lines(tmp_path / "a-predictions.jsonl", [{"metrics": {"acc": 1}}])
    with pytest.raises(TokenmartError, match=r"jsonl:1: 'doc_id' is missing"):
        read("olmes", path)
    path = lines(tmp_path / "b-predictions.jsonl", [
        {"doc_id": 0, "metrics": {"acc": 1}}, {"doc_id": 1, "metrics": {"acc": None}}
    ])  # fmt: skip
    with pytest.raises(TokenmartError, match=r"jsonl:2: acc is None, expected a finite number"):
        read("olmes", path)
    path = lines(tmp_path / "x_samples.jsonl", [{"sample_id": "1"}])
    with pytest.raises(TokenmartError, match=r"jsonl:1: 'evaluation_name' is missing"):
        read("every-eval-ever", path)
    path = tmp_path / f"details_qa_{TIME}.parquet"
    pq.write_table(pa.table({"predictions": [1]}), path)
    with pytest.raises(TokenmartError, match="no column 'metric'"):
        read("lighteval", path)


def test_one_file_of_two_models_is_refused(workspace: Workspace, tmp_path: Path) -> None:
    paths = []
    for name in "ab":
        row = {"evaluation_name": name, "sample_id": "1", "evaluation": {"score": 1.0}}
        paths.append(lines(tmp_path / f"{name}_samples.jsonl", [{**row, "model_id": name}]))
    with pytest.raises(TokenmartError, match=r"a_samples.jsonl is of a, .*b_samples.jsonl of b"):
        importer("every-eval-ever").import_files(paths, Destination(workspace, "p", "a"))


def state(path: Path, of_task: bool = False, **facts: object) -> None:
    """Add facts to a run's own account, or to each of its tasks."""
    record = json.loads(path.read_text())
    for part in record["tasks"] if of_task else [record]:
        part |= facts
    path.write_text(json.dumps(record))


def lighteval_stating(folder: Path, **facts: object) -> Path:
    path = lighteval(folder)
    (results,) = folder.rglob("results_*.json")
    state(results, **facts)
    return path


def olmes_stating(folder: Path, **facts: object) -> Path:
    path = olmes(folder)
    (metrics,) = folder.glob("*-metrics.json")
    state(metrics, **facts)
    return path


def lighteval_of(folder: Path, sha: str) -> Path:
    general = {"model_name": "org/model", "model_sha": sha}
    return lighteval_stating(folder, config_general=general)


def olmes_of(folder: Path, revision: str) -> Path:
    return olmes_stating(folder, model_config={"model": "org/model", "revision": revision})


def olmo_eval_of(folder: Path, revision: str) -> Path:
    path = olmo_eval(folder)
    state(folder / "metrics.json", of_task=True, model=f"org/model {revision}")
    named = path.parent.with_name(f"org_model_{revision}")
    return path.parent.rename(named) / path.name


@pytest.mark.parametrize("form", [lighteval_of, olmes_of, olmo_eval_of])
def test_runs_of_two_models_are_refused(
    workspace: Workspace, tmp_path: Path, form: Callable[[Path, str], Path]
) -> None:
    paths = []
    for revision in ("a1", "b2"):
        (tmp_path / revision).mkdir()
        paths.append(form(tmp_path / revision, revision))
    reader = importer("lighteval", "acc") if form is lighteval_of else importer("olmes")
    with pytest.raises(TokenmartError, match=r"is of org/model a1, .* of org/model b2: import"):
        reader.import_files(paths, Destination(workspace, "p", "a"))


def lighteval_version(folder: Path, version: int) -> Path:
    return lighteval_stating(folder, versions={"leaderboard|arc|25": version})


def olmes_shots(folder: Path, shots: int) -> Path:
    return olmes_stating(folder, task_config={"primary_metric": "acc_per_char", "num_shots": shots})


@pytest.mark.parametrize("form", [lighteval_version, olmes_shots])
def test_scores_of_another_version_or_shots_are_not_comparable(
    workspace: Workspace, tmp_path: Path, form: Callable[[Path, int], Path]
) -> None:
    reader = importer("lighteval", "acc") if form is lighteval_version else importer("olmes")
    for number in (0, 5):
        (tmp_path / str(number)).mkdir()
    reader.import_files([form(tmp_path / "0", 0)], Destination(workspace, "p", "a"))
    words = r"acc\w* \((version 5|5shot)\), those of a are acc\w* \((version 0|0shot)\)"
    with pytest.raises(TokenmartError, match=words):
        reader.import_files([form(tmp_path / "5", 5)], Destination(workspace, "p", "b"))


def every_eval_ever_stating(folder: Path, shots: str | None = None, **metric: object) -> Path:
    """The records of `qa` with the settings that the converter of lm-evaluation-harness writes."""
    folder.mkdir()
    path = every_eval_ever(folder)
    record = json.loads((folder / "one.json").read_text())
    for result in record["evaluation_results"]:
        result["metric_config"] |= metric
        if shots is not None:
            result["generation_config"] = {
                "generation_args": {
                    "temperature": 0.0,
                    "top_p": None,
                    "prompt_template": "Q: " * 9,
                },
                "additional_details": {"num_fewshot": shots, "until": '["Q:"]'},
            }
    (folder / "one.json").write_text(json.dumps(record))
    return path


def test_scores_of_every_eval_ever_with_other_settings_are_not_comparable(
    workspace: Workspace, tmp_path: Path
) -> None:
    def import_(path: Path, model: str, metric: str = "qa/acc") -> None:
        reader = importer("every-eval-ever", metric)
        reader.import_files([path], Destination(workspace, "p", model))

    import_(every_eval_ever_stating(tmp_path / "a", "0"), "a")
    same = "prompt_template sha256 c63741e4, temperature 0"
    words = f"qa: its scores here are qa/acc (num_fewshot 5, {same}), those of a are qa/acc "
    with pytest.raises(TokenmartError, match=re.escape(f"{words}(num_fewshot 0, {same}): the tar")):
        import_(every_eval_ever_stating(tmp_path / "b", "5"), "b")
    with pytest.raises(TokenmartError, match=r"here are qa/f1 \(.*\), those of a are qa/acc \("):
        import_(every_eval_ever_stating(tmp_path / "c", "0"), "c", "qa/f1")
    import_(every_eval_ever_stating(tmp_path / "d", "0"), "d")
    import_(every_eval_ever_stating(tmp_path / "e"), "e")  # it states no settings


def test_the_metric_of_every_eval_ever_is_that_of_its_record(tmp_path: Path) -> None:
    facts = {"metric_name": "pass@1", "metric_parameters": {"n": 8, "k": 1}}
    for folder, given, metric, run in (
        ("a", {}, "qa/acc", ""),
        ("b", facts, "pass@1", "k 1, n 8"),
        ("c", {**facts, "metric_id": "pass_at_k"}, "pass_at_k", "k 1, n 8"),
    ):
        path = every_eval_ever_stating(tmp_path / folder, **given)
        (measure,) = importer("every-eval-ever", "qa/acc").measures(path).values()
        assert (measure.metric, measure.run) == (metric, run)
    row = {"evaluation_name": "qa", "sample_id": "1", "evaluation": {"score": 1.0}}
    (alone,) = importer("every-eval-ever").measures(lines(tmp_path / "x.jsonl", [row])).values()
    assert str(alone) == "an unnamed metric" and alone.comparable(measure)


def test_other_forms_of_every_eval_ever_are_named(tmp_path: Path) -> None:
    row = {"evaluation_name": "qa", "sample_id": "1", "evaluation": None}
    path = lines(tmp_path / "x_samples.jsonl", [row])
    with pytest.raises(TokenmartError, match=r"jsonl:1: evaluation is 'None', expected an object"):
        read("every-eval-ever", path)
    lines(path, [{**row, "evaluation": {"score": 1.0}}])
    odd = {"evaluation_name": "qa", "score_details": 3, "generation_config": [1]}
    for aggregates in ({"x": 1}, [3], [odd]):
        (tmp_path / "x.json").write_text(json.dumps({"evaluation_results": aggregates}))
        assert [each["score"] for each in read("every-eval-ever", path)] == [1.0]
        assert str(importer("every-eval-ever").measures(path)["qa"]) == "an unnamed metric"


def test_a_document_without_a_value_shifts_no_other(tmp_path: Path) -> None:
    path = lighteval(tmp_path)
    rows = [{"metric": {"acc": 1.0}}, {"metric": {"acc": None}}, {"metric": {"acc": 0.0}}]
    pq.write_table(pa.Table.from_pylist(rows), path)
    with pytest.raises(TokenmartError, match="row 2 has no value of acc, others have"):
        read("lighteval", path, "acc")


def test_details_from_the_hub_are_checked(tmp_path: Path) -> None:
    path = lighteval(tmp_path, own=0.8)
    path = path.rename(path.with_name(path.name.replace("|", "_")))
    with pytest.raises(TokenmartError, match=r"over 5 items is 0\.6, and .*json has 0\.8"):
        read("lighteval", path, "acc")


def test_lower_values_are_no_target(workspace: Workspace, tmp_path: Path) -> None:
    path = lighteval(tmp_path)
    pq.write_table(pa.Table.from_pylist([{"metric": {"brier_score": 0.5}}]), path)
    with pytest.raises(TokenmartError, match="lower values of brier_score are better, and a targ"):
        importer("lighteval").import_files([path], Destination(workspace, "p", "a"))
