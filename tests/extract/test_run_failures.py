"""What an extraction refuses, and what fails alone: models, documents, words of the command."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import CliRunner
from tiny_models import make_checkpoint, make_text
from tiny_runs import CONDITIONS, everything, ok, one_line_error, run
from transformers import AutoTokenizer

from analysis.report.cli import show
from extract.cli import extract, status
from extract.failures import NonFiniteLogits
from extract.scoring.engine import Engine
from warehouse.paths import Workspace
from warehouse.store.ledger import read_units
from warehouse.store.token_files import published_path


def test_a_model_with_nan_fails_alone_and_can_be_repaired(
    workspace: Workspace, tiny_problem: Callable[..., Path], tmp_path: Path
) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    folder = make_checkpoint(tmp_path / "broken")
    model = AutoModelForCausalLM.from_pretrained(folder)
    broken = tmp_path / "nan"
    shutil.copytree(folder, broken)
    with torch.no_grad():
        model.get_input_embeddings().weight.fill_(float("nan"))
    model.save_pretrained(broken)
    raw = yaml.safe_load(tiny_problem().read_text())
    raw["models"][0]["source"]["path"] = str(broken)
    path = workspace.problems / "tiny.yml"
    path.write_text(yaml.safe_dump(raw))
    message = one_line_error(run(path), 5)
    assert "run the same command again" in message
    broken_units = read_units(published_path(workspace, "tiny", "tiny--one", "full"))
    assert {(unit.status, unit.rows) for unit in broken_units} == {("failed", 0)}
    assert "NaN" in broken_units[0].reason
    raw["models"][0]["source"]["path"] = str(folder)
    path.write_text(yaml.safe_dump(raw))
    assert "extracted 16 units" in ok(run(path))


def test_non_finite_scores_are_recorded_with_the_reason(
    workspace: Workspace, tiny_problem: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tiny_problem()
    score = Engine.score
    tokenizer = AutoTokenizer.from_pretrained(
        yaml.safe_load(path.read_text())["models"][1]["source"]["path"]
    )
    third = tokenizer(make_text(2)).input_ids

    def fail_on_third(engine: Engine, requests: Any) -> Any:
        if any(third == request.ids.tolist() for request in requests):
            raise NonFiniteLogits("the model produced NaN or infinite logits")
        return score(engine, requests)

    monkeypatch.setattr(Engine, "score", fail_on_third)
    message = one_line_error(run(path), 5)
    assert "1 failed" in message
    units = read_units(published_path(workspace, "tiny", "tiny--two", "full"))
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
    ("options", "words"),
    [
        (["--model", "nobody/none"], "--model nobody/none: not in problem tiny; its models are"),
        (["--probe", "magic"], "--probe magic: not in problem tiny; its probes are: full"),
        (["--device", "cuda:7"], "--device cuda:7: no CUDA device here"),
    ],
)
def test_wrong_words_on_the_command_line(
    options: list[str], words: str, workspace: Workspace, tiny_problem: Callable[..., Path]
) -> None:
    assert words in one_line_error(run(tiny_problem(), *options), 1)


def test_an_unknown_probe_kind_in_the_file(
    workspace: Workspace, tiny_problem: Callable[..., Path]
) -> None:
    message = one_line_error(run(tiny_problem(probes=[{"kind": "ful"}])), 1)
    assert "tiny.yml:" in message and "probes[0]" in message and "'full'" in message


def test_a_missing_model_does_not_stop_the_others(
    workspace: Workspace, tiny_problem: Callable[..., Path]
) -> None:
    raw = yaml.safe_load(tiny_problem().read_text())
    raw["models"][0]["source"]["path"] = "nowhere/at/all"
    (workspace.problems / "tiny.yml").write_text(yaml.safe_dump(raw))
    result = run(workspace.problems / "tiny.yml")
    one_line_error(result, 5)
    assert "tiny/one: source.path" in result.output and "no config.json" in result.output
    assert len(everything(workspace)) == len(CONDITIONS)


def test_a_model_that_cannot_fit_is_refused_before_it_is_loaded(
    workspace: Workspace, tiny_problem: Callable[..., Path]
) -> None:
    raw = yaml.safe_load(tiny_problem().read_text())
    raw["models"][0]["parameters"] = 10**15
    raw["models"][0]["source"] = {"kind": "hub"}
    (workspace.problems / "tiny.yml").write_text(yaml.safe_dump(raw))
    result = run(workspace.problems / "tiny.yml")
    one_line_error(result, 5)
    assert "tiny/one: needs about" in result.output and "cpu has" in result.output
    assert len(everything(workspace)) == len(CONDITIONS)


def test_an_empty_document_is_refused_before_work_starts(
    workspace: Workspace, tiny_problem: Callable[..., Path]
) -> None:
    path = tiny_problem()
    (workspace.root / "data" / "corpus.json").write_text(json.dumps(["fine text here", "  "]))
    result = run(path)
    assert result.exit_code != 0 and "empty" in result.output
    assert not everything(workspace)


@pytest.mark.parametrize(
    "documents",
    [
        {"too_long": "refuse"},
        {"too_long": "truncate"},
        {"too_long": "truncate", "room": 14},
        {"too_long": "run", "margin": 10_000},
        {"too_long": "run", "margin": 3},
    ],
)
def test_documents_longer_than_the_context(
    documents: dict[str, Any], workspace: Workspace, tiny_problem: Callable[..., Path]
) -> None:
    path = tiny_problem(documents={"kind": "json", "path": "data/corpus.json", **documents})
    raw = yaml.safe_load(path.read_text())
    short, *others = json.loads((workspace.root / "data" / "corpus.json").read_text())
    corpus = [" ".join(short.split()[:20]), *others]
    (workspace.root / "data" / "corpus.json").write_text(json.dumps(corpus))
    raw["models"][0]["context"] = 64
    path.write_text(yaml.safe_dump(raw))
    result = run(path)
    units = read_units(published_path(workspace, "tiny", "tiny--one", "full"))
    lengths = [unit.document_tokens for unit in units]
    over = [unit.over_limit_tokens for unit in units]
    if documents["too_long"] == "truncate":
        ok(result)
        told = f"tiny/one: 3 of 4 documents cut, {sum(lengths):,} of "
        assert f"cut: {told}" in result.output and "tiny/two" not in told
        shown = ok(CliRunner().invoke(status, ["--problem", str(path)]))
        assert f"Cut: {told}" in shown
        plan = ok(run(path, "--dry-run"))
        most = 63 - documents.get("room", 0)
        assert f"tiny/one: 3 of 4 documents will be cut to {most} tokens" in plan
        assert plan.count("16/16") == 2, plan
        # one token of the context is the BOS
        assert lengths[1:] == [63 - documents.get("room", 0)] * 3 and over == [0] * 4
        assert all(unit.document_tokens_total > 63 for unit in units[1:])
        published = published_path(workspace, "tiny", "tiny--one", "retrieval_with")
        behind = pq.read_table(published, partitioning=None)
        # 14 tokens are an excerpt and its answer, the last of which is only predicted
        most = max(behind["context_tokens"].to_pylist()) + 1
        assert most == (63 if "room" in documents else 63 + 14)
    elif documents.get("margin") == 10_000:
        ok(result)
        assert over == [0, *(length - 63 for length in lengths[1:])] and min(over[1:]) > 0
        shown = ok(CliRunner().invoke(status, ["--problem", str(path)]))
        assert "Documents over the model's context: tiny/one (3)." in shown
    else:
        message = one_line_error(result, 5)
        assert "1 failed" in message and "1 of 2 models" in message
        (line,) = (line for line in result.output.splitlines() if "whose context" in line)
        assert line.startswith("error: tiny/one, documents 1, 2, 3: ")
        assert "max_tokens" in line and ("margin of 3" in line) == ("margin" in documents)
        assert [unit.status for unit in units] == ["done", "failed", "failed", "failed"]
        assert all("whose context is 64" in unit.reason for unit in units[1:])
        shown = ok(CliRunner().invoke(status, ["--problem", str(path)]))
        assert shown.count("failed: tiny/one: ") == shown.count("whose context is 64") == 1
    other = read_units(published_path(workspace, "tiny", "tiny--two", "full"))
    assert {unit.status for unit in other} == {"done"}


def test_a_document_within_the_margin_scores_as_with_a_larger_context(
    workspace: Workspace, tiny_problem: Callable[..., Path]
) -> None:
    raw = yaml.safe_load(tiny_problem().read_text())
    raw["documents"] |= {"too_long": "run", "margin": 10_000}
    before = raw["models"][0]
    raw["models"] = [before | {"full_id": "tiny/short", "context": 64}, before]
    path = workspace.problems / "tiny.yml"
    path.write_text(yaml.safe_dump(raw))
    ok(run(path))
    tables = everything(workspace)
    for condition in CONDITIONS:
        short, whole = (
            tables[f"problem=tiny/model_id=tiny--{name}/condition={condition}"]
            for name in ("short", "one")
        )
        assert short.equals(whole)


def _broken(folder: Path, how: str) -> str:
    """Break a checkpoint; returns what its line must say."""
    config = json.loads((folder / "config.json").read_text())
    weights = folder / "model.safetensors"
    if how == "wrong sizes":
        config["hidden_size"] = config["hidden_size"] * 2
        says = "don't have the shapes that its config.json gives"
    elif how == "cut off":
        weights.write_bytes(weights.read_bytes()[:1000])
        says = "damaged or incomplete"
    elif how == "no tokenizer":
        for file in folder.glob("tokenizer*"):
            file.unlink()
        says = "can't be loaded"
    elif how == "unknown architecture":
        config["model_type"] = "unheard-of"
        says = "pip install -U transformers"
    else:
        config["auto_map"] = {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"}
        config["model_type"] = "unheard-of"
        (folder / "own.py").write_text("raise SystemExit('executed')")
        says = "`trust_remote_code: true`"
    (folder / "config.json").write_text(json.dumps(config))
    return says


@pytest.mark.parametrize(
    "how", ["wrong sizes", "cut off", "no tokenizer", "unknown architecture", "own code"]
)
def test_a_model_that_cannot_be_loaded_is_named_with_its_own_remedy(
    how: str,
    workspace: Workspace,
    tiny_problem: Callable[..., Path],
    tmp_path: Path,
    recwarn: pytest.WarningsRecorder,
) -> None:
    raw = yaml.safe_load(tiny_problem(texts=2).read_text())
    folder = tmp_path / "broken"
    shutil.copytree(raw["models"][0]["source"]["path"], folder)
    says = _broken(folder, how)
    raw["models"][0]["source"]["path"] = str(folder)
    path = workspace.problems / "tiny.yml"
    path.write_text(yaml.safe_dump(raw))
    result = run(path)
    assert "1 failed (listed above), of 1 of 2 models" in one_line_error(result, 5)
    (line,) = (line for line in result.output.splitlines() if line.startswith("error: tiny/one"))
    assert line.count("tiny/one") == 1 and says in line, line
    assert "extracted 8 units" in result.output
    if how in ("wrong sizes", "cut off"):  # its files were found, so its units are known
        units = read_units(published_path(workspace, "tiny", "tiny--one", "full"))
        assert [(unit.status, unit.reason in line) for unit in units] == [("failed", True)] * 2
    shutil.rmtree(folder)
    shutil.copytree(raw["models"][1]["source"]["path"], folder)
    assert "extracted 8 units" in ok(run(path))


def test_any_exception_of_a_document_is_that_documents(
    workspace: Workspace, tiny_problem: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert "1 failed (listed above), of 1 of 2 models" in one_line_error(result, 5)
    assert "error: tiny/one, document 0: out of memory (CUDA out of memory." in result.output
    assert "--device auto-map" in result.output
    monkeypatch.setattr(Engine, "score", score)
    assert "extracted 2 units" in ok(run(path))


def test_messages_of_libraries_are_printed_once(
    workspace: Workspace, tiny_problem: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    import logging
    import warnings

    score = Engine.score

    def noisy(engine: Engine, requests: Any) -> Any:
        logging.getLogger("transformers.models").warning("%s is odd\nand more", id(engine))
        warnings.warn("old habits", FutureWarning, stacklevel=1)
        return score(engine, requests)

    monkeypatch.setattr(Engine, "score", noisy)
    output = ok(run(tiny_problem(texts=2)))
    notes = [line for line in output.splitlines() if line.startswith("note: ")]
    assert len(notes) == 2 and "and more" not in output
    assert "note: transformers, for tiny/one and 1 more: " in notes[0]
    assert notes[1].endswith("old habits")
    assert logging.getLogger("transformers").handlers


def test_a_processor_is_obeyed_by_name_and_refused_for_weeks(
    workspace: Workspace, tiny_problem: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("extract.cli.LONGEST_CPU_HOURS", 1e-12)
    monkeypatch.setattr("extract.devices.resolve_device", lambda asked: "cpu")
    path = tiny_problem(texts=1)
    refused = CliRunner().invoke(extract, ["--problem", str(path)])
    message = one_line_error(refused, 1)
    assert "no GPU here" in message and "insist with --device cpu" in message
    assert not workspace.pending.exists()
    output = ok(run(path))
    assert "warning: a processor would take about 0 hours" in output
    assert "extracted 8 units" in output


def test_another_file_of_a_problem_s_name_does_not_replace_its_tokens(
    workspace: Workspace, tiny_problem: Callable[..., Path], tmp_path: Path
) -> None:
    path = tiny_problem(texts=2)
    ok(run(path))
    before = everything(workspace)
    body = yaml.safe_load(path.read_text())
    other = tmp_path / "elsewhere" / path.name
    (other.parent / "texts").mkdir(parents=True)
    (other.parent / "texts" / "a.txt").write_text(make_text(9))
    body["documents"] = {"kind": "folder", "path": "texts"}
    other.write_text(yaml.safe_dump(body))
    for command in (extract, status):
        result = CliRunner().invoke(command, ["--problem", str(other)])
        assert f"name: {body['name']} is that of {path.resolve()}" in one_line_error(result, 1)
    assert everything(workspace) == before
    # a file may be moved
    path.rename(tmp_path / "moved.yml")
    ok(CliRunner().invoke(extract, ["--problem", str(tmp_path / "moved.yml"), "--dry-run"]))
    ok(CliRunner().invoke(extract, ["--problem", str(other), "--dry-run"]))


def test_a_file_that_is_not_there_is_named_before_and_after_a_run(
    workspace: Workspace, tiny_problem: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("extract.devices.resolve_device", lambda asked: "cpu")
    path = tiny_problem(texts=1)
    body = yaml.safe_load(path.read_text())
    body["models"][0]["source"] = {"kind": "gguf", "path": "nowhere/model.gguf"}
    path.write_text(yaml.safe_dump(body))
    asked = ["--problem", str(path), "--model", body["models"][0]["full_id"]]
    planned = ok(CliRunner().invoke(extract, [*asked, "--dry-run"]))
    notes = " ".join(planned.split())
    assert f"Not here: {body['models'][0]['full_id']}: place the checkpoint at " in notes
    assert "Size unknown" not in notes
    result = CliRunner().invoke(extract, asked)
    one_line_error(result, 5)
    assert "model.gguf: no such file" in result.output and "no GPU" not in result.output


def test_a_model_of_unknown_size_needs_the_processor_by_name(
    workspace: Workspace, tiny_problem: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("extract.devices.resolve_device", lambda asked: "cpu")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    raw = yaml.safe_load(tiny_problem(texts=1).read_text())
    raw["models"][0]["source"] = {"kind": "hub"}
    path = workspace.problems / "tiny.yml"
    path.write_text(yaml.safe_dump(raw))
    message = one_line_error(CliRunner().invoke(extract, ["--problem", str(path)]), 1)
    assert "how long a processor would take is unknown, as is the size of tiny/one" in message
    result = run(path)
    assert "warning: how long a processor would take is unknown" not in result.output
    assert "extracted 4 units" in result.output


def test_a_window_longer_than_every_document_is_named_with_what_to_change(
    workspace: Workspace, tiny_problem: Callable[..., Path]
) -> None:
    window = {"kind": "window", "name": "window_512", "context": 512, "stride": 64}
    path = tiny_problem(texts=2, probes=[{"kind": "full"}, window])
    words = (
        "window_512 has no token to score, as the text that tiny/one, tiny/two read is too short "
        "for it: give its probe a smaller `context` (512), or read more of the documents"
    )
    assert f"By this estimate {words}" in ok(run(path, "--max-tokens", "40", "--dry-run"))
    assert f"warning: {words}" in run(path, "--max-tokens", "40").output
    shown = ok(CliRunner().invoke(status, ["--problem", str(path)]))
    assert words in shown and "full has no token" not in shown
    view = ["--problem", str(path), "--document", "0", "--model", "one"]
    message = one_line_error(CliRunner().invoke(show, [*view, "--measure", "gain"]), 1)
    assert "window_512 is extracted, but without a token to score" in message
    assert "a smaller `context`" in message


def test_what_max_characters_cuts_is_named_with_the_whole_length(
    workspace: Workspace, tiny_problem: Callable[..., Path]
) -> None:
    documents = {"kind": "json", "path": "data/corpus.json", "max_characters": 200}
    path = tiny_problem(texts=2, documents=documents)
    texts = json.loads((workspace.root / "data" / "corpus.json").read_text())
    whole = sum(map(len, texts))
    planned = ok(run(path, "--probe", "full", "--dry-run"))
    assert f"2 documents of 400 of {whole:,} (documents.max_characters) characters" in planned
    done = ok(run(path, "--probe", "full", "--max-tokens", "20"))
    assert "2 of 2 documents cut, 40 of " in done
    view = ["--problem", str(path), "--document", "0", "--model", "one"]
    shown = ok(CliRunner().invoke(show, view))
    assert (
        f"(cut by documents.max_characters, whole: {len(texts[0]):,}); tiny/one read 20 of "
        in shown
    )
