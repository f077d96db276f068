"""Documents: the formats that are read, what is refused, and the table that they become."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusal import refuses

from warehouse.errors import LockedFileError, TokenmartError
from warehouse.problem.tables import ensure_documents
from warehouse.sources.documents import (
    Document,
    FolderDocuments,
    TableDocuments,
    documents_table,
)
from warehouse.sources.folders import ProblemFolders
from warehouse.sources.json_documents import parse_documents
from warehouse.store.schema import DOCUMENTS

PATH = Path("data/proxy/file.json")


def parse(content: Any) -> list[tuple[str, str]]:
    found = parse_documents(json.dumps(content).encode(), PATH)
    return [(document.name, document.text) for document in found]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (["one", "two"], [("0", "one"), ("1", "two")]),
        ([{"text": "one"}, {"text": "two", "id": 7}], [("0", "one"), ("7", "two")]),
        ([{"id": "a", "document": "one"}], [("a", "one")]),
        ([{"content": "one"}], [("0", "one")]),
        ([{"report": "one", "summary": "short"}], [("0", "one")]),
        ([{"input": "one", "output": "x"}], [("0", "one")]),
        ({"documents": ["one"]}, [("0", "one")]),
        ({"version": 1, "data": [{"text": "one"}]}, [("0", "one")]),
        ({"govreport": ["one"], "max_tokens": 32768}, [("0", "one")]),
        ([{"text": "one", "input_ids": [1, 2]}], [("0", "one")]),
        (["  kept as it is \r\n"], [("0", "  kept as it is \r\n")]),
    ],
)
def test_accepted_formats_of_the_proxy_file(content, expected):
    assert parse(content) == expected


REFUSED = [
    (b"[]", "document-format", ""),
    (b'"text"', "document-format", ""),
    (b'{"a": ["x"], "b": ["y"]}', "document-format", ""),
    (b'{"a": "x"}', "document-format", ""),
    (b'["one", " \\n\\t"]', "document-format", ": document 1"),
    (b'[{"id": "r7", "text": ""}]', "document-format", ": document 0 (id 'r7')"),
    (b'["one", 2]', "document-format", ": document 1"),
    (b'["one", null]', "document-format", ": document 1"),
    (b'[{"text": ["a"]}]', "document-format", ": document 0"),
    (b'[{"body": "one"}]', "document-format", ": document 0"),
    (b'[{"input_ids": [1, 2]}]', "document-format", ": document 0"),
    (b'[{"input_ids": [1, "2"]}]', "document-format", ": document 0"),
    (b'["one", "\\ud800"]', "document-format", ": document 1"),
    (b"", "not-json", ""),
    (b"<html>", "not-json", ""),
    (b'["a"', "not-json", ""),
    (b"\xff\xfe", "not-json", ""),
    (b'{"a":1}\n{"b":2}', "not-json", ""),
    (b'[{"id": 1, "text": "one", "text": "two"}]', "not-json", ""),
    (b'["one", NaN]', "document-format", ": document 1"),
    (b"[" * 500_000, "not-json", ""),
]
"""Content, code and place: a document that is refused is named."""


@pytest.mark.parametrize(("content", "code", "document"), REFUSED)
def test_refused_formats_of_the_proxy_file(content, code, document):
    with pytest.raises(LockedFileError) as caught:
        parse_documents(content, PATH)
    assert (caught.value.code, caught.value.where) == (code, f"{PATH}{document}")
    assert caught.value.exit_code == 3 and "\n" not in caught.value.message


def test_token_ids_are_decoded_by_the_tokenizer_they_name(tmp_path):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    byte_level = Tokenizer(models.BPE({c: i for i, c in enumerate("abc")}, []))
    byte_level.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    byte_level.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=byte_level).save_pretrained(tmp_path / "tok")
    name = str(tmp_path / "tok")
    assert parse([{"id": 5, "input_ids": [2, 0, 1], "tokenizer": name}]) == [("5", "cab")]
    assert parse({"tokenizer": name, "rows": [{"tokens": [0, 0]}]}) == [("0", "aa")]
    with pytest.raises(LockedFileError) as caught:
        parse([{"input_ids": [1], "tokenizer": "/nowhere/tok"}])
    assert caught.value.where == f"{PATH}: document 0"


# Folders of text


def folder(top: Path, **texts: bytes) -> FolderDocuments:
    for name, content in texts.items():
        (top / name).write_bytes(content)
    return FolderDocuments(kind="folder", path=top)


def test_texts_of_a_folder_are_sorted_and_kept_as_they_are(tmp_path, workspace):
    (tmp_path / "deep").mkdir()
    source = folder(
        tmp_path,
        **{"b.txt": b"\xef\xbb\xbftwo\r\n", "a.MD": b" one ", "deep/c.txt": "é".encode()},
        **{".hidden.txt": b"no", "picture.png": b"\x89PNG"},
    )
    folders = ProblemFolders(workspace, "mine")
    texts = {"a.MD": " one ", "b.txt": "two\r\n", "deep/c.txt": "é"}
    assert {each.name: each.text for each in source.read(folders)} == texts
    assert list(texts) == [each.name for each in source.read(folders)]
    assert [each.text for each in source.placed(folders) or []] == [*texts.values()]


def test_linked_folders_are_read_and_links_to_a_folder_above_are_not(tmp_path, workspace):
    top, elsewhere = tmp_path / "top", tmp_path / "elsewhere"
    for path in (top / "deep", elsewhere, tmp_path / ".hidden"):
        path.mkdir(parents=True)
    (elsewhere / "b.txt").write_text("two")
    (tmp_path / ".hidden" / "c.txt").write_text("three")
    (top / "a.txt").write_text("one")
    for name, place in (("more", elsewhere), ("deep/up", top), (".x", elsewhere), ("gone", "none")):
        (top / name).symlink_to(place)
    (top / "d.txt").symlink_to(elsewhere / "b.txt")
    texts = {"a.txt": "one", "d.txt": "two", "more/b.txt": "two"}
    found = folder(top).read(ProblemFolders(workspace, "mine"))
    assert {each.name: each.text for each in found} == texts


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("a.txt", b"\xff\xfeh", "not-utf-8"),
        ("a.txt", b" \n", "no-text"),
    ],
)
def test_a_text_that_cant_be_read_is_named(tmp_path, workspace, name, content, code):
    source = folder(tmp_path, **{name: content, "b.txt": b"two"})
    with refuses(code, str(tmp_path / name)):
        source.read(ProblemFolders(workspace, "mine"))


def test_a_file_name_that_is_not_utf8_is_refused(tmp_path, workspace):
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt"))
    path.write_text("text")
    source = FolderDocuments(kind="folder", path=tmp_path)
    for call in (source.read, source.source_sha256):
        with refuses("not-utf-8", str(path)):
            call(ProblemFolders(workspace, "mine"))


def test_a_folder_without_texts_is_named(tmp_path, workspace):
    for path in (tmp_path, tmp_path / "none"):
        source = FolderDocuments(kind="folder", path=path)
        with refuses("no-documents", str(path)):
            source.read(ProblemFolders(workspace, "mine"))


def test_another_text_makes_other_documents(tmp_path, workspace):
    source = folder(tmp_path, **{"a.txt": b"one", "b.txt": b"two"})
    folders = ProblemFolders(workspace, "mine")
    hashes = {source.source_sha256(folders)}
    (tmp_path / "b.txt").write_text("other")
    hashes.add(source.source_sha256(folders))
    (tmp_path / "b.txt").rename(tmp_path / "bb.txt")
    hashes.add(source.source_sha256(folders))
    (tmp_path / "bb.txt").unlink()
    hashes.add(source.source_sha256(folders))
    assert len(hashes) == 4


# Tables

ROWS = [
    {"key": "a", "body": "one, #1\n", "source": "web"},
    {"key": None, "body": "  'two'  ", "source": None},
]


def written(top: Path, name: str, rows: list[dict[str, str | None]] = ROWS) -> Path:
    path = top / name
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif name.endswith(".csv"):
        quoted = "".join(
            f'{row["key"] or ""},"{row["body"]}",{row["source"] or ""}\n' for row in rows
        )
        path.write_text(f"key,body,source\n{quoted}")
    elif name.endswith(".json"):
        path.write_text(json.dumps(rows))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("name", ["[t].parquet", "t.jsonl", "t.ndjson", "t.json", "t.csv"])
def test_every_table_gives_the_same_documents(tmp_path, workspace, name):
    path = str(written(tmp_path, name))
    source = TableDocuments(kind="table", path=path, text="body", id="key", group="source")
    folders = ProblemFolders(workspace, "mine")
    found = source.read(folders)
    assert found == [Document("a", "one, #1\n", "web"), Document("1", "  'two'  ", None)]
    assert source.placed(folders) == found
    before = source.source_sha256(folders)
    written(tmp_path, name, ROWS[:1])
    assert source.source_sha256(folders) != before
    assert source.model_copy(update={"text": "source"}).source_sha256(folders) != before


@pytest.mark.parametrize("ending", ["jsonl", "json", "parquet"])
@pytest.mark.parametrize("other", [5, 1.5, True, {"a": 1}, ["a"]])
def test_what_is_no_text_is_refused_with_its_row(tmp_path, workspace, ending, other):
    path = tmp_path / f"t.{ending}"
    rows = [{"id": 1, "text": "one"}, {"id": "b", "text": other}]
    if ending == "parquet":
        pq.write_table(pa.table({"text": [other, other]}), path)
    else:
        lines = [json.dumps(row) for row in rows]
        path.write_text("\n".join(lines) if ending == "jsonl" else f"[{','.join(lines)}]")
    source = TableDocuments(kind="table", path=str(path))
    row = 1 if ending == "parquet" else 2
    with refuses("document-format", f"{path}: row {row}"):
        source.read(ProblemFolders(workspace, "mine"))


@pytest.mark.parametrize("folder", ["texts", "texts [2024]"])
def test_a_pattern_reads_files_in_the_order_of_their_names(tmp_path, workspace, folder):
    (tmp_path / folder).mkdir()
    for name, text in (("b.jsonl", "two"), ("a.jsonl", "one"), ("c.txt", "three")):
        (tmp_path / folder / name).write_text(json.dumps({"text": text}))
    source = TableDocuments(kind="table", path=str(tmp_path / folder / "*.jsonl"))
    texts = [(each.name, each.text) for each in source.read(ProblemFolders(workspace, "mine"))]
    assert texts == [("0", "one"), ("1", "two")]


@pytest.mark.parametrize(
    ("settings", "content", "code", "where"),
    [
        ({"text": "words"}, '{"text": "x"}', "no-column", "documents.text"),
        ({"id": "key"}, '{"text": "x"}', "no-column", "documents.id"),
        ({}, '{"text": "x"}\n{"text": " "}', "no-text", ": row 2"),
        ({}, '{"text": "x"}\n{"other": 1}', "no-text", ": row 2"),
        ({}, '{"text": "x"}\n{"text"', "unreadable-table", ""),
        ({}, None, "no-documents", ""),
        ({}, "", "unreadable-table", ""),
    ],
)
def test_a_table_that_has_no_texts_is_refused(tmp_path, workspace, settings, content, code, where):
    path = tmp_path / "t.jsonl"
    if content is not None:
        path.write_text(content)
    source = TableDocuments(kind="table", path=str(path), **settings)
    with pytest.raises(TokenmartError) as caught:
        source.read(ProblemFolders(workspace, "mine"))
    place = where if where.startswith("documents") else f"{path}{where}"
    assert (caught.value.code, caught.value.where) == (code, place)


def test_a_pipe_is_not_waited_for(tmp_path, workspace):
    os.mkfifo(tmp_path / "t.csv")
    os.mkfifo(tmp_path / "a.txt")
    folders = ProblemFolders(workspace, "mine")
    for source in (
        TableDocuments(kind="table", path=str(tmp_path / "*.csv")),
        FolderDocuments(kind="folder", path=tmp_path),
    ):
        with refuses("no-documents"):
            source.read(folders)


def test_an_address_is_no_path_of_this_machine(workspace):
    source = TableDocuments.model_validate(
        {"kind": "table", "path": "hf://datasets/org/name@v1/*.parquet"},
        context={"folder": workspace.root},
    )
    folders = ProblemFolders(workspace, "mine")
    assert source.path == "hf://datasets/org/name@v1/*.parquet"
    assert source.required_file(folders).present and source.placed(folders) is None
    local = TableDocuments.model_validate(
        {"kind": "table", "path": "t.csv"}, context={"folder": workspace.root}
    )
    assert local.path == str(workspace.root / "t.csv")


# Groups and the table


def test_groups_from_names(tmp_path, workspace):
    for name in ("src/a.txt", "src/deep/b.txt", "doc/c.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    folders = ProblemFolders(workspace, "mine")
    source = FolderDocuments(kind="folder", path=tmp_path, groups={"code": "src/*", "text": "*.md"})
    named = [(each.name, each.group) for each in source.grouped(source.read(folders))]
    assert named == [("doc/c.md", "text"), ("src/a.txt", "code"), ("src/deep/b.txt", "code")]
    plain = FolderDocuments(kind="folder", path=tmp_path)
    table = documents_table(plain.grouped(plain.read(folders)))
    assert table["document_group"].to_pylist() == [None] * 3


def test_another_grouping_writes_the_table_again(tmp_path, workspace):
    (tmp_path / "a.txt").write_text("one")

    def group(groups: dict[str, str]) -> list[str | None]:
        source = FolderDocuments(kind="folder", path=tmp_path, groups=groups)
        problem = SimpleNamespace(name="mine", argument="mine", documents=source)
        return list(ensure_documents(problem, workspace)["document_group"].to_pylist())

    assert [group(each) for each in ({}, {"x": "*"}, {"y": "*"})] == [[None], ["x"], ["y"]]


@pytest.mark.parametrize("groups", [{"a": "x*"}, {"a": "*", "b": "y"}])
def test_a_document_has_one_group(groups):
    source = FolderDocuments(kind="folder", path=PATH, groups=groups)
    with refuses("document-group", "y"):
        source.grouped([Document("x", "one"), Document("y", "two")])


def test_groups_come_from_one_place():
    with pytest.raises(ValueError, match="give groups or group"):
        TableDocuments(kind="table", path="t.csv", groups={"a": "*"}, group="source")


def test_the_table_counts_characters_and_bytes():
    table = documents_table(parse_documents('["aé🙂"]'.encode(), PATH))
    assert table.schema.equals(DOCUMENTS)
    row = table.to_pylist()[0]
    assert (row["doc_id"], row["characters"], row["bytes"]) == (0, 3, 7)
    # echo -n 'aé🙂' | sha256sum
    assert row["sha256"].startswith("37c4a0efa4a2")


@pytest.mark.parametrize(
    ("text", "most", "kept"),
    [
        ("one two", None, "one two"),
        ("one two", 7, "one two"),
        ("one two", 6, "one"),  # inside a word
        ("one two", 3, "one"),  # behind a word
        ("one\ntwo three", 8, "one\ntwo"),
        ("abcdefgh", 4, "abcd"),  # without a space
        ("aé🙂 b", 3, "aé🙂"),
    ],
)
def test_texts_are_cut_behind_a_word(text, most, kept):
    """By characters, so that models with different tokenizers read the same text."""
    (row,) = documents_table([Document("a", text)], most).to_pylist()
    assert (row["text"], row["characters"]) == (kept, len(kept))
    assert row["sha256"] == hashlib.sha256(kept.encode()).hexdigest()
