"""`--compile`: the same statistics through the real compiler."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from published_tables import assert_same, published
from reference import assert_agree, references
from tiny_requests import load, requests_of

from extract.cli import extract
from extract.scoring.engine import Engine
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.store.ledger import read_units
from warehouse.store.token_files import published_path

needs_compiler = pytest.mark.skipif(
    not any(shutil.which(name) for name in ("g++", "clang++", "c++")), reason="no C++ compiler"
)


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["llama", "gemma3_text"])
def test_compiled_statistics_agree_with_plain_logits(
    architecture: str, tiny_checkpoint: Callable[..., Path]
) -> None:
    folder = tiny_checkpoint(architecture)
    requests = requests_of(0)
    plain = references(load(folder), requests)
    for result, expected in zip(
        Engine(load(folder), compiled=True).score(requests), plain, strict=True
    ):
        assert_agree(result.scores, expected)


@needs_compiler
@pytest.mark.slow
def test_a_compiled_run_leaves_the_same_table_and_says_so(
    workspace: Workspace, tiny_problem: Callable[..., Path]
) -> None:
    arguments = ["--problem", str(tiny_problem(texts=2)), "--device", "cpu"]
    assert CliRunner().invoke(extract, arguments).exit_code == 0
    expected = published(workspace)
    shutil.rmtree(workspace.tokens)
    done = CliRunner().invoke(extract, [*arguments, "--compile"])
    assert done.exit_code == 0, done.output
    for name, table in published(workspace).items():
        # other kernels may move a value over the edge of a stored step (entropy: 4.9e-4)
        assert_same(table, expected[name], nats=6e-4)
    (first, *_) = read_units(published_path(workspace, "tiny", "tiny--one", "full"))
    assert first.attention == "sdpa/flash, compiled"


def test_a_failing_compiler_is_said_in_one_line(
    tiny_checkpoint: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(graph: object, inputs: object) -> None:
        raise RuntimeError("no compiler here")

    compile_with = torch.compile
    monkeypatch.setattr(
        torch, "compile", lambda f, dynamic: compile_with(f, dynamic=dynamic, backend=broken)
    )
    with pytest.raises(TokenmartError, match="--compile: the compiler failed"):
        Engine(load(tiny_checkpoint("llama")), compiled=True)
