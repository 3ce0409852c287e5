"""Estimates of contingency tables with standard errors: from the noisy tables themselves, or from the model.

Everything here is post-processing of released numbers and costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from margrave.errors import InputError, invalid
from margrave.release import NoisyMarginal
from margrave.schema.domain import Clique, Domain

if TYPE_CHECKING:
    from margrave.protocols import Fitter, Model

__all__ = [
    "REPLICATES",
    "Estimate",
    "OnRefit",
    "checked_clique",
    "ignore_refit",
    "measured",
    "modelled",
    "sum_out",
]

Floats = NDArray[np.float64]

REPLICATES = 20
"""Refits from which the uncertainty of a model's table is taken."""
OnRefit = Callable[[int, int], None]


def ignore_refit(done: int, refits: int) -> None:
    """Say nothing about a refit."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A table of counts with its uncertainty.

    Args:
        clique: Attribute names, in the order of the axes.
        values: Estimated counts in rows, shape [size of each attribute].
        errors: Standard errors in rows, shape of values.
        source: "measured": unbiased, from noisy tables that hold the clique; errors are those of the noise.
            "model": the fitted model's table; its errors are those of noise and shrinkage if the model were
            true, and say nothing of dependence that the model cannot hold.
        freedom: Degrees of freedom of the errors; infinite where they are known.
    """

    clique: Clique
    values: Floats
    errors: Floats
    source: str
    freedom: float = math.inf

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Lower and upper confidence limits of each cell's true count, in rows, both of the values' shape.

        Two-sided and one cell at a time: of many cells about 1 - level lie outside. A count is never
        below 0, so neither are the limits.

        Raises:
            InputError: level is not between 0 and 1.
        """
        if not 0.0 < level < 1.0:
            raise InputError(invalid("level", "above 0 and below 1", "Try level=0.95.", got=level))
        wide = float(stdtrit(self.freedom, 0.5 + level / 2.0)) * self.errors
        return np.maximum(self.values - wide, 0.0), np.maximum(self.values + wide, 0.0)


def checked_clique(domain: Domain, names: Sequence[str]) -> Clique:
    """The names as a clique.

    Raises:
        SchemaError: The domain lacks one.
        InputError: One is named twice.
    """
    domain.shape(names)
    if len(set(names)) != len(names):
        raise InputError(invalid("columns", "named once each", "Drop the repeats.", got=list(names)))
    return tuple(names)


def measured(domain: Domain, measurements: Sequence[NoisyMarginal], clique: Clique) -> Estimate | None:
    """The best unbiased estimate from the noisy tables that hold the clique, or None if none does.

    A table over more attributes is summed out: its noise adds up, with the variance of a sum. All estimates
    of a cell are then pooled by 1 / variance. Noises of different tables are independent; where a method
    chose what to measure after looking at earlier noise, the pooled weights depend on it a little, which the
    standard errors leave out.

    Args:
        domain: The domain of the measurements.
        measurements: Released tables.
        clique: Distinct names.
    """
    weighted: Floats = np.zeros(domain.shape(clique))
    precision: Floats = np.zeros(domain.shape(clique))
    for table in measurements:
        if set(clique) <= set(table.clique):
            values, variance = (
                sum_out(part, table.clique, clique) for part in (table.values, table.sigmas**2)
            )
            weighted += values / variance
            precision += 1.0 / variance
    if not precision.all():
        return None
    return Estimate(clique, weighted / precision, precision**-0.5, "measured")


def sum_out(values: Floats, held: Clique, clique: Clique) -> Floats:
    """A table summed out to some of its attributes, axes in the order of `clique`."""
    kept = [name for name in held if name in clique]
    summed = values.sum(axis=tuple(axis for axis, name in enumerate(held) if name not in clique))
    turned: Floats = np.asarray(summed).transpose([kept.index(name) for name in clique])
    return turned


def modelled(
    model: Model,
    fitter: Fitter,
    measurements: Sequence[NoisyMarginal],
    cliques: Sequence[Clique],
    *,
    total: float | None = None,
    replicates: int = REPLICATES,
    rng: np.random.Generator,
    on_refit: OnRefit = ignore_refit,
) -> list[Estimate]:
    """The model's tables, with errors by a parametric bootstrap (Efron and Tibshirani 1993, section 6.5).

    Each replicate measures the model itself where the table was measured, with fresh noise of the same
    standard deviations, and fits again. The error of a cell is the root mean square distance of the refits
    from the model: noise and shrinkage together. Released numbers only; the noise here protects nobody.

    Args:
        model, fitter: Fitted to the measurements, and what fitted it.
        measurements, cliques: Released tables, and those wanted.
        total: The number of rows where it is public.
        replicates: Refits, at least 2.
        rng: Draws the replicates' noise.
        on_refit: Told before each refit how many are done, and how many there are.

    Raises:
        InputError: replicates is below 2.
    """
    if replicates < 2:
        raise InputError(invalid("replicates", "at least 2", "Try replicates=20.", got=replicates))
    centres = model.project_many(cliques)
    expected = model.project_many([table.clique for table in measurements])
    squares = [np.zeros_like(centre) for centre in centres]
    for done in range(replicates):
        on_refit(done, replicates)
        again = _measured_again(measurements, expected, rng)
        refit = fitter.fit(model.domain, again, total=total, warm=model)
        for square, centre, table in zip(squares, centres, refit.project_many(cliques), strict=True):
            square += (table - centre) ** 2
    return [
        Estimate(clique, centre, np.sqrt(square / replicates), "model", float(replicates))
        for clique, centre, square in zip(cliques, centres, squares, strict=True)
    ]


def _measured_again(
    measurements: Sequence[NoisyMarginal], means: Sequence[Floats], rng: np.random.Generator
) -> list[NoisyMarginal]:
    """Measurements as precise as those given, of other counts."""
    return [
        NoisyMarginal(table.clique, mean + table.sigmas * rng.standard_normal(mean.shape), table.sigma)
        for table, mean in zip(measurements, means, strict=True)
    ]
