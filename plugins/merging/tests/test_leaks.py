"""A hidden item is found wherever a participant's folder has it; what can't be read is refused."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from merge_samples import refusals

from plugins.merging import leaks as room
from plugins.merging.leaks import leaks
from plugins.merging.tasks import hidden_sets, validation_sets, write_tasks
from plugins.merging.texts import Item
from tokenmart import cli
from warehouse.errors import TokenmartError

SECRET = "a long enough secret"
HIDDEN = [
    item for sets in hidden_sets(20, SECRET, 0.0) for found in sets.values() for item in found
]
READING, MATHS, CODE = HIDDEN[3], HIDDEN[25], HIDDEN[45]
Writer = Callable[[Path, str], None]


def as_csv(path: Path, text: str) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerow(["1", text])


def as_parquet(path: Path, text: str) -> None:
    table = {"n": [1, 2], "nested": [[{"text": "none"}], [{"text": text}]]}
    pq.write_table(pa.table(table), path, compression="zstd")


def as_database(path: Path, text: str) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute('create table "odd ""name" as select ? as t from range(5000)', [text])


def as_zip_in_tar_gz(path: Path, text: str) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../../x", text)
    with tarfile.open(path, "w:gz") as tar:
        entry = tarfile.TarInfo("deep.zip")
        entry.size = len(inner.getvalue())
        tar.addfile(entry, io.BytesIO(inner.getvalue()))


def as_zstd(path: Path, text: str) -> None:
    with pa.CompressedOutputStream(str(path), "zstd") as file:
        file.write(text.encode())


WRITERS: dict[str, Writer] = {
    "text without an ending": lambda path, text: path.write_text(text) and None,
    "JSON": lambda path, text: path.write_text(json.dumps({"a": [text]})) and None,
    "CSV": as_csv,
    "UTF-16": lambda path, text: path.write_text(text, "utf-16") and None,
    "upper case": lambda path, text: path.write_text(text.upper()) and None,
    "one line": lambda path, text: path.write_text(" ".join(text.split())) and None,
    "among bytes": lambda path, text: (
        path.write_bytes(b"\xff\x00\\n" * 999 + text.encode()) and None
    ),
    "across chunks": lambda path, text: (
        path.write_bytes(b"a" * ((1 << 22) - 9) + text.encode()) and None
    ),
    "Parquet": as_parquet,
    "DuckDB": as_database,
    "gz": lambda path, text: path.write_bytes(gzip.compress(text.encode())) and None,
    "bz2": lambda path, text: path.write_bytes(bz2.compress(text.encode())) and None,
    "xz": lambda path, text: path.write_bytes(lzma.compress(text.encode())) and None,
    "zstd": as_zstd,
    "zip in tar in gz": as_zip_in_tar_gz,
}


@pytest.mark.parametrize("way", WRITERS)
@pytest.mark.parametrize("item", [READING, MATHS, CODE], ids=["reading", "maths", "code"])
def test_an_item_is_found_however_it_is_kept(tmp_path: Path, way: str, item: Item) -> None:
    WRITERS[way](tmp_path / "x.bin", item.prompt)
    assert leaks(tmp_path, HIDDEN) == [str(tmp_path / "x.bin")]
    assert leaks(tmp_path, [other for other in HIDDEN if other is not item]) == []


def test_open_items_are_no_leak_and_the_secret_is_one(tmp_path: Path) -> None:
    write_tasks(validation_sets(200, "0"), tmp_path, "mini")
    assert leaks(tmp_path, HIDDEN, SECRET) == []
    (tmp_path / "notes").write_text(f"the secret is {SECRET}!")
    assert leaks(tmp_path, HIDDEN, SECRET) == [str(tmp_path / "notes")]


def test_hostile_names_links_and_pipes_are_harmless(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    (mine / "$(touch x); 'a").mkdir(parents=True)
    os.mkfifo(mine / "pipe")
    (mine / "loop").symlink_to(mine / "loop")
    (mine / "folder").symlink_to(mine)
    odd = os.fsencode(mine) + b"/$(touch x); 'a/\xff\x1b[31m\nerror: none"
    Path(os.fsdecode(odd)).write_text(MATHS.prompt)
    (found,) = leaks(mine, HIDDEN)
    assert found.endswith(r"\udcff\x1b[31m\nerror: none") and "\n" not in found


def _encrypted(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", "text")
    raw = bytearray(path.read_bytes())
    for start in (raw.index(b"PK\x03\x04") + 6, raw.index(b"PK\x01\x02") + 8):
        raw[start] |= 1
    path.write_bytes(raw)


def _matryoshka(path: Path) -> None:
    data = b"text"
    for _ in range(7):
        data = gzip.compress(data)
    path.write_bytes(data)


CLOSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut gz": (lambda path: path.write_bytes(gzip.compress(b"a" * 999)[:-9]), "can't be looked"),
    "encrypted": (_encrypted, "encrypted"),
    "packed often": (_matryoshka, "packed more than 5 times"),
    "no Parquet": (lambda path: path.write_bytes(b"PAR1" + b"\0" * 99), "can't be looked into"),
    "bomb": (lambda path: path.write_bytes(gzip.compress(b"a" * 5000)), "unpacks to more than"),
}


@pytest.mark.parametrize("case", CLOSED)
def test_what_cannot_be_looked_into_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    write, said = CLOSED[case]
    write(tmp_path / "x")
    if case == "bomb":
        monkeypatch.setattr(room, "_MOST_UNPACKED", 4000)
    with pytest.raises(TokenmartError) as refused:
        leaks(tmp_path, HIDDEN)
    assert said in refused.value.message and "\n" not in refused.value.message


def draw(tmp_path: Path, *more: str) -> Result:
    secret = tmp_path / "secret.txt"
    secret.write_text(SECRET + "\n")
    words = ["merge", "tasks", "--out", str(tmp_path / "hidden"), "--count", "20"]
    return CliRunner().invoke(cli, [*words, "--secret", str(secret), *more])


def test_the_command_writes_sets_and_finds_a_leak(tmp_path: Path) -> None:
    mine = tmp_path / "participant"
    mine.mkdir()
    done = draw(tmp_path, "--participant", str(mine))
    assert done.exit_code == 0, done.output
    file = tmp_path / "hidden" / "leaderboard" / "mini_leaderboard_maths.jsonl"
    (mine / "notes.md").write_text(f"seen before: {file.read_text().splitlines()[3]}")
    refused = draw(tmp_path, "--participant", str(mine))
    assert refused.exit_code == 1 and "notes.md: contains a hidden item" in refused.stderr
    assert len(refusals(refused.stderr)) == 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--participant", "nowhere"], "--participant nowhere: no such folder"),
        (["--participant", "."], "is in the participant's folder"),
        (["--overlap", "1.5"], "--overlap 1.5: must be between 0 and 1"),
        (["--secret", "nowhere.txt"], "--secret nowhere.txt: can't be read"),
    ],
)
def test_wrong_words_are_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = draw(tmp_path, *more)
    assert done.exit_code == 1 and said in done.stderr and len(refusals(done.stderr)) == 1
    assert not (tmp_path / "hidden").exists()
