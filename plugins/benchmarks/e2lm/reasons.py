"""Reason codes of `benchmark_signal` in words, for the terminal and the page."""

from __future__ import annotations

REASONS = {
    "few_early_checkpoints": "SQ needs 8 checkpoints in the early window",
    "constant_scores": "the score is the same at every early checkpoint",
    "constant_lags": "the score is constant over all early checkpoints but the first or last",
    "few_checkpoints": "fewer checkpoints than the noise is measured on",
    "zero_mean": "the mean of the scores is 0",
    "no_standard_error": "the table has no standard errors",
    "no_noise": "the last checkpoints are equal",
    "one_run": "only one run",
    "few_runs_over_training": "fewer than two runs have several checkpoints, and no two recipes "
    "have runs of two sizes",
    "few_runs_early": "fewer than two runs have a checkpoint in the early window; widen it "
    "(`early` in a problem file of kind table)",
    "no_later_checkpoints": "fewer than two runs have a checkpoint after the early window; end it "
    "earlier (`early` in a problem file of kind table), or add later checkpoints",
    "no_shared_checkpoints": "no two runs share checkpoints in and after the early window",
    "no_pairs": "no two runs have a score at both stages",
    "no_pair_of_recipes": "no runs of one size and architecture with the recipes science and web "
    "share an early checkpoint, or they have fewer than three",
    "no_sq": "SQ is undefined",
    "no_rc": "RC is undefined; --weights A 0 B leaves it out",
    "no_cs": "CS is undefined; --weights A B 0 leaves it out",
}
"""Code → words."""
