"""Suffixes of one prefix, packed into one forward: who is packed together, and who sees what.

A group is a prefix with its suffixes. The suffixes of a long prefix run behind its KV cache; of
short groups (prompts with their choices) several run in one forward, prefixes and all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from warehouse.probes.request import Ids, Request

PACKED_TOKENS = 4096
"""Tokens of one forward at most: its mask has the square of that."""


@dataclass(frozen=True)
class Layout:
    """n packed tokens behind a cache of p tokens.

    Attributes:
        mask: shape (n, p + n), what each token sees.
        positions: shape (n,), position of each in its own text.
        keys: shape (p + n,), the same of everything that may be seen.
    """

    mask: Tensor
    positions: Tensor
    keys: Tensor


def behind_cache(suffix: Tensor, place: Tensor, visible: Tensor, prefix_tokens: int) -> Layout:
    """Arrange suffixes after the cache of their prefix: each sees its part of it and itself.

    Args:
        suffix: shape (n,), the suffix of each token.
        place: shape (n,), its place within the suffix.
        visible: shape (n,), how much of the prefix its suffix sees.
        prefix_tokens: p.
    """
    prefix = torch.arange(prefix_tokens, device=suffix.device)
    positions = visible + place
    same = suffix[:, None] == suffix[None]
    causal = place[None] <= place[:, None]
    return Layout(
        mask=torch.cat([prefix[None] < visible[:, None], same & causal], dim=1),
        positions=positions,
        keys=torch.cat([prefix, positions]),
    )


def in_one_forward(group: Tensor, suffix: Tensor, position: Tensor, visible: Tensor) -> Layout:
    """Arrange whole groups, prefixes and suffixes, in one forward pass without a cache.

    Args:
        group: shape (n,), the group of each token.
        suffix: shape (n,), its suffix; -1 in the prefix.
        position: shape (n,), position in its own text.
        visible: shape (n,), how much of the prefix its suffix sees; 0 in the prefix.
    """
    same = (suffix[:, None] == suffix[None]) & (position[None] <= position[:, None])
    before = (suffix[None] < 0) & (position[None] < visible[:, None])
    mask = (group[:, None] == group[None]) & (same | before)
    return Layout(mask=mask, positions=position, keys=position)


def attention_mask(layout: Layout, config: Any, dtype: torch.dtype) -> Any:
    """The mask in the architecture's format, with its own sliding window applied.

    Args:
        layout: of the packed tokens.
        config: of the model's text part.
        dtype: of the additive mask that eager attention takes; SDPA takes a boolean one.
    """

    def formed(visible: Tensor) -> Tensor:
        mask = visible[None, None]
        if getattr(config, "_attn_implementation", None) != "eager":
            return mask
        added = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
        return added.masked_fill_(~mask, torch.finfo(dtype).min)

    full = formed(layout.mask)
    window = getattr(config, "sliding_window", None)
    if window is None:
        return full
    near = layout.positions[:, None] - layout.keys[None] < window
    sliding = formed(layout.mask & near)
    kinds = getattr(config, "layer_types", None)
    if kinds is None:
        return sliding
    return {"full_attention": full, "sliding_attention": sliding}


@dataclass(frozen=True)
class Piece:
    """A prefix or a suffix among packed tokens.

    Attributes:
        ids: shape (n,).
        group: its group's number in the pack.
        request: whose suffix; -1 for a prefix.
        visible: how much of the prefix a suffix sees.
    """

    ids: Ids
    group: int
    request: int
    visible: int


def pack_short_groups(
    requests: Sequence[Request], groups: Sequence[list[int]], budget: int
) -> list[list[list[int]]]:
    """Packs of groups that fit into one forward together; a group alone is in none.

    Args:
        requests: all of them.
        groups: indices of the requests that share a prefix.
        budget: tokens of a pack at most.
    """

    def size(group: list[int]) -> int:
        return len(requests[group[0]].prefix) + sum(len(requests[i].ids) for i in group)

    packs: list[list[list[int]]] = [[]]
    left = budget
    for group in sorted(groups, key=size):
        if size(group) > budget:
            break
        if size(group) > left:
            packs.append([])
            left = budget
        packs[-1].append(group)
        left -= size(group)
    return [pack for pack in packs if len(pack) > 1]


@dataclass(frozen=True)
class Suffix:
    """Tokens to run behind a prefix, and the requests that they and it answer.

    Attributes:
        ids: shape (n,); without the last token of its requests, where these differ only in it.
        visible: how much of the prefix it sees.
        requests: their indices.
    """

    ids: Ids
    visible: int
    requests: tuple[int, ...]


def suffixes_of(requests: Sequence[Request], group: Sequence[int]) -> list[Suffix]:
    """The suffixes of one prefix; requests that differ only in their last token share one."""
    stems: dict[tuple[int, bytes], list[int]] = {}
    for i in group:
        stem = requests[i].prefix_length, requests[i].ids[:-1].tobytes()
        stems.setdefault(stem, []).append(i)
    found = []
    for (visible, _), members in stems.items():
        ids = requests[members[0]].ids
        shared = len(members) > 1 and len(ids) > 1
        for each in [tuple(members)] if shared else [(i,) for i in members]:
            found.append(Suffix(ids[:-1] if shared else requests[each[0]].ids, visible, each))
    return found


def pack_suffixes(suffixes: Sequence[Suffix], budget: int) -> list[list[Suffix]]:
    """The suffixes of one long prefix in packs of at most `budget` tokens, or of one suffix."""
    packs: list[list[Suffix]] = [[]]
    size = 0
    for suffix in suffixes:
        if packs[-1] and size + len(suffix.ids) > budget:
            packs.append([])
            size = 0
        packs[-1].append(suffix)
        size += len(suffix.ids)
    return packs


def pieces_of(requests: Sequence[Request], pack: Sequence[list[int]]) -> list[Piece]:
    """Prefixes, each with its suffixes behind it."""
    pieces = []
    for number, group in enumerate(pack):
        pieces.append(Piece(requests[group[0]].prefix, number, -1, 0))
        pieces += [Piece(requests[i].ids, number, i, requests[i].prefix_length) for i in group]
    return pieces


def columns_of(pieces: Sequence[Piece]) -> tuple[NDArray[np.int64], ...]:
    """Arguments of `in_one_forward`: group, suffix, position and visible prefix of each token."""
    lengths = [len(piece.ids) for piece in pieces]
    group, suffix, visible = (
        np.repeat([getattr(piece, name) for piece in pieces], lengths)
        for name in ("group", "request", "visible")
    )
    position = [np.arange(piece.visible, piece.visible + len(piece.ids)) for piece in pieces]
    return group, suffix, np.concatenate(position), visible
