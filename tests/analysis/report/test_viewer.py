"""Shaded tokens: segments, the page in a real browser, and notebooks."""

from __future__ import annotations

import html
import re
import shutil
from dataclasses import replace

import duckdb
import pyarrow as pa
import pytest
from browser import evaluate
from click.testing import CliRunner, Result
from made_up_marts import Marts
from made_up_warehouse import Shape, Window, write_warehouse

import tokenmart as tm
from analysis.report import cli
from analysis.report.notebook import OpenedWorkspace
from analysis.report.shading import intensity, view_page
from analysis.report.viewer import ScoredText, Segment, View, load_view, merge
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.problem.spec import Problem, load_problem
from warehouse.store.ledger import read_units
from warehouse.store.parquet_files import read_table, write_table
from warehouse.store.schema import table_path
from warehouse.store.token_files import read_rows, write_units


def segment(
    start: int, end: int, logprob: float = -1.0, gain: float | None = None, rank: int = 1
) -> Segment:
    return Segment(start, end, logprob, 0.5, rank, gain, 1, start)


TEXT = "naïve </script><b>日本語</b> 😀ok\nsecond & line\n"
"""Astral characters, markup and line breaks: what a page must survive."""


@pytest.fixture
def view() -> View:
    first = (segment(0, 5), segment(6, 15, -0.5, 3.0), segment(15, 28, -4.0, -1.0, 300),
             segment(28, 36, -0.2, 0.1))  # fmt: skip
    second = (segment(0, 15, -2.0, 0.2), segment(15, 31, -1.0, 2.5), segment(31, 40, -7.0, 0.0))
    scored = (ScoredText("lab/one", first, "window_64"), ScoredText("lab/two", second, "window_64"))
    return View("p", 0, "doc <0>", 0, TEXT, scored)


def test_bytes_of_one_character_become_one_segment_that_adds_up():
    tokens = [
        (0, 2, -1.0, 0.1, 1, None, 1, 0), (2, 3, -2.0, 0.2, 5, 1.0, 1, 1),
        (2, 3, -3.0, 0.3, 2, 0.5, 1, 2), (3, 3, -0.5, 0.1, 1, None, 1, 3),
        (3, 6, -1.0, 0.1, 1, 0.25, 1, 4),
    ]  # fmt: skip
    found = merge(Segment(*token) for token in tokens)
    assert [(s.start, s.end, s.tokens) for s in found] == [(0, 2, 1), (2, 3, 3), (3, 6, 1)]
    assert found[1].logprob == -5.5 and found[1].gain == 1.5 and found[1].rank == 5
    assert found[0].gain is None


@pytest.mark.parametrize(
    ("measure", "strengths"),
    [("logprob", [0.125, 0.0625, 0.5]), ("rank", [0.0, 0.0, 0.826]), ("gain", [None, -1.0, 0.333])],
)
def test_shading(view, measure, strengths):
    for part, strength in zip(view.scored[0].segments[:3], strengths, strict=True):
        assert intensity(part, measure) == pytest.approx(strength, abs=1e-3)


def test_key_tokens_are_longppls():
    assert segment(0, 1, logprob=-1.9, gain=2.1).is_key
    assert not segment(0, 1, logprob=-2.1, gain=2.1).is_key
    assert not segment(0, 1, logprob=-1.9, gain=1.9).is_key
    assert not segment(0, 1, logprob=-1.9).is_key


def test_the_page_has_every_character_once_as_text(view):
    page = view_page(view, "gain")
    columns = re.findall(r"(?s)<pre>(.*?)</pre>", page)
    for column in columns:
        plain = html.unescape(re.sub(r"<[^>]+>", "", column)).replace("↵\n", "\n")
        assert plain == TEXT
    assert len(columns) == 2 and "doc &lt;0&gt;" in page and "doc <0>" not in page
    assert not re.findall(r"https?://|@import|url\(", page.replace(TEXT, ""))
    one = re.findall(r'<span class="t([^"]*)" style="--l:(\d+)%;--r:(\d+)%;--g:(\d+)%"', columns[0])
    assert one == [
        (" n", "12", "0", "0"), (" k", "6", "0", "100"), (" h", "50", "83", "33"),
        ("", "2", "0", "3"),
    ]  # fmt: skip


@pytest.mark.slow
def test_in_a_browser(view, tmp_path):
    """Two columns whose lines are level; the measure changes the shading without a reload."""
    path = tmp_path / "show.html"
    path.write_text(view_page(view, "gain"))
    script = """
      const shade = () => getComputedStyle(document.querySelectorAll('.t')[2]).backgroundColor;
      const [one, two] = document.querySelectorAll('pre'), gain = shade();
      document.querySelector('[value=rank]').click();
      return [one.clientHeight === two.clientHeight, one.clientWidth === two.clientWidth,
              gain !== shade(), gain.includes('0.2')].join(' ');
    """
    assert evaluate(path, tmp_path, script) == "true true true true"


@pytest.fixture
def synthetic(marts: Marts) -> tuple[Problem, Workspace]:
    """A made-up extraction of two models, and the context pairs that dbt would have built."""
    workspace = marts.workspace
    shape = Shape(models=2, documents=2, tokens=120, windows=(Window(16, 8),), retrieval=None)
    write_warehouse(workspace.data, shape)
    source = (workspace.problems / "minilong.yml").read_text()
    head, rest = source.split("models:\n", 1)
    rest = rest[rest.index("probes:\n") :]
    models = "".join(
        f"  - {{full_id: lab/model-{i}, family: f, source: {{kind: hub}}}}\n" for i in range(2)
    )
    path = workspace.problems / "synthetic.yml"
    path.write_text(
        f"{head}models:\n{models}\n{rest}\n".replace("name: minilong", "name: synthetic")
    )
    tokens = workspace.data / "tokens" / "**" / "*.parquet"
    with duckdb.connect(str(workspace.database)) as connection:
        connection.execute(
            f"""
            create table fct_tokens as
            select f.problem, f.model_id, w.condition as pair, f.doc_id, f.position,
                -f.logprob as nll, -w.logprob as short_nll
            from read_parquet('{tokens}', hive_partitioning = true) as f
            join read_parquet('{tokens}', hive_partitioning = true) as w
                using (problem, model_id, doc_id, position)
            where f.condition = 'full' and w.condition = 'window_16'
            """
        )
    return load_problem("synthetic", workspace), workspace


def test_a_view_from_the_warehouse(synthetic):
    problem, workspace = synthetic
    view = load_view(problem, workspace, "1", ["lab/model-0", "model-1"])
    assert [scores.model for scores in view.scored] == ["lab/model-0", "lab/model-1"]
    for scores in view.scored:
        assert scores.gain_condition == "window_16"
        ends = [0, *(s.end for s in scores.segments)]
        assert all(s.start >= end for s, end in zip(scores.segments, ends, strict=False))
        assert any(s.gain is not None for s in scores.segments)
    part = load_view(problem, workspace, "document 1", ["model-0"], start=50, characters=40)
    assert part.text == view.text[50:90]
    assert part.scored[0].segments[0].end > 50


@pytest.mark.parametrize(
    ("arguments", "code", "where"),
    [
        (("9", ["model-0"]), "unknown-document", "--document"),
        (("0", ["model-7"]), "unknown-model", "model-7"),
        (("0", ["model-0"], 10**6), "start-outside-document", "--start"),
        (("0", ["model-0"], 0, None, "window_9"), "no-gain", "--condition"),
        (("0", ["model-0", "model-1", "model-0"]), "too-many-models", "--model"),
    ],
)
def test_what_is_not_there(synthetic, arguments, code, where):  # type: ignore[no-untyped-def]
    with pytest.raises(TokenmartError) as found:
        load_view(*synthetic, *arguments)
    assert (found.value.code, found.value.where) == (code, where)


def test_nothing_was_read_from_a_character_on(synthetic):
    """Where the last token ends there is none to show, though it touches that character."""
    problem, workspace = synthetic
    table = table_path(workspace, "documents", "synthetic")
    documents = read_table(table)
    longer = pa.array([f"{text} and more" for text in documents["text"].to_pylist()])
    write_table(table, documents.set_column(5, documents.schema.field("text"), longer))
    end = load_view(problem, workspace, "0", ["model-0"]).scored[0].segments[-1].end
    for characters in (None, 5):
        with pytest.raises(TokenmartError) as found:
            load_view(problem, workspace, "0", ["model-0"], end, characters)
        where = "lab/model-0, document 0"
        assert (found.value.code, found.value.where) == ("nothing-extracted", where)


def show(*arguments: object) -> Result:
    base = ("--problem", "synthetic", "--document", "0", "--model", "model-0")
    return CliRunner().invoke(cli.show, [*base, *map(str, arguments)])


def test_the_command_writes(synthetic, tmp_path):
    out = tmp_path / "pages" / "show.html"
    assert show("--measure", "gain", "--out", out).exit_code == 0
    assert out.read_text().startswith("<!doctype html>")
    kept = synthetic[1].problems / "synthetic.yml"
    before = kept.read_bytes()
    assert show("--out", kept).exit_code == 1 and kept.read_bytes() == before


def test_a_notebook(synthetic):
    problem, workspace = synthetic
    opened = tm.open(workspace.root)
    count = tm.query("select count(*) as n from tokens")["n"][0].as_py()
    contents = {"problem": "synthetic", "models": 2, "documents": 2, "tokens": count}
    assert opened == OpenedWorkspace(workspace.root, [contents])
    assert "<td>synthetic</td><td>2</td>" in opened._repr_html_()
    shown = tm.show(1, "model-0", "model-1", measure="gain", characters=60)
    assert shown.view == load_view(problem, workspace, "1", ["model-0", "model-1"], 0, 60)
    assert shown._repr_html_().count("<pre>") == 2 and "<html" not in shown._repr_html_()
    with pytest.raises(TokenmartError) as found:
        tm.show(1, "model-0", measure="loss")  # type: ignore[arg-type]
    assert found.value.code == "unknown-measure"


def test_a_model_id_with_two_dashes_keeps_its_name(synthetic):
    """The slug of lab/a--b could be read as lab/a/b; only the problem file knows."""
    _, workspace = synthetic
    folder = workspace.data / "tokens" / "problem=synthetic"
    old = folder / "model_id=lab--model-0"
    kept = {file.parent.name: (read_units(file), read_rows(file))
            for file in old.glob("condition=*/tokens.parquet")}  # fmt: skip
    shutil.rmtree(old)
    for condition, (units, scored) in kept.items():
        file = folder / "model_id=lab--a--b" / condition / "tokens.parquet"
        file.parent.mkdir(parents=True)
        write_units(file, [replace(unit, model_id="lab--a--b") for unit in units], [scored])
    path = workspace.problems / "synthetic.yml"
    path.write_text(path.read_text().replace("lab/model-0", "lab/a--b"))
    problem = load_problem("synthetic", workspace)
    for name in ("lab/a--b", "lab--a--b", "a--b"):
        assert load_view(problem, workspace, "0", [name]).scored[0].model == "lab/a--b"


def test_how_much_each_model_read_is_shown(view):
    one, two = view.scored
    one = replace(one, tokens_read=4, tokens_whole=9, read_to=36)
    two = replace(two, tokens_read=3, tokens_whole=9, read_to=31)
    cut = replace(view, scored=(one, two), characters=90)
    assert "lab/one read 4 of 9 tokens, to character 36" in cut.extent
    assert "lab/two read 3 of 9 tokens, to character 31" in view_page(cut, "logprob")
