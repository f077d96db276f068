"""Metrics of logged samples as the harness computed them, for each item and for the task.

A line of samples has the output of `process_results` for its item; the file of results next to it
has the task's aggregates. Neither records the aggregation function: it is the one that the
harness's registry has for the metric's name, else the mean, and items have values only where it
gives the task's value.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from plugins.benchmarks.harness.aggregation import AGGREGATIONS, pairs_of
from plugins.benchmarks.harness.imports.sample_files import RunFacts, Sample
from plugins.benchmarks.refusal import refused

NO_RESULTS = "no results_<date>.json next to the samples has this metric"

_AGGREGATION = {
    "perplexity": "perplexity",
    "word_perplexity": "weighted_perplexity",
    "byte_perplexity": "weighted_perplexity",
    "bits_per_byte": "bits_per_byte",
    **dict.fromkeys(
        ("acc", "acc_norm", "acc_bytes", "acc_mutual_info", "exact_match", "em"), "mean"
    ),
}
"""Metrics that the harness's registry aggregates in the same way for every task."""


def logged_scores(samples: Sequence[Sample], facts: RunFacts) -> Iterator[dict[str, Any]]:
    """The metrics of one task in the columns of `eval_scores`, without those of the requests.

    Args:
        samples: samples of one file.
        facts: facts from the file of results next to it.

    Raises:
        TokenmartError: the accuracy in the file of results differs from that of the samples.
    """
    values_of: dict[tuple[str, str], list[tuple[int, Any]]] = {}
    for sample in samples:
        for metric, value in sample.metrics.items():
            values_of.setdefault((metric, sample.filter), []).append((sample.item, value))
    for (metric, filter_name), values in values_of.items():
        better = facts.better.get(metric)
        row: dict[str, Any] = dict.fromkeys(
            ("item", "value", "weight", "aggregate", "items", "reason")
        )
        row |= {
            "filter": filter_name,
            "metric": metric,
            "better": None if better is None else "higher" if better else "lower",
        }
        whole = facts.values.get(f"{metric},{filter_name}")
        number = float(whole) if isinstance(whole, int | float) and math.isfinite(whole) else None
        aggregation = AGGREGATIONS[_AGGREGATION.get(metric, "mean")]
        total, pairs = pairs_of(aggregation, [value for _, value in values])
        fits = total is not None and (
            whole is None and metric in _AGGREGATION
            if number is None
            else math.isclose(total, number, rel_tol=1e-6, abs_tol=1e-9)
        )
        if metric == "acc" and number is not None and total is not None and not fits:
            what = (
                f"the mean acc of the samples is {total:g}, in the file of results next to them "
                f"{number:g}: they are of different runs"
            )
            raise refused(samples[0].place, what, "other-run")
        if number is not None:
            yield {**row, "value": number, "items": len(values)}
        elif whole is not None:
            yield {**row, "reason": f"its value is {whole!r}"[:120] + ", not one finite number"}
        elif not fits:
            yield {**row, "reason": NO_RESULTS}
        if fits:
            for (item, _), (own_value, weight) in zip(values, pairs, strict=True):
                of_item = {"value": own_value, "weight": weight, "aggregate": aggregation[0]}
                yield {**row, "item": item, **of_item}
