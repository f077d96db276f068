"""Score models of the study again with the pre-tokenizer that SmolLM2's GGUF file names.

    python studies/minilong/new_tokens.py --folder again

Scored units are kept in the folder: the same command resumes. Writes new_tokens.json: of each
document of the study, how many tokens had other spans when the pre-tokenizer was ignored; of each
model and document scored again, both values.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import yaml
from tokenizers.pre_tokenizers import ByteLevel

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent
TABLE = str(FOLDER / "tables" / "metric_documents.parquet")
METRICS = {"perplexity": "bits_per_byte", "retrieval_gain": "mean@retrieval"}
RETRIEVAL = {"excerpts": 8, "excerpt_tokens": 48, "answer_tokens": 32, "min_gap": 512, "seed": 0}
PROBES: list[dict[str, Any]] = [{"kind": "full"}, {"kind": "retrieval", **RETRIEVAL}]
CHANGES = f"""
    select metric, model_id, doc_id, ours.denominator, theirs.numerator as before,
        ours.numerator as after
    from metric_documents as ours
    inner join '{TABLE}' as theirs using (metric, variant, model_id, doc_id)
    where variant in {tuple(METRICS.values())}
    order by all
"""


def changed_tokens(problem_file: Path, count: int) -> list[int]:
    """Of each document, the tokens that GPT-2's pre-tokenizer, used before, ends elsewhere."""
    from extract.planning.plan import plan_model
    from extract.planning.selection import select
    from warehouse.paths import find_workspace
    from warehouse.problem.spec import load_problem

    workspace = find_workspace()
    problem = load_problem(str(problem_file), workspace)
    selection = select(problem, workspace, device="cpu", dtype="float32")
    tokenizer = plan_model(selection, selection.models[0], []).tokenizer
    documents = f"'{workspace.store}/documents/**/documents.parquet'"
    texts = duckdb.sql(f"select text from {documents} order by doc_id limit {count}").fetchall()
    spans: list[list[set[tuple[int, int]]]] = []
    for pre_tokenizer in (None, ByteLevel(add_prefix_space=False)):
        if pre_tokenizer is not None:
            tokenizer.library.backend_tokenizer.pre_tokenizer = pre_tokenizer
        encoded = [tokenizer.encode(text) for (text,) in texts]
        spans.append([set(zip(d.char_start[:4096].tolist(), d.char_end[:4096].tolist(),
                              strict=True)) for d in encoded])  # fmt: skip
    return [len(new - old) for new, old in zip(*spans, strict=True)]


def main() -> None:
    """Score what is missing, build two metrics, write new_tokens.json."""
    options = argparse.ArgumentParser(description=main.__doc__)
    options.add_argument("--folder", type=Path, required=True)
    options.add_argument("--models", nargs="+", default=["smollm2-135m", "smollm2-135m-noise-0.15"])
    options.add_argument("--documents", type=int, default=12)
    chosen = options.parse_args()
    folder = chosen.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    database, file = folder / "tokenmart.duckdb", folder / "minilong.yml"
    problem = yaml.safe_load((ROOT / "data" / "problems" / "minilong.yml").read_text("utf-8"))
    file.write_text(yaml.safe_dump(problem | {"probes": PROBES}), "utf-8")
    places = {"TOKENMART_DATA": folder / "data", "TOKENMART_DATABASE": database}
    os.environ.update({name: str(path) for name, path in places.items()})

    def run(*words: str) -> None:
        subprocess.run([sys.executable, "-m", "tokenmart", *words], check=True, cwd=ROOT)

    asked = ["--problem", str(file), *(w for name in chosen.models for w in ("--model", name))]
    run("data", "fetch", *asked)
    run("extract", *asked, "--documents", str(chosen.documents))
    run("dbt", "run", "--quiet", "--select", *(f"+{name}+" for name in METRICS))
    studied = len(duckdb.sql(f"select distinct doc_id from '{TABLE}'").fetchall())
    with duckdb.connect(str(database), read_only=True) as connection:
        scored = connection.sql(CHANGES).to_arrow_table().to_pylist()
    figures = {"changed_tokens": changed_tokens(file, studied), "scored": scored}
    (FOLDER / "new_tokens.json").write_text(json.dumps(figures, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
