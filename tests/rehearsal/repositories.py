"""The files of a look-alike repository, as its publisher's tools wrote them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tests.rehearsal.lookalikes import LAYERS, LookAlike
from tests.rehearsal.made_up_text import byte_level_bpe, llama_tokenizer_json, sentencepiece_bpe

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
    config = configuration(model, rows)
    _write_json(folder / "config.json", config)
    (folder / "README.md").write_text("# A made-up repository with random weights\n", "utf-8")
    write_weights(model, folder, random_weights(model, config, seed))
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


def random_weights(model: LookAlike, config: dict[str, Any], seed: int) -> dict[str, Any]:
    """Weights at scales at which attention chooses and log-probs vary by several nats."""
    import torch

    draw = torch.Generator().manual_seed(seed)
    width, inner = config["hidden_size"], config["intermediate_size"]
    query, keys = model.heads * model.head_width, model.kv_heads * model.head_width

    def matrix(rows: int, columns: int, gain: float) -> Any:
        return torch.randn(rows, columns, generator=draw) * gain / columns**0.5

    def vector(size: int, mean: float, spread: float) -> Any:
        return mean + spread * torch.randn(size, generator=draw)

    head = matrix(config["vocab_size"], width, 2.5)
    weights = {"model.embed_tokens.weight": head if model.tied else matrix(len(head), width, 16.0)}
    for number in range(LAYERS):
        layer = f"model.layers.{number}"
        weights |= {
            f"{layer}.input_layernorm.weight": vector(width, 1.0, 0.1),
            f"{layer}.self_attn.q_proj.weight": matrix(query, width, 1.4),
            f"{layer}.self_attn.k_proj.weight": matrix(keys, width, 1.4),
            f"{layer}.self_attn.v_proj.weight": matrix(keys, width, 3.0),
            f"{layer}.self_attn.o_proj.weight": matrix(width, query, 3.0),
            f"{layer}.post_attention_layernorm.weight": vector(width, 1.0, 0.1),
            f"{layer}.mlp.gate_proj.weight": matrix(inner, width, 1.0),
            f"{layer}.mlp.up_proj.weight": matrix(inner, width, 1.0),
            f"{layer}.mlp.down_proj.weight": matrix(width, inner, 2.0),
        }
        if config["model_type"] == "qwen2":
            for name, size in (("q", query), ("k", keys), ("v", keys)):
                weights[f"{layer}.self_attn.{name}_proj.bias"] = vector(size, 0.0, 0.3)
    weights["model.norm.weight"] = vector(width, 1.0, 0.1)
    if not model.tied:
        weights["lm_head.weight"] = head
    dtype = getattr(torch, model.dtype)
    return {name: tensor.to(dtype) for name, tensor in weights.items()}


def write_weights(model: LookAlike, folder: Path, weights: dict[str, Any]) -> None:
    """The weights in the repository's format; shards have an index."""
    import torch
    from safetensors.torch import save_file

    if model.weights == "bin":
        # checkpoints of that time also hold each layer's table of rotary frequencies
        frequencies = 1.0 / 10_000.0 ** (torch.arange(0, model.head_width, 2) / model.head_width)
        for number in range(LAYERS):
            weights[f"model.layers.{number}.self_attn.rotary_emb.inv_freq"] = frequencies
    count = 1 if model.weights == "safetensors" else 2 if model.weights == "bin" else 4
    stem, suffix = ("pytorch_model", "bin") if model.weights == "bin" else ("model", "safetensors")
    names = sorted(weights)
    index: dict[str, str] = {}
    for part in range(count):
        held = {name: weights[name] for name in names[part::count]}
        of = f"-{part + 1:05d}-of-{count:05d}" if count > 1 else ""
        file = folder / f"{stem}{of}.{suffix}"
        index |= dict.fromkeys(held, file.name)
        if model.weights == "bin":
            torch.save(held, file)
        else:
            # the client keeps what it has of a download that breaks off in parts of 10 MiB
            padding = {"padding": "0" * PADDING} if model.breaks_once else {}
            save_file(held, file, metadata={"format": "pt", **padding})
    if count > 1:
        total = sum(tensor.nbytes for tensor in weights.values())
        described = {"metadata": {"total_size": total}, "weight_map": index}
        _write_json(folder / f"{stem}.{suffix}.index.json", described)
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
        llama_tokenizer_json(folder, model.adds_bos)
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
