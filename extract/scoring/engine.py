"""The scoring engine: requests in, token statistics out.

The backbone runs once over each prefix (a document) and keeps its KV cache; everything that
continues it (retrieval excerpts, recall questions) is packed into one further forward under a
mask: each suffix sees its part of the prefix and itself. Of many short prefixes (prompts with
their choices) several go into one forward, suffixes and all. Other requests, and prompts whose
choices are single tokens, run in length-sorted batches under a token budget. The LM head runs over
scored positions only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import DynamicCache

from extract.devices import free_bytes
from extract.failures import NonFiniteLogits, is_out_of_memory, raise_if_lost
from extract.models.placement import execution_device
from extract.scoring import architectures, attention, fused_layers, layers, packing, self_check
from extract.scoring.budgets import (
    Attempts,
    Budgets,
    Result,
    cache_bytes_per_token,
    default_budgets,
    refuse_large_caches,
    refuse_unknown_ids,
)
from extract.scoring.generation import Writing, generate
from extract.scoring.head import HeadWeights, LogitTransform, VocabularyHead, to_host
from extract.scoring.statistics import Scored
from warehouse.errors import TokenmartError, first_line
from warehouse.probes.request import Ids, Request
from warehouse.problem.models import ModelShape

FUSED_ON = ("cuda",)
"""Devices on which fused layers are used; for AMD's GPUs torch has the same name."""

_OnDevice = tuple[Tensor, int]
"""A request's statistics where they were computed, and the backbone tokens spent on it."""


class Engine:
    """Scores requests with one model; its attributes describe it for the ledger.

    Attributes:
        parameters: weights of the model.
        head_weights: of its output embedding.
        prefixes: `shared`, or `separate: ` and the reason why every suffix reads its own prefix.
        takes_pieces: whether a text may pass through a KV cache in pieces.
        weights: from `load_weights`; empty for a model that was made in memory.

    Args:
        model: a causal language model of transformers, in eval mode, on its device.
        budgets: batch sizes; by default those that suit the device.
        sample: tokens of real text for `check`; fixed random ones without it.
        check: call `check` now.
        top_k: number of top-k tokens per position, at most the vocabulary.
        fused: use fused layers where there are some: see `fused_layers`.

    Raises:
        TokenmartError: see `check`; or the model's forward does something after its head.
        NonFiniteLogits: see `check`.
    """

    def __init__(
        self,
        model: Any,
        *,
        budgets: Budgets | None = None,
        sample: Ids | None = None,
        check: bool = True,
        top_k: int = 0,
        fused: bool = True,
    ) -> None:
        self.model = model
        self.backbone = architectures.backbone(model)
        self.window = architectures.applied_window(self.backbone)
        self.weights = str(getattr(model, "loading_record", ""))
        layers.exact_float32()
        architectures.refuse_unsupported(model)
        self.device: torch.device = execution_device(model.get_input_embeddings())
        self.dtype: torch.dtype = model.dtype
        self.config = model.config.get_text_config()
        self.devices = {p.device for p in model.parameters() if p.device.type != "meta"}
        self.parameters = sum(parameter.numel() for parameter in model.parameters())
        attention.repeat_heads_where_needed(self.config, self.device, self.dtype)
        self._described: dict[attention.Kernels, str] = {}
        transform = LogitTransform.of(self.config)
        head = self.model.get_output_embeddings()
        text = self.on_device(self_check.check_text(sample, head.out_features))
        with attention.fused_kernels(self.device), self_check.supported(model):
            self._reference = self_check.own_forward(self.model, text, transform)
        # after the reference, which is of the model's own layers
        on_gpu = self.device.type in FUSED_ON
        self._fused = fused_layers.fuse_layers(model) if fused and on_gpu else None
        self._refused_layers = ""
        self.head_weights = HeadWeights.of(head, transform)
        self.head = VocabularyHead(self.head_weights, execution_device(head), top_k, fused=fused)
        shape = ModelShape.of_config(self.config.to_dict())
        self.cache_bytes = cache_bytes_per_token(shape, self.dtype.itemsize) if shape else 0
        self.attempts = Attempts(
            self.device,
            budgets or default_budgets(self.device, shape, self.dtype.itemsize, self.head.rows),
            attention.preferred_kernels(self.device),
        )
        if layers.onednn_available(self.device, self.dtype):
            layers.pack_linear_layers(self.backbone)
        self.length_dependent = architectures.depends_on_length(self.config)
        separate = architectures.reason_for_separate_prefixes(model)
        self.prefixes = f"separate: {separate}" if separate else "shared"
        self.takes_pieces = not (self.length_dependent or architectures.is_stateful(model))
        if check:
            self.check()

    @property
    def budgets(self) -> Budgets:
        """Batch sizes."""
        return self.attempts.budgets

    @property
    def attention(self) -> str:
        """Implementation and kernel, such as `sdpa/flash`, and why no better one; fused layers."""
        kernels = self.attempts.kernels
        if kernels not in self._described:
            described = attention.describe(self.config, self.device, self.dtype, kernels)
            self._described[kernels] = described
        layers = self._fused.name if self._fused else self._refused_layers
        parts = [self._described[kernels], self.attempts.refused, layers, self.head.described]
        return "; ".join(filter(None, parts))

    @property
    def share_prefixes(self) -> bool:
        """Whether suffixes of one prefix share its KV cache."""
        return self.prefixes == "shared"

    def score(self, requests: Sequence[Request]) -> list[Scored]:
        """Score requests; results come back in their order. Equal requests are scored once.

        When memory runs out, the budgets are halved until this call is done.

        Raises:
            NonFiniteLogits: the model produced NaN or infinite logits.
            DoesNotFitError: a shared prefix's KV cache is more than the GPU has free.
            TokenmartError: out of memory at the smallest budgets; or the GPU failed.
        """
        distinct: dict[Any, Request] = {}
        for request in requests:
            distinct.setdefault(request.key, request)
        asked = list(distinct.values())
        refuse_unknown_ids(asked, int(self.model.get_input_embeddings().weight.shape[0]))
        if self.device.type == "cuda" and self.share_prefixes and len(self.devices) == 1:
            refuse_large_caches(asked, self.cache_bytes, free_bytes(self.device))
        longest = max((max(r.length, len(r.prefix)) for r in asked), default=0)
        with self._layers():
            scores = self.attempts.run(lambda: self._score_once(asked), longest)
        if not all(np.isfinite(scored.scores.logprob).all() for scored in scores):
            raise NonFiniteLogits
        by_key = dict(zip(distinct, scores, strict=True))
        results = []
        for request in requests:
            scored = by_key[request.key]
            results.append(scored)
            # the first of equal requests is charged with the tokens
            by_key[request.key] = Scored(scored.scores, 0)
        return results

    def of_whole_text(self, request: Request, use: Callable[[Tensor], Result]) -> Result:
        """What `use` returns for the hidden states that predict a request's targets.

        Args:
            request: without a prefix; errors are those of `score`.
            use: takes states of shape (targets, width); called again, with smaller budgets, when
                memory runs out.
        """
        refuse_unknown_ids([request], int(self.model.get_input_embeddings().weight.shape[0]))
        scored = slice(request.first_target - 1, len(request.ids) - 1)

        def run() -> Result:
            if self.length_dependent:
                layers.reset_frequencies(self.backbone, self.device, self.dtype)
            return use(self._states(request.ids)[scored])

        with self._layers():
            return self.attempts.run(run, request.length)

    def _layers(self) -> AbstractContextManager[None]:
        return self._fused.in_place() if self._fused else nullcontext()

    def _score_once(self, requests: Sequence[Request]) -> list[Scored]:
        """Statistics of distinct requests, with the present budgets."""
        results: dict[int, _OnDevice] = {}
        groups: dict[bytes, list[int]] = {}
        alone: list[int] = []
        for index, request in enumerate(requests):
            if request.prefix_length and self.share_prefixes:
                groups.setdefault(request.prefix.tobytes(), []).append(index)
            else:
                alone.append(index)
        rows = [
            row for group in groups.values() if (row := packing.next_token_row(requests, group))
        ]
        bare = {i for row in rows for i in row.requests}
        suffixed = [group for group in groups.values() if group[0] not in bare]
        budget = min(self.budgets.batch_tokens, packing.PACKED_TOKENS)
        for pack in packing.pack_short_groups(requests, suffixed, budget):
            states = self._packed_states(pack)
            results.update(self._score_suffixes(requests, pack, states, {}))
        for group in suffixed:
            if group[0] in results:
                continue
            prefix = requests[group[0]].prefix
            same = [i for i in alone if np.array_equal(requests[i].ids, prefix)]
            alone = [i for i in alone if i not in same]
            results.update(self._score_long_prefix(prefix, requests, same, group))
        rows += [packing.whole_row(requests, i) for i in alone]
        results.update(self._score_batches(requests, rows))
        blocks = [results[index] for index in range(len(requests))]
        scores = to_host([block for block, _ in blocks])
        spent = [tokens for _, tokens in blocks]
        return [
            Scored(of_request, tokens) for of_request, tokens in zip(scores, spent, strict=True)
        ]

    def on_device(self, ids: NDArray[Any]) -> Tensor:
        """Integers on the device. Pinned memory is copied without waiting for a GPU's queue."""
        tensor = torch.from_numpy(np.ascontiguousarray(ids)).long()
        if self.device.type == "cuda":
            tensor = tensor.pin_memory()
        return tensor.to(self.device, non_blocking=True)

    def _heads(
        self, states: Sequence[Tensor], requests: Sequence[Request], spent: Mapping[int, int]
    ) -> list[_OnDevice]:
        """Statistics of several requests, the keys of `spent`: the head's weights are read once."""
        targets = self.on_device(np.concatenate([requests[i].targets for i in spent]))
        targets = targets.to(self.head.device)
        together = states[0] if len(states) == 1 else torch.cat(list(states))
        blocks = self.head.score(together, targets, self.budgets.rows)
        parts = torch.split(blocks, [len(state) for state in states], dim=1)
        return list(zip(parts, spent.values(), strict=True))

    def _states(self, ids: Ids, cache: DynamicCache | None = None) -> Tensor:
        """Hidden states of one text, shape (len(ids), width); its keys and values go to `cache`."""
        size = len(ids)
        in_pieces = not self.budgets.one_forward(size, cached=cache is not None)
        if in_pieces and self.takes_pieces:
            size = self.budgets.piece_tokens
            cache = DynamicCache() if cache is None else cache
        pieces = [
            self.backbone(
                input_ids=self.on_device(ids[None, at : at + size]),
                past_key_values=cache,
                use_cache=cache is not None,
            ).last_hidden_state[0]
            for at in range(0, len(ids), size)
        ]
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces)

    def _score_batches(
        self, requests: Sequence[Request], rows: Sequence[packing.PackedRow]
    ) -> dict[int, _OnDevice]:
        """Right-padded batches of similar length; causal attention never looks at the padding."""
        results: dict[int, _OnDevice] = {}
        left = sorted(rows, key=lambda row: (-len(row.ids), row.requests))
        while left:
            longest = len(left[0].ids)
            size = max(1, self.budgets.batch_tokens // longest)
            if self.length_dependent:
                size = min(size, sum(len(row.ids) == longest for row in left))
                layers.reset_frequencies(self.backbone, self.device, self.dtype)
            batch, left = left[:size], left[size:]
            if len(batch) == 1:
                hidden = [self._states(batch[0].ids)]
            else:
                ids = packing.padded([row.ids for row in batch])
                output = self.backbone(input_ids=self.on_device(ids), use_cache=False)
                hidden = list(output.last_hidden_state)
            states, spent = [], {}
            for row, states_of_row in zip(batch, hidden, strict=True):
                for i in row.requests:
                    states.append(states_of_row[row.first : row.first + len(requests[i].targets)])
                    spent[i] = len(row.ids) if i == row.requests[0] else 0
            results.update(zip(spent, self._heads(states, requests, spent), strict=True))
        return results

    def _score_long_prefix(
        self, prefix: Ids, requests: Sequence[Request], same: Sequence[int], group: Sequence[int]
    ) -> dict[int, _OnDevice]:
        """One forward over the prefix, then packed forwards over its suffixes.

        `same` are requests for the prefix's own tokens: they need no further forward.
        """
        results: dict[int, _OnDevice] = {}
        cache = DynamicCache()
        hidden = self._states(prefix, cache)
        tokens = len(prefix)
        for i in same:
            of_targets = hidden[requests[i].first_target - 1 : len(prefix) - 1]
            (results[i],), tokens = self._heads([of_targets], requests, {i: tokens}), 0
        suffixes = packing.suffixes_of(requests, group)
        # of the prefix, only the states that predict first tokens of suffixes are kept
        ends = {suffix.visible - 1: hidden[suffix.visible - 1].clone() for suffix in suffixes}
        del hidden
        for pack in packing.pack_suffixes(suffixes, self.budgets.suffix_tokens):
            states = self._packed_states(pack, cache, len(prefix))
            results.update(self._score_suffixes(requests, pack, states, ends, tokens))
            cache.crop(-sum(len(state) for state in states))
            tokens = 0
        return results

    def _packed_states(
        self, pieces: Sequence[packing.Piece], cache: DynamicCache | None = None, cached: int = 0
    ) -> Sequence[Tensor]:
        """Hidden states of each piece, shape (len(ids), width), from one packed forward.

        The prefix of suffixes is in `cache`, `cached` tokens, or among the pieces.
        """
        group, suffix, positions, visible = (
            self.on_device(column) for column in packing.columns_of(pieces)
        )
        mask, keys = packing.visible_tokens(group, suffix, positions, visible, cached)
        with attention.with_masks(self.config):
            output = self.backbone(
                input_ids=self.on_device(np.concatenate([piece.ids for piece in pieces])[None]),
                attention_mask=packing.attention_mask(
                    mask, positions, keys, self.config, self.dtype, self.window
                ),
                position_ids=positions[None],
                past_key_values=cache,
                use_cache=cache is not None,
            )
        return torch.split(output.last_hidden_state[0], [len(piece.ids) for piece in pieces])

    def _score_suffixes(
        self,
        requests: Sequence[Request],
        pieces: Sequence[packing.Piece],
        states: Sequence[Tensor],
        prefix: Mapping[int, Tensor] | Tensor,
        tokens: int = 0,
    ) -> dict[int, _OnDevice]:
        """Statistics of the requests of packed suffixes; the head runs once over all of them.

        Args:
            requests: all of them.
            pieces: suffixes, or prefixes each with its suffixes behind it.
            states: of each piece, shape (len(ids), width).
            prefix: states of a prefix that is not among the pieces, by position.
            tokens: its tokens, if they are not yet counted for a request.
        """
        scored, spent = [], dict[int, int]()
        for piece, state in zip(pieces, states, strict=True):
            tokens += len(piece.ids)
            if not piece.requests:
                prefix = state
                continue
            before = torch.cat([prefix[piece.visible - 1][None], state])
            for i in piece.requests:
                scored.append(before[requests[i].first_target : len(requests[i].ids)])
                spent[i], tokens = tokens, 0
        return dict(zip(spent, self._heads(scored, requests, spent), strict=True))

    def generate(self, contexts: Sequence[Ids], writing: Writing) -> list[Ids]:
        """Text generated after each context; see `extract.scoring.generation`."""
        kernels = attention.fused_kernels(self.device, self.attempts.kernels)
        with kernels, attention.with_masks(self.config), self._layers():
            return generate(self.model, contexts, writing, self.budgets.batch_tokens)

    def check(self) -> None:
        """Compare all paths with the model's own forward: see `check_paths`, also for errors."""
        try:
            self.prefixes = self_check.check_paths(self, self._reference)
        except Exception as error:  # also of kernels that can't be built here
            raise_if_lost(error)
            reason, kernels = first_line(error), self.attempts.kernels
            if isinstance(error, TokenmartError) and attention.without_cudnn(kernels) != kernels:
                self.attempts.refuse_cudnn(reason)
            elif self._fused and not is_out_of_memory(error):
                self._refused_layers = f"{self._fused.name} refused: {reason[:100]}"
                self._fused.remove()
                self._fused = None
            else:
                raise
            self.check()
