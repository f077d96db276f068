"""Tables of `tokenmart e2lm curate`: the chosen items next to all and to random ones."""

from __future__ import annotations

from typing import Any

from warehouse.terminal import Column, print_columns, terminal_console

NAMES = {
    "sq": "SQ",
    "monotonicity": "monotonicity",
    "autocorrelation": "autocorrelation",
    "cs": "CS",
    "weighted": "weighted SQ and CS",
    "decision_accuracy": "decision accuracy",
}


def print_curation(curation: dict[str, Any]) -> None:
    """Print statistics of the chosen items on held-out models, and the items by group."""
    rows = {NAMES[name]: row for name, row in curation["held_out"].items() if row["compared"]}
    optimism = [row["optimism"] for row in rows.values()]
    console = terminal_console()
    columns = [
        Column("on held-out models", list(rows), text=True),
        *(
            Column(heading, [_number(row[key]) for row in rows.values()])
            for heading, key in (
                ("all\nitems", "all"),
                ("random\nitems", "random"),
                ("chosen", "chosen"),
                ("chosen,\nin sample", "in_sample"),
            )
        ),
        Column("95% of\nrandom items", [_span(row) for row in rows.values()]),
        Column("optimism", ["–" if each is None else f"{each:+.3f}" for each in optimism]),
        Column("better", [f"{row['better']} of {row['compared']}" for row in rows.values()]),
    ]
    print_columns(console, columns)
    for key, heading in (("by_subject", "subject"), ("by_length", "answer, characters")):
        groups = curation[key]
        if len(groups) < 2:
            continue
        console.print()
        columns = [
            Column(heading, [row["group"] for row in groups], text=True),
            Column("items", [str(row["items"]) for row in groups]),
            Column("chosen", [f"{row['share_chosen']:.0%}" for row in groups]),
            *(
                Column(name, [f"{row[field]:.3f}" for row in groups])
                for name, field in (
                    ("mean score", "score"),
                    ("rise", "rise"),
                    ("noise", "noise_variance"),
                )
            ),
        ]
        print_columns(console, columns)


def _span(row: dict[str, Any]) -> str:
    low, high = row["random_low"], row["random_high"]
    return "–" if low is None else f"{low:.3f} to {high:.3f}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
