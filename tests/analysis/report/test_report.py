"""The report: complete, self-contained, accessible; loaded by a real browser where there is one."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import numpy as np
import pytest
from browser import evaluate, run
from click.testing import CliRunner
from made_up_marts import Marts, fill_minilong

from analysis.report import cli, drawing

VOID = {"meta", "br", "link", "img", "input", "hr", "wbr"}


class Outline(HTMLParser):
    """Checks that tags close in order; collects ids, links and addresses."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links, self.addresses = [], [], [], []

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if tag not in VOID:
            self.open.append(tag)
        self.ids += [found["id"]] if "id" in found else []
        self.links += [found["href"]] if "href" in found else []
        self.addresses += [found[k] for k in ("src", "xlink:href") if k in found]

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A report on made-up numbers of 23 models, written once for the module."""
    with pytest.MonkeyPatch.context() as patch:
        from warehouse.paths import find_workspace

        root = tmp_path_factory.mktemp("report")
        (root / "dbt_project").mkdir()
        (root / "dbt_project" / "dbt_project.yml").touch()
        patch.setenv("TOKENMART_HOME", str(root))
        patch.delenv("TOKENMART_DATA", raising=False)
        patch.delenv("TOKENMART_DATABASE", raising=False)
        marts = fill_minilong(Marts(find_workspace()))
        marts.profile("minilong")
        with marts.write() as connection:
            connection.execute(
                "insert into position_profile"
                " select * replace ('window_512_in_window_2048' as condition, gain / 2 as gain)"
                " from position_profile where gain is not null"
            )
            connection.execute(
                "create table metric_parts as select problem, metric, variant, model_id,"
                " doc_id, value * 100 + doc_id as numerator, 100.0 as denominator,"
                " null::double as weight"
                " from metric_values, range(3) as documents(doc_id) where value is not null"
            )
        marts.depths("minilong", [(k, n) for k in ("a", "b") for n in (2048, 8064)])
        patch.setattr(drawing, "VALIDATE", True)
        out = root / "out" / "report.html"
        arguments = ["--problem", "minilong", "--out", str(out), "--resamples", "200"]
        result = CliRunner().invoke(cli.report, [*arguments, "--figures", str(root / "figures")])
        assert result.exit_code == 0, result.output
        yield out


def test_it_says_what_was_found(page):
    text = page.read_text().replace("<wbr>", "")
    for words in (
        "good/a, rho +0.99", 'data-answer="tracks"', "Comparison with perplexity", "Methods",
        "gemma3-270m-noise-0.1", "longppl/evaluator †", "mean(nll)",
        "have a larger rho than perplexity", "choosing the largest rho on a part",
    ):  # fmt: skip
        assert words in text, words


def test_the_choice_is_evaluated_on_other_families_once(page):
    text = page.read_text()
    assert text.count("its rho on the other families (mean of 1 splits)") == 1
    assert "held out" not in text.lower() and "held_out" not in text


def test_the_leaderboard_shows_both_sources_of_noise_and_what_bounds_every_claim(page):
    text = page.read_text().replace("<wbr>", "")
    for words in (
        "series of models\nand documents resampled (percentile bootstrap)",
        "documents and models resampled",
        "noise ceiling of the target (Pearson)", "8 metrics tested (8 variants of this build)",
        "No metric is preregistered", "For a model of a new family, the expected rho of good/a",
        "2 families are too few",
    ):  # fmt: skip
        assert words in text, words


def test_it_needs_no_network_and_its_markup_is_sound(page):
    text = page.read_text()
    outline = Outline()
    outline.feed(text)
    assert outline.open == []
    assert outline.addresses == []
    assert all(link.startswith("#") and link[1:] in outline.ids for link in outline.links)
    assert len(set(outline.ids)) == len(outline.ids)
    assert not re.findall(r"@import|url\(", text)
    assert set(re.findall(r"https?://[^\"' ]+", text)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert "default-src 'none'" in text


def test_figures_have_names_and_follow_the_theme(page):
    text = page.read_text()
    figures = re.findall(r"<svg[^>]*class=\"figure\"[^>]*><title id=\"([^\"]+)\">([^<]+)", text)
    assert len(figures) == 16
    assert all(name and title for name, title in figures)
    assert not re.findall(r"#0[12]0[12]0\d", text)
    assert "var(--c0)" in text and "prefers-color-scheme:dark" in text


def test_the_target_is_a_heat_map_of_every_model(page):
    """Two tasks, one right by depth and one never: their mean; what has no depth has no cell."""
    text = page.read_text()
    assert '<a href="#target">' in text and "2,048 and 8,064 tokens" in text
    cells = set(re.findall(r'aria-label="(\S+, [\d,]+ tokens, answer [^"]+)"', text))
    models = {cell.split(",")[0] for cell in cells}
    assert len(models) > 15 and len(cells) == 16 * len(models)
    model = min(models)
    assert f"{model}, 8,064 tokens, answer 75% to 87.5% into them: 0.38 of 4 items" in cells


def test_figure_files_are_self_contained(page):
    folder = page.parents[1] / "figures"
    names = {
        "leaderboard",
        "best_metric",
        "baseline",
        "agreement",
        "nll_profile",
        "gain_profile_window_512",
        "gain_profile_window_512_in_window_2048",
    } | {"target"}
    assert {path.stem for path in folder.iterdir()} == names
    for name in names:
        assert ElementTree.parse(folder / f"{name}.svg").getroot().tag.endswith("svg")
        assert "var(--" not in (folder / f"{name}.svg").read_text()
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_gains_over_each_condition_are_lines_of_their_own(page):
    """One line through the bands of several conditions would go back and forth between them."""
    for condition, share in (("window_512", 1), ("window_512_in_window_2048", 0.5)):
        figure = page.parents[1] / "figures" / f"gain_profile_{condition}.svg"
        points = re.findall(r'aria-label="(\S+), around token \d+: (\S+) nats', figure.read_text())
        models = {model for model, _ in points}
        assert len(models) == 23
        for model in models:
            gains = [float(gain) for name, gain in points if name == model]
            assert gains == pytest.approx([0.1 * share * band for band in range(6, 12)])


@pytest.mark.slow
@pytest.mark.parametrize("width", [360, 768, 1280])
def test_nothing_sticks_out_sideways(page, tmp_path, width):
    frame = tmp_path / "frame.html"
    inner = page.read_text().replace("&", "&amp;").replace('"', "&quot;")
    frame.write_text(
        f'<!doctype html><html><head><title></title></head><body style="margin:0"><iframe id="f" '
        f'style="width:{width}px;height:900px;border:0" srcdoc="{inner}"></iframe></body></html>'
    )
    script = (
        "const d = document.getElementById('f').contentDocument.documentElement;"
        "return d.scrollWidth + ' ' + d.clientWidth;"
    )
    scroll, client = map(int, evaluate(frame, tmp_path, script).split())
    assert client == width
    assert scroll <= client


@pytest.mark.slow
def test_keyboard_and_tooltip(page, tmp_path):
    script = """
      const figure = [...document.querySelectorAll('svg.figure')].find(f => f.clientWidth);
      const stops = figure.querySelectorAll('[tabindex="0"]');
      const first = stops[0];
      first.focus();
      const before = document.getElementById('tip').textContent;
      first.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true}));
      const after = document.getElementById('tip').textContent;
      return [stops.length, before === first.getAttribute('aria-label'), before !== after,
              getComputedStyle(document.getElementById('tip')).visibility].join(' ');
    """
    assert evaluate(page, tmp_path, script) == "1 true true visible"


def test_both_themes_have_readable_contrast():
    """WCAG AA: text 4.5 to 1, marks 3 to 1 against the surface, in light and dark."""
    from analysis.report import drawing

    def luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return float(np.dot([0.2126, 0.7152, 0.0722], linear))

    roles = {role.variable: role for role in drawing.ROLES}
    for theme in ("light", "dark"):
        ground = luminance(getattr(roles["--surface"], theme))
        for variable, role in roles.items():
            if variable in ("--surface", "--grid"):
                continue
            pair = sorted((ground, luminance(getattr(role, theme))))
            ratio = (pair[1] + 0.05) / (pair[0] + 0.05)
            assert ratio >= 4.5, (theme, variable, ratio)


@pytest.mark.slow
def test_the_dark_theme_and_paper_are_used(page, tmp_path):
    script = "return getComputedStyle(document.body).backgroundColor"
    copy = tmp_path / "dark.html"
    copy.write_text(page.read_text())
    assert evaluate(copy, tmp_path, script) == "rgb(255, 255, 255)"
    dark = evaluate(copy, tmp_path, script, "--blink-settings=preferredColorScheme=0")
    assert dark == "rgb(18, 23, 31)"
    run(page, tmp_path / "pdf", f"--print-to-pdf={tmp_path / 'report.pdf'}")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")


def report(marts, tmp_path, *arguments):
    out = tmp_path / "report.html"
    base = ("--problem", "minilong", "--out", out, "--resamples", "100")
    result = CliRunner().invoke(cli.report, [str(a) for a in (*base, *arguments)])
    assert result.exit_code == 0, result.output
    outline = Outline()
    outline.feed(out.read_text())
    assert outline.open == []
    assert all(link[1:] in outline.ids for link in outline.links)
    return out.read_text().replace("<wbr>", "")


def test_a_bare_warehouse_still_gives_a_sound_page(marts, tmp_path):
    """No perplexity, no profile, no coverage, six models: less to say, nothing broken."""
    models = marts.models("minilong")[:6]
    marts.target("minilong", {m: float(i) for i, m in enumerate(models)})
    marts.metric("minilong", "x<script>", "a&b", {m: float(i % 4) for i, m in enumerate(models)})
    text = report(marts, tmp_path)
    assert 'data-answer="too-few"' in text
    assert "No perplexity variant has a value for every model" in text
    assert "x&lt;script&gt;/a&amp;b" in text and "<script>/a" not in text
    assert 'href="#profiles"' not in text


def test_models_and_metrics_are_on_the_first_page(page):
    """Every value, what it rests on, and why a cell is empty; the title says what was run."""
    text = page.read_text().replace("<wbr>", "")
    assert text.index('id="values"') < text.index('id="leaderboard"')
    assert "<h1>minilong: 23 of 23 models, 50 documents, 1,150,000 tokens scored</h1>" in text
    table = text[text.index('<table class="dense values"') : text.index("</table>")]
    heads = re.findall(r'data-name="([^"/]+/[^"]+)"', table)
    assert heads[0] == "perplexity/per_token" and heads[1] == "longppl/evaluator"
    assert "noise/v0" in heads and len(heads) == 8
    # the variants of a metric that come with a click
    assert table.count('class="more"') == 3 * (1 + 23)
    assert table.count("1,000 tokens, 50 documents") == 8 * 23 - 1
    assert "–<small>no value</small>" in table
    assert "<details><summary>Metrics:" in text and "<details><summary>Statistics:" in text
    assert "tokenmart show --problem minilong --document 0 --model smollm2-135m --model" in text


@pytest.mark.slow
def test_the_table_of_models_is_sorted_and_filtered(page, tmp_path):
    script = """
      const table = document.querySelector('table.values');
      const names = () => [...table.tBodies[0].rows].filter(r => !r.hidden)
        .map(r => r.cells[1].dataset.value);
      const sorted = (up) => names().map(Number).every((x, i, all) => !i || up === (all[i - 1] <= x)
        || all[i - 1] === x);
      const before = names().length, button = table.tHead.rows[0].cells[1].querySelector('button');
      button.click(); const up = sorted(true);
      button.click(); const down = sorted(false);
      const form = document.getElementById('filters');
      document.getElementById('filter-models').value = 'gemma3 noise';
      document.getElementById('filter-metrics').value = 'noise';
      form.dispatchEvent(new Event('input'));
      const one = document.getElementById('filtered').textContent;
      document.getElementById('all-variants').checked = true;
      form.dispatchEvent(new Event('input'));
      return [before, up, down, names().length, one,
              document.getElementById('filtered').textContent].join('|');
    """
    assert evaluate(page, tmp_path, script) == (
        "23|true|true|1|1 of 23 models, 1 variants|1 of 23 models, 4 variants"
    )


def test_a_problem_without_scores_still_has_a_report(minilong, tmp_path):
    minilong.target("minilong", {})
    with minilong.write() as connection:
        connection.execute("update units set document_tokens = 200, document_tokens_total = 900")
    minilong.profile("minilong")
    out = tmp_path / "report.html"
    result = CliRunner().invoke(cli.report, ["--problem", "minilong", "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "no target: 0 of 23 models with a score" in result.output
    text = out.read_text()
    assert re.search(r"Cut: \S+, \S+, \S+ and 20 more: \d+ of \d+ documents?, [\d,]+ of", text)
    assert "Warning: documents were cut" not in text and "after the last build" not in text
    assert "No target" in text and 'id="values"' in text and 'id="profiles"' in text
    assert 'id="leaderboard"' not in text and "target ↑" not in text
    outline = Outline()
    outline.feed(text)
    assert outline.open == [] and all(link[1:] in outline.ids for link in outline.links)
    with minilong.write() as connection:
        model = minilong.models("minilong")[0]
        connection.execute("update units set document_tokens = 150 where model_id = ?", [model])
    path = minilong.workspace.problems / "minilong.yml"
    path.write_text(re.sub(r"(?s)\ntarget:.*?\n\n.*?\ndemo:", "\ndemo:", path.read_text()))
    result = CliRunner().invoke(cli.report, ["--problem", "minilong", "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "no target: the problem file names none" in result.output
    text = " ".join(out.read_text().split())
    assert (
        "Warning: documents were cut at different lengths (of one, the tokens read are 150" in text
    )
    minilong.built_from_other_files()
    CliRunner().invoke(cli.report, ["--problem", "minilong", "--out", str(out)])
    assert "Warning: files of minilong changed after the last build" in out.read_text()


def test_means_of_few_tokens_are_not_joined(minilong, tmp_path):
    minilong.profile("minilong")
    with minilong.write() as connection:
        connection.execute("update position_profile set tokens = 2 where position_from = 64")
    base = ["--problem", "minilong", "--out", str(tmp_path / "r.html"), "--resamples", "100"]
    result = CliRunner().invoke(cli.report, [*base, "--figures", str(tmp_path / "figures")])
    assert result.exit_code == 0, result.output
    figure = (tmp_path / "figures" / "nll_profile.svg").read_text()
    assert figure.count("nats, 2 tokens") == 23 and figure.count("nats, 100 tokens") == 23 * 5
    hollow = re.findall(r'<path aria-label="[^"]*, 2 tokens"[^>]*fill="([^"]+)"', figure)
    assert set(hollow) <= {"transparent", "none"}
    lines = re.findall(r'<path [^>]*d="(M[^"A]+)"[^>]*stroke-width="2"', figure)
    assert lines and all(line.count("L") == 4 for line in lines)


def test_a_partial_extraction_is_said_at_the_top(minilong, tmp_path):
    assert "Partial extraction" not in report(minilong, tmp_path)
    minilong.coverage("minilong", "window_512", missing={"gemma3-270m": 3})
    text = report(minilong, tmp_path)
    assert (
        "documents are missing for 1 of 23 models" in text
        and "1 of 2<small>3 units missing" in text
    )


def test_a_value_from_fewer_documents_says_so(minilong, tmp_path):
    assert " of 50 documents" not in report(minilong, tmp_path)
    with minilong.write() as connection:
        connection.execute("update metric_values set documents = 3 where model_id = 'gemma3-270m'")
    text = report(minilong, tmp_path)
    assert text.count("<small>3 of 50 documents</small>") == text.count(
        'title="1,000 tokens, 3 doc'
    )
    assert "<small>3 of 50 documents</small>" in text


def test_noise_does_not_track_the_target(marts, tmp_path):
    generator = np.random.default_rng(1)
    models = marts.models("minilong")
    marts.target("minilong", {m: float(generator.normal()) for m in models})
    for variant in range(6):
        values = {m: float(generator.normal()) for m in models}
        marts.metric("minilong", "perplexity", f"v{variant}", values, "lower")
    text = report(marts, tmp_path)
    assert 'data-answer="none-tracks"' in text


def test_out_and_figures_never_replace_what_the_project_keeps(minilong, tmp_path):
    workspace = minilong.workspace
    (workspace.lock_files).mkdir(parents=True)
    kept = (
        workspace.lock_files / "minilong.json",
        workspace.problems / "minilong.yml",
        workspace.database,
    )
    for path in kept:
        before = path.read_bytes() if path.exists() else None
        for arguments in (("--out", path), ("--out", tmp_path / "r.html", "--figures", path)):
            base = ["--problem", "minilong", "--resamples", "100"]
            result = CliRunner().invoke(cli.report, [*base, *map(str, arguments)])
            assert result.exit_code == 1 and result.stderr.count("\n") == 1
            assert f"{arguments[-2]} {path}: not written" in result.stderr
        assert (path.read_bytes() if path.exists() else None) == before
    assert not (tmp_path / "r.html").exists()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("x" * 300 + ".html", "name is too long"),
        ("checkout", "it is a folder"),
        ("/dev/full", "the disk is full"),
    ],
)
def test_an_out_that_cannot_be_written_is_one_line(minilong, tmp_path, name, words):
    base = ["--problem", "minilong", "--resamples", "100", "--out", str(tmp_path / name)]
    result = CliRunner().invoke(cli.report, base)
    assert result.exit_code == 4
    assert result.stderr.splitlines()[-1].startswith("error: ") and words in result.stderr
    assert result.stdout == ""


def test_a_closed_pipe_is_one_line(minilong, closed_pipe):
    base = ["--problem", "minilong", "--resamples", "100", "--out", str(closed_pipe)]
    result = CliRunner().invoke(cli.report, base)
    assert result.exit_code == 4 and result.stdout == ""
    assert result.stderr.splitlines()[-1].startswith(
        f"error: {closed_pipe}: the reader closed the pipe"
    )
