"""The memory plan and the configuration path of every model of the locked list."""

from __future__ import annotations

import re
import resource
import shutil
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import torch
from click.testing import CliRunner
from reference import assert_agree, references
from refusal import refuses
from shapes import config_of
from tiny_requests import requests_of
from transformers import AutoModelForCausalLM

from extract.cli import extract, status
from extract.devices import PeakMemory, available_memory
from extract.planning.cost import (
    count_parameters,
    footprint,
    model_size,
    planned_memory,
    refuse_too_large,
)
from extract.planning.selection import select
from extract.planning.tables import make_plan
from extract.scoring.budgets import Budgets, gpu_budgets
from extract.scoring.engine import Engine
from extract.scoring.head import ALIGNMENT, HeadWeights, LogitTransform, VocabularyHead
from warehouse.paths import find_workspace
from warehouse.problem.models import ModelShape
from warehouse.problem.spec import Problem, load_problem

CHECKOUT = find_workspace(Path(__file__))
LOCKED: Problem = load_problem("no4k", CHECKOUT)
SMALL: Problem = load_problem("minilong", CHECKOUT)
SHAPES = {spec.shape: spec.full_id for spec in reversed(LOCKED.models)}


@pytest.mark.parametrize("spec", [*LOCKED.models, *SMALL.models[:2]], ids=lambda spec: spec.full_id)
def test_shapes_are_those_of_the_published_models(spec):
    """Built without weights, each has exactly the published number of parameters."""
    assert spec.shape is not None and spec.parameters is not None
    config = config_of(spec.shape)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    assert sum(parameter.numel() for parameter in model.parameters()) == spec.parameters
    assert abs(count_parameters(spec.shape) / spec.parameters - 1) < 0.01
    read = ModelShape.of_config(config.to_dict())
    assert read is not None
    assert read.model_copy(update={"head_width": spec.shape.head_width}) == spec.shape.model_copy(
        update={"window": read.window}
    )


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: SHAPES[shape].split("/")[1])
@pytest.mark.parametrize("rope", ["none", "linear", "dynamic"])
def test_the_attention_layout_of_every_locked_model_agrees_with_plain_logits(shape, rope):
    """Same class, heads, sharing of keys and tied head; narrow, with two layers."""
    scaling = {"rope_type": "default"} if rope == "none" else {"rope_type": rope, "factor": 4.0}
    config = config_of(
        shape,
        hidden_size=4 * shape.heads,
        head_dim=4,
        intermediate_size=24,
        num_hidden_layers=2,
        vocab_size=320,
        max_position_embeddings=64,
        rope_parameters={"rope_theta": 10_000.0, **scaling},
    )
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(6.0)
    requests = requests_of(0)
    plain = references(model, requests)
    engine = Engine(model)
    assert engine.share_prefixes == (rope != "dynamic")
    for expected, result in zip(plain, engine.score(requests), strict=True):
        assert_agree(result.scores, expected)


def test_the_plan_adds_up_by_hand():
    """Llama-2-7B at 32k in bfloat16: 13.5 GB of weights, 2 · 32 · 4096 · 2 bytes a token."""
    spec = LOCKED.model("Leooyii/PI_32k_Slimpajama_1B")
    size = model_size(spec, CHECKOUT)
    assert size is not None and not size.assumed
    alone = footprint(spec, size, dtype="bfloat16", device="cuda", longest=32_768, suffix_tokens=0)
    shared = footprint(
        spec, size, dtype="bfloat16", device="cuda", longest=32_768, suffix_tokens=1024
    )
    assert alone.weights == 6_738_415_616 * 2
    assert alone.cache == 0
    assert shared.cache == 2 * 32 * 4096 * 2 * (32_768 + 1024)
    assert alone.activations == 32_768 * 2 * (3 * 4096 + 3 * 11_008)
    assert shared.total == shared.weights + shared.cache + shared.activations + shared.logits


def test_budgets_of_a_gpu_follow_its_free_memory():
    shape = LOCKED.model("Qwen/Qwen2-7B-Instruct").shape
    assert shape is not None
    layer = 2 * (3 * 3584 + 3 * 18_944)
    tile, cache = 3 * 4 * 65_536, 2 * 28 * 512 * 2
    large = gpu_budgets(64 * 2**30, shape, 2)
    assert (large.batch_tokens, large.rows) == (32_768, 2048)
    small = gpu_budgets(8 * 2**30, shape, 2)
    assert (small.batch_tokens, small.rows) == (2 * 2**30 // layer, 8 * 2**30 // 10 // tile)
    # one text may take nearly all of it, with its cache or without
    left = int(0.9 * 8 * 2**30) - small.rows * tile
    assert small.text_tokens == left // layer
    assert small.prefix_tokens == left // (layer + cache)
    assert small.one_forward(35_000, cached=True) and not small.one_forward(60_000, cached=True)
    least = gpu_budgets(2**20, shape, 2)
    assert (least.batch_tokens, least.rows, least.prefix_tokens) == (512, 32, 512)


@pytest.mark.parametrize(
    ("device", "dtype", "longest", "available", "fits"),
    [
        ("cpu", "float32", 10**7, 10**12, False),
        # on a GPU only the weights must fit: activations go in pieces, the cache concerns some
        # conditions
        ("cuda", "bfloat16", 32_768, 31e9, True),
        ("cuda", "bfloat16", 32_768, 30e9, False),
    ],
)
def test_a_model_that_can_not_fit_is_refused(device, dtype, longest, available, fits):
    """Qwen2.5-14B: 29.5 GB in bfloat16."""
    spec = LOCKED.model("Qwen/Qwen2.5-14B-Instruct")
    size = model_size(spec, CHECKOUT)
    assert size is not None
    needed = footprint(spec, size, dtype=dtype, device=device, longest=longest, suffix_tokens=1024)
    assert needed.total > 40e9
    with nullcontext() if fits else refuses("model-too-large", spec.full_id):
        refuse_too_large(spec, needed, device, int(available))


def test_the_plan_names_what_a_card_of_24_gb_refuses(monkeypatch):
    """By hand: 28 GB of weights; Llama-2-7B has 12.6 GiB of weights and 16.5 GiB of KV cache."""
    selection = select(LOCKED, CHECKOUT, device="cuda", dtype="bfloat16")
    monkeypatch.setattr("extract.planning.tables.available_memory", lambda device: 23 * 2**30)
    monkeypatch.setattr("extract.planning.cost.device_name", lambda device: "RTX 4090")
    notes = make_plan(selection).notes
    refused = [note.partition(": ") for note in notes if "23.0 GiB free" in note]
    (large,) = (names for names, _, what in refused if what.startswith("too large"))
    (uncached,) = (names for names, _, what in refused if what.startswith("KV cache"))
    assert large == "Qwen/Qwen2.5-14B-Instruct"
    llamas = [s.full_id for s in LOCKED.ranked_models if s.family == "llama2-leooyii"]
    assert uncached == ", ".join(llamas)
    elsewhere = make_plan(selection, device_here=False).notes
    assert not [note for note in elsewhere if "GiB free" in note]


@pytest.mark.parametrize(
    ("device", "expected"), [("cuda", 23), ("cuda:1", 70), ("auto-map", 93), ("cpu", 0)]
)
def test_what_is_free_on_the_gpu_that_is_meant_counts(device, expected, monkeypatch):
    free = {0: 23 * 2**30, 1: 70 * 2**30}
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda number: (free[number], 80 * 2**30))
    host = psutil.virtual_memory().total if device in ("cpu", "auto-map") else 0
    assert available_memory(device) == expected * 2**30 + host


def test_budgets_are_halved_to_an_end():
    budgets, steps = Budgets(1024, 1024, 64), 0
    while (smaller := budgets.halved(longest=4096)) is not None:
        budgets, steps = smaller, steps + 1
    assert budgets == Budgets(32, 32, 32, 32, 32)
    # the longest text is what takes most steps: 4096 → 32
    assert steps == 7


def test_tiles_of_the_vocabulary_are_of_whole_blocks(monkeypatch):
    monkeypatch.setattr("extract.scoring.head.CPU_TILE", 65_536)
    for vocabulary in (32_000, 49_152, 65_537, 151_936, 152_064, 256_000):
        linear = torch.nn.Linear(2, vocabulary, bias=False)
        head = VocabularyHead(HeadWeights.of(linear, LogitTransform()), torch.device("cpu"))
        assert head.tile % ALIGNMENT == 0 and head.tile <= 65_536
        last = vocabulary - head.tile * (vocabulary // head.tile)
        assert last == 0 or last > head.tile * 0.9


@pytest.mark.parametrize(("platform", "unit"), [("linux", 1024), ("darwin", 1)])
def test_peak_memory_is_in_bytes_whatever_the_system_counts_in(
    platform, unit, tmp_path, monkeypatch
):
    """Where there is no /proc."""
    monkeypatch.setattr("extract.devices.Path", lambda path: tmp_path / "nothing" / path[1:])
    monkeypatch.setattr(sys, "platform", platform)
    usage = {resource.RUSAGE_SELF: SimpleNamespace(ru_maxrss=3000)}
    monkeypatch.setattr(resource, "getrusage", usage.__getitem__)
    measured = PeakMemory("mps")
    measured.reset()
    assert measured.bytes() == 3000 * unit


def test_the_plan_of_the_locked_problem_by_hand(workspace):
    """17 models of 97.45 billion weights, 16 bits each; 4 conditions of 50 documents."""
    shutil.copy(CHECKOUT.problems / "no4k.yml", workspace.problems)
    problem = load_problem("no4k", workspace)
    plan = make_plan(select(problem, workspace, device="cuda", dtype="bfloat16"), False)
    models = {model.spec.full_id: model for model in plan.models}
    downloads = [model.download_bytes or 0 for model in models.values()]
    assert len(models) == 17 and round(sum(downloads) / 1e9, 1) == 194.9
    large = models["Qwen/Qwen2.5-14B-Instruct"]
    assert (large.done, large.units, large.left, large.assumed) == (0, 200, 1.0, False)
    assert large.memory is not None
    parts = large.memory.weights, large.memory.cache, large.memory.activations + large.memory.logits
    assert [round(part / 2**30, 1) for part in parts] == [27.5, 6.2, 5.1]
    notes = "\n".join(plan.notes)
    assert "mistralai/Mistral-7B-Instruct-v0.2" in notes
    shown = CliRunner().invoke(extract, ["--problem", "no4k", "--dry-run", "--device", "cuda"])
    assert re.search(r"14B-Instruct +0/200 +8\.9 M .* 38\.8 +29\.5 GB", shown.output)


def test_status_shows_the_predicted_peak_before_a_run(workspace, tiny_problem):
    before = CliRunner().invoke(status, ["--problem", str(tiny_problem())])
    assert before.exit_code == 0 and "~0." in before.output, before.output


@pytest.mark.parametrize(("name", "measured"), [("smollm2-135m", 1.9), ("gemma3-270m", 3.2)])
def test_predictions_are_near_what_was_measured(name, measured):
    """GiB of the whole process in a float32 run of minilong's probes, documents of 4,096 tokens."""
    selection = select(SMALL, CHECKOUT, device="cpu", dtype="float32")
    predicted = planned_memory(selection, SMALL.model(name), 4096)
    assert predicted is not None and 0.85 * measured < predicted.total / 2**30 < 1.25 * measured
