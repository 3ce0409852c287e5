"""CalibratedModel: a mixture of all attributes, drawn given public rows so that its tables are kept.

A mixture p(a, b) = sum_k w_k prod_u Q_ku(a_u) prod_j Q_kj(b_j) that is drawn given the public part a_i of
actual rows has the posterior p(k | a_i) as its components. Their sums over the rows are not what the mixture
was fitted with, since its p(a) is not that of the rows: tables that had been fitted are partly undone. The
posterior is log w_k + sum_u log Q_ku(a_iu) up to a constant, additive in the public codes. Here that gate is
calibrated: pi_k(a_i) = softmax_k(c_k + sum_u t_u[a_iu, k]) begins at the posterior and is fitted until

    sum_i 1[a_iu = s] pi_k(a_i) = T_u[s, k]    for every public code s and component k

with T_u the mixture's own w_k Q_ku(s), raked to the actual counts of the codes and to w. Then the expected
tables of a private attribute with a public one, T_u Q_j', and with another private one, are those of the
mixture. This is maximum entropy under these sums, by generalised iterative scaling (Darroch and Ratcliff
1972): with U public attributes each step adds log(T / S) / U to the log-odds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, ReleaseError, invalid
from margrave.limits import Deadline, one_blas_thread
from margrave.models._base.constraints import sample_codes
from margrave.models._base.evidence import Evidence
from margrave.models._base.model import DelegatingModel
from margrave.models._base.public_rows import PublicRows, pack_tables
from margrave.models._mixture.latent_blocks import LatentBlock
from margrave.models._mixture.model import MixtureModel
from margrave.models._mixture.refinements import Refinements, restore_refinements
from margrave.models._mixture.rows import PASSES, Chosen, draw
from margrave.models._sampling.rounding import draw_column
from margrave.models._sampling.rows import picks
from margrave.models.gated.kernels import gate_rows, sum_by_code
from margrave.release import KnownMarginal
from margrave.schema.domain import Clique
from margrave.schema.encoded import Codes, Encoded

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
        own = {name: codes for name, codes in evidence.items() if not isinstance(codes, int)}
        if rows and not evidence:
            codes = self.rows.codes[self.rows.places[picks(rows, len(self.rows.places), rng)]]
            starts = zip(self.rows.names, codes.T, self.rows.starts, strict=False)
            own = {name: column.astype(np.int64) - start for name, column, start in starts}
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
        order, keys = np.lexsort(lines), np.empty(lines.shape[1], np.int64)
        sums = np.zeros(self.gate.shape)
        for first in range(0, len(keys), CHUNK):
            part = order[first : first + CHUNK]
            codes = np.ascontiguousarray(lines[:, part].T)
            shares = np.empty((len(part), len(self.bias)), np.float32)
            gate_rows(codes, self.gate, self.bias, np.empty_like(shares), shares)
            some, totals = np.zeros_like(self.gate), np.zeros_like(self.bias)
            sum_by_code(codes, np.ones(len(part), np.float32), shares, some, totals)
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
    gate = np.concatenate([np.log(np.maximum(block, 1e-30)) for block in blocks]).astype(np.float32)
    bias = np.log(np.maximum(weights, 1e-30)).astype(np.float32)
    counts = np.zeros(len(gate))
    for u in range(len(rows.names)):
        counts += np.bincount(rows.codes[:, u], rows.weights, minlength=len(gate))
    wanted = [
        _rake(block * weights, counts[first:end], weights)
        for block, (first, end) in zip(blocks, pairwise(rows.starts.tolist()), strict=True)
    ]
    targets = np.log(np.concatenate(wanted) + FLOOR).astype(np.float32)
    shares = np.empty((len(rows.codes), len(bias)), np.float32)
    logs, width = np.empty_like(shares), np.float32(len(rows.names))
    for _ in range(STEPS):
        sums, totals = np.zeros_like(gate), np.zeros_like(bias)
        gate_rows(rows.codes, gate, bias, logs, shares)
        sum_by_code(rows.codes, rows.weights, shares, sums, totals)
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
