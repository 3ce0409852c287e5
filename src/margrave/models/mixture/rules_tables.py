"""TiedTables: what was measured of attributes that rules tie together, on the cells that the rules allow."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from margrave.models.mixture.rules_ties import Tie, ties
from margrave.schema.domain import Domain

__all__ = ["TiedPair", "TiedTables", "tied_tables"]

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TiedPair:
    """A measured pair of two attributes of one tie.

    Args:
        keys: Each allowed cell's cell of the pair, shape [cells].
        values: Noisy proportions, shape [pair's cells].
        weights: 1 / variance of each.
    """

    keys: Longs
    values: Floats
    weights: Floats


@dataclass(frozen=True, slots=True)
class TiedTables:
    """A tie, where its codes stand among all, and its measured pairs.

    Args:
        tie: The cells.
        rows: The codes of its attributes among those of all, shape [codes of the tie].
        places: Each cell's codes, as places in `rows`, shape [attributes, cells].
        measured: Which of `rows` are of an attribute that was measured; the others stay uniform.
        pairs: Measured pairs of two of its attributes.
    """

    tie: Tie
    rows: Longs
    places: Longs
    measured: NDArray[np.bool_]
    pairs: tuple[TiedPair, ...]


def tied_tables(
    domain: Domain, starts: Longs, pairs: Floats, weights: Floats, ones: Floats
) -> tuple[TiedTables, ...]:
    """Of each tie under a domain's rules.

    Args:
        domain: With its rules, if any.
        starts: Where each attribute's codes begin, shape [attributes + 1].
        pairs: Noisy proportions of all pairs, symmetric, shape [codes, codes].
        weights: 1 / variance of each, 0 where unmeasured.
        ones: 1 / variance of the one-ways, 0 where unmeasured, shape [codes].
    """
    known = np.logical_or(weights.any(axis=1), ones > 0)
    return tuple(_tables(tie, domain, starts, pairs, weights, known) for tie in ties(domain))


def _tables(
    tie: Tie, domain: Domain, starts: Longs, pairs: Floats, weights: Floats, known: NDArray[np.bool_]
) -> TiedTables:
    at = {name: np.arange(*starts[domain.index(name) :][:2]) for name in tie.names}
    within = np.cumsum([0, *tie.sizes])[:-1]
    found = []
    for one, two in combinations(tie.names, 2):
        here = np.ix_(at[one], at[two])
        if weights[here].any():
            found.append(TiedPair(tie.keys((one, two))[0], pairs[here].ravel(), weights[here].ravel()))
    rows = np.concatenate([at[name] for name in tie.names])
    measured = np.concatenate([np.full(len(at[name]), known[at[name]].any()) for name in tie.names])
    return TiedTables(tie, rows, tie.codes + within[:, None], measured, tuple(found))
