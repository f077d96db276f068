"""What is known of a problem's stored rows from audits, as one line."""

from __future__ import annotations

from warehouse.paths import Workspace
from warehouse.sql.connection import connect_to_parquet
from warehouse.terminal import counted, listed

_SUMMARY = """
    select
        count(*) filter (state in ('agrees', 'differs')) as audited,
        count(*) as conditions,
        coalesce(sum(sampled) filter (state in ('agrees', 'differs')), 0)::bigint as sampled,
        list(model_id || ' ' || condition || ' (' || cause || ')' order by model_id, condition)
            filter (state = 'differs') as differing,
        count(*) filter (state = 'outdated') as outdated,
        list(distinct model_id order by model_id) filter (state = 'not audited' and is_imported)
    from audit_states
    where problem = ?
"""


def audit_line(workspace: Workspace, problem: str) -> str:
    """Audits of a problem in a line; empty where nothing was audited and nothing imported.

    Raises:
        StorageError: a file of a table is damaged.
    """
    with connect_to_parquet(workspace) as connection:
        row = connection.execute(_SUMMARY, [problem]).fetchall()[0]
    audited, conditions, sampled, differing, outdated, imported = row
    parts = []
    if audited:
        of = f"{audited} of {conditions} conditions of models, {sampled:,} rows"
        parts.append(f"Audited: {of}, {'all' if not differing else 'others'} within rounding.")
    if differing:
        parts.append(f"Rows differ: {listed(differing)}.")
    if outdated:
        parts.append(f"Units have changed since the audit of {counted(outdated, 'condition')}.")
    if imported:
        parts.append(f"Imported and not audited: {listed(imported)}.")
    return " ".join(parts)
