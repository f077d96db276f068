"""What `minimerge.py` measured, as docs/merging.md shows it."""

from __future__ import annotations

from typing import Any

import told

BLOCK = "benchmarks/minimerge.json"
SKILLS = ("reading", "maths", "code")


def tell(figures: dict[str, Any]) -> None:
    """Write the table anew in the page."""
    told.tell(told.ROOT / "docs" / "merging.md", BLOCK, docs_block(figures))


def docs_block(figures: dict[str, Any]) -> str:
    """Entries by their overall rank: scores with intervals, hidden accuracy, seconds."""
    accuracy = {(row["round"], row["task"], row["entry"]): row for row in figures["accuracy"]}
    of_round: dict[str, dict[str, dict[str, Any]]] = {}
    for row in figures["rankings"]:
        of_round.setdefault(row["round"], {})[row["entry"]] = row
    overall = sorted(of_round["overall"].values(), key=lambda row: (row["rank"], row["entry"]))
    seconds = {
        row["entry"]: row["seconds"] for row in figures["ranking_fronts"] if row["round"] == "final"
    }
    fast = {
        row["entry"]
        for row in figures["ranking_fronts"]
        if row["round"] == "final" and row["on_time_front"]
    }
    lines = [
        "| overall | entry | score | ranks it may have | open | leaderboard | final | "
        + " | ".join(f"{skill}, final" for skill in SKILLS)
        + " | s, final |",
        "|---:|---|---:|---|---:|---:|---:|" + "---:|" * (len(SKILLS) + 1),
    ]
    for row in overall:
        entry = row["entry"]
        ranks = [f"{of_round[name][entry]['rank']}" for name in ("open", "leaderboard", "final")]
        scores = [
            f"{accuracy['final', f'mini_final_{skill}', entry]['accuracy']:.2f}" for skill in SKILLS
        ]
        took = f"{seconds[entry]:.0f}{' (front)' if entry in fast else ''}"
        lines.append(
            f"| {row['rank']} | `{entry}` | {row['score']:.2f} "
            f"({row['score_low']:.2f} to {row['score_high']:.2f}) | "
            f"{row['rank_low']:.0f} to {row['rank_high']:.0f} | {' | '.join(ranks)} | "
            f"{' | '.join(scores)} | {took} |"
        )
    return told.block(BLOCK, lines)
