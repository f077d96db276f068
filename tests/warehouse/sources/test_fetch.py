"""Fetching locked files from a local HTTP server, checkpoints from a made-up hub, the command."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePath
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from fetch_samples import (
    place_locked,
    problem,
    sha256,
)
from refusal import refuses

from tokenmart import cli
from warehouse.errors import LockedFileError, TokenmartError
from warehouse.paths import Workspace
from warehouse.problem.models import ModelSpec
from warehouse.problem.required_files import downloads_text, required_files
from warehouse.problem.spec import Problem, load_problem
from warehouse.problem.tables import ensure_documents
from warehouse.sources.folders import ProblemFolders
from warehouse.sources.lock_file import recorded_files
from warehouse.sources.weights import SAFETENSORS, Located, weight_files

# Locked files over HTTP

Serve = Callable[[dict[str, Any]], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serve path → bytes, or (status, headers, bytes); returns the address."""
    servers = []

    def start(pages: dict[str, Any]) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                page = pages.get(self.path, (404, {}, b"not found"))
                status, headers, body = page if isinstance(page, tuple) else (200, {}, page)
                self.send_response(status)
                for key, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(key, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None: ...

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def at(url: str) -> Problem:
    """The problem with this address of its documents."""
    return problem(
        documents={"kind": "json", "path": "data/proxy/docs.json", "locked": True, "url": url}
    )


def test_a_locked_file_is_downloaded_and_recorded(workspace, serve):
    server = serve({"/docs.json": b'["one", "two"]'})
    assert ensure_documents(at(f"{server}/docs.json"), workspace)["text"].to_pylist() == [
        "one",
        "two",
    ]
    assert recorded_files(workspace, "tiny") == {"data/proxy/docs.json": sha256(b'["one", "two"]')}


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        ((404, {}, b""), "404"),
        ((500, {}, b""), "500"),
        (b"<html>log in</html>", "JSONDecodeError"),
        ((200, {"Content-Length": "99"}, b'["cut'), "IncompleteRead"),
        ((302, {"Location": "file:///etc/hostname"}, b""), "302"),
    ],
)
def test_a_bad_answer_leaves_nothing(workspace, serve, page, reason):
    made = at(serve({"/docs.json": page}) + "/docs.json")
    with pytest.raises(LockedFileError, match=reason) as caught:
        ensure_documents(made, workspace)
    assert f"place the file at {workspace.root}/data/proxy/docs.json" in str(caught.value)
    assert not (workspace.root / "data" / "proxy").exists()
    assert not workspace.lock_files.exists()


@pytest.mark.parametrize(
    ("url", "offline"),
    [
        ("http://127.0.0.1:9/docs.json", False),
        ("ftp://127.0.0.1/docs.json", False),
        ("http://127.0.0.1:9/docs.json", True),
        (None, False),
    ],
)
def test_without_network_the_missing_file_is_named(workspace, url, offline):
    with pytest.raises(LockedFileError) as caught:
        ensure_documents(at(url), workspace, offline=offline)
    assert (caught.value.code, caught.value.exit_code) == ("locked-file-missing", 3)
    assert caught.value.where == "data/proxy/docs.json"


def test_a_file_placed_by_hand_is_locked_at_first_use(workspace):
    path = place_locked(workspace, b'["one"]')
    assert ensure_documents(problem(), workspace, offline=True).num_rows == 1
    path.write_bytes(b'["changed"]')
    with refuses("locked-file-changed", "data/proxy/docs.json"):
        ensure_documents(problem(), workspace)
    assert path.read_bytes() == b'["changed"]', "the user's file is never overwritten"


# Hub


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A hub that contains one model whose branch can move; `files` is what a snapshot has."""
    import huggingface_hub
    from huggingface_hub.errors import LocalEntryNotFoundError

    state = SimpleNamespace(main="c0ffee", files=["config.json", "model.safetensors"], calls=[])
    cache = tmp_path / "hub"

    def snapshot_download(
        full_id: str,
        *,
        revision: str,
        allow_patterns: list[str] | None = None,
        local_files_only: bool = False,
    ) -> str:
        if isinstance(state.main, Exception):
            raise state.main
        folder = cache / (revision if (cache / revision).is_dir() else state.main)
        if local_files_only:
            # as the hub's client: without patterns all files of the repository must be there
            if folder.name != revision or not folder.is_dir() or allow_patterns is None:
                raise LocalEntryNotFoundError("not cached")
            return str(folder)
        assert allow_patterns is not None
        state.calls.append((folder.name, allow_patterns[0]))
        folder.mkdir(parents=True, exist_ok=True)
        for name in state.files:
            if any(PurePath(name).match(pattern) for pattern in allow_patterns):
                (folder / name).parent.mkdir(exist_ok=True)
                shards = [n for n in state.files if n.startswith("model-")]
                (folder / name).write_text(json.dumps({"weight_map": {n: n for n in shards}}))
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    return state


def located(workspace: Workspace, offline: bool = False) -> Located:
    return HUB_MODEL.locate(ProblemFolders(workspace, "tiny", offline))


HUB_MODEL = ModelSpec.model_validate(
    {"full_id": "org/model", "family": "f", "source": {"kind": "hub"}}
)


def test_a_commit_is_recorded_and_kept(workspace, hub):
    found = located(workspace)
    assert (found.revision, found.path.name) == ("c0ffee", "c0ffee")
    hub.main = "decade"
    assert located(workspace) == found
    assert located(workspace, offline=True) == found
    assert HUB_MODEL.present(ProblemFolders(workspace, "tiny")) == found.path
    assert hub.calls == [("c0ffee", "model*.safetensors")], "downloaded once"
    lock = json.loads((workspace.lock_files / "tiny.json").read_text())
    assert lock["revisions"] == {"org/model": "c0ffee"}


def test_a_download_that_was_killed_before_its_index_goes_on(workspace, hub, tmp_path):
    """The commit is on record already: the lock file came with the checkout."""
    parts = [f"model-{number:05d}-of-00002.safetensors" for number in (1, 2)]
    index = "model.safetensors.index.json"
    hub.files = ["config.json", *parts, index]
    assert located(workspace).path.is_dir() and len(hub.calls) == 1
    for name in (parts[1], index):
        (tmp_path / "hub" / "c0ffee" / name).unlink()
    assert HUB_MODEL.present(ProblemFolders(workspace, "tiny")) is None
    found = located(workspace)
    assert len(hub.calls) == 2
    assert {path.name for path in found.path.iterdir()} == set(hub.files)


@pytest.mark.parametrize("shards", [0, 2])
def test_weights_for_other_software_are_neither_fetched_nor_counted(shards, workspace, hub):
    """Mistral's repositories have the same weights as `consolidated.safetensors`, too."""
    names = [f"model-{n:05d}-of-00002.safetensors" for n in (1, 2)[:shards]]
    index = ["model.safetensors.index.json"] if shards else []
    other = ["consolidated.safetensors", "consolidated.safetensors.index.json"]
    hub.files = ["config.json", *(names or ["model.safetensors"]), *index, *other]
    folder = located(workspace).path
    assert not (folder / other[0]).exists() and len(hub.calls) == 1
    # in a folder that another program fetched
    (folder / other[0]).write_bytes(bytes(4000))
    (folder / other[1]).write_text('{"weight_map": {"a": "consolidated-00002.safetensors"}}')
    assert [path.name for path in weight_files(folder, SAFETENSORS)] == sorted(
        names or ["model.safetensors"]
    )
    assert located(workspace, offline=True).path == folder


def test_a_variant_of_a_hub_model_takes_its_bases_weights(workspace, hub):
    variant = HUB_MODEL.model_copy(update={"full_id": "org/model-linear", "base": "org/model"})
    assert variant.locate(ProblemFolders(workspace, "tiny")).revision == "c0ffee"
    lock = json.loads((workspace.lock_files / "tiny.json").read_text())
    assert lock["revisions"] == {"org/model": "c0ffee"}


def test_two_revisions_of_one_repository_are_two_checkpoints(workspace, hub):
    """Each has its own commit, its own record, and stays what it was when the other moves."""
    folders = ProblemFolders(workspace, "tiny")
    found = {}
    for step, commit in (("step1000", "c0ffee"), ("step2000", "decade"), ("main", "facade")):
        hub.main = commit
        source = {"kind": "hub", "repository": "org/model", "revision": step}
        spec = ModelSpec.model_validate({"full_id": f"run-{step}", "family": "f", "source": source})
        assert spec.present(folders) is None
        found[step] = (spec, spec.locate(folders))
    hub.main = "0badc0de"
    for step, commit in (("step1000", "c0ffee"), ("step2000", "decade"), ("main", "facade")):
        spec, located = found[step]
        assert located.revision == commit and spec.locate(folders) == located
        assert spec.present(folders) == located.path
        assert spec.required_file(folders).place == f"hub:org/model@{step}"
    lock = json.loads((workspace.lock_files / "tiny.json").read_text())
    assert lock["revisions"] == {
        "org/model": "facade", "org/model@step1000": "c0ffee", "org/model@step2000": "decade",
    }  # fmt: skip


def test_two_subfolders_of_one_commit_are_two_checkpoints(workspace, hub):
    """Correcting the subfolder of a model makes what was stored of it outdated."""
    folders = ProblemFolders(workspace, "tiny")
    steps = ("iter_0002000", "iter_0004000")
    hub.files = [f"{step}/{name}" for step in steps for name in ("config.json", "m.safetensors")]
    for step in steps:
        source = {"kind": "hub", "repository": "org/model", "subfolder": step}
        spec = ModelSpec.model_validate({"full_id": "run", "family": "f", "source": source})
        assert spec.present(folders) is None
        # what is still to fetch is listed once for each place
        assert spec.required_file(folders).place == f"hub:org/model@main/{step}"
        found = spec.locate(folders)
        assert (found.revision, found.path.name) == (f"c0ffee/{step}", step)
        assert spec.locate(folders) == found and spec.present(folders) == found.path
    lock = json.loads((workspace.lock_files / "tiny.json").read_text())
    assert lock["revisions"] == {"org/model": "c0ffee"}


def test_a_revision_that_was_edited_is_the_one_that_is_fetched(workspace, hub):
    located(workspace)
    hub.main = "decade"
    edited = HUB_MODEL.model_copy(
        update={"source": HUB_MODEL.source.model_copy(update={"revision": "v2"})}
    )
    assert edited.locate(ProblemFolders(workspace, "tiny")).revision == "decade"


def refused(workspace: Workspace, offline: bool = False) -> tuple[str, str]:
    with pytest.raises(TokenmartError) as caught:
        located(workspace, offline)
    assert "\n" not in caught.value.message
    return caught.value.code, caught.value.where


@pytest.mark.parametrize("weights", ["pytorch_model.bin", "training_args.bin"])
def test_pickled_weights_are_refused_before_they_are_fetched(workspace, hub, weights):
    hub.files = ["config.json", weights]
    assert refused(workspace) == ("no-weights", "org/model")
    assert hub.calls == [("c0ffee", "model*.safetensors"), ("c0ffee", "*.safetensors")]


@pytest.mark.parametrize("safe", [True, False])
def test_pickled_weights_are_fetched_where_allowed_and_needed(safe, workspace, hub):
    hub.files = ["config.json", "pytorch_model-00001-of-00001.bin", "training_args.bin"]
    hub.files += ["model.safetensors"] if safe else []
    allowed = ModelSpec.model_validate(
        {"full_id": "org/model", "family": "f", "source": {"kind": "hub", "pickled": True}}
    )
    found = allowed.locate(ProblemFolders(workspace, "tiny"))
    assert found.is_pickled is not safe
    weights = "model.safetensors" if safe else "pytorch_model-00001-of-00001.bin"
    assert sorted(path.name for path in found.path.iterdir()) == ["config.json", weights]
    assert allowed.locate(ProblemFolders(workspace, "tiny", offline=True)) == found


def test_a_missing_shard_is_noticed(workspace, hub):
    folder = located(workspace).path
    index = {"weight_map": {"a": "model-00001.safetensors", "b": "model-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert refused(workspace, offline=True) == ("offline", "org/model")


@pytest.mark.parametrize(
    "error",
    [
        ConnectionError("[Errno -2] Name or service not known"),
        type("GatedRepoError", (Exception,), {})("Access is restricted.\nLog in."),
        type("RevisionNotFoundError", (Exception,), {})(),
    ],
)
def test_hub_failures_are_one_line(workspace, hub, error):
    hub.main = error
    assert refused(workspace) == ("hub", "org/model")


# The command

PROBLEM_FILE = """\
name: tiny
title: t
models: [{full_id: m, family: f, source: {kind: local, path: m}}]
probes: [{kind: full}]
documents: {kind: json, path: data/proxy/docs.json, locked: true}
target: {kind: file, path: results/target.json}
"""


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["data", "fetch", *arguments])
    return result.exit_code, result.output


def test_the_command_fetches(workspace):
    (workspace.problems / "tiny.yml").write_text(PROBLEM_FILE)
    code, output = run("--problem", "tiny")
    assert (code, output.count("error: ")) == (3, 1)
    place_locked(workspace, b'["one", "two"]')
    code, output = run("--problem", "tiny", "--only", "documents")
    assert (code, "documents: 2" in output) == (0, True)


SIZED = {"kind: hub}": "unknown size: org/m", "kind: hub}, parameters: 1000000000": "2.0 GB"}


@pytest.mark.parametrize("source", SIZED)
def test_the_models_still_to_fetch_are_sized(workspace, source):
    text = PROBLEM_FILE.replace("full_id: m", "full_id: org/m")
    text = text.replace("kind: local, path: m}", source).split("target:")[0]
    (workspace.problems / "tiny.yml").write_text(text)
    problem = load_problem("tiny", workspace)
    assert SIZED[source] in downloads_text(required_files(problem, workspace, problem.models))


def test_a_target_is_locked_when_it_is_one(workspace, serve):
    url = serve({"/t.json": b"{}"}) + "/t.json"
    text = PROBLEM_FILE.replace("target.json}", f"target.json, url: '{url}'}}")
    (workspace.problems / "tiny.yml").write_text(text)
    assert run("--problem", "tiny", "--only", "target")[0] == 3
    assert recorded_files(workspace, "tiny") == {}
    path = workspace.root / "results" / "target.json"
    path.write_text('{"m": 1.0}')
    assert run("--problem", "tiny", "--only", "target")[0] == 0
    assert recorded_files(workspace, "tiny") == {"results/target.json": sha256(b'{"m": 1.0}')}
    path.write_text('{"m": 2.0}')
    assert run("--problem", "tiny", "--only", "target")[0] == 3


def test_fetching_a_target_warns_that_preregistration_closes(workspace):
    """Unless it was here before, or it alone is asked for and something is registered."""
    (workspace.problems / "tiny.yml").write_text(PROBLEM_FILE)

    def told(*arguments: str) -> bool:
        return run("--problem", "tiny", *arguments)[1].startswith("note: ")

    assert told() and told("--only", "target")
    assert not told("--only", "documents") and not told("--offline")
    workspace.preregistered.mkdir()
    (workspace.preregistered / "tiny.json").touch()
    assert told() and not told("--only", "target")
    (workspace.root / "results").mkdir()
    (workspace.root / "results" / "target.json").touch()
    assert not told()


def test_the_command_refuses_what_does_not_go_together(workspace):
    (workspace.problems / "tiny.yml").write_text(PROBLEM_FILE)
    assert run("--problem", "tiny", "--only", "target", "--model", "m")[0] == 2
    assert run("--problem", "tiny", "--only", "everything")[0] == 2
    assert run("--problem", "tiny", "--model", "x")[0] == 1
