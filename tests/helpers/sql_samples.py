"""A warehouse small enough to work every answer by hand, and ways to ask it."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from click.testing import CliRunner
from unit_records import unit_record

from tokenmart import cli
from warehouse.paths import Workspace
from warehouse.sources.documents import Document, documents_table
from warehouse.store.ledger import UnitRecord, with_units
from warehouse.store.parquet_files import write_table
from warehouse.store.schema import DOWNSTREAM, MODELS, TOKENS
from warehouse.store.token_files import published_path

TEXT = "abcdefgh"
"""The one scored document: eight characters, one token each, token ids 0 1 2 3 0 1 2 3."""

DOCUMENTS = (Document("a.txt", TEXT), Document("b.txt", "failed"))
SHA256 = documents_table(DOCUMENTS)["sha256"].to_pylist()

FULL = {
    "good": [-1.0, -1.0, -1.0, -1.0, -0.1, -0.1, -0.1, -0.1],
    "bad": [-2.0] * 8,
}
SHORT_POSITIONS = range(4, 8)
SHORT = {"good": [-3.1, -0.1, -0.3, -0.1], "bad": [-2.0, -2.0, -1.0, -2.0]}
WITH = {"good": [-0.5, -0.5], "bad": [-2.0, -2.0]}
KINDS = {
    "full": "full",
    "window_512": "window",
    "retrieval_with": "retrieval_with_document",
    "retrieval_without": "retrieval_without_document",
}
WITHOUT = {"good": [-1.5, -2.5], "bad": [-1.0, -2.0]}


def unit(model: str, condition: str, rows: int, **changes: Any) -> UnitRecord:
    own: dict[str, Any] = {
        "condition_kind": KINDS[condition],
        "probe": "",
        "probe_params": "",
        "document_sha256": SHA256[0],
        "seconds": 2.0,
        "peak_bytes": 3_000_000_000,
        "finished_at": "2026-01-02T03:04:05+00:00",
    }
    return unit_record(("minilong", model, condition), rows, 8, **{**own, **changes})


def tokens(logprobs: list[float], positions: list[int], context: list[int]) -> pa.Table:
    count = len(logprobs)
    columns = {
        "doc_id": [0] * count,
        "segment": [0] * count,
        "position": positions,
        "context_tokens": context,
        "token_id": [position % 4 for position in positions],
        "char_start": positions,
        "char_end": [position + 1 for position in positions],
        "logprob": logprobs,
        "entropy": [1.0] * count,
        "rank": [1 if value > -1.5 else 20 for value in logprobs],
        "top_logprob": [max(value, math.log(0.25)) for value in logprobs],
        "varentropy": [2.0] * count,
    }
    return pa.table(columns, schema=TOKENS)


def write_spans(
    workspace: Workspace,
    texts: Sequence[str],
    models: Mapping[str, Sequence[Sequence[tuple[int, int, float]]]],
    problem: str = "minilong",
) -> None:
    """Texts, and for each model and text the tokens it scored: first character, end, log-prob."""
    documents = documents_table([Document(f"{n}.txt", text) for n, text in enumerate(texts)])
    write_table(
        workspace.store / "documents" / f"problem={problem}" / "documents.parquet", documents
    )
    shas = documents["sha256"].to_pylist()
    for model, scored in models.items():
        parts, units = [], []
        for doc_id, spans in enumerate(scored):
            starts, ends, logprobs = zip(*spans, strict=True)
            places = list(range(len(spans)))
            part = tokens(list(logprobs), places, places).to_pydict()
            part |= {"doc_id": [doc_id] * len(spans), "char_start": starts, "char_end": ends}
            parts.append(pa.table(part, schema=TOKENS))
            given = {"problem": problem, "document_sha256": shas[doc_id]}
            units.append(unit(model, "full", len(spans), doc_id=doc_id, **given))
        table = pa.concat_tables(parts).cast(with_units(TOKENS, units))
        write_table(published_path(workspace, problem, model, "full"), table)


def fill(workspace: Workspace) -> None:
    """Two models, one document, all probes; `bad` also has a failed unit."""
    document = workspace.store / "documents" / "problem=minilong" / "documents.parquet"
    write_table(document, documents_table(DOCUMENTS))
    for model in ("good", "bad"):
        keys = f"problem=minilong/model_id={model}"
        row = {
            **dict.fromkeys(MODELS.names, ""),
            "base_id": None if model == "good" else "good",
            "tokenizer_sha256": "0123456789",
            "parameters": 10,
            "trained_context": 8,
            "vocabulary": None,
            "prepends_bos": True,
        }
        write_table(
            workspace.store / "models" / keys / "model.parquet",
            pa.Table.from_pylist([row], schema=MODELS),
        )
        scores = [1.0, 0.0, 1.0, 1.0] if model == "good" else [0.0, 0.0, 0.0, 1.0]
        items = [
            {"task": "recall_8", "item": item, "cluster": item // 2, "score": score}
            for item, score in enumerate(scores)
        ]
        write_table(
            workspace.store / "downstream" / keys / "items.parquet",
            pa.Table.from_pylist(items, schema=DOWNSTREAM),
        )
        late = list(SHORT_POSITIONS)
        for condition, table in {
            "full": tokens(FULL[model], list(range(8)), list(range(8))),
            "window_512": tokens(SHORT[model], late, [2, 3, 2, 3]),
            "retrieval_with": tokens(WITH[model], [2, 3], [10, 11]),
            "retrieval_without": tokens(WITHOUT[model], [2, 3], [2, 3]),
        }.items():
            units = [unit(model, condition, table.num_rows)]
            if (model, condition) == ("bad", "full"):
                lost = {"doc_id": 1, "status": "failed", "reason": "out of memory", "seconds": 0.0}
                lost["document_sha256"] = SHA256[1]
                units.append(unit(model, condition, 0, **lost))
            path = published_path(workspace, "minilong", model, condition)
            write_table(path, table.cast(with_units(TOKENS, units)))


def build_mart(workspace: Workspace) -> None:
    """A substitute for `dbt build`: a mart whose view reads from its own catalog."""
    workspace.database.parent.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(str(workspace.database)) as connection:
        connection.execute(
            "create table metric_values as select * from (values"
            " ('minilong', 'perplexity', 'per_token', 'good', 1.5, 8, 1, null),"
            " ('minilong', 'perplexity', 'per_token', 'bad', 7.5, 8, 1, null))"
            " t(problem, metric, variant, model_id, value, tokens, documents, reason)"
        )
        connection.execute("create schema staging")
        name = f'"{workspace.database.stem}"."main"."metric_values"'
        connection.execute(f"create view staging.stg_values as select * from {name}")


@contextmanager
def opened_elsewhere(database: Path, read_only: bool = False) -> Iterator[int]:
    """The id of a process that has the database open meanwhile."""
    code = (
        "import duckdb, sys; c = duckdb.connect(sys.argv[1], read_only=bool(int(sys.argv[2])));"
        " print('open', flush=True); sys.stdin.readline()"
    )
    command = [sys.executable, "-c", code, str(database), str(int(read_only))]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        assert process.stdout
        process.stdout.readline()
        yield process.pid
        process.communicate(b"\n")


def ask(*arguments: str) -> list[dict[str, Any]]:
    """Run `tokenmart sql … --format json` and return its rows."""
    result = CliRunner().invoke(cli, ["sql", *arguments, "--format", "json"])
    assert result.exit_code == 0, result.output
    rows: list[dict[str, Any]] = json.loads(result.stdout)
    return rows


def failure(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["sql", *arguments])
    assert result.exit_code != 0
    return result.exit_code, result.output


def rounded(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [
        tuple(round(row[n], 4) if isinstance(row[n], float) else row[n] for n in names)
        for row in rows
    ]
