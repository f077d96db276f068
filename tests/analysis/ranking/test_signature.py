"""The signature of a value: equal where everything is, and the part that differs is named."""

from __future__ import annotations

import json
import re
from importlib.metadata import version

import pytest
from click.testing import CliRunner
from made_up_marts import copied_checkout

import tokenmart as tm
from analysis.ranking import signature as module
from tokenmart import cli

LINE = re.compile(
    r"tokenmart \S+ \| minilong:[0-9a-f]{8} \| good/a:[0-9a-f]{4} \| 23 models:[0-9a-f]{4} "
    r"\| bf16, sdpa"
)


def invoke(*words):
    return CliRunner().invoke(cli, [*words])


def signatures():
    done = invoke("correlate", "--problem", "minilong", "--json")
    return {row["metric"]: row["signature"] for row in json.loads(done.stdout)["rows"]}


def differing(line):
    """Exit status, and the parts that are named as different."""
    done = invoke("signature", line)
    return done.exit_code, re.findall(r"^DIFFERS  ([^:]+):", done.stdout, re.MULTILINE)


@pytest.fixture(scope="module")
def line(filled_minilong, tmp_path_factory):
    """That of another copy of the checkout."""
    with copied_checkout(filled_minilong, tmp_path_factory.mktemp("copy")):
        return signatures()["good"]


def test_a_line_is_the_same_in_another_copy_and_in_every_output(minilong, line, tmp_path):
    assert LINE.fullmatch(line) and line.startswith(f"tokenmart {version('tokenmart')} | ")
    found = signatures()
    assert found["good"] == line and len(set(found.values())) > 3
    assert differing(line) == (0, [])
    minilong.record_build("minilong")  # rebuilt from the same
    assert differing(line.replace(" | ", "\n  |  ")) == (0, [])
    rows = tm.correlate(target="minilong").to_pylist()
    assert line in {row["signature"] for row in rows}
    submitted = ("--problem", "minilong", "--metric", "good/a", "--out", str(tmp_path / "out"))
    assert invoke("submit", *submitted).exit_code == 0
    assert json.loads((tmp_path / "out" / "bundle.json").read_text())["signature"] == line
    page = str(tmp_path / "report.html")
    assert invoke("report", "--problem", "minilong", "--out", page).exit_code == 0
    (foot,) = re.findall(r"<footer>.*?</footer>", (tmp_path / "report.html").read_text(), re.S)
    assert line in foot


def another_state(marts):
    marts.record_build("minilong", units="other")


def another_definition(marts):
    with marts.write() as connection:
        filtered = json.dumps({"where": "rank = 1"})
        connection.execute(
            "update metric_catalog set parameters = ? where metric = 'good'", [filtered]
        )


def another_value(marts):
    with marts.write() as connection:
        connection.execute("update metric_values set value = value * (1 + 1e-8)")


def another_target(marts):
    scores = marts.scores("minilong")
    marts.target("minilong", scores | {min(scores): 0.123})


def another_format(marts):
    with marts.write() as connection:
        connection.execute("update units set dtype = 'float32', attention = 'eager'")


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (another_state, ["problem's state"]),
        (another_definition, ["metric's definition"]),
        (another_value, ["models' values"]),
        (another_target, ["models' values"]),
        (another_format, ["number formats"]),
    ],
)
def test_the_part_that_differs_is_named(minilong, line, change, parts):
    change(minilong)
    assert differing(line) == (1, parts)
    assert differing(signatures()["good"]) == (0, [])


def test_another_version_and_a_build_that_is_not_recorded(minilong, line, monkeypatch):
    monkeypatch.setattr(module, "version", lambda name: "0.3.0")
    assert differing(line) == (1, ["version"])
    with minilong.write() as connection:
        connection.execute("drop table main.built_tables")
    assert differing(line) == (1, ["version", "problem's state"])
    assert "minilong:?" in signatures()["good"]


def test_an_idea_has_a_signature_of_its_values(minilong):
    values = dict(minilong.scores("minilong"))
    row = tm.correlate(values, "minilong", name="mine").to_pylist()[0]
    assert row["metric"] == "mine" and differing(row["signature"]) == (0, [])
    first = min(values)
    other = tm.correlate(values | {first: 7.0}, "minilong", name="mine").to_pylist()[0]
    assert other["signature"] != row["signature"]


@pytest.mark.parametrize(
    ("before", "after"), [(" | bf16, sdpa", ""), ("good/a", "gone/a"), ("minilong", "no_problem")]
)
def test_what_is_no_signature_of_this_workspace_is_one_line(minilong, line, before, after):
    refused = invoke("signature", line.replace(before, after))
    assert refused.exit_code == 1 and refused.stderr.count("\n") == 1
