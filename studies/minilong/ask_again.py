"""Ask the models of minilong again, answer by answer, and ask for keys that were never planted.

    tokenmart data fetch --problem minilong
    python studies/minilong/ask_again.py            # writes tables/answers.parquet

The tables of the study have the share of right digits per context only. This script asks the same
questions in the same contexts (every task with digits) and keeps each answer's first digit and
exact match. For each single key it also asks for the planted value after four names that were never
planted: the control. `recompute.py` compares the digits with those of the study.

A model takes one to three minutes per context on one core. Answers are kept context by context:
stop it at any time (`--minutes` stops it before a model would end too late) and run it again.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from extract.models.loading import Loading, load_engine
from extract.planning.plan import plan_model
from extract.planning.selection import Selection, select
from extract.recall.contexts import ADJECTIVES, NOUNS, Context, make_contexts, single_key_prompt
from extract.recall.items import EncodedItem, encoded_items, score_items
from extract.recall.measurement import recall_target
from warehouse.paths import find_workspace
from warehouse.problem.models import ModelSpec
from warehouse.problem.spec import Problem, load_problem
from warehouse.store.parquet_files import write_table

TABLE = Path(__file__).parent / "tables" / "answers.parquet"
NAMES = 4
TASKS = ("single_key", "multi_key", "multi_value", "variable_tracking")
SCHEMA = pa.schema(
    [
        ("model_id", pa.string()),
        ("task", pa.string()),
        ("length", pa.int32()),
        ("context", pa.int32()),
        ("digits", pa.float64()),
        ("first_digit", pa.float64()),
        ("exact", pa.float64()),
    ]
)


def with_controls(context: Context) -> Context:
    """The context with `NAMES` names that were never planted for each of its single keys."""
    planted = " ".join(context.facts)
    names = [f"{one} {two}" for one in ADJECTIVES for two in NOUNS]
    absent = [name for name in names if name not in planted]
    keys = [question for question in context.questions if question.task == "single_key"] * NAMES
    drawn = np.random.default_rng(0).permutation(len(absent))
    return replace(
        context,
        controls=tuple(
            replace(key, prompt=single_key_prompt(absent[place]), control=True)
            for key, place in zip(keys, drawn, strict=False)
        ),
    )


def questions(items: Sequence[EncodedItem], lengths: Sequence[int]) -> list[EncodedItem]:
    """Those of `TASKS` and these lengths, behind a context that is no longer than needed."""
    longest = max(lengths)
    return [
        replace(item, request=replace(item.request, prefix=item.request.prefix[:longest]))
        for item in items
        if item.item.length in lengths and item.item.question.task in TASKS
    ]


def answers_of(
    problem: Problem,
    selection: Selection,
    spec: ModelSpec,
    context: int,
    lengths: Sequence[int],
) -> pa.Table:
    """The answers of one model in one context, a table in `SCHEMA`."""
    target = recall_target(problem, context + 1)
    every = NAMES * target.lengths[-1] // target.key_every
    target = target.model_copy(update={"control_keys": every})
    plan = plan_model(selection, spec, [])
    texts = make_contexts(target, target.filler.texts(problem.folders(selection.workspace)))
    texts = [with_controls(text) for text in texts]
    ((_, items),) = encoded_items(target, texts, plan.tokenizer, context)
    sample = items[0].request.prefix
    loading = Loading(spec, plan.checkpoint, selection.device, plan.dtype, sample=sample)
    scorer = load_engine(loading)
    answers = score_items(scorer, questions(items, lengths), target)
    rows = [
        {
            "model_id": spec.model_id,
            "task": row["task"].rpartition("_")[0].replace("recall", "single_key"),
            "length": row["context_tokens"],
            "context": context,
            "digits": row["token_accuracy"],
            "first_digit": row["first_token"],
            "exact": row["exact_match"],
        }
        for row in answers.to_pylist()
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def main() -> None:
    """Ask what is missing, the first context of every model before the second of any."""
    options = argparse.ArgumentParser(description=main.__doc__)
    options.add_argument("--models", nargs="*", default=())
    options.add_argument("--contexts", type=int, default=3)
    options.add_argument("--lengths", type=int, nargs="*", default=(2048, 4096))
    options.add_argument("--minutes", type=float, default=float("inf"))
    options.add_argument("--out", type=Path, default=TABLE)
    chosen = options.parse_args()
    workspace = find_workspace()
    problem = load_problem("minilong", workspace)
    selection = select(problem, workspace, models=chosen.models, device="cpu", dtype="float32")
    began, longest = time.monotonic(), 0.0
    table = pq.read_table(chosen.out) if chosen.out.is_file() else SCHEMA.empty_table()
    answered = {
        (row["model_id"], row["context"], row["length"])
        for row in table.select(["model_id", "context", "length"]).to_pylist()
    }
    for context in range(chosen.contexts):
        for spec in selection.models:
            lengths = [n for n in chosen.lengths if (spec.model_id, context, n) not in answered]
            start = time.monotonic()
            if not lengths or start - began + longest > 60 * chosen.minutes:
                continue
            answers = answers_of(problem, selection, spec, context, lengths)
            keys = [(name, "ascending") for name in SCHEMA.names[:4]]
            table = pa.concat_tables([table, answers]).sort_by(keys)
            write_table(chosen.out, table)
            seconds = time.monotonic() - start
            longest = max(longest, seconds)
            print(f"{spec.full_id}: context {context}, {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
