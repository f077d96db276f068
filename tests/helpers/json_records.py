"""Reading what a command's `--json` prints, which the published schema describes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
from click.testing import Result

SCHEMA = Path(__file__).parents[2] / "docs" / "reference" / "records.schema.json"

SHAPES = {
    "doctor": "name finding is_missing",
    "data audit": (
        "model_id model condition state rows sampled differing largest_logprob mean_logprob "
        "largest_entropy mean_entropy other_ranks tolerance share_found cause planned tokens "
        "seconds seed"
    ),
    "extract": (
        "model model_id units units_done tokens seconds rows disk_bytes download_bytes peak_bytes "
        "is_assumed to_place"
    ),
    "recall": "model model_id is_measured reason",
    "status": (
        "model model_id condition done failed outdated over_limit cut tokens_read tokens_whole "
        "reasons on_request without_rows documents rows tokens_processed seconds bytes peak_bytes "
        "predicted_peak_bytes attention prefixes"
    ),
    "metrics show": (
        "metric variant family direction admissible needs caution formula description "
        "numerator denominator where aggregation transform tokens min_tokens "
        "min_document_tokens over core code"
    ),
    "compare": (
        "problem metric direction last_step model other_model value other_value difference "
        "ci95_low ci95_high p test documents higher lower"
    ),
    "submit": (
        "folder metric problem n pearson spearman spearman_ci95_low spearman_ci95_high "
        "skipped_spearman skipped_spearman_ci95_low skipped_spearman_ci95_high submission_sha256 "
        "target_sha256"
    ),
    "eval": "model model_id units units_there tokens reasons",
}
"""Command with a list of records → names that each record has, in their order."""


def records(done: Result, command: str, code: int = 0) -> list[dict[str, Any]]:
    """The records of a command, in its shape; its standard output is nothing else.

    Args:
        code: the command's exit status.
    """
    assert done.exit_code == code, done.output
    found: list[dict[str, Any]] = json.loads(done.stdout)
    jsonschema.validate(found, json.loads(SCHEMA.read_text("utf-8")))
    assert found and {" ".join(record) for record in found} == {SHAPES[command]}
    return found
