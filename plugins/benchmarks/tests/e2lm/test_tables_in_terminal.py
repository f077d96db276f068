"""Tables of `tokenmart e2lm` on narrow and wide terminals: no line longer, no number broken."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tokenmart import cli

MODELS = ("dense-1b-arch1-with-a-long-name", "dense-3b-arch1-with-a-long-name", "c", "d")
TASK = "mmlu_stem_continuation_5shot_cloze"


def printed(*words: str | Path) -> str:
    done = CliRunner().invoke(cli, ["e2lm", *map(str, words)])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize("width", [80, 100, 160])
def test_scores_fit_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    path = tmp_path / "scores.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("model", "size", "arch", "tokens_bt", "benchmark", "score"))
        for size, model in enumerate(MODELS, start=1):
            for step in range(1, 41):
                rows.writerow((model, size, "dense", 5 * step, TASK, 0.2 + 0.01 * (step ^ size)))
    text = printed("score", "--scores", path)
    assert max(map(len, text.splitlines())) <= width and len(text.splitlines()) <= 25
    for entries in json.loads(printed("score", "--scores", path, "--json")).values():
        assert f" {entries[TASK]['sq']:.3f} " in text


@pytest.mark.parametrize("width", [80, 100, 160])
def test_chosen_items_fit_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    path = tmp_path / "items.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("model", "step", "item", "score", "subject"))
        for number, model in enumerate(MODELS):
            for step in range(16):
                for item in range(40):
                    score = (7 * step * (item % 4) + 13 * item + number) % 101 / 100
                    rows.writerow((model, step, item, score, f"subject-{item % 2}"))
    text = printed(
        "curate",
        "--items",
        path,
        "--fewest",
        10,
        "--most",
        20,
        "--folds",
        2,
        "--method",
        "rise",
        "--compare",
    )
    assert max(map(len, text.splitlines())) <= width
    assert "in sample" in text and "subject-1" in text and "method (held out)" in text


@pytest.mark.parametrize("width", [80, 100, 160])
def test_scoring_methods_fit_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    words = ("scoring-methods", "--problem", "pythia", "--resamples", 100)
    out = tmp_path / "scoring_methods.json"
    text = printed(*words, "--out", out)
    assert max(len(line) for line in text.splitlines() if not line.startswith("written")) <= width
    assert ("not shown (--wide): in family, SQ, SNR, chosen" in text) == (width < 115)
    (problem,) = json.loads(out.read_text())
    for row in (row for stage in problem["stages"] for row in stage["scoring_methods"]):
        low, high = row["interval"]
        assert f"{row['decision_accuracy']:.3f}  {low:.2f} to {high:.2f}" in text
    for stage in problem["stages"]:
        assert f": {stage['held_out']['decision_accuracy']:.3f} (target's" in " ".join(text.split())
    assert json.loads(printed(*words, "--json")) == [problem]
