"""Columns and pairs of columns of a release.

Each column first: the released distribution beside that of the model or the synthetic rows. Then each pair:
the fit where it was measured, and how strongly the two are associated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from margrave.evaluation.distance import cramers_v
from margrave.report.html import (
    MAX_LISTED,
    Markup,
    count,
    details,
    format_fixed,
    fraction,
    join,
    mark_name,
    percent,
    row,
    table,
    tag,
)
from margrave.report.pictures import Distribution, legend, picture, tail_of
from margrave.report.release.fit import (
    FIT_HEADS,
    MAX_CELLS_OF_PAIRS,
    Estimate,
    Fit,
    Fitted,
    Released,
    clique_text,
    fit_row,
    rows_share,
)
from margrave.report.triangle import MOST_NAMES, Cell, triangle
from margrave.schema.columns import Binned, Column, Listed, Relative
from margrave.schema.domain import Clique
from margrave.schema.encoded import Encoded
from margrave.schema.schema import Schema

MOST_CARDS = 100
"""Columns that have a picture of their own, at most, so that the page stays small. Not measured."""


@dataclass(frozen=True, slots=True, eq=False)
class Sides:
    """The distributions that the pictures set against each other.

    Args:
        released: The released tables.
        fitted: The fitted distribution.
        synthetic: Synthetic rows; drawn instead of the model when given.
    """

    released: Released
    fitted: Fitted
    synthetic: Encoded | None

    @property
    def name(self) -> str:
        """What the second distribution in a picture is."""
        return "synthetic rows" if self.synthetic is not None else self.fitted.name


def columns_section(schema: Schema, sides: Sides) -> Markup:
    """The section of the page."""
    columns = schema.attributes[:MOST_CARDS]
    shares = sides.fitted.shares([(column.name,) for column in columns])
    cards = [
        _column(column, place, sides, None if shares is None else shares[place])
        for place, column in enumerate(columns)
    ]
    left = len(schema.attributes) - len(columns)
    colours = [("s1", "released, with ±2σ of noise")]
    if shares is not None:
        colours.append(("s2", sides.name))
    return join(
        tag(
            "p",
            (
                "For each column, the noisy counts that were released, with error bars of two "
                "standard deviations of their noise, beside the distribution made from them. A "
                "count of noise alone is as likely below zero as above it; such bars are drawn as "
                "they are. Each bar is one value or one bin, and bins may differ in width."
            ),
        ),
        legend(colours),
        figures(cards),
        tag("p", f"{count(left)} more columns are in the release and not drawn here.") if left else None,
    )


def figures(cards: list[Markup]) -> Markup:
    """Cards in a grid."""
    return tag("div", *cards, class_="cards")


def card(name: str, facts: Markup, drawn: Markup, numbers: Markup) -> Markup:
    """One column's picture with what belongs to it."""
    return tag(
        "article",
        tag("h3", mark_name(name, limit=48)),
        tag("p", facts, class_="meta"),
        drawn,
        numbers,
        class_="card",
    )


def _column(column: Column, place: int, sides: Sides, model: NDArray[np.float64] | None) -> Markup:
    estimate = sides.released.estimate((column.name,))
    second = model
    if sides.synthetic is not None:
        second = rows_share(sides.synthetic, (column.name,))
    if estimate is None:
        return _draw_unmeasured(column, place, sides, second)
    rows = sides.released.rows
    distribution = Distribution.of(
        column.kind,
        labels_of(column),
        tail_of(column),
        estimate.values / rows,
        second,
        2 * estimate.sigmas / rows,
    )
    name = sides.name if second is not None else None
    title = f"Distribution of {column.name}"
    drawn = picture(distribution, f"c{place}", title, ("released", name))
    return card(
        column.name, _meta(column, estimate, sides, model), drawn, _numbers(column.name, distribution, name)
    )


def labels_of(column: Column) -> tuple[str, ...]:
    """A label for each code."""
    if isinstance(column, Listed | Binned | Relative):
        return column.labels
    return ()


def _meta(column: Column, estimate: Estimate, sides: Sides, model: NDArray[np.float64] | None) -> Markup:
    alone = (column.name,) in estimate.sources
    tables = f"{count(len(estimate.sources))} released table{'s' if len(estimate.sources) != 1 else ''}"
    parts: list[Markup] = [join(f"{column.kind}, {count(column.size)} code{'s' if column.size != 1 else ''}")]
    if model is not None:
        fit = sides.released.fit(estimate, model)
        parts.append(_distance(sides.fitted.name, fit.distance))
    if sides.synthetic is not None and sides.fitted.name != "synthetic rows":
        fit = sides.released.fit(estimate, rows_share(sides.synthetic, (column.name,)))
        parts.append(_distance("synthetic", fit.distance))
    floor = sides.released.fit(estimate, estimate.values / sides.released.rows).floor
    parts.append(join("noise floor ", tag("strong", format_fixed(floor, 4))))
    parts.append(join(f"from {tables}" + ("" if alone else ", none of this column alone")))
    return join(*[tag("span", part) for part in parts])


def _distance(name: str, distance: float) -> Markup:
    return join(f"distance to {name} ", tag("strong", format_fixed(distance, 4)))


def _numbers(name: str, distribution: Distribution, second: str | None) -> Markup:
    heads = ["Value", "Released", "± 2σ", *([second.capitalize()] if second else [])]
    lines = []
    for bar in distribution.bars:
        cells = [percent(bar.first, 2), percent(bar.margin or 0, 2)]
        if bar.second is not None:
            cells.append(percent(bar.second, 2))
        lines.append(row(mark_name(bar.label, limit=40), *cells, numeric=len(cells)))
    more = " (neighbouring or rare values together)" if distribution.shortened else ""
    return details("Numbers", table(f"{name}, shares of rows{more}", heads, lines, numeric=len(heads) - 1))


def _draw_unmeasured(column: Column, place: int, sides: Sides, second: NDArray[np.float64] | None) -> Markup:
    meta = join(
        tag("span", f"{column.kind}, {count(column.size)} codes"),
        tag("span", "not measured; the model's value is an inference"),
    )
    if second is None:
        return card(column.name, meta, join(), join())
    distribution = Distribution.of(column.kind, labels_of(column), tail_of(column), second)
    drawn = picture(distribution, f"c{place}", f"Distribution of {column.name}", (sides.name, None))
    return tag("div", card(column.name, meta, drawn, join()), class_="inferred")


LARGEST_LISTED = 10
"""Pairs that are listed openly, those of the largest misfit; set for reading, not measured."""
MAX_PAIR_CELLS = 250_000
"""Cells of a table up to which the association of its pair is shown, a bound on time. Not measured."""
FIT_LEVELS = (0.75, 1.0, 1.25, 2.0)
"""Misfits over the noise at which the colour of a pair changes; set for reading, not measured."""
ASSOCIATION_LEVELS = (0.05, 0.1, 0.2, 0.4)
"""Cramér's V at which the colour of a pair changes; set for reading, not measured."""
ASSOCIATION_WORDS = ("at most 0.05", "to 0.1", "to 0.2", "to 0.4", "above 0.4")
INFERRED = "not measured; the model's value is an inference"


def pairs_section(sides: Sides) -> Markup:
    """The section of the page."""
    names = sides.released.domain.names
    if len(names) < 2:
        return tag("p", "There is one column, so there are no pairs.")
    fits = _fits(sides)
    strengths = _strengths(sides)
    shown = _names_shown(names, sides.released.pairs)
    everything = list(combinations(names, 2))
    measured = set(sides.released.pairs)
    inferred = [pair for pair in everything if pair not in measured]
    return join(
        tag(
            "p",
            (
                f"{count(len(measured))} of {count(len(everything))} pairs of columns were "
                f"measured, alone or inside a larger table. The other {count(len(inferred))} were "
                "not measured; the model's value of each is an inference."
            ),
        ),
        tag("p", describe_larger_groups(sides.released)) if len(names) > 2 else None,
        tag("p", f"The pictures show the {MOST_NAMES} columns that were measured most.")
        if shown != names
        else None,
        tag("div", _fit_figure(shown, fits), _strength_figure(shown, strengths, measured), class_="heats"),
        _largest(fits),
        _list_inferred(inferred, strengths),
    )


def describe_larger_groups(released: Released) -> str:
    """What is known of dependence among three or more columns that none of their pairs shows."""
    measured = [clique for clique in released.cliques if len(clique) > 2]
    looks = [look for look in released.appraisals if look.columns == 3]
    if not looks and not measured:
        return (
            "Dependence among three or more columns that none of their pairs shows, such as where one column "
            "says whether two others differ, was not looked for, and the model does not have it."
        )
    if not looks:
        tables = "table" if len(measured) == 1 else "tables"
        return (
            f"{count(len(measured))} {tables} of three or more columns measured. Dependence among other "
            "columns that none of their pairs shows was not looked for."
        )
    groups = sum(look.marginals for look in looks)
    least = format_fixed(min(look.largest for look in looks) / (2 * released.rows), 3)
    result = (
        f"found in {count(len(measured))} of them, each of which was measured"
        if measured
        else "not found in any"
    )
    return (
        "Dependence among three columns that none of their pairs shows was looked for in "
        f"{count(groups)} groups of three columns and {result}. Noise would have hidden what moves the "
        f"table of a group by a total variation of less than about {least}. Among more columns it was "
        "not looked for."
    )


def pair_figure(
    names: Sequence[str],
    cells: Mapping[tuple[str, str], Cell],
    palette: str,
    key: str,
    title: str,
    description: str,
    words: Sequence[str],
    *,
    note: str = "",
    empty: str = "",
) -> Markup:
    """A picture of pairs with its title above it, and below it what its colours mean.

    Args:
        names, cells, palette, key, title, description: As for `triangle`.
        words: What each colour means, from level 0 on.
        note: A sentence behind the title.
        empty: What an empty place means, where that has to be said.
    """
    entries = [(f"{palette}{place}", text) for place, text in enumerate(words)]
    entries += [("empty", empty)] if empty else []
    caption = tag("figcaption", tag("strong", f"{title}. " if note else f"{title}."), note or None)
    drawn = triangle(names, cells, palette, key, title, description)
    return tag("figure", caption, drawn, legend(entries))


def level(value: float, levels: Sequence[float]) -> int:
    """The number of levels that a value reaches."""
    return sum(value > bound for bound in levels)


def _fits(sides: Sides) -> dict[Clique, Fit]:
    pairs = sides.released.pairs
    shares = sides.fitted.shares(pairs)
    if shares is None:
        return {}
    fits = {}
    for pair, share in zip(pairs, shares, strict=True):
        estimate = sides.released.estimate(pair)
        if estimate is not None:
            fits[pair] = sides.released.fit(estimate, share)
    return fits


def _strengths(sides: Sides) -> dict[Clique, float]:
    """Cramér's V of the pairs whose table is small enough."""
    domain = sides.released.domain
    wanted: list[Clique] = []
    cells = 0
    for pair in combinations(domain.names, 2):
        size = domain.size(pair)
        if size <= MAX_PAIR_CELLS and cells + size <= MAX_CELLS_OF_PAIRS:
            wanted.append(pair)
            cells += size
    if sides.synthetic is not None:
        rows = sides.synthetic
        return {pair: cramers_v(rows_share(rows, pair)) for pair in wanted}
    shares = sides.fitted.shares(wanted)
    return (
        {} if shares is None else {pair: cramers_v(share) for pair, share in zip(wanted, shares, strict=True)}
    )


def _names_shown(names: tuple[str, ...], measured: Sequence[Clique]) -> tuple[str, ...]:
    """At most MOST_NAMES names, those measured most, in the table's order."""
    if len(names) <= MOST_NAMES:
        return names
    often = Counter(name for pair in measured for name in pair)
    kept = set(sorted(names, key=lambda name: -often[name])[:MOST_NAMES])
    return tuple(name for name in names if name in kept)


def _fit_figure(names: tuple[str, ...], fits: dict[Clique, Fit]) -> Markup:
    cells = {}
    for pair in combinations(names, 2):
        text = f"{pair[0]} × {pair[1]}"
        fit = fits.get(pair)
        if fit is None:
            cells[pair] = Cell(None, "", f"{text}: {INFERRED}")
            continue
        ratio, distance = format_fixed(fit.ratio, 2), format_fixed(fit.distance, 4)
        spoken = f"{text}: {ratio} times the noise floor (distance {distance})"
        cells[pair] = Cell(level(fit.ratio, FIT_LEVELS), format_fixed(fit.ratio, 1), spoken)
    return pair_figure(
        names,
        cells,
        "f",
        "fit",
        "Fit of the measured pairs",
        "Distance between the released and the fitted table of each measured pair, in "
        "units of the noise floor.",
        ("at most 0.75", "to 1", "to 1.25", "to 2", "above 2"),
        note="Distance over noise floor: about 1 is noise alone.",
        empty="not measured",
    )


def _strength_figure(names: tuple[str, ...], strengths: dict[Clique, float], measured: set[Clique]) -> Markup:
    if not strengths:
        return join()
    cells = {}
    for pair in combinations(names, 2):
        text = f"{pair[0]} × {pair[1]}"
        value = strengths.get(pair)
        if value is None:
            cells[pair] = Cell(None, "", f"{text}: too large to compute here")
            continue
        origin = "measured" if pair in measured else INFERRED
        cells[pair] = Cell(
            level(value, ASSOCIATION_LEVELS), fraction(value), f"{text}: {format_fixed(value, 3)}, {origin}"
        )
    return pair_figure(
        names,
        cells,
        "q",
        "strength",
        "Association in the fitted distribution",
        "Cramér's V of each pair in the fitted distribution, from 0 to 1.",
        ASSOCIATION_WORDS,
        note="Cramér's V: 0 none, 1 complete.",
    )


def _largest(fits: dict[Clique, Fit]) -> Markup | None:
    if not fits:
        return None
    ranked = sorted(fits.values(), key=lambda fit: -fit.ratio)
    top = table(
        "Measured pairs with the largest distance over noise floor",
        FIT_HEADS,
        [fit_row(fit) for fit in ranked[:LARGEST_LISTED]],
        numeric=5,
    )
    rest = ranked[LARGEST_LISTED : LARGEST_LISTED + MAX_LISTED]
    if not rest:
        return top
    return join(
        top,
        details(
            f"{count(len(rest))} more measured pairs",
            table("More measured pairs", FIT_HEADS, [fit_row(fit) for fit in rest], numeric=5),
        ),
    )


def _list_inferred(pairs: Sequence[Clique], strengths: dict[Clique, float]) -> Markup | None:
    if not pairs:
        return None
    ranked = sorted(pairs, key=lambda pair: -strengths.get(pair, -1.0))
    lines = []
    for pair in ranked[:MAX_LISTED]:
        value = strengths.get(pair)
        lines.append(
            row(
                clique_text(pair),
                INFERRED,
                "not computed" if value is None else format_fixed(value, 3),
                numeric=1,
            )
        )
    more = len(ranked) - len(lines)
    return details(
        f"{count(len(pairs))} pairs that were not measured",
        table("Pairs that were not measured", ("Pair", "Status", "Cramér's V"), lines, numeric=1),
        tag("p", f"and {count(more)} more") if more else None,
    )
