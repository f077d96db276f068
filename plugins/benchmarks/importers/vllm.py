"""Import vLLM's `prompt_logprobs`, one request per line.

In addition to `task`, `item`, `choice`, `context`, `continuation` and `is_gold`, a line has vLLM's
response for context + continuation: `prompt_token_ids` and `prompt_logprobs`, a list with one
object per token (null for the first), `{"<id>": {"logprob": …, "rank": …, "decoded_token": …}, …}`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plugins.benchmarks.harness.eval_answer import ROUNDING
from plugins.benchmarks.harness.imports.imported_answers import EvalImporter
from plugins.benchmarks.importers.token_logprobs import json_lines
from warehouse.errors import TokenmartError
from warehouse.importers.importer import Row

_FIELDS = ("logprob", "rank", "decoded_token")
"""Fields of a token's entry."""


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
            except KeyError as error:
                raise TokenmartError(f"{place}: {_missing(str(error.args[0]))}") from error
            except (TypeError, ValueError, AttributeError, IndexError) as error:
                raise TokenmartError(
                    f"{place}: not a prompt as vLLM scores it ({type(error).__name__}: {error}); "
                    "write prompt_token_ids and prompt_logprobs as it gave them"
                ) from error


def _fields(place: str, content: dict[str, Any]) -> dict[str, Any]:
    for name in ("prompt_token_ids", "prompt_logprobs"):
        if not isinstance(content.get(name), list):
            raise TokenmartError(f"{place}: {_elsewhere(content, name)}")
    ids = content["prompt_token_ids"]
    given = content["prompt_logprobs"]
    if len(ids) != len(given):
        raise ValueError(f"{len(ids)} ids, {len(given)} log-probs")
    if "choices" in content and not content.get("continuation"):
        raise TokenmartError(
            f"{place}: it is an answer of vLLM's server: write on its line, too: task, item, "
            "choice, context, continuation and is_gold, and leave out what else the server gave"
        )
    _refuse_gaps(place, ids, given)
    first = content.get("first_token")
    if first is None:
        first = _first_token(place, ids, given, content.get("continuation", ""))
    if first and content.get("tokens_cut") is None:
        _refuse_cut_prompt(place, content.get("context", ""), ids[1:first], given[1:first])
    tokens = []
    for token_id, choices in zip(ids[first:], given[first:], strict=True):
        if choices is None:
            raise ValueError("a scored token without log-prob")
        own = choices[str(token_id)]
        if own["logprob"] == float("-inf"):
            raise TokenmartError(
                f"{place}: the log-probability of token {token_id} is -inf: the server left tokens "
                "out (by a logits processor, allowed tokens, top_k or top_p); score it again "
                "without, with logprobs_mode raw_logprobs"
            )
        top = max(choice["logprob"] for choice in choices.values())
        if top > ROUNDING:
            raise TokenmartError(
                f"{place}: a log-probability is {top:g}, above 0: no probability is above 1; "
                "score it again"
            )
        # if only the token's own log-probability is stored, the top-1 log-probability is unknown
        known = own["rank"] == 1 or len(choices) > 1
        tokens.append(
            {
                "token_id": token_id,
                "logprob": min(own["logprob"], 0.0),
                "rank": own["rank"],
                "top_logprob": min(top, 0.0) if known else float("nan"),
            }
        )
    left_out = ("prompt_token_ids", "prompt_logprobs", "first_token")
    rest = {name: value for name, value in content.items() if name not in left_out}
    return {"backend": "vllm", **rest, "tokens": tokens, "context_tokens": first}


def _missing(name: str) -> str:
    """Error message for an entry of `prompt_logprobs` without a field, or a token without one."""
    if name not in _FIELDS:
        return (
            f"no entry of prompt_logprobs is of token {name} of prompt_token_ids; write both as "
            "vLLM gave them in one response"
        )
    or_index = ", or add first_token, the index of the continuation's first token"
    return (
        f"an entry of prompt_logprobs has no {name}; write {', '.join(_FIELDS[:-1])} and "
        f"{_FIELDS[-1]} of each token, as vLLM gave them{or_index * (name == _FIELDS[-1])}"
    )


def _elsewhere(content: dict[str, Any], name: str) -> str:
    """Error message for a missing field; a server's response has the fields in its `choices`."""
    choices = content.get("choices")
    inner = choices[0] if isinstance(choices, list) and choices else None
    if isinstance(inner, dict) and isinstance(inner.get(name), list):
        return (
            "it is an answer of vLLM's server: prompt_token_ids and prompt_logprobs are in "
            "choices[0]; write them on the line itself, next to task, item, choice, context, "
            "continuation and is_gold"
        )
    if isinstance(inner, dict):
        return (
            f"it is an answer of a server without {name}; send the request with "
            "prompt_logprobs: 1 and return_token_ids: true, and write prompt_token_ids and "
            "prompt_logprobs on the line itself, next to task, item, context and continuation"
        )
    if name in content:
        return f"{name} is {str(content[name])[:40]!r}, expected a list with one value a token"
    return (
        f"field {name!r} is missing; write prompt_token_ids and prompt_logprobs as vLLM gave them, "
        "or use --format token-logprobs for what another program gave"
    )


def _refuse_gaps(place: str, ids: list[int], given: list[Any]) -> None:
    """Stop at a token after the first that has no log-probability, or one without a rank."""
    for number, (token_id, choices) in enumerate(zip(ids, given, strict=True)):
        own = choices.get(str(token_id)) if isinstance(choices, dict) else None
        if number and choices is None:
            raise TokenmartError(
                f"{place}: token {number} (from 0) has no log-probability, and only the first may "
                "have none: vLLM does not score what it has in its prefix cache; score it again "
                "with enable_prefix_caching off"
            )
        if isinstance(own, int | float):
            raise TokenmartError(
                f"{place}: token {number} (from 0) is given as {own}, expected an object with "
                "logprob, rank and decoded_token, as newer versions of vLLM give it; score it "
                "again with one"
            )


def _first_token(place: str, ids: list[int], given: list[Any], continuation: str) -> int:
    """Index of the continuation's first token, found by matching token texts from the end."""
    text, first = "", len(ids)
    while len(text) < len(continuation) and first > 0 and given[first - 1] is not None:
        first -= 1
        text = str(given[first][str(ids[first])]["decoded_token"]) + text
    if not continuation or text.lstrip() != continuation.lstrip():
        raise TokenmartError(
            f"{place}: its last tokens read {text[-40:]!r}, the continuation is "
            f"{continuation[:40]!r}; add `first_token`, the index of its first token"
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
    pairs = zip(ids, given, strict=True)
    texts = [choices[str(token)].get("decoded_token") for token, choices in pairs]
    if any(not isinstance(text, str) or "\ufffd" in text for text in texts):
        return
    # spaces are removed, because some tokenizers omit them from a token's text
    whole, read = ("".join(text.split()) for text in (context, "".join(texts)))
    words = context.split()
    if words and whole.endswith(read) and len(whole) - len(read) > len(words[0]):
        raise TokenmartError(
            f"{place}: the prompt begins with {context[:30]!r}, but the server read its end only "
            f"(the last {len(read)} characters, and a token before): send all of it, without "
            "truncate_prompt_tokens, or write in tokens_cut how many of its tokens were not read"
        )
