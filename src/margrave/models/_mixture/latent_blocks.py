"""Latent block: attributes of a mixture that share states of their own; see `objective` for why and how.

Which attributes of a mixture share states follows from how much they depend on each other.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from margrave.errors import ReleaseError, invalid
from margrave.models._base.constraints import Evidence
from margrave.models._base.pooling import Pooled, dependence
from margrave.models._sampling.rounding import draw_column, order_by_group
from margrave.release import NoisyMarginal
from margrave.schema.domain import Domain

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
Groups = tuple[tuple[int, ...], ...]

CHUNK = 1 << 12
"""Rows, or kinds of rows with given codes, whose shares of components or states are held at once."""
BLOCK_DEPENDENCE, MAX_MEMBERS = 0.3, 6
"""Mean dependence between two groups from which on they become one, and most attributes in one latent block.
With 0.2 and 8 as a second way, of which split noise takes the better, pairs of 29 releases of the choosing
half are 0.2 % worse and triples alike; with those alone accounts-a and orders-a are 13 to 68 % worse
(bench/LOG.md)."""
MIN_BLOCK_CODES = 4
"""An attribute of fewer codes is not nested: it is better drawn as a refined attribute, and nothing in a
latent block is one."""


@dataclass(frozen=True, slots=True)
class LatentBlock:
    """Component k's distribution over the attributes: sum_z U_zk prod_i V_zi(x_i).

    Args:
        names: The attributes.
        sizes: Codes of each.
        states: V, the attributes' codes one below the other, shape [codes, states].
        state_weights: U, shape [states, components].
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    states: Floats
    state_weights: Floats

    def block(self, name: str) -> Floats:
        """One attribute's conditionals given the state, shape [codes, states]."""
        i = self.names.index(name)
        start = sum(self.sizes[:i])
        return self.states[start : start + self.sizes[i]]

    @property
    def shares(self) -> Floats:
        """Each component's distribution of every attribute, one below the other: [codes, components]."""
        return self.states @ self.state_weights

    def summed(self, names: Sequence[str]) -> Floats:
        """Each component's distribution of some of the attributes, shape [their cells, components]."""
        return self._cells(names) @ self.state_weights

    def summed_with(self, names: Sequence[str], weights: Floats) -> Floats:
        """`summed`, mixed by several weights of the components at once: [their cells, columns of weights].

        Sums over the components first, which leaves far less to multiply than their cells do.

        Args:
            names: Some of the attributes.
            weights: Shape [components, columns].
        """
        return self._cells(names) @ (self.state_weights @ weights)

    def mixed(self, names: Sequence[str], weights: Floats) -> Floats:
        """Distribution of some attributes under weights of the components, shape [codes, codes, ...]."""
        # One product of matrices sums over the states for the last attribute; only the others' cells are
        # made.
        held, last = self.state_weights @ weights, self.block(names[-1])
        table = last @ held if len(names) == 1 else (self._cells(names[:-1]) * held) @ last.T
        return np.asarray(table).reshape([self.sizes[self.names.index(name)] for name in names])

    def told(self, given: Collection[str]) -> tuple[str, ...]:
        """Which of the attributes are given."""
        return tuple(name for name in self.names if name in given)

    def likelihood(self, given: Evidence, rows: int) -> tuple[Longs, Floats]:
        """How likely each component makes the given codes of each row.

        Returns:
            The line of each row, shape [rows], in a table of shape [lines, components].
        """
        kinds, which = self._kinds(given, rows)
        return which, self._explain_codes(kinds) @ self.state_weights

    def draw_states(self, components: Longs, given: Evidence, rng: np.random.Generator) -> Longs:
        """A state for each row, given its component and some of the attributes, shape [rows]."""
        if not self.told(given):
            table = np.ascontiguousarray(self.state_weights.T)
            return draw_column(components, order_by_group(components, len(table)), table, rng)
        kinds, which = self._kinds(given, len(components))
        count = self.state_weights.shape[1]
        # Rows with the same given codes and component have the same distribution, so one line of the table
        # serves all of them.
        pairs, place = np.unique(which * count + components, return_inverse=True)
        found = np.empty(len(components), dtype=np.int64)
        # Rows sorted by line, so that each chunk of lines finds its rows as one stretch.
        order = np.argsort(place, kind="stable")
        ends = np.searchsorted(place[order], np.arange(len(pairs) + 1))
        for first in range(0, len(pairs), CHUNK):
            last = min(first + CHUNK, len(pairs))
            table = self._explain_codes({n: codes[pairs[first:last] // count] for n, codes in kinds.items()})
            table *= self.state_weights[:, pairs[first:last] % count].T
            # Codes that no state explains: rounding took the last of them, and all states are alike then.
            table[table.sum(axis=1) <= 0.0] = 1.0
            rows = order[ends[first] : ends[last]]
            keys = place[rows] - first
            found[rows] = draw_column(keys, order_by_group(keys, last - first), table, rng)
        return found

    def draw_codes(self, states: Longs, given: Evidence, rng: np.random.Generator) -> dict[str, Longs]:
        """Codes of all attributes given each row's state, those that are given as they are, each [rows]."""
        by, found = order_by_group(states, self.state_weights.shape[0]), {}
        for name in self.names:
            if name in given:
                found[name] = np.array(np.broadcast_to(given[name], len(states)), dtype=np.int64)
            else:
                found[name] = draw_column(states, by, np.ascontiguousarray(self.block(name).T), rng)
        return found

    def state(self) -> dict[str, Floats]:
        """Arrays for `latent_blocks_from_state`, without the names."""
        return {"atoms": self.states, "tops": self.state_weights}

    def _kinds(self, given: Evidence, rows: int) -> tuple[dict[str, Longs], Longs]:
        """The distinct given codes, and which of them each row has."""
        told = self.told(given)
        columns = np.stack([np.broadcast_to(given[name], rows) for name in told])
        # NumPy versions return the inverse of a search along an axis in other shapes; ravel makes them one.
        kinds, which = np.unique(columns, axis=1, return_inverse=True)
        return dict(zip(told, kinds, strict=True)), np.asarray(which).ravel()

    def _explain_codes(self, kinds: Mapping[str, Longs]) -> Floats:
        """Probability of given codes under each state, shape [kinds, states]."""
        found = np.ones((1, self.state_weights.shape[0]))
        for name, codes in kinds.items():
            found = found * self.block(name)[codes]
        return found

    def _cells(self, names: Sequence[str]) -> Floats:
        """Each state's distribution of some of the attributes, shape [their cells, states]."""
        table = self.block(names[0])
        for name in names[1:]:
            # Given its state the attributes of a block are independent.
            product = table[:, None, :] * self.block(name)[None, :, :]
            table = product.reshape(-1, table.shape[1])
        return table


def latent_blocks_from_state(
    domain: Domain, components: int, state: Mapping[str, Floats]
) -> list[LatentBlock]:
    """The latent blocks that a mixture's state tells of.

    Raises:
        ReleaseError: The state is not that of latent blocks over the domain.
    """
    found: list[LatentBlock] = []
    while f"nest_{len(found)}_names" in state:
        # The keys say "nest", "atoms" and "tops" as in every release written so far: they are part of the
        # format.
        head = f"nest_{len(found)}_"
        places, states, state_weights = (
            np.asarray(state.get(head + key, np.nan), dtype=np.float64) for key in ("names", "atoms", "tops")
        )
        known = places.ndim == 1 and set(places.tolist()) <= set(range(len(domain)))
        names = tuple(domain.names[int(place)] for place in places) if known else ()
        sizes = domain.shape(names)
        # A release file may come from anybody: nothing in it is used before its shapes and sums are those
        # of a model.
        # Every attribute's column of V sums to 1, so that a block of n attributes sums to n in each state.
        sound = (
            len(names) > 1
            and len(set(names)) == len(names)
            and set(names).isdisjoint(name for latent_block in found for name in latent_block.names)
            and states.ndim == state_weights.ndim == 2
            and states.shape == (sum(sizes), len(state_weights))
            and state_weights.shape[1] == components
            and bool((states >= 0).all() and (state_weights >= 0).all())
            and bool(np.allclose(states.sum(axis=0), len(names), atol=1e-3))
            and bool(np.allclose(state_weights.sum(axis=0), 1.0, atol=1e-3))
        )
        if not sound:
            raise ReleaseError(invalid("state", "of nests over the domain", "The release is damaged."))
        found.append(LatentBlock(names, tuple(sizes), states, state_weights))
    return found


def dependences(domain: Domain, pairs: Floats, tables: Sequence[Pooled] = (), rows: float = 1.0) -> Floats:
    """Total variation of each pair of attributes from independence, shape [attributes, attributes].

    A small mixture misses what is too dear for it, two attributes above all that follow from each other by
    more codes than it has components for. So what measured pairs say beyond it counts as well, as far as
    noise does not explain it. Likewise it may invent dependence in a pair that was not measured, since two
    chains of attributes that follow from each other are too dear for it side by side. There an appraisal
    counts.

    Args:
        domain: Names and sizes of the attributes.
        pairs: A model's pair tables in proportions, the attributes' codes side by side, shape [codes, codes].
        tables: What was measured and inferred.
        rows: Rows that the tables stand for.
    """
    starts = np.cumsum([0, *domain.sizes])
    known = {table.clique: table for table in tables}
    found = np.zeros((len(domain), len(domain)))
    for i, j in itertools.combinations(range(len(domain)), 2):
        table = pairs[starts[i] : starts[i + 1], starts[j] : starts[j + 1]]
        seen = known.get((domain.names[i], domain.names[j]))
        if seen is not None and seen.inferred:
            found[i, j] = found[j, i] = seen.distance
            continue
        if seen is not None:
            # Only what noise does not explain of the measured table is taken in place of the model's.
            table = NoisyMarginal(seen.clique, seen.values / rows, seen.sigma / rows).beyond(table)
        found[i, j] = found[j, i] = dependence(table)
    return found


def group_attributes(domain: Domain, tied: Floats, barred: Collection[str] = ()) -> Groups:
    """Groups of attributes that depend strongly on each other: average linkage, as positions.

    None where no attributes depend so strongly.

    Args:
        domain: Names and sizes of the attributes.
        tied: As from `dependences`.
        barred: Attributes that stay alone.
    """
    # Attributes under rules are drawn by the rules' own blocks, and no attribute may be in two blocks.
    ruled = set() if domain.rules is None else set(domain.rules.names)
    groups = [
        [i]
        for i, name in enumerate(domain.names)
        if name not in ruled and name not in barred and domain.sizes[i] >= MIN_BLOCK_CODES
    ]
    single = [group[0] for group in groups]
    means = np.asarray(tied[np.ix_(single, single)], dtype=np.float64)
    while len(groups) > 1:
        sizes = np.array([len(group) for group in groups])
        # Only pairs i < j count, so the diagonal and the lower half never win.
        open_pairs = np.triu(np.add.outer(sizes, sizes) <= MAX_MEMBERS, 1)
        held = np.where(open_pairs, means, -np.inf)
        a, b = np.unravel_index(int(np.argmax(held)), held.shape)
        if not held[a, b] >= BLOCK_DEPENDENCE:
            break
        # The mean over a union is that of its parts by their sizes.
        joined = (sizes[a] * means[a] + sizes[b] * means[b]) / (sizes[a] + sizes[b])
        means[a], means[:, a] = joined, joined
        means = np.delete(np.delete(means, b, axis=0), b, axis=1)
        groups[a] += groups.pop(int(b))
    return tuple(tuple(sorted(group)) for group in groups if len(group) > 1)
