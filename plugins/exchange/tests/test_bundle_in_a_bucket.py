"""A bundle at an s3:// address: the rows of a folder, and damage is seen there too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("s3fs", reason="the extra `s3` isn't installed")
pytest.importorskip("moto", reason="the extra `dev` isn't installed")

from bucket_server import BUCKET, make_bucket, point_at, running
from two_labs import Lab, Run, asked

from plugins.cluster.stores.s3 import BucketPath
from plugins.exchange.bundle import read_manifest
from warehouse.remote import remote_path

ADDRESS = f"s3://{BUCKET}/shared"


@pytest.fixture
def in_bucket(far: Lab, tell: Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[BucketPath]:
    """The far lab's export."""
    with running() as server:
        point_at(monkeypatch, server.address)
        make_bucket()
        tell(far, "exchange", "export", ADDRESS, "--problem", "synthetic")
        top = remote_path(ADDRESS)
        assert isinstance(top, BucketPath)
        yield top


def test_rows_of_a_bundle_in_a_bucket_are_those_of_a_folder(
    in_bucket: BucketPath, bundle: Path, near: Lab, far: Lab, tell: Run
) -> None:
    names = {path.relative_to(bundle).as_posix() for path in bundle.rglob("*") if path.is_file()}
    assert {str(path).removeprefix(f"{ADDRESS}/") for path in in_bucket.glob("**/*")} == names
    tell(near, "exchange", "attach", str(bundle), "--name", "folder")
    tell(near, "exchange", "attach", ADDRESS, "--name", "bucket")
    for table in ("tokens", "units", "metric_values", "documents"):
        rows = f"select count(*) as rows, sum(hash(t)) as content from {{}}.{table} as t"
        there = asked(near, tell, rows.format("bucket"))
        assert there == asked(near, tell, rows.format("folder")) and there[0]["rows"] > 0
    ranked = tell(near, "correlate", "--problem", "synthetic", "--with", "bucket", "--json").stdout
    assert all(f"lab/model-{number}" in ranked for number in range(8))
    # a finished export is not written over, and is again what it was when it is
    assert "--force" in tell(far, "exchange", "export", ADDRESS, code=1).output
    before = {str(path): path.read_bytes() for path in in_bucket.glob("data/**/*")}
    tell(far, "exchange", "export", ADDRESS, "--force")
    assert {str(path): path.read_bytes() for path in in_bucket.glob("data/**/*")} == before
    # nor does anything stay of what another export leaves out
    tell(far, "exchange", "export", ADDRESS, "--force", "--texts", "never")
    listed = {f"{ADDRESS}/{file.path}" for file in read_manifest(ADDRESS)[0].files}
    assert {str(path) for path in in_bucket.glob("**/*")} == {*listed, f"{ADDRESS}/manifest.json"}
    assert not list(in_bucket.glob("data/tokens/**/*"))


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("truncated", "bytes, the manifest has"),
        ("flipped", "another sha256"),
        ("missing", "missing"),
    ],
)
def test_damage_in_a_bucket_is_named_and_nothing_is_attached(
    in_bucket: BucketPath, near: Lab, tell: Run, how: str, words: str
) -> None:
    victim = next(iter(in_bucket.glob("data/tokens/**/*.parquet")))
    content = victim.read_bytes()
    if how == "missing":
        victim.unlink()
    elif how == "flipped":
        victim.put(content[:50] + bytes([content[50] ^ 1]) + content[51:])
    else:
        victim.put(content[: len(content) // 2])
    done = tell(near, "exchange", "attach", ADDRESS, "--name", "evil", code=4)
    assert words in done.output
    assert tell(near, "exchange", "attach").output == ""
