"""How far a model's predictions are from a reference's, over the whole vocabulary.

Both heads go over the vocabulary tile by tile, in one pass. With d the reference's logit minus the
model's, P and Q their predictions and E the mean under one of them,

    KL(P ‖ Q) = E_P[d] − (lse_P − lse_Q),  KL(Q ‖ P) = (lse_P − lse_Q) − E_Q[d].

Logits are float32 and the sums float64: in float32 the difference of two sums of size 10 would lose
what a divergence of 1e-6 is. Heads of different sizes are padded differently: ids that only one of
them has are left out, and both predictions sum to 1 over the others.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from extract.failures import NonFiniteLogits
from extract.scoring.engine import Engine
from extract.scoring.head import HeadWeights, VocabularyHead, to_host
from extract.scoring.statistics import Divergence, Scored
from warehouse.probes.request import Request

ROWS_PART = 2
"""Heads are compared in blocks of this part of the rows, as float64 takes twice the memory."""


def states_of(engine: Engine, request: Request) -> Tensor:
    """Hidden states that predict a request's targets, shape (targets, width), on the host.

    Args:
        engine: of the reference.
        request: without a prefix.

    Raises:
        TokenmartError: see `Engine.score`.
    """
    return engine.of_whole_text(request, lambda states: states.cpu())


class Comparer:
    """Scores requests with a model, each prediction compared with the reference's.

    Args:
        engine: of the model.
        reference: the reference's head.
    """

    def __init__(self, engine: Engine, reference: HeadWeights) -> None:
        self._engine, device = engine, engine.head.device
        self._other = VocabularyHead(
            reference.to(device), device, tile=engine.head.tile, fused=bool(engine.head.kernels)
        )

    def score(self, request: Request, states: Tensor) -> Scored:
        """Statistics of one request without a prefix, as `Engine.score`'s, and the divergence.

        Args:
            states: the reference's, from `states_of` the same request.

        Raises:
            NonFiniteLogits, TokenmartError: see `Engine.score`; the reference may be the cause.
        """
        engine = self._engine
        targets = engine.on_device(request.targets).to(engine.head.device)

        def compare(hidden: Tensor) -> tuple[Tensor, Tensor]:
            size = max(1, engine.budgets.rows // ROWS_PART)
            parts = [
                self._block(hidden, targets[at : at + size], states, at, size)
                for at in range(0, len(targets), size)
            ]
            blocks, divergences = (torch.cat(part, dim=1) for part in zip(*parts, strict=True))
            return blocks, divergences

        block, compared = engine.of_whole_text(request, compare)
        (scores,) = to_host([block])
        forth, back, same = compared.cpu().numpy()
        if not all(np.isfinite(nats).all() for nats in (scores.logprob, forth, back)):
            raise NonFiniteLogits
        return Scored(scores, len(request.ids), Divergence(forth, back, same == 1))

    def _block(
        self, hidden: Tensor, targets: Tensor, states: Tensor, at: int, size: int
    ) -> tuple[Tensor, Tensor]:
        head = self._engine.head
        sums = _Sums(self._other, self._other.block(states, at, size))
        return head.score_block(head.block(hidden, at, size), targets, sums.add), sums.result()


class _Sums:
    """Running sums of one block of rows over the tiles of both heads.

    Args:
        reference: head of the reference, with the tiles of the model's.
        hidden: the reference's, shape (rows, width), float32.
    """

    def __init__(self, reference: VocabularyHead, hidden: Tensor) -> None:
        self.reference, self.hidden = reference, hidden
        self._pair_sums = reference.kernels.pair_sums if reference.kernels else pair_sums
        # of each tile, from `pair_sums`
        self._tiles: list[Tensor] = []

    def add(self, index: int, logits: Tensor) -> None:
        """Add a tile: the model's logits, which stay as they are."""
        start = index * self.reference.tile
        if start >= self.reference.vocabulary:
            return
        sums = self._pair_sums(self.reference.logits(self.hidden, index), logits)
        sums[:, 3] += start
        self._tiles.append(sums)

    def result(self) -> Tensor:
        """Shape (3, rows), float32: both divergences in nats, and 1 where the top-1 is the same."""
        lses, means, choices = [], [], []
        for model in (0, 1):
            lse, mean, top, best = torch.stack([tile[model] for tile in self._tiles], 1)
            lses.append(torch.logsumexp(lse, 0))
            means.append((torch.exp(lse - lses[-1]) * mean).sum(0))
            choices.append(best.gather(0, top.argmax(0, keepdim=True))[0])
        shift = lses[0] - lses[1]
        divergences = [means[0] - shift, shift - means[1]]
        same = choices[0] == choices[1]
        # rounding must not make a divergence negative
        return torch.stack([*(nats.clamp(min=0.0).float() for nats in divergences), same.float()])


def pair_sums(reference: Tensor, model: Tensor) -> Tensor:
    """Statistics of two models' logits in a tile, as `triton_head.pair_sums` gives them."""
    common = min(reference.shape[1], model.shape[1])
    # Apple's GPUs have no float64
    exact = torch.float32 if model.device.type == "mps" else torch.float64
    both = [logits[:, :common].to(exact, copy=True) for logits in (reference, model)]
    difference = both[0] - both[1]
    sums = []
    for logits in both:
        top, best = logits.max(-1)
        weights = logits.sub_(top.unsqueeze(1)).exp_()
        total = weights.sum(-1)
        mean = torch.linalg.vecdot(weights, difference) / total
        sums.append(torch.stack([top + total.log(), mean, top, best.to(exact)]))
    return torch.stack(sums)
