"""The store in a bucket, on a real server: whole or not at all, once, one line when it fails."""

from __future__ import annotations

import multiprocessing
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plugins.cluster import leases
from plugins.cluster.leases import lease

pytest.importorskip("s3fs", reason="the extra `s3` isn't installed")
pytest.importorskip("moto", reason="the extra `dev` isn't installed")

from bucket_server import BUCKET, Server, Wire, make_bucket, new_user, point_at, running
from warehouse_samples import KEYS, make_rows, make_unit

from plugins.cluster import object_store
from plugins.cluster.object_store import filesystem
from plugins.cluster.stores import s3
from plugins.cluster.stores.s3 import BucketPath
from warehouse.errors import StorageError, TokenmartError
from warehouse.paths import Workspace
from warehouse.remote import ChangedError, footer, remote_path
from warehouse.store import claims
from warehouse.store.ledger import read_units
from warehouse.store.parquet_files import altered_files, send_spooled
from warehouse.store.survey import survey
from warehouse.store.token_files import (
    finished_units,
    pending_files,
    pending_folder,
    publish,
    published_path,
    read_rows,
    write_unit,
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running() as found:
        yield found


@pytest.fixture
def top(server: Server, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """The address of an empty store."""
    point_at(monkeypatch, server.address)
    make_bucket()
    return f"s3://{BUCKET}/{abs(hash(request.node.name)):x}"


@pytest.fixture
def lab(workspace: Workspace, top: str) -> Workspace:
    return replace(workspace, address=top)


def one(address: str) -> BucketPath:
    path = remote_path(address)
    assert isinstance(path, BucketPath)
    return path


def store(lab: Workspace, doc_id: int, count: int = 50) -> pa.Table:
    rows = make_rows(doc_id, count)
    write_unit(lab, make_unit(doc_id, rows), rows)
    return rows


def test_it_lists_what_pathlib_lists(top: str, tmp_path: Path) -> None:
    names = ["a/x=1/y=2/t.parquet", "a/x=1/y=3/t.parquet", "a/x=10/y=2/u.parquet", "a/k.json",
             "ab/z.parquet", "a/x=1/y=2/.now", "a/x=1/y=2/d[1].parquet"]  # fmt: skip
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
        one(f"{top}/{name}").put(name.encode())
    patterns = ["a/*", "a/x=*/y=*", "a/x=1/y=*/t.parquet", "**/*.parquet", "a/x=1*/y=2/*.parquet",
                "nothing/*", "a/x=?/y=2/t.parquet", "*/*.parquet"]  # fmt: skip
    for pattern in patterns:
        found = [path.relative_to(top_path).as_posix() for top_path in [one(top)]
                 for path in top_path.glob(pattern)]  # fmt: skip
        assert found == sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.glob(pattern))
    assert [str(p) for p in (one(top) / "a").rglob("d*")] == [f"{top}/a/x=1/y=2/d[1].parquet"]
    a = one(top) / "a"
    assert a.is_dir() and not a.is_file() and (a / "k.json").is_file() and (a / "k.json").exists()
    assert not (a / "k").exists() and (one(top) / "ab").is_dir() and not (one(top) / "b").is_dir()
    assert (a / "k.json").read_bytes() == b"a/k.json" and (a / "k.json").stat().st_size == 8


def test_a_condition_lets_one_of_two_writers_win(top: str) -> None:
    path = one(f"{top}/claim")
    first = path.put(b"one", "")
    with pytest.raises(ChangedError, match="another process has written it"):
        path.put(b"two", "")
    second = path.put(b"two", first)
    with pytest.raises(ChangedError):
        path.put(b"three", first)
    assert path.read_bytes() == b"two" and path.stat().etag == second
    path.unlink()
    with pytest.raises(FileNotFoundError):
        path.read_bytes()
    with pytest.raises(FileNotFoundError):
        path.unlink()
    path.unlink(missing_ok=True)


def test_a_footer_is_read_without_the_file(top: str, tmp_path: Path) -> None:
    table = pa.table({"x": pa.array(range(100_000)), "y": [str(n * 7919) for n in range(100_000)]})
    table = table.replace_schema_metadata({"note": "n" * 200_000})  # longer than what is fetched
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=1000)
    path = one(f"{top}/t.parquet")
    path.put(tmp_path / "t.parquet")
    found = pq.read_metadata(footer(path))
    assert found.num_rows == 100_000 and found.metadata[b"note"] == b"n" * 200_000
    assert pq.read_table(footer(path)).equals(table)
    assert b"".join(path.chunks(1000)) == (tmp_path / "t.parquet").read_bytes()[:1000]


def test_units_are_written_published_and_read_as_on_a_disk(
    lab: Workspace, workspace: Workspace
) -> None:
    for each in (lab, workspace):
        for doc_id in (2, 0):
            store(each, doc_id)
        assert finished_units(each, *KEYS).keys() == {0, 2}
        assert publish(each, *KEYS) == 2 and publish(each, *KEYS) == 0
        store(each, 1)
        assert publish(each, *KEYS) == 1
    there, here = published_path(lab, *KEYS), published_path(workspace, *KEYS)
    assert read_rows(there).equals(read_rows(here)) and read_units(there) == read_units(here)
    assert not pending_files(pending_folder(lab, *KEYS))
    assert there.read_bytes() == here.read_bytes()
    assert altered_files([there]) == []
    assert not list(workspace.spool.rglob("*.parquet"))
    changed = bytearray(there.read_bytes())
    changed[100] ^= 1
    there.put(bytes(changed))  # type: ignore[attr-defined]
    assert altered_files([there]) == [there]


def publish_some(lab: Workspace, first: int) -> None:
    object_store._filesystem.cache_clear()
    for doc_id in range(first, first + 4):
        store(lab, doc_id)
        store(lab, 99)
        publish(lab, *KEYS)


@pytest.mark.slow
def test_writers_on_several_machines_lose_nothing_and_double_nothing(lab: Workspace) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=publish_some, args=(lab, 10 * n)) for n in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
        assert writer.exitcode == 0
    publish(lab, *KEYS)
    units = read_units(published_path(lab, *KEYS))
    expected = sorted([99, *(10 * n + k for n in range(3) for k in range(4))])
    assert [unit.doc_id for unit in units] == expected
    rows = read_rows(published_path(lab, *KEYS))
    assert rows.num_rows == 50 * len(expected)


def test_of_many_that_claim_one_has_it_and_the_next_when_it_is_released(top: str) -> None:
    path = one(f"{top}/doc.claim")
    inside, most, got = [0], [0], [0]
    lock = threading.Lock()

    def work() -> None:
        with lease(path) as ours:
            if ours:
                with lock:
                    inside[0] += 1
                    got[0] += 1
                    most[0] = max(most[0], inside[0])
                held.wait(20)
                with lock:
                    inside[0] -= 1

    held = threading.Event()
    workers = [threading.Thread(target=work) for _ in range(6)]
    for worker in workers:
        worker.start()
    deadline = threading.Event()
    while sum(worker.is_alive() for worker in workers) > 1 and not deadline.wait(0.05):
        pass
    held.set()
    for worker in workers:
        worker.join()
    assert (most[0], got[0]) == (1, 1)
    with lease(path) as ours:
        assert ours
    assert not path.exists()


@pytest.mark.slow
def test_a_claim_is_kept_alive_and_taken_over_only_when_its_owner_is_silent(
    top: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "EXPIRY_SECONDS", 3.0)
    monkeypatch.setattr(leases, "HEARTBEAT_SECONDS", 0.3)
    path = one(f"{top}/doc.claim")
    with lease(path) as mine:
        assert mine
        assert not threading.Event().wait(4.5)
        with lease(path) as other:  # older than its expiry, but its owner beats
            assert not other
        # the owner's machine sleeps, and another takes over
        path.put(b"elsewhere 1 1.0 x")
    assert path.read_bytes() == b"elsewhere 1 1.0 x", "released another's claim"
    with lease(path) as early:
        assert not early
    threading.Event().wait(4.2)
    with lease(path) as late:
        assert late
    path.put(f"{socket.gethostname()} 999999999 1.0 x".encode())
    with lease(path) as at_once:  # a process of this machine that is gone
        assert at_once


@pytest.mark.slow
@pytest.mark.hostile
def test_a_lost_connection_keeps_the_unit_and_the_next_run_sends_it(
    lab: Workspace, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(lab, 0)
    wire = Wire(server.port)
    point_at(monkeypatch, wire.address)
    store(lab, 1)
    wire.cut_after(30_000)
    with pytest.raises(StorageError, match="the store didn't answer") as caught:
        store(lab, 2, 20_000)
    assert "the next run sends them first" in caught.value.message and "\n" not in str(caught.value)
    with pytest.raises(StorageError, match="the store didn't answer"):
        send_spooled(lab)
    wire.mend()
    assert finished_units(lab, *KEYS).keys() == {0, 1}
    assert send_spooled(lab) == 1 and send_spooled(lab) == 0
    assert publish(lab, *KEYS) == 3
    assert [unit.doc_id for unit in read_units(published_path(lab, *KEYS))] == [0, 1, 2]


@pytest.mark.hostile
@pytest.mark.parametrize("ask", [finished_units, publish])
def test_what_could_not_be_read_is_not_taken_for_damaged(
    ask: Callable[..., object], lab: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(lab, 0)
    publish(lab, *KEYS)
    store(lab, 1)

    def unanswered(path: BucketPath, **_: str) -> None:
        raise object_store.explained(str(path), path.bucket, ConnectionResetError("reset"))

    with monkeypatch.context() as patch:
        patch.setattr(BucketPath, "_get", unanswered)
        with pytest.raises(StorageError, match="the store didn't answer"):
            ask(lab, *KEYS)
        with pytest.raises(StorageError, match="the store didn't answer"):
            list(survey(lab.store))
    assert len(pending_files(pending_folder(lab, *KEYS))) == 1
    assert publish(lab, *KEYS) == 1
    assert finished_units(lab, *KEYS).keys() == {0, 1}


@pytest.mark.slow
@pytest.mark.hostile
def test_half_an_upload_is_never_seen(
    top: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "_PART_BYTES", 5 << 20)
    big = tmp_path / "big"
    big.write_bytes(bytes(range(256)) * (11 << 12))
    path = one(f"{top}/tokens.parquet")
    before = path.put(b"as it was")
    wire = Wire(server.port)
    point_at(monkeypatch, wire.address)
    wire.cut_after(7 << 20)
    with pytest.raises(StorageError, match="the store didn't answer"):
        path.put(big)
    point_at(monkeypatch, server.address)
    assert path.stat().etag == before and path.read_bytes() == b"as it was"
    assert [str(found) for found in one(top).glob("*")] == [str(path)]
    path.put(big)
    assert path.read_bytes() == big.read_bytes()
    with pytest.raises(ChangedError):  # moto checks this condition of a multipart upload alone
        path.put(big, "")
    uploads = filesystem().call_s3("list_multipart_uploads", Bucket=BUCKET).get("Uploads", [])
    assert len(uploads) <= 1, "only the one that could not be aborted"


@pytest.mark.hostile
def test_a_key_that_expires_is_named_and_what_was_finished_stays(
    lab: Workspace, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = new_user(server, "worker")
    point_at(monkeypatch, server.address, key)
    server.check_keys_after(0)
    try:
        store(lab, 0)
        server.check_keys_after(None)
        server.iam(Action="DeleteAccessKey", UserName="worker", AccessKeyId=key[0])
        server.check_keys_after(0)
        with pytest.raises(StorageError, match="the store refuses the key") as caught:
            store(lab, 1)
        assert "renew AWS_ACCESS_KEY_ID" in caught.value.message
        point_at(monkeypatch, server.address, ("wrong", "key"))
        with pytest.raises(StorageError, match="the store refuses the key"):
            finished_units(lab, *KEYS)
    finally:
        server.check_keys_after(None)
    assert finished_units(lab, *KEYS).keys() == {0}
    assert send_spooled(lab) == 1 and finished_units(lab, *KEYS).keys() == {0, 1}


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("address", "line"),
    [
        ("s3://nobody/x", "s3://nobody: no such bucket; create it"),
        ("s3://lab/../x", "and .. mean nothing in a bucket"),
        ("s3://", "no address of a bucket"),
        ("s3://a/b//c", "no address of a bucket"),
        ("https://a/b", "no address of a store; schemes here: s3://"),
    ],
)
def test_a_wrong_address_is_one_line(
    workspace: Workspace, top: str, address: str, line: str
) -> None:
    with pytest.raises(TokenmartError, match=line) as caught:
        finished_units(replace(workspace, address=address), *KEYS)
    assert "\n" not in str(caught.value)


@pytest.mark.hostile
def test_no_server_and_no_key_are_one_line(lab: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    point_at(monkeypatch, "http://127.0.0.1:9")
    with pytest.raises(StorageError, match=r"the store didn't answer.*AWS_ENDPOINT_URL"):
        finished_units(lab, *KEYS)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    object_store._filesystem.cache_clear()
    with pytest.raises(StorageError, match="no key for the store"):
        finished_units(lab, *KEYS)
