"""What a release may be used for, judged from released tables and the sizes of their noise alone.

One function, `judge_release`, makes the verdict that the report, `margrave synthesize` and `margrave show`
print first. It reads noisy tables, their standard deviations and the fitted model, so it is post-processing
and costs nothing. docs/usefulness.md has the releases on which the constants below were chosen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from margrave.release import Release
from margrave.report.html import Level
from margrave.report.release.fit import MAX_CELLS_OF_PAIRS, Estimate, Fitted, Released
from margrave.schema.columns import Binned, Column, Identifier, Listed, Omitted, Relative
from margrave.schema.domain import Clique

if TYPE_CHECKING:
    from margrave.protocols import Model

WORDS = {Level.GOOD: "usable", Level.FAIR: "usable in part", Level.BAD: "not usable"}
"""Most of it is usable, a part is, next to nothing is."""

LEAST_SEEN = 0.5
"""A column is lost in the noise where values that stand out of it hold less than this share of the rows."""
MOST_OTHER = 0.5
"""A column is lost to "(other)" where the values that were not kept hold at least this share of the rows."""
ONE_VALUE = 0.98
"""A column has one value where that value holds at least this share of the rows."""
CLAMPED_SHARE, CLAMPED_STEEPNESS = 0.1, 4.0
"""A column is clamped where an end bin holds this share of the rows, and is so much denser than the next."""
MIN_SHARE_PARTLY_USABLE, MIN_SHARE_USABLE = 0.25, 0.75
"""Shares of columns that came through: below the first nothing is usable, below the second a part is."""
MIN_PAIR_DEVIATIONS = 4.0
"""Standard normal deviations by which the dependence of a pair has to stand out of its noise."""
KEPT, MOST_KEPT = 0.5, 0.5
"""Least share of its dependence that a kept pair has, and of its pairs that a usable release keeps."""
SCARCE_ROWS_OVER_NOISE = 4.0
"""Rows are scarce where there are fewer than this many times the noise of a count."""
MOST_PAIRS = 3000
"""Pairs that are looked at; of more, every so many, in the order of the table."""


@dataclass(frozen=True, slots=True)
class ColumnUse:
    """How much of one column came through.

    Args:
        name: Of the column.
        state: "clear", "noise" (lost in the noise), "other" (most rows are in "(other)"), "clamped" (an end
            of its bounds holds far too many rows), "one" (one value), "keys" (nearly all rows have made-up
            texts of one beginning or pattern) or "unmeasured".
        seen: Share of the rows whose value stands out of the noise.
        noise: Expected distance between the released and the private shares, half the sum over the values.
        other: Share of the rows in "(other)"; None where there is no such value.
        ends: Share of the rows in the first and the last bin; None where there are no bins.
        declared: Whether nothing of it had to be discovered.
    """

    name: str
    state: str
    seen: float
    noise: float
    other: float | None
    ends: float | None
    declared: bool

    @property
    def usable(self) -> bool:
        """Whether its shares say something."""
        return self.state == "clear"


@dataclass(frozen=True, slots=True)
class PairUse:
    """The dependence of one measured pair.

    Args:
        pair: Two names.
        beyond: Standard normal deviations by which the released dependence stands out of its noise.
        kept: Share of it that the model has; None without a model, or where it does not stand out.
    """

    pair: Clique
    beyond: float
    kept: float | None

    @property
    def found(self) -> bool:
        """Whether its dependence stands out of the noise."""
        return self.beyond >= MIN_PAIR_DEVIATIONS


@dataclass(frozen=True, slots=True)
class Usefulness:
    """What a release may be used for.

    Args:
        level: How much of it is usable.
        columns: One by one, in the order of the table; identifiers are left out.
        pairs: The measured pairs that were looked at.
        measured: How many pairs were measured.
        rows: The number of rows, with noise.
        sigma: Median standard deviation of the noise in a table of one column, in rows; 0 without one.
        max_rows: Rows an owner that were used.
        epsilon: Of the release; where nothing is promised, that of the run whose noise it has.
        left_out: Columns that discovery left out.
        keys: Columns that discovery took for keys: their values are new and say nothing of the other columns.
    """

    level: Level
    columns: tuple[ColumnUse, ...]
    pairs: tuple[PairUse, ...]
    measured: int
    rows: float
    sigma: float
    max_rows: int
    epsilon: float
    left_out: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()

    @property
    def word(self) -> str:
        """The level in a word or two."""
        return WORDS[self.level]

    @property
    def usable(self) -> tuple[ColumnUse, ...]:
        """The columns that came through."""
        return tuple(column for column in self.columns if column.usable)

    @property
    def found(self) -> tuple[PairUse, ...]:
        """The pairs whose dependence stands out of the noise."""
        return tuple(pair for pair in self.pairs if pair.found)

    @property
    def lost(self) -> tuple[PairUse, ...]:
        """Those of them that the model has (about) independent."""
        return tuple(pair for pair in self.found if pair.kept is not None and pair.kept < KEPT)

    @property
    def independent(self) -> tuple[str, ...]:
        """Columns measured as dependent that depend on nothing in the model."""
        kept = {name for pair in self.found if pair not in self.lost for name in pair.pair}
        return tuple(dict.fromkeys(name for pair in self.lost for name in pair.pair if name not in kept))

    @property
    def scarce(self) -> bool:
        """Whether the noise of a count is as large as many rows together."""
        return self.sigma * SCARCE_ROWS_OVER_NOISE > self.rows

    def in_state(self, *states: str) -> tuple[ColumnUse, ...]:
        """The columns in any of some states."""
        return tuple(column for column in self.columns if column.state in states)

    def __str__(self) -> str:
        """The verdict with its reasons and next steps, as the command line prints it."""
        from margrave.report.release.advice import compose_verdict

        return "\n".join(compose_verdict(self))

    def to_json(self) -> dict[str, Any]:
        """The verdict and what it rests on."""
        return {
            "verdict": self.word,
            "columns": len(self.columns),
            "usable columns": len(self.usable),
            "lost": {column.name: column.state for column in self.columns if not column.usable},
            "left out": list(self.left_out),
            "keys": list(self.keys),
            "pairs measured": self.measured,
            "pairs above the noise": len(self.found),
            "pairs that came out independent": len(self.lost),
        }


def judge_release(release: Release, model: Model | None) -> Usefulness:
    """The verdict on a release, from released quantities alone.

    **Privacy.** Post-processing: the release and the model fitted to it.

    Args:
        release: What left the private side.
        model: The model fitted to it; without one nothing is said of what it keeps of the dependence.
    """
    released, declared = Released(release), set(release.declared_columns)
    columns = tuple(
        _judge_column(column, released.estimate((column.name,)), released.rows, column.name in declared)
        for column in release.schema.attributes
    )
    blurred = {column.name for column in columns if column.state in {"noise", "unmeasured"}}
    measured = released.pairs
    clear = [pair for pair in measured if not blurred & set(pair)]
    pairs = tuple(_judge_pairs(released, _thin_out(clear, released), Fitted(model, None)))
    return Usefulness(
        _level(columns, pairs, len(measured)),
        columns,
        pairs,
        len(measured),
        float(release.total),
        _noise_of_columns(release),
        release.guarantee.neighbours.unit.max_rows,
        release.guarantee.noise_epsilon,
        _found_as(release, Omitted),
        _found_as(release, Identifier),
    )


def _found_as(release: Release, kind: type[Column]) -> tuple[str, ...]:
    """Names of the columns of a kind that was not declared."""
    declared = set(release.declared_columns)
    found = (column.name for column in release.schema.columns if isinstance(column, kind))
    return tuple(name for name in found if name not in declared)


def _level(columns: Sequence[ColumnUse], pairs: Sequence[PairUse], measured: int) -> Level:
    known = [column for column in columns if column.state != "unmeasured"]
    if not known:
        return Level.FAIR if columns else Level.BAD
    share = sum(column.usable for column in known) / len(known)
    if share < MIN_SHARE_PARTLY_USABLE:
        return Level.BAD
    found = [pair for pair in pairs if pair.found]
    kept = [pair for pair in found if pair.kept is None or pair.kept >= KEPT]
    joint = bool(found) and len(kept) >= MOST_KEPT * len(found)
    return Level.GOOD if share >= MIN_SHARE_USABLE and (joint or len(columns) == 1) else Level.FAIR


def _noise_of_columns(release: Release) -> float:
    sigmas = [float(np.median(table.sigma)) for table in release.measurements if len(table.clique) == 1]
    return float(np.median(sigmas)) if sigmas else 0.0


def _judge_column(column: Column, estimate: Estimate | None, rows: float, declared: bool) -> ColumnUse:
    """The state of a column, from its released table."""
    if estimate is None:
        return ColumnUse(column.name, "unmeasured", 0.0, math.inf, None, None, declared)
    shares, sigmas = estimate.values / rows, estimate.sigmas / rows
    noise = math.sqrt(2 / math.pi) * float(sigmas.sum()) / 2
    # The largest of n draws of noise is about sqrt(2 ln n) standard deviations.
    bar = max(2.0, math.sqrt(2 * math.log(shares.size)))
    clear = np.where(shares > bar * sigmas, shares, 0.0)
    seen = min(float(clear.sum()), 1.0)
    code = column.other_code if isinstance(column, Listed) else None
    other = None if code is None else min(max(float(shares[code]), 0.0), 1.0)
    ends = _share_of_ends(column, clear)
    state = "clear"
    if seen < LEAST_SEEN:
        state = "noise"
    elif other is not None and other >= MOST_OTHER:
        state = "other"
    elif _is_clamped(column, clear, declared):
        state = "clamped"
    elif _has_one_value(column, clear):
        state = "keys" if _has_made_up(column, clear) else "one"
    return ColumnUse(column.name, state, seen, noise, other, ends, declared)


def _has_one_value(column: Column, clear: NDArray[np.float64]) -> bool:
    """Whether one value holds nearly all rows, or nearly all are missing.

    A column that is coded relative to another has as many values as that one, even where its difference from
    it, or its quotient by it, is the same in all rows. One value and many missing cells, as a cross that
    marks an answer, are two values; where the value is made up, keys are missing in some rows.
    """
    present = clear[: column.present]
    held = float(present.sum())
    if held < 1 - ONE_VALUE:
        return True
    rows = held if _has_made_up(column, clear) else float(clear.sum())
    return not isinstance(column, Relative) and float(present.max()) >= ONE_VALUE * rows


def _has_made_up(column: Column, clear: NDArray[np.float64]) -> bool:
    """Whether nearly all rows share codes that each stand for many made-up texts."""
    if not isinstance(column, Listed) or column.values is None:
        return False
    first, drawn = len(column.values), [bool(shape) for shape in (*column.rests, *column.patterns)]
    made_up = float(clear[first : first + len(drawn)][drawn].sum())
    return made_up >= ONE_VALUE * float(clear[: column.present].sum()) > 0.0


def _share_of_ends(column: Column, clear: NDArray[np.float64]) -> float | None:
    if not isinstance(column, Binned) or column.present < 2:
        return None
    return min(float(clear[0] + clear[column.present - 1]), 1.0)


def _is_clamped(column: Column, clear: NDArray[np.float64], declared: bool) -> bool:
    """Whether an end bin holds far more than the bins beside it, by density.

    A value outside declared bounds is counted in the bin at their end, unless the run refuses such values.
    Bounds at zero are left out, since many columns have many zeros; so are bounds that were discovered, which
    lie where the rows end.
    """
    if not declared or column.strict or not isinstance(column, Binned) or column.edges is None:
        return False
    if column.present < 2:
        return False
    shares, widths = clear[: column.present], np.diff(column.edge_array)
    return any(
        bound != 0
        and shares[end] >= CLAMPED_SHARE
        and shares[end] * widths[beside] > CLAMPED_STEEPNESS * shares[beside] * widths[end]
        for end, beside, bound in ((0, 1, column.edges[0]), (-1, -2, column.edges[-1]))
    )


def _thin_out(pairs: Sequence[Clique], released: Released) -> list[Clique]:
    """At most MOST_PAIRS pairs with at most MAX_CELLS_OF_PAIRS cells in all, spread over the table."""
    chosen = list(pairs[:: max(1, math.ceil(len(pairs) / MOST_PAIRS))])
    cells = np.cumsum([released.domain.size(pair) for pair in chosen])
    return [pair for pair, sum_so_far in zip(chosen, cells, strict=True) if sum_so_far <= MAX_CELLS_OF_PAIRS]


def _judge_pairs(released: Released, pairs: Sequence[Clique], fitted: Fitted) -> Iterable[PairUse]:
    """The dependence of each pair, in the released tables and in the model."""
    estimates = [estimate for pair in pairs if (estimate := released.estimate(pair)) is not None]
    found = [_measure_dependence(estimate) for estimate in estimates]
    far = [place for place, (beyond, _, _) in enumerate(found) if beyond >= MIN_PAIR_DEVIATIONS]
    shares = fitted.shares([estimates[place].clique for place in far])
    models = {} if shares is None else dict(zip(far, shares, strict=True))
    for place, (estimate, (beyond, residual, signal)) in enumerate(zip(estimates, found, strict=True)):
        kept = None
        if place in models:
            expected = _leave_dependence(models[place] * released.rows, estimate.values)
            kept = float((expected * residual).sum()) / signal
        yield PairUse(estimate.clique, beyond, kept)


def _measure_dependence(estimate: Estimate) -> tuple[float, NDArray[np.float64], float]:
    """How far the dependence of a released pair stands out of its noise.

    Of a table N p q' of independent columns nothing is left once p is projected out of its columns and
    q out of its rows, while noise of variance s^2 a cell keeps s^2 (r - 1)(c - 1) of its square. The square
    is set against a chi-squared distribution with the mean and variance of the noise's, by the cube root of
    Wilson and Hilferty (1931).

    Returns:
        Standard normal deviations, what is left of the table, and its square without the noise's part.
    """
    residual = _leave_dependence(estimate.values, estimate.values)
    first, second = (1 - np.square(axis) for axis in _axes(estimate.values))
    weights = np.outer(first, second)
    variances = np.square(estimate.sigmas)
    mean = float((weights * variances).sum())
    # Two columns of one code each leave nothing.
    if mean <= 0 or min(residual.shape) < 2:
        return 0.0, residual, 1.0
    spread = 2 * float((weights * variances**2).sum())
    freedom = 2 * mean**2 / spread
    square = float(np.square(residual).sum())
    step = 2 / (9 * freedom)
    beyond = ((square / mean) ** (1 / 3) - (1 - step)) / math.sqrt(step)
    return beyond, residual, max(square - mean, 1e-300)


def _axes(table: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The margins of a pair's table as unit vectors."""
    margins = (np.maximum(table.sum(axis=1), 0.0), np.maximum(table.sum(axis=0), 0.0))
    first, second = (margin / max(float(np.linalg.norm(margin)), 1e-300) for margin in margins)
    return first, second


def _leave_dependence(table: NDArray[np.float64], margins: NDArray[np.float64]) -> NDArray[np.float64]:
    """What is left of a table once the margins of another one are projected out of it."""
    first, second = _axes(margins)
    left = table - np.outer(first, first @ table)
    rest: NDArray[np.float64] = left - np.outer(left @ second, second)
    return rest
