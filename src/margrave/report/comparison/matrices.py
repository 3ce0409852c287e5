"""Every pair of columns: how far each table is off, and how strongly columns depend on each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.report.heat import MOST_NAMES, MOST_TABLES, Cell, triangle, triangle_legend
from margrave.report.html import Markup, join, mark_name, row, table, tag
from margrave.report.numerals import format_fixed, fraction, percent
from margrave.report.release.pairs import ASSOCIATION_LEVELS, level

if TYPE_CHECKING:
    from margrave.evaluation.review import Review

TV_LEVELS = (0.01, 0.02, 0.05, 0.1)
SIGNED_LEVELS = (-0.4, -0.1, 0.1, 0.4)
TV_WORDS = ("at most 1%", "to 2%", "to 5%", "to 10%", "above 10%")
V_WORDS = ("at most 0.05", "to 0.1", "to 0.2", "to 0.4", "above 0.4")
SIGNED_WORDS = ("at most −0.4", "to −0.1", "to 0.1", "to 0.4", "above 0.4")
PAIRS_DESCRIBED = 15
NO_VALUE = "not computed: too large, or one value only"
MOST_CELLS = 1400
"""Cells of all pictures of a section together, so that the page stays small."""

Matrix = NDArray[np.float64]


def pairs_section(review: Review) -> Markup:
    """The section of the page about errors of pairs."""
    pairs = review.first.pairs
    if len(pairs.names) < 2:
        return tag("p", "There is one column, so there are no pairs.")
    shown = {name: one.pairs.tv for name, one in list(review.comparisons.items())[:MOST_TABLES]}
    drawn = [
        _figure(
            pairs.names,
            tv,
            TV_LEVELS,
            "q",
            TV_WORDS,
            f"tv{at}",
            f"Error of each pair: {name}",
            shares=True,
            among=len(shown),
        )
        for at, (name, tv) in enumerate(shown.items())
    ]
    return join(
        tag(
            "p",
            "The share of rows that would have to change for the table of two columns to agree with the "
            "real one: its total variation.",
        ),
        _cut(pairs.names, len(shown)),
        tag("div", *drawn, class_="heats"),
        _largest(review),
    )


def correlation_section(review: Review) -> Markup:
    """The section of the page about dependence: Cramér's V of all columns, Pearson's r of numbers."""
    pairs = review.first.pairs
    if len(pairs.names) < 2:
        return tag("p", "There is one column, so there is nothing to depend on it.")
    values = {"real rows": pairs.real}
    values |= {name: one.pairs.synthetic for name, one in list(review.comparisons.items())[:MOST_TABLES]}
    drawn = [
        _figure(
            pairs.names,
            v,
            ASSOCIATION_LEVELS,
            "q",
            V_WORDS,
            f"v{at}",
            f"Cramér's V: {name}",
            among=len(values),
        )
        for at, (name, v) in enumerate(values.items())
    ]
    return join(
        tag("p", "How strongly two columns depend on each other: 0 not at all, 1 if one decides the other."),
        _cut(pairs.names, len(values)),
        tag("div", *drawn, class_="heats"),
        _draw_signed(review),
    )


def _draw_signed(review: Review) -> Markup | None:
    found = review.correlations
    if found is None:
        return None
    shown = dict(list(found.tables.items())[: MOST_TABLES + 1])
    drawn = [
        _figure(
            found.names, r, SIGNED_LEVELS, "d", SIGNED_WORDS, f"r{at}",
            f"Pearson's r: {'real rows' if name == 'real' else name}", among=len(shown), signed=True,
        )
        for at, (name, r) in enumerate(shown.items())
    ]  # fmt: skip
    return join(
        tag("h3", "Numeric columns"),
        tag(
            "p",
            "Pearson's coefficient of raw numbers: 1 if they rise together on a line, −1 if one falls as "
            "the other rises.",
        ),
        tag("div", *drawn, class_="heats"),
    )


def _count_fitting(names: Sequence[str], among: int) -> int:
    """How many columns fit into each of several pictures."""
    most = math.isqrt(2 * MOST_CELLS // max(among, 1))
    return min(len(names), most, MOST_NAMES)


def _cut(names: Sequence[str], among: int) -> Markup | None:
    kept = _count_fitting(names, among)
    return tag("p", f"The pictures show the first {kept} columns.") if kept < len(names) else None


def _figure(
    names: Sequence[str],
    values: Matrix,
    levels: tuple[float, ...],
    palette: str,
    words: Sequence[str],
    key: str,
    title: str,
    *,
    among: int,
    shares: bool = False,
    signed: bool = False,
) -> Markup:
    names = names[: _count_fitting(names, among)]
    cells = {}
    for i, j in combinations(range(len(names)), 2):
        value, text = float(values[i, j]), f"{names[i]} × {names[j]}"
        if math.isnan(value):
            cells[names[i], names[j]] = Cell(None, "", f"{text}: {NO_VALUE}")
            continue
        shown = f"{100 * value:.0f}" if shares else _short(value) if signed else fraction(value)
        spoken = percent(value) if shares else format_fixed(value)
        cells[names[i], names[j]] = Cell(level(value, levels), shown, f"{text}: {spoken}")
    drawn = triangle(names, cells, palette, key, title, _describe_largest(cells))
    entries = [(f"{palette}{at}", text) for at, text in enumerate(words)]
    return tag("figure", tag("figcaption", tag("strong", f"{title}.")), drawn, triangle_legend(entries))


def _short(value: float) -> str:
    text = fraction(abs(value))
    return f"−{text}" if value < -0.005 else text


def _describe_largest(cells: dict[tuple[str, str], Cell]) -> str:
    known = [cell for cell in cells.values() if cell.level is not None]
    known.sort(key=lambda cell: -(cell.level or 0))
    return f"Among the largest: {'; '.join(cell.spoken for cell in known[:5])}." if known else "No values."


def _largest(review: Review) -> Markup:
    """The pairs that differ most in any table."""
    pairs = review.first.pairs
    matrices = [one.pairs for one in review.comparisons.values()]
    worst = np.max([np.nan_to_num(one.tv, nan=-1.0) for one in matrices], axis=0)
    places = sorted(combinations(range(len(pairs.names)), 2), key=lambda place: -worst[place])[
        :PAIRS_DESCRIBED
    ]
    lines = []
    for i, j in places:
        if worst[i, j] < 0:
            continue
        cells = [percent(one.tv[i, j]) for one in matrices]
        cells += [format_fixed(pairs.real[i, j]), *(format_fixed(one.synthetic[i, j]) for one in matrices)]
        text = join(mark_name(pairs.names[i], limit=32), " × ", mark_name(pairs.names[j], limit=32))
        lines.append(row(text, *cells, numeric=len(cells)))
    heads = ["Pair", *(f"Rows to change, {name}" for name in review.names), "Cramér's V, real"]
    heads += [f"Cramér's V, {name}" for name in review.names]
    return table(f"The {len(lines)} pairs that differ most", heads, lines, numeric=len(heads) - 1)
