"""The locked problem from an empty checkout to a reproduced submission, with look-alikes.

The real client talks to a local hub. One download breaks off, one branch moves, and the extraction
is killed on the way. Log-probs are compared with those of plain forwards of plain models.
"""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.rehearsal.hub import Hub, Repository
from tests.rehearsal.lookalikes import LOOK_ALIKES, LookAlike
from tests.rehearsal.reference import as_trained, worst_difference
from tests.rehearsal.repositories import make_repository, make_tokenizers
from tests.rehearsal.scratch import DOCUMENTS, FULL, PROBLEM, Scratch, make_checkout
from warehouse.probes.request import Condition
from warehouse.problem.models import slug
from warehouse.sources.lock_file import recorded_revision
from warehouse.store.ledger import UnitRecord
from warehouse.store.token_files import finished_units

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

TOKEN = "a-token-that-agreed-to-the-licence"
TOLERANCE = 1e-4
"""Nats between a stored log-prob and a plain float32 forward's."""
METRIC = ("--metric", "context_gain/clipped_5@window_4096")
EXTRACT = ("extract", "--problem", PROBLEM, "--device", "cpu")
"""The processor by name: float32, the same numbers on every machine."""


@dataclass(frozen=True)
class Stage:
    """The hub, its repositories, and a checkout that knows no other hub."""

    folder: Path
    hub: Hub
    scratch: Scratch

    @property
    def conditions(self) -> list[Condition]:
        """Of the locked problem's probes."""
        return [c for probe in self.scratch.problem.probes for c in probe.conditions()]

    def units(self, full_id: str) -> dict[tuple[str, int], UnitRecord]:
        """The stored units of a model, by condition and document."""
        return {
            (condition.name, doc_id): unit
            for condition in self.conditions
            for doc_id, unit in finished_units(
                self.scratch.workspace, PROBLEM, slug(full_id), condition.name
            ).items()
        }


def repository_folder(folder: Path, full_id: str, commit: str = "first") -> Path:
    return folder / "repositories" / slug(full_id) / commit


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("rehearsal")
    tokenizers = folder / "tokenizers"
    make_tokenizers(tokenizers)
    repositories = {}
    for seed, model in enumerate(LOOK_ALIKES):
        files = repository_folder(folder, model.full_id)
        make_repository(model, files, tokenizers, seed)
        repository = Repository(token=TOKEN if model.gated else None)
        repository.commit(files)
        repositories[model.full_id] = repository
    make_checkout(folder / "checkout", tokenizers)
    with Hub(repositories) as hub:
        yield Stage(folder, hub, Scratch(folder / "checkout", hub.endpoint, TOKEN))


@pytest.fixture(scope="module")
def fetched(stage: Stage) -> Stage:
    """All repositories downloaded; one connection breaks off on the way and is resumed."""
    broken = next(model.full_id for model in LOOK_ALIKES if model.breaks_once)
    stage.hub.repositories[broken].breaks_off = 11 << 20
    stage.scratch.run("data", "fetch", "--problem", PROBLEM)
    stage.scratch.run("data", "fetch", "--problem", PROBLEM, "--only", "models")
    # the client keeps parts of 10 MiB
    ranges = [asked.byte_range for asked in stage.hub.downloads(broken, ".safetensors")]
    assert ranges == [None, f"bytes={10 << 20}-"]
    return stage


@pytest.fixture(scope="module")
def extracted(fetched: Stage) -> Stage:
    """Everything extracted, by a run that is killed and one that completes it."""
    moving = next(model for model in LOOK_ALIKES if model.moves)
    kept = fetched.hub.repositories[moving.full_id].main
    second = repository_folder(fetched.folder, moving.full_id, "second")
    make_repository(moving, second, fetched.folder / "tokenizers", seed=1000)
    assert fetched.hub.repositories[moving.full_id].commit(second) != kept
    cached = f"models--{moving.full_id.replace('/', '--')}"
    shutil.rmtree(fetched.scratch.root / "hub" / "hub" / cached)

    # killed once units of two models are stored: one is done and the other has begun
    process = fetched.scratch.start("-m", "tokenmart", *EXTRACT)
    until = time.monotonic() + 600
    while sum(bool(fetched.units(model.full_id)) for model in LOOK_ALIKES) < 2:
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = {model.full_id: fetched.units(model.full_id) for model in LOOK_ALIKES}
    fetched.scratch.run(*EXTRACT)
    for full_id, units in before.items():
        now = fetched.units(full_id)
        assert {key: now[key].finished_at for key in units} == {
            key: unit.finished_at for key, unit in units.items()
        }
    # the recorded commit, not that of the branch
    assert recorded_revision(fetched.scratch.workspace, PROBLEM, moving.full_id) == kept
    return fetched


def test_the_look_alikes_are_the_locked_models(stage):
    models = {spec.full_id for spec in stage.scratch.problem.models if not spec.on_request}
    assert models == {model.full_id for model in LOOK_ALIKES} and len(models) == 17


def test_of_two_copies_of_the_weights_one_is_downloaded(fetched):
    for model in LOOK_ALIKES:
        assert bool(fetched.hub.downloads(model.full_id, ".bin")) == (model.weights == "bin")


def test_every_unit_is_done(extracted):
    for model in LOOK_ALIKES:
        units = extracted.units(model.full_id)
        assert len(units) == DOCUMENTS * len(extracted.conditions)
        assert {(unit.status, unit.dtype) for unit in units.values()} == {("done", "float32")}
        assert (units["full", FULL].over_limit_tokens > 0) == model.fine
    status = extracted.scratch.run("status", "--problem", PROBLEM, "--json")
    rows = json.loads(status[status.index("[") : status.rindex("]") + 1])
    ours = [row for row in rows if row["model_id"] in {slug(m.full_id) for m in LOOK_ALIKES}]
    assert len(ours) == 17 * len(extracted.conditions)
    assert all(row["done"] == row["documents"] for row in ours)
    assert not [each for each in extracted.hub.asked if each.status == 501]


def difference(
    stage: Stage, model: LookAlike, plain: object, full_id: str = "", full_only: bool = False
) -> float:
    """Worst over every position of the longest document, in conditions that read from the left."""
    chosen = [
        each
        for each in stage.conditions
        if (each.kind.whole_context if full_only else each.kind.contiguous)
    ]
    assert chosen
    workspace, problem = stage.scratch.workspace, stage.scratch.problem
    folder = repository_folder(stage.folder, model.full_id)
    return worst_difference(
        model, full_id or model.full_id, FULL, chosen, problem, workspace, folder, plain
    )


@pytest.mark.parametrize("model", LOOK_ALIKES, ids=lambda model: model.full_id)
def test_logprobs_are_those_of_plain_forwards(extracted, model):
    folder = repository_folder(extracted.folder, model.full_id)
    assert difference(extracted, model, as_trained(model, folder)) < TOLERANCE


def test_an_ntk_model_as_stock_code_reads_it(extracted):
    """The variant on request: each input has the base of its own length."""
    model = next(model for model in LOOK_ALIKES if "NTK_64k" in model.full_id)
    variant = f"{model.full_id}-stock-dynamic"
    documents = ("--probe", "full", "--documents", str(FULL + 1))
    extracted.scratch.run(*EXTRACT, "--model", variant, *documents)
    folder = repository_folder(extracted.folder, model.full_id)
    plain = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    assert difference(extracted, model, plain, variant, full_only=True) < TOLERANCE
    assert difference(extracted, model, plain, full_only=True) > 100 * TOLERANCE


def test_from_tokens_to_a_reproduced_submission(extracted):
    scratch = extracted.scratch
    scratch.run("data", "fetch", "--problem", PROBLEM, "--offline")
    scratch.run("data", "check", "--problem", PROBLEM)
    scratch.run("dbt", "--quiet", "build")
    scratch.run("correlate", "--problem", PROBLEM)
    scratch.run("select", "--problem", PROBLEM)
    submission = scratch.root / "results" / "rehearsal"
    scratch.run("submit", "--problem", PROBLEM, *METRIC, "--out", str(submission))
    file = next(submission.rglob("submission.json"))
    assert set(json.loads(file.read_bytes())) == {model.full_id for model in LOOK_ALIKES}
    # the script itself reads the locked files of its own checkout
    script = ("scripts/verify_locked_no4k.py", "--submission", str(file), "--metric-key", "score")
    verifier = scratch.start(*script, "--out", str(scratch.root / "result.json"))
    output, _ = verifier.communicate()
    assert verifier.returncode == 0, output
    scratch.run("reproduce", str(submission))
