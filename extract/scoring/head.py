"""The LM head where it is needed: statistics of scored tokens, without all logits in memory.

Logits are computed for a block of rows and a tile of the vocabulary at a time, in float32,
and folded into running statistics. With lse_t the log-sum-exp of tile t and E_t the mean logit
under the tile's own softmax, the whole distribution has

    lse = logsumexp_t(lse_t),  E = sum_t exp(lse_t − lse) · E_t,  entropy = lse − E,
    varentropy = sum_t exp(lse_t − lse) · (V_t + (E_t − E)²),

with V_t the variance of the tile's logits under its own softmax, so memory is rows × tile
whatever the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from types import ModuleType

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from extract.failures import raise_if_lost
from extract.models.placement import resident_weight
from extract.scoring.budgets import CPU_ROWS, CPU_TILE, GPU_ROWS, GPU_TILE
from extract.scoring.layers import onednn_available, pack, packed_product
from extract.scoring.statistics import TokenScores

ALIGNMENT = 128
"""Tiles of the vocabulary have this number of columns, or a multiple."""

CACHED_ROWS = 8
"""Rows of a tile that a processor reduces at a time: what they take stays in its cache."""

STATISTICS = 5
"""Rows of `VocabularyHead.score` before those of top-k tokens."""

CONVERTED = 8192
"""Columns of a tile in float32 at a time, where a device has no product of bfloat16 in float32."""


@dataclass(frozen=True)
class LogitTransform:
    """Operations of a model's own forward pass on logits after the head."""

    scale: float = 1.0
    softcap: float | None = None

    @classmethod
    def of(cls, config: object) -> LogitTransform:
        """Read soft-capping (Gemma) and scaling (Cohere, Granite, Falcon H1) from a configuration.

        A setting that it doesn't know is found by the engine's check, which refuses the model.
        """

        def setting(*names: str) -> float | None:
            values = (getattr(config, name, None) for name in names)
            return next((float(value) for value in values if value), None)

        scale = setting("logit_scale", "lm_head_multiplier") or 1.0
        scaling = setting("logits_scaling") or 1.0
        multiplies = getattr(config, "model_type", "") == "hyperclovax"
        scale = scale * scaling if multiplies else scale / scaling
        return cls(scale, setting("final_logit_softcapping", "logits_soft_cap"))

    def apply_(self, logits: Tensor) -> Tensor:
        """Transform logits in place."""
        if self.scale != 1.0:
            logits.mul_(self.scale)
        if self.softcap is not None:
            logits.div_(self.softcap).tanh_().mul_(self.softcap)
        return logits


@dataclass(frozen=True)
class HeadWeights:
    """Weights of a model's head, which may be kept after the model is released.

    Attributes:
        weight: shape (vocabulary, width).
        bias: shape (vocabulary,), or None.
        transform: what the model does to logits afterwards.
    """

    weight: Tensor
    bias: Tensor | None
    transform: LogitTransform

    @classmethod
    def of(cls, head: nn.Linear, transform: LogitTransform) -> HeadWeights:
        """Weights of a model's output embedding, on the device where it computes."""
        return cls(*resident_weight(head), transform)

    def to(self, device: torch.device | str) -> HeadWeights:
        """A copy on another device."""
        bias = None if self.bias is None else self.bias.to(device)
        return HeadWeights(self.weight.to(device), bias, self.transform)


class VocabularyHead:
    """Scores hidden states against the vocabulary, tile by tile.

    Attributes:
        kernels: the module `triton_head` where a tile is reduced in one kernel, else None.
        described: for the ledger; empty without it.

    Args:
        head: the model's output embedding.
        device: where it computes.
        top_k: number of top-k tokens per position, at most the vocabulary.
        tile: columns of a tile; None takes what suits the device.
        fused: on a GPU with Triton, reduce a tile in one kernel.
    """

    def __init__(
        self,
        head: HeadWeights,
        device: torch.device,
        top_k: int = 0,
        tile: int | None = None,
        fused: bool = True,
    ) -> None:
        weight, bias = head.weight, head.bias
        self.device = device
        self.transform = head.transform
        on_cpu = self.device.type == "cpu"
        self.rows, most = (CPU_ROWS, CPU_TILE) if on_cpu else (GPU_ROWS, GPU_TILE)
        # nearly equal tiles, so that no sliver is left at the end, and of whole blocks: products
        # of an odd width leave the fast kernels of GPUs, whose blocks are 64 to 256 wide
        count = -(-weight.shape[0] // most)
        self.vocabulary = weight.shape[0]
        self.top_k = min(top_k, self.vocabulary)
        self.tile = tile or min(most, ALIGNMENT * -(-self.vocabulary // (ALIGNMENT * count)))
        self.kernels = _kernels(device) if fused else None
        self.described = f"head by triton {version('triton')}" if self.kernels else ""
        self._tile_sums = self.kernels.tile_sums if self.kernels else tile_sums
        self._weight = weight
        self._bias = None if bias is None else bias.float()
        self._packed: list[Tensor] | None = None
        if on_cpu:
            tiles = [weight[at : at + self.tile].float() for at in self._starts()]
            if onednn_available(self.device, torch.float32):
                self._packed = [pack(tile) for tile in tiles]
            else:
                self._weight = weight.float()

    def _starts(self) -> range:
        return range(0, self.vocabulary, self.tile)

    def logits(self, hidden: Tensor, index: int) -> Tensor:
        """Logits of a block of hidden states in one tile of the vocabulary, float32."""
        start = index * self.tile
        bias = None if self._bias is None else self._bias[start : start + self.tile]
        if self._packed is not None:
            logits = packed_product(hidden, self._packed[index], bias)
        else:
            logits = _float32_product(hidden, self._weight[start : start + self.tile])
            if bias is not None:
                logits += bias
        return self.transform.apply_(logits)

    def _target_logits(self, hidden: Tensor, targets: Tensor) -> Tensor:
        logits = (hidden * self._weight[targets].float()).sum(-1)
        if self._bias is not None:
            logits += self._bias[targets]
        return self.transform.apply_(logits)

    def score(self, hidden: Tensor, targets: Tensor, rows: int | None = None) -> Tensor:
        """Statistics of each target under the distribution its hidden state predicts.

        Args:
            hidden: shape (n, width), any float dtype.
            targets: shape (n,), vocabulary ids.
            rows: hidden states per block; None takes the head's own.

        Returns:
            Shape (5 + 2 · top_k, n), float32, on the head's device: log-prob, entropy, rank,
            log-prob of the top-1 token and varentropy; then the ids and the log-probs of the top-k
            tokens (ids below 2²⁴ are exact). `to_host` makes arrays of it.
        """
        size = rows or self.rows
        blocks = [
            self.score_block(self.block(hidden, at, size), targets[at : at + size])
            for at in range(0, len(targets), size)
        ]
        nothing = torch.zeros(STATISTICS + 2 * self.top_k, 0, device=self.device)
        return torch.cat([nothing, *blocks], dim=1)

    def block(self, hidden: Tensor, at: int, size: int) -> Tensor:
        """Some of the hidden states, in float32 on the head's device."""
        return hidden[at : at + size].to(self.device).float()

    def score_block(
        self,
        hidden: Tensor,
        targets: Tensor,
        each_tile: Callable[[int, Tensor], None] = lambda index, logits: None,
    ) -> Tensor:
        """`score` of one block, from `block`; `each_tile` may read, not change, a tile's logits."""
        target_logits = self._target_logits(hidden, targets)
        column = target_logits.unsqueeze(1)
        tiles: list[Tensor] = []
        choices: list[tuple[Tensor, Tensor]] = []
        for index, start in enumerate(self._starts()):
            logits = self.logits(hidden, index)
            each_tile(index, logits)
            # the target's own logit must not count as above itself by a rounding error
            inside = (targets >= start) & (targets < start + logits.shape[1])
            local = (targets - start).clamp(0, logits.shape[1] - 1).unsqueeze(1)
            exact = torch.where(inside.unsqueeze(1), column, logits.gather(1, local))
            logits.scatter_(1, local, exact)
            if self.top_k:
                best = logits.topk(min(self.top_k, logits.shape[1]))
                choices.append((best.values, best.indices + start))
            tiles.append(self._tile_sums(logits, target_logits))
        tops, counts, sums, means, variances = torch.stack(tiles, 1)
        top, above = tops.amax(0), counts.sum(0)
        if len(tiles) == 1:
            lse, mean, variance = sums[0], means[0], variances[0]
        else:
            lse = torch.logsumexp(sums, 0)
            shares = torch.exp(sums - lse)
            mean = (shares * means).sum(0)
            variance = (shares * (variances + (means - mean).square())).sum(0)
        logprob = (target_logits - lse).clamp_(max=0.0)
        # rounding must not make the top-1 token less likely than the target, or entropy negative
        top_logprob = torch.maximum((top - lse).clamp_(max=0.0), logprob)
        rows = [logprob, (lse - mean).clamp_(min=0.0), above + 1.0, top_logprob]
        rows.append(variance.clamp(min=0.0))
        if self.top_k:
            values = torch.cat([part for part, _ in choices], 1)
            best = values.topk(self.top_k)
            ids = torch.cat([part for _, part in choices], 1).gather(1, best.indices)
            rows += [*ids.t().float(), *(best.values - lse.unsqueeze(1)).clamp_(max=0.0).t()]
        return torch.stack(rows)


@cache
def _kernels(device: torch.device) -> ModuleType | None:
    """The module `triton_head`; None without a GPU, Triton, or what it needs to compile."""
    if device.type != "cuda" or find_spec("triton") is None:
        return None
    from extract.scoring import triton_head

    try:
        triton_head.tile_sums(torch.zeros(1, 2, device=device), torch.zeros(1, device=device))
    except Exception as error:  # of the compiler, the driver, the library's version
        raise_if_lost(error)
        return None
    return triton_head


def tile_sums(logits: Tensor, target_logits: Tensor) -> Tensor:
    """Statistics of each row of a tile, as `triton_head.tile_sums` gives them.

    Args:
        logits: shape (rows, tile), float32; overwritten.
        target_logits: shape (rows,), float32.
    """
    step = CACHED_ROWS if logits.device.type == "cpu" else len(logits)
    scratch = torch.empty_like(logits[:step])
    parts = [
        _part_sums(logits[at : at + step], target_logits[at : at + step], scratch)
        for at in range(0, len(logits), step)
    ]
    return torch.cat(parts, 1)


def _part_sums(logits: Tensor, target_logits: Tensor, scratch: Tensor) -> Tensor:
    top = logits.amax(-1)
    scratch = scratch[: len(logits)]
    above = torch.gt(logits, target_logits.unsqueeze(1), out=scratch).sum(-1)
    # centred on the top, so that the mean logit keeps its digits
    logits.sub_(top.unsqueeze(1))
    probabilities = torch.softmax(logits, -1, out=scratch)
    lse = top - probabilities.amax(-1).log()
    mean = torch.linalg.vecdot(probabilities, logits)
    square = torch.linalg.vecdot(probabilities, logits.square_())
    return torch.stack([top, above, lse, top + mean, square - mean.square()])


def _float32_product(hidden: Tensor, weight: Tensor) -> Tensor:
    """`hidden @ weight.T` in float32, whatever the weight's dtype; hidden in float32."""
    if weight.dtype == torch.float32:
        return hidden @ weight.t()
    if weight.device.type in ("cuda", "xpu"):
        return torch.mm(hidden.to(weight.dtype), weight.t(), out_dtype=torch.float32)
    # Apple's GPUs have no such product, and logits in bfloat16 would keep three digits
    logits = hidden.new_empty(len(hidden), len(weight))
    for at in range(0, len(weight), CONVERTED):
        logits[:, at : at + CONVERTED] = hidden @ weight[at : at + CONVERTED].float().t()
    return logits


def to_host(blocks: Sequence[Tensor]) -> list[TokenScores]:
    """Statistics of several requests as arrays, in one copy.

    Until here nothing waited for a GPU: its queue has the work of all requests. The copy goes
    through pinned memory, which a GPU reads and writes by itself.

    Args:
        blocks: from `VocabularyHead.score`, each of shape (5 + 2 · top_k, n).
    """
    if not blocks:
        return []
    together = torch.cat(list(blocks), dim=1)
    if together.device.type == "cuda":
        pinned = torch.empty(together.shape, dtype=together.dtype, pin_memory=True)
        pinned.copy_(together, non_blocking=True)
        torch.cuda.current_stream(together.device).synchronize()
        together = pinned
    parts = torch.split(together.cpu(), [block.shape[1] for block in blocks], dim=1)
    return [_scores(part.numpy()) for part in parts]


def _scores(stack: NDArray[np.float32]) -> TokenScores:
    logprob, entropy, rank, top_logprob, varentropy = stack[:STATISTICS]
    scores = TokenScores(logprob, entropy, rank.astype(np.int32), top_logprob, varentropy)
    if len(stack) == STATISTICS:
        return scores
    ids, logprobs = np.split(stack[STATISTICS:], 2)
    return replace(scores, choices=ids.T.astype(np.int32), choice_logprobs=logprobs.T)
