"""A metric family is found in its folder, and missing or wrong parts are named."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from dbt_harness import PROJECT, Warehouse

from warehouse.errors import TokenmartError
from warehouse.metrics.registry import LIST, find_families

META = {
    "metric": "steps",
    "family": "custom",
    "direction": "higher",
    "admissible": True,
    "needs": "full",
}
VARIANTS = "metric,variant,aggregation,over,numerator,denominator\n"


def write_library(project: Path, *entries: dict[str, Any]) -> Path:
    """SQL, YAML, variants and list of some models that count tokens; returns the YAML."""
    folder = project / "models" / "marts" / "custom"
    folder.mkdir(parents=True, exist_ok=True)
    (project / "variants").mkdir(exist_ok=True)
    names = [entry["name"] for entry in entries]
    for name in names:
        (folder / f"{name}.sql").write_text("select * from {{ ref('token_metrics') }}\n")
        row = f"{name},mean,macro,tokens,count(*),1\n"
        (project / "variants" / f"{name}.csv").write_text(VARIANTS + row)
    listed = "\n".join(f"    '{name}'," for name in names)
    (project / LIST).write_text(f"{{%- set metrics = [\n{listed}\n]\n%}}\n")
    path = folder / "_custom.yml"
    path.write_text(yaml.safe_dump({"models": list(entries)}), encoding="utf-8")
    return path


def entry(name: str = "steps", **meta: object) -> dict[str, Any]:
    return {"name": name, "config": {"meta": {**META, "metric": name, **meta}}}


def refusal(project: Path) -> str:
    with pytest.raises(TokenmartError) as caught:
        find_families(project)
    assert "\n" not in caught.value.message
    return caught.value.message


def test_what_ships_is_whole() -> None:
    families = {family.metric: family for family in find_families(PROJECT)}
    assert len(families) >= 40
    assert families["longppl"].transform == "exp" and families["longppl"].caution
    assert families["confident_mistakes"].sql.parent.name == "custom"


@pytest.mark.parametrize(
    ("meta", "said"),
    [
        ({"metric": "stairs"}, "meta.metric of steps is 'stairs'; write the name of the model"),
        ({"direction": "up"}, "meta.direction of steps is 'up'; write higher or lower"),
        ({"admissible": "yes"}, "meta.admissible of steps is 'yes'; write true or false"),
        ({"family": " "}, "meta.family of steps is ' '; write a word or two"),
        ({"needs": None}, "meta.needs of steps is None; write a word or two"),
        ({"transform": "log"}, "meta.transform of steps is 'log'; write exp"),
    ],
)
def test_a_field_that_is_wrong_is_named(tmp_path: Path, meta: dict[str, object], said: str) -> None:
    path = write_library(tmp_path, entry(**meta))
    assert refusal(tmp_path).startswith(f"{path}: {said}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("models: [", "not YAML ("),
        ("models: steps", "models: must be a list"),
        ("models:\n  - name: steps\n    config: []\n", "config of steps is []; write a mapping"),
        (
            "models:\n  - name: steps\n    config: {meta: {metric: steps, family: custom}}\n",
            "meta.direction of steps is missing; write higher or lower",
        ),
        ("models:\n  - name: other\n", "no YAML describes the model steps; add it to "),
        ("models:\n  - name: steps\n  - name: other\n", "there is no other.sql for it"),
    ],
)
def test_a_broken_yaml_is_named(tmp_path: Path, text: str, said: str) -> None:
    write_library(tmp_path, entry()).write_text(text, encoding="utf-8")
    found = refusal(tmp_path)
    assert said in found and "custom/" in found


def test_a_family_without_variants_and_variants_without_a_family_are_named(tmp_path: Path) -> None:
    write_library(tmp_path, entry())
    path = tmp_path / "variants" / "steps.csv"
    path.rename(path.with_name("step.csv"))
    assert refusal(tmp_path).startswith(f"{path}: not there, and the metric steps has no variants")
    shutil.copy(path.with_name("step.csv"), path)
    assert refusal(tmp_path) == (
        f"{path.with_name('step.csv')}: there is no metric step; did you mean 'steps'? rename the "
        "file after its metric, or remove it"
    )


def test_a_family_that_is_not_listed_and_a_name_that_is_no_family_are_named(tmp_path: Path) -> None:
    write_library(tmp_path, entry())
    path = tmp_path / LIST
    listed = path.read_text()
    path.write_text(listed.replace("    'steps',\n", ""))
    wanted = "the metric steps is not in `set metrics = […]`; add 'steps' to it"
    assert refusal(tmp_path) == f"{path}: {wanted}"
    path.write_text(listed.replace("'steps',", "'steps',\n    'stepz',"))
    assert "`set metrics = […]` has stepz, which is no metric; did you mean" in refusal(tmp_path)


def test_helpers_and_disabled_models_are_no_families(tmp_path: Path) -> None:
    off = entry("off")
    off["config"]["enabled"] = False
    write_library(tmp_path, {"name": "helper"}, off)
    (tmp_path / LIST).write_text("{%- set metrics = [\n]\n%}\n")
    for path in (tmp_path / "variants").glob("*.csv"):
        path.unlink()
    assert find_families(tmp_path) == []


@pytest.mark.slow
def test_plain_dbt_stops_at_a_mistake_in_one_line(built: Warehouse, tmp_path: Path) -> None:
    own = built.with_own_project(tmp_path)
    path = own.project / "variants" / "rank.csv"
    path.write_text(path.read_text(encoding="utf-8").replace("(rank = 1)", "(rang = 1)", 1))
    with own.as_workspace():
        done = own.dbt("run", "--select", "stg_metric_variants")
    assert done.returncode != 0
    (line,) = [line for line in done.stdout.splitlines() if "rank.csv" in line]
    assert "rank.csv, line 2: column numerator of top_1 reads the column rang, which" in line
    assert "did you mean 'rank'?" in line
