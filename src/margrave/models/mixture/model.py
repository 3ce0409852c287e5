"""MixtureModel: a fitted mixture of product distributions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, ReleaseError, invalid
from margrave.models.evidence import checked
from margrave.models.mixture.rows import conditioned, draw
from margrave.schema.domain import Clique, Domain
from margrave.schema.encoded import Encoded, code_dtype
from margrave.threads import one_blas_thread

if TYPE_CHECKING:
    from margrave.models.mixture.optimise import Descent
    from margrave.models.mixture.targeted import Target

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
        target: How the target attribute is drawn given the others; None to draw it from the mixture.
    """

    def __init__(
        self,
        domain: Domain,
        total: float,
        weights: NDArray[np.floating],
        shares: NDArray[np.floating],
        information: float,
        descent: Descent | None,
        target: Target | None = None,
    ) -> None:
        self._domain = domain
        self._total = float(total)
        self.weights = np.asarray(weights, dtype=np.float64)
        self._starts = np.concatenate([[0], np.cumsum(domain.sizes)]).astype(np.int64)
        self.shares = np.asarray(shares, dtype=np.float64)
        self.information = information
        self.descent = descent
        self.target = target

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

    def block(self, name: str) -> Floats:
        """The conditionals of one attribute, shape [codes, components]."""
        i = self._domain.index(name)
        return self.shares[self._starts[i] : self._starts[i + 1]]

    def project(self, clique: Clique) -> Floats:
        """The marginal of any clique, in rows, shape domain.shape(clique).

        A clique with the target is a mean over reference rows, of which there are enough for an error of
        less than 0.2 % of the rows.

        Raises:
            InputError: The clique repeats an attribute.
        """
        if len(set(clique)) != len(clique):
            raise InputError(invalid("clique", "without repeats", "Name each attribute once.", got=clique))
        if self.target is not None and self.target.name in clique:
            return self._total * self.target.project(clique)
        return self._total * self._mixed(clique)

    def _mixed(self, clique: Clique) -> Floats:
        table = self.weights[None, :]
        for name in clique[:-1]:
            block = self.block(name)
            table = (table[:, None, :] * block[None, :, :]).reshape(-1, len(self.weights))
        if not clique:
            return np.asarray(table.sum())
        last = self.block(clique[-1])
        return np.asarray((table @ last.T).reshape(self._domain.shape(clique)))

    def project_many(self, cliques: Sequence[Clique]) -> list[Floats]:
        """The marginals of many cliques; pairs are taken from one product of matrices."""
        pairs = [clique for clique in cliques if len(clique) == 2 and not self._targets(clique)]
        if len(pairs) < len(self._domain):
            return [self.project(clique) for clique in cliques]
        square = self.pairs(self.weights)
        at = {name: slice(*self._starts[i : i + 2]) for i, name in enumerate(self._domain.names)}
        return [
            self._total * square[at[clique[0]], at[clique[1]]]
            if len(clique) == 2 and clique[0] != clique[1] and not self._targets(clique)
            else self.project(clique)
            for clique in cliques
        ]

    def pairs(self, weights: Floats) -> Floats:
        """All pair tables under other component weights, in proportions, shape [codes, codes]."""
        return np.asarray((self.shares * weights) @ self.shares.T)

    @one_blas_thread()
    def sample(self, rows: int, rng: np.random.Generator, given: Mapping[str, int] | None = None) -> Encoded:
        """Synthetic rows, conditioned on the codes in `given`, exactly but for a given target.

        Given the target, rows are drawn from the mixture given it and resampled by importance, which is
        exact in the limit of many rows.

        Raises:
            InputError: rows is negative, or a code is outside its attribute.
        """
        if rows < 0:
            raise InputError(invalid("rows", "at least 0", "Ask for a number of rows.", got=rows))
        evidence = checked(self._domain, given or {})
        if self.target is None:
            columns = draw(self, rows, rng, evidence)
        else:
            columns = self.target.draw(self, rows, rng, evidence)
        sizes = self._domain.sizes
        return Encoded(
            self._domain, tuple(c.astype(code_dtype(s)) for c, s in zip(columns, sizes, strict=True))
        )

    def posterior(self, evidence: Mapping[str, int]) -> Floats:
        """Component weights given some codes: w_k prod_i Q_ki(x_i), normalised, shape [components]."""
        return conditioned(self, evidence)

    def state(self) -> dict[str, Floats]:
        """Arrays from which `Mixture.restore` builds the same model again."""
        state = {
            "total": np.asarray(self._total),
            "weights": self.weights,
            "shares": self.shares,
            "information": np.asarray(self.information),
        }
        return state if self.target is None else state | self.target.state()

    def _targets(self, clique: Clique) -> bool:
        return self.target is not None and self.target.name in clique


def restored(domain: Domain, state: Mapping[str, Floats]) -> MixtureModel:
    """The model whose `state` was saved.

    Raises:
        ReleaseError: The state is not that of a mixture over this domain.
    """
    from margrave.models.mixture.targeted import remembered

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
    )
    return remembered(model, state)
