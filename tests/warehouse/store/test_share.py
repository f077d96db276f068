"""A share of the store: whose rows and ledger its build sees, and whose bytes it checks."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

from warehouse.paths import Workspace
from warehouse.sql.views import create_views
from warehouse.store.share import DIVIDED, Share, read_share
from warehouse.store.survey import ALTERED, survey
from warehouse.store.token_files import published_path

GOOD = Share((("minilong", "good", None),))
GUEST = Share((("minilong", "good", None), ("minilong", "bad", "full")))
ALL = Share(None)


def seen(workspace: Workspace, share: Share, table: str) -> set[tuple[str, str]]:
    with duckdb.connect(":memory:") as connection:
        create_views(connection, workspace.data, share=share)
        query = f"select distinct model_id, condition from {table}"
        return set(connection.execute(query).fetchall())


@pytest.mark.parametrize("table", ["tokens", "units"])
def test_views_show_the_shares_models_and_of_guests_the_named_conditions(
    filled: Workspace, table: str
) -> None:
    everything = seen(filled, ALL, table)
    own = {key for key in everything if key[0] == "good"}
    assert own and own < everything
    assert seen(filled, GOOD, table) == own
    assert seen(filled, GUEST, table) == own | {("bad", "full")}


def test_small_tables_are_read_whole(filled: Workspace) -> None:
    with duckdb.connect(":memory:") as connection:
        create_views(connection, filled.data, share=GOOD)
        models = connection.execute("select model_id from models order by all").fetchall()
    assert models == [("bad",), ("good",)]
    assert "models" not in DIVIDED and "documents" not in DIVIDED


def alter(path: Path) -> None:
    """Flip bits of a file's data; its footer stays."""
    content = bytearray(path.read_bytes())
    content[8] ^= 0xFF
    path.write_bytes(content)


def test_flipped_bits_are_found_by_the_one_build_that_reads_them(filled: Workspace) -> None:
    mine = published_path(filled, "minilong", "good", "full")
    other = published_path(filled, "minilong", "bad", "full")
    for path in (mine, other):
        alter(path)
    found = {
        name: {stranger.path for stranger in survey(filled.data, every_byte=True, share=share)}
        for name, share in (("whole", None), ("good", GOOD), ("guest", GUEST), ("all", ALL))
    }
    assert found == {"whole": {mine, other}, "good": {mine}, "guest": {mine, other}, "all": set()}
    assert ALTERED in str(survey(filled.data, every_byte=True, share=GOOD)[0])


def test_a_damaged_file_stops_its_share_and_not_the_build_of_what_is_shared(
    filled: Workspace,
) -> None:
    path = published_path(filled, "minilong", "bad", "full")
    path.write_bytes(path.read_bytes()[:100])
    assert ("bad", "full") not in seen(filled, ALL, "units")
    assert ALL.leaves_to_others(filled.data, path) and not GUEST.leaves_to_others(filled.data, path)
    assert not ALL.leaves_to_others(filled.data, filled.data / "models" / "model.parquet")


@pytest.mark.parametrize("share", [GOOD, GUEST, ALL])
def test_a_share_comes_back_from_its_file(share: Share, tmp_path: Path) -> None:
    path = tmp_path / "share.json"
    path.write_text(json.dumps(share.as_json()))
    back = read_share(str(path))
    assert back is not None and (back.parts is None) == (share.parts is None)
    assert set(back.parts or ()) == set(share.parts or ())
    assert read_share(None) is None
