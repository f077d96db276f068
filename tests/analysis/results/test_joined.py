"""Documents read on several machines, frozen as one set of tables."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from dbt_harness import PARSED
from made_up_warehouse import Retrieval, Shape, Window, write_warehouse

from analysis.results.joined import join
from analysis.results.tables import folder_of, frozen, frozen_parts
from tokenmart import cli
from warehouse.errors import TokenmartError
from warehouse.metrics.tries import Try, remember, tries_in
from warehouse.paths import Workspace, find_workspace
from warehouse.problem.spec import load_problem

ROOT = Path(__file__).parents[3]
HERE = Path("results/minilong")

Rows = list[tuple[str, str, str, int, float]]
"""Metric, variant, model, document, value."""


def tables(rows: Rows, **changes: Any) -> dict[str, pa.Table]:
    """Frozen tables of metric `m` on two models and three documents."""
    schema = pa.schema({"metric": pa.string(), "variant": pa.string(), "model_id": pa.string()})
    names = {"metric": "m", "written": "a=1", "code": "x", "direction": "higher", "transform": ""}
    models = [
        {"full_id": name, "base_id": name, "revision": "r", "interventions": "[]"}
        | {"tokenizer_sha256": "t"}
        for name in ("one", "two")
    ]
    found: dict[str, Any] = {
        "metric_values": [{"value": 0.0}],
        "metric_documents": [
            dict(zip(schema.names, row, strict=False))
            | {"problem": "p", "doc_id": row[3], "numerator": 2 * row[4], "denominator": 2.0}
            for row in rows
        ],
        "metric_catalog": [names | {"variant": v} for v in sorted({row[1] for row in rows})],
        "models": models,
        "documents": [{"doc_id": n, "sha256": f"{n}"} for n in range(3)],
        "costs": [
            {"model_id": "one", "condition": "full", "status": "done", "first_finished": 1}
            | {"documents": 1, "seconds": 2.0}
        ],
        **{name: [{"score": 1.0}] for name in ("downstream_scores", "downstream_depths")},
        "item_groups": [{"score": 1.0}],
    }
    return {name: pa.Table.from_pylist(changes.get(name, each)) for name, each in found.items()}


BEFORE: Rows = [("m", "v", model, doc, value) for model, doc, value in (
    ("one", 0, 1.0), ("one", 1, 3.0), ("two", 0, 5.0), ("two", 1, 7.0),
)]  # fmt: skip
"""Means 2 and 6: the models' standard deviation is 2."""


def test_other_documents_are_added_and_what_was_read_twice_is_compared() -> None:
    now = tables([("m", "v", "one", 2, 4.0), ("m", "v", "two", 2, 9.0), ("m", "v", "one", 1, 3.1)])
    later = now["costs"].to_pylist()[0] | {"first_finished": 2}
    joined = join(tables(BEFORE), now | {"costs": pa.Table.from_pylist([later])}, HERE)
    rows = joined.tables["metric_documents"].to_pylist()
    values = {(r["model_id"], r["doc_id"]): r["numerator"] / r["denominator"] for r in rows}
    assert len(rows) == 6
    assert values == {("one", 0): 1, ("one", 1): pytest.approx(3.1), ("one", 2): 4,
                      ("two", 0): 5, ("two", 1): 7, ("two", 2): 9}  # fmt: skip
    assert joined.tables["costs"]["seconds"].to_pylist() == [2.0, 2.0]
    overlap = joined.overlap
    assert overlap is not None and joined.left_out == ()
    assert (overlap.models, overlap.documents, overlap.values) == (1, 1, 1)
    assert overlap.largest == pytest.approx(0.05) and overlap.variant == "m/v"


def test_nothing_read_twice_is_no_overlap() -> None:
    assert join(tables(BEFORE), tables([("m", "v", "one", 2, 4.0)]), HERE).overlap is None


def test_a_run_that_went_on_is_no_second_reading() -> None:
    now = tables([*BEFORE, ("m", "v", "one", 2, 4.0)])
    joined = join(tables(BEFORE), now, HERE, known={0, 1})
    assert joined.overlap is None and joined.tables["metric_documents"].num_rows == 5
    assert joined.tables["costs"]["seconds"].to_pylist() == [2.0]
    other = join(tables(BEFORE), now, HERE, known={0})
    assert other.overlap is not None and other.overlap.documents == 1


def test_readings_that_differ_are_refused() -> None:
    now = tables([("m", "v", "two", 0, 5.3)])
    told = r"document 0 was read twice by two, and m/v is 5\.3 now and was 5: 0\.15 standard"
    with pytest.raises(TokenmartError, match=told):
        join(tables(BEFORE), now, HERE)


def test_models_that_are_all_alike_on_a_metric_must_be_read_alike() -> None:
    alike: Rows = [("m", "v", model, 0, 1.0) for model in ("one", "two")]
    join(tables(alike), tables([("m", "v", "one", 0, 1.0 + 1e-9)]), HERE)
    with pytest.raises(TokenmartError, match="read twice"):
        join(tables(alike), tables([("m", "v", "one", 0, 1.001)]), HERE)


def test_a_variant_that_is_defined_otherwise_is_left_out() -> None:
    both: Rows = [*BEFORE, *(("m", "w", *row[2:]) for row in BEFORE)]
    before = tables(both)
    catalog = before["metric_catalog"].to_pylist()
    catalog[1]["code"] = "changed"
    before["metric_catalog"] = pa.Table.from_pylist(catalog)
    joined = join(before, tables([*both, ("m", "new", "one", 2, 1.0)]), HERE)
    assert joined.left_out == ("m/new", "m/w")
    assert set(joined.tables["metric_documents"]["variant"].to_pylist()) == {"v"}
    assert joined.tables["metric_catalog"]["variant"].to_pylist() == ["v"]


@pytest.mark.parametrize(
    ("table", "rows", "told"),
    [
        ("documents", [{"doc_id": 0, "sha256": "other"}], r"3 documents are not those .*\(0, 1, 2"),
        ("models", [{"full_id": "one", "base_id": "one", "revision": "r", "interventions": "[1]"}
                    | {"tokenizer_sha256": "t"}], r"2 models are not those .*\(one, two\)"),
        ("metric_catalog", [{"metric": "m", "variant": "v", "written": "a=2", "code": "x",
                             "direction": "higher", "transform": ""}], "no metric is defined"),
    ],
)  # fmt: skip
def test_what_belongs_to_others_is_refused(table: str, rows: list[Any], told: str) -> None:
    with pytest.raises(TokenmartError, match=told):
        join(tables(BEFORE), tables(BEFORE, **{table: rows}), HERE)


SHAPE = Shape(
    "minilong",
    models=6,
    documents=4,
    tokens=900,
    windows=(Window(512, 128),),
    retrieval=Retrieval(4, 16, 8, 64),
    downstream_items=12,
)
CONDITIONS = ("full", "window_512", "retrieval_with", "retrieval_without")


def tell(*words: str) -> Result:
    return CliRunner().invoke(cli, ["results", *words])


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Workspace]:
    """A checkout on a machine of its own; models, documents and tokens are the same on all."""

    def make(name: str, documents: set[int], *, again: int | None = None) -> Workspace:
        """With what was read: these documents by all models, and `again` by the first two."""
        root = tmp_path / name
        ignored = shutil.ignore_patterns("target", "logs")
        shutil.copytree(ROOT / "dbt_project", root / "dbt_project", ignore=ignored)
        shutil.copytree(ROOT / "data" / "problems", root / "data" / "problems")
        for variable in ("TOKENMART_DATA", "TOKENMART_DATABASE", "DBT_TARGET_PATH"):
            monkeypatch.delenv(variable, raising=False)
        monkeypatch.setenv("TOKENMART_HOME", str(root))
        workspace = find_workspace()
        if PARSED.exists():
            (workspace.dbt_project / "target").mkdir()
            shutil.copy(PARSED, workspace.dbt_project / "target")
        models = load_problem("minilong", workspace).models[: SHAPE.models]
        ids = tuple(model.model_id for model in models)
        skip = {
            (model, condition, document)
            for place, model in enumerate(ids)
            for condition in CONDITIONS
            for document in set(range(SHAPE.documents)) - documents
            if document != again or place > 1
        }
        shape = replace(SHAPE, model_ids=ids, skip=frozenset(skip))
        minute = len(list(tmp_path.iterdir()))
        finished = f"2026-01-01T00:{minute:02}:00Z"
        write_warehouse(workspace.data, replace(shape, finished_at=finished))
        done = CliRunner().invoke(cli, ["dbt", "run", "--quiet"])
        assert done.exit_code == 0, done.output
        return workspace

    return make


def rows_of(folder: Path, table: str) -> list[dict[str, Any]]:
    return pq.read_table(folder / f"{table}.parquet", partitioning=None).to_pylist()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_two_machines_say_what_one_would(machine: Callable[..., Workspace], tmp_path: Path) -> None:
    whole = machine("whole", {0, 1, 2, 3})
    assert tell("freeze", "--problem", "minilong").exit_code == 0

    first = machine("first", {0, 1})
    remember(first, "minilong", [Try("gone", "a", "sql", "select 1", {"smollm2-135m": 1.0})])
    assert tell("freeze", "--problem", "minilong").exit_code == 0

    second = machine("second", {2, 3}, again=1)
    shutil.rmtree(second.data / "downstream")
    nothing = tell("freeze", "--problem", "minilong", "--add")
    assert nothing.exit_code == 1 and "nothing is frozen there to add to" in nothing.output
    shutil.copytree(folder_of(first, "minilong"), folder_of(second, "minilong"))
    built = second.database.read_bytes()
    added = tell("freeze", "--problem", "minilong", "--add")
    assert added.exit_code == 0, added.output
    assert "added: documents 1, 2, 3" in added.output
    assert "read twice: 1 document by 2 models" in added.output
    assert second.database.read_bytes() == built

    joined, alone = folder_of(second, "minilong"), folder_of(whole, "minilong")
    for table, columns in (("metric_values", ("value",)), ("metric_documents", ("numerator",))):
        found, expected = rows_of(joined, table), rows_of(alone, table)
        key = [name for name in found[0] if name in ("metric", "variant", "model_id", "doc_id")]
        found, expected = (
            sorted(rows, key=lambda row: [row[k] for k in key]) for rows in (found, expected)
        )
        assert len(found) > 100
        for one, other in zip(found, expected, strict=True):
            for column in columns:
                value = other.pop(column)
                near = None if value is None else pytest.approx(value, rel=1e-9, abs=1e-12)
                assert one.pop(column) == near
        assert found == expected
    for table in ("downstream_scores", "item_groups"):
        assert rows_of(joined, table) == rows_of(folder_of(first, "minilong"), table) != []
    assert [each.metric for each in tries_in(joined / "tries.json")].count("gone") == 1

    found_now = frozen(joined)
    assert found_now is not None
    parts = frozen_parts(found_now)
    assert [part["documents"] for part in parts] == [[0, 1], [1, 2, 3]]
    assert [part["target"] for part in parts] == [True, False]
    assert parts[1]["overlap"]["largest"] == pytest.approx(0, abs=1e-9)
    assert found_now.manifest["documents"] == [4, 4]

    # the run goes on, or is added twice: it takes its own place
    values, costs = (rows_of(joined, name) for name in ("metric_values", "costs"))
    assert tell("freeze", "--problem", "minilong", "--add").exit_code == 0
    assert rows_of(joined, "metric_values") == values and rows_of(joined, "costs") == costs
    twice = frozen(joined)
    assert twice is not None
    assert [part["overlap"] for part in frozen_parts(twice)[1:]] == [parts[1]["overlap"]]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_tables_of_before_parts_are_added_to(machine: Callable[..., Workspace]) -> None:
    workspace = machine("one", {0, 1})
    assert tell("freeze", "--problem", "minilong").exit_code == 0
    path = folder_of(workspace, "minilong") / "manifest.json"
    manifest = json.loads(path.read_text())
    (part,) = manifest.pop("parts")
    path.write_text(json.dumps(manifest | {"campaign": part["campaign"]}))
    problem = workspace.problems / "minilong.yml"
    text = problem.read_text()
    problem.write_text(text.replace("lengths: [1024, 2048", "lengths: [512, 2048", 1))
    said = tell("freeze", "--problem", "minilong", "--add")
    assert said.exit_code == 1 and "(lengths differ" in said.output
    problem.write_text(text)
    said = tell("freeze", "--problem", "minilong", "--add")
    assert said.exit_code == 0, said.output
    again = frozen(path.parent)
    assert again is not None
    assert [part["documents"] for part in frozen_parts(again)] == [[0, 1]]
    assert [part["target"] for part in frozen_parts(again)] == [True]
    said = tell("freeze", "--problem", "no4k", "--add", "--out", str(path.parent))
    assert said.exit_code == 1 and "holds minilong" in said.output
