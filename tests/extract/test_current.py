"""Which units are current: a plan, an extraction, `status` and `data gc` agree on it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from published_tables import published
from refusal import refuses
from sql_samples import ask
from tiny_models import PROBES, make_checkpoint, make_text
from tiny_runs import ok, run

from extract.cli import status
from extract.planning import selection as selection_module
from extract.planning.documents import PlannedDocument, documents_of
from extract.planning.plan import plan_model
from extract.planning.selection import Selection, select
from extract.planning.status import count_finished, over_lines
from extract.planning.tables import CHANGED, make_plan
from warehouse.maintenance.garbage import find_garbage
from warehouse.paths import Workspace
from warehouse.problem.spec import load_problem
from warehouse.problem.tables import ensure_documents
from warehouse.store.ledger import UnitRecord
from warehouse.store.token_files import finished_units

CUT = 40
"""Tokens: fewer than any document of a tiny problem has."""
KEYS = ("tiny", "tiny--one", "full")


@pytest.fixture
def path(tiny_problem: Callable[..., Path], workspace: Workspace) -> Path:
    """A problem of one model, one probe and two documents, all extracted."""
    file = tiny_problem(texts=2, probes=PROBES[:1])
    edit(file, models=yaml.safe_load(file.read_text())["models"][:1])
    ok(run(file))
    return file


def edit(path: Path, **sections: Any) -> None:
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | sections))


def selected(workspace: Workspace, path: Path, **options: Any) -> Selection:
    problem = load_problem(str(path), workspace)
    return select(problem, workspace, **{"device": "cpu", "dtype": "auto", **options})


def done(workspace: Workspace, path: Path, **options: Any) -> int:
    """Current units; by the ledger and by the files they must be the same."""
    selection = selected(workspace, path, **options)
    documents = documents_of(ensure_documents(selection.problem, workspace), None)
    (model,) = make_plan(selection).models
    assert model.units == 2 and model.left == 1 - model.done / 2
    assert count_finished(selection, documents) == model.done
    if options.get("dtype") != "bfloat16" and model.done:
        assert plan_model(selection, model.spec, documents).done == model.done
    return model.done


def refuse_less(selection: Selection, documents: Sequence[PlannedDocument]) -> None:
    """What a run checks of each document before it scores it."""
    plan = plan_model(selection, selection.models[0], documents)
    for task in plan.tasks:
        plan.refuse_less(task, plan.tokenize(task.document))


def units_of(workspace: Workspace) -> dict[int, UnitRecord]:
    return finished_units(workspace, *KEYS)


def test_limits_dtype_engine_and_top_tokens_of_a_run(path, workspace, monkeypatch):
    assert done(workspace, path) == 2
    # a limit that cuts nothing changes nothing
    assert done(workspace, path, max_tokens=10**6) == 2
    assert done(workspace, path, max_tokens=CUT) == 0
    assert done(workspace, path, dtype="float32") == 2
    assert done(workspace, path, dtype="bfloat16") == 0
    assert done(workspace, path, top_k=3) == 0
    ok(run(path, "--top-k", "3"))
    assert done(workspace, path, top_k=2) == done(workspace, path) == 2
    ok(run(path, "--max-tokens", str(CUT), "--force"))
    assert done(workspace, path, max_tokens=CUT) == 2
    assert done(workspace, path) == 0
    monkeypatch.setattr(selection_module, "ENGINE_VERSION", "another")
    assert done(workspace, path, max_tokens=CUT) == 0


def test_a_context_that_cuts_is_no_cut_of_the_command_line(path, workspace):
    raw = yaml.safe_load(path.read_text())
    models = [{**raw["models"][0], "context": 2 * CUT}]
    edit(path, documents={**raw["documents"], "too_long": "truncate"}, models=models)
    ok(run(path, "--force"))
    assert {unit.document_tokens for unit in units_of(workspace).values()} == {2 * CUT - 1}
    assert done(workspace, path) == 2
    ok(run(path, "--max-tokens", str(CUT), "--force"))
    assert done(workspace, path) == 0


@pytest.mark.parametrize("probe", ["full", "window_24"])
def test_another_checkpoint_in_the_same_place_is_to_be_computed(
    tiny_problem, workspace, tmp_path, probe
):
    """The fingerprint of a condition has the checkpoint's revision and that of its kind."""
    folder = tmp_path / "checkpoint"
    make_checkpoint(folder, seed=0)
    source = {"kind": "local", "path": str(folder)}
    one = {"full_id": "tiny/one", "family": "one", "dtype": "float32", "source": source}
    path = tiny_problem(texts=2, models=[one])
    ok(run(path, "--probe", probe))

    def planned() -> int:
        selection = selected(workspace, path, probes=[probe])
        documents = documents_of(ensure_documents(selection.problem, workspace), None)
        return plan_model(selection, selection.models[0], documents).done

    assert planned() == 2
    shutil.rmtree(folder)
    make_checkpoint(folder, seed=5)
    assert planned() == 0


def test_the_problem_file_decides_for_status_and_gc_too(path, workspace):
    def states() -> tuple[int, int, set[str]]:
        """Done and outdated of `status`, and the reasons of `gc`."""
        result = CliRunner().invoke(status, ["--problem", str(path), "--json"])
        assert result.exit_code == 0, (result.output, result.exception)
        shown = json.loads(result.stdout)
        found, _ = find_garbage(workspace, "tiny")
        return (
            sum(row["done"] for row in shown),
            sum(row["outdated"] for row in shown),
            {each.why for each in found},
        )

    assert states() == (2, 0, set())
    ok(run(path, "--max-tokens", str(CUT), "--force"))
    assert states() == (2, 0, set())
    texts = workspace.root / "data" / "corpus.json"
    texts.write_text(json.dumps([make_text(0), make_text(7)]))
    ensure_documents(load_problem(str(path), workspace), workspace)
    assert states() == (1, 1, {"the document has changed"})
    assert done(workspace, path, max_tokens=CUT) == 1
    assert ask("select doc_id, status from units order by all") == [
        {"doc_id": 0, "status": "done"},
        {"doc_id": 1, "status": "outdated"},
    ]
    models = yaml.safe_load(path.read_text())["models"]
    edit(path, models=[{**models[0], "full_id": "tiny/other"}])
    assert states() == (0, 0, {"the model is not in the problem file"})
    edit(path, models=models, probes=[{"kind": "window", "name": "w", "context": 24, "stride": 8}])
    assert states() == (0, 0, {"the probe is not in the problem file"})


def test_parameters_of_a_probe_are_compared(workspace, tiny_problem):
    path = tiny_problem(
        texts=2, probes=[{"kind": "window", "name": "w", "context": 24, "stride": 8}]
    )
    ok(run(path, "--model", "tiny/one"))
    edit(path, probes=[{"kind": "window", "name": "w", "context": 24, "stride": 16}])
    models = make_plan(selected(workspace, path)).models
    assert [model.done for model in models] == [0, 0]
    found, _ = find_garbage(workspace, "tiny")
    assert {each.why for each in found} == {"the probe's parameters have changed"}


def rows_of(workspace: Workspace) -> dict[str, int]:
    return {name: table.num_rows for name, table in published(workspace).items()}


def test_units_that_read_more_are_kept_beside_missing_ones(workspace, tiny_problem):
    path = tiny_problem(texts=3)
    ok(run(path, "--documents", "1", "--model", "tiny/one", "--max-tokens", "120"))
    less = run(path, "--max-tokens", "60")
    assert less.exit_code == 5 and "extracted 20 units" in less.output
    assert [unit.document_tokens for unit in units_of(workspace).values()] == [120, 60, 60]
    assert {unit.status for unit in units_of(workspace).values()} == {"done"}
    rows = rows_of(workspace)
    assert "extracted 0 units" in run(path, "--max-tokens", "60").output
    assert rows_of(workspace) == rows
    # more replaces less
    assert "extracted 24 units" in ok(run(path))


@pytest.mark.parametrize(
    ("options", "in_file"),
    [
        ({"max_tokens": CUT, "dtype": "bfloat16"}, {}),
        ({"max_tokens": CUT}, {}),
        ({}, {"max_tokens": CUT}),
    ],
)
def test_other_settings_on_fewer_tokens_are_refused(options, in_file, path, workspace):
    edit(path, documents={**yaml.safe_load(path.read_text())["documents"], **in_file})
    selection = selected(workspace, path, **options)
    documents = documents_of(ensure_documents(selection.problem, workspace), None)
    with refuses("shorter-run", "full"):
        refuse_less(selection, documents)
    arguments = [
        word
        for key, value in options.items()
        for word in (f"--{key}".replace("_", "-"), str(value))
    ]
    before = units_of(workspace)
    assert run(path, *arguments).exit_code == 5 and units_of(workspace) == before
    assert "extracted 2 units" in ok(run(path, *arguments, "--force"))


@pytest.mark.parametrize("name", ["corpus.json", "corpus.jsonl", "corpus"])
def test_a_plan_knows_of_changed_texts(name, path, workspace):
    """The ledger alone counts their units as done."""
    place = workspace.root / "data" / name
    kind = {".json": "json", ".jsonl": "table", "": "folder"}[place.suffix]

    def write(*texts: str) -> None:
        if kind == "folder":
            place.mkdir(exist_ok=True)
            for number, text in enumerate(texts):
                (place / f"{number}.txt").write_text(text)
        else:
            rows = [json.dumps({"text": text}) for text in texts]
            place.write_text("\n".join(rows) if kind == "table" else f"[{','.join(rows)}]")

    write(make_text(0), make_text(1))
    edit(path, documents={"kind": kind, "path": f"data/{name}"})
    ensure_documents(load_problem(str(path), workspace), workspace)
    assert CHANGED not in make_plan(selected(workspace, path)).notes
    write(make_text(0), make_text(2))
    assert CHANGED in make_plan(selected(workspace, path)).notes


@pytest.mark.parametrize(("model", "read"), [("one", 63), ("two", 64)])
def test_other_settings_on_documents_cut_at_the_context_replace_units(
    model, read, workspace, tiny_problem
):
    """One token of the context is BOS; the second model has none."""
    documents = {"kind": "json", "path": "data/corpus.json", "too_long": "truncate"}
    path = tiny_problem(texts=2, probes=PROBES[:1], documents=documents)
    models = yaml.safe_load(path.read_text())["models"]
    edit(path, models=[each | {"context": 64} for each in models])
    keys = workspace, "tiny", f"tiny--{model}", "full"
    for dtype in ("float32", "bfloat16"):
        ok(run(path, "--model", f"tiny/{model}", "--dtype", dtype))
        units = finished_units(*keys).values()
        assert {(u.dtype, u.document_tokens) for u in units} == {(dtype, read)}


def test_a_failure_leaves_what_other_settings_gave(path, workspace, monkeypatch):
    from extract.scoring.engine import Engine

    def failing(*_: object) -> None:
        raise RuntimeError("refused")

    before = units_of(workspace)
    monkeypatch.setattr(Engine, "score", failing)
    assert run(path, "--dtype", "bfloat16").exit_code == 5
    assert units_of(workspace) == before


def test_documents_over_the_context_are_those_of_the_condition_with_most():
    counts = [("a", 3), ("a", 1), ("b", 0), ("c", 1), ("a", 0)]
    rows = [{"model": model, "over_limit": count} for model, count in counts]
    assert [line.partition(" over")[0] for line in over_lines(rows)] == [
        "a: 3 documents", "c: 1 document",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sections", "where"),
    [
        ({"documents": {"kind": "json", "path": "data/corpus.json", "max_characters": 200}}, "0"),
        ({"probes": [PROBES[0], PROBES[1] | {"context": 40}, *PROBES[2:]]}, "window_24"),
        ({"probes": [*PROBES[:2], PROBES[2] | {"answer_tokens": 4}]}, "retrieval_with"),
    ],
)
def test_smaller_limits_in_the_problem_file_leave_finished_units(
    sections, where, workspace, tiny_problem
):
    """Text cut shorter, and probes that score fewer tokens of it under the same name."""
    one = ("--model", "tiny/one")
    ok(run(tiny_problem(texts=2), *one))
    before, rows = units_of(workspace), rows_of(workspace)
    path = tiny_problem(texts=2, **sections)
    problem = load_problem("tiny", workspace)
    with refuses("shorter-run", where):
        documents = documents_of(ensure_documents(problem, workspace), None)
        selection = select(problem, workspace, device="cpu", dtype="auto")
        refuse_less(selection, documents)
    assert run(path, *one).exit_code != 0
    assert (units_of(workspace), rows_of(workspace)) == (before, rows)
    ok(run(path, *one, "--force"))
    assert rows_of(workspace) != rows
    # and back: more replaces less
    ok(run(tiny_problem(texts=2), *one))
    assert rows_of(workspace) == rows


def test_top_k_tokens_are_not_dropped_by_a_run_without(workspace, tiny_problem):
    path = tiny_problem(texts=1, probes=PROBES[:1])
    ok(run(path, "--top-k", "3"))
    problem = load_problem("tiny", workspace)
    documents = documents_of(ensure_documents(problem, workspace), None)
    selection = select(problem, workspace, device="cpu", dtype="bfloat16")
    with refuses("shorter-run", "full"):
        refuse_less(selection, documents)
    refuse_less(replace(selection, force=True), documents)
    refuse_less(select(problem, workspace, device="cpu", dtype="bfloat16", top_k=3), documents)
