"""The LM head as GPUs hold it: in half precision, its logits in float32."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from extract.scoring.head import HeadWeights, LogitTransform, VocabularyHead, to_host


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_half_precision_head_scores_in_float32_where_no_product_mixes_them(dtype, monkeypatch):
    """As on an Apple GPU; the processor, too, has no half-precision product in float32."""
    monkeypatch.setattr("extract.scoring.head.CONVERTED", 300)
    torch.manual_seed(0)
    linear = torch.nn.Linear(64, 1000).to(dtype)
    hidden = (4 * torch.randn(9, 64)).to(dtype)
    targets = torch.arange(0, 900, 100)
    head = VocabularyHead(HeadWeights.of(linear, LogitTransform()), torch.device("cpu"))
    # a head on the processor is turned into float32 once; one on a GPU stays as it is
    head._packed, head._weight = None, linear.weight.detach()
    (scores,) = to_host([head.score(hidden, targets)])
    weight, bias = linear.weight.detach().double(), linear.bias.detach().double()
    logprobs = torch.log_softmax(hidden.double() @ weight.t() + bias, -1)
    expected = logprobs[torch.arange(9), targets].numpy()
    # the numbers are exact in both: what is left is float32's rounding, not bfloat16's of 4e-3
    np.testing.assert_allclose(scores.logprob, expected, atol=1e-5)
    entropy = -(logprobs.exp() * logprobs).sum(-1).numpy()
    np.testing.assert_allclose(scores.entropy, entropy, atol=1e-5)


@pytest.mark.parametrize("packed", [True, False])
def test_each_tile_of_the_vocabulary_has_its_own_part_of_the_bias(packed):
    torch.manual_seed(1)
    linear = torch.nn.Linear(32, 1000)
    torch.nn.init.normal_(linear.bias, std=3.0)
    hidden, targets = torch.randn(7, 32), torch.arange(0, 980, 140)
    weights = HeadWeights.of(linear, LogitTransform())
    head = VocabularyHead(weights, torch.device("cpu"), tile=256)
    if not packed:
        head._packed, head._weight = None, linear.weight.detach()
    (scores,) = to_host([head.score(hidden, targets)])
    logits = hidden.double() @ linear.weight.detach().double().t() + linear.bias.detach().double()
    logprobs = torch.log_softmax(logits, -1)
    expected = logprobs[torch.arange(7), targets]
    np.testing.assert_allclose(scores.logprob, expected.numpy(), atol=1e-5)
    np.testing.assert_array_equal(scores.rank, 1 + (logprobs > expected[:, None]).sum(-1).numpy())
