"""Progress: nothing of short work, lines of long work, and no other bars in between."""

from __future__ import annotations

import io
from typing import Any

import pytest
from tqdm.auto import tqdm

from warehouse import progress
from warehouse.progress import progress_bar


def shown(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Lines without the time."""
    return [line.partition("] ")[2] for line in capsys.readouterr().err.splitlines()]


def test_nothing_is_shown_of_short_work(capsys, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_BEFORE_SHOWN", 3600.0)
    with progress_bar(2, "units") as report:
        report("one: this", 1)
        report("two: that", 1)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_gets_a_bar(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stderr", drawn := Terminal())
    with progress_bar(3, "units") as report:
        report("one: this", 1)
        report("two: that", 1)
    assert "two: that" in drawn.getvalue() and "2/3 units" in drawn.getvalue()


def test_a_line_is_repeated_after_a_while(capsys, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_BEFORE_SHOWN", 0.0)
    with progress_bar(3, "units") as report:
        report("one: document 1", 0)
        report("one: document 2", 0)
        monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
        report("one: document 3", 0)
    assert shown(capsys) == ["0/3 units; one: document 1", "0/3 units; one: document 3"]


def test_the_time_left_follows_computed_units(monkeypatch):
    """7 of 10 units are there; of the others each takes a minute."""
    clock = [0.0]
    report = progress._Report(10, "units", 7)
    monkeypatch.setattr(report.bar, "get_time", lambda: clock[0])
    found: list[Any] = []

    def at(second: float, *arguments: Any) -> None:
        clock[0] = second
        report(*arguments)
        task = report.task
        found.append((task.percentage, task.fields["units"], task.time_remaining))

    at(0, "one: planned", 4, False)
    at(600, "one: document 8", 1)  # after loading: the first gives no speed
    at(660, "one: document 9", 1)
    assert found == [(70, "7/10 units", None), (80, "8/10 units", None), (90, "9/10 units", 60)]


@pytest.mark.parametrize("drawn", [True, False])
def test_the_bars_of_libraries_are_off_meanwhile(drawn, capsys):
    from huggingface_hub.utils import enable_progress_bars
    from huggingface_hub.utils import tqdm as hub_bar
    from transformers.utils import logging

    # another test of this process may have imported a library that switched them off for good
    enable_progress_bars()
    logging.enable_progress_bar()

    def draw() -> str:
        for bar in (tqdm, hub_bar, logging.tqdm):
            for _ in bar(range(3), desc="weights", disable=False):
                pass
        return capsys.readouterr().err

    if drawn:
        assert draw().count("weights: 100%") == 3
    with progress_bar(1, "units"):
        assert draw() == ""
    assert draw().count("weights: 100%") == 3
