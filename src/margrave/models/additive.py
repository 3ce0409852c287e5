"""Additive: a target given all other attributes, log-linear with one table of potentials a measured pair."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, ReleaseError, invalid
from margrave.models.compiled import compiled, summing
from margrave.models.descent import lowest
from margrave.models.pivotal import pivotal
from margrave.models.pooled import Pooled
from margrave.models.slack import chained, slack, summed
from margrave.schema.domain import Domain

__all__ = ["Additive", "fit_additive"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Columns = Mapping[str, NDArray[np.integer[Any]]]

MOST_ROWS = 1 << 17
"""Rows that a fit looks at, evenly spread over those it is given."""


@dataclass(frozen=True, slots=True)
class Additive:
    """p(target = y | rest = x), proportional to exp(bias[y] + sum_i potentials_i[x_i, y]).

    Args:
        domain: Names and sizes of all attributes.
        target: The attribute that is explained.
        potentials: A line for each code of every other attribute, in the domain's order, and the biases
            last, shape [sum of the other sizes + 1, target's codes].
        gap: The largest L1 norm of the fit's gradient over one table, in probability.
        iterations: Steps of the fit.
        converged: Whether the gap is within the tolerance.

    Example:
        >>> import numpy as np
        >>> from margrave.models.pooled import Pooled
        >>> domain = Domain(("x", "y"), (2, 2))
        >>> pair = Pooled(("x", "y"), np.array([[400.0, 100.0], [100.0, 400.0]]), np.full((2, 2), 0.01))
        >>> rows = {"x": np.array([0, 1, 0, 1])}
        >>> fit_additive(domain, "y", [pair], 1000.0, rows).probabilities(rows).round(2)[:2].tolist()
        [[0.8, 0.2], [0.2, 0.8]]
    """

    domain: Domain
    target: str
    potentials: Floats
    gap: float
    iterations: int
    converged: bool

    def probabilities(self, columns: Columns) -> Floats:
        """The target's distribution in every row, shape [rows, target's codes].

        Args:
            columns: Codes of the other attributes, shape [rows]. The target's own, if there, are not looked
                at, nor are those of an attribute without potentials.

        Raises:
            InputError: A column is missing, of another length, or has codes that its attribute has not.
        """
        rest = self.domain.marginalize((self.target,))
        blocks = itertools.pairwise(_starts(rest))
        used = [i for i, (first, end) in enumerate(blocks) if self.potentials[first:end].any()]
        codes = _codes(rest, columns, [*used, len(rest)], None)
        found = np.empty((len(codes), self.potentials.shape[1]))
        _softmax(codes, self.potentials, found)
        return found

    def draw(self, columns: Columns, rng: np.random.Generator) -> NDArray[np.int64]:
        """A code of the target for every row, shape [rows].

        Each row's code has exactly the row's own probabilities. Every code's count is its expectation
        rounded up or down, and hardly more than one off among rows of like probabilities, too.

        Args:
            columns: As in `probabilities`.
            rng: Source of randomness.

        Raises:
            InputError: As `probabilities`.
        """
        shares = self.probabilities(columns)
        if shares.shape[1] == 2:
            order = np.argsort(shares[:, 1], kind="stable")
        else:
            order = np.lexsort((shares.max(axis=1), shares.argmax(axis=1)))
        return pivotal(shares, order, rng)

    def state(self) -> dict[str, Floats]:
        """Arrays from which `restore` builds the same conditional again."""
        fit = np.array([self.gap, self.iterations, self.converged], dtype=np.float64)
        return {"potentials": self.potentials, "fit": fit}

    @staticmethod
    def restore(domain: Domain, target: str, state: Mapping[str, Floats]) -> Additive:
        """The conditional whose `state` was saved.

        Raises:
            ReleaseError: The state is not that of a conditional of this target over this domain.
            SchemaError: The domain has no such attribute.
        """
        width = domain[target]
        shapes = {"potentials": (sum(domain.sizes) - width + 1, width), "fit": (3,)}
        found = {key: np.asarray(state.get(key, np.nan), dtype=np.float64) for key in shapes}
        for key, shape in shapes.items():
            if found[key].shape != shape or not np.isfinite(found[key]).all():
                asked = f"of finite numbers of shape {shape} in {key!r}"
                raise ReleaseError(invalid("state", asked, "The release is damaged."))
        gap, iterations, converged = found["fit"].tolist()
        return Additive(domain, target, found["potentials"], gap, int(iterations), bool(converged))


def fit_additive(
    domain: Domain,
    target: str,
    tables: Sequence[Pooled],
    total: float,
    columns: Columns,
    strength: float = 1.2,
    tolerance: float = 1e-3,
    max_iterations: int = 200,
) -> Additive:
    """The conditional of most entropy, over given rows, that explains the target's measured pairs.

    How far it may stay from a pair depends on the pair's noise and on what it shows beyond noise. Where an
    attribute's codes stand in order, neighbours have like potentials as far as noise leaves it open.

    Args:
        domain: Names and sizes of all attributes.
        target: The attribute to explain.
        tables: Noisy counts, of which the target's own and its pairs count. What was not measured gets no
            potentials; where nothing was, the distribution is uniform.
        total: Rows the tables stand for.
        columns: Codes of the other attributes in rows that stand for their distribution, shape [rows]; at
            most MOST_ROWS of them are used. Without rows only the target's own table counts.
        strength: Weight of the entropy over the tables', see `margrave.models.slack`.
        tolerance: The gap at which to stop: the largest L1 norm of the gradient over one table.
        max_iterations: Steps after which to stop.

    Raises:
        InputError: total or strength is not positive, or the columns do not fit the domain.
        SchemaError: The domain has no attribute `target`.
    """
    for param, given in (("total", total), ("strength", strength)):
        if not (np.isfinite(given) and given > 0):
            raise InputError(invalid(param, "a finite number above 0", "Try the default.", got=given))
    dual = _dual(domain, target, tables, total, columns, strength)
    theta, gap, steps = lowest(dual, np.zeros(dual.ridge.size), tolerance, max_iterations)
    return Additive(domain, target, theta.reshape(dual.ridge.shape), gap, steps, gap <= tolerance)


def _dual(
    domain: Domain, target: str, tables: Sequence[Pooled], total: float, columns: Columns, strength: float
) -> _Dual:
    """What `fit_additive` minimises; without rows, as if there were one of which nothing is known."""
    rest = domain.marginalize((target,))
    starts = _starts(rest)
    table, ridge = (np.full((starts[-1] + 1, domain[target]), fill) for fill in (0.0, 1.0))
    bonds = np.zeros((starts[-1], domain[target]))
    alone = not any(len(column) for column in columns.values())
    measured = _measured(rest, target, tables, 1 if alone else 2)
    codes = _codes(rest, columns, [i for i, _, _ in measured], MOST_ROWS)
    if alone:
        codes = np.full((1, len(measured)), starts[-1], dtype=np.int32)
    shares = np.bincount(codes.ravel(), minlength=len(table)) / len(codes)
    for i, values, sigma in measured:
        block, noise = slice(starts[i], starts[i] + len(values)), sigma / total
        table[block], ridge[block] = summed(values / total, noise, shares[block]), strength * noise
        if i == len(rest):
            continue
        ridge[block] = slack(table[block], noise, shares[block], strength)
        if rest.ordered[i] > 2:
            inside = slice(block.start, block.stop - 1)
            ridge[block], bonds[inside] = chained(ridge[block], rest.ordered[i])
    return _Dual(codes, shares, starts, table, ridge, bonds)


class _Dual:
    """f(theta) = mean over rows of log sum_y exp(sum_i theta_i[x_i, y]) - <theta, T> + sum ridge theta^2 / 2
    + sum bonds step^2 / 2.

    T_i is a noisy pair with the target in proportions, or the target's own table, which is that of an
    attribute with one code; ridge grows with its noise. At the minimum ridge * theta is what the tables keep
    unexplained, so this is the dual of most entropy with slack. A step is the difference of two neighbouring
    lines less its mean over y: a number added to a whole line changes no conditional and costs nothing here.

    No conditional changes how often a code occurs in the rows, so lines of T have to sum to the rows' share
    of their code (`slack.summed`). That of a code that no row has is empty: only neighbours tell about it.

    Args:
        codes: Lines of the potentials that add up in each row, shape [rows, measured tables].
        shares: Part of the rows in which each line is among them, shape [lines].
        starts: First line of each attribute's table, the biases' last.
        table: T, shape [lines, target's codes].
        ridge: Shape of table, above 0.
        bonds: Shape [lines - 1, target's codes], at least 0.
    """

    def __init__(
        self, codes: Ints, shares: Floats, starts: Sequence[int], table: Floats, ridge: Floats, bonds: Floats
    ) -> None:
        self.codes, self.shares, self.starts = codes, shares, np.array(starts)
        self.table, self.ridge, self.bonds = table, ridge, bonds
        self.rows, self.width = len(codes), ridge.shape[1]
        self.means = np.zeros_like(table)

    def __call__(self, at: Floats) -> tuple[float, Floats]:
        """The value and the gradient."""
        theta = at.reshape(len(self.ridge), -1)
        pull = self.ridge * theta
        steps = _even(np.diff(theta, axis=0))
        held = _even(self.bonds * steps)
        pull[1:] += held
        pull[:-1] -= held
        self.means[:] = 0.0
        if self.width == 2:
            logs = _binary(self.codes, np.ascontiguousarray(theta[:, 1] - theta[:, 0]), self.means)
            self.means[:, 1] /= self.rows
            self.means[:, 0] = self.shares - self.means[:, 1]
            value = logs / self.rows + float(self.shares @ theta[:, 0])
        else:
            value = _general(self.codes, theta, self.means) / self.rows
            self.means /= self.rows
        value += 0.5 * float((theta * pull).sum()) - float((theta * self.table).sum())
        return value, (self.means - self.table + pull).ravel()

    def curvature(self) -> Floats:
        """About the Hessian's diagonal: as if all rows that share a code had one conditional."""
        shares = np.maximum(self.shares, 1e-300)[:, None]
        diagonal: Floats = self.means * (1.0 - self.means / shares) + self.ridge
        held = (1.0 - 1.0 / self.width) * self.bonds
        diagonal[1:] += held
        diagonal[:-1] += held
        return diagonal.ravel()

    def gap(self, gradient: Floats) -> float:
        """The largest L1 norm of the gradient over one table."""
        return float(np.add.reduceat(np.abs(gradient), self.starts * self.width).max())


def _even(lines: Floats) -> Floats:
    """Each line less its mean."""
    return np.asarray(lines - lines.mean(axis=1, keepdims=True))


def _starts(rest: Domain) -> list[int]:
    """The first line of each attribute's potentials, and that of the biases."""
    return [0, *itertools.accumulate(rest.sizes)]


def _measured(
    rest: Domain, target: str, tables: Sequence[Pooled], most: int
) -> list[tuple[int, Floats, Floats]]:
    """Attribute, noisy counts and sigma of the target's tables, both of shape [codes, target's codes].

    The target's own comes as that of an attribute of one code, after the others; most: attributes in one.
    """
    found = []
    for table in tables:
        if target in table.clique and len(table.clique) <= most:
            others = [rest.index(name) for name in table.clique if name != target]
            values, sigma = (
                np.atleast_2d(np.moveaxis(a, table.clique.index(target), -1))
                for a in (table.values, table.sigma)
            )
            found.append((others[0] if others else len(rest), values, sigma))
    return found


def _codes(rest: Domain, columns: Columns, which: Sequence[int], most: int | None) -> Ints:
    """Lines of the potentials of some attributes in each row, shape [rows, attributes].

    Args:
        rest: All attributes but the target.
        columns: Their codes.
        which: Positions in rest, its length for the biases.
        most: Rows to keep, evenly spread; None for all.
    """
    starts = _starts(rest)
    rows = len(next(iter(columns.values()), ()))
    picked = slice(None) if most is None or rows <= most else np.arange(most) * rows // most
    kept = rows if most is None else min(rows, most)
    codes = np.empty((kept, len(which)), dtype=np.int32)
    for j, i in enumerate(which):
        if i == len(rest):
            codes[:, j] = starts[i]
            continue
        column = np.asarray(columns.get(rest.names[i], ()))
        if column.shape != (rows,):
            asked = f"of one code a row for {rest.names[i]!r}"
            raise InputError(invalid("columns", asked, "Give all other columns."))
        if rows and (column.min() < 0 or column.max() >= rest.sizes[i]):
            asked = f"of codes from 0 to {rest.sizes[i] - 1} for {rest.names[i]!r}"
            raise InputError(invalid("columns", asked, "Encode over this domain."))
        codes[:, j] = column[picked]
        codes[:, j] += starts[i]
    return codes


@compiled
def _binary(codes: Ints, lift: Floats, means: Floats) -> float:
    """Sum over rows of log(1 + exp(z)), z the sum of lift; adds p = 1 / (1 + exp(-z)) to means[:, 1]."""
    rows, tables = codes.shape
    total, product = 0.0, 1.0
    for row in range(rows):
        z = 0.0
        for j in range(tables):
            z += lift[codes[row, j]]
        small = math.exp(-abs(z))
        share = (1.0 if z > 0.0 else small) / (1.0 + small)
        total += max(z, 0.0)
        # One logarithm for many rows: each factor is between 1 and 2.
        product *= 1.0 + small
        if product > 1e200:
            total += math.log(product)
            product = 1.0
        for j in range(tables):
            means[codes[row, j], 1] += share
    return total + math.log(product)


@summing
def _general(codes: Ints, theta: Floats, means: Floats) -> float:
    """Sum over rows of the logarithm of the softmax's denominator; adds the softmax to means."""
    rows, tables = codes.shape
    width = theta.shape[1]
    shares = np.empty(width)
    total = 0.0
    for row in range(rows):
        total += _soften(codes[row], theta, shares)
        for j in range(tables):
            line = means[codes[row, j]]
            for y in range(width):
                line[y] += shares[y]
    return total


@compiled
def _softmax(codes: Ints, theta: Floats, shares: Floats) -> None:
    """Fill shares, shape [rows, target's codes], with each row's softmax."""
    for row in range(len(codes)):
        _soften(codes[row], theta, shares[row])


@summing
def _soften(lines: Ints, theta: Floats, shares: Floats) -> float:
    """Fill shares with the softmax of the sum of some lines; return the denominator's logarithm."""
    shares[:] = 0.0
    for line in lines:
        for y in range(len(shares)):
            shares[y] += theta[line, y]
    top, total = shares[0], 0.0
    for y in range(len(shares)):
        top = max(top, shares[y])
    for y in range(len(shares)):
        shares[y] = math.exp(shares[y] - top)
        total += shares[y]
    for y in range(len(shares)):
        shares[y] /= total
    return float(top + math.log(total))
