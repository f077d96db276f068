"""Models of other labs, ranked with one's own: values and targets from attached bundles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from analysis.ranking.metric_table import Model
from analysis.ranking.other_labs import OtherLab
from plugins.exchange.attached import Attached, attached
from plugins.exchange.bundle import unchanged
from plugins.exchange.comparison import describe, differences
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.problem.problem_files import Ranked
from warehouse.problem.spec import FileTarget, Problem
from warehouse.sql.connection import connect_for_queries
from warehouse.sql.views import quoted_name
from warehouse.terminal import counted

if TYPE_CHECKING:
    import duckdb


def read_labs(problem: Ranked, workspace: Workspace, names: Sequence[str]) -> list[OtherLab]:
    """The additions of attached bundles to a problem.

    Raises:
        TokenmartError: no such bundle, nothing of the problem in it, or corpus, conditions or
            target are others: such values are never compared.
        StorageError: a bundle or the database can't be read.
    """
    if not isinstance(problem, Problem):
        raise TokenmartError(
            f"--with: {problem.name} is a table of scores, which no export contains"
        )
    known = {bundle.name: bundle for bundle in attached(workspace)}
    for name in names:
        if name not in known:
            raise TokenmartError(
                f"--with {name}: no such bundle; attached: {', '.join(known) or 'none'} "
                "(`tokenmart exchange attach`)"
            )
    found: list[OtherLab] = []
    with connect_for_queries(workspace) as connection:
        for name in dict.fromkeys(names):
            taken = {model.model_id for lab in found for model in lab.models}
            found.append(_lab(connection, problem, known[name], taken))
    return found


def _lab(
    connection: duckdb.DuckDBPyConnection, problem: Problem, bundle: Attached, taken: set[str]
) -> OtherLab:
    shared = unchanged(bundle).problems.get(problem.name)
    if shared is None:
        raise TokenmartError(f"--with {bundle.name}: has no data of {problem.name}")
    own = describe(connection, problem, True)
    unlike = differences(own, shared)
    apart = [each.what for each in unlike if each.apart]
    if apart:
        raise TokenmartError(
            f"--with {bundle.name}: not comparable with yours ({'; '.join(apart)}); query "
            f"{bundle.name}.metric_values instead"
        )
    mine = {model.model_id for model in own.models} | taken
    theirs = [model for model in shared.models if model.model_id not in mine]
    models = tuple(Model(m.model_id, m.full_id, m.family, m.parameters, m.kind) for m in theirs)
    formats = tuple((dtype, m.model_id) for m in theirs for dtype in m.dtypes)
    ids = [model.model_id for model in models]
    tables = {
        name
        for (name,) in connection.execute(
            "select view_name from duckdb_views() where schema_name = ?", [bundle.name]
        ).fetchall()
    }
    if not {"metric_values", "metric_catalog"} <= tables:
        raise TokenmartError(
            f"--with {bundle.name}: has no metric tables that can be read; ask for an export after "
            "`tokenmart dbt build`"
        )
    schema = quoted_name(bundle.name)
    values = _alike(connection, problem.name, schema, ids)
    scores: dict[str, tuple[float, float | None, int]] = {}
    if not isinstance(problem.target, FileTarget) and "downstream_scores" in tables:
        rows = connection.execute(
            f"select model_id, score, stderr, items from {schema}.downstream_scores "
            "where problem = ? and task = 'overall' and score is not null "
            "and list_contains(?, model_id)",
            [problem.name, ids],
        ).fetchall()
        scores = {model_id: (score, stderr, items) for model_id, score, stderr, items in rows}
    notes = [each.what for each in unlike if not each.apart]
    (differing,) = connection.execute(
        f"select count(*) from metric_catalog as own inner join {schema}.metric_catalog as other "
        "using (metric, variant) where own.code != other.code"
    ).fetchall()[0]
    if differing:
        left_out = counted(differing, "variant")
        notes.append(f"left out, since it is defined differently there: {left_out}")
    return OtherLab(
        bundle.name, bundle.sha256, models, formats, tuple(values), scores, tuple(notes)
    )


def _alike(
    connection: duckdb.DuckDBPyConnection, problem: str, schema: str, models: Sequence[str]
) -> list[tuple[str, str, str, float | None, int, int]]:
    """Their values of variants whose SQL and settings are those of one's own build."""
    return connection.execute(
        f"select theirs.metric, theirs.variant, theirs.model_id, theirs.value, "
        "theirs.documents, theirs.tokens "
        f"from {schema}.metric_values as theirs "
        f"inner join {schema}.metric_catalog as described using (metric, variant) "
        "inner join metric_catalog as own using (metric, variant) "
        "where own.code = described.code and theirs.problem = ? "
        "and list_contains(?, theirs.model_id)",
        [problem, list(models)],
    ).fetchall()
