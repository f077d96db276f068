"""Target files: every format the statement allows, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from refusal import refuses

from warehouse.errors import LockedFileError
from warehouse.problem.target_file import read_locked_target, read_target
from warehouse.sources.lock_file import recorded_files

SCORES = {"lab/a": 1.5, "lab/b": 2.0}
ROWS = [{"model": "lab/a", "overall": 1.5, "ruler": 3}, {"model": "lab/b", "overall": 2}]


@pytest.mark.parametrize(
    "content",
    [
        SCORES,
        {"lab/a": {"overall": 1.5, "tasks": {"x": 1}}, "lab/b": {"overall": 2}},
        ROWS,
        {"models": SCORES},
        {"results": ROWS, "note": "anything", "lower_is_better": False, "higher_is_better": True},
        {"scores": {"lab/a": {"overall": 1.5}, "lab/b": {"overall": 2.0}}, "models": 2},
    ],
)
def test_accepted_formats(tmp_path, content):
    path = tmp_path / "target.json"
    path.write_text(json.dumps(content))
    target = read_target(path)
    assert target.scores == SCORES
    assert list(target.only(["lab/b", "lab/a"])) == ["lab/b", "lab/a"]


REFUSED = [
    ("{}", ""),
    ("[]", ""),
    ("3", ""),
    ('"text"', ""),
    ('{"lab/a": "1.5"}', ': "lab/a"'),
    ('{"lab/a": true}', ': "lab/a"'),
    ('{"lab/a": null}', ': "lab/a"'),
    ('{"lab/a": [1]}', ': "lab/a"'),
    ('{"lab/a": {"score": 1}}', ': "lab/a"'),
    ('{"lab/a": {"overall": NaN}}', ': "lab/a"'),
    ('{"lab/a": {"overall": 1e999}}', ': "lab/a"'),
    ('{"lab/a": ' + "9" * 400 + "}", ': "lab/a"'),
    ('{"lab/a": 1, "lab/a": 2}', ""),
    ('[{"model": "lab/a"}]', ': "lab/a"'),
    ('[{"overall": 1}]', ": row 0"),
    ("[1]", ": row 0"),
    ('[{"model": "a", "overall": 1}, {"model": "a", "overall": 1}]', ": row 1"),
    ('{"models": {"a": 1}, "scores": {"a": 2}}', ""),
    ('{"models": {"a": 1}, "lower_is_better": true}', ""),
    ('{"results": [{"model": "a", "overall": 1}], "higher_is_better": false}', ""),
    ("", ""),
]
"""A file that isn't in an accepted format, and the place in it."""


@pytest.mark.parametrize(("text", "place"), REFUSED)
def test_refused_with_one_line(tmp_path, text, place):
    path = tmp_path / "target.json"
    path.write_text(text)
    with pytest.raises(LockedFileError) as refusal:
        read_target(path)
    assert (refusal.value.code, refusal.value.where) == ("target-format", f"{path}{place}")
    assert "\n" not in refusal.value.message
    assert refusal.value.exit_code == 3


def test_a_missing_file_says_how_to_get_it(workspace):
    with refuses("locked-file-missing", str(workspace.root / "t.json")):
        read_locked_target(workspace, "mine", Path("t.json"), SCORES, argument="~/mine.yml")


@pytest.mark.parametrize("content", [{}, {"x": 1.0}, {"lab/a": 1.0}])
def test_rubbish_is_not_locked(workspace, content):
    """What lacks the models of the problem is another file; the right one is taken after it."""
    file = workspace.root / "t.json"
    file.write_text(json.dumps(content))
    with pytest.raises(LockedFileError) as refusal:
        read_locked_target(workspace, "mine", Path("t.json"), SCORES)
    assert refusal.value.code in ("target-format", "target-models")
    assert recorded_files(workspace, "mine") == {}
    file.write_text(json.dumps(SCORES))
    assert read_locked_target(workspace, "mine", Path("t.json"), SCORES).first_use


def test_a_ranking_needs_a_score_for_some_model(workspace):
    file = workspace.root / "t.json"
    file.write_text('{"x": 1.0}')
    with refuses("target-models"):
        read_locked_target(workspace, "mine", Path("t.json"), SCORES, some=True)
    file.write_text('{"lab/a": 1.0}')
    assert read_locked_target(workspace, "mine", Path("t.json"), SCORES, some=True).first_use


def test_a_missing_model_is_named(tmp_path):
    path = tmp_path / "target.json"
    path.write_text(json.dumps(SCORES))
    with refuses("target-models", "lab/c"):
        read_target(path).only(["lab/a", "lab/c"])
