"""Attempts to make a result look better than the data: each is stopped or permanently recorded.

More attempts are tested elsewhere: the official script with a changed environment and a target that
changed (submission/test_verifier.py), edits of a bundle and damage to it
(submission/test_submit.py), variants on few models (statistics/test_permutation.py), models run in
different number formats (ranking/test_commands.py), rows
left out of the view or of the build, ideas (ranking/test_ideas.py).
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from made_up_marts import scores_absent

from analysis.preregistration import cli as preregistration
from analysis.preregistration.entries import record_path
from analysis.ranking import cli as ranking
from analysis.submission import cli as submission
from analysis.submission.official import why_unofficial
from warehouse.metrics.tested_metrics import recorded_metrics
from warehouse.paths import find_workspace
from warehouse.problem.spec import load_problem
from warehouse.store.provenance import CODE_ROOT


def run(command, *arguments):
    return CliRunner().invoke(command, [str(a) for a in arguments])


def select(*arguments):
    result = run(ranking.select, "--problem", "minilong", "--splits", 20, "--json", *arguments)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def catalogue(marts, *variants, numerator="sum(nll)"):
    settings = {"numerator": numerator, "core": True}
    marts.manifest({"good": ["stg_token_stats"]}, variants=dict.fromkeys(variants, settings))


@pytest.fixture
def library(minilong):
    """The metric `good` as the library would hold it."""
    edit_problem(minilong, "labels_known_since: 2026-11-22\n", "")
    catalogue(minilong, "a", "b")
    return minilong


def preregister(*arguments, labels_there=False):
    yes = ("--yes",) if "--metric" in arguments else ()
    with nullcontext() if labels_there else scores_absent(find_workspace()):
        return run(preregistration.preregister, "--problem", "minilong", *arguments, *yes)


def edit_problem(minilong, old, new):
    file = minilong.workspace.problems / "minilong.yml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def test_one_family_per_model_is_on_record(library, tmp_path):
    """Who calls every model its own family gets narrower intervals, but not unseen."""
    assert preregister("--metric", "good/a").exit_code == 0
    for family in ("smollm2", "gemma3"):
        edit_problem(library, f"family: {family}", f"family: {family}-of-its-own")
    said = select()["preregistered"][0]
    assert said["holds"] is False
    assert "smollm2-135m was put into another family or series" in said["changed_since"]


def test_doses_of_one_treatment_are_known_without_anybody_saying_so(minilong):
    groups = select()["groups"]
    assert groups["families"] == 2 and groups["series_across_families"] == 10


def test_a_model_left_out_after_the_fact_is_named(library):
    assert preregister("--metric", "good/a").exit_code == 0
    said = select()["preregistered"][0]
    assert (said["code"], said["holds"]) == ("confirmed", True) and said["spearman_ci"]["low"] > 0
    dropped = "  - {full_id: gemma3-270m-noise-0.1,"
    edit_problem(library, dropped, dropped.replace("{full_id", "{on_request: true, full_id"))
    said = select()["preregistered"][0]
    assert said["changed_since"] == ["gemma3-270m-noise-0.1 was left out"] and not said["holds"]


def test_who_registers_after_the_labels_is_refused_or_marked_for_ever(library):
    result = preregister("--metric", "good/a", labels_there=True)
    assert result.exit_code == 1
    assert preregister("--metric", "good/a", "--labels-known", labels_there=True).exit_code == 0
    said = select()["preregistered"][0]
    assert said["before_labels"] is False and said["holds"] is False


def test_registering_everything_pays_for_everything(library):
    """One registered metric passes at its own p; among many the largest of all counts."""
    generator = np.random.default_rng(0)
    scores = library.scores("minilong")
    spread = float(np.std(list(scores.values())))
    for number in range(9):
        related = 1.0 if number == 0 else 0.0
        values = {
            m: related * scores[m] / spread + float(generator.normal())
            for m in library.models("minilong")
        }
        library.metric("minilong", "good", f"x{number}", values)
    catalogue(library, *(f"x{number}" for number in range(9)))
    assert preregister("--metric", "good/x0").exit_code == 0
    alone = select()["preregistered"][0]["p_one_sided"]
    others = [word for number in range(1, 9) for word in ("--metric", f"good/x{number}")]
    assert preregister(*others).exit_code == 0
    assert select()["preregistered"][0]["p_one_sided"] > alone


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace('"level": 0.05', '"level": 0.4'),
        lambda text: text.replace('"direction": "higher"', '"direction": "lower"'),
        lambda text: text.replace("for the problem", "of mine"),
        lambda text: text.replace('"previous": ""', f'"previous": "{"0" * 64}"'),
    ],
)
def test_an_edited_pre_registration_is_refused(library, change):
    assert preregister("--metric", "good/a").exit_code == 0
    path = record_path(library.workspace, "minilong")
    path.write_text(change(path.read_text()))
    for result in (preregister(), run(ranking.select, "--problem", "minilong")):
        assert result.exit_code == 1


def test_removing_an_entry_that_went_wrong_breaks_the_chain(library):
    for variant in ("a", "b"):
        assert preregister("--metric", f"good/{variant}").exit_code == 0
    path = record_path(library.workspace, "minilong")
    content = json.loads(path.read_text())
    content["entries"].pop(0)
    path.write_text(json.dumps(content))
    assert preregister().exit_code == 1


def test_values_of_an_earlier_state_confirm_nothing(library):
    assert preregister("--metric", "good/a").exit_code == 0
    library.record_build(texts="others")
    said = select()["preregistered"][0]
    assert (said["code"], said["holds"]) == ("outdated", False)


def test_what_was_registered_of_all_documents_is_not_confirmed_on_some(library):
    assert preregister("--metric", "good/a").exit_code == 0
    model, full_id = next(iter(library.full_ids("minilong").items()))
    with library.write() as connection:
        connection.execute(
            "update metric_values set documents = 1 where metric = 'good' and model_id = ?", [model]
        )
    said = select()["preregistered"][0]
    assert said["models_with_fewer_documents"] == {full_id: 1} and said["holds"] is False
    assert said["code"] == "uneven-documents"


def test_another_formula_under_the_registered_name_is_noticed(library):
    assert preregister("--metric", "good/a").exit_code == 0
    catalogue(library, "a", numerator="sum(2 * nll)")
    said = select()["preregistered"][0]
    assert said["changed_since"] == ["settings of good/a changed since"] and not said["holds"]


def test_a_project_that_dbt_cannot_parse_changes_no_registration(library, tmp_path):
    """It is dbt's error, not another definition."""
    assert preregister("--metric", "good/a").exit_code == 0
    project = library.workspace.dbt_project
    (project / "dbt_project.yml").write_text("name: [")
    of_metric = ("--metric", "good", "--out", tmp_path / "out")
    for command, words in ((ranking.select, ()), (submission.submit, of_metric)):
        result = run(command, "--problem", "minilong", *words)
        assert result.exit_code == 1, result.output
        assert result.stderr.startswith(f"error: {project}: "), result.output
    assert not (tmp_path / "out").exists()


def test_the_other_direction_than_registered_is_no_confirmation(library):
    assert preregister("--metric", "good/a:lower").exit_code == 0
    said = select()["preregistered"][0]
    assert said["spearman"] < -0.9 and said["p_one_sided"] > 0.9
    assert said["code"] == "not-confirmed" and said["spearman_ci"]["high"] < 0


def test_a_submission_says_what_was_tried_and_registered(library, tmp_path):
    def bundle(out):
        arguments = ("--problem", "minilong", "--metric", "good", "--resamples", 100)
        assert run(submission.submit, *arguments, "--out", out).exit_code == 0
        return json.loads((out / "bundle.json").read_text())["claims"]

    assert bundle(tmp_path / "before")["preregistration"] is None
    assert preregister("--metric", "good/a").exit_code == 0
    claims = bundle(tmp_path / "after")
    assert claims["tested"] == len(recorded_metrics(library.workspace, "minilong"))
    assert claims["preregistration"]["before_labels"] is True
    assert "preregistered" in (tmp_path / "after" / "README.md").read_text()


def test_a_problem_of_the_locked_name_with_other_models_is_not_official(library, tmp_path):
    text = (library.workspace.problems / "minilong.yml").read_text()
    file = tmp_path / "mine.yml"
    file.write_text(text.replace("name: minilong", "name: no4k"))
    arguments = ("--problem", "minilong", "--metric", "good", "--resamples", 100)
    assert run(submission.submit, *arguments, "--out", tmp_path / "out").exit_code == 0
    bundle = json.loads((tmp_path / "out" / "bundle.json").read_text())
    stated = bundle["unofficial_because"]
    assert not bundle["official"] and "the problem is minilong, not no4k" in stated
    column: Any = SimpleNamespace(admissible=True)
    lineage: Any = SimpleNamespace(foreign=())
    problem = load_problem(str(file), library.workspace)
    named = why_unofficial(library.workspace, problem, column, lineage, [], {"dirty": False})
    # its name is right: models and target are not
    assert {"its models are not the 17 locked ones", "its target is not the locked file"} < set(
        named
    )
    assert "the problem is minilong, not no4k" not in named


def test_a_module_that_shadows_the_installed_one_is_recorded(tmp_path):
    (tmp_path / "sklearn").mkdir()
    (tmp_path / "sklearn" / "__init__.py").write_text("")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\nimport sklearn, numpy\n"
        "sys.path.insert(0, sys.argv[2])\n"
        "from warehouse.store.provenance import foreign_modules\n"
        "print(foreign_modules(('numpy', 'scikit-learn', 'no-such')))"
    )
    arguments = [sys.executable, "-c", code, str(tmp_path), str(CODE_ROOT)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['sklearn']"


def test_output_never_replaces_a_pre_registration(library, tmp_path):
    assert preregister("--metric", "good/a").exit_code == 0
    path = record_path(library.workspace, "minilong")
    before = path.read_bytes()
    file = tmp_path / "submission.json"
    models = library.models("minilong")
    file.write_text(json.dumps({m: float(i) for i, m in enumerate(models)}))
    arguments = ("--problem", "minilong", "--submission", file, "--out", path, "--force")
    result = run(submission.verify, *arguments, "--resamples", 100)
    assert result.exit_code == 1
    assert path.read_bytes() == before
