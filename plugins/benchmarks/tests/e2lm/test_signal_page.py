"""The page of a table of scores: what it shows, that it is sound, and how a browser lays it out."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from browser import evaluate
from click.testing import CliRunner, Result

from plugins.benchmarks.e2lm.reasons import REASONS
from tokenmart import cli

BENCHMARKS = ("rises<b>", "wavers", "constant")
TOKENS = [4.194304, 10.110550016, *(4.665546069333 + 16.777216 * k for k in range(1, 15))]


def invoke(scores: Path, out: Path, *more: str) -> Result:
    words = ["e2lm", "report", "--scores", str(scores), "--out", str(out), *more]
    return CliRunner().invoke(cli, words)


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    generator = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("signal") / "scores.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["model", "size", "arch", "tokens_bt", "benchmark", "score", "stderr"])
        for number in range(6):
            for at, tokens in enumerate(TOKENS):
                run = [f"m{number}", f"{number + 1}b", "a", tokens]
                rise = 0.2 + (0.02 + 0.004 * number) * at
                rows.writerow([*run, BENCHMARKS[0], rise, 0.01])
                rows.writerow([*run, BENCHMARKS[1], 0.5 + generator.normal(0, 0.05), ""])
                rows.writerow([*run, BENCHMARKS[2], 0.25, ""])
    return path


@pytest.fixture(scope="module")
def page(scores: Path) -> Iterator[Path]:
    out = scores.with_name("signal.html")
    done = invoke(scores, out)
    assert done.exit_code == 0, done.output
    yield out


def test_it_shows_curves_decisions_and_signal(page: Path) -> None:
    text = page.read_text().replace("<wbr>", "")
    assert text.count('<div class="figure"') == 3 + 1
    assert "rises&lt;b&gt;" in text and "rises<b>" not in text
    assert (
        "SQ 1.00, SNR" in text and "decision accuracy 1.00 at 206 billion tokens (15 pairs)" in text
    )
    assert "<td>1.00<small>15 pairs</small></td>" in text  # 6 runs
    assert "rises&lt;b&gt; at 50%: 1.000 of 15 pairs" in text
    assert '<th scope="col">decision accuracy at 206 billion tokens</th>' in text
    assert (
        "Rows are sorted by\ndecision accuracy at 206 billion tokens, the highest first.</p>"
        in text
    )
    for name in ("signal", "noise", "snr"):
        assert f"<dt><code>{name}</code>" in text
    assert "6 of 18 lines" in text  # that have a sampling error
    assert "the score is the same at every early checkpoint" in text
    assert "rises&lt;b&gt;, m5: 0.800 ± 0.020 after 240B tokens" in text
    assert "(inferred)" not in text and "inferred" in text


def test_it_needs_no_network(page: Path) -> None:
    text = page.read_text()
    assert "default-src 'none'" in text and not re.findall(r"@import|url\(", text)
    identities = re.findall(r' id="([^"]+)"', text)
    assert len(set(identities)) == len(identities)
    assert not re.findall(r"#0[12]0[12]0\d", text), "a placeholder of a colour was left"


def test_another_page_may_be_replaced_and_nothing_else(
    page: Path, scores: Path, tmp_path: Path
) -> None:
    mine = tmp_path / "mine.html"
    mine.write_text("mine")
    done = invoke(scores, mine)
    assert done.exit_code == 1 and mine.read_text() == "mine"
    done = invoke(scores, tmp_path / "x.html", "--metric", "scor")
    assert done.exit_code == 1 and "did you mean 'score'" in done.stderr
    done = CliRunner().invoke(cli, ["e2lm", "report"])
    assert done.exit_code == 2


@pytest.mark.slow
def test_a_browser_lays_it_out_on_a_phone_and_shows_a_point(page: Path, tmp_path: Path) -> None:
    script = """
      const panels = document.querySelectorAll('.panels > div');
      const point = document.querySelector('.panels [aria-roledescription="point"] title');
      const root = document.documentElement;
      return [panels.length, point.textContent.includes('after 4.19B tokens'),
              root.scrollWidth <= root.clientWidth,
              [...panels].every(p => p.getBoundingClientRect().right <= root.clientWidth)]
              .join(' ');
    """
    for width in (500, 1280):
        laid_out = evaluate(page, tmp_path, script, f"--window-size={width},900")
        assert laid_out == "3 true true true", width


def test_a_decision_accuracy_on_few_pairs_is_not_shown(scores: Path, tmp_path: Path) -> None:
    path = tmp_path / "few.csv"
    kept = [line for line in scores.read_text().splitlines() if not re.match("m[45]", line)]
    path.write_text("\n".join(kept))
    out = tmp_path / "few.html"
    assert invoke(path, out).exit_code == 0
    text = out.read_text()
    assert "decision accuracy – at 206 billion tokens" in text
    assert "<dd>fewer than 10 pairs</dd>" in text
    assert (
        "Rows are sorted by\nname of the benchmark and of the scoring method, because no decision "
        "accuracy at 206 billion tokens is shown.</p>"
    ) in text
    order = [text.rindex(f'<th scope="row">{name}') for name in ("constant", "rises", "wavers")]
    assert order == sorted(order)
    assert (
        "<p>No decision accuracy is shown: the runs make 6 pairs at most, and with fewer than 10 "
        "the value is mostly chance. 5 runs make 10 pairs.</p>"
    ) in text


def test_runs_with_lines_are_one_of_each_size_architecture_and_recipe(tmp_path: Path) -> None:
    path = tmp_path / "recipes.csv"
    lines = ["model,size,arch,recipe,tokens_bt,benchmark,score"]
    runs = {"short": (1, 2), "long": (1, 2, 3)}
    lines += [
        f"{recipe}-{name},1b,a,{recipe},{at},q,0.{at}"
        for recipe in ("web", "science")
        for name, places in runs.items()
        for at in places
    ]
    path.write_text("\n".join(lines) + "\n")
    out = path.with_suffix(".html")
    assert invoke(path, out).exit_code == 0
    text = out.read_text()
    assert "longest run of each size, architecture and recipe (2 of 4 runs)" in text
    assert re.findall(r"</svg>(\S+)</li>", text) == ["science-long", "web-long"]


def test_two_short_runs_have_a_page_that_says_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "short.csv"
    lines = ["model,size,arch,tokens_bt,benchmark,score"]
    lines += [f"m{n},1b,a,{tokens},only,0.{n}{tokens}" for n in (1, 2) for tokens in (4, 8)]
    path.write_text("\n".join(lines) + "\n")
    out = path.with_suffix(".html")
    done = invoke(path, out)
    assert done.exit_code == 0, done.output
    assert REASONS["few_early_checkpoints"] in out.read_text()
    assert "No decision accuracy is shown: the runs make 1 pair at most" in out.read_text()


def test_runs_with_one_checkpoint_have_a_page_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "ends.csv"
    lines = ["model,size,arch,tokens_bt,benchmark,score"]
    path.write_text("\n".join([*lines, *(f"m{n},1b,a,8,only,0.{n}" for n in range(1, 7))]) + "\n")
    out = path.with_suffix(".html")
    assert invoke(path, out).exit_code == 0
    assert "is shown: no two runs have a score up to 95% of training and a" in out.read_text()
