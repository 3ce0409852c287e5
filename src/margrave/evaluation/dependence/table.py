"""The metrics of dependence and what each says about itself."""

from __future__ import annotations

from margrave.evaluation.dependence.orders import OrderBroken
from margrave.evaluation.dependence.ranks import RankSlope
from margrave.evaluation.dependence.shares import DependenceInvented, DependenceKept
from margrave.evaluation.score import Facts
from margrave.evaluation.task import Metric

__all__ = ["DEPENDENCE"]

PAIRS = "one table of counts a pair of columns, all pairs"

DEPENDENCE: tuple[Metric, ...] = (
    DependenceInvented(
        Facts(
            "dependence_invented",
            "Mean over all pairs of columns of the dependence that the synthetic table has beyond the real "
            "one and beyond sampling noise, as a share of the most that its margins allow.",
            source="docs/metrics.md, dependence",
            cost=PAIRS,
            reads="rows",
        )
    ),
    DependenceKept(
        Facts(
            "dependence_kept",
            "Share of the dependence of pairs of columns, above what independence and sampling noise give, "
            "that the synthetic table has cell by cell too; what it invents does not count.",
            better="higher",
            goal=1.0,
            source="docs/metrics.md, dependence",
            cost=PAIRS,
            reads="rows",
        )
    ),
    OrderBroken(
        Facts(
            "order_broken",
            "Share of synthetic rows that break an order of two columns, such as a first date before a last "
            "one, that no real row breaks though independent columns would.",
            source="docs/metrics.md, order",
            cost="one scan of two columns a pair, most of which end at once",
            reads="values",
        )
    ),
    RankSlope(
        Facts(
            "rank_slope",
            "Slope through the origin of the synthetic on the real rank correlations, over all pairs of "
            "columns of numbers or ordered codes: 1 if they are kept, 0 if they are lost.",
            better="higher",
            low=None,
            high=None,
            goal=1.0,
            source="docs/metrics.md, rank correlations; Spearman 1904",
            cost="one sort a column and one product of the rows with themselves",
            reads="values",
        )
    ),
)
"""In the order of their names."""
