"""Top-k tokens on request: equal to plain logits, stored with their units."""

from __future__ import annotations

import os
import shutil

import duckdb
import numpy as np
import pytest
from reference import plain_logprobs, references
from tiny_models import PROBES
from tiny_requests import load, requests_of
from tiny_runs import ok, run

from extract.planning.cost import work_of
from extract.scoring.engine import Engine
from warehouse.maintenance.garbage import find_garbage
from warehouse.probes.context import FullProbe
from warehouse.probes.planned import planned_document
from warehouse.sql.views import create_views


@pytest.mark.parametrize("tile", [37, 49_152])
def test_choices_are_those_of_the_plain_logits(tile, tiny_checkpoint, monkeypatch):
    monkeypatch.setattr("extract.scoring.head.CPU_TILE", tile)
    monkeypatch.setattr("extract.scoring.head.ALIGNMENT", 1)
    folder = tiny_checkpoint("gemma2")
    requests = requests_of(0)
    bare = Engine(load(folder)).score(requests)
    engine = Engine(load(folder), top_k=5)
    for request, result, without, reference in zip(
        requests, engine.score(requests), bare, references(load(folder), requests), strict=True
    ):
        scores = result.scores
        assert scores.choices is not None and scores.choice_logprobs is not None
        assert without.scores.choices is None
        np.testing.assert_array_equal(scores.logprob, without.scores.logprob)
        plain = plain_logprobs(load(folder), request).numpy()
        best = -np.sort(-plain, axis=1)[:, :5]
        np.testing.assert_allclose(scores.choice_logprobs, best, atol=2 * reference.nats)
        # near ties may change places: the ids are judged by the log-probs that they name
        named = np.take_along_axis(plain, scores.choices.astype(np.int64), axis=1)
        np.testing.assert_allclose(named, best, atol=2 * reference.nats)
        assert all(len(set(row)) == 5 for row in scores.choices.tolist())
        np.testing.assert_array_equal(scores.choice_logprobs[:, 0], scores.top_logprob)
        first = scores.rank == 1
        assert (scores.choices[first, 0] == request.targets[first]).all()


def test_more_choices_than_the_vocabulary_has_are_all_of_it(tiny_checkpoint):
    engine = Engine(load(tiny_checkpoint("llama")), top_k=1000)
    (scored,) = engine.score(requests_of(0)[:1])
    assert scored.scores.choice_logprobs is not None
    assert scored.scores.choice_logprobs.shape[1] == engine.head.vocabulary
    total = np.exp(scored.scores.choice_logprobs.astype(np.float64)).sum(1)
    np.testing.assert_allclose(total, 1, atol=1e-5)


def test_choices_are_stored_with_their_units(workspace, tiny_problem):
    path = tiny_problem(texts=2, probes=PROBES[:2])
    model = ("--model", "tiny/one")
    assert "extracted 4 units" in ok(run(path, *model))
    assert "extracted 4 units" in ok(run(path, *model, "--top-k", "3"))
    for again in ((), ("--top-k", "3"), ("--top-k", "2")):
        assert "extracted 0 units" in ok(run(path, *model, *again))
    assert "extracted 2 units" in ok(run(path, *model, "--top-k", "4", "--probe", "full"))
    with duckdb.connect() as connection:
        create_views(connection, workspace)
        counts = connection.execute(
            "select condition, min(n), max(n) from (select condition, count(*) as n from top_tokens"
            " group by condition, doc_id, segment, position) group by all order by all"
        ).fetchall()
        assert counts == [("full", 4, 4), ("window_24", 3, 3)]
        # as stored, the top-1 log-prob is that of the token itself
        differing = connection.execute(
            "select count(*) filter (choices.logprob != tokens.top_logprob"
            " or (rank = 1) != (choice_id = token_id)), count(*)"
            " from tokens inner join top_tokens as choices"
            " using (problem, model_id, condition, doc_id, segment, position) where choice = 1"
        ).fetchone()
        assert differing is not None and differing[0] == 0 and differing[1] > 300
    # choices whose unit is gone are garbage, but not while it may be on its way
    (file, *_) = sorted((workspace.data / "top_tokens").rglob("doc-*.parquet"))
    orphan = file.with_name("doc-000000-0123456789abcdef.parquet")
    shutil.copy(file, orphan)
    assert find_garbage(workspace, "tiny")[0] == []
    for each in (file, orphan):
        os.utime(each, (0, 0))
    assert [each.path for each in find_garbage(workspace, "tiny")[0]] == [orphan]
    orphan.unlink()
    # a unit recomputed without choices has none
    path = tiny_problem(texts=2, probes=[PROBES[0], {**PROBES[1], "stride": 8}])
    assert "extracted 2 units" in ok(run(path, *model, "--force"))
    assert not list((workspace.data / "top_tokens").rglob("*window_24/*.parquet"))


def test_the_problem_file_may_ask_for_choices(workspace, tiny_problem):
    path = tiny_problem(texts=1, probes=[{"kind": "full", "top_k": 2}, PROBES[1]])
    ok(run(path, "--model", "tiny/one"))
    files = [file.parent.name for file in (workspace.data / "top_tokens").rglob("*.parquet")]
    assert files == ["condition=full"]


def test_the_plan_counts_choices():
    full = FullProbe(kind="full", top_k=7).conditions()
    assert len(full[0].build(planned_document(100))[0].targets) == 99
    assert work_of([100, 50], full).choices == 7 * (99 + 49)
