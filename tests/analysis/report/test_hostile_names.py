"""Names that are markup: a browser runs nothing of them and asks for nothing."""

from __future__ import annotations

import html

import pytest
from browser import evaluate
from click.testing import CliRunner

from analysis.report import cli

pytestmark = [pytest.mark.hostile, pytest.mark.slow]
EVIL = "<img src=x onerror='window.owned=1'>\"'</script><script>window.owned=1</script>{{7*7}}"


def test_names_of_metrics_and_interventions_stay_text(minilong, tmp_path):
    models = minilong.models("minilong")
    values: dict[str, float | None] = {model: float(n) for n, model in enumerate(models)}
    minilong.metric("minilong", EVIL, EVIL, values, family=EVIL)
    file = minilong.workspace.problems / "minilong.yml"
    quoted = "'" + EVIL.replace("'", "''") + "'"
    text = file.read_text().replace("title: Small real models", f"title: {quoted} #", 1)
    file.write_text(text.replace("family: smollm2", f"family: {quoted}", 1))
    with minilong.write() as connection:
        connection.execute("update models set interventions = ?", [f'[{{"kind": "{EVIL[:30]}"}}]'])
        connection.execute("update metric_catalog set formula = ?, description = ?", [EVIL, EVIL])
        connection.execute("update documents set name = ?, text = ?", [EVIL, EVIL])
    page = tmp_path / "report.html"
    done = CliRunner().invoke(cli.report, ["--problem", "minilong", "--out", str(page)])
    assert done.exit_code == 0, done.output
    assert "onerror" in page.read_text()
    script = "return `${window.owned} ${document.querySelectorAll('img').length}`"
    assert evaluate(page, tmp_path, script) == "undefined 0"
    shown = html.unescape(evaluate(page, tmp_path, "return document.body.innerText"))
    assert "<img src=x" in shown and "{{7*7}}" in shown
