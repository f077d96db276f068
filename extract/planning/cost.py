"""Cost of a selection: tokens, rows, time, memory and disk, before anything is loaded."""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import median

import numpy as np

from extract.devices import SUSTAINED, card_of, device_name, resolve_dtype, sustained_rate
from extract.planning.memory import (
    Footprint,
    ModelSize,
    available_memory,
    footprint,
    linear_parameters,
    model_size,
    refuse_too_large,
)
from extract.planning.plan import Document, most_tokens
from extract.planning.selection import Selection
from extract.scoring.budgets import SUFFIX_TOKENS
from warehouse.errors import TokenmartError
from warehouse.probes.request import Condition, Reading
from warehouse.problem.models import ModelSpec
from warehouse.problem.tables import documents_path, whole_characters
from warehouse.sources.documents import BYTES_PER_TOKEN, TextSize, text_size
from warehouse.store.parquet_files import read_table
from warehouse.terminal import counted

CHARACTERS_PER_TOKEN = 4
"""Of the made-up text that a plan uses in place of a document."""
BYTES_PER_ROW = 10
BYTES_PER_CHOICE = 6
CPU_FLOPS_PER_CORE = {"float32": 6e10, "bfloat16": 1.2e11, "float16": 2e10}
GPU_FLOPS = 1.2e14
"""Sustained speed assumed for estimates: a 2024 server processor's core, a GPU of unknown name."""


def read_lengths(lengths: Sequence[int], selection: Selection, spec: ModelSpec) -> list[int]:
    """Tokens that a model reads of documents of these lengths."""
    most = most_tokens(selection, spec)
    return [n if most is None else min(n, most) for n in lengths]


@dataclass(frozen=True)
class Work:
    """Work that the conditions require of any model.

    Attributes:
        tokens: through the backbone; a text that several requests continue counts once.
        rows: scored tokens.
        pairs: (token, visible token), what attention computes.
        choices: rows of the side table of top-k tokens.
        unscored: conditions without a token to score.
    """

    tokens: int
    rows: int
    pairs: float
    choices: int = 0
    unscored: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Cost:
    """Estimated work of one model: tokens through the backbone, rows, FLOPs, seconds, bytes.

    A model of unknown size has no FLOPs, and `seconds` is None.
    """

    tokens: int
    rows: int
    flops: float
    seconds: float | None
    disk_bytes: int


def work_of(tokens_per_document: Sequence[int], selected: Sequence[Condition]) -> Work:
    """Work of documents of these lengths, counted on the very requests of each condition."""
    tokens = rows = choices = 0
    pairs = 0.0
    scored = set()
    for length in tokens_per_document:
        document = planned_reading(length, max(tokens_per_document))
        requests = []
        for condition in selected:
            group = condition.build(document)
            requests += group
            if any(len(request.targets) for request in group):
                scored.add(condition.name)
            choices += condition.top_k * sum(len(request.targets) for request in group)
        read = {request.ids.tobytes() for request in requests if not request.prefix_length}
        for request in requests:
            prefix = request.prefix.tobytes()
            if request.prefix_length and prefix not in read:
                read.add(prefix)
                tokens += len(request.prefix)
                pairs += len(request.prefix) ** 2 / 2
            own = len(request.ids)
            tokens += own
            rows += len(request.targets)
            pairs += own * (request.prefix_length + own / 2)
    unscored = frozenset(condition.name for condition in selected) - scored
    return Work(tokens, rows, pairs, choices, unscored)


_LETTERS = string.ascii_letters + string.digits
_SENTENCE_WORDS = 25


@lru_cache(maxsize=1)
def _made_up_text(words: int) -> str:
    """Words of CHARACTERS_PER_TOKEN characters, no two alike, in sentences."""
    count = len(_LETTERS)
    return "".join(
        f" {_LETTERS[n // count**2 % count]}{_LETTERS[n // count % count]}"
        + ("." if (n + 1) % _SENTENCE_WORDS == 0 else _LETTERS[n % count])
        for n in range(words)
    )


def planned_reading(tokens: int, longest: int | None = None) -> Reading:
    """A document of the given number of tokens, each a word, and another one of the same length.

    Args:
        tokens: its length.
        longest: that of the longest that is asked for, so that one text serves all.
    """
    text = _made_up_text(max(tokens, longest or 0))
    ids = np.arange(tokens, dtype=np.int32)
    starts, ends = CHARACTERS_PER_TOKEN * ids, CHARACTERS_PER_TOKEN * (ids + 1)
    part = text[: CHARACTERS_PER_TOKEN * tokens]
    foreign = Reading(ids + np.int32(tokens), starts, ends, part, None)
    return Reading(ids, starts, ends, part, None, foreign)


def estimate(work: Work, size: ModelSize | None, *, dtype: str, device: str) -> Cost:
    """Cost of the work with one model; several GPUs are counted as one.

    FLOPs: 2 for each weight of the linear layers and token, 2 for each weight of the head and
    scored token, and of attention 4 × width of the queries × layers for each pair of tokens.
    """
    disk = work.rows * BYTES_PER_ROW + work.choices * BYTES_PER_CHOICE
    if size is None:
        return Cost(work.tokens, work.rows, 0.0, None, disk)
    shape = size.shape
    flops = 2.0 * linear_parameters(shape) * work.tokens
    flops += 2.0 * shape.vocabulary * shape.width * work.rows
    flops += 4.0 * shape.query_width * shape.layers * work.pairs
    return Cost(work.tokens, work.rows, flops, flops / assumed_speed(device, dtype)[0], disk)


def assumed_speed(device: str, dtype: str) -> tuple[float, str]:
    """Sustained FLOP/s that estimates assume of a device, and the same in words."""
    if device != "cpu":
        card = card_of(device_name(device))
        if card is None:
            return GPU_FLOPS, f"{GPU_FLOPS / 1e12:,.0f} TFLOP/s, a GPU of the A100 class"
        speed = sustained_rate(card, dtype)
        return speed, (
            f"{speed / 1e12:,.0f} TFLOP/s, {SUSTAINED:.0%} of the peak of {card.name} in {dtype}"
        )
    import psutil

    cores = psutil.cpu_count(logical=False) or 1
    speed = CPU_FLOPS_PER_CORE[dtype] * cores
    return speed, f"{speed / 1e9:,.0f} GFLOP/s, {cores} server cores in {dtype}"


def document_lengths(selection: Selection) -> tuple[list[int], str]:
    """Tokens per document (estimated from UTF-8 bytes), and where the estimate comes from."""
    problem, limit = selection.problem, selection.max_tokens
    documents = problem.documents
    folders = problem.folders(selection.workspace)
    sizes = documents.sizes(folders)
    path = documents_path(problem, selection.workspace)
    if sizes is not None:
        wholes = [size.characters for size in sizes]
        sizes = [size.cut(documents.max_characters) for size in sizes]
    elif path.is_file():
        names = ["characters", "bytes"]
        table = read_table(path, names)
        pairs = zip(*(table[name].to_pylist() for name in names), strict=True)
        sizes = [TextSize(*pair) for pair in pairs]
        wholes = whole_characters(problem, selection.workspace) or table["characters"].to_pylist()
    if sizes is not None:
        sizes, whole = sizes[: selection.documents], sum(wholes[: selection.documents])
        lengths = [size.tokens for size in sizes]
        characters = sum(size.characters for size in sizes)
        cut = f" (cut by documents.max_characters, whole: {whole:,})" if characters < whole else ""
        origin = (
            f"{counted(len(lengths), 'document')} of {characters:,} characters{cut}, counted as "
            f"{BYTES_PER_TOKEN} bytes of UTF-8 a token"
        )
    else:
        expected = documents.count or 1
        lengths = [documents.expected_tokens] * min(expected, selection.documents or expected)
        origin = (
            f"{'an unknown number of' if documents.count is None else len(lengths)} documents, "
            f"counted as {len(lengths)} of {documents.expected_tokens:,} tokens, since they are "
            f"not here yet: {documents.required_file(folders).remedy}"
        )
    return [min(n, limit) if limit else n for n in lengths], origin


def planned_memory(
    selection: Selection, spec: ModelSpec, longest: int, folder: Path | None = None
) -> Footprint | None:
    """Predicted peak of one model of a selection; None where its size is not known.

    `longest` are the tokens of the longest document, before it is cut to the model's context;
    `folder` is the checkpoint's, where it is here already.
    """
    size = model_size(spec, selection.workspace, folder, selection.problem.name)
    if size is None:
        return None
    sharing = any(condition.kind.shares_prefix for condition in selection.conditions)
    return footprint(
        spec,
        size,
        dtype=resolve_dtype(spec, selection.dtype, selection.device),
        device=selection.device,
        longest=read_lengths([longest], selection, spec)[0],
        suffix_tokens=SUFFIX_TOKENS if sharing else 0,
    )


def checked_memory(
    selection: Selection, spec: ModelSpec, longest: int, folder: Path | None = None
) -> Footprint | None:
    """The same, of a model for which the device has the memory.

    Raises:
        TokenmartError: the model needs more than the device has.
    """
    needed = planned_memory(selection, spec, longest, folder)
    if needed is not None:
        length = read_lengths([longest], selection, spec)[0]
        refuse_too_large(spec, needed, selection.device, length)
    return needed


def planned_peaks(selection: Selection, longest: int) -> dict[str, Footprint]:
    """Predicted peaks by model, largest first; models of unknown size are left out."""
    found = {spec.full_id: planned_memory(selection, spec, longest) for spec in selection.models}
    known = {name: peak for name, peak in found.items() if peak is not None}
    return dict(sorted(known.items(), key=lambda each: -each[1].total))


def refuse_too_many(workers: int, selection: Selection) -> None:
    """Stop before workers start that don't fit into the host's memory side by side.

    Raises:
        TokenmartError: several copies of the largest model are more than the host has.
    """
    if selection.device != "cpu":
        return
    longest = max(document_lengths(selection)[0], default=0)
    there = available_memory("cpu")
    for name, peak in planned_peaks(selection, longest).items():
        if workers * peak.total > there:
            raise TokenmartError(
                f"--workers {workers}: each needs up to {peak.total / 2**30:.1f} GiB ({name}), "
                f"and this machine has {there / 2**30:.1f} GiB; use --workers "
                f"{max(1, there // peak.total)} or fewer --max-tokens"
            )


class PlannedWork:
    """Planned tokens through a model, times its number of weights.

    A model of unknown size counts as the median of the others.
    """

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        sizes = {
            spec.full_id: model_size(spec, selection.workspace, problem=selection.problem.name)
            for spec in selection.models
        }
        weights = {name: float(size.parameters) for name, size in sizes.items() if size}
        usual = median(weights.values()) if weights else 1.0
        self._weights = {name: weights.get(name, usual) for name in sizes}
        self._most = {}
        for spec in selection.models:
            limits = selection.max_tokens, most_tokens(selection, spec)
            self._most[spec.full_id] = min((n for n in limits if n is not None), default=None)
        self._tokens: dict[tuple[int, tuple[str, ...]], int] = {}

    def of(self, spec: ModelSpec, document: Document, conditions: Sequence[Condition]) -> float:
        """Work of some conditions of one document."""
        length = text_size(document.text).tokens
        most = self._most[spec.full_id]
        length = length if most is None else min(length, most)
        return self._weights[spec.full_id] * self.tokens(length, conditions)

    def tokens(self, length: int, conditions: Sequence[Condition]) -> int:
        """Tokens that pass through a model for a document of this many tokens; at least 1."""
        key = (length, tuple(condition.name for condition in conditions))
        if key not in self._tokens:
            self._tokens[key] = max(1, work_of([length], conditions).tokens)
        return self._tokens[key]

    def of_model(self, spec: ModelSpec, documents: Sequence[Document]) -> float:
        """Work of all selected conditions of some documents."""
        return sum(self.of(spec, each, self.selection.conditions) for each in documents)

    def total(self, documents: Sequence[Document]) -> float:
        """Work of the whole selection."""
        return sum(self.of_model(spec, documents) for spec in self.selection.models)


class WithinUnit:
    """Reports the part of one document's work that is done, as tokens pass through the model.

    Args:
        report: is called with the work done since the last call.
    """

    def __init__(self, report: Callable[[float], None]) -> None:
        self._report = report
        self._work, self._tokens, self._left = 0.0, 1, 0.0

    def begin(self, work: float, tokens: int) -> None:
        """A document: its planned work, and the tokens that will pass through the model for it."""
        self._work, self._tokens, self._left = work, tokens, 1.0

    def passed(self, tokens: float) -> None:
        """Tokens that passed; outside of a document (a check of the engine) they don't count."""
        share = min(tokens / self._tokens, self._left)
        if share > 0:
            self._left -= share
            self._report(share * self._work)

    def end(self) -> None:
        """The document is scored: what was planned and not passed is done, too."""
        self.passed(self._left * self._tokens)
        self._left = 0.0
