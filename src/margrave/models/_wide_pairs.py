"""Wide pairs: measured pairs of two attributes in groups of codes, known code by code.

A model over groups of codes (`margrave.models._grouping`) knows nothing of a pair inside of groups, and
millions of cells are more than a model can follow. The pair's own noisy counts are told from noise here, cell
by cell:

1. *What is expected of a cell*: what the model expects, scaled to what is left of the margins when cells that
   noise does not explain (OWN_COUNT_DEVIATIONS) have their own counts; several turns of both.
2. *What a cell may hold*: nothing, some multiple of what is expected (RATIOS), or any size. Cells of about
   the same expectation have one distribution of these, which is found by maximum likelihood (expectation
   maximisation). That is empirical Bayes with a prior on a grid (Stephens 2017, doi
   10.1093/biostatistics/kxw041). A count varies around m by chance with variance m, noise adds sigma^2.
3. *The estimate* is the median of a cell given its noisy count, whose expected absolute error is least. Last,
   what lines of cells lack of their margins is spread over them in proportion to the variances that are left.

Post-processing of releases throughout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.errors import ReleaseError, invalid
from margrave.models._base.pooling import Pooled, dependence
from margrave.schema.domain import Clique

if TYPE_CHECKING:
    from margrave import protocols
    from margrave.models._grouping import CodeGrouping

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

OWN_COUNT_DEVIATIONS = 3.5
"""Standard deviations of noise from which on a cell's own count is taken: 230 of a million empty ones."""
TURNS, PASSES = 3, 8
"""How often cells are told from noise, and passes of proportional fitting of the rest each time."""
MAX_LINE_FACTOR = 1e3
"""By how much a line of cells may be raised at most: where counts of their own leave nothing for the others,
margins cannot be met."""

RATIOS = np.array([0.0, 0.25, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0])
"""Counts that a cell may hold, over what is expected of it. Any size besides: powers of sqrt(2)."""
MIN_SIZE = 0.25
"""The least of those sizes, in standard deviations of noise."""
ITERATIONS = 60
"""Of expectation maximisation."""
MIN_ALIKE, MAX_ALIKE = 2_000, 20_000
"""Cells that share one prior at least, and those that it is found on at most."""
CELLS_AT_ONCE = 1 << 15

MIN_ROWS_A_CODE = 1_000
"""Rows for each code of a pair's larger attribute from which on a model over groups need not follow the
pair. With 2,700 and 5,000 (three made tables) that is better by 4 to 15 % in the pair itself, 10 to 13 % and
6 to 23 % in its attributes' pairs with others, in a third of the time; with 50 to 100 (four tables of the
choosing half) pairs are 0 to 5 % worse."""


class WidePair:
    """A pair of two attributes and how one is drawn given the other.

    Args:
        names: The attributes, in the domain's order.
        shares: Their distribution, shape [codes, codes].
    """

    def __init__(self, names: Clique, shares: Floats) -> None:
        self.names = names
        self.shares = shares

    def draw(self, child: str, drawn: Longs, parent: Longs, groups: Longs, rng: np.random.Generator) -> Longs:
        """Codes of one attribute given the other's, shape [rows].

        The rows with one code of the parent have the child's codes as often as the table says, up to
        rounding. Of each group of codes as many rows as possible stay in it.

        Args:
            child: The attribute to draw.
            drawn: Its groups by the model, shape [rows].
            parent: The other attribute's codes, shape [rows].
            groups: The group of each of the child's codes.
            rng: Source of randomness.
        """
        table = self.shares if child == self.names[1] else self.shares.T
        count = int(groups.max()) + 1
        # Shuffled first, so that among equals chance decides which row gets which code.
        rows = rng.permutation(len(parent))
        rows = rows[np.argsort(parent[rows] * count + drawn[rows], kind="stable")]
        # The parent's code and the child's group in one number.
        have = parent[rows] * count + drawn[rows]
        kept, codes = _codes_by_parent(table, np.bincount(parent, minlength=len(table)), rng)
        # The codes that the table wants for each parent, sorted by group in the same way as the rows are.
        order = rng.permutation(len(codes))
        order = order[np.argsort(kept[order] * count + groups[codes[order]], kind="stable")]
        kept, codes = kept[order], codes[order]
        wanted = kept * count + groups[codes]
        # Row and code number r of the same parent and group go together; all others by parent alone.
        cells = len(table) * count
        most = np.minimum(np.bincount(have, minlength=cells), np.bincount(wanted, minlength=cells))
        stays, fits = (_rank(keys) < most[keys] for keys in (have, wanted))
        found = np.empty(len(parent), dtype=np.int64)
        found[rows[stays]] = codes[fits]
        found[rows[~stays]] = codes[~fits]
        return found

    def spread(self, table: Floats, clique: Clique) -> Floats:
        """A table that holds both attributes, brought to their distribution."""
        others = tuple(i for i, name in enumerate(clique) if name not in self.names)
        # A pair that the model holds for impossible could otherwise not be raised at all.
        table = np.maximum(table, 1e-12 * float(table.sum()) / table.size)
        have = table.sum(axis=others)
        wanted = self.shares if clique.index(self.names[0]) < clique.index(self.names[1]) else self.shares.T
        return np.asarray(table * np.expand_dims(table.sum() * wanted / have, others))


def choose_wide_pairs(grouping: CodeGrouping, tables: Sequence[Pooled]) -> list[Clique]:
    """The measured pairs whose attributes are both modelled in groups, the most dependent first.

    No attribute is drawn twice: a pair of two that others have settled is left out.

    Args:
        grouping: The groups.
        tables: What was measured, in codes.
    """
    ranked: list[tuple[float, Clique]] = []
    for table in tables:
        # An inferred pair has no cells of its own to add.
        if len(table.clique) == 2 and not table.inferred and grouping.groups.keys() >= set(table.clique):
            expected = np.outer(*(grouping.find_one_way(tables, name) for name in table.clique))
            rest, evident = find_rest(
                expected * max(float(table.values.sum()), 1.0), table.values, table.sigma
            )
            shares = np.where(evident, np.maximum(table.values, 0.0), rest)
            ranked.append((-dependence(shares / max(float(shares.sum()), 1e-300)), table.clique))
    return _keep_tree([pair for _, pair in sorted(ranked, key=lambda one: one[0])])


def _keep_tree(pairs: Sequence[Clique]) -> list[Clique]:
    """The pairs of which each has an attribute that none before it has."""
    # A pair draws one attribute given the other, so a pair of two that are drawn already would have nothing
    # left to say.
    settled: set[str] = set()
    kept: list[Clique] = []
    for pair in pairs:
        if not settled.issuperset(pair):
            kept.append(pair)
            settled.update(pair)
    return kept


def leave_out_pairs(
    grouping: CodeGrouping, tables: Sequence[Pooled], chosen: Sequence[Clique]
) -> list[Pooled]:
    """The tables that a model over groups has to follow, in groups.

    Chosen pairs of many rows (MIN_ROWS_A_CODE) are left out, where the one-ways of both were measured: a
    model that is asked for so many precise cells, which it cannot hold, loses other pairs by it.

    Args:
        grouping: The groups.
        tables: What was measured, in codes.
        chosen: Of the pairs; see `choose_wide_pairs`.
    """
    known = {table.clique[0] for table in tables if len(table.clique) == 1}
    left_out = {
        table.clique
        for table in tables
        if table.clique in chosen
        and known >= set(table.clique)
        and float(table.values.sum()) >= MIN_ROWS_A_CODE * max(table.values.shape)
    }
    return [grouping.summed(table) for table in tables if table.clique not in left_out]


def estimate_wide_pairs(
    model: protocols.Model, grouping: CodeGrouping, tables: Sequence[Pooled], chosen: Sequence[Clique]
) -> list[WidePair]:
    """Those pairs with the cells' estimates, in the order given.

    Args:
        model: Over groups.
        grouping: The groups.
        tables: What was measured, in codes.
        chosen: Of the pairs; see `choose_wide_pairs`.
    """
    by_clique = {table.clique: table for table in tables}
    found = []
    for pair in chosen:
        expected = grouping.spread(np.maximum(model.project(pair), 0.0), pair)
        found.append(WidePair(pair, estimate_cells(expected, by_clique[pair].values, by_clique[pair].sigma)))
    return found


def restore_wide_pairs(
    model: protocols.Model, grouping: CodeGrouping, tables: Sequence[Pooled], state: Mapping[str, Floats]
) -> list[WidePair]:
    """The pairs that a saved state names, from the measurements saved beside it; see `estimate_wide_pairs`.

    Raises:
        ReleaseError: The state names pairs that were not measured or are not modelled in groups, or one too
            many: of two attributes that others have settled.
    """
    places = np.asarray(state.get("wide_pairs", np.zeros((0, 2))), dtype=np.float64)
    known = set(range(len(grouping.domain)))
    if places.ndim != 2 or places.shape[1] != 2 or not set(places.ravel().tolist()) <= known:
        raise ReleaseError(invalid("state", "of wide pairs of the domain", "The release is damaged."))
    # Only their names are saved: the tables are among the measurements, and are not held twice.
    pairs = [(grouping.domain.names[int(a)], grouping.domain.names[int(b)]) for a, b in places]
    measured = {table.clique for table in tables}
    sound = all(pair in measured and grouping.groups.keys() >= set(pair) for pair in pairs)
    if not sound or _keep_tree(pairs) != pairs:
        raise ReleaseError(invalid("state", "of wide pairs that were measured", "The release is damaged."))
    return estimate_wide_pairs(model, grouping, tables, pairs)


def estimate_cells(expected: Floats, values: Floats, sigma: Floats) -> Floats:
    """A distribution from noisy counts and what is expected of them; see the module.

    Its margins are those that are expected, as far as cells leave it open.

    Args:
        expected: Counts by a model, at least 0, shape [codes, codes].
        values: Noisy counts, of the same shape.
        sigma: Standard deviations of their noise.

    Returns:
        Shares that sum to 1, of the same shape.
    """
    rest, _ = find_rest(expected, values, sigma)
    table, variance = (
        part.reshape(values.shape) for part in _find_medians(rest.ravel(), values.ravel(), sigma.ravel())
    )
    # Margins are not exact either, so no cell is moved further than its noise explains.
    reach = OWN_COUNT_DEVIATIONS * np.sqrt(variance)
    least, most = np.maximum(table - reach, 0.0), table + reach
    for _ in range(PASSES):
        for axis in (1, 0):
            short = expected.sum(axis=axis) - table.sum(axis=axis)
            table += variance * np.expand_dims(short / np.maximum(variance.sum(axis=axis), 1e-12), axis)
            np.clip(table, least, most, out=table)
    return np.asarray(table / max(float(table.sum()), 1e-300))


def find_rest(expected: Floats, values: Floats, sigma: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """What is expected of cells once those that noise does not explain have their own counts.

    Args:
        expected: Counts by a model, at least 0, shape [codes, codes].
        values: Noisy counts, of the same shape.
        sigma: Standard deviations of their noise.

    Returns:
        The expected counts, and which cells noise does not explain; both of the same shape.
    """
    rows, columns = expected.sum(axis=1), expected.sum(axis=0)
    rest = expected = np.maximum(expected, 1e-12)
    for _ in range(TURNS):
        # Cells that noise does not explain keep their own count. The others are fitted to what is left of the
        # margins (iterative proportional fitting), after which more or fewer cells may stand out: hence
        # several turns.
        evident = np.abs(values - rest) > OWN_COUNT_DEVIATIONS * sigma
        own = np.where(evident, np.maximum(values, 0.0), 0.0)
        left = np.where(evident, 0.0, expected)
        wanted_rows = np.maximum(rows - own.sum(axis=1), 0.0)
        wanted_columns = np.maximum(columns - own.sum(axis=0), 0.0)
        lines, fields = np.ones(len(rows)), np.ones(len(columns))
        for _ in range(PASSES):
            lines = np.minimum(wanted_rows / np.maximum(left @ fields, 1e-12), MAX_LINE_FACTOR)
            fields = np.minimum(wanted_columns / np.maximum(lines @ left, 1e-12), MAX_LINE_FACTOR)
        # What is expected of cells with counts of their own is needed to tell them from noise again.
        rest = expected * lines[:, None] * fields
    return rest, evident


def _find_medians(rest: Floats, values: Floats, sigma: Floats) -> tuple[Floats, Floats]:
    """Each cell's median given its noisy count, and its variance, shape [cells] both."""
    unit = float(np.median(sigma))
    octaves = np.log2(max(float(values.max()) / unit, 2.0) / MIN_SIZE)
    sizes = unit * MIN_SIZE * 2.0 ** np.arange(0.0, octaves + 1.0, 0.5)
    rest = np.maximum(rest, 1e-9)
    medians, variances = np.empty(len(rest)), np.empty(len(rest))
    for cells in _find_alike(np.log2(np.maximum(rest / unit, 2.0**-10))):
        # Evenly spread over the cells, so that the same release gives the same model again.
        some = cells[:: -(-len(cells) // MAX_ALIKE)]
        _, _, logs = _explain(rest[some], values[some], sigma[some], sizes)
        likely = np.exp(logs - logs.max(axis=1, keepdims=True))
        shares = np.full(likely.shape[1], 1.0 / likely.shape[1])
        for _ in range(ITERATIONS):
            posterior = likely * shares
            shares = (posterior / np.maximum(posterior.sum(axis=1, keepdims=True), 1e-300)).mean(axis=0)
        # No size is ruled out for cells that were not among those.
        shares = np.log(shares + 1e-12)
        for first in range(0, len(cells), CELLS_AT_ONCE):
            part = cells[first : first + CELLS_AT_ONCE]
            means, chance, logs = _explain(rest[part], values[part], sigma[part], sizes)
            logs += shares
            posterior = np.exp(logs - logs.max(axis=1, keepdims=True))
            posterior /= posterior.sum(axis=1, keepdims=True)
            medians[part], variances[part] = _summarize(posterior, means, chance)
    return medians, variances


def _find_alike(logs: Floats) -> Iterator[Longs]:
    """Cells of about the same expectation, octave by octave, and at least MIN_ALIKE of them if possible."""
    order = np.argsort(logs, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(np.round(logs[order]))) + 1, len(order))
    first = 0
    for end in ends.tolist():
        if end == len(order) or (end - first >= MIN_ALIKE and len(order) - end >= MIN_ALIKE):
            yield order[first:end]
            first = end


def _explain(rest: Floats, values: Floats, sigma: Floats, sizes: Floats) -> tuple[Floats, Floats, Floats]:
    """What cells hold if they hold about each ratio of what is expected, or each size.

    Returns:
        Means and variances given the noisy counts, and log-likelihoods of those, shape [cells, ratios and
        sizes] each.
    """
    about = np.concatenate([rest[:, None] * RATIOS, np.broadcast_to(sizes, (len(rest), len(sizes)))], axis=1)
    noise = (sigma**2)[:, None]
    both = noise + about
    miss = values[:, None] - about
    logs = -0.5 * (miss**2 / both + np.log(both))
    return np.maximum(about + about / both * miss, 0.0), about * noise / both, logs


def _summarize(posterior: Floats, means: Floats, chance: Floats) -> tuple[Floats, Floats]:
    """Medians and variances of mixtures of a few values, shape [cells] both."""
    mean = (posterior * means).sum(axis=1)
    variance = (posterior * (chance + (means - mean[:, None]) ** 2)).sum(axis=1)
    order = np.argsort(means, axis=1)
    half = np.argmax(np.cumsum(np.take_along_axis(posterior, order, 1), axis=1) >= 0.5, axis=1)
    at = np.take_along_axis(order, half[:, None], 1)
    return np.take_along_axis(means, at, 1)[:, 0], variance


def _codes_by_parent(table: Floats, counts: Longs, rng: np.random.Generator) -> tuple[Longs, Longs]:
    """As many codes of the child as each code of the parent has rows, by systematic sampling.

    Returns:
        The parent's and the child's code of each, in the order of the parent's, shape [rows] each.
    """
    whole = table.sum(axis=1)
    shares = np.where(whole[:, None] > 0, table, 1.0)
    ends = np.cumsum(shares, axis=1)
    # Systematic sampling: one uniform shift a parent, and a code is drawn as often as its interval on [0,
    # rows] contains a shifted whole number: within 1 of what is expected.
    ends *= (counts / ends[:, -1])[:, None]
    ends += rng.random(len(table))[:, None]
    ends[:, -1] = counts + 0.5
    np.floor(ends, out=ends)
    # Differences of the whole parts are how often each code is drawn.
    times = np.diff(np.minimum(ends, counts[:, None]), axis=1, prepend=0.0).astype(np.int64)
    codes = np.repeat(np.tile(np.arange(table.shape[1]), len(table)), times.ravel())
    return np.repeat(np.arange(len(table)), counts), codes


def _rank(keys: Longs) -> Longs:
    """The place of each among its equals, keys in ascending order."""
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    lengths = np.diff(np.append(starts, len(keys)))
    return np.asarray(np.arange(len(keys)) - np.repeat(starts, lengths))
