"""Made-up texts in an invented language, and tokenizers trained on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from tiny_models import train_sentencepiece

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
    """Llama's `tokenizer.model`, trained on the made-up language."""
    texts = [made_up_text(seed, 20_000) for seed in range(100, 104)]
    lines = (line for text in texts for line in text.splitlines() if line.strip())
    train_sentencepiece(
        folder, lines, vocabulary, character_coverage=0.9995, allow_whitespace_only_pieces=False
    )
