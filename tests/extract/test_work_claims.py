"""Claims are exclusive, die with their owner, and do not believe the wall clock."""

from __future__ import annotations

import os
import socket
import time

import psutil
import pytest

from extract import work_claims
from extract.work_claims import claim
from warehouse.store import claims


def test_a_claim_is_exclusive_and_released(tmp_path):
    path = tmp_path / "deep" / "doc.claim"
    with claim(path) as ours:
        assert ours
        with claim(path) as second:
            assert not second
        assert path.exists()
    assert not path.exists()


def test_a_dead_owner_on_this_machine_loses_its_claim_immediately(tmp_path):
    path = tmp_path / "doc.claim"
    child = os.fork()
    if child == 0:
        work_claims._create(path, claims.identity())
        os._exit(0)
    os.waitpid(child, 0)
    with claim(path) as ours:
        assert ours


@pytest.mark.parametrize(("age", "taken"), [(10.0, False), (1000.0, True)])
def test_another_machines_claim_expires(age, taken, tmp_path):
    path = tmp_path / "doc.claim"
    path.write_text("elsewhere 1 1.0")
    os.utime(path, (time.time() - age, time.time() - age))
    with claim(path) as ours:
        assert ours == taken


def test_a_jumping_clock_changes_nothing(tmp_path, monkeypatch):
    path = tmp_path / "doc.claim"
    path.write_text("elsewhere 1 1.0")
    for jump in (-1e6, 1e6):
        monkeypatch.setattr(time, "time", lambda jump=jump: 1.7e9 + jump)
        with claim(path) as ours:
            assert not ours


def test_a_clock_that_is_set_meanwhile_keeps_a_claim(tmp_path, monkeypatch):
    """psutil's start time of a process follows it: the claim is touched and released even so."""
    path = tmp_path / "doc.claim"
    monkeypatch.setattr(work_claims, "HEARTBEAT_SECONDS", 0.01)
    with claim(path) as ours:
        assert ours
        monkeypatch.setattr(work_claims, "identity", lambda: "here 1 2.0")
        os.utime(path, (1.0, 1.0))
        deadline = time.monotonic() + 10
        while path.stat().st_mtime == 1.0 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert path.stat().st_mtime > 1.0
    assert not path.exists()


@pytest.mark.parametrize(("seconds", "dead"), [(0.0, False), (10.0, False), (1000.0, True)])
def test_an_owner_is_known_by_when_it_started(seconds, dead):
    """A process id may be another's by now."""
    started = psutil.Process().create_time() - seconds
    assert claims.died(f"{socket.gethostname()} {os.getpid()} {started:.2f}") is dead
