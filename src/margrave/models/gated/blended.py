"""BlendedModel: rows of two models, of which each row is taken from one.

Where two models err differently, a mean of their tables errs less than either. A measured pair y with noise
of variance s^2 a cell says how far a model M is off: sum (y - M)^2 - s^2 estimates the sum of its squared
errors, with a standard deviation of sqrt(2 sum s^4) from the noise. In the mean each model has a usual share
(`SHARE`) over the larger of that estimate and 0, plus this deviation: where noise is large the usual shares
are left, and where it is small the nearer model has more, pair by pair.

The measured pair is a third estimate. A mean M of models errs in a cell about as the root of what it holds,
so its squared error is taken as k M with

    k = max(sum (y - M)^2 - s^2 - 2 sqrt(2 sum s^4), 0) / sum M

and the pair becomes M + k M / (k M + s^2) (y - M), by the precisions of both (`weigh_estimates`).

Rows are drawn from both models, given the same codes, and each row is taken from one of them. A coin for each
would give the tables of the rows a noise that both models' own rows do not have. So choices are changed while
that lowers the squared excess of all pair counts over these tables (`choose_rows`): each row remains as one
of the models drew it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import ReleaseError, invalid
from margrave.limits import Deadline
from margrave.models._base.compiled import compile_kernel
from margrave.models._base.model import INNER_PREFIX, Model, pack_inner, unpack_inner
from margrave.models._base.pooling import Pooled
from margrave.models.gated.model import MAX_BALANCED, GatedModel
from margrave.schema.domain import Clique, Domain
from margrave.schema.encoded import Codes, Encoded

if TYPE_CHECKING:
    from margrave import protocols

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Singles = NDArray[np.float32]
Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

PASSES = 12
"""How often a change is tried for each row. With half of claims-a public at epsilon 5 pairs of the rows are
.0118 off the mean of both draws after one pass, .0100 after four and .0091 after twelve, in a tenth of a
second."""
WORK = 1 << 28
"""Pairs that a pass looks at, at most: a second or two. Of more rows a part is tried."""
SHARE = 0.7
"""The share of auto's model where measured pairs do not say which model is nearer. On the choosing half .6
and .7 are within .5 % at epsilon .2, 1 and 5 (bench/LOG.md)."""
DEVIATIONS = 2.0
"""Standard deviations that models must be further from a measured pair than its noise is, before it is moved.
With 0 and 1 pairs are 2 and .6 % further off at epsilon .2, and .5 and .3 % closer at 5 (bench/LOG.md)."""
LEAST_COUNT = 0.5
"""Rows that are added to what a cell is expected to hold before its error is foretold from that."""
KEY = "blend_share"
"""An array that the state of a blend has and that of no other model of `PublicAuto`."""


class BlendedModel(Model):
    """A gated mixture and another model, of which each row is taken from one.

    Marginals are means of both models', those of measured pairs of what was measured as well; of public
    attributes alone they are counted.

    Args:
        gated: The gated mixture.
        other: A model of the same attributes.
        tables: What was measured.
        share: Of the other model where measured pairs do not say which is nearer, between 0 and 1.
    """

    def __init__(
        self, gated: GatedModel, other: protocols.Model, tables: Sequence[Pooled], share: float = SHARE
    ) -> None:
        self.gated, self.other, self.share = gated, other, float(share)
        public = set(gated.rows.names)
        pairs = (t for t in tables if len(t.clique) == 2 and not t.inferred)
        self._measured = {t.clique: t for t in pairs if not public.issuperset(t.clique)}

    @property
    def domain(self) -> Domain:
        """Names and sizes of the attributes."""
        return self.gated.domain

    @property
    def total(self) -> float:
        """The number of rows the model stands for; marginals sum to it."""
        return self.gated.total

    @property
    def converged(self) -> bool:
        """Whether both fits met their tolerances."""
        return self.gated.converged and self.other.converged

    def project(self, clique: Clique) -> Floats:
        """The marginal of any clique, in rows, shape domain.shape(clique).

        Raises:
            InputError: The clique repeats an attribute.
        """
        return self.project_many([clique])[0]

    def project_many(self, cliques: Sequence[Clique]) -> list[Floats]:
        """The marginals of many cliques."""
        public = set(self.gated.rows.names)
        modelled = [clique for clique in cliques if not public.issuperset(clique)]
        theirs = dict(zip(modelled, self.other.project_many(modelled), strict=True))
        found = []
        for clique, own in zip(cliques, self.gated.project_many(cliques), strict=True):
            other = theirs.get(clique)
            measured = self._measured.get(self.domain.canonical(clique))
            if other is not None and measured is not None:
                # Measured tables are in the domain's order, and a clique may be asked for in the other one.
                turn = clique != measured.clique
                one, two = (other.T, own.T) if turn else (other, own)
                pair = weigh_estimates(one, two, self.share, measured)
                own = pair.T if turn else pair
            elif other is not None:
                own = own + self.share * (other - own)
            found.append(own)
        return found

    def sample(
        self,
        rows: int,
        rng: np.random.Generator,
        given: Mapping[str, int | Codes] | None = None,
        deadline: Deadline | None = None,
    ) -> Encoded:
        """Synthetic rows, conditioned on the codes in `given` and on the rules, each from one of the models.

        Raises:
            InputError: rows is negative, a code is outside its attribute, or no row obeys the rules with it.
        """
        gated = self.gated.sample(rows, rng, given, deadline)
        known = {name: gated.column(name) for name in self.gated.rows.names}
        # Both draws have one public part, whoever has chosen it.
        other = self.other.sample(rows, rng, {**(given or {}), **known}, deadline)
        chosen = choose_rows(other, gated, self.share, rng, deadline, self._expect(known, rows, given))
        pairs = [(other.column(name), gated.column(name)) for name in self.domain.names]
        return Encoded(self.domain, tuple(np.where(chosen, one, two) for one, two in pairs))

    def _expect(
        self, known: Mapping[str, Codes], count: int, given: Mapping[str, int | Codes] | None
    ) -> Mapping[Clique, Floats] | None:
        """Pairs with a private attribute, if rows have the public part of the model's own; else None.

        Rows with another public part, and those that are given private codes, have tables of their own.
        """
        rows = self.gated.rows
        if count != len(rows.places) or not set(rows.names).issuperset(given or ()):
            return None
        for name, codes, start in zip(rows.names, rows.codes.T, rows.starts, strict=False):
            if (known[name] != (codes - start)[rows.places]).any():
                return None
        pairs = [pair for pair in combinations(self.domain.names, 2) if not set(rows.names).issuperset(pair)]
        return dict(zip(pairs, self.project_many(pairs), strict=True))

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays from which `PublicAuto.restore` builds the same model again."""
        return {KEY: np.asarray(self.share)} | pack_inner(self.gated) | self.other.state()


def split_state(
    state: Mapping[str, NDArray[Any]],
) -> tuple[float, dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    """The share, the gated mixture's arrays and the other model's, of a blend's state.

    Raises:
        ReleaseError: The share is none.
    """
    gated = unpack_inner(state)
    found = np.ravel(np.asarray(state[KEY], dtype=np.float64))
    if found.shape != (1,) or not 0 <= found[0] <= 1:
        raise ReleaseError(invalid("state", "with a share of the rows", "The release is damaged."))
    rest = {key: part for key, part in state.items() if key != KEY and not key.startswith(INNER_PREFIX)}
    return float(found[0]), gated, rest


def weigh_estimates(other: Floats, gated: Floats, share: float, measured: Pooled) -> Floats:
    """A pair's table, in rows, from two models and what was measured, each by how far it is off.

    Args:
        other, gated: What the models expect, shape [codes, codes].
        share: Of the first one where noise is large.
        measured: The same pair, measured.
    """
    values, variance = measured.values, measured.sigma**2

    def square_errors(table: Floats) -> float:
        return float(((values - table) ** 2 - variance).sum())

    doubt = math.sqrt(2.0 * float((variance**2).sum()))
    odds = share * (max(square_errors(gated), 0.0) + doubt)
    weight = odds / (odds + (1.0 - share) * (max(square_errors(other), 0.0) + doubt))
    mean = gated + weight * (other - gated)
    held = np.maximum(mean, 0.0) + LEAST_COUNT
    # In proportion to what cells hold, and only what noise does not explain.
    own = max(square_errors(mean) - DEVIATIONS * doubt, 0.0) / float(held.sum()) * held
    moved = np.maximum(mean + own / (own + variance) * (values - mean), 0.0)
    return np.asarray(moved * (mean.sum() / max(moved.sum(), 1e-300)))


def choose_rows(
    one: Encoded,
    other: Encoded,
    share: float,
    rng: np.random.Generator,
    deadline: Deadline | None = None,
    expected: Mapping[Clique, Floats] | None = None,
) -> Flags:
    """Which rows are taken from the first of two draws, shape [rows].

    About `share` of them, so that counts of pairs come near expected ones.

    Args:
        one, other: As many rows of the same attributes, given the same codes.
        share: Between 0 and 1.
        rng: Source of randomness.
        deadline: After it no choice is changed.
        expected: Tables in rows, of every pair in which the two draws may differ, each in the domain's order;
            None for share times the first draw's and 1 - share times the other's.
    """
    rows, order = one.rows, rng.permutation(one.rows)
    chosen = np.empty(rows, dtype=np.bool_)
    # Systematic: among any stretch of the order the share is kept within one row.
    chosen[order] = np.diff(np.floor(share * np.arange(rows + 1) + rng.random())) > 0
    names, starts = one.domain.names, np.cumsum([0, *one.domain.sizes])
    if starts[-1] > MAX_BALANCED or not 0 < share < 1:
        return chosen
    lines = [
        np.stack([part.column(name) + start for name, start in zip(names, starts, strict=False)])
        for part in (one, other)
    ]
    ours, theirs = (np.ascontiguousarray(part.T, dtype=np.int32) for part in lines)
    excess = np.zeros((int(starts[-1]), int(starts[-1])), np.float32)
    if expected is None:
        _count_rows(ours, -share, excess)
        _count_rows(theirs, share - 1.0, excess)
    else:
        parts = {name: slice(int(s), int(e)) for name, (s, e) in zip(names, pairwise(starts), strict=True)}
        for (a, b), table in expected.items():
            excess[parts[a], parts[b]] = -table
    _count_rows(ours[chosen], 1.0, excess)
    _count_rows(theirs[~chosen], 1.0, excess)
    most = max(WORK // max(len(starts) ** 2 // 2, 1), 1)
    for turn in range(PASSES):
        if deadline is not None and deadline.passed:
            break
        # Of very many rows each pass tries others.
        _change_choices(ours, theirs, chosen, np.roll(order, -turn * most)[:most], excess)
    return chosen


@compile_kernel
def _count_rows(rows: Ints, amount: float, excess: Singles) -> None:
    """Add an amount to the cells of all pairs of each row."""
    for i in range(len(rows)):
        for u in range(rows.shape[1]):
            for v in range(u + 1, rows.shape[1]):
                excess[rows[i, u], rows[i, v]] += np.float32(amount)


@compile_kernel
def _change_choices(one: Ints, other: Ints, chosen: Flags, order: Longs, excess: Singles) -> None:
    """Take each row in turn from the other draw where that lowers the sum of squared excesses."""
    for i in order:
        old, new = (one[i], other[i]) if chosen[i] else (other[i], one[i])
        # Strictly better only, or rounding would let equal rows change back and forth.
        if _find_change(old, new, excess) < -0.001:
            chosen[i] = not chosen[i]
            _move(old, new, excess)


@compile_kernel
def _find_change(old: Ints, new: Ints, excess: Singles) -> float:
    """Half of what the sum of squared excesses grows by when one row takes another's place."""
    change = np.float32(0.0)
    for u in range(len(old)):
        for v in range(u + 1, len(old)):
            if old[u] != new[u] or old[v] != new[v]:
                # A cell of excess e that gains a row adds 2 e + 1, one that loses a row 1 - 2 e.
                change += excess[new[u], new[v]] - excess[old[u], old[v]] + np.float32(1.0)
    return float(change)


@compile_kernel
def _move(old: Ints, new: Ints, excess: Singles) -> None:
    """Take a row out of the cells of its pairs and put another one in its place."""
    for u in range(len(old)):
        for v in range(u + 1, len(old)):
            if old[u] != new[u] or old[v] != new[v]:
                excess[old[u], old[v]] -= np.float32(1.0)
                excess[new[u], new[v]] += np.float32(1.0)
