"""Running a grid: failures are outcomes, what is done stays done, a killed run goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from bench_cases import HIDDEN, write_script, write_table

from margrave.benchmark.grid import Grid, read_grid
from margrave.benchmark.results import Store, read_results
from margrave.benchmark.run import Ended, _describe_outcome, run_grid
from margrave.errors import InputError

BODIES = {
    "fine": "pass",
    "wrong": f"raise ValueError({HIDDEN!r} + str(table))",
    "slow": "time.sleep(600)",
    "large": "held = bytearray(b'x') * 900_000_000; time.sleep(600)",
    "shot": "os.kill(os.getpid(), signal.SIGKILL)",
    "quits": "os._exit(5)",
}


def declared(folder: Path, *names: str, **more: Any) -> Grid:
    table = folder / "people.csv"
    methods = [write_script(folder, name, BODIES[name]) if name in BODIES else name for name in names]
    given = {
        "methods": methods,
        "data": [str(table if table.exists() else write_table(table))],
        "epsilon": [1.0],
        "repeats": 1,
        "metrics": ["average_tv", "fidelity_error"],
    }
    return read_grid(None, given | more)


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    """The bytes and the time of change of every file."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def test_every_way_to_fail_is_an_outcome_and_none_shows_a_value(tmp_path: Path) -> None:
    out = tmp_path / "out"
    names = ["fine", "wrong", "large", "shot"]
    grid = declared(tmp_path, *names, "real", max_memory="700MB")
    told: list[str] = []
    run, failed = run_grid(
        grid, out, workers=4, on_cell=lambda cell, outcome, done, todo: told.append(cell.key)
    )
    assert (run, failed, len(told)) == (5, 3, 5)
    found = {one["method"]: one for one in read_results(out / "results.parquet")}
    ways = {name: one["status"] for name, one in found.items()}
    expected = {"fine": "done", "wrong": "error", "large": "memory", "shot": "killed"}
    assert ways == expected | {"real": "done"}
    assert found["wrong"]["reason"] == "ValueError at wrong.py:4"
    assert found["large"]["stage"] == "synthesize"
    assert found["large"]["reason"] == "over 700 MB"
    assert found["fine"]["scores"]["average_tv"] == found["real"]["scores"]["average_tv"] == 0.0
    assert found["fine"]["train_rows"] == 96
    assert found["large"]["peak_bytes"] > 700_000_000
    assert {"margrave", "numpy", "python"} <= set(found["fine"]["versions"])
    assert found["fine"]["machine"]["cores"] >= 1
    kept = b"".join(content for content, _ in snapshot(out).values())
    assert HIDDEN.encode() not in kept
    assert str(tmp_path).encode() not in kept
    before = snapshot(out)
    assert run_grid(grid, out) == (0, 3)
    assert snapshot(out) == before
    for path in out.glob("cells/*"):
        path.unlink()
    assert run_grid(grid, out) == (0, 3)
    assert snapshot(out) == {name: kept for name, kept in before.items() if "cells" not in name}


def test_a_cell_past_its_time_is_an_outcome(tmp_path: Path) -> None:
    grid = declared(tmp_path, "slow", max_seconds=1.0)
    assert run_grid(grid, tmp_path / "out") == (1, 1)
    (found,) = read_results(tmp_path / "out" / "results.parquet")
    assert (found["status"], found["reason"]) == ("time", "over 1 s")
    assert 1.0 <= found["wall_seconds"] < 300


@pytest.mark.slow
def test_more_of_the_grid_adds_cells_and_failures_are_run_again_when_asked(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run_grid(declared(tmp_path, "real"), out)[0] == 1
    before = snapshot(out)
    broken = declared(tmp_path, "real", "quits")
    assert run_grid(broken, out) == (1, 1)
    after = snapshot(out)
    assert after["cells/people__real__reference__0.json"] == before["cells/people__real__reference__0.json"]
    assert run_grid(broken, out, retry=["time"]) == (0, 1)
    assert run_grid(broken, out, retry=["failed"]) == (1, 1)
    found = {one["method"]: one for one in read_results(out / "results.parquet")}
    assert set(found) == {"real", "quits"}
    assert (found["quits"]["status"], found["quits"]["reason"]) == ("error", "ended with exit code 5")


def test_a_folder_holds_one_benchmark(tmp_path: Path) -> None:
    store = Store(tmp_path / "out")
    store.declare(declared(tmp_path, "fine"))
    store.declare(declared(tmp_path, "fine", "aim", repeats=9))
    for more, message in (({"seed": 1}, "seed must be"), ({"metrics": ["l1_3way"]}, "metrics must be")):
        with pytest.raises(InputError, match=message):
            store.declare(declared(tmp_path, "fine", **more))
    (tmp_path / "fine.py").write_text("def synthesize(): ...", encoding="utf-8")
    changed = read_grid(
        None,
        {
            "methods": [str(tmp_path / "fine.py")],
            "data": [str(tmp_path / "people.csv")],
            "epsilon": [1.0],
            "metrics": ["average_tv", "fidelity_error"],
        },
    )
    with pytest.raises(InputError, match="methods fine must be the one in the folder"):
        store.declare(changed)
    (tmp_path / "people.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(InputError, match="data people must be the one in the folder"):
        store.declare(declared(tmp_path, "aim"))
    assert set(json.loads((tmp_path / "out" / "benchmark.json").read_text())["methods"]) == {"fine", "aim"}


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    store = Store(tmp_path / "out")
    with store.lock_folder(), pytest.raises(InputError, match="no other run works in"):
        run_grid(declared(tmp_path, "real"), tmp_path / "out")


def test_rows_for_peers_lie_where_nobody_else_may_read(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with Store(tmp_path / "out").lock_folder() as work:
            assert work.stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(before)


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_and_its_children_are_gone(tmp_path: Path) -> None:
    out, pid = tmp_path / "out", tmp_path / "pid"
    body = f"open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    wait = write_script(tmp_path, "waits", body)
    words = ["--methods", "real", wait, "--data", str(write_table(tmp_path / "people.csv")), "--epsilon", "1"]
    words += ["--repeats", "1", "--metrics", "average_tv", "--out", str(out)]
    command = [sys.executable, "-m", "margrave", "bench", *words]
    with subprocess.Popen(command, env=os.environ, stderr=subprocess.DEVNULL) as parent:
        stop = time.monotonic() + 300
        while not (pid.exists() and pid.read_text()) and time.monotonic() < stop:
            time.sleep(0.05)
        os.kill(parent.pid, signal.SIGKILL)
    child = int(pid.read_text())
    stop = time.monotonic() + 300
    while Path(f"/proc/{child}").exists() and time.monotonic() < stop:
        time.sleep(0.05)
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    done = out / "cells" / "people__real__reference__0.json"
    assert [path.name for path in out.glob("cells/*")] == [done.name]
    first = done.stat().st_mtime_ns
    (tmp_path / "waits.py").unlink()
    again = declared(tmp_path, "real", "quits", metrics=["average_tv"])
    assert run_grid(again, out) == (1, 1)
    assert done.stat().st_mtime_ns == first
    assert not (out / ".work").exists()


def test_a_process_that_leaves_no_outcome_has_failed(tmp_path: Path) -> None:
    ended = Ended("exit", 0, wall=1.0, cpu=0.5, peak=1)
    found = _describe_outcome(tmp_path, ended, declared(tmp_path, "fine"))
    assert (found["status"], found["stage"], found["reason"]) == ("error", "start", "ended with exit code 0")


def test_a_torn_file_is_named(tmp_path: Path) -> None:
    store = Store(tmp_path / "out")
    (cell,) = declared(tmp_path, "real").cells()
    torn = store.cells / f"{cell.key}.json"
    torn.write_text('{"key"', encoding="utf-8")
    with pytest.raises(InputError, match=f"cells/{torn.name} must be an outcome"):
        store.outcomes()
    store.put(cell, {"status": "done"})
    store.compact()
    torn.unlink()
    assert store.outcomes()[cell.key]["status"] == "done"
