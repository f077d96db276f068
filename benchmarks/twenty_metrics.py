"""The same twenty metrics three times: DuckDB, polars and pandas, straight from Parquet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl

Values = dict[str, list[float]]
"""Model → its twenty values."""

ALPHAS = (0.5, 1.0, 2.0)


def with_duckdb(tokens: Path) -> Values:
    """One query."""
    key = "long.logprob::double - short.logprob::double > {} and long.logprob > -2"
    longppl = ",\n".join(
        f"exp(avg(-long.logprob::double) filter (where {key.format(a)})), "
        f"avg(({key.format(a)})::int)"
        for a in ALPHAS
    )
    rows = duckdb.execute(f"""
        with tokens as not materialized (
            select * from read_parquet('{tokens}/problem=s*/**/*.parquet', hive_partitioning = true)
        ),
        long as (select * from tokens where condition = 'full'),
        short as (select * from tokens where starts_with(condition, 'window')),
        pairs as (
            select
                long.*,
                short.logprob as short_logprob,
                short.entropy as short_entropy,
                short.rank as short_rank
            from long inner join short using (model_id, doc_id, position)
        )
        select
            model_id,
            exp(avg(-long.logprob::double)),
            avg(-long.short_logprob::double),
            avg(long.logprob::double - long.short_logprob::double) as gain,
            avg((long.logprob::double > long.short_logprob::double)::int),
            avg(greatest(-1, least(1, long.logprob::double - long.short_logprob::double))),
            avg(long.entropy::double),
            avg(long.short_entropy::double - long.entropy::double),
            avg((long.rank = 1)::int),
            avg((long.rank <= 5)::int),
            avg(1 / long.rank),
            avg((long.rank = 1)::int) - avg((long.short_rank = 1)::int),
            avg(long.top_logprob::double),
            avg(-long.logprob::double) filter (where long.position >= 16384),
            sum(
                least(exp(long.logprob::double - long.short_logprob::double), 5)
                * -long.logprob::double
            ) / sum(least(exp(long.logprob::double - long.short_logprob::double), 5)),
            {longppl.replace("short.logprob", "long.short_logprob")}
        from pairs as long
        group by model_id
    """).fetchall()
    return {model: [float("nan") if v is None else float(v) for v in row] for model, *row in rows}


def with_polars(tokens: Path) -> Values:
    """One lazy query on the streaming engine."""
    frame = pl.scan_parquet(f"{tokens}/problem=s*/**/*.parquet", hive_partitioning=True)
    names = ("logprob", "entropy", "rank", "top_logprob")
    keys = ["model_id", "doc_id", "position"]
    long = frame.filter(pl.col("condition") == "full").select(*keys, *names)
    short = frame.filter(pl.col("condition").str.starts_with("window")).select(*keys, *names[:3])
    pairs = long.join(short, on=keys, suffix="_short").with_columns(
        pl.col("logprob", "entropy", "top_logprob", "logprob_short", "entropy_short").cast(
            pl.Float64
        )
    )
    nll = -pl.col("logprob")
    gain = pl.col("logprob") - pl.col("logprob_short")
    weight = gain.exp().clip(upper_bound=5)
    key = {a: (gain > a) & (pl.col("logprob") > -2) for a in ALPHAS}
    first, first_short = pl.col("rank") == 1, pl.col("rank_short") == 1
    expressions = [
        nll.mean().exp(),
        -pl.col("logprob_short").mean(),
        gain.mean(),
        (gain > 0).mean(),
        gain.clip(-1, 1).mean(),
        pl.col("entropy").mean(),
        (pl.col("entropy_short") - pl.col("entropy")).mean(),
        first.mean(),
        (pl.col("rank") <= 5).mean(),
        (1 / pl.col("rank")).mean(),
        first.mean() - first_short.mean(),
        pl.col("top_logprob").mean(),
        nll.filter(pl.col("position") >= 16384).mean(),
        (weight * nll).sum() / weight.sum(),
    ]
    for mask in key.values():
        expressions += [nll.filter(mask).mean().exp(), mask.mean()]
    numbered = [e.alias(f"v{i}") for i, e in enumerate(expressions)]
    rows = pairs.group_by("model_id").agg(numbered).collect(engine="streaming").rows()
    return {model: [float("nan") if v is None else float(v) for v in row] for model, *row in rows}


def with_pandas(tokens: Path) -> Values:
    """One model at a time: all of them would not fit in memory."""
    names = ["doc_id", "position", "logprob", "entropy", "rank", "top_logprob"]
    values: Values = {}
    for folder in sorted(tokens.glob("problem=s*/model_id=*")):
        long = pd.read_parquet(folder / "condition=full" / "tokens.parquet", columns=names)
        short = pd.read_parquet(
            next(folder.glob("condition=window*")) / "tokens.parquet", columns=names[:-1]
        )
        pairs = long.merge(short, on=["doc_id", "position"], suffixes=("", "_short"))
        logprob = pairs.logprob.to_numpy(np.float64)
        gain = logprob - pairs.logprob_short.to_numpy(np.float64)
        entropy = pairs.entropy.to_numpy(np.float64)
        rank, rank_short = pairs["rank"].to_numpy(), pairs.rank_short.to_numpy()
        weight = np.minimum(np.exp(gain), 5)
        late = pairs.position.to_numpy() >= 16384
        row = [
            np.exp(-logprob.mean()),
            -pairs.logprob_short.to_numpy(np.float64).mean(),
            gain.mean(),
            (gain > 0).mean(),
            np.clip(gain, -1, 1).mean(),
            entropy.mean(),
            (pairs.entropy_short.to_numpy(np.float64) - entropy).mean(),
            (rank == 1).mean(),
            (rank <= 5).mean(),
            (1 / rank).mean(),
            (rank == 1).mean() - (rank_short == 1).mean(),
            pairs.top_logprob.to_numpy(np.float64).mean(),
            -logprob[late].mean() if late.any() else np.nan,
            -(weight * logprob).sum() / weight.sum(),
        ]
        for alpha in ALPHAS:
            key = (gain > alpha) & (logprob > -2)
            row += [np.exp(-logprob[key].mean()) if key.any() else np.nan, key.mean()]
        values[folder.name.removeprefix("model_id=")] = [float(value) for value in row]
    return values


ENGINES: dict[str, Callable[[Path], Values]] = {
    "duckdb": with_duckdb,
    "polars": with_polars,
    "pandas": with_pandas,
}


def largest_difference(one: Values, other: Values) -> float:
    """The largest relative difference between two engines' values."""
    if set(one) != set(other):
        raise ValueError("the engines saw different models")
    a, b = (np.array([values[model] for model in sorted(one)]) for values in (one, other))
    if not (np.isnan(a) == np.isnan(b)).all():
        raise ValueError("the engines disagree on which values exist")
    return float(np.nanmax(np.abs(a - b) / np.maximum(np.abs(a), 1e-300)))
