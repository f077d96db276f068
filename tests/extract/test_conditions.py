"""Ladder, controls, needles and excerpts by character against plain forwards; their price."""

from __future__ import annotations

import json

import numpy as np
import pytest
from readings import reading_of
from reference import assert_scored, references
from tiny_models import make_text
from tiny_requests import RETRIEVAL, load
from tiny_runs import ok, run

from extract.extraction import scoring_groups
from extract.planning.cost import work_of
from extract.scoring.budgets import Budgets
from extract.scoring.engine import Engine
from warehouse.maintenance.check import check_store
from warehouse.probes.context import (
    CopyProbe,
    FarProbe,
    FullProbe,
    HalvesProbe,
    LadderProbe,
    WindowProbe,
)
from warehouse.probes.lookup import NeedleProbe, RetrievalProbe
from warehouse.probes.planned import planned_document
from warehouse.problem.spec import load_problem
from warehouse.store.ledger import UnitRecord, read_units
from warehouse.store.token_files import published_path

PROBES = [
    LadderProbe(kind="ladder", contexts=(8, 20, 40), targets=12, spans=3, slack=0.25),
    RetrievalProbe(
        kind="retrieval",
        excerpts=2,
        excerpt_characters=40,
        answer_characters=20,
        min_gap_characters=80,
        controls=("foreign", "shuffled", "tail"),
    ),
    NeedleProbe(kind="needle", depths=(0.2, 0.8), rounds=2, min_characters=20),
    CopyProbe(kind="copy", lengths=(8, 21), passages=2),
    CopyProbe(kind="copy", name="copy_random", lengths=(21,), order="random"),
    FarProbe(kind="far", near=20, targets=12),
    HalvesProbe(kind="halves", lengths=(8, 64)),
]
CONDITIONS = [condition for probe in PROBES for condition in probe.conditions()]


@pytest.mark.parametrize(
    ("architecture", "bos"), [("llama", 0), ("llama", None), ("gemma3_text", 0), ("llama_ntk", 0)]
)
def test_every_condition_agrees_with_plain_logits(architecture, bos, tiny_checkpoint):
    folder = tiny_checkpoint(architecture)
    rng = np.random.default_rng(5)
    ids, foreign = rng.integers(2, 300, (2, 110)).astype(np.int32)
    reading = reading_of(ids, bos, foreign)
    engine = Engine(load(folder), budgets=Budgets(100, 30, 64))
    built = [request for condition in CONDITIONS for request in condition.build(reading)]
    assert {bool(request.prefix_length) for request in built} == {True, False}
    # the plain model's dynamic frequencies remember the longest text before
    built.sort(key=lambda request: request.length)
    plain = references(load(folder), built)
    assert_scored(engine, built, plain)


def test_they_are_extracted_stored_and_checked(workspace, tiny_problem):
    probes = [
        {"kind": "full"},
        {"kind": "ladder", "contexts": [8, 24], "targets": 12, "spans": 3},
        {
            "kind": "retrieval",
            "excerpts": 2,
            "excerpt_characters": 40,
            "answer_characters": 20,
            "min_gap_characters": 80,
            "controls": ["foreign", "shuffled", "tail"],
        },
        {"kind": "needle", "depths": [0.2], "min_characters": 10, "max_characters": 2000},
        {"kind": "copy", "lengths": [8, 20], "passages": 2},
        {"kind": "copy", "name": "copy_random", "lengths": [20], "order": "random"},
        {"kind": "far", "near": 20, "targets": 12},
        {"kind": "halves", "lengths": [8, 64]},
    ]
    texts = [
        make_text(seed, words=50) + " A sentence to look for. " + make_text(seed + 9, words=50)
        for seed in (0, 1)
    ]
    pairs = [["full", "ladder_8"], ["full", "far_shuffled"]]
    path = tiny_problem(probes=probes, compare=pairs)
    (workspace.root / "data" / "corpus.json").write_text(json.dumps(texts))
    ok(run(path))
    files = sorted(workspace.tokens.rglob("tokens.parquet"))
    assert len(files) == 2 * sum(
        len(probe.conditions()) for probe in load_problem("tiny", workspace).probes
    )
    checked = check_store(workspace, "tiny")
    assert checked.defects == () and checked.rows > 0
    assert (workspace.data / "needed" / "problem=tiny").is_dir()
    # another foreign document is another prefix

    def first_unit(condition: str) -> UnitRecord:
        return read_units(published_path(workspace, "tiny", "tiny--one", condition))[0]

    conditions = "retrieval_foreign", "retrieval_with"
    before = [first_unit(condition) for condition in conditions]
    (workspace.root / "data" / "corpus.json").write_text(json.dumps([texts[0], texts[1] + "."]))
    ok(run(path, "--model", "tiny/one", "--probe", "retrieval"))
    foreign, own = (first_unit(condition) for condition in conditions)
    assert foreign.document_sha256 == before[0].document_sha256
    assert foreign.fingerprint != before[0].fingerprint
    assert own == before[1]


READS = [
    FullProbe(kind="full"),
    WindowProbe(kind="window", name="w", context=24, stride=16),
    RETRIEVAL,
]


@pytest.mark.parametrize(
    "probes",
    [*([probe] for probe in READS), READS, PROBES],
    ids=["full", "window", "retrieval", "all", "others"],
)
def test_the_plan_counts_what_the_engine_runs(probes, tiny_checkpoint):
    engine = Engine(load(tiny_checkpoint()))
    conditions = [condition for probe in probes for condition in probe.conditions()]
    lengths = [110, 140]
    run = rows = 0
    for length in lengths:
        reading = planned_document(length)
        for group in scoring_groups(conditions):
            scored = engine.score([r for each in group for r in each.build(reading)])
            run += sum(each.tokens_processed for each in scored)
            rows += sum(len(each.scores.logprob) for each in scored)
    assert min(len(each.build(planned_document(110))) for each in conditions) > 0
    work = work_of(lengths, conditions)
    assert (work.tokens, work.rows) == (run, rows)


def test_a_rung_costs_the_same_whatever_its_context():
    ladder = LadderProbe(kind="ladder", contexts=(512, 1024, 2048, 4096), targets=1024, spans=2)
    costs = [work_of([8192], [rung]).tokens for rung in ladder.conditions()]
    # targets · (1 + 1 / slack), where the slack divides the spans
    assert costs == [9 * 1024] * 4
