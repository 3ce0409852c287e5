"""MixtureModel: a fitted mixture of product distributions."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, ReleaseError, invalid
from margrave.limits import Deadline
from margrave.models.evidence import Evidence
from margrave.models.mixture.joined import Joined, joined
from margrave.models.mixture.nest import Nest, remembered_nests
from margrave.models.mixture.rows import conditioned, draw
from margrave.models.ruled import sampled
from margrave.schema.domain import Clique, Domain
from margrave.schema.encoded import Codes, Encoded
from margrave.threads import one_blas_thread

if TYPE_CHECKING:
    from margrave.models.mixture.labels import Labels
    from margrave.models.mixture.optimise import Descent

__all__ = ["MixtureModel", "restored"]

Floats = NDArray[np.float64]

BALANCED = 0.05
"""A fit counts as converged when the codes' prices are out of balance by less than this part of a nat's."""


class MixtureModel:
    """p(x) = sum_k w_k prod_i Q_ki(x_i); made by `Mixture`.

    Args:
        domain: Names and sizes of the attributes.
        total: Rows the model stands for.
        weights: w, shape [components].
        shares: Q, the attributes' codes one below the other, shape [codes, components].
        information: Price of a nat the fit was made at.
        descent: How the fit went; None for a model that was loaded.
        labels: How some attributes are drawn given the others; None to draw all from the mixture.
        nests: Attributes that share atoms of their own. Their conditionals in `shares` are those of the nest.
    """

    def __init__(
        self,
        domain: Domain,
        total: float,
        weights: NDArray[np.floating],
        shares: NDArray[np.floating],
        information: float,
        descent: Descent | None,
        labels: Labels | None = None,
        nests: Sequence[Nest] = (),
    ) -> None:
        self._domain = domain
        self._total = float(total)
        self.weights = np.asarray(weights, dtype=np.float64)
        self._starts = np.concatenate([[0], np.cumsum(domain.sizes)]).astype(np.int64)
        self.fitted = np.asarray(shares, dtype=np.float64)
        self.information = information
        self.descent = descent
        self.labels = labels
        self.nests = tuple(nests)

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
        return self.descent is None or self.descent.gap <= BALANCED

    @functools.cached_property
    def ties(self) -> list[Joined]:
        """Attributes that rules tie together."""
        parts = {name: self.fitted_block(name) for name in self._domain.names}
        return joined(self._domain, parts)

    @functools.cached_property
    def groups(self) -> list[Joined | Nest]:
        """Attributes that more than the components ties together: rules, or a nest's atoms."""
        return [*self.ties, *self.nests]

    @functools.cached_property
    def shares(self) -> Floats:
        """Q as the rules leave it, the attributes' codes one below the other, shape [codes, components]."""
        shares = self.fitted.copy() if self.ties else self.fitted
        for tie in self.ties:
            for name in tie.names:
                shares[self._part(name)] = tie.summed((name,))
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

        A clique with a label is a mean over reference rows, of which there are enough for an error of less
        than 0.2 % of the rows; marginals with and without a label agree up to that.

        Raises:
            InputError: The clique repeats an attribute.
        """
        if len(set(clique)) != len(clique):
            raise InputError(invalid("clique", "without repeats", "Name each attribute once.", got=clique))
        if self.labels is not None and not set(clique).isdisjoint(self.labels.names):
            return self._total * self.labels.project(clique)
        return self._total * self._mixed(clique)

    def _mixed(self, clique: Clique) -> Floats:
        for nest in self.nests:
            if clique and set(clique) <= set(nest.names):
                return nest.mixed(clique, self.weights)
        table, tied = self.weights[None, :], [group.told(dict.fromkeys(clique, 0)) for group in self.groups]
        parts = {names: group.summed(names) for names, group in zip(tied, self.groups, strict=True) if names}
        alone = [name for name in clique if not any(name in names for names in parts)]
        blocks = [*parts.items(), *(((name,), self.block(name)) for name in alone)]
        if not blocks:
            return np.asarray(table.sum())
        for _, block in blocks[:-1]:
            table = (table[:, None, :] * block[None, :, :]).reshape(-1, len(self.weights))
        order = [name for names, _ in blocks for name in names]
        found = (table @ blocks[-1][1].T).reshape(self._domain.shape(order))
        return np.asarray(found.transpose([order.index(name) for name in clique]))

    def project_many(self, cliques: Sequence[Clique]) -> list[Floats]:
        """The marginals of many cliques; pairs are taken from one product of matrices."""
        pairs = [clique for clique in cliques if self._loose(clique)]
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

        Pairs that rules or nests tie together are as if they were not, see `project_many`.
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
        """Synthetic rows, conditioned on the codes in `given` and on the rules; see `Labels.draw`.

        Args:
            rows: How many, at least 0.
            rng: Source of randomness.
            given: Codes by attribute, one for all rows or one a row; rows keep the order of those.
            deadline: When rows are no longer moved towards the model's pairs; all are drawn in any case.

        Raises:
            InputError: rows is negative, a code is outside its attribute, or no row obeys the rules with it.
        """

        def drawn(count: int, codes: Evidence) -> list[NDArray[np.int64]]:
            return (
                draw(self, count, rng, codes, deadline=deadline)
                if self.labels is None
                else self.labels.draw(self, count, rng, codes, deadline)
            )

        def ways() -> dict[str, Floats]:
            return {name: self.project((name,)) for name in self._domain.names}

        return sampled(self._domain, rows, given, rng, drawn, ways)

    def posterior(self, evidence: Mapping[str, int]) -> Floats:
        """Component weights given some codes: w_k prod_i Q_ki(x_i), normalised, shape [components]."""
        return conditioned(self, evidence)

    def state(self) -> dict[str, Floats]:
        """Arrays from which `Mixture.restore` builds the same model again."""
        state = {
            "total": np.asarray(self._total),
            "weights": self.weights,
            "shares": self.fitted,
            "information": np.asarray(self.information),
        }
        for place, nest in enumerate(self.nests):
            names = np.array([self._domain.index(name) for name in nest.names], dtype=np.float64)
            own = nest.state() | {"names": names}
            state |= {f"nest_{place}_{key}": value for key, value in own.items()}
        return state if self.labels is None else state | self.labels.state()

    def with_labels(self, labels: Labels) -> MixtureModel:
        """The same mixture, with some attributes drawn given the others."""
        same = self._domain, self._total, self.weights, self.fitted, self.information, self.descent
        return MixtureModel(*same, labels, self.nests)

    def _loose(self, clique: Clique) -> bool:
        """Whether a clique is a pair of attributes that only the components tie together."""
        if len(clique) != 2 or clique[0] == clique[1]:
            return False
        if self.labels is not None and not set(clique).isdisjoint(self.labels.names):
            return False
        return not any(set(clique) <= set(group.names) for group in self.groups)


def restored(domain: Domain, state: Mapping[str, Floats]) -> MixtureModel:
    """The model whose `state` was saved.

    Raises:
        ReleaseError: The state is not that of a mixture over this domain.
    """
    from margrave.models.mixture.labels import remembered

    parts = {key: np.asarray(state.get(key, np.nan), dtype=np.float64) for key in ("total", "information")}
    weights = np.asarray(state.get("weights", ()), dtype=np.float64)
    shares = np.asarray(state.get("shares", ()), dtype=np.float64)
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
        nests=remembered_nests(domain, len(weights), state),
    )
    return remembered(model, state)
