"""GatedModel: rows whose public part is given and whose private part is a mixture of products with a gate."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, ReleaseError, invalid
from margrave.limits import Deadline, one_blas_thread
from margrave.models._base.constraints import Evidence, by_row, group_evidence, pick_evidence
from margrave.models._base.model import Model
from margrave.models._base.public_rows import PublicRows
from margrave.models._mixture.latent_blocks import LatentBlock
from margrave.models._mixture.refinements import Refinements, restore_refinements
from margrave.models._sampling.balance import balance
from margrave.models._sampling.rounding import draw_column, order_by_group
from margrave.models._sampling.rows import match_most, picks
from margrave.models.gated.gate import gate_rows, sum_by_code
from margrave.schema.domain import Clique, Domain
from margrave.schema.encoded import code_dtype

Singles = NDArray[np.float32]
Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

CHUNK = 1 << 14
"""Rows whose component probabilities are held at once."""
PASSES, TRIED = 4, 1 << 16
"""Swaps tried for each row and private attribute, and for an attribute in one pass at most: those of the
mixture of products (`margrave.models._mixture.rows`)."""
MAX_SORTED = 16
"""Public attributes, the last ones, whose codes neighbours share while components are drawn."""
MAX_BALANCED = 4096
"""Codes of all attributes together up to which rows are moved towards the expected tables."""
MAX_CODES_AT_ONCE = 1 << 25
"""Rows times attributes that are drawn at once: each takes some tens of bytes."""
MIN_SHARED_PAIRS = 3
"""Pairs from which sums by public code, made once and kept, take less time than sums for each pair."""


class GatedModel(Model):
    """p(b | a) = sum_k pi_k(a) prod_j Q_kj(b_j) over the public rows a_1 .. a_n; made by `Gated`.

    The joint distribution that it stands for is that of its public rows with private parts drawn given them.

    Args:
        domain: Names and sizes of the attributes.
        total: Rows the model stands for.
        rows: The public part of the rows.
        gate: Log-odds of the components by public code, shape [public codes, components].
        bias: Log-odds of the components, shape [components].
        shares: Q of the private attributes, one below the other, shape [private codes, components].
        refinements: How some private attributes are drawn anew given all others; None for none.
    """

    def __init__(
        self,
        domain: Domain,
        total: float,
        rows: PublicRows,
        gate: NDArray[np.floating],
        bias: NDArray[np.floating],
        shares: NDArray[np.floating],
        refinements: Refinements | None = None,
    ) -> None:
        self._domain, self._total, self.rows = domain, float(total), rows
        self.refinements = refinements
        self.gate = np.ascontiguousarray(gate, dtype=np.float32)
        self.bias = np.ascontiguousarray(bias, dtype=np.float32)
        self.private = tuple(name for name in domain.names if name not in rows.names)
        exact = np.asarray(shares, dtype=np.float64).copy()
        ends = np.cumsum(domain.shape(self.private), dtype=np.int64)
        self._parts = {
            name: slice(int(end) - domain[name], int(end))
            for name, end in zip(self.private, ends, strict=True)
        }
        for part in self._parts.values():
            sums = exact[part].sum(axis=0)
            if bool((np.abs(sums - 1.0) > 1e-12).any()):  # single precision; a saved model stays as it is
                exact[part] /= sums
        self.shares = exact

    @property
    def domain(self) -> Domain:
        """Names and sizes of the attributes."""
        return self._domain

    @property
    def total(self) -> float:
        """The number of rows the model stands for; marginals sum to it."""
        return self._total

    @property
    def latent_blocks(self) -> tuple[LatentBlock, ...]:
        """None: private attributes follow from the component alone."""
        return ()

    def with_refinements(self, refinements: Refinements) -> GatedModel:
        """The same model, with some private attributes drawn anew given all others."""
        same = self._domain, self._total, self.rows, self.gate, self.bias, self.shares
        return GatedModel(*same, refinements)

    def _is_refined(self, clique: Clique) -> bool:
        return self.refinements is not None and not set(clique).isdisjoint(self.refinements.names)

    def block(self, name: str) -> Floats:
        """Q of one private attribute, shape [codes, components]."""
        return np.asarray(self.shares[self._parts[name]])

    @functools.cached_property
    def weights(self) -> Floats:
        """N, the share of each component among the rows, shape [components]."""
        return np.asarray(self._sums(np.zeros(len(self.rows.codes), np.int32), 1)[0])

    def _sums(self, cells: NDArray[np.int32], count: int) -> Floats:
        """The components' probabilities summed over the rows in each of some cells, [count, components]."""
        return self._sum_shares(cells[:, None], count)[0]

    def _sum_shares(self, cells: NDArray[np.int32], count: int) -> tuple[Floats, Floats]:
        """Sums by cell, [count, components], and in all, [components], in double precision: tables agree.

        cells: of each distinct row, shape [distinct, ways to put rows into cells], numbered through.
        """
        weights = self.rows.weights.astype(np.float64)
        # Weights are shares of the rows from here on.
        weights /= weights.sum()
        sums, totals = np.zeros((count, len(self.bias))), np.zeros(len(self.bias))
        for first in range(0, len(weights), CHUNK):
            part = slice(first, first + CHUNK)
            shares = self._gated(self.rows.codes[part]).astype(np.float64)
            # Single precision leaves sums off by its rounding, which tables of many rows would show.
            shares /= shares.sum(axis=1, keepdims=True)
            sum_by_code(cells[part], weights[part], shares, sums, totals)
        return sums, totals

    def _gated(self, codes: NDArray[np.int32]) -> Singles:
        shares = np.empty((len(codes), len(self.bias)), np.float32)
        gate_rows(codes, self.gate, self.bias, shares)
        return shares

    def project(self, clique: Clique) -> Floats:
        """The marginal of any clique, in rows, shape domain.shape(clique): expected over the public rows.

        A clique of public attributes is counted, not modelled; one with a refined attribute is a mean over
        rows that were drawn, as in the mixture of products.

        Raises:
            InputError: The clique repeats an attribute.
        """
        if len(set(clique)) != len(clique):
            raise InputError(invalid("clique", "without repeats", "Name each attribute once.", got=clique))
        self._domain.shape(clique)  # which says what is wrong
        if self.refinements is not None and self._is_refined(clique):
            return self._total * self.refinements.project(clique)
        known = [name for name in clique if name in self.rows.names]
        drawn = [name for name in clique if name not in self.rows.names]
        cells = np.zeros(len(self.rows.codes), np.int64)
        # Numbered codes less the attribute's start are the attribute's own codes.
        for name in known:
            u = self.rows.names.index(name)
            cells = cells * self._domain[name] + (self.rows.codes[:, u] - self.rows.starts[u])
        # Only public cells that occur are summed over; the others stay 0.
        held, places = np.unique(cells, return_inverse=True)
        if drawn:
            blocks = self.block(drawn[0])
            for name in drawn[1:]:
                # Private attributes are independent given the component, so that their shares multiply.
                blocks = (blocks[:, None, :] * self.block(name)[None, :, :]).reshape(-1, len(self.bias))
            inner = self._sums(places.astype(np.int32), len(held)) @ blocks.T
        else:
            known_weights = self.rows.weights.astype(np.float64)
            inner = (np.bincount(places, known_weights, minlength=len(held)) / known_weights.sum())[:, None]
        table = np.zeros((self._domain.size(known), self._domain.size(drawn)))
        table[held] = inner
        order = [*known, *drawn]
        found = table.reshape(self._domain.shape(order)).transpose([order.index(name) for name in clique])
        return np.asarray(self._total * found)

    def project_many(self, cliques: Sequence[Clique]) -> list[Floats]:
        """The marginals of many cliques; pairs with a private attribute are products of one set of sums."""
        known = set(self.rows.names)
        pairs = [
            c
            for c in cliques
            if len(c) == 2 and c[0] != c[1] and not set(c) <= known and not self._is_refined(c)
        ]
        # One set of sums over the rows serves all pairs; for few of them it costs more than it saves.
        if len(pairs) < MIN_SHARED_PAIRS:
            return [self.project(clique) for clique in cliques]
        sums, totals = self.component_sums
        at = _slices(self._domain, self.rows.names)

        def factor(name: str) -> Floats:
            # S of a public attribute, or Q times N of a private one: either way a table by component.
            return sums[at[name]] if name in at else self.block(name) * totals

        def product(one: str, two: str) -> Floats:
            if two in at:
                return np.asarray(product(two, one).T)
            return np.asarray(self._total * (factor(one) @ self.block(two).T))

        wanted = set(pairs)
        return [product(*clique) if clique in wanted else self.project(clique) for clique in cliques]

    @functools.cached_property
    def component_sums(self) -> tuple[Floats, Floats]:
        """S, shape [public codes, components], and N, shape [components], both in shares of the rows."""
        return self._sum_shares(self.rows.codes, int(self.rows.starts[-1]))

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays from which `Gated.restore` builds the same model again; the public rows are among them."""
        rows, refinements = self.rows, self.refinements
        return {
            "total": np.asarray(self._total),
            "public": np.asarray([self._domain.index(name) for name in rows.names], dtype=np.int64),
            "rows": rows.codes,
            "row_weights": rows.weights,
            "places": rows.places,
            "gate": self.gate,
            "bias": self.bias,
            "shares": self.shares,
            **({} if refinements is None else refinements.state()),
        }

    @one_blas_thread()
    def draw_rows(
        self, rows: int, given: Evidence, rng: np.random.Generator, deadline: Deadline | None = None
    ) -> Sequence[NDArray[np.integer[Any]]]:
        """Rows with private codes drawn given public ones; see `draw_unrefined` and `Refinements.draw`.

        Very many rows that are given are drawn in parts, each moved towards the expected tables by itself.
        """
        at_once = max(MAX_CODES_AT_ONCE // len(self._domain), 1)
        if rows <= at_once or not by_row(given):
            return self._draw_part(rows, given, rng, deadline)
        columns = [np.empty(rows, code_dtype(size)) for size in self._domain.sizes]
        for first in range(0, rows, at_once):
            part = np.arange(first, min(first + at_once, rows))
            some = self._draw_part(len(part), pick_evidence(given, part), rng, deadline)
            for column, codes in zip(columns, some, strict=True):
                column[part] = codes
        return columns

    def _draw_part(
        self, rows: int, given: Evidence, rng: np.random.Generator, deadline: Deadline | None
    ) -> list[Longs]:
        if self.refinements is None:
            return self.draw_unrefined(rows, rng, given, deadline)
        return self.refinements.draw(self, rows, rng, given, deadline)

    def draw_unrefined(
        self,
        rows: int,
        rng: np.random.Generator,
        evidence: Evidence,
        deadline: Deadline | None = None,
        balanced: bool = True,
    ) -> list[Longs]:
        """Rows with private codes drawn given public ones, none drawn anew.

        Public codes that are not given are those of the model's own rows: each about equally often, by how
        well they go with what is given. Codes that no public row has together are met by the rows that have
        the most of them.

        Args:
            rows: How many.
            rng: Source of randomness.
            evidence: Checked codes by attribute, one for all rows or one a row; rows keep the order of those.
            deadline: When rows are no longer moved towards the expected tables.
            balanced: Whether they are.
        """
        fixed = {name: np.broadcast_to(np.asarray(c, np.int64), rows) for name, c in evidence.items()}
        missing = [name for name in self.rows.names if name not in fixed]
        if missing:
            chosen = self._choose_rows(rows, evidence, rng)
            for name in missing:
                u = self.rows.names.index(name)
                fixed[name] = self.rows.codes[chosen, u].astype(np.int64) - self.rows.starts[u]
        keys, sums, totals = self._components(rows, fixed, rng)
        # Fixed codes are kept; private ones are rounded within their component.
        by, columns = order_by_group(keys, len(self.bias)), dict(fixed)
        free = [name for name in self.private if name not in fixed]
        for name in free:
            columns[name] = draw_column(keys, by, np.ascontiguousarray(self.block(name).T), rng)
        codes = sum(self._domain.sizes)
        late = deadline is not None and deadline.passed
        if balanced and free and rows > 1 and codes <= MAX_BALANCED and not late:
            self._balance(columns, keys, sums, totals, free, rng, deadline)
        return [np.asarray(columns[name]) for name in self._domain.names]

    def find_probability(self, columns: Mapping[str, Longs], asked: Mapping[str, Longs]) -> Floats:
        """p(private attributes asked for | all other codes) of each row without refinements, shape [rows]."""
        rows = len(next(iter(columns.values())))
        others = [name for name in self.private if name not in asked]
        logs_of = {name: np.log(np.maximum(self.block(name), 1e-30)).astype(np.float32) for name in others}
        found = np.empty(rows)
        for first in range(0, rows, CHUNK):
            part = slice(first, min(first + CHUNK, rows))
            public = np.empty((part.stop - part.start, len(self.rows.names)), np.int32)
            for u, (name, start) in enumerate(zip(self.rows.names, self.rows.starts, strict=False)):
                public[:, u] = columns[name][part] + start
            # The gate is the prior of the components, which given private codes then weigh.
            logs = np.log(np.maximum(self._gated(public), np.float32(1e-30)))
            for name in others:
                logs += logs_of[name][columns[name][part]]
            weights = np.exp(logs - logs.max(axis=1, keepdims=True))
            joint = weights.copy()
            for name, codes in asked.items():
                joint *= self.block(name)[codes[part]]
            found[part] = joint.sum(axis=1) / weights.sum(axis=1)
        return np.maximum(found, 1e-12)

    def _components(
        self, rows: int, fixed: Mapping[str, Longs], rng: np.random.Generator
    ) -> tuple[Longs, Floats, Floats]:
        """Each row's component given its fixed codes, [rows]; and sums of their probabilities, in rows.

        Rows are drawn in an order in which neighbours have like public codes, with stratified starting
        points, so that the components of like rows are near their expectations.

        Returns:
            The components; the sums by fixed code, shape [codes of all attributes, components], 0 for
            attributes that are not fixed; and those in all, shape [components].
        """
        starts = np.concatenate([[0], np.cumsum(self._domain.sizes)]).astype(np.int64)
        sums = np.zeros((int(starts[-1]), len(self.bias)), np.float32)
        totals, whole = np.zeros_like(self.bias), np.zeros(len(self.bias))
        names = [name for name in self._domain.names if name in fixed]
        lines = np.stack(
            [fixed[name] + starts[self._domain.index(name)] for name in names] or [np.zeros(rows, np.int64)]
        ).astype(np.int32)[: len(names)]
        public = np.stack(
            [fixed[n] + s for n, s in zip(self.rows.names, self.rows.starts, strict=False)]
            or [np.zeros(rows, np.int64)]
        ).astype(np.int32)[: len(self.rows.names)]
        # Rows that are alike in the last public attributes are neighbours, so that their components even out.
        order = np.lexsort(public[-MAX_SORTED:]) if len(public) else np.arange(rows)
        likely = {
            n: np.log(np.maximum(self.block(n), 1e-30)).astype(np.float32) for n in names if n in self._parts
        }
        keys = np.empty(rows, np.int64)
        for first in range(0, rows, CHUNK):
            part = order[first : first + CHUNK]
            shares = self._gated(np.ascontiguousarray(public[:, part].T))
            if likely:
                logs = np.log(np.maximum(shares, np.float32(1e-30)))
                # Private codes that are given speak of the component as well.
                for name, block in likely.items():
                    logs += block[fixed[name][part]]
                shares = np.exp(logs - logs.max(axis=1, keepdims=True))
                shares /= shares.sum(axis=1, keepdims=True)
            ones = np.ones(len(part), np.float32)
            sum_by_code(np.ascontiguousarray(lines[:, part].T), ones, shares, sums, totals)
            # In double precision, as single sums of very many rows would stall.
            whole += shares.sum(axis=0, dtype=np.float64)
            each = np.arange(len(part))
            keys[part] = draw_column(each, each, shares.astype(np.float64), rng)
        return keys, sums.astype(np.float64), whole

    def _balance(
        self,
        columns: dict[str, Longs],
        keys: Longs,
        sums: Floats,
        totals: Floats,
        free: Sequence[str],
        rng: np.random.Generator,
        deadline: Deadline | None,
    ) -> None:
        """Swap free private codes between rows of one component towards the expected tables, in place."""
        names, blocks = self._domain.names, []
        for name, part in _slices(self._domain, names).items():
            # A given column has the sums of its own rows; a free one follows from the components.
            blocks.append(self.block(name) if name in free else sums[part])
        moving = np.concatenate(
            [np.full(len(b), name in free) for name, b in zip(names, blocks, strict=True)]
        )
        stacked = np.concatenate(blocks)
        scaled = np.where(moving[:, None], stacked * totals, stacked)
        free_part = np.where(moving[:, None], stacked, 0.0)
        expected = scaled @ free_part.T
        # Of two free attributes both orders are the same; with a given one the side that was summed counts.
        expected = np.where(moving[None, :], expected, expected.T)
        places = [self._domain.index(name) for name in free]
        moved = balance(
            [columns[name] for name in names], keys, expected, self._domain.sizes, PASSES, rng,
            most=TRIED, movable=places, deadline=deadline,
        )  # fmt: skip
        for place in places:
            columns[names[place]] = moved[place]

    def _choose_rows(self, rows: int, given: Evidence, rng: np.random.Generator) -> Longs:
        """A distinct public row for each row, by weight and by how well it goes with given codes, [rows]."""
        # As many rows as there are public ones are those very rows, in their order.
        if not given and rows == len(self.rows.places):
            return self.rows.places
        chosen = np.empty(rows, np.int64)
        for own, codes in group_evidence(given, rows):
            chosen[own] = self._pick(len(own), codes, rng)
        return chosen

    def _pick(self, rows: int, given: Mapping[str, int], rng: np.random.Generator) -> Longs:
        """Distinct public rows by weight times the likelihood of one set of given codes, [rows]."""
        if not given:
            return np.asarray(self.rows.places[picks(rows, len(self.rows.places), rng)])
        known = [name for name in given if name in self.rows.names]
        matching = np.arange(len(self.rows.codes))
        if known:
            places = [self.rows.names.index(name) for name in known]
            codes = [given[name] + int(self.rows.starts[u]) for name, u in zip(known, places, strict=True)]
            matching = match_most(np.ascontiguousarray(self.rows.codes.T), places, codes)
        weights = self.rows.weights[matching].astype(np.float64)
        drawn = [name for name in given if name not in self.rows.names]
        if drawn:
            # The likelihood of given private codes under each component, which the gate then weighs.
            likely = np.prod([self.block(name)[given[name]] for name in drawn], axis=0)
            for first in range(0, len(matching), CHUNK):
                part = slice(first, first + CHUNK)
                weights[part] *= self._gated(self.rows.codes[matching[part]]) @ likely
        one = np.zeros(rows, np.int64)
        return np.asarray(matching[draw_column(one, np.arange(rows), weights[None, :], rng)])


def _slices(domain: Domain, names: Sequence[str]) -> dict[str, slice]:
    """Where each attribute's codes are when those of all stand one below the other."""
    ends = np.cumsum(domain.shape(names), dtype=np.int64)
    return {name: slice(int(end) - domain[name], int(end)) for name, end in zip(names, ends, strict=True)}


def restore_model(domain: Domain, state: Mapping[str, Floats]) -> GatedModel:
    """The model whose `state` was saved.

    Raises:
        ReleaseError: The state is not that of a gated mixture over this domain.
    """
    rows = PublicRows.restore(domain, state)
    try:
        gate, bias, shares = (np.asarray(state[key], dtype=np.float64) for key in ("gate", "bias", "shares"))
        total = float(np.asarray(state["total"], dtype=np.float64))
    except (KeyError, TypeError, ValueError):
        raise ReleaseError(_damaged()) from None
    private = [name for name in domain.names if name not in rows.names]
    # A release file may come from anybody: shapes and sums are checked before anything is drawn.
    sound = (
        total > 0
        and np.isfinite(total)
        and bias.ndim == 1
        and gate.shape == (int(rows.starts[-1]), len(bias))
        and shares.shape == (sum(domain.shape(private)), len(bias))
        and bool(np.isfinite(gate).all() and np.isfinite(bias).all() and (shares >= 0).all())
    )
    if not sound:
        raise ReleaseError(_damaged())
    model = GatedModel(domain, total, rows, gate, bias, shares)
    refinements = restore_refinements(model, state)
    return model if refinements is None else model.with_refinements(refinements)


def _damaged() -> str:
    return invalid("state", "a gated mixture over the domain", "The release is damaged.")
