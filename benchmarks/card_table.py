"""The 17 models of no4k on cards of every size: what fits, its peak, its hours. Nothing is run.

    python benchmarks/card_table.py                  # from the plan's formulas, in seconds
    python benchmarks/card_table.py --write          # and puts it into docs/how_to/gpus.md
    python benchmarks/card_table.py --emulate MODEL  # the real engine on emulated GPUs, minutes

Computed, not measured. The plan's peaks are compared with the emulated ones in
`tests/extract/test_on_a_fake_gpu.py`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

from fake_gpu import CONTEXT, fake_gpu  # noqa: E402
from true_size_models import LONGEST, build, calls, locked_problem  # noqa: E402

from extract.devices import CARDS, Card, sustained_rate  # noqa: E402
from extract.extraction import split_by_cache  # noqa: E402
from extract.failures import DoesNotFitError  # noqa: E402
from extract.planning.cost import estimate, work_of  # noqa: E402
from extract.planning.memory import (  # noqa: E402
    ModelSize,
    fitting,
    footprint,
)
from extract.scoring.budgets import SUFFIX_TOKENS  # noqa: E402
from extract.scoring.engine import Engine  # noqa: E402

SHOWN = (
    "H100 SXM 80 GB", "A100 80 GB", "L40S 48 GB", "A100 40 GB", "RTX 4090 24 GB", "RTX 4080 16 GB",
)  # fmt: skip
BEGIN, END = "<!-- card table: begin -->", "<!-- card table: end -->"
DOCUMENTS = 50


@dataclass(frozen=True)
class Cell:
    """One model on one card: peak in bytes, 0 where it doesn't fit; hours; refused conditions."""

    peak: int
    hours: float
    refused: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.peak:
            return "no"
        without = f", without {' and '.join(self.refused)}" if self.refused else ""
        return f"{self.peak / 2**30:.0f} GiB, {self.hours:.2f} h{without}"


def planned(spec: Any, card: Card) -> Cell:
    """By the plan: the same formulas as of `tokenmart extract --dry-run`."""
    conditions = [c for probe in locked_problem().probes for c in probe.conditions()]
    size = ModelSize(spec.parameters, spec.shape)
    free = card.memory - CONTEXT

    def needed(suffix_tokens: int) -> Any:
        return footprint(
            spec, size, dtype="bfloat16", device="cuda", longest=LONGEST,
            suffix_tokens=suffix_tokens,
        )  # fmt: skip

    peak = needed(SUFFIX_TOKENS)
    able = fitting(peak, conditions, "cuda", free)
    if not able:
        return Cell(0, 0.0)
    refused = [c for c in conditions if c not in able]
    if refused:
        peak = needed(0)
    work = work_of([LONGEST], able)
    cost = estimate(work, size, dtype="bfloat16", device="cuda")
    hours = DOCUMENTS * cost.flops / sustained_rate(card, "bfloat16") / 3600
    # what is more than there is goes in pieces
    return Cell(min(peak.total, free), hours, tuple(c.name for c in refused))


def emulated(spec: Any, card: Card) -> Cell:
    """By the real engine on an emulated card: one document of the longest kind, all probes."""
    kinds = {c.name: c for probe in locked_problem().probes for c in probe.conditions()}
    refused: list[str] = []
    with fake_gpu(card) as meter, tempfile.TemporaryDirectory() as folder:
        try:
            engine = Engine(build(spec, Path(folder)))
        except RuntimeError:
            return Cell(0, 0.0)
        meter.reset()
        todo = list(calls(spec).items())
        while todo:
            names, requests = todo.pop(0)
            try:
                engine.score(requests)
            except DoesNotFitError:
                parts = split_by_cache([kinds[name] for name in names.split(" + ")])
                if len(parts) == 1:
                    refused += names.split(" + ")
                for part in parts if len(parts) > 1 else []:
                    todo += calls(spec, tuple(condition.name for condition in part)).items()
        found = Cell(meter.peak, DOCUMENTS * meter.books.seconds / 3600, tuple(refused))
        del engine
    return found


def table() -> str:
    """Markdown: a row for each model, a column for each card."""
    cards = [next(card for card in CARDS if card.name == name) for name in SHOWN]
    lines = ["| model | " + " | ".join(SHOWN) + " |", "|---|" + "---|" * len(SHOWN)]
    hours = [0.0] * len(cards)
    for spec in locked_problem().ranked_models:
        cells = [planned(spec, card) for card in cards]
        hours = [total + cell.hours for total, cell in zip(hours, cells, strict=True)]
        lines.append(f"| {spec.full_id} | " + " | ".join(map(str, cells)) + " |")
    lines.append("| all that fit | " + " | ".join(f"{total:.1f} h" for total in hours) + " |")
    return "\n".join(lines)


def main() -> None:
    """Print the table, and write it into the docs where that is asked for."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--write", action="store_true", help="write it to docs/how_to/gpus.md")
    asked.add_argument("--emulate", metavar="MODEL", help="emulate this model on each card instead")
    options = asked.parse_args()
    if options.emulate:
        spec = locked_problem().model(options.emulate)
        for card in (card for card in CARDS if card.name in SHOWN):
            print(f"{card.name}: plan {planned(spec, card)}; emulated {emulated(spec, card)}")
        return
    what = f"{DOCUMENTS} documents of {LONGEST:,} tokens, all probes of no4k, bfloat16."
    made = f"{what}\n\n{table()}"
    print(made)
    if options.write:
        page = ROOT / "docs" / "how_to" / "gpus.md"
        before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        page.write_text(f"{before}{BEGIN}\n{made}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
