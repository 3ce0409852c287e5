"""A benchmark's findings as Markdown, and as LaTeX. **Not private.**

The LaTeX tables are laid out as table 2 of Chen et al. 2025.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from margrave.benchmark.results import Findings, Outcome
from margrave.evaluation.score import Summary

SIGNIFICANT_DIGITS = 3
"""Significant digits of a mean."""


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(_plain_cell(cell) for cell in line) + " |" for line in lines)


def _plain_cell(cell: str) -> str:
    return " ".join(cell.split()).replace("|", "\\|")


def figure(value: float | None, digits: int = SIGNIFICANT_DIGITS) -> str:
    """A number to some significant digits; nothing for none."""
    if value is None or math.isnan(value):
        return ""
    if value == 0:
        return "0"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:.{places}f}" if places <= 8 else f"{value:.{digits - 1}e}"


def _write_summary(summary: Summary | None) -> str:
    """A mean and half of its interval; how many runs where that is one."""
    if summary is None:
        return ""
    mean = figure(summary.mean)
    half = (summary.interval[1] - summary.interval[0]) / 2
    return mean if math.isnan(half) or half == 0 else f"{mean} ± {figure(half, 2)}"


def tables(found: Findings, told: Mapping[str, Any]) -> str:
    """The data sets: rows, columns, what they are."""
    rows = []
    for name in found.tables:
        first = next((one for one in found.outcomes if one["data"] == name and one["train_rows"]), None)
        sizes = ["", "", ""]
        if first is not None:
            sizes = [f"{first[key]:,}" for key in ("train_rows", "held_out_rows", "columns")]
        entry = told["data"].get(name, {})
        rows.append([name, *sizes, entry.get("title", ""), entry.get("source", "")])
    return table(["table", "rows to learn from", "held out", "columns", "what it is", "source"], rows)


def glance(found: Findings, against: str) -> str:
    """Mean log2 ratio of each method's errors to another's, over all tables and epsilons."""
    if against not in found.methods:
        return (
            f"{against} was not run, so there is nothing to hold the methods against: name one that was, "
            f"such as `margrave bench report FOLDER --against {found.methods[0]}`."
        )
    rows = []
    for metric in found.metrics:
        cells = []
        for method in found.methods:
            ratios = [
                found.ratio(name, method, epsilon, metric, against)
                for name in found.tables
                for epsilon in found.epsilons
            ]
            there = [ratio for ratio in ratios if ratio is not None]
            mean = math.fsum(there) / len(there) if there else math.nan
            cells.append("" if not there else f"{mean:+.2f} ({len(there)})")
        rows.append([metric, *cells])
    return table(["metric", *found.methods], rows)


def scores(found: Findings, name: str) -> str:
    """One table's scores: a row a method and epsilon, references last, a column a metric."""
    heads = ["epsilon", "method", *(_head_metric(found, metric) for metric in found.metrics)]
    rows = []
    for epsilon in found.epsilons:
        for method in found.methods:
            if found.runs(name, method, epsilon):
                rows.append([f"{epsilon:g}", method, *_write_row(found, name, method, epsilon)])
    for method in found.references:
        if found.runs(name, method, None):
            rows.append(["", f"*{method}*", *_write_row(found, name, method, None)])
    return table(heads, rows)


def _write_row(found: Findings, name: str, method: str, epsilon: float | None) -> list[str]:
    return [_write_summary(found.score(name, method, epsilon, metric)) for metric in found.metrics]


def _head_metric(found: Findings, metric: str) -> str:
    return f"{metric} {'↓' if found.facts(metric).better == 'lower' else '↑'}"


def timings(found: Findings) -> str:
    """Seconds and memory of synthesis: a row a table, epsilon and method."""
    rows = []
    for name in found.tables:
        for epsilon in found.epsilons:
            for method in found.methods:
                runs = found.runs(name, method, epsilon)
                if runs:
                    rows.append(
                        [
                            name,
                            f"{epsilon:g}",
                            method,
                            *_write_costs(found, name, method, epsilon),
                            str(len(runs)),
                        ]
                    )
    heads = ["table", "epsilon", "method", "fit, s", "sample, s", "processor, s", "peak, MB", "runs"]
    return table(heads, rows)


def _write_costs(found: Findings, name: str, method: str, epsilon: float) -> list[str]:
    fields = ("fit_seconds", "sample_seconds", "synthesis_cpu_seconds")
    seconds = [figure(found.middle(name, method, epsilon, field), 2) for field in fields]
    peak = found.middle(name, method, epsilon, "synthesis_peak_bytes")
    return [*seconds, "" if peak is None else f"{peak / 1e6:,.0f}"]


def failures(found: Findings) -> str:
    """Cells that failed, with the stage they had come to and the reason."""
    if not found.failures:
        return "None."
    rows = [
        [
            str(one["data"]),
            str(one["method"]),
            "" if one["epsilon"] is None else f"{one['epsilon']:g}",
            str(one["repeat"]),
            str(one["status"]),
            str(one["stage"] or ""),
            str(one["reason"]),
        ]
        for one in found.failures
    ]
    return table(["table", "method", "epsilon", "repeat", "how", "stage", "reason"], rows)


def list_runs(outcomes: Sequence[Outcome]) -> str:
    """When the cells of each method ran, on which code, how often each, and under which limits."""
    cells: dict[tuple[str, str], list[Outcome]] = {}
    for one in outcomes:
        cells.setdefault((str(one["method"]), str(one.get("day") or "not recorded")), []).append(one)
    rows = []
    for method in dict.fromkeys(str(one["method"]) for one in outcomes):
        for day in sorted(day for name, day in cells if name == method):
            there = cells[method, day]
            done = [one for one in there if one["status"] == "done"]
            tables = {str(one["data"]) for one in there}, {str(one["data"]) for one in done}
            commits = {str(one["versions"].get("commit", "not recorded")) for one in there}
            limits = sorted({one["max_seconds"] for one in there if one.get("max_seconds") is not None})
            rows.append(
                [
                    method,
                    day,
                    ", ".join(sorted(commits)),
                    f"{len(tables[1])} of {len(tables[0])}",
                    f"{len(done)} of {len(there)}",
                    ", ".join(f"{seconds:g}" for seconds in limits),
                ]
            )
    return table(["method", "day", "commits", "tables", "runs done", "limits, s"], rows)


ALONE = "One run a cell: no figure has an interval, and no difference a standard error."


def describe_repeats(found: Findings) -> str:
    """What the runs a cell, of methods whose noise differs between runs, say of intervals."""
    counts = {
        len(runs)
        for name in found.tables
        for method in found.methods
        for epsilon in found.epsilons
        if (runs := found.runs(name, method, epsilon))
    }
    if max(counts, default=0) <= 1:
        return ALONE
    if min(counts) == 1:
        return "Figures without an interval are of one run."
    return ""


def machines(found: Findings) -> str:
    """Every machine and set of versions that cells ran on, with how many cells did."""
    counted: dict[str, int] = {}
    for one in found.outcomes:
        facts, packages = one["machine"], dict(one["versions"])
        shown = ", ".join(f"{name} {packages[name]}" for name in sorted(packages))
        memory = f"{facts.get('memory', 0) / 1e9:.0f} GB"
        line = f"{facts.get('cpu')}, {facts.get('cores')} cores, {memory}, {facts.get('system')}; "
        line += f"{one['workers']} at a time; {shown}"
        counted[line] = counted.get(line, 0) + 1
    return "\n".join(f"- {count} cells: {line}" for line, count in sorted(counted.items()))


def metric_list(found: Findings) -> str:
    """What each metric means."""
    rows = []
    for metric in found.metrics:
        facts = found.facts(metric)
        rows.append(
            [f"`{metric}`", f"{facts.definition} {facts.better.capitalize()} is better.", facts.source]
        )
    return table(["metric", "what it means", "source"], rows)


LATEX_ESCAPES = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def latex(found: Findings) -> str:
    """One table a metric: a row a method, a column a table and epsilon. Needs booktabs and graphicx."""
    said = "% Tables of a benchmark, written by margrave bench report; they need booktabs and graphicx."
    return "\n\n".join([said, *(_write_table(found, metric) for metric in found.metrics)]) + "\n"


def _write_table(found: Findings, metric: str) -> str:
    count = len(found.epsilons)
    heads = [rf"\multicolumn{{{count}}}{{c}}{{{_escape_text(name)}}}" for name in found.tables]
    rules = "".join(
        rf"\cmidrule(lr){{{2 + k * count}-{1 + (k + 1) * count}}}" for k in range(len(found.tables))
    )
    under = [f"{epsilon:g}" for _ in found.tables for epsilon in found.epsilons]
    lines = [_latex_row(found, method, metric) for method in found.methods]
    lines += [r"\midrule"] + [_latex_row(found, name, metric) for name in found.references]
    facts = found.facts(metric)
    caption = _escape_text(f"{metric}: {facts.definition} {facts.better.capitalize()} is better.")
    parts = [
        r"\begin{table}",
        rf"\caption{{{caption} Means with half of 95\% intervals over runs.}}",
        r"\resizebox{\textwidth}{!}{%",
        rf"\begin{{tabular}}{{l{'c' * (count * len(found.tables))}}}",
        r"\toprule",
        " & ".join(["", *heads]) + r" \\",
        rules,
        " & ".join([r"$\varepsilon$", *under]) + r" \\",
        r"\midrule",
        *lines,
        r"\bottomrule",
        r"\end{tabular}}",
        r"\end{table}",
    ]
    return "\n".join(parts)


def _latex_row(found: Findings, method: str, metric: str) -> str:
    cells = [
        _write_cell(found.score(name, method, epsilon, metric))
        for name in found.tables
        for epsilon in found.epsilons
    ]
    return " & ".join([_escape_text(method), *cells]) + r" \\"


def _write_cell(summary: Summary | None) -> str:
    if summary is None:
        return "--"
    half = (summary.interval[1] - summary.interval[0]) / 2
    mean = figure(summary.mean)
    return f"${mean}$" if math.isnan(half) or half == 0 else rf"${mean}_{{\pm {figure(half, 2)}}}$"


def _escape_text(text: str) -> str:
    return "".join(LATEX_ESCAPES.get(letter, letter) for letter in text)
