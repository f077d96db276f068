"""What each command returns to scripts: its exit code, and what `--json` prints, nothing else.

The names of records are in tests/helpers/json_records.py; exit codes of failures in test_cli.py.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner
from json_records import SHAPES, records
from tiny_runs import ok, run

from tokenmart import cli
from warehouse.maintenance import doctor
from warehouse.maintenance.doctor import Check


def invoke(*words):
    return CliRunner().invoke(cli, [*words, "--json"])


@pytest.mark.parametrize("missing", [False, True])
def test_doctor(workspace, monkeypatch, missing):
    monkeypatch.setattr(doctor, "devices", lambda: [Check("device", "broken", missing)])
    found = records(invoke("doctor"), "doctor", code=int(missing))
    assert {"name": "device", "finding": "broken", "is_missing": missing} in found


def test_plan_and_status_before_and_after_an_extraction(workspace, tiny_problem):
    path = tiny_problem(texts=1)
    plan, status = (
        ("extract", "--problem", str(path), "--dry-run"),
        ("status", "--problem", str(path)),
    )
    before = invoke(*plan)
    assert [each["units_done"] for each in records(before, "extract")] == [0, 0]
    assert "note: " in before.stderr
    assert ok(run(path))
    after = records(invoke(*plan), "extract")
    assert [each["units_done"] for each in after] == [each["units"] for each in after] == [4, 4]
    assert after[0]["tokens"] > 0 and after[0]["seconds"] > 0
    assert {each["done"] for each in records(invoke(*status), "status")} == {1}
    # a store of version 0.1.0 has no table `needed`, and others that nothing reads any more
    (workspace.store / "needed").rename(workspace.store / "lineup")
    assert {each["done"] for each in records(invoke(*status), "status")} == {1}


def test_metrics_show():
    found = records(invoke("metrics", "show", "perplexity"), "metrics show")
    assert {(each["metric"], each["direction"]) for each in found} == {("perplexity", "lower")}


RETURNS = {
    "init new": 0,
    "init .": 1,
    "doctor --no": 2,
    "data audit --problem minilong --dry-run": 1,
    "data audit --problem nowhere": 1,
    "data check --json": "checked defects repaired",
    "data check --problem nowhere": 1,
    "data fetch --problem nowhere": 1,
    "data gc": 0,
    "data gc --problem nowhere": 1,
    "data import --problem minilong --model x --format no file": 1,
    "data new mine --texts nowhere --model x": 1,
    "extract --problem minilong --json": 2,
    "extract --problem nowhere": 1,
    "recall --problem nowhere": 1,
    "status --problem minilong --json": SHAPES["status"],
    "status --problem nowhere": 1,
    "dbt": 0,
    "dbt no": 2,
    'sql --json "select 1 as one, null as none"': "one none",
    "sql --json 'select 1 as one where false'": "",
    "sql 'select one'": 1,
    "metrics list --problem nowhere": 1,
    "metrics show": 2,
    "show": 1,
    "preregister --problem nowhere --metric good/a": 1,
    "correlate --problem minilong --resamples 99": 2,
    "correlate --problem nowhere": 1,
    "select --problem nowhere": 1,
    "compare one": 2,
    "signature x": 1,
    "report --problem nowhere": 1,
    "submit --problem minilong --metric no/a --out new": 1,
    "verify --submission nowhere.json": 2,
    "reproduce nowhere": 1,
    "e2lm collect nowhere": 1,
    "e2lm curate --items nowhere": 1,
    "e2lm new task": 0,
    "e2lm package --task x": 2,
    "e2lm report --scores nowhere": 1,
    "e2lm score --scores nowhere": 1,
    "e2lm scoring-methods --problem nowhere": 1,
    "eval": 2,
    "eval --tasks x --problem nowhere": 1,
    "extract-on-ray --problem nowhere": 1,
    "merge bundle --problem nowhere --merge x --out y": 1,
    "merge check --problem nowhere": 1,
    "merge eval --problem nowhere --round x --tasks y": 1,
    "merge reproduce nowhere": 1,
    "merge run --problem nowhere": 1,
    "merge tasks --out x": 2,
    "rank import --problem nowhere nowhere.csv": 1,
    "rank report --problem nowhere": 1,
    "rank show --results nowhere.json": 1,
}
"""Command → exit code; or, where it is 0, names of its JSON: of its records, or of one object."""


def commands(group: click.Group, before: str = "") -> Iterator[str]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        if isinstance(command, click.Group):
            yield from commands(command, f"{before}{name} ")
        else:
            yield before + name


@pytest.mark.parametrize("words", RETURNS)
def test_exit_code_and_json(words, minilong, monkeypatch):
    monkeypatch.chdir(minilong.workspace.root)
    done = CliRunner().invoke(cli, shlex.split(words))
    if isinstance(RETURNS[words], int):
        assert done.exit_code == RETURNS[words], done.output
        assert done.exit_code == 0 or not done.stdout
        return
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    records_found = found if isinstance(found, list) else [sorted(found)]
    assert "|".join(dict.fromkeys(map(" ".join, records_found))) == RETURNS[words]


def test_every_command_is_in_the_table():
    rows = [f"{row} " for row in RETURNS]
    assert [name for name in commands(cli) if not any(r.startswith(f"{name} ") for r in rows)] == []
