"""A benchmark's findings as LaTeX tables, laid out as table 2 of Chen et al. 2025. **Not private.**"""

from __future__ import annotations

import math

from margrave.benchmark.findings import Findings
from margrave.benchmark.markdown import figure
from margrave.evaluation.summary import Summary

__all__ = ["latex"]

SPECIAL = {
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
    return "\n\n".join([said, *(_table(found, metric) for metric in found.metrics)]) + "\n"


def _table(found: Findings, metric: str) -> str:
    count = len(found.epsilons)
    heads = [rf"\multicolumn{{{count}}}{{c}}{{{_escaped(name)}}}" for name in found.tables]
    rules = "".join(
        rf"\cmidrule(lr){{{2 + k * count}-{1 + (k + 1) * count}}}" for k in range(len(found.tables))
    )
    under = [f"{epsilon:g}" for _ in found.tables for epsilon in found.epsilons]
    lines = [_row(found, method, metric) for method in found.methods]
    lines += [r"\midrule"] + [_row(found, name, metric) for name in found.references]
    facts = found.facts(metric)
    caption = _escaped(f"{metric}: {facts.definition} {facts.better.capitalize()} is better.")
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


def _row(found: Findings, method: str, metric: str) -> str:
    cells = [
        _cell(found.score(name, method, epsilon, metric))
        for name in found.tables
        for epsilon in found.epsilons
    ]
    return " & ".join([_escaped(method), *cells]) + r" \\"


def _cell(summary: Summary | None) -> str:
    if summary is None:
        return "--"
    half = (summary.interval[1] - summary.interval[0]) / 2
    mean = figure(summary.mean)
    return f"${mean}$" if math.isnan(half) or half == 0 else rf"${mean}_{{\pm {figure(half, 2)}}}$"


def _escaped(text: str) -> str:
    return "".join(SPECIAL.get(letter, letter) for letter in text)
