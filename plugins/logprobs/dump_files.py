"""Files of prompt log-probs as one table of scored steps, read by DuckDB.

Forms, recognised by their columns:

- `vllm`: `prompt_logprobs` of vLLM's RequestOutput or of its server (there also inside `choices`):
  a list with an entry per token of the prompt, null for the first, else an object from token id to
  `{logprob, rank, decoded_token}` or to a log-prob. It has the prompt's token, first, and the top-k
  tokens. `prompt_token_ids`, where given, tells which of them the prompt's is.
- `sglang`: `meta_info.input_token_logprobs`, `[log-prob or null, token id, text]` per token, and
  `input_top_logprobs`, a list of such entries per token.
- `table`: a row per token with `doc_id`, `position`, `token_id`, `logprob`, and optionally `rank`,
  `top_logprob` and `entropy`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb

from warehouse.errors import TokenmartError
from warehouse.table_file import load_rows

_COLUMNS = {
    "vllm": ("doc_id", "prompt_logprobs", "prompt_token_ids", "choices"),
    "sglang": ("doc_id", "meta_info"),
    "table": ("doc_id", "position", "token_id", "logprob", "rank", "top_logprob", "entropy"),
}
_MARKS = {"prompt_logprobs": "vllm", "choices": "vllm", "meta_info": "sglang", "logprob": "table"}
"""Column → the form that has it."""

_VLLM = """
    with lines as (
        select * from given where prompt_logprobs is not null
        union all by name
        select
            row_number,
            doc_id,
            choice ->> '$.prompt_logprobs' as prompt_logprobs,
            choice ->> '$.prompt_token_ids' as prompt_token_ids
        from (
            select *, unnest(from_json(choices, '["JSON"]')) as choice
            from given
            where prompt_logprobs is null
        )
    ),
    lists as (
        select
            row_number() over () as record,
            row_number,
            try_cast(doc_id as integer) as doc_id,
            from_json(prompt_token_ids, '["INTEGER"]') as ids,
            from_json(prompt_logprobs, '["MAP(VARCHAR, JSON)"]') as entries
        from lines
    ),
    items as (
        select * exclude (ids, entries),
            generate_subscripts(entries, 1) - 1 as step,
            unnest(entries) as entry,
            coalesce(ids[step + 1], try_cast(map_keys(entry)[1] as integer)) as token_id,
            entry[token_id::varchar] as own,
            list_transform(map_entries(entry), lambda each: {
                'id': try_cast(each.key as integer),
                'rank': try_cast(each.value ->> '$.rank' as integer),
                'logprob': try_cast(
                    coalesce(each.value ->> '$.logprob', each.value ->> '$') as double
                )
            }) as known
        from lists
    )
    select * exclude (entry, own, known),
        try_cast(coalesce(own ->> '$.logprob', own ->> '$') as double) as logprob,
        try_cast(own ->> '$.rank' as integer) as rank,
        list_sort(list_transform(
            list_filter(known, lambda each: each.rank is not null),
            lambda each: {'rank': each.rank, 'id': each.id, 'logprob': each.logprob}
        )) as choices
    from items
"""
_SGLANG = """
    with lists as (
        select
            row_number() over () as record,
            row_number,
            try_cast(doc_id as integer) as doc_id,
            from_json(meta_info::json -> '$.input_token_logprobs', '["JSON"]') as entries,
            from_json(meta_info::json -> '$.input_top_logprobs', '[["JSON"]]') as tops
        from given
    ),
    items as (
        select * exclude (entries, tops),
            generate_subscripts(entries, 1) - 1 as step,
            unnest(entries) as entry,
            tops[step + 1] as top
        from lists
    )
    select * exclude (entry, top),
        try_cast(entry ->> '$[1]' as integer) as token_id,
        try_cast(entry ->> '$[0]' as double) as logprob,
        null::integer as rank,
        list_transform(top, lambda each, place: {
            'rank': place::integer,
            'id': try_cast(each ->> '$[1]' as integer),
            'logprob': try_cast(each ->> '$[0]' as double)
        }) as choices
    from items
"""
_TABLE = """
    select
        row_number as record,
        row_number,
        try_cast(doc_id as integer) as doc_id,
        try_cast(position as integer) as step,
        try_cast(token_id as integer) as token_id,
        try_cast(logprob as double) as logprob,
        try_cast(rank as integer) as rank,
        try_cast(top_logprob as double) as top_logprob,
        try_cast(entropy as double) as entropy
    from given
"""
_QUERIES = {"vllm": _VLLM, "sglang": _SGLANG, "table": _TABLE}


def load_steps(connection: duckdb.DuckDBPyConnection, files: Sequence[Path]) -> str:
    """Make the table `steps`, a row per token of each prompt, and return the form of the files.

    Columns: file and row_number (in it), record (of the prompt; of a `table`, the row), doc_id
    (null where it isn't given), step (index in the prompt; of a `table`, the document's position),
    token_id (null where it isn't given), logprob, rank, top_logprob, entropy, and choices, a list
    of (rank, id, logprob) from the top-1 token on.

    Raises:
        TokenmartError: a file can't be read (codes of `load_rows`), is in none of the forms
            (`unknown-form`), or two are in different ones (`several-forms`).
    """
    connection.execute(
        "create table steps (file varchar, record bigint, row_number bigint, doc_id integer,"
        " step integer, token_id integer, logprob double, rank integer, top_logprob double,"
        " entropy double, choices struct(rank integer, id integer, logprob double)[])"
    )
    forms: list[str] = []
    for file in files:
        columns = load_rows(connection, file, "given")
        form = next((_MARKS[name] for name in columns if name in _MARKS), None)
        if form is None:
            raise TokenmartError(
                f"{file}: no prompt log-probs: none of the columns {', '.join(_MARKS)}",
                code="unknown-form",
                where=file,
            )
        forms.append(form)
        if form != forms[0]:
            raise TokenmartError(
                f"{file}: is in the form {form}, {files[0]} in {forms[0]}; import them alike",
                code="several-forms",
                where=file,
            )
        for name in _COLUMNS[form]:
            connection.execute(f'alter table given add column if not exists "{name}" varchar')
        try:
            connection.execute(
                "insert into steps by name select $file as file, found.* replace"
                " (record + (select coalesce(max(record), 0) from steps) as record)"
                f" from ({_QUERIES[form]}) as found",
                {"file": str(file)},
            )
        except duckdb.Error as error:
            reason = str(error).splitlines()[0][:200]
            what = f"{file}: its log-probs can't be read ({reason})"
            raise TokenmartError(what, code="unreadable-table", where=file) from error
    if forms[0] != "table":
        connection.execute(
            "update steps set choices = list_filter(choices, lambda each, place:"
            " each.rank = place and each.logprob is not null)"
        )
        connection.execute("update steps set top_logprob = choices[1].logprob")
    return forms[0]
