"""Commands that output prints run as printed, for a problem that is given by its path."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from documented import tiny_checkpoint
from tiny_models import make_text

from tokenmart import cli

COMMAND = re.compile(
    r"`(tokenmart [^`]+)`|(?:run: |try it: |next: |^ +)(tokenmart (?:\"[^\"]*\"|[^,;\n])+)", re.M
)
PLACEHOLDER = re.compile(r"\b[A-Z]{4,}\b|…")
FIRST = """
data new mine --texts "my texts" --model my-model
status --problem {mine}
show --problem {mine} --document 0 --model my-model
sql --name surprising_tokens
sql --name gain_words --param problem=mine
recall --problem {mine}
correlate --problem {mine}
report --problem {mine} --out report.html
submit --problem {mine} --metric perplexity/per_token --out mine
preregister --problem {mine} --metric ladder_gain/mean
preregister --problem {mine} --metric perplexity/none
data fetch --problem {mine} --only target
data import --problem {mine} --model my-model --format key-intervals slice_0.txt
extract --problem {mine} --max-tokens 60
dbt run
status --problem {mine}
metrics show perplexity
data check
report --problem {mine} --out report.html
select --problem {mine}
show --problem {mine} --document 1 --model my-model
sql --name surprising_tokens
""".strip().splitlines()
"""What a new user types; some of it too early."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose name has a space, in no checkout, with texts and a model."""
    for name in ("TOKENMART_DATA", "TOKENMART_DATABASE", "DBT_TARGET_PATH"):
        monkeypatch.delenv(name, raising=False)
    workspace = tmp_path / "workspace"
    assert CliRunner().invoke(cli, ["init", str(workspace)]).exit_code == 0
    monkeypatch.setenv("TOKENMART_HOME", str(workspace))
    place = tmp_path / "my work"
    (place / "my texts").mkdir(parents=True)
    for number in range(3):
        (place / "my texts" / f"{number}.txt").write_text(make_text(number, words=300))
    (place / "slice_0.txt").write_text("[0, 4]")
    tiny_checkpoint(place / "my-model")
    monkeypatch.chdir(place)
    yield place


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_commands_that_output_prints_run_as_printed(folder: Path) -> None:
    path = "../my work/mine.yml"
    mine = shlex.quote(path)
    waiting = [(line.format(mine=mine), "typed") for line in FIRST]
    done: dict[str, str] = {}
    wrong = []
    while waiting:
        line, source = waiting.pop(0)
        words = shlex.split(line, comments=True)
        if source != "typed" and (words[0] == "dbt" or line in done):
            continue  # its build takes a minute, and is typed above
        if words[0] == "extract" and {"minilong", "demo"} & set(words):
            words += ["--dry-run"]  # real models
        result = CliRunner().invoke(cli, words)
        done[line] = source
        assert "Traceback" not in result.output
        unusable = (
            "no such problem file" in result.output or "--problem is missing" in result.output
        )
        if source != "typed" and (unusable or result.output.startswith("Usage:")):
            wrong.append((source, line, result.output))
        for match in COMMAND.finditer(result.output):
            found = " ".join((match[1] or match[2]).removeprefix("tokenmart ").split())
            if " " in found and not PLACEHOLDER.search(found):
                waiting.append((found.split(" && ")[0], f"`{line}`"))
    assert not wrong
    of_path = {line for line, source in done.items() if mine in source and "--problem" in line}
    assert len(of_path) > 1
    for line in of_path:
        assert f"--problem {mine}" in line, (line, done[line])
