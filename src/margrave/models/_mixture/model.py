"""MixtureModel: a fitted mixture of product distributions.

ConditionedBlock: attributes that rules tie together, drawn as one inside every component of a mixture.

Inside component k a group's attributes have the distribution v(x) Q_k1(x_1) ... Q_kn(x_n) / Z_k over the
cells x that the rules allow, and 0 elsewhere; v is the share of the values in a cell's bins that obey. The
descent fits these distributions (`constraint_blocks`), so nothing is mended here.

GroupedMixture: a mixture over groups of codes, answering in codes.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, ReleaseError, invalid
from margrave.limits import Deadline, one_blas_thread
from margrave.models._base.constraints import Evidence, sample_codes
from margrave.models._base.model import Model
from margrave.models._base.pooling import Pooled
from margrave.models._grouping import CodeGrouping, GroupedModel
from margrave.models._mixture.constraint_blocks import (
    MAX_CELLS_AT_ONCE,
    ConstraintBlock,
    condition_block,
    constraint_blocks,
    rake_block,
)
from margrave.models._mixture.latent_blocks import LatentBlock, latent_blocks_from_state
from margrave.models._mixture.rows import PASSES, draw, find_probability
from margrave.models._sampling.rounding import draw_column, order_by_group
from margrave.models._wide_pairs import estimate_wide_pairs
from margrave.schema.domain import Clique, Domain
from margrave.schema.encoded import Codes, Encoded

if TYPE_CHECKING:
    from margrave.models._mixture.refinements import Refinements
    from margrave.models.mixture.descent import Descent

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]


MAX_CONVERGED_GAP = 0.05
"""A fit counts as converged when the codes' penalties are out of balance by less than this part of a
nat's."""


@dataclass(frozen=True, slots=True)
class ConditionedBlock(ConstraintBlock):
    """A constraint block inside of a mixture.

    Args:
        table: Each component's distribution over the allowed cells, shape [cells, components].
    """

    table: Floats

    def summed(self, names: Sequence[str]) -> Floats:
        """Each component's distribution of some of the attributes, shape [their cells, components]."""
        keys, size = self.keys(names)
        found = np.zeros((size, self.table.shape[1]))
        # Cells of equal key lie together once sorted, so that one pass adds up each run.
        order = np.argsort(keys, kind="stable")
        held, firsts = np.unique(keys[order], return_index=True)
        found[held] = np.add.reduceat(self.table[order], firsts, axis=0)
        return found

    def told(self, given: Collection[str]) -> tuple[str, ...]:
        """Which of the attributes are given."""
        return tuple(name for name in self.names if name in given)

    def likelihood(self, given: Evidence, rows: int) -> tuple[Longs, Floats]:
        """How likely each component makes the given codes of each row.

        Returns:
            The line of each row, shape [rows], in a table of shape [lines, components]; a line of zeros for
            codes that the rules forbid.
        """
        told = self.told(given)
        cells, which = np.unique(self.cells(told, given, rows), return_inverse=True)
        keys, _ = self.keys(told)
        order = np.argsort(keys, kind="stable")
        table = np.zeros((len(cells), self.table.shape[1]))
        # Allowed cells that agree with the given codes are one stretch of the sorted keys, maybe an empty
        # one.
        first, last = (np.searchsorted(keys[order], cells, side=side) for side in ("left", "right"))
        for line, (start, end) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
            table[line] = self.table[order[start:end]].sum(axis=0)
        return which.ravel(), table

    def cells(self, names: Sequence[str], given: Evidence, rows: int) -> Longs:
        """Each row's cell of given attributes, as `summed` counts them, shape [rows]."""
        keys = np.zeros(rows, dtype=np.int64)
        for name in names:
            keys = keys * self.sizes[self.names.index(name)] + given[name]
        return keys

    def draw(self, components: Longs, given: Evidence, rng: np.random.Generator) -> dict[str, Longs]:
        """Codes of all attributes, given each row's component and some of them; each of shape [rows]."""
        told, rows = self.told(given), len(components)
        if not told:
            table = np.ascontiguousarray(self.table.T)
            cells = draw_column(components, order_by_group(components, len(table)), table, rng)
            return dict(zip(self.names, self.codes[:, cells], strict=True))
        keys, size = self.keys(told)
        order = np.argsort(keys, kind="stable")
        firsts = np.searchsorted(keys[order], np.arange(size + 1))
        mine = self.cells(told, given, rows)
        found = np.empty(rows, dtype=np.int64)
        # As many rows at once as their candidate cells fit into the limit.
        step = max(1, MAX_CELLS_AT_ONCE // max(int(np.diff(firsts).max(initial=1)), 1))
        for first in range(0, rows, step):
            part = slice(first, min(first + step, rows))
            found[part] = self._within(mine[part], components[part], order, firsts, rng)
        return dict(zip(self.names, self.codes[:, found], strict=True))

    def _within(
        self, cells: Longs, components: Longs, order: Longs, firsts: Longs, rng: np.random.Generator
    ) -> Longs:
        """A cell for each row among those that agree with its given codes."""
        count = self.table.shape[1]
        # Rows with the same given codes and component share one distribution.
        pairs, which = np.unique(cells * count + components, return_inverse=True)
        kinds = pairs // count
        starts = firsts[kinds]
        lengths = firsts[kinds + 1] - starts
        # Stretches of unlike length are padded to the longest; what lies beyond one's own length gets weight
        # 0.
        steps = np.arange(max(int(lengths.max(initial=1)), 1))
        inside = steps < lengths[:, None]
        places = np.minimum(starts[:, None] + steps, len(order) - 1)
        table = np.where(inside, self.table[order[places], (pairs % count)[:, None]], 0.0)
        # A component that gives none of these cells any weight says nothing: all of them are alike then.
        empty = table.sum(axis=1) <= 0.0
        table[empty] = inside[empty]
        drawn = draw_column(which.ravel(), order_by_group(which.ravel(), len(pairs)), table, rng)
        return np.asarray(order[places[which.ravel(), drawn]])


def condition_blocks(domain: Domain, blocks: Mapping[str, Floats]) -> list[ConditionedBlock]:
    """The groups of a domain's rules, those whose cells fit into memory.

    Args:
        domain: With its rules, if any.
        blocks: Each attribute's conditionals, shape [codes, components].
    """
    return [
        ConditionedBlock(
            constraint.names,
            constraint.sizes,
            constraint.codes,
            constraint.feasible_shares,
            condition_block(constraint, [blocks[name] for name in constraint.names]),
        )
        for constraint in constraint_blocks(domain)
    ]


class MixtureModel(Model):
    """p(x) = sum_k w_k prod_i Q_ki(x_i); made by `Mixture`, and by other families of products.

    Args:
        domain: Names and sizes of the attributes.
        total: Rows the model stands for.
        weights: w, shape [components].
        shares: Q, the attributes' codes one below the other, shape [codes, components].
        information: Penalty per nat the fit was made at.
        descent: How the fit went; None for a model that was loaded.
        refinements: How some attributes are drawn given the others; None to draw all from the mixture.
        latent_blocks: Attributes that share states of their own. Their conditionals in `shares` are those of
        the latent block.
    """

    def __init__(
        self,
        domain: Domain,
        total: float,
        weights: NDArray[np.floating],
        shares: NDArray[np.floating],
        information: float,
        descent: Descent | None,
        refinements: Refinements | None = None,
        latent_blocks: Sequence[LatentBlock] = (),
    ) -> None:
        self._domain = domain
        self._total = float(total)
        self.weights = np.asarray(weights, dtype=np.float64)
        self._starts = np.cumsum([0, *domain.sizes])
        self.fitted = np.asarray(shares, dtype=np.float64)
        self.information = information
        self.descent = descent
        self.refinements = refinements
        self.latent_blocks = tuple(latent_blocks)

    @property
    def domain(self) -> Domain:
        """Names and sizes of the attributes."""
        return self._domain

    @property
    def total(self) -> float:
        """The number of rows the model stands for; marginals sum to it."""
        return self._total

    @property
    def converged(self) -> bool:
        """Whether the fit ended in balance; see `Descent.gap`. A loaded model is taken as it is."""
        return self.descent is None or self.descent.gap <= MAX_CONVERGED_GAP

    @functools.cached_property
    def constraint_blocks(self) -> list[ConditionedBlock]:
        """Attributes that rules tie together."""
        parts = {name: self.fitted_block(name) for name in self._domain.names}
        return condition_blocks(self._domain, parts)

    @functools.cached_property
    def groups(self) -> list[ConditionedBlock | LatentBlock]:
        """Attributes that more than the components ties together: rules, or a latent block's states."""
        return [*self.constraint_blocks, *self.latent_blocks]

    @functools.cached_property
    def shares(self) -> Floats:
        """Q as the rules leave it, the attributes' codes one below the other, shape [codes, components]."""
        shares = self.fitted.copy() if self.constraint_blocks else self.fitted
        for constraint in self.constraint_blocks:
            for name in constraint.names:
                shares[self._part(name)] = constraint.summed((name,))
        return shares

    def _part(self, name: str) -> slice:
        i = self._domain.index(name)
        return slice(int(self._starts[i]), int(self._starts[i + 1]))

    def fitted_block(self, name: str) -> Floats:
        """The conditionals of one attribute as they were fitted, without rules, shape [codes, components]."""
        return self.fitted[self._part(name)]

    def block(self, name: str) -> Floats:
        """The conditionals of one attribute, shape [codes, components]."""
        return self.shares[self._part(name)]

    def project(self, clique: Clique) -> Floats:
        """The marginal of any clique, in rows, shape domain.shape(clique).

        A clique with a refined attribute is a mean over reference rows, of which there are enough for an
        error of less than 0.2 % of the rows; marginals with and without a refined attribute agree up to that.

        Raises:
            InputError: The clique repeats an attribute.
        """
        if len(set(clique)) != len(clique):
            raise InputError(invalid("clique", "without repeats", "Name each attribute once.", got=clique))
        if self.refinements is not None and not set(clique).isdisjoint(self.refinements.names):
            return self._total * self.refinements.project(clique)
        return self._total * self.mix_components(clique)

    def mix_components(self, clique: Clique) -> Floats:
        """The marginal of a clique without refinements, in proportions, shape domain.shape(clique)."""
        # A pair inside of one latent block depends on its states, beyond what components tell of it.
        for latent_block in self.latent_blocks:
            inside = latent_block.told(clique)
            others = [name for name in clique if name not in inside]
            if inside and not others:
                return latent_block.mixed(clique, self.weights)
            if len(inside) > 1 and len(others) == 1:
                weights = (self.block(others[0]) * self.weights).T
                return self._reorder(latent_block.summed_with(inside, weights), [*inside, *others], clique)
        # Attributes of one group are dependent inside a component, so they enter as one factor.
        table, tied = self.weights[None, :], [group.told(clique) for group in self.groups]
        # One attribute of a group alone has its shares already.
        parts = {
            names: group.summed(names)
            for names, group in zip(tied, self.groups, strict=True)
            if len(names) > 1
        }
        alone = [name for name in clique if not any(name in names for names in parts)]
        blocks = [*parts.items(), *(((name,), self.block(name)) for name in alone)]
        if not blocks:
            return np.asarray(table.sum())
        # All factors but the last are multiplied cell by cell; the last one's product also sums the
        # components.
        for _, block in blocks[:-1]:
            table = (table[:, None, :] * block[None, :, :]).reshape(-1, len(self.weights))
        order = [name for names, _ in blocks for name in names]
        return self._reorder(table @ blocks[-1][1].T, order, clique)

    def _reorder(self, table: Floats, names: Sequence[str], clique: Clique) -> Floats:
        """The cells of some attributes in the order of `names` as a table in that of the clique."""
        found = table.reshape(self._domain.shape(names))
        return np.asarray(found.transpose([names.index(name) for name in clique]))

    def project_many(self, cliques: Sequence[Clique]) -> list[Floats]:
        """The marginals of many cliques; pairs are taken from one product of matrices."""
        pairs = [clique for clique in cliques if self._loose(clique)]
        # One large product serves all pairs at once, and pays off from about as many pairs as attributes.
        if len(pairs) < len(self._domain):
            return [self.project(clique) for clique in cliques]
        square = self.pairs(self.weights)
        at = {name: slice(*self._starts[i : i + 2]) for i, name in enumerate(self._domain.names)}
        return [
            self._total * square[at[clique[0]], at[clique[1]]]
            if self._loose(clique)
            else self.project(clique)
            for clique in cliques
        ]

    def pairs(self, weights: Floats) -> Floats:
        """All pair tables under other component weights, in proportions, shape [codes, codes].

        Pairs that rules or latent blocks tie together are as if they were not, see `project_many`.
        """
        return np.asarray((self.shares * weights) @ self.shares.T)

    @one_blas_thread()
    def sample(
        self,
        rows: int,
        rng: np.random.Generator,
        given: Mapping[str, int | Codes] | None = None,
        deadline: Deadline | None = None,
    ) -> Encoded:
        """Synthetic rows, conditioned on the codes in `given` and on the rules; see `Refinements.draw`.

        Args:
            rows: How many, at least 0.
            rng: Source of randomness.
            given: Codes by attribute, one for all rows or one a row; rows keep the order of those.
            deadline: When rows are no longer moved towards the model's pairs; all are drawn in any case.

        Raises:
            InputError: rows is negative, a code is outside its attribute, or no row obeys the rules with it.
        """

        def draw_rows(count: int, codes: Evidence) -> list[NDArray[np.int64]]:
            return (
                draw(self, count, rng, codes, deadline=deadline)
                if self.refinements is None
                else self.refinements.draw(self, count, rng, codes, deadline)
            )

        def ways() -> dict[str, Floats]:
            return {name: self.project((name,)) for name in self._domain.names}

        return sample_codes(self._domain, rows, given, rng, draw_rows, ways)

    def draw_unrefined(
        self,
        rows: int,
        rng: np.random.Generator,
        evidence: Evidence,
        deadline: Deadline | None = None,
        balanced: bool = True,
    ) -> list[Longs]:
        """Rows in which no attribute is drawn anew; see `rows.draw`."""
        return draw(self, rows, rng, evidence, passes=PASSES if balanced else 0, deadline=deadline)

    def find_probability(self, columns: Mapping[str, Longs], asked: Mapping[str, Longs]) -> Floats:
        """p(attributes asked for | all other codes) of each row without refinements, shape [rows]."""
        return find_probability(self, columns, asked)

    def state(self) -> dict[str, Floats]:
        """Arrays from which `Mixture.restore` builds the same model again."""
        state = {
            "total": np.asarray(self._total),
            "weights": self.weights,
            "shares": self.fitted,
            "information": np.asarray(self.information),
        }
        for place, latent_block in enumerate(self.latent_blocks):
            names = np.array([self._domain.index(name) for name in latent_block.names], dtype=np.float64)
            own = latent_block.state() | {"names": names}
            state |= {f"nest_{place}_{key}": value for key, value in own.items()}
        return state if self.refinements is None else state | self.refinements.state()

    def with_refinements(self, refinements: Refinements | None) -> MixtureModel:
        """The same mixture, with some attributes drawn given the others, or none."""
        same = self._domain, self._total, self.weights, self.fitted, self.information, self.descent
        return MixtureModel(*same, refinements, self.latent_blocks)

    def _loose(self, clique: Clique) -> bool:
        """Whether a clique is a pair of attributes that only the components tie together."""
        if len(clique) != 2 or clique[0] == clique[1]:
            return False
        if self.refinements is not None and not set(clique).isdisjoint(self.refinements.names):
            return False
        return not any(set(clique) <= set(group.names) for group in self.groups)


def mixture_from_state(domain: Domain, state: Mapping[str, Floats]) -> MixtureModel:
    """The model whose `state` was saved.

    Raises:
        ReleaseError: The state is not that of a mixture over this domain.
    """
    from margrave.models._mixture.refinements import restore_refinements

    parts = {key: np.asarray(state.get(key, np.nan), dtype=np.float64) for key in ("total", "information")}
    weights = np.asarray(state.get("weights", ()), dtype=np.float64)
    shares = np.asarray(state.get("shares", ()), dtype=np.float64)
    # A release file may come from anybody: shapes and sums are checked before anything is drawn.
    sound = (
        all(part.shape == () and np.isfinite(part) and part >= 0 for part in parts.values())
        and parts["total"] > 0
        and weights.ndim == 1
        and shares.shape == (sum(domain.sizes), len(weights))
        and bool((weights >= 0).all() and (shares >= 0).all())
        and abs(float(weights.sum()) - 1.0) < 1e-6
        and bool(np.allclose(shares.sum(axis=0), len(domain), atol=1e-3))
    )
    if not sound:
        raise ReleaseError(invalid("state", "a mixture over the domain", "The release is damaged."))
    model = MixtureModel(
        domain,
        float(parts["total"]),
        weights,
        shares,
        float(parts["information"]),
        None,
        latent_blocks=latent_blocks_from_state(domain, len(weights), state),
    )
    return model.with_refinements(restore_refinements(model, state))


def undo_grouping(
    model: MixtureModel,
    grouping: CodeGrouping,
    refinements: bool,
    tables: Sequence[Pooled] = (),
    pairs: Sequence[Clique] = (),
) -> MixtureModel | GroupedMixture:
    """The model over groups of codes, with all codes of large attributes that rules speak of.

    Of `pairs`, those whose attributes stay in groups are kept code by code, as `tables` have them.

    A rule about codes says little about groups of them; inside components codes are independent given their
    group, so that a component's distribution over codes is known. Refined attributes are given up for that,
    unless `refinements`.
    """
    rules, count = grouping.domain.rules, len(model.weights)
    names = () if rules is None else rules.names
    wide = [
        name
        for name in grouping.groups
        if name in names and grouping.domain[name] * count <= MAX_CELLS_AT_ONCE
    ]
    if not wide or refinements:
        return GroupedMixture(model, grouping, estimate_wide_pairs(model, grouping, tables, pairs))
    left = grouping.without(wide)
    pairs = [pair for pair in pairs if left.groups.keys() >= set(pair)]
    parts = {name: model.fitted_block(name) for name in model.domain.names}
    # Inside a component a code has its group's conditional times its share of the group.
    for name in wide:
        parts[name] = model.block(name)[grouping.groups[name]] * grouping.shares[name][:, None]
    domain = left.inner if left.groups else grouping.domain
    for constraint in constraint_blocks(domain):
        if not set(wide).isdisjoint(constraint.names):  # the fit knew less of these rules, or nothing
            own = [parts[name] if name in wide else model.block(name) for name in constraint.names]
            parts |= dict(zip(constraint.names, rake_block(constraint, own, model.weights), strict=True))
    rest = model.total, model.weights, np.concatenate(list(parts.values())), model.information, model.descent
    found = MixtureModel(domain, *rest)
    if not left.groups:
        return found
    return GroupedMixture(found, left, estimate_wide_pairs(found, left, tables, pairs))


class GroupedMixture(GroupedModel[MixtureModel]):
    """A mixture in which very large attributes are modelled in groups of codes; see `CodeGrouping`."""
