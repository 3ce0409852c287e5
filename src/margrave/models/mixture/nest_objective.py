"""Nests in the objective: attributes that depend strongly on each other share atoms of their own.

A component of a plain mixture is a product, so that two attributes that nearly follow from each other need a
component for each of their codes, and several such groups the product of those numbers. A nest gives its
attributes atoms z: V_z, the conditionals of its attributes given the atom, and U_k, the share of each atom
in component k. Outside, its attributes look like Q_k = V U_k; inside, pairs are sum_z u_z V_zi V_zj with
u = U w, whatever the components are. With as many atoms as components and U the identity this is the plain
mixture.

Two steps lead from component to attribute, so each pays HALF of a nat's price:

    HALF * information * (outer * sum_k w_k KL(U_k || u) + sum over attributes of sum_z u_z KL(V_z || V u))

A step from component to atoms serves all attributes of a nest at once. Where the nests are strong and little
ties them to anything else, that makes it cheap to follow the noise on pairs outside, and `outer` should be
above 1; `Mixture.look` finds out.

Gradients are natural, as in `objective`: the derivative by V_z over u_z, that by U_k over w_k.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from margrave.models.mixture.kernels import (
    centred,
    priced,
    pulled,
    residual,
    subtract_products,
    write_products,
)
from margrave.models.mixture.nest import Nest
from margrave.models.mixture.objective import FLOOR, Point, point
from margrave.models.mixture.stacked import Stacked
from margrave.schema.domain import Domain

__all__ = ["HALF", "NestPart"]

Singles = NDArray[np.float32]
Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

HALF = np.float32(0.5)
"""What each of the two steps pays, over the price of a nat: 0.5 or 0.7 are alike, 1 empties the atoms of
small tables, less follows the noise (bench/LOG.md)."""
ATOMS = 2
"""Most atoms for each code of the nest's attributes, and no more than components: more gain nothing."""
OWN = 0.9
"""Share of its own atom in each component at the start: near the plain mixture, which it may leave."""
SPREAD = 0.5
"""Standard deviation of the starting logarithms of atoms' shares in components."""


class NestPart:
    """The part of an objective that one nest has, and where its atoms stand.

    Args:
        stacked: The measurements.
        members: Positions of the nest's attributes.
        logs: Where the mixture starts, shape [codes, components]; the atoms start at its members' lines.
        components: Number of components K.
        information: Price of a nat of dependence.
        smoothness: Price of unlike neighbours among ordered codes.
        rng: Of the start.
        outer: What the step from component to atoms pays, over the step from atom to codes.
    """

    def __init__(
        self,
        stacked: Stacked,
        members: Sequence[int],
        logs: Singles,
        components: int,
        information: float,
        smoothness: float,
        rng: np.random.Generator,
        outer: float = 1.0,
    ) -> None:
        starts = stacked.starts
        self.members = tuple(members)
        self.rows = np.concatenate([np.arange(starts[i], starts[i + 1]) for i in members])
        inside = np.ix_(self.rows, self.rows)
        self._pairs, self._weights = stacked.pairs[inside].copy(), stacked.pair_weights[inside].copy()
        self._inferred = None if stacked.inferred is None else stacked.inferred[np.ix_(members, members)]
        self._ordered = stacked.ordered[list(members)]
        self._starts = np.concatenate([[0], np.cumsum(np.diff(starts)[list(members)])]).astype(np.int64)
        atoms = min(components, ATOMS * len(self.rows))
        logs = logs[self.rows, :atoms]
        self._whole, self._none = np.array([0, atoms]), np.zeros(1, np.int64)
        self._information = HALF * np.float32(information)
        self._outer = self._information * np.float32(outer)
        self._smoothness = np.float32(smoothness)
        self.atoms = point(logs, np.zeros(atoms), self._starts)
        self.tops = point(_near_own(atoms, components, rng), np.zeros(components), self._whole)
        self.slopes = (np.zeros_like(self.atoms.logs), np.zeros_like(self.tops.logs))
        """Natural gradients of log V and log U, each centred."""

    def spread(self, shares: Singles) -> None:
        """Put V U in place of Q in `shares`, [codes, components]."""
        shares[self.rows] = self.atoms.shares @ self.tops.shares

    def pulled(self, gradient: Singles, weights: Singles, by_weight: Floats) -> float:
        """Turn derivatives by V U, in `gradient`, into natural ones by V and U; return the nest's value."""
        v, u, outside = self.atoms.shares, self.tops.shares, gradient[self.rows]
        held = np.maximum(u @ weights, FLOOR)
        scaled = v * np.sqrt(held)
        model, ones, offset = scaled @ scaled.T, np.maximum(v @ held, FLOOR), np.zeros(len(v), v.dtype)
        if self._inferred is not None:
            write_products(self._pairs, ones, self._inferred, self._starts)
        value = residual(model, self._pairs, self._weights)
        by_v = model @ v
        if self._inferred is not None:
            subtract_products(offset, model, ones, self._inferred, self._starts)
        by_atom = pulled(by_v, v, offset)
        value += priced(
            by_v, self.atoms.logs, v, held, ones, np.ones(len(v), np.bool_),
            self._starts, self._ordered, self._information, self._smoothness, by_atom,
        )  # fmt: skip
        by_v += ((outside * weights) @ u.T) / held
        by_u = v.T @ outside + by_atom[:, None].astype(by_v.dtype)
        by_weight += by_atom @ u
        value += priced(
            by_u, self.tops.logs, u, weights, held, np.ones(len(u), np.bool_),
            self._whole, self._none, self._outer, np.float32(0.0), by_weight,
        )  # fmt: skip
        centred(by_v, v, self._starts)
        centred(by_u, u, self._whole)
        gradient[self.rows] = 0.0
        self.slopes = (by_v, by_u)
        return value

    def nest(self, domain: Domain) -> Nest:
        """The nest as it stands, in double precision."""
        names = tuple(domain.names[i] for i in self.members)
        atoms, tops = (part.shares.astype(np.float64) for part in self.points)
        for start, end in zip(self._starts[:-1], self._starts[1:], strict=True):
            atoms[start:end] /= atoms[start:end].sum(axis=0)
        return Nest(names, domain.shape(names), atoms, tops / tops.sum(axis=0))

    def settle(self) -> None:
        """Normalise the logarithms, and bring the shares up to date."""
        self.atoms.settle(self._starts)
        self.tops.settle(self._whole)

    @property
    def points(self) -> tuple[Point, Point]:
        """Where V and U stand, in the order of `slopes`."""
        return self.atoms, self.tops

    def moved(self, weights: Singles) -> float:
        """E|natural gradient|, summed over the nest's attributes and its atoms."""
        by_v, by_u = self.slopes
        inner = np.abs(by_v * self.atoms.shares).sum(axis=0) @ (self.tops.shares @ weights)
        return float(inner + np.abs(by_u * self.tops.shares).sum(axis=0) @ weights)


def _near_own(atoms: int, components: int, rng: np.random.Generator) -> Singles:
    """Starting log U, [atoms, components]: each component has mostly one atom, atoms dealt out in turn."""
    own = np.arange(atoms)[:, None] == (np.arange(components) % atoms)[None, :]
    logs = np.log(OWN * own + (1.0 - OWN) / atoms)
    found: Singles = (logs + SPREAD * rng.standard_normal(logs.shape)).astype(np.float32)
    return found
