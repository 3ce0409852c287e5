"""The pages in docs are what the commands in bench/BENCHMARK.md make of the stored results, byte by byte."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from command_line import call

ROOT = Path(__file__).parents[2]
WRITTEN = [
    line
    for line in (ROOT / "bench" / "BENCHMARK.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("margrave bench report ")
]


def made_by(page: Path) -> dict[str, bytes]:
    """A page, its LaTeX and its pictures, by their place beside the page."""
    drawn = (page.parent / "pictures" / page.stem).iterdir()
    files = [page, page.with_suffix(".tex"), *drawn]
    return {path.relative_to(page.parent).as_posix(): path.read_bytes() for path in files}


def test_both_pages_have_a_command() -> None:
    pages = {words[words.index("--out") + 1] for words in map(shlex.split, WRITTEN)}
    assert pages == {"docs/benchmark.md", "docs/benchmark-peers.md"}


@pytest.mark.parametrize("line", WRITTEN, ids=lambda line: line.split("--out ")[1].split()[0])
def test_a_stored_page_is_what_its_command_makes(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = shlex.split(line)[1:]
    place = words.index("--out") + 1
    stored, again = ROOT / words[place], tmp_path / Path(words[place]).name
    words[place] = str(again)
    monkeypatch.chdir(ROOT)
    done = call(*words)
    assert done.code == 0, done.err
    new, old = made_by(again), made_by(stored)
    assert sorted(new) == sorted(old)
    assert [name for name in new if new[name] != old[name]] == [], f"run: {line}"
