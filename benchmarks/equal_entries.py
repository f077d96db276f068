"""How often has a ranking of equal entries a pair that is called distinguishable?

Made-up data sets, with the tests that `tokenmart rank show` uses. Items: 200 answers that differ in
difficulty, right or wrong by chance. Groups of tasks: mean win rates of normal scores, in one group
more than a pair needs to be distinguishable at all. Draws of items, which `rank show` also asks,
can only make pairs alike.

    python benchmarks/equal_entries.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from marked_tables import RESULTS, marked, replace_marked, table

from plugins.merging.competition.sign_flip import (
    LEVEL,
    holm,
    least_groups,
    sign_flip_p,
    sign_test_p,
)
from warehouse.files import write_whole
from warehouse.store.provenance import code_revision

ENTRIES = (4, 9, 20)
SETS, ITEMS = 2000, 200
BLOCK = "equal_entries.json"
OUT = Path(__file__).with_name(BLOCK)


def false_pairs(entries: int, units: str, sets: int) -> dict[str, Any]:
    """Shares of data sets with a false pair, of `units` items or groups."""
    draw = np.random.default_rng([entries, len(units)])
    one, other = np.triu_indices(entries, 1)
    smallest = []
    for _ in range(sets):
        if units == "items":
            right = draw.random((entries, ITEMS)) < draw.beta(2, 2, ITEMS)
            wins, losses = (
                (right[first] & ~right[second]).sum(axis=1)
                for first, second in ((one, other), (other, one))
            )
            p = sign_test_p(wins, losses)
        else:
            scores = draw.normal(size=(entries, least_groups(len(one)) + 1))
            rates = scores.argsort(axis=0).argsort(axis=0) / (entries - 1)
            p = sign_flip_p(rates[one] - rates[other])
        smallest.append((p.min() < LEVEL, holm(p).min() < LEVEL))
    unadjusted, adjusted = np.mean(smallest, axis=0).tolist()
    return {"entries": entries, "units": units, "sets": sets,
            "unadjusted": unadjusted, "adjusted": adjusted}  # fmt: skip


def results_block(record: dict[str, Any]) -> str:
    """The table as RESULTS.md shows it."""
    columns = {
        "equal entries:": "{entries}", "tested by": "{units}", "data sets:": "{sets:,}",
        "each pair at 5%:": "{unadjusted:.1%}", "adjusted (Holm):": "{adjusted:.1%}",
    }  # fmt: skip
    return marked(BLOCK, table(columns, record["cells"]))


def main() -> None:
    """Simulate, and write the figures and their table."""
    cells = [false_pairs(n, units, SETS) for units in ("items", "groups") for n in ENTRIES]
    record = {"revision": code_revision()["revision"], "cells": cells}
    write_whole(OUT, json.dumps(record, indent=1) + "\n")
    replace_marked(RESULTS, BLOCK, results_block(record))


if __name__ == "__main__":
    main()
