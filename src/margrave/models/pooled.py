"""Pooled: all measurements of one clique made into one table with one precision a cell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.release import InferredMarginal, NoisyMarginal
from margrave.schema.domain import Clique, Domain

__all__ = ["Pooled", "estimated_total", "mu", "one_ways", "perplexity", "pool", "rows_of"]


@dataclass(frozen=True, slots=True)
class Pooled:
    """The inverse-variance mean of the measurements of one clique.

    Args:
        clique: Distinct attributes in the domain's order.
        values: Noisy counts in rows, shape domain.shape(clique).
        sigma: Standard deviation of each cell, in rows, shape of values.
        inferred: Whether nobody measured it (`margrave.release.InferredMarginal`).
        distance: If so, its appraised total variation from the product of its one-ways.
        uncertainty: The standard deviation of that distance.
    """

    clique: Clique
    values: NDArray[np.float64]
    sigma: NDArray[np.float64]
    inferred: bool = False
    distance: float = 0.0
    uncertainty: float = math.inf

    @property
    def measurement(self) -> NoisyMarginal:
        """The same as a measurement, for a fit."""
        if self.inferred:
            return InferredMarginal(self.clique, self.values, self.sigma, self.distance, self.uncertainty)
        return NoisyMarginal(self.clique, self.values, self.sigma)


def pool(domain: Domain, measurements: Sequence[NoisyMarginal], *, inferred: bool = False) -> list[Pooled]:
    """One table a distinct clique, sorted by the attributes' positions; the empty clique is left out.

    Several measurements y_k of one cell with standard deviations s_k become
    sum(y_k / s_k^2) / sum(1 / s_k^2), with variance 1 / sum(1 / s_k^2).

    inferred: whether tables that nobody measured are kept (`margrave.release.InferredMarginal`), for models
        that know what to make of them; left out, the tables are those of a release.

    Raises:
        SchemaError: A clique names an attribute the domain does not have.
        InputError: A clique repeats an attribute, or its table is not finite or not of the domain's shape.
    """
    sums: dict[Clique, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
    unmeasured: dict[Clique, InferredMarginal | None] = {}
    for measured in measurements:
        unknown = measured if isinstance(measured, InferredMarginal) else None
        clique, values, sigma = _canonical(domain, measured)
        if not clique or (unknown is not None and not inferred):
            continue
        precision = sigma**-2.0
        weighted, total = sums.get(clique, (0.0, 0.0))
        sums[clique] = (weighted + values * precision, total + precision)
        unmeasured[clique] = unknown if unmeasured.get(clique, unknown) is not None else None
    ordered = sorted(sums, key=lambda clique: (len(clique), [domain.index(name) for name in clique]))
    found = []
    for clique in ordered:
        weighted, precision = sums[clique]
        table, known = Pooled(clique, weighted / precision, precision**-0.5), unmeasured[clique]
        if known is not None:
            table = replace(table, inferred=True, distance=known.distance, uncertainty=known.uncertainty)
        found.append(table)
    return found


def estimated_total(measurements: Sequence[NoisyMarginal]) -> float:
    """The inverse-variance mean of the tables' sums, at least 1: rows the measurements speak of.

    A table's sum has variance sum(sigma_cell^2).
    """
    precisions = [1.0 / float((m.sigmas**2).sum()) for m in measurements]
    sums = [float(m.values.sum()) for m in measurements]
    if not sums:
        return 1.0
    mean = math.fsum(p * s for p, s in zip(precisions, sums, strict=True)) / math.fsum(precisions)
    return max(mean, 1.0)


def rows_of(measurements: Sequence[NoisyMarginal], total: float | None) -> float:
    """The rows a model is to stand for: `total`, or what the measurements speak of when it is None.

    Raises:
        InputError: It is not a finite number above 0.
    """
    rows = estimated_total(measurements) if total is None else float(total)
    if not (np.isfinite(rows) and rows > 0):
        raise InputError(
            invalid("total", "a finite number above 0", "Leave it out to estimate it.", got=total)
        )
    return rows


def mu(tables: Sequence[Pooled]) -> float:
    """The root of the precision of all measured tables together, above 0; each counts by its cells' mean."""
    measured = [float((table.sigma**-2.0).mean()) for table in tables if not table.inferred]
    return math.sqrt(max(sum(measured), 1e-12))


def one_ways(tables: Sequence[Pooled]) -> dict[str, Pooled]:
    """The best unbiased estimate of each attribute's one-way from all tables that hold the attribute.

    A table over more attributes says by its sums what each of its one-ways is, with the variance of a sum;
    all estimates of one one-way are pooled by 1 / variance. Attributes in no table are left out, and inferred
    tables count for nothing: they are made of the same one-ways.
    """
    sums: dict[str, NDArray[np.float64]] = {}
    precisions: dict[str, NDArray[np.float64]] = {}
    for table in tables:
        if table.inferred:
            continue
        for axis, name in enumerate(table.clique):
            others = tuple(k for k in range(table.values.ndim) if k != axis)
            precision = 1.0 / (table.sigma**2).sum(axis=others)
            sums[name] = sums.get(name, 0.0) + table.values.sum(axis=others) * precision
            precisions[name] = precisions.get(name, 0.0) + precision
    return {name: Pooled((name,), sums[name] / p, p**-0.5) for name, p in precisions.items()}


def perplexity(counts: NDArray[np.float64]) -> float:
    """exp of the entropy of a distribution: how many codes it is spread over. Negative counts are cut."""
    held = np.maximum(counts, 0.0)
    shares = held[held > 0] / max(float(held.sum()), 1e-300)
    return math.exp(-float((shares * np.log(shares)).sum()))


def _canonical(
    domain: Domain, measured: NoisyMarginal
) -> tuple[Clique, NDArray[np.float64], NDArray[np.float64]]:
    clique = domain.canonical(measured.clique)
    if len(clique) != len(measured.clique):
        raise InputError(
            invalid("clique", "without repeats", "Name each attribute once.", got=measured.clique)
        )
    if measured.values.shape != domain.shape(measured.clique):
        raise InputError(
            invalid(
                "measurements",
                f"of shape {domain.shape(measured.clique)} for {measured.clique!r}",
                "Measure over the domain you fit.",
                got=measured.values.shape,
            )
        )
    if not np.isfinite(measured.values).all():
        raise InputError(invalid("measurements", "finite in every cell", "Drop the damaged marginal."))
    axes = tuple(measured.clique.index(name) for name in clique)
    return clique, measured.values.transpose(axes), measured.sigmas.transpose(axes)
