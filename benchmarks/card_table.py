"""The 17 models of no4k on cards of every size: what fits, its peak, its hours. Nothing is run.

    python benchmarks/card_table.py            # prints the table; about 10 minutes
    python benchmarks/card_table.py --write    # and puts it into docs/gpus.md

The real engine runs on GPUs that do not exist (`tests/helpers/fake_gpu.py`): shapes are true,
memory is counted, and time is by roofline. Computed, not measured.
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

from fake_gpu import fake_gpu  # noqa: E402
from true_size_models import LONGEST, build, calls, locked_problem  # noqa: E402

from extract.device_errors import DoesNotFitError  # noqa: E402
from extract.extraction import apart  # noqa: E402
from extract.planning.cards import CARDS, Card  # noqa: E402
from extract.scoring.engine import Engine  # noqa: E402

SHOWN = (
    "H100 SXM 80 GB", "A100 80 GB", "L40S 48 GB", "A100 40 GB", "RTX 4090 24 GB", "RTX 4080 16 GB",
)  # fmt: skip
BEGIN, END = "<!-- card table: begin -->", "<!-- card table: end -->"
DOCUMENTS = 50


@dataclass(frozen=True)
class Cell:
    """One model on one card: peak in bytes, seconds a document, conditions that don't fit."""

    peak: int
    seconds: float
    refused: tuple[str, ...] = ()
    shortages: int = 0

    def __str__(self) -> str:
        if not self.peak:
            return "no"
        hours = f"{self.peak / 2**30:.0f} GiB, {DOCUMENTS * self.seconds / 3600:.2f} h"
        without = f", without {' and '.join(self.refused)}" if self.refused else ""
        return hours + without + (f", {self.shortages} retries" if self.shortages else "")


def measured(spec: Any, card: Card) -> Cell:
    """One document of the longest kind, all probes."""
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
                parts = apart([kinds[name] for name in names.split(" + ")])
                if len(parts) == 1:
                    refused += names.split(" + ")
                for part in parts if len(parts) > 1 else []:
                    todo += calls(spec, tuple(condition.name for condition in part)).items()
        found = Cell(meter.peak, meter.books.seconds, tuple(refused), meter.books.shortages)
        del engine
    return found


def table() -> str:
    """Markdown: a row for each model, a column for each card."""
    cards = [next(card for card in CARDS if card.name == name) for name in SHOWN]
    known: dict[tuple[Any, str], Cell] = {}
    lines = ["| model | " + " | ".join(SHOWN) + " |", "|---|" + "---|" * len(SHOWN)]
    hours = dict.fromkeys(SHOWN, 0.0)
    for spec in locked_problem().ranked_models:
        cells = []
        for card in cards:
            key = (spec.shape, card.name)
            if key not in known:
                known[key] = measured(spec, card)
                print(f"{spec.full_id} on {card.name}: {known[key]}", file=sys.stderr, flush=True)
            cells.append(str(known[key]))
            hours[card.name] += DOCUMENTS * known[key].seconds / 3600
        lines.append(f"| {spec.full_id} | " + " | ".join(cells) + " |")
    lines.append("| **all that fit** | " + " | ".join(f"{hours[n]:.1f} h" for n in SHOWN) + " |")
    return "\n".join(lines)


def main() -> None:
    """Print the table, and write it into the docs where that is asked for."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--write", action="store_true", help="put the table into docs/gpus.md")
    options = asked.parse_args()
    made = (
        f"{DOCUMENTS} documents of {LONGEST:,} tokens, all probes of no4k, bfloat16.\n\n{table()}"
    )
    print(made)
    if options.write:
        page = ROOT / "docs" / "gpus.md"
        before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        page.write_text(f"{before}{BEGIN}\n{made}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
