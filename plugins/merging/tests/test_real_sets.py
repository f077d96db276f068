"""Real validation sets: downloaded once, held to their hash, and written as tasks of the harness.

A local server gives made-up files in the form of the published ones.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from plugins.merging import real_sets
from tokenmart import cli
from warehouse.paths import Workspace

BOOLQ = [
    {
        "instruction": "Please answer the following question with true or false, question: is "
        f"number {number} even?\n\nAnswer format: true/false",
        "input": "",
        "output": "",
        "answer": "false" if number % 2 else "true",
    }
    for number in range(20)
]
MAWPS = [
    {"instruction": f"Ann has {number} pears and half a pear. How many? ", "answer": answer}
    for number, answer in enumerate(["4.0", "1.1666666666666667", "2.5", "-15.0", "0.25"])
]
FILES = {
    "boolq/test.json": json.dumps(BOOLQ).encode(),
    "mawps/test.json": json.dumps(MAWPS).encode(),
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, workspace: Workspace) -> Iterator[list[str]]:
    """The paths that the server was asked for."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            body = FILES[self.path.partition("/dataset/")[2]]
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(real_sets, "ADDRESS", f"http://127.0.0.1:{server.server_port}/repository")
    for name in ("boolq", "mawps"):
        body = FILES[f"{name}/test.json"]
        count = len(json.loads(body))
        pinned = real_sets.RealSet(f"{name}/test.json", hashlib.sha256(body).hexdigest(), count)
        monkeypatch.setitem(real_sets.SETS, name, pinned)
    yield paths
    server.shutdown()


def write(out: Path, *more: str) -> Result:
    words = ["merge", "tasks", "--out", str(out), "--real", "boolq", "--real", "mawps", *more]
    return CliRunner().invoke(cli, words)


def rows(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_sets_become_tasks_and_are_downloaded_once(asked, tmp_path):
    done = write(tmp_path / "few", "--count", "8")
    assert done.exit_code == 0, done.output
    commit = real_sets.COMMIT
    assert asked == [
        f"/repository/{commit}/dataset/{name}/test.json" for name in ("boolq", "mawps")
    ]
    few = rows(tmp_path / "few" / "real_boolq.jsonl")
    assert {row["prompt"] for row in few} < {
        f"Question: is number {n} even?\nAnswer:" for n in range(20)
    }
    for row in few:
        even = int(str(row["prompt"]).split()[3]) % 2 == 0
        assert row["choices"] == ["no", "yes"] and row["gold"] == int(even)
    answers = {row["answer"] for row in rows(tmp_path / "few" / "real_mawps.jsonl")}
    assert answers == {"4", "2.5", "-15", "0.25"}
    more = write(tmp_path / "more", "--count", "12")
    assert more.exit_code == 0 and len(asked) == 2  # from the cache
    assert rows(tmp_path / "more" / "real_boolq.jsonl")[:8] == few
    other = write(tmp_path / "other", "--count", "8", "--seed", "1")
    assert other.exit_code == 0 and rows(tmp_path / "other" / "real_boolq.jsonl") != few


def test_the_harness_asks_them(asked, tmp_path):
    pytest.importorskip("lm_eval")
    from plugins.benchmarks.harness.tasks import load_tasks

    assert write(tmp_path / "t").exit_code == 0
    reading, maths = load_tasks(["real_boolq", "real_mawps"], [tmp_path / "t"])
    prompts = [request.arguments for request in reading.units[0].requests[:2]]
    assert [choice for _, choice in prompts] == [" no", " yes"]
    assert maths.units[0].requests[0].kind == "loglikelihood"


def test_another_file_is_refused(asked, workspace, tmp_path, monkeypatch):
    assert write(tmp_path / "a").exit_code == 0
    (kept,) = workspace.cache.rglob("mawps.json")
    kept.write_text(kept.read_text().replace("pears", "plums"))
    assert (
        write(tmp_path / "b").exit_code == 1 and not (tmp_path / "b" / "real_mawps.yaml").exists()
    )
    monkeypatch.setattr(real_sets, "ADDRESS", "http://127.0.0.1:9")
    kept.unlink()
    assert write(tmp_path / "c").exit_code == 1
