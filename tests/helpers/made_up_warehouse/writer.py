"""Writes a made-up warehouse: schema-true Parquet files, ledger included."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from unit_records import unit_record

from made_up_warehouse import conditions
from made_up_warehouse.conditions import Rows
from made_up_warehouse.shape import Shape
from made_up_warehouse.text import Floats, Pieces, Tokenisation, Vocabulary, draw_words
from warehouse.store.ledger import UnitRecord, with_units
from warehouse.store.schema import TABLES

Columns = dict[str, NDArray[Any]]
_GROUP_ROWS = 120_000
VOCABULARY = 50_000
"""Tokens of each model, in the table `models`."""


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _folder(root: Path, table: str, keys: dict[str, str]) -> Path:
    folder = root.joinpath(table, *(f"{key}={value}" for key, value in keys.items()))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _write(
    root: Path,
    table: str,
    keys: dict[str, str],
    columns: dict[str, Any],
    units: list[UnitRecord] | None = None,
) -> None:
    schema = TABLES[table].schema
    if units is not None:
        schema = with_units(schema, units)
    names = {"models": "model", "downstream": "items"}
    arrays = [
        pa.array(np.asarray(columns[f.name]).astype(f.type.to_pandas_dtype()), f.type)
        if table == "tokens"
        else pa.array(columns[f.name], f.type)
        for f in schema
    ]
    pq.write_table(
        pa.Table.from_arrays(arrays, schema=schema),
        _folder(root, table, keys) / f"{names.get(table, table)}.parquet",
        compression="zstd",
        row_group_size=_GROUP_ROWS,
        use_dictionary=["rank", "token_id"],
        use_byte_stream_split=[f.name for f in schema if f.type == pa.float32()],
    )


class _Writer:
    """Writes one problem; the state is what all its tables share."""

    def __init__(self, root: Path, shape: Shape) -> None:
        self.root = root
        self.shape = shape
        rng = np.random.default_rng(shape.seed)
        vocabulary = Vocabulary.make(shape.vocabulary, rng)
        pieces = [Pieces.of(vocabulary.words, kind) for kind in range(shape.tokenizers)]
        lengths = np.array([len(word) for word in vocabulary.words], dtype=np.int64)
        per_word = float((pieces[0].count * vocabulary.weights).sum())
        self.conditions: dict[str, Rows] = {}
        self.texts: list[str] = []
        self.documents: list[list[Tokenisation]] = []
        for _ in range(shape.documents):
            words = draw_words(max(8, round(shape.tokens / per_word)), vocabulary, rng)
            sizes = lengths[words] + 1
            offsets = np.cumsum(sizes) - sizes - 1
            self.texts.append(" ".join(vocabulary.words[w] for w in words))
            self.documents.append([p.tokenise(words, offsets) for p in pieces])

    def write(self) -> None:
        """Write every table of the problem."""
        shape, keys = self.shape, {"problem": self.shape.problem}
        documents = {
            "doc_id": np.arange(shape.documents, dtype=np.int32),
            "name": [f"document {i}" for i in range(shape.documents)],
            "sha256": [_sha256(text) for text in self.texts],
            "characters": [len(text) for text in self.texts],
            "bytes": [len(text.encode()) for text in self.texts],
            "text": self.texts,
            "document_group": [("prose", "code", None)[i % 3] for i in range(shape.documents)],
            "foreign_sha256": [None] * shape.documents,
        }
        _write(self.root, "documents", keys, documents)
        for number in range(shape.models):
            self.add_model(number)
        if shape.compare:
            self._write_needed(keys)

    def _write_needed(self, keys: dict[str, str]) -> None:
        """Write what a problem file with all models and conditions asks for."""
        rows = [
            {
                "model_id": self._model_id(number),
                "is_ranked": True,
                "condition": condition,
                "condition_kind": rows.kind,
                "probe": rows.probe,
                "probe_params": json.dumps(rows.parameters, sort_keys=True),
                "reads_foreign": False,
                "compared_with": [short for long, short in self.shape.compare if long == condition],
            }
            for number in range(self.shape.models)
            for condition, rows in self.conditions.items()
        ]
        names = TABLES["needed"].schema.names
        _write(self.root, "needed", keys, {n: [row.get(n) for row in rows] for n in names})

    def _model_id(self, number: int) -> str:
        return self.shape.model_ids[number] if self.shape.model_ids else f"lab--model-{number}"

    def add_model(self, number: int) -> None:
        """Write model `number`: its row, its tokens, its downstream items."""
        shape = self.shape
        rng = np.random.default_rng([shape.seed, number])
        model_id = self._model_id(number)
        kind = number % shape.tokenizers
        bos = number % 3 != 1
        skill = 0.5 + number / max(1, shape.models - 1)
        keys = {"problem": shape.problem, "model_id": model_id}
        row = {
            "full_id": model_id.replace("--", "/"),
            "family": f"family-{kind}",
            "base_id": None,
            "revision": _sha256(model_id)[:40],
            "parameters": 10**9 * (1 + number),
            "trained_context": 4096 * 2 ** (number % 4),
            "licence": "mit",
            "tokenizer_sha256": _sha256(f"tokenizer {kind}"),
            "prepends_bos": bos,
            "interventions": "[]",
            "rope": None,
            "vocabulary": VOCABULARY,
        }
        _write(self.root, "models", keys, {name: [value] for name, value in row.items()})
        self._write_tokens(keys, kind, bos, skill, rng)
        if count := shape.downstream_items:
            items = np.arange(count, dtype=np.int32)
            score = (rng.random(2 * count) < skill / 2).astype(np.float64)
            scores = ("score", "exact_match", "token_accuracy", "first_token")
            columns = dict.fromkeys(scores, score) | {
                "task": ["recall_1024"] * count + ["recall_2048"] * count,
                "item": np.tile(items, 2),
                "cluster": np.tile(items // 3, 2),
                "context_tokens": np.repeat(np.array([1024, 2048], dtype=np.int32), count),
                "answer_nll": rng.exponential(1, 2 * count),
            }
            _write(self.root, "downstream", keys, columns)

    def _write_tokens(
        self, keys: dict[str, str], kind: int, bos: bool, skill: float, rng: np.random.Generator
    ) -> None:
        skip = self.shape.skip
        found: dict[str, list[tuple[Rows, Columns]]] = {}
        for doc_id, tokenisations in enumerate(self.documents):
            text = tokenisations[kind]
            for rows, scored in self._scored(doc_id, text, 0 if bos else 1, skill, rng):
                name = rows.condition
                if skip & {(keys["model_id"], name, doc_id), (keys["model_id"], name, None)}:
                    continue
                size = len(rows.position)
                columns = {
                    "doc_id": np.full(size, doc_id),
                    "segment": np.broadcast_to(rows.segment, size),
                    "context_tokens": np.broadcast_to(rows.context_tokens, size),
                    "position": rows.position,
                    "token_id": text.token_id[rows.position],
                    "char_start": text.char_start[rows.position],
                    "char_end": text.char_end[rows.position],
                    **scored,
                }
                found.setdefault(name, []).append((rows, columns))
        for condition, parts in found.items():
            self.conditions[condition] = parts[0][0]
            table = {
                name: np.concatenate([columns[name] for _, columns in parts])
                for name in TABLES["tokens"].schema.names
            }
            full_keys = {**keys, "condition": condition}
            units = [
                self._unit(full_keys, rows, int(columns["doc_id"][0]), kind)
                for rows, columns in parts
            ]
            _write(self.root, "tokens", full_keys, table, units)
            if self.shape.top_k and condition in ("full", self.shape.windows[0].name):
                self._write_choices(full_keys, table, units)
            if condition == "divergence":
                self._write_divergences(full_keys, table, units)

    def _scored(
        self, doc_id: int, text: Tokenisation, first: int, skill: float, rng: np.random.Generator
    ) -> Iterator[tuple[Rows, Columns]]:
        """Each condition of a document with its columns of scores."""
        shape = self.shape
        nll: Floats = rng.exponential(text.difficulty * (1.6 - 0.3 * skill)) + 1e-4
        nll *= 1 + 1.5 / np.log2(np.arange(len(nll)) + 4)
        full = conditions.full_rows(nll, first)
        whole = conditions.scores(full.nll, rng)
        yield full, whole
        for rows in conditions.window_rows(shape, nll, skill, rng):
            yield rows, conditions.scores(rows.nll, rng)
        for rows in conditions.retrieval_rows(shape, doc_id, nll, skill, rng):
            yield rows, conditions.scores(rows.nll, rng)
        if shape.divergence:
            parameters = {"reference": "lab/model-0"}
            yield Rows("divergence", "divergence", "divergence", parameters, *full[4:]), whole
        # draws of their own: the rows above stay what they are
        more = np.random.default_rng([shape.seed, doc_id, 1])
        for probe in (
            conditions.ladder_rows,
            conditions.needle_rows,
            conditions.copy_rows,
            conditions.half_rows,
        ):
            for rows in probe(shape, nll, skill, more):
                yield rows, conditions.scores(rows.nll, more)

    def _write_divergences(
        self, keys: dict[str, str], table: Columns, units: list[UnitRecord]
    ) -> None:
        rng = np.random.default_rng([self.shape.seed, len(keys["model_id"])])
        forth = rng.exponential(0.3, len(table["position"])) ** 2
        columns = table | {
            "kl_reference_model": forth,
            "kl_model_reference": forth * rng.uniform(0.8, 1.3, len(forth)),
            "same_top": rng.random(len(forth)) < np.exp(-forth),
        }
        self._write_side_rows("divergences", keys, units, columns)

    def _write_choices(self, keys: dict[str, str], table: Columns, units: list[UnitRecord]) -> None:
        """The top-k tokens, of falling probability; a scored token is one of them at its rank."""
        k, size = self.shape.top_k, len(table["position"])
        rng = np.random.default_rng([self.shape.seed, len(keys["condition"])])
        logprob = table["top_logprob"][:, None] - np.cumsum(
            np.pad(rng.exponential(1.0, (size, k - 1)) + 0.7, ((0, 0), (1, 0))), axis=1
        )
        # ids of which every token and both conditions draw some in common
        ids = (table["position"][:, None] + np.argsort(rng.random((size, 6)))[:, :k]) % 997
        columns = {name: np.repeat(table[name], k) for name in ("doc_id", "segment", "position")}
        columns |= {
            "choice": np.tile(np.arange(1, k + 1), size),
            "choice_id": ids.ravel(),
            "logprob": logprob.ravel(),
        }
        self._write_side_rows("top_tokens", keys, units, columns)

    def _write_side_rows(
        self, name: str, keys: dict[str, str], units: list[UnitRecord], columns: Columns
    ) -> None:
        """Rows that belong to those of `tokens`: a file for each unit."""
        schema = TABLES[name].schema
        for unit in units:
            mine = columns["doc_id"] == unit.doc_id
            arrays = [
                pa.array(columns[f.name][mine].astype(f.type.to_pandas_dtype())) for f in schema
            ]
            file = f"doc-{unit.doc_id:06d}-{unit.fingerprint}.parquet"
            path = _folder(self.root, name, keys) / file
            pq.write_table(pa.Table.from_arrays(arrays, schema=schema), path)

    def _unit(self, keys: dict[str, str], rows: Rows, doc_id: int, tokenizer: int) -> UnitRecord:
        size = len(rows.position)
        content = _sha256(f"{self.shape.seed} {keys} {doc_id} {size}")
        return unit_record(
            (keys["problem"], keys["model_id"], keys["condition"]),
            size,
            len(self.documents[doc_id][tokenizer].token_id),
            condition_kind=rows.kind,
            probe=rows.probe,
            probe_params=json.dumps(rows.parameters, sort_keys=True),
            doc_id=doc_id,
            fingerprint=content[:32],
            document_sha256=_sha256(self.texts[doc_id]),
            finished_at=self.shape.finished_at,
            content_sha256=content,
        )


def write_warehouse(root: Path, shape: Shape, *, only_model: int | None = None) -> None:
    """Write `shape` under `root` (a data folder).

    Args:
        root: The data folder; it gets `tokens/`, `documents/`, `models/` and `downstream/`.
        shape: What to write; the same shape always writes the same numbers.
        only_model: Write only this model of the shape (an addition to an existing folder).
    """
    if only_model is None:
        _Writer(root, shape).write()
    else:
        _Writer(root, shape).add_model(only_model)
