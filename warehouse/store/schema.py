"""The tables of the warehouse, defined once; everything else derives from here.

Files are written in these schemas, and the public views of `tokenmart sql` and of dbt
(`warehouse.sql.views`) take their columns, types and order from them.

One row of `TOKENS` is one scored token in one context condition. `problem`, `model_id` and
`condition` are partition keys: they are in the path (`problem=…/model_id=…/condition=…`), not in
the file.
"""

from __future__ import annotations

import pyarrow as pa

SCHEMA_VERSION = 3
"""Rises whenever a stored table changes; files of another version are refused. A nullable column
may be added without: files that lack it are read with nulls."""

SCHEMA_KEY = b"tokenmart.schema"
"""Parquet footer key of the token files: the version they were written with."""

UNITS_KEY = b"tokenmart.units"
"""Parquet footer key of the token files: the ledger, as JSON."""

PARTITION_KEYS = ("problem", "model_id", "condition")


def _field(name: str, type_: pa.DataType, meaning: str, nullable: bool = False) -> pa.Field:
    return pa.field(name, type_, nullable=nullable, metadata={"description": meaning})


TOKENS = pa.schema(
    [
        _field("doc_id", pa.int32(), "document in the problem's corpus"),
        _field("segment", pa.int32(), "request within the document: window or excerpt"),
        _field("position", pa.int32(), "0-based index of the token in this model's tokenisation"),
        _field("context_tokens", pa.int32(), "document tokens visible to the left when scored"),
        _field("token_id", pa.int32(), "vocabulary id"),
        _field("char_start", pa.int32(), "first character of the token in the document's text"),
        _field("char_end", pa.int32(), "one past the last character of the token"),
        _field("logprob", pa.float32(), "natural log-probability of the token, in nats"),
        _field("entropy", pa.float32(), "entropy of the predictive distribution, in nats"),
        _field("rank", pa.int32(), "1 = the model's most likely token (top-1)"),
        _field("top_logprob", pa.float32(), "log-probability of the top-1 token, in nats"),
    ]
)

TOP_TOKENS = pa.schema(
    [
        _field("doc_id", pa.int32(), "document in the problem's corpus"),
        _field("segment", pa.int32(), "request within the document: window or excerpt"),
        _field("position", pa.int32(), "0-based index of the scored token"),
        _field("choice", pa.int32(), "1 = the model's most likely token (top-1)"),
        _field("choice_id", pa.int32(), "vocabulary id of the choice"),
        _field("logprob", pa.float32(), "natural log-probability of the choice, in nats"),
    ]
)
"""Opt-in: the k most likely tokens at each scored position, keyed like `tokens`."""

CONDITION_PAIRS = pa.schema(
    [
        _field("condition", pa.string(), "the condition with more context"),
        _field("short_condition", pa.string(), "the condition with less"),
    ]
)
"""Pairs of conditions that a problem file asks to compare token by token."""

LINEUP = pa.schema(
    [
        _field("model_id", pa.string(), "the model's full id as one folder name"),
        _field("parameters", pa.int64(), "number of parameters in the problem file", True),
    ]
)
"""The models that a problem ranks, extracted or not."""

DOCUMENTS = pa.schema(
    [
        _field("doc_id", pa.int32(), "0-based index in the problem's corpus"),
        _field("name", pa.string(), "name or id of the document in its source"),
        _field("sha256", pa.string(), "sha256 of the UTF-8 text"),
        _field("characters", pa.int64(), "length in Unicode code points"),
        _field("bytes", pa.int64(), "length in UTF-8 bytes"),
        _field("text", pa.string(), "the text itself"),
        _field("document_group", pa.string(), "source or domain that the problem file gives", True),
    ]
)

KEY_INTERVALS = pa.schema(
    [
        _field("doc_id", pa.int32(), "document in the problem's corpus"),
        _field("char_start", pa.int32(), "first character of key text"),
        _field("char_end", pa.int32(), "behind its last character"),
    ]
)
"""Characters that another model found to depend on long context: LongPPL's key text."""

MODELS = pa.schema(
    [
        _field("full_id", pa.string(), "id as published, e.g. Qwen/Qwen2-7B-Instruct"),
        _field("family", pa.string(), "models of one family are not independent"),
        _field("base_id", pa.string(), "model_id of the checkpoint an intervention acts on", True),
        _field("revision", pa.string(), "commit or sha256 of the weights"),
        _field("parameters", pa.int64(), "number of parameters"),
        _field("trained_context", pa.int32(), "context length of the configuration, in tokens"),
        _field("licence", pa.string(), "licence as stated by the problem file"),
        _field("tokenizer_sha256", pa.string(), "fingerprint of the tokenizer"),
        _field("prepends_bos", pa.bool_(), "whether the tokenizer adds BOS before the text"),
        _field("interventions", pa.string(), "JSON list of interventions, [] for none"),
        _field("rope", pa.string(), "JSON: position encoding as trained, if not configured", True),
    ]
)

DOWNSTREAM = pa.schema(
    [
        _field("task", pa.string(), "task name, e.g. recall_4096; the overall score is their mean"),
        _field("item", pa.int32(), "item within the task"),
        _field("cluster", pa.int32(), "items of one cluster share a context (for standard errors)"),
        _field("context_tokens", pa.int32(), "tokens of context before the answer", True),
        _field("score", pa.float64(), "the item's score, in the unit of the target"),
        _field("exact_match", pa.float64(), "1 if every answer token is the top-1 token", True),
        _field(
            "token_accuracy", pa.float64(), "share of answer tokens that are the top-1 token", True
        ),
        _field("answer_nll", pa.float64(), "mean NLL of the answer tokens, in nats", True),
        _field(
            "first_token", pa.float64(), "1 if the answer's first token is the top-1 token", True
        ),
    ]
)

RECALL_ITEMS = pa.schema(
    [
        _field("task", pa.string(), "task of the item in `downstream`"),
        _field("item", pa.int32(), "the item of `downstream`"),
        _field("kind", pa.string(), "task without its length, e.g. multi_key; no_key: value of a "
               "planted key after a name that was never planted"),
        _field("length", pa.int32(), "tokens of context before the question"),
        _field("depth", pa.float64(), "place of the answer, 0 start to 1 end; null for "
               "everywhere", True),
        _field("counts", pa.bool_(), "whether the overall score averages the item's task"),
    ]
)  # fmt: skip
"""Items of a measured target: places and settings, no answer of a model."""

EVAL_ITEMS = pa.schema(
    [
        _field("doc_id", pa.int32(), "unit: a batch of documents of the task"),
        _field("segment", pa.int32(), "request within the unit; joins eval_tokens, eval_answers"),
        _field("task", pa.string(), "task as lm-evaluation-harness names it"),
        _field("shots", pa.int32(), "worked examples in the prompt"),
        _field("item", pa.int32(), "document of the task, counted from 0"),
        _field("cluster", pa.string(), "items of one cluster share a text (for standard errors)"),
        _field("subject", pa.string(), "subject of the item, where its document names one", True),
        _field("request_type", pa.string(), "multiple_choice, loglikelihood, loglikelihood_rolling "
               "or generate_until"),
        _field("choice", pa.int32(), "index of the scored choice, from 0; 0 if there is none"),
        _field("unconditional", pa.bool_(), "the choice without its prompt (mutual information)"),
        _field("repeat", pa.int32(), "which of several generations for one item, from 0"),
        _field("is_gold", pa.bool_(), "whether the choice is a right one; null if unknown", True),
        _field("gold", pa.string(), "JSON list of right answers; null if is_gold marks them", True),
        _field("context", pa.string(), "the prompt"),
        _field("continuation", pa.string(), "the scored text after it, including its delimiter"),
        _field("reference", pa.string(), "the choice or text itself, without the delimiter"),
        _field("characters", pa.int32(), "length of `reference` in Unicode code points"),
        _field("bytes", pa.int32(), "length of `reference` in UTF-8 bytes"),
        _field("words", pa.int32(), "pieces of `reference` between runs of white space"),
        _field("options", pa.string(), "JSON object: generation and exact_match settings"),
        _field("unit_sha256", pa.string(), "hash of the unit's requests: document_sha256 of "
               "eval_units"),
        _field("source", pa.string(), "program that made the requests, e.g. lm_eval 0.4.13"),
    ]
)  # fmt: skip
"""One row per request of a benchmark, the same for all models: one per choice, repeat or text."""

EVAL_ANSWERS = pa.schema(
    [
        _field("doc_id", pa.int32(), "unit of the request in eval_items"),
        _field("segment", pa.int32(), "request within the unit"),
        _field("filter", pa.string(), "filter of the task that extracted the answer, or none"),
        _field("answer", pa.string(), "the generated text after the filter", True),
        _field("loglikelihood", pa.float64(), "of the continuation, in nats, imported", True),
        _field("is_greedy", pa.bool_(), "whether each token is the top-1 token, imported", True),
        _field("fingerprint", pa.string(), "of the unit in eval_units; unit_sha256 of eval_items "
               "if imported"),
        _field("backend", pa.string(), "program that ran the model"),
    ]
)  # fmt: skip
"""Answers of a model that token rows don't contain: generations, and imported numbers."""

EVAL_SCORES = pa.schema(
    [
        _field("item", pa.int32(), "document of the task; null for the whole task", True),
        _field("filter", pa.string(), "filter of the task that extracted the answers"),
        _field("metric", pa.string(), "as the task names it"),
        _field("value", pa.float64(), "of an item: the value to average; null with a reason", True),
        _field("weight", pa.float64(), "weight of the item in the mean", True),
        _field("aggregate", pa.string(), "of an item: mean, or exp for the exponential of the "
               "mean", True),
        _field("items", pa.int32(), "of the whole task: number of items", True),
        _field("better", pa.string(), "higher or lower, as the task declares", True),
        _field("reason", pa.string(), "why there is no value", True),
        _field("requests_sha256", pa.string(), "hash of the units' unit_sha256 in eval_items, in "
               "their order, with commas between"),
        _field("backend", pa.string(), "program that ran the model"),
    ]
)  # fmt: skip
"""Metrics of a task as its own functions count them (`process_results` and aggregation)."""

EVAL_GROUPS = pa.schema(
    [
        _field("group_name", pa.string(), "group as lm-evaluation-harness names it"),
        _field("member", pa.string(), "condition of a task in the group, at any depth"),
        _field("metric", pa.string(), "metric that the group averages"),
        _field("filter", pa.string(), "filter; null for every filter", True),
        _field("weight_by_size", pa.bool_(), "whether items have equal weights, or tasks"),
    ]
)
"""Members of groups of benchmarks: one row per metric and task in a group."""

BENCHMARK_SCORES = pa.schema(
    [
        _field("model_id", pa.string(), "the run that was scored, as one folder name"),
        _field("full_id", pa.string(), "the run in the table"),
        _field("family", pa.string(), "runs of one family are not independent"),
        _field("size", pa.string(), "size in the table", True),
        _field("architecture", pa.string(), "architecture in the table", True),
        _field("recipe", pa.string(), "training data; runs of one recipe differ in size", True),
        _field("parameters", pa.int64(), "number of parameters", True),
        _field("step", pa.int64(), "training step of the checkpoint", True),
        _field("tokens", pa.float64(), "tokens the checkpoint was trained on", True),
        _field("benchmark", pa.string(), "task, or text of a validation loss"),
        _field("metric", pa.string(), "scoring method, e.g. accuracy or bpb"),
        _field("direction", pa.string(), "which scores are better: higher or lower"),
        _field("score", pa.float64(), "the score of the checkpoint"),
        _field("stderr", pa.float64(), "sampling standard error of the score", True),
    ]
)

BENCHMARK_TABLES = pa.schema(
    [
        _field("path", pa.string(), "the file the scores were read from"),
        _field("sha256", pa.string(), "sha256 of that file"),
        _field("source", pa.string(), "where the scores were published", True),
        _field("licence", pa.string(), "licence as stated by the problem file"),
        _field("early_until_tokens", pa.float64(), "end of the early window", True),
        _field("early_until_share", pa.float64(), "the same, as a share of a run's training", True),
        _field("early_every_steps", pa.int64(), "only steps that this divides are early", True),
        _field("early_checkpoints", pa.int32(), "number of early checkpoints, evenly spaced", True),
        _field(
            "predict_from", pa.string(), "shares of training, sizes or metrics, separated by commas"
        ),
        _field("target_metric", pa.string(), "scoring method of the final score", True),
        _field("target_size", pa.string(), "size whose scores other sizes predict", True),
    ]
)
"""One row per problem of kind `table`: where its scores come from, and what is early in it."""

MODEL_SCORES = pa.schema(
    [
        _field("model_id", pa.string(), "the model that was scored, as one folder name"),
        _field("full_id", pa.string(), "the model, as the table names it"),
        _field("family", pa.string(), "models of one family are not independent"),
        _field("parameters", pa.int64(), "number of parameters", True),
        _field("benchmark", pa.string(), "task, or corpus"),
        _field("metric", pa.string(), "how it was read, e.g. accuracy or bits_per_byte"),
        _field("document", pa.string(), "the document of a score per document", True),
        _field("each_document", pa.bool_(), "whether each document is a metric of its own, too"),
        _field("direction", pa.string(), "which scores are better: higher or lower"),
        _field("score", pa.float64(), "the score"),
    ]
)
"""Scores that may predict a target, one per model, benchmark, metric and document."""

RANKING_COLUMNS = pa.schema(
    [
        _field("round", pa.string(), "round of the competition, e.g. open or hidden"),
        _field("round_weight", pa.float64(), "weight in the overall score; 0 to leave it out"),
        _field("task_group", pa.string(), "columns of one group share a mean win rate"),
        _field("task", pa.string(), "task or scenario"),
        _field("metric", pa.string(), "scoring method"),
        _field("direction", pa.string(), "which values win: higher or lower", True),
        _field("given", pa.string(), "score, or mean_win_rate if imported as such"),
        _field("eval_problem", pa.string(), "problem of the benchmark, if another", True),
        _field(
            "condition", pa.string(), "benchmark that was run here; null: imported results", True
        ),
        _field("filter", pa.string(), "filter of its answers, none for none", True),
    ]
)
"""Columns of a ranking, one row per metric of a task in a round."""

RANKING_RESULTS = pa.schema(
    [
        _field("round", pa.string(), "round of the competition"),
        _field("entry", pa.string(), "ranked entry"),
        _field("task", pa.string(), "task or scenario"),
        _field("metric", pa.string(), "scoring method"),
        _field("item", pa.int64(), "item of the task; null for a value of the whole task", True),
        _field("cluster", pa.string(), "items of one cluster share a text", True),
        _field("value", pa.float64(), "the result; null if the run failed", True),
    ]
)
"""Results of entries that were made elsewhere, one row per column or per item of it."""

MERGE_RUNS = pa.schema(
    [
        _field("stage", pa.string(), "merge, or evaluation in a round"),
        _field("round", pa.string(), "round of the evaluation; empty for a merge"),
        _field("fingerprint", pa.string(), "hash of everything that the merged weights depend on"),
        _field("method", pa.string(), "mergekit's name of the method"),
        _field("parameters", pa.int64(), "of the merged checkpoint, counted"),
        _field("checkpoint_bytes", pa.int64(), "size of the merged checkpoint's files"),
        _field("seconds", pa.float64(), "wall-clock seconds"),
        _field("peak_bytes", pa.int64(), "peak resident memory of the processes, in bytes"),
        _field("gpu_bytes", pa.int64(), "peak memory of GPUs, in bytes; null without one", True),
        _field("disk_bytes", pa.int64(), "peak of files written meanwhile, in bytes"),
        _field("limit_seconds", pa.float64(), "limit of the wall-clock seconds", True),
        _field("limit_peak_bytes", pa.float64(), "limit of the memory, in bytes", True),
        _field("limit_gpu_bytes", pa.float64(), "limit of the memory of GPUs, in bytes", True),
        _field("limit_disk_bytes", pa.float64(), "limit of written files, in bytes", True),
        _field("ended", pa.string(), "reason why it was ended or failed, else empty"),
    ]
)
"""Costs of merges and their evaluations, one row each."""

UNITS = pa.schema(
    [
        _field("problem", pa.string(), "name of the problem file"),
        _field("model_id", pa.string(), "the model's full id as one folder name"),
        _field("condition", pa.string(), "context state the rows were scored in"),
        _field("condition_kind", pa.string(), "e.g. full, window, retrieval_with_document"),
        _field("probe", pa.string(), "the probe of the problem file that made the condition"),
        _field("probe_params", pa.string(), "JSON object: the probe's parameters"),
        _field("doc_id", pa.int32(), "document in the problem's corpus"),
        _field("fingerprint", pa.string(), "hash of everything the rows depend on"),
        _field("status", pa.string(), "done or failed"),
        _field("reason", pa.string(), "why it failed, else empty"),
        _field("rows", pa.int64(), "rows stored for this unit"),
        _field("tokens_processed", pa.int64(), "tokens that went through the model's layers"),
        _field("tokens_scored", pa.int64(), "tokens that got a log-probability"),
        _field("seconds", pa.float64(), "wall-clock seconds"),
        _field("peak_bytes", pa.int64(), "peak memory of the GPU or the process, in bytes"),
        _field("device", pa.string(), "cpu or the GPU"),
        _field("dtype", pa.string(), "number format of the weights"),
        _field("backend", pa.string(), "program that ran the model, e.g. transformers"),
        _field("attention", pa.string(), "attention implementation and kernel, e.g. sdpa/flash"),
        _field("prefixes", pa.string(), "shared, or separate with the reason"),
        _field("engine", pa.string(), "version of the scoring engine"),
        _field("document_sha256", pa.string(), "sha256 of the document's UTF-8 text"),
        _field("document_tokens", pa.int32(), "tokens of the document that were used"),
        _field("document_tokens_total", pa.int32(), "tokens of the whole document"),
        _field("torch_version", pa.string(), "version of torch"),
        _field("transformers_version", pa.string(), "version of transformers"),
        _field("tokenmart_version", pa.string(), "version of Tokenmart"),
        _field("code_revision", pa.string(), "commit of the code"),
        _field("code_dirty", pa.bool_(), "whether the code differed from its commit"),
        _field("seed", pa.int64(), "seed of the probe's random choices"),
        _field("finished_at", pa.timestamp("us", "UTC"), "when the unit was finished"),
        _field("content_sha256", pa.string(), "hash of the stored rows"),
        _field("over_limit_tokens", pa.int32(), "tokens beyond the model's context that were used"),
        _field("reserved_bytes", pa.int64(), "peak memory that the GPU's allocator held, in bytes"),
        _field("weights", pa.string(), "complete, and what was renamed; empty: not checked"),
    ]
)
"""The ledger, one row per unit; `UnitRecord` is its record, a token file's footer its place."""

TABLES: dict[str, tuple[pa.Schema, tuple[str, ...]]] = {
    "tokens": (TOKENS, PARTITION_KEYS),
    "top_tokens": (TOP_TOKENS, PARTITION_KEYS),
    "documents": (DOCUMENTS, ("problem",)),
    "key_intervals": (KEY_INTERVALS, ("problem", "evaluator")),
    "condition_pairs": (CONDITION_PAIRS, ("problem",)),
    "lineup": (LINEUP, ("problem",)),
    "models": (MODELS, ("problem", "model_id")),
    "downstream": (DOWNSTREAM, ("problem", "model_id")),
    "recall_items": (RECALL_ITEMS, ("problem", "model_id")),
    "benchmark_scores": (BENCHMARK_SCORES, ("problem",)),
    "benchmark_tables": (BENCHMARK_TABLES, ("problem",)),
    "model_scores": (MODEL_SCORES, ("problem",)),
    "ranking_columns": (RANKING_COLUMNS, ("problem",)),
    "ranking_results": (RANKING_RESULTS, ("problem",)),
    "merge_runs": (MERGE_RUNS, ("problem", "model_id")),
    "eval_items": (EVAL_ITEMS, ("problem", "condition")),
    "eval_tokens": (TOKENS, PARTITION_KEYS),
    "eval_answers": (EVAL_ANSWERS, PARTITION_KEYS),
    "eval_scores": (EVAL_SCORES, PARTITION_KEYS),
    "eval_groups": (EVAL_GROUPS, ("problem", "condition")),
}
"""Table name → (schema of the files, hive partition keys in the path)."""
