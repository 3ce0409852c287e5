"""PublicWeights: multiplicative weights over public rows times the cells of the private columns.

Maddock, Gade, Cormode and Bullock 2025, "Leveraging Vertical Public-Private Split for Improved Synthetic Data
Generation", vPMW (arXiv 2504.10987); the update is that of Hardt, Ligett and McSherry 2012 (arXiv 1012.4763),
figure 1.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, ReleaseError, check_counts, invalid
from margrave.limits import FULL, Deadline, Effort
from margrave.models._base.constraints import Evidence, group_evidence, resolve_dependencies
from margrave.models._base.estimator import Estimator
from margrave.models._base.model import Model
from margrave.models._base.pooling import pool, rows_of
from margrave.models._base.public_rows import PublicRows
from margrave.models._sampling.rounding import draw_column
from margrave.models._sampling.rows import match_most
from margrave.release import NoisyMarginal
from margrave.schema.domain import Clique, Domain
from margrave.schema.encoded import Encoded

if TYPE_CHECKING:
    from margrave import protocols
    from margrave.protocols import LearnsFrom

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

LEAST_LOG = -690.0
"""Logarithm of the smallest weight over the largest."""
CHUNK = 1 << 12
"""Rows whose private cells are held at once while rows are drawn."""


class WeightsModel(Model):
    """Weights on public rows times private cells; made by `PublicWeights`.

    Args:
        domain: Names and sizes of the attributes.
        total: Rows the model stands for.
        rows: The public part of the rows.
        weights: Shares, shape [distinct public rows, cells of the private attributes]; they sum to 1.
        course: What a later fit goes on from: the measurements that were applied, in order, the logarithms of
            the last weights, and the sum of all weights after an update. Empty in a model that was loaded.
    """

    def __init__(
        self,
        domain: Domain,
        total: float,
        rows: PublicRows,
        weights: Floats,
        course: tuple[tuple[NoisyMarginal, ...], Floats, Floats] | None = None,
    ) -> None:
        self._domain, self._total, self.rows, self.weights = domain, float(total), rows, weights
        self.course = course
        self.private = tuple(name for name in domain.names if name not in rows.names)

    @property
    def domain(self) -> Domain:
        """Names and sizes of the attributes."""
        return self._domain

    @property
    def total(self) -> float:
        """The number of rows the model stands for; marginals sum to it."""
        return self._total

    def project(self, clique: Clique) -> Floats:
        """The marginal of any clique, in rows, shape domain.shape(clique).

        Raises:
            InputError: The clique repeats an attribute.
        """
        return self.project_many([clique])[0]

    def project_many(self, cliques: Sequence[Clique]) -> list[Floats]:
        """The marginals of many cliques; those with the same private attributes share their sums.

        Raises:
            InputError: A clique repeats an attribute.
        """
        summed: dict[Clique, Floats] = {}
        found = []
        for clique in cliques:
            if len(set(clique)) != len(clique):
                raise InputError(
                    invalid("clique", "without repeats", "Name each attribute once.", got=clique)
                )
            self._domain.shape(clique)  # which says what is wrong
            drawn = tuple(name for name in self.private if name in clique)
            # Sums over private cells first, as they are shared by cliques with the same private attributes.
            if drawn not in summed:
                summed[drawn] = sum_private(self._domain, self.private, drawn, self.weights)
            known = [name for name in clique if name in self.rows.names]
            keys, size = self.rows.key_cells(self._domain, known)
            table = np.stack(
                [np.bincount(keys, column, minlength=size) for column in summed[drawn].T], axis=1
            )
            order = [*known, *drawn]
            shaped = table.reshape(self._domain.shape(order))
            found.append(self._total * shaped.transpose([order.index(name) for name in clique]))
        return found

    def draw_rows(
        self, rows: int, given: Evidence, rng: np.random.Generator, deadline: Deadline | None = None
    ) -> list[Longs]:
        """Rows with private codes drawn given public ones.

        Public codes that are not given are those of public rows, by how likely they are with what is given.
        Public codes that no row has together are met by a row that has the most of them.

        Args:
            rows: How many.
            given: Checked codes by attribute, one for all rows or one a row; rows keep the order of those.
            rng: Source of randomness.
            deadline: Not looked at.
        """
        fixed = {name: np.broadcast_to(np.asarray(c, np.int64), rows) for name, c in given.items()}
        chosen = self._choose_rows(rows, given, rng)
        columns = dict(fixed)
        for u, name in enumerate(self.rows.names):
            if name not in columns:
                columns[name] = self.rows.codes[chosen, u].astype(np.int64) - self.rows.starts[u]
        free = [name for name in self.private if name not in fixed]
        if free:
            cells = self._draw_cells(chosen, fixed, rng)
            codes = np.unravel_index(cells, self._domain.shape(self.private))
            for name, column in zip(self.private, codes, strict=True):
                columns.setdefault(name, column.astype(np.int64))
        return [np.asarray(columns[name]) for name in self._domain.names]

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays from which `PublicWeights.restore` builds the same model again; public rows among them."""
        rows = self.rows
        return {
            "total": np.asarray(self._total),
            "public": np.asarray([self._domain.index(name) for name in rows.names], dtype=np.int64),
            "rows": rows.codes,
            "row_weights": rows.weights,
            "places": rows.places,
            "weights": self.weights,
        }

    @functools.cached_property
    def _private_codes(self) -> dict[str, Longs]:
        """Each private attribute's code in each private cell, [cells]."""
        shape = self._domain.shape(self.private)
        codes = np.unravel_index(np.arange(self.weights.shape[1]), shape) if self.private else ()
        return dict(zip(self.private, codes, strict=True))

    def _draw_cells(self, chosen: Longs, fixed: Mapping[str, Longs], rng: np.random.Generator) -> Longs:
        """A private cell for each row, given its public row and its fixed private codes, [rows].

        Rows of one public row are rounded together, rows of like ones stratified. Where the weights leave
        nothing of what is fixed, all cells that have it are alike.
        """
        known = [name for name in self.private if name in fixed]
        order = np.argsort(chosen, kind="stable")
        found = np.empty(len(chosen), dtype=np.int64)
        if not known:
            # Without given private codes one table serves all rows of a public row.
            found[:] = draw_column(chosen, order, self.weights, rng)
            return found
        for first in range(0, len(chosen), CHUNK):
            part = order[first : first + CHUNK]
            fits = np.ones((len(part), self.weights.shape[1]), dtype=np.bool_)
            for name in known:
                # Which cells agree with the row's given codes.
                fits &= self._private_codes[name][None, :] == fixed[name][part][:, None]
            table = np.where(fits, self.weights[chosen[part]], 0.0)
            empty = table.sum(axis=1) <= 0.0
            # No weight is left on cells with these codes; they are alike then.
            table[empty] = fits[empty]
            each = np.arange(len(part))
            found[part] = draw_column(each, each, table, rng)
        return found

    def _choose_rows(self, rows: int, given: Evidence, rng: np.random.Generator) -> Longs:
        """A distinct public row for each row, by weight and by how well it goes with given codes, [rows]."""
        chosen = np.empty(rows, np.int64)
        for own, codes in group_evidence(given, rows):
            chosen[own] = self._pick(len(own), codes, rng)
        return chosen

    def _pick(self, rows: int, given: Mapping[str, int], rng: np.random.Generator) -> Longs:
        """Distinct public rows by the weight that they have with one set of given codes, [rows]."""
        matching = np.arange(len(self.rows.codes))
        known = [name for name in given if name in self.rows.names]
        if known:
            places = [self.rows.names.index(name) for name in known]
            codes = [given[name] + int(self.rows.starts[u]) for name, u in zip(known, places, strict=True)]
            matching = match_most(self._columns, places, codes)
        if len(matching) == 1:
            return np.full(rows, matching[0])
        fits = np.ones(self.weights.shape[1], dtype=np.bool_)
        for name, code in given.items():
            if name not in self.rows.names:
                fits &= self._private_codes[name] == code
        weights = self.weights[matching] @ fits
        one = np.zeros(rows, np.int64)
        return np.asarray(matching[draw_column(one, np.arange(rows), weights[None, :], rng)])

    @functools.cached_property
    def _columns(self) -> NDArray[np.int32]:
        """Numbered codes of the distinct public rows, [public attributes, rows]."""
        return np.ascontiguousarray(self.rows.codes.T)


@dataclass(frozen=True, slots=True)
class PublicWeights(Estimator[WeightsModel]):
    """Weights theta on the distinct public rows times all cells of the private columns (vPMW).

    They start as the public rows are, private cells alike. Each table m, in the order in which tables were
    measured, counted or appended to, multiplies them once, in counts of n rows:

        theta(x) <- theta(x) exp((m(x_r) - theta_r(x_r)) / (2 n)) / Z

    all cells of a table at once, since they are disjoint queries. Between the rounds of a strategy the model
    is the last theta, in the end the mean of all of them. Without public rows this is MWEM on whole
    marginals.

    The support is public rows times private cells, so private columns have to be few and small: 8 columns of
    Adult with two private ones have 1.8 million. `PMW` and every other family here is closer; it is kept to
    be compared with.

    **Privacy.** Sees released marginals and public rows only: post-processing.

    Args:
        given: The public rows as codes; None for none.
        max_cells: Cells of the support.

    Raises:
        InputError: max_cells is below 1.

    Example:
        >>> import numpy as np
        >>> from margrave.release import NoisyMarginal
        >>> from margrave.schema.domain import Domain
        >>> rows = Encoded(Domain(("a",), (2,)), (np.array([0, 0, 1, 1], dtype=np.uint8),))
        >>> domain = Domain(("a", "b"), (2, 2))
        >>> table = NoisyMarginal(("b",), np.array([4.0, 0.0]), 0.1)
        >>> PublicWeights(given=rows).fit(domain, [table]).project(("b",)).round(2).tolist()
        [2.49, 1.51]
    """

    given: Encoded | None = None
    max_cells: int = 1 << 22
    name: ClassVar[str] = "public_weights"
    fit_seconds: ClassVar[float] = 1e-1
    options: ClassVar[frozenset[str]] = frozenset({"given"})
    learns_from: ClassVar[frozenset[LearnsFrom]] = frozenset({"marginals", "public marginals"})

    def __post_init__(self) -> None:
        check_counts(max_cells=self.max_cells)

    def fit(
        self,
        domain: Domain,
        measurements: Sequence[NoisyMarginal],
        *,
        total: float | None = None,
        warm: protocols.Model | None = None,
        effort: Effort = FULL,
    ) -> WeightsModel:
        """The weights after one update a measurement; see the class.

        A rough fit is the last weights, any other the mean of all. `warm` saves repeating the updates that it
        has had. After the effort's deadline no update is made.

        Raises:
            InputError: The tables do not fit the domain, total is not positive, or the support is too large.
        """
        rows = PublicRows.read(domain, self.given)
        count = float(len(rows.places)) if rows.names else rows_of(measurements, total)
        self.admit(domain, [])
        domain = resolve_dependencies(domain, pool(domain, measurements))
        history = tuple(m for m in measurements if m.clique)
        done, logs, sums = _go_on(warm, domain, history) or self._start(domain, rows)
        last = normalize_weights(logs)
        for table in history[done:]:
            if effort.over:
                break
            logs = logs + compute_step(WeightsModel(domain, count, rows, last), table)
            # The largest is 0, so that exponentials neither overflow nor all vanish.
            logs -= logs.max()
            last = normalize_weights(logs)
            sums, done = sums + last, done + 1
        # The last weights circle around the answer, since every table pulls anew; their mean is what
        # converges.
        mean = last if effort.rough or not done else sums / done
        return WeightsModel(domain, count, rows, mean, (history[:done], logs, sums))

    def _start(self, domain: Domain, rows: PublicRows) -> tuple[int, Floats, Floats]:
        private = [name for name in domain.names if name not in rows.names]
        cells = domain.size(private)
        shares = rows.weights.astype(np.float64)
        # Public rows as they are, private cells all alike.
        start = np.repeat(np.log(shares / shares.sum())[:, None], cells, axis=1)
        return 0, start, np.zeros_like(start)

    def restore_model(
        self, domain: Domain, measurements: Sequence[NoisyMarginal], state: Mapping[str, NDArray[Any]]
    ) -> WeightsModel:
        """The model whose `state` was saved, with no optimisation.

        Raises:
            ReleaseError: The state is not that of weights over this domain.
        """
        rows, total = PublicRows.restore(domain, state), np.asarray(state.get("total", 0.0))
        private = [name for name in domain.names if name not in rows.names]
        weights = np.asarray(state.get("weights", ()), dtype=np.float64)
        sound = weights.shape == (len(rows.codes), domain.size(private)) and total.shape == ()
        if not (sound and bool(np.isfinite(weights).all() and (weights >= 0).all() and float(total) > 0)):
            raise ReleaseError(invalid("state", "of weights over the domain", "The release is damaged."))
        return WeightsModel(domain, float(total), rows, weights)

    def admit(self, domain: Domain, cliques: Sequence[Clique]) -> None:
        """Check that the support is small enough, before anything is measured.

        Raises:
            InputError: It has more than max_cells cells.
        """
        rows = PublicRows.read(domain, self.given)
        cells = len(rows.codes) * domain.size([n for n in domain.names if n not in rows.names])
        if cells > self.max_cells:
            remedy = "Use method 'gated', or make more columns public."
            constraint = f"of at most {self.max_cells} cells, public rows times private codes"
            raise InputError(invalid("support", constraint, remedy, got=cells))

    def cells(self, domain: Domain, cliques: Sequence[Clique], candidates: Sequence[Clique]) -> Any:
        """Cells of one candidate's table: the support is the same whatever is measured, [candidates]."""
        return np.ones(len(candidates))


def _go_on(
    warm: protocols.Model | None, domain: Domain, history: tuple[NoisyMarginal, ...]
) -> tuple[int, Floats, Floats] | None:
    """The updates that an earlier model has had, where they are the first of these."""
    if not isinstance(warm, WeightsModel) or warm.course is None or warm.domain != domain:
        return None
    before, last, sums = warm.course
    done = len(before)
    # Updates are not commutative in their average, so only an unchanged beginning may be kept.
    same = done <= len(history) and all(a is b for a, b in zip(before, history, strict=False))
    return (done, last, sums) if same else None


def sum_private(domain: Domain, private: Clique, kept: Clique, weights: Floats) -> Floats:
    """Weights summed over private attributes that are not kept, shape [public rows, cells of the kept]."""
    shaped = weights.reshape(len(weights), *domain.shape(private))
    axes = tuple(place + 1 for place, name in enumerate(private) if name not in kept)
    return np.asarray(shaped.sum(axis=axes).reshape(len(weights), -1))


def normalize_weights(logs: Floats) -> Floats:
    """Weights that sum to 1 from their logarithms, none of which is taken to be below LEAST_LOG."""
    weights = np.exp(np.maximum(logs - logs.max(), LEAST_LOG))
    return np.asarray(weights / weights.sum())


def compute_step(model: WeightsModel, table: NoisyMarginal) -> Floats:
    """What one table adds to the logarithms of the weights, of their shape.

    Args:
        model: The weights before it.
        table: What was measured.
    """
    domain, rows = model.domain, model.rows
    # A measured table fixes the codes of its own attributes only, so one step of a cell is that of all
    # private cells with these codes.
    known = [name for name in table.clique if name in rows.names]
    drawn = [name for name in model.private if name in table.clique]
    places = [table.clique.index(name) for name in (*known, *drawn)]
    missed = table.values - model.project(table.clique)
    # The update of figure 1 in counts: the miss over twice the rows.
    step = (missed / (2.0 * model.total)).transpose(places)
    keys, size = rows.key_cells(domain, known)
    shape = (size, *(domain[name] if name in drawn else 1 for name in model.private))
    wide = np.broadcast_to(step.reshape(shape)[keys], (len(keys), *domain.shape(model.private)))
    return np.asarray(wide.reshape(model.weights.shape))
