"""What an exact divergence from a reference costs, compared with scoring both models."""

from __future__ import annotations

from typing import Any

from gpu_subjects import Subject, conditions_of, forwards, requests_of, score
from gpu_table import Bench, Row, give_back, measure


def divergence(bench: Bench, subject: Subject, count: int) -> None:
    """Time a model against another one of its shape, once scored apart and once compared."""
    from extract.scoring.divergence import Comparer, states_of
    from extract.scoring.engine import Engine

    name = subject.spec.full_id
    if not bench.fits("divergence", f"{name}, {count:,} tokens", 20 * forwards(subject, [count])):
        return
    tokens = subject.tokens(count)
    (request,) = requests_of(conditions_of(bench, "full"), tokens)
    engine = Engine(subject.load(bench.dtype), fused=bench.fused)
    reference = Engine(subject.load(bench.dtype, 1), fused=bench.fused)

    def both() -> None:
        for each in (engine, reference):
            score(each, conditions_of(bench, "full"), tokens)

    comparer = Comparer(engine, reference.head_weights)

    def compared() -> Any:
        return comparer.score(request, states_of(reference, request))

    plain, _ = measure(both, bench.device, bench.size.repeats)
    give_back(bench.device)
    seconds, peak = measure(compared, bench.device, bench.size.repeats)
    times = seconds / plain
    bench.add(Row("divergence", name, bench.dtype, count, "both models scored", seconds=plain))
    bench.add(
        Row("divergence", name, bench.dtype, count, "both, with their divergence", seconds=seconds,
            times_ours=times, peak_bytes=peak)
    )  # fmt: skip
