"""Every formula once more, in numpy over the raw Parquet: slow, plain, independent of the SQL."""

from __future__ import annotations

import bisect
import csv
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from warehouse.store.schema import TOKENS

SETTINGS = Path(__file__).with_name("variant_settings")
"""What each variant is meant to be, as parameters (alpha, share, octave …) and not as SQL."""

Columns = dict[str, NDArray[Any]]
Variant = dict[str, str]
Terms = tuple[float, ...]
"""Numerator and denominator of a document, and its weight where one is asked for."""
Values = dict[tuple[str, str], float | None]
"""(variant, model) → value."""


@dataclass(frozen=True)
class Word:
    """One occurrence of a word: characters [start, end), how often it occurs in all documents, and
    how many characters before this the word last began in its document (inf: never)."""

    start: int
    end: int
    frequency: int
    is_number: bool
    is_name: bool
    distance: float


@dataclass(frozen=True)
class Scored:
    """One document scored in one context, in float64."""

    columns: Columns
    length: int

    def where(self, keep: NDArray[np.bool_]) -> Scored:
        """Some of its rows."""
        return Scored({name: column[keep] for name, column in self.columns.items()}, self.length)

    def __getattr__(self, name: str) -> NDArray[Any]:
        return self.columns[name]

    @cached_property
    def nll(self) -> NDArray[np.float64]:
        return -self.columns["logprob"].astype(np.float64)


@dataclass(frozen=True)
class Pairs:
    """One document's tokens scored in both contexts, in order of position."""

    full: Scored
    short: Scored

    @cached_property
    def at(self) -> NDArray[np.int64]:
        """Rows of `full` that `short` also has."""
        return np.searchsorted(self.full.position, self.short.position)

    @cached_property
    def nll(self) -> NDArray[np.float64]:
        return np.asarray(self.full.nll[self.at])

    @cached_property
    def gain(self) -> NDArray[np.float64]:
        return np.asarray(self.short.nll - self.nll)


Document = TypeVar("Document")
Groups = Mapping[str, Iterable[Document]]
"""What follows a variant in its name → documents."""


def _compared(folder: Path) -> set[tuple[str, tuple[str, ...]]]:
    """Conditions, each with the shorter ones that the problem compares it with."""
    return {
        (row["condition"], tuple(row["compared_with"]))
        for path in folder.glob("*.parquet")
        for row in pq.ParquetFile(path).read().to_pylist()
    }


class Oracle:
    """The numbers of one problem, read straight from its files."""

    def __init__(self, data: Path, variants: Path, problem: str = "synthetic") -> None:
        self.folder = data / "tokens" / f"problem={problem}"
        self.settings = variants
        self.models = sorted(p.name.removeprefix("model_id=") for p in self.folder.iterdir())
        self.windows = sorted(
            {p.name.removeprefix("condition=") for p in self.folder.glob("*/condition=window_*")}
        )
        self.windows += [
            short if long == "full" else f"{short}_in_{long}"
            for long, shorter in sorted(_compared(data / "needed" / f"problem={problem}"))
            for short in shorter
        ]
        (documents,) = (data / "documents" / f"problem={problem}").glob("*.parquet")
        self.texts: list[str] = pq.read_table(documents)["text"].to_pylist()
        sizes = [
            (pq.ParquetFile(file).read(["parameters"])["parameters"][0].as_py(), model)
            for model in self.models
            for file in (data / "models" / self.folder.name / f"model_id={model}").glob("*.parquet")
        ]
        self.largest = max(sizes)[1]
        self._cache: dict[tuple[str, str], dict[int, Scored]] = {}
        self._common: dict[str, dict[int, tuple[int, int]]] = {}

    def variants(self, metric: str) -> Iterator[Variant]:
        """The settings of a metric's variants."""
        with (self.settings / f"{metric}.csv").open(encoding="utf-8") as file:
            yield from csv.DictReader(file)

    def documents(self, model: str, condition: str) -> dict[int, Scored]:
        """Document → its rows, sorted by segment and position."""
        if (model, condition) not in self._cache:
            self._cache[model, condition] = self._read(model, condition)
        return self._cache[model, condition]

    def _read(self, model: str, condition: str) -> dict[int, Scored]:
        path = self.folder / f"model_id={model}" / f"condition={condition}" / "tokens.parquet"
        if not path.is_file():
            return {}
        table, full = (
            pq.ParquetFile(path.parent.parent / f"condition={name}" / path.name).read()
            for name in (condition, "full")
        )
        whole = Scored({name: table[name].to_numpy() for name in TOKENS.names}, 0)
        docs, positions = full["doc_id"].to_numpy(), full["position"].to_numpy()
        return {
            int(doc): replace(
                whole.where(whole.doc_id == doc), length=int(positions[docs == doc].max()) + 1
            )
            for doc in np.unique(whole.doc_id)
        }

    def pairs(self, model: str, window: str) -> dict[int, Pairs]:
        """Document → its tokens in both contexts, without those whose context is the same."""
        name, _, long = window.partition("_in_")
        full = self.documents(model, long or "full")
        pairs = {}
        for doc, short in self.documents(model, name).items():
            if doc not in full:
                continue
            at = np.searchsorted(full[doc].position, short.position)
            if (shorter := short.context_tokens < full[doc].context_tokens[at]).any():
                pairs[doc] = Pairs(full[doc], short.where(shorter))
        return pairs

    def common_pairs(self, model: str, window: str) -> list[Pairs]:
        """The pairs of each document within the characters that every model scored in them."""
        if window not in self._common:
            spans: dict[int, list[tuple[int, int]]] = {}
            for other in self.models:
                for doc, pairs in self.pairs(other, window).items():
                    end = min(pairs.full.char_end.max(), pairs.short.char_end.max())
                    spans.setdefault(doc, []).append((int(pairs.short.char_start.min()), int(end)))
            self._common[window] = {
                doc: (max(start for start, _ in found), min(end for _, end in found))
                for doc, found in spans.items()
            }
        kept = []
        for doc, pairs in self.pairs(model, window).items():
            start, end = self._common[window][doc]
            there = (pairs.short.char_start >= start) & (pairs.short.char_end <= end)
            if there.any():
                kept.append(Pairs(pairs.full, pairs.short.where(there)))
        return kept

    @cached_property
    def words(self) -> list[list[Word]]:
        """Per document: its words, in order."""
        matches = [list(re.finditer(r"\w+", text)) for text in self.texts]
        matches = [[m for m in found if m.group().strip("_")] for found in matches]
        written = Counter(match.group() for found in matches for match in found)
        counts, plain = Counter[str](), set()
        for form, times in written.items():
            counts[form.lower()] += times
            if not form[0].isupper():
                plain.add(form.lower())
        words = []
        for found in matches:
            last: dict[str, int] = {}
            words.append([])
            for match in found:
                word, start = match.group().lower(), match.start()
                digits = any(unicodedata.category(c)[0] == "N" for c in word)
                distance = start - last[word] if word in last else math.inf
                name = not digits and word not in plain
                words[-1].append(Word(start, match.end(), counts[word], digits, name, distance))
                last[word] = start
        return words

    @cached_property
    def characters(self) -> list[int]:
        """Per document: how much of its text every model's tokens reach."""
        ends: dict[int, list[int]] = {}
        for model in self.models:
            for doc, scored in self.documents(model, "full").items():
                ends.setdefault(doc, []).append(int(scored.char_end.max()))
        return [min(ends.get(doc, [len(text)])) for doc, text in enumerate(self.texts)]

    def tokenization(self, scored: Scored) -> Scored:
        """The tokenizer's whole tokenisation of the document, of which a model without BOS lacks
        the first token: the longest row of tokens that agrees with `scored`."""
        doc, last = int(scored.doc_id[0]), min(100, len(scored.token_id))
        return max(
            (
                other
                for model in self.models
                if (other := self.documents(model, "full").get(doc)) is not None
                and other.length == scored.length
                and (other.token_id[-last:] == scored.token_id[-last:]).all()
            ),
            key=lambda other: len(other.position),
        )

    def distances(self, scored: Scored, ngram: int) -> NDArray[np.float64]:
        """Tokens since the n-gram that ends at each row last ended; inf at its first occurrence."""
        longest = self.tokenization(scored)
        tokens = longest.token_id.tolist()
        seen: dict[tuple[int, ...], int] = {}
        distance = np.full(len(tokens), np.inf)
        for end in range(ngram, len(tokens) + 1):
            gram = tuple(tokens[end - ngram : end])
            distance[end - 1] = end - seen.get(gram, -np.inf)
            seen[gram] = end
        return distance[np.searchsorted(longest.position, scored.position)]

    def token_bytes(self, scored: Scored) -> NDArray[np.int64]:
        """UTF-8 bytes of the text between the end of all earlier tokens and the end of each row."""
        longest = self.tokenization(scored)
        text, covered = self.texts[int(scored.doc_id[0])], int(longest.char_start[0])
        sizes = []
        for end in longest.char_end.tolist():
            sizes.append(len(text[covered:end].encode()))
            covered = max(covered, end)
        return np.array(sizes)[np.searchsorted(longest.position, scored.position)]

    def bytes_of(self, doc: int, scored: Scored, keep: NDArray[np.bool_]) -> int:
        """UTF-8 bytes from the first kept token's first character to the last one's end."""
        start, end = int(scored.char_start[keep].min()), int(scored.char_end[keep].max())
        return len(self.texts[doc][start:end].encode())


def number(text: str | None, otherwise: float) -> float:
    """A setting of a variant, where it has one."""
    return float(text) if text else otherwise


def region(oracle: Oracle, scored: Scored, length: int, variant: Variant) -> NDArray[np.bool_]:
    """Tokens that begin in the variant's part of a document of this many tokens."""
    position, start = scored.position, scored.char_start
    characters = oracle.characters[int(scored.doc_id[0])]
    keep = (
        (position >= number(variant.get("from_position"), 0))
        & (position < number(variant.get("to_position"), math.inf))
        & (length - position <= number(variant.get("tail_tokens"), math.inf))
        & (position >= number(variant.get("from_share"), 0) * length)
        & (position < number(variant.get("to_share"), 1) * length)
        & (start >= number(variant.get("from_character"), 0))
        & (start < number(variant.get("to_character"), math.inf))
    )
    if variant.get("tail_characters"):
        keep &= (start >= characters - float(variant["tail_characters"])) & (start < characters)
    if variant.get("from_text_share"):
        keep &= start >= float(variant["from_text_share"]) * characters
    if variant.get("to_text_share"):
        keep &= start < float(variant["to_text_share"]) * characters
    return np.asarray(keep)


def rank_scores(rank: NDArray[np.int32], statistic: str) -> NDArray[np.float64]:
    """1 or 0 per token for top-k, 1 / rank for the reciprocal rank."""
    if statistic == "reciprocal_rank":
        return np.asarray(1 / rank)
    return (rank <= int(statistic.removeprefix("top_"))).astype(np.float64)


def word_of_tokens(oracle: Oracle, scored: Scored) -> list[Word | None]:
    """The word that contains each token's last character."""
    words = oracle.words[int(scored.doc_id[0])]
    starts = [word.start for word in words]
    found = []
    for last in (scored.char_end - 1).tolist():
        at = bisect.bisect_right(starts, last) - 1
        found.append(words[at] if at >= 0 and last < words[at].end else None)
    return found


def in_words(oracle: Oracle, scored: Scored, variant: Variant) -> NDArray[np.bool_]:
    """Tokens of the words that a variant asks for."""

    def wanted(word: Word | None, char_start: int) -> bool:
        if word is None:
            return False
        kinds = {"number": word.is_number, "name": word.is_name, "word": not word.is_number}
        occurrence = variant.get("occurrence")
        return (
            kinds.get(variant.get("word_kind", ""), True)
            and word.frequency > number(variant.get("over_frequency"), 0)
            and word.frequency <= number(variant.get("max_frequency"), math.inf)
            and (not occurrence or (occurrence == "repeated") == math.isfinite(word.distance))
            and (not variant.get("first_of_word") or char_start <= word.start)
            and word.distance >= number(variant.get("from_distance"), 0)
            and (not variant.get("to_distance") or word.distance < float(variant["to_distance"]))
            and (not variant.get("from_distance") or math.isfinite(word.distance))
        )

    pairs = zip(word_of_tokens(oracle, scored), scored.char_start.tolist(), strict=True)
    return np.array([wanted(word, start) for word, start in pairs])


def repeats(oracle: Oracle, scored: Scored, variant: Variant) -> NDArray[np.bool_]:
    """Tokens whose n-gram was last seen at a distance in the variant's band."""
    distance = oracle.distances(scored, int(variant["ngram"]))
    low = number(variant.get("from_distance"), 0)
    high = number(variant.get("to_distance"), math.inf)
    return np.asarray((distance >= low) & (distance < high))


def combine(
    aggregation: str,
    numerators: list[float],
    denominators: list[float],
    weights: list[float] | None = None,
) -> float:
    """Documents' terms to one value."""
    top, bottom = np.array(numerators, dtype=float), np.array(denominators, dtype=float)
    keep = bottom != 0
    top, bottom = top[keep], bottom[keep]
    if aggregation == "micro":
        return float(math.fsum(top) / math.fsum(bottom))
    ratios = top / bottom
    if aggregation == "weighted":
        return float(np.average(ratios, weights=np.array(weights)[keep]))
    if aggregation == "macro":
        return float(ratios.mean())
    return float(np.quantile(ratios, {"q10": 0.1, "median": 0.5, "q90": 0.9}[aggregation]))


def family(
    metric: str,
    groups: Callable[[Oracle, str], Groups[Document]],
    terms: Callable[[Oracle, Document, Variant], Terms | None],
    exponentiate: bool = False,
) -> Callable[[Oracle], Values]:
    """The metric's values from its numerator and denominator per document.

    Args:
        metric: whose variants are computed.
        groups: documents of a model, by what follows the variant in its name.
        terms: those of a document, if it has any; a third is its weight.
        exponentiate: whether the value is exp of the ratio; bits per byte are not.
    """

    def expected(oracle: Oracle) -> Values:
        values: Values = {}
        for variant, model in product(oracle.variants(metric), oracle.models):
            for ending, documents in groups(oracle, model).items():
                kept = [t for d in documents if (t := terms(oracle, d, variant)) is not None]
                if not kept:
                    continue
                columns = [list(column) for column in zip(*kept, strict=True)]
                # families with a least number of tokens divide by tokens
                enough = sum(columns[1]) >= number(variant.get("min_tokens"), 0)
                value = None
                if any(columns[1]) and enough:
                    value = combine(variant["aggregation"], *columns)
                    if exponentiate and variant.get("unit") != "byte":
                        value = math.exp(value)
                values[variant["variant"] + ending, model] = value
        return values

    return expected
