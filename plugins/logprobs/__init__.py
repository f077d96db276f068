"""Log-probabilities of whole documents that vLLM, SGLang or another program computed."""

from __future__ import annotations

from warehouse.plugins import hookimpl


@hookimpl
def tokenmart_classes(kind: str) -> list[type]:
    """The importer `prompt-logprobs`."""
    if kind == "importers":
        from plugins.logprobs.importer import PromptLogprobs

        return [PromptLogprobs]
    return []
