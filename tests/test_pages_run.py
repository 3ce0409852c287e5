"""What the README and the guides print runs as printed, from top to end of a page, in an empty folder."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from command_line import call

ROOT = Path(__file__).parents[1]
PAGES = (
    *("README.md", "docs/start.md", "docs/rules.md", "docs/guide-tables.md"),
    *("docs/epsilon.md", "docs/guide-hospital.md", "docs/faq.md", "docs/glossary.md"),
)
INSTALLING = ("make ", "source ")
"""Lines that set up .venv; the build itself runs them."""
SLOW = ("margrave audit", "margrave bench", "margrave demo")
"""Commands that take minutes; the slow tier runs them."""
BLOCK = re.compile(r"^[ ]*```(\w+)\n(.*?)^[ ]*```|^\| `(margrave [^`]+)` \|", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Part:
    """A block of a page, or the command in the first cell of a table's row."""

    language: str
    text: str


def parts_of(page: str) -> list[Part]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return [Part(found[1] or "sh", found[2] or found[3]) for found in BLOCK.finditer(text)]


def commands_of(page: str) -> list[str]:
    """Shell lines of a page without their comments, in order."""
    lines = [line for part in parts_of(page) if part.language == "sh" for line in part.text.splitlines()]
    return [line for line in map(without_comment, lines) if line]


def without_comment(line: str) -> str:
    return line.partition("  #")[0].strip()


def run_command(line: str) -> None:
    program, *words = shlex.split(line)
    assert program == "margrave", line
    assert not {"|", "&&", ">", ";"} & set(words), f"a shell is needed for: {line}"
    done = call(*words)
    assert done.code == 0, f"{line}\n{done.err}"


def run_page(page: str, names: dict[str, Any]) -> None:
    """Run the blocks of a page in order; schema.json and spec.toml are saved, as the page says."""
    for part in parts_of(page):
        if part.language == "python":
            exec(compile(part.text, page, "exec"), names)  # noqa: S102  # the page is ours
        elif part.language == "json" and "margrave_schema" in part.text:
            Path("schema.json").write_text(part.text, encoding="utf-8")
        elif part.language == "toml":
            Path("spec.toml").write_text(part.text, encoding="utf-8")
        elif part.language == "sh":
            for line in map(without_comment, part.text.splitlines()):
                if line and not line.startswith((*INSTALLING, *SLOW)):
                    run_command(line)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs_from_its_top_to_its_end(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page, {})


@pytest.mark.slow
@pytest.mark.parametrize("command", [line for line in commands_of("README.md") if line.startswith(SLOW)])
def test_a_slow_command_of_the_readme_runs(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_command(command)


@pytest.mark.parametrize("page", PAGES)
def test_every_block_says_what_it_is(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    opened = re.findall(r"^[ ]*```(\w*)$", text, flags=re.MULTILINE)[::2]
    assert set(opened) <= {"sh", "python", "json", "toml"}


def test_the_first_lines_of_the_readme_install_and_activate() -> None:
    lines = commands_of("README.md")
    assert lines[:2] == ["make demo", "source .venv/bin/activate"]
    assert lines[2].startswith("margrave example hospital")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^VENV \?= \.venv$", makefile, flags=re.MULTILINE)
    assert re.search(r"^demo:", makefile, flags=re.MULTILINE)
