"""write_page: the report of a benchmark, from its Parquet: Markdown, LaTeX and pictures. **Not private.**

The same results give the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from margrave.benchmark import markdown, pictures
from margrave.benchmark.markdown import latex
from margrave.benchmark.results import Findings, read_results
from margrave.errors import InputError, invalid
from margrave.files import check_writable, write_text

INTRODUCTION = """Written by `margrave bench report` from the outcomes of `margrave bench`; edit nothing here.
**Not private**: scores are exact functions of the tables. Every method learned from the same rows and made
as many, in a process of its own with one thread, and all were scored by the same code under
the same cuts. A figure is the mean over runs ± half of its 95 % Student interval; ↓ means lower is better.
*real* puts the rows that were learned from in the place of the synthetic ones, *bootstrap* as many drawn from
them with replacement, *shuffled* the same rows with each column shuffled by itself."""
SETTINGS = """delta {delta:g}, add or remove one row; {share:.0%} of the rows held out; seed {seed} for split,
sampling and metrics. The noise is secure and has no seed, so another run gives other figures, inside the
intervals for the most part. The tables are also in `{tex}`."""
GLANCE = """Mean of log2(error / {against}'s error) over tables and epsilons, and over how many of them: -1 is
half the error, +1 twice. A score of which higher is better counts as its distance from the best there is."""
DRAWN = """Whiskers are 95 % intervals, drawn to half and to twice the mean at most."""
TIMES = """Of fit and sample, imports left out, the loading of compiled code not; medians over runs. Processor
seconds are what other work on the machine stretches least. The peak is that of the whole process until its
rows were made, the program and the table among it."""


def check_page(path: Path, param: str) -> None:
    """Check that a page can be written, before anything is run for it.

    Raises:
        InputError: It cannot.
    """
    if path.suffix != ".md":
        raise InputError(invalid(param, "a file ending in .md", "Rename it.", got=str(path)))
    check_writable(path, param)


def write_page(
    folder: Path, out: Path, *, metrics: Sequence[str] | None = None, against: str = "aim"
) -> list[Path]:
    """Write the report of a benchmark.

    Args:
        folder: The benchmark's folder.
        out: The Markdown page. The tables go beside it as LaTeX, the pictures into pictures/NAME beside it.
        metrics: Which to show; all by default.
        against: The method that errors are divided by.

    Returns:
        The files, the page first.

    Raises:
        InputError: The folder holds no benchmark, a metric is not there, or a file cannot be written.
    """
    check_page(out, "out")
    found = Findings(read_results(folder / "results.parquet"), metrics)
    if not found.methods or not found.epsilons:
        raise InputError(invalid("folder", "one with a method besides references", "Run one."))
    drawn = _draw_pictures(found, against)
    home = out.parent / "pictures" / out.stem
    home.mkdir(parents=True, exist_ok=True)
    for name, (_, text) in drawn.items():
        write_text(home / f"{name}.svg", text)
    tex = out.with_suffix(".tex")
    write_text(tex, latex(found))
    links = {name: f"![{title}](pictures/{out.stem}/{name}.svg)" for name, (title, _) in drawn.items()}
    write_text(out, _write_page(found, _read_description(folder), links, against, tex.name))
    return [out, tex, *(home / f"{name}.svg" for name in drawn)]


def _read_description(folder: Path) -> dict[str, Any]:
    try:
        told = json.loads((folder / "benchmark.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        told = {}
    return {"data": {}, "methods": {}, "settings": {}} | (told if isinstance(told, dict) else {})


def _draw_pictures(found: Findings, against: str) -> dict[str, tuple[str, str]]:
    """Title and document of each picture, by the name of its file."""
    drawn: dict[str, tuple[str, str]] = {}
    heads = [name for name in pictures.HEADLINES if name in found.metrics] or [
        name for name in found.metrics if found.facts(name).better == "lower"
    ][:1]
    for metric in heads:
        drawn[f"error-{metric}"] = (f"{metric} by epsilon", pictures.errors(found, metric))
    if heads:
        title = f"{heads[0]} by processor seconds"
        drawn["efficiency"] = (title, pictures.efficiency(found, heads[0]))
    learnt = next((name for name in pictures.LEARNING_METRICS if name in found.metrics), None)
    if learnt is not None:
        drawn["learning"] = (f"{learnt} by method", pictures.draw_learning(found, learnt))
    shown = [name for name in pictures.RATIOS if name in found.metrics]
    if against in found.methods and len(found.methods) > 1 and shown:
        for epsilon in found.epsilons:
            title = f"log2 ratio of errors to {against}'s at epsilon {epsilon:g}"
            drawn[f"ratios-{epsilon:g}"] = (title, pictures.ratios(found, shown, epsilon, against))
    return drawn


def _write_page(
    found: Findings, told: Mapping[str, Any], links: Mapping[str, str], against: str, tex: str
) -> str:
    parts = [
        "# Benchmark",
        INTRODUCTION,
        SETTINGS.format(**({"delta": 0.0, "share": 0.0, "seed": 0} | told["settings"]), tex=tex),
        "## Tables",
        markdown.tables(found, told),
        "## Methods",
        _list_methods(found, told),
        "## At a glance",
        GLANCE.format(against=against),
        markdown.glance(found, against),
        "## Pictures",
        DRAWN,
        *links.values(),
        *(part for name in found.tables for part in (f"## Scores: {name}", markdown.scores(found, name))),
        "## Time and memory",
        TIMES,
        markdown.timings(found),
        "## Failures",
        markdown.failures(found),
        "## Metrics",
        markdown.metric_list(found),
        "## Where it ran",
        markdown.machines(found),
    ]
    return "\n\n".join(parts) + "\n"


def _list_methods(found: Findings, told: Mapping[str, Any]) -> str:
    rows = [
        [name, told["methods"].get(name, {}).get("title", "")] for name in (*found.methods, *found.references)
    ]
    return markdown.table(["method", "what it is"], rows)
