"""Pooled: all measurements of one clique made into one table with one precision a cell.

`halves` makes two independent sets of measurements out of one, to choose between models without paying. A
measurement y = truth + sigma z is public. Fresh noise z' makes A = y + g sigma z' and B = y - sigma z' / g,
whose noises have covariance sigma^2 - sigma^2 = 0: for Gaussian noise they are independent, A with variance
sigma^2 (1 + g^2), B with sigma^2 (1 + 1 / g^2). What is fitted on A is judged on B without bias, as on a
second release that was never bought. The discrete Gaussian is Gaussian enough for this wherever sigma is a
few rows. This is data thinning (Neufeld, Dharamshi, Gao and Witten 2024) of a released table.

**Privacy.** Post-processing: z' is drawn from a generator of the caller and looks at releases only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.models._base.compiled import compile_kernel
from margrave.release import InferredMarginal, NoisyMarginal, RankProduct
from margrave.schema.domain import Clique, Domain
from margrave.smoothing import smooth_counts


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
        product: Its rank product, if that was measured by itself.
        weight: What its error counts where models are compared.
    """

    clique: Clique
    values: NDArray[np.float64]
    sigma: NDArray[np.float64]
    inferred: bool = False
    distance: float = 0.0
    uncertainty: float = math.inf
    product: RankProduct | None = None
    weight: float = 1.0

    @property
    def measurement(self) -> NoisyMarginal:
        """The same as a measurement, for a fit."""
        if self.inferred:
            known = self.distance, self.uncertainty, self.product
            return InferredMarginal(self.clique, self.values, self.sigma, *known)
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
    sums: dict[Clique, tuple[NDArray[np.float64], Precision]] = {}
    product: dict[Clique, RankProduct | None] = {}
    unmeasured: dict[Clique, Pooled] = {}
    for measured in measurements:
        clique, values, sigma = _canonical(domain, measured)
        if isinstance(measured, InferredMarginal):
            if inferred and clique:
                product[clique] = _order_scores(measured, clique)
                spread = np.broadcast_to(np.asarray(sigma, dtype=np.float64), values.shape)
                known = measured.distance, measured.uncertainty, product[clique]
                unmeasured[clique] = Pooled(clique, values, spread, True, *known)
            continue
        if not clique:
            continue
        # One number serves all cells where they have one sigma, which thousands of tables gain by.
        precision = np.power(sigma, -2.0)
        weighted, before = values * precision, sums.get(clique)
        if before is not None:
            weighted, precision = before[0] + weighted, before[1] + precision
        sums[clique] = (weighted, precision)
    found = []
    # A clique counts as inferred only as long as nobody has measured it.
    for clique in sorted(
        {*sums, *unmeasured}, key=lambda one: (len(one), [domain.index(name) for name in one])
    ):
        if clique not in sums:
            found.append(unmeasured[clique])
            continue
        weighted, precision = sums[clique]
        spread = np.power(precision, -0.5)
        sigma = spread if isinstance(spread, np.ndarray) else np.full(weighted.shape, spread)
        found.append(Pooled(clique, weighted / precision, sigma, product=product.get(clique)))
    return found


def _order_scores(measured: InferredMarginal, clique: Clique) -> RankProduct | None:
    """Its rank product, with the scores in the order of the clique."""
    found = measured.product
    if found is None or clique == measured.clique:
        return found
    return replace(found, scores=(found.scores[1], found.scores[0]))


def estimated_total(measurements: Sequence[NoisyMarginal]) -> float:
    """The inverse-variance mean of the tables' sums, at least 1: rows the measurements speak of.

    A table's sum has variance sum(sigma_cell^2).
    """
    # The variance of a table's sum is that of all its cells added up.
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
            # Cells of a one-way are sums of the table's, and so are their variances.
            precision = 1.0 / (table.sigma**2).sum(axis=others)
            sums[name] = sums.get(name, 0.0) + table.values.sum(axis=others) * precision
            precisions[name] = precisions.get(name, 0.0) + precision
    return {name: Pooled((name,), sums[name] / p, p**-0.5) for name, p in precisions.items()}


def smooth_one_ways(domain: Domain, tables: Sequence[Pooled], rows: float) -> list[Pooled]:
    """The same tables, with the best guess of the counts in those of one attribute (`margrave.smoothing`).

    Standard deviations stay those of the noise: what a fit makes of a table is to weigh as before. Models are
    never judged by such tables, whose errors are not those of noise alone.

    Args:
        domain: Names and sizes of the attributes, and how many of their codes are ordered.
        tables: One table a clique, as from `pool`.
        rows: That each one-way adds up to, about.
    """
    found = list(tables)
    for place, table in enumerate(tables):
        if len(table.clique) == 1:
            ordered = domain.ordered[domain.index(table.clique[0])]
            smoothed = smooth_counts(table.values, table.sigma**2, ordered, rows)
            found[place] = replace(table, values=smoothed.values)
    return found


def dependence(table: NDArray[np.float64]) -> float:
    """Total variation of a pair table, in proportions, from the product of its one-ways."""
    product = np.outer(table.sum(axis=1), table.sum(axis=0))
    return 0.5 * float(np.abs(table - product).sum())


Precision = NDArray[np.float64] | np.float64
"""One number a cell, or one for all of them, which thousands of tables are pooled faster with."""


def _canonical(
    domain: Domain, measured: NoisyMarginal
) -> tuple[Clique, NDArray[np.float64], NDArray[np.float64] | float]:
    """The clique in the domain's order, with values and standard deviations: one number a cell or for all."""
    given, values, sigma = measured.clique, measured.values, measured.sigma
    clique = domain.canonical(given)
    if len(clique) != len(given):
        raise InputError(invalid("clique", "without repeats", "Name each attribute once.", got=given))
    shape = domain.shape(given)
    if values.shape != shape:
        raise InputError(
            invalid(
                "measurements",
                f"of shape {shape} for {given!r}",
                "Measure over the domain you fit.",
                got=values.shape,
            )
        )
    if not np.isfinite(values).all():
        raise InputError(invalid("measurements", "finite in every cell", "Drop the damaged marginal."))
    if clique == given:
        return clique, values, sigma
    axes = tuple(given.index(name) for name in clique)
    return clique, values.transpose(axes), sigma.transpose(axes) if isinstance(sigma, np.ndarray) else sigma


Floats = NDArray[np.float64]

SHARE = 1.0 / 3.0
"""g^2: A keeps three quarters of the precision, B a quarter."""
FLOOR = 1e-3
"""Added to a cell's share before its inverse weighs the cell's squared error; of 0, 1e-4, 1e-3 and 1e-2 this
chose best on the tables of bench/LOG.md."""
FREE_DEVIATIONS = 2.0
"""Standard deviations of an appraised dependence by which a model's may exceed it at no charge."""


def halves(
    tables: Sequence[Pooled], rng: np.random.Generator, share: float = SHARE
) -> tuple[list[Pooled], list[Pooled]]:
    """Measurements to fit on and measurements to judge by, with independent noise.

    Inferred tables hold no noise and stay as they are in both. What is judged by has its weights
    (`weigh_tables`).

    Args:
        tables: One table a clique, as from `pool`.
        rng: Source of the fresh noise.
        share: g^2, above 0: variances grow by 1 + g^2 and by 1 + 1 / g^2.
    """
    fitted, judged = [], []
    for table in tables:
        if table.inferred:
            fitted.append(table)
            judged.append(table)
            continue
        noise = table.sigma * rng.standard_normal(table.values.shape)
        root = math.sqrt(share)
        spread = table.sigma * math.sqrt(1 + share)
        # A rank product is not split: it is fitted to, and never judged by.
        fitted.append(Pooled(table.clique, table.values + root * noise, spread, product=table.product))
        judged.append(
            Pooled(table.clique, table.values - noise / root, table.sigma * math.sqrt(1 + 1 / share))
        )
    return fitted, weigh_tables(judged)


def weigh_tables(judged: Sequence[Pooled]) -> list[Pooled]:
    """The same tables, with what the error in each counts in `compare`.

    1, but for measured tables of several attributes with more noise than their median: (median / noise)^2,
    the noise of a table being the root of its cells' mean variance. A pair that was bought for a sliver of
    rho may have forty times the noise of the others; its error is estimated without bias, and hides all the
    others' all the same. Pairs of the choosing half at 0.2 are up to 3 % nearer for it (bench/LOG.md).
    """
    noise = np.array(
        [
            0.0 if table.inferred or len(table.clique) == 1 else math.sqrt(np.square(table.sigma).mean())
            for table in judged
        ]
    )
    usual = float(np.median(noise[noise > 0.0])) if (noise > 0.0).any() else 0.0
    return [
        replace(table, weight=(usual / own) ** 2) if own > usual else table
        for table, own in zip(judged, noise.tolist(), strict=True)
    ]


SURE = 1.0
"""Standard errors by which a rival must be better than a default. With 0 or 2 what is chosen is a little
worse, and with 0 more is tried."""


def prefer(rival: Sequence[Floats], default: Sequence[Floats], judged: Sequence[Pooled], rows: float) -> bool:
    """Whether one model is better than another beyond doubt; arguments as for `compare`."""
    gain, spread = compare(rival, default, judged, rows)
    return gain + SURE * spread < 0.0


def compare(
    rival: Sequence[Floats], default: Sequence[Floats], judged: Sequence[Pooled], rows: float
) -> tuple[float, float]:
    """Estimated error of one model less that of another, and the estimate's standard error.

    The error of a model M, in proportions, is a sum over all measured tables, each times its weight,
    of

        sum over cells of v (M - truth)^2   and, in a pair,   sum over cells of v (L M - L truth)^2

    with v = 1 / (mean of the two models + FLOOR), near to what total variation asks, since cells err about as
    the root of what they hold. L takes out of a pair what its one-ways say, (I - q 1') M (I - 1 p') for the
    mean one-ways q and p of the two models, so that dependence counts twice: once in the table, and once for
    itself. In the difference of two models the squares of B cancel: it is linear in B, hence unbiased, and
    its standard error is known.

    Of a pair that nobody measured only the appraised total variation R from independence is known. A model
    errs there at least by as much as its own dependence exceeds R, by the triangle inequality, so no less
    than 4 (excess)^2 in squares over shares; the excess counts beyond FREE_DEVIATIONS standard deviations of
    R.

    Args:
        rival: One model's tables in rows, one for each judged table.
        default: The other's.
        judged: The half of the measurements that was not fitted, and what was inferred.
        rows: What a proportion is of.

    Returns:
        The difference, below 0 where the rival is better, and its standard error.
    """
    gain, variance = 0.0, 0.0
    for table, one, other in zip(judged, rival, default, strict=True):
        if one.ndim == 2 and not table.inferred:
            mine, its = np.ascontiguousarray(one, float), np.ascontiguousarray(other, float)
            noisy, sigma = np.ascontiguousarray(table.values), np.ascontiguousarray(table.sigma)
            more, spread = _compare_pair(mine, its, noisy, sigma, float(rows))
            gain, variance = gain + table.weight * more, variance + table.weight**2 * spread
            continue
        one, other = one / rows, other / rows
        if table.inferred:
            allowed = table.distance + FREE_DEVIATIONS * table.uncertainty
            gain += 4.0 * (_excess(one, allowed) ** 2 - _excess(other, allowed) ** 2)
            continue
        mean = np.maximum(0.5 * (one + other), 0.0)
        weight = 1.0 / (mean + FLOOR)
        # v (M^2 - M'^2 - 2 (M - M') B) is v (M - M') (M + M' - 2 B).
        step, off = one - other, one + other - 2.0 * table.values / rows
        pull = table.weight * weight * step
        gain += float((pull * off).sum())
        variance += float(((2.0 * pull * table.sigma / rows) ** 2).sum())
    return gain, math.sqrt(variance)


@compile_kernel
def _compare_pair(
    one: Floats, other: Floats, values: Floats, sigma: Floats, rows: float
) -> tuple[float, float]:
    """A pair's part of `compare`, and of its variance; all tables in rows, shape [codes, codes].

    One pass over the cells a line of the formulas: of hundreds of small pairs NumPy takes most of the time
    for its calls.
    """
    lines, columns = one.shape
    weight, step, off = np.empty(one.shape), np.empty(one.shape), np.empty(one.shape)
    q, p, gain = np.zeros(lines), np.zeros(columns), 0.0
    for a in range(lines):
        for b in range(columns):
            mine, its = one[a, b] / rows, other[a, b] / rows
            mean = max(0.5 * (mine + its), 0.0)
            q[a] += mean
            p[b] += mean
            weight[a, b] = 1.0 / (mean + FLOOR)
            step[a, b], off[a, b] = mine - its, mine + its - 2.0 * values[a, b] / rows
            gain += weight[a, b] * step[a, b] * off[a, b]
    total = q.sum()
    q, p = q / total, p / total
    inner = step.copy()
    _take_out(inner, q, p)
    _take_out(off, q, p)
    # The adjoint (I - 1 q') T (I - p 1') of v L (M - M') brings the second sum back to cells.
    by_column, by_line = np.zeros(columns), np.zeros(lines)
    for a in range(lines):
        for b in range(columns):
            inner[a, b] *= weight[a, b]
            gain += inner[a, b] * off[a, b]
            by_column[b] += q[a] * inner[a, b]
    for a in range(lines):
        for b in range(columns):
            by_line[a] += (inner[a, b] - by_column[b]) * p[b]
    variance = 0.0
    for a in range(lines):
        for b in range(columns):
            pull = weight[a, b] * step[a, b] + inner[a, b] - by_column[b] - by_line[a]
            variance += (2.0 * pull * sigma[a, b] / rows) ** 2
    return gain, variance


@compile_kernel
def _take_out(table: Floats, q: Floats, p: Floats) -> None:
    """Leave (I - q 1') T (I - 1 p') of a pair's table, what it has beyond its one-ways."""
    lines, columns = table.shape
    by_column, by_line = np.zeros(columns), np.zeros(lines)
    for a in range(lines):
        for b in range(columns):
            by_column[b] += table[a, b]
    for a in range(lines):
        for b in range(columns):
            table[a, b] -= q[a] * by_column[b]
            by_line[a] += table[a, b]
    for a in range(lines):
        for b in range(columns):
            table[a, b] -= by_line[a] * p[b]


def _excess(table: Floats, allowed: float) -> float:
    """By how much a pair's total variation from the product of its one-ways exceeds what is allowed."""
    if not math.isfinite(allowed):
        return 0.0
    product = np.multiply.outer(table.sum(axis=1), table.sum(axis=0))
    return max(0.5 * float(np.abs(table - product).sum()) - allowed, 0.0)
