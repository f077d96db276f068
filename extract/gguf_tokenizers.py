"""How the tokenizer of a GGUF file splits text before its merges: the type `tokenizer.ggml.pre`.

transformers knows some of the types, and splits all others as GPT-2 does. The types and what each
splits are facts of llama.cpp (`src/llama-vocab.cpp` and `src/unicode.cpp` of ggml-org/llama.cpp,
commit 00ad355e). Where llama.cpp has another form of a pattern than the model's own tokenizer.json,
because its regular expressions lack classes, the pattern here is that of the tokenizer.json.
"""

from __future__ import annotations

from typing import Any

import click

from warehouse.errors import TokenmartError

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

_SHORT = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORD, _DIGITS = r"[^\r\n\p{L}\p{N}]?\p{L}+", r"\p{N}{1,3}"
_SIGNS, _SIGNS_OR_PATHS = r" ?[^\s\p{L}\p{N}]+[\r\n]*", r" ?[^\s\p{L}\p{N}]+[\r\n/]*"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
_CASED = [rf"[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]{a}[{_LOWER}]{b}" for a, b in (("*", "+"), ("+", "*"))]
_NOT_HAN = r"&&[^\p{Han}]"
_CASED_NOT_HAN = [
    rf"[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}{_NOT_HAN}]{a}[{_LOWER}{_NOT_HAN}]{b}"
    for a, b in (("*", "+"), ("+", "*"))
]
_CASED_LETTERS = (
    rb"A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af"
    rb"\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1"
    rb"\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd"
    rb"\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d"
    rb"\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4"
    rb"\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec"
    rb"\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128"
    rb"\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b"
    rb"\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787"
    rb"\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a"
    rb"\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2"
    rb"\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
).decode("unicode_escape")
_CJK = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
_EAST_ASIAN = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
_SIGN_AND_WORD = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"
_MARKED_WORD = r"[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"


def _any(*patterns: str) -> str:
    return "|".join(patterns)


_LLAMA3 = (_any(_SHORT, _WORD, _DIGITS, _SIGNS, _SPACES),)
_QWEN2 = (_any(_SHORT, _WORD, r"\p{N}", _SIGNS, _SPACES),)
_GPT4O = (_any(*(f"{word}{_SHORT}?" for word in _CASED), _DIGITS, _SIGNS_OR_PATHS, _SPACES),)
_DIGITS_FIRST = (r"\p{N}", GPT2)
_DEEPSEEK3 = (
    _DIGITS,
    _CJK,
    _any(_SIGN_AND_WORD, _MARKED_WORD, r" ?[\p{P}\p{S}]+[\r\n]*", _SPACES),
)
_NO_PUNCTUATION = r" ?[^(\s|.,!?…。，、।۔،)]+"
_BAILING = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*"
    r"|\s*[\r\n]|\s+(?!\S)|\s+",
)
_TINY_AYA = (r"\d{1,3}(?=(?:\d{3})*\b)", *_GPT4O)

DEFAULT = (r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]")
"""Of a file that names no type."""

PATTERNS: dict[str, tuple[str, ...]] = {
    "default": DEFAULT,
    **dict.fromkeys(
        ("gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "jina-v2-es", "jina-v2-de", "a.x-4.0",
         "mellum", "modern-bert", "jina-v1-en", "jina-v2-code", "roberta-bpe", "mpt", "olmo",
         "jais", "trillion", "granite-docling", "exaone4"),
        (GPT2,),
    ),
    **dict.fromkeys(
        ("starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b",
         "mellum2"),
        _DIGITS_FIRST,
    ),
    **dict.fromkeys(
        ("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2",
         "jina-v5-nano", "dbrx", "smaug-bpe", "glm4", "chatglm-bpe"),
        _LLAMA3,
    ),
    **dict.fromkeys(
        ("qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez", "stablelm2", "hunyuan",
         "solar-open", "grok-2"),
        _QWEN2,
    ),
    **dict.fromkeys(("gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"), _GPT4O),
    **dict.fromkeys(("deepseek-v3", "hunyuan-dense", "hy_v4", "joyai-llm"), _DEEPSEEK3),
    **dict.fromkeys(("bailingmoe", "bailingmoe2", "llada-moe"), _BAILING),
    **dict.fromkeys(("poro-chat", "bloom", "gpt3-finnish"), (_NO_PUNCTUATION,)),
    **dict.fromkeys(("tiny_aya", "cohere2moe"), _TINY_AYA),
    "viking": (_NO_PUNCTUATION, r"\p{N}"),
    "falcon": (r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"),
    "superbpe": (r"\p{N}+", r"(?=(\d{3})+(?!\d))"),
    "tekken": (_any(*_CASED, r"\p{N}", _SIGNS_OR_PATHS, _SPACES),),
    "qwen35": (
        _any(
            _SHORT, r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+", r"\p{N}",
            r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*", _SPACES,
        ),
    ),
    "ufakzeka": (_any(_WORD, r"\p{N}", _SIGNS, _SPACES),),
    "laguna": (r"[^\n]+|[\n]+", *_QWEN2),
    "minicpm5": (_DIGITS, _any(_SHORT, _WORD, r"\p{N}+", _SIGNS, _SPACES)),
    "seed-coder": (
        _any(_SHORT, _WORD, r"\p{N}", r" ?[^\s\p{L}\p{N}\r\n]+", _SPACES),
    ),
    "exaone-moe": (
        _any(
            _SHORT, r"[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+", r"\p{N}",
            r" ?[^\s\p{L}\p{N}]+[\r\n/]?", r"\s*[\r\n]|\s+(?!\S)|\s+",
        ),
    ),
    "jais-2": (
        _any(
            _SHORT, _WORD, _DIGITS, _SIGNS, r"\s*[\r\n]+",
            *(rf"\s{{{n}}}(?!\S)" for n in (512, 256, 128, 64, 32, 16, 8, 4)), r"\s{1,2}(?!\S)|\s",
        ),
    ),
    "chameleon": (
        "<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", r"([\t\n]|    |  )", r"\p{N}",
        r"[\p{P}!-/:-@\[-`{-~]", GPT2,
    ),
    "deepseek-coder": (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _EAST_ASIAN, r"\p{N}"),
    "deepseek-llm": (
        r"[\r\n]",
        rf"\s?[{_CASED_LETTERS}]+",
        "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
        r"\s+$",
        _EAST_ASIAN,
        r"\p{N}+",
    ),
    "spark2_5": (
        _DIGITS,
        _CJK,
        _any(_SIGN_AND_WORD, _MARKED_WORD, r" ?[\p{P}\p{S}]+", r"[\r\n]", r"\s+(?!\S)|\s+"),
        r"\p{N}",
    ),
    "youtu": (
        _any(
            "[\uac00-\ud7a3\u3131-\u318e]+",
            "[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f\ufe30-\ufe4f]+",
            "[\u3105-\u312f]+",
            _CJK,
        ),
        _any(*(f"{word}{_SHORT}?" for word in _CASED), r"\p{N}", _SIGNS_OR_PATHS, _SPACES),
    ),
    "kimi-k2": (
        _any(
            r"\p{Han}+", *(f"{word}{_SHORT}?" for word in _CASED_NOT_HAN), _DIGITS, _SIGNS, _SPACES
        ),
    ),
    "afmoe": (
        # the first group of a number has its surplus digits, all others have three
        r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))",
        "[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f"
        "\u2f00-\u2fdf\u0e40-\u0e7f\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f"
        "\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff]+",
        _DEEPSEEK3[-1],
    ),
}  # fmt: skip
"""Patterns of each type, applied one after another within the pieces that those before left; what
is between two matches is a piece, too."""

_LLAMA3_LIKE = frozenset(
    ("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2",
     "jina-v5-nano")
)  # fmt: skip
WHOLE_WORDS = _LLAMA3_LIKE | {"minicpm5", "youtu", "tekken"}
"""Types whose pieces that are tokens of the vocabulary are not built by merges."""

BEGINS_WITH_BOS = _LLAMA3_LIKE | {"tekken", "chameleon"}
"""Types whose texts begin with BOS where the file says nothing of it."""


def split_as_stated(tokenizer: Any, kind: str | None, who: str) -> None:
    """Make a byte-level tokenizer of transformers split text as the type of its GGUF file does.

    Args:
        tokenizer: read from the file by transformers.
        kind: the file's `tokenizer.ggml.pre`; None if it has none.
        who: the model's name, for messages.

    Raises:
        TokenmartError: the type is unknown (code `unknown-pre-tokenizer`).
    """
    from tokenizers import Regex, pre_tokenizers

    if kind is None:
        click.echo(
            f"warning: {who}: its GGUF file names no pre-tokenizer (tokenizer.ggml.pre); text is "
            "split as llama.cpp does then, which suits few models: give the folder of its "
            "tokenizer.json as `tokenizer` of a source `kind: gguf`",
            err=True,
        )
    patterns = PATTERNS.get(kind or "default")
    if patterns is None:
        raise TokenmartError(
            f"{who}: its GGUF file names an unknown pre-tokenizer (tokenizer.ggml.pre: {kind!r}); "
            "give the folder of its tokenizer.json as `tokenizer` of a source `kind: gguf`",
            code="unknown-pre-tokenizer",
            where=kind,
        )
    backend = tokenizer.backend_tokenizer
    last_is_gpt2 = patterns[-1] == GPT2
    splits = [
        pre_tokenizers.Split(Regex(pattern), behavior="isolated")
        for pattern in (patterns[:-1] if last_is_gpt2 else patterns)
    ]
    if splits:  # without, it is GPT-2's, as it was read
        bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=last_is_gpt2)
        backend.pre_tokenizer = pre_tokenizers.Sequence([*splits, bytes_])
    if kind in WHOLE_WORDS:
        backend.model.ignore_merges = True
