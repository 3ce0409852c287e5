"""Windows, as far as another system can stand in for it: see `windows_emulation.py` for what is emulated."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from margrave.privacy.ledger.journal import read_ledger

TESTS = Path(__file__).parent
SRC = TESTS.parent / "src" / "margrave"
POSIX = {"fcntl", "grp", "pty", "pwd", "resource", "termios"}


def run(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """`margrave WORDS` in a process that lacks what Windows lacks."""
    command = [sys.executable, str(TESTS / "windows_emulation.py"), *map(str, words)]
    return subprocess.run(
        command, cwd=folder, env=dict(os.environ), capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_the_main_job_runs_where_windows_functions_are_all_there_is(tmp_path: Path) -> None:
    fit = "synthesize visits.csv -e 1 --method independent --owner patient --max-rows 4"
    lines = (
        "example hospital --rows 300 --out visits.csv",
        f"{fit} --out s.csv --release r.margrave --report report.html",
        "show r.margrave",
        "sample r.margrave --out more.csv --rows 20",
        "ledger init steward.book",
        "ledger cap steward.book --dataset visits --epsilon 2 --delta 1e-7 --owner patient",
        f"{fit} --ledger steward.book --dataset visits --out b.csv",
        "ledger show steward.book",
    )
    for line in lines:
        done = run(tmp_path, *line.split())
        assert done.returncode == 0, f"{line}\n{done.stderr}"
    text = (tmp_path / "s.csv.ledger.jsonl").read_bytes()
    assert b"\r" not in text
    assert len(read_ledger(tmp_path / "s.csv.ledger.jsonl")[1]) == text.count(b"\n") - 1 > 20
    assert (tmp_path / "more.csv").read_text(encoding="utf-8").count("\n") == 21
    grid = "bench --methods independent --data adult --epsilon 1 --out grid"
    refused = run(tmp_path, *grid.split())
    assert (refused.returncode, "Linux or macOS" in refused.stderr) == (2, True)


def test_a_ledger_in_use_is_refused_by_a_lock_on_a_byte(tmp_path: Path) -> None:
    code = """if True:
        import sys
        sys.path.insert(0, sys.argv[1])
        import subprocess
        import windows_emulation
        windows_emulation.emulate()
        import margrave.privacy.ledger.system_files as system_files
        assert system_files.fcntl is None
        handle = system_files.open_binary("ledger", system_files.os.O_RDWR | system_files.os.O_CREAT)
        system_files.take_lock(handle)
        other = system_files.open_binary("ledger", system_files.os.O_RDWR)
        try:
            system_files.take_lock(other)
        except OSError:
            print("locked")
    """
    done = subprocess.run(
        [sys.executable, "-c", code, str(TESTS)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("locked\n", "")


def test_modules_of_one_system_are_asked_for_in_a_try() -> None:
    """Only the process of a benchmark's cell, which Windows never starts, imports them without a way out."""
    for path in sorted(SRC.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        tries = [part for block in ast.walk(tree) if isinstance(block, ast.Try) for part in block.body]
        tried = {node for part in tries for node in ast.walk(part)}
        named = {name for node in ast.walk(tree) if node not in tried for name in modules_of(node)}
        assert not named & POSIX or path == SRC / "benchmark" / "cell.py", path


def modules_of(node: ast.AST) -> list[str]:
    """The packages that a statement imports."""
    if isinstance(node, ast.ImportFrom):
        return [(node.module or "").split(".")[0]]
    return [one.name.split(".")[0] for one in node.names] if isinstance(node, ast.Import) else []


def test_the_oldest_python_can_read_all_of_it() -> None:
    """What of the standard library a version lacks is found by mypy, which is told that it is 3.10."""
    for path in sorted(SRC.rglob("*.py")):
        ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 10))
