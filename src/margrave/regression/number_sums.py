"""Number sums: products of two columns' numbers, summed over all rows, that were measured beside tables.

A table of a feature and the target of m codes together gives X'y with the noise of m cells, weighed by the
products of their numbers: with numbers spread over -1 to 1 about sqrt(m) / 3 times that of a cell. One sum of
products has the noise of R^2 / sqrt(2) cells at the same price, with R^2 as many as there are columns at
most, and answers for all pairs of these columns at once. So where columns have many codes a small share of
rho tells their X'y and X'X far better than tables do, at any epsilon.

A column takes part if it has one number of its own: a number, a date, or two levels as 0 and 1. Its numbers
are centred at the model's mean, cut at CUT of the model's standard deviations, since noise is in proportion
to the largest, and divided by the largest that is left. Centred, a sum hardly depends on how far the model's
mean is off, since the error of a product is that of both means multiplied.

Those of p features are multiplied by h = p^(-1/4). A row's squared norm R^2 is p h^2 + 1 then. A sum with the
target has noise in proportion to R^2 / h, which is least at p^(-1/2), and one of two features in proportion
to R^2 / h^2, which falls with h. At p^(-1/4) the former has half of the noise that h = 1 gives it among 30
features, and the latter a seventh more.

With z and w the summed numbers of two columns, and a z and b w the straight lines nearest to those of a
regression, up to constants and under the model, the sum over rows of the latter's product is the model's plus

    a b (measured sum of z w - the model's),

with a b times the noise: exactly so where nothing was cut, and else for a model that misses as much of what
was cut off, in proportion, as of the rest. It is pooled with what the noisy table of both columns says, by
1 / variance, as their noise is independent. Post-processing of releases.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from margrave.regression.design import Design, ModelTables, find_shares
from margrave.regression.encoding import encode_feature
from margrave.regression.sums import MeasuredSums, TableSum
from margrave.release import NoisySums
from margrave.schema.domain import Clique
from margrave.schema.features import RowNumbers
from margrave.schema.schema import Schema

Floats = NDArray[np.float64]

CUT = 2.0
"""Standard deviations from its mean within which a number is summed: even numbers are not cut. 3 and 1.5 have
1.09 and .90 times its errors on three tables of the choosing half (bench/LOG.md, 2026-11-30, evening)."""
SHRINK = 0.25
"""Power of the features' largest squared norm by which they are divided, here and by "ssp", for which it was
measured: of 0, 3/16, 1/4, 5/16 and 3/8 on six tables of the choosing half at five epsilons errors are 1, .66,
.62, .60 and .61 times those of 0 in the geometric mean, and 1, 1.02, 1.08, 1.26 and 1.53 times at worst
(bench/LOG.md, 2026-11-30, evening)."""
LEAST_CORRELATION = 0.8
"""Between a number of a regression and the one that was summed, under the model, for this to speak for it.
Not varied."""


def find_numbers(schema: Schema, target: str) -> dict[str, Floats]:
    """The one number of each code of every column that has one number, the target's last: shape [codes] each.

    Empty where no sum could serve a regression of the target: it has several numbers or misses some, or no
    other column has one. Made of the schema alone.

    Args:
        schema: Known.
        target: A column of it.
    """
    names = [column.name for column in schema.attributes]
    if target not in names or schema[target].missing_code is not None:
        return {}
    found = {}
    for name in (*(name for name in names if name != target), target):
        encoding = encode_feature(schema, name, None, np.eye(schema[name].size)[0], None)
        one = len(encoding.matrix) == 1 or (len(encoding.matrix) > 1 and not encoding.levels[0])
        if one and np.ptp(encoding.matrix[0]) > 0.0:
            found[name] = encoding.matrix[0]
    return found if target in found and len(found) > 1 else {}


def centre_numbers(numbers: dict[str, Floats], model: ModelTables) -> RowNumbers:
    """The numbers centred at the model's means and scaled, see the head of this file, without a constant.

    Args:
        numbers: Of `find_numbers`, of at least one column.
        model: Fitted to what was released.
    """
    matrices, features = [], len(numbers) - 1
    for place, (name, own) in enumerate(numbers.items()):
        ways = find_shares(model, name)
        off = own - float(own @ ways)
        most = CUT * float(np.sqrt(off**2 @ ways))
        off = np.clip(off, -most, most) if most > 0.0 else off
        scale = features**-SHRINK if place < features else 1.0
        matrices.append((scale * off / np.abs(off).max())[None, :])
    return RowNumbers(tuple(numbers), tuple(matrices), constant=False)


@dataclass(frozen=True, slots=True)
class Product:
    """A measured sum over rows of products of two columns' numbers.

    Args:
        pair: The columns, the target's second.
        places: Of their numbers among a regression's; the target has none, -1.
        table: What a table of both would tell of the sum.
        value: What was measured of it.
        off: Measured less the model's, in the regression's numbers.
        noise: Variance of the noise of `off`.
    """

    pair: Clique
    places: tuple[int, int]
    table: TableSum
    value: float
    off: float
    noise: float


class NumberSums:
    """The measured sums, in the numbers of a regression.

    Args:
        design: Target and features.
        sums: What was measured.
        model: Fitted to the release.
    """

    def __init__(self, design: Design, sums: NoisySums, model: ModelTables) -> None:
        self.variance = sums.sigma**2
        """Of the noise of each measured sum."""
        columns = [
            _Column(u, name, start, matrix[0])
            for u, (name, start, matrix) in enumerate(
                zip(design.names, design.starts, design.matrices, strict=False), start=1
            )
            if len(matrix) and name in sums.numbers.names
        ]
        columns.append(_Column(len(design.names) + 1, design.target, -1, design.labels))
        lines = [(column, _find_slope(column, sums, model)) for column in columns]
        self.products: dict[Clique, Product] = {
            (one.name, other.name): _compare((one, other), slope * turn, sums, model)
            for (one, slope), (other, turn) in combinations(lines, 2)
            if slope != 0.0 and turn != 0.0
        }
        """By the columns, in the order of the features, and the target last."""

    @classmethod
    def find(cls, design: Design, sums: NoisySums | None, model: ModelTables) -> NumberSums | None:
        """The sums, where they were measured of the target's numbers and no row lacks one of these."""
        if sums is None or sums.numbers.constant or not design.whole or design.others:
            return None
        if design.target not in sums.numbers.names or design.target in design.names:
            return None
        found = cls(design, sums, model)
        return found if found.of_target() else None

    def of_target(self) -> list[Product]:
        """What sums say of X'y, by feature."""
        return [product for product in self.products.values() if product.places[1] < 0]


class SummedTables:
    """Residuals of noisy tables, sharpened by sums of products that were measured beside them.

    The tables tell the same sums, with a noise that goes with that of the residual. So the residual moves by
    its covariance with the tables' sums over the variance of how far both are apart: the best linear unbiased
    estimate, whose noise is known as exactly as theirs, whatever was cut off the numbers.

    Args:
        tables: The noisy tables.
        beside: The sums.
    """

    def __init__(self, tables: MeasuredSums, beside: NumberSums) -> None:
        self._tables = tables
        self._sums = [one.table for one in beside.products.values()]
        self._measured = np.array([one.value for one in beside.products.values()])
        self._variance = beside.variance

    @cached_property
    def _apart(self) -> tuple[Floats, Floats]:
        """How far measured sums are from the tables', shape [sums], and its covariance, [sums, sums]."""
        own, spread = self._tables.tell(self._sums)
        return self._measured - own, spread + self._variance * np.eye(len(own))

    @property
    def missing_pairs(self) -> tuple[Clique, ...]:
        """Those of the tables: no sum tells all that a table does."""
        return self._tables.missing_pairs

    @property
    def complete(self) -> bool:
        """As of the tables."""
        return self._tables.complete

    def residual(self, gamma: Floats, labelled: bool = True) -> tuple[Floats, Floats]:
        """As `MeasuredSums.residual`."""
        value, noise = self._tables.residual(gamma, labelled)
        apart, spread = self._apart
        cross = self._tables.relate(self._sums, gamma, labelled)
        gain = _solve(spread, cross.T).T
        sharper = noise - gain @ cross.T
        return value + gain @ apart, (sharper + sharper.T) / 2.0

    def residual_variances(self, gamma: Floats) -> Floats:
        """As `MeasuredSums.residual_variances`."""
        return np.diag(self.residual(gamma)[1])


def _solve(spread: Floats, cross: Floats) -> Floats:
    """spread^-1 cross; of very many sums, which only tables of three columns tie together, far sooner."""
    own = np.diag(spread)
    if np.count_nonzero(spread) == len(own):
        return np.asarray(cross / own[:, None])
    return np.asarray(np.linalg.solve(spread, cross))


def pool_nearer(
    weighted: tuple[float, float], plain: tuple[float, float], product: Product
) -> tuple[float, float]:
    """What a sum of products and a table say together of a difference, and the variance of its noise.

    Args:
        weighted: What the table says by cells that hold rows of the model: a bias, and a variance that is
            mostly less.
        plain: What it says by all cells. A variance of 0 says nothing in both.
        product: What the sum says. Pooled with `plain` there is no bias, which is taken unless `weighted`
            alone has less noise; then it is pooled with that.
    """
    pooled = _pool(*plain, product)
    return pooled if weighted[1] <= 0.0 or pooled[1] <= weighted[1] else _pool(*weighted, product)


def _pool(off: float, noise: float, product: Product) -> tuple[float, float]:
    """A difference and the variance of its noise, pooled with what a sum says."""
    if noise <= 0.0:
        return product.off, product.noise
    share = noise / (noise + product.noise)
    return off + share * (product.off - off), share * product.noise


class _Column(NamedTuple):
    """A column of a regression: as `MeasuredSums` counts it, its name, the place of its number, and the
    number of each code."""

    counted: int
    name: str
    place: int
    numbers: Floats


def _find_slope(column: _Column, sums: NoisySums, model: ModelTables) -> float:
    """Of the line of a column's summed numbers that is nearest to a regression's, 0 where none is near."""
    ways, own, numbers = find_shares(model, column.name), _own(sums, column.name), column.numbers
    one, other = own - own @ ways, numbers - numbers @ ways
    both, square, whole = (float(ways @ part) for part in (one * other, one**2, other**2))
    near = both**2 >= LEAST_CORRELATION**2 * square * whole > 0.0
    return both / square if near else 0.0


def _compare(columns: tuple[_Column, _Column], slope: float, sums: NoisySums, model: ModelTables) -> Product:
    """What was measured of two columns against the model.

    Args:
        columns: Both.
        slope: Of the product of a regression's numbers over that of the summed ones.
        sums, model: As of `NumberSums`.
    """
    one, other = columns
    pair, names = (one.name, other.name), sums.numbers.names
    left, right = _own(sums, one.name), _own(sums, other.name)
    value = float(sums.values[names.index(one.name), names.index(other.name)])
    return Product(
        pair,
        (one.place, other.place),
        TableSum(one.counted, other.counted, left, right),
        value,
        off=slope * (value - float(left @ model.project(pair) @ right)),
        noise=(slope * sums.sigma) ** 2,
    )


def _own(sums: NoisySums, name: str) -> Floats:
    """The summed numbers of a column's codes, shape [codes]."""
    return np.asarray(sums.numbers.numbers[sums.numbers.names.index(name)][0])
