"""The documents say what is there: commands, files and code that exist."""

from __future__ import annotations

import ast
import inspect
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import margrave
from margrave.cli.app import app
from margrave.methods import METHODS
from margrave.privacy.unit import Neighbours
from margrave.release import Guarantee
from margrave.schema.columns import Column

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "bench").glob("*.md"))]


FILES = [path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py") if ".venv" not in path.parts]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name != "LOG.md"], ids=lambda page: page.name
)
def test_files_that_a_page_names_are_there(page: Path) -> None:
    """Pages may leave out leading folders: `pgm/kernels.py`. The log speaks of files as they were."""
    named = re.findall(r"`([\w./-]+\.py)`", page.read_text(encoding="utf-8"))
    assert [name for name in named if not any(f"/{file}".endswith(f"/{name}") for file in FILES)] == []


def _blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not target.startswith(("http:", "https:")):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_python_examples_parse(page: Path) -> None:
    for block in _blocks(page, "python"):
        ast.parse(block)


def test_every_command_is_in_the_readme_with_its_options() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    group = typer.main.get_command(app)
    commands: dict[str, typer.core.TyperCommand] = group.commands  # type: ignore[attr-defined]
    for name, command in commands.items():
        assert f"margrave {name}" in readme, name
        assert command.help
        for param in command.params:
            assert param.name == "help" or getattr(param, "help", None), f"{name} {param.name}"
    for used in re.findall(r"^\| `margrave ([a-z]+)", readme, flags=re.MULTILINE):
        assert used in commands


def test_tables_of_pages_are_what_the_code_says() -> None:
    """Of metrics and of methods."""
    script = ROOT / "docs" / "site" / "write_tables.py"
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, str(script), "--check"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_architecture_page_lists_every_room() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for entry in (ROOT / "src" / "margrave").iterdir():
        if entry.name.startswith("__") or entry.name == "py.typed":
            continue
        assert entry.name in page, entry.name


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md", "docs/extending.md"])
def test_files_that_contributors_are_sent_to_are_there(page: str) -> None:
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    named = re.findall(r"`((?:\w+/)*\w+\.py)`", text)
    gone = [
        name for name in named if not any((at / name).exists() for at in (ROOT, ROOT / "src" / "margrave"))
    ]
    assert not gone, f"{page} names {gone}"


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_a_page(name: str) -> None:
    page = METHODS[name].page
    assert page, f"METHODS['{name}'] in methods.py says no page="
    assert (ROOT / "docs" / page).is_file(), f"docs/{page}, the page= of {name}, is not there"


def test_methods_that_need_an_extra_say_so() -> None:
    torch = (
        "diffusion", "gan", "merf", "network", "particles", "public_network", "relaxed", "relaxed_points",
        "slice_fdiv", "slice_wass", "voted_gan",
    )  # fmt: skip
    for method in METHODS.values():
        assert method.extra == ("gpu" if method.fitter in torch else ""), method.name


def test_the_glossary_has_the_words_that_commands_and_guarantees_use() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    words = set(_glossary())
    facts = Guarantee(1.0, 1e-9, 0.01, Neighbours(), "gdp").facts
    asked = {name for name, _ in facts} - {"protects"} | {"unit", "owner", "adjacency"}
    verbs = {"measure", "choose", "discover", "post-processing", "count", "given", "absorb", "strict"}
    kinds = {
        "ledger",
        "book",
        "cap",
        "refusal",
        "retire",
        "plan",
        "report",
        "release",
        "schema",
        "dummy rows",
    }
    assert asked | verbs | kinds <= words
    for phrase in (
        "Gaussian mechanisms (GDP)",
        "concentrated differential privacy (zCDP)",
        "Rényi divergence",
    ):
        assert phrase in page


def _glossary() -> list[str]:
    """The words of the glossary, as often as they are explained."""
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \|", page, flags=re.MULTILINE)
    return [word.strip() for row in rows for word in row.split(",")]


def _public_callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Public functions and columns, and the methods of what is fitted and what is drawn from."""
    for name in margrave.__all__:
        value = getattr(margrave, name)
        if (
            inspect.isfunction(value)
            or value in (margrave.Synthesizer, margrave.Schema, margrave.Unit)
            or (inspect.isclass(value) and (issubclass(value, Column) or value is margrave.TextFormat))
        ):
            yield name, value
    for owner in (margrave.Synthesizer, margrave.Synthesis):
        for name, value in inspect.getmembers(owner, inspect.isfunction):
            if not name.startswith("_"):
                yield f"{owner.__name__}.{name}", value


def test_every_public_argument_is_in_the_glossary() -> None:
    words = set(_glossary())
    for name, value in _public_callables():
        missing = set(inspect.signature(value).parameters) - words - {"self"}
        assert not missing, f"{name}: docs/glossary.md, Arguments, lacks {sorted(missing)}"


def test_the_glossary_has_no_argument_that_is_gone() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").split("## Arguments")[1]
    rows = re.findall(r"^\| ([^|-]+) \|", page, flags=re.MULTILINE)[1:]
    known = {name for _, value in _public_callables() for name in inspect.signature(value).parameters}
    assert {word.strip() for row in rows for word in row.split(",")} <= known


def test_a_word_is_explained_once_in_each_part_of_the_glossary() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    for part in page.split("\n## ")[1:]:
        rows = re.findall(r"^\| ([^|]+) \|", part, flags=re.MULTILINE)
        words = [word.strip() for row in rows for word in row.split(",")]
        assert len(words) == len(set(words)), sorted(word for word in words if words.count(word) > 1)


def test_the_page_on_epsilon_has_the_figures_of_its_line_of_python() -> None:
    page = (ROOT / "docs" / "epsilon.md").read_text(encoding="utf-8")
    for epsilon in (0.1, 0.5, 1, 2, 4, 8):
        factor = math.exp(epsilon)
        most = [factor * p / (1 - p + factor * p) for p in (0.01, 0.1, 0.5)]
        assert f"| {epsilon:g} | {' | '.join(f'{100 * one:.1f} %' for one in most)} |" in page
