"""What an audit costs against the extraction that it checks, and that it agrees in bfloat16.

Two stores are made and audited on this machine's processor, each command in a process of its own:
the demo in float32, and one document of 4,096 tokens in bfloat16. The demo's figures include
neither downloads nor the conversion of its GGUF files, which an earlier run leaves in data/cache.

    python benchmarks/audits.py
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import yaml
from marked_tables import RESULTS, ROOT, machine, marked, replace_marked, table

from warehouse.files import write_whole
from warehouse.paths import find_workspace
from warehouse.store.provenance import code_revision

TOKENS = 4096
INTERVAL = 0.1
"""Seconds."""

BLOCK = "audits.json"
OUT = Path(__file__).with_name(BLOCK)


def long_problem(folder: Path) -> Path:
    """The demo with one longer document, and its first model alone."""
    problem = yaml.safe_load((ROOT / "data/problems/demo.yml").read_text("utf-8"))
    problem["name"] = "long"
    problem["documents"] |= {"count": 1, "max_tokens": TOKENS}
    problem["models"], problem["probes"] = problem["models"][:1], problem["probes"][:2]
    path = folder / "long.yml"
    path.write_text(yaml.safe_dump(problem), encoding="utf-8")
    return path


def measured(*words: str) -> dict[str, Any]:
    """Standard output, seconds by the clock and of the processor, and peak memory of a command.

    Memory is looked at every `INTERVAL` seconds: `extract` resets the peak that Linux keeps.
    """
    peak, started = 0, time.perf_counter()
    with tempfile.TemporaryFile() as out:
        process = psutil.Popen([sys.executable, "-m", "tokenmart", *words], stdout=out)
        while process.poll() is None:
            with suppress(psutil.NoSuchProcess):
                times, now = process.cpu_times(), process.memory_info().rss
                peak = max(peak, now)
            time.sleep(INTERVAL)
        assert process.returncode == 0, words
        out.seek(0)
        printed = out.read().decode()
    return {
        "printed": printed,
        "seconds": time.perf_counter() - started,
        "processor_seconds": times.user + times.system,
        "peak_bytes": peak,
    }


def audited(problem: str, dtype: str) -> dict[str, Any]:
    """Extract a problem and audit its rows."""
    common = ("--problem", problem, "--device", "cpu")
    extraction = measured("extract", *common, "--dtype", dtype)
    audit = measured("data", "audit", *common, "--json")
    del extraction["printed"]
    conditions = json.loads(audit.pop("printed"))
    return {"dtype": dtype, "extraction": extraction, "audit": audit, "conditions": conditions}


def results_block(found: dict[str, Any]) -> str:
    """The tables as RESULTS.md shows them."""
    costs = [
        {"store": name, "command": command, **each[command]}
        | {"gib": each[command]["peak_bytes"] / 2**30}
        for name, each in found["stores"].items()
        for command in ("extraction", "audit")
    ]
    rows = [row | {"store": name} for name, each in found["stores"].items()
            for row in each["conditions"]]  # fmt: skip
    worst = [
        max((row for row in rows if row["store"] == name), key=lambda row: row["largest_logprob"])
        | {"sampled": sum(row["sampled"] for row in rows if row["store"] == name)}
        | {"states": ", ".join(sorted({row["state"] for row in rows if row["store"] == name}))}
        for name in found["stores"]
    ]
    cost_columns = {
        "store": "{store}", "command": "{command}", "s:": "{seconds:.0f}",
        "s of processor:": "{processor_seconds:.0f}", "peak GiB:": "{gib:.1f}",
    }  # fmt: skip
    columns = {
        "store": "{store}", "rows recomputed:": "{sampled:,}", "result": "{states}",
        "largest difference, nats:": "{largest_logprob:.1e}", "of": "{model}, {condition}",
        "accepted there:": "{tolerance:.1e}",
    }  # fmt: skip
    return marked(BLOCK, [*table(cost_columns, costs), "", *table(columns, worst)])


def main() -> None:
    """Measure, and write the figures and their tables."""
    cache = find_workspace().cache
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "data").mkdir()
        (folder / "data" / "cache").symlink_to(cache)
        os.environ["TOKENMART_DATA"] = str(folder / "data")
        stores = {
            "demo": audited("demo", "float32"),
            f"a document of {TOKENS:,} tokens, bfloat16": audited(
                str(long_problem(folder)), "bfloat16"
            ),
        }
    found = {
        **machine("torch", "transformers"),
        "revision": code_revision()["revision"],
        "stores": stores,
    }
    write_whole(OUT, json.dumps(found, indent=1) + "\n")
    replace_marked(RESULTS, BLOCK, results_block(found))


if __name__ == "__main__":
    main()
