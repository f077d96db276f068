"""A long run in pieces: all models alike after each, a budget, and going on after a stop."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from tiny_runs import ok, run

from extract.campaign.pieces import Piece, fitting, ordered, steps
from extract.campaign.run import Campaign, Done, log_path, until
from extract.planning.plan import select
from extract.recall.measurement import recall_target
from tokenmart import cli
from warehouse.paths import Workspace
from warehouse.problem.spec import load_problem
from warehouse.progress import no_progress
from warehouse.sources.archives import PinnedArchive

FILLER = [
    (f"play-{n}", f"Act {n}. A line of a play goes here, number {n}.\n" * 400) for n in (1, 2)
]
TARGET = {
    "kind": "recall",
    "filler": {"package": "x==1", "archive": "x", "sha256": "0" * 64, "include": "*"},
    "lengths": [64, 128],
    "contexts": 3,
    "key_every": 64,
    "tasks": ["single_key", "multi_key"],
    "overall": "without_shortest",
}


@pytest.fixture
def path(tiny_problem: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(PinnedArchive, "texts", lambda *_: FILLER)
    return tiny_problem(texts=3, target=TARGET)


def campaign_of(path: Path, workspace: Workspace, **changes: Any) -> Campaign:
    problem = load_problem(str(path), workspace)
    settings: dict[str, Any] = {"documents": None, "document_step": 2, "context_step": 2}
    target = recall_target(problem, None, demo=False)
    chosen = select(problem, device="cpu", dtype="float32")
    return Campaign(problem, target, chosen, workspace, **(settings | changes))


def names(pieces: list[Piece]) -> list[str]:
    return [f"{piece.kind} {piece.upto}" for piece in pieces]


def test_pieces_of_both_kinds_come_in_turn_and_fit_a_budget() -> None:
    assert steps(50, 20) == [20, 40, 50] and steps(4, 2) == [2, 4] and steps(1, 3) == [1]
    order = ordered([2, 4, 6], [3])
    assert order == [("recall", 3), ("documents", 2), ("documents", 4), ("documents", 6)]
    pieces = [Piece(kind, upto, 1, 10) for kind, upto in order]
    assert [fitting(pieces, seconds) for seconds in (None, 9, 10, 35, 400)] == [4, 0, 1, 3, 4]


def test_after_each_piece_all_models_are_alike(path: Path, workspace: Workspace) -> None:
    work = campaign_of(path, workspace)
    assert names(work.pieces()) == ["recall 2", "documents 2", "recall 3", "documents 3"]
    assert all(piece.left == 1 and piece.seconds > 0 for piece in work.pieces())
    for place, piece in enumerate(work.pieces()):
        work.run(piece, no_progress)
        left = [each.left for each in work.pieces()]
        assert left == [0] * (place + 1) + [1] * (3 - place)
        read = work._documents_done() if piece.kind == "documents" else work._contexts_done()
        assert read == [piece.upto] * 2
    assert work.failures == []


def test_a_campaign_that_was_stopped_goes_on(path: Path, workspace: Workspace) -> None:
    def stop_after_the_first_model(what: str, units: int) -> None:
        if "two" in what:
            raise KeyboardInterrupt

    work = campaign_of(path, workspace)
    with pytest.raises(KeyboardInterrupt):
        work.run(work.pieces()[0], stop_after_the_first_model)
    again = campaign_of(path, workspace)
    assert 0 < again.pieces()[0].left < 1
    done = until(again, None, lambda piece: again.run(piece, no_progress))
    assert [(one.kind, one.upto) for one in done] == again.order
    assert until(again, None, lambda piece: again.run(piece, no_progress)) == []
    assert len(again.log["pieces"]) == 4


def test_cut_documents_are_still_to_be_read(path: Path, workspace: Workspace) -> None:
    work = campaign_of(path, workspace)
    ok(run(path, "--max-tokens", "40"))
    assert work._documents_done() == [0, 0]
    ok(run(path))
    assert work._documents_done() == [3, 3]


def test_a_piece_that_does_not_fit_is_not_begun(path: Path, workspace: Workspace) -> None:
    work = campaign_of(path, workspace)
    work.rates = {}
    ran: list[str] = []

    def pretend(piece: Piece) -> Done:
        ran.append(piece.name)
        return Done(piece.kind, piece.upto, 0, "", 0)

    first = work.pieces()[0].seconds
    assert until(work, first / 2, pretend) == [] and ran == []


def test_times_are_those_measured_as_soon_as_there_are_any(
    path: Path, workspace: Workspace
) -> None:
    work = campaign_of(path, workspace)
    assert "reckoned" in work.rate("recall").source
    work.run(work.pieces()[0], no_progress)
    assert work.rate("recall").source == "measured in the last piece"
    later = campaign_of(path, workspace)
    assert "earlier run" in later.rate("recall").source
    assert later.rate("recall").seconds == pytest.approx(work.rate("recall").seconds, abs=0.06)
    log = json.loads(log_path(workspace, "tiny").read_text())
    assert log["machine"]["cores"] >= 1 and log["pieces"][0]["kind"] == "recall"


def test_the_command_plans_runs_and_says_what_is_left(path: Path, workspace: Workspace) -> None:
    asked = ["campaign", "--problem", str(path), "--device", "cpu", "--document-step", "2"]
    planned = CliRunner().invoke(cli, [*asked, "--context-step", "3", "--dry-run"])
    assert planned.exit_code == 0, planned.output
    assert "2 models, 3 pieces to do" in planned.output and "in all" in planned.output
    assert not workspace.tokens.exists()
    small = CliRunner().invoke(cli, [*asked, "--hours", "0.0000001"])
    assert small.exit_code == 0 and "beyond the budget" in small.output
    assert "ran 0 pieces" in small.output and "run the same command to go on" in small.output
    whole = CliRunner().invoke(cli, [*asked, "--hours", "1", "--documents", "2", "--contexts", "1"])
    assert whole.exit_code == 0, whole.output
    assert "all models have 2 documents and 1 context of the target" in whole.output
    again = CliRunner().invoke(cli, [*asked, "--documents", "2", "--contexts", "1"])
    assert "everything is there already" in again.output


def test_documents_or_the_target_alone(path: Path, workspace: Workspace) -> None:
    asked = ["campaign", "--problem", str(path), "--device", "cpu", "--only"]
    target = CliRunner().invoke(cli, [*asked, "target", "--contexts", "1"])
    assert target.exit_code == 0, target.output
    assert "all models have 1 context of the target\n" in target.output
    assert not workspace.tokens.exists()
    documents = CliRunner().invoke(cli, [*asked, "documents", "--documents", "1"])
    assert documents.exit_code == 0, documents.output
    assert "all models have 1 document\n" in documents.output
    assert campaign_of(path, workspace)._contexts_done() == [1, 1]


def test_the_first_documents_can_be_left_out(path: Path, workspace: Workspace) -> None:
    work = campaign_of(path, workspace, skip=1, document_step=1)
    assert names(work.pieces()) == ["recall 2", "documents 2", "recall 3", "documents 3"]
    asked = ["campaign", "--problem", str(path), "--device", "cpu", "--only", "documents"]
    done = CliRunner().invoke(cli, [*asked, "--skip-documents", "1", "--documents", "2"])
    assert done.exit_code == 0, done.output
    assert "all models have 1 document after the first 1\n" in done.output
    assert work._documents_done() == [2, 2]
    assert [piece.left for piece in work.pieces()] == [1, 0, 1, 1]
    assert campaign_of(path, workspace)._documents_done() == [0, 0]
    none = CliRunner().invoke(cli, [*asked, "--skip-documents", "3"])
    assert none.exit_code == 1 and "only 3 are asked for, so none is left" in none.output


def test_a_target_that_is_not_measured_is_no_part(
    tiny_problem: Callable[..., Path], workspace: Workspace
) -> None:
    asked = ["campaign", "--problem", str(tiny_problem(texts=2)), "--device", "cpu", "--only"]
    refused = CliRunner().invoke(cli, [*asked, "target"])
    assert refused.exit_code != 0 and "target" in refused.output
    assert not workspace.tokens.exists()


def test_a_damaged_log_is_named(path: Path, workspace: Workspace) -> None:
    log = log_path(workspace, "tiny")
    log.parent.mkdir(parents=True)
    log.write_text('{"schema": "other"}')
    said = CliRunner().invoke(cli, ["campaign", "--problem", str(path), "--device", "cpu"])
    assert said.exit_code == 4 and "only times are lost" in said.output


def test_a_model_that_fails_stops_no_other(
    path: Path, workspace: Workspace, tmp_path: Path
) -> None:
    text = path.read_text().replace("full_id: tiny/two", "full_id: tiny/two\n  context: 100")
    path.write_text(text)
    said = CliRunner().invoke(cli, ["campaign", "--problem", str(path), "--device", "cpu"])
    assert said.exit_code == 5 and "tiny/two" in said.output
    stored = sorted(workspace.downstream.glob("problem=tiny/*/items.parquet"))
    assert [file.parent.name for file in stored] == ["model_id=tiny--one"]
    assert set(pq.read_table(stored[0], partitioning=None)["cluster"].to_pylist()) == {0, 1, 2}
