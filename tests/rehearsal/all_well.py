"""Everything of `no4k` from an empty checkout to a reproduced submission, as the README says it."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.rehearsal.hub import Hub, Repository
from tests.rehearsal.lookalikes import LOOK_ALIKES, LookAlike
from tests.rehearsal.reference import as_stock_code_reads_it, as_trained, worst_difference
from tests.rehearsal.repositories import make_repository, make_tokenizers
from tests.rehearsal.scratch import (
    CHECKOUT,
    DOCUMENTS,
    FULL,
    PROBLEM,
    Done,
    Scratch,
    make_checkout,
    place_locked_files,
)
from tests.rehearsal.steps import Steps, require
from warehouse.probes.request import Condition
from warehouse.problem.models import slug
from warehouse.sources.lock_file import recorded_revision
from warehouse.store.ledger import UnitRecord
from warehouse.store.token_files import finished_units

TOKEN = "a-token-that-agreed-to-the-licence"
TOLERANCE = 1e-4
"""Nats between a stored log-prob and a plain float32 forward's."""
METRIC = ("--metric", "context_gain/clipped_5@window_4096")


@dataclass
class Stage:
    """Repositories, the hub in front of them, and a scratch checkout."""

    folder: Path
    repositories: dict[str, Repository] = field(default_factory=dict)

    def repository_folder(self, full_id: str, commit: str = "first") -> Path:
        """The files of one commit of a repository."""
        return self.folder / "repositories" / slug(full_id) / commit

    @property
    def tokenizers(self) -> Path:
        """The tokenizers that repositories are made with."""
        return self.folder / "tokenizers"

    def build(self) -> None:
        """Make everything but the checkout."""
        make_tokenizers(self.tokenizers)
        for seed, model in enumerate(LOOK_ALIKES):
            folder = self.repository_folder(model.full_id)
            make_repository(model, folder, self.tokenizers, seed)
            repository = Repository(token=TOKEN if model.gated else None)
            repository.commit(folder)
            self.repositories[model.full_id] = repository

    def checkout(self, name: str, hub: Hub, **settings: Any) -> Scratch:
        """A new scratch checkout next to the repositories."""
        root = self.folder / name
        make_checkout(root)
        place_locked_files(root, self.tokenizers)
        return Scratch(root, hub.endpoint, **{"token": TOKEN, **settings})


@dataclass
class Results:
    """What the table shows of each model."""

    units: dict[str, int] = field(default_factory=dict)
    differences: dict[str, float] = field(default_factory=dict)

    def complete(self, full_id: str, expected: int) -> bool:
        """Whether a model has all its units and the right log-probs."""
        return (
            self.units.get(full_id) == expected
            and self.differences.get(full_id, float("inf")) <= TOLERANCE
        )


class AllWell:
    """The rehearsal in which nothing is broken but one connection and one process."""

    def __init__(self, stage: Stage, hub: Hub, scratch: Scratch, steps: Steps) -> None:
        self.stage, self.hub, self.scratch, self.steps = stage, hub, scratch, steps
        self.problem = scratch.problem
        self.conditions = [c for probe in self.problem.probes for c in probe.conditions()]
        self.units_per_model = len(self.conditions) * DOCUMENTS
        self.results = Results()
        self.moving = next(model for model in LOOK_ALIKES if model.moves)
        self.kept_commit = hub.repositories[self.moving.full_id].main

    def run(self) -> None:
        """All steps; one that fails doesn't keep later ones from being tried."""
        for name, work in {
            "the problem file names the 17 models": self.names,
            "doctor on the empty checkout": self.doctor_before,
            "data fetch": self.fetch,
            "extract --dry-run": self.dry_run,
            "data fetch --only models": self.models,
            "a branch moves": self.move_branch,
            "extract, killed on the way": self.killed,
            "extract again, to the end": self.extract,
            "status": self.status,
            "what the hub was asked": self.asked,
            "log-probs against plain forwards": self.logprobs,
            "an NTK model as stock code reads it": self.stock_reading,
            "doctor and check, all being here": self.doctor_after,
            "dbt build": self.dbt_build,
            "correlate": lambda: self.well(self.scratch.run("correlate", "--problem", PROBLEM)),
            "select": lambda: self.well(self.scratch.run("select", "--problem", PROBLEM)),
            "submit": self.submit,
            "the official verifier": self.verify,
            "reproduce": lambda: self.well(self.scratch.run("reproduce", str(self.submission))),
        }.items():
            self.steps.run(name, work)

    @property
    def submission(self) -> Path:
        """The folder of the submission."""
        return self.scratch.root / "results" / "rehearsal"

    def well(self, done: Done) -> None:
        """A command has to end with 0."""
        require(done.code == 0, str(done))

    def names(self) -> str:
        """The look-alikes are the problem's models, those on request left out."""
        models = {spec.full_id for spec in self.problem.models if not spec.on_request}
        require(models == {model.full_id for model in LOOK_ALIKES}, f"the file has {models}")
        return f"{len(models)} models"

    def doctor_before(self) -> str:
        """The models are missing, and nothing else is."""
        self.well(self.scratch.run("doctor"))
        done = self.scratch.run("data", "fetch", "--problem", PROBLEM, "--dry-run")
        self.well(done)
        missing = [line.split()[1] for line in done.output.splitlines() if line[:7] == "missing"]
        require(missing == ["models"] * len(LOOK_ALIKES), str(done))
        return "17 models missing, nothing else"

    def fetch(self) -> None:
        """The locked files, placed by hand, are accepted."""
        done = self.scratch.run("data", "fetch", "--problem", PROBLEM)
        self.well(done)
        require(f"documents: {DOCUMENTS} " in done.output, str(done))

    def dry_run(self) -> str:
        """The plan names every model."""
        done = self.scratch.run(*self.extraction, "--dry-run")
        self.well(done)
        absent = [m.full_id for m in LOOK_ALIKES if m.full_id.split("/")[1] not in done.output]
        require(not absent, f"not in the plan: {absent}\n{done.output}")
        return ""

    @property
    def extraction(self) -> tuple[str, ...]:
        """The processor by name: float32, the same numbers on every machine."""
        return ("extract", "--problem", PROBLEM, "--device", "cpu")

    def models(self) -> str:
        """Doctor's remedy downloads all models; one connection breaks on the way."""
        broken = next(model.full_id for model in LOOK_ALIKES if model.breaks_once)
        self.hub.repositories[broken].breaks_off = 11 << 20
        self.hub.repositories[broken].breaks_left = 1
        done = self.scratch.run("data", "fetch", "--problem", PROBLEM, "--only", "models")
        self.well(done)
        fetched = self.hub.downloads(broken, ".safetensors")
        require(any(each.byte_range for each in fetched), f"{broken}: not resumed but begun anew")
        for model in LOOK_ALIKES:
            require(f"model: {model.full_id} at" in done.output, f"{model.full_id}: {done}")
            bins = self.hub.downloads(model.full_id, ".bin")
            unwanted = bins and model.weights != "bin"
            require(not unwanted, f"{model.full_id}: its second copy of the weights was fetched")
        return "one download was resumed, no weights were fetched twice"

    def move_branch(self) -> str:
        """A commit is on record; then `main` moves and the client's copy of it is lost."""
        name = self.moving.full_id
        folder = self.stage.repository_folder(name, "second")
        make_repository(self.moving, folder, self.stage.tokenizers, seed=1000)
        moved = self.hub.repositories[name].commit(folder)
        require(moved != self.kept_commit, "the branch did not move")
        shutil.rmtree(self.scratch.hub_cache / "hub" / f"models--{name.replace('/', '--')}")
        return f"{self.kept_commit[:7]} on record, main at {moved[:7]}"

    def killed(self) -> str:
        """SIGKILL once units of two models are stored: one is done and the other has begun."""
        log = self.scratch.root / "killed.log"
        process = self.scratch.start(*self.extraction, log=log)
        while process.poll() is None:
            begun = [model for model in LOOK_ALIKES if self.ledger(model)]
            if len(begun) > 1:
                break
            time.sleep(0.2)
        ended = process.poll()
        if ended is None:
            process.send_signal(signal.SIGKILL)
            process.wait()
        require(ended is None, f"ended with {ended} before the kill:\n{log.read_text()[-2000:]}")
        self.before = {model.full_id: self.ledger(model) for model in LOOK_ALIKES}
        return f"{sum(map(len, self.before.values()))} units were stored"

    def extract(self) -> str:
        """Everything else, nothing twice."""
        done = self.scratch.run(*self.extraction)
        for model in LOOK_ALIKES:
            units = self.ledger(model)
            self.results.units[model.full_id] = sum(u.status == "done" for u in units.values())
        self.well(done)
        again = [
            key
            for name, units in self.before.items()
            for key, unit in units.items()
            if self.ledger_of(name)[key].finished_at != unit.finished_at
        ]
        require(not again, f"computed twice: {again[:5]}")
        dtypes = {unit.dtype for model in LOOK_ALIKES for unit in self.ledger(model).values()}
        require(dtypes == {"float32"}, f"dtypes on a processor: {dtypes}")
        for model in (model for model in LOOK_ALIKES if model.fine):
            over = self.ledger(model)["full", FULL].over_limit_tokens
            require(over > 0, f"{model.full_id}: the ledger doesn't say that it ran over the limit")
        revision = recorded_revision(self.scratch.workspace, PROBLEM, self.moving.full_id)
        require(revision == self.kept_commit, f"revision {revision}, not {self.kept_commit}")
        return done.output.strip().splitlines()[-1]

    def status(self) -> None:
        """Nothing is incomplete."""
        done = self.scratch.run("status", "--problem", PROBLEM, "--json")
        self.well(done)
        names = {slug(model.full_id) for model in LOOK_ALIKES}
        rows = [row for row in _findings(done) if row["model_id"] in names]
        require(len(rows) == len(names) * len(self.conditions), f"{len(rows)} rows")
        bad = [row for row in rows if row["done"] != row["documents"]]
        require(not bad, f"incomplete: {bad[:3]}")

    def asked(self) -> str:
        """The client asked nothing that this hub doesn't know."""
        require(not self.hub.unexpected, f"unknown requests: {self.hub.unexpected[:3]}")
        return f"{len(self.hub.asked)} requests"

    def logprobs(self) -> str:
        """Every position of one document per model, and its token ids."""
        wrong = []
        for model in LOOK_ALIKES:
            commit = self.stage.repository_folder(model.full_id)
            try:
                worst = self.difference(model, model.full_id, as_trained(model, commit))
            except (AssertionError, OSError) as error:
                wrong.append(f"{model.full_id}: {type(error).__name__}: {str(error)[:200]}")
                continue
            self.results.differences[model.full_id] = worst
            if worst > TOLERANCE:
                wrong.append(f"{model.full_id}: {worst:.2g} nats off")
        require(not wrong, "; ".join(wrong))
        return f"worst {max(self.results.differences.values()):.1e} nats"

    def stock_reading(self) -> str:
        """The variant on request: each input has the base of its own length."""
        model = next(model for model in LOOK_ALIKES if "NTK_64k" in model.full_id)
        variant = f"{model.full_id}-stock-dynamic"
        probe = ("--model", variant, "--probe", "full", "--documents", str(FULL + 1))
        self.well(self.scratch.run(*self.extraction, *probe))
        plain = as_stock_code_reads_it(self.stage.repository_folder(model.full_id))
        full = [condition for condition in self.conditions if condition.kind.whole_context]
        stock = self.difference(model, variant, plain, full)
        require(stock <= TOLERANCE, f"{variant}: {stock:.2g} nats off")
        apart = self.difference(model, model.full_id, plain, full)
        require(
            apart > 100 * TOLERANCE,
            "the results of the two position encodings are not distinguishable",
        )
        return f"{stock:.1e} nats off; the two position encodings differ by up to {apart:.2g}"

    def difference(
        self, model: LookAlike, full_id: str, plain: Any, conditions: list[Condition] | None = None
    ) -> float:
        """See `worst_difference`; in the conditions that read the long document from the left."""
        chosen = conditions or [each for each in self.conditions if each.kind.contiguous]
        require(chosen, "no condition to compare in")
        return worst_difference(
            model, full_id, FULL, chosen, self.problem, self.scratch.workspace, plain
        )

    def doctor_after(self) -> None:
        """Nothing is missing, and every stored file is whole."""
        self.well(self.scratch.run("data", "fetch", "--problem", PROBLEM, "--offline"))
        self.well(self.scratch.run("data", "check", "--problem", PROBLEM))

    def dbt_build(self) -> None:
        """Every metric and every test of the data."""
        self.well(self.scratch.run("dbt", "--quiet", "build"))

    def submit(self) -> None:
        """A metric that every model has."""
        out = ("--out", str(self.submission))
        self.well(self.scratch.run("submit", "--problem", PROBLEM, *METRIC, *out))

    def verify(self) -> str:
        """The script itself, on the submission."""
        file = next(self.submission.rglob("submission.json"))
        # it reads the locked files of its own checkout, whatever the environment has
        folder = self.scratch.root / "scripts"
        folder.mkdir(exist_ok=True)
        script = shutil.copy(CHECKOUT / "scripts" / "verify_locked_no4k.py", folder)
        program = [sys.executable, str(script)]
        arguments = ["--submission", str(file), "--metric-key", "score"]
        result = self.scratch.root / "result.json"
        done = self.scratch.run_program(
            [*program, *arguments, "--out", str(result)], ("verify_locked_no4k.py", *arguments)
        )
        self.well(done)
        require(len(json.loads(file.read_bytes())) == len(LOOK_ALIKES), file.read_text())
        return done.output.strip().splitlines()[0]

    def ledger(self, model: LookAlike) -> dict[tuple[str, int], UnitRecord]:
        """The stored units of a model, by condition and document."""
        return self.ledger_of(model.full_id)

    def ledger_of(self, full_id: str) -> dict[tuple[str, int], UnitRecord]:
        """The same by the model's id."""
        return stored_units(self.scratch, full_id, [c.name for c in self.conditions])


def stored_units(
    scratch: Scratch, full_id: str, conditions: list[str]
) -> dict[tuple[str, int], UnitRecord]:
    """The ledger of a model: (condition, document) → unit."""
    found: dict[tuple[str, int], UnitRecord] = {}
    for condition in conditions:
        units: Mapping[int, UnitRecord] = finished_units(
            scratch.workspace, PROBLEM, slug(full_id), condition
        )
        found |= {(condition, doc_id): unit for doc_id, unit in units.items()}
    return found


def _findings(done: Done) -> list[dict[str, Any]]:
    """The JSON list that a command printed, without its other output."""
    start, end = done.output.index("["), done.output.rindex("]")
    found: list[dict[str, Any]] = json.loads(done.output[start : end + 1])
    return found
