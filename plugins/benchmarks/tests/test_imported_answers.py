"""Benchmark answers made elsewhere: into the tables of `tokenmart eval`, or refused whole."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from plugins.benchmarks.harness.stored_items import eval_store
from tokenmart import cli
from warehouse.errors import TokenmartError
from warehouse.importers.importer import Destination, importer
from warehouse.paths import Workspace
from warehouse.sql.connection import connect_to_parquet

PROBLEM = """\
name: tiny
title: t
models: [{full_id: org/a, family: f, source: {kind: hub}}]
probes: [{kind: full}]
documents: {kind: json, path: docs.json}
"""
CHOICE = {
    "task": "qa", "item": 40, "choice": 1, "context": "Is it?", "continuation": " yes it is",
    "is_gold": True, "backend": "mine 1.0", "token_ids": [7, 9], "logprobs": [-0.5, -1.5],
    "ranks": [1, 3],
}  # fmt: skip


@pytest.fixture(autouse=True)
def problem(workspace: Workspace) -> None:
    (workspace.problems / "tiny.yml").write_text(PROBLEM)


def run(format: str, *files: Path) -> tuple[int, str]:
    command = ["data", "import", "--problem", "tiny", "--model", "org/a", "--format", format]
    result = CliRunner().invoke(cli, [*command, *map(str, files)])
    return result.exit_code, result.output


def refused(workspace: Workspace, format: str, *files: Path) -> tuple[str, str]:
    """Code and place of the error of an import."""
    with pytest.raises(TokenmartError) as caught:
        importer(format).import_files(files, Destination(workspace, "tiny", "org--a"))
    return caught.value.code, caught.value.where


def written(path: Path, *rows: dict[str, Any]) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(list(rows)), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def asked(workspace: Workspace, query: str) -> list[tuple[Any, ...]]:
    with connect_to_parquet(workspace) as connection:
        return connection.execute(query).fetchall()


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_tokens_of_another_program_become_token_rows(
    workspace: Workspace, tmp_path: Path, suffix: str
) -> None:
    other = {**CHOICE, "choice": 0, "is_gold": False, "logprobs": [-2.0, -0.25]}
    assert run("token-logprobs", written(tmp_path / f"x{suffix}", CHOICE, other)) == (
        0,
        "org/a: 1 item of 1 task: qa (1); next: tokenmart dbt run --select tag:benchmarks\n",
    )
    rows = asked(
        workspace,
        "select condition, choice, is_gold, reference, characters, token_id, logprob, rank, "
        "isnan(entropy), units.backend from eval_tokens "
        "join eval_items using (problem, condition, doc_id, segment) "
        "join eval_units as units on units.document_sha256 = unit_sha256 order by choice, position",
    )
    common = ("yes it is", 9)
    assert rows == [
        ("qa-token-logprobs", 0, False, *common, 7, -2.0, 1, True, "mine 1.0"),
        ("qa-token-logprobs", 0, False, *common, 9, -0.25, 3, True, "mine 1.0"),
        ("qa-token-logprobs", 1, True, *common, 7, -0.5, 1, True, "mine 1.0"),
        ("qa-token-logprobs", 1, True, *common, 9, -1.5, 3, True, "mine 1.0"),
    ]


def test_a_byte_order_mark_is_left_out(workspace: Workspace, tmp_path: Path) -> None:
    for number, (kind, row) in enumerate(
        [("token-logprobs", CHOICE), ("vllm", {**prompt_of_vllm(), "task": "other"})]
    ):
        path = written(tmp_path / f"{number}.jsonl", row)
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
        code, output = run(kind, path)
        assert code == 0, output


def test_imported_files_are_checked_like_others(workspace: Workspace, tmp_path: Path) -> None:
    assert run("token-logprobs", written(tmp_path / "x.jsonl", CHOICE))[0] == 0
    done = CliRunner().invoke(cli, ["data", "check", "--problem", "tiny"])
    assert (done.exit_code, "checked 1 file, 1 unit, 2 rows" in done.output) == (0, True)
    (file,) = eval_store(workspace).tokens.rglob("tokens.parquet")
    file.write_bytes(file.read_bytes()[:-9] + b"damaged!!")
    done = CliRunner().invoke(cli, ["data", "check", "--problem", "tiny"])
    assert done.exit_code == 4 and str(file) in done.output


def prompt_of_vllm(**changes: Any) -> dict[str, Any]:
    """What vLLM gives for `Is it? yes` with prompt_logprobs=1."""
    tokens = [(1, "Is"), (2, " it"), (3, "?"), (4, " y"), (5, "es")]
    scored = [
        {
            str(number): {"logprob": -0.1 * number, "rank": number, "decoded_token": text},
            "99": {"logprob": -0.01, "rank": 1, "decoded_token": "x"},
        }
        for number, text in tokens
    ]
    return {
        "task": "qa", "item": 0, "context": "Is it?", "continuation": " yes", "is_gold": True,
        "prompt_token_ids": [number for number, _ in tokens],
        "prompt_logprobs": [None, *scored[1:]],
        **changes,
    }  # fmt: skip


def with_last(value: Any) -> dict[str, Any]:
    """The same with another value for the last token."""
    row = prompt_of_vllm()
    row["prompt_logprobs"] = [*row["prompt_logprobs"][:-1], value]
    return row


def test_prompts_of_vllm_are_cut_at_the_continuation(workspace: Workspace, tmp_path: Path) -> None:
    assert run("vllm", written(tmp_path / "x.jsonl", prompt_of_vllm()))[0] == 0
    query = (
        "select token_id, position, rank, round(logprob::double, 4), "
        "round(top_logprob::double, 4) from eval_tokens order by position"
    )
    assert asked(workspace, query) == [(4, 3, 4, -0.4, -0.01), (5, 4, 5, -0.5, -0.01)]
    assert asked(workspace, "select distinct backend from eval_units") == [("vllm",)]


def test_tokens_that_were_not_read_are_counted(workspace: Workspace, tmp_path: Path) -> None:
    """A server that cuts prompts says so in its own settings only."""
    row = prompt_of_vllm(context="A long text before. Is it?")
    file = written(tmp_path / "x.jsonl", row)
    assert refused(workspace, "vllm", file) == ("cut-prompt", f"{file}:1")
    assert run("vllm", written(tmp_path / "x.jsonl", {**row, "tokens_cut": 4}))[0] == 0
    query = "select position - context_tokens, context_tokens from eval_tokens order by position"
    assert asked(workspace, query) == [(4, 3), (4, 4)]


WRONG = [
    ("token-logprobs", {**CHOICE, "logprobs": [-0.5]}, "lengths"),
    ("token-logprobs", {**CHOICE, "logprobs": [-0.5, 0.5]}, "bad-answer"),
    ("token-logprobs", {**CHOICE, "logprobs": [-0.5, math.nan]}, "bad-answer"),
    ("token-logprobs", {**CHOICE, "logprobs": [-0.5, -math.inf]}, "minus-infinity"),
    ("token-logprobs", {**CHOICE, "top_logprobs": [-0.25, -0.5]}, "contradiction"),
    ("token-logprobs", {**CHOICE, "top_logprobs": [-0.5, -2.5]}, "contradiction"),
    ("token-logprobs", {k: v for k, v in CHOICE.items() if k != "ranks"}, "missing-field"),
    ("token-logprobs", {k: v for k, v in CHOICE.items() if k != "backend"}, "bad-answer"),
    ("token-logprobs", {**CHOICE, "item": -1}, "bad-answer"),
    ("token-logprobs", {**CHOICE, "tokens_cut": -1}, "bad-answer"),
    ("token-logprobs", {**CHOICE, "colour": "red"}, "bad-answer"),
    ("vllm", prompt_of_vllm(continuation=" no"), "first-token"),
    ("vllm", prompt_of_vllm(prompt_logprobs=[None]), "no-prompt"),
    ("vllm", prompt_of_vllm(prompt_logprobs=3), "no-prompt"),
    ("vllm", prompt_of_vllm(first_token=0), "no-prompt"),
    ("vllm", {"id": "cmpl-1", "choices": [prompt_of_vllm()]}, "no-prompt"),
    ("vllm", with_last(None), "gap"),
    ("vllm", with_last({"5": -0.5}), "no-prompt"),
    ("vllm", with_last({"9": {}}), "no-prompt"),
    ("vllm", with_last({"5": {"logprob": -0.5, "decoded_token": "es"}}), "no-prompt"),
    (
        "vllm",
        with_last({"5": {"logprob": -math.inf, "rank": 2, "decoded_token": "es"}}),
        "minus-infinity",
    ),
]


@pytest.mark.parametrize(("format", "row", "code"), WRONG)
def test_a_wrong_row_is_refused_by_its_place_and_nothing_imported(
    workspace: Workspace, tmp_path: Path, format: str, row: dict[str, Any], code: str
) -> None:
    good = CHOICE if format == "token-logprobs" else prompt_of_vllm()
    file = written(tmp_path / "x.jsonl", {**good, "item": 3}, row)
    assert refused(workspace, format, file)[0] == code
    assert refused(workspace, format, file)[1].startswith(f"{file}:2")
    assert not list(workspace.data.glob("eval_*"))


def test_other_requests_under_the_same_name_are_refused(
    workspace: Workspace, tmp_path: Path
) -> None:
    file = written(tmp_path / "x.jsonl", CHOICE)
    assert run("token-logprobs", file)[0] == run("token-logprobs", file)[0] == 0
    changed = written(tmp_path / "y.jsonl", {**CHOICE, "context": "Is it so?"})
    assert refused(workspace, "token-logprobs", changed)[0] == "other-requests"
    again = written(tmp_path / "z.jsonl", CHOICE)
    assert refused(workspace, "token-logprobs", file, again)[0] == "answer-twice"


@pytest.mark.parametrize(("first", "second"), [("a b", "a-b"), ("問題", "задача"), (".x", "x")])
def test_tasks_that_would_share_a_folder_are_refused(
    workspace: Workspace, tmp_path: Path, first: str, second: str
) -> None:
    """In one import, and when the other was imported before: --force replaces no other task."""
    rows = [{**CHOICE, "task": name} for name in (first, second)]
    both = written(tmp_path / "both.jsonl", *rows)
    said = f"tasks '{first}' and '{second}' would share the folder"
    code, output = run("token-logprobs", both)
    assert (code, said in output) == (1, True), output
    assert not list(workspace.data.glob("eval_*"))
    one, other = (written(tmp_path / f"{n}.jsonl", row) for n, row in enumerate(rows))
    assert run("token-logprobs", one)[0] == run("token-logprobs", one)[0] == 0
    for force in ([], [Path("--force")]):
        code, output = run("token-logprobs", other, *force)
        assert (code, said in output) == (1, True), output
    assert asked(workspace, "select distinct task from eval_items") == [(first,)]


def test_tasks_that_differ_in_case_only_are_two_imports(
    workspace: Workspace, tmp_path: Path
) -> None:
    """Some disks ignore case."""
    both = written(tmp_path / "x.jsonl", *({**CHOICE, "task": name} for name in ("ARC", "arc")))
    code, output = run("token-logprobs", both)
    assert code == 1 and "tasks 'ARC' and 'arc' would share the folder" in output


def test_runs_of_one_file_and_items_without_a_right_choice(
    workspace: Workspace, tmp_path: Path
) -> None:
    rows = [
        {**CHOICE, "shots": 0, "logprobs": [1e-4, -1.5], "top_logprobs": [1e-4, -0.5]},
        {**CHOICE, "shots": 5, "item": 1, "choice": 0, "is_gold": False},
        {**CHOICE, "shots": 5, "item": 1, "choice": 1, "is_gold": False},
    ]
    path = written(tmp_path / "x.jsonl", *rows)
    code, output = run("token-logprobs", path)
    assert code == 0, output
    assert "note: " in output  # an item without a right choice
    found = asked(workspace, "select distinct shots from eval_items order by 1")
    assert found == [(0,), (5,)]


def test_tokens_are_replaced_only_with_force(workspace: Workspace, tmp_path: Path) -> None:
    path = written(tmp_path / "x.jsonl", CHOICE)
    assert run("token-logprobs", path)[0] == run("token-logprobs", path)[0] == 0
    written(path, {**CHOICE, "logprobs": [-0.25, -1.5]})
    assert refused(workspace, "token-logprobs", path) == ("other-result", "qa-token-logprobs")
    query = "select logprob from eval_tokens order by position"
    assert asked(workspace, query) == [(-0.5,), (-1.5,)]
    assert run("token-logprobs", path, Path("--force"))[0] == 0
    assert asked(workspace, query) == [(-0.25,), (-1.5,)]
