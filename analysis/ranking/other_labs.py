"""Models of other labs, ranked with one's own; a plugin reads them (sub-folder `labs/`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.ranking.metric_table import Model
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.plugins import load, plugin_files
from warehouse.problem.problem_files import Ranked


@dataclass(frozen=True)
class OtherLab:
    """Models, values and scores that another lab adds to a ranking.

    sha256: of what was read.
    models: that one's own store hasn't; formats: number format and model_id of each.
    values: metric, variant, model_id, value, documents, tokens; of metrics computed the same way in
        both.
    scores: measured target by model_id, with standard error and number of items; empty where the
        target is a file.
    notes: what differs and doesn't keep values apart.
    """

    name: str
    sha256: str
    models: tuple[Model, ...]
    formats: tuple[tuple[str, str], ...]
    values: tuple[tuple[str, str, str, float | None, int, int], ...]
    scores: dict[str, tuple[float, float | None, int]]
    notes: tuple[str, ...]


def other_labs(problem: Ranked, workspace: Workspace, names: Sequence[str]) -> list[OtherLab]:
    """The additions of other labs to a problem, by the names that --with gives.

    A plugin's file in `labs/` reads them: its function `read_labs` has the same arguments.

    Raises:
        TokenmartError: there is no such plugin, no such lab, nothing of the problem, or values that
            can't be compared.
        StorageError: a file can't be read.
    """
    if not names:
        return []
    files = plugin_files("labs")
    if not files:
        raise TokenmartError(
            "--with: no plugin reads other labs' exports; restore plugins/exchange"
        )
    found: list[OtherLab] = load(files[0]).read_labs(problem, workspace, names)
    return found
