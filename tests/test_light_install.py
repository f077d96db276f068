"""The wheel in an empty environment: a workspace is made, built, asked; with `report` also ranked.

Needs a package index; skipped without one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from made_up_warehouse import Shape, write_warehouse

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[1]
MODELS = 8
LARGEST_GB = 0.6
"""It is 0.46; with scipy, scikit-learn and figures 0.77, with torch 6."""
OF_REPORT = (
    ("correlate", "--problem", "synthetic.yml", "--resamples", "200"),
    ("select", "--problem", "synthetic.yml"),
    ("report", "--problem", "synthetic.yml"),
    ("rank", "show", "--results", "results.csv"),
)
"""Commands that need the extra."""

PROBLEM = (
    """
name: synthetic
title: Made-up texts
documents: {kind: folder, path: texts}
models:
"""
    + "".join(
        f"  - {{full_id: lab/model-{number}, family: f{number % 3}, source: {{kind: hub}}}}\n"
        for number in range(MODELS)
    )
    + """probes:
  - {kind: full}
  - {kind: window, name: window_64, context: 64, stride: 32}
target: {kind: imported}
"""
)

NOTEBOOK = """
import tokenmart as tm
tokens = tm.query("from tokens where model_id = 'lab--model-0' and condition = 'full'")
values = tm.query("from metric_values where metric = 'perplexity' and variant = 'bits_per_byte'")
table = tm.query("select model_id, avg(nll) as nll from tokens where problem = $p group by all",
                 p="synthetic")
rows = tm.query("select metric, count(distinct model_id) as models from metric_values group by all")
print(tokens.num_rows, values.num_rows, table.num_rows, max(rows["models"].to_pylist()))
ranked = tm.correlate(table.rename_columns({"nll": "value"}), "../synthetic.yml", better="lower")
print(ranked["n"][0])
"""


@dataclass(frozen=True)
class Light:
    """An environment with the wheel and its dependencies, and a workspace made by its command."""

    python: Path
    workspace: Path
    wheel: Path

    def run(self, *words: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """A program of the environment, started in the workspace."""
        kept = {
            k: v for k, v in os.environ.items() if not k.startswith(("TOKENMART", "DBT_", "PY"))
        }
        program = self.python.parent / words[0]
        return subprocess.run(
            [program, *words[1:]], cwd=cwd or self.workspace, env=kept, capture_output=True,
            text=True, timeout=600,
        )  # fmt: skip

    def ok(self, *words: str | Path, cwd: Path | None = None) -> str:
        """What it prints; it must succeed."""
        done = self.run(*words, cwd=cwd)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def sources(folder: Path) -> Path:
    """A copy of what git tracks or would: building leaves files among the sources."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"not a git checkout ({error})")
    for name in filter(None, done.stdout.split("\0")):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_file():
            shutil.copyfile(ROOT / name, target)
    return folder


def pip(python: str | Path, *words: str | Path) -> None:
    command: Sequence[str | Path] = [python, "-m", "pip", *words]
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, env=kept, timeout=1500)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [""])[-1]
        if re.search("(NameResolution|NewConnection|ConnectTimeout|Proxy)Error", done.stderr):
            pytest.skip(f"no package index here: {last}")
        raise AssertionError(done.stderr)


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Light:
    """Built, installed and made once."""
    folder = tmp_path_factory.mktemp("light")
    source = sources(folder / "source")
    pip(sys.executable, "wheel", "-q", "--no-deps", "-w", folder / "dist", source)
    (wheel,) = (folder / "dist").glob("tokenmart-*.whl")
    subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True, timeout=300)
    python = folder / "env" / "bin" / "python"
    pip(python, "install", "-q", "-c", ROOT / "requirements.lock", wheel)
    workspace = folder / "study"
    made = Light(python, workspace, wheel)
    made.ok("tokenmart", "init", workspace, cwd=folder)
    write_warehouse(workspace / "data", Shape(models=MODELS, documents=2, tokens=400))
    (workspace / "synthetic.yml").write_text(PROBLEM)
    return made


def test_a_light_environment_is_small_and_says_what_it_lacks(light):
    size = sum(
        path.lstat().st_size for path in light.python.parents[1].rglob("*") if path.is_file()
    )
    assert size < LARGEST_GB * 1e9, f"{size / 1e9:.2f} GB"
    lacks = light.ok("tokenmart", "doctor")
    assert "torch: not installed" in lacks and "scipy: not installed" in lacks
    extract = ("extract", "--problem", "synthetic.yml", "--device", "cpu")
    (light.workspace / "results.csv").write_text("entry,task,value\na,t,1\nb,t,2\n")
    for words, extra in ((extract, "extract"), *((words, "report") for words in OF_REPORT)):
        refused = light.run("tokenmart", *words)
        assert refused.returncode == 1 and refused.stderr.count("\n") == 1, refused.stderr
        assert f"tokenmart[{extra}]" in refused.stderr
    assert light.run("tokenmart", "init", light.workspace).returncode == 1


def test_plain_dbt_builds_and_what_needs_no_statistics_is_answered(light):
    """dbt's own program in the workspace's project; then SQL, metrics, status."""
    built = light.ok("dbt", "run", "--quiet", cwd=light.workspace / "dbt_project")
    assert "ERROR" not in built
    light.ok("tokenmart", "dbt", "run", "--select", "+perplexity+")
    asked = ("tokenmart", "sql", "--name", "models_metrics", "--param", "problem=synthetic")
    assert light.ok(*asked).count("lab--model-") == MODELS
    light.ok("tokenmart", "metrics", "list", "--problem", "synthetic.yml")
    light.ok(
        "tokenmart",
        "show",
        "--document",
        "0",
        "--model",
        "lab--model-0",
        "--problem",
        "synthetic.yml",
    )
    scores = ("--scores", "data/published/pythia.parquet", "--metric", "acc")
    light.ok("tokenmart", "e2lm", "score", *scores, "--model", "pythia-1.4b")
    status = light.ok("tokenmart", "status", "--problem", "synthetic.yml")
    assert status.count("lab/model-") >= MODELS


def test_a_type_checker_reads_the_wheel(light, tmp_path):
    """`tokenmart` is a module, whose types are in a package of stubs; the others have py.typed."""
    pytest.importorskip("mypy")
    (tmp_path / "mine.py").write_text(
        "import tokenmart as tm\n\n"
        'reveal_type(tm.query("from tokens", "relation"))\ntm.correlate(better="best")\n'
    )
    mypy = [sys.executable, "-m", "mypy", "--strict", "--python-executable", light.python]
    done = subprocess.run(
        [*mypy, "mine.py"], cwd=tmp_path, capture_output=True, text=True, timeout=280
    )
    revealed, error, *_ = done.stdout.splitlines()
    assert revealed.endswith('DuckDBPyRelation"') and error.endswith("[call-overload]"), done.stdout
    assert "Found 1 error" in done.stdout


def test_with_the_extra_every_question_is_answered(light):
    """The ranking, the report, Python."""
    pip(light.python, "install", "-q", "-c", ROOT / "requirements.lock", f"{light.wheel}[report]")
    light.ok("tokenmart", *OF_REPORT[0])
    light.ok("tokenmart", *OF_REPORT[2])
    assert (light.workspace / "report.html").stat().st_size > 2e4
    elsewhere = light.workspace / "notebooks"
    elsewhere.mkdir()
    (elsewhere / "ten_lines.py").write_text(NOTEBOOK)
    assert len(NOTEBOOK.strip().splitlines()) <= 10
    first, n = light.ok("python", "ten_lines.py", cwd=elsewhere).splitlines()
    assert first.split()[1:] == [str(MODELS)] * 3
    assert int(n) == MODELS
