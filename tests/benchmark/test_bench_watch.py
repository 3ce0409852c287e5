"""A child is held to its limits, and nothing of it is left."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from margrave.benchmark.run import Child, Ended, group_memory

LIGHT = [sys.executable, "-I", "-S", "-c"]
MOST = 300.0
"""Seconds to wait for what happens at once on an idle machine."""


def ended(child: Child) -> Ended:
    stop = time.monotonic() + MOST
    while time.monotonic() < stop:
        found = child.poll()
        if found is not None:
            return found
        time.sleep(0.01)
    child.kill()
    raise AssertionError("it did not end")


def alive(pid: int) -> bool:
    """Whether a process still runs; one that nobody has waited for yet does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def gone(pid: int) -> bool:
    stop = time.monotonic() + MOST
    while alive(pid) and time.monotonic() < stop:
        time.sleep(0.02)
    return not alive(pid)


def test_one_that_ends_by_itself_gives_its_code_and_what_it_used() -> None:
    body = "held = bytearray(60_000_000); n = sum(range(3_000_000)); raise SystemExit(7)"
    found = ended(Child([*LIGHT, body], os.environ))
    assert (found.how, found.code) == ("exit", 7)
    assert 0 < found.cpu < 20
    assert 0 < found.wall < MOST
    assert found.peak > 60_000_000


def test_one_that_takes_too_long_is_killed_with_what_it_started(tmp_path: Path) -> None:
    inner = "import time; time.sleep(600)"
    body = (
        f"import subprocess, sys, time; p = subprocess.Popen([sys.executable, '-I', '-S', '-c', {inner!r}]);"
    )
    body += f"open({str(tmp_path / 'pid')!r}, 'w').write(str(p.pid)); time.sleep(600)"
    child = Child([*LIGHT, body], os.environ, max_seconds=3)
    found = ended(child)
    assert found.how == "time"
    assert found.wall >= 3
    assert gone(int((tmp_path / "pid").read_text()))
    assert group_memory(child.pid) == 0


def test_memory_counts_over_the_whole_group() -> None:
    inner = "held = bytearray(b'x') * 90_000_000; import time; time.sleep(600)"
    start = f"subprocess.Popen([sys.executable, '-I', '-S', '-c', {inner!r}])"
    body = f"import subprocess, sys, time; [{start} for _ in 'ab']; time.sleep(600)"
    found = ended(Child([*LIGHT, body], os.environ, max_seconds=MOST, max_bytes=150_000_000))
    assert found.how == "memory"
    assert found.peak > 150_000_000


def test_a_signal_from_outside_is_told_from_a_limit() -> None:
    found = ended(Child([*LIGHT, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"], os.environ))
    assert (found.how, found.code) == ("signal", 9)


def test_what_a_process_leaves_behind_is_killed(tmp_path: Path) -> None:
    inner = "import time; time.sleep(600)"
    body = f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-I', '-S', '-c', {inner!r}]);"
    body += f"open({str(tmp_path / 'pid')!r}, 'w').write(str(p.pid))"
    assert ended(Child([*LIGHT, body], os.environ)).how == "exit"
    assert gone(int((tmp_path / "pid").read_text()))


def test_the_two_ways_to_look_at_memory_agree(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if not Path("/bin/ps").exists() or not Path("/proc/self/stat").exists():
        pytest.skip("this machine has not both ps and /proc")
    body = f"held = bytearray(b'x') * 50_000_000; open({str(tmp_path / 'up')!r}, 'w');"
    body += "import time; time.sleep(600)"
    child = Child([*LIGHT, body], os.environ)
    stop = time.monotonic() + MOST
    while not (tmp_path / "up").exists() and time.monotonic() < stop:
        time.sleep(0.02)
    first = group_memory(child.pid)
    monkeypatch.setattr("margrave.benchmark.run.PROC", tmp_path)
    second = group_memory(child.pid)
    child.kill()
    assert first > 50_000_000
    assert abs(first - second) < 0.1 * first
