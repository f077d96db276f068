"""The report: complete, self-contained, true; loaded by a real browser where there is one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import yaml
from browser import evaluate
from click.testing import CliRunner, Result
from made_up_marts import Marts, copied_checkout

from analysis.report import cli, drawing
from warehouse.paths import workspace_of

VOID = {"meta", "br", "link", "img", "input", "hr", "wbr"}


class Outline(HTMLParser):
    """Checks that tags close in order; collects ids, links and addresses."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: dict[str, list[str]] = {"id": [], "href": [], "src": []}
        self.feed(text)
        assert self.open == []
        assert len(set(self.found["id"])) == len(self.found["id"])

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attributes:
            if name in self.found:
                self.found[name].append(value or "")

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli.report, ["--problem", "minilong", *map(str, arguments)])


def report(folder: Path) -> str:
    """The page, checked as HTML, without the places where names may break."""
    result = run("--out", folder / "report.html")
    assert result.exit_code == 0, result.output
    text = (folder / "report.html").read_text()
    Outline(text)
    return text.replace("<wbr>", "")


def rows(text: str, section: str) -> list[list[str]]:
    """Cells of the first table of a section, without markup."""
    table = text[text.index(f'id="{section}"') :]
    body = table[table.index("<tbody>") : table.index("</tbody>")]
    return [
        [re.sub(r"<[^>]+>", "", cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)]
        for row in re.findall(r"(?s)<tr>(.*?)</tr>", body)
    ]


@pytest.fixture(scope="module")
def page(filled_minilong: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A report on made-up numbers of 23 models, written once for the module."""
    root = tmp_path_factory.mktemp("report")
    with copied_checkout(filled_minilong, root):
        marts = Marts(workspace_of(root), empty=False)
        marts.profile("minilong")
        with marts.write() as connection:
            connection.execute(
                "insert into position_profile"
                " select * replace ('window_512_in_window_2048' as condition, gain / 2 as gain)"
                " from position_profile where gain is not null"
            )
        out = root / "out" / "report.html"
        result = run("--out", out)
        assert result.exit_code == 0, result.output
        assert not (out.with_name("report-tokens.html")).exists(), "no tokens were extracted"
        yield out


def test_it_is_read_from_the_top(page):
    """Verdict, the two scatters, metrics, values, profiles, cost; with the numbers of `select`."""
    text = page.read_text().replace("<wbr>", "")
    assert 'data-answer="tracks"' in text
    ids = re.findall(r'<h2 id="(\w+)"', text)
    assert ids == ["target", "metrics", "values", "profiles", "cost"]
    assert text.count('<div class="figure"') == 2 + 3
    first, *others = rows(text, "metrics")
    assert first[0] == "longppl/evaluator †" and first[2:6] == ["+1.000", *first[3:5], "23"]
    good = next(row for row in others if row[0] == "good/a")
    assert float(good[2]) > 0.98 and float(good[7]) > 0.5
    assert [row[0] for row in rows(text, "metrics") if row[0].endswith(" =")] == [
        "perplexity/per_token ="
    ]
    values = rows(text, "values")
    assert len(values) == 23 and sum(cell == "–" for row in values for cell in row) == 1
    assert text.count('title="1,000 tokens, 50 documents"') == 5 * 23 - 1
    costs = rows(text, "cost")
    assert len(costs) == 23 and {tuple(row[1:]) for row in costs} == {
        ("60,000", "50,000", "120", "2.0")
    }
    models = re.findall(r"<li style=[^>]+>(\S+) <small>(\S+)</small>", text)
    scores = [float(score) for _, score in models]
    assert len(models) == 23 and scores == sorted(scores, reverse=True)


def test_it_needs_no_network_and_follows_the_theme(page):
    text = page.read_text()
    outline = Outline(text)
    assert outline.found["href"] == [] and outline.found["src"] == []
    assert not re.findall(r"@import|url\(", text)
    assert set(re.findall(r"https?://[^\"' ]+", text)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert "default-src 'none'" in text
    assert 'fill="var(--c0)"' in text and "prefers-color-scheme:dark" in text


def test_both_themes_have_readable_contrast():
    """WCAG AA: text 4.5 to 1 against the surface, in light and dark."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return float(np.dot([0.2126, 0.7152, 0.0722], linear))

    for theme in (0, 1):
        ground = luminance(drawing.COLOURS["surface"][theme])
        for name, colours in drawing.COLOURS.items():
            low, high = sorted((ground, luminance(colours[theme])))
            if name not in ("surface", "grid"):
                assert (high + 0.05) / (low + 0.05) >= 4.5, (theme, name)


def test_a_bare_warehouse_still_gives_a_sound_page(marts, tmp_path):
    """No perplexity, no profile, no coverage, six models: less to say, nothing broken."""
    models = marts.models("minilong")[:6]
    marts.target("minilong", {m: float(i) for i, m in enumerate(models)})
    marts.metric("minilong", "x<script>", "a&b", {m: float(i % 4) for i, m in enumerate(models)})
    text = report(tmp_path)
    assert 'data-answer="too-few"' in text
    assert "x&lt;script&gt;/a&amp;b" in text and "<script>/a" not in text
    assert re.findall(r'<h2 id="(\w+)"', text) == ["target", "metrics", "values"]
    assert text.count('<div class="figure"') == 1


def test_scored_models_without_any_value(marts, tmp_path):
    """The target is measured, and so far another model was extracted."""
    models = marts.models("minilong")
    marts.target("minilong", {m: float(i) for i, m in enumerate(models[:3])})
    marts.metric("minilong", "x", "a", {models[3]: 1.0})
    text = report(tmp_path)
    assert 'data-answer="too-few"' in text and '<div class="figure"' not in text
    assert len(rows(text, "values")) == 1


def test_among_noise_the_page_says_so(marts, tmp_path):
    generator = np.random.default_rng(1)
    models = marts.models("minilong")
    marts.target("minilong", {m: float(generator.normal()) for m in models})
    for variant in range(6):
        values = {m: float(generator.normal()) for m in models}
        marts.metric("minilong", "perplexity", f"v{variant}", values, "lower")
    assert 'data-answer="none-tracks"' in report(tmp_path)


@pytest.mark.parametrize("scored", [0, 2])
def test_a_target_without_scores_is_said_truly(minilong, tmp_path, scored):
    minilong.target(
        "minilong", {m: 1.0 * i for i, m in enumerate(minilong.models("minilong")[:scored])}
    )
    text = report(tmp_path)
    assert 'data-answer="no-target"' in text and f"{scored} of 23 models have a score" in text
    assert re.findall(r'<h2 id="(\w+)"', text) == ["values", "cost"]
    assert len(rows(text, "values")) == 23


def test_a_problem_that_names_no_target(minilong, tmp_path):
    path = minilong.workspace.problems / "minilong.yml"
    content = yaml.safe_load(path.read_text())
    del content["target"]
    path.write_text(yaml.safe_dump(content))
    text = report(tmp_path)
    assert 'data-answer="no-target"' in text and "of 23 models have a score" not in text


def test_what_changes_a_conclusion_is_at_the_top(minilong, tmp_path):
    def printed() -> str:
        text = report(tmp_path)
        return " ".join(text[: text.index("<main>")].split())

    assert "were cut at different lengths" not in printed() and "Changed after" not in printed()
    with minilong.write() as connection:
        connection.execute("update units set document_tokens = 200, document_tokens_total = 900")
    with minilong.write() as connection:
        model = minilong.models("minilong")[0]
        connection.execute("update units set document_tokens = 150 where model_id = ?", [model])
    assert f"the tokens read are 150 for {model}" in printed()
    minilong.record_build(texts="others")
    assert "Changed after" in printed()


def test_fewer_documents_are_in_the_table(minilong, tmp_path):
    with minilong.write() as connection:
        connection.execute("update metric_values set documents = 3 where model_id = 'gemma3-270m'")
    text = report(tmp_path)
    assert text.count("<small>3 of 50 documents</small>") == 5


def test_out_never_replace_what_the_project_keeps(minilong, tmp_path):
    workspace = minilong.workspace
    (workspace.lock_files).mkdir(parents=True)
    kept = (
        workspace.lock_files / "minilong.json",
        workspace.problems / "minilong.yml",
        workspace.database,
    )
    for path in kept:
        before = path.read_bytes() if path.exists() else None
        assert run("--out", path).exit_code == 1
        assert (path.read_bytes() if path.exists() else None) == before
    (tmp_path / "r-tokens.html").write_text("mine")
    assert run("--out", tmp_path / "r.html").exit_code == 1
    assert not (tmp_path / "r.html").exists()


@pytest.mark.parametrize("name", ["x" * 300 + ".html", "checkout", "/dev/full"])
def test_an_out_that_cannot_be_written(minilong, tmp_path, name):
    result = run("--out", tmp_path / name)
    assert result.exit_code == 4 and result.stdout == ""
    assert result.stderr.splitlines()[-1].startswith("error: ")


def test_a_closed_pipe(minilong, closed_pipe):
    result = run("--out", closed_pipe)
    assert result.exit_code == 4 and result.stdout == ""


@pytest.mark.slow
def test_in_a_browser(page, tmp_path):
    """Both themes, nothing sticks out sideways, a click sorts, a point has its numbers."""
    script = """
      const table = [...document.querySelectorAll('table')].at(-2), body = table.tBodies[0];
      const column = () => [...body.rows].map(row => +row.cells[1].dataset.value);
      table.tHead.rows[0].cells[1].click(); const up = column();
      table.tHead.rows[0].cells[1].click(); const down = column();
      const root = document.documentElement;
      const point = document.querySelector('.figure [aria-roledescription=circle] title');
      return [up.every((x, i) => !i || up[i - 1] <= x),
              down.every((x, i) => !i || down[i - 1] >= x), point.textContent.includes(', target '),
              root.scrollWidth <= root.clientWidth,
              getComputedStyle(document.body).backgroundColor].join('|');
    """
    for width, theme, ground in ((500, 1, "rgb(255, 255, 255)"), (1280, 0, "rgb(18, 23, 31)")):
        flags = (f"--window-size={width},900", f"--blink-settings=preferredColorScheme={theme}")
        assert evaluate(page, tmp_path, script, *flags) == f"true|true|true|true|{ground}"
