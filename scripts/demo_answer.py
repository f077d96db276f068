"""What `make demo` has computed, next to what the study of 23 models found: the demo's last lines.

The eight models' correlations are computed here, from the demo's tokens. Their recall, the target,
and everything about the 23 models is read from studies/minilong, where it was measured.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tokenmart as tm

STUDY = Path(__file__).resolve().parents[1] / "studies" / "minilong"
BASELINE = "bits_per_byte"
METRICS = {
    "retrieval_gain": ("retrieval gain", "retrieval_gain/mean"),
    "retrieval_recall": ("retrieval recall", "retrieval_recall/exact_match"),
    "longppl_external": ("LongPPL as published", "longppl_external/largest_alpha_2_beta_-2"),
    BASELINE: ("bits per byte (baseline)", "perplexity/bits_per_byte"),
}
"""Short name in the study → name, and metric and variant without its probe."""


def estimate(value: float | None, low: float | None, high: float | None) -> str:
    """A correlation with its interval; a dash where there is none."""
    if value is None or value != value:
        return "–"
    return f"{value:+.2f}" + ("" if low is None else f" ({low:+.2f} to {high:+.2f})")


def here(rows: list[dict[str, Any]], name: str) -> str:
    """The demo's correlation of a metric."""
    for row in rows:
        if f"{row['metric']}/{row['variant']}".partition("@")[0] == name:
            return estimate(row["spearman"], row["ci95_low"], row["ci95_high"])
    return "–"


def main() -> None:
    """Print the answer."""
    study = json.loads((STUDY / "figures.json").read_text("utf-8"))
    rows = tm.correlate(None, "demo").to_pylist()
    (counted,) = tm.query(
        "select count(*) as tokens, count(distinct model_id) as models from tokens "
        "where problem = 'demo'"
    ).to_pylist()
    models, count = counted["models"], study["models"]
    print()
    print(f"Computed here: {counted['tokens']:,} token scores of {models} models, and correlations")
    print("with recall at 2k to 8k tokens. Measured before (studies/minilong): this target,")
    print(f"and all of {count} models. 95% intervals, here for all metrics together.")
    print(f"{'':26}{models} models, here".ljust(54) + f"{count} models, committed")
    for short, (label, name) in METRICS.items():
        known = study["spearman"][short]
        print(f"{label:26}{here(rows, name):28}{estimate(known['all'], *known['interval'])}")
    print(f"{models} models can't distinguish metrics. With {count}, retrieval gain tracks recall;")
    print("its lead over bits per byte isn't certain. Pictures: report.html and")
    print("studies/minilong/recall.svg; the whole result: studies/minilong/README.md")


if __name__ == "__main__":
    main()
