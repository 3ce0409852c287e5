"""PublicAuto: rows of a gated mixture and of auto's model drawn given the public rows, by shares.

`CalibratedModel` is the second: a mixture of all attributes, drawn given public rows so that its tables are
kept. A mixture p(a, b) = sum_k w_k prod_u Q_ku(a_u) prod_j Q_kj(b_j) that is drawn given the public part a_i
of actual rows has the posterior p(k | a_i) as its components. Their sums over the rows are not what the
mixture was fitted with, since its p(a) is not that of the rows: tables that had been fitted are partly
undone. The posterior is log w_k + sum_u log Q_ku(a_iu) up to a constant, additive in the public codes. Here
that gate is calibrated: pi_k(a_i) = softmax_k(c_k + sum_u t_u[a_iu, k]) begins at the posterior and is fitted
until

    sum_i 1[a_iu = s] pi_k(a_i) = T_u[s, k]    for every public code s and component k

with T_u the mixture's own w_k Q_ku(s), raked to the actual counts of the codes and to w. Then the expected
tables of a private attribute with a public one, T_u Q_j', and with another private one, are those of the
mixture. This is maximum entropy under these sums, by generalised iterative scaling (Darroch and Ratcliff
1972): with U public attributes each step adds log(T / S) / U to the log-odds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, ReleaseError, invalid
from margrave.limits import FULL, Deadline, Effort, one_blas_thread
from margrave.models._base.constraints import Evidence, sample_codes
from margrave.models._base.estimator import Estimator
from margrave.models._base.model import DelegatingModel
from margrave.models._base.pooling import Pooled, mu, pool
from margrave.models._base.public_rows import PublicRows, pack_tables, unpack_tables
from margrave.models._determined import KEY as DETERMINED_KEY
from margrave.models._determined import DeterminedModel, restore_determined
from margrave.models._mixture.latent_blocks import LatentBlock
from margrave.models._mixture.model import MixtureModel
from margrave.models._mixture.refinements import (
    Refinements,
    choose_refinements,
    restore_refinements,
)
from margrave.models._mixture.rows import PASSES, Chosen, draw
from margrave.models._sampling.rounding import draw_column
from margrave.models._sampling.rows import picks
from margrave.models._structural import find_changes
from margrave.models.gated.blended import KEY as SHARE_KEY
from margrave.models.gated.blended import BlendedModel, split_state
from margrave.models.gated.fitter import Gated
from margrave.models.gated.gate import JointCodes, gate_joined, gate_rows, sum_by_code
from margrave.models.registry import resolve
from margrave.release import KnownMarginal, NoisyMarginal
from margrave.schema.domain import Clique, Domain
from margrave.schema.encoded import Codes, Encoded, tabulate_rows

if TYPE_CHECKING:
    from margrave import protocols
    from margrave.protocols import Fitter


Singles = NDArray[np.float32]
Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

STEPS = 60
"""Steps of iterative scaling. On gaps-a sums are off by .0054 of the rows after 20, .0048 after 40, .0041
after 80."""
RAKING = 30
"""Steps of raking the tables that the sums are fitted to."""
MOST_ROWS = 1 << 15
"""Distinct public rows that the calibration looks at."""
CHUNK = 1 << 13
"""Rows whose component probabilities are held at once."""
FLOOR = 1e-9
"""Added to shares whose ratio is taken."""
PREFIX = "calibrated_"
"""How the names of a state's arrays begin that the mixture's own does not have."""


class CalibratedModel(DelegatingModel[MixtureModel]):
    """A mixture, drawn given public rows so that its pairs are kept; made by `calibrate`.

    Marginals are the mixture's, those with a refined attribute means over rows that were drawn. Rows of which
    other attributes are given than all public ones, one a row, or refined ones, are the mixture's own.

    Args:
        inner: The mixture of all attributes, without refined ones.
        rows: The public part of the rows.
        gate: Log-odds of the components by public code, one attribute's codes below the other's, shape
            [public codes, components].
        bias: Log-odds of the components, shape [components].
        known: The tables of public rows that it was fitted to, which no release holds.
        refinements: How some private attributes are drawn anew given all others; None for none.
    """

    def __init__(
        self,
        inner: MixtureModel,
        rows: PublicRows,
        gate: NDArray[np.floating],
        bias: NDArray[np.floating],
        known: Sequence[KnownMarginal],
        refinements: Refinements | None = None,
    ) -> None:
        super().__init__(inner)
        self.rows, self.known, self.refinements = rows, tuple(known), refinements
        self.gate = np.ascontiguousarray(gate, dtype=np.float32)
        self.bias = np.ascontiguousarray(bias, dtype=np.float32)

    @property
    def latent_blocks(self) -> Sequence[LatentBlock]:
        """The mixture's attributes that share states of their own."""
        return self.inner.latent_blocks

    def with_refinements(self, refinements: Refinements) -> CalibratedModel:
        """The same model, with some private attributes drawn anew given all others."""
        return CalibratedModel(self.inner, self.rows, self.gate, self.bias, self.known, refinements)

    def project(self, clique: Clique) -> Floats:
        """The marginal of any clique, in rows, shape domain.shape(clique).

        Raises:
            InputError: The clique repeats an attribute.
        """
        if self.refinements is None or set(clique).isdisjoint(self.refinements.names):
            return self.inner.project(clique)
        if len(set(clique)) != len(clique):
            raise InputError(invalid("clique", "without repeats", "Name each attribute once.", got=clique))
        return self.total * self.refinements.project(clique)

    def project_many(self, cliques: Sequence[Clique]) -> list[Floats]:
        """The marginals of many cliques."""
        names = () if self.refinements is None else self.refinements.names
        plain = [clique for clique in cliques if set(clique).isdisjoint(names)]
        found = dict(zip(plain, self.inner.project_many(plain), strict=True))
        return [found[clique] if clique in found else self.project(clique) for clique in cliques]

    def find_probability(self, columns: Mapping[str, Longs], asked: Mapping[str, Longs]) -> Floats:
        """p(attributes asked for | all other codes) of each row without refinements, shape [rows]."""
        return self.inner.find_probability(columns, asked)

    @one_blas_thread()
    def sample(
        self,
        rows: int,
        rng: np.random.Generator,
        given: Mapping[str, int | Codes] | None = None,
        deadline: Deadline | None = None,
    ) -> Encoded:
        """Synthetic rows, conditioned on the codes in `given` and on the rules; see `MixtureModel.sample`.

        Raises:
            InputError: rows is negative, a code is outside its attribute, or no row obeys the rules with it.
        """
        refinements = self.refinements

        def draw_rows(count: int, codes: Evidence) -> list[Longs]:
            # Without refinements the mixture itself draws; with them it proposes.
            if refinements is None:
                return self.draw_unrefined(count, rng, codes, deadline)
            return refinements.draw(self, count, rng, codes, deadline)

        return sample_codes(self.domain, rows, given, rng, draw_rows, self.one_ways)

    def draw_unrefined(
        self,
        rows: int,
        rng: np.random.Generator,
        evidence: Evidence,
        deadline: Deadline | None = None,
        balanced: bool = True,
    ) -> list[Longs]:
        """Rows in which no attribute is drawn anew, each column of shape [rows]."""
        # Only codes that differ by row can be drawn along the rows' own components.
        own = {name: codes for name, codes in evidence.items() if not isinstance(codes, int)}
        if rows and not evidence:
            codes = self.rows.codes[self.rows.places[picks(rows, len(self.rows.places), rng)]]
            starts = zip(self.rows.names, codes.T, self.rows.starts, strict=False)
            own = {name: column.astype(np.int64) - start for name, column, start in starts}
        # Evidence on other attributes than all public ones has no calibrated gate: the mixture conditions
        # itself.
        elif not rows or set(evidence) != set(self.rows.names) or len(own) < len(evidence):
            return self.inner.draw_unrefined(rows, rng, evidence, deadline, balanced)
        chosen = self._choose_components([np.asarray(own[name], np.int64) for name in self.rows.names], rng)
        passes = PASSES if balanced else 0
        return draw(self.inner, rows, rng, own, passes=passes, deadline=deadline, chosen=chosen)

    def _choose_components(self, columns: Sequence[Longs], rng: np.random.Generator) -> Chosen:
        """A component for each row; neighbours in the order of public codes share their rounding."""
        starts = self.rows.starts
        lines = np.stack([column + start for column, start in zip(columns, starts, strict=False)])
        lines = lines.astype(np.int32)
        # Neighbours in the order of codes share their rounding.
        order, keys = np.lexsort(lines), np.empty(lines.shape[1], np.int64)
        sums = np.zeros(self.gate.shape)
        for first in range(0, len(keys), CHUNK):
            part = order[first : first + CHUNK]
            codes = np.ascontiguousarray(lines[:, part].T)
            shares = np.empty((len(part), len(self.bias)), np.float32)
            gate_rows(codes, self.gate, self.bias, shares)
            some, totals = np.zeros_like(self.gate), np.zeros_like(self.bias)
            sum_by_code(codes, np.ones(len(part), np.float32), shares, some, totals)
            # Sums of a chunk are single, those of all chunks double.
            sums += some
            each = np.arange(len(part))
            keys[part] = draw_column(each, each, shares.astype(np.float64), rng)
        parts = zip(self.rows.names, starts[:-1].tolist(), starts[1:].tolist(), strict=True)
        return Chosen(keys, {name: sums[start:end] for name, start, end in parts})

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays from which the fitter's `restore` builds the same model again."""
        own = {
            "public": np.asarray([self.domain.index(name) for name in self.rows.names], dtype=np.int64),
            "rows": self.rows.codes,
            "row_weights": self.rows.weights,
            "places": self.rows.places,
            "gate": self.gate,
            "bias": self.bias,
        }
        refined = {} if self.refinements is None else self.refinements.state()
        mine = {PREFIX + key: array for key, array in own.items()}
        return self.inner.state() | pack_tables(self.domain, self.known) | mine | refined


def calibrate(
    model: MixtureModel, given: Encoded, known: Sequence[KnownMarginal], seed: int
) -> CalibratedModel:
    """The mixture with components that keep its tables over public rows.

    Args:
        model: The mixture of all attributes. How it draws some of them anew is given up: that was fitted to
            rows of its own.
        given: The public rows as codes.
        known: The tables of public rows that it was fitted to.
        seed: Of the rows that are looked at where more than MOST_ROWS are distinct.
    """
    model = model.with_refinements(None)
    weights, public = model.weights, PublicRows.read(model.domain, given)
    rows = public.part(MOST_ROWS, np.random.default_rng(seed))
    blocks = [model.block(name) for name in rows.names]
    # The gate begins at the mixture's own posterior, which is additive in the public codes.
    gate = np.concatenate([np.log(np.maximum(block, 1e-30)) for block in blocks]).astype(np.float32)
    bias = np.log(np.maximum(weights, 1e-30)).astype(np.float32)
    counts = np.zeros(len(gate))
    for u in range(len(rows.names)):
        counts += np.bincount(rows.codes[:, u], rows.weights, minlength=len(gate))
    wanted = [
        # The mixture's joint table of code and component, brought to the actual counts of codes.
        _rake(block * weights, counts[first:end], weights)
        for block, (first, end) in zip(blocks, pairwise(rows.starts.tolist()), strict=True)
    ]
    targets = np.log(np.concatenate(wanted) + FLOOR).astype(np.float32)
    shares, width = np.empty((len(rows.codes), len(bias)), np.float32), np.float32(len(rows.names))
    joined = JointCodes.group(rows)
    for _ in range(STEPS):
        odds = joined.join(gate, bias)
        sums = np.zeros_like(odds)
        gate_joined(joined.rows, joined.weights, odds, shares, sums)
        sums, _ = joined.split(sums)
        # Generalised iterative scaling: with U attributes a U-th of the correction each.
        gate += (targets - np.log(sums + np.float32(FLOOR))) / width
    return CalibratedModel(model, public, gate, bias, known)


def restore_calibrated(
    model: MixtureModel, known: Sequence[KnownMarginal], state: Mapping[str, NDArray[Any]]
) -> CalibratedModel:
    """The model whose `state` was saved, over the mixture that was.

    Raises:
        ReleaseError: The state is not that of a calibrated mixture.
    """
    own = {key.removeprefix(PREFIX): array for key, array in state.items() if key.startswith(PREFIX)}
    rows = PublicRows.restore(model.domain, own)
    gate, bias = (np.asarray(own.get(key, ()), np.float64) for key in ("gate", "bias"))
    sound = (
        bias.shape == model.weights.shape
        and gate.shape == (int(rows.starts[-1]), len(bias))
        and bool(np.isfinite(gate).all() and np.isfinite(bias).all())
    )
    if not sound:
        raise ReleaseError(invalid("state", "a calibrated mixture", "The release is damaged."))
    found = CalibratedModel(model.with_refinements(None), rows, gate, bias, known)
    refinements = restore_refinements(found, state)
    return found if refinements is None else found.with_refinements(refinements)


def _rake(table: Floats, lines: Floats, columns: Floats) -> Floats:
    """A table of codes and components with these sums over components, about, and over codes."""
    for _ in range(RAKING):
        table = table * (columns / np.maximum(table.sum(axis=0), 1e-300))
        table = table * (lines / np.maximum(table.sum(axis=1), 1e-300))[:, None]
    return np.asarray(table)


MAX_KNOWN_CELLS = 1 << 20
"""Cells of all pairs of public attributes up to which auto's model is tried: a release keeps them with it."""
MAX_PUBLIC_SHARE = 0.8
"""Share of the attributes below which auto's model is fitted as well. With three quarters public a blend is 4
to 16 % closer than the gated mixture on the choosing half; with more nothing was measured (bench/LOG.md)."""
LEAST_KNOWN, KNOWN_ALIKE = 1 / 3, 6000.0
"""The least standard deviation that known tables count with, over that of the average measured pair, and the
rows times mu from which on both are alike; between, it is in proportion. With 1/3 pairs of the choosing half
are .92 to .99 of what they are with 1 at epsilon .2, where rows times mu are 200 to 1,500, but 1.03 to 1.11
times that on three tables of more than 10,000 (bench/LOG.md)."""
REFINED = 8
"""Codes that all refined attributes may have together: as in the mixture of products."""
KEY = "public_degrees"
"""An array that the state of a `ConditionedModel` has and that of a gated mixture has not."""


class ConditionedModel(DelegatingModel["protocols.Model"]):
    """Auto's model of all attributes, to be drawn given public ones, with the public tables it was fitted to.

    Args:
        inner: The model.
        known: The tables of public rows, which no release holds.
    """

    def __init__(self, inner: protocols.Model, known: Sequence[KnownMarginal]) -> None:
        super().__init__(inner)
        self.known = tuple(known)

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays from which `PublicAuto.restore` builds the same model again."""
        return self.inner.state() | pack_tables(self.domain, self.known)


@dataclass(frozen=True, slots=True)
class PublicAuto(Estimator["protocols.Model"]):
    """Fits a blend of a gated mixture and auto's model of all attributes drawn given the public rows.

    The gated mixture is fitted over the public rows themselves, and is ahead where many are public.
    Where few are, most pairs are those of private attributes, for which auto's model has more components and
    latent blocks, or is a graphical model. A mixture is calibrated to the public rows
    (`margrave.models.gated.public_auto`), so that rows drawn given them keep its tables. Auto's model sees
    the tables of public attributes and of their pairs, too, each cell with the precision of the average
    measured pair or, where noise is large, up to nine times that.

    Each row is taken from one of both, so that pairs are near the mean of both models' and what was measured
    (`margrave.models.gated.blended`). A private attribute that a measured pair shows to be fixed by another
    one then changes until it goes with that one (`margrave.models._determined`).

    Rough fits, fits without public rows, and those where MAX_PUBLIC_SHARE of the attributes are public or the
    public tables have more than MAX_KNOWN_CELLS cells are the gated mixture.

    **Privacy.** Sees released tables and public rows only: post-processing.

    Args:
        given: The public rows as codes, under the domain's attributes of the same names; None for none.
        target: An attribute that rows are meant to predict; if it is private, drawn last, given all others.
        max_memory: Bytes that the program may take with the fit.
        seed: Of the public rows that auto's model is calibrated to, and of those it is refined on.

    Example:
        >>> import numpy as np
        >>> from margrave.schema.domain import Domain
        >>> domain, ages = Domain(("age", "ill"), (2, 2)), np.repeat(np.arange(2, dtype=np.uint8), 500)
        >>> rows = Encoded(Domain(("age",), (2,)), (ages,))
        >>> table = NoisyMarginal(("age", "ill"), np.array([[450.0, 50.0], [300.0, 200.0]]), 1.0)
        >>> model = PublicAuto(given=rows).fit(domain, [table])
        >>> bool(np.abs(model.project(("age", "ill")) - table.values).max() < 20)
        True
    """

    given: Encoded | None = None
    target: str | None = None
    max_memory: int | None = None
    seed: int = 0
    name: ClassVar[str] = "public_auto"
    fit_seconds: ClassVar[float] = 1.2e-1
    options: ClassVar[frozenset[str]] = frozenset({"given", "target", "max_memory"})

    @property
    def _gated(self) -> Gated:
        return Gated(given=self.given, target=self.target, max_memory=self.max_memory)

    @property
    def _auto(self) -> Fitter:
        auto = resolve("auto")
        return auto if self.max_memory is None else auto.with_options(max_memory=self.max_memory)

    def _fit_auto(
        self,
        domain: Domain,
        tables: Sequence[NoisyMarginal],
        known: Sequence[KnownMarginal],
        rows: Encoded,
        effort: Effort,
    ) -> protocols.Model:
        """Auto's model of all attributes, a mixture calibrated to the public rows."""
        fitted = self._auto.fit(domain, [*tables, *known], total=float(rows.rows), effort=effort)
        # What is determined is looked for once, in the blend.
        fitted = fitted.inner if isinstance(fitted, DeterminedModel) else fitted
        if not isinstance(fitted, MixtureModel) or effort.over:
            return ConditionedModel(fitted, known)
        model = calibrate(fitted, rows, known, self.seed)
        target = self.target if self.target not in rows.domain else None
        pooled = pool(domain, tables)
        codes = REFINED if fitted.refinements is not None else 0
        names = choose_refinements(model, pooled, codes, target, rows.domain.names)
        return model.with_refinements(Refinements.learn(model, names, pooled, self.seed)) if names else model

    def fit(
        self,
        domain: Domain,
        measurements: Sequence[NoisyMarginal],
        *,
        total: float | None = None,
        warm: protocols.Model | None = None,
        effort: Effort = FULL,
    ) -> protocols.Model:
        """The model that explains the measurements; see the class. `warm` is not used.

        Raises:
            InputError: The tables do not fit the domain, or total is not positive.
        """
        rows = self.given
        if rows is None or effort.rough or effort.over:
            return self._gated.fit(domain, measurements, total=total, effort=effort)
        tables = pool(domain, measurements)
        fitted = self._fit_models(domain, measurements, tables, rows, effort)
        counts = {name: tabulate_rows(rows, domain, (name,)) for name in rows.domain.names}
        determined = [] if effort.over else find_changes(fitted, tables, counts)
        return DeterminedModel(fitted, determined) if determined else fitted

    def _fit_models(
        self,
        domain: Domain,
        measurements: Sequence[NoisyMarginal],
        tables: Sequence[Pooled],
        rows: Encoded,
        effort: Effort,
    ) -> protocols.Model:
        """A blend of both models, or the gated mixture alone."""
        gated, known = self._gated, self._count_public(domain, tables)
        if not known:
            return gated.fit(domain, measurements, effort=effort)
        own = gated.fit(domain, measurements, effort=effort)
        other = self._fit_auto(domain, measurements, known, rows, effort)
        # What the deadline has cut short is not blended.
        return own if effort.over else BlendedModel(own, other, tables)

    def restore(
        self, domain: Domain, measurements: Sequence[NoisyMarginal], state: Mapping[str, NDArray[Any]]
    ) -> protocols.Model:
        """The model whose `state` was saved, with no optimisation.

        Raises:
            ReleaseError: The state is not that of a model over this domain.
        """
        if DETERMINED_KEY in state:
            determined, inner = restore_determined(domain, state)
            return DeterminedModel(self.restore(domain, measurements, inner), determined)
        if SHARE_KEY in state:
            share, own, rest = split_state(state)
            gated = self._gated.restore(domain, measurements, own)
            other = self.restore(domain, measurements, rest)
            return BlendedModel(gated, other, pool(domain, measurements), share)
        if KEY not in state:
            return self._gated.restore(domain, measurements, state)
        known = unpack_tables(domain, state)
        fitted = self._auto.restore(domain, [*measurements, *known], state)
        if PREFIX + "gate" in state and isinstance(fitted, MixtureModel):
            return restore_calibrated(fitted, known, state)
        return ConditionedModel(fitted, known)

    def cells(self, domain: Domain, cliques: Sequence[Clique], candidates: Sequence[Clique]) -> Floats:
        """Numbers of the gated mixture, whatever is measured, shape [candidates]."""
        return np.asarray(self._gated.cells(domain, cliques, candidates))

    def _count_public(self, domain: Domain, tables: Sequence[Pooled]) -> list[KnownMarginal]:
        """Tables of the public attributes and of their pairs; none where auto's model is not to be tried."""
        rows = self.given
        pairs = [table for table in tables if len(table.clique) == 2]
        if rows is None or not rows.rows or not pairs:
            return []
        names = [name for name in domain.names if name in rows.domain]
        codes, most = self._auto.count_codes(domain.sizes)
        cliques = [clique for degree in (1, 2) for clique in combinations(names, degree)]
        if (
            not 0 < len(names) < MAX_PUBLIC_SHARE * len(domain)
            or codes > most
            or sum(domain.size(clique) for clique in cliques) > MAX_KNOWN_CELLS
        ):
            return []
        sigma = float(np.mean([np.mean(table.sigma**-2.0) for table in pairs])) ** -0.5
        # The larger the noise, the more of what is sure is to come from public rows.
        sigma *= min(max(rows.rows * mu(tables) / KNOWN_ALIKE, LEAST_KNOWN), 1.0)
        return [KnownMarginal(clique, tabulate_rows(rows, domain, clique), sigma) for clique in cliques]
