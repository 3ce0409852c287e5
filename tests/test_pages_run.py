"""What the pages print runs as printed, from top to end of a page, in a folder of its own.

Every page of the documentation is taken. A block that is not run says why, in a comment before it that
readers of the page do not see: `<!-- not run: the reason -->`. A block that is no program is called `text`.
"""

from __future__ import annotations

import csv
import math
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from command_line import call
from page_inputs import PREPARATIONS

ROOT = Path(__file__).parents[1]
PAGES = tuple(
    str(page.relative_to(ROOT))
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
    if re.search(r"^[ ]*```", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
)
LANGUAGES = {"sh", "python", "json", "toml"}
INSTALLING = ("make ", "source ")
"""Lines that set up .venv; the build itself runs them."""
SLOW = ("margrave audit", "margrave bench", "margrave demo")
"""Commands that take minutes; the slow tier runs them."""
LONG = ("README.md", "docs/guide-hospital.md", "docs/report.md", "docs/start.md")
"""Pages that take most of the time of all; `make test-pages` runs them, and so does the build."""
BLOCK = re.compile(
    r"^(?P<mark><!-- not run: [^\n]+ -->\n)?[ ]*```(?P<language>\w+)\n(?P<text>.*?)^[ ]*```"
    r"|^\| `(?P<cell>margrave [^`]+)` \|",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Part:
    """A block of a page, or the command in the first cell of a table's row."""

    language: str
    text: str


def parts_of(page: str) -> list[Part]:
    text = (ROOT / page).read_text(encoding="utf-8")
    found = [block for block in BLOCK.finditer(text) if not block["mark"]]
    return [Part(block["language"] or "sh", block["text"] or block["cell"]) for block in found]


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
    if words[0] == "regress" and "--out" in words:
        check_coefficients(Path(words[words.index("--out") + 1]))


def check_coefficients(path: Path) -> None:
    """A regression that a page prints has intervals: the release holds the tables that they take."""
    with path.open(newline="", encoding="utf-8") as handle:
        rows = list(csv.DictReader(handle))
    assert rows
    for row in rows:
        numbers = [float(row[name]) for name in ("estimate", "std_error", "lower", "upper")]
        assert all(map(math.isfinite, numbers)), row
        assert row["identified"] == "true", row


def run_page(page: str, names: dict[str, Any]) -> None:
    """Run the blocks of a page in order; schema.json and spec.toml are saved, as the page says."""
    for part in parts_of(page):
        if part.language == "python":
            exec(compile(part.text, page, "exec", dont_inherit=True), names)  # noqa: S102  # the page is ours
        elif part.language == "json" and "margrave_schema" in part.text:
            Path("schema.json").write_text(part.text, encoding="utf-8")
        elif part.language == "toml":
            Path("spec.toml").write_text(part.text, encoding="utf-8")
        elif part.language == "sh":
            for line in map(without_comment, part.text.splitlines()):
                if line and not line.startswith((*INSTALLING, *SLOW)):
                    run_command(line)


RUN_ELSEWHERE = {
    "docs/extending.md": "tests/extending/test_page.py gives it a module and puts the tables back"
}


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow if page in LONG else ())
        for page in PAGES
        if page not in RUN_ELSEWHERE
    ],
)
def test_a_page_runs_from_its_top_to_its_end(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    if page in PREPARATIONS:
        PREPARATIONS[page](names)
    run_page(page, names)


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
    assert set(opened) <= {*LANGUAGES, "text"}
    fenced = [block for block in BLOCK.finditer(text) if block["language"]]
    assert len(fenced) == len(opened)
    assert text.count("<!-- not run") == sum(bool(block["mark"]) for block in fenced)


def test_what_pages_need_is_prepared_for_pages_that_are_there() -> None:
    assert set(PREPARATIONS) <= set(PAGES)


def test_the_first_lines_of_the_readme_install_and_activate() -> None:
    lines = commands_of("README.md")
    assert lines[:2] == ["make demo", "source .venv/bin/activate"]
    assert lines[2].startswith("margrave example hospital")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^VENV \?= \.venv$", makefile, flags=re.MULTILINE)
    assert re.search(r"^demo:", makefile, flags=re.MULTILINE)
