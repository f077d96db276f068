"""Writes a made-up warehouse: schema-true Parquet files, ledger included."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from made_up_warehouse.conditions import (
    add_copies,
    add_halves,
    add_ladder,
    add_needles,
    add_retrieval,
    scores,
)
from made_up_warehouse.shape import Shape
from made_up_warehouse.text import Ints, Pieces, Tokenisation, Vocabulary, draw_words
from warehouse.store.ledger import UnitRecord, with_units
from warehouse.store.schema import TABLES

_GROUP_ROWS = 120_000


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


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
    folder = root / table
    for key, value in keys.items():
        folder /= f"{key}={value}"
    folder.mkdir(parents=True, exist_ok=True)
    names = {"models": "model", "downstream": "items"}
    arrays = [
        pa.array(np.asarray(columns[f.name]).astype(f.type.to_pandas_dtype()), f.type)
        if pa.types.is_primitive(f.type) and table == "tokens"
        else pa.array(columns[f.name], f.type)
        for f in schema
    ]
    pq.write_table(
        pa.Table.from_arrays(arrays, schema=schema),
        folder / f"{names.get(table, table)}.parquet",
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
        shape = self.shape
        _write(
            self.root,
            "documents",
            {"problem": shape.problem},
            {
                "doc_id": np.arange(shape.documents, dtype=np.int32),
                "name": [f"document {i}" for i in range(shape.documents)],
                "sha256": [_sha256(text) for text in self.texts],
                "characters": [len(text) for text in self.texts],
                "bytes": [len(text.encode()) for text in self.texts],
                "text": self.texts,
                "document_group": [("prose", "code", None)[i % 3] for i in range(shape.documents)],
            },
        )
        if shape.compare:
            pairs = {"condition": [a for a, _ in shape.compare]}
            pairs["short_condition"] = [b for _, b in shape.compare]
            _write(self.root, "condition_pairs", {"problem": shape.problem}, pairs)
        for number in range(shape.models):
            self.add_model(number)

    def add_model(self, number: int) -> None:
        """Write model `number`: its row, its tokens, its downstream items."""
        shape = self.shape
        rng = np.random.default_rng([shape.seed, number])
        model_id = shape.model_ids[number] if shape.model_ids else f"lab--model-{number}"
        kind = number % shape.tokenizers
        bos = number % 3 != 1
        skill = 0.5 + number / max(1, shape.models - 1)
        keys = {"problem": shape.problem, "model_id": model_id}
        _write(
            self.root,
            "models",
            keys,
            {
                "full_id": [model_id.replace("--", "/")],
                "family": [f"family-{kind}"],
                "base_id": [None],
                "revision": [_sha256(model_id)[:40]],
                "parameters": [10**9 * (1 + number)],
                "trained_context": [4096 * 2 ** (number % 4)],
                "licence": ["mit"],
                "tokenizer_sha256": [_sha256(f"tokenizer {kind}")],
                "prepends_bos": [bos],
                "interventions": ["[]"],
                "rope": [None],
            },
        )
        self._write_tokens(keys, kind, bos, skill, rng)
        if shape.downstream_items:
            items = np.arange(shape.downstream_items)
            score = rng.random(2 * len(items)) < skill / 2
            _write(
                self.root,
                "downstream",
                keys,
                {
                    "task": ["recall_1024"] * len(items) + ["recall_2048"] * len(items),
                    "item": np.tile(items, 2).astype(np.int32),
                    "cluster": np.tile(items // 3, 2).astype(np.int32),
                    "context_tokens": np.repeat([1024, 2048], len(items)).astype(np.int32),
                    "score": score.astype(np.float64),
                    "exact_match": score.astype(np.float64),
                    "token_accuracy": score.astype(np.float64),
                    "answer_nll": rng.exponential(1, 2 * len(items)),
                    "first_token": score.astype(np.float64),
                },
            )

    def _write_tokens(
        self, keys: dict[str, str], kind: int, bos: bool, skill: float, rng: np.random.Generator
    ) -> None:
        parts: dict[str, list[dict[str, NDArray[Any]]]] = {}
        details: dict[str, tuple[str, str, dict[str, Any]]] = {}
        rows: dict[str, list[tuple[int, int]]] = {}

        def add(
            condition: str,
            kind_: str,
            probe: str,
            parameters: dict[str, Any],
            doc: int,
            **columns: Any,
        ) -> None:
            if {
                (keys["model_id"], condition, doc),
                (keys["model_id"], condition, None),
            } & self.shape.skip:
                return
            details[condition] = (kind_, probe, parameters)
            size = len(columns["position"])
            parts.setdefault(condition, []).append({**columns, "doc_id": np.full(size, doc)})
            rows.setdefault(condition, []).append((doc, size))

        for doc_id, tokenisations in enumerate(self.documents):
            text = tokenisations[kind]
            length = len(text.token_id)
            first = 0 if bos else 1
            nll = rng.exponential(text.difficulty * (1.6 - 0.3 * skill)) + 1e-4
            position = np.arange(length)
            nll *= 1 + 1.5 / np.log2(position + 4)

            def at(where: Ints, text: Tokenisation = text) -> dict[str, NDArray[Any]]:
                return {
                    "position": where,
                    "token_id": text.token_id[where],
                    "char_start": text.char_start[where],
                    "char_end": text.char_end[where],
                }

            whole = {
                "segment": np.zeros(length - first),
                "context_tokens": position[first:],
                **at(position[first:]),
                **scores(nll[first:], rng),
            }
            add("full", "full", "full", {}, doc_id, **whole)
            for window in self.shape.windows:
                where = position[window.context + window.stride :]
                block = (where - window.context) // window.stride
                looks_back = rng.random(len(where)) < 0.15
                gain = np.where(
                    looks_back,
                    rng.exponential(1.2 * skill, len(where)) - 0.15,
                    rng.normal(0, 0.05, len(where)),
                )
                add(
                    window.name,
                    "window",
                    window.name,
                    {"context": window.context, "stride": window.stride},
                    doc_id,
                    segment=block,
                    context_tokens=where - block * window.stride,
                    **at(where),
                    **scores(np.maximum(nll[where] + gain, 1e-5), rng),
                )
            retrieval = self.shape.retrieval
            if retrieval is not None:
                add_retrieval(self.shape, add, retrieval, doc_id, nll, at, skill, rng)
            if self.shape.divergence:
                add(
                    "divergence",
                    "divergence",
                    "divergence",
                    {"reference": "lab/model-0"},
                    doc_id,
                    **whole,
                )
            # draws of their own: the rows above stay what they are
            more = np.random.default_rng([self.shape.seed, doc_id, 1])
            add_ladder(self.shape, add, doc_id, nll, at, skill, more)
            add_needles(self.shape, add, doc_id, nll, at, skill, more)
            add_copies(self.shape, add, doc_id, nll, at, skill, more)
            add_halves(self.shape, add, doc_id, nll, at, skill, more)
        for condition, columns in parts.items():
            table = {
                name: np.concatenate([c[name] for c in columns])
                for name in TABLES["tokens"].schema.names
            }
            units = [
                self._unit({**keys, "condition": condition}, *details[condition], doc, size, kind)
                for doc, size in rows[condition]
            ]
            _write(self.root, "tokens", {**keys, "condition": condition}, table, units)
            if self.shape.top_k and condition in ("full", self.shape.windows[0].name):
                self._write_choices({**keys, "condition": condition}, table, units)
            if condition == "divergence":
                self._write_divergences({**keys, "condition": condition}, table, units)

    def _write_divergences(
        self, keys: dict[str, str], table: dict[str, NDArray[Any]], units: list[UnitRecord]
    ) -> None:
        rng = np.random.default_rng([self.shape.seed, len(keys["model_id"])])
        forth = rng.exponential(0.3, len(table["position"])) ** 2
        more = {
            "kl_reference_model": forth,
            "kl_model_reference": forth * rng.uniform(0.8, 1.3, len(forth)),
            "same_top": rng.random(len(forth)) < np.exp(-forth),
        }
        names = ("doc_id", "segment", "position")
        for unit in units:
            mine = table["doc_id"] == unit.doc_id
            columns = {name: table[name][mine] for name in names}
            self._write_side_rows(
                "divergences", keys, unit, {**columns, **{n: c[mine] for n, c in more.items()}}
            )

    def _write_side_rows(
        self, name: str, keys: dict[str, str], unit: UnitRecord, columns: dict[str, NDArray[Any]]
    ) -> None:
        schema = TABLES[name].schema
        folder = self.root / name
        for key, value in keys.items():
            folder /= f"{key}={value}"
        folder.mkdir(parents=True, exist_ok=True)
        arrays = [pa.array(columns[f.name].astype(f.type.to_pandas_dtype())) for f in schema]
        pq.write_table(
            pa.Table.from_arrays(arrays, schema=schema),
            folder / f"doc-{unit.doc_id:06d}-{unit.fingerprint}.parquet",
        )

    def _write_choices(
        self, keys: dict[str, str], table: dict[str, NDArray[Any]], units: list[UnitRecord]
    ) -> None:
        """The top-k tokens, of falling probability; a scored token is one of them at its rank."""
        k = self.shape.top_k
        rng = np.random.default_rng([self.shape.seed, len(keys["condition"])])
        size = len(table["position"])
        logprob = table["top_logprob"][:, None] - np.cumsum(
            np.pad(rng.exponential(1.0, (size, k - 1)) + 0.7, ((0, 0), (1, 0))), axis=1
        )
        # ids of which every token and both conditions draw some in common
        ids = (table["position"][:, None] + np.argsort(rng.random((size, 6)))[:, :k]) % 997
        for unit in units:
            mine = table["doc_id"] == unit.doc_id
            columns = {
                **{
                    name: np.repeat(table[name][mine], k)
                    for name in ("doc_id", "segment", "position")
                },
                "choice": np.tile(np.arange(1, k + 1), mine.sum()),
                "choice_id": ids[mine].ravel(),
                "logprob": logprob[mine].ravel(),
            }
            self._write_side_rows("top_tokens", keys, unit, columns)

    def _unit(
        self,
        keys: dict[str, Any],
        condition_kind: str,
        probe: str,
        parameters: dict[str, Any],
        doc_id: int,
        rows: int,
        tokenizer: int,
    ) -> UnitRecord:
        tokens = len(self.documents[doc_id][tokenizer].token_id)
        content = _sha256(f"{self.shape.seed} {keys} {doc_id} {rows}")
        return UnitRecord(
            **keys,
            condition_kind=condition_kind,
            probe=probe,
            probe_params=json.dumps(parameters),
            doc_id=doc_id,
            fingerprint=content[:32],
            status="done",
            reason="",
            rows=rows,
            tokens_processed=tokens,
            tokens_scored=rows,
            seconds=1.0,
            peak_bytes=10**9,
            device="cpu",
            dtype="float32",
            backend="transformers",
            attention="sdpa/flash",
            prefixes="shared",
            engine="2",
            document_sha256=_sha256(self.texts[doc_id]),
            document_tokens=tokens,
            document_tokens_total=tokens,
            torch_version="0",
            transformers_version="0",
            tokenmart_version="0",
            code_revision="0" * 40,
            code_dirty=False,
            seed=0,
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
