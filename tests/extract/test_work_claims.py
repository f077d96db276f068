"""Claims are exclusive, die with their owner, and do not believe the wall clock."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

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


def test_containers_of_one_hostname_are_two_machines(tmp_path):
    """A process of another PID namespace, whose id is none here, isn't taken for dead."""
    code = "from warehouse.store import claims; print(claims.identity(), end='')"
    words = ["unshare", "--user", "--pid", "--fork", "--mount-proc", sys.executable, "-c", code]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("PID namespaces can't be made here")
    other = done.stdout
    assert other.split("/")[0] == socket.gethostname() and not claims.died(other)
    path = tmp_path / "doc.claim"
    path.write_text(other)
    with claim(path) as ours:
        assert not ours


def test_a_claim_needs_no_hard_links(tmp_path, monkeypatch):
    """exFAT and SMB have none; several threads that try at once: one has it."""
    monkeypatch.delattr(os, "link")
    path, taken = tmp_path / "doc.claim", []
    path.write_text("")  # of a process that was killed between two steps
    os.utime(path, (1.0, 1.0))
    together = threading.Barrier(8)

    def compete() -> None:
        together.wait()
        with claim(path) as ours:
            taken.append(ours)
            together.wait()

    threads = [threading.Thread(target=compete) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == [False] * 7 + [True]
    assert [left.name for left in tmp_path.iterdir()] == ["abandoned.lock"]


def test_a_successors_claim_is_left_alone(tmp_path, monkeypatch):
    """Another process has taken over between the look at a dead owner's claim and its removal."""
    path = tmp_path / "doc.claim"
    path.write_text("")
    os.utime(path, (1.0, 1.0))
    successor: list[int] = []

    def look(place: Path) -> str | None:
        owner = claims.abandoned_owner(place)
        if not successor:
            path.unlink()
            path.write_text("elsewhere 1 1.0")
            successor.append(path.stat().st_ino)
        return owner

    monkeypatch.setattr(work_claims, "abandoned_owner", look)
    with claim(path) as ours:
        assert not ours
    assert path.stat().st_ino == successor[0] and path.read_text() == "elsewhere 1 1.0"


@pytest.mark.parametrize(("seconds", "dead"), [(0.0, False), (10.0, False), (1000.0, True)])
def test_an_owner_is_known_by_when_it_started(seconds, dead):
    """A process id may be another's by now."""
    started = psutil.Process().create_time() - seconds
    assert claims.died(f"{claims.machine()} {os.getpid()} {started:.2f}") is dead
