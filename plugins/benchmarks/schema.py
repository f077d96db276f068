"""Tables of the store that benchmarks add: requests, answers and scores."""

from __future__ import annotations

import pyarrow as pa

from warehouse.store.schema import PARTITION_KEYS, TOKENS, Table, field

EVAL_ITEMS = pa.schema(
    [
        field("doc_id", pa.int32(), "unit: a batch of documents of the task"),
        field("segment", pa.int32(), "request within the unit; joins eval_tokens, eval_answers"),
        field("task", pa.string(), "task as lm-evaluation-harness names it"),
        field("shots", pa.int32(), "worked examples in the prompt"),
        field("item", pa.int32(), "document of the task, counted from 0"),
        field("cluster", pa.string(), "items of one cluster share a text (for standard errors)"),
        field("subject", pa.string(), "subject of the item, where its document names one", True),
        field("request_type", pa.string(), "multiple_choice, loglikelihood, loglikelihood_rolling "
               "or generate_until"),
        field("choice", pa.int32(), "index of the scored choice, from 0; 0 if there is none"),
        field("unconditional", pa.bool_(), "the choice without its prompt (mutual information)"),
        field("repeat", pa.int32(), "which of several generations for one item, from 0"),
        field("is_gold", pa.bool_(), "whether the choice is a right one; null if unknown", True),
        field("gold", pa.string(), "JSON list of right answers; null if is_gold marks them", True),
        field("context", pa.string(), "the prompt"),
        field("continuation", pa.string(), "the scored text after it, including its delimiter"),
        field("reference", pa.string(), "the choice or text itself, without the delimiter"),
        field("characters", pa.int32(), "length of `reference` in Unicode code points"),
        field("bytes", pa.int32(), "length of `reference` in UTF-8 bytes"),
        field("words", pa.int32(), "pieces of `reference` between runs of white space"),
        field("options", pa.string(), "JSON object: settings of generation, version of an imported "
              "task"),
        field("unit_sha256", pa.string(), "hash of the unit's requests: document_sha256 of "
               "eval_units"),
        field("source", pa.string(), "program that made the requests, e.g. lm_eval 0.4.13"),
    ]
)  # fmt: skip
"""One row per request of a benchmark, the same for all models: one per choice, repeat or text."""

EVAL_ANSWERS = pa.schema(
    [
        field("doc_id", pa.int32(), "unit of the request in eval_items"),
        field("segment", pa.int32(), "request within the unit"),
        field("filter", pa.string(), "filter of the task that extracted the answer, or none"),
        field("answer", pa.string(), "the generated text after the filter", True),
        field("loglikelihood", pa.float64(), "of the continuation, in nats, imported", True),
        field("is_greedy", pa.bool_(), "whether each token is the top-1 token, imported", True),
        field("fingerprint", pa.string(), "of the unit in eval_units; unit_sha256 of eval_items "
               "if imported"),
        field("backend", pa.string(), "program that ran the model"),
    ]
)  # fmt: skip
"""Answers of a model that token rows don't contain: generations, and imported numbers."""

EVAL_SCORES = pa.schema(
    [
        field("item", pa.int32(), "document of the task; null for the whole task", True),
        field("filter", pa.string(), "filter of the task that extracted the answers"),
        field("metric", pa.string(), "as the task names it"),
        field("value", pa.float64(), "of an item: the value to average; null with a reason", True),
        field("weight", pa.float64(), "weight of the item in the mean", True),
        field("aggregate", pa.string(), "of an item: mean, or exp for the exponential of the "
               "mean", True),
        field("items", pa.int32(), "of the whole task: number of items", True),
        field("better", pa.string(), "higher or lower, as the task declares", True),
        field("reason", pa.string(), "why there is no value", True),
        field("requests_sha256", pa.string(), "hash of the units' unit_sha256 in eval_items, in "
               "their order, with commas between"),
        field("backend", pa.string(), "program that ran the model"),
    ]
)  # fmt: skip
"""Metrics of a task as its own functions count them (`process_results` and aggregation)."""

EVAL_GROUPS = pa.schema(
    [
        field("group_name", pa.string(), "group as lm-evaluation-harness names it"),
        field("member", pa.string(), "condition of a task in the group, at any depth"),
        field("metric", pa.string(), "metric that the group averages"),
        field("filter", pa.string(), "filter; null for every filter", True),
        field("weight_by_size", pa.bool_(), "whether items have equal weights, or tasks"),
    ]
)
"""Members of groups of benchmarks: one row per metric and task in a group."""

BENCHMARK_SCORES = pa.schema(
    [
        field("model_id", pa.string(), "the run that was scored, as one folder name"),
        field("full_id", pa.string(), "the run in the table"),
        field("family", pa.string(), "runs of one family are not independent"),
        field("size", pa.string(), "size in the table", True),
        field("architecture", pa.string(), "architecture in the table", True),
        field("recipe", pa.string(), "training data; runs of one recipe differ in size", True),
        field("parameters", pa.int64(), "number of parameters", True),
        field("step", pa.int64(), "training step of the checkpoint", True),
        field("tokens", pa.float64(), "tokens the checkpoint was trained on", True),
        field("benchmark", pa.string(), "task, or text of a validation loss"),
        field("metric", pa.string(), "scoring method, e.g. accuracy or bpb"),
        field("direction", pa.string(), "which scores are better: higher or lower"),
        field(
            "score",
            pa.float64(),
            "the score of the checkpoint; null later than the problem's "
            "predict, if it has a target",
            True,
        ),
        field("stderr", pa.float64(), "sampling standard error of the score", True),
    ]
)

BENCHMARK_TABLES = pa.schema(
    [
        field("path", pa.string(), "the file the scores were read from"),
        field("sha256", pa.string(), "sha256 of that file"),
        field("source", pa.string(), "where the scores were published", True),
        field("licence", pa.string(), "licence as stated by the problem file"),
        field("early_until_tokens", pa.float64(), "end of the early window", True),
        field("early_until_share", pa.float64(), "the same, as a share of a run's training", True),
        field("early_every_steps", pa.int64(), "only steps that this divides are early", True),
        field("early_checkpoints", pa.int32(), "number of early checkpoints, evenly spaced", True),
        field(
            "predict_from", pa.string(), "JSON list: shares of training (numbers), sizes or metrics"
        ),
        field("target_metric", pa.string(), "scoring method of the final score", True),
        field("target_size", pa.string(), "size whose scores other sizes predict", True),
        field("notes", pa.string(), "what was assumed about the table, a line each", True),
    ]
)
"""One row per problem of kind `table`: where its scores come from, and what is early in it."""

MODEL_SCORES = pa.schema(
    [
        field("model_id", pa.string(), "the model that was scored, as one folder name"),
        field("full_id", pa.string(), "the model, as the table names it"),
        field("family", pa.string(), "models of one family are not independent"),
        field("parameters", pa.int64(), "number of parameters", True),
        field("benchmark", pa.string(), "task, or corpus"),
        field("metric", pa.string(), "how it was read, e.g. accuracy or bits_per_byte"),
        field("document", pa.string(), "the document of a score per document", True),
        field("each_document", pa.bool_(), "whether each document is a metric of its own, too"),
        field("direction", pa.string(), "which scores are better: higher or lower"),
        field("score", pa.float64(), "the score"),
    ]
)
"""Scores that may predict a target, one per model, benchmark, metric and document."""

TABLES = {
    "benchmark_scores": Table(BENCHMARK_SCORES, ("problem",), "scores.parquet"),
    "benchmark_tables": Table(BENCHMARK_TABLES, ("problem",), "table.parquet"),
    "model_scores": Table(MODEL_SCORES, ("problem",), "scores.parquet"),
    "eval_items": Table(EVAL_ITEMS, ("problem", "condition"), "items.parquet"),
    "eval_tokens": Table(TOKENS, PARTITION_KEYS, "tokens.parquet", "eval_units"),
    "eval_answers": Table(EVAL_ANSWERS, PARTITION_KEYS, "answers.parquet"),
    "eval_scores": Table(EVAL_SCORES, PARTITION_KEYS, "scores.parquet"),
    "eval_groups": Table(EVAL_GROUPS, ("problem", "condition"), "group.parquet"),
}
