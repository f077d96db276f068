"""A checkout of one lab of two that share a made-up store; and running commands in it."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from click.testing import Result
from made_up_marts import Marts
from made_up_warehouse import Shape, Window, write_warehouse

from warehouse.paths import Workspace

SHAPE = Shape(models=8, documents=2, tokens=200, windows=(Window(64, 32),), retrieval=None)
MODELS = [f"lab--model-{number}" for number in range(8)]
PROBLEM = {
    "name": "synthetic",
    "title": "Made-up documents",
    "documents": {"kind": "json", "path": "docs.json", "licence": "MIT"},
    "probes": [{"kind": "full"}, {"kind": "window", "name": "window_64", "context": 64,
                                  "stride": 32}],
    "target": {"kind": "imported"},
}  # fmt: skip


@cache
def _made_up() -> Path:
    """The store of all models, written once."""
    folder = Path(tempfile.mkdtemp(prefix="tokenmart-exchange-"))
    atexit.register(shutil.rmtree, folder)
    write_warehouse(folder / "data", SHAPE)
    return folder / "data"


class Lab:
    """A checkout with some of the models, and the tables dbt would have built of them."""

    def __init__(self, root: Path, models: list[str], licence: str = "MIT") -> None:
        self.root = root
        (root / "dbt_project").mkdir(parents=True)
        (root / "dbt_project" / "dbt_project.yml").write_text("name: tokenmart\n")
        shutil.copytree(_made_up(), root / "data")
        for table in ("tokens", "models", "downstream"):
            for folder in (root / "data" / table).glob("problem=*/model_id=*"):
                if folder.name.partition("=")[2] not in models:
                    shutil.rmtree(folder)
        self.workspace = Workspace(root, root / "data", root / "warehouse" / "tokenmart.duckdb")
        self.marts = Marts(self.workspace)
        named = [{"full_id": m.replace("--", "/"), "family": m[-1], "licence": "MIT",
                  "source": {"kind": "local", "path": "x"}} for m in models]  # fmt: skip
        documents = {**PROBLEM["documents"], "licence": licence}  # type: ignore[dict-item]
        problem = {**PROBLEM, "documents": documents, "models": named}
        (self.workspace.problems / "synthetic.yml").write_text(yaml.safe_dump(problem))
        with self.marts.write() as connection:
            connection.execute("alter table metric_catalog add column written varchar")
            for model in models:
                number = MODELS.index(model)
                score = (number * 37 % 11) / 11
                connection.execute(
                    "insert into downstream_scores values ('synthetic', ?, 'overall', ?, 0.01, 9)",
                    [model, score],
                )
                for metric, value in (("good", score * 2 + number / 90), ("noise", number % 3)):
                    connection.execute(
                        "insert into metric_values values ('synthetic', ?, 'a', ?, ?, 9, 2, null)",
                        [metric, model, value],
                    )
                connection.execute(
                    "insert into units values ('synthetic', ?, 'full', '{}', 0, 'done', 'cpu', "
                    "'float32', '', '', '', '', false, 0, 1, 1, 1, 1, 1, 1)",
                    [model],
                )
            for metric in ("good", "noise"):
                connection.execute(
                    "insert into metric_catalog values (?, 'a', 'f', '{}', 'higher', true, 'x', "
                    "'', 'c', 'w')",
                    [metric],
                )

    def change(self, sql: str) -> None:
        with self.marts.write() as connection:
            connection.execute(sql)


Run = Callable[..., Result]
"""A command in a lab's checkout: (lab, *words, code=0)."""


def asked(lab: Lab, tell: Run, query: str) -> list[dict[str, Any]]:
    out = lab.root / "answer.json"
    tell(lab, "sql", query, "--out", str(out), "--force")
    found: list[dict[str, Any]] = json.loads(out.read_text())
    return found
