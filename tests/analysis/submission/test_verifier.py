"""The official scorer, by its command line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import scipy.stats
from oracle import needs_min_cov_det
from refusal import refused
from sklearn.covariance import MinCovDet

from analysis.statistics.correlations import signed
from analysis.submission import verifier as locked
from warehouse.files import sha256_file
from warehouse.sources.lock_file import lock_path

SCRIPT = Path(__file__).parents[3] / "scripts" / "verify_locked_no4k.py"
MODELS = list(locked.MODELS)
GOOD = {model: float(index) for index, model in enumerate(MODELS)}


@pytest.fixture
def standing_here(workspace, target):
    """The script in a checkout of its own, with a target; runs it as a program from elsewhere."""
    folder = workspace.root / "scripts"
    folder.mkdir()
    path = Path(shutil.copy(SCRIPT, folder))

    def run(*arguments, **options):
        environment = os.environ | {"PYTHONPATH": str(SCRIPT.parents[1])} | options.pop("env", {})
        return subprocess.run(
            [sys.executable, *options.pop("python", ()), str(path), *map(str, arguments)],
            text=True, timeout=120, env=environment, **{"capture_output": True} | options,
        )  # fmt: skip

    return run


@needs_min_cov_det
def test_result_agrees_with_scipy_and_sklearn(
    run, write_json, made_up_scores, verify_schema, tmp_path
):
    generator = np.random.default_rng(3)
    submission = {m: s + float(generator.normal(0, 8)) for m, s in made_up_scores.items()}
    out = tmp_path / "deep" / "result.json"
    result = run("--submission", write_json(submission), "--metric-key", "score", "--out", out)
    assert result.exit_code == 0, result.output
    document = json.loads(out.read_text())
    jsonschema.validate(document, verify_schema)
    x, y = np.array([(submission[m], made_up_scores[m]) for m in MODELS]).T
    assert document["spearman"]["value"] == pytest.approx(scipy.stats.spearmanr(x, y)[0])
    assert document["pearson"]["value"] == pytest.approx(scipy.stats.pearsonr(x, y)[0])
    fitted = MinCovDet(random_state=0).fit(np.column_stack([x, y]))
    keep = fitted.mahalanobis(np.column_stack([x, y])) <= scipy.stats.chi2.ppf(0.975, 2)
    skipped = document["skipped_spearman"]
    assert skipped["value"] == pytest.approx(scipy.stats.spearmanr(x[keep], y[keep])[0])
    assert skipped["dropped"] == [m for m, k in zip(MODELS, keep, strict=True) if not k]
    assert document["n"] == 17 and document["resamples"] == 10_000 and document["seed"] == 0
    assert "Spearman" in result.stdout and "skipped Spearman" in result.stdout


def test_a_constant_target_file_is_named(run, target, write_json):
    target.write_text(json.dumps(dict.fromkeys(MODELS, 40.0)))
    result = run("--submission", write_json(GOOD))
    assert result.exit_code == 3
    assert f"{locked.TARGET_PATH}: every model has the same target score" in result.stderr


def test_a_wide_skipped_interval_is_called_uninformative(run, write_json, made_up_scores, tmp_path):
    """Nearly nothing to see, nearly everything to see."""
    generator = np.random.default_rng(1)
    noise = {m: float(generator.normal()) for m in MODELS}
    exact = {m: s**3 for m, s in made_up_scores.items()}
    for submission, wide in ((noise, True), (exact, False)):
        out = tmp_path / f"{wide}.json"
        result = run("--submission", write_json(submission), "--out", out)
        skipped = json.loads(out.read_text())["skipped_spearman"]
        assert (skipped["ci95"]["high"] - skipped["ci95"]["low"] > 1) is wide
        assert bool(skipped["ci_note"]) is wide is ("are too few to estimate" in result.stdout)


def test_both_formats_give_the_same_numbers(run, write_json, tmp_path):
    rows = [{"model": m, "score": 1, "mine": s, "note": "x"} for m, s in GOOD.items()][::-1]
    documents = []
    for content, key in ((GOOD, "score"), (rows, "mine")):
        out = tmp_path / f"{key}.json"
        arguments = ("--submission", write_json(content), "--metric-key", key, "--out", out)
        assert run(*arguments, "--resamples", 200).exit_code == 0
        documents.append(json.loads(out.read_text()))
    for field in ("spearman", "pearson", "skipped_spearman"):
        assert documents[0][field] == documents[1][field]


def test_same_seed_same_document_and_rescaling_changes_nothing(run, write_json, tmp_path):
    path = write_json(GOOD)
    texts = []
    for name in ("one", "two"):
        out = tmp_path / name
        assert run("--submission", path, "--out", out, "--resamples", 300).exit_code == 0
        texts.append(out.read_text())
    assert texts[0] == texts[1]
    rescaled = write_json({model: 1e-9 * s - 1e-12 for model, s in GOOD.items()})
    assert run("--submission", rescaled, "--out", tmp_path / "s", "--resamples", 300).exit_code == 0
    first, other = json.loads(texts[0]), json.loads((tmp_path / "s").read_text())
    assert first["skipped_spearman"] == other["skipped_spearman"]
    assert first["spearman"] == other["spearman"]


def test_scores_that_differ_by_rounding_only_are_named(run, write_json, made_up_scores, tmp_path):
    """The locked rule ranks 0.1 + 0.2 above 0.3; `correlate` ties them (scipy issue 7882)."""
    first, second = MODELS[:2]
    tied = made_up_scores | {first: 0.3, second: 0.3}
    values = {}
    for name, scores in (("tied", tied), ("rounded", tied | {first: 0.1 + 0.2})):
        result = run("--submission", write_json(scores), "--out", tmp_path / name)
        values[name] = json.loads((tmp_path / name).read_text())["spearman"]["value"]
        assert ("differ by rounding only" in result.stderr) == (name == "rounded")
        assert values[name] == pytest.approx(
            scipy.stats.spearmanr([*scores.values()], [*made_up_scores.values()])[0]
        )
    note = locked.rounding_note(tied | {first: 0.1 + 0.2}, made_up_scores)
    assert signed(values["tied"], 4) in note and signed(values["rounded"], 4) in note


def test_a_missing_target_is_exit_3(run, target, write_json):
    target.unlink()
    said = refused(run("--submission", write_json(GOOD)), code=3)
    assert "`tokenmart data fetch --problem no4k --only target`" in said
    assert "`tokenmart preregister --problem no4k`" in said


def test_a_changed_target_is_exit_3_and_names_both_hashes(run, target, write_json, workspace):
    path = write_json(GOOD)
    first = run("--submission", path, "--resamples", 100)
    assert first.exit_code == 0 and "on first use" in first.stderr
    assert "on first use" not in run("--submission", path, "--resamples", 100).stderr
    before = sha256_file(target)
    target.write_text(target.read_text() + " ")
    line = refused(run("--submission", path), code=3)
    assert before in line and sha256_file(target) in line and str(locked.TARGET_PATH) in line
    assert lock_path(workspace, "no4k").exists()


@pytest.mark.parametrize("text", ["{}", "[", '{"01-ai/Yi-6B-200K": 1}', '{"a": NaN}'])
def test_a_malformed_target_is_exit_3(run, target, write_json, text):
    target.write_text(text)
    refused(run("--submission", write_json(GOOD)), code=3)


def test_out_never_overwrites_an_input(run, target, write_json):
    path = write_json(GOOD)
    for out in (path, target):
        before = out.read_bytes()
        result = run("--submission", path, "--out", out, "--resamples", 100)
        assert result.exit_code == 4 and "names an input file" in result.stderr
        assert out.read_bytes() == before


def test_out_never_overwrites_a_lock_file_and_a_long_name_is_one_line(
    run, target, write_json, workspace, tmp_path
):
    path = write_json(GOOD)
    assert run("--submission", path, "--resamples", 100).exit_code == 0
    lock = lock_path(workspace, locked.PROBLEM)
    before = lock.read_bytes()
    result = run("--submission", path, "--out", lock, "--resamples", 100)
    assert result.exit_code == 1 and "Tokenmart keeps this file" in result.stderr
    assert lock.read_bytes() == before
    long = run("--submission", path, "--out", tmp_path / ("x" * 300), "--resamples", 100)
    assert long.exit_code == 4 and "name too long" in long.stderr


def test_a_closed_pipe_is_one_line(run, write_json, closed_pipe):
    result = run("--submission", write_json(GOOD), "--out", closed_pipe, "--resamples", 100)
    assert result.exit_code == 4
    assert result.stderr.splitlines()[-1].startswith(f"error: {closed_pipe}: Broken pipe")


def test_partly_constant_scores_still_get_a_spearman(run, write_json, verify_schema, tmp_path):
    submission = {m: 1.0 if i < 14 else float(i) for i, m in enumerate(MODELS)}
    out = tmp_path / "result.json"
    assert run("--submission", write_json(submission), "--out", out).exit_code == 0
    document = json.loads(out.read_text())
    jsonschema.validate(document, verify_schema)
    assert document["spearman"]["value"] is not None
    assert document["spearman"]["ci95"]["degenerate_resamples"] > 0
    assert document["skipped_spearman"]["note"]


def test_by_path_from_elsewhere_without_torch_or_dbt(write_json, tmp_path, standing_here):
    code = (
        "import sys, runpy; sys.argv = sys.argv[1:]\n"
        "try:\n    runpy.run_path(sys.argv[0], run_name='__main__')\n"
        "except SystemExit as done:\n"
        "    heavy = {'torch', 'dbt', 'duckdb', 'transformers', 'altair'}\n"
        "    print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
        "    sys.exit(done.code)\n"
    )
    done = standing_here(
        "--submission", write_json(GOOD), "--resamples", 100, python=("-c", code),
        cwd=tmp_path, env={"LC_ALL": "C", "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "[]"
    assert "Spearman" in done.stdout


def test_no_variable_leads_the_official_script_elsewhere(
    standing_here, write_json, tmp_path, made_up_scores
):
    """Another checkout with a target that the submission fits perfectly."""
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "dbt_project").mkdir(parents=True)
    (elsewhere / "dbt_project" / "dbt_project.yml").write_text("name: tokenmart\n")
    flattering = elsewhere / locked.TARGET_PATH
    flattering.parent.mkdir(parents=True)
    flattering.write_text(json.dumps(GOOD))
    places = {"TOKENMART_HOME": str(elsewhere), "TOKENMART_DATA": str(elsewhere)}
    out = tmp_path / "result.json"
    arguments = ("--submission", write_json(GOOD), "--resamples", 100, "--out", out)
    assert standing_here(*arguments, env=places, cwd=elsewhere).returncode == 0
    x, y = list(GOOD.values()), [made_up_scores[m] for m in MODELS]
    found = json.loads(out.read_text())["spearman"]["value"]
    assert found == pytest.approx(scipy.stats.spearmanr(x, y)[0])
    assert not (elsewhere / "data").exists()


def test_who_stops_reading_still_gets_the_saved_result(standing_here, write_json, tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    out = tmp_path / "result.json"
    arguments = ("--submission", write_json(GOOD), "--resamples", 100, "--out", out)
    done = standing_here(*arguments, capture_output=False, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert done.returncode == 0 and "Traceback" not in done.stderr
    assert json.loads(out.read_text())["n"] == 17
