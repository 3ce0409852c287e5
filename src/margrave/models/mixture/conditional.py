"""Conditional: p(label | all other attributes), additive in them and in joint codes of some pairs of them.

An additive model knows how each attribute moves a label, not that two of them do so together, as in
c = a xor b. Where the table of all three was measured, (a, b) is one more attribute of the additive model,
whose codes are the pairs of codes, and the table is its pair with the label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from margrave.errors import ReleaseError, invalid
from margrave.models.additive import Additive, fit_additive
from margrave.models.independent import simplex
from margrave.models.pooled import Pooled, one_ways
from margrave.schema.domain import Clique, Domain

__all__ = ["Conditional", "fit_conditional"]

Floats = NDArray[np.float64]
Columns = Mapping[str, NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class Conditional:
    """p(label | all others).

    Args:
        additive: The additive model, over the attributes and, behind them, one for each joint pair.
        pairs: The attributes of each joint pair, none of them the label.
    """

    additive: Additive
    pairs: tuple[Clique, ...] = ()

    @property
    def target(self) -> str:
        """The label."""
        return self.additive.target

    @property
    def domain(self) -> Domain:
        """Names and sizes of the attributes, joint pairs behind them."""
        return self.additive.domain

    def with_pairs(self, columns: Columns) -> dict[str, NDArray[np.int64]]:
        """The columns and those of the joint pairs, shape [rows] each."""
        names = self.domain.names[len(self.domain) - len(self.pairs) :]
        own = {
            name: columns[a] * self.domain[b] + columns[b]
            for name, (a, b) in zip(names, self.pairs, strict=True)
        }
        return dict(columns) | own

    def probabilities(self, columns: Columns) -> Floats:
        """The label's distribution in every row, shape [rows, label's codes]; see `Additive`."""
        return self.additive.probabilities(self.with_pairs(columns))

    def state(self) -> dict[str, Floats]:
        """Arrays from which `restore` builds the same conditional again."""
        if not self.pairs:
            return self.additive.state()
        places = [[self.domain.index(name) for name in pair] for pair in self.pairs]
        return self.additive.state() | {"pairs": np.asarray(places, dtype=np.float64)}

    @staticmethod
    def restore(domain: Domain, target: str, state: Mapping[str, Floats]) -> Conditional:
        """The conditional whose `state` was saved.

        Raises:
            ReleaseError: The state is not that of a conditional of this label over this domain.
        """
        places = np.asarray(state.get("pairs", np.zeros((0, 2))), dtype=np.float64)
        able = set(range(len(domain))) - {domain.index(target)}
        sound = places.ndim == 2 and places.shape[1] == 2 and set(places.ravel().tolist()) <= able
        if not sound or (places[:, 0] == places[:, 1]).any():
            asked = "with pairs of other attributes beside each label"
            raise ReleaseError(invalid("state", asked, "The release is damaged."))
        pairs = [(domain.names[int(a)], domain.names[int(b)]) for a, b in places]
        return Conditional(Additive.restore(_extended(domain, pairs), target, state), tuple(pairs))


def fit_conditional(
    domain: Domain, target: str, tables: Sequence[Pooled], total: float, columns: Columns, tolerance: float
) -> Conditional:
    """The conditional that explains the label's pairs and triples, with the label's own measured shares.

    See `fit_additive`; the shares are the nearest distribution to all that was measured of the label's own
    counts, with one row for each code at least.

    Args:
        domain: Names and sizes of all attributes.
        target: The label.
        tables: Noisy counts, of which the label's own, its pairs and its triples count.
        total: Rows the tables stand for.
        columns: Codes of the other attributes in rows that stand for their distribution, shape [rows] each.
        tolerance: The gap at which to stop.
    """
    triples = [table for table in tables if len(table.clique) == 3 and target in table.clique]
    pairs = [tuple(name for name in table.clique if name != target) for table in triples]
    extended = _extended(domain, pairs)
    joint = extended.names[len(domain) :]
    own = [_as_pair(table, target, name) for table, name in zip(triples, joint, strict=True)]
    empty = Conditional(Additive(extended, target, np.empty(0), 0.0, 0, False), tuple(pairs))
    additive = fit_additive(
        extended, target, [*tables, *own], total, empty.with_pairs(columns), tolerance=tolerance
    )
    counts = one_ways(tables).get(target)
    if counts is None:
        return Conditional(additive, tuple(pairs))
    sum_of_counts = max(float(counts.values.sum()), 1.0)
    nearest = simplex(counts.values / sum_of_counts, (counts.sigma / sum_of_counts) ** 2)
    wanted = np.maximum(nearest, 1.0 / max(total, 2.0))
    additive = additive.with_shares(empty.with_pairs(columns), wanted / wanted.sum())
    return Conditional(additive, tuple(pairs))


def _as_pair(table: Pooled, target: str, joint: str) -> Pooled:
    """A triple's table as that of the joint pair and the label."""
    axis = table.clique.index(target)
    width = table.values.shape[axis]
    values, sigma = (np.moveaxis(part, axis, -1).reshape(-1, width) for part in (table.values, table.sigma))
    return Pooled((joint, target), values, sigma)


def _extended(domain: Domain, pairs: Sequence[Clique]) -> Domain:
    """The domain with an attribute for each joint pair behind it, whose codes have no order."""
    names = list(domain.names)
    for a, b in pairs:
        name = f"{a}, {b}"
        while name in names:
            name += " "
        names.append(name)
    sizes = [*domain.sizes, *(domain.size(pair) for pair in pairs)]
    return Domain(tuple(names), tuple(sizes), (*domain.ordered, *(0 for _ in pairs)), domain.rules)
