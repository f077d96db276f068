"""Published and pending files that are damaged, and a disk that is full."""

from __future__ import annotations

from tiny_runs import ok, one_line_error, run

from warehouse.store.token_files import pending_folder, published_path


def test_a_damaged_published_file_is_named_and_kept(workspace, tiny_problem):
    path = tiny_problem()
    ok(run(path))
    target = published_path(workspace, "tiny", "tiny--one", "full")
    whole = target.read_bytes()
    target.write_bytes(whole[: len(whole) // 2])
    assert str(target) in one_line_error(run(path), 4)
    target.unlink()
    assert "extracted 4 units" in ok(run(path))


def test_a_damaged_pending_unit_is_computed_again(workspace, tiny_problem):
    path = tiny_problem()
    folder = pending_folder(workspace, "tiny", "tiny--one", "full")
    folder.mkdir(parents=True)
    (folder / "doc-000001.parquet").write_bytes(b"half a fi")
    assert "extracted 32 units" in ok(run(path))
    assert (folder / "doc-000001.damaged").is_file()
