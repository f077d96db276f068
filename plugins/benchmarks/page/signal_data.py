"""Read the data of a benchmark table's page from the signal models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import duckdb

from plugins.benchmarks.e2lm.reasons import REASONS
from plugins.benchmarks.e2lm.scores import FEWEST_PAIRS

MOST_RUNS = 8
"""Maximum number of lines in a panel."""

MOST_POINTS = 30
"""Maximum number of checkpoints of a line, evenly spaced on the log scale."""

Z = 1.959964
"""Half the width of a 95% band, in standard errors."""

OF_RUNS = ("sq", "monotonicity", "autocorrelation", "noise_sd", "noise_relative", "sampling_error")
"""Statistics of single runs that the table averages."""

OF_BENCHMARKS = ("snr", "rc", "cs", "decision_accuracy", "decision_pairs", "earliest_share_95")
"""Statistics of all runs of a benchmark together."""


@dataclass(frozen=True)
class CurvePoint:
    """One checkpoint of one run; `error` is half the width of its 95% band, None if unknown."""

    run: str
    progress: float
    score: float
    error: float | None
    ends_window: bool


@dataclass(frozen=True)
class Curves:
    """A benchmark's scores over training, by one scoring method."""

    benchmark: str
    lower_is_better: bool
    points: tuple[CurvePoint, ...]


@dataclass(frozen=True)
class Statistic:
    """A value, or the reason why there is none; `low` and `high` are its range over runs."""

    value: float | None
    reason: str | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class SignalRow:
    """A benchmark by one scoring method, with statistics by name."""

    benchmark: str
    metric: str
    statistics: dict[str, Statistic]


@dataclass(frozen=True)
class DecisionCell:
    """Decision accuracy of a row (a benchmark, or a scoring method) at a stage, and its pairs."""

    row: str
    stage: str
    value: float
    pairs: int


@dataclass(frozen=True)
class SignalData:
    """All data of the page.

    metric: the scoring method of the curves. shown_runs: the runs with lines.
    unit: unit of progress, `tokens` or `steps`. banded: number of lines with a sampling error, and
        of all lines.
    decision_stage: stage of the decision accuracy in `rows`, such as 'at 50% of training'.
    decisions: benchmarks compared with their own final scores. by_method: scoring methods compared
        with the final score by the target's method.
    """

    title: str
    description: str
    source: str
    metric: str
    metrics: tuple[str, ...]
    runs: int
    shown_runs: tuple[str, ...]
    unit: str
    banded: tuple[int, int]
    curves: tuple[Curves, ...]
    rows: tuple[SignalRow, ...]
    decision_stage: str
    decisions: tuple[DecisionCell, ...]
    by_method: tuple[DecisionCell, ...]


def gather_signal(
    database: duckdb.DuckDBPyConnection,
    title: str,
    description: str,
    metric: str,
    benchmarks: tuple[str, ...],
) -> SignalData:
    """Read the models of one problem.

    Args:
        database: contains `benchmark_signal`, `int_benchmark_series` and `int_benchmark_decisions`
            of one problem.
        title: title of the page.
        description: description of the table.
        metric: the scoring method of the curves.
        benchmarks: benchmarks of curves and decisions; if empty, all that have the metric.
    """
    chosen = list(benchmarks) or _column(
        database,
        "select distinct benchmark from int_benchmark_series where metric = $metric order by 1",
        {"metric": metric},
    )
    shown = _shown_runs(database)
    (in_tokens,) = _column(database, "select bool_or(tokens is not null) from benchmark_scores")
    ((source, path, licence),) = database.execute(
        "select source, path, licence from benchmark_tables"
    ).fetchall()
    return SignalData(
        title=title,
        description=description,
        source=f"{source or path} ({licence})" if licence != "unknown" else source or path,
        metric=metric,
        metrics=tuple(_column(database, "select distinct metric from benchmark_scores order by 1")),
        runs=len(_column(database, "select distinct model_id from benchmark_scores")),
        shown_runs=shown,
        unit="tokens" if in_tokens else "steps",
        banded=_banded(database, shown, metric, chosen),
        curves=tuple(_curves(database, shown, metric, chosen)),
        rows=tuple(_rows(database)),
        decision_stage=_decision_stage(database),
        decisions=_decisions(database, metric, chosen),
        by_method=_by_method(database, chosen),
    )


def _column(
    database: duckdb.DuckDBPyConnection, sql: str, values: dict[str, Any] | None = None
) -> list[Any]:
    return [row[0] for row in database.execute(sql, values or {}).fetchall()]


def _shown_runs(database: duckdb.DuckDBPyConnection) -> tuple[str, ...]:
    """Longest run of each size, architecture and recipe, smallest first, at most `MOST_RUNS`."""
    names = _column(
        database,
        """
        with runs as (
            select
                full_id,
                coalesce(nullif(concat_ws(' ', size, architecture, recipe), ''), full_id) as kind,
                max(parameters) as parameters,
                any_value(size) as size,
                max(progress) as progress
            from int_benchmark_series
            where checkpoints > 1
            group by full_id, kind
        ),

        longest as (
            select *
            from runs
            qualify row_number() over (partition by kind order by progress desc, full_id) = 1
        )

        select full_id
        from longest
        order by parameters nulls last, size, full_id
        """,
    )
    if len(names) <= MOST_RUNS:
        return tuple(names)
    step = (len(names) - 1) / (MOST_RUNS - 1)
    return tuple(names[round(step * place)] for place in range(MOST_RUNS))


def _curves(
    database: duckdb.DuckDBPyConnection, runs: tuple[str, ...], metric: str, benchmarks: list[str]
) -> list[Curves]:
    rows = database.execute(
        f"""
        with points as (
            select
                series.*,
                {Z} * coalesce(stderr, signal.value) as error,
                early_checkpoint is not null
                and early_checkpoint = max(early_checkpoint) over run as ends_window,
                -- the last checkpoint of each part of the log scale, and both ends
                floor({MOST_POINTS} * ln(progress / min(progress) over run)
                    / nullif(ln(max(progress) over run / min(progress) over run), 0)) as part
            from int_benchmark_series as series
            left join benchmark_signal as signal
                on series.full_id = signal.model
                and series.benchmark = signal.benchmark
                and series.metric = signal.metric
                and signal.statistic = 'noise_sd'
            where series.metric = $metric
                and series.benchmark in (select unnest($benchmarks))
                and series.full_id in (select unnest($runs))
                and progress > 0
                and checkpoints > 1
            window run as (partition by series.model_id, series.benchmark)
        )

        select benchmark, full_id, progress, score, error, ends_window, direction = 'lower'
        from points
        qualify ends_window or row_number() over (
            partition by benchmark, full_id, part order by progress desc
        ) = 1 or row_number() over (partition by benchmark, full_id order by progress) = 1
        order by benchmark, progress
        """,
        {"metric": metric, "benchmarks": benchmarks, "runs": list(runs)},
    ).fetchall()
    found: dict[str, list[CurvePoint]] = {}
    lower: dict[str, bool] = {}
    for benchmark, *point, lower_is_better in rows:
        found.setdefault(benchmark, []).append(CurvePoint(*point))
        lower[benchmark] = lower_is_better
    return [Curves(name, lower[name], tuple(points)) for name, points in found.items()]


def _banded(
    database: duckdb.DuckDBPyConnection, runs: tuple[str, ...], metric: str, benchmarks: list[str]
) -> tuple[int, int]:
    """Number of lines with a sampling error, and of all lines."""
    rows = database.execute(
        "select count(*) filter (where has), count(*) from ("
        " select bool_or(stderr is not null) as has from int_benchmark_series"
        " where metric = $metric and benchmark in (select unnest($benchmarks))"
        " and full_id in (select unnest($runs)) group by full_id, benchmark)",
        {"metric": metric, "benchmarks": benchmarks, "runs": list(runs)},
    ).fetchall()
    return int(rows[0][0]), int(rows[0][1])


def _rows(database: duckdb.DuckDBPyConnection) -> list[SignalRow]:
    """Every benchmark and scoring method, the highest decision accuracy first."""
    rows = database.execute(
        """
        select
            benchmark,
            metric,
            statistic,
            avg(value),
            -- several runs may have several reasons
            min(reason),
            case when count(model) > 1 then min(value) end,
            case when count(model) > 1 then max(value) end
        from benchmark_signal
        where statistic in (select unnest($names))
        group by benchmark, metric, statistic
        """,
        {"names": [*OF_RUNS, *OF_BENCHMARKS]},
    ).fetchall()
    found: dict[tuple[str, str], dict[str, Statistic]] = {}
    for benchmark, metric, statistic, value, reason, low, high in rows:
        known = None if value is not None else REASONS.get(reason, reason)
        found.setdefault((benchmark, metric), {})[statistic] = Statistic(value, known, low, high)
    few = Statistic(None, f"fewer than {FEWEST_PAIRS} pairs")
    for statistics in found.values():
        pairs = statistics["decision_pairs"].value
        if pairs is not None and pairs < FEWEST_PAIRS:
            statistics["decision_accuracy"] = few
    named = [SignalRow(*key, statistics) for key, statistics in found.items()]

    def place(row: SignalRow) -> tuple[float, str, str]:
        value = row.statistics["decision_accuracy"].value
        return (1.0 if value is None else -value, row.benchmark, row.metric)

    return sorted(named, key=place)


def _decision_stage(database: duckdb.DuckDBPyConnection) -> str:
    """Stage of the statistic `decision_accuracy`; empty if no benchmark has one."""
    ((tokens, share, size),) = database.execute(
        "select early_until_tokens, early_until_share, target_size from benchmark_tables"
    ).fetchall()
    kinds = _column(database, "select distinct kind from int_benchmark_decisions")
    if "early" in kinds:
        if share is not None:
            return f"at {100 * share:g}% of training"
        if tokens is not None:
            return f"at {tokens / 1e9:g} billion tokens"
        return "at the end of the early window"
    return f"from the smallest size to {size or 'the largest'}" if "size" in kinds else ""


_STAGE = "case kind when 'size' then concat(stage, ' → ', later_stage) else stage end"
_TENTHS = f"""pairs >= {FEWEST_PAIRS} and (
    kind = 'size'
    or kind = 'share' and (round(100 * position) in (5, 25) or round(100 * position) % 10 = 0)
)"""


def _decisions(
    database: duckdb.DuckDBPyConnection, metric: str, benchmarks: list[str]
) -> tuple[DecisionCell, ...]:
    rows = database.execute(
        f"select benchmark, {_STAGE}, agreement, pairs from int_benchmark_decisions"
        f" where metric = $metric and later_metric = metric and {_TENTHS}"
        " and benchmark in (select unnest($benchmarks))"
        " order by benchmark, position, later_position",
        {"metric": metric, "benchmarks": benchmarks},
    ).fetchall()
    return tuple(DecisionCell(*row) for row in rows)


def _by_method(
    database: duckdb.DuckDBPyConnection, benchmarks: list[str]
) -> tuple[DecisionCell, ...]:
    """Mean decision accuracy over the benchmarks that every scoring method has."""
    rows = database.execute(
        f"""
        with decisions as (
            select
                metric,
                benchmark,
                {_STAGE} as stage,
                position,
                later_position,
                agreement,
                pairs
            from int_benchmark_decisions
            inner join benchmark_tables using (problem)
            where later_metric = target_metric and {_TENTHS}
                and benchmark in (select unnest($benchmarks))
        ),

        shared as (
            select benchmark
            from decisions
            group by benchmark
            having count(distinct metric) = (select count(distinct metric) from decisions)
        )

        select metric, stage, avg(agreement), sum(pairs)
        from decisions
        semi join shared using (benchmark)
        group by metric, stage
        order by metric, avg(position), avg(later_position)
        """,
        {"benchmarks": benchmarks},
    ).fetchall()
    methods = {row[0] for row in rows}
    return tuple(DecisionCell(*row) for row in rows) if len(methods) > 1 else ()
