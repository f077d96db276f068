"""The token viewer: segments, rows, the page in a real browser, and the terminal."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace

import duckdb
import pytest
from browser import evaluate
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from made_up_warehouse import Shape, Window, write_warehouse
from rich.console import Console

from analysis.report import cli
from analysis.report.terminal_viewer import intensity, print_view, shaded
from analysis.report.viewer import (
    ROW_CHARACTERS,
    Reading,
    Segment,
    View,
    first_shaded,
    load_view,
    merge,
    rows,
    view_page,
)
from warehouse.errors import TokenmartError
from warehouse.problem.spec import load_problem
from warehouse.store.ledger import read_units
from warehouse.store.token_files import read_rows, write_units


def segment(start, end, logprob=-1.0, gain=None, rank=1):
    return Segment(start, end, logprob, 0.5, rank, gain, 1, start, gain is not None)


TEXT = "naïve </script><b>日本語</b> 😀ok\nsecond & line\n"
"""Astral characters, markup and line breaks: what a page must survive."""


def view_of(*readings):
    return View("p", 0, "doc <0>", 0, TEXT, readings)


@pytest.fixture
def view():
    first = (segment(0, 5), segment(6, 15, -0.5, 3.0), segment(15, 28, -4.0, -1.0, 300),
             segment(28, 36, -0.2, 0.1))  # fmt: skip
    second = (segment(0, 15, -2.0, 0.2), segment(15, 31, -1.0, 2.5), segment(31, 40, -7.0, 0.0))
    return view_of(Reading("lab/one", first, "window_64"), Reading("lab/two", second, "window_64"))


def test_bytes_of_one_character_become_one_segment_that_adds_up():
    tokens = [
        (0, 2, -1.0, 0.1, 1, None, 1, 0), (2, 3, -2.0, 0.2, 5, 1.0, 1, 1, 1),
        (2, 3, -3.0, 0.3, 2, 0.5, 1, 2, 1), (3, 3, -0.5, 0.1, 1, None, 1, 3),
        (3, 6, -1.0, 0.1, 1, 0.25, 1, 4, 1),
    ]  # fmt: skip
    found = merge(Segment(*token) for token in tokens)
    assert [(s.start, s.end, s.tokens) for s in found] == [(0, 2, 1), (2, 3, 3), (3, 6, 1)]
    assert [s.gained for s in found] == [0, 2, 1]
    assert found[1].logprob == -5.5 and found[1].gain == 1.5 and found[1].rank == 5
    assert found[0].gain is None


@given(st.text(alphabet=st.sampled_from("ab \n😀"), max_size=2000))
def test_rows_cover_the_text_exactly(text):
    found = rows(text)
    assert "".join(text[first:last] for first, last in found) == text
    assert all(last - first <= ROW_CHARACTERS for first, last in found)


@pytest.mark.parametrize(
    ("measure", "strengths"),
    [("logprob", [0.125, 0.0625, 0.5]), ("rank", [0.0, 0.0, 0.826]), ("gain", [None, -1.0, 0.333])],
)
def test_shading(view, measure, strengths):
    for part, strength in zip(view.readings[0].segments[:3], strengths, strict=True):
        assert intensity(part, measure) == pytest.approx(strength, abs=1e-3)


def test_key_tokens_are_longppls():
    assert segment(0, 1, logprob=-1.9, gain=2.1).is_key
    assert not segment(0, 1, logprob=-2.1, gain=2.1).is_key
    assert not segment(0, 1, logprob=-1.9, gain=1.9).is_key
    assert not segment(0, 1, logprob=-1.9).is_key


def test_the_terminal_shows_every_character_once(view):
    console = Console(width=200, force_terminal=False)
    with console.capture() as capture:
        print_view(console, view, "logprob", keys_only=False)
    out = capture.get()
    assert out.count("second & line") == 2 and "lab/two: 3 tokens" in out
    text = shaded(view, view.readings[0], "gain", keys_only=True)
    assert text.plain == TEXT
    assert {(span.start, span.end) for span in text.spans} == {(6, 15)}


def test_the_page_carries_text_as_data_only(view):
    page = view_page(view, "gain")
    assert page.count("</script>") == 2
    assert "doc &lt;0&gt;" in page and "doc <0>" not in page
    embedded = re.search(r'id="data">(.*?)</script>', page)[1]
    assert not set("<>&") & set(embedded)
    found = json.loads(embedded)
    assert found["text"] == TEXT
    units = TEXT.encode("utf-16-le")
    first, last = found["rows"][1]
    assert units[2 * first : 2 * last].decode("utf-16-le") == "second & line\n"
    assert not re.findall(r"https?://|@import|url\(", page.replace(TEXT, ""))


@pytest.mark.slow
def test_in_a_browser(view, tmp_path):
    path = tmp_path / "show.html"
    path.write_text(view_page(view, "gain"))
    script = """
      const cells = [...document.querySelectorAll('.row')].map(r => [...r.children].map(
        c => c.textContent.replaceAll('↵', '\\n')));
      const whole = [0, 1].map(m => cells.map(r => r[m]).join('') === data.text);
      const pieces = [...document.querySelectorAll('.t[data-m="0"]')];
      const key = document.querySelectorAll('.t.key').length;
      pieces[2].dispatchEvent(new PointerEvent('pointerover', {bubbles: true}));
      const same = [...document.querySelectorAll('.t.same')].map(p => p.dataset.m + p.dataset.i);
      const panel = document.getElementById('panel').textContent.includes('300');
      keys.checked = true;
      document.querySelector('form').dispatchEvent(new Event('input', {bubbles: true}));
      const off = document.querySelectorAll('.t.off').length;
      pieces[0].focus();
      pieces[0].dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true}));
      const focus = document.activeElement.dataset.i;
      const stops = document.querySelectorAll('[tabindex]').length;
      const visited = [1, 2, 3].map(() => {
        document.getElementById('next').click();
        const at = document.activeElement;
        return at.classList.contains('key') ? at.dataset.m + at.dataset.i : 'no key token';
      });
      const pale = document.querySelectorAll('.t.none').length;
      return JSON.stringify([whole, key, same, panel, off, focus, stops, visited, pale]);
    """
    found = json.loads(evaluate(path, tmp_path, script))
    whole, key, same, panel, off, focus, stops, visited, pale = found
    assert whole == [True, True]
    assert key == 3  # two key tokens, one of them cut by the line break
    assert same == ["02", "11", "11"]
    assert panel is True
    assert off == 6
    assert focus == "1" and stops == 1
    assert visited[0] == visited[2] != visited[1], "two key tokens, then the first again"
    assert pale == sum(s.gain is None for r in view.readings for s in r.segments)


@pytest.fixture
def synthetic(marts):
    """A made-up extraction of two models, and the context pairs that dbt would have built."""
    workspace = marts.workspace
    shape = Shape(models=2, documents=2, tokens=120, windows=(Window(16, 8),), retrieval=None)
    write_warehouse(workspace.data, shape)
    source = (workspace.problems / "minilong.yml").read_text()
    head, rest = source.split("models:\n", 1)
    rest = rest[rest.index("probes:\n") : rest.index("\ndemo:")]
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
            create table context_pairs as
            select f.problem, f.model_id, w.condition, f.doc_id, f.position,
                f.logprob - w.logprob as gain
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
    assert [reading.model for reading in view.readings] == ["lab/model-0", "lab/model-1"]
    for reading in view.readings:
        assert reading.gain_condition == "window_16"
        ends = [0, *(s.end for s in reading.segments)]
        assert all(s.start >= end for s, end in zip(reading.segments, ends, strict=False))
        assert any(s.gain is not None for s in reading.segments)
    part = load_view(problem, workspace, "document 1", ["model-0"], start=50, characters=40)
    assert part.text == view.text[50:90]
    assert part.readings[0].segments[0].end > 50


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("9", ["model-0"]), "give a name or an id from 0 to 1"),
        (("0", ["model-7"]), "its models are: lab/model-0, lab/model-1"),
        (("0", ["model-0"], 10**6), "characters 0 to"),
        (("0", ["model-0"], 0, None, "window_9"), "there is window_16"),
    ],
)
def test_what_is_not_there_is_named(synthetic, arguments, words):
    with pytest.raises(TokenmartError, match=words):
        load_view(*synthetic, *arguments)


def test_the_command_prints_and_writes(synthetic, tmp_path):
    def show(*arguments):
        base = ("--problem", "synthetic", "--document", "0")
        return CliRunner().invoke(cli.show, [*base, *map(str, arguments)])

    printed = show("--model", "model-0", "--model", "model-1", "--characters", 80)
    assert printed.exit_code == 0, printed.stderr
    assert "lab/model-1:" in printed.stdout
    out = tmp_path / "pages" / "show.html"
    written = show("--model", "model-0", "--measure", "gain", "--out", out)
    assert written.exit_code == 0 and out.read_text().startswith("<!doctype html>")
    refused = show(*(part for name in "abc" for part in ("--model", name)))
    assert refused.exit_code == 1 and "--model c: give one model or two, not 3" in refused.stderr


def test_the_terminal_opens_at_the_first_token_that_has_a_gain(synthetic):
    whole = load_view(*synthetic, "0", ["model-0"])
    first = first_shaded(whole)
    gains = [segment.start for segment in whole.readings[0].segments if segment.gain is not None]
    assert 0 < first == min(gains)
    base = ["--problem", "synthetic", "--document", "0", "--model", "model-0", "--characters", "9"]
    shown = CliRunner().invoke(cli.show, [*base, "--measure", "gain"]).stdout
    start = max(0, first - cli.CHARACTERS_BEFORE)
    assert " ".join(whole.text[start : start + 9].split()) in " ".join(shown.split())


@pytest.mark.slow
def test_the_page_opens_at_the_first_token_that_has_a_gain(synthetic, tmp_path):
    view = load_view(*synthetic, "0", ["model-0"])
    first = next(s for s in view.readings[0].segments if s.gain is not None)
    page = tmp_path / "page.html"
    page.write_text(view_page(view, "gain"))
    script = "return document.querySelector('.t[tabindex]').textContent"
    assert evaluate(page, tmp_path, script) == view.text[first.start : first.end]


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
        assert load_view(problem, workspace, "0", [name]).readings[0].model == "lab/a--b"
    with pytest.raises(TokenmartError, match="extract --problem synthetic --model lab/a--b"):
        shutil.rmtree(folder / "model_id=lab--a--b")
        load_view(problem, workspace, "0", ["a--b"])


def test_the_page_never_replaces_a_problem_file(synthetic):
    _, workspace = synthetic
    path = workspace.problems / "synthetic.yml"
    before = path.read_bytes()
    arguments = ["--problem", "synthetic", "--document", "0", "--model", "model-0"]
    result = CliRunner().invoke(cli.show, [*arguments, "--out", str(path)])
    assert result.exit_code == 1
    assert path.read_bytes() == before


def test_a_view_says_how_far_each_model_read_and_warns_of_different_lengths(view):
    one, two = view.readings
    one = replace(one, tokens_read=4, tokens_whole=9, read_to=36)
    two = replace(two, tokens_read=3, tokens_whole=9, read_to=31)
    cut = replace(view, readings=(one, two), characters=90, whole=360)
    assert cut.extent == (
        f"Characters 0 to {len(TEXT)} of 90 (cut by documents.max_characters, whole: 360); "
        "lab/one read 4 of 9 tokens, to character 36; lab/two read 3 of 9 tokens, to character 31"
    )
    assert "read different lengths" in cut.warning and "--characters 31, " in cut.warning
    assert cut.warning in view_page(cut, "logprob")
    console = Console(record=True, width=300)
    print_view(console, cut, "logprob", keys_only=False)
    assert f"{cut.extent}.\nwarning: {cut.warning}\n" in console.export_text()
    # both read what is shown, or the whole
    assert not replace(cut, text=TEXT[:20]).warning
    assert not replace(cut, readings=(one, replace(two, read_to=36))).warning
