"""Committed tables: frozen, checked, and told again without a warehouse."""

from __future__ import annotations

import json
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from made_up_marts import Marts, fill_minilong

from analysis.results.findings import PAGE, PREDICTED, compute_shares, findings_page, readings_saved
from analysis.results.study import _parts, study
from analysis.results.sufficiency import prophecy, sizes, sufficiency
from analysis.results.tables import Frozen, folder_of, freeze, frozen
from analysis.statistics.correlations import spearman
from analysis.statistics.document_noise import DocumentParts
from tokenmart import cli
from warehouse.errors import StorageError
from warehouse.paths import Workspace, find_workspace
from warehouse.problem.spec import load_problem, load_ranked

ROOT = Path(__file__).parents[3]
HERE = find_workspace(ROOT)


@pytest.fixture
def built(workspace: Workspace) -> Workspace:
    """Made-up marts of minilong, with documents and depths, in a checkout with its docs."""
    marts = fill_minilong(Marts(workspace))
    with marts.write() as connection:
        connection.execute(
            "create table metric_documents as select problem, metric, variant, model_id,"
            " doc_id::int as doc_id, value * 100 + (doc_id - 2.5) * hash(model_id, doc_id) % 97 / 9"
            " as numerator, 100.0 as denominator, null::double as weight, 100::bigint as tokens"
            " from metric_values, range(6) as documents(doc_id) where value is not null"
        )
        connection.execute(
            "create table downstream_depths as select problem, model_id, 'multi_key' as kind,"
            " 2048 as length, eighth::int as eighth, score, stderr, 10::bigint as items,"
            " 9::bigint as contexts from downstream_scores, range(8) as eighths(eighth)"
            " where task = 'overall'"
        )
        # beside the score of all: errors of two lengths that count, and of one that doesn't
        connection.execute(
            "insert into downstream_scores by name select problem, model_id, task, score, stderr"
            " from (select problem, model_id, score from downstream_scores where task = 'overall'),"
            " (values ('multi_key_1024', 9.0), ('multi_key_2048', 0.03), ('single_key_4096', 0.04))"
            " as tasks(task, stderr)"
        )
        connection.execute(
            "create table downstream as select problem, model_id, 'multi_key_2048' as task,"
            " item::int as item, (item % 9)::int as cluster, score, 0.5 as answer_nll"
            " from downstream_scores, range(18) as items(item) where task = 'overall'"
        )
        for column in ("family varchar", "base_id varchar", "parameters bigint", "licence varchar"):
            connection.execute(f"alter table models add column {column}")
        for column in ("backend", "attention", "engine"):
            connection.execute(f"alter table units add column {column} varchar default 'x'")
        connection.execute("alter table units add column finished_at timestamp")
    (workspace.root / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "e2lm_readings.json", workspace.root / "docs")
    shutil.copytree(ROOT / "data" / "published", workspace.root / "data" / "published")
    return workspace


@pytest.fixture
def marts_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """`freeze` reads marts and Parquet files; the made-up warehouse has them all in one place."""
    from warehouse.sql.connection import connect_read_only

    monkeypatch.setattr("analysis.results.tables.connect_for_queries", connect_read_only)


def tell(*arguments: str) -> Any:
    return CliRunner().invoke(cli, ["results", *arguments])


def test_sizes_double_up_to_all_documents() -> None:
    assert [sizes(n) for n in (1, 2, 3, 8, 12)] == [
        [1], [1, 2], [1, 2, 3], [1, 2, 4, 8], [1, 2, 4, 8, 12],
    ]  # fmt: skip


def test_prophecy_by_hand() -> None:
    """Twice a test of reliability 0.5 has 1 / 1.5; half of one of 0.8 has 0.4 / 0.6."""
    assert prophecy(0.5, 2) == pytest.approx(2 / 3)
    assert prophecy(0.8, 0.5) == pytest.approx(2 / 3)
    assert prophecy(0.7, 1) == pytest.approx(0.7)
    assert np.isnan(prophecy(-0.9, 3))


def test_more_documents_rank_as_all_do_and_reliability_is_that_of_a_simulation() -> None:
    """True values, and documents that add noise of variance 4: reliability 1 / (1 + 4/D)."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=300)
    noisy = truth[:, None] + 2 * rng.normal(size=(300, 16))
    points = sufficiency(DocumentParts(noisy, np.ones(noisy.shape), "macro"), truth, seed=1)
    assert [point.documents for point in points] == [1, 2, 4, 8, 16]
    for point in points:
        expected = truth.var() / (truth.var() + 4 / point.documents)
        assert point.reliability == pytest.approx(expected, abs=0.07)
        # the correlation with the truth is the root of the reliability
        assert point.target == pytest.approx(np.sqrt(expected), abs=0.07)
        assert point.low <= point.target <= point.high
    assert points[-1].same_ranking == pytest.approx(1)
    alike = [point.same_ranking for point in points]
    assert alike == sorted(alike)
    assert points[-1].target == pytest.approx(spearman(noisy.mean(axis=1), truth))


@pytest.mark.slow
@pytest.mark.usefixtures("marts_alone")
def test_what_is_frozen_is_told_without_a_warehouse(built: Workspace) -> None:
    problem = load_ranked("minilong", built)
    tables = freeze(problem, built, folder_of(built, "minilong"))
    assert tables.manifest["rows"]["metric_documents"] > 100
    before = study(tables, built)
    built.database.unlink()
    shutil.rmtree(built.data / "tries", ignore_errors=True)
    again = frozen(folder_of(built, "minilong"))
    assert again is not None and study(again, built) == before
    assert not (built.data / "tries").exists()
    assert before["models"] == len(load_problem("minilong", built).models)
    assert "good" in [row["metric"] for row in before["rows"]]
    assert before["target"]["contexts"] == 9 and before["target"]["tasks"] == ["multi_key"]
    assert before["documents"]["good/a"][-1]["documents"] == 6
    # sqrt(0.03^2 + 0.04^2) / 2, of the lengths that count
    assert before["target"]["mean_stderr_apart"] == pytest.approx(0.025)
    for rows in before["misplaced"].values():
        assert sum(row["models"] for row in rows) == before["models"]
        assert sum(row["models"] * row["places"] for row in rows) == pytest.approx(0, abs=1e-9)
    plain = before["plain"]
    assert plain["p_single"] <= plain["p_adjusted"]
    assert plain["below_5_percent_adjusted"] <= plain["below_5_percent_alone"] <= plain["variants"]
    page = findings_page(built, before)
    assert "`good`" in page and "Not run yet" not in page
    groups = pq.read_table(tables.folder / "item_groups.parquet")
    assert set(groups["items"].to_pylist()) == {2}


@pytest.mark.usefixtures("marts_alone")
def test_the_same_warehouse_freezes_to_the_same_bytes(built: Workspace) -> None:
    problem = load_ranked("minilong", built)
    one, other = (freeze(problem, built, built.root / name) for name in ("one", "other"))
    assert one.manifest["sha256"] == other.manifest["sha256"]


@pytest.mark.slow
@pytest.mark.usefixtures("marts_alone")
def test_what_is_registered_when_scores_are_frozen_is_no_prediction(built: Workspace) -> None:
    problem = load_ranked("minilong", built)
    shutil.copytree(ROOT / "data" / "preregistered", built.preregistered)
    shutil.copytree(ROOT / "dbt_project", built.dbt_project, dirs_exist_ok=True)
    tables = freeze(problem, built, folder_of(built, "minilong"))
    path = built.preregistered / "minilong.json"
    (entry,) = json.loads(path.read_text())["entries"]
    assert datetime.fromisoformat(entry["recorded_at"]) < datetime.fromisoformat(
        tables.manifest["frozen_at"]
    )
    before = study(tables, built)
    assert [row["entry"] for row in before["registered"]] == [1]
    assert before["registered_late"] == []
    manifest = json.loads((tables.folder / "manifest.json").read_text())
    manifest["parts"][0]["frozen_at"] = "2026-11-22T00:00:00+00:00"
    after = study(Frozen(tables.folder, manifest), built)
    assert after["registered"] == []
    assert after["registered_late"] == [{"metric": "retrieval_gain/mean@retrieval", "entry": 1}]
    page = " ".join(findings_page(built, after).split())
    assert "was registered (entry 1) when the scores lay here already: no prediction" in page
    assert "Nothing was registered in time." in page


def test_times_of_a_kept_target_are_those_of_its_measurement() -> None:
    def part(target: bool, *pieces: tuple[str, float]) -> dict[str, Any]:
        found = [{"kind": kind, "seconds": seconds} for kind, seconds in pieces]
        log = {"machine": {"cores": len(pieces)}, "pieces": found}
        return {"frozen_at": "2026-01-01", "documents": [0], "target": target, "campaign": log}

    first = part(True, ("recall", 5.0), ("documents", 99.0))
    added = part(False, ("documents", 10.0), ("recall", 7.0))
    cost = _parts(Frozen(Path(), {"parts": [first, added]}))
    assert cost["campaign_seconds"] == 114.0
    assert [each["machine"]["cores"] for each in cost["parts"]] == [2, 2]
    unknown = _parts(Frozen(Path(), {"parts": [first, added | {"campaign": None}]}))
    assert unknown["campaign_seconds"] is None and unknown["parts"][1]["machine"] is None


@pytest.mark.usefixtures("marts_alone")
def test_models_that_read_other_documents_are_noted(built: Workspace) -> None:
    with duckdb.connect(str(built.database)) as connection:
        connection.execute(
            "delete from metric_documents where doc_id = 5 and model_id in"
            " (select min(model_id) from units where problem = 'minilong')"
        )
    said = tell("freeze", "--problem", "minilong", "--out", str(built.root / "part"))
    assert said.exit_code == 0, said.output
    assert "note: models have read 5 to 6 documents" in said.output


@pytest.mark.usefixtures("marts_alone")
def test_the_commands_freeze_tell_and_check(built: Workspace) -> None:
    said = tell("freeze", "--problem", "minilong")
    assert said.exit_code == 0 and "results/minilong" in said.output, said.output
    assert "models have read" not in said.output
    said = tell("tell")
    assert said.exit_code == 0, said.output
    figures = json.loads((folder_of(built, "minilong") / "figures.json").read_text())
    drawn = (built.root / "docs" / "images" / "recall.svg").read_text("utf-8")
    told = {name for name, each in figures["told"].items() if each}
    assert all(name in drawn for name in (next(iter(told)), figures["baseline"]))
    points = 2 * figures["models"]  # two panels
    assert drawn.count('aria-roledescription="point"') == points, drawn[:3000]
    assert tell("tell", "--check").exit_code == 0
    page = built.root / PAGE
    page.write_text(page.read_text().replace("0.8", "0.9", 1))
    said = tell("tell", "--check")
    assert said.exit_code == 1 and "findings.md" in said.output and "make results" in said.output
    (folder_of(built, "minilong") / "costs.parquet").write_bytes(b"")
    said = tell("tell")
    assert said.exit_code == 4 and "costs.parquet: sha256 is" in said.output
    (folder_of(built, "minilong") / "costs.parquet").unlink()
    assert "costs.parquet: missing" in tell("tell").output


@pytest.mark.parametrize("content", ["", "[]", '{"schema": "x", "sha256": {}}'])
def test_a_broken_manifest_is_named(content: str, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(StorageError, match=r"manifest\.json: can't be read .*restore it"):
        frozen(tmp_path)
    assert frozen(tmp_path / "elsewhere") is None


def test_nothing_built_is_nothing_to_freeze(workspace: Workspace) -> None:
    shutil.copytree(ROOT / "data" / "problems", workspace.problems, dirs_exist_ok=True)
    said = tell("freeze", "--problem", "minilong")
    assert said.exit_code != 0 and "dbt build" in said.output and "Traceback" not in said.output


def test_without_tables_the_page_says_so(built: Workspace) -> None:
    said = tell("tell")
    assert said.exit_code == 0 and "not run yet" in said.output
    assert "**Not run yet.**" in (built.root / PAGE).read_text()


def test_the_earliest_stage_that_decides_is_found() -> None:
    readings = [
        {
            "problem": "p",
            "target": "acc",
            "stages": [
                {"stage": "5%", "readings": [{"reading": "acc", "decision_accuracy": 0.7},
                                             {"reading": "bpb", "decision_accuracy": 0.86}]},
                {"stage": "25%", "readings": [{"reading": "acc", "decision_accuracy": 0.91}]},
            ],
        }
    ]  # fmt: skip
    acc, bpb = readings_saved(readings)
    assert acc["first"] == ["25%", "25%", "25%"] and acc["is_target"]
    assert bpb["first"] == ["5%", "5%", None] and not bpb["is_target"]


def test_compute_of_a_size_is_six_n_d() -> None:
    """412M parameters and 8.2 billion tokens against 6.9 billion and 138: about one part in 280."""
    shares = compute_shares(HERE)
    assert shares[PREDICTED] == 1
    assert shares["400M-1x"] == pytest.approx(0.412 * 8.24 / (6.89 * 137.8), rel=0.05)


def test_findings_and_figures_are_what_the_committed_tables_say() -> None:
    """The committed page is what `make results` makes of the committed tables."""
    tables = frozen(folder_of(HERE, "minilong"))
    figures = None if tables is None else study(tables, HERE)
    assert findings_page(HERE, figures) == (ROOT / PAGE).read_text("utf-8")
    if tables is not None:
        committed = json.loads((tables.folder / "figures.json").read_text("utf-8"))
        assert committed == json.loads(json.dumps(figures))
