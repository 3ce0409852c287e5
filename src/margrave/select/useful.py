"""Useful: small marginals inside the cliques of a graph, for PrivMRF."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from margrave.schema.domain import Clique, Domain

__all__ = ["correlation", "first_marginals", "useful_subsets"]

Floats = NDArray[np.float64]

MOST = 20_000
"""Subsets of one clique that are looked at, at most, smaller ones first."""
PARENTS = 5
"""Parents of an attribute in a clique's network, at most."""


def useful_subsets(
    domain: Domain, cliques: Sequence[Clique], most: float, degree: int
) -> dict[Clique, float]:
    """Subsets of two and more attributes of the cliques with at most `most` cells, and how likely each is
    drawn.

    A subset weighs |clique|^2 over the number of subsets of its clique, added up over the cliques it lies in.

    Args:
        domain: Sizes of the attributes.
        cliques: Maximal cliques.
        most: Cells of a subset.
        degree: Attributes of a subset, at most.
    """
    weights: dict[Clique, float] = {}
    for clique in cliques:
        found = [subset for subset in _subsets(domain, clique, most, degree) if len(subset) > 1]
        for subset in found:
            weights[subset] = weights.get(subset, 0.0) + len(clique) ** 2 / len(found)
    return weights


def first_marginals(
    domain: Domain, cliques: Sequence[Clique], scores: Floats, most: float, rng: np.random.Generator
) -> list[Clique]:
    """At most as many marginals as attributes: the best network marginal of each attribute, then any useful
    ones.

    Args:
        domain: Sizes of the attributes.
        cliques: Maximal cliques of the graph.
        scores: Dependence of each pair, shape [attributes, attributes].
        most: Cells of a marginal.
        rng: Of the first attribute of each network and of what fills up.
    """
    best: dict[str, tuple[float, Clique]] = {}
    for clique in cliques:
        for name, (score, marginal) in _network(domain, clique, scores, most, rng).items():
            if name not in best or score > best[name][0]:
                best[name] = (score, marginal)
    chosen = list(dict.fromkeys(marginal for _, marginal in best.values()))
    rest = [s for s in useful_subsets(domain, cliques, most, 3) if s not in chosen]
    missing = min(max(len(domain) - len(chosen), 0), len(rest))
    return chosen + [rest[i] for i in rng.choice(len(rest), missing, replace=False)] if missing else chosen


def correlation(domain: Domain, scores: Floats, name: str, parents: Clique) -> float:
    """CFS: how well parents go with an attribute and how little with one another.

    sum_i R(a, p_i) / sqrt(|P| + sum_(i < j) R(p_i, p_j)), the root at least 1; Hall 1999.
    """
    own = domain.index(name)
    places = [domain.index(parent) for parent in parents]
    among = sum(float(scores[i, j]) for i, j in combinations(places, 2))
    return float(scores[own, places].sum()) / max(math.sqrt(max(len(places) + among, 1.0)), 1.0)


def _network(
    domain: Domain, clique: Clique, scores: Floats, most: float, rng: np.random.Generator
) -> dict[str, tuple[float, Clique]]:
    """The score and the marginal of each attribute of a clique with its parents, but for the first."""
    ordered = [clique[int(rng.integers(len(clique)))]]
    found: dict[str, tuple[float, Clique]] = {}
    while len(ordered) < len(clique):
        best: tuple[float, str, Clique] | None = None
        for name in clique:
            if name in ordered:
                continue
            parents = _parents(domain, name, ordered, scores, most)
            score = correlation(domain, scores, name, parents) if parents else -math.inf
            if best is None or score > best[0]:
                best = (score, name, parents)
        if best is None:
            break
        score, name, parents = best
        ordered.append(name)
        if parents:
            found[name] = (score, domain.canonical((name, *parents)))
    return found


def _parents(domain: Domain, name: str, ordered: Sequence[str], scores: Floats, most: float) -> Clique:
    """A maximal useful set of parents, taken one after another for the largest CFS score."""
    parents: Clique = ()
    while len(parents) < PARENTS:
        room = [p for p in ordered if p not in parents and domain.size((name, *parents, p)) <= most]
        if not room:
            break
        parents += (max(room, key=lambda p: correlation(domain, scores, name, (*parents, p))),)
    return parents


def _subsets(domain: Domain, clique: Clique, most: float, degree: int) -> list[Clique]:
    """Subsets with at most `most` cells and `degree` attributes, smaller ones first."""
    growing: list[Clique] = [(name,) for name in domain.canonical(clique) if domain[name] <= most]
    names = domain.canonical(clique)
    found: list[Clique] = []
    while growing and len(found) < MOST and len(growing[0]) <= degree:
        found += growing
        growing = [
            (*subset, name)
            for subset in growing
            for name in names[names.index(subset[-1]) + 1 :]
            if domain.size(subset) * domain[name] <= most
        ]
    return found[:MOST]
