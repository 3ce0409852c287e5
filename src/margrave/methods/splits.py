"""How strategies split rho, from their settings alone: what a plan says before anything is spent.

Which marginals an adaptive strategy will buy is not known before it runs. Where that decides what one gets, a
typical number of marginals stands in, and the function says which.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from margrave.protocols import Strategy

__all__ = ["ONE", "PAIR", "marginal_shares", "stage_shares"]

ONE, PAIR = "one-way marginal", "pair"
Shares = dict[str, Fraction]
ONE_WAYS, MEASURE, CHOOSE, APPRAISE = "one-way marginals", "measure", "choose", "appraise"
TENTH = Fraction(1, 10)
"""What `Fixed` and `AllKWay` keep for one-ways, and AIM for its draws."""
THIRD = Fraction(1, 3)


def stage_shares(strategy: Strategy, counted: bool) -> Shares:
    """The share of rho of each stage; they sum to 1.

    Args:
        strategy: With its settings. One that is not in `STAGES` only measures, as far as is known.
        counted: Whether something tells the number of rows before the strategy runs: discovery, or the
            adjacency.
    """
    found = STAGES.get(strategy.name)
    shares = {MEASURE: Fraction(1)} if found is None else found(strategy, counted)
    return {stage: share for stage, share in shares.items() if share}


def marginal_shares(strategy: Strategy, columns: int) -> Shares:
    """The share of rho that one typical one-way marginal and one typical pair get.

    Args:
        strategy: With its settings.
        columns: How many there are; with one there is no pair.
    """
    found = MARGINALS.get(strategy.name)
    shares = {ONE: Fraction(1, max(columns, 1))} if found is None else found(strategy, max(columns, 1))
    return {what: share for what, share in shares.items() if what == ONE or columns > 1}


def _by_ones(strategy: Any, looks: Fraction, pairs: str = "pairs") -> Shares:
    return {ONE_WAYS: strategy.ones, APPRAISE: looks, pairs: 1 - strategy.ones - looks}


def _all_pairs(strategy: Any, counted: bool) -> Shares:
    """As where noise is small and no triples are found.

    Whether pairs are screened instead, and what is spent on triples, is known once one-ways are released.
    """
    rest = 1 - Fraction(strategy.ones)
    look = rest * strategy.look
    return {ONE_WAYS: strategy.ones, "pairs alike": look, "pairs by dependence": rest - look}


def _top_q(strategy: Any, counted: bool) -> Shares:
    count = Fraction(0) if counted else Fraction(strategy.count)
    told = (1 - count) * _told(strategy)
    choose = (1 - count - told) * strategy.choosing
    return {"count": count, "pairs of the target": told, CHOOSE: choose, MEASURE: 1 - count - told - choose}


def _told(strategy: Any) -> Fraction:
    """What `TopQ` keeps for the target's pairs."""
    return Fraction(0) if strategy.target is None else Fraction(strategy.told)


def _all_kway(strategy: Any, counted: bool) -> Shares:
    return {ONE_WAYS: Fraction(1)} if strategy.degree == 1 else {ONE_WAYS: TENTH, MEASURE: 1 - TENTH}


STAGES: dict[str, Callable[[Any, bool], Shares]] = {
    "aim": lambda strategy, counted: {MEASURE: 1 - TENTH, CHOOSE: TENTH},
    "all_kway": _all_kway,
    "all_pairs": _all_pairs,
    "batched": lambda strategy, counted: _by_ones(strategy, (1 - strategy.ones) * strategy.looks),
    "fixed": lambda strategy, counted: (
        {ONE_WAYS: TENTH, MEASURE: 1 - TENTH} if strategy.one_ways else {MEASURE: Fraction(1)}
    ),
    # With numbers and with listed columns; where there are none of one kind, the other gets all.
    "mean_embedding": lambda strategy, counted: {
        "weights": TENTH,
        "features": (1 - TENTH) / 2,
        "pairs with the label": (1 - TENTH) / 2,
    },
    "mst": lambda strategy, counted: {ONE_WAYS: THIRD, CHOOSE: THIRD, "pairs": THIRD},
    "privmrf": lambda strategy, counted: _by_ones(
        strategy, strategy.structure + strategy.errors, "marginals of the graph"
    ),
    "privsyn": lambda strategy, counted: _by_ones(strategy, strategy.scores, "pairs and merged pairs"),
    "residual_planner": lambda strategy, counted: {MEASURE: Fraction(1)},
    "top_q": _top_q,
    "training": lambda strategy, counted: {ONE_WAYS: strategy.ones, "gradients": 1 - strategy.ones},
}
"""By the name of a strategy."""


def _pairs(columns: int) -> int:
    return max(columns * (columns - 1) // 2, 1)


def _kway_marginals(strategy: Any, columns: int) -> Shares:
    if strategy.degree == 1:
        return {ONE: Fraction(1, columns)}
    shares = {ONE: TENTH / columns}
    return shares | ({PAIR: (1 - TENTH) / _pairs(columns)} if strategy.degree == 2 else {})


def _top_q_pair(strategy: Any, columns: int) -> Shares:
    if strategy.degree != 2:
        return {}
    fresh = _pairs(columns)
    if strategy.target is not None and not strategy.again:
        fresh = max(fresh - (columns - 1), 1)
    drawn = strategy.turns(columns, fresh) * strategy.drawn(columns, fresh)
    return {PAIR: (1 - _told(strategy)) * (1 - Fraction(strategy.choosing)) / drawn}


MARGINALS: dict[str, Callable[[Any, int], Shares]] = {
    # One-ways get what a round plans for one marginal; about two marginals a column follow.
    "aim": lambda strategy, columns: {
        ONE: (1 - TENTH) / (strategy.rounds or 16 * columns),
        PAIR: (1 - TENTH) / (2 * columns),
    },
    "all_kway": _kway_marginals,
    "all_pairs": lambda strategy, columns: {
        ONE: Fraction(strategy.ones) / columns,
        PAIR: (1 - Fraction(strategy.ones)) / _pairs(columns),
    },
    # About two pairs a column.
    "batched": lambda strategy, columns: {
        ONE: Fraction(strategy.ones) / columns,
        PAIR: (1 - Fraction(strategy.ones))
        * (1 - Fraction(strategy.looks))
        / min(2 * columns, _pairs(columns)),
    },
    # Half of the columns listed.
    "mean_embedding": lambda strategy, columns: {
        ONE if strategy.target is None else PAIR: (1 - TENTH) / 2 / max(columns // 2, 1)
    },
    "mst": lambda strategy, columns: {ONE: THIRD / columns, PAIR: THIRD / max(columns - 1, 1)},
    # A marginal an attribute at first, and 0.8 by their error.
    "privmrf": lambda strategy, columns: {
        ONE: Fraction(strategy.ones) / columns,
        PAIR: (1 - strategy.ones - strategy.structure - strategy.errors) / (Fraction(9, 5) * columns),
    },
    # About two pairs a column.
    "privsyn": lambda strategy, columns: {
        ONE: Fraction(strategy.ones) / columns,
        PAIR: (1 - strategy.ones - strategy.scores) / min(2 * columns, _pairs(columns)),
    },
    # Nearly all goes to the pairs, which tell the one-ways too.
    "residual_planner": lambda strategy, columns: (
        {PAIR: Fraction(1, _pairs(columns))}
        if strategy.degree == 2 and columns > 1
        else {ONE: Fraction(1, columns)}
    ),
    "top_q": _top_q_pair,
    "training": lambda strategy, columns: {ONE: Fraction(strategy.ones) / columns},
}
"""By the name of a strategy; the default is one marginal a column."""
