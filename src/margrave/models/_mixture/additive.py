"""Additive: a target given all other attributes, log-linear with one table of potentials a measured pair.

Slack: how far an additive model may stay from each measured pair, by its noise and by what it shows.

Noise alone does not say how much a potential is to be shrunk. Where the pair of a label and an attribute is
nothing but noise, what fits it harms every row; where it tells much, little shrinkage is best. So the size
of the potentials is estimated from the pair itself (empirical Bayes).

For a prior of variance V on a potential theta, Gaussian noise s on the table's cell T and m(theta) what the
model expects, the best theta has T - m = s^2 / (F V) theta, with F = dm / dtheta. An entropy with slack s
has T - m = s theta. The geometric mean of both does well from tables of pure noise to nearly exact ones,
where V, read off as if there were no other attributes, says too little about what one adds to the others.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, ReleaseError, invalid
from margrave.models._base.pooling import Pooled
from margrave.models._mixture.additive_dual import Dual, lowest, mean_tilted, softmax
from margrave.models._sampling.balance import lines_of
from margrave.models._sampling.pivotal import pivotal
from margrave.models._sampling.rounding import order_by_group
from margrave.schema.domain import Clique, Domain

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Columns = Mapping[str, NDArray[np.integer[Any]]]

LEVELS = 2.0 ** np.arange(-12, 7)
"""Variances of potentials that are weighed against each other."""
WEAKEST = 0.3
"""Least slack over the noise: the effect that V is read off may be larger than what is left to be added."""
RARE = 0.05
"""Part of the mean F below which a cell's own counts no more."""
LIKENESS = 0.5
"""Correlation of the potentials of neighbouring codes that stand in order."""
TURNS, CLOSE = 50, 1e-4
"""Steps of proportional fitting of a target's biases, at most, and the relative distance that will do."""
MOST_ROWS = 1 << 17
"""Rows that a fit looks at, evenly spread over those it is given."""


def sum_to_shares(values: Floats, sigma: Floats, shares: Floats) -> Floats:
    """A noisy pair whose lines sum to how often their codes occur, each cell moved in proportion to sigma^2.

    The lines of codes that do not occur are empty. Arguments as for `slack`.
    """
    missing = (shares - values.sum(axis=1)) / (sigma**2).sum(axis=1)
    moved: Floats = np.where(shares[:, None] > 0.0, values + missing[:, None] * sigma**2, 0.0)
    return moved


def slack(values: Floats, sigma: Floats, shares: Floats, strength: float) -> Floats:
    """What a unit of each potential leaves unexplained of its cell, in proportions, shape of values.

    Args:
        values: A noisy pair in proportions, shape [codes, label's codes], its lines as from `sum_to_shares`.
        sigma: The noise of its cells in proportions, shape of values.
        shares: How often each code occurs in the rows, shape [codes].
        strength: Slack over the geometric mean of noise and Bayes' shrinkage.
    """
    seen = shares > 0.0
    width = values.shape[1]
    if width < 2 or not seen.any():
        return strength * sigma
    table, noise = values[seen], sigma[seen]
    often = shares[seen][:, None]
    # Fractions of a hundredth stand for labels that nobody has, so that nothing is divided by 0.
    labels = np.maximum(table.sum(axis=0), 0.01)
    # What the pair would be if label and attribute were independent; each cell's effect is its relative
    # excess.
    alone = often * (labels / labels.sum())
    level = _level(table / alone - 1.0, (noise / alone) ** 2)
    # F, how fast a cell's expectation follows its own potential: share times p (1 - p).
    slope = alone * (1.0 - labels / labels.sum())
    mean = float(slope.mean())
    slope = np.maximum(slope, RARE * mean)
    # Noise and Bayes' shrinkage meet at one typical cell here; the last line gives each cell its own F.
    factor = max(strength * np.sqrt(float(np.median(noise)) / (mean * level)), WEAKEST)
    # Lines of codes that no row has count as the rarest, which are shrunk most.
    found: Floats = factor * np.sqrt(1.0 / RARE) * sigma
    found[seen] = factor * np.sqrt(mean / slope) * noise
    return found


def chain_neighbours(ridge: Floats, ordered: int) -> tuple[Floats, Floats]:
    """The slack of an attribute whose first codes stand in order, and what holds neighbours together.

    The inverse covariance of a stationary first-order autoregression whose values have variance 1 and whose
    neighbours have correlation r is tridiagonal: as a sum of squares it has (1 - r) / (1 + r) on each value,
    1 / (1 + r) at both ends, and r / (1 - r^2) on each difference of neighbours (Rue and Held 2005, 1.1.1).

    Args:
        ridge: As from `slack`, shape [codes, label's codes].
        ordered: How many leading codes stand in order; at least 2.

    Returns:
        The weights on squares of potentials, shape of ridge, and those on squares of differences between a
        code and the next, shape [codes - 1, label's codes], 0 where codes have no order.
    """
    single = ridge.copy()
    single[:ordered] *= (1.0 - LIKENESS) / (1.0 + LIKENESS)
    # The first and the last ordered code have one neighbour only, hence another weight than those between.
    single[[0, ordered - 1]] = ridge[[0, ordered - 1]] / (1.0 + LIKENESS)
    bonds = np.zeros((len(ridge) - 1, ridge.shape[1]))
    # A difference of two potentials is held back by both lines' slack, so by their geometric mean.
    between = np.sqrt(ridge[1:ordered] * ridge[: ordered - 1])
    bonds[: ordered - 1] = LIKENESS / (1.0 - LIKENESS**2) * between
    return single, bonds


def _level(effects: Floats, variances: Floats) -> float:
    """The variance of effects that were seen with noise of known variances: the posterior mean of its log.

    The prior is even over LEVELS. A label's effects at one code sum to about 0, hence the missing one.
    """
    spreads = (variances + level for level in LEVELS)
    logs = np.array([-0.5 * (np.log(spread) + effects**2 / spread).sum() for spread in spreads])
    # Logarithms are compared with the largest one, so that exp cannot underflow for all levels at once.
    weights = np.exp((logs - logs.max()) * (1.0 - 1.0 / effects.shape[1]))
    return float(np.exp(weights @ np.log(LEVELS) / weights.sum()))


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
        pairs: Joint pairs of other attributes: each is one more attribute of the model, whose codes are the
            pairs of codes. They stand last in the domain.

    Example:
        >>> import numpy as np
        >>> from margrave.models._base.pooling import Pooled
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
    pairs: tuple[Clique, ...] = ()

    def probabilities(self, columns: Columns) -> Floats:
        """The target's distribution in every row, shape [rows, target's codes].

        Args:
            columns: Codes of the other attributes, shape [rows]. The target's own, if there, are not looked
                at, nor are those of an attribute without potentials.

        Raises:
            InputError: A column is missing, of another length, or has codes that its attribute has not.
        """
        return _soften(self._lines(columns), self.potentials)

    def _lines(self, columns: Columns) -> Ints:
        """Lines of the potentials that add up in each row, shape [rows, attributes with potentials and 1]."""
        rest, columns = self.domain.marginalize((self.target,)), self.with_pairs(columns)
        blocks = itertools.pairwise(_starts(rest))
        # An attribute without potentials adds nothing to the sum, so its codes need be neither present nor
        # valid.
        used = [i for i, (first, end) in enumerate(blocks) if self.potentials[first:end].any()]
        used.append(len(rest))
        starts, rows = _starts(rest), len(next(iter(columns.values()), ()))
        return lines_of(_read_columns(rest, columns, used, rows), [starts[i] for i in used], rows)

    def with_pairs(self, columns: Columns) -> Columns:
        """The columns and those of the joint pairs, shape [rows] each."""
        return join_pairs(self.domain, self.pairs, columns) if self.pairs else columns

    def with_shares(self, columns: Columns, wanted: Floats) -> tuple[Additive, Floats]:
        """The same conditional with biases under which the target's own shares over given rows are as wanted,
        and its probabilities in these rows.

        The entropy that a fit weighs against noise draws the shares of a rare code towards even ones, by more
        than the noise of its own count where pairs are far noisier.

        Args:
            columns: As in `probabilities`; without rows nothing is changed.
            wanted: The target's distribution, all above 0, shape [target's codes].
        """
        lines = self._lines(columns)
        shares = _soften(lines, self.potentials)
        bias = np.zeros(len(wanted))
        for _ in range(TURNS if len(shares) else 0):
            # One step of proportional fitting: the bias moves by the log of wanted over present shares.
            have = mean_tilted(shares, np.exp(bias))
            if np.abs(have / wanted - 1.0).max() < CLOSE:
                break
            bias += np.log(wanted / np.maximum(have, 1e-300))
        potentials = self.potentials.copy()
        # A number added to all biases changes no conditional; the mean is taken out so that they stay small.
        potentials[-1] += bias - bias.mean()
        return replace(self, potentials=potentials), _soften(lines, potentials)

    def state(self) -> dict[str, Floats]:
        """Arrays from which `restore` builds the same conditional again."""
        fit = np.array([self.gap, self.iterations, self.converged], dtype=np.float64)
        found = {"potentials": self.potentials, "fit": fit}
        if self.pairs:
            places = [[self.domain.index(name) for name in pair] for pair in self.pairs]
            found["pairs"] = np.asarray(places, dtype=np.float64)
        return found

    @staticmethod
    def restore(domain: Domain, target: str, state: Mapping[str, Floats]) -> Additive:
        """The conditional whose `state` was saved.

        Args:
            domain: Names and sizes of all attributes, without joint pairs.
            target: The attribute that is explained.
            state: The arrays.

        Raises:
            ReleaseError: The state is not that of a conditional of this target over this domain.
            SchemaError: The domain has no such attribute.
        """
        places = np.asarray(state.get("pairs", np.zeros((0, 2))), dtype=np.float64)
        able = set(range(len(domain))) - {domain.index(target)}
        sound = places.ndim == 2 and places.shape[1] == 2 and set(places.ravel().tolist()) <= able
        if not sound or (places[:, 0] == places[:, 1]).any():
            asked = "with pairs of other attributes beside each label"
            raise ReleaseError(invalid("state", asked, "The release is damaged."))
        pairs = tuple((domain.names[int(a)], domain.names[int(b)]) for a, b in places)
        domain = extend_domain(domain, pairs)
        width = domain[target]
        shapes = {"potentials": (sum(domain.sizes) - width + 1, width), "fit": (3,)}
        found = {key: np.asarray(state.get(key, np.nan), dtype=np.float64) for key in shapes}
        for key, shape in shapes.items():
            if found[key].shape != shape or not np.isfinite(found[key]).all():
                asked = f"of finite numbers of shape {shape} in {key!r}"
                raise ReleaseError(invalid("state", asked, "The release is damaged."))
        gap, iterations, converged = found["fit"].tolist()
        return Additive(domain, target, found["potentials"], gap, int(iterations), bool(converged), pairs)


def extend_domain(domain: Domain, pairs: Sequence[Clique]) -> Domain:
    """The domain with an attribute for each joint pair behind it, whose codes have no order."""
    names = list(domain.names)
    for a, b in pairs:
        name = f"{a}, {b}"
        while name in names:
            name += " "
        names.append(name)
    sizes = [*domain.sizes, *(domain.size(pair) for pair in pairs)]
    return Domain(tuple(names), tuple(sizes), (*domain.ordered, *(0 for _ in pairs)), domain.rules)


def join_pairs(extended: Domain, pairs: Sequence[Clique], columns: Columns) -> Columns:
    """The columns and those of the joint pairs, which stand last in the domain, shape [rows] each."""
    names = extended.names[len(extended) - len(pairs) :]
    own = {name: columns[a] * extended[b] + columns[b] for name, (a, b) in zip(names, pairs, strict=True)}
    return {**columns, **own}


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
        strength: Weight of the entropy over the tables', see `margrave.models._mixture.additive`.
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


def drawn_from(shares: Floats, alike: Longs, rng: np.random.Generator) -> Longs:
    """A code for every row, with exactly the row's own probabilities, shape [rows].

    Every code's count is its expectation rounded up or down, and hardly more than one off among rows of like
    probabilities, too.

    Args:
        shares: Of each code in each row, shape [rows, codes].
        alike: Each row's place among rows of like probabilities, as from `rank_alike`, shape [rows].
        rng: Source of randomness.
    """
    # Neighbours in this order have like probabilities, so that their roundings make up for each other.
    return pivotal(shares, order_by_group(alike, int(alike.max(initial=0)) + 1), rng)


def rank_alike(shares: Floats) -> Longs:
    """Places of rows by the likeliest code, then by its probability; one place for those alike: [rows].

    Args:
        shares: Of each code in each row, shape [rows, codes]. Of two codes the second one's says all.
    """
    two = shares.shape[1] == 2
    values = shares[:, 1] if two else shares.max(axis=1)
    # Rows that are alike get one place, so the order that sorting leaves them in does not matter.
    found = _rank_sorted(np.argsort(values), values)
    if two or not len(shares):
        return found
    likeliest = shares.argmax(axis=1)
    by = order_by_group(found, int(found.max()) + 1)
    by = by[order_by_group(likeliest[by], shares.shape[1])]
    return _rank_sorted(by, values, likeliest)


def _rank_sorted(by: Longs, *keys: NDArray[Any]) -> Longs:
    """Place of each row among all in an order, rows of the same keys, shape [rows] each, having one place."""
    changes = np.zeros(len(by), dtype=np.bool_)
    for key in keys:
        ordered = key[by]
        changes[1:] |= ordered[1:] != ordered[:-1]
    found = np.empty(len(by), dtype=np.int64)
    found[by] = np.cumsum(changes)
    return found


def _dual(
    domain: Domain, target: str, tables: Sequence[Pooled], total: float, columns: Columns, strength: float
) -> Dual:
    """What `fit_additive` minimises; without rows, as if there were one of which nothing is known."""
    rest = domain.marginalize((target,))
    starts = _starts(rest)
    table, ridge = (np.full((starts[-1] + 1, domain[target]), fill) for fill in (0.0, 1.0))
    bonds = np.zeros((starts[-1], domain[target]))
    alone = not any(len(column) for column in columns.values())
    measured = _target_tables(rest, target, tables, 1 if alone else 2)
    which = [i for i, _, _ in measured]
    rows = 1 if alone else len(next(iter(columns.values())))
    found = _read_columns(rest, columns, which, rows)
    if rows > MOST_ROWS:
        rows, kept = MOST_ROWS, np.arange(MOST_ROWS) * rows // MOST_ROWS  # evenly spread
        found = [column[kept] for column in found]
    codes = lines_of(found, [starts[i] for i in which], rows)
    # Every row names one line of each measured table, so a line's count over the rows is its share.
    shares = np.zeros(len(table))
    for i, column in zip(which, found, strict=True):
        counts = np.bincount(column)
        shares[starts[i] : starts[i] + len(counts)] += counts
    shares /= len(codes)
    for i, values, sigma in measured:
        block, noise = slice(starts[i], starts[i] + len(values)), sigma / total
        table[block], ridge[block] = sum_to_shares(values / total, noise, shares[block]), strength * noise
        if i == len(rest):
            # The target's own table is shrunk by its noise alone: its shares are not an effect to be
            # estimated.
            continue
        ridge[block] = slack(table[block], noise, shares[block], strength)
        if rest.ordered[i] > 2:
            # Differences run from a line to the next one of the same attribute, so the last line has none.
            inside = slice(block.start, block.stop - 1)
            ridge[block], bonds[inside] = chain_neighbours(ridge[block], rest.ordered[i])
    return Dual(codes, shares, starts, table, ridge, bonds)


def _soften(lines: Ints, potentials: Floats) -> Floats:
    """The softmax of the sum of the potentials of each row's lines, shape [rows, target's codes]."""
    found = np.empty((len(lines), potentials.shape[1]))
    softmax(lines, potentials, found)
    return found


def _starts(rest: Domain) -> list[int]:
    """The first line of each attribute's potentials, and that of the biases."""
    return [0, *itertools.accumulate(rest.sizes)]


def _target_tables(
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


def _read_columns(
    rest: Domain, columns: Columns, which: Sequence[int], rows: int
) -> list[NDArray[np.integer[Any]]]:
    """The codes of the attributes at some places in `rest`, once they are seen to fit; 0 for the biases,
    which stand behind the attributes. Each of shape [rows]."""
    found: list[NDArray[np.integer[Any]]] = []
    for i in which:
        if i == len(rest):
            found.append(np.zeros(rows, dtype=np.int32))
            continue
        name, size = rest.names[i], rest.sizes[i]
        column = np.asarray(columns.get(name, ()))
        if column.shape != (rows,):
            asked = f"of one code a row for {name!r}"
            raise InputError(invalid("columns", asked, "Give all other columns."))
        if rows and (column.min() < 0 or column.max() >= size):
            asked = f"of codes from 0 to {size - 1} for {name!r}"
            raise InputError(invalid("columns", asked, "Encode over this domain."))
        found.append(column)
    return found
