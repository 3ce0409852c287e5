"""How well the distribution fits the tables that were released."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from margrave.report.markup import Markup, join, named, tag
from margrave.report.numerals import count, fixed, percent
from margrave.report.released import Fit, Fitted, Released
from margrave.report.tables import row, table

__all__ = ["TableFits", "clique_text", "fit_row"]

WORST = 8
FIT_HEADS = ("Table", "Cells", "Distance", "Noise floor", "Ratio", "Within noise")


@dataclass(frozen=True, slots=True)
class TableFits:
    """The fit to every measured table.

    Args:
        fits: One for each distinct measured table, in order of release; None without a distribution.
        name: What the distribution is.
    """

    fits: tuple[Fit, ...] | None
    name: str

    @classmethod
    def of(cls, released: Released, fitted: Fitted) -> TableFits:
        """Compare the distribution with every measured table."""
        shares = fitted.shares(released.cliques)
        if shares is None:
            return cls(None, "nothing")
        pairs = zip(released.cliques, shares, strict=True)
        return cls(
            tuple(released.fit(released.measured(clique), share) for clique, share in pairs), fitted.name
        )

    def render(self) -> Markup:
        """The section of the page."""
        if not self.fits:
            return tag("p", "There is no distribution to compare with the released tables.")
        good = sum(fit.within for fit in self.fits)
        worst = sorted(self.fits, key=lambda fit: -fit.ratio)[:WORST]
        return join(
            tag(
                "p",
                tag("strong", f"{percent(good / len(self.fits), 0)} of the measured tables"),
                (
                    f" ({good} of {count(len(self.fits))}) are fitted by the {self.name} as closely as "
                    "their noise lets anyone tell: the distance is no larger than noise alone would "
                    "often make it."
                ),
                class_="lead",
            ),
            tag(
                "p",
                (
                    f"The noise itself moves a released table of one column by {_middle(self.fits, 1)} "
                    f"and of two columns by {_middle(self.fits, 2)} of all rows (medians of the distance). "
                    "This is the size of error to expect between a released table and the private one."
                ),
            ),
            table(
                f"The {len(worst)} tables fitted worst", FIT_HEADS, [fit_row(fit) for fit in worst], numeric=5
            ),
            tag(
                "p",
                (
                    "This verdict is made of released quantities alone, so it speaks of the tables "
                    "that were measured. What was not measured is inferred, and its error is not known "
                    "here."
                ),
                class_="note",
            ),
        )


def fit_row(fit: Fit) -> Markup:
    """One table's fit as a line."""
    return row(
        clique_text(fit.clique),
        count(fit.cells),
        fixed(fit.distance, 4),
        fixed(fit.floor, 4),
        f"{fixed(fit.ratio, 2)}",
        "yes" if fit.within else "no",
        numeric=5,
        css=None if fit.within else "beyond",
    )


def clique_text(clique: Sequence[str]) -> Markup:
    """The names of a clique."""
    parts = [join(" × " if place else "", named(name, limit=32)) for place, name in enumerate(clique)]
    return join(*parts)


def _middle(fits: Sequence[Fit], width: int) -> str:
    floors = [fit.floor for fit in fits if len(fit.clique) == width]
    return fixed(median(floors), 4) if floors else "(none measured)"
