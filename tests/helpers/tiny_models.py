"""Tiny random models of real architectures, with tokenizers and texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

WORDS = """the warehouse reads every token in place and the metric is a query over tokens so a
new idea costs seconds while extraction of log probabilities is paid for only once naïve
café""".split()  # noqa: SIM905


def make_text(seed: int, words: int = 120) -> str:
    """A reproducible text with repeats, digits and non-ASCII letters."""
    rng = np.random.default_rng(seed)
    picked = [WORDS[i] for i in rng.integers(0, len(WORDS), words)]
    return " ".join(picked) + f" {seed} end."


def make_tokenizer(
    folder: Path, bos: bool, vocabulary: int = 320, texts: Sequence[str] = ()
) -> int:
    """Train a small byte-level BPE tokenizer; returns the size of its vocabulary."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(texts or [make_text(seed) for seed in range(8)], trainer)
    if bos:
        core.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", 0)]
        )
    fast = PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="</s>")
    fast.save_pretrained(folder)
    return len(fast)


def train_sentencepiece(
    folder: Path, sentences: Iterable[str], vocabulary: int, **changes: Any
) -> None:
    """Llama's `tokenizer.model`: BPE with byte fallback, single digits, spaces kept.

    Args:
        folder: gets the file.
        sentences: to train it on.
        vocabulary: its size.
        changes: other options of the trainer.
    """
    from sentencepiece import SentencePieceTrainer

    options = {
        "vocab_size": vocabulary,
        "model_type": "bpe",
        "byte_fallback": True,
        "character_coverage": 1.0,
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "split_digits": True,
        "allow_whitespace_only_pieces": True,
        "unk_id": 0,
        "bos_id": 1,
        "eos_id": 2,
        "pad_id": -1,
        "minloglevel": 2,
    }
    SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_prefix=str(folder / "tokenizer"),
        **{**options, **changes},
    )
    (folder / "tokenizer.vocab").unlink()


def llama_tokenizer_json(folder: Path, dummy_prefix: bool = True, adds_bos: bool = False) -> None:
    """The `tokenizer.json` that Llama-2 repositories have next to their `tokenizer.model`."""
    from tokenizers import normalizers, processors
    from transformers import AutoTokenizer

    core = AutoTokenizer.from_pretrained(folder).backend_tokenizer
    prefix = [normalizers.Prepend("▁")] if dummy_prefix else []
    core.normalizer = normalizers.Sequence([*prefix, normalizers.Replace(" ", "▁")])
    core.pre_tokenizer = None
    core.post_processor = processors.TemplateProcessing(
        single="<s> $A" if adds_bos else "$A", special_tokens=[("<s>", 1)] if adds_bos else []
    )
    core.save(str(folder / "tokenizer.json"))


ARCHITECTURES: dict[str, dict[str, Any]] = {
    "llama": {},
    "llama_linear": {
        "rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 8.0}
    },
    "llama_ntk": {
        "rope_parameters": {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0},
        "max_position_embeddings": 64,
    },
    "mistral": {"sliding_window": 16},
    "qwen2": {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 1},
    "gemma2": {"final_logit_softcapping": 5.0, "sliding_window": 16, "head_dim": 8},
    "gemma3_text": {"sliding_window": 16, "head_dim": 8},
    "cohere": {"logit_scale": 0.25},
    "granite": {"logits_scaling": 4.0},
}


def make_checkpoint(
    folder: Path,
    architecture: str = "llama",
    bos: bool = True,
    seed: int = 0,
    vocabulary: int = 320,
) -> Path:
    """A random two-layer model of this architecture, with a tokenizer, as safetensors."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    settings = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": make_tokenizer(folder, bos, vocabulary),
        "max_position_embeddings": 512,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 1,
        **ARCHITECTURES[architecture],
    }
    config = AutoConfig.for_model(
        architecture.split("_")[0] if "gemma3" not in architecture else architecture, **settings
    )
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            # spread the logits, so that ranks and entropies differ between tokens
            if parameter.dim() > 1:
                parameter.mul_(8.0)
    model.save_pretrained(folder)
    return folder


PROBES = [
    {"kind": "full"},
    {"kind": "window", "name": "window_24", "context": 24, "stride": 16},
    {
        "kind": "retrieval",
        "excerpts": 3,
        "excerpt_tokens": 8,
        "answer_tokens": 6,
        "min_gap": 20,
        "seed": 1,
    },
]
