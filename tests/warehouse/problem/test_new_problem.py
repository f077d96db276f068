"""`tokenmart data new`: what it writes is right and runs as it is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import gguf
import pytest
from click.testing import CliRunner, Result
from refusal import refuses

from tokenmart import cli
from warehouse.paths import Workspace, find_workspace
from warehouse.probes.lookup import RetrievalProbe
from warehouse.problem.new_problem import write_problem
from warehouse.problem.spec import load_problem
from warehouse.sources.documents import FolderDocuments

CHECKOUT = find_workspace(Path(__file__))
LONG = "the warehouse reads every token in place " * 120


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workspace: Workspace) -> Path:
    """A folder outside the checkout with five texts and something that looks like a checkpoint."""
    folder = tmp_path / "own"
    (folder / "texts" / "deep").mkdir(parents=True)
    for number, name in enumerate(("b.txt", "a.md", "c.txt", "deep/d.txt", "deep/e.MD")):
        (folder / "texts" / name).write_text(f"{number} {LONG}")
    checkpoint(folder / "my model")
    monkeypatch.chdir(folder)
    return folder


def checkpoint(folder: Path, config: object = None) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config or {"model_type": "qwen2"}))
    return folder


def new(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["data", "new", *arguments])


def texts_of(own: Path, *tokens: int) -> str:
    (own / "texts.json").write_text(json.dumps(["abc " * count for count in tokens]))
    return "texts.json"


def test_the_file_is_right_and_relative_to_itself(own, workspace):
    done = new("mine", "--texts", "texts", "--model", "my model", "--model", "Qwen/Qwen2.5-0.5B")
    assert done.exit_code == 0, done.output
    assert str(own) not in (own / "mine.yml").read_text()
    problem = load_problem("mine.yml", workspace)
    assert isinstance(problem.documents, FolderDocuments)
    assert problem.documents.path == own / "texts"
    assert problem.target is None
    local, hub = problem.models
    assert (local.full_id, local.family) == ("my-model", "qwen")
    assert local.source.kind == "local" and local.source.path == own / "my model"
    assert (hub.full_id, hub.family, hub.source.kind) == ("Qwen/Qwen2.5-0.5B", "qwen", "hub")
    # 5 texts of 1,230 tokens each: half of the shortest, as a power of two
    assert [probe.name for probe in problem.probes] == ["full", "window_512", "retrieval"]
    # what an excerpt and its answer take
    assert problem.documents.headroom == 160
    probe = problem.probes[-1]
    # so that two tokenizers are asked about the same passages, as in no4k
    assert isinstance(probe, RetrievalProbe) and probe.in_characters
    assert probe == load_problem("no4k", CHECKOUT).probes[-1].model_copy(
        update={"name": probe.name, **probe.model_dump(include=probe.model_fields_set)}
    )


def test_the_file_is_right_behind_a_link_to_its_folder(own, workspace):
    """`../texts` of the link is the user's folder; of the folder it leads to, another one."""
    (own / "there" / "deep").mkdir(parents=True)
    (own / "link").symlink_to(own / "there" / "deep")
    done = new("mine", "--texts", "texts", "--model", "my model", "--out", "link/mine.yml")
    assert done.exit_code == 0, done.output
    problem = load_problem("link/mine.yml", workspace)
    assert problem.documents.path.resolve() == own / "texts"
    assert problem.models[0].source.path.resolve() == own / "my model"


def test_a_model_in_a_package_is_taken_from_the_problem_that_has_it(own, workspace):
    new("other", "--texts", "texts", "--model", "smollm2-135m")
    assert load_problem("other.yml", workspace).models[0].source.kind == "hub"
    shutil.copy(CHECKOUT.problems / "minilong.yml", workspace.problems)
    done = new("mine", "--texts", "texts", "--model", "smollm2-135m", "--model", "gpt2")
    assert done.exit_code == 0, done.output
    packaged, hub = load_problem("mine.yml", workspace).models
    there = load_problem("minilong", workspace).model("smollm2-135m")
    assert (packaged.source, packaged.family) == (there.source, there.family)
    assert hub.source.kind == "hub"
    # a folder of the same name is what its user means
    checkpoint(own / "smollm2-135m")
    new("third", "--texts", "texts", "--model", "smollm2-135m")
    assert load_problem("third.yml", workspace).models[0].source.kind == "local"


@pytest.mark.parametrize(
    ("tokens", "names"),
    [
        ([300, 300, 900], ["full", "window_128"]),
        ([671, 671], ["full", "window_256"]),
        ([672, 672], ["full", "window_256", "retrieval"]),
        # the mean context of windows of 4,096 tokens with strides of 1,024, at 40% of their price
        ([9000, 9000], ["full", "window_3072", "retrieval"]),
        # most documents have excerpts; the short one is left out of the value
        ([300, 900, 900], ["full", "window_128", "retrieval"]),
        # a few short texts don't set the window for all
        ([2500] * 9 + [16], ["full", "window_1024", "retrieval"]),
    ],
)
def test_probes_follow_from_the_lengths(own, workspace, tokens, names):
    assert new("mine", "--texts", texts_of(own, *tokens), "--model", "my model").exit_code == 0
    problem = load_problem("mine.yml", workspace)
    assert [probe.name for probe in problem.probes] == names
    assert problem.documents.headroom == (160 if "retrieval" in names else 0)


def test_a_model_s_context_sets_the_window(own, workspace):
    checkpoint(own / "small", {"model_type": "qwen2", "max_position_embeddings": 1024})
    texts = texts_of(own, 50_000, 900)
    made, short = write_problem(workspace, "mine", Path(texts), ["small"], own / "mine.yml")
    # half of 1,024 less a BOS and the 160 tokens of an excerpt
    assert made.probes[1].name == "window_256" and short == []


def test_a_short_document_is_named(own):
    done = new("mine", "--texts", texts_of(own, *[2500] * 9, 16), "--model", "my model")
    assert done.exit_code == 0
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("9:")]
    assert "window_1024" in line and "retrieval" in line


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("texts.json", json.dumps({"documents": [LONG, {"text": LONG}]}), "json"),
        ("texts.jsonl", f'{{"text": "{LONG}"}}\n\n{{"text": "{LONG}", "id": 7}}\n', "table"),
        ("texts.csv", f"text\n{LONG}\n", "table"),
        ("one.txt", LONG, "folder"),
    ],
)
def test_other_forms_of_texts(own, workspace, name, content, kind):
    (own / name).write_text(content)
    done = new("mine", "--texts", name, "--model", "my model")
    assert done.exit_code == 0, done.output
    problem = load_problem("mine.yml", workspace)
    assert problem.documents.kind == kind
    texts = problem.documents.read(problem.folders(workspace))
    assert {document.text for document in texts} == {LONG}


@pytest.mark.parametrize(
    ("name", "texts", "model", "code", "where"),
    [
        ("My Texts", "texts", "my model", "string-pattern-mismatch", "mine.yml:2"),
        ("mine", "nowhere", "my model", "no-file", "nowhere"),
        ("mine", "empty", "my model", "no-documents", "{own}/empty"),
        ("mine", "texts", "texts", "no-model", "texts"),
        ("mine", "texts", "./nothing", "no-model", "./nothing"),
        ("mine", "texts", "texts/b.txt", "no-model", "texts/b.txt"),
        ("minilong", "texts", "my model", "name-taken", "minilong"),
        ("taken", "texts", "my model", "file-exists", "taken.yml"),
    ],
)
def test_what_can_not_be_is_refused_before_anything_is_written(
    own, workspace, name, texts, model, code, where
):
    (own / "empty").mkdir()
    (own / "taken.yml").write_text("mine")
    (workspace.problems / "minilong.yml").write_text("name: minilong\n")
    out = Path("taken.yml" if name == "taken" else "mine.yml")
    with refuses(code, where.format(own=own)):
        write_problem(workspace, name, Path(texts), [model], out)
    assert [path.name for path in own.glob("*.yml")] == ["taken.yml"]


def test_one_model_is_not_two(own, workspace):
    checkpoint(own / "m")
    for models in (["m", "./m/../m"], ["m", "m"]):
        with refuses("value-error"):
            write_problem(workspace, "mine", Path("texts"), models, Path("mine.yml"))
    assert not (own / "mine.yml").exists()


def test_a_gguf_file_has_its_name(own, workspace):
    writer = gguf.GGUFWriter(own / "Small One.gguf", "gemma3")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    assert new("mine", "--texts", "texts", "--model", "Small One.gguf").exit_code == 0
    model = load_problem("mine.yml", workspace).models[0]
    assert (model.full_id, model.family, model.source.kind) == ("Small-One", "small", "gguf")


@pytest.mark.parametrize("name", ["a: b", "no", "1e3", "- x", "#", "ü", "it's", 'a"b', "null"])
def test_any_name_of_a_folder_is_read_back(own, workspace, name):
    (own / "texts").rename(own / name)
    write_problem(workspace, "mine", Path(name), ["my model"], Path("mine.yml"))
    assert load_problem("mine.yml", workspace).documents.path == own / name
