"""The log-probs that the look-alikes' tokens must have: plain forwards of plain models.

Token ids come from the tokenizer's own package, weights straight from the repository's files,
and the position encoding is the one a model was trained with, whatever its configuration says.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from readings import reading_of
from reference import target_logprobs

from tests.rehearsal.lookalikes import LookAlike
from warehouse.paths import Workspace
from warehouse.probes.request import Condition
from warehouse.problem.models import slug
from warehouse.problem.spec import Problem
from warehouse.problem.tables import documents_path

BOS = 1


def worst_difference(
    model: LookAlike,
    full_id: str,
    doc_id: int,
    conditions: Sequence[Condition],
    problem: Problem,
    workspace: Workspace,
    folder: Path,
    plain: Any,
) -> float:
    """Largest difference in nats between stored log-probs and a plain forward's.

    Over every position of one document.

    Args:
        model: the look-alike.
        full_id: whose stored tokens are compared.
        doc_id: the document.
        conditions: those to compare in.
        problem: the problem.
        workspace: where the tokens are.
        folder: the look-alike's repository.
        plain: a model that gives logits, on the processor in float32.

    Raises:
        AssertionError: other tokens or positions than expected.
    """
    documents = pq.read_table(documents_path(problem, workspace), partitioning=None)
    ids = np.asarray(_encode(model, documents["text"][doc_id].as_py(), folder), np.int32)
    worst = 0.0
    for condition in conditions:
        stored = _stored(workspace, problem.name, full_id, condition.name, doc_id)
        requests = condition.build(reading_of(ids, BOS if model.adds_bos else None))
        assert requests
        positions = np.concatenate([request.positions for request in requests])
        expected = np.concatenate([target_logprobs(plain, each) for each in requests])
        assert np.array_equal(stored["position"].to_numpy(), positions)
        assert np.array_equal(stored["token_id"].to_numpy(), ids[positions])
        worst = max(worst, float(np.abs(stored["logprob"].to_numpy() - expected).max()))
    return worst


def as_trained(model: LookAlike, folder: Path) -> Any:
    """The look-alike in float32 with the position encoding that it was trained with."""
    import torch
    from safetensors.torch import load_file
    from transformers import AutoConfig, AutoModelForCausalLM

    config = json.loads((folder / "config.json").read_bytes())
    kept = {name: value for name, value in config.items() if not name.startswith("rope_")}
    kept |= {"rope_parameters": dict(model.rope), "torch_dtype": "float32"}
    plain = AutoModelForCausalLM.from_config(
        AutoConfig.for_model(**kept), dtype=torch.float32, attn_implementation="sdpa"
    )
    weights: dict[str, Any] = {}
    for file in sorted(folder.glob("*.safetensors")):
        weights |= load_file(file)
    for file in [] if weights else sorted(folder.glob("*.bin")):
        weights |= torch.load(file, weights_only=True)
    weights = {name: each.float() for name, each in weights.items() if "rotary" not in name}
    missing = plain.load_state_dict(weights, strict=False)
    assert not missing.unexpected_keys
    assert missing.missing_keys == (["lm_head.weight"] if model.tied else [])
    return plain.eval()


def _encode(model: LookAlike, text: str, folder: Path) -> list[int]:
    """Token ids by the package that the tokenizer's files were made for."""
    if model.tokenizer == "bpe":
        from tokenizers import Tokenizer

        core = Tokenizer.from_file(str(folder / "tokenizer.json"))
        return list(core.encode(text, add_special_tokens=False).ids)
    import sentencepiece

    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    return list(pieces.encode(text))


def _stored(workspace: Workspace, problem: str, full_id: str, condition: str, doc_id: int) -> Any:
    path = workspace.tokens / f"problem={problem}" / f"model_id={slug(full_id)}"
    table = pq.read_table(path / f"condition={condition}" / "tokens.parquet", partitioning=None)
    return table.filter(pc.equal(table["doc_id"], doc_id)).sort_by(
        [("segment", "ascending"), ("position", "ascending")]
    )
