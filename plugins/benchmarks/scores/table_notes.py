"""Notes on a valid table of scores: what was assumed, averaged, or may be wrong in its rows.

A note is one sentence. `data fetch` prints and records the notes of a table.
"""

from __future__ import annotations

import duckdb
import pyarrow as pa

from plugins.benchmarks.scores.mixed_scales import mixed_scales
from warehouse.terminal import listed

MOST_NOTES = 5
_ENDS = """
    with series as (
        select
            full_id,
            benchmark,
            metric,
            max(coalesce(tokens, step)) as ending,
            count(*) as checkpoints,
            count(tokens) > 0 as has_tokens
        from scores
        where coalesce(tokens, step) is not null
        group by all
    ),

    runs as (
        select full_id, has_tokens, max(ending) as ending
        from series
        group by all
        having max(checkpoints) > 1
    )
"""


def early_ends(scores: pa.Table) -> tuple[str, ...]:
    """Notes on runs whose last score is before the end of training of most runs, or of the run.

    The last score is the final one all the same. Runs of different lengths have no note unless more
    than half of all runs end at one checkpoint.

    Args:
        scores: rows with the columns of `BENCHMARK_SCORES`.
    """
    with duckdb.connect() as connection:
        connection.register("scores", scores)
        of_runs = connection.execute(
            f"{_ENDS}, most as (select ending, has_tokens, count(*) as ending_there,"
            " (select count(*) from runs) as runs from runs group by all"
            " having 2 * count(*) > (select count(*) from runs))"
            " select runs.full_id, runs.ending, most.ending, has_tokens, ending_there, most.runs"
            " from runs inner join most using (has_tokens) where runs.ending < most.ending"
            " order by 1"
        ).fetchall()
        of_series = connection.execute(
            f"{_ENDS} select full_id, string_agg(distinct benchmark, ', ' order by benchmark),"
            " series.ending, runs.ending, has_tokens from series inner join runs"
            " using (full_id, has_tokens) where series.ending < runs.ending"
            " group by all order by all"
        ).fetchall()

    notes = [
        f"{run}: its last checkpoint is at {_at(ending, unit)}, but {count} of {runs} runs end at "
        f"{_at(expected, unit)}; its score at {_at(ending, unit)} is used as its final score. Add "
        "the missing checkpoint, or remove the run from the table"
        for run, ending, expected, unit, count, runs in of_runs
    ]
    notes += [
        f"{run}: its last score on {benchmarks} is at {_at(ending, unit)}, but the run ends at "
        f"{_at(expected, unit)}; that score is used as the final score. Add the missing scores"
        for run, benchmarks, ending, expected, unit in of_series
    ]
    more = [f"and {len(notes) - MOST_NOTES} more runs like these"] * (len(notes) > MOST_NOTES)
    return (*notes[:MOST_NOTES], *more)


def _at(place: float, has_tokens: bool) -> str:
    return f"{place / 1e9:g} billion tokens" if has_tokens else f"step {place:g}"


def scale_notes(connection: duckdb.DuckDBPyConnection, scores: str) -> tuple[str, ...]:
    """Notes on benchmarks with fractions and percent in one metric.

    Args:
        connection: with the table.
        scores: name of a table with full_id, benchmark, metric, direction and score.
    """
    groups = connection.execute(
        f"""
        select benchmark, metric, list(full_id order by full_id), list(score order by full_id)
        from {scores}
        where direction = 'higher'
        group by benchmark, metric
        having max(score) >= 10 and min(score) <= 1
        order by benchmark, metric
        """
    ).fetchall()
    notes = []
    for benchmark, metric, names, values in groups:
        rarer = mixed_scales(zip(names, values, strict=True))
        if rarer:
            notes.append(
                f"{benchmark}, {metric}: some scores are fractions and others percent, those of "
                f"{listed(rarer)} unlike most; multiply the fractions by 100, or divide the "
                "percent by 100"
            )
    more = [f"and {len(notes) - MOST_NOTES} more benchmarks and metrics of two scales"]
    return (*notes[:MOST_NOTES], *more * (len(notes) > MOST_NOTES))


def recipe_notes(connection: duckdb.DuckDBPyConnection, scores: str) -> tuple[str, ...]:
    """Notes if several runs of one recipe and size are averaged: where sizes are compared, and
    where CS compares science with web.

    Args:
        connection: with the table.
        scores: name of a table with the columns of `BENCHMARK_SCORES`.
    """
    notes = []
    found = connection.execute(
        f"""
        with groups as (
            select
                recipe,
                size,
                count(distinct full_id) as runs,
                count(distinct size) over (partition by recipe) as sizes
            from {scores}
            where recipe is not null and size is not null
            group by recipe, size
        )

        select recipe, size, runs, count(*) over () as groups
        from groups
        where runs > 1 and sizes > 1
        order by runs desc, recipe, size
        limit 1
        """
    ).fetchone()
    if found is not None:
        recipe, size, runs, groups = found
        where = f"{groups} recipes and sizes have" if groups > 1 else "one recipe and size has"
        notes.append(
            f"{where} several runs (recipe {recipe}, size {size}: {runs}); comparisons of sizes "
            "use the mean score of these runs"
        )
    paired = connection.execute(
        f"""
        select
            concat_ws(' ', size, architecture) as shape,
            count(distinct full_id) filter (where recipe = 'science') as science,
            count(distinct full_id) filter (where recipe = 'web') as web
        from {scores}
        group by shape
        having least(science, web) > 0 and science + web > 2
        order by shape
        """
    ).fetchall()
    notes += [
        f"{shape or 'no size'}: CS compares {science} science with {web} web "
        f"{'run' if web == 1 else 'runs'}; it uses the means over all pairs of them"
        for shape, science, web in paired
    ]
    return tuple(notes)


def family_notes(connection: duckdb.DuckDBPyConnection, scores: str) -> tuple[str, ...]:
    """A note if recipes, some of several runs, are the families of all runs.

    Args:
        connection: with the table.
        scores: name of a table with the columns of `BENCHMARK_SCORES`.
    """
    ((taken,),) = connection.execute(
        f"""
        select bool_and(coalesce(family = recipe, false)) and count(*) > count(distinct recipe)
        from (select distinct full_id, family, recipe from {scores})
        """
    ).fetchall()
    if not taken:
        return ()
    return (
        "family: the family of each run is its recipe, as it is where the column 'family' is "
        "missing or empty; runs of one recipe are compared 'in family'. If families are others, "
        "fill the column",
    )
