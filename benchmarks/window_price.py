"""What strides of the window probe cost, and what they change in metrics of real small models.

    python benchmarks/window_price.py --folder /tmp/window_price --write

LongPPL's procedure has four tokens of context for each one of stride. The same documents are read
with larger strides, behind the same context and behind a shorter one whose mean is the procedure's.
Values come from `tokenmart extract` and `tokenmart dbt`; prices at the locked problem's length from
the formulas of the dry run.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from marked_tables import RESULTS, ROOT, machine, marked, replace_marked, table

from analysis.statistics.correlations import spearman
from extract.planning.cost import estimate, work_of
from extract.planning.memory import ModelSize
from warehouse.files import write_whole
from warehouse.paths import Workspace, find_workspace
from warehouse.probes.context import FullProbe, WindowProbe
from warehouse.probes.probe import Probe
from warehouse.problem.spec import load_problem
from warehouse.sql.connection import connect_read_only
from warehouse.store.provenance import code_revision
from warehouse.terminal import counted

OUT = ROOT / "benchmarks" / "window_price.json"
BLOCK = "benchmarks/window_price.json"
PROCEDURE = (192, 48)
STRIDES = (PROCEDURE, (192, 192), (144, 144), (108, 216))
"""Context and stride; the last two have the procedure's mean context, 216 tokens."""
TOKENS = 1536
TRUE_LENGTH, SCALE = 32_768, 64 / 3
"""Of the locked problem: its documents, and its window as a multiple of the one here."""
LARGE = "mistralai/Mistral-7B-Instruct-v0.2"
MODELS = (
    "smollm2-135m",
    "smollm2-135m-rope-base-20k",
    "smollm2-135m-window-512",
    "smollm2-135m-noise-0.15",
    "smollm2-135m-drop-last-3",
    "gemma3-270m",
)
SHOWN = {
    "context_gain": "mean",
    "key_share": "share_alpha_2_beta_-2",
    "longppl": "alpha_0.5_beta_-2",
}


def name_of(context: int, stride: int) -> str:
    """The condition of a window."""
    return f"window_{context}_{stride}"


def windows(scale: float = 1) -> dict[str, WindowProbe]:
    """The probes, by the names that they have at scale 1."""
    return {
        name_of(context, stride): WindowProbe(
            kind="window",
            name=name_of(context, stride),
            context=round(scale * context),
            stride=round(scale * stride),
        )
        for context, stride in STRIDES
    }


def run_commands(folder: Path, documents: int) -> Workspace:
    """Extract and build in a data folder of its own; what is there already isn't computed again."""
    data = folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    workspace = Workspace(ROOT, data, folder / "tokenmart.duckdb")
    if not (data / "cache").is_symlink():
        (data / "cache").symlink_to(find_workspace(ROOT).cache)
    shipped = yaml.safe_load((ROOT / "data" / "problems" / "minilong.yml").read_text("utf-8"))
    problem = {
        "name": "window_price",
        "title": "Strides of the window probe",
        "documents": {**shipped["documents"], "count": documents, "max_tokens": TOKENS},
        "models": [m for m in shipped["models"] if m["full_id"] in MODELS],
        "probes": [{"kind": "full"}]
        + [{"kind": "window", **probe.model_dump(exclude={"kind", "top_k"})}
           for probe in windows().values()],
    }  # fmt: skip
    file = folder / "window_price.yml"
    file.write_text(yaml.safe_dump(problem, sort_keys=False), "utf-8")
    variables = {**os.environ, **workspace.environment(), "PYTHONPATH": str(ROOT)}
    for words in (
        ["extract", "--problem", str(file), "--device", "cpu"],
        ["dbt", "--quiet", "run", "--select", "+metric_values"],
    ):
        command = [sys.executable, "-m", "tokenmart", *words]
        subprocess.run(command, env=variables, check=True, cwd=folder)
    return workspace


def prices() -> dict[str, dict[str, float]]:
    """Of each window at the locked problem's length: tokens and FLOPs of one 7B model."""
    spec = load_problem("no4k", find_workspace(ROOT)).model(LARGE)
    assert spec.parameters is not None and spec.shape is not None
    size = ModelSize(spec.parameters, spec.shape)

    def price(probe: Probe) -> dict[str, float]:
        work = work_of([TRUE_LENGTH], probe.conditions())
        cost = estimate(work, size, dtype="bfloat16", device="cuda")
        return {"tokens": cost.tokens, "rows": cost.rows, "flops": cost.flops}

    return {
        "full": price(FullProbe(kind="full")),
        **{name: price(probe) for name, probe in windows(SCALE).items()},
    }


def measured(workspace: Workspace) -> dict[str, Any]:
    """Seconds of each window, and every value of a metric that compares it with the document."""
    with connect_read_only(workspace) as connection:
        seconds = connection.execute(
            "select condition, sum(seconds) from units group by all order by all"
        ).fetchall()
        rows = connection.execute(
            "select metric, variant, model_id, value from metric_values"
            " where contains(variant, '@window_') and value is not null order by all"
        ).fetchall()
    values: dict[str, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for metric, variant, model, value in rows:
        which, _, window = variant.partition("@")
        values[f"{metric}/{which}"][window][model] = value
    return {
        "seconds": dict(seconds),
        "values": {k: v for k, v in values.items() if all(len(m) == len(MODELS) for m in v.values())
                   and len(v) == len(STRIDES)},
    }  # fmt: skip


def compared(found: dict[str, Any]) -> list[dict[str, Any]]:
    """A row for each window: price, time, values, agreement with the published procedure."""
    first = name_of(*PROCEDURE)
    rows = []
    for context, stride in STRIDES:
        name = name_of(context, stride)
        price = found["prices"][name]
        row: dict[str, Any] = {
            "context": context,
            "stride": stride,
            "mean": context + (stride - 1) / 2,
            "tokens": price["tokens"] / price["rows"],
            "flops": price["flops"] / found["prices"]["full"]["flops"],
            "seconds": found["seconds"][name] / found["seconds"]["full"],
        }
        rhos = []
        for by_window in found["values"].values():
            models = sorted(by_window[first])
            here, there = (np.array([by_window[w][m] for m in models]) for w in (name, first))
            if np.ptp(there) > 0 and np.ptp(here) > 0:
                rhos.append(spearman(here, there))
        row |= {"least": min(rhos), "median": statistics.median(rhos), "variants": len(rhos)}
        for metric, variant in SHOWN.items():
            by_window = found["values"][f"{metric}/{variant}"]
            here, there = by_window[name], by_window[first]
            row[metric] = statistics.mean(here.values())
            row[f"{metric}_off"] = statistics.mean(abs(here[m] - there[m]) for m in here)
            row[f"{metric}_spread"] = statistics.stdev(there.values())
        rows.append(row)
    return rows


def section(found: dict[str, Any]) -> str:
    """The tables, between their markers."""
    rows = compared(found)
    spread = {metric: rows[0][f"{metric}_spread"] for metric in SHOWN}
    documents = counted(found["documents"], "document")
    lines = [
        f"`python benchmarks/window_price.py --folder /tmp/window_price --documents "
        f"{found['documents']} --write`: {len(MODELS)} models, {documents} of {TOKENS:,} tokens. "
        "The column *tokens* has the number of processed tokens per scored token. *FLOPs* are "
        f"those of a 7B model at the lengths of no4k ({SCALE:.1f} times the lengths in the table), "
        "divided by those of the probe `full`. *Seconds* are measured at the lengths in the "
        "table, divided by the seconds of `full`.",
        "",
        *table(
            {
                "context": "{context}",
                "stride": "{stride}",
                "mean context:": "{mean:.1f}",
                "tokens:": "{tokens:.2f}",
                "FLOPs:": "{flops:.2f}",
                "seconds:": "{seconds:.2f}",
            },
            rows,
        ),
        "",
        "The next table has the mean value of three metrics over the models, with the mean "
        "absolute difference from the first row in brackets. (The standard deviation between "
        f"models is {spread['context_gain']:.3f} nats, {spread['key_share']:.4f} and "
        f"{spread['longppl']:.3f}.) *rho* is the rank correlation over models between a variant's "
        "values in this row and in the first row, for the "
        f"{rows[0]['variants']} variants that compare a window with the document.",
        "",
        *table(
            {
                "context": "{context}",
                "stride": "{stride}",
                "`context_gain`, nats:": "{context_gain:.3f} ({context_gain_off:.3f})",
                "`key_share`:": "{key_share:.4f} ({key_share_off:.4f})",
                "`longppl`:": "{longppl:.3f} ({longppl_off:.3f})",
                "rho, median:": "{median:.2f}",
                "rho, lowest:": "{least:.2f}",
            },
            rows,
        ),
    ]
    return marked(BLOCK, lines)


def main() -> None:
    """Measure, or with what was measured before, and print the tables."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--folder", type=Path, help="measure in this folder; else use the figures")
    asked.add_argument("--write", action="store_true", help="write the figures and RESULTS.md")
    asked.add_argument("--documents", type=int, default=4, help="of minilong, the first ones")
    options = asked.parse_args()
    if options.folder:
        found = {
            "documents": options.documents,
            "code": code_revision(),
            **machine("torch", "transformers", "duckdb"),
            "prices": prices(),
            **measured(run_commands(options.folder.absolute(), options.documents)),
        }
    else:
        found = json.loads(OUT.read_text("utf-8"))
    made = section(found)
    print(made)
    if options.write:
        write_whole(OUT, json.dumps(found, indent=1, sort_keys=True) + "\n")
        replace_marked(RESULTS, BLOCK, made)


if __name__ == "__main__":
    main()
