"""Load the weights of a checkpoint, or refuse it: every tensor of the model is in its files.

`from_pretrained` initialises missing tensors at random, drops unknown ones, and only warns.
Everything that loads weights (extraction, benchmarks, recall, training of experts, merges,
conversions) calls `load_weights`, which refuses both.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warehouse.errors import TokenmartError
from warehouse.sources.weights import SAFETENSORS, weight_files
from warehouse.terminal import listed

COMPLETE = "complete"
WRAPPERS = ("_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")
"""Parts that torch's wrappers (compile, FSDP, activation checkpointing) add to names of tensors,
at any depth."""

PARALLEL = "module."
"""Prefix that data parallelism adds to all names."""

ADAPTER = "adapter_config.json"


@dataclass(frozen=True)
class LoadedWeights:
    """A model in memory, and how its loading went.

    Attributes:
        model: of transformers, in eval mode, every tensor from the files.
        record: for the ledger: `complete`, or `complete; removed "module." from 290 names`.
    """

    model: Any
    record: str


def load_weights(folder: Path, who: str, **options: Any) -> LoadedWeights:
    """Load a causal language model whose files contain each of its tensors, in its shape.

    A head that is tied to the embeddings need not be in the files. Names that wrappers of torch
    changed are read under their original names, which is recorded.

    Args:
        folder: of the checkpoint: config.json and safetensors, or a GGUF file (`gguf_file`).
        who: the model's name in messages.
        options: of `from_pretrained`; `device_map="meta"` checks the files and loads nothing.

    Raises:
        TokenmartError: tensors are missing, unknown to the model, or of another shape (the message
            names the first of them), or the folder has an adapter, too.
    """
    from transformers import AutoModelForCausalLM

    if (folder / ADAPTER).is_file():
        raise TokenmartError(
            f"{who}: {folder} contains an adapter ({ADAPTER}) next to the weights, which "
            "transformers applies to them where peft is installed; merge it and give the merged "
            "checkpoint, or give a copy of the folder without its adapter_* files as "
            "`source: {kind: local}`",
            code="adapter-and-weights",
            where=folder / ADAPTER,
        )
    mapping, record = _without_wrappers([] if "gguf_file" in options else _names(folder), who)
    model, info = AutoModelForCausalLM.from_pretrained(
        folder,
        output_loading_info=True,
        # tensors of other shapes come back with their names, and are refused below
        ignore_mismatched_sizes=True,
        **({"key_mapping": mapping} if mapping else {}),
        **options,
    )
    refuse_incomplete(who, info["missing_keys"], info["unexpected_keys"])
    mismatched = info["mismatched_keys"]
    shapes = {name: f"{[*stored]}, not {[*wanted]}" for name, stored, wanted in mismatched}
    if shapes:
        name = min(shapes)
        raise TokenmartError(
            f"{who}: {len(shapes)} tensors of its files don't have the shapes that its config.json "
            f"gives, the first is {name} {shapes[name]}; correct `source` or `revision`",
            code="other-shapes",
            where=name,
        )
    if info["error_msgs"]:
        raise TokenmartError(
            f"{who}: its weights can't be loaded ({listed(info['error_msgs'])})",
            code="unreadable-weights",
            where=folder,
        )
    return LoadedWeights(model.eval(), record)


def refuse_incomplete(who: str, missing: Collection[str], unexpected: Collection[str]) -> None:
    """Stop unless files and model have the same tensors.

    Raises:
        TokenmartError: tensors are missing from the files, or unknown to the model; with the first
            names, and the first as its place.
    """
    parts = []
    if missing:
        parts.append(f"lack {len(missing)} of its tensors ({listed(sorted(missing))})")
    if unexpected:
        parts.append(
            f"have {len(unexpected)} that it has no place for ({listed(sorted(unexpected))})"
        )
    if parts:
        raise TokenmartError(
            f"{who}: its files {' and '.join(parts)}; give the whole checkpoint (an adapter merged "
            "into its base), or correct its config.json (tie_word_embeddings, if its head is its "
            "embeddings)",
            code="incomplete-weights",
            where=min([*missing] or [*unexpected]),
        )


def _names(folder: Path) -> list[str]:
    """Names of all tensors in a folder's safetensors files; their data is not read."""
    from safetensors import safe_open

    names = []
    for file in weight_files(folder, SAFETENSORS):
        with safe_open(file, "pt") as opened:
            names += list(opened.keys())
    return names


def _without_wrappers(names: Sequence[str], who: str) -> tuple[dict[str, str], str]:
    """Replacements in names (patterns for `key_mapping`), and their record.

    Raises:
        TokenmartError: two tensors have the same name without it.
    """
    outer = [wrapper for wrapper in WRAPPERS if any(wrapper in name for name in names)]
    wrappers = re.compile("|".join(map(re.escape, WRAPPERS)))
    inner = [wrappers.sub("", name) for name in names]
    parallel = bool(inner) and all(name.startswith(PARALLEL) for name in inner)
    if not outer and not parallel:
        return {}, COMPLETE
    mapping = dict.fromkeys(map(re.escape, outer), "")
    if parallel:
        mapping[r"^module\."] = ""
        inner = [name.removeprefix(PARALLEL) for name in inner]
    double = sorted(name for name in set(inner) if inner.count(name) > 1)
    if double:
        raise TokenmartError(
            f"{who}: its files have {len(double)} tensors twice, plain and wrapped "
            f"({listed(double)}); keep one of them",
            code="tensors-twice",
            where=double[0],
        )
    changed = sum(before != after for before, after in zip(names, inner, strict=True))
    removed = ", ".join(f'"{part}"' for part in [*outer, *([PARALLEL] if parallel else [])])
    return mapping, f"{COMPLETE}; removed {removed} from {changed} names"
