"""Ways from a model of a user's own to a target score, all in one `dbt run`: none has an answer."""

from __future__ import annotations

import json
import shutil

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dbt_harness import NewWarehouse, Warehouse
from made_up_warehouse import Shape
from refusal import refuses

from warehouse.metrics.manifest import run_dbt
from warehouse.sql.connection import connect_for_queries
from warehouse.sql.views import quoted
from warehouse.store.parquet_files import write_table
from warehouse.store.schema import DOWNSTREAM

pytestmark = [pytest.mark.slow, pytest.mark.hostile, pytest.mark.timeout(300)]

SECRET = 0.42421337091553
"""A target score that no other number equals."""

# The sandbox itself is tested in tests/warehouse/sql/test_sandbox.py; these are dbt's own ways.
# {items}: the scores' file; {labels}: their folder; {other}: a database with the scores
MODELS = {
    "named": "from downstream",
    "computed_by_jinja": "select * from {{ 'main.down' ~ 'stream' }}",
    "scores_by_task": "select * from downstream_scores",
    "file": "select * from '{items}'",
    "run_query": "{% set found = run_query(\"select max(score) from '{items}'\") %}"
    " select {{ found.columns[0][0] if execute else 0 }} as x",
    "statement": "{% call statement('s', fetch_result=true) %} from '{items}' {% endcall %}"
    " select {{ load_result('s').data[0][3] if execute else 0 }} as x",
    "own_macro": "select * from {{ labels() }}",
    "pre_hook": "{{ config(pre_hook=\"create table main.kept as from '{items}'\") }}"
    " from main.kept",
    "post_hook": "{{ config(materialized='table', "
    'post_hook="insert into {{ this }} '
    "select score from '{items}'\") }}"
    " select cast(null as double) as x",
    "attached": "{{ config(pre_hook=\"attach '{other}' as other\") }} select * from other.scores",
    "wider_sandbox": '{{ config(pre_hook="set enable_external_access = true") }}'
    " select * from '{items}'",
    "other_folders": "{{ config(pre_hook=\"set global allowed_directories = ['{labels}/']\") }}"
    " select * from '{items}'",
    "extension": "{{ config(pre_hook='install sqlite') }} select 1 as x",
    "external": "{{ config(materialized='external', location='{labels}/../new.parquet') }}"
    " select 1 as x",
    "source_file": "select * from {{ source('own', 'labels') }}",
    "python_job": "{{ adapter.submit_python_job({'alias': 'p', 'schema': 'main'},"
    " \"def model(dbt, session): return session.sql('select 1 as x')\") }} select 1 as x",
}


@pytest.fixture(scope="module")
def hostile(new_warehouse: NewWarehouse, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """A warehouse with scores of `SECRET`, and a project with all of `MODELS`."""
    folder = tmp_path_factory.mktemp("hostile")
    own = new_warehouse(Shape(models=1, documents=1, tokens=200)).with_own_project(folder)
    items = own.data / "downstream" / "problem=synthetic" / "model_id=x" / "items.parquet"
    rows = [{"task": "t", "item": n, "cluster": n, "score": SECRET} for n in range(4)]
    write_table(items, pa.Table.from_pylist(rows, DOWNSTREAM))
    with duckdb.connect(str(folder / "other.duckdb")) as connection:
        connection.execute(f"create table scores as select {SECRET} as score")
    places = {
        "items": items,
        "labels": own.data / "downstream",
        "other": folder / "other.duckdb",
    }
    models = own.project / "models" / "hostile"
    models.mkdir()
    for name, sql in MODELS.items():
        for place, path in places.items():
            sql = sql.replace(f"{{{place}}}", str(path))
        (models / f"hostile_{name}.sql").write_text(sql)
    (models / "hostile.yml").write_text(
        "sources:\n  - name: own\n    schema: main\n    tables:\n      - name: labels\n"
        f"        config: {{meta: {{external_location: \"'{items}'\"}}}}\n"
    )
    macros = own.project / "macros" / "labels.sql"
    macros.write_text(f"{{% macro labels() %}}read_parquet('{items}'){{% endmacro %}}")
    return own


def test_no_model_reaches_a_target_score(hostile):
    done = hostile.dbt("run", "--select", "path:models/hostile")
    text = (hostile.database.parent / "target" / "run_results.json").read_text()
    results = {r["unique_id"].split(".")[2]: r for r in json.loads(text)["results"]}
    assert str(SECRET) not in done.stdout and str(SECRET) not in text
    results.pop("tokenmart-on-run-end-0")
    assert {name: result["status"] for name, result in results.items()} == {
        f"hostile_{name}": "error" for name in MODELS
    }
    assert not list(hostile.data.rglob("new.parquet"))
    built = hostile.rows("select table_name from duckdb_tables()")
    assert not {name for (name,) in built} & {"kept", *results}


@pytest.mark.parametrize("hook", ["on-run-start", "on-run-end"])
def test_no_hook_reaches_a_target_score(hostile, tmp_path, hook):
    own = hostile.with_own_project(tmp_path)
    project = own.project / "dbt_project.yml"
    head, _, tail = project.read_text().partition("on-run-end:")
    create = f"create table main.kept as from '{own.data}/downstream/**/*.parquet'"
    project.write_text(f'{head}{hook}: "{create}"\n\nmodels:{tail.partition("models:")[2]}')
    shutil.rmtree(own.project / "models" / "hostile")
    done = own.dbt("run", "--select", "token_units")
    assert done.returncode != 0 and "Permission" in done.stdout
    assert own.rows("select * from duckdb_tables() where table_name = 'kept'") == []


HOOKS = {
    "footer": "copy (from read_parquet('{tokens}', hive_partitioning = false) limit 9)"
    " to '{tokens}'"
    " (format parquet, kv_metadata {{'tokenmart.units': {ledger}, 'tokenmart.schema': '3'}})",
    "no footer": "copy (from read_parquet('{tokens}', hive_partitioning = false) limit 9)"
    " to '{tokens}' (format parquet)",
    "table": "copy (select 1 as x) to '{table}' (format parquet)",
    "removed": "copy (select 1 as x) to '{folder}'"
    " (format csv, per_thread_output true, overwrite true)",
}
"""Ways to change what dbt reads."""


@pytest.mark.parametrize(
    ("written", "command"),
    [("footer", "run"), ("no footer", "build"), ("table", "run"), ("removed", "run")],
)
def test_a_hook_that_changes_the_store_is_named(new_warehouse, tmp_path, written, command):
    """What it read was replaced: dbt fails, however it was started, and commands after it do."""
    fresh = new_warehouse(Shape(models=1, documents=1, tokens=200)).with_own_project(tmp_path)
    tokens = next((fresh.data / "tokens").rglob("tokens.parquet"))
    write_table(tokens, pq.read_table(tokens, partitioning=None))
    (ledger,) = duckdb.execute(
        "select decode(value) from parquet_kv_metadata($1) where decode(key) = 'tokenmart.units'",
        [str(tokens)],
    ).fetchone()
    table = next((fresh.data / "documents").rglob("documents.parquet"))
    places = {"tokens": tokens, "table": table, "folder": tokens.parent}
    hook = {"config": {"pre_hook": HOOKS[written].format(ledger=quoted(ledger), **places)}}
    (fresh.project / "models" / "mine.sql").write_text("select 1 as x")
    (fresh.project / "models" / "mine.yml").write_text(
        json.dumps({"models": [{"name": "mine", **hook}]})
    )
    changed = table if written == "table" else tokens
    intact = changed.read_bytes()
    with fresh.as_workspace() as workspace:
        assert run_dbt(["run", "--select", "token_units"], workspace) == 0
        with refuses("damaged-file", str(changed)):
            run_dbt([command, "--select", "mine"], workspace)
        assert not changed.exists() or changed.read_bytes() != intact
        if written != "removed":  # else it is as if it had never been computed
            with refuses("damaged-file", str(changed)):
                connect_for_queries(workspace)
        changed.write_bytes(intact)
        plain = fresh.dbt(command, "--select", "mine")
        assert plain.returncode == 1 and f"{changed}: " in plain.stdout


def test_a_model_in_python_is_refused(hostile, tmp_path):
    own = hostile.with_own_project(tmp_path)
    shutil.rmtree(own.project / "models" / "hostile")
    (own.project / "models" / "in_python.py").write_text(
        "def model(dbt, session):\n    import duckdb\n"
        f"    return duckdb.sql(\"from '{own.data}/downstream/**/*.parquet'\")\n"
    )
    done = own.dbt("run", "--select", "in_python")
    assert done.returncode != 0 and "in_python" in done.stdout
    assert own.rows("select * from duckdb_tables() where table_name = 'in_python'") == []
