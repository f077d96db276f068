"""The scoring engine: requests in, token statistics out.

The backbone runs once over each trunk (a document) and keeps its KV cache; everything that
continues the trunk (retrieval excerpts, recall questions) is packed into one further forward
under a tree mask: each branch sees its prefix of the trunk and itself. Of many short trunks
(prompts with their choices) several go into one forward, branches and all. Other requests run in
length-sorted batches under a token budget. The LM head runs over scored positions only.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import DynamicCache

from extract.scored import NonFiniteLogits, Scored
from extract.scoring import attention, generation, self_check
from extract.scoring.budgets import BRANCH_TOKENS, CPU_BATCH_TOKENS, Budgets, gpu_budgets
from extract.scoring.forest import FOREST_TOKENS, columns_of, pieces_of, short_trees
from extract.scoring.head import LogitTransform, VocabularyHead, to_host
from extract.scoring.linear import onednn_available, pack_linear_layers
from extract.scoring.placement import exact_float32, execution_device, reset_frequencies
from extract.scoring.tree import Tree, attention_mask, forest_of, tree_of
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
    """Scores requests with one model; its attributes describe it for the ledger.

    Attributes:
        parameters: weights of the model.
        attention: implementation and kernel, such as `sdpa/flash`.
        prefixes: `shared`, or `separate: ` and the reason why every branch reads its own prefix.
        weights: from `load_weights`; empty for a model that was made in memory.

    Args:
        model: a causal language model of transformers, in eval mode, on its device.
        batch_tokens: tokens per forward of batched requests (padding included); by default
            what suits a processor's caches, or a GPU's free memory.
        branch_tokens: tokens of branches packed into one forward behind a trunk.
        trunk_tokens: a text longer than this goes through its KV cache in pieces; by default
            never on a processor, and what a batch may have on a GPU.
        compiled: fuse norms, feed-forward layers and the head's tiles with `torch.compile`; the
            first document waits for the compiler.
        sample: tokens of real text for `check`; fixed random ones without it.
        check: call `check` at once.
        top_k: how many first choices of each token to give, at most the vocabulary.

    Raises:
        TokenmartError: see `check`; or the model's forward does something after its head.
        NonFiniteLogits: see `check`.
    """

    def __init__(
        self,
        model: Any,
        *,
        batch_tokens: int | None = None,
        branch_tokens: int = BRANCH_TOKENS,
        trunk_tokens: int | None = None,
        compiled: bool = False,
        sample: Ids | None = None,
        check: bool = True,
        top_k: int = 0,
    ) -> None:
        self.model: Any = model
        self.backbone: Any = self.model.get_decoder()
        self.weights = str(getattr(model, "loading_record", ""))
        exact_float32()
        self.device: torch.device = execution_device(self.model.get_input_embeddings())
        self.dtype: torch.dtype = self.model.dtype
        self.config: Any = self.model.config.get_text_config()
        self.parameters = sum(parameter.numel() for parameter in self.model.parameters())
        attention.repeat_heads_where_needed(self.config, self.device, self.dtype)
        kernel = attention.describe(self.config, self.device, self.dtype)
        self.attention = f"{kernel}, compiled" if compiled else kernel
        transform = LogitTransform.of(self.config)
        head = self.model.get_output_embeddings()
        text = self._ids(self_check.check_text(sample, head.out_features))
        with attention.fused_kernels(self.device):
            self._reference = self_check.own_forward(self.model, text, transform)
        self.head = VocabularyHead(head, transform, compiled=compiled, top_k=top_k)
        self.budgets = self._budgets(batch_tokens, branch_tokens, trunk_tokens)
        if compiled:
            self._compile_layers()
        elif onednn_available(self.device, self.dtype):
            pack_linear_layers(self.backbone)
        rope = getattr(self.config, "rope_parameters", None) or {}
        # one set for all layers, or one for each kind of layer
        sets = [rope, *(each for each in rope.values() if isinstance(each, dict))]
        # such frequencies differ between a trunk and its prefixes, and between the members of a
        # padded batch
        self.length_dependent = any(
            each.get("rope_type") in ("dynamic", "longrope") for each in sets
        )
        self.prefixes = (
            "separate: frequencies follow the length" if self.length_dependent else "shared"
        )
        if check:
            self.check()

    def _budgets(self, batch: int | None, branch: int, trunk: int | None) -> Budgets:
        """What was asked for, else what suits the device."""
        if self.device.type != "cuda":
            return Budgets(batch or CPU_BATCH_TOKENS, branch, self.head.rows, trunk)
        # what an earlier model left to the allocator is free, too
        gc.collect()
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info(self.device)
        shape = ModelShape.of_config(self.config.to_dict())
        fitting, rows = gpu_budgets(free, shape, self.dtype.itemsize)
        return Budgets(batch or fitting, branch, rows, trunk or fitting)

    @property
    def share_trunks(self) -> bool:
        """Whether branches of one trunk share its KV cache."""
        return self.prefixes == "shared"

    def _compile_layers(self) -> None:
        """Compile what all layers share; attention has kernels of its own, and a cache inside."""
        for layer in self.backbone.layers:
            for child in layer.children():
                if not hasattr(child, "layer_idx"):
                    child.compile(dynamic=True)

    def score(self, requests: Sequence[Request]) -> list[Scored]:
        """Score requests; results come back in their order. Equal requests are scored once.

        When memory runs out, the budgets are halved until this call is done.

        Raises:
            NonFiniteLogits: the model produced NaN or infinite logits.
            TokenmartError: out of memory at the smallest budgets.
        """
        distinct: dict[Any, Request] = {}
        for request in requests:
            distinct.setdefault(request.key, request)
        self._refuse_unknown_ids(distinct.values())
        budgets = self.budgets
        try:
            while (scores := self._attempt(list(distinct.values()))) is None:
                gc.collect()
                if self.device.type == "cuda":
                    torch.cuda.empty_cache()
        finally:
            self.budgets = budgets
        by_key = dict(zip(distinct, scores, strict=True))
        # the first of equal requests is charged with the tokens
        found = []
        for request in requests:
            each = by_key[request.key]
            found.append(each)
            by_key[request.key] = Scored(each.scores, 0)
        return found

    def _refuse_unknown_ids(self, requests: Iterable[Request]) -> None:
        """Stop before the device does: on a GPU an id without embeddings ends the process.

        Raises:
            TokenmartError: a text has a token for which the model has no embeddings.
        """
        rows = int(self.model.get_input_embeddings().weight.shape[0])
        for request in requests:
            largest = max(int(ids.max(initial=0)) for ids in (request.ids, request.trunk))
            if largest >= rows:
                raise TokenmartError(
                    f"a text has token {largest}, and the model has embeddings for {rows} tokens; "
                    "remove this special token from the text, or take the tokenizer that was "
                    "trained with these weights"
                )

    def _attempt(self, requests: Sequence[Request]) -> list[Scored] | None:
        """Score within the budgets; None when memory ran out, and then they are halved.

        What holds tensors is gone when this returns: the traceback of an exception keeps every
        frame alive, and with it what did not fit.
        """
        try:
            with torch.inference_mode(), attention.fused_kernels(self.device):
                found = self._score(requests)
                scores = to_host([block for block, _ in found])
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            shortage = str(error)[:80]
        else:
            if not all(np.isfinite(each.logprob).all() for each in scores):
                raise NonFiniteLogits("the model produced NaN or infinite logits")
            return [Scored(s, spent) for s, (_, spent) in zip(scores, found, strict=True)]
        smaller = self.budgets.halved(max(max(r.length, len(r.trunk)) for r in requests))
        if smaller is None:
            raise TokenmartError(
                f"out of memory even at the smallest batch ({shortage}); use --dtype bfloat16, "
                "a larger device, or fewer --max-tokens"
            )
        self.budgets = smaller
        return None

    def _score(self, requests: Sequence[Request]) -> list[_OnDevice]:
        results: dict[int, _OnDevice] = {}
        trunks: dict[bytes, list[int]] = {}
        alone: list[int] = []
        for index, request in enumerate(requests):
            if request.prefix_length and self.share_trunks:
                trunks.setdefault(request.trunk.tobytes(), []).append(index)
            else:
                alone.append(index)
        budget = min(self.budgets.batch_tokens, FOREST_TOKENS)
        for pack in short_trees(requests, list(trunks.values()), budget):
            results.update(self._score_forest(requests, pack))
        for branches in trunks.values():
            if branches[0] in results:
                continue
            trunk = requests[branches[0]].trunk
            same = [i for i in alone if np.array_equal(requests[i].ids, trunk)]
            alone = [i for i in alone if i not in same]
            results.update(self._score_tree(trunk, requests, same, branches))
        results.update(self._score_batches(requests, alone))
        return [results[index] for index in range(len(requests))]

    def _ids(self, ids: NDArray[Any]) -> Tensor:
        """Integers on the device. Pinned memory is copied without waiting for a GPU's queue."""
        tensor = torch.from_numpy(np.ascontiguousarray(ids)).long()
        if self.device.type == "cuda":
            tensor = tensor.pin_memory()
        return tensor.to(self.device, non_blocking=True)

    def _head(self, hidden: Tensor, request: Request) -> Tensor:
        targets = self._ids(request.targets).to(self.head.device)
        return self.head.score(hidden, targets, self.budgets.rows)

    def _heads(
        self, states: Sequence[Tensor], requests: Sequence[Request], spent: Mapping[int, int]
    ) -> list[_OnDevice]:
        """Statistics of several requests, the keys of `spent`: the head's weights are read once."""
        targets = self._ids(np.concatenate([requests[i].targets for i in spent]))
        targets = targets.to(self.head.device)
        blocks = self.head.score(torch.cat(list(states)), targets, self.budgets.rows)
        parts = torch.split(blocks, [len(state) for state in states], dim=1)
        return list(zip(parts, spent.values(), strict=True))

    def _states(self, ids: Ids, cache: DynamicCache | None = None) -> Tensor:
        """Hidden states of one text, shape (len(ids), width); its keys and values go to `cache`."""
        budgets = self.budgets
        if (
            self.length_dependent
            or budgets.trunk_tokens is None
            or len(ids) <= budgets.trunk_tokens
        ):
            output = self.backbone(
                input_ids=self._ids(ids[None]), past_key_values=cache, use_cache=cache is not None
            )
            return output.last_hidden_state[0]  # type: ignore[no-any-return]
        kept = DynamicCache() if cache is None else cache
        pieces = [
            self.backbone(
                input_ids=self._ids(ids[None, at : at + budgets.piece_tokens]),
                past_key_values=kept,
                use_cache=True,
            ).last_hidden_state[0]
            for at in range(0, len(ids), budgets.piece_tokens)
        ]
        return torch.cat(pieces)

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
            size = max(1, self.budgets.batch_tokens // longest)
            if self.length_dependent:
                size = min(size, sum(len(whole[i]) == longest for i in order))
                reset_frequencies(self.backbone, self.device, self.dtype)
            batch, order = order[:size], order[size:]
            if len(batch) == 1:
                request = requests[batch[0]]
                state = self._states(whole[batch[0]])[-len(request.targets) - 1 : -1]
                results[batch[0]] = self._head(state, request), longest
                continue
            ids = np.zeros((len(batch), longest), dtype=np.int32)
            for row, i in enumerate(batch):
                ids[row, : len(whole[i])] = whole[i]
            hidden = self.backbone(input_ids=self._ids(ids), use_cache=False).last_hidden_state
            spent = {i: len(whole[i]) for i in batch}
            states = [
                hidden[row, len(whole[i]) - len(requests[i].targets) - 1 : len(whole[i]) - 1]
                for row, i in enumerate(batch)
            ]
            results.update(zip(batch, self._heads(states, requests, spent), strict=True))
        return results

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
        hidden = self._states(trunk, cache)
        spent = len(trunk)
        for i in same:
            first = requests[i].first_target
            results[i] = (self._head(hidden[first - 1 : len(trunk) - 1], requests[i]), spent)
            spent = 0
        # a branch whose first token is scored needs the trunk's last visible state
        ends = {i: hidden[requests[i].prefix_length - 1].clone() for i in branches}
        del hidden
        pack: list[int] = []
        size = 0
        packs: list[list[int]] = []
        for i in branches:
            if pack and size + len(requests[i].ids) > self.budgets.branch_tokens:
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
        lengths = np.array([len(branch.ids) for branch in branches])
        numbers = np.repeat(np.arange(len(branches)), lengths)
        tree = tree_of(
            branch=self._ids(numbers),
            place=self._ids(np.concatenate([np.arange(n) for n in lengths])),
            prefix=self._ids(np.repeat([branch.prefix_length for branch in branches], lengths)),
            trunk_length=trunk_length,
        )
        ids = np.concatenate([branch.ids for branch in branches])
        return list(torch.split(self._packed_states(ids, tree, cache), lengths.tolist()))

    def _packed_states(self, ids: Ids, tree: Tree, cache: DynamicCache | None = None) -> Tensor:
        """Hidden states of packed tokens, shape (len(ids), width)."""
        with attention.with_masks(self.config):
            output = self.backbone(
                input_ids=self._ids(ids[None]),
                attention_mask=attention_mask(tree, self.config, self.dtype),
                position_ids=tree.positions[None],
                past_key_values=cache,
                use_cache=cache is not None,
            )
        return output.last_hidden_state[0]  # type: ignore[no-any-return]

    def _score_forest(
        self, requests: Sequence[Request], pack: Sequence[list[int]]
    ) -> dict[int, _OnDevice]:
        """One packed forward over several trees; the head runs over all their targets at once."""
        pieces = pieces_of(requests, pack)
        layout = forest_of(*(self._ids(column) for column in columns_of(pieces)))
        hidden = self._packed_states(np.concatenate([piece.ids for piece in pieces]), layout)
        spent: dict[int, int] = {}
        scored: list[Tensor] = []
        states = torch.split(hidden, [len(piece.ids) for piece in pieces])
        for piece, state in zip(pieces, states, strict=True):
            if piece.request < 0:
                trunk, tokens = state, len(state)
                continue
            before = torch.cat([trunk[piece.prefix - 1][None], state[:-1]])
            scored.append(before[requests[piece.request].first_target :])
            spent[piece.request], tokens = tokens + len(state), 0
        return dict(zip(spent, self._heads(scored, requests, spent), strict=True))

    def generate(
        self, contexts: Sequence[Ids], writing: generation.Writing
    ) -> list[NDArray[np.int32]]:
        """What the model writes behind each context; see `generation.generate`."""
        with attention.fused_kernels(self.device), attention.with_masks(self.config):
            return generation.generate(self.model, contexts, writing, self.budgets.batch_tokens)

    def check(self) -> None:
        """Compare the plain path and the tree path with the model's own forward.

        An architecture that takes no tree mask reads every prefix anew, and `prefixes` says so.

        Raises:
            TokenmartError: they differ beyond rounding, or the tree path fails on an architecture
                where it must work.
            NonFiniteLogits: the model produces NaN or infinite logits.
        """
        self.prefixes = self_check.check_paths(self, self._reference)
