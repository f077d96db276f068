"""The card of an export, in the format of a Hugging Face dataset's README."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import yaml

from plugins.exchange.bundle import SHARED, SharedProblem

_SIZES = ((3, "n<1K"), (4, "1K<n<10K"), (5, "10K<n<100K"), (6, "100K<n<1M"), (7, "1M<n<10M"),
          (8, "10M<n<100M"), (9, "100M<n<1B"), (10, "1B<n<10B"), (11, "10B<n<100B"))  # fmt: skip


def card(problems: Mapping[str, SharedProblem], values: Collection[str]) -> str:
    """Front matter and text; a dataset viewer shows each table as a configuration.

    Args:
        problems: contents of the export.
        values: tables that dbt built.
    """
    licences = sorted({each.licence for each in problems.values()})
    with_rows = any(each.texts for each in problems.values())
    tables = [t for t in SHARED if with_rows or t not in ("tokens", "top_tokens")]
    front = {
        "pretty_name": "Token statistics: " + ", ".join(sorted(problems)),
        "license": "other" if len(licences) != 1 else licences[0].lower(),
        "tags": ["tokenmart", "evaluation", "log-probabilities"],
        "size_categories": [_category(sum(each.rows for each in problems.values() if each.texts))],
        "configs": [
            *(
                {"config_name": name, "data_files": f"metrics/{name}.parquet"}
                for name in sorted(values)
            ),
            *({"config_name": name, "data_files": f"data/{name}/**/*.parquet"} for name in tables),
        ],
    }
    lines = [
        "---",
        yaml.safe_dump(front, sort_keys=False, allow_unicode=True).strip(),
        "---",
        "",
        f"# {front['pretty_name']}",
        "",
        "Exported with `tokenmart exchange export`. Attach it to your warehouse for SQL and "
        "rankings: `tokenmart exchange attach ADDRESS`.",
        "",
        "| problem | documents | licence of the texts | contents | models | conditions |",
        "|---|---:|---|---|---:|---|",
    ]
    for name, each in sorted(problems.items()):
        here = "texts, token rows, values" if each.texts else "hashes of texts, values"
        cells = (
            name, str(each.documents), each.licence, here, str(len(each.models)),
            ", ".join(each.conditions),
        )  # fmt: skip
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    lines += [
        "",
        "One row of `tokens` is one scored token in one context condition; log-probabilities and "
        "entropies are in nats. The ledger (model, document, cost, versions, hash of the rows) "
        "is stored in the footers of the files. `eval_results/` has the scores as records of the "
        "Every Eval Ever schema. `manifest.json` has the sha256 of every file.",
        "",
    ]
    return "\n".join(lines)


def _category(rows: int) -> str:
    """The Hub's name for a number of rows."""
    digits = len(str(max(rows, 1)))
    return next((name for most, name in _SIZES if digits <= most), "100B<n<1T")
