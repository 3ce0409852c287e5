"""What every number on a page means."""

from __future__ import annotations

from collections.abc import Sequence

from margrave.report.html import Child, Markup, tag

DEFINITIONS: tuple[tuple[str, str], ...] = (
    (
        "Noisy table",
        ("The number of rows for each combination of values of some columns, plus random noise in each."),
    ),
    (
        "σ (sigma)",
        (
            "Standard deviation of the noise in one cell, in rows. Two thirds of the noise is "
            "smaller, 95% is smaller than 2σ."
        ),
    ),
    ("N", "The number of rows the release stands for: public, or itself released with noise."),
    (
        "Distance",
        (
            "Half the sum over all cells of the absolute difference between two tables of shares. The "
            "released table is divided by N, the other by its own sum. Between two tables without noise it "
            "is "
            "the total variation, from 0 to 1. Noisy counts may be below zero and need not add up to N, so "
            "against a released table it passes 1 where noise is larger than what it hides."
        ),
    ),
    (
        "Noise floor",
        (
            "The distance to expect if noise were the only difference: sqrt(2/π) times the sum "
            "of σ over the cells, divided by 2N. For whole numbers it is exact to a few "
            "percent once σ is above 1."
        ),
    ),
    (
        "Ratio",
        (
            "Distance divided by noise floor. About 1 is what noise alone gives; a "
            "distribution fitted to few tables can be below it, since it follows some of the "
            "noise."
        ),
    ),
    (
        "Within noise",
        (
            "Distance at most the noise floor plus two standard deviations of the distance "
            "that noise alone gives."
        ),
    ),
    (
        "Released table of a column",
        ("All released tables that contain the column, summed to it and averaged with weights 1/σ²."),
    ),
    (
        "Cramér's V",
        (
            "Association of two columns in a table of shares p: V² = (Σ p²ᵢⱼ/(pᵢ pⱼ) − "
            "1)/(min(r, c) − 1), over the r and c values that occur. 0 if independent, 1 if "
            "one decides the other."
        ),
    ),
    (
        "Sensitivity",
        ("The most that one unit can change the exact answer, as a length (L2), a sum (L1) or a score."),
    ),
    (
        "ρ (rho)",
        (
            "Cost of an answer. Gaussian noise: sensitivity² / (2σ²). Laplace noise: ε²/2. A "
            "choice by the exponential mechanism: ε²/8. Costs of all answers add up; under "
            "Gaussian accounting μ² = 2ρ."
        ),
    ),
    ("Share, cumulative", "ρ of a line over the ρ allowed; ρ of a line and all before it."),
    (
        "Threshold",
        (
            "A value found in the table is named only if its noisy count reaches the "
            "threshold; δ of the line bounds the probability that a value held by one unit "
            "alone is named."
        ),
    ),
    (
        "Codes",
        (
            "Number of distinct values or bins of a column in the release, with one for "
            "missing and one for other values where there may be any."
        ),
    ),
)


def definitions(entries: Sequence[tuple[str, Child]]) -> Markup:
    """A list of terms."""
    return tag(
        "dl", *[tag("div", tag("dt", term), tag("dd", text)) for term, text in entries], class_="terms"
    )
