"""The hub answers the real client; the 17 look-alikes load; `make rehearse` does the rest."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rehearsal.all_well import TOKEN, Stage, stored_units
from tests.rehearsal.broken import BREAKAGES, rehearse
from tests.rehearsal.hub import Hub, Repository
from tests.rehearsal.lookalikes import LOOK_ALIKES, frozen_ntk_base
from tests.rehearsal.scratch import PROBLEM, Scratch, state_true_sizes
from tests.rehearsal.small_card import TOO_LARGE, SmallCard
from tests.rehearsal.steps import Steps

NAME = "some/model"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    """One small repository; its weights are longer than the client's parts of 10 MiB."""
    repository = Repository()
    _commit(repository, tmp_path / "one", b"1" * (12 << 20))
    with Hub({NAME: repository}) as running:
        yield running


def _commit(repository: Repository, folder: Path, weights: bytes) -> str:
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(weights)
    return repository.commit(folder)


def _download(hub: Hub, home: Path, revision: str, token: str | None = None) -> dict[str, str]:
    """What the real client makes of a repository, in a process that knows this hub only."""
    code = (
        "import json, sys; from huggingface_hub import HfApi, snapshot_download\n"
        "try:\n"
        f"    commit = HfApi().model_info({NAME!r}, revision={revision!r}).sha\n"
        f"    print(json.dumps({{'commit': commit, 'folder': snapshot_download({NAME!r},"
        f" revision={revision!r})}}))\n"
        "except Exception as error:\n"
        "    print(json.dumps({'error': type(error).__name__}))\n"
    )
    environment = Scratch(home, hub.endpoint, token).environment()
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_commit_is_served_after_its_branch_has_moved(hub: Hub, tmp_path: Path) -> None:
    first = hub.repositories[NAME].main
    second = _commit(hub.repositories[NAME], tmp_path / "two", b"2")
    moved = _download(hub, tmp_path / "home", "main")
    assert moved["commit"] == second
    kept = _download(hub, tmp_path / "other-home", first)
    assert kept["commit"] == first
    for found, weights in ((moved, b"2"), (kept, b"1" * (12 << 20))):
        assert (Path(found["folder"]) / "model.safetensors").read_bytes() == weights
    assert not hub.unexpected


@pytest.mark.parametrize("token", [None, "another"])
def test_a_gated_repository_opens_to_its_token_only(
    hub: Hub, tmp_path: Path, token: str | None
) -> None:
    hub.repositories[NAME].token = TOKEN
    assert _download(hub, tmp_path / "home", "main", token) == {"error": "GatedRepoError"}
    assert "folder" in _download(hub, tmp_path / "home", "main", TOKEN)


def test_a_broken_download_resumes_where_it_broke(hub: Hub, tmp_path: Path) -> None:
    repository = hub.repositories[NAME]
    repository.breaks_off, repository.breaks_left = 11 << 20, 1
    folder = Path(_download(hub, tmp_path / "home", "main")["folder"])
    assert (folder / "model.safetensors").read_bytes() == b"1" * (12 << 20)
    ranges = [asked.byte_range for asked in hub.downloads(NAME, ".safetensors")]
    assert ranges == [None, f"bytes={10 << 20}-"]


def test_missing_files_have_distinct_messages(hub: Hub, tmp_path: Path) -> None:
    assert _download(hub, tmp_path, "no-branch") == {"error": "RevisionNotFoundError"}
    hub.repositories.clear()
    assert _download(hub, tmp_path, "main") == {"error": "RepositoryNotFoundError"}


def test_the_frozen_ntk_bases_are_those_of_the_authors() -> None:
    assert frozen_ntk_base(4.0, 32_768) == pytest.approx(305_921.97, abs=0.01)
    assert frozen_ntk_base(8.0, 65_536) == pytest.approx(1_305_706.17, abs=0.01)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    stage = Stage(tmp_path_factory.mktemp("rehearsal"))
    stage.build()
    return stage


@pytest.mark.slow
def test_all_17_models_come_from_the_hub_and_are_scored(stage: Stage) -> None:
    with Hub(stage.repositories) as hub:
        scratch = stage.checkout("checkout", hub)
        state_true_sizes(scratch.root)
        done = scratch.run("extract", "--problem", PROBLEM, "--device", "cpu", "--documents", "1")
        assert done.code == 0, str(done)
        conditions = [c.name for probe in scratch.problem.probes for c in probe.conditions()]
        for model in LOOK_ALIKES:
            units = stored_units(scratch, model.full_id, conditions)
            assert {key: unit.status for key, unit in units.items()} == {
                (name, 0): "done" for name in conditions
            }
        assert not hub.unexpected


@pytest.mark.slow
@pytest.mark.parametrize("name", ["no sentencepiece"])
def test_a_broken_model_is_named_and_the_others_are_done(stage: Stage, name: str) -> None:
    rehearse(next(breakage for breakage in BREAKAGES if breakage.name == name), stage)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_on_a_card_of_24_gb_the_plan_names_what_the_engine_refuses(stage: Stage) -> None:
    with Hub(stage.repositories) as hub:
        steps = Steps(print)
        models = ("Leooyii/PI_32k_Slimpajama_1B", "Qwen/Qwen2-0.5B-Instruct", TOO_LARGE)
        SmallCard(stage.checkout("small-card", hub), steps, models).run()
        assert not hub.unexpected
    assert not steps.failures, steps.failures
