"""`python -m tests.rehearsal.on_a_card CARD COMMAND …`: a command on a GPU that is not there.

The card is emulated (`tests/helpers/fake_gpu.py`). Models have the sizes that the problem file
states, and weights that are only shapes; the look-alikes' own files give tokenizers. Plan, engine,
memory and ledger are the product's; the numbers in the rows mean nothing.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "helpers")]

from fake_gpu import CARDS, fake_gpu  # noqa: E402
from true_size_models import build  # noqa: E402

from extract.scoring.engine import Engine  # noqa: E402
from tokenmart import cli  # noqa: E402


def main(name: str, *words: str) -> None:
    """Run one `tokenmart` command; the last line says what the card had to do.

    Args:
        name: of the card, as in `CARDS`.
        words: of the command.
    """
    card = next(card for card in CARDS if card.name == name)
    code: Any = 0
    with tempfile.TemporaryDirectory() as folder, fake_gpu(card) as meter:

        def load_model(loading: Any) -> Any:
            return build(loading.spec, Path(folder))

        def check(engine: Engine) -> None:
            real_check(engine)
            assert engine.attention  # remembered: the thread that stores rows sees no card

        real_check = Engine.check
        with (
            patch.object(Engine, "check", check),
            patch("extract.models.loading.load_model", load_model),
            patch("extract.planning.cost.text_config", lambda path: {}),
        ):
            try:
                cli(list(words), prog_name="tokenmart")
            except SystemExit as end:
                code = end.code
    print(f"{card.name}: {meter.books.kernels} kernels, {meter.books.shortages} shortages")
    sys.exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
