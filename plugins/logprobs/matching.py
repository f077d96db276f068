"""Prompts of a dump matched with the requests of a condition, token by token, and checked.

Everything is a table of one DuckDB connection: `requests` (request, doc_id, ids), `expected` (the
condition's rows without scores, with request and step in its prompt) and `steps` of `dump_files`
become `found`, the rows with their scores.
"""

from __future__ import annotations

import duckdb
import numpy as np

from warehouse.errors import TokenmartError
from warehouse.sql.views import TOKEN_RULES

LEAST_LOGPROB = -9999.0
"""What vLLM's server writes for a log-prob of minus infinity."""

LARGEST_LOGPROB = 2.0**-16
"""A sum in float32 may exceed 0 by less; it is stored as 0."""

_SCORES = "file, row_number, logprob, rank, top_logprob, entropy, choices"


def match_prompts(connection: duckdb.DuckDBPyConnection, bos: int | None) -> None:
    """Make `found` of prompts; the id of a prompt's first token may be unknown.

    Args:
        bos: the token before the model's texts, None for none.

    Raises:
        TokenmartError: a prompt is no request (`unknown-document`, `no-bos`, `unexpected-bos`,
            `other-tokens`), or there are more with the same tokens than requests (`given-twice`).
    """
    connection.execute(
        "create table prompts as select record, any_value(file) as file,"
        " any_value(row_number) as row_number, any_value(doc_id) as doc_id,"
        " list(token_id order by step) as ids from steps group by record;"
        "create table matched as select requests.request, prompts.record,"
        " dense_rank() over (partition by requests.ids order by requests.request) as nth,"
        " dense_rank() over (partition by requests.ids order by prompts.record) as nth_prompt"
        " from requests inner join prompts on requests.ids[2:] = prompts.ids[2:]"
        " and len(requests.ids) = len(prompts.ids)"
        " and coalesce(prompts.ids[1], requests.ids[1]) = requests.ids[1]"
        " and coalesce(prompts.doc_id, requests.doc_id) = requests.doc_id"
    )
    unmatched = connection.execute(
        "select file, row_number, ids, doc_id from prompts"
        " anti join matched using (record) order by record limit 1"
    ).fetchone()
    if unmatched:
        file, row, ids, doc_id = unmatched
        raise _no_request(connection, f"{file}: row {row}", ids, doc_id, bos)
    # of two documents with one text each may have its own prompt, or both the same
    twice = connection.execute(
        "select file, row_number from matched inner join prompts using (record)"
        " group by all having min(nth_prompt) > max(nth) order by all limit 1"
    ).fetchone()
    if twice:
        place = f"{twice[0]}: row {twice[1]}"
        what = f"{place}: an earlier row has the same tokens"
        raise TokenmartError(what, code="given-twice", where=place)
    connection.execute(
        f"create table found as select expected.*, {_SCORES} from expected inner join"
        " (select request, min(record) as record from matched group by request) using (request)"
        " inner join steps using (record, step)"
    )


def _no_request(
    connection: duckdb.DuckDBPyConnection,
    place: str,
    ids: list[int | None],
    doc_id: int | None,
    bos: int | None,
) -> TokenmartError:
    """The error for a prompt that is no request: how it differs from the most similar one."""
    rows = connection.execute(
        "select doc_id, ids from requests where doc_id = coalesce($doc_id, doc_id)",
        {"doc_id": doc_id},
    ).fetchall()
    if not rows:
        what = f"{place}: the problem has no document {doc_id} with tokens to score"
        return TokenmartError(what, code="unknown-document", where=place)
    mine = np.array([-1 if each is None else each for each in ids])
    closest: tuple[int, int] = -1, -1
    for number, theirs in ((number, np.array(theirs)) for number, theirs in rows):
        if bos is not None and np.array_equal(mine[1:], theirs[2:]):
            what = f"{place}: document {number} without the BOS that the model's texts begin with; "
            what += "give it to the program, or set `bos: never` for the model"
            return TokenmartError(what, code="no-bos", where=place)
        if bos is None and np.array_equal(mine[2:], theirs[1:]):
            what = f"{place}: document {number} after a token that the model's texts don't begin "
            what += "with; leave it out, or set `bos: always` for the model"
            return TokenmartError(what, code="unexpected-bos", where=place)
        least = min(len(mine), len(theirs))
        differing = np.flatnonzero(mine[1:least] != theirs[1:least])
        closest = max(closest, (int(differing[0]) + 1 if len(differing) else least, number))
    return TokenmartError(
        f"{place}: its tokens are not those of the problem's text: of document {closest[1]}, the "
        f"most similar, {closest[0]} are the same; use the same text and tokenizer",
        code="other-tokens",
        where=f"{place}: token {closest[0]}",
    )


def match_rows(connection: duckdb.DuckDBPyConnection) -> None:
    """Make `found` of a plain table, by document and position.

    Raises:
        TokenmartError: a row is of no document (`unknown-document`) or of no position that the
            condition scores (`unknown-position`; rows without a log-prob may be), repeats one
            (`given-twice`), or has another token (`other-tokens`).
    """
    connection.execute(
        "create table placed as select steps.*, expected.token_id as expected_id,"
        " steps.doc_id in (select doc_id from requests) as is_known,"
        " count(*) over (partition by steps.doc_id, steps.step) as times"
        " from steps left join expected"
        " on steps.doc_id = expected.doc_id and steps.step = expected.position"
        " where steps.logprob is not null or expected.position is not null"
    )
    wrong = connection.execute(
        "select file, row_number, doc_id, step, token_id, expected_id, case"
        " when not coalesce(is_known, false) then 'unknown-document'"
        " when expected_id is null then 'unknown-position'"
        " when times > 1 then 'given-twice'"
        " when token_id is distinct from expected_id then 'other-tokens' end as code"
        " from placed where code is not null order by record limit 1"
    ).fetchone()
    if wrong:
        file, row, doc_id, step, token_id, expected_id, code = wrong
        place = f"{file}: row {row}"
        what = f"{place}: document {doc_id}, position {step}, token {token_id}: {code}"
        what += f"; the condition scores token {expected_id} there"
        raise TokenmartError(what, code=code, where=place)
    connection.execute(
        f"create table found as select expected.*, {_SCORES} from expected inner join placed"
        " on expected.doc_id = placed.doc_id and expected.position = placed.step"
    )


def refuse_impossible(connection: duckdb.DuckDBPyConnection, vocabulary: int | None) -> None:
    """Stop at the first row of the condition that has no log-prob, or a number that can't be.

    Args:
        vocabulary: number of tokens of the model; None where it isn't known.

    Raises:
        TokenmartError: with the code of the rule that it breaks (`warehouse/sql/token_rules.sql`).
    """
    connection.execute(TOKEN_RULES)
    wrong = connection.execute(
        "select file, row_number, doc_id, position, logprob, rank, top_logprob, entropy, coalesce("
        f"main.broken_token_rule(if(logprob <= {LEAST_LOGPROB}, '-inf'::double, logprob), rank,"
        f" top_logprob, entropy, slack := {LARGEST_LOGPROB}), main.contradicting_token_rule("
        "logprob, rank, top_logprob, entropy, $vocabulary)) as broken"
        " from expected left join found using (doc_id, segment, position)"
        " where broken is not null order by doc_id, segment, position limit 1",
        {"vocabulary": vocabulary},
    ).fetchone()
    if wrong:
        file, row, doc_id, position, *numbers, broken = wrong
        code, _, rule = broken.partition(": ")
        where = f"document {doc_id}: position {position}"
        where = where if file is None else f"{file}: row {row}: {where}"
        names = ("logprob", "rank", "top_logprob", "entropy")
        given = [
            f"{name} {value}"
            for name, value in zip(names, numbers, strict=True)
            if value is not None
        ]
        raise TokenmartError(
            f"{where}: breaks the rule {rule} ({', '.join(given)})"
            if given
            else f"{where}: has no log-prob; the files must have every document whole",
            code=code,
            where=where,
        )
