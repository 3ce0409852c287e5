"""Gated: fits a mixture whose weights follow from a row's public columns, over the public rows themselves."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, check_counts, invalid
from margrave.limits import FULL, Effort, one_blas_thread
from margrave.models._base.constraints import resolve_dependencies, zero_forbidden
from margrave.models._base.estimator import Estimator
from margrave.models._base.pooling import SHARE, Pooled, halves, mu, pool, prefer, rows_of
from margrave.models._base.public_rows import PublicRows
from margrave.models._mixture.refinements import Refinements, choose_refinements, reference_rows
from margrave.models.gated.model import GatedModel, restore_model
from margrave.models.gated.objective import Targets, collect_targets, descend, start
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
EARLY_WORK, LATE_WORK = 1 << 21, 1 << 22
"""Public codes that an early step and a last one look at, at most: a core takes about 16 million of them a
second, with 80 components. 32,768 rows have as many as an early step looks at from 64 public columns on, and
95,130 rows as many as a last one from 44 on."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What fits to one half of split noise have chosen; see `Gated._choose`.

    Args:
        factor: What the rule's penalty is multiplied by.
        refined: Whether attributes that nobody asked for are refined.
    """

    factor: float = 1.0
    refined: bool = True


@dataclass(frozen=True, slots=True)
class Gated(Estimator["GatedModel"]):
    """Fits p(b | a) = sum_k pi_k(a) prod_j Q_kj(b_j), with pi_k(a) = softmax_k(c_k + sum_u t_u[a_u, k]).

    a is a row's public part, which is given and exact, b its private part. What is fitted are the tables that
    rows drawn from the model are expected to have over the actual public rows (`Objective`): a model of all
    columns that is conditioned on the public ones afterwards loses a part of its fit, since its own p(a) is
    not that of the rows. Measured tables of public columns alone count for nothing, as they are known.

    The penalty per nat is information = 10 sqrt(x) min(x / 2000, 1)^(1/4), x rows times mu and mu^2 the
    precision of all measurements together, times what split noise chooses (`margrave.models._base.pooling`).

    Private attributes of few codes, and the target, are refined: each is drawn anew given all other columns
    of a row, from an additive model of its measured pairs that is fitted over the public rows themselves
    (`margrave.models._mixture.refinements`). Where noise is large, all but the target only if split noise
    finds that better.

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
        refinements: Codes that all refined attributes may have together, 0 for none.
        target: A private attribute that rows are meant to predict: refined as well, the last one.
        seed: Of starting points, split noise, parts, and the rows that additive models are fitted on.
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
    refinements: int = 8
    target: str | None = None
    seed: int = 0
    max_memory: int | None = None
    name: ClassVar[str] = "gated"
    fit_seconds: ClassVar[float] = 6e-2
    options: ClassVar[frozenset[str]] = frozenset({"given", "target", "max_memory"})

    def __post_init__(self) -> None:
        check_counts(components=self.components, steps=self.steps, part=self.part, last=self.last)
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
        return self._fit(*self._read(domain, measurements, total), effort)

    def _read(
        self, domain: Domain, measurements: Sequence[NoisyMarginal], total: float | None
    ) -> tuple[Domain, list[Pooled], float, PublicRows]:
        """The domain with what follows from tables, the tables, the number of rows, and the public rows."""
        public = PublicRows.read(domain, self.given)
        if public.names:
            total = float(len(public.places))
        rows = rows_of(measurements, total)
        tables = pool(domain, measurements, inferred=True)
        domain = resolve_dependencies(domain, tables)
        return domain, zero_forbidden(domain, tables, CERTAINTY), rows, public

    def _penalty(self, tables: Sequence[Pooled], rows: float) -> float:
        return penalty_rule(rows * mu(tables)) if self.information is None else self.information

    def _thin(self, public: PublicRows) -> PublicRows:
        """Public rows to fit to: of very many codes a part is enough; rows are drawn for all of them."""
        # One seed, so that trials and the last fit look at the same rows.
        return public.part(LATE_WORK // max(len(public.names), 1), np.random.default_rng(self.seed))

    @one_blas_thread()
    def _fit(
        self, domain: Domain, tables: Sequence[Pooled], rows: float, public: PublicRows, effort: Effort
    ) -> GatedModel:
        penalty, some = self._penalty(tables, rows), self._thin(public)
        if effort.rough:
            steps = min(ROUGH, self.steps)
            return self._descended(domain, tables, rows, some, penalty, steps, effort)
        choice = self._choose(domain, tables, rows, some, penalty, effort)
        model = self._descended(domain, tables, rows, some, penalty * choice.factor, self.steps, effort)
        if some is not public:
            # The gate was fitted to a part of the rows; rows are drawn for all of them.
            model = GatedModel(domain, rows, public, model.gate, model.bias, model.shares)
        measured = [table for table in tables if not table.inferred]
        names = [] if effort.over else self._choose_refinements(model, measured, choice.refined)
        return self._refine(model, names, measured)

    def _choose_refinements(
        self, model: GatedModel, tables: Sequence[Pooled], all_of_them: bool
    ) -> list[str]:
        """The refined attributes in the order of drawing: all of them, or only the target."""
        target = self.target if self.target in model.private else None
        codes = self.refinements if all_of_them else 0
        return choose_refinements(model, tables, codes, target, model.rows.names)

    def _refine(self, model: GatedModel, names: Sequence[str], tables: Sequence[Pooled]) -> GatedModel:
        if not names:
            return model
        return model.with_refinements(Refinements.learn(model, names, tables, self.seed))

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
        # Tables of public columns alone say nothing of the private part, so they are left out here.
        targets: Targets = collect_targets(domain, public.names, private, tables, rows)
        rng = np.random.default_rng(self.seed)
        at = start(public, targets, self.components, rng)
        part, last = self._part(len(public.names)), min(self.last, steps)
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

    def _part(self, columns: int) -> int:
        """Distinct rows an early step looks at: `part`, or what work and the memory limit leave."""
        # Each row's work grows with the public columns.
        part = min(self.part, EARLY_WORK // max(columns, 1))
        if self.max_memory is not None:
            part = min(part, self.max_memory // (20 * self.components))
        return max(part, 256)

    def _choose(
        self,
        domain: Domain,
        tables: Sequence[Pooled],
        rows: float,
        public: PublicRows,
        penalty: float,
        effort: Effort,
    ) -> Choice:
        """What the penalty is to be multiplied by, and whether attributes that nobody asked for are refined.

        Both from fits to one half of split noise. The rule's penalty is the default, and another one is taken
        where the other half prefers it by a standard error; see `margrave.models._base.pooling.compare`. A
        penalty that was given is kept.
        """
        private = {name for name in domain.names if name not in public.names}
        judged_tables = [t for t in tables if len(t.clique) <= 2 and private.intersection(t.clique)]
        pairs = any(len(table.clique) == 2 for table in judged_tables)
        if effort.over or not pairs or self.information is not None:
            return Choice()
        half, judged = halves(judged_tables, np.random.default_rng(self.seed))
        # The half of split noise is sharper by less data, and the penalty follows as in the mixture.
        cliques, shrink = [table.clique for table in judged], (1.0 + SHARE) ** -0.5
        # Trials look at all public rows once, at their end: only the last fit pays for more.
        small = replace(self, last=1) if len(public.codes) > self._part(len(public.names)) else self

        def fit(factor: float) -> tuple[float, GatedModel, list[Floats]]:
            trial, steps = penalty * shrink * factor, min(PILOT, self.steps)
            model = small._descended(domain, half, rows, public, trial, steps, effort)
            return factor, model, model.project_many(cliques)

        def prefers(rival: Sequence[Floats], default: Sequence[Floats]) -> bool:
            return prefer(rival, default, judged, rows)

        factor, model, expected = _search(fit, prefers, effort)
        # What nobody measured tells nothing of a refined attribute.
        measured, half = ([t for t in some if not t.inferred] for some in (judged_tables, half))
        if effort.over or not self._must_judge(measured, domain, rows):
            return Choice(factor)
        asked, names = (self._choose_refinements(model, half, every) for every in (False, True))
        # Nothing to decide, so the fit that would tell is spared.
        if names == asked:
            return Choice(factor)
        # Where nothing was asked for, the candidate's tables are known already.
        plain = expected if not asked else self._refine(model, asked, half).project_many(cliques)
        return Choice(factor, prefers(self._refine(model, names, half).project_many(cliques), plain))

    def _must_judge(self, tables: Sequence[Pooled], domain: Domain, rows: float) -> bool:
        """Whether noise is so large that pairs may say less of a refined attribute than the mixture does.

        Where noise is less than what shares of the reference rows are off by chance, that chance would be
        judged: as in the mixture of products.
        """
        noise = np.mean([float(table.sigma.mean()) for table in tables if len(table.clique) == 2])
        return bool(noise > 0.5 * rows / math.sqrt(reference_rows(len(domain))))

    def restore_model(
        self, domain: Domain, measurements: Sequence[NoisyMarginal], state: Mapping[str, Floats]
    ) -> GatedModel:
        """The model whose `state` was saved, with no optimisation.

        Raises:
            ReleaseError: The state is not that of a gated mixture over this domain.
        """
        return restore_model(domain, state)

    def cells(self, domain: Domain, cliques: Sequence[Clique], candidates: Sequence[Clique]) -> Floats:
        """Numbers of the model, whatever is measured, shape [candidates]."""
        return np.full(len(candidates), float(sum(domain.sizes)) * self.components)


def _search(
    fit: Callable[[float], tuple[float, GatedModel, list[Floats]]],
    prefers: Callable[[Sequence[Floats], Sequence[Floats]], bool],
    effort: Effort,
) -> tuple[float, GatedModel, list[Floats]]:
    """The best of fits at factors of the penalty: up while that is better, and if it never is, down."""
    best = fit(1.0)
    for step in (STEP, 1.0 / STEP):
        for _ in range(MOST_STEPS):
            if effort.over:
                return best
            rival = fit(best[0] * step)
            if not prefers(rival[2], best[2]):
                break
            best = rival
        if best[0] != 1.0:
            break
    return best


def penalty_rule(signal: float) -> float:
    """10 sqrt(x) min(x / SPARSE, 1)^(1/4); x is rows times mu, mu^2 the sum over tables of 1 / sigma^2."""
    return 10.0 * math.sqrt(signal) * math.sqrt(math.sqrt(min(signal / SPARSE, 1.0)))
