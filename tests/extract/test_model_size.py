"""How large a model is: said by the problem file or read from the model's own files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from checkpoint_samples import write_gguf
from click.testing import CliRunner
from gguf import GGUFEndian, GGUFWriter

from extract.cli import extract, status
from extract.planning.cost import ModelSize, model_size
from extract.planning.selection import select
from extract.planning.tables import make_plan
from warehouse.problem.models import ModelShape, ModelSpec
from warehouse.problem.spec import load_problem
from warehouse.sources.configurations import gguf_header
from warehouse.sources.folders import ProblemFolders

WORDS = 5000
SHAPE = ModelShape(kind="qwen2", layers=1, width=8, inner=16, heads=2, kv_heads=2, vocabulary=WORDS)
PARAMETERS = 2 * WORDS * 8 + 3 * 8 + 4 * 8 * 8 + 3 * 8 * 16
"""Embeddings and head, norms, attention, feed-forward."""


def spec_of(source: dict[str, Any], **changes: Any) -> ModelSpec:
    raw = {"full_id": "lab/m", "family": "f", "source": source, **changes}
    return ModelSpec.model_validate(raw)


def test_a_gguf_model_has_the_weights_of_its_header(workspace, tmp_path):
    """Its shape is the problem file's, or assumed."""
    source = {"kind": "gguf", "path": str(write_gguf(tmp_path / "model.gguf", "qwen2", WORDS))}
    size = model_size(spec_of(source), workspace)
    assert size is not None and (size.parameters, size.assumed) == (PARAMETERS, True)
    size = model_size(spec_of(source, shape=SHAPE.model_dump()), workspace)
    assert size == ModelSize(PARAMETERS, SHAPE)


@pytest.mark.parametrize("order", ["LITTLE", "BIG"])
def test_the_header_of_a_gguf_file_without_its_lists(order, tmp_path):
    writer = GGUFWriter(tmp_path / "m.gguf", "qwen2", endianess=GGUFEndian[order])
    writer.add_token_list(["a", "long word"])
    writer.add_token_types([1, 1])
    writer.add_context_length(64)
    writer.add_add_bos_token(True)
    writer.add_tensor("output.weight", np.zeros((3, 4), dtype=np.float32))
    writer.add_tensor("output_norm.weight", np.zeros(4, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    header = gguf_header(tmp_path / "m.gguf")
    assert header is not None
    assert {name: value for name, value in header.fields.items() if value is not None} == {
        "general.architecture": "qwen2",
        "qwen2.context_length": 64,
        "tokenizer.ggml.add_bos_token": True,
    }
    assert header.tensors == {"output.weight": 12, "output_norm.weight": 4}


def test_a_package_model_is_planned_from_its_file_once_it_is_here(workspace):
    source = {"kind": "package", "packages": ["x==1"], "members": ["*"], "sha256": "0" * 64}
    spec = spec_of(source)
    assert model_size(spec, workspace) is None
    path = Path(spec.source.place("m", ProblemFolders(workspace)))
    path.parent.mkdir(parents=True)
    write_gguf(path, "qwen2", WORDS)
    size = model_size(spec, workspace)
    assert size is not None and size.parameters == PARAMETERS


def test_a_local_model_is_as_large_as_its_configuration_says(workspace, tiny_checkpoint, tmp_path):
    folder = tiny_checkpoint()
    size = model_size(spec_of({"kind": "local", "path": str(folder)}), workspace)
    assert size is not None and not size.assumed
    assert (size.shape.layers, size.shape.width, size.shape.kv_heads) == (3, 32, 2)
    # the same weights for other software are not weights of their own
    other = shutil.copytree(folder, tmp_path / "m")
    shutil.copy(other / "model.safetensors", other / "consolidated.safetensors")
    assert model_size(spec_of({"kind": "local", "path": str(other)}), workspace) == size
    # a hub model, once its snapshot is here
    hub = spec_of({"kind": "hub"})
    assert model_size(hub, workspace) is None
    assert model_size(hub, workspace, folder) == size
    # the published number of weights is exact, where it is about this model
    exact = size.parameters + 1
    told = model_size(spec_of({"kind": "hub"}, parameters=exact), workspace, folder)
    assert told == ModelSize(exact, size.shape)
    unlike = model_size(spec_of({"kind": "hub"}, parameters=7 * exact), workspace, folder)
    assert unlike == size


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        ({"model_type": "unheard-of"}, 1_000_000),
        ({"model_type": "unheard-of", "dtype": "bfloat16"}, 1_000_000),
        ({"model_type": "unheard-of", "torch_dtype": "float32"}, 500_000),
    ],
)
def test_without_a_known_configuration_the_files_of_weights_are_weighed(
    config, parameters, workspace, tmp_path
):
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes(bytes(2_000_000))
    size = model_size(spec_of({"kind": "local", "path": str(tmp_path)}), workspace)
    assert size is not None and (size.parameters, size.assumed) == (parameters, True)


@pytest.mark.parametrize("content", [b"", b"GGUF", b"not a model at all" * 9])
def test_what_can_not_be_read_is_unknown(content, workspace, tmp_path):
    (tmp_path / "model.gguf").write_bytes(content)
    assert (
        model_size(spec_of({"kind": "gguf", "path": f"{tmp_path}/model.gguf"}), workspace) is None
    )
    assert model_size(spec_of({"kind": "gguf", "path": f"{tmp_path}/none.gguf"}), workspace) is None


def test_a_shape_is_assumed_where_only_the_number_of_weights_is_known(workspace):
    size = model_size(spec_of({"kind": "hub"}, parameters=500_000_000), workspace)
    assert size is not None and size.assumed and size.parameters == 500_000_000


def test_a_plan_of_an_unknown_size(workspace, tiny_problem, tmp_path):
    raw = yaml.safe_load(tiny_problem().read_text())
    raw["models"][0]["source"] = {"kind": "hub"}
    raw["models"][1]["source"] = {
        "kind": "gguf",
        "path": str(write_gguf(tmp_path / "m.gguf", "qwen2", WORDS)),
    }
    path = workspace.problems / "tiny.yml"
    path.write_text(yaml.safe_dump(raw))
    problem = load_problem(str(path), workspace)
    plan = make_plan(select(problem, workspace, device="cpu", dtype="auto"))
    unknown, known = plan.models
    assert (unknown.cost.seconds, unknown.memory, unknown.download_bytes) == (None, None, None)
    assert plan.unknown == ["tiny/one"]
    assert known.cost.seconds and known.memory and known.assumed
    shown = CliRunner().invoke(extract, ["--problem", str(path), "--dry-run", "--device", "cpu"])
    (line,) = [line for line in shown.output.splitlines() if line.startswith("tiny/one ")]
    assert line.count("unknown") == 3 and "~" not in line
    assert "unknown" in CliRunner().invoke(status, ["--problem", str(path)]).output
