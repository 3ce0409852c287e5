"""Tables of pages in docs/ that are made from the code: `python docs/site/write_tables.py` writes them.

Each stands between two comments of its page, of which the first names the table. With `--check` nothing is
written, and the exit code is 1 if a page is not what the code says.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path

from margrave.evaluation.metrics.registry import METRICS
from margrave.methods import METHODS

DOCS = Path(__file__).resolve().parents[1]


def main() -> None:
    """Write the tables, or say which pages are not what the code says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a page is stale")
    check = parser.parse_args().check
    made = {page: fill(page) for page in PAGES}
    stale = [page for page, text in made.items() if read(page) != text]
    if check and stale:
        sys.exit(f"Not what the code says: {', '.join(stale)}. Run: python docs/site/write_tables.py")
    for page in stale:
        (DOCS / page).write_text(made[page], encoding="utf-8", newline="\n")
        print(f"written: docs/{page}")
    if not stale:
        print("nothing to write")


def read(page: str) -> str:
    """The text of a page of docs/."""
    return (DOCS / page).read_text(encoding="utf-8")


def fill(page: str) -> str:
    """The text of a page with its table as the code has it.

    Raises:
        ValueError: The page has no place for the table, or several.
    """
    name, write = PAGES[page]
    start, end = f"<!-- {name}, written by docs/site/write_tables.py -->", f"<!-- end of {name} -->"
    text = read(page)
    if text.count(start) != 1 or text.count(end) != 1:
        raise ValueError(f"docs/{page} must have one line {start} and one line {end}")
    before, rest = text.split(start)
    return f"{before}{start}\n\n{write()}\n\n{end}{rest.split(end)[1]}"


def write_row(*cells: str) -> str:
    """A row of a table of Markdown."""
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def write_table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table of Markdown."""
    return "\n".join([write_row(*heads), "|" + " --- |" * len(heads), *(write_row(*row) for row in rows)])


def write_metrics() -> str:
    """A row for every metric, in the order of names: what its `Facts` say."""
    heads = ("Name", "What it is", "Better", "Range", "Two equal tables", "Reads", "Source")
    rows = []
    for name, metric in METRICS.items():
        facts = metric.facts
        equal = "discloses" if facts.discloses else "depends" if facts.goal is None else f"{facts.goal:.4g}"
        better = f"{facts.better}, single columns" if facts.single_columns else facts.better
        source = link_sections(facts.source, "metrics.md")
        rows.append(
            (
                f"`{name}`",
                facts.definition,
                better,
                write_range(facts.low, facts.high),
                equal,
                facts.reads,
                source,
            )
        )
    return write_table(heads, rows)


def write_range(low: float | None, high: float | None) -> str:
    """The values that a score can have, None for an end that there is not."""
    if low is None:
        return "any" if high is None else f"up to {high:.4g}"
    return f"{low:.4g} up" if high is None else f"{low:.4g} to {high:.4g}"


def link_sections(source: str, page: str) -> str:
    """A source with its mentions of pages of docs/, and of sections of the page it stands on, as links.

    Raises:
        ValueError: It names the page that it stands on, without a section.
    """
    here = rf"docs/{re.escape(page)}, ([a-z0-9 -]+)"
    linked = re.sub(here, lambda found: f"[below](#{found[1].replace(' ', '-')})", source)
    if f"docs/{page}" in linked:
        raise ValueError(f"source {source!r} must name a section: docs/{page}, section in lower case")
    return re.sub(r"docs/([\w-]+\.md)", r"[\1](\1)", linked)


def write_methods() -> str:
    """A row for every method, in the order of names: what `METHODS` says, with the link to its page."""
    heads = ("Method", "What it is", "Selector", "Generator", "Source")
    rows = []
    for name, method in sorted(METHODS.items()):
        inside = method.page.startswith("methods/")
        link = method.page.removeprefix("methods/") if inside else f"../{method.page}"
        source = re.sub(r"docs/([\w-]+\.md)", "margrave", method.source)
        summary = f"{method.summary} Needs `margrave[{method.extra}]`." if method.extra else method.summary
        selector, generator = f"`{type(method.strategy()).__name__}`", f"`{method.fitter}`"
        rows.append((f"[`{name}`]({link})", summary, selector, generator, source))
    return write_table(heads, rows)


PAGES: dict[str, tuple[str, Callable[[], str]]] = {
    "metrics.md": ("metrics", write_metrics),
    "methods/README.md": ("methods", write_methods),
}
"""By page, the name of its table and what writes it."""

if __name__ == "__main__":
    main()
