"""The tables of the warehouse, defined once; everything else derives from here.

Files are written in these schemas, and the public views of `tokenmart sql` and of dbt
(`warehouse.sql.views`) take their columns, types and order from them.

One row of `TOKENS` is one scored token in one context condition. `problem`, `model_id` and
`condition` are partition keys: they are in the path (`problem=…/model_id=…/condition=…`), not in
the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from warehouse.errors import TokenmartError
from warehouse.plugins import added

if TYPE_CHECKING:
    from warehouse.paths import Workspace

SCHEMA_VERSION = 3
"""Rises whenever a stored table changes; files of another version are refused. A nullable column
may be added without: files that lack it are read with nulls."""

SCHEMA_KEY = b"tokenmart.schema"
"""Parquet footer key of the token files: the version they were written with."""

UNITS_KEY = b"tokenmart.units"
"""Parquet footer key of the token files: the ledger, as JSON."""

PARTITION_KEYS = ("problem", "model_id", "condition")


def field(name: str, type_: pa.DataType, meaning: str, nullable: bool = False) -> pa.Field:
    """A column with its description."""
    return pa.field(name, type_, nullable=nullable, metadata={"description": meaning})


TOKENS = pa.schema(
    [
        field("doc_id", pa.int32(), "document in the problem's corpus"),
        field("segment", pa.int32(), "request within the document: window or excerpt"),
        field("position", pa.int32(), "0-based index of the token in this model's tokenisation"),
        field("context_tokens", pa.int32(), "document tokens visible to the left when scored"),
        field("token_id", pa.int32(), "vocabulary id"),
        field("char_start", pa.int32(), "first character of the token in the document's text"),
        field("char_end", pa.int32(), "one past the last character of the token"),
        field("logprob", pa.float32(), "natural log-probability of the token, in nats"),
        # null in units imported from a program that didn't give it, in no others
        field("entropy", pa.float32(), "entropy of the predictive distribution, in nats", True),
        field("rank", pa.int32(), "1 = the model's most likely token (top-1)", True),
        field("top_logprob", pa.float32(), "log-probability of the top-1 token, in nats", True),
        # null in those, too, and in units from before the column
        field(
            "varentropy",
            pa.float32(),
            "variance of -log p under the predictive distribution, in nats^2; null if not stored",
            True,
        ),
    ]
)

TOP_TOKENS = pa.schema(
    [
        field("doc_id", pa.int32(), "document in the problem's corpus"),
        field("segment", pa.int32(), "request within the document: window or excerpt"),
        field("position", pa.int32(), "0-based index of the scored token"),
        field("choice", pa.int32(), "1 = the model's most likely token (top-1)"),
        field("choice_id", pa.int32(), "vocabulary id of the choice"),
        field("logprob", pa.float32(), "natural log-probability of the choice, in nats"),
    ]
)
"""Opt-in: the k most likely tokens at each scored position, keyed like `tokens`."""

DIVERGENCES = pa.schema(
    [
        field("doc_id", pa.int32(), "document in the problem's corpus"),
        field("segment", pa.int32(), "request within the document, as in `tokens`"),
        field("position", pa.int32(), "0-based index of the scored token"),
        field(
            "kl_reference_model", pa.float32(), "KL(reference || model) of the predictions, in nats"
        ),
        field(
            "kl_model_reference", pa.float32(), "KL(model || reference) of the predictions, in nats"
        ),
        field("same_top", pa.bool_(), "whether both predict the same top-1 token"),
    ]
)
"""How far predictions are from a reference model's (`divergence` probes), keyed like `tokens`."""

NEEDED = pa.schema(
    [
        field("model_id", pa.string(), "the model's full id as one folder name"),
        field("is_ranked", pa.bool_(), "whether the problem ranks the model: not on request"),
        field("base_id", pa.string(), "model_id of the checkpoint an intervention acts on", True),
        field("parameters", pa.int64(), "number of parameters in the problem file", True),
        field("model_sha256", pa.string(), "hash of the model, where its files are here", True),
        field("condition", pa.string(), "context condition"),
        field("condition_kind", pa.string(), "e.g. full, window, retrieval_with_document"),
        field("probe", pa.string(), "the probe of the problem file that makes the condition"),
        field("probe_params", pa.string(), "JSON object: the probe's parameters"),
        field("reference_sha256", pa.string(), "hash of the model it is compared with", True),
        field("reads_foreign", pa.bool_(), "whether the condition reads another document, too"),
        field(
            "compared_with",
            pa.list_(pa.string()),
            "shorter conditions that the problem file compares it with",
        ),
    ]
)
"""What a problem file asks for, extracted or not: one row per model and condition."""

DOCUMENTS = pa.schema(
    [
        field("doc_id", pa.int32(), "0-based index in the problem's corpus"),
        field("name", pa.string(), "name or id of the document in its source"),
        field("sha256", pa.string(), "sha256 of the UTF-8 text"),
        field(
            "characters", pa.int64(), "length in Unicode code points, after max_characters cut it"
        ),
        field("bytes", pa.int64(), "length in UTF-8 bytes"),
        field("text", pa.string(), "the text itself"),
        field("document_group", pa.string(), "source or domain that the problem file gives", True),
        field("foreign_sha256", pa.string(), "sha256 of the document that controls read", True),
    ]
)

KEY_INTERVALS = pa.schema(
    [
        field("doc_id", pa.int32(), "document in the problem's corpus"),
        field("char_start", pa.int32(), "first character of key text"),
        field("char_end", pa.int32(), "behind its last character"),
    ]
)
"""Characters that another model found to depend on long context: LongPPL's key text."""

MODELS = pa.schema(
    [
        field("full_id", pa.string(), "id as published, e.g. Qwen/Qwen2-7B-Instruct"),
        field("family", pa.string(), "models of one family are not independent"),
        field("base_id", pa.string(), "model_id of the checkpoint an intervention acts on", True),
        field("revision", pa.string(), "commit or sha256 of the weights"),
        field("parameters", pa.int64(), "number of parameters"),
        field("trained_context", pa.int32(), "context length of the configuration, in tokens"),
        field("licence", pa.string(), "licence as stated by the problem file"),
        field("tokenizer_sha256", pa.string(), "fingerprint of the tokenizer"),
        field("prepends_bos", pa.bool_(), "whether the tokenizer adds BOS before the text"),
        field("interventions", pa.string(), "JSON list of interventions, [] for none"),
        field("rope", pa.string(), "JSON: position encoding as trained, if not configured", True),
        field("vocabulary", pa.int32(), "number of tokens that a prediction is over", True),
    ]
)

DOWNSTREAM = pa.schema(
    [
        field("task", pa.string(), "task name, e.g. recall_4096; the overall score is their mean"),
        field("item", pa.int32(), "item within the task"),
        field("cluster", pa.int32(), "items of one cluster share a context (for standard errors)"),
        field("context_tokens", pa.int32(), "tokens of context before the answer", True),
        field("score", pa.float64(), "the item's score, in the unit of the target"),
        field("exact_match", pa.float64(), "1 if every answer token is the top-1 token", True),
        field(
            "token_accuracy", pa.float64(), "share of answer tokens that are the top-1 token", True
        ),
        field("answer_nll", pa.float64(), "mean NLL of the answer tokens, in nats", True),
        field(
            "first_token", pa.float64(), "1 if the answer's first token is the top-1 token", True
        ),
    ]
)

RECALL_ITEMS = pa.schema(
    [
        field("task", pa.string(), "task of the item in `downstream`"),
        field("item", pa.int32(), "the item of `downstream`"),
        field("kind", pa.string(), "task without its length, e.g. multi_key; no_key: value of a "
               "planted key after a name that was never planted"),
        field("length", pa.int32(), "tokens of context before the question"),
        field("depth", pa.float64(), "place of the answer, 0 start to 1 end; null for "
               "everywhere", True),
        field("counts", pa.bool_(), "whether the overall score averages the item's task"),
    ]
)  # fmt: skip
"""Items of a measured target: places and settings, no answer of a model."""

AUDITS = pa.schema(
    [
        field("condition", pa.string(), "context condition"),
        field("units_sha256", pa.string(), "hash of the units that were audited"),
        field("sampled", pa.int64(), "rows that were recomputed"),
        field("differing", pa.int64(), "of these, rows that differ by more than rounding"),
        field("tolerance", pa.float64(), "what rounding explains in a log-prob, in nats"),
        field("largest_logprob", pa.float64(), "largest difference of a log-prob, in nats"),
        field("mean_logprob", pa.float64(), "mean absolute difference of log-probs, in nats"),
        field("largest_entropy", pa.float64(), "largest difference of an entropy, in nats", True),
        field("mean_entropy", pa.float64(), "mean absolute difference of entropies, in nats", True),
        field("other_ranks", pa.int64(), "ranks that differ, near ties among them", True),
        field("cause", pa.string(), "likely cause of differences; empty where all rows agree"),
        field("seed", pa.int64(), "seed of the sample"),
        field("audited_at", pa.timestamp("us", "UTC"), "when they were recomputed"),
        field("code_revision", pa.string(), "commit of the code"),
    ]
)
"""Random samples of rows, recomputed by the model's own forward pass; see `extract/audit`."""


class Table(NamedTuple):
    """A table of the store.

    schema: of its files.
    keys: hive partition keys in their path.
    files: pattern of their names.
    ledger: name of the view of the ledger in their footers, if there is one. The name of such a
        table of a plugin ends in `_tokens`.
    is_target: whether it has target scores. Only `warehouse.sql.views` reads such a table: it is
        no view of `tokenmart sql`, no source of dbt, and outside what their connections may open.
    """

    schema: pa.Schema
    keys: tuple[str, ...]
    files: str
    ledger: str = ""
    is_target: bool = False


TABLES = {
    "tokens": Table(TOKENS, PARTITION_KEYS, "tokens.parquet", "units"),
    "top_tokens": Table(TOP_TOKENS, PARTITION_KEYS, "doc-*.parquet"),
    "divergences": Table(DIVERGENCES, PARTITION_KEYS, "doc-*.parquet"),
    "documents": Table(DOCUMENTS, ("problem",), "documents.parquet"),
    "key_intervals": Table(KEY_INTERVALS, ("problem", "evaluator"), "intervals.parquet"),
    "needed": Table(NEEDED, ("problem",), "needed.parquet"),
    "audits": Table(AUDITS, ("problem", "model_id"), "audits.parquet"),
    "models": Table(MODELS, ("problem", "model_id"), "model.parquet"),
    "downstream": Table(DOWNSTREAM, ("problem", "model_id"), "items.parquet", is_target=True),
    "recall_items": Table(RECALL_ITEMS, ("problem", "model_id"), "items.parquet"),
}


def all_tables() -> dict[str, Table]:
    """The tables above, then those of plugins.

    Raises:
        TokenmartError: a plugin adds a table that can't have its name.
    """
    others = added("tables")
    for name, table in others.items():
        if name in TABLES or bool(table.ledger) != name.endswith("_tokens"):
            raise TokenmartError(
                f"plugin table {name!r}: rename it; names of the core are taken, and names of "
                "tables with a ledger, and only these, end in _tokens",
                code="table-name",
                where=name,
            )
    return {**TABLES, **others}


def table_path(workspace: Workspace, table: str, *keys: str) -> Path:
    """The file of a table that has one for these partition keys.

    Args:
        keys: in the table's order: the problem, the model.
    """
    parts = TABLES[table]
    folders = [f"{key}={value}" for key, value in zip(parts.keys, keys, strict=True)]
    return Path(workspace.store, table, *folders, parts.files)


def store_folders(workspace: Workspace) -> list[Path]:
    """All folders of the store: of each table, and of units that are not published yet."""
    pending = [each.pending for each in workspace.token_stores]
    return [*(workspace.store / name for name in all_tables()), *pending]
