"""Ties: attributes that rules tie together, as the cells of them that the rules allow."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from margrave.models.compiled import compiled, summing
from margrave.models.independent import simplex
from margrave.schema.domain import Domain
from margrave.schema.rules_codes import CodeRules

__all__ = ["Tie", "conditioned", "raked", "ties"]

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

MOST = 1 << 13
"""Allowed cells of one tie, at most; what is larger is left to drawing rows again."""
WIDEST = 1 << 22
"""Cells looked at on the way to a tie's allowed ones, at most."""
LOWEST, DEEPEST = -30.0, -65.0
"""Least logarithm of a code in a component, and least sum of a cell's: single precision ends at -87."""
TURNS, BACK, ENOUGH = 20, 3, 1e-3
"""Rounds of proportional fitting at most, those of all components together, and the mean distance from the
wanted one-ways that will do."""
FURTHEST = 30.0
"""Most by which one round changes a factor."""
QUIET, SPARE = 1.0, 0.05
"""Share of the rows that the noise on a pair may make up for the pair to shape all components alike, and the
part of a tie that such pairs leave as it was."""


@dataclass(frozen=True, slots=True)
class Tie:
    """A group of attributes and its cells.

    Args:
        names: The attributes.
        sizes: Codes of each.
        codes: The allowed cells, shape [attributes, cells].
        room: What all components have in common, up to a factor, shape [cells]: the share of the values in
            each cell's bins that obey, brought to the pairs that were measured with little noise.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    codes: Longs
    room: Floats

    @property
    def lowest(self) -> float:
        """Logarithm below which a code's share in a component counts as this."""
        return max(LOWEST, DEEPEST / len(self.names))

    def keys(self, names: Sequence[str]) -> tuple[Longs, int]:
        """Each allowed cell's cell of some attributes, shape [cells], and how many of those there are."""
        keys, size = np.zeros(self.codes.shape[1], dtype=np.int64), 1
        for name in names:
            i = self.names.index(name)
            keys, size = keys * self.sizes[i] + self.codes[i], size * self.sizes[i]
        return keys, size


def ties(domain: Domain) -> tuple[Tie, ...]:
    """The groups of attributes that a domain's rules tie together, those of at most MOST allowed cells."""
    return () if domain.rules is None else _of(domain.rules)


def conditioned(tie: Tie, blocks: Sequence[Floats]) -> Floats:
    """Each component's distribution over a tie's cells: room times its product there, normalised.

    Args:
        tie: The cells.
        blocks: Each attribute's conditionals, shape [codes, components].

    Returns:
        Shape [cells, components].
    """
    found = np.repeat(np.log(tie.room)[:, None], blocks[0].shape[1], axis=1)
    for code, block in zip(tie.codes, blocks, strict=True):
        found += np.log(np.maximum(block, np.exp(tie.lowest)))[code]
    found -= found.max(axis=0)
    np.exp(found, out=found)
    found /= found.sum(axis=0)
    return found


def raked(tie: Tie, blocks: Sequence[Floats], weights: Floats) -> list[Floats]:
    """Conditionals from which `conditioned` makes tables whose one-ways are `blocks`, where rules allow it.

    Iterative proportional fitting (Deming and Stephan 1940) inside every component, for conditionals that
    were fitted without the rules. Where that cannot be, factors that are the same in all components then
    bring the mixture's one-ways back.

    Args:
        tie: The cells.
        blocks: Each attribute's one-ways, shape [codes, components].
        weights: Of the components, shape [components].
    """
    starts = np.cumsum([0, *tie.sizes])
    wanted = np.maximum(np.concatenate(blocks), np.exp(tie.lowest))
    factors = wanted.copy()
    _rake(conditioned(tie, blocks), tie.codes, starts, wanted, np.empty_like(wanted), factors, TURNS)
    found = [part / part.sum(axis=0) for part in np.split(factors, starts[1:-1])]
    for _ in range(BACK):
        for i, (code, block) in enumerate(zip(tie.codes, blocks, strict=True)):
            held = np.bincount(code, weights=conditioned(tie, found) @ weights, minlength=len(block))
            change = np.divide(block @ weights, held, out=np.ones_like(held), where=held > 0)
            found[i] = found[i] * np.clip(change, 1 / FURTHEST, FURTHEST)[:, None]
            found[i] /= found[i].sum(axis=0)
    return found


@functools.lru_cache(maxsize=4)
def _of(rules: CodeRules) -> tuple[Tie, ...]:
    found = []
    for names in rules.groups():
        sizes = tuple(rules.sizes[name] for name in names)
        codes = _allowed(rules, names, sizes)
        if codes is not None:
            room = rules.room(dict(zip(names, codes, strict=True)), codes.shape[1])
            found.append(_informed(Tie(names, sizes, codes, room), rules))
    return tuple(found)


def _informed(tie: Tie, rules: CodeRules) -> Tie:
    """The tie with room brought to the quiet ones of its measured pairs by proportional fitting.

    What all components share costs no information. At epsilon 0.2 pairs outside of the tie gain by it what
    those inside lose (bench/LOG.md); a pair that is nothing but noise says nothing.
    """
    quiet = []
    for one, two in combinations(tie.names, 2):
        seen = rules.pair(one, two)
        if seen is not None:
            keys, size = tie.keys((one, two))
            own, share = np.unique(keys), np.zeros(size)
            counts, variance = (part.ravel()[own] for part in seen)
            total = max(float(counts.sum()), 1.0)
            # Half the mean absolute deviation of a normal variable is 0.4 sigma: total variation.
            if 0.4 * float(np.sqrt(variance).sum()) < QUIET * total:
                share[own] = simplex(counts / total, variance / total**2)
                quiet.append((keys, share))
    if not quiet:
        return tie
    base = tie.room / tie.room.sum()
    found = base.copy()
    for _ in range(TURNS):
        for keys, share in quiet:
            held = np.bincount(keys, weights=found, minlength=len(share))
            found *= np.divide(share, held, out=np.ones_like(held), where=held > 0)[keys]
            found /= max(float(found.sum()), 1e-300)
    room = (1.0 - SPARE) * found + SPARE * base
    return replace(tie, room=room / room.max())


def _allowed(rules: CodeRules, names: Sequence[str], sizes: Sequence[int]) -> Longs | None:
    """The cells that the rules allow, [attributes, cells]; None where they are too many."""
    codes = np.zeros((0, 1), dtype=np.int64)
    for i, size in enumerate(sizes):
        count = codes.shape[1]
        if count * size > WIDEST:
            return None
        codes = np.vstack([np.repeat(codes, size, axis=1), np.tile(np.arange(size), count)])
        known = dict(zip(names[: i + 1], codes, strict=True))
        codes = codes[:, rules.possible(known, codes.shape[1])]
    return codes if 0 < codes.shape[1] <= MOST else None


@summing
def _rake(
    table: Floats, codes: Longs, starts: Longs, wanted: Floats, held: Floats, factors: Floats, turns: int
) -> None:
    """Proportional fitting inside every component, in place: so many turns over all attributes, at most."""
    for _ in range(turns):
        off = 0.0
        for i in range(len(codes)):
            held[starts[i] : starts[i + 1]] = 0.0
            for c in range(len(table)):
                line = held[starts[i] + codes[i, c]]
                for k in range(len(line)):
                    line[k] += table[c, k]
            for row in range(starts[i], starts[i + 1]):
                off += _ratio(wanted[row], held[row], factors[row])
            for c in range(len(table)):
                line = held[starts[i] + codes[i, c]]
                for k in range(len(line)):
                    table[c, k] *= line[k]
        if off < ENOUGH * table.shape[1] * len(codes):
            break


@compiled
def _ratio(wanted: Floats, held: Floats, factors: Floats) -> float:
    """Turn what a code holds in each component into the factor it needs; return how far it was off."""
    off = 0.0
    for k in range(len(held)):
        if held[k] > 0.0:
            off += abs(wanted[k] - held[k])
            held[k] = min(max(wanted[k] / held[k], 1.0 / FURTHEST), FURTHEST)
        else:
            held[k] = 1.0
        factors[k] *= held[k]
    return off
