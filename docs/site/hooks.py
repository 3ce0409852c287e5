"""Pages of the site that are made and not written, for MkDocs: see mkdocs.yml.

- `index.md` is the README, with the links turned to where the pages lie in the site;
- `bench/*.md`, `CHANGELOG.md` and `CONTRIBUTING.md` are taken from where they are in the repository;
- `commands.md` has every command and option, asked of the command line;
- `reference/*.md` has every public name, by module, for mkdocstrings;
- `bibliography.md` is made from `references.bib`.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path, PurePosixPath
from posixpath import relpath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
OUTSIDE = (
    "bench/LEADERBOARD.md",
    "bench/BENCHMARK.md",
    "bench/LOG.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
)
"""Pages of the repository that do not lie in docs/ and are part of the site all the same."""
MODULES = {
    "margrave": "The front doors, kinds of columns and releases.",
    "margrave.rules": "What a user declares about rows.",
    "margrave.select": "Strategies: which marginals to buy.",
    "margrave.models": "Fitters and models: from marginals to rows.",
    "margrave.slicing": "A noisy copy of every row of a matrix, and generators trained against it.",
    "margrave.images": "Grey pictures of classes as tables, and back.",
    "margrave.regression": "Regressions from a release, with intervals.",
    "margrave.datasets": "Tables to try things on.",
    "margrave.errors": "What is raised.",
}
"""Modules of public names, as a user writes them, and what each is about."""
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?\)")
"""A link of Markdown to a file: its text, the file and the anchor."""


def on_config(config: Any) -> Any:
    """Fills in the navigation: the reference, and the pages of methods in the order of their names."""
    for entry in config["nav"]:
        if isinstance(entry, dict) and "Python" in entry:
            entry["Python"] = [{module: reference_page(module)} for module in MODULES]
        if isinstance(entry, dict) and "Methods" in entry:
            pages = sorted(f"methods/{page.name}" for page in (ROOT / "docs" / "methods").glob("*.md"))
            entry["Methods"] += [page for page in pages if page not in entry["Methods"]]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages that are made."""
    made = {"index.md": (ROOT / "README.md").read_text(encoding="utf-8")}
    made |= {page: (ROOT / page).read_text(encoding="utf-8") for page in OUTSIDE}
    made["commands.md"] = write_commands()
    made["bibliography.md"] = write_bibliography(ROOT / "docs" / "references.bib")
    made |= {reference_page(module): write_reference(module) for module in MODULES}
    for page, text in made.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turns links that are right in the repository into links that are right in the site."""
    return turn_links(markdown, PurePosixPath(page.file.src_uri))


def turn_links(markdown: str, page: PurePosixPath) -> str:
    """Links of a page of the site, from where its source lies in the repository.

    Files of the repository that are no part of the site, such as the licence, are named and not linked.
    """
    source = PurePosixPath("README.md") if str(page) == "index.md" else page
    if str(source) not in (*OUTSIDE, "README.md"):
        source = "docs" / source

    def turn(found: re.Match[str]) -> str:
        target = relpath_from(source.parent, found[2])
        if target == "README.md":
            inside = "index.md"
        elif target in OUTSIDE:
            inside = target
        elif target.startswith("docs/"):
            inside = target.removeprefix("docs/")
        else:
            return found[1] if (ROOT / target).exists() else found[0]
        return f"[{found[1]}]({relpath(inside, str(page.parent))}{found[3] or ''})"

    return LINK.sub(turn, markdown)


def relpath_from(folder: PurePosixPath, link: str) -> str:
    """A link seen from a folder of the repository, as a path from its root."""
    return relpath(str(folder / link), ".")


def reference_page(module: str) -> str:
    """The page of a module's public names."""
    return f"reference/{module}.md"


def home_of(value: Any, module: str, name: str) -> str:
    """The dotted path by which the documentation of a public name is found."""
    where = getattr(value, "__module__", None)
    return f"{where}.{getattr(value, '__name__', name)}" if where else f"{module}.{name}"


def write_reference(module: str) -> str:
    """One page: a module's docstring and each of its public names."""
    names = import_module("margrave")
    found = names if module == "margrave" else getattr(names, module.removeprefix("margrave."))
    lines = [f"# `{module}`", "", MODULES[module], ""]
    for name in found.__all__:
        value = getattr(found, name)
        if type(value).__name__ == "module":
            lines += [f"## {name}", "", f"A module: [`margrave.{name}`](margrave.{name}.md).", ""]
        elif isinstance(value, type) or callable(value):
            lines += [f"::: {home_of(value, found.__name__, name)}", ""]
        else:
            lines += [f"## {name}", "", f"`{value!r}`" if isinstance(value, str | int | float) else "", ""]
    return "\n".join(lines)


def write_commands() -> str:
    """Every command with its arguments and options, from the command line itself."""
    import typer.main

    from margrave.cli.app import app

    lines = ["# Commands", "", "Made from the command line; `margrave COMMAND --help` says the same.", ""]
    lines += describe_command(typer.main.get_command(app), "margrave", 2)
    return "\n".join(lines)


def describe_command(command: Any, path: str, level: int) -> list[str]:
    """The section of one command, and those of its subcommands."""
    import typer

    subcommands = getattr(command, "commands", {})
    lines = [f"{'#' * level} `{path}`", "", (command.help or "").replace("\b", "").strip(), ""]
    rows = []
    for parameter in command.get_params(typer.Context(command)):
        if parameter.name in ("help", "install_completion", "show_completion"):
            continue
        words = ", ".join(f"`{word}`" for word in (*parameter.opts, *parameter.secondary_opts))
        if parameter.param_type_name == "argument":
            words = f"`{(parameter.metavar or parameter.name).upper()}`"
        meaning = (parameter.help or "").replace("|", r"\|").replace("\n", " ")
        rows.append(f"| {words} | {meaning} | {show_default(parameter)} |")
    if rows:
        lines += ["| argument or option | what it says | default |", "| --- | --- | --- |", *rows, ""]
    for name in sorted(subcommands):
        lines += describe_command(subcommands[name], f"{path} {name}", min(level + 1, 4))
    return lines


def show_default(parameter: Any) -> str:
    """What is taken where a parameter is not given."""
    if parameter.required:
        return "needed"
    value = parameter.default
    if value is None or value is False or callable(value) or value in ((), []):
        return ""
    return f"`{value}`"


ENTRY = re.compile(r"@\w+\{(\w+),(.*?)\n\}", re.DOTALL)
FIELD = re.compile(r"^\s*(\w+)\s*=\s*\{(.*?)\},?\s*$", re.MULTILINE)


def read_references(path: Path) -> dict[str, dict[str, str]]:
    """The entries of a file of references, by key; each field on a line of its own, in braces."""
    text = path.read_text(encoding="utf-8")
    return {key: dict(FIELD.findall(body)) for key, body in ENTRY.findall(text)}


def write_bibliography(path: Path) -> str:
    """The page of what margrave builds on, by first author and year."""
    lines = ["# Bibliography", "", "As BibTeX: `docs/references.bib`.", ""]
    for _, entry in sorted(read_references(path).items()):
        authors = entry["author"].replace(" and ", ", ")
        parts = [f"{authors} ({entry['year']}).", f"{entry['title']}."]
        parts += [f"{entry[field]}." for field in ("booktitle", "journal") if field in entry]
        if "eprint" in entry:
            parts.append(f"arXiv {entry['eprint']}.")
        if "doi" in entry:
            parts.append(f"doi {entry['doi']}.")
        if "note" in entry:
            parts.append(f"*{entry['note']}*")
        lines.append(f"- {' '.join(parts)}")
    return "\n".join([*lines, ""])
