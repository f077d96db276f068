"""The scoring engine: requests in, token statistics out.

The backbone runs once over each trunk (a document) and keeps its KV cache; everything that
continues the trunk (retrieval excerpts, recall questions) is packed into one further forward
under a tree mask: each branch sees its prefix of the trunk and itself. Other requests run in
length-sorted batches under a token budget. The LM head runs over scored positions only.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache

from extract.scored import NonFiniteLogits, Scored, TokenScores
from extract.scoring import self_check
from extract.scoring.budgets import BRANCH_TOKENS, CPU_BATCH_TOKENS, gpu_budgets
from extract.scoring.head import LogitTransform, VocabularyHead, to_host
from extract.scoring.linear import onednn_available, pack_linear_layers
from extract.scoring.placement import exact_float32, execution_device
from warehouse.errors import TokenmartError
from warehouse.probes.request import Ids, Request
from warehouse.problem.model_shape import ModelShape

_OnDevice = tuple[Tensor, int]
"""A request's statistics where they were computed, and the backbone tokens spent on it."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception means that the device (or the host) ran out of memory."""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or (
        isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    )


class Engine:
    """Scores requests with one model; `parameters` and `attention` describe it for the ledger.

    Args:
        model: a causal language model of transformers, in eval mode, on its device.
        batch_tokens: tokens per forward of batched requests (padding included); by default
            what suits a processor's caches, or a GPU's free memory.
        branch_tokens: tokens of branches packed into one forward behind a trunk.
        compiled: fuse norms, feed-forward layers and the head's tiles with `torch.compile`; the
            first document waits for the compiler.
        check: call `check` at once.

    Raises:
        TokenmartError: see `check`.
        NonFiniteLogits: see `check`.
    """

    def __init__(
        self,
        model: Any,
        *,
        batch_tokens: int | None = None,
        branch_tokens: int = BRANCH_TOKENS,
        compiled: bool = False,
        check: bool = True,
    ) -> None:
        self.model: Any = model
        self.backbone: Any = self.model.get_decoder()
        exact_float32()
        self.device: torch.device = execution_device(self.model.get_input_embeddings())
        self.dtype: torch.dtype = self.model.dtype
        self.batch_tokens = batch_tokens or CPU_BATCH_TOKENS
        self.branch_tokens = branch_tokens
        self.config: Any = self.model.config.get_text_config()
        self.parameters = sum(parameter.numel() for parameter in self.model.parameters())
        self.attention = str(getattr(self.model.config, "_attn_implementation", "unknown"))
        self.attention += ", compiled" if compiled else ""
        self._reference = self._own_statistics()
        self.head = VocabularyHead(
            self.model.get_output_embeddings(),
            LogitTransform.of(self.config),
            compiled=compiled,
        )
        if self.device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(self.device)
            shape = ModelShape.of_config(self.config.to_dict())
            fitting, self.head.rows = gpu_budgets(free, shape, self.dtype.itemsize)
            self.batch_tokens = batch_tokens or fitting
        if compiled:
            self._compile_layers()
        elif onednn_available(self.device, self.dtype):
            pack_linear_layers(self.backbone)
        rope = getattr(self.config, "rope_parameters", None) or {}
        # frequencies that follow the length differ between a trunk and its prefixes, and
        # between the members of a padded batch
        self.length_dependent = rope.get("rope_type") in ("dynamic", "longrope")
        self.share_trunks = not self.length_dependent
        if check:
            self.check()

    def _compile_layers(self) -> None:
        """Compile what all layers share; attention has kernels of its own, and a cache inside."""
        for layer in self.backbone.layers:
            for child in layer.children():
                if not hasattr(child, "layer_idx"):
                    child.compile(dynamic=True)

    def score(self, requests: Sequence[Request]) -> list[Scored]:
        """Score requests; results come back in their order. Equal requests are scored once.

        When memory runs out, the token budgets are halved and the work goes on.

        Raises:
            NonFiniteLogits: the model produced NaN or infinite logits.
            TokenmartError: out of memory at the smallest budget.
        """
        distinct: dict[Any, Request] = {}
        for request in requests:
            distinct.setdefault(request.key, request)
        while True:
            try:
                with torch.inference_mode():
                    found = self._score(list(distinct.values()))
                    scores = to_host([block for block, _ in found])
                break
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                self._halve(error)
        if not all(np.isfinite(each.logprob).all() for each in scores):
            raise NonFiniteLogits("the model produced NaN or infinite logits")
        tokens = {key: spent for key, (_, spent) in zip(distinct, found, strict=True)}
        by_key = dict(zip(distinct, scores, strict=True))
        # the first of equal requests is charged with the tokens
        return [Scored(by_key[r.key], tokens.pop(r.key, 0)) for r in requests]

    def _halve(self, error: BaseException) -> None:
        if max(self.batch_tokens, self.branch_tokens, self.head.rows) <= 32:
            raise TokenmartError(
                f"out of memory even at the smallest batch ({str(error)[:80]}); use --dtype "
                "bfloat16, a larger device, or fewer --max-tokens"
            ) from error
        self.batch_tokens = max(32, self.batch_tokens // 2)
        self.branch_tokens = max(32, self.branch_tokens // 2)
        self.head.rows = max(32, self.head.rows // 2)
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _score(self, requests: Sequence[Request]) -> list[_OnDevice]:
        results: dict[int, _OnDevice] = {}
        trunks: dict[bytes, list[int]] = {}
        alone: list[int] = []
        for index, request in enumerate(requests):
            if request.prefix_length and self.share_trunks:
                trunks.setdefault(request.trunk.tobytes(), []).append(index)
            else:
                alone.append(index)
        for branches in trunks.values():
            trunk = requests[branches[0]].trunk
            same = [i for i in alone if np.array_equal(requests[i].ids, trunk)]
            alone = [i for i in alone if i not in same]
            results.update(self._score_tree(trunk, requests, same, branches))
        results.update(self._score_batches(requests, alone))
        return [results[index] for index in range(len(requests))]

    def _ids(self, ids: Ids) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(ids)).long().to(self.device)

    def _head(self, hidden: Tensor, request: Request) -> Tensor:
        return self.head.score(hidden, self._ids(request.targets).to(self.head.device))

    def _score_batches(
        self, requests: Sequence[Request], indices: Iterable[int]
    ) -> dict[int, _OnDevice]:
        """Right-padded batches of similar length; causal attention never looks at the padding."""
        results: dict[int, _OnDevice] = {}
        whole = {
            i: np.concatenate([requests[i].trunk[: requests[i].prefix_length], requests[i].ids])
            for i in indices
        }
        order = sorted(whole, key=lambda i: (-len(whole[i]), i))
        while order:
            longest = len(whole[order[0]])
            size = max(1, self.batch_tokens // longest)
            if self.length_dependent:
                size = min(size, sum(len(whole[i]) == longest for i in order))
                self._reset_frequencies()
            batch, order = order[:size], order[size:]
            ids = np.zeros((len(batch), longest), dtype=np.int32)
            for row, i in enumerate(batch):
                ids[row, : len(whole[i])] = whole[i]
            hidden = self.backbone(input_ids=self._ids(ids), use_cache=False).last_hidden_state
            for row, i in enumerate(batch):
                request, length = requests[i], len(whole[i])
                first = length - len(request.targets)
                scores = self._head(hidden[row, first - 1 : length - 1], request)
                results[i] = (scores, length)
        return results

    def _reset_frequencies(self) -> None:
        """Dynamic RoPE remembers the longest input; a one-token input makes it forget."""
        rotary = getattr(self.backbone, "rotary_emb", None)
        if rotary is not None:
            position = torch.zeros(1, 1, dtype=torch.long, device=self.device)
            rotary(torch.zeros(1, 1, 1, dtype=self.dtype, device=self.device), position)

    def _score_tree(
        self,
        trunk: Ids,
        requests: Sequence[Request],
        same: Sequence[int],
        branches: Sequence[int],
    ) -> dict[int, _OnDevice]:
        """One forward over the trunk, then packed forwards over its branches."""
        results: dict[int, _OnDevice] = {}
        cache = DynamicCache()
        output = self.backbone(
            input_ids=self._ids(trunk[None]), past_key_values=cache, use_cache=True
        )
        hidden = output.last_hidden_state[0]
        spent = len(trunk)
        for i in same:
            first = requests[i].first_target
            results[i] = (self._head(hidden[first - 1 : len(trunk) - 1], requests[i]), spent)
            spent = 0
        # a branch whose first token is scored needs the trunk's last visible state
        ends = {i: hidden[requests[i].prefix_length - 1].clone() for i in branches}
        del hidden, output
        pack: list[int] = []
        size = 0
        packs: list[list[int]] = []
        for i in branches:
            if pack and size + len(requests[i].ids) > self.branch_tokens:
                packs.append(pack)
                pack, size = [], 0
            pack.append(i)
            size += len(requests[i].ids)
        for members in [*packs, pack]:
            states = self._run_branches(cache, len(trunk), [requests[i] for i in members])
            for i, state in zip(members, states, strict=True):
                request = requests[i]
                before = torch.cat([ends[i][None], state[:-1]])
                scores = self._head(before[request.first_target :], request)
                results[i] = (scores, len(request.ids) + spent)
                spent = 0
            cache.crop(-sum(len(state) for state in states))
        return results

    def _run_branches(
        self, cache: DynamicCache, trunk_length: int, branches: Sequence[Request]
    ) -> list[Tensor]:
        """Hidden states of each branch, shape (len(ids), width), from one packed forward."""
        lengths = [len(branch.ids) for branch in branches]
        ids = np.concatenate([branch.ids for branch in branches])
        positions = np.concatenate(
            [branch.prefix_length + np.arange(len(branch.ids)) for branch in branches]
        )
        total = trunk_length + len(ids)
        visible = torch.zeros(len(ids), total, dtype=torch.bool)
        at = 0
        for branch, length in zip(branches, lengths, strict=True):
            rows = slice(at, at + length)
            visible[rows, : branch.prefix_length] = True
            block = torch.ones(length, length, dtype=torch.bool).tril()
            visible[rows, trunk_length + at : trunk_length + at + length] = block
            at += length
        query = torch.from_numpy(positions)
        key = torch.cat([torch.arange(trunk_length), query])
        with self._attention_with_masks():
            hidden = self.backbone(
                input_ids=self._ids(ids[None]),
                attention_mask=self._tree_mask(visible, query, key),
                position_ids=query[None].to(self.device),
                past_key_values=cache,
                use_cache=True,
            ).last_hidden_state[0]
        return list(hidden.split(lengths))

    @contextmanager
    def _attention_with_masks(self) -> Iterator[None]:
        """SDPA while branches run: FlashAttention, good for trunks, takes no tree masks."""
        chosen = self.config._attn_implementation
        if chosen in ("sdpa", "eager"):
            yield
            return
        self.config._attn_implementation = "sdpa"
        try:
            yield
        finally:
            self.config._attn_implementation = chosen

    def _tree_mask(self, visible: Tensor, query: Tensor, key: Tensor) -> Any:
        """The mask in the form the architecture takes, with its own sliding window respected."""
        window = getattr(self.config, "sliding_window", None)
        full = self._attention_mask(visible)
        if window is None:
            return full
        sliding = self._attention_mask(visible & (query[:, None] - key[None] < window))
        kinds = getattr(self.config, "layer_types", None)
        if kinds is None:
            return sliding
        return {"full_attention": full, "sliding_attention": sliding}

    def _attention_mask(self, visible: Tensor) -> Tensor:
        """A boolean mask, or the additive one that eager attention takes."""
        mask = visible[None, None].to(self.device)
        if getattr(self.config, "_attn_implementation", None) != "eager":
            return mask
        added = torch.zeros(mask.shape, dtype=self.dtype, device=self.device)
        return added.masked_fill_(~mask, torch.finfo(self.dtype).min)

    def _own_statistics(self) -> tuple[Ids, TokenScores]:
        """The model's own statistics on a short fixed sequence, before anything is replaced."""
        ids = self_check.fixed_text(self.model.get_output_embeddings().out_features)
        with torch.inference_mode():
            logits = self.model(input_ids=self._ids(ids[None])).logits[0].float()
        return ids, self_check.plain_statistics(logits[:-1], self._ids(ids[1:]))

    def check(self) -> None:
        """Compare the plain path and the tree path with the model's own logits.

        Raises:
            TokenmartError: they differ; the model's forward does something after the backbone
                that this engine does not know.
            NonFiniteLogits: the model produces NaN or infinite logits.
        """
        ids, own = self._reference
        if not np.isfinite(own.logprob).all():
            raise NonFiniteLogits("the model produced NaN or infinite logits on a plain text")
        with self_check.compiler_errors():
            (plain,) = self.score([self_check.whole(ids)])
        self_check.compare(self.model, "plain", plain.scores, own)
        if self.share_trunks:
            try:
                # both in one forward, so that neither may see the other
                for tree in self.score([self_check.branch(ids, start) for start in (48, 64)]):
                    self_check.compare(self.model, "tree", tree.scores, own)
            except (TokenmartError, TypeError, ValueError, RuntimeError, KeyError):
                # an architecture or attention that takes no tree mask: run requests one by one
                self.share_trunks = False
