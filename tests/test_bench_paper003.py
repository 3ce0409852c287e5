"""The stored page of the regressions' benchmark is what its command makes of the stored results."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def write_page(bench: Path, out: Path) -> str:
    command = [
        sys.executable,
        "-c",
        "import pathlib, sys, paper003_page as p; p.write_page(pathlib.Path(sys.argv[1]))",
    ]
    done = subprocess.run(
        [*command, str(out)], cwd=bench / "runs", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return out.read_text(encoding="utf-8")


def test_the_stored_page_is_made_of_the_stored_results(tmp_path: Path) -> None:
    stored = (ROOT / "docs" / "benchmark-003.md").read_text(encoding="utf-8")
    assert write_page(ROOT / "bench", tmp_path / "page.md") == stored
    copied = tmp_path / "bench"
    for part in ("runs/paper003_page.py", "data/paper003_page.md", "data/paper003.csv"):
        (copied / part).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "bench" / part, copied / part)
    shutil.copytree(ROOT / "bench" / "results" / "paper003", copied / "results" / "paper003")
    lines = copied / "results" / "paper003" / "spent.jsonl"
    first = '{"table": "adult", "task": "linear", "epsilon": 0.05, "method": "ssp", "score": 0.0001}\n'
    lines.write_text(first * 30 + lines.read_text(encoding="utf-8"), encoding="utf-8")
    assert "| Adult 0.05 | 10 to 50 | .0001 |" in write_page(copied, tmp_path / "other.md")
