"""The LM head as GPUs hold it: in half precision, its logits in float32."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from extract.scoring.head import HeadWeights, LogitTransform, VocabularyHead, to_host


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_half_precision_head_scores_in_float32_where_no_product_mixes_them(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
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
