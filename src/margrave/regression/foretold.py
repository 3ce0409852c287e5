"""What a linear regression of a target is foretold to err by, if Z'Z is bought, and if tables are.

Both are made of a rough model and of public things: the noise that rho buys. Errors are squared distances
between predictions and those of least squares of the rows, means over the rows, in variances of the target;
the constant is left out, which is known from either.

*Sums of products.* At coefficients gamma the noise of X'(y - X gamma) in Z'Z has the covariance C that
`margrave.regression.moments` states. With H = X'X of the model and a normal prior of covariance P for what
the model's coefficients are wrong by, what is left of it is

    E(C)  =  trace(H (H C^-1 H + P^-1)^-1) / n.

P is diagonal, alike for all columns over their ranges, and so large that E is the variance of the target if
nothing is bought, or that a change over a column's range is a standard deviation of it, whichever is less.

*Tables.* All pairs measured alike give X'y with a noise of covariance D, and E(D) likewise. A model's
estimates err by less, since it smooths the tables, or by more, where it misses what they say: E(D) is no
bound. So the share of Z'Z (`share_sums`) is all or nothing only where E(C) / E(D) leaves no doubt; between, a
half of rho each keeps the squared error within about twice that of the better one, whichever it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.regression.design import Design, KeptTables, centre
from margrave.regression.encoding import encode_feature, encode_target
from margrave.regression.moments import MomentSums, number_columns, sum_products
from margrave.regression.sums import model_sums
from margrave.release import NoisySums
from margrave.schema.columns import Binned
from margrave.schema.schema import Schema
from margrave.tables.numbers import scores_of

if TYPE_CHECKING:
    from margrave.protocols import Model
    from margrave.schema.features import RowNumbers

Floats = NDArray[np.float64]

OFF, DIAGONAL = 2.0**-0.5, 1.5
"""Noise of an entry of Z'Z off the diagonal, over that of a marginal at the same price times the largest
squared norm of a row's numbers; and of one on the diagonal over it
(`margrave.measure.mechanisms.regression.sums`)."""
SURE_OF_SUMS, SURE_OF_TABLES = 0.3, 0.9
"""E(C) / E(D) below which Z'Z gets all that is left of rho, and above which tables do. Seven tables of the
choosing half at epsilon .1 and 1 (bench/LOG.md, 2026-11-25): below .3 releases of tables had .8 to 14 times
the error of Z'Z, above .9 at most half of it, and between anything from .03 to 4.8 times."""


@dataclass(frozen=True, slots=True)
class Foretold:
    """Errors of one regression, in variances of the target.

    Args:
        sums: E(C), if Z'Z is bought.
        tables: E(D), if tables are.
    """

    sums: float
    tables: float


def foretell_errors(
    schema: Schema, model: Model, target: str, noise: tuple[float, float]
) -> tuple[Foretold, ...]:
    """The errors of regressions of a target on all other columns in their default encodings.

    Args:
        schema: Known.
        model: Fitted to what was released so far.
        target: A column of numbers or of dates has one regression, another one for each of its levels.
        noise: Standard deviation of the noise of a marginal, in rows, that is bought for all of rho; and of
            one of all pairs bought alike.

    Returns:
        No error where rows without a target would be left out, as Z'Z does not know which these are.
    """
    tables = KeptTables(model)
    names = [column.name for column in schema.attributes if column.name != target]
    if not names or schema[target].missing_code is not None:
        return ()
    encodings = [encode_feature(schema, name, None, tables.project((name,)), None) for name in names]
    numbers = number_columns(schema, target)
    products = sum_products(tables, numbers.names, numbers.numbers)
    sums = NoisySums(numbers, products, *foretell_noise(numbers, noise[0]))
    errors = []
    for labels in _label_numbers(schema, target):
        design = centre(tables, target, labels, encodings, True)
        own = model_sums(design, tables)
        measured = MomentSums.find(design, sums, tables, *own)
        if measured is not None:
            errors.append(_foretell(design, own, measured, noise[1], tables))
    return tuple(errors)


def foretell_noise(numbers: RowNumbers, sigma: float) -> tuple[float, float]:
    """Standard deviations of the noise of Z'Z, of entries off the diagonal and on it, in rows.

    Args:
        numbers: Of a row, whose products are summed.
        sigma: Of a marginal's cell at the same price.
    """
    off = OFF * sigma * _largest_norm(numbers)
    return off, DIAGONAL * off


def share_sums(errors: Sequence[Foretold]) -> Fraction:
    """The share that Z'Z is to get of what is left of rho; tables get the rest."""
    sums, tables = sum(one.sums for one in errors), sum(one.tables for one in errors)
    if not errors or sums > SURE_OF_TABLES * tables:
        return Fraction(0)
    return Fraction(1) if sums < SURE_OF_SUMS * tables else Fraction(1, 2)


def _foretell(
    design: Design, own: tuple[Floats, Floats], sums: MomentSums, sigma: float, model: KeptTables
) -> Foretold:
    """The errors of one regression.

    Args:
        design: Target and features.
        own: X'y and X'X of the model.
        sums: Z'Z with the noise that it would have.
        sigma: Of a table of two columns.
        model: The rough model.
    """
    labelled, crossed = own
    total, varying = model.total, np.arange(1, design.size)
    variance = float(model.project((design.target,)) @ design.labels**2)  # of all rows together
    if variance <= 0.0:
        return Foretold(0.0, 0.0)
    # The ridge of least squares that goes with changes of a standard deviation over a column's range.
    ridge = design.ranges**2
    gamma = np.asarray(np.linalg.solve(crossed + np.diag(ridge), labelled), dtype=np.float64)
    spread = sums.residual(gamma)[1]
    alike = np.zeros_like(crossed)
    for feature, matrix in enumerate(design.matrices):
        places = design.places(feature)
        alike[places, places] = sigma**2 * float(design.labels @ design.labels) * (matrix @ matrix.T)
    within = np.ix_(varying, varying)
    inner, prior = crossed[within], variance / total / ridge[varying]
    prior *= min(variance / float(np.diag(inner) @ prior), 1.0)
    exact, noisy = (_expect_error(inner, noise[within], prior) / variance for noise in (spread, alike))
    return Foretold(exact, noisy)


def _expect_error(crossed: Floats, noise: Floats, prior: Floats) -> float:
    """trace(H (H C^-1 H + P^-1)^-1) with the diagonal of P: the squared distance of all rows' predictions."""
    inner = crossed @ np.linalg.pinv(noise, rcond=1e-12, hermitian=True) @ crossed
    return float(np.trace(crossed @ np.linalg.inv(inner + np.diag(1.0 / prior))))


def _label_numbers(schema: Schema, target: str) -> list[Floats]:
    """The numbers of the target's codes, or indicators of each level but the first where it has none."""
    column = schema[target]
    if scores_of(column) is not None:
        return [encode_target(schema, target, "linear", None, None)[0]]
    if isinstance(column, Binned):
        return [encode_target(schema, target, "linear", "ranks", None)[0]]
    return list(np.eye(column.size)[1:])


def _largest_norm(numbers: RowNumbers) -> float:
    """The largest squared norm of a row's numbers, the constant's included."""
    return 1.0 + float(sum((matrix**2).sum(axis=0).max() for matrix in numbers.numbers))
