"""Each column: the released distribution beside that of the model or the synthetic rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from margrave.report.bars import Distribution, legend, picture, tail_of
from margrave.report.html import Markup, details, join, mark_name, row, table, tag
from margrave.report.numerals import count, format_fixed, percent
from margrave.report.release.fit import Estimate, Fitted, Released, rows_share
from margrave.schema.columns import Binned, Column, Listed, Relative
from margrave.schema.encoded import Encoded
from margrave.schema.schema import Schema

MOST_CARDS = 100


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
    second = sides.name if shares is not None else None
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
        legend("released, with ±2σ of noise", second),
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
    estimate = sides.released.told((column.name,))
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
