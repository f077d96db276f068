"""Result files of lm-evaluation-harness become a plain table that a table problem reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from plugins.benchmarks.scores.harness_results import read_results
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
    config = {"model_args": {}, "limit": 5.0}
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
        ("{", "can't be read"),
        ('{"acc": 1}', "no result file of lm-evaluation-harness"),
        ('{"results": {}, "config": {}}', "model_name is None, expected a name"),
        (
            '{"results": {"t": {"acc,none": NaN}}, "config": {}, "model_name": "m"}',
            "t: acc,none is nan, expected a finite number",
        ),
        (
            '{"results": {"t": {"acc,none": "N/A"}}, "config": {}, "model_name": "m"}',
            "t: acc,none is 'N/A', expected a number",
        ),
        ('{"results": {"t": 3}, "config": {}, "model_name": "m"}', "not what it should be"),
        ('{"results": {}, "config": {}, "model_name": "m", "date": "x"}', "not what it should be"),
        ("[" * 100_000, "can't be read"),
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
