"""The shipped series: figures computed on them elsewhere."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from dbt_harness import Warehouse
from signal_oracle import order_agreement

from plugins.benchmarks.e2lm.scores import open_problem
from plugins.benchmarks.e2lm.scoring_methods import compare_scoring_methods
from plugins.benchmarks.model_sql import ModelSql
from plugins.benchmarks.scores.score_store import read_table, store_scores
from plugins.benchmarks.scores.table_problem import TableProblem, find_table
from warehouse.paths import Workspace, find_workspace

SHIPPED = find_workspace(Path(__file__))


def problem(name: str) -> TableProblem:
    found = find_table(name, SHIPPED)
    assert found is not None
    return found


@pytest.mark.slow
def test_signal_quality_on_the_ladder():
    """Mean SQ over 14 early checkpoints of 25 runs, as computed elsewhere to two digits."""
    with open_problem("ladder", read_table(problem("ladder"), SHIPPED)) as database:
        order = ModelSql(database, SHIPPED).build("int_series_order")
        rows = database.execute(
            f"select metric, avg(sq), count(distinct model_id), min(checkpoints), max(checkpoints)"
            f" from {order} where not model_id like '%-rerun' and not model_id like '%-final'"
            " and metric != 'cross_entropy' group by metric"
        ).fetchall()
    assert {row[0]: round(row[1], 2) for row in rows} == {
        "bpb": 0.93,
        "soft_log": 0.84,
        "soft": 0.78,
        "accuracy": 0.70,
    }
    assert {row[2:] for row in rows} == {(25, 14, 14)}


def test_sampling_error_of_lambada_on_pythia():
    """.0053 for 70m and .0065 for 6.9b: the deduplicated models, their last three checkpoints."""
    table = pq.read_table(SHIPPED.root / problem("pythia").table.path).to_pylist()
    for model, expected in (("pythia-70m-deduped", 0.0053), ("pythia-6.9b-deduped", 0.0065)):
        errors = {
            row["step"]: row["stderr"]
            for row in table
            if (row["model"], row["benchmark"], row["metric"]) == (model, "lambada_openai", "acc")
        }
        last = [errors[step] for step in sorted(errors)[-3:]]
        assert round(float(np.mean(last)), 4) == expected


def test_decision_accuracy_of_dclm():
    """400M to 7B, 12 recipes, the last evaluation of each: as published, but for how ties count."""
    published = {
        "arc_easy": 0.89, "lambada_openai": 0.86, "arc_challenge": 0.82, "hellaswag": 0.67,
        "mmlu_fewshot": 0.58, "boolq": 0.47, "copa": 0.39,
    }  # fmt: skip
    rows = pq.read_table(SHIPPED.root / problem("dclm").table.path).to_pylist()
    for task, expected in published.items():
        sizes: dict[str, dict[str, float]] = {"400M": {}, "7B": {}}
        for row in sorted(rows, key=lambda row: str(row["model"])):
            size = str(row["size"]).split("-")[0]
            if (row["benchmark"], row["metric"]) == (task, "accuracy") and size in sizes:
                sizes[size][row["recipe"]] = row["score"]
        small, large = sizes["400M"], sizes["7B"]
        pairs = list(combinations(sorted(small.keys() & large.keys()), 2))
        ties = sum(small[a] == small[b] or large[a] == large[b] for a, b in pairs)
        assert len(pairs) == 66
        slack = ties / 2 / len(pairs) + 0.005
        assert order_agreement(small, large) == pytest.approx(expected, abs=slack), task


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dclm", "pythia"])
def test_early_scores_need_no_final_score(tmp_path, name):
    """dbt, which has no later scores, builds what the whole table gives."""
    warehouse = Warehouse(tmp_path / "data", tmp_path / "t.duckdb")
    table = problem(name)
    brought = read_table(table, SHIPPED)
    store_scores(brought, Workspace(SHIPPED.root, warehouse.data, warehouse.database), table)
    warehouse.run("--select", "+early_score_catalog")
    query = "select metric, variant, model_id, round(value, 9), reason from {} order by all"
    with open_problem(name, brought) as database:
        whole = database.execute(
            query.format(ModelSql(database, SHIPPED).build("early_scores"))
        ).fetchall()
    assert warehouse.rows(query.format("early_scores")) == whole
    assert sum(value is not None for *_, value, _ in whole) > 1000
    assert warehouse.rows(
        "select count(*) from early_scores anti join early_score_catalog using (metric, variant)"
    ) == [(0,)]


STUDY = json.loads((SHIPPED.root / "studies/early_decisions/figures.json").read_text())
DECISIONS = {
    **{
        name: {
            (stage, method): row["single"]
            for stage, rows in STUDY[part]["stages"].items()
            for method, row in [*rows.items(), *STUDY[part]["without_evaluation"].items()]
        }
        for name, part in (("ladder", "olmo"), ("pythia", "pythia"))
    },
    # the study has other recipes and tasks for accuracy
    "dclm": {
        (size, "task_loss"): STUDY["dclm"][f"{size} task_loss"]["single"]
        for size in ("400M-1x", "1B-1x")
    },
}
"""Stage and scoring method → decision accuracy, by a second implementation: recompute.py there."""


@pytest.mark.parametrize("name", [pytest.param("ladder", marks=pytest.mark.slow), "pythia", "dclm"])
def test_decision_accuracies_are_those_of_the_study(name):
    found = compare_scoring_methods(name, SHIPPED, resamples=500)
    ours = {}
    for stage in found["stages"]:
        for row in stage["scoring_methods"]:
            ours[stage["stage"], row["scoring_method"]] = value = row["decision_accuracy"]
            if row["no_evaluation"]:
                assert row["scoring_method"] not in stage["held_out"]["chosen"]
                assert name != "dclm" or value == 0.5  # of one size: a coin
            else:
                low, high = row["interval"]
                assert low < value < high
    for key, expected in DECISIONS[name].items():
        assert ours[key] == pytest.approx(expected, abs=1e-6), key


def test_ranking_consistency_of_logiqa_on_pythia_is_that_of_exact_numbers():
    """LogiQA has 651 items, so scores are whole numbers of right answers.

    The early means of pythia-1.4b and pythia-12b-deduped are equal, which counts one half: 0.5222.
    Means in floating point differ by 3e-17; without rounding, they give 0.5208.
    """
    table = pq.read_table(SHIPPED.root / problem("pythia").table.path).to_pylist()
    answers: dict[str, dict[int, int]] = {}
    for row in table:
        if (row["benchmark"], row["metric"]) == ("logiqa", "acc"):
            assert row["score"] * 651 == pytest.approx(round(row["score"] * 651), abs=1e-9)
            answers.setdefault(row["model"], {})[row["step"]] = round(row["score"] * 651)
    steps = sorted(answers["pythia-70m"])
    assert all(sorted(found) == steps for found in answers.values())
    early = [step for step in steps if step <= 0.6 * steps[-1]]
    means = {model: float(sum(found[step] for step in early)) for model, found in answers.items()}
    ties = [pair for pair in combinations(sorted(means), 2) if means[pair[0]] == means[pair[1]]]
    assert ties == [("pythia-1.4b", "pythia-12b-deduped")]
    by_hand = np.mean(
        [
            order_agreement(means, {model: float(found[step]) for model, found in answers.items()})
            for step in steps[len(early) :]
        ]
    )
    with open_problem("pythia", read_table(problem("pythia"), SHIPPED)) as database:
        signal = ModelSql(database, SHIPPED).build("benchmark_signal")
        ((value,),) = database.execute(
            f"select value from {signal} where benchmark = 'logiqa' and metric = 'acc'"
            " and statistic = 'rc'"
        ).fetchall()
    assert value == pytest.approx(by_hand) == pytest.approx(0.52222, abs=1e-5)
