"""Made-up texts in an invented language, and tokenizers trained on them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

WORDS = 120
_SYLLABLES = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]


def made_up_text(seed: int, characters: int) -> str:
    """A reproducible text of exactly this number of characters.

    A few words are frequent, most are rare; there are digits, letters beyond ASCII, line breaks.
    """
    rng = np.random.default_rng([7, seed])
    words = _lexicon()
    frequency = 1 / np.arange(1, len(words) + 1)
    pieces: list[str] = []
    length = 0
    while length < characters:
        picked = rng.choice(words, size=int(rng.integers(5, 14)), p=frequency / frequency.sum())
        sentence = " ".join(picked).capitalize()
        if rng.random() < 0.2:
            sentence += f" {rng.integers(10, 99_999)}"
        pieces.append(sentence + (".\n\n" if rng.random() < 0.1 else ". "))
        length += len(pieces[-1])
    return "".join(pieces)[:characters]


def _lexicon() -> list[str]:
    rng = np.random.default_rng(7)
    words: list[str] = []
    while len(words) < WORDS:
        word = "".join(rng.choice(_SYLLABLES, size=int(rng.integers(3, 7))))
        if word not in words:
            words.append(word)
    words[20:25] = ["naïve", "café", "élan", "über", "señor"]
    return words


def text_of_tokens(seed: int, tokens: int, count: Callable[[str], int]) -> str:
    """A text that a tokenizer splits into exactly this number of tokens, padded by digits."""
    whole = made_up_text(seed, 8 * tokens)
    low, high = tokens // 2, len(whole)
    while low < high - 1:
        middle = (low + high) // 2
        low, high = (middle, high) if count(whole[:middle]) < tokens else (low, middle)
    text = whole[:low]
    while (short := tokens - count(text)) > 0:
        text += "7" * short
    if short:
        raise AssertionError(f"{tokens - short} tokens instead of {tokens}")
    return text


def fine_token_counter(tokenizers: Path) -> Callable[[str], int]:
    """How many tokens a text has for the models that see documents of true length."""
    import sentencepiece

    pieces = sentencepiece.SentencePieceProcessor(
        model_file=str(tokenizers / "fine" / "tokenizer.model")
    )
    return lambda text: len(pieces.encode(text))


def byte_level_bpe(folder: Path, vocabulary: int, specials: list[str]) -> None:
    """Qwen's three files: `vocab.json`, `merges.txt`, `tokenizer.json`."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    core = Tokenizer(models.BPE())
    core.normalizer = normalizers.NFC()
    # words, single digits, punctuation, line breaks: Qwen's way of cutting before merging
    pattern = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator([made_up_text(seed, 20_000) for seed in range(100, 104)], trainer)
    core.model.save(str(folder))
    core.add_special_tokens(specials)
    core.save(str(folder / "tokenizer.json"))


def sentencepiece_bpe(folder: Path, vocabulary: int) -> None:
    """Llama's `tokenizer.model`: BPE with byte fallback, single digits, spaces kept."""
    import sentencepiece

    sentences = [
        line
        for seed in range(100, 104)
        for line in made_up_text(seed, 20_000).splitlines()
        if line.strip()
    ]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_prefix=str(folder / "tokenizer"),
        model_type="bpe",
        vocab_size=vocabulary,
        byte_fallback=True,
        split_digits=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        unk_id=0,
        bos_id=1,
        eos_id=2,
        pad_id=-1,
        minloglevel=2,
    )
    (folder / "tokenizer.vocab").unlink()


def llama_tokenizer_json(folder: Path, adds_bos: bool) -> None:
    """The `tokenizer.json` that Llama-2 repositories have next to their `tokenizer.model`."""
    import sentencepiece

    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    names = [pieces.id_to_piece(number) for number in range(len(pieces))]
    ids = {name: number for number, name in enumerate(names)}
    # a piece's score is minus its rank among the merges
    merges = sorted(
        (-pieces.get_score(ids[name]), ids[name[:cut]], ids[name[cut:]], name[:cut], name[cut:])
        for name in names[259:]
        for cut in range(1, len(name))
        if name[:cut] in ids and name[cut:] in ids
    )
    special = [
        {
            "id": number,
            "content": names[number],
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for number in range(3)
    ]
    sequence: list[Any] = [{"Sequence": {"id": "A", "type_id": 0}}]
    start = [{"SpecialToken": {"id": "<s>", "type_id": 0}}] if adds_bos else []
    described = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "Prepend", "prepend": "▁"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
            ],
        },
        "pre_tokenizer": None,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [*start, *sequence],
            "pair": [*start, *sequence, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
        },
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ],
        },
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": "<unk>",
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": True,
            "byte_fallback": True,
            "vocab": ids,
            "merges": [f"{left} {right}" for *_, left, right in merges],
        },
    }
    (folder / "tokenizer.json").write_text(json.dumps(described, ensure_ascii=False), "utf-8")
