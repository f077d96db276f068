"""Progress: nothing of short work, lines of long work, and no other bars in between."""

from __future__ import annotations

import io
import re
import time

import pytest
from tqdm.auto import tqdm

from warehouse import progress
from warehouse.progress import progress_bar


def wait_until_shown(shown: io.StringIO) -> None:
    until = time.monotonic() + 60
    while not shown.getvalue():
        assert time.monotonic() < until, "nothing is shown"
        time.sleep(0.01)


def test_nothing_is_shown_of_short_work(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "SECONDS_BEFORE_SHOWN", 3600.0)
    with progress_bar(2, "units") as report:
        report("one: this", 1)
        report("two: that", 1)
    assert capsys.readouterr() == ("", "")


def test_lines_of_long_work_say_what_is_done_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SECONDS_BEFORE_SHOWN", 0.05)
    shown = io.StringIO()
    monkeypatch.setattr("sys.stderr", shown)
    with progress_bar(3, "units") as report:
        report("one: this", 1)
        wait_until_shown(shown)
        report("one: that", 0)
        report("two: this", 1)
    lines = shown.getvalue().splitlines()
    assert [line.partition("] ")[2] for line in lines] == [
        "1/3 units; finished one: this",
        "2/3 units; finished two: this",
    ]


def test_a_terminal_gets_a_bar_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SECONDS_BEFORE_SHOWN", 0.05)
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown = io.StringIO()
    monkeypatch.setattr("sys.stderr", shown)
    with progress_bar(3, "units") as report:
        report("one: this", 1)
        wait_until_shown(shown)
        report("two: that", 1)
    assert "two: that" in shown.getvalue() and "2/3" in shown.getvalue()


def test_the_share_and_the_time_left_follow_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine of ten units were there already; the last one is half of the work, and half done."""
    monkeypatch.setattr(progress, "SECONDS_BEFORE_SHOWN", 0.05)
    monkeypatch.setattr(progress, "SECONDS_OF_SPEED", 0.0)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setattr(progress._Lines, "_repeat", lambda _: None)
    shown = io.StringIO()
    monkeypatch.setattr("sys.stderr", shown)
    with progress_bar(10, "units", 100.0) as report:
        report("one: planned", 9, 50.0, False)
        wait_until_shown(shown)
        report("one: document 9", 0, 5.0)
        report("one: document 9", 0, 20.0)
        report("one: document 9", 1, 25.0)
    first, begun, within, last = (line.partition("] ")[2] for line in shown.getvalue().splitlines())
    assert first == "50%, 9/10 units; now one: planned"
    # the first tokens say nothing of the speed
    assert begun == "55%, 9/10 units; now one: document 9"
    assert re.fullmatch(r"75%, 9/10 units, about \d+ s left; now one: document 9", within), within
    assert last == "100%, 10/10 units, about 0 s left; finished one: document 9"


def test_what_is_there_already_takes_no_time_before_it_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of two models, 8 of 10 units and 80 of 100 of the work are there; the rest is 2 times 10."""
    clock = [0.0]
    monkeypatch.setattr(progress, "SECONDS_BEFORE_SHOWN", 3600.0)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", -1.0)
    monkeypatch.setattr(progress._Lines, "_repeat", lambda _: None)
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    shown = io.StringIO()
    monkeypatch.setattr("sys.stderr", shown)
    with progress_bar(10, "units", 100.0, (8, 80.0)) as report:
        report.start()
        report("one: planned", 4, 40.0, False)
        clock[0] = 600.0  # loading
        report("one: document 9", 0, 5.0)
        clock[0] = 660.0
        report("one: document 9", 1, 5.0)
    told = [line.partition("] ")[2] for line in shown.getvalue().splitlines()]
    # half a document took 60 s
    assert told == [
        "80%, 8/10 units; now one: planned",
        "85%, 8/10 units; now one: document 9",
        "90%, 9/10 units, about 2 min left; finished one: document 9",
    ]


def test_no_time_left_is_claimed_from_a_few_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    report = progress._Lines(10, "units", 100.0, (0, 0.0))
    lefts = []
    for second in (50, 51, 55, 60, 61):
        clock[0] = float(second)
        report("one: document 0", 0, 1.0)
        lefts.append(report.left)
    # 3 of the work in 10 s, 96 are left; then 4 in 11 s, and 95
    assert lefts == ["", "", "", "about 5 min left", "about 4 min left"]


@pytest.mark.parametrize(
    ("calls", "told"),
    [
        # a document that is stored while the next is scored
        ([("m: document 3", 0), ("m: document 4", 0), ("m: document 3", 1)], "now m: document 4"),
        ([("m: document 3", 0), ("m: document 3", 1)], "finished m: document 3"),
        ([("m: recall, context 2", 0), ("m: recall", 1)], "finished m: recall"),
        ([("one: loading", 0), ("two: document 0", 1)], "finished two: document 0"),
        ([("one", 1), ("two", 1)], "finished two"),
        ([("one", 1), ("two", 0)], "now two"),
    ],
)
def test_a_finished_step_is_not_what_is_done_now(
    calls: list[tuple[str, int]], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = io.StringIO()
    monkeypatch.setattr("sys.stderr", shown)
    report = progress._Lines(10, "units", None, (0, 0.0))
    for call in calls:
        report(*call)
    report.show()
    assert shown.getvalue().strip().rpartition("; ")[2] == told


def test_lines_are_repeated_also_where_nothing_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SECONDS_BEFORE_SHOWN", 0.0)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.02)
    shown = io.StringIO()
    monkeypatch.setattr("sys.stderr", shown)
    with progress_bar(3, "units") as report:
        report("one: tokenizing", 0)
        until = time.monotonic() + 60
        while shown.getvalue().count("now one: tokenizing") < 3:
            assert time.monotonic() < until, "nothing is shown"
            time.sleep(0.01)


@pytest.mark.parametrize("shown", [True, False])
def test_the_bars_of_libraries_are_off_meanwhile(
    shown: bool, capsys: pytest.CaptureFixture[str]
) -> None:
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

    if shown:
        assert draw().count("weights: 100%") == 3
    with progress_bar(1, "units"):
        assert draw() == ""
    assert draw().count("weights: 100%") == 3


def test_an_error_gets_through_and_ends_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SECONDS_BEFORE_SHOWN", 0.0)
    with pytest.raises(KeyError), progress_bar(1, "units"):
        time.sleep(0.05)
        raise KeyError("x")
