"""Samples of lm-evaluation-harness, in the form its --log_samples writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from warehouse.errors import TokenmartError
from warehouse.importers.importer import Destination, importer
from warehouse.paths import Workspace

NAME = "samples_arc_easy_2025-03-04T10-11-12.123456.jsonl"


def sample(doc_id: int, filter_name: str = "none", doc: Any = None, **metrics: Any) -> str:
    """One line of the file: bookkeeping, the names of the metrics, the metrics."""
    return json.dumps(
        {
            "doc_id": doc_id,
            "doc": doc or {"id": f"Mercury_{doc_id}", "question": "Which?", "answerKey": "B"},
            "target": "1",
            "arguments": {"gen_args_0": {"arg_0": "Question: Which?\nAnswer:", "arg_1": " iron"}},
            "resps": [[["-12.25", "False"]], [["-Infinity", "False"]]],
            "filtered_resps": [["-12.25", "False"], [float("-inf"), False]],
            "filter": filter_name,
            "metrics": list(metrics),
            "doc_hash": "7f83b1657ff1",
            "prompt_hash": "9a271f2a916b",
            "target_hash": "6b86b273ff34",
            **metrics,
        }
    )


def write(folder: Path, *lines: str, name: str = NAME) -> Path:
    path = folder / name
    path.write_text("".join(line + "\n" for line in lines))
    return path


def read(path: Path, metric: str | None = None) -> list[dict[str, Any]]:
    return [row.fields for row in importer("lm-eval", metric).read(path)]


def test_the_task_and_the_only_metric_are_found(tmp_path: Path) -> None:
    path = write(tmp_path, sample(4, acc=1.0), sample(7, acc=0.0))
    assert [(r["task"], r["item"], r["score"]) for r in read(path)] == [
        ("arc_easy", 4, 1.0),
        ("arc_easy", 7, 0.0),
    ]


def test_of_several_metrics_one_is_chosen(tmp_path: Path) -> None:
    path = write(tmp_path, sample(0, acc=1.0, acc_norm=0.0))
    with pytest.raises(TokenmartError, match="2 metrics; use --metric with one of: acc, acc_norm"):
        read(path)
    assert [row["score"] for row in read(path, "acc_norm")] == [0.0]
    with pytest.raises(TokenmartError, match=r":1: no metric 'f1'; use --metric .* acc, acc_norm"):
        read(path, "f1")


def test_of_several_filters_one_is_chosen(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        sample(0, "strict-match", exact_match=0.0),
        sample(0, "flexible-extract", exact_match=1.0),
        name="samples_gsm8k_2025-03-04T10-11-12.jsonl",
    )
    with pytest.raises(TokenmartError, match="exact_match,flexible-extract, --metric exact_match,"):
        read(path)
    assert [r["score"] for r in read(path, "exact_match,flexible-extract")] == [1.0]
    assert [r["score"] for r in read(path, ",strict-match")] == [0.0]
    with pytest.raises(TokenmartError, match="its filters are flexible-extract, strict-match"):
        read(path, "exact_match,loose")


def test_older_versions_do_not_list_their_metrics(tmp_path: Path) -> None:
    old = json.loads(sample(0, acc=1.0))
    for key in ("metrics", "filter", "doc_hash"):
        del old[key]
    assert read(write(tmp_path, json.dumps(old)))[0]["score"] == 1.0


def test_ruler_is_one_task_per_length(tmp_path: Path) -> None:
    lengths = {"4096": -1.0, "8192": -1.0}
    path = write(
        tmp_path,
        sample(0, doc={"max_length": 4096, "input": "…"}, **{**lengths, "4096": 1.0}),
        sample(1, doc={"max_length": 8192, "input": "…"}, **{**lengths, "8192": 0.5}),
        name="samples_niah_single_1_2025-03-04T10-11-12.1.jsonl",
    )
    assert [(r["task"], r["score"], r["context_tokens"]) for r in read(path)] == [
        ("niah_single_1_4096", 1.0, 4096),
        ("niah_single_1_8192", 0.5, 8192),
    ]


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("results.jsonl", sample(0, acc=1.0), "its name gives no task"),
        (NAME, "{", r":1: not JSON"),
        (NAME, '{"acc": 1}', r":1: no doc_id"),
        (NAME, "[1]", r":1: no doc_id"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, name: str, line: str, message: str) -> None:
    with pytest.raises(TokenmartError, match=message):
        read(write(tmp_path, line, name=name))


@pytest.mark.parametrize(
    ("score", "message"),
    [
        ([0.5, 12], r":2: score is \[0.5, 12\], expected a valid number"),
        (float("nan"), ":2: score is nan, expected a finite number"),
    ],
)
def test_a_metric_that_is_no_number_is_named(
    workspace: Workspace, tmp_path: Path, score: Any, message: str
) -> None:
    path = write(tmp_path, sample(0, acc=1.0), sample(1, acc=score))
    with pytest.raises(TokenmartError, match=message):
        importer("lm-eval").import_files([path], Destination(workspace, "tiny", "org--a"))
    assert not workspace.downstream.exists()


def results(path: Path, name: str = "org/a", shots: int = 0, **more: Any) -> Path:
    """The file of results next to samples."""
    tree = {
        "results": {"arc_easy": {"acc,none": 1.0}},
        "n-shot": {"arc_easy": shots},
        "config": {"model_args": {"pretrained": name}},
        "model_name": name,
        **more,
    }
    beside = path.with_name(path.stem.replace("samples_arc_easy", "results") + ".json")
    beside.write_text(json.dumps(tree))
    return path


def bring(workspace: Workspace, model: str, *files: Path, metric: str = "acc", **more: Any) -> Any:
    to = Destination(workspace, "p", model, **more)
    return importer("lm-eval", metric).import_files(files, to)


def test_a_target_has_one_metric_and_one_run(workspace: Workspace, tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).mkdir()
    line = sample(0, acc=1.0, acc_norm=0.0)
    bring(workspace, "a", results(write(tmp_path / "a", line)))
    with pytest.raises(TokenmartError, match=r"scores here are acc_norm \(0shot\), those of"):
        bring(workspace, "b", results(write(tmp_path / "b", line)), metric="acc_norm")
    with pytest.raises(TokenmartError, match=r"are acc \(5shot\), those of a are acc \(0shot\)"):
        bring(workspace, "b", results(write(tmp_path / "b", line), shots=5))
    bring(workspace, "b", results(write(tmp_path / "b", line), shots=5), force=True)
    # what no file shows is not another run
    assert bring(workspace, "c", write(tmp_path / "c", line), force=True) == {"arc_easy": 1}


def test_a_version_of_ruler_is_compared_for_each_length(
    workspace: Workspace, tmp_path: Path
) -> None:
    for name, version in (("a", 1), ("b", 2)):
        (tmp_path / name).mkdir()
        line = sample(0, doc={"max_length": 4096}, **{"4096": 1.0})
        results(path := write(tmp_path / name, line), versions={"arc_easy": version})
        if name == "a":
            importer("lm-eval").import_files([path], Destination(workspace, "p", "a"))
    with pytest.raises(TokenmartError, match=r"arc_easy_4096: its scores .* \(0shot, version 2\)"):
        importer("lm-eval").import_files([path], Destination(workspace, "p", "b"))


def test_lower_values_are_no_target(workspace: Workspace, tmp_path: Path) -> None:
    path = write(tmp_path, sample(0, perplexity=-3.5, acc=1.0, odd=1.0))
    with pytest.raises(TokenmartError, match="lower values of perplexity are better, and a target"):
        bring(workspace, "a", path, metric="perplexity")
    results(path, higher_is_better={"arc_easy": {"odd": False}})
    with pytest.raises(TokenmartError, match="lower values of odd are better"):
        bring(workspace, "a", path, metric="odd")


def test_files_of_two_models_are_refused(workspace: Workspace, tmp_path: Path) -> None:
    one = results(write(tmp_path, sample(0, acc=1.0)))
    (tmp_path / "b").mkdir()
    other = write(tmp_path / "b", sample(0, acc=1.0), name=NAME.replace("arc_easy", "piqa"))
    results(tmp_path / "b" / NAME, "org/b")
    with pytest.raises(TokenmartError, match=f"{one} is of org/a, {other} of org/b: import the"):
        bring(workspace, "a", one, other)


def test_other_items_than_another_model_s_are_said(
    workspace: Workspace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "b").mkdir()
    bring(workspace, "a", write(tmp_path, *(sample(n, acc=1.0) for n in range(3))))
    assert capsys.readouterr().err == ""
    bring(workspace, "b", write(tmp_path / "b", sample(1, acc=1.0), sample(9, acc=1.0)))
    assert "arc_easy: 2 items here, 3 of a, 1 of them the same" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("beginning", "said"),
    [
        (b"\x1f\x8b\xff", "compressed with gzip"),
        ("x".encode("utf-16"), "UTF-16"),
        (b"\xff", "UTF-8"),
    ],
)
def test_what_is_no_text_is_named(tmp_path: Path, beginning: bytes, said: str) -> None:
    path = tmp_path / NAME
    path.write_bytes(beginning)
    with pytest.raises(TokenmartError, match=said):
        read(path)
    path.rename(compressed := path.with_name(f"{NAME}.gz"))
    with pytest.raises(TokenmartError, match="is compressed; decompress it"):
        read(compressed)


def test_a_date_with_colons_is_a_date(tmp_path: Path) -> None:
    path = write(tmp_path, sample(0, acc=1.0), name=NAME.replace("T10-11-12", "T10:11:12"))
    assert read(path)[0]["task"] == "arc_easy"
