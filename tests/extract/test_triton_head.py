"""Kernels of the head, on a GPU or in Triton's interpreter, against float64."""

from __future__ import annotations

import os

import pytest
import torch

pytest.importorskip("triton")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("no GPU; TRITON_INTERPRET=1 interprets the kernels", allow_module_level=True)

from extract.scoring import triton_head  # noqa: E402

SHAPES = [(5, 7000, 3.0), (3, 2048, 10.0), (4, 100, 1.0), (2, 19_072, 20.0)]


def logits_of(rows: int, width: int, scale: float, seed: int = 0) -> torch.Tensor:
    torch.manual_seed(seed)
    return (torch.randn(rows, width) * scale).to(DEVICE)


def moments(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Log-sum-exp, mean and variance under the softmax, in float64."""
    exact = logits.double()
    lse = exact.logsumexp(-1)
    probabilities = (exact - lse[:, None]).exp()
    mean = (probabilities * exact).sum(-1)
    return lse, mean, (probabilities * (exact - mean[:, None]).square()).sum(-1)


@pytest.mark.parametrize(("rows", "width", "scale"), SHAPES)
def test_sums_of_a_tile(rows, width, scale):
    logits = logits_of(rows, width, scale)
    kept = logits.clone()
    own = logits[torch.arange(rows), torch.arange(rows)].clone()
    sums = triton_head.tile_sums(logits, own).double()
    assert torch.equal(logits, kept)
    assert torch.equal(sums[0], kept.amax(-1).double())
    assert torch.equal(sums[1], (kept > own[:, None]).sum(-1).double())
    # float32: a few steps of the largest logit, and of its square for the variance
    step = float(torch.finfo(torch.float32).eps * kept.abs().max())
    for found, right, steps in zip(sums[2:], moments(kept), (4, 4, 8 * scale), strict=True):
        assert float((found - right).abs().max()) <= steps * max(step, 1e-7)


@pytest.mark.parametrize(("rows", "width", "scale"), SHAPES)
def test_sums_of_two_models(rows, width, scale):
    reference, own = logits_of(rows, width, scale), logits_of(rows, width + 3, scale, seed=1)
    sums = triton_head.pair_sums(reference, own)
    difference = reference.double() - own[:, :width].double()
    for found, logits in zip(sums, (reference, own[:, :width]), strict=True):
        lse, _, _ = moments(logits)
        mean = ((logits.double() - lse[:, None]).exp() * difference).sum(-1)
        torch.testing.assert_close(found[0], lse, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(found[1], mean, rtol=1e-12, atol=1e-11)
        assert torch.equal(found[2].float(), logits.amax(-1))
        assert torch.equal(found[3].long(), logits.argmax(-1))
