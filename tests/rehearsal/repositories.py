"""The files of a look-alike repository, as its publisher's tools wrote them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from checkpoint_samples import save_weights
from tiny_models import llama_tokenizer_json

from tests.rehearsal.lookalikes import LAYERS, LookAlike
from tests.rehearsal.made_up_text import byte_level_bpe, sentencepiece_bpe

QWEN_SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
PADDING = 12 << 20
SPARE_ROWS = 24
"""Rows of the vocabulary beyond the tokenizer's, as Qwen's have."""


def make_tokenizers(folder: Path) -> None:
    """Three tokenizers that the repositories take their files from."""
    for name, vocabulary in (("fine", 330), ("coarse", 1400)):
        (folder / name).mkdir(parents=True)
        sentencepiece_bpe(folder / name, vocabulary)
    (folder / "bpe").mkdir()
    byte_level_bpe(folder / "bpe", 1400, QWEN_SPECIALS)


def make_repository(model: LookAlike, folder: Path, tokenizers: Path, seed: int) -> Path:
    """Write the whole repository of a look-alike."""
    folder.mkdir(parents=True)
    rows = _write_tokenizer(model, folder, tokenizers)
    _write_json(folder / "config.json", configuration(model, rows))
    (folder / "README.md").write_text("# A made-up repository with random weights\n", "utf-8")
    write_weights(model, folder, random_weights(model, folder, seed))
    return folder


def configuration(model: LookAlike, rows: int) -> dict[str, Any]:
    """The content of config.json, in the form of its time."""
    special = {"bos_token_id": rows - SPARE_ROWS - 3, "eos_token_id": rows - SPARE_ROWS - 1}
    return {
        **model.config,
        **(special if model.tokenizer == "bpe" else {}),
        "hidden_size": model.heads * model.head_width,
        "intermediate_size": 192,
        "num_attention_heads": model.heads,
        "num_hidden_layers": LAYERS,
        "num_key_value_heads": model.kv_heads,
        "torch_dtype": model.dtype,
        "vocab_size": rows,
    }


GAINS = {"embed_tokens": 16.0, "lm_head": 2.5, "v_proj": 3.0, "o_proj": 3.0, "down_proj": 2.0}
GAINS |= {"q_proj": 1.4, "k_proj": 1.4, "gate_proj": 1.0, "up_proj": 1.0}
"""Scales of matrices at which attention chooses and log-probs vary by several nats."""


def random_weights(model: LookAlike, folder: Path, seed: int) -> dict[str, Any]:
    """Weights for the configuration that a folder has, named as published checkpoints name them."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    draw = torch.Generator().manual_seed(seed)
    gains = {**GAINS, **({"embed_tokens": GAINS["lm_head"]} if model.tied else {})}
    with torch.device("meta"):
        plain = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
    weights = {}
    for name, parameter in plain.named_parameters():
        normal = torch.randn(parameter.shape, generator=draw)
        if name.endswith("bias"):
            tensor = 0.3 * normal
        elif "norm" in name:
            tensor = 1.0 + 0.1 * normal
        else:
            tensor = normal * gains[name.split(".")[-2]] / parameter.shape[1] ** 0.5
        weights[name] = tensor.to(getattr(torch, model.dtype))
    return weights


def write_weights(model: LookAlike, folder: Path, weights: dict[str, Any]) -> None:
    """The weights in the repository's format; shards have an index."""
    import torch

    if model.weights == "bin":
        # checkpoints of that time also hold each layer's table of rotary frequencies
        frequencies = 1.0 / 10_000.0 ** (torch.arange(0, model.head_width, 2) / model.head_width)
        for number in range(LAYERS):
            weights[f"model.layers.{number}.self_attn.rotary_emb.inv_freq"] = frequencies
    shards = {"safetensors": 1, "bin": 2, "sharded": 4}[model.weights]
    suffix = "bin" if model.weights == "bin" else "safetensors"
    # the client keeps what it has of a download that breaks off in parts of 10 MiB
    padding = {"padding": "0" * PADDING} if model.breaks_once else {}
    save_weights(folder, weights, shards, suffix, **padding)
    if model.gated:
        # that repository contains its weights twice; the second copy is never wanted
        torch.save(weights, folder / "pytorch_model.bin")


def _write_tokenizer(model: LookAlike, folder: Path, tokenizers: Path) -> int:
    """The tokenizer's files; returns the rows of the vocabulary."""
    if model.tokenizer == "bpe":
        shutil.copytree(tokenizers / "bpe", folder, dirs_exist_ok=True)
        vocabulary = json.loads((folder / "vocab.json").read_bytes())
        added = {str(len(vocabulary) + at): _added(name) for at, name in enumerate(QWEN_SPECIALS)}
        settings = {
            "added_tokens_decoder": added,
            "additional_special_tokens": QWEN_SPECIALS[1:],
            "bos_token": None,
            "eos_token": "<|im_end|>",
            "model_max_length": 32_768,
            "pad_token": "<|endoftext|>",
            "tokenizer_class": "Qwen2Tokenizer",
        }
        rows = len(vocabulary) + len(QWEN_SPECIALS) + SPARE_ROWS
    else:
        source = tokenizers / ("fine" if model.fine else "coarse") / "tokenizer.model"
        shutil.copy(source, folder)
        specials = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
        added = {str(at): _added(name) for at, name in enumerate(("<unk>", "<s>", "</s>"))}
        rows = _pieces(source)
        if model.tokenizer == "sp+pad":
            added[str(rows)] = _added("[PAD]")
            specials["pad_token"] = "[PAD]"
            _write_json(folder / "added_tokens.json", {"[PAD]": rows})
            rows += 1
        _write_json(folder / "special_tokens_map.json", specials)
        settings = {
            "add_bos_token": model.adds_bos,
            "add_eos_token": False,
            "added_tokens_decoder": added,
            "legacy": False,
            "model_max_length": 1_000_000_000_000_000_019_884_624_838_656,
            "tokenizer_class": "LlamaTokenizer",
            **specials,
        }
    settings["clean_up_tokenization_spaces"] = False
    _write_json(folder / "tokenizer_config.json", settings)
    if model.tokenizer == "sp+json":
        llama_tokenizer_json(folder, adds_bos=model.adds_bos)
    return rows


def _pieces(model: Path) -> int:
    import sentencepiece

    return len(sentencepiece.SentencePieceProcessor(model_file=str(model)))


def _added(name: str) -> dict[str, Any]:
    return {
        "content": name,
        "lstrip": False,
        "normalized": False,
        "rstrip": False,
        "single_word": False,
        "special": True,
    }


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", "utf-8")
