"""Write the pages of the studies from their templates and figures: no number is copied by hand.

    python studies/pages.py        # after each study's recompute.py; `make study` runs all

A study's `page.md.j2` becomes its `README.md`. The template is given `f`, the study's figures.json,
all studies under their names, and the functions of this file. In README.md and
docs/findings/index.md only the text between `<!-- figures: NAME -->` and `<!-- end of figures -->`
is written, from `studies/blocks/NAME.md.j2`.
"""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent
STUDIES = ("minilong", "early_decisions", "models90")
PAGES = ("README.md", "docs/findings/index.md")
_BLOCK = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)


def signed(value: float, digits: int = 2) -> str:
    """A number with its sign; a zero has a plus."""
    shown = f"{value:+.{digits}f}"
    return shown.replace("-", "+" if not float(shown) else "−")


def ci(bounds: list[float], digits: int = 2) -> str:
    """Both ends of an interval."""
    return f"{signed(bounds[0], digits)} to {signed(bounds[1], digits)}"


def percent(value: float, digits: int = 1) -> str:
    """A share in percent."""
    return f"{value:.{digits}%}"


def percents(bounds: list[float]) -> str:
    """Both ends of an interval of shares, in percent, without the sign."""
    return f"{100 * bounds[0]:.1f} to {100 * bounds[1]:.1f}"


def points(difference: list[float]) -> str:
    """A difference of shares and its interval, in percentage points."""
    value, low, high = (f"{100 * each:.1f}".replace("-", "−") for each in difference)
    return f"{value} points ({low} to {high})"


def pages() -> dict[Path, str]:
    """Path → the text that the figures give; nothing is written."""
    figures = {name: json.loads((FOLDER / name / "figures.json").read_text("utf-8"))
               for name in STUDIES}  # fmt: skip
    metrics = runpy.run_path(str(FOLDER / "minilong" / "recompute.py"), run_name="study")["METRICS"]
    environment = Environment(
        undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False
    )
    environment.globals.update(
        {each.__name__: each for each in (signed, ci, percent, percents, points)}
    )

    def rendered(template: Path, **names: Any) -> str:
        source = template.read_text("utf-8")
        return environment.from_string(source).render(**figures, metrics=metrics, **names)

    written = {}
    for name in STUDIES:
        template = FOLDER / name / "page.md.j2"
        if template.exists():
            written[FOLDER / name / "README.md"] = rendered(template, f=figures[name])
    for page in PAGES:
        written[ROOT / page] = _BLOCK.sub(
            lambda block: block[1] + rendered(FOLDER / "blocks" / f"{block[2]}.md.j2") + block[3],
            (ROOT / page).read_text("utf-8"),
        )
    return written


def main() -> None:
    """Write the pages."""
    for path, text in pages().items():
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
