"""`tokenmart dbt`: dbt's own exit status and a named environment."""

from __future__ import annotations

from click.testing import CliRunner

from tokenmart import cli
from warehouse.metrics import manifest


def test_variables_of_another_dbt_project_do_not_reach_dbt(workspace, tmp_path, monkeypatch):
    fake, out = tmp_path / "dbt", tmp_path / "env"
    fake.write_text(f'#!/bin/sh\nenv > {out}\npwd >> {out}\necho "$@" >> {out}\nexit 7\n')
    fake.chmod(0o755)
    monkeypatch.setattr(manifest, "command", lambda: [str(fake)])
    for name in ("PROJECT_DIR", "PROFILES_DIR", "PROFILE", "TARGET", "ENGINE_TARGET", "VARS"):
        monkeypatch.setenv(f"DBT_{name}", "/another")
    monkeypatch.setenv("DBT_TARGET_PATH", str(tmp_path / "target"))
    monkeypatch.setenv("TOKENMART_MEMORY", "2GiB")
    words = ["build", "--select", "perplexity", "--help"]
    assert CliRunner().invoke(cli, ["dbt", *words]).exit_code == 7
    *lines, folder, given = out.read_text().splitlines()
    found = dict(line.partition("=")[::2] for line in lines)
    assert (folder, given) == (str(workspace.dbt_project), " ".join(words))
    assert {name for name in found if name.startswith("DBT_")} == {"DBT_TARGET_PATH"}
    assert found["TOKENMART_DATABASE"] == str(workspace.database)
    assert found["TOKENMART_MEMORY"] == "2GiB"
