"""Imported prompt log-probs: the same rows as an extraction, or a refusal with code and place."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from scipy.special import log_softmax
from tiny_models import make_text
from tiny_runs import ok, run

from plugins.logprobs import importer as importer_module
from plugins.logprobs.tests.prompt_dumps import (
    ALL,
    FORMS,
    PlainScores,
    rows,
    sglang,
    vllm,
    write_lines,
)
from tokenmart import cli
from warehouse.errors import TokenmartError
from warehouse.maintenance.check import check_store
from warehouse.paths import Workspace
from warehouse.problem.importers import Destination, importer
from warehouse.store.ledger import read_units
from warehouse.store.token_files import published_path

Write = Callable[..., Path]


@pytest.fixture(scope="module")
def scored(tiny_checkpoint: Callable[..., Path]) -> dict[bool, list[PlainScores]]:
    """The corpus's four texts, by whether the model has a BOS; window prompts come after them."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    found = {}
    for bos, seed in ((True, 0), (False, 1)):
        folder = tiny_checkpoint("llama", bos, seed)
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(folder, dtype="float32").eval()
        found[bos] = [PlainScores(model, tokenizer(make_text(n)).input_ids) for n in range(4)]
    return found


def take(path: Path, *files: Path, model: str = "tiny/one", options: tuple[str, ...] = ()) -> Any:
    words = ["--problem", str(path), "--model", model, "--format", "prompt-logprobs", *options]
    return CliRunner().invoke(cli, ["data", "import", *words, *map(str, files)])


def stored(workspace: Workspace, model: str = "one", condition: str = "full") -> pa.Table:
    path = published_path(workspace, "tiny", f"tiny--{model}", condition)
    return pq.read_table(path, partitioning=None)


@pytest.mark.parametrize("bos", [True, False])
def test_rows_are_those_of_an_extraction(bos, workspace, tiny_problem, scored, tmp_path):
    path = tiny_problem()
    name = "one" if bos else "two"
    ok(run(path, "--probe", "full", "--model", f"tiny/{name}"))
    expected = stored(workspace, name)
    for form, (write, lacks) in FORMS.items():
        dump = write(scored[bos], bos, tmp_path)
        assert take(path, dump, model=f"tiny/{name}").exit_code == 1  # others are stored
        ok(take(path, dump, model=f"tiny/{name}", options=("--force",)))
        found = stored(workspace, name)
        assert found.schema.equals(expected.schema)
        for column in expected.schema.names:
            where = form, column
            if column in (*lacks, "varentropy"):
                assert found[column].null_count == found.num_rows > 0, where
                continue
            mine, theirs = found[column].to_numpy(), expected[column].to_numpy()
            if column in ("logprob", "top_logprob", "entropy"):
                assert np.abs(mine - theirs).max() < 5e-4, where
            elif column == "rank":  # two tokens may have nearly one log-prob
                assert (mine == theirs).mean() > 0.99, where
            else:
                assert found[column].equals(expected[column]), where
        units = read_units(published_path(workspace, "tiny", f"tiny--{name}", "full"))
        record = json.loads(units[0].imported)
        assert record["lacks"] == lacks and record["files"][0][0] == dump.name
        assert {(unit.status, unit.backend, unit.dtype, unit.seconds) for unit in units} == {
            ("done", form.split()[0], "", 0.0)
        }
        assert check_store(workspace).defects == ()


def test_rows_that_the_model_does_not_give_are_refused(workspace, tiny_problem, scored, tmp_path):
    """A temperature of 0.7; without the audit they are stored, and said to be unaudited."""
    path = tiny_problem(probes=[{"kind": "full"}])
    prompts = []
    for scores in scored[True]:
        heated = copy(scores)
        heated.logprobs = log_softmax(scores.logprobs / 0.7, axis=-1)
        prompts.append(vllm(heated))
    dump = write_lines(tmp_path / "heated.jsonl", prompts)
    refused = take(path, dump)
    assert refused.exit_code == 1 and "temperature 0.7" in refused.stderr
    assert not (workspace.store / "audits").exists()
    ok(take(path, dump, options=("--no-audit",)))
    said = ok(CliRunner().invoke(cli, ["status", "--problem", str(path)]))
    assert "not audited: tiny--one" in said


def test_a_window(workspace, tiny_problem, scored, tmp_path):
    path = tiny_problem()
    ok(run(path, "--probe", "window_24", "--model", "tiny/one"))
    expected = stored(workspace, condition="window_24")
    model = _model(tiny_problem, scored)
    prompts = []
    for each in scored[True]:
        # README of the how-to page: blocks of 16 after 24 tokens of context
        for start in range(16, len(each.ids) - 24, 16):
            prompts.append(vllm(PlainScores(model, each.ids[start : start + 40])))
    dump = write_lines(tmp_path / "windows.jsonl", prompts[::-1])
    ok(take(path, dump, options=("--condition", "window_24", "--force")))
    found = stored(workspace, condition="window_24")
    same = [n for n in expected.schema.names if n not in (*ALL, "varentropy", "logprob")]
    assert found.select(same).equals(expected.select(same))
    assert np.abs(found["logprob"].to_numpy() - expected["logprob"].to_numpy()).max() < 5e-4


def test_top_k(workspace, tiny_problem, scored, tmp_path):
    path = tiny_problem(probes=[{"kind": "full", "top_k": 2}])
    for k, make in ((3, sglang), (2, vllm)):
        dump = write_lines(tmp_path / f"{k}.jsonl", [make(each, k) for each in scored[True]])
        ok(take(path, dump, options=("--force",)))
        tables = [
            pq.read_table(each) for each in sorted((workspace.store / "top_tokens").rglob("doc-*"))
        ]
        table = pa.concat_tables(tables)
        assert len(tables) == 4
        first = scored[True][0].top(1, 2)
        head = table.slice(0, 2).to_pylist()
        assert [row["choice_id"] for row in head] == [token for token, _ in first]
        assert [row["logprob"] for row in head] == pytest.approx([p for _, p in first], abs=2e-5)
        assert table.num_rows == 2 * stored(workspace).num_rows


def test_plan_status_and_imports_keep_whole_conditions(workspace, tiny_problem, scored, tmp_path):
    path = tiny_problem(probes=[{"kind": "full"}])
    dump = write_lines(tmp_path / "a.jsonl", [vllm(each) for each in scored[True]])
    assert f"full ({sum(len(each.ids) - 1 for each in scored[True])})" in ok(take(path, dump))
    before = published_path(workspace, "tiny", "tiny--one", "full").stat().st_mtime_ns
    ok(take(path, dump))  # the same files change nothing
    assert published_path(workspace, "tiny", "tiny--one", "full").stat().st_mtime_ns == before
    assert "extracted 0 units" in ok(run(path, "--model", "tiny/one"))
    state = json.loads(ok(CliRunner().invoke(cli, ["status", "--problem", str(path), "--json"])))
    assert [(row["done"], row["outdated"]) for row in state] == [(4, 0), (0, 0)]
    assert "nothing" in ok(CliRunner().invoke(cli, ["data", "gc", "--problem", str(path)]))
    # another text: scores made here would join imported ones
    tiny_problem(texts=5, probes=[{"kind": "full"}])
    refused = CliRunner().invoke(
        cli, ["extract", "--problem", str(path), "--device", "cpu"], standalone_mode=False
    )
    assert "were imported" in refused.output
    ok(run(path, "--model", "tiny/one", "--force"))
    units = read_units(published_path(workspace, "tiny", "tiny--one", "full"))
    assert [unit.imported for unit in units] == [""] * 5


@pytest.mark.parametrize("options", [(), ("--force",)])
def test_an_interrupted_import_is_completed_by_the_next(
    options, workspace, tiny_problem, scored, tmp_path, monkeypatch
):
    path = tiny_problem(probes=[{"kind": "full"}])
    dump = write_lines(tmp_path / "a.jsonl", [vllm(each) for each in scored[True]])
    write, calls = importer_module.write_unit, iter(range(4))

    def interrupted(*arguments: Any) -> None:
        if next(calls) == 2:
            raise KeyboardInterrupt
        write(*arguments)

    with monkeypatch.context() as planted:
        planted.setattr(importer_module, "write_unit", interrupted)
        assert take(path, dump).exit_code == 1
    ok(take(path, dump, options=options))
    units = read_units(published_path(workspace, "tiny", "tiny--one", "full"))
    assert [(unit.doc_id, unit.status) for unit in units] == [(n, "done") for n in range(4)]
    assert len(set(stored(workspace)["doc_id"].to_pylist())) == 4


def changed(entry: dict[str, Any], step: int, value: Any) -> dict[str, Any]:
    """A vLLM dump with another value at one step."""
    positions = [dict(each) if each else each for each in entry["prompt_logprobs"]]
    token = str(entry["prompt_token_ids"][step])
    positions[step] = None if value is None else {token: {"logprob": value, "rank": 1}}
    return {**entry, "prompt_logprobs": positions}


def without_first(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: values[1:] for name, values in entry.items()}


BROKEN: dict[str, tuple[Callable[[list[dict[str, Any]]], list[dict[str, Any]]], str, str]] = {
    "nan": (lambda d: [*d[:3], changed(d[3], 5, float("nan"))], "not-finite", "row 4: document 3"),
    "-inf": (lambda d: [changed(d[0], 5, -float("inf")), *d[1:]], "not-finite", "position 4"),
    "-9999": (lambda d: [changed(d[0], 5, -9999.0), *d[1:]], "not-finite", "row 1"),
    "positive": (lambda d: [changed(d[0], 5, 0.1), *d[1:]], "positive-logprob", "position 4"),
    "null": (lambda d: [changed(d[0], 5, None), *d[1:]], "gap", "document 0: position 4"),
    "text": (lambda d: [changed(d[0], 5, "low"), *d[1:]], "gap", "document 0: position 4"),
    "a document less": (lambda d: d[:3], "gap", "document 3: position 0"),
    "a document twice": (lambda d: [*d, d[1]], "given-twice", "row 5"),
    "wrong doc_id": (lambda d: [{**d[0], "doc_id": 1}, *d[1:]], "other-tokens", "row 1"),
    "unknown doc_id": (lambda d: [{**d[0], "doc_id": 9}, *d[1:]], "unknown-document", "row 1"),
    "no BOS": (lambda d: [*d[:2], without_first(d[2]), d[3]], "no-bos", "row 3"),
    "no form": (lambda d: [{"text": "a"}], "unknown-form", "dump.jsonl"),
}
ROWS: dict[str, tuple[dict[str, Any], str, str]] = {
    "unknown document": ({"doc_id": 7}, "unknown-document", "row 6"),
    "no document": ({"doc_id": "x"}, "unknown-document", "row 6"),
    "position beyond the end": ({"position": 100_000}, "unknown-position", "row 6"),
    "other token": ({"token_id": 1}, "other-tokens", "row 6"),
    "no token": ({"token_id": None}, "other-tokens", "row 6"),
    "duplicate": ({"position": 4}, "given-twice", "row 5"),
    "more than a rounding above 0": ({"logprob": 2.0**-15}, "positive-logprob", "row 6"),
    "rank 0": ({"rank": 0}, "wrong-rank", "row 6"),
    "top below the token": ({"top_logprob": -50.0}, "wrong-top-logprob", "row 6"),
    "negative entropy": ({"entropy": -1.0}, "wrong-entropy", "row 6"),
    "certain, and rank 30,087": (
        {"logprob": 0.0, "rank": 30_087, "top_logprob": 0.0},
        "rank-and-logprob",
        "row 6",
    ),
    "rank 1 below the top": (
        {"logprob": -3.0, "rank": 1, "top_logprob": -0.5},
        "rank-and-top-logprob",
        "row 6",
    ),
    "two tokens of more than 1": (
        {"logprob": -1.0, "rank": 2, "top_logprob": -0.1},
        "rank-and-top-logprob",
        "row 6",
    ),
    "entropy of a certain prediction": (
        {"logprob": -9.0, "rank": 2, "top_logprob": -8.0, "entropy": 1.0},
        "entropy-and-top-logprob",
        "row 6",
    ),
    "more than the vocabulary": ({"entropy": 40.0}, "entropy-and-vocabulary", "row 6"),
    "no log-prob": ({"logprob": None}, "gap", "document 0"),
}
"""Changes of a table's sixth row."""


@pytest.mark.parametrize("case", [*BROKEN, *ROWS])
def test_refused_dumps_and_rows(case, workspace, tiny_problem, scored, tmp_path):
    path = tiny_problem(probes=[{"kind": "full"}])
    change, code, where = BROKEN.get(case) or ROWS[case]
    if case in BROKEN:
        entries = change([vllm(each) for each in scored[True]])
    else:
        entries = [row for n, each in enumerate(scored[True]) for row in rows(each, n, True)]
        entries[5] |= change
    dump = write_lines(tmp_path / "dump.jsonl", entries)
    refuses_dump(workspace, path, dump, code, where)


def test_numbers_a_rounding_beyond_their_limit_are_stored_at_it(
    workspace, tiny_problem, scored, tmp_path
):
    """A log-prob above 0, and a top-1 token below the token itself."""
    path = tiny_problem(probes=[{"kind": "full"}])
    entries = [row for n, each in enumerate(scored[True]) for row in rows(each, n, True)]
    entries[4] |= {"logprob": 2.0**-16, "rank": 1, "top_logprob": 2.0**-16}
    entries[5] |= {"logprob": -0.5, "rank": 1, "top_logprob": -0.5 - 2.0**-17}
    ok(take(path, write_lines(tmp_path / "dump.jsonl", entries)))
    assert [stored(workspace)[name][4:6].to_pylist() for name in ("logprob", "top_logprob")] == [
        [0.0, -0.5]
    ] * 2


@pytest.mark.parametrize(
    ("column", "code"),
    [("logprob", "not-finite"), ("top_logprob", "wrong-top-logprob"), ("entropy", "wrong-entropy")],
)
def test_a_nan_in_parquet_is_refused(column, code, workspace, tiny_problem, scored, tmp_path):
    path = tiny_problem(probes=[{"kind": "full"}])
    entries = [row for n, each in enumerate(scored[True]) for row in rows(each, n, True)]
    entries[5][column] = float("nan")
    pq.write_table(pa.Table.from_pylist(entries), tmp_path / "dump.parquet")
    refuses_dump(workspace, path, tmp_path / "dump.parquet", code, "row 6")


def refuses_dump(
    workspace: Workspace,
    path: Path,
    dump: Path,
    code: str,
    where: str,
    model: str = "one",
    condition: str = "full",
) -> None:
    """The import raises an error with this code, and this in its place; nothing is stored."""
    to = Destination(workspace, "tiny", f"tiny--{model}", False, str(path), condition)
    with pytest.raises(TokenmartError) as raised:
        importer("prompt-logprobs").import_files([dump], to)
    assert not list(workspace.tokens.rglob("tokens.parquet"))
    assert not list(workspace.pending.rglob("doc-*.parquet"))
    assert raised.value.code == code and where in raised.value.where


def test_refused_texts_and_conditions(workspace, tiny_problem, scored, tmp_path):
    path = tiny_problem()
    dump = write_lines(tmp_path / "dump.jsonl", [vllm(each) for each in scored[True]])
    for condition, code in (
        ("windo_24", "unknown-condition"),
        ("retrieval_with", "other-condition"),
    ):
        refuses_dump(workspace, path, dump, code, "--condition", condition=condition)
    # the model without a BOS has the same tokenizer otherwise
    refuses_dump(workspace, path, dump, "unexpected-bos", "row 1", model="two")
    # another version of the text: the first word differs
    corpus = workspace.root / "data" / "corpus.json"
    texts = json.loads(corpus.read_text())
    corpus.write_text(json.dumps([texts[0], f"new {texts[1]}", *texts[2:]]))
    refuses_dump(workspace, path, dump, "other-tokens", "row 2: token 1")


def _model(tiny_problem: Write, scored: object) -> Any:
    import yaml
    from transformers import AutoModelForCausalLM

    source = yaml.safe_load(tiny_problem().read_text())["models"][0]["source"]
    return AutoModelForCausalLM.from_pretrained(source["path"], dtype="float32").eval()
