"""Transformers with weights set by hand: what they predict is a formula.

The residual stream has a slot for the token itself and a slot `found` for the token that attention
found; the head reads a table of log-probabilities, one row for each token, from one of the two.
Layers other than attention add nothing. Normalisation only divides by the length of the stream,
which is known, so a logit is an entry of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from checkpoint_samples import write_gguf
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ALPHABET = "abcdefg12 \n.é漢"
MERGED = ("a b", "Ġ 1")
"""A word of two letters, and a blank with a digit: one token each."""

SIZE = 100.0
"""Length of a slot of the stream: the epsilon of a normalisation is 1e-8 of it and less."""

SHARPNESS = 60.0
"""Nats by which attention prefers the token that it is to find: the others weigh e⁻⁶⁰."""

WINDOW = 16
"""Of Gemma 3's sliding layer, in tokens, the token itself included."""

POSITIONS = 192


def byte_pieces() -> list[str]:
    """The letters that byte-level BPE writes for the bytes of the alphabet."""
    from tokenizers import pre_tokenizers

    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return sorted(set(level.pre_tokenize_str(ALPHABET)[0][0]))


TOKENS = ["<s>", "</s>", *byte_pieces(), *(pair.replace(" ", "") for pair in MERGED)]
V = len(TOKENS)


def write_tokenizer(folder: Path, bos: bool) -> None:
    """Byte-level BPE with two merges."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: number for number, token in enumerate(TOKENS)}
    merges = [tuple(pair.split(" ")) for pair in MERGED]
    core = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    if bos:
        core.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", 0)]
        )
    fast = PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="</s>")
    fast.save_pretrained(folder)


# Tables: log-probabilities of the next token, shape (tokens, tokens); a row sums to 1.


def uniform() -> Floats:
    """log 1/V everywhere."""
    return np.full((V, V), -np.log(V))


def unigram(order: int = 1) -> Floats:
    """The v-th token has a share of 1 / (3 + v) after any other; from the last one on with -1."""
    weights = 1 / (3 + np.arange(V)[::order])
    return np.tile(np.log(weights / weights.sum()), (V, 1))


def bigram() -> Floats:
    """After t: the next one in the vocabulary 1/2, the one after that 1/4, the others alike."""
    table = np.full((V, V), np.log(0.25 / (V - 2)))
    rows = np.arange(V)
    table[rows, (rows + 1) % V], table[rows, (rows + 2) % V] = np.log(0.5), np.log(0.25)
    return table


def repeating(p: float) -> Floats:
    """The same token again with the probability p, the others alike."""
    table = np.full((V, V), np.log((1 - p) / (V - 1)))
    np.fill_diagonal(table, np.log(p))
    return table


@dataclass(frozen=True)
class Known:
    """A model whose predictions are known.

    kind: `llama`, `gguf`, `gemma3` or `gpt2`.
    table: shape (V, V), or (2, V, V) for even and odd positions of the input (GPT-2).
    bos: whether its texts begin with BOS.
    lag: the table's row is that of the token so many positions back (0: the token itself), or of
        the nearest to that which is visible.
    induction: of the token after the last occurrence of this one; of the input's first token if
        there is none, and after that token itself, as nothing stands before it.
    """

    kind: str
    table: Floats
    bos: bool = True
    lag: int = 0
    induction: bool = False

    def rows(self, ids: Sequence[int]) -> NDArray[np.int64]:
        """The row of the table by which each token of an input predicts the next one."""
        found = list(ids)
        for at, token in enumerate(ids):
            if self.induction:
                after = [n for n in range(1, at + 1) if ids[n - 1] == token]
                found[at] = ids[after[-1]] if after and token != ids[0] else ids[0]
            elif self.lag:
                reach = WINDOW - 1 if self.kind == "gemma3" else at
                found[at] = ids[at - min(self.lag, reach, at)]
        return np.array(found)

    def logprobs(self, ids: Sequence[int]) -> Floats:
        """Log-probabilities of the next token behind each token of an input, shape (n, V)."""
        rows = self.rows(ids)
        if self.table.ndim == 3:
            return np.asarray(self.table[np.arange(len(ids)) % 2, rows])
        return np.asarray(self.table[rows])

    def write(self, folder: Path) -> Path:
        """The checkpoint: a folder, or a GGUF file."""
        folder.mkdir(parents=True)
        model = {"gpt2": gpt2, "gemma3": gemma3}.get(self.kind, llama)(self)
        if self.kind == "gguf":
            return write_llama_gguf(folder / "model.gguf", model, self.bos)
        write_tokenizer(folder, self.bos)
        model.save_pretrained(folder)
        return folder


def _zeroed(config: Any) -> Any:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(1.0 if "norm" in name and "gemma3" not in config.model_type else 0.0)
    return model


def _set(parameter: Any, values: Any, *at: slice) -> None:
    with torch.no_grad():
        parameter[at] = torch.as_tensor(np.asarray(values), dtype=parameter.dtype)


def _rotary(theta: float, width: int, lag: int) -> tuple[Floats, Floats, float]:
    """Query and key, the same for every token, and the gap of their product in `SHARPNESS`.

    Rotated, a pair of frequency f gives cos(f (distance - lag)). Of slow pairs alone the sum falls
    from `lag` on towards both sides: where less is visible, the nearest to `lag` is found.
    """
    frequencies = theta ** (-np.arange(width // 2) / (width // 2))
    used = frequencies <= np.pi / (lag + 1)
    query = np.concatenate([np.cos(lag * frequencies), -np.sin(lag * frequencies)])
    key = np.concatenate([used, np.zeros(width // 2)])
    product = np.cos(np.outer(np.arange(POSITIONS) - lag, frequencies[used])).sum(1)
    gaps = [*np.diff(product[: lag + 1]), *(product[lag] - product[lag + 1 :])]
    return query * np.tile(used, 2), key, min(gaps) / SHARPNESS


def llama(known: Known) -> Any:
    """One layer, one head as wide as the stream; slots: the token, what was found."""
    from transformers import LlamaConfig

    width = 128
    assert width >= 2 * V
    model = _zeroed(LlamaConfig(
        hidden_size=width, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1,
        num_key_value_heads=1, vocab_size=V, max_position_embeddings=POSITIONS, bos_token_id=0,
        eos_token_id=1, tie_word_embeddings=False, rms_norm_eps=1e-5,
    ))  # fmt: skip
    token, found = slice(0, V), slice(V, 2 * V)
    _set(model.model.embed_tokens.weight, SIZE * np.eye(V), slice(None), token)
    normed = np.sqrt(width)
    if known.lag:
        attention = model.model.layers[0].self_attn
        query, key, gap = _rotary(10_000.0, width, known.lag)
        query *= np.sqrt(width) / normed**2 / gap
        _set(attention.q_proj.weight, np.outer(query, np.ones(V)), slice(None), token)
        _set(attention.k_proj.weight, np.outer(key, np.ones(V)), slice(None), token)
        _set(attention.v_proj.weight, np.eye(V) / normed, slice(0, V), token)
        _set(attention.o_proj.weight, SIZE * np.eye(V), found, slice(0, V))
    read = np.sqrt(2 / width) if known.lag else np.sqrt(1 / width)
    _set(model.lm_head.weight, known.table.T * read, slice(None), found if known.lag else token)
    return model


def gemma3(known: Known) -> Any:
    """One sliding layer with query and key norms; logits are capped at 30."""
    from transformers import Gemma3TextConfig

    width, head, cap, theta = 128, 64, 30.0, 10_000.0
    model = _zeroed(Gemma3TextConfig(
        hidden_size=width, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1,
        num_key_value_heads=1, head_dim=head, vocab_size=V, max_position_embeddings=POSITIONS,
        sliding_window=WINDOW, layer_types=["sliding_attention"], final_logit_softcapping=cap,
        query_pre_attn_scalar=1, bos_token_id=0, eos_token_id=1, pad_token_id=1,
        tie_word_embeddings=False, rope_local_base_freq=theta,
    ))  # fmt: skip
    token, found = slice(0, V), slice(64, 64 + V)
    layer = model.model.layers[0]
    # embeddings are multiplied by the root of the width; so is what was found, by its norm
    _set(model.model.embed_tokens.weight, np.eye(V), slice(None), token)
    query, key, gap = _rotary(theta, head, known.lag)
    attention = layer.self_attn
    _set(attention.q_proj.weight, np.outer(query, np.ones(V)), slice(None), token)
    _set(attention.k_proj.weight, np.outer(key, np.ones(V)), slice(None), token)
    # normed, the pairs that are used share the length √head
    _set(attention.q_norm.weight, np.full(head, key.sum() / head / gap - 1))
    _set(attention.v_proj.weight, np.eye(V), slice(0, V), token)
    _set(attention.o_proj.weight, np.eye(V), found, slice(0, V))
    # the head's input has √(width / 2) in both slots; the cap is undone
    uncapped = cap * np.arctanh(known.table / cap)
    _set(model.lm_head.weight, uncapped.T * np.sqrt(2 / width), slice(None), found)
    return model


def gpt2(known: Known) -> Any:
    """Learnt positions; slots: token, found, token before, position; then the same, negated.

    So the mean of the stream is 0. With induction, the first layer finds the token before, the
    second one the place whose token before is this one.
    """
    from transformers import GPT2Config

    half = 3 * V + POSITIONS
    width = 2 * half
    model = _zeroed(GPT2Config(
        n_embd=width, n_layer=2, n_head=1, n_inner=8, vocab_size=V, n_positions=POSITIONS,
        bos_token_id=0, eos_token_id=1, tie_word_embeddings=False,
    ))  # fmt: skip
    for name, parameter in model.named_parameters():
        if ".ln_" in name and name.endswith("weight"):
            _set(parameter, np.ones(width))
    token, found, before = (slice(n * V, (n + 1) * V) for n in range(3))
    place = slice(3 * V, half)
    for rows, size, slot in (
        (model.transformer.wte.weight, V, token),
        (model.transformer.wpe.weight, POSITIONS, place),
    ):
        _set(rows, SIZE * np.eye(size), slice(None), slot)
        _set(rows, -SIZE * np.eye(size), slice(None), slice(half + slot.start, half + slot.stop))

    def attend(
        layer: int, query: Any, key: Any, into: slice, slots: int, least: float = 1.0
    ) -> None:
        """`query` and `key` are (slot, matrix), their products differ by `least` and more."""
        normed = np.sqrt(half / slots)
        attention = model.transformer.h[layer].attn
        part = len(query[1].T)
        strength = SHARPNESS / least * np.sqrt(width) / normed**2
        _set(attention.c_attn.weight, query[1] * strength, query[0], slice(0, part))
        _set(attention.c_attn.weight, key[1], key[0], slice(width, width + part))
        _set(attention.c_attn.weight, np.eye(V) / normed, token, slice(2 * width, 2 * width + V))
        _set(attention.c_proj.weight, SIZE * np.eye(V), slice(0, V), into)
        negated = slice(half + into.start, half + into.stop)
        _set(attention.c_proj.weight, -SIZE * np.eye(V), slice(0, V), negated)

    lag = 1 if known.induction else known.lag
    slots = 2
    if lag:
        back = np.zeros((POSITIONS, POSITIONS))
        back[np.arange(POSITIONS), np.maximum(np.arange(POSITIONS) - lag, 0)] = 1
        into = before if known.induction else found
        attend(0, (place, back), (place, np.eye(POSITIONS)), into, slots)
        slots = 3
    if known.induction:
        # later places a little more, so that the last one wins; the first place where none fits
        both = slice(0, half)
        query, key = np.zeros((half, V + 1)), np.zeros((half, V + 1))
        query[token, :V] = np.eye(V)
        query[token, V] = 1
        key[before, :V] = np.eye(V)
        key[place.start :, V] = np.arange(POSITIONS) / POSITIONS / 2
        key[place.start, :] = 0
        key[place.start, V] = 0.75
        attend(1, (both, query), (both, key), found, slots, 1 / POSITIONS / 2)
        slots = 4
    source = found if lag else token
    tables = known.table if known.table.ndim == 3 else known.table[None]
    normed = np.sqrt(half / slots)
    _set(model.lm_head.weight, tables[0].T / normed, slice(None), source)
    if len(tables) == 2:
        # the same row of both tables for every token: the place alone decides
        _set(model.lm_head.weight, np.zeros((V, V)), slice(None), source)
        chosen = tables[np.arange(POSITIONS) % 2, 0]
        _set(model.lm_head.weight, chosen.T / normed, slice(None), place)
    return model


def write_llama_gguf(path: Path, model: Any, bos: bool) -> Path:
    """The same Llama as GGUF, where the rows of a rotated pair lie side by side."""
    names = {
        "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
        "model.layers": "blk", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
        "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    }  # fmt: skip
    tensors: dict[str, tuple[Any, Any]] = {}
    for name, parameter in model.named_parameters():
        values = parameter.detach().numpy()
        if "q_proj" in name or "k_proj" in name:
            halves = values.reshape(1, 2, -1, values.shape[-1])
            values = np.ascontiguousarray(halves.swapaxes(1, 2).reshape(values.shape))
        for own, other in names.items():
            name = name.replace(own, other)
        tensors[name] = values, None
    return write_gguf(
        path, config=model.config, tensors=tensors, names=TOKENS, merges=MERGED, bos=bos
    )


MODELS = {
    "uniform": Known("llama", uniform()),
    "unigram": Known("llama", unigram(), bos=False),
    "bigram": Known("llama", bigram()),
    "distance": Known("llama", repeating(0.8), lag=20),
    "gguf": Known("gguf", repeating(0.8), lag=20),
    "window": Known("gemma3", repeating(0.8), lag=20),
    "near": Known("gemma3", repeating(0.8), lag=15),
    "induction": Known("gpt2", repeating(0.8), induction=True),
    "position": Known("gpt2", np.stack([unigram(), unigram(-1)])),
}
