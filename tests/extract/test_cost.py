"""The plan counts on the requests themselves, so it counts what the engine will run."""

from __future__ import annotations

import pytest
from tiny_requests import RETRIEVAL

from extract.planning.cost import GPU_FLOPS, Cost, ModelSize, assumed_speed, estimate, work_of
from extract.planning.tables import Plan, PlannedModel
from warehouse.probes.context import FullProbe, WindowProbe
from warehouse.problem.models import ModelShape, ModelSpec

FULL = FullProbe(kind="full").conditions()
WINDOW = WindowProbe(kind="window", name="w", context=24, stride=16).conditions()


def test_pairs_and_flops_by_hand():
    full = work_of([100], FULL)
    assert (full.tokens, full.rows, full.pairs) == (100, 99, 100 * 100 / 2)
    # three excerpts of 8 + 6 tokens behind the 100, which the full condition has run
    behind = work_of([100], [*FULL, RETRIEVAL.conditions()[0]])
    assert behind.tokens == 100 + 3 * 14
    assert behind.pairs == full.pairs + 3 * 14 * (100 + 7)
    # one layer of width 128: its linear layers for each token, the head for each row
    shape = ModelShape(
        kind="llama", layers=1, width=128, inner=256, heads=4, kv_heads=2, vocabulary=1000
    )
    cost = estimate(full, ModelSize(1, shape), dtype="bfloat16", device="cpu")
    linear = 2 * 128 * (128 + 64) + 3 * 128 * 256
    expected = 2 * linear * 100 + 2 * 1000 * 128 * 99 + 4 * 128 * full.pairs
    assert cost.flops == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "rate"),
    [
        ("NVIDIA H100 80GB HBM3", 494.5e12),
        ("NVIDIA H100 PCIe", 378e12),
        ("NVIDIA H100 NVL", 417.5e12),
        ("NVIDIA A100-SXM4-40GB", 156e12),
        ("NVIDIA A10", 62.5e12),
        ("NVIDIA L40S", 181e12),
        ("NVIDIA L4", 60.5e12),
        ("NVIDIA GeForce RTX 4090", 82.5e12),
        ("Tesla V100-SXM2-32GB", 56e12),
        ("Tesla T4", 32.5e12),
        ("NVIDIA GeForce GTX 1080", GPU_FLOPS),
    ],
)
def test_a_gpu_is_known_by_the_name_that_its_driver_gives(name, rate, monkeypatch):
    monkeypatch.setattr("extract.planning.cost.device_name", lambda device: name)
    assert assumed_speed("cuda", "bfloat16")[0] == rate


def test_the_plan_s_hours_are_divided_by_the_gpus_that_work_side_by_side():
    spec = ModelSpec(full_id="a/b", family="a", source={"kind": "hub"})  # type: ignore[arg-type]
    model = PlannedModel(spec, 0, 1, Cost(1, 1, 1.0, 7200.0, 1), 0, None, False)
    assert Plan("", (model,), ()).hours == 2
    assert Plan("", (model,), (), workers=4).hours == 0.5
