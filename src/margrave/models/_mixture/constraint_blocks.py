"""Constraint blocks: attributes that rules tie together, as the cells of them that the rules allow.

ConstrainedTables: what was measured of attributes that rules tie together, on the cells that the rules allow.

Rules in the objective: what a mixture says about tied attributes when its components obey the rules.

Component k's distribution over the allowed cells x of a constraint block is T_k(x) = v(x) prod_i Q_ki(x_i) /
Z_k, with v the share of the values in a cell's bins that obey: its one-ways are no longer Q_ki. The objective
looks at those of T_k, at the constraint block's own measured pairs under sum_k w_k T_k, and asks the penalty
per nat for the constraint block as a whole, information * sum_k w_k sum_x T_k(x) log(T_k(x) / sum_l w_l
T_l(x)): an attribute that follows from another is paid for once. With g(x) the derivative by T_k(x) over w_k,
that by log Q_ki(c) over w_k and over T_k's share of code c is E_k[g | x_i = c] - E_k[g].
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from margrave.models._base.compiled import compile_summing
from margrave.release import project_simplex
from margrave.schema.constraints.codes import CodeRules
from margrave.schema.domain import Domain

Singles = NDArray[np.float32]
Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

MAX_BLOCK_CELLS = 1 << 13
"""Allowed cells of one constraint block, at most; what is larger is left to drawing rows again."""
MAX_CELLS_AT_ONCE = 1 << 22
"""Cells looked at at once, at most: on the way to a constraint block's allowed ones, and while rows are
drawn; and codes times components of a large attribute that gets all its codes back."""
MIN_LOG_PROBABILITY, MIN_LOG_SUM = -30.0, -65.0
"""Least logarithm of a code in a component, and least sum of a cell's: single precision ends at -87."""
TURNS, JOINT_TURNS, CLOSE_ENOUGH = 20, 3, 1e-3
"""Rounds of proportional fitting at most, those of all components together, and the mean distance from the
wanted one-ways that will do."""
MAX_FACTOR_CHANGE = 30.0
"""Most by which one round changes a factor."""
MAX_NOISE_SHARE, SPARE_SHARE = 1.0, 0.05
"""Share of the rows that the noise on a pair may make up for the pair to shape all components alike, and the
part of a constraint block that such pairs leave as it was."""
MIN_CELL_SHARE = 1e-30
"""Least share of a cell that a logarithm is taken of, and of a code that a derivative is divided by."""


@dataclass(frozen=True, slots=True)
class ConstraintBlock:
    """A group of attributes and its cells.

    Args:
        names: The attributes.
        sizes: Codes of each.
        codes: The allowed cells, shape [attributes, cells].
        feasible_shares: What all components have in common, up to a factor, shape [cells]: the share of the
            values in each cell's bins that obey, brought to the pairs that were measured with little noise.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    codes: Longs
    feasible_shares: Floats

    @property
    def lowest(self) -> float:
        """Logarithm below which a code's share in a component counts as this."""
        return max(MIN_LOG_PROBABILITY, MIN_LOG_SUM / len(self.names))

    def keys(self, names: Sequence[str]) -> tuple[Longs, int]:
        """Each allowed cell's cell of some attributes, shape [cells], and how many of those there are."""
        # A number in mixed radix, the last attribute running fastest, as in an array of these sizes.
        keys, size = np.zeros(self.codes.shape[1], dtype=np.int64), 1
        for i in map(self.names.index, names):
            keys, size = keys * self.sizes[i] + self.codes[i], size * self.sizes[i]
        return keys, size


def constraint_blocks(domain: Domain) -> tuple[ConstraintBlock, ...]:
    """The groups of attributes that a domain's rules tie together, those of at most MAX_BLOCK_CELLS allowed
    cells."""
    return () if domain.rules is None else _of(domain.rules)


def condition_block(constraint: ConstraintBlock, blocks: Sequence[Floats]) -> Floats:
    """Each component's distribution over a constraint block's cells: feasible share times its product there,
    normalised.

    Args:
        constraint: The cells.
        blocks: Each attribute's conditionals, shape [codes, components].

    Returns:
        Shape [cells, components].
    """
    # Products are taken as sums of logarithms: a product of many small shares could underflow.
    found = np.repeat(np.log(constraint.feasible_shares)[:, None], blocks[0].shape[1], axis=1)
    for code, block in zip(constraint.codes, blocks, strict=True):
        found += np.log(np.maximum(block, np.exp(constraint.lowest)))[code]
    # The largest term is 1 before the sum is taken, so that no component's norm is 0.
    found -= found.max(axis=0)
    np.exp(found, out=found)
    found /= found.sum(axis=0)
    return found


def rake_block(constraint: ConstraintBlock, blocks: Sequence[Floats], weights: Floats) -> list[Floats]:
    """Conditionals from which `condition_block` makes tables with these one-ways, where rules allow it.

    Iterative proportional fitting (Deming and Stephan 1940) inside every component, for conditionals that
    were fitted without the rules. Where that cannot be, factors that are the same in all components then
    bring the mixture's one-ways back.

    Args:
        constraint: The cells.
        blocks: Each attribute's one-ways, shape [codes, components]; 0 for codes that the rules leave no
            row. What they ask for there cannot be met, and goes to the other codes.
        weights: Of the components, shape [components].
    """
    wanted = [np.maximum(block, np.exp(constraint.lowest)) for block in blocks]
    found, table = list(wanted), condition_block(constraint, blocks)
    # Which cells each code of an attribute has, so that sums over cells are products of matrices.
    cells = np.arange(constraint.codes.shape[1])
    members = [
        csr_array((np.ones(len(cells)), (code, cells)), shape=(size, len(cells)))
        for size, code in zip(constraint.sizes, constraint.codes, strict=True)
    ]
    # Inside each component first, where it converges fast; what is left is between the components.
    for _ in range(TURNS):
        off = 0.0
        for i, (code, member) in enumerate(zip(constraint.codes, members, strict=True)):
            held = member @ table
            off += float(np.abs(wanted[i] - held)[held > 0].sum())
            change = _change_factors(wanted[i], held)
            found[i] = found[i] * change
            table *= change[code]
        if off < CLOSE_ENOUGH * table.shape[1] * len(blocks):
            break
    for _ in range(JOINT_TURNS):
        # Raking inside components cannot always meet all one-ways; what is left is spread over all components
        # alike.
        for i, (member, block) in enumerate(zip(members, blocks, strict=True)):
            found = [part / part.sum(axis=0) for part in found]
            change = _change_factors(block @ weights, member @ (condition_block(constraint, found) @ weights))
            found[i] = found[i] * change[:, None]
    return [part / part.sum(axis=0) for part in found]


def _change_factors(wanted: Floats, held: Floats) -> Floats:
    """What brings sums over cells to those that are wanted, within bounds; 1 where there are no cells."""
    change = np.divide(wanted, held, out=np.ones_like(held), where=held > 0)
    return np.clip(change, 1 / MAX_FACTOR_CHANGE, MAX_FACTOR_CHANGE)


@functools.lru_cache(maxsize=4)
def _of(rules: CodeRules) -> tuple[ConstraintBlock, ...]:
    found = []
    for names in rules.groups():
        sizes = tuple(rules.sizes[name] for name in names)
        codes = _list_allowed(rules, names, sizes)
        if codes is not None:
            feasible_shares = rules.feasible_shares(dict(zip(names, codes, strict=True)), codes.shape[1])
            found.append(_inform_block(ConstraintBlock(names, sizes, codes, feasible_shares), rules))
    return tuple(found)


def _inform_block(constraint: ConstraintBlock, rules: CodeRules) -> ConstraintBlock:
    """The constraint block with feasible share brought to the quiet ones of its measured pairs by
    proportional fitting.

    What all components share costs no information. At epsilon 0.2 pairs outside of the constraint block gain
    by it what those inside lose (bench/LOG.md); a pair that is nothing but noise says nothing.
    """
    quiet = []
    # Each measured pair inside of the block that noise does not drown becomes a margin to fit to.
    for one, two in combinations(constraint.names, 2):
        seen = rules.pair(one, two)
        if seen is not None:
            keys, size = constraint.keys((one, two))
            own, share = np.unique(keys), np.zeros(size)
            # Counts of cells that rules forbid are dropped here: a feasible cell cannot take them.
            counts, variance = (part.ravel()[own] for part in seen)
            total = max(float(counts.sum()), 1.0)
            # Half the mean absolute deviation of a normal variable is 0.4 sigma: total variation.
            if 0.4 * float(np.sqrt(variance).sum()) < MAX_NOISE_SHARE * total:
                share[own] = project_simplex(counts / total, variance / total**2)
                quiet.append((keys, share))
    if not quiet:
        return constraint
    base = constraint.feasible_shares / constraint.feasible_shares.sum()
    found = base.copy()
    for _ in range(TURNS):
        for keys, share in quiet:
            held = np.bincount(keys, weights=found, minlength=len(share))
            found *= np.divide(share, held, out=np.ones_like(held), where=held > 0)[keys]
            found /= max(float(found.sum()), 1e-300)
    # A part of the rules' own share stays, so that noise in a pair cannot rule a cell out for every
    # component.
    feasible_shares = (1.0 - SPARE_SHARE) * found + SPARE_SHARE * base
    return replace(constraint, feasible_shares=feasible_shares / feasible_shares.max())


def _list_allowed(rules: CodeRules, names: Sequence[str], sizes: Sequence[int]) -> Longs | None:
    """The cells that the rules allow, [attributes, cells]; None where they are too many."""
    codes = np.zeros((0, 1), dtype=np.int64)
    for i, size in enumerate(sizes):
        count = codes.shape[1]
        # Cells grow attribute by attribute and what rules forbid goes at once, so the full product is never
        # made.
        if count * size > MAX_CELLS_AT_ONCE:
            return None
        codes = np.vstack([np.repeat(codes, size, axis=1), np.tile(np.arange(size), count)])
        known = dict(zip(names[: i + 1], codes, strict=True))
        # `possible` drops a partial cell only if no code of the attributes to come could make it obey.
        codes = codes[:, rules.possible(known, codes.shape[1])]
    return codes if 0 < codes.shape[1] <= MAX_BLOCK_CELLS else None


@dataclass(frozen=True, slots=True)
class ConstrainedPair:
    """A measured pair of two attributes of one constraint block.

    Args:
        keys: Each allowed cell's cell of the pair, shape [cells].
        values: Noisy proportions, shape [pair's cells].
        weights: 1 / variance of each.
    """

    keys: Longs
    values: Floats
    weights: Floats


@dataclass(frozen=True, slots=True)
class ConstrainedTables:
    """A constraint block, where its codes stand among all, and its measured pairs.

    Args:
        constraint: The cells.
        rows: The codes of its attributes among those of all, shape [codes of the constraint block].
        places: Each cell's codes, as places in `rows`, shape [attributes, cells].
        measured: Which of `rows` are of an attribute that was measured; the others stay uniform.
        pairs: Measured pairs of two of its attributes.
    """

    constraint: ConstraintBlock
    rows: Longs
    places: Longs
    measured: NDArray[np.bool_]
    pairs: tuple[ConstrainedPair, ...]


def stack_constrained(
    domain: Domain, starts: Longs, pairs: Floats, weights: Floats, ones: Floats
) -> tuple[ConstrainedTables, ...]:
    """Of each constraint block under a domain's rules.

    Args:
        domain: With its rules, if any.
        starts: Where each attribute's codes begin, shape [attributes + 1].
        pairs: Noisy proportions of all pairs, symmetric, shape [codes, codes].
        weights: 1 / variance of each, 0 where unmeasured.
        ones: 1 / variance of the one-ways, 0 where unmeasured, shape [codes].
    """
    known = np.logical_or(weights.any(axis=1), ones > 0)
    return tuple(
        _tables(constraint, domain, starts, pairs, weights, known) for constraint in constraint_blocks(domain)
    )


def _tables(
    constraint: ConstraintBlock,
    domain: Domain,
    starts: Longs,
    pairs: Floats,
    weights: Floats,
    known: NDArray[np.bool_],
) -> ConstrainedTables:
    at = {name: np.arange(*starts[domain.index(name) :][:2]) for name in constraint.names}
    within = np.cumsum([0, *constraint.sizes])[:-1]
    found = []
    for one, two in combinations(constraint.names, 2):
        here = np.ix_(at[one], at[two])
        # Only pairs of which something was measured pull on the constraint block's cells.
        if weights[here].any():
            found.append(
                ConstrainedPair(constraint.keys((one, two))[0], pairs[here].ravel(), weights[here].ravel())
            )
    rows = np.concatenate([at[name] for name in constraint.names])
    # Codes of an attribute of which anything was measured count as measured.
    any_measured = [bool(known[at[name]].any()) for name in constraint.names]
    measured = np.repeat(any_measured, constraint.sizes)
    return ConstrainedTables(constraint, rows, constraint.codes + within[:, None], measured, tuple(found))


class ConstrainedPart:
    """The part of an objective that one constraint block has.

    Args:
        tables: The constraint block and what was measured of it.
        components: Number of components.
        information: Penalty per nat of dependence.
    """

    def __init__(self, tables: ConstrainedTables, components: int, information: float) -> None:
        self.tables = tables
        self.information = float(np.float32(information))
        self._cells = np.empty((tables.places.shape[1], components), np.float32)
        self._logs = self._norms = np.empty(0, np.float32)
        self._mean = np.empty(0)

    def spread(self, shares: Singles, logs: Singles) -> None:
        """Put the one-ways of T in place of Q in `shares`; the codes of other attributes stay."""
        tables, kind = self.tables, shares.dtype.type
        # A run in double precision hands in tables of that type; the cells, which are written anew below,
        # follow. What they hold is not cast: it may be no number.
        if self._cells.dtype != kind:
            self._cells = np.empty(self._cells.shape, kind)
        own = np.maximum(logs[tables.rows], kind(tables.constraint.lowest))
        # An attribute that was never measured has logarithm 0 for every code: within the rules it stays even.
        self._logs = np.where(tables.measured[:, None], own, kind(0.0))
        own = np.exp(self._logs)
        self._norms = _products(
            self._cells, own, tables.constraint.feasible_shares.astype(kind), tables.places
        )
        ones = np.zeros_like(own)
        _sum_block(self._cells, ones, kind(1.0) / self._norms, tables.places)
        shares[tables.rows] = ones

    def pull_weights(self, gradient: Singles, shares: Singles, weights: Singles, by_weight: Floats) -> float:
        """Turn derivatives by the one-ways of T, in `gradient`, into natural ones by log Q.

        Adds what the constraint block's pairs and its information have to `by_weight`; returns their value.
        """
        rows, kind, penalty = self.tables.rows, gradient.dtype.type, self.information
        self._mean = (self._cells @ weights).astype(np.float64)
        value, alone = self._miss_pairs()
        # The penalty is relative to what rules alone would leave feasible: an even spread over those cells
        # costs nothing.
        known = np.log(self.tables.constraint.feasible_shares) - np.log(
            np.maximum(self._mean, MIN_CELL_SHARE)
        )
        cells, ones = (alone + penalty * known).astype(kind), shares[rows]
        # log T is log v plus the codes' log Q less log Z, so the penalty has parts by cell, by code and by
        # norm.
        below = gradient[rows] + kind(penalty) * self._logs
        summed, paid = np.zeros_like(below), cells @ self._cells
        _return_gradient(self._cells, below, cells, summed, self.tables.places)
        # E_k[g], the mean of the derivative under T_k, which is taken out of each code's conditional mean.
        mean = paid + (below * ones).sum(axis=0)
        present = (ones > kind(MIN_CELL_SHARE)) & self.tables.measured[:, None]
        gradient[rows] = np.where(present, summed / np.where(present, ones, kind(1.0)) - mean, kind(0.0))
        nats = penalty * ((ones * self._logs).sum(axis=0) - np.log(self._norms))
        by_weight += paid + nats
        return value + penalty * float(known @ self._mean) + float(weights @ nats)

    def _miss_pairs(self) -> tuple[float, Floats]:
        """The squared residuals of the constraint block's pairs, and the derivative by each cell's share,
        [cells]."""
        value, alone = 0.0, np.zeros_like(self._mean)
        for pair in self.tables.pairs:
            # How far the mixture's table of the pair, the cells' sums by key, is from what was measured.
            miss = np.bincount(pair.keys, weights=self._mean, minlength=len(pair.values)) - pair.values
            pull = pair.weights * miss
            value += float(pull @ miss)
            alone += 2.0 * pull[pair.keys]
        return value, alone


@compile_summing
def _products(cells: Singles, shares: Singles, feasible_shares: Singles, places: Longs) -> Singles:
    """Fills in T without its norm; returns the norm, shape [components]."""
    count = cells.shape[1]
    norms = np.zeros(count, cells.dtype)
    for c in range(cells.shape[0]):
        # T_k(x) before its norm: the feasible share times one conditional of each attribute.
        line, first = cells[c], shares[places[0, c]]
        for k in range(count):
            line[k] = feasible_shares[c] * first[k]
        for i in range(1, places.shape[0]):
            other = shares[places[i, c]]
            for k in range(count):
                line[k] *= other[k]
        for k in range(count):
            norms[k] += line[k]
    return norms


@compile_summing
def _sum_block(cells: Singles, ones: Singles, over: Singles, places: Longs) -> None:
    """Normalise T, in place, and add up its one-ways."""
    count = cells.shape[1]
    for c in range(cells.shape[0]):
        line = cells[c]
        for k in range(count):
            line[k] *= over[k]
        for i in range(places.shape[0]):
            own = ones[places[i, c]]
            for k in range(count):
                own[k] += line[k]


@compile_summing
def _return_gradient(cells: Singles, below: Singles, alone: Singles, summed: Singles, places: Longs) -> None:
    """Adds T times the derivative by T, which is a sum over a cell's codes and its own, to each code."""
    count = cells.shape[1]
    pull = np.empty(count, cells.dtype)
    for c in range(cells.shape[0]):
        line = cells[c]
        # The derivative by a cell times the cell is needed once for every attribute, so it is made once a
        # cell and dealt out.
        pull[:] = alone[c]
        for i in range(places.shape[0]):
            own = below[places[i, c]]
            for k in range(count):
                pull[k] += own[k]
        for k in range(count):
            pull[k] *= line[k]
        for i in range(places.shape[0]):
            own = summed[places[i, c]]
            for k in range(count):
                own[k] += pull[k]
