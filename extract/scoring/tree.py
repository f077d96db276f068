"""The tree mask: branches packed behind a trunk see their prefix of it and themselves.

Short trees are packed with their trunks, several into one forward.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Tree:
    """n packed tokens of branches behind a trunk of p tokens.

    Attributes:
        visible: shape (n, p + n), what each token sees.
        positions: shape (n,), where each stands in its own text.
        keys: shape (p + n,), the same of everything that may be seen.
    """

    visible: Tensor
    positions: Tensor
    keys: Tensor


def tree_of(branch: Tensor, place: Tensor, prefix: Tensor, trunk_length: int) -> Tree:
    """Lay out branches.

    Args:
        branch: shape (n,), the branch of each token.
        place: shape (n,), its place within the branch.
        prefix: shape (n,), how much of the trunk its branch sees.
        trunk_length: p.
    """
    trunk = torch.arange(trunk_length, device=branch.device)
    positions = prefix + place
    same = branch[:, None] == branch[None]
    causal = place[None] <= place[:, None]
    return Tree(
        visible=torch.cat([trunk[None] < prefix[:, None], same & causal], dim=1),
        positions=positions,
        keys=torch.cat([trunk, positions]),
    )


def forest_of(tree: Tensor, branch: Tensor, position: Tensor, prefix: Tensor) -> Tree:
    """Lay out whole trees, trunk and branches, in one forward without anything before them.

    Args:
        tree: shape (n,), the tree of each token.
        branch: shape (n,), its branch; -1 in the trunk.
        position: shape (n,), where it stands in its own text.
        prefix: shape (n,), how much of the trunk its branch sees; 0 in the trunk.
    """
    same = (branch[:, None] == branch[None]) & (position[None] <= position[:, None])
    below = (branch[None] < 0) & (position[None] < prefix[:, None])
    visible = (tree[:, None] == tree[None]) & (same | below)
    return Tree(visible=visible, positions=position, keys=position)


def attention_mask(tree: Tree, config: Any, dtype: torch.dtype) -> Any:
    """The mask in the form the architecture takes, with its own sliding window respected.

    Args:
        tree: from `tree_of`.
        config: of the model's text part.
        dtype: of the additive mask that eager attention takes; SDPA takes a boolean one.
    """

    def formed(visible: Tensor) -> Tensor:
        mask = visible[None, None]
        if getattr(config, "_attn_implementation", None) != "eager":
            return mask
        added = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
        return added.masked_fill_(~mask, torch.finfo(dtype).min)

    full = formed(tree.visible)
    window = getattr(config, "sliding_window", None)
    if window is None:
        return full
    near = tree.positions[:, None] - tree.keys[None] < window
    sliding = formed(tree.visible & near)
    kinds = getattr(config, "layer_types", None)
    if kinds is None:
        return sliding
    return {"full_attention": full, "sliding_attention": sliding}
