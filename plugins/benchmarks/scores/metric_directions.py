"""Direction of a metric from its name: whether higher or lower values are better.

Names and directions are those that lm-evaluation-harness registers (`lm_eval/api/metrics.py`,
0.4.13; `ppl` is its name before 0.4), and names of errors, losses and costs in common use. A name
that is not listed has no direction here: its table states it.
"""

from __future__ import annotations

import re
from typing import Literal

Direction = Literal["higher", "lower"]

_LOWER = re.compile(
    r"(.*_)?(perplexity|ppl|bits_per_\w+|bp[bc]|nll|loss|"
    r"cross_?entropy|brier(_score)?|error|err|error_rate|ece|calibration_error|[twcm]er|"
    r"r?mse|mae|latency|time|seconds|duration|cost|energy|emissions)"
    r"|(perplexity|ppl|bpb|nll|loss)_.*",
    re.IGNORECASE,
)
_HIGHER = re.compile(
    r"(.*_)?(acc|accuracy|exact_match|exact|em|f1|mcc|bleu|chrf(\+\+)?|rouge\w*|pass@\d+|"
    r"precision|recall|r2)|(acc|accuracy|exact_match|f1|bleu|rouge\w*)_.*|likelihood|score|bypass",
    re.IGNORECASE,
)


def direction_of(metric: str) -> Direction | None:
    """Which values are better; None if the name is not listed.

    Args:
        metric: its name, with or without a comma and an answer filter.
    """
    name = metric.partition(",")[0].strip()
    if _LOWER.fullmatch(name):
        return "lower"
    return "higher" if _HIGHER.fullmatch(name) else None
