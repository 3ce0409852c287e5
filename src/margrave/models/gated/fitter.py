"""Gated: fits a mixture whose weights follow from a row's public columns, over the public rows themselves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.limits import FULL, Effort, one_blas_thread
from margrave.models._base.constraints import resolve_dependencies, zero_forbidden
from margrave.models._base.estimator import Estimator
from margrave.models._base.pooling import SHARE, Pooled, compare, halves, mu, pool, rows_of
from margrave.models._base.public_rows import PublicRows
from margrave.models.gated.descent import descend, start
from margrave.models.gated.model import GatedModel, restore_model
from margrave.models.gated.objective import Targets, collect_targets
from margrave.schema.domain import Clique, Domain
from margrave.schema.encoded import Encoded

if TYPE_CHECKING:
    from margrave.protocols import Model
    from margrave.release import NoisyMarginal

Floats = NDArray[np.float64]

CERTAINTY = 1.0
"""By how much the sigma of cells that rules forbid is divided: as in the mixture of products."""
GATE = 0.4
"""Penalty per nat between row and component over that between component and private attributes. On the
choosing tables structural-a and real-wages .1 to .5 are alike at epsilon 1 and 5, and at .1 the dearer is
the better on one and worse on the other (bench/LOG.md), which the choice of the penalty makes up for."""
SPARSE = 2000.0
"""Rows times mu below which the rule for the penalty falls off faster: as in the mixture of products."""
PILOT, ROUGH = 80, 60
"""Steps of the fits that only choose a penalty, and of a rough fit."""
STEP, MOST_STEPS = 2.0, 2
"""Penalties are tried at this factor apart, while they get better, this many times up or else down at
most."""
SURE = 1.0
"""Standard errors by which another penalty has to be better than the rule's."""


@dataclass(frozen=True, slots=True)
class Gated(Estimator["GatedModel"]):
    """Fits p(b | a) = sum_k pi_k(a) prod_j Q_kj(b_j), with pi_k(a) = softmax_k(c_k + sum_u t_u[a_u, k]).

    a is a row's public part, which is given and exact, b its private part. What is fitted are the tables that
    rows drawn from the model are expected to have over the actual public rows (`Objective`): a model of all
    columns that is conditioned on the public ones afterwards loses a part of its fit, since its own p(a) is
    not that of the rows. Measured tables of public columns alone count for nothing, as they are known.

    The penalty per nat is information = 10 sqrt(x) min(x / 2000, 1)^(1/4), x rows times mu and mu^2 the
    precision of all measurements together, times what split noise chooses (`margrave.models._base.pooling`).

    Args:
        given: The public rows as codes, under the domain's attributes of the same names; None for none, which
            makes it a mixture of products of all attributes.
        components: Products in the mixture, K.
        steps: Optimiser steps.
        information: Penalty per nat between component and private attributes; None for the rule and split
            noise.
        rate: First step length, in logarithms.
        part: Distinct public rows that all but the last steps look at.
        last: Steps at the end that look at all public rows.
        seed: Of starting points, split noise and parts.
        max_memory: Bytes that the program may take with the fit; fewer public rows are looked at in a step.

    Raises:
        InputError: An argument is out of range.

    Example:
        >>> import numpy as np
        >>> from margrave.release import NoisyMarginal
        >>> from margrave.schema.domain import Domain
        >>> domain, ages = Domain(("age", "ill"), (2, 2)), np.repeat(np.arange(2, dtype=np.uint8), 500)
        >>> rows = Encoded(Domain(("age",), (2,)), (ages,))
        >>> table = NoisyMarginal(("age", "ill"), np.array([[450.0, 50.0], [300.0, 200.0]]), 1.0)
        >>> model = Gated(given=rows, components=4).fit(domain, [table])
        >>> bool(np.abs(model.project(("age", "ill")) - table.values).max() < 20)
        True
    """

    given: Encoded | None = None
    components: int = 80
    steps: int = 250
    information: float | None = None
    rate: float = 0.2
    part: int = 1 << 15
    last: int = 100
    seed: int = 0
    max_memory: int | None = None
    name: ClassVar[str] = "gated"
    options: ClassVar[frozenset[str]] = frozenset({"given", "max_memory"})

    def __post_init__(self) -> None:
        for param in ("components", "steps", "part", "last"):
            value = getattr(self, param)
            if value < 1:
                raise InputError(invalid(param, "at least 1", "Try the default.", got=value))
        if not (np.isfinite(self.rate) and self.rate > 0):
            raise InputError(invalid("rate", "a finite number above 0", "Try 0.2.", got=self.rate))
        if self.information is not None and not (np.isfinite(self.information) and self.information >= 0):
            raise InputError(invalid("information", "at least 0", "Leave it out.", got=self.information))

    def fit(
        self,
        domain: Domain,
        measurements: Sequence[NoisyMarginal],
        *,
        total: float | None = None,
        warm: Model | None = None,
        effort: Effort = FULL,
    ) -> GatedModel:
        """The gated mixture that explains the measurements over the given rows; `warm` is not used.

        Cliques of three or more attributes count through their pairs. With given rows `total` is their
        number.

        Raises:
            InputError: The tables do not fit the domain, or total is not positive.
        """
        public = PublicRows.read(domain, self.given)
        if public.names:
            total = float(len(public.places))
        rows = rows_of(measurements, total)
        tables = pool(domain, measurements)
        domain = resolve_dependencies(domain, tables)
        tables = zero_forbidden(domain, tables, CERTAINTY)
        return self._fit(domain, tables, rows, public, effort)

    @one_blas_thread()
    def _fit(
        self, domain: Domain, tables: Sequence[Pooled], rows: float, public: PublicRows, effort: Effort
    ) -> GatedModel:
        penalty = self.information
        if penalty is None:
            penalty = penalty_rule(rows * mu(tables))
            if not effort.rough:
                penalty *= self._choose_factor(domain, tables, rows, public, penalty, effort)
        steps = min(ROUGH, self.steps) if effort.rough else self.steps
        return self._descended(domain, tables, rows, public, penalty, steps, effort)

    def _descended(
        self,
        domain: Domain,
        tables: Sequence[Pooled],
        rows: float,
        public: PublicRows,
        penalty: float,
        steps: int,
        effort: Effort,
    ) -> GatedModel:
        private = [name for name in domain.names if name not in public.names]
        targets: Targets = collect_targets(domain, public.names, private, tables, rows)
        rng = np.random.default_rng(self.seed)
        at = start(public, targets, self.components, rng)
        part, last = self._part(), min(self.last, steps)
        if private:
            penalties = (penalty, GATE * penalty)
            descend(public, targets, at, penalties, steps, self.rate, part, last, rng, lambda: effort.over)
        shares = at.shares.astype(np.float64)
        for first, end in pairwise(targets.starts):
            codes = slice(int(first), int(end))
            measured = targets.one_weights[codes].any() or targets.pair_weights[codes].any()
            if not (measured or targets.mixed_weights[:, codes].any()):
                shares[codes] = 1.0 / (end - first)  # nothing is known of the attribute
        return GatedModel(domain, rows, public, at.gate, at.bias, shares)

    def _part(self) -> int:
        """Distinct rows a step looks at: `part`, or what the memory limit leaves."""
        if self.max_memory is None:
            return self.part
        return max(min(self.part, self.max_memory // (20 * self.components)), 256)

    def _choose_factor(
        self,
        domain: Domain,
        tables: Sequence[Pooled],
        rows: float,
        public: PublicRows,
        penalty: float,
        effort: Effort,
    ) -> float:
        """What the rule's penalty is to be multiplied by, from fits to one half of split noise.

        The rule's penalty is the default, and another one is taken where the other half prefers it by a
        standard error; see `margrave.models._base.pooling.compare`.
        """
        private = {name for name in domain.names if name not in public.names}
        judged_tables = [t for t in tables if len(t.clique) <= 2 and private.intersection(t.clique)]
        if effort.over or not any(len(table.clique) == 2 for table in judged_tables):
            return 1.0
        half, judged = halves(judged_tables, np.random.default_rng(self.seed))
        cliques, shrink = [table.clique for table in judged], (1.0 + SHARE) ** -0.5

        def expected(factor: float) -> list[Floats]:
            trial = penalty * shrink * factor
            steps = min(PILOT, self.steps)
            small = replace(self, last=1) if len(public.codes) > self.part else self
            model = small._descended(domain, half, rows, public, trial, steps, effort)
            return model.project_many(cliques)

        best, chosen = expected(1.0), 1.0
        for step in (STEP, 1.0 / STEP):
            for _ in range(MOST_STEPS):
                if _is_late(effort):
                    return chosen
                rival = expected(chosen * step)
                gain, spread = compare(rival, best, judged, rows)
                if gain + SURE * spread >= 0.0:
                    break
                best, chosen = rival, chosen * step
            if chosen != 1.0:
                break
        return chosen

    def restore(
        self, domain: Domain, measurements: Sequence[NoisyMarginal], state: Mapping[str, Floats]
    ) -> GatedModel:
        """The model whose `state` was saved, with no optimisation.

        Raises:
            ReleaseError: The state is not that of a gated mixture over this domain.
        """
        return restore_model(resolve_dependencies(domain, pool(domain, measurements)), state)

    def admit(self, domain: Domain, cliques: Sequence[Clique]) -> None:
        """Any cliques will do: work and memory grow with codes times components."""

    def cells(self, domain: Domain, cliques: Sequence[Clique], candidates: Sequence[Clique]) -> Floats:
        """Numbers of the model, whatever is measured, shape [candidates]."""
        return np.full(len(candidates), float(sum(domain.sizes)) * self.components)


def _is_late(effort: Effort) -> bool:
    """Whether nothing more is to be tried; asked anew each time."""
    return effort.over


def penalty_rule(signal: float) -> float:
    """10 sqrt(x) min(x / SPARSE, 1)^(1/4); x is rows times mu, mu^2 the sum over tables of 1 / sigma^2."""
    return 10.0 * math.sqrt(signal) * math.sqrt(math.sqrt(min(signal / SPARSE, 1.0)))
