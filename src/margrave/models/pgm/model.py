"""GraphicalModel: a fitted log-linear distribution, calibrated on its junction tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.limits import Deadline
from margrave.models._base.constraints import Evidence, by_row
from margrave.models._base.model import Model
from margrave.models.pgm.estimate import Solution
from margrave.models.pgm.marginals import marginal, marginals, pair_marginals
from margrave.models.pgm.sample import condition_layout, cut, draw, draw_given
from margrave.models.pgm.tree import rank_attributes
from margrave.schema.domain import Clique, Domain

if TYPE_CHECKING:
    from margrave.models.pgm.inference import Calibration

MIN_SHARED_PAIRS = 8
"""Fewer pairs than this are projected one by one."""


class GraphicalModel(Model):
    """p(x) = exp(sum_r theta_r(x_r) - log Z); made by `PGM`.

    Args:
        domain: Names and sizes of the attributes.
        total: Rows the model stands for.
        cliques: Measured cliques, in the domain's order, as the inference holds them.
        inference: Calibrated at the solution.
        solution: Where the optimiser stopped.
    """

    def __init__(
        self,
        domain: Domain,
        total: float,
        cliques: Sequence[Clique],
        inference: Calibration,
        solution: Solution,
    ) -> None:
        self._domain = domain
        self._total = float(total)
        self._cliques = tuple(cliques)
        self._inference = inference
        self._solution = solution
        self._names = rank_attributes(domain)
        self._place = {name: i for i, name in enumerate(self._names)}

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
        """Whether the fit met its tolerance."""
        return self._solution.converged

    @property
    def iterations(self) -> int:
        """Steps the optimiser took."""
        return self._solution.iterations

    @property
    def evaluations(self) -> int:
        """Inferences the optimiser ran."""
        return self._solution.evaluations

    @property
    def gap(self) -> float:
        """The largest L1 norm of the gradient over one measured table, in probability."""
        return self._solution.gap

    @property
    def cells(self) -> int:
        """Cells of all tables of the junction tree."""
        return self._inference.layout.node_starts[-1]

    def project(self, clique: Clique) -> NDArray[np.float64]:
        """The marginal of any clique, in rows, shape domain.shape(clique).

        Raises:
            SchemaError: The clique names an attribute the domain does not have.
            InputError: The clique repeats an attribute, or its table is absurdly large.
        """
        wanted = self._engine(clique)
        table = marginal(self._inference.layout, self._inference.belief, wanted)
        return self._shape_table(clique, wanted, table)

    def project_many(self, cliques: Sequence[Clique]) -> list[NDArray[np.float64]]:
        """The marginals of many cliques at once: all pairs in a few matrix products, the rest together."""
        layout, belief = self._inference.layout, self._inference.belief
        engine = [self._engine(clique) for clique in cliques]
        pairs = {(c[0], c[1]) for c in engine if len(c) == 2}
        known: dict[tuple[int, ...], NDArray[np.float64]] = {}
        if len(pairs) >= MIN_SHARED_PAIRS:
            known |= {(u, v): table for (u, v), table in pair_marginals(layout, belief, pairs).items()}
        known |= marginals(layout, belief, dict.fromkeys(c for c in engine if c not in known))
        return [
            self._shape_table(clique, wanted, known[wanted])
            for clique, wanted in zip(cliques, engine, strict=True)
        ]

    def draw_rows(
        self, rows: int, given: Evidence, rng: np.random.Generator, deadline: Deadline | None = None
    ) -> list[NDArray[Any]]:
        """Rows by low-variance rounding, from the exact distribution conditional on `given`.

        After the deadline rows are no longer moved towards the model's pairs; all are drawn in any case.
        """
        layout, theta, belief = self._inference.layout, self._solution.theta, self._inference.belief
        # With codes that differ by row every row has a distribution of its own; with one set of codes for
        # all, the potentials are cut once and the rows share what is left.
        if by_row(given):
            codes = {self._place[n]: np.broadcast_to(c, rows).astype(np.int64) for n, c in given.items()}
            drawn = list(draw_given(layout, belief, codes, rows, rng))
        else:
            evidence = {self._place[n]: c for n, c in given.items() if isinstance(c, int)}
            if evidence:
                theta, (layout, belief) = (
                    cut(layout, theta, evidence),
                    condition_layout(layout, theta, evidence),
                )
            drawn = list(draw(layout, theta, belief, rows, rng, deadline))
            for v, code in evidence.items():
                drawn[v] = np.full(rows, code)
        return [drawn[self._place[name]] for name in self._domain.names]

    def potentials(self) -> dict[Clique, NDArray[np.float64]]:
        """theta by measured clique, axes in the domain's order."""
        layout = self._inference.layout
        tables = {}
        for k, clique in enumerate(self._cliques):
            wanted = tuple(sorted(clique, key=self._place.__getitem__))
            flat = self._solution.theta[layout.starts[k] : layout.starts[k + 1]]
            axes = tuple(wanted.index(name) for name in clique)
            tables[clique] = flat.reshape(self._domain.shape(wanted)).transpose(axes)
        return tables

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Arrays from which `PGM.restore` builds the same model again.

        theta: potentials of all measured cliques, by number of attributes and then position, row by row.
        fit: total, gap, iterations, evaluations, whether converged.
        """
        found = self._solution
        fit = [self._total, found.gap, found.iterations, found.evaluations, found.converged]
        flat = [np.zeros(0), *(table.ravel() for table in self.potentials().values())]
        return {"theta": np.concatenate(flat), "fit": np.asarray(fit, dtype=np.float64)}

    def _engine(self, clique: Clique) -> tuple[int, ...]:
        """A clique's attributes of more than one code, as the engine numbers them."""
        if len(set(clique)) != len(clique):
            raise InputError(invalid("clique", "without repeats", "Name each attribute once.", got=clique))
        places = [self._place[n] if n in self._place else self._domain.index(n) for n in clique]
        return tuple(sorted(v for v in places if self._inference.layout.sizes[v] > 1))

    def _shape_table(
        self, clique: Clique, wanted: tuple[int, ...], table: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """A projected table in rows, with the axes a clique asks for."""
        asked = [self._place[n] for n in clique if self._domain[n] > 1]
        turned = np.asarray(table.transpose([wanted.index(v) for v in asked]), dtype=np.float64)
        return (turned * self._total).reshape(self._domain.shape(clique))
