"""Score with every causal language model of transformers, and compare: `architectures.csv`.

For each architecture that `AutoModelForCausalLM` lists, a model with a tiny configuration and
random weights is scored by the engine, on the paths that scoring takes: whole texts, padded
batches, texts in pieces behind a KV cache, suffixes behind a shared prefix, and prompts packed with
their choices. The reference is the model's own forward in float64, one text at a time. Windows and
chunks are 256 tokens: longer than what the engine's own check packs (240), shorter than the texts
(up to 364), so that a fault which the check can't see is seen here.

    python benchmarks/architecture_screen.py [NAME …] [--out benchmarks/architectures.csv]

Columns: architecture; attention (the implementation asked for); model_type (of its text part);
masks (`taken` if suffixes that
share a prefix under our mask are right, `not taken` if the check sees that they aren't, `wrong` if
it doesn't); prefixes (how the engine runs suffixes); difference (largest |engine − float64|, nats);
rounding (what the plain float32 forward is off by at most; 0 where the architecture can't run in
float64); missing_token (what one missing token of a suffix's prefix would change); verdict
(`works`, `WRONG`, `refused`, `not made`) and reason.
"""

from __future__ import annotations

import argparse
import copy
import csv
import dataclasses
import gc
import math
import re
import signal
import sys
import unittest.mock
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from extract.scoring import architectures, layers
from extract.scoring.budgets import Budgets
from extract.scoring.engine import Engine
from warehouse.errors import TokenmartError, first_line
from warehouse.probes.request import Request, span

OUT = Path(__file__).parent / "architectures.csv"
WINDOW, VOCABULARY = 256, 160
ATTENTION = ("sdpa", "eager")
LARGEST, SECONDS = 30_000_000, 90
SMALLEST = 1e-6
"""Nats that a log-prob in float32 may be off in any case; some architectures have no float64."""
FACTOR = 8.0
"""Accepted multiple of the plain float32 forward's own error."""


def _rope(kind: str) -> dict[str, Any]:
    return {"rope_type": kind, "rope_theta": 10000.0, "factor": 4.0}


SHORT = {"max_position_embeddings": 128}

SIZES: dict[str, Any] = {
    r"(num_hidden_layers|n_layers?|num_layers|num_blocks|(encoder|decoder)_layers)": 2,
    r"(hidden_size|d_model|n_embd|dim|embedding_size|emb_dim|word_embed_proj_dim|lru_width)": 64,
    r"(\w*num_attention_heads|n_heads?|num_heads|(encoder|decoder)_attention_heads)": 4,
    r"(\w*num_key_value_heads|num_kv_heads|n_head_kv|kv_n_heads|attn_num_kv_heads)": 2,
    r"(head_dim|v_head_dim|attention_head_dim|kv_channels|swa_head_dim|global_head_dim)": 16,
    r"(swa_v_head_dim)": 16,
    r"(qk_nope_head_dim|qk_rope_head_dim)": 8,
    r"(index_head_dim|linear_\w+_head_dim|lightning_head_dim)": 16,
    r"(index_n_heads|linear_num_key_heads)": 2,
    r"(linear_num_value_heads)": 4,
    r"(qk_head_dim)": 16,
    r"(\w*intermediate_size|ffn_dim|(encoder|decoder)_ffn_dim|n_inner|ffn_hidden_size|dff)": 64,
    r"(vocab_size|vocab_size_per_layer_input)": VOCABULARY,
    r"(max_position_embeddings|n_positions|n_ctx|max_seq_len|context_length|n_embed_ctx)": 1024,
    r"(max_sequence_length|max_target_positions)": 1024,
    r"(num_experts|num_local_experts|n_routed_experts|moe_num_experts|num_routed_experts)": 4,
    r"(num_experts_per_tok|moe_k|moe_topk|top_k_experts|num_experts_per_token)": 2,
    r"(n_group|topk_group|moe_num_shared_experts|n_shared_experts|num_shared_experts)": 1,
    r"((?!use_)\w*sliding_window|window_size|attention_window_size|local_attention)": WINDOW,
    r"(index_topk)": WINDOW,
    r"(attention_chunk_size|\w*window_length|attention_window)": WINDOW,
    r"(q_lora_rank|kv_lora_rank|o_lora_rank|\w*lora_rank|adapter_rank)": 16,
    r"(mamba_d_state|state_size|mamba_state_dim|ssm_state_size)": 8,
    r"(mamba_d_head|mamba_headdim|mamba_head_dim)": 16,
    r"(mamba_n_heads|n_mamba_heads|mamba_num_heads)": 8,
    r"(mamba_n_groups|mamba_ngroups|n_groups)": 1,
    r"(mamba_expand)": 2,
    r"(hidden_size_per_layer_input)": 16,
}
"""Names of settings → sizes of a tiny model."""

HYBRID = ["linear_attention", "full_attention"]
SLIDING = ["sliding_attention", "full_attention"]

SPECIAL: dict[str, dict[str, Any]] = {
    "bamba": {"attn_layer_indices": [1], "mamba_d_head": 16},
    "codegen": {"rotary_dim": 8},
    "dots3_note": {"layer_types": SLIDING},
    "dots3_note_text": {"layer_types": SLIDING},
    "falcon_h1": {"mamba_d_ssm": 128},
    "gemma3n_text": {"num_kv_shared_layers": 0, "layer_types": SLIDING, "laurel_rank": 8},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "gptj": {"rotary_dim": 8},
    "granitemoehybrid": {"layer_types": HYBRID, "mamba_d_head": 16},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "use_mamba_kernels": False},
    "lfm2": {"layer_types": ["conv", "full_attention"]},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "longcat_flash": {"zero_expert_num": 2, "expert_ffn_hidden_size": 64, "num_layers": 1},
    "mamba2": {"num_heads": 8, "head_dim": 16, "n_groups": 1},
    "nemotron_h": {"layers_block_type": ["mamba", "attention"]},
    "qwen2": {"use_sliding_window": True, "max_window_layers": 1},
    "qwen3": {"use_sliding_window": True, "max_window_layers": 1},
    "xlnet": {"d_head": 16, "d_inner": 64},
}
"""What an architecture needs besides: settings that must fit each other, and layers of each kind
where the default has only one."""

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "falcon, alibi": ("falcon", {"alibi": True}),
    "falcon, new decoder": ("falcon", {"new_decoder_architecture": True}),
    "llama, linear rope": ("llama", {"rope_parameters": _rope("linear")}),
    "llama, dynamic rope": ("llama", {"rope_parameters": _rope("dynamic"), **SHORT}),
    "llama, yarn": ("llama", {"rope_parameters": _rope("yarn"), **SHORT}),
    "llama, a window that it ignores": ("llama", {"sliding_window": WINDOW}),
    "mistral, no window": ("mistral", {"sliding_window": None}),
    "qwen2, no window": ("qwen2", {"use_sliding_window": False}),
    "qwen2, windows in all layers": ("qwen2", {"use_sliding_window": True, "max_window_layers": 0}),
    "gpt2, scaled by layer": ("gpt2", {"scale_attn_by_inverse_layer_idx": True}),
    "gpt_neox, sequential": ("gpt_neox", {"use_parallel_residual": False}),
    "gpt_bigcode, many heads": ("gpt_bigcode", {"multi_query": False}),
    "opt, norm after": ("opt", {"do_layer_norm_before": False}),
    "phi, norm of queries": ("phi", {"qk_layernorm": True}),
    "stablelm, parallel": ("stablelm", {"use_parallel_residual": True, "qk_layernorm": True}),
    "bloom, residual after norm": ("bloom", {"apply_residual_connection_post_layernorm": True}),
    "gpt_neo, local only": ("gpt_neo", {"attention_types": [[["local"], 2]]}),
    "bert, decoder": ("bert", {"is_decoder": True}),
    "roberta, decoder": ("roberta", {"is_decoder": True}),
}
"""Further configurations of an architecture, which change positions, masks or residuals."""


def configured(name: str) -> Any:
    """The tiny configuration of an architecture or a variant."""
    kind, changes = VARIANTS.get(name, (name, {}))
    config_class = CONFIG_MAPPING[kind]
    names = {config.name for config in dataclasses.fields(config_class)}
    settings = _sizes(names)
    nested = {}
    for part, config in getattr(config_class, "sub_configs", {}).items():
        if part in ("text_config", "decoder", "text_model") and dataclasses.is_dataclass(config):
            nested[part] = _sizes({field.name for field in dataclasses.fields(config)})
    if any(name.startswith("qk_nope") for name in names):
        # keys and values of all heads come from one latent state
        settings["num_key_value_heads"] = 4
    return config_class(**{**settings, **nested, **SPECIAL.get(kind, {}), **changes})


def _sizes(names: set[str]) -> dict[str, Any]:
    settings: dict[str, Any] = {
        token: value
        for token, value in (("pad_token_id", 0), ("bos_token_id", 1), ("eos_token_id", 2))
        if token in names
    }
    for pattern, size in SIZES.items():
        for name in names:
            if re.fullmatch(pattern, name):
                settings[name] = size
    return settings


def made(name: str, attention: str) -> Any:
    """A model with random weights, sharp enough that each token of its context matters."""
    config = configured(name)
    kind = VARIANTS.get(name, (name,))[0]
    torch.manual_seed(0)
    model_class = getattr(transformers, MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[kind])
    with torch.device("meta"):
        parameters = model_class._from_config(config).num_parameters()
    if parameters > LARGEST:
        raise ValueError(f"{parameters:,} parameters even with the settings made small")
    model = model_class._from_config(config, attn_implementation=attention).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(6.0)
    return model.float()


def texts() -> dict[str, list[Request]]:
    """Requests by path."""
    ids = np.random.default_rng(1).integers(4, VOCABULARY - 4, 2000).astype(np.int32)
    document = ids[:340]

    def request(
        ids: NDArray[np.int32], first: int, prefix: NDArray[np.int32] | None = None, seen: int = 0
    ) -> Request:
        places = span(0, len(ids) - first)
        extra = {} if prefix is None else {"prefix": prefix, "prefix_length": seen}
        return Request(0, ids, first, places, places, **extra)

    suffixes = [
        request(ids[start : start + 24], 0, document, seen)
        for start, seen in ((600, 340), (630, 300), (690, 60))
    ]
    prompts = [
        request(ids[at : at + size], 0, ids[begin : begin + length], length)
        for begin, length in ((600, 310), (950, 60))
        for at, size in ((1400, 5), (1410, 30))
    ]
    letters = [request(ids[at : at + 1], 0, ids[1500:1780], 280) for at in range(1800, 1802)]
    batch = [request(ids[at : at + size], 1) for at, size in ((50, 290), (700, 33))]
    return {
        "whole": [request(document, 1)],
        "suffixes": suffixes,
        "batch": batch,
        "prompts": prompts,
        "letters": letters,
    }


def plain(model: Any, request: Request) -> NDArray[np.float64]:
    """Log-probs of the targets by the model's own forward, shape (targets,)."""
    ids = np.concatenate([request.prefix[: request.prefix_length], request.ids])
    with torch.inference_mode():
        if architectures.depends_on_length(model.config.get_text_config()):
            # dynamic RoPE remembers the longest text before this one
            layers.reset_frequencies(architectures.backbone(model), model.device, model.dtype)
        logits = model(torch.from_numpy(ids[None]).long(), use_cache=False).logits[0]
    logprobs = logits[:-1].double().log_softmax(-1)
    count = len(request.targets)
    targets = torch.from_numpy(request.targets).long()[:, None]
    of_targets: NDArray[np.float64] = logprobs[-count:].gather(1, targets)[:, 0].numpy()
    return of_targets


@dataclasses.dataclass
class Verdict:
    """One line of the table; see the module."""

    architecture: str
    attention: str
    model_type: str = ""
    masks: str = ""
    prefixes: str = ""
    difference: float = math.nan
    rounding: float = math.nan
    missing_token: float = math.nan
    verdict: str = ""
    reason: str = ""


Own = dict[str, list[NDArray[np.float64]]]


def screened(name: str) -> Iterator[Verdict]:
    """Make the models, score, compare; one verdict for each attention implementation."""
    with_sdpa: Own = {}
    for attention in ATTENTION:
        verdict = Verdict(name, attention)
        signal.alarm(SECONDS)
        try:
            model = made(name, attention)
            requests = texts()
            verdict.model_type = _kind(model)
            computed = _own(model, {path: group[:1] for path, group in requests.items()})
        except Exception as error:  # whatever an architecture's own code raises
            verdict.verdict, verdict.reason = "not made", f"{type(error).__name__}: {_line(error)}"
            yield verdict
            continue
        exact_model = copy.deepcopy(model).double()
        firsts = {path: group[:1] for path, group in requests.items()}
        try:
            if hasattr(exact_model, "set_experts_implementation"):
                exact_model.set_experts_implementation("eager")
            first = _own(exact_model, firsts)
        except Exception:  # an architecture that can't run in float64
            exact_model, first = model, computed
        exact = with_sdpa or _own(exact_model, requests)
        verdict.rounding = _largest(computed, first)
        (request, expected) = requests["suffixes"][0], exact["suffixes"][0]
        verdict.missing_token = float(
            np.abs(plain(exact_model, _blinder(request)) - expected).max()
        )
        accepted = FACTOR * max(verdict.rounding, SMALLEST)
        _compare(verdict, model, requests, exact, accepted)
        apart = _largest(first, exact)
        if verdict.verdict == "works" and not apart <= accepted:
            verdict.verdict, verdict.reason = "WRONG", f"{apart:.2g} nats from sdpa"
        if verdict.verdict == "works":
            with_sdpa = with_sdpa or exact
        yield verdict


def _compare(
    verdict: Verdict, model: Any, requests: dict[str, list[Request]], exact: Own, accepted: float
) -> None:
    """Fill in what the engine gives: with a shared prefix wherever its check passes, then as it
    decides by itself.
    """
    try:
        with unittest.mock.patch.object(architectures, "TAKES_MASKS", {_kind(model)}):
            prefixes, difference, path = _scored(model, requests, exact, accepted)
        if prefixes == "shared":
            verdict.masks = "wrong" if path else "taken"
        else:
            verdict.masks = "not taken"
        if path or _kind(model) not in architectures.TAKES_MASKS:
            prefixes, difference, path = _scored(model, requests, exact, accepted)
        verdict.prefixes, verdict.difference = prefixes, difference
        verdict.verdict, verdict.reason = ("WRONG", path) if path else ("works", "")
    except TokenmartError as error:
        verdict.verdict, verdict.reason = "refused", _line(error)
    except Exception as error:
        verdict.verdict, verdict.reason = "ERROR", f"{type(error).__name__}: {_line(error)}"


def _scored(
    model: Any, requests: dict[str, list[Request]], exact: Own, accepted: float
) -> tuple[str, float, str]:
    """How prefixes were run, the largest difference, and the first path that is off."""
    largest, wrong = 0.0, ""
    for pieces, paths in ((None, tuple(requests)), (300, ("whole", "suffixes"))):
        engine = Engine(copy.deepcopy(model), budgets=Budgets(1200, 1024, 64, pieces, pieces))
        scores = iter(engine.score([each for path in paths for each in requests[path]]))
        for path in paths:
            off = max(float(np.abs(next(scores).scores.logprob - ids).max()) for ids in exact[path])
            largest = max(largest, off)
            if not off <= accepted and not wrong:
                wrong = path if pieces is None else f"{path}, in pieces"
    return engine.prefixes, largest, wrong


def _kind(model: Any) -> str:
    return str(model.config.get_text_config().model_type)


def _blinder(request: Request) -> Request:
    """The same without the last visible token of its prefix: what a wrong mask would give."""
    return dataclasses.replace(request, prefix_length=request.prefix_length - 1)


def _own(model: Any, requests: dict[str, list[Request]]) -> Own:
    return {path: [plain(model, each) for each in group] for path, group in requests.items()}


def _largest(computed: Own, wanted: Own) -> float:
    return max(
        float(np.abs(f - w).max())
        for path in computed
        for f, w in zip(computed[path], wanted[path], strict=False)
    )


def _line(error: BaseException) -> str:
    return first_line(error, 200)


def too_long(*_: Any) -> None:
    """Stop an architecture after its time."""
    raise TimeoutError(f"more than {SECONDS} seconds")


def main() -> None:
    """Write the table, and print its lines as they come."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    signal.signal(signal.SIGALRM, too_long)
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    names = asked.names or sorted([*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, *VARIANTS])
    verdicts = []
    for name in names:
        for row in screened(name):
            verdicts.append(row)
            print(*_cells(row).values(), sep=" | ", flush=True)
        gc.collect()
    if asked.out:
        with asked.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, [each.name for each in dataclasses.fields(Verdict)])
            writer.writeheader()
            writer.writerows(_cells(row) for row in verdicts)


def _cells(row: Verdict) -> dict[str, str]:
    return {k: f"{v:.2g}" if isinstance(v, float) else str(v) for k, v in vars(row).items()}


if __name__ == "__main__":
    sys.exit(main())
