"""Scores as records of the Every Eval Ever schema, version 0.3.0, one file per model.

The schema: https://github.com/evaleval/every_eval_ever (MIT), every_eval_ever/schemas.
"""

from __future__ import annotations

import hashlib
import json
import math
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from plugins.exchange.bundle import SharedModel, SharedProblem

SCHEMA = "0.3.0"
_UNBOUNDED = {"min_score": "-Infinity", "max_score": "Infinity"}


def records(
    problem: str,
    shared: SharedProblem,
    scores: Sequence[Mapping[str, Any]],
    values: Sequence[Mapping[str, Any]],
    organisation: str,
    version: str,
) -> Iterator[tuple[str, str]]:
    """Path in the export and JSON of each model's record.

    Args:
        problem: name of the problem.
        shared: its entry in the manifest.
        scores: rows of `downstream_scores`.
        values: rows of `metric_values` with the direction and formula of the catalogue.
        organisation: evaluating organisation.
        version: version of Tokenmart.
    """
    for model in shared.models:
        results = [_of_score(problem, row) for row in scores if row["model_id"] == model.model_id]
        results += [
            _of_metric(problem, shared, row) for row in values if row["model_id"] == model.model_id
        ]
        results = [each for each in results if math.isfinite(each["score_details"]["score"])]
        if not results:
            continue
        now = f"{datetime.now(timezone.utc).timestamp():.6f}"
        developer, _, name = model.full_id.rpartition("/")
        developer = developer or model.family
        # the same results have the same name, so that a second export replaces the first
        content = json.dumps([problem, model.model_id, results], sort_keys=True)
        # (the schema's validator accepts names of version 4 only)
        number = uuid.UUID(bytes=hashlib.sha256(content.encode()).digest()[:16], version=4)
        record = {
            "schema_version": SCHEMA,
            "evaluation_id": f"tokenmart-{problem}/{model.full_id}/{now}",
            "retrieved_timestamp": now,
            "source_metadata": {
                "source_name": f"Tokenmart, problem {problem}",
                "source_type": "evaluation_run",
                "source_organization_name": organisation,
                "evaluator_relationship": "third_party",
            },
            "eval_library": {"name": "tokenmart", "version": version},
            "model_info": _model_info(model, developer),
            "evaluation_results": results,
        }
        path = f"eval_results/tokenmart-{problem}/{_plain(developer)}/{_plain(name)}/{number}.json"
        yield path, json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _model_info(model: SharedModel, developer: str) -> dict[str, Any]:
    details = {
        "deployment_type": "self_deployed",
        "model_availability": "unknown",
        "family": model.family,
        "dtype": ", ".join(model.dtypes),
    }
    if model.kind != model.full_id:
        details["series"] = model.kind
    return {
        "name": model.full_id,
        "id": model.full_id,
        "developer": developer,
        "inference_engine": {"name": "tokenmart", "version": ", ".join(model.engines) or "unknown"},
        "additional_details": details,
    }


def _of_score(problem: str, row: Mapping[str, Any]) -> dict[str, Any]:
    details: dict[str, Any] = {"score": row["score"] if row["score"] is not None else math.nan}
    if row["stderr"] is not None and math.isfinite(row["stderr"]):
        error = {"value": row["stderr"], "method": "analytic, clustered by context"}
        details["uncertainty"] = {"standard_error": error, "num_samples": row["items"]}
    return {
        "evaluation_result_id": f"target/{row['task']}",
        "evaluation_name": f"{problem}/{row['task']}",
        "source_data": {"dataset_name": f"{problem} target", "source_type": "other"},
        "metric_config": {
            "metric_id": f"tokenmart.{problem}.{row['task']}",
            "metric_name": row["task"],
            "lower_is_better": False,
            "score_type": "continuous",
            **_UNBOUNDED,
        },
        "score_details": details,
    }


def _of_metric(problem: str, shared: SharedProblem, row: Mapping[str, Any]) -> dict[str, Any]:
    name = f"{row['metric']}/{row['variant']}"
    return {
        "evaluation_result_id": f"metric/{name}",
        "evaluation_name": f"{problem}/{name}",
        "source_data": {
            "dataset_name": f"{problem} documents",
            "source_type": "other",
            "additional_details": {"licence": shared.licence, "sha256": shared.corpus},
        },
        "metric_config": {
            "evaluation_description": str(row["formula"])[:500],
            "metric_id": f"tokenmart.{row['metric']}",
            "metric_name": name,
            "metric_kind": row["metric"],
            "lower_is_better": row["direction"] == "lower",
            "score_type": "continuous",
            **_UNBOUNDED,
        },
        "score_details": {
            "score": row["value"] if row["value"] is not None else math.nan,
            "details": {"tokens": str(row["tokens"]), "documents": str(row["documents"])},
        },
    }


def _plain(name: str) -> str:
    """A name that is valid as one folder of an export."""
    return "".join(c if (c.isalnum() and c.isascii()) or c in "._-" else "-" for c in name) or "-"
