"""The locked problem on an emulated card of 24 GB: what the plan refuses, what runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from rich.table import Table

from tests.rehearsal.all_well import stored_units
from tests.rehearsal.made_up_text import made_up_text
from tests.rehearsal.scratch import CHECKOUT, DOCUMENTS, PROBLEM, Done, Scratch, write_documents
from tests.rehearsal.steps import Steps, require
from warehouse.problem.models import ModelSpec

CARD = "NVIDIA GeForce RTX 4090"
TOKENS = 32_768
TOO_LARGE = "Qwen/Qwen2.5-14B-Instruct"
"""28 GB of weights."""
IN_PART = "Leooyii/"
"""Llama 2 without shared heads of keys: 12.6 GiB of weights, 16.5 GiB of KV cache."""
CACHED = "retrieval_with"
SIZES = (
    "01-ai/Yi-6B-200K",
    "Leooyii/PI_32k_Slimpajama_1B",
    "Qwen/Qwen2-0.5B-Instruct",
    "Qwen/Qwen2-1.5B-Instruct",
    "Qwen/Qwen2-7B-Instruct",
    TOO_LARGE,
    "mistralai/Mistral-7B-Instruct-v0.2",
)
"""One model of each size."""


@dataclass
class SmallCard:
    """The plan for all models, then one document of the full length with some of them.

    Attributes:
        scratch: a checkout whose hub has the look-alikes.
        steps: what was done.
        models: those that run.
        peaks: of each model that ran, bytes by the emulated allocator.
    """

    scratch: Scratch
    steps: Steps
    models: tuple[str, ...] = SIZES
    peaks: dict[str, int] = field(default_factory=dict)

    def run(self) -> None:
        """Both steps."""
        # longer than the limit in every tokenizer
        texts = [
            made_up_text(number, 400_000 if number == 0 else 300) for number in range(DOCUMENTS)
        ]
        write_documents(self.scratch.root, texts)
        self.steps.run(f"the plan for {CARD}, emulated", self.plan)
        self.steps.run(f"{len(self.models)} models on {CARD}, emulated", self.extract)

    def plan(self) -> str:
        """The dry run names what will be refused, and nothing else."""
        done = self._on_the_card("--dry-run")
        require(done.code == 0, str(done))
        lines = done.output.splitlines()
        large = next((line for line in lines if ": too large for cuda" in line), "")
        uncached = next((line for line in lines if ": KV cache too large" in line), "")
        for spec in self.scratch.problem.ranked_models:
            require((spec.full_id in large) == (spec.full_id == TOO_LARGE), f"{spec}: {large}")
            in_part = spec.full_id in uncached
            require(in_part == spec.full_id.startswith(IN_PART), f"{spec}: {uncached}")
        return f"{TOO_LARGE} refused, {uncached.count(IN_PART)} models without {CACHED}"

    def extract(self) -> str:
        """What the plan accepts is done at the first attempt; the rest is refused immediately."""
        words = [word for name in self.models for word in ("--model", name)]
        done = self._on_the_card(*words)
        require(done.code == 5, str(done))
        require(f"{TOO_LARGE}: needs about" in done.output, str(done))
        for spec, expected in self._expected():
            found = stored_units(self.scratch, spec.full_id, list(expected))
            states = {name: unit.status for (name, _), unit in found.items()}
            require(states == expected, f"{spec.full_id}: {states}\n{done}")
            reasons = [unit.reason for unit in found.values() if unit.reason]
            require(all("KV cache" in reason for reason in reasons), str(reasons))
            self.peaks[spec.full_id] = max((u.peak_bytes for u in found.values()), default=0)
        last = done.output.strip().splitlines()[-1]
        require(" 0 shortages" in last, str(done))
        return last

    def _expected(self) -> Iterator[tuple[ModelSpec, dict[str, str]]]:
        """The state of each condition of the models; nothing is stored of one that is too large."""
        names = [c.name for probe in self.scratch.problem.probes for c in probe.conditions()]
        for name in self.models:
            states = {} if name == TOO_LARGE else dict.fromkeys(names, "done")
            if name.startswith(IN_PART):
                states[CACHED] = "failed"
            yield self.scratch.problem.model(name), states

    def _on_the_card(self, *words: str) -> Done:
        given = ("extract", "--problem", PROBLEM, "--device", "cuda", "--documents", "1")
        given = (*given, "--max-tokens", str(TOKENS), *words)
        program = [sys.executable, "-m", "tests.rehearsal.on_a_card", CARD]
        scratch = Scratch(
            self.scratch.root,
            self.scratch.endpoint,
            self.scratch.token,
            {**self.scratch.extra, "PYTHONPATH": str(CHECKOUT)},
        )
        return scratch.run_program([*program, *given], ("tokenmart", *given))

    def table(self) -> Table:
        """Peaks of the models that ran."""
        shown = Table("model", f"peak on {CARD}, emulated, GiB", title="A card of 24 GB")
        for name, peak in self.peaks.items():
            shown.add_row(name, f"{peak / 2**30:.1f}" if peak else "refused: too large")
        return shown
