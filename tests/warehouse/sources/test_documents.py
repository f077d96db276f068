"""The proxy file's formats: what is read, what is refused, and how it is said."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from warehouse.errors import LockedFileError, TokenmartError
from warehouse.paths import Workspace
from warehouse.problem.tables import ensure_documents
from warehouse.sources.document_files import Document, parse_documents
from warehouse.sources.documents import FolderDocuments, JsonDocuments, documents_table
from warehouse.sources.place import Place
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
        (["  kept as it is \n"], [("0", "  kept as it is \n")]),
    ],
)
def test_accepted_formats(content: Any, expected: list[tuple[str, str]]) -> None:
    assert parse(content) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "expected a list with documents"),
        ("text", "expected a list with documents"),
        ({"a": ["x"], "b": ["y"]}, r"exactly one list of documents, found 2 \(a, b\)"),
        ({"a": "x"}, r"exactly one list of documents, found 0 \(none\)"),
        (["one", " \n\t"], "document 1: empty"),
        ([{"id": "r7", "text": ""}], r"document 0 \(id 'r7'\): empty"),
        (["one", 2], "document 1: expected a text, found int"),
        (["one", None], "document 1: expected a text, found NoneType"),
        ([{"text": ["a"]}], "document 0: expected a text, found list"),
        ([{"body": "one"}], "document 0: no text field; expected one of text, .* found body"),
        ([{"input_ids": [1, 2]}], "document 0: token ids without the name of their tokenizer"),
        ([{"input_ids": [1, "2"]}], "document 0: no text field"),
        (["one", "\ud800"], "document 1: character 0 is half a surrogate pair"),
    ],
)
def test_refused_formats_name_the_document(content: Any, message: str) -> None:
    with pytest.raises(LockedFileError, match=message) as caught:
        parse(content)
    assert str(PATH) in caught.value.format_message()
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("content", [b"", b"<html>", b'["a"', b"\xff\xfe", b'{"a":1}\n{"b":2}'])
def test_what_is_not_json_is_refused(content: bytes) -> None:
    with pytest.raises(LockedFileError, match="not valid JSON"):
        parse_documents(content, PATH)


@pytest.mark.parametrize("name", ["documents.json", "documents.jsonl"])
def test_a_field_that_is_given_twice_drops_no_text(name: str) -> None:
    row = b'{"id": 1, "text": "one", "text": "two"}'
    content = row if name.endswith("l") else b"[" + row + b"]"
    with pytest.raises(LockedFileError, match="an object has the field 'text' twice"):
        parse_documents(content, Path(name))


def test_a_file_s_name_that_is_no_text_is_refused(tmp_path: Path, workspace: Workspace) -> None:
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / os.fsdecode(b"bad\xff.txt")).write_text("two")
    source = FolderDocuments(kind="folder", path=tmp_path)
    with pytest.raises(TokenmartError, match="its name is not UTF-8; rename the file"):
        source.read(Place(workspace, "mine"))


def test_token_ids_are_decoded_by_the_tokenizer_they_name(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    byte_level = Tokenizer(models.BPE({c: i for i, c in enumerate("abc")}, []))
    byte_level.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    byte_level.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=byte_level).save_pretrained(tmp_path / "tok")
    name = str(tmp_path / "tok")
    assert parse([{"id": 5, "input_ids": [2, 0, 1], "tokenizer": name}]) == [("5", "cab")]
    assert parse({"tokenizer": name, "rows": [{"tokens": [0, 0]}]}) == [("0", "aa")]
    with pytest.raises(LockedFileError, match="its tokenizer '/nowhere/tok' can't be loaded"):
        parse([{"input_ids": [1], "tokenizer": "/nowhere/tok"}])


def test_groups_from_a_field_and_from_names(tmp_path: Path, workspace: Workspace) -> None:
    rows = [{"text": "one", "source": "web"}, {"text": "two", "source": "code"}]
    found = parse_documents(json.dumps(rows).encode(), PATH, "source")
    assert documents_table(found)["document_group"].to_pylist() == ["web", "code"]
    for name in ("src/a.txt", "src/deep/b.txt", "doc/c.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    place = Place(workspace, "mine")
    source = FolderDocuments(kind="folder", path=tmp_path, groups={"code": "src/*", "text": "*.md"})
    named = [(each.name, each.group) for each in source.grouped(source.read(place))]
    assert named == [("doc/c.md", "text"), ("src/a.txt", "code"), ("src/deep/b.txt", "code")]
    plain = FolderDocuments(kind="folder", path=tmp_path)
    table = documents_table(plain.grouped(plain.read(place)))
    assert table["document_group"].to_pylist() == [None] * 3
    assert (plain.grouping, source.grouping == "") == ("", False)


def test_another_grouping_writes_the_table_again(tmp_path: Path, workspace: Workspace) -> None:
    (tmp_path / "a.txt").write_text("one")

    def group(groups: dict[str, str]) -> list[str | None]:
        source = FolderDocuments(kind="folder", path=tmp_path, groups=groups)
        problem = SimpleNamespace(name="mine", asked="mine", documents=source)
        return list(ensure_documents(problem, workspace)["document_group"].to_pylist())

    assert [group(each) for each in ({}, {"x": "*"}, {"y": "*"})] == [[None], ["x"], ["y"]]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": "two"}, "document 1: field 'source' must be a text, .* found no such field"),
        ({"text": "two", "source": 3}, "document 1: field 'source' must be a text, .* found 3"),
        ({"text": "two", "source": " "}, "document 1: field 'source' must be a text, .* found ' '"),
        (
            "two",
            "document 1: field 'source' must be a text, .* correct the file, or documents.group",
        ),
    ],
)
def test_a_document_without_its_group_is_refused(row: Any, message: str) -> None:
    content = json.dumps([{"text": "one", "source": "web"}, row]).encode()
    with pytest.raises(LockedFileError, match=message):
        parse_documents(content, PATH, "source")


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"a": "x*"}, "documents.groups: 'y' fits the pattern of no group; correct the patterns"),
        ({"a": "*", "b": "y"}, "documents.groups: 'y' fits the pattern of a and b; correct"),
    ],
)
def test_a_document_has_one_group(groups: dict[str, str], message: str) -> None:
    source = FolderDocuments(kind="folder", path=PATH, groups=groups)
    with pytest.raises(TokenmartError, match=message):
        source.grouped([Document("x", "one"), Document("y", "two")])


def test_groups_come_from_one_place() -> None:
    with pytest.raises(ValueError, match="give groups or group_field, not both"):
        JsonDocuments(kind="json", path=PATH, groups={"a": "*"}, group_field="source")


def test_the_table_counts_characters_and_bytes() -> None:
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
def test_texts_are_cut_behind_a_word(text: str, most: int | None, kept: str) -> None:
    """By characters, so that models with different tokenizers read the same text."""
    (row,) = documents_table([Document("a", text)], most).to_pylist()
    assert (row["text"], row["characters"]) == (kept, len(kept))
    assert row["sha256"] == hashlib.sha256(kept.encode()).hexdigest()
