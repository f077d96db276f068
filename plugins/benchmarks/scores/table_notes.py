"""Notes on a valid table of scores: what was assumed, or may be wrong in its rows.

A note is one sentence. `data fetch` prints and records the notes of a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import duckdb

from plugins.benchmarks.scores.metric_directions import Direction
from plugins.benchmarks.scores.mixed_scales import mixed_scales
from plugins.benchmarks.scores.score_table import FEWEST_TOKENS
from warehouse.terminal import listed

MOST_NOTES = 5
"""Of one kind."""


def notes_on(
    connection: duckdb.DuckDBPyConnection, scores: str, assumed: Mapping[str, Direction]
) -> tuple[str, ...]:
    """Notes on directions, units, scales and the ends of runs.

    Args:
        connection: with the table.
        scores: name of a table with the columns of `BENCHMARK_SCORES`, or of `MODEL_SCORES`.
        assumed: metric → direction, of those that the table doesn't state.
    """
    over_training = "tokens" in connection.table(scores).columns
    notes = [
        f"{metric}: {direction} is taken as better, by name, because the table's column "
        "'direction' is missing or empty; if that is wrong, fill it (higher or lower)"
        for metric, direction in sorted(assumed.items())
    ]
    notes += list(_mixed_scales(connection, scores))[:MOST_NOTES]
    if over_training:
        ((most,),) = connection.execute(f"select max(tokens) from {scores}").fetchall()
        if most and most < FEWEST_TOKENS:
            notes.append(
                f"tokens: {most:.15g} at most, taken as single tokens; if these are billions, name "
                "the column 'tokens_bt'"
            )
        notes += list(_early_ends(connection, scores))[:MOST_NOTES]
    return tuple(notes)


def _mixed_scales(connection: duckdb.DuckDBPyConnection, scores: str) -> Iterator[str]:
    """Benchmarks with fractions and percent in one metric."""
    groups = connection.execute(
        f"""
        select benchmark, metric, list(full_id order by full_id), list(score order by full_id)
        from {scores}
        where direction = 'higher'
        group by benchmark, metric
        order by benchmark, metric
        """
    ).fetchall()
    for benchmark, metric, names, values in groups:
        if rarer := mixed_scales(zip(names, values, strict=True)):
            yield (
                f"{benchmark}, {metric}: some scores are fractions and others percent, those of "
                f"{listed(rarer)} unlike most"
            )


def _early_ends(connection: duckdb.DuckDBPyConnection, scores: str) -> Iterator[str]:
    """Series whose last score is before the end of their run, or of most runs.

    The last score is the final one all the same. Runs of different lengths have no note unless more
    than half of all runs end at one checkpoint.
    """
    rows = connection.execute(
        f"""
        with series as (
            select
                full_id,
                benchmark,
                max(coalesce(tokens, step)) as ending,
                count(*) as checkpoints,
                count(tokens) > 0 as has_tokens
            from {scores}
            where coalesce(tokens, step) is not null
            group by full_id, benchmark, metric
        ),

        runs as (
            select full_id, has_tokens, max(ending) as ending
            from series
            group by all
            having max(checkpoints) > 1
        ),

        usual as (
            select has_tokens, ending
            from runs
            group by all
            having 2 * count(*) > (select count(*) from runs)
        ),

        expected as (
            select full_id, greatest(runs.ending, coalesce(usual.ending, 0)) as ending
            from runs
            left join usual using (has_tokens)
        )

        select
            full_id,
            string_agg(distinct benchmark, ', ' order by benchmark),
            series.ending,
            expected.ending,
            has_tokens
        from series
        inner join expected using (full_id)
        where series.ending < expected.ending
        group by all
        order by all
        """
    ).fetchall()
    for run, benchmarks, ending, expected, has_tokens in rows:
        at, end = (
            f"{place / 1e9:g} billion tokens" if has_tokens else f"step {place:g}"
            for place in (ending, expected)
        )
        yield (
            f"{run}: its last score on {benchmarks} is at {at}, the end is at {end}; that score is "
            "used as its final score"
        )
