"""What an extraction refuses, and what fails alone: models, documents, words of the command."""

from __future__ import annotations

import json
import os
import re
import shutil
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from checkpoint_samples import write_gguf
from click.testing import CliRunner
from published_tables import published
from tiny_models import PROBES, make_checkpoint, make_text
from tiny_runs import CONDITIONS, ok, one_line_error, run
from transformers import AutoTokenizer

from extract.cli import extract, status
from extract.failures import NonFiniteLogits
from extract.models import loading
from extract.models.loading import Loading
from extract.scoring.engine import Engine
from warehouse import progress
from warehouse.paths import Workspace
from warehouse.store.ledger import UnitRecord, read_units
from warehouse.store.token_files import published_path


def with_first_model(
    tiny_problem: Callable[..., Path], changes: dict[str, Any], **options: Any
) -> Path:
    """A problem of two models, the first of which has these changes."""
    path = tiny_problem(**options)
    raw = yaml.safe_load(path.read_text())
    raw["models"][0] |= changes
    path.write_text(yaml.safe_dump(raw))
    return path


def units_of(workspace: Workspace, model: str, condition: str = "full") -> list[UnitRecord]:
    return read_units(published_path(workspace, "tiny", f"tiny--{model}", condition))


def test_a_model_with_nan_fails_alone_and_can_be_repaired(workspace, tiny_problem, tmp_path):
    import torch
    from transformers import AutoModelForCausalLM

    folder = make_checkpoint(tmp_path / "broken")
    model = AutoModelForCausalLM.from_pretrained(folder)
    broken = tmp_path / "nan"
    shutil.copytree(folder, broken)
    with torch.no_grad():
        model.get_input_embeddings().weight.fill_(float("nan"))
    model.save_pretrained(broken)
    path = with_first_model(tiny_problem, {"source": {"kind": "local", "path": str(broken)}})
    assert run(path).exit_code == 5
    failed = units_of(workspace, "one")
    assert {(unit.status, unit.rows) for unit in failed} == {("failed", 0)}
    assert "NaN" in failed[0].reason
    rows = (workspace.store / "models").glob("problem=tiny/*/model.parquet")
    assert [row.parent.name for row in rows] == ["model_id=tiny--two"], "refused by the check"
    # a further worker of the same run doesn't repeat it
    assert run(path, "--as-worker", "2000-01-01T00:00:00+00:00").exit_code == 5
    assert units_of(workspace, "one") == failed
    raw = yaml.safe_load(path.read_text())
    raw["models"][0]["source"]["path"] = str(folder)
    path.write_text(yaml.safe_dump(raw))
    assert "extracted 16 units" in ok(run(path))


def test_a_text_on_which_a_tokenizer_panics_fails_alone(workspace, tiny_problem, tmp_path):
    """Its regular expressions may give up; the panic is no `Exception` in Python."""
    folder = make_checkpoint(tmp_path / "m")
    file = folder / "tokenizer.json"
    raw = json.loads(file.read_text())
    split = {"type": "Split", "pattern": {"Regex": "(x+x+)+y"}, "behavior": "Isolated"}
    steps = [{**split, "invert": False}, raw["pre_tokenizer"]]
    raw["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps}
    file.write_text(json.dumps(raw))
    changes = {"source": {"kind": "local", "path": str(folder)}}
    path = with_first_model(tiny_problem, changes, texts=3)
    corpus = workspace.root / "data" / "corpus.json"
    texts = json.loads(corpus.read_text())
    texts[1] += "x" * 60
    corpus.write_text(json.dumps(texts))
    assert run(path).exit_code == 5
    assert [unit.status for unit in units_of(workspace, "one")] == ["done", "failed", "done"]
    assert {unit.status for unit in units_of(workspace, "two")} == {"done"}


def test_weights_are_converted_before_any_model_is_scored(workspace, tiny_problem, monkeypatch):
    path = tiny_problem(texts=2)
    raw = yaml.safe_load(path.read_text())
    file = write_gguf(workspace.root / "m.gguf", words=5)
    raw["models"][1]["source"] = {"kind": "gguf", "path": str(file)}
    path.write_text(yaml.safe_dump(raw))
    score, converted = Engine.score, []

    def scoring(engine: Engine, requests: Any) -> Any:
        converted.append([p for p in (workspace.cache / "checkpoints").iterdir() if p.is_dir()])
        return score(engine, requests)

    monkeypatch.setattr(Engine, "score", scoring)
    run(path)
    assert len(converted[0]) == 1


def test_non_finite_scores_are_recorded_with_the_reason(workspace, tiny_problem, monkeypatch):
    path = tiny_problem()
    score = Engine.score
    tokenizer = AutoTokenizer.from_pretrained(
        yaml.safe_load(path.read_text())["models"][1]["source"]["path"]
    )
    third = tokenizer(make_text(2)).input_ids

    def fail_on_third(engine: Engine, requests: Any) -> Any:
        if any(third == request.ids.tolist() for request in requests):
            raise NonFiniteLogits
        return score(engine, requests)

    monkeypatch.setattr(Engine, "score", fail_on_third)
    assert run(path).exit_code == 5
    units = units_of(workspace, "two")
    assert [(u.doc_id, u.status, bool(u.reason)) for u in units] == [
        (0, "done", False),
        (1, "done", False),
        (2, "failed", True),
        (3, "done", False),
    ]
    rows = CliRunner().invoke(status, ["--problem", str(path), "--json"])
    failed = [r for r in json.loads(rows.output) if r["failed"]]
    assert {(r["model_id"], r["done"], r["failed"]) for r in failed} == {("tiny--two", 3, 1)}
    monkeypatch.setattr(Engine, "score", score)
    # the full text and the excerpts behind it are scored together; the others went well
    assert "extracted 2 units" in ok(run(path))


@pytest.mark.parametrize(
    ("options", "value"),
    [
        (["--model", "nobody/none"], "nobody/none"),
        (["--probe", "magic"], "magic"),
        (["--device", "cuda:7"], "cuda:7"),
    ],
)
def test_wrong_values_on_the_command_line(options, value, workspace, tiny_problem):
    assert value in one_line_error(run(tiny_problem(), *options), 1)


def test_a_missing_model_does_not_stop_the_others(workspace, tiny_problem):
    source = {"kind": "local", "path": "nowhere/at/all"}
    result = run(with_first_model(tiny_problem, {"source": source}))
    one_line_error(result, 5)
    assert "error: tiny/one: source.path" in result.output
    assert len(published(workspace)) == len(CONDITIONS)


def test_a_model_that_cannot_fit_is_refused_before_it_is_loaded(workspace, tiny_problem):
    changes = {"parameters": 10**15, "source": {"kind": "hub"}}
    result = run(with_first_model(tiny_problem, changes))
    one_line_error(result, 5)
    assert "error: tiny/one: needs" in result.output
    assert len(published(workspace)) == len(CONDITIONS)


def test_a_model_is_planned_beside_one_that_fills_the_device(workspace, tiny_problem, monkeypatch):
    """Each alone fits; while the first one is loaded, there is no room for the second."""
    loaded: list[weakref.ref[Any]] = []
    load = loading.load_engine

    def loads(chosen: Loading) -> Engine:
        scorer = load(chosen)
        loaded.append(weakref.ref(scorer))
        return scorer

    def free(device: str) -> int:
        return 2**30 if all(scorer() is None for scorer in loaded) else 0

    monkeypatch.setattr(loading, "load_engine", loads)
    monkeypatch.setattr("extract.extraction.available_memory", free)
    assert "extracted 32 units" in ok(run(tiny_problem()))
    assert len(loaded) == 2


def test_units_that_another_process_finished_meanwhile_were_there_already(
    workspace, tiny_problem, monkeypatch
):
    path = tiny_problem()
    load = loading.load_engine

    def loads(chosen: Loading) -> Engine:
        monkeypatch.setattr(loading, "load_engine", load)
        ok(run(path, "--model", "tiny/one", "--probe", "full"))
        return load(chosen)

    monkeypatch.setattr(loading, "load_engine", loads)
    output = ok(run(path))
    assert "extracted 28 units" in output and "4 of 32 were there already\n" in output


def test_an_empty_document_is_refused_before_work_starts(workspace, tiny_problem):
    path = tiny_problem()
    (workspace.root / "data" / "corpus.json").write_text(json.dumps(["fine text here", "  "]))
    result = run(path)
    assert result.exit_code != 0 and "empty" in result.output
    assert not published(workspace)


@pytest.mark.parametrize(
    "documents",
    [
        {"too_long": "refuse"},
        {"too_long": "truncate"},
        {"too_long": "truncate", "headroom": 14},
        {"too_long": "run", "margin": 10_000},
        {"too_long": "run", "margin": 3},
    ],
)
def test_documents_longer_than_the_context(documents, workspace, tiny_problem):
    path = tiny_problem(
        documents={"kind": "json", "path": "data/corpus.json", **documents}, probes=PROBES[::2]
    )
    raw = yaml.safe_load(path.read_text())
    short, *others = json.loads((workspace.root / "data" / "corpus.json").read_text())
    corpus = [" ".join(short.split()[:20]), *others]
    (workspace.root / "data" / "corpus.json").write_text(json.dumps(corpus))
    raw["models"][0]["context"] = 64
    path.write_text(yaml.safe_dump(raw))
    result = run(path)
    units = units_of(workspace, "one")
    lengths = [unit.document_tokens for unit in units]
    over = [unit.over_limit_tokens for unit in units]
    if documents["too_long"] == "truncate":
        ok(result)
        # one token of the context is the BOS
        assert lengths[1:] == [63 - documents.get("headroom", 0)] * 3 and over == [0] * 4
        assert all(unit.document_tokens_total > 63 for unit in units[1:])
        published = published_path(workspace, "tiny", "tiny--one", "retrieval_with")
        behind = pq.read_table(published, partitioning=None)
        # 14 tokens are an excerpt and its answer, the last of which is only predicted
        most = max(behind["context_tokens"].to_pylist()) + 1
        assert most == (63 if "headroom" in documents else 63 + 14)
        cut = f"tiny/one: 3 of 4 documents cut, {sum(lengths):,} of "
        for shown in (result, CliRunner().invoke(status, ["--problem", str(path)])):
            assert cut in ok(shown)
    elif documents.get("margin") == 10_000:
        ok(result)
        assert over == [0, *(length - 63 for length in lengths[1:])] and min(over[1:]) > 0
    else:
        one_line_error(result, 5)
        (line,) = (each for each in result.output.splitlines() if each.startswith("error: tiny/"))
        assert line.startswith("error: tiny/one, documents 1, 2, 3: ") and "64" in line
        assert [unit.status for unit in units] == ["done", "failed", "failed", "failed"]
    assert {unit.status for unit in units_of(workspace, "two")} == {"done"}


def test_a_document_within_the_margin_scores_as_with_a_larger_context(workspace, tiny_problem):
    raw = yaml.safe_load(tiny_problem().read_text())
    raw["documents"] |= {"too_long": "run", "margin": 10_000}
    before = raw["models"][0]
    raw["models"] = [before | {"full_id": "tiny/short", "context": 64}, before]
    path = workspace.problems / "tiny.yml"
    path.write_text(yaml.safe_dump(raw))
    ok(run(path))
    tables = published(workspace)
    for condition in CONDITIONS:
        short, whole = (
            tables[f"problem=tiny/model_id=tiny--{name}/condition={condition}"]
            for name in ("short", "one")
        )
        assert short.equals(whole)


def _config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def _own_code(folder: Path) -> None:
    (folder / "own.py").write_text("raise SystemExit('executed')")
    classes = {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"}
    _config(folder, model_type="unheard-of", auto_map=classes)


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "wrong sizes": (lambda f: _config(f, hidden_size=1024), "shapes"),
    "cut off": (lambda f: os.truncate(f / "model.safetensors", 1000), "SafetensorError"),
    "no tokenizer": (lambda f: [file.unlink() for file in f.glob("tokenizer*")], "tokenizer"),
    "unknown architecture": (lambda f: _config(f, model_type="unheard-of"), "unheard-of"),
    "own code": (_own_code, "custom code"),
}


def test_a_model_that_cannot_be_loaded_is_one_line(workspace, tiny_problem, tmp_path):
    path = tiny_problem(texts=2)
    raw = yaml.safe_load(path.read_text())
    whole, good = raw["models"]
    for how, (break_it, _) in BROKEN.items():
        folder = tmp_path / how.replace(" ", "-")
        shutil.copytree(whole["source"]["path"], folder)
        break_it(folder)
        source = {"kind": "local", "path": str(folder)}
        raw["models"].append(good | {"full_id": f"tiny/{folder.name}", "source": source})
    del raw["models"][0]
    path.write_text(yaml.safe_dump(raw))
    result = run(path)
    one_line_error(result, 5)
    for how, (_, named) in BROKEN.items():
        name = how.replace(" ", "-")
        (line,) = (
            each for each in result.output.splitlines() if each.startswith(f"error: tiny/{name}")
        )
        assert line.count(f"tiny/{name}") == 1 and named in line, line
        if how in ("wrong sizes", "cut off"):  # its files were found, so its units are known
            units = units_of(workspace, name)
            assert [(unit.status, unit.reason in line) for unit in units] == [("failed", True)] * 2
        shutil.rmtree(tmp_path / name)
        shutil.copytree(good["source"]["path"], tmp_path / name)
    assert "extracted 8 units" in result.output
    assert f"extracted {8 * len(BROKEN)} units" in ok(run(path))


def test_any_exception_of_a_document_is_that_documents(workspace, tiny_problem, monkeypatch):
    import torch

    path = tiny_problem(texts=2)
    folder = yaml.safe_load(path.read_text())["models"][0]["source"]["path"]
    first = AutoTokenizer.from_pretrained(folder)(make_text(0)).input_ids
    score = Engine.score

    def fail_on_first(engine: Engine, requests: Any) -> Any:
        if any(first == request.ids.tolist() for request in requests):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB\nmore")
        return score(engine, requests)

    monkeypatch.setattr(Engine, "score", fail_on_first)
    result = run(path)
    one_line_error(result, 5)
    assert "error: tiny/one, document 0: out of memory" in result.output
    monkeypatch.setattr(Engine, "score", score)
    monkeypatch.setattr(progress, "SECONDS_BEFORE_SHOWN", -1.0)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", -1.0)
    output = ok(run(path))
    assert "extracted 2 units" in output
    # units that failed before are still to do
    shown = [(int(n), int(of)) for n, of in re.findall(r"(\d+)/(\d+) units", output)]
    assert shown[0][0] == shown[0][1] - 2 and shown[-1][0] == shown[-1][1]


def test_a_processor_is_obeyed_by_name_and_refused_for_weeks(workspace, tiny_problem, monkeypatch):
    monkeypatch.setattr("extract.cli.LONGEST_CPU_HOURS", 1e-12)
    monkeypatch.setattr("extract.devices.resolve_device", lambda asked: "cpu")
    path = tiny_problem(texts=1)
    refused = CliRunner().invoke(extract, ["--problem", str(path)])
    one_line_error(refused, 1)
    assert not workspace.pending.exists()
    assert "extracted 8 units" in ok(run(path))


def test_another_file_of_a_problem_s_name_does_not_replace_its_tokens(
    workspace, tiny_problem, tmp_path
):
    path = tiny_problem(texts=2)
    ok(run(path))
    before = published(workspace)
    body = yaml.safe_load(path.read_text())
    other = tmp_path / "elsewhere" / path.name
    (other.parent / "texts").mkdir(parents=True)
    (other.parent / "texts" / "a.txt").write_text(make_text(9))
    body["documents"] = {"kind": "folder", "path": "texts"}
    other.write_text(yaml.safe_dump(body))
    for command in (extract, status):
        result = CliRunner().invoke(command, ["--problem", str(other)])
        assert str(path.resolve()) in one_line_error(result, 1)
    assert published(workspace) == before
    # a file may be moved
    path.rename(tmp_path / "moved.yml")
    ok(CliRunner().invoke(extract, ["--problem", str(tmp_path / "moved.yml"), "--dry-run"]))
    ok(CliRunner().invoke(extract, ["--problem", str(other), "--dry-run"]))


def test_a_model_of_unknown_size_needs_the_processor_by_name(workspace, tiny_problem, monkeypatch):
    monkeypatch.setattr("extract.devices.resolve_device", lambda asked: "cpu")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    path = with_first_model(tiny_problem, {"source": {"kind": "hub"}}, texts=1)
    assert "tiny/one" in one_line_error(CliRunner().invoke(extract, ["--problem", str(path)]), 1)
    assert "extracted 4 units" in run(path).output
