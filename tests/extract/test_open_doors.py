"""A probe and a backend from a scratch folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from plugin_folders import write_plugin

from warehouse.paths import Workspace
from warehouse.store.ledger import read_units
from warehouse.store.token_files import published_path

CHECKOUT = Path(__file__).parents[2]

PROBE = """
from typing import ClassVar, Literal

import numpy as np

from warehouse.probes.probe import Probe

from warehouse.probes.request import Condition, ConditionKind, Request

LAST = ConditionKind("last_tokens", contiguous=True)


class LastTokens(Probe):
    condition_kinds: ClassVar[tuple[ConditionKind, ...]] = (LAST,)

    kind: Literal["last_tokens"]
    count: int

    def conditions(self):
        return [self.condition(LAST, self.build)]

    def build(self, reading):
        tokens = reading.ids
        first = len(tokens) - self.count
        positions = np.arange(first, len(tokens), dtype=np.int32)
        return [Request(0, tokens, first, positions, positions)]
"""

BACKEND = """
import numpy as np

from extract.backends.backend import Backend

from extract.backends.backend import Scored, TokenScores


class UniformScorer:
    parameters, attention, prefixes, weights = 0, "none", "shared", "none"

    def check(self):
        pass

    def score(self, requests):
        return [self.score_one(request) for request in requests]

    def score_one(self, request):
        nll = np.full(len(request.targets), np.log(4), dtype=np.float32)
        ranks = np.ones(len(nll), dtype=np.int32)
        return Scored(TokenScores(-nll, nll, ranks, -nll), len(request.ids))


class Uniform(Backend):
    kind = "uniform"

    def load(self, loading):
        return UniformScorer()
"""


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    return write_plugin(tmp_path / "mine", probes=PROBE, backends=BACKEND)


def tokenmart(plugins: Path | None, *arguments: str) -> subprocess.CompletedProcess[str]:
    folder = "" if plugins is None else str(plugins)
    return subprocess.run(
        [sys.executable, "-m", "tokenmart", *arguments],
        env={**os.environ, "TOKENMART_PLUGINS": folder},
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_a_probe_and_a_backend_of_the_users_own(
    plugins: Path, workspace: Workspace, tiny_problem: Callable[..., Path]
) -> None:
    path = str(tiny_problem(probes=[{"kind": "last_tokens", "name": "tail", "count": 3}]))
    asked = ("extract", "--problem", path, "--device", "cpu", "--backend", "uniform")
    done = tokenmart(plugins, *asked)
    assert done.returncode == 0 and "extracted 8 units" in done.stdout, done.stdout
    file = published_path(workspace, "tiny", "tiny--one", "tail")
    rows = pq.read_table(file, partitioning=None)
    assert rows.num_rows == 4 * 3
    np.testing.assert_allclose(rows["logprob"], -np.log(4), atol=2e-5)
    units = read_units(file)
    assert {(u.condition_kind, u.attention) for u in units} == {("last_tokens", "none")}
    # the backend is part of the fingerprint, the plan knows the probe's cost
    assert "extracted 0 units" in tokenmart(plugins, *asked).stdout
    assert "extracted 8 units" in tokenmart(plugins, *asked[:-2]).stdout
    assert "still to do" in tokenmart(plugins, *asked, "--dry-run").stdout
    # check and gc know what the probe promises
    for command in ("check", "gc"):
        looked = tokenmart(plugins, "data", command, "--problem", "tiny")
        assert looked.returncode == 0, looked.stdout
        assert "not in the problem file" not in looked.stdout, looked.stdout
    # without the plugin the problem file is not understood, and nothing is removed
    refused = tokenmart(None, *asked)
    assert refused.returncode == 1 and "last_tokens" in refused.stdout, refused.stdout
    tokenmart(None, "data", "gc", "--problem", "tiny", "--yes")
    assert file.is_file()
