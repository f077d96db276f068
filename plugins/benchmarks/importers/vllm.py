"""Import vLLM's `prompt_logprobs`, one request per line.

In addition to `task`, `item`, `choice`, `context`, `continuation` and `is_gold`, a line has vLLM's
response for context + continuation: `prompt_token_ids` and `prompt_logprobs`, a list with one
object per token (null for the first), `{"<id>": {"logprob": …, "rank": …, "decoded_token": …}, …}`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plugins.benchmarks.harness.imports.imported_answers import EvalImporter
from plugins.benchmarks.importers.token_logprobs import check_token, json_lines
from warehouse.errors import TokenmartError
from warehouse.importers.importer import Row


class VllmPromptLogprobs(EvalImporter):
    """Scored prompts of vLLM; the optional key `first_token` is the index of the continuation."""

    kind = "vllm"

    def read(self, path: Path) -> Iterator[Row]:
        """Requests, counted from 1.

        Raises:
            TokenmartError: the file can't be read, or has other fields.
        """
        for place, content in json_lines(path):
            try:
                yield Row(place, _fields(place, content))
            except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
                raise _refused(
                    place,
                    f"not a prompt as vLLM scores it ({type(error).__name__}: {error}); write "
                    "prompt_token_ids and prompt_logprobs of one response, and logprob, rank and "
                    "decoded_token of each token",
                    "no-prompt",
                ) from error


def _refused(place: str, what: str, code: str) -> TokenmartError:
    return TokenmartError(f"{place}: {what}", code=code, where=place)


def _fields(place: str, content: dict[str, Any]) -> dict[str, Any]:
    ids, given = content["prompt_token_ids"], content["prompt_logprobs"]
    if len(ids) != len(given):
        raise ValueError(f"{len(ids)} ids, {len(given)} log-probabilities")
    if None in given[1:]:
        raise _refused(
            place,
            f"token {given.index(None, 1)} (from 0) has no log-probability: vLLM does not score "
            "what is in its prefix cache; score it again with enable_prefix_caching off",
            "gap",
        )
    first = content.get("first_token")
    if first is None:
        first = _first_token(place, ids, given, content["continuation"])
    if given[first] is None:
        raise ValueError("its first scored token has no log-probability")
    if first and content.get("tokens_cut") is None:
        _refuse_cut_prompt(place, content.get("context", ""), ids[1:first], given[1:first])
    tokens = []
    for at in range(first, len(ids)):
        own = given[at][str(ids[at])]
        top = max(choice["logprob"] for choice in given[at].values())
        # if only the token's own log-probability is stored, the top-1 log-probability is unknown
        known = own["rank"] == 1 or len(given[at]) > 1
        token = {
            "token_id": ids[at],
            "logprob": own["logprob"],
            "rank": own["rank"],
            "top_logprob": top if known else float("nan"),
        }
        check_token(f"{place}: token {at} (from 0)", token)
        tokens.append(token)
    left_out = ("prompt_token_ids", "prompt_logprobs", "first_token")
    rest = {name: value for name, value in content.items() if name not in left_out}
    return {"backend": "vllm", **rest, "tokens": tokens, "context_tokens": first}


def _first_token(place: str, ids: list[int], given: list[Any], continuation: str) -> int:
    """Index of the continuation's first token, found by matching token texts from the end."""
    text, first = "", len(ids)
    while len(text) < len(continuation) and first > 0 and given[first - 1] is not None:
        first -= 1
        text = str(given[first][str(ids[first])]["decoded_token"]) + text
    if not continuation or text.lstrip() != continuation.lstrip():
        raise _refused(
            place,
            f"its last tokens are {text[-40:]!r}, the continuation is {continuation[:40]!r}; add "
            "`first_token`, the index of its first token",
            "first-token",
        )
    return first


def _refuse_cut_prompt(place: str, context: str, ids: list[int], given: list[Any]) -> None:
    """Refuse a prompt whose beginning the server cut, as with `truncate_prompt_tokens`.

    Args:
        place: file and line, for the message.
        context: the prompt.
        ids: its tokens without the first one, whose text vLLM does not return.
        given: vLLM's entries for these tokens.
    """
    texts = [e[str(token)].get("decoded_token") for token, e in zip(ids, given, strict=True)]
    if any(not isinstance(text, str) or "\ufffd" in text for text in texts):
        return
    # spaces are removed, because some tokenizers omit them from a token's text
    whole, read = ("".join(text.split()) for text in (context, "".join(texts)))
    words = context.split()
    if words and whole.endswith(read) and len(whole) - len(read) > len(words[0]):
        raise _refused(
            place,
            f"the server read the last {len(read)} characters of the prompt only: send it without "
            "truncate_prompt_tokens, or write in tokens_cut how many of its tokens were not read",
            "cut-prompt",
        )
