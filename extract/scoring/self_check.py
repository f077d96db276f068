"""Check of the engine before it scores: comparison with the model's own forward on a short text.

The model's own hidden states go through a float32 head: its own logits in half precision are
rounded to steps of up to 0.125 nats, which would hide a wrong mask. They only serve to see that
the model has no operation after the head that the engine doesn't apply.

How far two right computations may lie apart follows from the dtype and is measured on the model:
the same forward runs once more with every number of the embeddings moved by one step of the
dtype, which redraws all later roundings. Measured on SmolLM2-135M: 4e-6 nats (root mean
square) in float32, 0.07 in bfloat16, 0.01 in float16, while a suffix that misses one token of its
prefix is off by 0.3 in all of them. On random ids Gemma-3-270M in bfloat16 hides that token in its
rounding (0.45), on real text (0.15) it does not.

Where two draws don't explain a difference, more are made before a model is refused: with positions
squeezed by 1.5, SmolLM2-135M failed on one text of 24 with 2 draws, and with 30 on none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from extract.failures import DeviceLostError, NonFiniteLogits, is_out_of_memory, raise_if_lost
from extract.models.placement import LOCKED_ARCHITECTURES, execution_device, resident_weight
from extract.scoring.head import LogitTransform
from extract.scoring.statistics import TokenScores
from warehouse.errors import TokenmartError, first_line
from warehouse.probes.request import Ids, Request

TEXT_TOKENS, PREFIX_TOKENS = 96, 64
SUFFIX_STARTS = (48, 64)
REDRAWN = 2
"""Forward passes with redrawn roundings."""

ROUNDS = 16
"""Factor by which more are made, one round after another, if the first don't explain a
difference.
"""

RMS_FACTOR, WORST_FACTOR = 2.0, 4.0
"""Accepted multiples of the redrawn forwards' root mean square and of their largest difference.
Two right computations differ about as much as two draws; the largest of 95 heavy-tailed
differences varies more than their mean square."""

ROUNDINGS = 4
"""Accepted multiple of a computed rounding error; at most three half steps add up in a logit
(product, scaling, capping)."""

LOGPROB_STEPS = 3
"""Accepted steps of float32 at the largest log-prob. It is a logit less a log-sum-exp of tiles, and
both sums and the difference are rounded (half a step each); 1.75 is the most that was measured, in
float32 with a vocabulary of 49,152, where the logits of a narrow model have almost no error."""

VOCABULARY_TILE = 16_384

NOT_SUPPORTED = (
    TokenmartError,
    TypeError,
    ValueError,
    RuntimeError,
    LookupError,
    AttributeError,
    NotImplementedError,
)
"""What an architecture raises that takes no mask of ours, or no cache."""


@dataclass(frozen=True)
class Reference:
    """The model's own statistics on a short text.

    Attributes:
        ids: shape (n,), the text.
        logprob: shape (n - 1,), of ids[1:], nats; not finite where the model's logits are not.
        redrawn: shape (draws, n - 1), what redrawn roundings change in them.
        head_error: nats; error of the float32 head, measured on the targets' own logits.
    """

    ids: Ids
    logprob: NDArray[np.float64]
    redrawn: NDArray[np.float64]
    head_error: float

    def first(self, tokens: int) -> Reference:
        """The statistics of the first tokens of the text."""
        return replace(
            self,
            ids=self.ids[:tokens],
            logprob=self.logprob[: tokens - 1],
            redrawn=self.redrawn[:, : tokens - 1],
        )


def check_text(sample: Ids | None, vocabulary: int) -> Ids:
    """The text to compare on, shape (96,): real where there is one, else fixed random ids."""
    if sample is not None and len(sample) >= TEXT_TOKENS:
        return sample[:TEXT_TOKENS].astype(np.int32)
    ids = np.random.default_rng(0).integers(0, min(TEXT_TOKENS, vocabulary), TEXT_TOKENS)
    return ids.astype(np.int32)


def own_forward(model: Any, ids: Tensor, transform: LogitTransform) -> Reference:
    """Run the model's own forward, once as it is and twice with redrawn roundings.

    Args:
        model: untouched, in eval mode.
        ids: shape (n,), on the model's device.
        transform: the model's operations after its head, as the engine applies them.

    Raises:
        TokenmartError: the model does something else after its head.
    """
    weight, bias = resident_weight(model.get_output_embeddings())
    states, logits, raw = _with_redrawn_roundings(model, ids, seed=0)
    # dot products of `width` terms: errors grow with the root of their number (Higham and Mary
    # 2019), in units of the product of both lengths
    lengths = states.norm(dim=-1).amax() * _row_lengths(weight).amax()
    step = torch.finfo(torch.float32).eps * states.shape[-1] ** 0.5
    product_error = float(step * lengths) * abs(transform.scale)
    known = transform.apply_(raw.clone())
    accepted = ROUNDINGS * (
        torch.finfo(model.dtype).eps * (raw[0] * transform.scale).abs() + product_error
    )
    excess = float(((logits.to(raw.device).float() - known[0]).abs() - accepted).max())
    if bool(torch.isfinite(logits).all()) and not excess <= 0:
        raise TokenmartError(
            f"{type(model).__name__}: its logits differ by {excess:.3g} beyond rounding from those "
            "that the engine computes from its last hidden states; this architecture is not "
            "supported",
            code="unsupported-architecture",
            where=model.config.model_type,
        )
    logprobs = _logprobs(known, ids)
    return Reference(
        ids=ids.cpu().numpy().astype(np.int32),
        logprob=logprobs[0],
        redrawn=logprobs[1:] - logprobs[0],
        head_error=abs(transform.scale) * _product_error(states[0], weight, bias, raw[0], ids),
    )


def drawn_more(model: Any, reference: Reference, transform: LogitTransform) -> Reference:
    """The reference with `ROUNDS` times as many draws, which estimate rounding better.

    Args:
        model: that of `own_forward`, whose layers may be packed by now.
        reference: from `own_forward`.
        transform: as in `own_forward`.
    """
    ids = torch.from_numpy(reference.ids).long().to(execution_device(model.get_input_embeddings()))
    redrawn = [reference.redrawn]
    # one round after another: the logits of all would take gigabytes
    for seed in range(1, ROUNDS):
        _, _, raw = _with_redrawn_roundings(model, ids, seed)
        logprobs = _logprobs(transform.apply_(raw), ids)
        redrawn.append(logprobs[1:] - logprobs[0])
    return replace(reference, redrawn=np.concatenate(redrawn))


def _float32_logits(states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Shape (…, vocabulary)."""
    tiles = []
    for start in range(0, len(weight), VOCABULARY_TILE):
        tile = states @ weight[start : start + VOCABULARY_TILE].float().t()
        tiles.append(tile if bias is None else tile + bias[start : start + tile.shape[-1]].float())
    return torch.cat(tiles, dim=-1)


def _logprobs(logits: Tensor, ids: Tensor) -> NDArray[np.float64]:
    """Shape (rows, n - 1), of ids[1:]; on the host, since not every device has float64."""
    targets = ids[1:].cpu()[:, None]
    # row by row: in float64, those of all with a large vocabulary would take gigabytes
    parts = [row[:-1].cpu().double().log_softmax(-1).gather(-1, targets)[:, 0] for row in logits]
    return np.asarray(torch.stack(parts).numpy(), dtype=np.float64)


def _product_error(
    states: Tensor, weight: Tensor, bias: Tensor | None, logits: Tensor, ids: Tensor
) -> float:
    """Largest error of the next tokens' float32 logits, by float64 on the host."""
    nexts = ids[1:].to(weight.device)
    exact = (states[:-1].cpu().double() * weight[nexts].cpu().double()).sum(-1)
    if bias is not None:
        exact += bias[nexts].cpu().double()
    rounded = logits[:-1].gather(-1, nexts.to(logits.device)[:, None])[:, 0]
    step = torch.finfo(torch.float32).eps * float(logits.abs().max())
    return float((rounded.cpu().double() - exact).abs().max()) + step


def _row_lengths(weight: Tensor) -> Tensor:
    starts = range(0, len(weight), VOCABULARY_TILE)
    return torch.cat([weight[at : at + VOCABULARY_TILE].float().norm(dim=-1) for at in starts])


def _with_redrawn_roundings(model: Any, ids: Tensor, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """A forward of the text, and of as many copies with redrawn roundings as there are draws.

    Returns:
        States before the head in float32, shape (1 + draws, n, width); the model's own logits of
        the first row; logits of all rows by a float32 head.
    """
    generator = torch.Generator().manual_seed(seed)
    seen: list[Tensor] = []
    head = model.get_output_embeddings()

    def redraw(module: Any, args: Any, embedded: Tensor) -> Tensor:
        signs = torch.randint(0, 2, (REDRAWN, *embedded.shape[1:]), generator=generator) * 2 - 1
        steps = torch.finfo(embedded.dtype).eps * signs.to(embedded.device, embedded.dtype)
        return torch.cat([embedded[:1], embedded[1:] * (1 + steps)])

    def keep(module: Any, args: tuple[Tensor, ...]) -> None:
        seen.append(args[0].detach())

    hooks = [
        model.get_input_embeddings().register_forward_hook(redraw),
        head.register_forward_pre_hook(keep),
    ]
    try:
        with torch.inference_mode():
            logits = model(input_ids=ids.expand(1 + REDRAWN, -1), use_cache=False).logits[0]
    finally:
        for hook in hooks:
            hook.remove()
    states = seen[-1].to(execution_device(head)).float()
    return states, logits, _float32_logits(states, *resident_weight(head))


def whole(ids: Ids) -> Request:
    """A request for every token of the text but the first."""
    return _request(ids, first_target=1)


def suffix_request(ids: Ids, start: int) -> Request:
    """A request for the rest of the text, after the first `start` tokens of a prefix."""
    return _request(ids[start:], first_target=0, prefix=ids[:PREFIX_TOKENS], prefix_length=start)


def other_group(ids: Ids) -> Request:
    """A request after a shorter prefix: a group of its own, as its first token isn't scored."""
    start = SUFFIX_STARTS[0]
    return _request(ids[start:], first_target=1, prefix=ids[:start], prefix_length=start)


def _request(ids: Ids, *, first_target: int, **prefix: Any) -> Request:
    nowhere = np.zeros(len(ids) - first_target, dtype=np.int32)
    return Request(0, ids, first_target, nowhere, nowhere, **prefix)


def explained(reference: Reference, count: int) -> tuple[float, float]:
    """What rounding explains in the last `count` log-probs: root mean square and largest, nats."""
    redrawn = reference.redrawn[:, -count:]
    # our head's own product is rounded in float32, and so is the reference's; then our log-prob
    step = float(np.spacing(np.float32(np.abs(reference.logprob).max())))
    floor = 2 * ROUNDINGS * reference.head_error + LOGPROB_STEPS * step
    rms, worst = np.sqrt((redrawn**2).mean()), np.abs(redrawn).max()
    return float(RMS_FACTOR * rms + floor), float(WORST_FACTOR * worst + floor)


def compare(model: Any, path: str, ours: TokenScores, reference: Reference) -> None:
    """Compare log-probs with the last of the model's own.

    Raises:
        TokenmartError: they differ by more than rounding.
    """
    off = np.abs(ours.logprob - reference.logprob[-len(ours.logprob) :])
    rms, worst = explained(reference, len(off))
    for measure, difference, accepted in (
        ("root mean square", np.sqrt((off**2).mean()), rms),
        ("worst token", off.max(), worst),
    ):
        if not difference <= accepted:
            raise TokenmartError(
                f"{type(model).__name__}: {path} scoring differs from the model's own forward by "
                f"{difference:.3g} nats ({measure}; rounding in {str(model.dtype)[6:]} explains "
                f"{accepted:.3g}): this architecture is not supported",
                code="unsupported-architecture",
                where=model.config.model_type,
            )


def check_paths(engine: Any, reference: Reference) -> str:
    """Compare an engine's plain path and its shared-prefix paths with the model's own forward.

    Returns:
        The engine's `prefixes`: `separate: …` for an architecture that supports no such mask.

    Raises:
        TokenmartError: they differ beyond rounding, or a shared prefix fails on an architecture
            where it must work.
        NonFiniteLogits: the model produces NaN or infinite logits.
    """
    if not np.isfinite(reference.logprob).all():
        raise NonFiniteLogits("the model produced NaN or infinite logits on a plain text")
    ids, model = reference.ids, engine.model

    def agree(path: str, scores: TokenScores, tokens: int = TEXT_TOKENS) -> None:
        nonlocal reference
        try:
            compare(model, path, scores, reference.first(tokens))
        except TokenmartError:
            if len(reference.redrawn) > REDRAWN:
                raise
            reference = drawn_more(model, reference, LogitTransform.of(engine.config))
            compare(model, path, scores, reference.first(tokens))

    with supported(model):
        # a shorter text beside it: of a causal model nothing to the right changes its log-probs
        plain, shorter = engine.score([whole(ids), whole(ids[:PREFIX_TOKENS])])
    agree("plain", plain.scores)
    # where frequencies follow the length, a shorter text has others
    if not engine.length_dependent:
        try:
            agree("shorter", shorter.scores, PREFIX_TOKENS)
        except TokenmartError as error:
            raise TokenmartError(
                f"{type(model).__name__}: later tokens change the log-probs of earlier ones: not "
                "a causal language model, so its log-probs don't predict text",
                code="not-causal",
                where=engine.config.model_type,
            ) from error
    if engine.takes_pieces:
        engine.takes_pieces = _takes_pieces(engine, whole(ids), agree)
    if not engine.share_prefixes:
        return str(engine.prefixes)
    try:
        # both in one forward, so that neither may see the other
        suffixes = [suffix_request(ids, start) for start in SUFFIX_STARTS]
        # and with another group in the same batch
        for path, requests in (("suffix", suffixes), ("packed", [*suffixes, other_group(ids)])):
            for scored in engine.score(requests):
                agree(path, scored.scores)
    except (DeviceLostError, NonFiniteLogits):
        raise
    except NOT_SUPPORTED as error:
        reason = first_line(error, 150)
        if engine.config.model_type in LOCKED_ARCHITECTURES:
            raise TokenmartError(
                f"{type(model).__name__}: prefixes can't be shared ({reason}), which this "
                "architecture must; use an --attention that takes masks, or report it",
                code="separate-prefixes",
                where=engine.config.model_type,
            ) from error
        return f"separate: {reason}"
    return str(engine.prefixes)


def _takes_pieces(engine: Any, text: Request, agree: Callable[[str, TokenScores], None]) -> bool:
    """Whether a text in pieces behind a KV cache has the log-probs of one forward."""
    attempts = engine.attempts
    budgets = attempts.budgets
    attempts.budgets = replace(budgets, prefix_tokens=PREFIX_TOKENS, text_tokens=PREFIX_TOKENS)
    try:
        (pieces,) = engine.score([text])
        agree("pieces", pieces.scores)
    except (DeviceLostError, NonFiniteLogits):
        raise
    except NOT_SUPPORTED:
        return False
    finally:
        attempts.budgets = budgets
    return True


@contextmanager
def supported(model: Any) -> Iterator[None]:
    """Turn what an architecture raises in the engine's hands into one line.

    Raises:
        TokenmartError: the engine can't run this architecture.
    """
    try:
        yield
    except TokenmartError:
        raise
    except (*NOT_SUPPORTED, AssertionError) as error:
        raise_if_lost(error)
        if is_out_of_memory(error):
            raise
        raise TokenmartError(
            f"{type(model).__name__}: this architecture is not supported "
            f"({type(error).__name__}: {first_line(error)})",
            code="unsupported-architecture",
            where=model.config.model_type,
        ) from error
