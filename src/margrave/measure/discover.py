"""discover: kinds, bounds, categories, missingness and the row count, from the same budget as all else."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, SchemaError, invalid
from margrave.measure.bins import cut, denoise, number_edges, refined_edges, support, widened
from margrave.measure.gaussian import Gaussian
from margrave.measure.partition import EVIDENT, listed_values, may_be_missing, rest_of
from margrave.privacy.ledger import Ledger
from margrave.progress import OnStep, Step
from margrave.release import NoisyMarginal
from margrave.schema.columns import Binned, Boolean, Categorical, Column, Integer, Listed, Real, Unknown
from margrave.schema.schema import Schema

if TYPE_CHECKING:
    from margrave.protocols import Source

__all__ = ["SHARES", "Discovery", "declare", "needs", "searches_values"]

SHARES = {"profile": Fraction(1), "bounds": Fraction(3), "detail": Fraction(7), "values": Fraction(7)}
"""Relative weight of one column's look of each sort when discovery's rho is shared out."""

Z_BOUNDS = 4.5
Z_DETAIL = 3.2


def declare(stored: tuple[Column, ...], declared: Schema | None) -> Schema:
    """What storage says about each column, overridden by what the user declares.

    Raises:
        SchemaError: A declared column is not in the table.
    """
    if declared is None:
        return Schema(stored)
    names = [column.name for column in stored]
    extra = [name for name in declared.names if name not in names]
    if extra:
        raise SchemaError(
            invalid("schema", f"about the table's columns {names}", "Remove the rest.", got=extra)
        )
    known = {column.name: column for column in declared.columns if not isinstance(column, Unknown)}
    return Schema(tuple(known.get(column.name, column) for column in stored))


def needs(column: Column) -> frozenset[str]:
    """The looks a column may need: "profile", then "bounds" and "detail" (numbers) or "values" (text).

    For text of unknown kind the profile decides which of the others follow; all are named here.
    """
    if column.known:
        return frozenset()
    if isinstance(column, Unknown):
        return frozenset(SHARES)
    if isinstance(column, Listed):
        return frozenset({"profile"} if column.values is not None else {"values"})
    if isinstance(column, Binned) and column.edges is not None:
        return frozenset({"profile"})
    return frozenset({"profile", "bounds", "detail"} if isinstance(column, Real) else {"bounds", "detail"})


def searches_values(schema: Schema) -> bool:
    """Whether discovery may have to look for unknown values, which needs a share of delta."""
    return any("values" in needs(column) for column in schema.columns)


class Discovery:
    """Completes a schema.

    **Privacy.** Unit and adjacency: the ledger's. Each look is a table of counts over cells fixed before
    the look (public, or made from earlier releases): a row falls into exactly one, so its sensitivity
    is that of one marginal and `Gaussian` prices it; which looks follow depends on released numbers only.

    1. *profile* of a column: missing, whole numbers, other numbers, text [4 cells].
    2. *bounds* of numbers: a fixed grid over all numbers, eight cells an octave.
    3. *detail* of numbers: missing, and cells between the noisy bounds. Bins and weights are cut from it.
    4. *values* of text: missing, and each value that occurs; only values whose noisy count passes a
       threshold are released (`listed_values`), which costs a share of delta as well.

    Looks 3 and 4 are kept as measurements of the column, so their rho is not lost to the model.

    Args:
        source: The private table.
        gaussian: The mechanism.
        ledger: Where spends are recorded; its partition delta is shared by the searches for values.
        on_step: Told about each look.
    """

    def __init__(self, source: Source, gaussian: Gaussian, ledger: Ledger, on_step: OnStep) -> None:
        self._source = source
        self._gaussian = gaussian
        self._ledger = ledger
        self._on_step = on_step
        self._totals: list[tuple[float, float]] = []

    def run(self, declared: Schema | None, rho: Fraction) -> tuple[Schema, list[NoisyMarginal]]:
        """The known schema and the one-way marginals released on the way.

        Raises:
            InputError: There is something to discover and rho is 0.
            BudgetError: rho does not fit.
        """
        schema = declare(self._source.columns, declared)
        if schema.known:
            return schema, []
        if rho <= 0:
            raise InputError(
                invalid("rho", "above 0 when columns are not fully declared", "Declare them all.")
            )
        left = self._ledger.remaining - rho
        profiled = self._profiles(schema, rho)
        open_columns = [column for column in profiled.columns if not column.known]
        weight = sum((self._weight(column) for column in open_columns), Fraction(0))
        unit = (self._ledger.remaining - left) / weight if weight else Fraction(0)
        searches = sum("values" in needs(column) for column in open_columns)
        delta = self._ledger.remaining_delta / searches if searches else Fraction(0)
        found = []
        for column in open_columns:
            known, marginal = self._complete(column, unit, delta)
            profiled = profiled.replace([known])
            found.append(marginal)
        return profiled, [rest_of(m, profiled[m.clique[0]], self._totals) for m in found]

    @staticmethod
    def _weight(column: Column) -> Fraction:
        return sum((SHARES[look] for look in needs(column) - {"profile"}), Fraction(0))

    def _profiles(self, schema: Schema, rho: Fraction) -> Schema:
        """Settle kinds, and the missingness of columns of which nothing else is open."""
        unsure = [column for column in schema.columns if "profile" in needs(column)]
        weights = [
            self._weight(c) if not isinstance(c, Unknown) else SHARES["values"]
            for c in schema.columns
            if not c.known
        ]
        share = rho * len(unsure) / (len(unsure) + sum(weights, Fraction(0))) if unsure else Fraction(0)
        for column in unsure:
            self._tell(f"profile of {column.name}")
            noisy, sigma = self._look(
                f"profile of {column.name}", self._kinds(column.name), share / len(unsure)
            )
            schema = schema.replace([_settle(column, noisy, sigma)])
        return schema

    def _complete(self, column: Column, unit: Fraction, delta: Fraction) -> tuple[Column, NoisyMarginal]:
        if isinstance(column, Binned):
            lower, upper = self._bounds(column, unit * SHARES["bounds"])
            return self._detail(column, lower, upper, unit * SHARES["detail"])
        if not isinstance(column, Listed):
            raise SchemaError(invalid(f"column {column.name!r}", "of a known kind", "Declare its kind."))
        self._tell(f"values of {column.name}")
        return listed_values(
            column, self._source, self._gaussian, self._ledger, unit * SHARES["values"], delta
        )

    def _bounds(self, column: Binned, rho: Fraction) -> tuple[float, float]:
        """Noisy bounds: the support of the denoised histogram over the fixed grid. Costs rho."""
        if column.lower is not None and column.upper is not None:
            return float(column.lower), float(column.upper) + isinstance(column, Integer)
        self._tell(f"bounds of {column.name}")
        edges = number_edges(isinstance(column, Integer))
        exact = self._source.histogram(column.name, edges).reveal()
        noisy, sigma = self._look(f"bounds of {column.name}", exact, rho, every_row=False)
        return widened(edges, support(noisy, sigma, Z_BOUNDS), isinstance(column, Integer))

    def _detail(
        self, column: Binned, lower: float, upper: float, rho: Fraction
    ) -> tuple[Column, NoisyMarginal]:
        """Bins, weights and missingness from one histogram between the bounds. Costs rho."""
        self._tell(f"detail of {column.name}")
        edges = refined_edges(lower, upper, isinstance(column, Integer))
        inside = self._source.histogram(column.name, edges).reveal()
        absent = self._absent(column.name)
        noisy, sigma = self._look(f"detail of {column.name}", np.concatenate([[absent], inside]), rho)
        weights = denoise(noisy[1:], sigma, 2.0, Z_DETAIL)
        found = cut(edges, weights, column.bins, self._least(weights))
        missing = may_be_missing(column, float(noisy[0]), sigma)
        known = dataclasses.replace(
            column,
            lower=None,
            upper=None,
            edges=tuple(found.edges.tolist()),
            fine=tuple(found.fine.tolist()),
            weights=tuple(found.weights.tolist()),
            missing=missing,
            strict=False,
        )
        return known, _marginal(known, edges, noisy, sigma)

    def _least(self, weights: NDArray[np.float64]) -> float:
        """Least mass of a bin: twice the noise that a later one-way measurement will have."""
        later = self._ledger.total / (32 * max(len(self._source.columns), 1))
        return min(2.0 * self._gaussian.sigma(later), float(weights.sum()) / 2)

    def _look(
        self, what: str, exact: NDArray[np.int64], rho: Fraction, *, every_row: bool = True
    ) -> tuple[NDArray[np.float64], float]:
        """A noisy table and its sigma; one that holds every row also tells how many there are."""
        sigma = self._gaussian.record([what], rho)
        noisy = self._gaussian.noisy(exact, rho)
        if every_row:
            self._totals.append((float(noisy.sum()), sigma**2 * noisy.size))
        return noisy, sigma

    def _kinds(self, name: str) -> NDArray[np.int64]:
        return self._source.kinds(name).reveal()

    def _absent(self, name: str) -> int:
        """Rows without a number: missing, or text that is none. **Not private.**"""
        kinds = self._kinds(name)
        return int(kinds[0] + kinds[3])

    def _tell(self, message: str) -> None:
        self._on_step(Step("discover", message, 0, float(self._ledger.spent / self._ledger.total)))


def _settle(column: Column, noisy: NDArray[np.float64], sigma: float) -> Column:
    """What a noisy profile says: the kind of an Unknown or a Real, missingness where all else is known."""
    missing, _, broken, text = noisy
    evident = EVIDENT * sigma
    if isinstance(column, Unknown):
        share = max(evident, 0.02 * float(noisy.sum()))
        if text > share:
            return Categorical(name=column.name, missing=column.missing, strict=False)
        kind = Real if broken > evident else Integer
        return kind(name=column.name, missing=column.missing, strict=False)
    if isinstance(column, Real) and column.edges is None:
        if broken > evident or column.lower is not None or column.upper is not None:
            return column
        return Integer(name=column.name, missing=column.missing, bins=column.bins, strict=False)
    if not isinstance(column, (Binned, Listed, Boolean)):
        raise SchemaError(invalid(f"column {column.name!r}", "of a known kind", "Declare its kind."))
    return dataclasses.replace(column, missing=bool(missing > evident), strict=False)


def _marginal(
    column: Binned, edges: NDArray[np.float64], noisy: NDArray[np.float64], sigma: float
) -> NoisyMarginal:
    """The look at the cells as a measurement of the bins: cells outside the range join the end bins."""
    ends = column.edge_array
    owner = np.clip(np.searchsorted(ends, edges[:-1], side="right") - 1, 0, column.present - 1)
    values = np.bincount(owner, weights=noisy[1:], minlength=column.present).astype(np.float64)
    cells = np.bincount(owner, minlength=column.present).astype(np.float64)
    if column.missing:
        values, cells = np.append(values, noisy[0]), np.append(cells, 1.0)
    spread = sigma * np.sqrt(cells)
    return NoisyMarginal(
        (column.name,), values, spread if len(set(spread)) > 1 else math.sqrt(cells[0]) * sigma
    )
