"""What the committed tables of a problem say, as plain values: every figure that is told of it."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
from scipy.stats import rankdata

from analysis.ranking import (
    DocumentNoise,
    Leaderboard,
    LeaderboardRow,
    MetricColumn,
    MetricSelection,
    MetricTable,
    document_noise,
    load_table,
    number,
    parts_reader,
    rank_metrics,
    select_metric,
)
from analysis.ranking.registered import registered_record
from analysis.results.sensitivity import Without, by_part, kinds_left_out
from analysis.results.sufficiency import sufficiency
from analysis.results.tables import Frozen, frozen_parts, open_tables
from analysis.results.target import parts_of_target, target_figures
from analysis.statistics import Floats, Interval, lead_over
from warehouse.problem.table_problem import load_ranked
from warehouse.sql.connection import connect_read_only

if TYPE_CHECKING:
    from analysis.ranking.documents import PartsOf
    from warehouse.paths import Workspace

SHOWN = 5
"""So many metrics, each by its best variant, are told from the top of the ranking."""


def study(tables: Frozen, workspace: Workspace, seed: int = 0) -> dict[str, Any]:
    """Rank, select and test on the tables of a problem.

    Args:
        tables: from `frozen`.
        workspace: the checkout, for the problem file and pre-registrations.
        seed: of permutations, splits and draws.

    Returns:
        JSON-ready. Times are in seconds, Spearman correlations positive as the catalogue expects.

    Raises:
        TokenmartError: the tables lack what the analysis needs.
    """
    with open_tables(tables, workspace) as own:
        problem = load_ranked(tables.manifest["problem"], workspace)
        table = load_table(problem, own)
        late = [said for said in table.registered if _is_late(said.entry.recorded_at, tables)]
        # what was said when the scores lay here is no prediction, and costs the others nothing
        table = replace(table, registered=tuple(x for x in table.registered if x not in late))
        parts_of = parts_reader(own, table)
        assert parts_of is not None
        board = rank_metrics(table, seed, resamples=1, top=0)
        selection = select_metric(table, seed, parts_of=parts_of)
        with connect_read_only(own) as connection:
            target = target_figures(connection, table, problem)
            parts = parts_of_target(connection, table, problem)
            cost = _cost(connection)
        told = _told(selection, table)
        noise = {name: _noise(each, table, parts_of, seed) for name, each in told.items()}
        documents = {name: _documents(each, table, parts_of, seed) for name, each in told.items()}
        misplaced = {name: _misplaced(each, table) for name, each in told.items()}
        hangs_on = {name: _hangs_on(each, table, parts) for name, each in told.items()}
    best = _best_of_each(board)
    return {
        "problem": table.problem,
        "frozen_at": tables.manifest["frozen_at"],
        "revision": tables.manifest["revision"],
        "seed": seed,
        "models": len(table.models),
        "families": selection.families,
        "kinds": selection.kinds,
        "metrics": len(best),
        "tries": table.tries["all"],
        "luck_reaches": number(board.inference.least_rho),
        "noise_ceiling": number(selection.noise_ceiling),
        "models_worth": number(selection.new_family.worth),
        "tracks_target": [c.column.name for c in selection.tracking],
        "not_distinguishable_from_best": [c.column.name for c in selection.near_best],
        "registered": [registered_record(result) for result in selection.registered],
        "registered_late": [
            {"metric": said.metric.name, "entry": said.entry.number} for said in late
        ],
        "rows": [_row(row) for row in best[:SHOWN]],
        "baseline": None if selection.baseline is None else selection.baseline.name,
        "plain": _plain(board),
        "told": noise,
        "lead": _lead(selection, table, seed),
        "misplaced": misplaced,
        "hangs_on": hangs_on,
        "documents": documents,
        "target": target,
        "cost": cost | _parts(tables),
    }


def _is_late(recorded_at: str, tables: Frozen) -> bool:
    """Whether something was registered when the target's scores were frozen already."""
    first = min(part["frozen_at"] for part in frozen_parts(tables) if part["target"])
    return datetime.fromisoformat(recorded_at) > datetime.fromisoformat(first)


def _best_of_each(board: Leaderboard) -> list[LeaderboardRow]:
    """The first admissible variant of each metric, best first."""
    found: dict[str, LeaderboardRow] = {}
    for row in board.rows:
        if row.column.admissible and not math.isnan(row.p_adjusted):
            found.setdefault(row.column.metric, row)
    return list(found.values())


def _told(selection: MetricSelection, table: MetricTable) -> dict[str, MetricColumn]:
    """The variants that are told of in detail: foretold, best, and the baseline."""
    names = {column.name: column for column in table.columns}
    found = {
        result.said.metric.name: names[result.said.metric.name]
        for result in selection.registered
        if result.said.metric.name in names
    }
    found.setdefault(selection.best.column.name, selection.best.column)
    if selection.baseline is not None:
        found.setdefault(selection.baseline.name, selection.baseline)
    return found


def _row(row: LeaderboardRow) -> dict[str, Any]:
    return {
        "metric": row.column.metric,
        "variant": row.column.variant,
        "better": row.column.direction,
        "held_out": number(row.held_out),
        "spearman": number(row.rho),
        "low": number(row.interval.low),
        "high": number(row.interval.high),
        "within_families": number(row.within_families.value),
        "p_adjusted": number(row.p_adjusted),
    }


def _plain(board: Leaderboard) -> dict[str, Any]:
    """What a table of plain correlations reports: each variant as if it had been tried alone."""
    rows = [r for r in board.rows if r.column.admissible and not math.isnan(r.p_single)]
    first = max(rows, key=lambda row: abs(row.rho))
    return {
        "metric": first.column.name,
        "spearman": number(first.rho),
        "p_single": number(first.p_single),
        "p_adjusted": number(first.p_adjusted),
        "held_out": number(first.held_out),
        "variants": len(rows),
        "below_5_percent_alone": sum(row.p_single < 0.05 for row in rows),
        "below_5_percent_adjusted": sum(row.p_adjusted < 0.05 for row in rows),
    }


def _misplaced(column: MetricColumn, table: MetricTable) -> list[dict[str, Any]]:
    """Per kind: by how many places a variant puts its models higher than the target does."""
    here = np.flatnonzero(column.present)
    places = rankdata(column.oriented[here]) - rankdata(table.target[here])
    kinds: dict[str, list[float]] = {}
    for model, by in zip(here, places, strict=True):
        kinds.setdefault(table.models[model].kind, []).append(float(by))
    found = [
        {"kind": kind, "models": len(each), "places": number(float(np.mean(each)))}
        for kind, each in kinds.items()
    ]
    return sorted(found, key=lambda row: (-row["places"], row["kind"]))


def _hangs_on(
    column: MetricColumn, table: MetricTable, parts: dict[str, dict[str, Floats]]
) -> dict[str, Any] | None:
    """Spearman without kinds of models, and with parts of the target."""
    if not column.present.all():
        return None
    kinds = kinds_left_out(column.oriented, table.target, [m.kind for m in table.models])

    def told(without: Without | None) -> dict[str, Any] | None:
        return None if without is None else asdict(without) | {"spearman": number(without.spearman)}

    return {
        "without": [told(each) for each in kinds.each],
        "lowest_without_two": told(kinds.lowest),
        "highest_without_two": told(kinds.highest),
        **{
            what: {name: number(rho) for name, rho in by_part(column.oriented, scores).items()}
            for what, scores in parts.items()
        },
    }


def _lead(selection: MetricSelection, table: MetricTable, seed: int) -> dict[str, Any] | None:
    """By how much the first metric that was foretold correlates better than the baseline.

    Series of doses are drawn as wholes: families, two here, would be too few.
    """
    names = {column.name: column for column in table.columns}
    found = [names[each.said.metric.name] for each in selection.registered
             if each.said.metric.name in names and each.said.counts]  # fmt: skip
    base = selection.baseline
    if not found or base is None or not (found[0].present & base.present).all():
        return None
    lead = lead_over(
        found[0].oriented, base.oriented, table.target, table.families, table.series, seed
    )
    return {
        "metric": found[0].name,
        "value": number(lead.value),
        "series": lead.series,
        "interval": _ends(lead.interval),
    }


def _noise(
    column: MetricColumn, table: MetricTable, parts_of: PartsOf, seed: int
) -> dict[str, Any] | None:
    """Both sources of noise: intervals over models, over documents, and over both."""
    found: DocumentNoise | None = document_noise(parts_of(column), table, column, seed)
    if found is None:
        return None
    sources = found.sources
    return {
        "better": column.direction,
        "values": {
            model.full_id: number(float(value))
            for model, value, here in zip(table.models, column.values, column.present, strict=True)
            if here
        },
        "spearman": number(sources.value),
        "models": _ends(sources.models),
        "documents": _ends(sources.documents),
        "both": _ends(sources.both),
        "reliability": number(sources.reliability),
        "soft_pairs": number(found.soft_pairs),
    }


def _documents(
    column: MetricColumn, table: MetricTable, parts_of: PartsOf, seed: int
) -> list[dict[str, Any]]:
    parts = parts_of(column)
    here = column.present
    if parts is None or here.sum() < 3:
        return []
    own = parts.pick(np.flatnonzero(here), np.arange(parts.documents))
    return [
        {
            name: number(value) if isinstance(value, float) else value
            for name, value in asdict(p).items()
        }
        for p in sufficiency(own, table.target[here], seed)
    ]


def _ends(interval: Interval) -> list[float | None]:
    return [number(interval.low), number(interval.high)]


def _cost(connection: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    """What the documents took; those read again to compare are in it."""
    row = connection.execute(
        "with read as (select model_id, split_part(variant, '@', 2) as probe,"
        " count(distinct doc_id) as documents from metric_documents group by all)"
        " select (select min(documents) from read), (select max(documents) from read),"
        " sum(tokens_processed)::bigint,"
        " sum(tokens_scored)::bigint, sum(seconds), max(peak_bytes),"
        " list(distinct dtype order by dtype),"
        " list(distinct device order by device), list(distinct engine order by engine),"
        " bool_or(code_dirty) from units where status = 'done'"
    ).fetchone()
    assert row is not None
    names = (
        "documents", "most_documents", "tokens_processed", "tokens_scored", "seconds",
        "peak_bytes", "dtypes", "devices", "engines", "code_dirty",
    )  # fmt: skip
    found = dict(zip(names, row, strict=True))
    return found | {"seconds": number(float(found["seconds"] or 0))}


def _parts(tables: Frozen) -> dict[str, Any]:
    """What campaigns took in all, target included; None where one of them is not known."""
    parts = frozen_parts(tables)
    logs = [part["campaign"] for part in parts]
    seconds = None
    if None not in logs:
        kinds = [{"documents", "recall"} if part["target"] else {"documents"} for part in parts]
        seconds = sum(
            piece["seconds"]
            for log, counted in zip(logs, kinds, strict=True)
            for piece in log["pieces"]
            if piece["kind"] in counted
        )
    return {
        "campaign_seconds": None if seconds is None else round(seconds, 1),
        "parts": [
            {
                "frozen_at": part["frozen_at"],
                "documents": part["documents"],
                "target": part["target"],
                "machine": (part["campaign"] or {}).get("machine"),
                "overlap": part.get("overlap"),
            }
            for part in parts
        ],
    }
