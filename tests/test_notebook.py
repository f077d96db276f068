"""The example notebook runs from top to bottom on a made-up problem."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

from made_up_warehouse import Shape, Window, write_warehouse

NOTEBOOK = Path(__file__).parents[1] / "docs" / "how_to" / "first_look.ipynb"
MODELS = 8
PROBLEM = (
    "name: synthetic\ntitle: t\ndocuments: {kind: folder, path: texts}\nmodels:\n"
    + "".join(
        f"  - {{full_id: lab/model-{n}, family: f{n % 3}, source: {{kind: hub}}}}\n"
        for n in range(MODELS)
    )
    + "probes: [{kind: full}, {kind: window, name: window_16, context: 16, stride: 8}]\n"
    "target: {kind: imported}\n"
)


def displayed(source: str, names: dict[str, Any]) -> Any:
    """Run a cell and return the value of its last line, which a notebook displays."""
    *before, last = ast.parse(source).body
    exec(compile(ast.Module(before, []), "cell", "exec"), names)
    if not isinstance(last, ast.Expr):
        return exec(compile(ast.Module([last], []), "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)


def test_it_runs(marts):
    workspace = marts.workspace
    shape = Shape(models=MODELS, documents=2, tokens=300, windows=(Window(16, 8),), retrieval=None)
    write_warehouse(workspace.data, shape)
    (workspace.problems / "synthetic.yml").write_text(PROBLEM)
    values = {f"lab--model-{n}": float(n % 5) for n in range(MODELS)}
    marts.metric("synthetic", "perplexity", "per_token", dict(values), "lower")
    marts.target("synthetic", {model: n / 10 for n, model in enumerate(values)})
    cells = [c for c in json.loads(NOTEBOOK.read_text())["cells"] if c["cell_type"] == "code"]
    names: dict[str, Any] = {}
    sources = ["".join(c["source"]).replace('"demo"', '"synthetic"') for c in cells]
    opened, tokens, ranked, own, shown = (displayed(source, names) for source in sources)
    assert opened.problems[0]["models"] == MODELS
    assert len(tokens.fetchall()) == 2 * MODELS
    assert [row[0] for row in ranked.fetchall()] == ["perplexity"]
    assert [row[0] for row in own.fetchall()] == ["far_nll", "perplexity"]
    assert shown._repr_html_().count("<pre>") == 2
