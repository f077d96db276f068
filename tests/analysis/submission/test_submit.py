"""Submissions: what is refused, what a bundle holds, and that it can be redone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner
from json_records import records
from made_up_marts import copied_checkout
from unit_records import unit_record
from warehouse_samples import make_rows

from analysis.ranking.cli import correlate, select
from analysis.submission import bundle as bundle_module
from analysis.submission import cli
from analysis.submission.bundle import bundle_page, compute_budget
from analysis.submission.reproduce import differences
from warehouse.files import sha256_file
from warehouse.metrics.manifest import manifest_path
from warehouse.metrics.tested_metrics import recorded_metrics
from warehouse.store.token_files import write_unit


@pytest.fixture
def submit(minilong, tmp_path):
    def submit(*arguments, out=tmp_path / "out", metric="good"):
        base = ("--problem", "minilong", "--metric", metric, "--out", out, "--resamples", 200)
        return CliRunner().invoke(cli.submit, [str(a) for a in (*base, *arguments)])

    return submit


@pytest.fixture(scope="module")
def submitted(filled_minilong, tmp_path_factory):
    """A checkout that has written the bundle in its folder `out`."""
    root = tmp_path_factory.mktemp("submitted")
    words = ["--problem", "minilong", "--metric", "good", "--resamples", "200"]
    with copied_checkout(filled_minilong, root):
        done = CliRunner().invoke(cli.submit, [*words, "--out", str(root / "out")])
    assert done.exit_code == 0, done.stderr
    return root


@pytest.fixture
def written(minilong, submitted):
    shutil.copytree(submitted, minilong.workspace.root, dirs_exist_ok=True)
    return minilong.workspace.root / "out"


def reproduce(folder):
    return CliRunner().invoke(cli.reproduce, [str(folder)])


def test_a_bundle_holds_what_the_contract_lists(written, verify_schema):
    names = {"submission.json", "verify.json", "bundle.json", "README.md"}
    assert {path.name for path in written.iterdir()} == names
    bundle = json.loads((written / "bundle.json").read_text())
    verification = json.loads((written / "verify.json").read_text())
    jsonschema.validate(verification, verify_schema)
    assert bundle["official"] is False
    assert "the problem is minilong, not no4k" in bundle["unofficial_because"]
    claims = bundle["claims"]
    assert claims["tested"] == 8 and claims["preregistration"] is None
    assert 0 < claims["p_adjusted"] < 0.05 and 0 < claims["p_adjusted_within_families"] < 0.05
    interval, found = claims["spearman_ci95_after_choice"], verification["spearman"]
    assert interval["low"] < found["value"] < interval["high"] < 1
    assert bundle["submission"]["sha256"] == sha256_file(written / "submission.json")
    assert set(bundle["code"]) == {"revision", "dirty"}
    total = bundle["compute"]["total"]
    assert total["tokens_processed"] == 23 * 2 * 1200 and total["tokens_scored"] == 23 * 2 * 1000
    assert total["seconds"] == 23 * 5.0 and total["devices"] == ["cuda"]
    assert bundle["models"]["smollm2-135m"]["revision"] == "abc123"
    assert bundle["seeds"] == {"verification": 0, "extraction": [0], "conditions": ["full: {}"]}
    assert len(bundle["files"]["proxy"]["sha256"]) == 64
    assert bundle["versions"]["torch (extraction)"] == "2.7"
    assert bundle["lineage"]["foreign"] == []
    page = (written / "README.md").read_text()
    for words in ("Spearman", "55,200 tokens processed", "abc123", "tokenmart reproduce ."):
        assert words in page


def test_the_record_of_a_submission_is_its_verification(submit, tmp_path):
    (record,) = records(submit("--json"), "submit")
    verification = json.loads((tmp_path / "out" / "verify.json").read_text())
    assert record["folder"] == str(tmp_path / "out")
    assert record["spearman"] == verification["spearman"]["value"]
    assert record["spearman_ci95_low"] == verification["spearman"]["ci95"]["low"]
    assert record["submission_sha256"] == verification["submission"]["sha256"]


def test_a_bundle_has_what_audits_found(submit, written, tmp_path, monkeypatch):
    assert json.loads((written / "bundle.json").read_text())["audit"] == "Not audited."
    monkeypatch.setattr(
        bundle_module, "audit_line", lambda _, problem: f"{problem}: 5 of 23 conditions"
    )
    assert submit().exit_code == 0
    found = json.loads((tmp_path / "out" / "bundle.json").read_text())["audit"]
    assert found == "minilong: 5 of 23 conditions"


def test_a_bundle_claims_what_correlate_states(submit, minilong, tmp_path):
    """Each metric and idea counts once, and an idea in both directions it was tested in."""
    values = tmp_path / "values.csv"
    models = enumerate(minilong.scores("minilong"))
    values.write_text("model_id,value\n" + "".join(f"{m},{n * 7 % 5}\n" for n, m in models))
    for better in ("higher", "lower"):
        idea = ["--values", str(values), "--better", better]
        done = CliRunner().invoke(correlate, ["--problem", "minilong", *idea])
        assert done.exit_code == 0, done.stderr
    assert submit().exit_code == 0
    claims = json.loads((tmp_path / "out" / "bundle.json").read_text())["claims"]
    done = CliRunner().invoke(select, ["--problem", "minilong", "--json", "--metric", "good"])
    stated = json.loads(done.stdout)
    (row,) = stated["rows"]
    assert claims["tested"] == stated["tested"]["all"] == 10
    names = ("p_adjusted", "p_adjusted_within_families", "spearman_ci95_after_choice")
    assert {name: claims[name] for name in names} == {name: row[name] for name in names}


def test_units_from_before_a_change_of_the_problem_file_are_refused(submit, minilong, tmp_path):
    rows = make_rows(0, 50)
    keys = ("minilong", "gemma3-270m", "full")
    for params in ('{"context": 8}', "{}"):
        write_unit(minilong.workspace, unit_record(keys, 50, 50, probe_params=params), rows)
        done = submit()
        assert done.exit_code == (params != "{}"), done.stderr
        assert ("gemma3-270m under full" in done.stderr) == (params != "{}")


def test_what_is_better_when_lower_is_negated(submit, minilong, written, tmp_path):
    with minilong.write() as connection:
        connection.execute("update metric_catalog set direction = 'lower' where metric = 'good'")
    assert submit(out=tmp_path / "negated").exit_code == 0
    plain = json.loads((written / "submission.json").read_text())
    negated = json.loads((tmp_path / "negated" / "submission.json").read_text())
    assert negated == {model: -score for model, score in plain.items()}
    assert reproduce(tmp_path / "negated").exit_code == 0
    bundle = json.loads((tmp_path / "negated" / "bundle.json").read_text())
    interval, value = bundle["claims"]["spearman_ci95_after_choice"], verified(tmp_path / "negated")
    assert bundle["metric"]["negated"] and bundle["claims"]["verdict"] == "opposite"
    assert interval["low"] <= value <= interval["high"] < 0


def verified(folder: Path) -> float:
    return json.loads((folder / "verify.json").read_text())["spearman"]["value"]


def test_a_model_on_request_is_neither_ranked_nor_submitted(submit, minilong, tmp_path):
    file = minilong.workspace.problems / "minilong.yml"
    extra = "models:\n  - {full_id: on-top, base: smollm2-135m, on_request: true}"
    file.write_text(file.read_text().replace("models:", extra, 1))
    minilong.target("minilong", minilong.scores("minilong") | {"on-top": 9.0})
    with minilong.write() as connection:
        for table, others in (
            ("metric_values", "'good', 'a', 'on-top', 9, 1000, 50, null"),
            ("coverage", "'on-top', 'full', 'full', 50, 1, 0, 49, false, 1, 1, 1, 1, 1, null"),
        ):
            connection.execute(f"insert into {table} values ('minilong', {others})")
        connection.execute(
            "insert into units select * replace ('on-top' as model_id) from units limit 1"
        )
    result = submit()
    assert result.exit_code == 0, result.stderr
    assert "on-top" not in json.loads((tmp_path / "out" / "submission.json").read_text())
    bundle = json.loads((tmp_path / "out" / "bundle.json").read_text())
    assert set(bundle["compute"]["models"]) == set(bundle["models"])
    assert "on-top" not in bundle["models"]
    verification = json.loads((tmp_path / "out" / "verify.json").read_text())
    assert "on-top" not in json.dumps(verification)


def test_refused_without_leaving_anything(submit, minilong, tmp_path):
    def refused(result, *words):
        assert result.exit_code == 1
        assert result.stderr.count("\n") == 1
        for word in words:
            assert word in result.stderr
        assert {path.name for path in tmp_path.iterdir()} == {"checkout"}
        assert recorded_metrics(minilong.workspace, "minilong") == [], "none counts as tested"

    refused(submit(metric="longppl"), "not admissible", "--unofficial")
    refused(submit(metric="partly"), "no value for smollm2-135m", "tokenmart extract")
    refused(submit(metric="ppl"), "no such metric")
    minilong.manifest({"good": ["labels"]})
    path = manifest_path(minilong.workspace)
    path.write_text(path.read_text().replace("model.tokenmart.labels", "seed.tokenmart.labels"))
    refused(submit(), "seed.tokenmart.labels")
    refused(submit("--unofficial"), "seed.tokenmart.labels")
    minilong.manifest({"good": ["stg_token_stats"]})
    with minilong.write() as connection:
        connection.execute("update coverage set documents_done = 48 where model_id = 'gemma3-270m'")
    refused(submit(), "gemma3-270m under full (48 of 50 documents)")
    with minilong.write() as connection:
        connection.execute("delete from coverage where model_id = 'gemma3-270m'")
    refused(submit(), "gemma3-270m (nothing)")
    scores = minilong.scores("minilong")
    minilong.target("minilong", {m: x for m, x in scores.items() if m != "gemma3-270m"})
    refused(submit(), "no target score for gemma3-270m")


def test_a_constant_measured_target_names_what_to_do(submit, minilong):
    """No locked file is at fault, so it isn't that exit code."""
    minilong.target("minilong", dict.fromkeys(minilong.models("minilong"), 0.0))
    result = submit()
    assert result.exit_code == 1
    assert recorded_metrics(minilong.workspace, "minilong") == []
    assert "minilong: every model has the same target score" in result.stderr
    assert "`tokenmart recall --problem minilong`" in result.stderr


@pytest.mark.parametrize(
    ("condition", "counts"),
    [("window_512", True), ("window_5120", False), ("retrieval_with_document", False)],
)
def test_only_what_a_metric_rests_on_must_be_complete(submit, minilong, condition, counts):
    models = minilong.models("minilong")
    minilong.metric("minilong", "gain", "mean@window_512", {m: i for i, m in enumerate(models)})
    minilong.manifest({"gain": ["stg_token_stats"]}, needs="window")
    minilong.coverage("minilong", condition, missing={models[3]: 7})
    result = submit(metric="gain")
    assert (result.exit_code == 1) is counts
    assert ("43 of 50" in result.stderr) is counts


def test_unofficial_is_said_in_the_bundle(submit, tmp_path):
    assert submit("--unofficial", metric="longppl").exit_code == 0
    assert json.loads((tmp_path / "out" / "bundle.json").read_text())["official"] is False
    assert "**unofficial**" in (tmp_path / "out" / "README.md").read_text()


def test_an_existing_folder_is_left_alone(submit, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    result = submit()
    assert result.exit_code == 4 and "choose a new folder" in result.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine.txt"]


def test_reproduce_agrees_and_tolerates_the_last_bits(written, minilong):
    with minilong.write() as connection:
        connection.execute("update metric_values set value = value * (1 + 1e-12)")
    result = reproduce(written)
    assert result.exit_code == 0, result.output
    assert "DIFFERS" not in result.stdout and "moved" not in result.stdout
    assert (
        len(result.stdout.splitlines())
        == 2 + len(json.loads((written / "bundle.json").read_text())) + 1
    )


def test_metrics_built_later_are_not_counted_by_reproduce(written, minilong):
    """The submission recorded those it counted, as of the moment that its bundle states."""
    as_of = json.loads((written / "bundle.json").read_text())["claims"]["as_of"]
    recorded = recorded_metrics(minilong.workspace, "minilong")
    assert len(recorded) == 8 and {each.first_seen for each in recorded} == {as_of}
    models = minilong.models("minilong")
    minilong.metric("minilong", "later", "a", {m: n % 7 for n, m in enumerate(models)})
    result = reproduce(written)
    assert result.exit_code == 0, result.output
    assert len(recorded_metrics(minilong.workspace, "minilong")) == 9


def test_reproduce_names_what_differs(written, minilong):
    with minilong.write() as connection:
        connection.execute(
            "update metric_values set value = value + 1 where model_id = 'gemma3-270m'"
        )
    result = reproduce(written)
    assert result.exit_code == 1
    assert "DIFFERS  scores from the warehouse: gemma3-270m" in result.stdout
    assert "not reproduced: scores from the warehouse" in result.stderr
    (written / "submission.json").write_text((written / "submission.json").read_text() + " ")
    assert "DIFFERS  submission file" in reproduce(written).stdout


def places(value, path=()):
    """Every leaf of a JSON value, by its keys."""
    if isinstance(value, dict | list) and value:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            yield from places(inner, (*path, key))
    else:
        yield path


def edited(content, path):
    inner = content
    for key in path[:-1]:
        inner = inner[key]
    old = inner[path[-1]]
    inner[path[-1]] = old + 1 if isinstance(old, int | float) and old is not True else "edited"


def test_no_number_of_a_bundle_can_be_edited_unseen(written, minilong):
    """Every value that is compared with a bundle, changed together: each is named."""
    path = written / "bundle.json"
    original = json.loads(path.read_text())
    changed = json.loads(path.read_text())
    asked = {("schema",), ("problem",), ("claims", "as_of"), ("metric", "metric"),
             ("metric", "variant"), ("verification", "seed"),
             ("verification", "resamples")}  # fmt: skip
    sections = {"code", "versions", "extraction_code"}
    leaves = [p for p in places(original) if p not in asked and p[0] not in sections]
    for leaf in leaves:
        edited(changed, leaf)
    assert len(leaves) > 100
    found = set(differences(changed, original))
    assert len(found) == len(leaves)
    taken = {**original, "claims": {**original["claims"]}}
    del taken["claims"]["preregistration"]
    assert original["claims"]["preregistration"] is None and len(list(differences(taken, original)))
    original["claims"]["p_adjusted"] /= 2
    path.write_text(json.dumps(original))
    result = reproduce(written)
    assert result.exit_code == 1
    assert "DIFFERS  metrics tested, p-values and preregistration: p_adjusted" in result.stdout


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *(("bundle.json", lambda _, text=text: text)
          for text in ("", "{", "{}", "[]", '{"schema": "other"}')),
        ("bundle.json", lambda text: text[: len(text) // 2]),
        ("bundle.json", lambda text: text.replace('"seed": 0', '"seed": "0"')),
        ("bundle.json", lambda text: text.replace('"resamples": 200', '"resamples": 1e300')),
        ("bundle.json", lambda text: text.replace('"claims"', '"claim"')),
        ("bundle.json", lambda text: text.replace('"metric": "good"', '"metric": "gone"')),
        ("bundle.json", lambda text: text.replace('"problem": "minilong"', '"problem": "x/y"')),
        ("verify.json", lambda text: text[:-5]),
        ("submission.json", lambda text: text.replace("{", "[", 1)),
    ],
)  # fmt: skip
def test_a_damaged_bundle_is_one_line(written, name, damage):
    (written / name).write_text(damage((written / name).read_text()))
    result = reproduce(written)
    assert result.exit_code in (1, 2) and result.stdout == ""
    assert result.stderr.startswith("error: ") and result.stderr.count("\n") == 1


def test_failed_units_cost_too():
    unit = {
        "model_id": "m", "condition": "full", "status": "done", "device": "cpu", "dtype": "float32",
        "tokens_processed": 10, "tokens_scored": 9, "seconds": 1.0, "peak_bytes": 5,
    }  # fmt: skip
    budget = compute_budget([unit, unit | {"status": "failed", "tokens_scored": 0}])
    assert budget["total"]["failed_units"] == 1
    assert budget["total"]["tokens_processed"] == 20
    assert budget["models"]["m"] == budget["conditions"]["full"] == budget["total"]


def test_names_break_neither_the_page_nor_its_table(written):
    """A slug isn't turned back into a name, and no name ends a cell, a line or a code span."""
    bundle = json.loads((written / "bundle.json").read_text())
    verification = json.loads((written / "verify.json").read_text())
    name = "lab/a--b"
    first = next(iter(bundle["models"]))
    bundle["models"] = {name: bundle["models"][first] | {"model_id": "lab--a--b"}}
    bundle["compute"]["models"] = {"lab--a--b": bundle["compute"]["models"][first]}
    assert f"| {name} | `abc123` | 2,400 | 2,000 | 5 | 2.0 |" in bundle_page(bundle, verification)
    bundle["models"] = {"odd|name\nof `mine`": bundle["models"][name]}
    bundle["metric"]["formula"] = "sum(|x|)\n`y` <b>"
    page = bundle_page(bundle, verification)
    assert "| odd\\|name of 'mine' | `abc123` |" in page
    assert "Formula: `sum(|x|) 'y' <b>`\n" in page


def test_a_submission_never_replaces_what_the_project_keeps(submit, minilong, tmp_path):
    workspace = minilong.workspace
    for out in (workspace.lock_files / "mine", workspace.root / "results/downstream"):
        result = submit(out=out)
        assert result.exit_code == 1 and result.stderr.count("\n") == 1
        assert f"--out {out}: not written" in result.stderr
        assert not out.exists()


@pytest.mark.parametrize(("change", "differs"), [(5e-10, 0), (-5e-10, 0), (1e-8, 1), (-1e-7, 1)])
@pytest.mark.parametrize("value", [0.25, -1234.5])
def test_numbers_are_the_same_to_a_relative_difference(value, change, differs):
    found = {"a": [value * (1 + change)], "n": 3}
    assert len(list(differences({"a": [value], "n": 3}, found))) == differs
    assert len(list(differences({"n": 3}, {"n": 4}))) == 1
