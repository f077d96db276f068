"""Numbers of a plan as its table shows them."""

from __future__ import annotations

from extract.planning.memory import Footprint

UNKNOWN = "unknown"


def amounts(tokens: int, rows: int, seconds: float | None) -> tuple[str, str, str]:
    """Tokens, rows and time; seconds are None where a model's size is not known."""
    if seconds is None:
        time = UNKNOWN
    elif seconds < 60:
        time = f"{seconds:.0f} s"
    else:
        time = f"{seconds / 3600:,.1f} h" if seconds >= 3600 else f"{seconds / 60:,.1f} min"
    return rounded(tokens), rounded(rows), time


def rounded(number: float, unit: str = "") -> str:
    """A number in thousands or millions."""
    if number < 1e6:
        return f"{number / 1e3:,.1f} k{unit}"
    return f"{number / 1e6:,.1f} M{unit}"


def gigabytes(size: int | None) -> str:
    """A size in GB; empty for 0 bytes, `unknown` for None."""
    return UNKNOWN if size is None else f"{size / 1e9:,.1f} GB" if size else ""


def gibibytes(peak: Footprint | None, assumed: bool) -> str:
    """A peak; `assumed` marks it as rough."""
    return UNKNOWN if peak is None else f"{'~' if assumed else ''}{peak.total / 2**30:.1f}"


def parts(peak: Footprint | None) -> str:
    """The parts of a peak: weights, KV cache, and activations with logits."""
    if peak is None:
        return UNKNOWN
    sizes = (peak.weights, peak.cache, peak.activations + peak.logits)
    return " + ".join(f"{size / 2**30:.1f}" for size in sizes)
