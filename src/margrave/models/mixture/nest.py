"""Nest: attributes of a mixture that share atoms of their own; see `nest_objective` for why and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from margrave.errors import ReleaseError, invalid
from margrave.models.evidence import Evidence
from margrave.models.rounding import draw_column, grouped
from margrave.schema.domain import Domain

__all__ = ["Nest", "averaged", "remembered_nests"]

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

CHUNK = 1 << 12
"""Kinds of rows with given codes whose atoms' shares are held at once."""


@dataclass(frozen=True, slots=True)
class Nest:
    """Component k's distribution over the attributes: sum_z U_zk prod_i V_zi(x_i).

    Args:
        names: The attributes.
        sizes: Codes of each.
        atoms: V, the attributes' codes one below the other, shape [codes, atoms].
        tops: U, shape [atoms, components].
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    atoms: Floats
    tops: Floats

    def block(self, name: str) -> Floats:
        """One attribute's conditionals given the atom, shape [codes, atoms]."""
        i = self.names.index(name)
        start = sum(self.sizes[:i])
        return self.atoms[start : start + self.sizes[i]]

    @property
    def shares(self) -> Floats:
        """Each component's distribution of every attribute, one below the other: [codes, components]."""
        return self.atoms @ self.tops

    def summed(self, names: Sequence[str]) -> Floats:
        """Each component's distribution of some of the attributes, shape [their cells, components]."""
        return self._cells(names) @ self.tops

    def mixed(self, names: Sequence[str], weights: Floats) -> Floats:
        """Distribution of some attributes under weights of the components, shape [codes, codes, ...]."""
        held, last = self.tops @ weights, self.block(names[-1])
        table = last @ held if len(names) == 1 else (self._cells(names[:-1]) * held) @ last.T
        return np.asarray(table).reshape([self.sizes[self.names.index(name)] for name in names])

    def told(self, given: Evidence) -> tuple[str, ...]:
        """Which of the attributes are given."""
        return tuple(name for name in self.names if name in given)

    def likelihood(self, given: Evidence, rows: int) -> tuple[Longs, Floats]:
        """How likely each component makes the given codes of each row.

        Returns:
            The line of each row, shape [rows], in a table of shape [lines, components].
        """
        kinds, which = self._kinds(given, rows)
        return which, self._explained(kinds) @ self.tops

    def draw_atoms(self, components: Longs, given: Evidence, rng: np.random.Generator) -> Longs:
        """An atom for each row, given its component and some of the attributes, shape [rows]."""
        if not self.told(given):
            table = np.ascontiguousarray(self.tops.T)
            return draw_column(components, grouped(components, len(table)), table, rng)
        kinds, which = self._kinds(given, len(components))
        count = self.tops.shape[1]
        pairs, place = np.unique(which * count + components, return_inverse=True)
        found = np.empty(len(components), dtype=np.int64)
        order = np.argsort(place, kind="stable")
        ends = np.searchsorted(place[order], np.arange(len(pairs) + 1))
        for first in range(0, len(pairs), CHUNK):
            last = min(first + CHUNK, len(pairs))
            table = self._explained({n: codes[pairs[first:last] // count] for n, codes in kinds.items()})
            table *= self.tops[:, pairs[first:last] % count].T
            table[table.sum(axis=1) <= 0.0] = 1.0
            rows = order[ends[first] : ends[last]]
            keys = place[rows] - first
            found[rows] = draw_column(keys, grouped(keys, last - first), table, rng)
        return found

    def draw_codes(self, atoms: Longs, given: Evidence, rng: np.random.Generator) -> dict[str, Longs]:
        """Codes of all attributes given each row's atom, those that are given as they are, each [rows]."""
        by, found = grouped(atoms, self.tops.shape[0]), {}
        for name in self.names:
            if name in given:
                found[name] = np.array(np.broadcast_to(given[name], len(atoms)), dtype=np.int64)
            else:
                found[name] = draw_column(atoms, by, np.ascontiguousarray(self.block(name).T), rng)
        return found

    def state(self) -> dict[str, Floats]:
        """Arrays for `remembered_nests`, without the names."""
        return {"atoms": self.atoms, "tops": self.tops}

    def _kinds(self, given: Evidence, rows: int) -> tuple[dict[str, Longs], Longs]:
        """The distinct given codes, and which of them each row has."""
        told = self.told(given)
        columns = np.stack([np.broadcast_to(given[name], rows) for name in told])
        kinds, which = np.unique(columns, axis=1, return_inverse=True)
        return dict(zip(told, kinds, strict=True)), np.asarray(which).ravel()

    def _explained(self, kinds: Mapping[str, Longs]) -> Floats:
        """Probability of given codes under each atom, shape [kinds, atoms]."""
        found = np.ones((1, self.tops.shape[0]))
        for name, codes in kinds.items():
            found = found * self.block(name)[codes]
        return found

    def _cells(self, names: Sequence[str]) -> Floats:
        """Each atom's distribution of some of the attributes, shape [their cells, atoms]."""
        table = self.block(names[0])
        for name in names[1:]:
            table = (table[:, None, :] * self.block(name)[None, :, :]).reshape(-1, table.shape[1])
        return table


def averaged(nests: Sequence[Nest]) -> Nest:
    """The nest of a mixture of mixtures with this nest each: atoms and components side by side."""
    first = nests[0]
    if len(nests) == 1:
        return first
    shapes = np.array([nest.tops.shape for nest in nests])
    tops = np.zeros(shapes.sum(axis=0))
    for nest, (a, k) in zip(nests, np.cumsum(shapes, axis=0) - shapes, strict=True):
        tops[a : a + nest.tops.shape[0], k : k + nest.tops.shape[1]] = nest.tops
    return Nest(first.names, first.sizes, np.concatenate([nest.atoms for nest in nests], axis=1), tops)


def remembered_nests(domain: Domain, components: int, state: Mapping[str, Floats]) -> list[Nest]:
    """The nests that a mixture's state tells of.

    Raises:
        ReleaseError: The state is not that of nests over the domain.
    """
    found: list[Nest] = []
    while f"nest_{len(found)}_names" in state:
        head = f"nest_{len(found)}_"
        places, atoms, tops = (
            np.asarray(state.get(head + key, np.nan), dtype=np.float64) for key in ("names", "atoms", "tops")
        )
        known = places.ndim == 1 and set(places.tolist()) <= set(range(len(domain)))
        names = tuple(domain.names[int(place)] for place in places) if known else ()
        sizes = domain.shape(names)
        sound = (
            len(names) > 1
            and len(set(names)) == len(names)
            and set(names).isdisjoint(name for nest in found for name in nest.names)
            and atoms.ndim == tops.ndim == 2
            and atoms.shape == (sum(sizes), len(tops))
            and tops.shape[1] == components
            and bool((atoms >= 0).all() and (tops >= 0).all())
            and bool(np.allclose(atoms.sum(axis=0), len(names), atol=1e-3))
            and bool(np.allclose(tops.sum(axis=0), 1.0, atol=1e-3))
        )
        if not sound:
            raise ReleaseError(invalid("state", "of nests over the domain", "The release is damaged."))
        found.append(Nest(names, tuple(sizes), atoms, tops))
    return found
