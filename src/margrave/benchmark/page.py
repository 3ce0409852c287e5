"""The pages of a benchmark, from its Parquet: Markdown, LaTeX and pictures. **Not private.**

The same results give the same bytes. `write_page` writes the report of all methods. What `write_standing`
writes, below, holds one method against the best of some others, setting by setting: a mean over tables hides
a method that fails on one of them. Here every table, epsilon and metric is held against the best of the
others by itself, and those where the method is worse are marked.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from margrave.benchmark import markdown, pictures
from margrave.benchmark.markdown import figure, latex, table
from margrave.benchmark.results import Findings, read_results
from margrave.errors import InputError, invalid
from margrave.evaluation.score import Facts, Summary
from margrave.files import check_writable, write_text

INTRODUCTION = """Written by `margrave bench report` from the outcomes of `margrave bench`; edit nothing here.
**Not private**: scores are exact functions of the tables. Every method learned from the same rows and made
as many, in a process of its own with one thread, and all were scored by the same code under
the same cuts. A figure is the mean over runs ± half of its 95 % Student interval; ↓ means lower is better.
*real* puts the rows that were learned from in the place of the synthetic ones, *bootstrap* as many drawn from
them with replacement, *shuffled* the same rows with each column shuffled by itself."""
SETTINGS = """delta {delta:g}, add or remove one row; {share:.0%} of the rows held out; seed {seed} for split,
sampling and metrics. The noise is secure and has no seed, so another run of the same code gives other
figures{inside}. The tables are also in `{tex}`."""
INSIDE = ", inside the intervals for the most part"
RUNS = """A cell keeps the day and the commit of the code that made it (+: changed since that commit); code
that came later may give other figures. Tables and runs are those that were done, of those that were tried; a
limit is of a whole cell, in seconds of wall time."""
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
    """Write the report of a benchmark; what the folder's words.md says comes after the introduction.

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
    told, words = _read_description(folder), _read_words(folder)
    write_text(out, _write_page(found, told, words, links, against, tex.name))
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
    found: Findings,
    told: Mapping[str, Any],
    words: Sequence[str],
    links: Mapping[str, str],
    against: str,
    tex: str,
) -> str:
    parts = [
        "# Benchmark",
        INTRODUCTION,
        _write_settings(found, told, tex),
        *words,
        "## Tables",
        markdown.tables(found, told),
        "## Methods",
        _list_methods(found, told),
        "## When it ran",
        RUNS,
        markdown.list_runs(found.ordered),
        "## At a glance",
        *([GLANCE.format(against=against)] if against in found.methods else []),
        markdown.glance(found, against),
        "## Pictures",
        *([] if _is_alone(found) else [DRAWN]),
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


def _write_settings(found: Findings, told: Mapping[str, Any], tex: str) -> str:
    said = {"delta": 0.0, "share": 0.0, "seed": 0} | told["settings"]
    written = SETTINGS.format(**said, inside="" if _is_alone(found) else INSIDE, tex=tex)
    return f"{written}\n{markdown.describe_repeats(found)}".rstrip()


def _is_alone(found: Findings) -> bool:
    """Whether every cell has one run, so that there are no intervals."""
    return markdown.describe_repeats(found) == markdown.ALONE


def _read_words(folder: Path) -> list[str]:
    """What whoever ran the benchmark says of it: the folder's words.md, if there is one."""
    path = folder / "words.md"
    return [path.read_text(encoding="utf-8").strip()] if path.is_file() else []


def _list_methods(found: Findings, told: Mapping[str, Any]) -> str:
    rows = [
        [name, told["methods"].get(name, {}).get("title", "")] for name in (*found.methods, *found.references)
    ]
    return markdown.table(["method", "what it is"], rows)


LEAST_HIGHER = 0.01
"""A score of which higher is better counts as worse from this much on."""
LEAST_LOWER = 0.0002
"""An error counts as worse from this much on, however small the best one is."""
SPREADS = 2.0
"""A difference is beyond the spread if it is more than as many standard errors of itself."""
STANDING_INTRODUCTION = """Written by `margrave bench standing`; edit nothing here. **Not private.** {half}

Each cell holds the mean of *{method}* over its runs against the best mean of {rivals}, and the ratio of
the two errors: below 1 *{method}* is better. The error of a score is its distance from the score of equal
tables, or from the best there is. **worse** marks a difference of more than {tolerance:.0%} (scores of which
higher is better: of more than {least:g}) that is beyond the spread, two standard errors over runs; *worse?*
one that is within it. **failed**: a rival has a value, *{method}* has none."""
HALVES = {
    "choosing": "The tables are of the choosing half of the nursery: constants may be chosen on them.",
    "reporting": "The tables are of the reporting half of the nursery: nothing may be chosen by them.",
    "": "The tables are of neither half of the nursery.",
}


@dataclass(frozen=True, slots=True)
class Standing:
    """One method against the best of others, for one table, epsilon and metric.

    Args:
        table: The table's name.
        epsilon: As it is.
        metric: The metric's name.
        value: The method's mean; NaN if it has none.
        best: The best mean of a rival.
        rival: Whose it is.
        ratio: The method's error over the rival's; NaN if one of them is 0 or not there.
        verdict: "" (not worse), "worse?" (within the spread), "worse" or "failed".
    """

    table: str
    epsilon: float
    metric: str
    value: float
    best: float
    rival: str
    ratio: float
    verdict: str

    def __str__(self) -> str:
        """As in a cell of the page."""
        mark = {"": "", "worse?": " *worse?*"}.get(self.verdict, f" **{self.verdict}**")
        ratio = "" if math.isnan(self.ratio) else f", {self.ratio:.2f}"
        return f"{figure(self.value) or 'none'} / {figure(self.best)} ({self.rival}{ratio}){mark}"


def find_standings(
    found: Findings, method: str, rivals: Sequence[str], tolerance: float = 0.03
) -> tuple[Standing, ...]:
    """How a method stands in every table, epsilon and metric that a rival has a value in.

    Args:
        found: The outcomes of a benchmark.
        method: The method.
        rivals: Those of which the best is taken, by the mean of each setting.
        tolerance: An error may be greater by this share.

    Raises:
        InputError: The method or all rivals were not run.
    """
    there = [rival for rival in rivals if rival in found.methods and rival != method]
    if method not in found.methods or not there:
        known = f"methods of the folder, {list(found.methods)}"
        raise InputError(invalid("method and rivals", known, "Run them first.", got=[method, *rivals]))
    standings = []
    for name in found.tables:
        for epsilon in found.epsilons:
            for metric in found.metrics:
                one = _find_standing(found, (name, epsilon, metric), method, there, tolerance)
                standings += [one] if one is not None else []
    return tuple(standings)


def _find_standing(
    found: Findings,
    setting: tuple[str, float, str],
    method: str,
    rivals: Sequence[str],
    tolerance: float,
) -> Standing | None:
    name, epsilon, metric = setting
    facts = found.facts(metric)
    scores = {rival: found.score(name, rival, epsilon, metric) for rival in rivals}
    known = {rival: score for rival, score in scores.items() if score is not None}
    if not known:
        return None
    rival = min(known, key=lambda one: _measure_error(facts, known[one].mean))
    best, own = known[rival], found.score(name, method, epsilon, metric)
    if own is None:
        ran = bool(found.runs(name, method, epsilon)) or _has_failed(found, name, method, epsilon)
        verdict = "failed" if ran else ""
        return Standing(*setting, math.nan, best.mean, rival, math.nan, verdict)
    errors = _measure_error(facts, own.mean), _measure_error(facts, best.mean)
    ratio = errors[0] / errors[1] if min(errors) > 0 else math.nan
    least = LEAST_HIGHER if facts.better == "higher" else max(LEAST_LOWER, tolerance * errors[1])
    verdict = ""
    if errors[0] - errors[1] > least:
        verdict = "worse" if errors[0] - errors[1] > _measure_spread(own, best) else "worse?"
    return Standing(*setting, own.mean, best.mean, rival, ratio, verdict)


def _has_failed(found: Findings, name: str, method: str, epsilon: float) -> bool:
    return any(
        (one["data"], one["method"], one["epsilon"]) == (name, method, epsilon) for one in found.failures
    )


def _measure_error(facts: Facts, mean: float) -> float:
    """The distance of a mean from the score of equal tables, or from the best there is."""
    if facts.goal is not None:
        return abs(mean - facts.goal)
    if facts.better == "lower":
        return mean
    return (facts.high if facts.high is not None else 1.0) - mean


def _measure_spread(first: Summary, second: Summary) -> float:
    """As many standard errors of the difference of two means; a single run counts as one without error."""
    squares = [one.spread**2 / one.runs for one in (first, second) if one.runs > 1]
    return SPREADS * math.sqrt(math.fsum(squares))


def write_standing(
    folder: Path, out: Path, *, method: str = "auto", rivals: Sequence[str] = (), tolerance: float = 0.03
) -> tuple[Standing, ...]:
    """Write the page of a benchmark's standings, and give them.

    Args:
        folder: The benchmark's folder.
        out: The Markdown page.
        method: The method to hold against others.
        rivals: Those others; AIM, batched and MST by default.
        tolerance: An error may be greater by this share.

    Raises:
        InputError: The folder holds no such benchmark, or the page cannot be written.
    """
    check_page(out, "out")
    rivals = tuple(rivals) or ("aim", "batched", "mst")
    found = Findings(read_results(folder / "results.parquet"))
    standings = find_standings(found, method, rivals, tolerance)
    introduction = STANDING_INTRODUCTION.format(
        half=HALVES[_read_half(folder)],
        method=method,
        rivals=", ".join(rivals),
        tolerance=tolerance,
        least=LEAST_HIGHER,
    )
    worse = [one for one in standings if one.verdict in ("worse", "failed")]
    listed = [f"- {one.table}, epsilon {one.epsilon:g}, `{one.metric}`: {one}" for one in worse]
    parts = [
        f"# How {method} stands",
        introduction,
        "## By metric",
        _summarise_metrics(found, standings, method, rivals),
        "## Where it is worse",
        "\n".join(listed) or "Nowhere.",
        "## Every setting",
        _list_settings(found, standings),
    ]
    write_text(out, "\n\n".join(parts) + "\n")
    return standings


def _read_half(folder: Path) -> str:
    try:
        told = json.loads((folder / "benchmark.json").read_text(encoding="utf-8"))["data"]
        halves = {entry.get("half", "") for entry in told.values()} - {""}
    except (OSError, ValueError, KeyError, AttributeError):
        halves = set()
    return halves.pop() if len(halves) == 1 else ""


def _summarise_metrics(
    found: Findings, standings: Sequence[Standing], method: str, rivals: Sequence[str]
) -> str:
    """A line a metric: in how many settings it is worse, and geometric means of the ratios of errors."""
    there = [rival for rival in rivals if rival in found.methods]
    sides = [standings, *(find_standings(found, method, [rival]) for rival in there)]
    rows = []
    for metric in found.metrics:
        mine = [one for one in standings if one.metric == metric]
        counts = [sum(one.verdict == word for one in mine) for word in ("worse", "worse?", "failed")]
        means = [_mean_ratio([one.ratio for one in side if one.metric == metric]) for side in sides]
        rows.append([metric, str(len(mine)), *map(str, counts), *means])
    heads = ["metric", "settings", "worse", "worse?", "failed", "error over the best's"]
    return table([*heads, *(f"over {rival}'s" for rival in there)], rows)


def _mean_ratio(ratios: Sequence[float]) -> str:
    known = [math.log(ratio) for ratio in ratios if ratio > 0]
    return f"{math.exp(math.fsum(known) / len(known)):.2f}" if known else ""


def _list_settings(found: Findings, standings: Sequence[Standing]) -> str:
    cells = {(one.table, one.epsilon, one.metric): str(one) for one in standings}
    rows = [
        [name, f"{epsilon:g}", *(cells.get((name, epsilon, metric), "") for metric in found.metrics)]
        for name in found.tables
        for epsilon in found.epsilons
        if any((name, epsilon, metric) in cells for metric in found.metrics)
    ]
    return table(["table", "epsilon", *found.metrics], rows)
