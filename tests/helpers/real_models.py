"""Models of minilong, as an extraction loads them, and texts for them."""

from __future__ import annotations

from typing import Any, NamedTuple

from extract.checkpoints import find_checkpoint
from extract.models.loading import Loading, load_model
from extract.tokenization import DocumentTokenizer, load_tokenizer
from warehouse.paths import Workspace
from warehouse.problem.models import ModelSpec
from warehouse.problem.spec import load_problem
from warehouse.problem.tables import ensure_documents


class RealModel(NamedTuple):
    """A loaded model with its tokenizer."""

    model: Any
    tokenizer: DocumentTokenizer


def real_model(workspace: Workspace, model: str | ModelSpec, dtype: str = "float32") -> RealModel:
    """The model of minilong with this name or entry; downloaded if it must be."""
    problem = load_problem("minilong", workspace)
    spec = problem.model(model) if isinstance(model, str) else model
    checkpoint = find_checkpoint(spec, workspace, problem.name)
    loaded = load_model(Loading(spec, checkpoint, "cpu", dtype))
    return RealModel(loaded, load_tokenizer(checkpoint, spec))


def real_text(workspace: Workspace, doc_id: int) -> str:
    """A document of minilong."""
    documents = ensure_documents(load_problem("minilong", workspace), workspace)
    return str(documents["text"][doc_id].as_py())
