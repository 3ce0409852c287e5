"""Releases whose truth is known: a model that is a table of counts itself, and noisy tables of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import margrave as mg
from margrave.privacy.unit import Neighbours
from margrave.regression.coefficients import Fit
from margrave.regression.comparison import Comparison
from margrave.release import Guarantee, NoisyMarginal, Release
from margrave.schema.domain import Clique, Domain
from margrave.schema.encoded import Encoded, code_dtype
from margrave.tables.estimates import PooledTables

Floats = NDArray[np.float64]


class TableModel:
    """A model that is the table of all columns: counts in rows, shape of the domain."""

    def __init__(self, domain: Domain, counts: Floats) -> None:
        self.domain = domain
        self.counts = counts
        self.total = float(counts.sum())

    def project(self, clique: Clique) -> Floats:
        return sum_out(self.counts, self.domain, clique)

    def project_many(self, cliques: Sequence[Clique]) -> list[Floats]:
        return [self.project(clique) for clique in cliques]

    def sample(self, rows: int, rng: np.random.Generator, given: Any = None, deadline: Any = None) -> Encoded:
        """Exactly as many rows of each cell as it holds, where that many rows are asked for."""
        cells = np.repeat(np.arange(self.counts.size), np.rint(self.counts.ravel()).astype(int))
        assert len(cells) == rows
        codes = np.unravel_index(cells, self.counts.shape)
        types = [code_dtype(size) for size in self.domain.sizes]
        return Encoded(self.domain, tuple(c.astype(t) for c, t in zip(codes, types, strict=True)))

    def state(self) -> dict[str, Floats]:
        return {}


def comparison_of(fit: Fit, released: Released) -> Comparison:
    """What was measured for a regression against the model, without sums beside the tables."""
    release = released.release
    tables = PooledTables(release.domain, release.measurements)
    return Comparison(fit.design, tables, released.model, None)


class Released:
    """A release and its model, as a `Synthesis` has them."""

    def __init__(self, release: Release, model: Any) -> None:
        self.release = release
        self.model = model


def sum_out(counts: Floats, domain: Domain, clique: Sequence[str]) -> Floats:
    places = [domain.index(name) for name in clique]
    rest = tuple(axis for axis in range(len(domain)) if axis not in places)
    table = counts.sum(axis=rest)
    kept = sorted(places)
    return np.asarray(table.transpose([kept.index(place) for place in places]))


def counts_of(schema: mg.Schema, columns: Mapping[str, Any]) -> Floats:
    """Rows in each cell, from codes."""
    counts = np.zeros(schema.domain.sizes)
    np.add.at(counts, tuple(np.asarray(columns[name]) for name in schema.domain.names), 1.0)
    return counts


def noisy_release(
    schema: mg.Schema,
    counts: Floats,
    cliques: Mapping[Clique, float],
    rng: np.random.Generator,
    *,
    adjacency: Any = "add_remove",
    model: Any = None,
) -> Released:
    """Tables of cliques with Gaussian noise of these standard deviations, and the exact model by default."""
    domain = schema.domain
    measurements = []
    for clique, sigma in cliques.items():
        table = sum_out(counts, domain, clique)
        measurements.append(NoisyMarginal(clique, table + sigma * rng.standard_normal(table.shape), sigma))
    guarantee = Guarantee(1.0, 1e-9, 0.1, Neighbours(adjacency=adjacency), "gdp")
    release = Release(schema, tuple(measurements), guarantee, (), "tables", "pgm", {}, float(counts.sum()))
    return Released(release, model or TableModel(domain, counts))
