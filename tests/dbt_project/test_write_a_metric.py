"""The page 'Write a metric': its examples are written as they are printed, built and tested."""

from __future__ import annotations

import re

import pytest
from dbt_harness import PROJECT
from made_up_warehouse import Shape, Window

PAGE = PROJECT.parent / "docs" / "tutorials" / "own_metric.md"
YAML = """
models:
  - name: {name}
    description: Text.
    config:
      meta: {{family: custom, direction: higher, needs: {needs}}}
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_three_examples_have_values_and_pass_their_test(new_warehouse, tmp_path):
    shape = Shape(models=2, documents=2, tokens=1400, windows=(Window(64, 32),))
    own = new_warehouse(shape).with_own_project(tmp_path)
    metrics = own.project / "models" / "metrics"
    written = []
    for block in re.findall(r"```(?:sql|yaml)\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL):
        head, _, text = block.partition("\n")
        if found := re.search(r"dbt_project/models/metrics/(\w+)\.(sql|yml)$", head):
            (metrics / f"{found[1]}.{found[2]}").write_text(text)
            written += [found[1]] if found[2] == "sql" else []
        else:
            assert head == "unit_tests:"
            with (metrics / "late_nll.yml").open("a") as file:
                file.write(block)
    assert written == ["late_nll", "far_gain", "worst_window"]
    for name, needs in (("far_gain", "window"), ("worst_window", "full")):
        (metrics / f"{name}.yml").write_text(YAML.format(name=name, needs=needs))
    path = own.project / "models" / "marts" / "metric_documents.sql"
    refs = "".join(f"ref('{name}'), " for name in written)
    path.write_text(path.read_text().replace("set metrics = [", f"set metrics = [{refs}"))
    own.run("--select", *(f"+{name}+" for name in written))
    values = own.rows(
        "select metric, variant, model_id, value from metric_values order by metric, variant"
    )
    assert {(metric, variant) for metric, variant, *_ in values} == {
        ("late_nll", "micro"), ("late_nll", "macro"), ("late_nll", "bits_per_byte"),
        ("far_gain", "beyond_200@window_64"), ("worst_window", "worst_64"),
    }  # fmt: skip
    for metric, variant, model, value in values:
        if (metric, variant) == ("late_nll", "micro"):
            query = "select avg(-logprob::double) from tokens where condition = 'full'"
            ((expected,),) = own.rows(f"{query} and position >= 1000 and model_id = '{model}'")
            assert value == pytest.approx(expected, rel=1e-9)
    done = own.dbt("test", "--select", "late_nll")
    assert done.returncode == 0 and "PASS=2 " in done.stdout, done.stdout
