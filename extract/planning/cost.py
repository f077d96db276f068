"""Cost of a selection: tokens, rows, time, memory and disk, before anything is loaded."""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from extract.planning.cards import SUSTAINED, card_of, sustained_rate
from extract.planning.cuts import read_lengths
from extract.planning.devices import device_name, resolve_dtype
from extract.planning.memory import Footprint, available_memory, footprint
from extract.planning.model_size import ModelSize, linear_parameters, model_size
from extract.planning.plan import Selection, max_tokens_of
from extract.scoring.budgets import SUFFIX_TOKENS
from warehouse import remote
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.probes.request import Condition, Reading
from warehouse.problem.models import ModelSpec
from warehouse.problem.spec import Problem
from warehouse.problem.tables import documents_path
from warehouse.terminal import counted

CHARACTERS_PER_TOKEN = 4
BYTES_PER_ROW = 10
BYTES_PER_CHOICE = 6
CPU_FLOPS_PER_CORE = {"float32": 6e10, "bfloat16": 1.2e11, "float16": 2e10}
GPU_FLOPS = 1.2e14
"""Sustained speed assumed for estimates: a 2024 server processor's core, a GPU of unknown name."""


@dataclass(frozen=True)
class Work:
    """Work that the conditions require of any model.

    Attributes:
        tokens: through the backbone; a text that several requests continue counts once.
        rows: scored tokens.
        pairs: (token, visible token), what attention computes.
        choices: rows of the side table of top-k tokens.
    """

    tokens: int
    rows: int
    pairs: float
    choices: int = 0


@dataclass(frozen=True)
class Cost:
    """Estimated work of one model: tokens through the backbone, rows, FLOPs, seconds, bytes."""

    tokens: int
    rows: int
    flops: float
    seconds: float
    disk_bytes: int


def work_of(tokens_per_document: Sequence[int], selected: Sequence[Condition]) -> Work:
    """Work of documents of these lengths, counted on the very requests of each condition."""
    tokens = rows = choices = 0
    pairs = 0.0
    for length in tokens_per_document:
        document = planned_reading(length, max(tokens_per_document))
        requests = []
        for condition in selected:
            group = condition.build(document)
            requests += group
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
    return Work(tokens, rows, pairs, choices)


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


def estimate(work: Work, size: ModelSize, *, dtype: str, device: str) -> Cost:
    """Cost of the work with one model.

    FLOPs: 2 for each weight of the linear layers and token, 2 for each weight of the head and
    scored token, and of attention 4 × width of the queries × layers for each pair of tokens.

    Args:
        work: from `work_of`.
        size: the model's.
        dtype: a torch dtype's name.
        device: where; several GPUs are counted as one.
    """
    shape = size.shape
    flops = 2.0 * linear_parameters(shape) * work.tokens
    flops += 2.0 * shape.vocabulary * shape.width * work.rows
    flops += 4.0 * shape.query_width * shape.layers * work.pairs
    seconds = flops / assumed_speed(device, dtype)[0]
    disk = work.rows * BYTES_PER_ROW + work.choices * BYTES_PER_CHOICE
    return Cost(work.tokens, work.rows, flops, seconds, disk)


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


def document_lengths(
    problem: Problem, selection: Selection, workspace: Workspace
) -> tuple[list[int], str]:
    """Tokens per document (estimated from characters), and where the estimate comes from."""
    limit = max_tokens_of(problem, selection)
    place = problem.place(workspace)
    sizes = problem.documents.lengths(place)
    path = documents_path(problem, workspace)
    if sizes is None and path.is_file():
        characters = pq.read_table(remote.source(path), columns=["characters"], partitioning=None)
        sizes = characters["characters"].to_pylist()
    if sizes is not None:
        most = problem.documents.max_characters
        sizes = [min(size, most) if most else size for size in sizes[: selection.documents]]
        lengths = [int(size / CHARACTERS_PER_TOKEN) for size in sizes]
        source = (
            f"{counted(len(lengths), 'document')} of {sum(sizes):,} characters, counted as "
            f"{CHARACTERS_PER_TOKEN:g} a token"
        )
    else:
        expected = problem.documents.count or 1
        longest = problem.documents.expected_tokens
        lengths = [longest] * min(expected, selection.documents or expected)
        source = (
            f"{'an unknown number of' if problem.documents.count is None else len(lengths)} "
            f"documents, counted as {len(lengths)} of {longest:,} tokens, since they are not here "
            f"yet: {problem.documents.need(place).remedy}"
        )
    return [min(n, limit) if limit else n for n in lengths], source


def planned_memory(
    problem: Problem,
    spec: ModelSpec,
    selection: Selection,
    longest: int,
    workspace: Workspace,
    folder: Path | None = None,
) -> Footprint | None:
    """Predicted peak of one model of a selection; None where its size is not known.

    Args:
        problem: cuts documents; its name gives the commit of a repository.
        spec: the model.
        selection: dtype, device and conditions.
        longest: tokens of the longest document, before it is cut to the model's context.
        workspace: where the model's files are.
        folder: its checkpoint, where it is here already.
    """
    size = model_size(spec, workspace, folder, problem.name)
    if size is None:
        return None
    return footprint(
        spec,
        size,
        dtype=resolve_dtype(spec, selection.dtype, selection.device),
        device=selection.device,
        longest=read_lengths([longest], problem, spec, workspace)[0],
        suffix_tokens=SUFFIX_TOKENS
        if any(c.kind.shares_prefix for c in selection.conditions)
        else 0,
    )


def on_a_gpu(
    problem: Problem, selection: Selection, longest: int, workspace: Workspace, flops: float
) -> str:
    """The note on GPUs in a plan for the processor: time on one GPU, and its memory.

    Args:
        problem: the problem.
        selection: the models and conditions.
        longest: tokens of the longest document.
        workspace: where the models' files are.
        flops: what is still to do.
    """
    dtype = "bfloat16"
    there = replace(selection, device="cuda", dtype=dtype)
    peaks = {
        spec.full_id: peak.total
        for spec in there.models
        if (peak := planned_memory(problem, spec, there, longest, workspace)) is not None
    }
    hours = flops / GPU_FLOPS / 3600
    told = f"One GPU of the A100 class would take about {hours:,.1f} h"
    if peaks:
        largest = max(peaks, key=lambda each: peaks[each])
        told += f" in {dtype}, and up to {peaks[largest] / 2**30:.1f} GiB of its memory ({largest})"
    return f"{told}; each model: --device cuda."


def refuse_too_many(
    workers: int, problem: Problem, selection: Selection, workspace: Workspace
) -> None:
    """Stop before workers start that don't fit into the host's memory side by side.

    Raises:
        TokenmartError: several copies of the largest model are more than the host has.
    """
    if selection.device != "cpu":
        return
    longest = max(document_lengths(problem, selection, workspace)[0], default=0)
    peaks = {
        spec.full_id: peak.total
        for spec in selection.models
        if (peak := planned_memory(problem, spec, selection, longest, workspace)) is not None
    }
    if not peaks:
        return
    name = max(peaks, key=lambda each: peaks[each])
    there = available_memory("cpu")
    if workers * peaks[name] > there:
        raise TokenmartError(
            f"--workers {workers}: each needs up to {peaks[name] / 2**30:.1f} GiB ({name}), and "
            f"this machine has {there / 2**30:.1f} GiB; use --workers "
            f"{max(1, there // peaks[name])} or fewer --max-tokens"
        )
