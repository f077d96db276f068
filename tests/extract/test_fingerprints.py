"""What a unit's fingerprint depends on: each setting that changes rows, and no other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from extract.checkpoints import Checkpoint
from extract.planning.documents import PlannedDocument
from extract.planning.fingerprints import model_facts, unit_fingerprint
from extract.planning.selection import Selection, select
from warehouse.probes.lookup import FOREIGN
from warehouse.problem.models import NoiseIntervention, Rope
from warehouse.problem.spec import load_problem


@pytest.fixture
def selection(tiny_problem, workspace) -> Selection:
    return select(load_problem(str(tiny_problem()), workspace), workspace, device="cpu", dtype="x")


def of(
    selection: Selection,
    *,
    rules: dict | None = None,
    spec: dict | None = None,
    chosen: dict | None = None,
    facts: tuple[str, str, str] = ("revision", "tokenizer", "float32"),
    foreign: str = "b",
    kind: bool = False,
) -> str:
    """A fingerprint of documents that are cut at the context, with something changed."""
    documents = {"too_long": "truncate"} | (rules or {})
    problem = selection.problem.model_copy(
        update={"documents": selection.problem.documents.model_copy(update=documents)}
    )
    changed = replace(selection, problem=problem, **(chosen or {}))
    model = selection.models[0].model_copy(update=spec or {})
    revision, tokenizer, dtype = facts
    found = model_facts(changed, model, Checkpoint(Path(), revision), tokenizer, dtype)
    condition = selection.conditions[0]
    if kind:
        condition = replace(condition, kind=FOREIGN)
    document = PlannedDocument(0, "a", "a", "", PlannedDocument(1, "b", foreign, ""))
    return unit_fingerprint(found, document, condition, None)


@pytest.mark.parametrize(
    "change",
    [
        {"rules": {"too_long": "refuse"}},
        {"rules": {"too_long": "run"}},
        {"rules": {"headroom": 3}},
        {"spec": {"context": 65}},
        {"spec": {"rope": Rope(type="default", theta=5.0)}},
        {"spec": {"interventions": (NoiseIntervention(kind="weight_noise", scale=0.1),)}},
        {"chosen": {"max_tokens": 9}},
        {"chosen": {"attention": "eager"}},
        {"facts": ("other", "tokenizer", "float32")},
        {"facts": ("revision", "other", "float32")},
        {"facts": ("revision", "tokenizer", "bfloat16")},
        {"kind": True},
    ],
    ids=str,
)
def test_settings_that_change_rows(selection, change):
    assert of(selection, **change) != of(selection)


@pytest.mark.parametrize(
    ("rules", "change"),
    [
        ({}, {"spec": {"note": "n", "family": "f", "series": "s", "licence": "MIT"}}),
        ({}, {"chosen": {"documents": 1, "device": "cuda", "fused": False, "force": True}}),
        ({}, {"chosen": {"attention": "sdpa"}}),
        ({}, {"foreign": "c"}),
        ({"too_long": "refuse"}, {"spec": {"context": 65}}),
        ({"too_long": "run"}, {"rules": {"too_long": "run", "margin": 9}}),
    ],
    ids=str,
)
def test_settings_that_do_not(selection, rules, change):
    assert of(selection, **{"rules": rules, **change}) == of(selection, rules=rules)


def test_another_foreign_document_counts_where_it_is_read(selection):
    assert of(selection, kind=True, foreign="c") != of(selection, kind=True)
