"""Architectures whose masks, states or heads are their own: scored right, or refused.

A fast sample of `benchmarks/architecture_screen.py`, whose table is committed.
"""

from __future__ import annotations

import csv

import pytest
from refusal import refuses

from benchmarks.architecture_screen import OUT, Verdict, made, screened
from extract.scoring.architectures import TAKES_MASKS
from extract.scoring.engine import Engine


def sdpa_and_eager(name: str) -> list[Verdict]:
    return list(screened(name))


@pytest.mark.parametrize(
    "name", ["phi", "gptj", "qwen2", "gemma2", "mixtral", "llama, a window that it ignores"]
)
def test_suffixes_that_share_a_prefix_are_right(name):
    """Heads with biases, windows of some layers or of none, experts."""
    verdicts = [each for each in sdpa_and_eager(name) if each.verdict != "not made"]
    if name == "gemma2":  # its attention scores are capped: refused with SDPA, by us or before
        verdicts = [each for each in verdicts if each.attention == "eager"]
    assert verdicts
    for each in verdicts:
        assert (each.verdict, each.masks, each.prefixes) == ("works", "taken", "shared")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("gpt_neo", "masks of gpt_neo"),
        ("jamba", "recurrent states"),
        ("rwkv", "recurrent states"),
    ],
)
def test_windows_inside_layers_and_recurrent_states_share_nothing(name, reason):
    verdicts = [each for each in sdpa_and_eager(name) if each.verdict != "not made"]
    assert verdicts
    for each in verdicts:
        assert each.verdict == "works" and reason in each.prefixes


def test_falcon_with_alibi_is_right_with_sdpa_and_refused_in_eager():
    with_sdpa, eager = sdpa_and_eager("falcon, alibi")
    assert (with_sdpa.verdict, eager.verdict) == ("works", "refused")


def test_attention_that_leaves_out_a_cap_is_refused():
    model = made("gemma2", "eager")
    model.config._attn_implementation = "sdpa"
    with refuses("wrong-attention", "gemma2"):
        Engine(model)


def test_a_model_that_reads_to_the_right_is_refused():
    with refuses("not-causal", "bert-generation"):
        Engine(made("bert-generation", "sdpa"))


def test_the_table_is_of_this_list():
    with OUT.open() as file:
        rows = list(csv.DictReader(file))
    assert not [row for row in rows if row["verdict"] in ("WRONG", "ERROR")]
    assert len({row["architecture"] for row in rows}) > 200
    by_type: dict[str, set[str]] = {}
    for row in rows:
        by_type.setdefault(row["model_type"], set()).add(row["masks"])
    taken = {name for name, masks in by_type.items() if "taken" in masks and "wrong" not in masks}
    assert taken == TAKES_MASKS
